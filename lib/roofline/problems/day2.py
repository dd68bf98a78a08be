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
from ..check import AnyPart, Choice, Follow, Part, accepted, collect, problem
from ..ops import (
    BYTES,
    MODELS,
    SCALE_DTYPE,
    AllReduce,
    DecodeAttention,
    LatentDecodeAttention,
    Linear,
    MoE,
    Op,
    SwiGLU,
)
from ..ops import crossover as first_above
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
LAYER = "x ({B} × {D}) times weights ({D} × {F}) gives y, all in bf16. "
SQUARE = dict(D=4096, F=4096)

Body = Callable[..., Iterable[AnyPart]]

# Prompts for people, and slips that several parts have.
SHARE = ", as a fraction or in %"
T_FLOP, T_BYTE, T_HBM, T_LINK = (f"Time of the {what}" for what in (
    "FLOPs", "bytes", "HBM bytes", "link bytes"))
W_BYTES, AT_RIDGE = "Bytes of the weights", "Batch B at the ridge"
X_AND_Y = "x and y left out"
SUM = "the two times added, as without overlap (T_worst)"


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
        if (link := inputs.get("BW_link")) == DEVICE.bw("link"):
            theirs["half of BW_link, where a sheet counts both directions"] = {
                part.name: part for part in body(**{**inputs, "BW_link": link / 2})}
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
    part = replace(part, rivals=values)
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


def _weights(op: Op) -> int:
    return sum(t.read_bytes for t in op.tensors if t.name.startswith("W"))


def _output(op: Linear) -> int:
    return sum(t.write_bytes for t in op.tensors)


def _work(op: Linear, name: str = "W", label: str = "") -> Part:
    W = op.flops
    return Part(name, W, "FLOP", f"2 B D F = 2 × {op.B:,} × {op.D:,} × {op.F:,}",
                {"a multiply-add counted as one FLOP": W / 2,
                 "D left out: every output takes D multiply-adds": 2 * op.B * op.F,
                 "one token counted, not the whole batch": W / op.B,
                 "the 2 of a multiply-add counted twice": 2 * W}, label=label)


def _unmoved(op: Linear) -> dict[str, float]:
    """Q without y, and without x and y: one slip where x is too small to tell them apart."""
    Q, weights = op.algorithmic.hbm_bytes, _weights(op)
    no_y = Q - _output(op)
    if weights > 0.982 * no_y:
        between = math.sqrt(weights * no_y)
        near = accepted(between)[1] >= accepted(Q)[0]  # only few answers can be told from Q
        return {"y left out, or x and y both": weights if near else between}
    return {X_AND_Y: weights, "y left out, though its write crosses": no_y}


def _traffic(op: Linear, name: str = "Q", label: str = "", follows: Follow | None = None) -> Part:
    Q, p = op.algorithmic.hbm_bytes, BYTES[op.dtype]
    x, unmoved = p * op.B * op.D, _unmoved(op)
    both = len(unmoved) > 1
    return Part(name, Q, "B", f"p (B D + D F + B F) = {p} bytes × ({op.B:,} × {op.D:,} + {op.D:,} "
                f"× {op.F:,} + {op.B:,} × {op.F:,})",
                {"the weights left out": Q - _weights(op), **(unmoved if both else {}),
                 "x left out, though its read crosses": Q - x, "elements counted, not bytes": Q / p,
                 "4 bytes a number, as in fp32": 2 * Q,
                 "the weights fetched once for every token": Q + (op.B - 1) * _weights(op)},
                label=label, follows=follows, extra={} if both else unmoved)


def _intensity(op: Linear, name: str = "I", W_Q: tuple[Follow, Follow] = ("W", "Q"),
               label: str = "") -> Part:
    """I of a layer. W_Q: the reader's own W and Q, by the names of their parts."""
    W, Q, p = op.flops, op.algorithmic.hbm_bytes, BYTES[op.dtype]
    return Part(name, W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {"the ratio upside down: bytes over FLOPs": Q / W,
                 "a multiply-add counted as one FLOP": W / 2 / Q,
                 "x and y left out: I is near B only while B is small": W / _weights(op),
                 "divided by elements, not by bytes": p * W / Q,
                 "the weights left out": W / (Q - _weights(op)),
                 "y left out, though its write crosses": W / (Q - _output(op))},
                label=label, follows=("/", *W_Q))


def _ridge(P: float, BW: float, I: float | None = None) -> Part:
    return Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
                {"the ratio upside down: BW over P": BW / P,
                 "T and G mixed up: 1 T is 1000 G": P / BW / 1000,
                 "P of two cores (LNC = 2) over BW of one": 2 * P / BW,
                 "P of one core over BW of the device": P / BW / CORES,
                 "fp32's peak in place of bf16's": FP32_SHARE * P / BW,
                 **({} if I is None else {"W / Q is the kernel's number; the ridge is the "
                                          "machine's": I})})


def _t_flop(W: float, Q: float, P: float, BW: float, follows: Follow = "W") -> Part:
    near = math.isclose(W, Q, rel_tol=0.01)
    return Part("T_flop", W / P, "s", f"W / P = {flop(W)} / {rate(P)}",
                {"FLOPs divided by BW" + near * ", or the time of the bytes": W / BW,
                 "a multiply-add counted as one FLOP": W / P / 2,
                 "fp32's peak in place of bf16's": W / P / FP32_SHARE,
                 f"P of {CORES} cores, not of one": W / P / CORES},
                label=T_FLOP, follows=("/", follows, P),
                extra={"the time of the bytes is given, not that of the FLOPs": Q / BW})


def _t_byte(W: float, Q: float, P: float, BW: float, weights: float) -> Part:
    """The time of Q; `weights` are those bytes of it."""
    near = math.isclose(W, Q, rel_tol=0.01)
    return Part("T_byte", Q / BW, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
                {"bytes divided by P" + near * ", or the time of the FLOPs": Q / P,
                 "elements counted, not bytes": Q / BW / P_BF16,
                 X_AND_Y: weights / BW,
                 "BW taken in GiB/s: a GB is 10^9 bytes": Q / BW / (2**30 / 1e9),
                 f"BW of all {CORES} cores, not one core's share": Q / BW / CORES,
                 "bytes taken as bits: a factor 8": 8 * Q / BW},
                label=T_BYTE, follows=("/", "Q", BW),
                extra={"the time of the FLOPs is given, not that of the bytes": W / P})


def _best(W: float, Q: float, P: float, BW: float, name: str = "T_best", label: str = "",
          follows: Follow | None = None) -> Part:
    short, long = sorted((W / P, Q / BW))
    memory = long == Q / BW
    return Part(name, long, "s", f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})",
                {"the shorter of the two times": short,
                 "FLOPs over BW, bytes over P": max(W / BW, Q / P),
                 ("elements counted, not bytes" if memory
                  else "a multiply-add counted as one FLOP"): long / 2,
                 f"P and BW of {CORES} cores, not of one": long / CORES,
                 "the bytes of a number counted twice" if memory
                 else "the 2 of a multiply-add counted twice": 2 * long},
                label=label, follows=follows, extra={SUM: short + long})


def _longer(W: Follow, Q: Follow, P: float, BW: float) -> Follow:
    """T_best by the reader's own W and Q."""
    return ("max", ("/", W, P), ("/", Q, BW))


def _side(W: float, Q: float, P: float, BW: float, name: str = "side") -> Choice:
    return replace(day1._side(W / Q, P / BW), name=name)


def _share(part: Part) -> Part:
    """A share below 1 % may be given with one digit, as 0.1 %."""
    if not 0 < part.value < 0.01:
        return part
    digit = float(f"{part.value:.0e}")
    return replace(part, also=(*part.also, digit),
                   extra={**part.extra, "a percentage has lost its %": 100 * digit})


def _crossing(op: Linear, ridge: float, why: str, name: str = "B",
              follows: Follow | None = None) -> AnyPart:
    """The B at which I reaches the ridge, or that none does."""
    exact = op.crossover(ridge)
    if exact == math.inf:
        most = op.D * op.F / (op.D + op.F)
        return Choice(name, "never", {"never": "no batch reaches the ridge",
                                      "some": "a batch that is large enough reaches it"},
                      f"However large B is, I stays below 2 D F / (p (D + F)), which is "
                      f"{per_byte(2 * most / P_BF16)}; the ridge is {per_byte(ridge)}.",
                      {"some": "x and y grow with B as the work does: see what I tends to."},
                      AT_RIDGE)
    legal = {float(f"{ridge:.{digits}g}") for digits in (3, 4)}
    if ridge == RIDGE:  # rounded; also from P and BW, P in full or to three digits
        legal |= {CORE.ridge("bf16"), float(f"{CORE.peak('bf16'):.3g}") / CORE.bw()}
    also = [op.crossover(other) for other in legal - {ridge}]
    slips = {
        "x and y left out: I is near B only while B is small": ridge * P_BF16 / 2,
        "a multiply-add counted as one FLOP": op.crossover(2 * ridge),
        "divided by elements, not by bytes": op.crossover(ridge / P_BF16),
        "fp32's ridge in place of bf16's": op.crossover(FP32_SHARE * ridge),
        "the numerator left out: that is D - 2 ridge": op.D - 2 * ridge}
    if ridge < op.D:
        slips["one of x and y left out: a token has a row of both"] = ridge * op.D / (op.D - ridge)
    why += f"\nThat is {exact:.2f}, so from {math.ceil(exact):,} whole tokens on."
    return Part(name, exact, "", why,
                {label: value for label, value in slips.items() if math.isfinite(value)},
                also=(*filter(math.isfinite, also), math.ceil(exact)), label=AT_RIDGE,
                follows=follows)


