"""Loop nests against a walk that runs them element by element, and against the course's kernels.

The walk is written from the meaning of the text alone: it keeps sets of elements, which of them
have partial sums in HBM, and how many contributions each sum has seen. It knows no closed form.
"""

import functools
import random
import re
from collections import Counter
from itertools import product
from math import ceil, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT

from roofline import loopnest, nki, ops
from roofline.count import Count, Uncounted
from roofline.loopnest import Nest, NestError

# --- the walk ------------------------------------------------------------------------------------

P = {"bf16": 2, "fp32": 4, "fp8": 1}
FP32 = 4


def loops_of(op):
    """Sizes of the loops; tensor -> (its dims, bytes of an element); products, in order.

    A product is its loops and the tensor that it makes.
    """
    match op:
        case ops.Matmul(M, K, N, dtype):
            p = P[dtype]
            return (dict(m=M, k=K, n=N), dict(A=("mk", p), B=("kn", p), C=("mn", p)),
                    [("mkn", "C")])
        case ops.Linear(B, D, F):
            return (dict(b=B, d=D, f=F), dict(x=("bd", P[op.dtype]), W=("df", P[op.w_dtype]),
                                             y=("bf", P[op.out_dtype])), [("bdf", "y")])
        case ops.Softmax(rows, D, dtype):
            return dict(r=rows, c=D), dict(x=("rc", P[dtype]), y=("rc", P[dtype])), [("rc", "y")]
        case ops.MLP(B, D, F, 0, dtype):
            p = P[dtype]
            return (dict(b=B, d=D, f=F, e=D),
                    dict(x=("bd", p), W_up=("df", p), g=("bf", p), W_down=("fe", p), y=("be", p)),
                    [("bdf", "g"), ("bfe", "y")])
        case ops.Attention(L, d):
            p = P[op.dtype]
            return (dict(i=L, j=L, d=d),
                    dict(Q=("id", p), K=("jd", p), A=("ij", p), V=("jd", p), O=("id", p)),
                    [("ijd", "A"), ("ijd", "O")])


OUTPUTS = ("C", "y", "O")


def kept(op, name):
    return name == "g" or (name == "A" and isinstance(op, ops.Attention))


def parsed(text):
    """Tokens; a part is a list of its own."""
    stack = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            part = stack.pop()
            stack[-1].append(part)
        else:
            stack[-1].append(token)
    (tokens,) = stack
    return tokens


class NoRowError(Exception):
    """A step of a softmax while no tensor has the row whole."""


