"""What can only be judged once a kernel has ended: does it fit, did it write, did the cores race?

Question  would the device have room for the live tiles, and is every result written?
Answer    fits, written, unwritten, races: an NkiValidationError, or warnings
Assumes   program order; a tile keeps its place from its first write to its last read
Ignores   how the compiler would really place, share or spill: what is refused needs more room
          than there is even if every tile lies as well as it can
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from .core import NkiValidationError, Target, refuse
from .memory import Allocation, Layout, MemoryRegion, NkiTensor
from .source import Site
from .trace import Trace, peak

View = tuple[Layout, int]  # a layout and its offset


# --- room ------------------------------------------------------------------------------------


def quarters(allocation: Allocation) -> int:
    """Quarters of the partitions that a tile takes: it starts at partition 0, 32, 64 or 96.

    Source: Trainium/Inferentia2 Architecture Guide, Accessing SBUF/PSUM.
    """
    return -(-allocation.partitions // 32)


def _held(trace: Trace) -> dict[Allocation, tuple[int, int]]:
    """Allocation -> (first write, last read) in half steps: an instruction reads, then writes.

    So a tile that an instruction writes may take the place of one that it is the last to read,
    and a tile that nothing reads takes no room.
    """
    return {own: (2 * first + 1, 2 * last) for own, (first, last) in trace.lives.items()
            if last > first}


def _taken(size: Callable[[Allocation], int], allocation: Allocation) -> int:
    return quarters(allocation) * size(allocation)


def fits(kernel: str, trace: Trace, target: Target) -> None:
    """Refuse a kernel whose live tiles cannot all be on chip together.

    A tile takes whole quarters of the partitions and whole banks of PSUM, where allocations start
    at a bank (migration guide, direct allocation).
    """
    bank = target.psum_bank_bytes
    memories: tuple[tuple[MemoryRegion, int, str, Callable[[Allocation], int]], ...] = (
        (MemoryRegion.sbuf, target.sbuf_partition_bytes, "B a partition",
         lambda a: a.bytes_per_partition),
        (MemoryRegion.psum, target.psum_num_banks, "banks",
         lambda a: -(-a.bytes_per_partition // bank)))
    lives = _held(trace)
    for region, limit, unit, size in memories:
        found = peak(lives, region, partial(_taken, size))
        if found.amount > 4 * limit:
            largest = sorted(found.alive, key=size, reverse=True)[:3]
            error = refuse(
                f"{kernel}: {region.value}", f"{len(found.alive)} live tiles of together "
                f"{-(-found.amount // 4):,} {unit}", f"{target.name} has {limit:,}",
                f"Keep fewer alive at once, or smaller ones; the largest: "
                f"{'; '.join(map(repr, largest))}")
            raise NkiValidationError(f"{error}\n  {trace[found.at // 2].line.described}")
    _addresses(kernel, trace, lives)


def _addresses(kernel: str, trace: Trace, lives: dict[Allocation, tuple[int, int]]) -> None:
    """Tensors with an address of the kernel's choice that are alive together may not overlap."""
    placed = sorted(((*lives.get(a, (2 * first + 1, 2 * first + 1)), a)
                     for a, (first, _) in trace.lives.items() if a.address is not None),
                    key=lambda entry: entry[:2])
    alive: list[tuple[int, int, Allocation]] = []
    for start, end, a in placed:
        alive = [entry for entry in alive if entry[1] > start]
        for _, _, b in alive:
            if a.buffer is b.buffer and _overlap(a, b):
                error = refuse(f"{kernel}: address of {a.name}", f"{a.address}, on {b.name} at "
                               f"{b.address}", "two live tensors cannot share bytes",
                               "Give one of them another address, or leave the addresses out")
                raise NkiValidationError(f"{error}\n  {trace[start // 2].line.described}")
        alive.append((start, end, a))


def _overlap(a: Allocation, b: Allocation) -> bool:
    """Whether they share bytes, be an offset in bytes (as in PSUM) or, in SBUF, in elements.

    The migration guide says elements; its PSUM example counts bytes.
    """
    assert a.address is not None and b.address is not None
    (p, x), (q, y) = a.address, b.address
    units = [(1, 1)]
    if a.buffer is MemoryRegion.sbuf:
        units.append((a.dtype.itemsize, b.dtype.itemsize))
    return p < q + b.partitions and q < p + a.partitions and all(
        x * m < y * n + b.bytes_per_partition and y * n < x * m + a.bytes_per_partition
        for m, n in units)


# --- bytes of an HBM tensor --------------------------------------------------------------------


