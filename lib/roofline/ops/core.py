"""What every op is made of: its tensors, how often they cross, and the Count that follows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..count import Count
from ..table import Told, aligned

# Bytes of one element.
BYTES: Mapping[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "int32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1,
}


class ShapeError(Told, ValueError):
    """A shape or dtype an op cannot have."""


@dataclass(frozen=True)
class Crossing:
    """One tensor and how often it crosses the slow link.

    elements   how many elements it has
    dtype      what one element is; its size is BYTES[dtype]
    reads      times each element is read from slow memory
    writes     times each element is written to it
    """

    name: str
    elements: int
    dtype: str
    reads: int = 0
    writes: int = 0

    @property
    def read_bytes(self) -> int:
        return self.reads * self.elements * BYTES[self.dtype]

    @property
    def write_bytes(self) -> int:
        return self.writes * self.elements * BYTES[self.dtype]

    def __repr__(self) -> str:
        return (f"{self.name}: {self.elements:,} {self.dtype} elements, "
                f"read {self.reads}x, written {self.writes}x, "
                f"{self.read_bytes + self.write_bytes:,} B")


class Tensors(tuple[Crossing, ...]):
    """The crossings of an op; shown as a table whose last line is Q."""

    def __repr__(self) -> str:
        rows = [("tensor", "elements", "dtype", "read", "written", "bytes")]
        rows += [(t.name, f"{t.elements:,}", t.dtype, f"{t.reads}x", f"{t.writes}x",
                  f"{t.read_bytes + t.write_bytes:,}") for t in self]
        total = sum(t.read_bytes + t.write_bytes for t in self)
        return "\n".join(aligned([*rows, ("total", "", "", "", "", f"{total:,}")], left=(0, 2)))


class Op:
    """An op: its shapes are the fields; W and Q follow from them.

    Subclasses give `flops` (W) with `dtype` (of the arithmetic), or `work` where dtypes mix,
    and `tensors` and `formulas`. A field *dtype that is None means: the same as `dtype`.
    """

    dtype: str
    # Fields that take these values only, and whole numbers that may be below 1.
    _only: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    _least: ClassVar[Mapping[str, int]] = {}
    # What a loop nest goes through: loop -> the field with its size; tensor -> its loops. A tensor
    # that is not there has no nest, and so its op has none.
    _loops: ClassVar[Mapping[str, str]] = {}
    DIMS: ClassVar[Mapping[str, str]] = {}

    @property
    def flops(self) -> int:
        raise NotImplementedError

    @property
    def work(self) -> Mapping[str, int]:
        """W by dtype."""
        return {self.dtype: self.flops}

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        raise NotImplementedError

    @property
    def formulas(self) -> dict[str, str]:
        """W and Q as text, in the op's own symbols; I where the field quotes a limit."""
        raise NotImplementedError

    @property
    def loops(self) -> dict[str, int]:
        """The loops that a nest of this op can have, and their sizes; empty where none is known.

        DIMS has the loops that move through each tensor: {"A": "mk", ...}.
        """
        return {loop: getattr(self, size) for loop, size in self._loops.items()}

    @property
    def algorithmic(self) -> Count:
        """W, and the least Q: every operand byte crosses once."""
        tensors = self.tensors
        return Count(self.work, sum(t.read_bytes for t in tensors),
                     sum(t.write_bytes for t in tensors))

    def named(self, **names: str) -> "Named":
        """The same op with other names for its tensors: up.named(W="W_up", y="h")."""
        return Named(self, tuple(names.items()))

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            self._check(name, value)

    def _check(self, name: str, value: object) -> None:
        least = self._least.get(name, 1)
        if name in self._only:
            if not any(value == v and type(value) is type(v) for v in self._only[name]):
                raise ShapeError(f"{self._name}: {name}: expected one of "
                                 f"{', '.join(map(str, self._only[name]))}, got {value!r}")
        elif value is None and getattr(type(self), name, 0) is None:
            return
        elif name.endswith("dtype"):
            if value not in BYTES:
                raise ShapeError(f"{self._name}: {name}: expected one of "
                                 f"{', '.join(BYTES)}, got {value!r}")
        elif isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ShapeError(f"{self._name}: {name}: expected a whole number >= {least}, "
                             f"got {value!r}")

    @property
    def _name(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Named(Op):
    """An op whose tensors go by other names, so that a chain can join them.

    names   pairs (name in the op, name from now on)

    Raises ShapeError for a name the op does not have, or two tensors of one name.
    """

    op: Op
    names: tuple[tuple[str, str], ...]

    flops = property(lambda self: self.op.flops)
    work = property(lambda self: self.op.work)
    formulas = property(lambda self: self.op.formulas)

    @property
    def tensors(self) -> Tensors:
        names = dict(self.names)
        return Tensors(Crossing(names.get(t.name, t.name), t.elements, t.dtype, t.reads, t.writes)
                       for t in self.op.tensors)

    def __post_init__(self) -> None:
        have = [t.name for t in self.op.tensors]
        if unknown := [name for name, _ in self.names if name not in have]:
            raise ShapeError(f"{self.op._name}.named: no tensor {unknown[0]!r}; it has "
                             f"{', '.join(have)}")
        new = [t.name for t in self.tensors]
        if twice := [name for name in new if new.count(name) > 1]:
            raise ShapeError(f"{self.op._name}.named: two tensors would be {twice[0]!r}; give each "
                             "a name of its own")


def moved(flops: int, dtype: str, tensors: Iterable[Crossing]) -> Count:
    """The Count of `flops` FLOPs in `dtype` and every crossing of `tensors`."""
    tensors = tuple(tensors)
    return Count({dtype: flops}, sum(t.read_bytes for t in tensors),
                 sum(t.write_bytes for t in tensors))


def sized(*terms: tuple[str, str, str]) -> str:
    """Q as text from (symbol of the element size, dtype, elements); one dtype, one bracket.

    >>> sized(("p", "bf16", "BD"), ("p_w", "bf16", "DF"), ("p", "bf16", "BF"))
    'p (BD + DF + BF)'
    >>> sized(("p", "bf16", "BD"), ("p_w", "int8", "DF"), ("p", "bf16", "BF"))
    'p (BD + BF) + p_w DF'
    """
    groups: dict[str, tuple[str, list[str]]] = {}
    for symbol, dtype, elements in terms:
        groups.setdefault(dtype, (symbol, []))[1].append(elements)
    return " + ".join(f"{symbol} {sizes[0]}" if len(sizes) == 1 and " " not in sizes[0]
                      else f"{symbol} ({' + '.join(sizes)})" for symbol, sizes in groups.values())