class Walk:
    """What a nest does, found by doing it."""

    def __init__(self, op, text):
        self.op = op
        self.sizes, self.tensors, self.products = loops_of(op)
        self.depth = Counter(re.findall(r"[A-Z]\w*|[xyg]\b", text))
        self.events, self.runs, self.block = [], Counter(), {}
        self.bytes = Counter()  # (tensor, level, "read" or "written") -> bytes
        self.crossed = {name: Counter() for name in self.tensors}  # element -> times over HBM
        self.sums = Counter()  # (tensor, element) -> contributions so far
        self.begun = set()  # (tensor, level, element): partial sums wait further out
        self.now, self.peak = Counter(), Counter()
        self.blocks = []  # that are on chip now
        self.go(parsed(text), {dim: range(n) for dim, n in self.sizes.items()}, Counter(), None)

    def adds_up(self, name):
        return name in OUTPUTS and len(self.tensors[name][0]) < len(self.sizes)

    def memory(self, name, level):
        if self.adds_up(name):
            return ("SBUF", "PSUM")[-self.depth[name]:][level]
        return ("SBUF", "Tensor Engine")[level]

    def go(self, tokens, at, levels, part):
        if not tokens:
            return self.multiply(at, part)
        first, rest = tokens[0], tokens[1:]
        if isinstance(first, list):
            for number, inner in enumerate(tokens):
                self.go(inner, at, Counter(levels), number)
        elif first in self.tensors:
            self.hold(first, rest, at, levels, part)
        else:
            dim, step = first[0], int(first[1:])
            for start in at[dim][::step]:
                self.go(rest, {**at, dim: range(start, min(start + step, at[dim].stop))},
                        levels, part)

    def hold(self, name, rest, at, levels, part):
        dims, p = self.tensors[name]
        level = levels[name]
        levels = levels + Counter([name])
        block = list(product(*(at[dim] for dim in dims)))
        shape = tuple(len(at[dim]) for dim in dims)
        where = {dim: (at[dim].start, at[dim].stop) for dim in dims}
        memory = self.memory(name, level)
        taken = len(block) * (FP32 if self.adds_up(name) else p)
        self.runs[name, level] += 1
        self.block[name, level] = max(self.block.get((name, level), shape), shape)
        self.now[memory] += taken
        self.peak[memory] = max(self.peak[memory], self.now[memory])
        if name in OUTPUTS:
            waiting = sum((name, level, element) in self.begun for element in block)
            self.note("load", name, level, where, FP32 * waiting, "read")
        elif not kept(self.op, name):
            self.note("load", name, level, where, p * len(block), "read")
        if level == 0 and name not in OUTPUTS:
            self.crossed[name].update(block)
        self.blocks.append(at)
        self.go(rest, at, levels, part)
        self.blocks.pop()
        self.now[memory] -= taken
        if name in OUTPUTS:
            size = 0
            for element in block:
                whole = self.sums[name, element] == self.needed(name)
                size += p if whole and level == 0 else FP32
            self.begun |= {(name, level, element) for element in block}
            if level == 0:
                self.crossed[name].update(block)
            self.note("store", name, level, where, size, "written")

    def note(self, kind, name, level, where, size, way):
        self.events.append((kind, name, level, where, size))
        self.bytes[name, level, way] += size

    def needed(self, name):
        dims, _ = next(p for p in self.products if p[1] == name)
        return prod(self.sizes[d] for d in dims if d not in self.tensors[name][0])

    def multiply(self, at, part):
        self.events.append(("step", "", 0, {d: (r.start, r.stop) for d, r in at.items()}, 0))
        if isinstance(self.op, ops.Softmax) and not any(
                len(block["c"]) == self.sizes["c"] for block in self.blocks):
            raise NoRowError
        for number, (dims, name) in enumerate(self.products):
            if part in (None, number):
                own = self.tensors[name][0]
                more = prod(len(at[d]) for d in dims if d not in own)
                for element in product(*(at[d] for d in own)):
                    self.sums[name, element] += more
                if kept(self.op, name):  # sums that are begun and not whole wait in PSUM
                    begun = sum(0 < n % self.needed(name) for (of, _), n in self.sums.items()
                                if of == name)
                    self.peak["PSUM"] = max(self.peak["PSUM"], self.now["PSUM"] + FP32 * begun)

    @property
    def count(self):
        return Count({}, *(sum(n for (_, level, how), n in self.bytes.items()
                               if (level, how) == (0, way)) for way in ("read", "written")))


# --- random nests --------------------------------------------------------------------------------


def with_names(rng, loops, names, deeper=0.0):
    """Names put anywhere between loops; with chance `deeper` a second time, further in."""
    tokens = list(loops)
    for name in names:
        at = rng.randint(0, len(tokens))
        tokens.insert(at, name)
        if rng.random() < deeper:
            tokens.insert(rng.randint(at + 1, len(tokens)), name)
    return " ".join(tokens)


def some_loops(rng, sizes, dims, most):
    return [f"{dim}{rng.randint(1, sizes[dim] + 1)}"
            for dim in rng.choices(dims, k=rng.randint(0, most))]


def random_matmul(rng):
    op = ops.Matmul(*(rng.randint(1, 6) for _ in "mkn"), rng.choice(["bf16", "fp32"]))
    sizes = loops_of(op)[0]
    names = rng.sample("ABC", 3)
    return op, with_names(rng, some_loops(rng, sizes, "mkn", 6), names, rng.choice([0, 0, 0.3]))


def random_linear(rng):
    op = ops.Linear(*(rng.randint(1, 5) for _ in "bdf"), "bf16", rng.choice(["bf16", "fp8"]),
                    rng.choice(["bf16", "fp32"]))
    return op, with_names(rng, some_loops(rng, loops_of(op)[0], "bdf", 5),
                          rng.sample(["x", "W", "y"], 3))


def random_softmax(rng):
    op = ops.Softmax(rng.randint(1, 6), rng.randint(1, 6), "bf16")
    loops = some_loops(rng, loops_of(op)[0], "rc", 4)
    one, other = rng.sample("xy", 2)  # the first before all loops over c: rows are there whole
    rows = [loop for loop in loops if loop[0] == "r"]
    inner = with_names(rng, [loop for loop in loops if loop not in rows], [other])
    return op, f"{with_names(rng, rows, [one])} {inner}"


