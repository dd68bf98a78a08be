"""The timeline of a counted kernel: in-order engines, transfers in the order they are issued.

Question  how long will this kernel take, and what will it wait for?
Answer    predict(run) -> Prediction: time, t_best, serial, parts, and a Profile of its own
Assumes   five engines in program order; one queue of DMA instructions, ordered once by estimates
          before any time is known; DMA engines that take packets in order of issue
Ignores   what the compiler fuses, reorders or spills; two kernels at once

Because every order is fixed beforehand, each time is a maximum of sums of prices: a faster part can
never make the whole slower.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .. import machine as machines
from .. import units
from ..machine import Machine, Spec
from ..nki.run import Run
from ..nki.run import _no_collection as no_collection
from ..profile import Profile
from ..table import aligned
from ..timeline import ENGINES
from .graph import Buffers, Graph, graph
from .prices import (
    DMA,
    MECHANISMS,
    TENSOR,
    ModelError,
    Prices,
    Step,
    Transfer,
    mechanisms_of,
)


@dataclass(eq=False)
class Schedule:
    """When everything happens; ns, a list entry an instruction of the graph.

    start, end   on its engine; of a transfer its DMA instruction
    load         when a stationary tile begins to load
    over         when its result may be read
    packets      of a transfer, the first ns of each DMA engine it uses
    released     core -> end of throttling, None where the Tensor Engine did nothing
    """

    start: list[float]
    end: list[float]
    load: list[float]
    over: list[float]
    packets: dict[int, list[float]]
    released: list[float | None]


def simulate(of: Graph, prices: list[Step | Transfer], rules: Prices, order: Iterable[int],
             queues: int = 1) -> Schedule:
    """Run the instructions in this order.

    queues   1: one queue of DMA instructions and one set of DMA engines; 2: stores have their own
    """
    n, cores = len(of.core), 1 + max(of.core, default=0)
    start, end, load, over = ([0.0] * n for _ in range(4))
    begin, slow, lasts = rules.ns["start"], rules.throttled, rules.ns["throttle"]
    free = [[begin] * DMA for _ in range(cores)]
    last = [[begin] * DMA for _ in range(cores)]
    loading = [begin] * cores  # the matmul before has started: the next tile may load
    released: list[float | None] = [None] * cores
    queue = [[begin] * 2 for _ in range(cores)]
    ports = [[[begin] * rules.engines for _ in range(2)] for _ in range(cores)]
    packets: dict[int, list[float]] = {}
    core_of, engine_of, after = of.core, of.engine, of.after
    for i in order:
        core, engine, price = core_of[i], engine_of[i], prices[i]
        ready = begin
        for before in after[i]:
            if over[before] > ready:
                ready = over[before]
        if isinstance(price, Transfer):
            which = queues - 1 and not of.issued[i][3][0][1].on_chip
            at = queue[core][which]
            at = ready if ready > at else at
            start[i] = at
            end[i] = queue[core][which] = at + price.issue
            at += price.latency
            port, done, firsts, tail = ports[core][which], at, [], price.tail
            for g, ns in price.loads:
                t = port[g]
                if t < at:
                    t = at
                firsts.append(t)
                t += ns + tail
                port[g] = t
                if t > done:
                    done = t
            packets[i] = firsts
            over[i] = done + price.receipt
            continue
        at = free[core][engine]
        if engine == TENSOR and price.shape[0]:
            t = loading[core]
            t = ready if ready > t else t
            load[i] = t
            t += price.load
            at = t if t > at else at
            loading[core] = start[i] = at
            until = released[core]
            if until is None:
                until = released[core] = at + lasts
            busy = price.busy
            if at < until:
                slowed = busy / slow
                room = until - at
                busy = slowed if slowed <= room else room + busy - room * slow
        else:
            at = ready if ready > at else at
            start[i], busy = at, price.busy
        end[i] = free[core][engine] = at + busy
        t = at + busy + price.latency
        if t < last[core][engine]:
            t = last[core][engine]
        over[i] = last[core][engine] = t
    return Schedule(start, end, load, over, packets, released)


@dataclass(eq=False, repr=False)
class Prediction:
    """A modelled time and where it comes from; every time in ns.

    time       from start to end, as a profile's total_time: the clock is `clock`
    benchmark  the same kernel by an unprofiled benchmark, whose fixed cost is another
    machine    of t_best: DMA engines at the documents' theoretical figure, peaks as documented
    t_best     entitlement of the run's count on it; no prediction is below
    serial     sum of all prices, one after the other; no prediction is above
    parts      what each engine is busy, of the busiest core, and start and end
    """

    run: Run
    machine: Machine
    time: float
    benchmark: float
    t_best: float
    serial: float
    parts: Mapping[str, float]
    buffers: Buffers
    without: frozenset[str]
    graph: Graph = field(repr=False)
    prices: list[Step | Transfer] = field(repr=False)
    rules: Prices = field(repr=False)
    schedule: Schedule = field(repr=False)
    clock = "total_time of a profile"

    @cached_property
    def profile(self) -> Profile:
        """What a profiler would show, kind "modelled"."""
        from .assemble import profile
        return profile(self)

    def __repr__(self) -> str:
        rows = [("time", _text(self.time), self.clock),
                ("benchmark", _text(self.benchmark), "the same without a profiler"),
                ("T_best", _text(self.t_best), f"{self.t_best / self.time:.0%} of it"),
                ("serial", _text(self.serial), "nothing overlaps"),
                *((name, _text(ns), "busy") for name, ns in self.parts.items())]
        off = f", without {', '.join(sorted(self.without))}" if self.without else ""
        return "\n".join([f"{self.run.kernel}, modelled on {self.machine.name}; buffers "
                          f"{self.buffers}{off}", *aligned(rows, indent="  ")])


def _text(ns: float) -> str:
    return units.show(ns / 1e9, "s")


@no_collection()
def predict(run: Run, machine: Machine | None = None, buffers: Buffers = 2, without: Any = (),
            constants: Mapping[str, float] | None = None) -> Prediction:
    """How long a counted kernel takes on a NeuronCore, with its timeline.

    machine     a core of the run's chip; None: as documented
    buffers     generations of the tiles of one source line that exist at once (see graph)
    without     names of MECHANISMS that are off; "all"
    constants   {name: value in s or B/s} instead of those of constants.toml

    >>> from roofline import nki, neuroncore
    >>> neuroncore.predict(nki.run(kernel, a, b)).profile    # doctest: +SKIP

    Raises ModelError for an unknown name or a machine of another chip or scope.
    """
    if not isinstance(run, Run):
        raise ModelError(f"predict: got {type(run).__name__}; expected what nki.run(kernel, ...) "
                         "returned. data=False is enough")
    off = mechanisms_of(without)
    shipped = machines.get(run.target.key, "core")
    core = shipped if machine is None else machine
    if core.key != shipped.key or core.scope != "core":
        raise ModelError(f"predict: machine: got {core.name} (key {core.key!r}, scope "
                         f"{core.scope}); the run is of {run.target.name}, and a core is needed. "
                         f"Use machine.{shipped.key}")
    of = graph(run, None if "buffers" in off else buffers)
    count = run.count
    moving = [(own.hbm_read_bytes, own.hbm_write_bytes) for own in (c.count for c in run.cores)
              if own.hbm_bytes]
    nominal = Prices(shipped, frozenset(), {}, moving)
    estimates = [nominal.of(i[0], i[2], i[3]) for i in of.issued]
    early = simulate(of, estimates, nominal, range(len(of.core)), queues=2).start
    order = sorted(range(len(of.core)), key=lambda i: (early[i], i))
    rules = Prices(core, off, constants or {}, moving)
    prices = [rules.of(i[0], i[2], i[3]) for i in of.issued]
    schedule = simulate(of, prices, rules, order)
    done = max(schedule.over, default=rules.ns["start"])
    ideal = roof(core, run.lnc)
    entitled = 1e9 * ideal.entitle(count).t_best if count.flops or count.hbm_bytes else 0.0
    return Prediction(
        run, ideal, done + rules.ns["end"], done - rules.ns["start"] + rules.ns["benchmark"],
        entitled, _serial(prices, of, rules), _parts(prices, of, rules), buffers, off, of, prices,
        rules, schedule)


def roof(core: Machine, cores: int = 1) -> Machine:
    """The machine that no prediction beats: its peaks, and all the DMA engines carry."""
    each = core.facts["dma_engine_theoretical"]
    engines = core.facts["dma_engines"].value
    spec = Spec(cores * engines * each.value, "B/s", each.source, "derived",
                f"{engines:g} x {each.text}" + f", {cores} cores" * (cores > 1))
    if cores == 1:
        return core.using(HBM=spec)
    pair = machines.get(core.key, "lnc2")
    return replace(pair, peaks={d: replace(s, value=2 * s.value) for d, s in core.peaks.items()},
                   ).using(HBM=spec)


def _serial(prices: list[Step | Transfer], of: Graph, rules: Prices) -> float:
    """The sum of all prices: no schedule of these instructions takes longer."""
    total = rules.ns["start"] + rules.ns["end"]
    matmuls = [0.0] * (1 + max(of.core, default=0))
    for core, price in zip(of.core, prices, strict=True):
        if isinstance(price, Transfer):
            total += (price.latency + max((ns for _, ns in price.loads), default=0) + price.tail
                      + price.receipt)
        else:
            total += price.load + price.busy + price.latency
            if price.shape[0]:
                matmuls[core] += price.busy
    slow = rules.throttled
    return total + sum(min(rules.ns["throttle"] * (1 - slow), busy * (1 / slow - 1))
                       for busy in matmuls)


def _parts(prices: list[Step | Transfer], of: Graph, rules: Prices) -> dict[str, float]:
    """Busy ns of each engine on the core where it has most, the DMA queue, the fullest engine."""
    cores = 1 + max(of.core, default=0)
    busy = [[0.0] * (DMA + 1) for _ in range(cores)]
    ports = [[0.0] * rules.engines for _ in range(cores)]
    for core, engine, price in zip(of.core, of.engine, prices, strict=True):
        if isinstance(price, Transfer):
            busy[core][DMA] += price.issue
            for g, ns in price.loads:
                ports[core][g] += ns + price.tail
        else:
            busy[core][engine] += price.busy
    most = {name: max(b[e] for b in busy) for e, name in enumerate((*ENGINES, "DMA issue"))}
    most["DMA"] = max(map(max, ports))
    return {"start": rules.ns["start"], **{k: v for k, v in most.items() if v},
            "end": rules.ns["end"]}


__all__ = ["MECHANISMS", "Prediction", "Schedule", "predict", "roof", "simulate"]
