"""Tensor Engine: nc_matmul and nc_transpose.

Source  nki.isa.nc_matmul, nki.isa.nc_transpose (NKI 0.6)
"""

from functools import lru_cache

import numpy as np

from .. import dtypes
from ..core import Core, NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import FP32, chosen, is_tile, issue, not_packed, psum, sbuf, tile
from .enums import engine, matmul_perf_mode

_INPUTS = (*dtypes.FP8, dtypes.bfloat16, dtypes.float16, dtypes.tfloat32, FP32)
_WIDE = (FP32, dtypes.tfloat32)
_RATE = ("fp8", "bf16", "fp16", "tf32", "fp32")  # the slower of two operand types sets the pace


def nc_matmul(dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, is_stationary_onezero=False,
              is_moving_onezero=False, is_transpose=False, accumulate=None, tile_position=(),
              tile_size=(), perf_mode=matmul_perf_mode.none, name=None) -> NkiInstruction:
    """dst [M, N] = stationary [K, M].T @ moving [K, N], accumulated in fp32 in PSUM.

    W is 2 M N K FLOPs; with is_transpose it moves data and counts as transpose_flops.
    accumulate: False overwrites, True adds, None overwrites on the first write to a location.
    Source: nki.isa.nc_matmul.
    """
    core = current()
    try:  # the innermost call of a tiled kernel: one look at each operand, no more
        work = _matmul(core.target, dst.layout, stationary.layout, moving.layout,
                       bool(is_transpose), perf_mode, tuple(tile_position) if tile_position else (),
                       tuple(tile_size) if tile_size else ())
    except AttributeError:
        for role, operand in (("dst", dst), ("stationary", stationary), ("moving", moving)):
            is_tile("nc_matmul", role, operand)
        raise
    opened = _accumulates(core, dst, accumulate)
    if core.data:
        a, b = stationary.values(), moving.values()
        if a.ndim > 2 or b.ndim > 2:
            rows = work.flops // (2 * dst.layout.size)  # K; of double_row (partition, row of 2)
            a, b = a.reshape(rows, -1), b.reshape(rows, -1)
        _multiply(dst, a, b, opened)
    reads = (stationary.place, moving.place)
    return core.emit(work, (*reads, dst.place) if opened else reads, (dst.place,), name)


def _multiply(dst: NkiTensor, a: np.ndarray, b: np.ndarray, add: bool) -> None:
    dst.storage.version += 1
    whole = dst.array
    if whole.ndim == 2 and whole.dtype == np.float32 and not add:
        np.matmul(a.T, b, out=whole)
        return
    product = (a.T @ b).reshape(whole.shape)
    if add:
        np.add(whole, product, out=whole, casting="unsafe")
    else:
        whole[...] = product


@rule
def _matmul(target: Target, dst: Layout, stationary: Layout, moving: Layout, transpose: bool,
            mode: matmul_perf_mode, position: tuple, size: tuple) -> Work:
    what = "nc_matmul"
    for role, layout, where in (("stationary", stationary, sbuf), ("moving", moving, sbuf),
                                ("dst", dst, psum)):
        tile(what, role, layout, target, where)
    for role, layout in (("stationary", stationary), ("moving", moving)):
        if layout.dtype not in _INPUTS:
            raise refuse(f"{what}: {role}", f"{layout.dtype!r}",
                         f"one of {', '.join(_INPUTS)}", "Cast it while loading: nisa.dma_copy")
        if layout.dtype is dtypes.float8_e4m3fn:
            target.need(4, f"{what}: {role}: float8_e4m3fn")
    kinds = {stationary.dtype, moving.dtype}
    if len(kinds & {*_WIDE}) and kinds - {*_WIDE}:
        raise refuse(what, f"{stationary.dtype!r} x {moving.dtype!r}",
                     "float32 or tfloat32 goes only with float32 or tfloat32", "Cast one of them")
    if kinds == {dtypes.float8_e4m3, dtypes.float8_e4m3fn}:
        raise refuse(what, "float8_e4m3 with float8_e4m3fn", "the two cannot be mixed")
    legal = (FP32,) if target.generation < 4 else (FP32, dtypes.bfloat16)
    if transpose and target.generation > 2:
        legal = (*legal, stationary.dtype)
    if dst.dtype not in legal:
        raise refuse(f"{what}: dst", f"{dst.dtype!r}", f"on {target.name} PSUM takes "
                     f"{' or '.join(legal)}", "Cast while evicting: nisa.tensor_copy")
    K, M, N = stationary.P, stationary.F, moving.F
    rows, columns = _array_tile(target, position, size, mode)
    double = mode is matmul_perf_mode.double_row
    if double:
        K, M, N = _double_row(target, stationary, moving, transpose)
    if moving.P != stationary.P:
        raise refuse(what, f"stationary {list(stationary.shape)}, moving {list(moving.shape)}",
                     "the contraction (partition) sizes must be equal")
    if stationary.P > rows:
        raise refuse(f"{what}: stationary", f"{list(stationary.shape)}",
                     f"a contraction of at most {rows} rows", f"Split K into {-(-K // rows)} tiles")
    if M > columns:
        raise refuse(f"{what}: stationary", f"{list(stationary.shape)}",
                     f"its free dim may be at most {columns} (gemm_stationary_fmax)",
                     f"Split M into {-(-M // columns)} tiles")
    most = target.moving_fmax
    if target.generation > 3:  # nc_matmul: all banks of PSUM, 4096 in fp32 and 8192 in bf16
        most = target.psum_partition_bytes // dst.dtype.itemsize
    if N > most:
        raise refuse(f"{what}: moving", f"{list(moving.shape)}",
                     f"its free dim may be at most {most} (gemm_moving_fmax)",
                     f"Split N into {-(-N // most)} tiles")
    if (dst.P, dst.F) != (M, N):
        raise refuse(f"{what}: dst", f"{list(dst.shape)}",
                     f"stationary {list(stationary.shape)} and moving {list(moving.shape)} give "
                     f"[{M}, {N}]")
    _one_bank(what, dst, target)
    slower = max((_RATE.index(d.work) for d in kinds), default=0)
    return Work(what, ("tensor",), 2 * K * M * N, _RATE[slower], transpose, dst.size)


