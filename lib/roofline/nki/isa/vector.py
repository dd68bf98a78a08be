"""Vector Engine: element-wise instructions, reductions, scans and selections.

Arithmetic is float32 whatever the tiles hold, and the result is rounded to dst's type; bitvec
operators work on the bits as they are. Several of these also run on other engines.

Source  nki.isa (NKI 0.6); nki.api.shared.rst, Supported Math Operators
"""

from typing import Any

import numpy as np

from .. import dtypes
from ..alu import (
    Operator,
    add,
    multiply,
    operator,
    power,
    rsqrt,
)
from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import (
    arithmetic,
    engines,
    integers,
    is_tile,
    issue,
    not_both_in_psum,
    not_packed,
    number,
    on_generation,
    one_of,
    operand,
    paired,
    psum,
    same_family,
    same_size,
    second_operand,
    shaped,
    streamed,
    tile,
    tiles,
    vector_operand,
    whole,
)
from .enums import engine
from .values import (
    applied,
    bits,
    column,
    put_bits,
    rows,
    scan,
    values,
)

_WHOLE_32 = {dtypes.int32, dtypes.uint32}


# --- element-wise ------------------------------------------------------------------------------


def memset(dst: NkiTensor, value, engine=engine.unknown, name=None) -> NkiInstruction:
    """dst = a number, whole for integer types. On Vector or GpSimd. Source: nki.isa.memset."""
    core = current()
    work = _memset(core.target, is_tile("memset", "dst", dst), type(value), value, engine)
    if core.data:
        kind = dst.layout.dtype.kind
        dst.put(np.broadcast_to(np.asarray(value, np.float32 if kind == "float" else np.int64),
                                dst.layout.shape))
    return issue(core, work, (), (dst,), name)


@rule
def _memset(target: Target, dst: Layout, kind: type, value: Any, wanted: engine) -> Work:
    what = "memset"
    streamed(what, "dst", dst, target)
    floats = dst.dtype.kind == "float"
    if kind is bool and dst.dtype is not dtypes.bool_:
        kind = type(None)
    legal = (int, float, np.integer, np.floating) if floats else (int, np.integer)
    if not issubclass(kind, legal):
        raise refuse(f"{what}: value", repr(value), f"a number that matches {dst.dtype!r}",
                     "" if floats else "Write an integer literal")
    if dst.dtype.kind == "packed" and value != 0:
        raise refuse(f"{what}: value", value, f"a packed type, {dst.dtype!r}, can only be zeroed",
                     "Load it with nisa.dma_copy")
    if dst.dtype.kind == "int":
        limits = np.iinfo(dst.dtype.numpy)
        if not limits.min <= value <= limits.max:
            raise refuse(f"{what}: value", value, f"{limits.min} to {limits.max} of {dst.dtype!r}")
    return Work(what, engines(what, wanted, target, ("vector", "gpsimd"), dst), elements=dst.size)


def tensor_copy(dst: NkiTensor, src: NkiTensor, engine=engine.unknown, name=None) -> NkiInstruction:
    """dst = src: bit for bit in one dtype, through float32 between two.

    On Vector, Scalar (v3 on) or GpSimd (no PSUM). Source: nki.isa.tensor_copy.
    """
    core = current()
    work = _tensor_copy(core.target, is_tile("tensor_copy", "dst", dst),
                        is_tile("tensor_copy", "src", src), engine)
    if core.data:
        dst.put(src.read() if src.layout.dtype is dst.layout.dtype else src.values())
    return issue(core, work, (src,), (dst,), name)


@rule
def _tensor_copy(target: Target, dst: Layout, src: Layout, wanted: engine) -> Work:
    what = "tensor_copy"
    streamed(what, "dst", dst, target)
    streamed(what, "src", src, target)
    same_size(what, "src", src, "dst", dst)
    if src.dtype is not dst.dtype:
        not_packed(what, dst, src)
    if target.generation < 3 and wanted is engine.scalar:
        raise refuse(f"{what}: engine", f"scalar on {target.name}", "from NeuronCore-v3 on",
                     "Use nisa.activation with op=nl.copy")
    allowed = ("vector", "scalar", "gpsimd") if target.generation > 2 else ("vector", "gpsimd")
    return Work(what, engines(what, wanted, target, allowed, dst, src), elements=dst.size)


