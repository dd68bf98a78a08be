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

from ..table import printable
from ..timeline import Ints
from . import columns, facts
from .columns import ABSENT, NAMES, NEEDED, TEXT, Table, Text, bad
from .record import Profile, ProfileError

Rows = list[dict[str, Any]]
# A table's name in schema 7.x, then in Neuron Profile 2.26 to 2.28.
TABLES = {name: (name, *old) for name, *old in (
    ("Summary", "summary"), ("Metadata", "metadata"), ("Instruction", "instruction"),
    ("DmaPacket", "dma"), ("Throttle", "ham", "throttle"), ("ActiveTime", "active_time"),
    ("ThrottleSummary", "throttle_summary"), ("TensorInfo", "neff_node"), ("Warning", "warnings"),
    ("Error", "errors", "error"))}
SUMMARY = ("total_time", "hbm_read_bytes", "hardware_flops")  # a flat summary has one of these
CHUNK = 256  # rows whose cells are taken together, while the processor's cache holds them
TEXT_NUMBER = re.compile(r"-?\d{1,18}")
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
        what = "it ends in the middle: cut off?" if cut else f"{error.msg}."
        raise ProfileError(f"{name}: expected JSON, got other text at line {error.lineno}, column "
                           f"{error.colno:,}: {what} {HOW}") from None
    except RecursionError:
        raise ProfileError(f"{name}: expected JSON nested a few levels, got objects nested too "
                           f"deep to read. {HOW}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ProfileError(f"{name}: expected numbers of at most 63 bits: "
                           f"{printable(error, 120)}. {HOW}") from None
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


