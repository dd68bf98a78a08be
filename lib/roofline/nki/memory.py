"""HBM, SBUF and PSUM: what a kernel allocates, and the views it takes of it.

Question  which bytes does this tile stand for, and may an instruction touch them?
Answer    Allocation: one nl.ndarray; NkiTensor: a strided view of it; Layout: the view's geometry
Assumes   bytes are kept as bytes, so every view, cast and overlap is what it is on the device
Ignores   where the compiler places an allocation; `trace` asks only whether the live ones fit
Source    nki.language.NkiTensor; NKI Language Guide, Tensor Values; NKI Access Patterns
"""

import math
from collections.abc import Sequence
from enum import Enum
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from . import dtypes
from .core import NkiValidationError, Target, caller, current, refuse
from .dtypes import DType
from .source import line_of

MAX_DIMS = 5  # a partition dimension and four free ones (Language Guide, Tensor Values)


class MemoryRegion(Enum):
    """Where a tensor lives (nki.language.MemoryRegion)."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are singletons; the default hashes their name


ON_CHIP = (MemoryRegion.sbuf, MemoryRegion.psum)


class NKIObject:
    """Base class of a kernel's own classes (nki.language.NKIObject)."""

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)


class VirtualRegister(NKIObject):
    """A number in an engine's register; None while its value is unknown (shapes alone)."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.state, self.frozen = state, frozen


class DynamicSlice(NamedTuple):
    """nl.ds(start, size): `size` elements from `start` on."""

    start: int
    size: int


class Allocation:
    """One nl.ndarray, or one argument of the kernel, without its contents.

    bytes_per_partition and partitions are 0 in HBM; nbytes is the whole of it.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: DType, buffer: MemoryRegion,
                 argument: bool = False, address: tuple[int, int] | None = None,
                 origin: tuple[CodeType, int] | None = None) -> None:
        self._name, self.shape, self.dtype, self.buffer = name, shape, dtype, buffer
        self.argument, self.address, self.origin = argument, address, origin
        self.nbytes = math.prod(shape) * dtype.itemsize
        chip = buffer in ON_CHIP
        self.partitions = shape[0] if chip else 0
        self.bytes_per_partition = self.nbytes // shape[0] if chip else 0

    @property
    def name(self) -> str:
        """Its own name, or the variable it was first assigned to."""
        if not self._name and self.origin:
            self._name = line_of(*self.origin).assigned
        return self._name or "tile"

    def __repr__(self) -> str:
        return f"{self.name} {list(self.shape)} {self.dtype} {self.buffer.value}"


class Layout:
    """Geometry of a view, shared by every view that looks alike.

    P, F       partitions and elements per partition (on chip)
    start      first partition; first: first byte in it (PSUM only, where banks matter)
    nbytes     elements x their size; hbm_bytes the same in HBM and 0 on chip
    indirect   whether a run-time index takes part, so that strides do not tell which bytes
    """

    __slots__ = ("F", "P", "buffer", "dtype", "first", "hbm_bytes", "indirect", "nbytes", "on_chip",
                 "shape", "size", "start", "strides")

    def __init__(self, buffer: MemoryRegion, dtype: DType, shape: tuple[int, ...],
                 strides: tuple[int, ...], start: int, first: int, indirect: bool) -> None:
        self.buffer, self.dtype, self.shape, self.strides = buffer, dtype, shape, strides
        self.indirect = indirect
        self.start, self.first, self.on_chip = start, first, buffer in ON_CHIP
        self.size = math.prod(shape)
        self.P = shape[0]
        self.F = self.size // self.P
        self.nbytes = self.size * dtype.itemsize
        self.hbm_bytes = 0 if self.on_chip else self.nbytes

    def __repr__(self) -> str:
        return f"{list(self.shape)} {self.dtype} in {self.buffer.value}"


class Storage:
    """The bytes behind an allocation; `raw` is None when only shapes are counted.

    version   counts writes, so that a float32 copy of a tile knows when it is stale
    opened    PSUM: the views that a matmul has written (see isa.tensor)
    evicted   PSUM: the layouts of the views that an engine has read
    filled    PSUM: those that an engine has written, and by which instruction
    """

    __slots__ = ("allocation", "evicted", "filled", "opened", "raw", "version")

    def __init__(self, allocation: Allocation, raw: np.ndarray | None) -> None:
        self.allocation, self.raw = allocation, raw
        self.version = 0
        self.opened: dict = {}
        self.evicted: dict[Layout, None] = {}
        self.filled: dict[Layout, str] = {}


