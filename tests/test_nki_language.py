"""nki.language: functions of tiles against NumPy, the instructions they issue, loops and ids."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import nki
from roofline.count import Uncounted
from roofline.nki import core
from roofline.nki import isa as nisa
from roofline.nki import language as nl
from roofline.nki.core import NkiValidationError
from roofline.nki.surface import documented

F32 = np.float32
rng = np.random.default_rng(7)
X, Y = (rng.uniform(-3, 3, (4, 8)).astype(F32) for _ in "xy")


def through(function, *arrays, target="trn2"):
    """What a function of tiles makes of arrays, and the opcodes between the loads and the store."""
    def kernel(*arguments):
        result = function(*[nl.load(x) for x in arguments])
        if result.buffer == nl.psum:
            result = nl.copy(result)
        out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
        nl.store(out, result)
        return out
    run = nki.run(kernel, *arrays, target=target)
    return run.outputs[0], [record.opcode for record in run.trace][len(arrays):-1]


def refused(function, *arrays, message, target="trn2", error=NkiValidationError):
    with pytest.raises(error, match=message):
        through(function, *arrays, target=target)


# --- operators ------------------------------------------------------------------------------

BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


@pytest.mark.parametrize("name", BINARY)
def test_two_tiles_are_a_tensor_tensor_a_number_a_tensor_scalar(name):
    op, function = getattr(nl, name), BINARY[name]
    x, y = X.copy(), Y.copy()
    y[:, ::3] = x[:, ::3]  # some are equal
    for ours, numpys, opcode in (
            (lambda a, b: op(a, b), function(x, y), "tensor_tensor"),
            (lambda a, b: op(a, 0.5), function(x, F32(0.5)), "tensor_scalar"),
            (lambda a, b: op(0.5, a), function(F32(0.5), x), "tensor_scalar")):
        got, opcodes = through(ours, x, y)
        assert opcodes == [opcode] and got.dtype == F32
        np.testing.assert_array_equal(got, numpys.astype(F32))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
                                  "right_shift"])
def test_bit_patterns_are_integers(name):
    a = rng.integers(0, 2**32, (4, 8), np.uint32)
    b = rng.integers(0, 31, (4, 8), np.uint32)
    op, function = getattr(nl, name), getattr(np, name)
    np.testing.assert_array_equal(through(op, a, b)[0], function(a, b))
    np.testing.assert_array_equal(through(lambda x: op(x, 3), a)[0], function(a, np.uint32(3)))
    refused(op, X, Y, message="a bitvec operator takes integer types")


def test_power_takes_two_tiles():
    got, opcodes = through(nl.power, np.abs(X), Y)
    np.testing.assert_allclose(got, np.abs(X) ** Y, rtol=1e-6)
    assert opcodes == ["tensor_tensor"]
    refused(lambda x: nl.power(x, 2.0), X, message=r"nl.power: got .* two tiles .*nl.full")


@pytest.mark.parametrize("name", ["divide", "mod", "fmod"])
def test_what_no_instruction_does_is_refused_with_a_way_out(name):
    refused(getattr(nl, name), X, Y, message=rf"nl.{name}: got a call; no instruction .*nl.recip")


def test_absolute_maximum_pairs_a_tile_with_a_column_on_trn3():
    """The documents' example: abs_max(-5, 3) is -5; a tie returns y."""
    x, column = np.full((4, 8), -5, F32), np.full((4, 1), 3, F32)
    assert (through(nl.abs_max, x, column, target="trn3")[0] == -5).all()
    assert (through(nl.abs_min, x, column, target="trn3")[0] == 3).all()
    ones, minus = np.ones_like(x), -np.ones_like(column)
    assert (through(nl.abs_max, ones, minus, target="trn3")[0] == -1).all()
    assert through(nl.abs_max, x, x, target="trn3")[1] == ["tensor_tensor"]
    refused(nl.abs_max, x, x, message="exists from NeuronCore-v4 on")


def test_tiles_of_two_shapes_do_not_broadcast():
    refused(nl.add, X, X[:, :1], message=r"nl.add: got \[4, 8\] and \[4, 1\]; tiles of one shape")
    refused(nl.add, X, X[:1], message="Widen one with nl.broadcast_to")
    got, opcodes = through(lambda x, y: nl.add(x, y.broadcast(1, 8)), X, X[:, :1])
    np.testing.assert_array_equal(got, X + X[:, :1])
    assert opcodes == ["tensor_tensor"]


def test_an_operator_needs_a_tile():
    refused(lambda x: nl.add(1.0, 2.0), X, message="nl.add: x or y: got 1.0; a tile")
    refused(lambda x: nl.exp(1.0), X, message="nl.exp: x: got 1.0; a tile")
    refused(lambda x: nl.exp(X), X, message="nl.exp: x: got array")
    refused(lambda x: nl.add(x, None), X, message="operand0: got None")


