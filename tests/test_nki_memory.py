"""Tensors and their views, against NumPy's views of the same elements."""

import itertools
import math
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.nki import core, dtypes
from roofline.nki import language as nl
from roofline.nki.core import NkiValidationError
from roofline.nki.memory import Indirection, VirtualRegister, tensor
from roofline.nki.pair import Pair

HBM, SBUF, PSUM = nl.private_hbm, nl.sbuf, nl.psum


@pytest.fixture(autouse=True)
def inside_a_run():
    token = core._CURRENT.set(new_core())
    yield
    core._CURRENT.reset(token)


def new_core(data: bool = True, target: str = "trn2") -> core.Core:
    return core.Core(core.target(target), 0, 1, data, Pair(1))


def counted(shape, dtype=nl.int32, buffer=SBUF):
    """A tensor whose elements are 0, 1, 2, ... and the same array in NumPy, not shared."""
    t = nl.ndarray(shape, dtype=dtype, buffer=buffer)
    t.put(np.arange(t.size).reshape(shape))
    return t, t.array.copy()


def same(t, array) -> None:
    assert t.shape == array.shape
    np.testing.assert_array_equal(t.array, array)


# --- indexing -------------------------------------------------------------------------------

# The language guide's own examples: t is (64, 64, 64) in SBUF, h is (4, 128, 32) in HBM.
@pytest.mark.parametrize(("key", "shape"), [
    (np.s_[0, 0, 10], (1, 1)), (np.s_[:, 0], (64, 64)), (np.s_[:, 0, 10], (64, 1)),
    (np.s_[0:64, 0, 0:64], (64, 64)), (np.s_[:, 0, :], (64, 64)), (np.s_[:, :, ::2], (64, 64, 32)),
    (np.s_[...], (64, 64, 64)), (np.s_[0, ..., :], (1, 64, 64)), (np.s_[0, :, :], (1, 64, 64)),
    (np.s_[:, :, 0], (64, 64)), (np.s_[-1], (1, 64, 64)), (np.s_[:, -1, -1], (64, 1)),
    (nl.ds(8, 8), (8, 64, 64)), ((Ellipsis, nl.ds(60, 4)), (64, 64, 4))])
def test_on_chip_the_partition_stays_and_two_dimensions_are_left(key, shape):
    assert nl.ndarray((64, 64, 64), nl.float32)[key].shape == shape


@pytest.mark.parametrize(("key", "shape"), [
    (np.s_[0, :, :], (128, 32)), (np.s_[0], (128, 32)), (np.s_[0, 0], (32,)),
    (np.s_[0, 0, 0], (1,)), (np.s_[..., 3], (4, 128)), (np.s_[1:3, 0:128:4], (2, 32, 32)),
    (np.s_[-2:, -8:-4], (2, 4, 32))])
def test_in_hbm_an_integer_drops_its_dimension_down_to_one(key, shape):
    assert nl.ndarray((4, 128, 32), nl.float32, HBM)[key].shape == shape


def expected(array: np.ndarray, key: tuple, chip: bool) -> np.ndarray:
    """NumPy's view, with the dimensions that NKI keeps."""
    if not chip:
        return np.atleast_1d(array[key])
    if Ellipsis in key:
        gap = key.index(Ellipsis)
        key = (*key[:gap], *[slice(None)] * (array.ndim - len(key) + 1), *key[gap + 1:])
    if isinstance(key[0], int):
        key = (slice(key[0], key[0] + 1 or None), *key[1:])
    return array[key] if array[key].ndim > 1 else array[key].reshape(-1, 1)


def picks(n: int, step: bool = True):
    """An index of a dimension of n elements: an integer, a slice or nl.ds, also from the end."""
    def cut(ends):
        a, b = sorted(ends)
        return st.sampled_from([slice(a, b), nl.ds(a, b - a), slice(a - n, b if b == n else b - n),
                                slice(a, None) if b == n else slice(a, b, 2 if step else 1)])
    ends = st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)
    return st.one_of(st.integers(-n, n - 1), ends.flatmap(cut), st.just(slice(None)))


@st.composite
def indices(draw, shape, chip):
    """An index of some of the dimensions, perhaps with `...` in it."""
    picked = [draw(picks(n, step=not (chip and dim == 0))) for dim, n in enumerate(shape)]
    a, b = sorted(draw(st.lists(st.integers(0, len(shape)), min_size=2, max_size=2)))
    if draw(st.booleans()):
        picked[a:b] = [Ellipsis]
    elif a:
        picked = picked[:a]
    return tuple(picked)


def as_numpy(key: tuple) -> tuple:
    return tuple(slice(k.start, k.start + k.size) if hasattr(k, "size") else k for k in key)


shapes = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


@given(shapes, st.sampled_from([HBM, SBUF, PSUM]), st.data())
def test_an_index_is_numpys(shape, buffer, data):
    t, array = counted(shape, buffer=buffer)
    key = data.draw(indices(shape, buffer is not HBM))
    same(t[key], expected(array, as_numpy(key), buffer is not HBM))
    assert t[key] is t[key]
    assert t[key].offset == t[key].array.flat[0]  # the elements count up from 0


def test_two_tiles_of_one_shape_share_layouts_but_not_views():
    a, b = (nl.ndarray((128, 512), nl.float32) for _ in "ab")
    assert a[:, 0:128].layout is b[:, 0:128].layout
    assert a[:, 0:128] is not b[:, 0:128] and a[:, 0:128].storage is a.storage