def tensor_tensor(dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op, engine=engine.unknown,
                  name=None) -> NkiInstruction:
    """dst = data1 op data2, element by element, without broadcasting.

    On Vector or GpSimd; nl.power on GpSimd; when all tiles are (u)int32 on GpSimd, in exact
    integers, unless one is in PSUM. Source: nki.isa.tensor_tensor.
    """
    core = current()
    op = operator(op, "tensor_tensor: op", arity=2)
    work = _tensor_tensor(core.target, is_tile("tensor_tensor", "dst", dst),
                          is_tile("tensor_tensor", "data1", data1),
                          is_tile("tensor_tensor", "data2", data2), op, engine)
    if core.data:
        shape = dst.layout.shape
        if op.family == "bitvec":
            put_bits(dst, op.compute(bits(data1).reshape(shape), bits(data2).reshape(shape)))
        elif work.engines == ("gpsimd",) and _whole(dst.layout, data1.layout, data2.layout):
            exact = np.float64 if op is power else np.int64
            found = op.compute(data1.read().reshape(shape).astype(exact),
                               data2.read().reshape(shape).astype(exact))
            dst.put(found if found.dtype.kind == "f" else found.astype(dst.dtype.numpy))  # 32 bits
        else:
            dst.put(op.compute(data1.values().reshape(shape), data2.values().reshape(shape)))
    return issue(core, work, (data1, data2), (dst,), name)


def _whole(*layouts: Layout) -> bool:
    """Whether all tiles are int32 or uint32."""
    return {layout.dtype for layout in layouts} <= _WHOLE_32


@rule
def _tensor_tensor(target: Target, dst: Layout, data1: Layout, data2: Layout, op: Operator,
                   wanted: engine) -> Work:
    what = "tensor_tensor"
    on_generation(what, target, op)
    tiles(what, target, dst, data1=data1, data2=data2)
    not_both_in_psum(what, "data1", data1, "data2", data2)
    allowed: tuple[str, ...] = ("vector", "gpsimd")
    if op.family == "bitvec":
        integers(what, dst, data1, data2)
        allowed = ("vector",)
    elif op is power:
        allowed = ("gpsimd",)
    elif wanted is engine.unknown and _whole(dst, data1, data2):
        in_psum = any(layout.buffer is psum for layout in (dst, data1, data2))
        allowed = ("vector",) if in_psum else ("gpsimd",)
    return Work(what, engines(what, wanted, target, allowed, dst, data1, data2), elements=dst.size)


def tensor_scalar(dst: NkiTensor, data: NkiTensor, op0, operand0, reverse0=False, op1=None,
                  operand1=None, reverse1=False, engine=engine.unknown,
                  name=None) -> NkiInstruction:
    """dst = (data op0 operand0) op1 operand1; an operand is a number or a float32 tile (P, 1).

    reverse0, reverse1: the operand is on the left. On Vector, on Scalar (v3: only x, + and x then
    +; v4: all arithmetic), on GpSimd only with nl.rsqrt. Source: nki.isa.tensor_scalar.
    """
    core = current()
    what = "tensor_scalar"
    op0 = operator(op0, "tensor_scalar: op0")
    op1 = None if op1 is None else operator(op1, "tensor_scalar: op1")
    work = _tensor_scalar(core.target, is_tile(what, "dst", dst), is_tile(what, "data", data), op0,
                          paired(op0, operand0), op1, paired(op1, operand1), engine)
    if core.data:
        read, put = (bits, put_bits) if op0.family == "bitvec" else (values, NkiTensor.put)
        result = applied(op0, read(data), column(operand0, data, read), reverse0)
        if op1 is not None:
            result = applied(op1, result, column(operand1, data, read), reverse1)
        put(dst, result)
    return issue(core, work, (data, operand0, operand1), (dst,), name)


