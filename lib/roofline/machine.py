"""Roofs of a machine, each number with its source, and what a Count is entitled to.

Question  how fast may this work run on this machine, and which roof says so?
Answer    machine.trn2.entitle(count): the time at every roof, the largest of them, their sum
Assumes   one op at a time; W, Q and P at one scope (a core, an LNC=2 pair, a device)
Ignores   fixed costs, tile shapes, contention; a lower ceiling has to be asked for (`under`)
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from . import units
from .count import Count

KINDS = ("documented", "derived", "published", "measured", "modelled", "assumed")


class MachineError(ValueError):
    """A machine, scope, dtype, level or figure that is not there."""


def _known(what: str, got: object, known: Mapping[str, Any], hint: str = "") -> MachineError:
    return MachineError(f"{what}: got {got!r}; known: {', '.join(known)}. {hint}".rstrip())


@dataclass(frozen=True)
class Spec:
    """One number of a machine: value in base units, where it is from, when it holds.

    source   key in references.bib, then the place; of a derived number, its first input's
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
        if self.unit == "B" and self.value and self.value % 1024 == 0:
            return units.mebi(self.value)
        return units.show(self.value, self.unit, digits=4)

    def __str__(self) -> str:
        return f"{self.text} ({self.kind}: {self.holds or self.source})"

    def __repr__(self) -> str:
        about = "; ".join(filter(None, (self.holds, self.source)))
        lines = [f"{self.text} ({self.kind}: {about})"]
        return "\n".join(lines + [f"  rival {rival!r}" for rival in self.rivals])


@dataclass(frozen=True)
class Ceiling:
    """A lower roof: what is left of `roof` (a dtype's peak or a level's bandwidth), and why."""

    name: str
    spec: Spec
    why: str
    roof: str


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
                raise MachineError(f"{self.key}: {what}: expected at least one Spec > 0 in "
                                   f"{unit}, got {dict(specs)}; see machine.desktop for a pattern")
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

    def entitle(self, count: Count, extra: Mapping[str, float] | None = None) -> "Entitlement":
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
        """The same machine below the named ceilings; below several, their shares multiply."""
        machine = self
        for name in names:
            low = {c.roof: c for c in machine.ceilings if c.name == name}
            if not low:
                raise _known(f"{self.key}, {self.scope}: no such ceiling", name,
                             {c.name: c for c in machine.ceilings})
            roofs = {**machine.peaks, **machine.bandwidths}
            share = {roof: c.spec.value / roofs[roof].value for roof, c in low.items()}
            left = tuple(replace(c, spec=_scaled(c.spec, share.get(c.roof, 1), c.spec.holds))
                         for c in machine.ceilings if c.name != name)
            machine = replace(machine._with(f"{machine.name}, {name}",
                                            {roof: c.spec for roof, c in low.items()}),
                              ceilings=left)
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
        return "\n".join([f"{self.name} ({self.key}, {self.scope})", *_columns(cells)])


@dataclass(frozen=True, repr=False)
class Entitlement:
    """What the roofs allow for one count: each roof's time, the largest, and the sum.

    times   roof -> s; "compute" is the sum of W_d / P_d, the others bytes / bandwidth
    """

    machine: Machine
    count: Count
    times: Mapping[str, float]

    @property
    def t_best(self) -> float:
        """Seconds when everything overlaps: the largest time."""
        return max(self.times.values())

    @property
    def t_worst(self) -> float:
        """Seconds when nothing overlaps: the sum."""
        return sum(self.times.values())

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
    def ridge(self) -> float:
        """I* of this mix of dtypes in FLOP/B; nan for a copy, which has no dtype."""
        if not self.count.flops:
            return math.nan
        return self.count.flops / self.times["compute"] / self.machine.bw()

    def __repr__(self) -> str:
        names = {"compute": "W/P", self.machine.slow_link: "Q/BW"}
        cells = [("I", units.show(self.intensity, "FLOP/B"), "")]
        if self.count.flops:
            cells.append(("ridge", units.show(self.ridge, "FLOP/B"), ""))
        cells += [(names.get(roof, roof), units.show(time, "s"),
                   (roof if roof in names else "") + (", binds" if roof == self.binds else ""))
                  for roof, time in self.times.items()]
        cells += [("T_best", units.show(self.t_best, "s"), "all overlaps"),
                  ("T_worst", units.show(self.t_worst, "s"), "nothing overlaps"),
                  ("rate", units.show(self.rate, "FLOP/s"), "W/T_best")]
        return "\n".join([f"entitlement on {self.machine.name} ({self.machine.scope})",
                          *_columns(cells)])


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            .rstrip() for row in rows]


# --- from machine.toml to machines ----------------------------------------------------------

