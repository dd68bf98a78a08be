"""The gap ledger again, slowly: every nanosecond of every working core is given to one place.

Question  where did T - T_best go, if we walk through the run one ns at a time?
Answer    sweep(case, machine, count, window): {cause: ns}, T, T_best and the roof that binds
Assumes   the definition of credits and slots; plain lists of rows; no NumPy, no shared code
Ignores   speed: a run of 40,000 ns takes a second

A case comes from a profile of the library (`of`), or straight from the profiler's JSON (`parse`),
so that a mistake in reading shows, too.
"""

import itertools
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from roofline import machine as machines
from roofline.timeline import CONTROL, DTYPES, ENGINES

WAITS = ("vector", "scalar", "gpsimd")  # in this order, where no predecessor says who it was
SHORTEST = 64  # cycles between two matmuls, however few columns move (trn1-arch, Cost Model)
PEELS = ("throttle", "dtype", "small tiles", "short moving")


@dataclass
class Row:
    """An instruction; `after` are the rows it waited for, K = M = N = 0 where unknown."""

    core: int
    engine: str
    opcode: str
    start: int
    end: int
    K: int = 0
    M: int = 0
    N: int = 0
    macs: int = 0
    dtype: str = ""
    passes: int = 1
    transpose: bool = False
    after: list["Row"] = field(default_factory=list)

    @property
    def works(self) -> bool:
        return self.opcode not in CONTROL

    @property
    def issues(self) -> bool:
        return self.opcode.startswith("DMA_")

    @property
    def on_tensor(self) -> bool:
        return self.opcode in ("MATMUL", "LDWEIGHTS")

    @property
    def flops(self) -> float:
        """Useful work: all passes of a matmul share that of one."""
        if self.opcode != "MATMUL" or self.transpose:
            return 0.0
        return 2 * (self.K * self.M * self.N or self.macs) / self.passes


@dataclass
class Packet:
    core: int
    engine: int
    start: int
    end: int
    nbytes: int
    traffic: bool


@dataclass
class Throttle:
    core: int
    start: int
    end: int
    k: int
    n: int


@dataclass
class Case:
    rows: list[Row]
    packets: list[Packet]
    throttles: list[Throttle]
    end: int
    total: float  # ns
    span: tuple[int, int] | None = None


class Refused(Exception):
    """A run, or a part of one, that has no ledger."""


@dataclass
class Swept:
    rows: dict[str, float]
    t: float
    t_best: float
    roof: str  # "compute" or "memory"
    where: dict[str, set[tuple[int, int]]]  # cause -> its (core, ns), where it has ns of its own
    matmuls: dict[str, list[tuple[Row, int, int]]]  # cause in slots -> the matmuls, their slots


# --- cases ---------------------------------------------------------------------------------------


def of(profile) -> Case:
    """The rows of a profile of the library."""
    line, own = profile.timeline, profile.timeline.instructions
    rows = [Row(int(own.core[i]), ENGINES[own.engine[i]], own.opcodes[own.opcode[i]],
                int(own.start[i]), int(own.end[i]), int(own.rows[i]), int(own.columns[i]),
                int(own.moving[i]), int(own.macs[i]), DTYPES[own.dtype[i]], int(own.passes[i]),
                bool(own.transpose[i])) for i in range(len(own))]
    for i, row in enumerate(rows):
        if i + 1 < len(own.first):
            row.after = [rows[j] for j in own.after[own.first[i]:own.first[i + 1]]]
    moved, slowed = line.packets, line.throttles
    return Case(
        rows,
        [Packet(int(moved.core[i]), int(moved.engine[i]), int(moved.start[i]), int(moved.end[i]),
                int(moved.nbytes[i]), bool(moved.traffic[i])) for i in range(len(moved))],
        [Throttle(int(slowed.core[i]), int(slowed.start[i]), int(slowed.end[i]),
                  int(slowed.k[i]), int(slowed.n[i])) for i in range(len(slowed))],
        line.end, profile.summary["total_time"] * 1e9, profile.span)


