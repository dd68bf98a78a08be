"""The gap ledger against a walk over every nanosecond, and against runs with a single cause."""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_oracle import PEELS, Refused, of, parse, sweep
from pages import ROOT
from timelines import profile, timeline

from roofline import gaps, machine, nki
from roofline import profile as profiles
from roofline.count import Count
from roofline.neuroncore import predict
from roofline.profile.write import write

REAL = Path(__file__).parents[2] / "shared/reference/real-profiles"
TRN2 = machine.get("trn2")
# 16 engines of 27.2 GB/s: the roof that a core's DMA engines can just reach.
ENGINES = TRN2.using(HBM="435.2 GB/s")


def times(ledger):
    """{cause: ns}; a cause that is listed twice would be lost."""
    assert len({row.cause for row in ledger.rows}) == len(ledger.rows)
    return {row.cause: row.time for row in ledger.rows}


def agree(ledger, swept):
    found = times(ledger)
    assert ledger.t == pytest.approx(swept.t, abs=1e-6)
    assert ledger.t_best == pytest.approx(swept.t_best, abs=1e-6)
    for cause in {*found, *swept.rows}:
        assert found.get(cause, 0) == pytest.approx(swept.rows.get(cause, 0), abs=1e-6), cause
    adds_up(ledger)


def adds_up(ledger):
    assert ledger.gap == pytest.approx(ledger.t - ledger.t_best, abs=1e-6)
    assert math.fsum(times(ledger).values()) == pytest.approx(ledger.gap, abs=1e-6)
    for row in ledger.rows:
        assert row.share * ledger.gap == pytest.approx(row.time if ledger.gap else 0, abs=1e-6)


# --- runs with one cause -------------------------------------------------------------------------
#
# On one trn2 core a bf16 matmul of K = M = 128 takes N / 2.4 ns: 200 ns for N = 480; fp32 takes
# four times that. A DMA engine carries 27.2 bytes a ns: 27,200 bytes in 1000 ns.

USEFUL = {"N": 480}
W = 2 * 128 * 128 * 480  # FLOPs of one such matmul


def engines(start, end, nbytes=27_200, of=range(16)):
    """A packet on each of these engines."""
    return [(start, end, {"engine": e, "nbytes": nbytes}) for e in of]


def around(**between):
    """Two useful matmuls, and what happens in the 100 ns between them."""
    return {"matmuls": [(0, 200, USEFUL), (300, 500, USEFUL)], **between}


def beside(**between):
    """All engines at full rate, a pause of 100 ns, all engines again."""
    more = between.pop("packets", [])
    return {"packets": [*engines(0, 1000), *more, *engines(1100, 2100)], **between}


# cause -> rows of the run, its gap in ns, what else the ledger is given
ONE = {
    # before, between and after the matmuls
    "start": ({"control": [(0, 500)], "matmuls": [(500, 700, USEFUL)]}, 500, {}),
    "fill": ({"issues": [(0, 10)], "packets": [(50, 90)], "matmuls": [(300, 500, USEFUL)]}, 300,
             {}),
    "idle": (around(), 100, {}),
    "wait for DMA": (around(packets=[(200, 300)]), 100, {}),
    "wait for vector": (around(vector=[(200, 300)]), 100, {}),
    "wait for scalar": (around(scalar=[(200, 300)]), 100, {}),
    "wait for gpsimd": (around(gpsimd=[(200, 300)]), 100, {}),
    "weight load": (around(weights=[(200, 300)]), 100, {}),
    "tail": ({"matmuls": [(0, 200, USEFUL)], "packets": [(200, 300)]}, 100, {}),
    "end": ({"matmuls": [(0, 200, USEFUL)], "control": [(200, 300)]}, 100, {}),
    "rounding": ({"matmuls": [(0, 200, USEFUL)]}, 0.609, {"total": 200.609}),
    # in the matmuls
    "transposes": ({"matmuls": [(0, 200, USEFUL), (200, 300, {"transpose": True})]}, 100, {}),
    "throttle": ({"matmuls": [(0, 400, USEFUL)], "throttles": [(0, 400, {"k": 4, "n": 8})]}, 200,
                 {}),
    "dtype": ({"matmuls": [(0, 400, {"N": 480, "dtype": "fp32", "passes": 2}),
                           (400, 800, {"N": 480, "dtype": "fp32", "passes": 2})]}, 600,
              {"count": Count({"bf16": W})}),
    "small tiles": ({"matmuls": [(0, 200, {"K": 64, "N": 480}), (200, 400, {"M": 64, "N": 480})]},
                    200, {}),
    # fp32, 32 columns: worth 53 1/3 ns, started every 106 2/3 at best
    "short moving": ({"matmuls": [(t, t + 106, {"N": 32, "dtype": "fp32"})
                                  for t in (0, 106, 212)]}, 318 - 160, {}),
    "pipeline": ({"matmuls": [(0, 250, USEFUL), (250, 500, USEFUL)]}, 100, {}),
    "uncounted work": ({"matmuls": [(0, 200, USEFUL), (200, 400, USEFUL)]}, 200,
                       {"count": Count({"bf16": W})}),
    # memory-bound
    "wait for tensor": (beside(matmuls=[(1000, 1100, {"N": 240})]), 100, {"on": ENGINES}),
    "DMA issue": (beside(issues=[(1000, 1100)]), 100, {"on": ENGINES}),
    "instruction fetch": (beside(packets=[(1000, 1100, {"traffic": False})]), 100,
                          {"on": ENGINES}),
    "DMA latency": (beside(issues=[(900, 1000)]), 100, {"on": ENGINES}),
    "extra bytes": ({"packets": engines(0, 1000) + engines(1000, 2000)}, 1000,
                    {"on": ENGINES, "count": Count({"bf16": W}, 300_000, 135_200)}),
    "few engines": ({"packets": engines(0, 1000, of=range(8))}, 500, {"on": ENGINES}),
    "packet cost": ({"packets": engines(0, 1000, nbytes=13_600)}, 500, {"on": ENGINES}),
    "packets": ({"packets": engines(0, 1000, nbytes=217_600, of=[-1])}, 500, {"on": ENGINES}),
    "engines against the roof": ({"packets": engines(0, 1000)}, 500,
                                 {"on": TRN2.using(HBM="870.4 GB/s")}),
}


