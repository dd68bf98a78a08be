"""Where the time of a core went when its DMA packets are the roof."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ..timeline import Spans
from .core import ISSUE, NEVER, WORK, Core, Owned, Part, between, split
from .rates import Rates


def memory(core: Core, rates: Rates, t_best: float, done: int) -> Iterator[Part]:
    """Every ns of the window but T_best, when the DMA packets are the roof.

    done   when the last core has done its work
    """
    union, m0, m1 = core.under_way, core.first, core.last
    if len(core.moves):
        m0, m1 = int(core.moves.start[0]), int(core.moves.end.max())
    yield from core.edges(m0, m1, done)
    under_way, at_roof = core.cut(union), core.moved / rates.bw
    n, rate = rates.dma_engines, rates.dma_rate

    def part(cause: str, ns: float, long: bool = False) -> Part:
        return Part(cause, core.core, ns, lambda: under_way, partial(_spread, core, ns, long),
                    "packets")

    yield part("extra bytes", at_roof - t_best)
    if n and rate and not (core.engines < 0).any():
        engines, at_engines = _by_engine(core), at_roof * rates.bw / (n * rate)
        each = sum(spans.length for spans in engines) / n
        yield replace(part("few engines", under_way.length - each, True),
                      where=lambda: _fewer_than(engines, n))
        yield part("packet cost", each - at_engines, True)
        yield part("engines against the roof", at_engines - at_roof)
    else:
        yield part("packets", under_way.length - at_roof, True)
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
    """Where an issued transfer's packets have not come, or a row awaits its receipt.

    gaps   the longest stretches without traffic
    """
    own, rows, came = core.timeline.instructions, core.issues, core.moves.start
    end = own.end[rows]
    low, high = (np.r_[column, NEVER] for column in (gaps.start, gaps.end))
    at = np.searchsorted(gaps.end, end, "right")  # the first that ends after it is issued
    due = np.ones(rows.size, bool)  # no packet has come since
    if len(came):
        due = came[np.searchsorted(came, low[at], "right") - 1] < end
    issued = Spans.of(np.maximum(end, low[at])[due], high[at][due])
    if not own.after.size:
        return issued
    rows = np.flatnonzero(core.mask(core.kind >= 8 * WORK))
    at = np.searchsorted(gaps.end, own.start[rows], "right")  # in which it starts, if it does
    held = low[at] < own.start[rows]
    rows, at = rows[held], at[held]
    which, before = core.waited(rows)
    moves, since = core.kind[before] >> 3 == ISSUE, np.full(rows.size, NEVER)
    np.minimum.at(since, which[moves], own.end[before[moves]])
    return issued | Spans.of(np.maximum(since, low[at]), own.start[rows])


def _spread(core: Core, ns: float, long: bool) -> Owned:
    """Packets in the window, each with its part of these ns: by how long it is, or its bytes."""
    start, end = core.moves.start, core.moves.end
    weights = (end - start if long else core.nbytes) * core.share(start, end)
    held = np.flatnonzero(weights)
    return core.packet_rows[held], ns * weights[held] / max(weights.sum(), 1)


def _by_engine(core: Core) -> list[Spans]:
    """When packets are under way in the window, DMA engine by DMA engine."""
    order = np.argsort(core.engines, kind="stable")
    opens = np.flatnonzero(np.diff(core.engines[order])) + 1
    columns = [np.split(column[order], opens) for column in (core.moves.start, core.moves.end)]
    return [core.cut(Spans.of(*both)) for both in zip(*columns, strict=True)]


def _fewer_than(engines: list[Spans], n: int) -> Spans:
    """Where some of the engines are busy, but fewer than n."""
    times = np.concatenate([s.start for s in engines] + [s.end for s in engines])
    half = times.size // 2
    order = np.argsort(times, kind="stable")
    times, step = times[order], np.where(order < half, 1, -1)
    busy = np.cumsum(step)[:-1]
    few = (busy > 0) & (busy < n)
    return Spans.of(times[:-1][few], times[1:][few])
