"""Day 1's own numbers, as arithmetic a reader can redo; nothing here comes from `problems`.

The desktop has 8 cores x 2 FMA units x 8 lanes x 2 FLOPs x 4 GHz and 2 channels x 8 B x
5600 million transfers a second.
"""

import re
from operator import attrgetter

import pytest

from roofline import ask
from roofline.check import WrongAnswer

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
    "day1.block_size": dict(b=64, blocks=3 * 64 * 64 * 4),  # 64 is the power of two after 46
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
    "day1.under_2x": dict(overlap=2, left=5 / 2, cause="idle"),
    "day1.ceiling_compute": dict(one_core=2 * 8 * 2 * 4e9, no_simd=8 * 2 * 2 * 4e9,
                                 no_fma=8 * 2 * 8 * 4e9, all_three=2 * 4e9),
    "day1.ceiling_bandwidth": dict(useful=BW / 16, I_useful=1 / 4, I_moved=1 / 64,
                                   bound=1.4e9, layout="share"),
    "day1.ceiling_kind": dict(chain="compute", far="bandwidth", evict="neither"),
    # L3: 16 B a core and cycle
    "day1.level": dict(T_DRAM=300e6 / BW, T_L3=4e9 / (16 * 8 * 4e9), binds="L3",
                       T_best=4 / (16 * 8 * 4)),
    "day1.mix": dict(T_flop=3e9 / P + 1e9 / (P / 2), rate=4e9 / (5e9 / P)),
    "day1.mix_fma": dict(ceiling=P * (0.25 * 2 + 0.75 * 1) / 2),
    "day1.reuse_measured": dict(fell=32 / 4, I=16 / 4, know="bytes"),
    "day1.more_P": dict(before=BW / 4, after=BW / 4, share=BW / 4 / (4 * P), helps="bytes"),
    "day1.batching": dict(I=8, ridge=312e12 / 2.039e12, B_ridge=154),
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
def test_names_that_read_like_code_have_words(id):
    """Symbols of the field may stand alone; a share says how it is written."""
    for part in ask(id).parts:
        assert part.label or re.fullmatch(r"[WQIPb]|BW|T_\w+|ridge", part.name), part.name
        if part.name == "share":
            assert part.label.endswith(", as a fraction or in %")


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


# --- the slips: what someone with that misconception would write ---------------------------------

