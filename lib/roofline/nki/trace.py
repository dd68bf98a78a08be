"""What a kernel issued, instruction by instruction, and everything that is a sum of it.

Question  which bytes and FLOPs did each line move, and how much was alive at once?
Answer    Trace: records in program order; total() of any of them is a Count
Assumes   an allocation lives from its first write to its last read, in program order
Ignores   what the compiler adds or merges: spills, hoisted loads, shared buffers, packets
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import units
from ..count import Count
from .core import Work
from .memory import Allocation, Layout, MemoryRegion
from .source import Line, Site

Place = tuple[Allocation, Layout, int]  # what an instruction touches, and from which element on

UNKNOWN = "unknown"
NOTHING = "-"
WIDTH = 76  # characters of a line of a warning
SHOWN = 28  # characters of a source line in a table
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync", "dma")


@dataclass(frozen=True)
class Operand:
    """One tile that an instruction read or wrote: a view of an allocation."""

    allocation: Allocation
    layout: Layout
    offset: int

    @property
    def name(self) -> str:
        return self.allocation.name

    @property
    def nbytes(self) -> int:
        """Bytes of the view: elements x their size."""
        return self.layout.nbytes

    def __repr__(self) -> str:
        return f"{self.name} {self.layout!r}"


@dataclass(frozen=True)
class Record:
    """One instruction: what it is, where it stands, what it reads and writes.

    engine   the one it runs on; "unknown" where the compiler chooses among `work.engines`
    flops    Tensor Engine FLOPs, transposes included (work.transpose says which they are)
    """

    core: int
    work: Work
    line: Line
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    name: str | None = None

    @property
    def opcode(self) -> str:
        return self.work.opcode

    @property
    def engine(self) -> str:
        return self.work.engines[0] if len(self.work.engines) == 1 else UNKNOWN

    @property
    def flops(self) -> int:
        return self.work.flops

    @property
    def hbm_read_bytes(self) -> int:
        return sum(operand.layout.hbm_bytes for operand in self.reads)

    @property
    def hbm_write_bytes(self) -> int:
        return sum(operand.layout.hbm_bytes for operand in self.writes)

    @property
    def count(self) -> Count:
        """Its share of W and Q; a transpose is no work."""
        work = {self.work.dtype: self.flops} if self.flops and not self.work.transpose else {}
        return Count(work, self.hbm_read_bytes, self.hbm_write_bytes)

    def __repr__(self) -> str:
        return (f"{self.opcode} on {self.engine}, {self.line}: "
                f"{', '.join(map(repr, self.writes)) or 'nothing'} from "
                f"{', '.join(map(repr, self.reads)) or 'nothing'}")


def total(records: Iterable[Record]) -> Count:
    """The Count of some records: their sum and nothing else."""
    work: dict[str, int] = {}
    read = written = 0
    for record in records:
        if record.flops and not record.work.transpose:
            work[record.work.dtype] = work.get(record.work.dtype, 0) + record.flops
        read += record.hbm_read_bytes
        written += record.hbm_write_bytes
    return Count(work, read, written)


class Trace(Sequence[Record]):
    """The instructions of a kernel in program order; records are made when they are asked for."""

    def __init__(self, issued: Sequence[tuple], core: int = 0) -> None:
        self.issued, self.core = issued, core

    def __len__(self) -> int:
        return len(self.issued)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Trace(self.issued[index], self.core)
        return self._record(self.issued[index])

    def __iter__(self) -> Iterator[Record]:
        return map(self._record, self.issued)

    def _record(self, issued: tuple) -> Record:
        work, site, reads, writes, name = issued
        return Record(self.core, work, site.line, tuple(Operand(*p) for p in reads),
                      tuple(Operand(*p) for p in writes), name)

    def __repr__(self) -> str:
        return f"{len(self):,} instructions of core {self.core}"

    @cached_property
    def scan(self) -> "Scan":
        """What one pass over all instructions finds."""
        totals: dict[tuple[Work, Site], list[int]] = {}
        first: dict[Allocation, int] = {}
        last: dict[Allocation, int] = {}
        early, stores = [], []
        for i, (work, site, reads, writes, _) in enumerate(self.issued):
            row = totals.get((work, site))
            if row is None:
                row = totals[work, site] = [0, 0, 0]
            row[0] += 1
            for place in reads:
                own = place[0]
                last[own] = i
                if own not in first:
                    first[own] = i
                    early.append((own, i))
                row[1] += place[1].hbm_bytes
            for place in writes:
                own, nbytes = place[0], place[1].hbm_bytes
                if own not in first:
                    first[own] = i
                if nbytes:
                    row[2] += nbytes
                    stores.append(place)
        lives = {own: (at, last.get(own, at)) for own, at in first.items() if own.partitions}
        return Scan(totals, lives, early, stores)

    @property
    def totals(self) -> "dict[tuple[Work, Site], list[int]]":
        """(Work, Site) -> [instructions, HBM bytes read, written]."""
        return self.scan.totals

    @property
    def lives(self) -> dict[Allocation, tuple[int, int]]:
        """On-chip allocation -> (first write, last read), as indices of instructions."""
        return self.scan.lives

    @cached_property
    def count(self) -> Count:  # type: ignore[override]  # Sequence's count(value) is of no use here
        """W and Q of this core: the sum of its records."""
        work: dict[str, int] = {}
        for (kind, _), (times, _, _) in self.totals.items():
            if kind.flops and not kind.transpose:
                work[kind.dtype] = work.get(kind.dtype, 0) + times * kind.flops
        rows = self.totals.values()
        return Count(work, sum(row[1] for row in rows), sum(row[2] for row in rows))


@dataclass(frozen=True)
class Scan:
    """Sums and spans of a trace.

    totals   (Work, Site) -> [instructions, HBM bytes read, written]
    lives    on-chip allocation -> (first write, last read), as indices of instructions
    early    allocations that were read before anything wrote them, and the index of the read
    stores   every HBM place that was written, in order
    """

    totals: dict[tuple[Work, Site], list[int]]
    lives: dict[Allocation, tuple[int, int]]
    early: list[tuple[Allocation, int]]
    stores: list[Place]


# --- occupancy -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peak:
    """The fullest moment of a memory: instruction index, what was alive, how much of it."""

    at: int
    amount: int
    alive: tuple[Allocation, ...]


def peak(lives: Mapping[Allocation, tuple[int, int]], region: MemoryRegion,
         size: Callable[[Allocation], int]) -> Peak:
    """The largest sum of size(allocation) over the allocations of a region alive together."""
    own = [(a, first, last) for a, (first, last) in lives.items() if a.buffer is region]
    events = sorted([(first, 0, size(a)) for a, first, _ in own]
                    + [(last, 1, -size(a)) for a, _, last in own])
    now = most = at = 0
    for index, _, change in events:
        now += change
        if now > most:
            most, at = now, index
    return Peak(at, most, tuple(a for a, first, last in own if first <= at <= last))


# --- tables ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorTraffic:
    """One HBM tensor: its size and what crossed.

    reload   bytes read / its bytes: 1 = each element was read once; 0 for one that is only written
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    read: int
    written: int

    @property
    def reload(self) -> float:
        return self.read / self.bytes