def _at(ridge: Follow, D: int, F: int) -> Follow:
    """The crossover by the reader's own ridge."""
    return ("/", ("*", ridge, float(D * F)),
            ("+", float(D * F), ("*", ridge, -float(D + F))))


def _algebra(op: Linear, ridge: float) -> str:
    D, F, r = op.D, op.F, f"{ridge:.7g}"
    return (f"ridge D F / (D F - ridge (D + F)) = {r} × {D:,} × {F:,} / ({D:,} × {F:,} - {r} × "
            f"({D:,} + {F:,}))\nW = ridge × Q, divided by 2: B D F = ridge (B D + D F + B F).")


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

LINKS = {"HBM": "HBM", "its DMA engines": "DMA"}


def _ridge_words(P: float, BW: float, link: str) -> Iterator[AnyPart]:
    says, left = day1.ridge_words.body(P, BW)
    assert isinstance(says, Choice)
    uses = "It counts FLOPs, not uses. One bf16 number is two bytes, and one use may be two FLOPs."
    yield replace(says, slips={**says.slips, "uses": uses})
    yield left


open_ridge = replace(
    day1.ridge_words, id="day2.open.ridge",
    ask="One physical NeuronCore has P = {P} in bf16 and BW = {BW} over {link}. What does that "
        "ridge say, and what happens left of it?",
    fixed=dict(ROOFS, link="HBM"), one_of=dict(link=tuple(LINKS)), body=_ridge_words,
    draw=lambda r: r.choice([
        dict(P=core.peak("bf16"), BW=core.bw(level), link=link) for link, level in LINKS.items()
        for core in (machine.trn1, machine.trn2, machine.trn3)]))


# --- W, Q and I of a linear layer ---------------------------------------------------------------

@problem(
    "day2.flops",
    ask="x ({B} × {D}) times weights ({D} × {F}) gives y. How many numbers does y have? How "
        "many multiply-adds make one of them? What is the work W of the layer in FLOPs?",
    fixed=dict(B=32, D=1024, F=3072),
    draw=lambda r: dict(B=r.choice((16, 48, 96, 256)), D=r.choice((768, 1536, 2048)),
                        F=r.choice((4096, 6144, 8192))))
@told
def flops(B: int, D: int, F: int) -> Iterator[AnyPart]:
    yield Part("outputs", B * F, "", f"B × F = {B:,} × {F:,}",
               {"the size of x; y has F columns": B * D,
                "the size of the weights; y has B rows": D * F,
                "rows and columns added, not multiplied": B + F}, label="Numbers in y")
    yield Part("each", D, "", f"D = {D:,}\nOne number of y is a row of x times a column of "
               "the weights.",
               {"FLOPs counted, not multiply-adds": 2 * D,
                "F in place of D: the sum runs over the columns of x": F,
                "a whole row of y, not one number of it": D * F,
                "the batch counted in: it has rows of its own in y": B * D},
               label="Multiply-adds for each of them")
    yield replace(_work(Linear(B, D, F)), follows=("*", 2, "outputs", "each"))


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
                 "x and the weights are read, y is written. Partial sums stay on chip until they "
                 "are done.",
                 {"inputs": "It is made on chip, and then it has to go to HBM.",
                  "weights": "This layer stands alone: x comes from HBM and y goes there.",
                  "partial": "A sum can stay on chip until it is finished; then it leaves once."},
                 label="Which tensors cross?")
    for name, tensor, a, b in (("x", "x", B, D), ("weights", "W", D, F), ("y", "y", B, F)):
        size = sizes[tensor]
        wrong = {"x": ("F columns in place of D", B * F), "y": ("D columns in place of F", B * D),
                 "weights": ("B rows in place of D", B * F)}[name]
        yield Part(name, size, "B", f"p × {a:,} × {b:,} = {p} bytes × {a:,} × {b:,}",
                   {"elements counted, not bytes": size / p,
                    "4 bytes a number, as in fp32": 2 * size,
                    "the bytes of a number counted, and a 2 of FLOPs as well": 4 * size,
                    wrong[0]: p * wrong[1]},
                   label=f"Bytes of {'the ' * (name == 'weights')}{name}")
    yield _traffic(op, follows=("+", "x", "weights", "y"))


