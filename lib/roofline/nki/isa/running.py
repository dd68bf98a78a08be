"""Vector Engine instructions that also reduce into the engine's registers, one a partition.

They share the registers: one may go on where another stopped. Arithmetic is float32, and the
reduction takes the results before they are rounded to dst's type.

Source  nki.isa.tensor_scalar_reduce, tensor_scalar_cumulative, exponential, select_reduce,
        range_select (NKI 0.6)
"""

from typing import Any

import numpy as np

from .. import dtypes
from ..alu import (
    Operator,
    add,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    operator,
    subtract,
)
from ..core import NkiInstruction, Target, Work, current, refuse, rule
from ..memory import Layout, NkiTensor
from .checks import (
    FP32,
    arithmetic,
    at_most,
    is_tile,
    issue,
    not_both_in_psum,
    number,
    on_generation,
    one_of,
    operand,
    paired,
    register_tile,
    scalar_or_vector,
    second_operand,
    tile,
    tiles,
    vector_operand,
    whole,
)
from .enums import reduce_cmd
from .values import accumulate, applied, begin, column, registers, rows, scan


def tensor_scalar_reduce(dst: NkiTensor, data: NkiTensor, op0, operand0, reduce_op,
                         reduce_res: NkiTensor | None = None, reverse0=False,
                         reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce, reduce_init=None,
                         reduce_res_negate=False, name=None) -> NkiInstruction:
    """dst = data op0 operand0, and its free elements reduced onto the engine's registers.

    reduce_res (P, 1) reads the registers; reduce_init starts them (load_reduce).
    Source: nki.isa.tensor_scalar_reduce.
    """
    core = current()
    what = "tensor_scalar_reduce"
    op0 = operator(op0, "tensor_scalar_reduce: op0")
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    work = _tensor_scalar_reduce(core.target, is_tile(what, "dst", dst),
                                 is_tile(what, "data", data), op0, paired(op0, operand0), reduce_op,
                                 out, bool(reverse0), reduce_cmd, operand(reduce_init))
    if core.data:
        result = applied(op0, data.values(), column(operand0, data))
        register = registers(core, "vector", data)
        accumulate(register, reduce_op, result, reduce_cmd, reduce_init)
        dst.put(result)
        if reduce_res is not None:
            reduce_res.put(-register if reduce_res_negate else register)
    return issue(core, work, (data, operand0, reduce_init), (dst, reduce_res), name)


@rule
def _tensor_scalar_reduce(target: Target, dst: Layout, data: Layout, op0: Operator, operand0: Any,
                          reduce_op: Any, out: Layout | None, reverse0: bool, command: reduce_cmd,
                          init: Any) -> Work:
    what = "tensor_scalar_reduce"
    on_generation(what, target, op0)
    arithmetic(what, op0)
    tiles(what, target, dst, data=data)
    second_operand(what, "operand0", op0, operand0, data, target)
    one_of(f"{what}: reduce_op", reduce_op, add, multiply, maximum, minimum)
    if reverse0:
        raise refuse(f"{what}: reverse0", "True", "it is not supported yet",
                     "Choose the operator that gives the same the other way round")
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.reset_reduce, reduce_cmd.reduce,
           reduce_cmd.load_reduce)
    _loaded(what, "reduce_init", init, data, target, command)
    register_tile(what, out, data, target)
    return Work(what, ("vector",), elements=dst.size)


def tensor_scalar_cumulative(dst: NkiTensor, src: NkiTensor, op0, op1, imm0, imm1=None,
                             reduce_cmd=reduce_cmd.reset_reduce, name=None) -> NkiInstruction:
    """dst[:, i] = (src[:, i] op0 imm0) op1 dst[:, i - 1]; the last one stays in the registers.

    It starts from op1's identity, from imm1 (load_reduce) or from the registers (reduce).
    Source: nki.isa.tensor_scalar_cumulative.
    """
    core = current()
    what = "tensor_scalar_cumulative"
    op0 = operator(op0, "tensor_scalar_cumulative: op0")
    work = _tensor_scalar_cumulative(core.target, is_tile(what, "dst", dst),
                                     is_tile(what, "src", src), op0, op1, paired(op0, imm0),
                                     operand(imm1), reduce_cmd)
    if core.data:
        register = registers(core, "vector", src)
        begin(register, op1, reduce_cmd, imm1)
        first = applied(op0, src.values(), column(imm0, src)).reshape(len(register), -1).T.copy()
        result = scan(lambda i, before: op1.compute(first[i], before), register, len(first))
        register[...] = result[:, -1]
        dst.put(result)
    return issue(core, work, (src, imm0, imm1), (dst,), name)


_CUMULATED = (*dtypes.FP8, dtypes.bfloat16, dtypes.float16, FP32, dtypes.uint8, dtypes.uint16,
              dtypes.int8, dtypes.int16)


