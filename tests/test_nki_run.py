"""A run: what goes into a kernel, what comes out, what is counted, and how errors are told."""

import csv
import enum
import functools
import gc
import linecache
import math
import sys
import threading
import types
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki
from roofline.count import Count, Uncounted

SCHEMA = Path(__file__).parents[2] / "shared/reference/profile-schema-7.4.0.csv"
KIB = 1024
F32 = np.float32
BOTH = pytest.mark.parametrize("data", [True, False], ids=["data", "shapes"])


def passed(x):
    """x through SBUF into a result of its shape."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if len(x.shape) == 1:
        tile = nl.ndarray((1, x.shape[0]), dtype=x.dtype, buffer=nl.sbuf)
    else:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


copied = nki.jit(passed)
X = np.arange(12, dtype=F32).reshape(4, 3)


def refused(*args, **kwargs):
    """The text of a refusal."""
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.run(*args, **kwargs)
    return str(caught.value)


# --- arrays in, arrays out ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [
    np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.bool_,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu,
], ids=lambda kind: np.dtype(kind).name)
@BOTH
def test_an_array_of_every_dtype_goes_in_and_comes_out(kind, data):
    array = np.array([[0, 1, 2, 4], [8, 1, 0, 16]]).astype(kind)
    run = nki.run(copied, array, data=data)
    size = np.dtype(kind).itemsize
    assert run.count == Count({}, 8 * size, 8 * size)
    if data:
        assert run.outputs[0].dtype == array.dtype
        assert run.outputs[0].tobytes() == array.tobytes()
    else:
        assert run.outputs == ()


@pytest.mark.parametrize("array", [
    np.arange(24, dtype=F32).reshape(4, 6)[::2, 1::2],
    np.arange(12, dtype=F32).reshape(3, 4).T,
    np.asfortranarray(np.arange(12, dtype=F32).reshape(3, 4)),
    np.arange(12, dtype=F32).reshape(3, 4)[::-1, ::-1],
    np.broadcast_to(np.arange(3, dtype=F32), (5, 3)),
    np.arange(7, dtype=F32)[2:],
], ids=["strided", "transposed", "fortran", "reversed", "broadcast", "1-D slice"])
def test_any_memory_order(array):
    before = array.copy()
    (out,) = nki.run(copied, array).outputs
    np.testing.assert_array_equal(out, before)
    assert out.flags["C_CONTIGUOUS"] and out.flags["WRITEABLE"]
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(("args", "data"), [
    ((np.array(5, dtype=F32),), True), ((np.array(5, dtype=F32),), False),
    ((((), "fp32"),), False)], ids=["array", "its shape", "spec"])
def test_a_0d_array_is_one_element(args, data):
    run = nki.run(copied, *args, data=data)
    assert run.tensors[0].shape == (1,)
    assert run.count == Count({}, 4, 4)
    assert not data or run.outputs[0].tolist() == [5]


@pytest.mark.parametrize(("array", "said"), [
    (np.zeros((2, 2)), "x: dtype: got 'float64'; NKI has bool_, int8"),
    (np.zeros((2, 2), np.int64), "x: dtype: got 'int64'"),
    (np.zeros((2, 2), np.complex64), "x: dtype: got 'complex64'"),
    (np.zeros((2, 2), "U3"), "x: dtype: got 'str96'"),
    (np.zeros((2, 2), object), "x: dtype: got 'object'"),
    (np.zeros((2, 2), "M8[s]"), "x: dtype: got 'datetime64[s]'"),
    (np.zeros((2, 2), [("a", F32)]), "x: dtype: got 'void32'"),
    (np.zeros((2, 2), ml_dtypes.int4), "x: dtype: got 'int4'"),
    (np.zeros((2, 2), ">f4"), "x: got dtype '>f4', its bytes in foreign order; tensors keep this "
                              "machine's order. Convert it: x.astype("),
    (np.zeros((2, 0), F32), "x: got shape [2, 0]; every size is at least 1"),
    (np.ma.masked_array(np.zeros(3, F32), [1, 0, 0]), "x: got a masked array; a tensor has no"),
], ids=lambda v: str(v.dtype) + str(v.shape) if isinstance(v, np.ndarray) else "")
@BOTH
def test_arrays_that_nki_cannot_hold(array, said, data):
    assert f"passed: {said}" in refused(copied, array, data=data)


def test_a_wrong_dtype_says_what_to_do():
    assert "Convert the array before the call" in refused(copied, np.zeros((2, 2)))


Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Frozen:
    weight: np.ndarray
    scale: float


@dataclass(slots=True)
class Slotted:
    weight: np.ndarray


class Config(nl.NKIObject):
    def __init__(self, weight):
        self.weight = weight
        self.seen = []


class Plain:
    """An object that is none of a kernel's own: it goes through untouched."""


def nested(a, b, c, d, e, f, g):
    out = nl.ndarray((8, 3), F32, buffer=nl.shared_hbm)
    for i, x in enumerate((a[0], b[0], c["x"], d.right, e.weight, f.weight, g.weight, a[1][0])):
        tile = nl.ndarray((1, 3), F32)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out[i:i + 1], tile)
    return out


@BOTH
def test_arrays_inside_containers_and_objects(data):
    rows = np.arange(24, dtype=F32).reshape(8, 3)
    of = [rows[i] for i in range(8)] if data else [((3,), "fp32")] * 8
    a, b, c = (of[0], [of[7]]), [of[1]], {"x": of[2]}
    d, e, f, g = Pair(None, of[3]), Frozen(of[4], 2.0), Slotted(of[5]), Config(of[6])
    run = nki.run(nested, a, b, c, d, e, f, g, data=data)
    assert [t.name for t in run.tensors if t.read] == [
        "a[0]", "a[1][0]", "b[0]", "c['x']", "d[1]", "e.weight", "f.weight", "g.weight"]
    assert run.count == Count({}, 96, 96)
    if data:
        np.testing.assert_array_equal(run.outputs[0], rows)
    # the caller's own still hold the caller's arrays
    held = [a[0], a[1][0], b[0], c["x"], d.right, e.weight, f.weight, g.weight]
    assert all(x is y for x, y in zip(held, [of[0], of[7], *of[1:7]], strict=True))


