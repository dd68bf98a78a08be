"""Day 5: buffers, reuse and fusion.

Question  which bytes does this code move, and would it fit on chip?
Answer    PROBLEMS, in the page's order; ids begin with day5.
Assumes   NKI kernels in bf16 on one physical core unless said; tiles as `machine` has them
Ignores   time (Day 7), and what a compiler adds to the source
"""

from collections.abc import Iterator, Mapping
from functools import partial

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES, MLP, Matmul
from ..units import mebi, show
from . import day2

flop, byte, per_byte = (partial(show, unit=unit, digits=4) for unit in ("FLOP", "B", "FLOP/B"))

P = BYTES["bf16"]  # bytes of one number
TILE, WIDE, BANKS = (int(machine.trn2.facts[name].value)
                     for name in ("pmax", "gemm_moving_fmax", "psum_num_banks"))

ELEMENTS = "elements counted, not bytes"
UPSIDE_DOWN = "the ratio upside down: bytes over FLOPs"
ONE_FLOP = "a multiply-add counted as one FLOP"


def _whole(**sizes: tuple[int, int]) -> None:
    """Raises ValueError for a size that its tile does not divide."""
    for name, (size, tile) in sizes.items():
        if size % tile:
            raise ValueError(f"{name} has to be a multiple of {tile}, got {size:,}")


def _intensity(W: int, Q: int, slips: Mapping[str, float]) -> Part:
    return Part("I", W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {UPSIDE_DOWN: Q / W, ONE_FLOP: W / 2 / Q, "divided by elements, not by bytes":
                 P * W / Q, **slips}, follows=("/", W, "Q"))


# --- a matmul from its source -------------------------------------------------------------------

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
    _whole(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
    op, m, k, n = Matmul(M, K, N), M // TILE, K // TILE, N // WIDE
    W, count = op.flops, op.reloaded(n, m)
    Q, C = count.hbm_bytes, P * M * N
    yield Part("runs", m * n * k, "", f"M / 128 × N / 512 × K / 128 = {m} × {n} × {k}",
               {"one of the loops left out: it runs in all three": m * k,
                "tiles of 128 columns of B: they have 512": m * k * N // TILE,
                "the loop over M left out": n * k,
                "multiply-adds counted, not steps": M * N * K}, label="Runs of the line")
    yield Part("r_A", n, "", f"N / 512 = {N:,} / 512\nA tile of A comes back for each of the "
               f"{n} columns of C tiles.",
               {"r_A and r_B swapped": m, "each use counted as a load: a tile in SBUF serves many":
                N, "a row of 128 in place of a moving tile's 512 columns": N / TILE,
                "each tile loaded once": 1}, label="Crossings of A")
    yield Part("r_B", m, "", f"M / 128 = {M:,} / 128\nA tile of B comes back for each of the "
               f"{m} rows of C tiles.",
               {"r_A and r_B swapped": n, "each use counted as a load: a tile in SBUF serves many":
                M, "a moving tile's 512 in place of a stationary tile's 128": M / WIDE,
                "each tile loaded once": 1}, label="Crossings of B")
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
    _whole(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
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
    fixed=dict(B=2048, D=1024, F=4096),
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
                Q - P * B * D - weights / 2, "the weights left out": P * B * D},
               label="Bytes read by the one kernel")
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
               label="Crossings, h and g together")
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
    _whole(D=(D, WIDE), F=(F, TILE))
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
    _whole(B=(B, 2 * TILE))
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
    _whole(B=(B, TILE))
    times, W = B // TILE, 2 * B * D * F
    x, w, y = P * B * D, P * D * F, P * B * F
    Q, once = x + times * w + y, x + w + y
    yield Part("r_w", times, "", f"B / 128 = {B:,} / 128",
               {"the load as it was, before the loop": 1,
                "tokens counted, not blocks of tokens": B, "blocks of 512 tokens": B / WIDE,
                "one block left out: the first loads too": times - 1 if times > 2 else times + 1},
               label="Crossings of w")
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
    _whole(rows=(rows, TILE), columns=(columns, WIDE), M=(M, rows), K=(K, TILE), N=(N, columns))
    r_A, r_B, banks = N // columns, M // rows, (rows // TILE) * (columns // WIDE)
    if banks > BANKS:
        raise ValueError(f"a block of {rows:,} × {columns:,} takes {banks} of {BANKS} banks")
    op = Matmul(M, K, N)
    Q, W = op.reloaded(r_A, r_B).hbm_bytes, op.flops
    yield Part("r_A", r_A, "", f"N / columns = {N:,} / {columns:,}",
               {"r_A and r_B swapped": r_B, "each tile loaded once": 1,
                "a moving tile's 512 in place of the block's columns": N / WIDE,
                "the block's rows in place of its columns": N / rows}, label="Crossings of A")
    yield Part("r_B", r_B, "", f"M / rows = {M:,} / {rows:,}",
               {"r_A and r_B swapped": r_A, "each tile loaded once": 1,
                "a stationary tile's 128 in place of the block's rows": M / TILE,
                "the block's columns in place of its rows": M / columns}, label="Crossings of B")
    yield Part("banks", banks, "", f"rows / 128 × columns / 512 = {rows // TILE} × "
               f"{columns // WIDE}",
               {"the number of blocks in C": r_A * r_B, "one bank for every 128 × 128":
                rows * columns // TILE**2, "one bank for every 512 × 512": rows * columns / WIDE**2,
                "the whole of C, not one block": M * N // (TILE * WIDE)}, label="PSUM banks")
    yield Part("Q", Q, "B", f"p (r_A M K + r_B K N + M N) = {P} bytes × ({r_A} × {M:,} × {K:,} + "
               f"{r_B} × {K:,} × {N:,} + {M:,} × {N:,})",
               {"each tile loaded once": op.algorithmic.hbm_bytes, ELEMENTS: Q / P,
                "C left out, though its store crosses": Q - P * M * N,
                "nothing stays: tiles of 128 and 512": op.reloaded(N // WIDE, M // TILE).hbm_bytes},
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
                "elements over bytes": b * large / B / P}, label="Crossings of B")
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
