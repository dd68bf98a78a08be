"""Day 5's own numbers, as arithmetic a reader can redo, and beside the kernels that move them.

Nothing here comes from `problems`. What a question says of a kernel is compared with a run of that
kernel: the file of the day, or the one in the page's own cell.
"""

import json
import re

import numpy as np
import pytest
from ml_dtypes import bfloat16
from pages import ROOT, cell_source

from roofline import ask, nki
from roofline.check import Choice, WrongAnswer
from roofline.nki import isa as nisa
from roofline.nki import language as nl

MIB = 2**20
P, BW = 128 * 128 * 2 * 2.4e9, 3e12 / 8  # one Trn2 core

# C = AB, M 1280, K 512, N 2048, tiles of 128 x 128 and 128 x 512, nothing kept
W, A, B, C = 2 * 1280 * 512 * 2048, 2 * 1280 * 512, 2 * 512 * 2048, 2 * 1280 * 2048
Q = 4 * A + 10 * B + C

# the curriculum's MLP: B 2048, D 1024, F 4096
FUSED = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
THREE = FUSED + 2 * 4 * 2048 * 4096

# y = x w: 1024 tokens, 128 -> 512
X_, W_, Y_ = 2 * 1024 * 128, 2 * 128 * 512, 2 * 1024 * 512
# C stays in blocks of 512 x 1024: M 1536, K 768, N 2048
BLOCK = 2 * (2 * 1536 * 768 + 3 * 768 * 2048 + 1536 * 2048)
# loads of A 24 times, of B 72, stores of C 18
READ, STORED = 2 * 128 * (24 * 128 + 72 * 512), 2 * 18 * 128 * 512
LINES_W = 72 * 2 * 128 * 128 * 512

NUMBERS = {
    "day5.count.reload": dict(runs=10 * 4 * 4, r_A=4, r_B=10, Q=30 * MIB, I=W / Q, line="b"),
    "day5.count.twice": dict(more=160 * 2 * 128 * 128, ratio=35 / 30, rest="same"),
    "day5.count.fused": dict(read=FUSED - 2 * 2048 * 1024, Q_fused=25_165_824, k=4,
                             Q_three=92_274_688),
    "day5.count.fits": dict(weights="192 KiB", blocks=2 * (1024 + 6144), where="trn2"),
    "day5.count.lnc": dict(Q_1=X_ + W_ + Y_, Q_2=X_ + 2 * W_ + Y_, each=X_ / 2 + W_ + Y_ / 2,
                           why="sbuf"),
    "day5.count.gap": dict(apart=128 * 128 * 2, cause="constant"),
    "day5.count.do.inside": dict(r_w=8, Q=X_ + 8 * W_ + Y_, I=2**27 / (X_ + 8 * W_ + Y_)),
    "day5.count.do.block": dict(r_A=2, r_B=3, banks=8, Q=BLOCK, I=2 * 1536 * 768 * 2048 / BLOCK),
    "day5.count.do.own": dict(Q="40 MB", I=300, side="compute", T_best=12e9 / P),
    "day5.count.check.lines": dict(read=READ, written=STORED, r_B=6, W=LINES_W,
                                   I=LINES_W / (READ + STORED)),
    "day5.count.check.cast": dict(load=4 * MIB, sbuf=2 * MIB, Q=6 * MIB, work="bf16"),
    "day5.count.check.knows": dict(flops="source", loads="source", room="source",
                                   spills="profile", packets="profile", engine="profile"),
}


@pytest.mark.parametrize("id", NUMBERS)
def test_the_pages_own_answer(id):
    q = ask(id)
    assert q.check(**NUMBERS[id]).right
    for part in q.parts:
        if isinstance(number := NUMBERS[id][part.name], int | float):
            assert part.value == pytest.approx(number, rel=2e-3)


def test_every_day_5_problem_is_here():
    from roofline.problems import BANK
    assert {id for id in BANK if id.startswith("day5.")} == set(NUMBERS)


