"""Each op's formulas against an oracle that walks the loops and notes every element used."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import ops
from roofline.count import Count

small = st.integers(1, 6)
DTYPES = ("fp32", "bf16", "fp8", "int8")

# What the letters of a formula stand for, where they are not a field's own name.
LETTERS = {"nonzeros": "nnz", "heads": "H", "kv_heads": "G", "chips": "c", "latent": "c",
           "rope": "r", "shared": "s", "dtype": "p", "w_dtype": "p_w", "out_dtype": "p_y",
           "kv_dtype": "p_kv", "index_dtype": "p_index"}


def value(text, of):
    """A formula's value: letters side by side multiply. `of`: an op, or name -> number."""
    names = of
    if isinstance(of, ops.Op):
        fields = {**vars(of), "p_s": 4}
        if "kv_heads" in fields:
            fields["kv_heads"] = of.kv_heads or of.heads
        if "hit" in fields:
            fields["hit"] = of.hit or of.most_hit
        names = {LETTERS.get(field, field): ops.BYTES[number or of.dtype]
                 if field.endswith("dtype") else number for field, number in fields.items()}
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    tokens = re.findall(rf"{known}|\d+|[()+/²-]", text)
    assert "".join(tokens) == text.replace(" ", ""), (text, tokens)
    python = ""
    for before, token in zip(["+", *tokens], tokens, strict=False):
        if token not in ")+-/²" and before not in "(+-/":
            python += "*"
        python += {"²": "**2"}.get(token, str(names.get(token, token)))
    return eval(python)


class Walk:
    """Counts FLOPs as they happen and remembers which elements were touched."""

    def __init__(self):
        self.flops, self.read, self.written = 0, set(), set()

    def count(self, dtype, size):
        """size: bytes of an element, by tensor name"""
        return Count({dtype: self.flops}, sum(size[name] for name, *_ in self.read),
                     sum(size[name] for name, *_ in self.written))


@given(small, small, small)
def test_matmul_walk(M, K, N):
    walk = Walk()
    for m in range(M):
        for n in range(N):
            for k in range(K):
                walk.read |= {("A", m, k), ("B", k, n)}
                walk.flops += 2
            walk.written.add(("C", m, n))
    assert ops.Matmul(M, K, N, "bf16").algorithmic == walk.count("bf16", dict(A=2, B=2, C=2))


@given(small)
def test_dot_and_add_walk(n):
    dot, add = Walk(), Walk()
    for i in range(n):
        dot.read |= {("x", i), ("y", i)}
        dot.flops += 2
        add.read |= {("a", i), ("b", i)}
        add.flops += 1
        add.written.add(("c", i))
    assert ops.Dot(n, "fp32").algorithmic == dot.count("fp32", dict(x=4, y=4))
    assert ops.Add(n, "fp64").algorithmic == add.count("fp64", dict(a=8, b=8, c=8))


@given(st.lists(st.lists(st.integers(0, 5), max_size=5, unique=True), min_size=6, max_size=6))
def test_spmv_walk(columns_of_row):
    nonzeros = sum(map(len, columns_of_row))
    if nonzeros == 0:
        return
    walk, stored = Walk(), 0
    for row, columns in enumerate(columns_of_row):
        walk.read |= {("starts", row), ("starts", row + 1)}
        for column in columns:
            walk.read |= {("values", stored), ("columns", stored), ("x", column)}
            walk.flops += 2
            stored += 1
        walk.written.add(("y", row))
    # the op counts all of x, used or not
    walk.read |= {("x", column) for column in range(6)}
    size = dict(starts=4, values=8, columns=4, x=8, y=8)
    assert ops.SpMV(6, nonzeros, "fp64", "int32").algorithmic == walk.count("fp64", size)


@given(small, small)
def test_layernorm_walk(rows, D):
    walk = Walk()
    for row in range(rows):
        for d in range(D):
            walk.read |= {("x", row, d), ("scale", d), ("shift", d)}
            walk.written.add(("y", row, d))
            walk.flops += 1    # add into the sum
            walk.flops += 1    # subtract the mean
            walk.flops += 2    # square, add into the sum of squares
            walk.flops += 1    # times 1 / deviation
            walk.flops += 2    # times scale, plus shift
    size = dict(x=4, scale=4, shift=4, y=4)
    assert ops.LayerNorm(rows, D, "fp32").algorithmic == walk.count("fp32", size)