_ON_SCALAR = {(multiply, add), (multiply, None), (add, None)}


@rule
def _tensor_scalar(target: Target, dst: Layout, data: Layout, op0: Operator, operand0: Any,
                   op1: Operator | None, operand1: Any, wanted: engine) -> Work:
    what = "tensor_scalar"
    ops = [op for op in (op0, op1) if op is not None]
    on_generation(what, target, *ops)
    bitvec = same_family(what, *ops)
    tiles(what, target, dst, data=data)
    for role, op, kind in (("operand0", op0, operand0), ("operand1", op1, operand1)):
        second_operand(what, role, op, kind, data, target)
    allowed: tuple[str, ...] = ("vector",)
    if bitvec:
        integers(what, dst, data)
    elif target.generation > 3 or (target.generation == 3 and (op0, op1) in _ON_SCALAR):
        allowed = ("vector", "scalar")
    elif wanted is engine.scalar:
        raise refuse(f"{what}: engine", f"scalar on {target.name}", "there it runs only multiply, "
                     "add, and multiply then add, from NeuronCore-v3 on",
                     "Use nisa.activation, or the Vector Engine")
    if rsqrt in ops:
        allowed = (*allowed, "gpsimd")
    touched = [layout for layout in (dst, data, operand0, operand1) if isinstance(layout, Layout)]
    return Work(what, engines(what, wanted, target, allowed, *touched), elements=dst.size)


def scalar_tensor_tensor(dst: NkiTensor, data: NkiTensor, op0, operand0, op1, operand1: NkiTensor,
                         reverse0=False, reverse1=False, name=None) -> NkiInstruction:
    """dst = (data op0 operand0) op1 operand1: operand0 as in tensor_scalar, operand1 a whole tile.

    Source: nki.isa.scalar_tensor_tensor.
    """
    core = current()
    what = "scalar_tensor_tensor"
    op0 = operator(op0, "scalar_tensor_tensor: op0")
    op1 = operator(op1, "scalar_tensor_tensor: op1", arity=2)
    work = _scalar_tensor_tensor(core.target, is_tile(what, "dst", dst),
                                 is_tile(what, "data", data), op0, paired(op0, operand0), op1,
                                 is_tile(what, "operand1", operand1))
    if core.data:
        first = applied(op0, data.values(), column(operand0, data), reverse0)
        dst.put(applied(op1, first, operand1.values().reshape(first.shape), reverse1))
    return issue(core, work, (data, operand0, operand1), (dst,), name)


@rule
def _scalar_tensor_tensor(target: Target, dst: Layout, data: Layout, op0: Operator, operand0: Any,
                          op1: Operator, operand1: Layout) -> Work:
    what = "scalar_tensor_tensor"
    on_generation(what, target, op0, op1)
    arithmetic(what, op0, op1)
    tiles(what, target, dst, data=data, operand1=operand1)
    not_both_in_psum(what, "data", data, "operand1", operand1)
    second_operand(what, "operand0", op0, operand0, data, target)
    return Work(what, ("vector",), elements=dst.size)


def tensor_copy_predicated(dst: NkiTensor, src, predicate: NkiTensor, reverse_pred=False,
                           name=None) -> NkiInstruction:
    """dst = src (a tile or a number) where predicate is not 0; elsewhere dst keeps its elements.

    Source: nki.isa.tensor_copy_predicated.
    """
    core = current()
    what = "tensor_copy_predicated"
    work = _tensor_copy_predicated(core.target, is_tile(what, "dst", dst), operand(src),
                                   is_tile(what, "predicate", predicate))
    if core.data:
        shape, kind = dst.layout.shape, dst.layout.dtype
        new = src.read().reshape(shape) if isinstance(src, NkiTensor) else dtypes.cast(
            np.asarray(src, np.float32 if kind.kind == "float" else np.int64), kind)
        chosen = (predicate.read() == 0) if reverse_pred else (predicate.read() != 0)
        dst.put(np.where(chosen.reshape(shape), new, dst.read()))
    return issue(core, work, (src, predicate, dst), (dst,), name)


