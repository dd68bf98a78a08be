"""The ledger: T - T_best as disjoint causes, each with its events and stretches."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..machine import Machine
from ..table import aligned
from ..timeline import Ints, Spans, Timeline
from .causes import CAUSES
from .compute import Matmuls, compute
from .core import Core, Part, kinds, multiplied, nothing
from .memory import memory
from .rates import GapError, Rates
from .views import Difference, Fixed, Lines, Step, fixed, lines, plain, time

if TYPE_CHECKING:
    from ..count import Count  # values that are passed in
    from ..profile import Profile

ROOFS = ("compute", "memory")


@dataclass(frozen=True, eq=False)
class Events:
    """Rows that a cause is about, of the timeline's instructions and packets.

    instructions, packets           row numbers, ascending
    instruction_ids, packet_ids     the profiler's ids of the same rows
    """

    instructions: Ints
    packets: Ints
    instruction_ids: Ints
    packet_ids: Ints

    def __len__(self) -> int:
        return self.instructions.size + self.packets.size

    def __repr__(self) -> str:
        return f"{self.instructions.size:,} instructions, {self.packets.size:,} packets"


@dataclass(frozen=True, eq=False, repr=False)
class Row:
    """One cause.

    time    ns, the mean over the working cores; negative where something ran faster than counted
    share   of the gap; 0 where the gap is
    """

    cause: str
    time: float
    share: float
    _parts: tuple[Part, ...]
    _timeline: Timeline

    @property
    def what(self) -> str:
        """What the cause is."""
        return CAUSES[self.cause].what

    @property
    def try_(self) -> str:
        """What to try first."""
        return CAUSES[self.cause].try_

    @cached_property
    def events(self) -> Events:
        """The instructions and packets that it is about."""
        rows = {table: _distinct([p.owned()[0] for p in self._parts if p.table == table])
                for table in ("instructions", "packets")}
        own = self._timeline
        return Events(rows["instructions"], rows["packets"],
                      own.instructions.id[rows["instructions"]], own.packets.id[rows["packets"]])

    @cached_property
    def spans(self) -> Mapping[int, Spans]:
        """Where it happens: stretches by core."""
        cores: dict[int, Spans] = {}
        for part in self._parts:
            where = part.where()
            if len(where):
                cores[part.core] = cores.get(part.core, Spans.none()) | where
        return cores

    @property
    def stretches(self) -> list[tuple[int, int, int]]:
        """(core, start, end) in ns, in order."""
        return [(core, start, end) for core in sorted(self.spans)
                for start, end in self.spans[core]]

    def __repr__(self) -> str:
        head = f"{self.cause}: {time(self.time)}, {self.share:.1%} of the gap"
        number = sum(map(len, self.spans.values()))
        return "\n".join([head, f"  what  {self.what}", f"  try   {self.try_}",
                          f"  in    {number:,} stretch{'es' * (number != 1)}; {self.events!r}"])


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """T - T_best, cause by cause; times in ns.

    t, t_best, gap   measured (or of the window), entitled, their difference
    roof             "compute" or "memory": what T_best is the time of
    count            what T_best was made from; None: the profile's own work and traffic
    rows             every cause that took time, the largest first; they sum to the gap
    cores            the cores that worked, of which each row is the mean
    window           (t0, t1), or None for the whole run
    """

    name: str
    machine: Machine
    kind: str
    t: float
    t_best: float
    roof: str
    count: "Count | None"
    rows: tuple[Row, ...]
    cores: tuple[int, ...]
    window: tuple[int, int] | None
    _timeline: Timeline
    _parts: tuple[Part, ...]
    _busy: Callable[[], Mapping[str, float]]  # ns of each engine but the roof's

    @property
    def gap(self) -> float:
        """T - T_best."""
        return self.t - self.t_best

    def row(self, cause: str) -> Row:
        """The row of a cause, also of one that took no time."""
        if cause not in CAUSES:
            raise GapError(f"ledger: no cause {cause!r}; one of {', '.join(CAUSES)}")
        return next((row for row in self.rows if row.cause == cause),
                    Row(cause, 0.0, 0.0, (), self._timeline))

    def __getitem__(self, cause: str) -> float:
        """Its time in ns; 0 where it took none."""
        return self.row(cause).time

    def lines(self) -> Lines:
        """The gap by source line of the instructions that answer for it."""
        return lines(self._parts, self._timeline.instructions, len(self.cores), self.gap)

    def __sub__(self, other: "Ledger") -> Difference:
        """What changed from `other` to this one, cause by cause."""
        causes = [c for c in CAUSES if self[c] or other[c]]
        return Difference(other.name, self.name, (other.t, self.t), (other.t_best, self.t_best),
                          {c: (other[c], self[c]) for c in causes})

    def fix(self, *causes: str) -> Fixed:
        """T if these causes were gone, as far as the engines' own work allows."""
        rows = [self.row(cause) for cause in dict.fromkeys(causes)]
        kept = sum(self[c] for c in ("start", "end") if c not in causes)
        return fixed({row.cause: row.time for row in rows}, self.t, self.t_best, kept,
                     self._busy())

    def ladder(self) -> tuple[Step, ...]:
        """From T_best to T, one cause after the other, the largest first."""
        steps, at = [Step("T_best", self.t_best, None)], self.t_best
        for row in self.rows:
            at += row.time
            steps.append(Step(row.cause, at, row))
        return tuple(steps)

    def __repr__(self) -> str:
        where = f", {self.window[0]:,} to {self.window[1]:,} ns" if self.window else ""
        over = f", mean of cores {' and '.join(map(str, self.cores))}" * (len(self.cores) > 1)
        cells = [("time", "share", "stretches", "cause")]
        cells += [(time(row.time), f"{row.share:.1%}" if self.gap > 0 else "-",
                   f"{sum(map(len, row.spans.values())):,}", row.cause) for row in self.rows]
        cells += [(time(value), "", "", name) for name, value in (
            ("gap", self.gap), (f"T_best, {self.roof}", self.t_best), ("T", self.t))]
        return "\n".join([f"{plain(self.name)} ({self.kind}{where}) on {self.machine.name}{over}",
                          *aligned(cells, left=(3,), indent="  ")])


