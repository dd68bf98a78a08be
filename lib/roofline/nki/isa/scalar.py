"""Scalar Engine: activation functions with scale and bias, and a running reduction.

The engine evaluates functions by piecewise polynomials; here they are exact, except sin, which it
does not reduce. Arithmetic is float32.

Source  nki.isa.activation, activation_reduce (NKI 0.6); nki.api.shared.rst, Activation Functions
"""

from typing import Any

import numpy as np

from .. import dtypes
from ..alu import Operator, add, operator, prelu, reciprocal
from ..core import Core, NkiInstruction, Target, Work, current, refuse, rule
from ...count import Uncounted
from ..memory import Layout, NkiTensor
from .checks import is_tile, issue, number, operand, scalar_or_vector, tile, tiles, vector_operand
from .enums import reduce_cmd
from .vector import column, values

_READ = "act_read_accumulator"  # the instruction that a reduce_res adds (ActReadAccumulator)


def activation(dst: NkiTensor, op, data: NkiTensor, bias=None, scale=1.0, reduce_op=None,
               reduce_res: NkiTensor | None = None, reduce_cmd=reduce_cmd.idle,
               name=None) -> NkiInstruction:
    """dst = op(data * scale + bias); scale and bias are numbers or tiles (P, 1).

    reduce_cmd adds the free elements of op(...) to the engine's registers, one a partition, and
    reduce_res (P, 1) reads them out with a second instruction. Source: nki.isa.activation.
    """
    return _activate("activation", dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, name)


def activation_reduce(dst: NkiTensor, op, data: NkiTensor, reduce_op, reduce_res: NkiTensor,
                      bias=None, scale=1.0, name=None) -> NkiInstruction:
    """activation, and reduce_res (P, 1) = the sum of its results over the free dimensions.

    Source: nki.isa.activation_reduce.
    """
    return _activate("activation_reduce", dst, op, data, bias, scale, reduce_op, reduce_res,
                     reduce_cmd.reset_reduce, name)


def _activate(what: str, dst: NkiTensor, op: Any, data: NkiTensor, bias: Any, scale: Any,
              reduce_op: Any, reduce_res: NkiTensor | None, command: reduce_cmd,
              name: str | None) -> NkiInstruction:
    core = current()
    op = operator(op, "activation: op", table="activation")
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    if op is prelu:
        raise Uncounted(f"nisa.{what}: nl.prelu: its slope has no argument and no documented value. "
                        "On trn3 nisa.activate2 takes relu_param")
    work = _activation(what, core.target, is_tile(what, "dst", dst), is_tile(what, "data", data), op,
                       operand(bias), operand(scale), reduce_op, out, command)
    if core.data:
        x = data.values()
        if isinstance(scale, NkiTensor) or scale != 1:
            x = x * column(scale, data, values)
        if bias is not None:
            x = x + column(bias, data, values)
        result = op.compute(x)
        if command is not reduce_cmd.idle:
            _accumulate(core, data, result, command)
        dst.put(result)
    reads = (data, *[t for t in (bias, scale) if isinstance(t, NkiTensor)])
    issued = issue(core, work, reads, (dst,), name)
    if reduce_res is not None and out is not None:
        if core.data:
            reduce_res.put(_registers(core, data))
        issue(core, _read_out(out), (), (reduce_res,), None)
    return issued


@rule
def _activation(what: str, target: Target, dst: Layout, data: Layout, op: Operator, bias: Any,
                scale: Any, reduce_op: Any, out: Layout | None, command: reduce_cmd) -> Work:
    tiles(what, target, dst, data=data)
    scalar_or_vector(what, "scale", scale, data, target)
    if isinstance(bias, Layout):
        tile(what, "bias", bias, target)
        vector_operand(what, "bias", bias, data)
        if bias.dtype is dtypes.tfloat32 or bias.dtype.kind == "packed":
            raise refuse(f"{what}: bias", f"{bias.dtype!r}", "any type but tfloat32")
    elif bias is not type(None):
        number(what, "bias", bias)
        if target.generation < 3:
            raise refuse(f"{what}: bias", f"a number on {target.name}",
                         f"there it is a tile of shape ({data.P}, 1); a number from v3 on",
                         "Fill a tile with nisa.memset")
    if op is reciprocal and target.generation < 3 and bias is not type(None):
        raise refuse(f"{what}: bias", f"a bias with nl.reciprocal on {target.name}",
                     "there the function takes no bias", "Add it with nisa.tensor_scalar first")
    _reduction(what, data, reduce_op, out, command, target)
    return Work(what, ("scalar",), elements=dst.size)


def _reduction(what: str, data: Layout, op: Any, out: Layout | None, command: reduce_cmd,
               target: Target) -> None:
    """What reduce_op, reduce_cmd and reduce_res of the Scalar Engine may be."""
    if command is reduce_cmd.load_reduce or not isinstance(command, reduce_cmd):
        raise refuse(f"{what}: reduce_cmd", command, "idle, reset, reduce or reset_reduce")
    adds = command in (reduce_cmd.reduce, reduce_cmd.reset_reduce)
    if op is not add and (op is not None or adds):
        raise refuse(f"{what}: reduce_op", repr(op), "nl.add only")
    if out is not None:
        tile(what, "reduce_res", out, target)
        vector_operand(what, "reduce_res", out, data)


def _accumulate(core: Core, data: NkiTensor, result: np.ndarray, command: reduce_cmd) -> None:
    """Reset the registers of these partitions, add the sums of `result` to them, or both."""
    registers = _registers(core, data)
    if command is not reduce_cmd.reduce:
        registers[...] = 0
    if command is not reduce_cmd.reset:
        registers += result.reshape(len(registers), -1).sum(axis=1, dtype=np.float32)


def _registers(core: Core, data: NkiTensor) -> np.ndarray:
    """The engine's float32 registers of data's partitions; NaN until they are reset."""
    found = core.accumulators.get("scalar")
    if found is None:
        found = core.accumulators["scalar"] = np.full(core.target.pmax, np.nan, np.float32)
    return found[data.layout.start:data.layout.start + data.layout.P]


@rule
def _read_out(out: Layout) -> Work:
    return Work(_READ, ("scalar",), elements=out.size)
