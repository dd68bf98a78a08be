"""Day 5's own numbers, as arithmetic a reader can redo, and beside the kernels that move them.

Nothing here comes from `problems`. What a question says of a kernel is compared with a run of that
kernel: the file of the day, or the one in the page's own cell.
"""

import json
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16
from pages import ROOT, cell_source, cell_text

from roofline import ask, loopnest, machine, nki, ops
from roofline.check import WrongAnswer
from roofline.nki import isa as nisa
from roofline.nki import language as nl

MIB = 2**20
P, BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8  # one Trn2 core

# C = AB, M 1280, K 512, N 2048, tiles of 128 x 128 and 128 x 512, nothing kept
W, A, B, C = 2 * 1280 * 512 * 2048, 2 * 1280 * 512, 2 * 512 * 2048, 2 * 1280 * 2048
Q = 4 * A + 10 * B + C

# the curriculum's MLP: B 2048, D 1024, F 4096
FUSED = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
THREE = FUSED + 2 * 4 * 2048 * 4096
# page 2's: B 1536, D 512, F 3072, in one kernel
NARROW = 2 * (2 * 1536 * 512 + 2 * 512 * 3072)

# y = x w: 1024 tokens, 128 -> 512
X_, W_, Y_ = 2 * 1024 * 128, 2 * 128 * 512, 2 * 1024 * 512
# C stays in blocks of 512 x 1024: M 1536, K 768, N 2048
BLOCK = 2 * (2 * 1536 * 768 + 3 * 768 * 2048 + 1536 * 2048)
# loads of A 24 times, of B 72, stores of C 18
READ, STORED = 2 * 128 * (24 * 128 + 72 * 512), 2 * 18 * 128 * 512
LINES_W = 72 * 2 * 128 * 128 * 512

# page 1: C = AB in two nests, M 1280, K 1024, N 1536
TILINGS_W = 2 * 1280 * 1024 * 1536
ROWS_OF_A = 2 * (1280 * 1024 + 10 * 1024 * 1536 + 1280 * 1536)
COLUMNS_OF_B = 2 * (3 * 1280 * 1024 + 1024 * 1536 + 1280 * 1536)
# its Do: M 1536, K 1024, N 2048, a block of C of 256 x 1024, or all of B
DO_W = 2 * 1536 * 1024 * 2048
DO_BLOCK = 2 * (2 * 1536 * 1024 + 6 * 1024 * 2048 + 1536 * 2048)
DO_ONCE = 2 * (1536 * 1024 + 1024 * 2048 + 1536 * 2048)
MLP_W = 4 * 2048 * 1024 * 4096
# SwiGLU of Llama 3.1 8B, 2048 tokens: x, one wide intermediate, three matrices
SX, SWIDE, SWEIGHTS = 2 * 2048 * 4096, 2 * 2048 * 14336, 3 * 2 * 4096 * 14336
# five kernels of GPT-2's width, 1024 tokens
CX, CWIDE, CWEIGHTS = 2 * 1024 * 768, 2 * 1024 * 3072, 2 * 2 * 768 * 3072
CHAIN_W = 4 * 1024 * 768 * 3072
ATTENTION_W = 4 * 4096**2 * 128
SCALAR = 128 * 1.2e9  # elements a second of the Scalar Engine