MM = 2 * N**3  # FLOPs of the matmul
SLIPS = {
    "day1.bound": [
        ("I", 400e6 / 2e9, "upside down"), ("I", 10, "instead of the kernel's"),
        ("I", 2e9 / (400e6 * 8), "bits"), ("ridge", 100e9 / 1e12, "upside down"),
        ("ridge", 5, "instead of the machine's"), ("ridge", 1 / 100, "prefixes"),
        ("T_best", "6 ms", "added"), ("T_best", "2 ms", "the shorter"),
        ("T_best", 2e9 / 100e9, "swapped"), ("T_worst", "4 ms", "taken to overlap"),
        ("T_worst", "8 ms", "doubled"), ("T_worst", 2e9 / 100e9 + 400e6 / 1e12, "swapped"),
        ("rate", 2e9 / 6e-3, "T_worst"), ("rate", "1 TFLOP/s", "the higher"),
        ("rate", 400e6 / 4e-3, "bytes a second")],
    "day1.bytes_count": [
        ("Q_small", 4 * 16e6, "every pass"), ("Q_small", 3 * 16e6, "the first pass"),
        ("Q_small", 2 * 16e6, "written back"), ("Q_large", 400e6, "only the first"),
        ("Q_large", 3 * 400e6, "the first pass"), ("Q_large", 8 * 400e6, "written back"),
        ("Q_large", 400e6 + 3 * (400e6 - 32 * 2**20), "survive"),
        ("Q_small", "16 MiB", "MB and MiB"), ("Q_small", 16e6 / 1.024**2, "MB and MiB"),
        ("Q_large", "1.6 TB", "one step off")],
    "day1.dot": [
        ("W", 1e8, "as one FLOP"), ("W", 8e8, "not FLOPs"), ("W", 4e8, "not for each pair"),
        ("Q", 4e8, "only one vector"), ("Q", 2e8, "not bytes"), ("Q", 12e8, "as a vector"),
        ("Q", 16e8, "twice its bytes"), ("I", 4, "upside down"), ("I", 1e8 / 8e8, "as one FLOP"),
        ("I", 2e8 / 2e8, "not bytes"), ("I", 2e8 / 4e8, "only one vector")],
    "day1.add": [
        ("W", 2e8, "as two FLOPs"), ("W", 12e8, "not FLOPs"), ("W", 3e8, "for each array"),
        ("Q", 8e8, "c's write"), ("Q", 3e8, "not bytes"), ("Q", 24e8, "twice its bytes"),
        ("I", 12, "upside down"), ("I", 2 / 12, "as two FLOPs"), ("I", 1 / 8, "c's write"),
        ("I", "1/3", "not bytes")],
    "day1.spmv": [
        ("W", 16e6, "as one FLOP"), ("W", 2e12, "zeros"), ("W", 140e6, "not FLOPs"),
        ("Q", 76e6, "column numbers"), ("Q", 200e6, "anew"), ("Q", 280e6, "twice its bytes"),
        ("Q", 35e6, "not bytes"), ("Q", "136 MB", "one of x, y and the row starts"),
        ("Q", "128 MB", "x, y and the row starts are"), ("Q", "64 MB", "only the values"),
        ("I", 140 / 32, "upside down"), ("I", 32 / 76, "column numbers"), ("I", 32 / 200, "anew"),
        ("I", 32 / 280, "twice its bytes"), ("I", 0.25, "x, y and the row starts are")],
    "day1.fade.layernorm": [
        ("Q", 4 * 65536 * 1024, "x or y"), ("Q", 16 * 65536 * 1024, "in cache"),
        ("Q", 2 * 65536 * 1024, "not bytes"), ("I", 8 / 7, "upside down"), ("I", 7 / 4, "x or y"),
        ("I", 7 / 16, "in cache"), ("I", 7 / 2, "not bytes"), ("I", "1/8", "one FLOP an element")],
    "day1.matmul_untiled": [
        ("Q", 12 * N**2, "reloads of B"), ("Q", 4 * (2 * N**3 + N**2), "every column of B"),
        ("Q", N**3 + 2 * N**2, "not bytes"), ("Q", 4 * (N**2 + 3 * N**3), "every step of k"),
        ("I", 4 * (N + 2) / (2 * N), "upside down"), ("I", N / 6, "reloads of B"),
        ("I", 0.25, "every column of B")],
    "day1.fade.matmul_blocked": [
        ("W", N**3, "as one FLOP"), ("W", 2 * N**2, "not K"), ("W", MM / 64, "divided by b"),
        ("Q", 12 * N**2, "reloads of A and B"), ("Q", 4 * (N**3 + 2 * N**2), "row of blocks"),
        ("Q", 4 * N**2 * (1 + 64 + 1), "reloads of A are"), ("Q", N**2 * 129, "not bytes"),
        ("I", 129 * 4 / (2 * N), "upside down"), ("I", N / 6, "reloads of A and B"),
        ("I", MM / (4 * N**2 * 66), "reloads of A are")],
    "day1.block_size": [
        ("b", 46, "power of two"), ("b", 45.7, "power of two"), ("b", 16, "b itself"),
        ("b", 32, "only one block"), ("b", 128, "as one FLOP"),
        ("blocks", 2 * 64**2 * 4, "block of C"), ("blocks", 3 * 64**2, "not bytes"),
        ("blocks", 3 * 64 * 4, "not b × b"), ("blocks", 3 * 46**2 * 4, "power of two"),
        ("blocks", "48 kB", "MB and MiB")],
    "day1.do.place_matmul": [
        ("W", 1024**3, "as one FLOP"), ("W", 2 * 1024**2, "not K"),
        ("W", 12 * 1024**2, "not FLOPs"), ("Q", 8 * 1024**2, "C's write"),
        ("Q", 24 * 1024**2, "twice its bytes"), ("Q", 3 * 1024**2, "not bytes"),
        ("I", 6 / 1024, "upside down"), ("I", 1024 / 12, "as one FLOP"),
        ("I", 4 * 1024 / 6, "not bytes"), ("ridge", BW / P, "upside down"),
        ("ridge", 1024 / 6, "instead of the machine's"),
        ("T_best", 12 * 1024**2 / BW, "the shorter"), ("T_best", MM / 64 / BW, "swapped"),
        ("T_best", 1024**3 / P, "as one FLOP"),
        ("T_best", MM / 64 / P + 12 * 1024**2 / BW, "added")],
    "day1.do.place_add": [
        ("W", 1e8, "as two FLOPs"), ("W", 6e8, "not FLOPs"), ("W", 1.5e8, "for each array"),
        ("Q", 4e8, "c's write"), ("Q", 1.5e8, "not bytes"), ("Q", 12e8, "twice its bytes"),
        ("I", 1 / 6, "as two FLOPs"), ("I", 1 / 8, "c's write"), ("I", 1 / 3, "not bytes"),
        ("T_best", 5e7 / P, "the shorter"), ("T_best", 6e8 / P, "swapped"),
        ("T_best", 8 * 6e8 / BW, "factor 8")],
    "day1.do.place_layernorm": [
        ("W", 16384 * 768, "one FLOP an element"), ("W", 7 * 768, "only one row"),
        ("Q", 4 * 16384 * 768, "x or y"), ("Q", 16 * 16384 * 768, "in cache"),
        ("I", 7 / 4, "x or y"), ("I", 7 / 16, "in cache")],
    "day1.do.intensities": [
        ("I_dot", 4, "upside down"), ("I_dot", 1 / 2, "only one vector"),
        ("I_dot", 1 / 8, "as one FLOP"), ("I_dot", 1, "not bytes"),
        ("I_spmv", 32 / 76, "column numbers"), ("I_spmv", 32 / 200, "anew"),
        ("I_spmv", 16 / 140, "as one FLOP"), ("I_spmv", 0.25, "row starts"),
        ("I_untiled", N / 6, "reloads of B"), ("I_untiled", 0.25, "every column of B"),
        ("I_untiled", 2, "upside down"), ("I_blocked", N / 6, "reloads of A and B"),
        ("I_blocked", MM / (4 * N**2 * 66), "reloads of A are"),
        ("I_blocked", 0.5, "row of blocks")],
    "day1.overlap_2x": [
        ("ratio", 5 / 7, "upside down"), ("ratio", 7 / 2, "the shorter"), ("ratio", 2, "the most"),
        ("ratio", 5 / 2, "the longer time alone"), ("most", 1, "no more than the longer"),
        ("most", 1.4, "this kernel's"), ("most", 3, "a third time")],
    "day1.under_2x": [
        ("overlap", 5, "whole gap"), ("overlap", 1, "no more than the longer"),
        ("overlap", 3, "a third time"), ("overlap", 2.5, "what remains"),
        ("left", 5, "left out"), ("left", 3, "subtracted"), ("left", 2, "is given"),
        ("left", 2 / 5, "upside down")],
    "day1.ceiling_compute": [
        ("one_core", P, "still counted"), ("one_core", 8 * P, "instead of divided"),
        ("one_core", P / 64, "lanes are taken away"), ("no_simd", P, "still counted"),
        ("no_simd", P / 16, "FMAs are taken away"), ("no_simd", 8 * P, "instead of divided"),
        ("no_fma", P, "like an FMA"), ("no_fma", 2 * P, "already"),
        ("no_fma", P / 16, "cores are taken away"),
        ("all_three", P / 64, "like an FMA"), ("all_three", P / 18, "instead of multiplied"),
        ("all_three", P / 8, "the worst")],
    "day1.ceiling_bandwidth": [
        ("useful", BW, "taken to cross"), ("useful", 16 * BW, "upside down"),
        ("useful", BW / 64, "one byte"), ("useful", BW / 4, "not by the line"),
        ("I_useful", 1 / 64, "all bytes"), ("I_useful", 4, "upside down"),
        ("I_useful", 1, "not bytes"), ("I_moved", 1 / 4, "the useful bytes are counted"),
        ("I_moved", 64, "upside down"), ("I_moved", 1 / 68, "part of"),
        ("bound", 89.6e9 / 64 / 16, "counted twice"), ("bound", 89.6e9 / 4, "not counted"),
        ("bound", 5.6e9 / 0.25, "divided by I")],
    "day1.level": [
        ("T_DRAM", 300e6 / 512e9, "L3's bandwidth"), ("T_DRAM", 4e9 / BW, "L3's bytes"),
        ("T_DRAM", 4.3e9 / BW, "added"), ("T_DRAM", 4e9 / 512e9, "swapped"),
        ("T_L3", 4e9 / BW, "DRAM's bandwidth"), ("T_L3", 300e6 / BW, "swapped"),
        ("T_L3", 300e6 / 512e9, "DRAM's bytes"), ("T_L3", 4e9 / (512e9 + BW), "added"),
        ("T_best", 4e9 / P + 300e6 / BW + 4e9 / 512e9, "added"),
        ("T_best", 300e6 / BW, "the shortest"), ("T_best", 4e9 / P, "left out")],
    "day1.mix": [
        ("T_flop", 4e9 / P, "fp32's peak"), ("T_flop", 8e9 / P, "fp64's peak"),
        ("T_flop", 3e9 / P, "only the longer"), ("T_flop", 4e9 / (0.75 * P), "averaged"),
        ("rate", P, "fp32's peak"), ("rate", 0.75 * P, "averaged"), ("rate", P / 2, "fp64's peak"),
        ("rate", (3 * P + P / 2) / 4, "averaged by FLOPs")],
    "day1.mix_fma": [
        ("ceiling", P / 4, "left out"), ("ceiling", P / 2, "as one FLOP"),
        ("ceiling", P, "as two FLOPs"), ("ceiling", P * 7 / 8, "swapped"),
        ("ceiling", P / (0.25 + 0.75 * 2), "one of FLOPs")],  # a quarter of the FLOPs in FMAs
    "day1.reuse_measured": [
        ("fell", 32, "counted bytes"), ("fell", 1 / 8, "upside down"), ("fell", 4, "code before"),
        ("I", 16, "counted bytes"), ("I", 0.5, "before the tiling"), ("I", 1 / 4, "upside down")],
    "day1.more_P": [
        ("before", P, "the higher"), ("before", 4 * BW, "divided by I"),
        ("before", P / 4, "by P, not by BW"), ("after", BW, "to rise with P"),
        ("after", 4 * P, "the higher"), ("after", P, "the old peak"),
        ("share", BW / 4 / P, "either the old peak is taken, or the rate"),
        ("share", 16 * P / BW, "upside down"), ("share", BW / P, "with a rate")],
    "day1.batching": [
        ("I", 16, "one byte"), ("I", 4, "either a multiply-add"), ("I", 1, "anew for every row"),
        ("B_ridge", 153 / 2, "one byte"), ("B_ridge", 306, "either a multiply-add"),
        ("B_ridge", 153 / 8, "a factor")],
    "day1.path_precision": [
        ("share", 15 / 312, "bf16"), ("share", 15 / 156, "tf32"),
        ("share", 19.5 / 15, "upside down"), ("share", 76.9, "lost its %"),
        ("rise", 312 / 19.5, "bf16"), ("rise", 19.5 / 156, "upside down"),
        ("rise", 10.4, "the old roof")],
    "day1.cpu.spec": [
        ("P", P / 2, "either an FMA is counted as one FLOP, or only one FMA unit"),
        ("P", 4 * P, "each byte"), ("P", P / 8, "only one core"), ("P", P / 4e9, "the clock"),
        ("BW", BW / 8, "8 bytes"), ("BW", BW / 2, "channel"), ("BW", 2 * BW, "both edges"),
        ("BW", 8 * BW, "bits"), ("BW", "89.6 MB/s", "one step off"), ("ridge", BW / P, "upside"),
        ("ridge", P / 8 / BW, "one core"), ("ridge", P / 1e12 / (BW / 1e9), "prefixes")],
    "day1.cpu.write_allocate": [
        ("needed", 8 * 64e6, "c's write"), ("needed", 3 * 64e6, "not bytes"),
        ("needed", 16 * 64e6, "does not need"), ("moved", 12 * 64e6, "the fetch of"),
        ("moved", 24 * 64e6, "only read"), ("moved", 4 * 64e6, "not bytes"),
        ("I", 1 / 12, "the fetch of"), ("I", 16, "upside down"), ("I", 1 / 8, "as two FLOPs"),
        ("share", 1, "no time"), ("share", 4 / 3, "upside down"), ("share", 2 / 4, "c's write"),
        ("share", "75", "lost its %")],
    "day1.cpu.above_spec": [
        ("share", 83.2 / 118, "upside down"), ("share", 236 / 83.2, "already"),
        ("share", 118 / 83.2 - 1, "above the spec"), ("share", 141.8, "lost its %"),
        ("implied", 118e9 / 16, "already"), ("implied", 2.6e9 * 83.2 / 118, "upside down"),
        ("implied", "2.6 GHz", "reported")],
    "day1.paper.ridge": [
        ("ridge", 5.9 / 75, "upside down"), ("ridge", 150 / 5.9, "both sockets"),
        ("ridge", 600 / 5.9, "each byte"), ("BW_implied", 75e9 * 6.7, "multiplied"),
        ("BW_implied", 150e9 / 6.7, "both sockets"), ("BW_implied", 5.9e9 / 6.7, "not P")],
    "day1.paper.new_chip": [
        ("before", 15 / 17.6, "upside down"), ("before", 17.6 / 16.6, "new memory"),
        ("before", 74 / 16.6, "new chip"), ("after", 16.6 / 74, "upside down"),
        ("after", 74 / 15, "old memory"), ("after", 17.6 / 15, "old chip")],
    "day1.paper.bound": [
        ("before", 74e9, "the higher"), ("before", 16.6e9 / 0.7, "divided by I"),
        ("before", 1.07 * 16.6e9, "other"), ("after", 0.7 * 16.6e9, "other")],
}


