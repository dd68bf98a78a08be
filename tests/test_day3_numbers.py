"""Day 3's own numbers, as arithmetic a reader can redo, beside the cost rules of the library.

Nothing here comes from `problems` or `machine`: the guide's figures are typed once, in their
sources' units, and everything else is arithmetic on them.
"""

import re

import pytest
from pages import ROOT, sections

from roofline import ask, clockwork, derate, machine
from roofline.check import Choice, WrongAnswer

# Trainium/Inferentia2 architecture guide: device list, engine table, Tensor Engine
ROWS = COLUMNS = 128
TENSOR, VECTOR = 2.8e9, 1.12e9   # Hz
FLOOR = 64                       # cycles between back-to-back matmuls, at least
DEVICE, CORES = 820e9, 2         # B/s
# DMA bandwidth guide
ENGINES, EACH, LATENCY = 16, 17e9, 1.3e-6

P = ROWS * COLUMNS * 2 * TENSOR  # FLOP/s, bf16
P32 = P / 4
ELEMENTS = 128 * VECTOR          # element/s
BW = DEVICE / CORES
DMA = ENGINES * EACH
TRN2, TRN2_BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8

NUMBERS = {
    "day3.open.bound": dict(I=24e9 / 90e6, ridge=TRN2 / TRN2_BW, binds="compute",
                            T_best=24e9 / TRN2, T_worst=24e9 / TRN2 + 90e6 / TRN2_BW, rate=TRN2),
    "day3.open.uses": dict(uses=48, I_2=24, I_1=48, I_4=12, why="weight"),
    "day3.open.crossover": dict(numerator=210 * 6144, denominator=6144 - 420,
                                B=210 * 6144 / (6144 - 420), than_other="less_rows"),
    "day3.peak": dict(PEs=16_384, per_cycle=32_768, P_bf16=91.7504e12, P_fp32=22.9376e12,
                      printed="rounded"),
    "day3.vector": dict(rate=143.36e9, in_FLOPs=640, in_MACs=320, t=2048 * 4096 / 143.36e9),
    "day3.cast": dict(t_mm=2 * 2048 * 256 * 4096 / P, t_cast=2048 * 4096 / ELEMENTS,
                      t_add=2 * 2048 * 4096 / ELEMENTS, D_even=320, pace="vector"),
    "day3.bw_ridge": dict(BW=410e9, ridge=223.78, t=96e6 / 410e9),
    "day3.ridge_of_whom": dict(day="whole", profiler="exact", tutorial="early", larger="device",
                               smaller="gib", use="three"),
    "day3.dma_roof": dict(dma=272e9, slow="dma", ridge_dma=P / 272e9, t=96e6 / 272e9),
    "day3.rows": dict(PEs=80 * 128, used=80 / 128, rate=P * 80 / 128, ridge=P * 80 / 128 / BW,
                      side="compute"),
    "day3.floor": dict(cycles=64, t=64 / 2.8e9, busy=24 / 64, rate=P * 24 / 64, moving="vector"),
    "day3.dtype": dict(T_bf16=60e9 / P, I_fp32=200, ridge_fp32=P / 4 / BW, T_fp32=4 * 60e9 / P,
                       remedy="cast"),
    "day3.small_dma": dict(bytes=8 * 1024, move=8192 / 17e9,
                           share=8192 / 17e9 / (8192 / 17e9 + LATENCY),
                           rate=16 * 8192 / (8192 / 17e9 + LATENCY), guide="flight"),
    "day3.fade.tile": dict(busy=40 / 64, rate=P * 96 / 128 * 40 / 64, t=64 / 2.8e9,
                           ridge=P * 96 / 128 * 40 / 64 / BW, side="memory"),
    "day3.fade.all": dict(used=112 * 64 / 16_384, busy=48 / 64, rate=P * 21 / 64,
                          ridge=P * 21 / 64 / BW, best=P * 21 / 64, side="compute"),
    "day3.do.peak": dict(P_bf16="92 TFLOPS", P_fp32="23 TFLOPS"),
    "day3.do.vector": dict(rate="143e9 element/s", in_FLOPs=160, in_MACs=80),
    "day3.do.bw_ridge": dict(BW="410 GB/s", ridge=224),
    "day3.do.own": dict(used=80 * 128 / 16_384, t=4 * 384 / 2.8e9, rate=P32 * 80 / 128),
    "day3.check.small_tiles": dict(rate_K="45.9 TFLOPS", rate_N="45.9 TFLOPS", t="22.9 ns",
                                   why="each"),
    "day3.clock.lone": dict(small=15, cycles=766, macs=128 * 128 * 512, share=512 / 766),
    "day3.clock.small": dict(used=0.75, rate_K=P * 0.75, apart=64, rate_N=P * 20 / 64),
    "day3.clock.load": dict(load=32, hidden=512, shown=544, rate=P * 512 / 544, shown_short=160,
                            rate_short=P * 128 / 160),
    "day3.clock.where": dict(lone="fill", half="rows", short="floor", weights="load",
                             repeat="behind"),
}


