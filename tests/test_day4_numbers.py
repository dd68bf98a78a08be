"""Day 4's own numbers, as arithmetic a reader can redo, beside the published rows they stand for.

No expectation here comes from `problems` or `machine`: the guides' figures are typed once, in their
sources' units, and everything else is arithmetic on them.
"""

import csv

import pytest
from pages import ROOT

from roofline import ask, machine, units
from roofline.check import ProblemError, WrongAnswer
from roofline.device import readings

GIB, MIB, KIB = 2**30, 2**20, 2**10
# Trainium1 and Trainium2 guides: array, clocks, HBM
P1, P2 = 128 * 128 * 2 * 2.8e9, 128 * 128 * 2 * 2.4e9
BW1, BW2 = 820e9 / 2, 3e12 / 8
# DMA pages: 16 engines at 17 GB/s in the table, at 27.2 GB/s in the text
DMA, MOST = 16 * 17e9, 16 * 27.2e9

COPY = 2 * 64 * MIB
LAYER = 2 * (96 * 2560 + 2560 * 5120 + 96 * 5120)
LAYER_W = 2 * 96 * 2560 * 5120
LOOP = 2 * 512 * 2048 * 1024 * 16
OWN_COPY = 2 * 40 * MIB
QUEUED = GIB / 656.3e-6
FIRST = 2 * 96 * MIB
PASS = 2 * 384 * 1536 * 1024
OPERANDS = 2 * 1536 * (384 + 1024)
ROW = 512 / (512 / 20e9 + 25e-9), 4096 / (4096 / 20e9 + 25e-9)  # engines of 20 GB/s, supposed
LONE = 448_266_240 / 1084.8e-6  # AdamW step in fp32, published
SHAPED = 2 * 2 * 4096 * 6144

