"""HBM, SBUF and PSUM: what a kernel allocates, and the views it takes of it.

Question  which bytes does this tile stand for, and may an instruction touch them?
Answer    Allocation: one nl.ndarray; Storage: its bytes; NkiTensor: a strided view of them
Assumes   bytes are kept as bytes, so every view, cast and overlap is what it is on the device
Ignores   where the compiler places an allocation; `trace` asks only whether the live ones fit
Source    nki.language.NkiTensor; NKI Language Guide, Tensor Values; NKI Access Patterns
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING
from functools import lru_cache, partial, reduce
from operator import index as whole_number
from typing import Any, NamedTuple

import numpy as np

from . import dtypes, views
from .core import NkiValidationError, Target, current, refuse
from .dtypes import DType
from .source import SITES, Site, site_of
from .surface import stub
from .views import ON_CHIP, DynamicSlice, Layout, MemoryRegion

_ENDLESS = sys.maxsize  # slice.indices of it tells slices apart, and refuses what is none


class NKIObject:
    """Base class of a kernel's own classes (nki.language.NKIObject).

    A class without a constructor gets one of its fields, with @dataclass or without: C(1, y=True).
    One that is not given is its default, or None; __post_init__ is called at the end.
    Source: Language Guide, Class Support.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__init__ is NKIObject.__init__:
            cls.__init__ = NKIObject.__init__  # type: ignore[method-assign]  # @dataclass leaves it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = _fields(type(self))
        given = {**dict(zip(fields, args, strict=False)), **kwargs}
        if len(args) > len(fields) or given.keys() - fields.keys():
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(fields) or 'none'}; "
                            f"got {len(args)} by position, {', '.join(kwargs) or 'none'} by name")
        for name, default in fields.items():
            value = given[name] if name in given else default()
            object.__setattr__(self, name, value)  # a frozen dataclass, too
        if hasattr(self, "__post_init__"):
            self.__post_init__()


def _fields(cls: type) -> dict[str, Callable[[], Any]]:
    """Name -> what makes its default: annotated names, and plain attributes of the class."""
    found: dict[str, Callable[[], Any]] = {}
    for base in reversed([b for b in cls.__mro__ if issubclass(b, NKIObject)][:-1]):
        own = vars(base)
        plain = [name for name, value in own.items() if not name.startswith("__") and not (
            callable(value) or isinstance(value, (property, staticmethod, classmethod)))]
        for name in (*own.get("__annotations__", ()), *plain):
            found[name] = partial(own.get, name)
        for name, made in own.get("__dataclass_fields__", {}).items():
            if made.default_factory is not MISSING:
                found[name] = made.default_factory
    return found


