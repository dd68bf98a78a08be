"""Blocks, chains and collectives against oracles that walk loops, and the laws they obey."""

import math
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ops import DTYPES, Walk, value

from roofline import ops
from roofline.count import Count

small = st.integers(1, 4)
dtype = st.sampled_from(DTYPES)
maybe_dtype = st.none() | dtype


def matmul(rows, inner, columns, A, W, y) -> Walk:
    """One kernel: every element it touches, 2 FLOPs a multiply-add."""
    walk = Walk()
    for r in range(rows):
        for c in range(columns):
            for i in range(inner):
                walk.read |= {(A, r, i), (W, i, c)}
                walk.flops += 2
            walk.written.add((y, r, c))
    return walk


def pointwise(rows, columns, inputs, y, flops) -> Walk:
    walk = Walk()
    for r in range(rows):
        for c in range(columns):
            walk.read |= {(name, r, c) for name in inputs}
            walk.written.add((y, r, c))
            walk.flops += flops
    return walk


def total(walks, work_dtype, size, kept=()) -> Count:
    """The kernels one after the other; of the kept tensors only what comes from outside counts."""
    made_here = {element for walk in walks for element in walk.written if element[0] in kept}
    on_chip, count = set(made_here), Count()
    for walk in walks:
        inside = Walk()
        inside.flops = walk.flops
        inside.read = walk.read - on_chip
        inside.written = walk.written - made_here
        count += inside.count(work_dtype, size)
        on_chip |= {element for element in walk.read if element[0] in kept}
    return count


# --- MLPs ----------------------------------------------------------------------------------------

MLP_KEPT = {4: (), 2: ("h",), 0: ("h", "g")}
SWIGLU_KEPT = {6: (), 4: ("u",), 2: ("x", "a", "u"), 0: ("x", "a", "u", "s")}


@settings(deadline=None)  # two busy cores
@given(small, small, small, st.sampled_from([0, 2, 4]), dtype, maybe_dtype, st.integers(0, 9))
def test_mlp_walk(B, D, F, k, p, p_w, flops):
    walks = [matmul(B, D, F, "x", "W_up", "h"), pointwise(B, F, "h", "g", flops),
             matmul(B, F, D, "g", "W_down", "y")]
    size = dict.fromkeys(("x", "h", "g", "y"), ops.BYTES[p])
    size |= dict.fromkeys(("W_up", "W_down"), ops.BYTES[p_w or p])
    op = ops.MLP(B, D, F, k, p, p_w, activation_flops=flops)
    assert op.algorithmic == total(walks, p, size, MLP_KEPT[k])
    assert sum(op.chain.k.values()) == k


@settings(deadline=None)  # two busy cores
@given(small, small, small, st.sampled_from([0, 2, 4, 6]), dtype, maybe_dtype, st.integers(0, 9))
def test_swiglu_walk(B, D, F, k, p, p_w, flops):
    walks = [matmul(B, D, F, "x", "W_gate", "a"), matmul(B, D, F, "x", "W_up", "u"),
             pointwise(B, F, "au", "s", flops), matmul(B, F, D, "s", "W_down", "y")]
    size = dict.fromkeys(("x", "a", "u", "s", "y"), ops.BYTES[p])
    size |= dict.fromkeys(("W_gate", "W_up", "W_down"), ops.BYTES[p_w or p])
    op = ops.SwiGLU(B, D, F, k, p, p_w, activation_flops=flops)
    assert op.algorithmic == total(walks, p, size, SWIGLU_KEPT[k])
    assert sum(op.chain.k.values()) == k


@settings(deadline=None)  # two busy cores
@given(small, small, small, st.integers(1, 5), st.integers(0, 2), dtype, maybe_dtype, st.data())
def test_moe_walk(B, D, F, E, shared, p, p_w, data):
    k = data.draw(st.integers(1, E))
    routes = [data.draw(st.permutations(range(E)))[:k] for _ in range(B)]
    walk = Walk()
    for token, experts in enumerate(routes):
        for expert in [*experts, *(f"shared {i}" for i in range(shared))]:
            for d in range(D):
                for f in range(F):
                    walk.read |= {("x", token, d), *(("W", expert, name, d, f)
                                                     for name in ("gate", "up", "down"))}
                    walk.flops += 3 * 2
                walk.written.add(("y", token, d))
    hit = len({expert for experts in routes for expert in experts})
    op = ops.MoE(B, D, F, E, k, shared, hit, p, p_w)
    assert op.algorithmic == walk.count(p, dict(x=ops.BYTES[p], y=ops.BYTES[p],
                                                W=ops.BYTES[p_w or p]))