def _specs(table: Mapping[str, Any], source: str = "", kind: str = "documented",
           prefix: str = "") -> dict[str, Spec]:
    """Rows of a toml table as Specs; nested names are joined with dots."""
    found: dict[str, Spec] = {}
    source, kind = table.get("source", source), table.get("kind", kind)
    for name, row in table.items():
        if isinstance(row, dict) and "value" not in row:
            found |= _specs(row, source, kind, f"{prefix}{name}.")
        elif name not in ("name", "core_name", "like", "chip", "source", "kind"):
            rows = row if isinstance(row, list) else [row]
            first, *rest = (_spec(one, source, kind) for one in rows)
            found[prefix + name] = replace(first, rivals=tuple(rest))
    return found


def _spec(row: str | Mapping[str, str], source: str, kind: str) -> Spec:
    row = {"value": row} if isinstance(row, str) else row
    number, _, unit = row["value"].partition(" ")
    factor, base = units.UNITS[unit]
    exact = Decimal(number) * Decimal(factor)  # 1.12 GHz is 1120000000 Hz, to the last digit
    value = int(exact) if exact == int(exact) else float(exact)
    return Spec(value, base, row.get("source", source), row.get("kind", kind),
                row.get("holds", ""))


def _product(unit: str, *inputs: "Spec | float", holds: str = "", rivals: Any = ()) -> Spec:
    """The product of some rows, derived; it cites the first and says the arithmetic."""
    values = [x.value if isinstance(x, Spec) else x for x in inputs]
    how = " x ".join(x.text if isinstance(x, Spec) else f"{x:g}" for x in inputs)
    source = next(x.source for x in inputs if isinstance(x, Spec))
    return Spec(math.prod(values), unit, source, "derived", f"{how}; {holds}".rstrip("; "),
                tuple(rivals))


def _scaled(spec: Spec, times: float, holds: str) -> Spec:
    """A roof of several cores, or a share of one; its rivals scale alike."""
    return Spec(spec.value * times, spec.unit, spec.source, "derived", holds,
                tuple(_scaled(rival, times, holds) for rival in spec.rivals))


def _flat(*specs: Spec | None) -> tuple[Spec, ...]:
    """Specs and their own rivals, side by side."""
    return tuple(one for spec in specs if spec
                 for one in (replace(spec, rivals=()), *spec.rivals))


def _like(data: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, dict[str, Spec]]:
    """Rows of a chip per scope, on top of those of the chip it is like."""
    rows = _like(data, data[table["like"]]) if "like" in table else {}
    return {scope: rows.get(scope, {}) | _specs(table.get(scope, {}))
            for scope in ("core", "stack", "device")}


def _of(rows: Mapping[str, Spec], stem: str) -> list[tuple[str, Spec]]:
    """(dtype, Spec) of every row "stem.dtype"; dtype "" for a plain "stem"."""
    return [(name.removeprefix(stem).removeprefix("."), spec) for name, spec in rows.items()
            if name == stem or name.startswith(stem + ".")]


def _without(rows: Mapping[str, Spec], *stems: str) -> dict[str, Spec]:
    return {name: spec for name, spec in rows.items() if name.partition(".")[0] not in stems}


def _core(rows: dict[str, dict[str, Spec]]) -> tuple[dict[str, Spec], ...]:
    """Peaks, bandwidths and facts of one physical core."""
    core, cores, hbm = rows["core"], rows["device"]["cores"], rows["device"]["hbm_bandwidth"]
    clock, columns = core["tensor_clock"], core["tensor_array_columns"]
    peaks = {d: _product("FLOP/s", core["tensor_array_rows"], columns, 2, clock, rate,
                         holds=rate.holds, rivals=_flat(core.get(f"documented_peak.{d}")))
             for d, rate in _of(core, "pe_rate")}
    shares = [_scaled(s, 1 / cores.value, f"{s.text} over {cores.text} cores") for s in _flat(hbm)]
    for stack in rows["stack"].values():
        shares.append(_scaled(stack, 1 / 2, f"{stack.text} over 2 cores; {stack.holds}"))
    dma = [_product("B/s", core["dma_engines"], core[f"dma_engine_{name}"],
                    holds=core[f"dma_engine_{name}"].holds)
           for name in ("bandwidth", "theoretical")]
    bandwidths = {
        "HBM": replace(shares[0], rivals=(*shares[1:], *_flat(core.get("figure_hbm_bandwidth")))),
        "DMA": replace(dma[0], rivals=(*dma[1:], *_flat(core.get("dma_profiler_bandwidth"))))}

    facts = _without(core, "pe_rate", "documented_peak")
    if "gpsimd_lanes" in core:
        facts["gpsimd_width"] = _product("", core["gpsimd_processors"], core["gpsimd_lanes"])
    for engine in ("vector", "scalar", "gpsimd"):
        for d, width in _of(facts, f"{engine}_width"):
            facts[f"{engine}_element_rate.{d}".rstrip(".")] = _product(
                "element/s", width, core[f"{engine}_clock"], holds=width.holds)
    for d, width in _of(core, "tensor_input_width"):
        facts[f"tensor_input_bandwidth.{d}"] = _product("B/s", width, 2 if d == "bf16" else 1,
                                                        clock)
    for d, width in _of(core, "vector_width"):
        if d == "fp32":
            facts["vector_port_bandwidth"] = _product("B/s", width, 4, core["vector_clock"],
                                                      holds="each direction")
    if "sbuf_interface_rate" in core:
        facts["sbuf_interface_bandwidth.fp32"] = _product("B/s", core["sbuf_interface_rate"], 4)
    facts["psum_write_bandwidth.fp32"] = _product("B/s", columns, 4, clock)
    facts["psum_bank_partition_bytes"] = _product("B", core["psum_bank_fmax"], 4)
    facts.setdefault("sbuf_partition_bytes", _scaled(
        core["sbuf_bytes"], 1 / core["pmax"].value, f"over {core['pmax'].text} partitions"))
    return peaks, bandwidths, facts


