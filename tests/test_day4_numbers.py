"""Day 4's own numbers, as arithmetic a reader can redo, beside the published rows they stand for.

Nothing here comes from `problems` or `machine`: the guides' figures are typed once, in their
sources' units, and everything else is arithmetic on them.
"""

import pytest

from roofline import ask
from roofline.check import WrongAnswer

MIB, KIB = 2**20, 2**10
# Trainium1 and Trainium2 guides: array, clocks, HBM
P1, P2 = 128 * 128 * 2 * 2.8e9, 128 * 128 * 2 * 2.4e9
BW1, BW2 = 820e9 / 2, 3e12 / 8

COPY = 2 * 64 * MIB
LAYER = 2 * (96 * 2560 + 2560 * 5120 + 96 * 5120)
LAYER_W = 2 * 96 * 2560 * 5120
LOOP = 2 * 512 * 2048 * 1024 * 16
SWEEP = dict(B512=94e9, K1=151e9, K2=242e9, K4=293e9, K8=302e9, K16=299e9, K32=296e9)

NUMBERS = {
    "day4.open.ridge": dict(I=125, ridge=400, binds="memory", T_best=800e-6, T_worst=1050e-6,
                            rate=25e12),
    "day4.open.layer": dict(Q=LAYER, I=LAYER_W / LAYER, side="memory", T_flop=LAYER_W / P2,
                            T_byte=LAYER / BW2, T_best=LAYER / BW2),
    "day4.open.array": dict(rate_K=P1 * 112 / 128, rate_N=P1 * 24 / 64, t=64 / 2.8e9, why="each"),
    "day4.open.trn1": dict(BW=410e9, ridge=P1 / 410e9, t=36e6 / 410e9),
    "day4.copy": dict(bytes=134_217_728, BW="335.5 GB/s", share="89.5 %", T_spec=COPY / 375e9),
    "day4.do.copy": dict(bytes=COPY, transfer="512 KiB", transfers=256, BW=COPY / 480e-6,
                         while_active=COPY / 455e-6, share=COPY / 480e-6 / 410e9),
    "day4.do.sweep": dict(best=302e9, level=0.95 * 302e9, knee="4 KiB", small=94 / 302),
    "day4.do.loop": dict(W=LOOP, P=LOOP / 455e-6, share=LOOP / 455e-6 / P1, T_spec=LOOP / P1),
    "day4.do.cores": dict(each=350e9, ratio=400 / 350, least=344 / 350, split="even",
                          alone="more"),
    "day4.do.gaps": dict(gap=133e-6, named=101e-6, left=32e-6, share=32 / 133, write="cause"),
}