def test_moe_says_which_experts_cross():
    one = ops.MoE(B=1, D=8, F=16, E=8, k=2, shared=1)
    assert [t.name for t in one.tensors] == ["x", "W of 2 of 8 experts", "W of 1 shared", "y"]
    assert replace(one, B=3).most_hit == 6 and replace(one, B=30).most_hit == 8
    # one token hits k; two tokens hit k + k - k k/E on average: 2 + 2 - 4/8
    assert one.expected_hit == pytest.approx(2)
    assert replace(one, B=2).expected_hit == pytest.approx(3.5)
    assert replace(one, B=1000).expected_hit == pytest.approx(8)


# --- attention -----------------------------------------------------------------------------------

heads = st.sampled_from([(1, None), (3, None), (2, 1), (4, 2), (6, 3)])


@settings(deadline=None)  # two busy cores
@given(small, st.integers(1, 4), heads, st.integers(1, 2), st.booleans(),
       st.sampled_from([0, 2, 4]), dtype, st.integers(0, 5))
def test_attention_walk(L, d, H_G, B, causal, k, p, softmax):
    H, G = H_G
    scores, soft, out = Walk(), Walk(), Walk()
    for b in range(B):
        for h in range(H):
            g = h * (G or H) // H  # the KV head this query head shares
            for i in range(L):
                for j in range(i + 1 if causal else L):
                    soft.read.add(("S", b, h, i, j))
                    soft.written.add(("A", b, h, i, j))
                    soft.flops += softmax
                    scores.written.add(("S", b, h, i, j))
                    out.read.add(("A", b, h, i, j))
                    for x in range(d):
                        scores.read |= {("Q", b, h, i, x), ("K", b, g, j, x)}
                        out.read.add(("V", b, g, j, x))
                        out.written.add(("O", b, h, i, x))
                        scores.flops += 2
                        out.flops += 2
    op = ops.Attention(L, d, H, G, B, causal, k, p, softmax)
    size = dict.fromkeys("QKVOSA", ops.BYTES[p])
    assert op.algorithmic == total([scores, soft, out], p, size,
                                   {4: (), 2: ("S",), 0: ("S", "A")}[k])
    assert sum(op.chain.k.values()) == k


@given(small, small, st.integers(1, 4), heads, dtype, maybe_dtype)
def test_decode_attention_walk(B, L, d, H_G, p, p_kv):
    H, G = H_G
    walk = Walk()
    for b in range(B):
        for h in range(H):
            g = h * (G or H) // H
            for j in range(L):
                for x in range(d):
                    walk.read |= {("q", b, h, x), ("K", b, g, j, x), ("V", b, g, j, x)}
                    walk.flops += 2 + 2
                    walk.written.add(("o", b, h, x))
    size = dict(q=ops.BYTES[p], o=ops.BYTES[p], K=ops.BYTES[p_kv or p], V=ops.BYTES[p_kv or p])
    assert ops.DecodeAttention(B, L, d, H, G, p, p_kv).algorithmic == walk.count(p, size)


@given(small, small, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), dtype, maybe_dtype)
def test_latent_decode_attention_walk(B, L, H, latent, rope, p, p_kv):
    walk = Walk()
    for b in range(B):
        for h in range(H):
            for j in range(L):
                for x in range(latent + rope):
                    walk.read |= {("q", b, h, x), ("cache", b, j, x)}
                    walk.flops += 2     # score
                for x in range(latent):
                    walk.read.add(("cache", b, j, x))
                    walk.written.add(("o", b, h, x))
                    walk.flops += 2     # weighted sum
    size = dict(q=ops.BYTES[p], o=ops.BYTES[p], cache=ops.BYTES[p_kv or p])
    assert ops.LatentDecodeAttention(B, L, H, latent, rope, p, p_kv).algorithmic == \
        walk.count(p, size)


