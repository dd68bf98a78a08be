"""Keep a profile as a file of the profiler's own kind, so that what reads real ones reads it.

Question  how is a modelled profile, or one that came in another format, saved?
Answer    write(profile, path, "json" or "parquet"): Neuron Profile 2.28's json, one file, or the
          tables of Neuron Explorer's schema 7.4, one directory
Assumes   a whole profile, not a window of one
Ignores   what no part of this library reads: samples over time, semaphores, compiler levels

What the profile does not know is left out (json) or null (parquet), never 0.
"""

import contextlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..table import printable
from ..timeline import (
    DTYPES,
    ENGINES,
    MATMUL,
    WAITS,
    Instructions,
    Packets,
    Spans,
    Throttles,
    Timeline,
)
from .columns import NAMES, TINY
from .facts import METADATA, MOVED, UNSURE, throttle_cells, throttle_keys
from .parquet import arrow
from .record import Profile, ProfileError

# Name of a column -> its values: an array, a list with None for unknown, None for all unknown.
Table = dict[str, Any]
SCHEMA, DATA_VERSION = "7.4.0", 8  # Neuron Explorer 2.31's; Neuron Profile 2.28's
WRITER = "roofline"                # so that we replace files of our own and nobody else's
_HEAD = f'{{"profile_info": [{{"written_by": "{WRITER}"}}],\n'


