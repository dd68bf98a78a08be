"""Day 1: the roofline model.

Question  can the reader derive both times, place an op and read what the plot says?
Answer    PROBLEMS, in the page's order; ids begin with day1.
Assumes   one slow link, decimal prefixes, a multiply-add is 2 FLOPs; fp32 unless said
Ignores   Trainium (from Day 2 on)
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from .. import machine
from ..check import AnyPart, Choice, Follow, Part, Text, collect, problem
from ..ops import BYTES, Add, Dot, LayerNorm, Matmul, SpMV
from ..units import show

flop, byte, time, rate, band, per_byte, clock_rate = (
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
DTYPES = dict(dtype=("fp32", "fp64", "bf16", "fp16"))
DRAWN = ("fp32", "fp32", "fp64", "bf16")


def _cpu(r: random.Random, dtype: str = "fp32", small: bool | None = None) -> dict[str, float]:
    """Roofs of a CPU that could be bought: clock, cores and lanes; channels of 8 bytes.

    A small one is one scalar core: its ridge is so low that even a dot product may be right of it.
    """
    if (dtype in ("fp32", "fp64") and r.random() < 0.6) if small is None else small:
        cores_lanes, clock = 1.0, r.choice((0.6e9, 0.8e9, 1.0e9, 1.2e9, 1.5e9))
        channels, transfers = r.choice((1, 2)), r.choice((2133e6, 2667e6, 3200e6))
    else:
        width = r.choice((16, 32, 64))  # bytes of a register; two FMA units a core
        cores_lanes = r.choice((4, 6, 8, 12, 16)) * 2 * width / BYTES[dtype]
        clock = r.choice((2.4e9, 2.8e9, 3.2e9, 3.6e9, 4.0e9, 4.5e9))
        channels, transfers = r.choice((2, 4, 8)), r.choice((3200e6, 4800e6, 5600e6, 6400e6))
    return {"P": cores_lanes * 2 * clock, "BW": channels * 8 * transfers}


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


# --- what several problems ask ------------------------------------------------------------------

# Slips by name: what is missing or mixed up, as it is read after "Looks like a slip: ".
ONE_FLOP = "a multiply-add is counted as one FLOP"
TWO_FLOPS = "each add is counted as two FLOPs"
NOT_FLOPS = "bytes are counted, not FLOPs"
ELEMENTS = "elements are counted, not bytes"
TWICE_BYTES = "a number is counted with twice its bytes"
UPSIDE_DOWN = "the fraction is upside down"
FETCHED = "a cache that reads {0}'s lines before it writes them"
SHARE = ", as a fraction or in %"


def _intensity(W: float, Q: float, slips: Mapping[str, float],
               rivals: Mapping[str, float] | None = None, follows: Follow | None = None,
               extra: Mapping[str, float] | None = None) -> Part:
    return Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {f"{UPSIDE_DOWN}, bytes over FLOPs": Q / W, **slips}, rivals or {},
                extra=extra or {}, follows=follows)


def _ridge(P: float, BW: float, I: float, follows: Follow | None = None) -> Part:
    return Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
                {f"{UPSIDE_DOWN}, BW over P": BW / P,
                 "the kernel's W / Q is given instead of the machine's P / BW": I,
                 "the prefixes of P and BW are ignored": P / BW / 1000}, follows=follows)


def _side(I: float, ridge: float) -> Choice:
    memory = ridge > I
    return Choice("side", "memory" if memory else "compute",
                  {"memory": "left of the ridge: memory-bound",
                   "compute": "right of the ridge: compute-bound"},
                  f"I is {per_byte(I)}, the ridge {per_byte(ridge)}.",
                  {"compute": "The machine could do more FLOPs in the time of a byte than this "
                              "op has for it."} if memory else
                  {"memory": "The op has more FLOPs for a byte than the machine can do in the "
                             "byte's time."}, "Side of the ridge")


ADDED = "the times are added, as if nothing overlapped"


def _best(W: float, Q: float, P: float, BW: float) -> Part:
    short, long = sorted((W / P, Q / BW))
    slips = {"the shorter of the two times is taken": short,
             "P and BW are swapped": max(W / BW, Q / P)}
    if short == W / P:  # memory-bound
        slips["bytes are turned into bits, by a factor 8"] = 8 * long
    else:
        slips[ONE_FLOP] = long / 2
    return Part("T_best", long, "s",
                f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})", slips,
                extra={ADDED: short + long}, follows=("max", ("/", "W", P), ("/", "Q", BW)))


def _place(W: int, Q: int, P: float, BW: float, slips: Mapping[str, float],
           rivals: Mapping[str, float] | None = None) -> Iterator[AnyPart]:
    yield _intensity(W, Q, slips, rivals, ("/", "W", "Q"))
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
    yield _intensity(W, Q, {"the machine's P / BW is given instead of the kernel's W / Q": P / BW,
                            "bytes are turned into bits, by a factor 8": W / Q / 8})
    yield _ridge(P, BW, W / Q)
    binds = ("both" if math.isclose(t_flop, t_byte) else
             "memory" if t_byte > t_flop else "compute")
    place, what = {"memory": ("left of the ridge", "moving takes longer"),
                   "compute": ("right of the ridge", "computing takes longer"),
                   "both": ("at the ridge", "both take as long")}[binds]
    compare = ("Compare I with the ridge: left of it moving takes longer, right of it computing "
               "does.")
    reasons = {"compute": compare, "memory": compare,
               "both": "Both roofs bind alike only exactly at the ridge."}
    yield Choice("binds", binds,
                 {"compute": "the flat roof, P", "memory": "the slanted roof, I × BW",
                  "both": "both alike"},
                 f"I is {place} ({per_byte(W / Q)}, {per_byte(P / BW)}): {what}.",
                 {key: reason for key, reason in reasons.items() if key != binds},
                 "Which roof binds?")
    yield Part("T_best", best, "s",
               f"max(W / P, Q / BW) = max({time(t_flop)}, {time(t_byte)})",
               {ADDED: worst, "the shorter of the two times is taken": min(t_flop, t_byte),
                "P and BW are swapped": max(W / BW, Q / P)})
    yield Part("T_worst", worst, "s", f"W / P + Q / BW = {time(t_flop)} + {time(t_byte)}",
               {"the two times are taken to overlap": best,
                "T_best is doubled, as if both times were equal": 2 * best,
                "P and BW are swapped": W / BW + Q / P})
    yield Part("rate", W / best, "FLOP/s", f"W / T_best = {flop(W)} / {time(best)}",
               {"T_worst is taken for T_best": W / worst,
                "the higher of the two roofs is taken": max(P, W / Q * BW),
                "bytes a second are given, Q over the time": Q / best},
               label="Entitled rate", follows=("/", W, "T_best"))


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
                  "equal": "The axes differ: FLOP/B across, FLOP/s up."}, "Why is the slope 1?")
    yield Text("unit", "FLOP/s",
               (r"flops?\s*(/|per)\s*s(ec(ond)?)?\b", r"\b[kMGTP]?flops$"),
               "FLOP/B × B/s = FLOP/s, the unit of the flat roof.",
               {r"flops?\s*(/|per)\s*b": "That is the unit of I. Multiply it by the unit of BW.",
                r"\b[kMGTP]?(b|bytes?)\s*(/|per)\s*s": "That is the unit of BW. Multiply it by "
                                                       "that of I.",
                r"\bno(ne| unit)|dimensionless": "The slope has no unit, but y has one."},
               "Unit of y")


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
                  "exact": "The bound is the same formula on any axes; only the picture changes."},
                 "What are they for?")


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
                  "fits": "Neither P nor BW knows how large the data is."},
                 "What does the ridge say?")
    yield Choice("left", "wait",
                 {"wait": "the arithmetic units wait for data",
                  "idle": "the memory waits for the arithmetic units",
                  "overlap": "nothing waits, because moving and computing overlap"},
                 "Left of the ridge a byte brings fewer FLOPs than the machine does meanwhile.",
                 {"idle": "That is the right of the ridge: there the FLOPs take longer.",
                  "overlap": "Even with full overlap the shorter of the two has nothing to do for "
                             "a while."}, "What happens left of it?")


@problem(
    "day1.bytes_count",
    ask="A loop goes {passes} times over an array, from its first element to its last, and only "
        "reads it. The last-level cache holds {cache}; it starts empty, and to make room it "
        "evicts what was used longest ago. How many bytes does the loop add to Q when the array "
        "has {small}, and when it has {large}? And which of the events below adds to Q?",
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
               {"every pass is taken to fetch it again, though it fits": passes * small,
                "the first pass is left out, though the cache starts empty": (passes - 1) * small,
                "it is written back as well, though the loop only reads it": 2 * small},
               label="Q, small array")
    yield Part("Q_large", passes * large, "B", f"large × passes = {byte(large)} × {passes}\n"
               "When the end of the array comes in, its beginning is what was used longest ago, so "
               "that goes.\nThe next pass starts with it, fetches it, and evicts what it needs "
               "next: no pass finds anything.",
               {"only the first pass is counted, though it does not fit": large,
                "the first pass is left out, though the cache starts empty": (passes - 1) * large,
                "it is written back as well, though the loop only reads it": 2 * passes * large},
               label="Q, large array", extra={
                   "a cacheful is taken to survive from pass to pass, though it is evicted "
                   "just before it is needed": passes * large - (passes - 1) * cache})
    yield Choice("adds", "reload",
                 {"hit": "a value that is still in cache is read again",
                  "register": "a value goes from cache into a register",
                  "flop": "a sum in a register takes one more addend that is in cache",
                  "reload": "a value that was evicted is read again"},
                 "Only what crosses the slow link counts; an evicted value crosses once more.",
                 {"hit": "It does not cross the slow link, so it is free in this model.",
                  "register": "That is a faster link; Q counts the slow one.",
                  "flop": "That adds to W. Nothing crosses the slow link."},
                 "Which event adds to Q?")


# --- W, Q and I of six ops ----------------------------------------------------------------------

@problem(
    "day1.dot",
    ask="Dot product of two {dtype} vectors of n = {n} elements, on a machine with P = {P} for "
        "this dtype and BW = {BW}. The sum stays in a register. Find W, Q, I and the side of the "
        "ridge.",
    fixed=dict(ROOFS, n=100_000_000, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6,
                        dtype=(dtype := r.choice(DRAWN)), **_cpu(r, dtype)))
def dot(P: float, BW: float, n: int, dtype: str) -> Iterator[AnyPart]:
    count, p = Dot(n, dtype).algorithmic, BYTES[dtype]
    W, Q = count.flops, count.hbm_bytes
    yield Part("W", W, "FLOP", f"2 n = 2 × {n:,}",
               {ONE_FLOP: n, NOT_FLOPS: Q,
                "two FLOPs are counted for each element, not for each pair": 4 * n})
    yield Part("Q", Q, "B", f"{p} B × (n + n) = {p} B × ({n:,} + {n:,})",
               {"only one vector is counted": Q / 2, ELEMENTS: Q / p,
                "the result is counted as a vector, though it is one number": 1.5 * Q,
                TWICE_BYTES: 2 * Q})
    yield _intensity(W, Q, {ONE_FLOP: W / 2 / Q, ELEMENTS: p * W / Q,
                            "only one vector is counted": 2 * W / Q}, follows=("/", "W", "Q"))
    yield _side(W / Q, P / BW)


def _add_parts(n: int, dtype: str) -> tuple[Part, Part, dict[str, float], dict[str, float]]:
    """W and Q of an elementwise add; slips and rivals of its I."""
    count, p = Add(n, dtype).algorithmic, BYTES[dtype]
    W, Q = count.flops, count.hbm_bytes
    fetched, unwritten = FETCHED.format("c"), "c's write is left out"
    return (Part("W", W, "FLOP", f"n = {n:,}",
                 {TWO_FLOPS: 2 * n, NOT_FLOPS: Q,
                  "one FLOP is counted for each array, not for each add": 3 * n}),
            Part("Q", Q, "B", f"{p} B × (n + n + n) = {p} B × ({n:,} + {n:,} + {n:,})",
                 {unwritten: 2 * p * n, ELEMENTS: 3 * n, TWICE_BYTES: 2 * Q},
                 {fetched: Q + p * n}),
            {TWO_FLOPS: 2 * W / Q, unwritten: W / (2 * p * n), ELEMENTS: p * W / Q},
            {fetched: W / (Q + p * n)})


@problem(
    "day1.add",
    ask="c = a + b, elementwise, {dtype}, n = {n} elements each, on a machine with P = {P} for "
        "this dtype and BW = {BW}. Count what the op itself needs: a and b read, c written. Find "
        "W, Q, I and the side of the ridge.",
    fixed=dict(ROOFS, n=100_000_000, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6,
                        dtype=(dtype := r.choice(DRAWN)), **_cpu(r, dtype)))
def add(P: float, BW: float, n: int, dtype: str) -> Iterator[AnyPart]:
    W, Q, slips, rivals = _add_parts(n, dtype)
    yield from (W, Q, _intensity(W.value, Q.value, slips, rivals, ("/", "W", "Q")))
    yield _side(W.value / Q.value, P / BW)


def _csr(rows: int, nonzeros: int) -> tuple[dict[str, float], dict[str, float]]:
    """Q of SpMV in CSR form, counted wrongly: bytes by slip; the second near the right ones."""
    Q = SpMV(rows, nonzeros).algorithmic.hbm_bytes
    return ({"the column numbers are left out": Q - 4 * nonzeros,
             "x is fetched anew for every stored value": Q + 4 * (nonzeros - rows),
             TWICE_BYTES: 2 * Q},
            {"x, y and the row starts are left out": 8 * nonzeros,
             "one of x, y and the row starts is left out": Q - 4 * rows,
             "two of x, y and the row starts are left out": Q - 8 * rows,
             "only the values are counted": 4 * nonzeros})


@problem(
    "day1.spmv",
    ask="y = A x with a sparse A in CSR form: {rows} rows and columns, {nonzeros} stored values. "
        "Values, x and y are fp32, column numbers and row starts int32. Each element of x is "
        "fetched from memory once. P = {P}, BW = {BW}. Find W, Q, I and the side of the ridge.",
    fixed=dict(ROOFS, rows=1_000_000, nonzeros=16_000_000), units=ROOF_UNITS,
    draw=lambda r: dict(_cpu(r), rows=10**6, nonzeros=r.randrange(6, 30) * 10**6))
def spmv(P: float, BW: float, rows: int, nonzeros: int) -> Iterator[AnyPart]:
    if nonzeros > rows * rows:
        raise ValueError(f"{rows:,} rows and columns hold at most {rows * rows:,} values")
    count = SpMV(rows, nonzeros).algorithmic
    W, Q = count.flops, count.hbm_bytes
    wrong, near = _csr(rows, nonzeros)
    fetched = FETCHED.format("y")
    yield Part("W", W, "FLOP", f"2 nonzeros = 2 × {nonzeros:,}",
               {ONE_FLOP: W / 2, "zeros are multiplied, too": 2 * rows * rows, NOT_FLOPS: Q})
    yield Part("Q", Q, "B",
               f"values + columns + row starts + x + y = 4 B × ({nonzeros:,} + {nonzeros:,} + "
               f"{rows + 1:,} + {rows:,} + {rows:,})",
               {**wrong, ELEMENTS: Q / 4}, {fetched: Q + 4 * rows}, extra=near)
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()},
                     {fetched: W / (Q + 4 * rows)}, ("/", "W", "Q"),
                     {ONE_FLOP: W / 2 / Q, ELEMENTS: 4 * W / Q,
                      **{label: W / q for label, q in near.items()}})
    yield _side(W / Q, P / BW)


def _norm_parts(rows: int, D: int, dtype: str) -> tuple[Part, dict[str, float], dict[str, float]]:
    """Q of a layernorm; slips and rivals of its I."""
    count, p = LayerNorm(rows, D, dtype).algorithmic, BYTES[dtype]
    W, Q, x = count.flops, count.hbm_bytes, p * rows * D
    fetched = FETCHED.format("y")
    wrong = {"x or y is left out": Q - x,
             "the later steps are taken to fetch the row again, though it is in cache": Q + 2 * x}
    return (Part("Q", Q, "B",
                 f"{p} B × (x + y + scale + shift) = {p} B × (2 × {rows * D:,} + 2 × {D:,})",
                 {**wrong, ELEMENTS: Q / p}, {fetched: Q + x}),
            {**{label: W / q for label, q in wrong.items()}, ELEMENTS: p * W / Q,
             "one FLOP an element is counted": rows * D / Q},
            {fetched: W / (Q + x)})


@problem(
    "day1.fade.layernorm",
    ask=f"Layernorm does {LayerNorm.FLOPS_PER_ELEMENT} FLOPs an element: sum, subtract the mean, "
        "square and sum (2), divide by the deviation, scale, shift. x has {rows} rows of D = {D} "
        f"fp32 numbers, so W = {LayerNorm.FLOPS_PER_ELEMENT} × rows × D; scale and shift have D "
        "numbers each. A row stays in cache through all steps, and y is written. P = {P}, "
        "BW = {BW}. Find Q, then I and the side of the ridge.",
    fixed=dict(ROOFS, rows=65_536, D=1_024), units=ROOF_UNITS,
    draw=lambda r: dict(_cpu(r), rows=r.randrange(20, 200) * 1000,
                        D=r.choice((512, 768, 2048, 4096))))
def fade_layernorm(P: float, BW: float, rows: int, D: int) -> Iterator[AnyPart]:
    W = LayerNorm(rows, D, "fp32").flops
    Q, slips, rivals = _norm_parts(rows, D, "fp32")
    yield from (Q, _intensity(W, Q.value, slips, rivals, ("/", W, "Q")))
    yield _side(W / Q.value, P / BW)


SQUARE = dict(M=4096, K=4096, N=4096)
SHAPES = "A of M × K = {M} × {K}, B of K × N = {K} × {N}"
ONCE = "the reloads of A and B are left out"


def _product_work(M: int, K: int, N: int) -> Part:
    W = 2 * M * N * K
    return Part("W", W, "FLOP", f"2 M N K = 2 × {M:,} × {N:,} × {K:,}",
                {ONE_FLOP: W / 2, "one multiply-add is counted for each element of C, not K": 2 * M
                 * N})


@problem(
    "day1.matmul_untiled",
    ask="C = A B in fp32, " + SHAPES + ", stored row by row; loops i, k, j, from outer to inner: "
        "for each element of a row of A, a row of B streams past. The row of C that is being "
        "built stays in cache and is written once; A is read once. B does not fit, so all of it "
        "crosses the slow link again for every row of A. P = {P}, BW = {BW}. Find Q, I and the "
        "side of the ridge.",
    fixed=dict(ROOFS, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(_cpu(r), M=r.choice((1024, 2048, 8192)), K=r.choice((3072, 6144, 8192)),
                        N=r.choice((3072, 6144, 12288))))
def matmul_untiled(P: float, BW: float, M: int, K: int, N: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N, "fp32")
    W, Q = op.flops, op.reloaded(1, M).hbm_bytes
    wrong = {"the reloads of B are left out": op.algorithmic.hbm_bytes,
             "A is taken to come back for every column of B": op.reloaded(N, M).hbm_bytes,
             "C is taken to cross in every step of k, though its row is in cache":
             Q + FP32 * (2 * K - 1) * M * N}
    yield Part("Q", Q, "B",
               f"4 B × (M K + M × K N + M N) = 4 B × ({M * K:,} + {M:,} × {K * N:,} + {M * N:,})",
               {**wrong, ELEMENTS: Q / FP32},
               lead=f"W = 2 M N K = 2 × {M:,} × {N:,} × {K:,} = {flop(W)}")
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()}, follows=("/", W, "Q"),
                     extra={ONE_FLOP: W / 2 / Q, ELEMENTS: FP32 * W / Q})
    yield _side(W / Q, P / BW)


@problem(
    "day1.fade.matmul_blocked",
    ask="C = A B in fp32, " + SHAPES + ", now in blocks of b × b = {b} × {b}: for each block of C, "
        "the blocks of A and B it needs are fetched one pair after the other, and the block of C "
        "stays in cache until it is finished. P = {P}, BW = {BW}. Find W, Q, I and the side of "
        "the ridge.",
    fixed=dict(ROOFS, **SQUARE, b=64), units=ROOF_UNITS,
    draw=lambda r: dict(_cpu(r, small=False), M=r.choice((2048, 4096, 8192)),
                        K=r.choice((2048, 4096)),
                        N=r.choice((2048, 6144)), b=r.choice((8, 16, 32, 128))))
def fade_matmul_blocked(P: float, BW: float, M: int, K: int, N: int, b: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N, "fp32")
    r_A, r_B = -(-N // b), -(-M // b)
    work, Q = _product_work(M, K, N), op.reloaded(r_A, r_B).hbm_bytes
    W = op.flops
    wrong = {ONCE: op.algorithmic.hbm_bytes,
             "B is counted for every row of A instead of every row of blocks":
             op.reloaded(1, M).hbm_bytes,
             "the reloads of A are left out": op.reloaded(1, r_B).hbm_bytes}
    yield Part("W", W, "FLOP", work.why,
               {**work.slips, "the work is divided by b, as if blocks saved any": W / b})
    yield Part("Q", Q, "B",
               f"4 B × (N/b × M K + M/b × K N + M N) = 4 B × ({r_A:,} × {M * K:,} + "
               f"{r_B:,} × {K * N:,} + {M * N:,})\n"
               "A comes once for each of the N/b columns of blocks of C, B once for each of the "
               "M/b rows of blocks.",
               {**wrong, ELEMENTS: Q / FP32})
    yield _intensity(W, Q, {label: W / q for label, q in wrong.items()}, follows=("/", "W", "Q"),
                     extra={ONE_FLOP: W / 2 / Q, ELEMENTS: FP32 * W / Q})
    yield _side(W / Q, P / BW)


def _power_of_two(least: float) -> int:
    """The smallest power of two that is not below `least`."""
    return 2 ** (math.ceil(least) - 1).bit_length()


@problem(
    "day1.block_size",
    ask="A product of {n} × {n} matrices in fp32, in blocks of b × b; P = {P}, BW = {BW}. What is "
        "the smallest power of two b with which it reaches the ridge? How many bytes do the three "
        "blocks in use (of A, B and C) then need in cache?",
    fixed=dict(ROOFS, n=4096), units=ROOF_UNITS,
    draw=lambda r: dict(_cpu(r, small=False), n=r.choice((4096, 8192, 16384))))
def block_size(P: float, BW: float, n: int) -> Iterator[AnyPart]:
    ridge = P / BW
    if ridge * FP32 > n:
        raise ValueError(f"a product of {n:,} x {n:,} never reaches a ridge of {ridge:.3g}")
    exact = FP32 / (1 / ridge - FP32 / (2 * n))
    b = _power_of_two(exact)
    unrounded = "b is not made a power of two"
    yield Part("b", b, "", f"first power of two from {exact:.4g} on = 2^{b.bit_length() - 1}",
               {"b itself is compared with the ridge instead of I": _power_of_two(ridge),
                "only one block of the pair is counted": _power_of_two(ridge * FP32 / 2),
                ONE_FLOP: _power_of_two(2 * exact)},
               extra={unrounded: math.ceil(exact)},
               lead="A pair of blocks brings 2 b² elements of 4 bytes for 2 b³ FLOPs, so I is "
                    "about 2 b³ / (8 b²) = b / 4.\n"
                    "With C written once, I = 2 n³ / (4 (2 n³ / b + n²)); that is the ridge at\n"
                    f"4 / (1 / ridge - 4 / (2 n)) = 4 / (1 / {ridge:.5g} - 4 / (2 × {n:,})) = "
                    f"{exact:.4g}.")
    yield Part("blocks", 3 * b**2 * FP32, "B", f"3 b² × 4 B = 3 × {b}² × 4 B",
               {"the block of C is left out": 2 * b**2 * FP32,
                ELEMENTS: 3 * b**2, "a block is counted as b elements, not b × b": 3 * b * FP32},
               label="Bytes of the three blocks", follows=("*", 3 * FP32, "b", "b"),
               extra={unrounded: 3 * math.ceil(exact)**2 * FP32})


# --- Do -----------------------------------------------------------------------------------------

@problem(
    "day1.do.place_matmul",
    ask="Your op is a matmul: A of M × K = {M} × {K}, B of K × N = {K} × {N}, {dtype}. In your "
        "code A crosses the slow link r_A = {r_A} times, B r_B = {r_B} times, C once. The machine "
        "has P = {P} for this dtype and BW = {BW}. Find W, Q, I, the ridge, the side and T_best.",
    fixed=dict(ROOFS, M=1024, K=1024, N=1024, dtype="fp32", r_A=1, r_B=1), units=ROOF_UNITS,
    one_of=DTYPES,
    draw=lambda r: dict(M=r.choice((256, 512, 2048)), K=r.choice((384, 768, 4096)),
                        N=r.choice((320, 1536, 3072)), r_A=r.choice((2, 4, 6)),
                        r_B=r.choice((4, 8, 16)),
                        dtype=(dtype := r.choice(DRAWN)), **_cpu(r, dtype)))
def place_matmul(P: float, BW: float, M: int, K: int, N: int, dtype: str, r_A: int, r_B: int,
                 ) -> Iterator[AnyPart]:
    op, p = Matmul(M, K, N, dtype), BYTES[dtype]
    work, Q = _product_work(M, K, N), op.reloaded(r_A, r_B).hbm_bytes
    W = op.flops
    yield Part("W", W, "FLOP", work.why, {**work.slips, NOT_FLOPS: Q})
    wrong = {"C's write is left out": Q - p * M * N, TWICE_BYTES: 2 * Q}
    if r_A * r_B > 1:
        wrong[ONCE] = op.algorithmic.hbm_bytes
    yield Part("Q", Q, "B", f"{p} B × (r_A M K + r_B K N + M N) = {p} B × ({r_A} × {M * K:,} + "
               f"{r_B} × {K * N:,} + {M * N:,})", {**wrong, ELEMENTS: Q / p})
    yield from _place(W, Q, P, BW, {ONE_FLOP: W / 2 / Q, ELEMENTS: p * W / Q})


@problem(
    "day1.do.place_add",
    ask="Your op is c = a + b, elementwise, {n} {dtype} elements each; a and b are read, c is "
        "written. The machine has P = {P} for this dtype and BW = {BW}. Find W, Q, I, the "
        "ridge, the side and T_best.",
    fixed=dict(ROOFS, n=50_000_000, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(n=r.randrange(20, 990, 10) * 10**6,
                        dtype=(dtype := r.choice(DRAWN)), **_cpu(r, dtype)))
def place_add(P: float, BW: float, n: int, dtype: str) -> Iterator[AnyPart]:
    W, Q, slips, rivals = _add_parts(n, dtype)
    yield from (W, Q)
    fetched = {label: max(n / P, q / BW) for label, q in Q.rivals.items()}
    for part in _place(int(W.value), int(Q.value), P, BW, slips, rivals):
        yield _with_rivals(part, fetched) if part.name == "T_best" else part


@problem(
    "day1.do.place_layernorm",
    ask=f"Your op is a layernorm, {LayerNorm.FLOPS_PER_ELEMENT} FLOPs an element, over {{rows}} "
        "rows of D = {D} {dtype} numbers, with scale and shift of D each. A row stays in cache "
        "through all steps, and y is written. The machine has P = {P} for this dtype and "
        "BW = {BW}. Find W, Q, I, the ridge, the side and T_best.",
    fixed=dict(ROOFS, rows=16_384, D=768, dtype="fp32"), units=ROOF_UNITS, one_of=DTYPES,
    draw=lambda r: dict(rows=r.randrange(10, 300) * 1000, D=r.choice((512, 1024, 2048, 4096)),
                        dtype=(dtype := r.choice(DRAWN)), **_cpu(r, dtype)))
def place_layernorm(P: float, BW: float, rows: int, D: int, dtype: str) -> Iterator[AnyPart]:
    each, W = LayerNorm.FLOPS_PER_ELEMENT, LayerNorm(rows, D, dtype).flops
    Q, slips, rivals = _norm_parts(rows, D, dtype)
    yield Part("W", W, "FLOP", f"{each} × rows × D = {each} × {rows:,} × {D:,}",
               {"one FLOP an element is counted": rows * D, "only one row is counted": each * D,
                NOT_FLOPS: Q.value})
    yield Q
    fetched = {label: max(W / P, q / BW) for label, q in Q.rivals.items()}
    for part in _place(W, int(Q.value), P, BW, slips, rivals):
        yield _with_rivals(part, fetched) if part.name == "T_best" else part


def _with_rivals(part: AnyPart, rivals: Mapping[str, float]) -> AnyPart:
    """The part with those rivals that are not simply right."""
    if not isinstance(part, Part):
        return part
    return replace(part, rivals={label: value for label, value in rivals.items() if not any(
        low <= value <= high for low, high in part.right)})


@problem(
    "day1.do.intensities",
    ask="Derive the intensity of four ops in fp32: a dot product of long vectors; SpMV in CSR "
        "form ({rows} rows, {nonzeros} stored values, int32 column numbers and row starts, x "
        "fetched once); a product of {n} × {n} matrices untiled (a row of C stays in cache, B "
        "comes back for every row of A); the same product in blocks of b × b = {b} × {b}.",
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
    wrong, near = _csr(rows, nonzeros)
    yield Part("I_dot", 2 / (2 * FP32), "FLOP/B", "2 n / (4 B × 2 n) = 2 / (4 B × 2)",
               {UPSIDE_DOWN: FP32, "only one vector is counted": 2 / FP32,
                ONE_FLOP: 1 / (2 * FP32), ELEMENTS: 1}, label="I, dot product")
    yield Part("I_spmv", sparse.intensity, "FLOP/B",
               f"2 nonzeros / Q = 2 × {nonzeros:,} / {byte(q)}",
               {ONE_FLOP: sparse.flops / 2 / q, **{
                   label: sparse.flops / q for label, q in wrong.items() if label != TWICE_BYTES}},
               {FETCHED.format("y"): sparse.flops / (q + 4 * rows)}, label="I, SpMV",
               extra={UPSIDE_DOWN: q / sparse.flops,
                      **{label: sparse.flops / q for label, q in near.items()}})
    yield Part("I_untiled", untiled.intensity, "FLOP/B",
               f"2 n³ / (4 B × (n² + n³ + n²)) = {flop(W)} / {byte(untiled.hbm_bytes)}",
               {"the reloads of B are left out": once,
                "A is taken to come back for every column of B": product.reloaded(n, n).intensity,
                UPSIDE_DOWN: 1 / untiled.intensity}, label="I, untiled product",
               extra={ELEMENTS: FP32 * untiled.intensity})
    yield Part("I_blocked", blocked.intensity, "FLOP/B",
               f"2 n³ / (4 B × (n³/b + n³/b + n²)) = {flop(W)} / {byte(blocked.hbm_bytes)}",
               {ONCE: once,
                "the reloads of A are left out":
                product.reloaded(1, blocks).intensity,
                "B is counted for every row of A instead of every row of blocks":
                untiled.intensity}, label="I, blocked product",
               extra={UPSIDE_DOWN: 1 / blocked.intensity, ONE_FLOP: blocked.intensity / 2,
                      ELEMENTS: FP32 * blocked.intensity})


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
                  "both": "W follows from the shapes alone, whatever the order of the loops."},
                 "What changes?")
    yield Choice("intensity", "code",
                 {"op": "I belongs to the op: its mathematics fixes it",
                  "code": "I belongs to the code: the same op can move many bytes or few",
                  "chip": "I belongs to the machine: it is P / BW"},
                 "The shapes give W, the code gives Q.",
                 {"op": "The mathematics fixes W. How often a value crosses depends on the code.",
                  "chip": "P / BW is the ridge. I is W / Q, of a kernel."},
                 "What does I belong to?")


@problem("day1.right_up", ask="On the roofline of one machine, which of these changes to its code "
                              "moves a kernel's point to the right? And which moves it up and "
                              "leaves its intensity as it is?")
def right_up() -> Iterator[AnyPart]:
    yield Choice("right", "fuse",
                 {"threads": "running the loop on all cores instead of one",
                  "fuse": "fusing two loops, so that a value is reused while it is in cache",
                  "copy": "copying the input to a second array in slow memory first",
                  "unroll": "unrolling the loop, so that more multiply-adds are in flight"},
                 "Right means more FLOPs a byte: reuse, by blocking or fusing.",
                 {"threads": "More cores do the same FLOPs on the same bytes: I stays.",
                  "copy": "That is more bytes for the same FLOPs: the point moves left.",
                  "unroll": "The same FLOPs on the same bytes: I stays, and the point may rise."},
                 "What moves it to the right?")
    yield Choice("up", "vector",
                 {"block": "blocking a loop nest for the cache",
                  "narrow": "storing the data in half the bytes",
                  "vector": "vectorising the inner loop",
                  "spill": "writing an intermediate array to slow memory and reading it back"},
                 "Up means using more of the hardware: vectors, threads, fewer stalls.",
                 {"block": "That cuts Q, so the point moves to the right (and may rise with the "
                           "roof).",
                  "narrow": "Fewer bytes for the same FLOPs: the point moves to the right.",
                  "spill": "More bytes for the same FLOPs: the point moves to the left."},
                 "What moves it up, at the same intensity?")


@problem(
    "day1.overlap_2x",
    ask="A kernel needs W / P = {t_flop} for its arithmetic and Q / BW = {t_byte} for its bytes. "
        "What is T_worst / T_best for it? What is the largest that ratio can be for any kernel "
        "under these two roofs, and where on the roofline is it reached?",
    fixed=dict(t_flop=2e-3, t_byte=5e-3), units=dict(t_flop="s", t_byte="s"),
    draw=lambda r: dict(t_flop=r.randrange(1, 40) * 1e-4, t_byte=r.randrange(1, 40) * 1e-4))
def overlap_2x(t_flop: float, t_byte: float) -> Iterator[AnyPart]:
    short, long = sorted((t_flop, t_byte))
    ratio = (short + long) / long
    yield Part("ratio", ratio, "", f"(W / P + Q / BW) / max(W / P, Q / BW) = ({time(t_flop)} + "
               f"{time(t_byte)}) / max({time(t_flop)}, {time(t_byte)})",
               {f"{UPSIDE_DOWN}, T_best over T_worst": 1 / ratio,
                "the shorter time is taken for T_best": (short + long) / short,
                "the most it can be is given, not what it is here": 2,
                "the longer time alone is taken over the shorter": long / short},
               label="T_worst / T_best here")
    yield Part("most", 2, "", "(t + t) / t = (1 + 1) / 1\nThe shorter time is at most the longer "
               "one, so the sum is at most twice the longer one.",
               {"the sum of two times is taken to be no more than the longer of them": 1,
                "this kernel's ratio is given instead of the largest": ratio,
                "a third time is counted, though there are two roofs": 3},
               label="The most it can be")
    yield Choice("where", "ridge",
                 {"left": "far left of the ridge", "right": "far right of the ridge",
                  "ridge": "at the ridge", "never": "nowhere, it is only approached"},
                 "At the ridge both times are equal, and the sum is twice either.",
                 {"left": "There the bytes take nearly all the time, so the sum is little more.",
                  "right": "There the FLOPs take nearly all the time, so the sum is little more.",
                  "never": "A kernel may well have two equal times."},
                 "Where is that reached?")


@problem(
    "day1.under_2x",
    ask="A kernel runs at 1/{slow} of its roof. At most what factor can missing overlap of moving "
        "and computing explain? At least what factor remains for something else? And which "
        "explanation of the whole gap is possible?",
    fixed=dict(slow=5.0), draw=lambda r: dict(slow=r.choice((3.0, 6.0, 7.0, 8.0, 10.0, 12.0))))
def under_2x(slow: float) -> Iterator[AnyPart]:
    if slow <= 2:
        raise ValueError("slow has to be above 2")
    yield Part("overlap", 2, "", "(t + t) / t = (1 + 1) / 1\nThis holds for two roofs. With a "
               "third, such as another memory level, the sum could be three times the longest.",
               {"the whole gap is put down to it": slow,
                "the sum of two times is taken to be no more than the longer of them": 1,
                "a third time is counted, though there are two roofs": 3},
               label="Most that missing overlap explains, as a factor",
               extra={"what remains is given": slow / 2})
    yield Part("left", slow / 2, "",
               f"slow / overlap = {slow:g} / 2\nFactors multiply: what is explained divides out.",
               {"missing overlap is left out": slow,
                "the factors are subtracted instead of divided": slow - 2,
                "what missing overlap explains is given": 2, UPSIDE_DOWN: 2 / slow},
               label="Factor that remains", follows=("/", slow, "overlap"))
    yield Choice("cause", "idle",
                 {"overlap": "no overlap of moving and computing, and nothing else",
                  "bound": "the op is memory-bound",
                  "idle": "idle lanes or cores, perhaps with a lack of overlap besides",
                  "intensity": "its intensity is low"},
                 "Idle lanes or cores can cost any factor. Each is a lower ceiling of its own.",
                 {"overlap": "The sum of two times is at most twice the larger.",
                  "bound": "The roof at its intensity says so already; it explains no gap.",
                  "intensity": "The roof was taken at that intensity, low as it is."},
                 "What can explain all of it?")


# --- lower ceilings -----------------------------------------------------------------------------

@problem(
    "day1.ceiling_compute",
    ask="A CPU's peak is P = {P}: {cores} cores, {lanes} lanes, FMAs only. How high is the "
        "ceiling with one core at work? With all cores but no SIMD (one lane)? With all cores "
        "and lanes but plain adds instead of FMAs? With all three losses together?",
    fixed=dict(P=ROOFS["P"], cores=CORES, lanes=LANES), units=dict(P="FLOP/s"),
    draw=lambda r: dict(cores=(cores := r.choice((6, 12, 16, 24))),
                        lanes=(lanes := r.choice((4, 8, 16))), P=cores * 2 * lanes * 2 * r.choice(
                            (2.4e9, 2.8e9, 3.0e9, 3.5e9, 4.0e9, 4.5e9))))
def ceiling_compute(P: float, cores: int, lanes: int) -> Iterator[AnyPart]:
    yield Part("one_core", P / cores, "FLOP/s", f"P / cores = {rate(P)} / {cores}",
               {"the other cores are still counted": P,
                "P is multiplied by the cores instead of divided": P * cores,
                "the lanes are taken away, too": P / cores / lanes}, label="One core")
    yield Part("no_simd", P / lanes, "FLOP/s", f"P / lanes = {rate(P)} / {lanes}",
               {"all lanes are still counted": P, "the FMAs are taken away, too": P / lanes / 2,
                "P is multiplied by the lanes instead of divided": P * lanes},
               label="No SIMD")
    yield Part("no_fma", P / 2, "FLOP/s", f"P / 2 = {rate(P)} / 2",
               {"an add is counted as two FLOPs, like an FMA": P,
                "P is doubled, though FMAs are in it already": 2 * P,
                "the other cores are taken away, too": P / 2 / cores}, label="No FMA")
    yield Part("all_three", P / (2 * cores * lanes), "FLOP/s",
               f"P / (2 × cores × lanes) = {rate(P)} / (2 × {cores} × {lanes})",
               {"an add is counted as two FLOPs, like an FMA": P / (cores * lanes),
                "the losses are added instead of multiplied": P / (2 + cores + lanes),
                "only the worst of the three is taken": P / max(2, cores, lanes)},
               label="All three losses")


@problem(
    "day1.ceiling_bandwidth",
    ask="Memory moves whole lines of {line}, at BW = {BW}. A kernel uses {used} of each line "
        "it fetches, and does {each} for those. This can be booked in two ways. Useful bytes "
        "only: which bandwidth do they get, and what is I? All bytes that cross, at the full BW: "
        "what is I? Which rate in FLOP/s does memory allow, booked either way? And what would a "
        "layout do that puts the wanted values side by side?",
    fixed=dict(BW=ROOFS["BW"], line=LINE, used=FP32, each=1.0),
    units=dict(BW="B/s", line="B", used="B", each="FLOP"),
    draw=lambda r: dict(BW=_cpu(r, small=False)["BW"], line=r.choice((64, 128)),
                        used=r.choice((4, 8)), each=r.choice((1.0, 2.0, 3.0, 5.0))))
def ceiling_bandwidth(BW: float, line: int, used: int, each: float) -> Iterator[AnyPart]:
    if used >= line:
        raise ValueError("used has to be less than a line")
    useful = BW * used / line
    yield Part("useful", useful, "B/s", f"BW × used / line = {band(BW)} × {used} B / {line} B",
               {"only the used bytes are taken to cross": BW,
                "the share of the line is upside down": BW * line / used,
                "one byte of each line is counted": BW / line,
                "it is divided by the bytes used, not by the line": BW / used},
               label="Bandwidth of useful bytes")
    yield Part("I_useful", each / used, "FLOP/B", f"FLOPs / useful bytes = {flop(each)} / {used} B",
               {"all bytes that cross are counted instead of the useful ones": each / line,
                UPSIDE_DOWN: used / each, "elements are counted, not bytes": each},
               label="I by useful bytes")
    yield Part("I_moved", each / line, "FLOP/B", f"FLOPs / bytes = {flop(each)} / {line} B",
               {"the useful bytes are counted instead of all that cross": each / used,
                UPSIDE_DOWN: line / each,
                "the useful bytes are added to the line they are part of": each / (line + used)},
               label="I by all bytes that cross")
    bound = each / used * useful
    yield Part("bound", bound, "FLOP/s",
               f"I_useful × useful = {per_byte(each / used)} × {band(useful)}\n"
               f"Booked the other way, I_moved × BW = {per_byte(each / line)} × {band(BW)}: the "
               "same. Reloads of\nevicted lines can be booked either way, too. Book a waste once.",
               {"the waste is counted twice, in I and in the bandwidth": each / line * useful,
                "the waste is not counted at all": each / used * BW,
                "the bandwidth is divided by I": useful / (each / used)},
               label="Rate that memory allows", follows=("*", "I_useful", "useful"))
    yield Choice("layout", "share",
                 {"memory": "the memory delivers more lines a second",
                  "share": "each line brings more wanted values, so fewer lines cross",
                  "work": "the kernel does fewer FLOPs",
                  "cache": "the cache holds more lines"},
                 f"Up to {line / used:g} times more useful bytes a second. On a GPU it is "
                 "neighbouring threads that have to share what is fetched (sectors of 32 B on "
                 "NVIDIA's): coalesced access.",
                 {"memory": "BW stays; what changes is how much of each line is wanted.",
                  "work": "W stays; the values are the same.",
                  "cache": "Its size stays; what changes is how much of each line is wanted."},
                 "What would the layout do?")


@problem(
    "day1.ceiling_kind",
    ask="Count in Q every byte that crosses, wanted or not. Which roof does each of the three "
        "events below lower: the flat one (compute), the slanted one (bandwidth), or neither?")
def ceiling_kind() -> Iterator[AnyPart]:
    roofs = {"compute": "a compute ceiling", "bandwidth": "a bandwidth ceiling",
             "neither": "neither: it moves the point"}
    yield Choice("chain", "compute", roofs,
                 "An FMA that waits for the one before leaves units idle; no byte is involved.",
                 {"bandwidth": "All operands are in registers.",
                  "neither": "W and Q stay: I is the same."},
                 "Each FMA needs the result of the one before it")
    yield Choice("far", "bandwidth", roofs,
                 "Placement decides which link the bytes take; the far one is slower.",
                 {"compute": "The cores could compute as fast as before.",
                  "neither": "The same bytes and FLOPs: I is the same, the bytes arrive later."},
                 "Half of the data lies in the memory of the other socket")
    yield Choice("evict", "neither", roofs,
                 "More bytes for the same FLOPs: Q rises, I falls, the point moves left.",
                 {"compute": "The cores could compute as fast as before.",
                  "bandwidth": "The reloads are in Q, so I has fallen already. A lower bandwidth "
                               "besides would count them twice."},
                 "Two arrays push each other out of cache, so both are fetched twice")


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
    swapped = "T_DRAM and T_L3 are swapped"
    yield Part("T_DRAM", times["DRAM"], "s",
               f"Q_DRAM / BW_DRAM = {byte(Q_DRAM)} / {band(BW_DRAM)}",
               {"L3's bandwidth is taken for DRAM's bytes": Q_DRAM / BW_L3,
                "L3's bytes are taken, at DRAM's bandwidth": Q_L3 / BW_DRAM,
                "the bytes of both levels are added": (Q_DRAM + Q_L3) / BW_DRAM},
               extra={swapped: times["L3"]})
    yield Part("T_L3", times["L3"], "s", f"Q_L3 / BW_L3 = {byte(Q_L3)} / {band(BW_L3)}",
               {"DRAM's bandwidth is taken for L3's bytes": Q_L3 / BW_DRAM,
                "DRAM's bytes are taken, at L3's bandwidth": Q_DRAM / BW_L3,
                "the two bandwidths are added": Q_L3 / (BW_L3 + BW_DRAM)},
               extra={swapped: times["DRAM"]})
    yield Choice("binds", binds, {"compute": "the flat roof, P", "DRAM": "DRAM's slanted roof",
                                  "L3": "L3's slanted roof"},
                 ", ".join(f"{name} {time(t)}" for name, t in times.items())
                 + ": the longest time binds.",
                 {name: "Another roof takes longer. Compare the three times." for name in times
                  if name != binds}, "Which roof binds?")
    yield Part("T_best", times[binds], "s",
               f"max(W / P, T_DRAM, T_L3) = max({', '.join(map(time, times.values()))})",
               {ADDED: sum(times.values()), "the shortest time is taken": min(times.values()),
                "the roof with the longest time is left out": sorted(times.values())[1]},
               follows=("max", W / P, "T_DRAM", "T_L3"))


@problem(
    "day1.mix",
    ask="A kernel does {W_fp32} in fp32, where the peak is {P_fp32}, and {W_fp64} in fp64, where "
        "it is {P_fp64}. The same units do both, so the times add. How long does its arithmetic "
        "take at least, and at what rate in all?",
    fixed=dict(W_fp32=3e9, W_fp64=1e9, P_fp32=ROOFS["P"], P_fp64=ROOFS["P"] / 2),
    units=dict(W_fp32="FLOP", W_fp64="FLOP", P_fp32="FLOP/s", P_fp64="FLOP/s"),
    draw=lambda r: dict(W_fp32=r.choice((2e9, 4e9, 5e9, 8e9)), W_fp64=r.choice((1e9, 3e9, 6e9)),
                        P_fp32=(P := _cpu(r, small=False)["P"]), P_fp64=P / 2))
def mix(W_fp32: float, W_fp64: float, P_fp32: float, P_fp64: float) -> Iterator[AnyPart]:
    W, t = W_fp32 + W_fp64, W_fp32 / P_fp32 + W_fp64 / P_fp64
    mean = (P_fp32 + P_fp64) / 2
    yield Part("T_flop", t, "s",
               f"W_fp32 / P_fp32 + W_fp64 / P_fp64 = {flop(W_fp32)} / {rate(P_fp32)} + "
               f"{flop(W_fp64)} / {rate(P_fp64)}",
               {"fp32's peak is taken for all of it": W / P_fp32,
                "fp64's peak is taken for all of it": W / P_fp64,
                "only the longer of the two times is taken":
                max(W_fp32 / P_fp32, W_fp64 / P_fp64),
                "the two peaks are averaged instead of adding the times": W / mean},
               label="Time of the arithmetic")
    yield Part("rate", W / t, "FLOP/s", f"W / T_flop = {flop(W)} / {time(t)}",
               {"fp32's peak is taken for all of it": P_fp32,
                "the two peaks are averaged instead of adding the times": mean,
                "fp64's peak is taken for all of it": P_fp64,
                "the peaks are averaged by FLOPs instead of adding the times":
                (W_fp32 * P_fp32 + W_fp64 * P_fp64) / W}, label="Rate in all",
               follows=("/", W, "T_flop"))


@problem(
    "day1.mix_fma",
    ask="A CPU reaches its peak of {P} with FMAs only; a plain add takes the place of an FMA. In a "
        "kernel, FMAs are a share of {share} of the floating-point instructions, and the rest are "
        "plain adds. How high is its compute ceiling?",
    fixed=dict(P=ROOFS["P"], share=0.25), units=dict(P="FLOP/s", share=""),
    draw=lambda r: dict(P=_cpu(r, small=False)["P"], share=r.choice((0.1, 0.2, 0.3, 0.4, 0.6))))
def mix_fma(P: float, share: float) -> Iterator[AnyPart]:
    if share > 1:
        raise ValueError("share is at most 1")
    yield Part("ceiling", P * (1 + share) / 2, "FLOP/s",
               f"P × (2 share + 1 (1 - share)) / 2 = {rate(P)} × (2 × {share:g} + "
               f"1 × (1 - {share:g})) / 2\nOut of 2 FLOPs an instruction at the peak, an FMA does "
               "2 and an add 1.",
               {"the adds are left out": P * share, "the FMAs are counted as one FLOP": P / 2,
                "the adds are counted as two FLOPs": P,
                "the shares of FMAs and adds are swapped": P * (1 - share / 2)},
               label="Compute ceiling",
               extra={"the share is taken as one of FLOPs, not of instructions": P / (2 - share)})


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
               {"the counted bytes are taken, not the measured ones": Q_before / Q_counted,
                UPSIDE_DOWN: Q_measured / Q_before,
                "it is compared with the count, not with the code before":
                Q_measured / Q_counted}, label="Factor by which traffic fell")
    yield replace(_intensity(W, Q_measured, {
        "the counted bytes are taken, not the measured ones": W / Q_counted,
        "the bytes before the tiling are taken": W / Q_before}), label="I as measured")
    yield Choice("know", "bytes",
                 {"faster": "the tiled code is faster",
                  "hits": "the L1 hit rate went up",
                  "bytes": "DRAM bytes read and written, measured before and after",
                  "formula": "the formula for Q with the new tile sizes gives less"},
                 "The claim is about bytes at DRAM, so count those, on both versions.",
                 {"faster": "It may be faster for another reason, such as better vector code.",
                  "hits": "Those hits may have been L2 hits before: DRAM sees no difference.",
                  "formula": "That is the prediction. It assumes that the tiles stay in cache."},
                 "How do you know that a tiling cut DRAM traffic?")


# --- what a bound says about choices ------------------------------------------------------------

@problem(
    "day1.more_P",
    ask="An op has I = {I} on a machine with P = {P} and BW = {BW}. Its successor has {times} "
        "times the P and the same BW. What is the entitled rate before and after, and what share "
        "of the new peak is that? What would lower the op's entitled time?",
    fixed=dict(ROOFS, I=0.25, times=4.0), units=dict(ROOF_UNITS, I="FLOP/B"),
    draw=lambda r: dict(cpu := _cpu(r, small=False), times=r.choice((2.0, 3.0, 5.0)),
                        I=_two_digits(r.choice((0.03, 0.1, 0.3)) * cpu["P"] / cpu["BW"])))
def more_P(P: float, BW: float, I: float, times: float) -> Iterator[AnyPart]:
    if I >= P / BW or times <= 1:
        raise ValueError("the op has to be memory-bound, and P to grow")
    before = I * BW
    yield Part("before", before, "FLOP/s", f"min(P, I × BW) = min({rate(P)}, {per_byte(I)} × "
               f"{band(BW)})", {"the higher of the two roofs is taken": P,
                                "the bandwidth is divided by I": BW / I,
                                "I is multiplied by P, not by BW": I * P},
               label="Entitled rate before")
    yield Part("after", before, "FLOP/s",
               f"min(times × P, I × BW) = min({times:g} × {rate(P)}, {per_byte(I)} × {band(BW)})",
               {"the slanted roof is taken to rise with P": times * before,
                "the higher of the two roofs is taken": times * P,
                "the old peak is given, as if the slanted roof were above it": P},
               label="Entitled rate after")
    yield Part("share", before / (times * P), "", f"after / (times × P) = {rate(before)} / "
               f"({times:g} × {rate(P)})",
               {"the old peak is taken": before / P, "the rate is taken to rise with P": before / P,
                UPSIDE_DOWN: times * P / before,
                "the old peak is taken, with a rate that rises with P": times * before / P},
               label=f"Share of the new peak{SHARE}", follows=("/", "after", times * P))
    yield Choice("helps", "bytes",
                 {"peak": "yet more P", "lanes": "wider vectors",
                  "bytes": "fewer bytes for the same work, or more BW",
                  "ridge": "a higher ridge"},
                 "The time is Q / BW: only Q and BW are in it.",
                 {"peak": "W / P is not what takes the time.",
                  "lanes": "Wider vectors raise P, and W / P is not what takes the time.",
                  "ridge": "A higher ridge puts the op further to the left of it."},
                 "What would lower the op's entitled time?")


def _chip(of: machine.Machine, *dtypes: str) -> dict[str, Any]:
    return {"machine": of.name, **{f"P_{dtype}": of.peak(dtype) for dtype in dtypes}}


BATCHED = {chip.name: chip for chip in (machine.a100, machine.h100, machine.h200, machine.b200,
                                        machine.tpu_v5e, machine.tpu_v5p)}


@problem(
    "day1.batching",
    ask="A linear layer reads a bf16 weight matrix once and uses it for a batch of B = {B} rows. "
        "Count the weight reads only. What is I? The accelerator, {machine}, has P = {P} in bf16 "
        "and BW = {BW}: what is its ridge, and how many whole rows must a batch have at least to "
        "reach it?",
    fixed=dict(B=8, machine=machine.a100.name, P=machine.a100.peak("bf16"), BW=machine.a100.bw()),
    units=ROOF_UNITS, one_of=dict(machine=tuple(BATCHED)),
    draw=lambda r: dict(B=r.choice((4, 16, 32, 64)),
                        machine=(name := r.choice([*BATCHED][1:])),
                        P=BATCHED[name].peak("bf16"), BW=BATCHED[name].bw()))
def batching(B: int, machine: str, P: float, BW: float) -> Iterator[AnyPart]:
    p, ridge = BYTES["bf16"], P / BW
    four = "a number is counted with 4 bytes"
    yield Part("I", 2 * B / p, "FLOP/B", f"2 B / p = 2 × {B} / {p} B\nEach weight has {p} bytes "
               "and gets a multiply and an add for each row of the batch.",
               {"a number is counted with one byte": 2 * B, ONE_FLOP: B / p, four: B / p,
                "the weights are counted anew for every row": 2 / p})
    yield _ridge(P, BW, 2 * B / p)
    least = ridge * p / 2
    yield Part("B_ridge", math.ceil(least), "",
               f"ridge × p / 2, rounded up = {per_byte(ridge)} × {p} B / 2 FLOP",
               {"a number is counted with one byte": least / 2, ONE_FLOP: least * 2,
                four: least * 2,
                "a factor on the batch above is given instead of a batch": least / B},
               also=(least, math.floor(least)), label="Rows to reach the ridge",
               follows=("*", "ridge", p / 2))


SEEN = {"plain fp32 FMAs and idle tensor units": "fp32", "its tensor units at work on tf32": "tf32"}
PATHS = {"fp32": "fp32, on the ordinary units", "tf32": "tf32, on the tensor units",
         "bf16": "bf16, on the tensor units"}
LISTED = {chip.name: _chip(chip, *PATHS) for chip in (machine.a100, machine.h100)}


@problem(
    "day1.path_precision",
    ask="The sheet of an {machine} lists {P_bf16} for bf16 and {P_tf32} for tf32, both on the "
        "tensor units, and {P_fp32} for fp32 on the ordinary ones. A matmul of fp32 inputs runs "
        "at {rate}; the profiler shows {seen}. Which peak is its roof, and what share of it is "
        "reached? By what factor does the roof rise if the matmul moves to {to}?",
    fixed=dict(LISTED[machine.a100.name], rate=15e12, seen=next(iter(SEEN)), to="tf32"),
    units=dict(rate="FLOP/s", P_bf16="FLOP/s", P_tf32="FLOP/s", P_fp32="FLOP/s"),
    one_of=dict(machine=tuple(LISTED), seen=tuple(SEEN), to=("tf32", "bf16")),
    draw=lambda r: dict(chip := r.choice([*LISTED.values()]), seen=(seen := r.choice([*SEEN])),
                        to=r.choice(("tf32", "bf16")) if SEEN[seen] == "fp32" else "bf16",
                        rate=_two_digits(chip[f"P_{SEEN[seen]}"] * r.randrange(40, 95, 5) / 100)))
def path_precision(machine: str, rate: float, P_bf16: float, P_tf32: float, P_fp32: float,
                   seen: str, to: str) -> Iterator[AnyPart]:
    ran, peaks = SEEN[seen], {"fp32": P_fp32, "tf32": P_tf32, "bf16": P_bf16}
    if ran == to:
        raise ValueError("to has to be another path than the one that ran")
    P, shown = peaks[ran], partial(show, unit="FLOP/s", digits=4)
    others = {dtype: peak for dtype, peak in peaks.items() if dtype != ran}
    reasons = {"fp32": "The ordinary units did little: the tensor units were at work.",
               "tf32": "The tensor units were idle: this path was not taken.",
               "bf16": "Nothing ran in bf16. Against that peak every fp32 kernel looks bad."}
    yield Choice("roof", ran, PATHS, "The roof is that of the path and precision that ran.",
                 {dtype: reasons[dtype] for dtype in others}, "Which peak is its roof?")
    yield Part("share", rate / P, "", f"rate / P_{ran} = {shown(rate)} / {shown(P)}",
               {**{f"{dtype}'s peak is taken, though that path did not run": rate / peak
                   for dtype, peak in others.items()}, UPSIDE_DOWN: P / rate},
               label=f"Share of its roof{SHARE}")
    third = next(dtype for dtype in others if dtype != to)
    yield Part("rise", peaks[to] / P, "", f"P_{to} / P_{ran} = {shown(peaks[to])} / {shown(P)}",
               {f"{third}'s peak is taken": peaks[third] / P, UPSIDE_DOWN: P / peaks[to],
                "the new roof is compared with the rate, not with the old roof": peaks[to] / rate},
               label="Factor by which the roof rises")


# --- your own CPU -------------------------------------------------------------------------------

@problem(
    "day1.cpu.spec",
    ask="A CPU has {cores} cores at {clock}, {fma_units} FMA units a core, {lanes} fp32 lanes a "
        "unit; {channels} memory channels of 8 bytes, each making {transfers} (transfers a "
        "second). Find P, BW and the ridge.",
    fixed=dict(cores=CORES, fma_units=FMA_UNITS, lanes=LANES, clock=DESKTOP.facts["clock"].value,
               channels=CHANNELS, transfers=float(DESKTOP.facts["dram_transfer_rate"].value)),
    units=dict(clock="Hz", transfers="transfer/s"),
    draw=lambda r: dict(cores=r.choice((6, 10, 12, 16, 24)), lanes=r.choice((4, 8, 16)),
                        clock=r.choice((2.4e9, 3e9, 3.6e9, 4.5e9)), channels=r.choice((4, 8, 12)),
                        transfers=r.choice((3200e6, 4800e6, 6400e6))))
def cpu_spec(cores: int, fma_units: int, lanes: int, clock: float, channels: int,
             transfers: float) -> Iterator[AnyPart]:
    if clock < 1e6 or transfers < 1e6:
        raise ValueError("clock and transfers need their units, such as GHz and MT/s")
    P, BW = cores * fma_units * lanes * 2 * clock, channels * 8 * transfers
    yield Part("P", P, "FLOP/s", f"cores × units × lanes × 2 × clock = {cores} × {fma_units} × "
               f"{lanes} × 2 × {clock_rate(clock)}",
               {"an FMA is counted as one FLOP": P / 2,
                "only one FMA unit of a core is counted": P / fma_units,
                "a lane is counted once for each byte of its fp32 number": 4 * P,
                "only one core is counted": P / cores, "the clock is left out": P / clock})
    yield Part("BW", BW, "B/s", f"channels × 8 B × transfers = {channels} × 8 B × "
               f"{show(transfers, 'transfer/s', 4)}",
               {"the 8 bytes of a transfer are left out": BW / 8,
                "only one channel is counted": BW / channels,
                "the transfers are doubled, though they count both edges of the clock": 2 * BW,
                "bytes are turned into bits, by a factor 8": 8 * BW})
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
               {f"{UPSIDE_DOWN}, BW over P": BW / P, "the P of one core is taken": P / BW
                / cores, "the prefixes of P and BW are ignored": P / BW / 1000},
               follows=("/", "P", "BW"))


# What NumPy is called with -> arrays that it reads; each call does one FLOP an element.
CALLS = {"np.add(a, b, out=c)": 2, "np.multiply(a, s, out=c), s one number": 1}


@problem(
    "day1.cpu.write_allocate",
    ask="{call}, on {dtype} arrays of n = {n} elements, each far larger than the last cache. "
        "Before it writes a line of c, this cache fetches that line. How many bytes does the op "
        "need (each array once), how many really cross, and what is I with those? You divide the "
        "needed bytes by the time of a run that saturates the memory: what share of its "
        "bandwidth do you get?",
    fixed=dict(n=64_000_000, call=next(iter(CALLS)), dtype="fp32"),
    one_of=dict(DTYPES, call=tuple(CALLS)),
    draw=lambda r: dict(n=r.randrange(20, 200, 4) * 10**6, call=r.choice([*CALLS]),
                        dtype=r.choice(("fp32", "fp64"))))
def cpu_write_allocate(n: int, call: str, dtype: str) -> Iterator[AnyPart]:
    reads, p = CALLS[call], BYTES[dtype]
    array = p * n
    need, moved = (reads + 1) * array, (reads + 2) * array
    read = "a read, b read" if reads == 2 else "a read"
    unfetched = "the fetch of c's lines is left out"
    yield Part("needed", need, "B", f"{reads + 1} × {p} B × n = {reads + 1} × {p} B × {n:,}",
               {"c's write is left out": reads * array, ELEMENTS: (reads + 1) * n,
                "the fetch of c's lines is counted, though the op does not need it": moved},
               label="Bytes needed")
    yield Part("moved", moved, "B", f"{reads + 2} × {p} B × n = {reads + 2} × {p} B × {n:,}\n"
               f"{read}, c fetched, c written.",
               {unfetched: need, "arrays that are only read are counted twice": 2 * need,
                ELEMENTS: (reads + 2) * n}, label="Bytes that cross")
    yield Part("I", n / moved, "FLOP/B", f"n / moved = {flop(n)} / {byte(moved)}",
               {unfetched: n / need, UPSIDE_DOWN: moved / n,
                "each operation is counted as two FLOPs": 2 * n / moved},
               follows=("/", n, "moved"))
    yield Part("share", need / moved, "", f"needed / moved = {byte(need)} / {byte(moved)}",
               {"the fetch is taken to cost no time": 1, UPSIDE_DOWN: moved / need,
                "c's write is left out of the needed bytes": reads * array / moved},
               label=f"Share of the bandwidth{SHARE}", follows=("/", "needed", "moved"))


@problem(
    "day1.cpu.above_spec",
    ask="One core does {per_cycle} a cycle: so says its maker's manual, and the code uses all of "
        "it. The system reports a clock of {clock}; nobody measured that. An FMA loop on this "
        "core measures {measured}. What share of the spec is this, which clock would make it 1, "
        "and which input do you suspect first?",
    fixed=dict(per_cycle=FMA_UNITS * LANES * 2, clock=2.6e9, measured=118e9),
    units=dict(per_cycle="FLOP", clock="Hz", measured="FLOP/s"),
    draw=lambda r: dict(clock=r.choice((2.2e9, 2.4e9, 2.8e9, 3.0e9)),
                        measured=r.choice((110e9, 115e9, 125e9, 130e9))))
def cpu_above_spec(per_cycle: int, clock: float, measured: float) -> Iterator[AnyPart]:
    spec = per_cycle * clock
    yield Part("share", measured / spec, "",
               f"measured / (FLOPs a cycle × clock) = {rate(measured)} / ({per_cycle} × "
               f"{clock_rate(clock)})",
               {UPSIDE_DOWN: spec / measured,
                "an FMA is doubled, though it is two FLOPs already": 2 * measured / spec,
                "only what is above the spec is given, not all of it": measured / spec - 1},
               label=f"Share of the spec{SHARE}")
    yield Part("implied", measured / per_cycle, "Hz",
               f"measured / FLOPs a cycle = {rate(measured)} / {per_cycle}",
               {"an FMA is doubled, though it is two FLOPs already": 2 * measured / per_cycle,
                "the share is applied upside down":
                clock * spec / measured, "the reported clock is given": clock},
               label="Clock that would make it 1")
    yield Choice("suspect", "clock",
                 {"memory": "the memory bandwidth", "timer": "the code: it beats the hardware",
                  "clock": "the clock: cores run above the figure that is reported",
                  "cycle": "the FLOPs a cycle: more units or lanes than assumed",
                  "flops": "W, because the compiler left FLOPs out"},
                 "No code beats its hardware, so an input is wrong; here one is documented and the "
                 "other only reported.",
                 {"memory": "The loop works in registers; it has no traffic to speak of.",
                  "timer": "The hardware's limit is one: if it is passed, its figure is wrong.",
                  "cycle": "A good suspect where they are guessed. Here the manual gives them, and "
                           "a unit too few would be a whole factor.",
                  "flops": "Possible, and worth a check, but far rarer than a boosted clock."},
                 "Which input do you suspect first?")


# --- the paper of 2009 --------------------------------------------------------------------------

OLD: dict[str, dict[str, Any]] = {
    old.name: dict(machine=old.name, P=old.peak("fp64"), BW=old.bw(),
                   printed=old.facts["printed_ridge"].value)
    for old in (machine.xeon_e5345, machine.opteron_x4, machine.ultrasparc_t2, machine.cell_qs20)}
OLD_KERNELS = {name: dict(kernel=name, before=kernel.before.value, after=kernel.after.value)
               for name, kernel in machine.KERNELS_2009.items()}
PAPER = "the paper's text, whose ridge stands for the authors' own bandwidth benchmark"
BOTH_SOCKETS = "P is doubled, though it is that of both sockets"


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
               {f"{UPSIDE_DOWN}, BW over P": BW / P, BOTH_SOCKETS: 2 * P / BW,
                "it is counted for each fp64 number, not for each byte": 8 * P / BW},
               {PAPER: printed})
    yield Part("BW_implied", P / printed, "B/s",
               f"P / ridge = {rate(P)} / {per_byte(printed)}",
               {"P is multiplied by the ridge": P * printed, BOTH_SOCKETS: 2 * P / printed,
                "BW is divided by the printed ridge, not P": BW / printed},
               label="Bandwidth the printed ridge implies")


# The first roofline's machine and its successor, and the ridges that the text prints.
SOCKET = dict(P_old=machine.opteron_x2.peak("fp64"), BW_old=machine.opteron_x2.bw(),
              P_new=machine.opteron_x4.peak("fp64"), BW_new=machine.opteron_x4.bw())
PRINTED = {when: {"the paper's printed ridge": old.facts["printed_ridge"].value}
           for when, old in (("before", machine.opteron_x2), ("after", machine.opteron_x4))}


@problem(
    "day1.paper.new_chip",
    ask="A chip with P = {P_old} in fp64 gives way to one with {P_new} in the same socket. The "
        "memory goes from {BW_old} to {BW_new}. Find the ridge before and after. What does that "
        "do to a kernel whose intensity lies between the two?",
    fixed=SOCKET,
    units=dict(P_old="FLOP/s", P_new="FLOP/s", BW_old="B/s", BW_new="B/s"),
    draw=lambda r: dict(P_old=r.choice((20e9, 30e9, 40e9)), BW_old=r.choice((10e9, 16e9, 25e9)),
                        P_new=r.choice((150e9, 200e9, 300e9)), BW_new=r.choice((12e9, 21e9, 30e9))))
def paper_new_chip(P_old: float, BW_old: float, P_new: float, BW_new: float) -> Iterator[AnyPart]:
    before, after = P_old / BW_old, P_new / BW_new
    if after <= before:
        raise ValueError("the ridge has to move to the right")
    printed = PRINTED if dict(P_old=P_old, BW_old=BW_old, P_new=P_new,
                              BW_new=BW_new) == SOCKET else {}
    yield Part("before", before, "FLOP/B", f"P / BW = {rate(P_old)} / {band(BW_old)}",
               {f"{UPSIDE_DOWN}, BW over P": BW_old / P_old,
                "the new memory is taken with the old peak": P_old / BW_new,
                "the new chip's ridge is given": after},
               printed.get("before", {}), label="Ridge before")
    yield Part("after", after, "FLOP/B", f"P / BW = {rate(P_new)} / {band(BW_new)}",
               {f"{UPSIDE_DOWN}, BW over P": BW_new / P_new,
                "the old memory is taken with the new peak": P_new / BW_old,
                "the old chip's ridge is given": before},
               printed.get("after", {}), label="Ridge after")
    yield Choice("between", "turns",
                 {"faster": "it stays compute-bound and gains as much as P does",
                  "turns": "it was compute-bound and is now memory-bound",
                  "eases": "it was memory-bound and is now compute-bound"},
                 "The ridge passed it on its way to the right. The kernel itself did not change.",
                 {"faster": "It is left of the new ridge, so there the bytes set its time.",
                  "eases": "It is right of the old ridge and left of the new one."},
                 "What happens to a kernel between the two?")


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
                   {"the higher of the two roofs is taken": high,
                    "the bandwidth is divided by I": BW / I,
                    "the other intensity is taken": min(P, other * BW)},
                   {PAPER: min(P, I * P / printed)}, label=f"Entitled rate {name}")
    yield _side(after, P / BW)


PROBLEMS = collect(globals())
