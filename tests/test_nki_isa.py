"""Vector, Scalar and GpSimd instructions against loops and float64."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from isa_oracle import (
    BITS,
    F32,
    FLOATS,
    INTS,
    PSUM,
    SBUF,
    STEP,
    draw,
    f64,
    records,
    result,
    run,
    same,
    step,
    stored,
)

import roofline.nki.isa as nisa
import roofline.nki.language as nl

# --- rounding ------------------------------------------------------------------------------------

TRICKY = np.array([0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1, 3, 100.4, 126.5, 127.5, 128.5, 255.5, 300,
                   -300, 32767.5, 65535, 65519.9, 65520, 7e4, 2.0**31, -2.0**31, 3e9, -3e9, 1e-8,
                   6e-8, 2.0**-24, 3 * 2.0**-25, 2.0**-149, 0.1, 1 / 3, 240, 247.9, 248, 448, 57344,
                   61440, 3.3895e38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan, 1 + 2.0**-8,
                   1 + 3 * 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1.0625, 1.1875, 1.125, 1.375],
                  F32)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_a_result_rounds_to_the_nearest_of_its_type(dtype):
    values = np.concatenate([TRICKY, draw(456, scale=100)])[None].repeat(2, 0)
    got = result(lambda a, out: nisa.tensor_copy(out, a), values, outs=[(values.shape, dtype)])
    same(got, stored(values, dtype))


def test_tf32_keeps_ten_bits():
    values = np.array([[1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, np.inf, np.nan, 1e-40]], F32)
    got = result(lambda a, out: nisa.tensor_copy(out, a), values, outs=[((1, 6), nl.tfloat32)])
    same(got[0, :5], [1 + 2.0**-10, 1, 1 + 2.0**-9, np.inf, np.nan])  # ties to even


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, nl.float8_e4m3fn], ids=str)
def test_a_copy_in_one_type_keeps_every_bit(dtype):
    size = 2**(8 * min(dtype.itemsize, 2))
    bits = np.arange(size, dtype=np.uint32).astype(f"u{dtype.itemsize}")
    if dtype.itemsize == 4:
        bits = bits * np.uint32(65537) + np.uint32(1)  # signalling NaNs among them
    values = bits.reshape(32, -1).view(dtype.numpy)
    got = result(lambda a, out: nisa.tensor_copy(out, a), values, outs=[(values.shape, dtype)])
    assert got.tobytes() == values.tobytes()


def test_packed_types_are_copied_bit_for_bit():
    bits = draw((4, 6), nl.uint32)
    ran = run(lambda a, out: nisa.tensor_copy(out.view(nl.float8_e4m3fn_x4),
                                              a.view(nl.float8_e4m3fn_x4)),
              bits, outs=[((4, 6), nl.uint32)])
    same(ran.outputs[0], bits)


def test_int32_goes_through_float32_to_another_type():
    values = np.array([[2**24 + 1, 2**31 - 1, -2**24 - 1]], np.int32)
    got = result(lambda a, out: nisa.tensor_copy(out, a), values, outs=[((1, 3), nl.uint32)])
    same(got, [[2**24, 2**31, 0]])  # float32 drops the last bit; uint32 has nothing below 0


# --- element-wise --------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "value", "expected"), [
    (nl.float32, 0.1, float(F32(0.1))), (nl.bfloat16, 0.1, 0.10009765625), (nl.float16, 3, 3.0),
    (nl.int32, -7, -7), (nl.uint8, 255, 255), (nl.float32, -math.inf, -math.inf),
    (nl.float8_e4m3, 0.3, 0.3125), (nl.bool_, True, 1)])
def test_memset(dtype, value, expected):
    got = result(lambda out: nisa.memset(out, value), outs=[((128, 3), dtype)])
    same(got, np.full((128, 3), expected))


PAIRS = [(nl.float32, nl.float32, nl.float32), (nl.bfloat16, nl.bfloat16, nl.bfloat16),
         (nl.bfloat16, nl.float32, nl.float16), (nl.float8_e4m3, nl.float16, nl.float32),
         (nl.int8, nl.float32, nl.bfloat16), (nl.uint8, nl.int16, nl.int32),
         (nl.float32, nl.float32, nl.uint8)]


@pytest.mark.parametrize("types", PAIRS, ids=str)
@pytest.mark.parametrize("op", STEP, ids=str)
def test_tensor_tensor(op, types):
    a, b = (draw((5, 12), t, seed) for seed, t in enumerate(types[:2]))
    b[:, ::3] = a[:, ::3].astype(F32).astype(b.dtype)  # some are equal
    got = result(lambda x, y, o: nisa.tensor_tensor(o, x, y, op), a, b, outs=[(a.shape, types[2])])
    same(got, stored(step(op, f64(a), f64(b)), types[2]))


@pytest.mark.parametrize(("left", "right", "out"), [
    (SBUF, SBUF, PSUM), (SBUF, PSUM, SBUF), (PSUM, SBUF, PSUM)])
def test_tensor_tensor_reads_and_writes_psum(left, right, out):
    a, b = draw((64, 8)), draw((64, 8), seed=1)
    got = run(lambda x, y, o: nisa.tensor_tensor(o, x, y, nl.subtract), (a, left), (b, right),
              outs=[((64, 8), nl.float32, out)])
    same(got.outputs[0], f64(a - b))
    assert records(got, "tensor_tensor")[0].engine == "vector"


def test_the_free_dimensions_only_need_as_many_elements():
    a, b = draw((4, 6)), draw((4, 2, 3), seed=1)
    got = result(lambda x, y, o: nisa.tensor_tensor(o, x, y, nl.add), a, b, outs=[(4, 3, 2)])
    same(got, (a + b.reshape(4, 6)).reshape(4, 3, 2))


@pytest.mark.parametrize("dtype", [nl.int32, nl.uint32], ids=str)
@pytest.mark.parametrize("op", [nl.add, nl.subtract, nl.multiply, nl.maximum, nl.less], ids=str)
def test_whole_32_bit_tiles_are_exact_on_gpsimd(op, dtype):
    a, b = draw((3, 40), dtype), draw((3, 40), dtype, seed=1)
    got = run(lambda x, y, o: nisa.tensor_tensor(o, x, y, op), a, b, outs=[(a.shape, dtype)])
    exact = [STEP[op](int(x), int(y)) % 2**32 for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    same(got.outputs[0].view(np.uint32).ravel(), exact)
    assert records(got, "tensor_tensor")[0].engine == "gpsimd"


def test_int32_and_uint32_mix_exactly():
    a, b = draw((3, 8), nl.int32), draw((3, 8), nl.uint32)
    got = run(lambda x, y, o: nisa.tensor_tensor(o, x, y, nl.add), a, b, outs=[((3, 8), nl.int32)])
    same(got.outputs[0].view(np.uint32), (a.astype(np.int64) + b) % 2**32)
    only = run(lambda x, o: nisa.tensor_tensor(o, x, x, nl.maximum), a, outs=[((3, 8), nl.int32)])
    assert {r.engine for r in (*got.trace, *only.trace)} == {"gpsimd"}
    some = run(lambda x, o: nisa.tensor_tensor(o, x, x, nl.maximum), a, outs=[((3, 8), nl.int16)])
    assert some.trace[0].work.engines == ("vector", "gpsimd")


def test_whole_32_bit_tiles_are_float32_on_vector():
    a = np.full((1, 2), 2**24, np.int32)
    b = np.ones((1, 2), np.int32)
    for kwargs, other in (({"engine": nisa.engine.vector}, b), ({}, (b, PSUM))):
        got = run(lambda x, y, o, kw=kwargs: nisa.tensor_tensor(o, x, y, nl.add, **kw), a, other,
                  outs=[((1, 2), nl.int32)])
        same(got.outputs[0], [[2**24, 2**24]])  # 2^24 + 1 is no float32
        assert records(got, "tensor_tensor")[0].engine == "vector"


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int32], ids=str)
def test_power_runs_on_gpsimd(dtype):
    base, exponent = np.array([[2, 3, 5, 7]]), np.array([[10, 3, 0, 1]])
    got = run(lambda x, y, o: nisa.tensor_tensor(o, x, y, nl.power), base.astype(dtype.numpy),
              exponent.astype(dtype.numpy), outs=[((1, 4), dtype)])
    same(got.outputs[0], [[1024, 27, 1, 7]])
    assert records(got, "tensor_tensor")[0].engine == "gpsimd"


@pytest.mark.parametrize("dtype", INTS, ids=str)
@pytest.mark.parametrize("op", BITS, ids=str)
def test_bitvec_operators_work_on_the_bits(op, dtype):
    width = 8 * dtype.itemsize
    a, b = draw((3, 16), dtype), draw((3, 16), dtype, seed=1)
    if "shift" in op.name:
        b = (b.view(f"u{dtype.itemsize}") % width).astype(dtype.numpy)
    got = run(lambda x, y, o: nisa.tensor_tensor(o, x, y, op), a, b, outs=[(a.shape, dtype)])
    expected = [BITS[op](int(x) % 2**width, int(y) % 2**width) % 2**width
                for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    same(got.outputs[0].view(f"u{dtype.itemsize}").ravel(), expected)
    assert records(got, "tensor_tensor")[0].engine == "vector"


def test_nan_goes_through():
    a, b = np.array([[np.nan, 1, np.nan]], F32), np.array([[1, np.nan, np.nan]], F32)
    for op in (nl.add, nl.multiply, nl.maximum, nl.minimum):
        got = result(lambda x, y, o, op=op: nisa.tensor_tensor(o, x, y, op), a, b, outs=[(1, 3)])
        assert np.isnan(got).all(), op
    for op in (nl.relu, nl.gelu, nl.silu, nl.exp, nl.tanh, nl.copy, nl.square):
        got = result(lambda x, o, op=op: nisa.activation(o, op, x), a, outs=[((1, 3), nl.bfloat16)])
        assert np.isnan(got.astype(F32)).tolist() == [[True, False, True]], op
    for op in (nl.maximum, nl.add):
        got = result(lambda x, o, op=op: nisa.tensor_reduce(o, op, x, axis=1), a, outs=[(1, 1)])
        assert np.isnan(got).all(), op


def test_abs_max_and_abs_min_keep_the_sign():
    a, b = np.array([[-5, 1, 2, np.nan]], F32), np.array([[3, -1, -4, 1]], F32)
    for op, expected in ((nl.abs_max, [-5, -1, -4, np.nan]), (nl.abs_min, [3, -1, 2, np.nan])):
        got = result(lambda x, y, o, op=op: nisa.tensor_tensor(o, x, y, op), a, b,
                     outs=[(1, 4)], target="trn3")
        same(got, [expected])  # equal magnitudes: the second


@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("ops", [(nl.subtract, nl.multiply), (nl.multiply, nl.subtract),
                                 (nl.maximum, nl.less), (nl.greater_equal, nl.add)], ids=str)
@pytest.mark.parametrize("kind", ["numbers", "tiles", "mixed"])
def test_tensor_scalar(kind, ops, reverse):
    a, vectors = draw((7, 9), nl.bfloat16), [draw((7, 1), seed=1), draw((7, 1), seed=2)]
    operands = [0.3, -1.5]
    use = {"numbers": (0, 0), "tiles": (1, 1), "mixed": (0, 1)}[kind]

    def body(x, v, w, out):
        first, second = (t if tile else n for t, n, tile in zip((v, w), operands, use, strict=True))
        nisa.tensor_scalar(out, x, ops[0], first, reverse[0], ops[1], second, reverse[1])
    got = result(body, a, *vectors, outs=[(a.shape, nl.float16)])
    expected = f64(a)
    for op, left, number, vector, tile in zip(ops, reverse, operands, vectors, use, strict=True):
        y = f64(vector) if tile else float(F32(number))
        expected = step(op, y, expected) if left else step(op, expected, y)
    same(got, stored(expected, nl.float16))


def test_tensor_scalar_with_one_operator_and_with_unary_ones():
    a = np.array([[-2, 3], [0.25, -4]], F32)
    for op, expected in ((nl.abs, [[2, 3], [0.25, 4]]), (nl.square, [[4, 9], [0.0625, 16]]),
                         (nl.relu, [[0, 3], [0.25, 0]]), (nl.reciprocal, f64(1 / a)),
                         (nl.logical_not, [[0, 0], [0, 0]])):
        got = result(lambda x, o, op=op: nisa.tensor_scalar(o, x, op, None), a, outs=[(2, 2)])
        same(got, expected)
    got = run(lambda x, o: nisa.tensor_scalar(o, x, nl.rsqrt, 0.0), np.array([[4, 16]], F32),
              outs=[(1, 2)])
    same(got.outputs[0], [[0.5, 0.25]])
    assert records(got, "tensor_scalar")[0].work.engines == ("vector", "gpsimd")


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_tensor_scalar_on_bits(dtype):
    width, a = 8 * dtype.itemsize, draw((4, 10), dtype)
    got = run(lambda x, o: nisa.tensor_scalar(o, x, nl.right_shift, 3, False, nl.bitwise_xor, 5),
              a, outs=[(a.shape, dtype)])
    same(got.outputs[0].view(f"u{dtype.itemsize}"),
         [[((int(x) % 2**width) >> 3) ^ 5 for x in row] for row in a])  # the shift brings zeros in
    assert records(got, "tensor_scalar")[0].engine == "vector"
    got = result(lambda x, o: nisa.tensor_scalar(o, x, nl.invert, None), a, outs=[(a.shape, dtype)])
    same(got.view(f"u{dtype.itemsize}"),
         [[2**width - 1 - int(x) % 2**width for x in row] for row in a])


@pytest.mark.parametrize("reverse", [(False, False), (True, True)])
@pytest.mark.parametrize("out", FLOATS[:3], ids=str)
def test_scalar_tensor_tensor(out, reverse):
    a, v, b = draw((6, 5), nl.bfloat16), draw((6, 1), seed=1), draw((6, 5), nl.float16, seed=2)
    got = result(lambda x, s, y, o: nisa.scalar_tensor_tensor(
        o, x, nl.subtract, s, nl.subtract, y, *reverse), a, v, (b, PSUM), outs=[(a.shape, out)])
    first = step(nl.subtract, f64(v), f64(a)) if reverse[0] else step(nl.subtract, f64(a), f64(v))
    second = step(nl.subtract, f64(b), first) if reverse[1] else step(nl.subtract, first, f64(b))
    same(got, stored(second, out))


@pytest.mark.parametrize("types", [(nl.float32, nl.float32), (nl.bfloat16, nl.float16),
                                   (nl.int8, nl.bfloat16)], ids=str)
def test_reciprocal(types):
    a = draw((3, 50), types[0])
    a[0, 0] = 0
    got = result(lambda x, o: nisa.reciprocal(o, x), a, outs=[(a.shape, types[1])])
    expected = [1 / x if x else math.inf for x in f64(a).ravel()]
    same(got, stored(np.array(expected).astype(F32), types[1]).reshape(a.shape))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int32], ids=str)
def test_tensor_copy_predicated(dtype, reverse):
    a, before = draw((4, 9), dtype), draw((4, 9), dtype, seed=1)
    keep = np.random.default_rng(2).integers(0, 3, (4, 9)).astype(np.uint16)
    chosen = (keep == 0) if reverse else (keep != 0)
    got = result(lambda x, p, o: nisa.tensor_copy_predicated(o, x, p, reverse), a, (keep, PSUM),
                 outs=[before])
    assert got.tobytes() == np.where(chosen, a, before).tobytes()
    value = 2**24 + 1 if dtype is nl.int32 else 0.3
    got = result(lambda p, o: nisa.tensor_copy_predicated(o, value, p, reverse), keep,
                 outs=[before])
    assert got.tobytes() == np.where(chosen, np.array(value, dtype.numpy), before).tobytes()


# --- one tile, read and written ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int32], ids=str)
@given(read=st.integers(0, 6), write=st.integers(0, 6), size=st.integers(1, 6),
       by=st.integers(1, 2))
@settings(max_examples=25, deadline=None)
def test_overlapping_views_are_read_before_they_are_written(dtype, read, write, size, by):
    a = draw((2, 18), dtype)

    def at(t, start):
        return t[:, start:start + by * (size - 1) + 1:by]
    expected = a.copy()
    at(expected, write)[...] = at(a, read).copy()
    got = result(lambda t: nisa.tensor_copy(at(t, write), at(t, read)), outs=[a])
    assert got.tobytes() == expected.tobytes()
    got = result(lambda t: nisa.activation(at(t, write), nl.copy, at(t, read)), outs=[a])
    at(expected, write)[...] = at(a, read).astype(F32).astype(a.dtype)
    assert dtype is nl.int32 or got.tobytes() == expected.tobytes()


def test_in_place():
    a, v = draw((8, 16)), draw((8, 1), seed=1)
    reads_twice = result(lambda s, t: nisa.scalar_tensor_tensor(t, t, nl.multiply, s, nl.add, t), v,
                         outs=[a])
    same(reads_twice, step(nl.add, step(nl.multiply, f64(a), f64(v)), f64(a)))
    summed = result(lambda t: nisa.tensor_tensor(t, t, t, nl.add), outs=[a])
    same(summed, 2 * f64(a))
    total = result(lambda t: nisa.tensor_reduce(t[:, 0:1], nl.maximum, t, axis=1), outs=[a])
    same(total[:, 0], a.max(axis=1))
    shifted = result(lambda t: nisa.tensor_tensor_scan(t, t, t, 0.0, nl.multiply, nl.add), outs=[a])
    same(shifted, scanned(f64(a), f64(a), np.zeros(8), nl.multiply, nl.add))
    reduced = result(lambda t: nisa.activation_reduce(t, nl.copy, t, nl.add, t[:, 0:1]), outs=[a])
    np.testing.assert_allclose(reduced[:, 0], f64(a).sum(axis=1), atol=1e-4)
    same(reduced[:, 1:], a[:, 1:])


def test_a_float32_copy_of_a_tile_is_never_stale():
    a = np.ones((2, 4), np.float32).astype(ml_dtypes.bfloat16)

    def body(t, out):
        nisa.tensor_tensor(t, t, t, nl.add)
        nisa.memset(t[:, 0:2], 5.0)
        nisa.tensor_copy(out, t)
    same(result(body, a, outs=[(2, 4)]), [[5, 5, 2, 2]] * 2)


# --- reductions, scans, statistics ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16, nl.int8], ids=str)
@pytest.mark.parametrize(("op", "oracle"), [
    (nl.add, math.fsum), (nl.maximum, max), (nl.minimum, min), (nl.multiply, math.prod),
    (nl.logical_and, all), (nl.logical_or, any)], ids=str)
@pytest.mark.parametrize(("axis", "shape"), [
    (3, (4, 2, 3, 1)), ((2, 3), (4, 2, 1, 1)), ([1, 2, 3], (4, 1, 1, 1)), (-1, (4, 2, 3))])
def test_tensor_reduce(axis, shape, op, oracle, dtype):
    a = draw((4, 2, 3, 5), dtype, scale=1)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    got = result(lambda x, o: nisa.tensor_reduce(o, op, x, axis, keepdims=len(shape) == 4), a,
                 outs=[(shape, nl.float32)])
    flat = f64(a).reshape(*a.shape[:a.ndim - len(axes)], -1)
    expected = np.apply_along_axis(lambda row: float(oracle(row.tolist())), -1, flat).reshape(shape)
    with np.errstate(over="ignore"):
        expected = expected.astype(F32)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    negated = result(lambda x, o: nisa.tensor_reduce(o, op, x, axis, negate=True), a,
                     outs=[(shape, nl.float32)])
    same(negated, -got)


@pytest.mark.parametrize("op", [nl.bitwise_and, nl.bitwise_or, nl.bitwise_xor], ids=str)
def test_tensor_reduce_of_bits(op):
    a = draw((3, 4), nl.int32)
    got = result(lambda x, o: nisa.tensor_reduce(o, op, x, axis=1), a, outs=[((3, 1), nl.int32)])
    for row, (value,) in zip(a.tolist(), got.tolist(), strict=True):
        expected = row[0]
        for x in row[1:]:
            expected = BITS[op](expected, x)
        assert value == expected


def scanned(data0, data1, before, op0, op1, reverse0=False, reverse1=False):
    """tensor_tensor_scan, column by column."""
    columns = []
    for i in range(data0.shape[1]):
        pair = (before, data0[:, i]) if reverse0 else (data0[:, i], before)
        pair = (data1[:, i], step(op0, *pair)) if reverse1 else (step(op0, *pair), data1[:, i])
        before = step(op1, *pair)
        columns.append(before)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("reverse", [(False, False), (True, True)])
@pytest.mark.parametrize("ops", [(nl.multiply, nl.add), (nl.subtract, nl.maximum),
                                 (nl.minimum, nl.subtract)], ids=str)
@pytest.mark.parametrize("initial", ["number", "tile"])
def test_tensor_tensor_scan(initial, ops, reverse):
    a, b = draw((5, 7), nl.bfloat16, scale=1), draw((5, 7), seed=1)
    start, tile = draw((5, 1), nl.bfloat16, 2), initial == "tile"
    got = result(lambda x, y, s, o: nisa.tensor_tensor_scan(
        o, x, y, s if tile else 0.5, *ops, *reverse), (a, PSUM), b, start,
        outs=[(a.shape, nl.bfloat16)])
    before = f64(start)[:, 0] if tile else np.full(5, 0.5)
    same(got, stored(scanned(f64(a), f64(b), before, *ops, *reverse), nl.bfloat16))


@pytest.mark.parametrize("free", [1, 2, 7, 512])
def test_bn_stats_and_bn_aggr(free):
    a, b = draw((3, free)), draw((3, 20), nl.bfloat16, seed=1)

    def body(x, y, stats, both, total):
        nisa.bn_stats(stats, x)
        nisa.tensor_copy(both[:, 0:6], stats)
        nisa.bn_stats(both[:, 6:12], y)
        nisa.bn_aggr(total, both)
    stats, _, total = result(body, a, b, outs=[(3, 6), (3, 12),
                                               (3, 2)])
    for p, row in enumerate(f64(a)):
        for at, part in ((0, row[::2]), (3, row[1::2])):
            mean = part.mean() if len(part) else 0.0
            expected = [len(part), mean, ((part - mean)**2).sum()]
            np.testing.assert_allclose(stats[p, at:at + 3], expected, rtol=1e-5, atol=1e-5)
        every = np.concatenate([row, f64(b)[p]])
        np.testing.assert_allclose(total[p], [every.mean(), every.var()], rtol=1e-4, atol=1e-5)


# --- activations ---------------------------------------------------------------------------------


def normal(x):
    """The normal distribution's share below x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def logistic(x):
    """1 / (1 + exp(-x)), also far below 0."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x):
    """log(1 + exp(x)), also far above 0."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def derivative(function):
    """A central difference, good to 1e-9 or so."""
    return lambda x: (function(x + 1e-5) - function(x - 1e-5)) / 2e-5