def test_a_result_has_the_first_tiles_dtype_or_the_one_asked_for():
    low = X.astype(ml_dtypes.bfloat16)
    for function, dtype in ((lambda x, y: nl.add(x, y), "float32"),
                            (lambda x, y: nl.add(y, x), "bfloat16"),
                            (lambda x, y: nl.add(2.0, y), "bfloat16"),
                            (lambda x, y: nl.less(x, y, dtype=nl.uint8), "uint8"),
                            (lambda x, y: nl.exp(x, dtype=nl.bfloat16), "bfloat16"),
                            (lambda x, y: nl.exp(y), "bfloat16"),
                            (lambda x, y: nl.sum(y, axis=1, dtype=nl.float32), "float32")):
        assert through(function, X, low)[0].dtype.name == dtype


def test_two_dtypes_without_a_dtype_are_told():
    def kernel(x, y):
        out = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        nl.store(out, nl.add(nl.load(x), nl.load(y)))
        return out
    low = X.astype(ml_dtypes.bfloat16)
    assert any("Say dtype=" in w for w in nki.run(kernel, X, low).warnings)
    assert not any("Say dtype=" in w for w in nki.run(kernel, X, X).warnings)


ONE = {  # name: NumPy in float64, the instruction
    "exp": (np.exp, "activation"), "sqrt": (np.sqrt, "activation"), "log": (np.log, "activation"),
    "square": (np.square, "activation"), "abs": (np.abs, "activation"),
    "tanh": (np.tanh, "activation"), "sign": (np.sign, "activation"),
    "arctan": (np.arctan, "activation"), "relu": (lambda x: np.maximum(x, 0), "activation"),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), "activation"),
    "silu": (lambda x: x / (1 + np.exp(-x)), "activation"),
    "softplus": (lambda x: np.log(1 + np.exp(x)), "activation"),
    "erf": (np.vectorize(math.erf), "activation"),
    "gelu": (lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2, "activation"),
    "reciprocal": (lambda x: 1 / x, "reciprocal"), "rsqrt": (lambda x: x**-0.5, "tensor_scalar"),
    "negative": (np.negative, "tensor_scalar"), "copy": (lambda x: x, "tensor_copy")}


@pytest.mark.parametrize("name", ONE)
def test_a_function_of_one_tile_is_one_instruction(name):
    function, opcode = ONE[name]
    x = np.abs(X) + F32(0.1) if name in ("sqrt", "log", "rsqrt") else X
    got, opcodes = through(getattr(nl, name), x)
    assert opcodes == [opcode]
    np.testing.assert_allclose(got, function(x.astype(np.float64)), rtol=2e-6, atol=1e-7)


def test_copy_and_rsqrt_run_where_the_release_notes_say():
    def kernel(x):
        out = nl.ndarray((4, 8), nl.float32, nl.shared_hbm)
        tile = nl.copy(nl.load(x))
        nl.store(out, nl.rsqrt(tile))
        return out
    run = nki.run(kernel, np.abs(X))
    assert [r.engine for r in run.trace] == ["dma", "vector", "gpsimd", "dma"]


def test_logical_not_and_invert_are_xors():
    truth = (X > 0).astype(F32)
    np.testing.assert_array_equal(through(nl.logical_not, truth)[0], 1 - truth)
    for dtype in (np.uint8, np.int16, np.int32, np.uint32):
        whole = rng.integers(0, 100, (4, 8)).astype(dtype)
        got, opcodes = through(nl.invert, whole)
        np.testing.assert_array_equal(got, ~whole)
        assert opcodes == ["tensor_scalar"]


@pytest.mark.parametrize(("name", "within"), [("sin", 3e-6), ("cos", 3e-6)])
def test_sine_is_right_over_many_turns(name, within):
    """nisa.activation's is right from -pi to pi only; nl.sin reduces the range before."""
    x = np.linspace(-500, 500, 128 * 64, dtype=F32).reshape(128, 64)
    x[0, :5] = [0, math.pi, -math.pi, math.pi / 2, 2 * math.pi]
    got, opcodes = through(getattr(nl, name), x)
    np.testing.assert_allclose(got, getattr(np, name)(x.astype(np.float64)), atol=within)
    assert opcodes[-1] == "activation" and len(opcodes) > 1


def test_tangent_is_sine_over_cosine():
    x = np.linspace(-1.5, 1.5, 512, dtype=F32).reshape(4, 128)
    np.testing.assert_allclose(through(nl.tan, x)[0], np.tan(x.astype(np.float64)), rtol=2e-4)


EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e-10, -1e-10, 0.99999994, -0.99999994, 3.0,
         -3.0, 1e6 + 0.25, -1e6 - 0.25, 8388607.5, -8388607.5, 2.0**31, -(2.0**31), 3.2, -3.7,
         3e9, -3e9, 1e30, -1e30, math.inf, -math.inf]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_rounding_to_whole_numbers(name):
    x = np.concatenate([F32(EDGES), rng.uniform(-1e4, 1e4, 484).astype(F32)]).reshape(4, 128)
    np.testing.assert_array_equal(through(getattr(nl, name), x)[0], getattr(np, name)(x))
    assert np.isnan(through(getattr(nl, name), np.full((4, 8), np.nan, F32))[0]).all()


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, width=32), min_size=8, max_size=8),
       st.sampled_from(["floor", "ceil", "trunc"]))
def test_rounding_any_number(values, name):
    x = F32(values).reshape(1, 8)
    np.testing.assert_array_equal(through(getattr(nl, name), x)[0], getattr(np, name)(x))


# --- reductions -----------------------------------------------------------------------------

Z = rng.uniform(0.5, 1.5, (4, 3, 2, 5)).astype(F32)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [3, -1, (3,), [2, 3], (1, 2, 3), (3, 2)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
def test_a_reduction_is_numpys(name, axis, keepdims):
    got, opcodes = through(lambda x: getattr(nl, name)(x, axis, keepdims=keepdims), Z)
    wanted = getattr(np, name)(Z, axis if isinstance(axis, int) else tuple(axis), keepdims=keepdims)
    np.testing.assert_allclose(got, wanted.reshape(got.shape), rtol=3e-6)
    assert got.shape == (wanted.shape if wanted.ndim > 1 else (4, 1))  # on chip two are left
    assert opcodes == ["tensor_reduce"] + ["tensor_scalar"] * (name == "mean")


def test_a_mean_is_taken_in_float32():
    """100 times 1.0 and one 28.0: 128 / 101, which partial sums in bf16 would miss."""
    x = np.ones((2, 101), ml_dtypes.bfloat16)
    x[:, 0] = 28
    assert through(lambda t: nl.mean(t, 1), x)[0].tolist() == [[ml_dtypes.bfloat16(128 / 101)]] * 2


@pytest.mark.parametrize("axis", [3, (2, 3), (1, 2, 3)])
def test_variance_keeps_its_axes_whatever_keepdims_says(axis):
    for keepdims in (False, True):
        got = through(lambda x, k=keepdims: nl.var(x, axis, keepdims=k), Z)[0]
        np.testing.assert_allclose(got, Z.var(axis, keepdims=True), rtol=1e-5)
    low = Z.astype(ml_dtypes.bfloat16)
    assert through(lambda x: nl.var(x, axis), low)[0].dtype == low.dtype


def test_all_is_a_logical_and():
    truth = np.ones((4, 8), F32)
    truth[1, 3] = truth[2, 0] = 0
    assert through(lambda x: nl.all(x, 1), truth)[0].tolist() == [[1], [0], [0], [1]]
    assert through(lambda x: nl.all(x.reshape((4, 2, 4)), 2), truth)[0].tolist() == [
        [1, 1], [0, 1], [0, 1], [1, 1]]


@pytest.mark.parametrize("axis", [0, (0, 1), 1, (1, 3), 4, (), -4])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "softmax"])
def test_only_the_last_free_dimensions_are_reduced(name, axis):
    refused(lambda x: getattr(nl, name)(x, axis), Z, message=rf"nl.{name}: axis: got .*the last fr")


@pytest.mark.parametrize("axis", [-1, 3, (2, 3), (1, 2, 3)])
def test_softmax_is_the_shifted_quotient(axis):
    x = (20 * Z - 90).astype(F32)
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    got, opcodes = through(lambda t: nl.softmax(t, axis), x)
    np.testing.assert_allclose(got, powers / powers.sum(axis, keepdims=True), rtol=1e-5)
    apart = "tensor_scalar" if axis == (1, 2, 3) else "tensor_tensor"  # one number a partition
    assert opcodes == ["tensor_reduce", apart, "activation", "tensor_reduce", "reciprocal", apart]


@pytest.mark.parametrize(("axis", "n"), [(3, 5), ((2, 3), 10), ((1, 2, 3), 30)])
def test_rms_norm_divides_by_the_root_mean_square(axis, n):
    w = rng.uniform(0, 1, Z.shape).astype(F32)
    scale = 1 / np.sqrt((Z.astype(np.float64) ** 2).sum(axis, keepdims=True) / n + 0.25)
    got, _ = through(lambda x, v: nl.rms_norm(x, v, axis, n, epsilon=0.25), Z, w)
    np.testing.assert_allclose(got, Z * scale * w, rtol=1e-5)
    low = through(lambda x, v: nl.rms_norm(x, v, axis, n, compute_dtype=nl.bfloat16,
                                           dtype=nl.bfloat16), Z, w)[0]
    assert low.dtype == ml_dtypes.bfloat16
    refused(lambda x, v: nl.rms_norm(x, v, axis, n), Z, w[:1], message="nl.rms_norm: got .*broadc")


