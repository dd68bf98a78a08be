"""Columns of the profiler's tables, made into a Timeline.

Question  what do the labels, operands, ids and queue types of the profiler's rows say?
Answer    instructions, packets, throttles: a table of the file, column by column -> of a Timeline
Assumes   columns of one length in the file's order; text as Text: codes into the distinct texts
Ignores   how the file holds them (text, parquet), and the summary (facts)

`where` is the file and the table, "trace.json: instruction"; an error names row and field too. A
column that the file lacks is None: its rows are 0 then and its name is in Timeline.unknown, as
"instructions.line", "packets.engine" or, for a table that is not there at all, "packets".
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..timeline import (
    DTYPES,
    ENGINES,
    MATMUL,
    Instructions,
    Ints,
    Packets,
    Spans,
    Throttles,
    Timeline,
)
from .record import ProfileError

LONGEST = 10**15  # ns, 11 days: a later time is not in ns
LARGEST = 2**40   # bytes or multiply-adds of one row; 5 M rows still add up in 64 bits
TINY = 4          # bytes: a packet of so few is a semaphore, no traffic
LABELS = {"tensormatrix": "tensor"} | {name: name for name in ENGINES}  # by lower case
OPERAND_DTYPES = (("bf", "bf16"), ("fp8", "fp8"), ("float8", "fp8"), ("fp16", "fp16"),
                  ("float16", "fp16"), ("tf32", "tf32"), ("fp32", "fp32"), ("float32", "fp32"))
# What a MATMUL multiplies: "src=bfloat16@0x37600[1,0,0][512,1,1] dst=... 128*128 ": dtype, sizes
# of the moving operand, K*M. One match for Python's re and for RE2 (pyarrow extract_regex).
OPERANDS = (r"src=(?P<dtype>\w{1,16})@\w{1,32}(?:\[[-\d,]{1,64}\]\[(?P<sizes>[\d,]{1,64})\])?"
            r".*\s(?P<K>\d{1,6})\*(?P<M>\d{1,6})\s*$")
_OPERANDS = re.compile(OPERANDS, re.DOTALL)


@dataclass(frozen=True, eq=False)
class Text:
    """A column of text: row i says names[codes[i]]."""

    codes: NDArray[np.int32]
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Sequence[str]) -> "Text":
        """Names in order of first use.

        >>> Text.of(["b", "a", "b"]).names
        ('b', 'a')
        """
        place = {name: i for i, name in enumerate(dict.fromkeys(values))}
        return cls(np.fromiter(map(place.__getitem__, values), np.int32, len(values)),
                   tuple(place))

    def among(self, *names: str) -> NDArray[np.bool_]:
        """Rows that say one of these."""
        return np.array([name in names for name in self.names] or [False])[self.codes]


@dataclass(frozen=True, eq=False)
class Shapes:
    """What MATMUL rows multiply, row by row; 0 where the operands do not say it.

    dtype     index into DTYPES
    rows, columns, moving   K, M, N
    """

    dtype: NDArray[np.int8]
    rows: Ints
    columns: Ints
    moving: Ints

    @classmethod
    def of(cls, dtype: Text, rows: Ints, columns: Ints, moving: Ints) -> "Shapes":
        """From the columns of OPERANDS: the profiler's dtype names, K, M, N."""
        return cls(dtypes(dtype.names)[dtype.codes], rows, columns, moving)

    def take(self, rows: NDArray[np.integer]) -> "Shapes":
        return Shapes(self.dtype[rows], self.rows[rows], self.columns[rows], self.moving[rows])


def printable(text: object, limit: int = 500) -> str:
    """Text of a file as one line without control characters, cut: data, fit to be shown.

    Markup is left as it is: who writes HTML escapes it.
    """
    text = str(text)[:limit + 1]
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= limit else text[:limit - 1] + "…"


def bad(where: str, row: int, column: str, expected: str, got: object) -> ProfileError:
    """The error for one cell of a table."""
    return ProfileError(f"{where}[{row}].{column}: expected {expected}, "
                        f"got {printable(got, 60)}")


