"""A profile's single values under one set of names, checked, and the Profile made of them.

Question  what do Summary and Metadata of any version say, and can it be?
Answer    assemble(...) -> Profile: names of summary-json for Summary, of schema 7.x for Metadata
Assumes   values as the file has them: str, int, float, bool; None or "" where it has none
Ignores   rows (columns) and what the values mean for speed (formulas)
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..table import printable
from ..timeline import ENGINES, Timeline
from . import formulas
from .columns import LONGEST, Table, cores_seen
from .columns import timeline as timeline_of
from .record import Profile, ProfileError, Tensor, Value

# Metadata: Neuron Profile 2.26 to 2.28 -> schema 7.x. The second group stood in Summary.
METADATA = {
    "pe_num_rows": "tensor_engine_num_rows", "pe_num_cols": "tensor_engine_num_cols",
    "pe_clock_freq": "tensor_engine_clock_freq", "pe_clock_others": "neuroncore_clock_freq",
    "profiler_build_time": "explorer_build_time"}
MOVED = {
    "instance_type": "instance_type", "nd_idx": "neuron_device_idx", "nc_idx": "neuroncore_idx",
    "profiler_version": "explorer_version", "compiler_version": "compiler_version",
    "runtime_version": "runtime_version", "driver_version": "driver_version",
    "collectives_version": "collectives_version"}
FRACTIONS = tuple(f"{name}_active_time_percent" for name in
                  (*(f"{engine}_engine" for engine in ENGINES), "dma", "total"))
TIMES = tuple(name.removesuffix("_percent") for name in FRACTIONS)
KNOWN_DATA, KNOWN_SCHEMA = 8, ((7, 0), (7, 4))  # the newest data, the schemas this was tried on
UNSURE = "how many physical cores this was is not in the file: read as 1"
HZ = (1e8, 1e10)                 # a NeuronCore's clock lies between these: else the unit is wrong
SECONDS = "Divide it by 1e6 if it was written in us, by 1e9 if in ns"
ROUNDING = 1.01                  # parts of a whole may exceed it by rounding, not by 1 %


def values(where: str, given: Mapping[str, Any]) -> tuple[dict[str, Value], list[str]]:
    """The values that are there, and warnings; `where` is "trace.json: summary".

    None, "" and lists say nothing and are left out. NaN is an error, except where profilers of
    2024 write it for unknown: the mfu_* ratios.
    """
    found: dict[str, Value] = {}
    warnings = []
    for key, value in given.items():
        name = printable(key, 100)
        if isinstance(value, str):
            value = printable(value)
        elif value is not None and not isinstance(value, (int, float)):
            continue  # a table within the record: no single value
        if value is None or value == "":
            continue
        if isinstance(value, float) and not math.isfinite(value):
            if name.startswith("mfu_"):
                warnings.append(f"{name} is {value} in the file: unknown")
                continue
            raise ProfileError(f"{where}.{name}: expected a number, got {value}. Write the "
                               "profile anew with a later profiler, or take this key out")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ProfileError(f"{where}.{name}: expected a number of at most 63 bits, got one of "
                               f"{value.bit_length()} bits")
        found[name] = value
    return found, warnings


def tensors(where: str, rows: Iterable[Mapping[str, Any]]) -> tuple[Tensor, ...]:
    """The compiled kernel's tensors, of rows of TensorInfo; blank rows are no tensor.

    The profiler prints a shape as "[128 512]"; its bytes may be text.
    """
    found = []
    for i, row in enumerate(rows):
        name, role, shape, size = map(row.get, ("variable_name", "type", "shape", "size"))
        if not role or not name:
            continue
        sizes = re.findall(r"\d{1,15}", shape) if isinstance(shape, str) else []
        text = str(size)[:40] if isinstance(size, (int, str)) else ""
        if not re.fullmatch(r"\d{1,15}", text) or isinstance(size, bool):
            raise ProfileError(f"{where}[{i}].size: expected bytes, got {printable(size, 60)}")
        found.append(Tensor(printable(name, 200), printable(role, 20),
                            tuple(map(int, sizes[:16])), int(text)))
    return tuple(found)


def messages(warnings: Iterable[Mapping[str, Any]], errors: Iterable[Mapping[str, Any]]
             ) -> list[str]:
    """Texts of the profiler's tables of warnings and errors; rows without a text are left out."""
    return [printable(before + text) for before, rows in (("", warnings),
                                                          ("error of the profiler: ", errors))
            for row in rows for text in [row.get("message") or row.get("description")]
            if isinstance(text, str)]