# --- what the curriculum prints -----------------------------------------------------------------

def test_the_curriculums_numbers():
    assert f"{P / 1e12:.2f}" == "91.75" and round(P / 1e12) == 92
    assert round(P32 / 1e12) == 23
    assert f"{ELEMENTS / 1e9:.0f}" == "143"
    assert BW / 1e9 == 410
    assert round(P / BW) == 224 and f"{P / BW:.2f}" == "223.78"
    assert int(91 / 0.41 + 0.5) == 222  # what fits the tutorial's figure
    assert f"{P * 64 / 128 / 1e12:.1f}" == f"{P * 32 / 64 / 1e12:.1f}" == "45.9"
    assert f"{64 / TENSOR * 1e9:.1f}" == "22.9"
    assert round(P / ELEMENTS) == 640 and round(P / 2 / ELEMENTS) == 320


PRINTED = {
    "P of the Tensor Engine": ["91.75 TFLOP/s", "92 TFLOP/s", "23 TFLOP/s", "22.9 TFLOP/s",
                               "128 × 128 × 2 × 2.8 GHz"],
    "The Vector Engine has a roof of its own": ["143 Gelement/s", "128 × 1.12 GHz", "640 FLOP",
                                                "320 multiply-adds"],
    "BW of one core, and the ridge": ["820 GB/s / 2 = 410 GB/s", "91.75 TFLOP/s / 410 GB/s = 224",
                                      "223.78", "222", "Peak Flops Bandwidth Ratio", "inf2"],
    "Why real kernels fall short": ["80 of the 128 rows", "57.3 TFLOP/s", r"\max(N, 64)",
                                    "wait for the shortest interval", "22.9 ns", "four times"],
    "Do": ["get 92 and 23", "get 224", "143 Gelement/s"],
    "Check yourself": ["91.75 TFLOP/s × 64 / 128 = 45.9 TFLOP/s",
                       "64 of 128 rows of PEs are in use",
                       "N = 512 is above 64, so there is no extra loss", "max(32, 64) = 64 cycles",
                       "91.75 TFLOP/s × 32 / 64 = 45.9 TFLOP/s", "22.9 ns"],
}


@pytest.mark.parametrize("title", PRINTED)
def test_the_curriculums_numbers_stand_in_their_section(title):
    (section,) = [s for s in sections(ROOT / "day3/spec_roofs.ipynb") if s.title == title]
    text = re.sub(r"\s+", " ", " ".join([section.prose, *section.outputs]))
    assert [phrase for phrase in PRINTED[title] if phrase not in text] == []


def test_what_a_profile_divides_by():
    """NKI performance guide, first figure: 640 + 64 MiB, 3.82 ms = 54.37 %, MBU 25.61 %."""
    assert 704 * 2**20 / (3.82e-3 / 0.5437) / 0.2561 == pytest.approx(BW, rel=2e-3)


def test_the_dma_engines_numbers():
    assert DMA / 1e9 == 272 and round(P / DMA) == 337


def test_the_other_two_ridges_in_circulation():
    assert round(190e12 / DEVICE) == 232
    assert round(P / (820 * 2**30 / 2)) == 208


@pytest.mark.parametrize(("id", "name", "answers"), [
    ("day3.do.peak", "P_bf16", ["92 TFLOPS", "91.75 TFLOP/s", "91.8 TFLOPS", 91.7504e12]),
    ("day3.do.peak", "P_fp32", ["23 TFLOPS", "22.94 TFLOP/s", "22.9 TFLOPS"]),
    ("day3.do.vector", "rate", ["143 Gelement/s", "143.36 Gelement/s", 1.43e11]),
    ("day3.vector", "in_FLOPs", [640, "640x", 91.75e12 / 143e9, 92e12 / 143e9]),
    ("day3.vector", "in_MACs", [320, 92e12 / 2 / 143e9]),
    ("day3.do.vector", "in_FLOPs", [160, 23e12 / 143e9]),
    ("day3.do.bw_ridge", "ridge", [224, 223.8, 223.78, 222, 92 / 0.41]),
    ("day3.dma_roof", "ridge_dma", [337, 337.3, 92e12 / 272e9]),
    ("day3.check.small_tiles", "rate_K", ["45.9 TFLOPS", "46 TFLOPS", "45.875 TFLOP/s"]),
    ("day3.check.small_tiles", "t", ["22.9 ns", "23 ns", "22.86 ns"]),
])
def test_a_reader_who_rounds_is_right(id, name, answers):
    for answer in answers:
        assert [o.kind for o in ask(id).check(**{name: answer}).outcomes if o.name == name] == [
            "right"], answer


