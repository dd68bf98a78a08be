"""Day 2's own numbers, as arithmetic a reader can redo; nothing here comes from `problems`.

One physical Trn2 core: 128 x 128 processing elements x 2 FLOPs x 2.4 GHz, and an eighth of the
device's 3 TB/s.
"""

from operator import attrgetter

import pytest

from roofline import ask
from roofline.check import WrongAnswer

P = 128 * 128 * 2 * 2.4e9
BW = 3e12 / 8
RIDGE = P / BW
P8, BW8, LINK = 8 * P, 3e12, 1.28e12  # the device
N = 4096

# decode, B = 1, and prefill, B = 2048, through 4096 x 4096, p = 2
W_1, Q_1 = 2 * 1 * N * N, 2 * (1 * N + N * N + 1 * N)
W_B, Q_B = 2 * 2048 * N * N, 2 * (2048 * N + N * N + 2048 * N)
B_RIDGE = 210 * N / (N - 2 * 210)


def layer(B, D, F, p=2, p_w=2):
    """W and Q of y = x W."""
    return 2 * B * D * F, p * (B * D + B * F) + p_w * D * F


def crosses(D, F, ridge):
    """B where 2 B D F = ridge * 2 (B D + D F + B F)."""
    return ridge * D * F / (D * F - ridge * (D + F))


# --- the curriculum's figures --------------------------------------------------------------------

def test_the_core():
    assert P == 78.6432e12 and BW == 375e9
    assert round(P / 1e12, 1) == 78.6 and round(RIDGE) == 210


def test_decode():
    assert W_1 == 33_554_432
    assert 1 * 4096 + 4096 * 4096 + 1 * 4096 == 16_785_408
    assert Q_1 == 2 * 16_785_408 == 33_570_816
    assert round(W_1 / Q_1, 1) == 1.0
    assert round(W_1 / P * 1e6, 2) == 0.43 and round(Q_1 / BW * 1e6, 1) == 89.5
    assert W_1 / P / (Q_1 / BW) < 0.005


def test_prefill():
    assert round(W_B / 1e9, 2) == 68.72
    assert Q_B == 2 * 33_554_432 == 67_108_864
    assert W_B / Q_B == 1024
    assert round(W_B / P * 1e6) == 874 and round(Q_B / BW * 1e6) == 179


@pytest.mark.parametrize(("D", "numerator", "denominator", "B"), [
    (4096, 860_160, 3676, 234), (2048, 430_080, 1628, 264)])
def test_crossover(D, numerator, denominator, B):
    assert (numerator, denominator) == (210 * D, D - 2 * 210)
    assert round(numerator / denominator) == B
    for b, above in ((B - 1, False), (B + 1, True)):
        W, Q = layer(b, D, D)
        assert (W / Q >= 210) == above


def test_rivals_move_the_crossover_by_a_third():
    assert round(P / 500e9) == 157 and round(P / 358e9) == 220
    assert round(crosses(N, N, P / 500e9)) == 170
    assert round(crosses(N, N, P / 358e9)) == 246
    assert round((246 - 170) / 234, 2) == 0.32


def test_int8_halves_the_time():
    W, Q = layer(1, N, N, p_w=1)
    assert round(W / Q, 1) == 2.0 and round(Q_1 / Q, 1) == 2.0


# --- the page's own answers ----------------------------------------------------------------------

