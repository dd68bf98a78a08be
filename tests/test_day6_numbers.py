"""Day 6's own numbers, as arithmetic a reader can redo, and beside the kernels that move them.

Nothing here comes from `problems`. Sources of the figures: the Trn2 architecture guide (array,
clocks, widths, SBUF, PSUM, 3 TB/s), the hardware pages (2.9 TB/s, 667 TFLOPS), a real profile
(716 GB/s), the DMA guide (23 GB/s an engine).
"""

import json
import re

import pytest
from pages import ROOT, cell_source, sections

from roofline import ask, derate, machine, nki
from roofline.check import WrongAnswer

MIB, KIB = 2**20, 2**10
P, BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8  # one Trn2 core, bf16
TRN1 = 128 * 128 * 2 * 2.8e9


def crossing(D, F, ridge):
    """Tokens at which 2BDF / (2 (BD + DF + BF)) is the ridge."""
    return ridge * D * F / (D * F - ridge * (D + F))


def twice(B, D, F):
    """Bytes of y = xw on two cores with w loaded by both, and by one of them."""
    return 2 * (B * D + 2 * D * F + B * F), 2 * (B * D + D * F + B * F)


# openers: x 96 x 3072; A 1024 x 512, B 512 x 3072
LAYER = 2 * (96 * 3072 + 3072 * 3072 + 96 * 3072)
REUSE = 2 * (6 * 1024 * 512 + 2 * 512 * 3072 + 1024 * 3072)
ONCE = 2 * (1024 * 512 + 512 * 3072 + 1024 * 3072)
TILE = 128 * 512 * 4
N = 2048 * 4096

WEIGHTS, WEIGHTS_ONCE = twice(512, 2048, 2048)
WEIGHTS_W = 2 * 512 * 2048 * 2048
OWN, OWN_ONCE = twice(1024, 1536, 6144)
OWN_W = 2 * 1024 * 1536 * 6144
LNC, LNC_ONCE = 36 * MIB, 28 * MIB
LNC_W = 2 * 2048 * 1024 * 4096