class Mode(enum.Enum):
    fast = 1


def test_everything_else_is_passed_on_as_it_is():
    given = (3, 2.5, "bf16", None, True, math.sqrt, Mode.fast, Plain, Plain(), np.float32(2),
             {1, 2}, range(3), nl.add, nl.bfloat16, nisa.engine.vector, slice(1), b"x", np.int64(3))
    seen = []

    def kernel(x, *rest, key):
        seen.append((rest, key))
        return passed(x)

    nki.run(kernel, X, *given, key=given[8])
    (rest, key), = seen
    assert all(a is b for a, b in zip(rest, given, strict=True)) and key is given[8]


def twice(x, y):
    out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for i, t in enumerate((x, y)):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, t)
        nisa.dma_copy(out[i], tile)
        nisa.dma_copy(x, tile)
    return out


def test_one_array_under_two_names_is_two_tensors():
    run = nki.run(twice, X, X)
    x, y, _ = run.tensors
    assert (x.name, y.name) == ("x", "y")
    assert (x.read, x.written, y.read, y.written) == (48, 96, 48, 0)


def test_an_argument_may_be_written_and_returned_and_stays_the_callers():
    def into(x, out):
        tile = nl.ndarray(x.shape, x.dtype)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    out = np.full_like(X, 7)
    run = nki.run(into, X, out)
    np.testing.assert_array_equal(run.outputs[0], X)
    assert (out == 7).all()
    assert run.outputs[0] is not out


def test_an_argument_returned_unwritten_has_its_contents():
    (out,) = nki.run(lambda x: x, X).outputs
    np.testing.assert_array_equal(out, X)
    assert out is not X and not np.shares_memory(out, X)


@pytest.mark.parametrize("call", [
    lambda kernel: nki.run(kernel, X, 2), lambda kernel: nki.run(kernel, x=X, n=2),
    lambda kernel: nki.run(kernel, X, n=2), lambda kernel: nki.run(kernel, X)])
def test_keywords_and_defaults(call):
    def kernel(x, n=2, *, more=X):
        out = nl.ndarray((n, *x.shape), x.dtype, buffer=nl.shared_hbm)
        for i in range(n):
            nisa.dma_copy(out[i], more)
        return out

    run = call(kernel)
    np.testing.assert_array_equal(run.outputs[0], [X, X])
    assert {t.name: t.read for t in run.tensors} == {"x": 0, "more": 96, "out": 0}


def test_starred_parameters_are_named_by_place_and_key():
    def kernel(*xs, **named):
        out = nl.ndarray(xs[0].shape, xs[0].dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, xs[0])
        nisa.dma_copy(out, named["w"])
        return out

    run = nki.run(kernel, X, X, w=X)
    assert [t.name for t in run.tensors] == ["xs[0]", "xs[1]", "w", "out"]


@pytest.mark.parametrize(("args", "kwargs", "said"), [
    ((), {}, "missing a required argument: 'x'"),
    ((X, X), {}, "too many positional arguments"),
    ((X,), {"y": 1}, "got an unexpected keyword argument 'y'"),
    ((X,), {"x": X}, "multiple values for argument 'x'"),
])
def test_arguments_that_do_not_fit(args, kwargs, said):
    message = refused(copied, *args, **kwargs)
    assert message.startswith("passed(...): got arguments that do not fit (")
    assert said in message and message.endswith("it takes x.")


@pytest.mark.parametrize(("kernel", "said"), [
    (3, "nki.run: got int; a kernel is a Python function"),
    (None, "nki.run: got NoneType"),
    (max, "max(...): got arguments that do not fit"),
])
def test_what_is_no_kernel(kernel, said):
    assert said in refused(kernel, X)
    if not callable(kernel):
        with pytest.raises(nki.NkiValidationError, match=r"nki\.jit: got"):
            nki.jit(kernel) if kernel is not None else nki.simulate(kernel)


@pytest.mark.parametrize("kernel", [
    functools.partial(lambda scale, x: passed(x), 2), lambda x: passed(x),
    types.MethodType(lambda self, x: passed(x), Plain()),
    type("Callable", (), {"__call__": lambda self, x: passed(x)})(), nki.jit(nki.jit(passed))])
def test_any_callable_is_a_kernel(kernel):
    np.testing.assert_array_equal(nki.run(kernel, X).outputs[0], X)


def test_containers_inside_themselves_are_refused():
    endless = [X]
    endless.append(endless)
    assert "k: x: got a list that cannot be searched for arrays (RecursionError" in refused(
        types.FunctionType((lambda x: x).__code__, {}, "k"), endless)
    alone = []
    alone.append(alone)
    assert "result: got a list inside itself" in refused(lambda x: alone, X)


@pytest.mark.parametrize("option", ["data", "lnc", "target"])
def test_a_parameter_named_like_an_option_goes_by_its_place(option):
    space = {}
    exec(f"def kernel({option}): return f({option})", {"f": passed}, space)
    np.testing.assert_array_equal(nki.run(space["kernel"], X).outputs[0], X)
    np.testing.assert_array_equal(nki.run(lambda kernel: kernel, kernel=X).outputs[0], X)
    assert f"kernel: {option}: got" in refused(space["kernel"], **{option: X})


# --- shapes alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [
    "bf16", "bfloat16", nl.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)], ids=repr)
@pytest.mark.parametrize("shape", [(4, 3), [4, 3], (np.int64(4), 3)], ids=repr)
def test_a_shape_and_a_dtype_stand_for_an_array(shape, dtype):
    run = nki.run(copied, (shape, dtype), data=False)
    assert run.count == Count({}, 24, 24) and run.outputs == ()
    assert run.tensors[0].shape == (4, 3) and run.tensors[0].dtype == "bfloat16"


@pytest.mark.parametrize(("spec", "said"), [
    (((4, 3), "float64"), "x: dtype: got 'float64'"), (((4, 3), np.int64), "x: dtype: got 'int64'"),
    (((4, 0), "bf16"), "every size is at least 1"), (((4, -3), "bf16"), "every size is at least 1"),
    (((4, 2.5), "bf16"), "a tuple of whole numbers >= 1"),
])
def test_specs_that_name_no_array(spec, said):
    assert said in refused(copied, spec, data=False)


