"""How the profiler gets its summary's figures from its counters, and whether they come out.

Question  does this file's AI, ratio, MFU, HFU, MBU follow from its own FLOPs, bytes and time?
Answer    one function a formula; check(profile) -> Check, a Figure a row: printed, recomputed,
          agrees, reasons; rows(profile): the summary against the rows of the timeline
Assumes   the formulas of profiler 2.26 to explorer 2.32; a "percent" is a fraction 0..1
Ignores   whether a formula is fair: the ratio is one core's peak over a stack that two cores share

Symbols: F FLOPs without transposes, B bytes at HBM, T total_time, P1 peak of one physical core,
BW hbm_ddr_bandwidth (one HBM stack), c physical cores of the logical core.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from .. import machine as machines
from .. import units
from ..table import aligned
from ..timeline import Spans

if TYPE_CHECKING:
    from .record import Profile, Value

# --- the formulas ---------------------------------------------------------------------------------


def peak(clock: float, rows: float, columns: float) -> float:
    """P1 = 2 x rows x columns x clock of the Tensor Engine; FLOP/s, bf16.

    >>> peak(2.8e9, 128, 128), peak(2.4e9, 128, 128)
    (91750400000000.0, 78643200000000.0)
    """
    return 2 * rows * columns * clock


def intensity(flops: float, nbytes: float) -> float:
    """mm_arithmetic_intensity = F / B; inf when nothing crosses HBM, 0 for no work."""
    if nbytes:
        return flops / nbytes
    return math.inf if flops else 0.0


def ratio(p1: float, bw: float) -> float:
    """peak_flops_bandwidth_ratio = P1 / BW; it leaves c out.

    >>> ratio(78.6432e12, 716e9)
    109.83687150837989
    """
    return p1 / bw


def compute_utilisation(flops: float, cores: int, p1: float, time: float) -> float:
    """hfu (all FLOPs), mfu_inst (F), mfu (model_flops where known) = FLOPs / (c P1 T)."""
    return flops / (cores * p1 * time)


def bandwidth_utilisation(nbytes: float, time: float, bw: float) -> float:
    """mbu (B) and mbu_min_read (bytes of inputs and weights) = bytes / (T BW)."""
    return nbytes / (time * bw)


def max_achievable(intensity: float, cores: int, p1: float, bw: float) -> float:
    """mfu_max_achievable = min(1, AI x BW / (c P1)); here c does count."""
    return min(1.0, intensity * bw / (cores * p1))


def cycles(time: float, clock: float) -> int:
    """neuroncore_cycle_count = T x core clock, cut to whole cycles."""
    return math.floor(time * clock)


# --- what goes in ---------------------------------------------------------------------------------


NEURON = tuple(key for key in machines.ALL
               if "cores_per_hbm_stack" in machines.get(key, "device").facts)
HALF_BIT = 2.0**-24  # relative: half a step of a number of 32 bits


def number(of: "Profile | Mapping[str, Value]", name: str) -> float | None:
    """A number of a profile, or of its summary; None where it is absent, text, or not finite."""
    value = of.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 else None


def flops(profile: "Profile", adjusted: bool = False) -> float | None:
    """F = hardware_flops - transpose_flops; None where either is unknown.

    The profiler of 2025 leaves out FLOPs that are 0. So what is absent is 0 where the intensity
    that it prints says so: all of it at 0, transposes at hardware_flops / B. Else the rows say how
    many are transposes, if they account for all of hardware_flops.
    """
    kind = "adjusted_" * adjusted
    total = number(profile, f"{kind}hardware_flops")
    printed, nbytes = number(profile, "mm_arithmetic_intensity"), hbm_bytes(profile)
    if total is None:
        return 0 if printed == 0 and not adjusted else None
    moved = number(profile, f"{kind}transpose_flops")
    if moved is None and adjusted:
        moved = 0 if flops(profile) == number(profile, "hardware_flops") else None
    elif moved is None:
        alone = printed and nbytes and math.isclose(printed, total / nbytes, rel_tol=HALF_BIT)
        moved = 0 if alone or not total else profile.transposed
    return None if moved is None else total - moved


def hbm_bytes(profile: "Profile") -> float | None:
    """B = hbm_read_bytes + hbm_write_bytes; None where either is unknown."""
    read, written = (number(profile, f"hbm_{way}_bytes") for way in ("read", "write"))
    return None if read is None or written is None else read + written


def version(profile: "Profile") -> tuple[int, int] | None:
    """(2, 28) of the profiler that wrote it; None where the file does not say."""
    said = profile.get("explorer_version") or profile.get("profiler_version") or ""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", str(said))
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True)
class Constants:
    """The profiler's hardware figures; None where neither the file nor machine has one.

    p1, bw, clock   FLOP/s of one core, B/s of one HBM stack, Hz of cycle counts
    cores           c, or both possible ones where nothing says which, the likelier first
    source          "the file", or what stood in for it
    """

    p1: float | None
    bw: float | None
    clock: float | None
    cores: tuple[int, ...]
    source: str

    @classmethod
    def of(cls, profile: "Profile", machine: str | machines.Machine | None = None,
           cores: int | None = None) -> "Constants":
        """From metadata (clocks in GHz); what it lacks, from the machine of its instance_type.

        machine, cores   what stands in where the file says neither chip nor cores
        """
        given = [number(profile, f"tensor_engine_{name}")
                 for name in ("clock_freq", "num_rows", "num_cols")]
        clock, rows, columns = given
        p1 = None if clock is None or rows is None or columns is None else (
            peak(clock * 1e9, rows, columns))
        bw = number(profile, "hbm_ddr_bandwidth")
        ghz = number(profile, "neuroncore_clock_freq")
        base = None if ghz is None else ghz * 1e9
        told = "num_physical_cores" in profile.metadata
        both = (profile.cores,) if told else (cores,) if cores else (
            profile.cores, 3 - profile.cores)
        by_hand = ", c as given" * bool(cores and not told)
        own = profile.chip in machines.ALL
        key = profile.chip if own else (
            machine.key if isinstance(machine, machines.Machine) else machine)
        if None not in (p1, bw, base) or not key:
            return cls(p1 or None, bw or None, base or None, both, f"the file{by_hand}")
        core, device = machines.get(key), machines.get(key, "device")
        stack = device.facts.get("hbm_stack_bandwidth")
        clocks = core.facts.get("base_clock")
        return cls(p1 or core.peak("bf16"),
                   bw or (stack.value if stack else
                          device.bw() / device.facts["hbm_stacks"].value),
                   base or (clocks.value if clocks else None),
                   both if device.facts["cores_per_hbm_stack"].value > 1 else (1,),
                   f"machine {key}{'' if own else ', as given'}, where the file says nothing"
                   f"{by_hand}")


def throttle_limit(profile: "Profile", core: int) -> float | None:
    """Most that throttling left this core's Tensor Engine, a share of cycles; None without rows.

    From the throttle rows, over the span or the whole timeline: the lowest k/n of the rows that
    cover a moment, and all of it where none does. An upper limit: the start-up, before the first
    row, is slow too, and a ledger (gaps) charges it.
    """
    if profile.timeline is None or "throttles" in profile.timeline.unknown:
        return None
    own = profile.timeline.throttles
    start, end = profile.span or (0, profile.timeline.end)
    mine = (own.core == core) & (own.k < own.n)
    own, window = own.take(mine), Spans.one(start, end)
    left = own.k / own.n
    lost, taken = 0.0, Spans.none()
    for limit in np.unique(left):
        rows = left == limit
        spans = (Spans.of(own.start[rows], own.end[rows]) & window) - taken
        lost += (1 - limit) * spans.length
        taken = taken | spans
    return 1 - lost / window.length if window.length else None


# --- the check ------------------------------------------------------------------------------------

DIGITS = "to all digits"
SINGLE = "to the precision of a 32-bit number"
PRINTED = "as far as it is printed"
ADJUSTED = "with adjusted FLOPs, as explorer counts from about 2.30"
MODEL = "with model_flops, from HLO"
CORES = {1: "with c = 1, which the file does not say", 2: "with c = 2, which the file does not say"}
SLOWER = "by the slower core's cycles, not total_time"
NO_WORK = "FLOPs are left out, and the printed figure is 0"
NO_TRANSPOSES = "transposes are left out, and as 0 it comes out"
NO_HLO = "0 without HLO statistics, in versions that do not fall back on instructions"
LIMITS = "sum of active share x limit; time without an event counts as 0"
UNLIKE = "not comparable between versions"
OURS = "ours: an upper limit, as time without a throttle row counts as free, start-up too"
NEEDS_ADJUSTED = "needs adjusted FLOPs, which the file does not print: 1/4 to 4 times as many"
HUNDRED = "printed as 0..100"
ROWS = "sum of the rows of the timeline"
STRETCHES = "rows of the timeline, to 2 ns for each stretch of time"
UNLIKE_ROWS = "rows of the timeline are missing, doubled or of another run"
CIRCULAR = "cannot fail: FLOPs are left out, and 0 by this very figure"
CAPPED = "cannot fail: more than 1 is printed as 1"
NOT_PRINTED = "not printed"
ABSENT = "an input is absent"
OPEN = "unexplained"
REASONS = (DIGITS, SINGLE, PRINTED, ADJUSTED, MODEL, *CORES.values(), SLOWER, NO_WORK,
           NO_TRANSPOSES, NO_HLO, LIMITS, UNLIKE, OURS, NEEDS_ADJUSTED, HUNDRED, ROWS, STRETCHES,
           UNLIKE_ROWS, CIRCULAR, CAPPED, NOT_PRINTED, ABSENT, OPEN)
ADJUSTS = (2, 30)    # from here on the percentages count adjusted FLOPs
FALLS_BACK = (2, 28)  # from here on mfu_estimated is mfu_inst where there is no model_flops


class Named(Protocol):
    """A row of a table, by its name."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


