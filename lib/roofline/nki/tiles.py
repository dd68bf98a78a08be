"""Functions of tiles: nl.add, nl.exp, nl.sum, nl.softmax, nl.matmul and the others.

Question  which instructions does a function of nki.language stand for?
Answer    the plainest of nki.isa; each docstring names them, and the trace shows them
Assumes   where the documents are silent: a new tile in SBUF, of the first tile's dtype; float32
          for steps in between
Ignores   that the compiler may do the same with other instructions, or fewer
Source    nki.language (NKI 0.6); release notes 0.4, known issues: what fails on the device
"""

import builtins
import math
from collections.abc import Callable
from typing import Any

from ..count import Uncounted
from . import alu, dtypes, isa
from .alu import Operator
from .core import current, refuse
from .memory import NkiTensor, allocate
from .views import MemoryRegion

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
_FP32 = dtypes.float32
_NOT_ON_DEVICE = {alu.divide: "nl.multiply(x, nl.reciprocal(y)) has instructions",
                  alu.mod: "Build it from nl.reciprocal, nl.floor, nl.multiply and nl.subtract",
                  alu.fmod: "Build it from nl.reciprocal, nl.trunc, nl.multiply and nl.subtract"}


def _new(what: str, shape: tuple[int, ...], dtype: Any, buffer: MemoryRegion = sbuf) -> NkiTensor:
    return allocate(what, shape, dtype, buffer)


def _scratch(x: NkiTensor, shape: tuple[int, ...] = (), dtype: Any = _FP32) -> NkiTensor:
    """A tile for a step in between, of x's shape unless another is given."""
    return allocate("nki.language", shape or x.shape, dtype, sbuf, "scratch")


def _tile(what: str, role: str, value: Any) -> NkiTensor:
    if not isinstance(value, NkiTensor):
        raise refuse(f"{what}: {role}", repr(value), "a tile")
    return value


def _cast(what: str, tile: NkiTensor, dtype: Any) -> NkiTensor:
    """The tile, or a copy of it where another dtype is asked for."""
    if dtype is None or dtype is tile.dtype:
        return tile
    cast = _new(what, tile.shape, dtype, tile.buffer)
    if cast.dtype is tile.dtype:
        return tile
    isa.tensor_copy(cast, tile)
    return cast


# --- operators ---------------------------------------------------------------------------------