def parse(document: dict) -> Case:
    """The rows of a profiler's `json` output, names of 2.28."""
    labels = {"Tensor": "tensor", "TensorMatrix": "tensor", "Vector": "vector",
              "Scalar": "scalar", "GpSimd": "gpsimd", "Sync": "sync"}
    dtypes = {"bfloat16": "bf16", "float16": "fp16", "fp16": "fp16", "fp32": "fp32",
              "float32": "fp32"}
    by_id, rows, groups = {}, [], Counter()
    for one in document["instruction"]:
        row = Row(int(one["subgraph"][2:]), labels[one["label"]], one["opcode"], one["timestamp"],
                  one["timestamp"] + one["duration"])
        if row.opcode == "MATMUL":
            row.K, row.M = map(int, re.search(r"(\d+)\*(\d+)\s*$", one["operands"]).groups())
            row.macs = one["elements"]
            row.N = row.macs // (row.K * row.M)
            row.dtype = dtypes[re.search(r"src=(\w+)@", one["operands"])[1]]
            row.transpose = one["instruction_type"] == "TRANSPOSE"
            groups[row.core, one["bir_id"]] += 1
        by_id[one["id"]] = row
        rows.append((row, one))
    for row, one in rows:
        row.after = [by_id[p["id"]] for p in one.get("predecessors") or () if p["id"] in by_id]
        if row.dtype == "fp32":
            row.passes = groups[row.core, one["bir_id"]]
    packets = [Packet(int(p["subgraph"][2:]), int(p["dma_engine"]), p["timestamp"],
                      p["timestamp"] + p["duration"], p["transfer_size"],
                      p["queue_type"] != "instruction" and p["transfer_size"] > 4)
               for p in document["dma"] if p.get("duplicate") != "yes"]
    throttles = [Throttle(int(t["subgraph"][2:]), t["timestamp"], t["timestamp"] + t["duration"],
                          t["k"], t["n"]) for t in document["ham"]]
    start = lambda row: row.start  # noqa: E731
    everything = [*(row for row, _ in rows), *packets, *throttles]
    end = max(document["metadata"][0]["last_hw_timestamp"], *(e.end for e in everything))
    return Case(sorted((row for row, _ in rows), key=start), sorted(packets, key=start),
                sorted(throttles, key=start), end, document["summary"][0]["total_time"] * 1e9)


# --- one core, every nanosecond of it ------------------------------------------------------------


def covered(events) -> set[int]:
    """The nanoseconds in which one of these runs."""
    return {t for event in events for t in range(event.start, event.end)}


def left_by(taken, start: int, stop: int) -> list[tuple[int, int]]:
    """The longest stretches of [start, stop) in which no ns is taken."""
    left = [t for t in range(start, stop) if t not in taken]
    return [(t, next(s for s in itertools.count(t) if s == stop or s in taken))
            for t in left if t == start or t - 1 in taken]


