"""The ledger: causes one by one, sums, windows, names, two captures by their table, its views.

trn2's Tensor Engine takes 480 columns of bf16 in 200 ns, fp32 in 800; a core's share of the HBM
is 375 B/ns and its 16 DMA engines carry 27.2 B/ns each: times below are made of these.
"""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT
from timelines import profile, timeline

from roofline import gaps, machine
from roofline import profile as profiles
from roofline.count import Count
from roofline.table import WIDTH

REAL = ROOT.parent / "shared/reference/real-profiles"
TRN2 = machine.get("trn2", "core")
PAIR = machine.get("trn2", "lnc2")
BF16 = {"N": 480}  # 200 ns
ONE = {"bf16": 2 * 128 * 128 * 480}  # its FLOPs


def ledger(count=None, window=None, roof=None, on=TRN2, total=None, **rows):
    return gaps.ledger(profile(timeline(**rows), total), on, count, window, roof)


def times(found) -> dict[str, float]:
    return {row.cause: pytest.approx(row.time, abs=1e-9) for row in found.rows}


def adds_up(found) -> bool:
    return abs(math.fsum(row.time for row in found.rows) - found.gap) < 1e-6


# --- one cause at a time --------------------------------------------------------------------------

@pytest.mark.parametrize(("cause", "ns", "rows"), [
    ("start", 90, {"issues": [(90, 100)], "matmuls": [(90, 290, BF16)]}),
    ("fill", 70, {"packets": [(0, 60)], "matmuls": [(70, 270, BF16)]}),
    ("tail", 30, {"matmuls": [(0, 200, BF16)], "vector": [(210, 230)]}),
    ("tail", 30, {"matmuls": [(0, 200, BF16)], "packets": [(0, 1), (190, 230)]}),
    ("end", 40, {"matmuls": [(0, 200, BF16)], "end": 240}),
    ("end", 40, {"matmuls": [(0, 200, BF16)], "control": [(200, 240)]}),
    ("rounding", 0.5, {"matmuls": [(0, 200, BF16)], "total": 200.5}),
    ("rounding", 2, {"matmuls": [(0, 200, BF16)], "total": 202}),
    ("rounding", -40, {"matmuls": [(0, 200, BF16)], "total": 160}),
    ("end", 2500, {"matmuls": [(0, 200, BF16)], "total": 2700}),  # no timestamp of the stop
    ("transposes", 80, {"matmuls": [(0, 80, {"transpose": True}), (80, 280, BF16)]}),
    # half of the cycles: 200 ns of work take 400
    ("throttle", 200, {"matmuls": [(0, 400, BF16)], "throttles": [(0, 400, {"k": 4, "n": 8})]}),
    # not released until 400: half speed from the first matmul on
    ("throttle", 200, {"matmuls": [(0, 400, BF16)], "throttles": [(400, 500, {"k": 8})],
                       "end": 400}),
    # a quarter counts where a quarter and a half are said
    ("throttle", 600, {"matmuls": [(0, 800, BF16)], "throttles": [(0, 800, {"k": 4}),
                                                                  (0, 800, {"k": 2})]}),
    ("dtype", 600, {"matmuls": [(0, 800, BF16 | {"dtype": "fp32"})], "count": Count(ONE)}),
    ("small tiles", 100, {"matmuls": [(0, 200, BF16 | {"K": 64})]}),
    ("small tiles", 150, {"matmuls": [(0, 200, BF16 | {"K": 64, "M": 64})]}),
    # 48 columns are 20 ns of work; the next may start after 64 / 2.4 = 26.7 ns
    ("short moving", 6, {"matmuls": [(0, 26, {"N": 48})]}),
    ("pipeline", 50, {"matmuls": [(0, 250, BF16)]}),
    # the second has a slot of 100 ns, the first 100 and then 50 beside it: 450 - 200 of credits
    ("pipeline", 50, {"matmuls": [(0, 250, {"N": 240}), (100, 200, {"N": 240})]}),
    ("pipeline", -50, {"matmuls": [(0, 150, BF16)]}),
    ("weight load", 50, {"weights": [(0, 50)], "matmuls": [(50, 250, BF16)]}),
    *((f"wait for {engine}", 100,
       {"matmuls": [(0, 200, BF16), (300, 500, BF16)], engine: [(150, 320)]})
      for engine in ("vector", "scalar", "gpsimd")),
    ("wait for DMA", 100, {"packets": [(0, 1), (150, 350)],
                           "matmuls": [(0, 200, BF16), (300, 500, BF16)]}),
    ("idle", 100, {"matmuls": [(0, 200, BF16), (300, 500, BF16)], "control": [(200, 300)]}),
    # the count has one of the two matmuls that ran
    ("uncounted work", 200, {"matmuls": [(0, 200, BF16), (200, 400, BF16)], "count": Count(ONE)}),
])
def test_one_cause_has_the_whole_gap(cause, ns, rows):
    found = ledger(**rows)
    assert found.roof == "compute"
    assert times(found) == {cause: ns}
    assert found.gap == pytest.approx(ns)