def one(cause):
    """profile, machine, count, gap of the run that has this cause alone."""
    rows, gap, given = ONE[cause]
    return (profile(timeline(**rows), given.get("total"), kind="modelled"),
            given.get("on", TRN2), given.get("count"), gap)


@pytest.mark.parametrize("cause", ONE)
def test_a_single_cause_takes_all_of_the_gap(cause):
    made, on, count, gap = one(cause)
    ledger = gaps.ledger(made, on, count)
    agree(ledger, sweep(of(made), on, count))
    assert ledger.gap == pytest.approx(gap, abs=1e-6)
    rows = {name: ns for name, ns in times(ledger).items() if abs(ns) > 1e-6}
    assert rows == {cause: pytest.approx(gap, abs=1e-6)}
    assert ledger[cause] == pytest.approx(gap, abs=1e-6)


@pytest.mark.parametrize("cause", ONE)
def test_two_cores_that_do_the_same_have_the_same_ledger(cause):
    """LNC=2, both at work: twice the count on twice the machine."""
    rows, _, given = ONE[cause]
    both = {kind: [(start, end, {**(more[0] if more else {}), "core": core, **names(more, core)})
                   for core in (0, 1) for start, end, *more in some]
            for kind, some in rows.items()}
    on, count = given.get("on", TRN2), given.get("count")
    pair = TRN2.at("lnc2").using(HBM=2 * on.bw())
    alone = gaps.ledger(one(cause)[0], on, count)
    made = profile(timeline(cores=2, **both), given.get("total"))
    together = gaps.ledger(made, pair, 2 * count if count else None)
    agree(together, sweep(of(made), pair, 2 * count if count else None))
    assert times(together) == pytest.approx(times(alone), abs=1e-6)
    # ... and one at work, the other with control rows alone: its half of the machine is not used
    idle = {kind: [*some, *([(0, 90, {"core": 1})] if kind == "control" else [])]
            for kind, some in {"control": [], **rows}.items()}
    made = profile(timeline(cores=2, **idle), given.get("total"))
    assert times(gaps.ledger(made, pair, count)) == pytest.approx(times(alone), abs=1e-6)


def names(more, core):
    """The names of a row, of one core."""
    given = more[0] if more else {}
    return {key: [f"{name} {core}" for name in given[key]] if key == "after" else
            f"{given[key]} {core}" for key in ("name", "after") if key in given}


# --- whom a gap is blamed on --------------------------------------------------------------------
#
# Two matmuls, and a gap between them from 200 to 300 ns in which the Vector Engine is busy.


@pytest.mark.parametrize(("after", "cause"), [
    ([], "wait for vector"),             # nobody says: who was busy
    (["s"], "wait for scalar"),          # a predecessor that ended in the gap
    (["early"], "wait for vector"),      # it ended as the gap began: not waited for
    (["s", "g"], "wait for scalar"),     # both end at 300: the one listed first
    (["g", "s"], "wait for gpsimd"),
    (["g299", "s"], "wait for scalar"),  # the one that ends last
    (["g299", "early"], "wait for gpsimd"),
    (["t"], "wait for DMA"),             # it hands a transfer over
    (["m"], "wait for vector"),          # a Tensor row says nothing
    (["c"], "wait for vector"),          # control is no work
    (["c", "s"], "wait for scalar"),     # ... and is passed over
    (["n"], "wait for DMA"),             # Sync only moves data
    # none of them ended in the gap, but one started a transfer: its packets come later
    (["old"], "wait for DMA"),           # however long ago, and whoever was busy meanwhile
    (["early", "old"], "wait for DMA"),
    (["m", "old"], "wait for DMA"),
    (["q"], "wait for DMA"),             # from the Tensor Engine's own queue
    (["q", "s"], "wait for scalar"),     # one that ended in the gap says more
    (["n200", "early"], "wait for vector"),  # ended, and no start of a transfer
    (["w"], "wait for vector"),          # a Tensor row, though it ended in the gap ...
    (["w", "old"], "wait for DMA"),
    (["w", "g250"], "wait for gpsimd"),  # ... does not hide who ended before it
])
def test_a_gap_is_blamed_on(after, cause):
    made = profile(timeline(
        issues=[(0, 290, {"name": "t"}), (10, 20, {"name": "old"}),
                (30, 200, {"name": "q", "engine": "tensor"})],
        weights=[(299, 299, {"name": "w"})],
        matmuls=[(0, 200, USEFUL | {"name": "m"}), (300, 500, USEFUL | {"after": after})],
        vector=[(200, 300)], scalar=[(0, 200, {"name": "early"}), (150, 300, {"name": "s"})],
        gpsimd=[(240, 250, {"name": "g250"}), (250, 299, {"name": "g299"}),
                (299, 300, {"name": "g"})],
        sync=[(250, 300, {"name": "n"}), (100, 200, {"name": "n200"})],
        control=[(100, 300, {"name": "c"})]))
    agree(gaps.ledger(made, TRN2), sweep(of(made), TRN2))
    assert gaps.ledger(made, TRN2)[cause] == pytest.approx(100)


def test_of_the_rows_that_end_a_gap_the_first_tells():
    rows = {"weights": [(300, 320, {"after": ["s"]})], "scalar": [(150, 300, {"name": "s"})],
            "matmuls": [(0, 200, USEFUL), (300, 500, USEFUL | {"after": ["g"]})],
            "gpsimd": [(150, 300, {"name": "g"})]}
    assert gaps.ledger(profile(timeline(**rows)), TRN2)["wait for scalar"] == pytest.approx(100)
    rows["matmuls"], rows["weights"] = rows.pop("matmuls"), rows.pop("weights")
    assert gaps.ledger(profile(timeline(**rows)), TRN2)["wait for gpsimd"] == pytest.approx(100)