@pytest.mark.parametrize(("id", "name", "answer", "words"), [
    ("day1.add", "Q", 16e8, "a cache that reads"), ("day1.add", "I", 1 / 16, "a cache that reads"),
    ("day1.do.place_add", "Q", 16 * 5e7, "a cache that reads"),
    ("day1.do.place_add", "I", 1 / 16, "a cache that reads"),
    ("day1.fade.layernorm", "Q", 12 * 65536 * 1024, "a cache that reads"),
    ("day1.fade.layernorm", "I", 7 / 12, "a cache that reads"),
    ("day1.do.place_add", "T_best", 16 * 5e7 / BW, "a cache that reads"),
    ("day1.do.place_layernorm", "Q", 12 * 16384 * 768, "a cache that reads"),
    ("day1.do.place_layernorm", "T_best", 12 * 16384 * 768 / BW, "a cache that reads"),
    ("day1.spmv", "Q", 144e6, "a cache that reads"),
    ("day1.do.intensities", "I_spmv", 32 / 144, "a cache that reads"),
    ("day1.paper.new_chip", "before", 1.0, "the paper's printed ridge"),
    ("day1.paper.new_chip", "after", 4.4, "the paper's printed ridge"),
    ("day1.paper.ridge", "ridge", 6.7, "the paper's text")])
