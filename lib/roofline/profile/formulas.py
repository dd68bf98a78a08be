"""How the profiler gets its summary's figures from its counters, and whether they come out.

Question  does this file's AI, ratio, MFU, HFU, MBU follow from its own FLOPs, bytes and time?
Answer    one function a formula; check(profile) -> Check: printed, recomputed, agree, reason
Assumes   the formulas of profiler 2.26 to explorer 2.32; a "percent" is a fraction 0..1
Ignores   whether a formula is fair: the ratio is one core's peak over a stack that two cores share

Symbols: F FLOPs without transposes, B bytes at HBM, T total_time, P1 peak of one physical core,
BW hbm_ddr_bandwidth (one HBM stack), c physical cores of the logical core.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import machine, units
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


def number(profile: "Profile", name: str) -> float | None:
    """A number of the summary or metadata; None where it is absent, text, or not finite."""
    value = profile.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e300 else None


def flops(profile: "Profile", adjusted: bool = False) -> float | None:
    """F = hardware_flops - transpose_flops; None where unknown.

    The profiler of 2025 leaves FLOPs out that are 0: transposes are then none, and so is all of
    it where the printed intensity is 0.
    """
    kind = "adjusted_" * adjusted
    total = number(profile, f"{kind}hardware_flops")
    if total is None:
        return 0 if number(profile, "mm_arithmetic_intensity") == 0 and not adjusted else None
    return total - (number(profile, f"{kind}transpose_flops") or 0)


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
    cores           c, or both possible ones where the file does not say, the likelier first
    source          "the file", or the machine that stood in
    """

    p1: float | None
    bw: float | None
    clock: float | None
    cores: tuple[int, ...]
    source: str

    @classmethod
    def of(cls, profile: "Profile") -> "Constants":
        """From metadata (clocks in GHz); what it lacks, from the machine of its instance_type."""
        given = [number(profile, f"tensor_engine_{name}")
                 for name in ("clock_freq", "num_rows", "num_cols")]
        clock, rows, columns = given
        p1 = None if clock is None or rows is None or columns is None else (
            peak(clock * 1e9, rows, columns))
        bw = number(profile, "hbm_ddr_bandwidth")
        ghz = number(profile, "neuroncore_clock_freq")
        base = None if ghz is None else ghz * 1e9
        cores = (profile.cores,) if "num_physical_cores" in profile.metadata else (
            profile.cores, 3 - profile.cores)
        key = re.match(r"[a-z]{3}\d", str(profile.get("instance_type") or ""))
        if None not in (p1, bw, base) or not key or key[0] not in machine.ALL:
            return cls(p1 or None, bw or None, base or None, cores, "the file")
        core, device = machine.get(key[0]), machine.get(key[0], "device")
        stack = device.facts.get("hbm_stack_bandwidth")
        clocks = core.facts.get("base_clock")
        return cls(p1 or core.peak("bf16"),
                   bw or (stack.value if stack else
                          device.bw() / device.facts["hbm_stacks"].value),
                   base or (clocks.value if clocks else None),
                   cores if device.facts["cores_per_hbm_stack"].value > 1 else (1,),
                   f"machine {key[0]}, where the file says nothing")


