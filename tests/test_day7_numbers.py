"""Day 7's own numbers, as arithmetic a reader can redo, and beside kernels and a real capture.

Nothing here comes from `problems`. Sources of the figures: the curriculum's Day 7, the Trn2
architecture guide (array, clocks, 3 TB/s, Vector Engine), and one published attention capture:
trn2-lnc2-attn-fused-bf16-s512, Copyright (c) 2026 Allen Chau, MIT licence,
github.com/allenkchau/trainium-kernel-fusion. Its file is not part of the course.
"""

import json
from itertools import pairwise

import pytest
from pages import ROOT

from roofline import ask, gaps, machine, nki, profile
from roofline.check import Choice, Part, ProblemError, WrongAnswer
from roofline.problems import BANK

MIB, KIB = 2**20, 2**10
P, BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8  # one Trn2 core, bf16
FP32 = P / 4

# The MLP: 2048 tokens, D = 1024, F = 4096, bf16
W = 4 * 2048 * 1024 * 4096
FUSED = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
APART = FUSED + 2 * 4 * 2048 * 4096
FLOPS, FEW, MANY = W / P, FUSED / BW, APART / BW  # times

CROSS = 160 * 3072 / (3072 - 2 * 160)  # tokens at which a 3072 x 3072 layer reaches 160 FLOP/B
REUSE = 2 * (8 * 1024 * 1536 + 4 * 1536 * 4096 + 1024 * 4096)
SCOPE = 2 * (1536 * 1024 + 2 * 1024 * 3072 + 1536 * 3072)
PICK_W, PICK_Q = 2 * 3072 * 768 * 1792, 2 * (3072 * 768 + 768 * 1792 + 3072 * 1792)
IDENTITY = 2 * 128 * 128
N = 7 * 2**20
# C = A B, 2048 x 1024 by 1024 x 2048, bf16; a block of C, 128 x 1024, stays: A 2, B 16 times
W_MINE, ONE = 2 * 2048 * 1024 * 2048, 2 * 1024 * 2048
Q_MINE, LESS = (2 + 16) * ONE + 2 * 2048**2, (2 + 4) * ONE + 2 * 2048**2  # then B 4 times
MINE, MOVES = W_MINE / P, Q_MINE / BW
SIZES = 2 * (1024 * 2048 + 2048 * 1536 + 1024 * 1536)
LOOPS = 2 * (3 * 1024 * 2048 + 8 * 2048 * 1536 + 1024 * 1536)
PAIR, PAIR_ONCE = (2 * (1536 * 1536 + loads * 1536 * 2048 + 1536 * 2048) for loads in (2, 1))
PAIR_T = 2 * 1536 * 1536 * 2048 / (2 * P)
STEP = 18 * 2**20 / (256 * 0.96e9)

# The capture, in ns and bytes
T = 36351.609e-9
ATTENTION = 4 * 512 * 512 * 128
QKVO = 4 * 512 * 128 * 2
MIXED = ATTENTION / 2 / P + ATTENTION / 2 / FP32
TURNS = 585e-9 + 3469e-9