# Llama 3.1 8B: D 4096, F 14336, 32 heads of 128, 8 kv heads; Qwen2.5 7B: 3584, 18944, 28 and 4
UP = layer(128, 4096, 14336)
INT8 = 2 * (N + N) + N * N
MHA = dict(W=4 * 8 * 32 * 4096 * 128, Q=2 * (2 * 8 * 32 * 4096 * 128 + 2 * 8 * 32 * 128))
GQA = 2 * (2 * 8 * 8 * 4096 * 128 + 2 * 8 * 32 * 128)
MLA = dict(W=2 * 128 * 8192 * (512 + 64 + 512), Q=2 * (128 * (576 + 512) + 8192 * 576))
BLOCK = 2 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
HALF = dict(W=2 * 2048 * 7168 * 4096, Q=2 * (2048 * 7168 + 7168 * 4096 + 2048 * 4096))
MOE = dict(W=6 * 256 * 2 * 4096 * 14336, Q=2 * (2 * 256 * 4096 + 3 * 8 * 4096 * 14336))
OWN = dict(W=4 * 4 * 28 * 32768 * 128, Q=2 * (2 * 4 * 4 * 32768 * 128 + 2 * 4 * 28 * 128))

NUMBERS = {
    "day2.open.bound": dict(I=6e9 / 150e6, ridge=RIDGE, binds="memory", T_best=150e6 / BW,
                            T_worst=6e9 / P + 150e6 / BW, rate=40 * BW),
    "day2.open.overlap": dict(ratio=(360 + 120) / 360, most=2, where="ridge"),
    "day2.open.ridge": dict(says="meanwhile", left="wait"),
    "day2.flops": dict(outputs=32 * 3072, each=1024, W=2 * 32 * 1024 * 3072),
    "day2.bytes": dict(cross="all", x=2 * 32 * 1024, weights=2 * 1024 * 3072, y=2 * 32 * 3072,
                       Q=2 * (32 * 1024 + 1024 * 3072 + 32 * 3072)),
    "day2.decode": dict(W=33_554_432, Q=33_570_816, I=1.0, T_flop=0.4267e-6, T_byte=89.52e-6,
                        side="memory", T_best="89.5 us", busy=0.4267 / 89.52),
    "day2.why_I_is_B": dict(uses=16, I_2=8, I_1=16, I_4=4, why="weight"),
    "day2.fade.prefill": dict(Q=67_108_864, I=1024, side="compute", T_flop=873.8e-6,
                              T_byte=178.96e-6, T_best="874 us"),
    "day2.crossover": dict(numerator=860_160, denominator=3676, B=234),
    "day2.fade.up_projection": dict(W=UP[0], Q=UP[1], I=UP[0] / UP[1], side="memory",
                                    B_ridge=crosses(4096, 14336, RIDGE)),
    "day2.rival_moves": dict(ridge_low=P / 358e9, ridge_high=P / 500e9, B_low=246, B_high=170.4,
                             apart=(246.07 - 170.37) / 233.64, more_BW="smaller"),
    "day2.batching": dict(I=2 * 16 * N * N / (2 * (2 * 16 * N + N * N)), side="memory",
                          T_best=2 * (2 * 16 * N + N * N) / BW,
                          each=2 * (2 * 16 * N + N * N) / BW / 16,
                          gain=16 * (2 * N + N * N) / (32 * N + N * N)),
    "day2.int8": dict(Q=INT8, I=W_1 / INT8, side="memory", T_best=INT8 / BW, faster=Q_1 / INT8,
                      scales=4 * N, lost=4 * N / N**2),
    "day2.kv_cache": dict(MHA, I=MHA["W"] / MHA["Q"], side="memory", T_best=MHA["Q"] / BW,
                          dominates="cache", batch="stays"),
    "day2.gqa": dict(g=4, Q=GQA, I=MHA["W"] / GQA, side="memory", T_best=GQA / BW,
                     faster=MHA["Q"] / GQA),
    "day2.mla": dict(mha=2 * 2 * 128 * 128, mla=2 * (512 + 64), smaller=65536 / 1152,
                     W=MLA["W"], I=MLA["W"] / MLA["Q"], side="compute"),
    "day2.long_context": dict(weights=BLOCK, token=2 * 2 * 8 * 128, L_one=BLOCK / 4096,
                              L_batch=BLOCK / 4096 / 32, shares="weights"),
    "day2.link": dict(T_flop=400e9 / P8, T_HBM=1.5e9 / BW8, T_link=1e9 / LINK, binds="link",
                      T_best=1e9 / LINK, rate=400e9 / (1e9 / LINK)),
    "day2.do.two_chips": dict(HALF, Q_link=2 * 2048 * 4096, T_flop=HALF["W"] / P8,
                              T_HBM=HALF["Q"] / BW8, T_link=2 * 2048 * 4096 / LINK,
                              binds="compute", T_best=HALF["W"] / P8),
    "day2.do.when_link_binds": dict(D_flop=2 * P8 / LINK, when="both",
                                    D_HBM=2 * (BW8 / LINK - 1) * 2048 * 4096 / (2048 + 4096)),
    "day2.more_P": dict(before=Q_1 / BW, after=Q_1 / BW, share=W_1 / (Q_1 / BW) / (2 * P),
                        prefill_before=W_B / P, prefill_after=W_B / (2 * P), helps="bytes"),
    "day2.gpu_tpu": dict(ridge_gpu=989.4 / 3.35, ridge_tpu=197e3 / 810,
                         decode_gpu=Q_1 / 3.35e12, decode_tpu=Q_1 / 810e9,
                         prefill_gpu=W_B / 989.4e12, prefill_tpu=W_B / 197e12, faster="gpu",
                         why="bw"),
    "day2.moe": dict(weights=2 * 8 * 3 * 4096 * 14336, each=2 * 256 / 8, I=MOE["W"] / MOE["Q"],
                     side="memory",  # 6 B k D F = ridge p (2 B D + 3 E D F)
                     B_ridge=RIDGE * 6 * 8 * 14336 / (12 * 14336 - RIDGE * 4)),
    "day2.do.redo": dict(W_1=W_1, Q_1=Q_1, I_1=W_1 / Q_1, T_1=Q_1 / BW, W_B=W_B, Q_B=Q_B,
                         I_B=1024, T_B=W_B / P, B_ridge=crosses(N, N, RIDGE)),
    "day2.do.up_projection": dict(ridge=RIDGE, I_most=3584 * 18944 / (3584 + 18944),
                                  reaches="yes", B_ridge=crosses(3584, 18944, RIDGE)),
    "day2.do.kv_cache": dict(OWN, I=OWN["W"] / OWN["Q"],
                             share=4 * 4 * 4 * 32768 * 128 / OWN["Q"], dominates="cache",
                             why="few"),
    "day2.check.2048": dict(numerator=430_080, denominator=1628, B=264, than_other="more_rows"),
}