def _one_bank(what: str, dst: Layout, target: Target) -> None:
    """On v2 and v3 the output of one matmul lies in one PSUM bank."""
    bank, last = target.psum_bank_bytes, _end(dst) - 1
    if target.generation < 4 and dst.first // bank != last // bank:
        raise refuse(f"{what}: dst", f"bytes {dst.first} to {last} of a partition",
                     f"one matmul writes into one PSUM bank of {bank} B on {target.name}",
                     "Let each output tile start at a bank")


def _array_tile(target: Target, position: tuple, size: tuple,
                mode: matmul_perf_mode) -> tuple[int, int]:
    """Rows and columns of the array that the matmul may use (row and column tiling)."""
    what, pmax = "nc_matmul", target.pmax
    if not position and not size:
        return pmax, target.stationary_fmax
    if not (len(position) == len(size) == 2):
        raise refuse(what, f"tile_position={position}, tile_size={size}",
                     "both are (row, column), or neither is given")
    least = 64 if target.generation < 3 else 32
    for n, at in zip(size, position, strict=True):
        if n not in (least, 64, pmax) or at % n or not 0 <= at < pmax:
            raise refuse(what, f"tile_position={position}, tile_size={size}",
                         f"a size of {least}, 64 or {pmax}, starting at a multiple of it below "
                         f"{pmax}")
    if mode is matmul_perf_mode.double_row and size[1] != pmax:
        raise refuse(what, "double_row with column tiling", "the two cannot be combined")
    return size[0], size[1]


def _double_row(target: Target, stationary: Layout, moving: Layout,
                transpose: bool) -> tuple[int, int, int]:
    """K, M and N of FP8 double row mode: operands (P, 2, M) and (P, 2, N)."""
    what = "nc_matmul: double_row"
    target.need(3, what)
    for role, layout in (("stationary", stationary), ("moving", moving)):
        if layout.dtype not in dtypes.FP8 or len(layout.shape) != 3 or layout.shape[1] != 2:
            raise refuse(f"{what}: {role}", f"{layout!r}", "a float8 tile of shape (P, 2, free)")
    if transpose:
        raise refuse(what, "is_transpose=True", "double_row does not transpose")
    return 2 * stationary.P, stationary.shape[2], moving.shape[2]


def _accumulates(core: Core, dst: NkiTensor, accumulate: bool | None) -> bool:
    """Whether this matmul adds to what PSUM holds. Keeps account of what a matmul has written."""
    storage = dst.storage
    region = (dst.layout, dst.offset)
    written = region in storage.opened
    if written and not (storage.filled or storage.evicted):  # the usual case, and at once
        return accumulate is None or bool(accumulate)
    if not written and storage.opened:
        share = _overlap(dst)
        if share and (share < 1 or accumulate is None):
            core.warn(f"nc_matmul: {dst.name}: a region that earlier matmuls wrote in other "
                      "shapes; accumulate=None is decided element by element here, as nki.simulate "
                      "does")
        if accumulate is None and 0 < share < 1:
            _zero_unopened(dst)
        written = share > 0 if accumulate is None else share == 1
    storage.opened[region] = None
    adds = written if accumulate is None else bool(accumulate)
    if accumulate and not written:
        core.warn(f"nc_matmul: {dst.name}: accumulate=True on a PSUM location that no matmul has "
                  "written: undefined on the device. Start with accumulate=False, or leave it out")
    if storage.filled or storage.evicted:
        _after_other_engines(core, dst, accumulate, adds)
    return adds


