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
from ledger_oracle import PEELS, Unknown, of, parse, sweep
from timelines import profile, timeline

from roofline import gaps, machine
from roofline import profile as profiles
from roofline.count import Count

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
])
def test_a_gap_is_blamed_on(after, cause):
    made = profile(timeline(
        issues=[(0, 290, {"name": "t"})],
        matmuls=[(0, 200, USEFUL | {"name": "m"}), (300, 500, USEFUL | {"after": after})],
        vector=[(200, 300)], scalar=[(0, 200, {"name": "early"}), (150, 300, {"name": "s"})],
        gpsimd=[(250, 299, {"name": "g299"}), (299, 300, {"name": "g"})],
        sync=[(250, 300, {"name": "n"})], control=[(100, 300, {"name": "c"})]))
    agree(gaps.ledger(made, TRN2), sweep(of(made), TRN2))
    assert gaps.ledger(made, TRN2)[cause] == pytest.approx(100)


def test_of_the_rows_that_end_a_gap_the_first_tells():
    rows = {"weights": [(300, 320, {"after": ["s"]})], "scalar": [(150, 300, {"name": "s"})],
            "matmuls": [(0, 200, USEFUL), (300, 500, USEFUL | {"after": ["g"]})],
            "gpsimd": [(150, 300, {"name": "g"})]}
    assert gaps.ledger(profile(timeline(**rows)), TRN2)["wait for scalar"] == pytest.approx(100)
    rows["matmuls"], rows["weights"] = rows.pop("matmuls"), rows.pop("weights")
    assert gaps.ledger(profile(timeline(**rows)), TRN2)["wait for gpsimd"] == pytest.approx(100)


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
    "wait for DMA", "DMA issue", "instruction fetch", "start", "fill", "tail",
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
    """rows of a run of some 150 ns in which much touches, nests and overlaps."""
    cores = draw(st.sampled_from(cores))
    working = draw(st.integers(1, cores))  # of a pair the second may be idle
    matmul_bound = draw(st.booleans())
    unknown = draw(st.booleans())
    number = iter(range(1000))
    known: list[str] = []

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
            found.append((start, start + length, more))
        return found

    made = {kind: rows(kind, 3) for kind in KINDS if kind not in ("matmuls", "weights")}
    many, few = (8, 3) if matmul_bound else (2, 12)
    made |= {"matmuls": rows("matmuls", many), "weights": rows("weights", 3),
             "packets": rows("packets", few), "throttles": rows("throttles", 3)}
    for kind in ("matmuls", "weights"):
        for _, _, more in made[kind]:
            if known and draw(st.booleans()):
                more["after"] = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
    last = max((end for some in made.values() for _, end, _ in some), default=0)
    end = last + draw(st.sampled_from([0, 0, 0, 13, 13, -min(last, 9)]))  # now and then too early
    return profile(timeline(cores=cores, end=end, **made),
                   end + draw(st.sampled_from([0, 0.609, 40.25, -3])))


counts = st.none() | st.builds(
    Count, st.sampled_from([{"bf16": 9_000_000}, {"bf16": 1_000_000}, {"fp32": 2_000_000}, {},
                            {"bf16": 4_000_000, "fp32": 500_000}]),
    st.sampled_from([0, 900, 40_000]), st.sampled_from([0, 700]))


def walked(run, on=TRN2, count=None, window=None):
    """The walk, or None for a run that has no ledger.

    Nothing works, work lies after its end, or no row says what a useful matmul multiplies.
    """
    own, moved = run.timeline.instructions, run.timeline.packets
    late = max([0, *own.end[own.works].tolist(), *moved.end[moved.traffic].tolist()])
    if not run.timeline.working or late > run.timeline.end:
        return None
    try:
        return sweep(of(run), on, count, window)
    except Unknown:
        return None


@settings(deadline=None, max_examples=400)
@given(runs(), st.sampled_from(MACHINES), counts)
def test_ledger_is_the_walk(run, on, count):
    swept = walked(run, on, count)
    if swept is None:
        with pytest.raises(gaps.GapError):
            gaps.ledger(run, on, count)
    else:
        agree(gaps.ledger(run, on, count), swept)


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), counts, st.sampled_from([0, 1, 2, 40, 90]),
       st.integers(1, 200))
def test_a_window_is_the_walk(run, on, count, start, length):
    window = (start, start + length)
    swept = walked(run, on, count, window)
    if swept:
        agree(gaps.ledger(run, on, count, window=window), swept)
        agree(gaps.ledger(replace(run, span=window), on, count), swept)


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), st.sets(st.integers(1, 170), max_size=4))
def test_windows_that_tile_the_run_add_up(run, on, cuts):
    E = run.timeline.end
    if not E or not walked(run, on):
        return
    edges = sorted({0, *(cut for cut in cuts if cut < E), E})
    parts = [gaps.ledger(run, on, window=window) for window in itertools.pairwise(edges)]
    whole = gaps.ledger(replace(run, summary={"total_time": E / 1e9}), on)
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
            "instruction fetch", "few engines", "transposes", *PEELS)


def test_few_engines_are_where_fewer_than_sixteen_are_busy():
    made = profile(timeline(packets=[
        *engines(0, 500, 13_600), *engines(500, 1000, 13_600, range(4)),
        *engines(1000, 1500, 13_600)]))
    row = gaps.ledger(made, ENGINES).row("few engines")
    assert row.time == pytest.approx(500 * 12 / 16)
    assert row.stretches == [(0, 500, 1000)]


@settings(deadline=None, max_examples=200)
@given(runs(), st.sampled_from(MACHINES), counts)
def test_a_place_has_the_stretches_of_the_walk(run, on, count):
    swept = walked(run, on, count)
    if not swept:
        return
    ledger = gaps.ledger(run, on, count)
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


@real
def test_predecessors_say_whom_a_real_run_waited_for(kind):
    """The second product waits for the Scalar Engine's exponentials, whatever Vector did."""
    read = profiles.read(path(kind))
    told, guessed = (times(gaps.ledger(run, TRN2, COUNTS[kind]))
                     for run in (read, without_predecessors(read)))
    assert told["wait for scalar"] > 1.5 * guessed["wait for scalar"]
    assert told.get("wait for vector", 0) < 1 and told["idle"] < guessed["idle"]


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
