"""Day 7's second inf2 notebook: a SwiGLU MLP.

Question  what may the MLP of a public model cost, and why does it stay under that?
Answer    PROBLEMS, in the order of the page; ids begin with day7.swiglu.
Assumes   one NeuronCore-v2 of inf2 unless said; times in questions are supposed unless published
Ignores   how a profile is captured and read (device, profile)
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Any

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES, MODELS, SwiGLU
from ..units import mebi
from . import day1, day2, day5
from .day3 import ONE_FLOP
from .day5 import ELEMENTS, in_tiles
from .day7 import (
    UPSIDE_DOWN_,
    _apart,
    _choice,
    _intensity,
    _share,
    band,
    byte,
    element,
    flop,
    ns,
    rate_,
    time,
)

CORE = machine.get("inf2", "core")
FACTS = {name: spec.value for name, spec in CORE.facts.items()}
P, BW = float(CORE.peak("bf16")), float(CORE.bw())
P_FP32, DMA = float(CORE.peak("fp32")), float(CORE.bw("DMA"))
SBUF = int(FACTS["sbuf_bytes"])
TILE, WIDE = int(FACTS["pmax"]), int(FACTS["gemm_moving_fmax"])
ROOFS, UNITS = {"P": P, "BW": BW}, day2.ROOF_UNITS
SMALL, LARGE = MODELS["qwen3-0.6b"], MODELS["llama-3.1-8b"]
SIZES = dict(B=2048, D=SMALL.D, F=SMALL.F)
OP = SwiGLU(SIZES["B"], SIZES["D"], SIZES["F"])
KERNEL = dict(ROOFS, W=float(OP.flops), Q=float(OP.algorithmic.hbm_bytes))
KERNEL_UNITS = dict(UNITS, W="FLOP", Q="B")
# The published case: the same widths, 4096 tokens, fp32
TOKENS, BLOCK = 4096, 512
PUBLISHED = SwiGLU(TOKENS, SMALL.D, SMALL.F, dtype="fp32")
F01 = dict(P=P_FP32, W=float(PUBLISHED.flops), T=4221.8e-6, moved=225_509_376.0,
           ours=float(4 * (2 * TOKENS * SMALL.D + TOKENS // BLOCK * 3 * SMALL.D * SMALL.F)))
IS = ("a = x W_gate, u = x W_up, s = silu(a) × u, y = s W_down, with B = {B} tokens, D = {D}, F = "
      "{F}")
TWICE = "the 2 of a multiply-add counted twice"
FP32 = "4 bytes a number, as in fp32"


def told(body: Callable[..., Iterator[AnyPart]]) -> Callable[..., Iterator[AnyPart]]:
    """The same parts, and what each of them is with a rival of this core's HBM bandwidth."""
    @wraps(body)
    def parts(**inputs: Any) -> Iterator[AnyPart]:
        theirs = {} if inputs.get("BW") != BW else {
            f"BW = {spec.text} ({spec.source})": {part.name: part for part in body(
                **{**inputs, "BW": spec.value})} for spec in CORE.bandwidths["HBM"].rivals}
        for part in body(**inputs):
            rivals = {label: found[part.name] for label, found in theirs.items()}
            yield (day2._apart(part, rivals) if isinstance(part, Part) else
                   day2._sided(part, rivals) if isinstance(part, Choice) else part)

    return parts


def _sizes(r: random.Random) -> dict[str, int]:
    D, F = r.choice(((512, 2048), (512, 3072), (1024, 3072), (1024, 4096), (1536, 4096)))
    return dict(B=r.choice((512, 1024, 1536, 3072, 4096, 5120)), D=D, F=F)


def _kernel(r: random.Random) -> dict[str, float]:
    s = _sizes(r)
    op = SwiGLU(s["B"], s["D"], s["F"])
    return dict(W=float(op.flops), Q=float(op.algorithmic.hbm_bytes))


