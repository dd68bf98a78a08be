"""What waits for what in a kernel: instruction by instruction, before any time is known.

Question  which earlier instructions must be over before this one starts?
Answer    Graph: the instructions of all cores in one order, and of each those it waits for
Assumes   reads wait for writes, writes for reads and writes, where views share a byte; tiles made
          at one source line rotate through a few buffers
Ignores   where the compiler places tiles; bytes between the runs of a view that has over 1024
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from ..nki.memory import Allocation, Layout, MemoryRegion
from ..nki.run import Run
from ..nki.trace import Trace, peak
from ..nki.views import ON_CHIP
from .prices import DMA, TENSOR, ModelError, runs_on

RUNS = 1024  # of one view; what has more counts as all bytes from its first to its last
Region = tuple[Layout, int]  # a view: its layout, and the element of the storage it starts at
Buffers = int | None | Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class Graph:
    """The instructions of a run, so that each comes after all it waits for.

    issued   (Work, Site, reads, writes, name), as in the trace
    core     physical core of each
    engine   index into ENGINES, or DMA
    after    of each, the instructions (by index) that must be over first
    """

    issued: list[tuple]
    core: list[int]
    engine: list[int]
    after: list[tuple[int, ...]]


def graph(run: Run, buffers: Buffers = 2) -> Graph:
    """The graph of a run.

    buffers   of the tiles of one source line, how many generations exist at once: an int for all,
              {name of a tile, or "sbuf" or "psum": int}, or None for no limit (as for a tile that
              the mapping leaves out). A generation is as many tiles as are alive together in
              program order; more than one only as long as there is room on chip (see _places)
    """
    _checked(buffers, run)
    made = Graph([], [], [], [])
    cores = [_Core(trace, i, made, buffers, run) for i, trace in enumerate(run.cores)]
    if len(cores) == 1:
        cores[0].walk()
    else:
        _pair(cores[0], cores[1])
    return made


def _checked(buffers: Buffers, run: Run) -> None:
    if isinstance(buffers, Mapping):
        known = {region.value for region in ON_CHIP} | {
            tile.name for trace in run.cores for tile in trace.lives}
        for name in buffers.keys() - known:
            raise ModelError(f"buffers: no tile {name!r}; this kernel has "
                             f"{', '.join(sorted(known))[:200]}")
    counts = buffers.values() if isinstance(buffers, Mapping) else (buffers,)
    for count in counts:
        if count is not None and (type(count) is not int or count < 1):
            raise ModelError(f"buffers: got {count!r}; expected a whole number >= 1, None for no "
                             "limit, or such a number for each name of a tile")


def _pair(one: "_Core", other: "_Core") -> None:
    """Both cores, from one meeting to the next: barriers and exchanges have the same order."""
    while True:
        met = [core.walk() for core in (one, other)]
        if None in met:
            return
        waits = {w for core in (one, other) for w in core.meeting()}
        for core in (one, other):
            core.meet(waits)


# --- one core ------------------------------------------------------------------------------------


class _Core:
    """A core's instructions as they come, and what each touched last.

    written, read   allocation -> for each of its cells, the last writer, the readers since
    """

    def __init__(self, trace: Trace, index: int, made: Graph, buffers: Buffers, run: Run) -> None:
        self.trace, self.index, self.made, self.at = trace, index, made, 0
        self.cells = _cells(trace)
        self.written = {own: [-1] * count for own, (_, count) in self.cells.items()}
        self.read: dict[Allocation, list[dict[int, list[int]] | None]] = {
            own: [None] * count for own, (_, count) in self.cells.items()}
        self.takes = _rotation(trace, buffers, run)
        self.fence = -1
        self.since: list[int] = []  # transfers since the last barrier
        self.last = [-1] * (DMA + 1)

    def walk(self) -> int | None:
        """Go on to the next meeting of two cores, or the end (None)."""
        issued, made = self.trace.issued, self.made
        for at in range(self.at, len(issued)):
            work, _, reads, writes, _ = issued[at]
            if work.opcode in ("core_barrier", "sendrecv"):
                self.at = at
                return at
            engine = runs_on(work)
            self.add(issued[at], engine, self.waits(len(made.core), engine, reads, writes))
        self.at = len(issued)
        return None

    def add(self, issued: tuple, engine: int, waits: set[int]) -> None:
        made = self.made
        n = len(made.core)
        made.issued.append(issued)
        made.core.append(self.index)
        made.engine.append(engine)
        made.after.append(tuple(waits))
        if engine == DMA:
            self.since.append(n)
        self.last[engine] = n

    def waits(self, n: int, engine: int, reads: tuple, writes: tuple) -> set[int]:
        """What instruction n of this engine waits for; it is noted as reader and writer.

        Instructions of one engine run in order, and the Tensor Engine adds to what it wrote
        itself without waiting for it.
        """
        waits: set[int] = set() if self.fence < 0 else {self.fence}
        engines = self.made.engine
        for own, layout, offset in reads:
            if own not in self.cells:
                continue
            written, readers = self.written[own], self.read[own]
            for cell in self.cells[own][0][layout, offset]:
                if (w := written[cell]) >= 0 and not engine == engines[w] == TENSOR:
                    waits.add(w)
                if (noted := readers[cell]) is None:
                    noted = readers[cell] = {}
                if engine == DMA:
                    noted.setdefault(DMA, []).append(n)
                else:
                    noted[engine] = [n]
        for own, layout, offset in writes:
            if own not in self.cells:
                continue
            if own in self.takes and (before := self.takes.pop(own)) in self.cells:
                waits |= self.touched(before, engine)
            written, readers = self.written[own], self.read[own]
            for cell in self.cells[own][0][layout, offset]:
                w = written[cell]
                if w >= 0 and (engines[w] != engine or engine == DMA):
                    waits.add(w)
                if (noted := readers[cell]) is not None:
                    for reader, which in noted.items():
                        if reader != engine or engine == DMA:
                            waits.update(which)
                    readers[cell] = None
                written[cell] = n
        waits.discard(n)
        return waits

    def touched(self, own: Allocation, engine: int) -> set[int]:
        """Who wrote and who read a tile last, but for the engine that now takes its place."""
        engines = self.made.engine
        found = {w for w in self.written[own] if w >= 0}
        for noted in self.read[own]:
            for which in (noted or {}).values():
                found.update(which)
        return {i for i in found if engines[i] != engine or engine == DMA}

    def meeting(self) -> set[int]:
        """What the next instruction waits for, which two cores run together."""
        work, _, reads, writes, _ = self.trace.issued[self.at]
        if work.opcode == "core_barrier":  # all of this core
            return {i for i in (*self.last[:DMA], *self.since, self.fence) if i >= 0}
        return self.waits(len(self.made.core) + self.index, runs_on(work), reads, writes)

    def meet(self, waits: set[int]) -> None:
        """The instruction itself, after what both cores wait for."""
        issued = self.trace.issued[self.at]
        engine = runs_on(issued[0])
        n = len(self.made.core)
        self.add(issued, engine, set(waits))
        if issued[0].opcode == "core_barrier":
            self.fence, self.since = n, []
        self.at += 1


# --- tiles that share a buffer -------------------------------------------------------------------


def _rotation(trace: Trace, buffers: Buffers, run: Run) -> dict[Allocation, Allocation]:
    """Tile -> the earlier tile of its source line whose place it takes."""
    lines: dict[tuple, list[Allocation]] = {}
    lives = trace.lives
    for own in sorted(lives, key=lambda a: lives[a][0]):
        if own.origin is not None:
            lines.setdefault((own.buffer, own.origin), []).append(own)
    limits = {tiles[0]: (buffers.get(tiles[0].name, buffers.get(tiles[0].buffer.value))
                         if isinstance(buffers, Mapping) else buffers) for tiles in lines.values()}
    limited = [(tiles, limits[tiles[0]], _together([lives[tile] for tile in tiles]))
               for tiles in lines.values() if len(tiles) > 1 and limits[tiles[0]] is not None]
    found = {}
    for tiles, places in _places(trace, limited, run):
        for tile, before in zip(tiles[places:], tiles, strict=False):
            if lives[before][1] < lives[tile][0]:
                found[tile] = before
    return found


def _places(trace: Trace, lines: list[tuple[list[Allocation], Any, int]],
            run: Run) -> Iterator[tuple[list[Allocation], int]]:
    """Tiles of a line, and how many of them have a place at once.

    lines   tiles, generations wanted at most, and tiles of one generation

    Each has one generation; then they get one more in turn, smallest tiles first, as long as it
    fits beside what is alive together at the fullest moment.
    """
    target = run.target

    def size(tile: Allocation) -> int:
        row = tile.bytes_per_partition
        return -(-row // target.psum_bank_bytes) if tile.buffer is MemoryRegion.psum else row

    room = {region: limit - peak(trace.lives, region, size).amount for region, limit in (
        (MemoryRegion.sbuf, target.sbuf_partition_bytes),
        (MemoryRegion.psum, target.psum_num_banks))}
    cost = [together * max(map(size, tiles)) for tiles, _, together in lines]
    depth = [1] * len(lines)
    order = sorted(range(len(lines)), key=lambda i: (cost[i], i))
    grown = True
    while grown:
        grown = False
        for i in order:
            tiles, most, together = lines[i]
            region = tiles[0].buffer
            if depth[i] < most and depth[i] * together < len(tiles) and cost[i] <= room[region]:
                room[region] -= cost[i]
                depth[i] += 1
                grown = True
    return ((tiles, together * depth[i]) for i, (tiles, _, together) in enumerate(lines))


def _together(lives: list[tuple[int, int]]) -> int:
    """Most of these lives that overlap: a life ends with its last read, before the next write."""
    edges = sorted([(2 * first, 1) for first, _ in lives]
                   + [(2 * max(first, last) + 1, -1) for first, last in lives])
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most


# --- which bytes a view has ----------------------------------------------------------------------


def _cells(trace: Trace) -> dict[Allocation, tuple[dict[Region, tuple[int, ...]], int]]:
    """Allocation -> its views as cells, and how many cells: views overlap where they share one.

    HBM tensors that are only read, or only written, are left out: nothing waits for them.
    """
    written = {own for own, _, _ in trace.scan.stores}
    both = {own for _, _, reads, _, _ in trace.issued for own, _, _ in reads if own in written}
    views: dict[Allocation, dict[Region, None]] = {}
    for _, _, reads, writes, _ in trace.issued:
        for own, layout, offset in (*reads, *writes):
            if layout.on_chip or own in both:
                views.setdefault(own, {})[layout, offset] = None
    return {own: _divided(own.layout, tuple(regions)) for own, regions in views.items()}


@lru_cache(maxsize=1 << 12)
def _divided(whole: Layout, regions: tuple[Region, ...]) -> tuple[dict[Region, tuple[int, ...]],
                                                                  int]:
    """Cells between all edges of the views: partitions x bytes of a partition."""
    if len(regions) == 1:
        return {regions[0]: (0,)}, 1
    boxes = [_box(whole, layout, offset) for layout, offset in regions]
    rows = sorted({edge for (first, last), _ in boxes for edge in (first, last)})
    marks = sorted({edge for _, runs in boxes for run in runs for edge in run})
    row_at = {edge: i for i, edge in enumerate(rows)}
    mark_at = {edge: i for i, edge in enumerate(marks)}
    wide = len(marks)
    found = {}
    for region, ((first, last), runs) in zip(regions, boxes, strict=True):
        found[region] = tuple(sorted({
            row * wide + mark for row in range(row_at[first], row_at[last])
            for a, b in runs for mark in range(mark_at[a], mark_at[b])}))
    return found, len(rows) * wide


def _box(whole: Layout, layout: Layout, offset: int) -> tuple[tuple[int, int],
                                                              list[tuple[int, int]]]:
    """Partitions [first, last) and byte runs [a, b) of a view; in HBM one partition is all."""
    size = layout.dtype.itemsize
    row = whole.nbytes // whole.P if whole.on_chip else whole.nbytes
    if layout.indirect:
        return (0, whole.P if whole.on_chip else 1), [(0, row)]
    start = offset * size - (layout.start * row if whole.on_chip else 0)
    free = slice(int(whole.on_chip), None)
    dims = [(n, step * size) for n, step in zip(layout.shape[free], layout.strides[free],
                                                strict=True) if n > 1 and step]
    span = (layout.start, layout.start + layout.P) if whole.on_chip else (0, 1)
    return span, list(_runs(start, size, dims))


def _runs(start: int, size: int, dims: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Stretches of bytes; all of them as one where they are too many."""
    dims = sorted(dims, key=lambda d: d[1])
    length = size
    while dims and dims[0][1] <= length:
        length += (dims[0][0] - 1) * dims[0][1]
        dims.pop(0)
    count = 1
    for n, _ in dims:
        count *= n
    if count > RUNS:
        yield start, start + length + sum((n - 1) * step for n, step in dims)
        return
    for at in product(*(range(n) for n, _ in dims)):
        first = start + sum(i * step for i, (_, step) in zip(at, dims, strict=True))
        yield first, first + length
