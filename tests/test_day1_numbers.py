"""Day 1's own numbers, as arithmetic a reader can redo; nothing here comes from `problems`.

The desktop has 8 cores x 2 FMA units x 8 lanes x 2 FLOPs x 4 GHz and 2 channels x 8 B x
5600 million transfers a second.
"""

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


# --- the slips: what someone with that misconception would write ---------------------------------

MM = 2 * N**3  # FLOPs of the matmul
SLIPS = {
    "day1.bound": [
        ("I", 400e6 / 2e9, "FLOPs go on top"), ("I", 10, "the machine's number"),
        ("I", 2e9 / (400e6 * 8), "bits"), ("ridge", 100e9 / 1e12, "P goes on top"),
        ("ridge", 5, "the kernel's number"), ("ridge", 1 / 100, "1 T is 1000 G"),
        ("T_best", "6 ms", "do not add up"), ("T_best", "2 ms", "the longer"),
        ("T_best", 2e9 / 100e9, "bytes with BW"), ("T_worst", "4 ms", "waits for the other"),
        ("T_worst", "8 ms", "twice T_best"), ("T_worst", 2e9 / 100e9 + 400e6 / 1e12, "with BW"),
        ("rate", 2e9 / 6e-3, "not T_worst"), ("rate", "1 TFLOP/s", "lower of the two"),
        ("rate", 400e6 / 4e-3, "not Q over")],
    "day1.bytes_count": [
        ("Q_small", 4 * 16e6, "passes after the first"), ("Q_small", 3 * 16e6, "the first pass"),
        ("Q_small", 2 * 16e6, "not written back"), ("Q_large", 400e6, "finds none of it"),
        ("Q_large", 3 * 400e6, "the first pass"), ("Q_large", 8 * 400e6, "not written back")],
    "day1.dot": [
        ("W", 1e8, "two FLOPs"), ("W", 8e8, "not bytes"), ("W", 4e8, "for the pair"),
        ("Q", 4e8, "both vectors"), ("Q", 2e8, "not elements"), ("Q", 12e8, "one number"),
        ("Q", 16e8, "4 bytes"), ("I", 4, "on top"), ("I", 1e8 / 8e8, "two FLOPs"),
        ("I", 2e8 / 2e8, "by elements"), ("I", 2e8 / 4e8, "both vectors")],
    "day1.add": [
        ("W", 2e8, "no multiply"), ("W", 12e8, "not bytes"), ("W", 3e8, "c is its result"),
        ("Q", 8e8, "written too"), ("Q", 3e8, "not elements"), ("Q", 24e8, "4 bytes"),
        ("I", 12, "on top"), ("I", 2 / 12, "no multiply"), ("I", 1 / 8, "written too"),
        ("I", 1 / 3, "by elements")],
    "day1.spmv": [
        ("W", 16e6, "two FLOPs"), ("W", 2e12, "zeros"), ("W", 140e6, "not bytes"),
        ("Q", 76e6, "column number"), ("Q", 200e6, "comes from cache"), ("Q", 280e6, "4 bytes"),
        ("Q", 35e6, "not elements"), ("I", 140 / 32, "on top"), ("I", 32 / 76, "column number"),
        ("I", 32 / 200, "comes from cache"), ("I", 32 / 280, "4 bytes")],
    "day1.fade.layernorm": [
        ("Q", 4 * 65536 * 1024, "written too"), ("Q", 16 * 65536 * 1024, "stays in cache"),
        ("Q", 2 * 65536 * 1024, "not elements"), ("I", 8 / 7, "on top"), ("I", 7 / 4, "written"),
        ("I", 7 / 16, "stays in cache"), ("I", 7 / 2, "by elements")],
    "day1.matmul_untiled": [
        ("Q", 12 * N**2, "B comes back"), ("Q", 4 * (2 * N**3 + N**2), "row of A stays"),
        ("Q", N**3 + 2 * N**2, "not elements"), ("I", 4 * (N + 2) / (2 * N), "on top"),
        ("I", N / 6, "B comes back"), ("I", 0.25, "row of A stays")],
    "day1.fade.matmul_blocked": [
        ("W", N**3, "two FLOPs"), ("W", 2 * N**2, "K multiply-adds"), ("W", MM / 64, "order"),
        ("Q", 12 * N**2, "A comes back for"), ("Q", 4 * (N**3 + 2 * N**2), "b rows"),
        ("Q", 4 * N**2 * (1 + 64 + 1), "as well as B"), ("Q", N**2 * 129, "not elements"),
        ("I", 129 * 4 / (2 * N), "on top"), ("I", N / 6, "A comes back for"),
        ("I", MM / (4 * N**2 * 66), "as well as B")],
    "day1.block_size": [
        ("b", 11.43, "2 b² elements"), ("b", 2 * 11.43, "both blocks"), ("b", 2 * 46, "two FLOPs"),
        ("blocks", 2 * 64**2 * 4, "block of C"), ("blocks", 3 * 64**2, "not elements"),
        ("blocks", 3 * 64 * 4, "b rows and b columns")],
    "day1.do.place_matmul": [
        ("W", 1024**3, "two FLOPs"), ("W", 2 * 1024**2, "K multiply-adds"),
        ("W", 12 * 1024**2, "not bytes"), ("Q", 8 * 1024**2, "C is written"),
        ("Q", 24 * 1024**2, "4 bytes"), ("Q", 3 * 1024**2, "not elements"),
        ("I", 6 / 1024, "on top"), ("I", 1024 / 12, "two FLOPs"), ("I", 4 * 1024 / 6, "elements"),
        ("ridge", BW / P, "on top"), ("ridge", 1024 / 6, "the kernel's"),
        ("T_best", 12 * 1024**2 / BW, "the longer"), ("T_best", MM / 64 / BW, "bytes with BW"),
        ("T_best", 1024**3 / P, "counts a multiply and an add")],
    "day1.do.place_add": [
        ("W", 1e8, "no multiply"), ("W", 6e8, "not bytes"), ("W", 1.5e8, "c is its result"),
        ("Q", 4e8, "written too"), ("Q", 1.5e8, "not elements"), ("Q", 12e8, "4 bytes"),
        ("I", 1 / 6, "no multiply"), ("I", 1 / 8, "written too"), ("I", 1 / 3, "by elements"),
        ("T_best", 5e7 / P, "the longer"), ("T_best", 6e8 / P, "bytes with BW"),
        ("T_best", 8 * 6e8 / BW, "factor 8")],
    "day1.do.place_layernorm": [
        ("W", 16384 * 768, "not one"), ("W", 7 * 768, "every row"),
        ("Q", 4 * 16384 * 768, "written too"), ("Q", 16 * 16384 * 768, "stays in cache"),
        ("I", 7 / 4, "written too"), ("I", 7 / 16, "stays in cache")],
    "day1.do.intensities": [
        ("I_dot", 4, "on top"), ("I_dot", 1 / 2, "both vectors"), ("I_dot", 1 / 8, "two FLOPs"),
        ("I_dot", 1, "by elements"), ("I_spmv", 32 / 76, "column number"),
        ("I_spmv", 32 / 200, "from cache"), ("I_spmv", 16 / 140, "two FLOPs"),
        ("I_untiled", N / 6, "B comes back"), ("I_untiled", 0.25, "row of A"),
        ("I_untiled", 2, "on top"), ("I_blocked", N / 6, "A comes back for"),
        ("I_blocked", MM / (4 * N**2 * 66), "as well as B"), ("I_blocked", 0.5, "b rows")],
    "day1.overlap_2x": [
        ("ratio", 5 / 7, "on top"), ("ratio", 7 / 2, "the longer"), ("ratio", 2, "the most"),
        ("ratio", 5 / 2, "the sum"), ("most", 1, "more than the longer"), ("most", 1.4, "equal"),
        ("most", 3, "two times")],
    "day1.under_2x": [
        ("left", 5, "up to a factor"), ("left", 3, "subtracted"), ("left", 2, "at most"),
        ("left", 2 / 5, "inverse")],
    "day1.ceiling_compute": [
        ("one_core", P, "stand still"), ("one_core", 8 * P, "all cores"),
        ("one_core", P / 64, "lanes and FMAs"), ("no_simd", P, "one lane"),
        ("no_simd", P / 16, "FMAs still"), ("no_simd", 8 * P, "all lanes"),
        ("no_fma", P, "an FMA two"), ("no_fma", 2 * P, "in it"), ("no_fma", P / 16, "still count"),
        ("all_three", P / 64, "an FMA two"), ("all_three", P / 18, "multiply"),
        ("all_three", P / 8, "the worst")],
    "day1.ceiling_bandwidth": [
        ("useful", BW, "whole"), ("useful", 16 * BW, "inverse"), ("useful", BW / 64, "not one"),
        ("useful", BW / 4, "by the line"), ("I_useful", 1 / 64, "only the useful"),
        ("I_useful", 4, "on top"), ("I_useful", 1, "elements"), ("I_moved", 1 / 4, "crosses too"),
        ("I_moved", 64, "on top"), ("I_moved", 1 / 68, "part of the line")],
    "day1.level": [
        ("T_DRAM", 300e6 / 512e9, "DRAM's bytes go"), ("T_DRAM", 4e9 / BW, "only DRAM's"),
        ("T_DRAM", 4.3e9 / BW, "add up"), ("T_L3", 4e9 / BW, "L3's bytes go"),
        ("T_L3", 300e6 / 512e9, "only L3's"), ("T_L3", 4e9 / (512e9 + BW), "add up"),
        ("T_best", 4e9 / P + 300e6 / BW + 4e9 / 512e9, "add up"),
        ("T_best", 300e6 / BW, "longest time"), ("T_best", 4e9 / P, "three roofs")],
    "day1.mix": [
        ("T_flop", 4e9 / P, "fp64 part"), ("T_flop", 8e9 / P, "fp32 part"),
        ("T_flop", 3e9 / P, "one after the other"), ("T_flop", 4e9 / (0.75 * P), "mean"),
        ("rate", P, "slower"), ("rate", 0.75 * P, "mean"), ("rate", P / 2, "faster"),
        ("rate", (3 * P + P / 2) / 4, "weigh the times"), ("ceiling", P / 4, "not as none"),
        ("ceiling", P / 2, "as two"), ("ceiling", P, "half of"), ("ceiling", P * 7 / 8, "fill")],
    "day1.reuse_measured": [
        ("fell", 32, "promise"), ("fell", 1 / 8, "on top"), ("fell", 4, "the code before"),
        ("I", 16, "as counted"), ("I", 0.5, "before the tiling"), ("I", 1 / 4, "on top")],
    "day1.more_P": [
        ("before", P, "lower"), ("before", 4 * BW, "not BW / I"), ("before", P / 4, "not I × P"),
        ("after", BW, "no faster"), ("after", 4 * P, "lower"), ("after", P, "P grew"),
        ("share", BW / 4 / P, "the new one"), ("share", 16 * P / BW, "on top")],
    "day1.batching": [
        ("I", 16, "2 bytes"), ("I", 4, "two FLOPs"), ("I", 1 / 2, "one weight"),
        ("B_ridge", 153 / 2, "2 bytes"), ("B_ridge", 306, "two FLOPs"),
        ("B_ridge", 153 / 8, "a factor")],
    "day1.path_precision": [
        ("share", 15 / 312, "bf16"), ("share", 15 / 156, "idle"), ("share", 19.5 / 15, "on top"),
        ("rise", 312 / 19.5, "not bf16"), ("rise", 19.5 / 156, "on top"), ("rise", 10.4, "roof")],
    "day1.cpu.spec": [
        ("P", P / 2, "two FLOPs"), ("P", 4 * P, "one byte"), ("P", P / 8, "every core"),
        ("P", P / 4e9, "clock"), ("BW", BW / 8, "8 bytes"), ("BW", BW / 2, "channel"),
        ("BW", 2 * BW, "both edges"), ("BW", 8 * BW, "8 bits"), ("ridge", BW / P, "on top"),
        ("ridge", P / 8 / BW, "all cores"), ("ridge", P / 1e12 / (BW / 1e9), "1000 G")],
    "day1.cpu.write_allocate": [
        ("needed", 8 * 64e6, "written too"), ("needed", 3 * 64e6, "elements"),
        ("needed", 16 * 64e6, "comes next"), ("moved", 12 * 64e6, "fetched before"),
        ("moved", 24 * 64e6, "only c"), ("moved", 4 * 64e6, "elements"), ("I", 1 / 12, "fetched"),
        ("I", 16, "on top"), ("I", 1 / 8, "no multiply"), ("share", 1, "takes time"),
        ("share", 4 / 3, "on top"), ("share", 2 / 4, "a, b and c")],
    "day1.cpu.above_spec": [
        ("share", 83.2 / 118, "on top"), ("share", 236 / 83.2, "two FLOPs"),
        ("share", 118 / 83.2 - 1, "not only"), ("share", 141.8, "100 %"),
        ("implied", 118e9 / 16, "two FLOPs"), ("implied", 2.6e9 * 83.2 / 118, "higher"),
        ("implied", "2.6 GHz", "reported")],
    "day1.paper.ridge": [
        ("ridge", 5.9 / 75, "on top"), ("ridge", 150 / 5.9, "both sockets"),
        ("ridge", 600 / 5.9, "8 bytes"), ("BW_implied", 75e9 * 6.7, "not P ×"),
        ("BW_implied", 150e9 / 6.7, "both sockets"), ("BW_implied", 5.9e9 / 6.7, "printed")],
    "day1.paper.new_chip": [
        ("before", 15 / 17.6, "on top"), ("before", 17.6 / 16.6, "old memory"),
        ("before", 74 / 16.6, "new chip"), ("after", 16.6 / 74, "on top"),
        ("after", 74 / 15, "new memory"), ("after", 17.6 / 15, "old chip")],
    "day1.paper.bound": [
        ("before", 74e9, "lower"), ("before", 16.6e9 / 0.7, "not BW"),
        ("before", 1.07 * 16.6e9, "other"), ("after", 0.7 * 16.6e9, "other")],
}