# --- one column -----------------------------------------------------------------------------------


def whole(where: str, column: str, values: Ints, most: int = LARGEST,
          what: str = "") -> Ints:
    """The values, all of them in 0..most."""
    wrong = (values < 0) | (values > most)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise bad(where, at, column, f"{what or 'a whole number'} in 0..{most}", values[at])
    return values


def times(where: str, start: Ints, end: Ints, names: tuple[str, str]) -> None:
    """Raise unless 0 <= start <= end everywhere; names: the file's, of start and of end."""
    whole(where, names[0], start, LONGEST, "ns")
    wrong = (end < start) | (end > LONGEST)
    if wrong.any():
        at = int(np.argmax(wrong))
        if "duration" in names[1]:
            raise bad(where, at, names[1], f"ns in 0..{LONGEST}", end[at] - start[at])
        raise bad(where, at, names[1], f"ns from {names[0]} = {start[at]} to {LONGEST}", end[at])


def engines(label: Text) -> NDArray[np.int8]:
    """Index into ENGINES, -1 for a label that is no engine; Tensor and TensorMatrix are one."""
    known = [LABELS.get(name.strip().lower()) for name in label.names]
    index = [ENGINES.index(name) if name else -1 for name in known]
    return np.array(index or [-1], np.int8)[label.codes]


def dtypes(names: Iterable[str]) -> NDArray[np.int8]:
    """Index into DTYPES of the profiler's dtype names ("bfloat16", "fp32", ...), 0 if unknown."""
    return np.array([DTYPES.index(next((ours for start, ours in OPERAND_DTYPES
                                        if name.lower().startswith(start)), ""))
                     for name in names] or [0], np.int8)


def shapes(operands: Iterable[str]) -> Shapes:
    """What each of these operand texts of MATMUL rows multiplies.

    >>> one = shapes(["src=fp32@0x0[1,0,0][512,1,1] dst=0x0[1,0,0][512,1,1] 128*64 "])
    >>> one.rows.item(), one.columns.item(), one.moving.item()
    (128, 64, 512)
    """
    dtype: list[str] = []
    K, M, N = found = ([], [], [])  # type: tuple[list[int], list[int], list[int]]
    for text in operands:
        begin = text.find("src=")
        match = _OPERANDS.match(text, begin) if begin >= 0 else None
        name, sizes, rows, wide = match.groups() if match else ("", "", "0", "0")
        dtype.append(name)
        K.append(int(rows))
        M.append(int(wide))
        counts = [int(size) for size in (sizes or "").split(",") if size]
        N.append(min(math.prod(counts), LARGEST) if counts else 0)
    return Shapes.of(Text.of(dtype), *(np.array(column, np.int64) for column in found))


def passes(core: Ints, group: Ints, pc: Ints | None, fp32: NDArray[np.bool_]) -> NDArray[np.int8]:
    """MATMUL rows that together are one fp32 matmul, for each row; columns in order of start.

    group     the same for rows of one instruction of the compiler (bir_id), 0 where unknown
    pc        address of the instruction: in a loop it starts again, and another matmul with it

    Rows of one group that follow each other on a core are the passes of one matmul.
    """
    if not len(core):
        return np.ones(0, np.int8)
    order = np.argsort(core, kind="stable")
    core, group, fp32 = core[order], group[order], fp32[order]
    joins = (core[1:] == core[:-1]) & (group[1:] == group[:-1]) & (group[1:] != 0)
    joins &= fp32[1:] & fp32[:-1]
    if pc is not None:
        joins &= np.diff(pc[order]) > 0
    first = np.flatnonzero(np.r_[True, ~joins])
    sizes = np.diff(np.r_[first, len(core)])
    count = np.empty(len(core), np.int8)
    count[order] = np.minimum(np.repeat(sizes, sizes), 127)
    return count