def gelu(x):
    return x * normal(x)


def gelu_tanh(x):
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_sigmoid(x):
    return x * logistic(1.702 * x)


def silu(x):
    return x * logistic(x)


ACTIVATIONS = {
    nl.copy: lambda x: x, nl.square: lambda x: x * x, nl.sigmoid: logistic,
    nl.relu: lambda x: max(x, 0.0), nl.gelu: gelu, nl.gelu_dx: derivative(gelu),
    nl.gelu_apprx_tanh: gelu_tanh,
    nl.gelu_apprx_sigmoid: gelu_sigmoid, nl.gelu_apprx_sigmoid_dx: derivative(gelu_sigmoid),
    nl.silu: silu, nl.silu_dx: derivative(silu), nl.tanh: math.tanh, nl.softplus: softplus,
    nl.mish: lambda x: x * math.tanh(softplus(x)), nl.erf: math.erf,
    nl.erf_dx: lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x), nl.exp: math.exp,
    nl.log: math.log, nl.sin: math.sin, nl.arctan: math.atan, nl.sqrt: math.sqrt,
    nl.rsqrt: lambda x: 1 / math.sqrt(x), nl.reciprocal: lambda x: 1 / x,
    nl.sign: lambda x: (x > 0) - (x < 0), nl.abs: abs}