def throttle_limit(profile: "Profile", core: int) -> float | None:
    """Mean share of cycles that throttling left this core's Tensor Engine; None without rows.

    From the throttle rows, over the span or the whole timeline: the lowest k/n of the rows that
    cover a moment, and all of it where none does.
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
NO_HLO = "0 without HLO statistics, in versions that do not fall back on instructions"
LIMITS = "sum of active share x limit; time without an event counts as 0"
UNLIKE = "not comparable between versions"
OURS = "ours, from the throttle rows; time without one counts as not throttled"
NEEDS_ADJUSTED = "needs adjusted FLOPs, which the file does not print"
NOT_PRINTED = "not printed"
ABSENT = "an input is absent"
OPEN = "unexplained"
REASONS = (DIGITS, SINGLE, PRINTED, ADJUSTED, MODEL, *CORES.values(), SLOWER, NO_WORK, NO_HLO,
           LIMITS, UNLIKE, OURS, NEEDS_ADJUSTED, NOT_PRINTED, ABSENT, OPEN)


@dataclass(frozen=True)
class Row:
    """One figure: None is unknown; agrees is None where there is nothing to compare.

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

    rows: tuple[Row, ...]
    constants: Constants

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @property
    def agree(self) -> bool:
        """Whether nothing that could be compared differs."""
        return all(row.agrees is not False for row in self.rows)

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
        return "\n".join([*aligned(cells, left=(0, 3, 4)),
                          f"{', '.join([*known, f'c {cores}'])}; from {of.source}"])


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else "no number"
    whole = isinstance(value, int) or not math.isfinite(value)
    return f"{value:,}" if whole else units.significant(value, 6)


Way = tuple[float | None, tuple[str, ...]]  # what a formula gives, and on what grounds


def check(profile: "Profile") -> Check:
    """Every figure of the summary that a formula gives, recomputed.

    Where versions differ each way is tried, that of the file's version first; the one that comes
    out is named. What is not printed is still recomputed.
    """
    of = Constants.of(profile)
    f, b, time = flops(profile), hbm_bytes(profile), number(profile, "total_time")
    count, model = number(profile, "neuroncore_cycle_count"), number(profile, "model_flops")
    wide = flops(profile, adjusted=True)
    everything = number(profile, "hardware_flops")
    new = (version(profile) or (0, 0)) >= (2, 30) or wide is not None
    times: list[Way] = [(time, ())]
    if of.clock and _slower(count, _made(cycles, time, of.clock), of):
        times.append((count / of.clock, (SLOWER,)))  # type: ignore[operator]

    def cores() -> list[tuple[int, tuple[str, ...]]]:
        return [(c, (CORES[c],) * (len(of.cores) > 1)) for c in of.cores]

    def used(*amounts: Way) -> list[Way]:
        return [(_made(compute_utilisation, n, c, of.p1, t), (*why, *so, *then))
                for t, then in times for n, why in amounts for c, so in cores()]

    def moved(nbytes: float | None) -> list[Way]:
        return [(_made(bandwidth_utilisation, nbytes, t, of.bw), then) for t, then in times]

    def either(raw: float | None, adjusted: float | None) -> list[Way]:
        """Raw and adjusted FLOPs, the version's own first."""
        if raw == 0 and everything is None:
            return [(0, (NO_WORK,))]
        both: list[Way] = [(raw, ()), (adjusted, (ADJUSTED,))]
        return [way for way in (both[::-1] if new else both) if way[0] is not None] or both[:1]

    useful = [(model, (MODEL,))] if model else []
    work = either(f, wide)
    ai, of_model = ([(_made(intensity, n, b), why) for n, why in ways]
                    for ways in (either(f, None), useful))
    reach = [(_made(max_achievable, i, c, of.p1, of.bw), (*why, *so))
             for i, why in [*of_model, *ai] for c, so in cores()]
    rows = [
        _row(profile, "mm_arithmetic_intensity", ai),
        _row(profile, "peak_flops_bandwidth_ratio",
             [(_made(ratio, of.p1, of.bw), ())]),
        _row(profile, "hfu_estimated_percent", used(*either(
            0 if f == 0 and everything is None else everything,
            number(profile, "adjusted_hardware_flops"))), new and wide is None),
        _row(profile, "mfu_inst_estimated_percent", used(*work), new and wide is None),
        _row(profile, "mfu_estimated_percent", used(*useful, *work), new and wide is None, model),
        _row(profile, "mbu_estimated_percent", moved(b)),
        _row(profile, "mbu_min_read_util_percent",
             moved(number(profile, "inputs_and_weights_size_bytes"))),
        _row(profile, "mfu_max_achievable_estimated_percent", reach),
        _cycles(profile, of, time)]
    return Check((*rows, *_limits(profile)), of)