NUMBERS = {
    "day6.open.bound": dict(I=200, ridge=240, binds="memory", T_best=360e-6, T_worst=660e-6,
                            rate=50e12),
    "day6.open.layer": dict(Q=LAYER, I=2 * 96 * 3072 * 3072 / LAYER,
                            B_ridge=crossing(3072, 3072, 140)),
    "day6.open.array": dict(rows=TRN1 * 96 / 128, short=TRN1 / 4, t=64 / 2.8e9),
    "day6.open.reuse": dict(Q=REUSE, less=REUSE - ONCE, changes="Q"),
    "day6.peak": dict(bf16="78.6 TFLOPS", fp32="19.7 TFLOPS", fp8="157.3 TFLOPS"),
    "day6.twice": dict(pair=157.2864e12, apart=(157.2864 - 157.2) * 1e12,
                       wide=(158 - 157.2864) * 1e12, keep="clock"),
    "day6.issue": dict(t=64 / 2.4e9, rate=P / 2 * 40 / 64, free=P / 2, standing="assumed"),
    "day6.throttle": dict(late=1.5e-6, T=0.8e9 / P + 1.5e-6, lost=1.5e-6 / (0.8e9 / P + 1.5e-6)),
    "day6.layout": dict(where="partition", plain=4 * MIB, more=0, T=4 * MIB / 270e9,
                        kernel=8 * MIB),
    "day6.turn": dict(bytes="kernel", evict="tensor", small="vector", least="stored"),
    "day6.psum": dict(row="2 KiB", bank="256 KiB", size="2 MiB", fills="tile"),
    "day6.eviction": dict(tile="192 KiB", hbm="none", t_vector=384 / 0.96e9,
                          t_scalar=384 / 1.2e9, who="both"),
    "day6.tiles": dict(outputs=9, matmuls=45, banks=9, fits="no"),
    "day6.vector": dict(vector=512 * 0.96e9, vector32=256 * 0.96e9, scalar=128 * 1.2e9,
                        copy=N / 512 / 0.96e9, act=N / 128 / 1.2e9,
                        ops=1e12 / 128 / 0.96e9, roof="element"),
    "day6.dma": dict(seen=32 * KIB / 1416e-9, all=368e9, most=435.2e9, which="smaller",
                     shape="wide"),
    "day6.bw": dict(share="375 GB/s", ridge=209.7, weak="many"),
    "day6.rivals": dict(f362="share", f358="stack", f368="engines", f500="sketch",
                        engines=P / 368e9, picture=P / 500e9, settle="measure"),
    "day6.profiler": dict(used=716e9, ridge=P / 358e9, wrong="scope"),
    "day6.crossover_moves": dict(
        B_low=170, B_mid=234, B_high=246, side="open",
        apart=(crossing(4096, 4096, 220) - crossing(4096, 4096, 157)) / crossing(4096, 4096, 210)),
    "day6.lnc.scope": dict(P_pair=157.3e12, BW_pair=750e9, ridge=209.7, T=32e-6, T_chip=8e-6,
                           over_BW=4, over_P=667e12 / 157.2864e12, hide="time"),
    "day6.lnc.weights": dict(Q=WEIGHTS, I=WEIGHTS_W / WEIGHTS, Q_once=WEIGHTS_ONCE,
                             I_once=WEIGHTS_W / WEIGHTS_ONCE, sent=8 * MIB,
                             carried=WEIGHTS, cost="dma"),
    "day6.do.table": dict(bf16=P, fp32=P / 4, fp8=2 * P, vector=491.52e9, vector32=245.76e9,
                          scalar=153.6e9, gpsimd=128 * 1.2e9, sbuf="28 MiB", psum="2 MiB",
                          HBM=375e9, DMA=368e9, kind="derived", source="place"),
    "day6.do.ridges": dict(bf16=P / BW, fp32=P / 4 / BW, fp8=2 * P / BW, write="figure"),
    "day6.do.limits": dict(K=128, stationary=128, moving=512, values=512,
                           share=96 * 320 / 65536, why="row"),
    "day6.do.scope": dict(W_pair=16e9, Q_pair=72e6, P_pair=2 * P, BW_pair=2 * BW,
                          T_pair=8e9 / P, T_core=8e9 / P, right="either"),
    "day6.do.own": dict(Q=OWN, I=OWN_W / OWN, Q_once=OWN_ONCE, I_once=OWN_W / OWN_ONCE,
                        side="compute", T_best=OWN_W / (2 * P)),
    "day6.check.lnc": dict(W=17_179_869_184, Q=37_748_736, I=455, Q_once=29_360_128, I_once=585,
                           over="29 %"),
    "day6.check.eviction": dict(tile="256 KiB", hbm="none", who="both", store="128 KiB"),
}


# --- the curriculum's figures -------------------------------------------------------------------

def test_the_curriculums_peaks_and_ridge():
    assert round(P / 1e12, 1) == 78.6 and BW == 375e9 and round(P / BW) == 210
    assert (round(P / 1e12), round(P / 4e12)) == (79, 20)  # as the guide documents them
    assert 2 * 79 == 158 and round(2 * P / 1e12) == 157  # the guide doubled a rounded figure


def test_the_one_slip_of_the_printed_numbers():
    """2 x 78.6 is 157.2; 157.3 is twice the clock product, rounded once."""
    assert 2 * 786 == 1572 and round(2 * P / 1e12, 1) == 157.3


def test_the_curriculums_psum_and_eviction():
    assert 128 * 8 * 512 * 4 == 2 * MIB and TILE == 256 * KIB


def test_the_curriculums_picture():
    assert round(P / 0.5e12) == 157


def test_the_curriculums_check():
    assert twice(2048, 1024, 4096) == (37_748_736, 29_360_128) == (LNC, LNC_ONCE)
    assert LNC_W == 17_179_869_184
    assert (round(LNC_W / LNC), round(LNC_W / LNC_ONCE)) == (455, 585)
    assert round(LNC / LNC_ONCE - 1, 2) == 0.29


def test_what_the_sources_add():
    assert [round(crossing(4096, 4096, ridge)) for ridge in (157, 210)] == [170, 234]
    assert round(crossing(4096, 4096, P / 358e9)) == 246
    assert round(P / 716e9, 2) == 109.84 and round(P / 358e9, 1) == 219.7
    assert round(667e12 / (2 * P), 2) == 4.24 and 8 / 2 == 4
    assert round(1e12 / (128 * 0.96e9)) == 8  # operations a lane and cycle: an inference