@pytest.mark.parametrize(("id", "name", "answer", "words"),
                         [(id, *slip) for id, slips in SLIPS.items() for slip in slips])
def test_a_misconception_is_recognised(id, name, answer, words):
    with pytest.raises(WrongAnswer) as wrong:
        ask(id).check(**{name: answer})
    line, kind = repr(wrong.value).splitlines()[0], wrong.value.report
    assert next(o.kind for o in kind.outcomes if o.name == name) == "slip", line
    assert words in line.partition("Looks like: ")[2], line


@pytest.mark.parametrize(("id", "name", "answer", "words"), [
    ("day1.add", "Q", 16e8, "a cache that reads"), ("day1.add", "I", 1 / 16, "a cache that reads"),
    ("day1.do.place_add", "Q", 16 * 5e7, "a cache that reads"),
    ("day1.do.place_add", "I", 1 / 16, "a cache that reads"),
    ("day1.fade.layernorm", "Q", 12 * 65536 * 1024, "a cache that reads"),
    ("day1.fade.layernorm", "I", 7 / 12, "a cache that reads"),
    ("day1.paper.ridge", "ridge", 6.7, "the paper's text")])
def test_an_answer_right_for_a_rival_is_told_so(id, name, answer, words):
    with pytest.raises(WrongAnswer, match=f"{name}: right for {words}.*, not the figure"):
        ask(id).check(**{name: answer})


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