def test_an_answer_right_for_a_rival_is_told_so(id, name, answer, words):
    with pytest.raises(WrongAnswer, match=f"{name}: right for {words}.*, not the figure"):
        ask(id).check(**{name: answer})


@pytest.mark.parametrize(("id", "answers"), [
    ("day1.add", dict(I="1/12")), ("day1.cpu.write_allocate", dict(share="3/4", I="1/16")),
    ("day1.batching", dict(B_ridge=153)), ("day1.batching", dict(B_ridge=312 / 2.039)),
    ("day1.more_P", dict(share="0.547 %")), ("day1.cpu.spec", dict(BW="89.6 GBps"))])
def test_other_ways_to_write_it_are_right(id, answers):
    assert all(o.kind in ("right", "not attempted") for o in ask(id).check(**answers).outcomes)


def test_strided_bytes_have_one_bound_booked_either_way():
    useful, moved = 1 / 4 * BW / 16, 1 / 64 * BW
    assert useful == pytest.approx(moved) == pytest.approx(1.4e9)


@pytest.mark.parametrize(("array", "cache", "passes", "misses"), [
    (16, 32, 4, 16), (33, 32, 4, 4 * 33), (400, 32, 4, 4 * 400)])
def test_a_cyclic_scan_of_more_than_the_cache_never_hits(array, cache, passes, misses):
    """Lines evicted longest ago first, walked."""
    held, fetched = [], 0
    for line in list(range(array)) * passes:
        if line in held:
            held.remove(line)
        else:
            fetched += 1
            held = held[len(held) >= cache:]
        held.append(line)
    assert fetched == misses