INSIDE = {nl.log: (0.01, 50), nl.sqrt: (0, 50), nl.rsqrt: (0.01, 50), nl.reciprocal: (0.1, 50),
          nl.sin: (-3.14, 3.14), nl.arctan: (-1.57, 1.57)}


@pytest.mark.parametrize("op", ACTIVATIONS, ids=str)
def test_activation_functions(op):
    low, high = INSIDE.get(op, (-12, 12))
    x = np.linspace(low, high, 1200, dtype=F32).reshape(4, 300)
    if op is nl.sqrt:
        x[0, 0] = 1e-30
    got = run(lambda a, o: nisa.activation(o, op, a), x, outs=[(x.shape, nl.float32)])
    expected = np.array([ACTIVATIONS[op](v) for v in f64(x).ravel().tolist()]).reshape(x.shape)
    np.testing.assert_allclose(got.outputs[0], expected, rtol=2e-6, atol=2e-6)
    assert not [w for w in got.warnings if "invalid" in w]
    rounded_down = result(lambda a, o: nisa.activation(o, op, a), x, outs=[(x.shape, nl.bfloat16)])
    same(rounded_down, stored(got.outputs[0], nl.bfloat16))


@pytest.mark.parametrize("op", [nl.gelu, nl.silu, nl.mish, nl.gelu_apprx_tanh,
                                nl.gelu_apprx_sigmoid, nl.sigmoid, nl.exp, nl.relu], ids=str)
