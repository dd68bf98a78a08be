"""What measurements say: knees, loops, intervals, gaps, roofs.

Question  where does this curve flatten, what does this loop reach, and why not more?
Answer    knee(), loop(), intervals(), gap(), roofs(): records whose words are made of the data
Assumes   measurements of one kernel on one chip; a flagged one is in no fit and is no roof
Ignores   how they were made (measuring), what others published (literature)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .. import gaps, units
from .. import machine as machines
from ..count import Count
from ..machine import Machine, Spec
from ..profile import Profile
from ..table import aligned, wrapped
from ..timeline import MATMUL, Spans
from . import store
from .chip import CHIPS
from .launches import partition_bytes
from .measuring import KINDS, MeasureError, Measurement, Sweep
from .plausibility import excluded, machine_of, plausible

NEAR = 0.05  # an interval that is off by no more, or by 1 ns, follows the rule
LONG = 10e-6  # s: a loop of less shows no roof
SHOWN = 3  # names of recordings of the other scope, before "and n more"
UNNAMED = ("overhead", "other", "others", "misc", "unknown", "")  # no names of a cause


# --- where a curve flattens ----------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Knee:
    """Where a curve flattens: the smallest size from which on every rate is near the best one.

    size      None: the curve does not flatten
    plateau   the best rate; None without a point
    share     what of it each size from the knee on reaches
    sizes, rates   in order of size
    """

    size: float | None
    plateau: float | None
    share: float
    sizes: tuple[float, ...]
    rates: tuple[float, ...]
    what: str = "size"
    unit: str = "B"
    rate_unit: str = "B/s"
    kind: str = ""
    notes: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule, in words."""
        return (f"the knee is the smallest {self.what} from which on every one reaches "
                f"{self.share:.0%} of the best rate")

    @property
    def verdict(self) -> str:
        """What the rule says of these points."""
        if self.plateau is None:
            return "No point to find a knee with."
        best = self.sizes[self.rates.index(self.plateau)]
        top = f"the best rate is {self._rate(self.plateau)}, at {self._size(best)}"
        if self.size is None:
            last, most = self.rates[-1], self._size(self.sizes[-1])
            if last < self.share * self.plateau:
                return (f"It does not flatten: {top}, and at {most} it is {self._rate(last)} again,"
                        f" {last / self.plateau:.1%} of that. Take it apart, or measure further.")
            return (f"It does not flatten: {top}; only the largest size, {most}, reaches "
                    f"{self.share:.0%} of it. Measure larger ones.")
        if self.size == self.sizes[0]:
            return (f"Flat from the smallest size on, {self._size(self.size)}: {top}. The knee is "
                    "there or below; measure smaller ones.")
        before = max(at for at in self.sizes if at < self.size)
        rate = min(rate for at, rate in zip(self.sizes, self.rates, strict=True) if at == before)
        return (f"The knee is at {self._size(self.size)}: {top}; {self._size(before)}, the size "
                f"before it, has {self._rate(rate)}, {rate / self.plateau:.1%} of that.")

    def _size(self, value: float) -> str:
        return units.mebi(value, 4) if self.unit == "B" else units.show(value, self.unit, 4)

    def _rate(self, value: float) -> str:
        return units.show(value, self.rate_unit, 4)

    def __repr__(self) -> str:
        said = [f"{self.kind}: " * bool(self.kind) + self.verdict, f"  rule: {self.rule}",
                f"  {len(self.sizes)} points{''.join(f'; {n}' for n in self.notes)}"]
        return "\n".join(wrapped(said))