# --- when the cores of a pair do not end together ------------------------------------------------
#
# Rows of core 0 and of core 1, and what is lost: the mean over both. A matmul of 200 ns each.

PAIR = TRN2.at("lnc2")
TWICE = [(0, 200, USEFUL), (200, 400, USEFUL)]


def on_core(core, rows):
    return {kind: [(start, end, {**(more[0] if more else {}), "core": core})
                   for start, end, *more in some] for kind, some in rows.items()}


def on_both(one, other):
    found = [on_core(0, one), on_core(1, other)]
    return {kind: [row for rows in found for row in rows.get(kind, [])]
            for kind in {*one, *other}}


@pytest.mark.parametrize(("one", "other", "end", "lost"), [
    ({"matmuls": TWICE[:1]}, {"matmuls": TWICE}, 400, {"wait for the other core": 100}),
    ({"matmuls": TWICE}, {"matmuls": TWICE[:1]}, 400, {"wait for the other core": 100}),
    ({"matmuls": TWICE[:1]}, {"matmuls": TWICE}, 450, {"wait for the other core": 100, "end": 50}),
    # a tail is work: it waits after it; and the other one for the tail
    ({"matmuls": TWICE[:1], "packets": [(190, 300)]}, {"matmuls": TWICE}, 400,
     {"tail": 50, "wait for the other core": 50}),
    ({"matmuls": TWICE, "scalar": [(400, 500)]}, {"matmuls": TWICE}, 510,
     {"tail": 50, "wait for the other core": 50, "end": 10}),
    # control rows, instruction fetch: no work, so nobody waits for them
    ({"matmuls": TWICE, "control": [(400, 500)], "packets": [(400, 490, {"traffic": False})]},
     {"matmuls": TWICE}, 500, {"end": 100}),
    # the other one begins late: that is its start, and it is waited for
    ({"matmuls": TWICE[:1]}, {"matmuls": [(200, 400, USEFUL)]}, 400,
     {"start": 100, "wait for the other core": 100}),
])
def test_who_stops_first_waits_for_the_other_core(one, other, end, lost):
    made = profile(timeline(cores=2, end=end, **on_both(one, other)))
    ledger = gaps.ledger(made, PAIR)
    agree(ledger, sweep(of(made), PAIR))
    assert {cause: ns for cause, ns in times(ledger).items() if abs(ns) > 1e-6} == pytest.approx(
        lost, abs=1e-6)


def test_a_core_that_moves_less_waits_for_the_other_core():
    """Memory-bound: core 0 moves for 1000 ns at full rate, core 1 for 1500."""
    pair = PAIR.using(HBM=2 * ENGINES.bw())
    made = profile(timeline(cores=2, **on_both(
        {"packets": engines(0, 1000)}, {"packets": engines(0, 1000) + engines(1000, 1500, 13_600)})
        ))
    ledger = gaps.ledger(made, pair)
    agree(ledger, sweep(of(made), pair))
    assert ledger.t_best == pytest.approx(1250) and ledger.gap == pytest.approx(250)
    assert ledger["wait for the other core"] == pytest.approx(250)
    first, last = (gaps.ledger(made, pair, window=w) for w in ((0, 1200), (1200, 1500)))
    assert first["wait for the other core"] == pytest.approx(100)
    assert last["wait for the other core"] == pytest.approx(150)
    assert last.row("wait for the other core").stretches == [(0, 1200, 1500)]


# --- between two stretches of packets ------------------------------------------------------------
#
# All engines move from 0 to 500, from 500 to 1000, and again from 2000: what of the 1000 ns without
# a packet? A transfer that is issued after the packets from 500 on began has sent none of them.


LATE, ISSUE, VECTOR, FETCH = "DMA latency", "DMA issue", "wait for vector", "instruction fetch"


@pytest.mark.parametrize(("between", "lost"), [
    ({}, {}),
    ({"issues": [(400, 500)]}, {}),  # those from 500 on may be its packets
    ({"issues": [(400, 501)]}, {LATE: 1000}),
    ({"issues": [(900, 1000)]}, {LATE: 1000}),
    ({"issues": [(900, 1100)]}, {ISSUE: 100, LATE: 900}),
    ({"issues": [(1200, 1300)]}, {ISSUE: 100, LATE: 700}),
    ({"issues": [(1300, 1300)]}, {LATE: 700}),
    ({"issues": [(1200, 1300), (1600, 1700)]}, {ISSUE: 200, LATE: 300 + 300}),  # of either
    ({"issues": [(1900, 2100)]}, {ISSUE: 100}),  # still being issued when packets move
    ({"issues": [(2000, 2100)]}, {}),
    ({"issues": [(1200, 1300, {"engine": "scalar"})]}, {ISSUE: 100, LATE: 700}),  # not its work
    # the next one waits to be told that an earlier one is over
    ({"issues": [(0, 100, {"name": "t"}), (1700, 1800, {"after": ["t"]})]},
     {ISSUE: 100, LATE: 700 + 200}),
    ({"issues": [(0, 100, {"name": "t"}), (1700, 1800, {"after": ["v", "t"]})],
      "vector": [(200, 300, {"name": "v"})]}, {ISSUE: 100, LATE: 700 + 200}),
    ({"issues": [(1700, 1800, {"after": ["v"]})], "vector": [(200, 300, {"name": "v"})]},
     {ISSUE: 100, LATE: 200}),
    ({"issues": [(0, 100, {"name": "t"}), (1400, 1500, {"after": ["t"]}), (1700, 1800)]},
     {ISSUE: 200, LATE: 400 + 200 + 200}),
    ({"issues": [(0, 100, {"name": "t"}), (2000, 2100, {"after": ["t"]})]}, {}),  # as packets move
    # no receipt before there is a transfer: idle until 1200
    ({"issues": [(1200, 1300, {"name": "t"}), (1700, 1800, {"after": ["t"]})]},
     {ISSUE: 200, LATE: 400 + 200}),
    # whoever works goes before; then an issue; then instruction fetch
    ({"issues": [(1200, 1300)], "vector": [(1100, 1250), (1400, 1500)]},
     {VECTOR: 150 + 100, ISSUE: 50, LATE: 100 + 500}),
    ({"issues": [(1200, 1300)], "packets": [(1250, 1450, {"traffic": False})]},
     {ISSUE: 100, FETCH: 150, LATE: 550}),
    ({"issues": [(1200, 1300)], "sync": [(1400, 1500)], "control": [(1500, 1600)]},
     {ISSUE: 100, LATE: 700}),
    # packets of no length end nothing: neither the stretch nor the latency
    ({"issues": [(1200, 1300)], "packets": [(1500, 1500)]}, {ISSUE: 100, LATE: 700}),
])
def test_a_transfer_that_is_on_its_way_is_latency(between, lost):
    moving = [packet for t in (0, 500, 2000) for packet in engines(t, t + 500, 13_600)]
    made = profile(timeline(**{**between, "packets": moving + between.get("packets", [])}))
    ledger = gaps.ledger(made, ENGINES)
    agree(ledger, sweep(of(made), ENGINES))
    expected = lost | {"idle": 1000 - sum(lost.values())}
    assert {cause: times(ledger).get(cause, 0) for cause in (LATE, ISSUE, VECTOR, FETCH, "idle")
            } == pytest.approx({LATE: 0, ISSUE: 0, VECTOR: 0, FETCH: 0} | expected)


