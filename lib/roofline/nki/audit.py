"""What can only be judged once a kernel has ended: does it fit, did it write, did the cores race?

Question  would the device have room for the live tiles, and is every result written?
Answer    fits, written, races: each raises NkiValidationError, or lets the run pass
Assumes   lower bounds only: what is refused fails whatever the compiler does
Ignores   how the compiler would really place, share or spill
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .core import Core, NkiValidationError, Target, refuse
from .memory import Allocation, Layout, MemoryRegion, NkiTensor
from .source import line_of
from .trace import Trace, peak


def quarters(allocation: Allocation) -> int:
    """Quarters of the partitions a tile takes: it starts at partition 0, 32, 64 or 96."""
    return 4 if allocation.partitions > 64 else 2 if allocation.partitions > 32 else 1


def fits(trace: Trace, target: Target) -> None:
    """Refuse a kernel whose live tiles cannot all be on chip together.

    A tile takes whole quarters of the partitions, and whole banks of PSUM.
    """
    bank = target.psum_bank_bytes
    memories: tuple[tuple[MemoryRegion, int, str, Callable[[Allocation], int]], ...] = (
        (MemoryRegion.sbuf, target.sbuf_partition_bytes, "B a partition",
         lambda a: a.bytes_per_partition),
        (MemoryRegion.psum, target.psum_num_banks, "banks",
         lambda a: -(-a.bytes_per_partition // bank)))
    for region, limit, unit, size in memories:
        found = peak(trace.lives, region, lambda a, size=size: quarters(a) * size(a))
        if found.amount > 4 * limit:
            largest = sorted(found.alive, key=size, reverse=True)[:3]
            raise NkiValidationError(
                f"{region.value}: {len(found.alive)} live tiles need {-(-found.amount // 4):,} {unit}; "
                f"{target.name} has {limit:,}. Largest: {'; '.join(map(repr, largest))}. Keep fewer "
                f"alive at once\n  {trace[found.at].line.described}")
    _addresses(trace, target)


def _addresses(trace: Trace, target: Target) -> None:
    """Tensors with an address of the kernel's choice that are alive together may not overlap."""
    placed = [(a, life) for a, life in trace.lives.items() if a.address is not None]
    for i, (a, (first, last)) in enumerate(placed):
        for b, (start, end) in placed[:i]:
            if a.buffer is b.buffer and first <= end and start <= last and _overlap(a, b):
                raise refuse(f"address of {a.name}", f"{a.address}, on {b.name} at {b.address}",
                             "two live tensors cannot share bytes")


def _overlap(a: Allocation, b: Allocation) -> bool:
    assert a.address is not None and b.address is not None
    return all(x < y + m and y < x + n for x, n, y, m in (
        (a.address[0], a.partitions, b.address[0], b.partitions),
        (a.address[1], a.bytes_per_partition, b.address[1], b.bytes_per_partition)))


# --- bytes of an HBM tensor --------------------------------------------------------------------


def _bytes(flags: np.ndarray, layout: Layout, offset: int) -> np.ndarray:
    """The flags of a view's bytes, in place."""
    size = layout.dtype.itemsize
    return np.ndarray((*layout.shape, size), bool, flags.data, offset * size,
                      [*(s * size for s in layout.strides), 1])


def _marked(own: Allocation, views: Iterable[tuple[Layout, int]]) -> np.ndarray:
    """One flag a byte of an allocation: touched by a view. An indirect view may touch any of it."""
    flags = np.zeros(own.nbytes, bool)
    for layout, offset in views:
        if layout.indirect:
            flags[:] = True
            break
        _bytes(flags, layout, offset)[...] = True
    return flags


def written(kernel: str, traces: Sequence[Trace], results: Sequence[NkiTensor]) -> None:
    """Refuse a kernel that returns a tensor it has not written in full (arguments have contents)."""
    for own in dict.fromkeys(t.storage.allocation for t in results):
        if own.argument:
            continue
        views = {(layout, offset) for trace in traces for issued in trace.issued
                 for place, layout, offset in issued[4] if place is own}
        touched = _marked(own, views)
        if not touched.all():
            flags = touched.reshape(*own.shape, own.dtype.itemsize).all(axis=-1)
            first = [int(i) for i in np.unravel_index(int(np.argmin(flags)), own.shape)]
            raise refuse(f"{kernel}: result {own.name} {list(own.shape)}",
                         f"{int(flags.sum()):,} of {flags.size:,} elements written, not {first}",
                         "a result is written in full", "Check the last tile of each loop")


def races(kernel: str, cores: Sequence[Core]) -> list[str]:
    """At LNC=2: refuse a core that reads what the other wrote since their last barrier.

    Returns warnings: bytes that both cores wrote between two barriers.
    """
    if len(cores) < 2:
        return []
    warnings: dict[str, None] = {}
    phases = [_phases(core) for core in cores]
    for phase in range(max(map(len, phases))):
        both = [p[phase] if phase < len(p) else [] for p in phases]
        stores = [_stores(issued) for issued in both]
        for i, issued in enumerate(both):
            shared = {own: _marked(own, views) for own, views in stores[1 - i].items()}
            mine = {own: np.zeros(own.nbytes, bool) for own in shared}
            for _, code, position, reads, writes, _ in issued:
                for own, layout, offset in reads:
                    if own in shared and not layout.indirect:
                        foreign = _bytes(shared[own], layout, offset) & ~_bytes(mine[own], layout, offset)
                        if foreign.any():
                            raise NkiValidationError(
                                f"{kernel}: core {i} reads {int(foreign.sum()):,} B of {own.name} that "
                                f"core {1 - i} writes in the same phase; the cores run independently "
                                "until a barrier. Put nisa.core_barrier(data=..., cores=(0, 1)) "
                                f"between\n  {line_of(code, position).described}")
                for own, layout, offset in writes:
                    if own in mine and not layout.indirect:
                        _bytes(mine[own], layout, offset)[...] = True
            for own, flags in mine.items():
                if (flags & shared[own]).any():
                    warnings[f"both cores write the same bytes of {own.name} without a barrier "
                             "between; is the work split over nl.program_id(0)?"] = None
    return list(warnings)


def _phases(core: Core) -> list[list[tuple]]:
    """The instructions of a core between barriers."""
    found: list[list[tuple]] = [[]]
    for issued in core.issued:
        if issued[0].opcode == "core_barrier":
            found.append([])
        else:
            found[-1].append(issued)
    return found


def _stores(issued: Sequence[tuple]) -> dict[Allocation, set[Any]]:
    """Shared HBM allocation -> the views written."""
    found: dict[Allocation, set[Any]] = {}
    for entry in issued:
        for own, layout, offset in entry[4]:
            if own.buffer is MemoryRegion.shared_hbm:
                found.setdefault(own, set()).add((layout, offset))
    return found