@rule
def _tensor_scalar_cumulative(target: Target, dst: Layout, src: Layout, op0: Operator, op1: Any,
                              imm0: Any, imm1: Any, command: reduce_cmd) -> Work:
    what = "tensor_scalar_cumulative"
    on_generation(what, target, op0)
    arithmetic(what, op0)
    one_of(f"{what}: op1", op1, add, subtract, multiply, maximum, minimum)
    tiles(what, target, dst, src=src)
    for role, layout in (("dst", dst), ("src", src)):
        one_of(f"{what}: {role}", layout.dtype, *_CUMULATED)
    second_operand(what, "imm0", op0, imm0, src, target)
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.reset_reduce, reduce_cmd.reduce,
           reduce_cmd.load_reduce)
    _loaded(what, "imm1", imm1, src, target, command)
    return Work(what, ("vector",), elements=dst.size)


def exponential(dst: NkiTensor, src: NkiTensor, max_value=0.0, reduce_res: NkiTensor | None = None,
                reduce_cmd: reduce_cmd = reduce_cmd.idle, reduce_init=0.0,
                name=None) -> NkiInstruction:
    """dst = exp(src - max_value), and its free elements added to the engine's registers; v4.

    After `idle` the registers hold nothing to rely on, NaN here. Source: nki.isa.exponential.
    """
    core = current()
    what = "exponential"
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    unset = not isinstance(reduce_init, NkiTensor) and reduce_init == 0
    work = _exponential(core.target, is_tile(what, "dst", dst), is_tile(what, "src", src),
                        operand(max_value), out, reduce_cmd,
                        None if unset else operand(reduce_init))
    if core.data:
        result = np.exp(src.values() - column(max_value, src))
        register = registers(core, "vector", src)
        accumulate(register, add, result, reduce_cmd, reduce_init)
        _left_idle(register, reduce_cmd)
        dst.put(result)
        if reduce_res is not None:
            reduce_res.put(register)
    return issue(core, work, (src, max_value, reduce_init), (dst, reduce_res), name)


_EXPONENTIAL = (dtypes.float8_e4m3, dtypes.float8_e5m2, dtypes.float16, dtypes.bfloat16, FP32,
                dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint8, dtypes.uint16)


@rule
def _exponential(target: Target, dst: Layout, src: Layout, max_value: Any, out: Layout | None,
                 command: reduce_cmd, init: Any) -> Work:
    what = "exponential"
    target.need(4, what)
    tiles(what, target, dst, src=src)
    for role, layout in (("dst", dst), ("src", src)):
        at_most(what, role, layout, 4)
    one_of(f"{what}: dst", dst.dtype, *_EXPONENTIAL, dtypes.tfloat32)
    one_of(f"{what}: src", src.dtype, *_EXPONENTIAL, dtypes.uint32)
    scalar_or_vector(what, "max_value", max_value, src, target)
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.idle, reduce_cmd.reset_reduce,
           reduce_cmd.reduce, reduce_cmd.load_reduce)
    if init is not None:
        _loaded(what, "reduce_init", init, src, target, command)
    register_tile(what, out, src, target, floats=True)
    return Work(what, ("vector",), elements=dst.size)


def _loaded(what: str, role: str, init: Any, data: Layout, target: Target,
            command: reduce_cmd) -> None:
    """What load_reduce starts from: needed with it, and refused without."""
    loads = command is reduce_cmd.load_reduce
    if loads == (init is type(None)):
        raise refuse(f"{what}: {role}",
                     "None" if loads else f"a value with reduce_cmd.{command.name}",
                     "it goes with reduce_cmd.load_reduce, and only with it")
    if loads:
        scalar_or_vector(what, role, init, data, target)


def _left_idle(register: np.ndarray, command: reduce_cmd) -> None:
    """After `idle` the accumulator's state is not documented."""
    if command.name == "idle":
        register[...] = np.nan


def select_reduce(dst: NkiTensor, predicate: NkiTensor, on_true: NkiTensor, on_false,
                  reduce_res: NkiTensor | None = None, reduce_cmd=reduce_cmd.idle,
                  reduce_op=maximum, reverse_pred=False, name=None) -> NkiInstruction:
    """dst = on_true where predicate is not 0, elsewhere on_false (a number or a tile (P, 1)).

    reduce_cmd takes the largest of a partition into the engine's registers, reduce_res reads them;
    after `idle` they hold nothing to rely on, NaN here. Source: nki.isa.select_reduce.
    """
    core = current()
    what = "select_reduce"
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    work = _select_reduce(core.target, is_tile(what, "dst", dst),
                          is_tile(what, "predicate", predicate), is_tile(what, "on_true", on_true),
                          operand(on_false), out, reduce_cmd, reduce_op)
    if core.data:
        shape = on_true.layout.shape
        chosen = (predicate.read() == 0) if reverse_pred else (predicate.read() != 0)
        result = np.where(chosen.reshape(shape), on_true.values(), column(on_false, on_true))
        register = registers(core, "vector", on_true)
        accumulate(register, maximum, result, reduce_cmd)
        _left_idle(register, reduce_cmd)
        dst.put(result)
        if reduce_res is not None:
            reduce_res.put(register)
    return issue(core, work, (predicate, on_true, on_false), (dst, reduce_res), name)