@pytest.mark.parametrize("id", ["day2.crossover", "day2.do.redo"])
@pytest.mark.parametrize("ridge", [209.6, 209.7, 210, RIDGE])
def test_every_legal_ridge_is_right(id, ridge):
    name = "B" if id == "day2.crossover" else "B_ridge"
    exact = crosses(N, N, ridge)
    for B in (exact, round(exact), int(exact), int(exact) + 1):
        assert ask(id).check(**{name: B}).outcomes
    assert 233 <= exact <= 234


@pytest.mark.parametrize("D", [600, 1024, 1536])  # a narrow layer magnifies the ridge's rounding
@pytest.mark.parametrize("ridge", [78.6 / 0.375, 209.7, 210, RIDGE])
def test_every_legal_ridge_is_right_for_a_narrow_layer(D, ridge):
    exact = crosses(D, D, ridge)
    assert ask("day2.check.2048", D=D).check(B=exact).outcomes
    assert ask("day2.do.up_projection", D=D, F=D).check(B_ridge=exact).outcomes


@pytest.mark.parametrize(("D", "F", "reached"), [
    (4096, 4096, True), (420, 420, True), (419, 419, False), (300, 699, True), (300, 690, False),
    (1, 1, False), (209, 10**6, False), (211, 10**6, True)])