def binary(op: Operator, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x op y: a tensor_tensor of two tiles, a tensor_scalar of a tile and a number.

    Tiles have one shape: broadcasting is a known limitation of NKI 0.4 to 0.6, but for nl.abs_max
    and nl.abs_min, whose documents pair a tile with a (P, 1) one.
    """
    what = f"nl.{op.name}"
    if op in _NOT_ON_DEVICE:
        raise refuse(what, "a call", "no instruction does it, so it fails on the device",
                     _NOT_ON_DEVICE[op])
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        return _of_two(what, op, x, y, dtype)
    tile = _tile(what, "x or y", y if isinstance(y, NkiTensor) else x)
    if op is alu.power:
        raise refuse(what, f"{x!r} to the {y!r}", "two tiles (release notes 0.4)",
                     "Fill a tile with nl.full")
    out = _new(what, tile.shape, dtype or tile.dtype)
    isa.tensor_scalar(out, tile, op, y if tile is x else x, reverse0=tile is y)
    return out


def _of_two(what: str, op: Operator, x: NkiTensor, y: NkiTensor, dtype: Any) -> NkiTensor:
    column = op in (alu.abs_max, alu.abs_min) and y.shape == (x.shape[0], 1)
    if x.shape != y.shape and not column:
        raise refuse(what, f"{list(x.shape)} and {list(y.shape)}", "tiles of one shape: NKI does "
                     "not broadcast here", "Widen one with nl.broadcast_to(y, x.shape), or give "
                     "nisa.tensor_scalar a (P, 1) operand")
    if dtype is None and x.dtype is not y.dtype:
        current().warn(f"{what}: of {x.dtype!r} and {y.dtype!r}, which dtype the result has is not "
                       f"documented; here it is the first's. Say dtype=")
    out = _new(what, x.shape, dtype or x.dtype)
    if x.shape == y.shape:
        isa.tensor_tensor(out, x, y, op)
    else:
        isa.tensor_scalar(out, x, op, y)
    return out


def unary(op: Operator, x: Any, dtype: Any = None) -> NkiTensor:
    """op(x), by one nisa.activation; `_UNARY` has those that are something else."""
    what = f"nl.{op.name}"
    out = _new(what, _tile(what, "x", x).shape, dtype or x.dtype)
    _UNARY.get(op, _activation)(op, out, x)
    return out


def _activation(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.activation(out, op, x)


def _copy(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """On the Vector Engine, bit for bit in one dtype (release notes 0.6)."""
    isa.tensor_copy(out, x, engine=isa.vector_engine)


def _rsqrt(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """On GpSimd, for precision; so not from PSUM (release notes 0.5)."""
    isa.tensor_scalar(out, x, alu.rsqrt, 0.0, engine=isa.gpsimd_engine)


def _reciprocal(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.reciprocal(out, x)


def _negative(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.tensor_scalar(out, x, alu.multiply, -1.0)


def _logical_not(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """XOR with 1, as documented."""
    isa.tensor_scalar(out, x, alu.logical_xor, 1.0)


def _invert(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """XOR with all ones, as documented."""
    isa.tensor_scalar(out, x, alu.bitwise_xor, 2 ** (8 * x.dtype.itemsize) - 1)


# sin and its kin. The Scalar Engine's sine is right from -pi to pi only, and nl.sin reduces the
# range before (documented, but not how): whole turns are subtracted, and what rounding leaves
# outside is clamped. 2 pi in two parts, the first of 8 bits, so that turns times it is exact.
_TURN, _REST = 6.28125, 2 * math.pi - 6.28125


def _reduced(x: NkiTensor) -> NkiTensor:
    """x minus whole turns, in [-pi, pi]: four instructions."""
    turns, angle = _scratch(x, dtype=dtypes.int32), _scratch(x)
    isa.tensor_scalar(turns, x, alu.multiply, 1 / (2 * math.pi))  # rounds to the nearest
    isa.scalar_tensor_tensor(angle, turns, alu.multiply, -_TURN, alu.add, x)
    isa.scalar_tensor_tensor(angle, turns, alu.multiply, -_REST, alu.add, angle)
    isa.tensor_scalar(angle, angle, alu.minimum, math.pi, op1=alu.maximum, operand1=-math.pi)
    return angle


def _sin(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.activation(out, alu.sin, _reduced(x))


def _cos(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """sin(pi/2 - |angle|)."""
    angle = _reduced(x)
    isa.activation(angle, alu.abs, angle)
    isa.tensor_scalar(angle, angle, alu.multiply, -1.0, op1=alu.add, operand1=math.pi / 2)
    isa.activation(out, alu.sin, angle)


def _tan(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """sin / cos: a reciprocal and a product."""
    sine, cosine = _scratch(x), _scratch(x)
    _sin(op, sine, x)
    _cos(op, cosine, x)
    isa.reciprocal(cosine, cosine)
    isa.tensor_tensor(out, sine, cosine, alu.multiply)


# Rounding up and down. A cast to int32 rounds to nearest; how far that is off says which way to go.
# Numbers that int32 does not hold are whole, and so large that the 1 at most changes nothing.


def _past(x: NkiTensor, wrong: Operator) -> NkiTensor:
    """How far x is past its floor (wrong=greater: rounded up) or short of its ceiling (less)."""
    whole, off = _scratch(x, dtype=dtypes.int32), _scratch(x)
    isa.tensor_copy(whole, x)
    isa.tensor_tensor(off, whole, x, alu.subtract)
    isa.scalar_tensor_tensor(off, off, wrong, 0.0,
                             alu.subtract if wrong is alu.greater else alu.add, off)
    isa.tensor_scalar(off, off, alu.minimum, 1.0, op1=alu.maximum, operand1=0.0)
    return off


def _floor(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.tensor_tensor(out, x, _past(x, alu.greater), alu.subtract)


def _ceil(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    isa.tensor_tensor(out, x, _past(x, alu.less), alu.add)


def _trunc(op: Operator, out: NkiTensor, x: NkiTensor) -> None:
    """sign(x) floor(|x|)."""
    size, sign = _scratch(x), _scratch(x)
    isa.activation(size, alu.abs, x)
    _floor(op, size, size)
    isa.activation(sign, alu.sign, x)
    isa.tensor_tensor(out, size, sign, alu.multiply)


_UNARY: dict[Operator, Callable[[Operator, NkiTensor, NkiTensor], None]] = {
    alu.copy: _copy, alu.rsqrt: _rsqrt, alu.reciprocal: _reciprocal, alu.negative: _negative,
    alu.logical_not: _logical_not, alu.invert: _invert, alu.sin: _sin, alu.cos: _cos, alu.tan: _tan,
    alu.floor: _floor, alu.ceil: _ceil, alu.trunc: _trunc}


# --- reductions --------------------------------------------------------------------------------


def _axes(what: str, x: NkiTensor, axis: Any) -> tuple[int, ...]:
    """The dimensions reduced: the last ones, not the partition."""
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    dims = _tile(what, "x", x).ndim
    axes = tuple(sorted(a + dims if a < 0 else a for a in given))
    if not axes or axes[0] < 1 or axes != tuple(range(dims - len(axes), dims)):
        raise refuse(f"{what}: axis", axis, f"the last free dimensions of {list(x.shape)}: "
                     f"{dims - 1}, or several that end with it",
                     "Sum over partitions with nisa.nc_matmul and a tile of ones" * (0 in axes))
    return axes


def _left(x: NkiTensor, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape of a reduction; on chip two dimensions are left."""
    kept = x.shape[:axes[0]] + (1,) * len(axes) * bool(keepdims)
    return kept if len(kept) > 1 else (*kept, 1)


def _reduce(what: str, op: Operator, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    """One tensor_reduce."""
    axes = _axes(what, x, axis)
    out = _new(what, _left(x, axes, keepdims), dtype or x.dtype)
    isa.tensor_reduce(out, op, x, axes, keepdims=keepdims)
    return out


def sum(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """By one tensor_reduce. Source: nki.language.sum."""
    return _reduce("nl.sum", alu.add, x, axis, dtype, keepdims)


def max(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """By one tensor_reduce. Source: nki.language.max."""
    return _reduce("nl.max", alu.maximum, x, axis, dtype, keepdims)


def min(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """By one tensor_reduce. Source: nki.language.min."""
    return _reduce("nl.min", alu.minimum, x, axis, dtype, keepdims)


def prod(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """By one tensor_reduce. Source: nki.language.prod."""
    return _reduce("nl.prod", alu.multiply, x, axis, dtype, keepdims)


def all(x, axis, dtype=None) -> NkiTensor:
    """Logical and, by one tensor_reduce. Source: nki.language.all."""
    return _reduce("nl.all", alu.logical_and, x, axis, dtype, False)


def mean(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """A tensor_reduce in float32 and a tensor_scalar by 1/n. Source: nki.language.mean."""
    axes = _axes("nl.mean", x, axis)
    total = _reduce("nl.mean", alu.add, x, axes, _FP32, keepdims)
    out = _new("nl.mean", total.shape, dtype or x.dtype)
    isa.tensor_scalar(out, total, alu.multiply, total.size / x.size)
    return out


def var(x, axis, dtype=None, keepdims=False) -> NkiTensor:
    """The mean of (x - mean)^2, with the reduced axes kept whatever keepdims says, as documented.

    A mean, a subtraction, a tensor_tensor and a mean. Source: nki.language.var.
    """
    axes = _axes("nl.var", x, axis)
    off = _scratch(x)
    _with_reduced(off, alu.subtract, x, mean(x, axes, _FP32, keepdims=True))
    isa.tensor_tensor(off, off, off, alu.multiply)
    return mean(off, axes, dtype or x.dtype, keepdims=True)


def _with_reduced(out: NkiTensor, op: Operator, x: NkiTensor, reduced: NkiTensor) -> None:
    """out = x op a float32 reduction of x that kept its axes.

    One number a partition is a tensor_scalar's operand; several, a tensor_tensor's broadcast view.
    """
    if reduced.layout.F == 1:
        isa.tensor_scalar(out, x, op, reduced.reshape((reduced.shape[0], 1)))
        return
    for dim, n in enumerate(x.shape):
        if reduced.shape[dim] < n:
            reduced = reduced.broadcast(dim, n)
    isa.tensor_tensor(out, x, reduced, op)


def softmax(x, axis=-1, dtype=None) -> NkiTensor:
    """exp(x - max) / sum: max, subtraction, exp, sum, reciprocal, product; six instructions.

    Source: nki.language.softmax.
    """
    what = "nl.softmax"
    axes = _axes(what, x, axis)
    powers = _scratch(x)
    _with_reduced(powers, alu.subtract, x, _reduce(what, alu.maximum, x, axes, _FP32, True))
    isa.activation(powers, alu.exp, powers)
    total = _reduce(what, alu.add, powers, axes, _FP32, True)
    isa.reciprocal(total, total)
    out = _new(what, x.shape, dtype or x.dtype)
    _with_reduced(out, alu.multiply, powers, total)
    return out


def rms_norm(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None) -> NkiTensor:
    """x / sqrt(sum(x^2) / n + epsilon) w: square, sum, tensor_scalar, rsqrt and two products.

    w has x's shape. Source: nki.language.rms_norm.
    """
    what = "nl.rms_norm"
    axes = _axes(what, x, axis)
    if not isinstance(n, (int, float)) or not n > 0:
        raise refuse(f"{what}: n", repr(n), "a number above 0: how many elements the mean is over")
    scaled = _scratch(x, dtype=compute_dtype or _FP32)
    isa.activation(scaled, alu.square, x)
    scale = _reduce(what, alu.add, scaled, axes, _FP32, True)
    isa.tensor_scalar(scale, scale, alu.multiply, 1 / n, op1=alu.add, operand1=float(epsilon))
    _rsqrt(alu.rsqrt, scale, scale)
    _with_reduced(scaled, alu.multiply, x, scale)
    return _of_two(what, alu.multiply, scaled, _tile(what, "w", w), dtype or x.dtype)


# --- selection and shape -----------------------------------------------------------------------


def where(condition, x, y, dtype=None) -> NkiTensor:
    """x where condition is 1.0, y where it is 0.0: y is copied, the condition too, to uint8, and a
    tensor_copy_predicated takes x; a copy more where x has another dtype than the result.

    Source: nki.language.where.
    """
    what = "nl.where"
    for role, tile in (("condition", condition), ("x", x), ("y", y)):
        _tile(what, role, tile)
    out = _new(what, x.shape, dtype or x.dtype)
    isa.tensor_copy(out, y)
    mask = condition
    if mask.dtype not in (dtypes.uint8, dtypes.uint16, dtypes.uint32):
        mask = _scratch(condition, dtype=dtypes.uint8)
        isa.tensor_copy(mask, condition)
    isa.tensor_copy_predicated(out, _cast(what, x, out.dtype), mask)
    return out


def expand_dims(x, axis) -> NkiTensor:
    """A view with a dimension of size 1 at `axis`. Source: nki.language.expand_dims."""
    return _tile("nl.expand_dims", "x", x).expand_dim(axis)


def broadcast_to(x, shape, dtype=None) -> NkiTensor:
    """x with its dimensions of size 1 repeated; x itself where nothing changes.

    Free dimensions: one tensor_copy of a broadcast view. Partitions: a matmul of a row of ones with
    x for each 512 columns, evicted from PSUM by a tensor_copy. The architecture guide says that
    broadcast_to is this matmul; its 2 P N FLOPs are Tensor Engine work and count as such. No byte
    crosses HBM.
    Source: nki.language.broadcast_to; Trainium/Inferentia2 Architecture Guide, Partition Broadcast.
    """
    what = "nl.broadcast_to"
    shape = tuple(shape)
    if len(shape) != _tile(what, "x", x).ndim or any(
            a not in (1, b) for a, b in zip(x.shape, shape, strict=True)):
        raise refuse(what, f"{list(x.shape)} to {list(shape)}",
                     "as many dimensions, each the same or repeated from 1")
    if shape == x.shape:
        return _cast(what, x, dtype)
    out = _new(what, shape, dtype or x.dtype)
    view = x
    for dim in range(1, x.ndim):
        if x.shape[dim] < shape[dim]:
            view = view.broadcast(dim, shape[dim])
    if x.shape[0] == shape[0]:
        isa.tensor_copy(out, view)
    else:
        _over_partitions(what, out, view)
    return out


def _over_partitions(what: str, out: NkiTensor, x: NkiTensor) -> None:
    """out [P, ...] = x [1, ...] in every partition."""
    if x.dtype.work not in ("bf16", "fp16", "fp32", "tf32", "fp8"):
        raise refuse(what, f"{x.dtype!r} over partitions", "a matmul does it, which takes floats",
                     "Copy x to a float32 tile first, exact to 2^24")
    P = out.shape[0]
    if x.buffer is psum or not x.is_contiguous():
        row = _scratch(x, dtype=x.dtype)
        isa.tensor_copy(row, x)
    else:
        row = x
    row, wide = row.reshape((1, row.layout.F)), out.reshape((P, out.layout.F))
    ones = _scratch(x, (1, P), x.dtype)
    isa.memset(ones, 1.0)
    bank = current().target.psum_bank_bytes // _FP32.itemsize
    for start in range(0, out.layout.F, bank):
        stop = builtins.min(start + bank, out.layout.F)
        product = _new(what, (P, stop - start), _FP32, psum)
        isa.nc_matmul(product, ones, row[:, start:stop], is_stationary_onezero=True)
        isa.tensor_copy(wide[:, start:stop], product)


# --- Tensor Engine and gather ------------------------------------------------------------------


def matmul(x, y, transpose_x=False) -> NkiTensor:
    """x.T @ y as a float32 tile in PSUM, by one nc_matmul: x [K, M], y [K, N].

    transpose_x=False fails on the device (release notes 0.4). Source: nki.language.matmul.
    """
    what = "nl.matmul"
    if not transpose_x:
        raise refuse(what, "transpose_x=False", "a known limitation of NKI 0.4 to 0.6: it fails",
                     "Have x as [K, M] and say transpose_x=True")
    rows, columns = _tile(what, "x", x).layout.F, _tile(what, "y", y).layout.F
    out = _new(what, (rows, columns), _FP32, psum)
    isa.nc_matmul(out, x, y)
    return out


def transpose(x, dtype=None) -> NkiTensor:
    """x.T as a tile in PSUM, by one nc_transpose; a tensor_copy more for another dtype.

    Source: nki.language.transpose.
    """
    what = "nl.transpose"
    if _tile(what, "x", x).ndim != 2:
        raise refuse(f"{what}: x", f"{list(x.shape)}", "two dimensions")
    out = _new(what, x.shape[::-1], x.dtype, psum)
    isa.nc_transpose(out, x)
    return _cast(what, out, dtype)


def gather_flattened(data: NkiTensor, indices: NkiTensor, axis=0, dtype=None) -> NkiTensor:
    """data's flattened free elements at `indices` (uint32), in each partition, by nc_n_gather.

    Raises Uncounted for another axis than 0: what it gathers is not documented.
    Source: nki.language.gather_flattened.
    """
    what = "nl.gather_flattened"
    if axis != 0:
        raise Uncounted(f"{what}: axis={axis!r}: what another axis than 0 gathers is not "
                        "documented. Use nisa.nc_n_gather")
    out = _new(what, _tile(what, "indices", indices).shape, _tile(what, "data", data).dtype)
    isa.nc_n_gather(out, data, indices)
    return _cast(what, out, dtype)