@pytest.mark.parametrize(("id", "name", "answer", "source"), [
    ("day3.do.peak", "P_bf16", "95 TFLOPS", "190 TFLOP/s"),
    ("day3.do.peak", "P_fp32", "23.75 TFLOPS", "47.5 TFLOP/s"),
    ("day3.do.bw_ridge", "BW", "440 GB/s", "hw-trainium"),
    ("day3.do.bw_ridge", "BW", "272 GB/s", "dma-guide"),
    ("day3.do.bw_ridge", "ridge", 337, "dma-guide"),
    ("day3.do.bw_ridge", "ridge", 208, "hw-trainium"),
    ("day3.do.bw_ridge", "ridge", 231.7, "190 TFLOP/s"),
    ("day3.bw_ridge", "t", 96e6 / 272e9, "dma-guide"),
    ("day3.dma_roof", "dma", "435 GB/s", "16 × 27.2 GB/s"),
    ("day3.dma_roof", "dma", "464 GB/s", "trn1-arch"),
    ("day3.dma_roof", "ridge_dma", 211, "dma-intro"),
    ("day3.dma_roof", "ridge_dma", P / (16 * 27 * 2**30), "trn1-arch"),
])
def test_another_sources_figure_is_told_so(id, name, answer, source):
    with pytest.raises(WrongAnswer, match="not the figure this page uses") as wrong:
        ask(id).check(**{name: answer})
    assert source in repr(wrong.value)


SEEDS = range(12)


# --- a walk over the array ----------------------------------------------------------------------

def walked(K, M, N):
    """Last busy cycle + 1 and multiply-adds, PE by PE: column n reaches (k, m) at n + k + m."""
    busy = [n + k + m for k in range(K) for m in range(M) for n in range(N)]
    return max(busy) + 1, len(busy)


@pytest.mark.parametrize(("K", "M", "N"), [(1, 1, 1), (3, 2, 5), (8, 4, 16), (16, 16, 1)])
def test_a_lone_matmul_against_the_walk(K, M, N):
    q = ask("day3.clock.lone", side=4, few=6, K=K, M=M, N=N)
    cycles, macs = walked(K, M, N)
    assert [part.value for part in q.parts] == [12, cycles, macs,
                                                pytest.approx(macs / (16_384 * cycles))]
    assert walked(4, 4, 6)[0] == 12


def test_a_fencepost_shows():
    """A count is exact: one cycle more or less is told apart, of 15 cycles and of 766."""
    for seed in (0, *SEEDS):
        q = ask("day3.clock.lone", seed)
        for name in ("small", "cycles"):
            (right,) = (part.value for part in q.parts if part.name == name)
            for answer in (right - 1, right + 1, right + 2):
                with pytest.raises(WrongAnswer, match="count"):
                    q.check(**{name: answer})


def test_whole_numbers_are_counts():
    for id, names in {"day3.peak": ["PEs"], "day3.rows": ["PEs"], "day3.floor": ["cycles"],
                      "day3.clock.lone": ["small", "cycles", "macs"], "day3.clock.small": ["apart"],
                      "day3.clock.load": ["load", "hidden", "shown", "shown_short"]}.items():
        for seed in (0, *SEEDS):
            assert [part.name for part in ask(id, seed).parts
                    if getattr(part, "exact", False)] == names


def test_who_takes_another_figure_for_a_dma_engine_is_followed():
    """16 x 27.2 GB/s is more than HBM's 410: then HBM is slow and the time is its own."""
    with pytest.raises(WrongAnswer) as wrong:
        ask("day3.dma_roof").check(dma="435 GB/s", slow="hbm", ridge_dma=P / 435.2e9,
                                   t=96e6 / BW)
    kinds = {o.name: o.kind for o in wrong.value.report.outcomes}
    assert kinds == {"dma": "rival", "slow": "slip", "ridge_dma": "rival", "t": "follows"}
    assert "another page's figure" in repr(wrong.value)