def knee(sizes: Sequence[float], rates: Sequence[float], share: float = 0.95, *,
         what: str = "size", unit: str = "B", rate_unit: str = "B/s", kind: str = "",
         notes: Sequence[str] = ()) -> Knee:
    """The smallest size from which on every measured size reaches `share` of the best rate.

    It is none where that would be the largest size alone, or where even that falls short: then
    the curve does not flatten.

    sizes, rates   point by point, in any order
    what, unit     of the sizes, for words; rate_unit that of the rates
    kind           "measured", "modelled", ...: said in front of the verdict
    notes          what was left out, for words

    >>> knee([256, 512, 1024, 2048], [100e9, 190e9, 198e9, 200e9]).size
    512

    Raises MeasureError for lists of different lengths, or a number that is not finite and > 0.
    """
    sizes, rates = tuple(sizes), tuple(rates)
    if len(sizes) != len(rates):
        raise MeasureError(f"knee: {len(sizes)} sizes and {len(rates)} rates; give one rate a size")
    if not 0 < share <= 1:
        raise MeasureError(f"knee: share {share!r}; expected a number in (0, 1], such as 0.95")
    for value in (*sizes, *rates):
        if not (math.isfinite(value) and value > 0):
            raise MeasureError(f"knee: got {value!r}; expected finite numbers > 0. Leave out the "
                               "points that failed")
    pairs = sorted(zip(sizes, rates, strict=True))
    sizes, rates = tuple(at for at, _ in pairs), tuple(rate for _, rate in pairs)
    plateau = max(rates, default=None)
    lowest = {at: rate for at, rate in reversed(pairs)}  # of each size, the largest size first
    found = None
    for at, rate in lowest.items():
        if plateau is None or rate < share * plateau:
            break
        found = at
    found = None if found == max(sizes, default=None) else found  # alone it is no plateau
    return Knee(found, plateau, share, sizes, rates, what, unit, rate_unit, kind, tuple(notes))


# --- the rate of a loop --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Loop:
    """The matmuls of one profile between two moments, and nothing else of it.

    window    (t0, t1), ns
    work      dtype -> FLOPs of the matmuls that start in it, transposes left out
    matmuls   how many those are, as rows of the profile
    words     which stretch of the profile it is
    source    W of the source; None where there is none
    whole     from the first matmul to the last; itself where this is it
    """

    label: str
    title: str
    machine: Machine
    profile: Profile
    window: tuple[int, int]
    work: Mapping[str, int]
    matmuls: int
    words: str
    source: int | None = None
    _whole: "Loop | None" = field(default=None)

    @property
    def whole(self) -> "Loop":
        return self._whole or self

    @property
    def flags(self) -> tuple[str, ...]:
        """What is odd about the profile, in words."""
        return self.profile.flags

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return (self.window[1] - self.window[0]) / 1e9

    @property
    def flops(self) -> int:
        """W in the window."""
        return sum(self.work.values())

    @property
    def rate(self) -> float:
        """P reached: W / length, FLOP/s."""
        return self.flops / self.seconds

    @property
    def dtype(self) -> str:
        """What is multiplied; several where there are several."""
        return " ".join(self.work)

    @property
    def share(self) -> float:
        """Of spec: the sum of W_d / P_d over the length."""
        return sum(w / self.machine.peak(d) for d, w in self.work.items()) / self.seconds

    @cached_property
    def ledger(self) -> gaps.Ledger:
        """Where the rest of the window went."""
        return gaps.ledger(self.profile, self.machine, window=self.window, roof="compute")

    def __repr__(self) -> str:
        t0, t1 = self.window
        peak = " + ".join(f"{d} {self.machine.peaks[d].text} ({self.machine.peaks[d].kind})"
                          for d in self.work)
        rows = [("window", f"{t1 - t0:,} ns", f"{t0:,} to {t1:,}: {self.words}"),
                ("matmuls", f"{self.matmuls:,}", f"{self.dtype}, that start in it"),
                ("W", units.show(self.flops, "FLOP", 4), "of these, transposes left out"),
                ("P", units.show(self.rate, "FLOP/s", 4),
                 f"W / window; {self.share:.1%} of spec, {peak}")]
        lines = [*_whose(self), *aligned(rows, indent="  ")]
        if self._whole and self._whole.window != self.window:
            lines.append(f"  from the first matmul to the last: {_rate(self._whole)}")
        if self.source not in (None, self.whole.flops):
            lines.append(f"  note: the source counts {units.show(self.source or 0, 'FLOP', 4)}, "
                         f"the profile {units.show(self.whole.flops, 'FLOP', 4)}")
        return "\n".join([*lines, *_causes(self.ledger)])


