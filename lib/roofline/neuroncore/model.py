"""The timeline of a counted kernel: in-order engines, transfers in the order they are issued.

Question  how long will this kernel take, and what will it wait for?
Answer    predict(run) -> Prediction: time, t_best, serial, parts, and a Profile of its own
Assumes   five engines in program order; one queue of DMA instructions, ordered once by estimates
          before any time is known; DMA engines that take packets in order of issue
Ignores   what the compiler fuses, reorders or spills; two kernels at once

Because every order is fixed beforehand, each time is a maximum of sums of prices: a faster part can
never make the whole slower.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .. import machine as machines
from .. import units
from ..machine import Machine, Spec
from ..nki.run import Run, no_collection
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
from .prices import constants as table_of


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


class Plan:
    """The instructions of a run in the order they are issued: all but their prices.

    Ordered by when each could be issued at shipped prices, were the two directions of DMA apart.
    """

    def __init__(self, run: Run, buffers: Buffers) -> None:
        self.run, self.buffers, self.graph = run, buffers, graph(run, buffers)
        self.shipped = machines.get(run.target.key, "core")
        self.moving = [(own.hbm_read_bytes, own.hbm_write_bytes)
                       for own in (core.count for core in run.cores) if own.hbm_bytes]
        kinds: dict[tuple, int] = {}
        self.kind = [kinds.setdefault((i[0], len(i[2]), *[p[1] for p in (*i[2], *i[3])]),
                                      len(kinds)) for i in self.graph.issued]
        self.one = dict(zip(self.kind, self.graph.issued, strict=True))
        rules = Prices(self.shipped, frozenset(), {}, self.moving)
        every = range(len(self.kind))
        early = simulate(self.graph, self.priced(rules), rules, every, queues=2).start
        self.order = sorted(every, key=lambda i: (early[i], i))

    def priced(self, rules: Prices) -> list[Step | Transfer]:
        """What each instruction costs; equal ones share their price."""
        prices = {kind: rules.of(i[0], i[2], i[3]) for kind, i in self.one.items()}
        return [prices[kind] for kind in self.kind]

    def predict(self, core: Machine, off: frozenset[str],
                constants: Mapping[str, float]) -> "Prediction":
        """With the prices of a core; see the function of this name."""
        rules = Prices(core, off, constants, self.moving)
        prices = self.priced(rules)
        return Prediction(self, core, off, constants, rules, prices,
                          simulate(self.graph, prices, rules, self.order))


@dataclass(eq=False, repr=False)
class Prediction:
    """A modelled time and where it comes from; every time in ns."""

    plan: Plan
    core: Machine
    without: frozenset[str]
    constants: Mapping[str, float]
    rules: Prices
    prices: list[Step | Transfer]
    schedule: Schedule
    clock = "total_time of a profile"

    def __post_init__(self) -> None:
        self.run, self.graph, ns = self.plan.run, self.plan.graph, self.rules.ns
        self.done = max(self.schedule.over, default=ns["start"])  # the last instruction
        self.time = self.done + ns["end"]

    @property
    def benchmark(self) -> float:
        """The same kernel by an unprofiled benchmark, whose fixed cost is another."""
        return self.done - self.rules.ns["start"] + self.rules.ns["benchmark"]

    @cached_property
    def machine(self) -> Machine:
        """Of t_best: DMA engines at the documents' theoretical figure, peaks as documented.

        Of the cores that work: a pair of which one has nothing to do is a core.
        """
        working = sum(bool(c.count.flops or c.count.hbm_bytes) for c in self.run.cores)
        return roof(self.core, max(working, 1))

    @cached_property
    def t_best(self) -> float:
        """Entitlement of the run's count on that machine; no prediction is below."""
        count = self.run.count
        moves = count.flops or count.hbm_bytes
        return 1e9 * self.machine.entitle(count).t_best if moves else 0.0

    @cached_property
    def serial(self) -> float:
        """The sum of all prices: no schedule of these instructions takes longer."""
        total = self.rules.ns["start"] + self.rules.ns["end"]
        matmuls = [0.0] * self.run.lnc
        for core, price in zip(self.graph.core, self.prices, strict=True):
            if isinstance(price, Transfer):
                total += (price.latency + max((ns for _, ns in price.loads), default=0)
                          + price.tail + price.receipt)
            else:
                total += price.load + price.busy + price.latency
                if price.shape[0]:
                    matmuls[core] += price.busy
        slow = self.rules.throttled
        return total + sum(min(self.rules.ns["throttle"] * (1 - slow), busy * (1 / slow - 1))
                           for busy in matmuls)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Busy ns of each engine on the core where it has most, the DMA queue, the fullest DMA
        engine; start and end.
        """
        busy = [[0.0] * (DMA + 1) for _ in range(self.run.lnc)]
        ports = [[0.0] * self.rules.engines for _ in range(self.run.lnc)]
        for core, engine, price in zip(self.graph.core, self.graph.engine, self.prices,
                                       strict=True):
            if isinstance(price, Transfer):
                busy[core][DMA] += price.issue
                for g, ns in price.loads:
                    ports[core][g] += ns + price.tail
            else:
                busy[core][engine] += price.busy
        most = {name: max(b[e] for b in busy) for e, name in enumerate((*ENGINES, "DMA issue"))}
        most["DMA"] = max(map(max, ports))
        return {"start": self.rules.ns["start"], **{k: v for k, v in most.items() if v},
                "end": self.rules.ns["end"]}

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """Mechanism -> ns that the prediction is longer for it; one simulation each."""
        found = {}
        for name in MECHANISMS:
            if name not in self.without:
                free = name == "buffers" and self.plan.buffers is not None
                plan = Plan(self.run, None) if free else self.plan
                off = self.without | {name}
                found[name] = self.time - plan.predict(self.core, off, self.constants).time
        return found

    @cached_property
    def profile(self) -> Profile:
        """What a profiler would show, kind "modelled"."""
        from .assemble import profile
        return profile(self)

    def __repr__(self) -> str:
        off = f", without {', '.join(sorted(self.without))}" if self.without else ""
        kinds = Counter(row.kind for row in table_of(self.core).values())
        less = [f"{name} {_text(ns)} ({ns / self.time:.1%})" for name, ns in self.shares.items()
                if ns >= 0.0005 * self.time]
        known = ("no published time of this chip is known" if self.core.key == "trn3" else
                 f"median error of published kernels, source left out of the fit: {TYPICAL}")
        rows = [("time", _text(self.time), self.clock),
                ("benchmark", _text(self.benchmark), "the same without a profiler"),
                ("T_best", _text(self.t_best),
                 f"{self.t_best / self.time:.0%} of the time, of {self.machine.name}"),
                ("serial", _text(self.serial), "if nothing overlapped"),
                *((name, _text(ns), "busy") for name, ns in self.parts.items()
                  if name not in ("start", "end"))]
        notes = [f"shorter without: {', '.join(less) or 'no mechanism'}",
                 f"constants: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}; {known}"]
        return "\n".join([
            f"{self.run.kernel} on {self.core.name}, modelled; buffers {self.plan.buffers}{off}",
            *aligned(rows, indent="  "),
            *(textwrap.fill(note, 96, initial_indent="  ", subsequent_indent="    ")
              for note in notes)])


def _text(ns: float) -> str:
    return units.show(ns / 1e9, "s")


# What error_report() comes to: a test holds the two together.
TYPICAL = "copy 7%, tiny 8%, gemm 7%, fused 9%, attention 10%, elementwise 10%, conv 12%"


@no_collection()
def predict(run: Run, machine: Machine | None = None, buffers: Buffers = 2, without: Any = (),
            constants: Mapping[str, float] | None = None) -> Prediction:
    """How long a counted kernel takes on a NeuronCore, with its timeline.

    machine     a core of the run's chip; None: as documented
    buffers     of the tiles of one source line, how many generations exist at once: an int for all,
                {name of a tile, or "sbuf" or "psum": int}, None for no limit
    without     names of MECHANISMS that are off (start, issue, latency, ...); "all"
    constants   {name: value in s or B/s} instead of those of constants.toml

    >>> from roofline import nki, neuroncore
    >>> neuroncore.predict(nki.run(kernel, a, b)).profile    # doctest: +SKIP

    Raises ModelError for an unknown name or a machine of another chip or scope.
    """
    if not isinstance(run, Run):
        raise ModelError(f"predict: got {type(run).__name__}; expected what nki.run(kernel, ...) "
                         "returned. data=False is enough")
    off = mechanisms_of(without)
    plan = Plan(run, None if "buffers" in off else buffers)
    core = plan.shipped if machine is None else machine
    if not isinstance(core, Machine) or (core.key, core.scope) != (plan.shipped.key, "core"):
        got = f"{core.name} (key {core.key!r}, scope {core.scope})" if isinstance(
            core, Machine) else repr(core)
        raise ModelError(f"predict: machine: got {got}; the run is of {run.target.name}, and a "
                         f"core is needed. Use machine.{plan.shipped.key}")
    return plan.predict(core, off, constants or {})


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


__all__ = ["MECHANISMS", "Prediction", "Schedule", "predict", "roof", "simulate"]
