"""The operators that instructions take: what each computes, and where it may run.

Question  what does `op=nl.add` or `op=nl.gelu` do to a tile?
Answer    Operator: a documented name, its NumPy function in float32, its family
Assumes   exact functions where the engine uses piecewise polynomials
Ignores   the limited input ranges of a few functions, except sin, which the device does not reduce
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
    reduction   whether it is a legal reduction operator, and `identity` its start
    """

    def __init__(self, name: str, compute: Callable, family: str, vector: bool, activation: bool,
                 reduce: Callable | None, identity: float) -> None:
        self.name, self.compute, self.family = name, compute, family
        self.vector, self.activation = vector, activation
        self.reduce, self.identity = reduce, identity
        self.__name__ = name

    def __repr__(self) -> str:
        return f"nl.{self.name}"


class Binary(Operator):
    """An operator of two operands; called, it issues the instruction that applies it to tiles."""

    arity = 2

    def __call__(self, x: Any, y: Any, dtype: Any = None) -> Any:
        from . import language
        return language.binary(self, x, y, dtype)


class Unary(Operator):
    """An operator of one operand; called, it issues the instruction that applies it to a tile."""

    arity = 1

    def __call__(self, x: Any, dtype: Any = None) -> Any:
        from . import language
        return language.unary(self, x, dtype)


def _binary(name: str, compute: Callable, family: str = "arithmetic", vector: bool = True,
            reduce: Callable | None = None, identity: float = 0.0) -> Binary:
    return Binary(name, compute, family, vector, False, reduce, identity)


def _unary(name: str, compute: Callable, vector: bool = False, activation: bool = True,
           family: str = "arithmetic") -> Unary:
    return Unary(name, compute, family, vector, activation, None, 0.0)


def _truth(function: Callable) -> Callable:
    return lambda x, y: function(x, y).astype(np.float32)


def _larger(x: Any, y: Any) -> Any:
    return np.where(np.abs(x) > np.abs(y), x, y)


def _smaller(x: Any, y: Any) -> Any:
    return np.where(np.abs(x) < np.abs(y), x, y)


add = _binary("add", np.add, reduce=np.add.reduce)
subtract = _binary("subtract", np.subtract, reduce=np.subtract.reduce)
multiply = _binary("multiply", np.multiply, reduce=np.multiply.reduce, identity=1.0)
maximum = _binary("maximum", np.maximum, reduce=np.maximum.reduce, identity=-math.inf)
minimum = _binary("minimum", np.minimum, reduce=np.minimum.reduce, identity=math.inf)
abs_max = _binary("abs_max", _larger)
abs_min = _binary("abs_min", _smaller)
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


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.float32(0), x)


def _erf(x: np.ndarray) -> np.ndarray:
    """Abramowitz and Stegun 7.1.26 in float64: off by at most 1.5e-7, the size of fp32 rounding."""
    z = np.abs(np.asarray(x, np.float64))
    t = 1 / (1 + 0.3275911 * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (
        -1.453152027 + t * 1.061405429))))
    return (np.sign(x) * (1 - poly * np.exp(-z * z))).astype(np.float32)


def _normal_pdf(x: np.ndarray) -> np.ndarray:
    return np.exp(-x * x / 2) / np.float32(math.sqrt(2 * math.pi))


def _gelu_cdf(x: np.ndarray) -> np.ndarray:
    return (1 + _erf(x / np.float32(math.sqrt(2)))) / 2


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)))


def _gelu_sigmoid_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(np.float32(1.702) * x)
    return s + np.float32(1.702) * x * s * (1 - s)


def _silu_dx(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


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
silu = _unary("silu", lambda x: x * _sigmoid(x))
silu_dx = _unary("silu_dx", _silu_dx)
softplus = _unary("softplus", _softplus)
mish = _unary("mish", lambda x: x * np.tanh(_softplus(x)))
erf = _unary("erf", _erf)
erf_dx = _unary("erf_dx", lambda x: np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x))
gelu = _unary("gelu", lambda x: x * _gelu_cdf(x))
gelu_dx = _unary("gelu_dx", lambda x: _gelu_cdf(x) + x * _normal_pdf(x))
gelu_apprx_tanh = _unary("gelu_apprx_tanh", _gelu_tanh)
gelu_apprx_sigmoid = _unary("gelu_apprx_sigmoid", lambda x: x * _sigmoid(np.float32(1.702) * x))
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
prelu = Operator("prelu", lambda x, slope=0.0: np.where(x >= 0, x, x * slope), "arithmetic", False,
                 True, None, 0.0)
bypass = Operator("bypass", lambda x, y: x, "arithmetic", False, False, None, 0.0)
average = Operator("average", np.mean, "arithmetic", False, False, np.mean, 0.0)


def operator(op: Any, what: str, *, arity: int | None = None, table: str = "vector") -> Operator:
    """`op` if it is an operator that `table` ("vector", "activation", "reduce") lists.

    Raises NkiValidationError naming what may stand there.
    """
    legal = {name: o for name, o in globals().items() if isinstance(o, Operator)
             and getattr(o, table) and arity in (None, getattr(o, "arity", arity))}
    if not isinstance(op, Operator) or legal.get(op.name) is not op:
        raise refuse(what, repr(op), f"operators here: {', '.join('nl.' + n for n in sorted(legal))}")
    return op