def walk_loads(M, K, N, keep):
    """Loads of A and B by the plain i-j-k loops, when `keep` says what is still in cache."""
    loads = {"A": 0, "B": 0}
    cached = set()
    for m in range(M):
        cached = {element for element in cached if keep(element, m)}
        for n in range(N):
            for k in range(K):
                for element in (("A", m, k), ("B", k, n)):
                    if element not in cached:
                        loads[element[0]] += 1
                        if element[0] == "A":
                            cached.add(element)
    return loads


@given(small, small, small)
def test_untiled_matmul_walk(M, K, N):
    # a row of A stays while it is used; nothing of B survives until its next use
    loads = walk_loads(M, K, N, keep=lambda element, m: element[1] == m)
    count = ops.Matmul(M, K, N, "fp32").reloaded(r_A=1, r_B=M)
    assert count.hbm_read_bytes == 4 * (loads["A"] + loads["B"])
    assert count.hbm_write_bytes == 4 * M * N


@given(small, small, small, st.integers(1, 4))
def test_blocked_matmul_walk(m, k, n, b):
    # three blocks in cache: C's stays for all of k, A's and B's are loaded for each step
    loads = 0
    for _ in range(m):
        for _ in range(n):
            for _ in range(k):
                loads += 2 * b * b
    count = ops.Matmul(m * b, k * b, n * b, "fp32").reloaded(r_A=n, r_B=m)
    assert count.hbm_read_bytes == 4 * loads
    assert count.work == {"fp32": 2 * m * k * n * b**3}


@given(small, small, small, small, small)
def test_moving_more_never_helps(M, K, N, r_A, r_B):
    mm = ops.Matmul(M, K, N)
    assert mm.reloaded(r_A, r_B).hbm_bytes >= mm.algorithmic.hbm_bytes
    assert mm.reloaded(r_A, r_B).flops == mm.algorithmic.flops
    assert mm.reloaded(1, 1) == mm.algorithmic


@pytest.mark.parametrize(("make", "says"), [
    (lambda: ops.Matmul(0, 1, 1), "Matmul: M: expected a whole number >= 1, got 0"),
    (lambda: ops.Matmul(1, 2.5, 1), "Matmul: K: expected a whole number >= 1, got 2.5"),
    (lambda: ops.Dot(4, "float32"), "Dot: dtype: expected one of"),
    (lambda: ops.SpMV(4, 4, "fp32", "i32"), "SpMV: index_dtype: expected one of"),
    (lambda: ops.Matmul(1, 1, 1).reloaded(0, 1), "r_A: expected a whole number >= 1, got 0"),
])
def test_bad_shapes(make, says):
    with pytest.raises(ops.ShapeError) as error:
        make()
    assert says in str(error.value)


# --- the simple ops of transformers ---------------------------------------------------------------

dtypes = st.sampled_from(DTYPES)


@given(small, small, small, dtypes, st.none() | dtypes, st.none() | dtypes,
       st.sampled_from(["none", "tensor", "channel"]))
def test_linear_walk(B, D, F, p, p_w, p_y, scales):
    walk = Walk()
    for b in range(B):
        for f in range(F):
            for d in range(D):
                walk.read |= {("x", b, d), ("W", d, f)}
                walk.flops += 2
            if scales != "none":
                walk.read.add(("scale", f if scales == "channel" else 0))
            walk.written.add(("y", b, f))
    size = dict(x=ops.BYTES[p], W=ops.BYTES[p_w or p], y=ops.BYTES[p_y or p], scale=4)
    op = ops.Linear(B, D, F, p, p_w, p_y, scales)
    assert op.algorithmic == walk.count(p, size)
    assert value(op.formulas["W"], op) == op.flops
    assert value(op.formulas["Q"], op) == op.algorithmic.hbm_bytes