# --- selection and shape --------------------------------------------------------------------

def test_where_selects_by_ones():
    condition = (X > Y).astype(F32)
    got, opcodes = through(nl.where, condition, X, Y)
    np.testing.assert_array_equal(got, np.where(X > Y, X, Y))
    assert opcodes == ["tensor_copy", "tensor_copy", "tensor_copy_predicated"]
    low = through(lambda c, x, y: nl.where(c, x, y, dtype=nl.bfloat16), condition, X, Y)[0]
    np.testing.assert_array_equal(low, np.where(X > Y, X, Y).astype(ml_dtypes.bfloat16))
    mask = through(nl.where, condition.astype(np.uint8), X, Y)
    assert (mask[0] == got).all() and mask[1] == ["tensor_copy", "tensor_copy_predicated"]
    refused(lambda c, x: nl.where(c, x, 0.0), condition, X, message="nl.where: y: got 0.0; a tile")


def test_expand_dims_is_a_view():
    def kernel(x):
        tile = nl.load(x)
        assert nl.expand_dims(tile, 1).shape == (4, 1, 8)
        assert nl.expand_dims(tile, 2).storage is tile.storage
        out = nl.ndarray((4, 8, 1), nl.float32, nl.shared_hbm)
        nl.store(out, nl.expand_dims(tile, 2))
        return out
    run = nki.run(kernel, X)
    assert (run.outputs[0] == X[:, :, None]).all() and len(run.trace) == 2


@pytest.mark.parametrize(("shape", "wide"), [
    ((4, 1), (4, 8)), ((4, 1, 3), (4, 5, 3)), ((4, 1, 1), (4, 2, 3)), ((4, 3, 1), (4, 3, 7))])
def test_broadcasting_free_dimensions_is_one_copy(shape, wide):
    x = rng.uniform(-1, 1, shape).astype(F32)
    got, opcodes = through(lambda t: nl.broadcast_to(t, wide), x)
    np.testing.assert_array_equal(got, np.broadcast_to(x, wide))
    assert opcodes == ["tensor_copy"]


@pytest.mark.parametrize(("shape", "wide", "columns"), [
    ((1, 8), (128, 8), [8]), ((1, 1200), (32, 1200), [512, 512, 176]),
    ((1, 1), (4, 600), [512, 88]), ((1, 1, 3), (128, 5, 3), [15]),
    ((1, 3, 1), (7, 3, 200), [512, 88])])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_broadcasting_partitions_is_a_matmul_with_ones(shape, wide, columns, dtype):
    """512 columns a matmul; 2 P N FLOPs with K = 1; load and store alone cross HBM."""
    x = rng.uniform(-1, 1, shape).astype(dtype)

    def kernel(x):
        out = nl.ndarray(wide, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.broadcast_to(nl.load(x), wide))
        return out
    run = nki.run(kernel, x)
    np.testing.assert_array_equal(run.outputs[0], np.broadcast_to(x, wide))
    products = [r for r in run.trace if r.opcode == "nc_matmul"]
    assert [r.flops for r in products] == [2 * 1 * wide[0] * n for n in columns]
    assert [r.writes[0].layout.F for r in products] == columns
    assert run.count.hbm_read_bytes == x.nbytes
    assert run.count.hbm_write_bytes == run.outputs[0].nbytes


def test_broadcasting_partitions_of_a_tile_in_psum_copies_it_first():
    """The Tensor Engine reads SBUF alone."""
    def widened(x):
        tile = nl.ndarray((1, 8), nl.float32, nl.psum)
        nisa.tensor_copy(tile, x)
        return nl.broadcast_to(tile, (4, 8))
    got, opcodes = through(widened, X[:1])
    np.testing.assert_array_equal(got, np.repeat(X[:1], 4, axis=0))
    assert opcodes == ["tensor_copy", "tensor_copy", "memset", "nc_matmul", "tensor_copy"]