def test_activations_at_infinity(op):
    x = np.array([[-np.inf, np.inf, -1e30, 1e30]], F32)
    got = result(lambda a, o: nisa.activation(o, op, a), x, outs=[(1, 4)])
    grown = 1.0 if op is nl.sigmoid else np.inf
    same(np.abs(got), [[0, grown, 0, grown if op in (nl.sigmoid, nl.exp) else F32(1e30)]])


@pytest.mark.parametrize("bias", ["none", "number", "float32", "bfloat16"])
@pytest.mark.parametrize("scale", [1.0, -0.5, "tile"])
def test_activation_scales_and_adds_before_the_function(scale, bias):
    a, s, b = draw((6, 10), nl.bfloat16), draw((6, 1), seed=1), draw((6, 1), seed=2)
    if bias == "bfloat16":
        b = b.astype(ml_dtypes.bfloat16)

    def body(x, sc, bi, out):
        nisa.activation(out, nl.relu, x, bias={"none": None, "number": 0.3}.get(bias, bi),
                        scale=sc if scale == "tile" else scale)
    got = result(body, (a, PSUM), s, (b, PSUM), outs=[(6, 10)])
    x = step(nl.multiply, f64(a), f64(s) if scale == "tile" else float(F32(scale)))
    x = step(nl.add, x, {"none": 0.0, "number": float(F32(0.3))}.get(bias, f64(b)))
    same(got, np.maximum(x, 0))