def test_the_supposition_at_the_size_the_guide_calls_saturated():
    move = 8 * 4096 / 17e9
    share = move / (move + LATENCY)
    (choice,) = (part for part in ask("day3.small_dma").parts if isinstance(part, Choice))
    for said in ("32 KiB", f"{move * 1e6:.2f} us", f"{share:.0%}", f"{share * DMA / 1e9:.0f} GB/s"):
        assert said in choice.why
    assert (f"{move * 1e6:.2f}", f"{share:.0%}", round(share * DMA / 1e9)) == ("1.93", "60%", 162)


@pytest.mark.parametrize("seed", range(12))
def test_a_lone_matmul_against_the_clockwork(seed):
    q = ask("day3.clock.lone", seed)
    one = clockwork.Clockwork(**{name: q.inputs[name] for name in "KMN"}, load="kept")
    small, cycles, macs, _ = (part.value for part in q.parts)
    assert (one.working, one.total) == (cycles, macs)
    side, few = q.inputs["side"], q.inputs["few"]
    assert clockwork.Clockwork(side, side, few, load="kept", array=side).working == small


# --- the bank and the derating rules say the same -----------------------------------------------

def said(q):
    return {part.name: getattr(part, "value", part.answer) for part in q.parts}


@pytest.mark.parametrize("seed", SEEDS)
def test_rates_are_the_derating_rules(seed):
    core = machine.trn1
    q = ask("day3.do.own", seed)
    mm = derate.matmul(core, load="kept", **q.inputs)
    assert (mm.rate, mm.seconds) == pytest.approx((said(q)["rate"], said(q)["t"]))

    q = ask("day3.fade.all", seed)
    mm = derate.matmul(core, load="kept", **{name: q.inputs[name] for name in "KMN"})
    assert mm.rate == pytest.approx(said(q)["rate"])
    assert mm.share == pytest.approx(said(q)["used"] * said(q)["busy"])

    q = ask("day3.clock.load", seed)
    M, N, short = (q.inputs[name] for name in ("M", "N", "short"))
    assert derate.matmul(core, M=M, N=N, load="hidden").interval == said(q)["hidden"]
    for n, end in ((N, ""), (short, "_short")):
        mm = derate.matmul(core, M=M, N=n, load="shown")
        assert (mm.interval, mm.load_cycles) == (said(q)["shown" + end], said(q)["load"])
        assert mm.rate == pytest.approx(said(q)["rate" + end])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_transfer_a_cast_and_an_add_are_the_derating_rules(seed):
    """A pass over tiles of 128 partitions takes N cycles with one input, 2 N with two."""
    q = ask("day3.small_dma", seed)
    alone = derate.dma(machine.trn1, q.inputs["S"])
    assert (alone.seconds, alone.alone_rate) == pytest.approx((said(q)["move"], said(q)["rate"]))

    q = ask("day3.cast", seed)
    N = 512
    passes = q.inputs["tokens"] * q.inputs["F"] / 128 / N
    for op, name in (("tensor_copy", "t_cast"), ("tensor_tensor", "t_add")):
        one = derate.elementwise(machine.trn1, engine="vector", N=N, op=op, dtype="fp32")
        assert passes * one.seconds == pytest.approx(said(q)[name], rel=0.02)


def test_both_sides_come_up():
    for id in ("day3.rows", "day3.fade.tile", "day3.fade.all"):
        assert {said(ask(id, seed))["side"] for seed in range(40)} == {"compute", "memory"}, id
    assert {said(ask("day3.cast", seed))["pace"] for seed in range(40)} == {"tensor", "vector"}
    assert {said(ask("day3.dma_roof", seed))["slow"] for seed in range(40)} == {"dma", "hbm"}


@pytest.mark.parametrize(("own", "what"), [
    (dict(K=129), "K may be at most 128"), (dict(M=200), "M may be at most 128"),
    (dict(N=513), "N may be at most 512"), (dict(dtype="int4"), "expected one of bf16")])
def test_a_tile_that_no_instruction_takes(own, what):
    from roofline.check import ProblemError
    with pytest.raises(ProblemError, match=what):
        ask("day3.do.own", **own)


# --- the slips: what someone with that misconception would write ---------------------------------

