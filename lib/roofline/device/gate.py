"""Are these the outputs that the kernel has to give?

Question  may the time of this run stand for the kernel's?
Answer    check(got, want, tolerance): nothing, or a WrongOutput that says in which way it is wrong
Assumes   what is wanted was computed elsewhere: by the counting backend, or by the caller
Ignores   time
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..nki import dtypes
from .explorer import CaptureError

FP32 = float(np.finfo(np.float32).eps)
# Instructions that move values and change none, unless the type changes.
MOVES = frozenset({"dma_copy", "dma_transpose", "tensor_copy", "nc_transpose", "memset",
                   "core_barrier", "sendrecv", "iota", "local_gather", "nc_stream_shuffle",
                   "tensor_copy_predicated", "affine_select", "range_select"})
# Their accuracy is undocumented; the profile of a device is no place to be strict about it.
FUNCTIONS = frozenset({"activation", "activation_reduce", "exponential", "reciprocal"})


class WrongOutput(CaptureError):
    """The device's outputs are wrong. `what`: dtype, shape, NaN, zeros, scale, places or values."""

    def __init__(self, what: str, said: str) -> None:
        super().__init__(said)
        self.what = what


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be off: |got - want| <= relative (|want| + rms(want)).

    The rms is there for sums whose terms cancel: their error is that of the terms.
    """

    relative: float
    why: str

    def __str__(self) -> str:
        return f"{self.relative:.2g} ({self.why})" if self.relative else f"0 ({self.why})"


def tolerance(run: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
              ) -> Tolerance:
    """From the kernel's own trace: the coarsest type it rounds to, and the length of its sums.

    Twice the eps of that type: the device and NumPy round once each, and a tie may fall either
    way. For each term of a sum one eps of fp32, in which the engines add, in any order. Where
    nothing is computed and no type changes, outputs have to be equal to the last bit.

    run      the Run of the kernel, or None where it cannot be counted: then by the inputs alone
    """
    if run is None:
        coarse = max((_eps(dtypes.of(x.dtype)) for x in inputs), default=FP32)
        length = max((x.size for x in inputs), default=1)
        return Tolerance(2 * max(coarse, FP32) + length ** 0.5 * FP32,
                         "by the inputs' type and size: the kernel cannot be counted")
    rounds = [_rounds(record) for record in run.trace]
    coarse, kind = max(filter(None, rounds), default=(0.0, ""))
    if not coarse:
        return Tolerance(0.0, "nothing is computed, so every bit has to be the same")
    length = _terms(run, inputs, outputs)
    return Tolerance(2 * coarse + length * FP32,
                     f"2 eps of {kind} + {length:,} terms of a sum in fp32")


def _rounds(record: Any) -> tuple[float, str] | None:
    """eps and name of the type this instruction rounds to; None when it rounds nothing."""
    if not record.writes:
        return None
    into = record.writes[0].layout.dtype
    if record.opcode in MOVES and all(r.layout.dtype == into for r in record.reads):
        return None
    if record.opcode in FUNCTIONS:
        return max((_eps(into), str(into)), (_eps(dtypes.bfloat16), "bf16, for the function"))
    return max(_eps(into), FP32), str(into)


def _eps(dtype: dtypes.DType) -> float:
    if dtype == dtypes.tfloat32:
        return 2.0 ** -10
    return float(ml_dtypes.finfo(dtype.numpy).eps) if dtype.kind == "float" else 0.0


def _terms(run: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> int:
    """Terms of the longest sum, as far as sizes tell: FLOPs or inputs, over outputs' elements."""
    elements = max(1, sum(x.size for x in outputs))
    return max(1, run.count.flops // (2 * elements), sum(x.size for x in inputs) // elements)


# --- the check -----------------------------------------------------------------------------------


def check(kernel: str, got: Sequence[np.ndarray], want: Sequence[np.ndarray], allowed: Tolerance,
          where: str = "the device") -> None:
    """Raises WrongOutput unless every output is the wanted one, within the tolerance."""
    if len(got) != len(want):
        raise WrongOutput("shape", f"{kernel}: got {len(got)} output(s) from {where}; expected "
                          f"{len(want)}. Give expect= one array for each result of the kernel")
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        name = f"{kernel}: output{f' {i}' * (len(want) > 1)} of {where}"
        if problem := wrong(g, w, allowed):
            what, said = problem
            raise WrongOutput(what, f"{name}: {said}. No time is shown and nothing is recorded")


def wrong(got: np.ndarray, want: np.ndarray, allowed: Tolerance) -> tuple[str, str] | None:
    """How this output is wrong, in a word and in a sentence; None when it is right."""
    if got.shape != want.shape:
        turned = got.size == want.size and _same(np.sort(got, None), np.sort(want, None), allowed)
        return "shape", (f"got shape {list(got.shape)}; expected {list(want.shape)}" + (
            ", and its values are the right ones: transposed or reshaped?" if turned else
            ". Check what the kernel returns"))
    if got.dtype.itemsize != want.dtype.itemsize:
        return "dtype", f"got {got.dtype}; expected {want.dtype}. Check the dtype it returns"
    if got.tobytes() == want.tobytes():
        return None
    if bad := int((~_finite(got) & _finite(want)).sum()):
        what = "NaN" if np.isnan(_wide(got)).any() else "inf"
        return "NaN", (f"{bad:,} of {got.size:,} values are {what} and should be numbers. Memory "
                       "that was never written, or an overflow")
    if not got.any() and want.any():
        return "zeros", ("got zeros alone; expected values up to "
                         f"{np.abs(_wide(want)).max():.4g}. The kernel wrote nothing there, or "
                         "did not run")
    off = _off(got, want, allowed.relative)
    if not off.any():
        return None
    return _scale(got, want, allowed) or _places(got, want, allowed) or _values(
        got, want, off, allowed)


def _wide(x: np.ndarray) -> np.ndarray:
    """As a type in which differences are exact enough: float32 for 8 and 16 bits, else float64."""
    return x.astype(np.float32 if x.dtype.itemsize < 4 else np.float64)


def _finite(x: np.ndarray) -> np.ndarray:
    return np.isfinite(_wide(x))


def _off(got: np.ndarray, want: np.ndarray, relative: float, factor: float = 1.0) -> np.ndarray:
    """Which values are further off than allowed from factor x what is wanted."""
    g, w = _wide(got), factor * _wide(want)
    sure = np.where(np.isfinite(w), np.abs(w), 0)
    rms = float(np.sqrt(np.mean(np.square(sure, dtype=np.float64)))) if sure.size else 0.0
    limit = relative * (sure + rms)
    if want.dtype.kind in "iu" and relative:
        limit = np.maximum(limit, 1)  # a float rounded to a whole number: a tie may fall either way
    with np.errstate(invalid="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        return np.asarray(~(same | (np.abs(g - w) <= limit)))


def _same(got: np.ndarray, want: np.ndarray, allowed: Tolerance) -> bool:
    return not _off(got, want, allowed.relative).any()


def _scale(got: np.ndarray, want: np.ndarray, allowed: Tolerance) -> tuple[str, str] | None:
    """One factor for all values: a forgotten division, a pass too few, a wrong dtype's scale."""
    g, w = (_wide(x).astype(np.float64).ravel() for x in (got, want))
    factor = float(g @ w / (w @ w)) if np.isfinite(w).all() and w.any() else 0.0
    close = max(allowed.relative, 1e-3)
    if not factor or abs(factor - 1) <= close or _off(got, want, close, factor).any():
        return None
    return "scale", (f"every value is {factor:.4g} times the expected one. A scale, a repetition "
                     "or an accumulation differs")


def _places(got: np.ndarray, want: np.ndarray, allowed: Tolerance) -> tuple[str, str] | None:
    """The right values in the wrong places."""
    if not _same(np.sort(got, None), np.sort(want, None), allowed):
        return None
    square = got.ndim == 2 and got.shape[0] == got.shape[1] and _same(got.T, want, allowed)
    return "places", ("the values are the expected ones in other places: " + (
        "it is the transpose" if square else "permuted") + ". Check indices and layout")


def _values(got: np.ndarray, want: np.ndarray, off: np.ndarray, allowed: Tolerance
            ) -> tuple[str, str]:
    first = tuple(int(i) for i in np.argwhere(off)[0])
    zero = int((off & (got == 0)).sum())
    return "values", (
        f"{int(off.sum()):,} of {got.size:,} values are off by more than {allowed}; the first, "
        f"{list(first)}, is {_wide(got)[first]:.6g} and should be {_wide(want)[first]:.6g}" + (
            f". {zero:,} of them are 0: not written?" if zero else ". Check the kernel, or pass "
            "tolerance= with a reason"))