def test_a_spec_is_no_array_where_there_is_data():
    assert "say data=False" in refused(copied, ((4, 3), "bf16"))


@pytest.mark.parametrize("value", [
    (1, 2), ((1, 2), 3), ((1, 2), "relu"), ((1, 2), None), ("a", "bf16")])
def test_tuples_that_look_like_a_spec_and_are_none(value):
    seen = []
    nki.run(lambda x, v: (seen.append(v), passed(x))[1], (X.shape, "fp32"), value, data=False)
    assert seen == [value]


# --- frameworks: stand-ins with torch's and jax's faces, where those are not installed -----------


class Torch:
    """What a torch tensor offers: detach, cpu, float, view, numpy; NumPy has no bf16 of torch's."""

    __module__ = "torch"

    def __init__(self, array, dtype, device="cpu"):
        self.array, self.device, self.shape = array, device, array.shape
        self.dtype = type("dtype", (), {"__str__": lambda self: dtype})()

    def detach(self):
        return self

    def cpu(self):
        if self.device == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        return self

    def float(self):
        return Torch(self.array.astype(F32), "torch.float32")

    def view(self, dtype):
        return Torch(self.array.view(np.uint8), "torch.uint8")

    def numpy(self):
        if str(self.dtype) in ("torch.bfloat16", "torch.float8_e5m2"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.array


@pytest.mark.parametrize(("dtype", "kind"), [
    ("torch.float32", F32), ("torch.bfloat16", ml_dtypes.bfloat16), ("torch.int32", np.int32),
    ("torch.float8_e5m2", ml_dtypes.float8_e5m2), ("torch.bool", np.bool_)])
@BOTH
def test_torch_tensors(dtype, kind, data, monkeypatch):
    if "torch" not in sys.modules:
        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(uint8="torch.uint8"))
    array = np.array([[0, 1], [2, 1]]).astype(kind)
    run = nki.run(copied, Torch(array, dtype), data=data)
    assert run.tensors[0].dtype == ("bool_" if kind is np.bool_ else np.dtype(kind).name)
    if data:
        np.testing.assert_array_equal(run.outputs[0], array)


def test_a_torch_tensor_without_contents():
    empty = Torch(X, "torch.float32", device="meta")
    assert nki.run(copied, empty, data=False).count == Count({}, 48, 48)
    assert "say data=False" in refused(copied, empty)


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_arrays_of_an_installed_framework(name):
    framework = pytest.importorskip(name)
    make = framework.tensor if name == "torch" else framework.numpy.asarray
    (out,) = nki.run(copied, make(X)).outputs
    np.testing.assert_array_equal(out, X)


@pytest.mark.parametrize(("right", "wrong"), [
    (lambda: nl.ndarray((4, 4), F32)[:, 1:3], lambda: nl.ndarray((4, 4), F32)[:, 4 / 4:3]),
    (lambda: nl.ndarray((4, 4), F32)[:, 0:4:2], lambda: nl.ndarray((4, 4), F32)[:, 0:4:2.0]),
    (lambda: nl.ndarray((4, 4), F32)[:, 1], lambda: nl.ndarray((4, 4), F32)[:, True]),
    (lambda: nl.ndarray((4, 4), F32)[:, 1], lambda: nl.ndarray((4, 4), F32)[:, 1.0]),
    (lambda: nl.ndarray((4, 4), F32)[:, nl.ds(0, 2)],
     lambda: nl.ndarray((4, 4), F32)[:, nl.ds(0, 2.0)]),
    (lambda: nl.ndarray((4, 4), F32), lambda: nl.ndarray((8 / 2, 4), F32)),
    (lambda: nl.ndarray((4, 1), F32).broadcast(1, 7),
     lambda: nl.ndarray((4, 1), F32).broadcast(1, 7.0)),
    (lambda: nl.ndarray((4, 4), F32).ap([[4, 4], [1, 2]], offset=1),
     lambda: nl.ndarray((4, 4), F32).ap([[4, 4], [1, 2]], offset=1.0)),
    (lambda: nisa.memset(nl.ndarray((4, 4), np.int32), 1),
     lambda: nisa.memset(nl.ndarray((4, 4), np.int32), 1.0)),
])
def test_a_verdict_does_not_depend_on_what_ran_before(right, wrong):
    """What was accepted once is remembered; 2.0 equals 2, and is no index."""
    for kernel, fits in ((wrong, False), (right, True), (wrong, False)):
        if fits:
            nki.run(lambda x: (kernel(), x)[1], X)  # noqa: B023
        else:
            refused(lambda x: (kernel(), x)[1], X)  # noqa: B023


# --- results -----------------------------------------------------------------------------------


def made(buffer=nl.shared_hbm, shape=(4, 3)):
    return nl.ndarray(shape, F32, buffer=buffer)


@pytest.mark.parametrize(("returns", "said"), [
    (lambda x: None, "result: got None; a kernel returns a tensor or a tuple of tensors. Return"),
    (lambda x: 3, "result: got int"),
    (lambda x: X, "result: got ndarray"),
    (lambda x: (), "result: got an empty tuple"),
    (lambda x: (x, []), "result: got an empty list"),
    (lambda x: {"out": x}, "result: got dict"),
    (lambda x: (x, None), "result: got None"),
    (lambda x: (i for i in [x]), "result: got generator"),
    (lambda x: made(nl.private_hbm), "got a tensor in private_hbm; a result lies in shared_hbm. "
                                     "Allocate it with buffer=nl.shared_hbm"),
    (lambda x: made(nl.hbm), "got a tensor in private_hbm"),
    (lambda x: made(nl.sbuf), "got a tensor in sbuf"),
    (lambda x: (x, made(nl.psum)), "got a tensor in psum"),
    (lambda x: x.select(0, nisa.register_alloc(1)), "got a view chosen at run time"),
])
@BOTH
def test_results_that_are_none(returns, said, data):
    assert said in refused(returns, X, data=data)