class VirtualRegister(NKIObject):
    """A number in an engine's register; None while its value is unknown (shapes alone)."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None:
        self.state, self.frozen = state, frozen

    def value(self, what: str) -> int:
        """Its number. Raises NkiValidationError where it comes from data and there is none."""
        if self.state is None:
            raise refuse(what, "a register whose value comes from data", "with data=False it is "
                         "unknown", "Run with data=True")
        return self.state

    def __repr__(self) -> str:
        return "<register>" if self.state is None else f"<register of {self.state}>"

    def __bool__(self) -> bool:
        return self.value("while") != 0  # the condition of a dynamic loop

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            raise refuse("kernel", f"a register compared with {other}", "Python runs at compile "
                         "time and cannot read it", "Compare on the device")
        return self is other

    __hash__ = object.__hash__


# --- what is allocated -------------------------------------------------------------------------


class Allocation:
    """One nl.ndarray, or one argument of the kernel, without its contents.

    bytes_per_partition and partitions are 0 in HBM; nbytes is the whole of it.
    """

    __slots__ = ("_name", "address", "argument", "layout", "origin")

    def __init__(self, name: str, layout: Layout, argument: bool = False,
                 address: tuple[int, int] | None = None, origin: Site | None = None) -> None:
        self.layout = layout
        self._name, self.argument, self.address, self.origin = name, argument, address, origin

    @property
    def name(self) -> str:
        """Its own name, or the variable it was first assigned to."""
        if not self._name and self.origin:
            self._name = self.origin.line.assigned
        return self._name or "tile"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> DType:
        return self.layout.dtype

    @property
    def buffer(self) -> MemoryRegion:
        return self.layout.buffer

    @property
    def nbytes(self) -> int:
        return self.layout.nbytes

    @property
    def partitions(self) -> int:
        return self.layout.P if self.layout.on_chip else 0

    @property
    def bytes_per_partition(self) -> int:
        return self.layout.nbytes // self.layout.P if self.layout.on_chip else 0

    def __repr__(self) -> str:
        return f"{self.name} {self.layout!r}"


class Storage:
    """The bytes behind an allocation; `raw` is None when only shapes are counted.

    version   counts writes, so that a float32 copy of a tile knows when it is stale
    opened    PSUM alone: the views that a matmul has written (see isa.tensor)
    evicted   PSUM alone: the layouts of the views that an engine has read
    filled    PSUM alone: those that an engine has written, and by which instruction
    """

    __slots__ = ("allocation", "evicted", "filled", "opened", "raw", "version")

    opened: dict
    evicted: dict[Layout, None]
    filled: dict[Layout, str]

    def __init__(self, allocation: Allocation, raw: np.ndarray | None) -> None:
        self.allocation, self.raw = allocation, raw
        self.version = 0
        if allocation.layout.buffer is MemoryRegion.psum:
            self.opened, self.evicted, self.filled = {}, {}, {}


# --- views -------------------------------------------------------------------------------------


class NkiTensor(NKIObject):
    """A strided view of an allocation (nki.language.NkiTensor); every method returns a view.

    shape, strides and offset count elements; dimension 0 is the partition on chip. What a view
    looks like is worked out in `views`.
    """

    __slots__ = ("_array", "_seen", "_values", "_views", "indirection", "layout", "offset",
                 "place", "storage")

    storage: Storage
    layout: Layout
    offset: int
    indirection: "Indirection | None"
    place: tuple[Allocation, Layout, int]  # what an instruction's record keeps of it
    _views: dict[tuple, "NkiTensor"]
    _array: np.ndarray | None
    _values: np.ndarray
    _seen: int

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

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            self.__bool__()  # refuses
        return self is other

    def _compared(self, other: object) -> bool:
        return self.__bool__()  # refuses

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __hash__ = object.__hash__
    __iter__ = None  # a for loop over a tensor is not NKI

    def __len__(self) -> int:
        return self.layout.shape[0]

    def __getitem__(self, key: Any) -> "NkiTensor":
        """Index with integers, slices, `...` and nl.ds. See NKI Language Guide, Indexing."""
        if type(key) is not tuple:
            key = (key,)
        try:
            # what equals an index and is none must differ from it: True, 1.0, slice(0, 2.0)
            parts: list[Any] = []
            for k in key:  # a loop: a comprehension is a call, and this is asked for every tile
                parts.append(k.indices(_ENDLESS) if type(k) is slice else
                             k if type(k) is int else (type(k), k))
            plain = tuple(parts)
            found = self._views.get(plain)
        except (TypeError, ValueError):  # a register in a slice, or no index at all
            return self._indexed(key, None)
        return self._indexed(key, plain) if found is None else found

    def _indexed(self, key: tuple, plain: tuple | None) -> "NkiTensor":
        """A view that was not asked for before; its layout may have been, of another tile."""
        own = self.layout
        plan = own.plans.get(plain) if plain else None
        if plan is None:
            plan = self._derived(views.indexed, [_known(k) for k in key])
            if not all(type(k) in (int, slice) or k is Ellipsis for k in key):
                plain = None  # a register, or nl.ds of one, may hold another number next time
            if plain and len(own.plans) < views.MAX_PLANS:
                own.plans[plain] = plan
        made = _view(self.storage, plan[0], self.offset + plan[1], self.indirection)
        if plain:
            self._views[plain] = made
        return made

    def __setitem__(self, key: Any, value: Any) -> None:
        """t[key] = tile: a tensor_copy on chip, a dma_copy to HBM (migration guide)."""
        from . import isa
        if not isinstance(value, NkiTensor):
            raise self._refuse("assignment", type(value).__name__, "a tile is assigned",
                               "Fill it with nisa.memset")
        chip = self.layout.on_chip and value.layout.on_chip
        (isa.tensor_copy if chip else isa.dma_copy)(self[key], value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> "NkiTensor":
        """Elements start to end (exclusive) of one dimension; 0 <= start < end."""
        if min(_known(start), _known(end)) < 0:
            raise self._refuse("slice", f"{start} to {end}", "0 <= start < end")
        return self[(*self._before(dim, "slice"), slice(start, end, step))]

    def select(self, dim: int, index: "int | NkiTensor") -> "NkiTensor":
        """One element of a dimension, as t[..., i, ...]; chosen at run time where a register or a
        tile of one number says which.
        """
        before = self._before(dim, "select")
        if not isinstance(index, (NkiTensor, VirtualRegister)):
            return self[(*before, index)]
        if self.layout.on_chip and not before:
            raise self._refuse("select", "dimension 0", "the partition is not chosen at run time")
        first = self[(*before, 0)]
        return first._chosen("scalar", self, len(before), index)

    def vector_select(self, dim: int, vector_offset: "NkiTensor") -> "NkiTensor":
        """Row vector_offset[p] of an HBM tensor, for each partition p; vector_offset is (P, 1)."""
        if dim != 0 or self.layout.on_chip:
            raise self._refuse("vector_select", f"dim {dim} in {self.buffer.value}",
                               "it selects along dimension 0 of an HBM tensor")
        rows = vector_offset.shape[0]
        first = self._placed((rows, *self.shape[1:]), (0, *self.strides[1:]), self.offset,
                             self.dtype)
        return first._chosen("vector", self, 0, vector_offset)

    def ap(self, pattern: Sequence[Sequence[int]], offset: int | None = None,
           scalar_offset: "NkiTensor | None" = None, vector_offset: "NkiTensor | None" = None,
           indirect_dim: int = 0, dtype: DType | None = None) -> "NkiTensor":
        """An access pattern of [step, number] pairs, outermost first, over the storage.

        offset is added to this view's own. scalar_offset (a register, or a tile of one number) and
        vector_offset (one for each of the first number) choose at run time in `indirect_dim` of
        this tensor.
        """
        self._direct("ap")
        kind = self._dtype("ap", dtype or self.dtype)
        if self.offset:
            current().warn("ap() of a view that does not start at 0: its API counts from there, NKI"
                           " Access Patterns from the tensor's start. Call it on the whole tensor")
        if offset is not None and not isinstance(offset, (int, np.integer)):
            raise self._refuse("ap", f"offset {offset!r}", "a whole number of elements")
        steps, shape = (tuple(whole_number(pair[i]) for pair in pattern) for i in (0, 1))
        first = self._rescaled("ap", self.offset, kind) + (offset or 0)
        if self.layout.on_chip and shape[0] == 1:
            steps = (self._row(kind), *steps[1:])
        elif vector_offset is not None and not self.layout.on_chip:
            steps = (0, *steps[1:])  # the step of the gathered dimension is this tensor's
        self._check_pattern(shape, steps, first, kind)
        made = self._placed(shape, steps, first, kind)
        if scalar_offset is not None and vector_offset is not None:
            raise self._refuse("ap", "scalar_offset and vector_offset", "at most one of them")
        if vector_offset is not None:
            return made._chosen("vector", self, indirect_dim, vector_offset)
        if scalar_offset is not None:
            return made._chosen("scalar", self, indirect_dim, scalar_offset)
        return made

    def _check_pattern(self, shape: tuple[int, ...], steps: tuple[int, ...], first: int,
                       kind: DType) -> None:
        """The pattern stays in the allocation, and in each partition."""
        own, row = self.layout, self._row(kind)
        if min(shape) < 1 or min(steps) < 0:
            raise self._refuse("ap", f"steps {list(steps)}, numbers {list(shape)}",
                               "steps of at least 0, numbers of at least 1")
        if own.on_chip and steps[0] != row:
            raise self._refuse("ap", f"a partition step of {steps[0]}",
                               f"partitions are contiguous, so it must be the free size, {row}")
        reach = [(n - 1) * step for n, step in zip(shape, steps, strict=True)]
        whole = self.storage.allocation.nbytes // kind.itemsize
        leaves_row = own.on_chip and first % row + sum(reach[1:]) >= row
        if not 0 <= first < whole - sum(reach) or leaves_row:
            raise self._refuse("ap", f"numbers {list(shape)}, steps {list(steps)}, offset {first}",
                               f"it ends after {whole} elements"
                               + f", a partition after {row}" * own.on_chip)

    def view(self, dtype: DType) -> "NkiTensor":
        """The same bits as another dtype; the last dimension scales by the ratio of sizes."""
        self._direct("view")
        kind = self._dtype("view", dtype)
        return _view(self.storage, self._derived(views.view, kind),
                     self._rescaled("view", self.offset, kind))

    reinterpret_cast = view

    def permute(self, dims: tuple[int, ...]) -> "NkiTensor":
        """Dimensions in another order; on chip the partition stays first."""
        return self._like(views.permute, dims)

    def broadcast(self, dim: int, size: int) -> "NkiTensor":
        """Repeat a dimension of size 1 `size` times, without a copy."""
        return self._like(views.broadcast, dim, size)

    def expand_dim(self, dim: int) -> "NkiTensor":
        """A new dimension of size 1 at `dim`."""
        return self._like(views.expand_dim, dim)

    def squeeze_dim(self, dim: int) -> "NkiTensor":
        """Without a dimension of size 1."""
        return self._like(views.squeeze_dim, dim)

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> "NkiTensor":
        """One dimension split in several; one of them may be -1."""
        return self._like(views.reshape_dim, dim, shape)

    def flatten_dims(self, start_dim: int, end_dim: int) -> "NkiTensor":
        """Dimensions start_dim to end_dim (inclusive) as one."""
        return self._like(views.flatten_dims, start_dim, end_dim)

    def reshape(self, shape: tuple[int, ...]) -> "NkiTensor":
        """Another shape of as many elements, without a copy."""
        return self._like(views.reshape, shape)

    def rearrange(self, src_pattern: tuple, dst_pattern: tuple,
                  fixed_sizes: dict[str, int] | None = None) -> "NkiTensor":
        """Split, reorder and merge named dimensions, as (("b", ("h", "w")), ("b", "w", "h"))."""
        return self._like(views.rearrange, src_pattern, dst_pattern, fixed_sizes)

    indirect = stub("nki.language.NkiTensor", "indirect")  # tensor indirection of NeuronCore-v4

    def is_contiguous(self) -> bool:
        """Whether the view is dense and row-major; on chip per partition."""
        return views.is_dense(self.layout)

    def is_indirect(self) -> bool:
        """Whether an index that is known only at run time takes part."""
        return self.indirection is not None

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...], as ap() takes it."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    # --- how a view comes about --------------------------------------------------------------

    def _refuse(self, what: str, got: object, limit: str, hint: str = "") -> NkiValidationError:
        return refuse(f"tensor {self.name} {list(self.shape)}: {what}", got, limit, hint)

    def _derived(self, derive: Callable[..., Any], *args: Any) -> Any:
        """What `views` makes of this layout; its refusals say whose it is."""
        try:
            return derive(self.layout, *args)
        except NkiValidationError as error:
            raise NkiValidationError(f"tensor {self.name} {list(self.shape)}: {error}") from None

    def _like(self, derive: Callable[..., Layout], *args: Any) -> "NkiTensor":
        """A view with the same first element."""
        return _view(self.storage, self._derived(derive, *args), self.offset, self.indirection)

    def _placed(self, shape: tuple[int, ...], steps: tuple[int, ...], first: int,
                kind: DType) -> "NkiTensor":
        """A view that starts anywhere in the storage."""
        start = byte = 0
        if self.layout.on_chip:
            start, inside = divmod(first, self._row(kind))
            byte = inside * kind.itemsize if self.buffer is MemoryRegion.psum else 0
        made = self._derived(lambda own: views.layout(own.buffer, kind, shape, steps, start, byte))
        return _view(self.storage, made, first)

    def _chosen(self, kind: str, base: "NkiTensor", dim: int, index: Any) -> "NkiTensor":
        """This view, moved at run time by index elements of a dimension of `base`."""
        base._direct("a run-time index")
        at = base._dim(dim, "indirect_dim")
        count = self.shape[0] if kind == "vector" else 1
        if (at and kind == "vector") or (base.layout.on_chip and (not at or kind == "vector")):
            raise base._refuse("a run-time index", f"dimension {dim} in {base.buffer.value}",
                               "one number moves any dimension but the partition; several choose "
                               "rows, dimension 0, of an HBM tensor")
        if not (kind == "scalar" and isinstance(index, VirtualRegister)):
            base._check_index(index, count)
        step = base._rescaled("ap", base.strides[at], self.dtype)
        own = self.layout
        made = views.layout(own.buffer, own.dtype, own.shape, own.strides, own.start, own.first,
                            kind)
        return _view(self.storage, made, self.offset,
                     Indirection(kind, index, step, base.shape[at], count))

    def _check_index(self, index: Any, count: int) -> None:
        """`index` is a tile of whole numbers in SBUF, as many as are chosen."""
        if not isinstance(index, NkiTensor):
            raise self._refuse("a run-time index", type(index).__name__, "a tile in sbuf")
        own = index.layout
        if (own.buffer is not MemoryRegion.sbuf or own.dtype.kind != "int" or own.size < count
                or (count == 1 and own.size > 1)):
            raise self._refuse("a run-time index", repr(index),
                               f"whole numbers in sbuf, of shape ({count}, 1)")

    def _before(self, dim: int, what: str) -> tuple:
        """The whole of each dimension before `dim`, as an index."""
        return (slice(None),) * self._dim(dim, what)

    def _dim(self, dim: int, what: str) -> int:
        return self._derived(views.dimension, dim, what)

    def _dtype(self, what: str, dtype: Any) -> DType:
        try:
            return dtypes.of(dtype)
        except ValueError as error:
            raise self._refuse(what, repr(dtype), str(error)) from None

    def _row(self, kind: DType) -> int:
        """Elements of one partition of the allocation; of all of it in HBM."""
        own = self.storage.allocation
        return (own.bytes_per_partition or own.nbytes) // kind.itemsize

    def _rescaled(self, what: str, elements: int, kind: DType) -> int:
        """Elements of this tensor's dtype as elements of another."""
        count, rest = divmod(elements * self.dtype.itemsize, kind.itemsize)
        if rest:
            raise self._refuse(what, f"{kind!r}", f"{elements} elements of {self.dtype!r} are no "
                               "whole number of its elements")
        return count

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
        return self.array if self.indirection is None else self.flat()[self._elements()]

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
        rounded = dtypes.cast(values, self.layout.dtype).reshape(self.layout.shape)
        self.storage.version += 1
        if self.indirection is None:
            self.array[...] = rounded
        else:
            self.flat()[self._elements()] = rounded

    def flat(self) -> np.ndarray:
        """All of the storage as one row of this dtype, in place."""
        kind = self.layout.dtype
        count = self.storage.allocation.nbytes // kind.itemsize
        return np.ndarray((count,), kind.numpy, self.storage.raw)

    def elements(self) -> tuple[np.ndarray, np.ndarray]:
        """Where in flat() the elements are now, and which of them a run-time index puts outside."""
        places = self.offset + reduce(np.add.outer, [s * np.arange(n) for s, n in zip(
            self.strides, self.shape, strict=True)])
        outside = np.zeros(places.shape, bool)
        if self.indirection is not None:
            rows = np.array(self.indirection.rows()).reshape(-1, *(1,) * (self.ndim - 1))
            places = places + self.indirection.stride * rows
            outside = (places >= len(self.flat())) | (rows < 0) | (rows >= self.indirection.limit)
        return places, outside

    def _elements(self) -> np.ndarray:
        """The same, all of them inside."""
        places, outside = self.elements()
        if outside.any():
            assert self.indirection is not None
            rows, limit = np.array(self.indirection.rows()), self.indirection.limit
            wrong = rows[(rows < 0) | (rows >= limit)]
            got, said = ((wrong[0], f"the dimension has {limit} elements") if wrong.size else
                         (rows.max(), "the view that it moves ends outside"))
            raise self._refuse("run-time index", got, said, "oob_mode.skip leaves such rows out")
        return places


