"""Columns of the profiler's tables, made into a Timeline.

Question  what do the labels, operands, ids and queue types of the profiler's rows say?
Answer    NAMES: what each version calls a column; Table: the columns of one table by our names;
          timeline(tables): the Timeline of them, and what to warn of
Assumes   columns of one length in the file's order; text as Text: codes into the distinct texts
Ignores   how the file holds them (text, parquet), and the summary (facts)

An error names file, table, row and column as the file has them. A column that the file lacks, or
that says nothing in any row, is in no Table: its rows are 0 then, and Timeline.unknown has it.
"""

import functools
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..table import printable
from ..timeline import (
    DTYPES,
    ENGINES,
    MATMUL,
    WEIGHTS,
    Instructions,
    Ints,
    Packets,
    Spans,
    Throttles,
    Timeline,
    by_row,
)
from .record import ProfileError

Whole = NDArray[np.integer]
LONGEST = 10**15  # ns, 11 days: a later time is not in ns
LARGEST = 2**40   # bytes or multiply-adds of one row; 5 M rows still add up in 64 bits
TINY = 4          # bytes: a packet of so few is a semaphore, no traffic
LABELS = {"tensormatrix": "tensor"} | {name: name for name in ENGINES}  # by lower case
OPERAND_DTYPES = (("bf", "bf16"), ("fp8", "fp8"), ("float8", "fp8"), ("fp16", "fp16"),
                  ("float16", "fp16"), ("tf32", "tf32"), ("fp32", "fp32"), ("float32", "fp32"))
# What a MATMUL multiplies: "src=bfloat16@0x37600[1,0,0][512,1,1] dst=0x2000000... 128*128 ":
# dtype, sizes of the moving operand, where the product goes, K*M.
OPERANDS = re.compile(
    r"src=(?P<dtype>\w{1,16})@\w{1,32}(?:\[[-\d,]{1,64}\]\[(?P<sizes>[\d,]{1,64})\])?"
    r"(?: dst=0x(?P<dst>[\da-f]{1,15}))?.*\s(?P<K>\d{1,6})\*(?P<M>\d{1,6})\s*$", re.DOTALL)
# What LDWEIGHTS says of the MATMUL behind it.
MODES = re.compile(r"(transpose_mode|is_transpose|fp32_mode)=(\w{1,16})")
MOVES, WORKS, LOW, HIGH = 1, 2, 4, 8  # Shapes.mode: a transpose, none, fp32's first pass, second
CORE = re.compile(r"(?:sg)?0{0,8}(\d{1,3})")
# Our name of a column -> its name in schema 7.x, then in Neuron Profile 2.26 to 2.28.
_TIMES = {"start": ("start_ts", "timestamp"), "end": ("end_ts",),
          "duration": ("duration_ns", "duration"), "core": ("pcore_idx", "subgraph")}
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "Instruction": _TIMES | {
        "engine": ("engine", "label"), "opcode": ("opcode",), "operands": ("operands",),
        "id": ("id",), "pc": ("pc",), "group": ("raw_bir_id", "bir_id"),
        "line": ("nki_source_location",), "elsewhere": ("bir_debug_info_source_location",),
        "read": ("hbm_read_bytes",), "written": ("hbm_write_bytes",), "flops": ("raw_flops",),
        "macs": ("tensor_elements", "elements"),
        "kind": ("tensor_instruction_type", "instruction_type")},
    "DmaPacket": _TIMES | {
        "nbytes": ("transfer_bytes", "transfer_size"), "queue": ("queue_type",),
        "device": ("engine_idx", "dma_engine"), "packet": ("id",),
        "id": ("packet_aggregation_id",), "duplicate": ("duplicate",)},
    "Throttle": _TIMES | {"k": ("k",), "n": ("n",), "kind": ("type",)},
    "ActiveTime": _TIMES | {"engine": ("engine",)},
    "Flow": {"before": ("in_id",), "after": ("out_id",), "from": ("in_table",),
             "to": ("out_table",)},
}
NEEDED = frozenset(  # the table must have them, and each row a value, but for text
    ("start", "engine", "opcode", "nbytes", "k", "n", "before", "after", "from", "to"))
