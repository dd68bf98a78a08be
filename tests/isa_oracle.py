"""Runs one instruction on a core, and says in float64 and exact steps what it should have left."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

import roofline.nki.language as nl
from roofline.nki.core import _CURRENT, Core
from roofline.nki.core import target as find_target
from roofline.nki.trace import Trace

F32 = np.float32
SBUF, PSUM = nl.sbuf, nl.psum
FLOATS = (nl.float32, nl.bfloat16, nl.float16, nl.float8_e4m3, nl.float8_e5m2)
INTS = (nl.int8, nl.uint8, nl.int16, nl.uint16, nl.int32, nl.uint32)


# --- how the tests run an instruction ------------------------------------------------------------


class Ran(NamedTuple):
    """What `body` left: its results, the instructions, the warnings."""

    outputs: tuple
    trace: Trace
    warnings: tuple


def run(body, *inputs, outs, target="trn2", data=True):
    """Call body(*tiles, *results) on a core of `target`.

    inputs  arrays; (array, nl.psum) puts the tile in PSUM
    outs    of each result its shape, for float32 in SBUF; or (shape, dtype), or (shape, dtype,
            buffer); or an array, for a result with contents
    """
    core = Core(find_target(target), data=data)

    def placed(what):
        if isinstance(what, np.ndarray):
            what = (what, SBUF)
        if isinstance(what[0], int):
            what = (what, nl.float32)
        if not isinstance(what[0], np.ndarray):
            return nl.ndarray(what[0], dtype=what[1], buffer=what[2] if len(what) > 2 else SBUF)
        tile = nl.ndarray(what[0].shape, dtype=what[0].dtype, buffer=what[1])
        if data:
            tile.array[...] = what[0]
        return tile
    token = _CURRENT.set(core)
    try:
        with np.errstate(all="ignore"):
            results = [placed(o) for o in outs]
            body(*[placed(x) for x in inputs], *results)
    finally:
        _CURRENT.reset(token)
    return Ran(tuple(t.array.copy() for t in results) if data else (), Trace(core.issued),
               tuple(core.warnings))


def result(body, *inputs, outs, **kwargs):
    """The arrays that `body` has written; one without a tuple."""
    got = run(body, *inputs, outs=outs, **kwargs).outputs
    return got[0] if len(got) == 1 else got


def records(kernel_run, opcode):
    """The instructions of one name."""
    return [r for r in kernel_run.trace if r.opcode == opcode]


def draw(shape, dtype=nl.float32, seed=0, scale=4.0):
    """Numbers of a dtype: normal ones, or integers of all its range."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "int":
        low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
        return rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True)
    return (scale * rng.standard_normal(shape)).astype(F32).astype(dtype.numpy)


def same(got, expected):
    """Equal values, NaN with NaN."""
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(expected, np.float64))


# --- the oracles: rounding by search, arithmetic by exact steps ----------------------------------


@cache
def representable(dtype):
    """Every finite value of a 1- or 2-byte float, in order, and its bits."""
    bits = np.arange(2**(8 * dtype.itemsize), dtype={1: np.uint8, 2: np.uint16}[dtype.itemsize])
    with np.errstate(invalid="ignore"):
        values = bits.view(dtype.numpy).astype(np.float64)
    finite = np.isfinite(values) & ~((values == 0) & np.signbit(values))
    order = np.argsort(values[finite])
    return values[finite][order], bits[finite][order]


def rounded(value, dtype):
    """The nearest value of dtype, of two equally near the one with an even last bit.

    Past the largest by half a step or more it is infinite; an integer stops at its limits.
    """
    if dtype.kind == "int":
        limits = np.iinfo(dtype.numpy)
        return 0 if math.isnan(value) else max(limits.min, min(limits.max, round(
            max(-1e300, min(1e300, value)))))
    if not math.isfinite(value) or dtype is nl.float32:
        return float(F32(value))
    values, bits = representable(dtype)
    at = int(np.searchsorted(values, value))
    if at in (0, len(values)):
        edge, step = (values[0], values[0] - values[1]) if at == 0 else (
            values[-1], values[-1] - values[-2])
        return math.copysign(math.inf, value) if abs(value) >= abs(edge + step / 2) else edge
    low, high = values[at - 1], values[at]
    if value - low != high - value:
        return low if value - low < high - value else high
    return low if bits[at - 1] % 2 == 0 else high


def stored(values, dtype):
    """`rounded` of each."""
    flat = [rounded(float(v), dtype) for v in np.asarray(values).ravel()]
    return np.reshape(np.array(flat, np.float64), np.shape(values))


# One step of float32 arithmetic: in float64, where the sum, product or quotient of two float32 is
# off by less than a second rounding could see, and rounded once.
STEP = {
    nl.add: lambda x, y: x + y, nl.subtract: lambda x, y: x - y, nl.multiply: lambda x, y: x * y,
    nl.maximum: max, nl.minimum: min,
    nl.equal: lambda x, y: x == y, nl.not_equal: lambda x, y: x != y,
    nl.greater: lambda x, y: x > y, nl.greater_equal: lambda x, y: x >= y,
    nl.less: lambda x, y: x < y, nl.less_equal: lambda x, y: x <= y,
    nl.logical_and: lambda x, y: bool(x) and bool(y),
    nl.logical_or: lambda x, y: bool(x) or bool(y),
    nl.logical_xor: lambda x, y: bool(x) != bool(y),
}
BITS = {nl.bitwise_and: lambda x, y: x & y, nl.bitwise_or: lambda x, y: x | y,
        nl.bitwise_xor: lambda x, y: x ^ y, nl.left_shift: lambda x, y: x << y,
        nl.right_shift: lambda x, y: x >> y}


def step(op, x, y):
    """x op y in float32, element by element."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    done = [STEP[op](a, b) for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    return np.array(done, np.float64).reshape(x.shape).astype(F32).astype(np.float64)


def f64(array):
    """What an engine reads: float32, exactly in float64."""
    return array.astype(F32).astype(np.float64)
