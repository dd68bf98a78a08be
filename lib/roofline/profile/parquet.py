"""A directory of Neuron Explorer's tables (schema 7.x, <Table>.parquet), read column by column.

Question  what do the tables of this directory say, in the one form every profile has?
Answer    from_parquet(directory) -> Profile
Assumes   a table without rows has no file; a large one is cut into <Table>_0, <Table>_1, ...
Ignores   every table and column that no Profile has room for: they are not read from disk

A column may go by its 7.x name or by that of Neuron Profile 2.28. Text is kept as codes into the
distinct texts, and tables are read in pieces: memory is that of the columns and of one piece.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..timeline import MATMUL, Instructions, Ints, Packets
from . import columns, facts
from .columns import Read, Shapes, Text
from .record import Profile, ProfileError, Value

PIECE = 2**18  # rows decoded at once
DEEP = 4       # folders to look into: <data path>/profiles/global/<name>@latest
MANY = 10_000  # of one depth at most
DEVICE = ("Summary", "Instruction", "DmaPacket")  # a directory with one of them holds a profile
HOW = "Write the tables with a Neuron Explorer of schema 7.x: view --output-format parquet"

# Our name of a column -> the profiler's, 7.x first. Those of NEEDED must be there.
_TIMES = {"start": ("start_ts", "timestamp"), "end": ("end_ts",),
          "duration": ("duration_ns", "duration"), "core": ("pcore_idx", "subgraph")}
TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "Instruction": _TIMES | {
        "engine": ("engine", "label"), "opcode": ("opcode",), "operands": ("operands",),
        "id": ("id",), "pc": ("pc",), "group": ("raw_bir_id", "bir_id"),
        "line": ("nki_source_location",), "elsewhere": ("bir_debug_info_source_location",),
        "read": ("hbm_read_bytes",), "written": ("hbm_write_bytes",), "flops": ("raw_flops",),
        "macs": ("tensor_elements", "elements"),
        "kind": ("tensor_instruction_type", "instruction_type")},
    "DmaPacket": _TIMES | {
        "nbytes": ("transfer_bytes", "transfer_size"), "queue": ("queue_type",),
        "engine_idx": ("engine_idx", "dma_engine"), "packet": ("id",),
        "id": ("packet_aggregation_id", "id"), "duplicate": ("duplicate",)},
    "Throttle": _TIMES | {"k": ("k",), "n": ("n",), "kind": ("type",)},
    "ActiveTime": _TIMES | {"engine": ("engine",)},
    "Flow": {"before": ("in_id",), "after": ("out_id",), "from": ("in_table",),
             "to": ("out_table",)},
}
NEEDED = ("start", "engine", "opcode", "nbytes", "k", "n", "before", "after", "from", "to")
TEXT = ("engine", "opcode", "line", "elsewhere", "kind", "queue", "duplicate", "from", "to")


def arrow() -> tuple[Any, Any, Any]:
    """pyarrow, its compute and parquet modules; optional: JSON is read and written without."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.compute  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise ProfileError("Parquet tables need pyarrow, which is not here: pip install pyarrow. "
                           "Or write JSON: neuron-explorer view --output-format json") from None
    return pyarrow, pyarrow.compute, pyarrow.parquet


def from_parquet(path: Path | str) -> Profile:
    """Read a directory of <Table>.parquet files, or a folder above that holds just one.

    Raises ProfileError: none or several there, a file that is cut or foreign, a column missing
    that nothing can be read without, values that cannot be.
    """
    directory = _find(Path(path))
    name = _name(directory)
    metadata = _record(directory, "Metadata")
    schema = str(metadata.get("profile_schema_version") or "")
    cores = metadata.get("num_physical_cores")
    if cores not in (1, 2):
        cores = 1 + max(_last_core(directory, table) for table in ("Instruction", "DmaPacket"))
    own = _instructions(_read(directory, "Instruction", schema), directory, schema, cores)
    moved = _packets(_read(directory, "DmaPacket", schema), cores)
    slow, on = _read(directory, "Throttle", schema), _read(directory, "ActiveTime", schema)
    throttled = Read(columns.no_throttles()) if slow is None else columns.throttles(
        slow.where, core=slow.core(cores), start=slow.ints["start"], end=slow.end, k=slow.ints["k"],
        n=slow.ints["n"], kind=slow.texts.get("kind"), names=slow.times)
    active = {} if on is None else columns.active(
        on.where, core=on.core(cores), engine=on.texts["engine"], start=on.ints["start"],
        end=on.end, names=on.times)
    last = metadata.get("last_hw_timestamp")
    timeline, notes = columns.timeline(
        cores, last if isinstance(last, int) else None, own, moved, throttled, active)
    summary = _record(directory, "Summary")
    if not summary:
        notes.append("no Summary in this directory: counters are unknown")
    for row in _rows(directory, "ThrottleSummary"):
        summary |= throttle_keys(row)
    sizes = [tuple(row.get(key) for key in ("variable_name", "type", "shape", "size"))
             for row in _rows(directory, "TensorInfo")]
    return facts.assemble(
        name, name, "parquet", summary=summary, metadata=metadata, timeline=timeline,
        tensors=facts.tensors(f"{name}: TensorInfo", sizes),  # type: ignore[arg-type]
        warnings=[*(str(row.get("message")) for row in _rows(directory, "Warning")),
                  *(f"error of the profiler: {row.get('description')}"
                    for row in _rows(directory, "Error"))],
        notes=notes, cores=cores)