SLIPS = {
    "day3.open.bound": [("I", TRN2 / TRN2_BW, "P / BW"), ("T_best", 240e-6, "shorter")],
    "day3.open.uses": [("uses", 24, "as one FLOP"), ("I_2", 48, "bytes of a weight")],
    "day3.open.crossover": [("B", 210, "x and y left out"),
                            ("denominator", 6144 - 210, "one of x and y"),
                            ("denominator", 6144 + 420, "the sign")],
    "day3.peak": [
        ("PEs", 256, "added"), ("PEs", 128, "one row"), ("PEs", 32_768, "FLOPs"),
        ("per_cycle", 16_384, "as one FLOP"), ("per_cycle", 65_536, "counted twice"),
        ("P_bf16", P / 2, "as one FLOP"), ("P_bf16", 16_384 * 2 * VECTOR, "Vector Engine's clock"),
        ("P_bf16", 2 * P, "both cores"), ("P_fp32", P, "bf16's"), ("P_fp32", P / 2, "half of"),
        ("P_fp32", P / 8, "as one FLOP")],
    "day3.vector": [
        ("rate", 128 * TENSOR, "Tensor Engine's clock"), ("rate", 16_384 * VECTOR, "all PEs"),
        ("rate", VECTOR, "one lane"), ("rate", ELEMENTS / 2, "took two"),
        ("in_FLOPs", 320, "per multiply-add"), ("in_FLOPs", 256, "clocks left out"),
        ("in_FLOPs", 91.75e12 / 2.3e12, "several operations a lane"),
        ("rate", 2.3e12, "several operations a lane"),
        ("in_MACs", 640, "per FLOP"), ("in_MACs", 128, "clocks left out"),
        ("t", 2048 * 4096 / P, "Tensor Engine's rate"), ("t", 2048 * 4096 / VECTOR, "one lane")],
    "day3.cast": [
        ("t_mm", 2048 * 256 * 4096 / P, "as one FLOP"),
        ("t_mm", 8 * 2048 * 256 * 4096 / P, "fp32's"),
        ("t_cast", 2048 * 4096 / P, "does not run there"),
        ("t_cast", 2 * 2048 * 4096 / ELEMENTS, "two inputs"),
        ("t_add", 2048 * 4096 / ELEMENTS, "one input"), ("D_even", 640, "D FLOPs"),
        ("D_even", 128, "clocks left out")],
    "day3.bw_ridge": [
        ("BW", DEVICE, "not one core's"), ("BW", 205e9, "twice"), ("BW", 8 * BW, "bits"),
        ("ridge", P / DEVICE, "over BW of the device"), ("ridge", 2 * P / BW, "P of the device"),
        ("ridge", P32 / BW, "fp32's"), ("ridge", BW / P, "upside down"),
        ("t", 96e6 / DEVICE, "not one core's"), ("t", 96e6 / P, "divided by P")],
    "day3.dma_roof": [
        ("dma", EACH, "one engine"), ("dma", 2 * DMA, "two cores"), ("dma", BW, "HBM's share"),
        ("ridge_dma", P / BW, "over HBM's"), ("ridge_dma", P / (BW + DMA), "added"),
        ("t", 96e6 / BW, "faster"), ("t", 96e6 / (BW + DMA), "added")],
    "day3.rows": [
        ("PEs", 16_384, "all PEs"), ("PEs", 6400, "columns cut"),
        ("used", (80 / 128)**2, "columns cut"), ("rate", P, "nothing were lost"),
        ("rate", P * 40 / 128, "as one FLOP"), ("rate", P * 20 / 128, "fp32's"),
        ("rate", P * 128 / 80, "multiplied"), ("ridge", P / BW, "full peak")],
    "day3.floor": [
        ("cycles", 65, "one too many"), ("cycles", 24, "floor left out"),
        ("cycles", 88, "added"), ("cycles", 278, "lone"),
        ("t", 64 / VECTOR, "Vector Engine's clock"), ("t", 64 / 1.4e9, "profiler's"),
        ("t", 24 / TENSOR, "floor left out"), ("busy", 24 / 512, "largest moving"),
        ("busy", 24 / 128, "rows"), ("rate", P, "nothing were lost"),
        ("rate", P * 12 / 64, "as one FLOP")],
    "day3.dtype": [
        ("T_bf16", 150e6 / BW, "shorter"), ("T_bf16", 60e9 / P + 150e6 / BW, "added"),
        ("I_fp32", 400, "bf16's"), ("I_fp32", 100, "a quarter"), ("ridge_fp32", P / BW, "bf16's"),
        ("ridge_fp32", P / 2 / BW, "half of"), ("T_fp32", 60e9 / P, "bf16's time"),
        ("T_fp32", 300e6 / BW, "fp32 has a quarter")],
    "day3.small_dma": [
        ("bytes", 1024, "one partition"), ("bytes", 131_072, "whole tile"),
        ("move", 1024 / EACH, "one partition"), ("move", 131_072 / EACH, "one engine"),
        ("share", 8192 / EACH / LATENCY, "left out of the whole"), ("rate", DMA, "peak")],
    "day3.fade.tile": [
        ("busy", 40 / 512, "largest moving"), ("busy", 40 / 104, "together"),
        ("rate", P * 96 / 128, "rows alone"), ("rate", P * 40 / 64, "N alone"),
        ("t", 40 / TENSOR, "floor left out"), ("ridge", P / BW, "full peak")],
    "day3.fade.all": [
        ("used", 112 / 128, "rows alone"), ("busy", 64 / 48, "floor over N"),
        ("rate", P * 112 / 128 * 48 / 64, "M left out"),
        ("rate", P * 112 * 64 / 16_384, "N left out"), ("ridge", P / BW, "full peak"),
        ("best", P, "full P"), ("best", 120 * DEVICE, "of the device"),
        ("best", 120 * BW, "higher")],
    "day3.do.peak": [("P_bf16", "45.9 TFLOPS", "as one FLOP"), ("P_bf16", "183.5 TFLOPS", "both")],
    "day3.do.vector": [("rate", 128 * TENSOR, "Tensor Engine's clock"), ("in_MACs", 160, "FLOP"),
                       ("in_FLOPs", 640, "bf16's peak"), ("in_MACs", 320, "bf16's peak")],
    "day3.do.bw_ridge": [("BW", "820 GB/s", "not one core's"), ("ridge", 112, "of the device")],
    "day3.do.own": [
        ("used", (80 / 128) ** 2, "columns cut"), ("t", 4 * 384 / VECTOR, "Vector Engine's clock"),
        ("t", 384 / TENSOR, "factor of four"),
        ("rate", P * 80 / 128, "four times as long"), ("rate", P32, "nothing were lost")],
    "day3.check.small_tiles": [
        ("rate_K", P, "nothing were lost"), ("rate_N", P, "nothing were lost"),
        ("rate_N", P / 4, "as one FLOP"), ("rate_N", P * 32 / 96, "floor added"),
        ("t", 32 / TENSOR, "floor left out"),
        ("t", 64 / 1.4e9, "profiler's"), ("t", 96 / TENSOR, "added")],
    "day3.clock.lone": [
        ("small", 17, "all three"), ("small", 16, "one too many"), ("small", 14, "number of the"),
        ("small", 7, "N alone"), ("small", 11, "one way"),
        ("cycles", 768, "all three"), ("cycles", 767, "one too many"),
        ("cycles", 765, "number of the"), ("cycles", 512, "N alone"),
        ("cycles", 639, "one way"), ("cycles", 512 * 255, "kept back"),
        ("macs", 2 * 128 * 128 * 512, "FLOPs"), ("macs", 128 * 512, "K left out"),
        ("share", 1, "no cycle to fill"), ("share", 2 * 512 / 766, "one multiply-add a cycle")],
    "day3.clock.small": [
        ("used", 9 / 16, "both sides"), ("rate_K", P, "nothing were lost"),
        ("apart", 63, "number of the"), ("apart", 20, "N alone"), ("apart", 84, "added"),
        ("rate_N", P, "nothing were lost"),
        ("rate_N", P * 64 / 20, "not multiplied")],
    "day3.clock.load": [
        ("load", 128, "one column"), ("load", 512, "multiplied"), ("hidden", 544, "shows"),
        ("load", 33, "one too many"), ("shown", 543, "number of the"), ("hidden", 766, "lone"),
        ("shown", 512, "as if hidden"), ("shown", 640, "one column"),
        ("rate", P, "as if hidden"), ("shown_short", 256, "one column"),
        ("rate_short", P / 2, "one column")],
}


@pytest.mark.parametrize("id", NUMBERS)
def test_a_part_named_like_code_has_a_prompt_for_people(id):
    for seed in range(8):
        for part in ask(id, seed).parts:
            assert part.label or part.name in {
                "W", "Q", "I", "T_best", "T_worst", "BW", "PEs", "ridge"}, part.name
            assert len(part.label) <= 48