@dataclass
class Core:
    """What one core did, and the place of each of its nanoseconds."""

    case: Case
    number: int

    def __post_init__(self) -> None:
        def mine(some):
            return [one for one in some if one.core == self.number]

        self.rows = [row for row in mine(self.case.rows) if row.works]
        self.tensor = [row for row in self.rows if row.on_tensor]
        self.matmuls = [row for row in self.rows if row.opcode == "MATMUL"]
        self.traffic = [p for p in mine(self.case.packets) if p.traffic]
        self.other = [p for p in mine(self.case.packets) if not p.traffic]
        self.throttles = mine(self.case.throttles)
        begins = [row.start for row in self.rows if row.issues] + [p.start for p in self.traffic]
        if self.rows or self.traffic:
            self.D0 = min(begins or [row.start for row in self.rows])
            self.Z = max(event.end for event in [*self.rows, *self.traffic])

    @property
    def works(self) -> bool:
        return bool(self.rows or self.traffic)

    def roof_times(self, roof: str) -> tuple[int, int]:
        """M0, M1: from the first to the last of what the roof is about; else all that worked."""
        last = self.matmuls if roof == "compute" else self.traffic
        first = self.tensor if roof == "compute" else self.traffic
        if not last:
            return self.D0, self.Z
        return min(event.start for event in first), max(event.end for event in last)

    def slots(self) -> list[tuple[int, int]]:
        """One a MATMUL: until it ends or the next starts."""
        return [(row.start, min([row.end, *(later.start for later in self.matmuls[i + 1:i + 2])]))
                for i, row in enumerate(self.matmuls)]

    def engine_busy(self, engine: str) -> set[int]:
        return covered(r for r in self.rows if r.engine == engine and not r.issues)

    def places(self, roof: str, over: int) -> dict[int, object]:
        """ns -> its place: a cause, or the index of a MATMUL, or "packets" under the memory roof.

        Of the whole core; whoever asks for less takes less. over: when the last core stops working.
        """
        M0, M1 = self.roof_times(roof)
        inner = self._by_slots(M0, M1) if roof == "compute" else self._by_packets(M0, M1)
        found = {}
        for t in range(max(over, self.case.end)):
            if t < min(self.D0, M0):
                found[t] = "start"
            elif t < M0:
                found[t] = "fill"
            elif t < M1:
                found[t] = inner[t]
            elif t < self.Z:
                found[t] = "tail"
            elif t < over:
                found[t] = "wait for the other core"
            else:
                found[t] = "end"
        return found

    def _by_slots(self, M0: int, M1: int) -> dict[int, object]:
        slot = {t: i for i, (start, end) in enumerate(self.slots()) for t in range(start, end)}
        running = covered(self.matmuls)
        loading = covered(r for r in self.rows if r.opcode == "LDWEIGHTS")
        busy = {engine: self.engine_busy(engine) for engine in WAITS}
        moving = covered(self.traffic)
        inner: dict[int, object] = {}
        for t in range(M0, M1):
            if t in slot:
                inner[t] = slot[t]
            elif t in running:
                inner[t] = "pipeline"
            elif t in loading:
                inner[t] = "weight load"
        for start, stop in left_by(inner, M0, M1):
            blamed = self._blamed(start, stop)
            for ns in range(start, stop):
                engine = next((e for e in WAITS if ns in busy[e]), None)
                inner[ns] = (blamed or (engine and f"wait for {engine}")
                             or ("wait for DMA" if ns in moving else "idle"))
        return inner

    def _blamed(self, start: int, stop: int) -> str | None:
        """Whom the Tensor row that ends this gap waited for, as far as its predecessors tell."""
        waiting = next((row for row in self.tensor if row.start == stop), None)
        others = [row for row in (waiting.after if waiting else ())
                  if row.works and not row.on_tensor]
        latest = None
        for row in others:
            if row.end > start and (latest is None or row.end > latest.end):
                latest = row
        if latest is None:  # a transfer goes on when the row that started it is over
            return "wait for DMA" if any(row.issues for row in others) else None
        moved = latest.issues or latest.engine == "sync"  # that engine only moves data
        return "wait for DMA" if moved else f"wait for {latest.engine}"

    def _by_packets(self, M0: int, M1: int) -> dict[int, object]:
        moving, other = covered(self.traffic), covered(self.other)
        busy = {engine: self.engine_busy(engine) for engine in ("tensor", *WAITS)}
        issuing = covered(row for row in self.rows if row.issues)
        late = self._latency(moving, M0, M1)
        inner: dict[int, object] = {}
        for t in range(M0, M1):
            engine = next((e for e in busy if t in busy[e]), None)
            inner[t] = ("packets" if t in moving else f"wait for {engine}" if engine else
                        "DMA issue" if t in issuing else
                        "instruction fetch" if t in other else
                        "DMA latency" if t in late else "idle")
        return inner

    def _latency(self, moving: set[int], M0: int, M1: int) -> set[int]:
        """When no packet moves, but one is to come, or what has come is about to be told."""
        issues, late = [row for row in self.rows if row.issues], set()
        for start, stop in left_by(moving, M0, M1):
            before = max((p.start for p in self.traffic if p.start <= start), default=-1)
            for ns in range(start, stop):
                issued = any(before < row.end <= ns for row in issues)
                told = (earlier for row in self.rows if row.works and ns < row.start < stop
                        for earlier in row.after)
                if issued or any(row.issues and row.end <= ns for row in told):
                    late.add(ns)
        return late


def inside(start: int, end: int, window: tuple[int, int]) -> float:
    """The share of [start, end) that lies in a window; a point is in it or not."""
    a, b = window
    if end == start:
        return 1.0 if a <= start < b else 0.0
    return sum(a <= t < b for t in range(start, end)) / (end - start)


