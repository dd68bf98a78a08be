"""One working core: its rows by kind, when each engine is busy, and the parts of its time."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

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
from .rates import GapError

Floats = NDArray[np.float64]
Owned = tuple[Ints, Floats | None]  # rows, and the ns of each; None: no row owns the time
IDLE, WORK, ISSUE, MATMULS, LOADS = range(5)  # what a row is; IDLE: control
_CODES = {  # as `kinds` has them
    **{engine: [8 * WORK + place] for place, engine in enumerate(ENGINES)},
    **{name: list(range(8 * kind, 8 * kind + 8))
       for name, kind in (("issue", ISSUE), ("matmul", MATMULS), ("load", LOADS))}}
_CODES["tensor"] += _CODES["matmul"] + _CODES["load"]
_CODES["any"] = list(range(8 * WORK, 8 * LOADS + 8))
NO_ROWS = np.zeros(0, np.int64)
NEVER = 1 << 60  # ns: later than anything


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
        special = {MATMUL: MATMULS, WEIGHTS: LOADS}
        return special.get(name, IDLE if name in CONTROL else
                           ISSUE if name.startswith(ISSUES) else WORK)

    of = np.array([8 * kind(name) for name in timeline.instructions.opcodes] or [0], np.uint8)
    return of[timeline.instructions.opcode] + timeline.instructions.engine.view(np.uint8)


def multiplied(timeline: Timeline, kind: NDArray[np.uint8]) -> set[str]:
    """Dtypes of the matmuls that are no transposes; "" where one is unknown.

    Raises GapError where the profile says of one neither how much it multiplies nor its shape.
    """
    own = timeline.instructions
    rows = np.flatnonzero((kind >> 3 == MATMULS) & ~own.transpose)
    if "instructions.macs" in timeline.unknown and not (
            own.rows[rows] * own.columns[rows] * own.moving[rows].astype(np.int64)).all():
        raise GapError("ledger: the profile gives neither the elements nor the operands of its "
                       "matmuls, so they earn nothing; capture it with a newer profiler")
    return {DTYPES[i] for i in np.flatnonzero(np.bincount(kept(own.dtype, rows)))}


def nothing() -> Owned:
    """No row owns it."""
    return NO_ROWS, None


def kept(column: NDArray, rows: Ints) -> NDArray:
    """Those rows of a column; the column itself when they are all of it."""
    return column if rows.size == column.size else column[rows]


class Core:
    """Rows of one core of a timeline, cut to a window [t0, t1) where it is asked for.

    issues  rows that start a transfer
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
        self.moves = Spans(*(kept(column, self.packet_rows)
                             for column in (packets.start, packets.end)))
        works, self.issues = self.rows("any"), self.rows("issue")
        starts = [own.start[self.issues[:1]], self.moves.start[:1]]
        if not any(map(len, starts)):
            starts = [own.start[works[:1]]]
        self.first = int(np.concatenate(starts).min())
        self.last = max(int(np.max(own.end[works], initial=0)),
                        int(np.max(self.moves.end, initial=0)))

    def mask(self, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of the instructions that are meant, those of this core."""
        return which if self.mine is None else which & self.mine

    def rows(self, *engines: str) -> Ints:
        """Rows in which these engines work; also "issue", "matmul", "load" and "any" work."""
        wanted = np.zeros(256, bool)
        for engine in engines:
            wanted[_CODES[engine]] = True
        return np.flatnonzero(self.mask(wanted[self.kind]))

    def busy(self, engine: str) -> Spans:
        """When it works; "DMA": when traffic is under way."""
        if engine == "DMA":
            return self.under_way
        own = self.timeline.instructions
        rows = self.issues if engine == "issue" else self.rows(engine)
        return Spans.of(own.start[rows], own.end[rows])

    @cached_property
    def under_way(self) -> Spans:
        """When traffic is under way."""
        return Spans.of(self.moves.start, self.moves.end)

    def cut(self, spans: Spans) -> Spans:
        """What of them lies in the window."""
        return spans if self.whole else spans & Spans.one(self.t0, self.t1)

    def share(self, start: Ints, end: Ints) -> Floats | float:
        """The share of each [start, end) in the window; an empty one lies where it starts."""
        if self.whole and not (start[-1:] >= self.t1).any():
            return 1.0
        length = end - start
        inside = np.clip(end, self.t0, self.t1) - np.clip(start, self.t0, self.t1)
        at = (self.t0 <= start) & (start < self.t1)
        return np.where(length > 0, inside / np.maximum(length, 1), at)

    @cached_property
    def moved(self) -> float:
        """Bytes of traffic in the window; a packet that it cuts counts by its share."""
        return float((self.nbytes * self.share(self.moves.start, self.moves.end)).sum())

    def all_moved(self) -> float:
        """Bytes of traffic in the whole run."""
        return float(self.nbytes[:np.searchsorted(self.moves.start, self.timeline.end)].sum())

    @cached_property
    def nbytes(self) -> Ints:
        """The bytes of each traffic packet."""
        return kept(self.timeline.packets.nbytes, self.packet_rows)

    @cached_property
    def engines(self) -> NDArray[np.int16]:
        """The DMA engine of each traffic packet."""
        return kept(self.timeline.packets.engine, self.packet_rows)

    # --- parts -----------------------------------------------------------------------------------

    def part(self, cause: str, spans: Spans, owned: Callable[[], Owned] | None = None) -> Part:
        """A cause that has these stretches to itself; its events are what touches them."""
        spans = self.cut(spans)
        return Part(cause, self.core, spans.length, lambda: spans,
                    owned or partial(self.touched, spans))

    def beside(self, cause: str, spans: Spans) -> Part:
        """The packets that touch these stretches, as events of a cause."""
        return Part(cause, self.core, 0.0, Spans.none, lambda: (self.packet_rows[
            self.cut(spans).inside(self.moves.start, self.moves.end) > 0], None), "packets")

    def touched(self, spans: Spans, answers: Owned = (NO_ROWS, None)) -> Owned:
        """This core's instructions that run in these stretches; `answers`: those that own them."""
        own, (rows, ns) = self.timeline.instructions, answers
        beside = np.flatnonzero(self.mask(spans.inside(own.start, own.end) > 0))
        return np.r_[beside, rows], None if ns is None else np.r_[np.zeros(beside.size), ns]

    def waits(self, left: Spans, *engines: str) -> Generator[Part, None, Spans]:
        """Each ns to the first of these engines that works then; returns what is left."""
        for engine in engines:
            spans, left = split(left, self.busy(engine))
            yield Part("DMA issue" if engine == "issue" else f"wait for {engine}", self.core,
                       spans.length, partial(_same, spans), partial(self.ran, spans, engine))
        return left

    def ran(self, spans: Spans, *engines: str) -> Owned:
        """Of these engines' rows the last to start, in each ns of the stretches."""
        own, rows = self.timeline.instructions, self.rows(*engines)
        start, latest = own.start[rows], np.maximum.accumulate(own.end[rows])
        until = np.minimum(np.r_[start[1:], latest[-1:]], latest)
        mine, _, low, high = Spans(start, until).meet(spans)
        held = high > low
        return rows[mine[held]], (high - low)[held].astype(float)

    def woken(self, spans: Spans, moving: bool = False) -> Owned:
        """The working row that starts next after each of the stretches answers for it.

        moving   before that the last transfer that was issued before its end
        """
        start, rows = self.timeline.instructions.start, self.rows("any")
        who = np.r_[rows, -1][np.searchsorted(start[rows], spans.end)]
        if moving:
            last = np.r_[-1, self.issues][np.searchsorted(start[self.issues], spans.end)]
            who = np.where(last >= 0, last, who)
        known = who >= 0
        return who[known], (spans.end - spans.start)[known].astype(float)

    def edges(self, m0: int, m1: int, done: int, waited: Ints = NO_ROWS) -> Iterator[Part]:
        """Start, fill, tail, the wait for the other core and end around the roof's [m0, m1).

        done     when the last core has done its work
        waited   the transfer that the first event of the roof is known to have waited for
        """
        def filled(spans: Spans) -> Owned:
            rows, ns = self.woken(spans, moving=True)
            return self.touched(spans, (waited[:rows.size] if waited.size else rows, ns))

        def stored(spans: Spans) -> Owned:
            some = [self.ran(spans, "any"), self.woken(spans - self.busy("any"), moving=True)]
            return self.touched(spans, (np.concatenate([rows for rows, _ in some]),
                                        np.concatenate([ns for _, ns in some])))

        for cause, start, end, owned in (
                ("start", 0, min(self.first, m0), self.touched), ("fill", self.first, m0, filled),
                ("tail", m1, self.last, stored), ("end", done, self.timeline.end, self.touched),
                ("wait for the other core", self.last, done, self.touched)):
            spans = self.cut(Spans.one(start, end))
            yield self.part(cause, spans, partial(owned, spans))
            yield self.beside(cause, spans)

    def waited(self, rows: Ints) -> tuple[Ints, Ints]:
        """(place in `rows`, a predecessor of that row), pair by pair."""
        own = self.timeline.instructions
        if not own.after.size:
            return NO_ROWS, NO_ROWS
        first, count = own.first[rows], own.first[rows + 1] - own.first[rows]
        which = np.repeat(np.arange(rows.size), count)
        return which, own.after[np.arange(which.size) + (first - np.cumsum(count) + count)[which]]


def _same(spans: Spans) -> Spans:
    return spans


def between(spans: Spans, start: int, end: int) -> Spans:
    """What of [start, end) lies in none of the stretches."""
    low = np.clip(np.concatenate([[start], spans.end]), start, end)
    high = np.clip(np.concatenate([spans.start, [end]]), start, end)
    held = high > low
    return Spans(low[held], high[held])


def split(spans: Spans, by: Spans) -> tuple[Spans, Spans]:
    """What lies in `by`, and the rest: spans & by, spans - by at once."""
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