@problem(
    "day2.decode",
    ask=TRN2 + "Decode takes one token at a time: " + LAYER + "Find W, Q and I, the time of the "
        "FLOPs (T_flop) and of the bytes (T_byte), the side of the ridge, T_best, and the share "
        "of T_best that the Tensor Engine needs for W at its peak rate (busy).",
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
    yield _t_flop(W, Q, P, BW)
    yield _t_byte(W, Q, P, BW, _weights(op))
    yield _side(W, Q, P, BW)
    yield _best(W, Q, P, BW, follows=("max", "T_flop", "T_byte"))
    yield _share(Part(
        "busy", W / P / best, "", f"T_flop / T_best = {time(W / P)} / {time(best)}",
        {"the ratio upside down": best * P / W,
         "the idle share, not the busy one": 1 - W / P / best,
         "per cent without the % sign": 100 * W / P / best,
         "a multiply-add counted as one FLOP": W / P / best / 2,
         "busy all the time; T_flop is the shorter of the two": 1},
        label="Busy share of T_best" + SHARE,
        follows=("/", "T_flop", "T_best")))


@problem(
    "day2.why_I_is_B",
    ask="A linear layer gets B = {B} tokens, few next to D and F: count the bytes of the weights "
        "only. How many FLOPs is one weight used for? What is I in bf16 (I_2, 2 bytes), with "
        "weights of 1 byte (I_1) and of 4 bytes (I_4)? Why are D and F not in it?",
    fixed=dict(B=8), draw=lambda r: dict(B=r.choice((3, 4, 5, 6, 12, 16, 24, 32))))
@told
def why_I_is_B(B: int) -> Iterator[AnyPart]:
    yield Part("uses", 2 * B, "FLOP", f"2 B = 2 × {B}",
               {"a multiply-add counted as one FLOP": B, "one token counted, not B": 2,
                "the bytes counted in: 2 FLOPs a token, no more": 4 * B},
               label="FLOPs for each weight")
    for p in (2, 1, 4):
        yield Part(f"I_{p}", 2 * B / p, "FLOP/B", f"2 B / p = 2 × {B} / {p} byte{'s' * (p > 1)}",
                   {"a multiply-add counted as one FLOP": B / p,
                    "the bytes of a weight left out" if p > 1 else
                    "the 2 of a multiply-add counted twice": 2 * B if p > 1 else 4 * B,
                    "the ratio upside down: bytes over FLOPs": p / (2 * B),
                    "one token counted, not B": 2 / p,
                    **({} if p == 2 else {"2 bytes a weight, as in bf16": B})},
                   label=f"I, weights of {p} byte{'s' * (p > 1)}",
                   follows=("/", "uses", p))
    yield Choice("why", "weight",
                 {"square": "D and F are alike, so they cancel",
                  "weight": "each weight brings its own bytes and its own FLOPs",
                  "small": "D and F are too small to matter",
                  "ridge": "the ridge has no D and F in it either"},
                 "W and Q both grow with the number of weights, D F, and it cancels in W / Q.",
                 {"square": "They need not be alike: it is their product that cancels.",
                  "small": "They are large: that is why x and y can be left out.",
                  "ridge": "The ridge is the machine's. I follows from the op alone."},
                 label="Why are D and F not in I?")


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
    yield _intensity(op, W_Q=(W, "Q"))
    yield _side(W, Q, P, BW)
    yield _t_flop(W, Q, P, BW, W)
    yield _t_byte(W, Q, P, BW, _weights(op))
    yield _best(W, Q, P, BW, follows=("max", "T_flop", "T_byte"))


# --- where it crosses the ridge -----------------------------------------------------------------

def _solved(D: int, ridge: float) -> Iterator[AnyPart]:
    """The crossover of a D x D layer, step by step."""
    op, r, top, bottom = Linear(1, D, D), f"{ridge:.7g}", ridge * D, D - 2 * ridge
    yield Part("numerator", top, "", f"ridge × D = {r} × {D:,}\nI = B D / (2 B + D). Set to the "
               "ridge: B D = ridge (2 B + D), so B (D - 2 ridge) = ridge D.",
               {"D doubled: the weights are D × D, once": 2 * top,
                "D² kept: every term was divided by D": top * D,
                "one term divided by 2, not all of them": top / 2},
               label="Numerator (what has no B)")
    yield Part("denominator", bottom, "", f"D - 2 × ridge = {D:,} - 2 × {r}",
               {"the sign of 2 ridge: it goes to the other side": D + 2 * ridge,
                "one of x and y left out: both have B rows": D - ridge,
                "x and y counted twice": D - 4 * ridge,
                "D left out": 2 * ridge}, label="Denominator (what multiplies B)")
    yield _crossing(op, ridge, f"numerator / denominator = {top:.7g} / {bottom:.7g}",
                    follows=("/", "numerator", "denominator"))


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
        "is it compute-bound?",
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


LOW, HIGH = (pick(CORE.bandwidths["HBM"].rivals, key=lambda spec: spec.value)
             for pick in (min, max))


@problem(
    "day2.rival_moves",
    ask="Sources disagree on the HBM bandwidth of one physical Trn2 core. P = {P} in bf16; this "
        "page takes {BW_page}, the profiler divides by {BW_low}, a figure of the docs shows "
        "{BW_high}. Find the ridge by the profiler's number and by the figure's, the batch at "
        "which a linear layer with D = F = {D} crosses each, and how far apart these two batches "
        "are as a share of the batch by the page's own number. Which way does more bandwidth "
        "move the crossover?",
    fixed=dict(P=ROOFS["P"], BW_page=ROOFS["BW"], BW_low=LOW.value, BW_high=HIGH.value, D=4096),
    units=dict(P="FLOP/s", BW_page="B/s", BW_low="B/s", BW_high="B/s"),
    draw=lambda r: dict(D=r.choice((2048, 3072, 5120, 6144, 8192, 12288))))
@told
def rival_moves(P: float, BW_page: float, BW_low: float, BW_high: float, D: int,
                ) -> Iterator[AnyPart]:
    op, ridges = Linear(1, D, D), {"low": P / BW_low, "high": P / BW_high, "page": P / BW_page}
    at = {name: op.crossover(ridge) for name, ridge in ridges.items()}
    if BW_low >= BW_high:
        raise ValueError("BW_low has to be below BW_high")
    if math.inf in at.values():
        raise ValueError(f"a layer with D = F = {D:,} does not reach every one of these ridges")
    sides = (("low", "high", BW_low), ("high", "low", BW_high))
    for name, other, BW in sides:
        yield Part(f"ridge_{name}", ridges[name], "FLOP/B",
                   f"P / BW = {rate(P)} / {band(BW)}",
                   {"the ratio upside down: BW over P": 1 / ridges[name],
                    "the page's own ridge, not the one asked for": ridges["page"],
                    "the ridge by the other number": ridges[other],
                    "T and G mixed up: 1 T is 1000 G": ridges[name] / 1000},
                   label=f"Ridge at {band(BW)}")
    for name, other, BW in sides:
        r = f"{ridges[name]:.7g}"
        yield Part(f"B_{name}", at[name], "", f"ridge D / (D - 2 ridge) = {r} × {D:,} / ({D:,} - "
                   f"2 × {r})",
                   {"the crossover by the page's own number": at["page"],
                    "the crossover by the other number": at[other],
                    "x and y left out: I is near B only while B is small": ridges[name],
                    **({"one of x and y left out: a token has a row of both":
                        ridges[name] * D / (D - ridges[name])}),
                    "the numerator left out: that is D - 2 ridge": D - 2 * ridges[name]},
                   also=(math.ceil(at[name]),),
                   label=f"Batch at {band(BW)}",
                   follows=_at(f"ridge_{name}", D, D))
    apart = (at["low"] - at["high"]) / at["page"]
    yield Part("apart", apart, "", f"(B at {band(BW_low)} - B at {band(BW_high)}) / B at "
               f"{band(BW_page)} = ({at['low']:.5g} - "
               f"{at['high']:.5g}) / {at['page']:.5g}",
               {"ridges compared, not batches": (ridges["low"] - ridges["high"]) / ridges["page"],
                "from the page's own to one end, not from end to end":
                (at["page"] - at["high"]) / at["page"],
                "a ratio, not a difference": at["low"] / at["high"],
                "a share of the figure's batch, not of the page's": at["low"] / at["high"] - 1,
                "per cent without the % sign": 100 * apart},
               label="Batches apart" + SHARE,
               follows=("/", ("+", "B_low", ("*", "B_high", -1)), at["page"]))
    yield Choice("more_BW", "smaller",
                 {"smaller": "to a smaller batch", "larger": "to a larger batch",
                  "stays": "nowhere: the layer is the same"},
                 "More bytes a second: the ridge is lower, and fewer tokens are enough.",
                 {"larger": "More BW lowers P / BW, so less I is needed to reach it.",
                  "stays": "The layer's I stays, but the ridge it has to reach moves."},
                 label="Where does more BW move it?")


# --- what changes it ----------------------------------------------------------------------------

@problem(
    "day2.batching",
    ask=TRN2 + "{B} decode requests, one token each, go through a linear layer together: " + LAYER
        + "Find I, the side of the ridge, T_best for all of them and the time for each token. "
        "How many times more tokens a second is that than one request at a time?",
    fixed=dict(ROOFS, B=16, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((4, 8, 24, 32, 48, 64)), D=r.choice((3072, 5120, 8192)),
                        F=r.choice((4096, 6144, 8192))))
@told
def batching(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op, one = Linear(B, D, F), Linear(1, D, F)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    alone, best = (max(o.flops / P, o.algorithmic.hbm_bytes / BW) for o in (one, op))
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"one token counted, not the batch": one.algorithmic.intensity,
                "a multiply-add counted as one FLOP": W / 2 / Q,
                "divided by elements, not by bytes": P_BF16 * W / Q,
                "the ratio upside down: bytes over FLOPs": Q / W})
    yield _side(W, Q, P, BW)
    yield Part("T_best", best, "s", f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})",
               {"the weights fetched once for every token": B * alone,
                "divided by B, which comes next": alone / B,
                "the shorter of the two times": min(W / P, Q / BW),
                "elements counted, not bytes": best / P_BF16},
               follows=_longer(W, ("/", W, "I"), P, BW),
               extra={SUM: W / P + Q / BW})
    yield Part("each", best / B, "s", f"T_best / B = {time(best)} / {B}",
               {"not divided by B: the tokens share that time": best, "one token alone": alone,
                "divided by B twice": best / B**2,
                "the shorter of the two times": min(W / P, Q / BW) / B,
                "elements counted, not bytes": best / B / P_BF16},
               label="Time for each token", follows=("/", "T_best", B))
    yield Part("gain", B * alone / best, "", f"B × T_one / T_best = {B} × {time(alone)} / "
               f"{time(best)}",
               {"T_best compared, not tokens a second": 1,
                "the ratio upside down": best / alone / B,
                "the ridge: the gain could go that far, but not with this B": P / BW,
                "B counted twice": B**2},
               label="Times more tokens a second",
               follows=("/", B * alone, "T_best"))


@problem(
    "day2.int8",
    ask=TRN2 + "A linear layer decodes B = {B} token, D = {D}, F = {F}; x, y and the arithmetic "
        "stay bf16, the weights are stored as int8. Find Q, I, the side of the ridge and T_best, "
        "and how many times faster that is than with bf16 weights. Now every output channel (a "
        f"column of the weights) gets one {SCALE_DTYPE} scale: how many bytes more cross, and "
        "what share of the bytes that int8 saved is that?",
    fixed=dict(ROOFS, B=1, **SQUARE), units=ROOF_UNITS,
    draw=lambda r: dict(D=r.choice((2048, 3072, 5120, 8192)), F=r.choice((6144, 8192, 12288))))
@told
def int8(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    wide, op = Linear(B, D, F), Linear(B, D, F, w_dtype="int8")
    W, Q, Q_wide = op.flops, op.algorithmic.hbm_bytes, wide.algorithmic.hbm_bytes
    scales = Linear(B, D, F, w_dtype="int8", scales="channel").algorithmic.hbm_bytes - Q
    best, before = (max(W / P, q / BW) for q in (Q, Q_wide))
    yield Part("Q", Q, "B", f"p (B D + B F) + 1 byte × D F = {P_BF16} bytes × ({B:,} × {D:,} + "
               f"{B:,} × {F:,}) + 1 byte × {D:,} × {F:,}",
               {"2 bytes a weight, as in bf16": Q_wide, "the weights left out": Q - _weights(op),
                "8 bytes a weight: int8 has 8 bits": Q + 7 * _weights(op),
                "half a byte a weight, as with 4 bits": Q - _weights(op) / 2,
                "x and y in int8 as well; they stay bf16": Q_wide / 2})
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"2 bytes a weight, as in bf16": W / Q_wide,
                "W doubled; it stays as it is": 2 * W / Q,
                "the ratio upside down: bytes over FLOPs": Q / W,
                "the weights left out": W / (Q - _weights(op))}, follows=("/", W, "Q"))
    yield _side(W, Q, P, BW)
    yield Part("T_best", best, "s", f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})",
               {"2 bytes a weight, as in bf16": before,
                "the shorter of the two times": min(W / P, Q / BW),
                "the bytes halved twice": best / 2,
                f"BW of all {CORES} cores, not one core's share": best / CORES},
               follows=_longer(W, "Q", P, BW), extra={SUM: W / P + Q / BW})
    yield Part("faster", before / best, "", f"T_bf16 / T_int8 = {time(before)} / {time(best)}",
               {"the ratio upside down": best / before,
                "no gain, though the bytes set the time and fell":
                1, "the gain counted twice, in the bytes and in I": 4},
               label="Times faster than bf16",
               follows=("/", before, "T_best"))
    p = BYTES[SCALE_DTYPE]
    yield Part("scales", scales, "B", f"{p} bytes × F = {p} bytes × {F:,}",
               {"a scale for every weight, not for every column": p * D * F,
                "elements counted, not bytes": F,
                "2 bytes a scale, as in bf16": 2 * F, "one scale in all, not one a column": p,
                "a scale for every row, not for every column": p * D}, label="Bytes of the scales")
    saved = Q_wide - Q
    yield _share(Part(
        "lost", scales / saved, "", f"scales / (D F) = {byte(scales)} / {byte(saved)}\n"
        "Each weight saved 2 bytes - 1 byte.",
        {"the ratio upside down": saved / scales, "scales counted as elements, not as bytes":
         F / saved, "a scale for every weight, not for every column": p,
         "per cent without the % sign": 100 * scales / saved,
         "a saving of 2 bytes a weight; each saved 1": scales / saved / 2},
        label="Share of the saving lost" + SHARE,
        follows=("/", "scales", saved)))


