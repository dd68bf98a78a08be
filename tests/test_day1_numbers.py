"""Day 1's own numbers, as arithmetic a reader can redo; nothing here comes from `problems`.

The desktop has 8 cores x 2 FMA units x 8 lanes x 2 FLOPs x 4 GHz and 2 channels x 8 B x
5600 million transfers a second.
"""

import pytest

from roofline import ask

P = 8 * 2 * 8 * 2 * 4.0e9
BW = 2 * 8 * 5600e6
N = 4096  # matmul
BLOCKS = N // 64

NUMBERS = {
    # 2 GFLOP and 400 MB on 1 TFLOP/s and 100 GB/s
    "day1.bound": dict(I=2e9 / 400e6, ridge=1e12 / 100e9, binds="memory", T_best=400e6 / 100e9,
                       T_worst=2e9 / 1e12 + 400e6 / 100e9, rate=5 * 100e9),
    "day1.slope": dict(why="sum", unit="FLOP/s"),
    "day1.log_axes": dict(why="span"),
    "day1.ridge_words": dict(says="meanwhile", left="wait"),
    "day1.bytes_count": dict(Q_small=16e6, Q_large=4 * 400e6, adds="reload"),
    "day1.dot": dict(W=2 * 10**8, Q=2 * 4 * 10**8, I=1 / 4, side="memory"),
    "day1.add": dict(W=10**8, Q=3 * 4 * 10**8, I=1 / 12, side="memory"),
    # values and columns, row starts, x and y, 4 bytes each
    "day1.spmv": dict(W=2 * 16e6, Q=4 * (2 * 16_000_000 + 1_000_001 + 2 * 1_000_000),
                      I=32e6 / 140_000_004, side="memory"),
    "day1.fade.layernorm": dict(Q=4 * (2 * 65536 * 1024 + 2 * 1024),
                                I=7 * 65536 * 1024 / (4 * (2 * 65536 * 1024 + 2 * 1024)),
                                side="memory"),
    "day1.matmul_untiled": dict(Q=4 * (N**2 + N**3 + N**2), I=2 * N / (4 * (N + 2)),
                                side="memory"),
    "day1.fade.matmul_blocked": dict(W=2 * N**3, Q=4 * N**2 * (2 * BLOCKS + 1),
                                     I=2 * N / (4 * (2 * BLOCKS + 1)), side="compute"),
    "day1.block_size": dict(b=46, blocks=3 * 64 * 64 * 4),  # 64 is the power of two after 46
    "day1.do.place_matmul": dict(W=2 * 1024**3, Q=3 * 4 * 1024**2, I=1024 / 6, ridge=P / BW,
                                 side="compute", T_best=2 * 1024**3 / P),
    "day1.do.place_add": dict(W=5e7, Q=12 * 5e7, I=1 / 12, ridge=P / BW, side="memory",
                              T_best=12 * 5e7 / BW),
    "day1.do.place_layernorm": dict(W=7 * 16384 * 768, Q=8 * 16384 * 768 + 8 * 768, I=7 / 8,
                                    ridge=P / BW, side="memory",
                                    T_best=(8 * 16384 * 768 + 8 * 768) / BW),
    "day1.do.intensities": dict(I_dot=0.25, I_spmv=32 / 140, I_untiled=0.5,
                                I_blocked=4096 / (2 * 129)),
    "day1.blocking": dict(changes="traffic", intensity="code"),
    "day1.right_up": dict(right="fuse", up="vector"),
    "day1.overlap_2x": dict(ratio=(2 + 5) / 5, most=2, where="ridge"),
    "day1.under_2x": dict(left=5 / 2, cause="idle"),
    "day1.ceiling_compute": dict(one_core=2 * 8 * 2 * 4e9, no_simd=8 * 2 * 2 * 4e9,
                                 no_fma=8 * 2 * 8 * 4e9, all_three=2 * 4e9),
    "day1.ceiling_bandwidth": dict(useful=BW / 16, I_useful=1 / 4, I_moved=1 / 64, layout="share"),
    "day1.ceiling_kind": dict(chain="compute", far="bandwidth", evict="neither"),
    # L3: 16 B a core and cycle
    "day1.level": dict(T_DRAM=300e6 / BW, T_L3=4e9 / (16 * 8 * 4e9), binds="L3",
                       T_best=4 / (16 * 8 * 4)),
    "day1.mix": dict(T_flop=3e9 / P + 1e9 / (P / 2), rate=4e9 / (5e9 / P),
                     ceiling=P * (0.25 * 2 + 0.75 * 1) / 2),
    "day1.reuse_measured": dict(fell=32 / 4, I=16 / 4, know="bytes"),
    "day1.more_P": dict(before=BW / 4, after=BW / 4, share=BW / 4 / (4 * P), helps="bytes"),
    "day1.batching": dict(I=8, ridge=312e12 / 2.039e12, B_ridge=312 / 2.039),
    "day1.path_precision": dict(roof="fp32", share=15 / 19.5, rise=156 / 19.5),
    "day1.cpu.spec": dict(P=1.024e12, BW=89.6e9, ridge=1024 / 89.6),
    "day1.cpu.write_allocate": dict(needed=3 * 4 * 64e6, moved=4 * 4 * 64e6, I=1 / 16,
                                    share=3 / 4),
    "day1.cpu.above_spec": dict(share=118 / (32 * 2.6), implied=118e9 / 32, suspect="clock"),
    # 2009: Xeon e5345, 75 GFLOP/s over 5.9 GB/s; Opteron X4, 16.6 GB/s
    "day1.paper.ridge": dict(ridge=75 / 5.9, BW_implied=75e9 / 6.7),
    "day1.paper.new_chip": dict(before=17.6 / 15, after=74 / 16.6, between="turns"),
    "day1.paper.bound": dict(before=0.70 * 16.6e9, after=1.07 * 16.6e9, side="memory"),
}


