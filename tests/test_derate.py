"""Derating rules: arithmetic a reader can redo, laws they all keep, and what they refuse."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import derate, machine
from roofline.derate import DerateError

CORES = ("trn1", "inf2", "trn2", "trn3")
P1, P2 = 128 * 128 * 2 * 2.8e9, 128 * 128 * 2 * 2.4e9  # 91.7504 and 78.6432 TFLOP/s


def shares(thing):
    return {rule.name: rule.share for rule in thing.rules}


def product(thing):
    return math.prod(rule.share for rule in thing.rules)


# --- Tensor Engine ------------------------------------------------------------------------------

# core, tile, interval in cycles, rate in FLOP/s
@pytest.mark.parametrize(("core", "tile", "interval", "rate"), [
    ("trn1", {}, 512, P1),
    ("trn1", {"K": 64}, 512, P1 * 64 / 128),                        # 45.9 TFLOP/s
    ("trn1", {"M": 32}, 512, P1 * 32 / 128),
    ("trn1", {"N": 32}, 64, P1 * 32 / 64),                          # 64 cycles at 2.8 GHz
    ("trn1", {"N": 1}, 64, P1 / 64),
    ("trn1", {"dtype": "fp32"}, 4 * 512, P1 / 4),                   # 22.94 TFLOP/s
    ("trn1", {"dtype": "fp32", "N": 32}, 4 * 64, P1 / 4 / 2),
    ("trn1", {"load": "shown"}, 512 + 128 / 4, P1 * 512 / 544),
    ("trn1", {"load": "shown", "N": 128}, 128 + 32, P1 * 128 / 160),
    ("trn1", {"load": "shown", "N": 32}, 64 + 32, P1 * 32 / 96),
    ("trn1", {"load": "kept", "N": 32}, 64, P1 * 32 / 64),
    ("trn1", {"load": "shown", "M": 30}, 512 + 30 / 4, P1 * 30 / 128 * 512 / 519.5),
    ("trn1", {"K": 96, "M": 100, "N": 48}, 64, 2 * 96 * 100 * 48 / 64 * 2.8e9),
    ("trn2", {}, 512, P2),
    ("trn2", {"dtype": "fp8", "K": 256}, 512, 2 * P2),              # double row
    ("trn2", {"dtype": "fp8", "K": 128}, 512, P2),                  # half of its rows
    ("trn2", {"dtype": "fp16", "N": 16}, 64, P2 / 4),
    ("trn3", {"dtype": "mxfp8", "K": 512}, 512, 4 * P2),
    ("trn3", {"dtype": "mxfp4", "K": 128, "N": 64}, 64, P2),
])
def test_a_tile(core, tile, interval, rate):
    mm = derate.matmul(core, **tile)
    assert mm.interval == interval
    assert mm.rate == pytest.approx(rate, rel=1e-12)
    assert mm.seconds == pytest.approx(
        interval / machine.get(core).facts["tensor_clock"].value, rel=1e-12)


def test_the_figures_of_day_3():
    assert derate.matmul("trn1", N=32).seconds == pytest.approx(22.857e-9, rel=1e-4)
    assert derate.matmul("trn1", N=32).rate == pytest.approx(45.875e12, rel=1e-4)
    assert derate.matmul("trn1", K=64).rate == pytest.approx(45.875e12, rel=1e-4)
    assert derate.matmul("trn1", dtype="fp32").rate == pytest.approx(22.94e12, rel=1e-3)


def test_which_way_round_a_vector_goes():
    """nki-perf-guide, Opt 7: [1, 128] @ [128, 128] on trn1 takes 64 or 128 cycles."""
    short_moving = derate.matmul("trn1", M=128, N=1)
    short_stationary = derate.matmul("trn1", M=1, N=128)
    assert (short_moving.load_cycles, short_moving.mm_cycles) == (128 / 4, 64)
    assert (short_moving.interval, short_stationary.interval) == (64, 128)


def test_double_row_takes_the_time_of_bf16():
    """trn2-arch, Double FP8: K = 256 in fp8 takes as long as K = 128 in bf16."""
    fp8, bf16 = derate.matmul("trn2", K=256, dtype="fp8"), derate.matmul("trn2")
    assert (fp8.interval, fp8.load_cycles) == (bf16.interval, bf16.load_cycles)
    assert fp8.rate == 2 * bf16.rate


def test_rules_with_share_1_are_left_out():
    assert derate.matmul("trn1").rules == ()
    assert shares(derate.matmul("trn1", K=64, N=32)) == {
        "rows": Fraction(1, 2), "moving size": Fraction(1, 2)}
    assert shares(derate.matmul("trn2", K=128, dtype="fp8", load="shown")) == {
        "dtype": 2, "rows": Fraction(1, 2), "stationary load": Fraction(512, 544)}


def test_a_figure_of_another_core_says_so():
    small = {"M": 64, "N": 16, "load": "shown"}
    kinds = {core: {r.name: r.kind for r in derate.matmul(core, **small).rules} for core in CORES}
    assert kinds["trn1"] == {"columns": "derived", "moving size": "documented",
                             "stationary load": "documented"}
    for core in ("trn2", "trn3"):
        assert kinds[core] == {"columns": "derived", "moving size": "assumed",
                               "stationary load": "assumed"}
    rule = derate.matmul("trn2", N=16).rules[0]
    assert "documented for NeuronCore-v2, not restated for this core" in rule.note
    assert rule.spec[0].value == machine.trn1.facts["matmul_min_initiation_interval"].value
    fp8 = derate.matmul("trn3", K=256, dtype="fp8").rules[0]
    assert (fp8.share, fp8.kind) == (2, "assumed")  # no document states the rate
    assert derate.matmul("trn3", K=128, dtype="fp8").rules[1].kind == "assumed"  # nor K = 256


def test_a_peak_of_your_own_is_refused():
    for own in (machine.trn2.using(bf16="70 TFLOPS"), machine.trn2.under("throttled")):
        with pytest.raises(DerateError, match=r"has a peak of its own.*Use machine\.trn2"):
            derate.matmul(own)
    with pytest.raises(DerateError, match="has a peak of its own"):
        derate.matmul(machine.trn2.using(fp32="15 TFLOPS"), dtype="fp32")


tiles = st.fixed_dictionaries({
    "core": st.sampled_from(CORES), "K": st.integers(1, 128), "M": st.integers(1, 128),
    "N": st.integers(1, 512), "load": st.sampled_from(("hidden", "shown", "kept")),
    "dtype": st.sampled_from(("bf16", "fp16", "tf32", "fp32"))})


@given(tiles)
def test_shares_multiply_to_the_rate_exactly(tile):
    mm = derate.matmul(**tile)
    passes = 4 if mm.dtype == "fp32" else 1
    cycles = Fraction(passes * max(mm.N, 64))
    cycles = {"hidden": max(cycles, Fraction(mm.M, 4)), "kept": cycles,
              "shown": cycles + Fraction(mm.M, 4)}[mm.load]
    assert mm.interval == cycles
    assert product(mm) == Fraction(mm.K * mm.M * mm.N, 128 * 128) / cycles
    assert mm.rate == pytest.approx(mm.flops / mm.seconds, rel=1e-12)
    assert mm.rate == pytest.approx(mm.of_bf16 * mm.core.peak("bf16"), rel=1e-12)
    assert mm.share == pytest.approx(mm.rate / mm.core.peak(mm.dtype), rel=1e-12)


@given(tiles)
def test_nothing_beats_the_peak(tile):
    mm = derate.matmul(**tile)
    assert all(0 < rule.share <= 1 for rule in mm.rules)
    assert 0 < mm.rate <= mm.core.peak(mm.dtype) <= mm.core.peak("bf16")
    assert all(rule.source and rule.kind in machine.KINDS for rule in mm.rules)


@given(tiles, st.sampled_from("KMN"))
def test_a_bigger_tile_is_never_slower_per_flop(tile, side):
    bigger = {**tile, side: min(tile[side] + 1, 512 if side == "N" else 128)}
    assert derate.matmul(**bigger).rate >= derate.matmul(**tile).rate * (1 - 1e-12)


@given(tiles)
def test_a_kept_tile_is_not_slower_than_a_hidden_load_nor_that_than_a_shown_one(tile):
    kept, hidden, shown = (derate.matmul(**{**tile, "load": load}).interval
                           for load in ("kept", "hidden", "shown"))
    assert kept <= hidden < shown


@given(st.sampled_from((("trn2", "fp8", 2), ("trn3", "mxfp8", 4), ("trn3", "mxfp4", 4))),
       st.integers(1, 128), st.integers(1, 128), st.integers(1, 512))
def test_packed_rows(case, rows, M, N):
    core, dtype, packed = case
    mm = derate.matmul(core, packed * rows, M, N, dtype)
    bf16 = derate.matmul(core, rows, M, N)
    assert (mm.interval, product(mm)) == (bf16.interval, packed * product(bf16))
    assert mm.share == pytest.approx(bf16.share)


# --- Vector, Scalar and GpSimd Engine -----------------------------------------------------------

# core, arguments, cycles
@pytest.mark.parametrize(("core", "args", "cycles"), [
    ("trn1", {}, 512),
    ("trn1", {"op": "tensor_tensor"}, 2 * 512),
    ("trn1", {"dtype": "fp32"}, 512),
    ("trn1", {"N": 10, "dependent": True}, 10 + 100),
    ("trn2", {}, 512 / 4),                                         # 1a, 1b and 1c hold
    ("trn2", {"op": "tensor_scalar", "dtype": "fp16"}, 512 / 4),
    ("trn2", {"contiguous": False}, 512 / 2),                      # not 1c
    ("trn2", {"psum": True}, 512 / 2),                             # not 1a
    ("trn2", {"psum": True, "contiguous": False}, 512),            # neither: not named
    ("trn2", {"dtype": "fp32"}, 512),
    ("trn2", {"op": "tensor_tensor"}, 2 * 512 / 2),
    ("trn2", {"op": "tensor_tensor", "psum": True}, 2 * 512),
    ("trn2", {"op": "tensor_tensor", "dtype": "fp32"}, 2 * 512),
    ("trn2", {"op": "tensor_reduce"}, 512),
    ("trn2", {"N": 9}, 3),                                         # ceil(9 / 4)
    ("trn2", {"engine": "scalar", "op": "activation"}, 512),
    ("trn2", {"engine": "gpsimd"}, 512),
    ("trn3", {}, 512 / 4),
    ("trn3", {"engine": "scalar", "op": "tensor_scalar"}, 512 / 2),
    ("trn3", {"engine": "scalar", "op": "activation"}, 512),
    ("trn3", {"engine": "scalar", "dtype": "fp32"}, 512),
])
def test_cycles_of_an_instruction(core, args, cycles):
    e = derate.elementwise(core, **args)
    assert e.cycles == cycles
    clock = machine.get(core).facts[f"{e.engine}_clock"].value
    assert e.seconds == cycles / clock
    assert e.rate == pytest.approx(e.N * 128 / e.seconds, rel=1e-12)


def test_fewer_partitions_cost_the_same():
    few, all_of_them = (derate.elementwise("trn1", partitions=p) for p in (32, 128))
    assert (few.cycles, few.rate) == (all_of_them.cycles, all_of_them.rate / 4)
    assert shares(few) == {"lanes": Fraction(1, 4)}


def test_the_tensor_engine_is_hundreds_of_times_faster():
    """FLOP/s over element/s: 128 x 128 x 2 at one clock, 128 (or the table's 256) at another."""
    plain = derate.elementwise("trn2", dtype="fp32")
    tensor = derate.matmul("trn2").rate
    assert tensor / plain.rate == pytest.approx(640)       # 78.6432e12 / (128 x 0.96e9)
    assert tensor / plain.peak.value == pytest.approx(320)  # 78.6432e12 / (256 x 0.96e9)
    assert derate.matmul("trn1").rate / derate.elementwise("trn1").rate == pytest.approx(640)
    assert "256 elements a cycle are an upper bound" in repr(plain)
    assert [rule.kind for rule in plain.rules] == ["assumed"]


def test_modes_that_another_core_documents_say_so():
    (rule,) = derate.elementwise("trn2", psum=True).rules
    assert rule.kind == "assumed" and "taken as elements a cycle" in rule.why
    (rule,) = derate.elementwise("trn3", psum=True).rules
    assert rule.kind == "assumed"
    assert "documented for NeuronCore-v3" in rule.note
    (rule,) = derate.elementwise("trn3", dtype="fp8", psum=True).rules
    assert "groups fp8" in rule.note


@given(st.sampled_from(CORES), st.sampled_from((
    ("vector", "tensor_copy"), ("vector", "tensor_tensor"), ("vector", "tensor_reduce"),
    ("scalar", "activation"), ("gpsimd", "tensor_tensor"))),
    st.integers(1, 4096), st.integers(1, 128), st.sampled_from(("bf16", "fp32", "fp8")),
    st.booleans(), st.booleans())
def test_an_element_rate_is_the_product_of_its_shares(core, what, N, p, dtype, near, late):
    engine, op = what
    e = derate.elementwise(core, engine, N, p, dtype, op, contiguous=near, dependent=late)
    table = e.peak.value / e.clock.value  # elements a cycle
    assert product(e) == Fraction(N * p, e.cycles * int(table))
    assert all(0 < rule.share <= 1 for rule in e.rules)
    assert e.cycles >= N / 4


# --- DMA ----------------------------------------------------------------------------------------

# partitions, engines, share: 8 partitions an engine, 16 engines
@pytest.mark.parametrize(("partitions", "engines", "share"), [
    (128, 16, 1), (64, 8, 1 / 2), (8, 1, 1 / 16), (4, 1, 1 / 16), (1, 1, 1 / 16),
    (12, 2, 12 / 128), (127, 16, 127 / 128),
])
def test_engines_a_transfer_uses(partitions, engines, share):
    d = derate.dma("trn2", 4096, partitions)
    assert (d.engines, d.share) == (engines, share)
    assert d.rate == pytest.approx(share * 16 * 23e9)
    assert d.seconds == pytest.approx(min(partitions, 8) * 4096 / 23e9)  # the busiest engine's
    assert d.alone_seconds == pytest.approx(1.3e-6 + d.seconds)
    assert d.alone_rate == pytest.approx(partitions * 4096 / (1.3e-6 + d.seconds))


def test_the_example_of_the_dma_overview():
    """dma-intro, Example 1: A[4, 4096] in bf16 is 32 KiB on one engine, profiled at 1416 ns."""
    d = derate.dma("trn2", 4096 * 2, 4)
    assert (d.bytes, d.engines) == (32 * 1024, 1)
    assert d.seconds == pytest.approx(1416e-9, rel=0.01)


@pytest.mark.parametrize(("size", "words"), [
    (255, "below 256 B: a small fraction"), (256, "256 B to 2 KiB: rising"),
    (2047, "256 B to 2 KiB: rising"), (2048, "2 KiB or more: near peak"),
    (4095, "2 KiB or more: near peak"), (4096, "4 KiB or more: saturates"),
])
def test_a_size_has_words_and_no_share(size, words):
    d = derate.dma("trn1", size)
    assert d.size.startswith(words)
    assert ("no formula" in d.size) == (size < 4096)
    assert d.rules == ()


def test_dma_transpose():
    assert shares(derate.dma("trn2", 4096, transpose="hbm")) == {"DMA transpose": Fraction(9, 10)}
    assert shares(derate.dma("trn2", 4096, transpose="sbuf")) == {"DMA transpose": Fraction(1, 2)}
    assert derate.dma("trn3", 4096, transpose="hbm").rules[0].kind == "assumed"


@given(st.sampled_from(CORES), st.integers(1, 2**17), st.integers(1, 128))
def test_no_transfer_beats_the_engines(core, size, partitions):
    d = derate.dma(core, size, partitions)
    assert 0 < d.alone_rate < d.rate <= d.core.bw("DMA") * (1 + 1e-12)
    assert d.rate <= d.engines * d.core.facts["dma_engine_bandwidth"].value * (1 + 1e-12)
    assert product(d) == Fraction(partitions, 16 * min(8, partitions))


# --- throttle, transposes -----------------------------------------------------------------------

@pytest.mark.parametrize(("seconds", "share"), [
    (1e-6, Fraction(1, 2)), (3e-6, Fraction(1, 2)), (6e-6, Fraction(3, 4)),   # (6 - 1.5) / 6
    (15e-6, Fraction(9, 10)), (1.5e-3, Fraction(999, 1000)),
])
def test_throttle(seconds, share):
    for core in ("trn2", "trn3"):
        assert derate.throttle(core, seconds).share == share
    assert derate.throttle("trn1", seconds) is None
    assert derate.throttle("inf2", seconds) is None


@given(st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_throttle_fades(a, b):
    short, long = sorted((a, b))
    assert Fraction(1, 2) <= derate.throttle("trn2", short).share
    assert derate.throttle("trn2", short).share <= derate.throttle("trn2", long).share < 1


def test_throttle_says_when_it_comes_back():
    why = derate.throttle("trn2", 6e-6).why
    assert "re-engages when utilization drops below 50 %" in why and "charged once" in why
    (row,) = [row for row in derate.rules("trn3") if row.name == "throttle"]
    assert (row.kind, "re-engages" in row.says) == ("documented", True)


def test_a_small_transfer_is_an_upper_bound():
    assert "at most 368 GB/s" in repr(derate.dma("trn2", 64))
    assert "at most" not in repr(derate.dma("trn2", 4096))


def test_kinds_on_other_engines():
    kinds = {r.name: r.kind for r in derate.elementwise(
        "trn1", "gpsimd", N=64, op="tensor_tensor", dependent=True).rules}
    assert kinds == {"two inputs": "assumed", "dependent": "assumed"}
    kinds = {r.name: r.kind for r in derate.elementwise(
        "trn1", N=64, op="tensor_tensor", dependent=True).rules}
    assert kinds == {"two inputs": "documented", "dependent": "documented"}
    (two,) = [r for r in derate.elementwise("trn2", op="tensor_tensor").rules
              if r.name == "two inputs"]
    assert two.kind == "assumed"
    (load,) = derate.matmul("trn1", dtype="fp32", load="shown").rules[1:]
    assert (load.name, load.kind) == ("stationary load", "assumed")
    assert [r.kind for r in derate.dma("trn1", 4096, 64).rules] == ["documented"]


def test_notes_of_an_elementwise_instruction():
    assert "a stride above 16 B halves it" in repr(derate.elementwise("trn1", contiguous=False))
    assert "short instructions in a row" in repr(derate.elementwise("trn1", N=64))
    assert "short instructions" not in repr(derate.elementwise("trn1", N=64, dependent=True))
    assert "multiplies, adds, or does both" in repr(
        derate.elementwise("trn2", "scalar", op="tensor_scalar"))


def test_lanes_are_documented_for_the_vector_engine_of_v2():
    for core, engine, kind in (("trn1", "vector", "documented"), ("trn1", "gpsimd", "assumed"),
                               ("trn2", "vector", "assumed"), ("trn3", "scalar", "assumed")):
        rule = derate.elementwise(core, engine, partitions=64).rules[0]
        assert (rule.name, rule.share, rule.kind) == ("lanes", Fraction(1, 2), kind)
    assert "no cost model" in repr(derate.elementwise("trn1", "gpsimd"))


def test_transposes():
    assert derate.transposes(3e-6, 1e-6).share == Fraction(3, 4)
    assert derate.transposes(3e-6, 0).share == 1


# --- the table of rules, what is shown and refused ----------------------------------------------

def test_rules_of_each_chip():
    named = {core: {row.name: row.kind for row in derate.rules(core)} for core in CORES}
    assert named["trn1"] == named["inf2"]
    assert {name for name, kind in named["trn1"].items() if kind != "documented"} == {
        "rows", "columns"}
    assert all(named[core][name] == "derived" for core in CORES for name in ("rows", "columns"))
    assert named["trn2"]["dtype"] == named["trn3"]["dtype"] == "derived"  # from rounded rates
    assert set(named["trn2"]) - set(named["trn1"]) == {
        "rows, fp8", "transpose mode", "throttle", "Vector 4x", "Vector 2x",
        "Vector 2x, two inputs", "transpose, HBM", "transpose, SBUF"}
    assert set(named["trn3"]) - set(named["trn2"]) == {"rows, mxfp8", "Scalar 2x"}
    assert {name for name, kind in named["trn2"].items() if kind == "assumed"} == {
        "moving size", "stationary load", "lanes", "two inputs", "dependent", "access", "stride"}
    assert all(row.source for core in CORES for row in derate.rules(core))
    assert "documented for NeuronCore-v2, not restated" in " ".join(
        repr(derate.rules("trn2")).split())


def test_a_tile_shows_its_rules():
    assert repr(derate.matmul("trn1", K=64, N=32)).splitlines() == [
        "matmul K = 64, M = 128, N = 32, bf16, Trainium1, one NeuronCore-v2",
        "  rule         share       kind        why",
        "  rows         1/2 = 50 %  derived     K / 128 = 64 / 128",
        "  moving size  1/2 = 50 %  documented  N / max(N, 64) = 32 / 64",
        "",
        "  MM        64 cycles     MultiplyMoving",
        "  load      32 cycles     LoadStationary",
        "  interval  64 cycles     max(MM, load)",
        "  time      22.9 ns       of one interval",
        "  rate      22.9 TFLOP/s  25 % of P(bf16)",
        "",
        "  rows: trn1-arch, Tensor Engine, Tile Size",
        "  moving size: trn1-arch, Tensor Engine, Cost Model",
    ]


def test_a_load_in_fp32_says_what_is_assumed():
    """The guide: a load is up to four times as fast as a matmul of the same size, in any dtype."""
    assert "load      32 cycles     LoadStationary; fp32 assumed to load as fast as bf16" in repr(
        derate.matmul("trn1", dtype="fp32"))
    assert "assumed" not in repr(derate.matmul("trn1", dtype="bf16"))


def test_no_loss_says_so():
    for thing in (derate.matmul("trn1"), derate.dma("trn1", 4096), derate.elementwise("trn1")):
        assert "no rule takes anything" in repr(thing)


def test_a_rule_shows_its_share_and_source():
    assert repr(derate.transposes(3e-6, 1e-6)) == (
        "transposes: 3/4 = 75 % (3 us / (3 us + 1 us); derived)")
    assert "assumed: explorer-glossary, dI/dt throttling" in repr(derate.throttle("trn2", 6e-6))


@pytest.mark.parametrize(("call", "text"), [
    (lambda: derate.matmul("trn1", K=129),
     "trn1, matmul in bf16: K = 129; at most 128 (max_contraction: 128 rows). Split K into tiles"),
    (lambda: derate.matmul("trn2", K=258, dtype="fp8"),
     "K = 258; at most 256 (max_contraction: 128 rows x 2 values each). Split K"),
    (lambda: derate.matmul("trn2", K=7, dtype="fp8"),
     "K = 7; a row holds 2 values, so K is a multiple of 2. Pad K to 8 with zeros"),
    (lambda: derate.matmul("trn1", M=300), "M = 300; at most 128 (gemm_stationary_fmax). "
                                           "Split M into tiles"),
    (lambda: derate.matmul("trn1", N=513), "N = 513; at most 512 (gemm_moving_fmax). Split N"),
    (lambda: derate.matmul("trn1", N=0), "N = 0; expected a whole number >= 1"),
    (lambda: derate.matmul("trn1", N=1.5), "N = 1.5; expected a whole number >= 1"),
    (lambda: derate.matmul("trn1", N="64"), "N = '64'; expected a whole number >= 1"),
    (lambda: derate.matmul("trn1", N=True), "N = True; expected a whole number >= 1"),
    (lambda: derate.matmul("trn1", load="late"), "load = 'late'; one of hidden, shown, kept"),
    (lambda: derate.matmul("trn2", dtype="sparse_bf16"), "no document gives its instruction"),
    (lambda: derate.matmul("a100"), "the rules are about one core of trn1, inf2, trn2, trn3"),
    (lambda: derate.matmul(machine.trn2.at("device")), "scope device); the rules are about one"),
    (lambda: derate.elementwise("trn1", "tensor"), "tensor engine, tensor_copy: this engine does "
                                                   "not have it. Use vector or scalar or gpsimd"),
    (lambda: derate.elementwise("trn1", op="gelu"), "unknown op; one of tensor_copy"),
    (lambda: derate.elementwise("trn1", "scalar", op="tensor_tensor"), "Use vector or gpsimd"),
    (lambda: derate.elementwise("trn1", "scalar"), "not on the Scalar Engine of NeuronCore-v2"),
    (lambda: derate.elementwise("inf2", "scalar", op="tensor_scalar"), "Use activation"),
    (lambda: derate.matmul(7), "derate: got 7; expected a core, by name or as a Machine"),
    (lambda: derate.matmul(replace(machine.trn2, facts={})), "trn2: no document gives tensor"),
    (lambda: derate.matmul(replace(machine.trn2, key="mine")), "(key 'mine', scope core)"),
    (lambda: derate.throttle("trn2", "3us"), "throttle: '3us' s; expected a time > 0 s"),
    (lambda: derate.transposes("1", 2), "useful_seconds = '1'; expected a time > 0 s"),
    (lambda: derate.elementwise("trn1", dtype="int4"), "unknown dtype 'int4'; one of bf16"),
    (lambda: derate.elementwise("trn1", "gpsimd", psum=True), "GpSimd Engine cannot access PSUM"),
    (lambda: derate.elementwise("trn1", partitions=129), "partitions = 129; at most 128 (pmax)"),
    (lambda: derate.elementwise("trn1", N=4097, psum=True), "N = 4097; at most 4096 (engine_fmax"),
    (lambda: derate.dma("trn1", 0), "bytes_per_partition = 0; expected a whole number"),
    (lambda: derate.dma("trn1", 2**20), "at most 196608 (sbuf_partition_bytes). Use several"),
    (lambda: derate.dma("trn1", 4096, transpose="hbm"), "'hbm' and 'sbuf', on trn2 and later"),
    (lambda: derate.throttle("trn2", 0), "throttle: 0 s; expected a time > 0 s"),
    (lambda: derate.transposes(0, 1), "useful_seconds = 0; expected a time > 0 s"),
    (lambda: derate.transposes(1, -1), "transpose_seconds = -1; expected a time >= 0 s"),
])
def test_refusals(call, text):
    with pytest.raises(DerateError, match=re.escape(text)):
        call()


def test_a_dtype_without_a_peak_is_the_machines_error():
    with pytest.raises(machine.MachineError, match="no peak for this dtype: got 'fp8'"):
        derate.matmul("trn1", dtype="fp8")