def _after_other_engines(core: Core, dst: NkiTensor, accumulate: bool | None, adds: bool) -> None:
    """Warn where another engine read or wrote what this matmul writes; forget what it ends."""
    storage = dst.storage
    filled = [at for at in storage.filled if _touch(at, dst.layout)]
    evicted = [at for at in storage.evicted if _touch(at, dst.layout)]
    if filled and (accumulate is None or (adds and core.target.generation < 4)):
        core.warn(f"nc_matmul: {dst.name}: a PSUM location that {storage.filled[filled[0]]} has "
                  + ("written: accumulating onto it is undefined on NeuronCore-v2 and v3" if adds
                     else "written: whether accumulate=None overwrites it is not documented, and "
                     "adding to it is undefined on NeuronCore-v2 and v3")
                  + ". Let a matmul write it first, with accumulate=False")
    elif evicted and adds and accumulate is None:
        core.warn(f"nc_matmul: {dst.name}: a PSUM tile is written again after it was read; whether "
                  "that resets the automatic accumulation is not documented. Allocate a fresh "
                  "tile, or say accumulate=(k > 0)")
    if not adds:
        for at in filled:
            del storage.filled[at]
        for at in evicted:
            del storage.evicted[at]


@lru_cache(maxsize=1 << 12)
def _touch(one: Layout, other: Layout) -> bool:
    """Whether two views of one PSUM tile share a partition and a stretch of bytes."""
    return (one.start < other.start + other.P and other.start < one.start + one.P
            and one.first < _end(other) and other.first < _end(one))


def _end(layout: Layout) -> int:
    """The byte of a partition after the view's last."""
    last = sum((n - 1) * s for n, s in zip(layout.shape[1:], layout.strides[1:], strict=True))
    return layout.first + (last + 1) * layout.dtype.itemsize


def _mask(dst: NkiTensor) -> tuple[np.ndarray, np.ndarray]:
    """One flag an element of the allocation: written by a matmul; and dst's view of them."""
    own = dst.storage.allocation
    flags = np.zeros(own.nbytes // dst.dtype.itemsize, bool)

    def at(layout: Layout, offset: int) -> np.ndarray:
        return np.ndarray(layout.shape, bool, flags.data, offset, layout.strides)

    for layout, offset in dst.storage.opened:
        at(layout, offset)[...] = True
    return flags, at(dst.layout, dst.offset)


def _overlap(dst: NkiTensor) -> float:
    """Share of dst's elements that matmuls have written."""
    return float(_mask(dst)[1].mean())


def _zero_unopened(dst: NkiTensor) -> None:
    """Elements no matmul has written start from 0, so that adding overwrites them."""
    if dst.storage.raw is not None:
        dst.array[~_mask(dst)[1]] = 0


def nc_transpose(dst: NkiTensor, data: NkiTensor, engine=engine.unknown,
                 name=None) -> NkiInstruction:
    """dst [F, P] = data [P, F].T: Tensor Engine, SBUF to PSUM; or Vector Engine, 32 x 32 at most.

    On the Tensor Engine it is a matmul with an identity: 2 P F P FLOPs, counted as transposes.
    Source: nki.isa.nc_transpose.
    """
    core = current()
    work = _transpose(core.target, is_tile("nc_transpose", "dst", dst),
                      is_tile("nc_transpose", "data", data), engine)
    if core.data:
        dst.put(data.array.reshape(data.layout.P, -1).T)
    if work.engines == ("tensor",):
        dst.storage.opened[dst.layout, dst.offset] = None
        return core.emit(work, (data.place,), (dst.place,), name)
    return issue(core, work, (data,), (dst,), name)


@rule
def _transpose(target: Target, dst: Layout, data: Layout, wanted: engine) -> Work:
    what = "nc_transpose"
    not_packed(what, dst, data)
    tile(what, "data", data, target)
    tile(what, "dst", dst, target)
    on_tensor = data.buffer is sbuf and dst.buffer is psum and data.F <= target.stationary_fmax
    on_vector = max(data.P, data.F) <= 32
    allowed = ("tensor",) * on_tensor + ("vector",) * on_vector
    if not allowed:
        raise refuse(what, f"data {data!r}, dst {dst!r}",
                     f"the Tensor Engine reads at most [{target.pmax}, {target.stationary_fmax}] "
                     "from SBUF and writes PSUM; the Vector Engine takes at most [32, 32]",
                     "Split the tile, or let dst be a PSUM tile")
    engines = chosen(what, wanted, *allowed)
    if dst.dtype is not data.dtype:
        raise refuse(f"{what}: dst", f"{dst.dtype!r}", f"the dtype of data, {data.dtype!r}")
    if (dst.P, dst.F) != (data.F, data.P):
        raise refuse(f"{what}: dst", f"{list(dst.shape)}", f"[{data.F}, {data.P}]")
    if engines != ("tensor",):
        return Work(what, engines, elements=data.size)
    _one_bank(what, dst, target)
    # stationary: data [P, F]; moving: an identity [P, P]
    kind = data.dtype.work if data.dtype.work in _RATE else "fp32"
    return Work(what, engines, 2 * data.P * data.F * data.P, kind, True, data.size)