def test_broadcast_to_leaves_what_fits_and_refuses_what_does_not():
    assert through(lambda t: nl.broadcast_to(t, (4, 8)), X)[1] == []
    got, opcodes = through(lambda t: nl.broadcast_to(t, [4, 8], dtype=nl.float16), X)
    assert (got == X.astype(np.float16)).all() and opcodes == ["tensor_copy"]
    for shape in ((4, 16), (8, 8), (4, 8, 1), (1, 8)):
        refused(lambda t, s=shape: nl.broadcast_to(t, s), X, message="as many dimensions, each the")
    refused(lambda t: nl.broadcast_to(t, (4, 8)), np.ones((1, 8), np.int32),
            message="a matmul does it, which takes floats")


# --- Tensor Engine, gather, loads -----------------------------------------------------------

def test_matmul_takes_x_transposed_and_leaves_psum():
    x, y = rng.standard_normal((16, 4)).astype(F32), rng.standard_normal((16, 32)).astype(F32)

    def kernel(x, y):
        product = nl.matmul(nl.load(x), nl.load(y), transpose_x=True)
        assert product.buffer == nl.psum and product.dtype == nl.float32
        out = nl.ndarray((4, 32), nl.float32, nl.shared_hbm)
        nl.store(out, nl.copy(product))
        return out
    run = nki.run(kernel, x, y)
    np.testing.assert_allclose(run.outputs[0], x.T @ y, rtol=1e-5, atol=1e-5)
    assert run.count.flops == 2 * 4 * 32 * 16
    refused(lambda a, b: nl.matmul(a, b), x, y, message="transpose_x=False; a known limitation")


def test_transpose_goes_to_psum_and_is_no_work():
    x = rng.standard_normal((64, 128)).astype(ml_dtypes.bfloat16)

    def kernel(x):
        flipped = nl.transpose(nl.load(x))
        assert flipped.buffer == nl.psum and flipped.dtype == nl.bfloat16
        out = nl.ndarray((128, 64), x.dtype, nl.shared_hbm)
        nl.store(out, nl.copy(flipped))
        return out
    run = nki.run(kernel, x)
    np.testing.assert_array_equal(run.outputs[0], x.T)
    assert run.count.flops == 0 and run.counters["transpose_flops"] == 2 * 64 * 128 * 64
    got, opcodes = through(lambda t: nl.transpose(t, dtype=nl.float32), x)
    assert (got == x.T.astype(F32)).all() and opcodes[:2] == ["nc_transpose", "tensor_copy"]
    refused(nl.transpose, Z, message=r"nl.transpose: x: got \[4, 3, 2, 5\]; two dimensions")


def test_load_transpose2d_reads_each_byte_once():
    x = rng.standard_normal((300, 100)).astype(np.float16)

    def kernel(x):
        out = nl.ndarray((100, 300), nl.float16, nl.shared_hbm)
        nl.store(out, nl.load_transpose2d(x))
        return out
    run = nki.run(kernel, x)
    assert (run.outputs[0] == x.T).all()
    assert run.count.hbm_read_bytes == run.count.hbm_write_bytes == 300 * 100 * 2
    assert [r.opcode for r in run.trace] == ["dma_transpose", "dma_copy"]


def test_load_and_store_cast_and_stay_between_hbm_and_sbuf():
    def kernel(x):
        out = nl.ndarray((4, 8), nl.bfloat16, nl.shared_hbm)
        nl.store(out, nl.load(x, dtype=nl.float16))
        return out
    run = nki.run(kernel, X)
    assert (run.outputs[0] == X.astype(np.float16).astype(ml_dtypes.bfloat16)).all()
    assert (run.count.hbm_read_bytes, run.count.hbm_write_bytes) == (4 * 8 * 4, 4 * 8 * 2)
    refused(nl.load, X, message=r"nl.load: src: got .* in sbuf; a tensor in HBM")
    refused(nl.load_transpose2d, X, message="nl.load_transpose2d: src: got")
    refused(lambda t: nl.store(t, t), X, message="nl.store: dst: got .* in sbuf; a tensor in HBM")


def test_gather_takes_elements_of_each_partition():
    at = rng.integers(0, 30, (4, 7)).astype(np.uint32)
    got, opcodes = through(nl.gather_flattened, Z, at)
    np.testing.assert_array_equal(got, np.take_along_axis(Z.reshape(4, 30), at, axis=1))
    assert opcodes == ["nc_n_gather"]
    low = through(lambda d, i: nl.gather_flattened(d, i, dtype=nl.bfloat16), Z, at)[0]
    assert (low == got.astype(ml_dtypes.bfloat16)).all()
    refused(lambda d, i: nl.gather_flattened(d, i, axis=1), Z, at, message="not documented",
            error=Uncounted)


# --- tensors that are filled ----------------------------------------------------------------