SLIPS = {
    "day4.open.ridge": [("I", 1 / 125, "upside down"), ("ridge", 1 / 400, "upside down"),
                        ("T_best", 250e-6, "shorter"), ("T_worst", 800e-6, "overlap"),
                        ("rate", 80e12, "higher of the two")],
    "day4.open.layer": [("Q", LAYER / 2, "elements"), ("I", LAYER / LAYER_W, "upside down"),
                        ("T_byte", LAYER / 3e12, "8 cores"), ("T_best", LAYER_W / P2, "shorter")],
    "day4.open.array": [("rate_K", P1, "nothing were lost"), ("rate_N", P1, "nothing were lost"),
                        ("t", 24 / 2.8e9, "N alone")],
    "day4.open.trn1": [("BW", 820e9, "device"), ("ridge", P1 / 820e9, "BW of the device"),
                       ("t", 36e6 / 820e9, "device")],
    "day4.copy": [("bytes", 64 * MIB, "one direction"), ("bytes", 128e6, "MB taken for MiB"),
                  ("BW", 64 * MIB / 400e-6, "one direction"), ("BW", 320e9, "MB taken for MiB"),
                  ("share", COPY / 400e-6 / 3e12, "3 TB/s"), ("share", 0.447, "pair"),
                  ("share", COPY / 400e-6 / 410e9, "Trainium1"),
                  ("T_spec", COPY / 3e12, "device"), ("T_spec", COPY / 410e9, "Trainium1"),
                  ("T_spec", 400e-6, "measured")],
    "day4.do.copy": [("bytes", 64 * MIB, "one direction"), ("transfer", 4 * KIB, "one partition"),
                     ("transfers", 128, "loads alone"), ("BW", COPY / 960e-6, "one direction"),
                     ("while_active", COPY / 25e-6, "time in which"),
                     ("share", COPY / 480e-6 / 820e9, "two cores")],
    "day4.do.sweep": [("best", 94e9, "smallest size"), ("level", 15.1e9, "twentieth"),
                      ("small", 302 / 94, "upside down")],
    "day4.do.loop": [("W", LOOP / 2, "one FLOP"), ("W", LOOP / 16, "one pass"),
                     ("P", LOOP / 455e-6 / 16, "one pass"),
                     ("share", LOOP / 455e-6 / P1 * 4, "fp32"),
                     ("T_spec", 455e-6, "measured rate")],
    "day4.do.cores": [("each", 700e9, "total"), ("ratio", 400 / 700, "total"),
                      ("least", 344 / 700, "total")],
    "day4.do.gaps": [("gap", 460e-6, "whole time"), ("named", 85e-6, "ends left out"),
                     ("left", 101e-6, "named"), ("share", 32 / 460, "whole time"),
                     ("share", 101 / 133, "named")],
}


# --- the curriculum's figures -------------------------------------------------------------------

def test_the_curriculums_check():
    assert COPY == 134_217_728
    assert round(COPY / 400e-6 / 1e9, 1) == 335.5 and round(COPY / 400e-6 / BW2, 3) == 0.895


@pytest.mark.parametrize(("answer", "source"), [
    (COPY / 400e-6 / 362.5e9, "hw-trainium2"), (COPY / 400e-6 / 358e9, "profile"),
    (COPY / 400e-6 / 368e9, "dma-guide")])
def test_other_sources_shares_are_named(answer, source):
    with pytest.raises(WrongAnswer, match=f"right for .*{source}.*not the figure this page uses"):
        ask("day4.copy").check(share=answer)


# --- the rule of the knee, against a walk over the sizes ------------------------------------------

SIZES = ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB"]


def first_that_stays(rates):
    level = 0.95 * max(rates)
    for i, size in enumerate(SIZES[:-1]):
        if all(rate >= level for rate in rates[i:]):
            return size
    return "none"


@pytest.mark.parametrize("seed", range(40))
def test_the_knee(seed):
    q = ask("day4.do.sweep", seed)
    (knee,) = [part for part in q.parts if part.name == "knee"]
    assert knee.right == first_that_stays(list(q.inputs.values()))


@pytest.mark.parametrize(("rates", "knee"), [
    ([100] * 7, "512 B"), ([1, 2, 3, 4, 5, 6, 100], "none"),
    ([100, 99, 98, 97, 96, 95, 94], "none"), ([100, 99, 98, 97, 96, 95, 95], "512 B"),
    ([100, 1, 100, 100, 100, 100, 100], "2 KiB"),
    ([1, 1, 1, 1, 1, 95, 100], "16 KiB")])
def test_the_knee_at_its_limits(rates, knee):
    assert first_that_stays(rates) == knee
    own = dict(zip(SWEEP, (1e9 * rate for rate in rates), strict=True))
    q = ask("day4.do.sweep", **own)
    assert q.check(knee=knee, best=max(rates) * 1e9)


def test_every_end_of_a_sweep_comes_up():
    """A flat stretch, none at all, a dip after it, and a last size that falls off."""
    ends = {next(p.right for p in ask("day4.do.sweep", seed).parts if p.name == "knee")
            for seed in range(60)}
    assert {"none", "2 KiB", "4 KiB", "8 KiB", "16 KiB"} <= ends