TEXT = frozenset(("engine", "opcode", "line", "elsewhere", "kind", "queue", "duplicate", "from",
                  "to"))
ABSENT = {"core": -1, "device": -1}  # a row without a value has 0 in the other columns


def bad(where: str, row: int, column: str, expected: str, got: object) -> ProfileError:
    """The error for one cell of a table."""
    return ProfileError(f"{where}[{row}].{column}: expected {expected}, "
                        f"got {printable(got, 60)}")


# --- one column -----------------------------------------------------------------------------------


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
        """Rows that say one of these, in capitals or not."""
        known = {name.lower() for name in names}
        return np.array([name.lower() in known for name in self.names] or [False])[self.codes]

    def or_else(self, other: "Text") -> "Text":
        """The other's text in rows without any."""
        names = self.names + other.names
        place = {name: i for i, name in enumerate(dict.fromkeys(names))}
        codes = np.where(self.among(""), other.codes + len(self.names), self.codes)
        return Text(np.array([place[name] for name in names] or [0], np.int32)[codes],
                    tuple(place))


class Shapes(NamedTuple):
    """What Tensor Engine rows multiply, row by row; 0 where the operands do not say it.

    dtype     index into DTYPES
    rows, columns, moving   K, M, N
    target    where the product goes
    mode      of LDWEIGHTS: MOVES, WORKS, LOW, HIGH
    """

    dtype: Whole
    rows: Whole
    columns: Whole
    moving: Whole
    target: Whole
    mode: Whole

    def take(self, rows: Whole) -> "Shapes":
        return Shapes._make(column[rows] for column in self)

    def spread(self, held: NDArray[np.bool_]) -> "Shapes":
        """Of all rows of a table, where these are the rows in `held`."""
        every = [np.zeros(len(held), column.dtype) for column in self]
        for mine, its in zip(every, self, strict=True):
            mine[held] = its
        return Shapes._make(every)


def shapes(operands: Iterable[str], modes: bool = False) -> Shapes:
    """What each of these operand texts of MATMUL rows multiplies; modes: LDWEIGHTS too.

    >>> one = shapes(["src=fp32@0x0[1,0,0][512,1,1] dst=0x0[1,0,0][512,1,1] 128*64 "])
    >>> one.rows.item(), one.columns.item(), one.moving.item()
    (128, 64, 512)
    """
    found = []
    for text in operands:
        begin = text.find("src=")
        match = OPERANDS.match(text, begin) if begin >= 0 else None
        name, sizes, target, K, M = match.groups() if match else ("", "", "", 0, 0)
        counts = [int(size) for size in (sizes or "").split(",") if size]
        N = min(math.prod(counts), LARGEST) if counts else 0
        found.append((_dtype(name), int(K), int(M), N, int(target or "0", 16),
                      _mode(text) if modes else 0))
    kinds = (np.int8, np.int32, np.int32, np.int64, np.int64, np.int8)
    columns = np.array(found, np.int64).reshape(-1, len(kinds)).T
    return Shapes._make(column.astype(kind) for column, kind in zip(columns, kinds, strict=True))


@functools.lru_cache(256)
def _dtype(name: str) -> int:
    """Index into DTYPES of the profiler's dtype name ("bfloat16", "fp32", ...), 0 if unknown."""
    return DTYPES.index(next((ours for start, ours in OPERAND_DTYPES
                              if name.lower().startswith(start)), ""))


def _mode(text: str) -> int:
    mode = 0
    for what, said in MODES.findall(text):
        if what == "fp32_mode":
            mode |= {"LOW": LOW, "HIGH": HIGH}.get(said, 0)
        else:
            mode |= MOVES if said.lower() in ("enabled", "true", "1") else WORKS
    return mode


