"""Timelines: spans against sets of whole nanoseconds, tables and what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import instruction_table, packet_table, throttle_table, timeline

from roofline.timeline import (
    CONTROL,
    Instructions,
    Packets,
    Spans,
    Throttles,
    TimelineError,
    by_row,
)

# --- spans: a stretch [start, end) is the set of its nanoseconds ---------------------------------

stretch = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))
stretches = st.lists(stretch, max_size=8)


def spans(rows):
    return Spans.of(*(np.array([row[i] for row in rows], np.int64) for i in (0, 1)))


def points(rows):
    return {t for start, end in rows for t in range(start, end)}


@given(stretches)
def test_a_union_is_disjoint_ascending_and_complete(rows):
    union = spans(rows)
    assert points(union) == points(rows)
    assert union.length == len(points(rows))
    edges = [edge for one in union for edge in one]
    assert edges == sorted(set(edges))  # stretches that touch are one, and none is empty
    assert len(union) == len(edges) // 2


@given(stretches, stretches)
def test_and_or_minus_are_those_of_sets(a, b):
    one, other = spans(a), spans(b)
    assert points(one & other) == points(a) & points(b)
    assert points(one | other) == points(a) | points(b)
    assert points(one - other) == points(a) - points(b)
    for result in (one & other, one | other, one - other):
        assert list(result) == list(spans(list(result)))  # again disjoint and merged


@given(stretches, st.lists(st.integers(-5, 60), max_size=6))
def test_before_counts_what_has_passed(rows, times):
    passed = spans(rows).before(np.array(times, np.int64)).tolist()
    assert passed == [sum(t < time for t in points(rows)) for time in times]


@given(stretches, stretches)
def test_inside_counts_what_lies_in_each(rows, windows):
    start, end = (np.array([w[i] for w in windows], np.int64) for i in (0, 1))
    assert spans(rows).inside(start, end).tolist() == [
        len(points(rows) & set(range(*window))) for window in windows]


def test_small_spans():
    assert list(Spans.one(3, 7)) == [(3, 7)]
    assert not len(Spans.one(3, 3)) and Spans.one(3, 3).length == 0
    assert list(spans([(5, 9), (0, 5), (7, 8), (20, 20), (30, 31)])) == [(0, 9), (30, 31)]
    assert repr(spans([(0, 1500), (2000, 2500)])) == "2 stretches, 2,000 ns"


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [
    packet_table([(0, 5), (5, 9), (9, 9)]), throttle_table([(0, 5), (5, 9), (9, 9)]),
    instruction_table(vector=[(0, 5), (5, 9), (9, 9)])], ids=["packets", "throttles", "rows"])
def test_a_table_takes_rows(table):
    assert len(table) == 3
    assert table.duration.tolist() == [5, 4, 0]
    assert table.take(np.array([True, False, True])).start.tolist() == [0, 9]
    assert table.take(np.array([1, 2])).end.tolist() == [9, 9]
    assert len(table.take(np.zeros(0, np.int64))) == 0
    with pytest.raises(TimelineError, match="not in order of start; sort"):
        table.take(np.array([1, 0]))


def test_columns_of_different_lengths():
    with pytest.raises(TimelineError, match=r"Packets: columns of different lengths: .*'end': 2"):
        _changed(packet_table([(0, 5), (5, 9), (9, 10)]), end=np.array([5, 9]))


def test_a_row_that_ends_before_it_starts():
    with pytest.raises(TimelineError, match="row 1: it ends at 3 ns, before its start at 5 ns"):
        _changed(throttle_table([(0, 5), (5, 9)]), end=np.array([5, 3]))


def test_rows_out_of_order():
    with pytest.raises(TimelineError, match="not in order of start"):
        _changed(instruction_table(vector=[(0, 9), (5, 9)]), start=np.array([6, 5]))


def _changed(table, **columns):
    return type(table)(**{**vars(table), **columns})


# --- what rows are -------------------------------------------------------------------------------


def test_control_is_no_work_and_an_issue_is_no_work_of_its_engine():
    rows = instruction_table(
        matmuls=[(0, 1)], weights=[(1, 2)], sync=[(2, 3)], issues=[(3, 4, {"engine": "gpsimd"})],
        control=[(10 + i, 11 + i, {"opcode": name}) for i, name in enumerate(sorted(CONTROL))])
    assert rows.works.tolist() == [True] * 4 + [False] * len(CONTROL)
    assert rows.issues.tolist() == [False, False, False, True] + [False] * len(CONTROL)
    names = [("DMA_TRIGGER", True), ("DMAREG", False), ("X_DMA_", False)]
    others = instruction_table(vector=[(i, i + 1, {"opcode": o}) for i, (o, _) in enumerate(names)])
    assert others.issues.tolist() == [issue for _, issue in names]
    assert rows.is_opcode("MATMUL", "LDWEIGHTS").tolist()[:4] == [True, True, False, False]
    assert not rows.is_opcode("matmul").any()  # names are the profiler's, to the letter


def test_predecessors_follow_their_rows():
    rows = instruction_table(
        vector=[(0, 5, {"name": "load"}), (5, 6, {"name": "scale", "after": ["load"]})],
        matmuls=[(7, 9, {"name": "product", "after": ["scale", "load"]}), (9, 12)])
    assert [rows.predecessors(i).tolist() for i in range(4)] == [[], [0], [1, 0], []]
    later = rows.take(np.array([False, True, True, True]))  # "load" is gone, the others moved up
    assert [later.predecessors(i).tolist() for i in range(3)] == [[], [0], []]


@given(st.data())
def test_take_keeps_predecessors_among_the_rows_taken(data):
    names = [f"row {i}" for i in range(data.draw(st.integers(1, 7)))]
    after = [data.draw(st.lists(st.sampled_from(names), max_size=4)) for _ in names]
    rows = instruction_table(vector=[(i, i + 2, {"name": name, "after": after[i]})
                                     for i, name in enumerate(names)])
    kept = data.draw(st.lists(st.sampled_from(range(len(names))), unique=True).map(sorted))
    taken = rows.take(np.array(kept, np.int64))
    assert [[kept[j] for j in taken.predecessors(i)] for i in range(len(kept))] == [
        [int(name[4:]) for name in after[i] if int(name[4:]) in kept] for i in kept]


def test_a_table_without_predecessors_has_none():
    rows = _changed(instruction_table(vector=[(0, 5), (5, 6)]), first=np.zeros(1, np.int64),
                    after=np.zeros(0, np.int64))
    assert rows.predecessors(1).tolist() == []
    assert rows.take(np.array([1])).predecessors(0).tolist() == []


# --- a capture -----------------------------------------------------------------------------------


def test_an_idle_core_of_a_pair_does_not_work():
    idle = {"core": 1}
    assert timeline(cores=2, matmuls=[(0, 9)], control=[(0, 9, idle)]).working == (0,)
    assert timeline(cores=2, matmuls=[(0, 9)], control=[(0, 9, idle)],
                    packets=[(3, 5, idle | {"traffic": False})]).working == (0,)
    assert timeline(cores=2, matmuls=[(0, 9)], packets=[(3, 5, idle)]).working == (0, 1)
    assert timeline(cores=2, vector=[(0, 9, idle)]).working == (1,)
    assert timeline(cores=2, issues=[(0, 9, idle)]).working == (1,)
    assert timeline(control=[(0, 9)]).working == ()
    assert timeline(sync=[(0, 9, {"opcode": "Operation(99)"})]).working == (0,)  # unknown: work
    # packets of which none is known to be no instruction fetch
    assert timeline(cores=2, matmuls=[(0, 9)], packets=[(3, 5, idle)],
                    unknown=["packets.traffic"]).working == (0,)


@pytest.mark.parametrize("kind", [Instructions, Packets, Throttles])
def test_a_table_without_rows(kind):
    none = kind.none()
    assert len(none) == 0 and none.end.max(initial=7) == 7
    made = {Instructions: instruction_table(vector=[(0, 5)]), Packets: packet_table([(0, 5)]),
            Throttles: throttle_table([(0, 5)])}[kind]
    for name, column in vars(made).items():
        if isinstance(column, np.ndarray):
            assert getattr(none, name).dtype == column.dtype, name


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=9))
def test_pairs_by_row(pairs):
    owner, other = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    first, after = by_row(owner, other, 5)
    assert [after[first[i]:first[i + 1]].tolist() for i in range(5)] == [
        [b for a, b in pairs if a == i] for i in range(5)]


def test_busy_is_work_of_the_engine_on_that_core():
    run = timeline(
        cores=2, matmuls=[(0, 10), (8, 20)], weights=[(20, 25)], scalar=[(2, 4), (30, 33)],
        vector=[(40, 45), (46, 50, {"core": 1})],
        issues=[(60, 70, {"engine": "scalar"})], control=[(80, 90, {"engine": "scalar"})])
    assert list(run.busy(0, "tensor")) == [(0, 25)]
    assert list(run.busy(0, "scalar")) == [(2, 4), (30, 33)]
    assert list(run.busy(0, "scalar", control=True)) == [(2, 4), (30, 33), (60, 70), (80, 90)]
    assert list(run.busy(0, "tensor", "vector")) == [(0, 25), (40, 45)]
    assert list(run.busy(1, "vector")) == [(46, 50)]
    assert not len(run.busy(1, "tensor")) and not len(run.busy(0, "gpsimd"))


def test_moving_is_traffic_unless_any_packet_counts():
    run = timeline(cores=2, packets=[(0, 5), (4, 9, {"engine": 3}), (20, 30, {"traffic": False}),
                                     (40, 41, {"core": 1})])
    assert list(run.moving(0)) == [(0, 9)]
    assert list(run.moving(0, traffic=False)) == [(0, 9), (20, 30)]
    assert list(run.moving()) == [(0, 9), (40, 41)]
    assert list(run.moving(1, traffic=False)) == [(40, 41)]


@given(st.lists(st.tuples(stretch, st.sampled_from(["tensor", "vector", "scalar"]),
                          st.integers(0, 1), st.sampled_from(["COPY", "DRAIN", "DMA_DIRECT2D"])),
                max_size=8))
def test_busy_matches_a_walk(rows):
    run = timeline(cores=2, vector=[(*when, {"engine": engine, "core": core, "opcode": opcode})
                                    for when, engine, core, opcode in rows])
    for core in (0, 1):
        for engine in ("tensor", "vector", "scalar"):
            mine = [(when, opcode) for when, e, c, opcode in rows if (e, c) == (engine, core)]
            assert points(run.busy(core, engine)) == points(
                when for when, opcode in mine if opcode == "COPY")
            assert points(run.busy(core, engine, control=True)) == points(
                when for when, _ in mine)
    assert run.working == tuple(sorted({c for _, _, c, opcode in rows if opcode != "DRAIN"}))
