"""The search against every small nest there is; placing against every place; the bound."""

import random
import re
from functools import cache
from itertools import combinations_with_replacement, permutations, product
from math import ceil, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline import loopnest, machine, ops, units
from roofline.count import Uncounted
from roofline.loopnest import Nest, NestError

P, FP32 = 2, 4
CORE = {"SBUF": 28 * 2**20, "PSUM": 2 * 2**20}  # a Trainium2 core

# --- best: against all nests ---------------------------------------------------------------------


def cut(pieces, step):
    """A loop over pieces of a dim, run: the pieces that it leaves."""
    return tuple(min(step, length - start) for length in pieces for start in range(0, length, step))


@cache
def fates(size, unit, own, names=3, most=2):
    """All that loops over one dim can do to some names, with up to two loops before each.

    own       which of the names does not have the dim: it comes once for each piece
    returns   {(largest piece at each of the others, pieces at the own one)}
    """
    steps = range(unit, size + unit, unit)
    some = [loops for n in range(most + 1)
            for loops in combinations_with_replacement(reversed(steps), n)]
    found = set()
    for gaps in product(some, repeat=names):
        pieces, at = (size,), []
        for loops in gaps:
            for step in loops:
                pieces = cut(pieces, step)
            at.append(pieces)
        found.add(tuple(len(p) if i == own else max(p) for i, p in enumerate(at)))
    return found


def every_nest(M, K, N, tile, p):
    """(Q, bytes of A's and B's blocks, bytes of C's block) of every nest of C = AB."""
    mapped = {}
    for dim, size, unit in zip("mkn", (M, K, N), tile, strict=True):
        for own in range(3):
            mapped[dim, own] = fates(size, unit, own)
    found = set()
    for order in permutations("ABC"):
        a, b, c = map(order.index, "ABC")
        for n, m, k in product(mapped["n", a], mapped["m", b], mapped["k", c]):
            q = (p * (n[a] * M * K + m[b] * K * N + M * N)
                 + 2 * FP32 * (k[c] - 1) * M * N)  # unfinished sums go out and come back
            found.add((q, p * (m[a] * k[a] + k[b] * n[b]), FP32 * m[c] * n[c]))
    return found


def every_nest_with_c_twice(M, K, N, tile, p):
    """(Q, bytes of the blocks of A, B and the outer C, bytes of the inner C's block)."""
    found = set()
    for order in sorted(set(permutations("ABCC"))):
        a, b, c = map(order.index, "ABC")
        again = order.index("C", c + 1)
        mapped = (fates(*one, 4, 1) for one in (
            (N, tile[2], a), (M, tile[0], b), (K, tile[1], c)))
        for n, m, k in product(*mapped):
            q = (p * (n[a] * M * K + m[b] * K * N + M * N)
                 + 2 * FP32 * (k[c] - 1) * M * N)
            found.add((q, p * (m[a] * k[a] + k[b] * n[b]) + FP32 * m[c] * n[c],
                       FP32 * m[again] * n[again]))
    return found


SMALL = [
    # M, K, N, tile
    (4, 4, 4, (1, 1, 1)), (3, 4, 2, (1, 1, 1)), (4, 3, 5, (1, 1, 1)), (1, 5, 4, (1, 1, 1)),
    (2, 6, 2, (1, 1, 1)), (6, 2, 3, (1, 1, 1)),
    (6, 3, 6, (2, 1, 3)), (5, 4, 6, (2, 1, 3)), (6, 5, 4, (3, 2, 1)), (6, 6, 6, (2, 2, 2)),
    (3, 6, 5, (8, 2, 8)),
]


@pytest.mark.parametrize(("dtype", "p", "M", "K", "N", "tile"), [
    *(("bf16", P, *small) for small in SMALL), *(("fp32", FP32, *small) for small in SMALL[:5])])