# --- decode attention ---------------------------------------------------------------------------

MHA = dict(L=4096, heads=CARD.heads, d=CARD.d)
SCORES = "Scores stay on chip, softmax is left out of W. "


def _attention(op: DecodeAttention) -> Iterator[Part]:
    """W and Q of decode attention."""
    W, Q = op.flops, op.algorithmic.hbm_bytes
    B, L, d, H, G, p = op.B, op.L, op.d, op.heads, op.kv_heads or op.heads, BYTES[op.dtype]
    yield Part("W", W, "FLOP", f"4 B heads L d = 4 × {B} × {H} × {L:,} × {d}\nFor each head: q "
               "times L keys, and L weights times the values, 2 L d FLOPs each.",
               {"one product of two left out: q with K, scores with V": W / 2,
                "one product of two, and a multiply-add as one FLOP": W / 4,
                "one head counted, not all": W / H,
                "L new tokens, as in prefill; there is one": W * L,
                "one sequence counted, not the batch": W / B})
    yield Part("Q", Q, "B",
               f"p (2 B {'heads' if G == H else 'kv_heads'} L d + 2 B heads d) = "
               f"{p} bytes × (2 × {B} × {G} × {L:,} × {d} + 2 × {B} × {H} × {d})",
               {"one of K and V left out, or elements counted for bytes": Q / 2,
                "one of K and V left out, and elements counted for bytes": Q / 4,
                "one sequence's cache for the whole batch": Q / B,
                "one kv head's cache, not all": Q / G,
                "4 bytes a number, as in fp32": 2 * Q,
                **({} if G == H else
                   {"a cache for every query head; only kv heads have one": Q * H / G})})


@problem(
    "day2.kv_cache",
    ask=TRN2 + "Decode attention: one new token in each of B = {B} sequences meets that sequence's "
        "KV cache of L = {L} tokens; {heads} heads of d = {d}, each with its own K and V (MHA), "
        "bf16. " + SCORES + "Find W, Q, I, the side of the ridge and T_best. Which tensor "
        "dominates Q? What would twice the batch do to I?",
    fixed=dict(ROOFS, B=8, **MHA), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((4, 6, 12, 16)), L=r.choice((2048, 8192, 16384)),
                        heads=r.choice((16, 24, 40, 64)), d=r.choice((64, 128))))
@told
def kv_cache(P: float, BW: float, B: int, L: int, heads: int, d: int) -> Iterator[AnyPart]:
    op = DecodeAttention(B, L, d, heads)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    yield from _attention(op)
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"one cache shared by the whole batch": B * W / Q,
                "one product of two left out: q with K, scores with V": W / 2 / Q,
                "divided by elements, not by bytes": P_BF16 * W / Q,
                "one product of two, and a multiply-add as one FLOP": W / 4 / Q,
                "the machine's P / BW in place of the op's I": P / BW}, follows=("/", "W", "Q"))
    yield _side(W, Q, P, BW)
    yield _best(W, Q, P, BW, follows=_longer("W", "Q", P, BW))
    yield _dominates(op)
    yield Choice("batch", "stays",
                 {"doubles": "it doubles, as for a linear layer",
                  "stays": "it stays: the caches double as well",
                  "halves": "it halves: there is twice as much to read"},
                 "Each sequence brings its own cache, read once and used once.",
                 {"doubles": "A linear layer's tokens share its weights; two sequences share "
                             "no cache.",
                  "halves": "The FLOPs double too."}, label="What would twice the batch do to I?")


def _dominates(op: DecodeAttention) -> Choice:
    cache = sum(t.read_bytes for t in op.tensors if "cache" in t.name)
    rows = op.algorithmic.hbm_bytes - cache
    right = "cache" if cache >= rows else "rows"
    reasons = {"rows": "They have one row for each head and sequence, the caches L.",
               "cache": "With so few tokens in it, it is smaller than the rows. Compare the two.",
               "scores": "They stay on chip here, and have no bytes in Q.",
               "weights": "Those belong to the projections, which are linear layers of their own."}
    del reasons[right]
    return Choice("dominates", right,
                  {"rows": "q and the output o", "scores": "the scores, one for each cached token",
                   "cache": "the K and V caches", "weights": "the weights of the layer"},
                  f"The caches have {byte(cache)}, q and o {byte(rows)}.", reasons,
                  label="Which tensor dominates Q?")


@problem(
    "day2.gqa",
    ask=TRN2 + "Decode attention again, B = {B} sequences, L = {L} cached tokens, d = {d}, bf16, "
        "but {heads} query heads share {kv_heads} kv heads. " + SCORES + "How many query heads "
        "use each cached number (g)? Find Q, I, the side of the ridge and T_best. How many times "
        "faster is it than with a kv head for each query head?",
    fixed=dict(ROOFS, B=8, **MHA, kv_heads=CARD.kv_heads), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((2, 6, 16)), L=r.choice((8192, 16384, 32768)),
                        **r.choice([dict(heads=h, kv_heads=g, d=128) for h, g in (
                            (28, 4), (48, 8), (64, 8), (40, 8), (24, 8))])))
@told
def gqa(P: float, BW: float, B: int, L: int, heads: int, d: int, kv_heads: int,
        ) -> Iterator[AnyPart]:
    op, mha = DecodeAttention(B, L, d, heads, kv_heads), DecodeAttention(B, L, d, heads)
    W, Q, g = op.flops, op.algorithmic.hbm_bytes, heads // kv_heads
    best, before = (max(o.flops / P, o.algorithmic.hbm_bytes / BW) for o in (op, mha))
    yield Part("g", g, "", f"heads / kv_heads = {heads} / {kv_heads}",
               {"the ratio upside down": kv_heads / heads,
                "all query heads, not those of one kv head": heads,
                "the number of kv heads": kv_heads}, label="Query heads for each cached number")
    *_, traffic = _attention(op)
    yield traffic
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"one query head for each cached number, not g": mha.algorithmic.intensity,
                "all query heads for each cached number, not g": W / Q * kv_heads,
                "the ratio upside down: bytes over FLOPs": Q / W,
                "one product of two left out: q with K, scores with V": W / 2 / Q,
                "divided by elements, not by bytes": P_BF16 * W / Q}, follows=("/", W, "Q"))
    yield _side(W, Q, P, BW)
    part = _best(W, Q, P, BW, follows=_longer(W, "Q", P, BW))
    yield replace(part, slips={"MHA's caches, one for every query head; only kv heads have one":
                               before, **part.slips})
    yield Part("faster", before / best, "", f"T_MHA / T_GQA = {time(before)} / {time(best)}",
               {"the ratio upside down": best / before,
                "W compared, which stays; the bytes set the time": 1,
                "a cache of one head, as in MQA": heads,
                "g counted twice": g * g},
               label="Times faster than MHA",
               follows=("/", before, "T_best"))


LATENT = MODELS["deepseek-v3"]


@problem(
    "day2.mla",
    ask=TRN2 + "A latent cache (MLA) keeps, for each token of a layer, one row of {latent} + "
        "{rope} numbers for all {heads} heads, instead of K and V of d = {d} for each, all bf16. "
        "How many bytes is one token's K and V in MHA (mha), how many is its row (mla), and how "
        "many times smaller is that? In decode every head's query of {latent} + {rope} numbers "
        "meets each of the L = {L} rows, and the scores weight the rows' first {latent} numbers; "
        "B = {B}. " + SCORES + "Q has q, the rows, and o with {latent} numbers a head. Find W, I "
        "and the side of the ridge.",
    fixed=dict(ROOFS, B=1, L=8192, heads=LATENT.heads, d=LATENT.d, latent=LATENT.latent,
               rope=LATENT.rope),
    units=ROOF_UNITS,
    draw=lambda r: dict(L=r.choice((4096, 16384, 32768, 65536)), heads=r.choice((16, 32, 64))))