def _whose(of: "Loop | Gap") -> list[str]:
    """The first lines: whose figures, of what, and what is odd about them."""
    return wrapped([of.label, f"  {of.title}", *(f"  flag: {flag}" for flag in of.flags)])


def _rate(of: Loop) -> str:
    return (f"{units.show(of.flops, 'FLOP', 4)} in {of.window[1] - of.window[0]:,} ns, "
            f"{units.show(of.rate, 'FLOP/s', 4)}, {of.share:.1%} of spec")


def _causes(ledger: gaps.Ledger) -> list[str]:
    rows = [("", "time", "of the gap", "cause")]
    rows += [("", units.show(row.time / 1e9, "s"),
              f"{row.share:.1%}" if ledger.gap > 0 else "-", row.cause)
             for row in ledger.rows]
    rows.append(("", units.show(ledger.gap / 1e9, "s"), "", "gap: their sum"))
    return [*aligned(rows, left=(0, 3)), *(f"  note: {note}" for note in ledger.notes)]


def loop(of: Measurement | Profile, chip: str | Machine | None = None) -> Loop:
    """The rate of matmuls alone, while nothing crosses HBM.

    chip   of a plain profile that does not say where it ran

    The window is the longest stretch between the first and the last matmul in which no traffic is
    under way, from the start of a matmul to the start of another. Where it holds none, it is the
    whole loop, and says so. `whole` is from the first matmul to the last one.

    Raises MeasureError without a timeline or matmuls, or where their work is unknown, and
    MachineError where the chip is.
    """
    profile = of.profile if isinstance(of, Measurement) else of
    on = of.machine if isinstance(of, Measurement) and chip is None else (
        chip if isinstance(chip, Machine) else machine_of(profile, chip))
    label = of.label if isinstance(of, Measurement) else f"{profile.kind}: " + str(
        profile.provenance.get("label") or profile.name)
    title = of.launch.title if isinstance(of, Measurement) else profile.name
    source = of.count.flops if isinstance(of, Measurement) else None
    timeline = profile.timeline
    if timeline is None:
        raise MeasureError(f"{profile.name}: the profile is a summary, and a loop is a part of a "
                           "timeline. Record it with its timeline (json or parquet)")
    own = timeline.instructions
    rows = np.flatnonzero(own.is_opcode(MATMUL) & ~own.transpose)
    if rows.size < 2:
        raise MeasureError(f"{profile.name}: {rows.size} matmul(s); a loop has two or more")
    start, end = own.start[rows], own.end[rows]
    t0, t1 = int(start[0]), int(end.max())

    def cut(since: int, until: int, words: str, whole: Loop | None = None) -> Loop:
        work = {dtype: f.once for dtype, f in profile.window(since, until).matmul_flops.items()}
        if not work or "" in work:
            raise MeasureError(f"{profile.name}: the profile does not tell what its matmuls "
                               "multiply, so there is no rate. Record it with a newer profiler")
        inside = int(((start >= since) & (start < until)).sum())
        return Loop(label, title, on, profile, (since, until), work, inside, words,
                    source, whole)

    said = "from the first matmul to the last"
    if "packets" in timeline.unknown:
        return cut(t0, t1, f"{said}; what was moved meanwhile is not in the profile")
    quiet = Spans.one(t0, t1) - timeline.moving()
    if quiet.length == t1 - t0:
        return cut(t0, t1, f"{said}; nothing was moved meanwhile")
    longest = int(np.argmax(quiet.end - quiet.start)) if len(quiet) else 0
    held = start[(start >= quiet.start[longest]) & (start < quiet.end[longest])] if len(
        quiet) else start[:0]
    if held.size < 2:
        return cut(t0, t1, f"{said}; something was moved throughout")
    return cut(int(held[0]), int(held[-1]), "the longest stretch of it in which nothing was moved",
               cut(t0, t1, said))