def write(profile: Profile, path: Path | str, format: str = "json") -> Path:
    """Save a profile, whole or not at all; returns the path.

    format   "json": a file; "parquet": a directory of <Table>.parquet files
    A file or directory that this function wrote earlier is replaced, but no other kind by a
    modelled profile; anything else is left.
    Raises ProfileError when the path holds something else, cannot be written, or the profile is
    a window: its summary would be that of a part and its timeline that of the whole.
    """
    path = Path(path).resolve()
    if format not in ("json", "parquet"):
        raise ProfileError(f"format: expected 'json' or 'parquet', got {format!r}")
    if profile.span is not None:
        begin, end = profile.span
        raise ProfileError(f"{printable(profile.name, 200)}: this is a window of a profile, "
                           f"{begin:,} to {end:,} ns. Write the whole one and take the window of "
                           "what read() returns")
    name = printable(path.name, 200)
    tables = _tables(profile)
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        refuse_others(path, format, profile.kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        (_save_json if format == "json" else _save_parquet)(tables, part)
        _move(part, path)
    except OSError as error:
        raise ProfileError(f"{name}: not saved ({error.strerror or error}); what was there is "
                           "as it was. Free some space or pass another folder") from None
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(OSError):
            part.unlink()
    return path


# --- where it goes -------------------------------------------------------------------------------


def refuse_others(path: Path, format: str, kind: str = "measured") -> None:
    """Nothing there, an empty directory, or what write() left there. Raises ProfileError.

    kind   of the profile to come: a modelled one replaces modelled ones alone
    """
    if not path.exists():
        return
    name = printable(path.name, 200)
    found = "a file that is no profile written by roofline" if path.is_file() else "a directory"
    ours = False
    if format == "json" and path.is_file():
        with path.open("rb") as file:
            ours = file.read(len(_HEAD)) == _HEAD.encode()
    elif format == "parquet" and path.is_dir():
        other = next((file.name for file in sorted(path.iterdir()) if not _ours(file)), None)
        ours = other is None
        found = f"a directory with {printable(other, 80)!r}, which roofline did not write"
    if not ours:
        raise ProfileError(f"{name}: there is {found}; it was left as it is. "
                           "Save under another name")
    if kind == "modelled" and (path.is_file() or any(path.iterdir())):
        from .read import read
        if (there := read(path).kind) != "modelled":
            raise ProfileError(f"{name}: a {there} profile is there, and this one is modelled: a "
                               "model takes the place of no measurement; it was left as it is. "
                               "Save under another name, such as model.json")


def _ours(file: Path) -> bool:
    pa, _, pq = arrow()
    if file.suffix != ".parquet" or not file.is_file():
        return False
    try:
        return (pq.read_schema(file).metadata or {}).get(b"written_by") == WRITER.encode()
    except (OSError, pa.ArrowException):
        return False


def _move(part: Path, path: Path) -> None:
    """Put the new one in the old one's place; a directory's old one returns when that fails."""
    if not path.is_dir():
        os.replace(part, path)
        return
    old = part.with_suffix(".old")
    os.rename(path, old)
    try:
        os.rename(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


# --- what is in it: tables and columns of schema 7.4 ---------------------------------------------


def _tables(profile: Profile) -> dict[str, Table]:
    """Every table by its name in schema 7.4. One without rows has no file there, but an empty
    one of a timeline is kept: it says that there were none."""
    throttle, rest = throttle_cells(_known(profile.summary))
    tables: dict[str, Table] = {
        "Summary": {name: [value] for name, value in rest.items()},
        "Metadata": {name: [value] for name, value in _metadata(profile).items()},
        "ThrottleSummary": {name: [row[name] for row in throttle]
                            for name in (throttle[0] if throttle else ())},
        "Warning": {"message": list(profile.warnings), "category": [""] * len(profile.warnings)},
        "TensorInfo": {
            "variable_name": [tensor.name for tensor in profile.tensors],
            "type": [tensor.role for tensor in profile.tensors],
            "shape": [f"[{' '.join(map(str, tensor.shape))}]" for tensor in profile.tensors],
            "size": [tensor.nbytes for tensor in profile.tensors]}}
    tables = {name: table for name, table in tables.items() if _rows(table)}
    own = profile.timeline
    if own is None:
        return tables
    if "instructions" not in own.unknown:
        tables["Instruction"] = _without(_instruction(own.instructions), own.unknown)
        if "instructions.after" not in own.unknown:
            tables["Flow"] = _flow(own.instructions)
        tables["ActiveTime"] = _active(own)
    if "packets" not in own.unknown:
        tables["DmaPacket"] = _without(_packet(own.packets), own.unknown)
    if "throttles" not in own.unknown:
        tables["Throttle"] = _throttle(own.throttles)
    return tables


def _rows(table: Table) -> int:
    return max((len(values) for values in table.values() if values is not None), default=0)


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without NaN, which is how old profilers write unknown; NumPy's numbers as Python's."""
    plain = {name: value.item() if isinstance(value, np.generic) else value
             for name, value in values.items()}
    return {name: value for name, value in plain.items()
            if value is not None and not (isinstance(value, float) and not math.isfinite(value))}


def _metadata(profile: Profile) -> dict[str, Any]:
    known = _known(profile.metadata) | {"is_simulation": profile.kind == "modelled"}
    if UNSURE not in profile.warnings:
        known["num_physical_cores"] = profile.cores
        known.setdefault("vnc_enabled", profile.cores > 1)
    if profile.timeline is not None:
        end = int(profile.timeline.end)
        last = np.datetime_as_string(np.datetime64(end, "ns"))
        known |= {"first_hw_timestamp": 0, "first_ts": "1970-01-01T00:00:00Z",
                  "last_hw_timestamp": end, "last_ts": f"{last}Z"}
    return known


# What a column of Timeline.unknown is called here. A required one becomes null, others vanish.
_UNKNOWN = {
    "instructions.macs": ("tensor_elements", "raw_flops", "flops_transpose"),
    "instructions.read": ("hbm_read_bytes",), "instructions.written": ("hbm_write_bytes",),
    "instructions.line": ("nki_source_location",),
    "instructions.transpose": ("tensor_instruction_type", "flops_transpose"),
    "instructions.dtype": ("operands",), "instructions.passes": ("bir_id", "raw_bir_id"),
    "packets.engine": ("engine_idx",),
    "packets.traffic": ("queue_type",), "packets.id": ("packet_aggregation_id",)}


def _without(table: Table, unknown: frozenset[str]) -> Table:
    return table | {name: None for column in unknown for name in _UNKNOWN.get(column, ())
                    if name in table}


def _names(codes: NDArray[Any], names: Sequence[str]) -> NDArray[np.object_]:
    """Text of coded values."""
    table = np.empty(max(len(names), 1), object)
    table[:len(names)] = names
    return table[codes]


def _spans(start: NDArray[Any], end: NDArray[Any]) -> Table:
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start}


def _instruction(own: Instructions) -> Table:
    group = _groups(own)
    kinds = np.where(own.transpose, 2, own.works)
    return _spans(own.start, own.end) | {
        "engine": _names(own.engine, [_ENGINES[name] for name in ENGINES]),
        "pcore_idx": own.core,
        "opcode": _names(own.opcode, own.opcodes),
        "operands": _operands(own),
        "id": own.id,
        "pc": None,
        "bir_id": [f"sg{core:04d}:{group}"
                   for core, group in zip(own.core.tolist(), group.tolist(), strict=True)],
        "raw_bir_id": group,
        "nki_source_location": _names(own.line, own.lines),
        "hbm_read_bytes": own.read,
        "hbm_write_bytes": own.written,
        "tensor_instruction_type": _names(kinds, ["", "REGULAR", "TRANSPOSE"]),
        "tensor_elements": own.macs,
        "raw_flops": 2 * own.macs,
        "flops_transpose": 2 * own.macs * own.transpose}


_ENGINES = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd",
            "sync": "Sync"}


def _groups(own: Instructions) -> NDArray[np.int64]:
    """A number for each compiler instruction, from 1: the passes of one matmul share it."""
    group = np.arange(1, len(own) + 1)
    for core in np.unique(own.core):
        rows = np.flatnonzero(own.is_opcode(MATMUL) & (own.core == core))
        passes = own.passes[rows]
        place = np.arange(rows.size)
        changes = np.r_[True, passes[1:] != passes[:-1]][:rows.size]
        since = place - np.maximum.accumulate(np.where(changes, place, 0))
        group[rows] = group[rows[place - since % np.maximum(passes, 1)]]
    return group


def _operands(own: Instructions) -> NDArray[np.object_]:
    """What a MATMUL multiplies, as the profiler prints it: see columns.OPERANDS."""
    text = np.full(len(own), "", object)
    rows = np.flatnonzero(own.is_opcode(MATMUL))
    shape = np.stack([own.dtype[rows], own.moving[rows], own.rows[rows], own.columns[rows]], 1)
    kinds, which = np.unique(shape, axis=0, return_inverse=True)
    text[rows] = _names(which.reshape(-1), [
        f"src={_DTYPES[dtype]}@0x0[1,0,0][{N},1,1] dst=0x0[1,0,0][{N},1,1] {K}*{M} "
        for dtype, N, K, M in kinds.tolist()])
    return text


_DTYPES = [{"": "unknown", "bf16": "bfloat16"}.get(name, name) for name in DTYPES]


def _flow(own: Instructions) -> Table:
    """Who waited for whom: `in` comes first."""
    counts = np.diff(own.first)
    owner = np.repeat(np.arange(counts.size), counts)
    return {"in_id": own.id[own.after], "out_id": own.id[owner],
            "in_table": ["instruction"] * owner.size, "out_table": ["instruction"] * owner.size}


def _packet(own: Packets) -> Table:
    """The schema wants what was read and what was written: both are taken to be what was moved."""
    took = own.end - own.start
    return _spans(own.start, own.end) | {
        "pcore_idx": own.core,
        "id": np.arange(1, len(own) + 1),
        "packet_idx": None,
        "packet_aggregation_id": own.id,
        "engine_idx": np.ma.masked_array(own.engine, own.engine < 0),
        "read_bytes": own.nbytes,
        "write_bytes": own.nbytes,
        "transfer_bytes": own.nbytes,
        "throughput": np.ma.masked_array(own.nbytes * 1e9 / np.maximum(took, 1), took == 0),
        "queue_type": _names((own.traffic | (own.nbytes <= TINY)).astype(int),
                             ["instruction", "unknown"]),
        "crc": None}


def _throttle(own: Throttles) -> Table:
    """Which rule throttled (its type) is not known here."""
    return {"timestamp": own.start, "duration": own.end - own.start, "k": own.k, "n": own.n,
            "type": None, "pcore_idx": own.core}


def _active(timeline: Timeline) -> Table:
    """When each engine of each core was active as the profiler means it; see Timeline.activity."""
    own = timeline.instructions
    rows = []
    for core in range(timeline.cores):
        for i, engine in enumerate(ENGINES):
            which = (own.core == core) & (own.engine == i) & ~own.is_opcode(WAITS)
            spans = (timeline.active.get((core, engine), Spans.none()) if timeline.active
                     else Spans.of(own.start[which], own.end[which]))
            rows += [(start, end, engine, core, end - start) for start, end in spans]
    return {name: [row[i] for row in rows] for i, name in enumerate(
        ("start_ts", "end_ts", "engine", "pcore_idx", "duration_ns"))}


# --- parquet -------------------------------------------------------------------------------------

# Types of schema 7.4: i int64, j int32, f float, s text, b boolean; * required, so null if unknown.
_TYPES = {table: dict(column.split(":") for column in columns.split()) for table, columns in {
    "Instruction": "engine:s* opcode:s* operands:s* pc:i* bir_id:s* nki_source_location:s "
                   "tensor_instruction_type:s",
    "Flow": "in_table:s* out_table:s*",
    "ActiveTime": "engine:s*",
    "DmaPacket": "packet_idx:j* packet_aggregation_id:i* throughput:f* queue_type:s* crc:i*",
    "Throttle": "k:j* n:j* type:s*",
    "ThrottleSummary": "nc_idx:j* throttle_type:s throttle_active_time_percent:f "
                       "max_achievable_util_with_throttling_percent:f",
    "Warning": "message:s* category:s*", "TensorInfo": "variable_name:s type:s shape:s",
    "Summary": "",
    "Metadata": "profile_schema_version:s* ntff_version:j* num_physical_cores:j* vnc_enabled:b* "
                "first_hw_timestamp:i* last_hw_timestamp:i* first_ts:s* last_ts:s* "
                "dma_ddr_bandwidth:f* num_dma_engines_per_neuroncore:j* hbm_ddr_bandwidth:f* "
                "tensor_engine_num_rows:i* tensor_engine_num_cols:i* tensor_engine_clock_freq:f* "
                "vector_engine_clock_freq:f* vector_engine_num_channels:i* "
                "scalar_engine_clock_freq:f* scalar_engine_num_channels:i* "
                "gpsimd_engine_clock_freq:f* gpsimd_engine_num_channels:i* "
                "neuroncore_clock_freq:f* ticks_per_nanosec:i* ultraserver_size:j "
                "ultraserver_instance_index:j"}.items()}
# Other columns of Metadata there; what older formats have besides has no place in it.
_METADATA = {*_TYPES["Metadata"], *METADATA.values(), *MOVED.values(), "is_simulation",
             "profile_name", "s3_bucket_path", "ultraserver_id", "ultraserver_type"}
# Names of fractions and times in Summary; of the other columns a value tells, and i is the rest.
_FLOATS = re.compile(r".*(_percent|_freq|_bandwidth|_ratio|_intensity|_average_bytes|"
                     r"(?<!_wait)_time)")


def _save_parquet(tables: dict[str, Table], folder: Path) -> None:
    pa, _, pq = arrow()
    more = tables["Metadata"] | {"profile_schema_version": [SCHEMA]}
    more = {name: value for name, value in more.items() if name in _METADATA}
    tables = tables | {"Metadata": more}
    folder.mkdir()
    for name, table in tables.items():
        types, rows = _TYPES[name], _rows(table)
        needed = [column for column, kind in types.items() if kind.endswith("*")]
        arrays = {column: _array(pa, column, types.get(column, ""), values, rows)
                  for column, values in (table | dict.fromkeys(set(needed) - set(table))).items()
                  if values is not None or column in needed}
        made = pa.table(arrays).replace_schema_metadata({"written_by": WRITER})
        with (folder / f"{name}.parquet").open("xb") as file:
            pq.write_table(made, file)
            file.flush()
            os.fsync(file.fileno())


def _array(pa: Any, name: str, type: str, values: Any, rows: int) -> Any:
    """An Arrow array of the type that schema 7.4 gives the column: one of _TYPES, else by its name
    and first value. A number (float) has 64 bits: 32 would round total_time to some ns."""
    some = next((value for value in values if value is not None), None) \
        if isinstance(values, list) else None
    kinds = {"s": pa.string(), "b": pa.bool_(), "f": pa.float64(), "j": pa.int32(), "i": pa.int64()}
    kind = kinds[type[:1] or (
        "s" if isinstance(some, str) else "b" if isinstance(some, bool) else
        "f" if _FLOATS.fullmatch(name) or (isinstance(some, float) and not some.is_integer())
        else "i")]
    try:
        return pa.nulls(rows, kind) if values is None else pa.array(values).cast(kind)
    except (pa.ArrowException, OverflowError) as error:
        raise ProfileError(f"{printable(name, 80)}: expected values of {kind}, as schema {SCHEMA} "
                           f"has it: {printable(error, 100)}. Nothing was saved") from None


# --- json ----------------------------------------------------------------------------------------

# Table of schema 7.4 -> its name in Neuron Profile 2.28; columns that columns.NAMES does not have,
# None: no such column there.
_JSON = {"Warning": "warnings", "TensorInfo": "neff_node", "Instruction": "instruction",
         "DmaPacket": "dma", "Throttle": "ham", "ActiveTime": "active_time"}
_OTHERS = {"end_ts": None, "raw_flops": None, "flops_transpose": None, "read_bytes": "read_size",
           "write_bytes": "write_size", "throughput": "transfer_rate"}
_SPARSE = ("elements", "hbm_read_bytes", "hbm_write_bytes", "predecessors", "nki_source_location")


def _save_json(tables: dict[str, Table], path: Path) -> None:
    """One table a line."""
    metadata = {name: values[0] for name, values in tables["Metadata"].items()}
    summary = {name: values[0] for name, values in tables.get("Summary", {}).items()}
    for row in zip(*tables.get("ThrottleSummary", {}).values(), strict=True):
        summary |= throttle_keys(dict(zip(tables["ThrottleSummary"], row, strict=True)))
    metadata.pop("profile_schema_version", None)
    summary |= {old: metadata.pop(new) for old, new in MOVED.items() if new in metadata}
    if metadata.get("num_physical_cores") == 2 and isinstance(summary.get("nc_idx"), int):
        summary["nc_idx"] = 2 * summary["nc_idx"] + 1  # this format has the sum of both cores'
    metadata = {_OLD.get(name, name): value for name, value in metadata.items()}
    found: dict[str, list[dict[str, Any]]] = {
        "summary": [summary], "metadata": [metadata | {"data_version": DATA_VERSION}]}
    for name, old in _JSON.items():
        if name not in tables:
            continue
        names = {both[0]: both[-1] for ours, both in NAMES.get(name, {}).items()
                 if ours != "group" and name != "ActiveTime"} | (
                     {} if name == "ActiveTime" else _OTHERS)  # that one is as in schema 7.4
        table = {new: values for column, values in tables[name].items()
                 if (new := names.get(column, column)) is not None}
        if name == "Instruction":
            table["label"] = np.where(table["opcode"] == MATMUL, "TensorMatrix", table["label"])
            if "Flow" in tables:
                table["predecessors"] = _predecessors(tables)
        found[old] = _objects(table)
    with path.open("x", encoding="utf-8") as file:
        file.write(_HEAD)
        file.write(",\n".join(f"{json.dumps(name)}: {json.dumps(rows, allow_nan=False)}"
                              for name, rows in found.items()))
        file.write("}\n")
        file.flush()
        os.fsync(file.fileno())


_OLD = {new: old for old, new in METADATA.items()}


def _objects(table: Table) -> list[dict[str, Any]]:
    """Columns as rows. What is unknown is left out, and what is 0 of _SPARSE, but in the first
    row: it shows that the column is there."""
    lists = {name: _cells(name, values) for name, values in table.items() if values is not None}
    return [{name: cell for name, cell in zip(lists, cells, strict=True)
             if cell is not None and (cell or not i or name not in _SPARSE)}
            for i, cells in enumerate(zip(*lists.values(), strict=True))]


def _cells(name: str, values: Any) -> list[Any]:
    cells = values if isinstance(values, list) else values.tolist()
    if name == "subgraph":
        return [f"sg{cell:02d}" for cell in cells]
    if name in ("dma_engine", "size"):
        return [None if cell is None else str(cell) for cell in cells]
    return [None if cell is None else int(cell) for cell in cells] if name == "transfer_rate" \
        else cells


def _predecessors(tables: dict[str, Table]) -> list[list[dict[str, int]]]:
    lists: dict[int, list[dict[str, int]]] = {}
    for before, after in zip(tables["Flow"]["in_id"].tolist(), tables["Flow"]["out_id"].tolist(),
                             strict=True):
        lists.setdefault(after, []).append({"id": before})
    return [lists.get(id, []) for id in tables["Instruction"]["id"].tolist()]