# --- collectives: run the ring -------------------------------------------------------------------

def ring(chips, piece, reduce_scatter, all_gather):
    """What each chip ends up with, what each sent and how often each added, in elements."""
    n = chips * piece
    held = [[{(chip, i)} for i in range(n)] for chip in range(chips)]  # partial sums, by summand
    if not reduce_scatter:                  # the pieces are whole, one on each chip
        held = [[{(i // piece, i)} if i // piece == chip else set() for i in range(n)]
                for chip in range(chips)]
    sent, added = [0] * chips, [0] * chips
    steps = [("add", 0)] * (chips - 1) * reduce_scatter
    steps += [("copy", 1 if reduce_scatter else 0)] * (chips - 1) * all_gather
    for number, (what, shift) in enumerate(steps):
        mail = []
        for chip in range(chips):
            block = (chip + shift - number % (chips - 1 if reduce_scatter and all_gather
                                              else len(steps))) % chips
            places = range(block * piece, (block + 1) * piece)
            mail.append(((chip + 1) % chips, places, [set(held[chip][i]) for i in places]))
            sent[chip] += piece
        for to, places, values in mail:
            for i, summands in zip(places, values, strict=True):
                if what == "add":
                    added[to] += 1
                    held[to][i] |= summands
                else:
                    held[to][i] = summands
    return held, sent, added


@settings(deadline=None)  # two busy cores
@given(st.integers(2, 6), st.integers(1, 4), dtype)
def test_ring_collectives(chips, piece, p):
    n, size = chips * piece, ops.BYTES[p]
    everything = [{(chip, i) for chip in range(chips)} for i in range(n)]
    for make, phases in ((ops.ReduceScatter, (True, False)), (ops.AllGather, (False, True)),
                         (ops.AllReduce, (True, True))):
        held, sent, added = ring(chips, piece, *phases)
        if make is ops.AllReduce:
            assert all(one == everything for one in held)
        elif make is ops.AllGather:
            assert all(all(one) for one in held)
        else:  # each chip holds one whole piece
            whole = [[i for i in range(n) if one[i] == everything[i]] for one in held]
            assert sorted(i for one in whole for i in one) == list(range(n))
        op = make(n, chips, p)
        assert {size * elements for elements in sent} == {op.link_bytes}
        assert set(added) == {op.flops}
        names = dict(n=n, c=chips, p=size)
        assert value(op.formulas["link"], names) == op.link_bytes
        read = piece if make is ops.AllGather else n
        written = piece if make is ops.ReduceScatter else n
        assert (op.algorithmic.hbm_read_bytes, op.algorithmic.hbm_write_bytes) == (
            size * read, size * written)
    assert ops.AllReduce(n, chips, p).link_bytes == (
        ops.ReduceScatter(n, chips, p).link_bytes + ops.AllGather(n, chips, p).link_bytes)
    assert ops.PointToPoint(n, p).link_bytes == n * size == ops.PointToPoint(n, p).algorithmic \
        .hbm_read_bytes


# --- chains --------------------------------------------------------------------------------------

@st.composite
def straight(draw):
    """Linears and elementwise ops, each fed by the one before."""
    p, width, B, steps = draw(dtype), draw(small), draw(small), []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            wider = draw(small)
            steps.append(ops.Linear(B, width, wider, p, draw(maybe_dtype)))
            width = wider
        else:
            steps.append(ops.Elementwise(B * width, 1, draw(st.integers(0, 9)), p))
    return steps


@given(straight())
def test_a_chain_adds_up_and_fusing_saves_two_crossings_an_intermediate(steps):
    apart, together = ops.chain(steps), ops.chain(steps, kept="all")
    assert apart.algorithmic == reduce(add, (step.algorithmic for step in steps))
    assert together.work == apart.work
    assert set(apart.k.values()) <= {2} and set(together.k.values()) <= {0}
    assert len(apart.k) == len(steps) - 1
    between = sum(step.tensors[-1].write_bytes for step in steps[:-1])
    assert apart.algorithmic.hbm_bytes - together.algorithmic.hbm_bytes == 2 * between
    assert together == apart.fused and apart == together.unfused


@given(straight(), st.data())
def test_each_kept_tensor_saves_its_own_bytes(steps, data):
    apart = ops.chain(steps)
    some = data.draw(st.lists(st.sampled_from([*apart.k, ""]), unique=True))
    kept = [name for name in some if name]
    op = ops.chain(steps, kept)
    bytes_of = {t.name: t.write_bytes for t in apart.tensors}
    assert apart.algorithmic.hbm_bytes - op.algorithmic.hbm_bytes == sum(
        2 * bytes_of[name] for name in kept)
    assert op.k == {name: 0 if name in kept else 2 for name in apart.k}
    names = {**{f"W[{i}]": s.flops for i, s in enumerate(steps, 1)}, **bytes_of,
             **{f"Q[{i}]": s.algorithmic.hbm_bytes for i, s in enumerate(steps, 1)}}
    assert value(op.formulas["W"], names) == op.flops
    assert value(op.formulas["Q"], names) == op.algorithmic.hbm_bytes


def test_a_block_is_the_chain_of_its_steps():
    """The MLP, written out by a reader."""
    B, D, F = 6, 4, 10
    up, down = ops.Linear(B, D, F), ops.Linear(B, F, D)
    gelu = ops.Elementwise(B * F, flops_per_element=0)
    plain = ops.chain([up, gelu, down])
    assert plain.algorithmic == ops.MLP(B, D, F, k=4).algorithmic
    assert plain.fused.algorithmic == ops.MLP(B, D, F, k=0).algorithmic
    assert [t.name for t in plain.tensors] == ["x1", "W1", "y1", "y2", "W3", "y3"]
    named = ops.chain([up.named(y="h"), gelu.named(y="g"), down], kept=["h"])
    assert named.k == {"h": 0, "g": 2}
    assert named.algorithmic == ops.MLP(B, D, F, k=2).algorithmic
    assert ops.chain([up.named(y="h"), gelu], kept="h").k == {"h": 0}
    assert named.formulas["Q"] == "Q[1] + Q[2] + Q[3] - 2 h"


def test_a_shared_input_crosses_once_a_step_or_once():
    """q, k and v of one x."""
    x = [ops.Linear(5, 4, 3).named(x="x", y=name) for name in "qkv"]
    assert ops.chain(x).joined == ("x",)
    assert ops.chain(x).algorithmic.hbm_bytes == 2 * 3 * (20 + 12 + 15)
    assert ops.chain(x, kept=["x"]).algorithmic.hbm_bytes == 2 * (20 + 3 * (12 + 15))
    assert ops.chain(x, kept=["x"]).k == {}


def test_dtypes_may_mix_along_a_chain():
    cast = ops.Elementwise(20, flops_per_element=0, dtype="bf16", out_dtype="fp8")
    op = ops.chain([ops.Linear(5, 3, 4, "bf16"), cast, ops.Linear(5, 4, 2, "fp8")])
    assert op.work == {"bf16": 2 * 5 * 3 * 4, "fp8": 2 * 5 * 4 * 2}
    assert op.algorithmic.hbm_bytes == 2 * (15 + 12 + 20) + (2 + 1) * 20 + (20 + 8 + 10)


BLOCKS = [
    ops.MLP(5, 3, 7), ops.MLP(5, 3, 7, 2, w_dtype="int8"), ops.MLP(5, 3, 7, 4, activation_flops=9),
    ops.SwiGLU(5, 3, 7), ops.SwiGLU(5, 3, 7, 2, w_dtype="fp8"), ops.SwiGLU(5, 3, 7, 4),
    ops.SwiGLU(5, 3, 7, 6, activation_flops=5),
    ops.Attention(5, 3), ops.Attention(5, 3, 6, 2, B=2), ops.Attention(5, 3, causal=True, k=2),
    ops.Attention(5, 3, 6, 2, causal=True, softmax_flops=5), ops.Attention(5, 3, k=4),
    ops.DecodeAttention(2, 5, 3), ops.DecodeAttention(2, 5, 3, 6, 2, kv_dtype="fp8"),
    ops.DecodeAttention(2, 5, 3, 6, 2), ops.LatentDecodeAttention(2, 5, 3, 4, 2),
    ops.LatentDecodeAttention(2, 5, 3, 4, 2, kv_dtype="fp8"),
    ops.MoE(3, 4, 5, E=8, k=2), ops.MoE(3, 4, 5, E=8, k=2, hit=3, shared=1, w_dtype="fp8"),
    ops.AllReduce(12, 3), ops.AllGather(12, 4, "fp32"), ops.ReduceScatter(12, 2),
    ops.PointToPoint(5), ops.Custom(7, (ops.Crossing("x", 3, "bf16", reads=2),)),
]
by_repr = pytest.mark.parametrize("op", BLOCKS, ids=repr)


@by_repr
def test_formulas_as_text_say_what_the_code_computes(op):
    assert value(op.formulas["W"], op) == op.flops == sum(op.work.values())
    assert value(op.formulas["Q"], op) == op.algorithmic.hbm_bytes


@by_repr
def test_tensors_add_up_to_the_count_and_to_the_table(op):
    assert sum(t.read_bytes for t in op.tensors) == op.algorithmic.hbm_read_bytes
    assert sum(t.write_bytes for t in op.tensors) == op.algorithmic.hbm_write_bytes
    heading, *rows, last = repr(op.tensors).splitlines()
    assert heading.split() == ["tensor", "elements", "dtype", "read", "written", "bytes"]
    assert len(rows) == len(op.tensors)
    assert last.split() == ["total", f"{op.algorithmic.hbm_bytes:,}"]


# Far from the small sizes a formula neglects, I is what the limit says.
@pytest.mark.parametrize("op", [
    ops.Linear(3, 4096, 8192), ops.Linear(3, 4096, 8192, w_dtype="int8", scales="channel"),
    ops.MLP(3, 4096, 8192, k=4), ops.SwiGLU(3, 4096, 8192, w_dtype="fp8"),
    ops.Attention(512, 64), ops.Attention(512, 64, 8, 2), ops.Attention(2048, 64, causal=True),
    ops.Attention(2048, 64, 8, 2, causal=True), ops.Attention(2**16, 64, k=4),
    ops.Attention(2**16, 64, k=2, causal=True),
    ops.DecodeAttention(3, 2**16, 64), ops.DecodeAttention(3, 2**16, 64, 8, 2, kv_dtype="fp8"),
    ops.LatentDecodeAttention(3, 2**16, 16, 512, 64),
    ops.MoE(3, 4096, 8192, 8, 2), ops.MoE(3, 4096, 8192, 8, 2, shared=1, hit=4, w_dtype="fp8"),
], ids=repr)
def test_the_quoted_limit_of_I(op):
    text = op.formulas["I"]
    assert text.startswith("~ ")
    assert op.algorithmic.intensity == pytest.approx(value(text[2:], op), rel=0.01)


# --- laws ----------------------------------------------------------------------------------------

@given(small, small, small, st.sampled_from([ops.MLP, ops.SwiGLU]), maybe_dtype)
def test_fusing_moves_less_and_does_the_same(B, D, F, block, p_w):
    counts = [block(B, D, F, k, w_dtype=p_w).algorithmic for k in sorted(block.KEPT)]
    assert all(a.hbm_bytes <= b.hbm_bytes for a, b in pairwise(counts))
    assert len({count.flops for count in counts}) == 1
    op = block(B, D, F, 2, w_dtype=p_w)
    assert (op.fused.k, op.unfused.k) == (0, max(block.KEPT))
    assert op.fused.algorithmic == counts[0] and op.unfused.algorithmic == counts[-1]


@given(small, st.integers(1, 4), heads, st.booleans())
def test_fused_attention_moves_less_and_does_the_same(L, d, H_G, causal):
    op = ops.Attention(L, d, *H_G, causal=causal)
    assert op.fused.algorithmic.hbm_bytes < op.unfused.algorithmic.hbm_bytes
    assert op.fused.flops == op.unfused.flops


@given(st.sampled_from([
    ops.Linear(1, 8, 5), ops.Linear(1, 8, 5, w_dtype="int8", scales="channel"),
    *(ops.MLP(1, 8, 5, k) for k in (0, 2, 4)), *(ops.SwiGLU(1, 8, 5, k) for k in (0, 2, 4, 6)),
    ops.MoE(1, 8, 5, 4, 2), ops.DecodeAttention(1, 9, 4, 8, 2),
    ops.LatentDecodeAttention(1, 9, 4, 8, 2)]), st.integers(1, 2000), st.integers(0, 2000))
def test_intensity_never_falls_as_B_grows(op, B, more):
    low, high = (replace(op, B=size).algorithmic.intensity for size in (B, B + more))
    assert low <= high * (1 + 1e-12)


def test_batching_leaves_decode_attention_where_it_is():
    one = ops.DecodeAttention(B=1, L=4096, d=128, heads=32, kv_heads=8)
    assert replace(one, B=64).algorithmic == 64 * one.algorithmic
    assert "no B reaches 210 FLOP/B" in repr(ops.crossover(one, "B", 210))
    assert one.algorithmic.intensity == pytest.approx(32 / 8, rel=0.01)


# --- crossover -----------------------------------------------------------------------------------

@settings(deadline=None)  # two busy cores
@given(st.integers(1, 40), st.integers(1, 40), st.floats(0.05, 30), dtype, maybe_dtype,
       maybe_dtype, st.sampled_from(["none", "tensor", "channel"]))
def test_crossover_of_a_linear_is_its_formula_and_a_search(D, F, ridge, p, p_w, p_y, scales):
    op = ops.Linear(1, D, F, p, p_w, p_y, scales)
    exact, found = op.crossover(ridge), ops.crossover(op, "B", ridge)
    if exact > 10**6:  # none, or so near to none that rounding decides
        assert found.exact > 10**5
        return
    if found.least > 1:
        assert found.exact == pytest.approx(exact, rel=1e-6)
    else:
        assert exact <= 1 + 1e-9
    if exact < 500:
        reached = [B for B in range(1, 502)
                   if replace(op, B=B).algorithmic.intensity >= ridge * (1 + 1e-12)]
        assert found.least in (reached[0], reached[0] - 1)
        assert found.least in (math.ceil(exact), math.ceil(exact) + 1, max(math.floor(exact), 1))


@pytest.mark.parametrize(("op", "symbol", "ridge"), [
    (ops.MLP(1, 64, 96, k=4), "B", 20), (ops.SwiGLU(1, 64, 96), "B", 20),
    (ops.Attention(1, 16, 4, 2, k=0), "L", 30), (ops.Attention(1, 16, causal=True), "L", 30),
    (ops.MoE(1, 64, 96, 8, 2), "B", 5), (ops.Matmul(1, 64, 64), "M", 10),
    (ops.Linear(10, 64, 1), "F", 5),
], ids=repr)
def test_crossover_of_any_op_is_a_search(op, symbol, ridge):
    size = 1
    while replace(op, **{symbol: size}).algorithmic.intensity < ridge:
        size += 1
    found = ops.crossover(op, symbol, ridge)
    assert found.least == size and size - 1 < found.exact <= size


def test_no_crossover():
    # I = 2 B D F / (2 (BD + DF + BF)) -> D F / (D + F) = 50 for D = F = 100
    op = ops.Linear(1, 100, 100)
    assert op.crossover(50) == math.inf and op.crossover(49) < math.inf
    found = ops.crossover(op, "B", 60)
    assert (found.exact, found.least) == (math.inf, math.inf)
    assert repr(found) == "no B reaches 60 FLOP/B: I goes no higher than 50"


# --- errors --------------------------------------------------------------------------------------

@pytest.mark.parametrize(("make", "says"), [
    (lambda: ops.MLP(1, 2, 3, k=3), "MLP: k: expected one of 0, 2, 4, got 3"),
    (lambda: ops.SwiGLU(1, 2, 3, k=True), "SwiGLU: k: expected one of 0, 2, 4, 6, got True"),
    (lambda: ops.MLP(0, 2, 3), "MLP: B: expected a whole number >= 1, got 0"),
    (lambda: ops.MLP(1, 2, 3, w_dtype="int4"), "MLP: w_dtype: expected one of fp64, "),
    (lambda: ops.Attention(4, 2, 4, 3), "kv_heads: expected a divisor of heads = 4, got 3"),
    (lambda: ops.Attention(4, 2, causal=1), "Attention: causal: expected one of False, True"),
    (lambda: ops.DecodeAttention(1, 4, 2, 2, 4), "kv_heads: expected a divisor of heads = 2"),
    (lambda: ops.MoE(1, 2, 3, E=4, k=5), "MoE: k: expected at most E = 4, got 5"),
    (lambda: ops.MoE(2, 2, 3, E=8, k=2, hit=5), "hit 2 to 4 of them, got 5"),
    (lambda: ops.MoE(2, 2, 3, E=8, k=2, hit=1), "hit 2 to 4 of them, got 1"),
    (lambda: ops.AllReduce(10, 3), "AllReduce: n = 10, chips = 3: expected 2 or more chips"),
    (lambda: ops.AllGather(10, 1), "AllGather: n = 10, chips = 1: expected 2 or more chips"),
    (lambda: ops.chain([]), "chain: steps: expected at least one op, got none"),
    (lambda: ops.chain([ops.Linear(2, 3, 4), ops.Linear(2, 5, 6)]),
     "chain: y1: 8 bf16 elements in one step, 10 bf16 in a later one"),
    (lambda: ops.chain([ops.Linear(2, 3, 4), ops.Linear(2, 4, 6, "fp8")]), "8 fp8 in a later one"),
    (lambda: ops.chain([ops.Linear(2, 3, 4)], kept=["h"]),
     "chain: kept: got 'h'; what can stay on chip here: nothing, no tensor is used twice"),
    (lambda: ops.chain([ops.Linear(2, 3, 4), ops.Linear(2, 4, 4)], kept=["y2"]),
     "chain: kept: got 'y2'; what can stay on chip here: y1"),
    (lambda: ops.chain([ops.Linear(2, 3, 3).named(x="x", y="h"),
                        ops.Linear(2, 3, 3).named(x="h", y="x")]),
     "chain: x: written by a step after it was used"),
    (lambda: ops.Linear(2, 3, 4).named(z="h"), "Linear.named: no tensor 'z'; it has x, W, y"),
    (lambda: ops.Linear(2, 3, 4).named(x="y"), "Linear.named: two tensors would be 'y'"),
    (lambda: ops.Custom(-1, ()), "Custom: W: expected a whole number >= 0, got -1"),
    (lambda: ops.crossover(ops.Linear(1, 2, 3), "M", 210), "has no size 'M'; it has B, D, F"),
    (lambda: ops.crossover(ops.Linear(1, 2, 3), "dtype", 210), "has no size 'dtype'"),
    (lambda: ops.crossover(ops.Linear(1, 2, 3), "B", 0), "ridge: expected FLOP/B > 0, got 0"),
    (lambda: ops.crossover(ops.Linear(1, 2, 3), "B", math.nan), "expected FLOP/B > 0, got nan"),
    (lambda: ops.MODELS["gpt-5"], "MODELS: no model 'gpt-5'; known: gpt2, "),
    (lambda: ops.MODELS["deepseek-v3"].attention(8), "Attention takes one size"),
])
def test_bad_shapes(make, says):
    with pytest.raises(ops.ShapeError) as error:
        make()
    assert says in str(error.value)


# --- model cards: the files' own numbers, and the parameters they add up to ---------------------

CARDS = {  # D, F, layers, heads, KV heads, d, MLP
    "gpt2": (768, 4 * 768, 12, 12, 12, 768 // 12, "gelu"),
    "vjepa2-vit-l": (1024, 4 * 1024, 24, 16, 16, 1024 // 16, "gelu"),
    "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128, "swiglu"),
    "qwen2.5-7b": (3584, 18944, 28, 28, 4, 3584 // 28, "swiglu"),
    # Llama: 2/3 of 4 D, times 1.3, up to the next multiple of 1024 (8B) and of 4096 (70B)
    "llama-3.1-8b": (4096, math.ceil(8 * 4096 / 3 * 1.3 / 1024) * 1024, 32, 32, 8, 128, "swiglu"),
    "llama-3.1-70b": (8192, math.ceil(8 * 8192 / 3 * 1.3 / 4096) * 4096, 80, 64, 8, 128, "swiglu"),
    "mixtral-8x7b": (4096, 14336, 32, 32, 8, 4096 // 32, "swiglu"),
    "deepseek-v3": (7168, 2048, 61, 128, 128, 128, "swiglu"),
}
# vocabulary, the makers' own parameter counts; the input table is the output's too in GPT-2
TOTALS = {"gpt2": (50257 / 2, 124e6), "qwen2.5-7b": (152064, 7.61e9), "llama-3.1-8b":
          (128256, 8.03e9), "llama-3.1-70b": (128256, 70.6e9), "mixtral-8x7b": (32000, 46.7e9)}


def test_model_cards():
    assert set(CARDS) == set(ops.MODELS)
    for key, card in CARDS.items():
        m = ops.MODELS[key]
        assert (m.D, m.F, m.layers, m.heads, m.kv_heads, m.d, m.mlp) == card
        assert m.kind == "documented" and m.file and m.url.startswith("https://")
    mixtral, deepseek = ops.MODELS["mixtral-8x7b"], ops.MODELS["deepseek-v3"]
    assert (mixtral.experts, mixtral.experts_per_token, mixtral.shared_experts) == (8, 2, 0)
    assert (deepseek.experts, deepseek.experts_per_token, deepseek.shared_experts,
            deepseek.latent, deepseek.rope) == (256, 8, 1, 512, 64)


@pytest.mark.parametrize("key", TOTALS)
def test_a_card_adds_up_to_the_published_parameters(key):
    m, (vocabulary, published) = ops.MODELS[key], TOTALS[key]
    attention = 2 * m.D * m.d * (m.heads + m.kv_heads)
    block = max(m.experts, 1) * (3 if m.mlp == "swiglu" else 2) * m.D * m.F
    assert m.layers * (attention + block) + 2 * vocabulary * m.D == pytest.approx(published,
                                                                                 rel=0.01)


def test_a_model_in_one_line():
    llama = ops.MODELS["llama-3.1-8b"]
    assert llama.up_projection(B=1) == ops.Linear(1, 4096, 14336)
    assert llama.down_projection(B=1, w_dtype="int8") == ops.Linear(1, 14336, 4096, w_dtype="int8")
    assert llama.block(B=8, k=6) == ops.SwiGLU(8, 4096, 14336, 6)
    assert llama.attention(L=100) == ops.Attention(100, 128, 32, 8)
    assert llama.decode(B=2, L=100) == ops.DecodeAttention(2, 100, 128, 32, 8)
    assert ops.MODELS["vjepa2-vit-l"].block(2048) == ops.MLP(2048, 1024, 4096)
    assert ops.MODELS["mixtral-8x7b"].block(1) == ops.MoE(1, 4096, 14336, 8, 2)
    deepseek = ops.MODELS["deepseek-v3"]
    assert deepseek.block(1) == ops.MoE(1, 7168, 2048, 256, 8, 1)
    assert deepseek.decode(2, 100) == ops.LatentDecodeAttention(2, 100, 128, 512, 64)
    own = ops.Model(D=64, F=256, layers=2, heads=4, kv_heads=4, d=16, mlp="gelu")
    assert own.block(3) == ops.MLP(3, 64, 256) and own.kind == "assumed"
    table = repr(ops.MODELS).splitlines()
    assert table[0].split() == ["model", "D", "F", "layers", "heads", "KV", "heads", "d", "MLP"]
    assert "8 of 256 experts + 1 shared" in repr(ops.MODELS) and len(table) == 2 * len(CARDS) + 2
