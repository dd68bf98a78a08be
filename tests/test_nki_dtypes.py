"""Rounding into NKI's data types, against the fields of each format and its neighbouring values."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.nki import dtypes
from roofline.nki.dtypes import cast, fresh, of, to_float32

# name: exponent bits, mantissa bits, whether the top exponent is inf and NaN (IEEE 754)
FORMATS = {"float16": (5, 10, True), "bfloat16": (8, 7, True), "float8_e4m3": (4, 3, True),
           "float8_e5m2": (5, 2, True), "float8_e4m3fn": (4, 3, False)}
INTEGERS = {"int8": (-128, 127), "int16": (-32768, 32767), "int32": (-2**31, 2**31 - 1),
            "uint8": (0, 255), "uint16": (0, 65535), "uint32": (0, 2**32 - 1)}


def decoded(name: str) -> np.ndarray:
    """The value of every bit pattern, from its sign, exponent and mantissa."""
    exponents, mantissas, ieee = FORMATS[name]
    bits = np.arange(2 ** (1 + exponents + mantissas))
    sign = 1.0 - 2.0 * (bits >> (exponents + mantissas))
    e, m = (bits >> mantissas) & (2**exponents - 1), bits & (2**mantissas - 1)
    bias = 2 ** (exponents - 1) - 1
    power = np.where(e == 0, 1, e) - bias - mantissas
    value = sign * np.where(e == 0, m, m + 2**mantissas) * 2.0**power  # float64: exact
    top = e == 2**exponents - 1
    if ieee:
        return np.where(top, np.where(m == 0, sign * np.inf, np.nan), value)
    return np.where(top & (m == 2**mantissas - 1), np.nan, value)  # one NaN, no inf


def patterns(name: str) -> np.ndarray:
    """Every bit pattern as an array of the type."""
    kind = dtypes.ALL[name].numpy
    return np.arange(2 ** (8 * kind.itemsize), dtype=f"u{kind.itemsize}").view(kind)


def rounded(name: str, values) -> np.ndarray:
    with np.errstate(all="ignore"):  # as in a run: overflow is inf
        return cast(np.asarray(values, np.float32), dtypes.ALL[name])


def steps(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The finite values from 0 on, and the bit pattern of each."""
    value = decoded(name)[: 2 ** (sum(FORMATS[name][:2]))]
    finite = np.isfinite(value)
    return value[finite], np.flatnonzero(finite)


# --- floats ---------------------------------------------------------------------------------

@pytest.mark.parametrize("name", FORMATS)
def test_every_bit_pattern_has_the_value_of_its_fields(name):
    got = to_float32(patterns(name), dtypes.ALL[name])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, decoded(name))


@pytest.mark.parametrize("name", FORMATS)
def test_a_value_of_the_type_stays_itself(name):
    bits = patterns(name)
    back = rounded(name, decoded(name)).view(f"u{bits.itemsize}")
    number = ~np.isnan(decoded(name))
    np.testing.assert_array_equal(back[number], bits.view(back.dtype)[number])
    assert np.isnan(rounded(name, decoded(name))[~number].astype(np.float32)).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", FORMATS)
def test_halfway_goes_to_the_even_neighbour_and_a_hair_more_to_the_nearer(name, sign):
    value, bits = steps(name)
    low, high = value[:-1], value[1:]
    even = np.where(bits[:-1] % 2 == 0, low, high)
    middle = ((low + high) / 2).astype(np.float32)
    np.testing.assert_array_equal(middle, (low + high) / 2)  # one more bit: float32 holds it
    for at, expected in ((middle, even), (np.nextafter(middle, np.float32(np.inf)), high),
                         (np.nextafter(middle, np.float32(0)), low)):
        np.testing.assert_array_equal(rounded(name, sign * at).astype(np.float64), sign * expected)


# The largest value, and the value one step beyond, which the type does not have.
@pytest.mark.parametrize(("name", "largest", "beyond"), [
    ("float16", 65504, 65536), ("bfloat16", 255 * 2.0**120, 2.0**128), ("float8_e4m3", 240, 256),
    ("float8_e5m2", 57344, 65536), ("float8_e4m3fn", 448, 480)])
def test_too_large_a_value_becomes_inf_or_where_there_is_none_nan(name, largest, beyond):
    half = np.float32((largest + beyond) / 2)
    below, above = np.nextafter(half, np.float32(0)), np.nextafter(half, np.float32(np.inf))
    assert rounded(name, [below]).astype(np.float64) == largest
    got = rounded(name, [above, np.inf]).astype(np.float64)
    assert np.isinf(got).all() if FORMATS[name][2] else np.isnan(got).all()