def test_any_width_is_answered(D, F, reached):
    # 1/D + 1/F < 1/ridge, or no batch is enough
    assert (1 / D + 1 / F < 1 / RIDGE) == reached
    for id in ("day2.do.up_projection", "day2.fade.up_projection"):
        q = ask(id, D=D, F=F)
        assert q.check(B_ridge=crosses(D, F, RIDGE) if reached else "never").outcomes
    if D == F:
        own = ask("day2.do.redo", D=D)
        assert own.check(B_ridge=crosses(D, F, RIDGE) if reached else "never").outcomes


# --- two chips: the transfer sets the time exactly where the condition says ----------------------

@pytest.mark.parametrize("B", [16, 128, 2048])
@pytest.mark.parametrize("F", [1024, 8192])
@pytest.mark.parametrize("link", [0.3e12, 1.28e12, 2.5e12])
def test_where_the_transfer_sets_the_time(B, F, link):
    D_flop, D_HBM = 2 * P8 / link, 2 * (BW8 / link - 1) * B * F / (B + F)
    for D in (2, 64, *(2 * int(edge * near / 2) for edge in (D_flop, D_HBM)
                       for near in (0.9, 1.1))):
        q = ask("day2.do.two_chips", B=B, D=max(D, 2), F=F, BW_link=link)
        binds = next(part.right for part in q.parts if part.name == "binds")
        assert (binds == "link") == (max(D, 2) < min(D_flop, D_HBM))


def test_a_link_as_fast_as_hbm_never_outlasts_it():
    assert ask("day2.do.when_link_binds", BW_link=BW8).check(D_HBM="never").outcomes


# --- the slips: what someone with that misconception would write ---------------------------------