@given(small, small, dtypes)
def test_rmsnorm_and_softmax_walk(rows, D, p):
    norm, soft = Walk(), Walk()
    for row in range(rows):
        for d in range(D):
            norm.read |= {("x", row, d), ("scale", d)}
            norm.written.add(("y", row, d))
            norm.flops += 2     # square, add into the sum
            norm.flops += 2     # times 1 / rms, times scale
            soft.read.add(("x", row, d))
            soft.written.add(("y", row, d))
            soft.flops += 2     # compare for the largest, subtract it
            soft.flops += 3     # exp, add into the sum, times 1 / sum
    size = dict.fromkeys(("x", "scale", "y"), ops.BYTES[p])
    assert ops.RMSNorm(rows, D, p).algorithmic == norm.count(p, size)
    assert ops.Softmax(rows, D, p).algorithmic == soft.count(p, size)


@given(small, st.integers(1, 4), st.integers(0, 9), dtypes, st.none() | dtypes)
def test_elementwise_walk(n, inputs, flops, p, p_y):
    walk = Walk()
    for i in range(n):
        walk.read |= {(f"x{x}", i) for x in range(inputs)}
        walk.written.add(("y", i))
        walk.flops += flops
    size = {**{f"x{x}": ops.BYTES[p] for x in range(inputs)}, "y": ops.BYTES[p_y or p]}
    op = ops.Elementwise(n, inputs, flops, p, p_y)
    assert op.algorithmic == walk.count(p, size)
    assert value(op.formulas["Q"], op) == op.algorithmic.hbm_bytes
    if inputs == 2 and flops == 1 and p_y is None:
        assert op.algorithmic == ops.Add(n, p).algorithmic


