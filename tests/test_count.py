import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.count import Count, Transfers

whole = st.integers(0, 10**15)
counts = st.builds(Count, st.dictionaries(st.sampled_from(["bf16", "fp32", "fp8"]), whole),
                   whole, whole)


def test_one_tile():
    tile = Count({"bf16": 2 * 128 * 128 * 512}, hbm_read_bytes=2 * (128 * 128 + 128 * 512))
    assert tile.flops == 16_777_216
    assert tile.hbm_bytes == 160 * 1024
    assert tile.intensity == 16_777_216 / 163_840


def test_edges_are_settled_once():
    assert Count({"bf16": 1}).intensity == math.inf      # all on chip
    assert Count(hbm_read_bytes=64).intensity == 0.0     # a copy
    assert Count().intensity == 0.0
    assert Count({"bf16": 0}) == Count()                 # no work is no entry


@given(counts, counts, st.integers(0, 1000))
def test_counts_add_and_scale(a, b, times):
    both = a + b
    assert both == b + a
    assert both.flops == a.flops + b.flops
    assert both.hbm_bytes == a.hbm_bytes + b.hbm_bytes
    for dtype in both.work:
        assert both.work[dtype] == a.work.get(dtype, 0) + b.work.get(dtype, 0)
    assert (times * a).flops == times * a.flops
    assert (times * a).hbm_write_bytes == times * a.hbm_write_bytes
    assert times * (a + b) == times * a + times * b
    assert hash(a + b) == hash(b + a)


@pytest.mark.parametrize("bad", [-1, 1.5, True, math.nan, math.inf, "1 GFLOP", None])
def test_refuses_what_is_no_count(bad):
    with pytest.raises(ValueError, match="expected a whole number >= 0"):
        Count({"bf16": bad})
    with pytest.raises(ValueError, match="hbm_read_bytes: expected a whole number"):
        Count(hbm_read_bytes=bad)


def test_is_frozen():
    count = Count({"bf16": 2})
    with pytest.raises(AttributeError):
        count.hbm_read_bytes = 3
    with pytest.raises(TypeError):
        count.work["bf16"] = 3


def test_reads_as_one_line():
    assert repr(Count({"fp32": 2000}, 8000)) == (
        "W 2,000 FLOP, Q 8,000 B, I 0.25 FLOP/B (8,000 read, 0 written)")


def test_integers_of_numpy_do_not_wrap():
    np = pytest.importorskip("numpy")
    table = Transfers(read={"x": (np.int32(2**30), np.int32(8))})
    assert table.read_bytes == 2**33 and "8,589,934,592 B" in repr(table)
