"""Where the time of a core went when its DMA packets are the roof."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ..timeline import Ints, Spans
from .core import Core, Part, between
from .rates import Rates


def memory(core: Core, rates: Rates) -> Iterator[Part]:
    """Every ns of the window but the bytes at BW, when the DMA packets are the roof."""
    union, m0, m1 = core.under_way, core.first, core.last
    if len(core.moves):
        m0, m1 = int(core.moves.start[0]), int(core.moves.end.max())
    yield from core.edges(m0, m1)
    under_way, at_roof = core.cut(union), core.moved() / rates.bw
    n, rate = rates.dma_engines, rates.dma_rate

    def part(cause: str, ns: float, where: Callable[[], Spans]) -> Part:
        return Part(cause, core.core, ns, where,
                    partial(core.touched, under_way, "packets"), "packets")

    if n and rate and not (core.engines < 0).any():
        per_engine, at_engines = _on_engines(core) / n, at_roof * rates.bw / (n * rate)
        yield part("few engines", under_way.length - per_engine, lambda: _fewer_than(core, n))
        yield part("packet cost", per_engine - at_engines, lambda: under_way)
        yield part("engines against the roof", at_engines - at_roof, lambda: under_way)
    else:
        yield part("packets", under_way.length - at_roof, lambda: under_way)
    left = yield from core.waits(core.cut(between(union, m0, m1)), "tensor", "vector", "scalar",
                                 "gpsimd", "issue")
    packets = core.timeline.packets
    rows = np.flatnonzero(~packets.traffic & (packets.core == core.core))
    fetched = left & Spans.of(packets.start[rows], packets.end[rows])
    left -= fetched
    yield Part("instruction fetch", core.core, fetched.length, lambda: fetched, lambda: (
        rows[fetched.inside(packets.start[rows], packets.end[rows]) > 0], None), "packets")
    if len(core.moves):
        after = np.searchsorted(core.moves.start, left.end)  # a packet ends each of them
        yield core.part("idle", left, lambda: (core.packet_rows[after], None), "packets")
    else:
        yield core.part("idle", left, partial(core.woken, left))


def _by_engine(core: Core) -> tuple[Ints, Ints, Ints]:
    """Packets in the window engine by engine: start, end, where each engine's rows begin."""
    order = np.argsort(core.engines, kind="stable")
    engine = core.engines[order]
    first = np.flatnonzero(np.r_[True, engine[1:] != engine[:-1]][:engine.size])
    start, end = core.moves.start[order], core.moves.end[order]
    if core.whole:
        return start, end, first
    return np.clip(start, core.t0, core.t1), np.clip(end, core.t0, core.t1), first


def _on_engines(core: Core) -> float:
    """Time under way on each engine, summed over engines."""
    start, end, first = _by_engine(core)
    rows = np.diff(np.r_[first, start.size])
    apart = np.repeat(np.arange(first.size) * (core.timeline.end + 1), rows)
    return float(Spans.of(start + apart, end + apart).length)  # one after the other


def _fewer_than(core: Core, n: int) -> Spans:
    """Where packets are under way on some engines, but on fewer than n."""
    start, end, first = _by_engine(core)
    by_engine = [Spans.of(*both) for both in zip(np.split(start, first[1:]),
                                                 np.split(end, first[1:]), strict=True)]
    times = np.concatenate([s.start for s in by_engine] + [s.end for s in by_engine])
    half = times.size // 2
    order = np.argsort(times, kind="stable")
    times, step = times[order], np.where(order < half, 1, -1)
    busy = np.cumsum(step)[:-1]
    few = (busy > 0) & (busy < n)
    return Spans.of(times[:-1][few], times[1:][few])