# --- the machine, a core of it -------------------------------------------------------------------


@dataclass
class Roofs:
    machine: machines.Machine

    def __post_init__(self) -> None:
        self.cores = {"core": 1, "lnc2": 2}[self.machine.scope]
        self.bw = self.machine.bw() / self.cores / 1e9  # bytes a ns

    def peak(self, dtype: str) -> float:
        """FLOPs a ns."""
        return self.machine.peak(dtype) / self.cores / 1e9

    def array(self, dtype: str) -> float:
        """Rows x columns that one matmul of this dtype can fill."""
        rows = self.fact(f"max_contraction.{dtype}") or self.fact("max_contraction.bf16")
        return rows * self.fact("tensor_array_columns")

    def fastest(self, dtypes) -> str:
        return max(sorted(dtypes), key=self.peak)

    def fact(self, name: str) -> float | None:
        """A fact of one core; the chip's own where this scope does not say."""
        if name in self.machine.facts:
            share = self.cores if name == "dma_engines" else 1
            return self.machine.facts[name].value / share
        try:
            facts = machines.get(self.machine.key, "core").facts
        except machines.MachineError:
            return None
        return facts[name].value if name in facts else None


# --- the ledger ----------------------------------------------------------------------------------


def sweep(case: Case, machine, count=None, window=None, skip: tuple[str, ...] = (),
          roof: str | None = None) -> Swept:
    """The ledger of a case, ns by ns.

    roof   "compute" or "memory", where it is not the one that binds
    skip   causes that are not told apart, to see that a test would notice
    """
    roofs, E = Roofs(machine), case.end
    window = window or case.span
    T, (a, b) = (case.total, (0, E)) if window is None else (window[1] - window[0], window)
    if not 0 <= a <= b <= max(E, math.ceil(round(case.total, 6))):
        raise Refused(f"{window} is no part of the run")
    part = (min(a, E), min(b, E))
    numbers = {row.core for row in case.rows} | {p.core for p in case.packets}
    cores = [core for core in (Core(case, number) for number in sorted(numbers)) if core.works]
    w = len(cores)
    if not cores or any(core.Z > E for core in cores):
        raise Refused("nothing works, or after the end")
    over = max(core.Z for core in cores)

    counted = count.work if count else {}
    known = counted or {r.dtype for core in cores for r in core.matmuls
                        if r.dtype and not r.transpose}
    fastest = roofs.fastest(known) if known else None

    def of_row(row: Row) -> str:
        """What a useful MATMUL multiplies."""
        if not row.dtype and not fastest and not row.transpose:
            raise Refused(f"what does {row} multiply?")
        return row.dtype or fastest or "bf16"

    def credited(row: Row) -> str:
        return of_row(row) if not counted or of_row(row) in counted else fastest

    def least(roof: str, part) -> float:
        """T_best at this roof, of the count or of what happened in a part of the run."""
        if roof == "memory":
            return (count.hbm_bytes if count else sum(
                p.nbytes * inside(p.start, p.end, part) for core in cores for p in core.traffic
            )) / (w * roofs.bw)
        return (sum(W / roofs.peak(d) for d, W in count.work.items()) if count else sum(
            row.flops / roofs.peak(of_row(row)) * inside(*slot, part) for core in cores
            for row, slot in zip(core.matmuls, core.slots(), strict=True))) / w

    if roof is None:
        binds = least("compute", (0, E)) >= least("memory", (0, E))
        roof = "compute" if binds else "memory"
    t_best = least(roof, part)
    if roof == "compute" and not case.rows:
        raise Refused("packets do not tell when the Tensor Engine ran")

    rows: Counter[str] = Counter()
    where: dict[str, set[tuple[int, int]]] = defaultdict(set)
    matmuls: dict[str, list[tuple[Row, int, int]]] = defaultdict(list)
    for core in cores:
        places = core.places(roof, over)
        for t in range(*part):
            where[places[t]].add((core.number, t))
        tally = Counter(places[t] for t in range(*part))
        amounts = (_compute(core, roofs, tally, part, of_row, credited, skip, where, matmuls)
                   if roof == "compute" else _memory(core, roofs, tally, part, skip, where))
        for cause, ns in amounts.items():
            rows[cause] += ns / w
    rows["uncounted work" if roof == "compute" else "extra bytes"] -= t_best
    beyond = T - (part[1] - part[0])
    rows["end" if beyond > 2 else "rounding"] += beyond
    return Swept(dict(rows), T, t_best, roof, where, matmuls)