def named(rows: Sequence[Item], name: str) -> Item:
    """The row of this name. Raises ProfileError, which lists the names there are."""
    for row in rows:
        if row.name == name:
            return row
    from .record import ProfileError  # which imports this module

    raise ProfileError(f"no row {str(name)[:60]!r}; there are {', '.join(r.name for r in rows)}")


@dataclass(frozen=True)
class Figure:
    """One figure of the summary: None is unknown; agrees is None where nothing could differ.

    reasons   each one of REASONS
    """

    name: str
    printed: "Value | None"
    recomputed: float | None
    agrees: bool | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Check:
    """The profiler's figures against its own formulas."""

    rows: tuple[Figure, ...]
    constants: Constants

    def __getitem__(self, name: str) -> Figure:
        return named(self.rows, name)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self.rows)

    @property
    def compared(self) -> int:
        """How many figures could have differed."""
        return sum(row.agrees is not None for row in self.rows)

    @property
    def agree(self) -> bool | None:
        """Whether no figure that could be compared differs; None if none could."""
        return all(row.agrees is not False for row in self.rows) if self.compared else None

    def __repr__(self) -> str:
        words = {True: "yes", False: "no", None: ""}
        cells = [("figure", "printed", "recomputed", "agree", "reason")]
        cells += [(row.name, _shown(row.printed), _shown(row.recomputed), words[row.agrees],
                   "; ".join(row.reasons)) for row in self.rows]
        of = self.constants
        known = [f"{name} {units.show(value, unit, 6)}" for name, value, unit in (
            ("P1", of.p1, "FLOP/s"), ("BW", of.bw, "B/s"), ("clock", of.clock, "Hz"))
            if value is not None]
        cores = " or ".join(map(str, of.cores))
        agreed = sum(row.agrees is True for row in self.rows)
        return "\n".join([*aligned(cells, left=(0, 3, 4)),
                          f"{agreed} of {self.compared} figures that could differ agree",
                          f"{', '.join([*known, f'c {cores}'])}; from {of.source}"])


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else "no number"
    whole = isinstance(value, int) or not math.isfinite(value)
    return f"{value:,}" if whole else units.significant(value, 6)