@pytest.mark.parametrize(("make", "value"), [
    (lambda: nl.zeros((4, 8), nl.bfloat16), 0), (lambda: nl.ones((4, 8), nl.int32), 1),
    (lambda: nl.full((4, 8), 2.5, nl.float32), 2.5), (lambda: nl.full((4, 8), -7, nl.int8), -7),
    (lambda: nl.zeros_like(nl.ndarray((4, 8), nl.int16)), 0)])
def test_a_filled_tensor_is_a_memset(make, value):
    got, opcodes = through(lambda _: make(), X)
    assert (got.astype(F32) == value).all() and opcodes == ["memset"]


@pytest.mark.parametrize(("shape", "copies"), [
    ((128, 64), 1), ((3, 5, 7), 1), ((128, 5000), 3), ((131, 1), 1), ((1031, 4), 1)])
def test_filling_hbm_writes_each_byte_once(shape, copies):
    """131 and 1031 are prime: 131 elements go as one row, 1031 x 4 as four."""
    def kernel():
        return nl.full(shape, 3.0, nl.float16, nl.shared_hbm)
    run = nki.run(kernel)
    assert (run.outputs[0] == 3).all() and run.outputs[0].shape == shape
    assert run.count.hbm_write_bytes == math.prod(shape) * 2 and run.count.hbm_read_bytes == 0
    assert [r.opcode for r in run.trace] == ["memset"] + ["dma_copy"] * copies


def test_like_follows_the_tensor():
    def kernel(x):
        tile = nl.ndarray((4, 8), nl.bfloat16, nl.psum)
        for made, buffer, dtype in ((nl.empty_like(tile), nl.psum, nl.bfloat16),
                                    (nl.empty_like(tile, nl.int8, nl.sbuf), nl.sbuf, nl.int8),
                                    (nl.zeros_like(tile), nl.sbuf, nl.bfloat16),
                                    (nl.empty_like(x), nl.shared_hbm, nl.float32)):
            assert (made.shape, made.buffer, made.dtype) == ((4, 8), buffer, dtype)
        return nl.zeros_like(x, buffer=nl.shared_hbm)
    assert not nki.run(kernel, X).outputs[0].any()


# --- constants ------------------------------------------------------------------------------

def test_a_constant_is_in_hbm_and_read_like_an_argument(tmp_path):
    np.save(tmp_path / "table.npy", X)

    def kernel(x):
        out = nl.ndarray((8, 8), nl.float32, nl.shared_hbm)
        nl.store(out[0:4], nl.load(nl.shared_constant(x)))
        nl.store(out[4:8], nl.load(nl.shared_constant(str(tmp_path / "table.npy"))))
        return out
    run = nki.run(lambda: kernel(2 * Y))
    assert (run.outputs[0] == np.concatenate([2 * Y, X])).all()
    assert run.count.hbm_read_bytes == 2 * X.nbytes
    assert nki.run(lambda: kernel(Y), data=False).count == run.count
    with pytest.raises(NkiValidationError, match=r"nl\.shared_constant: got dtype float64; one of"):
        nki.run(lambda: kernel(Y.astype(float)))


def test_an_identity_is_a_constant_whose_bytes_are_told_apart():
    """The published profiles read 128 x 128 x 2 B and x 4 B more than the tensors are."""
    def kernel(x):
        low = nl.shared_identity_matrix(128, nl.bfloat16)
        nl.shared_identity_matrix(128, nl.bfloat16)
        nl.shared_identity_matrix(128, dtype=nl.float32, dst=nl.ndarray((128, 128), nl.float32))
        assert nl.shared_identity_matrix(4).dtype == nl.uint8
        out = nl.ndarray((128, 128), nl.bfloat16, nl.shared_hbm)
        nl.store(out, low)
        return out
    run = nki.run(kernel, X)
    assert (run.outputs[0] == np.eye(128)).all()
    assert run.count.hbm_read_bytes == 0
    told = [w for w in run.warnings if "shared_identity_matrix" in w]
    assert [bytes_ for bytes_ in ("32,768 B", "65,536 B", "16 B") if any(bytes_ in w for w in told)
            ] == ["32,768 B", "65,536 B", "16 B"] and len(told) == 3
    refused(lambda t: nl.shared_identity_matrix(4, dst=t), X, message=r"\[4, 4\] in sbuf")
    refused(lambda t: nl.shared_identity_matrix(129), X, message="at most 128")


# --- loops and ids --------------------------------------------------------------------------

def fill_rows(loop):
    """A kernel whose loop writes row i of a (6, 8) result, with 0 before and after."""
    def kernel(x):
        out = nl.zeros((6, 8), nl.float32, nl.shared_hbm)
        tile = nl.load(x)
        loop(lambda i: nisa.dma_copy(out[nl.ds(i, 1), :], tile[0:1, :]))
        return out
    return nki.run(kernel, X).outputs[0].any(axis=1).nonzero()[0].tolist()