NUMBERS = {
    "day5.open.bound": dict(I=400, ridge=P / BW, binds="compute", T_best=24e9 / P,
                            T_worst=24e9 / P + 60e6 / BW, rate=P),
    "day5.open.layer": dict(W=2 * 192 * 2048 * 8192, Q=2 * (192 * 2048 + 2048 * 8192 + 192 * 8192),
                            I=192 * 2048 * 8192 / (192 * 2048 + 2048 * 8192 + 192 * 8192),
                            side="memory"),
    "day5.open.sheet": dict(P="65.5 TFLOP/s", BW="400 GB/s", ridge=163.84, rate="49.2 TFLOP/s"),
    "day5.uses": dict(A=1536, B=640, adds=640 * 512 * 1536, none=2 * 2 * 640 * 512 * 1536,
                      once=2 * (640 * 512 + 512 * 1536), decides="shapes"),
    "day5.best": dict(Q=2 * 3 * 1024**2, I=1024 / 3, n_ridge=630),
    "day5.traffic": dict(W=2 * 2048 * 1024 * 3072, Q=76 * MIB,
                         I=2 * 2048 * 1024 * 3072 / (76 * MIB)),
    "day5.order": dict(r_A=2, r_B=1, C=5, stays="B"),
    "day5.tilings": dict(
        keeps_1=2 * 128 * 1024, r_A_1=1, r_B_1=1280 / 128, Q_1=ROWS_OF_A, I_1=TILINGS_W / ROWS_OF_A,
        keeps_2=2 * 512 * 1024, r_A_2=1536 / 512, r_B_2=1, Q_2=COLUMNS_OF_B,
        I_2=TILINGS_W / COLUMNS_OF_B, differs="Q"),
    "day5.spill": dict(trips=7, each=8 * MIB, Q=6 * MIB + 7 * 8 * MIB, I=2**31 / (62 * MIB),
                       I_best=1024 / 3),
    "day5.capacity": dict(B="128 MiB", N_trn1=24 * MIB / 8192, N_trn2=28 * MIB / 8192, r_A_trn1=6,
                          r_A_trn2=5, sets="sbuf"),
    "day5.mlp.unfused": dict(up=28 * MIB, gelu=32 * MIB, down=28 * MIB, k=4, Q=92_274_688, I=372.4),
    "day5.mlp.fused": dict(weights="16 MiB", fits="yes", W=34_359_738_368, Q=25_165_824, I=1365.3,
                           removed="67.1 MB"),
    "day5.mlp.time": dict(T_flop=437.1e-6, T_fused=67.1e-6, best_fused=437.1e-6,
                          worst_fused=504.2e-6, T_apart=246.1e-6, best_apart=437.1e-6,
                          worst_apart=683.2e-6, entitled="same"),
    "day5.gelu": dict(Q="33.55 MB", T_byte=89.5e-6, rate=SCALAR, T_scalar=54.6e-6, alone="hbm",
                      best_fused=437.1e-6, fused="tensor"),
    "day5.chain": dict(k_four=6, Q_four=3 * SX + SWEIGHTS + 6 * SWIDE, k_two=2,
                       Q_two=2 * SX + SWEIGHTS + 2 * SWIDE, Q_one=2 * SX + SWEIGHTS, left="s"),
    "day5.do.two_tilings": dict(block=4 * 256 * 1024, B=2 * 1024 * 2048, r_A_1=2, r_B_1=6, r_A_2=1,
                                r_B_2=1, stationary="C"),
    "day5.do.count_both": dict(W=DO_W, Q_1=DO_BLOCK, I_1=DO_W / DO_BLOCK, Q_2=DO_ONCE,
                               I_2=DO_W / DO_ONCE, more=DO_BLOCK / DO_ONCE),
    "day5.do.mlp": dict(W=34_359_738_368, Q_apart=92_274_688, I_apart=372.4, T_apart=246.1e-6,
                        Q_fused=25_165_824, I_fused=1365.3, T_fused=67.1e-6, removed="67.1 MB",
                        weights="16 MiB", Q_gelu="33.55 MB"),
    "day5.do.mlp_time": dict(T_flop=437.1e-6, best_apart=437.1e-6, worst_apart=683.2e-6,
                             best_fused=437.1e-6, worst_fused=504.2e-6, T_gelu=89.5e-6),
    "day5.do.chain": dict(k=8, W=CHAIN_W, Q_apart=7 * CX + CWEIGHTS + 4 * CWIDE,
                          I_apart=CHAIN_W / (7 * CX + CWEIGHTS + 4 * CWIDE),
                          Q_fused=2 * CX + CWEIGHTS, I_fused=CHAIN_W / (2 * CX + CWEIGHTS),
                          widest="hg"),
    "day5.check.attention": dict(W=8_589_934_592, Q_apart=138_412_032, I_apart=62.06,
                                 apart="memory", Q_fused=4_194_304, I_fused=2048, fused="compute"),
    "day5.count.reload": dict(runs=10 * 4 * 4, r_A=4, r_B=10, Q=30 * MIB, I=W / Q, line="b"),
    "day5.count.twice": dict(more=160 * 2 * 128 * 128, ratio=35 / 30, rest="same"),
    "day5.count.fused": dict(read=NARROW - 2 * 1536 * 512, Q_fused=NARROW, k=4,
                             Q_three=NARROW + 8 * 1536 * 3072),
    "day5.count.fits": dict(weights="192 KiB", blocks=2 * (1024 + 6144), where="trn2"),
    "day5.count.lnc": dict(Q_1=X_ + W_ + Y_, Q_2=X_ + 2 * W_ + Y_, each=X_ / 2 + W_ + Y_ / 2,
                           why="sbuf"),
    "day5.count.gap": dict(apart=128 * 128 * 2, cause="constant"),
    "day5.count.do.inside": dict(r_w=8, Q=X_ + 8 * W_ + Y_, I=2**27 / (X_ + 8 * W_ + Y_)),
    "day5.count.do.block": dict(r_A=2, r_B=3, banks=8, Q=BLOCK, I=2 * 1536 * 768 * 2048 / BLOCK),
    "day5.count.do.own": dict(Q="40 MB", I=300, side="compute", T_best=12e9 / P),
    "day5.count.check.lines": dict(read=READ, written=STORED, r_B=6, W=LINES_W,
                                   I=LINES_W / (READ + STORED)),
    "day5.count.check.cast": dict(load=4 * MIB, sbuf=2 * MIB, Q=6 * MIB, work="bf16"),
    "day5.count.check.knows": dict(flops="source", loads="source", room="source",
                                   spills="profile", packets="profile", engine="profile"),
}


def test_the_curriculums_mlp():
    assert 4 * 2048 * 1024 * 4096 == 34_359_738_368
    assert (FUSED, THREE) == (25_165_824, 92_274_688)
    assert round(34_359_738_368 / FUSED) == 1365 and round(34_359_738_368 / THREE) == 372


def test_the_curriculums_mlp_in_time():
    """437.1, 67.1, 504.2, 246.1 and 683.2 us, with P = 78.6 TFLOPS; and with the full 78.6432."""
    flop, fused, three = MLP_W / 78.6e12, FUSED / BW, THREE / BW
    assert [round(1e6 * t, 1) for t in (flop, fused, three)] == [437.1, 67.1, 246.1]
    assert round(437.1 + 67.1, 1) == 504.2 and round(437.1 + 246.1, 1) == 683.2
    # the sums before rounding; with P in full, W / P is 436.9 us
    assert [round(1e6 * t, 1) for t in (flop + fused, flop + three)] == [504.3, 683.2]
    assert round(1e6 * MLP_W / P, 1) == 436.9 and round(1e6 * (MLP_W / P + FUSED / BW), 1) == 504.0
    assert 2 * 1024 * 4096 * 2 == 16 * MIB < 28 * MIB
    assert THREE - FUSED == 67_108_864 == 4 * 2 * 2048 * 4096


def test_the_curriculums_gelu():
    assert 2 * 2 * 2048 * 4096 == 33_554_432 and round(1e6 * 33_554_432 / BW, 1) == 89.5
    assert 2048 * 4096 == 8_388_608 and SCALAR == 153.6e9
    assert round(1e6 * 8_388_608 / SCALAR, 1) == 54.6


def test_the_curriculums_attention():
    ends, wide = 4096 * 128 * 2, 4096 * 4096 * 2
    assert (ends, wide) == (MIB, 32 * MIB) and ATTENTION_W == 8_589_934_592
    assert 4 * ends + 4 * wide == 132 * MIB == 138_412_032 and 4 * ends == 4_194_304
    assert round(ATTENTION_W / 138_412_032) == 62 < 210 < ATTENTION_W / 4_194_304 == 2048


def test_the_curriculums_best_case():
    assert round(2 * 1024**3 / (2 * 3 * 1024**2)) == 341


def test_the_matmul_of_the_page():
    assert Q == 31_457_280 == 30 * MIB and W == 2_684_354_560
    assert round(W / Q, 1) == 85.3 and round(W / (A + B + C)) == 310  # left and right of 210


# --- the kernels move what the questions say ----------------------------------------------------

PAGE = json.loads((ROOT / "day5/count_from_code.ipynb").read_text())["cells"]
FILE = (ROOT / "day5/kernels.py").read_text()
SEEDS = range(6)


