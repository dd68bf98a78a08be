"""GpSimd: patterns, masks, gathers and reductions across partitions. It reaches SBUF alone.

Integers are exact; a tile is copied bit for bit into its own type.

Source  nki.isa.iota, affine_select, nc_n_gather, local_gather, tensor_partition_reduce,
        sequence_bounds, nonzero_with_count (NKI 0.6)
"""

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from .. import dtypes
from ..alu import (
    Operator,
    add,
    average,
    bitwise_and,
    bitwise_or,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    not_equal,
)
from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import (
    FP32,
    integers,
    is_tile,
    issue,
    not_packed,
    number,
    one_of,
    same_size,
    sbuf,
    shaped,
    tile,
    whole,
)
from .values import bits, put_bits, rows

_CORE = 16  # partitions that one of the eight GpSimd cores is wired to


def iota(dst: NkiTensor, pattern, offset=0, channel_multiplier=0, name=None) -> NkiInstruction:
    """dst[p, i, j, ...] = offset + p channel_multiplier + i step_i + j step_j ..., in int32.

    pattern: up to four [step, number], outermost first. Source: nki.isa.iota.
    """
    core = current()
    steps = _pattern("iota", pattern)
    work = _iota(core.target, is_tile("iota", "dst", dst), steps, whole("iota", "offset", offset),
                 whole("iota", "channel_multiplier", channel_multiplier))
    if core.data:
        dst.put(_affine(steps, offset, channel_multiplier, dst.layout.P))
    return issue(core, work, (), (dst,), name)


def _pattern(what: str, pattern: Any) -> tuple[tuple[int, int], ...]:
    """[[step, number], ...] as tuples of integers."""
    try:
        return tuple((index(step), index(count)) for step, count in pattern)
    except (TypeError, ValueError):
        raise refuse(f"{what}: pattern", repr(pattern),
                     "a list of [step, number] pairs of whole numbers") from None


def _affine(steps: Sequence[tuple[int, int]], offset: int, per_partition: int,
            P: int) -> np.ndarray:
    """int32 [P, elements]: the value of an affine pattern at each place; it wraps at 32 bits."""
    total = offset + per_partition * np.arange(P, dtype=np.int64).reshape(P, 1)
    for step, count in steps:
        total = (total[..., None] + step * np.arange(count, dtype=np.int64)).reshape(P, -1)
    return total.astype(np.int32)


def _fits(what: str, steps: tuple, dst: Layout, **int32: int) -> None:
    """An affine pattern has at most four dimensions and dst's elements."""
    if not 1 <= len(steps) <= 4 or any(count < 1 for _, count in steps):
        raise refuse(f"{what}: pattern", [list(s) for s in steps],
                     "one to four [step, number] pairs, each number at least 1")
    if math.prod(count for _, count in steps) != dst.F:
        raise refuse(f"{what}: pattern", [list(s) for s in steps],
                     f"numbers whose product is the {dst.F} elements a partition of dst")
    for role, value in int32.items():
        if not -2**31 <= value < 2**31:
            raise refuse(f"{what}: {role}", value, "a 32-bit integer")


@rule
def _iota(target: Target, dst: Layout, steps: tuple, offset: int,
          channel_multiplier: int) -> Work:
    what = "iota"
    _in_sbuf(what, target, dst=dst)
    _fits(what, steps, dst, offset=offset, channel_multiplier=channel_multiplier)
    return Work(what, ("gpsimd",), elements=dst.size)


def _in_sbuf(what: str, target: Target, **layouts: Layout) -> None:
    """Every tile is in SBUF and holds no packed type."""
    for role, layout in layouts.items():
        tile(what, role, layout, target, sbuf)
        not_packed(what, layout)


def affine_select(dst: NkiTensor, pattern, channel_multiplier, on_true_tile: NkiTensor,
                  on_false_value, cmp_op=equal, offset=0, name=None) -> NkiInstruction:
    """dst = on_true_tile where iota's value cmp_op 0 holds, elsewhere the number on_false_value.

    Source: nki.isa.affine_select.
    """
    core = current()
    what = "affine_select"
    steps = _pattern(what, pattern)
    work = _affine_select(core.target, is_tile(what, "dst", dst),
                          is_tile(what, "on_true_tile", on_true_tile), steps,
                          whole(what, "channel_multiplier", channel_multiplier),
                          type(on_false_value), cmp_op, whole(what, "offset", offset))
    if core.data:
        kind = dst.layout.dtype
        data = on_true_tile.read() if on_true_tile.layout.dtype is kind else dtypes.cast(
            on_true_tile.values(), kind)
        other = dtypes.cast(np.full(1, on_false_value, np.float32), kind)
        place = _affine(steps, offset, channel_multiplier, dst.layout.P)
        dst.put(np.where(cmp_op.compute(place, 0) != 0, data.reshape(place.shape), other))
    return issue(core, work, (on_true_tile,), (dst,), name)