NUMBERS = {
    "day7.open.bound": dict(I=9e9 / 105e6, ridge=150, binds="memory", T_best=350e-6,
                            T_worst=550e-6, rate=9e9 / 350e-6),
    "day7.open.crossover": dict(ridge=160, B_ridge=CROSS, side="compute"),
    "day7.open.derate": dict(rate=70e12 * 3 / 4, BW=320e9, ridge=52.5e12 / 320e9, use="measured"),
    "day7.open.reuse": dict(r_A=8, r_B=4, Q=REUSE, I=2 * 1024 * 1536 * 4096 / REUSE),
    "day7.open.scope": dict(P_pair=100e12, BW_pair=500e9, Q=SCOPE,
                            T_best=2 * 1536 * 1024 * 3072 / 100e12),
    "day7.fused": dict(W="34,359,738,368 FLOP", Q="25,165,824 B", I=1365, T_best=437.1e-6,
                       T_worst=504.2e-6),
    "day7.unfused": dict(Q="92,274,688 B", I=372, T_best=437.1e-6, T_worst=683.2e-6,
                         entitled="same"),
    "day7.needed": dict(fused="58 GB/s", unfused="211 GB/s", less="fused"),
    "day7.same_roof": dict(T_best=437.1e-6, worst_fused=504.2e-6, worst_unfused=683.2e-6,
                           saved=(APART - FUSED) / BW, changes="overlap"),
    "day7.mfu": dict(gap=620e-6 - FLOPS, mfu=FLOPS / 620e-6, high="execution", low="traffic",
                     cause="timeline"),
    "day7.own_pick": dict(W=PICK_W, Q=PICK_Q, I=PICK_W / PICK_Q, written="numbers"),
    "day7.own_work": dict(each=2 * 128 * 128 * 512, counted=W_MINE, ratio=1, T_flop=MINE,
                          verdict="same"),
    "day7.own_traffic": dict(read="36 MiB", written="4 MiB", Q="40 MiB", share=34.5 / 28,
                             fits="no"),
    "day7.own_entitlement": dict(I=W_MINE / Q_MINE, ridge=P / BW, side="memory",
                                 rate=W_MINE / MOVES, T_best=MOVES, T_worst=MINE + MOVES),
    "day7.own_elements": dict(T_byte=4 * N / BW, T_engine=N / (128 * 1.2e9), binds="memory",
                              T_best=4 * N / BW, T_worst=4 * N / BW + N / 153.6e9),
    "day7.own_clock": dict(cold=5.7 / 2.4, outside=15e-6, run="second", clock="device"),
    "day7.own_counters": dict(useful=W_MINE, ratio=1, AI=W_MINE / (Q_MINE + IDENTITY),
                              more=IDENTITY, leaves="transposes"),
    "day7.own_point": dict(I=W_MINE / Q_MINE, rate=0.8 * W_MINE / MOVES, share=0.8,
                           mfu=MINE / (1.25 * MOVES), I_seen=W_MINE / (96 * MIB),
                           best_seen=96 * MIB / BW, plot="hand"),
    "day7.own_sum": dict(gap=0.4 * FLOPS, missing=0.4 * FLOPS - 85e-6 - FEW,
                         share=1 - (85e-6 + FEW) / (0.4 * FLOPS), next="find"),
    "day7.own_change": dict(Q_new="32 MiB", I_new=256, T_best=MINE,
                            T_worst=MINE + LESS / BW, missed="3 MB", held="no"),
    "day7.mistake.sizes": dict(Q_sizes=SIZES, Q=LOOPS, over=LOOPS / SIZES - 1, catch="walk"),
    "day7.mistake.bandwidth": dict(T_spec=160e-6, T_reached=250e-6, over=0.5625, where="left",
                                   catch="copy"),
    "day7.mistake.latency": dict(wrong=FLOPS / 4.2e-3, mfu=FLOPS / 560e-6, outside=3.64e-3,
                                 catch="device"),
    "day7.mistake.engine": dict(T_tensor=4e9 / P, T_engine=STEP, mfu=4e9 / P / STEP,
                                binds="vector", catch="each"),
    "day7.mistake.scope": dict(Q=PAIR, Q_once=PAIR_ONCE, T_best=PAIR_T, T_chip=PAIR_T / 4, times=4,
                               catch="setting"),
    "day7.cause.idle": dict(idle=126e-6, share=126 / 588, where="gaps", look="predecessor"),
    "day7.cause.overlap": dict(both=42e-6, alone=204e-6, share=42 / 246, where="turns",
                               look="buffers"),
    "day7.cause.bytes": dict(more="8 MiB", T_more=8 * MIB / BW, where="counters",
                             timeline="hidden", look="transfers"),
    "day7.cause.engine": dict(T_engine=N / (256 * 0.96e9), wait=N / (256 * 0.96e9) - 9e-6,
                              ratio=79, where="runs", look="hide"),
    "day7.cause.fixed": dict(before=10e-6, after=5e-6, share=15 / 48, where="ends", look="launch"),
    "day7.cause.slow": dict(rate=W / 580e-6, share=FLOPS / 580e-6, lost=580e-6 - FLOPS,
                            where="solid", look="tiles", summary="no"),
    "day7.stranger.start": dict(start=13704e-9, before=17234e-9, fill=3530e-9,
                                share=17234 / 36351.6, what="runtime"),
    "day7.stranger.transposes": dict(flops=20 * 2 * 128**3, part=83_886_080 / 285_212_672,
                                     time=TURNS, share=TURNS / T, avoid="dma"),
    "day7.stranger.passes": dict(W="134,217,728 FLOP", useful=285_212_672 - 83_886_080, ratio=1.5,
                                 T_one=ATTENTION / P, T_mixed=MIXED, which="second"),
    "day7.stranger.throttle": dict(full=512 / 2.4e9, limit=0.5, time=11325e-9, lost=4383e-9 / 2,
                                   says="released"),
    "day7.stranger.traffic": dict(Q="524,288 B", seen="622,592 B", more="98,304 B",
                                  bf16="32,768 B", fp32="65,536 B", explains="identity"),
    "day7.stranger.entitlement": dict(I=256, T_flop=MIXED, T_byte=QKVO / BW, T_best=MIXED,
                                      gap=T - MIXED, share=MIXED / T, row="start"),
    # all in fp32: twice the bytes, a quarter of the peak, each product in two passes
    "day7.stranger.second": dict(Q=2 * QKVO, T_best=ATTENTION / FP32, before=17183e-9, ratio=2,
                                 time=(23822 - 17183) * 1e-9, more=851_968 + 262_144 - 2 * QKVO,
                                 explains="one", turned="early"),
}


# --- the slips: what someone with that misconception would write ----------------------------------

