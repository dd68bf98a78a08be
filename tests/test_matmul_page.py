"""Day 7's matmul page: counts from the shapes, its verdict on Q, its order, what it leaves open.

Every expected number is arithmetic from n = 2048, tiles of 128 and 512, and 2 bytes a number.
"""

import ast
import contextlib
import dataclasses
import functools
import io
import re
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import nbformat
import pytest
from pages import ROOT
from prose import is_bound, numbers

from roofline import device, gaps, machine, nki
from roofline.count import Count
from roofline.timeline import ENGINES

PAGE = ROOT / "day7" / "matmul.ipynb"
CELLS = nbformat.read(PAGE, 4).cells
N, P, KIB, MIB = 2048, 2, 1024, 2**20
MATRIX = P * N * N  # bytes of A, of B, of C


def execute(names: dict[str, Any], *ids: str, given: Mapping[str, str] = MappingProxyType({}),
            ) -> dict[str, str]:
    """Run these code cells, all without any, in order of the page. What each told, by id.

    given   id -> what the reader has written in the cell's place
    """
    told = {}
    for one in CELLS:
        if one.cell_type != "code" or (ids and one.id not in ids):
            continue
        tree = ast.parse(given.get(one.id, one.source))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.chdir(PAGE.parent), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(tree, one.id, "exec"), names)
            value = last and eval(compile(ast.Expression(last.value), one.id, "eval"), names)
        told[one.id] = out.getvalue() + ("" if value is None else repr(value))
    return told


@functools.cache
def page() -> SimpleNamespace:
    """The names of the page after its last cell, and what each cell told, by id."""
    names: dict[str, Any] = {}
    told = execute(names)
    return SimpleNamespace(told=told, **names)


# --- counts and room ------------------------------------------------------------------------------

