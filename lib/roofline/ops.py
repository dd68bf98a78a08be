"""What an op must do and move, as formulas in its shapes.

Question  how many FLOPs is this op, and how few bytes can it move?
Answer    one small class an op: .algorithmic is its Count, .tensors what crosses, how often
Assumes   each operand crosses the slow link once (`algorithmic`); a multiply-add is 2 FLOPs
Ignores   loop order, tiles and caches, unless a method names them
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .count import Count

# Bytes of one element.
BYTES: Mapping[str, int] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "int32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1,
}


class ShapeError(ValueError):
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


class Op:
    """An op: its shapes are the fields; W and Q follow from them.

    Subclasses give `flops` (W), `dtype` (of the arithmetic), `tensors` and `formulas`.
    """

    dtype: str

    @property
    def flops(self) -> int:
        raise NotImplementedError

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        raise NotImplementedError

    @property
    def formulas(self) -> dict[str, str]:
        """W and Q as text, in the op's own symbols."""
        raise NotImplementedError

    @property
    def algorithmic(self) -> Count:
        """W, and the least Q: every operand byte crosses once."""
        return moved(self.flops, self.dtype, self.tensors)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.endswith("dtype"):
                if value not in BYTES:
                    raise ShapeError(f"{self._name}: {name}: expected one of "
                                     f"{', '.join(BYTES)}, got {value!r}")
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ShapeError(f"{self._name}: {name}: expected a whole number >= 1, "
                                 f"got {value!r}")

    @property
    def _name(self) -> str:
        return type(self).__name__


def moved(flops: int, dtype: str, tensors: tuple[Crossing, ...]) -> Count:
    """The Count of `flops` FLOPs in `dtype` and every crossing of `tensors`."""
    return Count({dtype: flops}, sum(t.read_bytes for t in tensors),
                 sum(t.write_bytes for t in tensors))


@dataclass(frozen=True)
class Dot(Op):
    """x . y of two vectors of n elements; the sum stays in a register."""

    n: int
    dtype: str = "fp32"

    flops = property(lambda self: 2 * self.n)
    formulas = property(lambda self: {"W": "2n", "Q": "p (n + n)"})

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        return (Crossing("x", self.n, self.dtype, reads=1),
                Crossing("y", self.n, self.dtype, reads=1))


@dataclass(frozen=True)
class Add(Op):
    """c = a + b, elementwise, n elements each."""

    n: int
    dtype: str = "fp32"

    flops = property(lambda self: self.n)
    formulas = property(lambda self: {"W": "n", "Q": "p (n + n + n)"})

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        return (Crossing("a", self.n, self.dtype, reads=1),
                Crossing("b", self.n, self.dtype, reads=1),
                Crossing("c", self.n, self.dtype, writes=1))


@dataclass(frozen=True)
class SpMV(Op):
    """y = A x with A sparse, in CSR form: values, column numbers, row starts.

    rows         rows and columns of A, so also the length of x and y
    nonzeros     stored values of A
    The gathered x is taken to cross once: its reuse is served from cache.
    """

    rows: int
    nonzeros: int
    dtype: str = "fp32"
    index_dtype: str = "int32"

    flops = property(lambda self: 2 * self.nonzeros)
    formulas = property(lambda self: {"W": "2 nnz",
                                      "Q": "(p + p_index) nnz + p_index (rows + 1) + 2p rows"})

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        return (Crossing("values", self.nonzeros, self.dtype, reads=1),
                Crossing("columns", self.nonzeros, self.index_dtype, reads=1),
                Crossing("row starts", self.rows + 1, self.index_dtype, reads=1),
                Crossing("x", self.rows, self.dtype, reads=1),
                Crossing("y", self.rows, self.dtype, writes=1))


@dataclass(frozen=True)
class LayerNorm(Op):
    """Each row of x (rows x D): subtract its mean, divide by its deviation, scale, shift.

    FLOPs per element: 1 to sum, 1 to subtract the mean, 2 to square and sum, 1 to
    multiply by the row's 1/deviation, 2 to scale and shift = 7. The few per row are left out.
    A row stays in fast memory between those steps, so x is read once.
    """

    rows: int
    D: int
    dtype: str = "fp32"

    FLOPS_PER_ELEMENT = 7

    flops = property(lambda self: self.FLOPS_PER_ELEMENT * self.rows * self.D)
    formulas = property(lambda self: {"W": "7 rows D", "Q": "p (2 rows D + 2 D)"})

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        return (Crossing("x", self.rows * self.D, self.dtype, reads=1),
                Crossing("scale", self.D, self.dtype, reads=1),
                Crossing("shift", self.D, self.dtype, reads=1),
                Crossing("y", self.rows * self.D, self.dtype, writes=1))


@dataclass(frozen=True)
class Matmul(Op):
    """C = A B with A [M, K] and B [K, N]; K is summed over."""

    M: int
    K: int
    N: int
    dtype: str = "bf16"

    flops = property(lambda self: 2 * self.M * self.K * self.N)
    formulas = property(lambda self: {"W": "2MNK", "Q": "p (MK + KN + MN)"})

    @property
    def tensors(self) -> tuple[Crossing, ...]:
        return self._crossings(1, 1)

    def reloaded(self, r_A: int, r_B: int) -> Count:
        """Same W, but A crosses r_A times and B r_B times; C leaves once.

        r_A, r_B   whole numbers >= 1; ShapeError otherwise
        """
        for name, times in (("r_A", r_A), ("r_B", r_B)):
            if isinstance(times, bool) or not isinstance(times, int) or times < 1:
                raise ShapeError(f"Matmul.reloaded: {name}: expected a whole number >= 1, "
                                 f"got {times!r}")
        return moved(self.flops, self.dtype, self._crossings(r_A, r_B))

    def _crossings(self, r_A: int, r_B: int) -> tuple[Crossing, ...]:
        return (Crossing("A", self.M * self.K, self.dtype, reads=r_A),
                Crossing("B", self.K * self.N, self.dtype, reads=r_B),
                Crossing("C", self.M * self.N, self.dtype, writes=1))
