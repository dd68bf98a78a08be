"""Roofs of a machine, each number with its source, and what a Count is entitled to.

Question  how fast may this work run on this machine, and which roof says so?
Answer    machine.trn2.entitle(count): the time at every roof, the largest of them, their sum
Assumes   one op at a time; W, Q and P at one scope (a core, an LNC=2 pair, a device)
Ignores   fixed costs, tile shapes, contention; a lower ceiling has to be asked for (`under`)
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import units
from .table import aligned

if TYPE_CHECKING:
    from .count import Count  # same layer: a value that is passed in

KINDS = ("documented", "derived", "published", "measured", "modelled", "assumed")
SAME_CORE = {"inf2": "trn1"}  # one NeuronCore-v2: what holds of a core of one holds of the other


class MachineError(ValueError):
    """A machine, scope, dtype, level or figure that is not there."""


def _known(what: str, got: object, known: Mapping[str, Any], hint: str = "") -> MachineError:
    return MachineError(f"{what}: got {got!r}; known: {', '.join(known)}. {hint}".rstrip())


@dataclass(frozen=True)
class Spec:
    """One number of a machine: value in base units, where it is from, when it holds.

    source   key in references.bib, then the place; a derived number cites one of its inputs
    kind     one of KINDS; assumed = an input of the worked-example machine or the caller's own
    rivals   what other sources say of the same quantity

    Raises MachineError for an unknown unit or kind, or a value that is not finite.
    """

    value: float
    unit: str
    source: str
    kind: str
    holds: str = ""
    rivals: tuple["Spec", ...] = ()

    def __post_init__(self) -> None:
        if self.unit not in units.BASES:
            raise MachineError(f"Spec: unit {self.unit!r} is not a base unit; use one of "
                               f"{', '.join(units.BASES)}")
        if self.kind not in KINDS:
            raise MachineError(f"Spec: kind {self.kind!r}; expected one of {', '.join(KINDS)}")
        if not math.isfinite(self.value):
            raise MachineError(f"Spec: value {self.value!r} is not finite; give a number")

    @property
    def text(self) -> str:
        """The value with its unit; capacities in binary units."""
        binary = units.mebi(self.value) if self.unit == "B" else ""
        if binary and units.parse(binary, "B") == self.value:
            return binary
        return units.show(self.value, self.unit, digits=4)

    def __str__(self) -> str:
        return f"{self.text} ({self.kind}: {self.holds or self.source})"

    def __repr__(self) -> str:
        about = "; ".join(filter(None, (self.holds, self.source)))
        lines = [f"{self.text} ({self.kind}: {about})"]
        return "\n".join(lines + [f"  rival {rival!r}" for rival in self.rivals])


@dataclass(frozen=True)
class Ceiling:
    """A lower roof: what is left of `roof` (a dtype's peak or a level's bandwidth), and why.

    cap   False: a share of its roof, which multiplies with other shares (no SIMD, no FMA). True:
          a level of its own, whatever else is lost: what one channel carries, what was measured
    """

    name: str
    spec: Spec
    why: str
    roof: str
    cap: bool = False


@dataclass(frozen=True, repr=False)
class Machine:
    """Peaks per dtype and bandwidths per level; the first level is the slow link.

    peaks        dtype -> FLOP/s (int8: integer operations a second)
    bandwidths   level -> B/s: "HBM" or "DRAM" first, then "DMA", "link", "L3", ...
    ceilings     lower roofs; one name may lower several
    facts        everything else that is known: sizes, clocks, widths, element rates

    Every method raises MachineError for a name that is not there.
    """

    key: str
    name: str
    scope: str
    peaks: Mapping[str, Spec] = field(hash=False)
    bandwidths: Mapping[str, Spec] = field(hash=False)
    ceilings: tuple[Ceiling, ...] = ()
    facts: Mapping[str, Spec] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for what, unit in (("peaks", "FLOP/s"), ("bandwidths", "B/s")):
            specs = getattr(self, what)
            if not specs or any(s.unit != unit or s.value <= 0 for s in specs.values()):
                got = ", ".join(f"{name} {s.text}" for name, s in specs.items()) or "none"
                raise MachineError(f"{self.key}: {what}: got {got}; expected at least one Spec, "
                                   f"each > 0 {unit}. See machine.desktop for a pattern")
            object.__setattr__(self, what, MappingProxyType(dict(specs)))
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    @property
    def slow_link(self) -> str:
        """Name of the level that Q crosses."""
        return next(iter(self.bandwidths))

    def peak(self, dtype: str) -> float:
        """P in FLOP/s."""
        if dtype not in self.peaks:
            raise _known(f"{self.key}, {self.scope}: no peak for this dtype", dtype, self.peaks,
                         "Count W in one of these, or give the peak as a Spec of your own.")
        return self.peaks[dtype].value

    def bw(self, level: str | None = None) -> float:
        """BW in B/s; of the slow link unless another level is named."""
        level = self.slow_link if level is None else level
        if level not in self.bandwidths:
            raise _known(f"{self.key}, {self.scope}: no such level", level, self.bandwidths)
        return self.bandwidths[level].value

    def ridge(self, dtype: str, level: str | None = None) -> float:
        """I* = P / BW in FLOP/B."""
        return self.peak(dtype) / self.bw(level)

    def attainable(self, intensity: float, dtype: str, level: str | None = None) -> float:
        """min(P, I x BW) in FLOP/s; `intensity` in FLOP per byte of that level, inf allowed."""
        if not intensity >= 0:
            raise MachineError(f"attainable: intensity {intensity!r} FLOP/B; expected >= 0. "
                               "It is W / Q, both counted")
        return min(self.peak(dtype), intensity * self.bw(level))

    def mixed(self, count: "Count") -> "Machine":
        """The same machine with one peak, P of the dtypes in the shares that they have in W.

        Its name is theirs: "bf16", or "bf16+fp32". Raises MachineError for a count without FLOPs.
        """
        if not count.flops:
            raise MachineError("mixed: W = 0 FLOP, so no dtype and no peak. Such a count has times "
                               "and no place on a roofline: entitle(count)")
        peak = Spec(self.entitle(count).peak, "FLOP/s", self.peaks[next(iter(count.work))].source,
                    "derived", "W over the sum of W_d / P_d")
        return replace(self, peaks={
            name: self.peaks.get(name, peak) for name in ["+".join(count.work)]})

    def entitle(self, count: "Count", extra: Mapping[str, float] | None = None) -> "Entitlement":
        """The least time this machine allows for `count`, roof by roof.

        extra   further roofs: a level and its bytes ({"DMA": count.hbm_bytes}), or a fact that
                is a rate and its amount ({"scalar_element_rate": 2048 * 4096})

        Raises MachineError for an empty count, a dtype without a peak or an unknown roof.
        """
        if not count.flops and not count.hbm_bytes:
            raise MachineError("entitle: W = 0 FLOP and Q = 0 B; there is nothing to time. "
                               "Count the op first")
        times = {"compute": sum((w / self.peak(d) for d, w in count.work.items()), 0.0),
                 self.slow_link: count.hbm_bytes / self.bw()}
        rates = {name: spec for name, spec in {**self.facts, **self.bandwidths}.items()
                 if spec.unit.endswith("/s") and name not in times}
        for name, amount in (extra or {}).items():
            if name not in rates:
                raise _known(f"{self.key}, {self.scope}: entitle: no such further roof", name,
                             rates, f"{self.slow_link} and compute come from the count.")
            if not 0 <= amount < math.inf:
                raise MachineError(f"entitle: {name}: {amount!r}; expected an amount >= 0")
            times[name] = amount / rates[name].value
        return Entitlement(self, count, MappingProxyType(times))

    def using(self, **figures: "Spec | str | float") -> "Machine":
        """The same machine with another figure for a level or a dtype's peak.

        A figure is a Spec, text with a unit ("397 GB/s"), a number in base units, or the index
        of a rival (an int below 100): trn2.using(HBM=0) takes HBM's first rival.
        """
        changed, roofs = {}, {**self.peaks, **self.bandwidths}
        for name, figure in figures.items():
            if name not in roofs:
                raise _known(f"{self.key}, {self.scope}: using: no such roof", name, roofs)
            old, others = roofs[name], roofs[name].rivals
            if isinstance(figure, int) and figure < 100:
                if not 0 <= figure < len(old.rivals):
                    raise MachineError(f"{self.key}: using({name}={figure}): {name} has "
                                       f"{len(old.rivals)} rivals, numbered from 0. Give a figure")
                others = old.rivals[:figure] + old.rivals[figure + 1:]
                figure = old.rivals[figure]
            elif not isinstance(figure, Spec):
                figure = Spec(units.parse(figure, old.unit), old.unit, "caller", "assumed",
                              "given by the caller")
            changed[name] = replace(figure, rivals=(replace(old, rivals=()), *others))
        said = "; ".join(f"{name} {spec.text}" for name, spec in changed.items())
        return self._with(f"{self.name}, {said}", changed)

    def under(self, *names: str) -> "Machine":
        """The same machine below the named ceilings.

        Below several, shares multiply (no SIMD and no FMA); of caps the lowest counts.
        """
        machine = self
        for name in names:
            if name not in {c.name for c in self.ceilings}:
                raise _known(f"{self.key}, {self.scope}: no such ceiling", name,
                             {c.name: c for c in self.ceilings})
            roofs = {**machine.peaks, **machine.bandwidths}
            low = {c.roof: c.spec for c in machine.ceilings if c.name == name}
            share = {roof: spec.value / roofs[roof].value for roof, spec in low.items()}
            left = [c if c.cap else
                    replace(c, spec=replace(_scaled(c.spec, share.get(c.roof, 1), c.spec.holds),
                                            kind=c.spec.kind))
                    for c in machine.ceilings if c.name != name]
            roofs |= low
            machine = replace(machine._with(f"{machine.name}, {name}", low), ceilings=tuple(
                c for c in left if c.spec.value < roofs[c.roof].value))
        return machine

    def _with(self, name: str, roofs: Mapping[str, Spec]) -> "Machine":
        return replace(self, name=name,
                       peaks={k: roofs.get(k, v) for k, v in self.peaks.items()},
                       bandwidths={k: roofs.get(k, v) for k, v in self.bandwidths.items()})

    def at(self, scope: str) -> "Machine":
        """This chip at another scope: "core", "lnc2" or "device"."""
        if scope != self.scope and self != _MACHINES.get((self.key, self.scope)):
            raise MachineError(f"{self.name}: at({scope!r}): this machine has a figure of its own "
                               f"at scope {self.scope}. Change the scope first, then the figure")
        return self if scope == self.scope else get(self.key, scope)

    def __repr__(self) -> str:
        rows = [("P", dtype, spec, f"ridge {units.show(self.ridge(dtype), 'FLOP/B')}")
                for dtype, spec in self.peaks.items()]
        rows += [("BW", level, spec, "slow link" if level == self.slow_link else "")
                 for level, spec in self.bandwidths.items()]
        rows += [(c.name, c.roof, replace(c.spec, rivals=()), "ceiling") for c in self.ceilings]
        same: dict[tuple[str, ...], list[str]] = {}  # one line for bf16, fp16 and tf32
        for what, roof, spec, note in rows:
            rivals = "rivals " + ", ".join(r.text for r in spec.rivals) if spec.rivals else ""
            same.setdefault((what, spec.text, spec.kind, note, rivals), []).append(roof)
        cells = [(what, " ".join(roofs), *rest) for (what, *rest), roofs in same.items()]
        return "\n".join([f"{self.name} ({self.key}, {self.scope})", *aligned(cells, indent="  ")])


@dataclass(frozen=True, repr=False)
class Entitlement:
    """What the roofs allow for one count: each roof's time, the largest, and the sum.

    times   roof -> s; "compute" is the sum of W_d / P_d, the others bytes / bandwidth
    """

    machine: Machine
    count: "Count"
    times: Mapping[str, float] = field(hash=False)

    @property
    def t_best(self) -> float:
        """Seconds when everything overlaps: the largest time."""
        return max(self.times.values())

    @property
    def t_worst(self) -> float:
        """Seconds when nothing overlaps: the sum.

        A byte crosses HBM and a DMA engine in one go, so of these two the longer counts.
        """
        one = [self.times.get(level, 0.0) for level in ("HBM", "DMA")]
        return sum(t for roof, t in self.times.items() if roof not in ("HBM", "DMA")) + max(one)

    @property
    def binds(self) -> str:
        """The roof with the largest time; compute when it ties."""
        return max(self.times, key=lambda roof: self.times[roof])

    @property
    def rate(self) -> float:
        """Entitled FLOP/s, W / T_best; 0 for a copy."""
        return self.count.flops / self.t_best

    @property
    def intensity(self) -> float:
        """I in FLOP/B; inf when nothing crosses the slow link."""
        return self.count.intensity

    @property
    def peak(self) -> float:
        """P of this mix of dtypes in FLOP/s; nan for a copy, which has no dtype."""
        return self.count.flops / self.times["compute"] if self.count.flops else math.nan

    @property
    def ridge(self) -> float:
        """I* of this mix of dtypes in FLOP/B; nan for a copy."""
        return self.peak / self.machine.bw()

    def __repr__(self) -> str:
        short = {"compute": "W/P", self.machine.slow_link: "Q/BW"}
        cells = [("I", units.show(self.intensity, "FLOP/B"), "")]
        if self.count.flops:
            cells.append(("ridge", units.show(self.ridge, "FLOP/B"), ""))
        for roof, time in self.times.items():
            notes = [roof] * (roof in short) + ["binds"] * (roof == self.binds)
            cells.append((short.get(roof, roof), units.show(time, "s"), ", ".join(notes)))
        cells += [("T_best", units.show(self.t_best, "s"), "all overlaps"),
                  ("T_worst", units.show(self.t_worst, "s"), "nothing overlaps")]
        if self.count.flops:
            cells.append(("rate", units.show(self.rate, "FLOP/s"), "W/T_best"))
        return "\n".join([f"entitlement on {self.machine.name}", *aligned(cells, indent="  ")])


# --- from machine.toml to machines ----------------------------------------------------------

Rows = dict[str, Spec]  # "vector_width.bf16" -> Spec
_WORDS = ("name", "core_name", "like", "chip", "source", "kind", "ceiling")

# What is computed: name, unit, factors. A factor is a row, a number, or "/row" to divide by it;
# * stands for a dtype. A chip without one of the rows has no such fact.
_CORE = (
    ("peak*", "FLOP/s", "tensor_array_rows", "tensor_array_columns", 2, "tensor_clock", "pe_rate*"),
    ("dma_bandwidth", "B/s", "dma_engines", "dma_engine_bandwidth"),
    ("dma_theoretical", "B/s", "dma_engines", "dma_engine_theoretical"),
    ("gpsimd_width", "", "gpsimd_processors", "gpsimd_lanes"),
    ("vector_element_rate*", "element/s", "vector_width*", "vector_clock"),
    ("scalar_element_rate*", "element/s", "scalar_width*", "scalar_clock"),
    ("gpsimd_element_rate", "element/s", "gpsimd_width", "gpsimd_clock"),
    ("tensor_input_bandwidth.bf16", "B/s", "tensor_input_width.bf16", 2, "tensor_clock"),
    ("tensor_input_bandwidth.fp8", "B/s", "tensor_input_width.fp8", "tensor_clock"),
    ("tensor_input_bandwidth.mxfp8", "B/s", "tensor_input_width.mxfp8", "tensor_clock"),
    ("vector_port_bandwidth", "B/s", "vector_width.fp32", 4, "vector_clock"),
    ("sbuf_interface_bandwidth.fp32", "B/s", "sbuf_interface_rate", 4),
    ("psum_write_bandwidth.fp32", "B/s", "tensor_array_columns", 4, "tensor_clock"),
    ("psum_bank_partition_bytes", "B", "psum_bank_fmax", 4),
    ("sbuf_partition_bytes", "B", "sbuf_bytes", "/pmax"),
)
_DEVICE = (
    ("cores_per_hbm_stack", "", "cores", "/hbm_stacks"),
    ("hbm_stack_bytes", "B", "hbm_bytes", "/hbm_stacks"),
    ("stacks_bandwidth", "B/s", "hbm_stacks", "hbm_stack_bandwidth"),
    ("core_stack_share", "B/s", "hbm_stack_bandwidth", "/cores_per_hbm_stack"),
    ("dma_summed", "B/s", "dma_engines", "dma_engine_bandwidth"),
    ("dma_theoretical", "B/s", "dma_engines", "dma_engine_theoretical"),
)
_SHEET = (("implied_dram_bandwidth", "B/s", "peak.fp64", "/printed_ridge"),)
_DESKTOP = (
    ("fp32", "FLOP/s", "cores", "fma_units", "simd_lanes", 2, "clock"),
    ("DRAM", "B/s", "dram_channels", "dram_channel_bytes", "dram_transfer_rate"),
    *((f"L{i}", "B/s", "cores", f"l{i}_width", "clock") for i in (3, 2, 1)),
)
# Ceilings of the desktop: name, roof, what is left of it, why.
_DESKTOP_CAPS = (("one core", "DRAM"), ("one channel", "DRAM"))
_DESKTOP_CEILINGS: tuple[tuple[str, str, tuple[str | float, ...], str], ...] = (
    ("no FMA", "fp32", (0.5,), "adds and multiplies are instructions of their own"),
    ("no SIMD", "fp32", ("/simd_lanes",), "one element an instruction"),
    ("no ILP", "fp32", ("/fma_latency", "/fma_units"), "each multiply-add waits for the last"),
    *(("one core", roof, ("/cores",), "the other cores, and their cache ports, idle")
      for roof in ("fp32", "L3", "L2", "L1")),
    ("one core", "DRAM", ("l3_width", "clock", "/dram_channels", "/dram_channel_bytes",
                          "/dram_transfer_rate"), "what one core's L3 port carries"),
    ("one channel", "DRAM", ("/dram_channels",), "memory in one slot, pages on one channel"),
    ("strided", "DRAM", ("line_used_bytes", "/line_bytes"), "one element used of each line moved"),
)


def _specs(table: Mapping[str, Any], source: str = "", kind: str = "documented",
           prefix: str = "") -> Rows:
    """Rows of a toml table as Specs; nested names are joined with dots."""
    found: Rows = {}
    source, kind = table.get("source", source), table.get("kind", kind)
    for name, row in table.items():
        if isinstance(row, dict) and "value" not in row and name not in _WORDS:
            found |= _specs(row, source, kind, f"{prefix}{name}.")
        elif name not in _WORDS:
            rows = row if isinstance(row, list) else [row]
            first, *rest = (_spec(one, source, kind) for one in rows)
            found[prefix + name] = replace(first, rivals=tuple(rest))
    return found


def _spec(row: str | Mapping[str, str], source: str, kind: str) -> Spec:
    row = {"value": row} if isinstance(row, str) else row
    number, _, unit = row["value"].partition(" ")
    factor, base = units.UNITS[unit]
    exact = Decimal(number) * Decimal(factor)  # 1.12 GHz is 1120000000 Hz, to the last digit
    return Spec(_whole(exact), base, row.get("source", source), row.get("kind", kind),
                row.get("holds", ""))


def _whole(value: float | Decimal) -> float:
    """An int where it is one: sizes and counts are used as ints."""
    return int(value) if value == int(value) else float(value)


def _product(rows: Rows, unit: str, *factors: str | float, holds: str = "") -> Spec:
    """A computed row: it says its arithmetic, and cites the source of its last factor."""
    value, how, last = 1.0, "", next(iter(rows.values()))
    for factor in factors:
        name = str(factor).removeprefix("/")
        row = rows.get(name) or Spec(float(factor), "", "", "derived")
        value = value / row.value if name != str(factor) else value * row.value
        if (row.value, row.unit) != (1, ""):
            how += (" / " if name != str(factor) else " x ") + row.text
        last = row if name in rows and name == str(factor) else last
    how = how.removeprefix(" x ")
    return Spec(_whole(value), unit, last.source, "derived",
                "; ".join(filter(None, (how, holds or last.holds))))


def _computed(rows: Rows, formulas: Iterable[tuple[Any, ...]]) -> Rows:
    """The rows and what the formulas make of them; a documented row is never replaced."""
    rows = dict(rows)
    for name, unit, *factors in formulas:
        stem = next((f[:-1] for f in factors if str(f).endswith("*")), None)
        for dtype in [""] if stem is None else [n.removeprefix(stem) for n in rows
                                                if n.partition(".")[0] == stem]:
            names = [str(f).replace("*", dtype) if isinstance(f, str) else f for f in factors]
            if all(n.removeprefix("/") in rows for n in names if isinstance(n, str)):
                rows.setdefault(name.replace("*", dtype), _product(rows, unit, *names))
    return rows


def _scaled(spec: Spec, times: float, holds: str) -> Spec:
    """A roof of several cores, or a share of one; its rivals scale alike."""
    return Spec(_whole(spec.value * times), spec.unit, spec.source, "derived", holds,
                tuple(_scaled(rival, times, holds) for rival in spec.rivals))


def _with_rivals(spec: Spec, *others: Spec | None) -> Spec:
    flat = [one for o in others if o for one in (replace(o, rivals=()), *o.rivals)]
    return replace(spec, rivals=(*spec.rivals, *flat))


def _of(rows: Rows, stem: str) -> Rows:
    """dtype -> Spec of every row "stem.dtype"."""
    return {n.removeprefix(stem + "."): s for n, s in rows.items() if n.startswith(stem + ".")}


def _facts(rows: Rows, *stems: str) -> Rows:
    """The rows but those that have become roofs."""
    return {name: spec for name, spec in rows.items() if name.partition(".")[0] not in stems}


def _like(data: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Rows]:
    """Rows of a chip per scope, on top of those of the chip it is like."""
    rows = _like(data, data[table["like"]]) if "like" in table else {}
    return {scope: rows.get(scope, {}) | _specs(table.get(scope, {}))
            for scope in ("core", "device")}


def _neuron(key: str, table: Mapping[str, Any], rows: dict[str, Rows]) -> list[Machine]:
    """One chip at scope core, device, and lnc2 where two cores share an HBM stack."""
    core = _computed(rows["core"], _CORE)
    engine = {n: s for n, s in core.items() if n.startswith("dma_engine_")}
    device = _facts(_computed(rows["device"] | engine, _DEVICE), *engine)
    n, hbm = int(device["cores"].value), device["hbm_bandwidth"]

    peaks = {d: _with_rivals(s, core.get(f"documented_peak.{d}"))
             for d, s in _of(core, "peak").items()}
    share = _scaled(hbm, 1 / n, f"an even share of {n} cores")
    levels = {"HBM": _with_rivals(share, device.get("core_stack_share"),
                                  core.get("figure_hbm_bandwidth")),
              "DMA": _with_rivals(core["dma_bandwidth"], core["dma_theoretical"],
                                  core.get("dma_profiler_bandwidth"))}
    facts = _facts(core, "pe_rate", "documented_peak", "peak", "dma_bandwidth", "dma_theoretical")
    machines = [Machine(key, f"{table['name']}, one {table['core_name']}", "core", peaks, levels,
                        (), facts)]

    def scaled(some: Mapping[str, Spec], times: int) -> Rows:
        return {name: _scaled(s, times, f"{times} cores") for name, s in some.items()}

    summed = {name: s for name, s in facts.items()
              if name in ("sbuf_bytes", "psum_bytes", "dma_engines") or "element_rate" in name}
    whole_peaks = {d: _with_rivals(replace(s, rivals=()), device.get(f"documented_peak.{d}"))
                   for d, s in scaled(peaks, n).items()}
    whole = {"HBM": _with_rivals(hbm, device.get("stacks_bandwidth")),
             "DMA": _with_rivals(device["dma_summed"], device["dma_bandwidth"],
                                 device["dma_theoretical"])}
    whole |= {"link": device["link_bandwidth"]} if "link_bandwidth" in device else {}
    known = _facts(device, "documented_peak", "hbm_bandwidth", "link_bandwidth", "dma_bandwidth",
                   "dma_summed", "dma_theoretical", "stacks_bandwidth", "core_stack_share")
    if known["cores_per_hbm_stack"].value == 2:
        known["logical_cores_lnc2"] = _scaled(known["cores"], 1 / 2, "LNC=2")
        machines.append(Machine(
            key, f"{table['name']}, one logical core (LNC=2)", "lnc2", scaled(peaks, 2),
            scaled(levels, 2), (), {**scaled(summed, 2), "hbm_bytes": known["hbm_stack_bytes"]}))
    machines.append(Machine(
        key, f"{table['name']}, one device ({n} cores)", "device",
        {**_of(device, "documented_peak"), **whole_peaks}, whole, (),
        {**scaled(summed, n), **known}))
    if "throttle_start" in facts:
        start, time = facts["throttle_start"], facts["throttle_time"].text
        machines = [replace(m, ceilings=tuple(
            Ceiling("throttled", _scaled(s, start.value, f"{start.text} of peak; {start.source}"),
                    f"for the first {time} after idling", d)
            for d, s in m.peaks.items())) for m in machines]
    return machines


def _sheet(key: str, table: Mapping[str, Any], scope: str, of: Machine | None = None) -> Machine:
    """A GPU, a TPU, a 2009 machine, an instance: as its sheet says.

    of   a device; what an instance's page leaves out is its devices times one of these
    """
    rows = _computed(_specs(table), _SHEET)
    roofs = {"HBM": "hbm_bandwidth", "DRAM": "dram_bandwidth", "link": "link_bandwidth",
             "EFA": "efa_bandwidth"}
    peaks = _of(rows, "peak")
    levels = {level: _with_rivals(rows[name], rows.get(f"implied_{name}"))
              for level, name in roofs.items() if name in rows}
    facts = _facts(rows, "peak", "implied_dram_bandwidth", *roofs.values())
    if of:
        n = int(rows["devices"].value)
        peaks = peaks or {d: _scaled(s, n, f"{n} devices") for d, s in of.peaks.items()}
        levels = {"HBM": _scaled(of.bandwidths["HBM"], n, f"{n} devices")} | levels
        facts = {name: _scaled(s, n, f"{n} devices") for name, s in of.facts.items()
                 if name in ("cores", "logical_cores_lnc2", "hbm_bytes")} | facts
    ceilings = tuple(Ceiling(name, _spec(row, table["source"], table["kind"]), row["holds"],
                             row["roof"], cap=True)
                     for name, row in table.get("ceiling", {}).items())
    return Machine(key, table.get("name", key), scope, peaks, levels, ceilings, facts)


def _desktop(key: str, table: Mapping[str, Any]) -> Machine:
    """The worked-example CPU: every roof and ceiling from its assumed inputs, so assumed too."""
    rows = _specs(table)
    roofs = {name: replace(s, kind="assumed") for name, s in _computed(rows, _DESKTOP).items()
             if name not in rows}
    ceilings = tuple(
        Ceiling(name, replace(_product(rows | roofs, roofs[roof].unit, roof, *share, holds=why),
                              kind="assumed"), why, roof, (name, roof) in _DESKTOP_CAPS)
        for name, roof, share, why in _DESKTOP_CEILINGS)
    return Machine(key, table["name"], "device", {"fp32": roofs.pop("fp32")}, roofs, ceilings, rows)


def load(text: str) -> dict[tuple[str, str], Machine]:
    """Every machine of a toml text in the form of machine.toml, by (key, scope)."""
    data = tomllib.loads(text)
    found = [m for key, table in data.items() if "core_name" in table
             for m in _neuron(key, table, _like(data, table))]
    devices = {m.key: m for m in found if m.scope == "device"}
    found += [_sheet(key, table, "device")
              for key, table in {**data.get("chip", {}), **data.get("paper2009", {})}.items()]
    found += [_desktop("desktop", data["desktop"])] if "desktop" in data else []
    found += [_sheet(key, table, "instance", devices[table["chip"]])
              for key, table in data.get("instance", {}).items()]
    return {(m.key, m.scope): m for m in found}


class Kernel2009(NamedTuple):
    """Operational intensity of one of the roofline paper's kernels, in FLOP/B."""

    before: Spec
    after: Spec