def in_parts(rng, op, shared, first, second, link, made, used):
    """Loops of both, and parts; each tensor before the parts or in the part that uses it."""
    sizes = loops_of(op)[0]
    lines = [some_loops(rng, sizes, dims, 3) for dims in (shared, first, second)]
    names = [[link], [], []]
    for part, group in ((1, made), (2, used)):
        for name in group:
            names[rng.choice([0, part])].append(name)
    before, *parts = (with_names(rng, line, group)
                      for line, group in zip(lines, names, strict=True))
    return op, f"{before} ({parts[0]}) ({parts[1]})"


def random_mlp(rng):
    op = ops.MLP(*(rng.randint(1, 4) for _ in "bdf"))
    return in_parts(rng, op, "bf", "bdf", "bfe", "g", ["x", "W_up"], ["W_down", "y"])


def random_attention(rng):
    op = ops.Attention(rng.randint(1, 5), rng.randint(1, 3))
    return in_parts(rng, op, "ij", "ijd", "ijd", "A", ["Q", "K"], ["V", "O"])


KINDS = {"matmul": (random_matmul, 900), "linear": (random_linear, 300),
         "softmax": (random_softmax, 100), "mlp": (random_mlp, 400),
         "attention": (random_attention, 400)}


def drawn(kind, part=slice(None)):
    make, n = KINDS[kind]
    rng = random.Random(kind)
    return [make(rng) for _ in range(n)][part]


@pytest.mark.parametrize("kind", KINDS)
def test_a_nest_is_its_walk(kind):
    for op, text in drawn(kind):
        nest, walk = Nest(op, text), Walk(op, text)
        about = f"Nest({op!r}, {text!r})"
        assert nest.achieved == Count(op.work, walk.count.hbm_read_bytes,
                                      walk.count.hbm_write_bytes), about
        for name, times in nest.reloads.items():
            assert set(walk.crossed[name].values()) == {times}, (about, name)
        for row in nest.resident:
            key = row.name, row.level
            assert (row.runs, row.block) == (walk.runs[key], walk.block[key]), (about, key)
            assert (row.read_bytes, row.write_bytes) == (
                walk.bytes[*key, "read"], walk.bytes[*key, "written"]), (about, key)
            assert row.memory == walk.memory(*key), (about, key)
        assert nest.held == dict(+walk.peak), about
        assert [event[:5] for event in nest.walk()] == walk.events, about


def test_a_softmax_without_a_whole_row_is_refused():
    rng, refused = random.Random(2), 0
    for _ in range(400):
        op = ops.Softmax(rng.randint(1, 5), rng.randint(1, 5), "bf16")
        text = with_names(rng, some_loops(rng, loops_of(op)[0], "rc", 4), ["x", "y"])
        try:
            Walk(op, text)
        except NoRowError:
            refused += 1
            with pytest.raises(NestError, match="no tensor has a whole row on chip"):
                Nest(op, text)
        else:
            Nest(op, text)
    assert 50 < refused < 350


def test_open_sums_of_what_is_kept_take_psum():
    op = ops.MLP(128, 512, 8192)
    ways = [Nest(op, f"b128 g ({loops} x W_up) (e512 y f128 W_down)")
            for loops in ("f128 d128", "d128 f128")]
    # y [128, 512] in fp32 is more than one tile of sums; with d outside all 128 x 8192 are open
    assert [nest.held["PSUM"] for nest in ways] == [4 * 128 * 512, 4 * 128 * 8192]
    assert [nest.fits(PSUM=2**21) for nest in ways] == [True, False]
    with pytest.raises(NestError, match="4,194,304 B of PSUM are needed at least, 2,097,152"):
        loopnest.place(op, "b128 (d128 f128) (e512 f128)", SBUF=2**25, PSUM=2**21)


# --- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_work_is_the_ops_and_no_nest_moves_less_than_it_must(kind):
    for op, text in drawn(kind, slice(100)):
        least, found = op.algorithmic, Nest(op, text).achieved
        assert found.work == least.work
        assert found.hbm_read_bytes >= least.hbm_read_bytes, text
        assert found.hbm_write_bytes >= least.hbm_write_bytes, text


@pytest.mark.parametrize("kind", KINDS)
def test_a_load_further_out_never_costs_bytes(kind):
    for op, text in drawn(kind, slice(60)):
        names = loops_of(op)[1]
        nest = Nest(op, text)
        tokens = re.findall(r"[()]|[^\s()]+", text)
        for i in range(1, len(tokens)):
            before, name = tokens[i - 1:i + 1]
            if name in names and before not in ("(", ")", *names):
                out = " ".join([*tokens[:i - 1], name, before, *tokens[i + 1:]])
                assert Nest(op, out).achieved.hbm_bytes <= nest.achieved.hbm_bytes, (text, out)