def _compute(core, roofs, tally, part, of_row, credited, skip, where, matmuls) -> Counter:
    rows: Counter[str] = Counter()
    for place, ns in tally.items():
        if isinstance(place, str):
            rows[place if place not in skip else "idle"] += ns
    allowed = _allowed(core, roofs)
    for i, (row, (start, end)) in enumerate(zip(core.matmuls, core.slots(), strict=True)):
        slot = end - start
        share = tally[i] / slot if slot else inside(start, end, part)
        points = {(core.number, t) for t in range(start, end) if part[0] <= t < part[1]}
        assert abs(share - inside(start, end, part)) < 1e-12
        if row.transpose and "transposes" not in skip:
            rows["transposes"] += slot * share
            if points:
                matmuls["transposes"].append((row, start, end))
                where["transposes"] |= points
            continue
        u = row.flops / roofs.peak(credited(row))
        u_own = row.flops / roofs.peak(of_row(row))
        array = max(roofs.array(of_row(row)) / (row.K * row.M), 1) if row.K and row.M else 1
        columns = max(row.N, SHORTEST) / row.N if row.N and row.K and row.M else 1
        amounts = {"throttle": sum(1 - allowed.get(t, 1) for t in range(start, end)),
                   "dtype": u_own - u,
                   "small tiles": u_own * (array - 1),
                   "short moving": u_own * array * (columns - 1)}
        left = slot - u
        for cause in PEELS:
            if cause not in skip:
                taken = min(amounts[cause], max(left, 0))
                rows[cause] += taken * share
                left -= taken
                if abs(taken * share) > 1e-9:
                    matmuls[cause].append((row, start, end))
                    where[cause] |= {(number, t) for number, t in points
                                     if cause != "throttle" or allowed.get(t, 1) < 1}
        rows["pipeline"] += left * share
        rows["uncounted work"] += u * share
    return rows


def _allowed(core, roofs) -> dict[int, float]:
    """ns -> the share of the Tensor Engine's cycles that it may use; 1 where nothing is said."""
    slow = [(t.start, t.end, t.k / t.n) for t in core.throttles if t.k < t.n]
    released = [t.start for t in core.throttles if t.k == t.n]
    start = roofs.fact("throttle_start")
    if start is not None and released and core.tensor:
        slow.append((core.roof_times("compute")[0], min(released), start))
    allowed: dict[int, float] = {}
    for begin, end, share in slow:
        for t in range(begin, end):
            allowed[t] = min(allowed.get(t, 1), share)
    return allowed


def _memory(core, roofs, tally, part, skip, where) -> Counter:
    rows: Counter[str] = Counter()
    for place, ns in tally.items():
        if place != "packets":
            rows[place if place not in skip else "idle"] += ns
    ns = tally["packets"]
    nbytes = sum(p.nbytes * inside(p.start, p.end, part) for p in core.traffic)
    n, rate = roofs.fact("dma_engines"), roofs.fact("dma_engine_theoretical")
    known = all(p.engine >= 0 for p in core.traffic) and n is not None and rate is not None
    if known:
        engines = {p.engine for p in core.traffic}
        busy = Counter(t for e in engines
                       for t in covered(p for p in core.traffic if p.engine == e)
                       if part[0] <= t < part[1])
        carried = sum(busy.values())
        where["few engines"] |= {(core.number, t) for t, some in busy.items() if some < n}
        split = {"few engines": ns - carried / n,
                 "packet cost": carried / n - nbytes / (n * rate / 1e9),
                 "engines against the roof": nbytes / (n * rate / 1e9) - nbytes / roofs.bw}
    else:
        split = {"packets": ns - nbytes / roofs.bw}
    for cause, amount in split.items():
        rows[cause if cause not in skip else "idle"] += amount
    rows["extra bytes"] += nbytes / roofs.bw
    return rows