def test_activation_registers_go_on_from_call_to_call():
    a = draw((4, 6), scale=1)

    def body(x, first, second, third):
        tile = nl.ndarray((4, 6), dtype=nl.bfloat16, buffer=SBUF)
        nisa.activation(tile, nl.square, x, reduce_op=nl.add, reduce_res=first,
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(tile, nl.square, x)  # idle: the registers stay
        nisa.activation(tile, nl.square, x, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reduce)
        nisa.activation(tile, nl.copy, x, reduce_res=second)
        nisa.activation(tile, nl.copy, x, reduce_op=nl.add, reduce_cmd=nisa.reduce_cmd.reset,
                        reduce_res=third)
    ran = run(body, a, outs=[(4, 1)] * 3)
    total = (f64(a)**2).sum(axis=1, keepdims=True)  # of the float32 results, not of bf16 ones
    for got, expected in zip(ran.outputs, (total, 2 * total, 0 * total), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert len(records(ran, "act_read_accumulator")) == 3  # one for each reduce_res
    assert {r.engine for r in records(ran, "act_read_accumulator")} == {"scalar"}


def test_activation_reduce_is_activation_with_reset_reduce():
    a, v = draw((4, 6)), draw((4, 1), seed=1)
    out, total = result(lambda x, b, o, r: nisa.activation_reduce(
        o, nl.exp, x, nl.add, r, bias=b, scale=0.1), a, v, outs=[(4, 6), (4, 1)])
    np.testing.assert_allclose(total, f64(out).sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(out, np.exp(0.1 * f64(a) + f64(v)), rtol=1e-6)


def test_registers_belong_to_partitions():
    a = draw((64, 3), scale=1)

    def body(x, low, high):
        tile = nl.ndarray((64, 3), dtype=nl.float32, buffer=SBUF)
        for part in (slice(0, 32), slice(32, 64)):
            nisa.activation(tile[part], nl.copy, x[part], reduce_op=nl.add,
                            reduce_cmd=nisa.reduce_cmd.reset_reduce)
        nisa.activation(tile[0:32], nl.copy, x[0:32], reduce_res=low)
        nisa.activation(tile[32:64], nl.copy, x[32:64], reduce_res=high)
    low, high = result(body, a, outs=[(32, 1)] * 2)
    np.testing.assert_allclose([*low[:, 0], *high[:, 0]], f64(a).sum(axis=1), atol=1e-6)


def test_a_register_that_nothing_set_holds_nan():
    got = result(lambda x, o, r: nisa.activation(o, nl.copy, x, reduce_res=r), draw((2, 2)),
                 outs=[(2, 2), (2, 1)])[1]
    assert np.isnan(got).all()


@pytest.mark.parametrize(("op", "value", "text"), [
    (nl.sin, 4.0, "nl.sin of an input outside -3.14159 to 3.14159"),
    (nl.log, 0.0, "nl.log of an input outside 5.42101e-20 to 1.84467e+19"),  # 2^-64 to 2^64
    (nl.reciprocal, -1e20, "nl.reciprocal of an input whose size is outside 2.27374e-13"),
    (nl.arctan, 2.0, "nl.arctan"), (nl.rsqrt, 1e-30, "nl.rsqrt"), (nl.sqrt, -1.0, "nl.sqrt")])
def test_inputs_for_which_the_engine_has_no_answer_are_warned_of(op, value, text):
    ran = run(lambda x, o: nisa.activation(o, op, x), np.full((1, 2), value, F32),
              outs=[(1, 2)])
    told, = [w for w in ran.warnings if text in w and "invalid" in w]
    assert told.endswith("and NaN here") == (op is nl.sin)
    assert op is not nl.sin or np.isnan(ran.outputs[0]).all()


@pytest.mark.parametrize(("op", "edges"), [
    (nl.log, (2.0**-64, 2.0**64)), (nl.sqrt, (2.0**-116, 2.0**118)),
    (nl.rsqrt, (2.0**-87, 2.0**97)),
    (nl.reciprocal, (2.0**-42, -2.0**42)), (nl.sin, (-math.pi, math.pi)),
    (nl.arctan, (-math.pi / 2, math.pi / 2))], ids=str)
def test_the_edges_of_an_input_range_are_inside(op, edges):
    for size, told in ((1, False), (1 + 2.0**-20, True)):
        x = np.array([edges], np.float64) * size
        ran = run(lambda x, o: nisa.activation(o, op, x), x.astype(F32), outs=[(1, 2)])
        assert any("invalid" in w for w in ran.warnings) == told


def test_sin_at_pi_has_an_answer():
    x = np.array([[-math.pi, math.pi]], F32)
    got = result(lambda a, o: nisa.activation(o, nl.sin, a), x, outs=[(1, 2)])
    np.testing.assert_allclose(got, 0, atol=1e-6)


def test_activate2_warns_of_its_inputs_too():
    ran = run(lambda x, o: nisa.activate2(o, nl.log, x, 0.0, 0.0, nl.bypass, nl.bypass),
              np.zeros((1, 2), F32), outs=[(1, 2)], target="trn3")
    assert any("activate2: nl.log of an input outside" in w for w in ran.warnings)


@pytest.mark.parametrize("reverse", [(False, False), (True, True)])
@pytest.mark.parametrize("pair", [(nl.multiply, nl.add), (nl.multiply, nl.subtract),
                                  (nl.multiply, nl.bypass), (nl.add, nl.bypass),
                                  (nl.subtract, nl.bypass), (nl.bypass, nl.bypass)], ids=str)
def test_activate2(pair, reverse):
    a, v = draw((3, 8), nl.bfloat16), draw((3, 1), seed=1)
    got, most = result(lambda x, s, o, r: nisa.activate2(
        o, nl.prelu, x, s, 0.75, *pair, relu_param=0.5, reverse0=reverse[0], reverse1=reverse[1],
        reduce_op=nl.maximum, reduce_cmd=nisa.reduce_cmd.reset_reduce, reduce_res=r),
        a, v, outs=[a.shape, (3, 1)], target="trn3")
    x = f64(a)
    for op, y, left in zip(pair, (f64(v), 0.75), reverse, strict=True):
        if op is not nl.bypass:
            x = step(op, y, x) if left else step(op, x, y)
    same(got, np.where(x >= 0, x, x / 2))
    same(most, got.max(axis=1, keepdims=True))


# --- reductions that stay in the Vector Engine ---------------------------------------------------


@pytest.mark.parametrize(("reduce_op", "oracle"), [
    (nl.add, math.fsum), (nl.multiply, math.prod), (nl.maximum, max), (nl.minimum, min)], ids=str)
def test_tensor_scalar_reduce(reduce_op, oracle):
    a, start = draw((3, 5), scale=1), np.array([[1], [2], [-1]], F32)
    cmd = nisa.reduce_cmd

    def body(x, s, o, one, two, loaded):
        nisa.tensor_scalar_reduce(o, x, nl.subtract, 0.5, reduce_op, one)
        nisa.tensor_scalar_reduce(o, x, nl.subtract, 0.5, reduce_op, two, reduce_cmd=cmd.reduce)
        nisa.tensor_scalar_reduce(o, x, nl.subtract, 0.5, reduce_op, loaded, reduce_init=s,
                                  reduce_cmd=cmd.load_reduce, reduce_res_negate=True)
    out, one, two, loaded = result(body, a, start, outs=[a.shape] + [(3, 1)] * 3)
    same(out, step(nl.subtract, f64(a), 0.5))
    for p, row in enumerate(f64(out).tolist()):
        np.testing.assert_allclose(one[p], oracle(row), rtol=1e-5)
        np.testing.assert_allclose(two[p], oracle(row + row), rtol=1e-5)
        np.testing.assert_allclose(loaded[p], -oracle([float(start[p, 0]), *row]), rtol=1e-5)


@pytest.mark.parametrize(("op1", "start"), [
    (nl.add, 0), (nl.subtract, 0), (nl.multiply, 1), (nl.maximum, -math.inf),
    (nl.minimum, math.inf)], ids=str)
def test_tensor_scalar_cumulative(op1, start):
    a = draw((2, 6), nl.bfloat16, scale=1)
    cmd = nisa.reduce_cmd

    def body(x, first, then, loaded):
        nisa.tensor_scalar_cumulative(first, x, nl.multiply, op1, 1.5)
        nisa.tensor_scalar_cumulative(then, x, nl.multiply, op1, 1.5, reduce_cmd=cmd.reduce)
        nisa.tensor_scalar_cumulative(loaded, x, nl.multiply, op1, 1.5, 2.0, cmd.load_reduce)
    got = result(body, a, outs=[a.shape] * 3)

    def walk(reg):
        columns = []
        for column in f64(a).T:
            reg = step(op1, step(nl.multiply, column, 1.5), reg)
            columns.append(reg)
        return np.stack(columns, axis=1)
    first = walk(np.full(2, float(start)))
    same(got[0], first)
    same(got[1], walk(first[:, -1]))
    same(got[2], walk(np.full(2, 2.0)))


def test_exponential():
    a, most = draw((3, 8), nl.bfloat16), draw((3, 1), seed=1)
    cmd = nisa.reduce_cmd

    def body(x, m, o, total, more, idle):
        nisa.exponential(o, x, m, total, cmd.reset_reduce)
        nisa.exponential(o, x, m, more, cmd.reduce)
        nisa.exponential(o, x, m, idle)
    out, total, more, idle = result(body, a, most, outs=[a.shape] + [(3, 1)] * 3,
                                    target="trn3")
    expected = np.exp(f64(a) - f64(most))
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    np.testing.assert_allclose(total, expected.sum(axis=1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(more, 2 * total, rtol=1e-6)
    assert np.isnan(idle).all()  # idle may leave anything there


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("other", ["number", "tile"])
def test_select_reduce(other, reverse):
    a, v = draw((4, 7), nl.bfloat16), draw((4, 1), seed=1)
    keep = np.random.default_rng(2).integers(-1, 2, (4, 7)).astype(np.int8)

    def body(x, p, s, o, most, more):
        y = s if other == "tile" else -0.5
        for out, cmd in ((most, nisa.reduce_cmd.reset_reduce), (more, nisa.reduce_cmd.reduce)):
            nisa.select_reduce(o, p, x, y, out, cmd, reverse_pred=reverse)
    out, most, more = result(body, a, keep, v, outs=[(a.shape, nl.float16)] + [(4, 1)] * 2)
    chosen = (keep == 0) if reverse else (keep != 0)
    expected = np.where(chosen, f64(a), f64(v) if other == "tile" else -0.5)
    same(out, stored(expected, nl.float16))
    same(most, expected.max(axis=1, keepdims=True))  # of what was selected, before it is rounded
    same(more, most)


@pytest.mark.parametrize("ops", [(nl.greater_equal, nl.less), (nl.equal, nl.less_equal),
                                 (nl.greater, nl.greater)], ids=str)
@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16], ids=str)
def test_range_select(dtype, ops):
    a = draw((4, 10), dtype)
    low, high = np.array([[3], [5], [100], [0]], F32), np.array([[8], [5], [200], [50]], F32)
    out, most = result(lambda x, b, c, o, r: nisa.range_select(
        o, x, *ops, b, c, reduce_res=r, range_start=2), a, low, high,
        outs=[(a.shape, dtype), (4, 1)])
    least, expected = float(np.finfo(F32).min), f64(a)
    for p, i in np.ndindex(a.shape):
        if not (STEP[ops[0]](i + 2, low[p, 0]) and STEP[ops[1]](i + 2, high[p, 0])):
            expected[p, i] = least
    same(out, stored(expected, dtype))  # FP32_MIN becomes -inf in bf16
    same(most, np.max(expected, axis=1, keepdims=True))  # and stays FP32_MIN in float32


# --- eight at a time -----------------------------------------------------------------------------


def test_max8():
    a = draw((5, 3, 7), nl.bfloat16)
    got = result(lambda x, o: nisa.max8(o, x), a, outs=[(5, 8)])
    same(got, [sorted(row.ravel().tolist(), reverse=True)[:8] for row in f64(a)])


def test_nc_find_index8():
    data = np.array([[1, 8, 2, 8, 3, 8, 5, 6, 7]], F32)
    vals = np.array([[8, 8, 3, 99, 1, 7, 8, 8]], F32)
    for dtype, none in ((nl.uint32, 2**32 - 1), (nl.uint16, 2**16 - 1)):
        got = result(lambda x, v, o: nisa.nc_find_index8(o, x, v), data, vals,
                     outs=[((1, 8), dtype)])
        same(got, [[1, 3, 4, none, 0, 8, 5, none]])  # the nth 8 of vals is the nth of data


def test_nc_match_replace8_as_documented():
    data = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], F32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], F32)
    out, at = result(lambda x, v, o, i: nisa.nc_match_replace8(o, x, v, -1.0, i), data, vals,
                     outs=[data.shape, ((1, 8), nl.uint32)])
    same(at, [[2, 10, 9, 8, 7, 6, 5, 4]])
    same(out, [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]])


