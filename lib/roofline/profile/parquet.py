"""A directory of Neuron Explorer's tables (schema 7.x, <Table>.parquet), read column by column.

Question  what do the tables of this directory say, in the one form every profile has?
Answer    from_parquet(directory) -> Profile
Assumes   a table without rows has no file; a large one is cut into <Table>_0, <Table>_1, ...
Ignores   every table and column that no Profile has room for: they are not read from disk

A column may go by its 7.x name or by that of Neuron Profile 2.28. Text is kept as codes into the
distinct texts, and tables are read in pieces: memory is that of the columns and of one piece.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..table import printable
from ..timeline import Ints
from . import columns, facts
from .columns import ABSENT, NEEDED, TEXT, Shapes, Table, Text
from .record import Profile, ProfileError

PIECE = 2**18  # rows decoded at once
DEEP = 4       # folders to look into: <data path>/profiles/global/<name>@latest
MANY = 10_000  # of one depth at most
DEVICE = ("Summary", "Instruction", "DmaPacket")  # a directory with one of them holds a profile
HOW = "Write the tables with a Neuron Explorer of schema 7.x: view --output-format parquet"


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
    tables = {table: _read(directory, table, schema)
              for table in ("Instruction", "DmaPacket", "Throttle", "ActiveTime")}
    tables["Throttle"] = tables["Throttle"] or Table("", 0, {}, {}, {})  # no file: no events
    own = tables["Instruction"]
    if own is not None and "group" in own.ints and not own.ints["group"].any():  # bir_id may tell
        own = tables["Instruction"] = _read(directory, "Instruction", schema, "raw_bir_id")
    if own is not None and "id" in own.ints:
        own.before = _before(own.ints["id"], _read(directory, "Flow", schema))
    summary = _record(directory, "Summary")
    return facts.assemble(
        name, name, "parquet", summary=summary, metadata=metadata, tables=tables,
        throttled=_rows(directory, "ThrottleSummary"),
        tensors=facts.tensors(f"{name}: TensorInfo", _rows(directory, "TensorInfo")),
        warnings=facts.messages(_rows(directory, "Warning"), _rows(directory, "Error")),
        notes=[] if summary else ["no Summary in this directory: counters are unknown"])


def _before(ids: Ints, flow: Table | None) -> tuple[Ints, Ints] | None:
    """(row, id of a predecessor) of the edges from instruction to instruction."""
    if flow is None:
        return None
    held = flow.texts["from"].among("instruction") & flow.texts["to"].among("instruction")
    before, row = flow.ints["before"][held], columns.places(ids, flow.ints["after"][held])
    return row[row >= 0], before[row >= 0]


# --- files ---------------------------------------------------------------------------------------


def _find(path: Path) -> Path:
    """The directory with the tables of one device profile: this one, or the only one below."""
    name = _name(path)
    if not path.exists():
        raise ProfileError(f"{name}: there is no such directory")
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
                           f"{printable(some, 300)}{', ...' if len(inner) > 5 else ''}")
    return inner[0]


def _folders(folder: Path) -> list[Path]:
    """Folders in a folder, in order; none of one that may not be listed."""
    with contextlib.suppress(OSError):
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    return []


def _name(path: Path) -> str:
    return printable(path.name or path.absolute().name, 200)


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
    except ProfileError:
        raise
    except PermissionError as error:
        raise ProfileError(f"{where}: cannot be read: {error.strerror}") from None
    except (arrow()[0].ArrowMemoryError, MemoryError):
        raise MemoryError from None
    except (arrow()[0].ArrowException, OSError, ValueError, LookupError) as error:
        said = printable(re.sub("'/[^']*'", "it", str(error).split("\n")[0]), 120).rstrip(".")
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

    def add(self, where: str, name: str, theirs: str, cells: Any, row: int) -> None:
        """One more piece from this row on, of the column that we call `name`, the file `theirs`."""
        types = arrow()[0].types
        kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
        if name in TEXT:
            self.pieces.append(self.codes(cells))
        elif name in ("core", "group") and _is_text(kind):  # "sg01", "sg0000:193"
            text = Text(self.codes(cells), tuple(self.place))
            self.pieces.append(columns.numbered(where, theirs, name, text, row))
        else:
            self.pieces.append(self.numbers(cells, ABSENT.get(name, 0)))


def _is_text(kind: Any) -> bool:
    types = arrow()[0].types
    return types.is_string(kind) or types.is_large_string(kind)


def _nulls(array: Any) -> NDArray[np.bool_]:
    return array.is_null().to_numpy(zero_copy_only=False)


def _joined(pieces: list[Any], kind: type) -> NDArray[Any]:
    return np.concatenate(pieces) if pieces else np.zeros(0, kind)


def _read(directory: Path, table: str, schema: str, without: str = "") -> Table | None:
    """The columns of NAMES that this table has, None when it has no file.

    A column of nulls is left out: unknown. So is the one called `without`.
    """
    files = _files(directory, table)
    if not files:
        return None
    pa, _, pq = arrow()
    read = {name: _Column() for name in columns.NAMES[table]}
    found: dict[str, str] = {}
    size, whole_table = 0, f"{_name(directory)}: {table}"
    for file in files:
        where = f"{_name(directory)}: {file.name}"
        with _readable(where):
            footer = pq.ParquetFile(file)
            kinds = {field.name: field.type for field in footer.schema_arrow}
        there = [name for name in footer.schema_arrow.names if name != without]
        part = f"{_name(directory)}: {file.stem}"
        names = _named(part, table, there, schema)
        found |= names
        with _readable(where):
            text = [name for name in names.values() if _is_text(kinds[name])]
            whole = pq.ParquetFile(file, metadata=footer.metadata, read_dictionary=text)
            for batch in whole.iter_batches(PIECE, columns=list(dict.fromkeys(names.values()))):
                batch.validate(full=True)  # codes of damaged text may lie outside its dictionary
                for name, column in read.items():
                    cells = (batch.column(names[name]) if name in names
                             else pa.nulls(len(batch), pa.int64()))
                    if cells.null_count and name in names and name in (*NEEDED, "end", "duration"):
                        raise columns.bad(whole_table, size + int(np.argmax(_nulls(cells))),
                                          names[name], "a value", "null")
                    column.given |= cells.null_count < len(cells)
                    with _typed(f"{part}.{names.get(name)}", name, cells.type):
                        if name == "operands":
                            column.pieces.append(_shapes(cells, read["opcode"], names))
                        else:
                            column.add(whole_table, name, names.get(name, ""), cells, size)
                size += len(batch)
    made = Table(whole_table, size, found, {}, {})
    for name, column in read.items():
        if name in NEEDED or column.given or (not size and name in found):
            _finish(made, name, column)
    return made


def _finish(table: Table, name: str, column: "_Column") -> None:
    """Put the pieces of a column together in its table; they are gone then."""
    pieces, column.pieces = column.pieces, []
    if name == "operands":
        table.shapes = (Shapes(*map(np.concatenate, zip(*pieces, strict=True)))
                        if pieces else columns.shapes([]))
    elif name in TEXT:
        table.texts[name] = Text(_joined(pieces, np.int32), tuple(column.place))
    else:
        table.ints[name] = _joined(pieces, np.int64)


def _named(where: str, table: str, there: list[str], schema: str) -> dict[str, str]:
    """Our names -> those of this file, of the columns it has; no duration where it has the end."""
    newer = f". The tables say schema {printable(schema, 20)}" if schema else ""
    names = columns.chosen(where, table, there, f"{newer}. {HOW}")
    twice = next((name for name in names.values() if there.count(name) > 1), None)
    if twice:
        raise ProfileError(f"{where}: expected each column once, got {twice} "
                           f"{there.count(twice)} times. {HOW}")
    if "end" in names:
        names.pop("duration", None)
    return names


@contextlib.contextmanager
def _typed(where: str, name: str, kind: Any) -> Iterator[None]:
    """pyarrow's refusal to convert a column as ours."""
    pa = arrow()[0]
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        what = "text" if name in (*TEXT, "operands") else "whole numbers"
        raise ProfileError(f"{where}: expected {what}, got {kind} "
                           f"({printable(error, 100)}). {HOW}") from None


def _shapes(operands: Any, opcode: "_Column", names: Mapping[str, str]) -> Shapes:
    """What a piece's rows multiply: each distinct text is parsed once."""
    pa = arrow()[0]
    held, modes = columns.multiplied(Text(opcode.pieces[-1], tuple(opcode.place)), names)
    texts = operands.filter(pa.array(held))
    if not pa.types.is_dictionary(texts.type):
        texts = texts.cast(pa.string()).dictionary_encode()
    used, which = np.unique(texts.indices.fill_null(len(texts.dictionary)).to_numpy(),
                            return_inverse=True)
    distinct = pa.concat_arrays([texts.dictionary.cast(pa.string()), pa.array([""])])
    some = distinct.take(pa.array(used)).to_pylist()
    return columns.shapes((text or "" for text in some), modes).take(which).spread(held)
