"""What ran when on a NeuronCore: instructions, DMA packets and throttling as columns, and spans.

Question  which engine was busy in which nanoseconds, and with what?
Answer    Timeline: one array a column, rows in order of start; Spans: disjoint stretches of time
Assumes   whole nanoseconds from the start of execution, as the profiler writes them
Ignores   where the rows come from (profile reads, neuroncore predicts) and what they mean (gaps)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
DTYPES = ("", "bf16", "fp16", "tf32", "fp32", "fp8")  # "" where a matmul's dtype is unknown
# Opcodes that wait, order, load tables or tell the host: an engine that runs them does no work.
# Names of profiler 2.26 to 2.32; an opcode that is not here counts as work.
CONTROL = frozenset((
    "DRAIN", "EVENT_SEMAPHORE", "EVENT_SEMAPHORE_RANGE_CLEAR", "NOP", "WRITE", "NOTIFY",
    "COMPARE_BRANCH", "BRANCH", "TENSOR_LOAD", "SET_ORDERING_MODE", "ACT_TABLE_LOAD"))
WAITS = "EVENT_SEMAPHORE"  # its row is a wait: the one opcode that the profiler calls not active
MATMUL, WEIGHTS = "MATMUL", "LDWEIGHTS"
ISSUES = "DMA_"  # opcodes that begin so hand a transfer to the DMA engines


class TimelineError(ValueError):
    """Columns that do not fit together, or a time that cannot be."""


# --- stretches of time ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Spans:
    """Disjoint stretches [start, end) in ascending order; ns."""

    start: Ints
    end: Ints

    @classmethod
    def of(cls, start: Ints, end: Ints) -> "Spans":
        """The union of [start, end) over all rows, in any order; stretches that touch are one."""
        held = end > start
        if not held.all():
            start, end = start[held], end[held]
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        latest = np.maximum.accumulate(end)
        closed = np.flatnonzero(start[1:] > latest[:-1])
        return cls(np.r_[start[:1], start[closed + 1]], np.r_[latest[closed], latest[-1:]])

    @classmethod
    def one(cls, start: int, end: int) -> "Spans":
        """A single stretch; none when it is empty."""
        return cls.of(np.array([start], np.int64), np.array([end], np.int64))

    @classmethod
    def none(cls) -> "Spans":
        """No stretch at all."""
        return cls.one(0, 0)

    @property
    def length(self) -> int:
        """Nanoseconds in all of them."""
        return int((self.end - self.start).sum())

    def __len__(self) -> int:
        return self.start.size

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.start.tolist(), self.end.tolist(), strict=True)

    def before(self, times: Ints) -> Ints:
        """Nanoseconds of the stretches that lie before each of these times."""
        if not self.start.size:
            return np.zeros(np.shape(times), np.int64)
        passed = np.r_[0, np.cumsum(self.end - self.start)]
        at = np.searchsorted(self.start, times, "right")
        last = np.maximum(at, 1) - 1
        inside = np.minimum(times, self.end[last]) - self.start[last]
        return np.where(at > 0, passed[last] + inside, 0)

    def inside(self, start: Ints, end: Ints) -> Ints:
        """Nanoseconds of these stretches within each [start, end)."""
        return self.before(end) - self.before(start)

    def meet(self, other: "Spans") -> tuple[Ints, Ints, Ints, Ints]:
        """Each place where one of these meets one of the others: whose, whose, start, end."""
        if len(other) < len(self):  # the shorter side is looked up in the longer: same order
            theirs, mine, start, end = other.meet(self)
            return mine, theirs, start, end
        low = np.searchsorted(other.end, self.start, "right")
        count = np.searchsorted(other.start, self.end, "left") - low
        mine = np.repeat(np.arange(len(self)), count)
        theirs = np.arange(mine.size) + np.repeat(low - np.cumsum(count) + count, count)
        return (mine, theirs, np.maximum(self.start[mine], other.start[theirs]),
                np.minimum(self.end[mine], other.end[theirs]))

    def __and__(self, other: "Spans") -> "Spans":
        """What lies in both."""
        return Spans(*self.meet(other)[2:])

    def __or__(self, other: "Spans") -> "Spans":
        """What lies in either."""
        return Spans.of(np.concatenate([self.start, other.start]),
                        np.concatenate([self.end, other.end]))

    def __sub__(self, other: "Spans") -> "Spans":
        """What lies in these and not in the others."""
        ever = np.iinfo(np.int64)
        return self & Spans(np.r_[ever.min, other.end], np.r_[other.start, ever.max])

    def __repr__(self) -> str:
        return f"{len(self):,} stretches, {self.length:,} ns"


# --- tables --------------------------------------------------------------------------------------


class _Table:
    """Columns of one length; a subclass names them. Rows are in order of start."""

    def __post_init__(self) -> None:
        sizes = {f.name: len(getattr(self, f.name)) for f in fields(self)  # type: ignore[arg-type]
                 if f.metadata.get("column", True)}
        if len(set(sizes.values())) > 1:
            raise TimelineError(f"{type(self).__name__}: columns of different lengths: {sizes}")
        start, end = self.start, self.end  # type: ignore[attr-defined]
        if (end < start).any():
            at = int(np.argmax(end < start))
            raise TimelineError(f"{type(self).__name__}: row {at}: it ends at {end[at]} ns, before "
                                f"its start at {start[at]} ns")
        if start.size and (start[1:] < start[:-1]).any():
            raise TimelineError(f"{type(self).__name__}: rows are not in order of start; "
                                "sort them with take(np.argsort(start, kind='stable'))")

    def __len__(self) -> int:
        return len(self.start)  # type: ignore[attr-defined]

    @classmethod
    def none(cls) -> Self:
        """A table without rows."""
        kinds = [f.type for f in fields(cls)  # type: ignore[arg-type]
                 if f.metadata.get("column", True)]
        return cls(*(np.zeros(0, _scalar(kind)) for kind in kinds))

    @property
    def duration(self) -> Ints:
        """end - start; durations overlap, so their sum is no time."""
        return self.end - self.start  # type: ignore[attr-defined]

    def take(self, rows: Ints | NDArray[np.bool_]) -> Self:
        """Some rows, in this order."""
        return replace(self, **{f.name: getattr(self, f.name)[rows]  # type: ignore[type-var]
                                for f in fields(self)  # type: ignore[arg-type]
                                if f.metadata.get("column", True)})


def _scalar(kind: Any) -> Any:
    """np.int64 of NDArray[np.int64]: the innermost argument, whichever way NumPy spells the rest.

    Up to NumPy 2.4 it is an ndarray of a shape and a dtype, from 2.5 on an alias of its own.
    """
    while inner := get_args(kind):
        kind = inner[-1]
    return kind


def by_row(owner: Ints, other: Ints, size: int) -> tuple[Ints, Ints]:
    """Instructions.first and .after of `size` rows: row owner[i] waited for row other[i]."""
    first = np.zeros(size + 1, np.int64)
    first[1:] = np.cumsum(np.bincount(owner, minlength=size))
    return first, other[np.argsort(owner, kind="stable")].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Instructions(_Table):
    """One row an instruction of an engine.

    core          physical core, 0 or 1 within the capture
    engine        index into ENGINES
    start, end    ns
    opcode        index into `opcodes`: the profiler's names
    macs          multiply-adds as the profiler counts them; 0 where it gives none
    rows, columns, moving   K, M, N of a MATMUL; 0 where unknown or no matmul
    dtype         index into DTYPES, of what a MATMUL multiplies
    passes        MATMUL rows that together are one matmul (fp32 takes two), else 1
    transpose     the matmul moves data and is no work
    read, written HBM bytes
    id            the profiler's, unique; predecessors are given by it in the file
    line          index into `lines`: source lines, "" where none is known
    after         predecessors: rows of row i are after[first[i]:first[i + 1]]
    """

    core: NDArray[np.int8]
    engine: NDArray[np.int8]
    start: Ints
    end: Ints
    opcode: NDArray[np.int32]
    macs: Ints
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    moving: NDArray[np.int32]
    dtype: NDArray[np.int8]
    passes: NDArray[np.int8]
    transpose: NDArray[np.bool_]
    read: Ints
    written: Ints
    id: Ints
    line: NDArray[np.int32]
    opcodes: tuple[str, ...] = field(metadata={"column": False}, default=())
    lines: tuple[str, ...] = field(metadata={"column": False}, default=("",))
    first: Ints = field(metadata={"column": False}, default_factory=lambda: np.zeros(1, np.int64))
    after: Ints = field(metadata={"column": False}, default_factory=lambda: np.zeros(0, np.int64))

    def is_opcode(self, *names: str) -> NDArray[np.bool_]:
        """Which rows have one of these opcodes."""
        return np.isin(self.opcode, [i for i, name in enumerate(self.opcodes) if name in names])

    @property
    def issues(self) -> NDArray[np.bool_]:
        """Rows that start a transfer: work, but not of the engine that holds them."""
        return self.is_opcode(*(name for name in self.opcodes if name.startswith(ISSUES)))

    @property
    def works(self) -> NDArray[np.bool_]:
        """Rows that are no control: see CONTROL."""
        return ~self.is_opcode(*CONTROL)

    def take(self, rows: Ints | NDArray[np.bool_]) -> Self:
        """Some rows, in this order; predecessors that are not among them are forgotten."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        if not self.after.size:
            return replace(super().take(rows), first=np.zeros(len(rows) + 1, np.int64))
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        owner = place[np.repeat(np.arange(len(self)), np.diff(self.first))]
        target = place[self.after]
        kept = (owner >= 0) & (target >= 0)
        first, after = by_row(owner[kept], target[kept], len(rows))
        return replace(super().take(rows), first=first, after=after)

    def predecessors(self, row: int) -> Ints:
        """Rows that this one waited for, as far as the profile tells."""
        if len(self.first) <= row + 1:
            return self.after[:0]
        return self.after[self.first[row]:self.first[row + 1]]