def load_kernels(text: str) -> dict[str, Kernel2009]:
    """The 2009 paper's kernels of a toml text in the form of machine.toml, by name."""
    table = tomllib.loads(text).get("kernels2009", {})
    rows = _specs(table)
    return {name: Kernel2009(rows[f"{name}.before"], rows[f"{name}.after"])
            for name, row in table.items() if isinstance(row, dict)}


_TEXT = files(__package__).joinpath("machine.toml").read_text("utf-8")
_MACHINES = load(_TEXT)
KERNELS_2009 = MappingProxyType(load_kernels(_TEXT))
INSTANCES = MappingProxyType({k: m for (k, scope), m in _MACHINES.items() if scope == "instance"})
# The chips, each at its smallest scope: a core of a Neuron chip, the whole device of the others.
ALL: Mapping[str, Machine] = MappingProxyType({
    key: m for (key, scope), m in _MACHINES.items()
    if scope == "core" or (scope == "device" and (key, "core") not in _MACHINES)})


def get(key: str, scope: str | None = None) -> Machine:
    """The machine called `key`, at its smallest scope unless one is named.

    >>> get("trn2").ridge("bf16"), get("trn2", "lnc2").bw()
    (209.7152, 750000000000)

    Raises MachineError for an unknown key or scope.
    """
    scopes = {s: m for (k, s), m in _MACHINES.items() if k == key}
    if not scopes:
        raise _known("no such machine", key, {**ALL, **INSTANCES})
    if scope is not None and scope not in scopes:
        raise _known(f"{key}: no such scope", scope, scopes,
                     "Only two cores that share an HBM stack make a logical core (LNC=2)."
                     if scope == "lnc2" else "")
    return next(iter(scopes.values())) if scope is None else scopes[scope]


def __getattr__(name: str) -> Machine:
    if name in ALL:
        return ALL[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; machines: "
                         f"{', '.join(ALL)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *ALL])
