"""LNC=2: two instances of a kernel, what they share, where they meet, and when they race."""

import _thread
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki
from roofline.count import Count

F32 = np.float32
BOTH = pytest.mark.parametrize("data", [True, False], ids=["data", "shapes"])
X = np.arange(8 * 16, dtype=F32).reshape(8, 16)


def refused(kernel, *args, **kwargs):
    """The text of a refusal on two cores, or as the keywords say; no thread is left."""
    before = threading.active_count()
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.run(kernel, *args, **{"lnc": 2, **kwargs})
    assert threading.active_count() == before
    return str(caught.value)


def move(dst, src):
    """dst = src through SBUF."""
    tile = nl.ndarray((8, src.size // 8), src.dtype)
    nisa.dma_copy(tile, src)
    nisa.dma_copy(dst, tile)


def like(x, name=""):
    return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=name)


# --- counts ------------------------------------------------------------------------------------


@nki.jit
def matmul(a, b, split):
    """a [K, M].T @ b [K, N]; on two cores each takes half of M if it is split."""
    (K, M), N = a.shape, b.shape[1]
    out = nl.ndarray((M, N), F32, buffer=nl.shared_hbm)
    mine = M // nl.num_programs() if split else M
    first = nl.program_id(0) * mine if split else 0
    for n in range(N // 512):
        acc, done = nl.ndarray((mine, 512), F32, buffer=nl.psum), nl.ndarray((mine, 512), F32)
        for k in range(K // 128):
            left, right = nl.ndarray((128, mine), a.dtype), nl.ndarray((128, 512), b.dtype)
            nisa.dma_copy(left, a[k * 128:k * 128 + 128, first:first + mine])
            nisa.dma_copy(right, b[k * 128:k * 128 + 128, n * 512:n * 512 + 512])
            nisa.nc_matmul(acc, left, right)
        nisa.tensor_copy(done, acc)
        nisa.dma_copy(out[first:first + mine, n * 512:n * 512 + 512], done)
    return out


M, K, N = 64, 256, 1024
A, B = (np.random.default_rng(1).standard_normal(s).astype(ml_dtypes.bfloat16)
        for s in ((K, M), (K, N)))


@BOTH
def test_counts_are_kept_for_each_core_and_summed(data):
    run = nki.run(matmul[2], A, B, True, data=data)
    reads = 2 * (N // 512 * K * M // 2 + K * N)  # half of a for each 512 columns, all of b
    each = Count({"bf16": M * N * K}, reads, 2 * M * N)
    assert [core.count for core in run.cores] == [each, each]
    assert run.lnc == 2 and run.count == each + each
    assert [len(core) for core in run.cores] == [2 * (2 * 3 + 2)] * 2
    assert {record.core for record in run.trace} == {0, 1}
    assert run.warnings == ()
    assert run.counters["hardware_flops"] == 2 * M * N * K
    assert run.counters["hbm_read_bytes"] == 2 * reads
    assert run.counters["matmul_instruction_count"] == 8
    assert f"core 1: {each!r}" in repr(run) and "LNC=2" in repr(run)
    if data:
        alone = nki.run(matmul, A, B, True).outputs[0]
        assert np.abs(run.outputs[0] - alone).max() < 1e-3  # NumPy sums in another order


@BOTH
def test_a_kernel_that_is_not_split_does_everything_twice(data):
    one = nki.run(matmul, A, B, False, data=data)
    two = nki.run(matmul, A, B, False, lnc=2, data=data)
    assert two.count == 2 * one.count
    assert len(two.trace) == 2 * len(one.trace)
    assert two.counters == {name: 2 * value if isinstance(value, int) else value
                            for name, value in one.counters.items()}
    assert [(t.name, t.read, t.written) for t in two.tensors] == [
        (t.name, 2 * t.read, 2 * t.written) for t in one.tensors]
    assert [line.instructions for line in two.lines] == [
        2 * line.instructions for line in one.lines]
    assert two.sbuf_peak_bytes == one.sbuf_peak_bytes  # each core has its own
    assert two.psum_peak_banks == one.psum_peak_banks
    assert two.warnings == ("both cores write the same bytes of out without a barrier between; "
                            "is the work split over nl.program_id(0)?",)
    assert not data or two.outputs[0].tobytes() == one.outputs[0].tobytes()


@pytest.mark.parametrize("launch", [matmul, matmul[1], matmul[2][1], matmul.function])
def test_one_core(launch):
    run = nki.run(launch, A, B, True, data=False)
    assert run.lnc == 1 and run.count.work == {"bf16": 2 * M * N * K}


@pytest.mark.parametrize(("launch", "options"), [
    (matmul[2], {}), (matmul, {"lnc": 2}), (matmul[2], {"lnc": 2}), (matmul.function, {"lnc": 2}),
    (matmul[np.int64(2)], {"target": "trn3"})])
def test_two_cores(launch, options):
    assert nki.run(launch, A, B, True, data=False, **options).lnc == 2


@pytest.mark.parametrize("number", [0, 3, 8, -1, "2", 2.0, True, None, (2,), (2, 2), slice(2)])
def test_brackets_hold_one_or_two(number):
    with pytest.raises(nki.NkiValidationError,
                       match=r"matmul\[\.\.\.\]: got .*; expected one number"):
        matmul[number]


@pytest.mark.parametrize(("launch", "options", "said"), [
    (matmul[2], {"lnc": 1}, "matmul: lnc: got 1, and matmul[2]; one of them, or the same twice"),
    (matmul[1], {"lnc": 2}, "matmul: lnc: got 2, and matmul[1]"),
    (matmul, {"lnc": 3}, "matmul: lnc: got 3; 1 or 2 physical cores"),
    (matmul, {"lnc": "2"}, "matmul: lnc: got '2'"),
    (matmul, {"lnc": True}, "matmul: lnc: got True"),
    (matmul[2], {"target": "trn1"}, "matmul: LNC=2: got NeuronCore-v2 (trn1); it exists from"),
    (matmul, {"lnc": 2, "target": "inf2"}, 'Say lnc=1, or target="trn2"'),
])
def test_launches_that_contradict_themselves(launch, options, said):
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.run(launch, A, B, True, **options)
    assert said in str(caught.value)


def test_ids():
    seen = []

    def kernel(x):
        seen.append((nl.program_id(0), nl.program_id(), nl.num_programs(), nl.program_ndim()))
        return x

    nki.run(kernel, X)
    nki.run(kernel, X, lnc=2)
    assert seen == [(0, 0, 1, 0), (0, 0, 2, 1), (1, 1, 2, 1)]


# --- memories ----------------------------------------------------------------------------------


def test_shared_tensors_are_one_and_private_ones_two():
    def kernel(x):
        i = nl.program_id(0)
        out = nl.ndarray((2, 8, 16), F32, buffer=nl.shared_hbm)
        own = nl.ndarray((8, 16), F32, buffer=nl.private_hbm)
        move(own, x[i])
        move(out[i], own)
        return out

    x = np.stack([X, -X])
    run = nki.run(kernel, x, lnc=2)
    np.testing.assert_array_equal(run.outputs[0], x)
    assert sorted((t.name, t.written) for t in run.tensors) == [
        ("out", 1024), ("own", 512), ("own", 512), ("x", 0)]
    assert run.warnings == ()


@pytest.mark.parametrize(("buffer", "name"), [
    (nl.sbuf, "sbuf"), (nl.psum, "psum"), (nl.private_hbm, "private_hbm")])
def test_a_tile_of_the_other_core_is_out_of_reach(buffer, name):
    kept = []

    def kernel(x):
        if nl.program_id(0) == 0:
            tile = nl.ndarray((8, 16), F32, buffer=buffer)
            kept.append(tile)
        done = nl.ndarray((8, 16), F32)
        if name == "private_hbm":
            nisa.dma_copy(done, kept[0])
        else:
            nisa.tensor_copy(done, kept[0])
        out = like(x)
        nisa.dma_copy(out, done)
        return out

    said = refused(kernel, X)
    assert f"kernel: tile: got a tensor in {name} of core 0, used by core 1; each core has" in said
    assert "Exchange with nisa.sendrecv" in said and "nisa." in said.splitlines()[-1]


def test_each_core_has_its_own_lists_and_objects():
    class Log(nl.NKIObject):
        pass

    def kernel(x, rows, log, table):
        log.note = len(rows)
        rows.append(x)
        table["n"] = len(rows)
        seen.append((len(rows), log.note, table["n"], rows[0] is not None))
        return x

    seen, rows, log, table = [], [X], Log(), {"n": 0}
    nki.run(kernel, X, rows, log, table, lnc=2)
    assert seen == [(2, 1, 2, True)] * 2
    assert len(rows) == 1 and not hasattr(log, "note") and table == {"n": 0}


@pytest.mark.parametrize(("shapes", "said"), [
    (([(8, 16)], [(8, 16), (4, 4)]), "got 1 tensors on core 0 and 2 tensors on core 1"),
    (([(8, 16), (4, 4)], [(8, 16)]), "got 2 tensors on core 0 and 1 tensors on core 1"),
    (([(8, 16)], [(16, 8)]), "on core 1; the other core allocated "),
    (([(8, 16), (4, 4)], [(4, 4), (8, 16)]), "on core 1; the other core allocated "),
])
def test_both_cores_allocate_the_same_shared_tensors(shapes, said):
    def kernel(x):
        for shape in shapes[nl.program_id(0)]:
            nl.ndarray(shape, F32, buffer=nl.shared_hbm)
        return x

    message = refused(kernel, X)
    assert said in message
    assert "Both instances allocate the same shared tensors in the same order" in message


def test_both_cores_return_the_same_tensors():
    def kernel(x, y):
        return (x, y) if nl.program_id(0) else (y, x)

    assert "kernel: results: got different ones on the two cores" in refused(kernel, X, X)


def test_the_halves_of_a_result_may_come_from_the_two_cores():
    def kernel(x, rows):
        out, i = like(x, "out"), nl.program_id(0)
        tile = nl.ndarray((4, 16), F32)
        nisa.dma_copy(tile[:rows], x[4 * i:4 * i + rows])
        nisa.dma_copy(out[4 * i:4 * i + rows], tile[:rows])
        return out

    np.testing.assert_array_equal(nki.run(kernel, X, 4, lnc=2).outputs[0], X)
    assert ("result out [8, 16]: got 96 of 128 elements written; the first missing is out[3, 0]"
            in refused(kernel, X, 3))


# --- core_barrier ------------------------------------------------------------------------------


def swap(x, barriers, named=0):
    """Each core writes its half of a scratch tensor and reads the other's."""
    i = nl.program_id(0)
    scratch, out = like(x, "scratch"), like(x, "out")
    half = [slice(0, 4), slice(4, 8)]
    move(scratch[half[i]], x[half[i]])
    for _ in range(barriers):
        nisa.core_barrier(data=(scratch, out)[named], cores=(0, 1))
    move(out[half[i]], scratch[half[1 - i]])
    return out


@pytest.mark.parametrize("barriers", [1, 2])
@BOTH
def test_a_barrier_lets_a_core_read_what_the_other_wrote(barriers, data):
    run = nki.run(swap, X, barriers, lnc=2, data=data)
    assert run.warnings == ()
    assert not data or (run.outputs[0] == np.concatenate([X[4:], X[:4]])).all()
    waits = [r for r in run.trace if r.opcode == "core_barrier"]
    assert len(waits) == 2 * barriers and {r.engine for r in waits} == {"gpsimd"}
    assert run.count == Count({}, 2 * X.nbytes, 2 * X.nbytes)


@BOTH
def test_a_read_of_what_the_other_wrote_needs_a_barrier(data):
    said = refused(swap, X, 0, data=data)
    assert ("swap: core 0 reads scratch: got 256 B that core 1 writes in the same phase; the cores "
            "run independently until a barrier. Put nisa.core_barrier(data=scratch, cores=(0, 1)) "
            "between") in said
    assert " of move: nisa.dma_copy(tile, src)" in said.splitlines()[-1]


def test_a_barrier_on_another_tensor_is_no_barrier_for_this_one():
    run = nki.run(swap, X, 1, 1, lnc=2)
    assert run.warnings == (
        "a core reads scratch that the other wrote before a core_barrier on another tensor; a "
        "barrier is for the data it names. Name scratch",)


def barrier(buffer=nl.shared_hbm, cores=(0, 1), **options):
    def kernel(x):
        nisa.core_barrier(nl.ndarray((8, 16), F32, buffer=buffer), cores, **options)
        return x
    return kernel


@pytest.mark.parametrize(("kernel", "options", "said"), [
    (barrier(), {"lnc": 1}, "core_barrier: got a kernel on one core; it needs the two cores of "
                            "LNC=2. Launch kernel[2], or ask nl.num_programs() first"),
    (barrier(), {"lnc": 1, "target": "trn1"}, "core_barrier: got NeuronCore-v2 (trn1); it exists"),
    (barrier(cores=(0,)), {}, "core_barrier: cores: got (0,); (0, 1) only"),
    (barrier(cores=(1, 0)), {}, "core_barrier: cores: got (1, 0); (0, 1) only"),
    (barrier(cores=(0, 1, 2)), {}, "cores: got (0, 1, 2)"),
    (barrier(cores=2), {}, "cores: got 2"),
    (barrier(cores="01"), {}, "cores: got '01'"),
    (barrier(nl.sbuf), {}, "core_barrier: data: got a tensor in sbuf; what both cores access: a "
                           "tensor in shared_hbm. Allocate it with buffer=nl.shared_hbm"),
    (barrier(nl.psum), {}, "got a tensor in psum"),
    (barrier(nl.private_hbm), {}, "got a tensor in private_hbm"),
    (barrier(engine=nisa.engine.dma), {}, "core_barrier: engine: got <engine.dma"),
    (barrier(engine="gpsimd"), {}, "core_barrier: engine: got 'gpsimd'"),
])
@BOTH
def test_barriers_that_cannot_be(kernel, options, said, data):
    message = refused(kernel, X, data=data, **options)
    assert said in message
    assert " of kernel: nisa.core_barrier(" in message.splitlines()[-1]


@pytest.mark.parametrize("engine", list(nisa.engine))
def test_a_barrier_runs_on_the_engine_that_is_asked_for(engine):
    if engine is nisa.engine.dma:
        return
    run = nki.run(barrier(cores=[0, 1], engine=engine), X, lnc=2)
    assert {r.engine for r in run.trace} == {engine.name}
    assert run.counters["vector_engine_instruction_count"] == (
        "unknown" if engine is nisa.engine.unknown else 2 * (engine is nisa.engine.vector))


def at_odds(x, plan):
    """plan[core]: what this core waits at, in order: b, c barriers on two tensors; 0, 1 pipes."""
    b, c = like(x, "b"), like(x, "c")
    sent, got = nl.ndarray((8, 16), F32), nl.ndarray((8, 16), F32)
    nisa.memset(sent, 1.0)
    for step in plan[nl.program_id(0)]:
        if step in "bc":
            nisa.core_barrier(b if step == "b" else c, (0, 1))
        else:
            other = 1 - nl.program_id(0)
            nisa.sendrecv(sent, got, other, other, int(step))
    return x


@pytest.mark.parametrize(("first", "second", "said"), [
    ("b", "", "core_barrier: got core 0 at barrier 0 on b; core 1 has ended and never comes here"),
    ("", "b", "core_barrier: got core 1 at barrier 0 on b; core 0 has ended and never comes here"),
    ("bb", "b", "core_barrier: got core 0 at barrier 1 on b; core 1 has ended"),
    ("0", "", "sendrecv: got core 0 at exchange 0 of pipe 0; core 1 has ended"),
    ("b0", "b", "sendrecv: got core 0 at exchange 0 of pipe 0; core 1 has ended"),
    ("b", "0", "sendrecv: got core 1 at exchange 0 of pipe 0; core 0 waits at barrier 0 on b and"),
    ("0b", "b0", "core_barrier: got core 1 at barrier 0 on b; core 0 waits at exchange 0 of pipe"),
    ("0", "1", "sendrecv: got core 1 at exchange 0 of pipe 1; core 0 waits at exchange 0 of pipe 0"
     " and never comes here. Both instances must issue it, in the same order"),
    ("bc", "cb", "core_barrier: data: got c [8, 16] float32 in shared_hbm; the other core's barrier"
                 " 0 names b [8, 16] float32 in shared_hbm. Both instances name the same tensors"),
])
@BOTH
def test_a_deadlock_is_named(first, second, said, data):
    message = refused(at_odds, X, (first, second), data=data)
    assert said in message
    assert ", line " in message.splitlines()[-1] and "core " in message.splitlines()[-1]


@pytest.mark.parametrize("plan", ["", "b", "bcb", "0", "0101", "b0c1b0"])
@BOTH
def test_the_same_plan_on_both_cores_comes_to_its_end(plan, data):
    run = nki.run(at_odds, X, (plan, plan), lnc=2, data=data)
    assert [r.opcode for r in run.cores[0]] == [r.opcode for r in run.cores[1]]
    assert run.count == Count()


# --- sendrecv ----------------------------------------------------------------------------------


def exchange(x, times, **options):
    """Each core sends its row of x and receives the other's, `times` times."""
    i, other = nl.program_id(0), 1 - nl.program_id(0)
    out = like(x)
    here, there = nl.ndarray(x.shape[1:], x.dtype), nl.ndarray(x.shape[1:], x.dtype)
    nisa.dma_copy(here, x[i])
    for _ in range(times):
        nisa.sendrecv(src=here, dst=there, send_to_rank=other, recv_from_rank=other, pipe_id=0,
                      **options)
        here, there = there, here
    nisa.dma_copy(out[i], here)
    return out


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("kind", [F32, ml_dtypes.bfloat16, np.int8, np.uint32])
@BOTH
def test_two_cores_exchange_tiles(times, kind, data):
    x = np.arange(2 * 4 * 6).reshape(2, 4, 6).astype(kind)
    run = nki.run(exchange, x, times, lnc=2, data=data)
    assert run.count == Count({}, x.nbytes, x.nbytes)  # SBUF to SBUF costs no HBM byte
    assert [r.opcode for r in run.cores[0]] == ["dma_copy", *["sendrecv"] * times, "dma_copy"]
    if data:
        np.testing.assert_array_equal(run.outputs[0], x[::-1] if times % 2 else x)


# bytes a partition: 1024 for types of 32 bits, 512 for 16, 256 for 8; so 256 elements of any
@pytest.mark.parametrize("kind", [F32, np.int32, ml_dtypes.bfloat16, np.uint16, np.int8,
                                  ml_dtypes.float8_e5m2], ids=lambda kind: np.dtype(kind).name)
def test_the_limits_of_gpsimd_dma(kind):
    fits, over = (((2, 4, n), kind) for n in (256, 257))
    options = {"lnc": 2, "data": False}
    assert nki.run(exchange, over, 1, **options).count.hbm_bytes

    def through(x):
        return exchange(x, 1, dma_engine=nisa.dma_engine.gpsimd_dma)

    run = nki.run(through, fits, **options)
    assert [r.engine for r in run.cores[0]] == ["dma", "gpsimd", "dma"]
    size = np.dtype(kind).itemsize
    assert (f"sendrecv: gpsimd_dma: got {257 * size:,} B a partition; at most {256 * size} B of a "
            f"{size}-byte type. Use dma_engine.dma") in refused(through, over, data=False)


def sends(src=(4, 8), dst=(4, 8), kinds=(F32, F32), buffers=(nl.sbuf, nl.sbuf), ranks=None, pipe=0,
          by_core=False, **options):
    def kernel(x):
        i = nl.program_id(0) if by_core else 0
        a = nl.ndarray(src[i] if by_core else src, kinds[0], buffer=buffers[0])
        b = nl.ndarray(dst[i] if by_core else dst, kinds[1], buffer=buffers[1])
        to, of = ranks or (1 - nl.program_id(0),) * 2
        nisa.sendrecv(a, b, to, of, pipe, **options)
        return x
    return kernel


@pytest.mark.parametrize(("kernel", "options", "said"), [
    (sends(), {"lnc": 1}, "sendrecv: got a kernel on one core; it needs the two cores of LNC=2"),
    (sends(), {"lnc": 1, "target": "trn1"}, "sendrecv: got NeuronCore-v2 (trn1)"),
    (sends(dst=(8, 4)), {}, "sendrecv: got src [4, 8] float32 in sbuf, dst [8, 4] float32 in sbuf; "
                            "the same dtype and shape"),
    (sends(kinds=(F32, np.int32)), {}, "dst [4, 8] int32 in sbuf; the same dtype and shape"),
    (sends(buffers=(nl.psum, nl.sbuf)), {}, "sendrecv: src: got [4, 8] float32 in psum; a tile"),
    (sends(buffers=(nl.sbuf, nl.hbm)), {}, "dst: got [4, 8] float32 in private_hbm; a tile in"),
    (sends(ranks=(0, 0)), {}, "sendrecv: send_to_rank: got 0 on core 0; the two cores exchange "
                              "with each other, so here it is 1. Write 1 - nl.program_id(0)"),
    (sends(ranks=(1, 0)), {}, "recv_from_rank: got 0 on core 0"),
    (sends(ranks=(2, 1)), {}, "send_to_rank: got 2 on core 0"),
    (sends(ranks=(1, "1")), {}, "recv_from_rank: got '1' on core 0"),
    (sends(pipe="a"), {}, "sendrecv: pipe_id: got str; a whole number"),
    (sends(dma_engine=nisa.engine.dma), {}, "sendrecv: dma_engine: got <engine.dma"),
    (sends(((4, 8), (8, 4)), ((4, 8), (8, 4)), by_core=True), {},
     "sendrecv: src: got [8, 4] float32 in sbuf; the other core sends [4, 8] float32 in sbuf"),
])
@BOTH
def test_exchanges_that_cannot_be(kernel, options, said, data):
    assert said in refused(kernel, X, data=data, **options)


# --- races -------------------------------------------------------------------------------------


def touch(x, plan):
    """plan[core]: steps r and w, each on some rows of a shared tensor."""
    shared = like(x, "shared")
    tile = nl.ndarray((8, 16), F32)
    nisa.memset(tile, 0.0)
    for step, rows in plan[nl.program_id(0)]:
        if step == "b":
            nisa.core_barrier(shared, (0, 1))
            continue
        of = slice(*rows)
        part = tile[:len(range(*of.indices(8)))]
        if step == "w":
            nisa.dma_copy(shared[of], part)
        else:
            nisa.dma_copy(part, shared[of])
    return x


ALL, TOP, LOW, EVEN, ODD = (0, 8), (0, 4), (4, 8), (0, 8, 2), (1, 8, 2)
WAIT = ("b", ())


@pytest.mark.parametrize(("first", "second", "rows"), [
    ([("w", TOP)], [("r", ALL)], 4),  # the later core reads what the earlier wrote
    ([("r", ALL)], [("w", LOW)], 4),  # and the other way round
    ([("w", TOP), ("r", LOW)], [("w", LOW)], 4),
    ([("w", EVEN), ("r", (0, 5))], [("w", ODD), ("r", ODD)], 2),  # rows 1 and 3
    ([("r", TOP), ("w", TOP)], [("w", (3, 5))], 1),  # read before its own write
    ([("w", ALL), WAIT, ("r", TOP)], [WAIT, ("w", (0, 1)), ("w", (1, 2))], 2),
    ([WAIT, WAIT, ("r", TOP)], [WAIT, WAIT, ("w", (3, 4))], 1),
])
@BOTH
def test_reads_that_race(first, second, rows, data):
    message = refused(touch, X, (first, second), data=data)
    assert f"reads shared: got {rows * 16 * 4} B that core " in message
    assert message.splitlines()[-1].endswith("of touch: nisa.dma_copy(part, shared[of])")


@pytest.mark.parametrize(("first", "second"), [
    ([("w", TOP), ("r", TOP)], [("w", LOW), ("r", LOW)]),
    ([("w", EVEN), ("r", EVEN)], [("w", ODD), ("r", ODD)]),
    ([("w", TOP), WAIT, ("r", ALL)], [("w", LOW), WAIT, ("r", ALL)]),
    ([("r", ALL), WAIT, ("w", TOP)], [WAIT, ("w", LOW)]),
    ([("r", ALL)], [("r", ALL)]),
    ([("w", ALL), ("r", ALL)], []),
    ([("w", ALL), WAIT, WAIT], [WAIT, ("r", ALL), WAIT]),
])
@BOTH
def test_accesses_that_do_not_race(first, second, data):
    run = nki.run(touch, X, (first, second), lnc=2, data=data)
    assert not any("both cores write" in w or "barrier" in w for w in run.warnings)


@pytest.mark.parametrize(("first", "second", "warned"), [
    ([("w", ALL)], [("w", ALL)], True),
    ([("w", (0, 5))], [("w", LOW)], True),
    ([("w", ALL), ("r", ALL)], [("w", ALL), ("r", ALL)], True),  # unsplit, and consistent
    ([("w", TOP)], [("w", LOW)], False),
    ([("w", ALL), WAIT], [WAIT, ("w", ALL)], False),
])
def test_bytes_that_both_write_are_a_warning(first, second, warned):
    run = nki.run(touch, X, (first, second), lnc=2)
    said = "both cores write the same bytes of shared without a barrier between"
    assert any(w.startswith(said) for w in run.warnings) == warned


def test_an_argument_that_one_core_writes_is_shared_too():
    def kernel(x):
        tile = nl.ndarray((8, 16), F32)
        nisa.memset(tile, 0.0)
        if nl.program_id(0):
            nisa.dma_copy(x, tile)
        else:
            nisa.dma_copy(tile, x)
        return x

    assert "core 0 reads x: got 512 B that core 1 writes" in refused(kernel, X)


def test_a_store_at_a_run_time_index_is_left_out():
    def kernel(x):
        shared, row = like(x), nl.ndarray((1, 16), F32)
        nisa.memset(row, 0.0)
        i = nl.program_id(0)
        nisa.dma_copy(shared.select(0, nisa.register_alloc(i)), row)
        nisa.dma_copy(row, shared[i])
        return x

    assert nki.run(kernel, X, lnc=2).lnc == 2


# --- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("waits", [0, 1])
def test_an_error_on_one_core_ends_both(core, waits):
    def kernel(x):
        for _ in range(waits):
            nisa.core_barrier(x, (0, 1))
        if nl.program_id(0) == core:
            nl.ndarray((129, 1), F32)
        nisa.core_barrier(x, (0, 1))
        return x

    message = refused(kernel, X)
    assert "shape [129, 1] in sbuf" in message
    assert message.splitlines()[-1].startswith(f"  core {core}, test_nki_lnc.py, line ")


def test_an_interrupt_ends_a_core_that_is_busy():
    """The thread that waits for the cores gets Ctrl-C; the core that computes must stop too."""
    def kernel(x):
        if nl.program_id(0) == 1:
            _thread.interrupt_main()
            while True:
                steps.append(1)
        nisa.core_barrier(x, (0, 1))
        return x

    steps, before = [], threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        nki.run(kernel, X, lnc=2)
    done = len(steps)
    time.sleep(0.05)
    assert len(steps) == done and threading.active_count() == before


def test_two_runs_are_the_same_run():
    def kernel(x, y):
        return swap(y, 1), exchange(x, 3)

    x = np.random.default_rng(2).standard_normal((2, 4, 6)).astype(F32)
    one, two = (nki.run(kernel, x, X, lnc=2) for _ in range(2))
    assert [o.tobytes() for o in one.outputs] == [o.tobytes() for o in two.outputs]
    assert list(map(repr, one.trace)) == list(map(repr, two.trace))
    assert repr(one) == repr(two)
    shapes = nki.run(kernel, x, X, lnc=2, data=False)
    assert list(map(repr, shapes.trace)) == list(map(repr, one.trace))