def test_a_register_indexes_with_the_number_it_holds_now():
    t, array = counted((4, 8))
    register = VirtualRegister(1)
    seen = []
    for row in (1, 3, 2):
        register.state = row
        seen.append((t[nl.ds(register, 1), :].array.tolist(), t[:, register].array.tolist(),
                     t[register:4].shape))
    assert seen == [(array[n:n + 1].tolist(), array[:, n:n + 1].tolist(), (4 - n, 8))
                    for n in (1, 3, 2)]


@pytest.mark.parametrize(("key", "message"), [
    (np.s_[0:9], "slice: got 0:9; dimension 0 has 8 elements; .* Shorten the last tile with min"),
    (np.s_[:, 4:4], "slice: got 4:4; dimension 1 has 6 elements; start < stop, step >= 1"),
    (np.s_[:, 4:2], "slice: got 4:2"), (np.s_[:, ::-1], "slice: got 0:6:-1"),
    (np.s_[:, ::0], "slice: got 0:6:0"),
    (np.s_[:, -7:2], "slice: got -1:2"), (np.s_[:, 6], "index: got 6; dimension 1 has 6"),
    (np.s_[:, -7], "index: got -7; dimension 1 has 6"), (np.s_[0, 0, 0], "it has 2 dimensions"),
    (np.s_[..., 0, ...], "one ... at most"), (np.s_[:, None], "an index is an integer, a slice"),
    (np.s_[:, 1.0], "an index is an integer"), (np.s_[:, True], "an index is an integer"),
    (np.s_[:, [0, 1]], "an index is an integer"), (np.s_[:, "x"], "an index is an integer"),
    (np.s_[:, np.arange(3)], "an index is an integer"), (np.s_[:, 0:2.5], "an index is an integer"),
    (np.s_[0:8:2], "a step of 2 over partitions; an access takes neighbouring ones"),
    (np.s_[0:3:2], "a step of 2 over partitions"),
    (nl.ds(4, 5), "slice: got 4:9; dimension 0 has 8"), (nl.ds(4, 0), "slice: got 4:4"),
    (nl.ds(-1, 2), "slice: got -1:1")])
def test_an_index_outside_or_of_no_known_kind_is_refused(key, message):
    t = nl.ndarray((8, 6), nl.float32, name="x")
    for _ in range(2):  # the second time, what was remembered must not let it pass
        with pytest.raises(NkiValidationError, match=rf"^tensor x \[8, 6\]: .*{message}"):
            t[key]


def test_one_partition_may_be_taken_with_any_step():
    assert nl.ndarray((8, 6), nl.float32)[2:3:4].shape == (1, 6)


def test_a_tensor_is_not_pythons_to_read():
    t, other = (nl.ndarray((8, 6), nl.float32) for _ in "ab")
    with pytest.raises(NkiValidationError, match="cannot read a tile's values"):
        bool(t)
    with pytest.raises(NkiValidationError, match="assignment: got"):
        t[0] = 1
    with pytest.raises(TypeError):
        iter(t)
    with pytest.raises(NkiValidationError, match=r"Use nl.ndarray"):
        type(t)((8, 6), nl.float32, None)
    assert t != other and t != None  # noqa: E711  NKI has no `is`


def test_a_register_is_not_pythons_to_read_but_a_loops_condition():
    assert VirtualRegister(3) and not VirtualRegister(0)
    assert VirtualRegister(3) != None  # noqa: E711
    with pytest.raises(NkiValidationError, match="Compare on the device"):
        assert VirtualRegister(3) == 3
    with pytest.raises(NkiValidationError, match="Run with data=True"):
        bool(VirtualRegister())
    with pytest.raises(NkiValidationError, match="Run with data=True"):
        nl.ndarray((8, 6), nl.float32)[:, nl.ds(VirtualRegister(), 2)]


# --- view methods ---------------------------------------------------------------------------

def test_the_documents_examples():
    t = nl.ndarray((128, 64), nl.float32)
    assert (t.shape, t.strides, t.offset, t.ndim, t.size) == ((128, 64), (64, 1), 0, 2, 128 * 64)
    assert (t.dtype, t.buffer) == (nl.float32, nl.sbuf)
    u = t.slice(dim=1, start=8, end=24)
    assert (u.get_pattern(), u.offset) == ([[64, 128], [1, 16]], 8)
    v = t.ap(pattern=[[64, 128], [1, 16]], offset=8)
    assert (v.get_pattern(), v.offset) == (u.get_pattern(), u.offset)
    assert t.slice(1, 0, 64, 2).shape == (128, 32)
    assert t.expand_dim(1).shape == (128, 1, 64)
    assert t.view(nl.uint8).shape == (128, 256) and t.view(nl.int32).shape == (128, 64)
    assert nl.ndarray((128, 256), nl.uint8).reinterpret_cast(nl.float32).shape == (128, 64)
    t = nl.ndarray((128, 24), nl.float32)
    assert t.reshape_dim(1, (4, 6)).shape == t.reshape_dim(1, (4, -1)).shape == (128, 4, 6)
    assert t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4}).shape == (128, 6, 4)
    assert nl.ndarray((128, 2, 3, 4), nl.float32).flatten_dims(1, 2).shape == (128, 6, 4)
    t = nl.ndarray((128, 4, 6), nl.float32)
    assert t.reshape((128, 24)).shape == (128, 24) and t.reshape((128, 2, 12)).ndim == 3
    t = nl.ndarray((128, 4, 16), nl.float32)
    assert t.permute((0, 2, 1)).shape == (128, 16, 4)
    assert t[0:64, :, :].permute((0, 2, 1))[:, 0, :].shape == (64, 4)
    t = nl.ndarray((128, 1, 64), nl.float32)
    assert t.broadcast(1, 8).shape == (128, 8, 64) and t.squeeze_dim(1).shape == (128, 64)
    t = nl.ndarray((128, 8, 64), nl.float32)
    assert t.select(1, 3).shape == (128, 64)