SLIPS = {
    "day2.open.bound": [
        ("I", 150e6 / 6e9, "upside down"), ("ridge", 40, "instead of the machine's"),
        ("T_best", 6e9 / P, "shorter"), ("rate", 40 * 375e9 * 150e6 / 6e9, "bytes a second")],
    "day2.open.overlap": [
        ("ratio", 360 / 480, "upside down"), ("ratio", 480 / 120, "shorter"), ("most", 1, "longer"),
        ("most", 3, "third")],
    "day2.flops": [
        ("outputs", 32 * 1024, "size of x"), ("outputs", 1024 * 3072, "the weights"),
        ("outputs", 32 + 3072, "added"), ("each", 2048, "FLOPs counted"),
        ("each", 3072, "F in place"), ("each", 1024 * 3072, "a whole row"),
        ("W", 32 * 1024 * 3072, "as one FLOP"), ("W", 2 * 32 * 3072, "D multiply-adds"),
        ("W", 2 * 1024 * 3072, "one token"), ("W", 4 * 32 * 1024 * 3072, "counted twice")],
    "day2.bytes": [
        ("x", 32 * 1024, "elements"), ("x", 4 * 32 * 1024, "4 bytes"),
        ("x", 2 * 32 * 3072, "F columns"),
        ("weights", 1024 * 3072, "elements"), ("weights", 4 * 1024 * 3072, "4 bytes"),
        ("weights", 2 * 32 * 3072, "B"), ("y", 2 * 32 * 1024, "D columns"),
        ("Q", 2 * (32 * 1024 + 32 * 3072), "weights left"),
        ("Q", 2 * (32 * 1024 + 1024 * 3072), "y left"),
        ("Q", 2 * 1024 * 3072, "x and y both"),
        ("Q", 32 * 1024 + 1024 * 3072 + 32 * 3072, "elements")],
    "day2.decode": [
        ("W", N * N, "as one FLOP"), ("W", 2 * N, "D multiply-adds"), ("Q", Q_1 / 2, "elements"),
        ("Q", 2 * (N + N), "weights left"), ("Q", 2 * Q_1, "4 bytes"), ("I", 0.5, "as one FLOP"),
        ("I", 2, "by elements"), ("I", W_1 / (4 * N), "weights left"),
        ("T_flop", W_1 / BW, "by BW"), ("T_flop", W_1 / P * 4, "fp32's"),
        ("T_flop", W_1 / P8, "8 cores"), ("T_byte", Q_1 / P, "by P"),
        ("T_byte", Q_1 / BW8, "8 cores"), ("T_byte", Q_1 / (375 * 2**30), "GiB"),
        ("T_byte", 8 * Q_1 / BW, "factor 8"), ("T_flop", Q_1 / BW, "time of the bytes"),
        ("T_byte", W_1 / P, "time of the FLOPs"), ("busy", "0.5", "lost its %"),
        ("T_best", W_1 / P, "the shorter"),
        ("busy", 89.52 / 0.4267, "upside down"), ("busy", 1 - 0.00477, "idle"),
        ("busy", 0.477, "per cent")],
    "day2.why_I_is_B": [
        ("uses", 8, "as one FLOP"), ("uses", 2, "one token"), ("I_2", 4, "as one FLOP"),
        ("I_2", 16, "the bytes"), ("I_1", 8, "as in bf16"), ("I_4", 8, "as in bf16"),
        ("I_4", 16, "the bytes"),
        ("I_4", 2, "as one FLOP"), ("I_4", 1 / 4, "upside down")],
    "day2.fade.prefill": [
        ("Q", 2 * 2 * 2048 * N, "weights left"), ("Q", 2 * (2048 * N + N * N), "y left"),
        ("Q", 2 * Q_B, "4 bytes"), ("Q", 2 * (2 * 2048 * N + 2048 * N * N), "for every token"),
        ("I", 1 / 1024, "upside down"), ("I", 512, "as one FLOP"), ("I", 2048, "while B is small"),
        ("Q", 2 * N * N, "x and y left out"), ("T_byte", 2 * N * N / BW, "x and y left out"),
        ("T_flop", Q_B / BW, "time of the bytes"), ("T_byte", W_B / P, "time of the FLOPs"),
        ("T_best", Q_B / BW, "the shorter"), ("T_best", Q_B / BW + W_B / P, "T_worst"),
        ("T_best", W_B / P / 2, "as one FLOP"), ("T_best", W_B / P8, "8 cores")],
    "day2.crossover": [
        ("numerator", 2 * 860_160, "D doubled"), ("numerator", 210 * N * N, "D² kept"),
        ("denominator", N + 420, "other side"), ("denominator", N - 210, "x and y left"),
        ("denominator", 420, "D left out"), ("B", 210, "while B is small"),
        ("B", 420 * N / (N - 840), "as one FLOP"), ("B", 105 * N / (N - 210), "elements"),
        ("B", 210 * N / (N - 210), "x and y left"), ("B", 3676, "numerator"),
        ("B", 52.5 * N / (N - 105), "fp32's")],
    "day2.fade.up_projection": [
        ("Q", UP[1] - 2 * 4096 * 14336, "weights left"),
        ("Q", 2 * 4096 * 14336, "x and y both"), ("Q", "117 MB", "x and y both"),
        ("I", 128, "while B is small"),
        ("B_ridge", RIDGE, "while B is small"),
        ("B_ridge", crosses(4096, 14336, 2 * RIDGE), "as one FLOP")],
    "day2.rival_moves": [
        ("ridge_low", RIDGE, "page's own"), ("ridge_high", 500e9 / P, "upside down"),
        ("B_low", B_RIDGE, "page's own"), ("B_low", 170, "other number"),
        ("B_high", 157, "while B is small"), ("apart", (220 - 157) / 210, "ridges compared"),
        ("apart", 246 / 170, "a ratio"), ("apart", 246.07 / 170.37 - 1, "of the figure"),
        ("apart", (233.64 - 170.37) / 233.64, "one end")],
    "day2.batching": [
        ("I", 1, "one token"), ("I", 32, "by elements"),
        ("T_best", 16 * Q_1 / BW, "for every token"),
        ("T_best", 16 * W_1 / P, "the shorter"), ("each", 90.2e-6, "share that time"),
        ("gain", 1, "T_best compared"), ("gain", RIDGE, "the ridge"),
        ("gain", 1 / 15.88, "upside down")],
    "day2.int8": [
        ("Q", Q_1, "2 bytes a weight"), ("Q", Q_1 / 2 + N * N / 2 - N * N, "half"),
        ("I", 1, "2 bytes a weight"),
        ("I", 4, "W doubled"), ("T_best", 89.5e-6, "2 bytes a weight"), ("faster", 1, "fell"),
        ("faster", 4, "counted twice"), ("scales", 4 * N * N, "every weight"),
        ("scales", N, "bytes"),
        ("lost", 1 / N, "elements, not"), ("lost", 2 / N, "saved 1"),
        ("lost", N / 4, "upside down"), ("lost", 0.1, "lost its %")],
    "day2.kv_cache": [
        ("W", MHA["W"] / 2, "one product"), ("W", MHA["W"] / 32, "one head"),
        ("W", MHA["W"] * 4096, "L new tokens"), ("Q", MHA["Q"] / 2, "K and V"),
        ("Q", MHA["Q"] / 8, "one sequence's"), ("I", 8, "shared by"), ("I", 0.5, "one product"),
        ("I", RIDGE, "the machine's")],
    "day2.gqa": [
        ("g", 1 / 4, "upside down"), ("g", 32, "all query heads"), ("g", 8, "kv heads"),
        ("Q", MHA["Q"], "every query head"), ("I", 1, "one query head"),
        ("I", 32, "all query heads"),
        ("I", 8, "by elements"), ("T_best", MHA["Q"] / BW, "MHA's caches"),
        ("faster", 1, "bytes set"), ("faster", 32, "one head")],
    "day2.mla": [
        ("mha", 2 * 128 * 128, "K and V"), ("mha", 2 * 2 * 128, "one head"),
        ("mla", 576, "elements"), ("mla", 2 * 2 * 576, "at once"), ("mla", 2 * 512, "position"),
        ("smaller", 1152 / 65536, "upside down"), ("W", MLA["W"] / 2, "as one FLOP"),
        ("W", 4 * 128 * 8192 * 128, "sums over d"), ("I", MLA["W"] / MLA["Q"] / 128, "one head"),
        ("I", MLA["W"] / (8192 * 65536), "MHA cache")],
    "day2.long_context": [
        ("weights", 2 * 3 * 4096 * 14336, "projections"), ("weights", BLOCK / 2, "elements"),
        ("weights", BLOCK - 2 * 4096 * 14336, "three"), ("token", 2048, "K and V"),
        ("token", 4 * 4096, "every query head"), ("token", 2 * 4096, "row of x"),
        ("L_one", BLOCK / 4096 / 32, "one sequence"), ("L_batch", BLOCK / 4096, "one sequence's"),
        ("L_batch", 2 * BLOCK / 4096 / 32, "K and V")],
    "day2.link": [
        ("T_flop", 400e9 / P, "one core's"), ("T_HBM", 1.5e9 / LINK, "HBM's bytes over"),
        ("T_HBM", 1.5e9 / BW, "one core's"), ("T_link", 1e9 / BW8, "over HBM's"),
        ("T_link", 2.5e9 / LINK, "added up"), ("T_flop", 0.5e-3, "time of HBM's"),
        ("T_best", 400e9 / P8, "three roofs"),
        ("rate", P8, "three roofs"), ("rate", LINK, "bytes over")],
    "day2.do.two_chips": [
        ("W", 2 * HALF["W"], "all of D"), ("W", HALF["W"] / 2, "as one FLOP"),
        ("Q", 2 * (2048 * 14336 + 14336 * 4096 + 2048 * 4096), "all of x"),
        ("Q", HALF["Q"] - 2 * 2048 * 4096, "y left"), ("Q_link", 2048 * 4096, "way back"),
        ("Q_link", 4 * 2048 * 4096, "both devices"), ("Q_link", 2048 * 14336, "half of x"),
        ("T_link", 2 * 2048 * 4096 / BW8, "over HBM's")],
    "day2.do.when_link_binds": [
        ("D_flop", P8 / LINK, "p left out"),
        ("D_flop", 2 * P8 / BW8, "HBM's bandwidth"), ("D_flop", 2 * P / LINK, "one core's"),
        ("D_HBM", 2 * BW8 / LINK * 2048 * 4096 / 6144, "y left out"),
        ("D_HBM", 2 * P8 / LINK, "from the FLOPs")],
    "day2.more_P": [
        ("before", W_1 / P, "the shorter"), ("after", Q_1 / BW / 2, "fell with P"),
        ("share", W_1 / (Q_1 / BW) / P, "the new one"), ("share", 419.6, "upside down"),
        ("prefill_before", W_B / P + Q_B / BW, "T_worst"),
        ("prefill_after", W_B / P, "the old P"), ("prefill_after", W_B / P / 4, "counted twice")],
    "day2.gpu_tpu": [
        ("ridge_gpu", 3.35 / 989.4, "upside down"), ("ridge_gpu", 2 * 989.4 / 3.35, "sparse"),
        ("decode_gpu", W_1 / 989.4e12, "the shorter"), ("decode_tpu", Q_1 / 810e9 / 2, "elements"),
        ("prefill_gpu", W_B / 989.4e12 / 2, "as one FLOP"),
        ("prefill_tpu", Q_B / 810e9, "the shorter")],
    "day2.moe": [
        ("weights", 2 * 2 * 3 * 4096 * 14336, "of one token"),
        ("weights", 2 * 8 * 4096 * 14336, "three"),
        ("each", 32, "one expert"), ("each", 256, "a share"), ("I", 32, "one expert"),
        ("B_ridge", RIDGE, "dense layer"), ("B_ridge", 2 * 843, "one expert")],
    "day2.do.redo": [
        ("Q_1", Q_1 / 2, "elements"), ("I_B", 2048, "while B is small"),
        ("T_1", W_1 / P, "the shorter"),
        ("T_B", Q_B / BW, "the shorter"), ("B_ridge", 210, "while B is small")],
    "day2.do.up_projection": [
        ("ridge", BW / P, "upside down"), ("ridge", 2 * P / BW, "two cores"),
        ("ridge", P / 4 / BW, "fp32's"), ("I_most", 18944, "y left"),
        ("I_most", 3584, "x left"), ("B_ridge", RIDGE, "while B is small")],
    "day2.do.kv_cache": [
        ("W", OWN["W"] / 2, "one product"), ("Q", OWN["Q"] / 2, "K and V"),
        ("Q", OWN["Q"] * 7, "every query head"), ("I", 1, "each kv head"), ("I", 28, "shared by"),
        ("share", 0.5, "K and V")],
    "day2.check.2048": [
        ("numerator", 210 * 2048 * 2, "D doubled"), ("denominator", 2048 - 210, "x and y left"),
        ("B", 210, "while B is small"), ("B", 210 * 2048 / (2048 - 210), "x and y left")],
}


