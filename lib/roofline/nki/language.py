"""nki.language: the documented names, and no others.

Tensors come from `tensors`, loops and ids from `loops`, functions of tiles from `tiles`; what `alu`
has is both an `op=` argument and a function of tiles. What is documented and not here raises
Uncounted when it is called.

Source  nki.language (NKI 0.6)
"""
# ruff: noqa: F401  the names are for kernels

from typing import Any as _Any

from .alu import (
    abs,
    abs_max,
    abs_min,
    add,
    arctan,
    average,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bypass,
    ceil,
    copy,
    cos,
    divide,
    equal,
    erf,
    erf_dx,
    exp,
    floor,
    fmod,
    gelu,
    gelu_apprx_sigmoid,
    gelu_apprx_sigmoid_dx,
    gelu_apprx_tanh,
    gelu_dx,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mish,
    mod,
    multiply,
    negative,
    not_equal,
    power,
    prelu,
    reciprocal,
    relu,
    right_shift,
    rsqrt,
    sigmoid,
    sign,
    silu,
    silu_dx,
    sin,
    softplus,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from .dtypes import (
    bfloat16,
    bool_,
    float4_e2m1fn_x4,
    float8_e4m3,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from .loops import (
    affine_range,
    device_print,
    dynamic_range,
    fori_loop,
    no_reorder,
    num_programs,
    program_id,
    program_ndim,
    sequential_range,
    static_range,
    while_loop,
)
from .memory import NKIObject, NkiTensor
from .surface import stub as _stub
from .tensors import (
    ds,
    empty_like,
    full,
    is_hbm,
    is_on_chip,
    is_psum,
    is_sbuf,
    load,
    load_transpose2d,
    ndarray,
    ones,
    private_hbm,
    psum,
    sbuf,
    shared_constant,
    shared_hbm,
    shared_identity_matrix,
    store,
    tile_size,
    zeros,
    zeros_like,
)
from .tiles import (
    all,
    broadcast_to,
    expand_dims,
    gather_flattened,
    matmul,
    max,
    mean,
    min,
    prod,
    rms_norm,
    softmax,
    sum,
    transpose,
    var,
    where,
)
from .views import MemoryRegion

hbm = private_hbm  # documented alias


def __getattr__(name: str) -> _Any:
    return _stub("nki.language", name)
