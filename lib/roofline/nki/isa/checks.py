"""What the engines ask of their operands: shared by the instructions of this package.

Source  nki.isa; Trainium/Inferentia2 Architecture Guide, Accessing SBUF/PSUM; release notes 0.6
"""

from typing import Any

from .. import dtypes
from ..core import Target, refuse
from ..memory import Layout, MemoryRegion, NkiTensor
from .enums import engine

sbuf, psum = MemoryRegion.sbuf, MemoryRegion.psum
ENGINES = {engine.tensor: "tensor", engine.vector: "vector", engine.scalar: "scalar",
           engine.gpsimd: "gpsimd"}


def tile(what: str, role: str, layout: Layout, target: Target, *where: MemoryRegion) -> None:
    """The operand lives where it may and starts at a partition an engine can reach."""
    allowed = where or (sbuf, psum)
    if layout.buffer not in allowed:
        raise refuse(f"{what}: {role}", f"{layout!r}", f"it must be in "
                     f"{' or '.join(r.value for r in allowed)}",
                     "Bring it there with nisa.dma_copy" if layout.buffer not in (sbuf, psum)
                     else "Copy it with nisa.tensor_copy")
    if layout.P > target.pmax:
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
        raise refuse(what, f"{role} and {other_role} both in psum", "at most one input may be there",
                     "Copy one to SBUF with nisa.tensor_copy")


def vector_operand(what: str, role: str, layout: Layout, data: Layout) -> None:
    """A per-partition operand: shape (P, 1)."""
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