@pytest.mark.parametrize("kind", KINDS)
def test_spaces_say_nothing(kind):
    for op, text in drawn(kind, slice(50)):
        tight = re.sub(r"\s*([()])\s*", r"\1", text)
        wide = re.sub(r"([()\s])", r"  \1 \n", text)
        assert Nest(op, tight).resident == Nest(op, wide).resident == Nest(op, text).resident


def test_the_closed_form_does_not_run_the_loops():
    n = 10**9  # 10^27 multiply-adds: run, they would never end
    nest = Nest(ops.Matmul(n, n, n), "m7 n1000 C k3 A B m2")
    assert nest.reloads == {"A": n // 1000, "B": ceil(n / 7), "C": 1}
    assert nest.achieved.hbm_bytes == 2 * n * n * (n // 1000 + ceil(n / 7) + 1)


def test_sums_that_leave_unfinished_cross_twice_in_fp32():
    M, K, N = 256, 1024, 512
    nest = Nest(ops.Matmul(M, K, N), "k256 A B C")
    assert nest.reloads == {"A": 1, "B": 1, "C": 4}
    assert nest.achieved == Count({"bf16": 2 * M * K * N},
                                  2 * (M * K + K * N) + 3 * 4 * M * N, 3 * 4 * M * N + 2 * M * N)


# --- one tile an operand -------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "r_A", "r_B"), [
    ("mnk", 4, 2),  # k inside: each C tile sweeps all of K
    ("mkn", 1, 2),  # n inside: the A tile stays put
    ("nkm", 4, 1),  # m inside: the B tile stays put
    ("nmk", 4, 2),
    ("kmn", 1, 2),
    ("knm", 4, 1),
])
def test_reloads(order, r_A, r_B):
    assert loopnest.reloads(order, m=2, n=4, k=8) == (r_A, r_B)


def count_by_walking(order, **steps):
    """Loads of A and B, per tile of each, with the last tile of each kept."""
    kept, loads = {}, Counter()
    for where in product(*(range(steps[dim]) for dim in order)):
        at = dict(zip(order, where, strict=True))
        for name, dims in (("A", "mk"), ("B", "kn")):
            tile = tuple(at[dim] for dim in dims)
            if kept.get(name) != tile:
                kept[name] = tile
                loads[name] += 1
    return (loads["A"] / (steps["m"] * steps["k"]), loads["B"] / (steps["k"] * steps["n"]))


@settings(deadline=None)
@given(st.permutations("mnk"), *[st.integers(1, 5)] * 3)
def test_reloads_match_the_walk(order, m, n, k):
    order = "".join(order)
    assert loopnest.reloads(order, m=m, n=n, k=k) == count_by_walking(order, m=m, n=n, k=k)


@settings(deadline=None)
@given(st.permutations("mnk"), *[st.integers(1, 5)] * 3)
def test_reloads_are_a_nest_with_each_load_as_far_out_as_its_tile_allows(order, m, n, k):
    op, steps = ops.Matmul(m, k, n), dict(m=m, n=n, k=k)
    tokens = [f"{dim}1" for dim in order]
    for name, dims in (("A", "mk"), ("B", "kn")):
        last = max((i for i, token in enumerate(tokens)
                    if token[0] in dims and steps[token[0]] > 1), default=-1)
        tokens.insert(last + 1, name)
    nest = Nest(op, "C " + " ".join(tokens))
    assert (nest.r_A, nest.r_B) == loopnest.reloads("".join(order), m=m, n=n, k=k)


@pytest.mark.parametrize("order", ["", "mn", "mnkk", "mnx", "MNK"])
def test_an_order_has_each_loop_once(order):
    with pytest.raises(NestError, match=f"order '{order}'; expected each of m, n, k once"):
        loopnest.reloads(order, m=1, n=1, k=1)


@pytest.mark.parametrize("tiles", [0, -1, 1.5, True])
def test_tiles_are_counted_in_whole_numbers(tiles):
    with pytest.raises(NestError, match=f"n: got {tiles}; expected a whole number"):
        loopnest.reloads("mnk", m=1, n=tiles, k=1)


# --- text that is no nest ------------------------------------------------------------------------

MATMUL, MLP = ops.Matmul(4, 4, 4), ops.MLP(8, 4, 6)
FUSED = "W_up W_down b2 x g (f2 d2) (e2 y f2)"