@told
def mla(P: float, BW: float, B: int, L: int, heads: int, d: int, latent: int, rope: int,
        ) -> Iterator[AnyPart]:
    op = LatentDecodeAttention(B, L, heads, latent, rope)
    W, Q, p = op.flops, op.algorithmic.hbm_bytes, P_BF16
    mha, row = p * 2 * heads * d, p * (latent + rope)
    yield Part("mha", mha, "B", f"p × 2 × heads × d = {p} bytes × 2 × {heads} × {d}",
               {"one of K and V left out, or elements counted for bytes": mha / 2,
                "one head counted, not all": mha / heads,
                "one of K and V left out, and elements counted for bytes": mha / 4},
               label="Bytes of a token in MHA")
    yield Part("mla", row, "B", f"p × (latent + rope) = {p} bytes × ({latent} + {rope})",
               {"elements counted, not bytes": row / p,
                "a row for every head; one serves all": row * heads,
                "K and V counted; the row is both at once": 2 * row,
                f"the {rope} numbers of the position left out": p * latent},
               label="Bytes of a token's row in MLA")
    yield Part("smaller", mha / row, "", f"mha / mla = {mha:,} bytes / {row:,} bytes",
               {"the ratio upside down": row / mha,
                "one of the two in elements, not in bytes": mha / row * p,
                "one of K and V left out": mha / row / 2,
                "a row for every head; one serves all": mha / row / heads},
               label="Times smaller", follows=("/", "mha", "mla"))
    yield Part("W", W, "FLOP", f"2 B heads L (latent + rope + latent) = 2 × {B} × {heads} × {L:,} "
               f"× ({latent} + {rope} + {latent})",
               {"a multiply-add counted as one FLOP": W / 2,
                "the weighted sum left out": 2 * B * heads * L * (latent + rope),
                "one head counted, not all": W / heads,
                "sums over d; here they run over the latent": 4 * B * heads * L * d})
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"one head for each row; it serves all": W / Q / heads,
                "a multiply-add counted as one FLOP": W / 2 / Q,
                "divided by elements, not by bytes": p * W / Q,
                "the bytes of an MHA cache": W / (B * L * mha),
                "the ratio upside down: bytes over FLOPs": Q / W}, follows=("/", "W", Q))
    yield _side(W, Q, P, BW)


@problem(
    "day2.long_context",
    ask="One layer of a decoder, bf16: D = {D}; {heads} query and {kv_heads} kv heads of d = {d}, "
        "so projections q and o of D × heads d, k and v of D × kv_heads d; an MLP of three D × F "
        "matrices, F = {F}. How many bytes are its weights? How many does one cached token add "
        "to the layer's KV cache? In decode the weights cross once a step, and each sequence's "
        "cache too: from which context L on does the cache outweigh the weights for one sequence "
        "(L_one), and with B = {B} sequences in the batch (L_batch)? Which of the two reads does "
        "batching share?",
    fixed=dict(D=CARD.D, heads=CARD.heads, kv_heads=CARD.kv_heads, d=CARD.d, F=CARD.F, B=32),
    draw=lambda r: dict(B=r.choice((8, 16, 48, 64, 128)), **r.choice([
        dict(D=m.D, heads=m.heads, kv_heads=m.kv_heads, d=m.d, F=m.F) for m in MODELS.values()
        if m.mlp == "swiglu" and not m.experts])))
@told
def long_context(D: int, heads: int, kv_heads: int, d: int, F: int, B: int) -> Iterator[AnyPart]:
    mlp, p = _weights(SwiGLU(1, D, F)), P_BF16
    parts = [Linear(1, D, heads * d), Linear(1, D, kv_heads * d)]
    weights = mlp + 2 * sum(map(_weights, parts))
    one, two = (DecodeAttention(1, L, d, heads, kv_heads).algorithmic.hbm_bytes for L in (1, 2))
    token = two - one
    yield Part("weights", weights, "B",
               f"p × (2 D heads d + 2 D kv_heads d + 3 D F) = {p} bytes × "
               f"(2 × {D:,} × {heads * d:,} + 2 × {D:,} × {kv_heads * d:,} + 3 × {D:,} × {F:,})",
               {"the attention projections left out": mlp,
                "elements counted, not bytes": weights / p,
                "two matrices in the MLP; it has three": weights - mlp / 3,
                "the MLP left out": weights - mlp,
                "k and v as wide as q; they have kv_heads heads":
                mlp + 4 * _weights(parts[0])}, label=W_BYTES)
    yield Part("token", token, "B", f"p × 2 × kv_heads × d = {p} bytes × 2 × {kv_heads} × {d}",
               {"one of K and V left out, or elements counted for bytes": token / 2,
                "one of K and V left out, and elements counted for bytes": token / 4,
                "one kv head counted, not all": token / kv_heads,
                "a cache for every query head; only kv heads have one": token * heads / kv_heads,
                "the token's row of x, not its K and V": p * D}, label="Cache bytes of one token")
    for name, n, other in (("L_one", 1, B), ("L_batch", B, 1)):
        L = weights / (n * token)
        caches = f"({n} × {byte(token)})" if n > 1 else byte(token)
        yield Part(name, L, "", f"weights / {'(B × token)' if n > 1 else 'token'} = "
                   f"{byte(weights)} / {caches}",
                   {"one sequence's cache for the whole batch" if n > 1
                    else "the whole batch; this is one sequence": weights / (other * token),
                    "one of K and V left out": 2 * L,
                    "a cache for every query head; only kv heads have one": L * kv_heads / heads,
                    "the attention projections left out": mlp / (n * token),
                    "the weights in elements, not in bytes": L / p},
                   label="L for one sequence" if n == 1 else f"L for {n} sequences",
                   follows=("/", "weights", ("*", "token", n)))
    yield Choice("shares", "weights",
                 {"weights": "that of the weights only", "cache": "that of the caches only",
                  "both": "both", "none": "neither"},
                 "All tokens of a step use the same weights; each has a cache of its own.",
                 {"cache": "One sequence's K and V are of no use to another.",
                  "both": "One sequence's K and V are of no use to another.",
                  "none": "All tokens of a step go through the same weights."},
                 label="Which read does batching share?")


# --- more roofs, other machines -----------------------------------------------------------------

CHIPS = {"P": DEVICE.peak("bf16"), "BW": DEVICE.bw(), "BW_link": DEVICE.bw("link")}
CHIP_UNITS = dict(ROOF_UNITS, BW_link="B/s")
TRN2_DEVICE = (f"Take a whole Trn2 device ({CORES} cores), P = {{P}} in bf16, BW = {{BW}} of HBM "
               "and BW_link = {BW_link} to other devices, all its links together. ")


def _others(times: Mapping[str, float], roof: str) -> dict[str, float]:
    names = {"compute": "the FLOPs", "HBM": "HBM's bytes", "link": "the link's bytes"}
    return {f"the time of {names[other]} is given": t for other, t in times.items()
            if other != roof}


def _three(times: Mapping[str, float]) -> Iterator[AnyPart]:
    """Which of three roofs binds, and T_best."""
    binds = max(times, key=lambda name: times[name])
    yield Choice("binds", binds, {"compute": "the flat roof, P", "HBM": "HBM's slanted roof",
                                  "link": "the link's slanted roof"},
                 ", ".join(f"{name} {time(t)}" for name, t in times.items())
                 + ": the longest time binds.",
                 {name: "Another roof takes longer. Compare the three times." for name in times
                  if name != binds}, label="Which roof binds?")
    yield Part("T_best", times[binds], "s",
               f"max(T_flop, T_HBM, T_link) = max({', '.join(map(time, times.values()))})",
               {"the times added, as without overlap": sum(times.values()),
                "the shortest of the times": min(times.values()),
                "one of the three roofs left out": sorted(times.values())[1],
                "two of the times added, as without overlap": sum(sorted(times.values())[1:])},
               follows=("max", "T_flop", "T_HBM", "T_link"))


@problem(
    "day2.link",
    ask=TRN2_DEVICE + "A step of a kernel does W = {W}, moves Q = {Q} over HBM and sends Q_link = "
        "{Q_link} to another device. Find the time at each of the three roofs, the one that "
        "binds, T_best and the entitled rate W / T_best.",
    fixed=dict(CHIPS, W=400e9, Q=1.5e9, Q_link=1e9),
    units=dict(CHIP_UNITS, W="FLOP", Q="B", Q_link="B"),
    draw=lambda r: dict(W=r.choice((150e9, 300e9, 700e9)), Q=r.choice((0.8e9, 2e9, 5e9)),
                        Q_link=r.choice((0.3e9, 0.6e9, 1.4e9))))
@told
def link(P: float, BW: float, BW_link: float, W: float, Q: float, Q_link: float,
         ) -> Iterator[AnyPart]:
    times = {"compute": W / P, "HBM": Q / BW, "link": Q_link / BW_link}
    yield Part("T_flop", times["compute"], "s", f"W / P = {flop(W)} / {rate(P)}",
               {"FLOPs divided by BW": W / BW,
                "the cores counted twice: P is the device's": W / P / CORES,
                "one core's P, not the device's": W / P * CORES}, label=T_FLOP,
               extra=_others(times, "compute"))
    yield Part("T_HBM", times["HBM"], "s", f"Q / BW = {byte(Q)} / {band(BW)}",
               {"HBM's bytes over the link's bandwidth": Q / BW_link,
                "the bytes of two roofs added up": (Q + Q_link) / BW,
                "the link's bytes, not HBM's": Q_link / BW,
                "one core's BW, not the device's": Q / BW * CORES}, label=T_HBM,
               extra=_others(times, "HBM"))
    yield Part("T_link", times["link"], "s",
               f"Q_link / BW_link = {byte(Q_link)} / {band(BW_link)}",
               {"the link's bytes over HBM's bandwidth": Q_link / BW,
                "HBM's bytes, not the link's": Q / BW_link,
                "the bytes of two roofs added up": (Q + Q_link) / BW_link}, label=T_LINK,
               extra=_others(times, "link"))
    yield from _three(times)
    best = max(times.values())
    yield Part("rate", W / best, "FLOP/s", f"W / T_best = {flop(W)} / {time(best)}",
               {"the highest of the roofs, not the lowest": W / min(times.values()),
                "the sum of the times in place of T_best": W / sum(times.values()),
                "one of the three roofs left out": W / sorted(times.values())[1],
                "bytes over the time, not W": Q_link / best},
               label="Entitled rate", follows=("/", W, "T_best"))


