"""Tensors of nki.language: allocated, filled, loaded, stored; and how large they may be.

Question  what does nl.ndarray, nl.zeros or nl.load make, and which instructions does it take?
Answer    a tensor; none for ndarray, a memset for a fill, a dma_copy for load and store
Assumes   a fill in HBM goes through one tile in SBUF, copied as often as it takes
Ignores   the identities that transposes need: the compiler loads them, no source says when
Source    nki.language (NKI 0.6)
"""

from pathlib import Path

import numpy as np

from . import dtypes, isa
from .core import _CURRENT, Target, Work, current, refuse, target
from .memory import NKIObject, NkiTensor, allocate
from .surface import stub
from .views import ON_CHIP, DynamicSlice, MemoryRegion

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
private_hbm, shared_hbm = MemoryRegion.private_hbm, MemoryRegion.shared_hbm

_FILL = 2048  # elements of a partition of the tile that fills HBM
_CONSTANTS = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16",
              "uint8", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
_IDENTITY = Work("shared_identity_matrix", ("dma",))


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
    bn_stats_fmax = property(lambda self: self._target.bn_stats_fmax)

    def __getattr__(self, name: str):
        return stub("nki.language.tile_size", name)  # documented without a value: Uncounted


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


def ds(start, size) -> "slice | DynamicSlice":
    """`size` elements from `start` on, as an index. Source: nki.language.ds."""
    if type(start) is int and type(size) is int and start >= 0:
        return slice(start, start + size)  # what it means; a register has no number yet
    return DynamicSlice(start, size)


# --- allocated and filled ----------------------------------------------------------------------


def ndarray(shape, dtype, buffer=sbuf, name="", address=None) -> NkiTensor:
    """A tensor of uninitialised memory. Source: nki.language.ndarray."""
    return allocate("nl.ndarray", shape, dtype, buffer, name, address)


def full(shape, fill_value, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor filled with a number: a memset on chip; in HBM also the dma_copies of that tile.

    Source: nki.language.full.
    """
    made = allocate("nl.full", shape, dtype, buffer, name)
    if made.layout.on_chip:
        isa.memset(made, fill_value)
    else:
        _fill_hbm(made, fill_value)
    return made


def _fill_hbm(made: NkiTensor, value) -> None:
    """Copy a tile of the value over a tensor in HBM, in as many rows as divide it."""
    rows = next(n for n in range(current().target.pmax, 0, -1) if made.size % n == 0)
    columns = made.size // rows
    tile = allocate("nl.full", (rows, min(columns, _FILL)), made.dtype, sbuf, "fill")
    isa.memset(tile, value)
    all_of_it = made.reshape((rows, columns))
    for start in range(0, columns, _FILL):
        width = min(_FILL, columns - start)
        isa.dma_copy(all_of_it[:, start:start + width], tile[:, :width])


def zeros(shape, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor of zeros, as nl.full makes it. Source: nki.language.zeros."""
    return full(shape, 0, dtype, buffer, name)


def ones(shape, dtype, buffer=sbuf, name="") -> NkiTensor:
    """A tensor of ones, as nl.full makes it. Source: nki.language.ones."""
    return full(shape, 1, dtype, buffer, name)


def zeros_like(x, dtype=None, buffer=None, name="") -> NkiTensor:
    """Zeros of x's shape, in SBUF unless said otherwise. Source: nki.language.zeros_like."""
    return zeros(x.shape, dtype or x.dtype, buffer or sbuf, name)


def empty_like(x: NkiTensor, dtype=None, buffer=None, name="") -> NkiTensor:
    """Uninitialised, of x's shape and in its buffer. Source: nki.language.empty_like."""
    return ndarray(x.shape, dtype or x.dtype, buffer or x.buffer, name)


# --- loaded and stored -------------------------------------------------------------------------


def _in_hbm(what: str, role: str, value) -> None:
    if not isinstance(value, NkiTensor) or value.layout.on_chip:
        raise refuse(f"{what}: {role}", repr(value), "a tensor in HBM",
                     "Copy on chip with nisa.tensor_copy")


def load(src: NkiTensor, dtype=None) -> NkiTensor:
    """A tile in SBUF with the values of an HBM tensor: a dma_copy. Source: nki.language.load."""
    _in_hbm("nl.load", "src", src)
    tile = ndarray(src.shape, dtype or src.dtype)
    isa.dma_copy(tile, src)
    return tile


def load_transpose2d(src: NkiTensor, dtype=None) -> NkiTensor:
    """The transpose of an HBM matrix as a tile in SBUF, by one dma_transpose, which does not cast:
    a tensor_copy where dtype is another. Source: nki.language.load_transpose2d.
    """
    _in_hbm("nl.load_transpose2d", "src", src)
    if src.ndim != 2:
        raise refuse("nl.load_transpose2d: src", f"{list(src.shape)}", "two dimensions",
                     "Reshape it, or use nisa.dma_transpose")
    tile = ndarray(src.shape[::-1], src.dtype)
    isa.dma_transpose(tile, src)
    if dtype in (None, src.dtype):
        return tile
    cast = ndarray(tile.shape, dtype)
    isa.tensor_copy(cast, tile)
    return cast


def store(dst: NkiTensor, value: NkiTensor) -> None:
    """Write a tile in SBUF to an HBM tensor, by one dma_copy. Source: nki.language.store."""
    _in_hbm("nl.store", "dst", dst)
    isa.dma_copy(dst, value)


# --- constants ---------------------------------------------------------------------------------


def shared_constant(constant) -> NkiTensor:
    """A tensor in shared HBM with the values of an array or a .npy file.

    They are there before the kernel starts, as an argument's are, so no byte of it moves here.
    Source: nki.language.shared_constant.
    """
    from_file = isinstance(constant, (str, Path))
    try:
        array = np.load(constant) if from_file else np.asarray(constant)
    except (OSError, ValueError) as error:  # no such file, or none that NumPy wrote; ragged lists
        raise refuse("nl.shared_constant", f"{constant!r} ({error})",
                     "an array, or the path of a .npy file") from None
    if array.dtype.name not in _CONSTANTS or not array.dtype.isnative:
        raise refuse("nl.shared_constant", f"dtype {array.dtype}",
                     f"one of {', '.join(_CONSTANTS)}", "Convert the array")
    contents = np.array(array, order="C").reshape(-1).view(np.uint8)
    return allocate("nl.shared_constant", array.shape, array.dtype.name, shared_hbm,
                    contents=contents)


def shared_identity_matrix(n, dtype=dtypes.uint8, dst: NkiTensor | None = None) -> NkiTensor:
    """An n x n identity in SBUF, or in dst.

    The compiler keeps one of each dtype in HBM and loads it. Those bytes are said in a warning and
    not in Q: it does the same, unseen, for transposes on the Tensor Engine.
    Source: nki.language.shared_identity_matrix.
    """
    core = current()
    tile = allocate("nl.shared_identity_matrix", (n, n), dtype, sbuf) if dst is None else dst
    if tile.shape != (n, n) or tile.buffer is not sbuf:
        raise refuse("nl.shared_identity_matrix: dst", repr(tile), f"[{n}, {n}] in sbuf")
    if core.data:
        tile.put(np.eye(tile.shape[0], dtype=np.float32))
    core.warn(f"nl.shared_identity_matrix: the {tile.layout.nbytes:,} B of an identity of "
              f"{tile.dtype!r} are a constant that the compiler loads from HBM, once for all of "
              "its dtype; the HBM bytes counted here are without it")
    core.emit(_IDENTITY, (), (tile.place,))
    return tile