@rule
def _tensor_copy_predicated(target: Target, dst: Layout, src: Any, predicate: Layout) -> Work:
    what = "tensor_copy_predicated"
    tiles(what, target, dst, predicate=predicate)
    one_of(f"{what}: predicate", predicate.dtype, dtypes.uint8, dtypes.uint16, dtypes.uint32)
    if isinstance(src, Layout):
        tiles(what, target, dst, src=src)
        not_both_in_psum(what, "src", src, "predicate", predicate)
        if src.dtype is not dst.dtype:
            raise refuse(f"{what}: src", f"{src.dtype!r}", f"the dtype of dst, {dst.dtype!r}",
                         "Copy it into such a tile with nisa.tensor_copy")
    else:
        number(what, "src", src, bits=dst.dtype.kind == "int")
    return Work(what, ("vector",), elements=dst.size)


def reciprocal(dst: NkiTensor, data: NkiTensor, name=None) -> NkiInstruction:
    """dst = 1 / data. Source: nki.isa.reciprocal."""
    core = current()
    work = _one_input("reciprocal", core.target, is_tile("reciprocal", "dst", dst),
                      is_tile("reciprocal", "data", data))
    if core.data:
        dst.put(np.float32(1) / data.values())
    return issue(core, work, (data,), (dst,), name)


@rule
def _one_input(what: str, target: Target, dst: Layout, data: Layout) -> Work:
    tiles(what, target, dst, data=data)
    return Work(what, ("vector",), elements=dst.size)


# --- reductions --------------------------------------------------------------------------------


def tensor_reduce(dst: NkiTensor, op, data: NkiTensor, axis, negate=False, keepdims=False,
                  name=None) -> NkiInstruction:
    """dst = data reduced over its last free dimensions: axis is one number or several, never 0.

    negate: times -1 (arithmetic operators). Source: nki.isa.tensor_reduce.
    """
    core = current()
    op = operator(op, "tensor_reduce: op", table="reduction")
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = tuple([whole("tensor_reduce", "axis", a) for a in axes])
    work = _tensor_reduce(core.target, is_tile("tensor_reduce", "dst", dst),
                          is_tile("tensor_reduce", "data", data), op, axes, bool(negate),
                          bool(keepdims))
    if core.data:
        if op.family == "bitvec":
            put_bits(dst, _reduced(op, bits(data), len(axes)))
        else:
            result = _reduced(op, data.values(), len(axes)).astype(np.float32, copy=False)
            dst.put(-result if negate else result)
    return issue(core, work, (data,), (dst,), name)


def _reduced(op: Operator, array: np.ndarray, last: int) -> np.ndarray:
    """`array` with its last dimensions reduced to one element."""
    return op.reduce(array.reshape(*array.shape[:array.ndim - last], -1), axis=-1)