def check(profile: "Profile", machine: str | machines.Machine | None = None,
          cores: int | None = None) -> Check:
    """Every figure of the summary that a formula gives, recomputed.

    Where versions differ each way is tried, that of the file's version first; the one that comes
    out is named. So is c, for all figures at once, where the file does not say it. What is not
    printed is still recomputed. Then what the rows of the timeline say: `rows`.

    machine, cores   the chip ("trn2") and physical cores, where the file says neither
    Raises ProfileError for a machine that is no Neuron chip, or other cores than 1 and 2.
    """
    chip = getattr(machine, "key", machine)
    if chip not in (None, *NEURON) or cores not in (None, 1, 2):
        from .record import ProfileError  # which imports this module

        raise ProfileError(f"check: machine={str(chip)[:40]!r}, cores={str(cores)[:40]}: expected "
                           f"one of {', '.join(NEURON)}, and 1 or 2 physical cores")
    of = Constants.of(profile, machine, cores)
    tried = {c: _figures(profile, of, c) for c in of.cores}
    best = max(tried, key=lambda c: sum(row.agrees is True for row in tried[c]))
    figures = tried.pop(best)
    for other in tried.values():  # what comes out with another c as well does not show c
        figures = [row if not row.agrees or row.recomputed == twin.recomputed else
                   replace(row, reasons=(*row.reasons, CORES[best]))
                   for row, twin in zip(figures, other, strict=True)]
    return Check((*figures, *_limits(profile), *rows(profile)), of)