def places(ids: Ints, wanted: Ints) -> Ints:
    """The row that has each wanted id, the first of several; -1 where none has it.

    >>> places(np.array([7, 5, 7]), np.array([5, 7, 1])).tolist()
    [1, 0, -1]
    """
    found = np.full(len(wanted), -1, np.int64)
    if ids.size and wanted.size:
        order, ascending = np.argsort(ids, kind="stable"), np.argsort(wanted)
        ids, wanted = ids[order], wanted[ascending]  # keys in order find theirs in cached memory
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        found[ascending] = np.where(ids[at] == wanted, order[at], -1)
    return found


def predecessors(ids: Ints, owner: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Instructions.first and .after: row owner[i] waited for the row whose id is wanted[i].

    An id that no row has is left out, and so is a row that names itself.
    """
    target = places(ids, wanted)
    held = (target >= 0) & (target != owner)
    owner, target = owner[held], target[held]
    sort = np.argsort(owner, kind="stable")
    first = np.r_[0, np.cumsum(np.bincount(owner, minlength=len(ids)))]
    return first.astype(np.int64), target[sort].astype(np.int64)


# --- tables ---------------------------------------------------------------------------------------


Rows = TypeVar("Rows", Instructions, Packets, Throttles)


@dataclass(frozen=True)
class Read(Generic[Rows]):
    """What came of a table: its rows, the columns it lacks, what to warn of."""

    rows: Rows
    unknown: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def _or_zero(column: Ints | None, size: int) -> Ints:
    return np.zeros(size, np.int64) if column is None else column


def instructions(where: str, *, core: Ints, engine: Text, start: Ints, end: Ints, opcode: Text,
                 id: Ints, macs: Ints | None = None, kind: Text | None = None,
                 operands: Shapes | None = None, read: Ints | None = None,
                 written: Ints | None = None, group: Ints | None = None, pc: Ints | None = None,
                 line: Text | None = None, before: tuple[Ints, Ints] | None = None,
                 names: tuple[str, str] = ("start_ts", "end_ts")) -> Read[Instructions]:
    """Instructions in order of start, from the columns of the file; sizes: one entry a row.

    engine     the profiler's labels; rows of others (collectives) are left out, with a warning
    macs       elements: multiply-adds of MATMUL rows
    kind       "TRANSPOSE" marks matmuls that only move data
    operands   of the MATMUL rows (other rows are not looked at)
    group, pc  see passes
    before     (row, id) of each predecessor that the file names: ids of instructions
    names      what the file calls start and end, for errors
    """
    size = len(start)
    times(where, start, end, names)
    given = {"macs": macs, "read": read, "written": written}
    for name, column in given.items():
        if column is not None:
            whole(where, {"macs": "elements", "read": "hbm_read_bytes",
                          "written": "hbm_write_bytes"}[name], column)
    unknown = {f"instructions.{name}" for name, column in
               (given | {"line": line, "after": before, "transpose": kind,
                         "dtype": operands, "rows": operands, "columns": operands,
                         "moving": operands}).items() if column is None}
    warnings = []

    index = engines(engine)
    kept = np.flatnonzero(index >= 0)
    if kept.size < size:
        others = sorted({engine.names[c] for c in np.unique(engine.codes[index < 0])})
        warnings.append(f"{size - kept.size:,} instructions of "
                        f"{printable(', '.join(others), 80)} are left out: no engine of a "
                        "NeuronCore that this reader knows")
    order = kept[np.argsort(start[kept], kind="stable")]
    matmul = opcode.among(MATMUL)[order]
    work = _or_zero(macs, size)[order]
    dtype = np.zeros(order.size, np.int8)
    K, M, N = (np.zeros(order.size, np.int64) for _ in range(3))
    if operands is not None:
        own = operands.take(order)
        dtype[matmul] = own.dtype[matmul]
        K[matmul], M[matmul], N[matmul] = (x[matmul] for x in (own.rows, own.columns, own.moving))
        whole(where, "operands", np.maximum(np.maximum(K, M), N), 2**31 - 1)
        area = np.maximum(K * M, 1)
        told = matmul & (work > 0) & (K * M > 0)
        N = np.where(told & (N == 0), np.minimum(work // area, 2**31 - 1), N)
        odd = told & (dtype != DTYPES.index("fp32")) & (N * area != work)
        if odd.any():
            warnings.append(f"{int(odd.sum()):,} of {int(matmul.sum()):,} matmuls: elements are "
                            "not K x M x N of the operands")
    steps = np.ones(order.size, np.int8)
    if group is not None:
        fp32 = dtype == DTYPES.index("fp32")
        steps[matmul] = passes(core[order][matmul], group[order][matmul],
                               None if pc is None else pc[order][matmul], fp32[matmul])
    first, after = np.zeros(order.size + 1, np.int64), np.zeros(0, np.int64)
    if before is not None:
        place = np.full(size, -1, np.int64)
        place[order] = np.arange(order.size)
        owner = place[before[0]]
        first, after = predecessors(id[order], owner[owner >= 0], before[1][owner >= 0])
    rows = Instructions(
        core[order].astype(np.int8), index[order], start[order], end[order], opcode.codes[order],
        work, K.astype(np.int32), M.astype(np.int32), N.astype(np.int32), dtype, steps,
        matmul & (kind.among("TRANSPOSE")[order] if kind is not None else np.False_),
        _or_zero(read, size)[order], _or_zero(written, size)[order], id[order],
        (line.codes[order] if line is not None else np.zeros(order.size, np.int32)),
        tuple(map(printable, opcode.names)),
        tuple(map(printable, line.names)) if line is not None else ("",), first, after)
    return Read(rows, frozenset(unknown), tuple(warnings))


def packets(where: str, *, core: Ints, start: Ints, end: Ints, nbytes: Ints, queue: Text | None,
            engine: Ints | None = None, id: Ints | None = None, duplicate: Text | None = None,
            names: tuple[str, str] = ("start_ts", "end_ts")) -> Read[Packets]:
    """Packets in order of start, from the columns of the file; sizes: one entry a row.

    queue      the profiler's queue_type: instruction fetch is no traffic, nor are TINY packets
    duplicate  rows that say "yes" (or "true") are left out, with a warning
    """
    size = len(start)
    times(where, start, end, names)
    whole(where, "transfer_size", nbytes, what="bytes")
    if engine is not None:
        wrong = (engine < -1) | (engine > 32767)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise bad(where, at, "engine", "the number of a DMA engine", engine[at])
    unknown = {f"packets.{name}" for name, column in
               (("engine", engine), ("traffic", queue), ("id", id)) if column is None}
    kept = np.arange(size)
    warnings = []
    if duplicate is not None:
        kept = np.flatnonzero(~duplicate.among("yes", "true", "True"))
        if kept.size < size:
            warnings.append(f"{size - kept.size:,} duplicate DMA packets are left out")
    order = kept[np.argsort(start[kept], kind="stable")]
    traffic = nbytes > TINY
    if queue is not None:
        traffic = traffic & ~queue.among("instruction")
    rows = Packets(
        core[order].astype(np.int8),
        (engine[order] if engine is not None else np.full(order.size, -1)).astype(np.int16),
        start[order], end[order], nbytes[order], traffic[order], _or_zero(id, size)[order])
    return Read(rows, frozenset(unknown), tuple(warnings))


def throttles(where: str, *, core: Ints, start: Ints, end: Ints, k: Ints, n: Ints,
              kind: Text | None = None,
              names: tuple[str, str] = ("timestamp", "duration")) -> Read[Throttles]:
    """Throttles in order of start; k > n (a limit above 1 is printed by trn1) reads as released.

    kind       rows of one type and core may not overlap
    """
    times(where, start, end, names)
    whole(where, "k", k, 2**31 - 1)
    wrong = (n < 1) | (n >= 2**31)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise bad(where, at, "n", "a whole number of cycles >= 1", n[at])
    codes = kind.codes if kind is not None else np.zeros(len(start), np.int32)
    order = np.lexsort((start, codes, core))
    same = (np.diff(core[order]) == 0) & (np.diff(codes[order]) == 0)
    _apart(where, same, order, start, end, names[0], "throttle events of one type")
    order = np.argsort(start, kind="stable")
    rows = Throttles(core[order].astype(np.int8), start[order], end[order],
                     np.minimum(k, n)[order].astype(np.int32), n[order].astype(np.int32))
    return Read(rows)


def active(where: str, *, core: Ints, engine: Text, start: Ints, end: Ints,
           names: tuple[str, str] = ("start_ts", "end_ts")) -> dict[tuple[int, str], Spans]:
    """Timeline.active, from the columns of ActiveTime; rows of other engines are left out."""
    times(where, start, end, names)
    index = engines(engine)
    order = np.lexsort((start, index, core))
    same = (np.diff(core[order]) == 0) & (np.diff(index[order]) == 0) & (index[order][1:] >= 0)
    _apart(where, same, order, start, end, names[0], "stretches of one engine")
    return {(int(c), ENGINES[e]): Spans.of(start[held], end[held])
            for c in np.unique(core) for e in np.unique(index) if e >= 0
            for held in [(core == c) & (index == e)] if held.any()}


def _apart(where: str, same: NDArray[np.bool_], order: Ints, start: Ints, end: Ints, name: str,
           what: str) -> None:
    """Raise where a row, in this order, starts before the end of the one before it (if `same`)."""
    over = same & (start[order][1:] < end[order][:-1])
    if over.any():
        at = int(np.argmax(over))
        raise bad(where, int(order[at + 1]), name,
                  f"a start after row {order[at]}'s end at {end[order[at]]} ns ({what} do not "
                  "overlap)", start[order[at + 1]])


def timeline(cores: int, last: int | None, own: Read[Instructions] | None,
             moved: Read[Packets] | None, throttled: Read[Throttles] | None,
             active: Mapping[tuple[int, str], Spans] | None = None,
             ) -> tuple[Timeline | None, list[str]]:
    """The Timeline of these tables, None for a table that the file lacks, and its warnings.

    cores     physical cores of the capture
    last      last_hw_timestamp, ns, or None
    No timeline when there are neither instructions nor packets.
    """
    if own is None and moved is None:
        return None, []
    notes = []
    if own is None:
        notes.append("no instructions in this file")
    if moved is None:
        notes.append("no DMA packets in this file: captured or written without the DMA trace")
    own = own or Read(no_instructions(), frozenset(("instructions",)))
    moved = moved or Read(no_packets(), frozenset(("packets",)))
    throttled = throttled or Read(no_throttles(), frozenset(("throttles",)))
    end = max(last or 0, *(int(rows.end.max(initial=0))
                           for rows in (own.rows, moved.rows, throttled.rows)))
    return (Timeline(own.rows, moved.rows, throttled.rows, cores, end,
                     own.unknown | moved.unknown | throttled.unknown, active or {}),
            [*own.warnings, *moved.warnings, *throttled.warnings, *notes])


def no_instructions() -> Instructions:
    """A table without rows."""
    none = np.zeros(0, np.int64)
    return Instructions(*(none.astype(kind) for kind in (
        np.int8, np.int8, np.int64, np.int64, np.int32, np.int64, np.int32, np.int32, np.int32,
        np.int8, np.int8, np.bool_, np.int64, np.int64, np.int64, np.int32)))  # type: ignore[arg-type]


def no_packets() -> Packets:
    """A table without rows."""
    none = np.zeros(0, np.int64)
    return Packets(none.astype(np.int8), none.astype(np.int16), none, none, none,
                   none.astype(bool), none)


def no_throttles() -> Throttles:
    """A table without rows."""
    none = np.zeros(0, np.int64)
    return Throttles(none.astype(np.int8), none, none, none.astype(np.int32),
                     none.astype(np.int32))