@pytest.mark.parametrize("id", NUMBERS)
def test_the_pages_own_answer(id):
    q = ask(id)
    assert q.check(**NUMBERS[id]).right
    for part in q.parts:
        if hasattr(part, "value"):
            assert part.value == pytest.approx(NUMBERS[id][part.name], rel=2e-3)


def test_every_day_1_problem_is_here():
    from roofline.problems import BANK
    assert {id for id in BANK if id.startswith("day1.")} == set(NUMBERS)


def test_the_desktop():
    assert (P, BW) == (1.024e12, 89.6e9)
    assert round(P / BW, 1) == 11.4


@pytest.mark.parametrize(("b", "side"), [(32, "memory"), (45, "memory"), (46, "compute"),
                                         (64, "compute")])
def test_46_is_the_smallest_block_that_reaches_the_ridge(b, side):
    blocks = N / b  # 2 N^3 FLOPs over 4 B x (2 blocks + 1) N^2
    assert (2 * N / (4 * (2 * blocks + 1)) >= P / BW) == (side == "compute")


@pytest.mark.parametrize(("machine", "ridge", "paper"), [
    ("xeon_e5345", 75 / 5.9, 6.7), ("opteron_x4", 74 / 16.6, 4.4),
    ("ultrasparc_t2", 19 / 26.0, 0.33), ("cell_qs20", 29 / 47.0, 0.65)])
def test_ridges_of_2009(machine, ridge, paper):
    from roofline import machine as machines
    old = machines.get(machine)
    q = ask("day1.paper.ridge", machine=old.name, P=old.peak("fp64"), BW=old.bw(), printed=paper)
    assert q.check(ridge=ridge, BW_implied=old.peak("fp64") / paper).right


@pytest.mark.parametrize(("kernel", "before", "after"), [
    ("SpMV", 0.17, 0.25), ("LBMHD", 0.70, 1.07), ("Stencil", 0.33, 0.50), ("3-D FFT", 1.09, 1.64)])
@pytest.mark.parametrize(("machine", "P", "BW"), [
    ("xeon_e5345", 75e9, 5.9e9), ("opteron_x4", 74e9, 16.6e9), ("ultrasparc_t2", 19e9, 26.0e9),
    ("cell_qs20", 29e9, 47.0e9)])
def test_bounds_of_2009(machine, P, BW, kernel, before, after):
    from roofline import machine as machines
    q = ask("day1.paper.bound", machine=machines.get(machine).name, P=P, BW=BW, kernel=kernel,
            before=before, after=after)
    assert q.check(before=min(P, before * BW), after=min(P, after * BW),
                   side="memory" if after < P / BW else "compute").right
