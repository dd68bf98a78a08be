"""One working core: its rows by kind, its events of the roof, and where the time of each went."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..timeline import (
    CONTROL,
    DTYPES,
    ENGINES,
    ISSUES,
    MATMUL,
    WEIGHTS,
    Ints,
    Spans,
    Timeline,
)
from .rates import GapError, Rates

Floats = NDArray[np.float64]
Owned = tuple[Ints, Floats | None]  # rows, and the ns of each; None: no row owns the time
_CONTROL, _WORK, _ISSUE, _MATMUL, _WEIGHTS = range(5)
_NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """The time of one cause on one core.

    ns       in the window
    where    the stretches, computed when asked for
    owned    rows of `table` that it is about, and how many ns each one is to answer for
    """

    cause: str
    core: int
    ns: float
    where: Callable[[], Spans]
    owned: Callable[[], Owned]
    table: str = "instructions"


def kinds(timeline: Timeline) -> NDArray[np.uint8]:
    """8 x what a row is (control, work, issue, MATMUL, LDWEIGHTS) + its engine."""
    def kind(name: str) -> int:
        special = {MATMUL: _MATMUL, WEIGHTS: _WEIGHTS}
        return special.get(name, _CONTROL if name in CONTROL else
                           _ISSUE if name.startswith(ISSUES) else _WORK)

    of = np.array([8 * kind(name) for name in timeline.instructions.opcodes] or [0], np.uint8)
    return of[timeline.instructions.opcode] + timeline.instructions.engine.view(np.uint8)


def multiplied(timeline: Timeline, kind: NDArray[np.uint8]) -> set[str]:
    """Dtypes of the matmuls that are no transposes; "" where one is unknown.

    Raises GapError where the profile says of one neither how much it multiplies nor its shape.
    """
    own = timeline.instructions
    rows = np.flatnonzero((kind >> 3 == _MATMUL) & ~own.transpose)
    if "macs" in timeline.unknown and not (
            own.rows[rows] * own.columns[rows] * own.moving[rows].astype(np.int64)).all():
        raise GapError("ledger: the profile gives neither the elements nor the operands of its "
                       "matmuls, so they earn nothing; capture it with a newer profiler")
    return {DTYPES[i] for i in np.flatnonzero(np.bincount(_kept(own.dtype, rows)))}


def nothing() -> Owned:
    """No row owns it."""
    return _NO_ROWS, None


def _kept(column: NDArray, rows: Ints) -> NDArray:
    """Those rows of a column; the column itself when they are all of it."""
    return column if rows.size == column.size else column[rows]


class Core:
    """Rows of one core of a timeline, cut to a window [t0, t1) where it is asked for.

    first   D0: the first DMA issue or traffic packet, else the first working row
    last    Z: the last end of a traffic packet or working row
    """

    def __init__(self, timeline: Timeline, kind: NDArray[np.uint8], core: int,
                 window: tuple[int, int]) -> None:
        self.timeline, self.core, self.kind = timeline, core, kind
        self.t0, self.t1 = window
        self.whole = self.t0 <= 0 and self.t1 >= timeline.end
        own = timeline.instructions
        self.mine = None if not len(own) or (own.core == core).all() else own.core == core
        packets = timeline.packets
        self.packet_rows = np.flatnonzero(packets.traffic & (packets.core == core))
        self.moves = Spans(*(_kept(column, self.packet_rows)
                             for column in (packets.start, packets.end)))
        issues, works = self._rows(_ISSUE), self._mask(kind >= 8 * _WORK)
        starts = [own.start[issues[:1]], self.moves.start[:1]]
        if not issues.size and not len(self.moves):
            starts = [own.start[np.flatnonzero(works)[:1]]]
        self.first = int(np.concatenate(starts).min())
        self.last = max(int(np.max(own.end, where=works, initial=0)),
                        int(np.max(self.moves.end, initial=0)))

    def _mask(self, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return which if self.mine is None else which & self.mine

    def _rows(self, kind: int, engine: str | None = None) -> Ints:
        """Rows of a kind, of one engine or of all."""
        if engine is None:
            which = self.kind >> 3 == kind
        else:
            which = self.kind == 8 * kind + ENGINES.index(engine)
        return np.flatnonzero(self._mask(which))

    def engine_rows(self, engine: str) -> Ints:
        """Rows in which an engine does work of its own; "issue": rows that start a transfer."""
        if engine == "issue":
            return self._rows(_ISSUE)
        if engine == "tensor":
            return np.flatnonzero(self._mask((self.kind >> 3 >= _MATMUL) |
                                             (self.kind == 8 * _WORK)))
        return self._rows(_WORK, engine)

    def busy(self, engine: str) -> Spans:
        """When an engine works; "DMA": when traffic is under way, "fetch": any packet."""
        if engine == "DMA":
            return Spans.of(self.moves.start, self.moves.end)
        if engine == "fetch":
            return self.timeline.moving(self.core, traffic=False)
        rows = self.engine_rows(engine)
        own = self.timeline.instructions
        return Spans.of(own.start[rows], own.end[rows])

    def cut(self, spans: Spans) -> Spans:
        """What of them lies in the window."""
        return spans if self.whole else spans & Spans.one(self.t0, self.t1)

    def share(self, start: Ints, end: Ints) -> Floats | float:
        """The share of each [start, end) in the window; an empty one lies where it starts."""
        if self.whole:
            return 1.0
        length = end - start
        inside = np.clip(end, self.t0, self.t1) - np.clip(start, self.t0, self.t1)
        at = (self.t0 <= start) & (start < self.t1)
        return np.where(length > 0, inside / np.maximum(length, 1), at)

    # --- parts -----------------------------------------------------------------------------------

    def part(self, cause: str, spans: Spans, owned: Callable[[], Owned] | None = None,
             table: str = "instructions") -> Part:
        """A cause that has these stretches to itself; its events are what touches them."""
        spans = self.cut(spans)
        return Part(cause, self.core, spans.length, lambda: spans,
                    owned or partial(self.touched, spans, table), table)

    def touched(self, spans: Spans, table: str = "instructions") -> Owned:
        """This core's rows (traffic, where they are packets) that run in these stretches."""
        if table == "packets":
            return self.packet_rows[spans.inside(self.moves.start, self.moves.end) > 0], None
        own = self.timeline.instructions
        return np.flatnonzero(self._mask(spans.inside(own.start, own.end) > 0)), None

    def ran(self, spans: Spans, rows: Ints | str) -> Owned:
        """Of these rows, or an engine's, the last to start, in each ns of the stretches."""
        rows = self.engine_rows(rows) if isinstance(rows, str) else rows
        own = self.timeline.instructions
        start, latest = own.start[rows], np.maximum.accumulate(own.end[rows])
        until = np.minimum(np.r_[start[1:], latest[-1:]], latest)
        mine, _, low, high = Spans(start, until).meet(spans)
        held = high > low
        return rows[mine[held]], (high - low)[held].astype(float)

    def edges(self, m0: int, m1: int) -> Iterator[Part]:
        """Start, fill, tail and end around the events of the roof, [m0, m1)."""
        for cause, start, end in (("start", 0, min(self.first, m0)), ("fill", self.first, m0),
                                  ("tail", m1, self.last),
                                  ("end", self.last, self.timeline.end)):
            spans = self.cut(Spans.one(start, end))
            yield self.part(cause, spans)
            yield Part(cause, self.core, 0.0, Spans.none,
                       partial(self.touched, spans, "packets"), "packets")

    # --- the Tensor Engine -----------------------------------------------------------------------

    def matmuls(self, rates: Rates) -> "Matmuls":
        """The MATMUL rows with their slots and credits."""
        return Matmuls(self, self._rows(_MATMUL), rates)

    def compute(self, matmuls: "Matmuls", rates: Rates) -> Iterator[Part]:
        """Every ns of the window but the credits, when the Tensor Engine is the roof."""
        own = self.timeline.instructions
        rows = np.flatnonzero(self._mask(self.kind >> 3 >= _MATMUL))
        m0, m1 = self.first, self.last
        if matmuls.rows.size:
            m0, m1 = int(own.start[rows[0]]), int(matmuls.end.max())
        yield from self.edges(m0, m1)
        running = self.cut(Spans.of(matmuls.start, matmuls.end))
        yield from matmuls.parts(self._throttled(m0, rates), running, rates)
        tensor = Spans.of(own.start[rows], own.end[rows])
        gaps = Spans.one(m0, m1) - tensor
        inside = self.cut(Spans.one(m0, m1))
        if inside.length > running.length + self.cut(gaps).length:
            spans = inside - running - gaps
            yield self.part("weight load", spans, partial(self.ran, spans, self._rows(_WEIGHTS)))
        yield from self._waits(gaps, rows)

    def _throttled(self, m0: int, rates: Rates) -> list[tuple[float, Spans]]:
        """Share of the cycles that is lost, and when: apart from each other."""
        rows = self.timeline.throttles
        rows = rows.take(rows.core == self.core)
        kept = rows.k / np.maximum(rows.n, 1)
        found = [(float(share), Spans.of(rows.start[kept == share], rows.end[kept == share]))
                 for share in np.unique(kept[kept < 1])]
        released = rows.start[kept >= 1]
        if released.size and released[0] > m0 and rates.at_start is not None:
            found.append((rates.at_start, Spans.one(m0, int(released[0]))))
        lowest, taken = [], Spans.none()
        for share, spans in sorted(found, key=lambda one: one[0]):
            lowest.append((1 - share, spans - taken))
            taken = taken | spans
        return lowest

    def _waits(self, gaps: Spans, rows: Ints) -> Iterator[Part]:
        """Stretches without a Tensor row: who is waited for, by predecessor, else by who works.

        rows   the Tensor rows
        """
        own = self.timeline.instructions
        starts = own.start[rows]

        def ender(spans: Spans) -> Owned:
            at = np.searchsorted(starts, spans.end)
            known = at < rows.size  # without a MATMUL the last stretch ends with the work
            return rows[at[known]], (spans.end - spans.start)[known].astype(float)

        blamed = np.full(len(gaps), -1, np.int64)
        if own.after.size:
            at = np.minimum(np.searchsorted(starts, gaps.end), max(rows.size - 1, 0))
            ended = starts[at] == gaps.end if rows.size else np.zeros(len(gaps), bool)
            blamed[ended] = self._blamed(rows[at[ended]], gaps.start[ended])
        for code, (cause, _) in enumerate(_BLAME):
            held = np.flatnonzero((blamed >= 0) & (_BLAMED[self.kind[blamed]] == code))
            if held.size:
                spans = Spans(gaps.start[held], gaps.end[held])
                if not self.whole:
                    low = np.clip(spans.start, self.t0, self.t1)
                    high = np.clip(spans.end, self.t0, self.t1)
                    held, spans = held[high > low], Spans(low[high > low], high[high > low])
                ns = (spans.end - spans.start).astype(float)
                yield self.part(cause, spans, partial(_these, blamed[held], ns))
        left = self.cut(Spans(gaps.start[blamed < 0], gaps.end[blamed < 0]))
        for engine in ("vector", "scalar", "gpsimd"):
            spans, left = _split(left, self.busy(engine))
            yield self.part(f"wait for {engine}", spans, partial(self.ran, spans, engine))
        spans, left = _split(left, self.busy("DMA"))
        yield self.part("wait for DMA", spans, table="packets")
        yield self.part("idle", left, partial(ender, left))

    def _blamed(self, rows: Ints, since: Ints) -> Ints:
        """Of each row's predecessors the last to end, if after `since` and no Tensor row; or -1."""
        own = self.timeline.instructions
        first, count = own.first[rows], own.first[rows + 1] - own.first[rows]
        found = np.full(rows.size, -1, np.int64)
        at = np.flatnonzero(count)
        if not at.size:
            return found
        opens = np.cumsum(count[at]) - count[at]
        which = np.repeat(np.arange(at.size), count[at])
        before = own.after[np.arange(which.size) + (first[at] - opens)[which]]
        ends = np.where(self.kind[before] >= 8 * _WORK, own.end[before], -1)
        latest = np.maximum.reduceat(ends, opens)
        hits = np.flatnonzero(ends == latest[which])
        one = before[hits[np.searchsorted(hits, opens)]]  # of equal ends the first
        blamed = (latest > since[at]) & (self.kind[one] < 8 * _MATMUL)
        found[at[blamed]] = one[blamed]
        return found

    # --- the DMA packets -------------------------------------------------------------------------

    def moved(self) -> float:
        """Bytes of traffic in the window; a packet that it cuts counts by its share."""
        nbytes = _kept(self.timeline.packets.nbytes, self.packet_rows)
        if self.whole:
            return float(nbytes.sum())
        return float((nbytes * self.share(self.moves.start, self.moves.end)).sum())

    def memory(self, rates: Rates) -> Iterator[Part]:
        """Every ns of the window but the bytes at BW, when the DMA packets are the roof."""
        union, m0, m1 = self.busy("DMA"), self.first, self.last
        if len(self.moves):
            m0, m1 = int(self.moves.start[0]), int(self.moves.end.max())
        yield from self.edges(m0, m1)
        under_way, at_roof = self.cut(union), self.moved() / rates.bw
        n, rate = rates.dma_engines, rates.dma_rate

        def part(cause: str, ns: float, where: Callable[[], Spans]) -> Part:
            return Part(cause, self.core, ns, where,
                        partial(self.touched, under_way, "packets"), "packets")

        if n and rate and not (self.engines < 0).any():
            per_engine, at_engines = self._on_engines() / n, at_roof * rates.bw / (n * rate)
            yield part("few engines", under_way.length - per_engine, lambda: self._fewer_than(n))
            yield part("packet cost", per_engine - at_engines, lambda: under_way)
            yield part("engines against the roof", at_engines - at_roof, lambda: under_way)
        else:
            yield part("packets", under_way.length - at_roof, lambda: under_way)
        left = self.cut(Spans.one(m0, m1) - union)
        for engine in ("tensor", "vector", "scalar", "gpsimd", "issue"):
            spans, left = _split(left, self.busy(engine))
            cause = "DMA issue" if engine == "issue" else f"wait for {engine}"
            yield self.part(cause, spans, partial(self.ran, spans, engine))
        spans, left = _split(left, self.busy("fetch"))
        yield Part("instruction fetch", self.core, spans.length, lambda: spans,
                   partial(self._fetched, spans), "packets")
        yield self.part("idle", left)

    @property
    def engines(self) -> NDArray[np.int16]:
        """The DMA engine of each traffic packet."""
        return _kept(self.timeline.packets.engine, self.packet_rows)

    def _by_engine(self) -> tuple[Ints, Ints, Ints]:
        """Packets in the window engine by engine: start, end, where each engine's rows begin."""
        order = np.argsort(self.engines, kind="stable")
        engine = self.engines[order]
        first = np.flatnonzero(np.r_[True, engine[1:] != engine[:-1]][:engine.size])
        start, end = self.moves.start[order], self.moves.end[order]
        if self.whole:
            return start, end, first
        return np.clip(start, self.t0, self.t1), np.clip(end, self.t0, self.t1), first

    def _on_engines(self) -> float:
        """Time under way on each engine, summed over engines."""
        start, end, first = self._by_engine()
        rows = np.diff(np.r_[first, start.size])
        apart = np.repeat(np.arange(first.size) * (self.timeline.end + 1), rows)
        return float(Spans.of(start + apart, end + apart).length)  # one after the other

    def _fewer_than(self, n: int) -> Spans:
        """Where packets are under way on some engines, but on fewer than n."""
        start, end, first = self._by_engine()
        by_engine = [Spans.of(*both) for both in zip(np.split(start, first[1:]),
                                                     np.split(end, first[1:]), strict=True)]
        times = np.concatenate([s.start for s in by_engine] + [s.end for s in by_engine])
        half = times.size // 2
        order = np.argsort(times, kind="stable")
        times, step = times[order], np.where(order < half, 1, -1)
        busy = np.cumsum(step)[:-1]
        few = (busy > 0) & (busy < n)
        return Spans.of(times[:-1][few], times[1:][few])

    def _fetched(self, spans: Spans) -> Owned:
        """Packets of this core that are no traffic and run in these stretches."""
        own = self.timeline.packets
        return np.flatnonzero(~own.traffic & (own.core == self.core) &
                              (spans.inside(own.start, own.end) > 0)), None


