"""Vector Engine: the eight largest elements of a partition, and where values stand.

Source  nki.isa.max8, nc_find_index8, nc_match_replace8 (NKI 0.6)
"""

import numpy as np

from .. import dtypes
from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import at_most, is_tile, issue, not_packed, number, one_of, shaped, tile, tiles
from .values import rows


def max8(dst: NkiTensor, src: NkiTensor, name=None) -> NkiInstruction:
    """dst (P, 8) = the 8 largest of each partition, largest first. Source: nki.isa.max8."""
    core = current()
    work = _max8(core.target, is_tile("max8", "dst", dst), is_tile("max8", "src", src))
    if core.data:
        dst.put(-np.sort(-rows(src), axis=1)[:, :8])
    return issue(core, work, (src,), (dst,), name)


@rule
def _max8(target: Target, dst: Layout, src: Layout) -> Work:
    what = "max8"
    _eight(what, "src", src, target)
    tile(what, "dst", dst, target)
    not_packed(what, dst)
    if len(dst.shape) != 2:
        raise refuse(f"{what}: dst", f"{list(dst.shape)}", f"[{src.P}, 8]")
    shaped(what, "dst", dst, src.P, 8)
    return Work(what, ("vector",), elements=src.size)


def _eight(what: str, role: str, data: Layout, target: Target) -> None:
    """The tile that an 8-value instruction searches."""
    not_packed(what, data)
    tile(what, role, data, target)
    at_most(what, role, data, 3)
    if not 8 <= data.F <= 16384:
        raise refuse(f"{what}: {role}", f"{list(data.shape)}", "8 to 16,384 elements a partition")


def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name=None) -> NkiInstruction:
    """dst (P, 8), uint16 or uint32 = where each of vals (P, 8) first stands in data, from 0.

    The nth of equal vals finds the nth place; all ones where there is none.
    Source: nki.isa.nc_find_index8; nki.isa.nc_match_replace8 (equal vals).
    """
    core = current()
    what = "nc_find_index8"
    work = _find_index8(core.target, is_tile(what, "dst", dst), is_tile(what, "data", data),
                        is_tile(what, "vals", vals))
    if core.data:
        at, _ = _matches(rows(data), rows(vals), range(8))
        dst.put(at.astype(dst.dtype.numpy))
    return issue(core, work, (data, vals), (dst,), name)


def nc_match_replace8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, imm,
                      dst_idx: NkiTensor | None = None, name=None) -> NkiInstruction:
    """dst = data with the first place of each of vals (P, 8) replaced by the number imm.

    dst_idx (P, 8) gets the places; vals are taken from the last to the first, so the last of equal
    ones finds the first place. Where there is none dst_idx gets all ones, as in nc_find_index8
    (not documented). Source: nki.isa.nc_match_replace8.
    """
    core = current()
    what = "nc_match_replace8"
    out = None if dst_idx is None else is_tile(what, "dst_idx", dst_idx)
    work = _match_replace8(core.target, is_tile(what, "dst", dst), is_tile(what, "data", data),
                           is_tile(what, "vals", vals), type(imm), out)
    if core.data:
        at, taken = _matches(rows(data), rows(vals), range(7, -1, -1))
        dst.put(np.where(taken, np.float32(imm), rows(data)))
        if dst_idx is not None:
            dst_idx.put(at.astype(dst_idx.dtype.numpy))
    return issue(core, work, (data, vals), (dst, dst_idx), name)


def _matches(data: np.ndarray, vals: np.ndarray, order: range) -> tuple[np.ndarray, np.ndarray]:
    """[P, 8]: the place of each value, -1 without one; [P, F]: which are taken, in `order`."""
    at = np.full(vals.shape, -1, np.int64)
    taken = np.zeros(data.shape, bool)
    lanes = np.arange(len(data))
    for i in order:
        free = (data == vals[:, i:i + 1]) & ~taken
        place = free.argmax(axis=1)
        found = free[lanes, place]
        at[found, i] = place[found]
        taken[lanes[found], place[found]] = True
    return at, taken


@rule
def _find_index8(target: Target, dst: Layout, data: Layout, vals: Layout) -> Work:
    what = "nc_find_index8"
    _eight(what, "data", data, target)
    tile(what, "vals", vals, target)
    not_packed(what, vals)
    at_most(what, "vals", vals, 3)
    tile(what, "dst", dst, target)
    shaped(what, "vals", vals, data.P, 8)
    shaped(what, "dst", dst, data.P, 8)
    one_of(f"{what}: dst", dst.dtype, dtypes.uint16, dtypes.uint32)
    return Work(what, ("vector",), elements=data.size)


@rule
def _match_replace8(target: Target, dst: Layout, data: Layout, vals: Layout, imm: type,
                    out: Layout | None) -> Work:
    what = "nc_match_replace8"
    _eight(what, "data", data, target)
    tiles(what, target, dst, data=data)
    tile(what, "vals", vals, target)
    not_packed(what, vals)
    at_most(what, "vals", vals, 3)
    shaped(what, "vals", vals, data.P, 8)
    number(what, "imm", imm)
    if out is not None:
        tile(what, "dst_idx", out, target)
        shaped(what, "dst_idx", out, data.P, 8)
        one_of(f"{what}: dst_idx", out.dtype, dtypes.uint16, dtypes.uint32)
    return Work(what, ("vector",), elements=data.size)


