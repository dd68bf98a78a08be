"""NumPy's answer to each of the course's kernels, in float64, and how far bfloat16 may take it off.

Rounding to bf16, which keeps 8 significant bits, is off by at most U = 2**-8 of the value; a sum of
n products in fp32 by at most n * 2**-23 of the sum of their sizes (products of bf16 are exact in
fp32, each addition rounds by 2**-24; the factor of 2 covers the engine's own elementary functions).
A bound carries each rounding through to the result. Second-order terms are covered by SLACK.
"""

import math
from typing import NamedTuple

import ml_dtypes
import numpy as np

U = 2.0**-8
V = 2.0**-23
SLACK = 1.05
FUNCTION = 2.0**-18  # fp32 exp, gelu, silu: relative, or absolute below 1

bf16 = np.dtype(ml_dtypes.bfloat16)


class Close(NamedTuple):
    """A result and how far each element may be from it."""

    value: np.ndarray
    bound: np.ndarray

    def holds(self, got: np.ndarray) -> bool:
        """Whether every element of `got` is a number within its bound."""
        return bool(np.all(np.abs(got.astype(np.float64) - self.value) <= SLACK * self.bound))


def draw(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers in bf16."""
    return (scale * rng.standard_normal(shape)).astype(bf16)


def product(left: Close, right: Close) -> Close:
    """left @ right in fp32: both inputs' bounds carried through, and the sum's own."""
    sizes = np.abs(left.value) @ np.abs(right.value)
    bound = left.bound @ np.abs(right.value) + np.abs(left.value) @ right.bound
    return Close(left.value @ right.value, bound + left.value.shape[1] * V * sizes)


def exact(array: np.ndarray) -> Close:
    """An input: what it is."""
    value = array.astype(np.float64)
    return Close(value, np.zeros_like(value))


def stored(x: Close) -> Close:
    """x rounded to bf16."""
    return Close(x.value, x.bound + U * (np.abs(x.value) + x.bound))


def _through(x: Close, function, slope: float) -> Close:
    """An elementary function in fp32, whose slope is at most `slope`."""
    value = function(x.value)
    return Close(value, slope * x.bound + FUNCTION * np.maximum(1, np.abs(value)))


def gelu(x: Close) -> Close:
    """x times the normal distribution's share below x. Its slope is at most 1.13."""
    return _through(x, lambda v: v * 0.5 * (1 + np.vectorize(math.erf)(v / math.sqrt(2))), 1.13)


def silu(x: Close) -> Close:
    """x times its sigmoid. Its slope is at most 1.10."""
    return _through(x, lambda v: v / (1 + np.exp(-v)), 1.10)


def times(x: Close, y: Close) -> Close:
    """Elementwise product."""
    bound = x.bound * np.abs(y.value) + np.abs(x.value) * y.bound + V * np.abs(x.value * y.value)
    return Close(x.value * y.value, bound)


def softmax(s: Close) -> Close:
    """Each row's exponentials over their sum: off by a factor exp(2 e) when s is off by e."""
    powers = np.exp(s.value - s.value.max(axis=1, keepdims=True))
    value = powers / powers.sum(axis=1, keepdims=True)
    factor = np.expm1(2 * s.bound.max(axis=1, keepdims=True)) + 4 * FUNCTION + s.value.shape[1] * V
    return Close(value, value * factor)


def matmul(a: np.ndarray, b: np.ndarray) -> Close:
    """AB in bf16; a is A transposed."""
    return stored(product(exact(a.T), exact(b)))


def mlp(x: np.ndarray, w_up: np.ndarray, w_down: np.ndarray, fused: bool) -> Close:
    """gelu(x W_up) W_down; x is [D, B]. Unfused, h is rounded to bf16 as well as g."""
    h = product(exact(x.T), exact(w_up))
    g = stored(gelu(h if fused else stored(h)))
    return stored(product(g, exact(w_down)))


def swiglu(x: np.ndarray, w_gate: np.ndarray, w_up: np.ndarray, w_down: np.ndarray) -> Close:
    """(silu(x W_gate) * (x W_up)) W_down; x is [D, B]."""
    gate, up = (product(exact(x.T), exact(w)) for w in (w_gate, w_up))
    return stored(product(stored(times(silu(gate), up)), exact(w_down)))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, fused: bool) -> Close:
    """softmax(Q K') V; q and k are [d, L]. Unfused, S is rounded to bf16 as well as A."""
    s = product(exact(q.T), exact(k))
    a = stored(softmax(s if fused else stored(s)))
    if fused:  # the row is divided by its sum at the end; whether the sum saw rounded terms is open
        a = Close(a.value, a.bound + U * a.value)
    return stored(product(a, exact(v)))
