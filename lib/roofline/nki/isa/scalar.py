"""Scalar Engine: activation functions with scale and bias, and a running reduction.

The engine evaluates functions by piecewise polynomials; here they are exact, except sin, which it
does not reduce. Arithmetic is float32.

Source  nki.isa.activation, activation_reduce (NKI 0.6); nki.api.shared.rst, Activation Functions
"""

import math
from typing import Any

import numpy as np

from ...count import Uncounted
from .. import dtypes
from ..alu import (
    Operator,
    abs_max,
    abs_min,
    add,
    arctan,
    bypass,
    log,
    maximum,
    minimum,
    multiply,
    operator,
    prelu,
    reciprocal,
    rsqrt,
    sin,
    sqrt,
    subtract,
)
from ..core import Core, NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import (
    is_tile,
    issue,
    number,
    one_of,
    operand,
    register_tile,
    scalar_or_vector,
    tile,
    tiles,
    vector_operand,
)
from .enums import reduce_cmd
from .values import accumulate, applied, column, registers

_READ = "act_read_accumulator"  # the instruction that a reduce_res adds (ActReadAccumulator)


def activation(dst: NkiTensor, op, data: NkiTensor, bias=None, scale=1.0, reduce_op=None,
               reduce_res: NkiTensor | None = None, reduce_cmd=reduce_cmd.idle,
               name=None) -> NkiInstruction:
    """dst = op(data * scale + bias); scale and bias are numbers or tiles (P, 1).

    reduce_cmd adds the free elements of op(...) to the engine's registers, one a partition, and
    reduce_res (P, 1) reads them out with a second instruction. Source: nki.isa.activation.
    """
    return _activate("activation", dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd,
                     name)


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
        raise Uncounted(f"nisa.{what}: nl.prelu: its slope has no argument and no documented "
                        "value. On trn3 nisa.activate2 takes relu_param")
    work = _activation(what, core.target, is_tile(what, "dst", dst), is_tile(what, "data", data),
                       op, operand(bias), operand(scale), reduce_op, out, command)
    if core.data:
        x = data.values()
        if isinstance(scale, NkiTensor) or scale != 1:
            x = x * column(scale, data)
        if bias is not None:
            x = x + column(bias, data)
        _in_range(core, what, op, x)
        result = op.compute(x)
        if command is not reduce_cmd.idle:
            accumulate(registers(core, "scalar", data), add, result, command)
        dst.put(result)
    issued = issue(core, work, (data, bias, scale), (dst,), name)
    if reduce_res is not None and out is not None:
        if core.data:
            reduce_res.put(registers(core, "scalar", data))
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
    if reduce_op is not None:
        one_of(f"{what}: reduce_op", reduce_op, add)
    _command(what, command, reduce_op)
    register_tile(what, out, data, target)
    return Work(what, ("scalar",), elements=dst.size)


def _command(what: str, command: reduce_cmd, op: Any) -> None:
    """reduce_cmd of the Scalar Engine, which reduces only with a reduce_op."""
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce,
           reduce_cmd.reset_reduce)
    if op is None and command in (reduce_cmd.reduce, reduce_cmd.reset_reduce):
        raise refuse(f"{what}: reduce_op", "None", f"reduce_cmd.{command.name} needs an operator",
                     "Say reduce_op=nl.add")


# Where the Scalar Engine's result is invalid (Supported Activation Functions, Valid Input Range).
_RANGE = {log: (2.0**-64, 2.0**64), sqrt: (2.0**-116, 2.0**118), rsqrt: (2.0**-87, 2.0**97),
          reciprocal: (2.0**-42, 2.0**42), sin: (-math.pi, math.pi),
          arctan: (-math.pi / 2, math.pi / 2)}


def _in_range(core: Core, what: str, op: Operator, x: np.ndarray) -> None:
    """Warn of inputs for which the documents call the engine's result invalid."""
    if op in _RANGE:
        low, high = map(np.float32, _RANGE[op])
        size = np.abs(x) if op is reciprocal else x
        if (size < low).any() or (size > high).any():
            core.warn(f"{what}: {op!r} of an input {'whose size is ' * (op is reciprocal)}outside "
                      f"{low:g} to {high:g}: the Scalar Engine's result is invalid there"
                      + (", and NaN here" if op is sin else ""))


def activate2(dst: NkiTensor, op, data: NkiTensor, imm0, imm1, op0, op1, relu_param=0.0,
              reverse0=False, reverse1=False, reduce_op=None, reduce_res: NkiTensor | None = None,
              reduce_cmd=reduce_cmd.idle, name=None) -> NkiInstruction:
    """dst = op((data op0 imm0) op1 imm1); relu_param is nl.prelu's slope below 0; v4.

    Six pairs op0, op1: multiply with add, subtract or bypass; add, subtract or bypass with bypass.
    reduce_op: add, maximum, minimum, abs_max or abs_min. Source: nki.isa.activate2.
    """
    core = current()
    what = "activate2"
    op = operator(op, "activate2: op", table="activation")
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    work = _activate2(core.target, is_tile(what, "dst", dst), is_tile(what, "data", data), op,
                      operand(imm0), operand(imm1), op0, op1, operand(relu_param), reduce_op, out,
                      reduce_cmd)
    if core.data:
        x = data.values()
        for step, imm, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
            if step is not bypass:
                x = applied(step, x, column(imm, data), reverse)
        _in_range(core, what, op, x)
        result = op.compute(x, column(relu_param, data)) if op is prelu else op.compute(x)
        accumulate(registers(core, "scalar", data), reduce_op or add, result, reduce_cmd)
        dst.put(result)
    issued = issue(core, work, (data, imm0, imm1, relu_param), (dst,), name)
    if reduce_res is not None and out is not None:
        if core.data:
            reduce_res.put(registers(core, "scalar", data))
        issue(core, _read_out(out), (), (reduce_res,), None)
    return issued


_PAIRS = ((multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass),
          (subtract, bypass), (bypass, bypass))


@rule
def _activate2(target: Target, dst: Layout, data: Layout, op: Operator, imm0: Any, imm1: Any,
               op0: Any, op1: Any, relu_param: Any, reduce_op: Any, out: Layout | None,
               command: reduce_cmd) -> Work:
    what = "activate2"
    target.need(4, what)
    tiles(what, target, dst, data=data)
    if (op0, op1) not in _PAIRS:
        raise refuse(f"{what}: op0, op1", f"{op0!r}, {op1!r}",
                     f"one of {'; '.join(f'{a!r}, {b!r}' for a, b in _PAIRS)}")
    for role, kind, used in (("imm0", imm0, op0 is not bypass), ("imm1", imm1, op1 is not bypass),
                             ("relu_param", relu_param, True)):
        if isinstance(kind, Layout):
            tile(what, role, kind, target)
            vector_operand(what, role, kind, data)
        elif used:
            number(what, role, kind)
    if isinstance(imm0, Layout) and isinstance(imm1, Layout) and imm0.dtype is not imm1.dtype:
        raise refuse(what, f"imm0 {imm0.dtype!r}, imm1 {imm1.dtype!r}", "two tiles of one dtype")
    if reduce_op is not None:
        one_of(f"{what}: reduce_op", reduce_op, add, maximum, minimum, abs_max, abs_min)
    _command(what, command, reduce_op)
    register_tile(what, out, data, target)
    return Work(what, ("scalar",), elements=dst.size)


@rule
def _read_out(out: Layout) -> Work:
    return Work(_READ, ("scalar",), elements=out.size)
