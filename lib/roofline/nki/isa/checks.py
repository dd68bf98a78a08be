"""What the engines ask of their operands: shared by the instructions of this package.

Source  nki.isa; Trainium/Inferentia2 Architecture Guide, Accessing SBUF/PSUM; release notes 0.6
"""

from typing import Any

import numpy as np

from .. import dtypes
from ..alu import Operator, Unary, abs_max, abs_min
from ..core import Core, NkiInstruction, Target, Work, refuse
from ..memory import Layout, MemoryRegion, NkiTensor
from .enums import engine, reduce_cmd

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
ENGINES = {engine.tensor: "tensor", engine.vector: "vector", engine.scalar: "scalar",
           engine.gpsimd: "gpsimd"}


def tile(what: str, role: str, layout: Layout, target: Target, *where: MemoryRegion) -> None:
    """The operand lives where it may and starts at a partition an engine can reach."""
    allowed = where or (sbuf, psum)
    if layout.buffer not in allowed:
        hint = ("Copy it with nisa.tensor_copy" if layout.buffer in (sbuf, psum)
                else "Bring it there with nisa.dma_copy")
        if role == "dst":
            hint = f"Allocate it with buffer=nl.{allowed[0].value}"
        raise refuse(f"{what}: {role}", f"{layout!r}",
                     f"it must be in {' or '.join(r.value for r in allowed)}", hint)
    if target.pmax < layout.P:
        raise refuse(f"{what}: {role}", f"{layout!r}", f"at most {target.pmax} partitions (pmax)")
    step = 128 if layout.P > 64 else 64 if layout.P > 32 else 32
    if layout.start % step:
        raise refuse(f"{what}: {role}", f"{layout.P} partitions from partition {layout.start}",
                     f"a tile of {layout.P} partitions starts at a multiple of {step}",
                     "Start it there, or copy it with nisa.dma_copy")


def same_size(what: str, role: str, layout: Layout, other_role: str, other: Layout) -> None:
    """As many partitions, and as many elements in each."""
    if (layout.P, layout.F) != (other.P, other.F):
        raise refuse(f"{what}: {role}", f"{list(layout.shape)}",
                     f"{other_role} is {list(other.shape)}: as many partitions and as many "
                     "elements in each")


def not_both_in_psum(what: str, role: str, layout: Layout, other_role: str, other: Layout) -> None:
    """At most one of two inputs comes from PSUM."""
    if layout.buffer is psum and other.buffer is psum:
        raise refuse(what, f"{role} and {other_role} both in psum",
                     "at most one input may be there",
                     "Copy one to SBUF with nisa.tensor_copy")


def vector_operand(what: str, role: str, layout: Layout, data: Layout) -> None:
    """A per-partition operand: shape (P, 1), not packed."""
    not_packed(f"{what}: {role}", layout)
    if (layout.P, layout.F) != (data.P, 1):
        raise refuse(f"{what}: {role}", f"{list(layout.shape)}",
                     f"a number, or a tile of shape ({data.P}, 1)")


def integers(what: str, *layouts: Layout) -> None:
    """Bitvec operators read and write integer types."""
    for layout in layouts:
        if layout.dtype.kind != "int":
            raise refuse(what, f"{layout.dtype!r}", "a bitvec operator takes integer types",
                         "View the tile as one: t.view(nl.uint32)")


def not_packed(what: str, *layouts: Layout) -> None:
    """The packed MX types go to nc_matmul_mx alone."""
    for layout in layouts:
        if layout.dtype.kind == "packed":
            raise refuse(what, f"{layout.dtype!r}", "packed types are for nc_matmul_mx alone")


def chosen(what: str, wanted: engine, *allowed: str) -> tuple[str, ...]:
    """The engines an instruction may run on: the one asked for, or all that are allowed."""
    if wanted is engine.unknown:
        return allowed
    name = ENGINES.get(wanted, str(wanted))
    if name not in allowed:
        raise refuse(f"{what}: engine", name, f"here it runs on {' or '.join(allowed)}")
    return (name,)