NUMBERS = {
    "day4.open.ridge": dict(I=125, ridge=400, binds="memory", T_best=800e-6, T_worst=1050e-6,
                            rate=25e12),
    "day4.open.layer": dict(Q=LAYER, I=LAYER_W / LAYER, side="memory", T_flop=LAYER_W / P2,
                            T_byte=LAYER / BW2, T_best=LAYER / BW2),
    "day4.open.array": dict(rate_K=P1 * 112 / 128, rate_N=P1 * 24 / 64, t=64 / 2.8e9, why="each"),
    "day4.open.trn1": dict(BW=410e9, ridge=P1 / 410e9, t=36e6 / 410e9),
    "day4.copy": dict(bytes=134_217_728, BW="335.5 GB/s", share="89.5 %", T_spec=COPY / 375e9),
    "day4.which_clock": dict(active=MIB / 300e9, total=MIB / 300e9 + 17e-6,
                             BW=MIB / (MIB / 300e9 + 17e-6), enough=19 * 17e-6 * 300e9,
                             beside="active", whole="total"),
    "day4.clock": dict(BW="1636 GB/s", over_HBM=QUEUED / BW1, over_DMA=QUEUED / DMA,
                       T_least=GIB / MOST, timed="queue"),
    "day4.first": dict(bytes=FIRST, transfers=384, I="zero", T_HBM=FIRST / BW1, T_DMA=FIRST / DMA,
                       binds="dma"),
    "day4.size": dict(most=320e9, BW_short=16 * ROW[0], BW_long=16 * ROW[1], half=500,
                      flat=19 * 500, remedy="rows"),
    "day4.ways": dict(Q=65e6, T_one=65e6 / 271e9, T_both=65e6 / 308e9, worse=308 / 271 - 1,
                      roof="one"),
    "day4.loop": dict(W=4 * PASS, P=4 * PASS / 64e-6, share=4 * PASS / 64e-6 / P1,
                      P_whole=5 * PASS / 95e-6, T_load=OPERANDS / BW1, window="waits",
                      work="adds"),
    "day4.moving": dict(cycles=61 * 2.8, cycles_512=221 * 2.8, rule=64,
                        rate=2 * 128 * 128 * 16 / 61e-9, share=16 / (61 * 2.8), reading="price"),
    "day4.share": dict(above=400 / 375 - 1, ridge_alone=P2 / 400e9, ridge_beside=P2 / 358e9,
                       side_alone="compute", side_beside="memory", one="alone", all="beside"),
    "day4.above": dict(P=95e12, spec=P1, ratio=95e12 / P1, fits=95e12 / 32_768,
                       T_least=38e9 / P1, first="clock", twice="scope", four="dtype"),
    "day4.causes": dict(same="start", moments="issue", two="engines", third="packets",
                        early="throttle", half="rows", between="load", overhead="none"),
    "day4.fade.rate": dict(BW=96 * MIB / 350e-6, while_active=96 * MIB / 322e-6,
                           share=96 * MIB / 350e-6 / BW2, T_spec=96 * MIB / BW2,
                           gap=350e-6 - 96 * MIB / BW2),
    "day4.fade.all": dict(BW=SHAPED / 310e-6, BW_share=SHAPED / 310e-6 / BW2, P=30e9 / 430e-6,
                          P_share=30e9 / 430e-6 / P2, ridge=30e9 / 430e-6 * 310e-6 / SHAPED,
                          T_measured=60e6 * 310e-6 / SHAPED, T_spec=160e-6),
    "day4.do.copy": dict(bytes=OWN_COPY, transfer="512 KiB", transfers=160, BW=OWN_COPY / 312e-6,
                         while_active=OWN_COPY / 290e-6, share=OWN_COPY / 312e-6 / 410e9),
    "day4.do.sweep": dict(best=302e9, level=0.95 * 302e9, knee="4 KiB", small=27 / 302),
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
    "day4.which_clock": [("active", MIB / 300e9 + 17e-6, "fixed time"), ("total", 17e-6, "alone"),
                         ("total", MIB / 300e9, "left out"), ("BW", 300e9, "active time"),
                         ("enough", 5.1e6, "half of the rate")],
    "day4.clock": [("BW", 2 * QUEUED, "only reads"), ("over_HBM", QUEUED / DMA, "other roof"),
                   ("over_DMA", QUEUED / BW1, "other roof"),
                   ("T_least", GIB / 27.2e9, "one engine"),
                   ("T_least", GIB / DMA, "smaller figure")],
    "day4.first": [("bytes", 96 * MIB, "one direction"), ("transfers", 192, "loads alone"),
                   ("T_HBM", FIRST / DMA, "other of the two"),
                   ("T_DMA", FIRST / (BW1 + DMA), "added")],
    "day4.size": [("most", 20e9, "one engine"), ("BW_short", ROW[0], "one engine"),
                  ("BW_short", 320e9, "left out"), ("BW_long", 16 * 4096 / 25e-9, "alone"),
                  ("half", 19 * 500, "95%"), ("flat", 500, "row for half")],
    "day4.ways": [("Q", 130e6, "doubled"), ("T_one", 65e6 / 308e9, "other roof"),
                  ("T_both", 65e6 / 271e9, "other roof"), ("worse", 308 / 271, "not what")],
    "day4.loop": [("W", 5 * PASS, "all passes"), ("W", PASS, "one pass"),
                  ("P", 5 * PASS / 64e-6, "all passes"), ("P", 4 * PASS / 95e-6, "whole loop"),
                  ("share", 4 * PASS / 64e-6 / P1 * 4, "fp32"),
                  ("P_whole", 4 * PASS / 95e-6, "after the first"),
                  ("T_load", OPERANDS / BW1 / 2, "elements"),
                  ("T_load", OPERANDS / 820e9, "device")],
    "day4.moving": [("cycles", 61 * 1.4, "profiler's clock"), ("cycles_512", 221 * 1.12, "Vector"),
                    ("rule", 80, "added"), ("rule", 16, "N alone"), ("rate", P1, "lost"),
                    ("rate", P1 / 4, "by the rule"), ("share", 61 * 2.8 / 16, "upside down")],
    "day4.share": [("above", 400 / 375, "not what"),
                   ("ridge_alone", P2 / 358e9, "other of the two"),
                   ("ridge_beside", 2 * P2 / 358e9, "pair")],
    "day4.above": [("P", 47.5e12, "one FLOP"), ("spec", P1 / 4, "fp32"),
                   ("ratio", 95e12 / P1 - 1, "exceeds 1"), ("fits", 1.45e9, "profiler"),
                   ("T_least", 4 * 38e9 / P1, "fp32")],
    "day4.fade.rate": [("BW", 192 * MIB / 350e-6, "doubled"),
                       ("BW", 96 * MIB / 322e-6, "other clock"),
                       ("while_active", 96 * MIB / 350e-6, "other clock"),
                       ("share", 96 * MIB / 350e-6 / 3e12, "device"),
                       ("T_spec", 96 * MIB / 3e12, "device"), ("gap", 350e-6, "whole time")],
    "day4.fade.all": [("BW", SHAPED / 620e-6, "one direction"), ("BW_share", 0.108, "device"),
                      ("P", 30e9 / 310e-6, "time of the copy"),
                      ("P_share", 30e9 / 430e-6 / P2 / 2, "two cores"),
                      ("ridge", SHAPED / 310e-6 * 430e-6 / 30e9, "upside down"),
                      ("T_measured", 9e9 * 430e-6 / 30e9, "shorter"),
                      ("T_spec", 9e9 / P2, "shorter")],
    "day4.do.copy": [("bytes", 40 * MIB, "one direction"), ("transfer", 4 * KIB, "one partition"),
                     ("transfers", 80, "loads alone"), ("BW", OWN_COPY / 624e-6, "one direction"),
                     ("while_active", OWN_COPY / 22e-6, "time in which"),
                     ("share", OWN_COPY / 312e-6 / 820e9, "two cores")],
    "day4.do.sweep": [("best", 27e9, "smallest size"), ("level", 15.1e9, "twentieth"),
                      ("small", 302 / 27, "upside down")],
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

NAMES = ("B128", "B256", "B512", "K1", "K2", "K4", "K8", "K16", "K32")
SIZES = ("128 B", "256 B", "512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB")


def first_that_stays(rates):
    level = 0.95 * max(rates)
    for i, size in enumerate(SIZES[:-1]):
        if all(rate >= level for rate in rates[i:]):
            return size
    return "none"


def swept(rates):
    own = dict(zip(NAMES, (1e9 * rate for rate in rates), strict=True))
    return ask("day4.do.sweep", **own)


@pytest.mark.parametrize("seed", range(80))
def test_the_knee(seed):
    q = ask("day4.do.sweep", seed)
    (knee,) = [part for part in q.parts if part.name == "knee"]
    assert tuple(q.inputs) == NAMES
    rates = list(q.inputs.values())
    assert knee.right == first_that_stays(rates)
    found = readings.knee([units.parse(size, "B") for size in SIZES], rates).size
    assert knee.right == ("none" if found is None else units.mebi(found))  # a page's own sweep


@pytest.mark.parametrize(("rates", "knee"), [
    ([100] * 9, "128 B"), ([1, 2, 3, 4, 5, 6, 7, 8, 100], "none"),
    ([100] * 8 + [94], "none"), ([100] * 8 + [95], "128 B"),
    ([100, 1, 100, 100, 100, 100, 100, 100, 100], "512 B"), ([1] * 7 + [95, 100], "16 KiB")])
def test_the_knee_at_its_limits(rates, knee):
    assert first_that_stays(rates) == knee
    report = swept(rates).check(knee=knee, best=max(rates) * 1e9)
    assert {o.kind for o in report.outcomes if o.name in ("knee", "best")} == {"right"}


def test_the_last_size_alone_is_no_flat_stretch():
    with pytest.raises(WrongAnswer, match="one point at the level is no flat stretch"):
        swept([1, 2, 3, 4, 5, 6, 7, 8, 100]).check(knee="32 KiB")
    with pytest.raises(WrongAnswer, match="This size, or a larger one, is below the level"):
        swept([100] * 8 + [90]).check(knee="32 KiB")


def right(id, name, seeds=60):
    """All that is right of one choice in some variants."""
    return {next(p.right for p in ask(id, seed).parts if p.name == name) for seed in range(seeds)}


@pytest.mark.parametrize(("id", "name", "all_of_them"), [
    ("day4.do.sweep", "knee", {"none", "2 KiB", "4 KiB", "8 KiB", "16 KiB"}),
    ("day4.moving", "reading", {"rule", "own", "price"}),
    ("day4.ways", "roof", {"one", "both"}), ("day4.first", "binds", {"dma", "hbm"}),
    ("day4.share", "side_alone", {"memory", "compute"}),
    ("day4.do.cores", "split", {"even", "uneven"}), ("day4.do.cores", "alone", {"more", "same"})])
def test_every_outcome_comes_up(id, name, all_of_them):
    assert right(id, name) >= all_of_them


# --- the reader's own readings --------------------------------------------------------------------

@pytest.mark.parametrize(("id", "own", "answers"), [
    ("day4.copy", dict(t="350 us"), dict(BW=COPY / 350e-6, T_spec=COPY / 375e9)),
    ("day4.do.copy", dict(size="64 MiB", row="8 KiB", t="440 us", active="425 us"),
     dict(bytes=COPY, transfer=MIB, transfers=128, BW=COPY / 440e-6, while_active=COPY / 425e-6)),
    ("day4.do.loop", dict(M=256, K=1024, N=512, count=100, t="350 us", spec="78.64 TFLOP/s"),
     dict(W=2 * 256 * 1024 * 512 * 100, P=2 * 256 * 1024 * 512 * 100 / 350e-6)),
    ("day4.do.cores", dict(alone="274.8 GB/s", together="537.2 GB/s", slowest="267 GB/s"),
     dict(each=268.6e9, ratio=274.8 / 268.6, split="even", alone="same")),
    ("day4.do.cores", dict(alone="300 GB/s"), dict(alone="less")),
    ("day4.do.gaps", dict(t="428 us"), dict(gap=101e-6, left=0, share=0, write="done")),
])
def test_own_readings(id, own, answers):
    report = ask(id, **own).check(**answers)
    assert not [o for o in report.outcomes if o.kind not in ("right", "not attempted")]
    ask(id, **own).worked()


@pytest.mark.parametrize(("id", "own", "says"), [
    ("day4.do.copy", dict(row="3 KiB"), "no whole number of transfers"),
    ("day4.do.copy", dict(active="1 ms"), "cannot be longer"),
    ("day4.do.cores", dict(slowest="360 GB/s"), "cannot be faster than the average"),
    ("day4.do.cores", dict(n=1), "2 or more"),
    ("day4.do.gaps", dict(t="300 us"), "no gap to explain"),
    ("day4.do.gaps", dict(packets="90 us"), "counted twice"),
    ("day4.clock", dict(t="4 ms"), "no more than engines carry"),
    ("day4.above", dict(t="420 us"), "no more than the spec")])
def test_readings_that_do_not_fit_are_refused(id, own, says):
    with pytest.raises(ProblemError, match=says):
        ask(id, **own)


# --- figures that others published ---------------------------------------------------------------

ROWS = {row["id"]: row for row in csv.DictReader(
    (ROOT / "lib/roofline/neuroncore/rows.csv").read_text().splitlines())}


def published(id):
    row = ROWS[id]
    return int(row["hbm_bytes"]), float(row["time_us"]) * 1e-6


def test_published_rows_behind_the_questions():
    size, seconds = published("C26")
    assert ask("day4.clock").inputs == dict(size=size, t=pytest.approx(seconds))
    one_way, both = (size / seconds / 1e9 for size, seconds in map(published, ("C15", "C19")))
    assert ask("day4.ways").inputs["one_way"] == round(one_way) * 1e9 == 271e9
    assert ask("day4.ways").inputs["both"] == round(both) * 1e9 == 308e9


def test_the_lone_core_is_the_registered_one():
    figure = machine.trn2.facts["lone_core_bandwidth"].value
    assert pytest.approx(LONE, rel=1e-3) == figure
    assert LONE > 16 * 23e9 and 2 * LONE > 716e9


def test_the_queued_copy_is_six_times_the_engines():
    assert round(QUEUED / 1e9) == 1636
    assert (round(QUEUED / DMA, 1), round(QUEUED / BW1, 1)) == (6.0, 4.0)


def test_95_tera_would_need_another_clock():
    """Half of the device page's 190 TFLOPS, and what it implies."""
    assert 190 / 2 == 95 and round(95e12 / (2 * 128 * 128) / 1e9, 1) == 2.9
    assert round(95e12 / P1 - 1, 3) == 0.035