SLIPS = {
    "day7.open.bound": [("I", 105e6 / 9e9, "upside down"), ("T_best", 200e-6, "shorter"),
                        ("T_worst", 350e-6, "overlap"), ("rate", 45e12, "higher of the two")],
    "day7.open.crossover": [("ridge", 320, "two cores"), ("B_ridge", 160, "x and y left out")],
    "day7.open.derate": [("rate", 70e12, "all rows"), ("BW", 160e9, "one way"),
                         ("BW", 400e9, "spec"), ("ridge", 175, "both figures"),
                         ("ridge", 52.5e12 / 400e9, "spec bandwidth")],
    "day7.open.reuse": [("r_A", 4, "other dimension"), ("r_B", 1, "once"),
                        ("Q", REUSE / 2, "elements"), ("I", REUSE / (2 * 1024 * 1536 * 4096),
                                                       "upside down")],
    "day7.open.scope": [("P_pair", 50e12, "one core"), ("BW_pair", 2e12, "8 cores"),
                        ("Q", SCOPE - 2 * 1024 * 3072, "counted once"),
                        ("T_best", 2 * 1536 * 1024 * 3072 / 50e12, "one core")],
    "day7.fused": [("W", W / 2, "one of the two projections"), ("Q", APART, "three kernels"),
                   ("I", 372, "three kernels"), ("T_best", FEW, "shorter"),
                   ("T_worst", FLOPS, "longer")],
    "day7.unfused": [("Q", FUSED, "one kernel"), ("I", 1365, "one kernel"),
                     ("T_best", MANY, "shorter"), ("T_worst", 437.1e-6, "longer")],
    "day7.needed": [("fused", "211 GB/s", "other kernel"), ("unfused", "58 GB/s", "other kernel")],
    "day7.same_roof": [("T_best", MANY, "shorter"), ("worst_fused", FLOPS, "longer"),
                       ("worst_unfused", 2 * FLOPS, "doubled"),
                       ("saved", MANY, "bytes of the three")],
    "day7.mfu": [("gap", 620e-6, "not what is above"), ("mfu", 1 - FLOPS / 620e-6, "gap's share"),
                 ("mfu", 620e-6 / FLOPS, "upside down")],
    "day7.own_pick": [("W", PICK_W / 2, "one FLOP"), ("Q", 2 * PICK_Q, "another dtype"),
                      ("I", PICK_Q / PICK_W, "upside down")],
    "day7.own_work": [("each", 128 * 128 * 512, "one FLOP"),
                      ("counted", W_MINE / 128, "K left out"),
                      ("ratio", 2, "twice"), ("T_flop", 4 * MINE, "another dtype")],
    "day7.own_traffic": [("read", 32 * KIB + 2 * MIB + 256 * KIB, "counted once"),
                         ("written", 256 * KIB, "one store"), ("Q", 36 * MIB, "stores left out"),
                         ("share", 36 / 28, "all bytes read"), ("share", 28 / 34.5, "upside down")],
    "day7.own_entitlement": [("I", P / BW, "machine's"), ("ridge", W_MINE / Q_MINE, "kernel's"),
                             ("rate", P, "higher of the two"),
                             ("T_best", MINE, "shorter"), ("T_worst", MOVES, "overlap")],
    "day7.own_elements": [("T_byte", 8 * 4 * N / BW, "bits"), ("T_engine", N / 1.2e9, "lanes"),
                          ("T_best", N / 153.6e9, "shorter"), ("T_worst", 4 * N / BW, "overlap")],
    "day7.own_clock": [("cold", 2.4 / 5.7, "upside down"), ("cold", 3.3 / 2.4, "how much longer"),
                       ("outside", 27e-6, "total"), ("outside", 12e-6, "inside")],
    "day7.own_counters": [("useful", 3 * 536_870_912, "transposes alone"), ("ratio", 2, "twice"),
                          ("AI", W_MINE / (72 * MIB + IDENTITY), "written left out"),
                          ("more", Q_MINE + IDENTITY, "all of its bytes")],
    "day7.own_point": [("I", W_MINE / (96 * MIB), "profiler's"), ("rate", W_MINE / MOVES, "T_best"),
                       ("I_seen", W_MINE / Q_MINE, "hand"),
                       ("share", 1.25, "upside down"), ("mfu", 0.8, "bytes' time"),
                       ("best_seen", MINE, "shorter")],
    "day7.own_sum": [("gap", 1.4 * FLOPS, "measured time"), ("missing", 85e-6 + FEW, "parts found"),
                     ("share", (85e-6 + FEW) / (0.4 * FLOPS), "share found")],
    "day7.own_change": [("Q_new", 80 * MIB, "old Q"), ("Q_new", 84 * MIB, "one crossing"),
                        ("I_new", W_MINE / Q_MINE, "old Q"), ("T_best", LESS / BW, "shorter"),
                        ("T_worst", MINE, "overlap"), ("missed", LESS + 3e6 - Q_MINE, "old Q")],
    "day7.mistake.sizes": [("Q_sizes", SIZES / 2, "elements"), ("Q", SIZES, "loaded once"),
                           ("over", LOOPS / SIZES, "ratio"), ("over", 1 - SIZES / LOOPS,
                                                              "understated")],
    "day7.mistake.bandwidth": [("T_spec", 250e-6, "other bandwidth"),
                               ("T_reached", 160e-6, "other bandwidth"),
                               ("over", 0.36, "not reached")],
    "day7.mistake.latency": [("wrong", FLOPS / 560e-6, "other of the two"),
                             ("mfu", FLOPS / 4.2e-3, "other of the two"),
                             ("outside", 4.2e-3, "latency")],
    "day7.mistake.engine": [("T_tensor", STEP, "other engine"), ("T_engine", STEP * 128, "lane"),
                            ("mfu", 1 - 4e9 / P / STEP, "wasted")],
    "day7.mistake.scope": [("Q", PAIR_ONCE, "counted once"), ("Q_once", PAIR, "each core"),
                           ("T_best", 2 * PAIR_T, "one core"), ("T_chip", PAIR_T, "pair"),
                           ("times", 8, "one core")],
    "day7.cause.idle": [("idle", 142e-6, "before the first"), ("share", 126 / 462, "busy time"),
                        ("share", 462 / 588, "rest")],
    "day7.cause.overlap": [("both", 191e-6, "difference"), ("alone", 246e-6, "all of"),
                           ("share", 204 / 246, "not hidden"), ("share", 42 / 437, "Tensor")],
    "day7.cause.bytes": [("more", 32 * MIB, "all of its"), ("T_more", 32 * MIB / BW, "all bytes")],
    "day7.cause.engine": [("T_engine", N / (2 * 0.96e9), "one lane"), ("ratio", 1 / 79, "upside"),
                          ("wait", N / 245.76e9, "all of the step")],
    "day7.cause.fixed": [("before", 15e-6, "both ends"), ("after", 43e-6, "timestamp"),
                         ("share", 10 / 48, "one end"), ("share", 33 / 48, "rest")],
    "day7.cause.slow": [("rate", W / 2 / 580e-6, "one FLOP"), ("share", 1 - FLOPS / 580e-6, "rest"),
                        ("lost", 580e-6, "busy time")],
    "day7.stranger.start": [("start", 17234e-9, "first matmul"),
                            ("before", 13704e-9, "first issue"), ("fill", 17234e-9, "all of"),
                            ("share", 13704 / 36351.6, "up to the first issue")],
    "day7.stranger.transposes": [("flops", 2 * 128**3, "one transpose"),
                                 ("part", 83_886_080 / 201_326_592, "rest of Raw"),
                                 ("time", 3469e-9, "second stretch"),
                                 ("share", 83_886_080 / 285_212_672, "Raw Flops")],
    "day7.stranger.passes": [("W", ATTENTION / 2, "one FLOP"), ("useful", 285_212_672, "left in"),
                             ("ratio", 2, "both products"),
                             ("T_one", 201_326_592 / P, "not W"),
                             ("T_mixed", ATTENTION / FP32, "both products in fp32")],
    "day7.stranger.throttle": [("full", 426e-9, "seen"), ("limit", 2, "upside down"),
                               ("time", 28559e-9, "start of the execution"),
                               ("lost", 4383e-9, "all of the useful")],
    "day7.stranger.traffic": [("Q", QKVO / 4, "one tensor"), ("seen", 491_520, "written left out"),
                              ("more", 32_768, "in bf16"), ("bf16", 16_384, "elements"),
                              ("fp32", 32_768, "other dtype")],
    "day7.stranger.entitlement": [("I", 256 * 4 / 3, "output"), ("T_flop", ATTENTION / P,
                                                                 "all of W in bf16"),
                                  ("T_byte", QKVO / BW / 8, "8 cores"), ("T_best", QKVO / BW,
                                                                         "shorter"),
                                  ("gap", T, "measured"), ("share", 1 - MIXED / T, "rest")],
    "day7.stranger.second": [("Q", QKVO, "bf16"), ("T_best", ATTENTION / P, "in bf16"),
                             ("before", 23822e-9, "release"), ("ratio", 1, "one FLOP"),
                             ("time", 23822e-9, "start of the execution"),
                             ("more", 98_304, "both identity")],
}