def test_nested_results_come_flat_and_in_order():
    def kernel(x):
        y, z = passed(x), passed(x)
        nisa.dma_copy(z[0], x[1])
        return x, [y, (z,)], y

    outputs = nki.run(kernel, X).outputs
    expected = [X, X, [X[1], *X[1:]], X]
    for out, want in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(out, want)


def test_a_view_is_a_result_if_that_part_is_written():
    def kernel(x, rows):
        out = nl.ndarray((4, 3), F32, buffer=nl.shared_hbm)
        nisa.dma_copy(out[1:3], x[1:3])
        return out[1:rows]

    np.testing.assert_array_equal(nki.run(kernel, X, 3).outputs[0], X[1:3])
    assert ("result out [3, 3]: got 6 of 9 elements written; the first missing is out[2, 0]"
            in refused(kernel, X, 4))


# --- results written in full -------------------------------------------------------------------


def tiled(x, rows, width, keep):
    """x copied in tiles; only those that `keep` allows."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], width):
            if keep(i, j):
                here = (slice(i, min(i + rows, x.shape[0])), slice(j, min(j + width, x.shape[1])))
                tile = nl.ndarray((rows, width), x.dtype)
                part = tile[:here[0].stop - i, :here[1].stop - j]
                nisa.dma_copy(part, x[here])
                nisa.dma_copy(out[here], part)
    return out


@pytest.mark.parametrize(("keep", "written", "first"), [
    (lambda i, j: i < 96, 96 * 70, "[96, 0]"),  # the short last row of tiles
    (lambda i, j: j < 64, 100 * 64, "[0, 64]"),  # the narrow last column
    (lambda i, j: (i, j) != (32, 16), 100 * 70 - 32 * 16, "[32, 16]"),  # a hole
    (lambda i, j: False, 0, "[0, 0]"),
])
@BOTH
def test_a_missing_tile_is_found(keep, written, first, data):
    x = np.ones((100, 70), ml_dtypes.bfloat16)
    said = refused(tiled, x, 32, 16, keep, data=data)
    got = (f"{written:,} of 7,000 elements written; the first missing is out{first}" if written
           else "none of it written")
    assert f"tiled: result out [100, 70]: got {got}; a result is written in full" in said
    assert nki.run(tiled, x, 32, 16, lambda i, j: True, data=data).count.hbm_write_bytes == 14_000


def each_other(x, last):
    """Strided stores: the even columns, then the odd ones up to `last`."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[:, 0:8:2], x[:, 0:8:2])
    nisa.dma_copy(out[:, 1:last:2], x[:, 1:last:2])
    return out


@BOTH
def test_strided_stores(data):
    x = np.arange(64, dtype=F32).reshape(8, 8)
    run = nki.run(each_other, x, 8, data=data)
    assert not data or (run.outputs[0] == x).all()
    assert ("got 56 of 64 elements written; the first missing is out[0, 7]"
            in refused(each_other, x, 6, data=data))


@BOTH
def test_stores_through_other_shapes_and_dtypes(data):
    def kernel(x, halves):
        out = nl.ndarray((4, 8), nl.bfloat16, buffer=nl.shared_hbm)
        flat = out.reshape((32,)).view(nl.uint32)  # 16 words of two elements
        for i in range(halves):
            nisa.dma_copy(flat[8 * i:8 * i + 8], x.reshape((32,)).view(nl.uint32)[8 * i:8 * i + 8])
        return out

    x = np.arange(32).reshape(4, 8).astype(ml_dtypes.bfloat16)
    run = nki.run(kernel, x, 2, data=data)
    assert not data or (run.outputs[0] == x).all()
    assert ("got 16 of 32 elements written; the first missing is out[2, 0]"
            in refused(kernel, x, 1, data=data))


@BOTH
def test_a_store_at_a_run_time_index_may_have_written_all(data):
    def kernel(x):
        out = made()
        for i in range(4):
            nisa.dma_copy(out.select(0, nisa.register_alloc(i)), x[i])
        return out

    run = nki.run(kernel, X, data=data)
    assert not data or (run.outputs[0] == X).all()


def test_a_huge_result_takes_no_memory_where_nothing_is_computed():
    """2^36 bytes of result in 2^10 stores: a flag for each byte would be 64 GiB."""
    def kernel(x):
        out = nl.ndarray((2**10, 2**15, 2**10), x.dtype, buffer=nl.shared_hbm)
        for i in range(2**10):
            nisa.dma_copy(out[i], x)
        return out

    run = nki.run(kernel, ((2**15, 2**10), "bf16"), data=False)
    assert run.count == Count({}, 2**36, 2**36)


# --- errors ------------------------------------------------------------------------------------


def too_wide(x):
    return nl.ndarray((256, 4), F32)  # the fault


def test_an_error_ends_with_the_kernels_line():
    line = too_wide.__code__.co_firstlineno + 1
    message = refused(too_wide, X)
    assert message.startswith("nl.ndarray: got shape [256, 4] in sbuf; the partition dimension may "
                              "be at most 128 (pmax). Split it into 2 tiles")
    assert message.endswith(f"\n  test_nki_run.py, line {line} of too_wide: "
                            "return nl.ndarray((256, 4), F32)  # the fault")


def test_an_error_in_a_sub_kernel_of_another_file(tmp_path):
    (tmp_path / "helpers.py").write_text(dedent("""
        import nki.language as nl

        def sub(x):
            return nl.ndarray((129, 1), x.dtype, buffer=nl.psum)
    """))
    (tmp_path / "kernels.py").write_text(dedent("""
        import nki
        from helpers import sub

        @nki.jit
        def kernel(x):
            return sub(x)
    """))
    message = refused(nki.load(tmp_path / "kernels.py").kernel, X)
    assert message.endswith("\n  helpers.py, line 5 of sub: "
                            "return nl.ndarray((129, 1), x.dtype, buffer=nl.psum)")