@problem(
    "day2.do.two_chips",
    ask="Two Trn2 devices, each with P = {P} in bf16, BW = {BW} of HBM and BW_link = {BW_link} to "
        "the other (all links together, taken as one way), share a linear layer: x ({B} × {D}) "
        "times weights ({D} × {F}) gives y, bf16. D is split: each device takes half of the "
        "columns of x and half of the rows of the weights, and so has a partial sum of every "
        "number of y. They exchange these (bf16), so that each ends with all of y. For one device, "
        "find the work W, the traffic Q (its halves read, a y written), the bytes Q_link it sends, "
        "the three times, the roof that binds and T_best. (In JupyterLab, "
        'give your own: ask("day2.do.two_chips", B=..., D=..., F=...).)',
    fixed=dict(CHIPS, B=2048, D=CARD.F, F=CARD.D), units=CHIP_UNITS,
    draw=lambda r: dict(B=r.choice((64, 256, 1024, 4096)), D=r.choice((512, 2048, 6144, 16384)),
                        F=r.choice((4096, 6144, 12288))))
@told
def two_chips(P: float, BW: float, BW_link: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    if D % 2:
        raise ValueError("D has to be even, so that each device gets a half")
    op, p = Linear(B, D // 2, F), P_BF16
    W, Q, sent = op.flops, op.algorithmic.hbm_bytes, AllReduce(B * F, chips=2).link_bytes
    times = {"compute": W / P, "HBM": Q / BW, "link": sent / BW_link}
    yield Part("W", W, "FLOP", f"2 B (D / 2) F = 2 × {B:,} × {D // 2:,} × {F:,}\n"
               "Adding up what comes in, B F / 2 adds, is left out.",
               {"all of D; each device has half of it": 2 * W,
                "a multiply-add counted as one FLOP": W / 2,
                "B or F halved as well as D": W / 4})
    yield Part("Q", Q, "B", f"p (B D / 2 + D F / 2 + B F) = {p} bytes × ({B:,} × {D // 2:,} + "
               f"{D // 2:,} × {F:,} + {B:,} × {F:,})",
               {"all of x and the weights; each device has half":
                Linear(B, D, F).algorithmic.hbm_bytes,
                "elements counted, not bytes": Q / p,
                "y left out, though its write crosses": Q - p * B * F,
                "half of y; its partial sums are B × F numbers": Q - p * B * F // 2,
                "the weights left out": Q - _weights(op)}, extra={X_AND_Y: _weights(op)})
    yield Part("Q_link", sent, "B", f"p B F = {p} bytes × {B:,} × {F:,}\nHalf of its partial sums "
               "go to the other, which adds them; half of the finished numbers go as well.",
               {"half of it: bytes a number, or the way back, left out": sent / 2,
                "what both devices send, not one": 2 * sent,
                "its half of x sent, not sums of y": p * B * D // 2,
                "its half of the weights sent, not sums of y": p * D * F // 2},
               label="Bytes sent (Q_link)")
    for name, roof, why in (("T_flop", "compute", f"W / P = {flop(W)} / {rate(P)}"),
                            ("T_HBM", "HBM", f"Q / BW = {byte(Q)} / {band(BW)}"),
                            ("T_link", "link", f"Q_link / BW_link = {byte(sent)} / "
                                               f"{band(BW_link)}")):
        wrong = {"compute": {"FLOPs divided by BW": W / BW,
                             "all of D; each device has half of it": 2 * W / P,
                             "one core's P, not the device's": CORES * W / P},
                 "HBM": {"HBM's bytes over the link's bandwidth": Q / BW_link,
                         "one core's BW, not the device's": CORES * Q / BW,
                         "elements counted, not bytes": Q / BW / p},
                 "link": {"the link's bytes over HBM's bandwidth": sent / BW,
                          "half of the bytes: the way back is sent, too": sent / 2 / BW_link,
                          "HBM's bytes over the link": Q / BW_link}}[roof]
        bytes_or_flops, speed, says = {
            "compute": ("W", P, T_FLOP), "HBM": ("Q", BW, T_HBM),
            "link": ("Q_link", BW_link, T_LINK)}[roof]
        yield Part(name, times[roof], "s", why, wrong, label=says,
                   follows=("/", bytes_or_flops, speed), extra=_others(times, roof))
    yield from _three(times)


@problem(
    "day2.do.when_link_binds",
    ask="The same two devices, P = {P} in bf16, BW = {BW} of HBM and BW_link = {BW_link} to the "
        "other. The layer takes B = {B} rows to F = {F} numbers, bf16; D, the width that is split, "
        "is open. The transfer outlasts the FLOPs while D is below which D_flop? It outlasts the "
        "bytes of HBM while D is below which D_HBM? And when does it set the time? (In JupyterLab, "
        'give your own: ask("day2.do.when_link_binds", B=..., F=...).)',
    fixed=dict(CHIPS, B=2048, F=CARD.D), units=CHIP_UNITS,
    draw=lambda r: dict(B=r.choice((64, 256, 1024, 4096)), F=r.choice((4096, 6144, 12288))))
@told
def when_link_binds(P: float, BW: float, BW_link: float, B: int, F: int) -> Iterator[AnyPart]:
    p = P_BF16
    by_flop, by_byte = p * P / BW_link, 2 * (BW / BW_link - 1) * B * F / (B + F)
    yield Part("D_flop", by_flop, "", f"p P / BW_link = {p} × {rate(P)} / {band(BW_link)}\n"
               "p B F / BW_link > B D F / P: B and F cancel. A pair that shares fewer links has "
               "less BW_link, and a larger D.",
               {"p left out, or all of D on each device": by_flop / 2,
                "a multiply-add counted as one FLOP": by_flop * 2,
                "one core's P, not the device's": by_flop / CORES,
                "HBM's bandwidth in place of the link's": p * P / BW,
                "the ratio upside down": BW_link / P / p},
               label="D_flop, where link and FLOPs tie")
    if by_byte <= 0:
        yield Choice("D_HBM", "never", {"never": "it never does", "some": "while D is small"},
                     "The link is no slower than HBM, and HBM moves x and weights besides y.",
                     {"some": "The same y crosses HBM, and more with it, at no higher rate."},
                     label="D_HBM, where link and HBM tie")
    else:
        yield Part("D_HBM", by_byte, "",
                   f"2 (BW / BW_link - 1) B F / (B + F) = 2 × ({band(BW)} / {band(BW_link)} - 1) × "
                   f"{B:,} × {F:,} / ({B:,} + {F:,})\np B F / BW_link > p (B D / 2 + D F / 2 + "
                   "B F) / BW.",
                   {"y left out of HBM's bytes": 2 * BW / BW_link * B * F / (B + F),
                    "all of D; each device has half of it": by_byte / 2,
                    "the bound from the FLOPs, not from HBM": by_flop,
                    "x left out of HBM's bytes": 2 * (BW / BW_link - 1) * B},
                   label="D_HBM, where link and HBM tie")
    yield Choice("when", "both",
                 {"both": "when D is below both", "either": "when D is below one of them",
                  "flop": "when D is below D_flop, whatever HBM does",
                  "batch": "when B is large: more is sent"},
                 "It has to outlast the FLOPs and HBM's bytes alike. Where the FLOPs outlast HBM's "
                 "bytes, as in a large batch, that is D < p P / BW_link.",
                 {"either": "The longest of three times binds: it has to outlast both others.",
                  "flop": "At a small batch HBM's bytes take longer than the FLOPs.",
                  "batch": "The FLOPs grow with B as well: B cancels in D_flop."},
                 label="When does it set the time?")


@problem(
    "day2.more_P",
    ask=TRN2 + "A core with {times} times the P and the same BW comes out. A linear layer with D "
        "= {D}, F = {F}, bf16, decodes one token: what is T_best before and after, and what share "
        "of the new peak does it reach? It takes a prompt of {prompt} tokens: T_best before "
        "(prefill_before) and after (prefill_after)? What would make the decode step faster?",
    fixed=dict(ROOFS, times=2.0, **SQUARE, prompt=2048), units=ROOF_UNITS,
    draw=lambda r: dict(times=r.choice((1.5, 2.0, 3.0, 4.0)), D=r.choice((3072, 5120, 8192)),
                        F=r.choice((4096, 6144, 8192)), prompt=r.choice((1024, 2048, 4096))))
@told
def more_P(P: float, BW: float, times: float, D: int, F: int, prompt: int) -> Iterator[AnyPart]:
    if times <= 1:
        raise ValueError("times has to be above 1")
    for step, one, names in (
            ("Decode", Linear(1, D, F), ("before", "after")),
            ("Prefill", Linear(prompt, D, F), ("prefill_before", "prefill_after"))):
        W, Q = one.flops, one.algorithmic.hbm_bytes
        yield _best(W, Q, P, BW, names[0], f"{step} T_best before")
        t_flop, t_byte = W / (times * P), Q / BW
        best = max(t_flop, t_byte)
        memory = best == t_byte
        yield Part(names[1], best, "s",
                   f"max(W / (times × P), Q / BW) = max({time(t_flop)}, {time(t_byte)})",
                   {"a time that fell with P, though the bytes set it" if memory
                    else "the old P: it has grown": best / times if memory else W / P,
                    "the shorter of the two times": min(t_flop, t_byte),
                    f"P and BW of {CORES} cores, not of one": best / CORES,
                    ("elements counted, not bytes" if memory
                     else "the growth of P counted twice"): best / 2 if memory else best / times},
                   label=f"{step} T_best after", extra={SUM: t_flop + t_byte})
        if one.B == 1:
            yield _share(Part(
                "share", W / best / (times * P), "",
                f"W / after / (times × P) = {flop(W)} / {time(best)} / ({times:g} × {rate(P)})",
                {"the old peak, not the new one": W / best / P,
                 "the ratio upside down": best * times * P / W,
                 "per cent without the % sign": 100 * W / best / (times * P),
                 "the growth of P counted twice": W / best / (times * times * P)},
                label="Share of the new peak" + SHARE,
                follows=("/", W / (times * P), "after")))
            helps = "bytes" if memory else "peak"
    yield Choice("helps", helps,
                 {"peak": "yet more P", "bytes": "fewer weight bytes, or more BW",
                  "sbuf": "a Tensor Engine that waits less for SBUF"},
                 f"The step's time is {'Q / BW' if helps == 'bytes' else 'W / P'}.",
                 {key: "That is not what takes the time. Find the longer of the two."
                  for key in ("peak", "bytes", "sbuf") if key != helps},
                 label="What makes decode faster?")


OTHERS = {m.name: dict(chip=m.name, P=m.peak("bf16"), BW=m.bw()) for m in (
    machine.a100, machine.h100, machine.h200, machine.b200,
    machine.tpu_v5e, machine.tpu_v5p, machine.tpu_v6e)}
GPUS, TPUS = ([o for name, o in OTHERS.items() if ("TPU" in name) == tpu] for tpu in (False, True))


def _chips(gpu: Mapping[str, Any], tpu: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{key}_{kind}": chip[key] for kind, chip in (("gpu", gpu), ("tpu", tpu))
            for key in ("chip", "P", "BW")}


@problem(
    "day2.gpu_tpu",
    ask="The same linear layer, D = {D}, F = {F}, bf16, on two whole devices. {chip_gpu}: P = "
        "{P_gpu}, BW = {BW_gpu}. {chip_tpu}: P = {P_tpu}, BW = {BW_tpu}. For each find the "
        "ridge, T_best for one token (decode) and for {B} tokens (prefill). Which is faster in "
        "decode, and what decides that?",
    fixed=dict(_chips(OTHERS[machine.h100.name], OTHERS[machine.tpu_v5e.name]), **SQUARE, B=2048),
    units=dict(P_gpu="FLOP/s", BW_gpu="B/s", P_tpu="FLOP/s", BW_tpu="B/s"),
    one_of=dict(chip_gpu=tuple(str(o["chip"]) for o in GPUS),
                chip_tpu=tuple(str(o["chip"]) for o in TPUS)),
    draw=lambda r: dict(_chips(r.choice(GPUS), r.choice(TPUS)), D=r.choice((3072, 5120, 8192)),
                        B=r.choice((1536, 4096, 8192))))
@told
def gpu_tpu(chip_gpu: str, P_gpu: float, BW_gpu: float, chip_tpu: str, P_tpu: float,
            BW_tpu: float, D: int, F: int, B: int) -> Iterator[AnyPart]:
    roofs = {"gpu": (P_gpu, BW_gpu), "tpu": (P_tpu, BW_tpu)}
    chips = {"gpu": chip_gpu, "tpu": chip_tpu}
    best, memory = {}, []
    for kind, (P, BW) in roofs.items():
        yield Part(f"ridge_{kind}", P / BW, "FLOP/B", f"P / BW = {rate(P)} / {band(BW)}",
                   {"the ratio upside down: BW over P": BW / P,
                    "T and G mixed up: 1 T is 1000 G": P / BW / 1000,
                    "the sparse peak, twice the dense one": 2 * P / BW,
                    "bytes taken as bits: a factor 8": P / BW / 8}, label=f"Ridge, {chips[kind]}")
    for name, batch in (("decode", 1), ("prefill", B)):
        W, Q = Linear(batch, D, F).flops, Linear(batch, D, F).algorithmic.hbm_bytes
        for kind, (P, BW) in roofs.items():
            best[name, kind] = max(W / P, Q / BW)
            if name == "decode":
                memory.append(Q / BW >= W / P)
            part = _best(W, Q, P, BW, f"{name}_{kind}",
                         f"{name.capitalize()} T_best, {chips[kind]}")
            yield replace(part, slips={label: value for label, value in part.slips.items()
                                       if "core" not in label})
    gpu, tpu = best["decode", "gpu"], best["decode", "tpu"]
    right = "gpu" if gpu < tpu else "tpu" if tpu < gpu else "same"
    yield Choice("faster", right, {"gpu": chip_gpu, "tpu": chip_tpu, "same": "neither"},
                 f"{chip_gpu} takes {time(gpu)}, {chip_tpu} {time(tpu)}.",
                 {key: "Compare the two decode times." for key in ("gpu", "tpu", "same")
                  if key != right}, label="Which is faster in decode?")
    why = "bw" if all(memory) else "peak" if not any(memory) else "mixed"
    yield Choice("why", why,
                 {"peak": "P", "bw": "BW", "ridge": "the ridge: the higher one wins",
                  "mixed": "P on one, BW on the other"},
                 {"bw": "Q / BW is the longer time on both.", "peak": "W / P is the longer time on "
                  "both.", "mixed": "W / P is longer on one, Q / BW on the other."}[why],
                 {key: "Look at which of its two times is T_best on each."
                  for key in ("peak", "bw", "ridge", "mixed") if key != why},
                 label="What decides that?")


MIXTURE = MODELS["mixtral-8x7b"]


@problem(
    "day2.moe",
    ask=TRN2 + "A mixture of {E} experts, each an MLP of three D × F matrices, D = {D}, F = {F}, "
        "bf16, sends every token through {k} of them. B = {B} tokens are spread evenly, and all "
        "experts are used. In one kernel, x and y cross once. How many weight bytes "
        "cross? How many tokens does an expert get (its own B)? Find I and the side of the ridge. "
        "From which B (B_ridge) on is the mixture compute-bound?",
    fixed=dict(ROOFS, B=256, D=MIXTURE.D, F=MIXTURE.F, E=MIXTURE.experts,
               k=MIXTURE.experts_per_token),
    units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((128, 512, 640, 768)), D=r.choice((3072, 4096, 5120, 7168)),
                        F=r.choice((8192, 12288)), E=r.choice((16, 32, 64)), k=r.choice((3, 4, 6))))
@told
def moe(P: float, BW: float, B: int, D: int, F: int, E: int, k: int) -> Iterator[AnyPart]:
    op, p, ridge = MoE(B, D, F, E, k), P_BF16, P / BW
    W, Q, hit, weights = op.flops, op.algorithmic.hbm_bytes, op.most_hit, _weights(op)
    each, used = k * B / hit, "E" if hit == E else "experts"
    yield Part("weights", weights, "B", f"p × {used} × 3 D F = {p} bytes × {hit} × 3 × {D:,} × "
               f"{F:,}",
               {"the experts of one token, not of all tokens": weights * k / hit,
                "one matrix an expert; it has three": weights / 3,
                "elements counted, not bytes": weights / p,
                "an expert's weights fetched for every token": weights * each}, label=W_BYTES)
    yield Part("each", each, "", f"k B / {used} = {k} × {B:,} / {hit}",
               {"one expert a token, not k": B / hit,
                "all tokens in every expert; each gets a share": B,
                "the places of all tokens, not one expert's share": k * B,
                "the ratio upside down": hit / (k * B)}, label="Tokens for each expert")
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"a dense layer: all tokens in every expert": Linear(B, D, F).algorithmic
                .intensity, "one expert a token, not k": W / k / Q,
                "a multiply-add counted as one FLOP": W / 2 / Q,
                "divided by elements, not by bytes": p * W / Q,
                "the weights of k experts only; all of them cross": W / Q * hit / k,
                "the ratio upside down: bytes over FLOPs": Q / W},
               follows=("/", W, ("+", "weights", Q - weights)))
    yield _side(W, Q, P, BW)
    cross = first_above(op, "B", ridge)
    if cross.exact == math.inf:
        yield Choice("B_ridge", "never", {"never": "no batch reaches the ridge",
                                          "some": "a batch that is large enough reaches it"},
                     f"However large B is, I stays below {per_byte(cross.limit)}; the ridge is "
                     f"{per_byte(ridge)}.",
                     {"some": "x and y grow with B as the work does: see what I tends to."},
                     label=AT_RIDGE)
        return
    B_ridge, near = cross.exact, ridge * p * E / (2 * k)
    yield Part("B_ridge", B_ridge, "", f"3 p ridge E F / (6 k F - 2 p ridge) = 3 × {p} × "
               f"{ridge:.7g} × {E} × {F:,} / (6 × {k} × {F:,} - 2 × {p} × {ridge:.7g})\n"
               "From 6 B k D F = ridge × p (2 B D + 3 E D F). Nearly: an expert needs "
               f"p / 2 × ridge tokens and gets k B / E, so B = {near:.4g}.",
               {"the ridge of a dense layer: an expert gets a share of B": near * k / E,
                "one expert a token, not k": B_ridge * k,
                "k and the number of experts swapped": near * (k / E) ** 2,
                "x and y left out": near},
               also=(cross.least,), label=AT_RIDGE)