# --- throttle_* keys and the table they moved to -------------------------------------------------

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


# --- files ---------------------------------------------------------------------------------------


def _find(path: Path) -> Path:
    """The directory with the tables of one device profile: this one, or the only one below."""
    name = _name(path)
    if not path.exists():
        raise ProfileError(f"{name}: there is no such directory")
    if path.is_file():
        path = path.parent
    level, inner = [path], []
    for _ in range(DEEP + 1):
        inner += [folder for folder in level if any(_files(folder, table) for table in DEVICE)]
        if inner == [path]:
            return path
        level = [below for folder in level for below in _folders(folder)][:MANY]
    if not inner:
        raise ProfileError(f"{name}: no Summary, Instruction or DmaPacket table in it or {DEEP} "
                           "folders down: expected <Table>.parquet files of a device profile, as "
                           "neuron-explorer view --output-format parquet writes them")
    if len(inner) > 1:
        some = ", ".join(str(folder.relative_to(path)) for folder in inner[:5])
        raise ProfileError(f"{name}: {len(inner)} profiles in it: read one of "
                           f"{columns.printable(some, 300)}{', ...' if len(inner) > 5 else ''}")
    return inner[0]


def _folders(folder: Path) -> list[Path]:
    """Folders in a folder, in order; none of one that may not be listed."""
    with contextlib.suppress(OSError):
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    return []


def _name(path: Path) -> str:
    return columns.printable(path.name or path.absolute().name, 200)


def _files(directory: Path, table: str) -> list[Path]:
    """The table's files in order: itself, or _0, _1, ... in the order of their numbers."""
    parts = {}
    for file in directory.glob(f"{table}*.parquet"):
        match = re.fullmatch(re.escape(table) + r"(?:_(\d{1,9}))?\.parquet", file.name)
        if match:
            parts[-1 if match[1] is None else int(match[1])] = file
    numbers = sorted(parts)
    if len(numbers) > 1 and numbers[0] < 0:
        raise ProfileError(f"{_name(directory)}: {table}.parquet and {parts[numbers[1]].name} are "
                           "both there, of two runs it seems: expected the one or the numbered "
                           "parts. Write the tables again into an empty directory")
    if numbers and numbers[0] >= 0 and numbers != list(range(len(numbers))):
        gap = next(i for i, number in enumerate(numbers) if number != i)
        raise ProfileError(f"{_name(directory)}: {table}_{gap}.parquet is missing: there are parts "
                           f"up to {parts[numbers[-1]].name}. Copy the directory again")
    return [parts[number] for number in numbers]


@contextlib.contextmanager
def _readable(where: str) -> Iterator[None]:
    """pyarrow's errors as ours, with the file's name."""
    try:
        yield
    except (arrow()[0].ArrowException, OSError, ValueError, LookupError, MemoryError) as error:
        if isinstance(error, ProfileError):
            raise
        said = columns.printable(str(error).split("\n")[0], 120)
        raise ProfileError(f"{where}: expected a Parquet file, got one that is cut, damaged or of "
                           f"another kind ({said}). Copy it again, or write the tables anew with "
                           "neuron-explorer view --output-format parquet") from None


