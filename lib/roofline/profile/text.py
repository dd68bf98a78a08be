"""Profiles in JSON: summary-json, and the whole output of `view --output-format json`.

Question  what does this JSON document hold, whichever version wrote it?
Answer    from_json(name, document) -> Profile; parse(name, bytes) -> document, or one clear error
Assumes   names of Neuron Profile 2.26 to 2.28, or of schema 7.x, one of them in a table
Ignores   tables that say nothing about when and what (semaphores, usage, layers, help texts)
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np

from ..timeline import MATMUL, Instructions, Ints, Packets, Spans, Throttles
from . import columns, facts
from .columns import Read, Shapes, Text, bad, printable
from .record import Profile, ProfileError

Rows = list[dict[str, Any]]
# A table or column: its name in Neuron Profile 2.26 to 2.28, then in schema 7.x.
TABLES = {
    "summary": ("summary", "Summary"), "metadata": ("metadata", "Metadata"),
    "instruction": ("instruction", "Instruction"), "dma": ("dma", "DmaPacket"),
    "throttle": ("ham", "throttle", "Throttle"), "active": ("active_time", "ActiveTime"),
    "tensors": ("neff_node", "TensorInfo"), "warnings": ("warnings", "Warning"),
    "errors": ("errors", "error", "Error")}
SUMMARY = ("total_time", "hbm_read_bytes", "hardware_flops")  # a flat summary has one of these
COLUMNS = frozenset((  # what is read of any table of rows
    "timestamp", "start_ts", "duration", "duration_ns", "end_ts", "subgraph", "pcore_idx",
    "label", "engine", "opcode", "id", "pc", "operands", "raw_bir_id", "bir_id", "elements",
    "tensor_elements", "instruction_type", "tensor_instruction_type", "hbm_read_bytes",
    "hbm_write_bytes", "nki_source_location", "bir_debug_info_source_location", "predecessors",
    "dma_engine", "engine_idx", "packet_aggregation_id", "queue_type", "duplicate",
    "transfer_size", "transfer_bytes", "type", "k", "n", "last_hw_timestamp"))
CHUNK = 256  # rows whose cells are taken together, while the processor's cache holds them
TEXT_NUMBER = re.compile(r"-?\d{1,18}")
CORE = re.compile(r"(?:sg)?0{0,8}(\d{1,3})")
HOW = "Write one with `neuron-explorer view --output-format json` (or summary-json)"


def parse(name: str, data: bytes) -> Any:
    """The JSON document in these bytes; `name` is what errors call the file."""
    twice: list[tuple[dict[str, Any], str]] = []  # objects that give a key twice, and the key

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice.append((found, Counter(key for key, _ in pairs).most_common(1)[0][0]))
        return found

    if not data.strip():
        raise ProfileError(f"{name}: expected a profile, got an empty file. {HOW}")
    if b"\0" in data[:4096] and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        raise ProfileError(f"{name}: expected JSON, got a binary file. {HOW}; an .ntff is its "
                           "input, parquet files are read by their directory")
    try:
        document = json.loads(data, object_pairs_hook=collect)
    except UnicodeDecodeError as error:
        raise ProfileError(f"{name}: expected JSON in UTF-8, got other bytes at byte "
                           f"{error.start:,}. {HOW}") from None
    except json.JSONDecodeError as error:
        cut = error.pos >= len(error.doc.rstrip())
        what = "it ends in the middle: cut off?" if cut else f"{error.msg}"
        raise ProfileError(f"{name}: expected JSON, got other text at line {error.lineno}, column "
                           f"{error.colno:,}: {what} {HOW}") from None
    except RecursionError:
        raise ProfileError(f"{name}: expected JSON nested a few levels, got objects nested too "
                           f"deep to read. {HOW}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ProfileError(f"{name}: expected numbers of at most 64 bits: "
                           f"{printable(error, 120)}") from None
    except MemoryError:
        raise ProfileError(f"{name}: {len(data):,} bytes of JSON do not fit into memory. Write the "
                           "profile as parquet") from None
    if twice:
        found, key = twice[0]
        path = printable(f"{_path(document, found)}.{key}".lstrip("."), 120)
        raise ProfileError(f"{name}: {path}: expected each key once in an object, got it twice")
    return document


def _path(document: Any, found: Any) -> str:
    """Where an object stands in a document; "" for the document itself."""
    stack = [("", document)]
    while stack:
        path, value = stack.pop()
        if value is found:
            return path
        if isinstance(value, dict):
            stack += [(f"{path}.{key}"[-200:], inner) for key, inner in value.items()]
        elif isinstance(value, list):
            stack += [(f"{path}[{i}]"[-200:], inner) for i, inner in enumerate(value)]
    return ""  # inside an object whose key came again


# --- columns of a table ---------------------------------------------------------------------------


class _Table:
    """Rows of one table; `where` is the file and the table, for errors."""

    def __init__(self, where: str, rows: Rows) -> None:
        self.where, self.rows = where, rows
        self.cores: Text | None = None  # the column that names them, once read
        kinds = set(map(type, rows))
        if not kinds <= {dict}:
            at = next(i for i, row in enumerate(rows) if type(row) is not dict)
            raise ProfileError(f"{where}[{at}]: expected an object, got "
                               f"{printable(json_name(rows[at]), 60)}")
        self.names: set[str] = set().union(*rows)
        self.columns: dict[str, list[Any]] = {name: [] for name in self.names & COLUMNS}
        for first in range(0, len(rows), CHUNK):
            some = rows[first:first + CHUNK]
            for name, cells in self.columns.items():
                cells += [row.get(name) for row in some]

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, *names: str) -> str | None:
        """The first of these names that rows have; of an empty table the first."""
        return next((name for name in names if name in self.names), None if self.rows else names[0])

    def needs(self, *names: str) -> str:
        """As name; an error when no row has one."""
        name = self.name(*names)
        if name is None:
            raise ProfileError(f"{self.where}: expected a column {' or '.join(names)}, got rows "
                               f"with {printable(', '.join(self.rows[0]), 120) or 'nothing'}")
        return name

    def whole(self, name: str, missing: int | None = None, text: bool = False) -> Ints:
        """A column of whole numbers.

        missing   stands where a row has none; None: a row without it is an error
        text      numbers may be written as text ("64")
        """
        cells = self.columns.get(name, [])
        kinds = set(map(type, cells))
        if kinds == {int, type(None)} and missing is not None:
            cells = [missing if cell is None else cell for cell in cells]
        elif not kinds <= {int}:
            cells = [self._whole(i, name, cell, missing, text) for i, cell in enumerate(cells)]
        try:
            return np.fromiter(cells, np.int64, len(cells))
        except OverflowError:
            at = next(i for i, cell in enumerate(cells) if not -2**63 <= cell < 2**63)
            raise bad(self.where, at, name, "a whole number of 64 bits",
                      f"one of {cells[at].bit_length()} bits") from None

    def _whole(self, row: int, name: str, cell: Any, missing: int | None, text: bool) -> int:
        if type(cell) is int:
            return cell
        if cell is None and missing is not None:
            return missing
        if type(cell) is float and cell.is_integer() and abs(cell) < 2**53:
            return int(cell)
        if text and isinstance(cell, str):
            if TEXT_NUMBER.fullmatch(cell):
                return int(cell)
            if cell == "" and missing is not None:
                return missing
        what = "nothing" if cell is None else json_name(cell)
        raise bad(self.where, row, name, "a whole number", what)

    def text(self, name: str, rows: Sequence[int] | None = None) -> Text:
        """A column of text; "" where a row has none. rows: only these."""
        cells = self.columns.get(name, [])
        cells = cells if rows is None else [cells[i] for i in rows]
        kinds = set(map(type, cells))
        if not kinds <= {str}:
            if not kinds <= {str, int, bool, type(None)}:
                at = next(i for i, cell in enumerate(cells)
                          if type(cell) not in (str, int, bool, type(None)))
                raise bad(self.where, at if rows is None else rows[at], name, "text",
                          json_name(cells[at]))
            cells = ["" if cell is None else str(cell) for cell in cells]
        return Text.of(cells)

    def times(self) -> tuple[Ints, Ints, tuple[str, str]]:
        """Start, end, and what the file calls them."""
        begin = self.needs("start_ts", "timestamp")
        start = self.whole(begin)
        until = self.name("end_ts")
        lasts = self.name("duration_ns", "duration")
        if until is None:
            until = lasts or self.needs("end_ts", "duration_ns", "duration")
            length = columns.whole(self.where, until, self.whole(until), columns.LONGEST, "ns")
            columns.whole(self.where, begin, start, columns.LONGEST, "ns")  # the sum fits then
            return start, start + length, (begin, until)
        end = self.whole(until)
        if lasts is not None:
            length = self.whole(lasts)
            wrong = np.abs(end - start - length) > 1  # both are rounded
            if wrong.any() and (end >= start).all():
                at = int(np.argmax(wrong))
                raise bad(self.where, at, lasts, f"{until} - {begin} = {end[at] - start[at]} ns",
                          length[at])
        return start, end, (begin, until)

    def core(self, cores: int | None) -> Ints:
        """Physical core of each row: pcore_idx, or the number in subgraph; 0 where neither is."""
        name = self.name("pcore_idx", "subgraph")
        if name is None:
            return np.zeros(len(self), np.int64)
        text = self.cores = self.cores or self.text(name)
        most = cores or 2
        known = np.zeros(max(len(text.names), 1), np.int64)
        for i, label in enumerate(text.names):
            match = CORE.fullmatch(label)
            if not match and not (label == "" and most == 1):
                at = int(np.argmax(text.codes == i))
                raise bad(self.where, at, name, "a physical core, such as 0 or sg00", repr(label))
            known[i] = int(match[1]) if match else 0
        core = known[text.codes]
        if (core >= most).any():
            at = int(np.argmax(core >= most))
            raise bad(self.where, at, name, f"one of the {most} physical cores of a profile "
                      "(from 0)", text.names[text.codes[at]])
        return core


def json_name(value: Any) -> str:
    """What a value is, in JSON's words; short."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return repr(value)[:80]