def test_a_receipt_may_come_from_the_other_core():
    """Core 1 starts a transfer from 100 to 200; core 0 waits for it with its own, at 1700."""
    pair = PAIR.using(HBM=2 * ENGINES.bw())
    made = profile(timeline(
        cores=2, packets=[*engines(0, 1000), *engines(2000, 3000)],
        issues=[(100, 200, {"core": 1, "name": "t"}), (1700, 1800, {"after": ["t"]})]))
    ledger = gaps.ledger(made, pair)
    agree(ledger, sweep(of(made), pair))
    assert ledger["DMA latency"] == pytest.approx((700 + 200) / 2)
    assert ledger["wait for the other core"] == pytest.approx((3000 - 200) / 2)


# --- what has no ledger --------------------------------------------------------------------------


def test_a_run_without_instructions_has_no_compute_roof():
    made = profile(timeline(packets=engines(0, 1000)))
    agree(gaps.ledger(made, ENGINES), sweep(of(made), ENGINES))
    agree(gaps.ledger(made, ENGINES, Count({"bf16": W}, 400_000)),
          sweep(of(made), ENGINES, Count({"bf16": W}, 400_000)))
    for asked in ({"count": Count({"bf16": W})}, {"roof": "compute"}):
        with pytest.raises(gaps.GapError):
            gaps.ledger(made, ENGINES, **asked)
    with pytest.raises(Refused):
        sweep(of(made), ENGINES, Count({"bf16": W}))


@pytest.mark.parametrize(("instance", "chip", "fits"), [
    ("trn2.48xlarge", "trn2", True), ("trn2", "trn2", True), ("trn1.2xlarge", "trn2", False),
    ("trn1.32xlarge", "trn1", True), ("inf2.xlarge", "trn1", True), ("trn1.2xlarge", "inf2", True),
    ("trn2.3xlarge", "trn1", False), ("inf2.xlarge", "trn2", False), ("", "trn2", True),
])
def test_a_run_of_another_chip_is_refused(instance, chip, fits):
    made = profile(timeline(matmuls=TWICE), metadata={"instance_type": instance})
    if fits:
        assert gaps.ledger(made, machine.get(chip)).t == pytest.approx(400)
    else:
        with pytest.raises(gaps.GapError):
            gaps.ledger(made, machine.get(chip))


@pytest.mark.parametrize(("end", "total", "window", "fits"), [
    (400, 400, (0, 400), True), (400, 400, (0, 401), False), (400, 400, (-1, 400), False),
    (400, 400.6, (0, 401), True), (400, 400.6, (0, 402), False), (400, 300, (0, 400), True),
    (400, 300, (0, 401), False), (400, 500, (450, 500), True), (400, 500, (450, 501), False),
])
def test_a_window_lies_in_the_run(end, total, window, fits):
    made = profile(timeline(matmuls=TWICE, end=end), total)
    for run, asked in ((made, {"window": window}), (replace(made, span=window), {})):
        if fits:
            agree(gaps.ledger(run, TRN2, **asked), sweep(of(run), TRN2, **asked))
        else:
            with pytest.raises(gaps.GapError):
                gaps.ledger(run, TRN2, **asked)
            with pytest.raises(Refused):
                sweep(of(run), TRN2, **asked)


# --- in which order a slot is peeled -------------------------------------------------------------
#
# fp32, K = 64, N = 48, counted as bf16: worth 10 ns. In fp32 40 (30 more), with all rows 80 (40
# more), at 64 columns 106 2/3 (26 2/3 more); at half speed it loses half of its slot.


@pytest.mark.parametrize(("slot", "throttle", "dtype", "tiles", "moving", "pipeline"), [
    (8, 0, 0, 0, 0, -2),
    (12, 2, 0, 0, 0, 0),
    (60, 30, 20, 0, 0, 0),
    (100, 50, 30, 10, 0, 0),
    (160, 80, 30, 40, 0, 0),
    (190, 95, 30, 40, 15, 0),
    (240, 120, 30, 40, 80 / 3, 40 / 3),
])
def test_a_slot_is_peeled_in_order(slot, throttle, dtype, tiles, moving, pipeline):
    made = profile(timeline(matmuls=[(0, slot, {"K": 64, "N": 48, "dtype": "fp32"})],
                            throttles=[(0, slot, {"k": 4, "n": 8})]))
    ledger = gaps.ledger(made, TRN2, Count({"bf16": 2 * 64 * 128 * 48}))
    found = [ledger[c] for c in ("throttle", "dtype", "small tiles", "short moving", "pipeline")]
    assert found == pytest.approx([throttle, dtype, tiles, moving, pipeline], abs=1e-6)
    assert ledger.gap == pytest.approx(slot - 10)
    adds_up(ledger)


