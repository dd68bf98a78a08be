"""What an engine makes of a tile's elements: float32, or bits as they are; and its registers.

Question  which numbers does an operator see, and what does a reduction leave in the engine?
Answer    arrays of a tile's shape; one float32 register a partition, kept from call to call
Assumes   a partition has its register, whichever tile lies there; NaN until an instruction sets it
Source    nki.api.shared.rst, Supported Math Operators; nki.isa, "Accumulator behavior"
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..alu import Operator, Unary
from ..core import Core
from ..memory import NkiTensor
from .enums import reduce_cmd

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def values(t: NkiTensor) -> np.ndarray:
    """A tile's elements as float32."""
    return t.values()


def bits(t: NkiTensor) -> np.ndarray:
    """A tile's elements as bit patterns: unsigned integers of their size."""
    return t.read().view(_UNSIGNED[t.layout.dtype.itemsize])


def put_bits(t: NkiTensor, patterns: np.ndarray) -> None:
    """Write bit patterns; a narrower tile keeps the low bits, a wider one gets zeros."""
    kind = t.layout.dtype
    t.put(patterns.astype(_UNSIGNED[kind.itemsize], copy=False).view(kind.numpy))


def rows(t: NkiTensor) -> np.ndarray:
    """A tile's elements as float32 [partitions, free elements]."""
    return t.values().reshape(t.layout.P, t.layout.F)


def column(value: Any, data: NkiTensor, read: Callable = values) -> Any:
    """A scalar or (P, 1) operand in the shape that broadcasts over data's free dimensions."""
    if isinstance(value, NkiTensor):
        return read(value).reshape((-1,) + (1,) * (len(data.layout.shape) - 1))
    if read is values:
        return np.float32(0 if value is None else value)
    return np.array(value or 0, np.int64).astype(_UNSIGNED[data.layout.dtype.itemsize])


def applied(op: Operator, x: Any, y: Any, reverse: bool = False) -> Any:
    """x op y, or y op x; op x for a unary operator."""
    if isinstance(op, Unary):
        return op.compute(x)
    return op.compute(y, x) if reverse else op.compute(x, y)


def scan(step: Callable[[int, np.ndarray], np.ndarray], start: np.ndarray,
         count: int) -> np.ndarray:
    """[partitions, count]: each column is step(its index, the column before), from `start` on."""
    result = np.empty((count, len(start)), np.float32)
    for i in range(count):
        start = result[i] = step(i, start)
    return result.T


def registers(core: Core, engine: str, data: NkiTensor) -> np.ndarray:
    """The float32 registers of `engine` for data's partitions, in place."""
    found = core.accumulators.get(engine)
    if found is None:
        found = core.accumulators[engine] = np.full(core.target.pmax, np.nan, np.float32)
    return found[data.layout.start:data.layout.start + data.layout.P]


def begin(register: np.ndarray, op: Operator, command: reduce_cmd, load: Any = None) -> None:
    """Reset the registers to op's identity or load them, as `command` says."""
    if command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        register[...] = op.identity
    elif command is reduce_cmd.load_reduce:
        register[...] = load.values().reshape(-1) if isinstance(load, NkiTensor) else load


def accumulate(register: np.ndarray, op: Operator, result: np.ndarray, command: reduce_cmd,
               load: Any = None) -> None:
    """Begin as `command` says, then reduce [P, ...] results onto the registers."""
    begin(register, op, command, load)
    if command not in (reduce_cmd.reset, reduce_cmd.idle):
        register[...] = op.compute(register, op.reduce(result.reshape(len(register), -1), axis=1))