# --- the counts by hand -------------------------------------------------------------------------


@problem(
    "day7.swiglu.hand",
    ask="A SwiGLU MLP: " + IS + ", bf16. One kernel: each of the three weight matrices is loaded "
        "once and stays, and a, u and s never leave the chip. Find W (silu and the product left "
        "out), the bytes read and written, Q and I.",
    fixed=SIZES, draw=_sizes)
def hand(B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = SwiGLU(B, D, F)
    W, Q, p = op.flops, op.algorithmic.hbm_bytes, BYTES["bf16"]
    thin, wide, matrix = p * B * D, p * B * F, p * D * F
    yield _apart(Part("W", W, "FLOP", f"6 B D F = 6 × {B:,} × {D:,} × {F:,}\nGate, up and down, "
                      "2 B D F each.",
                      {"two projections counted, gate or up left out": 4 * B * D * F,
                       ONE_FLOP: W / 2, "one token counted, not all": W / B,
                       "one projection counted": W / 3, TWICE: 2 * W}))
    yield _apart(Part("read", thin + 3 * matrix, "B", f"p (B D + 3 D F) = {p} bytes × ({B:,} × "
                      f"{D:,} + 3 × {D:,} × {F:,})",
                      {ELEMENTS: (thin + 3 * matrix) / p,
                       "two weight matrices, not three": thin + 2 * matrix,
                       "x read twice, as by two kernels": 2 * thin + 3 * matrix,
                       "x left out": 3 * matrix, FP32: 2 * (thin + 3 * matrix)},
                      label="Bytes read"))
    yield _apart(Part("written", thin, "B", f"p B D = {p} bytes × {B:,} × {D:,}",
                      {ELEMENTS: thin / p, "F columns in place of D": wide, FP32: 2 * thin,
                       "s counted as written, F columns more": thin + wide}, label="Bytes written"))
    yield _apart(Part("Q", Q, "B", f"read + written = {byte(thin + 3 * matrix)} + {byte(thin)}",
                      {"a, u and s cross, as in four kernels":
                       op.unfused.algorithmic.hbm_bytes, ELEMENTS: Q / p,
                       "x and y left out": 3 * matrix,
                       "two weight matrices, not three": Q - matrix,
                       "s crosses, written and read back": Q + 2 * wide},
                      follows=("+", "read", "written")))
    yield _apart(_intensity(W, Q, slips={"a, u and s cross, as in four kernels":
                                         W / op.unfused.algorithmic.hbm_bytes},
                            follows=("/", "W", "Q")))


@problem(
    "day7.swiglu.fits",
    ask="The three matrices of a SwiGLU MLP in bf16. Of Qwen3-0.6B: D = {D}, F = {F}. Of "
        "Llama-3.1-8B: D = {D_large}, F = {F_large}. How many bytes are they in each (small, "
        "large)? Which share of a core's SBUF, {sbuf}, are those of the small one? Which of them "
        "can stay beside a block of {block} tokens, with D numbers of x and F of s a token?",
    fixed=dict(D=SMALL.D, F=SMALL.F, D_large=LARGE.D, F_large=LARGE.F, sbuf=SBUF, block=128),
    units=dict(sbuf="B"),
    draw=lambda r: dict(zip(("D", "F"), r.choice(((512, 2048), (896, 4864), (1024, 3584),
                                                  (1024, 4096))), strict=True),
                        **dict(zip(("D_large", "F_large"), r.choice((
                            (1536, 8960), (2048, 5632), (3584, 18944), (8192, 28672))),
                            strict=True)), block=r.choice((128, 256)),
                        sbuf=r.choice((SBUF, SBUF * 7 // 6, SBUF * 4 // 3))))
def fits(D: int, F: int, D_large: int, F_large: int, sbuf: int, block: int) -> Iterator[AnyPart]:
    p = BYTES["bf16"]
    need = {}
    for name, d, f in (("small", D, F), ("large", D_large, F_large)):
        size = 3 * p * d * f
        need[name] = size + p * block * (d + f)
        yield _apart(Part(name, size, "B", f"3 p D F = 3 × {p} bytes × {d:,} × {f:,}\nThat is "
                          f"{mebi(size)}.",
                          {"two matrices, as without a gate": size * 2 / 3, ELEMENTS: size / p,
                           "one matrix, not three": size / 3, FP32: 2 * size},
                          label=f"Matrices, the {name} model"))
    size = 3 * p * D * F
    yield _share("share", size, sbuf, f"small / sbuf = {byte(size)} / {byte(sbuf)}",
                 "Small model's, of SBUF",
                 {"two matrices, not three": size * 2 / 3 / sbuf, ELEMENTS: size / p / sbuf,
                  "the large model's share": 3 * p * D_large * F_large / sbuf},
                 follows=("/", "small", float(sbuf)))
    right = {(True, True): "both", (True, False): "small", (False, True): "large",
             (False, False): "neither"}[need["small"] <= sbuf, need["large"] <= sbuf]
    yield _choice("stays", right, {
        key: (says, f"Add the block to the matrices and compare with {mebi(sbuf)}.")
        for key, says in (("small", "the small model's"), ("both", "both models'"),
                          ("neither", "neither model's"), ("large", "the large model's"))},
        f"With the block: {mebi(need['small'])} and {mebi(need['large'])}, of {mebi(sbuf)}.",
        "Whose can stay?")


# --- the entitlement ----------------------------------------------------------------------------


def _worst(t_flop: float, t_byte: float) -> Part:
    return replace(day5._worst(t_flop, t_byte, "T_worst", "", ("T_flop", "T_byte")))


@problem(
    "day7.swiglu.entitled",
    ask="One core of inf2, P = {P} in bf16 and BW = {BW}. A fused SwiGLU MLP does W = {W} and "
        "moves Q = {Q}. Find W / P (T_flop), Q / BW (T_byte), T_best, T_worst and the side of the "
        "ridge. What is the least bandwidth (needs) at which it is still compute-bound?",
    fixed=KERNEL, units=KERNEL_UNITS, draw=_kernel)
@told
def entitled(P: float, BW: float, W: float, Q: float) -> Iterator[AnyPart]:
    t_flop, t_byte = W / P, Q / BW
    yield _apart(Part("T_flop", t_flop, "s", f"W / P = {flop(W)} / {rate_(P)}",
                      {ONE_FLOP: t_flop / 2, "fp32's peak in place of bf16's": 4 * t_flop,
                       "FLOPs divided by BW": W / BW, "P of both cores of the chip": t_flop / 2,
                       }, label="W / P"))
    yield _apart(Part("T_byte", t_byte, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
                      {"bytes divided by P": Q / P, ELEMENTS: t_byte / 2,
                       "bytes taken as bits: a factor 8": 8 * t_byte,
                       "the DMA engines' bandwidth, another roof": Q / DMA}, label="Q / BW"))
    short, long = sorted((t_flop, t_byte))
    yield _apart(Part("T_best", long, "s", f"max(W / P, Q / BW) = max({time(t_flop)}, "
                      f"{time(t_byte)})",
                      {"the shorter of the two times": short, TWICE: 2 * long,
                       "FLOPs over BW, bytes over P": max(W / BW, Q / P)},
                      extra={day2.SUM: short + long}, follows=("max", "T_flop", "T_byte")))
    yield _apart(_worst(t_flop, t_byte))
    yield day1._side(W / Q, P / BW)
    yield _apart(Part("needs", Q / t_flop, "B/s", f"Q / (W / P) = {byte(Q)} / {time(t_flop)}",
                      {"BW itself": BW, "P over BW: a ridge, not a bandwidth": P / BW,
                       "bytes taken as bits: a factor 8": 8 * Q / t_flop, ELEMENTS: Q / t_flop / 2,
                       "the bytes' time in place of the FLOPs'": Q / (t_flop + t_byte)},
                      label="Least bandwidth"))


@problem(
    "day7.swiglu.engines",
    ask="A fused SwiGLU MLP, B = {B}, D = {D}, F = {F}, bf16, P = {P}. The Scalar Engine takes "
        "silu of each element of a, one element a lane and cycle: {scalar}. The Vector Engine "
        "multiplies it with u; its rate is {vector}. Take {cycles} cycles an element for its two "
        "inputs. How long does silu take (T_scalar), and how long the product (T_vector)? Which of "
        "the three engines sets T_best? At which width D do the product and the matmuls take "
        "equally long (D_even)? Copies out of PSUM are left out.",
    fixed=dict(SIZES, P=P, scalar=FACTS["scalar_element_rate"],
               vector=FACTS["vector_element_rate"], cycles=int(FACTS["vector_two_input_cycles"])),
    units=dict(P="FLOP/s", scalar="element/s", vector="element/s"),
    draw=lambda r: dict(_sizes(r), D=r.choice((64, 128, 512, 1536, 2048))))
def engines(B: int, D: int, F: int, P: float, scalar: float, vector: float, cycles: int,
            ) -> Iterator[AnyPart]:
    n = B * F
    times = {"scalar": n / scalar, "vector": cycles * n / vector, "tensor": 6 * n * D / P}
    yield _apart(Part("T_scalar", times["scalar"], "s", f"B F / rate = {B:,} × {F:,} / "
                      f"{scalar:,.0f}",
                      {"D columns in place of F": B * D / scalar,
                       "one lane, not all 128": TILE * n / scalar,
                       "two cycles an element, as with two inputs": 2 * n / scalar,
                       "the Vector Engine's rate": n / vector}, label="Time of silu"))
    yield _apart(Part("T_vector", times["vector"], "s", f"cycles × B F / rate = {cycles} × {B:,} × "
                      f"{F:,} / {vector:,.0f}",
                      {"one cycle an element, as with one input": n / vector,
                       "one lane, not all 128": TILE * cycles * n / vector,
                       "the Scalar Engine's rate": cycles * n / scalar,
                       "D columns in place of F": cycles * B * D / vector},
                      label="Time of the product"))
    right = max(times, key=lambda name: times[name])
    yield _choice("binds", right, {
        name: (f"the {name.title()} Engine", "Compare the three times; W is 6 B D F.")
        for name in ("tensor", "vector", "scalar")},
        f"Tensor Engine W / P = {time(times['tensor'])}, Vector Engine {time(times['vector'])}, "
        f"Scalar Engine {time(times['scalar'])}.", "Which engine?")
    even = cycles * P / (6 * vector)
    yield _apart(Part("D_even", even, "", f"cycles × P / (6 × rate) = {cycles} × {rate_(P)} / (6 × "
                      f"{element(vector)})\n6 B D F / P = cycles × B F / rate: B and F cancel.",
                      {"2 B D F: one projection of the three": 3 * even, ONE_FLOP: 2 * even,
                       "one cycle an element": even / cycles if cycles > 1 else 4 * even,
                       "the Scalar Engine's rate": cycles * P / (6 * scalar)},
                      label="D with equal times"))


# --- the gap ------------------------------------------------------------------------------------


@problem(
    "day7.swiglu.held",
    ask="A kernel's profile has exactly the W = {W} and Q = {Q} of the hand count. P = {P}, BW = "
        "{BW}. Suppose that T = {T}. Find the gap T - T_best, the MFU, and the share of BW used, "
        "averaged over T. A kernel with the same W and half of the bytes: what would its T_best "
        "be? What does a Q that came out exactly say about T?",
    fixed=dict(KERNEL, T=780e-6), units=dict(KERNEL_UNITS, T="s"),
    draw=lambda r: (lambda k: dict(k, T=r.choice((1.5, 1.7, 2.4, 2.8)) * max(
        k["W"] / P, k["Q"] / BW)))(_kernel(r)))
def held(P: float, BW: float, W: float, Q: float, T: float) -> Iterator[AnyPart]:
    best, half = max(W / P, Q / BW), max(W / P, Q / 2 / BW)
    yield _apart(Part("gap", T - best, "s", f"T - T_best = {ns(T)} - {ns(best)}",
                      {"the time itself": T, "T_best, not what is above it": best,
                       "what is above T_worst": T - W / P - Q / BW,
                       "taken the wrong way round": best - T}, label="Gap"))
    yield _share("mfu", W / P, T, f"W / T / P = {flop(W)} / {time(T)} / {rate_(P)}", "MFU",
                 {ONE_FLOP: W / P / T / 2, "fp32's peak in place of bf16's": 4 * W / P / T,
                  "the gap over T_best": T / best - 1})
    yield _share("used", Q / BW, T, f"Q / T / BW = {byte(Q)} / {time(T)} / {band(BW)}",
                 "BW used over T",
                 {"T_best in place of T": Q / BW / best, ELEMENTS: Q / BW / T / 2,
                  "bytes taken as bits: a factor 8": 8 * Q / BW / T})
    yield _choice("half", "same" if half == best else "less", {
        "same": ("the same", "Its bytes took longer than W / P: compare again with half of them."),
        "half": ("half", "W / P stays: no FLOP has gone."),
        "less": ("less, but not half" if half != best else "less", "W / P is the longer of the two "
                 "times, and it has no Q in it.")},
        f"max(W / P, Q / 2 / BW) = max({time(W / P)}, {time(Q / 2 / BW)}).",
        "T_best with half of the bytes?")
    yield _choice("says", "none", {
        "none": ("nothing: it says how much moved, not when", ""),
        "near": ("that T is near T_best", "T_best assumes that all overlaps and that each engine "
                 "runs at its peak. A count says neither."),
        "dma": ("that the rest of the time is DMA", "That is on the timeline, or it is not.")},
        "W and Q give the bound. What happened in the time is on the timeline.",
        "What does it say?")


CHANGE = dict(SIZES, block=128, wider=512, T=950e-6, pipeline=450e-6)


@problem(
    "day7.swiglu.change",
    ask="A fused SwiGLU MLP, B = {B}, D = {D}, F = {F}. A stationary tile is 128 × 128. In gate "
        "and up the moving tile is a block of tokens wide, in down 512 columns of y, for each 128 "
        "tokens. How many matmul instructions are there with a block of {block} tokens (before), "
        "and of {wider} (after)? Suppose that T = {T} with the narrow block, and that the ledger's "
        "pipeline row is {pipeline}, an equal part for each instruction. How much is that part "
        "(each)? What is T with the wider block (T_new), if nothing else changes?",
    fixed=CHANGE, units=dict(T="s", pipeline="s"),
    draw=lambda r: (lambda s: dict(s, block=128, wider=r.choice((256, 512)), **(lambda best: dict(
        T=round(r.choice((1.9, 2.2)) * best, 6), pipeline=round(r.choice((0.6, 0.75)) * best, 6)))(
        6 * s["B"] * s["D"] * s["F"] / P)))(_sizes(r)))
def change(B: int, D: int, F: int, block: int, wider: int, T: float, pipeline: float,
           ) -> Iterator[AnyPart]:
    in_tiles(B=(B, TILE), D=(D, WIDE), F=(F, TILE))
    for size in (block, wider):
        if not 0 < size <= WIDE or B % size or size % TILE:
            raise ValueError(f"a block is a multiple of {TILE}, at most {WIDE}, and divides B")
    if wider <= block:
        raise ValueError("wider has to be more than block")
    if not pipeline < T:
        raise ValueError("pipeline is a part of T")
    stationary = D // TILE * (F // TILE)
    down = F // TILE * (D // WIDE) * (B // TILE)

    def matmuls(size: int) -> int:
        return 2 * stationary * (B // size) + down

    n, m = matmuls(block), matmuls(wider)
    for name, size, own, label in (("before", block, n, "narrow"), ("after", wider, m, "wider")):
        yield _apart(Part(name, own, "", f"2 (D / 128) (F / 128) (B / block) + (F / 128) (D / 512) "
                          f"(B / 128) = 2 × {D // TILE} × {F // TILE} × {B // size} + {F // TILE} "
                          f"× {D // WIDE} × {B // TILE}",
                          {"down left out": own - down, "one of gate and up left out":
                           own - stationary * (B // size),
                           "down by stationary tiles, not by moving ones":
                           own - down + stationary * (B // TILE),
                           "one block counted, not all": 2 * stationary + down * size // B},
                          label=f"Instructions, {label} block", exact=True))
    each = pipeline / n
    yield _apart(Part("each", each, "s", f"pipeline / before = {ns(pipeline)} / {n:,}",
                      {"all of T, not its pipeline row": T / n,
                       "the instructions after the change": pipeline / m,
                       "gate and up alone": pipeline / (n - down),
                       "T without its pipeline row": (T - pipeline) / n},
                      label="Fixed cost of one", follows=("/", pipeline, "before")))
    new = T - each * (n - m)
    yield _apart(Part("T_new", new, "s", f"T - each × (before - after) = {ns(T)} - {ns(each)} × "
                      f"({n:,} - {m:,})",
                      {"no fixed cost left at all": T - pipeline,
                       "all of T as instructions": T * m / n,
                       "all instructions wider by the same, down too":
                       T - pipeline * (1 - block / wider),
                       "the part that is saved": each * (n - m)}, label="T, wider block"))


# --- the published case -------------------------------------------------------------------------


@problem(
    "day7.swiglu.streamed",
    ask="The same MLP in fp32, a core with P = {P} in fp32 and BW = {BW}: " + IS + ". How many "
        "bytes are its three matrices? They do not fit in {sbuf}: the kernel takes {block} tokens "
        "at a time and loads all three once for each block; x and y cross once. How often are the "
        "matrices loaded (times)? Find Q, I, the ridge, T_best and the side.",
    fixed=dict(P=P_FP32, BW=BW, B=TOKENS, D=SMALL.D, F=SMALL.F, block=BLOCK, sbuf=SBUF),
    units=dict(UNITS, sbuf="B"),
    draw=lambda r: dict(B=r.choice((2048, 3072, 6144, 8192)), block=r.choice((64, 128, 256, 512)),
                        F=r.choice((2560, 3072, 4096))))
@told
def streamed(P: float, BW: float, B: int, D: int, F: int, block: int, sbuf: int,
             ) -> Iterator[AnyPart]:
    in_tiles(B=(B, block))
    p, W = BYTES["fp32"], 6 * B * D * F
    weights, times = 3 * p * D * F, B // block
    if weights <= sbuf:
        raise ValueError(f"the matrices are {mebi(weights)} and stay in {mebi(sbuf)}")
    Q = 2 * p * B * D + times * weights
    yield _apart(Part("weights", weights, "B", f"3 p D F = 3 × {p} bytes × {D:,} × {F:,}\nThat is "
                      f"{mebi(weights)}.",
                      {"2 bytes a number, as in bf16": weights / 2, ELEMENTS: weights / p,
                       "two matrices, not three": weights * 2 / 3, "one matrix, not three":
                       weights / 3}, label="Three matrices"))
    yield _apart(Part("times", times, "", f"B / block = {B:,} / {block:,}",
                      {"once, as if they stayed": 1, "once for every token": B,
                       "once for every 128 rows": B // TILE if block != TILE else 2 * times,
                       "the tokens of a block": block}, label="Times they are loaded", exact=True))
    yield _apart(Part("Q", Q, "B", f"p (2 B D + times × 3 D F) = {p} bytes × (2 × {B:,} × {D:,} + "
                      f"{times} × 3 × {D:,} × {F:,})",
                      {"weights once, as if they stayed": 2 * p * B * D + weights,
                       "2 bytes a number, as in bf16": Q / 2, ELEMENTS: Q / p,
                       "x and y come again with the weights": times * (2 * p * B * D + weights),
                       "x and y left out": times * weights}))
    yield _apart(_intensity(W, Q, slips={"weights once, as if they stayed":
                                         W / (2 * p * B * D + weights)},
                            follows=("/", float(W), "Q")))
    yield _apart(Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate_(P)} / {band(BW)}",
                      {UPSIDE_DOWN_: BW / P, "bf16's peak in place of fp32's": 4 * P / BW,
                       "the kernel's I; the ridge is the machine's": W / Q}, label="Ridge"))
    short, long = sorted((W / P, Q / BW))
    yield _apart(Part("T_best", long, "s", f"max(W / P, Q / BW) = max({time(W / P)}, "
                      f"{time(Q / BW)})",
                      {"the shorter of the two times": short, TWICE: 2 * long,
                       "bf16's peak in place of fp32's": max(W / P / 4, Q / BW)
                       if W / P > Q / BW else long / 4},
                      extra={day2.SUM: short + long},
                      follows=("max", ("/", float(W), P), ("/", "Q", BW))))
    yield day1._side(W / Q, P / BW)


@problem(
    "day7.swiglu.published",
    ask="Published by others: this MLP on trn1, W = {W} in fp32, took {T} and moved {moved}; its "
        "kernel writes s to HBM and reads it back. A core of trn1 has P = {P} in fp32. Which share "
        "of its roof is that? At which I do its bytes put it (I_moved)? On such a core our "
        "streamed kernel moves {ours}: how many times as much? Both are right of the ridge. Which "
        "of them is entitled to the shorter time?",
    fixed=F01, units=dict(P="FLOP/s", W="FLOP", T="s", moved="B", ours="B"),
    draw=lambda r: dict(T=r.choice((3.9e-3, 4.6e-3, 5.3e-3)),
                        moved=r.choice((150e6, 190e6, 260e6, 520e6)),
                        ours=r.choice((335_544_320.0, 637_534_208.0))))
def published(P: float, W: float, T: float, moved: float, ours: float) -> Iterator[AnyPart]:
    if W / max(moved, ours) < P / BW:
        raise ValueError(f"both have to be right of the ridge: at most {byte(W * BW / P)}")
    yield _share("share", W / P, T, f"W / P / T = {time(W / P)} / {time(T)}", "Share of its roof",
                 {ONE_FLOP: W / P / T / 2, "bf16's peak in place of fp32's": W / P / T / 4,
                  "the time of the bytes over T": moved / BW / T})
    yield _apart(_intensity(W, moved, "I_moved", "I at the bytes moved",
                            {"our kernel's bytes": W / ours}, symbol="moved"))
    yield _apart(Part("ratio", ours / moved, "", f"ours / moved = {byte(ours)} / {byte(moved)}",
                      {UPSIDE_DOWN_: moved / ours, "how many times more: the ratio less one":
                       ours / moved - 1, "the bytes of both": (ours + moved) / moved},
                      label="Our bytes over theirs"))
    yield _choice("shorter", "same", {
        "same": ("neither: W and P are the same, and so is W / P", ""),
        "theirs": ("theirs" + ": it moves fewer bytes" * (moved < ours),
                   "Right of the ridge T_best is W / P. It has no Q in it."),
        "ours": ("ours" + (": nothing is spilled" if moved < ours else ": it moves fewer bytes"),
                 "Right of the ridge T_best is W / P, with a spill or without.")},
        f"W / P = {time(W / P)} for both. Fewer bytes are easier to hide, and that is all.",
        "Entitled to the shorter time?")


PROBLEMS = collect(globals())