def _instructions(table: _Table, cores: int | None) -> Read[Instructions]:
    start, end, names = table.times()
    opcode = table.text(table.needs("opcode"))
    matmul = np.flatnonzero(opcode.among(MATMUL))
    operands = table.name("operands")
    optional = {key: table.name(*both) for key, both in {
        "macs": ("elements", "tensor_elements"), "kind": ("instruction_type",
                                                          "tensor_instruction_type"),
        "read": ("hbm_read_bytes",), "written": ("hbm_write_bytes",), "pc": ("pc",)}.items()}
    given: dict[str, Any] = {key: table.whole(name, missing=0)
                             for key, name in optional.items() if name and key != "kind"}
    for key in {"macs", "read", "written"} & set(given):
        columns.whole(table.where, optional[key] or key, given[key])
    if optional["kind"]:
        given["kind"] = table.text(optional["kind"])
    return columns.instructions(
        table.where, core=table.core(cores), engine=table.text(table.needs("label", "engine")),
        start=start, end=end, opcode=opcode, id=table.whole(table.needs("id")),
        operands=_operands(table, operands, matmul) if operands else None,
        group=_group(table), line=_line(table), before=_before(table), names=names, **given)


def _operands(table: _Table, name: str, matmul: Ints) -> Shapes:
    """What the MATMUL rows multiply; other rows 0."""
    text = table.text(name, matmul.tolist())
    found = columns.shapes(text.names).take(text.codes)
    size = len(table)
    every = Shapes(*(np.zeros(size, column.dtype) for column in
                     (found.dtype, found.rows, found.columns, found.moving)))
    for mine, its in ((every.dtype, found.dtype), (every.rows, found.rows),
                      (every.columns, found.columns), (every.moving, found.moving)):
        mine[matmul] = its
    return every