def test_the_start_is_throttled_until_the_first_release():
    """Half speed (throttle_start) from the first Tensor row to the first row with k = n."""
    rows = {"matmuls": [(100, 500, USEFUL)]}
    for released, lost in ((300, 100), (400, 150), (500, 200), (100, 0), (50, 0)):
        slow = [(released, 600, {"k": 8, "n": 8})]
        ledger = gaps.ledger(profile(timeline(**rows, throttles=slow, end=600)), TRN2)
        assert ledger["throttle"] == pytest.approx(lost)
    for other in ([], [(300, 600, {"k": 253, "n": 1})], [(300, 600, {"k": 8, "n": 8, "core": 1})]):
        ledger = gaps.ledger(profile(timeline(**rows, throttles=other, end=600, cores=2)), TRN2)
        assert ledger["throttle"] == 0


def test_where_throttles_overlap_the_slower_counts():
    slow = [(0, 300, {"k": 4, "n": 8}), (200, 400, {"k": 2, "n": 8}), (300, 400, {"k": 8, "n": 8})]
    made = profile(timeline(matmuls=[(0, 600, USEFUL)], throttles=slow))
    assert gaps.ledger(made, TRN2)["throttle"] == pytest.approx(200 / 2 + 200 * 3 / 4)


# --- what a matmul of no length, or of no dtype, is worth ----------------------------------------


def test_a_matmul_of_no_length_belongs_to_the_window_it_starts():
    made = profile(timeline(matmuls=[(0, 200, USEFUL), (200, 200, USEFUL), (200, 400, USEFUL)]))
    first, second = (gaps.ledger(made, TRN2, window=w) for w in ((0, 200), (200, 400)))
    assert (first.t_best, second.t_best) == (pytest.approx(200), pytest.approx(400))
    assert times(second) == {"pipeline": pytest.approx(-200)}
    last = profile(timeline(matmuls=[(0, 200, USEFUL), (200, 200, USEFUL)]))
    assert gaps.ledger(last, TRN2).t_best == pytest.approx(200)  # at the end of the run: in none


@pytest.mark.parametrize("rows", [
    {"matmuls": [(0, 0, {"transpose": True})], "packets": [(1, 1)]},  # neither is worth anything
    {"matmuls": [(0, 1, {"N": 8})], "packets": [(1, 1, {"nbytes": 20_000})]},
    {"matmuls": [(1, 1, USEFUL)], "packets": [(0, 1, {"nbytes": 20})]}])
def test_what_has_no_length_decides_no_roof_at_the_end_of_the_run(rows):
    made = profile(timeline(**rows))
    swept = sweep(of(made), TRN2)
    assert swept.roof == ("memory" if rows["packets"][0][1] > rows["packets"][0][0] else "compute")
    agree(gaps.ledger(made, TRN2), swept)
    assert gaps.ledger(made, TRN2).roof == swept.roof


def test_a_matmul_without_a_dtype_is_worth_what_the_others_multiply():
    some = {"N": 120, "dtype": "fp32"}  # 50 ns in bf16, 200 in fp32
    rows = [(0, 200, some), (200, 400, some | {"dtype": ""}),
            (400, 450, {"transpose": True, "dtype": "bf16"})]
    ledger = gaps.ledger(profile(timeline(matmuls=rows)), TRN2)
    assert ledger.t_best == pytest.approx(400)
    assert times(ledger) == {"transposes": pytest.approx(50)}
    with pytest.raises(gaps.GapError):  # a transpose tells nothing of what is multiplied
        gaps.ledger(profile(timeline(matmuls=rows[1:])), TRN2)


@pytest.mark.parametrize("cause", (
    *PEELS, "transposes", "few engines", "packet cost", "engines against the roof",
    "weight load", "wait for vector", "wait for scalar", "wait for gpsimd", "wait for tensor",
    "wait for DMA", "DMA issue", "instruction fetch", "DMA latency", "start", "fill", "tail",
    "end"))
def test_a_cause_that_is_forgotten_shows(cause):
    """A walk that does not tell this cause apart disagrees with the ledger."""
    made, on, count, _ = one(cause)
    ledger = gaps.ledger(made, on, count)
    agree(ledger, sweep(of(made), on, count))
    with pytest.raises(AssertionError):
        agree(ledger, sweep(of(made), on, count, skip=(cause,)))


@pytest.mark.parametrize("cause", ONE)
def test_a_row_that_is_dropped_is_missed_by_the_sum(cause):
    made, on, count, _ = one(cause)
    ledger = gaps.ledger(made, on, count)
    rest = math.fsum(ns for name, ns in times(ledger).items() if name != cause)
    assert abs(ledger.gap - rest) > 0.5


# --- random runs ---------------------------------------------------------------------------------

SIZES = {"K": [128, 128, 64, 32, 0], "M": [128, 128, 64, 0], "N": [8, 16, 48, 64, 96, 0]}
KINDS = ("matmuls", "weights", "vector", "scalar", "gpsimd", "sync", "issues", "control")
MACHINES = [TRN2, TRN2.at("lnc2"), machine.get("trn1"), ENGINES]