def test_the_curriculums_mlp():
    assert 4 * 2048 * 1024 * 4096 == 34_359_738_368
    assert (FUSED, THREE) == (25_165_824, 92_274_688)
    assert round(34_359_738_368 / FUSED) == 1365 and round(34_359_738_368 / THREE) == 372


def test_the_matmul_of_the_page():
    assert Q == 31_457_280 == 30 * MIB and W == 2_684_354_560
    assert round(W / Q, 1) == 85.3 and round(W / (A + B + C)) == 310  # left and right of 210


# --- the kernels move what the questions say ----------------------------------------------------

PAGE = json.loads((ROOT / "day5/count_from_code.ipynb").read_text())["cells"]
FILE = (ROOT / "day5/kernels.py").read_text()
SEEDS = range(6)


@pytest.fixture(scope="module")
def kernels():
    return nki.load(ROOT / "day5/kernels.py")


def in_cell(change=lambda source: source):
    """The kernel `linear` of the page's own cell."""
    (source,) = [cell_source(c) for c in PAGE if "def linear" in cell_source(c)]
    scope = {"nki": nki, "nisa": nisa, "nl": nl}
    exec(change(source), scope)
    return scope["linear"]


def shapes(*sizes):
    return [(size, "bf16") for size in sizes]


def counted(kernel, *sizes, **options):
    return nki.run(kernel, *shapes(*sizes), data=False, **options)


def said(q):
    return {part.name: getattr(part, "value", part.answer) for part in q.parts}


def reloads(run):
    return {row.name: row.reload for row in run.tensors}


@pytest.mark.parametrize("seed", SEEDS)
def test_reload(kernels, seed):
    q = ask("day5.count.reload", seed)
    M, K, N = (q.inputs[name] for name in "MKN")
    run, says = counted(kernels.matmul_reload, (K, M), (K, N)), said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert (reloads(run)["a"], reloads(run)["b"]) == (says["r_A"], says["r_B"])
    most = max(run.lines, key=lambda row: row.read + row.written)
    assert f"src={says['line']}[" in most.line.text and most.instructions == says["runs"]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_load_twice(kernels, seed, tmp_path):
    q = ask("day5.count.twice", seed)
    M, K, N = (q.inputs[name] for name in "MKN")
    (load,) = {line.strip() for line in FILE.splitlines() if "dma_copy(dst=a_tile" in line}
    (tmp_path / "twice.py").write_text(FILE.replace(load, f"{load}; {load}"))
    before, after = (counted(file.matmul_reload, (K, M), (K, N))
                     for file in (kernels, nki.load(tmp_path / "twice.py")))
    assert after.count.hbm_bytes - before.count.hbm_bytes == said(q)["more"]
    assert after.count.hbm_bytes / before.count.hbm_bytes == pytest.approx(said(q)["ratio"])
    assert after.count.work == before.count.work