@rule
def _tensor_reduce(target: Target, dst: Layout, data: Layout, op: Operator, axes: tuple,
                   negate: bool, keepdims: bool) -> Work:
    what = "tensor_reduce"
    not_packed(what, dst, data)
    streamed(what, "dst", dst, target)
    streamed(what, "data", data, target)
    dims = len(data.shape)
    last = tuple(range(dims - len(axes), dims))
    if tuple(sorted(a + dims if a < 0 else a for a in axes)) != last or not axes or last[0] < 1:
        raise refuse(f"{what}: axis", axes if len(axes) != 1 else axes[0],
                     f"the last free dimensions of {list(data.shape)}, up to {dims - 1}; "
                     "the partition dimension, 0, cannot be reduced",
                     "Sum over partitions with nisa.nc_matmul and a tile of ones"
                     if 0 in axes else "Reorder the free dimensions with data.permute(...)")
    left = data.shape[:last[0]]
    wanted = left + (1,) * len(axes) if keepdims else left
    if (data.P, data.F // int(np.prod(data.shape[last[0]:]))) != (dst.P, dst.F):
        raise refuse(f"{what}: dst", f"{list(dst.shape)}", f"reducing {list(data.shape)} over "
                     f"{last} leaves {list(wanted) if len(wanted) > 1 else [data.P, 1]}")
    if op.family == "bitvec":
        integers(what, dst, data)
        if negate:
            raise refuse(f"{what}: negate", "True",
                         f"it goes with arithmetic operators, not {op!r}")
    return Work(what, ("vector",), elements=data.size)


# --- scans and statistics ----------------------------------------------------------------------


def tensor_tensor_scan(dst: NkiTensor, data0: NkiTensor, data1: NkiTensor, initial, op0, op1,
                       reverse0=False, reverse1=False, name=None) -> NkiInstruction:
    """dst[:, i] = (data0[:, i] op0 dst[:, i - 1]) op1 data1[:, i], from `initial` on, in float32.

    initial: a number or a tile (P, 1). Source: nki.isa.tensor_tensor_scan.
    """
    core = current()
    what = "tensor_tensor_scan"
    op0 = operator(op0, "tensor_tensor_scan: op0", arity=2)
    op1 = operator(op1, "tensor_tensor_scan: op1", arity=2)
    work = _tensor_tensor_scan(core.target, is_tile(what, "dst", dst),
                               is_tile(what, "data0", data0), is_tile(what, "data1", data1),
                               operand(initial), op0, op1)
    if core.data:
        first, second = rows(data0).T.copy(), rows(data1).T.copy()
        start = np.broadcast_to(np.reshape(column(initial, data0), -1), data0.layout.P)

        def step(i: int, before: np.ndarray) -> np.ndarray:
            return applied(op1, applied(op0, first[i], before, reverse0), second[i], reverse1)
        dst.put(scan(step, start, len(first)))
    return issue(core, work, (data0, data1, initial), (dst,), name)


@rule
def _tensor_tensor_scan(target: Target, dst: Layout, data0: Layout, data1: Layout, initial: Any,
                        op0: Operator, op1: Operator) -> Work:
    what = "tensor_tensor_scan"
    on_generation(what, target, op0, op1)
    arithmetic(what, op0, op1)
    tiles(what, target, dst, data0=data0, data1=data1)
    not_both_in_psum(what, "data0", data0, "data1", data1)
    if isinstance(initial, Layout):
        tile(what, "initial", initial, target)
        vector_operand(what, "initial", initial, data0)
    else:
        number(what, "initial", initial)
    return Work(what, ("vector",), elements=dst.size)


def bn_stats(dst: NkiTensor, data: NkiTensor, name=None) -> NkiInstruction:
    """dst (P, 6) = count, mean, variance x count of the even elements, then of the odd ones.

    At most 512 elements a partition (bn_stats_fmax). Source: nki.isa.bn_stats.
    """
    core = current()
    work = _bn_stats(core.target, is_tile("bn_stats", "dst", dst),
                     is_tile("bn_stats", "data", data))
    if core.data:
        dst.put(np.concatenate([_moments(rows(data)[:, at::2]) for at in (0, 1)], axis=1))
    return issue(core, work, (data,), (dst,), name)


def _moments(x: np.ndarray) -> np.ndarray:
    """[P, 3]: count, mean and variance x count of each row; zeros for no element."""
    count = x.shape[1]
    mean = x.sum(axis=1, keepdims=True) / np.float32(max(count, 1))
    spread = np.square(x - mean).sum(axis=1, keepdims=True)
    return np.concatenate([np.full_like(mean, count), mean, spread], axis=1)


@rule
def _bn_stats(target: Target, dst: Layout, data: Layout) -> Work:
    what = "bn_stats"
    not_packed(what, dst, data)
    tile(what, "dst", dst, target)
    tile(what, "data", data, target)
    most = target.bn_stats_fmax
    if data.F > most:
        raise refuse(f"{what}: data", f"{list(data.shape)}",
                     f"at most {most} elements a partition (nl.tile_size.bn_stats_fmax)",
                     f"Split it into {-(-data.F // most)} tiles and aggregate with nisa.bn_aggr")
    shaped(what, "dst", dst, data.P, 6)
    return Work(what, ("vector",), elements=data.size)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name=None) -> NkiInstruction:
    """dst (P, 2) = mean and variance of all that data's triples of bn_stats describe.

    Source: nki.isa.bn_aggr.
    """
    core = current()
    work = _bn_aggr(core.target, is_tile("bn_aggr", "dst", dst), is_tile("bn_aggr", "data", data))
    if core.data:
        count, mean, spread = np.moveaxis(rows(data).reshape(data.layout.P, -1, 3), 2, 0)
        total = count.sum(axis=1)
        center = (count * mean).sum(axis=1) / total
        spread = spread + count * np.square(mean - center[:, None])
        dst.put(np.stack([center, spread.sum(axis=1) / total], axis=1))
    return issue(core, work, (data,), (dst,), name)