# --- the curriculum's figures ---------------------------------------------------------------------

def test_the_curriculums_bandwidths():
    assert round(78.6e12 / 1365 / 1e9) == 58 and round(78.6e12 / 372 / 1e9) == 211
    assert round(P / (W / FUSED) / 1e9) == 58 and round(P / (W / APART) / 1e9) == 211
    assert P / (W / FUSED) == pytest.approx(FUSED / FLOPS)  # Q in the time of W / P


def test_the_curriculums_times():
    """437.1, 504.2 and 683.2 us with P = 78.6 TFLOPS; 504.3 where the sum is rounded last."""
    flop = W / 78.6e12
    assert [round(1e6 * t, 1) for t in (flop, FEW, MANY)] == [437.1, 67.1, 246.1]
    assert round(437.1 + 67.1, 1) == 504.2 and round(437.1 + 246.1, 1) == 683.2
    assert [round(1e6 * (flop + t), 1) for t in (FEW, MANY)] == [504.3, 683.2]
    assert round(1e6 * FLOPS, 1) == 436.9  # with the array's product in full


@pytest.mark.parametrize(("id", "part", "answer"), [
    (id, part, answer) for id, part, answers in (
        ("day7.fused", "T_best", ("437.1 us", "436.9 us", "437 us", "0.44 ms")),
        ("day7.fused", "T_worst", ("504.2 us", "504.3 us", "504.0 us", "0.5 ms")),
        ("day7.unfused", "T_worst", ("683.2 us", "683.0 us", "683.3 us")),
        ("day7.same_roof", "worst_fused", ("504.2 us", "504.3 us")),
        ("day7.same_roof", "worst_unfused", ("683.2 us",)),
        ("day7.same_roof", "saved", ("179 us", "178.9 us")),
        ("day7.needed", "fused", ("58 GB/s", "57.6 GB/s")),
        ("day7.needed", "unfused", ("211 GB/s", "211.2 GB/s")),
        ("day7.mfu", "mfu", ("70.5 %", 0.705, "70.4 %")),
        ("day7.stranger.start", "fill", ("3530 ns", "3500 ns")),
        ("day7.stranger.throttle", "lost", ("2191.5 ns", "2166 ns")),
        ("day7.stranger.passes", "T_mixed", ("4266.7 ns", "4.27 us")),
    ) for answer in answers])