@given(st.integers(1, 12), st.lists(st.integers(1, 3), min_size=1, max_size=4), dtypes)
def test_stencil_walk(n, shared, p):
    """On a ring; `shared` says how many neighbours share each weight."""
    walk, points = Walk(), sum(shared)
    for i in range(n):
        at = 0
        for weight, neighbours in enumerate(shared):
            for _ in range(neighbours):
                walk.read.add(("old", (i + at - points // 2) % n))
                at += 1
            walk.flops += neighbours - 1            # add those that share a weight
            walk.flops += 1                         # times the weight
            walk.flops += 1 if weight else 0        # add to the others
        walk.written.add(("new", i))
    op = ops.Stencil(n, points, len(shared), p)
    assert op.algorithmic == walk.count(p, dict(old=ops.BYTES[p], new=ops.BYTES[p]))


def test_stencil_of_the_2009_paper():
    # 7 points, the centre's weight and the neighbours': 8 FLOPs a point over 16 B read and written
    op = ops.Stencil(n=10**6, points=7, weights=2, dtype="fp64")
    assert (op.flops, op.algorithmic.intensity) == (8 * 10**6, 8 / 16)


def test_flops_of_an_element_are_said_once():
    per = ops.FLOPS_PER_ELEMENT
    assert ops.LayerNorm(1, 1).flops == per["layernorm"] == 7
    assert ops.RMSNorm(1, 1).flops == per["rmsnorm"] == 4
    assert ops.Softmax(1, 1).flops == per["softmax"] == 5
    assert (per["relu"], per["silu"], per["gelu"]) == (1, 4, 9)


OPS = [ops.Dot(12), ops.Add(12), ops.SpMV(6, 11), ops.LayerNorm(3, 5), ops.Matmul(2, 3, 4),
       ops.RMSNorm(3, 5), ops.Softmax(3, 5), ops.Elementwise(6, 3, 2), ops.Stencil(9, 7, 2),
       ops.Elementwise(6, 1, 0, "bf16", "fp8"), ops.Linear(2, 3, 4),
       ops.Linear(2, 3, 4, "bf16", "int8", "fp32", "channel"),
       ops.Linear(2, 3, 4, w_dtype="fp8", scales="tensor")]


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_tensors_add_up_to_the_count(op):
    assert sum(t.read_bytes for t in op.tensors) == op.algorithmic.hbm_read_bytes
    assert sum(t.write_bytes for t in op.tensors) == op.algorithmic.hbm_write_bytes
    assert set(op.formulas) - {"I"} == {"W", "Q"}
    assert op.work == ({op.dtype: op.flops} if op.flops else {op.dtype: 0})


@pytest.mark.parametrize("op", OPS, ids=repr)
def test_formulas_as_text_say_what_the_code_computes(op):
    assert value(op.formulas["W"], op) == op.flops
    assert value(op.formulas["Q"], op) == op.algorithmic.hbm_bytes


def test_table_of_tensors():
    assert repr(ops.Linear(1, 4096, 4096).tensors) == """\
tensor    elements  dtype  read  written       bytes
x            4,096  bf16     1x       0x       8,192
W       16,777,216  bf16     1x       0x  33,554,432
y            4,096  bf16     0x       1x       8,192
total                                     33,570,816"""


# --- the worked numbers of Days 2 and 5 -----------------------------------------------------------

def test_one_projection_decode_and_prefill():
    one = ops.Linear(B=1, D=4096, F=4096).algorithmic
    assert one.flops == 2 * 4096**2 == 33_554_432
    assert one.hbm_bytes == 2 * (4096 + 4096**2 + 4096) == 2 * 16_785_408 == 33_570_816
    assert one.intensity == pytest.approx(1, rel=1e-3)
    many = ops.Linear(B=2048, D=4096, F=4096).algorithmic
    assert many.flops == 2 * 2048 * 4096**2 == 68_719_476_736
    assert many.hbm_bytes == 2 * 4 * 2048 * 4096 == 67_108_864   # BD = BF = DF / 2
    assert many.intensity == 1024
    assert one == ops.Matmul(M=1, K=4096, N=4096).algorithmic


@pytest.mark.parametrize(("D", "ridge", "exact", "least"), [
    (4096, 210, 860_160 / 3676, 234),       # 210 D / (D - 2 x 210)
    (2048, 210, 430_080 / 1628, 265),
    (4096, 209.7152, 209.7152 * 4096 / (4096 - 2 * 209.7152), 234),   # 78.6432e12 / 0.375e12
    (4096, 209.6, 209.6 * 4096 / (4096 - 2 * 209.6), 234),            # 78.6e12 / 0.375e12
    (4096, 209.0, 209.0 * 4096 / (4096 - 2 * 209.0), 233),
])
def test_crossover_of_a_square_projection(D, ridge, exact, least):
    op = ops.Linear(B=1, D=D, F=D)
    found = ops.crossover(op, "B", ridge)
    assert op.crossover(ridge) == pytest.approx(exact) == pytest.approx(found.exact)
    assert found.least == least


def test_int8_weights():
    wide, narrow = ops.Linear(1, 4096, 4096), ops.Linear(1, 4096, 4096, w_dtype="int8")
    W, W8 = wide.tensors[1], narrow.tensors[1]
    assert W.read_bytes == 2 * W8.read_bytes == 2 * 4096**2
    assert narrow.work == wide.work      # the arithmetic stays bf16
    assert narrow.algorithmic.intensity / wide.algorithmic.intensity == pytest.approx(2, rel=1e-3)
    scaled = ops.Linear(1, 4096, 4096, w_dtype="int8", scales="channel").algorithmic.hbm_bytes
    assert scaled - narrow.algorithmic.hbm_bytes == 4 * 4096


def test_mlp_of_day_5():
    B, D, F = 2048, 1024, 4096
    fused = ops.MLP(B, D, F)
    assert fused.flops == 4 * B * D * F == 34_359_738_368
    assert fused.algorithmic.hbm_bytes == 2 * (2 * B * D + 2 * D * F) == 25_165_824
    assert fused.unfused.algorithmic.hbm_bytes == 2 * (4_194_304 + 8_388_608 + 33_554_432)
    assert fused.unfused.algorithmic.hbm_bytes == 92_274_688
    assert round(fused.algorithmic.intensity) == 1365
    assert round(fused.unfused.algorithmic.intensity) == 372
    gelu = ops.Elementwise(B * F, flops_per_element=ops.FLOPS_PER_ELEMENT["gelu"])
    assert gelu.algorithmic.hbm_bytes == 2 * 2 * B * F == 33_554_432


def test_attention_of_day_5():
    head = ops.Attention(L=4096, d=128)
    assert head.flops == 4 * 4096**2 * 128 == 8_589_934_592
    assert head.fused.algorithmic.hbm_bytes == 4 * 2**20 == 4_194_304
    assert head.unfused.algorithmic.hbm_bytes == (4 + 4 * 32) * 2**20 == 138_412_032
    assert (head.fused.algorithmic.intensity, round(head.unfused.algorithmic.intensity)) == (
        2048, 62)


def test_square_matmul_of_day_5():
    assert round(ops.Matmul(1024, 1024, 1024).algorithmic.intensity) == 341
