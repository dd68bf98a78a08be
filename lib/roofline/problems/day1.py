"""Day 1: the roofline model.

Question  can the reader derive both times, place an op and read what the plot says?
Answer    PROBLEMS, in the page's order; ids begin with day1.
Assumes   one slow link, decimal prefixes, a multiply-add is 2 FLOPs; fp32 unless said
Ignores   Trainium (from Day 2 on)
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from .. import machine
from ..check import AnyPart, Choice, Part, Text, collect, problem
from ..ops import BYTES, Add, Dot, LayerNorm, Matmul, SpMV
from ..units import show

flop, byte, time, rate, band, per_byte, clock = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B", "Hz"))

DESKTOP = machine.desktop
CORES, FMA_UNITS, LANES, CHANNELS = (
    int(DESKTOP.facts[name].value)
    for name in ("cores", "fma_units", "simd_lanes", "dram_channels"))
LINE = int(DESKTOP.facts["line_bytes"].value)

# The worked-example machine's roofs, as inputs of a problem: a reader may give other ones.
ROOFS = {"P": DESKTOP.peak("fp32"), "BW": DESKTOP.bw()}
ROOF_UNITS = {"P": "FLOP/s", "BW": "B/s"}
FP32 = BYTES["fp32"]


# --- what several problems ask ------------------------------------------------------------------

def _intensity(W: float, Q: float, slips: Mapping[str, float],
               rivals: Mapping[str, float] | None = None) -> Part:
    return Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {"FLOPs go on top, bytes below": Q / W, **slips}, rivals or {})


def _ridge(P: float, BW: float, I: float) -> Part:
    return Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
                {"P goes on top, BW below": BW / P,
                 "W / Q is the kernel's number; the ridge is the machine's": I,
                 "the prefixes differ: 1 T is 1000 G": P / BW / 1000})


def _side(I: float, ridge: float) -> Choice:
    memory = ridge > I
    return Choice("side", "memory" if memory else "compute",
                  {"memory": "left of the ridge: memory-bound",
                   "compute": "right of the ridge: compute-bound"},
                  f"I is {per_byte(I)}, the ridge {per_byte(ridge)}.",
                  {"compute": "The machine could do more FLOPs in the time of a byte than this "
                              "op has for it."} if memory else
                  {"memory": "The op has more FLOPs for a byte than the machine can do in the "
                             "byte's time."})


def _best(W: float, Q: float, P: float, BW: float) -> Part:
    short, long = sorted((W / P, Q / BW))
    slips = {"the longer of the two times sets the pace": short,
             "FLOPs go with P and bytes with BW": max(W / BW, Q / P)}
    if short > 0.15 * long:
        slips["with full overlap the two times do not add up"] = short + long
    elif short == W / P:  # memory-bound
        slips["Q is in bytes and BW in bytes a second: no factor 8"] = 8 * long
    else:
        slips["P counts a multiply and an add as 2, and so does W"] = long / 2
    return Part("T_best", long, "s",
                f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})", slips)


def _place(W: int, Q: int, P: float, BW: float, slips: Mapping[str, float],
           rivals: Mapping[str, float] | None = None) -> Iterator[AnyPart]:
    yield _intensity(W, Q, slips, rivals)
    yield _ridge(P, BW, W / Q)
    yield _side(W / Q, P / BW)
    yield _best(W, Q, P, BW)


# --- the model ----------------------------------------------------------------------------------

@problem(
    "day1.bound",
    ask="A machine has P = {P} and BW = {BW}. A kernel does W = {W} and moves Q = {Q} over the "
        "slow link. Find its intensity I, the ridge, the roof that binds, the time with full "
        "overlap (T_best), the time with none (T_worst) and the entitled rate W / T_best.",
    fixed=dict(P=1e12, BW=100e9, W=2e9, Q=400e6), units=dict(ROOF_UNITS, W="FLOP", Q="B"),
    draw=lambda r: dict(
        P=r.choice((0.5e12, 1e12, 2e12, 4e12, 8e12)), BW=r.choice((50e9, 80e9, 200e9, 400e9)),
        W=r.choice((1e9, 3e9, 5e9, 6e9, 8e9)), Q=r.choice((50e6, 150e6, 200e6, 300e6, 700e6))))
def bound(P: float, BW: float, W: float, Q: float) -> Iterator[AnyPart]:
    t_flop, t_byte = W / P, Q / BW
    best, worst = max(t_flop, t_byte), t_flop + t_byte
    memory = t_byte > t_flop
    yield _intensity(W, Q, {"P / BW is the machine's number; I is the kernel's": P / BW,
                            "Q is in bytes already, so no factor 8 for bits": W / Q / 8})
    yield _ridge(P, BW, W / Q)
    yield Choice("binds", "memory" if memory else "compute",
                 {"compute": "the flat roof, P", "memory": "the slanted roof, I × BW",
                  "both": "both alike"},
                 f"I is {'left' if memory else 'right'} of the ridge ({per_byte(W / Q)}, "
                 f"{per_byte(P / BW)}): {'moving' if memory else 'computing'} takes longer.",
                 {"compute" if memory else "memory":
                  "Compare I with the ridge: left of it moving takes longer, right of it "
                  "computing does.",
                  "both": "Both roofs bind alike only exactly at the ridge."})
    yield Part("T_best", best, "s",
               f"max(W / P, Q / BW) = max({time(t_flop)}, {time(t_byte)})",
               {"with full overlap the two times do not add up": worst,
                "the longer of the two times sets the pace": min(t_flop, t_byte),
                "FLOPs go with P and bytes with BW": max(W / BW, Q / P)})
    yield Part("T_worst", worst, "s", f"W / P + Q / BW = {time(t_flop)} + {time(t_byte)}",
               {"without overlap one waits for the other": best,
                "twice T_best is the most it could be, not what it is here": 2 * best,
                "FLOPs go with P and bytes with BW": W / BW + Q / P})
    yield Part("rate", W / best, "FLOP/s", f"W / T_best = {flop(W)} / {time(best)}",
               {"the entitlement takes T_best, not T_worst": W / worst,
                "the entitlement is the lower of the two roofs": max(P, W / Q * BW),
                "W over the time, not Q over the time": Q / best})


@problem(
    "day1.slope",
    ask="The slanted roof is y = I × BW, drawn on log-log axes. Why is its slope 1, and in which "
        "unit is y?")
def slope() -> Iterator[AnyPart]:
    yield Choice("why", "sum",
                 {"ridge": "it has to meet P at the ridge, and that fixes the slope",
                  "bw": "the slope is BW, and here BW is scaled to 1",
                  "sum": "log y = log I + log BW: a step in log I is an equal step in log y",
                  "equal": "both axes have the same unit"},
                 "log y = log I + log BW, and BW only shifts the line up or down.",
                 {"ridge": "The lines meet wherever they cross: the ridge follows from the slope "
                           "and does not set it.",
                  "bw": "BW is the slope on linear axes. On log axes it is the height.",
                  "equal": "The axes differ: FLOP/B across, FLOP/s up."})
    yield Text("unit", "FLOP/s",
               (r"flops?\s*(/|per)\s*s(ec(ond)?)?\b", r"\b[kMGTP]?flops$"),
               "FLOP/B × B/s = FLOP/s, the unit of the flat roof.",
               {r"flops?\s*(/|per)\s*b": "That is the unit of I. Multiply it by the unit of BW.",
                r"\b[kMGTP]?(b|bytes?)\s*(/|per)\s*s": "That is the unit of BW. Multiply it by "
                                                       "that of I.",
                r"\bno(ne| unit)|dimensionless": "The slope has no unit, but y has one."})


@problem("day1.log_axes", ask="Why does a roofline have logarithmic axes?")
def log_axes() -> Iterator[AnyPart]:
    yield Choice("why", "span",
                 {"flatter": "they keep slow kernels from looking too slow",
                  "times": "times add up on a log axis, so T_worst can be read off",
                  "span": "I and FLOP/s span powers of ten, and a product becomes a straight line",
                  "exact": "the bound is more exact on them near the ridge"},
                 "Kernels differ in I by factors of a thousand, machines in FLOP/s by more; and "
                 "y = I × BW becomes a line.",
                 {"flatter": "A kernel at a tenth of its roof stays a tenth: a log axis shows "
                             "ratios.",
                  "times": "On a log axis products add up. T_worst is a sum of times.",
                  "exact": "The bound is the same formula on any axes; only the picture changes."})


@problem(
    "day1.ridge_words",
    ask="A machine has P = {P} and BW = {BW}. What does its ridge say, and what happens left "
        "of it?",
    fixed=ROOFS, units=ROOF_UNITS)
def ridge_words(P: float, BW: float) -> Iterator[AnyPart]:
    ridge = f"{P / BW:.3g}"
    yield Choice("says", "meanwhile",
                 {"uses": f"every byte must be used {ridge} times",
                  "meanwhile": f"while one byte arrives, the machine can do {ridge} FLOPs",
                  "summit": f"kernels run best at {ridge} FLOP/B and slower on both sides",
                  "fits": f"beyond {ridge} FLOP/B the data no longer fits in fast memory"},
                 "P / BW is FLOPs a second over bytes a second: FLOPs in the time of one byte.",
                 {"uses": "It counts FLOPs, not uses. One fp32 number is four bytes, and one use "
                          "may be two FLOPs.",
                  "summit": "Right of the ridge the roof stays at P: nothing gets slower there.",
                  "fits": "Neither P nor BW knows how large the data is."})
    yield Choice("left", "wait",
                 {"wait": "the arithmetic units wait for data",
                  "idle": "the memory waits for the arithmetic units",
                  "overlap": "nothing waits, because moving and computing overlap"},
                 "Left of the ridge a byte brings fewer FLOPs than the machine does meanwhile.",
                 {"idle": "That is the right of the ridge: there the FLOPs take longer.",
                  "overlap": "Even with full overlap the shorter of the two has nothing to do for "
                             "a while."})


@problem(
    "day1.bytes_count",
    ask="A loop goes {passes} times over an array and only reads it. The last-level cache holds "
        "{cache}. How many bytes does that add to Q when the array has {small}, and when it has "
        "{large}? And which of these events adds to Q?",
    fixed=dict(passes=4, cache=int(DESKTOP.facts["l3_bytes"].value), small=16_000_000,
               large=400_000_000),
    units=dict(cache="B", small="B", large="B"),
    draw=lambda r: dict(passes=r.choice((4, 5, 6, 8)), small=r.choice((4, 8, 12, 20)) * 10**6,
                        large=r.choice((100, 200, 500, 800)) * 10**6))
def bytes_count(passes: int, cache: int, small: int, large: int) -> Iterator[AnyPart]:
    if not small <= cache < large:
        raise ValueError("small has to fit in the cache, large must not")
    yield Part("Q_small", small, "B", f"small × 1 = {byte(small)} × 1\n"
               "The first pass fetches it; the later ones find it in cache.",
               {"passes after the first find it in cache": passes * small,
                "the first pass misses too": (passes - 1) * small,
                "it is read and not written back": 2 * small})
    yield Part("Q_large", passes * large, "B", f"large × passes = {byte(large)} × {passes}\n"
               "Its beginning is gone from cache when the next pass needs it.",
               {"it does not fit, so the next pass finds none of it": large,
                "the first pass misses too": (passes - 1) * large,
                "it is read and not written back": 2 * passes * large})
    yield Choice("adds", "reload",
                 {"hit": "a value that is still in cache is read again",
                  "register": "a value goes from cache into a register",
                  "flop": "a sum in a register takes one more addend that is in cache",
                  "reload": "a value that was evicted is read again"},
                 "Only what crosses the slow link counts; an evicted value crosses once more.",
                 {"hit": "It does not cross the slow link, so it is free in this model.",
                  "register": "That is a faster link; Q counts the slow one.",
                  "flop": "That adds to W. Nothing crosses the slow link."})


# --- W, Q and I of six ops ----------------------------------------------------------------------

@problem(
    "day1.dot",
    ask="Dot product of two fp32 vectors of n = {n} elements, on a machine with P = {P} and "
        "BW = {BW}. The sum stays in a register. Find W, Q, I and the side of the ridge.",
    fixed=dict(ROOFS, n=100_000_000), units=ROOF_UNITS,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6))
def dot(P: float, BW: float, n: int) -> Iterator[AnyPart]:
    count = Dot(n, "fp32").algorithmic
    W, Q = count.flops, count.hbm_bytes
    yield Part("W", W, "FLOP", f"2 n = 2 × {n:,}",
               {"a multiply and an add are two FLOPs": n, "W counts FLOPs, not bytes": Q,
                "n multiplies and n adds, for the pair of vectors": 4 * n})
    yield Part("Q", Q, "B", f"4 B × (n + n) = 4 B × ({n:,} + {n:,})",
               {"both vectors are read": Q / 2, "Q counts bytes, not elements": Q / FP32,
                "the result is one number, not a vector": 1.5 * Q,
                "an fp32 number has 4 bytes": 2 * Q})
    yield _intensity(W, Q, {"a multiply and an add are two FLOPs": W / 2 / Q,
                            "divide by bytes, not by elements": FP32 * W / Q,
                            "both vectors are read": 2 * W / Q})
    yield _side(W / Q, P / BW)


@problem(
    "day1.add",
    ask="c = a + b, elementwise, fp32, n = {n} elements each, on a machine with P = {P} and "
        "BW = {BW}. Count what the op itself needs: a and b read, c written. Find W, Q, I and "
        "the side of the ridge.",
    fixed=dict(ROOFS, n=100_000_000), units=ROOF_UNITS,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6))
def add(P: float, BW: float, n: int) -> Iterator[AnyPart]:
    count = Add(n, "fp32").algorithmic
    W, Q = count.flops, count.hbm_bytes
    fetched = "a cache that reads c's lines before it writes them"
    yield Part("W", W, "FLOP", f"n = {n:,}",
               {"one add an element, and no multiply": 2 * n, "W counts FLOPs, not bytes": Q,
                "two inputs meet in one add; c is its result": 3 * n})
    yield Part("Q", Q, "B", f"4 B × (n + n + n) = 4 B × ({n:,} + {n:,} + {n:,})",
               {"c is written too": 2 * FP32 * n, "Q counts bytes, not elements": 3 * n,
                "an fp32 number has 4 bytes": 2 * Q}, {fetched: Q + FP32 * n})
    yield _intensity(W, Q, {"one add an element, and no multiply": 2 * W / Q,
                            "c is written too": W / (2 * FP32 * n),
                            "divide by bytes, not by elements": FP32 * W / Q},
                     {fetched: W / (Q + FP32 * n)})
    yield _side(W / Q, P / BW)


@problem(
    "day1.spmv",
    ask="y = A x with a sparse A in CSR form: {rows} rows and columns, {nonzeros} stored values. "
        "Values are fp32, column numbers and row starts int32. Each element of x is fetched from "
        "memory once. P = {P}, BW = {BW}. Find W, Q, I and the side of the ridge.",
    fixed=dict(ROOFS, rows=1_000_000, nonzeros=16_000_000), units=ROOF_UNITS,
    draw=lambda r: dict(rows=10**6, nonzeros=r.randrange(6, 30) * 10**6))
def spmv(P: float, BW: float, rows: int, nonzeros: int) -> Iterator[AnyPart]:
    if nonzeros > rows * rows:
        raise ValueError(f"{rows:,} rows and columns hold at most {rows * rows:,} values")
    count = SpMV(rows, nonzeros).algorithmic
    W, Q = count.flops, count.hbm_bytes
    wrong = {"each stored value has a column number of 4 bytes": Q - 4 * nonzeros,
             "x is fetched once; its reuse comes from cache": Q + 4 * (nonzeros - rows),
             "every array here has 4 bytes an element": 2 * Q}
    yield Part("W", W, "FLOP", f"2 nonzeros = 2 × {nonzeros:,}",
               {"a multiply and an add are two FLOPs": W / 2,
                "zeros are neither stored nor multiplied": 2 * rows * rows,
                "W counts FLOPs, not bytes": Q})
    yield Part("Q", Q, "B",
               f"values + columns + row starts + x + y = 4 B × ({nonzeros:,} + {nonzeros:,} + "
               f"{rows + 1:,} + {rows:,} + {rows:,})",
               {**wrong, "Q counts bytes, not elements": Q / 4})
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()})
    yield _side(W / Q, P / BW)


@problem(
    "day1.fade.layernorm",
    ask=f"Layernorm does {LayerNorm.FLOPS_PER_ELEMENT} FLOPs an element: sum, subtract the mean, "
        "square and sum (2), divide by the deviation, scale, shift. x has {rows} rows of D = {D} "
        "fp32 numbers; scale and shift have D each. A row stays in cache through all steps. "
        "P = {P}, BW = {BW}. Find Q, then I and the side of the ridge.",
    fixed=dict(ROOFS, rows=65_536, D=1_024), units=ROOF_UNITS,
    draw=lambda r: dict(rows=r.randrange(20, 200) * 1000, D=r.choice((512, 768, 2048, 4096))))
def fade_layernorm(P: float, BW: float, rows: int, D: int) -> Iterator[AnyPart]:
    count = LayerNorm(rows, D, "fp32").algorithmic
    W, Q, x = count.flops, count.hbm_bytes, FP32 * rows * D
    fetched = "a cache that reads y's lines before it writes them"
    wrong = {"the result is written too": Q - x,
             "a row stays in cache, so its later steps move nothing": Q + 2 * x}
    yield Part("Q", Q, "B",
               f"4 B × (x + y + scale + shift) = 4 B × (2 × {rows * D:,} + 2 × {D:,})",
               {**wrong, "Q counts bytes, not elements": Q / FP32}, {fetched: Q + x})
    yield _intensity(W, Q, {**{label: W / q for label, q in wrong.items()},
                            "divide by bytes, not by elements": FP32 * W / Q},
                     {fetched: W / (Q + x)})
    yield _side(W / Q, P / BW)


SQUARE = dict(M=4096, K=4096, N=4096)


@problem(
    "day1.matmul_untiled",
    ask="C = A B in fp32, A {M} × {K}, B {K} × {N}; loops i, j, k from outer to inner. The row of "
        "A in use stays in cache. B does not fit, so all of it crosses the slow link again for "
        "every row of A. Each element of C is written once. P = {P}, BW = {BW}. Find Q, I and "
        "the side of the ridge.",
    fixed=dict(ROOFS, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(M=r.choice((1024, 2048, 8192)), K=r.choice((3072, 6144, 8192)),
                        N=r.choice((3072, 6144, 12288))))
def matmul_untiled(P: float, BW: float, M: int, K: int, N: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N, "fp32")
    W, Q = op.flops, op.reloaded(1, M).hbm_bytes
    wrong = {"B comes back for every row of A": op.algorithmic.hbm_bytes,
             "the row of A stays in cache": op.reloaded(N, M).hbm_bytes}
    yield Part("Q", Q, "B",
               f"4 B × (M K + M × K N + M N) = 4 B × ({M * K:,} + {M:,} × {K * N:,} + {M * N:,})",
               {**wrong, "Q counts bytes, not elements": Q / FP32})
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()})
    yield _side(W / Q, P / BW)


@problem(
    "day1.fade.matmul_blocked",
    ask="The same product, A {M} × {K}, B {K} × {N}, fp32, now in blocks of {b} × {b}: for each "
        "block of C, the blocks of A and B it needs are fetched one pair after the other, and "
        "the block of C stays in cache until it is finished. P = {P}, BW = {BW}. Find W, Q, I "
        "and the side of the ridge.",
    fixed=dict(ROOFS, **SQUARE, b=64), units=ROOF_UNITS,
    draw=lambda r: dict(M=r.choice((2048, 4096, 8192)), K=r.choice((2048, 4096)),
                        N=r.choice((2048, 6144)), b=r.choice((16, 32, 128, 256))))
def fade_matmul_blocked(P: float, BW: float, M: int, K: int, N: int, b: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N, "fp32")
    r_A, r_B = -(-N // b), -(-M // b)
    W, Q = op.flops, op.reloaded(r_A, r_B).hbm_bytes
    wrong = {"A comes back for every block column of C, B for every block row":
             op.algorithmic.hbm_bytes,
             "a block of B serves b rows of A": op.reloaded(1, M).hbm_bytes,
             "A comes back as well as B": op.reloaded(1, r_B).hbm_bytes}
    yield Part("W", W, "FLOP", f"2 M N K = 2 × {M:,} × {N:,} × {K:,}",
               {"a multiply and an add are two FLOPs": W / 2,
                "every element of C takes K multiply-adds": 2 * M * N,
                "blocks change the order of the work, not its amount": W / b})
    yield Part("Q", Q, "B",
               f"4 B × (N/b × M K + M/b × K N + M N) = 4 B × ({r_A:,} × {M * K:,} + "
               f"{r_B:,} × {K * N:,} + {M * N:,})",
               {**wrong, "Q counts bytes, not elements": Q / FP32})
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()})
    yield _side(W / Q, P / BW)


@problem(
    "day1.block_size",
    ask="Blocks of b × b, fp32, a product of {n} × {n} matrices, P = {P}, BW = {BW}. What is the "
        "smallest b with which it reaches the ridge? Take the next power of two from there: how "
        "many bytes do the three blocks in use (of A, B and C) need in cache?",
    fixed=dict(ROOFS, n=4096), units=ROOF_UNITS,
    draw=lambda r: dict(n=r.choice((4096, 8192, 16384)),
                        P=r.choice((0.5e12, 0.75e12, 1.5e12, 2e12, 3e12)),
                        BW=r.choice((40e9, 60e9, 75e9, 100e9, 200e9))))
def block_size(P: float, BW: float, n: int) -> Iterator[AnyPart]:
    ridge = P / BW
    if ridge * FP32 > n:
        raise ValueError(f"a product of {n:,} x {n:,} never reaches a ridge of {ridge:.3g}")
    exact = FP32 / (1 / ridge - FP32 / (2 * n))
    power = 2 ** (exact.__ceil__() - 1).bit_length()
    yield Part("b", exact, "", f"4 / (1 / ridge - 4 / (2 n)) = 4 / (1 / {ridge:.5g} - 4 / (2 × "
               f"{n:,}))\nI = 2 n³ / (4 (2 n³ / b + n²)). Without C it is b / 4, so b is near "
               "4 × ridge; round up to a whole number.",
               {"a block pair brings 2 b² elements of 4 bytes for 2 b³ FLOPs": ridge,
                "both blocks of the pair have to come": ridge * FP32 / 2,
                "a multiply and an add are two FLOPs": 2 * exact},
               also=(ridge * FP32, exact.__ceil__()))
    yield Part("blocks", 3 * power**2 * FP32, "B", f"3 b² × 4 B = 3 × {power}² × 4 B",
               {"the block of C stays in cache as well": 2 * power**2 * FP32,
                "count bytes, not elements": 3 * power**2,
                "a block has b rows and b columns": 3 * power * FP32})


# --- Do -----------------------------------------------------------------------------------------

DTYPES = dict(dtype=("fp32", "fp64", "bf16", "fp16"))


@problem(
    "day1.do.place_matmul",
    ask="Your op is a matmul: A {M} × {K}, B {K} × {N}, {dtype}. In your code A crosses the slow "
        "link r_A = {r_A} times, B r_B = {r_B} times, C once. The machine has P = {P} for this "
        "dtype and BW = {BW}. Find W, Q, I, the ridge, the side and T_best.",
    fixed=dict(ROOFS, M=1024, K=1024, N=1024, dtype="fp32", r_A=1, r_B=1), units=ROOF_UNITS,
    one_of=DTYPES,
    draw=lambda r: dict(M=r.choice((256, 512, 2048)), K=r.choice((384, 768, 4096)),
                        N=r.choice((320, 1536, 3072)), r_A=r.choice((2, 4, 6)),
                        r_B=r.choice((4, 8, 16))))
def place_matmul(P: float, BW: float, M: int, K: int, N: int, dtype: str, r_A: int, r_B: int,
                 ) -> Iterator[AnyPart]:
    op, p = Matmul(M, K, N, dtype), BYTES[dtype]
    W, Q = op.flops, op.reloaded(r_A, r_B).hbm_bytes
    yield Part("W", W, "FLOP", f"2 M N K = 2 × {M:,} × {N:,} × {K:,}",
               {"a multiply and an add are two FLOPs": W / 2,
                "every element of C takes K multiply-adds": 2 * M * N,
                "W counts FLOPs, not bytes": Q})
    wrong = {"C is written too": Q - p * M * N, f"one {dtype} number has {p} bytes": 2 * Q}
    if r_A * r_B > 1:
        wrong["A and B come back"] = op.algorithmic.hbm_bytes
    yield Part("Q", Q, "B", f"{p} B × (r_A M K + r_B K N + M N) = {p} B × ({r_A} × {M * K:,} + "
               f"{r_B} × {K * N:,} + {M * N:,})", {**wrong, "Q counts bytes, not elements": Q / p})
    yield from _place(W, Q, P, BW, {"a multiply and an add are two FLOPs": W / 2 / Q,
                                    "divide by bytes, not by elements": p * W / Q})


@problem(
    "day1.do.place_add",
    ask="Your op is c = a + b, elementwise, {n} {dtype} elements each; a and b are read, c is "
        "written. The machine has P = {P} for this dtype and BW = {BW}. Find W, Q, I, the "
        "ridge, the side and T_best.",
    fixed=dict(ROOFS, n=50_000_000, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6, dtype=r.choice(("fp32", "bf16"))))
def place_add(P: float, BW: float, n: int, dtype: str) -> Iterator[AnyPart]:
    count, p = Add(n, dtype).algorithmic, BYTES[dtype]
    W, Q = count.flops, count.hbm_bytes
    fetched = "a cache that reads c's lines before it writes them"
    yield Part("W", W, "FLOP", f"n = {n:,}",
               {"one add an element, and no multiply": 2 * n, "W counts FLOPs, not bytes": Q,
                "two inputs meet in one add; c is its result": 3 * n})
    yield Part("Q", Q, "B", f"{p} B × (n + n + n) = {p} B × ({n:,} + {n:,} + {n:,})",
               {"c is written too": 2 * p * n, "Q counts bytes, not elements": 3 * n,
                f"one {dtype} number has {p} bytes": 2 * Q}, {fetched: Q + p * n})
    yield from _place(W, Q, P, BW, {"one add an element, and no multiply": 2 * W / Q,
                                    "c is written too": 1.5 * W / Q,
                                    "divide by bytes, not by elements": p * W / Q},
                      {fetched: W / (Q + p * n)})


@problem(
    "day1.do.place_layernorm",
    ask=f"Your op is a layernorm, {LayerNorm.FLOPS_PER_ELEMENT} FLOPs an element, over {{rows}} "
        "rows of D = {D} {dtype} numbers, with scale and shift of D each. A row stays in cache "
        "through all steps. The machine has P = {P} for this dtype and BW = {BW}. Find W, Q, I, "
        "the ridge, the side and T_best.",
    fixed=dict(ROOFS, rows=16_384, D=768, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(rows=r.randrange(10, 300) * 1000, D=r.choice((512, 1024, 2048, 4096)),
                        dtype=r.choice(("fp32", "bf16"))))
def place_layernorm(P: float, BW: float, rows: int, D: int, dtype: str) -> Iterator[AnyPart]:
    count, each = LayerNorm(rows, D, dtype).algorithmic, LayerNorm.FLOPS_PER_ELEMENT
    W, Q, p = count.flops, count.hbm_bytes, BYTES[dtype]
    x = p * rows * D
    yield Part("W", W, "FLOP", f"{each} × rows × D = {each} × {rows:,} × {D:,}",
               {f"{each} FLOPs an element, not one": rows * D, "every row counts": each * D,
                "W counts FLOPs, not bytes": Q})
    wrong = {"the result is written too": Q - x,
             "a row stays in cache, so its later steps move nothing": Q + 2 * x}
    yield Part("Q", Q, "B", f"{p} B × (x + y + scale + shift) = {p} B × (2 × {rows * D:,} + "
               f"2 × {D:,})", {**wrong, "Q counts bytes, not elements": Q / p})
    yield from _place(W, Q, P, BW, {label: W / q for label, q in wrong.items()})


@problem(
    "day1.do.intensities",
    ask="Derive the intensity of four ops in fp32: a dot product of long vectors; SpMV in CSR "
        "form ({rows} rows, {nonzeros} stored values, int32 column numbers and row starts, x "
        "fetched once); a product of {n} × {n} matrices untiled (a row of A stays, B comes back "
        "for every row); the same product in blocks of {b} × {b}.",
    fixed=dict(rows=1_000_000, nonzeros=16_000_000, n=4096, b=64),
    draw=lambda r: dict(nonzeros=r.randrange(6, 30) * 10**6, n=r.choice((2048, 6144, 8192)),
                        b=r.choice((16, 32, 128))))
def intensities(rows: int, nonzeros: int, n: int, b: int) -> Iterator[AnyPart]:
    if nonzeros > rows * rows:
        raise ValueError(f"{rows:,} rows and columns hold at most {rows * rows:,} values")
    product, sparse = Matmul(n, n, n, "fp32"), SpMV(rows, nonzeros).algorithmic
    W, blocks = product.flops, -(-n // b)
    untiled, blocked = product.reloaded(1, n), product.reloaded(blocks, blocks)
    once, q = product.algorithmic.intensity, sparse.hbm_bytes
    yield Part("I_dot", 2 / (2 * FP32), "FLOP/B", "2 n / (4 B × 2 n) = 2 / (4 B × 2)",
               {"FLOPs go on top, bytes below": FP32, "both vectors are read": 2 / FP32,
                "a multiply and an add are two FLOPs": 1 / (2 * FP32),
                "divide by bytes, not by elements": 1})
    yield Part("I_spmv", sparse.intensity, "FLOP/B",
               f"2 nonzeros / Q = 2 × {nonzeros:,} / {byte(q)}",
               {"each stored value has a column number of 4 bytes":
                sparse.flops / (q - 4 * nonzeros),
                "x is fetched once; its reuse comes from cache":
                sparse.flops / (q + 4 * (nonzeros - rows)),
                "a multiply and an add are two FLOPs": sparse.flops / 2 / q})
    yield Part("I_untiled", untiled.intensity, "FLOP/B",
               f"2 n³ / (4 B × (n² + n³ + n²)) = {flop(W)} / {byte(untiled.hbm_bytes)}",
               {"B comes back for every row of A": once,
                "the row of A stays in cache": product.reloaded(n, n).intensity,
                "FLOPs go on top, bytes below": 1 / untiled.intensity})
    yield Part("I_blocked", blocked.intensity, "FLOP/B",
               f"2 n³ / (4 B × (n³/b + n³/b + n²)) = {flop(W)} / {byte(blocked.hbm_bytes)}",
               {"A comes back for every block column of C, B for every block row": once,
                "A comes back as well as B": product.reloaded(1, blocks).intensity,
                "a block of B serves b rows of A": untiled.intensity})


# --- moving a point -----------------------------------------------------------------------------

@problem("day1.blocking", ask="A matmul is rewritten in blocks that stay in cache while they are "
                              "reused. What changes?")
def blocking() -> Iterator[AnyPart]:
    yield Choice("changes", "traffic",
                 {"work": "W falls, because blocks skip repeated multiplications",
                  "neither": "W and Q stay; the same bytes only arrive faster",
                  "traffic": "Q falls and W stays, so I rises",
                  "both": "W and Q fall together, so I stays"},
                 "Same multiplications in another order. Fewer reloads: Q falls, I = W / Q rises.",
                 {"work": "Every element of C still needs its K multiply-adds.",
                  "neither": "A block that is still in cache is not fetched again: those bytes "
                             "do not cross at all.",
                  "both": "W follows from the shapes alone, whatever the order of the loops."})
    yield Choice("intensity", "code",
                 {"op": "I belongs to the op: its mathematics fixes it",
                  "code": "I belongs to the code: the same op can move many bytes or few",
                  "chip": "I belongs to the machine: it is P / BW"},
                 "The shapes give W, the code gives Q.",
                 {"op": "The mathematics fixes W. How often a value crosses depends on the code.",
                  "chip": "P / BW is the ridge. I is W / Q, of a kernel."})


@problem("day1.right_up", ask="On a roofline, which change moves a kernel's point to the right, "
                              "and which moves it up at the same intensity?")
def right_up() -> Iterator[AnyPart]:
    yield Choice("right", "fuse",
                 {"threads": "running it on all cores instead of one",
                  "fuse": "fusing two loops, so that a value is reused while it is in cache",
                  "memory": "memory with twice the bandwidth",
                  "clock": "a higher clock"},
                 "Right means more FLOPs a byte: reuse, by blocking or fusing.",
                 {"threads": "More cores do the same FLOPs on the same bytes: I stays.",
                  "memory": "That lifts the slanted roof. The kernel's FLOPs and bytes stay.",
                  "clock": "Neither W nor Q knows the clock."})
    yield Choice("up", "vector",
                 {"block": "blocking a loop nest for the cache",
                  "narrow": "storing the data in half the bytes",
                  "vector": "vectorising the inner loop",
                  "ridge": "a machine with a lower ridge"},
                 "Up means using more of the hardware: vectors, threads, fewer stalls.",
                 {"block": "That cuts Q, so the point moves to the right (and may rise with the "
                           "roof).",
                  "narrow": "Fewer bytes for the same FLOPs: the point moves to the right.",
                  "ridge": "That draws other roofs. The kernel's own point is not moved by it."})


@problem(
    "day1.overlap_2x",
    ask="A kernel needs W / P = {t_flop} for its arithmetic and Q / BW = {t_byte} for its bytes. "
        "What is T_worst / T_best for it? What is the largest that ratio can be for any kernel, "
        "and where on the roofline is it reached?",
    fixed=dict(t_flop=2e-3, t_byte=5e-3), units=dict(t_flop="s", t_byte="s"),
    draw=lambda r: dict(t_flop=r.randrange(1, 40) * 1e-4, t_byte=r.randrange(1, 40) * 1e-4))
def overlap_2x(t_flop: float, t_byte: float) -> Iterator[AnyPart]:
    short, long = sorted((t_flop, t_byte))
    ratio = (short + long) / long
    yield Part("ratio", ratio, "", f"(W / P + Q / BW) / max(W / P, Q / BW) = ({time(t_flop)} + "
               f"{time(t_byte)}) / max({time(t_flop)}, {time(t_byte)})",
               {"T_worst goes on top": 1 / ratio,
                "T_best is the longer time": (short + long) / short,
                "that is the most it can be, not what it is here": 2,
                "T_worst is the sum of the two times": long / short})
    yield Part("most", 2, "", "(t + t) / t = (1 + 1) / 1\nThe shorter time is at most the longer "
               "one, so the sum is at most twice the longer one.",
               {"the sum of two times is more than the longer of them": 1,
                "this kernel's two times differ; take them equal": ratio,
                "there are two times, and T_best is one of them": 3})
    yield Choice("where", "ridge",
                 {"left": "far left of the ridge", "right": "far right of the ridge",
                  "ridge": "at the ridge", "never": "nowhere, it is only approached"},
                 "At the ridge both times are equal, and the sum is twice either.",
                 {"left": "There the bytes take nearly all the time, so the sum is little more.",
                  "right": "There the FLOPs take nearly all the time, so the sum is little more.",
                  "never": "A kernel may well have two equal times."})


@problem(
    "day1.under_2x",
    ask="A kernel runs at 1/{slow} of its roof. Suppose moving and computing do not overlap at "
        "all: what factor is at least left to explain by something else? And which explanation "
        "of the whole gap is possible?",
    fixed=dict(slow=5.0), draw=lambda r: dict(slow=r.choice((3.0, 6.0, 7.0, 8.0, 10.0, 12.0))))
def under_2x(slow: float) -> Iterator[AnyPart]:
    if slow <= 2:
        raise ValueError("slow has to be above 2")
    yield Part("left", slow / 2, "",
               f"slow / 2 = {slow:g} / 2\nNo overlap costs at most a factor 2.",
               {"a lack of overlap may explain up to a factor 2 of it": slow,
                "factors divide; they are not subtracted": slow - 2,
                "no overlap explains at most a factor 2": 2,
                "the factor left, not its inverse": 2 / slow})
    yield Choice("cause", "idle",
                 {"overlap": "no overlap of moving and computing, and nothing else",
                  "bound": "the op is memory-bound",
                  "idle": "idle lanes or cores, perhaps with a lack of overlap besides",
                  "intensity": "its intensity is low"},
                 "Idle lanes or cores can cost any factor. Each is a lower ceiling of its own.",
                 {"overlap": "The sum of two times is at most twice the larger.",
                  "bound": "The roof at its intensity says so already; it explains no gap.",
                  "intensity": "The roof was taken at that intensity, low as it is."})


# --- lower ceilings -----------------------------------------------------------------------------

@problem(
    "day1.ceiling_compute",
    ask="A CPU's peak is P = {P}: {cores} cores, {lanes} lanes, FMAs only. How high is the "
        "ceiling with one core at work? With all cores but no SIMD (one lane)? With all cores "
        "and lanes but plain adds instead of FMAs? With all three losses together?",
    fixed=dict(P=ROOFS["P"], cores=CORES, lanes=LANES), units=dict(P="FLOP/s"),
    draw=lambda r: dict(P=r.choice((0.6e12, 1.2e12, 2e12, 3e12)), cores=r.choice((6, 12, 16, 24)),
                        lanes=r.choice((4, 8, 16))))
def ceiling_compute(P: float, cores: int, lanes: int) -> Iterator[AnyPart]:
    yield Part("one_core", P / cores, "FLOP/s", f"P / cores = {rate(P)} / {cores}",
               {"the other cores stand still": P, "P is that of all cores together": P * cores,
                "its lanes and FMAs still count": P / cores / lanes})
    yield Part("no_simd", P / lanes, "FLOP/s", f"P / lanes = {rate(P)} / {lanes}",
               {"one lane of the register works": P,
                "all cores and FMAs still count": P / lanes / 2,
                "P is that of all lanes together": P * lanes})
    yield Part("no_fma", P / 2, "FLOP/s", f"P / 2 = {rate(P)} / 2",
               {"an add is one FLOP, an FMA two": P, "P already has FMAs in it": 2 * P,
                "an add replaces one FMA; lanes and cores still count": P / 2 / cores})
    yield Part("all_three", P / (2 * cores * lanes), "FLOP/s",
               f"P / (2 × cores × lanes) = {rate(P)} / (2 × {cores} × {lanes})",
               {"an add is one FLOP, an FMA two": P / (cores * lanes),
                "the losses multiply; they do not add up": P / (2 + cores + lanes),
                "all three at once, not the worst of them": P / max(2, cores, lanes)})


@problem(
    "day1.ceiling_bandwidth",
    ask="Memory moves whole lines of {line}. A kernel uses {used} of each line it fetches, and "
        "the memory delivers BW = {BW}. How high is the bandwidth of useful bytes? The kernel "
        "does {each} for each useful {used}: what is I counted with useful bytes, and what is "
        "it counted with the bytes that cross? What would a layout change that puts the wanted "
        "values side by side do?",
    fixed=dict(BW=ROOFS["BW"], line=LINE, used=FP32, each=1.0),
    units=dict(BW="B/s", line="B", used="B", each="FLOP"),
    draw=lambda r: dict(BW=r.choice((40e9, 100e9, 200e9, 400e9)), line=r.choice((64, 128)),
                        used=r.choice((4, 8)), each=r.choice((1.0, 2.0, 3.0, 5.0))))
def ceiling_bandwidth(BW: float, line: int, used: int, each: float) -> Iterator[AnyPart]:
    if used >= line:
        raise ValueError("used has to be less than a line")
    useful = BW * used / line
    yield Part("useful", useful, "B/s", f"BW × used / line = {band(BW)} × {used} B / {line} B",
               {"every line crosses whole": BW, "the used share of a line, not its inverse":
                BW * line / used, "several bytes of each line are used, not one": BW / line,
                "divide by the line, not by the bytes used": BW / used})
    yield Part("I_useful", each / used, "FLOP/B", f"FLOPs / useful bytes = {flop(each)} / {used} B",
               {"only the useful bytes this time": each / line,
                "FLOPs go on top, bytes below": used / each,
                "divide by bytes, not by elements": each})
    yield Part("I_moved", each / line, "FLOP/B", f"FLOPs / bytes = {flop(each)} / {line} B",
               {"the rest of the line crosses too": each / used,
                "FLOPs go on top, bytes below": line / each,
                "the useful bytes are part of the line": each / (line + used)})
    yield Choice("layout", "share",
                 {"memory": "the memory delivers more lines a second",
                  "share": "each line brings more wanted values, so fewer lines cross",
                  "work": "the kernel does fewer FLOPs",
                  "ridge": "the ridge moves to the left"},
                 f"Up to {line / used:g} times more useful bytes a second. On a GPU the threads "
                 "of a group then share lines: coalesced access.",
                 {"memory": "BW stays; what changes is how much of each line is wanted.",
                  "work": "W stays; the values are the same.",
                  "ridge": "P / BW knows nothing of the layout."})


@problem(
    "day1.ceiling_kind",
    ask="Which roof does each of these lower: the flat one (compute), the slanted one "
        "(bandwidth), or neither? chain: each FMA needs the result of the one before it. far: "
        "half of the data lies in the memory of the other socket. evict: two arrays push each "
        "other out of cache, so both are fetched twice.")
def ceiling_kind() -> Iterator[AnyPart]:
    roofs = {"compute": "a compute ceiling", "bandwidth": "a bandwidth ceiling",
             "neither": "neither: it moves the point"}
    yield Choice("chain", "compute", roofs,
                 "An FMA that waits for the one before leaves units idle; no byte is involved.",
                 {"bandwidth": "All operands are in registers.",
                  "neither": "W and Q stay: I is the same."})
    yield Choice("far", "bandwidth", roofs,
                 "Placement decides which link the bytes take; the far one is slower.",
                 {"compute": "The cores could compute as fast as before.",
                  "neither": "The same bytes and FLOPs: I is the same, the bytes arrive later."})
    yield Choice("evict", "neither", roofs,
                 "More bytes for the same FLOPs: Q rises, I falls, the point moves left.",
                 {"compute": "The cores could compute as fast as before.",
                  "bandwidth": "The link is as fast as before; more bytes have to cross."})


@problem(
    "day1.level",
    ask="A kernel does W = {W}. It moves {Q_DRAM} between DRAM and L3, and {Q_L3} between L3 and "
        "the cores. P = {P}, BW of DRAM = {BW_DRAM}, BW of L3 = {BW_L3}. Find the time at each "
        "level, the roof that binds and T_best.",
    fixed=dict(P=ROOFS["P"], BW_DRAM=ROOFS["BW"], BW_L3=DESKTOP.bw("L3"), W=4e9, Q_DRAM=300e6,
               Q_L3=4e9),
    units=dict(P="FLOP/s", BW_DRAM="B/s", BW_L3="B/s", W="FLOP", Q_DRAM="B", Q_L3="B"),
    draw=lambda r: dict(W=r.choice((2e9, 6e9, 9e9)), Q_DRAM=r.choice((100e6, 400e6, 900e6)),
                        Q_L3=r.choice((1.5e9, 3e9, 7e9))))
def level(P: float, BW_DRAM: float, BW_L3: float, W: float, Q_DRAM: float, Q_L3: float,
          ) -> Iterator[AnyPart]:
    times = {"compute": W / P, "DRAM": Q_DRAM / BW_DRAM, "L3": Q_L3 / BW_L3}
    binds = max(times, key=lambda name: times[name])
    yield Part("T_DRAM", times["DRAM"], "s",
               f"Q_DRAM / BW_DRAM = {byte(Q_DRAM)} / {band(BW_DRAM)}",
               {"DRAM's bytes go with DRAM's bandwidth": Q_DRAM / BW_L3,
                "only DRAM's bytes go with DRAM's bandwidth": Q_L3 / BW_DRAM,
                "each level has its own bytes; they do not add up": (Q_DRAM + Q_L3) / BW_DRAM})
    yield Part("T_L3", times["L3"], "s", f"Q_L3 / BW_L3 = {byte(Q_L3)} / {band(BW_L3)}",
               {"L3's bytes go with L3's bandwidth": Q_L3 / BW_DRAM,
                "only L3's bytes go with L3's bandwidth": Q_DRAM / BW_L3,
                "the two bandwidths do not add up": Q_L3 / (BW_L3 + BW_DRAM)})
    yield Choice("binds", binds, {"compute": "the flat roof, P", "DRAM": "DRAM's slanted roof",
                                  "L3": "L3's slanted roof"},
                 ", ".join(f"{name} {time(t)}" for name, t in times.items())
                 + ": the longest time binds.",
                 {name: "Another roof takes longer. Compare the three times." for name in times
                  if name != binds})
    yield Part("T_best", times[binds], "s",
               f"max(W / P, T_DRAM, T_L3) = max({', '.join(map(time, times.values()))})",
               {"with full overlap the times do not add up": sum(times.values()),
                "the longest time sets the pace": min(times.values()),
                "compute and both levels: three roofs, the longest": sorted(times.values())[1]})


@problem(
    "day1.mix",
    ask="A kernel does {W_fp32} in fp32, where the peak is {P_fp32}, and {W_fp64} in fp64, where "
        "it is {P_fp64}. How long does its arithmetic take at least, and at what rate in all? "
        "In another kernel, all fp32, FMAs are a share of {share} of the floating-point "
        "instructions and the rest are plain adds: how high is its compute ceiling?",
    fixed=dict(W_fp32=3e9, W_fp64=1e9, P_fp32=ROOFS["P"], P_fp64=ROOFS["P"] / 2, share=0.25),
    units=dict(W_fp32="FLOP", W_fp64="FLOP", P_fp32="FLOP/s", P_fp64="FLOP/s", share=""),
    draw=lambda r: dict(W_fp32=r.choice((2e9, 4e9, 5e9, 8e9)), W_fp64=r.choice((1e9, 3e9, 6e9)),
                        P_fp32=r.choice((1e12, 2e12, 3e12)), P_fp64=r.choice((0.25e12, 0.5e12)),
                        share=r.choice((0.1, 0.2, 0.3, 0.4, 0.6))))
def mix(W_fp32: float, W_fp64: float, P_fp32: float, P_fp64: float, share: float,
        ) -> Iterator[AnyPart]:
    if share > 1:
        raise ValueError("share is at most 1")
    W, t = W_fp32 + W_fp64, W_fp32 / P_fp32 + W_fp64 / P_fp64
    mean = (P_fp32 + P_fp64) / 2
    yield Part("T_flop", t, "s",
               f"W_fp32 / P_fp32 + W_fp64 / P_fp64 = {flop(W_fp32)} / {rate(P_fp32)} + "
               f"{flop(W_fp64)} / {rate(P_fp64)}",
               {"the fp64 part runs at fp64's peak": W / P_fp32,
                "the fp32 part runs at fp32's peak": W / P_fp64,
                "the same units do both, one after the other":
                max(W_fp32 / P_fp32, W_fp64 / P_fp64),
                "times add up; peaks have no useful mean": W / mean})
    yield Part("rate", W / t, "FLOP/s", f"W / T_flop = {flop(W)} / {time(t)}",
               {"the fp64 part is slower": P_fp32, "times add up; peaks have no useful mean": mean,
                "the fp32 part is faster": P_fp64,
                "weigh the times, not the peaks": (W_fp32 * P_fp32 + W_fp64 * P_fp64) / W})
    yield Part("ceiling", P_fp32 * (1 + share) / 2, "FLOP/s",
               f"P × (2 share + 1 (1 - share)) / 2 = {rate(P_fp32)} × (2 × {share:g} + "
               f"1 × (1 - {share:g})) / 2",
               {"the adds count as one FLOP each, not as none": P_fp32 * share,
                "the FMAs still count as two": P_fp32 / 2,
                "an add gives half of what an FMA gives": P_fp32,
                "instructions, not FLOPs, fill the time": P_fp32 * (1 - share / 2)})


@problem(
    "day1.reuse_measured",
    ask="Untiled, a matmul of W = {W} moved {Q_before}. Its tiling is counted to move {Q_counted} "
        "from DRAM; the DRAM counters then show {Q_measured}. By what factor did traffic really "
        "fall, and what is I as measured? In general, how do you know that a tiling cut DRAM "
        "traffic?",
    fixed=dict(W=16e9, Q_before=32e9, Q_counted=1e9, Q_measured=4e9),
    units=dict(W="FLOP", Q_before="B", Q_counted="B", Q_measured="B"),
    draw=lambda r: dict(W=r.choice((12e9, 20e9, 50e9)), Q_before=r.choice((24e9, 40e9, 64e9)),
                        Q_counted=r.choice((0.5e9, 1e9, 1.5e9)),
                        Q_measured=r.choice((2e9, 3e9, 5e9))))
def reuse_measured(W: float, Q_before: float, Q_counted: float, Q_measured: float,
                   ) -> Iterator[AnyPart]:
    yield Part("fell", Q_before / Q_measured, "",
               f"Q_before / Q_measured = {byte(Q_before)} / {byte(Q_measured)}",
               {"that is the count's promise; take what was measured": Q_before / Q_counted,
                "before goes on top": Q_measured / Q_before,
                "compare with the code before, not with the count": Q_measured / Q_counted})
    yield _intensity(W, Q_measured, {"that is I as counted; take the measured bytes": W / Q_counted,
                                     "that is I before the tiling": W / Q_before})
    yield Choice("know", "bytes",
                 {"faster": "the tiled code is faster",
                  "hits": "the L1 hit rate went up",
                  "bytes": "DRAM bytes read and written, measured before and after",
                  "formula": "the formula for Q with the new tile sizes gives less"},
                 "The claim is about bytes at DRAM, so count those, on both versions.",
                 {"faster": "It may be faster for another reason, such as better vector code.",
                  "hits": "Those hits may have been L2 hits before: DRAM sees no difference.",
                  "formula": "That is the prediction. It assumes that the tiles stay in cache."})


# --- what a bound says about choices ------------------------------------------------------------

@problem(
    "day1.more_P",
    ask="An op has I = {I} on a machine with P = {P} and BW = {BW}. Its successor has {times} "
        "times the P and the same BW. What is the entitled rate before and after, and what share "
        "of the new peak is that? What would lower the op's time?",
    fixed=dict(ROOFS, I=0.25, times=4.0), units=dict(ROOF_UNITS, I="FLOP/B"),
    draw=lambda r: dict(I=r.choice((0.2, 0.5, 1.5, 3.0, 6.0)), times=r.choice((2.0, 3.0, 5.0))))
def more_P(P: float, BW: float, I: float, times: float) -> Iterator[AnyPart]:
    if I >= P / BW or times <= 1:
        raise ValueError("the op has to be memory-bound, and P to grow")
    before = I * BW
    yield Part("before", before, "FLOP/s", f"min(P, I × BW) = min({rate(P)}, {per_byte(I)} × "
               f"{band(BW)})", {"the lower of the two roofs": P, "I × BW, not BW / I": BW / I,
                                "I × BW, and not I × P": I * P})
    yield Part("after", before, "FLOP/s",
               f"min(times × P, I × BW) = min({times:g} × {rate(P)}, {per_byte(I)} × {band(BW)})",
               {"its bytes come no faster than before": times * before,
                "the lower of the two roofs": times * P,
                "P grew; BW and so the slanted roof did not": P})
    yield Part("share", before / (times * P), "", f"after / (times × P) = {rate(before)} / "
               f"({times:g} × {rate(P)})",
               {"the peak is the new one": before / P,
                "the rate goes on top, the peak below": times * P / before,
                "the rate did not grow with the peak": times * before / P})
    yield Choice("helps", "bytes",
                 {"peak": "yet more P", "lanes": "wider vectors",
                  "bytes": "fewer bytes for the same work, or more BW",
                  "ridge": "a higher ridge"},
                 "The time is Q / BW: only Q and BW are in it.",
                 {"peak": "W / P is not what takes the time.",
                  "lanes": "Wider vectors raise P, and W / P is not what takes the time.",
                  "ridge": "A higher ridge puts the op further to the left of it."})


@problem(
    "day1.batching",
    ask="A linear layer reads a bf16 weight matrix once and uses it for a batch of B = {B} rows. "
        "Count the weight reads only. What is I? The GPU has P = {P} and BW = {BW}: what is its "
        "ridge, and how large must B be to reach it?",
    fixed=dict(B=8, P=machine.a100.peak("bf16"), BW=machine.a100.bw()), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((4, 16, 32, 64)),
                        **r.choice([dict(P=m.peak("bf16"), BW=m.bw()) for m in (
                            machine.h100, machine.h200, machine.b200, machine.tpu_v5e)])))
def batching(B: int, P: float, BW: float) -> Iterator[AnyPart]:
    p, ridge = BYTES["bf16"], P / BW
    yield Part("I", 2 * B / p, "FLOP/B", f"2 B / p = 2 × {B} / {p} B\nEach weight has {p} bytes "
               "and gets a multiply and an add for each row of the batch.",
               {"a bf16 number has 2 bytes": 2 * B, "a multiply and an add are two FLOPs": B / p,
                "divide by the bytes of one weight, not of one a row": 1 / p})
    yield _ridge(P, BW, 2 * B / p)
    yield Part("B_ridge", ridge * p / 2, "", f"ridge × p / 2 = {per_byte(ridge)} × {p} B / 2 FLOP",
               {"a bf16 number has 2 bytes": ridge / 2,
                "a multiply and an add are two FLOPs": ridge * p,
                "that is a factor on the batch above, not a batch": ridge * p / 2 / B})


@problem(
    "day1.path_precision",
    ask="A GPU's sheet lists {P_bf16} for bf16 and {P_tf32} for tf32, both on the tensor units, "
        "and {P_fp32} for fp32 on the ordinary ones. A matmul of fp32 inputs runs at {rate}; the "
        "profiler shows plain fp32 FMAs and idle tensor units. Which peak is its roof, and what "
        "share of it is reached? By what factor does the roof rise if it moves to tf32?",
    fixed=dict(rate=15e12, **{f"P_{dtype}": machine.a100.peak(dtype)
                              for dtype in ("bf16", "tf32", "fp32")}),
    units=dict(rate="FLOP/s", P_bf16="FLOP/s", P_tf32="FLOP/s", P_fp32="FLOP/s"),
    draw=lambda r: dict(rate=r.choice((8e12, 11e12, 13e12, 17e12))))
def path_precision(rate: float, P_bf16: float, P_tf32: float, P_fp32: float) -> Iterator[AnyPart]:
    shown = partial(show, unit="FLOP/s", digits=4)
    yield Choice("roof", "fp32",
                 {"bf16": "bf16, the largest number on the sheet",
                  "tf32": "tf32, what the tensor units do with fp32 inputs",
                  "fp32": "fp32, on the ordinary units"},
                 "The roof is that of the path and precision that ran.",
                 {"bf16": "Nothing ran in bf16. Against that peak every fp32 kernel looks bad.",
                  "tf32": "The tensor units were idle: this path was not taken."})
    yield Part("share", rate / P_fp32, "", f"rate / P_fp32 = {shown(rate)} / {shown(P_fp32)}",
               {"nothing ran in bf16": rate / P_bf16, "the tensor units were idle": rate / P_tf32,
                "the rate goes on top, the roof below": P_fp32 / rate})
    yield Part("rise", P_tf32 / P_fp32, "", f"P_tf32 / P_fp32 = {shown(P_tf32)} / {shown(P_fp32)}",
               {"tf32 is asked, not bf16": P_bf16 / P_fp32, "the new roof goes on top":
                P_fp32 / P_tf32, "compare roof with roof, not with the rate": P_tf32 / rate})


# --- your own CPU -------------------------------------------------------------------------------

@problem(
    "day1.cpu.spec",
    ask="A CPU has {cores} cores at {clock}, {fma_units} FMA units a core, {lanes} fp32 lanes a "
        "unit; {channels} memory channels of 8 bytes, each with {transfers} million transfers a "
        "second. Find P, BW and the ridge.",
    fixed=dict(cores=CORES, fma_units=FMA_UNITS, lanes=LANES, clock=DESKTOP.facts["clock"].value,
               channels=CHANNELS,
               transfers=int(DESKTOP.facts["dram_transfer_rate"].value / 1e6)),
    units=dict(clock="Hz"),
    draw=lambda r: dict(cores=r.choice((6, 10, 12, 16, 24)), lanes=r.choice((4, 8, 16)),
                        clock=r.choice((2.4e9, 3e9, 3.6e9, 4.5e9)), channels=r.choice((4, 8, 12)),
                        transfers=r.choice((3200, 4800, 6400))))
def cpu_spec(cores: int, fma_units: int, lanes: int, clock: float, channels: int, transfers: int,
             ) -> Iterator[AnyPart]:
    P = cores * fma_units * lanes * 2 * clock
    BW = channels * 8 * transfers * 1e6
    yield Part("P", P, "FLOP/s", f"cores × units × lanes × 2 × clock = {cores} × {fma_units} × "
               f"{lanes} × 2 × {show(clock, 'Hz', 4)}",
               {"an FMA is two FLOPs, and every unit of a core counts": P / 2,
                "a lane holds one fp32 number; it is not one byte": 4 * P,
                "every core counts": P / cores, "P is a rate: the clock is in it": P / clock})
    yield Part("BW", BW, "B/s", f"channels × 8 B × transfers = {channels} × 8 B × {transfers:,} "
               "MHz", {"a transfer brings 8 bytes": BW / 8, "every channel counts": BW / channels,
                       "transfers count both edges of the clock already": 2 * BW,
                       "8 bytes, not 8 times 8 bits": 8 * BW})
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
               {"P goes on top, BW below": BW / P, "P is that of all cores": P / BW / cores,
                "the prefixes differ: 1 T is 1000 G": P / BW / 1000})


@problem(
    "day1.cpu.write_allocate",
    ask="np.add(a, b, out=c) on fp32 arrays of n = {n} elements, each far larger than the last "
        "cache. Before it writes a line of c, this cache fetches that line. How many bytes does "
        "the op need (a, b, c once each), how many really cross, and what is I with those? "
        "You divide the needed bytes by the time of a run that saturates the memory: "
        "what share of its bandwidth do you get?",
    fixed=dict(n=64_000_000), draw=lambda r: dict(n=r.randrange(20, 200, 4) * 10**6))
def cpu_write_allocate(n: int) -> Iterator[AnyPart]:
    array, need = FP32 * n, Add(n, "fp32").algorithmic
    moved = need.hbm_bytes + array
    yield Part("needed", need.hbm_bytes, "B", f"3 × 4 B × n = 3 × 4 B × {n:,}",
               {"c is written too": 2 * array, "count bytes, not elements": 3 * n,
                "count what the op needs here; the fetch comes next": moved})
    yield Part("moved", moved, "B", f"4 × 4 B × n = 4 × 4 B × {n:,}\na read, b read, c fetched, "
               "c written.",
               {"c's lines are fetched before they are written": need.hbm_bytes,
                "only c is written, so only c is fetched on top": 6 * array,
                "count bytes, not elements": 4 * n})
    yield Part("I", n / moved, "FLOP/B", f"n / moved = {flop(n)} / {byte(moved)}",
               {"c's lines are fetched before they are written": n / need.hbm_bytes,
                "FLOPs go on top, bytes below": moved / n,
                "one add an element, and no multiply": 2 * n / moved})
    yield Part("share", need.hbm_bytes / moved, "",
               f"needed / moved = {byte(need.hbm_bytes)} / {byte(moved)}",
               {"the fetch takes time too": 1, "the needed bytes go on top":
                moved / need.hbm_bytes, "a, b and c are needed": 2 * array / moved})


@problem(
    "day1.cpu.above_spec",
    ask="One core does {per_cycle} a cycle, and the system reports a clock of {clock}. An FMA "
        "loop on it measures {measured}. What share of that spec is this, which clock would make "
        "it 1, and which input do you suspect first?",
    fixed=dict(per_cycle=FMA_UNITS * LANES * 2, clock=2.6e9, measured=118e9),
    units=dict(per_cycle="FLOP", clock="Hz", measured="FLOP/s"),
    draw=lambda r: dict(clock=r.choice((2.0e9, 2.2e9, 2.4e9, 3.0e9)),
                        measured=r.choice((105e9, 110e9, 125e9, 130e9))))
def cpu_above_spec(per_cycle: int, clock: float, measured: float) -> Iterator[AnyPart]:
    spec = per_cycle * clock
    yield Part("share", measured / spec, "",
               f"measured / (FLOPs a cycle × clock) = {rate(measured)} / ({per_cycle} × "
               f"{show(clock, 'Hz', 4)})",
               {"measured goes on top": spec / measured, "an FMA is in it as two FLOPs already":
                2 * measured / spec, "all of it, not only what is above": measured / spec - 1,
                "1 is 100 %": 100 * measured / spec})
    yield Part("implied", measured / per_cycle, "Hz",
               f"measured / FLOPs a cycle = {rate(measured)} / {per_cycle}",
               {"an FMA is in it as two FLOPs already": 2 * measured / per_cycle,
                "a higher clock, not a lower one": clock * spec / measured,
                "that is the reported clock": clock})
    yield Choice("suspect", "clock",
                 {"memory": "the memory bandwidth", "timer": "the code: it beats the hardware",
                  "clock": "the clock: cores run above the figure that is reported",
                  "flops": "W, because the compiler left FLOPs out"},
                 "No code beats its hardware, so an input is wrong: most often the clock.",
                 {"memory": "The loop works in registers; it has no traffic to speak of.",
                  "timer": "The hardware's limit is one: if it is passed, its figure is wrong.",
                  "flops": "Possible, and worth a check, but far rarer than a boosted clock."})


# --- the paper of 2009 --------------------------------------------------------------------------

OLD: dict[str, dict[str, Any]] = {
    old.name: dict(machine=old.name, P=old.peak("fp64"), BW=old.bw(),
                   printed=old.facts["printed_ridge"].value)
    for old in (machine.xeon_e5345, machine.opteron_x4, machine.ultrasparc_t2, machine.cell_qs20)}
OLD_KERNELS = {name: dict(kernel=name, before=kernel.before.value, after=kernel.after.value)
               for name, kernel in machine.KERNELS_2009.items()}
PAPER = "the paper's text, whose ridge stands for the authors' own bandwidth benchmark"


@problem(
    "day1.paper.ridge",
    ask="{machine}: P = {P} in fp64, BW = {BW} by STREAM. What is its ridge? The paper's text "
        "says {printed}, from a bandwidth benchmark of the authors' own: which bandwidth does "
        "that ridge imply?",
    fixed=OLD[machine.xeon_e5345.name],
    units=dict(ROOF_UNITS, printed="FLOP/B"), one_of=dict(machine=tuple(OLD)),
    draw=lambda r: r.choice(list(OLD.values())))
def paper_ridge(machine: str, P: float, BW: float, printed: float) -> Iterator[AnyPart]:
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
               {"P goes on top, BW below": BW / P, "P is that of both sockets already": 2 * P / BW,
                "an fp64 number has 8 bytes, but the ridge is per byte": 8 * P / BW},
               {PAPER: printed})
    yield Part("BW_implied", P / printed, "B/s",
               f"P / ridge = {rate(P)} / {per_byte(printed)}",
               {"BW = P / ridge, not P × ridge": P * printed,
                "P is that of both sockets already": 2 * P / printed,
                "use the printed ridge, not the bandwidth and the ridge": BW / printed})


@problem(
    "day1.paper.new_chip",
    ask="A chip with P = {P_old} in fp64 gives way to one with {P_new} in the same socket. The "
        "memory goes from {BW_old} to {BW_new}. Find the ridge before and after. What does that "
        "do to a kernel whose intensity lies between the two?",
    fixed=dict(P_old=machine.opteron_x2.peak("fp64"), BW_old=machine.opteron_x2.bw(),
               P_new=machine.opteron_x4.peak("fp64"), BW_new=machine.opteron_x4.bw()),
    units=dict(P_old="FLOP/s", P_new="FLOP/s", BW_old="B/s", BW_new="B/s"),
    draw=lambda r: dict(P_old=r.choice((20e9, 30e9, 40e9)), BW_old=r.choice((10e9, 16e9, 25e9)),
                        P_new=r.choice((150e9, 200e9, 300e9)), BW_new=r.choice((12e9, 21e9, 30e9))))
def paper_new_chip(P_old: float, BW_old: float, P_new: float, BW_new: float) -> Iterator[AnyPart]:
    before, after = P_old / BW_old, P_new / BW_new
    if after <= before:
        raise ValueError("the ridge has to move to the right")
    yield Part("before", before, "FLOP/B", f"P / BW = {rate(P_old)} / {band(BW_old)}",
               {"P goes on top, BW below": BW_old / P_old, "old peak with old memory":
                P_old / BW_new, "that is the new chip": after})
    yield Part("after", after, "FLOP/B", f"P / BW = {rate(P_new)} / {band(BW_new)}",
               {"P goes on top, BW below": BW_new / P_new, "new peak with new memory":
                P_new / BW_old, "that is the old chip": before})
    yield Choice("between", "turns",
                 {"faster": "it stays compute-bound and gains as much as P does",
                  "turns": "it was compute-bound and is now memory-bound",
                  "eases": "it was memory-bound and is now compute-bound"},
                 "The ridge passed it on its way to the right. The kernel itself did not change.",
                 {"faster": "It is left of the new ridge, so there the bytes set its time.",
                  "eases": "It is right of the old ridge and left of the new one."})


@problem(
    "day1.paper.bound",
    ask="{machine}: P = {P} in fp64, BW = {BW} by STREAM. Say {kernel} has an intensity of "
        "{before} at first and {after} once its memory traffic is improved. Which rate is it "
        "entitled to before and after, and on which side of the ridge does it end up?",
    fixed=dict(machine=machine.opteron_x4.name, P=machine.opteron_x4.peak("fp64"),
               BW=machine.opteron_x4.bw(), **OLD_KERNELS["LBMHD"]),
    units=dict(ROOF_UNITS, before="FLOP/B", after="FLOP/B"),
    one_of=dict(machine=tuple(OLD), kernel=tuple(OLD_KERNELS)),
    draw=lambda r: {key: value for key, value in
                    {**r.choice(list(OLD.values())), **r.choice(list(OLD_KERNELS.values()))}.items()
                    if key != "printed"})
def paper_bound(machine: str, kernel: str, P: float, BW: float, before: float, after: float,
                ) -> Iterator[AnyPart]:
    printed = OLD[machine]["printed"]
    for name, I, other in (("before", before, after), ("after", after, before)):
        low, high = sorted((P, I * BW))
        yield Part(name, low, "FLOP/s",
                   f"min(P, I × BW) = min({rate(P)}, {per_byte(I)} × {band(BW)})",
                   {"the lower of the two roofs": high, "I × BW, not BW / I": BW / I,
                    "that goes with the other intensity": min(P, other * BW)},
                   {PAPER: min(P, I * P / printed)})
    yield _side(after, P / BW)


PROBLEMS = collect(globals())