@pytest.mark.parametrize(("op", "text", "said"), [
    (MATMUL, "A B", "no place for C"),
    (MATMUL, "", "no place for A, B, C"),
    (MATMUL, "q2 A B C", "got 'q2'; expected a loop with its step, such as m128"),
    (MATMUL, "m0 A B C", "got 'm0'; a step is at least 1"),
    (MATMUL, "M2 A B C", "got 'M2'; loops are lower case: m2"),
    (MATMUL, "Q2 A B C", "got 'Q2'; expected a loop with its step, such as m128"),
    (MATMUL, None, "got None for the text; expected loops and tensors in one string"),
    ("m2 A B C", MATMUL, "expected loops and tensors in one string"),
    (4, "A B C", "got 4 for the op; expected one of roofline.ops with its sizes"),
    (ops.Matmul, "A B C", "for the op; expected one of roofline.ops with its sizes"),
    (MATMUL, "m A B C", "got 'm'"),
    (MATMUL, "a A B C", "got 'a'"),
    (MATMUL, "A B C)", "a ')' too many"),
    (MATMUL, "(A B C", "a '(' is not closed"),
    (MATMUL, "(A) B C", "'B' stands after a part"),
    (MATMUL, "A A A B C", "A stands 3 times; there are 2 memories"),
    (MATMUL, "m2 (A) (B C)", "Matmul has no parts"),
    (MLP, "W_up W_down b2 x g (f2 d2) (e2 y) (f2)", "3 parts; MLP has 2: one makes g"),
    (MLP, "d2 W_up W_down b2 x g (f2) (e2 y f2)", "the loop over d stands outside the parts"),
    (MLP, "W_up W_down b2 x (f2 d2 g) (e2 y f2)", "g stands in part 1.*before both"),
    (MLP, "W_up b2 x g (f2 W_down d2) (e2 y f2)", "W_down stands in part 1.*in part 2"),
    (MLP, "W_down b2 x g (f2 d2) (e2 y W_up f2)", "W_up stands in part 2.*in part 1"),
    (MLP, "W_up W_down b2 x g (f2 e2) (e2 y f2)", "part 1 has no loop over e; it has b, d, f"),
    (MLP, "W_up W_down b2 x g (f2 (d2)) (e2 y f2)", "a part in a part"),
])
def test_text_that_is_no_nest(op, text, said):
    with pytest.raises(NestError, match=re.escape(said).replace(r"\.\*", ".*")):
        Nest(op, text)


@pytest.mark.parametrize(("ask", "said"), [
    (lambda nest: Nest(nest.op, nest.text, "SBUF"), "expected a tuple of names, such as ('SBUF',)"),
    (lambda nest: nest.resident_bytes("sbuf"), "got 'sbuf' for a memory; expected one of SBUF, PS"),
    (lambda nest: nest.fits(SBUF=2**20, PSM=1), "got 'PSM' for a memory"),
    (lambda nest: nest.fits(SBUF="1 MiB"), "SBUF: got '1 MiB'; expected bytes"),
    (lambda nest: Nest(nest.op, nest.text, ("a", "b")).fits(SBUF=1), "expected one of a, b"),
    (lambda nest: Nest(ops.Linear(2, 3, 4), "x W y").r_A,
     "r_A: Linear has no A; `reloads` has x, W, y"),
])
def test_what_a_nest_has_not_is_said(ask, said):
    with pytest.raises(NestError, match=re.escape(said)):
        ask(Nest(MATMUL, "A B C"))


@pytest.mark.parametrize("op", [ops.Dot(4), ops.MLP(2, 3, 4, k=4), ops.SwiGLU(2, 3, 4),
                                ops.Attention(4, 2, causal=True), ops.Attention(4, 2, heads=2),
                                ops.Linear(2, 3, 4, w_dtype="int8", scales="tensor")])
def test_an_op_without_loops_is_uncounted(op):
    with pytest.raises(Uncounted, match="no loops are known for") as said:
        Nest(op, "A B C")
    listed = str(said.value).partition("Known: ")[2].partition(";")[0]
    known = {name for name, one in vars(ops).items() if getattr(one, "DIMS", None)}
    assert set(re.findall("[A-Z][A-Za-z]+", listed)) == known