Way = tuple[float | None, tuple[str, ...]]  # what a formula gives, and on what grounds


def _figures(profile: "Profile", of: Constants, c: int) -> list[Figure]:
    """The figures that a formula gives, for c physical cores."""
    total, raw, adjusted = (number(profile, "hardware_flops"), flops(profile),
                            flops(profile, adjusted=True))
    nbytes, time = hbm_bytes(profile), number(profile, "total_time")
    count, model = number(profile, "neuroncore_cycle_count"), number(profile, "model_flops")
    wrote = version(profile) or (0, 0)
    new = wrote >= ADJUSTS or adjusted is not None
    clocked = _made(cycles, time, of.clock)
    slower = c == 2 and _slower(profile, count, clocked)
    told = number(profile, "transpose_flops") is not None or profile.transposed is not None
    none = () if told or not total else (NO_TRANSPOSES,)
    times: list[Way] = [(time, ())]
    if slower and count and of.clock:
        times.append((count / of.clock, (SLOWER,)))

    def used(*amounts: Way) -> list[Way]:
        return [(_made(compute_utilisation, n, c, of.p1, t), (*why, *late))
                for t, late in times for n, why in amounts]

    def moved(amount: float | None) -> list[Way]:
        return [(_made(bandwidth_utilisation, amount, t, of.bw), late) for t, late in times]

    def either(ours: float | None, theirs: float | None, *why: str) -> list[Way]:
        """Raw and adjusted FLOPs, those of the file's version first."""
        if total is None and raw == 0:
            return [(0, (NO_WORK,))]
        both: list[Way] = [(ours, why), (theirs, (ADJUSTED,))]
        return both[::-1] if new else both

    def unadjusted(printed: float, value: float) -> str:
        fits = new and adjusted is None and value / 4 <= printed <= value * 4
        return NEEDS_ADJUSTED if fits else ""

    def without_model(printed: float, value: float) -> str:
        old = wrote < FALLS_BACK and printed == model == 0
        return NO_HLO if old else unadjusted(printed, value)

    work = either(raw, adjusted, *none)
    useful: list[Way] = [(model, (MODEL,))] if model else []
    ai, of_model = ([(_made(intensity, n, nbytes), why) for n, why in ways]
                    for ways in (either(raw, None, *none), useful))
    rows = [
        _figure(profile, "mm_arithmetic_intensity", ai),
        _figure(profile, "peak_flops_bandwidth_ratio", [(_made(ratio, of.p1, of.bw), ())]),
        _figure(profile, "hfu_estimated_percent", used(*either(
            total, number(profile, "adjusted_hardware_flops"))), unadjusted),
        _figure(profile, "mfu_inst_estimated_percent", used(*work), unadjusted),
        _figure(profile, "mfu_estimated_percent", used(*useful, *work), without_model),
        _figure(profile, "mbu_estimated_percent", moved(nbytes)),
        _figure(profile, "mbu_min_read_util_percent",
                moved(number(profile, "inputs_and_weights_size_bytes"))),
        _figure(profile, "mfu_max_achievable_estimated_percent", [
            (_made(max_achievable, i, c, of.p1, of.bw), why) for i, why in [*of_model, *ai]]),
        _figure(profile, "neuroncore_cycle_count", [(clocked, ())],
                lambda printed, value: SLOWER if slower else "")]
    return [_unfailing(row) for row in rows]