def _group(table: _Table) -> Ints | None:
    """The compiler's instruction that a row belongs to, 0 for none."""
    name = table.name("raw_bir_id", "bir_id")
    if name is None or name == "raw_bir_id":
        return None if name is None else table.whole(name, missing=0)
    text = table.text(name)
    known = np.array([0 if label in ("", "0") else i + 1 for i, label in enumerate(text.names)]
                     or [0], np.int64)
    return known[text.codes]


def _line(table: _Table) -> Text | None:
    """Source lines: the kernel's where a row has it, else the compiler's."""
    names = [name for name in ("nki_source_location", "bir_debug_info_source_location")
             if table.name(name) == name and table.rows]
    if not names:
        return None
    both = [table.text(name) for name in names]
    if len(both) == 1:
        return both[0]
    own, other = ([text.names[code] for code in text.codes.tolist()] for text in both)
    return Text.of([a or b for a, b in zip(own, other, strict=True)])


def _before(table: _Table) -> tuple[Ints, Ints] | None:
    """(row, id of a predecessor) of all rows; None when no row has the column."""
    name = table.name("predecessors")
    if name is None or not table.rows:
        return None
    lists = [cells or () for cells in table.columns[name]]
    if not set(map(type, lists)) <= {list, tuple}:
        at = next(i for i, cells in enumerate(lists) if type(cells) not in (list, tuple))
        raise bad(table.where, at, name, "a list", json_name(lists[at]))
    owner = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
    flat = [one.get("id") if type(one) is dict else one for one in chain.from_iterable(lists)]
    if set(map(type, flat)) <= {int}:
        with suppress(OverflowError):
            return owner, np.fromiter(flat, np.int64, len(flat))
    at = next(i for i, one in enumerate(flat) if type(one) is not int or one.bit_length() > 63)
    raise bad(table.where, int(owner[at]), f"{name}[].id", "the id of an instruction",
              json_name(flat[at]))


