"""Numbers of day7_matmul, as arithmetic a reader can redo. Nothing here comes from `problems`.

Published: M14 of trn1 (pantheonneuron's validation log of 2026-09-10), M01 and M08 of trn2
(nki-autotune's kernel library and design notes); see sources.md.
"""

N = 2048
W = 2 * N**3
MATRIX = 2 * N * N  # bytes of A, of B and of C, in bf16
P = 128 * 128 * 2 * 2.8e9  # one NeuronCore-v2
BW, DMA = 820e9 / 2, 16 * 17e9
RELOAD, C_STAYS, ONCE = MATRIX * (4 + 16 + 1), MATRIX * (2 + 4 + 1), MATRIX * 3

TRN2_P, TRN2_BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8
TRN2_WORST = W / TRN2_P + MATRIX * (4 + 4 + 1) / TRN2_BW  # a block of C, 512 x 512, stays
BIG = 2 * 4096 * 4096  # bytes of a matrix of the published trn1 case

# The change: loads of B are [128, 2048], of A [128, 512]; 16 of each are B and a block of A
LOAD_B, LOAD_A = 2 * 128 * N, 2 * 128 * 512
ROW = W / 16 / P
ARRIVED = 16 * (LOAD_A + LOAD_B) / DMA
APART = (16 * LOAD_B + LOAD_A) / DMA + ROW
TURNS = ARRIVED + ROW / 16

NUMBERS: dict = {
    "day7.matmul.work": dict(each=2 * 128 * 128 * 512, times=16 * 16 * 4, W=17_179_869_184,
                             T_flop=187.2e-6, least="same"),
    "day7.matmul.c_stays": dict(r_A=2, r_B=4, Q=58_720_256, I=292.6, banks=8),
    "day7.matmul.once": dict(one="128 KiB", times=64, Q="25,165,824 B", I=682.7,
                             resident="10.5 MiB", share=10.5 / 24),
    "day7.matmul.entitled": dict(ridge=224, T_1=RELOAD / BW, T_2=W / P, T_3=W / P, gains="none"),
    "day7.matmul.engines": dict(D_1=RELOAD / DMA, D_2=C_STAYS / DMA, D_3=ONCE / DMA,
                                turns="second"),
    "day7.matmul.hypotheses": dict(Q_A=MATRIX * 18, Q_B=MATRIX * 6, Q_AB=MATRIX * 3,
                                   saved=(RELOAD - 110e6) / (RELOAD - ONCE), model="nothing"),
    "day7.matmul.published_bytes": dict(Q_code=BIG * 34, Q_least=BIG * 3,
                                        saved=(BIG * 34 - 631.3e6) / (BIG * 31),
                                        mean=631.3e6 / 247_017, moved=631.3e6 / 3753.1e-6,
                                        fits="neither"),
    "day7.matmul.same_work": dict(share_slow="16 %", share_fast="90.9 %",
                                  T_worst=TRN2_WORST, rest=1365.4e-6 - TRN2_WORST,
                                  row_slow="dma", row_psum="vector"),
    "day7.matmul.arrive": dict(sooner=15 * LOAD_B / DMA, arrived=ARRIVED, row=ROW,
                               done_apart=APART, done_turns=TURNS, gain=APART - TURNS,
                               more="fewer"),
}

SLIPS: dict = {
    "day7.matmul.work": [("W", N**3, "one FLOP"),
                         ("times", 16 * 4, "the loop over K"), ("T_flop", W / 2 / P, "both cores")],
    "day7.matmul.c_stays": [("r_A", 4, "other side of the block"), ("r_B", 1, "does not keep"),
                            ("Q", MATRIX * 3, "each operand loaded once"),
                            ("banks", 32, "tiles of 128 columns")],
    "day7.matmul.once": [("Q", 2 * MATRIX, "C left out"), ("times", 16, "one block"),
                         ("resident", 2.5 * 2**20, "B left out"), ("share", 8 / 24, "B alone")],
    "day7.matmul.entitled": [("T_1", W / P, "shorter of the two"),
                             ("T_2", W / P + C_STAYS / BW, "added"),
                             ("ridge", BW / P, "upside down")],
    "day7.matmul.engines": [("D_2", C_STAYS / BW, "HBM's bandwidth"),
                            ("D_1", 16 * RELOAD / DMA, "one engine")],
    "day7.matmul.hypotheses": [("Q_A", MATRIX * 6, "the other operand kept"),
                               ("Q_B", MATRIX * 5, "it crosses once"),
                               ("saved", (RELOAD - 110e6) / RELOAD, "over all of Q")],
    "day7.matmul.published_bytes": [("Q_code", BIG * (32 + 32 + 1), "A reloaded"),
                                    ("saved", 1 - 631.3e6 / (BIG * 34), "not over the reloads"),
                                    ("moved", BIG * 34 / 3753.1e-6, "the code's bytes")],
    "day7.matmul.same_work": [("share_slow", W / 240.3e-6 / TRN2_P, "the other kernel"),
                              ("T_worst", W / TRN2_P, "longer"),
                              ("rest", 1365.4e-6 - W / TRN2_P, "beyond W / P")],
    "day7.matmul.arrive": [("sooner", 16 * LOAD_B / DMA, "one load of it is still"),
                           ("done_turns", APART - 15 * LOAD_B / DMA, "nothing waits"),
                           ("gain", 15 * LOAD_B / DMA, "the first matmul gains")],
}