@pytest.fixture(scope="module")
def kernels():
    return nki.load(ROOT / "day5/kernels.py")


def in_cell(change=lambda source: source):
    """The kernel `linear` of the page's own cell."""
    (source,) = [cell_source(c) for c in PAGE if "def linear" in cell_source(c)]
    scope = {"nki": nki, "nisa": nisa, "nl": nl}
    exec(change(source), scope)
    return scope["linear"]


def shapes(*sizes):
    return [(size, "bf16") for size in sizes]


def counted(kernel, *sizes, **options):
    return nki.run(kernel, *shapes(*sizes), data=False, **options)


def said(q):
    return {part.name: getattr(part, "value", part.answer) for part in q.parts}


def reloads(run):
    return {row.name: row.reload for row in run.tensors}


@pytest.mark.parametrize("seed", SEEDS)
def test_reload(kernels, seed):
    q = ask("day5.count.reload", seed)
    M, K, N = (q.inputs[name] for name in "MKN")
    run, says = counted(kernels.matmul_reload, (K, M), (K, N)), said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert (reloads(run)["a"], reloads(run)["b"]) == (says["r_A"], says["r_B"])
    most = max(run.lines, key=lambda row: row.read + row.written)
    assert f"src={says['line']}[" in most.line.text and most.instructions == says["runs"]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_load_twice(kernels, seed, tmp_path):
    q = ask("day5.count.twice", seed)
    M, K, N = (q.inputs[name] for name in "MKN")
    (load,) = {line.strip() for line in FILE.splitlines() if "dma_copy(dst=a_tile" in line}
    (tmp_path / "twice.py").write_text(FILE.replace(load, f"{load}; {load}"))
    before, after = (counted(file.matmul_reload, (K, M), (K, N))
                     for file in (kernels, nki.load(tmp_path / "twice.py")))
    assert after.count.hbm_bytes - before.count.hbm_bytes == said(q)["more"]
    assert after.count.hbm_bytes / before.count.hbm_bytes == pytest.approx(said(q)["ratio"])
    assert after.count.work == before.count.work