# --- intervals of matmuls ------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Interval:
    """One point: N columns; the median distance of matmul starts, and by the rule; cycles."""

    columns: int
    kind: str
    cycles: float
    nanoseconds: float
    rule: int
    follows: bool
    excluded: bool


@dataclass(frozen=True, repr=False)
class Intervals(Sequence[Interval]):
    """Distances of matmul starts against max(N, least interval).

    least   cycles between two matmuls at least, as documented
    """

    labels: tuple[str, ...]
    rows: tuple[Interval, ...]
    least: Spec
    clock: Spec

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.rows[at]

    @property
    def tick(self) -> float:
        """Cycles of the Tensor Engine in 1 ns, which is as well as a profile tells a start."""
        return self.clock.value / 1e9

    @property
    def verdict(self) -> str:
        """What the points say of the rule, for each kind."""
        said = []
        for kind in KINDS:
            rows = [row for row in self.rows if row.kind == kind and not row.excluded]
            if not rows:
                continue
            off = [row for row in rows if not row.follows]
            held = len(rows) - len(off)
            rule = f"max(N, {self.least.value:g})"
            text = (f"{kind}: {held} of {len(rows)} intervals are {rule} cycles, within "
                    f"{NEAR:.0%} or 1 ns")
            more = [row.cycles - row.rule for row in rows]
            fixed = max(more) - min(more) <= 2 * self.tick
            if off and fixed and len(rows) > 1:
                text += f"; all lie about {float(np.median(more)):.1f} cycles above it"
            elif off:
                text += "; not " + ", ".join(
                    f"N = {row.columns} ({row.cycles - row.rule:+.1f} cycles)" for row in off)
            said.append(text + ".")
        return " ".join(said) or "No point to hold the rule against."

    def __repr__(self) -> str:
        rows = [("N", "kind", "median interval", "cycles", f"max(N, {self.least.value:g})",
                 "off", "notes")]
        rows += [(str(row.columns), row.kind, f"{row.nanoseconds:g} ns", f"{row.cycles:.1f}",
                  str(row.rule), f"{row.cycles / row.rule - 1:+.1%}",
                  "flagged, left out" if row.excluded else "") for row in self.rows]
        about = "; ".join(filter(None, (self.least.source, self.least.holds)))
        said = [self.verdict, f"  {self.least.text} ({self.least.kind}: {about}); the clock is "
                f"{self.clock.text} ({self.clock.kind})"]
        return "\n".join([*self.labels, *aligned(rows, left=(1, 6)), *wrapped(said)])