# --- the kernels move what the questions say ----------------------------------------------------

@pytest.fixture(scope="module")
def kernels():
    return nki.load(ROOT / "day6/kernels.py")


def counted(kernel, B, D, F):
    return nki.run(kernel, ((D, B), "bf16"), ((D, F), "bf16"), data=False, target="trn2",
                   block=128)


@pytest.mark.parametrize("id", ["day6.lnc.weights", "day6.do.own", "day6.check.lnc"])
@pytest.mark.parametrize("seed", range(4))
def test_the_linear_layers(kernels, id, seed):
    q = ask(id, seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    says = {part.name: getattr(part, "value", part.answer) for part in q.parts}
    both, once = (counted(kernel, B, D, F) for kernel in (
        kernels.linear[2], kernels.linear_w_once[2]))
    assert (both.count.hbm_bytes, once.count.hbm_bytes) == (says["Q"], says["Q_once"])
    assert (both.count.intensity, once.count.intensity) == (says["I"], says["I_once"])
    assert both.count.work == once.count.work
    assert {row.name: row.reload for row in both.tensors}["w"] == 2
    assert {row.name: row.reload for row in once.tensors}["w"] == 1
    if "W" in says:
        assert both.count.flops == says["W"]
    if "sent" in says:
        assert says["sent"] == 2 * D * F == sum(2 * D * F // 2 for _ in both.cores)
        assert says["carried"] == both.count.hbm_bytes  # what is not loaded twice is sent


def test_the_curriculums_check_counted_from_code(kernels):
    both, once = (counted(kernel, 2048, 1024, 4096) for kernel in (
        kernels.linear[2], kernels.linear_w_once[2]))
    assert (both.count.hbm_bytes, once.count.hbm_bytes) == (36 * MIB, 28 * MIB)
    assert both.count.flops == once.count.flops == 17_179_869_184


@pytest.mark.parametrize("seed", range(4))
def test_a_time_shows_what_a_ridge_hides(seed):
    q = ask("day6.lnc.scope", seed)
    W, Q = q.inputs["W"], q.inputs["Q"]
    says = {part.name: getattr(part, "value", part.answer) for part in q.parts}
    pair, device = machine.trn2.at("lnc2"), machine.trn2.at("device")
    for name, of in (("T", pair), ("T_chip", device)):
        assert says[name] == pytest.approx(max(W / of.peak("bf16"), Q / of.bw()))
    assert says["T"] == pytest.approx(4 * says["T_chip"])
    assert pair.ridge("bf16") == device.ridge("bf16") == pytest.approx(says["ridge"])


def test_every_side_of_the_batch_comes_up():
    sides = {next(p.answer for p in ask("day6.crossover_moves", seed).parts if p.name == "side")
             for seed in range(40)}
    assert sides == {"memory", "compute", "open"}


# --- the slips: what someone with that misconception would write ----------------------------------

SLIPS = {
    "day6.open.bound": [("I", 1 / 200, "upside down"), ("ridge", 1 / 240, "upside down"),
                        ("T_best", 300e-6, "shorter"), ("T_worst", 360e-6, "overlap"),
                        ("rate", 60e12, "higher of the two")],
    "day6.open.layer": [("Q", LAYER - 2 * 3072**2, "weights left out"),
                        ("Q", LAYER / 2, "elements"), ("B_ridge", 140, "x and y left out")],
    "day6.open.array": [("rows", TRN1, "whole array"), ("short", TRN1, "no least"),
                        ("t", 16 / 2.8e9, "no least"), ("t", 512 / 2.8e9, "512 columns")],
    "day6.open.reuse": [("Q", ONCE, "loaded once"), ("less", REUSE, "not the difference")],
    "day6.peak": [("bf16", P / 2, "one FLOP"), ("bf16", 8 * P, "8 cores"),
                  ("fp32", P, "bf16's rate"), ("fp32", P / 2, "halved"),
                  ("fp8", P, "double-row"), ("fp8", 4 * P, "sparse")],
    "day6.twice": [("pair", P, "one core's"), ("pair", 8 * P, "8 cores"),
                   ("apart", 713.6e9, "two digits"), ("wide", 86.4e9, "three digits")],
    "day6.issue": [("t", 40 / 2.4e9, "N taken"), ("rate", P, "both losses"),
                   ("rate", P / 4 * 40 / 64, "counted twice"),
                   ("rate", P / 2, "short moving"), ("free", P, "rows idle")],
    "day6.throttle": [("late", 3e-6, "whole start"), ("T", 0.8e9 / P, "left out"),
                      ("T", 1.6e9 / P, "lower rate"), ("lost", 0.5, "share of peak"),
                      ("lost", 1.5e-6 / (0.8e9 / P), "at P throughout")],
    "day6.layout": [("plain", 2 * MIB, "elements"), ("more", 4 * MIB, "second crossing"),
                    ("T", 4 * MIB / 150e9, "SBUF to SBUF"), ("kernel", 4 * MIB, "alone")],
    "day6.psum": [("row", 512, "values"), ("bank", 2 * KIB, "one partition"),
                  ("size", MIB, "2 bytes"), ("size", 16 * KIB, "one partition")],
    "day6.eviction": [("tile", 128 * 384, "values"),
                      ("t_scalar", 128 * 384 / 1.2e9, "one element"),
                      ("t_vector", 384 / 2.4e9, "Tensor")],
    "day6.tiles": [("outputs", 36, "128 columns"), ("matmuls", 9, "K left out"),
                   ("banks", 45, "step of K")],
    "day6.vector": [("vector", 0.96e9, "one element"), ("vector32", 512 * 0.96e9, "in bf16"),
                    ("copy", N / 1e12, "1.0 TFLOP/s"),
                    ("ops", 1e12 / 512 / 0.96e9, "width"),
                    ("scalar", 2 * 128 * 1.2e9, "two operations")],
    "day6.dma": [("seen", 8 * 32 * KIB / 1416e-9, "bits"),
                 ("seen", 32 * KIB / 116e-9, "before the start"), ("all", 23e9, "one engine"),
                 ("most", 2 * 435.2e9, "pair")],
    "day6.rivals": [("engines", 2 * P / 368e9, "pair's P"), ("picture", P / 3e12, "device's"),
                    ("picture", P / 4 / 500e9, "fp32")],
    "day6.bw": [("share", 3e12, "device"), ("share", 750e9, "pair"),
                ("ridge", P / 3e12, "device"), ("ridge", BW / P, "upside")],
    "day6.profiler": [("used", 358e9, "half"), ("used", 375e9, "even share"),
                      ("ridge", 109.84, "shown")],
    "day6.crossover_moves": [("B_low", 157, "left out"), ("B_mid", 210, "left out"),
                             ("apart", 63 / 210, "spread of the ridges")],
    "day6.lnc.scope": [("P_pair", P, "one core"), ("BW_pair", 3e12, "8 cores"),
                       ("ridge", 2 * P / BW, "pair"), ("T", 64e-6, "one core"),
                       ("T", 8e-6, "8 cores"), ("over_BW", 8, "one core"),
                       ("over_P", 667e12 / P, "one core"), ("over_P", 4, "documented figure")],
    "day6.lnc.weights": [("Q", WEIGHTS_ONCE, "counted once"), ("Q", WEIGHTS / 2, "elements"),
                         ("sent", 4 * MIB, "one direction"),
                         ("carried", WEIGHTS_ONCE, "HBM bytes alone"),
                         ("carried", WEIGHTS + 8 * MIB, "second load")],
    "day6.check.lnc": [("Q", LNC_ONCE, "counted once"), ("Q", 56 * MIB, "split"),
                       ("I", 585, "counted once"), ("over", 36 / 28, "ratio"),
                       ("over", 1 - 28 / 36, "understated")],
    "day6.check.eviction": [("tile", 65536, "values"), ("store", 256 * KIB, "fp32"),
                            ("store", 65536, "elements")],
    "day6.do.table": [("bf16", 8 * P, "8 cores"), ("fp32", P, "bf16's rate"),
                      ("fp8", 4 * P, "sparse"), ("vector", 245.76e9, "in fp32"),
                      ("vector32", 491.52e9, "in bf16"), ("gpsimd", 1.2e9, "one element"),
                      ("scalar", 128 * 2.4e9, "Tensor"), ("sbuf", 224 * KIB, "one partition"),
                      ("psum", MIB, "2 bytes"), ("HBM", 750e9, "pair"),
                      ("DMA", 23e9, "one engine")],
    "day6.do.ridges": [("bf16", P / 3e12, "device"), ("fp32", P / 2 / BW, "pair"),
                       ("fp8", 4 * P / BW, "sparse"), ("fp8", P / BW, "one FLOP")],
    "day6.do.limits": [("values", 2048, "bytes"), ("K", 512, "moving"), ("K", 256, "fp8"),
                       ("stationary", 512, "moving"), ("moving", 128, "stationary"),
                       ("share", 320 / 512, "rows that idle"), ("share", 0.75, "columns left out")],
    "day6.do.scope": [("W_pair", 8e9, "one core"), ("Q_pair", 52e6, "written left out"),
                      ("P_pair", 8 * P, "8 cores"), ("BW_pair", BW, "one core"),
                      ("T_pair", 16e9 / P, "over one core's roofs"),
                      ("T_core", 4e9 / P, "over the pair's roofs")],
    "day6.do.own": [("Q", OWN_ONCE, "counted once"), ("I_once", OWN_W / OWN, "counted twice"),
                    ("T_best", OWN_W / P, "one core")],
}


@pytest.mark.parametrize(("id", "part", "answer"), [
    ("day6.twice", "apart", (157.3 - 157.2) * 1e12), ("day6.twice", "apart", 90e9),
    ("day6.twice", "wide", (158 - 157.3) * 1e12), ("day6.vector", "ops", 8),
    ("day6.crossover_moves", "apart", "32 %")])
def test_fair_roundings_are_right(id, part, answer):
    ask(id).check(**{part: answer})


@pytest.mark.parametrize("seed", range(6))
def test_remarks_on_rounding_are_of_the_drawn_peak(seed):
    q = ask("day6.twice", seed)
    tera = q.inputs["P"] / 1e12
    three, two = float(f"{tera:.3g}"), float(f"{tera:.2g}")
    with pytest.raises(WrongAnswer, match=f"{two:g} is {tera:.6g} rounded, and {2 * two:g} is"):
        q.check(keep="guide")
    assert f"Twice {three:g} TFLOP/s is {2 * three:g}, a rounding doubled." in q.worked()


def test_the_example_of_one_engine_leaves_the_larger_figure_open():
    """32 KiB at 27.2 GB/s are 1.205 us of the 1.416 us: 211 ns are left to explain."""
    assert round(1416 - 32 * KIB / 27.2) == 211
    assert "fixed cost of 211 ns" in ask("day6.dma").worked()


def test_the_pictures_sbuf_is_that_of_one_core_and_its_hbm_that_of_none():
    assert round(24 * MIB / 1e6) == 25
    assert {machine.get(chip, "device").facts["hbm_bytes"].value // 2**30
            for chip in ("trn1", "trn2", "trn3")} == {32, 96, 144}


def test_a_rounding_doubled_passes_and_is_said_to():
    """158 lies within the 1 % that any form allows; the worked answer says so."""
    ask("day6.twice").check(pair="158 TFLOP/s")
    assert "so 158 passes it too" in ask("day6.twice").worked()


@pytest.mark.parametrize(("part", "answer", "source"), [
    ("share", "368 GB/s", "dma-guide"), ("ridge", 213.7, "368 GB/s"),
    ("share", "362.5 GB/s", "hw-trainium2"), ("share", "358 GB/s", "profile"),
    ("share", "500 GB/s", "Data Movement"), ("ridge", 157.3, "500 GB/s"),
    ("ridge", 219.7, "358 GB/s")])
def test_other_sources_are_named(part, answer, source):
    with pytest.raises(WrongAnswer, match=f"right for .*{source}.*not the figure this page uses"):
        ask("day6.bw").check(**{part: answer})


def test_an_eviction_at_the_engine_tables_width():
    """256 fp32 elements a cycle is an upper bound: no slip, and not what the course uses."""
    with pytest.raises(WrongAnswer, match="right for 256 elements a cycle, the engine table's"):
        ask("day6.eviction").check(t_vector=192 / 0.96e9)
    copy = derate.elementwise(machine.trn2, "vector", N=384, dtype="fp32", psum=True)
    assert copy.seconds == pytest.approx(NUMBERS["day6.eviction"]["t_vector"])


# --- the page -----------------------------------------------------------------------------------

def test_the_transfers_shown_in_prose_are_all_of_the_files():
    """The page shows every transfer of `linear`: its own, and those of `multiply` it calls."""
    cells = json.loads((ROOT / "day6/trn2_sheet.ipynb").read_text())["cells"]
    (block,) = [block for cell in cells if cell["cell_type"] == "markdown"
                for block in re.findall(r"```python\n(.*?)```", cell_source(cell), re.S)]
    source = (ROOT / "day6/kernels.py").read_text()
    text = "".join(source.split())
    for shown in re.split(r"^ *\.\.\.\n", block, flags=re.M):
        assert "".join(shown.split()) in text, shown
    bodies = [source[source.index(f"def {name}("):] for name in ("multiply", "linear")]
    in_file = sum(len(re.findall(r"nisa\.dma_\w+\(", body.partition("\n@nki.jit")[0]))
                  for body in bodies)
    assert len(re.findall(r"nisa\.dma_\w+\(", block)) == in_file == 3


# Each number that the curriculum prints for this day, and where this page prints it.
CURRICULUM = {
    "P: an array and its clock": ("78.64", "79", "20", "158", "2.4 GHz"),
    "How often a matmul may start": ("64",),
    "PSUM, and the way out of it": ("128", "8", "512", "2 MiB"),
    "The other engines have roofs of their own": ("1 TFLOP/s", "1.0 TFLOP/s"),
    "BW, and its rivals": ("3 TB/s", "375 GB/s", "210 FLOP/B", "500 GB/s", "157 FLOP/B"),
    "Two cores as one: LNC=2": ("78.64", "157.3 TFLOP/s", "750 GB/s", "210 FLOP/B", "4"),
    "Do": ("128", "512"),
    "Check yourself": (
        "2,048 × 1,024", "1,024 × 4,096", "4 MiB", "16 MiB", "8 MiB", "4 MiB + 16 MiB + 16 MiB",
        "36 MiB", "37,748,736", "17,179,869,184", "455", "28 MiB", "29,360,128", "585", "29%",
        "37,748,736 / 29,360,128 - 1", "128 × 512 × 4 bytes", "256 KiB", "Zero"),
}


@pytest.mark.parametrize(("section", "number"), [
    (section, number) for section, numbers in CURRICULUM.items() for number in numbers])
def test_the_curriculums_numbers_stand_in_their_section(section, number):
    (found,) = [one for one in sections(ROOT / "day6/trn2_sheet.ipynb") if one.title == section]
    assert re.search(rf"(?<![\d.,]){re.escape(number)}(?!\d)", "\n".join(found.outputs))


def test_the_roofs_in_a_row():
    """DMA against HBM's share: 368 to 375; ridges by the DMA table on three chips."""
    assert round(100 * (368 / 375 - 1), 1) == -1.9
    ridges = {chip: machine.get(chip).peak("bf16") / machine.get(chip).bw("DMA")
              for chip in ("trn1", "trn3")}
    assert [round(ridge, 1) for ridge in ridges.values()] == [
        round(TRN1 / (16 * 17e9), 1), round(P / (16 * 33e9), 1)] == [337.3, 148.9]


def test_the_lone_core_is_above_both():
    """Bytes of the published shapes over the times; a core's share and its DMA engines are less."""
    runs = (448_266_240 / 1084.8e-6, 234_881_024 / 578e-6, 234_881_024 / 591.8e-6)
    assert [round(run / 1e9, 1) for run in runs] == [413.2, 406.4, 396.9]
    assert min(runs) > 375e9 > 368e9


def test_the_device_figures_are_a_constant_above_eight_cores():
    assert [667 - 8 * 79, 1299 - 8 * 158, 2563 - 8 * 316, 181 - 8 * 20] == [35, 35, 35, 21]
