"""Numbers of day7_swiglu, as arithmetic a reader can redo. Nothing here comes from `problems`.

Sources of the figures: the NKI architecture guide of Trainium and Inferentia2 (array, clocks, 820
GB/s of two cores, SBUF, rates of the engines), the config.json of Qwen3-0.6B and of Llama-3.1-8B,
and for F01 the profile that zhang677/AccelOpt published.
"""

MIB = 2**20
P, BW = 128 * 128 * 2 * 2.8e9, 820e9 / 2  # one core of inf2, bf16
FP32 = P / 4
SCALAR, VECTOR = 128 * 1.4e9, 128 * 1.12e9  # elements a second

# The MLP of Qwen3-0.6B, 2048 tokens, bf16
B, D, F = 2048, 1024, 3072
W = 6 * B * D * F
READ, WRITTEN = 2 * (B * D + 3 * D * F), 2 * B * D
Q = READ + WRITTEN
APART = 2 * (3 * B * D + 3 * D * F + 6 * B * F)
SMALL, LARGE = 3 * 2 * D * F, 3 * 2 * 4096 * 14336
FLOPS, BYTES = W / P, Q / BW  # times

# gate and up: 8 x 24 stationary tiles for each block; down: 24 x 2 for each 128 tokens
DOWN = 24 * 2 * 16
BEFORE, AFTER = 2 * 8 * 24 * 16 + DOWN, 2 * 8 * 24 * 4 + DOWN
EACH = 450e-6 / 6912

# fp32, 4096 tokens, weights once for each block of 512
W_4096 = 6 * 4096 * D * F
STREAMED = 4 * (2 * 4096 * D + 8 * 3 * D * F)
F01, MOVED = 4221.8e-6, 225_509_376

NUMBERS: dict = {
    "day7.swiglu.hand": dict(W="38,654,705,664 FLOP", read="23,068,672 B", written="4 MiB",
                             Q="27,262,976 B", I=W / Q),
    "day7.swiglu.fits": dict(small="18 MiB", large="336 MiB", share=18 / 24, stays="small"),
    "day7.swiglu.entitled": dict(T_flop=FLOPS, T_byte=BYTES, T_best=FLOPS, T_worst=FLOPS + BYTES,
                                 side="compute", needs=Q / FLOPS),
    "day7.swiglu.engines": dict(T_scalar=B * F / SCALAR, T_vector=2 * B * F / VECTOR,
                                binds="tensor", D_even=2 * P / (6 * VECTOR)),
    "day7.swiglu.held": dict(gap=780e-6 - FLOPS, mfu=FLOPS / 780e-6, used=BYTES / 780e-6,
                             half="same", says="none"),
    "day7.swiglu.change": dict(before=6912, after=2304, each=EACH,
                               T_new=950e-6 - 450e-6 * 4608 / 6912),
    "day7.swiglu.streamed": dict(weights="36 MiB", times=8, Q="335,544,320 B",
                                 I=W_4096 / STREAMED, ridge=FP32 / BW, T_best=W_4096 / FP32,
                                 side="compute"),
    "day7.swiglu.published": dict(share=W_4096 / FP32 / F01, I_moved=W_4096 / MOVED,
                                  ratio=STREAMED / MOVED, shorter="same"),
}

SLIPS: dict = {
    "day7.swiglu.hand": [("W", 4 * B * D * F, "gate or up left out"), ("W", W / 2, "one FLOP"),
                         ("read", READ - 2 * D * F, "two weight matrices"),
                         ("read", READ + 2 * B * D, "x read twice"),
                         ("written", 2 * B * F, "F columns"), ("Q", APART, "four kernels"),
                         ("Q", Q / 2, "elements"), ("I", W / APART, "four kernels"),
                         ("I", Q / W, "upside down")],
    "day7.swiglu.fits": [("small", SMALL * 2 / 3, "without a gate"),
                         ("large", LARGE / 3, "one matrix"),
                         ("share", 12 / 24, "two matrices"), ("share", 24 / 18, "upside down")],
    "day7.swiglu.entitled": [("T_flop", 4 * FLOPS, "fp32"), ("T_byte", Q / 272e9, "DMA engines"),
                             ("T_best", BYTES, "shorter"), ("T_worst", FLOPS, "longer"),
                             ("needs", BW, "BW itself")],
    "day7.swiglu.engines": [("T_scalar", B * D / SCALAR, "D columns"),
                            ("T_vector", B * F / VECTOR, "one cycle"),
                            ("D_even", 3 * 2 * P / (6 * VECTOR), "one projection")],
    "day7.swiglu.held": [("gap", 780e-6 - FLOPS - BYTES, "T_worst"),
                         ("mfu", 780e-6 / FLOPS, "upside down"),
                         ("used", BYTES / FLOPS, "T_best in place of T")],
    "day7.swiglu.change": [("before", 6144, "down left out"),
                           ("before", 6912 - 3072, "one of gate"),
                           ("after", 1536, "down left out"), ("each", 950e-6 / 6912, "all of T"),
                           ("each", 450e-6 / 2304, "after the change"),
                           ("T_new", 500e-6, "no fixed cost"), ("T_new", 950e-6 / 3, "all of T"),
                           ("T_new", 950e-6 - 0.75 * 450e-6, "down too")],
    "day7.swiglu.streamed": [("weights", "18 MiB", "bf16"), ("times", 32, "128 rows"),
                             ("Q", 4 * (2 * 4096 * D + 3 * D * F), "once"),
                             ("I", W_4096 / (4 * (2 * 4096 * D + 3 * D * F)), "once"),
                             ("ridge", P / BW, "bf16"), ("T_best", STREAMED / BW, "shorter")],
    "day7.swiglu.published": [("share", F01 * FP32 / W_4096, "upside down"),
                              ("I_moved", W_4096 / STREAMED, "our kernel"),
                              ("ratio", MOVED / STREAMED, "upside down")],
}