# mapping -> r_A, r_B; the loads of A, of B and the stores of C: (bytes of one, how many); SBUF and
# PSUM banks: a tile of A and one of B | a slice of each, and the block of C | B, a block of A, a
# row of C
MAPPINGS = {
    "reload": (4, 16, (P * 128 * 128, 16 * 4 * 16), (P * 128 * 512, 16 * 4 * 16),
               (P * 128 * 512, 16 * 4), P * 128 * (128 + 512), 1),
    "block": (2, 4, (P * 128 * 512, 4 * 2 * 16), (P * 128 * 1024, 4 * 2 * 16),
              (P * 128 * 1024, 16 * 2), P * 128 * (512 + 1024), (512 // 128) * (1024 // 512)),
    "once": (1, 1, (P * 128 * 512, 16 * 4), (P * 128 * N, 16), (P * 128 * N, 16),
             MATRIX + P * 512 * N + P * 128 * N, N // 512),
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_hand_nest_and_code_are_the_shapes_count(name):
    r_A, r_B, a, b, c, _, _ = MAPPINGS[name]
    count = Count({"bf16": 2 * N**3}, (r_A + r_B) * MATRIX, MATRIX)
    assert page().runs[name].count == count == page().hands[name] == page().nests[name].achieved
    table = page().tables[name]
    assert (table.read["a"], table.read["b"], table.written["c"]) == (a, b, c)
    assert [size * times for size, times in (a, b, c)] == [r_A * MATRIX, r_B * MATRIX, MATRIX]
    line = next(one for one in page().told["code-equal"].splitlines() if one.startswith(name))
    assert line.endswith("all equal: True") and line.count(f"{(r_A + r_B + 1) * MATRIX:,} B") == 2
    assert [row.reload for row in page().runs[name].tensors] == [r_A, r_B, 0]


# nest -> tensor: its block and how often that is opened or loaded; the steps of m, n and k at the
# multiply are those of an instruction
TAKEN = {
    "reload": {"C": (128, 512, 16 * 4), "A": (128, 128, 16 * 4 * 16), "B": (128, 512, 16 * 4 * 16)},
    "block": {"C": (512, 1024, 4 * 2), "A": (512, 128, 4 * 2 * 16), "B": (128, 1024, 4 * 2 * 16)},
    "once": {"C": (128, 512, 16 * 4), "A": (512, N, 4), "B": (N, N, 1)},
}


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_nest_takes_the_tiles_of_its_kernel(name):
    """Other tiles of K, or a block turned on its side, have the same Q."""
    nest, (r_A, r_B, *_) = page().nests[name], MAPPINGS[name]
    assert nest.reloads == {"A": r_A, "B": r_B, "C": 1}
    assert {row.name: (*row.block, row.runs) for row in nest.resident} == TAKEN[name]
    steps = {item.dim: item.step for item in nest.items if hasattr(item, "step")}
    assert steps == {"m": 128, "n": 512, "k": 128}
    [line] = [one for one in page().told["nests"].splitlines() if one.startswith(f"{name} ")]
    assert line.endswith("as the code: True")
    assert re.findall(r"r_[AB] +(\d+)", line) == [str(r_A), str(r_B)]


@pytest.mark.parametrize("name", MAPPINGS)
def test_w_is_1024_instructions_of_one_size(name):
    [row] = page().runs[name].matmuls
    assert (row.instructions, row.each) == (16 * 4 * 16, 2 * 128 * 128 * 512)
    assert page().told["code-matmuls"].count("17,179,869,184") == 1  # one table stands for all


@pytest.mark.parametrize("name", MAPPINGS)
def test_each_fits_in_24_mib(name):
    *_, sbuf, banks = MAPPINGS[name]
    run = page().runs[name]
    assert (run.sbuf_peak_bytes, run.psum_peak_banks) == (sbuf, banks)
    assert sbuf <= 24 * MIB and banks <= 8
    line = next(one for one in page().told["code-room"].splitlines() if one.startswith(name))
    assert "of 24 MiB of SBUF" in line and line.endswith("fits: True")
    size = f"{sbuf // KIB} KiB" if sbuf < MIB else f"{sbuf / MIB:.1f} MiB"
    assert f"{size} of 24 MiB" in line and f"{banks} of 8 PSUM banks" in line


def test_the_next_block_needs_one_bank_and_not_all():
    """`block` fills the banks: 4 x 2 sums. In the model the next block starts as soon as the first
    of them is copied out, 7 before the last."""
    rows = page().made["block"].profile.timeline.instructions
    matmuls = sorted(rows.start[rows.is_opcode("MATMUL")])
    copies = sorted(rows.end[rows.engine == ENGINES.index("vector")])
    a_block, banks = 16 * 4 * 2, 4 * 2
    assert (len(matmuls), len(copies)) == (8 * a_block, 8 * banks)
    for block in range(1, 8):
        first, last = copies[(block - 1) * banks], copies[block * banks - 1]
        assert first <= matmuls[block * a_block] < last
    [text] = [one.source for one in CELLS if one.id == "p-code-room-2"]
    assert "one bank of this one has to be copied" in text and "cannot begin" not in text


@pytest.mark.parametrize("together", [False, True])
def test_what_is_asked_for_first_is_as_the_kernel_says(together):
    """The loads up to the first of the second block of A: all of B, then A; or in turns."""
    call = device.launch(nki.load(ROOT / "day7" / "kernels.py").matmul, *[((N, N), "bf16")] * 2,
                         together=together)
    loads = [one.reads[0].name for one in call.counted("inf2").trace
             if one.hbm_read_bytes][:2 * 16]
    assert loads == (["a", "b"] * 16 if together else ["b"] * 16 + ["a"] * 16)
    said = re.search(r"Order +(.*?)\n    \"\"\"", (ROOT / "day7" / "kernels.py").read_text(), re.S)
    assert said
    assert re.split(r"[.;] ", " ".join(said[1].split()))[1:] == [
        "All of B is asked for before any of A",
        "with `together` the first row of C starts with the first rows of B"]


def test_the_change_moves_the_same_bytes():
    assert page().together.count("inf2") == page().hands["once"]
    assert page().told["change-count"] == "True"


def test_entitlements_are_those_of_the_roofs():
    """P = 128 x 128 x 2 x 2.8 GHz and half of 820 GB/s; the first is memory-bound, no other."""
    top, band = 128 * 128 * 2 * 2.8e9, 820e9 / 2
    for name, (r_A, r_B, *_) in MAPPINGS.items():
        t_flop, t_byte = 2 * N**3 / top, (r_A + r_B + 1) * MATRIX / band
        limit = page().limits[name]
        assert limit.t_best == pytest.approx(max(t_flop, t_byte))
        assert limit.t_worst == pytest.approx(t_flop + t_byte)
        assert (limit.binds == "compute") == (name != "reload") == (t_flop > t_byte)


# --- two hypotheses -------------------------------------------------------------------------------


@pytest.mark.parametrize(("r_A", "r_B"), [(4, 16), (2, 4), (1, 1)])
def test_a_hypothesis_is_a_number(r_A, r_B):
    assert list(page().hypotheses(r_A, r_B).values()) == [
        MATRIX * sum(crossings) for crossings in (
            (r_A, r_B, 1), (1, r_B, 1), (r_A, 1, 1), (1, 1, 1))]


def made(moved: float, kind: str = "measured") -> SimpleNamespace:
    """A measurement whose profile has these HBM bytes, a third of them written."""
    written = round(moved / 3)
    count = Count({"bf16": 2 * N**3}, round(moved) - written, written)
    return SimpleNamespace(kind=kind, profile=SimpleNamespace(count=count))


RELOAD = {"as": MATRIX * 21, "A": MATRIX * 18, "B": MATRIX * 6, "both": MATRIX * 3}


@pytest.mark.parametrize(("name", "moved", "says"), [
    ("reload", RELOAD["as"], "H1, as the source"),
    ("reload", RELOAD["as"] * 0.991, "H1, as the source"),
    ("reload", RELOAD["as"] * 1.009, "H1, as the source"),
    ("reload", RELOAD["A"], "H2, A kept"),
    ("reload", RELOAD["B"] * 1.005, "H2, B kept"),
    ("reload", RELOAD["both"], "H2, both kept"),
    ("reload", MATRIX * 12, "none: 50.0% of the reloads saved"),  # halfway from 21 to 3 matrices
    ("reload", MATRIX * 16.5, "none: 25.0% of the reloads saved"),
    ("reload", RELOAD["as"] * 1.5, "none: 50.0% more bytes than the source loads"),
    # the edges: a hundredth around the most and the least, and what lies beyond
    ("reload", RELOAD["as"] * 1.02, "none: 2.0% more bytes than the source loads"),
    ("reload", RELOAD["as"] * 0.98, f"none: {0.02 * 21 / 18:.1%} of the reloads saved"),
    ("reload", 25.5e6, f"none: {(MATRIX * 21 - 25.5e6) / (MATRIX * 18):.1%} of the reloads saved"),
    ("reload", RELOAD["both"] * 1.009, "H2, both kept"),
    ("reload", RELOAD["both"] * 0.991, "H2, both kept"),
    ("reload", 24.9e6,
     f"none: {1 - 24.9e6 / (MATRIX * 3):.1%} fewer bytes than every operand once"),
    ("reload", 20e6, f"none: {1 - 20e6 / (MATRIX * 3):.1%} fewer bytes than every operand once"),
    ("block", MATRIX * 2.4, "none: 20.0% fewer bytes than every operand once"),
    ("block", MATRIX * 7, "H1, as the source"),
    ("block", MATRIX * 4, "H2, B kept"),
    ("block", MATRIX * 5, "none: 50.0% of the reloads saved"),
    ("once", MATRIX * 3, "one Q by all; the profile is +0.0% off"),
    ("once", MATRIX * 3.3, "one Q by all; the profile is +10.0% off"),
    ("once", MATRIX * 2.4, "one Q by all; the profile is -20.0% off"),
])
def test_a_profile_decides(name, moved, says):
    assert page().fits(made(moved), page().expected[name]) == says


@pytest.mark.parametrize("name", ["reload", "block"])
def test_what_was_saved_is_some_and_not_all(name):
    """Whatever the bytes are: a share of 0 or 100 % or more is no share of the reloads."""
    said = [page().fits(made(MATRIX * of / 100), page().expected[name]) for of in range(200, 2300)]
    shares = [float(one[1]) for one in map(
        re.compile(r"none: (\S+)% of the reloads saved").fullmatch, said) if one]
    assert len(shares) > 200 and 0 < min(shares) < 5 and 95 < max(shares) < 100
    assert sum("fewer bytes" in one for one in said) == 97  # 2.00 to 2.96 matrices of 3


@pytest.mark.parametrize("moved", RELOAD.values())
def test_a_model_cannot_decide_whatever_its_bytes(moved):
    told = page().fits(made(moved, "modelled"), page().expected["reload"])
    assert told.startswith("cannot decide")


def test_the_page_shows_what_the_function_says():
    for name in MAPPINGS:
        assert f"{name:6}  modelled: cannot decide" in page().told["fits"]
    for name in ("reload", "block"):
        assert f"Q of {name}, modelled: cannot decide" in page().told["verdict"]


# 4096^3 on trn1, as published: 128 rows of A stay (M14), or 4 x 128 (M16)
@pytest.mark.parametrize(("id", "rows", "moved", "transfers", "rate"), [
    ("M14", 128, 631.3e6, 247_017, "36.62 TFLOP/s"),
    ("M16", 512, 269.5e6, 94_190, "71.78 TFLOP/s"),
])
def test_published_bytes_lie_between_the_hypotheses(id, rows, moved, transfers, rate):
    matrix = 2 * 4096**2
    described, least = matrix * (1 + 4096 // rows + 1), matrix * 3
    assert 1.01 * least < moved < 0.99 * described
    told = " ".join(page().told["published-saved"].split())
    assert (f"{id} as described {described / 1e6:.0f} MB, moved {moved / 1e6:.0f} MB in "
            f"{transfers:,} transfers, {(described - moved) / (described - least):.0%} of the "
            f"reloads saved {rate}") in told


# --- verdicts and ledgers -------------------------------------------------------------------------


def test_each_is_judged_by_its_own_entitlement():
    """T_best by the mapping's own Q: only that of `reload` is not W / P."""
    top, band = 128 * 128 * 2 * 2.8e9, 820e9 / 2
    judged = {**page().made, "together": page().changed}
    for name, one in judged.items():
        r_A, r_B, *_ = MAPPINGS.get(name, MAPPINGS["once"])
        best = max(2 * N**3 / top, (r_A + r_B + 1) * MATRIX / band)
        [line] = re.findall(rf"^{name} .*$", page().told["verdict"], re.M)
        assert f"{best / one.time:.1%} of its entitlement" in line
        assert line.endswith(f" {2 * N**3 / top / one.time:.1%} of P")


def test_the_difference_goes_from_block_to_once():
    """`once` waits for all of B and a load of A, `block` for a load of each: the row `fill`."""
    told, dma = page().told["ledger-difference"], 16 * 17e9
    first = {"block": P * 128 * (512 + 1024) / dma, "once": (MATRIX + P * 128 * 512) / dma}
    change = page().ledgers["once"] - page().ledgers["block"]
    assert change["fill"] / 1e9 == pytest.approx(first["once"] - first["block"], rel=0.15)
    [fill, total] = [re.search(rf"^ +(\S+ us) +(\S+ us) +([+-])\S+ us  {row}$", told, re.M)
                     for row in ("fill", "T")]
    assert fill and total and fill[3] == "+"
    for figure, name in ((total[1], "block"), (total[2], "once")):
        assert float(figure.split()[0]) == pytest.approx(1e6 * page().made[name].time, rel=1e-3)


# --- the change -----------------------------------------------------------------------------------


def test_the_arithmetic_of_the_change_is_the_pages():
    """B, then A: 16 loads of 128 x 2048, one of 128 x 512, then a row of C. In turns: all of B and
    of the block of A, then a sixteenth of the row."""
    dma, row = 16 * 17e9, 2 * 128 * N * N / (128 * 128 * 2 * 2.8e9)
    load_A, load_B = P * 128 * 512, P * 128 * N
    apart, turns = (16 * load_B + load_A) / dma + row, 16 * (load_A + load_B) / dma + row / 16
    assert (page().apart, page().turns) == (pytest.approx(apart), pytest.approx(turns))
    assert 0 < apart - turns < row


def test_in_the_model_what_leaves_fill_turns_up_elsewhere():
    """As the folded text says: another row takes most of it, and T changes by less than a row of C
    takes."""
    before, after = ledgers = [gaps.ledger(one.profile, one.machine, one.count) for one in (
        device.modelled(page().calls["once"], "inf2"), device.modelled(page().together, "inf2"))]
    fill, wait = (after[cause] - before[cause] for cause in ("fill", "wait for DMA"))
    assert fill < 0 < wait and wait > -fill / 2
    core = machine.get("inf2")
    assert 0 < before.t - after.t < 1e9 * 2 * 128 * N * N / core.peak("bf16")
    assert ledgers[0].t_best == ledgers[1].t_best


def test_the_first_idea_is_tried_with_the_row_that_lost_most():
    """Whichever that is on the reader's chip: of two rows, in ns, the other one."""
    names = {**vars(page()), "change": {"fill": -1000.0, "wait for DMA": -5000.0},
             "lost": "wait for DMA"}
    told = execute(names, "change-naive")["change-naive"]
    assert "wait for DMA changed by -5 us" in told
    assert names["naive"].T == pytest.approx(page().made["once"].time - 5e-6)
    assert page().lost == min(page().change.causes, key=lambda cause: page().change[cause])


# --- one launch recorded, the others modelled -----------------------------------------------------

# The cells that show a figure of the four launches, each of which may be of a kind of its own
TELLING = ("measured", "predicted", "ledgers", "ledger-difference", "change-measured",
           "change-verdict", "change-naive", "change-arrive", "verdict", "roofline", "fits")
LAUNCHES = ("reload", "block", "once", "together")


@functools.cache
def mixed(*recorded: str) -> dict[str, str]:
    """What these cells say where these launches are measured, the others not."""
    names = dict(vars(page()))
    known = {**names["made"], "together": names["changed"]}
    given = {id(one.launch): as_measured(one) if name in recorded else one
             for name, one in known.items()}
    names["device"] = SimpleNamespace(kinds=device.kinds, unlike=device.unlike,
                                      measure=lambda call, chip: given[id(call)])
    names["together"] = known["together"].launch
    filled = {"predict": """mine = Guess(Q_reload="176 MB", Q_block=..., T_reload=..., T_block=...,
             T_once=..., order="block, once, reload", row="idle")""",
              "change-predict": f'after = Guess(Q="25 MB", T={known["together"].time}, row="fill")'}
    return execute(names, "predict", "change-predict", *TELLING, given=filled)


def as_measured(one: device.Measurement) -> device.Measurement:
    """The same figures, told as those of a device."""
    return dataclasses.replace(one, profile=dataclasses.replace(one.profile, kind="measured"))


COMPARED = {"predicted": {"reload", "block", "once"}, "ledger-difference": {"block", "once"},
            "change-measured": {"once", "together"}, "change-verdict": {"once", "together"},
            "change-naive": {"once", "together"}, "change-arrive": {"once", "together"},
            "verdict": set(LAUNCHES)}


@pytest.mark.parametrize("recorded", [*((one,) for one in LAUNCHES), LAUNCHES[:3], LAUNCHES[1:],
                                      LAUNCHES, ()], ids=" ".join)
def test_a_measured_launch_is_compared_with_no_modelled_one(recorded):
    told = mixed(*recorded)
    for id, those in COMPARED.items():
        alike = those <= set(recorded) or not those & set(recorded)
        assert ("not compared: " in told[id]) != alike, id
        assert alike or not re.search(r"T (not )?held|changed by|-> ", told[id]), id
    head, *rows = told["predicted"].splitlines()
    kinds = {"measured" if name in recorded else "modelled" for name in LAUNCHES[:3]}
    assert re.search(rf"found, {' and '.join(sorted(kinds))} +off$", head, re.M)
    [order] = [row for row in rows if row.startswith("order")]
    assert order.endswith("unknown") == (len(kinds) == 2)
    [lost] = [row for row in told["change-verdict"].splitlines() if row.startswith("row ")]
    assert lost.rstrip().endswith("unknown") == (("once" in recorded) != ("together" in recorded))


@pytest.mark.parametrize("recorded", [*((one,) for one in LAUNCHES), LAUNCHES[1:]], ids=" ".join)
def test_each_figure_has_its_own_kind(recorded):
    told = mixed(*recorded)
    for name in LAUNCHES:
        kind = "measured" if name in recorded else "modelled"
        assert re.search(rf"^{name} +{kind} ", told["verdict"], re.M)
        if name != "together":
            [said] = re.findall(rf"^{name} +{kind}: (.*)$", told["fits"], re.M)
            assert ("cannot decide" in said) == (kind == "modelled")
        assert name == "together" or re.search(rf"^{name} +{kind} ", told["roofline"], re.M)
    kind = "measured" if "together" in recorded else "modelled"
    assert re.search(rf"found, {kind} +off$", told["change-verdict"], re.M)


def test_this_op_is_published_on_no_core_like_this_one():
    """The nearest is M41: 2048 x 2048 x 2048 on trn1, in fp32, 16.9 ms by the host's clock."""
    told = page().told
    assert told["published-own"].startswith("Nothing comparable is published of Matmul(M=2048")
    assert "on inf2" in told["published-own"] and "(M41)" in told["published-own"]
    share = 2 * N**3 / 16.9e-3 / (128 * 128 * 2 * 2.8e9 / 4)
    [row] = re.findall(r"^M41 .*$", told["published-nearest"], re.M)
    assert f" {share:.1%} " in row and " fp32 " in row
    assert "host's clock" in told["published-nearest"]
    ids = [one.id for one in CELLS]
    assert (ids.index("published-own") < ids.index("published-nearest")
            < ids.index("day7-matmul-published-bytes") < ids.index("published-trn1"))
    said = next(one.source for one in CELLS if one.id == "p-published-nearest")
    assert "nothing to compare with" in said and "M41" in said and "fp32" in said


# --- the page -------------------------------------------------------------------------------------

ORDER = ["h-hand-count", "h-the-code-s-count", "h-entitlement", "h-two-hypotheses-about-q",
         "h-prediction", "h-capture-or-replay", "h-four-ways-to-a-count",
         "h-which-hypothesis-holds", "h-roofline", "h-others-on-the-same-w", "h-ledger",
         "h-one-change", "h-verdict", "h-record-your-own"]


def test_the_nine_steps_in_order():
    ids = [one.id for one in CELLS]
    assert [id for id in ids if id in ORDER] == ORDER
    # predictions come before anything is measured
    assert ids.index("predict") < ids.index("measured") < ids.index("four-reload")
    assert ids.index("expected") < ids.index("measured") < ids.index("fits")
    assert (ids.index("change-predict") < ids.index("change-measured")
            < ids.index("change-verdict") < ids.index("day7-matmul-arrive"))
    assert not [one.id for one in CELLS[:ids.index("measured")] if "device.measure(" in one.source
                and one.cell_type == "code"]


def test_predictions_are_blank_and_what_they_are_of_is_folded():
    cells = {one.id: one for one in CELLS}
    assert re.findall(r"(\w+)=\.\.\.", cells["predict"].source) == [
        "Q_reload", "Q_block", "T_reload", "T_block", "T_once", "order", "row"]
    assert re.findall(r"(\w+)=\.\.\.", cells["change-predict"].source) == ["Q", "T", "row"]
    for id in ("measured", "predicted", "four-reload", "four-block", "four-once", "roofline",
               "ledgers", "ledger-difference", "predicted-row", "timeline", "change-measured",
               "change-verdict", "change-naive", "verdict"):
        assert "hide-output" in cells[id].metadata["tags"], id


def test_what_answers_a_question_is_folded():
    """Open are the probe, the questions and the blank predictions: nothing a cell works out."""
    bare = {one.id for one in CELLS if one.cell_type == "code" and one.outputs
            and not {"hide-output", "hide-cell", "remove-cell"} & set(one.metadata.get("tags", []))}
    questions = {one.id for one in CELLS if "form" in one.metadata.get("roofline", {})}
    assert len(questions) == 9
    assert bare == questions | {"c-a-2048-matmul", "predict"}
    told = "".join(one.outputs[0].get("text", "") for one in CELLS
                   if one.id in ("c-a-2048-matmul", "predict"))
    assert not [*numbers(told)]


def open_prose() -> str:
    """All Markdown of the page without its folds, code and tables."""
    text = "\n\n".join(one.source for one in CELLS if one.cell_type == "markdown")
    for pattern in (r"<details>.*?</details>", r"^```.*?^```", r"^\|.*?$"):
        text = re.sub(pattern, "", text, flags=re.S | re.M)
    return text


def test_prose_quotes_no_time_of_a_profile():
    """Outside of folds every time and share stays true whatever a device shows."""
    measured = ("measured", "predicted", "ledgers", "ledger-difference", "change-measured",
                "change-verdict", "change-naive", "verdict", "roofline")
    shown = [number for id in measured for number in numbers(page().told[id])
             if number.base in ("s", "")]
    assert shown
    assert not [f"{one.text} {one.unit}" for one in numbers(open_prose()) if is_bound(one, shown)]


def test_prose_holds_no_verdict_on_a_mapping():
    named = re.compile(r"`(reload|block|once|together=True)`")
    verdict = re.compile(r"\b(faster|slower|fastest|slowest|held|won|lost|decided|fits H)\b")
    sentences = re.split(r"(?<=[.?!:])\s", open_prose())
    assert len(sentences) > 80
    assert not [one for one in sentences if named.search(one) and verdict.search(one)
                and not one.endswith("?")]


def test_a_filled_in_prediction_gets_its_verdict():
    came = page().changed.time
    told = execute({**vars(page())}, "predict", "predicted", "change-predict", "change-verdict",
                   given={
        "predict": 'mine = Guess(Q_reload="176.16 MB", Q_block=..., T_reload=..., T_block=...,\n'
                   '             T_once=..., order="reload, block, once", row="idle")',
        "change-predict": f'after = Guess(Q="50.33 MB", T={came}, row="idle")'})
    assert re.search(r"^Q_reload +176.2 MB +176.2 MB +[+-]0.0 %$", told["predicted"], re.M)
    for name, (r_A, r_B, *_) in MAPPINGS.items():
        time = re.search(rf"^T_{name} +not filled in +(\S+) us$", told["predicted"], re.M)
        assert time and float(time[1]) == pytest.approx(1e6 * page().made[name].time, rel=1e-3)
        if name != "once":
            assert re.search(rf"^Q_{name} .* {(r_A + r_B + 1) * MATRIX / 1e6:.4g} MB\b",
                             told["predicted"], re.M)
    found = ", ".join(sorted(MAPPINGS, key=lambda name: page().made[name].time))
    assert re.search(rf"^order +reload, block, once +{found} +(the same|another)$",
                     told["predicted"], re.M)
    assert re.search(r"^Q +50.33 MB +25.17 MB +\+100.0 %$", told["change-verdict"], re.M)
    assert "\nT held: " in told["change-verdict"]


def test_the_kernels_of_the_page_are_those_of_the_course():
    for name, (file, kernel) in {"reload": ("day5", "matmul_reload"), "once": ("day7", "matmul"),
                                 "block": ("day5", "matmul_c_stays")}.items():
        run = nki.run(getattr(nki.load(ROOT / file / "kernels.py"), kernel),
                      *[((N, N), "bf16")] * 2, data=False, target="inf2",
                      **page().calls[name].parameters)
        assert run.count == page().runs[name].count