@pytest.mark.parametrize("seed", SEEDS)
def test_one_kernel_and_three(kernels, seed):
    q = ask("day5.count.fused", seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    fused = counted(kernels.mlp_fused, (D, B), (D, F), (F, D)).count
    steps = [counted(kernels.mlp_up, (D, B), (D, F)), counted(kernels.mlp_gelu, (F, B)),
             counted(kernels.mlp_down, (F, B), (F, D))]
    says = said(q)
    assert (fused.hbm_read_bytes, fused.hbm_bytes) == (says["read"], says["Q_fused"])
    assert sum(step.count.hbm_bytes for step in steps) == says["Q_three"]
    wide = sum(row.read + row.written for step in steps for row in step.tensors
               if row.name in ("h", "g"))
    assert wide / (2 * B * F) == says["k"]


@pytest.mark.parametrize("seed", range(12))
def test_where_it_fits(kernels, seed):
    q = ask("day5.count.fits", seed)
    D, F = q.inputs["D"], q.inputs["F"]
    says = said(q)
    for target, fits in (("trn1", says["where"] == "both"), ("trn2", says["where"] != "none")):
        sizes = ((D, 256), (D, F), (F, D))
        if fits:
            run = counted(kernels.mlp_fused, *sizes, target=target)
            assert run.sbuf_peak_bytes == 128 * (says["weights"] + says["blocks"])
        else:
            with pytest.raises(nki.NkiValidationError, match=target):
                counted(kernels.mlp_fused, *sizes, target=target)


def test_the_places_it_fits_all_come_up():
    assert {said(ask("day5.count.fits", seed))["where"] for seed in range(40)} == {
        "both", "trn2", "none"}


@pytest.mark.parametrize("seed", SEEDS)
def test_two_cores(seed):
    q, linear = ask("day5.count.lnc", seed), in_cell()
    B, D, F = (q.inputs[name] for name in "BDF")
    one, two, says = counted(linear, (D, B), (D, F)), counted(linear[2], (D, B), (D, F)), said(q)
    assert (one.count.hbm_bytes, two.count.hbm_bytes) == (says["Q_1"], says["Q_2"])
    assert [core.count.hbm_bytes for core in two.cores] == [says["each"]] * 2
    assert two.count.work == one.count.work
    assert (reloads(two)["x"], reloads(two)["w"]) == (1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_load_moved_inside(seed):
    load = "nisa.dma_copy(dst=weights, src=w)\n"
    inside = in_cell(lambda source: source.replace(f"    {load}", "").replace(
        "        nisa.dma_copy(dst=tokens", f"        {load}        nisa.dma_copy(dst=tokens"))
    q = ask("day5.count.do.inside", seed)
    B, D, F = (q.inputs[name] for name in "BDF")
    run, says = counted(inside, (D, B), (D, F)), said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert reloads(run)["w"] == says["r_w"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_block_of_c(kernels, seed):
    q = ask("day5.count.do.block", seed)
    M, K, N, rows, columns = (q.inputs[name] for name in ("M", "K", "N", "rows", "columns"))
    run = counted(kernels.matmul_c_stays, (K, M), (K, N), rows=rows, columns=columns)
    says = said(q)
    assert (run.count.hbm_bytes, run.count.intensity) == (says["Q"], says["I"])
    assert (reloads(run)["a"], reloads(run)["b"]) == (says["r_A"], says["r_B"])
    assert run.psum_peak_banks == says["banks"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_five_lines(kernels, seed):
    """The listing of the question is that of `matmul_a_stays`."""
    q = ask("day5.count.check.lines", seed)
    K, N = q.inputs["K"], q.inputs["N"]
    M = 128 * (q.inputs["a"] * 128 // K)
    run, says = counted(kernels.matmul_a_stays, (K, M), (K, N)), said(q)
    assert [row.instructions for row in run.lines] == [
        q.inputs[name] for name in ("a", "b", "mm", "c", "c")]
    count = run.count
    assert (count.hbm_read_bytes, count.hbm_write_bytes) == (says["read"], says["written"])
    assert (count.flops, count.intensity, reloads(run)["b"]) == (says["W"], says["I"], says["r_B"])


@nki.jit
def halve(x):
    """x in bf16: the load converts."""
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    half = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=half, src=x)
    nisa.dma_copy(dst=y, src=half)
    return y


def test_a_load_that_converts():
    q = ask("day5.count.check.cast", rows=128, columns=512)
    x = np.arange(128 * 512, dtype=np.float32).reshape(128, 512)
    run, says = nki.run(halve, x), said(q)
    assert run.count.hbm_read_bytes == says["load"] and run.count.hbm_bytes == says["Q"]
    assert run.sbuf_peak_bytes == says["sbuf"]
    assert np.array_equal(run.outputs[0], x.astype(bfloat16))


def test_every_cause_of_a_gap_comes_up():
    causes = {said(ask("day5.count.gap", seed))["cause"] for seed in range(40)}
    assert causes == {"constant", "spill", "hoist"}


@pytest.mark.parametrize(("read", "written", "cause"), [
    (+32_768, 0, "constant"), (+10, +10, "spill"), (-4096, 0, "hoist")])
def test_the_cause_follows_from_the_differences(read, written, cause):
    q = ask("day5.count.gap", code_read=10**6, code_written=10**6, prof_read=10**6 + read,
            prof_written=10**6 + written)
    assert q.check(cause=cause, apart=abs(read)).outcomes


# --- the page -----------------------------------------------------------------------------------

def test_code_shown_in_prose_is_the_files():
    """What a code block shows stands in kernels.py, in this order; `...` leaves lines out."""
    blocks = [block for cell in PAGE if cell["cell_type"] == "markdown"
              for block in re.findall(r"```python\n(.*?)```", cell_source(cell), re.S)]
    assert len(blocks) == 2
    file = "".join(FILE.split())  # lines of the page are shorter
    for block in blocks:
        at = 0
        for shown in re.split(r"^ *\.\.\.\n", block, flags=re.M):
            text = "".join(shown.split())
            assert text in file[at:], shown
            at = file.index(text, at) + len(text)


def test_what_a_block_leaves_out_moves_nothing():
    """Between the lines of a block there is no further transfer in the file."""
    for name, shown in (("matmul_reload", 3), ("mlp_fused", 4)):
        body = FILE[FILE.index(f"def {name}("):].partition("\n@nki.jit")[0]
        assert len(re.findall(r"nisa\.dma_\w+\(", body)) == shown


def test_the_counters_it_calls_unknown_are_unknown():
    """The table of what a count cannot know names the profiler's fields as the library does."""
    (table,) = [cell_source(c) for c in PAGE if "| Not in the source |" in cell_source(c)]
    run = counted(in_cell(), (128, 256), (128, 512))
    for name in re.findall(r"`(\w+_\w+)`", table):
        assert (run.counters[name] == "unknown") == (not name.startswith("hbm_")), name


# --- the slips: what someone with that misconception would write ---------------------------------

SLIPS = {
    "day5.count.reload": [
        ("runs", 40, "loops left out"), ("runs", 16, "over M"), ("runs", 640, "of 128 columns"),
        ("r_A", 10, "swapped"), ("r_A", 16, "512 columns"), ("r_A", 1, "loaded once"),
        ("r_A", 2048, "each use"), ("r_B", 4, "swapped"), ("r_B", 2.5, "stationary"),
        ("Q", A + B + C, "loaded once"), ("Q", Q / 2, "elements"), ("Q", Q - C, "C left out"),
        ("Q", 4 * A + 10 * B + 4 * C, "PSUM adds up"), ("I", Q / W, "upside down"),
        ("I", W / 2 / Q, "as one FLOP"), ("I", W / (A + B + C), "loaded once")],
    "day5.count.twice": [
        ("more", 2 * 128 * 128, "one tile"), ("more", A, "r_A times"), ("more", 2 * A, "elements"),
        ("more", 16 * A, "tile of B"), ("ratio", 2, "every line"), ("ratio", 5 / 30, "growth"),
        ("ratio", 30 / 35, "upside down")],
    "day5.count.fused": [
        ("read", 2 * 2048 * 1024 + 16 * 4 * 1024 * 4096, "every block"),
        ("read", 2 * 2048 * 1024, "weights left"), ("Q_fused", FUSED / 2, "elements"),
        ("Q_fused", THREE, "three kernels"), ("Q_fused", FUSED - 2 * 1024 * 4096, "one of the two"),
        ("Q_fused", FUSED + 4 * 2048 * 4096, "h crosses"), ("k", 2, "one tensor alone"),
        ("k", 3, "one of the four"), ("Q_three", FUSED, "as in one"),
        ("Q_three", 8 * 2048 * 4096, "h and g alone"), ("Q_three", THREE / 2, "elements")],
    "day5.count.fits": [
        ("weights", "96 KiB", "one of the two"), ("weights", "24 MiB", "whole"),
        ("weights", "384 KiB", "fp32"), ("blocks", 7168, "elements"), ("blocks", 112, "one token"),
        ("blocks", 12_288, "block of x")],
    "day5.count.lnc": [
        ("Q_1", X_ + W_, "y left"), ("Q_1", X_ + 8 * W_ + Y_, "for every block"),
        ("Q_1", X_ / 2 + W_ + Y_ / 2, "of the pair"),
        ("Q_2", X_ + W_ + Y_, "counted once"), ("Q_2", 2 * (X_ + W_ + Y_), "everything twice"),
        ("Q_2", (X_ + 2 * W_ + Y_) / 2, "one core's"), ("each", (X_ + W_ + Y_) / 2, "w split"),
        ("each", X_ + 2 * W_ + Y_, "both cores'")],
    "day5.count.gap": [
        ("apart", 3_178_496, "the two counts"), ("apart", 16_384, "elements"),
        ("apart", 8 * 32_768, "bits")],
    "day5.count.do.inside": [
        ("r_w", 1, "before the loop"), ("r_w", 1024, "tokens"), ("r_w", 2, "of 512"),
        ("Q", X_ + W_ + Y_, "counted once"), ("Q", 8 * (X_ + W_ + Y_), "all of it"),
        ("I", 2**27 / (X_ + W_ + Y_), "counted once")],
    "day5.count.do.block": [
        ("r_A", 3, "swapped"), ("r_A", 4, "either"), ("r_B", 12, "stationary"),
        ("banks", 6, "blocks in C"), ("banks", 32, "128 × 128"), ("banks", 2, "512 × 512"),
        ("Q", 2 * (1536 * 768 + 768 * 2048 + 1536 * 2048), "loaded once"),
        ("Q", 2 * (4 * 1536 * 768 + 12 * 768 * 2048 + 1536 * 2048), "nothing stays")],
    "day5.count.do.own": [
        ("Q", "29 MB", "written left out"), ("Q", "11 MB", "read left out"),
        ("Q", "18 MB", "the difference"), ("I", 40e6 / 12e9, "upside down"),
        ("I", 12e9 / 11e6, "read left out"), ("T_best", 40e6 / BW, "the shorter")],
    "day5.count.check.lines": [
        ("read", READ / 2, "elements"), ("read", 2 * 128 * 128 * 96, "[128, 128]"),
        ("written", 2 * STORED, "PSUM counted"), ("written", STORED / 4, "[128, 128]"),
        ("written", 4 * STORED, "every matmul"), ("r_B", 72, "the line's runs"),
        ("r_B", 1.5, "[128, 128]"), ("W", LINES_W / 72, "one matmul"),
        ("W", LINES_W / 2, "as one FLOP"), ("I", LINES_W / READ, "written left out")],
    "day5.count.check.cast": [
        ("load", 2 * MIB, "that arrive"), ("load", 6 * MIB, "both ends"), ("load", MIB, "elements"),
        ("sbuf", 4 * MIB, "as bf16"), ("sbuf", 2 * MIB / 128, "partition"),
        ("Q", 4 * MIB, "2 bytes a number"), ("Q", 8 * MIB, "4 bytes a number")],
}


@pytest.mark.parametrize(("id", "name", "answer", "words"),
                         [(id, *slip) for id, slips in SLIPS.items() for slip in slips])
def test_a_misconception_is_recognised(id, name, answer, words):
    with pytest.raises(WrongAnswer) as wrong:
        ask(id).check(**{name: answer})
    line, report = repr(wrong.value).splitlines()[0], wrong.value.report
    assert next(o.kind for o in report.outcomes if o.name == name) == "slip", line
    assert words in line.partition("Looks like")[2], line


def test_every_question_with_numbers_has_its_slips_here():
    assert set(SLIPS) == {id for id in NUMBERS
                          if not all(isinstance(part, Choice) for part in ask(id).parts)}


def test_an_answer_right_for_another_bandwidth_is_told_so():
    slow = ask("day5.count.do.own", W=3e9)
    with pytest.raises(WrongAnswer, match=r"right for BW = 500 GB/s .*not the figure"):
        slow.check(T_best=40e6 / 500e9)


@pytest.mark.parametrize("id", NUMBERS)
def test_a_part_named_like_code_has_a_prompt_for_people(id):
    for seed in range(8):
        for part in ask(id, seed).parts:
            assert part.label or part.name in {"W", "Q", "I", "T_best"}, part.name
            assert len(part.label) <= 48
