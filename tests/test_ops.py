"""Each op's formulas against an oracle that walks the loops and notes every element used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import ops
from roofline.count import Count

small = st.integers(1, 6)


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


@pytest.mark.parametrize("op", [ops.Dot(12), ops.Add(12), ops.SpMV(6, 11), ops.LayerNorm(3, 5),
                                ops.Matmul(2, 3, 4)])
def test_tensors_add_up_to_the_count(op):
    assert sum(t.read_bytes for t in op.tensors) == op.algorithmic.hbm_read_bytes
    assert sum(t.write_bytes for t in op.tensors) == op.algorithmic.hbm_write_bytes
    assert set(op.formulas) == {"W", "Q"}


@pytest.mark.parametrize("op", [ops.Dot(12), ops.Add(12), ops.SpMV(6, 11), ops.LayerNorm(3, 5),
                                ops.Matmul(2, 3, 4)])
def test_formulas_as_text_say_what_the_code_computes(op):
    """Evaluate the text: juxtaposed letters multiply, p is the element size."""
    import re
    names = {**vars(op), "nnz": getattr(op, "nonzeros", 0), "p": ops.BYTES[op.dtype],
             "p_index": ops.BYTES[getattr(op, "index_dtype", "int32")]}
    for symbol, value in (("W", op.flops), ("Q", op.algorithmic.hbm_bytes)):
        text = op.formulas[symbol]
        tokens = re.findall(r"p_index|rows|nnz|[A-Za-z]|\d+|[()+]", text)
        assert "".join(tokens) == text.replace(" ", "")
        python = ""
        for before, token in zip(["+", *tokens], tokens, strict=False):
            if token not in ")+" and before not in "(+":
                python += "*"
            python += str(names.get(token, token))
        assert eval(python) == value, (text, python)