def _packets(table: _Table, cores: int | None) -> Read[Packets]:
    start, end, names = table.times()
    engine, id, queue, twice = (table.name(*both) for both in (
        ("dma_engine", "engine_idx"), ("packet_aggregation_id", "id"), ("queue_type",),
        ("duplicate",)))
    size = table.needs("transfer_size", "transfer_bytes")
    return columns.packets(
        table.where, core=table.core(cores), start=start, end=end, names=names,
        nbytes=columns.whole(table.where, size, table.whole(size), what="bytes"),
        queue=table.text(queue) if queue else None,
        engine=table.whole(engine, missing=-1, text=True) if engine else None,
        id=table.whole(id, missing=0) if id else None,
        duplicate=table.text(twice) if twice else None)


def _throttles(table: _Table, cores: int | None) -> Read[Throttles]:
    start, end, names = table.times()
    kind = table.name("type")
    return columns.throttles(
        table.where, core=table.core(cores), start=start, end=end, names=names,
        k=table.whole(table.needs("k")), n=table.whole(table.needs("n")),
        kind=table.text(kind) if kind else None)


def _active(table: _Table, cores: int | None) -> dict[tuple[int, str], Spans]:
    start, end, names = table.times()
    return columns.active(table.where, core=table.core(cores), start=start, end=end, names=names,
                          engine=table.text(table.needs("engine")))


# --- documents ------------------------------------------------------------------------------------


