"""Numbers of vjepa2, as arithmetic a reader can redo. Nothing here comes from `problems`.

Sources of the figures: the V-JEPA 2 model's published widths (vision_transformer.py) and the clip
of its pretraining configuration (vitl16/pretrain-256px-16f.yaml: 16 frames of 256 x 256 pixels,
patches of 16 x 16 and 2 frames deep; the checkpoints' names say 64 frames), the Trn2 architecture
guide (array, clocks, 3 TB/s over 8 cores, 16 DMA engines of 23 GB/s a core).
"""

P, BW, DMA = 2 * 128 * 128 * 2 * 2.4e9, 2 * 3e12 / 8, 16 * 23e9  # of the pair; DMA of one core
TOKENS, D, F = 8 * 16 * 16, 1024, 4096
W = 4 * TOKENS * D * F
X, H, WEIGHTS = 2 * TOKENS * D, 2 * TOKENS * F, 2 * 2 * D * F  # bytes: x or y, h or g, both weights

# Q of the pair: x in, y out, the weights once or twice, h and g written and read
Q = {"fused_both": 2 * X + 2 * WEIGHTS, "unfused_both": 2 * X + 2 * WEIGHTS + 4 * H,
     "fused_split": 2 * X + WEIGHTS, "unfused_split": 2 * X + WEIGHTS + 4 * H}
FLOPS = W / P
WORST = {name: FLOPS + q / BW for name, q in Q.items()}
GELU = TOKENS * F / (128 * 1.2e9)  # on one core
GELU_BYTES = 2 * H / BW
FIRST = (WEIGHTS + 2 * 128 * D) / DMA

NUMBERS = {
    "vjepa2.tokens": dict(B=2048, W="34,359,738,368 FLOP", x="4,194,304 B", enters="B"),
    "vjepa2.both": dict(core="20,971,520 B", fused="41,943,040 B", unfused="109,051,904 B",
                        twice="weights"),
    "vjepa2.split": dict(fused="25,165,824 B", unfused="92,274,688 B", sent="16,777,216 B",
                         cut="F"),
    "vjepa2.entitled": dict(T_best=218.5e-6, fused_both=274.4e-6, unfused_both=363.9e-6,
                            fused_split=252.0e-6, unfused_split=341.5e-6, same="yes"),
    "vjepa2.gelu": dict(core=54.6e-6, pair=27.3e-6, evict=TOKENS * D / 2 / (128 * 0.96e9),
                        share=GELU / 2 / FLOPS, binds="tensor"),
    "vjepa2.launches": dict(up=FLOPS / 2, gelu=GELU_BYTES, down=FLOPS / 2,
                            total=FLOPS + GELU_BYTES, why="alone"),
    "vjepa2.scope": dict(mfu=FLOPS / 300e-6, core=2 * FLOPS / 300e-6, chip=FLOPS / 4 / 300e-6,
                         over=40 / 24 - 1, shows="core"),
    "vjepa2.saves": dict(less="16 MiB", T_less=WEIGHTS / BW, before="40 MiB", after="40 MiB",
                         T_best=FLOPS, promise="nothing"),
    "vjepa2.first": dict(all=FIRST, soon=FIRST - WEIGHTS / 2 / DMA, less=WEIGHTS / 2 / DMA,
                         grows="dma"),
    "vjepa2.verdict": dict(gap=330e-6 - FLOPS, share=48.5e-6 / (330e-6 - FLOPS), mfu=FLOPS / 330e-6,
                           left=281.5e-6, mend="order"),
}

SLIPS = {
    "vjepa2.tokens": [("B", 4096, "each frame cut by itself"), ("B", 256, "of one frame"),
                      ("W", W / 2, "one of the two projections"), ("x", H, "F numbers a token")],
    "vjepa2.both": [("core", X + WEIGHTS // 2, "each core loads all of them"),
                    ("fused", Q["fused_split"], "though both cores load them"),
                    ("unfused", Q["unfused_split"], "though both cores load them"),
                    ("unfused", Q["fused_both"], "h and g left out")],
    "vjepa2.split": [("fused", Q["fused_both"], "weights counted twice"),
                     ("unfused", Q["unfused_split"] / 2, "elements counted"),
                     ("sent", 2 * WEIGHTS, "all of the weights both ways")],
    "vjepa2.entitled": [("T_best", 2 * FLOPS, "one core's P and BW"),
                        ("fused_both", FLOPS + 2 * Q["fused_both"] / BW, "one core's BW"),
                        ("unfused_split", FLOPS, "as with full overlap")],
    "vjepa2.gelu": [("core", 2 * GELU, "h and g both counted"), ("pair", GELU, "all of the tokens"),
                    ("evict", TOKENS * F / 2 / (128 * 0.96e9), "B F sums"),
                    ("share", GELU / FLOPS, "GELU on one core")],
    "vjepa2.launches": [("up", FLOPS, "the W of both"), ("gelu", 2 * GELU_BYTES, "one core's BW"),
                        ("total", FLOPS, "GELU left out")],
    "vjepa2.scope": [("mfu", 2 * FLOPS / 300e-6, "one core's P"),
                     ("chip", FLOPS / 8 / 300e-6, "taken 8 times"),
                     ("over", 16 / 40, "the second load over Q")],
    "vjepa2.saves": [("less", WEIGHTS / 2, "one of the two matrices"),
                     ("T_less", 2 * WEIGHTS / BW, "one core's BW"),
                     ("after", 24 * 2**20, "HBM's bytes alone")],
    "vjepa2.first": [("all", FIRST - WEIGHTS / 2 / DMA, "one of the two matrices"),
                     ("soon", FIRST, "W_down too"), ("less", WEIGHTS / DMA, "both matrices")],
    "vjepa2.verdict": [("gap", 330e-6, "the time itself"), ("share", 48.5 / 330, "over T"),
                       ("left", FLOPS, "the other rows stay")],
}


def test_the_numbers_of_the_case_study():
    """As its source prints them: one core at 78.6 TFLOP/s and 375 GB/s, then the pair."""
    core = 1e6 * W / 78.6e12, 1e6 * Q["fused_split"] / 375e9, 1e6 * Q["unfused_split"] / 375e9
    flop, fused, unfused = (round(t, 1) for t in core)
    assert (flop, round(flop + fused, 1), round(flop + unfused, 1)) == (437.1, 504.2, 683.2)
    assert (round(core[0] + core[1], 1), round(core[0] + core[2], 1)) == (504.3, 683.2)
    assert P == 157.2864e12 and BW == 750e9 and TOKENS == 2048
    assert round(1e6 * FLOPS, 1) == 218.5
    assert {name: round(1e6 * t, 1) for name, t in WORST.items()} == {
        "fused_both": 274.4, "unfused_both": 363.9, "fused_split": 252.0, "unfused_split": 341.5}
    assert list(Q.values()) == [41_943_040, 109_051_904, 25_165_824, 92_274_688]
    assert round(1e6 * GELU, 1) == 54.6