def test_no_small_nest_moves_less(dtype, p, M, K, N, tile):
    nests = every_nest(M, K, N, tile, p)
    twice = every_nest_with_c_twice(M, K, N, tile, p)
    op = ops.Matmul(M, K, N, dtype)
    largest = p * (M * K + K * N) + FP32 * M * N
    for shared in range(2, largest + 3, 3):
        check(op, tile, {"buffer": shared}, [n for n in nests if n[1] + n[2] <= shared], [])
    for sbuf in range(4, largest + 3, 9):
        for psum in range(4, FP32 * M * N + 5, 12):
            check(op, tile, {"SBUF": sbuf, "PSUM": psum},
                  *([n for n in some if n[1] <= sbuf and n[2] <= psum] for some in (nests, twice)))


def check(op, tile, buffers, fitting, twice):
    if not fitting:
        with pytest.raises(NestError, match="nothing fits"):
            loopnest.best(op, tile, **buffers)
        return
    best = loopnest.best(op, tile, **buffers)
    want = min((n[0], names, n[1] + n[2]) for names, some in ((3, fitting), (4, twice))
               for n in some)
    names = len(re.findall("[ABC]", best.nest.text))
    assert (best.bytes, names, sum(best.nest.held.values())) == want, (buffers, best)
    assert best.nest.fits(**buffers) and best.bound <= best.bytes
    assert sum(e.bytes for e in best.nest.walk() if e.level == 0) == best.bytes
    last = {dim: min(unit, best.nest.sizes[dim]) for dim, unit in zip("mkn", tile, strict=True)}
    for dim, step in re.findall(r"([mkn])(\d+)", best.nest.text):
        assert int(step) % last[dim] == 0 or int(step) == best.nest.sizes[dim]


def test_no_nest_as_text_moves_less():
    rng = random.Random(5)
    for _ in range(600):
        op = ops.Matmul(*(rng.randint(1, 9) for _ in "mkn"))
        tile = tuple(rng.randint(1, 3) for _ in "mkn")
        loops = [f"{dim}{unit * rng.randint(1, 4)}" for dim, unit in zip("mkn", tile, strict=True)
                 for _ in range(2)]
        tokens = [*rng.sample(loops, rng.randint(0, 6)), *"ABC"]
        rng.shuffle(tokens)
        text = " ".join(tokens)
        core = Nest(op, text)
        shared = Nest(op, text, memories=("buffer",))
        assert loopnest.best(op, tile, **core.held).bytes <= core.achieved.hbm_bytes, (op, text)
        text += "" if rng.random() < 0.3 else f" {rng.choice(loops)}"
        collected = Nest(op, f"{text} C")
        assert loopnest.best(op, tile, **collected.held).bytes <= collected.achieved.hbm_bytes
        assert loopnest.best(op, tile, **shared.held).bytes <= core.achieved.hbm_bytes, (op, text)


@settings(deadline=None, max_examples=60)
@given(*[st.integers(1, 40)] * 3, st.tuples(*[st.integers(1, 9)] * 3), st.integers(1, 4000),
       st.sampled_from(["bf16", "fp32"]))
def test_a_larger_buffer_never_costs_bytes_and_the_bound_holds(M, K, N, tile, buffer, dtype):
    op = ops.Matmul(M, K, N, dtype)
    try:
        best = loopnest.best(op, tile, buffer=buffer)
    except NestError:
        return
    assert best.nest.fits(buffer=buffer)
    assert best.ratio >= 1
    assert best.bound == loopnest.bound(op, buffer) >= op.algorithmic.hbm_bytes
    assert loopnest.best(op, tile, buffer=buffer + 7).bytes <= best.bytes
    assert loopnest.best(op, (1, 1, 1), buffer=buffer).bytes <= best.bytes


def test_a_large_square_matmul_comes_within_a_fiftieth_of_the_bound():
    # fp32, S = 2^18 elements: blocks of C of 511 x 511 beside a column of A and an element of B
    n = 32 * 511
    best = loopnest.best(ops.Matmul(n, n, n, "fp32"), (1, 1, 1), buffer=4 * 2**18)
    assert best.bytes <= 4 * n * n * (32 + 32 + 1)
    assert best.bound == int(4 * (2 * n**3 / 2**9 - 2 * 2**18))
    assert 1 < best.ratio < 1.02