def test_every_legal_rounding_is_right(id, part, answer):
    assert ask(id).check(**{part: answer}).outcomes


def test_both_mappings_have_one_entitlement_and_one_mfu():
    best = {id: next(p.value for p in ask(id).parts if p.name == "T_best")
            for id in ("day7.fused", "day7.unfused", "day7.same_roof")}
    assert set(best.values()) == {FLOPS}


# --- the kernel does what its defaults say --------------------------------------------------------

@pytest.fixture(scope="module")
def kernels():
    return nki.load(ROOT / "day5/kernels.py")


def shapes():
    return ((1024, 2048), "bf16"), ((1024, 4096), "bf16"), ((4096, 1024), "bf16")


def test_own_work_is_that_of_the_matmul_with_c_on_chip(kernels):
    """512 instructions of 128 x 128 x 512; A crosses twice, B 16 times, and C is stored once."""
    def run(**block):
        return nki.run(kernels.matmul_c_stays, *[((1024, 2048), "bf16")] * 2, data=False,
                       target="trn2", **block)
    count = run(rows=128).count
    assert count.flops == W_MINE == 512 * 2 * 128 * 128 * 512
    assert (count.hbm_read_bytes, count.hbm_write_bytes) == (72 * MIB, 8 * MIB)
    given = ask("day7.own_counters").inputs
    assert (given["read"], given["written"]) == (72 * MIB + IDENTITY, 8 * MIB)
    # step 9's change: blocks four times as high, so B four times
    given = ask("day7.own_change").inputs
    assert run(rows=512).count.hbm_bytes == LESS == given["seen"] - 3e6
    assert (given["size"], given["before"], given["after"]) == (4 * MIB, 16, 4)


def test_own_traffic_is_that_of_the_fused_mlp_with_f_doubled(kernels):
    """36 MiB in and 4 MiB out, if the 34.5 MiB that have to be on chip fitted."""
    given = ask("day7.own_traffic").inputs
    assert given["load_1"] * given["times_1"] == 2 * 2048 * 1024  # x, in tiles of 128 x 128
    assert given["load_2"] * given["times_2"] == given["load_3"] * given["times_3"] == 16 * MIB
    assert given["store"] * given["times_store"] == 2 * 2048 * 1024
    # as the kernel's own rows with F = 4096: twice as long, or twice as many
    run = nki.run(kernels.mlp_fused, *shapes(), data=False, target="trn2", block=128)
    assert (run.count.hbm_bytes, run.count.flops) == (24 * MIB, W) == (FUSED, W)
    assert given["resident"] == 2 * (2 * 1024 * 8192 + 128 * (1024 + 8192 + 1024)) > 28 * MIB
    assert given["sbuf"] == 28 * MIB


def test_the_defaults_are_counted_and_not_typed():
    given = ask("day7.own_entitlement").inputs
    assert given == dict(P=P, BW=BW, W=W_MINE, Q=Q_MINE)
    for id in ("day7.own_point", "day7.own_counters", "day7.own_change"):
        assert (ask(id).inputs["W"], ask(id).inputs["Q"]) == (W_MINE, Q_MINE)
    assert (ask("day7.cause.bytes").inputs["W"], ask("day7.cause.bytes").inputs["Q"]) == (W, FUSED)
    assert ask("day7.own_sum").inputs["T_best"] == ask("day7.mfu").inputs["T_best"] == FLOPS


# --- the reader's own kernel ----------------------------------------------------------------------

OWN = sorted(id for id in BANK if id.startswith("day7.own_"))
KERNELS = [  # W, Q: a square matmul, a decode projection, a tiny kernel, at the ridge
    (2 * 2048**3, 3 * 2 * 2048**2), (2 * 4096**2, 2 * (4096**2 + 2 * 4096)), (1e6, 2e5),
    (P, BW), (1, 1e9), (1e15, 1)]
CORES = [(P, BW), (91.75e12, 410e9), (157.3e12, 750e9), (1e12, 1e11)]


