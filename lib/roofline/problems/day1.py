"""Day 1: the roofline model.

Question  can the reader derive both times, place an op and read what the plot says?
Answer    PROBLEMS, in the page's order; ids begin with day1.
Assumes   one slow link, decimal prefixes, a multiply-add is 2 FLOPs
Ignores   Trainium (from Day 2 on)
"""

from collections.abc import Iterator
from functools import partial

from ..check import AnyPart, Choice, Part, Text, collect, problem
from ..units import show

flop, byte, time = (partial(show, unit=unit) for unit in ("FLOP", "B", "s"))
rate, band, per_byte = (partial(show, unit=unit) for unit in ("FLOP/s", "B/s", "FLOP/B"))


@problem(
    "day1.bound",
    ask="A machine has P = {P} and BW = {BW}. A kernel does W = {W} and moves Q = {Q} over the "
        "slow link. Find its intensity I, the ridge, the roof that binds, the time with full "
        "overlap (T_best), the time with none (T_worst) and the entitled rate W / T_best.",
    fixed=dict(P=1e12, BW=100e9, W=2e9, Q=400e6),
    units=dict(P="FLOP/s", BW="B/s", W="FLOP", Q="B"),
    draw=lambda r: dict(
        P=r.choice((0.5e12, 1e12, 2e12, 4e12, 8e12)), BW=r.choice((50e9, 80e9, 200e9, 400e9)),
        W=r.choice((1e9, 3e9, 5e9, 6e9, 8e9)), Q=r.choice((50e6, 150e6, 200e6, 300e6, 700e6))))
def bound(P: float, BW: float, W: float, Q: float) -> Iterator[AnyPart]:
    t_flop, t_byte = W / P, Q / BW
    best, worst = max(t_flop, t_byte), t_flop + t_byte
    memory = t_byte > t_flop
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"FLOPs go on top, bytes below": Q / W,
                "P / BW is the machine's number; I is the kernel's": P / BW,
                "Q is in bytes already, so no factor 8 for bits": W / Q / 8})
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
               {"P goes on top, BW below": BW / P,
                "W / Q is the kernel's number; the ridge is the machine's": W / Q,
                "the prefixes differ: 1 T is 1000 G": P / BW / 1000})
    yield Choice("binds", "memory" if memory else "compute",
                 {"compute": "the flat roof, P", "memory": "the slanted roof, I x BW",
                  "both": "both alike"},
                 f"I is {'left' if memory else 'right'} of the ridge: {per_byte(W / Q)} against "
                 f"{per_byte(P / BW)}, so "
                 + ("moving takes longer than computing." if memory
                    else "computing takes longer than moving."),
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
    ask="The slanted roof is y = I x BW, drawn on log-log axes. Why is its slope 1, and in which "
        "unit is y?")
def slope() -> Iterator[AnyPart]:
    yield Choice("why", "sum",
                 {"ridge": "it has to meet P at the ridge, and that fixes the slope",
                  "bw": "the slope is BW, and here BW is scaled to 1",
                  "sum": "log y = log I + log BW: a step in log I is an equal step in log y",
                  "equal": "both axes have the same unit"},
                 "log y = log I + log BW. BW only shifts the line up or down.",
                 {"ridge": "The two lines meet wherever they cross; the ridge follows from the "
                           "slope and does not set it.",
                  "bw": "BW is the slope on linear axes. On log axes it is the height.",
                  "equal": "The axes differ: FLOP/B across, FLOP/s up."})
    yield Text("unit", "FLOP/s",
               (r"flops?\s*(/|per)\s*s(ec(ond)?)?\b", r"\b[kMGTP]?flops$"),
               "FLOP/B x B/s = FLOP/s, the unit of the flat roof.",
               {r"flops?\s*(/|per)\s*b": "That is the unit of I. Multiply it by the unit of BW.",
                r"\b(b|bytes?)\s*(/|per)\s*s": "That is the unit of BW. Multiply it by that of I.",
                r"none|no unit|dimensionless": "The slope has no unit, but y has one."})


@problem(
    "day1.log_axes",
    ask="Why does a roofline have logarithmic axes?")
def log_axes() -> Iterator[AnyPart]:
    yield Choice("why", "span",
                 {"positive": "log axes keep slow kernels from looking too slow",
                  "time": "times add up on a log axis, so T_worst can be read off",
                  "span": "I and FLOP/s span powers of ten, and a product becomes a straight line",
                  "exact": "log axes make the bound more exact near the ridge"},
                 "Kernels differ in I by factors of a thousand, rates too; and y = I x BW turns "
                 "into a line.",
                 {"positive": "A kernel at a tenth of its roof stays a tenth: log axes show ratios "
                              "and hide nothing.",
                  "time": "On a log axis products add up, not times. T_worst is a sum of times.",
                  "exact": "The bound is the same formula on any axes; only the picture changes."})


PROBLEMS = collect(globals())