def test_an_error_in_a_notebooks_cell():
    """IPython registers a cell's text under a name that is no file."""
    source = "def cell(x):\n    return nl.ndarray((129, 1), x.dtype)\n"
    name = "/tmp/ipykernel_1/3141592653.py"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"nl": nl}
    try:
        exec(compile(source, name, "exec"), space)
        assert refused(space["cell"], X).endswith(
            "\n  line 2 of cell: return nl.ndarray((129, 1), x.dtype)")
    finally:
        del linecache.cache[name]


def test_an_error_of_a_kernel_without_source():
    space = {"nl": nl}
    exec("def k(x):\n    return nl.ndarray((129, 1), x.dtype)", space)
    assert refused(space["k"], X).endswith("\n  line 2 of k")


def _broken(x):
    raise ValueError("of its own")


def _asserts(x):
    assert x.shape == (1, 1), "one element only"


def _unknown_keyword(x):
    nisa.dma_copy(dst=x, source=x)


def _not_a_tensor(x):
    nisa.dma_copy(x, 3)


def _not_iterable(x):
    nisa.nc_matmul(x, x, x, tile_position=5)


def _in_numpy(x):
    np.zeros(3).reshape(5)


def _of_a_tensor(x):
    np.asarray(x).reshape(5)


def _endless(x):
    return _endless(x)


def _exits(x):
    sys.exit(3)


def _attribute(x):
    return x.shap


def _assigns(x):
    x[0] = 1


def _truth(x):
    if x:
        pass


def _iterates(x):
    for _ in x:
        pass


def _misspells(x):
    nisa.dma_cpy(x, x)


def _compares(x):
    return x + 1


@pytest.mark.parametrize(("kernel", "said"), [
    (_broken, "_broken: ValueError: of its own"),
    (_asserts, "_asserts: its own assert failed: one element only"),
    (_unknown_keyword, "_unknown_keyword: TypeError: dma_copy() got an unexpected keyword"),
    (_not_a_tensor, "dma_copy: src: got int; an NkiTensor. Allocate one with nl.ndarray"),
    (_not_iterable, "nc_matmul: got arguments it cannot take (TypeError: 'int' object is not"),
    (_in_numpy, "_in_numpy: ValueError: cannot reshape array of size 3"),
    (_of_a_tensor, "_of_a_tensor: "),
    (_endless, "_endless: got calls without end"),
    (_exits, "_exits: got the end of the program (SystemExit: 3)"),
    (_attribute, "_attribute: AttributeError: 'NkiTensor' object has no attribute 'shap'"),
    (_assigns, "tensor x [4, 3]: assignment: got int; a tile is assigned"),
    (_truth, "cannot read a tile's values"),
    (_iterates, "_iterates: TypeError: 'NkiTensor' object is not iterable"),
    (_misspells, "_misspells: AttributeError: nki.isa has no attribute 'dma_cpy'; NKI 0.6.0"),
    (_compares, "_compares: TypeError: unsupported operand"),
], ids=lambda v: v.__name__ if callable(v) else "")
@BOTH
def test_every_error_is_one_of_ours_with_the_line(kernel, said, data):
    message = refused(kernel, X, data=data)
    assert said in message.splitlines()[0]
    assert f" of {kernel.__name__}: " in message.splitlines()[-1]


def test_an_operation_without_a_rule_is_uncounted_with_its_line():
    from roofline.nki import collectives

    def kernel(x):
        collectives.all_reduce(x, x, None, nl.add)

    with pytest.raises(Uncounted, match=r"all_reduce(.|\n)*line \d+ of kernel: collectives"):
        nki.run(kernel, X)


class Stop(BaseException):
    """Like KeyboardInterrupt: no error of the kernel's."""


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stop])
@pytest.mark.parametrize("lnc", [1, 2])
def test_an_interrupt_passes_through_and_leaves_no_thread(kind, lnc):
    def kernel(x):
        raise kind

    before = threading.active_count()
    with pytest.raises(kind):
        nki.run(kernel, X, lnc=lnc)
    assert threading.active_count() == before
    np.testing.assert_array_equal(nki.run(copied, X).outputs[0], X)


@pytest.mark.parametrize("call", [lambda: nl.ndarray((4, 4), F32), lambda: nl.program_id(0),
                                  lambda: nisa.get_nc_version()])
def test_an_instruction_outside_a_kernel(call):
    with pytest.raises(nki.NkiValidationError, match="a call outside a kernel run"):
        call()
    with pytest.raises(nki.NkiValidationError):
        nki.run(_broken, X)
    with pytest.raises(nki.NkiValidationError, match="a call outside a kernel run"):
        call()  # a run that failed leaves nothing behind


# --- runs inside runs --------------------------------------------------------------------------


def test_a_kernel_calls_another_as_a_function():
    def outer(x):
        return copied(x)

    run = nki.run(outer, X)
    np.testing.assert_array_equal(run.outputs[0], X)
    assert run.count == Count({}, 48, 48)
    assert {r.line.function for r in run.trace} == {"passed"}


@pytest.mark.parametrize(("inner", "said"), [
    (lambda x: nki.run(copied, x), "nki.run(passed): got a run inside a kernel"),
    (lambda x: copied[2](x), "passed[2]: got a launch inside a kernel"),
])
def test_a_launch_inside_a_kernel(inner, said):
    assert said in refused(inner, X)


def test_a_tensor_of_one_run_is_no_argument_of_another():
    kept = []
    nki.run(lambda x: (kept.append(x), x)[1], X)
    assert "of another run; an array" in refused(copied, kept[0])


# --- kernel objects ----------------------------------------------------------------------------


def test_a_kernel_called_on_arrays_gives_its_outputs():
    np.testing.assert_array_equal(copied(X), X)
    np.testing.assert_array_equal(nki.simulate(passed)(X), X)
    assert nki.simulate(copied) is copied
    first, second = nki.jit(lambda x: (x, passed(x)))(X)
    np.testing.assert_array_equal(first, second)


def test_the_documented_variable_names_the_chip(monkeypatch):
    @nki.jit
    def kernel(x):
        seen.append(nisa.get_nc_version())
        return x

    seen = []
    kernel(X)
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "gen4")
    kernel(X)
    nki.run(kernel, X)  # says its target itself
    assert seen == [nisa.nc_version.gen3, nisa.nc_version.gen4, nisa.nc_version.gen3]
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn9")
    with pytest.raises(nki.NkiValidationError, match="target: got 'trn9'; known: trn1, inf2"):
        kernel(X)