@pytest.mark.parametrize(("W_own", "Q_own"), KERNELS)
@pytest.mark.parametrize(("peak", "band"), CORES)
def test_any_kernel_is_entitled(W_own, Q_own, peak, band):
    q = ask("day7.own_entitlement", W=W_own, Q=Q_own, P=peak, BW=band)
    flop, byte = W_own / peak, Q_own / band
    side = "memory" if byte > flop else "compute"
    assert q.check(I=W_own / Q_own, ridge=peak / band, side=side, T_best=max(flop, byte),
                   rate=W_own / max(flop, byte), T_worst=flop + byte).right
    assert "T_best" in q.worked()
    for part in q.parts:  # a slip that is as good as right is gone
        if isinstance(part, Part):
            assert not part.clashes()


def test_a_kernel_without_matmuls_is_refused_with_a_next_step():
    for id in ("day7.own_work", "day7.own_entitlement", "day7.own_counters", "day7.own_point",
               "day7.own_change"):
        for none in (0, 0.0, "0", "0 FLOP"):
            with pytest.raises(ProblemError, match=r"W: expected.*ask day7\.own_elements") as error:
                ask(id, W=none)
            assert "\n" not in str(error.value)
    with pytest.raises(ProblemError) as error:  # nothing but 0 means that there is none
        ask("day7.own_entitlement", W=-1)
    assert "own_elements" not in str(error.value)


@pytest.mark.parametrize("id", OWN)
def test_a_measured_figure_need_not_be_whole(id):
    """335,544,320 bytes a second and a third: no roof, work or traffic is a count of its unit."""
    for name, unit in BANK[id].units.items():
        given = ask(id).inputs[name] * 1.0000001
        assert ask(id, **{name: given}).inputs[name] == given, unit


@pytest.mark.parametrize(("own", "binds"), [
    (dict(n=2048 * 4096, passes=1, Q=2 * 2 * 2048 * 4096, rate=153.6e9), "memory"),  # GELU alone
    (dict(n=64 * 1024 * 128, passes=9, Q=2 * 2 * 64 * 1024 * 128, rate=245.76e9), "engine"),
    (dict(n=1, passes=1, Q="1 MiB", rate="1 Gelement/s"), "memory")])
def test_copies_and_depthwise_convolutions(own, binds):
    """A depthwise 3 x 3 convolution on the Vector Engine: 9 passes over its output."""
    q = ask("day7.own_elements", **own, BW=BW)
    byte = (MIB if own["Q"] == "1 MiB" else own["Q"]) / BW
    rate = 1e9 if isinstance(own["rate"], str) else own["rate"]
    engine = own["n"] * own["passes"] / rate
    assert q.check(T_byte=byte, T_engine=engine, binds=binds, T_best=max(byte, engine),
                   T_worst=byte + engine).right


@pytest.mark.parametrize("own", [
    dict(raw=2 * W, transpose=1e9, read=FUSED / 2, written=FUSED / 2),  # bytes agree exactly
    dict(raw=W + 1e9, transpose=1e9, read=FUSED / 4, written=FUSED / 2),  # fewer than by hand
    dict(raw=W, transpose=0, read=FUSED / 2, written=FUSED / 2),  # none, as most kernels
    dict(raw=W, transpose="0 FLOP", read=FUSED / 4, written=FUSED / 4),
    dict(raw=3 * W, transpose=W, read=3 * FUSED, written=FUSED)])
def test_own_counters(own):
    q = ask("day7.own_counters", W=W, Q=FUSED, **own)
    own["transpose"] = q.inputs["transpose"]
    useful, moved = own["raw"] - own["transpose"], own["read"] + own["written"]
    assert q.check(useful=useful, ratio=useful / W, AI=useful / moved, more=moved - FUSED).outcomes
    q.worked()


@pytest.mark.parametrize(("missing", "says"), [(0, "whole"), (10e-6, "find"), (-10e-6, "twice")])
def test_parts_that_add_up_and_parts_that_do_not(missing, says):
    q = ask("day7.own_sum", T=500e-6, T_best=400e-6, fixed=30e-6, idle=30e-6, overlap=20e-6,
            slow=20e-6 - missing)
    assert q.check(gap=100e-6, missing=missing, share=missing / 100e-6, next=says).right
    q.worked()


def test_a_cause_may_be_absent():
    """Most kernels lack some of the four; all of the gap at its two ends."""
    q = ask("day7.own_sum", T=500e-6, T_best=400e-6, fixed=100e-6, idle=0, overlap="0 us", slow=0.0)
    assert q.check(gap=100e-6, missing=0, share=0, next="whole").right
    for none in (dict(T=0), dict(T_best=-1e-6), dict(idle="-"), dict(idle="--1 us")):
        with pytest.raises(ProblemError, match="own_sum: "):
            ask("day7.own_sum", **none)


