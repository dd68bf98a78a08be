"""nki.language: tensors, loops, ids, and functions of tiles that stand for one instruction or a few.

Which instruction a function of tiles becomes is not documented; here it is the plainest one of
nki.isa, and the trace shows it.

Source  nki.language (NKI 0.6)
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import dtypes, isa
from .alu import *  # noqa: F403  operators: nl.add, nl.exp, ...
from .alu import Operator
from .core import _CURRENT, Core, Target, current, refuse, target
from .dtypes import *  # noqa: F403
from .dtypes import DType
from .memory import (
    ON_CHIP,
    DynamicSlice,
    MemoryRegion,
    NKIObject,
    NkiTensor,
    VirtualRegister,
    allocate,
)
from .surface import stub

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm
hbm = private_hbm  # documented alias

_range = range


# --- hardware constants ------------------------------------------------------------------------


class _TileSize(NKIObject):
    """Tile limits of the target (nki.language.tile_size); of trn2 outside a kernel.

    Usable SBUF is not documented: sbuf_fmax_bytes is all of a partition.
    """

    @property
    def _target(self) -> Target:
        core = _CURRENT.get()
        return core.target if core else target("trn2")

    pmax = property(lambda self: self._target.pmax)
    gemm_stationary_fmax = property(lambda self: self._target.stationary_fmax)
    gemm_moving_fmax = property(lambda self: self._target.moving_fmax)
    psum_bank_fmax_bytes = property(lambda self: self._target.psum_bank_bytes)
    psum_bank_fmax = property(lambda self: self._target.psum_bank_bytes // dtypes.float32.itemsize)
    psum_fmax = psum_bank_fmax
    psum_num_banks = property(lambda self: self._target.psum_num_banks)
    sbuf_size_bytes = property(lambda self: self._target.sbuf_partition_bytes * self._target.pmax)
    sbuf_fmax_bytes = property(lambda self: self._target.sbuf_partition_bytes)
    sbuf_fmax = property(lambda self: self._target.sbuf_partition_bytes // dtypes.float32.itemsize)
    total_available_sbuf_size = sbuf_fmax_bytes
    bn_stats_fmax = property(lambda self: 512)  # nki.isa.bn_stats: elements a partition


tile_size = _TileSize()


def is_hbm(buffer) -> bool:
    """Whether a buffer is in HBM."""
    return buffer in (private_hbm, shared_hbm)


def is_on_chip(buffer) -> bool:
    """Whether a buffer is SBUF or PSUM."""
    return buffer in ON_CHIP


def is_psum(buffer) -> bool:
    """Whether a buffer is PSUM."""
    return buffer is psum


def is_sbuf(buffer) -> bool:
    """Whether a buffer is SBUF."""
    return buffer is sbuf


# --- tensors -----------------------------------------------------------------------------------


def ndarray(shape, dtype, buffer=sbuf, name="", address=None) -> NkiTensor:
    """A tensor of uninitialised memory. Source: nki.language.ndarray."""
    return allocate("nl.ndarray", shape, dtype, buffer, name, address)


def full(shape, fill_value, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor filled with a number, by one memset on chip. Source: nki.language.full."""
    made = allocate("nl.full", shape, dtype, buffer, name)
    if buffer in ON_CHIP:
        isa.memset(made, fill_value)
        return made
    raise refuse("nl.full", buffer.value, "a fill by an engine reaches sbuf and psum",
                 "Fill a tile in sbuf and nisa.dma_copy it to HBM")


def zeros(shape, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor of zeros. Source: nki.language.zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor of ones. Source: nki.language.ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name="") -> NkiTensor:
    """Zeros of x's shape. Source: nki.language.zeros_like."""
    return zeros(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def empty_like(x: NkiTensor, dtype=None, buffer=None, name="") -> NkiTensor:
    """Uninitialised, of x's shape. Source: nki.language.empty_like."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


def ds(start, size) -> DynamicSlice:
    """`size` elements from `start` on, as an index. Source: nki.language.ds."""
    return DynamicSlice(start, size)


def load(src: NkiTensor, dtype=None) -> NkiTensor:
    """A tile in SBUF with the values of an HBM tensor, by one dma_copy. Source: nki.language.load."""
    tile = ndarray(src.shape, dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write a tile in SBUF to an HBM tensor, by one dma_copy. Source: nki.language.store."""
    isa.dma_copy(dst, value)


# --- loops and ids -----------------------------------------------------------------------------


def affine_range(start, stop=None, step=1) -> range:
    """Python's range; unrolled on the device. Source: nki.language.affine_range."""
    return _range(start) if stop is None else _range(start, stop, step)


sequential_range = static_range = affine_range


def _number(what: str, value: Any) -> int:
    """A loop bound: a number, or a register whose value is known."""
    if isinstance(value, VirtualRegister):
        value = value.state
        if value is None:
            raise refuse(what, "a bound that comes from data", "with data=False it is unknown",
                         "Run with data=True")
    return int(value)


def dynamic_range(start, stop=None, step=1) -> Iterator[VirtualRegister]:
    """A loop on the device; its index is a frozen register. Source: nki.language.dynamic_range."""
    first, last = (0, start) if stop is None else (start, stop)
    for i in _range(_number("dynamic_range", first), _number("dynamic_range", last), step):
        yield VirtualRegister(i, frozen=True)


def fori_loop(lower, upper, body_fun, step=1) -> None:
    """body_fun(i) for i from lower to upper, as the device would. Source: nki.language.fori_loop."""
    for i in _range(_number("fori_loop", lower), _number("fori_loop", upper), step):
        body_fun(VirtualRegister(i))


def while_loop(init, body_fun) -> None:
    """body_fun(r) -> next r, while r is not 0. Source: nki.language.while_loop."""
    register = init
    while _number("while_loop", register):
        register = body_fun(register)


@contextmanager
def no_reorder() -> Iterator[None]:
    """Keep program order; here it is always kept. Source: nki.language.no_reorder."""
    yield


def program_id(axis=0) -> int:
    """Which core of the launch this instance runs on. Source: nki.language.program_id."""
    return current().index


def num_programs(axes=0) -> int:
    """Cores of the launch. Source: nki.language.num_programs."""
    return current().cores


def program_ndim() -> int:
    """Dimensions of the launch grid: 0 without a grid. Source: nki.language.program_ndim."""
    return int(current().cores > 1)


def device_print(print_prefix, tensor: NkiTensor) -> None:
    """Print a tile's values (data=True). Source: nki.language.device_print."""
    if current().data:
        print(print_prefix, tensor.read())


def __getattr__(name: str) -> Any:
    return stub("nki.language", name)  # raises Uncounted when it is called