def split(n: int):
    """Two sizes whose product is n."""
    return st.sampled_from([d for d in range(1, n + 1) if n % d == 0]).map(lambda d: (d, n // d))


def factors(n: int, count: int):
    """`count` sizes whose product is n."""
    return st.sampled_from([f for f in itertools.product(
        [d for d in range(1, n + 1) if n % d == 0], repeat=count) if math.prod(f) == n])


@st.composite
def steps(draw, shape, strides, chip):
    """One view method, as functions of the tensor and of the array; None where NumPy would copy."""
    dims = len(shape)
    free = range(int(chip), dims)
    ones = [d for d in free if shape[d] == 1]
    kinds = ["index", "slice", "permute", "reshape"]
    kinds += ["select"] * (dims > 1) + ["expand"] * (dims < 5)
    kinds += ["squeeze"] * (dims > 2) + ["broadcast"] if ones else []
    kinds += ["split"] * (dims < 5 and len(free) > 0) + ["flatten", "rearrange"] * (len(free) > 1)
    kind = draw(st.sampled_from(kinds))
    if kind == "index":
        key = draw(indices(shape, chip))
        return (lambda t: t[key]), (lambda a: expected(a, as_numpy(key), chip))
    if kind == "slice":
        d = draw(st.sampled_from(free))
        a, b = sorted(draw(st.lists(st.integers(0, shape[d]), min_size=2, max_size=2, unique=True)))
        by = draw(st.integers(1, 3))
        key = (*[slice(None)] * d, slice(a, b, by))
        return (lambda t: t.slice(d, a, b, by)), (lambda x: x[key])
    if kind == "select":
        d = draw(st.integers(0, dims - 1))
        i = draw(st.integers(0, shape[d] - 1))
        key = (*[slice(None)] * d, i)
        return (lambda t: t.select(d, i)), (lambda x: expected(x, key, chip))
    if kind == "permute":
        order = draw(st.permutations(free))
        order = (0, *order) if chip else tuple(order)
        return (lambda t: t.permute(order)), (lambda x: x.transpose(order))
    if kind == "expand":
        d = draw(st.integers(int(chip), dims))
        return (lambda t: t.expand_dim(d)), (lambda x: np.expand_dims(x, d))
    if kind == "squeeze":
        d = draw(st.sampled_from(ones))
        return (lambda t: t.squeeze_dim(d)), (lambda x: x.squeeze(d))
    if kind == "broadcast":
        d, n = draw(st.sampled_from(ones)), draw(st.integers(1, 3))
        wide = (*shape[:d], n, *shape[d + 1:])
        return (lambda t: t.broadcast(d, n)), (lambda x: np.broadcast_to(x, wide))
    if kind == "split":
        d = draw(st.sampled_from(free))
        sizes = draw(split(shape[d]))
        wanted = (*shape[:d], *sizes, *shape[d + 1:])
        given = draw(st.sampled_from([sizes, (-1, sizes[1]), (sizes[0], -1)]))
        return (lambda t: t.reshape_dim(d, given)), (lambda x: x.reshape(wanted, copy=False))
    if kind == "flatten":
        a, b = sorted(draw(st.lists(st.sampled_from(free), min_size=2, max_size=2)))
        flat = (*shape[:a], math.prod(shape[a:b + 1]), *shape[b + 1:])
        return (lambda t: t.flatten_dims(a, b)), (lambda x: x.reshape(flat, copy=False))
    if kind == "rearrange":  # (a b ... (c d)) -> (a (d b) ... c): split the last, reorder, merge
        c, d = draw(split(shape[-1]))
        names = [f"n{i}" for i in range(dims - 1)]
        at = draw(st.sampled_from(free[:-1]))
        source = (*names, ("c", "d"))
        target = (*names[:at], ("d", names[at]), *names[at + 1:], "c")
        order = (*range(at), dims, at, *range(at + 1, dims - 1), dims - 1)
        merged = (*shape[:at], d * shape[at], *shape[at + 1:-1], c)
        return (lambda t: t.rearrange(source, target, {"c": c}),
                lambda x: x.reshape((*shape[:-1], c, d), copy=False).transpose(order)
                .reshape(merged, copy=False))
    count = draw(st.integers(1, 4))
    sizes = draw(factors(math.prod(shape[int(chip):]), count))
    sizes = (shape[0], *sizes) if chip else sizes
    return (lambda t: t.reshape(sizes)), (lambda x: x.reshape(sizes, copy=False))


@settings(max_examples=300, deadline=None)
@given(shapes, st.sampled_from([HBM, SBUF, PSUM]), st.data())
def test_a_chain_of_views_is_numpys(shape, buffer, data):
    """Elements, refusals, and, on shapes alone, the very same layouts."""
    t, array = counted(shape, buffer=buffer)
    token = core._CURRENT.set(new_core(data=False))
    blind = nl.ndarray(shape, nl.int32, buffer)
    core._CURRENT.reset(token)
    for _ in range(data.draw(st.integers(1, 5))):
        ours, numpys = data.draw(steps(t.shape, t.strides, buffer is not HBM))
        try:
            view = numpys(array)
        except ValueError:  # NumPy could only copy
            with pytest.raises(NkiValidationError, match="only with a copy"):
                ours(t)
            continue
        t, array, blind = ours(t), view, ours(blind)
        same(t, array)
        assert blind.layout is t.layout and blind.offset == t.offset
        row = math.prod(shape[1:])  # where in a partition matters in PSUM alone, for its banks
        assert (t.layout.start, t.layout.first) == (
            t.offset // row if buffer is not HBM else 0, t.offset % row * 4 * (buffer is PSUM))
        assert t.is_contiguous() == (array.flags.c_contiguous if buffer is HBM else all(
            row.flags.c_contiguous for row in array))
        pattern = zip(*t.get_pattern(), strict=True)
        places = np.lib.stride_tricks.as_strided(np.arange(10**4)[t.offset:], *reversed(
            [(list(s) if i else [8 * x for x in s]) for i, s in enumerate(pattern)]))
        np.testing.assert_array_equal(t.array, places)  # an element is where its number says


@pytest.mark.parametrize(("view", "message"), [
    (lambda t: t.slice(1, 0, 25), "slice: got 0:25; dimension 1 has 24"),
    (lambda t: t.slice(1, -4, 24), "slice: got -4 to 24; 0 <= start < end"),
    (lambda t: t.slice(1, 4, 4), "slice: got 4:4"),
    (lambda t: t.slice(2, 0, 1), "slice: got dimension 2; 0 to 1"),
    (lambda t: t.select(1, 24), "index: got 24; dimension 1 has 24"),
    (lambda t: t.permute((1, 0)), r"permute: got \(1, 0\); an order of the 2 dimensions, 0 first"),
    (lambda t: t.permute((0, 0)), "an order of the 2 dimensions"),
    (lambda t: t.permute((0,)), "an order of the 2 dimensions"),
    (lambda t: t.broadcast(1, 4), "broadcast: got dimension 1 of size 24; it must be 1"),
    (lambda t: t[0:1].broadcast(0, 4), "broadcast: got dimension 0; the partition dimension stays"),
    (lambda t: t[:, 0:1].broadcast(1, 0), "broadcast: got size 0; at least 1"),
    (lambda t: t.expand_dim(0), "expand_dim: got 0; 1 to 2"),
    (lambda t: t.expand_dim(3), "expand_dim: got 3; 1 to 2"),
    (lambda t: t.squeeze_dim(1), "squeeze_dim: got dimension 1 of size 24; it must be 1"),
    (lambda t: t[0:1].squeeze_dim(0), "squeeze_dim: got dimension 0; the partition"),
    (lambda t: t[0:1].squeeze_dim(-2), "squeeze_dim: got dimension 0; the partition"),
    (lambda t: t[:, 0:1].squeeze_dim(1), r"got 1 dimensions, \[128\]; in sbuf a view has 2 to 5"),
    (lambda t: t.reshape_dim(0, (2, 64)), "dimension 0 cannot be split"),
    (lambda t: t.reshape_dim(1, (5, -1)), r"got \(5, -1\) for 24 elements; sizes whose product"),
    (lambda t: t.reshape_dim(1, (-1, -1)), "one of them -1 at most"),
    (lambda t: t.reshape_dim(1, (0, -1)), "sizes whose product is 24"),
    (lambda t: t.reshape_dim(1, (2, 2, 2, 3, 1)), "got 6 dimensions, .* a view has 2 to 5"),
    (lambda t: t.flatten_dims(0, 1), "flatten_dims: got dimension 0; the partition"),
    (lambda t: t.expand_dim(1).flatten_dims(2, 1), "got 2 to 1; the first comes before the last"),
    (lambda t: t.reshape((128, 25)), r"reshape: got \(128, 25\); 3072 elements"),
    (lambda t: t.reshape((128, -1)), "every size at least 1"),
    (lambda t: t.reshape((64, 48)), r"reshape: got \(64, 48\); dimension 0 stays 128"),
    (lambda t: t.reshape((128, 6, 4))[:, :, 1:].reshape((128, 18)), "only with a copy. Copy into"),
    (lambda t: t.rearrange(("a",), ("a",)), "a name or a group for each of the 2 dimensions"),
    (lambda t: t.rearrange(("a", "b"), ("a", "c")), "the same names in both, each once"),
    (lambda t: t.rearrange(("a", "b"), ("b", "a")), "dimension 0, 'a', stays first and alone"),
    (lambda t: t.rearrange((("a", "c"), "b"), (("a", "c"), "b"), {"a": 2}), "stays first and"),
    (lambda t: t.rearrange(("a", ("b", "c")), ("a", "b", "c")), "one of them -1 at most"),
    (lambda t: t.rearrange(("a", ("b", "c")), ("a", "b", "c"), {"b": 5}), "whose product is 24"),
    (lambda t: t.rearrange(("a", "b"), ("a", "b"), {"d": 5}), "the same names in both"),
    (lambda t: t.view(nl.float16)[:, 1:].view(nl.float32), r"its 94 bytes divisible by 4"),
    (lambda t: t.view(nl.float16)[:, 1:3].view(nl.float32), "no whole number of its elements"),
    (lambda t: t[:, ::2].view(nl.int32), "the last dimension must be contiguous"),
    (lambda t: t.view("float64"), "view: got 'float64'; dtype: got 'float64'; NKI has"),
    (lambda t: t.vector_select(0, t), "it selects along dimension 0 of an HBM tensor"),
    (lambda t: t.select(0, VirtualRegister(1)), "the partition is not chosen at run time")])
def test_a_view_that_the_documents_do_not_allow_is_refused(view, message):
    t = nl.ndarray((128, 24), nl.float32, name="x")
    with pytest.raises(NkiValidationError, match=message) as caught:
        view(t)
    assert re.match(r"tensor x \[\d+, .*\]: \w+.*: got .*; ", str(caught.value))


@pytest.mark.parametrize("view", [
    lambda t, d: t.slice(2 - d, 1, 3), lambda t, d: t.select(2 - d, 1),
    lambda t, d: t.expand_dim(3 - d), lambda t, d: t[:, :, 0:1].squeeze_dim(2 - d),
    lambda t, d: t[:, :, 0:1].broadcast(2 - d, 4), lambda t, d: t.reshape_dim(2 - d, (2, 4)),
    lambda t, d: t.flatten_dims(1 - d, 2 - d)])
def test_a_dimension_may_be_counted_from_the_end(view):
    """d is 0 or the number of dimensions; a new dimension of three has four places to go."""
    t = nl.ndarray((4, 3, 8), nl.int32)
    expands = view(t, 0).ndim == 4 and view(t, 0).shape[-1] == 1
    assert view(t, 3 + expands).layout is view(t, 0).layout


def test_an_intermediate_may_have_more_dimensions_than_a_view():
    """(a b (c d) (e f)) has six names; what it becomes has four dimensions."""
    t, array = counted((2, 3, 4, 6))
    same(t.rearrange(("a", "b", ("c", "d"), ("e", "f")), ("a", ("b", "c"), ("d", "e"), "f"),
                     {"c": 2, "e": 3}), array.reshape(2, 6, 6, 2))


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(
    ["uint8", "int16", "float32", "bfloat16", "float8_e4m3"], 2)))
def test_view_keeps_the_bits(old, new):
    old, new = dtypes.ALL[old], dtypes.ALL[new]
    t = nl.ndarray((4, 3, 8), old)
    bits = np.random.default_rng(0).integers(0, 256, t.storage.raw.size, np.uint8)
    t.storage.raw[:] = bits
    array = bits.view(old.numpy).reshape(t.shape)
    kinds = np.dtype(f"u{new.itemsize}")
    last = t.permute((0, 2, 1))[:, 0:4, 2:3], array.transpose(0, 2, 1)[:, 0:4, 2:3].copy()
    assert last[0].strides[-1] == 8  # one element is contiguous whatever its stride
    views = [(t, array), (t[1:3, 1], array[1:3, 1]), (t[:, ::2, 4:8], array[:, ::2, 4:8])]
    if new.itemsize < old.itemsize:
        views.append(last)
    for a, b in views:
        got = a.view(new)
        assert (got.dtype, got.shape) == (new, b.view(new.numpy).shape)
        np.testing.assert_array_equal(got.array.view(kinds), b.view(new.numpy).view(kinds))
        np.testing.assert_array_equal(got.view(old).array.view(np.uint8), b.view(np.uint8))


def test_view_asks_nothing_of_the_stride_of_one_element():
    """Rows of 6 bytes are no whole number of int32; a single row of 4 bytes is one."""
    t = nl.ndarray((2, 3, 6), nl.int8)
    assert t[0:1, 0:1, 0:4].view(nl.int32).shape == (1, 1, 1)
    with pytest.raises(NkiValidationError, match=r"strides \[18, 6, 1\] of 1 bytes are no whole"):
        t[:, 0:1, 0:4].view(nl.int32)


# --- access patterns ------------------------------------------------------------------------

def walked(array: np.ndarray, pattern, offset: int) -> np.ndarray:
    """NKI Access Patterns' own loop: flatten, then offset + the sum of index x step."""
    flat, shape = array.reshape(-1), [n for _, n in pattern]
    found = np.empty(shape, array.dtype)
    for at in itertools.product(*map(range, shape)):
        found[at] = flat[offset + sum(i * step for i, (step, _) in zip(at, pattern, strict=True))]
    return found


@given(st.data())
def test_ap_is_the_documents_loop(data):
    """Anything that stays inside the tensor, and on chip inside each partition."""
    t, array = counted((4, 5, 6), buffer=data.draw(st.sampled_from([HBM, SBUF])))
    chip = t.buffer is SBUF
    room = 30 if chip else 120
    offset = data.draw(st.integers(0, room - 1))
    left, pattern = room - 1 - offset, []
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(st.integers(0, 12))
        n = data.draw(st.integers(1, min(4, 1 + left // step) if step else 3))
        left -= (n - 1) * step
        pattern.append([step, n])
    if chip:
        first = data.draw(st.integers(0, 3))
        pattern = [[30, data.draw(st.integers(1, 4 - first))], *pattern]
        offset += 30 * first
    got = t.ap(pattern, offset)
    same(got, walked(array, pattern, offset))
    assert got.get_pattern() == pattern and got.offset == offset
    if chip:
        assert got.layout.start == offset // 30


def test_ap_with_a_dtype_counts_in_its_elements():
    t, array = counted((4, 8))
    got = t.ap([[16, 4], [1, 16]], 0, dtype=nl.bfloat16)
    assert got.dtype == nl.bfloat16
    np.testing.assert_array_equal(got.array, array.view(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(t.ap([[16, 4], [2, 3]], 4, dtype="int16").array,
                                  array.view(np.int16)[:, 4:10:2])


def test_ap_of_a_view_says_that_the_documents_disagree():
    t, array = counted((4, 8))
    same(t[:, 2:].ap([[8, 4], [1, 2]], 1), array[:, 3:5])
    same(t[:, 2:].ap([[8, 4], [1, 2]]), array[:, 2:4])
    warned = list(core.current().warnings)
    assert len(warned) == 1 and warned[0].endswith("Call it on the whole tensor")
    same(t[0:2].ap([[8, 4], [1, 2]]), array[:, :2])  # starts at 0: nothing to disagree about
    assert len(core.current().warnings) == 1


@pytest.mark.parametrize(("pattern", "offset", "message"), [
    ([[16, 2], [1, 8]], 0, "a partition step of 16; partitions are contiguous, .* free size, 8"),
    ([[8, 4], [1, 9]], 0, "it ends after 32 elements, a partition after 8"),
    ([[8, 4], [1, 8]], 1, "offset 1"), ([[8, 4], [1, 4]], 8, "offset 8"),
    ([[8, 4], [1, 4]], -1, "offset -1"), ([[8, 4], [-1, 4]], 4, "steps of at least 0"),
    ([[8, 4], [1, 0]], 0, "numbers of at least 1"), ([[8, 4]], 0, "a view has 2 to 5"),
    ([[8, 4], *[[1, 1]] * 5], 0, "got 6 dimensions")])
def test_a_pattern_that_leaves_a_partition_is_refused(pattern, offset, message):
    with pytest.raises(NkiValidationError, match=message):
        nl.ndarray((4, 8), nl.float32).ap(pattern, offset)


# --- indices known at run time --------------------------------------------------------------

def tile(values, dtype=nl.int32):
    t = nl.ndarray((len(values), 1), dtype)
    t.put(np.reshape(values, (-1, 1)))
    return t


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_vector_select_gathers_rows_and_scatters_into_them(rows, data):
    h, array = counted((6, 3, 4), buffer=HBM)
    key = data.draw(indices((len(rows), 3, 4), False).filter(lambda k: k[:1] == (slice(None),)))
    chosen = h.vector_select(0, tile(rows))
    assert chosen.is_indirect() and not h.is_indirect()
    same_read(chosen, array[rows])
    same_read(chosen[key], array[rows][as_numpy(key)])
    same_read(chosen.permute((0, 2, 1)).reshape_dim(1, (2, 2)),
              array[rows].transpose(0, 2, 1).reshape(-1, 2, 2, 3))
    chosen[:, 1].put(-np.arange(4.0 * len(rows)))
    array[rows, 1] = -np.arange(4.0 * len(rows)).reshape(-1, 4)
    same(h, array)


def same_read(t, array) -> None:
    assert t.shape == array.shape
    np.testing.assert_array_equal(t.read(), array)
    np.testing.assert_array_equal(t.values(), array.astype(np.float32))


def test_select_with_a_tile_or_a_register_is_the_index_it_holds():
    h, array = counted((4, 3, 8), buffer=HBM)
    s, on_chip = counted((4, 3, 8))
    register, number = VirtualRegister(0), tile([0])
    views = [(h.select(0, number), array, 0), (h.select(2, register), array, 2),
             (s.select(1, number), on_chip, 1), (s.select(2, register)[:, 1:], on_chip[:, 1:], 2)]
    for i in (2, 0, 1):
        register.state = i
        number.put(np.array([[i]]))
        for view, whole, dim in views:
            same_read(view, whole.take(i, dim))
    two, array = counted((4, 8))
    same_read(two.select(1, register), array[:, 1:2])  # two dimensions are left


def test_ap_moves_by_elements_of_the_tensors_dimension():
    """offset + index x prod(shape[indirect_dim + 1:]), whatever the pattern says."""
    a, array = counted((8, 3, 4), buffer=HBM)
    same_read(a.ap([[4, 3], [1, 2]], 1, scalar_offset=tile([5]), indirect_dim=0), array[5, :, 1:3])
    same_read(a.ap([[12, 8], [1, 4]], scalar_offset=VirtualRegister(2), indirect_dim=1),
              array[:, 2, :])
    same_read(a.ap([[7, 2], [1, 12]], vector_offset=tile([6, 1]), indirect_dim=0),
              array[[6, 1]].reshape(2, 12))
    same_read(a.ap([[24, 2], [1, 24]], vector_offset=tile([6, 1]), dtype=nl.int16),
              array[[6, 1]].reshape(2, 12).view(np.int16))


def test_several_columns_of_indices_go_down_the_columns():
    """nki.isa.dma_transpose: indices.T.flatten()[:rows]."""
    a, array = counted((300, 2), buffer=HBM)
    index = nl.ndarray((128, 2), nl.uint32)
    rows = np.random.default_rng(0).integers(0, 300, (128, 2))
    index.put(rows)
    same_read(a.ap([[2, 200], [1, 2]], vector_offset=index), array[rows.T.flatten()[:200]])


def test_an_index_outside_is_refused_when_it_is_used():
    h, _ = counted((6, 4), buffer=HBM)
    number = tile([6])
    chosen = h.select(0, number)
    with pytest.raises(NkiValidationError, match="run-time index: got 6; the dimension has 6"):
        chosen.read()
    number.put(np.array([[5]]))
    assert chosen.read().tolist() == [20, 21, 22, 23]
    number.put(np.array([[4]]))
    assert chosen.read().tolist() == [16, 17, 18, 19]
    with pytest.raises(NkiValidationError, match="got 5; the view that it moves ends outside"):
        h.ap([[4, 2], [1, 4]], scalar_offset=tile([5])).read()


def on_chip():
    return nl.ndarray((6, 4), nl.float32)


@pytest.mark.parametrize(("view", "message"), [
    (lambda h, v: v.select(1, 0).select(1, VirtualRegister(0)), "already indirect; one run-time"),
    (lambda h, v: v.vector_select(0, tile([0])), "already indirect"),
    (lambda h, v: v.ap([[4, 2], [1, 4]]), "ap: got a view that is already indirect"),
    (lambda h, v: v.view(nl.int32), "view: got a view that is already indirect"),
    (lambda h, v: v[0:1], "dimension 0 was chosen at run time and stays whole"),
    (lambda h, v: v[0], "dimension 0 was chosen at run time and stays whole"),
    (lambda h, v: v.select(0, 1), "dimension 0 was chosen at run time and stays whole"),
    (lambda h, v: v.permute((1, 0, 2)), "permute: .* 0 first"),
    (lambda h, v: v.expand_dim(0), "expand_dim: got 0; 1 to 3"),
    (lambda h, v: v.flatten_dims(0, 1), "dimension 0 was chosen at run time"),
    (lambda h, v: v.reshape((4, 12)), r"reshape: got \(4, 12\); dimension 0 stays 2"),
    (lambda h, v: v.reshape_dim(0, (2, 1)).reshape_dim(0, (1, 2)), "dimension 0 cannot be split"),
    (lambda h, v: h.vector_select(1, tile([0])), "vector_select: got dim 1 in private_hbm"),
    (lambda h, v: on_chip().vector_select(0, tile([0])), "along dimension 0 of an HBM tensor"),
    (lambda h, v: on_chip().ap([[4, 1], [1, 4]], scalar_offset=tile([0])), "any dimension but the"),
    (lambda h, v: on_chip().ap([[4, 1], [1, 4]], vector_offset=tile([0])), "of an HBM tensor"),
    (lambda h, v: h.ap([[24, 1], [1, 4]], vector_offset=tile([0]), indirect_dim=1), "HBM tensor"),
    (lambda h, v: h.ap([[24, 3], [1, 4]], vector_offset=tile([0])), r"of shape \(3, 1\)"),
    (lambda h, v: h.select(0, tile([0, 1])), r"whole numbers in sbuf, of shape \(1, 1\)"),
    (lambda h, v: h.select(0, tile([0], nl.float32)), "whole numbers in sbuf"),
    (lambda h, v: h.vector_select(0, h), "whole numbers in sbuf"),
    (lambda h, v: h.ap([[24, 1], [1, 4]], scalar_offset=3), "got int; a tile in sbuf"),
    (lambda h, v: h.ap([[1, 1]], scalar_offset=tile([0]), vector_offset=tile([0])), "at most one")])
def test_a_run_time_index_that_the_documents_do_not_allow_is_refused(view, message):
    h = nl.ndarray((5, 6, 4), nl.float32, HBM)
    with pytest.raises(NkiValidationError, match=message):
        view(h, h.vector_select(0, tile([0, 1])))


def test_an_indirect_views_layout_does_not_say_which_bytes():
    h = nl.ndarray((5, 6, 4), nl.float32, HBM)
    assert (h.layout.indirect, h.select(0, VirtualRegister()).layout.indirect,
            h.vector_select(0, tile([1])).layout.indirect) == ("", "scalar", "vector")
    assert h.vector_select(0, tile([1, 1, 1])).layout.hbm_bytes == 3 * 24 * 4
    assert Indirection("scalar", VirtualRegister(4), 1, 5, 1).rows() == [4]


# --- contents -------------------------------------------------------------------------------

def test_views_share_bytes():
    t = nl.ndarray((128, 64), nl.float32)
    t.put(np.zeros((128, 64)))
    u, v = t.reshape((128, 8, 8)), t[:, 16:32]
    assert not v.values().any()
    u[:, 2:4].put(np.ones((128, 16)))
    assert v.values().all() and t.values().sum() == 128 * 16
    half = t.view(nl.bfloat16)
    assert half.values()[:, 33].tolist() == [1.0] * 128  # 1.0 is 3f800000, stored low half first
    half[:, 33].put(np.full((128, 1), 2.0))
    assert v.array[:, 0].tolist() == [2.0] * 128


def test_a_float32_copy_is_renewed_when_another_view_writes():
    t = nl.ndarray((4, 4), nl.bfloat16)
    t.put(np.zeros((4, 4)))
    before = t[:, 0:2].values()
    t[:, 1:3].put(np.ones((4, 2)))
    assert t[:, 0:2].values().tolist() == [[0.0, 1.0]] * 4 and not before.any()
    assert t.values() is t.values()


def test_overlapping_views_copy_as_if_read_first():
    t, array = counted((4, 8))
    t[:, 1:8].put(t[:, 0:7].read())
    array[:, 1:8] = array[:, 0:7].copy()
    same(t, array)


@pytest.mark.parametrize("buffer", [SBUF, PSUM, HBM])
@pytest.mark.parametrize("name", dtypes.ALL)
def test_fresh_memory_is_nan_or_four(name, buffer):
    t = nl.ndarray((4, 8), dtypes.ALL[name], buffer)
    values = t.array.astype(np.float32)
    assert np.isnan(values).all() if t.dtype.kind == "float" else (values == 4).all()


def test_the_type_rounds_what_is_put():
    t = nl.ndarray((1, 4), nl.int8)
    t.put(np.float32([[0.5, 1.5, 1000, -1000]]))
    assert t.array.tolist() == [[0, 2, 127, -128]]
    t = nl.ndarray((1, 2), nl.bfloat16)
    t.put(np.float32([257, 3]).reshape(2, 1))  # the shape may differ; 8 bits hold 256, 258, ...
    assert t.values().tolist() == [[256, 3]]


# --- allocation -----------------------------------------------------------------------------

@pytest.mark.parametrize(("arguments", "message"), [
    (((129, 4), nl.float32), "got shape .129, 4. in sbuf; .* at most 128 .pmax.. Split it into 2"),
    (((4,), nl.float32), r"a partition and a free dimension. Use \(P, 1\)"),
    (((4, 0), nl.float32), "every size is at least 1"), (((), nl.float32), "at least 1"),
    (((4, -1), nl.float32), "every size is at least 1"), ((4, nl.float32), "a tuple of whole"),
    (((4, 2.5), nl.float32), "a tuple of whole numbers"), ((None, nl.float32), "whole numbers"),
    (((4, [2]), nl.float32), "a tuple of whole numbers"),
    (((4, 4), "float64"), "got 'float64'; NKI has bool_"), (((4, 4), [1]), "a dtype of nki"),
    (((4, 4), nl.float32, "sbuf"), "got 'sbuf'; nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm"),
    (((4, 57345), nl.float32), "got 229,380 B a partition; .* has 229,376 B. Split the free"),
    (((4, 4097), nl.float32, nl.psum), "got 16,388 B a partition; .* has 16,384 B"),
    (((1, 2, 3, 4, 5, 6), nl.float32, HBM), "at most 5 dimensions")])
def test_a_tensor_that_no_memory_holds_is_refused(arguments, message):
    for _ in range(2):
        with pytest.raises(NkiValidationError, match=f"^nl.ndarray: .*{message}"):
            nl.ndarray(*arguments)


def test_a_whole_partition_fits():
    """trn2: 224 KiB of SBUF and 16 KiB of PSUM a partition."""
    assert nl.ndarray((128, 224 * 1024 // 4), nl.float32).storage.allocation.partitions == 128
    assert nl.ndarray((128, 16 * 1024 // 4), nl.float32, PSUM).size == 128 * 4096


@pytest.mark.parametrize(("buffer", "address", "fits"), [
    (SBUF, (0, 0), True), (SBUF, (96, 224 * 1024 - 2048), True), (SBUF, (97, 0), False),
    (SBUF, (0, 224 * 1024 - 2047), False), (SBUF, (-1, 0), False), (PSUM, (32, 2048), True),
    (PSUM, (0, 1024), False), (PSUM, (0, 16384), False), (HBM, (0, 0), False)])
def test_an_address_is_inside_and_in_psum_at_a_bank(buffer, address, fits):
    """(32, 512) of fp32: 32 partitions of 2 KiB."""
    def place():
        return nl.ndarray((32, 512), nl.float32, buffer, address=address)
    if fits:
        assert place().storage.allocation.address == address
    else:
        with pytest.raises(NkiValidationError, match=r"nl.ndarray: address: got .* inside 128 x"):
            place()


def test_only_psum_keeps_account_of_what_matmuls_wrote():
    assert nl.ndarray((4, 4), nl.float32, PSUM).storage.opened == {}
    assert not hasattr(nl.ndarray((4, 4), nl.float32).storage, "opened")


def test_a_tensor_is_called_what_it_is_assigned_to():
    total = nl.ndarray((4, 4), nl.float32)
    assert total.name == "total" and repr(total) == "total [4, 4] float32 in sbuf"
    assert nl.ndarray((4, 4), nl.float32, name="x")[0].name == "x"
    assert tensor(total.storage).layout is total.layout


def test_a_shape_may_be_a_list_of_numpys_integers():
    assert nl.ndarray([np.int64(4), 8], np.float32).shape == (4, 8)


def test_a_kernels_class_gets_the_constructor_of_the_language_guide():
    class Base(nl.NKIObject):
        x: int

    class Tile(Base):
        y: bool = False
        z: float

        def __post_init__(self):
            self.after = self.x

    for made, fields in ((Tile(1), (1, False, None)), (Tile(2, True, z=0.5), (2, True, 0.5))):
        assert (made.x, made.y, made.z) == fields and made.after == made.x
    with pytest.raises(TypeError, match="Tile has"):
        Tile(1, 2, 3, 4)


def test_a_tensor_is_not_compared_with_a_number():
    """`t == 0` would be False without a word; `t == None` asks whether there is a tensor."""
    t, _ = counted((4, 4))
    with pytest.raises(NkiValidationError, match="the truth of tensor"):
        bool(t == 0)
    assert t != None and t in [t]  # noqa: E711
