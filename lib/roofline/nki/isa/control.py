"""Registers, barriers and the exchange between two cores.

Source  nki.isa.register_*, core_barrier, sendrecv, get_nc_version (NKI 0.6); Using LNC
"""

from typing import Any

import numpy as np

from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, MemoryRegion, NkiTensor, VirtualRegister
from .checks import is_tile, sbuf
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


def _number(what: str, src: Any) -> int | None:
    """What a number or a register holds; None where data alone would tell."""
    if isinstance(src, VirtualRegister):
        if src.state is None and current().data:
            raise refuse(f"{what}: src", "a register that nothing was moved into",
                         "its value is undefined", "Start it: nisa.register_alloc(0)")
        return src.state
    if isinstance(src, (int, np.integer)) and not isinstance(src, bool):
        return int(src)
    raise refuse(f"{what}: src", type(src).__name__, "a whole number or a register",
                 "Load a tensor's value with nisa.register_load")


def register_move(dst, src) -> None:
    """dst = a number or another register. Source: nki.isa.register_move."""
    _writable("register_move", dst)
    dst.state = _number("register_move", src)


def register_load(dst, src: NkiTensor) -> None:
    """dst = the one element of src, in HBM or SBUF. Source: nki.isa.register_load."""
    core = current()
    _writable("register_load", dst)
    work = _scalar("register_load", is_tile("register_load", "src", src), True)
    dst.state = int(src.read().reshape(-1)[0]) if core.data else None
    core.emit(work, (src.place,), ())


def register_store(dst: NkiTensor, src) -> None:
    """The one element of dst = a register. Source: nki.isa.register_store."""
    core = current()
    work = _scalar("register_store", is_tile("register_store", "dst", dst), False)
    value = _number("register_store", src)
    if core.data:
        dst.put(np.asarray(value))
    core.emit(work, (), (dst.place,))


@rule
def _scalar(what: str, layout: Layout, loads: bool) -> Work:
    if layout.size != 1 or layout.buffer is MemoryRegion.psum:
        raise refuse(what, f"{layout!r}", "one element in HBM or SBUF")
    if loads and layout.dtype.kind != "int":
        raise refuse(what, f"{layout!r}", "a register holds whole numbers, and what a float "
                     "becomes there is not documented", "Use an integer tensor, as nl.int32")
    return Work(what, ("tensor", "vector", "scalar", "gpsimd", "sync"))


def core_barrier(data: NkiTensor, cores, engine=engine.gpsimd, name=None) -> NkiInstruction:
    """Wait until both cores of an LNC=2 kernel have come here. Source: nki.isa.core_barrier."""
    core = current()
    named = tuple(cores) if isinstance(cores, (tuple, list)) else cores
    work = _barrier(core.target, is_tile("core_barrier", "data", data), repr(named),
                    core.cores, engine)
    issued = core.emit(work, (), (), name)
    core.partner.barrier(core, data.storage.allocation)
    return issued


@rule
def _barrier(target: Target, data: Layout, cores: str, launched: int, runs_on: engine) -> Work:
    what = "core_barrier"
    _two_cores(what, target, launched)
    if cores != "(0, 1)":
        raise refuse(f"{what}: cores", cores, "(0, 1) only")
    if data.buffer is not MemoryRegion.shared_hbm:
        raise refuse(f"{what}: data", f"a tensor in {data.buffer.value}",
                     "what both cores access: a tensor in shared_hbm",
                     "Allocate it with buffer=nl.shared_hbm")
    if not isinstance(runs_on, engine) or runs_on is engine.dma:
        raise refuse(f"{what}: engine", repr(runs_on), "one of nisa.engine that runs instructions")
    if runs_on is engine.unknown:
        return Work(what, ("tensor", "vector", "scalar", "gpsimd", "sync"))
    return Work(what, (runs_on.name,))


def _two_cores(what: str, target: Target, launched: int) -> None:
    target.need(3, what)
    if launched != 2:
        raise refuse(what, "a kernel on one core", "it needs the two cores of LNC=2",
                     "Launch kernel[2], or ask nl.num_programs() first")


def sendrecv(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma,
             name=None) -> NkiInstruction:
    """Send src to the other core's dst, and receive its src here; SBUF to SBUF, no HBM bytes.

    Both cores issue the exchanges of a pipe in the same order. Source: nki.isa.sendrecv.
    """
    core = current()
    work = _exchange(core.target, is_tile("sendrecv", "src", src), is_tile("sendrecv", "dst", dst),
                     core.cores, dma_engine)
    other = 1 - core.index
    for role, rank in (("send_to_rank", send_to_rank), ("recv_from_rank", recv_from_rank)):
        if not isinstance(rank, (int, np.integer)) or rank != other:
            raise refuse(f"sendrecv: {role}", f"{rank!r} on core {core.index}",
                         f"the two cores exchange with each other, so here it is {other}",
                         "Write 1 - nl.program_id(0)")
    if not isinstance(pipe_id, (int, np.integer)):
        raise refuse("sendrecv: pipe_id", type(pipe_id).__name__, "a whole number")
    nth = core.exchanges.get(int(pipe_id), 0)
    core.exchanges[int(pipe_id)] = nth + 1
    sent = np.array(src.read()) if core.data else None
    layout, received = core.partner.meet(
        core, "sendrecv", f"exchange {nth} of pipe {pipe_id}", (src.layout, sent))
    if (layout.shape, layout.dtype) != (src.layout.shape, src.layout.dtype):
        raise refuse("sendrecv: src", f"{src.layout!r}", f"the other core sends {layout!r}",
                     "Both send the same shape and dtype")
    if core.data:
        dst.put(received)
    return core.emit(work, (src.place,), (dst.place,), name)


@rule
def _exchange(target: Target, src: Layout, dst: Layout, launched: int, through: dma_engine) -> Work:
    what = "sendrecv"
    _two_cores(what, target, launched)
    for role, layout in (("src", src), ("dst", dst)):
        if layout.buffer is not sbuf:
            raise refuse(f"{what}: {role}", f"{layout!r}", "a tile in sbuf")
    if src.dtype is not dst.dtype or src.shape != dst.shape:
        raise refuse(what, f"src {src!r}, dst {dst!r}", "the same dtype and shape")
    if not isinstance(through, dma_engine):
        raise refuse(f"{what}: dma_engine", repr(through), "nisa.dma_engine.dma or gpsimd_dma")
    nbytes, most = src.F * src.dtype.itemsize, _PER_PARTITION[src.dtype.itemsize]
    if through is dma_engine.gpsimd_dma and nbytes > most:
        raise refuse(f"{what}: gpsimd_dma", f"{nbytes:,} B a partition",
                     f"at most {most} B of a {src.dtype.itemsize}-byte type", "Use dma_engine.dma")
    return Work(what, ("gpsimd",) if through is dma_engine.gpsimd_dma else ("dma",))
