"""Vectors, norms and matmuls: ops whose operands each cross once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..count import Count
from .core import BYTES, Crossing, Op, ShapeError, Tensors, moved, sized

# FLOPs of one element, where an op is applied to each. An exponential, a tanh, a division, a
# comparison count 1 each, whatever they cost on the engine that runs them.
#   relu     compare
#   silu     x / (1 + exp(-x)): negate, exp, add, divide
#   gelu     x (1 + tanh(c (x + b x x x))) / 2: 6 multiplies, 2 adds, tanh
#   softmax  compare for the largest, subtract it, exp, add to the sum, times 1 / sum
#   rmsnorm  square, add to the sum, times 1 / rms, times scale; layernorm: see LayerNorm
FLOPS_PER_ELEMENT: Mapping[str, int] = {
    "relu": 1, "silu": 4, "gelu": 9, "softmax": 5, "rmsnorm": 4, "layernorm": 7,
}
# What one scale of a quantised weight is stored as.
SCALE_DTYPE = "fp32"


@dataclass(frozen=True)
class Dot(Op):
    """x . y of two vectors of n elements; the sum stays in a register."""

    n: int
    dtype: str = "fp32"

    flops = property(lambda self: 2 * self.n)
    formulas = property(lambda self: {"W": "2n", "Q": "p (n + n)"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("x", self.n, self.dtype, reads=1),
            Crossing("y", self.n, self.dtype, reads=1)))


@dataclass(frozen=True)
class Add(Op):
    """c = a + b, elementwise, n elements each."""

    n: int
    dtype: str = "fp32"

    flops = property(lambda self: self.n)
    formulas = property(lambda self: {"W": "n", "Q": "p (n + n + n)"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("a", self.n, self.dtype, reads=1),
            Crossing("b", self.n, self.dtype, reads=1),
            Crossing("c", self.n, self.dtype, writes=1)))


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
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("values", self.nonzeros, self.dtype, reads=1),
            Crossing("columns", self.nonzeros, self.index_dtype, reads=1),
            Crossing("row starts", self.rows + 1, self.index_dtype, reads=1),
            Crossing("x", self.rows, self.dtype, reads=1),
            Crossing("y", self.rows, self.dtype, writes=1)))


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
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("x", self.rows * self.D, self.dtype, reads=1),
            Crossing("scale", self.D, self.dtype, reads=1),
            Crossing("shift", self.D, self.dtype, reads=1),
            Crossing("y", self.rows * self.D, self.dtype, writes=1)))


@dataclass(frozen=True)
class RMSNorm(Op):
    """Each row of x (rows x D) divided by its root mean square, times a scale per column.

    4 FLOPs an element (FLOPS_PER_ELEMENT); the few per row are left out. x is read once.
    """

    rows: int
    D: int
    dtype: str = "fp32"

    flops = property(lambda self: FLOPS_PER_ELEMENT["rmsnorm"] * self.rows * self.D)
    formulas = property(lambda self: {"W": "4 rows D", "Q": "p (2 rows D + D)"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("x", self.rows * self.D, self.dtype, reads=1),
            Crossing("scale", self.D, self.dtype, reads=1),
            Crossing("y", self.rows * self.D, self.dtype, writes=1)))


@dataclass(frozen=True)
class Softmax(Op):
    """Softmax of each row of x (rows x D).

    5 FLOPs an element (FLOPS_PER_ELEMENT). A row stays in fast memory, so x is read once.
    """

    rows: int
    D: int
    dtype: str = "fp32"
    _loops: ClassVar = dict(r="rows", c="D")
    DIMS: ClassVar = dict(x="rc", y="rc")

    flops = property(lambda self: FLOPS_PER_ELEMENT["softmax"] * self.rows * self.D)
    formulas = property(lambda self: {"W": "5 rows D", "Q": "p 2 rows D"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((
            Crossing("x", self.rows * self.D, self.dtype, reads=1),
            Crossing("y", self.rows * self.D, self.dtype, writes=1)))


@dataclass(frozen=True)
class Elementwise(Op):
    """y[i] = f(x1[i], x2[i], ...): n elements of each input in, n out.

    flops_per_element   FLOPs of f; 0 for a copy or a cast. FLOPS_PER_ELEMENT has the usual ones:
                        Elementwise(n, flops_per_element=FLOPS_PER_ELEMENT["gelu"])
    out_dtype           of y, when it is another (a cast)
    """

    n: int
    inputs: int = 1
    flops_per_element: int = 1
    dtype: str = "bf16"
    out_dtype: str | None = None
    _least: ClassVar = {"flops_per_element": 0}
    _loops: ClassVar = dict(n="n")
    DIMS: ClassVar = dict(x="n", y="n")

    flops = property(lambda self: self.flops_per_element * self.n)

    @property
    def tensors(self) -> Tensors:
        names = ["x"] if self.inputs == 1 else [f"x{i + 1}" for i in range(self.inputs)]
        return Tensors((*(Crossing(name, self.n, self.dtype, reads=1) for name in names),
                        Crossing("y", self.n, self.out_dtype or self.dtype, writes=1)))

    @property
    def formulas(self) -> dict[str, str]:
        sizes = [("p", self.dtype, "n")] * self.inputs
        return {"W": f"{self.flops_per_element}n",
                "Q": sized(*sizes, ("p_y", self.out_dtype or self.dtype, "n"))}


@dataclass(frozen=True)
class Stencil(Op):
    """Every point of a grid becomes a weighted sum of `points` points around it.

    n          points of the grid; all are updated, so its edges wrap around
    points     points that enter one sum, the centre among them: 7 for a cube's faces
    weights    different weights: neighbours that share one are added first, then multiplied
    A point stays in fast memory until its last use, so the grid is read once.
    """

    n: int
    points: int = 7
    weights: int = 2
    dtype: str = "fp64"

    flops = property(lambda self: (self.points - 1 + self.weights) * self.n)
    formulas = property(lambda self: {"W": "(points - 1 + weights) n", "Q": "p (n + n)"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((Crossing("old", self.n, self.dtype, reads=1),
                        Crossing("new", self.n, self.dtype, writes=1)))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights > self.points:
            raise ShapeError(f"Stencil: weights: expected at most {self.points}, one a point, "
                             f"got {self.weights}")


@dataclass(frozen=True)
class Matmul(Op):
    """C = A B with A [M, K] and B [K, N]; K is summed over."""

    M: int
    K: int
    N: int
    dtype: str = "bf16"
    _loops: ClassVar = dict(m="M", k="K", n="N")
    DIMS: ClassVar = dict(A="mk", B="kn", C="mn")

    flops = property(lambda self: 2 * self.M * self.K * self.N)
    formulas = property(lambda self: {"W": "2MNK", "Q": "p (MK + KN + MN)"})

    @property
    def tensors(self) -> Tensors:
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

    def _crossings(self, r_A: int, r_B: int) -> Tensors:
        return Tensors((
            Crossing("A", self.M * self.K, self.dtype, reads=r_A),
            Crossing("B", self.K * self.N, self.dtype, reads=r_B),
            Crossing("C", self.M * self.N, self.dtype, writes=1)))


@dataclass(frozen=True)
class Linear(Op):
    """y = x W: B tokens of D numbers through weights [D, F].

    dtype       of x, of y and of the arithmetic
    w_dtype     of the weights as stored, when it is another: "int8", "fp8"
    out_dtype   of y, when it is another
    scales      of quantised weights: "none", "tensor" (one) or "channel" (one a column, F);
                stored as SCALE_DTYPE, read once. The multiplications by them are left out of W.

    >>> Linear(B=1, D=4096, F=4096).algorithmic.hbm_bytes
    33570816
    """

    B: int
    D: int
    F: int
    dtype: str = "bf16"
    w_dtype: str | None = None
    out_dtype: str | None = None
    scales: str = "none"
    _only: ClassVar = {"scales": ("none", "tensor", "channel")}
    _loops: ClassVar = dict(b="B", d="D", f="F")
    DIMS: ClassVar = dict(x="bd", W="df", y="bf")

    flops = property(lambda self: 2 * self.B * self.D * self.F)
    _scales = property(lambda self: {"none": 0, "tensor": 1, "channel": self.F}[self.scales])

    @property
    def tensors(self) -> Tensors:
        scales = (Crossing("scales", self._scales, SCALE_DTYPE, reads=1),)
        return Tensors((
            Crossing("x", self.B * self.D, self.dtype, reads=1),
            Crossing("W", self.D * self.F, self.w_dtype or self.dtype, reads=1),
            *(scales if self._scales else ()),
            Crossing("y", self.B * self.F, self.out_dtype or self.dtype, writes=1)))

    @property
    def formulas(self) -> dict[str, str]:
        w, y = self.w_dtype or self.dtype, self.out_dtype or self.dtype
        scales = {"none": "", "tensor": " + p_s", "channel": " + p_s F"}[self.scales]
        terms = ("p", self.dtype, "BD"), ("p_w", w, "DF"), ("p_y", y, "BF")
        return {"W": "2BDF", "Q": sized(*terms) + scales,
                "I": f"~ 2B / {'p' if w == self.dtype else 'p_w'}"}

    def crossover(self, ridge: float) -> float:
        """The B at which I reaches `ridge` (FLOP/B), as a real number; inf when no B does.

        W = ridge Q solved for B: B = ridge (p_w DF + p_s scales) / (2DF - ridge (p D + p_y F)).
        Reached only while D and F are large enough that 2DF > ridge (p D + p_y F).

        >>> round(Linear(B=1, D=4096, F=4096).crossover(210), 2)
        233.99
        """
        p, p_w, p_y = (BYTES[d or self.dtype] for d in (None, self.w_dtype, self.out_dtype))
        fixed = p_w * self.D * self.F + BYTES[SCALE_DTYPE] * self._scales
        left = 2 * self.D * self.F - ridge * (p * self.D + p_y * self.F)
        return ridge * fixed / left if left > 0 else math.inf