def _rows(directory: Path, table: str, most: int = 100_000) -> list[dict[str, Any]]:
    """A small table, its columns of plain values, as one dict a row; [] when it has no file."""
    pa, _, pq = arrow()
    found: list[dict[str, Any]] = []
    for file in _files(directory, table):
        where = f"{_name(directory)}: {file.name}"
        with _readable(where):
            whole = pq.ParquetFile(file)
            if whole.metadata.num_rows > most:
                raise ProfileError(f"{where}: expected up to {most:,} rows, got "
                                   f"{whole.metadata.num_rows:,}")
            plain = [field.name for field in whole.schema_arrow
                     if not (pa.types.is_nested(field.type) or pa.types.is_temporal(field.type))]
            cells = whole.read(columns=plain)
            cells.validate(full=True)
            found += cells.to_pylist()
    return found


def _record(directory: Path, table: str) -> dict[str, Any]:
    """The only row of a table, {} when it has no file."""
    rows = _rows(directory, table)
    if len(rows) > 1:
        raise ProfileError(f"{_name(directory)}: {table}: expected 1 row, got {len(rows)}. Write "
                           "the tables of one execution")
    return rows[0] if rows else {}


# --- columns -------------------------------------------------------------------------------------


class _Column:
    """One column while it is read, piece by piece: numbers, or codes into the texts so far."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.place: dict[str, int] = {}  # text -> code, in order of first use
        self.given = False               # some row is not null
        self.last: tuple[Any, NDArray[np.int32]] | None = None

    def codes(self, array: Any) -> NDArray[np.int32]:
        """Codes of a piece of text; null is ""."""
        pa = arrow()[0]
        if not pa.types.is_dictionary(array.type):
            array = array.cast(pa.string()).dictionary_encode()
        if self.last is None or not self.last[0].equals(array.dictionary):
            names = array.dictionary.cast(pa.string()).to_pylist()
            self.last = array.dictionary, np.array(
                [self.place.setdefault(name or "", len(self.place)) for name in names] or [0],
                np.int32)
        known, index = self.last[1], array.indices
        if not array.null_count:
            return known[index.to_numpy(zero_copy_only=False)]
        blank = self.place.setdefault("", len(self.place))
        return np.where(_nulls(array), blank, known[index.fill_null(0).to_numpy()])

    def numbers(self, array: Any, null: int) -> Ints:
        """A piece of whole numbers in any of Arrow's types, text included."""
        pa, pc, _ = arrow()
        kind = array.type
        if pa.types.is_dictionary(kind):
            array, kind = array.dictionary_decode(), kind.value_type
        if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
            array = array.cast(pa.timestamp("ns") if pa.types.is_timestamp(kind)
                               else pa.duration("ns"))
        # an id may use all 64 bits, unsigned: it stays unique when it is read as signed
        array = array.cast(pa.int64(), safe=kind != pa.uint64())
        return (pc.fill_null(array, null) if array.null_count else array).to_numpy()


def _is_text(kind: Any) -> bool:
    types = arrow()[0].types
    return types.is_string(kind) or types.is_large_string(kind)


def _nulls(array: Any) -> NDArray[np.bool_]:
    return array.is_null().to_numpy(zero_copy_only=False)


class _Table:
    """The columns of one table by our names; a column of nulls is left out, as unknown."""

    def __init__(self, where: str, size: int, names: Mapping[str, str],
                 read: Mapping[str, _Column]) -> None:
        self.where, self.size, self.names = where, size, names
        self.ints: dict[str, Ints] = {}
        self.texts: dict[str, Text] = {}
        self.shapes: Shapes | None = None
        for name, column in read.items():
            if name not in NEEDED and not (column.given or (not size and name in names)):
                continue
            pieces, column.pieces = column.pieces, []
            if name == "operands":
                self.shapes = Shapes(*map(np.concatenate, zip(*pieces, strict=True))
                                     ) if pieces else columns.shapes([])
            elif name in TEXT:
                self.texts[name] = Text(_joined(pieces, np.int32), tuple(column.place))
            else:
                self.ints[name] = _joined(pieces, np.int64)

    @property
    def times(self) -> tuple[str, str]:
        """What the file calls start and end."""
        return self.names["start"], self.names.get("end") or self.names["duration"]

    @property
    def end(self) -> Ints:
        if "end" in self.ints or not self.size:
            return self.ints.get("end", self.ints["start"])
        start, length = self.ints["start"], self.ints["duration"]
        columns.whole(self.where, self.times[0], start, columns.LONGEST, "ns")
        columns.whole(self.where, self.times[1], length, columns.LONGEST, "ns")
        return start + length

    def core(self, cores: int) -> Ints:
        """The core of each row. One core needs no column; of two, no core is not core 0."""
        core = self.ints.get("core", np.full(self.size, -1))
        if cores == 1:
            core = np.where(core == -1, 0, core)
        return columns.whole(self.where, self.names.get("core", "pcore_idx"), core, cores - 1,
                             "the physical core, as two took part," if cores == 2 else "the core")