@pytest.mark.parametrize(("id", "name", "answer"), [
    ("day2.int8", "lost", "0.1 %"), ("day2.int8", "lost", "0.098 %"),
    ("day2.decode", "busy", "0.5 %"), ("day2.more_P", "share", "0.2 %")])
def test_a_small_share_may_have_one_digit(id, name, answer):
    assert ask(id).check(**{name: answer}).outcomes


def test_some_drawn_layers_never_reach_the_ridge():
    qs = [ask("day2.do.up_projection", seed) for seed in range(1, 40)]
    never = [1 / q.inputs["D"] + 1 / q.inputs["F"] > 1 / RIDGE for q in qs]
    assert 5 < sum(never) < 30
    for q, no in zip(qs, never, strict=True):
        assert q.check(reaches="no" if no else "yes").outcomes


def test_the_ridge_in_words_says_which_link_and_which_dtype():
    over_dma = {272e9, 368e9, 528e9}
    seen = set()
    for seed in range(40):
        q = ask("day2.open.ridge", seed)
        seen.add(q.inputs["BW"])
        assert ("over its DMA engines" in q.text) == (q.inputs["BW"] in over_dma)
        assert "bf16 number is two bytes" in q.parts[0].slips["uses"]
    assert over_dma < seen


@pytest.mark.parametrize("id", NUMBERS)
def test_a_part_named_like_code_has_a_prompt_for_people(id):
    symbols = {"W", "Q", "I", "ridge", "T_best", "T_worst"}
    for seed in range(8):
        for part in ask(id, seed).parts:
            assert part.label or part.name in symbols, part.name
            assert len(part.label) <= 48


