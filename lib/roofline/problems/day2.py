"""Day 2: rooflines for ML ops.

Question  from an op's shapes alone, is it compute- or memory-bound, and how long must it take?
Answer    PROBLEMS, in the page's order; ids begin with day2.
Assumes   one physical Trn2 core, bf16 and HBM unless said; every operand byte crosses once
Ignores   what the code reloads or fuses (Day 5), LNC=2 (Day 6)
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES, MODELS, Linear
from ..units import show
from . import day1

flop, byte, time, rate, band, per_byte = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B"))

CORE = machine.trn2
DEVICE = CORE.at("device")
CORES = int(DEVICE.facts["cores"].value)
FP32_SHARE = CORE.peak("fp32") / CORE.peak("bf16")
P_BF16 = BYTES["bf16"]  # bytes of one number

# The core's roofs as inputs of a problem: a reader may give measured ones, or another core's.
ROOFS = {"P": CORE.peak("bf16"), "BW": CORE.bw()}
ROOF_UNITS = {"P": "FLOP/s", "BW": "B/s"}
# The ridge as the page rounds it.
RIDGE = float(round(CORE.ridge("bf16")))

TRN2 = "Take one physical Trn2 core, P = {P} in bf16 and BW = {BW}. "
LAYER = "y = x W with x {B} × {D}, W {D} × {F}, all in bf16. "
SQUARE = dict(D=4096, F=4096)

Body = Callable[..., Iterable[AnyPart]]


# --- what several problems ask ------------------------------------------------------------------

def told(body: Body) -> Callable[..., Iterator[AnyPart]]:
    """The same parts, and what each of them is with a rival's bandwidth.

    Runs `body` again with every rival of the HBM bandwidth (or of the ridge). A slip that these
    inputs do not tell apart is left out while three others stay: at B = 1 x is too small to miss.
    """
    @wraps(body)
    def parts(**inputs: Any) -> Iterator[AnyPart]:
        theirs: dict[str, dict[str, AnyPart]] = {}
        for roofs in (CORE, DEVICE):
            for spec in roofs.bandwidths["HBM"].rivals:
                if inputs.get("BW") == roofs.bw():
                    other = {"BW": spec.value}
                elif inputs.get("ridge") == RIDGE and roofs is CORE:
                    other = {"ridge": CORE.peak("bf16") / spec.value}
                else:
                    continue
                theirs[f"BW = {spec.text} ({spec.source})"] = {
                    part.name: part for part in body(**{**inputs, **other})}
        for part in body(**inputs):
            rivals = {label: found[part.name] for label, found in theirs.items()}
            if isinstance(part, Part):
                yield _apart(part, rivals)
            else:
                yield _sided(part, rivals) if isinstance(part, Choice) else part

    return parts


def _apart(part: Part, rivals: Mapping[str, AnyPart]) -> Part:
    values = {label: other.value for label, other in rivals.items() if isinstance(other, Part)
              and not any(low <= other.value <= high for low, high in part.right)}
    part = replace(part, rivals=values, slips={
        label: value for label, value in part.slips.items() if math.isfinite(value)})
    clashes = part.clashes()
    if len(part.slips) - len(clashes) < 3:
        return part  # to be drawn again
    return replace(part, slips={label: value for label, value in part.slips.items()
                                if label not in clashes})


def _sided(part: Choice, rivals: Mapping[str, AnyPart]) -> Choice:
    said = dict(part.slips)
    for key in said:
        if labels := [label for label, other in rivals.items()
                      if isinstance(other, Choice) and other.right == key]:
            said[key] = f"Right for {' and '.join(labels)}, not the figure this page uses."
    return replace(part, slips=said)


def _weights(op: Linear) -> int:
    return sum(t.read_bytes for t in op.tensors if t.name == "W")


def _output(op: Linear) -> int:
    return sum(t.write_bytes for t in op.tensors)


def _work(op: Linear, name: str = "W") -> Part:
    W = op.flops
    return Part(name, W, "FLOP", f"2 B D F = 2 × {op.B:,} × {op.D:,} × {op.F:,}",
                {"a multiply and an add are two FLOPs": W / 2,
                 "every output takes D multiply-adds": 2 * op.B * op.F,
                 "every token of the batch counts": W / op.B,
                 "a multiply-add is two FLOPs, and that is in it already": 2 * W})


def _traffic(op: Linear, name: str = "Q") -> Part:
    Q, p = op.algorithmic.hbm_bytes, BYTES[op.dtype]
    x = p * op.B * op.D
    return Part(name, Q, "B", f"p (B D + D F + B F) = {p} B × ({op.B:,} × {op.D:,} + {op.D:,} × "
                f"{op.F:,} + {op.B:,} × {op.F:,})",
                {"the weights cross too": Q - _weights(op), "y is written too": Q - _output(op),
                 "x is read too": Q - x, "Q counts bytes, not elements": Q / p,
                 f"one {op.dtype} number has {p} bytes": 2 * Q,
                 "the weights cross once, not once a token": Q + (op.B - 1) * _weights(op)})


def _intensity(op: Linear, name: str = "I") -> Part:
    W, Q, p = op.flops, op.algorithmic.hbm_bytes, BYTES[op.dtype]
    return Part(name, W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {"FLOPs go on top, bytes below": Q / W,
                 "a multiply and an add are two FLOPs": W / 2 / Q,
                 "x and y cross too; I is near B only while B is small": W / _weights(op),
                 "divide by bytes, not by elements": p * W / Q,
                 "the weights cross too": W / (Q - _weights(op)),
                 "y is written too": W / (Q - _output(op))})


def _ridge(P: float, BW: float, I: float | None = None) -> Part:
    return Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
                {"P goes on top, BW below": BW / P,
                 "the prefixes differ: 1 T is 1000 G": P / BW / 1000,
                 "one core's P goes with one core's BW, not with two cores' P": 2 * P / BW,
                 "one core's P goes with one core's BW, not with the device's": P / BW / CORES,
                 "bf16's peak, not fp32's": FP32_SHARE * P / BW,
                 **({} if I is None else {"W / Q is the kernel's number; the ridge is the "
                                          "machine's": I})})


def _t_flop(W: float, P: float, BW: float) -> Part:
    return Part("T_flop", W / P, "s", f"W / P = {flop(W)} / {rate(P)}",
                {"FLOPs go with P, not with BW": W / BW,
                 "a multiply and an add are two FLOPs": W / P / 2,
                 "bf16's peak, not fp32's": W / P / FP32_SHARE,
                 f"P is one core's, not that of {CORES} cores": W / P / CORES})


def _t_byte(Q: float, P: float, BW: float) -> Part:
    return Part("T_byte", Q / BW, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
                {"bytes go with BW, not with P": Q / P,
                 "Q counts bytes, not elements": Q / BW / P_BF16,
                 f"the device's bandwidth is shared by {CORES} cores": Q / BW / CORES,
                 "Q is in bytes and BW in bytes a second: no factor 8": 8 * Q / BW})


def _best(W: float, Q: float, P: float, BW: float, name: str = "T_best") -> Part:
    short, long = sorted((W / P, Q / BW))
    memory = long == Q / BW
    return Part(name, long, "s", f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})",
                {"the longer of the two times sets the pace": short,
                 "with full overlap the two times do not add up": short + long,
                 "FLOPs go with P and bytes with BW": max(W / BW, Q / P),
                 ("Q counts bytes, not elements" if memory
                  else "a multiply and an add are two FLOPs"): long / 2,
                 f"P and BW are one core's, not those of {CORES} cores": long / CORES,
                 "two bytes a number are in Q already" if memory
                 else "two FLOPs a multiply-add are in W already": 2 * long})


def _side(W: float, Q: float, P: float, BW: float, name: str = "side") -> Choice:
    return replace(day1._side(W / Q, P / BW), name=name)


def _crossing(op: Linear, ridge: float, why: str, name: str = "B") -> AnyPart:
    """The B at which I reaches the ridge, or that none does."""
    exact = op.crossover(ridge)
    if exact == math.inf:
        most = op.D * op.F / (op.D + op.F)
        return Choice(name, "never", {"never": "no batch reaches the ridge",
                                      "some": "a batch that is large enough reaches it"},
                      f"However large B is, I stays below 2 D F / (p (D + F)), which is "
                      f"{per_byte(2 * most / P_BF16)}; the ridge is {per_byte(ridge)}.",
                      {"some": "x and y grow with B as W does. What does I tend to?"})
    legal = {float(f"{ridge:.{digits}g}") for digits in (3, 4)}
    if ridge == RIDGE:  # rounded; also from P and BW, P in full or to three digits
        legal |= {CORE.ridge("bf16"), float(f"{CORE.peak('bf16'):.3g}") / CORE.bw()}
    also = [op.crossover(other) for other in legal - {ridge}]
    near, p = ridge * P_BF16 / 2, P_BF16
    return Part(name, exact, "", why,
                {"x and y cross too; I is near B only while B is small": near,
                 "a multiply and an add are two FLOPs": op.crossover(2 * ridge),
                 "divide by bytes, not by elements": op.crossover(ridge / p),
                 "x is read and y is written, both for every token":
                 ridge * op.D * op.F / (op.D * op.F - ridge * op.F),
                 "that is D - 2 ridge, without the numerator": op.D - 2 * ridge},
                also=(*filter(math.isfinite, also), math.ceil(exact)))


def _algebra(op: Linear, ridge: float) -> str:
    D, F, r = op.D, op.F, f"{ridge:.7g}"
    return (f"ridge D F / (D F - ridge (D + F)) = {r} × {D:,} × {F:,} / ({D:,} × {F:,} - {r} × "
            f"({D:,} + {F:,}))\nW = ridge × Q, divided by 2: B D F = ridge (B D + D F + B F). "
            "Round up to a whole number.")


# --- openers ------------------------------------------------------------------------------------

open_bound = replace(
    day1.bound, id="day2.open.bound",
    ask="A kernel on one physical Trn2 core, P = {P} in bf16 and BW = {BW}, does W = {W} and "
        "moves Q = {Q} over HBM. Find its intensity I, the ridge, the roof that binds, the time "
        "with full overlap (T_best), the time with none (T_worst) and the entitled rate W / "
        "T_best.",
    fixed=dict(ROOFS, W=6e9, Q=150e6), body=told(day1.bound.body),
    draw=lambda r: dict(W=r.choice((2e9, 4e9, 9e9, 30e9, 50e9, 80e9)),
                        Q=r.choice((60e6, 90e6, 120e6, 200e6, 300e6))))

open_overlap = replace(
    day1.overlap_2x, id="day2.open.overlap",
    ask="A kernel on a NeuronCore needs W / P = {t_flop} on the Tensor Engine and Q / BW = "
        "{t_byte} on HBM. What is T_worst / T_best for it? What is the largest that ratio can be "
        "for any kernel, and where on the roofline is it reached?",
    fixed=dict(t_flop=360e-6, t_byte=120e-6),
    draw=lambda r: dict(t_flop=r.randrange(20, 900, 10) * 1e-6,
                        t_byte=r.randrange(20, 900, 10) * 1e-6))

open_ridge = replace(
    day1.ridge_words, id="day2.open.ridge",
    ask="One physical NeuronCore has P = {P} in bf16 and BW = {BW}. What does its ridge say, and "
        "what happens left of it?",
    fixed=ROOFS,
    draw=lambda r: r.choice([dict(P=core.peak("bf16"), BW=core.bw(level)) for level in (
        "HBM", "DMA") for core in (machine.trn1, machine.trn2, machine.trn3)]))


# --- W, Q and I of a linear layer ---------------------------------------------------------------

@problem(
    "day2.flops",
    ask="y = x W with x {B} × {D} and W {D} × {F}. How many numbers does y have? How many "
        "multiply-adds make one of them? What is the work W of the layer in FLOPs?",
    fixed=dict(B=32, D=1024, F=3072),
    draw=lambda r: dict(B=r.choice((16, 48, 96, 256)), D=r.choice((768, 1536, 2048)),
                        F=r.choice((4096, 6144, 8192))))
@told
def flops(B: int, D: int, F: int) -> Iterator[AnyPart]:
    yield Part("outputs", B * F, "", f"B × F = {B:,} × {F:,}",
               {"that is x: y has F columns": B * D, "that is the weights: y has B rows": D * F,
                "rows times columns, not their sum": B + F})
    yield Part("each", D, "", f"D = {D:,}\nOne number of y is a row of x times a column of W.",
               {"a multiply-add is one thing; its two FLOPs come next": 2 * D,
                "the sum runs over D, the columns of x": F,
                "one number of y, not a row of them": D * F,
                "the batch has rows of its own in y": B * D})
    yield _work(Linear(B, D, F))


@problem(
    "day2.bytes",
    ask=LAYER + "Every number crosses HBM once at most. Which tensors cross? How many bytes are "
        "x, the weights and y, and what is Q?",
    fixed=dict(B=32, D=1024, F=3072),
    draw=lambda r: dict(B=r.choice((64, 128, 320, 640)), D=r.choice((768, 1536, 2048)),
                        F=r.choice((4096, 6144, 8192))))
@told
def bytes_(B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    p, sizes = P_BF16, {t.name: t.read_bytes + t.write_bytes for t in op.tensors}
    yield Choice("cross", "all",
                 {"inputs": "x and the weights: y is made on chip",
                  "weights": "the weights: activations stay on chip",
                  "all": "x and the weights in, y out",
                  "partial": "x and the weights in, each partial sum of y out and in"},
                 "x and W are read, y is written. Partial sums stay on chip until they are done.",
                 {"inputs": "It is made on chip, and then it has to go to HBM.",
                  "weights": "This layer stands alone: x comes from HBM and y goes there.",
                  "partial": "A sum can stay on chip until it is finished; then it leaves once."})
    for name, tensor, a, b in (("x", "x", B, D), ("weights", "W", D, F), ("y", "y", B, F)):
        size = sizes[tensor]
        others = {"x": ("D columns, not F", B * F), "weights": ("D rows, not B", B * F),
                  "y": ("F columns, not D", B * D)}[name]
        yield Part(name, size, "B", f"p × {a:,} × {b:,} = {p} B × {a:,} × {b:,}",
                   {"count bytes, not elements": size / p, "a bf16 number has 2 bytes": 2 * size,
                    "2 is bytes a number here, not FLOPs as well": 4 * size,
                    f"it has {others[0]}": p * others[1]})
    yield _traffic(op)


@problem(
    "day2.decode",
    ask=TRN2 + "Decode takes one token at a time: " + LAYER + "Find W, Q and I, the time of the "
        "FLOPs (T_flop) and of the bytes (T_byte), the side of the ridge, T_best, and the share "
        "of T_best in which the Tensor Engine is busy.",
    fixed=dict(ROOFS, B=1, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(D=r.choice((2048, 3072, 5120, 8192)), F=r.choice((2048, 6144, 8192))))
@told
def decode(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    best = max(W / P, Q / BW)
    yield _work(op)
    yield _traffic(op)
    yield _intensity(op)
    yield _t_flop(W, P, BW)
    yield _t_byte(Q, P, BW)
    yield _side(W, Q, P, BW)
    yield _best(W, Q, P, BW)
    yield Part("busy", W / P / best, "", f"T_flop / T_best = {time(W / P)} / {time(best)}",
               {"the busy time goes on top": best * P / W, "busy, not idle": 1 - W / P / best,
                "1 is 100 %": 100 * W / P / best, "a multiply and an add are two FLOPs":
                W / P / best / 2, "T_best is the longer time": 1})


@problem(
    "day2.why_I_is_B",
    ask="A linear layer gets B = {B} tokens, few next to D and F: count the bytes of the weights "
        "only. How many FLOPs is one weight used for? What is I in bf16 (I_2, 2 bytes), with "
        "weights of 1 byte (I_1) and of 4 bytes (I_4)? Why are D and F not in it?",
    fixed=dict(B=8), draw=lambda r: dict(B=r.choice((3, 4, 5, 6, 12, 16, 24, 32))))
@told
def why_I_is_B(B: int) -> Iterator[AnyPart]:
    yield Part("uses", 2 * B, "FLOP", f"2 B = 2 × {B}",
               {"a multiply and an add are two FLOPs": B, "it is used for every token": 2,
                "two FLOPs a token; bytes come later": 4 * B})
    for p in (2, 1, 4):
        yield Part(f"I_{p}", 2 * B / p, "FLOP/B", f"2 B / p = 2 × {B} / {p} B",
                   {"a multiply and an add are two FLOPs": B / p,
                    "divide by the bytes of a weight" if p > 1 else
                    "2 FLOPs a multiply-add, no more": 2 * B if p > 1 else 4 * B,
                    "FLOPs go on top, bytes below": p / (2 * B),
                    "it is used for every token": 2 / p})
    yield Choice("why", "weight",
                 {"square": "D and F are alike, so they cancel",
                  "weight": "each weight brings its own bytes and its own FLOPs",
                  "small": "D and F are too small to matter",
                  "ridge": "the ridge has no D and F in it either"},
                 "W and Q both grow with the number of weights, D F, and it cancels in W / Q.",
                 {"square": "They need not be alike: it is their product that cancels.",
                  "small": "They are large: that is why x and y can be left out.",
                  "ridge": "The ridge is the machine's. I follows from the op alone."})


@problem(
    "day2.fade.prefill",
    ask=TRN2 + "Prefill takes a whole prompt at once: " + LAYER + "Its work W is 2 × {B} × {D} × "
        "{F} FLOP. Find Q, then I and the side of the ridge, T_flop and T_byte, and T_best.",
    fixed=dict(ROOFS, B=2048, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((512, 1024, 3072, 4096)), D=r.choice((2048, 3072, 5120, 8192)),
                        F=r.choice((4096, 6144, 8192))))
@told
def fade_prefill(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    yield _traffic(op)
    yield _intensity(op)
    yield _side(W, Q, P, BW)
    yield _t_flop(W, P, BW)
    yield _t_byte(Q, P, BW)
    yield _best(W, Q, P, BW)


# --- where it crosses the ridge -----------------------------------------------------------------

def _solved(D: int, ridge: float) -> Iterator[AnyPart]:
    """The crossover of a D x D layer, step by step."""
    op, r, top, bottom = Linear(1, D, D), f"{ridge:.7g}", ridge * D, D - 2 * ridge
    yield Part("numerator", top, "", f"ridge × D = {r} × {D:,}\nI = B D / (2 B + D). Set to the "
               "ridge: B D = ridge (2 B + D), so B (D - 2 ridge) = ridge D.",
               {"the weights are D × D, once: D is not doubled": 2 * top,
                "D² has lost one D to the other terms": top * D,
                "every term is divided by 2 alike": top / 2})
    yield Part("denominator", bottom, "", f"D - 2 × ridge = {D:,} - 2 × {r}",
               {"2 B ridge goes to the other side": D + 2 * ridge,
                "both x and y have B rows": D - ridge,
                "x and y are two tensors, not four": D - 4 * ridge,
                "D stays on this side": 2 * ridge})
    yield _crossing(op, ridge, f"numerator / denominator = {top:.7g} / {bottom:.7g}\n"
                    "Round up to a whole number of tokens.")


@problem(
    "day2.crossover",
    ask="On one physical Trn2 core the ridge is {ridge} in bf16. From which batch B on is a "
        "linear layer with D = F = {D} compute-bound? Solve I = ridge for B = numerator / "
        "denominator, with I = B D / (2 B + D): the numerator is what has no B, the denominator "
        "what B is multiplied by.",
    fixed=dict(ridge=RIDGE, D=4096), units=dict(ridge="FLOP/B"),
    draw=lambda r: dict(D=r.choice((1536, 3072, 5120, 6144, 7168))))
@told
def crossover(ridge: float, D: int) -> Iterator[AnyPart]:
    yield from _solved(D, ridge)


CARD = MODELS["llama-3.1-8b"]
CARDS = [dict(D=card.D, F=card.F) for card in MODELS.values() if card.D * card.F > 1e6]


@problem(
    "day2.fade.up_projection",
    ask=TRN2 + "The up-projection of a model of width D = {D} and MLP width F = {F}, bf16, for "
        "B = {B} tokens. Find W, Q, I and the side of the ridge. From which batch (B_ridge) on "
        "is it compute-bound? Any D, F and B will do.",
    fixed=dict(ROOFS, B=128, D=CARD.D, F=CARD.F), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((16, 32, 64, 512, 1024)), **r.choice(CARDS)))
@told
def fade_up_projection(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    yield _work(op)
    yield _traffic(op)
    yield _intensity(op)
    yield _side(W, Q, P, BW)
    yield _crossing(op, P / BW, _algebra(op, P / BW), "B_ridge")


PROBLEMS = collect(globals())