@pytest.mark.parametrize("won", [-10e-6, "-10 us", "-10000 ns"])
def test_a_cause_may_be_time_won(won):
    """Rows below 0, as `engines against the roof` of a fast DMA: the parts still are the gap."""
    q = ask("day7.own_sum", T=500e-6, T_best=400e-6, fixed=60e-6, idle=30e-6, overlap=20e-6,
            slow=won)
    assert q.check(gap=100e-6, missing=0, share=0, next="whole").right
    assert "-10 us" in q.worked() or "= 0" in q.worked()


def test_no_gap_is_said_to_be_none():
    with pytest.raises(ProblemError, match="so there is no gap"):
        ask("day7.own_sum", T=400e-6)


@pytest.mark.parametrize(("after", "factor", "held"), [(4, 1.005, "yes"), (4, 0.9, "no"),
                                                       (2, 1.3, "no")])
def test_own_change(after, factor, held):
    new = FUSED + (after - 1) * 16 * MIB
    q = ask("day7.own_change", W=W, Q=FUSED, size=16 * MIB, before=1, after=after,
            seen=new * factor)
    assert q.check(Q_new=new, I_new=W / new, missed=new * (factor - 1), held=held,
                   T_best=max(FLOPS, new / BW), T_worst=FLOPS + new / BW).outcomes


def test_a_change_back_takes_bytes_away():
    q = ask("day7.own_change", W=W, Q=APART, size=2 * 2048 * 4096, before=4, after=1, seen=FUSED)
    new = APART - 3 * 2 * 2048 * 4096
    assert q.check(Q_new=new, missed=FUSED - new, held="no").outcomes


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
def test_own_work_is_aware_of_dtype_and_chip(chip, dtype):
    """fp32 has a quarter of the rate, and in an older profiler two rows a product."""
    passes = 2 if dtype == "fp32" else 1
    q = ask("day7.own_work", W="1 GFLOP", count=1000, K=64, M=128, N=256, passes=passes,
            chip=chip, dtype=dtype)
    each = 2 * 64 * 128 * 256
    clock = 2.8e9 if chip == "trn1" else 2.4e9
    peak = 2 * 128 * 128 * clock / (4 if dtype == "fp32" else 1)
    ratio = 1000 * each / passes / 1e9
    assert q.check(each=each, counted=1000 * each / passes, ratio=ratio, T_flop=1e9 / peak,
                   verdict="more").right


@pytest.mark.parametrize("id", OWN)
def test_the_reader_is_told_how_to_give_numbers(id):
    assert f'ask("{id}", ' in ask(id).text


# --- the day's facts are all asked ----------------------------------------------------------------

def told(ids):
    """Everything that these questions say: text, worked answer, options and their reasons."""
    found = []
    for id in ids:
        q = ask(id)
        found += [q.text, str(q.worked())]
        for part in q.parts:
            found += [*part.options.values(), *part.slips.values()] if isinstance(part, Choice) \
                else [*part.slips]
    return "\n".join(found)


@pytest.mark.parametrize(("ids", "words"), [
    (["day7.own_entitlement"], "min(P, I × BW)"),
    (["day7.mfu"], "W / T / P"), (["day7.mfu"], "timeline"), (["day7.mfu"], "mend Q"),
    (["day7.same_roof"], "One W and one P"), (["day7.needed"], "P / I"),
    (["day7.cause.idle"], "gaps between matmuls on the Tensor Engine's row"),
    (["day7.cause.overlap"], "take turns"), (["day7.cause.bytes"], "DMA bytes above Q"),
    (["day7.cause.engine"], "Vector or Scalar instruction runs"),
    (["day7.cause.engine"], "1 TFLOP/s in fp32"), (["day7.cause.engine"], "79 TFLOP/s in bf16"),
    (["day7.cause.fixed"], "before the first matmul and after the last"),
    (["day7.cause.slow"], "W / busy time below P"), (["day7.cause.slow"], "Throttling row"),
    (["day7.cause.slow"], "small tiles, placement of instructions, fast weight load and thrott"),
    (["day7.own_pick"], "the shape of every operand and its dtype, as numbers"),
    (["day7.own_work"], "matmul instructions"), (["day7.own_traffic"], "Stores"),
    (["day7.own_traffic"], "SBUF"), (["day7.own_entitlement"], "T_worst"),
    (["day7.own_clock"], "Skip it"), (["day7.own_clock"], "device timeline"),
    (["day7.own_counters"], "Raw Flops"), (["day7.own_counters"], "Mm Arithmetic Intensity"),
    (["day7.own_counters"], "Transpose Flops"), (["day7.own_point"], "straight below"),
    (["day7.own_sum"], "the parts add up"), (["day7.own_change"], "change of tiling"),
    (["day7.mistake.sizes"], "walk the loops and count each transfer"),
    (["day7.mistake.bandwidth"], "a copy kernel"), (["day7.mistake.bandwidth"], "left of it"),
    (["day7.mistake.latency"], "other ops and the host"),
    (["day7.mistake.latency"], "measure one op, on the device timeline"),
    (["day7.mistake.engine"], "each step against its own engine"),
    (["day7.mistake.scope"], "the LNC setting"), (["day7.mistake.scope"], "once for each core")])