# --- rivals: right for another bandwidth of HBM --------------------------------------------------

FIGURES = {"362.5 GB/s": 362.5e9, "358 GB/s": 358e9, "500 GB/s": 500e9}


@pytest.mark.parametrize(("figure", "bw"), FIGURES.items())
@pytest.mark.parametrize(("id", "name", "answer"), [
    ("day2.open.bound", "T_best", lambda bw: 150e6 / bw),
    ("day2.decode", "T_byte", lambda bw: Q_1 / bw),
    ("day2.decode", "T_best", lambda bw: Q_1 / bw),
    ("day2.fade.prefill", "T_byte", lambda bw: Q_B / bw),
    ("day2.crossover", "B", lambda bw: crosses(N, N, P / bw)),
    ("day2.do.redo", "B_ridge", lambda bw: crosses(N, N, P / bw)),
    ("day2.do.up_projection", "ridge", lambda bw: P / bw),
    ("day2.kv_cache", "T_best", lambda bw: MHA["Q"] / bw),
    ("day2.check.2048", "B", lambda bw: crosses(2048, 2048, P / bw))])
def test_an_answer_right_for_a_rival_is_told_so(id, name, answer, figure, bw):
    with pytest.raises(WrongAnswer) as wrong:
        ask(id).check(**{name: answer(bw)})
    line = repr(wrong.value).splitlines()[0]
    near = (figure, "362.5 GB/s") if figure == "358 GB/s" else (figure,)  # 1 % around each overlap
    assert any(f"{name}: right for BW = {f}" in line for f in near), line
    assert "not the figure this page uses" in line