def _made(formula: Callable[..., float], *inputs: float | None) -> float | None:
    """What a formula gives; None where an input is unknown or of no use, such as no time at all."""
    if None in inputs:
        return None
    try:
        return formula(*inputs)
    except (ZeroDivisionError, OverflowError):
        return None


EXCUSED = {SLOWER: True, NO_HLO: None, NEEDS_ADJUSTED: None}  # what then becomes of agrees


def _figure(profile: "Profile", name: str, ways: Sequence[Way],
            excuse: Callable[[float, float], str] = lambda printed, value: "") -> Figure:
    """The first way that comes out; else the first that could be computed, and if it is excused.

    excuse   printed, recomputed -> a key of EXCUSED, or ""
    """
    printed, figure = profile.get(name), number(profile, name)
    known = [(value, why) for value, why in ways if value is not None]
    if printed is None:
        return Figure(name, None, known[0][0] if known else None, None,
                      (NOT_PRINTED,) if known else (NOT_PRINTED, ABSENT))
    if not known:
        return Figure(name, printed, None, None, (ABSENT,))
    first = known[0][0]
    if figure is None:
        return Figure(name, printed, first, False, (OPEN,))
    for value, why in known:
        if how := _agrees(figure, value, SLOWER in why, profile):
            return Figure(name, printed, value, True, (how, *why) if how not in why else why)
    if name.endswith("_percent") and any(
            _agrees(figure, 100 * value, False, profile) for value, _ in known if value):
        return Figure(name, printed, first, False, (HUNDRED,))
    if why_not := excuse(figure, first):
        return Figure(name, printed, first, EXCUSED[why_not], (why_not,))
    return Figure(name, printed, first, False, (OPEN,))


def _unfailing(row: Figure) -> Figure:
    """The same, but no agreement where nothing else could have come out."""
    if row.agrees and row.name == "mm_arithmetic_intensity" and NO_WORK in row.reasons:
        return replace(row, agrees=None, reasons=(CIRCULAR,))
    if row.agrees and row.name.startswith("mfu_max") and row.recomputed == 1:
        return replace(row, agrees=None, reasons=(CAPPED,))
    return row