def multiplied(opcode: Text, names: Collection[str]) -> tuple[NDArray[np.bool_], bool]:
    """Rows whose operands are needed, and whether modes are: then LDWEIGHTS are among them."""
    modes = not {"kind", "group"} <= set(names)
    return opcode.among(MATMUL, *([WEIGHTS] if modes else [])), modes


def engines(label: Text) -> NDArray[np.int8]:
    """Index into ENGINES, -1 for a label that is no engine; Tensor and TensorMatrix are one."""
    known = [LABELS.get(name.strip().lower()) for name in label.names]
    index = [ENGINES.index(name) if name else -1 for name in known]
    return np.array(index or [-1], np.int8)[label.codes]


def numbered(where: str, name: str, ours: str, text: Text, first: int = 0) -> Ints:
    """Text in a column of numbers: physical cores ("sg01", -1 for none), or bir_id, 0 for none.

    where, name, ours   the table, and the column as the file calls it and as we do
    first               row of the table that the text begins with
    """
    if ours == "group":
        known = [0 if label in ("", "0") else i + 1 for i, label in enumerate(text.names)]
    else:
        matches = [CORE.fullmatch(label) for label in text.names]
        known = [int(match[1]) if match else -1 for match in matches]
        for i, label in enumerate(text.names):
            if label and not matches[i]:
                raise bad(where, first + int(np.argmax(text.codes == i)), name,
                          "a physical core, such as 0 or sg00", repr(label))
    return np.array(known or [0], np.int64)[text.codes]


def passes(core: Whole, group: Ints, pc: Ints | None, fp32: NDArray[np.bool_],
           *same: Whole) -> Ints:
    """MATMUL rows that together are one fp32 matmul, for each row; columns in order of start.

    group     the same for rows of one instruction of the compiler (bir_id), 0 where unknown
    pc        address of the instruction: in a loop it starts again, and another matmul with it
    same      what rows of one matmul have in common: K, M, N, where the product goes

    Rows of one group that follow each other on a core are the passes of one matmul.
    """
    if not len(core):
        return np.ones(0, np.int64)
    order = np.argsort(core, kind="stable")
    joins = fp32[order][1:] & fp32[order][:-1] & (group[order][1:] != 0)
    for column in (core, group, *same):
        joins &= column[order][1:] == column[order][:-1]
    if pc is not None:
        joins &= np.diff(pc[order]) > 0
    first = np.flatnonzero(np.r_[True, ~joins])
    sizes = np.diff(np.r_[first, len(core)])
    count = np.empty(len(core), np.int64)
    count[order] = np.repeat(sizes, sizes)
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


# --- one table ------------------------------------------------------------------------------------