def _joined(pieces: list[Any], kind: type) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, kind)


def _read(directory: Path, table: str, schema: str,
          wanted: Mapping[str, tuple[str, ...]] | None = None) -> _Table | None:
    """The wanted columns (those of TABLES) that this table has; None when it has no file."""
    wanted = wanted or TABLES[table]
    files = _files(directory, table)
    if not files:
        return None
    pa, _, pq = arrow()
    read = {name: _Column() for name in wanted}
    found: dict[str, str] = {}
    size = 0
    for file in files:
        where = f"{_name(directory)}: {file.name}"
        with _readable(where):
            footer = pq.ParquetFile(file)
            kinds = {field.name: field.type for field in footer.schema_arrow}
        names = _named(where, table, kinds, wanted, schema)
        found |= names
        with _readable(where):
            text = [name for name in names.values() if _is_text(kinds[name])]
            whole = pq.ParquetFile(file, metadata=footer.metadata, read_dictionary=text)
            for batch in whole.iter_batches(PIECE, columns=list(dict.fromkeys(names.values()))):
                batch.validate(full=True)  # codes of damaged text may lie outside its dictionary
                for name in read:
                    cells = (batch.column(names[name]) if name in names
                             else pa.nulls(len(batch), pa.int64()))
                    if cells.null_count and name in names and name in (*NEEDED, "end", "duration"):
                        raise columns.bad(f"{where}: {table}", size + int(np.argmax(_nulls(cells))),
                                          names[name], "a value", "null")
                    _add(f"{where}: {table}.{names.get(name)}", name, cells, read)
                size += len(batch)
    return _Table(f"{_name(directory)}: {table}", size, found, read)


def _last_core(directory: Path, table: str) -> int:
    """The highest core in a table, 0 when it names none."""
    found = _read(directory, table, "", {"core": _TIMES["core"]})
    return int(found.ints["core"].max(initial=0)) if found and "core" in found.ints else 0


def _named(where: str, table: str, kinds: Mapping[str, Any],
           wanted: Mapping[str, tuple[str, ...]], schema: str) -> dict[str, str]:
    """Our names -> those of this file, of the columns it has. Raises when it lacks a needed one."""
    names = {name: next((other for other in others if other in kinds), "")
             for name, others in wanted.items()}
    names = {name: other for name, other in names.items() if other}
    if "end" in names:
        names.pop("duration", None)
    lacking = [name for name in wanted if name in NEEDED and name not in names]
    if "start" in wanted and not {"end", "duration"} & set(names):
        lacking.append("end")
    if lacking:
        either = " or ".join(wanted[lacking[0]])
        newer = f" The tables say schema {columns.printable(schema, 20)}." if schema else ""
        raise ProfileError(f"{where}: {table}: expected a column {either}, got "
                           f"{columns.printable(', '.join(kinds), 200) or 'none'}.{newer} {HOW}")
    return names


def _add(where: str, name: str, cells: Any, read: Mapping[str, _Column]) -> None:
    """One more piece of a column."""
    pa = arrow()[0]
    column = read[name]
    column.given |= cells.null_count < len(cells)
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    try:
        if name == "operands":
            opcode = read["opcode"]
            matmul = opcode.pieces[-1] == opcode.place.get(MATMUL, -1)
            column.pieces.append(_multiplied(cells, matmul))
        elif name in TEXT:
            column.pieces.append(column.codes(cells))
        elif name in ("core", "group") and _is_text(kind):  # "sg01", "sg0000:193"
            codes = column.codes(cells)
            column.pieces.append(np.array([_number(name, i, text)
                                           for i, text in enumerate(column.place)])[codes])
        else:
            column.pieces.append(column.numbers(cells, -1 if name in ("core", "engine_idx") else 0))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        what = "text" if name in (*TEXT, "operands") else "whole numbers"
        raise ProfileError(f"{where}: expected {what}, got {kind} "
                           f"({columns.printable(error, 100)}). {HOW}") from None


def _number(name: str, code: int, text: str) -> int:
    if name == "group":
        return code + 1 if text not in ("", "0") else 0
    match = re.fullmatch(r"(?:sg)?(\d{1,4})", text)
    return int(match[1]) if match else -1