def from_json(name: str, document: Any, session: str | None = None) -> Profile:
    """The profile in a parsed document; `name` is the file's, for its name and for errors.

    session   key of the device session, where a summary-json holds several
    Raises ProfileError when it is no profile or its values cannot be.
    """
    if not isinstance(document, dict):
        records = isinstance(document, list) and document and isinstance(document[0], dict)
        hint = " records; from_json(name, summary) reads the summary of one" if records else ""
        raise ProfileError(f"{name}: expected a profile, an object with `summary` or sessions "
                           f"`n_...`, got {json_name(document)}{hint}. {HOW}")
    tables = {ours: key for ours, keys in TABLES.items() for key in keys if key in document}
    if "summary" in tables and not isinstance(document[tables["summary"]], (int, float, str)):
        return _whole_file(name, document, tables)
    if any(_is_number(document.get(key)) for key in SUMMARY):
        return facts.assemble(name, name, "summary-json", summary=document)
    if isinstance(document.get("total_time"), (str, dict, list)):
        raise ProfileError(f"{name}: total_time: expected seconds, got "
                           f"{json_name(document['total_time'])}")
    return _session(name, document, session)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _session(name: str, document: Mapping[str, Any], session: str | None) -> Profile:
    """The one device session of a nested summary-json."""
    device = {key: value for key, value in document.items()
              if isinstance(value, dict) and "total_time" in value}
    listed = printable(", ".join(device), 400)
    if session is not None:
        if session not in device:
            raise ProfileError(f"{name}: expected a session {printable(session, 60)!r}, got "
                               f"{listed or 'none with total_time'}")
        device = {session: device[session]}
    if len(device) > 1:
        raise ProfileError(f"{name}: expected one device session, got {len(device)}: {listed}. "
                           'Pick one: read(path, session="n_...")')
    if not device:
        keys = printable(", ".join(document), 120)
        raise ProfileError(f"{name}: expected a profile, got an object with no `summary` and no "
                           f"session that has total_time (keys: {keys or 'none'}). {HOW}")
    key, summary = next(iter(device.items()))
    return facts.assemble(f"{name}: {printable(key, 60)}", name, "summary-json", summary=summary)


def _whole_file(name: str, document: Mapping[str, Any], tables: Mapping[str, str]) -> Profile:
    """The whole output of `view --output-format json`."""
    def rows(ours: str) -> Rows | None:
        key = tables.get(ours)
        found = document[key] if key else None
        if found is not None and not isinstance(found, list):
            found = [found] if isinstance(found, dict) else found
            if not isinstance(found, list):
                raise ProfileError(f"{name}: {key}: expected a list of rows, got "
                                   f"{json_name(found)}")
        return found

    def one(ours: str) -> dict[str, Any]:
        found = rows(ours) or [{}]
        if len(found) > 1:
            raise ProfileError(f"{name}: {tables[ours]}: expected one row, got {len(found)}")
        return _Table(f"{name}: {tables.get(ours)}", found).rows[0]

    def table(ours: str) -> _Table | None:
        found = rows(ours)
        return None if found is None else _Table(f"{name}: {tables[ours]}", found)

    metadata = dict(one("metadata"))
    info = document.get("profile_info")
    if isinstance(info, list) and info and isinstance(info[0], dict):
        keys = {"profile_name", "profiler_version", "profiler_build_time"} & set(info[0])
        metadata = {key: info[0][key] for key in keys} | metadata
    cores = metadata.get("num_physical_cores")
    cores = cores if type(cores) is int and cores in (1, 2) else None
    parts = {ours: table(ours) for ours in ("instruction", "dma", "throttle", "active")}
    seen = [int(part.core(cores).max()) + 1 for part in parts.values() if part]
    held = cores or max(seen, default=0) or None
    own, moved, throttled = parts["instruction"], parts["dma"], parts["throttle"]
    last = metadata.get("last_hw_timestamp")
    if last is not None:
        last = _Table(f"{name}: metadata", [metadata]).whole("last_hw_timestamp").item()
        columns.whole(f"{name}: metadata", "last_hw_timestamp", np.array([last]), columns.LONGEST)
    timeline, notes = columns.timeline(
        held or 1, last, None if own is None else _instructions(own, cores),
        None if moved is None else _packets(moved, cores),
        None if throttled is None else _throttles(throttled, cores),
        None if parts["active"] is None else _active(parts["active"], cores))
    return facts.assemble(
        name, name, "json", summary=one("summary"), metadata=metadata, timeline=timeline,
        tensors=_tensors(table("tensors")), warnings=_messages(table("warnings"))
        + _messages(table("errors")), notes=notes, cores=held)


def _tensors(table: _Table | None) -> tuple[Any, ...]:
    if table is None:
        return ()
    return facts.tensors(table.where, ((row.get("variable_name"), row.get("type"),
                                        row.get("shape"), row.get("size")) for row in table.rows))


def _messages(table: _Table | None) -> list[str]:
    """Texts of warnings; those without a message are left out."""
    return [] if table is None else [printable(row["message"]) for row in table.rows
                                     if isinstance(row.get("message"), str)]