def _agrees(printed: float, value: float, by_cycles: bool, profile: "Profile") -> str:
    """How well it comes out, one of REASONS; "" when it does not."""
    if by_cycles:  # a time in whole cycles is good to one of them
        count = number(profile, "neuroncore_cycle_count") or math.inf
        return SLOWER if math.isclose(printed, value, rel_tol=1 / count) else ""
    if math.isclose(printed, value, rel_tol=1e-14):
        return DIGITS
    if math.isclose(printed, value, rel_tol=HALF_BIT):
        return SINGLE
    digits, _, power = f"{printed!r}".lower().partition("e")
    decimals = len(digits.partition(".")[2]) - int(power or 0)
    long = len(digits.replace(".", "").strip("-0")) >= 3
    return PRINTED if long and abs(printed - value) <= 0.5 * 10.0**-decimals else ""


def _slower(profile: "Profile", printed: float | None, value: float | None) -> bool:
    """Whether cycles may be those of the slower of two cores: up to 1 % more than total_time's.

    A timeline must show both at work.
    """
    alone = profile.timeline is not None and len(profile.timeline.working) != 2
    return not alone and printed is not None and value is not None and (
        value < printed <= 1.01 * value)


def rows(profile: "Profile") -> list[Figure]:
    """Counters of the summary against the sums and stretches of the timeline's rows.

    Sums must be equal; times may differ by 2 ns for each stretch, as rows are cut to whole ns, and
    both the instructions and the profiler's own active times must come out. Instruction counts are
    known to be of rows in 2.28 alone: elsewhere they prove nothing when they differ.
    [] without a timeline, and for a part of a profile, whose summary is made of the rows.
    """
    of = profile.timeline
    if of is None or profile.span is not None:
        return []
    found: list[Figure] = []
    for name, value in profile.sums().items():
        printed = number(profile, name)
        if printed is not None and not name.startswith("dma_"):
            agrees = printed == value or (
                None if name.endswith("_count") and version(profile) != (2, 28) else False)
            why = {True: ROWS, False: UNLIKE_ROWS, None: UNLIKE}[agrees]
            found.append(Figure(name, printed, value, agrees, (why,)))
    ways = [replace(profile, timeline=replace(of, active=active)).active()
            for active in ([of.active, {}] if of.active else [{}])]
    for name in ways[0]:
        if (printed := number(profile, f"{name}_active_time")) is not None:
            both = [way[name] for way in ways]
            off = [abs(printed * 1e9 - spans.length) - 2 * len(spans) for spans in both]
            worst = both[off.index(max(off))]
            agrees = max(off) <= 1e-3  # of a ns: seconds are no whole ns
            found.append(Figure(f"{name}_active_time", printed, worst.length / 1e9, agrees,
                                (STRETCHES if agrees else UNLIKE_ROWS,)))
    if ids := len(of.instructions):
        alone = ids - int((np.diff(np.sort(of.instructions.id)) == 0).sum())
        found.append(Figure("instruction ids", ids, alone, ids == alone,
                            (ROWS if ids == alone else UNLIKE_ROWS,)))
    return found


def _limits(profile: "Profile") -> list[Figure]:
    """Throttle limits: the printed ones by the rule of 2.28 alone, then our own."""
    rows = []
    for name in sorted(n for n in profile.summary if n.startswith("throttle_avg_util_limit")):
        of = name.removeprefix("throttle_avg_util_limit")  # "_nc0_percent"
        shares, limits = ([number(profile, f"throttle_activity_{i}_{what}{of}") for i in (0, 1)]
                          for what in ("active_time", "avg_util_limit"))
        rows.append(Figure(name, profile.get(name), None, None, (UNLIKE,))
                    if version(profile) != (2, 28) else
                    _figure(profile, name, [(_made(_held, *shares, *limits), (LIMITS,))]))
    for core in profile.timeline.working if profile.timeline else ():
        rows.append(Figure(f"throttle limit of core {core}", None, throttle_limit(profile, core),
                           None, (OURS,)))
    return rows


def _held(share0: float, share1: float, limit0: float, limit1: float) -> float:
    return share0 * limit0 + share1 * limit1
