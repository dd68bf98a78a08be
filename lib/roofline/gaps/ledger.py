"""The ledger: T - T_best as disjoint causes, each with its events and stretches."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import machine as machines
from ..count import Count, count_of
from ..machine import Machine
from ..table import aligned, printable, wrapped
from ..timeline import ENGINES, Instructions, Ints, Packets, Spans, Throttles, Timeline
from .causes import CAUSES
from .compute import Matmuls, compute, counted
from .core import Core, Part, kinds, multiplied, nothing
from .memory import memory
from .rates import GapError, Rates
from .views import Difference, Fixed, Lines, Step, lines, time

if TYPE_CHECKING:
    from ..neuroncore import Prediction  # values that are passed in
    from ..profile import Profile

ROOFS = ("compute", "memory")
CLOCK = 2  # ns: as well as a total time and a last timestamp agree
AWAITED = "wait for the other core"
UNKNOWN = {  # what a profile may not tell about its matmuls
    "throttles": "throttles are not recorded, so throttling, if any, stands under pipeline",
    "instructions.passes": "how many rows are one fp32 matmul is not recorded, so each counts as "
                           "one",
    "instructions.transpose": "which matmuls are transposes is not recorded, so each counts as "
                              "work"}


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
        positive = self.time * self.share >= 0  # the gap: share is time over it
        of = f", {self.share:.1%} of the gap" if positive else "; it ran faster, so there is no gap"
        head = f"{self.cause}: {time(self.time)}{of}"
        number = sum(map(len, self.spans.values()))
        held = "" if "instructions" in self._timeline.unknown else f"; {self.events!r}"
        return "\n".join(wrapped([
            head, f"  what  {self.what}", f"  try   {self.try_}",
            f"  in    {number:,} stretch{'es' * (number != 1)}{held}"], hang=6))


@dataclass(frozen=True, eq=False, repr=False)
class Ledger:
    """T - T_best, cause by cause; times in ns.

    t, t_best, gap   measured (or of the window), entitled, their difference
    roof             "compute" or "memory": what T_best is the time of
    rows             every cause that took time, the largest first; they sum to the gap
    cores            the cores that worked, of which each row is the mean
    window           (t0, t1), or None for the whole run
    timeline         of the whole run
    made             the format of the profile, or the buffers of a prediction
    notes            what to know before one believes it
    """

    name: str
    machine: Machine
    kind: str
    t: float
    t_best: float
    roof: str
    rows: tuple[Row, ...]
    cores: tuple[int, ...]
    window: tuple[int, int] | None
    timeline: Timeline
    made: str
    notes: tuple[str, ...]
    _parts: tuple[Part, ...]
    _cores: tuple[Core, ...]
    _counted: Callable[[], Count]

    @cached_property
    def count(self) -> Count:
        """What T_best is made from: as given, or the profile's own work and traffic.

        Of its own all bytes stand as read: packets do not say which way they go.
        """
        return self._counted()

    @property
    def gap(self) -> float:
        """T - T_best."""
        return self.t - self.t_best

    def row(self, cause: str) -> Row:
        """The row of a cause, also of one that took no time."""
        if cause not in CAUSES:
            raise GapError(f"ledger: no cause {cause!r}; one of {', '.join(CAUSES)}")
        return next((row for row in self.rows if row.cause == cause),
                    Row(cause, 0.0, 0.0, (), self.timeline))

    def __getitem__(self, cause: str) -> float:
        """Its time in ns; 0 where it took none."""
        return self.row(cause).time

    def lines(self) -> Lines:
        """The gap by source line of the instructions that answer for it."""
        return lines(self._parts, self.timeline, len(self.cores), self.gap)

    def __sub__(self, other: "Ledger") -> Difference:
        """What changed from `other` to this one, cause by cause."""
        causes = [c for c in CAUSES if self[c] or other[c]]
        before, after = (of.name + f" ({of.made})" * (self.name == other.name)
                         for of in (other, self))
        return Difference(before, after, (other.t, self.t), (other.t_best, self.t_best),
                          {c: (other[c], self[c]) for c in causes})

    def fix(self, *causes: "str | Row | Iterable[str | Row]") -> Fixed:
        """T at best if these causes were gone: as far as what must still be done allows.

        Each core saves its own part, and the last of them decides. A wait for an engine saves at
        most that engine's work in it; no engine's own work becomes less.
        """
        if not self._cores:
            raise GapError(f"{printable(self.name, 60)}: only its causes were kept, not the rows; "
                           "fix() needs a ledger of the capture itself")
        flat = [one for some in causes for one in ([some] if isinstance(some, str | Row) else some)]
        rows = [self.row(one.cause if isinstance(one, Row) else one) for one in dict.fromkeys(flat)]
        gone, limit = dict.fromkeys(self.cores, 0.0), ""
        for part in (part for row in rows for part in row._parts):
            saved, engine = part.ns, part.cause.removeprefix("wait for ")
            if part.cause != engine and engine in ENGINES:
                works = [part.where() & core.busy(engine) for core in self._cores]
                saved = min(saved, reduce(or_, works).length)
                if saved < part.ns:
                    limit = f"{engine} works for {time(saved)} of the {time(part.ns)} of its wait"
            gone[part.core] += saved * (part.cause != AWAITED)
        for part in self.row(AWAITED)._parts:  # it is as short as the others make it
            gone[part.core] += part.ns
        slowest = min(gone, key=lambda core: gone[core])
        floors = {limit: self.t - gone[slowest], "T_best": self.t_best}
        if len(gone) > 1 and min(gone.values()) < max(gone.values()):
            floors = {f"core {slowest} takes that long": floors.pop(limit), **floors}
        around = sum(self[c] for c in ("start", "end") if self.row(c) not in rows)
        for engine in ("vector", "scalar", "gpsimd", "DMA" if self.roof == "compute" else "tensor"):
            busy = max(core.cut(core.busy(engine)).length for core in self._cores)
            floors[f"{engine} is busy that long"] = busy + around
        limit = max(floors, key=lambda name: floors[name])
        return Fixed(tuple(row.cause for row in rows), self.t, min(self.t, floors[limit]), limit)

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
        return "\n".join([f"{printable(self.name, 60)} ({self.kind}{where}) on "
                          f"{self.machine.name}{over}",
                          *aligned(cells, left=(3,), indent="  "),
                          *(f"  note: {note}" for note in self.notes)])


def ledger(profile: "Profile | Prediction", machine: Machine | str, count: Any = None,
           window: tuple[int, int] | None = None, roof: str | None = None) -> Ledger:
    """Where T - T_best went.

    profile  with a timeline, or a prediction that has one
    machine  a NeuronCore or a pair of them, or its name
    count    W and Q that T_best is about, of the window where there is one: a Count, or an op or
             a run that has one; None: the useful work and the traffic that the profile shows
    window   (t0, t1), whole ns; profile.span where that is set
    roof     "compute" or "memory"; else the one that binds: the count's, or the whole run's where
             there is no count

    Raises GapError for what is none of these, a profile without a timeline or of another chip.
    """
    of, on, given = _taken(profile, machine, count)
    timeline, name = of.timeline, printable(of.name, 60)
    if timeline is None:
        raise GapError(f"{name}: a summary has no timeline to explain a gap with; view the "
                       "profile with --output-format json or parquet")
    if roof not in (None, *ROOFS):
        raise GapError(f"ledger: roof {roof!r}; expected one of {', '.join(ROOFS)}, or None")
    rates, window = Rates(on), of.span if window is None else window
    end, working = timeline.end, timeline.working
    if not working:
        raise GapError(f"{name}: no core did any work; is it the right capture?")
    total = of.summary.get("total_time")
    t = end if total is None else float(total) * 1e9
    inside, rounding = (0, end), t - end
    if window is not None:
        if of.span and round(t) == of.span[1] - of.span[0]:
            t = of.span[1]  # a part's total time is its own
        inside, rounding = _cut(window, end, max(end, math.ceil(round(t, 6))))
        t = float(window[1] - window[0])

    kind = kinds(timeline)
    cores = tuple(Core(timeline, kind, core, inside) for core in working)
    done = max(core.last for core in cores)
    if done > end:
        raise GapError(f"{name}: work ends at {done} ns, after the timeline's end at {end} ns; "
                       "the profile is damaged, capture it again")

    def priced() -> list[Matmuls]:
        rates.price(multiplied(timeline, kind), given)
        return [Matmuls(core, rates) for core in cores]

    best = rates.best(given, len(cores)) if given else {}
    matmuls = priced() if (roof or _binds(best)) != "memory" else []
    if not roof:  # without a count the whole run's, so that windows of it add up
        roof = _binds(best or {"compute": sum(own.all_credits() for own in matmuls),
                               "memory": sum(core.all_moved() for core in cores) / rates.bw})
    if roof == "compute" and not len(timeline.instructions):
        raise GapError(f"{name}: it has no instructions, so nothing tells what the Tensor Engine "
                       "did; capture them too, or take roof='memory'")
    t_best = best[roof] if best else sum(own.credits() for own in matmuls) / len(cores) if (
        roof == "compute") else sum(core.moved for core in cores) / rates.bw / len(cores)
    beyond = "end" if rounding > CLOCK else "rounding"
    parts = [Part(beyond, core.core, rounding, Spans.none, nothing) for core in cores]
    for core in cores if roof == "memory" else ():
        parts += memory(core, rates, t_best, done)
    for own in matmuls if roof == "compute" else ():
        parts += compute(own, rates, t_best, done)
    made = f"buffers {profile.buffers}" if hasattr(profile, "buffers") else of.format
    by_model = of.kind == "modelled" and roof == "memory" and t >= t_best * rates.carried
    notes = [text for text, held in (
        ("the profile has no total_time: T is its last timestamp", total is None),
        ("T_best is above T, faster than the roof allows: is the count that of this kernel and "
         "of the window, and is the clock right?", t_best > t and not by_model),
        ("T_best is above T: the model lets the DMA engines carry more than this roof's "
         "bandwidth, so a modelled time may be below it", t_best > t and by_model),
        *((text, roof == "compute" and column in timeline.unknown)
          for column, text in UNKNOWN.items())) if held]
    return Ledger(of.name, on, of.kind, t, t_best, roof,
                  _rows(parts, len(cores), t, t_best, timeline), working, window, timeline, made,
                  tuple(notes), tuple(parts), cores,
                  lambda: given or counted(cores, matmuls or priced(), rates))


def stated(profile: "Profile", machine: Machine, count: Count,
           causes: Mapping[str, tuple[float, Iterable[tuple[int, int]]]], end: int,
           core: int = 0) -> Ledger:
    """A ledger that was made earlier, of a capture whose rows are no longer there.

    profile  its totals; total_time is T
    machine  of one core
    causes   cause -> ns, and the stretches (start, end) in which it lies
    end      last timestamp of the capture, ns
    core     the one that worked

    It has no events, and cannot say what `fix` would bring.
    Raises GapError where the causes are unknown, lie outside or do not sum to T - T_best.
    """
    best, name = Rates(machine).best(count, 1), printable(profile.name, 60)
    t, roof = float(profile.summary["total_time"]) * 1e9, _binds(best)
    timeline = Timeline(Instructions.none(), Packets.none(), Throttles.none(), core + 1, end,
                        frozenset(("instructions", "packets", "throttles")))
    parts = []
    for cause, (ns, where) in causes.items():
        pairs = np.array(list(where), np.int64).reshape(-1, 2)
        if cause not in CAUSES or (pairs < 0).any() or (pairs > end).any():
            raise GapError(f"{name}: cause {printable(cause, 40)!r}: expected one that a ledger "
                           f"knows, within 0 to {end} ns")
        parts.append(Part(cause, core, float(ns), partial(Spans.of, *pairs.T), nothing))
    gap, total = t - best[roof], math.fsum(part.ns for part in parts)
    if not math.isclose(total, gap, abs_tol=1e-6):
        raise GapError(f"{name}: the causes sum to {total:,.3f} ns, and T - T_best is "
                       f"{gap:,.3f} ns; use the count that the ledger was made with")
    return Ledger(profile.name, machine, profile.kind, t, best[roof], roof,
                  _rows(parts, 1, t, best[roof], timeline), (core,), None, timeline,
                  profile.format, (), tuple(parts), (), lambda: count)


def _taken(profile: Any, machine: Any, count: Any) -> tuple["Profile", Machine, Count | None]:
    """The profile, machine and count that are meant."""
    of = getattr(profile, "profile", profile)
    on = machines.get(machine) if isinstance(machine, str) else machine
    given = None if count is None else count_of(count)
    for what, got, held, expected in (
            ("profile", profile, hasattr(of, "timeline"),
             "a Profile, as profile.read(path) gives it, or a Prediction"),
            ("machine", machine, isinstance(on, Machine), "a Machine or its name, 'trn2'"),
            ("count", count, count is None or given is not None,
             "a Count, or a run or an op that has one")):
        if not held:
            raise GapError(f"ledger: {what}: got {type(got).__name__}; expected {expected}")
    same = machines.SAME_CORE
    if of.chip and same.get(of.chip, of.chip) != same.get(on.key, on.key):
        ran = printable(of.get("instance_type") or of.chip, 60)
        raise GapError(f"{printable(of.name, 60)}: it ran on {ran}, and {on.name} is another chip; "
                       f"use machine.get({of.chip!r}, {on.scope!r})")
    return of, on, given


def _cut(window: tuple[int, int], end: int, last: int) -> tuple[tuple[int, int], float]:
    """The window up to the end of the timeline, and what of it lies beyond, up to the last ns."""
    t0, t1 = window
    if not 0 <= t0 < t1 <= last or t0 != int(t0) or t1 != int(t1):
        raise GapError(f"ledger: window {window!r}; expected whole ns, 0 <= t0 < t1 <= {last}")
    return (min(int(t0), end), min(int(t1), end)), float(max(t1 - max(t0, end), 0))


def _distinct(some: list[Ints]) -> Ints:
    """All these row numbers, ascending, each once."""
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *some]), kind="stable")
    return np.r_[rows[:1], rows[1:][rows[1:] > rows[:-1]]]


def _binds(best: Mapping[str, float]) -> str:
    """The roof with the longer time; compute where they tie or nothing is known yet."""
    return max(ROOFS, key=lambda roof: best.get(roof, 0.0))


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
