"""Where the time of a core went when its DMA packets are the roof."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ..timeline import Ints, Spans
from .core import ISSUE, NEVER, Core, Owned, Part, between, split
from .rates import Rates


def memory(core: Core, rates: Rates, t_best: float, done: int) -> Iterator[Part]:
    """Every ns of the window but T_best, when the DMA packets are the roof.

    done   when the last core has done its work
    """
    union, m0, m1 = core.under_way, core.first, core.last
    if len(core.moves):
        m0, m1 = int(core.moves.start[0]), int(core.moves.end.max())
    yield from core.edges(m0, m1, done)
    under_way, at_roof = core.cut(union), core.moved() / rates.bw
    n, rate, lasts = rates.dma_engines, rates.dma_rate, core.moves.end - core.moves.start

    def part(cause: str, ns: float, by: Ints) -> Part:
        """To each packet its share, by how long it is or by what it carries."""
        return Part(cause, core.core, ns, lambda: under_way, lambda: _spread(core, ns, by),
                    "packets")

    yield part("extra bytes", at_roof - t_best, core.nbytes)
    if n and rate and not (core.engines < 0).any():
        per_engine, at_engines = _on_engines(core) / n, at_roof * rates.bw / (n * rate)
        yield replace(part("few engines", under_way.length - per_engine, lasts),
                      where=lambda: _fewer_than(core, n))
        yield part("packet cost", per_engine - at_engines, lasts)
        yield part("engines against the roof", at_engines - at_roof, core.nbytes)
    else:
        yield part("packets", under_way.length - at_roof, lasts)
    gaps = between(union, m0, m1)
    left = yield from core.waits(core.cut(gaps), "tensor", "vector", "scalar", "gpsimd", "issue")
    packets = core.timeline.packets
    rows = np.flatnonzero(~packets.traffic & (packets.core == core.core))
    fetched, left = split(left, Spans.of(packets.start[rows], packets.end[rows]))
    yield Part("instruction fetch", core.core, fetched.length, lambda: fetched, lambda: (
        rows[fetched.inside(packets.start[rows], packets.end[rows]) > 0], None), "packets")
    late, idle = split(left, _latency(core, gaps))
    yield core.part("DMA latency", late, partial(core.woken, late, moving=True))
    yield core.part("idle", idle, partial(core.woken, idle))


def _latency(core: Core, gaps: Spans) -> Spans:
    """Where an issued transfer's packets have not come, or its receipt is awaited to issue more.

    gaps   the longest stretches without traffic
    """
    own, rows = core.timeline.instructions, core.rows("issue")
    came = np.r_[-1, core.moves.start][np.searchsorted(core.moves.start, gaps.start, "right")]
    ends = np.r_[np.sort(own.end[rows]), NEVER]
    due = ends[np.searchsorted(ends, came, "right")]  # the first to be issued since packets came
    which, before = core.waited(rows)
    moves, issued = core.kind[before] >> 3 == ISSUE, np.full(rows.size, NEVER)
    np.minimum.at(issued, which[moves], own.end[before[moves]])
    at = np.searchsorted(gaps.start, own.start[rows])  # those that start within a gap
    held = (at > 0) & (own.start[rows] < np.r_[0, gaps.end][at])
    return Spans.of(np.maximum(due, gaps.start), gaps.end) | Spans.of(
        np.maximum(issued, np.r_[0, gaps.start][at])[held], own.start[rows[held]])


def _spread(core: Core, ns: float, by: Ints) -> Owned:
    """Packets in the window, each with its part of these ns."""
    weights = by * core.share(core.moves.start, core.moves.end)
    held = np.flatnonzero(weights)
    return core.packet_rows[held], ns * weights[held] / max(weights.sum(), 1)


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