def test_eight_times_the_largest_sorts_a_row():
    a = np.random.default_rng(0).permutation(64).reshape(2, 32).astype(F32)

    def body(x, out):
        for i in range(4):
            nisa.max8(out[:, 8 * i:8 * i + 8], x)
            nisa.nc_match_replace8(x, x, out[:, 8 * i:8 * i + 8], -math.inf)
    same(result(body, a, outs=[(2, 32)]), -np.sort(-a, axis=1))


@pytest.mark.parametrize("partitions", [32, 64, 128])
def test_nc_stream_shuffle(partitions):
    a, before = draw((partitions, 3)), draw((partitions, 3), seed=1)
    mask = [(i * 7) % 32 if i % 5 else 255 for i in range(32)]
    got = result(lambda x, o: nisa.nc_stream_shuffle(o, x, mask), a, outs=[before])
    same(got, [before[p] if mask[p % 32] == 255 else a[p // 32 * 32 + mask[p % 32]]
               for p in range(partitions)])
    by_one = [(i - 1) % 32 for i in range(32)]
    turned = result(lambda t: nisa.nc_stream_shuffle(t, t, by_one), outs=[a])
    same(turned, [a[p // 32 * 32 + (p - 1) % 32] for p in range(partitions)])
    spread = result(lambda x, o: nisa.nc_stream_shuffle(o, x, [0] * 32), a[:1], outs=[(32, 3)])
    same(spread, np.repeat(a[:1], 32, axis=0))


# --- GpSimd --------------------------------------------------------------------------------------

PATTERNS = [([[1, 24]], 0, 0), ([[-2, 24]], 5, 3), ([[1, 4], [10, 3], [100, 2]], -7, 1000),
            ([[0, 2], [1, 2], [-5, 3], [7, 2]], 1, -1), ([[100, 1], [3, 24]], 0, 2)]


def affine(pattern, offset, per_partition, partitions):
    """iota's pseudo code."""
    rows = []
    for p in range(partitions):
        values = [offset + p * per_partition]
        for move, count in pattern:
            values = [v + i * move for v in values for i in range(count)]
        rows.append(values)
    return np.array(rows)


@pytest.mark.parametrize("dtype", [nl.int32, nl.float32, nl.bfloat16], ids=str)
@pytest.mark.parametrize(("pattern", "offset", "per_partition"), PATTERNS)
def test_iota(pattern, offset, per_partition, dtype):
    got = run(lambda o: nisa.iota(o, pattern, offset, per_partition), outs=[((6, 4, 6), dtype)])
    expected = affine(pattern, offset, per_partition, 6)
    same(got.outputs[0].reshape(6, 24), stored(expected, dtype))
    assert records(got, "iota")[0].engine == "gpsimd"


@pytest.mark.parametrize("cmp_op", [nl.equal, nl.not_equal, nl.greater, nl.greater_equal, nl.less,
                                    nl.less_equal], ids=str)
@pytest.mark.parametrize("types", [(nl.float32, nl.float32), (nl.bfloat16, nl.bfloat16),
                                   (nl.float32, nl.float16), (nl.int32, nl.int32)], ids=str)
def test_affine_select(types, cmp_op):
    a = draw((6, 8), types[0])
    got = result(lambda x, o: nisa.affine_select(o, [[-1, 8]], 1, x, -9.0, cmp_op, 1), a,
                 outs=[(a.shape, types[1])])
    place = affine([[-1, 8]], 1, 1, 6)
    expected = [[float(x) if STEP[cmp_op](i, 0) else -9.0 for x, i in zip(row, at, strict=True)]
                for row, at in zip(a, place, strict=True)]
    same(got, stored(expected, types[1]))


def test_nc_n_gather():
    a = draw((5, 2, 8), nl.bfloat16)
    at = np.random.default_rng(1).integers(0, 16, (5, 3, 4)).astype(np.uint32)
    got = result(lambda x, i, o: nisa.nc_n_gather(o, x, i), a, at, outs=[((5, 12), nl.bfloat16)])
    for p in range(5):
        assert got[p].tolist() == [a[p].ravel()[i] for i in at[p].ravel()]


@pytest.mark.parametrize(("width", "valid"), [(1, None), (4, None), (2, 20), (1, 1)])
def test_local_gather(width, valid):
    a = draw((32, 64))
    at = (np.random.default_rng(1).integers(0, 64 // width, (32, 3)) * width).astype(np.uint16)
    used = 48 if valid is None else valid
    got = result(lambda x, i, o: nisa.local_gather(o, x, i, width, valid), a, at,
                 outs=[((32, used, width), nl.float32)])
    for p in range(32):
        group = p // 16 * 16
        listed = [at[group + row, column] for column in range(3) for row in range(16)][:used]
        same(got[p], [a[p, i:i + width] for i in listed])


@pytest.mark.parametrize(("op", "dtype"), [(nl.add, nl.float32), (nl.average, nl.bfloat16),
                                           (nl.maximum, nl.float32), (nl.bitwise_or, nl.int32),
                                           (nl.bitwise_and, nl.uint8)], ids=str)
def test_tensor_partition_reduce(op, dtype):
    a = draw((9, 2, 5), dtype, scale=1)
    got = result(lambda x, o: nisa.tensor_partition_reduce(o, op, x), a, outs=[((1, 2, 5), dtype)])
    if op.family == "bitvec":
        expected = a[0]
        for row in a[1:]:
            expected = BITS[op](expected, row)
    else:
        expected = {nl.add: np.sum, nl.average: np.mean, nl.maximum: np.max}[op](f64(a), axis=0)
    np.testing.assert_allclose(got[0].astype(np.float64), np.asarray(expected, np.float64),
                               rtol=2**-8 if dtype is nl.bfloat16 else 1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [nl.int32, nl.float32], ids=str)
def test_sequence_bounds(dtype):
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]]).astype(dtype.numpy)
    got = result(lambda s, o: nisa.sequence_bounds(o, s), ids, outs=[((1, 2, 9), dtype)])
    same(got, [[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]])


def test_nonzero_with_count():
    a, before = np.zeros((32, 8), np.int32), np.full((32, 9), 77, np.int32)
    a[0], a[16] = [0, 1, 1, 0, 0, 1, 0, 0], [5, -3, 0, 0, 0, 0, 0, 9]
    got = result(lambda s, o: nisa.nonzero_with_count(o, s, 16, -1), a, outs=[before])
    before[0], before[16] = [17, 18, 21, -1, -1, -1, -1, -1, 3], [16, 17, 23, -1, -1, -1, -1, -1, 3]
    same(got, before)  # only partitions 0 and 16 are written
