"""Views of a tensor: their shape, strides and first element, without storage or values.

Question  which elements does t[...], a reshape or a permutation of t have, in which order?
Answer    Layout: a view's geometry, one object for all that look alike; a function for each way
          to derive one from another
Assumes   sizes, strides and offsets count elements; dimension 0 is the partition on chip
Ignores   run-time values: a register among the indices is read before
Source    nki.language.NkiTensor; NKI Language Guide, Tensor Values and Tensor Indexing
"""

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from .core import NkiValidationError, refuse
from .dtypes import DType

MAX_DIMS = 5  # a partition dimension and four free ones (Language Guide, Tensor Values)
MAX_PLANS = 1 << 14  # indices of one layout whose result is remembered


class MemoryRegion(Enum):
    """Where a tensor lives (nki.language.MemoryRegion)."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are singletons; the default hashes their name


ON_CHIP = (MemoryRegion.sbuf, MemoryRegion.psum)


class DynamicSlice(NamedTuple):
    """nl.ds(start, size): `size` elements from `start` on."""

    start: Any
    size: Any


class Layout:
    """Geometry of a view, shared by every view that looks alike.

    P, F       partitions and elements per partition (on chip)
    start      first partition; first: first byte in it (PSUM only, where banks matter)
    nbytes     elements x their size; hbm_bytes the same in HBM and 0 on chip
    indirect   "scalar" or "vector" where a run-time index takes part, so that strides do not tell
               which bytes; else ""
    pinned     dimension 0 stays first and whole: a partition, or rows chosen at run time
    plans      index -> the layout of t[index], and how many elements later it starts
    """

    __slots__ = ("F", "P", "buffer", "dtype", "first", "hbm_bytes", "indirect", "nbytes", "on_chip",
                 "pinned", "plans", "shape", "size", "start", "strides")

    def __init__(self, buffer: MemoryRegion, dtype: DType, shape: tuple[int, ...],
                 strides: tuple[int, ...], start: int, first: int, indirect: str) -> None:
        self.buffer, self.dtype, self.shape, self.strides = buffer, dtype, shape, strides
        self.start, self.first, self.indirect = start, first, indirect
        self.on_chip = buffer in ON_CHIP
        self.pinned = self.on_chip or indirect == "vector"
        self.size = math.prod(shape)
        self.P = shape[0]
        self.F = self.size // self.P
        self.nbytes = self.size * dtype.itemsize
        self.hbm_bytes = 0 if self.on_chip else self.nbytes
        self.plans: dict[tuple, tuple[Layout, int]] = {}

    def __repr__(self) -> str:
        return f"{list(self.shape)} {self.dtype} in {self.buffer.value}"

    def like(self, shape: Sequence[int], strides: Sequence[int]) -> "Layout":
        """Another shape from the same first element on."""
        return layout(self.buffer, self.dtype, tuple(shape), tuple(strides), self.start, self.first,
                      self.indirect)


_LAYOUTS: dict[tuple, Layout] = {}


def layout(buffer: MemoryRegion, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...],
           start: int = 0, first: int = 0, indirect: str = "") -> Layout:
    """The one Layout of this geometry; 1 to 5 dimensions, at least 2 on chip."""
    key = (buffer, dtype, shape, strides, start, first, indirect)
    found = _LAYOUTS.get(key)
    if found is None:
        least = 2 if buffer in ON_CHIP else 1
        if not least <= len(shape) <= MAX_DIMS:
            raise refuse("view", f"{len(shape)} dimensions, {list(shape)}",
                         f"in {buffer.value} a view has {least} to {MAX_DIMS}")
        made = Layout(buffer, dtype, tuple(map(index, shape)), tuple(map(index, strides)), start,
                      first, indirect)  # never 3.0 for 3: all that ask for 3 get this one
        found = _LAYOUTS.setdefault(key, made)  # one, whichever thread came first
    return found


@cache
def whole(buffer: MemoryRegion, dtype: DType, shape: tuple[int, ...]) -> Layout:
    """The layout of an allocation: row-major, from its first element on."""
    return layout(buffer, dtype, shape, row_major(shape))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a dense array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


# --- indexing ----------------------------------------------------------------------------------


def indexed(base: Layout, key: Sequence[Any]) -> tuple[Layout, int]:
    """The layout of t[key], and how many elements after t's first it starts.

    An integer drops its dimension, but on chip the partition stays, with size 1, and two
    dimensions are left; in HBM one is.
    """
    shape, strides, dropped, moved, partition = [], [], [], 0, 0
    for dim, k in enumerate(_for_each_dimension(base, key)):
        start, size, step = _picked(base, dim, k)
        if dim == 0 and base.pinned:
            _check_first(base, k, start, size, step)
            partition, step = start, step or 1
        shape.append(size)
        strides.append(base.strides[dim] * (step or 1))
        moved += start * base.strides[dim]
        if not step:
            dropped.append(dim)
    spare = len(shape) - len(dropped) - (2 if base.on_chip else 1)
    if spare < 0:  # the last ones stay
        del dropped[spare:]
    for dim in reversed(dropped):
        del shape[dim], strides[dim]
    first = base.first
    if base.buffer is MemoryRegion.psum:
        first += (moved - partition * base.strides[0]) * base.dtype.itemsize
    return layout(base.buffer, base.dtype, tuple(shape), tuple(strides), base.start + partition
                  if base.on_chip else 0, first, base.indirect), moved


def _for_each_dimension(base: Layout, key: Sequence[Any]) -> list[Any]:
    """One index for each dimension: `...`, or what is left out at the end, is the whole of it."""
    dims = len(base.shape)
    at = [i for i, k in enumerate(key) if k is Ellipsis]
    if len(at) > 1 or len(key) - len(at) > dims:
        raise refuse("index", f"{len(key)} indices", f"it has {dims} dimensions; one ... at most")
    gap = at[0] if at else len(key)
    return [*key[:gap], *[slice(None)] * (dims - len(key) + len(at)), *key[gap + 1:]]


def _picked(base: Layout, dim: int, k: Any) -> tuple[int, int, int]:
    """start, size and step of an index of one dimension; step 0 for an integer."""
    n, step = base.shape[dim], 1
    if isinstance(k, slice):
        start = _number(k.start, 0)
        stop = _number(k.stop, n)
        step = _number(k.step, 1)
        start, stop = start + n * (start < 0), stop + n * (stop < 0)
    elif isinstance(k, DynamicSlice):
        start = _number(k.start)
        stop = start + _number(k.size)
    else:
        start = _number(k)
        start += n * (start < 0)
        if not 0 <= start < n:
            raise refuse("index", k, f"dimension {dim} has {n} elements")
        return start, 1, 0
    size = -((start - stop) // step) if step > 0 else 0
    if size < 1 or start < 0 or stop > n:
        raise refuse("slice", f"{start}:{stop}" + f":{step}" * (step != 1),
                     f"dimension {dim} has {n} elements; start < stop, step >= 1",
                     "Shorten the last tile with min()" * (stop > n))
    return start, size, step


def _number(k: Any, default: int | None = None) -> int:
    """A whole number of an index."""
    if k is None and default is not None:
        return default
    try:
        if type(k) is not bool:
            return index(k)
        raise TypeError
    except TypeError:
        raise refuse("index", repr(k), "an index is an integer, a slice, ... or nl.ds",
                     "A tile chooses at run time with t.select(dim, index)") from None


def _check_first(base: Layout, k: Any, start: int, size: int, step: int) -> None:
    """Partitions are contiguous; rows chosen at run time are not sliced again."""
    if base.on_chip and step > 1 and size > 1:
        raise refuse("slice", f"a step of {step} over partitions", "an access takes neighbouring "
                     "ones (NKI Access Patterns)", "Let the step be in a free dimension")
    if base.indirect == "vector" and (start, size, step) != (0, base.shape[0], 1):
        raise refuse("index", repr(k), "dimension 0 was chosen at run time and stays whole")


# --- other shapes ------------------------------------------------------------------------------


def _move(base: Layout) -> str:
    """The next step where a view would have to move data between partitions."""
    return "Move data between partitions with nisa.nc_transpose or nisa.dma_copy" * base.on_chip


def dimension(base: Layout, dim: int, what: str, free: bool = False) -> int:
    """A dimension's number, counted from the end where negative; free: not the pinned one."""
    dims = len(base.shape)
    if not isinstance(dim, int) or not -dims <= dim < dims:
        raise refuse(what, f"dimension {dim}", f"0 to {dims - 1}")
    if free and base.pinned and dim in (0, -dims):
        raise refuse(what, "dimension 0", "the partition dimension stays as it is" if base.on_chip
                     else "dimension 0 was chosen at run time and stays as it is", _move(base))
    return dim % dims