def _multiplied(operands: Any, matmul: NDArray[np.bool_]) -> tuple[NDArray[Any], ...]:
    """Shapes of a piece's rows, column by column: each distinct text of a MATMUL is parsed once."""
    pa, pc, _ = arrow()
    texts = operands.filter(pa.array(matmul))
    if not pa.types.is_dictionary(texts.type):
        texts = texts.cast(pa.string()).dictionary_encode()
    used, which = np.unique(texts.indices.fill_null(len(texts.dictionary)).to_numpy(),
                            return_inverse=True)
    distinct = pa.concat_arrays([texts.dictionary.cast(pa.string()), pa.array([""])])
    dtype, sizes, *area = pc.extract_regex(
        distinct.take(pa.array(used)), "(?s)" + columns.OPERANDS).flatten()
    K, M = (pc.fill_null(side, "0").cast(pa.int64()).to_numpy() for side in area)
    names, lists = (pc.fill_null(part, "").dictionary_encode() for part in (dtype, sizes))
    counts = [[int(count) for count in text.split(",") if count]
              for text in lists.dictionary.to_pylist()]
    product = np.array([min(math.prod(some), columns.LARGEST) if some else 0 for some in counts],
                       np.int64)
    parsed = (columns.dtypes(names.dictionary.to_pylist())[names.indices.to_numpy()], K, M,
              product[lists.indices.to_numpy()])
    found = tuple(np.zeros(len(matmul), part.dtype) for part in parsed)
    for every, part in zip(found, parsed, strict=True):
        every[matmul] = part[which]
    return found


# --- tables --------------------------------------------------------------------------------------


def _instructions(own: _Table | None, directory: Path, schema: str, cores: int
                  ) -> Read[Instructions] | None:
    if own is None:
        return None
    macs = own.ints.get("macs")
    if "flops" in own.ints:  # the schema asks not to use tensor_elements where it is there
        macs = own.ints["flops"] // 2
    line, other = own.texts.get("line"), own.texts.get("elsewhere")
    if line is not None and other is not None:
        both = line.names + other.names
        names = tuple(dict.fromkeys(both))
        codes = np.where(line.among(""), other.codes + len(line.names), line.codes)
        line = Text(np.array([names.index(name) for name in both], np.int32)[codes], names)
    id = own.ints.get("id")
    return columns.instructions(
        own.where, core=own.core(cores), engine=own.texts["engine"], start=own.ints["start"],
        end=own.end, opcode=own.texts["opcode"], macs=macs, kind=own.texts.get("kind"),
        operands=own.shapes, read=own.ints.get("read"), written=own.ints.get("written"),
        group=own.ints.get("group"), pc=own.ints.get("pc"), line=line or other, names=own.times,
        id=np.arange(own.size) if id is None else id,
        before=None if id is None else _before(id, _read(directory, "Flow", schema)))


def _before(ids: Ints, flow: _Table | None) -> tuple[Ints, Ints] | None:
    """(row, id of a predecessor) of the edges from instruction to instruction."""
    if flow is None:
        return None
    names = ("instruction", "Instruction")
    held = flow.texts["from"].among(*names) & flow.texts["to"].among(*names)
    before, row = flow.ints["before"][held], columns.places(ids, flow.ints["after"][held])
    return row[row >= 0], before[row >= 0]


def _packets(own: _Table | None, cores: int) -> Read[Packets] | None:
    if own is None:
        return None
    return columns.packets(
        own.where, core=own.core(cores), start=own.ints["start"], end=own.end,
        nbytes=own.ints["nbytes"], queue=own.texts.get("queue"), engine=own.ints.get("engine_idx"),
        id=own.ints.get("id"), duplicate=_again(own), names=own.times)


def _again(own: _Table) -> Text | None:
    """Rows that repeat an earlier one: the profiler is known to list some packets twice."""
    told, ids = own.texts.get("duplicate"), own.ints.get("packet")
    if ids is None or (np.diff(np.sort(ids)) != 0).all():
        return told
    keys = ids, own.ints["start"], own.end
    order = np.lexsort(keys[::-1])  # equal keys stay in the order of rows
    again = np.zeros(own.size, bool)
    again[order[1:]] = np.all([key[order][1:] == key[order][:-1] for key in keys], axis=0)
    again &= ids != 0  # null
    if told is not None:
        again |= told.among("yes", "true", "True")
    return Text(again.astype(np.int32), ("no", "yes"))