def _sums(facts: Mapping[str, Spec], n: int) -> dict[str, Spec]:
    """What n cores have together."""
    return {name: _scaled(spec, n, f"{n} cores") for name, spec in facts.items()
            if name in ("sbuf_bytes", "psum_bytes", "dma_engines") or "_element_rate" in name}


def _neuron(key: str, table: Mapping[str, Any], rows: dict[str, dict[str, Spec]]
            ) -> list[Machine]:
    """One chip at scope core, lnc2 (where two cores share an HBM stack) and device."""
    peaks, bandwidths, facts = _core(rows)
    device, n = rows["device"], int(rows["device"]["cores"].value)
    known = _without(device, "documented_peak", "hbm_bandwidth", "dma_bandwidth", "link_bandwidth")
    stacks = device["hbm_stacks"]
    known.setdefault("cores_per_hbm_stack", _scaled(device["cores"], 1 / stacks.value,
                                                    f"over {stacks.text} stacks"))
    known["hbm_stack_bytes"] = _scaled(device["hbm_bytes"], 1 / stacks.value,
                                       f"over {stacks.text} stacks")
    dma = [_product("B/s", device["dma_engines"], rows["core"][f"dma_engine_{name}"])
           for name in ("bandwidth", "theoretical")]
    whole = {"HBM": replace(device["hbm_bandwidth"], rivals=(
                 *device["hbm_bandwidth"].rivals,
                 *(_product("B/s", stack, stacks) for stack in rows["stack"].values()))),
             "DMA": replace(dma[0], rivals=(device["dma_bandwidth"], *dma[1:]))}
    if "link_bandwidth" in device:
        whole["link"] = device["link_bandwidth"]
    if "neuronlink_bandwidth" in device:
        tiers = [device[f"link_{tier}"] for tier in ("intra_server", "inter_server", "inter_rack")]
        total, odd = known["neuronlink_bandwidth"], sum(tier.value for tier in tiers)
        known["neuronlink_bandwidth"] = replace(total, rivals=(*total.rivals, Spec(
            odd, "B/s", tiers[0].source, "derived", "the three tiers added; unresolved")))

    def scaled(roofs: Mapping[str, Spec], times: int) -> dict[str, Spec]:
        return {name: _scaled(s, times, f"{times} cores") for name, s in roofs.items()}

    device_peaks = {d: replace(s, rivals=_flat(device.get(f"documented_peak.{d}")))
                    for d, s in scaled(peaks, n).items()}
    device_peaks |= {d: s for d, s in _of(device, "documented_peak") if d not in peaks}
    label = f"{table['name']}, one "
    machines = [
        Machine(key, f"{label}{table['core_name']}", "core", peaks, bandwidths, (), facts),
        Machine(key, f"{label}device ({n} cores)", "device", device_peaks, whole, (),
                {**_sums(facts, n), **known})]
    if known["cores_per_hbm_stack"].value == 2:
        known["logical_cores_lnc2"] = _scaled(device["cores"], 1 / 2, "LNC=2")
        machines[1] = replace(machines[1], facts={**machines[1].facts, **known})
        machines.append(Machine(
            key, f"{label}logical core (LNC=2)", "lnc2", scaled(peaks, 2), scaled(bandwidths, 2),
            (), {**_sums(facts, 2), "hbm_bytes": known["hbm_stack_bytes"]}))
    if "throttle_start" in facts:
        start = facts["throttle_start"]
        machines = [replace(m, ceilings=tuple(
            Ceiling("throttled", _scaled(s, start.value, f"{start.holds}; {start.source}"),
                    f"for the first {facts['throttle_time'].text} after idling", d)
            for d, s in m.peaks.items())) for m in machines]
    return machines


