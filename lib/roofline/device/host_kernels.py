"""Real kernels to place under the roofs of a CPU, each with two byte counts.

Question  how many bytes must a kernel move (counted), and how many does its code move?
Answer    Case: the op's own Count, the Count of the code, the call, and a slow right answer
Assumes   fp32; vectors larger than every cache; a store to a line not yet in cache reads the
          line first (write-allocate)
Ignores   TLB misses, page faults, what hardware prefetches in vain
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..count import Count

try:
    import numba
except ImportError:  # numba is optional: kernels that need loops are left out then
    numba = None  # type: ignore[assignment]

Array = Any  # an ndarray of float32; int32 for column numbers, uint32 for row starts
compiled: Callable[[Callable], Callable] = (
    numba.njit(fastmath=True, nogil=True) if numba else lambda f: f)


# ---- the kernels -------------------------------------------------------------------------

def dot(x: Array, y: Array) -> Array:
    return np.dot(x, y)


def add(a: Array, b: Array, out: Array) -> Array:
    return np.add(a, b, out=out)


def triad_two_passes(a: Array, b: Array, s: Any, out: Array) -> Array:
    np.multiply(b, s, out=out)  # out goes to DRAM ...
    return np.add(a, out, out=out)  # ... and comes back


@compiled
def triad_fused(a: Array, b: Array, s: Any, out: Array) -> Array:
    for i in range(a.size):
        out[i] = a[i] + s * b[i]  # s * b[i] never leaves its register
    return out


@compiled
def spmv(values: Array, columns: Array, starts: Array, x: Array, out: Array) -> Array:
    for row in range(out.size):
        total = np.float32(0)
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        out[row] = total
    return out


def spmv_numpy(values: Array, columns: Array, starts: Array, x: Array, work: Array) -> Array:
    np.take(x, columns, out=work, mode="clip")  # work: one number per nonzero
    np.multiply(values, work, out=work)
    return np.add.reduceat(work, starts[:-1])


def layernorm_naive(x: Array, scale: Array, shift: Array) -> Array:
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(var + np.float32(1e-5)) * scale + shift


def layernorm_blocks(x: Array, scale: Array, shift: Array, out: Array, block: int) -> Array:
    for i in range(0, len(x), block):  # `block` rows stay in cache for all five passes
        y = np.subtract(x[i:i + block], x[i:i + block].mean(axis=1, keepdims=True),
                        out=out[i:i + block])
        var = np.einsum("ij,ij->i", y, y)[:, None] / np.float32(y.shape[1])
        np.divide(y, np.sqrt(var + np.float32(1e-5)), out=y)
        np.multiply(y, scale, out=y)
        np.add(y, shift, out=y)
    return out


@compiled
def layernorm_fused(x: Array, scale: Array, shift: Array, out: Array) -> Array:
    D = np.float32(x.shape[1])
    for r in range(x.shape[0]):
        total = squares = np.float32(0)
        for j in range(x.shape[1]):
            total += x[r, j]
        mean = total / D
        for j in range(x.shape[1]):
            squares += (x[r, j] - mean) ** 2
        inverse = np.float32(1) / np.sqrt(squares / D + np.float32(1e-5))
        for j in range(x.shape[1]):  # the row is still in cache
            out[r, j] = (x[r, j] - mean) * inverse * scale[j] + shift[j]
    return out


@compiled
def matmul_loops(A: Array, B: Array, C: Array) -> Array:
    for m in range(A.shape[0]):
        for n in range(B.shape[1]):
            total = np.float32(0)
            for k in range(A.shape[1]):
                total += A[m, k] * B[k, n]  # B is walked down a column: a new line each step
            C[m, n] = total
    return C


def matmul_tiles(A: Array, B: Array, C: Array, b: int) -> Array:
    C[:] = 0
    for m in range(0, C.shape[0], b):
        for n in range(0, C.shape[1], b):
            for k in range(0, A.shape[1], b):
                C[m:m + b, n:n + b] += A[m:m + b, k:k + b] @ B[k:k + b, n:n + b]
    return C


def matmul_blas(A: Array, B: Array, C: Array) -> Array:
    return np.matmul(A, B, out=C)


# ---- what each one is asked to do --------------------------------------------------------

@dataclass(frozen=True)
class Sizes:
    """Shapes of one set: vector length, SpMV rows and nonzeros per row, layernorm, matmul."""

    n: int = 2**25
    rows: int = 2**20
    per_row: int = 16
    ln_rows: int = 2**14
    ln_D: int = 1024
    matmul: int = 512
    tiles: tuple[int, ...] = (16, 32, 64, 128)


SMALL = Sizes(n=1000, rows=50, per_row=4, ln_rows=12, ln_D=32, matmul=32, tiles=(8, 16))


@dataclass(frozen=True)
class Case:
    """One kernel with its data.

    op      the op it computes; op.algorithmic is the count of what must move
    moved   what this code moves between DRAM and the caches, write-allocate included
    run     does the work once and returns the result
    want    the same result from NumPy in float64
    why     one line: what the bytes between `op` and `moved` are
    """

    name: str
    op: ops.Op
    moved: Count
    run: Callable[[], Any]
    want: Callable[[], Any]
    why: str

    def check(self) -> None:
        """Raise AssertionError naming the kernel when it computes something else."""
        np.testing.assert_allclose(self.run(), self.want(), rtol=2e-4, atol=2e-4,
                                   err_msg=f"kernel {self.name!r} differs from NumPy")


def _moved(op: ops.Op, reads: int, writes: int) -> Count:
    return Count({op.dtype: op.flops}, reads, writes)


def aligned(n: int, dtype: str = "float32") -> Array:
    """n ones on a 64-byte boundary, so that no vector load straddles two cache lines."""
    size = np.dtype(dtype).itemsize
    raw = np.ones(n + 64 // size, dtype)
    skip = -raw.ctypes.data % 64 // size
    return raw[skip:skip + n]


def cases(sizes: Sizes = Sizes(), seed: int = 0) -> dict[str, Case]:
    """The kernel set on data of these sizes; loops in Python are left out without numba."""
    rng = np.random.default_rng(seed)
    made = [*_vectors(sizes, rng), *_sparse(sizes, rng), *_norms(sizes, rng),
            *_products(sizes, rng)]
    return {case.name: case for case in made}


def _random(rng: np.random.Generator, *shape: int) -> Array:
    flat = aligned(int(np.prod(shape)))
    rng.random(dtype=np.float32, out=flat)
    return flat.reshape(shape)


def _vectors(s: Sizes, rng: np.random.Generator) -> list[Case]:
    a, b, out = _random(rng, s.n), _random(rng, s.n), aligned(s.n)
    N, half = 4 * s.n, np.float32(0.5)
    two = ops.Dot(s.n)
    one, triad = ops.Add(s.n), Triad(s.n)
    made = [
        Case("dot", two, _moved(two, 2 * N, 0), lambda: dot(a, b),
             lambda: np.dot(a.astype(float), b), "both vectors once; nothing is written"),
        Case("add", one, _moved(one, 3 * N, N), lambda: add(a, b, out),
             lambda: a.astype(float) + b, "c's lines are read before they are written"),
        Case("triad, two passes", triad, _moved(triad, 4 * N, 2 * N),
             lambda: triad_two_passes(a, b, half, out), lambda: a + 0.5 * b.astype(float),
             "s*b is written, read back and written again"),
    ]
    if numba:
        made.append(Case("triad, fused", triad, _moved(triad, 3 * N, N),
                         lambda: triad_fused(a, b, half, out), lambda: a + 0.5 * b.astype(float),
                         "one pass; c's lines are read before they are written"))
    return made


@dataclass(frozen=True)
class Triad(ops.Op):
    """c = a + s b of vectors of n elements, s one number."""

    n: int
    dtype: str = "fp32"

    flops = property(lambda self: 2 * self.n)
    formulas = property(lambda self: {"W": "2n", "Q": "p (n + n + n)"})
    tensors = property(lambda self: ops.Add(self.n, self.dtype).tensors)


def _sparse(s: Sizes, rng: np.random.Generator) -> list[Case]:
    nonzeros = s.rows * s.per_row
    op = ops.SpMV(s.rows, nonzeros)
    values, x, out = _random(rng, nonzeros), _random(rng, s.rows), aligned(s.rows)
    work = aligned(nonzeros if numba is None else 1)
    # unsigned: numba then knows that no position is negative, 4 times faster
    starts = np.arange(0, nonzeros + 1, s.per_row, dtype=np.uint32)
    near = np.arange(s.rows, dtype=np.int32)[:, None] + np.arange(s.per_row, dtype=np.int32)
    patterns = {"near the diagonal": (near % s.rows).ravel().astype(np.int32),
                "random columns": rng.integers(0, s.rows, nonzeros, dtype=np.int32)}
    once = op.algorithmic

    def case(where: str, columns: Array) -> Case:
        def want() -> Array:
            return (values.astype(float) * x[columns]).reshape(s.rows, -1).sum(axis=1)

        if numba:
            return Case(f"SpMV, {where}", op,
                        _moved(op, once.hbm_read_bytes + 4 * s.rows, once.hbm_write_bytes),
                        lambda: spmv(values, columns, starts, x, out), want,
                        "y's lines are read before they are written; x stays in cache")
        return Case(f"SpMV, {where}", op,  # take 4 + 4 + 4, multiply 4 + 4 + 4, add 4
                    _moved(op, 20 * nonzeros + 12 * s.rows, 8 * nonzeros + 4 * s.rows),
                    lambda: spmv_numpy(values, columns, starts, x, work), want,
                    "three passes over a vector of nnz numbers")

    return [case(where, columns) for where, columns in patterns.items()]


def _norms(s: Sizes, rng: np.random.Generator) -> list[Case]:
    op = ops.LayerNorm(s.ln_rows, s.ln_D)
    x, out = _random(rng, s.ln_rows, s.ln_D), aligned(s.ln_rows * s.ln_D).reshape(-1, s.ln_D)
    scale, shift = _random(rng, s.ln_D), _random(rng, s.ln_D)
    N, block = 4 * x.size, max(2**16 // s.ln_D, 1)

    def want() -> Array:
        y = x.astype(float)
        y = y - y.mean(axis=1, keepdims=True)
        return y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5) * scale + shift

    made = [
        Case("layernorm, naive", op, _moved(op, 11 * N, 6 * N),
             lambda: layernorm_naive(x, scale, shift), want,
             "11 reads and 6 writes of x's size in eight passes, and fresh pages"),
        Case("layernorm, row blocks", op, _moved(op, 2 * N, N),
             lambda: layernorm_blocks(x, scale, shift, out, block), want,
             "a block of rows stays in cache; y's lines are read before they are written"),
    ]
    if numba:
        made.append(Case("layernorm, fused", op, _moved(op, 2 * N, N),
                         lambda: layernorm_fused(x, scale, shift, out), want,
                         "one row stays in cache; y's lines are read before they are written"))
    return made


def _products(s: Sizes, rng: np.random.Generator) -> list[Case]:
    op = ops.Matmul(s.matmul, s.matmul, s.matmul, "fp32")
    A, B = _random(rng, s.matmul, s.matmul), _random(rng, s.matmul, s.matmul)
    C = aligned(s.matmul * s.matmul).reshape(s.matmul, s.matmul)

    def case(name: str, run: Callable[[], Any], why: str) -> Case:
        return Case(name, op, op.algorithmic, run, lambda: A.astype(float) @ B, why)

    made = [case(f"matmul, tiles of {b}", lambda b=b: matmul_tiles(A, B, C, b),  # type: ignore[misc]
                 f"all three fit in cache; A and B come from there {s.matmul // b} times")
            for b in s.tiles]
    made.append(case("matmul, BLAS", lambda: matmul_blas(A, B, C),
                     "all three fit in cache; tiles for registers and every cache"))
    if numba:
        made.insert(0, case("matmul, three loops", lambda: matmul_loops(A, B, C),
                            f"all three fit in cache; A and B come from there {s.matmul} times"))
    return made