@dataclass
class Table:
    """The columns that one table of the file has, by our names.

    where     the file and the table, "trace.json: instruction"
    names     our name of a column -> the file's
    ints, texts, shapes   the columns; shapes has 0 in all rows but those of `multiplied`
    before    (row, id) of each predecessor that the file names: ids of instructions
    """

    where: str
    size: int
    names: Mapping[str, str]
    ints: dict[str, Ints]
    texts: dict[str, Text]
    shapes: Shapes | None = None
    before: tuple[Ints, Ints] | None = None

    def whole(self, name: str, most: int = LARGEST, what: str = "") -> Ints:
        """A column, all of it in 0..most; 0 where the table lacks it."""
        values = self.ints.get(name)
        if values is None:
            return np.zeros(self.size, np.int64)
        self.refuse((values < 0) | (values > most), name,
                    f"{what or 'a whole number'} in 0..{most}", values)
        return values

    def refuse(self, wrong: NDArray[np.bool_], name: str, expected: str, got: Whole) -> None:
        """Raise for the first wrong row."""
        if wrong.any():
            at = int(np.argmax(wrong))
            raise bad(self.where, at, self.names.get(name, NAMES["Instruction"].get(
                name, (name,))[0]), expected, got[at] if got[at] != ABSENT.get(name) else "none")

    def times(self) -> tuple[Ints, Ints]:
        """Start and end, ns: 0 <= start <= end."""
        start = self.whole("start", LONGEST, "ns")
        if "end" not in self.ints:
            end = start + self.whole("duration", LONGEST, "ns")
            self.refuse(end > LONGEST, "duration", f"an end in 0..{LONGEST} ns", end)
            return start, end
        end = self.ints["end"]
        wrong = (end < start) | (end > LONGEST)
        self.refuse(wrong, "end", f"ns from {self.names['start']} = "
                    f"{start[np.argmax(wrong)] if wrong.any() else 0} to {LONGEST}", end)
        if "duration" in self.ints:
            took = self.ints["duration"]
            wrong = np.abs(end - start - took) > 1  # both are rounded
            self.refuse(wrong, "duration", f"{self.names['end']} - {self.names['start']} = "
                        f"{(end - start)[np.argmax(wrong)] if wrong.any() else 0} ns", took)
        return start, end

    def core(self, cores: int) -> Ints:
        """Physical core of each row. One core needs no column; of two, no core is not core 0."""
        core = self.ints.get("core", np.full(self.size, -1))
        if cores == 1:
            core = np.where(core == -1, 0, core)
        self.refuse((core < 0) | (core >= cores), "core", f"one of the {cores} physical cores "
                    f"of this profile, 0{' or 1, as two took part' * (cores - 1)}", core)
        return core

    def lacks(self, table: str, *names: str) -> set[str]:
        """Of these, the columns that say nothing; of a table without rows none does."""
        have = {*self.ints, *self.texts, *(["operands"] if self.shapes is not None else [])}
        return {f"{table}.{name}" for name in names if name not in have} if self.size else set()


def chosen(where: str, table: str, there: Collection[str], more: str = "") -> dict[str, str]:
    """Our names -> the file's, of those of its columns that are read.

    Raises ProfileError when one is missing that nothing can be read without.
    """
    wanted = NAMES[table]
    names = {name: other for name, others in wanted.items()
             for other in [next((one for one in others if one in there), "")] if other}
    lacking = [" or ".join(wanted[name]) for name in wanted if name in NEEDED and name not in names]
    if "start" in wanted and not {"end", "duration"} & set(names):
        lacking.append("end_ts or duration_ns or duration")
    if lacking:
        raise ProfileError(f"{where}: expected a column {lacking[0]}, got rows with "
                           f"{printable(', '.join(there), 120) or 'nothing'}{more}")
    return names


def cores_seen(tables: Mapping[str, Table | None]) -> int | None:
    """Physical cores that rows name, 1 or 2; None where no table names any."""
    last = [int(table.ints["core"].max()) for table in tables.values()
            if table and table.size and "core" in table.ints]
    return min(max(last, default=-1) + 1, 2) or None


# --- the timeline ---------------------------------------------------------------------------------


def timeline(tables: Mapping[str, Table | None], cores: int, last: int
             ) -> tuple[Timeline | None, list[str]]:
    """The Timeline of these tables, None for one that the file lacks; and what to warn of.

    cores     physical cores of the capture
    last      last_hw_timestamp, ns, 0 where unknown
    No timeline when there are neither instructions nor packets.
    """
    own, moved, slow, on = (tables.get(name) for name in (
        "Instruction", "DmaPacket", "Throttle", "ActiveTime"))
    if own is None and moved is None:
        return None, []
    unknown: set[str] = set()
    notes: list[str] = []
    rows, packets, throttles = Instructions.none(), Packets.none(), Throttles.none()
    if own is not None:
        rows = _instructions(own, cores, unknown, notes)
    if moved is not None:
        packets = _packets(moved, cores, unknown, notes)
    if slow is not None:
        throttles = _throttles(slow, cores, notes)
    for name, table in (("instructions", own), ("packets", moved), ("throttles", slow)):
        unknown |= {name} if table is None else set()
    if own is None:
        notes.append("no instructions in this file")
    if moved is None:
        notes.append("no DMA packets in this file: captured or written without the DMA trace")
    end = max(last, *(int(of.end.max(initial=0)) for of in (rows, packets, throttles)))
    return Timeline(rows, packets, throttles, cores, end, frozenset(unknown),
                    {} if on is None else _active(on, cores)), notes


