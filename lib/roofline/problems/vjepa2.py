"""The case study: the V-JEPA 2 ViT-L MLP on one logical core of Trainium2.

Question  fused or not, weights on both cores or split: what is each entitled to?
Answer    PROBLEMS, in the order of the page; ids begin with vjepa2.
Assumes   LNC=2 unless said: two physical cores, P and BW of the pair. A time that a question gives
          is supposed
Ignores   how a profile is captured and read (device, profile)
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from ..check import AnyPart, Part, collect, problem
from ..ops import MLP, MODELS
from ..units import show
from . import day2, day5
from .day3 import ONE_FLOP
from .day5 import ELEMENTS, MLP_IS, TILE, in_tiles
from .day6 import CLOCKS, CORE, CORES, PAIR, SCALAR
from .day7 import _apart, _choice, _share, band, byte, flop, ns, time

MODEL = MODELS["vjepa2-vit-l"]
# of the clips in a pretraining configuration, vitl16/pretrain-256px-16f.yaml
FRAMES, SIZE, PATCH, DEPTH = 16, 256, 16, 2
SIZES = dict(B=FRAMES // DEPTH * (SIZE // PATCH) ** 2, D=MODEL.D, F=MODEL.F)
BYTES = 2  # of one bf16 number
P, BW, DMA = float(PAIR.peak("bf16")), float(PAIR.bw()), float(CORE.bw("DMA"))
ROOFS, ROOF_UNITS = dict(P=P, BW=BW), dict(P="FLOP/s", BW="B/s")
TRN2_PAIR = "Take one logical core of Trn2 (LNC=2), P = {P} in bf16 and BW = {BW}. "
HALVES = "Each core takes half of the tokens"
BOTH, ONCE = "weights counted once, though both cores load them", "weights counted twice"


def _sizes(r: random.Random) -> dict[str, int]:
    D, F = r.choice(((512, 2048), (512, 3072), (1024, 3072), (1024, 5120), (1536, 3072)))
    return dict(B=r.choice((1024, 1536, 3072, 4096, 5120)), D=D, F=F)


def _mlp(B: int, D: int, F: int) -> MLP:
    return MLP(B, D, F)


def _bytes(B: int, D: int, F: int) -> dict[str, int]:
    """Q of the pair for the four mappings."""
    in_tiles(B=(B, 2 * TILE), D=(D, TILE), F=(F, 2 * TILE))
    thin, wide, weights = 2 * BYTES * B * D, 4 * BYTES * B * F, 2 * BYTES * D * F
    return dict(fused_both=thin + 2 * weights, unfused_both=thin + 2 * weights + wide,
                fused_split=thin + weights, unfused_split=thin + weights + wide)


def _unfused_best(B: int, D: int, F: int) -> float:
    """T_best of the three kernels' W and Q as one op, the weights on both cores."""
    return max(_mlp(B, D, F).flops / P, _bytes(B, D, F)["unfused_both"] / BW)


WHO = dict(fused_both="fused, weights on both", unfused_both="unfused, weights on both",
           fused_split="fused, weights split", unfused_split="unfused, weights split")