def test_the_side_by_a_rival_is_told_so():
    # I is 200: left of 210, right of 157
    B = round(crosses(N, N, 200))
    q = ask("day2.fade.prefill", B=B)
    assert q.check(side="memory").outcomes
    with pytest.raises(WrongAnswer, match=r"Right for BW = 500 GB/s .*not the figure"):
        q.check(side="compute")


def test_an_own_bandwidth_has_no_rivals():
    q = ask("day2.decode", BW="340 GB/s")
    assert q.check(T_byte=Q_1 / 340e9).outcomes
    assert not any(part.rivals for part in q.parts if hasattr(part, "rivals"))


# --- every seed: the parts of one question fit each other ----------------------------------------

name_of = attrgetter("name")


@pytest.mark.parametrize("id", NUMBERS)
def test_parts_fit_each_other(id):
    slow = {"P": 1e9} if {"P", "BW"} <= set(ask(id).inputs) else {}
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
        if have("T_flop", "W", "P"):
            assert known["T_flop"] == pytest.approx(known["W"] / known["P"])
        if have("T_byte", "Q", "BW"):
            assert known["T_byte"] == pytest.approx(known["Q"] / known["BW"])
        if have("P", "BW", "W", "Q", "T_best") and "Q_link" not in known:
            assert known["T_best"] == pytest.approx(
                max(known["W"] / known["P"], known["Q"] / known["BW"]))
        if have("Q_link", "T_best"):
            assert known["T_best"] == pytest.approx(max(
                known["W"] / known["P"], known["Q"] / known["BW"],
                known["Q_link"] / known["BW_link"]))
        if have("numerator", "denominator", "B"):
            assert known["B"] == pytest.approx(known["numerator"] / known["denominator"])