@pytest.mark.parametrize("seed", SEEDS)
def test_one_kernel_and_three(kernels, seed):
    q = ask("day5.count.fused", seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    fused = counted(kernels.mlp_fused, (D, B), (D, F), (F, D)).count
    steps = [counted(kernels.mlp_up, (D, B), (D, F)), counted(kernels.mlp_gelu, (F, B)),
             counted(kernels.mlp_down, (F, B), (F, D))]
    says = said(q)
    assert (fused.hbm_read_bytes, fused.hbm_bytes) == (says["read"], says["Q_fused"])
    assert sum(step.count.hbm_bytes for step in steps) == says["Q_three"]
    wide = sum(row.read + row.written for step in steps for row in step.tensors
               if row.name in ("h", "g"))
    assert wide / (2 * B * F) == says["k"]


@pytest.mark.parametrize("seed", range(12))
def test_where_it_fits(kernels, seed):
    q = ask("day5.count.fits", seed)
    D, F = q.inputs["D"], q.inputs["F"]
    says = said(q)
    for target, fits in (("trn1", says["where"] == "both"), ("trn2", says["where"] != "none")):
        sizes = ((D, 256), (D, F), (F, D))
        if fits:
            run = counted(kernels.mlp_fused, *sizes, target=target)
            assert run.sbuf_peak_bytes == 128 * (says["weights"] + says["blocks"])
        else:
            with pytest.raises(nki.NkiValidationError, match=target):
                counted(kernels.mlp_fused, *sizes, target=target)


def test_the_places_it_fits_all_come_up():
    assert {said(ask("day5.count.fits", seed))["where"] for seed in range(40)} == {
        "both", "trn2", "none"}


@pytest.mark.parametrize("seed", SEEDS)
def test_two_cores(seed):
    q, linear = ask("day5.count.lnc", seed), in_cell()
    B, D, F = (q.inputs[name] for name in "BDF")
    one, two, says = counted(linear, (D, B), (D, F)), counted(linear[2], (D, B), (D, F)), said(q)
    assert (one.count.hbm_bytes, two.count.hbm_bytes) == (says["Q_1"], says["Q_2"])
    assert [core.count.hbm_bytes for core in two.cores] == [says["each"]] * 2
    assert two.count.work == one.count.work
    assert (reloads(two)["x"], reloads(two)["w"]) == (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_load_moved_inside(seed):
    load = "nisa.dma_copy(dst=weights, src=w)\n"
    inside = in_cell(lambda source: source.replace(f"    {load}", "").replace(
        "        nisa.dma_copy(dst=tokens", f"        {load}        nisa.dma_copy(dst=tokens"))
    q = ask("day5.count.do.inside", seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    run, says = counted(inside, (D, B), (D, F)), said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert reloads(run)["w"] == says["r_w"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_of_c(kernels, seed):
    q = ask("day5.count.do.block", seed)
    M, K, N, rows, columns = (q.inputs[name] for name in ("M", "K", "N", "rows", "columns"))
    run = counted(kernels.matmul_c_stays, (K, M), (K, N), rows=rows, columns=columns)
    says = said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert (reloads(run)["a"], reloads(run)["b"]) == (says["r_A"], says["r_B"])
    assert run.psum_peak_banks == says["banks"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_five_lines(kernels, seed):
    """The listing of the question is that of `matmul_a_stays`."""
    q = ask("day5.count.check.lines", seed)
    K, N = q.inputs["K"], q.inputs["N"]
    M = 128 * (q.inputs["a"] * 128 // K)
    run, says = counted(kernels.matmul_a_stays, (K, M), (K, N)), said(q)
    assert [row.instructions for row in run.lines] == [
        q.inputs[name] for name in ("a", "b", "mm", "c", "c")]
    count = run.count
    assert (count.hbm_read_bytes, count.hbm_write_bytes) == (says["read"], says["written"])
    assert (count.flops, count.intensity, reloads(run)["b"]) == (says["W"], says["I"], says["r_B"])


@nki.jit
def halve(x):
    """x in bf16: the load converts."""
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    half = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=half, src=x)
    nisa.dma_copy(dst=y, src=half)
    return y


def test_a_load_that_converts():
    q = ask("day5.count.check.cast", rows=128, columns=512)
    x = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    run, says = nki.run(halve, x), said(q)
    assert run.count.hbm_read_bytes == says["load"] and run.count.hbm_bytes == says["Q"]
    assert run.sbuf_peak_bytes == says["sbuf"]
    assert np.array_equal(run.outputs[0], x.astype(bfloat16))


def test_every_cause_of_a_gap_comes_up():
    causes = {said(ask("day5.count.gap", seed))["cause"] for seed in range(40)}
    assert causes == {"constant", "spill", "hoist"}


@pytest.mark.parametrize(("read", "written", "cause"), [
    (+32_768, 0, "constant"), (+10, +10, "spill"), (-4096, 0, "hoist")])
def test_the_cause_follows_from_the_differences(read, written, cause):
    q = ask("day5.count.gap", code_read=10**6, code_written=10**6, prof_read=10**6 + read,
            prof_written=10**6 + written)
    assert q.check(cause=cause, apart=abs(read)).outcomes


# --- page 1: what a question says, the nest says too, and the kernel where there is one ---------

def nest_of(q, text, **sizes):
    inputs = {**q.inputs, **sizes}
    return loopnest.Nest(ops.Matmul(*(inputs[name] for name in "MKN")), text)


def counts(count):
    return count.hbm_bytes, count.intensity


@pytest.mark.parametrize("seed", SEEDS)
def test_two_tilings_of_page_1(kernels, seed):
    q = ask("day5.tilings", seed)
    M, K, N, says = *(q.inputs[name] for name in "MKN"), said(q)
    first, second = nest_of(q, "m128 A n512 C k128 B"), nest_of(q, "n512 B m128 C k128 A")
    for at, nest, stays in ((1, first, "A"), (2, second, "B")):
        assert (nest.r_A, nest.r_B) == (says[f"r_A_{at}"], says[f"r_B_{at}"])
        assert counts(nest.achieved) == (says[f"Q_{at}"], says[f"I_{at}"])
        (row,) = [row for row in nest.resident if row.name == stays]
        assert row.bytes == says[f"keeps_{at}"]
    run = counted(kernels.matmul_a_stays, (K, M), (K, N))
    assert run.count == first.achieved and run.count.work == second.achieved.work


@pytest.mark.parametrize("seed", range(24))
def test_the_loop_order(seed):
    """Tiles of one element: the nest's loads stand as far out as they can."""
    q = ask("day5.order", seed)
    order, tiles, says = q.inputs["order"], {dim: q.inputs[dim] for dim in "mnk"}, said(q)
    assert loopnest.reloads(order, **tiles) == (says["r_A"], says["r_B"])
    text = "".join(f"{dim}1 " + "".join(
        f"{name} " for name, dims in dict(A="mk", B="kn", C="mn").items()
        if max(map(order.index, dims)) == at) for at, dim in enumerate(order))
    nest = nest_of(q, text, M=tiles["m"], K=tiles["k"], N=tiles["n"])
    assert nest.reloads == {"A": says["r_A"], "B": says["r_B"], "C": says["C"]}
    assert min(nest.reloads, key=nest.reloads.get) == says["stays"]


@pytest.mark.parametrize("seed", SEEDS)
def test_partial_sums_that_leave(seed):
    q = ask("day5.spill", seed)
    nest, says = nest_of(q, f"k{q.inputs['slice']} A B m128 n512 C"), said(q)
    assert counts(nest.achieved) == (says["Q"], says["I"])
    assert nest.reloads == {"A": 1, "B": 1, "C": says["trips"] + 1}
    assert nest.achieved.hbm_bytes - nest.op.algorithmic.hbm_bytes == says["trips"] * says["each"]
    assert nest.op.algorithmic.intensity == says["I_best"]


@pytest.mark.parametrize("seed", range(12))
def test_what_fits(seed):
    q, M = ask("day5.capacity", seed), 128
    K, N, says = q.inputs["K"], q.inputs["N"], said(q)
    for chip in ("trn1", "trn2"):
        room = machine.get(chip, "core").facts["sbuf_bytes"].value
        columns = int(says[f"N_{chip}"])
        held = [2 * K * columns, 2 * K * (columns + 512)]
        assert held[0] <= room and (held[1] > room or columns >= N)
        nest = nest_of(q, f"n{columns} B m128 A n512 C k128", M=M)
        assert nest.r_A == says[f"r_A_{chip}"] and nest.r_B == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_q_of_given_reloads(seed):
    q = ask("day5.traffic", seed)
    M, K, N, r_A, r_B = (q.inputs[name] for name in ("M", "K", "N", "r_A", "r_B"))
    nest = loopnest.Nest(ops.Matmul(M, K, N), f"m{-(-M // r_B)} n{-(-N // r_A)} A B C")
    assert (nest.r_A, nest.r_B) == (r_A, r_B)
    assert counts(nest.achieved) == (said(q)["Q"], said(q)["I"])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mlp_apart_and_in_one(kernels, seed):
    q, one = ask("day5.mlp.unfused", seed), ask("day5.mlp.fused", seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    apart = [counted(kernels.mlp_up, (D, B), (D, F)), counted(kernels.mlp_gelu, (F, B)),
             counted(kernels.mlp_down, (F, B), (F, D))]
    says = said(q)
    assert [run.count.hbm_bytes for run in apart] == [says["up"], says["gelu"], says["down"]]
    assert sum(run.count.hbm_bytes for run in apart) == says["Q"]
    B, D, F = (one.inputs[name] for name in "BDF")
    says, sizes = said(one), ((D, B), (D, F), (F, D))
    if says["fits"] == "yes":
        fused = counted(kernels.mlp_fused, *sizes)
        assert (fused.count.flops, *counts(fused.count)) == (says["W"], says["Q"], says["I"])
    else:
        with pytest.raises(nki.NkiValidationError, match="SBUF"):
            counted(kernels.mlp_fused, *sizes)
    nest = loopnest.Nest(ops.MLP(B, D, F), "W_up W_down b128 x y g")
    assert counts(nest.achieved) == (says["Q"], says["I"])
    assert sum(row.bytes for row in nest.resident if row.name[0] == "W") == says["weights"]


@pytest.mark.parametrize("seed", SEEDS)
def test_gelu_alone(kernels, seed):
    q = ask("day5.gelu", seed)
    B, D, F, says = *(q.inputs[name] for name in "BDF"), said(q)
    assert counted(kernels.mlp_gelu, (F, B)).count.hbm_bytes == says["Q"]
    assert 2 * B * F * 2 == says["Q"]
    times = machine.trn2.entitle(ops.MLP(B, D, F).algorithmic, {"scalar_element_rate": B * F})
    assert times.times["scalar_element_rate"] == pytest.approx(says["T_scalar"])
    assert times.t_best == pytest.approx(says["best_fused"])
    assert times.binds == {"tensor": "compute", "hbm": "HBM", "scalar": "scalar_element_rate"}[
        says["fused"]]


def test_each_roof_of_the_fused_mlp_comes_up():
    assert {said(ask("day5.gelu", seed))["fused"] for seed in range(60)} >= {"tensor", "scalar"}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_chain_by_its_steps(seed):
    """Each step counted as an op, and added."""
    q = ask("day5.chain", seed)
    B, D, F, says = *(q.inputs[name] for name in "BDF"), said(q)
    wide = ops.Linear(B, D, F).algorithmic.hbm_bytes
    down = ops.Linear(B, F, D).algorithmic.hbm_bytes
    product = 3 * 2 * B * F
    assert 2 * wide + product + down == says["Q_four"]
    gate_up = 2 * (B * D + 2 * D * F + B * F)  # one kernel: x and two matrices in, s out
    assert gate_up + down == says["Q_two"]
    assert 2 * (2 * B * D + 3 * D * F) == says["Q_one"]
    assert sum(ops.SwiGLU(B, D, F, k=6).chain.k.values()) == says["k_four"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_chain_of_five(seed):
    q = ask("day5.do.chain", seed)
    B, D, F, says = *(q.inputs[name] for name in "BDF"), said(q)
    steps = [ops.Elementwise(B * D).named(x="x", y="n"),
             ops.Linear(B, D, F).named(x="n", W="W_up", y="h"),
             ops.Elementwise(B * F).named(x="h", y="g"),
             ops.Linear(B, F, D).named(x="g", W="W_down", y="o"),
             ops.Elementwise(B * D, 2).named(x1="x", x2="o", y="y")]
    apart = ops.chain(steps)
    assert sum(apart.k.values()) == says["k"]
    assert apart.algorithmic.hbm_bytes == says["Q_apart"]
    assert apart.fused.algorithmic.hbm_bytes == says["Q_fused"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_two_nests_to_write(kernels, seed):
    q, both = ask("day5.do.two_tilings", seed), ask("day5.do.count_both", seed)
    for asked in (q, both):
        M, K, N, rows, columns = (asked.inputs[n] for n in ("M", "K", "N", "rows", "columns"))
        first = nest_of(asked, f"m{rows} n{columns} C k128 A B m128 n512")
        second = nest_of(asked, "B m128 A n512 C k128")
        one = counted(kernels.matmul_c_stays, (K, M), (K, N), rows=rows, columns=columns)
        two = counted(kernels.matmul_b_stays, (K, M), (K, N))
        assert (one.count, two.count) == (first.achieved, second.achieved)
        says = said(asked)
        if asked is q:
            assert (first.r_A, first.r_B, second.r_A, second.r_B) == tuple(
                says[name] for name in ("r_A_1", "r_B_1", "r_A_2", "r_B_2"))
            assert first.resident_bytes("PSUM") == says["block"]
            assert second.resident[0].bytes == says["B"]
        else:
            assert (counts(one.count), counts(two.count)) == (
                (says["Q_1"], says["I_1"]), (says["Q_2"], says["I_2"]))
            assert one.count.flops == two.count.flops == says["W"]


@pytest.mark.parametrize("seed", SEEDS)
def test_attention_apart_and_in_one(kernels, seed):
    q = ask("day5.check.attention", seed)
    L, d, says = q.inputs["L"], q.inputs["d"], said(q)
    if L > 4096:  # rows of S do not fit any more: by arithmetic alone
        assert (4 * 2 * L * d, says["Q_apart"]) == (says["Q_fused"], 4 * 2 * L * (d + L))
        return
    one = counted(kernels.attention_fused, (d, L), (d, L), (L, d)).count
    three = (counted(kernels.attention_scores, (d, L), (d, L)).count
             + counted(kernels.attention_softmax, (L, L)).count
             + counted(kernels.attention_values, (L, L), (L, d)).count)
    assert counts(one) == (says["Q_fused"], says["I_fused"])
    assert counts(three) == (says["Q_apart"], says["I_apart"])
    assert one.flops == three.flops == says["W"]


# Section of page 1 -> the curriculum's numbers that stand in it.
CURRICULUM = {
    "The best case": ("341",),
    "Room on chip": ("28 MiB",),
    "Reuse across ops: an MLP on one core": (
        "34,359,738,368", "92,274,688", "25,165,824", "4,194,304", "8,388,608", "33,554,432",
        "372", "1365", "16 MiB", "28 MiB", "437.1", "67.1", "504.2", "504.3", "246.1", "683.2",
        "67.1 MB"),
    "GELU has a roof of its own": ("33.55 MB", "89.5", "153.6", "54.6"),
    "Do": ("246 us", "67.1 us", "67.1 MB", "16 MiB", "89.5 us"),
    "Check yourself": ("8,589,934,592", "1 MiB", "32 MiB", "132 MiB", "138,412,032", "62.1",
                       "4 MiB", "4,194,304", "2048"),
}


def printed():
    """Heading of page 1 -> what the section's cells print."""
    found, title = {}, ""
    for cell in json.loads((ROOT / "day5/reuse.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            title = (re.findall(r"^#+ (.*)$", cell_source(cell), re.M) or [title])[0]
        else:
            found[title] = found.get(title, "") + cell_text(cell) + "\n"
    return found


@pytest.mark.parametrize(("title", "number"), [
    (title, number) for title, numbers in CURRICULUM.items() for number in numbers])
def test_the_curriculums_numbers_stand_in_their_section(title, number):
    assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.,]*\d)", printed()[title])


def test_the_curriculums_sums():
    """2BD, 2DF and 4BF in elements, and their sum in bytes, as the MLP's section prints them."""
    B, D, F = 2048, 1024, 4096
    sums = 2 * B * D, 2 * D * F, 4 * B * F
    assert sums == (4_194_304, 8_388_608, 33_554_432) and 2 * sum(sums) == THREE == 92_274_688
    said = printed()["Reuse across ops: an MLP on one core"]
    assert "2BD = {:,}, 2DF = {:,}, 4BF = {:,} elements".format(*sums) in said
    assert f"Q = 2 x their sum = {THREE:,} B" in said


def test_the_table_of_loops_is_the_ops():
    (table,) = re.findall(r"\| Op \| Loops.*", "\n".join(
        cell_source(c) for c in json.loads((ROOT / "day5/reuse.ipynb").read_text())["cells"]), re.S)
    known = {"Matmul": ops.Matmul(1, 1, 1), "Linear": ops.Linear(1, 1, 1),
             "Elementwise": ops.Elementwise(1), "MLP": ops.MLP(1, 1, 1),
             "Attention": ops.Attention(1, 1)}
    for name, op in known.items():
        (row,) = re.findall(rf"^\| `{name}\(.*$", table, re.M)
        _, _, loops, tensors, _ = row.split("|")
        assert set(re.findall(r"\b[a-z]\b", loops.replace("$y$", ""))) == set(op.loops)
        assert tensors.strip().split(", ") == list(op.DIMS)


# --- page 2: its code and its tables --------------------------------------------------------------

def test_code_shown_in_prose_is_the_files():
    """What a code block shows stands in kernels.py, in this order; `...` leaves lines out."""
    blocks = [block for cell in PAGE if cell["cell_type"] == "markdown"
              for block in re.findall(r"```python\n(.*?)```", cell_source(cell), re.S)]
    assert len(blocks) == 2
    file = "".join(FILE.split())  # lines of the page are shorter
    for block in blocks:
        at = 0
        for shown in re.split(r"^ *\.\.\.\n", block, flags=re.M):
            text = "".join(shown.split())
            assert text in file[at:], shown
            at = file.index(text, at) + len(text)


def test_what_a_block_leaves_out_moves_nothing():
    """Between the lines of a block there is no further transfer in the file."""
    for name, shown in (("matmul_reload", 3), ("mlp_fused", 4)):
        body = FILE[FILE.index(f"def {name}("):].partition("\n@nki.jit")[0]
        assert len(re.findall(r"nisa\.dma_\w+\(", body)) == shown


def test_the_counters_it_calls_unknown_are_unknown():
    """The table of what a count cannot know names the profiler's fields as the library does."""
    (table,) = [cell_source(c) for c in PAGE if "| Not in the source |" in cell_source(c)]
    run = counted(in_cell(), (128, 256), (128, 512))
    for name in re.findall(r"`(\w+_\w+)`", table):
        assert (run.counters[name] == "unknown") == (not name.startswith("hbm_")), name


# --- the slips: what someone with that misconception would write ---------------------------------

SLIPS = {
    "day5.open.bound": [
        ("I", 60e6 / 24e9, "upside down"), ("T_best", 60e6 / BW, "shorter"),
        ("T_worst", 24e9 / P, "overlap"), ("rate", 400 * BW, "higher of the two")],
    "day5.open.layer": [
        ("W", 192 * 2048 * 8192, "one FLOP"), ("Q", 192 * 2048 + 2048 * 8192 + 192 * 8192,
                                               "elements"), ("I", 192, "near B")],
    "day5.open.sheet": [
        ("P", 128 * 128 * 2e9, "one FLOP"), ("BW", 1.6e12, "whole device"),
        ("ridge", 65.536 / 1.6, "BW of the device"), ("rate", 65.536e12 / 4, "idle")],
    "day5.uses": [
        ("A", 640, "M in place"), ("A", 512, "one sum"), ("B", 1536, "N in place"),
        ("adds", 2 * 640 * 512 * 1536, "FLOPs counted"), ("none", 2 * 640 * 512 * 1536, "elements"),
        ("once", 2 * 512 * 1536, "A left out")],
    "day5.best": [
        ("Q", 3 * 1024**2, "elements"), ("Q", 4 * 1024**2, "C left out"), ("I", 512, "C left out"),
        ("I", 683, "by elements"), ("n_ridge", 210, "ridge itself"), ("n_ridge", 420, "C left"),
        ("n_ridge", 315, "elements")],
    "day5.traffic": [
        ("Q", 22 * MIB, "loaded once"), ("Q", 38 * MIB, "elements"), ("Q", 64 * MIB, "C left out"),
        ("Q", 68 * MIB, "swapped"), ("W", 1.5 * 2**32, "one FLOP"),
        ("I", 1.5 * 2**33 / (22 * MIB), "loaded once")],
    "day5.order": [
        ("r_A", 1, "taken as staying"), ("r_A", 8, "a dim that A has"),
        ("r_B", 8, "taken as coming back"), ("C", 1, "taken as staying"),
        ("C", 16, "tiles of C counted")],
    "day5.tilings": [
        ("keeps_1", 2 * 128 * 128, "one tile"), ("keeps_2", 2 * 1536 * 1024, "whole operand"),
        ("r_A_1", 3, "no input stays"), ("r_B_1", 1, "swapped"), ("r_A_2", 12, "of 128 columns"),
        ("r_B_2", 10, "no input stays"), ("Q_1", ROWS_OF_A / 2, "elements"),
        ("Q_2", 2 * (1280 * 1024 + 1024 * 1536 + 1280 * 1536), "loaded once"),
        ("I_2", TILINGS_W / COLUMNS_OF_B / 2, "one FLOP")],
    "day5.spill": [
        ("trips", 8, "stores C itself"), ("each", 4 * MIB, "not read back"),
        ("each", 4 * MIB, "fp32"), ("Q", 6 * MIB, "left out"), ("Q", 34 * MIB, "not read back"),
        ("I_best", 2**31 / (62 * MIB), "counted in")],
    "day5.capacity": [
        ("B", 64 * MIB, "elements"), ("N_trn2", 7168, "elements"), ("N_trn1", 1536, "fp32"),
        ("r_A_trn1", 5, "last, smaller"), ("r_A_trn2", 1, "loaded once"), ("r_A_trn2", 32, "512"),
        ("r_A_trn1", 5.33, "not rounded up"), ("r_A_trn2", 4.57, "not rounded up"),
        ("N_trn1", 24e6 / 8192, "MB"), ("N_trn1", 2560, "MB"), ("N_trn2", 28e6 / 8192, "MB"),
        ("N_trn2", 3072, "MB"), ("r_A_trn1", 7, "MB"), ("r_A_trn2", 6, "MB")],
    "day5.mlp.unfused": [
        ("up", 12 * MIB, "h left out"), ("gelu", 16 * MIB, "read or the write"), ("k", 2, "alone"),
        ("k", 6, "input and output"), ("Q", FUSED, "one kernel"),
        ("Q", THREE / 2, "elements"), ("Q", 56 * MIB, "half"),
        ("I", 1365, "one kernel")],
    "day5.mlp.fused": [
        ("weights", 8 * MIB, "one of the two"), ("W", MLP_W / 2, "projections"),
        ("Q", THREE, "three kernels"), ("Q", 8 * MIB, "weights left out"), ("I", 372, "three"),
        ("removed", "33.55 MB", "one round trip"), ("removed", THREE, "not the difference")],
    "day5.mlp.time": [
        ("T_flop", MLP_W / P / 2, "one FLOP"), ("T_fused", FUSED / BW / 8, "all 8 cores"),
        ("T_apart", THREE / BW / 2, "elements"), ("best_apart", THREE / BW, "shorter"),
        ("worst_fused", 437e-6, "full overlap"), ("worst_apart", 874e-6, "doubled"),
        ("best_fused", MLP_W / P / 8, "8 cores")],
    "day5.gelu": [
        ("Q", "16.78 MB", "read or the write"), ("T_byte", 11.2e-6, "all 8 cores"),
        ("rate", 1.2e9, "one lane"), ("T_scalar", 109.2e-6, "h and g both"),
        ("best_fused", 558.6e-6, "without overlap"),
        ("best_fused", 54.6e-6, "Scalar Engine alone")],
    "day5.chain": [
        ("k_four", 3, "writes alone"), ("k_four", 5, "one of the six"),
        ("k_two", 6, "a and u cross"), ("k_two", 4, "u crosses"),
        ("Q_four", SX * 3 + SWEIGHTS, "intermediates left out"), ("Q_two", 2 * SX + SWEIGHTS,
                                                                  "s left out"),
        ("Q_one", 2 * SX + SWEIGHTS * 2 / 3, "not three"),
        ("Q_four", 2 * SX + SWEIGHTS + 6 * SWIDE, "y left out"),
        ("Q_four", SX + SWEIGHTS + 6 * SWIDE, "two of these three"),
        ("Q_two", SX + SWEIGHTS + 2 * SWIDE, "x or y left out"),
        ("Q_one", SX + SWEIGHTS, "x or y left out"), ("Q_one", SWEIGHTS, "x and y left out"),
        ("Q_one", 3 * SX + SWEIGHTS, "x read twice")],
    "day5.do.two_tilings": [
        ("block", 512 * 1024, "PSUM holds fp32"), ("B", 8 * MIB, "bf16"), ("r_A_1", 6, "swapped"),
        ("r_B_1", 12, "stationary tile"), ("r_A_2", 2, "nest 1"), ("r_B_2", 6, "nest 1")],
    "day5.do.count_both": [
        ("W", DO_W / 2, "one FLOP"), ("Q_1", DO_ONCE, "loaded once"), ("Q_2", DO_ONCE / 2,
                                                                      "elements"),
        ("I_2", DO_W / DO_BLOCK, "nest 1"), ("more", 6, "r_B alone"), ("more", 12, "multiplied")],
    "day5.do.mlp": [
        ("Q_apart", FUSED, "one kernel"), ("Q_fused", THREE, "three kernels"),
        ("I_fused", 683, "one FLOP"), ("weights", "8 MiB", "one of the two"),
        ("Q_gelu", "16.78 MB", "read or the write"), ("removed", "33.55 MB", "one round trip"),
        ("T_apart", 123e-6, "elements"), ("T_fused", 8.39e-6, "all 8 cores")],
    "day5.do.mlp_time": [
        ("T_flop", MLP_W / P / 2, "one FLOP"), ("worst_apart", 437e-6, "full overlap"),
        ("worst_fused", 370e-6, "difference"), ("best_fused", 67.1e-6, "shorter"),
        ("T_gelu", 11.2e-6, "all 8 cores")],
    "day5.do.chain": [
        ("k", 4, "h and g alone"), ("Q_apart", 3 * CX + CWEIGHTS, "intermediates left out"),
        ("Q_fused", 2 * CX + CWEIGHTS + 4 * CWIDE, "h and g cross"), ("W", CHAIN_W / 2, "one of"),
        ("I_fused", CHAIN_W / (7 * CX + CWEIGHTS + 4 * CWIDE), "counted")],
    "day5.check.attention": [
        ("W", ATTENTION_W / 2, "one of the two"), ("Q_apart", 4 * MIB, "left out"),
        ("Q_apart", 68 * MIB, "not read back"), ("Q_fused", 132 * MIB, "cross"),
        ("I_apart", 2048, "left out"), ("I_fused", 62.06, "cross"), ("I_fused", 1024, "one FLOP")],
    "day5.count.reload": [
        ("runs", 40, "loops left out"), ("runs", 16, "over M"), ("runs", 640, "of 128 columns"),
        ("r_A", 10, "swapped"), ("r_A", 16, "512 columns"), ("r_A", 1, "loaded once"),
        ("r_A", 2048, "each use"), ("r_B", 4, "swapped"), ("r_B", 2.5, "stationary"),
        ("Q", A + B + C, "loaded once"), ("Q", Q / 2, "elements"), ("Q", Q - C, "C left out"),
        ("Q", 4 * A + 10 * B + 4 * C, "PSUM adds up"), ("I", Q / W, "upside down"),
        ("I", W / 2 / Q, "as one FLOP"), ("I", W / (A + B + C), "loaded once")],
    "day5.count.twice": [
        ("more", 2 * 128 * 128, "one tile"), ("more", A, "r_A times"), ("more", 2 * A, "elements"),
        ("more", 16 * A, "tile of B"), ("ratio", 2, "every line"), ("ratio", 5 / 30, "growth"),
        ("ratio", 30 / 35, "upside down")],
    "day5.count.fused": [
        ("read", 2 * 1536 * 512 + 12 * 4 * 512 * 3072, "every block"),
        ("read", 2 * 1536 * 512, "weights left"), ("read", NARROW, "y counted"),
        ("Q_fused", NARROW / 2, "elements"),
        ("Q_fused", NARROW + 8 * 1536 * 3072, "three kernels"),
        ("Q_fused", NARROW - 2 * 512 * 3072, "one of the two"),
        ("Q_fused", NARROW + 4 * 1536 * 3072, "h crosses"), ("k", 2, "one tensor alone"),
        ("k", 3, "one of the four"), ("Q_three", NARROW, "as in one"),
        ("Q_three", 8 * 1536 * 3072, "h and g alone"),
        ("Q_three", NARROW / 2 + 4 * 1536 * 3072, "elements")],
    "day5.count.fits": [
        ("weights", "96 KiB", "one of the two"), ("weights", "24 MiB", "whole"),
        ("weights", "384 KiB", "fp32"), ("blocks", 7168, "elements"), ("blocks", 112, "one token"),
        ("blocks", 12_288, "block of x")],
    "day5.count.lnc": [
        ("Q_1", X_ + W_, "y left"), ("Q_1", X_ + 8 * W_ + Y_, "for every block"),
        ("Q_1", X_ / 2 + W_ + Y_ / 2, "of the pair"),
        ("Q_2", X_ + W_ + Y_, "counted once"), ("Q_2", 2 * (X_ + W_ + Y_), "everything twice"),
        ("Q_2", (X_ + 2 * W_ + Y_) / 2, "one core's"), ("each", (X_ + W_ + Y_) / 2, "w split"),
        ("each", X_ + 2 * W_ + Y_, "both cores'")],
    "day5.count.gap": [
        ("apart", 3_178_496, "the two counts"), ("apart", 16_384, "elements"),
        ("apart", 8 * 32_768, "bits")],
    "day5.count.do.inside": [
        ("r_w", 1, "before the loop"), ("r_w", 1024, "tokens"), ("r_w", 2, "of 512"),
        ("Q", X_ + W_ + Y_, "counted once"), ("Q", 8 * (X_ + W_ + Y_), "all of it"),
        ("I", 2**27 / (X_ + W_ + Y_), "counted once")],
    "day5.count.do.block": [
        ("r_A", 3, "swapped"), ("r_A", 4, "either"), ("r_B", 12, "stationary"),
        ("banks", 6, "blocks in C"), ("banks", 32, "128 × 128"), ("banks", 2, "512 × 512"),
        ("Q", 2 * (1536 * 768 + 768 * 2048 + 1536 * 2048), "loaded once"),
        ("Q", 2 * (4 * 1536 * 768 + 12 * 768 * 2048 + 1536 * 2048), "no input stays")],
    "day5.count.do.own": [
        ("Q", "29 MB", "written left out"), ("Q", "11 MB", "read left out"),
        ("Q", "18 MB", "the difference"), ("I", 40e6 / 12e9, "upside down"),
        ("I", 12e9 / 11e6, "read left out"), ("T_best", 40e6 / BW, "the shorter")],
    "day5.count.check.lines": [
        ("read", READ / 2, "elements"), ("read", 2 * 128 * 128 * 96, "[128, 128]"),
        ("written", 2 * STORED, "PSUM counted"), ("written", STORED / 4, "[128, 128]"),
        ("written", 4 * STORED, "every matmul"), ("r_B", 72, "the line's runs"),
        ("r_B", 1.5, "[128, 128]"), ("W", LINES_W / 72, "one matmul"),
        ("W", LINES_W / 2, "as one FLOP"), ("I", LINES_W / READ, "written left out")],
    "day5.count.check.cast": [
        ("load", 2 * MIB, "that arrive"), ("load", 6 * MIB, "both ends"), ("load", MIB, "elements"),
        ("sbuf", 4 * MIB, "as bf16"), ("sbuf", 2 * MIB / 128, "partition"),
        ("Q", 4 * MIB, "2 bytes a number"), ("Q", 8 * MIB, "4 bytes a number")],
}


# What is counted, not measured: its neighbours are wrong, however near they are.
COUNTED = {
    "day5.uses": "A B", "day5.tilings": "r_A_1 r_B_1 r_A_2 r_B_2", "day5.order": "r_A r_B C",
    "day5.spill": "trips", "day5.capacity": "N_trn1 N_trn2 r_A_trn1 r_A_trn2",
    "day5.mlp.unfused": "k", "day5.chain": "k_four k_two",
    "day5.do.two_tilings": "r_A_1 r_B_1 r_A_2 r_B_2", "day5.do.chain": "k",
    "day5.count.reload": "runs r_A r_B", "day5.count.fused": "k", "day5.count.do.inside": "r_w",
    "day5.count.do.block": "r_A r_B banks", "day5.count.check.lines": "r_B"}


@pytest.mark.parametrize("id", NUMBERS)
def test_a_count_is_right_to_the_last_digit(id):
    counts = {part.name: part for part in ask(id).parts if getattr(part, "exact", False)}
    assert sorted(counts) == sorted(COUNTED.get(id, "").split())
    for name, part in counts.items():
        assert part.judge(NUMBERS[id][name]).kind == "right"
        for near in (NUMBERS[id][name] - 1, NUMBERS[id][name] + 1):
            assert part.judge(near).kind in ("slip", "off")


@pytest.mark.parametrize("id", NUMBERS)
def test_no_slip_says_a_thing_twice(id):
    for part in ask(id).parts:
        for label in getattr(part, "slips", {}):
            causes = label.removeprefix("either ").split(", or ")
            assert len({*causes}) == len(causes), label


def test_an_answer_right_for_another_bandwidth_is_told_so():
    slow = ask("day5.count.do.own", W=3e9)
    with pytest.raises(WrongAnswer, match=r"right for BW = 500 GB/s .*not the figure"):
        slow.check(T_best=40e6 / 500e9)


@pytest.mark.parametrize("id", NUMBERS)
def test_a_part_named_like_code_has_a_prompt_for_people(id):
    for seed in range(8):
        for part in ask(id, seed).parts:
            assert part.label or part.name in {
                "W", "Q", "I", "ridge", "T_best", "T_worst"}, part.name
            assert len(part.label) <= 48