@given(st.sampled_from(sorted(FORMATS)), st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_no_value_of_the_type_is_nearer(name, x):
    value, _ = steps(name)
    got = float(rounded(name, [x]).astype(np.float64)[0])
    if abs(x) <= value[-1]:
        assert abs(got - x) == np.abs(np.copysign(value, x) - x).min()


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_tf32_is_the_nearest_number_of_eleven_bits(x):
    """10 bits of mantissa and float32's exponents, so a step is 2^13 of float32's."""
    got = cast(np.float32([x]), dtypes.tfloat32)
    assert not (got.view(np.uint32) & 0x1FFF).any()
    bits = int(np.float32(abs(x)).view(np.uint32))
    below, above = bits >> 13 << 13, (bits >> 13 << 13) + 2**13
    exact = [Fraction(abs(x))]
    for pattern in (below, above):
        number = np.uint32(pattern).view(np.float32)
        exact.append(Fraction(float(number)) if np.isfinite(number) else Fraction(2) ** 128)
    down, up = exact[0] - exact[1], exact[2] - exact[0]
    wanted = below if down < up or (down == up and below >> 13 & 1 == 0) else above
    assert int(np.abs(got).view(np.uint32)[0]) == wanted


@pytest.mark.parametrize("start", [1.0, -3.0e38, 2.0**-126, 0.0])
def test_tf32_rounds_every_tail_of_13_bits(start):
    """Float32's patterns count up with its values: rounding to 2^13 of them is a division."""
    bits = np.float32(start).view(np.uint32).astype(np.int64) + np.arange(2**15)
    below, tail = np.divmod(bits, 2**13)
    wanted = (below + ((tail > 2**12) | ((tail == 2**12) & (below % 2 == 1)))) * 2**13
    got = cast(bits.astype(np.uint32).view(np.float32), dtypes.tfloat32)
    np.testing.assert_array_equal(got.view(np.uint32), wanted)


def test_tf32_keeps_nan_and_inf():
    got = cast(np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0]), dtypes.tfloat32)
    np.testing.assert_array_equal(got, np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    assert np.signbit(got[-1])


# --- integers -------------------------------------------------------------------------------

@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_rounds_to_even_and_saturates(name):
    low, high = INTEGERS[name]
    got = rounded(name, [0.5, 1.5, 2.5, 2.4999998, 3.7, 1e30, -1e30, np.inf, -np.inf, np.nan])
    assert got.tolist() == [0, 2, 2, 2, 4, high, low, high, low, 0]
    assert rounded(name, [-1.5, -0.5, -2.5]).tolist() == [max(low, n) for n in (-2, 0, -2)]


@given(st.sampled_from(sorted(INTEGERS)), st.floats(width=32, allow_nan=False))
def test_a_float_becomes_the_nearest_integer_in_range(name, x):
    low, high = INTEGERS[name]
    wanted = max(low, min(high, round(x))) if np.isfinite(x) else (high if x > 0 else low)
    assert rounded(name, [x]).tolist() == [wanted]


@given(st.sampled_from(sorted(INTEGERS)), st.sampled_from(sorted(INTEGERS)), st.data())
def test_an_integer_of_another_type_is_exact_or_saturates(source, name, data):
    n = data.draw(st.integers(*INTEGERS[source]))
    low, high = INTEGERS[name]
    assert cast(np.array([n], source), dtypes.ALL[name]).tolist() == [max(low, min(high, n))]


def test_bool_is_whether_a_value_is_not_zero():
    assert rounded("bool_", [0.0, -0.0, 0.25, -3.0, 256.0, np.nan]).tolist() == [0, 0, 1, 1, 1, 1]


# --- names ----------------------------------------------------------------------------------

@pytest.mark.parametrize(("what", "dtype"), [
    (np.float32, dtypes.float32), (np.dtype("int8"), dtypes.int8), ("bf16", dtypes.bfloat16),
    ("bfloat16", dtypes.bfloat16), (ml_dtypes.bfloat16, dtypes.bfloat16), (np.bool_, dtypes.bool_),
    (bool, dtypes.bool_), (ml_dtypes.float8_e4m3fn, dtypes.float8_e4m3fn),
    (dtypes.tfloat32, dtypes.tfloat32), ("tf32", dtypes.tfloat32)])
def test_a_dtype_goes_by_several_names(what, dtype):
    assert of(what) is dtype


@pytest.mark.parametrize("what", [np.float64, "int64", "float", "complex64", 32, None, ["f4"]])
def test_a_type_nki_does_not_have_is_refused(what):
    with pytest.raises(ValueError, match="NKI has bool_, int8"):
        of(what)


def test_a_dtype_equals_its_name():
    """NKI documents dtypes as strings."""
    assert dtypes.bfloat16 == "bfloat16" and hash(dtypes.bfloat16) == hash("bfloat16")
    assert repr(dtypes.bfloat16) == "nl.bfloat16"


@pytest.mark.parametrize("name", dtypes.ALL)
def test_fresh_memory_is_nan_or_four(name):
    dtype = dtypes.ALL[name]
    got = fresh(3, dtype)
    assert (got.dtype, got.size) == (np.uint8, 3 * dtype.itemsize)
    values = got.view(dtype.numpy).astype(np.float32)
    assert np.isnan(values).all() if dtype.kind == "float" else (values == 4).all()