@dataclass(frozen=True, eq=False)
class Packets(_Table):
    """One row a DMA packet.

    core       physical core whose queue it belongs to
    engine     DMA engine, -1 where unknown
    nbytes     bytes it carries
    traffic    False for instruction fetch and rows of 4 bytes or fewer (semaphores)
    id         the profiler's; not unique in real files (packets of one transfer share it)
    """

    core: NDArray[np.int8]
    engine: NDArray[np.int16]
    start: Ints
    end: Ints
    nbytes: Ints
    traffic: NDArray[np.bool_]
    id: Ints


@dataclass(frozen=True, eq=False)
class Throttles(_Table):
    """One row a stretch in which the Tensor Engine may use k of n cycles; k = n: released."""

    core: NDArray[np.int8]
    start: Ints
    end: Ints
    k: NDArray[np.int32]
    n: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Timeline:
    """All rows of one capture.

    cores      physical cores in it; at LNC=2 two, also when one of them did nothing
    end        last timestamp, ns; total_time is up to 1 ns longer
    unknown    what the file did not give, so that its values (0, -1, False, 1) mean nothing: whole
               tables ("instructions", "packets", "throttles"), or of one that is there
               "instructions." macs, read, written, line, after, dtype, rows, columns, moving;
               "instructions.passes" where fp32 rows may be one matmul or several;
               "instructions.transpose" where matmuls may be transposes;
               "packets." engine, id; "packets.traffic" where packets may be instruction fetch
    active     (core, engine) -> when the profiler calls it active; {} where the file does not say

    What counts as time in use:
                  work   control   waits   starts of transfers   of
    busy          yes    no        no      no                    some engines of one core
      control     yes    yes       yes     yes
    activity      yes    yes       no      yes                   one engine of all cores
    moving        packets of DMA engines: traffic, or all of them
    """

    instructions: Instructions
    packets: Packets
    throttles: Throttles
    cores: int
    end: int
    unknown: frozenset[str] = frozenset()
    active: Mapping[tuple[int, str], Spans] = field(default_factory=dict)

    @property
    def working(self) -> tuple[int, ...]:
        """Cores that did work: an idle core of a pair has only control rows and no traffic.

        An opcode that is not in CONTROL is work; packets that may be instruction fetch are none.
        """
        own, packets = self.instructions, self.packets
        works, moved = own.works, packets.traffic & ("packets.traffic" not in self.unknown)
        return tuple(core for core in range(self.cores) if (works & (own.core == core)).any()
                     or (moved & (packets.core == core)).any())

    def busy(self, core: int, *engines: str, control: bool = False) -> Spans:
        """When these engines of a core ran an instruction of their own; control=True: any.

        Control and the start of a transfer are no work of theirs.
        """
        own = self.instructions
        which = (own.core == core) & np.isin(own.engine, [ENGINES.index(e) for e in engines])
        if not control:
            which &= own.works & ~own.issues
        return Spans.of(own.start[which], own.end[which])

    def activity(self, engine: str) -> Spans:
        """When it was active on any core, as the profiler means it: control too, waits not.

        From `active`; without it from the instructions, whose rounded ends may leave out 1 ns each.
        """
        known = [spans for (_, name), spans in self.active.items() if name == engine]
        if self.active:
            return Spans.of(np.concatenate([Spans.none().start, *(s.start for s in known)]),
                            np.concatenate([Spans.none().end, *(s.end for s in known)]))
        own = self.instructions
        which = (own.engine == ENGINES.index(engine)) & ~own.is_opcode(WAITS)
        return Spans.of(own.start[which], own.end[which])

    def moving(self, core: int | None = None, traffic: bool = True) -> Spans:
        """When packets were under way, of one core or of all; traffic=False: any packet."""
        own = self.packets
        which = own.traffic if traffic else np.ones(len(own), bool)
        which = which if core is None else which & (own.core == core)
        return Spans.of(own.start[which], own.end[which])