@pytest.mark.parametrize(("id", "name"), [
    (id, "side") for id in ("day1.dot", "day1.add", "day1.spmv", "day1.fade.layernorm",
                            "day1.fade.matmul_blocked", "day1.do.place_add")])
def test_the_side_is_a_decision(id, name):
    """Among the variants of a page's form both answers occur."""
    rights = [next(p.right for p in ask(id, seed).parts if p.name == name) for seed in range(16)]
    assert 2 <= rights.count("memory") <= 14


# --- every seed: the parts of one question fit each other ----------------------------------------

name_of = attrgetter("name")


@pytest.mark.parametrize("id", NUMBERS)
def test_parts_fit_each_other(id):
    slow = {"P": 1e9} if "P" in ask(id).inputs and "side" in map(name_of, ask(id).parts) else {}
    for q in [*(ask(id, seed) for seed in range(60)), ask(id, **slow)]:
        known = {**q.inputs, **{p.name: getattr(p, "value", p.answer) for p in q.parts}}

        def have(*names, known=known):
            return all(isinstance(known.get(name), int | float) for name in names)

        if have("W", "Q", "I"):
            assert known["I"] == pytest.approx(known["W"] / known["Q"])
        if have("P", "BW", "ridge"):
            assert known["ridge"] == pytest.approx(known["P"] / known["BW"])
        if have("P", "BW", "I") and "side" in known:
            assert known["side"] == ("memory" if known["I"] * known["BW"] < known["P"]
                                     else "compute")
        if have("P", "BW", "W", "Q", "T_best"):
            assert known["T_best"] == pytest.approx(
                max(known["W"] / known["P"], known["Q"] / known["BW"]))