@st.composite
def runs(draw, cores=(1, 2)):
    """Rows of a run of some 150 ns in which much touches, nests and overlaps.

    Often one core has more to do than the other, packets come long after they were issued, and a
    row waits for a transfer; now and then only packets are known.
    """
    cores = draw(st.sampled_from(cores))
    working = draw(st.integers(1, cores))  # of a pair the second may be idle
    matmul_bound = draw(st.booleans())
    unknown = draw(st.booleans())
    later = [0, draw(st.sampled_from([0, 0, 30, 130]))]  # of what a core does
    latency = draw(st.sampled_from([0, 0, 20, 60, 150]))
    number = iter(range(1000))
    known: list[int] = []
    started: list[int] = []

    def rows(kind, most):
        found = []
        for _ in range(draw(st.integers(0, most))):
            start, length = draw(st.integers(0, 120)), draw(st.integers(0, 40))
            more = {"core": draw(st.integers(0, (cores if kind == "control" else working) - 1))}
            if kind == "matmuls":
                more |= {key: draw(st.sampled_from(some)) for key, some in SIZES.items()}
                more |= {"dtype": draw(st.sampled_from(["bf16", "fp32", "tf32", ""])),
                         "passes": draw(st.sampled_from([1, 1, 2])),
                         "transpose": draw(st.integers(0, 4)) == 0}
                if 0 in (more["K"], more["M"], more["N"]) or draw(st.booleans()):
                    more["macs"] = draw(st.integers(0, 1_500_000))
            if kind == "packets":
                more |= {"engine": draw(st.integers(-1 if unknown else 0, 17)),
                         "nbytes": draw(st.sampled_from([2, 512, 4096, 20_000])),
                         "traffic": draw(st.integers(0, 3)) > 0}
            elif kind == "throttles":
                more |= dict(zip("kn", draw(st.sampled_from(
                    [(4, 8), (8, 8), (8, 8), (2, 8), (0, 8), (253, 1)])), strict=True))
            else:
                more |= {"name": next(number)}
                if kind in ("issues", "control"):
                    more["engine"] = draw(st.sampled_from(
                        ["tensor", "vector", "scalar", "gpsimd", "sync"]))
                elif kind == "sync":  # work of the Tensor Engine that is no matmul, too
                    more["engine"] = draw(st.sampled_from(["tensor", "sync"]))
                known.append(more["name"])
                started.extend([more["name"]] * (kind == "issues"))
            start += later[more["core"]] + latency * (kind == "packets")
            found.append((start, start + length, more))
        return found

    made = {kind: rows(kind, 3) for kind in KINDS if kind not in ("matmuls", "weights")}
    many, few = (8, 3) if matmul_bound else (2, 12)
    made |= {"matmuls": rows("matmuls", many), "weights": rows("weights", 3),
             "packets": rows("packets", few), "throttles": rows("throttles", 3)}
    if draw(st.integers(0, 9)) == 0:
        made = {kind: some for kind, some in made.items() if kind in ("packets", "throttles")}
    for kind in ("matmuls", "weights", "issues"):
        for _, _, more in made.get(kind, ()):
            if known and draw(st.booleans()):
                after = st.sampled_from(draw(st.sampled_from([known, started or known])))
                more["after"] = draw(st.lists(after, min_size=1, max_size=3))
    last = max((end for some in made.values() for _, end, _ in some), default=0)
    end = last + draw(st.sampled_from([0, 0, 0, 13, 13, -min(last, 9)]))  # now and then too early
    return profile(timeline(cores=cores, end=end, **made),
                   end + draw(st.sampled_from([0, 0.609, 40.25, -3])))


counts = st.none() | st.builds(
    Count, st.sampled_from([{"bf16": 9_000_000}, {"bf16": 1_000_000}, {"fp32": 2_000_000}, {},
                            {"bf16": 4_000_000, "fp32": 500_000}]),
    st.sampled_from([0, 900, 40_000]), st.sampled_from([0, 700]))


def walked(run, on=TRN2, count=None, window=None, roof=None):
    """The walk, or None for a run that has no ledger."""
    try:
        return sweep(of(run), on, count, window, roof=roof)
    except Refused:
        return None


@settings(deadline=None, max_examples=400)
@given(runs(), st.sampled_from(MACHINES), counts, st.sampled_from([None, "compute", "memory"]))
def test_ledger_is_the_walk(run, on, count, roof):
    swept = walked(run, on, count, roof=roof)
    if swept is None:
        with pytest.raises(gaps.GapError):
            gaps.ledger(run, on, count, roof=roof)
    else:
        agree(gaps.ledger(run, on, count, roof=roof), swept)


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), counts, st.sampled_from([0, 1, 2, 40, 90]),
       st.integers(1, 300))
def test_a_window_is_the_walk(run, on, count, start, length):
    window = (start, start + length)
    swept = walked(run, on, count, window)
    if swept:
        agree(gaps.ledger(run, on, count, window=window), swept)
        agree(gaps.ledger(replace(run, span=window), on, count), swept)
    else:
        with pytest.raises(gaps.GapError):
            gaps.ledger(run, on, count, window=window)


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), st.sets(st.integers(1, 400), max_size=4),
       st.sampled_from([None, "compute", "memory"]))
def test_windows_that_tile_the_run_add_up(run, on, cuts, roof):
    E = run.timeline.end
    if not E or not walked(run, on, roof=roof):
        return
    edges = sorted({0, *(cut for cut in cuts if cut < E), E})
    parts = [gaps.ledger(run, on, window=window, roof=roof)
             for window in itertools.pairwise(edges)]
    whole = gaps.ledger(replace(run, summary={"total_time": E / 1e9}), on, roof=roof)
    assert sum(part.t for part in parts) == pytest.approx(E, abs=1e-6)
    assert math.fsum(part.t_best for part in parts) == pytest.approx(whole.t_best, abs=1e-6)
    for cause in {cause for ledger in (whole, *parts) for cause in times(ledger)}:
        assert math.fsum(times(part).get(cause, 0) for part in parts) == pytest.approx(
            times(whole).get(cause, 0), abs=1e-6), cause


def blanked(run):
    """The same run without any name that somebody wrote."""
    own = run.timeline.instructions
    own = replace(own, id=np.zeros_like(own.id), line=np.zeros_like(own.line), lines=("",))
    moved = replace(run.timeline.packets, id=np.zeros_like(run.timeline.packets.id))
    return replace(run, name="", version="", format="", tensors=(), warnings=(), metadata={},
                   summary={"total_time": run.summary["total_time"]}, kind="measured",
                   timeline=replace(run.timeline, instructions=own, packets=moved))


