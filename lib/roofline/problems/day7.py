"""Day 7: your own kernel, from its shapes to the last nanosecond of its gap.

Question  how fast may this kernel run, how fast did it run, and where is the rest?
Answer    PROBLEMS, in the order of the day's two pages; ids begin with day7.
Assumes   one physical Trn2 core unless said. A time that a question gives is supposed, except in
          `stranger`: those figures are published, of one attention capture by others (see there)
Ignores   how a profile is captured and read (device, profile) and its exact ledger (gaps)
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES, MLP, Linear, Matmul
from ..units import mebi, show
from . import day2, day5, day6
from .day3 import ONE_FLOP
from .day5 import ELEMENTS, UPSIDE_DOWN
from .day6 import CORE, CORES, FACTS, ROWS, TILE, VECTOR_FP32, WIDE

flop, byte, time, rate_, band, per_byte, element = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B", "element/s"))
ns = partial(show, unit="s", digits=7)  # times that are subtracted
part_of = partial(show, unit="", digits=4)

ROOF_UNITS, SHARE = day2.ROOF_UNITS, day2.SHARE
P, BW = float(CORE.peak("bf16")), float(CORE.bw())  # a measured one need not be whole
ROOFS = {"P": P, "BW": BW}
SIZES = day5.PAGE_MLP
FUSED = MLP(SIZES["B"], SIZES["D"], SIZES["F"])
APART = FUSED.unfused
W, Q, Q_APART = map(float, (FUSED.flops, FUSED.algorithmic.hbm_bytes,
                            APART.algorithmic.hbm_bytes))
KERNEL = dict(ROOFS, W=W, Q=Q)  # the fused MLP's
# The reader's own figures; unless given, those of Day 5's matmul with a block of C on chip:
# 128 x 1024 of it, so A, 2048 x 1024, comes twice and B, 1024 x 2048, 16 times.
OP, R_A, R_B = Matmul(2048, 1024, 2048), 2, 16
MINE = dict(ROOFS, W=float(OP.flops), Q=float(OP.reloaded(R_A, R_B).hbm_bytes))
B_BYTES, C_BYTES = 2.0 * OP.K * OP.N, 2.0 * OP.M * OP.N
MINE_BEST = max(MINE["W"] / P, MINE["Q"] / BW)
KERNEL_UNITS = dict(ROOF_UNITS, W="FLOP", Q="B")
NO_MATMUL = ("a kernel without matmuls has no W, so no intensity: ask day7.own_elements, which "
             "entitles it by HBM and by the engine that does its work")


def _choice(name: str, right: str, options: Mapping[str, tuple[str, str]], why: str,
            label: str) -> Choice:
    """options: {key: (what it says, why it is not right)}."""
    return Choice(name, right, {key: says for key, (says, _) in options.items()}, why,
                  {key: wrong for key, (_, wrong) in options.items() if key != right}, label)


def _apart(part: Part, *, least: int = 3) -> Part:
    """Without the slips that these inputs do not tell apart, while `least` others stay."""
    clashes = part.clashes()
    if len(part.slips) - len(clashes) < least:
        return part
    return replace(part, slips={label: value for label, value in part.slips.items()
                                if label not in clashes})


def _intensity(W: float, Q: float, name: str = "I", label: str = "",
               slips: Mapping[str, float] | None = None, follows: Any = None,
               symbol: str = "Q") -> Part:
    return Part(name, W / Q, "FLOP/B", f"W / {symbol} = {flop(W)} / {byte(Q)}",
                {UPSIDE_DOWN: Q / W, ONE_FLOP: W / 2 / Q,
                 "divided by elements, not by bytes": 2 * W / Q, **(slips or {})},
                label=label, follows=follows)


def _share(name: str, part: float, whole: float, why: str, label: str,
           slips: Mapping[str, float], follows: Any = None) -> Part:
    """A share, and the ways to give another one in its place."""
    rest = {"the rest of it: one minus the share": 1 - part / whole} if part < whole else {}
    return _apart(Part(name, part / whole, "", why, {UPSIDE_DOWN_: whole / part, **rest, **slips},
                       label=label + SHARE, follows=follows))


UPSIDE_DOWN_ = "the ratio upside down"


# --- openers ------------------------------------------------------------------------------------

open_bound = replace(
    day6.open_bound, id="day7.open.bound",
    fixed=dict(P=45e12, BW=300e9, W=9e9, Q=105e6),
    draw=lambda r: dict(P=45e12, BW=300e9, W=r.choice((2e9, 4e9, 12e9, 24e9, 36e9, 60e9)),
                        Q=r.choice((35e6, 55e6, 140e6, 210e6, 260e6))))


@problem(
    "day7.open.crossover",
    ask="Day 2. A machine has P = {P} and BW = {BW}. A layer multiplies B tokens with weights of "
        "{D} × {D}, all in bf16; each number crosses once. Find the ridge and the batch B at which "
        "the layer reaches it. Which side is a batch of {B} on?",
    fixed=dict(P=96e12, BW=600e9, D=3072, B=256), units=ROOF_UNITS,
    draw=lambda r: dict(BW=r.choice((480e9, 600e9, 800e9)), D=r.choice((1536, 2560, 5120)),
                        B=r.choice((64, 112, 384, 512))))
def open_crossover(P: float, BW: float, D: int, B: int) -> Iterator[AnyPart]:
    ridge, op = P / BW, Linear(B, D, D)
    if not D > 2.02 * ridge:
        raise ValueError(f"D has to be above twice the ridge, {2 * ridge:.6g}, or no batch "
                         "reaches it")
    yield Part("ridge", ridge, "FLOP/B", f"P / BW = {rate_(P)} / {band(BW)}",
               {"the ratio upside down: BW over P": BW / P, ONE_FLOP: ridge / 2,
                "P of two cores over BW of one": 2 * ridge,
                "T and G mixed up: 1 T is 1000 G": ridge / 1000}, label="Ridge")
    yield replace(day2._crossing(op, ridge, day2._algebra(op, ridge), "B_ridge",
                                 day2._at("ridge", D, D)))
    yield day2._side(op.flops, op.algorithmic.hbm_bytes, P, BW)


@problem(
    "day7.open.derate",
    ask="Days 3 and 4. A core has P = {P} with all 128 rows of its array in use, and a spec "
        "bandwidth of {spec}. Its matmuls contract over K = {K} rows. A copy kernel reads {size} "
        "from HBM and writes them back in {T}. Find the rate that K leaves, the measured BW, and "
        "the ridge by these two. Which bandwidth does a point left of the ridge get?",
    fixed=dict(P=70e12, spec=400e9, K=96, size=48e6, T=300e-6),
    units=dict(P="FLOP/s", spec="B/s", size="B", T="s"),
    draw=lambda r: dict(K=r.choice((32, 48, 80, 112)), size=r.choice((24e6, 36e6, 52e6)),
                        T=r.choice((310e-6, 340e-6))))
def open_derate(P: float, spec: float, K: int, size: float, T: float) -> Iterator[AnyPart]:
    if K > ROWS:
        raise ValueError(f"K is at most {ROWS}")
    left, seen = P * K / ROWS, 2 * size / T
    yield _apart(Part("rate", left, "FLOP/s", f"P × K / 128 = {rate_(P)} × {K} / 128",
                      {"all rows taken as filled": P, "rows and columns both cut":
                       P * (K / ROWS)**2, "the rows that idle, not those in use":
                       P * (ROWS - K) / ROWS, ONE_FLOP: left / 2}, label="Rate with K rows"))
    yield _apart(Part("BW", seen, "B/s", f"2 × size / T = 2 × {byte(size)} / {time(T)}",
                      {"one way counted: every byte goes in and out": seen / 2,
                       "the spec's figure, not the copy's": spec,
                       "bytes taken as bits: a factor 8": 8 * seen,
                       "read and written counted twice": 2 * seen}, label="Measured BW"))
    yield _apart(Part("ridge", left / seen, "FLOP/B", f"rate / BW = {rate_(left)} / {band(seen)}",
                      {"P with all rows": P / seen, UPSIDE_DOWN_: seen / left,
                       "the spec bandwidth": left / spec, "both figures of the spec": P / spec},
                      label="Ridge by these two", follows=("/", "rate", "BW")))
    yield _choice("use", "measured", {
        "measured": ("the measured one, said to be measured", ""),
        "spec": ("the spec's: it is the upper bound",
                 "The spec says what the parts allow; the kernel's pattern reaches less."),
        "larger": ("the larger of the two, whichever it is",
                   "Above the spec, check the input; below it, the pattern does not reach it.")},
        "A copy shows what this access pattern reaches. Say which of the two a roof is.",
        "Which bandwidth?")


@problem(
    "day7.open.reuse",
    ask="Day 5. C = A B in bf16; A is {M} × {K}, B is {K} × {N}. A block of C, {rows} × {columns}, "
        "stays on chip while all of K streams past it. How often does each byte of A cross HBM, "
        "and each of B? C is stored once: find Q and I.",
    fixed=dict(M=1024, K=1536, N=4096, rows=256, columns=512),
    draw=lambda r: dict(M=r.choice((1024, 2048, 3072)), K=r.choice((768, 1280)),
                        N=r.choice((2048, 3072)), rows=r.choice((128, 256, 512)),
                        columns=r.choice((512, 1024))))
def open_reuse(M: int, K: int, N: int, rows: int, columns: int) -> Iterator[AnyPart]:
    day5.in_tiles(M=(M, rows), N=(N, columns))
    op, r_A, r_B = Matmul(M, K, N), N // columns, M // rows
    most = "the tiles of the other dimension"
    for name, value, why, other, size in (
            ("r_A", r_A, f"N / columns = {N:,} / {columns:,}", r_B, N),
            ("r_B", r_B, f"M / rows = {M:,} / {rows:,}", r_A, M)):
        yield day5._times(name, value, why, {
            **({most: other} if other != 1 else {}),
            "once: a block of C does not keep its operands": 1,
            "blocks of C counted, all of them": r_A * r_B,
            "single rows or columns counted, not blocks": size,
            "blocks of 128": size // TILE}, f"Times each byte of {name[-1]} crosses")
    moved = op.reloaded(r_A, r_B).hbm_bytes
    yield _apart(day5._reloaded(op, r_A, r_B))
    yield _apart(_intensity(op.flops, moved, slips={
        "each operand loaded once": op.algorithmic.intensity}, follows=("/", op.flops, "Q")))


@problem(
    "day7.open.scope",
    ask="Day 6. Two cores make one logical core; one has P = {P} and BW = {BW}. y = x w in bf16 "
        "with B = {B}, D = {D}, F = {F}: each core takes half of the tokens, and both load all of "
        "w. At the scope of the pair, find P and BW, the bytes Q and T_best.",
    fixed=dict(P=50e12, BW=250e9, B=1536, D=1024, F=3072), units=ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((256, 512, 768, 1024)), D=r.choice((768, 1280, 2048)),
                        F=r.choice((1024, 2048, 5120))))
def open_scope(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    x, w, y = 2 * B * D, 2 * D * F, 2 * B * F
    W, once = 2 * B * D * F, x + w + y
    moved = once + w
    for name, value, text in (("P_pair", P, rate_), ("BW_pair", BW, band)):
        symbol = name[:-5]
        yield Part(name, 2 * value, "FLOP/s" if symbol == "P" else "B/s",
                   f"2 × {symbol} = 2 × {text(value)}",
                   {"one core's figure": value, "the figure of all 8 cores": CORES * value,
                    "doubled twice": 4 * value}, label=f"{symbol} of the pair")
    yield _apart(Part("Q", moved, "B", "p (B D + 2 D F + B F) = 2 bytes × "
                      f"({B:,} × {D:,} + 2 × {D:,} × {F:,} + {B:,} × {F:,})",
                      {"w counted once, though both cores load it": once, ELEMENTS: moved / 2,
                       "x and y loaded by both cores too": 2 * once,
                       "w left out": moved - 2 * w}, label="Bytes of the pair"))
    t_flop, t_byte = W / (2 * P), moved / (2 * BW)
    best = max(t_flop, t_byte)
    yield _apart(Part("T_best", best, "s", f"max(W / P_pair, Q / BW_pair) = max({time(t_flop)}, "
                      f"{time(t_byte)})",
                      {"one core's P and BW": 2 * best, "the roofs of all 8 cores": best / 4,
                       "the shorter of the two times": min(t_flop, t_byte),
                       "both times added": t_flop + t_byte}, label="T_best of the pair",
                      follows=("max", ("/", float(W), "P_pair"), ("/", "Q", "BW_pair"))))


# --- the worked example: the MLP of Day 5, fused and not ------------------------------------------

MLP_ON = day2.TRN2 + day5.MLP_IS


def _times(op: MLP, P: float, BW: float, W_: Any) -> Iterator[AnyPart]:
    """T_best and T_worst of an MLP, by the reader's own Q (and W)."""
    count = day5._least(op)
    W, Q = count.flops, count.hbm_bytes
    yield day2._best(W, Q, P, BW, follows=("max", ("/", W_, P), ("/", "Q", BW)))
    yield day5._worst(W / P, Q / BW, "T_worst", "", (("/", W_, P), ("/", "Q", BW)))


@problem(
    "day7.fused",
    ask=MLP_ON + "One kernel: both weight matrices are loaded once and stay in SBUF, and h and g "
        "never leave the chip. Find W (GELU left out), Q, I, T_best and T_worst.",
    fixed=dict(ROOFS, **SIZES), units=ROOF_UNITS, draw=day5._mlp_sizes)