def intervals(of: Sweep | Sequence[Measurement]) -> Intervals:
    """Of each measurement the median distance of two matmul starts, in cycles, against
    max(N, the least interval that is documented).

    Of the later half of its matmuls: the first ones may be throttled.

    Raises MeasureError for no measurement, or one without a timeline or two matmuls.
    """
    points = tuple(of)
    if not points:
        raise MeasureError("intervals: no measurement; sweep moving_sweep over N first")
    core = machines.get(points[0].chip, "core")
    clock, least = core.facts["tensor_clock"], least_interval(core)
    rows = []
    for one in points:
        timeline = one.profile.timeline
        if timeline is None:
            raise MeasureError(f"{one.launch.title}: the profile is a summary, without the "
                               "starts of its matmuls. Record it with its timeline")
        own = timeline.instructions
        which = own.is_opcode(MATMUL) & ~own.transpose & (own.core == min(timeline.working or (0,)))
        starts, columns = own.start[which], own.moving[which]
        if starts.size < 2:
            raise MeasureError(f"{one.launch.title}: {starts.size} matmul(s); an interval lies "
                               "between two. Take n = 16 or more")
        n = int(np.median(columns)) or one.launch.shapes[-1][0][-1]
        later = np.diff(starts)[(starts.size - 1) // 2:]
        ns = float(np.median(later))
        cycles, rule = ns * clock.value / 1e9, max(n, int(least.value))
        follows = abs(cycles - rule) <= max(NEAR * rule, clock.value / 1e9)
        rows.append(Interval(n, one.kind, cycles, ns, rule, follows, one.excluded))
    labels = dict.fromkeys(one.label for one in sorted(points, key=lambda p: KINDS.index(p.kind)))
    return Intervals(tuple(labels), tuple(sorted(rows, key=lambda r: (r.columns, r.kind))), least,
                     clock)


def least_interval(core: Machine) -> Spec:
    """Cycles between two matmuls at least: the core's own figure or, as an assumption, an older
    core's.
    """
    older = machines.get("trn1", "core")
    name = "matmul_min_initiation_interval"
    return core.facts.get(name) or replace(older.facts[name], kind="assumed", holds=(
        f"documented for {older.name}, not restated for this core"))


# --- the gap to spec -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Gap:
    """From what the roof allows to what was reached, cause by cause.

    amount   bytes, or FLOPs, that the rate is of
    unit     "B/s" or "FLOP/s"
    ledger   the causes, which sum to T - T_best exactly; only gaps.CAUSES are causes
    flags    what is odd about the profile, in words

    What a cause costs as a rate is seen in `without`: the rate had it alone taken no time.
    """

    label: str
    title: str
    amount: float
    unit: str
    ledger: gaps.Ledger
    flags: tuple[str, ...] = ()

    @property
    def spec(self) -> float:
        """The rate at T_best."""
        return self.amount / self.ledger.t_best * 1e9

    @property
    def reached(self) -> float:
        """The rate at T."""
        return self.amount / self.ledger.t * 1e9

    @property
    def rows(self) -> tuple[gaps.Row, ...]:
        """The ledger's rows, the largest first."""
        return self.ledger.rows

    def without(self, cause: str) -> float:
        """The rate if this cause alone had taken no time."""
        return self.amount / (self.ledger.t - self[cause]) * 1e9

    def __getitem__(self, cause: str) -> float:
        """Its ns. Raises MeasureError for what names no cause."""
        return self.named(cause).time

    def named(self, cause: str) -> gaps.Row:
        """The row of a cause: what it is, what to try, where it happened.

        Raises MeasureError for "overhead", "other" and everything else that is no cause.
        """
        if cause not in gaps.CAUSES:
            why = ("that names nothing that could be changed" if
                   str(cause).strip().lower() in UNNAMED else "the ledger knows no such cause")
            there = ", ".join(row.cause for row in self.rows) or "none"
            raise MeasureError(f"gap: {cause!r}: {why}. Here are: {there}")
        return self.ledger.row(cause)

    def __repr__(self) -> str:
        of = self.ledger
        rows = [("", "time", "of the gap", "rate without it")]
        rows += [(row.cause, units.show(row.time / 1e9, "s"),
                  f"{row.share:.1%}" if of.gap > 0 else "-",
                  units.show(self.without(row.cause), self.unit, 4)) for row in self.rows]
        rows += [("gap: their sum", units.show(of.gap / 1e9, "s"), "", "")]
        table = aligned(rows, left=(0,), indent="  ")
        return "\n".join([
            *_whose(self), f"  spec: {units.show(self.spec, self.unit, 4)}, T_best "
            f"{units.show(of.t_best / 1e9, 's', 4)} of {of.machine.name}",
            *table, f"  reached: {units.show(self.reached, self.unit, 4)} "
            f"({self.reached / self.spec:.1%} of spec), T {units.show(of.t / 1e9, 's', 4)}",
            *(f"  note: {note}" for note in of.notes)])


def gap(of: Measurement | Loop) -> Gap:
    """The causes between spec and what was reached.

    A measurement without matmuls is set against the memory roof, over its whole time; a loop, or
    a measurement that computes for longer than it moves, against the Tensor Engine.
    """
    if isinstance(of, Loop):
        return Gap(of.label, f"{of.title}, {of.words}", of.flops, "FLOP/s", of.ledger, of.flags)
    count: Count = of.count
    times = of.machine.entitle(count).times
    memory = not count.flops or times[of.machine.slow_link] > times["compute"]
    amount, unit, roof = (count.hbm_bytes, "B/s", "memory") if memory else (
        count.flops, "FLOP/s", "compute")
    return Gap(of.label, of.launch.title, amount, unit,
               gaps.ledger(of.profile, of.machine, count, roof=roof), of.flags)


# --- measured roofs ------------------------------------------------------------------------------


class Roofs(dict[str, Spec]):
    """Fact of a sheet -> the roof that was measured; empty where nothing was.

    chip, scope   of the sheet that they belong on
    left_out      texts: recordings of it that are no roof, and why
    elsewhere     names of the chip's recordings of the other scope
    """

    def __init__(self, chip: str, found: Mapping[str, Spec], left_out: Sequence[str] = (),
                 scope: str = "core", elsewhere: Sequence[str] = ()) -> None:
        super().__init__(found)
        self.chip, self.scope = chip, scope
        self.left_out, self.elsewhere = tuple(left_out), tuple(elsewhere)

    def __repr__(self) -> str:
        lines = [line for fact, spec in self.items() for line in (
            f"{fact}: {spec.text} ({spec.kind})", f"    {spec.holds}", f"    {spec.source}")]
        lines += [f"no measured roof of {self.chip}{', LNC 2' * (self.scope == 'lnc2')}: no "
                  f"recording to take one from; run Day 4 on {self.chip} to make some"] * (not self)
        lines += [f"  left out: {text}" for text in self.left_out]
        lnc, scope = (1, "core") if self.scope == "lnc2" else (2, "lnc2")
        if self.elsewhere:
            more = len(self.elsewhere) - SHOWN
            names = ", ".join(self.elsewhere[:SHOWN]) + f" and {more} more" * (more > 0)
            lines.append(f"  of LNC {lnc}, so not here: {names}; see roofs({self.chip!r}, "
                         f"{scope!r})")
        return "\n".join(wrapped(lines))


def roofs(chip: str, scope: str = "core") -> Roofs:
    """The best that recordings of this chip reach, for sheet.of(chip, measured=...).

    scope   "core", or "lnc2" where recordings are of LNC=2

    HBM and DMA, both of which each byte crosses: the bytes of a copy over the profiler's total. A
    dtype: the rate of a loop, see `loop`, of LONG and more. Left out, and told: flagged recordings,
    those of a core with neighbours, what is no copy and no loop, copies whose bytes are in doubt,
    windows that are faster than possible, folders that hold no good recording.
    """
    on = machines.get(chip, scope)
    there = store.recordings(chip)
    others = tuple(f"{other}-" for other in CHIPS if other != chip)
    left_out = [bad.why for bad in there.problems if not bad.name.startswith(others)]
    elsewhere: list[str] = []
    copies: list[_Copy] = []
    loops: list[tuple[str, Spec]] = []
    for one in there:
        if one.provenance["lnc"] != (2 if scope == "lnc2" else 1):
            elsewhere.append(one.name)
            continue
        try:
            if why := _no_roof(one):
                raise MeasureError(why)
            if one.profile.matmul_flops or one.profile.get("hardware_flops"):
                loops.append(_looped(one, on))
            else:
                copies.append(_copied(one))
        except (ValueError, LookupError, store.RecordingError) as error:  # what is needed is amiss
            left_out.append(f"{one.name}: {error}")
    best = dict(sorted(loops, key=lambda found: found[1].value))  # the last of a dtype stays
    if copies:
        best = {**dict.fromkeys(("HBM", "DMA"), _plateau(copies)), **best}
    return Roofs(chip, best, left_out, scope, elsewhere)


def _no_roof(one: store.Recording) -> str:
    """Why a recording's rates are no roof; "" where they may be."""
    if one.excluded:
        return "flagged: " + ", ".join(flag.name for flag in one.flags if flag.excluded)
    return "it had neighbours" if one.provenance.get("alongside") else ""


def _spec(of: store.Recording, rate: float, unit: str, holds: Iterable[str]) -> Spec:
    odd = [f"flagged: {', '.join(flag.name for flag in of.flags)}"] * bool(of.flags)
    return Spec(rate, unit, of.label, "measured", "; ".join([*holds, *odd]))


def _looped(one: store.Recording, on: Machine) -> tuple[str, Spec]:
    """A dtype and the rate of a recording's loop. Raises MeasureError where that is no roof."""
    found = loop(one.profile, on)
    if len(found.work) != 1 or found.dtype not in on.peaks:
        raise MeasureError(f"its loop multiplies {found.dtype}; a roof is of one dtype")
    if found.seconds < LONG:
        raise MeasureError(f"its loop lasts {units.show(found.seconds, 's')}; a roof is of "
                           f"{units.show(LONG, 's')} and more")
    flags = plausible(one.profile.window(*found.window), Count(dict(found.work)), on)
    if excluded(flags):
        raise MeasureError("; ".join(map(str, flags)))
    holds = f"{one.kernel}, {found.words}, {units.show(found.seconds, 's')}"
    return found.dtype, _spec(one, found.rate, "FLOP/s", [holds, *map(str, flags)])


class _Copy(NamedTuple):
    """A recording that moved `nbytes` in all, at this rate (B/s); `size` bytes a partition or 0."""

    recording: store.Recording
    nbytes: float
    rate: float
    size: int


def _copied(one: store.Recording) -> _Copy:
    """A recording as a copy, by the profiler's count of bytes.

    Raises MeasureError where that is another one than the source's, whose rate a table shows, or
    where it writes another amount than it reads.
    """
    for flag in one.flags:
        if flag.name == "bytes":
            raise MeasureError(f"{flag}. A roof is of bytes that both agree on")
    get = one.profile.needs
    read, written = get("hbm_read_bytes"), get("hbm_write_bytes")
    if not math.isclose(read, written, rel_tol=NEAR):
        raise MeasureError(f"it reads {units.show(read, 'B')} and writes "
                           f"{units.show(written, 'B')}; a copy does as much of both")
    kinds, given = one.provenance["dtypes"], one.provenance["parameters"]
    size = partition_bytes(given, kinds[0]) if kinds else None
    return _Copy(one, read + written, (read + written) / get("total_time"), size or 0)


def _plateau(copies: Sequence[_Copy]) -> Spec:
    """The best of them, and whether others of the same sweep show that it is flat there."""
    best = max(copies, key=lambda copy: copy.rate)
    same = [copy for copy in copies if copy.size and
            _swept(copy.recording) == _swept(best.recording)]
    found = knee([copy.size for copy in same], [copy.rate for copy in same], kind="measured")
    holds = [f"{best.recording.kernel}, {units.show(best.nbytes, 'B', 4)} by the profiler's "
             "count over its total"]
    holds += [f"{units.mebi(best.size)} a partition"] * bool(best.size)
    sizes = len({copy.size for copy in same})
    flat = (f"flat from {units.mebi(found.size)} on" if found.size else
            "a lower bound: no other size recorded to show that it is flat" if sizes < 2 else
            f"a lower bound: not flat in {sizes} sizes")
    return _spec(best.recording, best.rate, "B/s", [", ".join(holds), flat])


def _swept(one: store.Recording) -> tuple[Any, ...]:
    """What recordings of one sweep over `elements` have in common."""
    said = one.provenance
    others = {k: v for k, v in said["parameters"].items() if k != "elements"}
    return (said["kernel_sha256"], one.kernel, repr(said["shapes"]), repr(said["dtypes"]),
            repr(sorted(others.items())))
