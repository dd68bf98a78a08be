"""DMA engines: dma_copy, dma_transpose, dma_compute.

Source  nki.isa.dma_copy, dma_transpose, dma_compute (NKI 0.6); nki-dge
"""

import numpy as np

from .. import dtypes
from ..alu import add
from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, MemoryRegion, NkiTensor
from .checks import is_tile, not_packed, sbuf
from .enums import dge_mode, engine, oob_mode

HBM = (MemoryRegion.private_hbm, MemoryRegion.shared_hbm)
_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_copy(dst: NkiTensor, src: NkiTensor, priority=None, oob_mode=oob_mode.error,
             dge_mode=dge_mode.unknown, engine=engine.unknown, name=None) -> NkiInstruction:
    """dst = src between HBM and SBUF; as many elements, shapes may differ; casts through fp32.

    HBM bytes: src's if it is in HBM, dst's if it is; each in its own dtype.
    Source: nki.isa.dma_copy.
    """
    core = current()
    work = _copy(core.target, is_tile("dma_copy", "dst", dst), is_tile("dma_copy", "src", src),
                 priority, dge_mode, engine, src.indirection is not None and
                 src.indirection.kind == "vector")
    if core.data:
        _move(dst, src, oob_mode)
    return core.emit(work, _read(src, dst), (dst.place,), name)


def _read(src: NkiTensor, dst: NkiTensor) -> tuple:
    """What a transfer reads: src, and the run-time index tiles of either side."""
    index = [t.indirection.index.place for t in (src, dst) if t.indirection is not None
             and isinstance(t.indirection.index, NkiTensor)]
    return (src.place, *index)


def _move(dst: NkiTensor, src: NkiTensor, out_of_bounds: oob_mode) -> None:
    if out_of_bounds is oob_mode.skip and (src.indirection or dst.indirection):
        (to, missed), (origin, absent) = dst.elements(), src.elements()
        inside = ~(missed.reshape(-1) | absent.reshape(-1))
        moved = src.flat()[origin.reshape(-1)[inside]]
        dst.flat()[to.reshape(-1)[inside]] = _cast(moved, src, dst)
        dst.storage.version += 1
    else:
        dst.put(_cast(src.read(), src, dst))


def _cast(values: np.ndarray, src: NkiTensor, dst: NkiTensor) -> np.ndarray:
    """Values of src's dtype in dst's, through float32; the same dtype bit by bit."""
    if src.dtype is dst.dtype:
        return values
    return dtypes.cast(dtypes.to_float32(values, src.dtype), dst.dtype)


@rule
def _copy(target: Target, dst: Layout, src: Layout, priority: int | None, mode: dge_mode,
          issuer: engine, gathers: bool) -> Work:
    what = "dma_copy"
    for role, layout in (("dst", dst), ("src", src)):
        if layout.buffer is MemoryRegion.psum:
            raise refuse(f"{what}: {role}", f"{layout!r}", "DMA reaches HBM and SBUF only",
                         "Copy it to SBUF with nisa.tensor_copy first")
    if dst.size != src.size:
        raise refuse(what, f"dst {list(dst.shape)} = {dst.size} elements, src {list(src.shape)} = "
                     f"{src.size}", "as many elements on both sides")
    if dst.dtype is not src.dtype:
        not_packed(what, dst, src)
    if priority is not None:
        target.need(4, f"{what}: priority")
    if mode is dge_mode.hwdge:
        target.need(3, f"{what}: dge_mode.hwdge")
        if dst.dtype is not src.dtype or gathers:
            raise refuse(f"{what}: dge_mode.hwdge", f"{src.dtype!r} to {dst.dtype!r}" if not gathers
                         else "vector_offset", "the hardware generator neither casts nor gathers",
                         "Use dge_mode.unknown")
    if issuer is not engine.unknown and (mode is not dge_mode.hwdge
                                         or issuer not in (engine.sync, engine.scalar)):
        raise refuse(f"{what}: engine", issuer.name, "sync or scalar, with dge_mode.hwdge only")
    return Work(what, ("dma",))


def dma_transpose(dst: NkiTensor, src: NkiTensor, axes=None, priority=None,
                  dge_mode=dge_mode.unknown, oob_mode=oob_mode.error, name=None) -> NkiInstruction:
    """dst (SBUF) = src with its axes in the order (1, 0), (2, 1, 0) or (3, 1, 2, 0).

    HBM bytes: src's if it is in HBM. Source: nki.isa.dma_transpose.
    """
    core = current()
    order = None if axes is None else tuple(axes)
    gathers = src.indirection is not None if isinstance(src, NkiTensor) else False
    work = _dma_transpose(core.target, is_tile("dma_transpose", "dst", dst),
                          is_tile("dma_transpose", "src", src), order, priority, dge_mode, gathers)
    if core.data:
        dst.put(src.read().transpose(_AXES[src.ndim]))
    return core.emit(work, _read(src, dst), (dst.place,), name)