@pytest.mark.parametrize("target", ["trn9", "", None, 2, ["trn2"], "TRN2"])
def test_an_unknown_target(target):
    assert f"passed: target: got {target!r}; known: trn1, inf2" in refused(copied, X, target=target)


def test_jit_takes_options_and_refuses_a_platform():
    @nki.jit(mode="jax")
    def kernel(x):
        return x

    np.testing.assert_array_equal(kernel(X), X)
    assert repr(kernel[2]) == "<kernel kernel[2]>" and kernel.__name__ == "kernel"
    with pytest.raises(nki.NkiValidationError, match="platform_target=; an error since NKI"):
        nki.jit(platform_target="trn2")


# --- the run -----------------------------------------------------------------------------------


def matmul(a, b):
    """a [K, M].T @ b [K, N] in fp32, with a transposed copy of a's first tile for good measure."""
    (K, M), (_, N) = a.shape, b.shape
    out = nl.ndarray((M, N), F32, buffer=nl.shared_hbm)
    for n in range(N // 512):
        acc = nl.ndarray((M, 512), F32, buffer=nl.psum)
        for k in range(K // 128):
            left, right = nl.ndarray((128, M), a.dtype), nl.ndarray((128, 512), b.dtype)
            nisa.dma_copy(left, a[k * 128:(k + 1) * 128])
            nisa.dma_copy(right, b[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
            nisa.nc_matmul(acc, left, right)
        done = nl.ndarray((M, 512), F32)
        nisa.tensor_copy(done, acc, engine=nisa.engine.vector)
        nisa.dma_copy(out[:, n * 512:(n + 1) * 512], done)
    turned = nl.ndarray((M, 128), a.dtype, buffer=nl.psum)
    nisa.nc_transpose(turned, left, engine=nisa.engine.tensor)
    return out


M, K, N = 64, 256, 1024
A, B = (np.random.default_rng(0).standard_normal(s).astype(ml_dtypes.bfloat16)
        for s in ((K, M), (K, N)))


@BOTH
def test_a_run_counts_what_the_kernel_asks_for(data):
    run = nki.run(matmul, A, B, data=data)
    reads = 2 * (2 * K * M + K * N)  # a comes with each half of b
    assert run.count == Count({"bf16": 2 * M * N * K}, reads, 4 * M * N)
    assert run.cores[0].count == run.count and run.lnc == 1
    assert nki.total(run.trace) == run.count
    assert nki.total(run.trace[:2]) == Count({}, 2 * 128 * M + 2 * 128 * 512, 0)
    assert {t.name: (t.read, t.written, t.reload) for t in run.tensors} == {
        "a": (2 * 2 * K * M, 0, 2.0), "b": (2 * K * N, 0, 1.0), "out": (0, 4 * M * N, 0.0)}
    assert sum(line.flops for line in run.lines) == 2 * M * N * K
    assert sum(line.transpose_flops for line in run.lines) == 2 * 128 * M * 128
    assert sum(line.instructions for line in run.lines) == len(run.trace) == 4 * 3 + 2 * 2 + 1
    # one half: left, right and its last product, then the copy out of PSUM
    assert run.sbuf_peak_bytes == 2 * 128 * (M + 512)
    assert run.psum_peak_banks == 1
    if data:
        want = A.astype(F32).T @ B.astype(F32)
        assert np.abs(run.outputs[0] - want).max() < 1e-3


def test_two_runs_are_the_same_run():
    one, two = nki.run(matmul, A, B), nki.run(matmul, A, B)
    assert one.outputs[0].tobytes() == two.outputs[0].tobytes()
    assert list(map(repr, one.trace)) == list(map(repr, two.trace))
    assert repr(one) == repr(two)
    assert one.counters == two.counters
    assert one.warnings == two.warnings


def test_runs_at_the_same_time_do_not_mix():
    alone = nki.run(matmul, A, B)
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda lnc: nki.run(matmul, A, B, lnc=lnc), [1, 2] * 6))
    for run in runs:
        assert run.outputs[0].tobytes() == alone.outputs[0].tobytes()
        assert run.count == run.lnc * alone.count
        assert {tuple(map(repr, core)) for core in run.cores} <= {
            tuple(repr(record) for record in alone.cores[0])}
        assert run.warnings == alone.warnings or run.lnc == 2
    assert gc.isenabled()


def test_a_run_prints_itself():
    text = repr(nki.run(matmul, A, B, data=False))
    first, count, *_ = text.splitlines()
    assert first == "matmul on NeuronCore-v3 (trn2), LNC=1, shapes alone"
    assert count.strip().startswith(f"W {2 * M * N * K:,} FLOP, Q ")
    assert "17 instructions; live at most" in text and "1 of 8 PSUM banks" in text


def test_the_counters_of_a_run():
    run = nki.run(matmul, A, B, data=False)
    turned = 2 * 128 * M * 128
    assert run.counters == {
        "hardware_flops": 2 * M * N * K + turned, "transpose_flops": turned,
        "hbm_read_bytes": run.count.hbm_read_bytes, "hbm_write_bytes": 4 * M * N,
        "mm_arithmetic_intensity": 2 * M * N * K / run.count.hbm_bytes,
        "matmul_instruction_count": 5, "tensor_engine_instruction_count": 10,
        "vector_engine_instruction_count": 2, "scalar_engine_instruction_count": 0,
        "gpsimd_engine_instruction_count": 0, "dma_transfer_count": "unknown",
        "dma_transfer_average_bytes": "unknown", "spill_save_bytes": "unknown",
        "spill_reload_bytes": "unknown"}


def test_counters_are_columns_of_the_profilers_summary():
    if not SCHEMA.exists():
        pytest.skip("../shared/reference/profile-schema-7.4.0.csv is not here")
    with SCHEMA.open() as file:
        known = {row["field"] for row in csv.DictReader(file) if row["table"] == "Summary"}
    assert set(nki.run(copied, X).counters) <= known


def test_counters_that_the_compiler_decides_are_unknown():
    def kernel(x):
        tile, turned = nl.ndarray((4, 3), F32), nl.ndarray((3, 4), F32, buffer=nl.psum)
        nisa.dma_copy(tile, x)
        nisa.nc_transpose(turned, tile)  # Tensor or Vector Engine
        done, out = nl.ndarray((3, 4), F32), made(shape=(3, 4))
        nisa.tensor_copy(done, turned)  # Vector or Scalar Engine
        nisa.dma_copy(out, done)
        return out

    run = nki.run(kernel, X)
    np.testing.assert_array_equal(run.outputs[0], X.T)
    unknown = {name for name, value in run.counters.items() if value == "unknown"}
    assert unknown >= {"hardware_flops", "transpose_flops", "matmul_instruction_count",
                       "tensor_engine_instruction_count", "vector_engine_instruction_count",
                       "scalar_engine_instruction_count"}
    assert run.counters["mm_arithmetic_intensity"] == 0 and run.count.flops == 0
    assert {r.engine for r in run.trace} == {"dma", "unknown"}


def test_a_register_leaves_the_flops_known():
    def kernel(a, b):
        nisa.register_load(nisa.register_alloc(), b.view(nl.int16)[0:1, 0:1])
        return matmul(a, b)

    counters = nki.run(kernel, A, B, data=False).counters
    assert counters["hardware_flops"] == 2 * M * N * K + 2 * 128 * M * 128
    assert counters["matmul_instruction_count"] == 5
    assert counters["tensor_engine_instruction_count"] == "unknown"


def test_conventions_are_said():
    text = nki.run(copied, X).conventions
    assert {line.split()[0] for line in text.splitlines() if line[0] != " "} == {
        "W", "fp32", "transposes", "Q", "instructions", "LNC=2", "unknown"}


def test_fp32_and_fp8_count_once():
    """Raw FLOPs: 2 M N K whatever the dtype (an fp32 matmul is no four, an fp8 no half)."""
    for kind, name in ((F32, "fp32"), (ml_dtypes.float8_e4m3, "fp8"), (np.float16, "fp16")):
        run = nki.run(matmul, ((K, M), kind), ((K, N), kind), data=False)
        assert run.count.work == {name: 2 * M * N * K}


# --- occupancy ---------------------------------------------------------------------------------


def chain(x, tiles, width):
    """Loads `tiles` tiles, then stores them: all alive at once."""
    out = nl.ndarray((tiles, 128, width), x.dtype, buffer=nl.shared_hbm)
    held = []
    for _ in range(tiles):
        tile = nl.ndarray((128, width), x.dtype)
        nisa.dma_copy(tile, x)
        held.append(tile)
    for i in range(tiles):
        nisa.dma_copy(out[i], held[i])
    return out


def test_a_tile_lives_from_its_first_write_to_its_last_read():
    spec = ((128, 100), "bf16")
    assert nki.run(chain, spec, 5, 100, data=False).sbuf_peak_bytes == 5 * 128 * 200

    def one_by_one(x):
        out = made(shape=(5, 128, 100))
        for i in range(5):
            nisa.dma_copy(out[i], chain(x, 1, 100)[0])
        return out

    assert nki.run(one_by_one, spec, data=False).sbuf_peak_bytes == 128 * 200


@pytest.mark.parametrize(("partitions", "width", "banks"), [
    (128, 512, 4), (128, 1, 4), (128, 513, 8), (96, 512, 3), (64, 512, 2), (33, 512, 2),
    (32, 512, 1)])
def test_psum_tiles_take_whole_banks_of_quarters(partitions, width, banks):
    """Four tiles alive at once."""
    def kernel(x):
        out, held = made(shape=(4, partitions, width)), []
        for _ in range(4):
            tile = nl.ndarray((partitions, width), F32, buffer=nl.psum)
            nisa.memset(tile, 0.0)
            held.append(tile)
        for i in range(4):
            done = nl.ndarray((partitions, width), F32)
            nisa.tensor_copy(done, held[i])
            nisa.dma_copy(out[i], done)
        return out

    assert nki.run(kernel, X, data=False).psum_peak_banks == banks


def test_what_is_read_before_it_is_written_is_said():
    def kernel(x, first):
        out, tile = made(), nl.ndarray((4, 3), F32)
        if first:
            nisa.memset(tile, 0.0)
        nisa.dma_copy(out, tile)
        return out

    run = nki.run(kernel, X, False)
    assert np.isnan(run.outputs[0]).all()
    assert len(run.warnings) == 2
    assert run.warnings[0].startswith("tile is read before anything was written to it")
    assert "output holds NaN, and no argument does" in run.warnings[1]
    for shown in (run, run.tensors, run.lines, nki.compare(run, None, run)):
        assert f"warning: {run.warnings[0]}" in " ".join(repr(shown).split())
    assert nki.run(kernel, X, True).warnings == ()


# --- side by side ------------------------------------------------------------------------------


def test_a_comparison_shows_where_the_code_differs():
    run = nki.run(matmul, A, B, data=False)
    formula = Count({"bf16": 2 * M * N * K}, 2 * (K * M + K * N), 4 * M * N)
    both = nki.compare(formula, None, run)
    assert both.differences == {"W, FLOP": {"formula": 0}, "Q read, B": {"formula": 2 * K * M},
                                "Q written, B": {"formula": 0}, "Q, B": {"formula": 2 * K * M}}
    assert not both.agree and nki.compare(run.count, run, run).agree
    assert f"+{2 * K * M:,}" in repr(both)


def test_equal_totals_of_different_dtypes_do_not_agree():
    run = nki.run(matmul, A, B, data=False)
    wrong = Count({"fp32": run.count.flops}, run.count.hbm_read_bytes, run.count.hbm_write_bytes)
    both = nki.compare(wrong, None, run)
    assert not both.agree
    assert both.differences["W of bf16"] == {"formula": run.count.flops}
    assert both.differences["W of fp32"] == {"formula": -run.count.flops}


@pytest.mark.parametrize("what", [3, None, "text", [], {}])
def test_only_counts_compare(what):
    with pytest.raises(nki.NkiValidationError, match="compare: formula: got "):
        nki.compare(what, None, Count())


def test_a_comparison_names_its_columns_by_what_stands_there():
    run = nki.run(matmul, A, B, data=False)
    assert list(nki.compare(run, None, run).counts) == ["matmul", "code"]
    assert list(nki.compare(Achieved(), None, run).counts) == ["nest", "code"]
    assert list(nki.compare(Achieved(), Achieved(), run).counts) == ["formula", "nest", "code"]
    for kernel in ("nest", "code", "profiler"):  # no column takes another's place
        both = nki.compare(replace(run, kernel=kernel), run, run, run)
        assert list(both.counts) == ["formula", "nest", "code", "profiler"]


def test_what_is_left_out_or_several_is_said():
    run = nki.run(matmul, A, B, data=False)
    with pytest.raises(nki.NkiValidationError, match=r"third\. Without a nest: .*op, None, run"):
        nki.compare(run.count, run)
    with pytest.raises(nki.NkiValidationError, match=r"nest: got list; .* the sum: sum\(\(one"):
        nki.compare(run.count, [run, run], run)


def test_work_of_other_engines_is_no_work_of_the_code():
    idle, some = Count({}, 4, 4), Count({"fp32": 5}, 4, 4)
    assert "W is the Tensor Engine's FLOPs alone, so 0 here" in repr(nki.compare(some, None, idle))
    for one, code in ((idle, idle), (some, some)):
        assert "Tensor Engine" not in repr(nki.compare(one, None, code))


def test_the_profiler_stands_after_the_code():
    run = nki.run(matmul, A, B, data=False)
    more = Count(run.count.work, run.count.hbm_read_bytes + 640, run.count.hbm_write_bytes)
    four = nki.compare(run.count, run.count, run, more)
    assert list(four.counts) == ["formula", "nest", "code", "profiler"]
    assert four.differences["Q read, B"] == {"formula": 0, "nest": 0, "profiler": 640}
    assert four.differences["W, FLOP"] == {"formula": 0, "nest": 0, "profiler": 0}
    assert not four.agree and nki.compare(run.count, None, run, run).agree
    shown = repr(four).splitlines()
    _, [_, read, *_] = next((line, shown[i + 1:]) for i, line in enumerate(shown)
                               if line.endswith("profiler - code"))
    assert read.startswith("Q read, B") and read.split()[-1] == "+640"


def test_a_models_count_is_called_so_and_a_wide_table_is_two():
    class Modelled:
        kind = "modelled"
        count = Count({"bf16": 2**40}, 2**40 + 8, 2**40)

    code = Count({"bf16": 2**40}, 2**40, 2**40)
    four = nki.compare(code, code, code, Modelled())
    assert list(four.counts) == ["formula", "nest", "code", "model"]
    assert four.differences["Q read, B"]["model"] == 8
    shown = repr(four)
    assert max(map(len, shown.splitlines())) <= 98 and "profiler" not in shown
    assert shown.splitlines()[7].split("  ")[-1] == "model - code" and "+8" in shown


def turned(a):
    """A transpose of [64, 96] on the Tensor Engine: a [64, 96] is stationary, [64, 64] moving."""
    out = nl.ndarray((96, 64), a.dtype, buffer=nl.shared_hbm)
    tile, turn = nl.ndarray((64, 96), a.dtype), nl.ndarray((96, 64), a.dtype, buffer=nl.psum)
    nisa.dma_copy(tile, a)
    nisa.nc_transpose(turn, tile)
    done = nl.ndarray((96, 64), a.dtype)
    nisa.tensor_copy(done, turn)
    nisa.dma_copy(out, done)
    return out


def test_transposes_are_no_matmuls():
    run = nki.run(turned, ((64, 96), "bf16"), data=False)
    assert not run.matmuls and run.count.flops == 0
    [size] = run.transposes
    assert (size.stationary, size.moving, size.instructions) == ((64, 96), (64, 64), 1)
    assert size.flops == 2 * 64 * 96 * 64


def test_what_moves_nothing_has_its_row():
    still = Count({"bf16": 8})
    assert repr(nki.compare(Count({"bf16": 8}, 16, 16), None, still)).splitlines()[5].split()[
        1:] == ["FLOP/B", "0.25", "inf"]


def test_matmuls_are_instructions_times_a_size():
    run = nki.run(matmul, A, B, data=False)
    assert sum(row.flops for row in run.matmuls) == run.count.flops
    for row in run.matmuls:  # [K, M] by [K, N]
        (K, M), (_, N) = row.stationary, row.moving
        assert row.each == 2 * K * M * N and row.flops == row.instructions * row.each


class Achieved:
    """A profile that holds its count under a nest's name."""

    achieved = Count({"bf16": 8}, 2, 2)


def test_a_profile_may_have_its_count():
    assert nki.compare(Count({"bf16": 8}, 2, 2), None, Count({"bf16": 8}, 2, 2), Achieved()).agree


def test_a_text_holds_the_place_of_the_profiler():
    run = nki.run(matmul, A, B, data=False)
    without, later = (nki.compare(run.count, None, run, *rest) for rest in ((), ("Day 7",)))
    assert later.counts == without.counts and later.differences == without.differences
    assert later.agree and "profiler" not in repr(without)
    head, *rows = repr(later).splitlines()
    assert "  profiler  " in head and "profiler - code" not in head
    assert all(row.count("Day 7") == 1 for row in rows[:5])  # W, Q read, written, Q, and I


@pytest.mark.parametrize("what", [3, [], {}, object()])
def test_a_profile_is_a_count_or_a_text(what):
    with pytest.raises(nki.NkiValidationError, match="compare: profile: got "):
        nki.compare(Count(), None, Count(), what)


@pytest.mark.parametrize("data", [True, False])
def test_a_bare_shape_is_told_what_is_missing(data):
    def doubled(x):
        return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)

    with pytest.raises(nki.NkiValidationError,
                       match=r'got \(4, 4\) where .* data=False .*\(\(128, 512\), "bf16"\)'):
        nki.run(doubled, (4, 4), data=data)
