"""What one instruction costs a NeuronCore: time on its engine, time until its result is there.

Question  how long does this instruction hold its engine, and which DMA engines how long?
Answer    Prices.of(work, reads, writes): a Step on one of five engines, or a Transfer
Assumes   cycles from `derate` (documented); fixed costs from constants.toml, which no document has
Ignores   bank conflicts, row and column tiling side by side, what another core does meanwhile
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import derate, machine, units
from ..machine import Machine
from ..nki.core import Work
from ..nki.memory import Layout
from ..table import Told
from ..timeline import ENGINES

KINDS = ("fitted", "documented", "assumed")
# What can be switched off: predict(..., without=...).
MECHANISMS = MappingProxyType({
    "start": "time before the first and after the last instruction",
    "issue": "the interval between two DMA instructions",
    "latency": "from a DMA instruction to its first byte, from the last to its reader; pipelines",
    "packets": "what DMA packets and stores cost besides their bytes",
    "rates": "DMA engines slower than the documents' figure; DMA transposes slower than copies",
    "engines": "8 partitions go through one DMA engine: off, each transfer uses all of them",
    "matmul": "what a matmul costs besides its columns; stationary tiles loaded in plain view",
    "instruction": "what a Vector, Scalar or GpSimd instruction costs besides its elements",
    "throttle": "half speed of the Tensor Engine after it starts",
    "buffers": "tiles of one source line share a few buffers: off, each has its own",
})
_ZERO = {"start": ("start", "end", "benchmark"), "issue": ("dma_issue",),
         "latency": ("dma_latency", "dma_receipt", "latency"), "packets": ("packet", "store"),
         "matmul": ("matmul",), "instruction": ("vector", "scalar"), "throttle": ("throttle",)}
PACKET = 4096  # bytes: longer rows are cut, dma_saturating_bytes
TENSOR, VECTOR, SCALAR, GPSIMD, SYNC = range(5)  # indices into ENGINES
DMA = 5


class ModelError(Told, ValueError):
    """A prediction that was asked for in a way the model has no answer to."""


class Constant(NamedTuple):
    """One row of constants.toml: value in base units (s, B/s), unit, kind, when it holds."""

    value: float
    unit: str
    kind: str
    holds: str


_TABLES = tomllib.loads(files(__package__).joinpath("constants.toml").read_text("utf-8"))
_LIKE = {"inf2": "trn1", "trn3": "trn2"}


def constants(core: Machine) -> dict[str, Constant]:
    """The chip's constants by name; one that it lacks is its older kin's, as assumed."""
    found = {name: _constant(core, row) for name, row in _TABLES.get(core.key, {}).items()}
    if core.key in _LIKE:
        kin = constants(replace(machine.get(_LIKE[core.key]), facts={
            **machine.get(_LIKE[core.key]).facts, **core.facts}))
        found = {name: row._replace(kind="assumed", holds=f"{_LIKE[core.key]}'s; {row.holds}")
                 for name, row in kin.items()} | found
    return found


def _constant(core: Machine, row: Mapping[str, str]) -> Constant:
    if "fact" in row:
        spec = core.facts[row["fact"]]
        return Constant(spec.value, spec.unit, row["kind"], row["holds"])
    unit = "B/s" if row["value"].endswith("B/s") else "s"
    return Constant(units.parse(row["value"], unit), unit, row["kind"], row["holds"])


class Step(NamedTuple):
    """An instruction of an engine; ns.

    engine   index into ENGINES
    load     of the stationary tile, before the matmul or hidden behind the one before it
    busy     until the engine takes the next one
    latency  from then until the result may be read
    passes   rows on the timeline: fp32 matmuls take two
    shape    K, M, N of a matmul; its dtype; whether it is a transpose
    """

    engine: int
    load: float
    busy: float
    latency: float
    passes: int = 1
    shape: tuple[int, int, int] = (0, 0, 0)
    dtype: str = ""
    transpose: bool = False


class Transfer(NamedTuple):
    """A DMA instruction; ns.

    issue     until the queue takes the next one
    latency   from its start to its first packet
    loads     (DMA engine, ns), in order of engine
    tail      of each engine after its last packet, before the next transfer's
    receipt   from then until the bytes may be read
    row       packets of one row: (bytes, ns) each
    rows      rows that each engine of `loads` moves
    """

    issue: float
    latency: float
    loads: tuple[tuple[int, float], ...]
    tail: float
    receipt: float
    row: tuple[tuple[int, float], ...]
    rows: tuple[int, ...]


class Prices:
    """Prices on one core.

    without   names of MECHANISMS
    given     constants by name, in base units, instead of the table's
    moving    (bytes read, bytes written) at HBM of each core that moves any; where two do, each may
              use half of the stack
    """

    def __init__(self, core: Machine, without: frozenset[str], given: Mapping[str, float],
                 moving: Sequence[tuple[int, int]]) -> None:
        self.core, self.without = core, without
        table = constants(core)
        for name, value in given.items():
            if name not in table:
                raise ModelError(f"constants: no constant {name!r}; known: {', '.join(table)}")
            least = "> 0" if table[name].unit == "B/s" else ">= 0"
            if not (isinstance(value, (int, float)) and 0 <= value < math.inf
                    and (value or least == ">= 0")):
                raise ModelError(f"constants: {name} = {value!r}; expected a number {least} in "
                                 f"{table[name].unit}")
        values = {name: row.value for name, row in table.items()} | dict(given)
        for name in without:
            values |= dict.fromkeys(_ZERO.get(name, ()), 0.0)
        self.ns = {name: 1e9 * values[name] for name, row in table.items() if row.unit == "s"}
        fact = {name: core.facts[name].value for name in (
            "dma_engines", "dma_engine_theoretical", "dma_partitions_per_engine")}
        self.engines, self.each = int(fact["dma_engines"]), int(fact["dma_partitions_per_engine"])
        limit = fact["dma_engine_theoretical"]
        if "rates" not in without:
            if len(moving) == 2:
                limit = min(limit, machine.get(core.key, "lnc2").bw() / 2 / self.engines)
            limit = min([limit, *(_together(*each, values) for each in moving)])
        self.rate = limit / 1e9  # of one engine, B/ns
        self.transposing = _transposing(core) if "rates" not in without else {}
        slow = core.facts.get("throttle_start")  # NeuronCore-v2 has none
        self.throttled = slow.value if slow and self.ns["throttle"] else 1.0

    def of(self, work: Work, reads: tuple, writes: tuple) -> Step | Transfer:
        """The price of an instruction of a trace."""
        engine, sources, targets = runs_on(work), [p[1] for p in reads], [p[1] for p in writes]
        if engine == DMA:
            return self._transfer(work, sources, targets)
        if engine == TENSOR and work.flops:
            return self._matmul(work, targets[0])
        if work.elements and engine in (VECTOR, SCALAR, GPSIMD):
            return self._elements(work.opcode, engine, sources, targets)
        return self._other(work, engine, sources, targets)

    # --- Tensor Engine ---------------------------------------------------------------------------

    def _matmul(self, work: Work, dst: Layout) -> Step:
        """max(N, 64) columns at the dtype's rate, and the load of the stationary tile."""
        M, N = dst.P, dst.F
        K = work.flops // (2 * M * N)
        shipped = machine.get(self.core.key)
        packed = K > shipped.facts["tensor_array_rows"].value  # fp8 double row
        kind = work.dtype if work.dtype in shipped.peaks and (packed or work.dtype != "fp8") \
            else "bf16"  # fp8 in single rows goes as fast as bf16
        most = int(shipped.facts["gemm_moving_fmax"].value)
        one = derate.matmul(shipped, K=K, M=M, N=min(N, most), dtype=kind, load="kept")
        scale = N / min(N, most) * shipped.peak(kind) / self.core.peak(kind)
        passes = 2 if kind == "fp32" else 1
        half = 1.0
        if work.transpose and kind == "fp32" and "transpose_mode_speedup.fp32" in shipped.facts:
            half, passes = 1 / shipped.facts["transpose_mode_speedup.fp32"].value, 1
        load = 0.0 if "matmul" in self.without else (
            1e9 * one.load_cycles / shipped.facts["tensor_clock"].value
            * shipped.peak("bf16") / self.core.peak("bf16"))
        busy = 1e9 * one.seconds * scale * half + passes * self.ns["matmul"]
        return Step(TENSOR, load, busy, self.ns["latency"], passes, (K, M, N), work.dtype,
                    work.transpose)

    # --- Vector, Scalar, GpSimd ------------------------------------------------------------------

    def _elements(self, opcode: str, engine: int, reads: list[Layout],
                  writes: list[Layout]) -> Step:
        """Elements of a partition at the engine's clock.

        With two input tiles the Vector Engine takes in as many elements a cycle as its width is
        documented for, and gives one out: two cycles an element on NeuronCore-v2 (128 wide, and
        documented so), one on v3 in fp32 (256 wide; a reading that measured kernels bear out).
        """
        streamed = [layout for layout in (*reads, *writes) if layout.on_chip]
        N = max(layout.F for layout in streamed)
        tiles = [layout for layout in reads if layout.on_chip and layout.F > 1]
        two = len(tiles) > 1 and engine != SCALAR
        op = "tensor_tensor" if opcode == "tensor_tensor" or (two and engine == GPSIMD) else (
            "scalar_tensor_tensor" if two else "tensor_copy" if opcode in _COPIES or
            engine == GPSIMD else "tensor_reduce")
        if engine == SCALAR:
            op = opcode if opcode in _COPIES and self.core.key not in ("trn1", "inf2") else (
                "activation")
        wide = [layout for layout in streamed if layout.F > 1] or streamed
        kind = "bf16" if all(layout.dtype.itemsize == 2 for layout in wide) else "fp32"
        psum = engine != GPSIMD and any(layout.buffer.value == "psum" for layout in wide)
        fact = self.core.facts[f"engine_fmax.{'psum' if psum else 'sbuf'}"].value
        one = derate.elementwise(
            self.core, ENGINES[engine], N=min(N, int(fact)),
            partitions=max(layout.P for layout in streamed), dtype=kind, op=op, psum=psum,
            contiguous=all(layout.strides[-1] == 1 or layout.F == 1 for layout in wide))
        cycles = one.cycles
        if two and engine == VECTOR:
            width = self.core.facts.get(f"vector_width.{kind}") or self.core.facts["vector_width"]
            lanes = self.core.facts["pmax"].value
            cycles = min(cycles, max(N, math.ceil(2 * N * lanes / width.value)))
        fixed = self.ns["scalar" if engine == SCALAR else "vector"]
        return Step(engine, 0.0, 1e9 * cycles / one.clock.value + fixed, self.ns["latency"])

    def _other(self, work: Work, engine: int, reads: list[Layout],
               writes: list[Layout]) -> Step:
        """Registers, barriers and the exchange through GpSimd's own DMA."""
        if work.opcode == "sendrecv":
            rate = self.core.facts["gpsimd_dma_bandwidth"].value / 2  # both directions together
            return Step(engine, 0.0, 1e9 * writes[0].nbytes / rate, self.ns["dma_latency"])
        moved = sum(layout.hbm_bytes for layout in (*reads, *writes))
        busy = moved / (self.rate * self.engines)
        return Step(engine, 0.0, busy, self.ns["dma_latency"] if moved else self.ns["latency"])

    # --- DMA -------------------------------------------------------------------------------------

    def _transfer(self, work: Work, reads: list[Layout], writes: list[Layout]) -> Transfer:
        """Rows of a partition, cut into packets; a row goes through its partition's engine.

        An engine reads and writes at once, so the larger side counts; from HBM to HBM both do.
        """
        dst = writes[0]
        sides = [dst, *(layout for layout in reads if layout.size == dst.size)]
        crossing = sum(layout.hbm_bytes for layout in (*reads, dst))
        moved = max(crossing, *(layout.nbytes for layout in sides))
        chip = next((layout for layout in sides if layout.on_chip), None)
        run, rate = min(map(_run, sides)), self.rate
        if work.opcode == "dma_transpose":
            run = dst.F * dst.dtype.itemsize
            rate *= self.transposing.get("hbm" if crossing else "sbuf", 1.0)
        count = chip.P if chip else -(-dst.nbytes // min(run, PACKET))
        size = moved // count
        cut = min(run, PACKET, size) if chip else size
        parts = [cut] * (size // cut) + [size % cut] * (size % cut > 0)
        share = crossing / moved if crossing else 1.0
        row = tuple((round(part * share), self.ns["packet"] + part / rate) for part in parts)
        rows = [0] * self.engines
        for p in range(count) if chip else ():
            rows[(chip.start + p) // self.each % self.engines if chip else 0] += 1
        if chip is None or "engines" in self.without:
            whole, rest = divmod(count, self.engines)
            rows = [whole + (g < rest) for g in range(self.engines)]
        cost = sum(ns for _, ns in row)
        loads = [(g, n * cost) for g, n in enumerate(rows) if n]
        if "engines" in self.without:
            loads = [(g, count * cost / self.engines) for g in range(self.engines)]
        return Transfer(self.ns["dma_issue"], max(self.ns["dma_latency"], self.ns["dma_issue"]),
                        tuple(loads), self.ns["store"] if dst.hbm_bytes else 0.0,
                        self.ns["dma_receipt"], row, tuple(n for n in rows if n))


_COPIES = ("tensor_copy", "tensor_scalar")


@lru_cache(maxsize=1 << 12)
def runs_on(work: Work) -> int:
    """The engine: the one the source names; else Vector, else the first that may; DMA apart.

    A stated rule, as the compiler's choice is not known. What any engine may run (registers, a
    barrier of no engine) runs on Sync, which has nothing else to do.
    """
    if "dma" in work.engines:
        return DMA
    if len(work.engines) == 5:
        return SYNC
    return ENGINES.index(next((e for e in ("tensor", "vector") if e in work.engines),
                              work.engines[0]))


def _run(layout: Layout) -> int:
    """Bytes that lie next to each other, at the end of a view; on chip inside one partition."""
    run = 1
    pairs = list(zip(layout.shape, layout.strides, strict=True))
    for n, step in reversed(pairs[1:] if layout.on_chip else pairs):
        if n > 1 and step != run:
            break
        run *= n
    return run * layout.dtype.itemsize


def _together(read: int, written: int, value: Mapping[str, float]) -> float:
    """B/s of one engine over a whole run: reads, writes and both together have limits."""
    time = max(read / value["engine_read"], written / value["engine_write"],
               (read + written) / value["engine_mixed"])
    return (read + written) / time


def _transposing(core: Machine) -> dict[str, float]:
    """Share of the copy rate a DMA transpose reaches; documented from trn2 on, assumed before."""
    own = core if "dma_transpose_efficiency.hbm" in core.facts else machine.get("trn2")
    return {side: own.facts[f"dma_transpose_efficiency.{side}"].value for side in ("hbm", "sbuf")}


def mechanisms_of(without: Any) -> frozenset[str]:
    """The names, all of them known. "all" is every mechanism."""
    if not isinstance(without, Iterable):
        raise ModelError(f"without: got {without!r}; expected names of mechanisms: "
                         f"{', '.join(MECHANISMS)}")
    names = (without,) if isinstance(without, str) else tuple(without)
    if names == ("all",):
        return frozenset(MECHANISMS)
    for name in names:
        if name not in MECHANISMS:
            raise ModelError(f"without: no mechanism {name!r}; known: {', '.join(MECHANISMS)}, or "
                             '"all" for every one of them')
    return frozenset(names)
