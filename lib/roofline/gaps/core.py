"""One working core: its rows by kind, when each engine is busy, and the parts of its time."""

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
from .rates import GapError

Floats = NDArray[np.float64]
Owned = tuple[Ints, Floats | None]  # rows, and the ns of each; None: no row owns the time
IDLE, WORK, ISSUE, MATMULS, LOADS = range(5)  # what a row is
NO_ROWS = np.zeros(0, np.int64)


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
        issues, works = self.rows(ISSUE), self.mask(kind >= 8 * WORK)
        starts = [own.start[issues[:1]], self.moves.start[:1]]
        if not issues.size and not len(self.moves):
            starts = [own.start[np.flatnonzero(works)[:1]]]
        self.first = int(np.concatenate(starts).min())
        self.last = max(int(np.max(own.end, where=works, initial=0)),
                        int(np.max(self.moves.end, initial=0)))

    def mask(self, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return which if self.mine is None else which & self.mine

    def rows(self, kind: int, engine: str | None = None) -> Ints:
        """Rows of a kind, of one engine or of all."""
        if engine is None:
            which = self.kind >> 3 == kind
        else:
            which = self.kind == 8 * kind + ENGINES.index(engine)
        return np.flatnonzero(self.mask(which))

    def engine_rows(self, engine: str) -> Ints:
        """Rows in which an engine does work of its own; "issue": rows that start a transfer."""
        if engine == "issue":
            return self.rows(ISSUE)
        if engine == "tensor":
            return np.flatnonzero(self.mask((self.kind >> 3 >= MATMULS) |
                                             (self.kind == 8 * WORK)))
        return self.rows(WORK, engine)

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
        if self.whole and not (start[-1:] >= self.t1).any():
            return 1.0
        length = end - start
        inside = np.clip(end, self.t0, self.t1) - np.clip(start, self.t0, self.t1)
        at = (self.t0 <= start) & (start < self.t1)
        return np.where(length > 0, inside / np.maximum(length, 1), at)

    def moved(self) -> float:
        """Bytes of traffic in the window; a packet that it cuts counts by its share."""
        return float((self.nbytes * self.share(self.moves.start, self.moves.end)).sum())

    @property
    def nbytes(self) -> Ints:
        """The bytes of each traffic packet."""
        return kept(self.timeline.packets.nbytes, self.packet_rows)

    @property
    def engines(self) -> NDArray[np.int16]:
        """The DMA engine of each traffic packet."""
        return kept(self.timeline.packets.engine, self.packet_rows)

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
        return np.flatnonzero(self.mask(spans.inside(own.start, own.end) > 0)), None

    def ran(self, spans: Spans, rows: Ints | str) -> Owned:
        """Of these rows, or an engine's, the last to start, in each ns of the stretches."""
        rows = self.engine_rows(rows) if isinstance(rows, str) else rows
        own = self.timeline.instructions
        start, latest = own.start[rows], np.maximum.accumulate(own.end[rows])
        until = np.minimum(np.r_[start[1:], latest[-1:]], latest)
        mine, _, low, high = Spans(start, until).meet(spans)
        held = high > low
        return rows[mine[held]], (high - low)[held].astype(float)

    def woken(self, spans: Spans) -> Owned:
        """The working row that starts next after each of the stretches; it answers for them."""
        rows = np.flatnonzero(self.mask(self.kind >= 8 * WORK))
        at = np.searchsorted(self.timeline.instructions.start[rows], spans.end)
        known = at < rows.size
        return rows[at[known]], (spans.end - spans.start)[known].astype(float)

    def edges(self, m0: int, m1: int) -> Iterator[Part]:
        """Start, fill, tail and end around the events of the roof, [m0, m1)."""
        for cause, start, end in (("start", 0, min(self.first, m0)), ("fill", self.first, m0),
                                  ("tail", m1, self.last),
                                  ("end", self.last, self.timeline.end)):
            spans = self.cut(Spans.one(start, end))
            yield self.part(cause, spans)
            yield Part(cause, self.core, 0.0, Spans.none,
                       partial(self.touched, spans, "packets"), "packets")


def split(spans: Spans, by: Spans) -> tuple[Spans, Spans]:
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