def is_dense(base: Layout) -> bool:
    """Whether it is row-major without gaps; on chip, inside each partition."""
    first = int(base.on_chip)
    return all(n == 1 or step == dense for n, step, dense in
               list(zip(base.shape, base.strides, row_major(base.shape), strict=True))[first:])


def view(base: Layout, dtype: DType) -> Layout:
    """The same bits as another dtype: the last dimension scales by the ratio of sizes."""
    old, new = base.dtype.itemsize, dtype.itemsize
    row = base.shape[-1] * old
    if (base.strides[-1] != 1 and base.shape[-1] > 1) or row % new:
        raise refuse("view", f"{dtype!r}", "the last dimension must be contiguous and its "
                     f"{row} bytes divisible by {new}")
    outer = list(zip(base.shape[:-1], base.strides[:-1], strict=True))
    if any(n > 1 and step * old % new for n, step in outer):
        raise refuse("view", f"{dtype!r}", f"strides {list(base.strides)} of {old} bytes are no "
                     f"whole ones of {new}")
    return layout(base.buffer, dtype, (*base.shape[:-1], row // new),
                  (*[step * old // new for _, step in outer], 1), base.start, base.first)


def permute(base: Layout, dims: Sequence[int]) -> Layout:
    """Dimensions in another order."""
    if sorted(dims) != list(range(len(base.shape))) or (base.pinned and dims[0] != 0):
        raise refuse("permute", tuple(dims), f"an order of the {len(base.shape)} dimensions"
                     + ", 0 first" * base.pinned, _move(base))
    return base.like([base.shape[d] for d in dims], [base.strides[d] for d in dims])


def broadcast(base: Layout, dim: int, size: int) -> Layout:
    """A dimension of size 1 read `size` times."""
    at = _single(base, dim, "broadcast")
    if not isinstance(size, SupportsIndex) or isinstance(size, bool):
        raise refuse("broadcast", f"size {size!r}", "a whole number")
    if index(size) < 1:
        raise refuse("broadcast", f"size {size}", "at least 1")
    return base.like(_replaced(base.shape, at, size), _replaced(base.strides, at, 0))


def expand_dim(base: Layout, dim: int) -> Layout:
    """A new dimension of size 1 before `dim`."""
    dims = len(base.shape)
    at = dim + dims + 1 if dim < 0 else dim
    if not int(base.pinned) <= at <= dims:
        raise refuse("expand_dim", dim, f"{int(base.pinned)} to {dims}")
    return base.like([*base.shape[:at], 1, *base.shape[at:]],
                     [*base.strides[:at], 1, *base.strides[at:]])


def squeeze_dim(base: Layout, dim: int) -> Layout:
    """Without a dimension of size 1."""
    at = _single(base, dim, "squeeze_dim")
    return base.like(_replaced(base.shape, at), _replaced(base.strides, at))


def reshape_dim(base: Layout, dim: int, shape: Sequence[int]) -> Layout:
    """One dimension split in several; one of them may be -1."""
    at = dimension(base, dim, "reshape_dim")
    n, step = base.shape[at], base.strides[at]
    sizes = _inferred("reshape_dim", shape, n)
    if at == 0 and base.pinned and sizes[0] != n:
        raise refuse("reshape_dim", tuple(shape), "dimension 0 cannot be split", _move(base))
    return base.like(_replaced(base.shape, at, *sizes),
                     _replaced(base.strides, at, *[step * s for s in row_major(sizes)]))


def flatten_dims(base: Layout, start_dim: int, end_dim: int) -> Layout:
    """Dimensions start_dim to end_dim, inclusive, as one."""
    a = dimension(base, start_dim, "flatten_dims", free=True)
    b = dimension(base, end_dim, "flatten_dims") + 1
    if b <= a:
        raise refuse("flatten_dims", f"{start_dim} to {end_dim}", "the first comes before the last")
    n, step = _merged("flatten_dims", base.shape[a:b], base.strides[a:b])
    return base.like([*base.shape[:a], n, *base.shape[b:]],
                     [*base.strides[:a], step, *base.strides[b:]])


def reshape(base: Layout, shape: Sequence[int]) -> Layout:
    """Another shape of as many elements, without a copy."""
    new = tuple(map(index, shape))
    if min(new, default=0) < 1 or math.prod(new) != base.size:
        raise refuse("reshape", new, f"{base.size} elements, every size at least 1")
    kept = int(base.pinned)
    if kept and new[0] != base.P:
        raise refuse("reshape", new, f"dimension 0 stays {base.P}", _move(base))
    strides = restrided(base.shape[kept:], base.strides[kept:], new[kept:])
    if strides is None:
        raise _needs_a_copy("reshape", new)
    return base.like(new, (*base.strides[:kept], *strides))


def rearrange(base: Layout, src: Sequence[Any], dst: Sequence[Any],
              fixed_sizes: Mapping[str, int] | None = None) -> Layout:
    """Named dimensions split, reordered and merged, as einops does."""
    what, sizes = "rearrange", dict(fixed_sizes or {})
    groups, wanted = ([(g,) if isinstance(g, str) else tuple(g) for g in p] for p in (src, dst))
    names = [name for group in groups for name in group]
    order = [name for group in wanted for name in group]
    if len(groups) != len(base.shape) or not all((*groups, *wanted)):
        raise refuse(what, tuple(src), f"a name or a group for each of the {len(base.shape)} "
                     "dimensions")
    if sorted(order) != sorted(set(names)) or len(names) != len(order) or sizes.keys() - set(names):
        raise refuse(what, f"{tuple(dst)} of {tuple(src)}, sizes of {list(sizes)}",
                     "the same names in both, each once")
    if base.pinned and (len(groups[0]) > 1 or wanted[0] != groups[0]):
        raise refuse(what, tuple(dst), f"dimension 0, {names[0]!r}, stays first and alone",
                     _move(base))
    parts: dict[str, tuple[int, int]] = {}
    for group, n, step in zip(groups, base.shape, base.strides, strict=True):
        inner = _inferred(what, [sizes.get(name, -1) for name in group], n)
        for name, size, within in zip(group, inner, row_major(inner), strict=True):
            parts[name] = size, step * within
    merged = [_merged(what, *zip(*[parts[name] for name in group], strict=True))
              for group in wanted]
    return base.like([n for n, _ in merged], [step for _, step in merged])


def _single(base: Layout, dim: int, what: str) -> int:
    """The number of a free dimension of size 1."""
    at = dimension(base, dim, what, free=True)
    if base.shape[at] != 1:
        raise refuse(what, f"dimension {dim} of size {base.shape[at]}", "it must be 1")
    return at


def _replaced(old: tuple[int, ...], at: int, *new: int) -> tuple[int, ...]:
    return (*old[:at], *new, *old[at + 1:])


def _inferred(what: str, shape: Sequence[int], n: int) -> tuple[int, ...]:
    """Sizes that multiply to n, with one -1 filled in."""
    known = math.prod(size for size in shape if size != -1)
    sizes = tuple(n // max(known, 1) if size == -1 else index(size) for size in shape)
    if list(shape).count(-1) > 1 or min(sizes, default=0) < 1 or math.prod(sizes) != n:
        raise refuse(what, f"{tuple(shape)} for {n} elements",
                     f"sizes whose product is {n}, one of them -1 at most")
    return sizes


def _merged(what: str, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Size and stride of several dimensions as one."""
    n = math.prod(shape)
    found = restrided(shape, strides, (n,))
    if found is None:
        raise _needs_a_copy(what, f"sizes {list(shape)} with strides {list(strides)} as one")
    return n, found[0]


def _needs_a_copy(what: str, got: object) -> NkiValidationError:
    return refuse(what, got, "these strides allow it only with a copy",
                  "Copy into a new tile with nisa.tensor_copy first")


def restrided(shape: Sequence[int], strides: Sequence[int],
              new: Sequence[int]) -> tuple[int, ...] | None:
    """Strides of `new` over the same memory; None when only a copy could do it."""
    runs: list[list[int]] = []  # dimensions that are one in memory: [elements, stride of the last]
    for n, step in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == step * n:
            runs[-1] = [runs[-1][0] * n, step]
        elif n > 1:
            runs.append([n, step])
    result, left, step = [], 1, 1  # left: elements of the run that outer dimensions do not cover
    waiting = iter(runs)
    for n in new:
        if left == 1 and n > 1:
            left, step = next(waiting)
        if left % n:
            return None
        left //= n
        result.append(left * step)
    return tuple(result)