def test_a_fact_of_the_day_is_in_its_question(ids, words):
    assert words in " ".join(told(ids).split())


# --- a stranger's capture -------------------------------------------------------------------------

CAPTURE = (ROOT.parent / "shared/reference/real-profiles"
           / "trn2-lnc2-attn-fused-bf16-s512.full.json")
real = pytest.mark.skipif(not CAPTURE.exists(), reason="the published capture is not here")


@pytest.fixture(scope="module")
def rows():
    """The profiler's own rows: matmuls by start, DMA rows, throttle events, summary."""
    data = json.loads(CAPTURE.read_text())
    matmuls = sorted((row for row in data["instruction"] if row["opcode"] == "MATMUL"),
                     key=lambda row: row["timestamp"])
    return matmuls, data["ham"], data["summary"][0]


def slots(matmuls):
    """[(row, start, end)]: to its own end, or to the next start if that is earlier."""
    ends = [min(row["timestamp"] + row["duration"], after["timestamp"])
            for row, after in pairwise(matmuls)]
    last = matmuls[-1]["timestamp"] + matmuls[-1]["duration"]
    return [(row, row["timestamp"], end) for row, end in zip(matmuls, [*ends, last], strict=True)]


@real
def test_the_captures_summary(rows):
    matmuls, _, summary = rows
    assert summary["total_time"] == pytest.approx(T, rel=1e-9)
    assert summary["hardware_flops"] == 285_212_672 == 2 * sum(r["elements"] for r in matmuls)
    assert summary["transpose_flops"] == 83_886_080 == 20 * 2 * 128**3
    assert (summary["hbm_read_bytes"], summary["hbm_write_bytes"]) == (491_520, 131_072)
    assert 491_520 + 131_072 - QKVO == 98_304 == 32_768 + 65_536
    assert summary["matmul_instruction_count"] == len(matmuls) == 56
    assert 201_326_592 / ATTENTION == 1.5


@real
def test_the_captures_matmuls(rows):
    matmuls, _, _ = rows
    assert matmuls[0]["timestamp"] == 17234
    turns = [(start, end) for row, start, end in slots(matmuls)
             if row["instruction_type"] == "TRANSPOSE"]
    assert len(turns) == 20
    assert [sum(end - start for start, end in part) for part in (turns[:4], turns[4:])] == [
        585, 3469]
    first = [row for row in matmuls if row["instruction_type"] == "REGULAR"][:4]
    assert all("src=bfloat16" in row["operands"] for row in first)
    starts = [row["timestamp"] for row in first]
    assert (starts[3] - starts[1]) / 2 == 426.5 and round(512 / 2.4, 1) == 213.3
    second = [row for row in matmuls if row["instruction_type"] == "REGULAR"][4:]
    assert len(second) == 32 and all("src=fp32" in row["operands"] for row in second)
    assert 2 * sum(row["elements"] for row in second) == ATTENTION  # its half of W, twice


@real
def test_the_captures_throttle(rows):
    matmuls, events, _ = rows
    full = next(event for event in events if event["k"] == event["n"] == 8)
    assert full["timestamp"] == 28559
    busy = sum(min(end, 28559) - start for row, start, end in slots(matmuls)
               if row["instruction_type"] == "REGULAR" and start < 28559)
    assert busy == 4383


@real
def test_the_captures_ledger_is_the_questions(rows):
    kept = profile.read(CAPTURE)
    book = gaps.ledger(kept, machine.trn2)
    by = {row.cause: row for row in book.rows}
    assert by["start"].time == 13704
    assert by["start"].time + by["fill"].time == pytest.approx(17234, abs=40)  # 30 ns load weights
    assert by["transposes"].time == pytest.approx(585 + 3469)
    assert by["throttle"].time == pytest.approx(2166.2, abs=0.2)
    assert max(by.values(), key=lambda row: row.time).cause == "start"
    assert MIXED * 1e9 == pytest.approx(4266.7, abs=0.1)
    assert sum(row.time for row in by.values()) == pytest.approx(T * 1e9 - MIXED * 1e9, abs=1e-3)
    assert kept.transposed == 83_886_080 and kept.count.hbm_bytes == 622_592


@pytest.mark.parametrize("id", sorted(id for id in BANK if id.startswith("day7.stranger.")))
def test_published_figures_are_said_to_be_published(id):
    q = ask(id)
    assert "(Figures: published, a trn2 capture by others.)" in q.text
    assert all("(Figures: made up for practice.)" in ask(id, seed).text for seed in (1, 2, 3))
    name = next(name for name in ("T", "W", "N", "S") if name in q.inputs)
    with pytest.raises(ProblemError, match='say figures="your own"'):
        ask(id, **{name: q.inputs[name] + (1e-6 if name == "T" else 2)})
    with pytest.raises(WrongAnswer):
        q.check(**{next(p.name for p in q.parts if isinstance(p, Part)): 1})


def test_the_modules_words_name_the_source():
    text = (ROOT / "lib/roofline/problems/day7.py").read_text()
    assert "MIT licence: github.com/allenkchau/trainium-kernel-fusion" in text