class Indirection(NamedTuple):
    """A run-time index of a view: one for all of it ("scalar") or one for each row ("vector").

    index    a tile in SBUF, or a register
    stride   elements that one step of it is; limit: it is below this
    number   rows chosen
    """

    kind: str
    index: Any
    stride: int
    limit: int
    number: int

    def rows(self) -> list[int]:
        """Its values, down the columns of a tile that has several; data=True only."""
        if isinstance(self.index, VirtualRegister):
            return [self.index.value("run-time index")]
        columns = self.index.array.reshape(self.index.layout.P, -1).T
        return [int(i) for i in columns.reshape(-1)[:self.number]]


def _known(k: Any) -> Any:
    """An index with the numbers of its registers; itself where it has none."""
    parts = k if isinstance(k, DynamicSlice) else (
        (k.start, k.stop, k.step) if isinstance(k, slice) else (k,))
    if not any(isinstance(part, VirtualRegister) for part in parts):
        return k
    numbers = [p.value("index") if isinstance(p, VirtualRegister) else p for p in parts]
    return type(k)(*numbers) if isinstance(k, (slice, DynamicSlice)) else numbers[0]


def _view(storage: Storage, layout: Layout, offset: int,
          indirection: Indirection | None = None) -> NkiTensor:
    """A tensor over `storage`."""
    self = NkiTensor.__new__(NkiTensor)
    self.storage, self.layout, self.offset, self.indirection = storage, layout, offset, indirection
    self.place = (storage.allocation, layout, offset)
    self._views, self._array, self._seen = {}, None, -1
    return self