# --- Do -----------------------------------------------------------------------------------------

@problem(
    "day2.do.redo",
    ask=TRN2 + "Redo the three calculations for a linear layer with D = F = {D} in bf16, without "
        "looking. Decode, one token: W_1, Q_1, I_1, T_1 (T_best). Prefill, {B} tokens: W_B, Q_B, "
        "I_B, T_B. And the batch B_ridge from which on it is compute-bound.",
    fixed=dict(ROOFS, D=4096, B=2048), units=ROOF_UNITS,
    draw=lambda r: dict(D=r.choice((2048, 3072, 5120, 6144, 8192)),
                        B=r.choice((512, 1024, 3072, 8192))))
@told
def redo(P: float, BW: float, D: int, B: int) -> Iterator[AnyPart]:
    for op, end, who in ((Linear(1, D, D), "1", "one token"),
                         (Linear(B, D, D), "B", f"{B:,} tokens")):
        W, Q = f"W_{end}", f"Q_{end}"
        yield _work(op, W, f"W, {who}")
        yield _traffic(op, Q, f"Q, {who}")
        yield _intensity(op, f"I_{end}", (W, Q), f"I, {who}")
        yield _best(op.flops, op.algorithmic.hbm_bytes, P, BW, f"T_{end}", f"T_best, {who}",
                    _longer(W, Q, P, BW))
    r = f"{P / BW:.7g}"
    yield _crossing(Linear(1, D, D), P / BW,
                    f"ridge D / (D - 2 ridge) = {r} × {D:,} / ({D:,} - 2 × {r})", "B_ridge")


