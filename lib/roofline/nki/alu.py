"""The operators that instructions take: what each computes, and where it may run.

Question  what does `op=nl.add` or `op=nl.gelu` do to a tile?
Answer    Operator: a documented name, its NumPy function in float32, its family
Assumes   exact functions where the engine uses piecewise polynomials
Ignores   the limited input ranges of a few functions (isa.scalar warns of them), except sin's
Source    nki.api.shared.rst, Supported Math Operators and Supported Activation Functions
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .core import refuse


class Operator:
    """A name of `nki.language` that is both an `op=` argument and a function of tiles.

    family      "bitvec" (integers, bit patterns) or "arithmetic" (float32)
    arity       operands of the operator, 1 or 2
    vector      whether the table of math operators lists it (Vector, GpSimd)
    activation  whether the table of activation functions lists it (Scalar Engine)
    reduction   whether that table calls it a legal reduction operator
    reduce      function(array, axis) of a reduction, and `identity` its start
    """

    def __init__(self, name: str, compute: Callable, family: str = "arithmetic",
                 vector: bool = False, activation: bool = False, reduction: bool = False,
                 reduce: Callable | None = None, identity: float = 0.0) -> None:
        self.name, self.compute, self.family = name, compute, family
        self.vector, self.activation, self.reduction = vector, activation, reduction
        self.reduce, self.identity = reduce or np.add.reduce, identity
        self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.name}"


class Binary(Operator):
    """An operator of two operands; called, it issues the instruction that applies it to tiles."""

    arity = 2

    def __call__(self, x: Any, y: Any, dtype: Any = None) -> Any:
        from . import tiles
        return tiles.binary(self, x, y, dtype)


class Unary(Operator):
    """An operator of one operand; called, it issues the instruction that applies it to a tile."""

    arity = 1

    def __call__(self, x: Any, dtype: Any = None) -> Any:
        from . import tiles
        return tiles.unary(self, x, dtype)


def _binary(name: str, compute: Callable, family: str = "arithmetic", vector: bool = True,
            reduce: Callable | None = None, identity: float = 0.0) -> Binary:
    return Binary(name, compute, family, vector, reduction=reduce is not None, reduce=reduce,
                  identity=identity)


def _unary(name: str, compute: Callable, vector: bool = False, activation: bool = True,
           family: str = "arithmetic") -> Unary:
    return Unary(name, compute, family, vector, activation)


def _truth(function: Callable) -> Callable:
    return lambda x, y: function(x, y).astype(np.float32)


def _larger(x: Any, y: Any) -> Any:
    """x where it is larger in magnitude, else y (nl.abs_max); a NaN stays."""
    return np.where((np.abs(x) > np.abs(y)) | (x != x), x, y)


def _smaller(x: Any, y: Any) -> Any:
    """x where it is smaller in magnitude, else y (nl.abs_min); a NaN stays."""
    return np.where((np.abs(x) < np.abs(y)) | (x != x), x, y)


def _fold(function: Callable) -> Callable:
    """A reduction that applies `function` element after element."""
    def reduce(array: np.ndarray, axis: int) -> np.ndarray:
        columns = np.moveaxis(array, axis, 0)
        total = columns[0]
        for column in columns[1:]:
            total = function(total, column)
        return total
    return reduce


add = _binary("add", np.add, reduce=np.add.reduce)
subtract = _binary("subtract", np.subtract, reduce=np.subtract.reduce)
multiply = _binary("multiply", np.multiply, reduce=np.multiply.reduce, identity=1.0)
maximum = _binary("maximum", np.maximum, reduce=np.maximum.reduce, identity=-math.inf)
minimum = _binary("minimum", np.minimum, reduce=np.minimum.reduce, identity=math.inf)
# Legal as reductions of nisa.activate2 alone, so not as the table has it.
abs_max = Binary("abs_max", _larger, vector=True, reduce=_fold(_larger))
abs_min = Binary("abs_min", _smaller, vector=True, reduce=_fold(_smaller), identity=math.inf)
power = _binary("power", np.power)
divide = _binary("divide", np.divide, vector=False)
mod = _binary("mod", np.mod, vector=False)
fmod = _binary("fmod", np.fmod, vector=False)
equal = _binary("equal", _truth(np.equal))
not_equal = _binary("not_equal", _truth(np.not_equal))
less = _binary("less", _truth(np.less))
less_equal = _binary("less_equal", _truth(np.less_equal))
greater = _binary("greater", _truth(np.greater))
greater_equal = _binary("greater_equal", _truth(np.greater_equal))
logical_and = _binary("logical_and", _truth(np.logical_and), reduce=np.logical_and.reduce,
                      identity=1.0)
logical_or = _binary("logical_or", _truth(np.logical_or), reduce=np.logical_or.reduce)
logical_xor = _binary("logical_xor", _truth(np.logical_xor), reduce=np.logical_xor.reduce)
bitwise_and = _binary("bitwise_and", np.bitwise_and, "bitvec", reduce=np.bitwise_and.reduce)
bitwise_or = _binary("bitwise_or", np.bitwise_or, "bitvec", reduce=np.bitwise_or.reduce)
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "bitvec", reduce=np.bitwise_xor.reduce)
left_shift = _binary("left_shift", np.left_shift, "bitvec")
right_shift = _binary("right_shift", np.right_shift, "bitvec")

invert = _unary("invert", np.invert, vector=True, activation=False, family="bitvec")
logical_not = _unary("logical_not", lambda x: np.logical_not(x).astype(np.float32), vector=True,
                     activation=False)


_LARGEST = np.finfo(np.float32).max


def _above(x: np.ndarray) -> np.ndarray:
    """x with -inf as the least float32, so that times 0 it is 0; NaN stays."""
    return np.maximum(x, -_LARGEST)


def _finite(x: np.ndarray) -> np.ndarray:
    """The same for both infinities."""
    return np.clip(x, -_LARGEST, _LARGEST)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.float32(0), x)


# erf(x) = x P(x*x) / Q(x*x) up to 3.95, from where it is 1 in float32: our least-squares fit to
# math.erf, off by 2.1e-8 of its value; float32 rounding makes that 5e-7.
_ERF = 3.95
_P = (1.1283791437803738, 0.19154871121265063, 0.052875198186622556, 0.003808082743041228,
      0.0002846843543037596, 2.0259000191361785e-06)
_Q = (1.0, 0.5030883015339461, 0.11455892945229017, 0.015054933256552456, 0.0011707036270661418,
      3.783153960802598e-05)


def _polynomial(coefficients: tuple[float, ...], z: np.ndarray) -> np.ndarray:
    """Horner's scheme in z's type, lowest power first."""
    total = np.full_like(z, coefficients[-1])
    for c in coefficients[-2::-1]:
        total *= z
        total += z.dtype.type(c)
    return total


def _erf(x: np.ndarray) -> np.ndarray:
    near = np.clip(x, -np.float32(_ERF), np.float32(_ERF))
    z = near * near
    found = near * _polynomial(_P, z) / _polynomial(_Q, z)
    np.copyto(found, np.sign(x), where=np.abs(x) >= np.float32(_ERF))
    return found


def _normal_pdf(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.float32(math.sqrt(2 * math.pi))


def _gelu_cdf(x: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * (1 + _erf(x * np.float32(math.sqrt(0.5))))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return _above(x) * np.float32(0.5) * (1 + np.tanh(inner))


def _gelu_sigmoid(x: np.ndarray) -> np.ndarray:
    return _above(x) * _sigmoid(np.float32(1.702) * x)


def _gelu_sigmoid_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(np.float32(1.702) * x)
    return s + _finite(x) * (np.float32(1.702) * s * (1 - s))


def _silu_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(x)
    return s * (1 + _finite(x) * (1 - s))


def sin_on_device(x: np.ndarray) -> np.ndarray:
    """sin within [-pi, pi]; nan outside, where the engine extrapolates a polynomial."""
    return np.where(np.abs(x) <= np.float32(math.pi), np.sin(x), np.float32(np.nan))


exp = _unary("exp", np.exp)
log = _unary("log", np.log)
sqrt = _unary("sqrt", np.sqrt)
rsqrt = _unary("rsqrt", lambda x: np.float32(1) / np.sqrt(x), vector=True)
reciprocal = _unary("reciprocal", lambda x: np.float32(1) / x, vector=True)
square = _unary("square", np.square, vector=True)
abs = _unary("abs", np.abs, vector=True)
relu = _unary("relu", lambda x: np.maximum(x, np.float32(0)), vector=True)
copy = _unary("copy", lambda x: x)
sign = _unary("sign", np.sign)
tanh = _unary("tanh", np.tanh)
sigmoid = _unary("sigmoid", _sigmoid)
silu = _unary("silu", lambda x: _above(x) * _sigmoid(x))
silu_dx = _unary("silu_dx", _silu_dx)
softplus = _unary("softplus", _softplus)
mish = _unary("mish", lambda x: _above(x) * np.tanh(_softplus(x)))
erf = _unary("erf", _erf)
erf_dx = _unary("erf_dx", lambda x: np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x))
gelu = _unary("gelu", lambda x: _above(x) * _gelu_cdf(x))
gelu_dx = _unary("gelu_dx", lambda x: _gelu_cdf(x) + _finite(x) * _normal_pdf(x))
gelu_apprx_tanh = _unary("gelu_apprx_tanh", _gelu_tanh)
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid", _gelu_sigmoid)
gelu_apprx_sigmoid_dx = _unary("gelu_apprx_sigmoid_dx", _gelu_sigmoid_dx)
sin = _unary("sin", sin_on_device)
arctan = _unary("arctan", np.arctan)
cos = _unary("cos", np.cos, activation=False)
tan = _unary("tan", np.tan, activation=False)
ceil = _unary("ceil", np.ceil, activation=False)
floor = _unary("floor", np.floor, activation=False)
trunc = _unary("trunc", np.trunc, activation=False)
negative = _unary("negative", np.negative, activation=False)

# Operators without a function of tiles of their own.
prelu = Operator("prelu", lambda x, slope=0.0: np.where(x >= 0, x, x * slope), activation=True)
bypass = Operator("bypass", lambda x, y: x)
average = Operator("average", np.mean, reduce=np.mean)


def operator(op: Any, what: str, *, arity: int | None = None, table: str = "vector") -> Any:
    """`op` if it is an operator that `table` ("vector", "activation", "reduction") lists.

    Raises NkiValidationError naming what may stand there.
    """
    if isinstance(op, Operator) and getattr(op, table) and (
            arity is None or getattr(op, "arity", None) == arity):
        return op
    legal = sorted(name for name, o in globals().items() if isinstance(o, Operator)
                   and getattr(o, table) and arity in (None, getattr(o, "arity", arity)))
    raise refuse(what, op if isinstance(op, Operator) else getattr(op, "__name__", repr(op)),
                 f"operators here: {', '.join('nl.' + name for name in legal)}")
