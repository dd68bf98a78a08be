"""Registers, barriers and the exchange between two cores.

Source  nki.isa.register_*, core_barrier, sendrecv, get_nc_version (NKI 0.6); Using LNC
"""

import numpy as np

from ..core import Core, NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, MemoryRegion, NkiTensor, VirtualRegister
from .checks import is_tile, same_size, sbuf
from .enums import dma_engine, engine, nc_version

_PER_PARTITION = {4: 1024, 2: 512, 1: 256}  # gpsimd_dma: most bytes by the size of an element


def get_nc_version() -> nc_version:
    """The NeuronCore generation of the target. Source: nki.isa.get_nc_version."""
    return nc_version(current().target.generation)


def get_nc_sub_version() -> int:
    """0: the first silicon revision of a generation. Source: nki.isa.get_nc_sub_version."""
    current()
    return 0


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A register, holding `x` if it is given. Source: nki.isa.register_alloc."""
    current()
    if x is not None and not isinstance(x, (int, np.integer)):
        raise refuse("register_alloc", type(x).__name__, "a whole number or None",
                     "Load a tensor's value with nisa.register_load")
    return VirtualRegister(None if x is None else int(x))


def _writable(what: str, dst: VirtualRegister) -> None:
    if not isinstance(dst, VirtualRegister) or dst.frozen:
        raise refuse(f"{what}: dst", "a loop's own register" if isinstance(dst, VirtualRegister)
                     else type(dst).__name__, "a register of nisa.register_alloc")


def register_move(dst, src) -> None:
    """dst = a number or another register. Source: nki.isa.register_move."""
    _writable("register_move", dst)
    dst.state = src.state if isinstance(src, VirtualRegister) else int(src)


def register_load(dst, src: NkiTensor) -> None:
    """dst = the one element of src, in HBM or SBUF. Source: nki.isa.register_load."""
    core = current()
    _writable("register_load", dst)
    work = _scalar("register_load", is_tile("register_load", "src", src))
    dst.state = src.array.reshape(-1)[0].item() if core.data else None
    core.emit(work, (src.place,), ())


def register_store(dst: NkiTensor, src) -> None:
    """The one element of dst = a register. Source: nki.isa.register_store."""
    core = current()
    work = _scalar("register_store", is_tile("register_store", "dst", dst))
    if core.data:
        dst.put(np.asarray(src.state if isinstance(src, VirtualRegister) else src))
    core.emit(work, (), (dst.place,))


@rule
def _scalar(what: str, layout: Layout) -> Work:
    if layout.size != 1 or layout.buffer is MemoryRegion.psum:
        raise refuse(what, f"{layout!r}", "one element in HBM or SBUF")
    return Work(what, ("tensor", "vector", "scalar", "gpsimd", "sync"))


def core_barrier(data: NkiTensor, cores, engine=engine.gpsimd, name=None) -> NkiInstruction:
    """Wait until both cores of an LNC=2 kernel have come here. Source: nki.isa.core_barrier."""
    core = current()
    work = _barrier(core.target, is_tile("core_barrier", "data", data), tuple(cores), core.cores,
                    engine.name)
    number = sum(issued[0].opcode == "core_barrier" for issued in core.issued)
    issued = core.emit(work, (), (), name)
    core.partner.meet(core, "core_barrier", f"barrier {number} on {data.name}")
    return issued


@rule
def _barrier(target: Target, data: Layout, cores: tuple, launched: int, runs_on: str) -> Work:
    what = "core_barrier"
    _two_cores(what, target, launched)
    if cores != (0, 1):
        raise refuse(f"{what}: cores", cores, "(0, 1) only")
    if data.buffer is not MemoryRegion.shared_hbm:
        raise refuse(f"{what}: data", data.buffer.value, "what both cores access: a shared_hbm tensor",
                     "Allocate it with buffer=nl.shared_hbm")
    return Work(what, (runs_on,))


def _two_cores(what: str, target: Target, launched: int) -> None:
    target.need(3, what)
    if launched != 2:
        raise refuse(what, "a kernel on one core", "it needs the two cores of LNC=2",
                     "Launch kernel[2], or ask nl.num_programs() first")


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma,
             name=None) -> NkiInstruction:
    """Send src to the other core's dst, and receive its src here; SBUF to SBUF, no HBM bytes.

    Source: nki.isa.sendrecv.
    """
    core = current()
    work = _exchange(core.target, is_tile("sendrecv", "src", src), is_tile("sendrecv", "dst", dst),
                     core.cores, dma_engine)
    for role, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        if rank not in (0, 1):
            raise refuse(f"sendrecv: {role}", rank, "0 or 1")
    if send_to_rank != recv_from_rank:
        raise refuse("sendrecv", f"send_to_rank={send_to_rank}, recv_from_rank={recv_from_rank}",
                     "two cores exchange with each other")
    if send_to_rank == core.index:
        received = src.array.copy() if core.data else None
    else:
        key = f"sendrecv {_nth(core, pipe_id)} of pipe {pipe_id}"
        received = core.partner.meet(core, "sendrecv", key, src.array.copy() if core.data else src.shape)
        if not core.data and received != src.shape:
            raise refuse("sendrecv: src", list(src.shape), f"the other core sends {list(received)}")
    if core.data:
        dst.put(received)
    return core.emit(work, (src.place,), (dst.place,), name)


def _nth(core: Core, pipe: int) -> int:
    """How many exchanges of this pipe the core has begun."""
    begun = core.exchanges
    begun[pipe] = begun.get(pipe, -1) + 1
    return begun[pipe]


@rule
def _exchange(target: Target, src: Layout, dst: Layout, launched: int, through: dma_engine) -> Work:
    what = "sendrecv"
    _two_cores(what, target, launched)
    for role, layout in (("src", src), ("dst", dst)):
        if layout.buffer is not sbuf:
            raise refuse(f"{what}: {role}", f"{layout!r}", "a tile in sbuf")
    if src.dtype is not dst.dtype or src.shape != dst.shape:
        raise refuse(what, f"src {src!r}, dst {dst!r}", "the same dtype and shape")
    same_size(what, "dst", dst, "src", src)
    most = _PER_PARTITION[src.dtype.itemsize]
    if through is dma_engine.gpsimd_dma and src.F * src.dtype.itemsize > most:
        raise refuse(f"{what}: gpsimd_dma", f"{src.F * src.dtype.itemsize} B a partition",
                     f"at most {most} B of a {src.dtype.itemsize}-byte type", "Use dma_engine.dma")
    return Work(what, ("dma",))