# --- allocation --------------------------------------------------------------------------------


def allocate(what: str, shape: Any, dtype: Any, buffer: Any, name: str = "", address: Any = None,
             contents: np.ndarray | None = None) -> NkiTensor:
    """A new tensor of the current core, with `contents` or what fresh memory holds.

    On the two cores of LNC=2 the nth shared_hbm allocation of each is one and the same.
    """
    core = current()
    try:
        layout = checked(what, tuple([whole_number(n) for n in shape]), dtype, buffer, core.target)
    except TypeError:
        raise refuse(what, f"shape {shape!r}, dtype {dtype!r}",
                     "a tuple of whole numbers >= 1, and a dtype of nki.language") from None
    if not isinstance(name, (str, type(None))):
        raise refuse(f"{what}: name", type(name).__name__, "a string")
    frame = sys._getframe(2)
    site = SITES.get((id(frame.f_code), frame.f_lasti)) or site_of(frame)
    own = Allocation(name, layout, contents is not None, origin=site)
    if address is not None:
        own.address = _address(what, layout, address, core.target)
    raw = None
    if core.data:
        raw = dtypes.fresh(layout.size, layout.dtype) if contents is None else contents
    storage = Storage(own, raw)
    if buffer is MemoryRegion.shared_hbm and core.cores > 1:
        storage = core.partner.share(core, what, storage)
    return tensor(storage)