@rule
def _select_reduce(target: Target, dst: Layout, predicate: Layout, on_true: Layout, on_false: Any,
                   out: Layout | None, command: reduce_cmd, reduce_op: Any) -> Work:
    what = "select_reduce"
    tiles(what, target, dst, predicate=predicate, on_true=on_true)
    not_both_in_psum(what, "on_true", on_true, "predicate", predicate)
    one_of(f"{what}: predicate", predicate.dtype, dtypes.int8, dtypes.uint8, dtypes.int16,
           dtypes.uint16)
    if on_true.dtype in (dtypes.tfloat32, dtypes.int32, dtypes.uint32):
        raise refuse(f"{what}: on_true", f"{on_true.dtype!r}",
                     "any type but tfloat32, int32, uint32")
    if isinstance(on_false, Layout):
        tile(what, "on_false", on_false, target)
        vector_operand(what, "on_false", on_false, on_true)
    else:
        number(what, "on_false", on_false)
    one_of(f"{what}: reduce_op", reduce_op, maximum)
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.idle, reduce_cmd.reset_reduce,
           reduce_cmd.reduce)
    register_tile(what, out, on_true, target, floats=True)
    return Work(what, ("vector",), elements=dst.size)


FP32_MIN = float(np.finfo(np.float32).min)


def range_select(dst: NkiTensor, on_true_tile: NkiTensor, comp_op0, comp_op1, bound0: NkiTensor,
                 bound1: NkiTensor, reduce_cmd=reduce_cmd.reset_reduce,
                 reduce_res: NkiTensor | None = None, reduce_op=maximum, range_start=0,
                 on_false_value=..., name=None) -> NkiInstruction:
    """dst = on_true_tile where (i comp_op0 bound0) and (i comp_op1 bound1), elsewhere FP32_MIN.

    i is range_start + the place among the free elements; bounds are float32 tiles (P, 1). The
    largest of a partition goes to the engine's registers, and reduce_res reads them. v3 on.
    Source: nki.isa.range_select.
    """
    core = current()
    what = "range_select"
    out = None if reduce_res is None else is_tile(what, "reduce_res", reduce_res)
    work = _range_select(core.target, is_tile(what, "dst", dst),
                         is_tile(what, "on_true_tile", on_true_tile), comp_op0, comp_op1,
                         is_tile(what, "bound0", bound0), is_tile(what, "bound1", bound1),
                         reduce_cmd, out, reduce_op, whole(what, "range_start", range_start),
                         on_false_value)
    if core.data:
        data = rows(on_true_tile)
        at = (range_start + np.arange(data.shape[1])).astype(np.float32)
        inside = comp_op0.compute(at, rows(bound0)) * comp_op1.compute(at, rows(bound1))
        result = np.where(inside != 0, data, np.float32(FP32_MIN))
        register = registers(core, "vector", on_true_tile)
        accumulate(register, maximum, result, reduce_cmd)
        dst.put(result)
        if reduce_res is not None:
            reduce_res.put(register)
    return issue(core, work, (on_true_tile, bound0, bound1), (dst, reduce_res), name)


@rule
def _range_select(target: Target, dst: Layout, data: Layout, comp_op0: Any, comp_op1: Any,
                  bound0: Layout, bound1: Layout, command: reduce_cmd, out: Layout | None,
                  reduce_op: Any, start: int, on_false: Any) -> Work:
    what = "range_select"
    target.need(3, what)
    tiles(what, target, dst, on_true_tile=data)
    if data.dtype.kind != "float":
        raise refuse(f"{what}: on_true_tile", f"{data.dtype!r}", "a float type")
    for role, op in (("comp_op0", comp_op0), ("comp_op1", comp_op1)):
        one_of(f"{what}: {role}", op, equal, less, less_equal, greater, greater_equal)
    for role, bound in (("bound0", bound0), ("bound1", bound1)):
        scalar_or_vector(what, role, bound, data, target)
    one_of(f"{what}: reduce_op", reduce_op, maximum)
    one_of(f"{what}: reduce_cmd", command, reduce_cmd.reset_reduce, reduce_cmd.reduce,
           reduce_cmd.reset, reduce_cmd.idle)
    if not 0 <= start <= 2**24 - data.F:
        raise refuse(f"{what}: range_start", start, f"indices up to 2^24, so 0 to {2**24 - data.F}",
                     "Float32 counts exactly only to there")
    if on_false is not ... and np.float32(on_false) != np.float32(FP32_MIN):
        raise refuse(f"{what}: on_false_value", on_false, f"{FP32_MIN} (FP32_MIN) alone")
    register_tile(what, out, data, target)
    return Work(what, ("vector",), elements=dst.size)


