"""Where the time of a core went when the Tensor Engine is its roof: slots, and what is between."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_

import numpy as np

from ..count import Count
from ..timeline import DTYPES, ENGINES, Ints, Spans
from .core import (
    ISSUE,
    MATMULS,
    NEVER,
    NO_ROWS,
    WORK,
    Core,
    Floats,
    Owned,
    Part,
    between,
    kept,
    split,
)
from .rates import Rates

# The causes that a predecessor can be blamed for, and by kind and engine which one.
_BLAME = (("wait for vector", "vector"), ("wait for scalar", "scalar"),
          ("wait for gpsimd", "gpsimd"), ("wait for DMA", "sync"), ("wait for tensor", "tensor"))
_BLAMED = np.full(256, 3, np.uint8)  # 3: a transfer was waited for
for _place, (_, _whose) in enumerate(_BLAME):
    _BLAMED[8 * WORK + ENGINES.index(_whose)] = _place


class Matmuls:
    """MATMUL rows of one core in order of start: slots, credits, and what the slots lose.

    slot     [start, stop): to its end or to the next start, whichever comes first
    credit   ns that the row's useful work takes at the roof; 0 for a transpose
    share    of its slot in the window
    """

    def __init__(self, core: Core, rates: Rates) -> None:
        own, rows = core.timeline.instructions, core.rows("matmul")
        self.core, self.rows = core, rows
        self.start, self.end = kept(own.start, rows), kept(own.end, rows)
        self.stop = self.end.copy()
        np.minimum(self.end[:-1], self.start[1:], out=self.stop[:-1])
        self.share = core.share(self.start, self.stop)
        self.turns = kept(own.transpose, rows)
        self.dtype = kept(own.dtype, rows)
        self.K, self.M, self.N = (kept(getattr(own, name), rows)
                                  for name in ("rows", "columns", "moving"))
        self.array = self.K.astype(np.int64) * self.M
        macs = self.array * self.N
        macs = np.where(macs > 0, macs, kept(own.macs, rows))
        self.flops = 2 * macs / np.maximum(kept(own.passes, rows), 1)
        self.flops[self.turns] = 0
        self.credit = self.flops * rates.credit[self.dtype]

    def credits(self) -> float:
        """ns of credit in the window."""
        return float((self.credit * self.share).sum())

    def all_credits(self) -> float:
        """ns of credit in the whole run."""
        return float(self.credit[:np.searchsorted(self.start, self.core.timeline.end)].sum())

    def parts(self, throttled: list[tuple[float, Spans]], running: Spans,
              rates: Rates) -> Iterator[Part]:
        """What slots hold besides their credits, and matmuls that run on beside a slot."""
        slot = self.stop - self.start
        inside = slot * self.share
        turning = float(inside[self.turns].sum())
        yield self._part("transposes", np.flatnonzero(self.turns), inside[self.turns], turning)
        peeled = 0.0
        left = np.where(self.turns, 0, slot - self.credit)
        shares = np.broadcast_to(self.share, left.shape)
        for cause, rows, amount in self._losses(throttled, rates):
            taken = np.minimum(amount, np.maximum(left[rows], 0))
            left[rows] -= taken
            taken *= shares[rows]
            ns = float(taken.sum())
            peeled += ns
            yield self._part(cause, rows, taken, ns, [spans for _, spans in throttled]
                             if cause == "throttle" else [])
        ns = running.length - turning - self.credits() - peeled
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
        array, alone = rates.array[self.dtype], self.flops * rates.own[self.dtype]
        rows = np.flatnonzero((alone != self.credit) & ~self.turns)
        yield "dtype", rows, (alone - self.credit)[rows]
        rows = np.flatnonzero((self.array < array) & (self.array > 0) & ~self.turns)
        yield "small tiles", rows, alone[rows] * (array[rows] / self.array[rows] - 1)
        rows = np.flatnonzero((self.N < rates.interval) & (self.N > 0) & (self.array > 0) &
                              ~self.turns)
        yield "short moving", rows, (alone[rows] * array[rows] / self.array[rows] *
                                     (rates.interval / self.N[rows] - 1))

    def _part(self, cause: str, rows: Ints, taken: Floats, ns: float,
              where: Sequence[Spans] = ()) -> Part:
        def spans() -> Spans:
            held = rows[taken != 0]
            slots = self.core.cut(Spans.of(self.start[held], self.stop[held]))
            return slots & reduce(or_, where) if where else slots

        return Part(cause, self.core.core, ns, spans,
                    lambda: (self.rows[rows[taken != 0]], taken[taken != 0]))

    def beyond(self, t_best: float) -> Part:
        """Credits against the entitlement: work that was not counted."""
        used = self.credit * self.share
        return replace(self._part("uncounted work", np.arange(used.size), used,
                                  self.credits() - t_best),
                       owned=lambda: (self.rows[np.flatnonzero(used)], None))

    def _rest(self, left: Floats, running: Spans) -> tuple[Spans, Owned]:
        """Slots with something left over or overdrawn, and time of matmuls outside all slots."""
        ns = left * self.share
        held = np.flatnonzero(np.abs(ns) > 1e-9)  # less is how floats round
        slots = Spans.of(self.start[held], self.stop[held])
        beside = running - Spans.of(self.start, self.stop)
        rows, more = self.core.ran(beside, "matmul") if len(beside) else (NO_ROWS, ns[:0])
        return (self.core.cut(slots) | beside,
                (np.r_[self.rows[held], rows], np.r_[ns[held], more]))


def counted(cores: Iterable[Core], matmuls: Iterable[Matmuls], rates: Rates) -> Count:
    """Useful work and traffic in the window, shares of what it cuts rounded to whole numbers."""
    work: dict[str, float] = {}
    for own in matmuls:
        flops = np.bincount(own.dtype, own.flops * own.share, len(DTYPES))
        for place in np.flatnonzero(flops):
            name = rates.named(DTYPES[place])
            work[name] = work.get(name, 0.0) + float(flops[place])
    return Count({name: round(w) for name, w in work.items()},
                 round(sum(core.moved for core in cores)))


def compute(matmuls: Matmuls, rates: Rates, t_best: float, done: int) -> Iterator[Part]:
    """Every ns of the window but T_best, when the Tensor Engine is the roof.

    done   when the last core has done its work
    """
    core, own = matmuls.core, matmuls.core.timeline.instructions
    rows = core.rows("matmul", "load")
    m0, m1, waited = core.first, core.last, NO_ROWS
    if matmuls.rows.size:
        m0, m1 = int(own.start[rows[0]]), int(matmuls.end.max())
        waited = _blamed(core, rows[:1], np.array([core.first]))
        waited = waited[core.kind[waited] >> 3 == ISSUE]
    yield from core.edges(m0, m1, done, waited[waited >= 0])
    running = core.cut(Spans.of(matmuls.start, matmuls.end))
    yield matmuls.beyond(t_best)
    yield from matmuls.parts(_throttled(core, m0, rates), running, rates)
    tensor = Spans.of(own.start[rows], own.end[rows])
    gaps = between(tensor, m0, m1)
    inside = core.cut(Spans.one(m0, m1))

    def loads() -> Spans:
        return inside - running - gaps

    yield Part("weight load", core.core, inside.length - running.length - core.cut(gaps).length,
               loads, lambda: core.ran(loads(), "load"))
    yield from _waits(core, gaps, rows)


def _throttled(core: Core, m0: int, rates: Rates) -> list[tuple[float, Spans]]:
    """Share of the cycles that is lost, and when: apart from each other."""
    rows = core.timeline.throttles
    rows = rows.take(rows.core == core.core)
    allowed = rows.k / np.maximum(rows.n, 1)
    found = [(float(share), Spans.of(rows.start[allowed == share], rows.end[allowed == share]))
             for share in np.unique(allowed[allowed < 1])]
    released = rows.start[allowed == 1]  # more than all is a limit of another kind
    if released.size and released[0] > m0 and rates.at_start is not None:
        found.append((rates.at_start, Spans.one(m0, int(released[0]))))
    lowest, taken = [], Spans.none()
    for share, spans in sorted(found, key=lambda one: one[0]):
        lowest.append((1 - share, spans - taken))
        taken = taken | spans
    return lowest


def _waits(core: Core, gaps: Spans, rows: Ints) -> Iterator[Part]:
    """Stretches without a Tensor row: who is waited for, by predecessor, else by who works.

    rows   the Tensor rows
    """
    starts = core.timeline.instructions.start[rows]
    blamed = np.full(len(gaps), -1, np.int64)
    if rows.size:
        at = np.minimum(np.searchsorted(starts, gaps.end), rows.size - 1)
        ended = starts[at] == gaps.end
        blamed[ended] = _blamed(core, rows[at[ended]], gaps.start[ended])
    for code, (cause, _) in enumerate(_BLAME):
        held = np.flatnonzero((blamed >= 0) & (_BLAMED[core.kind[blamed]] == code))
        if held.size:
            low = np.clip(gaps.start[held], core.t0, core.t1)
            high = np.clip(gaps.end[held], core.t0, core.t1)
            seen = high > low
            owned = blamed[held[seen]], (high - low)[seen].astype(float)
            yield core.part(cause, Spans(low[seen], high[seen]), partial(lambda both: both, owned))
    left = core.cut(Spans(gaps.start[blamed < 0], gaps.end[blamed < 0]))
    left = yield from core.waits(left, "vector", "scalar", "gpsimd")
    moving, idle = split(left, core.under_way)
    yield core.part("wait for DMA", moving, partial(core.woken, moving, moving=True))
    yield core.beside("wait for DMA", moving)
    yield core.part("idle", idle, partial(core.woken, idle))


def _blamed(core: Core, rows: Ints, since: Ints) -> Ints:
    """Of each row's predecessors whom it waits for, or -1; Tensor rows and control are not blamed.

    It is the last to end, if after `since`; else the last that issued a transfer: that row is
    over when the descriptors are written, and the packets are still to come.
    """
    found = np.full(rows.size, -1, np.int64)
    which, before = core.waited(rows)
    if not which.size:
        return found
    kind, ends = core.kind[before], core.timeline.instructions.end[before]
    late = (kind >= 8 * WORK) & (kind < 8 * MATMULS) & (ends > since[which])
    held = np.flatnonzero(late | (kind >> 3 == ISSUE))[::-1]  # of equal ends the first comes last
    held = held[np.argsort(np.where(late, ends, ends - NEVER)[held], kind="stable")]
    found[which[held]] = before[held]  # in order, so that the last to end stays
    return found