@rule
def _dma_transpose(target: Target, dst: Layout, src: Layout, axes: tuple | None,
                   priority: int | None, mode: dge_mode, gathers: bool) -> Work:
    what = "dma_transpose"
    order = _AXES.get(len(src.shape))
    if order is None or axes not in (None, order):
        raise refuse(f"{what}: axes", f"{axes} of {len(src.shape)} dimensions",
                     "(1, 0), (2, 1, 0) or (3, 1, 2, 0)")
    if src.buffer is MemoryRegion.psum or dst.buffer is not sbuf:
        raise refuse(what, f"{src.buffer.value} to {dst.buffer.value}", "HBM or SBUF to SBUF")
    if dst.dtype is not src.dtype:
        raise refuse(f"{what}: dst", f"{dst.dtype!r}", f"the dtype of src, {src.dtype!r}")
    wanted = tuple(src.shape[d] for d in order)
    if dst.shape != wanted:
        raise refuse(f"{what}: dst", f"{list(dst.shape)}", f"exactly {list(wanted)}")
    if priority is not None:
        target.need(4, f"{what}: priority")
    legal = (dge_mode.unknown, dge_mode.swdge if gathers else dge_mode.hwdge)
    if mode not in legal:
        raise refuse(f"{what}: dge_mode", mode.name, f"{' or '.join(m.name for m in legal)} here")
    if gathers:
        target.need(3, f"{what}: an indirect source")
    if (gathers or mode is dge_mode.hwdge) and (src.shape[-1] > 128 or src.dtype.itemsize != 2):
        raise refuse(what, f"{src!r}", "a 2-byte dtype and a last dimension of at most 128")
    if mode is dge_mode.hwdge:
        target.need(3, f"{what}: dge_mode.hwdge")
        first = src.shape[0]
        fits = first == 16 if len(src.shape) == 2 else (
            first in (1, 2, 4, 8, 16) and first * src.shape[-2] % 16 == 0)
        if not fits:
            raise refuse(f"{what}: dge_mode.hwdge", f"src {list(src.shape)}",
                         "2-D: 16 rows; 3-D and 4-D: 1, 2, 4, 8 or 16 and shape[0] x shape[-2] a "
                         "multiple of 16", "Use dge_mode.unknown")
    return Work(what, ("dma",))


def dma_compute(dst: NkiTensor, srcs: list[NkiTensor], reduce_op, scales=None, unique_indices=True,
                oob_mode=oob_mode.error, name=None) -> NkiInstruction:
    """dst = srcs[0] + srcs[1] + ... inside the DMA engines, in fp32; nl.add and scales of 1 only.

    Every source is read and dst written, where each lives. Source: nki.isa.dma_compute.
    """
    core = current()
    layouts = tuple([is_tile("dma_compute", "srcs", s) for s in srcs])
    work = _compute(core.target, is_tile("dma_compute", "dst", dst), layouts)
    if reduce_op is not add or any(s != 1.0 for s in scales or ()) or not unique_indices:
        raise refuse("dma_compute", f"reduce_op={reduce_op!r}, scales={scales}",
                     "nl.add, scales of 1.0 and unique indices only")
    if core.data:
        total = sum(dtypes.to_float32(s.read(), s.dtype).reshape(-1) for s in srcs)
        dst.put(np.asarray(total, np.float32))
    reads = tuple([place for s in srcs for place in _read(s, s)])
    return core.emit(work, reads, (dst.place,), name)


@rule
def _compute(target: Target, dst: Layout, srcs: tuple[Layout, ...]) -> Work:
    what = "dma_compute"
    if not 1 <= len(srcs) <= 16:
        raise refuse(f"{what}: srcs", len(srcs), "1 to 16 tensors")
    not_packed(what, dst, *srcs)
    for layout in (dst, *srcs):
        if layout.buffer is MemoryRegion.psum:
            raise refuse(what, f"{layout!r}", "DMA reaches HBM and SBUF only")
        if layout.size != dst.size:
            raise refuse(what, f"{list(layout.shape)}",
                         f"as many elements as dst {list(dst.shape)}")
    return Work(what, ("dma",))