def is_tile(what: str, role: str, value: Any) -> Any:
    """The layout of a tensor operand. Raises NkiValidationError for anything else."""
    if not isinstance(value, NkiTensor):
        raise refuse(f"{what}: {role}", type(value).__name__, "an NkiTensor",
                     "Allocate one with nl.ndarray")
    return value.layout


FP32 = dtypes.float32


def engines(what: str, wanted: engine, target: Target, allowed: tuple[str, ...],
            *layouts: Layout) -> tuple[str, ...]:
    """The engines an instruction may run on: GpSimd reaches no PSUM."""
    if psum in {layout.buffer for layout in layouts}:
        if wanted is engine.gpsimd and "gpsimd" in allowed:
            raise refuse(f"{what}: engine", "gpsimd with a tile in psum",
                         "GpSimd cannot access PSUM",
                         "Use engine=nisa.engine.vector, or copy the tile to SBUF first")
        allowed = tuple(name for name in allowed if name != "gpsimd")
        if not allowed:
            raise refuse(what, "a tile in psum", "it runs on GpSimd, which cannot access PSUM",
                         "Copy the tile to SBUF with nisa.tensor_copy")
    return chosen(what, wanted, *allowed)


def streamed(what: str, role: str, layout: Layout, target: Target, *where: MemoryRegion) -> None:
    """A tile that an engine passes over: also not too long in its free dimensions."""
    tile(what, role, layout, target, *where)
    most = target.psum_fmax if layout.buffer is psum else target.sbuf_fmax
    if most < layout.F:
        raise refuse(f"{what}: {role}", f"{layout.F} elements a partition",
                     f"an engine passes over at most {most:,} in {layout.buffer.value}",
                     f"Split it into {-(-layout.F // most)} tiles")


def tiles(what: str, target: Target, dst: Layout, **inputs: Layout) -> None:
    """dst and inputs on chip, unpacked, with as many partitions and elements in each."""
    streamed(what, "dst", dst, target)
    not_packed(what, dst, *inputs.values())
    for role, layout in inputs.items():
        streamed(what, role, layout, target)
        same_size(what, role, layout, "dst", dst)


def operand(value: Any) -> Any:
    """What a rule needs to know of a scalar-or-vector operand: a tile's layout, or the type."""
    return value.layout if isinstance(value, NkiTensor) else type(value)


def paired(op: Any, value: Any) -> Any:
    """The same of the operand that goes with `op`; 0 is none for a unary one."""
    if isinstance(op, Unary) and not isinstance(value, NkiTensor) and value == 0:
        return type(None)
    return operand(value)


def number(what: str, role: str, kind: Any, bits: bool = False) -> None:
    """The operand is a compile-time number: whole for a bitvec operator."""
    legal = (int, np.integer) if bits else (int, float, np.integer, np.floating)
    if not issubclass(kind, legal) or kind is bool:
        raise refuse(f"{what}: {role}", "None" if kind is type(None) else kind.__name__,
                     "a whole number" if bits else "a number",
                     "" if bits else "A run-time value goes in as a tile of shape (P, 1)")


def whole(what: str, role: str, value: Any) -> int:
    """The operand as an int; 1.0 and True are none, though a memory of rules would not tell."""
    number(what, role, type(value), bits=True)
    return int(value)


def scalar_or_vector(what: str, role: str, kind: Any, data: Layout, target: Target,
                     bits: bool = False) -> None:
    """A number, or a tile of shape (P, 1): float32 for arithmetic, integers for bit patterns."""
    if not isinstance(kind, Layout):
        number(what, role, kind, bits)
        return
    tile(what, role, kind, target)
    vector_operand(what, role, kind, data)
    if bits:
        integers(f"{what}: {role}", kind)
    elif kind.dtype is not FP32:
        raise refuse(f"{what}: {role}", f"{kind.dtype!r}", "a float32 tile",
                     "Copy it into a float32 tile with nisa.tensor_copy")