@pytest.mark.parametrize(("size", "text", "r_A", "r_B"), [
    # B fits (8 MiB), and 128 rows of A: every byte crosses once
    (2048, "B m128 A n512 C k128", 1, 1),
    # B is 32 MiB: half of its columns at a time
    (4096, "n2048 B m128 C k128 A n512", 2, 1),
])
def test_the_best_on_a_core(size, text, r_A, r_B):
    best = loopnest.best(ops.Matmul(size, size, size), **CORE)
    assert best.nest.text == text
    assert best.bytes == P * size**2 * (r_A + r_B + 1)
    assert best.count == best.nest.achieved
    assert best.bound == P * 3 * size**2  # 30 MiB hold enough: what must cross is the bound
    assert best.ratio == (r_A + r_B + 1) / 3
    moves = {1: "that much", 4 / 3: "1.333 times that"}[best.ratio]
    assert repr(best).startswith(repr(text)) and repr(best).endswith(
        "\nroom: 30 MiB, S = 15,728,640 elements of 2 B\n"  # 30 x 2^20 / 2
        f"no schedule of the ordinary algorithm moves less than {units.show(P * 3 * size**2, 'B')};"
        f" this nest moves {moves}")


def test_sums_collected_in_sbuf_where_that_moves_less():
    n, MiB = 16384, 2**20
    best = loopnest.best(ops.Matmul(n, n, n), **CORE)
    # 3328 x 2048 sums are 26 MiB; beside them rows of B and a tile of A. A comes 16384 / 2048
    # times, B ceil(16384 / 3328). With sums in PSUM alone 28 MiB hold one whole side of B,
    # 16384 x 512 (16 MiB), and A would come 32 times.
    assert best.nest.text == "m3328 n2048 C k128 B m128 A n512 C"
    assert best.nest.reloads == {"C": 1, "A": 8, "B": 5}
    assert best.bytes == P * n * n * (8 + 5 + 1)
    assert best.nest.held == {"SBUF": 4 * 3328 * 2048 + P * 128 * (2048 + 128), "PSUM": MiB // 4}
    # Narrower moving tiles only when one says so; there is more to choose from, then.
    assert loopnest.best(ops.Matmul(n, n, n), (128, 128, 128), **CORE).bytes <= best.bytes


def test_a_linear_is_the_same_search():
    core = {"SBUF": 2**20, "PSUM": 2**19}
    one = loopnest.best(ops.Linear(1280, 512, 2048), **core)
    two = loopnest.best(ops.Matmul(1280, 512, 2048), **core)
    assert one.bytes == two.bytes and one.bound == two.bound
    assert one.nest.text == two.nest.text.translate(str.maketrans("mknABC", "bdfxWy"))


def test_int8_weights_are_worth_half_as_much_room():
    op = ops.Linear(64, 64, 64, w_dtype="int8")
    # x: 64 x 64 bf16 would be 8 KiB; W in int8 is 4 KiB and stays, one row of x and a sum pass
    best = loopnest.best(op, (1, 1, 1), buffer=64 * 64 + 2 * 64 + 4)
    assert best.bytes == 2 * 64 * 64 + 64 * 64 + 2 * 64 * 64


# --- place: against all places -------------------------------------------------------------------


def placements(loops, names):
    """The loops with the names at all places; the second of two equal names is further in."""
    again = {i: names.index(name) for i, name in enumerate(names) if name in names[:i]}
    for places in product(range(len(loops) + 1), repeat=len(names)):
        if any(places[i] < places[first] for i, first in again.items()):
            continue
        words = []
        for at in range(len(loops) + 1):
            words += [name for name, place in zip(names, places, strict=True) if place == at]
            words += loops[at:at + 1]
        yield " ".join(words)


def cheapest(op, texts, memories, buffers):
    """(Q, names, resident bytes) of the best nest that fits, or None."""
    nests = (Nest(op, text, memories) for text in texts)
    return min(((n.achieved.hbm_bytes, len(n.resident), sum(n.held.values())) for n in nests
                if n.fits(**buffers)), default=None)


def found(op, loops, buffers):
    try:
        nest = loopnest.place(op, loops, **buffers)
    except NestError as error:
        assert "nothing fits" in str(error)
        return None
    assert [t for t in re.findall(r"[()]|[^\s()]+", nest.text) if t[1:].isdigit() or t in "()"
            ] == re.findall(r"[()]|[^\s()]+", loops)
    return nest.achieved.hbm_bytes, len(nest.resident), sum(nest.held.values())


def test_no_place_is_better_for_a_matmul():
    rng, collected = random.Random(1), 0
    for _ in range(90):
        op = ops.Matmul(*(rng.randint(1, 8) for _ in "mkn"))
        loops = [f"{rng.choice('mkkn')}{rng.randint(1, 6)}" for _ in range(rng.randint(0, 4))]
        for buffers in ({"buffer": rng.randint(4, 300)},
                        {"SBUF": rng.randint(4, 600), "PSUM": rng.randint(4, 80)}):
            memories = ("buffer",) if "buffer" in buffers else ()
            least = cheapest(op, [text for names in ("ABC", "ABCC")[:2 - len(memories)]
                                  for text in placements(loops, names)], memories, buffers)
            assert found(op, " ".join(loops), buffers) == least, (op, loops, buffers)
            collected += least is not None and least[1] == 4
    assert collected > 3


PARTS = {  # sizes, the op; loops of both parts, of the first, of the second; what is kept; who uses
    "mlp": ("bdf", ops.MLP, ("fb", "bdf", "bfe"), "g", ("x", "W_up"), ("W_down", "y")),
    "attention": ("ld", ops.Attention, ("ji", "ijd", "ijd"), "A", ("Q", "K"), ("V", "O")),
}


@pytest.mark.parametrize("kind", PARTS)
def test_no_place_is_better_with_parts(kind):
    rng = random.Random(kind)
    sizes, make, dims, link, made, used = PARTS[kind]
    for case in range(4):
        op = make(*(rng.randint(1, 6) for _ in sizes))
        shared, first, second = ([f"{rng.choice(some)}{rng.randint(1, 4)}"
                                  for _ in range(rng.randint(0, most))]
                                 for some, most in zip(dims, (1, 1, 2), strict=True))
        buffers = {"SBUF": rng.randint(8, 300), "PSUM": rng.randint(4, 80)}
        if case == 0:  # the loop over what is kept outside: its output's sums are collected
            op, shared, first, second = make(*[3] * len(sizes)), [f"{dims[0][0]}1"], [], [
                f"{dims[2][0]}1"]
            buffers = {"SBUF": 300, "PSUM": 24}
        texts = []
        for out in product([True, False], repeat=4):  # which stand before both parts
            before = [n for n, o in zip(made + used, out, strict=True) if o]
            rest = [n for n in used if n not in before]
            some = [(before, rest), (before, [*rest, used[1]])]  # y or O a second time, further in
            if used[1] in before:
                some.append(([*before, used[1]], rest))
            for one, two in some:
                lines = ((shared, [link, *one]), (first, [n for n in made if n not in before]),
                         (second, two))
                texts += [f"{a} ({b}) ({c})" for a, b, c in product(*(
                    placements(*line) for line in lines))]
        loops = " ".join([*shared, "(", *first, ")", "(", *second, ")"])
        least = cheapest(op, texts, (), buffers)
        assert found(op, loops, buffers) == least, (op, loops, buffers)
        assert case or least[1] == 6


@pytest.mark.parametrize(("op", "loops", "text"), [
    (ops.Matmul(1280, 512, 2048), "m128 n512 k128", "B m128 A n512 C k128"),
    (ops.Matmul(1280, 512, 2048), "m256 n1024 k128 m128 n512",
     "B m256 A n1024 C k128 m128 n512"),
    (ops.MLP(2048, 1024, 4096), "b128 (f128 d128) (e512 f128)",
     "W_up W_down b128 x g (f128 d128) (e512 y f128)"),
    (ops.Softmax(4096, 4096, "bf16"), "r128", "r128 x y"),
    # k outside: all sums, 7.5 MiB, wait in SBUF
    (ops.Matmul(1280, 1024, 1536), "k128 m128 n512", "C k128 B m128 A n512 C"),
    # a tile of 4 steps of k is whole in PSUM before it is added to SBUF's
    (ops.Matmul(1280, 1024, 1536), "k512 m128 n512 k128", "C k512 B m128 A n512 C k128"),
    (ops.MLP(2048, 1024, 4096), "f512 b128 (d128) (e512)",
     "x y f512 W_up W_down b128 g (d128) (e512 y)"),
])
def test_places_on_a_core(op, loops, text):
    buffers = CORE if not isinstance(op, ops.Softmax) else {"SBUF": 2**25}
    nest = loopnest.place(op, loops, **buffers)
    assert nest.text == text and nest.achieved == op.algorithmic


# --- bound ---------------------------------------------------------------------------------------


def test_the_bound_is_the_papers_in_bytes():
    n, S = 4096, 2**20  # elements
    assert loopnest.bound(ops.Matmul(n, n, n), 2 * S) == 2 * (2 * n**3 // 2**10 - 2 * S)
    assert loopnest.bound(ops.Matmul(n, n, n, "fp32"), 4 * S) == 4 * (2 * n**3 // 2**10 - 2 * S)


def test_the_bound_is_rounded_down():
    # S = 1000: 2 (2 10^6 / sqrt(1000) - 2000) = 122,491.1
    assert loopnest.bound(ops.Matmul(100, 100, 100), 2000) == 122_491


def test_of_equal_places_the_innermost_wins():
    nest = loopnest.place(ops.Matmul(4, 4, 4), "m4 n4", buffer=2**10)  # loops of one step
    assert nest.text == "m4 n4 A B C"


def test_the_bound_is_no_less_than_what_must_cross():
    op = ops.Matmul(64, 64, 64)
    assert loopnest.bound(op, 2**20) == op.algorithmic.hbm_bytes == P * 3 * 64**2


@settings(deadline=None)
@given(*[st.integers(1, 10**4)] * 3, st.integers(1, 10**8))
def test_the_bound_falls_as_the_buffer_grows(M, K, N, capacity):
    op = ops.Matmul(M, K, N)
    assert loopnest.bound(op, 2 * capacity) <= loopnest.bound(op, capacity)
    S = capacity / P
    assert loopnest.bound(op, capacity) >= P * (2 * M * N * K / sqrt(S) - 2 * S) - 1


# --- buffers, and what cannot be searched --------------------------------------------------------


@pytest.mark.parametrize(("chip", "scope", "sbuf", "psum"), [
    ("trn1", "core", 24, 2), ("trn2", "core", 28, 2), ("trn3", "core", 32, 2)])
def test_buffers_are_the_machines(chip, scope, sbuf, psum):
    found = loopnest.buffers(machine.get(chip).at(scope))
    assert found == {"SBUF": sbuf * 2**20, "PSUM": psum * 2**20}
    assert all(isinstance(n, int) for n in found.values())


def test_the_default_tile_is_the_engines():
    op = ops.Matmul(4096, 4096, 4096)
    assert repr(loopnest.best(op, **CORE)) == repr(loopnest.best(op, (128, 128, 512), **CORE))


SMALLER = ops.Matmul(1280, 512, 2048)
LEAST = P * 128 * (128 + 512)  # bytes of SBUF for one tile of A and of B


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: loopnest.best(SMALLER, SBUF=LEAST - 1, PSUM=2**18), NestError,
     f"nothing fits: {LEAST:,} B of SBUF are needed at least, {LEAST - 1:,} B are there. One tile"),
    (lambda: loopnest.place(SMALLER, "m128 n512 k128", SBUF=LEAST, PSUM=2**18 - 1), NestError,
     "nothing fits: 262,144 B of PSUM are needed at least, 262,143 B are there. Take smaller"),
    # one g; in part 1 one x and one W_up, more than the one W_down of part 2
    (lambda: loopnest.place(ops.MLP(2, 3, 4), "b1 f1 (d1) (e1)", SBUF=5, PSUM=4), NestError,
     "nothing fits: 6 B of SBUF are needed at least, 5 B are there. Take smaller"),
    (lambda: loopnest.best(SMALLER), NestError, "got buffers none; expected SBUF and PSUM, or one"),
    (lambda: loopnest.best(SMALLER, L1=5, L2=6), NestError, "got buffers L1, L2; expected SBUF"),
    (lambda: loopnest.best(SMALLER, buffer=0), NestError, "buffer: got 0; expected whole bytes"),
    (lambda: loopnest.best(SMALLER, buffer=1.5), NestError, "buffer: got 1.5; expected whole"),
    (lambda: loopnest.best(SMALLER, (1, 1), buffer=99), NestError, "tile: got (1, 1); expected"),
    (lambda: loopnest.best(SMALLER, (1, 0, 1), buffer=99), NestError, "tile: got (1, 0, 1)"),
    (lambda: loopnest.best(ops.MLP(2, 3, 4), buffer=99), Uncounted, "best: got MLP; it is known"),
    (lambda: loopnest.bound(ops.Softmax(2, 3), 99), Uncounted, "bound: got Softmax"),
    (lambda: loopnest.bound(SMALLER, 0), NestError, "capacity_bytes: got 0; expected"),
    (lambda: loopnest.bound(SMALLER, None), NestError, "capacity_bytes: got None; expected"),
    (lambda: loopnest.place(SMALLER, None, **CORE), NestError, "place: got None for the loops"),
    (lambda: loopnest.best("m128", **CORE), NestError, "got 'm128' for the op; expected one of"),
    (lambda: loopnest.place(SMALLER, "m128 A", **CORE), NestError, "expected loops alone"),
    (lambda: loopnest.place(SMALLER, "m128 q3", **CORE), NestError, "got 'q3'"),
    (lambda: loopnest.place(ops.MLP(2, 3, 4), "b1 (d1) (x e1)", **CORE), NestError, "loops alone"),
    (lambda: loopnest.buffers(machine.desktop), NestError, "desktop, device: it has no SBUF"),
    (lambda: loopnest.buffers(machine.trn2.at("lnc2")), NestError,
     "buffers: trn2, lnc2: no core has the SBUF and PSUM of all. Take one core's: buffers(machine"),
    (lambda: loopnest.place(ops.Softmax(8, 64, "bf16"), "r1 c1", SBUF=129, PSUM=1), NestError,
     "130 B of SBUF are needed at least, 129 B are there"),  # a row of x and an element of y
    (lambda: loopnest.best(SMALLER, 128, **CORE), NestError, "tile: got 128; expected three"),
    *((lambda n=n: loopnest.bound(SMALLER, n), NestError, f"capacity_bytes: got {n!r}; expected")
      for n in ("2", float("nan"), float("inf"), True)),
])
def test_what_cannot_be_searched(call, error, said):
    with pytest.raises(error, match=re.escape(said)):
        call()


def test_the_least_that_fits_fits():
    assert loopnest.best(SMALLER, SBUF=LEAST, PSUM=2**18).nest.held == {
        "SBUF": LEAST, "PSUM": 2**18}
    assert ceil(SMALLER.N / 512) == loopnest.place(
        SMALLER, "m128 n512 k128", SBUF=LEAST, PSUM=2**18).r_A