def tensor(storage: Storage) -> NkiTensor:
    """The whole of an allocation."""
    return _view(storage, storage.allocation.layout, 0)


@lru_cache(maxsize=1 << 12)
def checked(what: str, shape: tuple, dtype: Any, buffer: Any, target: Target) -> Layout:
    """The layout of an allocation that fits in its memory, HBM being that of the device."""
    if not isinstance(buffer, MemoryRegion):
        raise refuse(f"{what}: buffer", repr(buffer),
                     "nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm")
    try:
        kind = dtypes.of(dtype)
    except ValueError as error:
        raise NkiValidationError(f"{what}: {error}") from None
    sizes = checked_shape(shape, buffer, what, target)
    limit = _capacity(buffer, target)
    layout = views.whole(buffer, kind, sizes)
    row = layout.nbytes // layout.P
    if limit and row > limit:
        raise refuse(f"{what}: {layout!r}", f"{row:,} B a partition",
                     f"{target.name} has {limit:,} B", "Split the free dimension into tiles")
    if not limit and layout.nbytes > target.hbm_bytes:
        raise refuse(f"{what}: {layout!r}", f"{layout.nbytes:,} B",
                     f"a device of {target.key} has {target.hbm_bytes:,} B of HBM")
    return layout


def _capacity(buffer: MemoryRegion, target: Target) -> int | None:
    """Bytes of a partition; None in HBM."""
    return {MemoryRegion.sbuf: target.sbuf_partition_bytes,
            MemoryRegion.psum: target.psum_partition_bytes}.get(buffer)