def _instructions(table: Table, cores: int, unknown: set[str], notes: list[str]) -> Instructions:
    """In order of start. Rows of no engine (collectives) are left out, with a warning."""
    start, end = table.times()
    core, engine, opcode = table.core(cores), table.texts["engine"], table.texts["opcode"]
    line, compilers = table.texts.get("line"), table.texts.get("elsewhere")
    line = compilers if line is None else line if compilers is None else line.or_else(compilers)
    # the schema asks not to use tensor_elements where there are raw_flops
    macs = (table.whole("flops", 2 * LARGEST) // 2 if "flops" in table.ints
            else table.whole("macs"))
    unknown |= table.lacks("instructions", "read", "written")
    unknown |= table.lacks("instructions", "macs") if "flops" not in table.ints else set()
    if table.size and line is None:
        unknown.add("instructions.line")
    before = table.before if "id" in table.ints else None
    if table.size and before is None:
        unknown.add("instructions.after")
    if table.lacks("", "operands"):
        unknown |= {f"instructions.{name}" for name in ("dtype", "rows", "columns", "moving")}

    index = engines(engine)
    kept = np.flatnonzero(index >= 0)
    if kept.size < table.size:
        others = sorted({engine.names[c] for c in np.unique(engine.codes[index < 0])})
        notes.append(f"{table.size - kept.size:,} of {table.size:,} instructions are left out: of "
                     f"{printable(', '.join(other or 'no name' for other in others), 80)}, no "
                     "engine of a NeuronCore that this reader knows")
    known, kept = kept.size, kept if "id" not in table.ints else _once(
        kept, table.ints["id"], start, end)
    if kept.size < known:
        notes.append(f"duplicate instructions are left out: {known - kept.size:,} of {known:,}")
    order = kept[np.argsort(start[kept], kind="stable")]
    core, work, size = core[order], macs[order], order.size
    own = table.shapes or shapes([""]).take(np.zeros(table.size, np.int64))
    table.refuse(own.moving >= 2**31, "operands", f"K, M, N in 0..{2**31 - 1}", own.moving)
    own = own.take(order)
    matmul = opcode.among(MATMUL)[order]
    dtype, K, M, N = (np.where(matmul, column, 0) for column in own[:4])
    area = K.astype(np.int64) * M
    told = matmul & (work > 0) & (area > 0)
    N = np.where(told & (N == 0), np.minimum(work // np.maximum(area, 1), 2**31 - 1), N)
    odd = int((told & (dtype != DTYPES.index("fp32")) & (N * area != work)).sum())
    if odd:
        notes.append(f"{odd:,} of {int(matmul.sum()):,} matmuls: elements are not K x M x N of "
                     "the operands")
    mode = own.mode
    if mode.any():
        weights = _weights(core, matmul, opcode.among(WEIGHTS)[order])
        mode = np.where(weights >= 0, mode[weights], 0)
    transpose = _transposes(table, order, matmul, mode, unknown, notes)
    steps = np.ones(size, np.int8)
    steps[matmul] = _steps(table, order[matmul], core[matmul], mode[matmul], transpose[matmul],
                           own.take(np.flatnonzero(matmul)), unknown, notes)
    id = table.ints.get("id", np.arange(table.size))
    first, after = np.zeros(size + 1, np.int64), np.zeros(0, np.int64)
    if before is not None:
        place = np.full(table.size, -1, np.int64)
        place[order] = np.arange(size)
        owner, target = place[before[0]], places(id[order], before[1])
        held = (owner >= 0) & (target >= 0) & (owner != target)
        first, after = by_row(owner[held], target[held], size)
    return Instructions(
        core.astype(np.int8), index[order], start[order], end[order], opcode.codes[order], work,
        K.astype(np.int32), M.astype(np.int32), N.astype(np.int32), dtype.astype(np.int8), steps,
        transpose, table.whole("read")[order], table.whole("written")[order], id[order],
        line.codes[order] if line is not None else np.zeros(size, np.int32),
        tuple(map(printable, opcode.names)),
        tuple(map(printable, line.names)) if line is not None else ("",), first, after)


def _weights(core: Whole, matmul: NDArray[np.bool_], loads: NDArray[np.bool_]) -> Ints:
    """Row of the LDWEIGHTS whose weights each MATMUL row uses: the last on its core; else -1."""
    found = np.full(len(core), -1, np.int64)
    for one in np.unique(core[matmul]):
        rows = np.flatnonzero((core == one) & (matmul | loads))
        found[rows] = np.maximum.accumulate(np.where(loads[rows], rows, -1))
    return np.where(matmul, found, -1)


def _transposes(table: Table, order: Ints, matmul: NDArray[np.bool_], mode: Whole,
                unknown: set[str], notes: list[str]) -> NDArray[np.bool_]:
    """MATMUL rows that only move data: as their type says, else as their LDWEIGHTS does."""
    kind = table.texts.get("kind")
    if kind is not None and not kind.among("")[order][matmul].any():
        return matmul & kind.among("TRANSPOSE")[order]
    if (mode[matmul] & (MOVES | WORKS) != 0).all():
        return matmul & (mode & MOVES != 0)
    unknown.add("instructions.transpose")
    notes.append("which matmuls are transposes and no work is unknown: no instruction_type, and no "
                 "transpose_mode in the operands")
    return np.zeros(len(matmul), bool)


def _steps(table: Table, rows: Ints, core: Whole, mode: Whole,
           moves: NDArray[np.bool_], own: Shapes, unknown: set[str], notes: list[str]) -> Ints:
    """Instructions.passes of the MATMUL rows `rows`, in order of start.

    bir_id tells which rows are one matmul; without it fp32_mode of the weights: LOW begins one,
    HIGH goes on with it.
    """
    fp32, group = own.dtype == DTYPES.index("fp32"), table.ints.get("group")
    if group is None:
        by_core = np.argsort(core, kind="stable")
        begins = mode[by_core] & HIGH == 0
        group = np.zeros(len(rows), np.int64)
        group[by_core] = np.cumsum(begins)
        group[mode & (LOW | HIGH) == 0] = 0
    else:
        group = group[rows]
    doubtful = (fp32 & ~moves & (group == 0)) if table.shapes is not None else np.ones(len(rows))
    if doubtful.any():
        unknown.add("instructions.passes")
        notes.append("which matmul rows are passes of one fp32 matmul is unknown, so FLOPs may "
                     "count twice: it takes operands, and bir_id or fp32_mode in them")
    if doubtful.any() or not fp32.any():
        return np.ones(len(rows), np.int64)
    pc = table.ints["pc"][rows] if "pc" in table.ints else None
    steps = passes(core, group, pc, fp32, *own[1:5])
    odd = ~np.isin(steps, (1, 2, 4))
    if odd.any():
        notes.append(f"{int(odd.sum()):,} fp32 matmul rows of groups of neither 2 nor 4: each "
                     "read as a matmul of its own")
    return np.where(odd, 1, steps)


def _packets(table: Table, cores: int, unknown: set[str], notes: list[str]) -> Packets:
    """In order of start. Instruction fetch is no traffic, nor are TINY packets.

    Rows that say "yes" (or "true") to duplicate are left out, and rows that repeat an earlier one:
    the profiler is known to list some packets twice.
    """
    start, end = table.times()
    nbytes = table.whole("nbytes", what="bytes")
    core, size = table.core(cores), table.size
    device = table.ints.get("device", np.full(size, -1))
    table.refuse((device < -1) | (device > 32767), "device", "the number of a DMA engine", device)
    unknown |= table.lacks("packets", "id")
    unknown |= {"packets.engine"} if table.lacks("", "device") else set()
    traffic = nbytes > TINY
    if "queue" in table.texts:
        traffic &= ~table.texts["queue"].among("instruction")
    elif size:
        unknown.add("packets.traffic")
        notes.append("which packets fetch instructions and are no traffic is unknown: no "
                     "queue_type")
    kept = np.arange(size)
    if "duplicate" in table.texts:
        kept = np.flatnonzero(~table.texts["duplicate"].among("yes", "true"))
    if "packet" in table.ints:
        kept = _once(kept, table.ints["packet"], start, end)
    if kept.size < size:
        notes.append(f"duplicate DMA packets are left out: {size - kept.size:,} of {size:,}")
    order = kept[np.argsort(start[kept], kind="stable")]
    return Packets(core[order].astype(np.int8), device[order].astype(np.int16), start[order],
                   end[order], nbytes[order], traffic[order],
                   table.ints.get("id", np.zeros(size, np.int64))[order])


def _once(rows: Ints, *keys: Ints) -> Ints:
    """These rows without those that repeat an earlier one in every key. A first key of 0 is none.

    >>> _once(np.arange(4), np.array([5, 5, 0, 0])).tolist()
    [0, 2, 3]
    """
    held = [key[rows] for key in keys]
    ids = np.sort(held[0])
    if not (ids[1:] == ids[:-1]).any():
        return rows
    order = np.lexsort(held[::-1])  # equal keys stay in the order of rows
    again = np.zeros(rows.size, bool)
    again[order[1:]] = np.all([key[order][1:] == key[order][:-1] for key in held], axis=0)
    return rows[~again | (held[0] == 0)]


def _throttles(table: Table, cores: int, notes: list[str]) -> Throttles:
    """In order of start; k > n (a limit above 1 is printed by trn1) reads as released."""
    start, end = table.times()
    core, k, n = table.core(cores), table.whole("k", 2**31 - 1), table.whole("n", 2**31 - 1)
    table.refuse(n < 1, "n", "a whole number of cycles >= 1", n)
    if "kind" in table.texts:
        order, over = _overlaps(start, end, core, table.texts["kind"].codes)
        if over.any():
            notes.append(f"{int(over.sum()):,} throttle events overlap another of their type: "
                         "the lowest limit holds")
    order = np.argsort(start, kind="stable")
    return Throttles(core[order].astype(np.int8), start[order], end[order],
                     np.minimum(k, n)[order].astype(np.int32), n[order].astype(np.int32))


def _active(table: Table, cores: int) -> dict[tuple[int, str], Spans]:
    """Timeline.active; rows of other engines are left out."""
    start, end = table.times()
    core, index = table.core(cores), engines(table.texts["engine"])
    order, over = _overlaps(start, end, core, index)
    over &= index[order][1:] >= 0
    if over.any():
        at = int(np.argmax(over))
        raise bad(table.where, int(order[at + 1]), table.names["start"],
                  f"a start after row {order[at]}'s end at {end[order[at]]} ns (stretches of one "
                  "engine do not overlap)", start[order[at + 1]])
    return {(int(c), ENGINES[e]): Spans.of(start[held], end[held])
            for c in np.unique(core) for e in np.unique(index) if e >= 0
            for held in [(core == c) & (index == e)] if held.any()}


def _overlaps(start: Ints, end: Ints, *kinds: Whole) -> tuple[Ints, NDArray[np.bool_]]:
    """Rows in order of kinds and start, and which of all but the first starts before the end of
    the row before it, of the same kinds."""
    order = np.lexsort((start, *kinds))
    over = start[order][1:] < end[order][:-1]
    for kind in kinds:
        over &= kind[order][1:] == kind[order][:-1]
    return order, over