@dataclass(frozen=True)
class LineTraffic:
    """One source line: how often it issued, what it moved, and its FLOPs (transposes apart)."""

    line: Line = field(repr=False)
    opcode: str
    instructions: int
    read: int
    written: int
    flops: int
    transpose_flops: int

    @property
    def source(self) -> str:
        """The line's text, shortened."""
        text = self.line.text
        return text if len(text) <= SHOWN else f"{text[:SHOWN - 3]}..."


@dataclass(frozen=True)
class MatmulSize:
    """Matmul instructions of one size: [K, M] stationary by [K, N] moving, 2 K M N FLOPs each.

    Of an nc_transpose `moving` is the identity, which no source loads.
    """

    dtype: str
    K: int
    M: int
    N: int
    instructions: int

    @property
    def stationary(self) -> tuple[int, int]:
        return self.K, self.M

    @property
    def moving(self) -> tuple[int, int]:
        return self.K, self.N

    @property
    def each(self) -> int:
        return 2 * self.K * self.M * self.N

    @property
    def flops(self) -> int:
        return self.instructions * self.each


@dataclass(frozen=True)
class Table(Sequence):
    """Rows that print as a table; a column with nothing in it is left out.

    columns   (title, text of a row); a title that begins with < is set to the left
    notes     warnings that belong to all of it
    """

    rows: tuple
    columns: tuple[tuple[str, Callable[[Any], str]], ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __repr__(self) -> str:
        cells = [[title, *(show(row) for row in self.rows)] for title, show in self.columns]
        shown = columns([column for column in cells if {*column[1:]} != {NOTHING}])
        return "\n".join([shown, *warned(self.notes)])


def warned(warnings: Iterable[str]) -> list[str]:
    """Warnings as lines under what they are about, short enough for a page."""
    return [line for text in warnings
            for line in textwrap.wrap(f"warning: {text}", WIDTH, subsequent_indent="  ")]


def columns(cells: Sequence[Sequence[str]]) -> str:
    """Columns of text side by side, to the right, or to the left where the title begins with <."""
    set_ = []
    for title, *rows in cells:
        left, title = title.startswith("<"), title.removeprefix("<")
        width = max(map(len, (title, *rows)))
        set_.append([c.ljust(width) if left else c.rjust(width) for c in (title, *rows)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*set_, strict=True))


class Counters(dict[str, "int | float | str"]):
    """Counters by the profiler's names; prints one a line."""

    def __repr__(self) -> str:
        shown = [v if isinstance(v, str) else units.significant(v, 6) if isinstance(v, float)
                 else f"{v:,}" for v in self.values()]
        return columns([["<counter", *self], ["value", *shown]])


def tensors(traces: Sequence[Trace], known: Sequence[Allocation]) -> Table:
    """Traffic of each HBM tensor, in the order they came to be."""
    read: dict[Allocation, int] = dict.fromkeys(known, 0)
    written: dict[Allocation, int] = dict.fromkeys(known, 0)
    for trace in traces:
        for _, _, reads, writes, _ in trace.issued:
            for places, sums in ((reads, read), (writes, written)):
                for own, layout, _ in places:
                    if layout.hbm_bytes:
                        sums[own] = sums.get(own, 0) + layout.hbm_bytes
    rows = tuple(TensorTraffic(a.name, a.shape, str(a.dtype), a.nbytes, read.get(a, 0),
                               written.get(a, 0)) for a in dict.fromkeys([*read, *written]))
    return Table(rows, (
        ("<tensor", lambda r: r.name), ("shape", lambda r: str(list(r.shape))),
        ("dtype", lambda r: r.dtype), ("bytes", lambda r: f"{r.bytes:,}"),
        ("read", lambda r: f"{r.read:,}"), ("written", lambda r: f"{r.written:,}"),
        ("reload", lambda r: f"{r.reload:g}" if r.read else NOTHING)))


def lines(traces: Sequence[Trace]) -> Table:
    """Traffic of each source line that issued an instruction."""
    found: dict[tuple[Line, str], list[int]] = {}
    for trace in traces:
        for (work, site), (times, read, written) in trace.totals.items():
            row = found.setdefault((site.line, work.opcode), [0, 0, 0, 0, 0])
            flops = times * work.flops
            for i, amount in enumerate((times, read, written, 0 if work.transpose else flops,
                                        flops if work.transpose else 0)):
                row[i] += amount
    named = len({line.function for line, _ in found}) > 1
    rows = tuple(LineTraffic(line, opcode, *row) for (line, opcode), row in
                 sorted(found.items(), key=lambda item: (item[0][0].file, item[0][0].number)))
    return Table(rows, (
        ("<line", lambda r: str(r.line) if named else str(r.line.number)),
        ("instruction", lambda r: r.opcode),
        ("times", lambda r: f"{r.instructions:,}"), ("read", lambda r: f"{r.read:,}"),
        ("written", lambda r: f"{r.written:,}"), ("FLOPs", lambda r: f"{r.flops:,}"),
        ("transposes", lambda r: f"{r.transpose_flops:,}" if r.transpose_flops else NOTHING),
        ("<source", lambda r: r.source or NOTHING)))


def matmuls(traces: Sequence[Trace], transposes: bool = False) -> Table:
    """W as instructions times the size of one, without transposes; or these alone."""
    found: dict[tuple, int] = {}
    for trace in traces:
        for work, _, _, writes, _ in trace.issued:
            if work.flops and work.transpose == transposes:
                M, N = writes[0][1].P, writes[0][1].F
                size = work.dtype, work.flops // (2 * M * N), M, N
                found[size] = found.get(size, 0) + 1
    rows = tuple(MatmulSize(dtype, K, M, N, times)
                 for (dtype, K, M, N), times in found.items())
    return Table(rows, (
        ("<dtype", lambda r: r.dtype), ("stationary", lambda r: str([*r.stationary])),
        ("moving", lambda r: str([*r.moving])), ("times", lambda r: f"{r.instructions:,}"),
        ("FLOPs each", lambda r: f"{r.each:,}"), ("FLOPs", lambda r: f"{r.flops:,}")))


CONVENTIONS = """\
W            2 FLOPs a multiply-add of nc_matmul, under the slower of its two dtypes; the other
             engines do no FLOPs here, as in the profiler
fp32         counts once, as hardware_flops does in recent versions of Neuron Explorer. Older
             compilers split an fp32 matmul in two passes and their profiles show twice as many;
             adjusted_hardware_flops weighs fp32 by 4, fp8 by 1 (trn1) or 0.5 (trn2, trn3)
transposes   on the Tensor Engine are in hardware_flops and transpose_flops, not in W
Q            bytes at HBM of every transfer in the source, each side in its own dtype; what the
             compiler spills, hoists or merges is not in it, and in a profile it is
instructions the kernel's own; a profile also holds the compiler's and the runtime's
LNC=2        sums over both cores, as the profiler's counts are
unknown      the compiler or the runtime decides it"""


def counters(traces: Sequence[Trace]) -> Counters:
    """Neuron Explorer's Summary names, for what the source decides; "unknown" for the rest.

    Counted as CONVENTIONS says.
    """
    count = sum((t.count for t in traces), Count())
    flops = transposes = 0
    issued = dict.fromkeys(ENGINES, 0)
    undecided: set[str] = set()  # engines among which the compiler chooses
    for trace in traces:
        for (work, _), (times, _, _) in trace.totals.items():
            flops += times * work.flops
            transposes += times * work.flops if work.transpose else 0
            for engine in work.engines:
                issued[engine] += times
            if len(work.engines) > 1:
                undecided.update(work.engines)
    # nc_transpose is the one instruction that may leave the Tensor Engine, and its FLOPs with it
    moved = any(work.opcode == "nc_transpose" and len(work.engines) > 1
                for trace in traces for work, _ in trace.totals)
    matmuls = sum(times for trace in traces for (work, _), (times, _, _) in trace.totals.items()
                  if work.flops)

    def on(engine: str, instructions: int) -> int | str:
        return UNKNOWN if engine in undecided else instructions

    return Counters({
        "hardware_flops": UNKNOWN if moved else flops,
        "transpose_flops": UNKNOWN if moved else transposes,
        "hbm_read_bytes": count.hbm_read_bytes,
        "hbm_write_bytes": count.hbm_write_bytes,
        "mm_arithmetic_intensity": count.flops / count.hbm_bytes if count.hbm_bytes else UNKNOWN,
        "matmul_instruction_count": UNKNOWN if moved else matmuls,
        # each nc_matmul is a LDWEIGHTS and a MATMUL
        "tensor_engine_instruction_count": on("tensor", issued["tensor"] + matmuls),
        **{f"{e}_engine_instruction_count": on(e, issued[e])
           for e in ("vector", "scalar", "gpsimd")},
        **dict.fromkeys(("dma_transfer_count", "dma_transfer_average_bytes", "spill_save_bytes",
                         "spill_reload_bytes"), UNKNOWN),
    })