def test_a_nest_reads_like_code():
    shown = repr(Nest(ops.Matmul(1280, 512, 2048), "m128 n512 C k128 A B"))
    assert shown.splitlines()[1:-2] == [
        "for m in 10 steps of 128:",
        "  for n in 4 steps of 512:",
        "    open C [128, 512] in PSUM: 256 KiB, 40 x",
        "    for k in 4 steps of 128:",
        "      load A [128, 128] in SBUF: 32 KiB, 160 x",
        "      load B [128, 512] in SBUF: 128 KiB, 160 x",
        "      multiply",
        "    store C"]


def test_sums_that_spill_say_each_write_and_each_read():
    # 8 steps of k: each of 2 x 4 tiles of C is opened once, fetched 7 times, and stored 8 times
    nest = Nest(ops.Matmul(256, 1024, 2048), "k128 A B m128 n512 C")
    assert repr(nest).splitlines()[6:10] == [
        "      open or fetch C [128, 512] in PSUM: 256 KiB, 8 new, 56 fetched",
        "      multiply",
        "      store C: partial sums, the last of 8 whole",
        "crosses HBM: A read 1 x, B read 1 x, C written 8 x, read 7 x; "
        "Q 35.1 MB, I 30.6 FLOP/B"]  # 2 (256 + 2048) 1024 + 256 x 2048 (7 x 8 + 2) B; W 1.074 G
    assert repr(nest.resident).splitlines()[-1].split() == [
        "C", "PSUM", "128", "x", "512", "256", "KiB", "64", "written", "8", "x,", "read", "7", "x",
        f"{7 * 4 * 256 * 2048:,}", "B", f"{(7 * 4 + 2) * 256 * 2048:,}", "B"]


@pytest.mark.parametrize("kind", KINDS)
def test_lines_say_what_the_walk_does(kind):
    """New and fetched blocks, and how often each byte goes which way."""
    for op, text in drawn(kind, slice(60)):
        nest, loads = Nest(op, text), Counter()
        outs = {row.name for row in nest.resident if row.write_bytes}
        for event in nest.walk():
            if event.kind == "load" and event.name in outs:
                loads[event.name, bool(event.bytes)] += 1
        found = [(name, int(new), int(again)) for name, new, again in re.findall(
            r"open or fetch (\w+) .*, (\d+) new, (\d+) fetched", "\n".join(nest.lines()))]
        for name in outs:
            if sum(row.name == name for row in nest.resident) == 1:
                want = (name, loads[name, False], loads[name, True])
                assert (want in found) == bool(want[2]), (text, want, found)
        for row in nest.resident:
            n = row.times
            assert row.moves == ("stays" if kept(op, row.name) else f"read {n} x"
                                 if row.name not in outs else f"written {n} x"
                                 + f", read {n - 1} x" * (n > 1)), (text, row)


@pytest.mark.parametrize(("text", "line"), [
    ("m4 A B C", "for m in 2 steps of 4:"),
    ("m8 A B C", "for m in 1 step of 8:"),
    ("m99 A B C", "for m in 1 step of 8:"),     # a step past the size is one step
    ("m5 A B C", "for m in 2 steps of up to 5:"),  # 5 and 3
    ("m8 m3 A B C", "  for m in 3 steps of up to 3:"),
    ("m4 m3 A B C", "  for m in 2 steps of up to 3:"),     # 4 = 3 + 1
    ("m5 m3 A B C", "  for m in up to 2 steps of up to 3:"),  # 5 = 3 + 2, 3 = 3
    ("m5 m4 A B C", "  for m in up to 2 steps of up to 4:"),  # 5 = 4 + 1, 3 = 3
])
def test_a_loop_says_its_steps(text, line):
    assert line in Nest(ops.Matmul(8, 8, 8), text).lines()


# --- the course's kernels ------------------------------------------------------------------------
#
# Three counts of one mapping: the formula with its r_A and r_B (or k = 0), the nest, the code.

TILE, BANK = 128, 512
M, K, N = 1280, 512, 2048
B, D, F = 1024, 512, 1024
L, d = 1024, 128


@functools.cache
def run(day, kernel, shapes, cores=1, **options):
    function = getattr(nki.load(ROOT / day / "kernels.py"), kernel)
    return nki.run(function[cores] if cores > 1 else function,
                   *((shape, "bf16") for shape in shapes), data=False, **options)