def _these(rows: Ints, ns: Floats) -> Owned:
    return rows, ns


def _split(spans: Spans, by: Spans) -> tuple[Spans, Spans]:
    """What lies in `by`, and the rest."""
    if not len(spans) or not len(by):
        return Spans.none(), spans
    whose, _, start, end = spans.meet(by)
    # Before, between and after the pieces of each stretch is a rest, which may be empty.
    piece, cut = np.arange(whose.size), np.bincount(whose, minlength=len(spans)).cumsum()
    low, high = np.empty((2, len(spans) + whose.size), np.int64)
    low[whose + piece + 1], high[whose + piece] = end, start
    low[np.arange(len(spans)) + np.r_[0, cut[:-1]]] = spans.start
    high[np.arange(len(spans)) + cut] = spans.end
    rest = high > low
    return Spans(start, end), Spans(low[rest], high[rest])


# The causes that a predecessor can be blamed for, and by kind and engine which one.
_BLAME = (("wait for vector", "vector"), ("wait for scalar", "scalar"),
          ("wait for gpsimd", "gpsimd"), ("wait for DMA", "sync"), ("wait for tensor", "tensor"))
_BLAMED = np.full(256, 3, np.uint8)  # 3: a transfer was waited for
for _place, (_, _whose) in enumerate(_BLAME):
    _BLAMED[8 * _WORK + ENGINES.index(_whose)] = _place