def _address(what: str, layout: Layout, address: Any, target: Target) -> tuple[int, int]:
    """(partition, byte) at which the tensor fits."""
    if not (isinstance(address, (tuple, list)) and len(address) == 2
            and all(isinstance(n, (int, np.integer)) for n in address)):
        raise refuse(f"{what}: address", repr(address), "(partition, byte), two whole numbers")
    partition, byte = address
    limit, row = _capacity(layout.buffer, target), layout.nbytes // layout.P
    bank = target.psum_bank_bytes if layout.buffer is MemoryRegion.psum else 1
    if (limit is None or not 0 <= partition <= target.pmax - layout.P
            or not 0 <= byte <= limit - row or byte % bank):
        raise refuse(f"{what}: address", address, f"(partition, byte) inside {target.pmax} x "
                     f"{limit or 0:,} B, in PSUM at the start of a bank of "
                     f"{target.psum_bank_bytes:,} B")
    return partition, byte


def checked_shape(shape: Any, buffer: MemoryRegion, what: str, target: Target) -> tuple[int, ...]:
    """A tuple of positive sizes that the region can hold; raises NkiValidationError."""
    try:
        sizes = tuple([whole_number(n) for n in shape])
    except TypeError:
        raise refuse(what, f"shape {shape!r}", "a tuple of whole numbers >= 1") from None
    if not sizes or min(sizes) < 1:
        raise refuse(what, f"shape {list(sizes)}", "every size is at least 1")
    if len(sizes) > views.MAX_DIMS:
        raise refuse(what, f"shape {list(sizes)}", f"at most {views.MAX_DIMS} dimensions",
                     "Merge some of them")
    if buffer in ON_CHIP:
        if len(sizes) < 2:
            raise refuse(what, f"shape {list(sizes)} in {buffer.value}",
                         "on chip a tensor has a partition and a free dimension", "Use (P, 1)")
        if sizes[0] > target.pmax:
            raise refuse(what, f"shape {list(sizes)} in {buffer.value}",
                         f"the partition dimension may be at most {target.pmax} (pmax)",
                         f"Split it into {-(-sizes[0] // target.pmax)} tiles")
    return sizes
