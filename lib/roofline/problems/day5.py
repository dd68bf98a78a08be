"""Day 5: buffers, reuse and fusion.

Question  which bytes does this mapping move, does it fit on chip, and what does fusing change?
Answer    PROBLEMS, in the order of the day's two pages; ids begin with day5.
Assumes   bf16 on one physical core unless said; tiles as `machine` has them
Ignores   what a compiler adds to the source, and overlap as it is measured (Day 7)
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial

from .. import machine
from ..check import AnyPart, Choice, Follow, Part, collect, problem
from ..count import Count
from ..ops import BYTES, MLP, MODELS, Attention, Linear, Matmul, SwiGLU
from ..units import mebi, show
from . import day2
from .day3 import ONE_FLOP

flop, byte, per_byte, time, rate, band = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "FLOP/B", "s", "FLOP/s", "B/s"))

P = BYTES["bf16"]  # bytes of one number
TILE, WIDE, BANKS = (int(machine.trn2.facts[name].value)
                     for name in ("pmax", "gemm_moving_fmax", "psum_num_banks"))

SBUF = {name: int(machine.get(name, "core").facts["sbuf_bytes"].value)
        for name in ("trn1", "trn2")}
FP32 = BYTES["fp32"]  # bytes of a partial sum

ELEMENTS = "elements counted, not bytes"
UPSIDE_DOWN = "the ratio upside down: bytes over FLOPs"
ONCE = "each operand loaded once"
SWAPPED = "r_A and r_B swapped"
NO_C = "C left out, though its store crosses"
MEGA = "MB taken for MiB"


def in_tiles(**sizes: tuple[int, int]) -> None:
    """Raises ValueError for a size that its tile does not divide."""
    for name, (size, tile) in sizes.items():
        if size % tile:
            raise ValueError(f"{name} has to be a multiple of {tile}, got {size:,}")


def _intensity(W: int, Q: int, slips: Mapping[str, float], name: str = "I", Q_name: str = "Q",
               label: str = "") -> Part:
    return Part(name, W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {UPSIDE_DOWN: Q / W, ONE_FLOP: W / 2 / Q, "divided by elements, not by bytes":
                 P * W / Q, **slips}, label=label, follows=("/", W, Q_name))


def _reloaded(op: Matmul, r_A: int, r_B: int, name: str = "Q", label: str = "",
              own: tuple[Follow, Follow] = ("r_A", "r_B")) -> Part:
    """Q of a matmul with given reloads. own: the reader's r_A and r_B."""
    M, K, N = op.M, op.K, op.N
    Q, C = op.reloaded(r_A, r_B).hbm_bytes, P * M * N
    return Part(name, Q, "B", f"p (r_A M K + r_B K N + M N) = {P} bytes × ({r_A} × {M:,} × {K:,} + "
                f"{r_B} × {K:,} × {N:,} + {M:,} × {N:,})",
                {ONCE: op.algorithmic.hbm_bytes, ELEMENTS: Q / P, NO_C: Q - C,
                 SWAPPED: op.reloaded(r_B, r_A).hbm_bytes,
                 "4 bytes a number, as in fp32": 2 * Q,
                 "A left out": Q - P * r_A * M * K, "B left out": Q - P * r_B * K * N},
                label=label,
                follows=("*", P, ("+", ("*", own[0], M * K), ("*", own[1], K * N), M * N)))


def _times(name: str, value: int, why: str, slips: Mapping[str, float], label: str,
           extra: Mapping[str, float] | None = None) -> Part:
    """A count; a slip that comes to the right one is left out."""
    return Part(name, value, "", why, {text: other for text, other in slips.items()
                                       if other != value}, label=label, extra=extra or {},
                exact=True)


def _matmul_work(op: Matmul) -> Part:
    W = op.flops
    return Part("W", W, "FLOP", f"2 M N K = 2 × {op.M:,} × {op.N:,} × {op.K:,}",
                {ONE_FLOP: W / 2, "the contraction left out": 2 * op.M * op.N,
                 "the 2 of a multiply-add counted twice": 2 * W,
                 "one row of A counted, not all": W / op.M})


# --- page 1: openers ----------------------------------------------------------------------------

open_bound = replace(
    day2.open_bound, id="day5.open.bound", fixed=dict(day2.ROOFS, W=24e9, Q=60e6))


@problem(
    "day5.open.layer",
    ask=day2.TRN2 + day2.LAYER + "Every number crosses HBM once. Find W, Q and I, and the side of "
        "the ridge.",
    fixed=dict(day2.ROOFS, B=192, D=2048, F=8192), units=day2.ROOF_UNITS,
    draw=lambda r: dict(B=r.choice((96, 160, 384, 640)), D=r.choice((1536, 2048, 3072, 5120)),
                        F=r.choice((6144, 8192, 10240))))