class Matmuls:
    """MATMUL rows of one core in order of start: slots, credits, and what the slots lose.

    slot     [start, stop): to its end or to the next start, whichever comes first
    credit   ns that the row's useful work takes at the roof; 0 for a transpose
    share    of its slot in the window
    """

    def __init__(self, core: Core, rows: Ints, rates: Rates) -> None:
        own = core.timeline.instructions
        self.core, self.rows = core, rows
        self.start, self.end = _kept(own.start, rows), _kept(own.end, rows)
        self.stop = self.end.copy()
        np.minimum(self.end[:-1], self.start[1:], out=self.stop[:-1])
        self.share = core.share(self.start, self.stop)
        self.turns = _kept(own.transpose, rows)
        self.dtype = _kept(own.dtype, rows)
        self.K, self.M, self.N = (_kept(getattr(own, name), rows)
                                  for name in ("rows", "columns", "moving"))
        self.array = self.K.astype(np.int64) * self.M
        macs = self.array * self.N
        macs = np.where(macs > 0, macs, _kept(own.macs, rows))
        self.flops = np.where(self.turns, 0, 2 * macs / np.maximum(_kept(own.passes, rows), 1))
        self.credit = self.flops * rates.credit[self.dtype]

    @property
    def credits(self) -> float:
        """ns of credit in the window."""
        return float((self.credit * self.share).sum())

    def parts(self, throttled: list[tuple[float, Spans]], running: Spans,
              rates: Rates) -> Iterator[Part]:
        """What slots hold besides their credits, and matmuls that run on beside a slot."""
        slot = self.stop - self.start
        inside = slot * self.share
        turning = float(inside[self.turns].sum())
        yield self._part("transposes", np.flatnonzero(self.turns), inside[self.turns], turning)
        peeled = 0.0
        left = np.where(self.turns, 0, np.maximum(slot - self.credit, 0))
        shares = np.broadcast_to(self.share, left.shape)
        for cause, rows, amount in self._losses(throttled, rates):
            taken = np.minimum(amount, left[rows])
            left[rows] -= taken
            taken *= shares[rows]
            ns = float(taken.sum())
            peeled += ns
            where = None
            if cause == "throttle":
                where = Spans.of(*_joined([spans for _, spans in throttled]))
            yield self._part(cause, rows, taken, ns, where)
        ns = running.length - turning - self.credits - peeled
        yield Part("pipeline", self.core.core, ns, lambda: self._rest(left, running)[0],
                   lambda: self._rest(left, running)[1])

    def _losses(self, throttled: list[tuple[float, Spans]],
                rates: Rates) -> Iterator[tuple[str, Ints, Floats]]:
        """Cause, rows and ns of each, in the order in which they are peeled."""
        lost = np.zeros(self.rows.size)
        for share, spans in throttled:
            _, rows, low, high = spans.meet(Spans(self.start, self.stop))
            lost += share * np.bincount(rows, high - low, lost.size)
        rows = np.flatnonzero((lost > 0) & ~self.turns)
        yield "throttle", rows, lost[rows]
        own, credit = rates.own, rates.credit
        rows = np.flatnonzero((own > credit)[self.dtype] & ~self.turns)
        yield "dtype", rows, (self.flops * (own - credit)[self.dtype])[rows]
        rows = np.flatnonzero((self.array < rates.array[self.dtype]) & (self.array > 0) &
                              ~self.turns)
        alone, filled = self.flops[rows] * own[self.dtype[rows]], rates.array[self.dtype[rows]]
        yield "small tiles", rows, alone * (filled / self.array[rows] - 1)
        rows = np.flatnonzero((self.N < rates.interval) & (self.N > 0) & (self.array > 0) &
                              ~self.turns)
        filled = self.flops[rows] * own[self.dtype[rows]] * (
            rates.array[self.dtype[rows]] / self.array[rows])
        yield "short moving", rows, filled * (rates.interval / self.N[rows] - 1)

    def _part(self, cause: str, rows: Ints, taken: Floats, ns: float,
              where: Spans | None = None) -> Part:
        def spans() -> Spans:
            held = rows[taken != 0]
            slots = self.core.cut(Spans.of(self.start[held], self.stop[held]))
            return slots if where is None else slots & where

        return Part(cause, self.core.core, ns, spans,
                    lambda: (self.rows[rows[taken != 0]], taken[taken != 0]))

    def credited(self) -> Part:
        """Rows with a credit and their slots: what work beyond the count is about."""
        rows = np.flatnonzero((self.credit > 0) & (self.share > 0))
        return self._part("uncounted work", rows, np.ones(rows.size), 0.0)

    def _rest(self, left: Floats, running: Spans) -> tuple[Spans, Owned]:
        """Slots with something left over or overdrawn, and time of matmuls outside all slots."""
        slot = self.stop - self.start
        ns = np.where(self.turns, 0, left + np.minimum(slot - self.credit, 0)) * self.share
        held = np.flatnonzero(ns)
        slots = Spans.of(self.start[held], self.stop[held])
        beside = running - Spans.of(self.start, self.stop)
        rows, more = self.core.ran(beside, self.rows) if len(beside) else (_NO_ROWS, ns[:0])
        return (self.core.cut(slots) | beside,
                (np.r_[self.rows[held], rows], np.r_[ns[held], more]))


def _joined(some: list[Spans]) -> tuple[Ints, Ints]:
    return (np.concatenate([_NO_ROWS, *(s.start for s in some)]),
            np.concatenate([_NO_ROWS, *(s.end for s in some)]))

