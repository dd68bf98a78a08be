"""One physical NeuronCore while it runs a kernel, and what it refuses.

Question  what may an instruction do on this chip, and what did the kernel issue?
Answer    Target: the limits of a NeuronCore generation; Core: the instructions, in order
Assumes   instructions run one after the other, as NKI's programming model promises
Ignores   time, queues, which engine the compiler picks where the source does not say
"""

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from .. import machine
from ..table import Told
from .source import SITES, site_of


class NkiValidationError(Told, Exception):
    """A kernel asks for what the documents or the hardware do not allow."""


def refuse(what: str, got: object, limit: str, hint: str = "") -> NkiValidationError:
    """The error `what: got ...; limit. Next step`; raise it."""
    return NkiValidationError(f"{what}: got {got}; {limit}.{' ' * bool(hint)}{hint}")


@dataclass(frozen=True, eq=False)
class Target:
    """Limits of one physical core; sizes in elements or bytes, from `machine`."""

    key: str
    generation: int
    pmax: int
    stationary_fmax: int
    moving_fmax: int  # on v4 a matmul may take as many as fill all banks: see isa.tensor
    psum_bank_bytes: int  # of one partition
    psum_num_banks: int
    sbuf_partition_bytes: int
    sbuf_fmax: int  # elements of a partition one instruction passes over
    psum_fmax: int
    bn_stats_fmax: int
    hbm_bytes: int  # of the device

    @property
    def name(self) -> str:
        """As the documents call it: NeuronCore-v3 (trn2)."""
        return f"NeuronCore-v{self.generation} ({self.key})"

    @property
    def psum_partition_bytes(self) -> int:
        """Bytes of PSUM in one partition."""
        return self.psum_bank_bytes * self.psum_num_banks

    def need(self, generation: int, what: str) -> None:
        """Raises NkiValidationError on a core older than `generation`."""
        if self.generation < generation:
            raise refuse(what, self.name, f"it exists from NeuronCore-v{generation} on",
                         'Run with another target="..." or use an older instruction')


# NEURON_PLATFORM_TARGET_OVERRIDE's values (nki.jit) and the chip each stands for.
TARGETS = {"trn1": ("trn1", 2), "inf2": ("inf2", 2), "gen2": ("trn1", 2), "trn2": ("trn2", 3),
           "gen3": ("trn2", 3), "trn3": ("trn3", 4), "gen4": ("trn3", 4)}


@cache
def target(name: str) -> Target:
    """The limits of `name`'s core: "trn1", "inf2", "trn2", "trn3" or "gen2" to "gen4"."""
    if name not in TARGETS:
        raise refuse("target", repr(name), f"known: {', '.join(TARGETS)}")
    key, generation = TARGETS[name]
    fact = {k: int(spec.value) for k, spec in machine.get(key, "core").facts.items()}
    return Target(
        key=key, generation=generation, pmax=fact["pmax"],
        stationary_fmax=fact["gemm_stationary_fmax"],
        moving_fmax=fact["gemm_moving_fmax"],
        psum_bank_bytes=fact["psum_partition_bytes"] // fact["psum_num_banks"],
        psum_num_banks=fact["psum_num_banks"],
        sbuf_partition_bytes=fact["sbuf_partition_bytes"],
        sbuf_fmax=fact["engine_fmax.sbuf"], psum_fmax=fact["engine_fmax.psum"],
        bn_stats_fmax=fact["bn_stats_fmax"],
        hbm_bytes=int(machine.get(key, "device").facts["hbm_bytes"].value))


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """What one instruction is, apart from the tiles it touches.

    opcode     nisa's name for it
    engines    where the documents let it run; more than one: the compiler chooses
    flops      Tensor Engine FLOPs, 2 a multiply-add; 0 elsewhere
    dtype      what they are counted under, "" without FLOPs
    transpose  its FLOPs move data and are no work
    elements   elements an engine passes over in all partitions; 0 for DMA and control
    """

    opcode: str
    engines: tuple[str, ...]
    flops: int = 0
    dtype: str = ""
    transpose: bool = False
    elements: int = 0


def rule(function: Callable[..., Work]) -> Callable[..., Work]:
    """Remember what an instruction's checks said of these layouts: a tile loop asks it often."""
    return lru_cache(maxsize=1 << 14)(function)


class NkiInstruction:
    """Handle of an issued instruction (nki.isa.NkiInstruction); one serves for all.

    Program order is kept here, so what an instruction is to wait for changes nothing.
    """

    __slots__ = ()

    def depends_on(self, *producers: "NkiInstruction") -> "NkiInstruction":
        """Note that this instruction runs after each producer; returns itself."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise refuse("depends_on", type(producer).__name__,
                             "a producer is what a nki.isa call returned")
        return self


_ISSUED = NkiInstruction()


class Core:
    """One physical core: its limits, its memory, and every instruction it was given.

    issued   (Work, Site, reads, writes, name), one for each instruction; reads and writes are
             places: (Allocation, Layout, offset)
    data     False: shapes alone, nothing is computed
    """

    def __init__(self, target: Target, index: int = 0, cores: int = 1, data: bool = True,
                 partner: Any = None) -> None:
        self.target, self.index, self.cores, self.data = target, index, cores, data
        self.partner = partner  # what the two cores of an LNC=2 kernel share (run.Pair)
        self.issued: list[tuple] = []
        self.warnings: dict[str, None] = {}
        self.accumulators: dict[str, Any] = {}  # per engine: its reduce registers
        self.shared = 0  # shared HBM allocations made so far
        self.exchanges: dict[int, int] = {}  # sendrecv: begun in each pipe

    def warn(self, message: str) -> None:
        """Say something once that does not stop the kernel."""
        self.warnings[message] = None

    def emit(self, work: Work, reads: tuple, writes: tuple, name: str | None = None,
             depth: int = 2) -> NkiInstruction:
        """Record one instruction and the places it touches, at the line that asked for it.

        depth   frames from here to the kernel's, where it is found fastest
        """
        frame = sys._getframe(depth)
        site = SITES.get((id(frame.f_code), frame.f_lasti)) or site_of(frame)
        self.issued.append((work, site, reads, writes, name))
        return _ISSUED


_CURRENT: ContextVar[Core | None] = ContextVar("core", default=None)


def current() -> Core:
    """The core that the calling kernel runs on. Raises NkiValidationError outside a run."""
    core = _CURRENT.get()
    if core is None:
        raise refuse("nki", "a call outside a kernel run", "an instruction needs a core",
                     "Put it in a kernel and call nki.run(kernel, ...)")
    return core