@day2.told
def fused(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = MLP(B, D, F)
    yield day5._mlp_work(op)
    yield day5._mlp_traffic(op, "Q")
    count = day5._least(op)
    yield _intensity(count.flops, count.hbm_bytes, slips={
        "h and g cross, as in three kernels": day5._least(op.unfused).intensity},
        follows=("/", "W", "Q"))
    yield from _times(op, P, BW, "W")


@problem(
    "day7.unfused",
    ask=MLP_ON + day5.APART + "Its work is the same, W = 4 B D F = 4 × {B} × {D} × {F} FLOP. Q is "
        "yours to count. Then find I, T_best and T_worst. Against one kernel, what is it entitled "
        "to?",
    fixed=dict(ROOFS, **SIZES), units=ROOF_UNITS, draw=day5._mlp_sizes)
@day2.told
def unfused(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = MLP(B, D, F, k=4)
    one, apart = day5._least(op.fused), day5._least(op)
    yield day5._mlp_traffic(op, "Q")
    yield _intensity(apart.flops, apart.hbm_bytes, slips={
        "h and g left out, as in one kernel": one.intensity}, follows=("/", apart.flops, "Q"))
    yield from _times(op, P, BW, apart.flops)
    best = [max(count.flops / P, count.hbm_bytes / BW) for count in (one, apart)]
    yield _choice("entitled", "same" if best[0] == best[1] else "slower", {
        "same": ("to the same time",
                 "Compare its Q / BW with W / P: the bytes take longer here."),
        "slower": ("to a longer time",
                   "Both times are W / P, and fusing changes no W.")},
        f"T_best is {time(best[1])} as three kernels and {time(best[0])} as one.",
        "Entitled to what?")


@problem(
    "day7.needed",
    ask="A kernel on a core with P = {P} stays compute-bound while its bytes arrive in W / P. As "
        "one kernel an MLP has I = {I_fused}, as three I = {I_unfused}. What is the least "
        "bandwidth at which each of them is still compute-bound? Which one needs less?",
    fixed=dict(P=P, I_fused=W / Q, I_unfused=W / Q_APART),
    units=dict(P="FLOP/s", I_fused="FLOP/B", I_unfused="FLOP/B"),
    draw=lambda r: (lambda c: dict(I_fused=c["W"] / c["Q_fused"], I_unfused=c["W"] / c["Q_apart"]))(
        day5._counted(**day5._mlp_sizes(r))))
def needed(P: float, I_fused: float, I_unfused: float) -> Iterator[AnyPart]:
    pair = {"fused": I_fused, "unfused": I_unfused}
    for name, I in pair.items():
        other = pair["unfused" if name == "fused" else "fused"]
        yield _apart(Part(name, P / I, "B/s", f"P / I = {rate_(P)} / {per_byte(I)}".replace(
                              "FLOP/s", "B/s").replace(" FLOP/B", ""),
                          {"the other kernel's intensity": P / other,
                           "bytes taken as bits: a factor 8": 8 * P / I,
                           ONE_FLOP: 2 * P / I, "P of a pair of cores": 2 * P / I,
                           "fp32's peak in place of bf16's": day2.FP32_SHARE * P / I},
                          label=f"Bandwidth needed, {name}"))
    close = math.isclose(I_fused, I_unfused, rel_tol=1e-9)
    right = "same" if close else "fused" if I_fused > I_unfused else "unfused"
    yield _choice("less", right, {
        "fused": ("the fused kernel: more FLOPs for each byte", "Compare the two intensities."),
        "unfused": ("the three kernels: each moves less", "Compare the two intensities: the bytes "
                    "of all three count, over the same FLOPs."),
        "same": ("neither: W and P are the same", "They set W / P. The bytes that have to arrive "
                 "in that time differ.")},
        "P / I is Q over W / P. The higher I is, the less it needs.", "Which one needs less?")


@problem(
    "day7.same_roof",
    ask=day2.TRN2 + "One MLP, W = {W}, moves Q = {Q_fused} as one kernel and {Q_unfused} as three. "
        "What is the best case of the three kernels (T_best)? With no overlap, how long does one "
        "kernel take, and how long do three? How much time has fusing then saved? What does fusing "
        "change while both are right of the ridge?",
    fixed=dict(ROOFS, W=W, Q_fused=Q, Q_unfused=Q_APART),
    units=dict(ROOF_UNITS, W="FLOP", Q_fused="B", Q_unfused="B"),
    draw=lambda r: (lambda c: dict(W=c["W"], Q_fused=c["Q_fused"], Q_unfused=c["Q_apart"]))(
        day5._counted(**dict(day5._mlp_sizes(r), D=1536, F=r.choice((3072, 6144))))))
@day2.told
def same_roof(P: float, BW: float, W: float, Q_fused: float, Q_unfused: float,
              ) -> Iterator[AnyPart]:
    t_flop, few, many = W / P, Q_fused / BW, Q_unfused / BW
    if Q_fused >= Q_unfused:
        raise ValueError("Q_fused has to be below Q_unfused")
    part = day2._best(W, Q_unfused, P, BW, label="T_best, three kernels")
    yield replace(part, why=part.why.replace("Q /", "Q_unfused /"))
    for name, who, t_byte in (("fused", "one kernel", few), ("unfused", "three kernels", many)):
        part = day5._worst(t_flop, t_byte, f"worst_{name}", f"No overlap, {who}", (0, 0))
        yield replace(part, why=part.why.replace("Q /", f"Q_{name} /"), follows=None)
    saved = (Q_unfused - Q_fused) / BW
    yield Part("saved", saved, "s", f"(Q_unfused - Q_fused) / BW = ({byte(Q_unfused)} - "
               f"{byte(Q_fused)}) / {band(BW)}\nW / P is in both sums, so it is not in the "
               "difference.",
               {"one of the two round trips": saved / 2, "the bytes of the three kernels": many,
                "the bytes of the one kernel": few, "W / P subtracted too": abs(saved - t_flop)},
               label="Saved with no overlap")
    same = many <= t_flop
    yield _choice("changes", "overlap" if same else "entitlement", {
        "overlap": ("how much has to overlap, and how much bandwidth that takes",
                    "Compare the bytes' time of the three kernels with W / P."),
        "entitlement": ("the best case", "Both best cases are W / P: compare them."),
        "work": ("the work", "Each multiply-add is still done: W comes from the shapes.")},
        "One W and one P: one best case, W / P. Fewer bytes are easier to hide behind it." if same
        else "As three kernels its bytes take longer than W / P: fusing lowers T_best too.",
        "What does fusing change?")


@problem(
    "day7.mfu",
    ask="A compute-bound kernel with W = {W} has T_best = {T_best} on a core with P = {P}. Suppose "
        "that its profile says {T}. Find the gap in seconds, and its MFU: W over T, over P. Its "
        "entitlement is high and it is far below: where is the waste? Another kernel runs at its "
        "entitlement, which is low: what do you mend? Where do you find what caused a gap?",
    fixed=dict(P=P, W=W, T_best=W / P, T=620e-6),
    units=dict(P="FLOP/s", W="FLOP", T_best="s", T="s"),
    draw=lambda r: (lambda W: dict(W=W, T_best=W / P, T=r.choice((1.2, 1.4, 1.7, 2.6)) * W / P))(
        r.choice((6e9, 11e9, 17e9, 42e9, 66e9))))
def mfu(P: float, W: float, T_best: float, T: float) -> Iterator[AnyPart]:
    yield Part("gap", T - T_best, "s", f"T - T_best = {ns(T)} - {ns(T_best)}",
               {"the time itself, not what is above T_best": T, "T_best, not what is above it":
                T_best, "the two times added": T + T_best,
                "taken the wrong way round": T_best - T}, label="Gap")
    yield Part("mfu", W / T / P, "", f"W / T / P = {flop(W)} / {time(T)} / {rate_(P)}",
               {UPSIDE_DOWN_: T * P / W, "the gap's share of T, not the work's": 1 - W / T / P,
                ONE_FLOP: W / T / P / 2, "the gap over T_best": T / T_best - 1}
               if T > T_best else {UPSIDE_DOWN_: T * P / W, ONE_FLOP: W / T / P / 2,
                                   "P of all 8 cores": W / T / P / CORES},
               label="MFU" + SHARE)
    mend = {"execution": "in execution: find it on the timeline",
            "traffic": "in the mapping: it moves too many bytes, so mend Q"}
    yield _choice("high", "execution", {
        "execution": (mend["execution"], ""),
        "traffic": (mend["traffic"], "Fewer bytes would not raise an entitlement of W / P.")},
        "The mapping allows far more than the kernel reaches.", "High entitlement, far below it?")
    yield _choice("low", "traffic", {
        "traffic": (mend["traffic"], ""),
        "execution": (mend["execution"], "It runs at its entitlement: there is no gap to find.")},
        "Only fewer bytes raise min(P, I × BW) left of the ridge.", "Low entitlement, reached?")
    yield _choice("cause", "timeline", {
        "timeline": ("on the profile's timeline", ""),
        "guess": ("from the op: attention waits for softmax, for one",
                  "That is a guess to look for. The timeline tells whether it happened."),
        "summary": ("in the summary's percentages", "They have no order: two engines at 50% may "
                    "have worked together or in turns.")},
        "A cause is a stretch of time that can be pointed at.", "Where is the cause?")


# --- your own kernel: the nine steps --------------------------------------------------------------

def _yours(id: str, inputs: str) -> str:
    return f'(In JupyterLab, give your own: ask("day7.{id}", {inputs}).)'


DTYPES = ("bf16", "fp16", "fp32")


@problem(
    "day7.own_pick",
    ask="Step 1, pick a kernel. A matmul of {M} × {K} by {K} × {N} in {dtype}. Find W, the fewest "
        "bytes Q that it can move, and I at that Q. Which description of a kernel can be counted? "
        + _yours("own_pick", "M=..., K=..., N=..., dtype=..."),
    fixed=dict(M=3072, K=768, N=1792, dtype="bf16"), one_of=dict(dtype=DTYPES),
    draw=lambda r: dict(M=r.choice((384, 512, 1536)), K=r.choice((640, 768, 1280)),
                        N=r.choice((896, 2560, 3584)), dtype=r.choice(DTYPES)))
def own_pick(M: int, K: int, N: int, dtype: str) -> Iterator[AnyPart]:
    op, p = Matmul(M, K, N, dtype=dtype), BYTES[dtype]
    Q = op.algorithmic.hbm_bytes
    yield _apart(day5._matmul_work(op))
    yield _apart(Part("Q", Q, "B", f"p (M K + K N + M N) = {p} bytes × ({M:,} × {K:,} + {K:,} × "
                      f"{N:,} + {M:,} × {N:,})",
                      {"the bytes of another dtype": Q * (2 if p == 2 else 0.5),
                       "bits of a number taken for bytes": 8 * Q, ELEMENTS + ", or one byte each":
                       Q / p, day5.NO_C: Q - p * M * N}, label="Fewest bytes"))
    yield _apart(_intensity(op.flops, Q, follows=("/", "W", "Q"),
                            slips={"the bytes of another dtype": op.flops / Q / (
                                2 if p == 2 else 0.5)}))
    yield _choice("written", "numbers", {
        "numbers": ("the shape of every operand and its dtype, as numbers", ""),
        "name": ("its name and the model it is from",
                 "A name has no shape: batch and sequence length change every count."),
        "range": ("shapes from 1 to 4,096: it works for all of them",
                  "It works for all of them and has another W and Q for each.")},
        "W and Q are functions of shapes and dtype, and of nothing vaguer.",
        "Which can be counted?")


CHIPS = ("trn1", "trn2", "trn3")
COUNT = OP.flops // (2 * ROWS * TILE * WIDE)


@problem(
    "day7.own_work", none=dict(W=NO_MATMUL, count=NO_MATMUL),
    ask="Step 2, W. By the shapes a kernel does W = {W} in {dtype}. Its code, or its profile, has "
        "{count} matmul instructions, each with K = {K} rows and M = {M} columns of the stationary "
        "tile and N = {N} of the moving one. Instructions to one product: {passes}. How many FLOPs "
        "is one instruction? How many do all of them add up to, with a product counted once? What "
        "is that over W? At the {dtype} peak of a {chip} core, how long is W / P? Do the counts "
        "agree? " + _yours("own_work", "W=..., count=..., K=..., M=..., N=..., passes=..., "
                           "chip=..., dtype=..."),
    fixed=dict(W=MINE["W"], count=COUNT, K=ROWS, M=TILE, N=WIDE, passes=1, chip="trn2",
               dtype="bf16"),
    units=dict(W="FLOP"), one_of=dict(chip=CHIPS, dtype=DTYPES),
    draw=lambda r: (lambda count, K, N, more: dict(
        W=2.0 * 128 * count * K * N, count=round(count * more), K=K, N=N))(
        r.choice((320, 640, 1280)), r.choice((64, 128)), r.choice((256, 512)),
        r.choice((1, 1, 1.25, 1.5, 0.75))))
def own_work(W: float, count: int, K: int, M: int, N: int, passes: int, chip: str, dtype: str,
             ) -> Iterator[AnyPart]:
    if M > TILE or N > WIDE or K > ROWS:
        raise ValueError(f"one instruction takes K up to {ROWS}, M up to {TILE}, N up to {WIDE}")
    each, P = 2 * K * M * N, machine.get(chip, "core").peak(dtype)
    counted = count * each / passes
    yield _apart(Part("each", each, "FLOP", f"2 × K × M × N = 2 × {K} × {M} × {N}",
                      {ONE_FLOP: each / 2, "the moving tile left out": 2 * K * M,
                       "one row of the array, not all": 2 * M * N,
                       "the 2 of a multiply-add counted twice": 2 * each},
                      label="FLOPs of one instruction"))
    yield _apart(Part("counted", counted, "FLOP", f"count × each / passes = {count:,} × {each:,} / "
                      f"{passes}",
                      {ONE_FLOP: counted / 2, "one instruction alone": each,
                       "K left out": counted / K,
                       "the 2 of a multiply-add counted twice": 2 * counted},
                      label="FLOPs of all instructions",
                      follows=("*", "each", count / passes)))
    yield _apart(Part("ratio", counted / W, "", f"counted / W = {flop(counted)} / {flop(W)}",
                      {"FLOPs counted twice": 2 * counted / W, ONE_FLOP: counted / W / 2,
                       "one instruction alone": each / W, UPSIDE_DOWN_: W / counted},
                      label="Counted, over W", follows=("/", "counted", W)))
    yield _apart(Part("T_flop", W / P, "s", f"W / P = {flop(W)} / {rate_(P)}",
                      {ONE_FLOP: W / P / 2, "the P of a pair of cores":
                       W / P / 2, "the P of all 8 cores": W / P / CORES,
                       "another dtype's peak: fp32 takes a quarter of bf16's rate":
                       W / P * (0.25 if dtype == "fp32" else 4)}, label="W / P"))
    same = abs(counted / W - 1) <= 0.01
    yield _choice("verdict", "same" if same else "more" if counted > W else "fewer", {
        "same": ("yes", "Compare the ratio with 1: it is further off than a rounding."),
        "more": ("no, there are more: look for transposes, passes or work done twice",
                 "The instructions add up to no more than W."),
        "fewer": ("no, there are fewer: a loop is missing in one of the counts",
                  "The instructions add up to no less than W.")},
        f"The ratio is {part_of(counted / W)}.", "Do the counts agree?")

# The fused MLP with F doubled: x in tiles, W_up, W_down, and y.
F_TWICE = 2 * SIZES["F"]
LOADS = dict(load_1=2.0 * ROWS * TILE, times_1=SIZES["B"] // TILE * SIZES["D"] // ROWS,
             load_2=2.0 * ROWS * F_TWICE, times_2=SIZES["D"] // ROWS,
             load_3=2.0 * ROWS * SIZES["D"], times_3=F_TWICE // ROWS,
             store=2.0 * TILE * SIZES["D"], times_store=SIZES["B"] // TILE)
# Both weight matrices, and of one block of tokens x, g and y.
RESIDENT = 2.0 * (2 * SIZES["D"] * F_TWICE + TILE * (2 * SIZES["D"] + F_TWICE))


@problem(
    "day7.own_traffic",
    ask="Step 3, Q as a table of transfers, size × times. Loads: {load_1} × {times_1}, {load_2} × "
        "{times_2} and {load_3} × {times_3}. Stores: {store} × {times_store}. On chip at once have "
        "to be {resident}, of {sbuf} of SBUF. How many bytes are read, how many written, and what "
        "is Q? What share of SBUF is that, and does it fit? (In JupyterLab, give your own table: "
        'ask("day7.own_traffic", load_1=..., times_1=..., and so on). A table of fewer loads: '
        "split one of them over two rows. Of more: join some, size = their bytes, times = 1.)",
    fixed=dict(LOADS, resident=RESIDENT, sbuf=float(FACTS["sbuf_bytes"])),
    units=dict.fromkeys(("load_1", "load_2", "load_3", "store", "resident", "sbuf"), "B"),
    draw=lambda r: dict(load_1=r.choice((8, 16, 64)) * 1024.0, times_1=r.choice((96, 160, 320)),
                        load_2=r.choice((256, 512)) * 1024.0, times_2=r.choice((12, 20, 24)),
                        load_3=r.choice((128, 384)) * 1024.0, times_3=r.choice((10, 30, 50)),
                        store=r.choice((64, 128)) * 1024.0, times_store=r.choice((32, 48, 72)),
                        resident=r.choice((9, 14, 21, 31, 37)) * 2.0**20))
def own_traffic(load_1: float, times_1: int, load_2: float, times_2: int, load_3: float,
                times_3: int, store: float, times_store: int, resident: float, sbuf: float,
                ) -> Iterator[AnyPart]:
    rows = ((load_1, times_1), (load_2, times_2), (load_3, times_3))
    read, written = sum(size * times for size, times in rows), store * times_store
    last = load_3 * times_3
    yield _apart(Part("read", read, "B", "size × times, summed = " + " + ".join(
                          f"{byte(size)} × {times:,}" for size, times in rows),
                      {"each load counted once": load_1 + load_2 + load_3,
                       "the stores counted too": read + written,
                       "the first row left out": read - load_1 * times_1,
                       "the last row left out": read - last,
                       "each byte taken for an element of two": 2 * read}, label="Bytes read"))
    yield _apart(Part("written", written, "B", f"size × times = {byte(store)} × {times_store:,}",
                      {"one store, not all": store, "written and read back": 2 * written,
                       "elements counted, not bytes": written / 2,
                       "the loads, not the stores": read}, label="Bytes written"))
    yield _apart(Part("Q", read + written, "B", f"read + written = {byte(read)} + {byte(written)}",
                      {"the stores left out: they cross HBM as well": read,
                       "the loads left out": written,
                       "each transfer counted once": load_1 + load_2 + load_3 + store,
                       "the stores counted twice": read + 2 * written},
                      follows=("+", "read", "written")))
    yield _share("share", resident, sbuf, f"resident / sbuf = {byte(resident)} / {byte(sbuf)}",
                 "Resident over SBUF",
                 {"one of 128 partitions": 128 * resident / sbuf, "all bytes read, over SBUF":
                  read / sbuf, "SBUF of a pair of cores: each has its own": resident / sbuf / 2})
    yield _choice("fits", "yes" if resident <= sbuf else "no", {
        "yes": ("yes", "More is to be resident than SBUF holds."),
        "no": ("no: something has to be loaded again, and Q is larger",
               "SBUF holds all that has to stay.")},
        f"{mebi(resident)} of {mebi(sbuf)}. What does not fit is loaded again, and its row in the "
        "table gets more times.", "Does it fit?")


def _entitled(W: float, Q: float, P: float, BW: float) -> Iterator[AnyPart]:
    best, worst, top = max(W / P, Q / BW), W / P + Q / BW, max(P, W / Q * BW)
    yield _intensity(W, Q, slips={"the machine's P / BW is given, not the kernel's W / Q": P / BW})
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate_(P)} / {band(BW)}",
               {"the ratio upside down: BW over P": BW / P, "P of two cores over BW of one":
                2 * P / BW, "T and G mixed up: 1 T is 1000 G": P / BW / 1000,
                "P of one core over BW of the device": P / BW / CORES,
                "W / Q is the kernel's number; the ridge is the machine's": W / Q}, label="Ridge")
    yield day2._side(W, Q, P, BW)
    yield Part("rate", min(P, W / Q * BW), "FLOP/s", f"min(P, I × BW) = min({rate_(P)}, "
               f"{per_byte(W / Q)} × {band(BW)})".replace(" FLOP/B", "").replace("B/s", "FLOP/s"),
               {"the higher of the two roofs": top, "T_worst taken for T_best": W / worst,
                "bytes a second, Q over the time": Q / best, ONE_FLOP: W / best / 2},
               label="Entitlement as a rate")
    yield day2._best(W, Q, P, BW)
    yield replace(day5._worst(W / P, Q / BW, "T_worst", "", (0, 0)), follows=None)


@problem(
    "day7.own_entitlement", none=dict(W=NO_MATMUL),
    ask="Step 4, the entitlement. A kernel does W = {W} and moves Q = {Q} on a core with P = {P} "
        "and BW = {BW}. Find I, the ridge, the side, the entitled rate, T_best and T_worst. "
        + _yours("own_entitlement", "W=..., Q=..., P=..., BW=..."),
    fixed=MINE, units=KERNEL_UNITS,
    draw=lambda r: dict(W=r.choice((2e9, 7e9, 13e9, 29e9)), Q=r.choice((14e6, 22e6, 64e6, 92e6))))
@day2.told
def own_entitlement(P: float, BW: float, W: float, Q: float) -> Iterator[AnyPart]:
    yield from _entitled(W, Q, P, BW)


@problem(
    "day7.own_elements",
    ask="Step 4 for a kernel without matmuls: a copy, a softmax, a depthwise convolution. Its "
        "engine takes {n} elements in a pass, passes: {passes}, at {rate}; the kernel moves Q = "
        "{Q} at BW = {BW}. How long do the bytes take, and how long the engine? Which roof binds? "
        "Find T_best and T_worst. " + _yours(
            "own_elements", "n=..., passes=..., Q=..., rate=..., BW=..."),
    fixed=dict(n=7 * 2**20, passes=1, Q=28.0 * 2**20,
               rate=float(FACTS["scalar_width"] * FACTS["scalar_clock"]), BW=BW),
    units=dict(Q="B", rate="element/s", BW="B/s"),
    draw=lambda r: dict(n=r.choice((2, 3, 6, 12)) * 2**20, passes=r.choice((1, 3, 4, 9)),
                        Q=r.choice((9e6, 15e6, 33e6))))
@day2.told
def own_elements(n: int, passes: int, Q: float, rate: float, BW: float) -> Iterator[AnyPart]:
    t_byte, t_engine = Q / BW, n * passes / rate
    yield Part("T_byte", t_byte, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
               {"bytes taken as bits: a factor 8": 8 * t_byte, ELEMENTS: t_byte / 2,
                f"BW of all {CORES} cores, not one core's share": t_byte / CORES,
                "read and written counted twice": 2 * t_byte}, label="Time of the bytes")
    slips = {f"one element a cycle, not one in each of {TILE} lanes": TILE * t_engine,
             "two operations an element, as in a multiply-add": 2 * t_engine,
             f"{CORES} cores' engines": t_engine / CORES, "twice the engine's rate": t_engine / 2}
    if passes > 1:
        slips["one pass, not all"] = n / rate
    yield _apart(Part("T_engine", t_engine, "s", f"n × passes / rate = {n:,} × {passes} / "
                      f"{rate:,.0f}", slips, label="Time of the engine"))
    best = max(t_byte, t_engine)
    yield _choice("binds", "memory" if t_byte >= t_engine else "engine", {
        "memory": ("HBM", "The engine takes longer than the bytes."),
        "engine": ("the engine that does the work", "The bytes take longer than the engine.")},
        f"The bytes take {time(t_byte)}, the engine {time(t_engine)}.", "Which roof binds?")
    yield _apart(Part("T_best", best, "s", f"max(Q / BW, n × passes / rate) = max({time(t_byte)}, "
                      f"{time(t_engine)})",
                      {"the shorter of the two times": min(t_byte, t_engine),
                       "the roofs of all 8 cores": best / CORES,
                       "the two times added": t_byte + t_engine},
                      follows=("max", "T_byte", "T_engine")))
    yield replace(day5._worst(t_engine, t_byte, "T_worst", "", ("T_byte", "T_engine")),
                  why=f"Q / BW + n × passes / rate = {time(t_byte)} + {time(t_engine)}")


@problem(
    "day7.own_clock",
    ask="Step 5, measure. Suppose that one kernel's first execution takes {first} on the device, "
        "its second {second}, and that of another one the profiler says {total} in all, {inside} "
        "without set-up and tear-down. How many times as long as the second is the first? How much "
        "of the total lies outside the execution? Which execution is T_measured of? By which "
        "clock? "
        + _yours("own_clock", "first=..., second=..., total=..., inside=..."),
    fixed=dict(first=5.7e-3, second=2.4e-3, total=27e-6, inside=12e-6),
    units=dict.fromkeys(("first", "second", "total", "inside"), "s"),
    draw=lambda r: dict(first=r.choice((1.9e-3, 4.4e-3)), second=r.choice((0.8e-3, 1.3e-3)),
                        total=r.choice((31e-6, 44e-6, 71e-6)), inside=r.choice((9e-6, 18e-6))))
def own_clock(first: float, second: float, total: float, inside: float) -> Iterator[AnyPart]:
    if inside > total:
        raise ValueError("inside is a part of total, so it is at most total")
    cold = first / second
    yield _apart(Part("cold", cold, "", f"first / second = {time(first)} / {time(second)}",
                      {UPSIDE_DOWN_: second / first, "how much longer, not how many times as "
                       "long": cold - 1, "the mean of both over the second": (1 + cold) / 2},
                      label="First over second"))
    yield _apart(Part("outside", total - inside, "s", f"total - inside = {ns(total)} - "
                      f"{ns(inside)}",
                      {"the part inside": inside, "the total": total,
                       "the two added": total + inside,
                       "taken the wrong way round": inside - total},
                      label="Outside the execution"))
    yield _choice("run", "second", {
        "second": ("the second or a later one", ""),
        "first": ("the first: it is the one a user sees",
                  "It includes what is done once, such as loading the program."),
        "mean": ("the mean of all, the first included",
                 "One cold execution among them moves the mean. Skip it.")},
        "The first execution is cold. Skip it, and say which one was captured.",
        "Which execution?")
    yield _choice("clock", "device", {
        "device": ("the device timeline's, and the page says which of its times", ""),
        "host": ("the host's, around the call",
                 "That includes the launch and the wait of the host, which no roof is about."),
        "benchmark": ("any: they agree to a few percent",
                      "Of a small kernel they can differ by a factor of two.")},
        "Total, execution and benchmark times of a small kernel differ widely: name the one you "
        "quote.", "Which clock?")


IDENTITY = 2.0 * TILE * TILE  # bytes of a bf16 identity matrix for transposes
# FLOPs counted for turning A at each of its loads and B once, tile by tile
TURN = 2.0 * OP.K * (R_A * OP.M + OP.N) * TILE


@problem(
    "day7.own_counters", none=dict(W=NO_MATMUL, raw=NO_MATMUL, transpose=""),
    ask="Step 6, compare. By hand: W = {W}, Q = {Q}. Suppose that the profiler's summary says Raw "
        "Flops {raw}, of them Transpose Flops {transpose}; HBM bytes read {read}, written "
        "{written}. Find the FLOPs without transposes, their ratio to W, and the Mm Arithmetic "
        "Intensity that the profiler shows. By how many bytes do its HBM bytes exceed Q? What does "
        "that intensity leave out? " + _yours(
            "own_counters", "W=..., Q=..., raw=..., transpose=..., read=..., written=..."),
    fixed=dict(W=MINE["W"], Q=MINE["Q"], raw=MINE["W"] + TURN, transpose=TURN,
               read=MINE["Q"] - C_BYTES + IDENTITY, written=C_BYTES),
    units=dict(W="FLOP", Q="B", raw="FLOP", transpose="FLOP", read="B", written="B"),
    draw=lambda r: (lambda W, Q, turn, more, passes: dict(
        W=W, Q=Q, raw=W * passes + turn, transpose=turn, read=0.75 * Q + more,
        written=0.25 * Q))(
        r.choice((4e9, 6e9, 9e9)), r.choice((20e6, 32e6)), r.choice((0.9e9, 1.4e9, 2.2e9)),
        r.choice((5e6, 7e6, 11e6)), r.choice((1, 1, 1.5, 2))))
def own_counters(W: float, Q: float, raw: float, transpose: float, read: float, written: float,
                 ) -> Iterator[AnyPart]:
    useful, moved = raw - transpose, read + written
    if useful <= 0:
        raise ValueError("transpose is a part of raw, so it is below raw")
    wide = partial(show, unit="FLOP", digits=6)
    yield _apart(Part("useful", useful, "FLOP", f"raw - transpose = {wide(raw)} - "
                      f"{wide(transpose)}",
                      {"the transposes left in": raw, "the transposes alone": transpose,
                       ONE_FLOP: useful / 2, "the transposes added, not taken away":
                       raw + transpose, "FLOPs counted twice": 2 * useful},
                      label="Without transposes"))
    yield _apart(Part("ratio", useful / W, "", f"useful / W = {flop(useful)} / {flop(W)}"
                      "\nA ratio of 2 is fp32 in two passes, 1.5 a half of the work so.",
                      {"the transposes left in": raw / W, UPSIDE_DOWN_: W / useful,
                       ONE_FLOP: useful / W / 2, "the transposes alone": transpose / W,
                       "FLOPs counted twice": 2 * useful / W},
                      label="Counted, over W", follows=("/", "useful", W)))
    yield _apart(Part("AI", useful / moved, "FLOP/B", f"useful / (read + written) = {flop(useful)} "
                      f"/ ({byte(read)} + {byte(written)})",
                      {"the transposes left in": raw / moved, "what is written left out":
                       useful / read, UPSIDE_DOWN: moved / useful, ONE_FLOP: useful / moved / 2,
                       "what is read left out": useful / written},
                      label="Mm Arithmetic Intensity",
                      follows=("/", "useful", moved)))
    digits = partial(show, unit="B", digits=9)
    yield _apart(Part("more", moved - Q, "B", f"read + written - Q = {digits(read)} + "
                      f"{digits(written)} - {digits(Q)}",
                      {"all of its bytes": moved, "Q itself": Q,
                       "what is written left out": read - Q,
                       "what is read left out": written - Q,
                       "elements counted, not bytes": (moved - Q) / 2},
                      label="HBM bytes above Q"))
    yield _choice("leaves", "transposes", {
        "transposes": ("the transposes", ""),
        "all": ("nothing: it is Raw Flops over bytes",
                "Divide Raw Flops by the bytes and compare."),
        "stores": ("the bytes that are written", "Both directions are in its bytes.")},
        "A transpose on the Tensor Engine is a matmul by an identity: the engine counts it, the "
        "intensity does not.", "What is left out?")


@problem(
    "day7.own_point", none=dict(W=NO_MATMUL),
    ask="Step 7, the picture. By hand W = {W} and Q = {Q}; P = {P}, BW = {BW}. Suppose that the "
        "profile says T = {T} and {seen} over HBM. Find I, the measured rate W / T, the share of "
        "the entitlement that it is, and W / T / P. The profiler's own bytes give another "
        "intensity (I_seen): what is it, and what is the T_best of that one? At which intensity "
        "does the measured point go, to lie straight below the entitled one? " + _yours(
            "own_point", "W=..., Q=..., P=..., BW=..., T=..., seen=..."),
    fixed=dict(MINE, T=1.25 * MINE_BEST, seen=MINE["Q"] + 2 * C_BYTES),
    units=dict(KERNEL_UNITS, T="s", seen="B"),
    draw=lambda r: (lambda W, Q: dict(W=W, Q=Q, T=r.choice((1.3, 1.7, 2.4)) * max(
        W / P, Q / BW), seen=Q * r.choice((1.2, 1.45, 1.7))))(
        r.choice((2e9, 9e9, 21e9)), r.choice((18e6, 27e6, 55e6))))
@day2.told
def own_point(P: float, BW: float, W: float, Q: float, T: float, seen: float,
              ) -> Iterator[AnyPart]:
    best, best_seen = max(W / P, Q / BW), max(W / P, seen / BW)
    yield _intensity(W, Q, slips={"the profiler's bytes": W / seen})
    yield Part("rate", W / T, "FLOP/s", f"W / T = {flop(W)} / {time(T)}",
               {"the entitled rate, W over T_best": W / best, ONE_FLOP: W / T / 2,
                "bytes a second, Q over T": Q / T, "two cores' work in one's time": 2 * W / T},
               label="Measured rate")
    yield _share("share", best, T, f"T_best / T = {time(best)} / {time(T)}",
                 "Share of the entitlement",
                 {"the share of P, as if compute bound": W / T / P,
                  "W / P added to Q / BW, as without overlap": (W / P + Q / BW) / T,
                  "the shorter of the two times over T":
                  min(W / P, Q / BW) / T})
    yield _share("mfu", W / P, T, f"W / T / P = {flop(W)} / {time(T)} / {rate_(P)}", "W / T / P",
                 {"the bytes' time over T": Q / BW / T, ONE_FLOP: W / T / P / 2,
                  "P of all 8 cores": W / T / P / CORES}, follows=("/", "rate", P))
    yield _intensity(W, seen, "I_seen", "I by the profiler's bytes",
                     {"the hand count's bytes": W / Q}, symbol="seen")
    yield _apart(Part("best_seen", best_seen, "s", f"max(W / P, seen / BW) = max({time(W / P)}, "
                      f"{time(seen / BW)})",
                      {"the shorter of the two times": min(W / P, seen / BW),
                       "the two times added": W / P + seen / BW, "the measured time": T,
                       "P and BW of all 8 cores": best_seen / CORES},
                      label="T_best at I_seen"))
    yield _choice("plot", "hand", {
        "hand": ("at the hand count's, and a hollow one at I_seen where the bytes differ", ""),
        "profiler": ("at the profiler's, for both points",
                     "Then the picture no longer shows what you predicted."),
        "both": ("the entitled one at the hand count's, the measured one at the profiler's",
                 "Then they have two roofs, and the distance between them is no gap.")},
        "A gap is read straight down, at one I. Where other bytes moved than Q, a hollow mark "
        "stands at W over them, with an entitlement of its own.", "Where does the point go?")


@problem(
    "day7.own_sum",
    signed=("fixed", "idle", "overlap", "slow"),  # below 0: time won against the roof
    ask="Step 8, the gap. T = {T}, T_best = {T_best}. Suppose that you found on the timeline: "
        "before the first matmul and after the last {fixed}, Tensor Engine idle {idle}, DMA in "
        "turns with it {overlap}, busy but slow {slow}. How large is the gap? How much of it has "
        "no place yet (below 0: counted twice), and which share? What comes next? " + _yours(
            "own_sum", "T=..., T_best=..., fixed=..., idle=..., overlap=..., slow=..."),
    fixed=dict(T=1.4 * W / P, T_best=W / P, fixed=15e-6, idle=45e-6, overlap=Q / BW,
               slow=25e-6),
    units=dict.fromkeys(("T", "T_best", "fixed", "idle", "overlap", "slow"), "s"),
    draw=lambda r: (lambda best, found: dict(
        T=best + sum(found) * r.choice((1.0, 1.25, 1.4)), T_best=best,
        **dict(zip(("fixed", "idle", "overlap", "slow"), found, strict=True))))(
        r.choice((90e-6, 240e-6)), [r.choice((14e-6, 22e-6)), r.choice((31e-6, 47e-6)),
                                   r.choice((12e-6, 36e-6)), r.choice((9e-6, 19e-6))]))
def own_sum(T: float, T_best: float, fixed: float, idle: float, overlap: float, slow: float,
            ) -> Iterator[AnyPart]:
    found, gap = fixed + idle + overlap + slow, T - T_best
    missing = gap - found
    if gap <= 0:
        raise ValueError("T is not above T_best, so there is no gap. Check the clock, the scope, "
                         "the dtype and which execution was captured")
    if abs(missing) < 1e-6 * gap:
        missing = 0.0
    yield _apart(Part("gap", gap, "s", f"T - T_best = {ns(T)} - {ns(T_best)}",
                      {"the measured time": T, "T_best": T_best, "the parts found, not the gap":
                       found, "the two times added": T + T_best, "taken the wrong way round": -gap},
                      label="Gap"))
    yield _apart(Part("missing", missing, "s", "gap - (fixed + idle + overlap + slow) = "
                      f"{ns(gap)} - ({ns(fixed)} + {ns(idle)} + {ns(overlap)} + {ns(slow)})"
                      if missing else "gap - (fixed + idle + overlap + slow) = 0",
                      {"the parts found": found, "the gap": gap,
                       "T_best taken away twice": missing - T_best,
                       "the parts taken from T, not from the gap": T - found},
                      label="Without a place"))
    yield _apart(Part("share", missing / gap, "", f"missing / gap = {ns(missing)} / {ns(gap)}"
                      if missing else "missing / gap = 0",
                      {"the share found": found / gap, "over T, not over the gap": missing / T
                       if missing else 0.5, "over T_best": missing / T_best if missing else 0.25,
                       UPSIDE_DOWN_: gap / missing if missing else gap / T},
                      label="Share of the gap" + SHARE))
    off = missing / gap
    yield _choice("next", "whole" if abs(off) <= 0.01 else "find" if off > 0 else "twice", {
        "find": ("look for it on the timeline",
                 "Nothing of the gap is without a place: see the part before."),
        "twice": ("look for a stretch that two causes claim",
                  "The parts are less than the gap, or as much."),
        "whole": ("nothing: the parts are the whole gap", "The parts and the gap differ."),
        "overhead": ("call the rest overhead", "That is a name for not knowing. Each part of the "
                     "gap is a stretch of the timeline.")},
        "Done is when every part points at a stretch and the parts add up.", "What comes next?")



@problem(
    "day7.own_change", none=dict(W=NO_MATMUL),
    ask="Step 9, change one thing. W = {W}, Q = {Q}, P = {P}, BW = {BW}. A tensor of {size} "
        "crosses HBM {before} × now, and {after} × after a change of tiling. Predict the new Q, I, "
        "T_best and T_worst. Suppose that a profile then shows {seen} over HBM. How many bytes "
        "more than predicted is that? Did the prediction of Q hold, within 1%? " + _yours(
            "own_change", "W=..., Q=..., P=..., BW=..., size=..., before=..., after=..., "
            "seen=..."),
    fixed=dict(MINE, size=B_BYTES, before=R_B, after=R_B // 4,
               seen=MINE["Q"] - R_B * 3 // 4 * B_BYTES + 3e6),
    units=dict(KERNEL_UNITS, size="B", seen="B"),
    draw=lambda r: (lambda size, before, after, held: dict(
        W=r.choice((3e9, 8e9, 19e9)), Q=12e6 + size * before, size=size, before=before,
        after=after, seen=(12e6 + size * after) * held))(
        r.choice((3e6, 5e6, 8e6)), r.choice((2, 6)), r.choice((1, 4)),
        r.choice((1.005, 1.15, 0.8))))
@day2.told
def own_change(P: float, BW: float, W: float, Q: float, size: float, before: int, after: int,
               seen: float) -> Iterator[AnyPart]:
    new = Q + (after - before) * size
    if new <= 0 or size * before > Q * (1 + 1e-9):
        raise ValueError("Q includes the tensor, size × before; check size and before")
    if before == after:
        raise ValueError("before and after are the same, so nothing changes")
    digits = partial(show, unit="B", digits=7)
    yield _apart(Part("Q_new", new, "B", f"Q + (after - before) × size = {digits(Q)} + ({after} - "
                      f"{before}) × {digits(size)}",
                      {"the old Q": Q, "the old crossings left in": Q + after * size,
                       "the tensor left out": Q - before * size,
                       "one crossing more, not all of them": Q + size,
                       "the change the wrong way round": Q - (after - before) * size},
                      label="Predicted Q"))
    yield _apart(_intensity(W, new, "I_new", "Predicted I", {"the old Q": W / Q,
                            "the bytes that the profile shows": W / seen},
                            follows=("/", W, "Q_new"), symbol="Q_new"))
    for part in (day2._best(W, new, P, BW, "T_best", "Predicted T_best",
                            ("max", W / P, ("/", "Q_new", BW))),
                 day5._worst(W / P, new / BW, "T_worst", "Predicted T_worst",
                             (W / P, ("/", "Q_new", BW)))):
        yield replace(part, why=part.why.replace("Q / BW", "Q_new / BW"))
    yield _apart(Part("missed", seen - new, "B", f"seen - Q_new = {digits(seen)} - {digits(new)}",
                      {"against the old Q": seen - Q, "all that is seen": seen,
                       "the predicted Q": new, ELEMENTS: (seen - new) / 2,
                       "the bytes that the change moves": (after - before) * size},
                      label="Bytes above the prediction"))
    held = abs(seen / new - 1) <= 0.01
    yield _choice("held", "yes" if held else "no", {
        "yes": ("yes", "The bytes are further off than 1%."),
        "no": ("no: say which transfers the count of Q missed, or which the compiler left out",
               "The bytes are within 1%. A time that is off has its cause elsewhere.")},
        "The prediction is of bytes first: the profile counts them too. If they are off, so is "
        "every time that comes of them.", "Did it hold?")


# --- common mistakes ------------------------------------------------------------------------------

@problem(
    "day7.mistake.sizes",
    ask="Common mistake 1. C = A B in bf16; A is {M} × {K}, B is {K} × {N}. Someone adds up the "
        "sizes of the three tensors. The loops load each byte of A {r_A} times and of B {r_B} "
        "times, and store C once. What is the sum of the sizes, what is Q, and by how much does "
        "the sum overstate I? What catches it?",
    fixed=dict(M=1024, K=2048, N=1536, r_A=3, r_B=8),
    draw=lambda r: dict(M=r.choice((768, 1280, 2048)), K=r.choice((1024, 2560)),
                        N=r.choice((1024, 1536)), r_A=r.choice((2, 4, 6)),
                        r_B=r.choice((5, 10, 16))))
def mistake_sizes(M: int, K: int, N: int, r_A: int, r_B: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N)
    least, Q = op.algorithmic.hbm_bytes, op.reloaded(r_A, r_B).hbm_bytes
    if Q == least:
        raise ValueError("r_A or r_B has to be above 1")
    yield _apart(Part("Q_sizes", least, "B", f"p (M K + K N + M N) = 2 bytes × ({M:,} × {K:,} + "
                      f"{K:,} × {N:,} + {M:,} × {N:,})",
                      {ELEMENTS: least / 2, day5.NO_C: least - 2 * M * N,
                       "4 bytes a number, as in fp32": 2 * least, "the reloads counted": Q},
                      label="Sum of the sizes"))
    yield _apart(day5._reloaded(op, r_A, r_B, own=(r_A, r_B)))
    yield _apart(Part("over", Q / least - 1, "", f"Q / Q_sizes - 1 = {Q:,} / {least:,} - 1"
                      "\nW is the same, so the two I differ as the two Q do.",
                      {"the ratio, not what it is above 1": Q / least,
                       "how much Q is understated": 1 - least / Q,
                       "the reloads of one operand alone": op.reloaded(r_A, 1).hbm_bytes / least
                       - 1 if r_A > 1 else op.reloaded(1, r_B).hbm_bytes / least},
                      label="I overstated by, as a fraction or in %",
                      follows=("+", ("/", "Q", "Q_sizes"), -1.0)))
    yield _choice("catch", "walk", {
        "walk": ("walk the loops and count each transfer × its times", ""),
        "shapes": ("check the shapes again", "The shapes are right. What is wrong is how often "
                   "their bytes cross."),
        "faster": ("measure: a reload costs no time if it is hidden",
                   "Hidden or not, it crosses, and the profiler's bytes will not match.")},
        "A tensor has one size and any number of crossings.", "What catches it?")


@problem(
    "day7.mistake.bandwidth",
    ask="Common mistake 2. A kernel with W = {W} and Q = {Q} on a core with P = {P} is entitled by "
        "the spec's BW = {BW}. Suppose that a copy in the kernel's own pattern reaches {reached}. "
        "What is T_best by each of them? By how much is the entitled rate overstated? On which "
        "side of the ridge does this matter? What catches it?",
    fixed=dict(ROOFS, W=3e9, Q=60e6, reached=240e9),
    units=dict(KERNEL_UNITS, reached="B/s"),
    draw=lambda r: dict(W=r.choice((1e9, 2e9, 4e9)), Q=r.choice((45e6, 80e6, 110e6)),
                        reached=r.choice((150e9, 200e9, 260e9, 290e9))))
@day2.told
def mistake_bandwidth(P: float, BW: float, W: float, Q: float, reached: float,
                      ) -> Iterator[AnyPart]:
    spec, real = max(W / P, Q / BW), max(W / P, Q / reached)
    both = W / P + Q / reached
    for name, value, rate, label in (("T_spec", spec, BW, "T_best by the spec"),
                                     ("T_reached", real, reached, "T_best by the copy")):
        yield _apart(Part(name, value, "s", f"max(W / P, Q / BW) = max({time(W / P)}, "
                          f"{time(Q / rate)})",
                          {"the time by the other bandwidth": real if name == "T_spec" else spec,
                           "the shorter of the two times": min(W / P, Q / rate),
                           ELEMENTS: value / 2, "bytes taken as bits: a factor 8": 8 * value,
                           "the roofs of all 8 cores": value / CORES}, label=label))
    yield _apart(Part("over", real / spec - 1, "", f"T_reached / T_spec - 1 = {time(real)} / "
                      f"{time(spec)} - 1",
                      {"the ratio, not what it is above 1": real / spec,
                       "how much T_best is understated": 1 - spec / real,
                       "the bandwidth that is not reached, over the spec's": 1 - reached / BW,
                       "the times added, as without overlap": both / spec},
                      label="Rate overstated by, as a fraction or in %",
                      follows=("+", ("/", "T_reached", "T_spec"), -1.0)))
    yield _choice("where", "left", {
        "left": ("left of it", ""),
        "right": ("right of it", "There W / P is the longer time, and no bandwidth is in it."),
        "both": ("on both alike", "Right of the ridge W / P binds: BW moves the ridge, not the "
                 "flat roof.")},
        "The slanted roof is I × BW; the flat one has no BW in it.", "Which side?")
    yield _choice("catch", "copy", {
        "copy": ("a copy kernel with the same transfers, measured", ""),
        "guide": ("a second guide", "A guide says what the parts allow, not what small or "
                  "strided transfers reach."),
        "matmul": ("a resident matmul loop, measured", "That measures P: it moves no bytes.")},
        "It has no FLOPs, so its time is its bytes.", "What catches it?")


@problem(
    "day7.mistake.latency",
    ask="Common mistake 3. Suppose that a model answers in {latency}. In it runs one kernel, W = "
        "{W}, that takes {T} on the device timeline; P = {P}. Someone divides W by the model's "
        "latency: which MFU do they get? Which one has the kernel? How much of the latency is not "
        "this kernel's? What catches it?",
    fixed=dict(P=P, W=W, latency=4.2e-3, T=560e-6),
    units=dict(P="FLOP/s", W="FLOP", latency="s", T="s"),
    draw=lambda r: dict(W=r.choice((20e9, 26e9, 30e9)), latency=r.choice((2.7e-3, 5.1e-3, 8e-3)),
                        T=r.choice((480e-6, 640e-6, 900e-6))))
def mistake_latency(P: float, W: float, latency: float, T: float) -> Iterator[AnyPart]:
    if T >= latency:
        raise ValueError("the kernel's time is a part of the latency, so it is below it")
    values = {"wrong": W / latency / P, "mfu": W / T / P}
    for name, where, label in (("wrong", latency, "MFU by the latency"),
                               ("mfu", T, "MFU of the kernel")):
        value = values[name]
        yield _apart(Part(name, value, "", f"W / {'latency' if name == 'wrong' else 'T'} / P = "
                          f"{flop(W)} / {time(where)} / {rate_(P)}",
                          {"the other of the two times": values["mfu" if name == "wrong" else
                                                                "wrong"],
                           ONE_FLOP: value / 2, UPSIDE_DOWN_: 1 / value,
                           "P of all 8 cores": value / CORES, "W by the rest of the latency":
                           W / (latency - T) / P}, label=label + SHARE))
    yield _apart(Part("outside", latency - T, "s", f"latency - T = {ns(latency)} - {ns(T)}",
                      {"the latency": latency, "the kernel's time": T, "the two added":
                       latency + T, "taken the wrong way round": T - latency},
                      label="Not this kernel's"))
    yield _choice("catch", "device", {
        "device": ("entitle and measure one op, on the device timeline", ""),
        "host": ("subtract the host's overhead, estimated", "An estimate of what is to be "
                 "measured, and the other ops stay in."),
        "more": ("add the W of all other ops to W", "Then it is another kernel's roof, with many "
                 "kernels under it.")},
        "A latency has other ops and the host in it; a roof is of one op.", "What catches it?")


@problem(
    "day7.mistake.engine",
    ask="Common mistake 4. A kernel has W = {W} of matmuls, P = {P}, and a step of {n} elements on "
        "the Vector Engine, which takes {rate}. How long does each engine need? If they overlap "
        "fully, what is the MFU at best? Which engine binds? What catches the mistake of calling "
        "the rest wasted compute?",
    fixed=dict(P=P, W=4e9, n=18 * 2**20, rate=float(VECTOR_FP32 * FACTS["vector_clock"])),
    units=dict(P="FLOP/s", W="FLOP", rate="element/s"),
    draw=lambda r: dict(W=r.choice((2e9, 3e9, 11e9, 14e9)), n=r.choice((9, 14, 25, 30)) * 2**20))
def mistake_engine(P: float, W: float, n: int, rate: float) -> Iterator[AnyPart]:
    tensor, vector = W / P, n / rate
    longer = max(tensor, vector)
    yield _apart(Part("T_tensor", tensor, "s", f"W / P = {flop(W)} / {rate_(P)}",
                      {ONE_FLOP: tensor / 2, "the other engine's time": vector,
                       "P of all 8 cores": tensor / CORES, "fp32's peak in place of bf16's":
                       tensor / day2.FP32_SHARE}, label="Time, Tensor Engine"))
    yield _apart(Part("T_engine", vector, "s", f"n / rate = {n:,} / {rate:,.0f}",
                      {"elements over P": n / P, "bytes in place of elements": 2 * vector,
                       "the other engine's time": tensor, "one lane, not all": TILE * vector,
                       "8 cores' engines": vector / CORES}, label="Time, Vector Engine"))
    yield _apart(Part("mfu", tensor / longer, "", f"T_tensor / max(T_tensor, T_engine) = "
                      f"{time(tensor)} / max({time(tensor)}, {time(vector)})",
                      {"both times added, as without overlap": tensor / (tensor + vector),
                       "the share of the Vector Engine": vector / longer,
                       "the rest of it, called wasted": 1 - tensor / longer,
                       UPSIDE_DOWN_: longer / tensor,
                       ONE_FLOP: tensor / longer / 2}, label="MFU at best" + SHARE,
                      follows=("/", "T_tensor", ("max", "T_tensor", "T_engine"))))
    yield _choice("binds", "vector" if vector > tensor else "tensor", {
        "vector": ("the Vector Engine", "Compare the two times."),
        "tensor": ("the Tensor Engine", "Compare the two times.")},
        f"Tensor Engine {time(tensor)}, Vector Engine {time(vector)}.", "Which engine binds?")
    yield _choice("catch", "each", {
        "each": ("entitle each step against its own engine", ""),
        "tensor": ("tile the matmuls better", "They are not what the kernel waits for."),
        "clock": ("measure with another clock", "The time is right. The roof that binds is not in "
                  "the picture.")},
        "Draw the binding roof: a point below a roof that does not bind is not a loss.",
        "What catches it?")


@problem(
    "day7.mistake.scope",
    ask="Common mistake 5. A kernel on a logical core (LNC=2): y = x w in bf16, B = {B}, D = {D}, "
        "F = {F}; each of its two cores takes half of the tokens and loads all of w. The pair has "
        "P = {P} and BW = {BW}. Find Q, the Q of someone who counts w once, and T_best. With the "
        "roofs of the whole chip of 8 cores, what would T_best be, and how many times too high is "
        "that roof? What catches it?",
    fixed=dict(P=2 * P, BW=2 * BW, B=1536, D=1536, F=2048),
    units=ROOF_UNITS,
    draw=lambda r: dict(B=256 * r.choice((1, 2, 3, 5)), D=r.choice((1024, 1280, 2048)),
                        F=512 * r.choice((3, 5, 6, 8))))
def mistake_scope(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    x, w, y = 2 * B * D, 2 * D * F, 2 * B * F
    Q, W = x + 2 * w + y, 2 * B * D * F
    best, times = max(W / P, Q / BW), CORES / 2
    for name, moved, how, label in (
            ("Q", Q, "2 D F", ""), ("Q_once", Q - w, "D F", "Bytes with w counted once")):
        twice = "2 × " * (name == "Q")
        yield _apart(Part(name, moved, "B", f"p (B D + {how} + B F) = 2 bytes × ({B:,} × {D:,} + "
                          f"{twice}{D:,} × {F:,} + {B:,} × {F:,})",
                          {"w counted once, though both cores load it" if name == "Q" else
                           "w counted for each core": Q - w if name == "Q" else Q,
                           ELEMENTS: moved / 2, "w left out": x + y,
                           "everything loaded by both cores": 2 * (x + w + y)}, label=label))
    yield _apart(Part("T_best", best, "s", f"max(W / P, Q / BW) = max({time(W / P)}, "
                      f"{time(Q / BW)})",
                      {"one core's P and BW": 2 * best, "the roofs of all 8 cores": best / 4,
                       "the shorter of the two times": min(W / P, Q / BW),
                       "the two times added": W / P + Q / BW},
                      follows=("max", W / P, ("/", "Q", BW))))
    yield _apart(Part("T_chip", best / times, "s", f"T_best / (8 / 2) = {time(best)} / (8 / 2)",
                      {"the pair's roofs": best, "one core's, not the pair's, times 8":
                       best / CORES, "divided by 2, the cores of a pair": best / 2,
                       "multiplied: more roofs, more time": best * times},
                      label="T_best by the chip's roofs", follows=("/", "T_best", times)))
    yield Part("times", times, "", f"8 cores / 2 cores = {CORES} / 2",
               {"one core against eight": CORES, "a pair against one core": 2,
                "the ratio upside down": 1 / times}, label="Roof too high by a factor of")
    yield _choice("catch", "setting", {
        "setting": ("the LNC setting; count a load once for each core that does it", ""),
        "profile": ("the ridge: it would be off as well",
                    "P and BW grow together, so the ridge hides it."),
        "double": ("nothing: double every count at LNC=2",
                   "What the cores share is moved once. Only what each loads counts twice.")},
        "P, BW, W and Q have one scope, and it is the setting's.", "What catches it?")


# --- causes of a gap, and where each shows --------------------------------------------------------

DOCUMENTED = next(float(spec.value) for spec in CORE.peaks["bf16"].rivals
                  if spec.kind == "documented")
WHERE = "Where does it show?"
LOOK = "What do you look at next?"


@problem(
    "day7.cause.idle",
    ask="Cause 1, Tensor Engine idle. Suppose that its first matmul starts at {first}, its last "
        "one ends at {last}; between them its merged busy time is {busy}. How long is it idle in "
        "between, and which share of that stretch is it? Where does it show? What do you look at "
        "next?",
    fixed=dict(first=16e-6, last=604e-6, busy=462e-6),
    units=dict.fromkeys(("first", "last", "busy"), "s"),
    draw=lambda r: dict(first=r.choice((12e-6, 18e-6)), last=r.choice((280e-6, 410e-6)),
                        busy=r.choice((160e-6, 205e-6, 231e-6))))
def cause_idle(first: float, last: float, busy: float) -> Iterator[AnyPart]:
    span = last - first
    if not 0 < busy < span:
        raise ValueError("busy is a part of the stretch from first to last, so it is below last - "
                         "first")
    idle = span - busy
    yield _apart(Part("idle", idle, "s", f"last - first - busy = {ns(last)} - {ns(first)} - "
                      f"{ns(busy)}",
                      {"the time before the first matmul counted too": last - busy,
                       "the busy time": busy, "the whole stretch": span},
                      label="Idle in between"))
    yield _share("share", idle, span, f"idle / (last - first) = {ns(idle)} / ({ns(last)} - "
                 f"{ns(first)})", "Share of the stretch",
                 {"over the busy time": idle / busy,
                  "the time before the first matmul counted too": (last - busy) / last},
                 ("/", "idle", span))
    yield _choice("where", "gaps", {
        "gaps": ("as gaps between matmuls on the Tensor Engine's row", ""),
        "solid": ("as a solid row whose rate is low", "That one is busy but slow."),
        "dma": ("in the DMA bytes", "Bytes say nothing of when the engine worked."),
        "ends": ("before the first and after the last matmul", "That is the fixed cost.")},
        "A row with holes in it: nothing is being multiplied there.", WHERE)
    yield _choice("look", "predecessor", {
        "predecessor": ("what the next matmul waited for: DMA, an engine, or nothing", ""),
        "peak": ("whether P is right", "P is what it does when it works; here it does not."),
        "bytes": ("whether Q is right", "More bytes can cause a wait, but see first who is waited "
                  "for.")},
        "A gap ends when something arrives. The row where that ends names the cause.", LOOK)


@problem(
    "day7.cause.overlap",
    ask="Cause 2, no overlap. Suppose that DMA is active for {dma}, the Tensor Engine for "
        "{tensor}; at least one of them is active for {active} (merged). How long are both active, "
        "and for how long is DMA active alone? Which share of the DMA time is hidden? Where does "
        "it show? What do you look at next?",
    fixed=dict(dma=246e-6, tensor=437e-6, active=641e-6),
    units=dict.fromkeys(("dma", "tensor", "active"), "s"),
    draw=lambda r: (lambda dma, tensor, both: dict(dma=dma, tensor=tensor,
                                                   active=dma + tensor - both))(
        r.choice((110e-6, 150e-6)), r.choice((180e-6, 290e-6)), r.choice((15e-6, 27e-6, 38e-6))))
def cause_overlap(dma: float, tensor: float, active: float) -> Iterator[AnyPart]:
    both, alone = dma + tensor - active, active - tensor
    if not max(dma, tensor) <= active < dma + tensor:
        raise ValueError("active is at least the longer of the two and below their sum")
    yield _apart(Part("both", both, "s", f"dma + tensor - active = {ns(dma)} + {ns(tensor)} - "
                      f"{ns(active)}",
                      {"the two times added": dma + tensor, "the difference of the two times":
                       abs(tensor - dma), "taken the wrong way round": -both,
                       "all of the DMA time": dma}, label="Both active"))
    yield _apart(Part("alone", alone, "s", f"active - tensor = {ns(active)} - {ns(tensor)}",
                      {"all of the DMA time": dma, "the Tensor Engine alone": active - dma,
                       "the time at least one is active": active,
                       "the time that both are": both}, label="DMA alone"))
    yield _apart(Part("share", both / dma, "", f"both / dma = {ns(both)} / {ns(dma)}",
                      {"the share that is not hidden": 1 - both / dma,
                       "of the Tensor Engine's time": both / tensor,
                       "of the time at least one is active": both / active,
                       "DMA over Tensor Engine": dma / tensor},
                      label="Share of DMA hidden, as a fraction or in %",
                      follows=("/", "both", dma)))
    yield _choice("where", "turns", {
        "turns": ("the DMA rows and the Tensor Engine's row take turns", ""),
        "together": ("both rows are solid at the same time", "That is overlap."),
        "ends": ("only before the first matmul", "One load has to come first. Here it goes on "
                 "throughout.")},
        "Where one row has a block the other has a hole.", WHERE)
    yield _choice("look", "buffers", {
        "buffers": ("how many buffers a tile has: can the next load start before this matmul "
                    "ends?", ""),
        "peak": ("whether P is right", "The sum of both times is the trouble, not one of them."),
        "identity": ("which constants are loaded", "They add bytes. Here the same bytes come at "
                     "the wrong time.")},
        "With one buffer a load has to wait until the matmul is done with it.", LOOK)


@problem(
    "day7.cause.bytes",
    ask="Cause 3, extra bytes. By hand W = {W} and Q = {Q}; suppose that the profiler says {read} "
        "read and {written} written. P = {P}, BW = {BW}. How many bytes more is that, and how long "
        "do they take at BW? Where does it show? Do they lengthen T_best? What do you look at "
        "next?",
    fixed=dict(KERNEL, read=2.0 * SIZES["D"] * (SIZES["B"] + 3 * SIZES["F"]),
               written=2.0 * SIZES["B"] * SIZES["D"]),
    units=dict(KERNEL_UNITS, read="B", written="B"),
    draw=lambda r: (lambda Q, more: dict(W=r.choice((1e9, 3e9, 12e9, 24e9)), Q=Q,
                                         read=0.7 * Q + more, written=0.3 * Q))(
        r.choice((30e6, 40e6, 50e6)), r.choice((6e6, 9e6, 21e6))))
@day2.told
def cause_bytes(P: float, BW: float, W: float, Q: float, read: float, written: float,
                ) -> Iterator[AnyPart]:
    moved = read + written
    more, digits = moved - Q, partial(show, unit="B", digits=7)
    if more <= 0:
        raise ValueError("read + written is not above Q: nothing is extra")
    yield _apart(Part("more", more, "B", f"read + written - Q = {digits(read)} + "
                      f"{digits(written)} - {digits(Q)}",
                      {"all of its bytes": moved, "Q itself": Q, ELEMENTS: more / 2,
                       "what is written left out": read - Q, "counted twice, in and out":
                       2 * more}, label="Extra bytes"))
    yield _apart(Part("T_more", more / BW, "s", f"more / BW = {digits(more)} / {band(BW)}",
                      {"the time of all bytes": moved / BW, ELEMENTS: more / BW / 2,
                       "bytes divided by P": more / P,
                       f"BW of all {CORES} cores, not one core's share": more / BW / CORES},
                      label="Time of the extra bytes", follows=("/", "more", BW)))
    yield _choice("where", "counters", {
        "counters": ("in the counters: DMA bytes above Q", ""),
        "gaps": ("as gaps on the Tensor Engine's row", "Only if it has to wait for them. The "
                 "bytes are counted either way."),
        "throttle": ("on the row of throttle events", "Those are about the clock, not bytes.")},
        "Compare HBM bytes with the table of transfers, row by row.", WHERE)
    hidden = moved / BW <= W / P
    yield _choice("timeline", "hidden" if hidden else "visible", {
        "hidden": ("no: W / P is longer still, so at best they are hidden",
                   "With them the bytes take longer than the FLOPs."),
        "visible": ("yes: the bytes bind", "W / P is longer than all of the bytes.")},
        f"W / P is {time(W / P)}, all bytes take {time(moved / BW)}. Hidden bytes belong into the "
        "comparison of counts and not into the parts of the gap.", "Do they lengthen T_best?")
    yield _choice("look", "transfers", {
        "transfers": ("the transfers: reloads, spills, constants such as identity matrices", ""),
        "tiles": ("N of the moving tile", "That is about the array's rate.")},
        "Some row of the table is missing or has too few times.", LOOK)


@problem(
    "day7.cause.engine",
    ask="Cause 4, a slower engine. Suppose that a step of {n} elements runs on the Vector Engine "
        "at {rate}; matmuls hide {hidden} of it. How long does the step take, and how long does "
        "the Tensor Engine wait? By the guide the Vector Engine has {vector} in fp32 and the "
        "Tensor Engine {tensor} in bf16: what is the ratio? Where does it show? What do you look "
        "at next?",
    fixed=dict(n=7 * 2**20, rate=float(VECTOR_FP32 * FACTS["vector_clock"]), hidden=9e-6,
               vector=float(FACTS["vector_peak_flops.fp32"]), tensor=DOCUMENTED),
    units=dict(rate="element/s", hidden="s", vector="FLOP/s", tensor="FLOP/s"),
    draw=lambda r: dict(n=r.choice((5, 6, 9, 11)) * 2**20, hidden=r.choice((5e-6, 7e-6, 12e-6))))
def cause_engine(n: int, rate: float, hidden: float, vector: float, tensor: float,
                 ) -> Iterator[AnyPart]:
    step = n / rate
    if hidden >= step:
        raise ValueError(f"hidden has to be below the step's own time, {time(step)}")
    yield _apart(Part("T_engine", step, "s", f"n / rate = {n:,} / {rate:,.0f}",
                      {"bytes in place of elements": 2 * step, "one lane, not all": TILE * step,
                       "8 cores' engines": step / CORES,
                       "what is hidden": hidden}, label="Time of the step"))
    yield _apart(Part("wait", step - hidden, "s", f"T_engine - hidden = {ns(step)} - {ns(hidden)}",
                      {"all of the step": step, "what is hidden": hidden,
                       "the two added": step + hidden, "taken the wrong way round": hidden - step},
                      label="Wait", follows=("+", "T_engine", -hidden)))
    yield _apart(Part("ratio", tensor / vector, "", f"tensor / vector = {rate_(tensor)} / "
                      f"{rate_(vector)}\nA multiply-add has two of the one; the other counts up to "
                      "8 a lane and cycle. It is no element rate.",
                      {UPSIDE_DOWN_: vector / tensor, "the array's PEs over its lanes": TILE,
                       ONE_FLOP: tensor / vector / 2, "the Tensor Engine in fp32":
                       tensor / vector / 4}, label="Tensor over Vector"))
    yield _choice("where", "runs", {
        "runs": ("a Vector or Scalar instruction runs, and the Tensor Engine waits on it", ""),
        "gaps": ("a gap in which no engine runs", "Then nothing is slow: something is latent, or "
                 "waits for a semaphore."),
        "dma": ("packets run, and the Tensor Engine waits on them", "That is a wait for DMA.")},
        "Look up from the gap to the row that is busy during it.", WHERE)
    yield _choice("look", "hide", {
        "hide": ("whether the step can be hidden, split between engines or done in bf16", ""),
        "tiles": ("K and N of the matmuls", "They are not running."),
        "bytes": ("the DMA bytes", "The step reads SBUF or PSUM. No byte crosses HBM for it.")},
        "Entitle the step against its own engine: that is its least time.", LOOK)


@problem(
    "day7.cause.fixed",
    ask="Cause 5, fixed cost. Suppose that a kernel takes {T}; its first matmul starts at {first}, "
        "its last one ends at {last}. How long is it before the first and after the last? Which "
        "share of the time are both? Where does it show? What do you look at next?",
    fixed=dict(T=48e-6, first=10e-6, last=43e-6),
    units=dict.fromkeys(("T", "first", "last"), "s"),
    draw=lambda r: dict(T=r.choice((66e-6, 90e-6, 120e-6)), first=r.choice((13e-6, 19e-6)),
                        last=r.choice((55e-6, 59e-6))))
def cause_fixed(T: float, first: float, last: float) -> Iterator[AnyPart]:
    if not first < last < T:
        raise ValueError("first, last and T come in this order")
    after = T - last
    yield _apart(Part("before", first, "s", f"first = {ns(first)}\nTimes count from the start of "
                      "the execution.",
                      {"the time after the last": after, "the matmuls' stretch": last - first,
                       "both ends": first + after},
                      label="Before the first matmul"))
    yield _apart(Part("after", after, "s", f"T - last = {ns(T)} - {ns(last)}",
                      {"the time before the first": first, "the matmuls' stretch": last - first,
                       "both ends": first + after, "the end's own "
                       "timestamp": last}, label="After the last matmul"))
    yield _share("share", first + after, T, f"(before + after) / T = ({ns(first)} + {ns(after)}) "
                 f"/ {ns(T)}", "Share of the time",
                 {"one end alone": first / T, "over the matmuls' stretch": (first + after) /
                  (last - first)},
                 ("*", ("+", "before", "after"), 1 / T))
    yield _choice("where", "ends", {
        "ends": ("before the first matmul and after the last", ""),
        "middle": ("between two matmuls", "That is the Tensor Engine idle."),
        "solid": ("in the rate of the busy stretches", "That one is busy but slow.")},
        "Start-up, first loads, last evictions and stores.", WHERE)
    yield _choice("look", "launch", {
        "launch": ("how much work one launch has, and which loads come first", ""),
        "tiles": ("K and N of the matmuls", "They are about the middle.")},
        "The runtime's part is paid once a launch. The first tiles' loads are yours to order.",
        LOOK)


@problem(
    "day7.cause.slow",
    ask="Cause 6, busy but slow. Suppose that the Tensor Engine's row is solid for {busy}, in "
        "which W = {W} is done; P = {P}. At which rate, and which share of P is it? How much of "
        "the busy time is above W / P? Where does it show? What do you look at next? Does the "
        "profiler's summary tell small tiles, placement of instructions, fast weight load and "
        "throttling apart?",
    fixed=dict(P=P, W=W, busy=580e-6), units=dict(P="FLOP/s", W="FLOP", busy="s"),
    draw=lambda r: (lambda W: dict(W=W, busy=W / P * r.choice((1.3, 1.6, 2.5, 3.3))))(
        r.choice((7e9, 15e9, 28e9))))
def cause_slow(P: float, W: float, busy: float) -> Iterator[AnyPart]:
    least = W / P
    if busy <= least:
        raise ValueError(f"busy is not above W / P, {time(least)}: check clock, dtype and scope")
    yield _apart(Part("rate", W / busy, "FLOP/s", f"W / busy = {flop(W)} / {time(busy)}",
                      {ONE_FLOP: W / busy / 2, "P itself": P, "the 2 of a multiply-add counted "
                       "twice": 2 * W / busy, "W over the rest of the busy time":
                       W / (busy - least)}, label="Rate while busy"))
    yield _apart(Part("share", least / busy, "", f"rate / P = {rate_(W / busy)} / {rate_(P)}",
                      {"the rest of it: one minus the share": 1 - least / busy,
                       UPSIDE_DOWN_: busy / least, ONE_FLOP: least / busy / 2,
                       "P of all 8 cores": least / busy / CORES},
                      label="Share of P" + SHARE, follows=("/", "rate", P)))
    yield _apart(Part("lost", busy - least, "s", f"busy - W / P = {ns(busy)} - {ns(least)}",
                      {"the busy time": busy, "W / P": least, "the two added": busy + least,
                       "taken the wrong way round": least - busy}, label="Above W / P"))
    yield _choice("where", "solid", {
        "solid": ("a solid row, and W / busy time below P", ""),
        "gaps": ("gaps between matmuls", "Then it is idle, not slow."),
        "ends": ("before the first and after the last matmul", "That is the fixed cost.")},
        "Busy time says that matmuls ran, not how much of the array they filled.", WHERE)
    yield _choice("look", "tiles", {
        "tiles": ("the tile sizes, K, M and N, and the Throttling row", ""),
        "bytes": ("the DMA bytes", "The row is solid, so the engine does not wait for them."),
        "buffers": ("how many buffers a tile has", "Those would show as gaps.")},
        "K = 64 fills half of the rows; a throttled stretch runs at k of n cycles.", LOOK)
    yield _choice("summary", "no", {
        "no": ("no", ""),
        "yes": ("yes: each has a percentage of its own",
                "They all end in one low rate. Instructions and throttle events tell them apart.")},
        "The summary has one figure for all of them. The timeline has sizes, starts and throttle "
        "events.", "Does the summary tell them apart?")


# --- a stranger's profile -------------------------------------------------------------------------
#
# Published figures: the capture trn2-lnc2-attn-fused-bf16-s512 of one attention head, S = 512,
# d = 128, bf16 with the second product in fp32, on one core of an LNC=2 pair; profiler 2.28.
# Copyright (c) 2026 Allen Chau, MIT licence: github.com/allenkchau/trainium-kernel-fusion.

STRANGER = dict(T=36351.609e-9, issue=13704e-9, first=17234e-9)
S, d_HEAD = 512, 128
RAW, TRANSPOSE, READ, WRITTEN = 285_212_672, 83_886_080, 491_520, 131_072
SLOTS = (585e-9, 3469e-9)    # of the transposes: 4 in bf16, then 16 in fp32
INTERVAL, RELEASE, THROTTLED, LEDGER = 426e-9, 28559e-9, 4383e-9, 2166e-9
ATTENTION = 4 * S * S * d_HEAD
PUBLISHED, MADE_UP = "published, a trn2 capture by others", "made up for practice"
FIGURES = dict(figures=(PUBLISHED, MADE_UP, "your own"))
SAID = " (Figures: {figures}.)"


def _whose(figures: str, id: str, **given: object) -> None:
    """Raises ValueError for figures that are said to be published and are not."""
    theirs = STRANGERS[id]
    if figures == PUBLISHED and any(given[name] != theirs[name] for name in given):
        raise ValueError('these are not the published figures: say figures="your own"')


# What is the capture's in each problem; the roofs are the course's own.
STRANGERS: dict[str, dict[str, Any]] = {
    "start": dict(STRANGER),
    "transposes": dict(count=20, raw=RAW, t1=SLOTS[0], t2=SLOTS[1], T=STRANGER["T"]),
    "passes": dict(S=S, d=d_HEAD, raw=RAW, transpose=TRANSPOSE),
    "throttle": dict(N=WIDE, interval=INTERVAL, first=STRANGER["first"], release=RELEASE,
                     useful=THROTTLED),
    "traffic": dict(S=S, d=d_HEAD, read=READ, written=WRITTEN),
    "entitlement": dict(W=ATTENTION, Q=4 * 2 * S * d_HEAD, T=STRANGER["T"]),
    # The second capture, trn2-lnc2-attn-fused-fp32-s512, of the same author: all in fp32.
    "second": dict(S=S, d=d_HEAD, T=38091.607e-9, first=17183e-9, release=23822e-9,
                   turns=26800e-9, raw=352_321_536, transpose=TRANSPOSE, read=851_968,
                   written=262_144)}
FP32_P = float(CORE.peak("fp32"))


@problem(
    "day7.stranger.start",
    shown="Read it off the figure: how long is it before the first DMA issue (start)? Before "
          "the first matmul? A transpose is one, too. How much of that is after the first issue "
          "(fill)? Which share of the total time, in the table of clocks, is over when the "
          "first matmul starts? What happens before the first issue?" + SAID,
    ask="A capture of an attention kernel takes {T}. Its first DMA transfer is issued at {issue} "
        "and its first matmul starts at {first}. How long is it before the first issue (start)? "
        "Before the first matmul? How much of that is after the first issue (fill)? Which share of "
        "the whole time is over when the first matmul starts? What happens before the first issue?"
        + SAID,
    fixed=dict(STRANGERS["start"], figures=PUBLISHED), units=dict.fromkeys(STRANGER, "s"),
    one_of=FIGURES,
    draw=lambda r: dict(figures=MADE_UP, T=r.choice((41e-6, 58e-6, 73e-6)),
                        issue=r.choice((12.6e-6, 14.4e-6)),
                        first=r.choice((16.9e-6, 18.2e-6, 20.5e-6))))
def stranger_start(T: float, issue: float, first: float, figures: str) -> Iterator[AnyPart]:
    _whose(figures, "start", T=T, issue=issue, first=first)
    if not issue < first < T:
        raise ValueError("issue, first and T come in this order")
    yield _apart(Part("start", issue, "s", f"issue = {ns(issue)}",
                      {"the first matmul, not the first issue": first, "from the issue on":
                       first - issue, "what is left after it": T - issue},
                      label="Before the first issue"))
    yield _apart(Part("before", first, "s", f"first = {ns(first)}",
                      {"the first issue, not the first matmul": issue, "what is left after it":
                       T - first, "from the issue on": first - issue},
                      label="Before the first matmul"))
    yield _apart(Part("fill", first - issue, "s", f"first - issue = {ns(first)} - {ns(issue)}",
                      {"all of the time before the first matmul": first, "the time before the "
                       "issue": issue, "taken the wrong way round": issue - first,
                       "the two added": first + issue}, label="From the issue to the matmul"))
    yield _share("share", first, T, f"first / T = {ns(first)} / {ns(T)}", "Share of the time",
                 {"up to the first issue": issue / T, "from the issue on": (first - issue) / T,
                  "over what is left": first / (T - first)}, ("/", "before", T))
    yield _choice("what", "runtime", {
        "runtime": ("the runtime starts the kernel and brings the engines together", ""),
        "compute": ("the first block of scores is computed", "No matmul has started."),
        "dma": ("q, k and v are loaded", "No transfer has been issued yet.")},
        "It is paid once a launch. Only more work in one launch makes it a smaller share.",
        "What happens before the first issue?")


@problem(
    "day7.stranger.transposes",
    shown="Read them off the figure: how many matmuls of 128 × 128 by an identity of 128 turn "
          "tiles? How many FLOPs are they counted as, and which part of Raw Flops, the counter "
          "above, is that? How long do their two stretches take, and which share of the total "
          "time is it? How could they be avoided?" + SAID,
    ask="In a capture {count} matmuls of 128 × 128 by an identity of 128 turn tiles. Raw Flops is "
        "{raw} FLOP in all, the time {T}. The turns stand in two stretches of {t1} and {t2}, in "
        "which nothing else runs on the array. How many FLOPs are they counted as, and which part "
        "of Raw Flops is that? How long do they take, and which share of the time? How could they "
        "be avoided?" + SAID,
    fixed=dict(STRANGERS["transposes"], figures=PUBLISHED),
    one_of=FIGURES,
    units=dict.fromkeys(("t1", "t2", "T"), "s"),
    draw=lambda r: (lambda count: dict(
        figures=MADE_UP, count=count, raw=2 * count * TILE**3 + r.choice((3, 5, 8)) * 67_108_864,
        t1=r.choice((0.7e-6, 1.1e-6)), t2=r.choice((2.6e-6, 4.2e-6)),
        T=r.choice((29e-6, 52e-6))))(r.choice((8, 24, 32))))
def stranger_transposes(count: int, raw: int, t1: float, t2: float, T: float, figures: str,
                        ) -> Iterator[AnyPart]:
    _whose(figures, "transposes", count=count, raw=raw, t1=t1, t2=t2, T=T)
    flops, time_ = 2 * count * TILE**3, t1 + t2
    if flops >= raw or time_ >= T:
        raise ValueError("the turns are a part of raw, and their time a part of T")
    yield _apart(Part("flops", flops, "FLOP", f"count × 2 × 128 × 128 × 128 = {count} × 2 × 128 × "
                      "128 × 128",
                      {ONE_FLOP: flops / 2, "one transpose, not all": flops / count,
                       "moving tiles of 512 columns": 4 * flops, "all of Raw Flops": raw,
                       "the elements that are turned": count * TILE**2},
                      label="FLOPs counted for them"))
    yield _share("part", flops, raw, f"flops / raw = {flops:,} / {raw:,}", "Part of Raw Flops",
                 {"over the rest of Raw Flops": flops / (raw - flops), ONE_FLOP: flops / raw / 2,
                  "one transpose, not all": flops / raw / count}, ("/", "flops", float(raw)))
    yield _apart(Part("time", time_, "s", f"t1 + t2 = {ns(t1)} + {ns(t2)}",
                      {"the first stretch alone": t1, "the second stretch alone": t2,
                       "the difference of the two": abs(t2 - t1),
                       "flops over the bf16 peak": flops / P}, label="Time of the turns"))
    yield _share("share", time_, T, f"time / T = {ns(time_)} / {ns(T)}", "Share of the time",
                 {"their part of Raw Flops": flops / raw, "the second stretch alone": t2 / T,
                  "the first stretch alone": t1 / T}, ("/", "time", T))
    yield _choice("avoid", "dma", {
        "dma": ("let the load turn them (dma_transpose), or store them turned", ""),
        "faster": ("run them in fp32", "The fp32 ones take longer: two cycles a column."),
        "fewer": ("use smaller tiles", "Smaller tiles need more turns.")},
        "A turn moves data and multiplies nothing. What arrives turned needs none.",
        "How could they be avoided?")


@problem(
    "day7.stranger.passes",
    shown="Your count first: what is W with S = {S} and d = {d}, one half in each of the two "
          "products? What is left of the Raw Flops above without transposes, and how many W is "
          "it? If all of W ran at P = {P}, how long would it take? The first product runs in "
          "bf16 and the second in fp32, at P_fp32 = {P_fp32}: how long now? Which product was "
          "counted twice?" + SAID,
    ask="Attention with S = {S} and d = {d}: what is W by hand, one half in each of its two "
        "products? A capture shows Raw Flops {raw}, of them Transpose Flops {transpose}. What is "
        "left without transposes, "
        "and how many W is it? If all of W ran at P = {P}, how long would it take? The first "
        "product runs in bf16 and the second in fp32, at P_fp32 = {P_fp32}: how long now? Which "
        "product was counted twice?" + SAID,
    fixed=dict(STRANGERS["passes"], P=P, P_fp32=FP32_P, figures=PUBLISHED),
    one_of=FIGURES,
    units=dict(P="FLOP/s", P_fp32="FLOP/s"),
    draw=lambda r: (lambda S, d, turn: dict(figures=MADE_UP, S=S, d=d, raw=6 * S * S * d + turn,
                                            transpose=turn))(
        r.choice((384, 640, 768, 1024)), r.choice((64, 128)),
        r.choice((6, 12, 16, 28)) * 4_194_304))
def stranger_passes(S: int, d: int, raw: int, transpose: int, P: float, P_fp32: float,
                    figures: str) -> Iterator[AnyPart]:
    _whose(figures, "passes", S=S, d=d, raw=raw, transpose=transpose)
    W = 4 * S * S * d
    useful, half = raw - transpose, W / 2
    if useful <= 0:
        raise ValueError("transpose is a part of raw, so it is below raw")
    one, mixed = W / P, half / P + half / P_fp32
    yield _apart(Part("W", W, "FLOP", f"2 × 2 × S × S × d = 2 × 2 × {S} × {S} × {d}",
                      {ONE_FLOP: half, "d twice, not S": 4 * S * d * d,
                       "the transposes counted, too": W + transpose, "all of Raw Flops": raw}))
    yield _apart(Part("useful", useful, "FLOP", f"raw - transpose = {raw:,} - {transpose:,}",
                      {"the transposes left in": raw, "the transposes alone": transpose,
                       "W by hand": W, "the transposes added": raw + transpose},
                      label="Without transposes"))
    yield _apart(Part("ratio", useful / W, "", f"useful / W = {useful:,} / {W:,}",
                      {"the transposes left in": raw / W, UPSIDE_DOWN_: W / useful,
                       "both products counted twice": 2, "one product alone": useful / half},
                      label="Counted, over W", follows=("/", "useful", float(W))))
    yield _apart(Part("T_one", one, "s", f"W / P = {W:,} / {rate_(P)}",
                      {"the counted FLOPs, not W": useful / P, "all of Raw Flops, not W": raw / P,
                       "both products in fp32": W / P_fp32, ONE_FLOP: one / 2},
                      label="W in bf16"))
    yield _apart(Part("T_mixed", mixed, "s", "W / 2 / P + W / 2 / P_fp32 = "
                      f"{W:,} / 2 / {rate_(P)} + {W:,} / 2 / {rate_(P_fp32)}",
                      {"both products in bf16": one, "both products in fp32": W / P_fp32,
                       "the counted FLOPs at P: two passes are not four times": useful / P,
                       "the second product alone": half / P_fp32}, label="bf16 and fp32",
                      follows=None))
    second = math.isclose(useful / W, 1.5, rel_tol=0.01)
    both = math.isclose(useful / W, 2, rel_tol=0.01)
    yield _choice("which", "second" if second else "both" if both else "none", {
        "second": ("the second, in fp32: two rows for each product",
                   "See how many W were counted: 1.5 is a half counted twice."),
        "first": ("the first, in bf16", "A bf16 product is one row."),
        "both": ("both", "Then it would be 2 W."),
        "none": ("neither can be told from this ratio", "1.5 W is a half counted twice.")},
        f"The ratio is {part_of(useful / W)}. Counted FLOPs go by rows, and an fp32 product has "
        "two of them in this profiler's version.", "Which product?")


@problem(
    "day7.stranger.throttle",
    shown="Read them off the figure: the bf16 matmuls have N = {N} columns each, and the "
          "array's clock is {clock}. How far apart would they start at the full clock? They "
          "start further apart: which share of the clock was allowed? How long is it from the "
          "first matmul to the throttle event 8 of 8? The useful matmuls before it (no "
          "transposes) fill two stretches: how much of these was lost? What does 8 of 8 "
          "say?" + SAID,
    ask="In a capture bf16 matmuls of N = {N} columns start every {interval} early on; the array's "
        "clock is {clock}. How far apart would they start at the full clock? Which share of the "
        "clock was allowed? The first matmul starts at {first} and the throttle event 8 of 8 is "
        "at {release}: how long is that? Useful matmuls fill {useful} of it: how much of that was "
        "lost? What does 8 of 8 say?" + SAID,
    fixed=dict(STRANGERS["throttle"], clock=float(FACTS["tensor_clock"]), figures=PUBLISHED),
    one_of=FIGURES,
    units=dict(clock="Hz", interval="s", first="s", release="s", useful="s"),
    draw=lambda r: (lambda N, share: dict(
        figures=MADE_UP, N=N, interval=N / FACTS["tensor_clock"] / share,
        first=r.choice((15.8e-6, 18.1e-6)),
        release=r.choice((23.9e-6, 31.3e-6)), useful=r.choice((2.9e-6, 3.7e-6))))(
        r.choice((256, 384, 512)), r.choice((0.375, 0.5, 0.625))))
def stranger_throttle(N: int, clock: float, interval: float, first: float, release: float,
                      useful: float, figures: str) -> Iterator[AnyPart]:
    _whose(figures, "throttle", N=N, interval=interval, first=first, release=release,
           useful=useful)
    full = N / clock
    limit, long = full / interval, release - first
    if not full < interval or not 0 < useful <= long:
        raise ValueError("interval is above N / clock, and useful at most release - first")
    yield _apart(Part("full", full, "s", f"N / clock = {N} / {show(clock, 'Hz')}".replace(
                          " GHz", "e9").replace(" Hz", ""),
                      {"the interval that was seen": interval, "the Vector Engine's clock":
                       N / FACTS["vector_clock"], "a tile of 128 columns": TILE / clock},
                      label="Interval at the full clock"))
    yield _share("limit", full, interval, f"full / interval = {ns(full)} / {ns(interval)}",
                 "Share of the clock",
                 {"the square of it": limit**2, "all of the clock: nothing withheld": 1,
                  "the Vector Engine's clock": N / FACTS["vector_clock"] / interval},
                 ("/", "full", interval))
    yield _apart(Part("time", long, "s", f"release - first = {ns(release)} - {ns(first)}",
                      {"counted from the start of the execution": release,
                       "the time before the first matmul": first,
                       "the useful part alone": useful},
                      label="First matmul to release"))
    lost = useful * (1 - limit)
    ledger = useful == THROTTLED and interval == INTERVAL
    yield _apart(Part("lost", lost, "s", f"useful × (1 - limit) = {ns(useful)} × (1 - "
                      f"{part_of(limit)})" + ledger * (
                          "\nThe ledger says 2.166 us: a matmul loses at most what its slot has "
                          "above its columns' time, and the first slot is short."),
                      {"all of the useful time": useful, "all of the time to the release":
                       long * (1 - limit),
                       "the time at the full clock too": useful / limit},
                      also=(LEDGER,) * ledger, label="Lost to the throttle"))
    yield _choice("says", "released", {
        "released": ("released: from here on all of the clock is allowed", ""),
        "throttled": ("throttled, by the full amount", "k of n: 8 of 8 cycles are allowed."),
        "idle": ("the engine has become idle", "It goes on, twice as fast as before.")},
        "k of n cycles: 4 of 8 is half of the speed, 8 of 8 all of it.", "What does 8 of 8 say?")


@problem(
    "day7.stranger.traffic",
    shown="Your count first: S = {S} and d = {d}; q, k and v are read and the output is "
          "written, in bf16, each once. What is Q? The counters above: what is that in all, and "
          "how much more than Q? A tile is turned by a matmul with an identity matrix of 128 × "
          "128: how many bytes is it in bf16, and in fp32? What explains the difference?" + SAID,
    ask="Attention with S = {S} and d = {d}: q, k and v are read and the output is written, in "
        "bf16, each once. What is Q by hand? The profiler says {read} bytes read and {written} "
        "written: what is that in all, and how much more than Q? An identity matrix of 128 × 128 "
        "to turn tiles: how many bytes is it in bf16, and in fp32? What explains the difference?"
        + SAID,
    fixed=dict(STRANGERS["traffic"], figures=PUBLISHED),
    one_of=FIGURES,
    draw=lambda r: (lambda S, d: dict(figures=MADE_UP, S=S, d=d, read=3 * 2 * S * d + 98_304,
                                      written=2 * S * d))(
        r.choice((384, 640, 768, 1024)), r.choice((64, 128))))
def stranger_traffic(S: int, d: int, read: int, written: int, figures: str) -> Iterator[AnyPart]:
    _whose(figures, "traffic", S=S, d=d, read=read, written=written)
    Q, seen, bf16 = 4 * 2 * S * d, read + written, 2 * TILE**2
    more, fp32 = seen - Q, 4 * TILE**2
    yield _apart(Part("Q", Q, "B", f"4 × S × d × 2 bytes = 4 × {S} × {d} × 2 bytes",
                      {"one of the four left out": Q * 3 / 4, ELEMENTS: Q / 2,
                       "one tensor, not four": Q / 4, "4 bytes a number, as in fp32": 2 * Q,
                       "the scores counted too: they stay on chip": Q + 2 * 2 * S * S},
                      label="Bytes by hand"))
    yield _apart(Part("seen", seen, "B", f"read + written = {read:,} + {written:,}",
                      {"what is written left out": read, "what is read left out": written,
                       "what is written taken away": read - written,
                       "what is written counted twice": read + 2 * written},
                      label="Bytes by the profiler"))
    yield _apart(Part("more", more, "B", f"seen - Q = {seen:,} - {Q:,}",
                      {"what is written left out": read - Q, "one identity matrix in bf16": bf16,
                       "one identity matrix in fp32": fp32, "all of its bytes": seen, "Q itself":
                       Q}, label="More than Q", follows=("+", "seen", ("*", -1, "Q"))))
    for name, value, size in (("bf16", bf16, 2), ("fp32", fp32, 4)):
        yield _apart(Part(name, value, "B", f"128 × 128 × {size} bytes = 128 × 128 × {size} bytes",
                          {"elements counted, not bytes": TILE**2, "one row of it": TILE * size,
                           "the other dtype": fp32 if name == "bf16" else bf16,
                           "both identities": bf16 + fp32}, label=f"Identity in {name}"))
    right = "identity" if more == bf16 + fp32 else "one" if more in (bf16, fp32) else "other"
    yield _choice("explains", right, {
        "identity": ("both identity matrices, one in each dtype", "Their sum is not the "
                     "difference."),
        "one": ("one of the two identity matrices", "One alone is not the difference."),
        "other": ("neither: look for reloads and spills", "The identities add up to it, to the "
                  "byte."),
        "reload": ("k, loaded twice", f"k is {byte(Q / 4)}: that is another number of bytes.")},
        f"{more:,} bytes more; the identities are {bf16:,} and {fp32:,}. Constants are loaded as "
        "well: they are a row of the table of transfers.", "What explains it?")


@problem(
    "day7.stranger.entitlement",
    shown="Entitle the kernel by your own W and Q: half of W at P = {P}, half in fp32 at "
          "{P_fp32}; BW = {BW}. T is the total time. Find I, the time of the FLOPs, the time of "
          "the bytes, T_best, the gap, and T_best's share of T. Which row of the gap is the "
          "largest?" + SAID,
    ask="The capture's kernel by hand: W = {W} FLOP, half of it at P = {P}, half in fp32 at "
        "{P_fp32}; Q = {Q} bytes at BW = {BW}. It took {T}. Find I, the time of the FLOPs, the "
        "time of the bytes, T_best, the gap, and T_best's share of T. Which row of the gap is the "
        "largest?" + SAID,
    fixed=dict(ROOFS, **STRANGERS["entitlement"], P_fp32=FP32_P, figures=PUBLISHED),
    one_of=FIGURES,
    units=dict(ROOF_UNITS, P_fp32="FLOP/s", T="s"),
    draw=lambda r: (lambda S: dict(
        figures=MADE_UP, W=4 * S * S * 128, Q=4 * 2 * S * 128,
        T=r.choice((44e-6, 60e-6, 77e-6))))(r.choice((384, 640, 768))))
@day2.told
def stranger_entitlement(P: float, BW: float, P_fp32: float, W: int, Q: int, T: float,
                         figures: str) -> Iterator[AnyPart]:
    _whose(figures, "entitlement", W=W, Q=Q, T=T)
    t_flop, t_byte = W / 2 / P + W / 2 / P_fp32, Q / BW
    best = max(t_flop, t_byte)
    if T <= best:
        raise ValueError(f"T is not above T_best, {time(best)}")
    yield _apart(_intensity(W, Q, slips={"the output left out": W / Q * 4 / 3}))
    yield _apart(Part("T_flop", t_flop, "s", f"W / 2 / P + W / 2 / P_fp32 = {W:,} / 2 / "
                      f"{rate_(P)} + {W:,} / 2 / {rate_(P_fp32)}",
                      {"all of W in bf16": W / P, "all of W in fp32": W / P_fp32,
                       "the mean of the two peaks": 2 * W / (P + P_fp32)},
                      label="Time of the FLOPs"))
    yield _apart(Part("T_byte", t_byte, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
                      {ELEMENTS: t_byte / 2, "bytes taken as bits: a factor 8": 8 * t_byte,
                       f"BW of all {CORES} cores, not one core's share": t_byte / CORES},
                      label="Time of the bytes"))
    yield _apart(Part("T_best", best, "s", f"max(T_flop, T_byte) = max({time(t_flop)}, "
                      f"{time(t_byte)})",
                      {"all of W in bf16": max(W / P, t_byte), "the shorter of the two times":
                       min(t_flop, t_byte), "the two times added": t_flop + t_byte},
                      follows=("max", "T_flop", "T_byte")))
    yield _apart(Part("gap", T - best, "s", f"T - T_best = {ns(T)} - {ns(best)}",
                      {"the measured time": T, "T_best": best, "the two added": T + best,
                       "taken the wrong way round": best - T}, label="Gap",
                      follows=("+", T, ("*", -1.0, "T_best"))))
    yield _share("share", best, T, f"T_best / T = {ns(best)} / {ns(T)}", "T_best over T",
                 {"all of W in bf16": max(W / P, t_byte) / T, "the bytes' time over T": t_byte / T},
                 ("/", "T_best", T))
    yield _choice("row", "start", {
        "start": ("the time before the first transfer is issued", ""),
        "transposes": ("the transposes", "They are about a third of the largest row."),
        "throttle": ("the throttle", "It has less than the transposes."),
        "bytes": ("the bytes of the identity matrices", "The FLOPs bind: hidden bytes have no row "
                  "in the gap.")},
        "A small kernel is mostly start-up: the launch does too little work.",
        "Which row is the largest?")


@problem(
    "day7.stranger.second",
    shown="The second capture: S = {S} and d = {d} again, now all in fp32, P_fp32 = {P_fp32}; "
          "BW = {BW}. Your count first: what are Q and T_best? Then open the figure and the "
          "counters below. How long is it before the first matmul, a transpose? How many W is "
          "Raw Flops without transposes? How long is it from the first matmul to the throttle's "
          "release? How many bytes more than Q moved, and what are they? The transposes of the "
          "scores cost less than in the first capture: why?" + SAID,
    ask="Attention with S = {S} and d = {d}, all in fp32 at P_fp32 = {P_fp32}; BW = {BW}. What "
        "are Q, with four tensors crossing once, and T_best? A capture of it takes {T}. The first "
        "matmul starts at {first}, the throttle is released at {release}, the transposes of the "
        "scores start at {turns}. Raw Flops is {raw}, of them Transpose Flops {transpose}; {read} "
        "bytes are read and {written} written. How long is it before the first matmul? How many W "
        "is Raw Flops without transposes? How long is it from the first matmul to the release? "
        "How many bytes more than Q moved, and what are they? Against a capture in which the "
        "release comes after them, these transposes cost less: why?" + SAID,
    fixed=dict(STRANGERS["second"], P_fp32=FP32_P, BW=BW, figures=PUBLISHED),
    one_of=FIGURES,
    units=dict(dict.fromkeys(("T", "first", "release", "turns"), "s"), P_fp32="FLOP/s", BW="B/s"),
    draw=lambda r: (lambda S, d, turned, first: dict(
        figures=MADE_UP, S=S, d=d, raw=8 * S * S * d + turned, transpose=turned,
        read=3 * 4 * S * d + 65_536, written=4 * S * d, first=first,
        release=first + r.choice((5.2e-6, 7.9e-6)), turns=first + r.choice((9.1e-6, 10.6e-6)),
        T=r.choice((46e-6, 61e-6))))(
        r.choice((384, 640, 768)), r.choice((64, 128)), r.choice((12, 16, 28)) * 4_194_304,
        r.choice((15.8e-6, 18.1e-6))))
def stranger_second(S: int, d: int, T: float, first: float, release: float, turns: float,
                    raw: int, transpose: int, read: int, written: int, P_fp32: float, BW: float,
                    figures: str) -> Iterator[AnyPart]:
    _whose(figures, "second", S=S, d=d, T=T, first=first, release=release, turns=turns, raw=raw,
           transpose=transpose, read=read, written=written)
    if not first < release < T or not first < turns < T or transpose >= raw:
        raise ValueError("release and turns lie between first and T, and transpose is below raw")
    W, Q, useful = 4 * S * S * d, 4 * 4 * S * d, raw - transpose
    best, more, one = max(W / P_fp32, Q / BW), read + written - Q, 4 * TILE**2
    yield _apart(Part("Q", Q, "B", f"4 × S × d × 4 bytes = 4 × {S} × {d} × 4 bytes",
                      {"2 bytes a number, as in bf16": Q / 2, ELEMENTS: Q / 4,
                       "one of the four left out": Q * 3 / 4, "all bytes that moved":
                       read + written}, label="Bytes by hand"))
    yield _apart(Part("T_best", best, "s", f"max(W / P_fp32, Q / BW) = max({time(W / P_fp32)}, "
                      f"{time(Q / BW)})",
                      {"all of W in bf16": W / (4 * P_fp32), "half of W in bf16, as before":
                       W / 2 / P_fp32 * 1.25, "the shorter of the two times": min(
                           W / P_fp32, Q / BW), "the counted FLOPs, not W": useful / P_fp32,
                       "the two times added": W / P_fp32 + Q / BW}))
    yield _apart(Part("before", first, "s", f"first = {ns(first)}",
                      {"the release, not the first matmul": release, "what is left after it":
                       T - first, "from the first matmul to the release": release - first},
                      label="Before the first matmul"))
    yield _apart(Part("ratio", useful / W, "", f"(raw - transpose) / W = ({raw:,} - "
                      f"{transpose:,}) / {W:,}",
                      {"the transposes left in": raw / W, UPSIDE_DOWN_: W / useful,
                       "one product alone": 2 * useful / W, ONE_FLOP: useful / W / 2},
                      label="Counted, over W"))
    yield _apart(Part("time", release - first, "s", f"release - first = {ns(release)} - "
                      f"{ns(first)}",
                      {"counted from the start of the execution": release,
                       "the time before the first matmul": first,
                       "to the transposes of the scores": turns - first},
                      label="First matmul to release"))
    yield _apart(Part("more", more, "B", f"read + written - Q = {read:,} + {written:,} - {Q:,}",
                      {"what is written left out": read - Q, "all of its bytes": read + written,
                       "an identity matrix in bf16": one / 2, "both identity matrices":
                       one * 3 / 2, "Q itself": Q}, label="More than Q", follows=None))
    yield _choice("explains", "one" if more == one else "other", {
        "one": ("one identity matrix, in fp32", "128 × 128 × 4 bytes are not the difference."),
        "both": ("two identity matrices, one in each dtype", "All tiles are fp32: one serves."),
        "other": ("neither: look for reloads and spills", "It is 128 × 128 × 4 bytes, to the "
                  "byte.")},
        f"{more:,} bytes more; an identity in fp32 is {one:,}.", "What are they?")
    early = release <= turns
    yield _choice("turned", "early" if early else "late", {
        "early": ("the throttle was released before they began",
                  "The release comes after their start."),
        "late": ("they cost less for another reason: they began before the release",
                 "See which comes first, the release or they."),
        "fewer": ("there are fewer of them", "As many tiles have to be turned."),
        "dtype": ("fp32 is turned faster", "A row of fp32 takes two cycles a column.")},
        "At the full clock a matmul takes half of the time it takes at 4 of 8 cycles.",
        "Why do they cost less?")


PROBLEMS = collect(globals())