def second_operand(what: str, role: str, op: Operator | None, kind: Any, data: Layout,
                   target: Target) -> None:
    """The operand that goes with `op`: nothing without one; None or 0 if it is unary."""
    unused = kind is type(None)
    if op is None and not unused:
        raise refuse(f"{what}: {role}", "an operand without an operator",
                     "it belongs to an operator", "Give the operator too, or leave both out")
    if isinstance(op, Unary) and not unused:
        raise refuse(f"{what}: {role}", "an operand", f"None or 0: {op!r} takes data alone")
    if op is None or isinstance(op, Unary):
        return
    if unused:
        raise refuse(f"{what}: {role}", "None", f"{op!r} takes a number or a tile of shape "
                     f"({data.P}, 1)")
    scalar_or_vector(what, role, kind, data, target, bits=op.family == "bitvec")


def shaped(what: str, role: str, layout: Layout, partitions: int, free: int) -> None:
    """The operand has this many partitions and free elements."""
    if (partitions, free) != (layout.P, layout.F):
        raise refuse(f"{what}: {role}", f"{list(layout.shape)}", f"[{partitions}, {free}]")


def register_tile(what: str, out: Layout | None, data: Layout, target: Target,
              floats: bool = False) -> None:
    """reduce_res: nothing, or a tile (P, 1)."""
    if out is None:
        return
    tile(what, "reduce_res", out, target)
    not_packed(f"{what}: reduce_res", out)
    shaped(what, "reduce_res", out, data.P, 1)
    if floats and out.dtype.kind != "float":
        raise refuse(f"{what}: reduce_res", f"{out.dtype!r}", "a float type")


def at_most(what: str, role: str, layout: Layout, dims: int) -> None:
    """The tile has no more dimensions than the instruction takes."""
    if len(layout.shape) > dims:
        raise refuse(f"{what}: {role}", f"{list(layout.shape)}", f"at most {dims} dimensions",
                     "Merge free dimensions with flatten_dims")


def same_family(what: str, *operators: Operator) -> bool:
    """Whether the operators are bitvec; bitvec and arithmetic do not mix in one instruction."""
    if len({op.family for op in operators}) > 1:
        raise refuse(what, ", ".join(map(repr, operators)),
                     "bitvec and arithmetic operators cannot be mixed", "Use two instructions")
    return operators[0].family == "bitvec"


def arithmetic(what: str, *operators: Operator) -> None:
    """No bitvec operators in this instruction."""
    for op in operators:
        if op.family == "bitvec":
            raise refuse(what, repr(op), "arithmetic operators only",
                         "Use nisa.tensor_scalar or nisa.tensor_tensor for bitvec operators")


def one_of(role: str, value: Any, *legal: Any) -> None:
    """The value is one of those that the documents list."""
    if value not in legal:
        raise refuse(role, _text(value), f"one of {', '.join(map(_text, legal))}")


def _text(value: Any) -> str:
    return f"reduce_cmd.{value.name}" if isinstance(value, reduce_cmd) else repr(value)


def on_generation(what: str, target: Target, *operators: Operator) -> None:
    """nl.abs_max and nl.abs_min exist from NeuronCore-v4 on."""
    for op in operators:
        if op in (abs_max, abs_min):
            target.need(4, f"{what}: {op!r}")


def issue(core: Core, work: Work, reads: tuple, writes: tuple, name: str | None) -> NkiInstruction:
    """Record an instruction and the tiles among its operands; numbers and None are left out.

    In PSUM it notes what was read and written (see isa.tensor).
    """
    read = [t.place for t in reads if isinstance(t, NkiTensor)]
    written = [t.place for t in writes if t is not None]
    for _, layout, _ in (*read, *written):
        if layout.buffer is psum or layout.indirect:
            read += _noted(work, reads, writes)
            break
    return core.emit(work, tuple(read), tuple(written), name, 3)


def _noted(work: Work, reads: tuple, writes: tuple) -> list[tuple]:
    """Keep account of reads and writes in PSUM; the run-time indices that were read as well."""
    index = []
    for operands, writing in ((reads, False), (writes, True)):
        for t in operands:
            if not isinstance(t, NkiTensor):
                continue
            if t.layout.buffer is psum and writing:
                t.storage.filled[t.layout] = work.opcode
            elif t.layout.buffer is psum:
                t.storage.evicted[t.layout] = None
            if t.indirection is not None and isinstance(t.indirection.index, NkiTensor):
                index.append(t.indirection.index.place)
    return index