def open_layer(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    for part in (day2._work(op), day2._traffic(op), day2._intensity(op)):
        yield day2._apart(part, {})  # P and BW are given: no other source's figure counts here
    yield day2._side(op.flops, op.algorithmic.hbm_bytes, P, BW)


@problem(
    "day5.open.sheet",
    ask="A made-up core has an array of {rows} × {columns} PEs, each with one multiply-add a "
        "cycle, at {clock}. Its device has {device} of HBM bandwidth, shared evenly by {cores} "
        "cores. Find the core's P, its BW and its ridge. What rate is left (rate) for matmuls that "
        "contract over only {K} of the {rows} rows?",
    fixed=dict(rows=128, columns=128, clock=2e9, device=1.6e12, cores=4, K=96),
    units=dict(clock="Hz", device="B/s"),
    draw=lambda r: dict(columns=r.choice((64, 128, 256)), clock=r.choice((1e9, 1.2e9, 1.6e9, 3e9)),
                        device=r.choice((0.8e12, 1.2e12, 2.4e12)), cores=r.choice((3, 4, 6)),
                        K=r.choice((16, 32, 96, 112))))
@day2.told
def open_sheet(rows: int, columns: int, clock: float, device: float, cores: int, K: int,
               ) -> Iterator[AnyPart]:
    if K > rows:
        raise ValueError(f"K has to be at most rows, {rows:,}; got {K:,}")
    peak, share = rows * columns * 2 * clock, device / cores
    yield Part("P", peak, "FLOP/s", f"rows × columns × 2 × clock = {rows} × {columns} × 2 × "
               f"{show(clock, 'Hz', digits=4)}".replace("Hz", "FLOP/s"),
               {ONE_FLOP: peak / 2, "one row of PEs, not the array": peak / rows,
                f"{cores} cores, not one": peak * cores}, label="P of one core")
    yield Part("BW", share, "B/s", f"device / cores = {band(device)} / {cores}",
               {"the whole device's, not one core's share": device,
                "half of it, as if reads and writes had a link each": share / 2,
                "bytes taken as bits: a factor 8": 8 * share}, label="BW of one core")
    yield Part("ridge", peak / share, "FLOP/B", f"P / BW = {rate(peak)} / {band(share)}",
               {"the ratio upside down: BW over P": share / peak, ONE_FLOP: peak / share / 2,
                "P of one core over BW of the device": peak / device,
                "T and G mixed up: 1 T is 1000 G": peak / share / 1000},
               label="Ridge", follows=("/", "P", "BW"))
    yield Part("rate", peak * K / rows, "FLOP/s", f"P × K / rows = {rate(peak)} × {K} / {rows}",
               {"all rows taken as filled": peak, "the share that is idle": peak * (1 - K / rows),
                "both sides of the array taken as narrow": peak * (K / rows)**2,
                ONE_FLOP: peak * K / rows / 2}, label="Rate with K rows filled",
               follows=("*", "P", K / rows))


# --- reuse inside one op ------------------------------------------------------------------------

@problem(
    "day5.uses",
    ask="C = A B in bf16; A is {M} × {K}, B is {K} × {N}. In how many multiply-adds is each "
        "element of A used, and each of B? How many multiply-adds are there in all? If no input "
        "stayed on chip, so that each of them had to fetch its two numbers, how many bytes would "
        "be read (none)? And if every element were fetched once and then stayed (once)? What "
        "decides how often an element is used?",
    fixed=dict(M=640, K=512, N=1536),
    draw=lambda r: (lambda sizes: dict(zip("MKN", sizes, strict=True)))(
        r.sample((256, 384, 640, 896, 1280, 2048, 3072), 3)))
@day2.told
def uses(M: int, K: int, N: int) -> Iterator[AnyPart]:
    adds = M * K * N
    yield Part("A", N, "", f"N = {N:,}\nAn element of A meets every column of B.",
               {"M in place of N: that is how often B's are used": M,
                "K in place of N: that is the length of one sum": K,
                "FLOPs counted, not multiply-adds": 2 * N}, label="Uses of each element of A",
               exact=True)
    yield Part("B", M, "", f"M = {M:,}\nAn element of B meets every row of A.",
               {"N in place of M: that is how often A's are used": N,
                "K in place of M: that is the length of one sum": K,
                "FLOPs counted, not multiply-adds": 2 * M}, label="Uses of each element of B",
               exact=True)
    yield Part("adds", adds, "", f"M × K × N = {M:,} × {K:,} × {N:,}",
               {"FLOPs counted, not multiply-adds": 2 * adds,
                "the numbers of C; each takes K of them": M * N,
                "the elements of A and B": M * K + K * N}, label="Multiply-adds in all")
    yield Part("none", 2 * P * adds, "B", f"2 × p × adds = 2 × {P} bytes × {adds:,}",
               {ELEMENTS: 2 * adds, "one number fetched, not two": P * adds,
                "each element fetched once": P * (M * K + K * N),
                "4 bytes a number, as in fp32": 4 * P * adds},
               label="Bytes read, no input stays", follows=("*", 2 * P, "adds"))
    yield Part("once", P * (M * K + K * N), "B", f"p (M K + K N) = {P} bytes × ({M:,} × {K:,} + "
               f"{K:,} × {N:,})",
               {ELEMENTS: M * K + K * N, "C counted, and it is not read":
                P * (M * K + K * N + M * N), "A left out": P * K * N, "B left out": P * M * K},
               label="Bytes read, each element once")
    yield Choice("decides", "shapes",
                 {"shapes": "the shapes", "order": "the order of the loops",
                  "sbuf": "the size of SBUF", "tiles": "the sizes of the tiles"},
                 "Every sum of C needs its row of A and its column of B, in any order. Order, "
                 "tiles and SBUF decide how many of the uses one fetch serves.",
                 {"order": "An element is used as often in every order; only when changes.",
                  "sbuf": "Room on chip decides how often an element is fetched, not used.",
                  "tiles": "Tiles group the uses; they make none and remove none."},
                 label="What decides the number of uses?")


@problem(
    "day5.traffic",
    ask="C = A B in bf16; A is {M} × {K}, B is {K} × {N}. In a mapping that does not keep much, "
        "each byte of A crosses HBM {r_A} times, each of B {r_B} times, and C is stored once. Find "
        "W, Q and I.",
    fixed=dict(M=2048, K=1024, N=3072, r_A=4, r_B=8),
    draw=lambda r: dict(M=r.choice((1024, 3072)), K=r.choice((512, 1024, 2048)),
                        N=r.choice((1536, 2048, 4096)), r_A=r.choice((2, 4, 6)),
                        r_B=r.choice((8, 12, 16))))
@day2.told
def traffic(M: int, K: int, N: int, r_A: int, r_B: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N)
    Q = op.reloaded(r_A, r_B).hbm_bytes
    yield _matmul_work(op)
    yield replace(_reloaded(op, r_A, r_B), follows=None)
    yield replace(_intensity(op.flops, Q, {ONCE: op.algorithmic.intensity}),
                  follows=("/", "W", "Q"))


@problem(
    "day5.best",
    ask="C = A B, all three {n} × {n} in bf16, and every byte crosses HBM once, the best case. "
        "Find Q and I. From which n on (n_ridge) does the best case reach the ridge of one "
        "physical Trn2 core, {ridge}?",
    fixed=dict(n=1024, ridge=day2.RIDGE), units=dict(ridge="FLOP/B"),
    draw=lambda r: dict(n=128 * r.choice((2, 3, 5, *range(6, 40)))))
@day2.told
def best(n: int, ridge: float) -> Iterator[AnyPart]:
    op = Matmul(n, n, n)
    W, Q = op.flops, op.algorithmic.hbm_bytes
    yield Part("Q", Q, "B", f"p × 3 n² = {P} bytes × 3 × {n:,} × {n:,}",
               {ELEMENTS: Q / P, NO_C: Q * 2 / 3, "4 bytes a number, as in fp32": 2 * Q,
                "C read as well as written": Q * 4 / 3})
    yield _intensity(W, Q, {NO_C: W / Q * 3 / 2, "C read as well as written": W / Q * 3 / 4})
    yield Part("n_ridge", ridge * 3 * P / 2, "", f"ridge × 3 p / 2 = {ridge:.7g} × 3 × {P} / 2\n"
               "I = 2 n³ / (3 p n²) = 2 n / (3 p): it grows with n, as W does with n³ and Q with "
               "n².",
               {"C left out, though its store crosses: two matrices, not three": ridge * P,
                ONE_FLOP: ridge * 3 * P, "elements counted, not bytes": ridge * 3 / 2,
                "the ridge itself: I is a share of n": ridge}, label="n at the ridge")


@problem(
    "day5.tilings",
    ask="C = A B in bf16; A is {M} × {K}, B is {K} × {N}. Tiles are [128, 128] of A and [128, 512] "
        "of B; sums stay in PSUM until they are done. Nest 1 goes over blocks of 128 rows of A: it "
        "loads a block, all of K, and then passes all of B by it, tile by tile. Nest 2 goes over "
        "blocks of 512 columns of B: it loads a block, all of K, and passes all of A by it. For "
        "each find the bytes of the block that stays, r_A and r_B, Q and I. What differs between "
        "the two?",
    fixed=dict(M=1280, K=1024, N=1536),
    draw=lambda r: dict(M=TILE * r.choice((3, 5, 6, 10, 16)), K=TILE * r.choice((3, 6, 8, 12)),
                        N=WIDE * r.choice((2, 3, 4, 6))))
@day2.told
def tilings(M: int, K: int, N: int) -> Iterator[AnyPart]:
    in_tiles(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
    op, m, n, k = Matmul(M, K, N), M // TILE, N // WIDE, K // TILE
    for at, r_A, r_B, tile, size, stays in ((1, 1, m, TILE, M, "rows"),
                                            (2, n, 1, WIDE, N, "columns")):
        block, whole, blocks = P * tile * K, P * size * K, size // tile
        once = f"loads / blocks = {blocks} / {blocks}\nEach block of {stays} is loaded once."
        passes = (f"{'MN'[at - 1]} / {tile} = {size:,} / {tile}\nEach block of {stays} passes all "
                  f"of {'BA'[at - 1]}.")
        who, Q = f", nest {at}", op.reloaded(r_A, r_B).hbm_bytes
        yield Part(f"keeps_{at}", block, "B", f"p × {tile} × K = {P} bytes × {tile} × {K:,}",
                   {ELEMENTS: block / P, "one tile, not all of K": P * tile * TILE,
                    "the whole operand, not one block": whole,
                    "4 bytes a number, as in fp32": 2 * block},
                   label="Bytes that stay" + who)
        yield _times(f"r_A_{at}", r_A, once if at == 1 else passes,
                     {SWAPPED: r_B, ONCE: 1, "each use counted as a load": N,
                      "tiles of 128 columns of B: they have 512": N // TILE,
                      "no input stays, in either nest": n, "the tiles of A counted": m * k},
                     "Crossings of A" + who)
        yield _times(f"r_B_{at}", r_B, passes if at == 1 else once,
                     {SWAPPED: r_A, ONCE: 1, "each use counted as a load": M,
                      "blocks of 512 rows of A: they have 128": M / WIDE,
                      "no input stays, in either nest": m, "the tiles of B counted": n * k},
                     "Crossings of B" + who)
        yield _reloaded(op, r_A, r_B, f"Q_{at}", "Q" + who, (f"r_A_{at}", f"r_B_{at}"))
        yield _intensity(op.flops, Q, {ONCE: op.algorithmic.intensity}, f"I_{at}", f"Q_{at}",
                         "I" + who)
    yield Choice("differs", "Q",
                 {"Q": "Q and I; W is the same", "W": "W and Q", "W_only": "W; Q is the same",
                  "time": "nothing that can be counted: only the time"},
                 "Both do all M N K multiply-adds. What one fetch serves differs, and so Q does.",
                 {"W": "Each multiply-add is done once in both: W follows from the shapes.",
                  "W_only": "It is the other way round: W follows from the shapes.",
                  "time": "The bytes can be counted from the loops, without any run."},
                 label="What differs?")


HAS = {"A": "mk", "B": "kn", "C": "mn"}  # the loops that change an operand's tile
STAYS = {"k": "C", "n": "A", "m": "B"}   # innermost loop -> the tile that it does not change
ORDERS = ("mnk", "nmk", "mkn", "kmn", "nkm", "knm")


def _loads(tensor: str, order: str, counts: Mapping[str, int]) -> int:
    """How often each tile of `tensor` is loaded, the first time included: the steps of the loops
    it does not have, outside the innermost loop that changes it."""
    inner = max((order.index(dim) for dim in HAS[tensor] if counts[dim] > 1), default=0)
    return math.prod(counts[dim] for dim in order[:inner] if dim not in HAS[tensor])


@problem(
    "day5.order",
    ask="A matmul has {m} × {n} tiles of C, each a sum over {k} tiles. Its loops run over these "
        "tiles in the order {order}, outermost first. One tile of A, one of B and one of C fit on "
        "chip. A load stands as far out as it can; an unfinished tile of C that has to make room "
        "is written out and read back. How often does each byte of A cross (r_A), and of B (r_B)? "
        "How often is each tile of C written (C)? Which operand stays through the innermost loop?",
    fixed=dict(m=8, n=2, k=5, order="nkm"), one_of=dict(order=ORDERS),
    draw=lambda r: dict(zip("mnk", r.sample((2, 3, 4, 5, 6, 8, 10), 3), strict=True),
                        order=r.choice(ORDERS)))
@day2.told
def order_(m: int, n: int, k: int, order: str) -> Iterator[AnyPart]:
    counts = dict(m=m, n=n, k=k)
    for tensor, name, what, label in (("A", "r_A", "loads", "Crossings of A"),
                                      ("B", "r_B", "loads", "Crossings of B"),
                                      ("C", "C", "writes", "Writes of each tile of C")):
        (free,) = set("mnk") - set(HAS[tensor])
        times = _loads(tensor, order, counts)
        tiles = math.prod(counts[dim] for dim in HAS[tensor])
        if times > 1:
            why = f"The loop over {free} is outside a loop that changes the tile of {tensor}."
            other = {f"taken as staying: the loop over {free} is outside, and brings it back": 1}
        else:
            why = f"The loop over {free} changes no tile of {tensor}, and no loop inside it does."
            other = {f"taken as coming back: nothing inside the loop over {free} changes it":
                     counts[free]}
        yield Part(name, times, "", f"{what} / tiles = {times * tiles} / {tiles}\n{why}",
                   {**other, "each step counted as a load": m * n * k,
                    **{f"tiles of {dim} counted, a dim that {tensor} has": counts[dim]
                       for dim in HAS[tensor]},
                    f"the tiles of {tensor} counted": tiles}, label=label, exact=True)
    right = STAYS[order[-1]]
    yield Choice("stays", right,
                 {"A": "A, the input: input-stationary", "B": "B, the weights: weight-stationary",
                  "C": "C, the output: output-stationary"},
                 f"The innermost loop goes over {order[-1]}, and {right} has no {order[-1]}: its "
                 "tile is used in every step of that loop.",
                 {tensor: f"The innermost loop goes over {order[-1]}, and the tile of {tensor} "
                          f"changes with {order[-1]}." for tensor in "ABC" if tensor != right},
                 label="Which operand stays?")


@problem(
    "day5.spill",
    ask="C = A B in bf16; A is {M} × {K}, B is {K} × {N}. The loop over K is outermost, in slices "
        "of {slice}: each slice of A and of B crosses once. Only one tile of C is on chip at a "
        "time, and each slice adds to all of C: partial sums go out to HBM in fp32 and are read "
        "back for the next slice. Only what the last slice leaves is stored as bf16. How often do "
        "partial sums make a round trip (trips)? How many bytes is one round trip of all of C "
        "(each)? Find Q and I, and I without the round trips (I_best).",
    fixed=dict(M=1024, K=1024, N=1024, slice=128),
    draw=lambda r: dict(M=TILE * r.choice((6, 8, 12)), N=WIDE * r.choice((2, 3, 5)),
                        **r.choice([dict(K=slice * count, slice=slice)
                                    for slice in (128, 256, 512) for count in (3, 4, 6)])))
@day2.told
def spill(M: int, K: int, N: int, slice: int) -> Iterator[AnyPart]:
    in_tiles(K=(K, slice))
    op, slices = Matmul(M, K, N), K // slice
    once, each = op.algorithmic.hbm_bytes, 2 * FP32 * M * N
    trips = slices - 1
    Q, W = once + trips * each, op.flops
    yield Part("trips", trips, "", f"K / slice - 1 = {K:,} / {slice} - 1\nThe last slice finishes "
               "the sums; what it stores is C.",
               {"the last slice counted: it stores C itself": slices,
                "the first slice left out: its sums leave as well": trips - 1 if trips > 2
                else trips + 2, "writes and reads counted one by one": 2 * trips,
                "K counted, not its slices": K}, label="Round trips of partial sums", exact=True)
    yield Part("each", each, "B", f"2 × 4 × M N = 2 × {FP32} bytes × {M:,} × {N:,}",
               {"written and not read back": each / 2,
                "2 bytes a number: partial sums are fp32": each * P / FP32, ELEMENTS: each / FP32,
                "one tile of C, not all of it": 2 * FP32 * TILE * WIDE},
               label="Bytes of one round trip")
    yield Part("Q", Q, "B", f"p (M K + K N + M N) + trips × each = {P} bytes × ({M:,} × {K:,} + "
               f"{K:,} × {N:,} + {M:,} × {N:,}) + {trips} × {each:,} bytes",
               {"the round trips left out": once, "A and B left out": P * M * N + trips * each,
                "one round trip more: the last slice stores C itself": once + slices * each,
                "partial sums written and not read back": once + trips * each / 2,
                "2 bytes a number: partial sums are fp32": once + trips * each * P / FP32},
               follows=("+", once, ("*", "trips", "each")))
    yield _intensity(W, Q, {"the round trips left out": W / once})
    yield Part("I_best", W / once, "FLOP/B", f"W / (p (M K + K N + M N)) = {flop(W)} / "
               f"{byte(once)}",
               {UPSIDE_DOWN: once / W, ONE_FLOP: W / 2 / once, NO_C: W / (once - P * M * N),
                "divided by elements, not by bytes": P * W / once,
                "the round trips counted in": W / Q}, label="I without the round trips")


@problem(
    "day5.capacity",
    ask="A nest keeps columns of B on chip, all of K, and passes A by them; B is {K} × {N} in "
        "bf16. How many bytes is B? With all of SBUF given to it, in steps of 512 columns, how "
        "many columns fit on trn1, {trn1} (N_trn1), and on trn2, {trn2} (N_trn2)? How often does A "
        "cross then on either (r_A_trn1, r_A_trn2)? What sets r_A here?",
    fixed=dict(K=4096, N=16384, **SBUF), units=dict.fromkeys(SBUF, "B"),
    draw=lambda r: dict(K=r.choice((3072, 3584, 4096, 5120, 6144)),
                        N=r.choice((12288, 14336, 18432, 24576, 28672))))
@day2.told
def capacity(K: int, N: int, trn1: int, trn2: int) -> Iterator[AnyPart]:
    whole = P * K * N
    yield Part("B", whole, "B", f"p K N = {P} bytes × {K:,} × {N:,}\nThat is {mebi(whole)}.",
               {ELEMENTS: whole / P, "4 bytes a number, as in fp32": 2 * whole,
                "one partition's share": whole / TILE}, label="Bytes of B")
    def steps(room: float) -> int:
        return min(int(room // (P * K * WIDE)) * WIDE, -(-N // WIDE) * WIDE)

    mega = 1e6 / 2**20  # MB taken for MiB
    for chip, room in (("trn1", trn1), ("trn2", trn2)):
        if not (fit := steps(room)):
            raise ValueError(f"{chip}: 512 columns of B have to fit in {mebi(room)}")
        yield _times(f"N_{chip}", fit, f"512 × steps = 512 × {fit // WIDE}\nA column has p K = "
                     f"{P * K:,} bytes, so {mebi(room)} hold {room / (P * K):,.1f} of them.",
                     {"4 bytes a number, as in fp32": fit / 2, ELEMENTS: 2 * fit,
                      "one partition's share of a column counted": fit * TILE},
                     f"Columns of B that fit on {chip}",
                     {MEGA: steps(mega * room), "not in whole steps of 512 columns":
                      room / (P * K), MEGA + ", and not in whole steps": mega * room / (P * K)})
    for chip, room in (("trn1", trn1), ("trn2", trn2)):
        fit = steps(room)
        full, last = divmod(N, fit)
        yield _times(f"r_A_{chip}", full + bool(last), "full blocks + last block = "
                     f"{full} + {int(bool(last))}\n{N:,} columns, {fit:,} at a time.",
                     {ONCE: 1, "the last, smaller block left out": full,
                      "a block of 512 columns at a time": N // WIDE,
                      "one pass too many": full + bool(last) + 1,
                      "the columns that fit, not the passes": fit,
                      MEGA: -(-N // (steps(mega * room) or fit))}, f"Crossings of A on {chip}",
                     {"not rounded up: the last block is smaller, and A passes it as well":
                      N / fit})
    yield Choice("sets", "sbuf",
                 {"sbuf": "the columns that fit, so the size of SBUF", "tile": "the 512 columns of "
                  "a moving tile", "M": "the rows of A", "ridge": "the ridge"},
                 "A passes once for every block of columns that is kept. More room keeps more "
                 "columns, and A crosses less often.",
                 {"tile": "Many moving tiles stay at the same time; A passes all of them.",
                  "M": "How many rows A has is in its bytes, not in how often they come.",
                  "ridge": "The ridge says what Q costs; it does not move bytes."},
                 label="What sets r_A?")


# --- reuse across ops: an MLP on one core -------------------------------------------------------

MLP_IS = ("An MLP: h = x W_up, g = gelu(h), y = g W_down, with B = {B} tokens, D = {D}, F = {F}, "
          "bf16. ")
PAGE_MLP = dict(B=2048, D=1024, F=4096)
APART = "Each step is a kernel of its own: it reads its inputs from HBM and writes its result. "
LEFT_OUT = "half of the crossings of h and g left out"


def _mlp_sizes(r: random.Random) -> dict[str, int]:
    D, F = r.choice(((512, 2048), (512, 3072), (1024, 3072), (1024, 5120), (1536, 3072)))
    return dict(B=r.choice((512, 1024, 1536, 3072, 4096, 5120)), D=D, F=F)


def _counted(B: int, D: int, F: int) -> dict[str, int]:
    op = MLP(B, D, F)
    return dict(W=op.flops, Q_fused=op.algorithmic.hbm_bytes,
                Q_apart=op.unfused.algorithmic.hbm_bytes)


@lru_cache  # its steps are joined by name each time, and a question asks ten times
def _least(op: MLP) -> Count:
    return op.algorithmic


def _mlp_work(op: MLP, out: str = "GELU is left out") -> Part:
    W, B, D, F = _least(op).flops, op.B, op.D, op.F
    return Part("W", W, "FLOP", f"4 B D F = 4 × {B:,} × {D:,} × {F:,}\nUp 2 B D F, down 2 B F D; "
                f"{out}.",
                {"one of the two projections left out": W / 2,
                 "the 2 of a multiply-add counted twice": 2 * W,
                 "one token counted, not all": W / B, "D left out": 4 * B * F})


def _mlp_traffic(op: MLP, name: str, label: str = "") -> Part:
    """Q unfused (k = 4) or fused (k = 0)."""
    B, D, F, k = op.B, op.D, op.F, op.k
    Q, other = (_least(one).hbm_bytes for one in (op, op.fused if k else op.unfused))
    wide, weights = P * B * F, 2 * P * D * F
    elements = f"2 × {B:,} × {D:,} + 2 × {D:,} × {F:,}" + f" + 4 × {B:,} × {F:,}" * bool(k)
    return Part(name, Q, "B", f"p (2 B D + 2 D F{' + 4 B F' * bool(k)}) = {P} bytes × ({elements})",
                {ELEMENTS: Q / P, "x and y left out": Q - 2 * P * B * D,
                 "the weights left out": Q - weights,
                 **({"h and g left out, as in one kernel": other, LEFT_OUT: Q - 2 * wide} if k else
                    {"h and g cross, as in three kernels": other,
                     "h crosses, written and read back": Q + 2 * wide,
                     "one of the two weight matrices left out": Q - weights / 2})}, label=label)


@problem(
    "day5.mlp.unfused",
    ask=MLP_IS + APART + "Its work is given, W = 4 B D F = 4 × {B} × {D} × {F} FLOP, with GELU "
        "left out. How many bytes does each step move (up, gelu, down)? How often do h and g cross "
        "in all (k)? Find Q and I.",
    fixed=PAGE_MLP, draw=_mlp_sizes)
@day2.told
def unfused(B: int, D: int, F: int) -> Iterator[AnyPart]:
    op = MLP(B, D, F, k=4)
    thin, wide, weights = P * B * D, P * B * F, P * D * F
    ends = thin + weights + wide
    for name, reads, what in (("up", "B D + D F + B F", "h"), ("down", "B F + F D + B D", "g")):
        part = Part(name, ends, "B", f"p ({reads}) = {P} bytes × ({B:,} × {D:,} + {D:,} × {F:,} + "
                    f"{B:,} × {F:,})",
                    {ELEMENTS: ends / P, f"{what} left out, though it crosses": ends - wide,
                     "the weights left out": ends - weights,
                     "4 bytes a number, as in fp32": 2 * ends},
                    label=f"Bytes of the {name}-projection")
        if name == "down":
            yield Part("gelu", 2 * wide, "B", f"p × 2 B F = {P} bytes × 2 × {B:,} × {F:,}",
                       {ELEMENTS: 2 * B * F, "the read or the write left out": wide,
                        "D columns in place of F": 2 * thin, "4 bytes a number, as in fp32":
                        4 * wide}, label="Bytes of GELU")
        yield part
    yield Part("k", 4, "", "h written + h read + g written + g read = 1 + 1 + 1 + 1",
               {"writes alone, or one tensor alone": 2, "one of the four crossings left out": 3,
                "x and y counted as well: they are input and output": 6,
                "the two bytes of a number counted in": 8}, label="Crossings, h and g together",
               exact=True)
    yield replace(_mlp_traffic(op, "Q"), follows=("+", "up", "gelu", "down"))
    yield _intensity(op.flops, op.algorithmic.hbm_bytes,
                     {"h and g left out, as in one kernel": op.fused.algorithmic.intensity})


@problem(
    "day5.mlp.fused",
    ask=MLP_IS + "Now it is one kernel: both weight matrices are loaded into SBUF once, and each "
        "block of 128 tokens goes through all three steps before the next one. How many bytes are "
        "the weights? Do they fit beside a block in the {room} of a Trn2 core's SBUF? Find W, Q "
        "and I. How many bytes has fusing removed (removed), against three kernels?",
    fixed=dict(PAGE_MLP, room=SBUF["trn2"]), units=dict(room="B"), draw=_mlp_sizes)
@day2.told
def mlp_fused(B: int, D: int, F: int, room: int) -> Iterator[AnyPart]:
    op = MLP(B, D, F)
    weights, block, wide = 2 * P * D * F, P * TILE * (D + F), P * B * F
    yield Part("weights", weights, "B", f"2 × p D F = 2 × {P} bytes × {D:,} × {F:,}\n"
               f"That is {mebi(weights)}.",
               {"one of the two weight matrices left out, or elements counted": weights / 2,
                "three matrices, as in SwiGLU": weights * 3 / 2,
                "4 bytes a number, as in fp32": 2 * weights,
                "x and y counted too": weights + 2 * P * B * D}, label="Bytes of the weights")
    right = "yes" if weights + block <= room else "no"
    yield Choice("fits", right, {"yes": "yes, both at once", "no": "no, not both at once"},
                 f"The weights are {mebi(weights)}, a block of x and g {mebi(block)}, the room "
                 f"{mebi(room)}.",
                 {"no" if right == "yes" else "yes": "Add the weights and a block of 128 tokens, D "
                  "+ F numbers each, and compare with the room."}, label="Do they fit?")
    yield _mlp_work(op)
    yield _mlp_traffic(op, "Q")
    yield replace(_intensity(op.flops, op.algorithmic.hbm_bytes,
                             {"h and g cross, as in three kernels":
                              op.unfused.algorithmic.intensity}), follows=("/", "W", "Q"))
    yield Part("removed", 4 * wide, "B", f"k p B F = 4 × {P} bytes × {B:,} × {F:,}",
               {"one round trip; there are two": 2 * wide, ELEMENTS: 4 * B * F,
                "Q of the three kernels, not the difference": op.unfused.algorithmic.hbm_bytes,
                "D columns in place of F": 4 * P * B * D}, label="Bytes that fusing removed")


def _worst(t_flop: float, t_byte: float, name: str, label: str, own: tuple[Follow, Follow]) -> Part:
    long, short = max(t_flop, t_byte), min(t_flop, t_byte)
    return Part(name, t_flop + t_byte, "s", f"W / P + Q / BW = {time(t_flop)} + {time(t_byte)}",
                {"the longer of the two times, as with full overlap": long,
                 "T_best doubled, as if both times were equal": 2 * long,
                 "the shorter of the two times": short,
                 "the difference, not the sum": long - short}, label=label, follows=("+", *own))


def _t_bytes(Q: float, P: float, BW: float, name: str, who: str) -> Part:
    return Part(f"T_{name}", Q / BW, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
                {"bytes divided by P": Q / P, ELEMENTS: Q / BW / 2,
                 f"BW of all {day2.CORES} cores, not one core's share": Q / BW / day2.CORES},
                label=f"Q / BW, {who}")


@problem(
    "day5.mlp.time",
    ask=day2.TRN2 + "An MLP does W = {W} in bf16 and moves Q = {Q_fused} as one kernel, {Q_apart} "
        "as three. Find the time of the FLOPs (T_flop); for one kernel the time of the bytes "
        "(T_fused), T_best and T_worst (best_fused, worst_fused); the same for three kernels "
        "(T_apart, best_apart, worst_apart). What does fusing do to the entitlement?",
    fixed=dict(day2.ROOFS, W=34_359_738_368, Q_fused=25_165_824, Q_apart=92_274_688),
    units=dict(day2.ROOF_UNITS, W="FLOP", Q_fused="B", Q_apart="B"),
    draw=lambda r: _counted(**_mlp_sizes(r)))
@day2.told
def mlp_time(P: float, BW: float, W: float, Q_fused: float, Q_apart: float) -> Iterator[AnyPart]:
    t_flop = W / P
    yield replace(day2._t_flop(W, Q_apart, P, BW, W), extra={})
    for name, who, Q in (("fused", "one kernel", Q_fused), ("apart", "three kernels", Q_apart)):
        t_byte = Q / BW
        yield _t_bytes(Q, P, BW, name, who)
        yield day2._best(W, Q, P, BW, f"best_{name}", f"T_best, {who}",
                         ("max", "T_flop", f"T_{name}"))
        yield _worst(t_flop, t_byte, f"worst_{name}", f"T_worst, {who}", ("T_flop", f"T_{name}"))
    same = max(Q_fused, Q_apart) / BW <= t_flop
    right = "same" if same else "faster"
    yield Choice("entitled", right,
                 {"same": "nothing: both are entitled to W / P",
                  "faster": "it lowers T_best", "less": "it lowers the rate: fewer bytes a second"},
                 "Both are right of the ridge, with one W and one P. What fusing changes is how "
                 "much has to overlap." if same else
                 "Three kernels are left of the ridge: their bytes take longer than W / P.",
                 {key: text for key, text in {
                     "same": "Compare T_best of the three kernels with W / P.",
                     "faster": "Compare the two T_best: see which term is the longer one in each.",
                     "less": "The entitled rate is W / T_best. Fewer bytes cannot lower it."
                     }.items() if key != right}, label="What does fusing do to the entitlement?")


@problem(
    "day5.gelu",
    ask=day2.TRN2 + "GELU of an MLP takes h (B = {B} tokens, F = {F}, bf16) to g. It runs on the "
        "Scalar Engine: {lanes} lanes, one element each a cycle, at {clock}. As a kernel of its "
        "own, how many bytes does it move (Q), and how long do they take (T_byte)? How many "
        "elements a second does the engine take (rate), and how long does it need (T_scalar)? "
        "Which of the two binds? In one kernel with both projections, D = {D}, what is T_best over "
        "all three roofs (best_fused), and which roof sets it?",
    fixed=dict(day2.ROOFS, lanes=int(day2.CORE.facts["scalar_width"].value),
               clock=day2.CORE.facts["scalar_clock"].value, **PAGE_MLP),
    units=dict(day2.ROOF_UNITS, clock="Hz"),
    draw=lambda r: dict(_mlp_sizes(r), D=r.choice((32, 64, 512, 1024, 1536))))
@day2.told
def gelu(P: float, BW: float, B: int, D: int, F: int, lanes: int, clock: float,
         ) -> Iterator[AnyPart]:
    n, speed, op = B * F, lanes * clock, MLP(B, D, F)
    Q, t_scalar = 2 * day2.P_BF16 * n, n / speed
    t_byte = Q / BW
    yield Part("Q", Q, "B", f"p × 2 B F = {day2.P_BF16} bytes × 2 × {B:,} × {F:,}",
               {ELEMENTS: 2 * n, "the read or the write left out": Q / 2,
                "4 bytes a number, as in fp32": 2 * Q}, label="Bytes of GELU alone")
    yield Part("T_byte", t_byte, "s", f"Q / BW = {byte(Q)} / {band(BW)}",
               {"the read or the write left out, or elements counted": t_byte / 2,
                f"BW of all {day2.CORES} cores, not one core's share": t_byte / day2.CORES,
                "bytes taken as bits: a factor 8": 8 * t_byte}, label="Time of its bytes",
               follows=("/", "Q", BW))
    yield Part("rate", speed, "element/s", f"lanes × clock = {lanes} × {show(clock, 'Hz')}".replace(
                   "Hz", "element/s"),
               {"one lane, not all": clock, "two operations an element, as in a multiply-add":
                2 * speed, f"{day2.CORES} cores, not one": day2.CORES * speed},
               label="Elements a second")
    yield Part("T_scalar", t_scalar, "s", f"B F / rate = {B:,} × {F:,} / {speed:,.0f}",
               {"h and g both counted: an element passes the engine once": 2 * t_scalar,
                "one lane, not all": n / clock,
                "the engine's rate taken for bytes": 2 * t_scalar * day2.P_BF16,
                f"{day2.CORES} cores, not one": t_scalar / day2.CORES}, label="Time on its engine",
               follows=("/", float(n), "rate"))
    alone = "hbm" if t_byte >= t_scalar else "scalar"
    roofs = {"hbm": "HBM", "scalar": "the Scalar Engine", "tensor": "the Tensor Engine"}
    yield Choice("alone", alone, roofs, f"HBM takes {time(t_byte)}, the Scalar Engine "
                 f"{time(t_scalar)}.",
                 {key: text for key, text in {
                     "hbm": "Compare the time of the bytes with the engine's.",
                     "scalar": "Compare the engine's time with that of the bytes.",
                     "tensor": "GELU has no matmul: this engine has nothing to do."}.items()
                  if key != alone}, label="Which roof binds GELU alone?")
    times = {"tensor": op.flops / P, "hbm": op.algorithmic.hbm_bytes / BW, "scalar": t_scalar}
    binds = max(times, key=lambda key: times[key])
    longest = times[binds]
    yield Part("best_fused", longest, "s", "max(W / P, Q / BW, B F / rate) = max("
               + ", ".join(map(time, times.values())) + ")",
               {"all three added, as without overlap": sum(times.values()),
                **{f"the time of {roofs[key]} alone": value for key, value in times.items()
                   if key != binds},
                "h and g cross, as in three kernels": op.unfused.algorithmic.hbm_bytes / BW,
                "P and BW of two cores, as at LNC=2": longest / 2},
               label="T_best in one kernel")
    yield Choice("fused", binds, roofs,
                 f"Tensor Engine {time(times['tensor'])}, HBM {time(times['hbm'])}, Scalar Engine "
                 f"{time(times['scalar'])}: the longest sets T_best.",
                 {key: "Another roof takes longer: compare all three times."
                  for key in roofs if key != binds}, label="Which roof sets it in one kernel?")


# --- any chain ----------------------------------------------------------------------------------

LLAMA = MODELS["llama-3.1-8b"]


@problem(
    "day5.chain",
    ask="A SwiGLU block: a = x W_gate, u = x W_up, s = silu(a) × u, y = s W_down, with B = {B} "
        "tokens, D = {D}, F = {F}, bf16. Weights cross once in every version. As four kernels, how "
        "often do a, u and s cross in all (k_four), and what is Q (Q_four)? Then gate, up and the "
        "product become one kernel and down is another: k_two and Q_two. And all in one: Q_one. "
        "Which intermediates are left with k = 2 in the version with two kernels?",
    fixed=dict(B=2048, D=LLAMA.D, F=LLAMA.F),
    draw=lambda r: dict(B=r.choice((512, 1024, 4096)), D=r.choice((1024, 2048, 3072)),
                        F=r.choice((5632, 8192, 11008))))
@day2.told
def chain(B: int, D: int, F: int) -> Iterator[AnyPart]:
    four, two, one = (SwiGLU(B, D, F, k).algorithmic.hbm_bytes for k in (6, 2, 0))
    thin, wide, weights = P * B * D, P * B * F, 3 * P * D * F
    sizes = f"{B:,} × {D:,}", f"{D:,} × {F:,}", f"{B:,} × {F:,}"
    yield Part("k_four", 6, "", "a + u + s = 2 + 2 + 2\nEach is written once and read once.",
               {"writes alone": 3, "one of the three intermediates left out": 4,
                "x counted as an intermediate: it is an input": 8,
                "one of the six crossings left out": 5}, label="Crossings, four kernels",
               exact=True)
    yield Part("Q_four", four, "B", f"p (3 B D + 3 D F + 6 B F) = {P} bytes × (3 × {sizes[0]} + 3 "
               f"× {sizes[1]} + 6 × {sizes[2]})\nGate and up are two kernels, so each reads x.",
               {ELEMENTS: four / P, "the intermediates left out": four - 6 * wide,
                "half of the crossings left out": four - 3 * wide,
                "two weight matrices, not three": four - weights / 3,
                "the weights left out": four - weights}, label="Q, four kernels",
               extra={"x read once, or y left out: x is read twice, y written": four - thin,
                      "two of these three left out: x read by gate, x read by up, y":
                      four - 2 * thin, "x and y left out": four - 3 * thin})
    yield Part("k_two", 2, "", "a + u + s = 0 + 0 + 2",
               {"the write alone": 1, "a and u cross as well": 6, "u crosses as well": 4,
                "nothing crosses, as in one kernel": 0}, label="Crossings, two kernels", exact=True)
    yield Part("Q_two", two, "B", f"p (2 B D + 3 D F + 2 B F) = {P} bytes × (2 × {sizes[0]} + 3 × "
               f"{sizes[1]} + 2 × {sizes[2]})",
               {ELEMENTS: two / P, "s left out, though it crosses": one,
                "a and u cross as well": two + 4 * wide,
                "two weight matrices, not three": two - weights / 3,
                "the weights left out": two - weights}, label="Q, two kernels",
               extra={"x or y left out": two - thin, "x and y left out": two - 2 * thin,
                      "x read twice: one kernel has gate and up": two + thin})
    yield Part("Q_one", one, "B", f"p (2 B D + 3 D F) = {P} bytes × (2 × {sizes[0]} + 3 × "
               f"{sizes[1]})",
               {ELEMENTS: one / P, "s crosses, as in two kernels": two,
                "two weight matrices, not three": one - weights / 3,
                "the weights left out": one - weights}, label="Q, one kernel",
               follows=("+", "Q_two", -2.0 * wide),
               extra={"x or y left out": one - thin, "x and y left out": one - 2 * thin,
                      "x read twice": one + thin})
    yield Choice("left", "s", {"s": "s", "au": "a and u", "aus": "a, u and s", "x": "x"},
                 "a and u are made and used up inside the first kernel. s is made there and used "
                 "in the other.",
                 {"au": "They are made in the kernel that uses them, and stay there.",
                  "aus": "Two of them are made in the kernel that uses them.",
                  "x": "x is an input of the chain: it has to cross, and is no intermediate."},
                 label="Which are left?")


# --- Do -----------------------------------------------------------------------------------------

TWO_NESTS = ("C = A B in bf16; A is {M} × {K}, B is {K} × {N}. Nest 1 keeps a block of C, {rows} × "
             "{columns}, in PSUM as fp32 while all of K passes in slices of 128: a slice of the "
             "block's rows of A and of its columns of B each time. Nest 2 keeps all of B in SBUF "
             "and passes A by it once. ")
NESTS = dict(M=1536, K=1024, N=2048, rows=256, columns=1024)
OWN_NESTS = '(In JupyterLab, give your own: ask("{}", M=..., K=..., N=..., rows=..., columns=...).)'


def _own_nests(r: random.Random) -> dict[str, int]:
    rows, columns = r.choice(((128, 1024), (256, 512), (256, 1024), (512, 1024), (128, 2048)))
    return dict(K=TILE * r.choice((4, 6, 10, 12)), M=rows * r.choice((3, 5, 6)),
                N=columns * r.choice((2, 3, 4)), rows=rows, columns=columns)


def _checked(M: int, K: int, N: int, rows: int, columns: int) -> Matmul:
    in_tiles(rows=(rows, TILE), columns=(columns, WIDE), M=(M, rows), K=(K, TILE), N=(N, columns))
    banks = rows * columns // (TILE * WIDE)
    if banks > BANKS:
        raise ValueError(f"a block of {rows:,} × {columns:,} takes {banks} of {BANKS} PSUM banks")
    return Matmul(M, K, N)


@problem(
    "day5.do.two_tilings",
    ask=TWO_NESTS + "How many bytes are the block of C on chip, and all of B? Find r_A and r_B of "
        "nest 1, and of nest 2. Of which operand is a block stationary in nest 1? "
        + OWN_NESTS.format("day5.do.two_tilings"),
    fixed=NESTS, draw=_own_nests)
@day2.told
def two_tilings(M: int, K: int, N: int, rows: int, columns: int) -> Iterator[AnyPart]:
    _checked(M, K, N, rows, columns)
    m, n, k = M // rows, N // columns, K // TILE
    block, B = FP32 * rows * columns, P * K * N
    yield Part("block", block, "B", f"4 × rows × columns = {FP32} bytes × {rows} × {columns:,}",
               {"2 bytes a number: PSUM holds fp32": block / 2, ELEMENTS: block / FP32,
                "all of C, not one block": FP32 * M * N, "one PSUM bank, not the block":
                FP32 * TILE * WIDE}, label="Bytes of the block of C")
    yield Part("B", B, "B", f"p K N = {P} bytes × {K:,} × {N:,}",
               {ELEMENTS: B / P, "4 bytes a number: SBUF holds bf16": 2 * B,
                "one partition's share": B / TILE}, label="Bytes of all of B")
    yield _times("r_A_1", n, f"N / columns = {N:,} / {columns:,}",
                 {SWAPPED: m, ONCE: 1, "a moving tile's 512 columns, not the block's": N // WIDE,
                  "the block's rows in place of its columns": N // rows,
                  "each use counted as a load": N, "slices of K counted": k},
                 "Crossings of A, nest 1")
    yield _times("r_B_1", m, f"M / rows = {M:,} / {rows:,}",
                 {SWAPPED: n, ONCE: 1, "a stationary tile's 128 rows, not the block's": M // TILE,
                  "the block's columns in place of its rows": M / columns,
                  "each use counted as a load": M, "slices of K counted": k},
                 "Crossings of B, nest 1")
    for name, blocks, first, why in (
            ("A", M // TILE, n, "Each block of 128 rows of A passes B, and does not come back."),
            ("B", 1, m, "B is loaded once, before all loops, and stays.")):
        yield _times(f"r_{name}_2", 1, f"loads / blocks = {blocks} / {blocks}\n{why}",
                     {"as often as in nest 1": first, "blocks of 128 rows counted": M // TILE,
                      "blocks of 512 columns counted": N // WIDE, "slices of K counted": k},
                     f"Crossings of {name}, nest 2")
    yield Choice("stationary", "C", {"A": "A: input-stationary", "B": "B: weight-stationary",
                                     "C": "C: output-stationary"},
                 "The block of C stays until it is finished; slices of A and B pass it.",
                 {"A": "Its slices pass: another one for every slice of K.",
                  "B": "Its slices pass. In nest 2 B stays."},
                 label="Which operand is stationary in nest 1?")


@problem(
    "day5.do.count_both",
    ask=TWO_NESTS + "Find W of either, Q and I of nest 1 (Q_1, I_1), Q and I of nest 2 (Q_2, I_2), "
        "and how many times more nest 1 moves (more). "
        + OWN_NESTS.format("day5.do.count_both"),
    fixed=NESTS, draw=_own_nests)
@day2.told
def count_both(M: int, K: int, N: int, rows: int, columns: int) -> Iterator[AnyPart]:
    op = _checked(M, K, N, rows, columns)
    r_A, r_B = N // columns, M // rows
    first, second = op.reloaded(r_A, r_B), op.algorithmic
    yield _matmul_work(op)
    yield replace(_reloaded(op, r_A, r_B, "Q_1", "Q, nest 1"), follows=None)
    yield replace(_intensity(op.flops, first.hbm_bytes, {ONCE: second.intensity}, "I_1", "Q_1",
                             "I, nest 1"), follows=("/", "W", "Q_1"))
    yield replace(_reloaded(op, 1, 1, "Q_2", "Q, nest 2"), follows=None)
    yield replace(_intensity(op.flops, second.hbm_bytes, {"as in nest 1": first.intensity}, "I_2",
                             "Q_2", "I, nest 2"), follows=("/", "W", "Q_2"))
    yield Part("more", first.hbm_bytes / second.hbm_bytes, "", f"Q_1 / Q_2 = "
               f"{byte(first.hbm_bytes)} / {byte(second.hbm_bytes)}",
               {"r_A alone": r_A, "r_B alone": r_B, "the ratio upside down":
                second.hbm_bytes / first.hbm_bytes, "r_A and r_B multiplied": r_A * r_B,
                "the growth alone, not the ratio": first.hbm_bytes / second.hbm_bytes - 1},
               label="Q of nest 1 over Q of nest 2", follows=("/", "Q_1", "Q_2"))


@problem(
    "day5.do.mlp",
    ask=MLP_IS + "Redo its counts without looking, for a physical Trn2 core, BW = {BW}. Find W; Q, "
        "I and Q / BW in three kernels (Q_apart, I_apart, T_apart) and in one (Q_fused, I_fused, "
        "T_fused); how many bytes fusing removes (removed); the bytes of both weight matrices "
        "(weights), and of GELU as a kernel of its own (Q_gelu).",
    fixed=dict(PAGE_MLP, BW=day2.ROOFS["BW"]), units=dict(BW="B/s"), draw=_mlp_sizes)
@day2.told
def do_mlp(B: int, D: int, F: int, BW: float) -> Iterator[AnyPart]:
    yield _mlp_work(MLP(B, D, F))
    for name, who, op in (("apart", "three kernels", MLP(B, D, F, k=4)),
                          ("fused", "one kernel", MLP(B, D, F, k=0))):
        yield _mlp_traffic(op, f"Q_{name}", f"Q, {who}")
        count = _least(op)
        yield replace(_intensity(count.flops, count.hbm_bytes, {}, f"I_{name}", f"Q_{name}",
                                 f"I, {who}"), follows=("/", "W", f"Q_{name}"))
        yield replace(_t_bytes(count.hbm_bytes, day2.ROOFS["P"], BW, name, who),
                      follows=("/", f"Q_{name}", BW))
    weights, wide = 2 * P * D * F, 2 * P * B * F
    yield Part("removed", 2 * wide, "B", f"Q_apart - Q_fused = 4 × {P} bytes × {B:,} × {F:,}",
               {"one round trip; there are two": wide, ELEMENTS: 4 * B * F,
                "D columns in place of F": 4 * P * B * D}, label="Bytes that fusing removes")
    yield Part("weights", weights, "B", f"2 × p D F = 2 × {P} bytes × {D:,} × {F:,}\nThat is "
               f"{mebi(weights)}.",
               {"one of the two weight matrices left out": weights / 2,
                "4 bytes a number, as in fp32": 2 * weights,
                "one partition's share": weights / TILE}, label="Bytes of the weights")
    yield Part("Q_gelu", wide, "B", f"p × 2 B F = {P} bytes × 2 × {B:,} × {F:,}",
               {"the read or the write left out": wide / 2,
                "4 bytes a number, as in fp32": 2 * wide,
                "D columns in place of F": 2 * P * B * D}, label="Bytes of GELU alone")


@problem(
    "day5.do.mlp_time",
    ask=day2.TRN2 + "Now the times of the MLP with B = {B}, D = {D}, F = {F} in bf16, from nothing "
        "but its sizes. Find W / P (T_flop); T_best and T_worst in three kernels (best_apart, "
        "worst_apart) and in one (best_fused, worst_fused); and the time of GELU's bytes as a "
        "kernel of its own (T_gelu).",
    fixed=dict(day2.ROOFS, **PAGE_MLP), units=day2.ROOF_UNITS, draw=_mlp_sizes)
@day2.told
def do_mlp_time(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    W, fused, apart = _counted(B, D, F).values()
    wide = 2 * day2.P_BF16 * B * F
    yield replace(day2._t_flop(W, apart, P, BW, float(W)), extra={})
    for name, who, Q in (("apart", "three kernels", apart), ("fused", "one kernel", fused)):
        yield day2._best(W, Q, P, BW, f"best_{name}", f"T_best, {who}", ("max", "T_flop", Q / BW))
        yield _worst(W / P, Q / BW, f"worst_{name}", f"T_worst, {who}", ("T_flop", Q / BW))
    yield Part("T_gelu", wide / BW, "s", f"2 p B F / BW = 2 × {day2.P_BF16} × {B:,} × {F:,} bytes "
               f"/ {band(BW)}",
               {"the read or the write left out": wide / BW / 2, "bytes divided by P": wide / P,
                f"BW of all {day2.CORES} cores, not one core's share": wide / BW / day2.CORES,
                "bytes taken as bits: a factor 8": 8 * wide / BW}, label="Time of GELU's bytes")


GPT2 = MODELS["gpt2"]


@problem(
    "day5.do.chain",
    ask="The MLP block of a transformer without a gate, such as GPT-2: n = norm(x), h = n W_up, g "
        "= act(h), o = g W_down, y = x + o, with B = {B} tokens, D = {D}, F = {F}, bf16; biases "
        "and the norm's own weights are left out. As five kernels, how often do the intermediates "
        "cross, all together (k)? Find W, with norm, act and add left out, and Q and I as five "
        "kernels (Q_apart, I_apart) and as one (Q_fused, I_fused); the one kernel keeps its block "
        "of x for the last add. Which intermediates are widest? (In JupyterLab, give your own: "
        'ask("day5.do.chain", B=..., D=..., F=...).)',
    fixed=dict(B=1024, D=GPT2.D, F=GPT2.F),
    draw=lambda r: dict(B=r.choice((512, 2048, 4096)), D=r.choice((1024, 2048, 4096)),
                        F=r.choice((6144, 11008, 14336))))
@day2.told
def do_chain(B: int, D: int, F: int) -> Iterator[AnyPart]:
    op, thin, wide, weights = MLP(B, D, F), P * B * D, P * B * F, 2 * P * D * F
    W, fused = op.flops, op.algorithmic.hbm_bytes
    between = 2 * (2 * thin + 2 * wide)
    apart = fused + thin + between
    yield Part("k", 8, "", "n + h + g + o = 2 + 2 + 2 + 2\nEach is written once and read once.",
               {"h and g alone: n and o cross as well": 4, "writes alone, or the intermediates "
                "counted, not their crossings": 4, "one of the four intermediates left out": 6,
                "x counted as an intermediate: it is an input": 10,
                "y counted as an intermediate: it is the output": 9},
               label="Crossings, all together", exact=True)
    yield _mlp_work(op, "norm, act and add are left out")
    yield Part("Q_apart", apart, "B", f"p (7 B D + 2 D F + 4 B F) = {P} bytes × (7 × {B:,} × {D:,} "
               f"+ 2 × {D:,} × {F:,} + 4 × {B:,} × {F:,})\nx is read by the norm and by the add; "
               "n and o cross twice each; y is written.",
               {ELEMENTS: apart / P, "the intermediates left out": apart - between,
                "the weights left out": apart - weights, "h and g left out": apart - 4 * wide},
               label="Q, five kernels",
               extra={"n and o left out": apart - 4 * thin})
    yield replace(_intensity(W, apart, {"the intermediates left out": W / (apart - between)},
                             "I_apart", "Q_apart", "I, five kernels"),
                  follows=("/", "W", "Q_apart"))
    yield Part("Q_fused", fused, "B", f"p (2 B D + 2 D F) = {P} bytes × (2 × {B:,} × {D:,} + 2 × "
               f"{D:,} × {F:,})",
               {ELEMENTS: fused / P, "h and g cross, as in five kernels": fused + 4 * wide,
                "the weights left out": fused - weights,
                "one of the two weight matrices left out": fused - weights / 2},
               label="Q, one kernel", extra={"x read twice: the one kernel keeps it": fused + thin})
    yield replace(_intensity(W, fused, {"the intermediates counted": W / apart}, "I_fused",
                             "Q_fused", "I, one kernel"), follows=("/", "W", "Q_fused"))
    right = "hg" if F > D else "no" if F < D else "same"
    yield Choice("widest", right, {"hg": "h and g", "no": "n and o", "same": "all four alike",
                                   "x": "x and y"},
                 "n and o have D numbers a token, h and g have F.",
                 {key: text for key, text in {
                     "hg": "Compare F with D.", "no": "Compare D with F.",
                     "same": "Two of them have D numbers a token, two have F.",
                     "x": "These are the chain's input and output; they cross in any version."
                     }.items() if key != right}, label="Which intermediates are widest?")


# --- check yourself -----------------------------------------------------------------------------

@problem(
    "day5.check.attention",
    ask="One attention head, L = {L} tokens, head size d = {d}, bf16: S = Q Kᵀ, A = softmax(S), O "
        "= A V, softmax left out of W. Find W. Then Q and I with S and A each written and read "
        "(Q_apart, I_apart), and with both kept on chip (Q_fused, I_fused). On which side of the "
        "ridge of one physical Trn2 core, {ridge}, does each lie (apart, fused)?",
    fixed=dict(L=4096, d=128, ridge=day2.RIDGE), units=dict(ridge="FLOP/B"),
    draw=lambda r: dict(L=1024 * r.choice((1, 2, 3, 5, 8, 16)), d=r.choice((32, 64, 128))))
@day2.told
def check_attention(L: int, d: int, ridge: float) -> Iterator[AnyPart]:
    op = Attention(L, d)
    W, ends, wide = op.flops, 4 * P * L * d, P * L * L
    yield Part("W", W, "FLOP", f"4 L² d = 4 × {L:,} × {L:,} × {d}\nQ Kᵀ is 2 L² d, A V is 2 L² d.",
               {"one of the two products left out": W / 2, "the 2 of a multiply-add counted twice":
                2 * W, "d left out": 4 * L * L, "L once, not squared": 4 * L * d})
    for name, who, Q in (("apart", "S and A cross", op.unfused.algorithmic.hbm_bytes),
                         ("fused", "S and A stay", op.fused.algorithmic.hbm_bytes)):
        sizes = f"4 × {L:,} × {d}" + f" + 4 × {L:,} × {L:,}" * (name == "apart")
        yield Part(f"Q_{name}", Q, "B", f"p (4 L d{' + 4 L²' * (name == 'apart')}) = {P} bytes × "
                   f"({sizes})\nQ, K, V and O have {mebi(ends / 4)} each"
                   + f", S and A {mebi(wide)}" * (name == "apart") + f"; in all {mebi(Q)}.",
                   {ELEMENTS: Q / P, **({
                       "S and A left out": ends, "S and A written, not read back, or one of the "
                       "two left out": ends + 2 * wide, "4 bytes a number, as in fp32": 2 * Q}
                       if name == "apart" else {
                       "S and A cross": ends + 4 * wide, "O left out, though its store crosses":
                       ends * 3 / 4, "S crosses, written and read back": ends + 2 * wide})},
                   label=f"Q, {who}",
                   extra={"Q, K, V and O left out": 4 * wide} if name == "apart" else {})
        yield replace(_intensity(W, Q, {"one of the two products left out": W / 2 / Q,
                                        "S and A left out" if name == "apart" else "S and A cross":
                                        W / (ends if name == "apart" else ends + 4 * wide)},
                                 f"I_{name}", f"Q_{name}", f"I, {who}"),
                      follows=("/", "W", f"Q_{name}"))
        yield replace(day2.day1._side(W / Q, ridge), name=name, label=f"Side of the ridge, {who}")


# --- page 2: a matmul from its source -------------------------------------------------------------

STEP = ("C = A B in bf16; A is {M} × {K}, B is {K} × {N}. Three loops go over tiles of M, N and K. "
        "The innermost step loads a tile of A, [128, 128], and a tile of B, [128, 512], and "
        "multiplies them. ")
SIZES = dict(M=1280, K=512, N=2048)


@problem(
    "day5.count.reload",
    ask=STEP + "Sums stay in PSUM until they are done; then C leaves in tiles of [128, 512]. How "
        "often does the line that loads A run? How often does each byte of A cross HBM (r_A), "
        "and of B (r_B)? Find Q and I. Which line moves the most bytes?",
    fixed=SIZES,
    draw=lambda r: dict(M=TILE * r.choice((3, 5, 6, 7, 9, 12)), K=TILE * r.choice((3, 5, 6, 8)),
                        N=WIDE * r.choice((2, 3, 5, 6))))
def reload(M: int, K: int, N: int) -> Iterator[AnyPart]:
    in_tiles(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
    op, m, k, n = Matmul(M, K, N), M // TILE, K // TILE, N // WIDE
    W, count = op.flops, op.reloaded(n, m)
    Q, C = count.hbm_bytes, P * M * N
    yield Part("runs", m * n * k, "", f"M / 128 × N / 512 × K / 128 = {m} × {n} × {k}",
               {"one of the loops left out: it runs in all three": m * k,
                "tiles of 128 columns of B: they have 512": m * k * N // TILE,
                "the loop over M left out": n * k,
                "multiply-adds counted, not steps": M * N * K}, label="Runs of the line",
               exact=True)
    yield Part("r_A", n, "", f"N / 512 = {N:,} / 512\nA tile of A is loaded for each of the "
               f"{n} columns of C tiles.",
               {"r_A and r_B swapped": m, "each use counted as a load: a tile in SBUF serves many":
                N, "a row of 128 in place of a moving tile's 512 columns": N / TILE,
                "each tile loaded once": 1}, label="Crossings of A", exact=True)
    yield Part("r_B", m, "", f"M / 128 = {M:,} / 128\nA tile of B is loaded for each of the "
               f"{m} rows of C tiles.",
               {"r_A and r_B swapped": n, "each use counted as a load: a tile in SBUF serves many":
                M, "a moving tile's 512 in place of a stationary tile's 128": M / WIDE,
                "each tile loaded once": 1}, label="Crossings of B", exact=True)
    yield Part("Q", Q, "B", f"p (r_A M K + r_B K N + M N) = {P} bytes × ({n} × {M:,} × {K:,} + {m} "
               f"× {K:,} × {N:,} + {M:,} × {N:,})",
               {"each tile loaded once": op.algorithmic.hbm_bytes, ELEMENTS: Q / P,
                "C left out, though its store crosses": Q - C,
                "C stored for every tile of K: PSUM adds up": Q + (k - 1) * C},
               follows=("*", P, ("+", ("*", "r_A", M * K), ("*", "r_B", K * N), M * N)),
               extra={"r_A and r_B swapped": op.reloaded(m, n).hbm_bytes})
    yield _intensity(W, Q, {"each tile loaded once": op.algorithmic.intensity})
    yield Choice("line", "b",
                 {"a": "the load of A", "b": "the load of B", "c": "the store of C",
                  "same": "the two loads alike: they run equally often"},
                 "Both loads run in every step, and a tile of B is four times a tile of A. A store "
                 "runs once for every K / 128 steps.",
                 {"a": "Its tile is the smaller one, and it runs as often as the load of B.",
                  "c": "It runs once a C tile; a load runs once a step.",
                  "same": "They do, and their tiles differ in size."},
                 label="Which line moves the most?")


@problem(
    "day5.count.twice",
    ask=STEP + "Now the line that loads A stands there twice, one below the other. By how many "
        "bytes does Q grow? What is the new Q over the old one? What becomes of W and of C?",
    fixed=SIZES, draw=reload.draw)
def twice(M: int, K: int, N: int) -> Iterator[AnyPart]:
    in_tiles(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
    m, n, k = M // TILE, N // WIDE, K // TILE
    Q, runs, tile = Matmul(M, K, N).reloaded(n, m).hbm_bytes, m * n * k, P * TILE * TILE
    more = runs * tile
    yield Part("more", more, "B", f"runs × tile = {runs} × {P} bytes × 128 × 128\nThe line runs "
               f"M / 128 × N / 512 × K / 128 = {m} × {n} × {k} times.",
               {"one tile only: the line is in three loops": tile, ELEMENTS: more / P,
                "A taken once: it crosses r_A times": P * M * K,
                "the tile of B, four times that of A": 4 * more}, label="Growth of Q")
    yield Part("ratio", (Q + more) / Q, "", f"(Q + more) / Q = ({byte(Q)} + {byte(more)}) / "
               f"{byte(Q)}",
               {"every line taken twice": 2, "the growth alone, not the new Q": more / Q,
                "the ratio upside down: old over new": Q / (Q + more)},
               label="New Q over old Q", follows=("/", ("+", Q, "more"), Q))
    yield Choice("rest", "same",
                 {"same": "both stay as they are", "work": "W grows as Q does",
                  "wrong": "C comes out wrong: A is added in twice",
                  "dropped": "nothing changes at all: a load that nobody needs is not counted"},
                 "The second load writes the same bytes over the same tile. Nothing is multiplied "
                 "twice. The count is of what the source says; what a compiler would drop, only a "
                 "profile shows.",
                 {"work": "W counts matmul instructions; there are as many as before.",
                  "wrong": "A load overwrites its tile; only a matmul adds to what is there.",
                  "dropped": "The count is of the source as it stands. Whether a compiler drops "
                             "the line is not in it."},
                 label="What becomes of W and C?")


# --- one kernel, three kernels ------------------------------------------------------------------

@problem(
    "day5.count.fused",
    ask="The MLP y = gelu(x W_up) W_down: B = {B} tokens, D = {D}, F = {F}, bf16. One kernel "
        "loads both weight matrices once and then goes over blocks of 128 tokens; h and g stay on "
        "chip. How many bytes does it read, and what is its Q? In three kernels (up, GELU, down) "
        "each loads its inputs once and stores its result. How many times does a B × F tensor "
        "cross HBM there in all, h and g together (k)? What is Q of all three?",
    fixed=dict(B=1536, D=512, F=3072),
    draw=lambda r: dict(zip("DF", r.choice(((512, 2048), (512, 4096), (512, 8192), (1024, 3072),
                                            (1024, 5120), (1536, 2048), (1536, 3072))),
                            strict=True), B=r.choice((1024, 1536, 3072, 4096))))
def fused(B: int, D: int, F: int) -> Iterator[AnyPart]:
    one, three = (MLP(B, D, F, k).algorithmic for k in (0, 4))
    Q, apart, wide, weights = one.hbm_bytes, three.hbm_bytes, P * B * F, 2 * P * D * F
    yield Part("read", Q - P * B * D, "B", f"p (B D + 2 D F) = {P} bytes × ({B:,} × {D:,} + 2 × "
               f"{D:,} × {F:,})",
               {"the weights loaded again for every block of tokens":
                P * B * D + weights * max(B // TILE, 1),
                ELEMENTS: Q / P - B * D, "one of the two weight matrices left out":
                Q - P * B * D - weights / 2, "the weights left out": P * B * D,
                "y counted, which is not read": Q}, label="Bytes read by the one kernel")
    yield Part("Q_fused", Q, "B", f"p (2 B D + 2 D F) = {P} bytes × (2 × {B:,} × {D:,} + 2 × {D:,} "
               f"× {F:,})",
               {"h crosses, written and read back": Q + 2 * wide,
                "h and g cross, as in three kernels": apart,
                "one of the two weight matrices left out": Q - weights / 2,
                "y left out, though its store crosses": Q - P * B * D, ELEMENTS: Q / P},
               label="Q of the one kernel", follows=("+", "read", P * B * D))
    yield Part("k", 4, "", "h written + h read + g written + g read = 1 + 1 + 1 + 1",
               {"writes alone, or one tensor alone": 2, "one of the four crossings left out": 3,
                "one intermediate, one way": 1, "the two bytes of a number counted in": 8},
               label="Crossings, h and g together", exact=True)
    yield Part("Q_three", apart, "B", f"p (2 B D + 2 D F + 4 B F) = {P} bytes × (2 × {B:,} × {D:,} "
               f"+ 2 × {D:,} × {F:,} + 4 × {B:,} × {F:,})",
               {"h and g left out, as in one kernel": Q,
                "half of the crossings of h and g left out": Q + 2 * wide, ELEMENTS: apart / P,
                "the weights left out": apart - weights,
                "h and g alone: x, y and the weights cross too": 4 * wide},
               label="Q of the three kernels", follows=("+", "Q_fused", ("*", "k", wide)))


ROOM = {name: int(machine.get(name, "core").facts["sbuf_partition_bytes"].value)
        for name in ("trn1", "trn2")}


@problem(
    "day5.count.fits",
    ask="The one-kernel MLP with D = {D}, F = {F}, bf16, keeps both weight matrices in SBUF, "
        "spread over its 128 partitions. Beside them live a block of 128 tokens of x, one of g, "
        "and nothing else of size. How many bytes a partition do the weights take, and how many "
        "the two blocks? A partition has {trn1} on trn1 and {trn2} on trn2; take all of it, with "
        "nothing reserved. Where does it fit?",
    fixed=dict(D=1024, F=6144, **ROOM), units=dict.fromkeys(ROOM, "B"),
    draw=lambda r: r.choice([dict(D=D, F=F) for D, F in (
        (1024, 3072), (1024, 5120), (1024, 5632), (1024, 6656), (1024, 7168), (1024, 8192),
        (1536, 2048), (1536, 3072), (1536, 4096), (1536, 5120), (1536, 6144), (2048, 2048),
        (2048, 3072), (2048, 4096), (512, 8192), (512, 11264), (512, 12288), (512, 16384))]))
def fits(D: int, F: int, trn1: int, trn2: int) -> Iterator[AnyPart]:
    in_tiles(D=(D, WIDE), F=(F, TILE))
    if trn1 >= trn2:
        raise ValueError("trn1 has to have less than trn2")
    weights, blocks = 2 * P * D * F // TILE, P * (D + F)
    need = weights + blocks
    yield Part("weights", weights, "B", f"2 × p D F / 128 = 2 × {P} bytes × {D:,} × {F:,} / 128"
               f"\nThat is {mebi(weights)}.",
               {"one of the two matrices left out": weights / 2,
                "both matrices whole, not one partition's share": weights * TILE,
                "4 bytes a number, as in fp32": 2 * weights,
                "spread over 512, the columns of a moving tile": weights / 4},
               label="Weights, bytes a partition")
    yield Part("blocks", blocks, "B", f"p (D + F) × 128 / 128 = {P} bytes × ({D:,} + {F:,})",
               {ELEMENTS: blocks / P, "one token's share: 128 tokens are spread over 128 "
                "partitions": blocks / TILE, "the block of g left out": P * D,
                "the block of x left out": P * F,
                "both blocks whole, not one partition's share": blocks * TILE},
               label="Blocks of x and g, bytes a partition")
    right = "both" if need <= trn1 else "trn2" if need <= trn2 else "none"
    yield Choice("where", right,
                 {"both": "on both", "trn2": "on trn2 only", "trn1": "on trn1 only",
                  "none": "on neither"},
                 f"Together {need:,} bytes; trn1 has {trn1:,}, trn2 {trn2:,}.",
                 {key: text for key, text in {
                     "both": "Add the two, and compare with the smaller partition.",
                     "trn2": "Add the two, and compare with either partition.",
                     "trn1": "What fits into the smaller partition fits into the larger one.",
                     "none": "Add the two, and compare with the larger partition."}.items()
                  if key != right}, label="Where does it fit?")


# --- two cores, and the profiler ----------------------------------------------------------------

LINEAR = ("The kernel linear computes y = x w in bf16. It loads w ({D} × {F}) once, then goes over "
          "B = {B} tokens in blocks of 128: load a block of x, multiply, store a block of y. ")
LAYER = dict(B=1024, D=128, F=512)


@problem(
    "day5.count.lnc",
    ask=LINEAR + "Launched as linear[2], each of two physical cores runs it on half of the blocks; "
        "the load of w stands before the loop. Find Q of a launch on one core alone, as linear "
        "(Q_1), Q of the pair (Q_2), and the bytes that each core of the pair moves. What makes "
        "the difference?",
    fixed=LAYER,
    draw=lambda r: dict(B=256 * r.choice((1, 2, 3, 5)), D=r.choice((64, 96, 128)),
                        F=r.choice((256, 384, 512))))
def lnc(B: int, D: int, F: int) -> Iterator[AnyPart]:
    in_tiles(B=(B, 2 * TILE))
    x, w, y = P * B * D, P * D * F, P * B * F
    one, two = x + w + y, x + 2 * w + y
    yield Part("Q_1", one, "B", f"p (B D + D F + B F) = {P} bytes × ({B:,} × {D:,} + {D:,} × "
               f"{F:,} + {B:,} × {F:,})",
               {ELEMENTS: one / P, "y left out, though its store crosses": one - y,
                "w loaded for every block: it stands before the loop": x + y + w * B / TILE,
                "one core of the pair: Q_1 is the launch on one core alone": two / 2,
                "x left out": w + y}, label="Q alone, as linear")
    yield Part("Q_2", two, "B", f"p (B D + 2 D F + B F) = {P} bytes × ({B:,} × {D:,} + 2 × {D:,} "
               f"× {F:,} + {B:,} × {F:,})",
               {"w counted once: each core has its own SBUF": one,
                "everything twice: x and y are split": 2 * one,
                "one core's bytes, not those of both": two / 2, ELEMENTS: two / P},
               label="Q of the pair, as linear[2]", follows=("+", "Q_1", w))
    yield Part("each", two / 2, "B", f"Q_2 / 2 = {two:,} bytes / 2",
               {"w split: each core loads all of it": one / 2,
                "both cores' bytes, not those of one": two,
                "x and y not split": one, ELEMENTS: two / 2 / P},
               label="Bytes of each core of the pair", follows=("/", "Q_2", 2))
    yield Choice("why", "sbuf",
                 {"sbuf": "each core has an SBUF of its own, so w has to come into both",
                  "hbm": "each core has an HBM of its own, so w lies there twice",
                  "sync": "the cores exchange their halves of y",
                  "work": "W doubles, and Q with it"},
                 "The two share HBM, not SBUF. What stands before the loop runs on both.",
                 {"hbm": "A pair shares one HBM bank and its address space.",
                  "sync": "Each stores its own rows of y; nothing is exchanged.",
                  "work": "Each multiplies its own half of the tokens: W is what it was."},
                 label="What makes the difference?")


@problem(
    "day5.count.gap",
    ask="A kernel loads some tiles more than once and transposes others on the Tensor Engine. Its "
        "source counts {code_read} bytes read and {code_written} written. The profile of its run "
        "shows {prof_read} read and {prof_written} written. How far are the reads apart? Which "
        "cause fits both differences?",
    fixed=dict(code_read=3_145_728, code_written=1_048_576,
               prof_read=3_145_728 + 32_768, prof_written=1_048_576),
    draw=lambda r: _profiled(r.choice((2, 3, 5, 6)) * 2**20, r.choice((1, 2)) * 2**20,
                             *r.choice(((32_768, 0), (98_304, 0), (262_144, 262_144),
                                        (393_216, 393_216), (-524_288, 0), (-917_504, 0)))))
def gap(code_read: int, code_written: int, prof_read: int, prof_written: int) -> Iterator[AnyPart]:
    read, written = prof_read - code_read, prof_written - code_written
    if read == 0 or written < 0 or (written > 0 and read < 0):
        raise ValueError("the reads have to differ, and not against the writes")
    apart = abs(read)
    more, less = max(prof_read, code_read), min(prof_read, code_read)
    yield Part("apart", apart, "B", f"|prof_read - code_read| = {more:,} bytes - {less:,} bytes",
               {"one of the two counts, not the difference": prof_read, ELEMENTS: apart / P,
                "bits counted, not bytes": 8 * apart}, label="Reads apart")
    cause = "hoist" if read < 0 else "spill" if written else "constant"
    yield Choice("cause", cause,
                 {"constant": "constants: an identity matrix is loaded for the transposes",
                  "spill": "spills: the compiler puts tiles out to HBM and reads them back",
                  "hoist": "a load merged or moved: the compiler keeps a tile the source reloads",
                  "time": "the transfers took longer than the model says"},
                 {"constant": "More is read and nothing more is written: the run needs data that "
                              "the source never loads. A 128 × 128 identity has 32,768 bytes in "
                              "bf16, 65,536 in fp32.",
                  "spill": "More is read and more is written: tiles went out and came back.",
                  "hoist": "Less is read than the source says: a load was saved."}[cause],
                 {key: text for key, text in {
                     "constant": "Constants are read only, and add to what the source reads.",
                     "spill": "A spill is written and then read back: both would grow.",
                     "hoist": "A load that is saved makes the profile read less, not more.",
                     "time": "Both counts are bytes. A slow transfer moves as many."}.items()
                  if key != cause}, label="Which cause fits?")


def _profiled(read: int, written: int, more_read: int, more_written: int) -> dict[str, int]:
    return dict(code_read=read, code_written=written, prof_read=read + more_read,
                prof_written=written + more_written)


# --- Do -----------------------------------------------------------------------------------------

@problem(
    "day5.count.do.inside",
    ask=LINEAR + "Now the load of w moves inside the loop, as its first line. How often does w "
        "cross HBM (r_w)? Find Q and I.",
    fixed=LAYER,
    draw=lambda r: dict(B=TILE * r.choice((3, 5, 6, 12, 16)), D=r.choice((64, 96, 128)),
                        F=r.choice((256, 384, 512))))
def inside(B: int, D: int, F: int) -> Iterator[AnyPart]:
    in_tiles(B=(B, TILE))
    times, W = B // TILE, 2 * B * D * F
    x, w, y = P * B * D, P * D * F, P * B * F
    Q, once = x + times * w + y, x + w + y
    yield Part("r_w", times, "", f"B / 128 = {B:,} / 128",
               {"the load as it was, before the loop": 1,
                "tokens counted, not blocks of tokens": B, "blocks of 512 tokens": B / WIDE,
                "one block left out: the first loads too": times - 1 if times > 2 else times + 1},
               label="Crossings of w", exact=True)
    yield Part("Q", Q, "B", f"p (B D + r_w D F + B F) = {P} bytes × ({B:,} × {D:,} + {times} × "
               f"{D:,} × {F:,} + {B:,} × {F:,})",
               {"w counted once, as before": once, ELEMENTS: Q / P,
                "all of it reloaded, x and y too": times * once,
                "y left out, though its store crosses": Q - y},
               follows=("+", x + y, ("*", "r_w", w)))
    yield _intensity(W, Q, {"w counted once, as before": W / once})


@problem(
    "day5.count.do.block",
    ask="In matmul_c_stays a block of C, {rows} × {columns}, stays in PSUM while slices of A and "
        "B pass; A is {M} × {K}, B is {K} × {N}, bf16. How often does A cross HBM (r_A), how often "
        "B (r_B)? How many PSUM banks does a block take, one for every 128 × 512? Find Q and I. "
        '(In JupyterLab, give your own: ask("day5.count.do.block", M=..., K=..., N=..., rows=..., '
        "columns=...).)",
    fixed=dict(M=1536, K=768, N=2048, rows=512, columns=1024),
    draw=lambda r: dict(K=TILE * r.choice((3, 5, 8)), **r.choice([
        dict(M=m * rows, N=n * columns, rows=rows, columns=columns)
        for rows, columns in ((256, 512), (256, 1024), (128, 2048), (256, 2048), (512, 1024))
        for m, n in ((3, 2), (5, 2), (2, 3), (6, 3))])))
def block(M: int, K: int, N: int, rows: int, columns: int) -> Iterator[AnyPart]:
    in_tiles(rows=(rows, TILE), columns=(columns, WIDE), M=(M, rows), K=(K, TILE), N=(N, columns))
    r_A, r_B, banks = N // columns, M // rows, (rows // TILE) * (columns // WIDE)
    if banks > BANKS:
        raise ValueError(f"a block of {rows:,} × {columns:,} takes {banks} of {BANKS} banks")
    op = Matmul(M, K, N)
    Q, W = op.reloaded(r_A, r_B).hbm_bytes, op.flops
    yield Part("r_A", r_A, "", f"N / columns = {N:,} / {columns:,}",
               {"r_A and r_B swapped": r_B, "each tile loaded once": 1,
                "a moving tile's 512 in place of the block's columns": N / WIDE,
                "the block's rows in place of its columns": N / rows}, label="Crossings of A",
               exact=True)
    yield Part("r_B", r_B, "", f"M / rows = {M:,} / {rows:,}",
               {"r_A and r_B swapped": r_A, "each tile loaded once": 1,
                "a stationary tile's 128 in place of the block's rows": M / TILE,
                "the block's columns in place of its rows": M / columns}, label="Crossings of B",
               exact=True)
    yield Part("banks", banks, "", f"rows / 128 × columns / 512 = {rows // TILE} × "
               f"{columns // WIDE}",
               {"the number of blocks in C": r_A * r_B, "one bank for every 128 × 128":
                rows * columns // TILE**2, "one bank for every 512 × 512": rows * columns / WIDE**2,
                "the whole of C, not one block": M * N // (TILE * WIDE)}, label="PSUM banks",
               exact=True)
    yield Part("Q", Q, "B", f"p (r_A M K + r_B K N + M N) = {P} bytes × ({r_A} × {M:,} × {K:,} + "
               f"{r_B} × {K:,} × {N:,} + {M:,} × {N:,})",
               {"each tile loaded once": op.algorithmic.hbm_bytes, ELEMENTS: Q / P,
                "C left out, though its store crosses": Q - P * M * N,
                "no input stays: tiles of 128 and 512":
                op.reloaded(N // WIDE, M // TILE).hbm_bytes},
               follows=("*", P, ("+", ("*", "r_A", M * K), ("*", "r_B", K * N), M * N)))
    yield _intensity(W, Q, {"each tile loaded once": op.algorithmic.intensity})


@problem(
    "day5.count.do.own",
    ask=day2.TRN2 + "A run of your kernel says: W = {W} in bf16, {read} read, {written} written. "
        "Find Q and I, the side of the ridge, and T_best. (In JupyterLab, give your own: "
        'ask("day5.count.do.own", W=..., read=..., written=...).)',
    fixed=dict(day2.ROOFS, W=12e9, read=29e6, written=11e6),
    units=dict(day2.ROOF_UNITS, W="FLOP", read="B", written="B"),
    draw=lambda r: dict(W=r.choice((1e9, 3e9, 20e9, 40e9)), read=r.choice((14e6, 24e6, 50e6)),
                        written=r.choice((3e6, 7e6, 11e6))))
@day2.told
def own(P: float, BW: float, W: float, read: float, written: float) -> Iterator[AnyPart]:
    Q = read + written
    yield Part("Q", Q, "B", f"read + written = {byte(read)} + {byte(written)}",
               {"the bytes written left out": read, "the bytes read left out": written,
                ELEMENTS: Q / 2, "the difference, not the sum": abs(read - written)})
    yield Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
               {UPSIDE_DOWN: Q / W, ONE_FLOP: W / 2 / Q, "divided by elements, not by bytes":
                2 * W / Q, "the bytes read left out": W / written},
               follows=("/", W, "Q"), extra={"the bytes written left out": W / read})
    yield day2._side(W, Q, P, BW)
    yield day2._best(W, Q, P, BW, follows=("max", W / P, ("/", "Q", BW)))


# --- check yourself -----------------------------------------------------------------------------

@problem(
    "day5.count.check.lines",
    ask="A run of a bf16 matmul lists five lines. Loads of A, tiles of [128, 128]: {a} times. "
        "Loads of B, tiles of [128, 512]: {b} times. Matmuls of such tiles: {mm} times. Copies "
        "from PSUM to SBUF, [128, 512]: {c} times. Stores of C, [128, 512]: {c} times. B is {K} "
        "× {N}. How many bytes were read, how many written? How often did B cross HBM (r_B)? "
        "Find W and I.",
    fixed=dict(a=24, b=72, mm=72, c=18, K=512, N=1536),
    draw=lambda r: (lambda m, n, k: dict(a=m * k, b=m * n * k, mm=m * n * k, c=m * n, K=TILE * k,
                                         N=WIDE * n))(
        r.choice((3, 5, 7, 10)), r.choice((2, 3, 5)), r.choice((4, 6, 8))))
def lines(a: int, b: int, mm: int, c: int, K: int, N: int) -> Iterator[AnyPart]:
    small, large = P * TILE * TILE, P * TILE * WIDE
    read, written, W = a * small + b * large, c * large, 2 * TILE * TILE * WIDE * mm
    B = P * K * N
    if b * large < B:
        raise ValueError("B has to be loaded at least once: b × 128 × 512 is below K × N")
    yield Part("read", read, "B", f"p (a × 128 × 128 + b × 128 × 512) = {P} bytes × ({a} × 128 × "
               f"128 + {b} × 128 × 512)",
               {ELEMENTS: read / P, "both tiles taken as [128, 128]": (a + b) * small,
                "both tiles taken as [128, 512]": (a + b) * large,
                "the loads of A left out": b * large, "the copies from PSUM counted":
                read + 2 * c * large}, label="Bytes read")
    yield Part("written", written, "B", f"p × c × 128 × 512 = {P} bytes × {c} × 128 × 512",
               {ELEMENTS: written / P, "the copies from PSUM counted: they stay on chip":
                2 * written, "tiles taken as [128, 128]": c * small,
                "stored for every matmul: PSUM adds up": mm * large}, label="Bytes written")
    yield Part("r_B", b * large / B, "", f"b × 128 × 512 / (K N) = {b} × 128 × 512 / ({K:,} × "
               f"{N:,})",
               {"the line's runs, not how often a byte crosses": b,
                "tiles taken as [128, 128]": b * small / B, "the ratio upside down": B / b / large,
                "elements over bytes": b * large / B / P}, label="Crossings of B",
               exact=not b * large % B)
    yield Part("W", W, "FLOP", f"2 × 128 × 128 × 512 × mm = 2 × 128 × 128 × 512 × {mm}",
               {ONE_FLOP: W / 2, "one matmul counted, not all": W / mm,
                "tiles taken as [128, 128]": W / 4, "the contraction left out": W / TILE})
    yield Part("I", W / (read + written), "FLOP/B",
               f"W / (read + written) = {flop(W)} / ({byte(read)} + {byte(written)})",
               {UPSIDE_DOWN: (read + written) / W, ONE_FLOP: W / 2 / (read + written),
                "the bytes written left out": W / read, "divided by elements, not by bytes":
                P * W / (read + written), "the bytes read left out": W / written},
               follows=("/", "W", ("+", "read", "written")))


@problem(
    "day5.count.check.cast",
    ask="x lies in HBM as {rows} × {columns} fp32 numbers. A kernel loads it into bf16 tiles, the "
        "DMA converting on the way, uses it in matmuls, and stores a bf16 y of the same shape. How "
        "many bytes does the load of x add to Q? How many bytes of SBUF does all of x take? What "
        "is Q of x and y together? Which dtype is W counted in?",
    fixed=dict(rows=512, columns=2048),
    draw=lambda r: dict(rows=TILE * r.choice((2, 3, 6, 8)), columns=WIDE * r.choice((1, 2, 3, 6))))
def cast(rows: int, columns: int) -> Iterator[AnyPart]:
    n, fp32 = rows * columns, BYTES["fp32"]
    size = f"{rows:,} × {columns:,}"
    yield Part("load", fp32 * n, "B", f"4 × rows × columns = {fp32} bytes × {size}\nHBM's side of "
               "the transfer counts, in the dtype that lies there.",
               {"the bytes that arrive, 2 a number": P * n, ELEMENTS: n,
                "both ends of the transfer counted": (fp32 + P) * n,
                "bits counted, not bytes": 8 * fp32 * n}, label="Bytes of the load")
    yield Part("sbuf", P * n, "B", f"2 × rows × columns = {P} bytes × {size}",
               {"4 bytes a number: it arrives as bf16": fp32 * n, ELEMENTS: n,
                "one partition's share": P * n / TILE, "both ends of the transfer counted":
                (fp32 + P) * n}, label="Bytes of x in SBUF")
    yield Part("Q", (fp32 + P) * n, "B", f"(4 + 2) × rows × columns = ({fp32} bytes + {P} bytes) "
               f"× {size}",
               {"2 bytes a number both ways": 2 * P * n, "4 bytes a number both ways": 2 * fp32 * n,
                "elements counted, not bytes": 2 * n,
                "y left out, though its store crosses": fp32 * n},
               label="Q of x and y", follows=("+", "load", P * n))
    yield Choice("work", "bf16",
                 {"bf16": "bf16", "fp32": "fp32", "both": "half of it in each"},
                 "The Tensor Engine multiplies what lies in SBUF, and that is bf16.",
                 {"fp32": "That is how x lies in HBM. The matmul reads it from SBUF.",
                  "both": "A matmul's W is counted in the dtype of its operands in SBUF."},
                 label="W is counted in which dtype?")


KNOWN = {"source": "the source decides it", "profile": "only a profile shows it"}


@problem(
    "day5.count.check.knows",
    ask="You have counted a kernel from its source and have no profile yet. Which of these do you "
        "know: the FLOPs of its matmuls; how often the source loads each tensor; the least SBUF "
        "that it needs in program order; the bytes of spills; the number of DMA packets; the "
        "engine that runs a copy from PSUM for which the source names none?")
def knows() -> Iterator[AnyPart]:
    for name, label, known, why in (
            ("flops", "FLOPs of the matmuls", True, "Each matmul is an instruction of the source, "
             "and its tiles say its size."),
            ("loads", "Loads of each tensor", True, "Each load is an instruction of the source, "
             "as written."),
            ("room", "Least SBUF, in program order", True, "From its first write to its last read "
             "a tile has to be kept, wherever it is placed."),
            ("spills", "Bytes of spills", False, "The compiler decides what goes out to HBM and "
             "comes back."),
            ("packets", "DMA packets", False, "Contiguous rows merge on the way, and how far they "
             "do is not in the source."),
            ("engine", "Engine of an open copy", False, "The compiler chooses among the engines "
             "that can.")):
        right, wrong = ("source", "profile") if known else ("profile", "source")
        yield Choice(name, right, KNOWN, why, {wrong: why}, label=label)


PROBLEMS = collect(globals())