def _pair_traffic(name: str, B: int, D: int, F: int, part: str) -> Part:
    """Q of the pair in one mapping."""
    all_, wide, weights = _bytes(B, D, F), 4 * BYTES * B * F, 2 * BYTES * D * F
    Q, loads = all_[name], 2 if name.endswith("both") else 1
    apart = name.startswith("unfused")
    text = " + 4 B F" * apart, f" + 4 × {B:,} × {F:,}" * apart
    other = all_[name.partition("_")[0] + ("_split" if loads == 2 else "_both")]
    crossing = ({"h and g left out, as in one kernel": Q - wide,
                 "half of the crossings of h and g left out": Q - wide // 2} if apart else
                {"h and g cross, as in three kernels": Q + wide})
    return _apart(Part(
        part, Q, "B", f"p (2 B D + {2 * loads} D F{text[0]}) = {BYTES} bytes × (2 × {B:,} × {D:,} "
        f"+ {2 * loads} × {D:,} × {F:,}{text[1]})",
        {BOTH if loads == 2 else ONCE: other, ELEMENTS: Q / BYTES, **crossing,
         "the weights left out": Q - loads * weights,
         "x and y taken by both cores too": Q + 2 * BYTES * B * D,
         "one core's bytes, not those of both": Q / 2}, label=f"Q of the pair, {WHO[name]}"))


# --- the hand count ------------------------------------------------------------------------------

@problem(
    "vjepa2.tokens",
    ask="A video model takes a clip of {frames} frames of {size} × {size} pixels and cuts it into "
        "patches of {patch} × {patch} pixels that are {depth} frames deep. Each patch is one "
        "token. How many tokens (B) does its MLP get? With D = {D}, F = {F} and two projections, "
        "what is W (GELU left out)? How many bytes is x in bf16? Where does the clip's length "
        "enter?",
    fixed=dict(frames=FRAMES, size=SIZE, patch=PATCH, depth=DEPTH, D=MODEL.D, F=MODEL.F),
    draw=lambda r: (lambda s: dict(
        frames=r.choice((8, 32, 64)), size=r.choice((192, 224, 288, 384)), D=s["D"], F=s["F"]))(
        _sizes(r)))
def tokens(frames: int, size: int, patch: int, depth: int, D: int, F: int) -> Iterator[AnyPart]:
    for name, whole, cut in (("frames", frames, depth), ("size", size, patch)):
        if whole % cut:
            raise ValueError(f"{name} has to be a multiple of {cut}, got {whole:,}")
    if depth < 2 or patch < 2 or frames == depth:
        raise ValueError("a patch is at least 2 pixels wide and 2 frames deep, and the clip is "
                         "longer than one patch")
    side, deep = size // patch, frames // depth
    B = deep * side * side
    yield day5._times("B", B, f"frames / depth × (size / patch) × (size / patch) = {frames} / "
                      f"{depth} × ({size} / {patch}) × ({size} / {patch})",
                      {"each frame cut by itself: a patch is several frames deep": B * depth,
                       "the patches of one frame, not of the clip": side * side,
                       "one side of the frame taken, not both": deep * side,
                       "pixels counted, not patches": frames * size * size}, "Tokens")
    work = day5._mlp_work(MLP(B, D, F))
    yield _apart(replace(work, follows=("*", 4 * D * F, "B")))
    x = BYTES * B * D
    yield _apart(Part("x", x, "B", f"p B D = {BYTES} bytes × {B:,} × {D:,}",
                      {ELEMENTS: x / 2, "F numbers a token: x has D of them": BYTES * B * F,
                       "4 bytes a number, as in fp32": 2 * x, "one token's bytes": BYTES * D},
                      label="Bytes of x", follows=("*", BYTES * D, "B")))
    yield _choice("enters", "B", {
        "B": ("in B alone: a longer clip has more tokens", ""),
        "D": ("in D: each token holds more of the clip",
              "D is the model's width; every token has as many numbers."),
        "weights": ("in D F: longer clips need larger weights",
                    "The weights are the model's. Every clip meets the same ones.")},
        "D and F are the model's. The clip decides how many tokens share one load of the weights.",
        "Where does it enter?")


@problem(
    "vjepa2.both",
    ask=MLP_IS + "It runs on the two cores of a pair (LNC=2). " + HALVES + " and loads all of both "
        "weight matrices. As one kernel, h and g stay on chip: how many bytes does one core move, "
        "and how many the pair? As three kernels, h and g are written to HBM and read back: how "
        "many does the pair move then? Which tensors cross twice because there are two cores?",
    fixed=SIZES, draw=_sizes)
def both(B: int, D: int, F: int) -> Iterator[AnyPart]:
    Q = _bytes(B, D, F)["fused_both"]
    core, weights = Q // 2, 2 * BYTES * D * F
    yield _apart(Part("core", core, "B", f"p (2 B D / 2 + 2 D F) = {BYTES} bytes × ({B:,} × {D:,} "
                      f"+ 2 × {D:,} × {F:,})",
                      {"half of the weights: each core loads all of them": core - weights // 2,
                       "all of the tokens: a core has half of them": core + BYTES * B * D,
                       ELEMENTS: core / 2, "the bytes of both cores": Q,
                       "x alone, y left out": core - BYTES * B * D // 2},
                      label="Bytes of one core, fused"))
    fused = _pair_traffic("fused_both", B, D, F, "fused")
    yield replace(fused, follows=("*", 2, "core"))
    yield _pair_traffic("unfused_both", B, D, F, "unfused")
    yield _choice("twice", "weights", {
        "weights": ("W_up and W_down", ""),
        "all": ("all of them", "A token's row of x is loaded by one core: its own."),
        "acts": ("h and g", "They cross twice on one core, too: written, then read."),
        "none": ("none: the cores share an HBM",
                 "They share the HBM, not an SBUF: what both need comes into both.")},
        "Both cores need every weight, and each has an SBUF of its own.", "Which cross twice?")


@problem(
    "vjepa2.split",
    ask=MLP_IS + "Again on a pair. " + HALVES + "; of each weight matrix it loads one half from "
        "HBM, and sends it to the other core's SBUF. Find Q of the pair as one kernel and as three "
        "(h and g cross then), and the bytes that go from SBUF to SBUF, both ways together. From "
        "its own half of W_up alone, a core is to finish tiles of h. Along what is W_up cut?",
    fixed=SIZES, draw=_sizes)
def split(B: int, D: int, F: int) -> Iterator[AnyPart]:
    weights = 2 * BYTES * D * F
    for name in ("fused", "unfused"):
        yield _pair_traffic(f"{name}_split", B, D, F, name)
    yield Part("sent", weights, "B", f"2 × p 2 D F / 2 = 2 × {BYTES} bytes × 2 × {D:,} × {F:,} / 2",
               {"one of the two directions": weights / 2, "all of the weights both ways":
                2 * weights, ELEMENTS + ", or one of the two matrices": weights / 2,
                "x sent too: a core needs its own tokens alone": weights + BYTES * B * D},
               label="Bytes from SBUF to SBUF")
    yield _choice("cut", "F", {
        "F": ("along F: a core gets whole columns of W_up", ""),
        "D": ("along D: a core gets whole rows of W_up",
              "A number of h is a sum over all of D: this half could begin it, not finish it."),
        "any": ("along either: half of the weights is half of the work",
                "Which half of the sums can be finished with it? Look at what one sum runs over.")},
        "With whole columns a core can finish the sums of its own half of F: each runs over D.",
        "Along what is it cut?")


# --- the entitlement -----------------------------------------------------------------------------

@problem(
    "vjepa2.entitled",
    ask=TRN2_PAIR + "An MLP with W = {W} has four mappings on it. Fused and with the weights "
        "loaded by both cores it moves {fused_both}, unfused {unfused_both}; with the weights "
        "split {fused_split}, unfused {unfused_split}. What is T_best of the one that moves most? "
        "Find T_worst of each. Are all four entitled to the same time?",
    fixed=dict(ROOFS, W=float(_mlp(**SIZES).flops), **{k: float(v) for k, v in
                                                      _bytes(**SIZES).items()}),
    units=dict(ROOF_UNITS, W="FLOP", **dict.fromkeys(WHO, "B")),
    draw=lambda r: (lambda s: dict(W=_mlp(**s).flops, **_bytes(**s)))(_sizes(r)))
def entitled(P: float, BW: float, W: float, fused_both: float, unfused_both: float,
             fused_split: float, unfused_split: float) -> Iterator[AnyPart]:
    moved = dict(fused_both=fused_both, unfused_both=unfused_both, fused_split=fused_split,
                 unfused_split=unfused_split)
    t_flop, most = W / P, max(moved.values())
    part = day2._best(W, most, P, BW, label="T_best of the one that moves most")
    yield _apart(replace(part, slips={
        "one core's P and BW: the pair has twice as much": 2 * part.value,
        **{label: value for label, value in part.slips.items() if value < 1.9 * part.value}}))
    for name, Q in moved.items():
        worst = t_flop + Q / BW
        yield _apart(Part(name, worst, "s", f"W / P + Q / BW = {time(t_flop)} + {time(Q / BW)}",
                          {"the longer of the two times, as with full overlap": t_flop,
                           "one core's BW: the pair has twice as much": t_flop + 2 * Q / BW,
                           "one core's P and BW: the pair has twice as much": 2 * worst,
                           "the difference, not the sum": t_flop - Q / BW,
                           "the bytes' time alone": Q / BW},
                          label=f"T_worst, {WHO[name]}"))
    same = most / BW <= t_flop
    yield _choice("same", "yes" if same else "no", {
        "yes": ("yes, to W / P: one W, one P",
                "Compare the longest Q / BW with W / P: some have to wait for their bytes."),
        "no": ("no: what moves more bytes takes longer at best",
               "Compare the longest Q / BW with W / P: even those bytes can hide behind it."),
        "worst": ("no: their T_worst differ",
                  "T_worst is no entitlement: it says what no overlap at all would cost.")},
        f"The most bytes take {time(most / BW)}, W / P {time(t_flop)}." + same * " What differs is "
        "how much has to hide.", "All entitled to the same?")


@problem(
    "vjepa2.gelu",
    ask=MLP_IS + "GELU takes B F elements through the Scalar Engine, {lanes} lanes at "
        "{scalar_clock}; the sums of y, B D of them, leave PSUM through the Vector Engine, {lanes} "
        "lanes at {vector_clock} in fp32. One element a lane and cycle. How long is GELU on one "
        "core, and on each core of a pair that shares the tokens? How long is y's way out of PSUM "
        "on each core of the pair? What share of W / P, P = {P} for the pair, is the pair's GELU? "
        "Which engine binds the fused kernel?",
    fixed=dict(SIZES, lanes=SCALAR, scalar_clock=CLOCKS["scalar_clock"],
               vector_clock=CLOCKS["vector_clock"], P=P),
    units=dict(scalar_clock="Hz", vector_clock="Hz", P="FLOP/s"),
    draw=lambda r: dict(_sizes(r), D=r.choice((64, 128, 512, 1536))))
def gelu(B: int, D: int, F: int, lanes: int, scalar_clock: float, vector_clock: float, P: float,
         ) -> Iterator[AnyPart]:
    rate, out = lanes * scalar_clock, lanes * vector_clock
    core, evict, t_flop = B * F / rate, B * D / 2 / out, 4 * B * D * F / P
    yield _apart(Part("core", core, "s", f"B F / (lanes × clock) = {B:,} × {F:,} / ({lanes} × "
                      f"{show(scalar_clock, 'Hz')})",
                      {"h and g both counted: an element passes the engine once": 2 * core,
                       "one lane, not all": core * lanes,
                       "bytes in place of elements, in and out": 4 * core,
                       "B D elements: GELU runs over F": B * D / rate,
                       "the Vector Engine's clock": B * F / out}, label="GELU on one core"))
    yield _apart(Part("pair", core / 2, "s", f"core / 2 = {time(core)} / 2\nEach core takes half "
                      "of the tokens.",
                      {"one core with all of the tokens": core,
                       "an eighth, as if all cores of the chip took part": core / CORES,
                       "twice as long: each core does its own": 2 * core,
                       "halved twice": core / 4}, label="GELU on each core of the pair",
                      follows=("/", "core", 2)))
    yield _apart(Part("evict", evict, "s", f"B D / 2 / (lanes × clock) = {B:,} × {D:,} / 2 / "
                      f"({lanes} × {show(vector_clock, 'Hz')})",
                      {"one core with all of the tokens": 2 * evict,
                       "B F sums: y has D columns": B * F / 2 / out,
                       "the Scalar Engine's clock": B * D / 2 / rate,
                       "4 bytes a sum counted, not sums": 4 * evict},
                      label="y out of PSUM, each core of the pair"))
    yield _share("share", core / 2, t_flop, f"pair / (W / P) = {time(core / 2)} / {time(t_flop)}",
                 "The pair's GELU over W / P",
                 {"GELU on one core, over the pair's W / P": core / t_flop,
                  "the pair's GELU, over one core's W / P": core / 4 / t_flop},
                 follows=("/", "pair", t_flop))
    times = dict(tensor=t_flop, scalar=core / 2, vector=evict)
    binds = max(times, key=lambda engine: times[engine])
    names = dict(tensor="the Tensor Engine", scalar="the Scalar Engine", vector="the Vector Engine")
    yield _choice("binds", binds, {key: (name, "Another engine takes longer: compare all three.")
                                   for key, name in names.items()},
                  f"Tensor Engine {time(t_flop)}, Scalar Engine {time(core / 2)}, Vector Engine "
                  f"{time(evict)}.", "Which engine binds?")


@problem(
    "vjepa2.launches",
    ask=TRN2_PAIR + MLP_IS + "As three launches, one after the other, the weights loaded by both "
        "cores: what is T_best of the up-projection, of GELU (no matmul) and of the "
        "down-projection, each for itself? What are the three entitled to together? As one op the "
        "same W and Q have T_best = {T_op}. Why is the sum longer?",
    fixed=dict(ROOFS, **SIZES, T_op=_unfused_best(**SIZES)), units=dict(ROOF_UNITS, T_op="s"),
    draw=lambda r: (lambda s: dict(s, T_op=_unfused_best(**s)))(_sizes(r)))
def launches(P: float, BW: float, B: int, D: int, F: int, T_op: float) -> Iterator[AnyPart]:
    work, ends = 2 * B * D * F, BYTES * (B * D + 2 * D * F + B * F)
    t_flop, t_byte, t_gelu = work / P, ends / BW, 2 * BYTES * B * F / BW
    best = max(t_flop, t_byte)
    total = 2 * best + t_gelu
    if not T_op < total:
        raise ValueError("T_op has to be below T_best of the three launches together")
    for name, who in (("up", "up-projection"), ("gelu", "GELU"), ("down", "down-projection")):
        if name == "gelu":
            yield _apart(Part("gelu", t_gelu, "s", f"Q / BW = {byte(2 * BYTES * B * F)} / "
                              f"{band(BW)}\nIt reads h and writes g; there is no W / P.",
                              {"the read or the write left out": t_gelu / 2,
                               "one core's BW: the pair has twice as much": 2 * t_gelu,
                               "BW of all 8 cores": t_gelu * 2 / CORES,
                               "nothing: it has no FLOPs, so it takes no time": 0},
                              label="T_best, GELU"))
            continue
        yield _apart(Part(name, best, "s", f"max(W / P, Q / BW) = max({time(t_flop)}, "
                          f"{time(t_byte)})",
                          {"the W of both projections": 2 * t_flop,
                           "the shorter of the two times": min(t_flop, t_byte),
                           "the two times added, as without overlap": t_flop + t_byte,
                           "P of all 8 cores": t_flop * 2 / CORES}, label=f"T_best, {who}"))
    yield _apart(Part("total", total, "s", f"up + gelu + down = {ns(best)} + {ns(t_gelu)} + "
                      f"{ns(best)}",
                      {"the longest of the three": max(best, t_gelu), "GELU left out": 2 * best,
                       "one projection left out": best + t_gelu,
                       "T_worst of the op: its bytes and its FLOPs added":
                       2 * t_flop + 2 * t_byte + t_gelu},
                      label="The three together", follows=("+", "up", "gelu", "down")))
    yield _choice("why", "alone", {
        "alone": ("nothing runs beside GELU's bytes: a launch can hide only its own", ""),
        "bytes": ("three launches move more bytes than the op",
                  "The op's Q is that of the three kernels. Look at what can overlap."),
        "work": ("GELU's FLOPs are added",
                 "GELU is not in W here, and no FLOP of it is in these times.")},
        "As one op all bytes may move while some matmul runs. Launches come one after the other.",
        "Why is the sum longer?")


# --- what was measured ---------------------------------------------------------------------------

@problem(
    "vjepa2.scope",
    ask="An MLP with W = {W} runs on a pair of cores. Suppose that its profile says {T}. One core "
        "has P = {P}. What is the MFU of the pair, W over T, over its P? What comes out with the P "
        "of one core, and with that of all 8 cores? Someone also counts the weights once, though "
        "both cores load them: Q is {Q}, of it the second load is {second}. By how much do they "
        "overstate I? Which of these slips shows by itself?",
    fixed=dict(P=P / 2, W=float(_mlp(**SIZES).flops), T=300e-6,
               Q=float(_bytes(**SIZES)["fused_both"]), second=4.0 * MODEL.D * MODEL.F),
    units=dict(P="FLOP/s", W="FLOP", T="s", Q="B", second="B"),
    draw=lambda r: (lambda s, share: dict(
        W=_mlp(**s).flops, T=round(_mlp(**s).flops / PAIR.peak("bf16") / share, 9),
        Q=_bytes(**s)["fused_both"], second=4 * s["D"] * s["F"]))(
        _sizes(r), r.choice((0.58, 0.64, 0.78, 0.83))))
def scope(P: float, W: float, T: float, Q: float, second: float) -> Iterator[AnyPart]:
    mfu = W / T / (2 * P)
    if not second < Q:
        raise ValueError("the second load has to be less than Q")
    if not 0.5 < mfu < 1:
        raise ValueError("T has to lie between W over P of the pair and twice that, "
                         f"{time(W / (2 * P))} to {time(W / P)}")
    yield _apart(Part("mfu", mfu, "", f"W / T / (2 × P) = {flop(W)} / {time(T)} / (2 × "
                      f"{show(P, 'FLOP/s', digits=4)})",
                      {"one core's P": 2 * mfu, "P of all 8 cores": mfu * 2 / CORES,
                       ONE_FLOP: mfu / 2, "the ratio upside down": 1 / mfu},
                      label="MFU of the pair" + day2.SHARE))
    yield _apart(Part("core", 2 * mfu, "", f"W / T / P = {flop(W)} / {time(T)} / "
                      f"{show(P, 'FLOP/s', digits=4)}",
                      {"the pair's P": mfu, "half of W as well: that is right again, and the "
                       "pair's": mfu, "P of all 8 cores": mfu * 2 / CORES,
                       "doubled twice": 4 * mfu, ONE_FLOP + ", twice": mfu / 2},
                      label="By one core's P" + day2.SHARE, follows=("*", 2, "mfu")))
    yield _apart(Part("chip", mfu * 2 / CORES, "", f"W / T / ({CORES} × P) = {flop(W)} / {time(T)} "
                      f"/ ({CORES} × {show(P, 'FLOP/s', digits=4)})",
                      {"one core's P": 2 * mfu, "the pair's P": mfu,
                       f"the pair's P taken {CORES} times": mfu / CORES,
                       "four cores, not eight": mfu / 2},
                      label="By the chip's P" + day2.SHARE, follows=("*", 2 / CORES, "mfu")))
    over = Q / (Q - second) - 1
    yield _apart(Part("over", over, "", f"Q / (Q - second) - 1 = {byte(Q)} / ({byte(Q)} - "
                      f"{byte(second)}) - 1",
                      {"the second load over Q": second / Q,
                       "the ratio, not what it is above 1": 1 + over,
                       "the other load subtracted too": Q / abs(Q - 2 * second) - 1
                       if Q != 2 * second else 9 * over,
                       "halved, as if one core's I were the pair's": over / 2},
                      label="I overstated by" + day2.SHARE))
    yield _choice("shows", "core", {
        "core": ("one core's P: a share above 100 % cannot be", ""),
        "chip": ("the chip's P: the share is low",
                 "A low share looks like a slow kernel; nothing in it says whose P it is."),
        "once": ("the weights counted once: I is too high",
                 "Right of the ridge the entitlement does not change, so nothing shows."),
        "all": ("each of them", "Two of them give figures that could well be true.")},
        "A figure above its roof is found out. The other two slips give figures that could be "
        "true: only the scope, said beside each figure, catches them.", "Which one shows?")


@problem(
    "vjepa2.saves",
    ask=TRN2_PAIR + MLP_IS + "In one kernel. Instead of loading all of the weights, each core now "
        "loads half of them and is sent the rest, by sendrecv as it is by default. How many bytes "
        "of HBM are saved, and how long would they take? How many bytes do the shared DMA engines "
        "of the pair carry before, and after? What is T_best after it? What does the change "
        "promise for T?",
    fixed=dict(ROOFS, **SIZES), units=ROOF_UNITS, draw=_sizes)
def saves(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    Q, op = _bytes(B, D, F), MLP(B, D, F)
    before, after, t_flop = Q["fused_both"], Q["fused_split"], op.flops / P
    less = before - after
    if max(before / BW, less / BW) > 0.9 * t_flop:
        raise ValueError("the bytes have to take less than 0.9 × W / P")
    yield _apart(Part("less", less, "B", f"p 2 D F = {BYTES} bytes × 2 × {D:,} × {F:,}",
                      {"one of the two matrices": less / 2, "both loads, not the second one":
                       2 * less, ELEMENTS + ", and one matrix": less / 4,
                       "what is left, not what is saved": after},
                      label="Bytes of HBM saved"))
    yield _apart(Part("T_less", less / BW, "s", f"less / BW = {byte(less)} / {band(BW)}",
                      {"one core's BW: the pair has twice as much": 2 * less / BW,
                       "all of Q, not what is saved": before / BW,
                       "bytes divided by P": less / P, "BW of all 8 cores": less / BW * 2 / CORES},
                      label="Their time at BW", follows=("/", "less", BW)))
    yield _apart(Part("before", before, "B", f"p (2 B D + 4 D F) = {BYTES} bytes × (2 × {B:,} × "
                      f"{D:,} + 4 × {D:,} × {F:,})",
                      {BOTH: after, ELEMENTS: before / 2, "one core's bytes": before / 2,
                       "x and y left out": before - 2 * BYTES * B * D,
                       "what is sent counted too: nothing is": before + less},
                      label="DMA engines, before"))
    yield _apart(Part("after", before, "B", f"Q + sent = {byte(after)} + {byte(less)}\nWhat is not "
                      "loaded twice is sent, by the same engines.",
                      {"HBM's bytes alone: sendrecv uses the engines too": after,
                       "one of the two directions": after + less / 2,
                       "the second load counted as well": before + less,
                       ELEMENTS: before / 2}, label="DMA engines, after"))
    yield _apart(replace(day2._best(op.flops, after, P, BW, label="T_best after"),
                         why=f"max(W / P, Q / BW) = max({time(t_flop)}, {time(after / BW)})"))
    yield _choice("promise", "nothing", {
        "nothing": ("nothing by itself: only time in which bytes are waited for can shrink", ""),
        "all": ("as much as the saved bytes take",
                "That would be so if nothing overlapped and only HBM's share of the way counted."),
        "half": ("half of T: each core loads half",
                 "Each core still multiplies its half of the tokens with all of the weights.")},
        "T_best is W / P before and after, and the DMA engines carry as many bytes. Look in the "
        "ledger for rows that wait, and ask of each what it waits for.", "What does it promise?")


@problem(
    "vjepa2.first",
    ask="Suppose that the DMA engines bring what a core asks for in that order, at {DMA}. A fused "
        "MLP with D = {D} and F = {F} in bf16 asks for W_up, for W_down, and then for a block of "
        "{block} tokens of x, which its first matmul needs. How long until all of that has come? "
        "Now it asks for W_down after the block: how long until the first matmul can begin, and "
        "how much less is that? W_down is needed after the first block's GELU. Which row of the "
        "ledger grows if it has not come by then?",
    fixed=dict(D=MODEL.D, F=MODEL.F, block=128, DMA=DMA), units=dict(DMA="B/s"),
    draw=lambda r: dict(zip("DF", r.choice(((512, 2048), (512, 3072), (1024, 3072), (1024, 5120),
                                            (1536, 3072))), strict=True),
                        block=r.choice((128, 256, 512))))
def first(D: int, F: int, block: int, DMA: float) -> Iterator[AnyPart]:
    in_tiles(block=(block, TILE))
    if block > day5.WIDE:
        raise ValueError(f"block is at most {day5.WIDE}: the columns of a moving tile")
    one, x = BYTES * D * F, BYTES * block * D
    all_, soon = (2 * one + x) / DMA, (one + x) / DMA
    yield _apart(Part("all", all_, "s", f"p (2 D F + block D) / BW = {BYTES} bytes × (2 × {D:,} × "
                      f"{F:,} + {block} × {D:,}) / {band(DMA)}",
                      {"one of the two matrices": soon, ELEMENTS: all_ / 2,
                       "all of the weights on both cores": (4 * one + x) / DMA,
                       "the engines of both cores for one core's bytes": all_ / 2,
                       "bytes taken as bits: a factor 8": 8 * all_},
                      label="Until all of it has come"))
    yield _apart(Part("soon", soon, "s", f"p (D F + block D) / BW = {BYTES} bytes × ({D:,} × "
                      f"{F:,} + {block} × {D:,}) / {band(DMA)}",
                      {"W_down too": all_, "the block alone, no weights": x / DMA,
                       ELEMENTS: soon / 2, "bytes taken as bits: a factor 8": 8 * soon},
                      label="Until the first matmul can begin"))
    yield _apart(Part("less", one / DMA, "s", f"p D F / BW = {BYTES} bytes × {D:,} × {F:,} / "
                      f"{band(DMA)}\nThe same as all - soon.",
                      {"both matrices": 2 * one / DMA, ELEMENTS: one / DMA / 2,
                       "all of it: W_up is still waited for": all_,
                       "the block's time": x / DMA}, label="Less than before"))
    yield _choice("grows", "dma", {
        "dma": ("wait for DMA", ""),
        "fill": ("fill", "fill ends with the first matmul, and that has begun."),
        "scalar": ("wait for scalar", "GELU is done by then; what is missing is a load."),
        "tail": ("tail", "tail comes after the last matmul.")},
        "The Tensor Engine has begun, and now waits for a transfer.", "Which row grows?")


@problem(
    "vjepa2.verdict",
    ask="A pair with P = {P} runs a compute-bound MLP, W = {W}. Suppose that its profile says {T}, "
        "and the largest row of its ledger is fill, {row}. Q was predicted, and the profiler's "
        "bytes agree. How large is the gap, and which share of it is that row? What is the MFU? "
        "What would T be without that row, and nothing else changed? What do you mend first?",
    fixed=dict(P=P, W=float(_mlp(**SIZES).flops), T=330e-6, row=48.5e-6),
    units=dict(P="FLOP/s", W="FLOP", T="s", row="s"),
    draw=lambda r: (lambda best: dict(
        W=best * P, T=round(r.choice((1.3, 1.5, 1.75)) * best, 9),
        row=round(r.choice((0.12, 0.17, 0.22)) * best, 9)))(
        r.choice((110e-6, 160e-6, 270e-6, 340e-6))))
def verdict(P: float, W: float, T: float, row: float) -> Iterator[AnyPart]:
    best = W / P
    gap = T - best
    if not 0 < row < gap:
        raise ValueError(f"row has to lie between 0 and T - W / P, {time(gap)}")
    yield _apart(Part("gap", gap, "s", f"T - W / P = {ns(T)} - {ns(best)}",
                      {"the time itself, not what is above T_best": T,
                       "T_best, not what is above it": best, "the two times added": T + best,
                       "W over one core's P": abs(T - 2 * best)}, label="Gap"))
    yield _share("share", row, gap, f"row / gap = {ns(row)} / {ns(gap)}", "The row's share of it",
                 {"over T, not over the gap": row / T, "over T_best": row / best},
                 follows=("/", row, "gap"))
    yield _apart(Part("mfu", best / T, "", f"W / T / P = {flop(W)} / {time(T)} / "
                      f"{show(P, 'FLOP/s', digits=4)}",
                      {"the ratio upside down": T / best, "the gap's share of T, not the work's":
                       gap / T, "one core's P": 2 * best / T, ONE_FLOP: best / T / 2},
                      label="MFU" + day2.SHARE))
    yield _apart(Part("left", T - row, "s", f"T - row = {ns(T)} - {ns(row)}",
                      {"T_best: the other rows stay": best, "the row taken from T_best":
                       best - row, "the row added": T + row, "half of the row": T - row / 2},
                      label="T without that row"))
    yield _choice("mend", "order", {
        "order": ("execution: what the first matmul waits for, and in which order it is loaded",
                  ""),
        "traffic": ("the mapping: fewer bytes, so that Q / BW falls",
                    "Q held, and it is not in T_best here. What it is waited for is in the "
                    "ledger."),
        "work": ("W: fewer FLOPs", "W comes from the shapes. No mapping changes it."),
        "peak": ("nothing: a compute-bound kernel is done",
                 "It is entitled to W / P and takes longer. The difference has rows.")},
        "The prediction of Q held, so the gap is in execution: begin with its largest row.",
        "What first?")


PROBLEMS = collect(globals())