class Pieces:
    """One flag for each piece of an allocation; the pieces are as large as the views allow.

    Every view consists of whole pieces: a store of 1024 contiguous bytes into rows that are a
    multiple of that needs one flag, not 1024.
    """

    def __init__(self, own: Allocation, views: Iterable[View]) -> None:
        self.size = own.nbytes
        for layout, offset in views:
            run, lead = _run(layout)
            unit = layout.dtype.itemsize
            self.size = math.gcd(self.size, run, offset * unit, *(
                s * unit for n, s in zip(layout.shape[:lead], layout.strides[:lead], strict=True)
                if n > 1))
        self.number = own.nbytes // self.size

    def flags(self, views: Iterable[View] = ()) -> np.ndarray:
        """One flag for each piece: whether a view touches it."""
        flags = np.zeros(self.number, bool)
        for view in views:
            self.of(flags, view)[...] = True
        return flags

    def of(self, flags: np.ndarray, view: View) -> np.ndarray:
        """The flags of a view, in place and in the order of its elements."""
        layout, offset = view
        run, lead = _run(layout)
        unit = layout.dtype.itemsize
        return np.ndarray((*layout.shape[:lead], run // self.size), bool, flags.data,
                          offset * unit // self.size,
                          [*(s * unit // self.size for s in layout.strides[:lead]), 1])


def _run(layout: Layout) -> tuple[int, int]:
    """Bytes of the innermost contiguous run, and how many dimensions lead to it."""
    unit = layout.dtype.itemsize
    run, lead = unit, len(layout.shape)
    while lead and (layout.shape[lead - 1] == 1 or layout.strides[lead - 1] * unit == run):
        run, lead = run * layout.shape[lead - 1], lead - 1
    return run, lead


def written(kernel: str, traces: Sequence[Trace], results: Sequence[NkiTensor]) -> None:
    """Refuse a kernel that returns elements it has not written (arguments have contents).

    A store at a run-time index may reach any element, so it counts as all of them.
    """
    wanted = {t.storage.allocation: t for t in results if not t.storage.allocation.argument}
    views: dict[Allocation, dict[View, None]] = {own: {} for own in wanted}
    for trace in traces:
        for own, layout, offset in trace.scan.stores:
            if own in views:
                views[own][layout, offset] = None
    for result in results:
        own = result.storage.allocation
        if own in views and not any(layout.indirect for layout, _ in views[own]):
            _complete(kernel, result, list(views[own]))


def _complete(kernel: str, result: NkiTensor, stores: list[View]) -> None:
    whole = (result.layout, result.offset)
    pieces = Pieces(result.storage.allocation, [whole, *stores])
    found = pieces.of(pieces.flags(stores), whole)
    if not found.all():
        unit = result.dtype.itemsize
        first = int(np.argmin(found)) * pieces.size // unit
        at = [int(i) for i in np.unravel_index(first, result.shape)]
        done = int(found.sum()) * pieces.size // unit
        got = (f"{done:,} of {result.size:,} elements written; the first missing is "
               f"{result.name}[{', '.join(map(str, at))}]" if done else "none of it written")
        raise refuse(f"{kernel}: result {result.name} {list(result.shape)}", got,
                     "a result is written in full",
                     "Check the last tile of each loop" if done else "Store it with nisa.dma_copy")


# --- reads before any write --------------------------------------------------------------------


def unwritten(traces: Sequence[Trace]) -> Iterator[str]:
    """Warnings: tensors of the kernel's own that it reads before anything was written to them.

    A forgotten load lowers Q and looks like progress. What an accumulating matmul reads of PSUM
    is isa.tensor's to tell.
    """
    shared = {own for trace in traces for own, _, _ in trace.scan.stores
              if own.buffer is MemoryRegion.shared_hbm} if len(traces) > 1 else set()
    for trace in traces:
        for own, at in trace.scan.early:
            record = trace[at]
            accumulates = own.buffer is MemoryRegion.psum and record.opcode == "nc_matmul"
            if not (own.argument or own in shared or accumulates):
                yield (f"{own.name} is read before anything was written to it; fresh memory "
                       f"holds what was there before. Is a load missing? {record.line.described}")


# --- two cores ---------------------------------------------------------------------------------


class Access:
    """One read or write of a shared tensor by a core: where, and at which line."""

    __slots__ = ("site", "view", "writes")

    def __init__(self, writes: bool, view: View, site: Site) -> None:
        self.writes, self.view, self.site = writes, view, site


# What the cores did to one tensor between two barriers: for each core, in order.
Phase = tuple[list[Access], list[Access]]


def races(kernel: str, traces: Sequence[Trace], barriers: Sequence[Allocation]) -> list[str]:
    """At LNC=2: refuse a core that reads what the other wrote since their last barrier.

    barriers   the tensor that each core_barrier named, in order

    Returns warnings: bytes that both cores wrote between two barriers; reads of what the other
    wrote before a barrier that names another tensor. Accesses at a run-time index are left out.
    """
    if len(traces) < 2:
        return []
    _apart(kernel, traces)
    since_any = _phases(traces, barriers, named=False)
    warnings: dict[str, None] = {}
    for own, phase in since_any:
        if (found := _foreign(own, phase)) is not None:
            core, nbytes, site = found
            error = refuse(
                f"{kernel}: core {core} reads {own.name}", f"{nbytes:,} B that core {1 - core} "
                "writes in the same phase", "the cores run independently until a barrier",
                f"Put nisa.core_barrier(data={own.name}, cores=(0, 1)) between")
            raise NkiValidationError(f"{error}\n  {site.line.described}")
        if _both_write(own, phase):
            warnings[f"both cores write the same bytes of {own.name} without a barrier between; "
                     "is the work split over nl.program_id(0)?"] = None
    for own, phase in _phases(traces, barriers, named=True):
        if _foreign(own, phase) is not None:
            warnings[f"a core reads {own.name} that the other wrote before a core_barrier on "
                     f"another tensor; a barrier is for the data it names. Name {own.name}"] = None
    return list(warnings)


def _apart(kernel: str, traces: Sequence[Trace]) -> None:
    """Refuse a tile of one core in the hands of the other."""
    first: set[Allocation] = set()
    for trace in traces:
        mine = set()
        for _, site, reads, writes, _ in trace.issued:
            for own, _, _ in (*reads, *writes):
                if own.buffer is not MemoryRegion.shared_hbm:
                    mine.add(own)
                    if own in first:
                        error = refuse(f"{kernel}: {own.name}", f"a tensor in "
                                       f"{own.buffer.value} of core 0, used by core 1",
                                       "each core has its own",
                                       "Exchange with nisa.sendrecv, or through shared_hbm")
                        raise NkiValidationError(
                            f"{error}\n  {site.line.described}")
        first |= mine


def _phases(traces: Sequence[Trace], barriers: Sequence[Allocation],
            named: bool) -> list[tuple[Allocation, Phase]]:
    """Accesses of shared tensors that both cores touch and one of them writes, between barriers.

    named   only the barriers that name a tensor divide its accesses
    """
    found: dict[tuple[Allocation, int], Phase] = {}
    for core, trace in enumerate(traces):
        passed = 0
        of: dict[Allocation, int] = {}
        for work, site, reads, writes, _ in trace.issued:
            if work.opcode == "core_barrier":
                if passed < len(barriers):
                    of[barriers[passed]] = of.get(barriers[passed], 0) + 1
                passed += 1
            for is_write, places in ((False, reads), (True, writes)):
                for own, layout, offset in places:
                    if own.buffer is MemoryRegion.shared_hbm and not layout.indirect:
                        key = (own, of.get(own, 0) if named else passed)
                        phase = found.get(key)
                        if phase is None:
                            phase = found[key] = ([], [])
                        phase[core].append(Access(is_write, (layout, offset), site))
    return [(own, phase) for (own, _), phase in found.items()
            if all(phase) and any(access.writes for core in phase for access in core)]


def _foreign(own: Allocation, phase: Phase) -> tuple[int, int, Site] | None:
    """The first read of bytes that the other core writes: core, bytes, where.

    What a core has written itself it may read: a kernel that is not split does everything twice.
    """
    pieces = Pieces(own, {access.view for core in phase for access in core})
    for core, accesses in enumerate(phase):
        theirs, mine = pieces.flags(_stores(phase[1 - core])), pieces.flags()
        for access in accesses:
            if access.writes:
                pieces.of(mine, access.view)[...] = True
                continue
            foreign = pieces.of(theirs, access.view) & ~pieces.of(mine, access.view)
            if foreign.any():
                return core, int(foreign.sum()) * pieces.size, access.site
    return None


def _both_write(own: Allocation, phase: Phase) -> bool:
    pieces = Pieces(own, {access.view for core in phase for access in core})
    first, second = (pieces.flags(_stores(accesses)) for accesses in phase)
    return bool((first & second).any())


def _stores(accesses: list[Access]) -> list[View]:
    return [access.view for access in accesses if access.writes]