@rule
def _affine_select(target: Target, dst: Layout, data: Layout, steps: tuple, channel_multiplier: int,
                   on_false: type, cmp_op: Any, offset: int) -> Work:
    what = "affine_select"
    _in_sbuf(what, target, dst=dst, on_true_tile=data)
    same_size(what, "on_true_tile", data, "dst", dst)
    _fits(what, steps, dst, offset=offset, channel_multiplier=channel_multiplier)
    number(what, "on_false_value", on_false)
    one_of(f"{what}: cmp_op", cmp_op, equal, not_equal, greater, greater_equal, less, less_equal)
    return Work(what, ("gpsimd",), elements=dst.size)


def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name=None) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]] among the flattened free elements of each partition.

    Source: nki.isa.nc_n_gather.
    """
    core = current()
    what = "nc_n_gather"
    work = _n_gather(core.target, is_tile(what, "dst", dst), is_tile(what, "data", data),
                     is_tile(what, "indices", indices))
    if core.data:
        P = data.layout.P
        at = indices.read().reshape(P, -1).astype(np.int64)
        _inside(what, at, data.layout.F)
        dst.put(np.take_along_axis(data.read().reshape(P, -1), at, axis=1))
    return issue(core, work, (data, indices), (dst,), name)


def _inside(what: str, at: np.ndarray, limit: int) -> None:
    """Every index is one of the elements of a partition."""
    if at.min() < 0 or at.max() >= limit:
        raise refuse(f"{what}: index", int(at.max()), f"a partition has {limit} elements")


@rule
def _n_gather(target: Target, dst: Layout, data: Layout, indices: Layout) -> Work:
    what = "nc_n_gather"
    _in_sbuf(what, target, dst=dst, data=data, indices=indices)
    one_of(f"{what}: indices", indices.dtype, dtypes.uint32)
    same_size(what, "indices", indices, "dst", dst)
    if data.P != dst.P or data.dtype is not dst.dtype:
        raise refuse(f"{what}: data", f"{data!r}", f"the dtype and partitions of dst, {dst!r}")
    return Work(what, ("gpsimd",), elements=dst.size)


def local_gather(dst: NkiTensor, src_buffer: NkiTensor, index: NkiTensor, num_elem_per_idx=1,
                 num_valid_indices=None, name=None) -> NkiInstruction:
    """Each 16 partitions gather by a list of indices of their own, all 16 by the same one.

    The list is their part of `index`, column after column; an index is the first of
    num_elem_per_idx neighbouring elements of a partition of src_buffer.
    Source: nki.isa.local_gather and its example.
    """
    core = current()
    what = "local_gather"
    work = _local_gather(core.target, is_tile(what, "dst", dst),
                         is_tile(what, "src_buffer", src_buffer), is_tile(what, "index", index),
                         whole(what, "num_elem_per_idx", num_elem_per_idx),
                         None if num_valid_indices is None
                         else whole(what, "num_valid_indices", num_valid_indices))
    if core.data:
        P = index.layout.P
        lists = index.read().reshape(P // _CORE, _CORE, -1).swapaxes(1, 2).reshape(P // _CORE, -1)
        lists = lists[:, :num_valid_indices, None].astype(np.int64) + np.arange(num_elem_per_idx)
        _inside(what, lists, src_buffer.layout.F)
        at = np.repeat(lists.reshape(P // _CORE, -1), _CORE, axis=0)
        dst.put(np.take_along_axis(src_buffer.read().reshape(P, -1), at, axis=1))
    return issue(core, work, (src_buffer, index), (dst,), name)


@rule
def _local_gather(target: Target, dst: Layout, source: Layout, index: Layout, width: int,
                  valid: int | None) -> Work:
    what = "local_gather"
    _in_sbuf(what, target, dst=dst, src_buffer=source, index=index)
    one_of(f"{what}: index", index.dtype, dtypes.uint16)
    one_of(f"{what}: num_elem_per_idx", width, 1, 2, 4, 8, 16, 32)
    if source.P != index.P or source.P % _CORE:
        raise refuse(f"{what}: index", f"{list(index.shape)}, src_buffer {list(source.shape)}",
                     "as many partitions as src_buffer, a multiple of 16")
    listed = _CORE * index.F
    used = listed if valid is None else valid
    if not 1 <= used <= min(listed, 4096):
        raise refuse(f"{what}: num_valid_indices", used,
                     f"1 to {min(listed, 4096)} indices for each 16 partitions")
    shaped(what, "dst", dst, source.P, used * width)
    if source.dtype is not dst.dtype:
        raise refuse(f"{what}: dst", f"{dst.dtype!r}", f"the dtype of src_buffer, {source.dtype!r}")
    return Work(what, ("gpsimd",), elements=dst.size)


def tensor_partition_reduce(dst: NkiTensor, op, data: NkiTensor, name=None) -> NkiInstruction:
    """dst (1, free) = data reduced over its partitions.

    op: nl.add, average, maximum, bitwise_or or bitwise_and.
    Source: nki.isa.tensor_partition_reduce.
    """
    core = current()
    what = "tensor_partition_reduce"
    work = _partition_reduce(core.target, is_tile(what, "dst", dst), op,
                             is_tile(what, "data", data))
    if core.data:
        if op.family == "bitvec":
            put_bits(dst, op.reduce(bits(data).reshape(data.layout.P, -1), axis=0))
        else:
            dst.put(op.reduce(rows(data), axis=0))
    return issue(core, work, (data,), (dst,), name)


@rule
def _partition_reduce(target: Target, dst: Layout, op: Operator, data: Layout) -> Work:
    what = "tensor_partition_reduce"
    one_of(f"{what}: op", op, add, average, maximum, bitwise_or, bitwise_and)
    _in_sbuf(what, target, dst=dst, data=data)
    if op.family == "bitvec":
        integers(what, dst, data)
    shaped(what, "dst", dst, 1, data.F)
    return Work(what, ("gpsimd",), elements=data.size)


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name=None) -> NkiInstruction:
    """dst (1, 2, n) = first and past-the-end index of the run of equal ids at each of n elements.

    An id of 0 is padding: n and -1. Source: nki.isa.sequence_bounds and its example.
    """
    core = current()
    what = "sequence_bounds"
    work = _sequence_bounds(core.target, is_tile(what, "dst", dst),
                            is_tile(what, "segment_ids", segment_ids))
    if core.data:
        ids = segment_ids.read().reshape(-1)
        n = len(ids)
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        run = np.repeat(np.arange(len(starts)), np.diff(starts, append=n))
        ends = np.append(starts[1:], n)
        dst.put(np.where(ids == 0, [[n], [-1]], np.stack([starts[run], ends[run]])))
    return issue(core, work, (segment_ids,), (dst,), name)


@rule
def _sequence_bounds(target: Target, dst: Layout, ids: Layout) -> Work:
    what = "sequence_bounds"
    _in_sbuf(what, target, dst=dst, segment_ids=ids)
    for role, layout in (("dst", dst), ("segment_ids", ids)):
        one_of(f"{what}: {role}", layout.dtype, FP32, dtypes.int32)
    if ids.P != 1:
        raise refuse(f"{what}: segment_ids", f"{list(ids.shape)}", "one partition")
    if dst.shape != (1, 2, ids.F):
        raise refuse(f"{what}: dst", f"{list(dst.shape)}", f"[1, 2, {ids.F}]")
    return Work(what, ("gpsimd",), elements=ids.size)


def nonzero_with_count(dst: NkiTensor, src: NkiTensor, index_offset=0, padding_val=-1,
                       name=None) -> NkiInstruction:
    """dst (P, T + 1) = where src (P, T) is not 0, then padding, and last how often; v3 on.

    Only partitions 0, 16, 32, ... are read and written. Source: nki.isa.nonzero_with_count.
    """
    core = current()
    what = "nonzero_with_count"
    whole(what, "index_offset", index_offset)
    whole(what, "padding_val", padding_val)
    work = _nonzero(core.target, is_tile(what, "dst", dst), is_tile(what, "src", src))
    if core.data:
        written = dst.read().reshape(dst.layout.P, -1).copy()
        data = src.read().reshape(src.layout.P, -1)
        for p in range(0, len(data), _CORE):
            found = np.flatnonzero(data[p])
            written[p] = padding_val
            written[p, :len(found)] = found + index_offset
            written[p, -1] = len(found)
        dst.put(written)
    return issue(core, work, (src,), (dst,), name)


@rule
def _nonzero(target: Target, dst: Layout, src: Layout) -> Work:
    what = "nonzero_with_count"
    target.need(3, what)
    _in_sbuf(what, target, dst=dst, src=src)
    one_of(f"{what}: src", src.dtype, FP32, dtypes.int32)
    one_of(f"{what}: dst", dst.dtype, dtypes.int32)
    shaped(what, "dst", dst, src.P, src.F + 1)
    return Work(what, ("gpsimd",), elements=-(-src.P // _CORE) * src.F)
