"""Laws of the counting backend, for shapes, tilings, dtypes and loop orders drawn at random.

The kernel below is a tiled matmul in any loop order. Its counts have a closed form, its output a
bound on how far rounding may take it from NumPy's.
"""

import itertools
import math
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki
from roofline.count import Count

some = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
ORDERS = ["".join(order) for order in itertools.permutations("mnk")]


def matmul(a, b, order, sizes, kind):
    """a [K, M].T @ b [K, N] in tiles of sizes = (tm, tn, tk), loops in `order`, outer to inner.

    One tile of a and one of b are resident: one is loaded when its index changes. With k inside,
    a product is summed in PSUM; else it is added to a tile in SBUF. On two cores each takes half
    of the rows of the result.
    """
    (K, M), N = a.shape, b.shape[1]
    out = nl.ndarray((M, N), kind, buffer=nl.shared_hbm)
    rows = -(-M // nl.num_programs())
    first = rows * nl.program_id(0)
    rows = min(rows, M - first)
    extent = {"m": rows, "n": N, "k": K}
    size = {"m": sizes[0], "n": sizes[1], "k": sizes[2]}
    sums, here, left, right, acc = {}, {}, None, None, None

    def part(letter, at):
        return slice(at, min(at + size[letter], extent[letter]))

    for x in range(0, extent[order[0]], size[order[0]]):
        for y in range(0, extent[order[1]], size[order[1]]):
            for z in range(0, extent[order[2]], size[order[2]]):
                now = {order[0]: x, order[1]: y, order[2]: z}
                m, n, k = (part(letter, now[letter]) for letter in "mnk")
                wide, high, deep = m.stop - m.start, n.stop - n.start, k.stop - k.start
                if left is None or (now["m"], now["k"]) != (here["m"], here["k"]):
                    left = nl.ndarray((deep, wide), a.dtype)
                    nisa.dma_copy(left, a[k, first + m.start:first + m.stop])
                if right is None or (now["n"], now["k"]) != (here["n"], here["k"]):
                    right = nl.ndarray((deep, high), b.dtype)
                    nisa.dma_copy(right, b[k, n])
                here = now
                tile = (now["m"], now["n"])
                if order[2] != "k" or now["k"] == 0:
                    acc = nl.ndarray((wide, high), nl.float32, buffer=nl.psum)
                nisa.nc_matmul(acc, left, right)
                if order[2] != "k":
                    if tile in sums:
                        nisa.tensor_tensor(sums[tile], sums[tile], acc, nl.add)
                    else:
                        sums[tile] = nl.ndarray((wide, high), nl.float32)
                        nisa.tensor_copy(sums[tile], acc)
                if k.stop == K:
                    done = nl.ndarray((wide, high), kind)
                    nisa.tensor_copy(done, acc if order[2] == "k" else sums[tile])
                    nisa.dma_copy(out[first + m.start:first + m.stop, n], done)
    return out


class Case(NamedTuple):
    """A matmul and how it is tiled."""

    M: int
    N: int
    K: int
    tm: int
    tn: int
    tk: int
    order: str
    kind: str
    out: str
    lnc: int

    @property
    def args(self):
        return self.order, (self.tm, self.tn, self.tk), self.out

    def arrays(self, seed):
        rng = np.random.default_rng(seed)
        kind = KINDS[self.kind].numpy
        return [rng.uniform(-1, 1, shape).astype(kind) for shape in (
            (self.K, self.M), (self.K, self.N))]


class Kind(NamedTuple):
    """A dtype: NumPy's, bytes, the name its FLOPs have, and the largest relative rounding."""

    numpy: object
    size: int
    work: str
    rounding: float


KINDS = {"float32": Kind(np.float32, 4, "fp32", 0.0),  # fp32 sums are stored as they are
         "bfloat16": Kind(ml_dtypes.bfloat16, 2, "bf16", 2.0**-8),
         "float16": Kind(np.float16, 2, "fp16", 2.0**-11),
         "float8_e5m2": Kind(ml_dtypes.float8_e5m2, 1, "fp8", 2.0**-3)}

cases = st.builds(
    Case, st.integers(1, 90), st.integers(1, 300), st.integers(1, 150), st.integers(8, 128),
    st.integers(24, 512), st.integers(12, 128), st.sampled_from(ORDERS),
    st.sampled_from(sorted(KINDS)), st.sampled_from(["float32", "bfloat16", "float16"]),
    st.sampled_from([1, 2]))


def passes(order, trips, used):
    """How often an operand crosses HBM: once for each turn of the loops that it does not depend on
    and that lie outside the innermost of its own loops that turns more than once."""
    own = [i for i, letter in enumerate(order) if letter in used and trips[letter] > 1]
    outside = order[:max(own)] if own else ""
    return math.prod(trips[letter] for letter in outside if letter not in used)


def closed_form(case):
    """One Count a core."""
    p, q = KINDS[case.kind].size, KINDS[case.out].size
    for core in range(case.lnc):
        whole = -(-case.M // case.lnc)
        rows = min(whole, case.M - core * whole)
        trips = {"m": -(-rows // case.tm), "n": -(-case.N // case.tn), "k": -(-case.K // case.tk)}
        r_A = passes(case.order, trips, "mk")
        r_B = passes(case.order, trips, "nk")
        yield Count({KINDS[case.kind].work: 2 * rows * case.N * case.K},
                    p * (r_A * rows * case.K + r_B * case.K * case.N), q * rows * case.N)


@pytest.mark.parametrize(("order", "trips", "r_A", "r_B"), [
    # m, n, k tiles; the table of any text on reuse
    ("mnk", (2, 4, 8), 4, 2), ("mkn", (2, 4, 8), 1, 2), ("nkm", (2, 4, 8), 4, 1),
    ("kmn", (2, 4, 8), 1, 2), ("mnk", (2, 4, 1), 1, 2), ("mnk", (1, 1, 1), 1, 1)])
def test_passes(order, trips, r_A, r_B):
    of = dict(zip("mnk", trips, strict=True))
    assert (passes(order, of, "mk"), passes(order, of, "nk")) == (r_A, r_B)


@some
@given(cases)
def test_counts_of_a_tiled_matmul_have_a_closed_form(case):
    assume(case.M >= case.lnc)
    a, b = (((case.K, n), case.kind) for n in (case.M, case.N))
    run = nki.run(matmul, a, b, *case.args, lnc=case.lnc, data=False)
    assert [core.count for core in run.cores] == list(closed_form(case))
    assert run.count == sum(closed_form(case), Count())
    # never less than the algorithm: each operand once
    p, q = KINDS[case.kind].size, KINDS[case.out].size
    assert run.count.hbm_bytes >= p * case.K * (case.M + case.N) + q * case.M * case.N
    assert run.count.flops == 2 * case.M * case.N * case.K


@some
@given(cases, st.integers(0, 2**32 - 1))
def test_outputs_are_numpys_within_rounding(case, seed):
    """fp32 sums of K products, u = 2^-24: off by at most K u of the sum of their sizes, whatever
    the order; one more u for the product of two fp32. Then the result is rounded to its dtype."""
    assume(case.M >= case.lnc)
    a, b = case.arrays(seed)
    run = nki.run(matmul, a, b, *case.args, lnc=case.lnc)
    exact = a.astype(np.float64).T @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)).T @ np.abs(b.astype(np.float64))
    bound = 1.01 * (case.K + 1) * 2.0**-24 * sizes
    bound += KINDS[case.out].rounding * (np.abs(exact) + bound) + 2.0**-24  # fp16's smallest step
    (out,) = run.outputs
    assert out.dtype == KINDS[case.out].numpy
    assert (np.abs(out.astype(np.float64) - exact) <= bound).all()


def told(run):
    """Everything that a run says, apart from its outputs and its name."""
    return (run.count, list(map(repr, run.trace)), repr(run.tensors), repr(run.lines),
            run.counters, run.warnings, run.sbuf_peak_bytes, run.psum_peak_banks,
            [core.count for core in run.cores])


@some
@given(cases, st.integers(0, 2**32 - 1))
def test_runs_are_equal_with_and_without_data(case, seed):
    assume(case.M >= case.lnc)
    a, b = case.arrays(seed)
    kept = a.tobytes(), b.tobytes()
    one, two, shapes = (nki.run(matmul, a, b, *case.args, lnc=case.lnc, data=data)
                        for data in (True, True, False))
    assert told(one) == told(two) == told(shapes)
    assert one.outputs[0].tobytes() == two.outputs[0].tobytes()
    assert shapes.outputs == ()
    assert (a.tobytes(), b.tobytes()) == kept


@some
@given(cases)
def test_a_count_is_the_sum_of_its_parts(case):
    assume(case.M >= case.lnc)
    a, b = (((case.K, n), case.kind) for n in (case.M, case.N))
    run = nki.run(matmul, a, b, *case.args, lnc=case.lnc, data=False)
    assert nki.total(run.trace) == run.count
    assert sum((record.count for record in run.trace), Count()) == run.count
    for rows in (run.tensors, run.lines):
        assert sum(row.read for row in rows) == run.count.hbm_read_bytes
        assert sum(row.written for row in rows) == run.count.hbm_write_bytes
    assert sum(line.instructions for line in run.lines) == len(run.trace)
    assert sum(line.flops for line in run.lines) == run.count.flops
    at = len(run.trace) // 2
    assert nki.total(run.trace[:at]) + nki.total(run.trace[at:]) == run.count


@some
@given(cases, cases)
def test_counts_of_two_kernels_in_one_add(first, second):
    def both(a, b, c, d):
        return matmul(a, b, *first.args), matmul(c, d, *second.args)

    def specs(case):
        return [((case.K, n), case.kind) for n in (case.M, case.N)]

    run = nki.run(both, *specs(first), *specs(second), data=False)
    assert run.count == sum((nki.run(matmul, *specs(case), *case.args, data=False).count
                             for case in (first, second)), Count())


# --- what is judged at the end of a run, against flags for each element ------------------------

SHAPE = (6, 10)
slices = st.tuples(*(st.builds(lambda a, n, step, size=size: slice(a, min(a + n, size), step),
                               st.integers(0, size - 1), st.integers(1, size), st.integers(1, 3))
                     for size in SHAPE))


def touched(views):
    flags = np.zeros(SHAPE, bool)
    for view in views:
        flags[view] = True
    return flags


@some
@given(st.lists(slices, max_size=8), slices, st.sampled_from(["float32", "bfloat16", "int8"]))
def test_a_result_is_written_if_every_element_is(stores, result, kind):
    def kernel(x):
        out = nl.ndarray(SHAPE, kind, buffer=nl.shared_hbm)
        for store in stores:
            nisa.dma_copy(out[store], x[store])
        return out[result]

    missing = np.argwhere(~touched(stores)[result])
    call = (kernel, (SHAPE, kind))
    if len(missing):
        size = touched([])[result].size
        with pytest.raises(nki.NkiValidationError) as caught:
            nki.run(*call, data=False)
        got = (f"{size - len(missing)} of {size} elements written; the first missing is "
               f"out{missing[0].tolist()}" if len(missing) < size else "none of it written")
        assert f"got {got}; a result is written in full" in str(caught.value)
    else:
        nki.run(*call, data=False)


steps = st.lists(st.tuples(st.sampled_from("rw"), slices) | st.just(("b", None)), max_size=6)


def verdict(plans):
    """By walking: does a core read what the other writes between two barriers (and it has not
    written itself before); do both write the same element?"""
    phases = [[[]], [[]]]
    for core, plan in enumerate(plans):
        for step, view in plan:
            if step == "b":
                phases[core].append([])
            else:
                phases[core][-1].append((step, touched([view])))
    reads = writes = False
    for mine, theirs in [*zip(*phases, strict=True), *zip(*phases[::-1], strict=True)]:
        foreign = sum((flags for step, flags in theirs if step == "w"), touched([]))
        own = touched([])
        for step, flags in mine:
            if step == "w":
                own = own | flags
            else:
                reads = reads or bool((flags & foreign & ~own).any())
        writes = writes or bool((own & foreign).any())
    return reads, writes


@settings(some, max_examples=150)
@given(steps, steps, st.sampled_from(["float32", "int8"]))
def test_races_are_found_as_by_walking(first, second, kind):
    barriers = [sum(step == "b" for step, _ in plan) for plan in (first, second)]
    for plan, missing in ((first, barriers[1] - barriers[0]), (second, barriers[0] - barriers[1])):
        plan += [("b", None)] * max(missing, 0)

    def kernel(x):
        shared = nl.ndarray(SHAPE, kind, buffer=nl.shared_hbm, name="shared")
        for step, view in (first, second)[nl.program_id(0)]:
            if step == "b":
                nisa.core_barrier(shared, (0, 1))
            elif step == "w":
                nisa.dma_copy(shared[view], x[view])
            else:
                part = shared[view]
                nisa.dma_copy(nl.ndarray(part.shape, kind, buffer=nl.private_hbm), part)
        return x

    reads, writes = verdict((first, second))
    if reads:
        with pytest.raises(nki.NkiValidationError, match="writes in the same phase"):
            nki.run(kernel, (SHAPE, kind), lnc=2, data=False)
    else:
        run = nki.run(kernel, (SHAPE, kind), lnc=2, data=False)
        assert any("both cores write" in w for w in run.warnings) == writes