def each(loop):
    def walk(body):
        for i in loop():
            body(i)
    return walk


@pytest.mark.parametrize(("loop", "rows"), [
    (each(lambda: nl.affine_range(4)), [0, 1, 2, 3]),
    (each(lambda: nl.static_range(1, 4)), [1, 2, 3]),
    (each(lambda: nl.sequential_range(0, 6, 2)), [0, 2, 4]),
    (each(lambda: nl.dynamic_range(2)), [0, 1]),
    (each(lambda: nl.dynamic_range(1, nisa.register_alloc(6), 2)), [1, 3, 5]),
    (lambda body: nl.fori_loop(nisa.register_alloc(2), 6, body, 3), [2, 5]),
    (lambda body: nl.fori_loop(4, 4, body), [])])
def test_a_loop_walks_its_range(loop, rows):
    assert fill_rows(loop) == rows


def test_while_goes_on_until_the_register_is_zero():
    def loop(body):
        def step(r):
            body(r)
            nisa.register_move(r, {5: 3, 3: 1, 1: 0}[r.state])
            return r
        nl.while_loop(nisa.register_alloc(5), step)
        nl.while_loop(nisa.register_alloc(0), step)  # never begins
    assert fill_rows(loop) == [1, 3, 5]


def test_a_dynamic_loop_counts_from_data():
    def kernel(x, count):
        tile, register = nl.load(count), nisa.register_alloc()
        nisa.register_load(register, tile)
        out = nl.zeros((6, 8), nl.float32, nl.shared_hbm)
        nl.fori_loop(0, register, lambda i: nisa.dma_copy(
            out.ap([[8, 1], [1, 8]], scalar_offset=i), x.ap([[8, 1], [1, 8]], scalar_offset=i)))
        return out
    count = np.array([[3]], np.int32)
    assert (nki.run(kernel, X, count).outputs[0][:3] == X[:3]).all()
    with pytest.raises(NkiValidationError, match=r"nl\.fori_loop: got a register .* data=True"):
        nki.run(kernel, X, count, data=False)


@pytest.mark.parametrize(("loop", "message"), [
    (lambda body: nl.fori_loop(0, 2, body, 0), "nl.fori_loop: step: got 0; a positive integer"),
    (each(lambda: nl.dynamic_range(0, 2, nisa.register_alloc(1))), "a positive integer, known"),
    (lambda body: nl.while_loop(1, body), "nl.while_loop: got int; a register"),
    (each(lambda: (nisa.register_move(i, 0) for i in nl.dynamic_range(2))), "a loop's own reg"),
    (lambda body: nl.while_loop(nisa.register_alloc(1), lambda r: None), "got NoneType; a reg")])
def test_a_loop_that_the_documents_do_not_allow_is_refused(loop, message):
    with pytest.raises(NkiValidationError, match=message):
        fill_rows(loop)


def test_dynamic_loops_stand_outside_no_reorder():
    def ordered(loop):
        def walk(body):
            with nl.no_reorder():
                loop(body)
        return walk
    assert fill_rows(ordered(each(lambda: nl.affine_range(2)))) == [0, 1]
    for loop in (each(lambda: nl.dynamic_range(2)), lambda body: nl.fori_loop(0, 2, body),
                 lambda body: nl.while_loop(nisa.register_alloc(0), body)):
        with pytest.raises(NkiValidationError, match=r"inside nl.no_reorder.*Put nl.no_reorder"):
            fill_rows(ordered(loop))
    assert fill_rows(each(lambda: nl.dynamic_range(2))) == [0, 1]  # and it is over afterwards


def test_ids_of_the_launch():
    seen = []

    def kernel(x):
        seen.append((nl.program_id(0), nl.num_programs(), nl.num_programs((0,)), nl.program_ndim()))
        out = nl.ndarray((2, 8), nl.float32, nl.shared_hbm)
        nisa.dma_copy(out[nl.program_id():nl.program_id() + 1], x[0:1])
        if nl.num_programs() == 1:
            nisa.dma_copy(out[1:2], x[0:1])
        return out
    nki.run(kernel, X)
    nki.run(kernel, X, lnc=2)
    assert seen == [(0, 1, 1, 0), (0, 2, 2, 1), (1, 2, 2, 1)]
    refused(lambda t: nl.ones((4, nl.program_id(1)), nl.float32), X, message="axis: got 1; 0: a la")


def test_device_print_shows_values_where_there_are_some(capsys):
    def kernel(x):
        nl.device_print("x is", nl.load(x))
        return nl.ones((1, 1), nl.float32, nl.shared_hbm)
    small = np.array([[1.5, 2.5]], F32)
    nki.run(kernel, small, data=False)
    assert capsys.readouterr().out == ""
    nki.run(kernel, small)
    assert capsys.readouterr().out == "x is [[1.5 2.5]]\n"