A_B = ((K, M), (K, N))
# (day, kernel, shapes, cores, op of one core, text, bytes of SBUF that are the way out)
# The way out: the tile in which a result leaves PSUM for HBM, where it is alive beside all that
# the nest holds. None: what a kernel holds besides is no part of the nest.
MAPPINGS = [
    ("day5", "matmul_reload", A_B, 1, ops.Matmul(M, K, N), "m128 n512 C k128 A B", 0),
    ("day5", "matmul_a_stays", A_B, 1, ops.Matmul(M, K, N), "m128 A n512 C k128 B", 0),
    ("day5", "matmul_b_stays", A_B, 1, ops.Matmul(M, K, N), "B m128 A n512 C k128",
     2 * TILE * BANK),
    ("day5", "matmul_c_stays", A_B, 1, ops.Matmul(M, K, N), "m256 n1024 C k128 A B m128 n512", 0),
    ("day7", "matmul", ((K, 1024), (K, N)), 1, ops.Matmul(1024, K, N),
     "B m512 A m128 C k128 n512", 2 * TILE * N),
    ("day5", "mlp_up", ((D, B), (D, F)), 1, ops.Linear(B, D, F), "W b512 x f128 y d128",
     2 * TILE * BANK),
    ("day5", "mlp_gelu", ((F, B),), 1, ops.Elementwise(F * B, 1, 0), f"n{TILE * B} x y", 0),
    ("day5", "mlp_down", ((F, B), (F, D)), 1, ops.Linear(B, F, D),
     "W b512 x b128 f512 y d128", 2 * TILE * D),
    ("day5", "mlp_fused", ((D, B), (D, F), (F, D)), 1, ops.MLP(B, D, F),
     "W_up W_down b128 x g (f128 d128) (e512 y f128)", 0),
    ("day5", "attention_scores", ((d, L), (d, L)), 1, ops.Matmul(L, d, L), "A B m128 n512 C",
     2 * TILE * L),
    ("day5", "attention_softmax", ((L, L),), 1, ops.Softmax(L, L, "bf16"), "r128 x y", None),
    ("day5", "attention_values", ((L, L), (L, d)), 1, ops.Matmul(L, L, d), "B m512 C k128 A", 0),
    ("day5", "attention_fused", ((d, L), (d, L), (L, d)), 1, ops.Attention(L, d),
     "Q K V i128 A (j512) (O j128)", None),
    # two cores: each nest is one core's half of the tokens
    ("day6", "linear", ((D, B), (D, F)), 2, ops.Linear(B // 2, D, F),
     "W b512 x b128 f512 y d128", 2 * TILE * F),
    ("day5", "mlp_up", ((D, B), (D, F)), 2, ops.Linear(B // 2, D, F), "W b512 x f128 y d128",
     2 * TILE * BANK),
    ("day5", "mlp_down", ((F, B), (F, D)), 2, ops.Linear(B // 2, F, D),
     "W b512 x b128 f512 y d128", 2 * TILE * D),
    ("day5", "mlp_fused", ((D, B), (D, F), (F, D)), 2, ops.MLP(B // 2, D, F),
     "W_up W_down b128 x g (f128 d128) (e512 y f128)", 0),
]
names = [f"{m[0]}.{m[1]}{'[2]' * (m[3] == 2)}" for m in MAPPINGS]
each_mapping = pytest.mark.parametrize(
    ("day", "kernel", "shapes", "cores", "op", "text", "way_out"), MAPPINGS,
    ids=names)


@each_mapping
def test_nest_and_code_agree(day, kernel, shapes, cores, op, text, way_out):
    code, nest = run(day, kernel, shapes, cores), Nest(op, text)
    count = cores * nest.achieved
    if not code.count.work:  # the code counts the Tensor Engine's FLOPs alone
        count = Count({}, count.hbm_read_bytes, count.hbm_write_bytes)
    assert nki.compare(count, None, code).agree
    rows = {row.name: row for row in nest.resident}
    assert [(t.read, t.written) for t in code.tensors] == [
        (cores * rows[t.name].read_bytes, cores * rows[t.name].write_bytes)
        for t in op.tensors if t.name in nest.reloads]


@each_mapping
def test_what_the_nest_holds_is_alive_in_the_code(day, kernel, shapes, cores, op, text, way_out):
    code, nest = run(day, kernel, shapes, cores), Nest(op, text)
    if way_out is None:
        assert code.sbuf_peak_bytes > nest.resident_bytes("SBUF")
        return
    assert code.sbuf_peak_bytes == nest.resident_bytes("SBUF") + way_out
    full = nest.resident_bytes("PSUM") // (FP32 * TILE * BANK)
    # attention_values: four tiles of 128 columns, each in a bank for itself
    assert code.psum_peak_banks == (4 * full if kernel == "attention_values" else full)


@pytest.mark.parametrize(("kernel", "r_A", "r_B"), [
    ("matmul_reload", N // 512, M // 128), ("matmul_a_stays", 1, M // 128),
    ("matmul_b_stays", 1, 1), ("matmul_c_stays", N // 1024, M // 256)])
def test_formula_nest_and_code_agree(kernel, r_A, r_B):
    (text,) = (m[5] for m in MAPPINGS if m[:2] == ("day5", kernel))
    op = ops.Matmul(M, K, N)
    nest, code = Nest(op, text), run("day5", kernel, A_B)
    assert nki.compare(op.reloaded(r_A, r_B), nest, code).agree
    assert [nest.r_A, nest.r_B] == [row.reload for row in code.tensors if row.read] == [r_A, r_B]


UP, GELU, DOWN, FUSED_MLP = (MAPPINGS[names.index(f"day5.mlp_{step}")]
                             for step in ("up", "gelu", "down", "fused"))
SCORES, SOFTMAX, VALUES, FUSED_HEAD = (MAPPINGS[names.index(f"day5.attention_{step}")]
                                       for step in ("scores", "softmax", "values", "fused"))


@pytest.mark.parametrize(("formula", "kernels"), [
    (ops.MLP(B, D, F, k=4), (UP, GELU, DOWN)),
    (ops.MLP(B, D, F, k=0), (FUSED_MLP,)),
    (ops.Attention(L, d, k=4), (SCORES, SOFTMAX, VALUES)),
    (ops.Attention(L, d, k=0), (FUSED_HEAD,)),
], ids=["MLP, three kernels", "MLP, one", "attention, three kernels", "attention, one"])
def test_formula_nests_and_code_agree_on_a_chain(formula, kernels):
    nests = sum((Nest(op, text).achieved for _, _, _, _, op, text, _ in kernels
                 if not isinstance(op, ops.Softmax)), Count())
    for softmax in (op for _, _, _, _, op, *_ in kernels if isinstance(op, ops.Softmax)):
        # matmuls alone are W in the formula and in the code: the softmax's bytes without its work
        nests += Count({}, *(n * P["bf16"] * softmax.rows * softmax.D for n in (1, 1)))
    code = sum((run(*kernel[:4]).count for kernel in kernels), Count())
    both = nki.compare(formula, nests, code)
    assert both.agree and list(both.counts) == ["formula", "nest", "code"]


def test_weights_that_cross_once_are_the_whole_nest_on_one_core():
    code = run("day6", "linear_w_once", ((D, B), (D, F)), 2)
    op = ops.Linear(B, D, F)
    assert nki.compare(op, Nest(op, "W b512 x b128 f512 y d128"), code).agree


@pytest.mark.parametrize(("day", "kernel", "cores", "text"), [
    ("day5", "matmul_reload", 1, "m128 k128 C n512 A B"),
    ("day5", "matmul_a_stays", 1, "n512 A m128 C k128 B"),
    ("day5", "matmul_b_stays", 1, "B m128 A k128 C n512"),
    ("day5", "matmul_c_stays", 1, "m256 k128 C n1024 A B m128 n512"),
    ("day7", "matmul", 1, "B m512 A k128 C m128 n512"),
    ("day5", "mlp_up", 1, "W b512 x d128 y f128"),
    ("day5", "mlp_fused", 1, "W_up W_down b128 x g (f128 d128) (f128 y e512)"),
    ("day5", "attention_values", 1, "B k128 C m512 A"),
    ("day6", "linear", 2, "W b512 x b128 d128 y f512"),
])
def test_two_loops_swapped_in_the_text_are_another_count(day, kernel, cores, text):
    mine = next(m for m in MAPPINGS if (m[0], m[1], m[3]) == (day, kernel, cores))
    assert sorted(mine[5]) == sorted(text) and mine[5] != text
    code = run(day, kernel, mine[2], cores)
    assert nki.compare(cores * Nest(mine[4], mine[5]).achieved, None, code).agree
    assert not nki.compare(cores * Nest(mine[4], text).achieved, None, code).agree


def test_bytes_that_stay_on_chip_are_told_from_those_over_hbm():
    rows = repr(Nest(ops.Matmul(512, 512, 1024), "C k128 B m128 A n512 C").resident).splitlines()
    assert "written 1 x  " in rows[1] and "on chip" not in rows[1]
    assert "written 4 x, read 3 x, on chip" in rows[4]  # k in 4 steps