@rule
def _bn_aggr(target: Target, dst: Layout, data: Layout) -> Work:
    what = "bn_aggr"
    not_packed(what, dst, data)
    tile(what, "dst", dst, target)
    tile(what, "data", data, target)
    if data.F % 3:
        raise refuse(f"{what}: data", f"{list(data.shape)}",
                     "count, mean, variance x count, so a multiple of 3 elements a partition")
    shaped(what, "dst", dst, data.P, 2)
    return Work(what, ("vector",), elements=data.size)


# --- across partitions -------------------------------------------------------------------------


def nc_stream_shuffle(dst: NkiTensor, src: NkiTensor, shuffle_mask, name=None) -> NkiInstruction:
    """dst[i] = src[shuffle_mask[i]] in each 32 partitions; 255 leaves dst[i] as it is.

    Source: nki.isa.nc_stream_shuffle.
    """
    core = current()
    what = "nc_stream_shuffle"
    mask = tuple([whole(what, "shuffle_mask", m) for m in shuffle_mask])
    work = _stream_shuffle(core.target, is_tile(what, "dst", dst), is_tile(what, "src", src), mask)
    if core.data:
        lanes = [i for i in range(dst.layout.P) if mask[i % 32] != 255]
        kept = dst.read().reshape(dst.layout.P, -1).copy()
        sources = [i // 32 * 32 + mask[i % 32] for i in lanes]
        kept[lanes] = src.read().reshape(src.layout.P, -1)[sources]
        dst.put(kept)
    return issue(core, work, (src, dst) if 255 in mask else (src,), (dst,), name)


@rule
def _stream_shuffle(target: Target, dst: Layout, src: Layout, mask: tuple) -> Work:
    what = "nc_stream_shuffle"
    tile(what, "dst", dst, target)
    tile(what, "src", src, target)
    if len(mask) != 32 or not all(m == 255 or 0 <= m < 32 for m in mask):
        raise refuse(f"{what}: shuffle_mask", list(mask), "32 numbers, each 0 to 31 or 255")
    if dst.dtype is not src.dtype or dst.F != src.F:
        raise refuse(f"{what}: dst", f"{dst!r}", f"the dtype and free elements of src, {src!r}")
    active = -(-max(dst.P, src.P) // 32) * 32
    step = 128 if active > 64 else active
    for role, layout in (("dst", dst), ("src", src)):
        if layout.start % step:
            raise refuse(f"{what}: {role}", f"partition {layout.start}",
                         f"{active} active partitions start at a multiple of {step}")
    for i in range(dst.P):
        if mask[i % 32] != 255 and i // 32 * 32 + mask[i % 32] >= src.P:
            raise refuse(f"{what}: shuffle_mask[{i % 32}]", mask[i % 32],
                         f"partition {i} would copy from {i // 32 * 32 + mask[i % 32]}, and src "
                         f"has {src.P}",
                         "Leave a partition out with 255")
    return Work(what, ("vector",), elements=dst.size)