class _Cells:
    """Rows of one table, column by column; `where` is the file and the table, for errors."""

    def __init__(self, where: str, rows: Rows, wanted: Sequence[str]) -> None:
        self.where = where
        self.there: set[str] = set().union(*_objects(where, rows))
        self.columns: dict[str, list[Any]] = {name: [] for name in wanted if name in self.there}
        for first in range(0, len(rows), CHUNK):
            some = rows[first:first + CHUNK]
            for name, cells in self.columns.items():
                cells += [row.get(name) for row in some]

    def given(self, name: str) -> bool:
        """Whether a row has a value."""
        return any(cell is not None for cell in self.columns[name])

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
            raise bad(self.where, at, name, "a whole number of at most 63 bits",
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


def json_name(value: Any) -> str:
    """What a value is, in JSON's words; short."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return repr(value)[:80]


def _objects(where: str, rows: Rows) -> Rows:
    """The rows, all of them objects."""
    if not set(map(type, rows)) <= {dict}:
        at = next(i for i, row in enumerate(rows) if type(row) is not dict)
        raise ProfileError(f"{where}[{at}]: expected an object, got "
                           f"{printable(json_name(rows[at]), 60)}")
    return rows


def _table(where: str, table: str, rows: Rows) -> Table:
    """The columns of NAMES that these rows have."""
    every = dict.fromkeys(name for both in NAMES[table].values() for name in both)
    cells = _Cells(where, rows, (*every, "predecessors"))
    there = cells.there if rows else set(every)
    if not any(cells.columns.get("raw_bir_id", ())):  # 0 in each row: bir_id may tell
        there = there - {"raw_bir_id"}
    names = columns.chosen(where, table, there)
    names = {ours: name for ours, name in names.items()
             if not rows or ours in NEEDED or cells.given(name)}
    ints: dict[str, Ints] = {}
    texts = {ours: cells.text(name) for ours, name in names.items() if ours in TEXT}
    for ours, name in names.items():
        if ours == "core" or name == "bir_id":
            ints[ours] = columns.numbered(where, name, ours, cells.text(name))
        elif ours != "operands" and ours not in TEXT:
            missing = None if ours in (*NEEDED, "end", "duration") else ABSENT.get(ours, 0)
            ints[ours] = cells.whole(name, missing, text=ours == "device")
    found = Table(where, len(rows), names, ints, texts)
    if "operands" in names:
        held, modes = columns.multiplied(texts["opcode"], names)
        text = cells.text(names["operands"], np.flatnonzero(held).tolist())
        found.shapes = columns.shapes(text.names or [""], modes).take(text.codes).spread(held)
    if "predecessors" in cells.columns:
        found.before = _before(where, "predecessors", cells.columns["predecessors"])
    return found


def _before(where: str, name: str, cells: list[Any]) -> tuple[Ints, Ints]:
    """(row, id of a predecessor) of all rows."""
    lists = [cell or () for cell in cells]
    if not set(map(type, lists)) <= {list, tuple}:
        at = next(i for i, cell in enumerate(lists) if type(cell) not in (list, tuple))
        raise bad(where, at, name, "a list", json_name(lists[at]))
    owner = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
    flat = [one.get("id") if type(one) is dict else one for one in chain.from_iterable(lists)]
    if set(map(type, flat)) <= {int}:
        with suppress(OverflowError):
            return owner, np.fromiter(flat, np.int64, len(flat))
    at = next(i for i, one in enumerate(flat) if type(one) is not int or one.bit_length() > 63)
    raise bad(where, int(owner[at]), f"{name}[].id", "the id of an instruction",
              json_name(flat[at]))


# --- documents ------------------------------------------------------------------------------------


def from_json(name: str, document: Any, session: str | None = None) -> Profile:
    """The profile in a parsed document; `name` is the file's, for its name and for errors.

    session   key of the device session, where a summary-json holds several
    Raises ProfileError when it is no profile or its values cannot be.
    """
    if not isinstance(document, dict):
        record = document[0] if isinstance(document, list) and document else None
        keys = [key for key, value in (record.items() if isinstance(record, dict) else ())
                if isinstance(value, dict) and any(_is_number(value.get(one)) for one in SUMMARY)]
        hint = (" records. Read one: from_json(name, record["
                f"{printable(json.dumps(keys[0]), 60)}]). Or:" if keys else ".")
        raise ProfileError(f"{name}: expected a profile, an object with `summary` or sessions "
                           f"`n_...`, got {json_name(document)}{hint} {HOW}")
    tables = {ours: key for ours, keys in TABLES.items() for key in keys if key in document}
    whole = "Summary" in tables and not isinstance(document[tables["Summary"]], (int, float, str))
    if whole or any(_is_number(document.get(key)) for key in SUMMARY):
        if session is not None:
            raise ProfileError(f"{name}: session={printable(session, 60)!r}: this file holds one "
                               "record and no sessions; leave it out")
        return (_whole_file(name, document, tables) if whole else
                facts.assemble(name, name, "summary-json", summary=document))
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
    def rows(table: str) -> Rows:
        key = tables.get(table)
        found = [] if key is None or document[key] is None else document[key]
        found = [found] if isinstance(found, dict) else found
        if not isinstance(found, list):
            raise ProfileError(f"{name}: {key}: expected a list of rows, got {json_name(found)}")
        return _objects(f"{name}: {key}", found)

    def one(table: str) -> dict[str, Any]:
        found = rows(table) or [{}]
        if len(found) > 1:
            raise ProfileError(f"{name}: {tables[table]}: expected one row, got {len(found)}")
        return found[0]

    metadata = one("Metadata")
    info = document.get("profile_info")
    if isinstance(info, list) and info and isinstance(info[0], dict):
        keys = {"profile_name", "profiler_version", "profiler_build_time"} & set(info[0])
        metadata = {key: info[0][key] for key in keys} | metadata
    timed = {table: _table(f"{name}: {tables[table]}", table, rows(table))
             for table in NAMES if tables.get(table) and document[tables[table]] is not None}
    return facts.assemble(
        name, name, "json", summary=one("Summary"), metadata=metadata, tables=timed,
        throttled=rows("ThrottleSummary"), warnings=facts.messages(rows("Warning"), rows("Error")),
        tensors=facts.tensors(f"{name}: {tables.get('TensorInfo')}", rows("TensorInfo")))