def _chip(key: str, table: Mapping[str, Any]) -> Machine:
    """A GPU or TPU: one device, as its sheet says."""
    rows = _specs(table)
    return Machine(key, table["name"], "device", dict(_of(rows, "peak")),
                   {"HBM": rows["hbm_bandwidth"], "link": rows["link_bandwidth"]}, (),
                   _without(rows, "peak", "hbm_bandwidth", "link_bandwidth"))


def _instance(key: str, table: Mapping[str, Any], device: Machine) -> Machine:
    """An EC2 instance: as its page says; what the page leaves out is devices x one device."""
    rows = _specs(table)
    n = int(rows["devices"].value)
    peaks = dict(_of(rows, "peak")) or {
        d: _scaled(s, n, f"{n} devices") for d, s in device.peaks.items()}
    facts = _without(rows, "peak", "hbm_bandwidth", "link_bandwidth", "efa_bandwidth")
    for name in ("cores", "logical_cores_lnc2", "hbm_bytes"):
        if name in device.facts:
            facts.setdefault(name, _scaled(device.facts[name], n, f"{n} devices"))
    levels = {"HBM": rows.get("hbm_bandwidth") or _scaled(device.bandwidths["HBM"], n,
                                                          f"{n} devices"),
              "link": rows.get("link_bandwidth"), "EFA": rows.get("efa_bandwidth")}
    return Machine(key, key, "instance", peaks, {k: v for k, v in levels.items() if v}, (), facts)


def _desktop(key: str, table: Mapping[str, Any]) -> Machine:
    """The worked-example CPU: every roof and ceiling from its assumed inputs."""
    row = _specs(table)
    cores, fma, lanes, clock = (row[n] for n in ("cores", "fma_units", "simd_lanes", "clock"))
    peaks = {"fp32": _product("FLOP/s", cores, fma, lanes, 2, clock)}
    channel = _product("B/s", row["dram_channel_bytes"], row["dram_transfer_rate"])
    levels = {"DRAM": _product("B/s", row["dram_channels"], row["dram_channel_bytes"],
                               row["dram_transfer_rate"])}
    levels |= {f"L{i}": _product("B/s", cores, row[f"l{i}_width"], clock,
                                 holds=row[f"l{i}_width"].holds) for i in (3, 2, 1)}
    one = 1 / cores.value
    used = row["line_used_bytes"].value / row["line_bytes"].value
    low = [("no FMA", "fp32", 1 / 2, "adds and multiplies apart, each its own instruction"),
           ("no SIMD", "fp32", 1 / lanes.value, "one element an instruction"),
           ("no ILP", "fp32", 1 / row["fma_latency"].value / fma.value,
            "each multiply-add waits for the one before, so one is in flight"),
           ("one core", "fp32", one, "the other cores idle"),
           *(("one core", f"L{i}", one, "a core brings its own cache ports") for i in (3, 2, 1)),
           ("one channel", "DRAM", channel.value / levels["DRAM"].value,
            "memory in one slot, or all pages on one channel"),
           ("strided", "DRAM", used, f"{row['line_used_bytes'].text} used of each line moved")]
    roofs = {**peaks, **levels}
    return Machine(key, table["name"], "device", peaks, levels, tuple(
        Ceiling(name, _scaled(roofs[roof], share, f"{share:g} of {roofs[roof].text}; {why}"),
                why, roof) for name, roof, share, why in low), row)


def load(text: str) -> dict[tuple[str, str], Machine]:
    """Every machine of a toml text in the form of machine.toml, by (key, scope)."""
    data = tomllib.loads(text)
    found: list[Machine] = []
    for key, table in data.items():
        if "core_name" in table:
            found += _neuron(key, table, _like(data, table))
    machines = {(m.key, m.scope): m for m in found}
    found = [_chip(key, table) for key, table in data.get("chip", {}).items()]
    found += [_instance(key, table, machines[table["chip"], "device"])
              for key, table in data.get("instance", {}).items()]
    found += [_desktop("desktop", data["desktop"])] if "desktop" in data else []
    return machines | {(m.key, m.scope): m for m in found}


_MACHINES = load(files(__package__).joinpath("machine.toml").read_text("utf-8"))
INSTANCES = MappingProxyType({k: m for (k, scope), m in _MACHINES.items() if scope == "instance"})
# The chips, each at its smallest scope: a core of a Neuron chip, the whole device of the others.
ALL: Mapping[str, Machine] = MappingProxyType({
    key: m for (key, scope), m in _MACHINES.items()
    if scope == "core" or (scope == "device" and (key, "core") not in _MACHINES)})


def get(key: str, scope: str | None = None) -> Machine:
    """The machine called `key`, at its smallest scope unless one is named.

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
