"""Day 7's first inf2 notebook: a 2048^3 matmul in three mappings.

Question  which Q does each mapping have, what may a compiler save of it, and where is the time?
Answer    PROBLEMS, in the order of the page; ids begin with day7.matmul.
Assumes   one NeuronCore-v2 of inf2 unless said; times in questions are supposed unless published
Ignores   how a profile is captured and read (device, profile)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .. import machine
from ..check import AnyPart, Part, collect, problem
from ..ops import Matmul
from ..units import mebi
from . import day5
from .day3 import ONE_FLOP
from .day5 import ELEMENTS, NO_C, ONCE, P, in_tiles
from .day7 import SHARE, _apart, _choice, _intensity, _share, band, byte, flop, ns, rate_, time

CORE = machine.get("inf2", "core")
PEAK, BW, DMA = float(CORE.peak("bf16")), float(CORE.bw()), float(CORE.bw("DMA"))
SBUF = int(CORE.facts["sbuf_bytes"].value)
TRN2 = {"P": float(machine.trn2.peak("bf16")), "BW": float(machine.trn2.bw())}
TILE, WIDE, BANKS = day5.TILE, day5.WIDE, day5.BANKS
N = 2048
OP = Matmul(N, N, N)
W = float(OP.flops)
# Reload, a block of C stays, everything once: r_A and r_B of each
MAPPINGS = ((4, 16), (2, 4), (1, 1))
MOVED = {f"Q_{i}": float(OP.reloaded(*r).hbm_bytes) for i, r in enumerate(MAPPINGS, 1)}
UNITS = {"P": "FLOP/s", "BW": "B/s", "DMA": "B/s", "W": "FLOP", "Q_1": "B", "Q_2": "B", "Q_3": "B"}
WHO = ("first", "second", "third")
SQUARE = "C = A B in bf16, all three {n} × {n}. "


def _scaled(r: Any) -> dict[str, float]:
    """Another n, with the same three mappings."""
    op = Matmul(n := r.choice((1024, 3072, 4096)), n, n)
    return {"W": float(op.flops), **{
        f"Q_{i}": float(op.reloaded(n // columns, n // rows).hbm_bytes) for i, (columns, rows) in
        enumerate(((WIDE, TILE), (1024, 512), (n, n)), 1)}}


# --- the hand count -------------------------------------------------------------------------------

@problem(
    "day7.matmul.work",
    ask=SQUARE + "One matmul instruction takes a stationary tile of A, 128 × 128, and a moving "
        "tile of B, 128 × 512. How many FLOPs is one instruction (each)? How many instructions "
        "does the op take (times)? What is W, and how long does it take at P = {P}? Which mapping "
        "has the smallest W?",
    fixed=dict(n=N, P=PEAK), units=dict(P="FLOP/s"),
    draw=lambda r: dict(n=r.choice((1024, 1536, 3072, 4096))))
def work(n: int, P: float) -> Iterator[AnyPart]:
    in_tiles(n=(n, WIDE))
    op = Matmul(n, n, n)
    each, times = 2 * TILE * TILE * WIDE, (n // TILE)**2 * (n // WIDE)
    yield Part("each", each, "FLOP", f"2 × K × M × N of the tiles = 2 × {TILE} × {TILE} × {WIDE}",
               {ONE_FLOP: each / 2, "the contraction left out": 2 * TILE * WIDE,
                "a moving tile of 128 columns": each / 4}, label="FLOPs of one instruction")
    yield day5._times("times", times, f"(n / 128) × (n / 128) × (n / 512) = {n // TILE} × "
                      f"{n // TILE} × {n // WIDE}",
                      {"tiles of C counted, without the loop over K": (n // TILE) * (n // WIDE),
                       "moving tiles of 128 columns": (n // TILE)**3,
                       "the loop over tiles of N left out": (n // TILE)**2}, "Instructions")
    yield _apart(day5._matmul_work(op))
    yield Part("T_flop", op.flops / P, "s", f"W / P = {flop(op.flops)} / {rate_(P)}",
               {ONE_FLOP: op.flops / 2 / P, "P of both cores of the chip": op.flops / 2 / P,
                "fp32's peak, a quarter of bf16's": 4 * op.flops / P,
                "the rate upside down": P / op.flops}, label="Time of the FLOPs",
               follows=("/", "W", P))
    yield _choice("least", "same", {
        "same": ("none: W is the same for all", ""),
        "once": ("the one that loads everything once", "It moves the fewest bytes. W counts "
                 "multiply-adds, and each is done once in every mapping."),
        "c_stays": ("the one that keeps a block of C", "Keeping C saves bytes, and no "
                    "multiply-add.")},
        "W follows from the shapes; a mapping changes Q.", "Which mapping has the smallest W?")


@problem(
    "day7.matmul.c_stays",
    ask=SQUARE + "A block of C, {rows} × {columns}, stays in PSUM while all of K passes: for each "
        "128 of K one load of A, 128 × {rows}, and one of B, 128 × {columns}. How often does each "
        "byte of A cross HBM, and each of B? C is stored once: find Q and I. How many PSUM banks, "
        "512 fp32 sums a partition each, does the block take? A core has 8.",
    fixed=dict(n=N, rows=512, columns=1024),
    draw=lambda r: (lambda shape: dict(n=r.choice((2048, 4096, 6144)), rows=shape[0],
                                       columns=shape[1]))(
        r.choice(((128, 512), (256, 512), (256, 1024), (128, 2048), (512, 512), (1024, 512)))))
def c_stays(n: int, rows: int, columns: int) -> Iterator[AnyPart]:
    in_tiles(rows=(rows, TILE), columns=(columns, WIDE), n=(n, rows))
    in_tiles(n=(n, columns))
    banks = rows // TILE * (columns // WIDE)
    if banks > BANKS:
        raise ValueError(f"the block takes {banks} PSUM banks; a core has {BANKS}")
    op, r_A, r_B = Matmul(n, n, n), n // columns, n // rows
    for name, value, other, size, by in (("r_A", r_A, r_B, columns, "columns"),
                                         ("r_B", r_B, r_A, rows, "rows")):
        yield day5._times(name, value, f"n / {by} = {n:,} / {size:,}", {
            "the other side of the block taken": other,
            "once: a block of C does not keep its operands": 1,
            "blocks of C counted, all of them": r_A * r_B,
            "tiles of 128 counted": n // TILE, "each use counted as a load": n},
            f"Times each byte of {name[-1]} crosses")
    yield _apart(day5._reloaded(op, r_A, r_B))
    yield _apart(_intensity(op.flops, op.reloaded(r_A, r_B).hbm_bytes, slips={
        ONCE: op.algorithmic.intensity}, follows=("/", float(op.flops), "Q")))
    yield day5._times("banks", banks, f"(rows / 128) × (columns / 512) = {rows // TILE} × "
                      f"{columns // WIDE}",
                      {"tiles of 128 columns counted": rows // TILE * (columns // TILE),
                       "rows of tiles counted alone": rows // TILE,
                       "columns of tiles counted alone": columns // WIDE,
                       "a bank for each row of 128 × 128": rows * columns // TILE**2,
                       "all 8 of the core": BANKS}, "PSUM banks")


@problem(
    "day7.matmul.once",
    ask=SQUARE + "All of B is loaded once and stays. A passes in blocks of {block} rows: a block "
        "is loaded tile by tile of K, each load 128 × {block}. C leaves in rows of tiles, 128 × "
        "{n}. Find the bytes of one load of A, how many there are, Q and I. How many bytes do B, "
        "one block of A and one row of tiles of C take in SBUF? Which share of {sbuf} is that?",
    fixed=dict(n=N, block=512, sbuf=SBUF), units=dict(sbuf="B"),
    draw=lambda r: dict(n=r.choice((1024, 1536, 2560)), block=r.choice((128, 256, 512))))
def once(n: int, block: int, sbuf: float) -> Iterator[AnyPart]:
    in_tiles(n=(n, WIDE), block=(block, TILE))
    in_tiles(n=(n, block))
    op = Matmul(n, n, n)
    one, times, Q = P * TILE * block, n // TILE * (n // block), op.algorithmic.hbm_bytes
    matrix = P * n * n
    resident = matrix + P * n * block + P * TILE * n
    yield Part("one", one, "B", f"p × 128 × block = {P} bytes × 128 × {block}",
               {ELEMENTS: one / P, "the whole block, all of K": P * n * block,
                "a load of B, all of its columns": P * TILE * n if n != block else 4 * one,
                "4 bytes a number, as in fp32": 2 * one}, label="Bytes of one load of A")
    yield day5._times("times", times, f"(n / 128) × (n / block) = {n // TILE} × {n // block}",
                      {"the loads of one block": n // TILE, "blocks counted, not loads": n // block,
                       "tiles of 128 × 128 counted": (n // TILE)**2,
                       "the loads once for every row of C": times * (block // TILE) if block > TILE
                       else 4 * times}, "Loads of A")
    yield _apart(Part("Q", Q, "B", f"p (n n + n n + n n) = {P} bytes × 3 × {n:,} × {n:,}",
                      {ELEMENTS: Q / P, NO_C: Q - matrix, "4 bytes a number, as in fp32": 2 * Q,
                       "A again for every column of tiles": op.reloaded(n // WIDE, 1).hbm_bytes,
                       "B again for every block of A": op.reloaded(1, n // block).hbm_bytes}))
    yield _apart(_intensity(op.flops, Q, slips={NO_C: op.flops / (Q - matrix)},
                            follows=("/", float(op.flops), "Q")))
    yield _apart(Part("resident", resident, "B", "p (n n + n block + 128 n) = "
                      f"{P} bytes × ({n:,} × {n:,} + {n:,} × {block} + 128 × {n:,})",
                      {ELEMENTS: resident / P, "B left out": resident - matrix,
                       "all of A in place of a block": 2 * matrix + P * TILE * n,
                       "all of C in place of one row": 2 * matrix + P * n * block,
                       "4 bytes a number, as in fp32": 2 * resident}, label="In SBUF at once"))
    yield _share("share", resident, sbuf, f"resident / sbuf = {byte(resident)} / {byte(sbuf)}\n"
                 f"{mebi(resident)} of {mebi(int(sbuf))}.", "Share of SBUF",
                 {"B alone": matrix / sbuf, "A, B and C, all of each": 3 * matrix / sbuf},
                 follows=("/", "resident", sbuf))


# --- the entitlement ------------------------------------------------------------------------------

THREE = ("One matmul, W = {W}, in three mappings that move Q_1 = {Q_1}, Q_2 = {Q_2} and Q_3 = "
         "{Q_3}. ")


@problem(
    "day7.matmul.entitled",
    ask=THREE + "One NeuronCore-v2 has P = {P} and BW = {BW}. Find the ridge and T_best of each. "
        "What does the third mapping gain over the second, in T_best?",
    fixed=dict(P=PEAK, BW=BW, W=W, **MOVED),
    units={name: unit for name, unit in UNITS.items() if name != "DMA"}, draw=_scaled)
def entitled(P: float, BW: float, W: float, Q_1: float, Q_2: float, Q_3: float,
             ) -> Iterator[AnyPart]:
    yield Part("ridge", P / BW, "FLOP/B", f"P / BW = {rate_(P)} / {band(BW)}",
               {"the ratio upside down: BW over P": BW / P, ONE_FLOP: P / BW / 2,
                "P of both cores over BW of one": 2 * P / BW,
                "T and G mixed up: 1 T is 1000 G": P / BW / 1000}, label="Ridge")
    best = []
    for i, Q in enumerate((Q_1, Q_2, Q_3), 1):
        best.append(max(W / P, Q / BW))
        yield _apart(Part(f"T_{i}", best[-1], "s", f"max(W / P, Q_{i} / BW) = "
                          f"max({time(W / P)}, {time(Q / BW)})",
                          {"the shorter of the two times": min(W / P, Q / BW),
                           "the two times added, as without overlap (T_worst)": W / P + Q / BW,
                           "half of the chip's, where one core was asked": best[-1] / 2,
                           "bytes taken as bits: a factor 8": 8 * Q / BW},
                          label=f"T_best, {WHO[i - 1]} mapping",
                          follows=("max", W / P, Q / BW)))
    gains = "none" if abs(best[2] / best[1] - 1) < 1e-9 else "time"
    yield _choice("gains", gains, {
        "none": ("nothing: T_best is the same", "Compare the two: the bytes of the second take "
                 "longer than its FLOPs."),
        "time": ("a shorter T_best", "Both are W / P. The fewer bytes are easier to hide, and "
                 "T_best takes them as hidden."),
        "work": ("a smaller W", "W is one number, for all three.")},
        f"T_best is {time(best[1])} and {time(best[2])}.", "What does the third gain?")


@problem(
    "day7.matmul.engines",
    ask=THREE + "All of it goes through 16 DMA engines, and together they move DMA = {DMA} at "
        "most: less than HBM's BW = {BW}. At P = {P}, how long do the engines take for each? Which "
        "mapping is compute-bound by HBM's bandwidth, and not by the engines'?",
    fixed=dict(P=PEAK, BW=BW, DMA=DMA, W=W, **MOVED), units=UNITS, draw=_scaled)
def engines(P: float, BW: float, DMA: float, W: float, Q_1: float, Q_2: float, Q_3: float,
            ) -> Iterator[AnyPart]:
    turned = []
    for i, Q in enumerate((Q_1, Q_2, Q_3), 1):
        if Q / BW <= W / P < Q / DMA:
            turned.append(WHO[i - 1])
        yield _apart(Part(f"D_{i}", Q / DMA, "s", f"Q_{i} / DMA = {byte(Q)} / {band(DMA)}",
                          {"HBM's bandwidth, not the engines'": Q / BW,
                           "one engine of the 16": 16 * Q / DMA, ELEMENTS: Q / 2 / DMA,
                           "bytes taken as bits: a factor 8": 8 * Q / DMA},
                          label=f"Time of the engines, {WHO[i - 1]} mapping"))
    if len(turned) > 1:
        raise ValueError("more than one mapping changes sides: give other bytes")
    say = {who: (f"the {who}", "Compare Q / BW, Q / DMA and W / P of it: it is on one side by "
                               "both.") for who in WHO}
    yield _choice("turns", turned[0] if turned else "none", {
        **say, "none": ("none of them", "One has W / P between Q / BW and Q / DMA.")},
        f"W / P is {time(W / P)}.", "Which one changes sides?")


# --- two hypotheses about Q -----------------------------------------------------------------------

@problem(
    "day7.matmul.hypotheses",
    ask=SQUARE + "The source loads each byte of A {r_A} times, each of B {r_B} times, and stores C "
        "once. What is Q if the compiler keeps all of A on chip and reloads B (Q_A), if it keeps B "
        "and reloads A (Q_B), and if it keeps both (Q_AB)? Suppose that a profile says {seen}. "
        "Which share of all the bytes loaded again was saved? And what does a modelled profile, "
        "made from the source, decide?",
    fixed=dict(n=N, r_A=4, r_B=16, seen=110e6), units=dict(seen="B"),
    draw=lambda r: (lambda n, r_A, r_B, part: dict(
        n=n, r_A=r_A, r_B=r_B, seen=round(2 * n * n * (3 + (r_A + r_B - 2) * part), -5)))(
        r.choice((1024, 2048, 4096)), r.choice((2, 3, 6)), r.choice((5, 8, 12)),
        r.choice((0.3, 0.45, 0.7))))
def hypotheses(n: int, r_A: int, r_B: int, seen: float) -> Iterator[AnyPart]:
    if r_A < 2 or r_B < 2:
        raise ValueError("r_A and r_B have to be above 1, or nothing is loaded again")
    op = Matmul(n, n, n)
    Q, least = (op.reloaded(*r).hbm_bytes for r in ((r_A, r_B), (1, 1)))
    if seen <= 0:
        raise ValueError("seen has to be above 0")
    if abs(seen / Q - 1) < 0.02:
        raise ValueError("seen is what the source says: nothing was saved")
    matrix = P * n * n
    for name, kept, r, times in (("Q_A", "A", (1, r_B), "1 + r_B"),
                                 ("Q_B", "B", (r_A, 1), "r_A + 1"),
                                 ("Q_AB", "both", (1, 1), "1 + 1")):
        value = op.reloaded(*r).hbm_bytes
        yield _apart(Part(name, value, "B", f"p n n ({times} + 1) = "
                          f"{P} bytes × {n:,} × {n:,} × ({r[0]} + {r[1]} + 1)",
                          {"what the source says": Q, NO_C: value - matrix,
                           "the operand that stays left out, though it crosses once":
                           value - matrix - (matrix if name == "Q_AB" else 0),
                           "the other operand kept": op.reloaded(r_A, 1).hbm_bytes if name == "Q_A"
                           else op.reloaded(1, r_B).hbm_bytes, ELEMENTS: value / P},
                          label=f"Q, {kept} kept"))
    yield _apart(Part("saved", (Q - seen) / (Q - least), "", "(Q - seen) / (Q - Q_AB) = "
                      f"({byte(Q)} - {byte(seen)}) / ({byte(Q)} - {byte(least)})",
                      {"over all of Q, not over the reloads": (Q - seen) / Q,
                       "what is left of the reloads, not what was saved":
                       (seen - least) / (Q - least),
                       "bytes seen over Q": seen / Q, "the least over what was seen": least / seen},
                      label="Share of the reloads saved" + SHARE))
    yield _choice("model", "nothing", {
        "nothing": ("nothing: its bytes are the source's own", ""),
        "source": ("that the source's count is right", "It has no other bytes than the source's: "
                   "it cannot disagree."),
        "least": ("that no compiler saves anything", "No compiler was asked: the model reads the "
                  "source.")},
        "A hypothesis about a compiler needs what the compiler made.", "What does a model decide?")


@problem(
    "day7.matmul.published_bytes",
    ask="Published, of a trn1 core: a matmul of {n} × {n} × {n} in bf16 took {T}, as its rate "
        "says, and moved {seen} in {transfers} DMA transfers. It is described as one row tile at a "
        "time, with A and B streamed. Read that as: {rows} rows of A stay while all of B passes "
        "by. What is Q of such code, and what is the least Q? Which share of the bytes loaded "
        "again was saved? How large is a transfer on average, and how many bytes a second moved? "
        "Which hypothesis fits, within 1%?",
    fixed=dict(n=4096, rows=128, seen=631.3e6, transfers=247_017, T=3753.1e-6),
    units=dict(seen="B", T="s"))
def published_bytes(n: int, rows: int, seen: float, transfers: int, T: float) -> Iterator[AnyPart]:
    in_tiles(n=(n, rows))
    op, r_B = Matmul(n, n, n), n // rows
    if r_B < 2:
        raise ValueError("rows has to be below n, or nothing is loaded again")
    Q, least, matrix = op.reloaded(1, r_B).hbm_bytes, op.algorithmic.hbm_bytes, P * n * n
    if seen <= 0 or transfers <= 0 or T <= 0:
        raise ValueError("seen, transfers and T have to be above 0")
    yield _apart(Part("Q_code", Q, "B", f"p n n (1 + n / rows + 1) = {P} bytes × {n:,} × {n:,} × "
                      f"(1 + {r_B} + 1)",
                      {ONCE: least, ELEMENTS: Q / P, NO_C: Q - matrix,
                       "A reloaded as well": op.reloaded(r_B, r_B).hbm_bytes,
                       "what the profiler saw": seen}, label="Q of the code as described"))
    yield _apart(Part("Q_least", least, "B", f"p × 3 n n = {P} bytes × 3 × {n:,} × {n:,}",
                      {ELEMENTS: least / P, NO_C: least - matrix, "4 bytes a number, as in fp32":
                       2 * least, "what the profiler saw": seen}, label="Least Q"))
    yield _apart(Part("saved", (Q - seen) / (Q - least), "", "(Q_code - seen) / (Q_code - Q_least)"
                      f" = ({byte(Q)} - {byte(seen)}) / ({byte(Q)} - {byte(least)})",
                      {"over all of Q_code, not over the reloads": (Q - seen) / Q,
                       "bytes seen over Q_code": seen / Q, "the least over what was seen":
                       least / seen, "the least over Q_code": least / Q},
                      label="Share of the reloads saved" + SHARE))
    mean = seen / transfers
    yield _apart(Part("mean", mean, "B", f"seen / transfers = {byte(seen)} / {transfers:,}",
                      {"the code's bytes over the transfers": Q / transfers,
                       "the least bytes over the transfers": least / transfers, ELEMENTS: mean / P},
                      label="Bytes of a transfer"))
    yield _apart(Part("moved", seen / T, "B/s", f"seen / T = {byte(seen)} / {time(T)}",
                      {"the code's bytes, not the profiler's": Q / T, "the least bytes": least / T,
                       "bytes taken as bits: a factor 8": 8 * seen / T}, label="Bytes a second"))
    near = ["source" for _ in "1" if abs(seen / Q - 1) <= 0.01]
    near += ["once" for _ in "1" if abs(seen / least - 1) <= 0.01]
    yield _choice("fits", (near or ["neither"])[0], {
        "source": ("H1: what the source loads", "Its bytes are not within 1% of seen."),
        "once": ("H2 at its most: every operand once", "Its bytes are not within 1% of seen."),
        "neither": ("neither: some of the reloads were saved", "One of the two is within 1%.")},
        "Between the two a profile says how much was saved, and nothing of which loads.",
        "Which hypothesis fits?")


# --- the same W, published ------------------------------------------------------------------------

@problem(
    "day7.matmul.same_work",
    ask="Published, of one trn2 core, P = {P} and BW = {BW}: kernels for one bf16 matmul, W = {W}. "
        "The slowest takes {slow}: it loads in the innermost loop, into one buffer. The fastest "
        "takes {fast}. (Both are worked out from a published utilisation.) Which share of P does "
        "each reach? As this course reads its description, the slowest keeps only a block of C, "
        "512 × 512, so Q = {Q}. Find its T_worst, with no overlap at all, and how much of {slow} "
        "is beyond it. In which row of a ledger would you look for that? And in which for a "
        "kernel with A and B in SBUF and one group of PSUM banks, where matmuls and copies out of "
        "PSUM wait for each other?",
    fixed=dict(TRN2, W=W, Q=float(OP.reloaded(4, 4).hbm_bytes), slow=1365.4e-6, fast=240.3e-6),
    units=dict(P="FLOP/s", BW="B/s", W="FLOP", Q="B", slow="s", fast="s"))
def same_work(P: float, BW: float, W: float, Q: float, slow: float, fast: float,
              ) -> Iterator[AnyPart]:
    worst = W / P + Q / BW
    if not slow > worst:
        raise ValueError("slow has to be above T_worst, W / P + Q / BW")
    for name, T, other in (("slow", slow, fast), ("fast", fast, slow)):
        yield _share(f"share_{name}", W / P, T, f"W / {name} / P = {flop(W)} / {time(T)} / "
                     f"{rate_(P)}", f"Share of P, the {name}est",
                     {ONE_FLOP: W / 2 / T / P, "the other kernel's time": W / other / P,
                      "P of all 8 cores": W / T / P / 8})
    yield _apart(day5._worst(W / P, Q / BW, "T_worst", "T_worst of the slowest",
                             (W / P, Q / BW)))
    yield _apart(Part("rest", slow - worst, "s", f"slow - T_worst = {ns(slow)} - {ns(worst)}",
                      {"the time itself": slow, "what is beyond W / P": slow - W / P,
                       "the two added": slow + worst, "T_worst": worst},
                      label="Beyond T_worst", follows=("+", slow, ("*", -1.0, "T_worst"))))
    rows: Mapping[str, tuple[str, str]] = {
        "dma": ("wait for DMA", "A and B are there. The matmuls wait until the sums before them "
                "have left PSUM."),
        "vector": ("wait for vector (or for scalar): the engine that empties PSUM",
                   "Nothing is said of PSUM. With one buffer a load waits for the matmul before "
                   "it, and the next matmul for the load."),
        "tiles": ("small tiles: the array is not full", "Nothing says that the tiles are smaller. "
                  "Where they are, the Tensor Engine is busy, not waiting."),
        "bytes": ("extra bytes: more moves than was counted", "More bytes alone do not stop an "
                  "engine: here two things take turns.")}
    yield _choice("row_slow", "dma", rows, "One buffer: a load waits for the matmul that reads the "
                  "one before, and the next matmul for all of the load, its latency too.",
                  "Row of the slowest?")
    yield _choice("row_psum", "vector", rows, "The next sums need the banks that the Vector or the "
                  "Scalar Engine is still copying out.", "Row of one group of banks?")


# --- one change -----------------------------------------------------------------------------------

@problem(
    "day7.matmul.arrive",
    ask=SQUARE + "A row of C, 128 × {n}, takes {n} / 128 steps over K; each needs one load of B, "
        "128 × {n}, and one of a block of A, 128 × {block}. The DMA engines move {DMA} in all, one "
        "load after the other. Before, all of B came first; now the loads of A and B take turns. "
        "How much sooner can the first matmul start? When are B and the block of A there, in "
        "either order? How long do the matmuls of the first row of C take at P = {P} (row)? So "
        "when is this row done with B first, and when with turns? What is gained? What would gain "
        "more?",
    fixed=dict(n=N, block=512, P=PEAK, DMA=DMA), units=dict(P="FLOP/s", DMA="B/s"),
    draw=lambda r: dict(n=r.choice((1536, 2560, 3072)), block=r.choice((128, 256)),
                        DMA=r.choice((180e9, 220e9, 272e9))))
def arrive(n: int, block: int, P: float, DMA: float) -> Iterator[AnyPart]:
    in_tiles(n=(n, WIDE), block=(block, TILE))
    in_tiles(n=(n, block))
    p, steps = day5.P, n // TILE
    load_A, load_B = p * TILE * block, p * TILE * n
    first = (steps * load_B + load_A) / DMA  # the first matmul, if all of B comes before A
    sooner = (steps - 1) * load_B / DMA
    arrived = steps * (load_A + load_B) / DMA
    row = 2 * TILE * n * n / P
    if not load_A / DMA < row / steps < (load_A + load_B) / DMA:
        raise ValueError("a step of matmuls, row / (n / 128), has to lie between the time of one "
                         "load of A and that of one of A and one of B")
    done_apart, done_turns = first + row, arrived + row / steps
    B = steps * load_B
    yield _apart(Part("sooner", sooner, "s", "(p n n - p 128 n) / DMA = "
                      f"({byte(B)} - {byte(load_B)}) / {band(DMA)}\nOne load of B and one of A are "
                      "enough for the first matmul.",
                      {"all of B, though one load of it is still waited for": B / DMA,
                       "A's block counted too": (B - load_B + (steps - 1) * load_A) / DMA,
                       ELEMENTS: sooner / p, "one load of B, not the others": load_B / DMA,
                       "HBM's bandwidth, not the engines'": sooner * DMA / BW},
                      label="First matmul sooner by"))
    yield _apart(Part("arrived", arrived, "s", "(p n n + p n block) / DMA = "
                      f"({byte(B)} + {byte(steps * load_A)}) / {band(DMA)}",
                      {"B alone": B / DMA, "all of A, not a block": 2 * B / DMA,
                       ELEMENTS: arrived / p, "the block of A alone": steps * load_A / DMA,
                       "HBM's bandwidth, not the engines'": arrived * DMA / BW},
                      label="B and the block of A are there"))
    yield _apart(Part("row", row, "s", "2 × 128 × n × n / P = "
                      f"{flop(2 * TILE * n * n)} / {rate_(P)}",
                      {ONE_FLOP: row / 2, "all rows of C": row * n / TILE,
                       "one tile of C, not the row": row * WIDE / n,
                       "the rows of the whole block": row * block / TILE}
                      if block > TILE else
                      {ONE_FLOP: row / 2, "all rows of C": row * n / TILE,
                       "one tile of C, not the row": row * WIDE / n},
                      label="Matmuls of the first row of C"))
    yield _apart(Part("done_apart", done_apart, "s", "(p n n + p 128 block) / DMA + row = "
                      f"({byte(B)} + {byte(load_A)}) / {band(DMA)} + {ns(row)}\nThe other loads of "
                      "A come faster than the matmuls use them.",
                      {"the row left out": first, "the loads left out": row,
                       "the whole row after the last byte": arrived + row,
                       "the matmuls all hidden": arrived + row / steps},
                      label="First row of C done, B first"))
    yield _apart(Part("done_turns", done_turns, "s", f"arrived + row × 128 / n = {ns(arrived)} + "
                      f"{ns(row)} × 128 / {n:,}\nThe matmuls use a pair of loads faster than the "
                      "next pair comes, so only those of the last pair are left.",
                      {"the start alone sooner, nothing waits": done_apart - sooner,
                       "the whole row after the last byte": arrived + row,
                       "B alone waited for": B / DMA, "as with B first": done_apart},
                      label="First row of C done, in turns",
                      follows=("+", "arrived", ("*", TILE / n, "row"))))
    gain = done_apart - done_turns
    yield _apart(Part("gain", gain, "s", "done_apart - done_turns = "
                      f"{ns(done_apart)} - {ns(done_turns)}",
                      {"all that the first matmul gains": sooner, "all of the row": row,
                       "taken the wrong way round": -gain, "the two added":
                       done_apart + done_turns}, label="Gained",
                      follows=("+", "done_apart", ("*", -1.0, "done_turns"))))
    yield _choice("more", "fewer", {
        "fewer": ("work that needs fewer bytes first: a part of C that needs a part of B", ""),
        "order": ("another order of the same loads", "The first row of C needs all of B in any "
                  "order, and B takes as long in each."),
        "block": ("a wider block of A", "Then more of A has to come before B is complete, and the "
                  "row needs no more than 128 rows of it.")},
        "What has to arrive before a result can be done sets the time, not what comes first.",
        "What would gain more?")


PROBLEMS = collect(globals())