def ledger(profile: "Profile", machine: Machine, count: "Count | None" = None,
           window: tuple[int, int] | None = None, roof: str | None = None) -> Ledger:
    """Where T - T_best went.

    count    W and Q that T_best is about, of the window where there is one; None: the useful
             work and the traffic that the profile itself shows
    window   (t0, t1), whole ns; profile.span where that is set
    roof     "compute" or "memory"; else the one that binds: the count's, or the whole run's where
             there is no count

    Raises GapError for a profile without a timeline, a machine of another scope, or a bad window.
    """
    timeline = profile.timeline
    if timeline is None:
        raise GapError(f"{plain(profile.name)}: a summary has no timeline to explain a gap with; "
                       "view the profile with --output-format json or parquet")
    if roof not in (None, *ROOFS):
        raise GapError(f"ledger: roof {roof!r}; expected one of {', '.join(ROOFS)}, or None")
    rates, window = Rates(machine), profile.span if window is None else window
    end, working = timeline.end, timeline.working
    if not working:
        raise GapError(f"{plain(profile.name)}: no core did any work; is it the right capture?")
    t = float(profile.summary.get("total_time", end / 1e9)) * 1e9
    inside, rounding = (0, end), t - end
    if window is not None:
        inside, rounding = _cut(window, end)
        t = float(window[1] - window[0])

    kind = kinds(timeline)
    cores = [Core(timeline, kind, core, inside) for core in working]
    late = max(core.last for core in cores)
    if late > end:
        raise GapError(f"{plain(profile.name)}: work ends at {late} ns, after the timeline's end "
                       f"at {end} ns; the profile is damaged, capture it again")
    best = rates.best(count, len(cores)) if count else {}
    matmuls: list[Matmuls] = []
    if (roof or _binds(best)) != "memory":
        rates.price(multiplied(timeline, kind), count)
        matmuls = [Matmuls(core, rates) for core in cores]
    if not count:  # the roof is the whole run's, so that windows of it add up
        roof = roof or _binds({
            "compute": sum(own.all_credits for own in matmuls),
            "memory": sum(float(core.nbytes.sum()) for core in cores) / rates.bw})
        best = {"compute": sum(own.credits for own in matmuls) / len(cores),
                "memory": sum(core.moved() for core in cores) / rates.bw / len(cores)}
    roof = roof or _binds(best)
    t_best = best[roof]
    parts = _beyond(roof, cores, matmuls, rates, t_best)
    for core in cores:
        parts.append(Part("rounding", core.core, rounding, Spans.none, nothing))
        parts += memory(core, rates) if roof == "memory" else ()
    for own in matmuls if roof == "compute" else ():
        parts += compute(own, rates)
    busy = ("vector", "scalar", "gpsimd", "DMA" if roof == "compute" else "tensor")
    return Ledger(profile.name, machine, profile.kind, t, t_best, roof, count,
                  _rows(parts, len(cores), t, t_best, timeline), working, window, timeline,
                  tuple(parts), lambda: {engine: max(float(core.cut(core.busy(engine)).length)
                                                     for core in cores) for engine in busy})


def _cut(window: tuple[int, int], end: int) -> tuple[tuple[int, int], float]:
    """The window up to the end of the timeline, and what of it lies beyond."""
    t0, t1 = window
    inside = min(t0, end), min(t1, end)
    if not 0 <= t0 < t1 or any(at != int(at) for at in inside):
        raise GapError(f"ledger: window {window!r}; expected whole ns, 0 <= t0 < t1. The timeline "
                       f"ends at {end}")
    return (int(inside[0]), int(inside[1])), float(t1 - max(t0, end)) if t1 > end else 0.0


def _distinct(some: list[Ints]) -> Ints:
    """All these row numbers, ascending, each once."""
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *some]), kind="stable")
    return np.r_[rows[:1], rows[1:][rows[1:] > rows[:-1]]]


def _binds(best: Mapping[str, float]) -> str:
    """The roof with the longer time; compute where they tie or nothing is known yet."""
    return max(ROOFS, key=lambda roof: best.get(roof, 0.0))


def _beyond(roof: str, cores: list[Core], matmuls: list[Matmuls], rates: Rates,
            t_best: float) -> list[Part]:
    """What the roof's events earned, less T_best: work or bytes that were not counted."""
    if roof == "compute":
        return [own.beyond(t_best) for own in matmuls]
    return [replace(core.part("extra bytes", core.under_way, table="packets"),
                    ns=core.moved() / rates.bw - t_best) for core in cores]


def _rows(parts: Iterable[Part], cores: int, t: float, t_best: float,
          timeline: Timeline) -> tuple[Row, ...]:
    """One row a cause, of those that took time."""
    by_cause: dict[str, list[Part]] = {}
    for part in parts:
        by_cause.setdefault(part.cause, []).append(part)
    nothing, gap = 4 * math.ulp(max(t, t_best)), t - t_best  # what rounding of floats leaves
    rows = []
    for cause, some in by_cause.items():
        ns = math.fsum(part.ns for part in some) / cores
        if abs(ns) > nothing:
            rows.append(Row(cause, ns, ns / gap if gap else 0.0, tuple(some), timeline))
    return tuple(sorted(rows, key=lambda row: -row.time))