def test_tile_size_is_the_targets():
    size = nl.tile_size
    assert (size.pmax, size.psum_bank_fmax, size.psum_num_banks) == (128, 512, 8)
    assert (size.psum_bank_fmax_bytes, size.psum_fmax, size.bn_stats_fmax) == (2048, 512, 512)
    sizes = {}
    for target in ("trn1", "trn2", "trn3"):
        def kernel(x, target=target):
            sizes[target] = (nl.tile_size.gemm_stationary_fmax, nl.tile_size.gemm_moving_fmax,
                             nl.tile_size.sbuf_size_bytes, nl.tile_size.sbuf_fmax_bytes)
            assert nl.tile_size.sbuf_fmax == nl.tile_size.sbuf_fmax_bytes // 4
            return nl.ones((1, 1), nl.float32, nl.shared_hbm)
        nki.run(kernel, X, target=target)
    MiB = 2**20
    assert sizes["trn1"] == (128, 512, 24 * MiB, 24 * MiB // 128)
    assert sizes["trn2"] == (128, 512, 28 * MiB, 28 * MiB // 128)
    assert sizes["trn3"][2:] == (32 * MiB, 32 * MiB // 128)
    with pytest.raises(Uncounted, match="psum_min_align"):
        _ = nl.tile_size.psum_min_align
    with pytest.raises(AttributeError, match="pmin"):
        _ = nl.tile_size.pmin


def test_buffers_are_asked_about():
    assert [nl.is_hbm(b) for b in (nl.hbm, nl.shared_hbm, nl.sbuf, nl.psum)] == [1, 1, 0, 0]
    assert [nl.is_on_chip(b) for b in (nl.hbm, nl.shared_hbm, nl.sbuf, nl.psum)] == [0, 0, 1, 1]
    assert nl.is_psum(nl.psum) and nl.is_sbuf(nl.sbuf) and not nl.is_psum(nl.sbuf)


# --- shapes alone, and the names ------------------------------------------------------------

def everything(x, w):
    """A kernel that calls most functions of tiles once."""
    a = nl.load(x)
    b = nl.softmax(nl.add(a, 1.0), axis=1)
    c = nl.rms_norm(a, b, axis=1, n=64)
    d = nl.where(nl.less(a, c), nl.sin(a), nl.tan(c), dtype=nl.bfloat16)
    e = nl.broadcast_to(nl.load(w), (64, 64))
    f = nl.copy(nl.matmul(d, nl.copy(e, dtype=nl.bfloat16), transpose_x=True))
    g = nl.multiply(nl.copy(nl.transpose(f)), nl.trunc(nl.negative(a)))
    h = nl.subtract(g, nl.broadcast_to(nl.var(g, axis=1), (64, 64)))
    out = nl.ndarray((64, 64), nl.float32, nl.shared_hbm)
    nl.store(out, nl.floor(nl.reciprocal(nl.exp(h))))
    return out, nl.zeros((5, 7), nl.int8, nl.shared_hbm)


def test_shapes_alone_issue_the_same_instructions():
    x, w = rng.standard_normal((64, 64)).astype(F32), np.ones((1, 64), F32)
    full, blind = nki.run(everything, x, w), nki.run(everything, x, w, data=False)
    assert full.count == blind.count and full.counters == blind.counters
    for peak in ("sbuf_peak_bytes", "psum_peak_banks"):
        assert getattr(full, peak) == getattr(blind, peak) > 0
    for a, b in zip(full.trace, blind.trace, strict=True):
        assert (a.work, a.line) == (b.work, b.line)
        assert [(o.layout, o.offset) for o in (*a.reads, *a.writes)] == [
            (o.layout, o.offset) for o in (*b.reads, *b.writes)]
    assert not np.isnan(full.outputs[0]).any() and blind.outputs == ()


def test_a_kernel_sees_documented_names_only():
    assert {n for n in vars(nl) if not n.startswith("_")} <= set(documented()["nki.language"].all)


def test_a_function_outside_a_kernel_is_refused():
    assert core._CURRENT.get() is None
    with pytest.raises(NkiValidationError, match="a call outside a kernel run"):
        nl.zeros((4, 4), nl.float32)


def test_a_parameters_shape_may_be_written_as_its_annotation():
    def kernel(x: nki.typing.tensor[4, 8], y: nki.typing.tensor = None):
        return nl.ones(x.shape, x.dtype, nl.shared_hbm)
    assert str(kernel.__annotations__["x"]).endswith("tensor[4, 8]")
    assert nki.run(kernel, X).outputs[0].shape == (4, 8)