_THROTTLED = re.compile(r"throttle_(?:(?P<kind>.+?)_)?(?:active_nc(?P<nc>\d{1,4})_time_ns|"
                        r"(?P<what>active_time|avg_util_limit)_nc(?P<nc2>\d{1,4})_percent)")
_CELLS = {None: "throttle_active_time_ns", "active_time": "throttle_active_time_percent",
          "avg_util_limit": "max_achievable_util_with_throttling_percent"}


def throttle_keys(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ThrottleSummary by the names that summary-json gives its values.

    >>> throttle_keys({"nc_idx": 4, "throttle_type": "all", "throttle_active_time_ns": 964})
    {'throttle_active_nc4_time_ns': 964}
    """
    kind, nc = row.get("throttle_type") or "all", row.get("nc_idx")
    kind = "" if kind == "all" else f"{kind}_"
    names = {what: f"throttle_{kind}{what}_nc{nc}_percent" if what else
             f"throttle_{kind}active_nc{nc}_time_ns" for what in _CELLS}
    return {names[what]: row[cell] for what, cell in _CELLS.items() if row.get(cell) is not None}


def throttle_cells(summary: Mapping[str, Value]) -> tuple[list[dict[str, Any]], dict[str, Value]]:
    """throttle_* keys as rows of ThrottleSummary, and the other keys."""
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    rest = {}
    for key, value in summary.items():
        match = _THROTTLED.fullmatch(key)
        if match is None:
            rest[key] = value
            continue
        nc, kind = int(match["nc"] or match["nc2"]), match["kind"] or "all"
        row = rows.setdefault((nc, kind), {"nc_idx": nc, "throttle_type": kind,
                                           **dict.fromkeys(_CELLS.values())})
        row[_CELLS[match["what"]]] = value
    return list(rows.values()), rest


def version(metadata: Mapping[str, Value]) -> str:
    """Schema and profiler version in words, "" where the file says neither.

    >>> version({"data_version": 8, "explorer_version": "2.28.23.0%kaena-tools/2.28@f1c114a"})
    'data version 8, profiler 2.28.23.0'
    """
    words = {"profile_schema_version": "schema", "data_version": "data version",
             "explorer_version": "profiler"}
    return ", ".join(f"{word} {printable(str(metadata[key]).split('%')[0], 60)}"
                     for key, word in words.items() if key in metadata)


def _newer(metadata: Mapping[str, Value]) -> list[str]:
    """A warning when the file is newer than what this reader was tried on, or of older schema."""
    data, schema = metadata.get("data_version"), str(metadata.get("profile_schema_version", ""))
    number = re.match(r"(\d{1,6})(?:\.(\d{1,6}))?", schema)
    said = None
    if schema and (not number or not KNOWN_SCHEMA[0] <= (
            int(number[1]), int(number[2] or 0)) <= KNOWN_SCHEMA[1]):
        said = f"schema {printable(schema, 60)}"
    elif isinstance(data, (int, float)) and data > KNOWN_DATA:
        said = f"data version {data}"
    first, last = (".".join(map(str, known)) for known in KNOWN_SCHEMA)
    return [f"{said} is unknown to this reader (schema {first} to {last}, up to data version "
            f"{KNOWN_DATA}): what has a known name was read"] if said else []


def _positive(where: str, found: Mapping[str, Value], keys: Iterable[str]) -> None:
    for key in keys:
        value = found.get(key)
        if value is None:
            continue
        if isinstance(value, (str, bool)):
            raise ProfileError(f"{where}.{key}: expected a number, got {value!r}")
        if value < 0:
            raise ProfileError(f"{where}.{key}: expected a number >= 0, got {value}")


def check_units(file: str, summary: Mapping[str, Value], metadata: Mapping[str, Value],
                timeline: Timeline | None) -> None:
    """Raise where a time, a fraction or a count cannot be in its unit.

    total_time and the active times are seconds, *_percent fractions 0..1, timestamps ns.
    """
    where = f"{file}: summary"
    counts = [key for key in summary if re.search("_(bytes|flops|count|cycles|time|size)$", key)]
    _positive(where, summary, [*counts, *TIMES, *FRACTIONS])
    _positive(f"{file}: metadata", metadata,
              ("last_hw_timestamp", "hbm_ddr_bandwidth", "dma_ddr_bandwidth",
               "tensor_engine_clock_freq", "neuroncore_clock_freq", "num_physical_cores"))
    all_of, moved = (formulas.number(summary, f"{name}_flops")
                     for name in ("hardware", "transpose"))
    if all_of is not None and moved is not None and moved > all_of:
        raise ProfileError(f"{where}.transpose_flops: expected up to hardware_flops = "
                           f"{all_of:,.0f}, got {moved:,.0f}. The file is damaged: write it anew")
    total = formulas.number(summary, "total_time")
    if total == 0:
        raise ProfileError(f"{where}.total_time: expected seconds > 0, got 0: nothing ran")
    for key in FRACTIONS:
        share = formulas.number(summary, key)
        if share is not None and share > ROUNDING:
            raise ProfileError(f"{where}.{key}: expected a fraction 0..1, got {share:g}. Profiles "
                               "hold fractions; text copied from the viewer shows 0..100")
    for key in TIMES:
        time = formulas.number(summary, key)
        if time is not None and total is not None and time > ROUNDING * total + 1e-9:
            raise ProfileError(f"{where}.{key}: expected seconds up to total_time = {total:g}, got "
                               f"{time:g}")
    cycles = formulas.number(summary, "neuroncore_cycle_count")
    if total and cycles and not HZ[0] < cycles / total < HZ[1]:
        raise ProfileError(f"{where}.total_time: expected seconds, got {total:g}: with "
                           f"neuroncore_cycle_count = {cycles:g} the clock would be "
                           f"{cycles / total:.3g} Hz. {SECONDS}")
    last = formulas.number(metadata, "last_hw_timestamp")
    if timeline is not None and total is not None:
        end = max(int(rows.end.max(initial=0)) for rows in
                  (timeline.instructions, timeline.packets, timeline.throttles))
        ends = (("last_hw_timestamp of metadata", last or 0), ("end of the last row", end))
        for name, value in ends:
            if value > ROUNDING * total * 1e9 + 1000:
                raise ProfileError(f"{file}: {name}: expected ns up to total_time = {total:g} s, "
                                   f"got {value:,.0f}. Times of rows are ns from the start of "
                                   "execution, total_time is seconds")
        if last and total * 1e9 > ROUNDING * last + 1000:
            raise ProfileError(f"{where}.total_time: expected seconds, about last_hw_timestamp = "
                               f"{last:,.0f} ns of metadata, got {total:g}. {SECONDS}")


def _cores(file: str, summary: Mapping[str, Value], metadata: Mapping[str, Value],
           told: int | None) -> tuple[int, list[str]]:
    """Physical cores of the capture: as metadata or the reader says, else as the ratios imply."""
    cores = metadata.get("num_physical_cores", told)
    if cores is not None:
        if isinstance(cores, (bool, str)) or cores not in (1, 2):
            raise ProfileError(f"{file}: metadata.num_physical_cores: expected 1 or 2, got {cores}")
        return int(cores), []
    # hfu = F / (c P T) and mbu = B / (T BW), and the file prints P / BW: c is what is left. F is
    # adjusted_hardware_flops from 2.30 on: twice as many raw FLOPs of fp8 would pass for a core.
    keys = ("hardware_flops", "mbu_estimated_percent", "hfu_estimated_percent",
            "peak_flops_bandwidth_ratio", "hbm_read_bytes", "hbm_write_bytes")
    F, mbu, hfu, ratio, read, written = (formulas.number(summary, key) or 0.0 for key in keys)
    release = re.match(r"(\d{1,4})\.(\d{1,4})", str(metadata.get("explorer_version")))
    if not release or (int(release[1]), int(release[2])) >= (2, 30):
        F = formulas.number(summary, "adjusted_hardware_flops") or 0.0
    scale = hfu * ratio * (read + written)
    implied = F * mbu / scale if scale > 0 else 0.0
    if math.isfinite(implied) and 0.98 < implied < 2.04 and not 1.02 < implied < 1.96:
        return round(implied), []
    return 1, [UNSURE]


def assemble(file: str, name: str, format: str, *, summary: Mapping[str, Any],
             metadata: Mapping[str, Any] | None = None, timeline: Timeline | None = None,
             tables: Mapping[str, Table | None] | None = None, throttled: Sequence[Any] = (),
             tensors: Sequence[Tensor] = (), warnings: Sequence[str] = (),
             notes: Sequence[str] = (), cores: int | None = None) -> Profile:
    """The Profile of these values, renamed, checked, with what to be warned of.

    file       what errors call it
    summary    Summary as the file has it
    metadata   Metadata as the file has it, by names of any version
    timeline   made from `tables` (columns.NAMES) where it is not given
    throttled  rows of ThrottleSummary: they become throttle_* keys of the summary again
    warnings   the profiler's own; notes: the reader's
    cores      physical cores when metadata does not tell; without it as many as rows name
    Raises ProfileError when a value cannot be.
    """
    keys = {key: value for row in throttled for key, value in throttle_keys(row).items()}
    facts, odd = values(f"{file}: summary", {**summary, **keys})
    more, odd2 = values(f"{file}: metadata", metadata or {})
    known = {MOVED[key]: facts.pop(key) for key in tuple(facts) if key in MOVED}
    known |= {(METADATA | MOVED).get(key, key): value for key, value in more.items()}
    simulated = known.get("is_simulation", facts.pop("is_simulation", False))
    tables = tables or {}
    cores, unsure = _cores(file, facts, known, cores or cores_seen(tables))
    index = known.get("neuroncore_idx")
    if cores == 2 and "nc_idx" in summary and isinstance(index, int) and index % 2:
        known["neuroncore_idx"] = index // 2  # the sum of both: 9 is cores 4 and 5
    last = known.get("last_hw_timestamp", 0)
    if isinstance(last, (bool, str)) or not 0 <= last <= LONGEST or last != int(last):
        raise ProfileError(f"{file}: metadata[0].last_hw_timestamp: expected a whole number of ns "
                           f"in 0..{LONGEST}, got {printable(last, 60)}")
    own = [printable(text) for text in warnings]
    found: list[str] = []
    if timeline is None:
        timeline, found = timeline_of(tables, cores, int(last))
    check_units(file, facts, known, timeline)
    if timeline is not None and timeline.cores != cores:
        raise ProfileError(f"{file}: rows of {timeline.cores} physical cores, but "
                           f"metadata.num_physical_cores is {cores}")
    notes = [*_newer(known), *odd, *odd2, *unsure, *found, *notes]
    if (facts.get("dma_transfer_average_bytes") == 0 and "dma_transfer_total_bytes" not in facts
            and not any("dge" in text.lower() for text in own)):
        notes.append("DMA transfers are not attributed: captured without DGE notifications "
                     "(NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1)")
    made = Profile(
        name=printable(name, 200), format=format, version=version(known), summary=facts,
        metadata=known, cores=cores, timeline=timeline, tensors=tuple(tensors),
        kind="modelled" if str(simulated).lower() in ("true", "1") else "measured")
    if differ := ", ".join(row.name for row in formulas.rows(made) if row.agrees is False):
        notes.append(f"rows and summary do not agree in {differ}: rows are missing, doubled or of "
                     "another run, so what they say is not said of the whole. check() shows both")
    return replace(made, warnings=tuple(dict.fromkeys([*own, *notes])))