def told(ledger):
    """Everything of a ledger that is no name."""
    return [(row.cause, row.time, row.share, list(map(tuple, row.stretches)))
            for row in ledger.rows]


@settings(deadline=None, max_examples=100)
@given(runs(), counts)
def test_names_change_nothing(run, count):
    if walked(run, TRN2, count):
        named = replace(run, kind="modelled", warnings=("it was the Vector Engine",),
                        tensors=(profiles.Tensor("cause: idle", "IN", (1,), 2),))
        assert told(gaps.ledger(named, TRN2, count)) == told(
            gaps.ledger(blanked(run), TRN2, count))


# --- stretches -----------------------------------------------------------------------------------

BY_PLACE = ("start", "fill", "tail", "end", "idle", "weight load", "wait for vector",
            "wait for scalar", "wait for gpsimd", "wait for tensor", "wait for DMA", "DMA issue",
            "instruction fetch", "DMA latency", "wait for the other core", "few engines",
            "transposes", *PEELS)


def test_few_engines_are_where_fewer_than_sixteen_are_busy():
    made = profile(timeline(packets=[
        *engines(0, 500, 13_600), *engines(500, 1000, 13_600, range(4)),
        *engines(1000, 1500, 13_600)]))
    row = gaps.ledger(made, ENGINES).row("few engines")
    assert row.time == pytest.approx(500 * 12 / 16)
    assert row.stretches == [(0, 500, 1000)]


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), counts, st.sampled_from([None, "compute", "memory"]))
def test_a_place_has_the_stretches_of_the_walk(run, on, count, roof):
    swept = walked(run, on, count, roof=roof)
    if not swept:
        return
    ledger = gaps.ledger(run, on, count, roof=roof)
    for row in ledger.rows:
        points = [(int(core), t) for core, start, end in row.stretches
                  for t in range(int(start), int(end))]
        assert len(points) == len(set(points)), row.cause
        assert all(0 <= t < run.timeline.end for _, t in points), row.cause
        if row.cause in BY_PLACE:
            assert set(points) == swept.where.get(row.cause, set()), row.cause


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), counts)
def test_a_cause_in_matmuls_names_them(run, on, count):
    swept = walked(run, on, count)
    if not swept:
        return
    own = run.timeline.instructions
    for row in gaps.ledger(run, on, count).rows:
        if row.cause not in (*PEELS, "transposes"):
            continue
        matmuls = swept.matmuls[row.cause]
        assert Counter((m.core, m.start, m.end) for m, _, _ in matmuls) == Counter(
            (int(own.core[i]), int(own.start[i]), int(own.end[i]))
            for i in row.events.instructions), row.cause


# --- what the cost model says of the course's kernels --------------------------------------------
#
# A prediction, written as a profile and read back, against the walk over what was predicted.

KERNELS = [  # day, name, shapes in bf16, options, number of cores
    (4, "copy", [(4, 128, 256)], {"elements": 256}, (1, 2)),
    (4, "read", [(8, 128, 256)], {"elements": 256}, (1, 2)),
    (4, "write", [(3, 64, 128)], {"elements": 128, "partitions": 64}, (1,)),
    (4, "moving_sweep", [(64, 128), (64, 96)], {"n": 20}, (1, 2)),
    (4, "resident_matmul", [(256, 128), (256, 512)], {"repeat": 2}, (1, 2)),
    (5, "matmul_reload", [(256, 128), (256, 512)], {}, (1, 2)),
    (5, "matmul_c_stays", [(256, 256), (256, 1024)], {}, (1, 2)),
    (5, "mlp_gelu", [(256, 512)], {}, (1, 2)),
    (5, "mlp_fused", [(512, 256), (512, 256), (256, 512)], {}, (1, 2)),
    (5, "attention_softmax", [(512, 512)], {}, (1, 2)),
    (5, "attention_values", [(512, 512), (512, 128)], {}, (1, 2)),
    (5, "attention_fused", [(128, 512), (128, 512), (512, 128)], {}, (1, 2)),
    (6, "linear", [(256, 1024), (256, 512)], {}, (1, 2)),
    (6, "linear_w_once", [(256, 1024), (256, 512)], {}, (2,)),
    (7, "matmul", [(256, 512), (256, 1024)], {}, (1, 2)),
    (7, "swiglu", [(512, 128), (512, 256), (512, 256), (256, 512)], {}, (1, 2)),
]


def predicted(day, name, shapes, options, lnc, buffers):
    """A kernel of the course on shapes alone: its count, its machine, what the model predicts."""
    kernel = getattr(nki.load(ROOT / f"day{day}" / "kernels.py"), name)
    run = nki.run(kernel, *((shape, "bf16") for shape in shapes), target="trn2", lnc=lnc,
                  data=False, **options)
    return run.count, TRN2.at("lnc2") if lnc == 2 else TRN2, predict(run, buffers=buffers)


@pytest.mark.parametrize(("day", "name", "shapes", "options", "cores"), KERNELS,
                         ids=[f"day{kernel[0]}.{kernel[1]}" for kernel in KERNELS])