_LAYOUTS: dict[tuple, Layout] = {}


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class NkiTensor(NKIObject):
    """A strided view of an allocation (nki.language.NkiTensor); every method returns a view.

    shape, strides and offset count elements; dimension 0 is the partition on chip.
    """

    __slots__ = ("_array", "_seen", "_values", "_views", "indirection", "layout", "offset",
                 "place", "storage")

    storage: Storage
    layout: Layout
    offset: int
    indirection: Any  # None, or an Indirection
    place: tuple[Allocation, Layout, int]  # what an instruction's record keeps of it

    def __init__(self, shape: tuple[int, ...], dtype: DType, storage: Any,
                 buffer: MemoryRegion | str = MemoryRegion.sbuf, name: str = "") -> None:
        raise refuse("NkiTensor", "a call of its constructor", "storage comes from an allocation",
                     "Use nl.ndarray(shape, dtype, buffer)")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.layout.strides

    @property
    def dtype(self) -> DType:
        return self.layout.dtype

    @property
    def buffer(self) -> MemoryRegion:
        return self.layout.buffer

    @property
    def name(self) -> str:
        return self.storage.allocation.name

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        return self.layout.size

    def __repr__(self) -> str:
        return f"{self.name} {self.layout!r}"

    def __bool__(self) -> bool:
        raise refuse("kernel", f"the truth of tensor {self.name!r}",
                     "Python runs at compile time and cannot read a tile's values",
                     "Select with nisa.select_reduce or nisa.tensor_copy_predicated")

    __iter__ = None  # a for loop over a tensor is not NKI

    def __len__(self) -> int:
        return self.layout.shape[0]

    # --- views -------------------------------------------------------------------------------

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int,
              dtype: DType | None = None, indirection: Any = None) -> "NkiTensor":
        return view(self.storage, dtype or self.layout.dtype, shape, strides, offset,
                    indirection or self.indirection)

    def __getitem__(self, key: Any) -> "NkiTensor":
        """Index with integers, slices, `...` and nl.ds. See NKI Language Guide, Indexing."""
        if type(key) is not tuple:
            key = (key,)
        try:
            plain = tuple([(k.start, k.stop, k.step) if type(k) is slice else k for k in key])
            found = self._views.get(plain)
        except TypeError:
            raise self._refuse("index", key, "an index is an integer, a slice, ... or nl.ds") from None
        if found is None:
            found = self._views[plain] = self._indexed(key)
        return found

    def _indexed(self, key: tuple) -> "NkiTensor":
        gaps = sum(k is Ellipsis for k in key)
        if gaps > 1 or len(key) - gaps > self.ndim:
            raise self._refuse("index", key, f"it has {self.ndim} dimensions, and one ... at most")
        at = key.index(Ellipsis) if gaps else len(key)
        full = (slice(None),) * (self.ndim - len(key) + gaps)
        key = key[:at] + full + key[at + gaps:]
        shape, strides, offset, keep = [], [], self.offset, []
        for dim, k in enumerate(key):
            n, step = self.shape[dim], self.strides[dim]
            if isinstance(k, VirtualRegister):
                k = self._known(k)
            if isinstance(k, (slice, DynamicSlice)):
                start, size, by = self._range(dim, k)
                shape.append(size)
                strides.append(step * by)
                keep.append(True)
            elif isinstance(k, (int, np.integer)) and not isinstance(k, bool):
                start = int(k) + n if k < 0 else int(k)
                if not 0 <= start < n:
                    raise self._refuse("index", k, f"dimension {dim} has {n} elements")
                shape.append(1)
                strides.append(step)
                keep.append(False)
            else:
                raise self._refuse("index", k, "an index is an integer, a slice, ... or nl.ds")
            offset += start * step
        chip = self.layout.on_chip
        if chip:
            keep[0] = True  # an integer on the partition dimension keeps it, with size 1
        least = 2 if chip else 1
        for dim in reversed(range(len(keep))):  # the last ones stay when too few would be left
            if sum(keep) < least:
                keep[dim] = True
        return self._view(tuple(n for n, k in zip(shape, keep, strict=True) if k),
                          tuple(s for s, k in zip(strides, keep, strict=True) if k), offset)

    def _range(self, dim: int, k: Any) -> tuple[int, int, int]:
        """start, size and step of a slice or nl.ds of one dimension."""
        n = self.shape[dim]
        if isinstance(k, DynamicSlice):
            start, size, step = self._known(k.start), self._known(k.size), 1
        else:
            start = 0 if k.start is None else self._known(k.start)
            stop = n if k.stop is None else self._known(k.stop)
            step = 1 if k.step is None else self._known(k.step)
            start, stop = (i + n if i < 0 else i for i in (start, stop))
            size = -(-(stop - start) // step) if step > 0 else 0
        if step < 1 or size < 1 or start < 0 or start + (size - 1) * step >= n:
            raise self._refuse("slice", f"{size} elements from {start}, step {step}",
                               f"dimension {dim} has {n}", "Shorten the last tile with min()")
        if not isinstance(k, DynamicSlice) and stop > n:
            raise self._refuse("slice", f"{start}:{stop}", f"dimension {dim} has {n} elements",
                               "Shorten the last tile with min()")
        return start, size, step

    def _known(self, index: Any) -> int:
        if isinstance(index, VirtualRegister):
            if index.state is None:
                raise self._refuse("index", "a register whose value comes from data",
                                   "with data=False it is unknown", "Run with data=True")
            return index.state
        if isinstance(index, (int, np.integer)):
            return int(index)
        raise self._refuse("index", repr(index), "an index is a whole number")

    def _refuse(self, what: str, got: object, limit: str, hint: str = "") -> NkiValidationError:
        return refuse(f"tensor {self.name} {list(self.shape)}: {what}", got, limit, hint)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._refuse("assignment", f"t[{key!r}] = ...", "a tensor is written by instructions",
                           "Use nisa.tensor_copy or nisa.dma_copy with dst=t[...]")

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> "NkiTensor":
        """Elements start to end (exclusive) of one dimension."""
        at = self._dim(dim)
        first, size, by = self._range(at, slice(start, end, step))
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + first * strides[at]
        shape[at], strides[at] = size, strides[at] * by
        return self._view(tuple(shape), tuple(strides), offset)

    def select(self, dim: int, index: "int | NkiTensor") -> "NkiTensor":
        """One element of a dimension, which goes; a tensor or register selects at run time."""
        at = self._dim(dim)
        shape = self.shape[:at] + self.shape[at + 1:]
        strides = self.strides[:at] + self.strides[at + 1:]
        if isinstance(index, (NkiTensor, VirtualRegister)):
            self._direct("select")
            if at == 0 and self.layout.on_chip:
                raise self._refuse("select", "dimension 0", "the partition cannot be chosen at run time")
            found = Indirection("scalar", index, self.strides[at], self.shape[at])
            return self._view(shape or (1,), strides or (1,), self.offset, indirection=found)
        if at == 0 and self.layout.on_chip:
            raise self._refuse("select", "dimension 0", "the partition dimension stays",
                               "Slice it: t[i:i + 1]")
        n = self.shape[at]
        if not 0 <= self._known(index) < n:
            raise self._refuse("select", index, f"dimension {dim} has {n} elements")
        offset = self.offset + self._known(index) * self.strides[at]
        return self._view(shape or (1,), strides or (1,), offset)

    def vector_select(self, dim: int, vector_offset: "NkiTensor") -> "NkiTensor":
        """Row vector_offset[p] of an HBM tensor, for each partition p."""
        self._direct("vector_select")
        if dim != 0 or self.layout.on_chip:
            raise self._refuse("vector_select", f"dim {dim} in {self.buffer.value}",
                               "it selects along dimension 0 of an HBM tensor")
        found = Indirection("vector", vector_offset, self.strides[0], self.shape[0])
        return self._view((vector_offset.shape[0], *self.shape[1:]), (0, *self.strides[1:]),
                          self.offset, indirection=found)

    def ap(self, pattern: list[list[int]], offset: int | None = None,
           scalar_offset: "NkiTensor | None" = None, vector_offset: "NkiTensor | None" = None,
           indirect_dim: int = 0, dtype: DType | None = None) -> "NkiTensor":
        """An access pattern of [step, number] pairs, outermost first, over the storage."""
        kind = self.dtype if dtype is None else dtypes.of(dtype)
        shape = tuple(int(n) for _, n in pattern)
        strides = tuple(int(step) for step, _ in pattern)
        if self.offset and offset is not None:
            current().warn("ap() of a view that does not start at 0: the API adds its offset to "
                           "the view's, NKI Access Patterns ignores the view. Call it on the whole tensor")
        found = None
        if scalar_offset is not None or vector_offset is not None:
            self._direct("ap")
            index = scalar_offset if vector_offset is None else vector_offset
            step = self.strides[self._dim(indirect_dim)]
            found = Indirection("scalar" if vector_offset is None else "vector", index, step,
                                self.shape[indirect_dim])
            if vector_offset is not None:  # the step of the gathered dimension is the base's
                strides = (0, *strides[1:])
        base = self.offset * self.dtype.itemsize // kind.itemsize + (offset or 0)
        row = self._row(kind)
        if self.layout.on_chip and shape[0] > 1 and strides[0] != row:
            raise self._refuse("ap", f"a partition step of {strides[0]}",
                               f"partitions are contiguous, so it must be the free size, {row}")
        made = self._view(shape, strides, base, kind, found)
        last = base + sum((n - 1) * step for step, n in zip(strides, shape, strict=True))
        whole = self.storage.allocation.nbytes // kind.itemsize
        free = base % row + sum((n - 1) * s for s, n in zip(strides[1:], shape[1:], strict=True))
        if min(shape) < 1 or last >= whole or (self.layout.on_chip and free >= row):
            raise self._refuse("ap", f"pattern {pattern}, offset {base}",
                               f"the allocation ends after {whole} elements, a partition after {row}")
        return made

    def _row(self, dtype: DType) -> int:
        """Elements of one partition of the allocation; of all of it in HBM."""
        own = self.storage.allocation
        return (own.bytes_per_partition or own.nbytes) // dtype.itemsize

    def view(self, dtype: DType) -> "NkiTensor":
        """The same bits as another dtype; the last dimension scales by the ratio of sizes."""
        self._direct("view")
        new, old = dtypes.of(dtype), self.dtype
        n, shape = self.shape[-1] * old.itemsize, self.shape
        if self.strides[-1] != 1 and shape[-1] > 1 or n % new.itemsize:
            raise self._refuse("view", f"{new!r}", "the last dimension must be contiguous and its "
                               f"{n} bytes divisible by {new.itemsize}")
        def scale(elements: int) -> int:
            if elements * old.itemsize % new.itemsize:
                raise self._refuse("view", f"{new!r}", "a stride or the offset would not be whole")
            return elements * old.itemsize // new.itemsize
        strides = (*(scale(s) for s in self.strides[:-1]), 1)
        return self._view((*shape[:-1], n // new.itemsize), strides, scale(self.offset), new)

    reinterpret_cast = view

    def permute(self, dims: tuple[int, ...]) -> "NkiTensor":
        """Dimensions in another order; on chip the partition stays first."""
        if sorted(dims) != list(range(self.ndim)) or (self.layout.on_chip and dims[0] != 0):
            raise self._refuse("permute", dims, f"an order of the {self.ndim} dimensions"
                               + ", 0 first on chip" * self.layout.on_chip)
        return self._view(tuple(self.shape[d] for d in dims),
                          tuple(self.strides[d] for d in dims), self.offset)

    def broadcast(self, dim: int, size: int) -> "NkiTensor":
        """Repeat a dimension of size 1 `size` times, without a copy."""
        at = self._free("broadcast", dim)
        if self.shape[at] != 1:
            raise self._refuse("broadcast", f"dimension {dim} of size {self.shape[at]}", "it must be 1")
        return self._view((*self.shape[:at], size, *self.shape[at + 1:]),
                          (*self.strides[:at], 0, *self.strides[at + 1:]), self.offset)

    def expand_dim(self, dim: int) -> "NkiTensor":
        """A new dimension of size 1 at `dim`."""
        at = dim + self.ndim + 1 if dim < 0 else dim
        if not (0 < at or not self.layout.on_chip) or not 0 <= at <= self.ndim:
            raise self._refuse("expand_dim", dim, "a free dimension's place")
        step = self.strides[at] * self.shape[at] if at < self.ndim else 1
        return self._view((*self.shape[:at], 1, *self.shape[at:]),
                          (*self.strides[:at], step, *self.strides[at:]), self.offset)

    def squeeze_dim(self, dim: int) -> "NkiTensor":
        """Without a dimension of size 1."""
        at = self._free("squeeze_dim", dim)
        if self.shape[at] != 1:
            raise self._refuse("squeeze_dim", f"dimension {dim} of size {self.shape[at]}", "it must be 1")
        return self._view(self.shape[:at] + self.shape[at + 1:],
                          self.strides[:at] + self.strides[at + 1:], self.offset)

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> "NkiTensor":
        """One dimension split in several; one of them may be -1."""
        at, n = self._dim(dim), self.shape[self._dim(dim)]
        sizes = _inferred(shape, n)
        if sizes is None:
            raise self._refuse("reshape_dim", shape, f"the product must be {n}")
        if at == 0 and self.layout.on_chip and sizes[0] != n:
            raise self._refuse("reshape_dim", shape, "the partition dimension cannot be split")
        inner = tuple(self.strides[at] * s for s in _contiguous(sizes))
        return self._view((*self.shape[:at], *sizes, *self.shape[at + 1:]),
                          (*self.strides[:at], *inner, *self.strides[at + 1:]), self.offset)

    def flatten_dims(self, start_dim: int, end_dim: int) -> "NkiTensor":
        """Dimensions start_dim to end_dim (inclusive) as one."""
        a, b = self._free("flatten_dims", start_dim), self._dim(end_dim)
        shape = (*self.shape[:a], math.prod(self.shape[a:b + 1]), *self.shape[b + 1:])
        return self._reshaped("flatten_dims", shape)

    def reshape(self, shape: tuple[int, ...]) -> "NkiTensor":
        """Another shape of as many elements, without a copy."""
        sizes = _inferred(shape, self.size)
        if sizes is None:
            raise self._refuse("reshape", shape, f"{self.size} elements")
        if self.layout.on_chip and sizes[0] != self.shape[0]:
            raise self._refuse("reshape", shape, f"the {self.shape[0]} partitions stay")
        return self._reshaped("reshape", sizes)

    def _reshaped(self, what: str, shape: tuple[int, ...]) -> "NkiTensor":
        strides = _strides_after(self.shape, self.strides, shape)
        if strides is None:
            raise self._refuse(what, shape, "these strides allow it only with a copy",
                               "Copy into a new tile with nisa.tensor_copy first")
        return self._view(shape, strides, self.offset)

    def rearrange(self, src_pattern: tuple, dst_pattern: tuple,
                  fixed_sizes: dict[str, int] | None = None) -> "NkiTensor":
        """Split, reorder and merge named dimensions: (("b", ("h", "w")), ("b", "w", "h"), {"h": 4})."""
        known, tensor = dict(fixed_sizes or {}), self
        groups = [g if isinstance(g, (tuple, list)) else (g,) for g in src_pattern]
        if len(groups) != self.ndim:
            raise self._refuse("rearrange", src_pattern, f"one entry for each of {self.ndim} dimensions")
        names: list[str] = []
        for group in groups:
            if len(group) > 1:
                tensor = tensor.reshape_dim(len(names), tuple(known.get(g, -1) for g in group))
            names += group
        wanted = [g if isinstance(g, (tuple, list)) else (g,) for g in dst_pattern]
        order = [name for group in wanted for name in group]
        if sorted(order) != sorted(names):
            raise self._refuse("rearrange", dst_pattern, f"the names of the source, {names}")
        tensor = tensor.permute(tuple(names.index(name) for name in order))
        at = 0
        for group in wanted:
            if len(group) > 1:
                tensor = tensor.flatten_dims(at, at + len(group) - 1)
            at += 1
        return tensor

    def indirect(self, index: "NkiTensor", num_elem: int | None = None) -> "NkiTensor":
        """Tensor indirection; raises Uncounted: it is not counted here."""
        from ..count import Uncounted
        raise Uncounted("NkiTensor.indirect: tensor indirection (NeuronCore-v4) is not counted. "
                        "Gather with nisa.dma_copy and vector_select")

    # --- questions ---------------------------------------------------------------------------

    def is_contiguous(self) -> bool:
        """Whether the view is dense and row-major; on chip per partition."""
        first = 1 if self.layout.on_chip else 0
        dense = _contiguous(self.shape)
        return all(n == 1 or s == d for n, s, d in
                   list(zip(self.shape, self.strides, dense, strict=True))[first:])

    def is_indirect(self) -> bool:
        """Whether an index that is known only at run time takes part."""
        return self.indirection is not None

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...], as ap() takes it."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def _dim(self, dim: int) -> int:
        at = dim + self.ndim if dim < 0 else dim
        if not isinstance(dim, int) or not 0 <= at < self.ndim:
            raise self._refuse("dimension", dim, f"0 to {self.ndim - 1}")
        return at

    def _free(self, what: str, dim: int) -> int:
        at = self._dim(dim)
        if at == 0 and self.layout.on_chip:
            raise self._refuse(what, "dimension 0", "the partition dimension stays as it is")
        return at

    def _direct(self, what: str) -> None:
        if self.indirection is not None:
            raise self._refuse(what, "a view that is already indirect", "one run-time index a view")

    # --- contents (data=True) ----------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """The elements in place, as the dtype's NumPy type. Direct views only."""
        if self._array is None:
            size = self.layout.dtype.itemsize
            self._array = np.ndarray(self.layout.shape, self.layout.dtype.numpy, self.storage.raw,
                                     self.offset * size, [s * size for s in self.layout.strides])
        return self._array

    def read(self) -> np.ndarray:
        """The elements; gathered into a copy when the view is indirect."""
        if self.indirection is None:
            return self.array
        return np.stack([t.array for t in self._resolved()]).reshape(self.shape)

    def values(self) -> np.ndarray:
        """The elements as float32; remembered until the storage is written."""
        if self.layout.dtype.numpy == np.float32 and self.indirection is None:
            return self.array
        if self._seen != self.storage.version or self.indirection is not None:
            self._values = dtypes.to_float32(self.read(), self.layout.dtype)
            self._seen = self.storage.version
        return self._values

    def put(self, values: np.ndarray) -> None:
        """Write float32 values, or exact ones, rounded to the dtype; the shape may differ."""
        rounded = dtypes.cast(values, self.layout.dtype)
        self.storage.version += 1
        if self.indirection is None:
            self.array[...] = rounded.reshape(self.layout.shape)
            return
        targets = self._resolved()
        for tensor, row in zip(targets, rounded.reshape(len(targets), -1), strict=True):
            tensor.array[...] = row.reshape(tensor.shape)

    def _resolved(self) -> "list[NkiTensor]":
        """The direct views an indirect one stands for: one, or one a partition."""
        found = self.indirection
        index = found.rows()
        rows = (1, *self.shape[1:]) if found.kind == "vector" else self.shape
        for i in index:
            if not 0 <= i < found.limit:
                raise self._refuse("run-time index", i, f"the dimension has {found.limit} elements")
        return [view(self.storage, self.dtype, rows, self.strides, self.offset + i * found.stride, None)
                for i in index]


class Indirection(NamedTuple):
    """A run-time index of a view: one for all of it ("scalar") or one a partition ("vector")."""

    kind: str
    index: Any  # an NkiTensor in SBUF, or a VirtualRegister
    stride: int
    limit: int

    def rows(self) -> list[int]:
        """Its values; data=True only."""
        if isinstance(self.index, VirtualRegister):
            return [int(self.index.state or 0)]
        return [int(i) for i in self.index.array.reshape(-1)]


def _inferred(shape: Sequence[int], size: int) -> tuple[int, ...] | None:
    """The shape with its -1 filled in; None when it does not have `size` elements."""
    known = math.prod(n for n in shape if n != -1)
    if list(shape).count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if n == -1 else int(n) for n in shape)
    return tuple(int(n) for n in shape) if -1 not in shape and known == size else None


def _strides_after(shape: tuple[int, ...], strides: tuple[int, ...],
                   new: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of `new` over the same memory; None when only a copy could do it."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n > 1]
    merged: list[list[int]] = []  # runs of dimensions that are one in memory: [elements, stride]
    for n, s in old:
        if merged and merged[-1][1] == s * n:
            merged[-1] = [merged[-1][0] * n, s]
        else:
            merged.append([n, s])
    result, run = [], 0
    left = merged[0][0] if merged else 1
    for n in new:
        if n == 1:
            result.append(left * merged[run][1] if run < len(merged) else 1)
            continue
        if left == 1:
            run += 1
            left = merged[run][0]
        if left % n:
            return None
        left //= n
        result.append(left * merged[run][1])
    return tuple(result)


def view(storage: Storage, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
         offset: int, indirection: Any = None) -> NkiTensor:
    """A tensor over `storage`; at most five dimensions."""
    own = storage.allocation
    row = own.bytes_per_partition
    if row:
        start, first = divmod(offset * dtype.itemsize, row)
        if own.buffer is not MemoryRegion.psum:
            first = 0
    else:
        start = first = 0
    key = (own.buffer, dtype, shape, strides, start, first, indirection is not None)
    layout = _LAYOUTS.get(key)
    if layout is None:
        if not 0 < len(shape) <= MAX_DIMS:
            raise refuse(f"tensor {own.name}", f"a view of {len(shape)} dimensions",
                         f"an access has 1 to {MAX_DIMS}")
        layout = _LAYOUTS[key] = Layout(*key)
    self = NkiTensor.__new__(NkiTensor)
    self.storage, self.layout, self.offset, self.indirection = storage, layout, offset, indirection
    self._views, self._array, self._values, self._seen = {}, None, None, -1
    self.place = (own, layout, offset)
    return self


def allocate(what: str, shape: Any, dtype: Any, buffer: Any, name: str = "",
             address: Any = None, value: float | None = None) -> NkiTensor:
    """A new tensor of the current core; filled with `value`, or with what fresh memory holds.

    On the two cores of LNC=2 the nth shared_hbm allocation of each is one and the same.
    """
    core = current()
    if not isinstance(buffer, MemoryRegion):
        raise refuse(f"{what}: buffer", repr(buffer), "nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm")
    try:
        kind = dtypes.of(dtype)
    except ValueError as error:
        raise NkiValidationError(f"{what}: {error}") from None
    sizes = checked_shape(shape, buffer, what, core.target)
    own = Allocation(name, sizes, kind, buffer, origin=caller(1),
                     address=None if address is None else tuple(address))
    _check_room(what, own, core.target)
    raw = None
    if core.data:
        raw = (dtypes.fresh(math.prod(sizes), kind) if value is None else
               dtypes.cast(np.full(math.prod(sizes), value, np.float32), kind).view(np.uint8))
    storage = Storage(own, raw)
    if buffer is MemoryRegion.shared_hbm and core.cores > 1:
        storage = core.partner.share(core, what, storage)
    return tensor(storage)


def _check_room(what: str, own: Allocation, target: Target) -> None:
    """One tensor alone must fit in a partition, and at its address if it has one."""
    limit = {MemoryRegion.sbuf: target.sbuf_partition_bytes,
             MemoryRegion.psum: target.psum_partition_bytes}.get(own.buffer)
    if limit is None:
        return
    if own.bytes_per_partition > limit:
        raise refuse(f"{what}: {list(own.shape)} {own.dtype} in {own.buffer.value}",
                     f"{own.bytes_per_partition:,} B a partition",
                     f"{target.name} has {limit:,} B", "Split the free dimension into tiles")
    if own.address is not None:
        partition, byte = own.address
        bank = target.psum_bank_bytes
        if (partition + own.partitions > target.pmax or byte + own.bytes_per_partition > limit
                or own.buffer is MemoryRegion.psum and byte % bank):
            raise refuse(f"{what}: address", own.address, f"(partition, byte) inside {target.pmax} x "
                         f"{limit:,} B, in PSUM at the start of a bank of {bank} B")


def tensor(storage: Storage) -> NkiTensor:
    """The whole of an allocation."""
    own = storage.allocation
    return view(storage, own.dtype, own.shape, _contiguous(own.shape), 0)


def checked_shape(shape: Any, buffer: MemoryRegion, what: str, target: Target) -> tuple[int, ...]:
    """A tuple of positive sizes that the region can hold; raises NkiValidationError."""
    try:
        sizes = tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        raise refuse(what, f"shape {shape!r}", "a tuple of whole numbers >= 1") from None
    if not sizes or min(sizes) < 1:
        raise refuse(what, f"shape {list(sizes)}", "every size is at least 1")
    if buffer in ON_CHIP:
        if len(sizes) < 2:
            raise refuse(what, f"shape {list(sizes)} in {buffer.value}",
                         "on chip a tensor has a partition and a free dimension", "Use (P, 1)")
        if sizes[0] > target.pmax:
            raise refuse(what, f"shape {list(sizes)} in {buffer.value}",
                         f"the partition dimension may be at most {target.pmax} (pmax)",
                         f"Split it into {-(-sizes[0] // target.pmax)} tiles")
    return sizes