def _made(formula: Callable[..., float], *inputs: float | None) -> float | None:
    """What a formula gives; None where an input is unknown or of no use, such as no time at all."""
    if None in inputs:
        return None
    try:
        return formula(*inputs)
    except (ZeroDivisionError, OverflowError):
        return None


def _row(profile: "Profile", name: str, ways: Sequence[Way], needs_adjusted: bool = False,
         model: float | None = None) -> Row:
    """The first way that comes out; else the first that could be computed."""
    printed = profile.get(name)
    known = [(value, why) for value, why in ways if value is not None]
    if printed is None:
        return Row(name, None, known[0][0] if known else None, None,
                   (NOT_PRINTED,) if known else (NOT_PRINTED, ABSENT))
    if not known:
        return Row(name, printed, None, None, (ABSENT,))
    figure = number(profile, name)
    for value, why in known:
        if figure is not None and (how := _agrees(figure, value, SLOWER in why, profile)):
            if len({other for other, _ in known}) == 1:  # it comes out the same with either c
                why = tuple(reason for reason in why if reason not in CORES.values())
            return Row(name, printed, value, True, (how, *why) if how not in why else why)
    if model == 0 and not figure:
        return Row(name, printed, known[0][0], None, (NO_HLO,))
    if needs_adjusted:
        return Row(name, printed, known[0][0], None, (NEEDS_ADJUSTED,))
    return Row(name, printed, known[0][0], False, (OPEN,))


def _agrees(printed: float, value: float, by_cycles: bool, profile: "Profile") -> str:
    """How well it comes out, one of REASONS; "" when it does not."""
    if by_cycles:  # a time in whole cycles is good to one of them
        count = number(profile, "neuroncore_cycle_count") or math.inf
        return SLOWER if math.isclose(printed, value, rel_tol=1 / count) else ""
    if math.isclose(printed, value, rel_tol=1e-14):
        return DIGITS
    if math.isclose(printed, value, rel_tol=2.0**-24):
        return SINGLE
    digits, _, power = f"{printed!r}".lower().partition("e")
    decimals = len(digits.partition(".")[2]) - int(power or 0)
    long = len(digits.replace(".", "").strip("-0")) >= 3
    return PRINTED if long and abs(printed - value) <= 0.5 * 10.0**-decimals else ""


def _cycles(profile: "Profile", of: Constants, time: float | None) -> Row:
    """Cycles against total_time; on two cores those of the slower, up to 1 % more."""
    name = "neuroncore_cycle_count"
    value = _made(cycles, time, of.clock)
    row = _row(profile, name, [(value, ())])
    if row.agrees is False and _slower(number(profile, name), value, of):
        return Row(name, row.printed, value, True, (SLOWER,))
    return row


def _slower(printed: float | None, value: float | None, of: Constants) -> bool:
    """Whether cycles may be those of the slower of two cores: up to 1 % more than total_time's."""
    return 2 in of.cores and printed is not None and value is not None and (
        value < printed <= 1.01 * value)


def _limits(profile: "Profile") -> list[Row]:
    """Throttle limits: the printed ones by the rule of 2.28 alone, then our own."""
    rows = []
    for name in sorted(n for n in profile.summary if n.startswith("throttle_avg_util_limit")):
        of = name.removeprefix("throttle_avg_util_limit")  # "_nc0_percent"
        pairs = [[number(profile, f"throttle_activity_{i}_{what}{of}")
                  for what in ("active_time", "avg_util_limit")] for i in (0, 1)]
        held = [share * limit for share, limit in pairs if share is not None and limit is not None]
        if version(profile) == (2, 28) and held:
            row = _row(profile, name, [(sum(held), (LIMITS,))])
            rows.append(row if row.agrees else Row(name, row.printed, None, None, (UNLIKE,)))
        else:
            rows.append(Row(name, profile.get(name), None, None, (UNLIKE,)))
    for core in profile.timeline.working if profile.timeline else ():
        rows.append(Row(f"throttle limit of core {core}", None, throttle_limit(profile, core),
                        None, (OURS,)))
    return rows