def test_a_prediction_is_the_walk_after_it_is_written_and_read(
        day, name, shapes, options, cores, tmp_path):
    for lnc, buffers in itertools.product(cores, (1, 2)):
        count, on, prediction = predicted(day, name, shapes, options, lnc, buffers)
        path = tmp_path / f"{lnc}-{buffers}.json"
        write(prediction.profile, path, format="json")
        read = profiles.read(path)
        case = of(prediction.profile)
        swept = sweep(case, on)
        agree(gaps.ledger(read, on), swept)
        agree(gaps.ledger(read, on), sweep(parse(json.loads(path.read_text("utf-8"))), on))
        agree(gaps.ledger(read, on, count), sweep(case, on, count))
        other = {"compute": "memory", "memory": "compute"}[swept.roof]
        agree(gaps.ledger(read, on, roof=other), sweep(case, on, roof=other))
        window = (case.end // 3, case.end // 2)
        agree(gaps.ledger(read, on, window=window), sweep(case, on, window=window))


def test_a_prediction_is_taken_as_it_is():
    count, on, prediction = predicted(*KERNELS[-1][:4], 1, 2)
    assert told(gaps.ledger(prediction, on, count)) == told(
        gaps.ledger(prediction.profile, on, count))
    assert told(gaps.ledger(prediction, "trn2", prediction.run)) == told(
        gaps.ledger(prediction.profile, TRN2, count))


# --- two real files ------------------------------------------------------------------------------
#
# Attention, S = 512, d = 128, one core of an LNC=2 pair: "allenkchau/trainium-kernel-fusion", MIT.
# Each product is 2 x 512 x 512 x 128 FLOPs; the bf16 file runs its second product in fp32.

PRODUCT = 2 * 512 * 512 * 128
COUNTS = {"bf16": Count({"bf16": PRODUCT, "fp32": PRODUCT}), "fp32": Count({"fp32": 2 * PRODUCT})}
# ns, by another, throw-away program: waits told apart by what was busy, not by predecessors.
TABLE = {
    "bf16": {"start": 13704, "fill": 3500, "throttle": 2167, "dtype": 0, "transposes": 4054,
             "pipeline": 370, "weight load": 63, "wait for Vector or Scalar": 2721,
             "wait for DMA": 37, "idle": 97, "tail": 3280, "end": 2092, "rounding": 0.6},
    "fp32": {"start": 13289, "fill": 3863, "throttle": 2369, "dtype": 0, "transposes": 3310,
             "pipeline": 563, "weight load": 63, "wait for Vector or Scalar": 2169,
             "wait for DMA": 37, "idle": 272, "tail": 3251, "end": 2079, "rounding": 0.6},
}
real = pytest.mark.parametrize("kind", COUNTS)


def path(kind):
    found = REAL / f"trn2-lnc2-attn-fused-{kind}-s512.full.json"
    if not found.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    return found


def without_predecessors(run):
    own = run.timeline.instructions
    own = replace(own, first=np.zeros(1, np.int64), after=np.zeros(0, np.int64))
    return replace(run, timeline=replace(run.timeline, instructions=own))


@real
def test_a_real_run_is_the_walk_over_its_file(kind):
    """The walk reads the file itself, so reading is checked, too."""
    case = parse(json.loads(path(kind).read_text("utf-8")))
    read = profiles.read(path(kind))
    for count in (COUNTS[kind], None):
        for window in (None, (15_000, 25_000)):
            agree(gaps.ledger(read, TRN2, count, window=window),
                  sweep(case, TRN2, count, window))
    for row in case.rows:
        row.after = []
    agree(gaps.ledger(without_predecessors(read), TRN2, COUNTS[kind]),
          sweep(case, TRN2, COUNTS[kind]))


@real
def test_a_real_run_without_predecessors_gives_the_table(kind):
    ledger = gaps.ledger(without_predecessors(profiles.read(path(kind))), TRN2, COUNTS[kind])
    rows = times(ledger)
    engines = rows.pop("wait for vector", 0) + rows.pop("wait for scalar", 0)
    rows["wait for Vector or Scalar"] = engines + rows.pop("wait for gpsimd", 0)
    expected = TABLE[kind]
    assert {cause: rows.get(cause, 0) for cause in expected} == pytest.approx(expected, abs=1)
    assert sum(abs(ns) for cause, ns in rows.items() if cause not in expected) < 1e-3
    # 2 x 512 x 512 x 128 FLOPs at 78.64 (bf16) and 19.66 (fp32) TFLOP/s: 853.3 and 3413.3 ns
    assert ledger.t_best == pytest.approx({"bf16": 853.3 + 3413.3, "fp32": 2 * 3413.3}[kind],
                                          abs=0.1)


# Two gaps between matmuls: [17819, 18469) and [20365, 22570) of the bf16 file, [18268, 19054) and
# [25106, 26798) of the fp32 file. The row that ends the first names two transfers that GpSimd had
# started 1.6 and 2.5 us before; the Tensor Engine waits for the second one's semaphore until 25 ns
# before it goes on, while the Scalar Engine copies something else. The other gap waited for
# exponentials of the Scalar Engine.
WAITED = {"bf16": {"wait for DMA": 650, "wait for scalar": 2205},
          "fp32": {"wait for DMA": 786, "wait for scalar": 1692}}


@real
def test_predecessors_say_whom_a_real_run_waited_for(kind):
    """Whatever Vector did."""
    read = profiles.read(path(kind))
    told, guessed = ({cause: ns for cause, ns in times(gaps.ledger(run, TRN2, COUNTS[kind])).items()
                      if cause.startswith("wait for ") or cause == "idle"}
                     for run in (read, without_predecessors(read)))
    assert told == pytest.approx(WAITED[kind])
    assert sum(guessed.values()) == pytest.approx(sum(told.values()))
    assert guessed["wait for vector"] > 800 and guessed["idle"] > 90


@real
def test_no_large_row_of_a_real_run_is_without_a_cause_and_a_stretch(kind):
    ledger = gaps.ledger(profiles.read(path(kind)), TRN2, COUNTS[kind])
    for row in ledger.rows:
        if abs(row.time) > 0.05 * ledger.gap:
            assert row.cause not in ("idle", "pipeline", "rounding")
            assert row.cause and len(row.stretches) and row.what, row.cause
            assert row.share == pytest.approx(row.time / ledger.gap)


@real
def test_names_change_nothing_of_a_real_run(kind):
    read = profiles.read(path(kind))
    assert told(gaps.ledger(read, TRN2, COUNTS[kind])) == told(
        gaps.ledger(blanked(read), TRN2, COUNTS[kind]))