OWN = MODELS["qwen2.5-7b"]
# Some of these never reach the ridge, some nearly do not.
NARROW = [dict(D=D, F=F) for D, F in (
    (200, 4096), (192, 8192), (256, 1024), (384, 384), (256, 2048), (320, 1024))]


@problem(
    "day2.do.up_projection",
    ask=TRN2 + "The MLP up-projection of your model goes from D = {D} to F = {F}, bf16. What is "
        "the ridge? Which I does the layer tend to as B grows without end (I_most)? Does any "
        "batch reach the ridge, and from which B (B_ridge) on is it compute-bound? (In "
        'JupyterLab, give your own: ask("day2.do.up_projection", D=..., F=...).)',
    fixed=dict(ROOFS, D=OWN.D, F=OWN.F), units=ROOF_UNITS,
    draw=lambda r: r.choice((r.choice(CARDS), r.choice(NARROW))))
@told
def do_up_projection(P: float, BW: float, D: int, F: int) -> Iterator[AnyPart]:
    op, ridge, p = Linear(1, D, F), P / BW, P_BF16
    most = 2 * D * F / (p * (D + F))
    yield _ridge(P, BW)
    yield Part("I_most", most, "FLOP/B", f"2 D F / (p (D + F)) = 2 × {D:,} × {F:,} / ({p} bytes × "
               f"({D:,} + {F:,}))\nIn W / Q only the terms with B are left.",
               {"a multiply-add counted as one FLOP": most / 2,
                "divided by elements, not by bytes": most * p,
                "y left out, though its write crosses": 2 * F / p,
                "x left out, though its read crosses": 2 * D / p,
                "the ratio upside down: bytes over FLOPs": 1 / most},
               label="I as B grows without end")
    some = op.crossover(ridge) < math.inf
    yield Choice("reaches", "yes" if some else "no",
                 {"yes": "yes, a large enough one", "no": "no, I stays below the ridge"},
                 f"I_most is {per_byte(most)}, the ridge {per_byte(ridge)}.",
                 {"no" if some else "yes": "Compare I_most with the ridge."},
                 label="Does any batch reach the ridge?")
    yield _crossing(op, ridge, _algebra(op, ridge), "B_ridge", _at("ridge", D, F))


@problem(
    "day2.do.kv_cache",
    ask="Count decode attention with a KV cache, for your own model: B = {B} sequences, each with "
        "L = {L} cached tokens; {heads} query heads share {kv_heads} kv heads of d = {d}, bf16. "
        + SCORES + "Find W, Q and I, the share of Q that is the K and V caches, and the tensor "
        "that dominates Q. Why is I so low? (In JupyterLab, give your own: "
        'ask("day2.do.kv_cache", L=..., heads=..., kv_heads=..., d=...).)',
    fixed=dict(B=4, L=32768, heads=OWN.heads, kv_heads=OWN.kv_heads, d=OWN.d),
    draw=lambda r: dict(B=r.choice((2, 3, 8)), L=r.choice((1024, 8192, 65536)), **r.choice([
        dict(heads=m.heads, kv_heads=m.kv_heads, d=m.d) for m in MODELS.values()
        if m.kv_heads < m.heads])))
@told
def do_kv_cache(B: int, L: int, heads: int, kv_heads: int, d: int) -> Iterator[AnyPart]:
    op = DecodeAttention(B, L, d, heads, kv_heads)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    cache = sum(t.read_bytes for t in op.tensors if "cache" in t.name)
    yield from _attention(op)
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {"one query head for each kv head": W / Q * kv_heads / heads,
                "one cache shared by the whole batch": B * W / Q,
                "one product of two left out: q with K, scores with V": W / 2 / Q,
                "divided by elements, not by bytes": P_BF16 * W / Q,
                "the ratio upside down: bytes over FLOPs": Q / W}, follows=("/", "W", "Q"))
    yield Part("share", cache / Q, "", f"caches / Q = {byte(cache)} / {byte(Q)}",
               {"the share of q and o": 1 - cache / Q, "one of K and V left out": cache / Q / 2,
                "per cent without the % sign": 100 * cache / Q,
                "one kv head counted, not all": cache / Q / kv_heads},
               label="Caches' share of Q" + SHARE, follows=("/", cache, "Q"))
    yield _dominates(op)
    yield Choice("why", "few",
                 {"few": "each cached number is read once and serves few query heads",
                  "small": "d is small", "softmax": "softmax is slow",
                  "batch": "the batch is too small"},
                 "A number of the cache gets 2 FLOPs from each query head that shares it, and "
                 "crosses again for the next token.",
                 {"small": "d is in W and in Q alike and cancels.",
                  "softmax": "I counts FLOPs and bytes; how fast softmax runs is not in it.",
                  "batch": "Each further sequence brings a cache of its own."},
                 label="Why is I so low?")


# --- check yourself -----------------------------------------------------------------------------

@problem(
    "day2.check.2048",
    ask="On one physical Trn2 core, ridge {ridge} in bf16, from which batch B on is a linear layer "
        "with D = F = {D} compute-bound? Solve I = B D / (2 B + D) = ridge: numerator, "
        "denominator, B. Is that more or less than for D = F = {other}, and why?",
    fixed=dict(ridge=RIDGE, D=2048, other=4096), units=dict(ridge="FLOP/B"),
    draw=lambda r: dict(D=r.choice((1024, 1536, 3072, 5120, 8192, 12288))))
@told
def check_2048(ridge: float, D: int, other: int) -> Iterator[AnyPart]:
    if other == D:
        raise ValueError("D and other have to differ")
    yield from _solved(D, ridge)
    narrow = other > D
    size = "fewer" if narrow else "more"
    options = {"more_rows": "more: rows of x and y are a bigger share of Q",
               "more_weights": f"more: there are {size} weights to serve",
               "less_rows": "less: rows of x and y are a smaller share of Q",
               "less_weights": f"less: there are {size} weights to fetch",
               "same": "the same: I is near B, whatever D is"}
    right = "more_rows" if narrow else "less_rows"
    weights = "The number of weights cancels: each brings its bytes and its FLOPs."
    reasons = {"more_rows": "A token brings D numbers in and D out, and D² multiply-adds.",
               "less_rows": "A token brings D numbers in and D out, and D² multiply-adds.",
               "more_weights": weights, "less_weights": weights,
               "same": "That is for a small B, where x and y do not count."}
    yield Choice("than_other", right, options,
                 f"A token brings 2 D numbers and D² multiply-adds, D / 2 for each number: "
                 f"{'fewer' if narrow else 'more'} than with D = {other:,}.",
                 {key: text for key, text in reasons.items() if key != right},
                 label=f"More or less than for {other:,}?")


PROBLEMS = collect(globals())