def test_a_row_has_a_share_of_a_gap_alone():
    slow, fast = (ledger(matmuls=[(10, end, BF16)]) for end in (260, 110))  # 200 ns at the roof
    assert slow.gap == pytest.approx(60) and fast.gap == pytest.approx(-90)
    assert repr(slow.row("start")).startswith("start: 10 ns, 16.7% of the gap")  # 10 / 60
    assert repr(fast.row("start")).startswith("start: 10 ns; it ran faster, so there is no gap")
    assert "no gap" in repr(fast.row("pipeline")) and "no gap" not in repr(slow.row("pipeline"))


# 37,500 B are 100 ns at the roof; at the engines' rate 16 x 27.2 B/ns they are 86.17 ns
AT_ENGINES = 37_500 / (16 * 27.2)
ALL = [(0, 100, {"nbytes": 2344 if e < 12 else 2343, "engine": e}) for e in range(16)]
assert sum(packet[2]["nbytes"] for packet in ALL) == 37_500


@pytest.mark.parametrize(("causes", "rows"), [
    ({"packets": 25}, {"packets": [(0, 125, {"nbytes": 37_500, "engine": -1})]}),
    ({"extra bytes": 50}, {"packets": [(0, 100, {"nbytes": 37_500, "engine": -1})],
                           "count": Count({}, 37_500 // 2)}),
    ({"start": 10}, {"packets": [(10, 110, {"nbytes": 37_500, "engine": -1})]}),
    ({"fill": 10}, {"issues": [(0, 5)],
                    "packets": [(10, 110, {"nbytes": 37_500, "engine": -1})]}),
    ({"tail": 10, "end": 20}, {"packets": [(0, 100, {"nbytes": 37_500, "engine": -1})],
                               "vector": [(50, 110)], "end": 130}),
    # one engine of 16, for 200 ns; its 2,720 B would take all of them 6.25 ns
    ({"few engines": 200 - 200 / 16, "packet cost": 200 / 16 - 2720 / 435.2,
      "engines against the roof": 2720 / 435.2 - 2720 / 375},
     {"packets": [(0, 200, {"nbytes": 2720})]}),
    ({"packet cost": 100 - AT_ENGINES, "engines against the roof": AT_ENGINES - 100},
     {"packets": ALL}),
])
def test_the_packets_as_a_roof(causes, rows):
    found = ledger(**rows)
    assert found.roof == "memory" and adds_up(found)
    assert times(found) == causes


FULL = {"nbytes": 37_500, "engine": -1}


@pytest.mark.parametrize(("cause", "rows"), [
    ("wait for tensor", {"weights": [(100, 150)], "vector": [(90, 160)]}),
    ("wait for vector", {"vector": [(100, 150)], "scalar": [(90, 160)]}),
    ("wait for scalar", {"scalar": [(100, 150)], "gpsimd": [(90, 160)]}),
    ("wait for gpsimd", {"gpsimd": [(100, 150)], "issues": [(90, 160)]}),
    ("DMA issue", {"issues": [(100, 150)]}),
    ("instruction fetch", {}),
    ("idle", {"control": [(100, 150)]}),
])
def test_between_packets_the_first_that_works_is_waited_for(cause, rows):
    fetch = [] if cause == "idle" else [(100, 150, {"nbytes": 64, "traffic": False})]
    found = ledger(packets=[(0, 100, FULL), (150, 250, FULL), *fetch], **rows)
    assert times(found) == {cause: 50}
    assert found.rows[0].stretches == [(0, 100, 150)]


def test_a_predecessor_is_blamed_before_whoever_is_busy():
    matmuls = [(0, 200, BF16), (300, 500, BF16 | {"after": ("it", "before", "control")})]
    rows = {"matmuls": matmuls, "vector": [(150, 320)],
            "scalar": [(180, 290, {"name": "it"}), (120, 190, {"name": "before"})],
            "control": [(200, 299, {"name": "control"})]}
    found = ledger(**rows)
    assert times(found) == {"wait for scalar": 100}
    assert found.rows[0].events.instructions.tolist() == [3]  # the row that ended at 290
    # a Tensor row among them shields none of the others
    rows["weights"] = [(300, 300, {"name": "own"})]
    rows["matmuls"] = [matmuls[0], (300, 500, BF16 | {"after": ("own", "it")})]
    assert times(ledger(**rows)) == {"wait for scalar": 100}
    rows.update(weights=[], matmuls=matmuls)
    # one that ended before the wait began explains nothing
    rows["scalar"][0] = (180, 200, {"name": "it"})
    assert times(ledger(**rows)) == {"wait for vector": 100}


def test_a_blamed_transfer_is_a_wait_for_dma():
    found = ledger(matmuls=[(0, 200, BF16), (300, 500, BF16 | {"after": ("it",)})],
                   issues=[(0, 250, {"name": "it"})], vector=[(150, 320)])
    assert times(found) == {"wait for DMA": 100}
    # its row is over at 50, but its packets come at 290: they were waited for
    rows = {"matmuls": [(0, 200, BF16), (300, 500, BF16 | {"after": ("early", "it", "load")})],
            "issues": [(0, 50, {"name": "it"}), (0, 20, {"name": "early"})],
            "vector": [(190, 200, {"name": "load"})], "packets": [(20, 40), (250, 290)]}
    found = ledger(**rows)
    assert times(found) == {"wait for DMA": 100}
    assert found.row("wait for DMA").events.instructions.tolist() == [1]  # the later of the two
    # who is known to have worked into the wait comes first
    rows["vector"] = [(190, 210, {"name": "load"})]
    assert times(ledger(**rows)) == {"wait for vector": 100}


# Packets until 100 and from 200 on: what are the ns between?
@pytest.mark.parametrize(("issues", "latency"), [
    ([(100, 120)], [(120, 200)]),               # issued; its packets are on their way
    ([(90, 100)], [(100, 200)]),                # issued while the others came
    ([(0, 40)], []),                            # its packets may be those that came since, at 50
    ([(30, 60)], [(100, 200)]),                 # none came since 60
    ([(120, 130), (160, 170)], [(130, 160), (170, 200)]),       # both are on their way
    ([(0, 40, {"name": "a"}), (150, 160, {"after": ("a",)})], [(100, 150), (160, 200)]),  # receipt
    ([(150, 160)], [(160, 200)]),               # waits for something else
])
def test_between_packets_a_transfer_is_on_its_way(issues, latency):
    found = ledger(issues=issues, packets=[(0, 50, FULL), (50, 100, FULL), (200, 300, FULL)])
    assert found.row("DMA latency").stretches == [(0, *ns) for ns in latency]
    taken = {at for a, b in latency for at in range(a, b)} | {
        at for a, b, *_ in issues for at in range(max(a, 100), b)}
    assert found["idle"] == 100 - len(taken)
    assert found["DMA issue"] + found["DMA latency"] == len(taken)


def test_whoever_waits_for_what_came_waits_for_its_receipt():
    """Vector works from 150 on with what was issued at 0 and came until 100."""
    rows = {"issues": [(0, 40, {"name": "it"})], "vector": [(150, 160, {"after": ("it",)})],
            "packets": [(0, 50, FULL), (50, 100, FULL), (200, 300, FULL)]}
    found = ledger(**rows)
    assert found.row("DMA latency").stretches == [(0, 100, 150)]
    assert (found["wait for vector"], found["idle"]) == (10, 40)
    rows["vector"] = [(150, 160)]
    assert ledger(**rows)["idle"] == 90


def test_fp32_in_two_passes_is_credited_once():
    twice = {"N": 480, "dtype": "fp32", "passes": 2}
    for macs in (None, 128 * 128 * 240):  # the profiler counts each pass whole, or its half
        found = ledger(matmuls=[(0, 400, twice | {"macs": macs}),
                                (400, 800, twice | {"macs": macs})])
        assert found.t_best == pytest.approx(800) and not found.rows


def test_an_unknown_dtype_is_the_fastest_that_was_counted():
    rows = {"matmuls": [(0, 200, BF16 | {"dtype": ""})]}
    assert not ledger(count=Count(ONE), **rows).rows
    with pytest.raises(gaps.GapError, match="no matmul's dtype"):
        ledger(**rows)
    rows["matmuls"].append((200, 400, BF16))
    assert not ledger(**rows).rows


# --- cores ----------------------------------------------------------------------------------------

def test_two_working_cores_are_a_mean_and_share_the_work():
    both = [(0, 200, BF16), (0, 400, BF16 | {"core": 1})]
    found = ledger(Count({"bf16": 2 * ONE["bf16"]}), on=PAIR, matmuls=both, cores=2)
    assert found.t_best == pytest.approx(200)  # half of the work each
    # core 0 has done its work at 200 and waits for 200 ns; core 1 has 200 ns of pipeline
    assert times(found) == {"wait for the other core": 100, "pipeline": 100}
    assert found.row("wait for the other core").stretches == [(0, 200, 400)]
    assert found.row("pipeline").stretches == [(1, 0, 400)]
    # the end begins for both when the last one stops
    later = ledger(Count({"bf16": 2 * ONE["bf16"]}), on=PAIR, matmuls=both, cores=2, end=430)
    assert later.row("end").stretches == [(0, 400, 430), (1, 400, 430)]
    assert later["wait for the other core"] == 100


def test_cores_of_a_pair_share_their_copies():
    """Core 1 carries twice the bytes: the other waits, whatever binds."""
    found = ledger(on=PAIR, cores=2, packets=[(0, 100, FULL), (0, 100, FULL | {"core": 1}),
                                              (100, 200, FULL | {"core": 1})])
    # T_best is that of the mean, 150 ns: core 0 moved 50 ns' worth less, core 1 as much more
    assert found.roof == "memory" and times(found) == {"wait for the other core": 50}
    assert found.row("wait for the other core").stretches == [(0, 100, 200)]


def test_a_core_of_a_pair_that_does_nothing_does_not_count():
    found = ledger(Count(ONE), on=PAIR, matmuls=[(0, 200, BF16)], cores=2,
                   control=[(0, 100, {"core": 1})])
    assert (found.cores, found.t_best) == ((0,), pytest.approx(200))
    alone = ledger(Count(ONE), matmuls=[(0, 200, BF16)])
    assert found.t_best == pytest.approx(alone.t_best)


def test_a_core_without_matmuls_is_told_by_who_works():
    found = ledger(on=PAIR, cores=2, matmuls=[(0, 200, BF16)],
                   vector=[(50, 150, {"core": 1})], end=200)
    assert found.row("wait for vector").stretches == [(1, 50, 150)]
    assert found["wait for vector"] == 50 and adds_up(found)


# --- laws -----------------------------------------------------------------------------------------

ns = st.integers(0, 300)


@st.composite
def rows(draw, core, **fields):
    start = draw(ns)
    return (start, start + draw(st.integers(0, 90)),
            {"core": core, **{name: draw(values) for name, values in fields.items()}})


@st.composite
def runs(draw):
    """A timeline with anything in it; rows may overlap, be empty, or wait for each other."""
    cores = draw(st.sampled_from([1, 2]))
    parts = {kind: [] for kind in ("matmuls", "weights", "vector", "scalar", "gpsimd", "issues",
                                   "control", "packets", "throttles")}
    some = st.integers(0, 4)
    for core in range(cores):
        for kind, found in parts.items():
            fields = {"matmuls": {"N": st.sampled_from([0, 16, 128, 480]),
                                  "K": st.sampled_from([32, 128]),
                                  "dtype": st.sampled_from(["bf16", "fp32"]),
                                  "passes": st.sampled_from([1, 2]), "transpose": st.booleans()},
                      "packets": {"nbytes": st.sampled_from([512, 4096, 40_000]),
                                  "engine": st.integers(draw(st.sampled_from([-1, 0])), 3),
                                  "traffic": st.booleans()},
                      "throttles": {"k": st.sampled_from([2, 4, 8])}}.get(kind, {})
            found += [draw(rows(core, **fields)) for _ in range(draw(some))]
    parts["vector"].append((draw(ns), 300, {"core": 0, "name": "it"}))
    for row in parts["matmuls"]:
        row[2].update(after=draw(st.sampled_from([(), ("it",)])))
    made = timeline(cores=cores, end=draw(st.integers(400, 450)), **parts)
    return profile(made, made.end + draw(st.sampled_from([0, 0.6])))


counts = st.sampled_from([None, Count({"bf16": 10**7}, 1000), Count({"fp32": 10**6}, 10**6),
                          Count({}, 5000)])
roofs = st.sampled_from([None, "compute", "memory"])
machines = st.sampled_from([("trn2", "core"), ("trn2", "lnc2"), ("trn1", "core")])


@given(runs(), counts, roofs, machines)
def test_rows_sum_to_the_gap_and_say_where(made, count, roof, on):
    found = gaps.ledger(made, machine.get(*on), count, roof=roof)
    assert adds_up(found)
    line = made.timeline
    for row in found.rows:
        assert row.time == found[row.cause] and row.what and row.try_
        events = row.events
        assert set(line.instructions.core[events.instructions]) <= set(found.cores)
        assert (line.instructions.id[events.instructions] == events.instruction_ids).all()
        assert (line.packets.id[events.packets] == events.packet_ids).all()
        assert all(0 <= start < end <= line.end for _, start, end in row.stretches)
        if row.cause != "rounding" and row.time > 0:
            assert row.stretches
            if row.cause not in ("uncounted work", "extra bytes", "packet cost"):
                assert row.time <= sum(end - start for _, start, end in row.stretches) + 1e-6
        if row.time > 0 and row.cause not in ("rounding", "start", "end", "fill", "tail", "idle",
                                              "wait for the other core"):
            assert len(events)


PLACES = {"start", "fill", "tail", "end", "weight load", "idle", "DMA issue", "DMA latency",
          "instruction fetch",
          *(cause for cause in gaps.CAUSES if cause.startswith("wait"))}


@given(runs(), roofs)
def test_places_lie_apart_and_last_as_long_as_their_stretches(made, roof):
    found = gaps.ledger(made, TRN2, roof=roof)
    taken = set()
    for row in found.rows:
        if row.cause in PLACES:
            own = {(core, at) for core, start, end in row.stretches for at in range(start, end)}
            assert not own & taken
            taken |= own
            assert row.time == pytest.approx(len(own) / len(found.cores))


@given(runs(), st.sampled_from(["compute", "memory"]), st.lists(st.integers(1, 500), max_size=3))
def test_windows_that_tile_a_run_add_up(made, roof, cuts):
    edges = sorted({0, *cuts, made.timeline.end})
    edges = [edge for edge in edges if edge <= made.timeline.end]
    whole = gaps.ledger(made, TRN2, roof=roof)
    parts = [gaps.ledger(made, TRN2, window=window, roof=roof)
             for window in itertools.pairwise(edges)]
    assert all(map(adds_up, parts))
    for cause in set(gaps.CAUSES) - {"rounding"}:
        assert sum(part[cause] for part in parts) == pytest.approx(whole[cause], abs=1e-6)
    assert sum(part.t_best for part in parts) == pytest.approx(whole.t_best)


def test_a_window_is_that_of_the_profile_unless_another_is_given():
    made = profile(timeline(matmuls=[(0, 250, BF16), (250, 500, BF16)]))
    part = replace(made, span=(0, 125))
    found = gaps.ledger(part, TRN2)
    assert (found.t, found.t_best, found["pipeline"]) == (125, pytest.approx(100), 25)
    assert gaps.ledger(part, TRN2, window=(0, 500))["pipeline"] == 100
    longer = profile(made.timeline, 500.4)  # its total time goes on into one more ns
    beyond = gaps.ledger(longer, TRN2, window=(400, 501))
    assert beyond["rounding"] == 1 and adds_up(beyond)


def test_names_change_nothing():
    rows = {"matmuls": [(0, 250, BF16 | {"line": "a.py:3"}), (300, 520, BF16 | {"line": "b.py"})],
            "vector": [(200, 310, {"line": "<b>c</b>"})]}
    named, plain = timeline(**rows), timeline(**rows)
    plain = replace(plain, instructions=replace(
        plain.instructions, lines=("",), line=np.zeros_like(plain.instructions.line)))
    for roof in ("compute", "memory"):
        a, b = (gaps.ledger(profile(t, name=name), TRN2, roof=roof)
                for t, name in ((named, "x"), (plain, "")))
        assert times(a) == {row.cause: row.time for row in b.rows}
        assert [row.stretches for row in a.rows] == [row.stretches for row in b.rows]


@settings(max_examples=30)
@given(runs(), counts)
def test_each_row_matters_to_no_other_core(made, count):
    """Shifting core 1 in the table, not in time, leaves the sum of both as it is."""
    line = made.timeline
    swapped = replace(line, **{name: replace(getattr(line, name), core=line.cores - 1 -
                                             getattr(line, name).core)
                               for name in ("instructions", "packets", "throttles")})
    a, b = (gaps.ledger(replace(made, timeline=t), PAIR, count) for t in (line, swapped))
    assert times(a) == {row.cause: row.time for row in b.rows}


# --- two captures of a trn2 core, from allenkchau/trainium-kernel-fusion (MIT) --------------------
# One attention head, S = 512, d = 128: 4 S S d FLOPs; the bf16 kernel's second product runs in
# fp32. Times of the table of the notes, which other code found; ns.

HALF = 2 * 512 * 512 * 128
TABLE = {
    "bf16": (Count({"bf16": HALF, "fp32": HALF}), 4266.667, {
        "start": 13704, "fill": 3500, "throttle": 2167, "transposes": 4054, "pipeline": 370,
        "weight load": 63, "tail": 3280, "end": 2092, "rounding": 0.6, "waits": 2855}),
    "fp32": (Count({"fp32": 2 * HALF}), 6826.667, {
        "start": 13289, "fill": 3863, "throttle": 2369, "transposes": 3310, "pipeline": 563,
        "weight load": 63, "tail": 3251, "end": 2079, "rounding": 0.6, "waits": 2478}),
}


def real(dtype) -> profiles.Profile:
    path = REAL / f"trn2-lnc2-attn-fused-{dtype}-s512.full.json"
    if not path.exists():
        pytest.skip("the real profiles are not here")
    return profiles.read(path)


@pytest.mark.parametrize("dtype", TABLE)
def test_the_table_of_two_real_captures(dtype):
    count, t_best, table = TABLE[dtype]
    found = gaps.ledger(real(dtype), TRN2, count)
    assert found.t_best == pytest.approx(t_best, abs=1e-3) and adds_up(found)
    waits = {row.cause for row in found.rows} - set(table)
    assert waits <= {"wait for vector", "wait for scalar", "wait for DMA", "idle"}
    assert sum(map(found.__getitem__, waits)) == table.pop("waits")
    assert {c: found[c] for c in table} == pytest.approx(table, abs=1)
    for row in found.rows:
        if row.share > 0.05 and row.cause not in ("start", "end"):
            assert row.stretches and len(row.events)


@pytest.mark.parametrize(("dtype", "busy", "moving", "idle"),
                         [("bf16", 2721, 37, 97), ("fp32", 2169, 37, 272)])
def test_without_predecessors_whoever_is_busy(dtype, busy, moving, idle):
    made = real(dtype)
    blind = replace(made.timeline.instructions, after=np.zeros(0, np.int64),
                    first=np.zeros(len(made.timeline.instructions) + 1, np.int64))
    found = gaps.ledger(replace(made, timeline=replace(made.timeline, instructions=blind)), TRN2,
                        TABLE[dtype][0])
    assert found["wait for vector"] + found["wait for scalar"] == busy
    assert (found["wait for DMA"], found["idle"]) == (moving, idle)


def test_a_single_dtype_as_the_roof():
    found = gaps.ledger(real("bf16"), TRN2, Count({"bf16": 2 * HALF}))
    assert found.t_best == pytest.approx(1706.667, abs=1e-3)
    assert found.gap == pytest.approx(34644.9, abs=0.1)
    assert found["dtype"] == pytest.approx(2559, abs=1)


# --- views ----------------------------------------------------------------------------------------

RUN = {"matmuls": [(100, 350, BF16 | {"line": "k.py:7"}), (450, 650, BF16 | {"line": "k.py:7"})],
       "issues": [(40, 60, {"line": "k.py:5"})], "packets": [(60, 90)],
       "vector": [(300, 450, {"line": "k.py:9"}), (650, 700)], "end": 720}
# start 40, fill 60, pipeline 50, wait for vector 100, tail 50, end 20: 320 = 720 - 2 x 200


def test_by_source_line():
    found = ledger(**RUN)
    lines = found.lines()
    # the tail is split: 50 ns of a Vector row without a line; start and end are nobody's
    assert lines.by_line["k.py:7"] == pytest.approx({"pipeline": 50})
    assert lines.by_line["k.py:9"] == {"wait for vector": 100}
    assert lines.by_line["k.py:5"] == {"fill": 60}
    assert lines.by_line[""] == pytest.approx({"start": 40, "tail": 50, "end": 20})
    assert sum(map(lines.__getitem__, lines)) == pytest.approx(found.gap)
    assert "k.py:9" in repr(lines)
    with pytest.raises(gaps.GapError, match=r"no line 'x'.*k\.py:9"):
        lines["x"]


LINED = {"issues": [(0, 10, {"line": "a"}), (100, 110, {"line": "b"}), (230, 240, {"line": "c"})],
         "end": 400}


def test_who_waits_for_data_is_told_by_the_line_that_loads_it():
    found = ledger(**LINED, matmuls=[(50, 90, {"N": 96}), (200, 220, {"N": 48, "line": "m"})],
                   packets=[(20, 40), (120, 190)], vector=[(300, 310, {"line": "v"})])
    lines = found.lines().by_line
    assert lines["a"]["fill"] == 50
    # packets of 120 to 190, issued at 100; after the last matmul b is the last until c at 230
    assert lines["b"] == {"wait for DMA": 70, "tail": 10}
    assert lines["c"] == {"tail": 70} and lines["v"] == {"tail": 10}  # under way until v works


def test_packets_belong_to_the_transfer_whose_id_they_bear():
    own = timeline(**LINED, packets=[(10, 110, FULL), (110, 210, FULL), (240, 340, FULL),
                                     (340, 390, FULL)])
    of = dict(zip(own.instructions.line.tolist(), own.instructions.id.tolist(), strict=True))
    ids = np.array([of[own.instructions.lines.index(name)] for name in "abc"] + [5])
    own = replace(own, packets=replace(own.packets, id=ids))
    lines = gaps.ledger(profile(own), TRN2).lines().by_line
    by = {line: causes["packets"] for line, causes in lines.items() if "packets" in causes}
    # 350 ns for what takes 400 at the roof, by how long each packet takes
    assert by == pytest.approx({**dict.fromkeys("abc", -50 * 100 / 350), "": -50 * 50 / 350})
    # between 210 and 240 the last transfer is not issued before 230
    assert (lines["c"]["DMA issue"], lines["c"]["idle"]) == (10, 20)
    hidden = replace(own, unknown=frozenset(["packets.id"]))
    assert "packets" not in gaps.ledger(profile(hidden), TRN2).lines().by_line.get("a", {})


@given(runs(), roofs)
def test_lines_sum_to_the_gap(made, roof):
    found = gaps.ledger(made, TRN2, roof=roof)
    lines = found.lines()
    assert sum(map(lines.__getitem__, lines.by_line)) == pytest.approx(found.gap, abs=1e-6)


def test_a_difference_is_cause_by_cause():
    before = ledger(**RUN)
    after = ledger(**RUN | {"matmuls": [(100, 350, BF16), (400, 600, BF16)],
                            "vector": [(300, 400), (600, 650)], "end": 670})
    change = after - before
    assert {c: change[c] for c in change.causes if change[c]} == {"wait for vector": -50}
    assert sum(change[c] for c in change.causes) == pytest.approx(after.gap - before.gap)
    assert "-50 ns" in repr(change)
    # of one name: what tells them apart
    assert repr(change).startswith("made (json) -> made (json)")
    other = gaps.ledger(profile(timeline(**RUN), name="other"), TRN2)
    assert repr(other - before).startswith("made -> other")


def test_a_fix_cannot_beat_the_other_engines():
    found = ledger(**RUN)
    assert (found.fix("pipeline").t, found.fix("pipeline").limit) == (pytest.approx(670), "")
    everything = found.fix(*gaps.CAUSES)
    assert (everything.t, everything.limit) == (pytest.approx(400), "")
    # 600 ns of the Vector Engine remain, and start and end around them
    slow = ledger(**RUN | {"vector": [(50, 650)], "matmuls": [(100, 200, {"N": 240}),
                                                              (550, 650, {"N": 240})]})
    bound = slow.fix("wait for vector", "fill", "tail")
    assert (bound.t, bound.limit) == (600 + 40 + 70, "vector is busy that long")
    assert "at best 710 ns" in repr(bound) and bound.limit in repr(bound)
    assert found.fix().t == found.t
    # causes by name, in a list, or as the rows themselves
    assert found.fix(["pipeline", found.row("tail")]).t == found.fix("pipeline", "tail").t


def test_a_wait_saves_at_most_the_work_that_was_waited_for():
    """Of 100 ns until the next matmul Scalar works 60, and 40 go by until it may start."""
    found = ledger(matmuls=[(0, 200, BF16), (300, 500, BF16 | {"after": ("it",)})],
                   scalar=[(200, 260, {"name": "it"})])
    fixed = found.fix("wait for scalar")
    assert (found["wait for scalar"], fixed.t) == (100, 440)
    assert fixed.limit == "scalar works for 60 ns of the 100 ns of its wait"


def test_what_a_fix_of_two_cores_saves_is_the_last_one_s():
    both = {"matmuls": [(0, 200, BF16), (0, 400, BF16 | {"core": 1})], "cores": 2, "end": 430}
    found = ledger(Count({"bf16": 2 * ONE["bf16"]}), on=PAIR, **both)
    assert (found.fix("wait for the other core").t, found.fix("end").t) == (430, 400)
    assert found.fix("wait for the other core").limit == "core 1 takes that long"
    assert found.fix("pipeline").t == pytest.approx(230)  # both work 200 ns, then the end


def test_the_ladder_climbs_from_entitled_to_measured():
    found = ledger(**RUN)
    steps = found.ladder()
    assert (steps[0].label, steps[0].time) == ("T_best", found.t_best)
    assert steps[-1].time == pytest.approx(found.t)
    assert [step.row for step in steps[1:]] == list(found.rows)
    assert steps[1].label == "wait for vector" and repr(steps[1]) == "(wait for vector, 500 ns)"
    assert steps[1].time == pytest.approx(found.t_best + 100)


def test_it_prints_a_table():
    text = repr(ledger(**RUN)).splitlines()
    assert text[0] == "made (measured) on Trainium2, one NeuronCore-v3"
    assert [line.split() for line in text[1:3]] == [
        ["time", "share", "stretches", "cause"],
        ["100", "ns", "31.2%", "1", "wait", "for", "vector"]]
    assert [line.split() for line in text[-3:]] == [
        ["320", "ns", "gap"], ["400", "ns", "T_best,", "compute"], ["720", "ns", "T"]]
    row = ledger(**RUN).row("wait for vector")
    words = " ".join(repr(row).split())
    assert row.what in words and row.try_ in words
    assert max(map(len, repr(row).splitlines())) <= WIDTH


def test_names_of_a_profile_are_data():
    made = profile(timeline(**RUN), name="<b>\x1b[31m\n" + 99 * "x")
    head = repr(gaps.ledger(made, TRN2)).splitlines()[0]
    assert "\x1b" not in head and len(head) < 130


def test_every_cause_says_what_and_what_to_try():
    for cause, text in gaps.CAUSES.items():
        for sentence in text:
            assert sentence[0].isupper() and sentence.endswith("."), cause
            assert sentence.count(". ") == 0, f"{cause}: one sentence each"


# --- refusals -------------------------------------------------------------------------------------

def test_refusals():
    made = profile(timeline(**RUN))
    with pytest.raises(gaps.GapError, match="summary has no timeline"):
        gaps.ledger(replace(made, timeline=None), TRN2)
    with pytest.raises(gaps.GapError, match="scope device"):
        gaps.ledger(made, machine.get("trn2", "device"))
    for window in ((5, 5), (-1, 9), (9, 3), (0.5, 9), (0, 721), (720, 722)):
        with pytest.raises(gaps.GapError, match="window"):
            gaps.ledger(made, TRN2, window=window)
    with pytest.raises(gaps.GapError, match="roof 'fast'"):
        gaps.ledger(made, TRN2, roof="fast")
    with pytest.raises(gaps.GapError, match="no cause 'coffee'"):
        gaps.ledger(made, TRN2)["coffee"]
    with pytest.raises(gaps.GapError, match="no cause 'coffee'"):
        gaps.ledger(made, TRN2).fix("coffee")
    with pytest.raises(gaps.GapError, match="no core did any work"):
        ledger(control=[(0, 10)])
    with pytest.raises(gaps.GapError, match="after the timeline's end"):
        ledger(**RUN | {"end": 600})
    with pytest.raises(gaps.GapError, match="neither the elements nor the operands"):
        ledger(matmuls=[(0, 9, {"N": 0})], unknown=["instructions.macs"])
    with pytest.raises(machine.MachineError, match="no peak for this dtype"):
        gaps.ledger(made, TRN2, Count({"int8": 1}))
    for wrong, what in (((3, TRN2), "profile: got int"), ((made, 3), "machine: got int"),
                        ((made, TRN2, 3), "count: got int")):
        with pytest.raises(gaps.GapError, match=f"ledger: {what}; expected a"):
            gaps.ledger(*wrong)


def test_without_instructions_the_tensor_engine_is_no_roof():
    made = profile(timeline(packets=[(0, 125, FULL)]))
    assert times(gaps.ledger(made, TRN2, Count({}, 37_500))) == {"packets": 25}
    for count, roof in ((Count(ONE), None), (None, "compute")):
        with pytest.raises(gaps.GapError, match=r"no instructions.*roof='memory'"):
            gaps.ledger(made, TRN2, count, roof=roof)


@pytest.mark.parametrize(("ran", "on", "fits"), [
    ("trn2.3xlarge", "trn2", True), ("trn2", "trn1", False), ("trn1.32xlarge", "trn2", False),
    ("inf2.xlarge", "trn1", True), ("trn1", "inf2", True), ("inf1.xlarge", "trn1", False),
    ("", "trn1", True)])
def test_a_profile_of_another_chip_is_refused(ran, on, fits):
    made = profile(timeline(**RUN), metadata={"instance_type": ran})
    if fits:
        assert gaps.ledger(made, on, Count(ONE)).machine == machine.get(on)
    else:
        with pytest.raises(gaps.GapError, match=f"it ran on {ran}, and .* is another chip"):
            gaps.ledger(made, on, Count(ONE))


def test_what_has_a_profile_or_a_count_will_do():
    made, run = profile(timeline(**RUN)), SimpleNamespace(count=Count(ONE))
    predicted = SimpleNamespace(profile=made, buffers=2)
    found = gaps.ledger(predicted, "trn2", run)
    assert times(found) == times(gaps.ledger(made, TRN2, Count(ONE)))
    deeper = gaps.ledger(SimpleNamespace(profile=made, buffers=3), TRN2, run)
    assert repr(deeper - found).startswith("made (buffers 2) -> made (buffers 3)")


def test_the_count_is_always_one():
    found = ledger(Count(ONE, 7, 8), **RUN)
    assert found.count == Count(ONE, 7, 8)
    own = ledger(**RUN)  # two matmuls; one packet of 4096 B
    assert own.count == Count({"bf16": 2 * ONE["bf16"]}, 4096)
    # half of the first matmul's slot lies in the window, all of the packet does
    assert ledger(**RUN, window=(0, 225)).count == Count({"bf16": ONE["bf16"] // 2}, 4096)
    assert ledger(**RUN, roof="memory").count == own.count
    unnamed = ledger(matmuls=[(0, 200, BF16), (200, 400, BF16 | {"dtype": ""})])
    assert unnamed.count == Count({"bf16": 2 * ONE["bf16"]})


def test_notes_say_what_to_doubt():
    assert ledger(**RUN).notes == ()
    names = ("throttles", "instructions.passes", "instructions.transpose")
    doubtful = ledger(**RUN, unknown=names)
    for words, note in zip(("throttling, if any, stands under pipeline", "one fp32 matmul",
                            "transposes"), doubtful.notes, strict=True):
        assert words in note and note in repr(doubtful)
    assert ledger(**RUN, unknown=names, roof="memory").notes == ()
    fast = ledger(Count({"bf16": 10 * ONE["bf16"]}), **RUN)
    assert "faster than the roof allows" in fast.notes[0]
    # a model may carry 16 x 27.2 GB/s of DMA against 375 GB/s of HBM, and no more
    for share, words in ((1.1, "the model lets the DMA engines carry more"),
                         (1.2, "is the count that of this kernel")):
        count = Count({}, round(share * 720 * 375))
        made = replace(profile(timeline(**RUN)), kind="modelled")
        assert words in gaps.ledger(made, TRN2, count).notes[0]
        measured = gaps.ledger(replace(made, kind="measured"), TRN2, count)
        assert "is the clock right?" in measured.notes[0]
    made = profile(timeline(**RUN))
    without = gaps.ledger(replace(made, summary={}), TRN2)
    assert without.t == 720 and "no total_time" in without.notes[0]


def test_a_timeline_of_nothing_but_transposes_has_no_credit():
    found = ledger(matmuls=[(0, 80, {"transpose": True, "dtype": ""})])
    assert times(found) == {"transposes": 80} and found.t_best == 0
