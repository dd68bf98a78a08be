"""NKI's data types: their names, their size, and the NumPy type that holds them.

Question  what does `nl.bfloat16` weigh, and how does a value become one?
Answer    DType: a name with a size; `to_float32` and `cast` round as the engines do
Assumes   float32 inside every engine, round to nearest even on the way out; integers saturate
Ignores   the packed MX types, which only NeuronCore-v4's nc_matmul_mx reads
Source    nki.api.shared.rst, Supported Data Types; release notes of NKI 0.6 (fp32 to integer)
"""

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np


class DType(str):
    """A data type of `nki.language`; equal to its name, as NKI documents them as strings.

    itemsize  bytes of one element
    numpy     the NumPy type that stores it (tfloat32 and bool_ have none of their own)
    kind      "float", "int" or "packed"
    work      the name its FLOPs are counted under: "bf16", "fp32", "fp8", ...
    """

    itemsize: int
    numpy: np.dtype
    kind: str
    work: str

    def __new__(cls, name: str, numpy: Any, kind: str = "float", work: str = "") -> "DType":
        self = super().__new__(cls, name)
        self.numpy = np.dtype(numpy)
        self.itemsize = self.numpy.itemsize
        self.kind, self.work = kind, work or name
        return self

    def __repr__(self) -> str:
        return f"nl.{self}"


bool_ = DType("bool_", np.uint8, "int")
int8, int16, int32 = (DType(f"int{n}", f"int{n}", "int") for n in (8, 16, 32))
uint8, uint16, uint32 = (DType(f"uint{n}", f"uint{n}", "int") for n in (8, 16, 32))
float16 = DType("float16", np.float16, work="fp16")
float32 = DType("float32", np.float32, work="fp32")
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, work="bf16")
tfloat32 = DType("tfloat32", np.float32, work="tf32")
float8_e4m3 = DType("float8_e4m3", ml_dtypes.float8_e4m3, work="fp8")
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, work="fp8")
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2, work="fp8")
float8_e8m0fnu = DType("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, work="fp8")
float8_e5m2_x4 = DType("float8_e5m2_x4", np.uint32, "packed")
float8_e4m3fn_x4 = DType("float8_e4m3fn_x4", np.uint32, "packed")
float4_e2m1fn_x4 = DType("float4_e2m1fn_x4", np.uint16, "packed")

ALL = {d: d for d in (
    bool_, int8, int16, int32, uint8, uint16, uint32, float16, float32, bfloat16, tfloat32,
    float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu,
    float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4)}
FP8 = (float8_e4m3, float8_e4m3fn, float8_e5m2)
_SHORT = {"bf16": bfloat16, "fp16": float16, "fp32": float32, "tf32": tfloat32, "bool": bool_,
          "fp8_e4m3": float8_e4m3, "fp8_e5m2": float8_e5m2}


def of(what: Any) -> DType:
    """The DType meant by a DType, its name ("bf16" too), a NumPy type or another's dtype.

    Raises ValueError for one that NKI does not have, such as float64.
    """
    if type(what) is DType:
        return what
    return _of(what if isinstance(what, str) else _name(what))


def _name(what: Any) -> str:
    try:
        return np.dtype(what).name
    except TypeError:
        return str(what).rpartition(".")[2]  # torch.bfloat16


@cache
def _of(name: str) -> DType:
    found = ALL.get(name) or _SHORT.get(name)  # type: ignore[call-overload]
    if found is None:
        raise ValueError(f"dtype: got {name!r}; NKI has {', '.join(ALL)}. "
                         "Convert the array before the call")
    return found


def fresh(count: int, dtype: DType) -> np.ndarray:
    """Bytes of uninitialised memory: NaN where the type has one, 4 for integers (nki.simulate)."""
    return np.full(count, *_unset(dtype)).view(np.uint8)


@cache
def _unset(dtype: DType) -> tuple[int, np.dtype]:
    """What an element of fresh memory holds, as an unsigned integer of its size."""
    bits = np.dtype(f"u{dtype.itemsize}")
    value = np.full(1, np.nan if dtype.kind == "float" else 4, dtype.numpy)
    return int(value.view(bits)[0]), bits


def holds_nan(array: np.ndarray) -> bool:
    """Whether any element is not a number."""
    if array.dtype == bfloat16.numpy:  # NaN: all bits of the exponent, and some of the mantissa
        return bool((array.view(np.uint16) & 0x7FFF).max() > 0x7F80)
    return array.dtype.kind not in "iub" and bool(np.isnan(array).any())


def to_float32(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The values as float32, shape kept; exact for every float and for integers to 2^24."""
    return array if array.dtype == np.float32 else array.astype(np.float32)


def cast(values: np.ndarray, dtype: DType) -> np.ndarray:
    """float32 values (or integers, kept exact) as the dtype's NumPy type.

    Floats round to nearest, ties to even, and overflow as the type does: to inf, or to NaN where
    it has no inf (float8_e4m3fn). To an integer they round the same way and saturate; NaN is 0
    there, which is not documented. bool_ is whether a value is not 0.
    """
    if dtype is tfloat32:
        return _tf32(np.asarray(values, np.float32))
    if dtype is bool_:
        return (values != 0).astype(dtype.numpy)
    if values.dtype == dtype.numpy:
        return values
    if dtype.kind == "int":
        return _saturated(values, dtype)
    return values.astype(dtype.numpy)


def _tf32(values: np.ndarray) -> np.ndarray:
    """float32 rounded to 10 bits of mantissa; a carry into the exponent is right as it is."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x0FFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


def _saturated(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Whole numbers inside the integer type's limits; float64 holds all of them exactly."""
    limits = np.iinfo(dtype.numpy)
    if values.dtype.kind == "f":
        values = np.rint(np.nan_to_num(values.astype(np.float64)))
    return np.clip(values, limits.min, limits.max).astype(dtype.numpy)
