"""The case study: its mappings counted from the shapes, its pinned times, its page with others.

Counts and times are arithmetic from B, D and F. The page's code cells run here with other profiles
in the model's place, and smaller arrays. Instances that are not there: tests/test_case_pages.py.
"""

import ast
import contextlib
import functools
import io
import itertools
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from pages import ROOT
from prose import numbers

from roofline import ask, device, gaps, machine, neuroncore, nki
from roofline.__main__ import main
from roofline.count import Count
from roofline.device import measuring
from roofline.units import show

PAGE = ROOT / "casestudy" / "vjepa2_mlp.ipynb"
CELLS = nbformat.read(PAGE, 4).cells
CODE = [cell for cell in CELLS if cell.cell_type == "code"]
IDS = [cell.id for cell in CELLS]
SOURCE = {cell.id: cell.source for cell in CELLS}
STORED = {cell.id: "".join(o.get("text") or o.get("data", {}).get("text/plain", "")
                           for o in cell.outputs) for cell in CODE}

B, D, F = 8 * 16 * 16, 1024, 4096  # 16 frames in pairs, 256 x 256 pixels in patches of 16 x 16
W = 4 * B * D * F
P, BW = 2 * 128 * 128 * 2 * 2.4e9, 2 * 3e12 / 8  # of the pair
X, H, WEIGHT = 2 * B * D, 2 * B * F, 2 * D * F  # bytes of x or y, of h or g, of one weight matrix
KIB, MIB, TILE = 2**10, 2**20, 128
SIZES = "16 // 2 * (256 // 16) ** 2, model.D, model.F"
SMALL = "1024, 512, 512"


# --- counts and capacity, from the shapes ------------------------------------------------------

# name -> launches: (folder, kernel, arguments, read, written, bytes of SBUF on a core)
UP = (("D", "B"), ("D", "F"))
DOWN = (("F", "B"), ("F", "D"))
FUSED = (("D", "B"), ("D", "F"), ("F", "D"))
UP_ROOM = WEIGHT + 2 * D * 512 + 2 * TILE * 512      # W_up, a block of x, a tile of h
DOWN_ROOM = WEIGHT + 2 * F * 512 + 2 * TILE * D      # W_down, a block of g, a row of tiles of y
FUSED_ROOM = 2 * WEIGHT + 2 * TILE * (D + F)         # both, a block of x and of g
GELU = ("day5", "mlp_gelu", (("F", "B"),), H, H, 2 * 2 * TILE * B)
MAPPINGS = {
    "fused, both": [("day5", "mlp_fused", FUSED, X + 4 * WEIGHT, X, FUSED_ROOM)],
    "unfused, both": [("day5", "mlp_up", UP, X + 2 * WEIGHT, H, UP_ROOM), GELU,
                      ("day5", "mlp_down", DOWN, H + 2 * WEIGHT, X, DOWN_ROOM)],
    "fused, split": [("casestudy", "mlp_fused_w_once", FUSED, X + 2 * WEIGHT, X, FUSED_ROOM)],
    "unfused, split": [("casestudy", "mlp_up_w_once", UP, X + WEIGHT, H, UP_ROOM), GELU,
                       ("casestudy", "mlp_down_w_once", DOWN, H + WEIGHT, X, DOWN_ROOM)]}
Q = {"fused, both": 41_943_040, "unfused, both": 109_051_904, "fused, split": 25_165_824,
     "unfused, split": 92_274_688}
WORST = {"fused, both": 274.4, "unfused, both": 363.9, "fused, split": 252.0,
         "unfused, split": 341.5}


@functools.cache
def counted(folder: str, kernel: str, sizes: tuple, **options: Any) -> nki.Run:
    letters = {"B": B, "D": D, "F": F}
    shapes = [(tuple(letters[letter] for letter in size), "bf16") for size in sizes]
    return nki.run(getattr(nki.load(ROOT / folder / "kernels.py"), kernel)[2], *shapes,
                   target="trn2", data=False, **options)


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_count_is_that_of_the_shapes(name):
    total = Count()
    for folder, kernel, sizes, read, written, room in MAPPINGS[name]:
        run = counted(folder, kernel, sizes)
        assert (run.count.hbm_read_bytes, run.count.hbm_write_bytes) == (read, written)
        assert run.cores[0].count == run.cores[1].count
        assert run.sbuf_peak_bytes == room <= 24 * MIB and run.psum_peak_banks <= 8
        total += run.count
    assert total.work == {"bf16": W} and total.hbm_bytes == Q[name]
    assert total.hbm_bytes == sum(read + written for *_, read, written, _ in MAPPINGS[name])


def test_splitting_changes_no_instruction_and_the_fused_up_projection_is_in_smaller_ones():
    """Tokens per instruction: 128 in the fused kernels, 512 in mlp_up."""
    both, split = (counted(*MAPPINGS[f"fused, {how}"][0][:3]) for how in ("both", "split"))
    up = counted("day5", "mlp_up", UP)
    assert repr(both.matmuls) == repr(split.matmuls)
    tiles = (D // TILE) * (F // TILE)
    for run, tokens in ((both, 128), (up, 512)):
        row = rf"\[128, 128\] +\[128, {tokens}\] +{tiles * B // tokens:,} "
        assert re.search(row, repr(run.matmuls)), run.kernel


@pytest.mark.parametrize("name", MAPPINGS)
def test_the_pinned_times(name):
    limit = machine.get("trn2", "lnc2").entitle(Count({"bf16": W}, Q[name]))
    assert round(1e6 * limit.t_best, 1) == round(1e6 * W / P, 1) == 218.5
    assert round(1e6 * limit.t_worst, 1) == WORST[name]
    assert limit.t_worst == pytest.approx(W / P + Q[name] / BW)


def test_asking_for_w_down_later_changes_no_count():
    early, late = (counted("casestudy", "mlp_fused_w_once", FUSED, down_last=last)
                   for last in (False, True))
    assert early.count == late.count and early.sbuf_peak_bytes == late.sbuf_peak_bytes
    assert sorted(map(repr, early.matmuls)) == sorted(map(repr, late.matmuls))

    def asked(run: nki.Run) -> list[str]:
        """Which tensors core 1 asks for, in order, neighbours once: by the shape of a transfer."""
        shapes = {(TILE, F // 2): "w_up", (TILE, D): "w_down", (TILE, TILE): "x"}
        names = [shapes[tuple(step.reads[0].layout.shape)] for step in run.trace
                 if step.core == 1 and step.opcode == "dma_copy" and step.hbm_read_bytes]
        return [name for name, _ in itertools.groupby(names)]

    assert asked(early)[:3] == ["w_up", "w_down", "x"]
    assert asked(late)[:3] == ["w_up", "x", "w_down"]


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize(("name", "sizes", "options", "before"), [
    ("mlp_up_w_once", UP, {}, 1), ("mlp_down_w_once", DOWN, {}, 1),
    ("mlp_fused_w_once", FUSED, {}, 2), ("mlp_fused_w_once", FUSED, {"down_last": True}, 1)])
def test_tokens_are_asked_for_after_the_exchange(name, sizes, options, before, core):
    """So no tile of h comes early, though a core's own half would do: the kernels say so."""
    steps = [step for step in counted("casestudy", name, sizes, **options).trace
             if step.core == core]
    tokens = next(n for n, step in enumerate(steps) if step.opcode == "dma_copy"
                  and step.reads[0].layout.shape[1] in (TILE, 512))
    matmul = next(n for n, step in enumerate(steps) if step.opcode == "nc_matmul")
    sent = [step.opcode for step in steps[:tokens]].count("sendrecv")
    assert sent == before and tokens < matmul
    said = " ".join((nki.load(ROOT / "casestudy" / "kernels.py").__doc__ or "").split())
    assert "the kernels ask for their first tokens after the exchange" in said


# --- what the page prints ------------------------------------------------------------------------


def test_the_pages_tables():
    for name, bytes_ in Q.items():
        line = next(line for line in STORED["equal"].splitlines() if line.startswith(name))
        assert line.count(f"{bytes_:,} B") == 2 and line.endswith(f"W {W:,} FLOP: the same")
        line = next(line for line in STORED["entitled"].splitlines() if line.startswith(name))
        assert f"{W / bytes_:.1f} FLOP/B" in line and "T_best 218.5 us, compute binds" in line
        assert line.endswith(f"T_worst {WORST[name]:.1f} us")
    for half, whole, of_core in (("hand-fused", "fused, both", "{:,} B  both"),
                                 ("hand-unfused", "unfused, both", "one core: {:,} B\n")):
        core, pair = STORED[half].split("the pair")
        assert of_core.format(Q[whole] // 2) in core and f"{Q[whole]:,} B  both" in pair
    for name in ("fused, split", "unfused, split"):
        assert f"{Q[name]:,} B  both" in STORED["hand-split"]


def test_the_one_core_times_of_the_source():
    """P = 78.6 TFLOP/s, BW = 375 GB/s: each term rounded first, and last."""
    for name, bytes_, first, last in (("fused", 2 * X + 2 * WEIGHT, 504.2, 504.3),
                                      ("unfused", 2 * X + 2 * WEIGHT + 4 * H, 683.2, 683.2)):
        flop, byte = 1e6 * W / 78.6e12, 1e6 * bytes_ / 375e9
        assert round(flop, 1) == 437.1 and round(round(flop, 1) + round(byte, 1), 1) == first
        assert round(flop + byte, 1) == last
        assert f"{name:8} T_best 437.1 us, T_worst 437.1 us + {byte:.1f} us = {first} us " \
               f"(rounded last: {last})" in STORED["one-core"]


def hold_the_step_roofs(told: str, B: int, D: int, F: int) -> None:
    scalar, vector = 128 * 1.2e9, 128 * 0.96e9
    for mapping, engine, n, rate in (
            ("fused, both", "Scalar", B * F, scalar), ("fused, both", "Vector", B * D, vector),
            ("unfused, both", "Scalar", B * F, scalar),
            ("unfused, both", "Vector", B * F + B * D, vector)):
        line = next(line for line in told.splitlines()
                    if line.startswith(f"{mapping:13} {engine}"))
        assert f" {n:,} at " in line and f"{1e6 * n / rate:.1f} us on one core" in line
        assert line.endswith(f"{1e6 * n / 2 / rate:.1f} us on the pair")


def test_the_step_roofs():
    hold_the_step_roofs(STORED["step-roofs"], B, D, F)
    assert f"{1e6 * B * F / (128 * 1.2e9):.1f}" == "54.6"


@pytest.mark.parametrize("seed", [None, *range(60)])
def test_as_one_op_the_three_launches_take_the_longer_of_their_two_times(seed):
    given = ask("vjepa2.launches", seed=seed).inputs
    b, d, f = given["B"], given["D"], given["F"]
    flop, byte = 4 * b * d * f / P, (4 * b * d + 8 * d * f + 8 * b * f) / BW
    assert given["T_op"] == pytest.approx(max(flop, byte), rel=1e-9)
    assert seed is not None or (round(1e6 * given["T_op"], 1) == 218.5 and flop > byte)
    assert seed != 2 or (round(1e6 * given["T_op"], 1) == 71.3 and flop < byte)


def test_the_op_cannot_take_as_long_as_its_launches():
    """The question asks why the sum is longer: 263.2 us here."""
    assert ask("vjepa2.launches", T_op="263 us").inputs["T_op"] == pytest.approx(263e-6)
    with pytest.raises(ValueError, match="T_op has to be below"):
        ask("vjepa2.launches", T_op="264 us")


def test_the_clip_is_that_of_a_published_checkpoint():
    """16 frames of 256 x 256: vitl16/pretrain-256px-16f.yaml, facebook/vjepa2-vitl-fpc16-256-ssv2;
    of the model's file are the patch, its depth and the widths."""
    given = ask("vjepa2.tokens").inputs
    assert (given["frames"], given["size"], given["patch"], given["depth"]) == (16, 256, 16, 2)
    told = " ".join(SOURCE["h-1-hand-count"].split())
    assert "a clip of 16 frames, as in a pretraining configuration and in the checkpoint " \
           "fine-tuned on Something-Something v2 ([sources](../sources.md)). The pretrained " \
           "checkpoint is named for 64." in told
    assert "checkpoints" not in told
    assert "for a clip of 16 frames: B = 2,048 tokens" in STORED["sizes"]


def test_code_minus_formula_is_the_second_load():
    for bytes_ in (f"+{2 * WEIGHT:,}",):
        row = re.search(r"^Q read, B .*$", STORED["four-ways"], re.M)[0]
        assert row.split()[-2:] == [bytes_, "0"]
    assert f"second load of W_up and W_down: {2 * WEIGHT:,} B" in STORED["second-load"]


def test_every_launch_fits_and_says_so():
    lines = STORED["fits"].splitlines()
    assert lines[0] == "a core of trn2 has 28 MiB, one of trn1 24 MiB"
    assert [line.split()[0] for line in lines[1:]] == [
        kernel for some in MAPPINGS.values() for _, kernel, *_ in some]
    assert all("fits trn2 and trn1;" in line for line in lines[1:])


# --- the page's form -----------------------------------------------------------------------------


def test_the_steps_come_in_order():
    order_ = ["h-1-hand-count", "h-2-code-count", "h-3-entitlement", "h-step-roofs",
              "h-4-prediction", "h-5-capture-or-replay", "h-6-four-way-table", "h-7-roofline",
              "h-published-near-it", "h-8-ledger", "h-9-one-change-weights-split", "h-10-verdict",
              "h-next-experiment", "h-record-your-own"]
    assert [id for id in IDS if id in order_] == order_
    assert sorted(order_[:-2], key=IDS.index) == order_[:-2]


@pytest.mark.parametrize(("guess", "question", "shown"), [
    ("predict", None, ["measured", "measured-unfused", "against", "ledger", "largest"]),
    ("predict-split", "vjepa2-saves", ["split", "split-ledger", "split-against"]),
    ("next-number", "vjepa2-first", ["next", "next-verdict"])])
def test_a_prediction_is_committed_before_what_it_predicts(guess, question, shown):
    assert question is None or IDS.index(question) < IDS.index(guess)
    for id in shown:
        assert IDS.index(guess) < IDS.index(id)
        [cell] = [cell for cell in CODE if cell.id == id]
        assert "hide-output" in cell.metadata["tags"], id
    assert "Guess(" in SOURCE[guess]
    if guess != "next-number":  # that one is derived
        assert "=...," in SOURCE[guess] and "not filled in" in STORED[guess]


def open_prose() -> Iterator[tuple[str, str]]:
    """Markdown without what is folded under "Why in the model"."""
    for cell in CELLS:
        if cell.cell_type == "markdown":
            yield cell.id, re.sub(r"<details>.*?</details>", "", cell.source, flags=re.S)


def test_no_prose_says_what_a_profile_says():
    """No time, rate or share of a profile, and no row of a ledger, outside the folds."""
    told = " ".join(STORED[cell.id] for cell in CODE if "roofline" not in cell.metadata
                    and re.search(r"\.time\b|\bmade\b|gap|paid\(", cell.source))
    seen = {(n.unit, n.text) for n in numbers(told)}
    counted_ = " ".join(text for id, text in STORED.items() if id in (
        "equal", "entitled", "one-core", "step-roofs", "near", "half", "fits"))
    known = {(n.unit, n.text) for n in numbers(counted_)}
    for id, text in open_prose():
        quoted = {(n.unit, n.text) for n in numbers(text)}
        assert not (quoted & seen) - known, id
        assert not {*re.findall(r"`([\w ]+)`", text)} & {*gaps.CAUSES}, id


def test_each_figure_of_a_kernel_says_whose_it_is():
    for cell in CODE:
        if re.search(r"device\.measure|\bmade\[|\bsplit\.|\blater\.|\bgap_", cell.source):
            assert not STORED[cell.id].strip() or "model" in STORED[cell.id], cell.id


# --- the page with other profiles ---------------------------------------------------------------


def execute(names: dict[str, Any], **given: str) -> dict[str, str]:
    """Run the page's cells; what each printed and showed.

    given   id of a cell -> its source; - is written _
    """
    told: dict[str, str] = {}
    for cell in CODE:
        source = given.get(cell.id.replace("-", "_"), cell.source)
        tree = ast.parse(source)
        end = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(tree, cell.id, "exec"), names)
            value = end and eval(compile(ast.Expression(end.value), cell.id, "eval"), names)
        told[cell.id] = out.getvalue() + ("" if value is None else repr(value))
    return told


def small(**given: str) -> dict[str, str]:
    assert SIZES in SOURCE["sizes"]
    return {"sizes": SOURCE["sizes"].replace(SIZES, SMALL), **given}


@pytest.fixture(autouse=True)
def beside_the_page(monkeypatch):
    monkeypatch.chdir(PAGE.parent)


def with_buffers(buffers: Callable[[str], int | None]) -> Callable[..., device.Measurement]:
    """A stand-in for the model: other profiles of the same launches, by their kernels' names."""
    def modelled(call: device.Launch, chip: str) -> device.Measurement:
        run = call.counted(chip)
        made = neuroncore.predict(run, buffers=buffers(call.name)).profile
        return device.Measurement(call, chip, replace(made, name=call.title), counted=run.count)
    return modelled


DEPENDENT = ["measured", "measured-unfused", "against", "roofline", "half-plot", "ledger", "ladder",
             "timeline", "ledger-unfused", "split", "split-ledger", "split-against", "verdict",
             "verdict-decisions", "verdict-gap", "next-number", "next", "next-verdict"]


def test_other_profiles_give_other_figures_and_verdicts(monkeypatch):
    """First as modelled; then with one buffer everywhere; then in one kernel alone, fused and with
    the weights on both cores. Only then has splitting paid."""
    pages = []
    for buffers in (lambda name: None, lambda name: 1,
                    lambda name: 1 if name == "mlp_fused" else None):
        monkeypatch.setattr(measuring, "modelled", with_buffers(buffers))
        names: dict[str, Any] = {}
        told = execute(names, **small())
        pages.append(SimpleNamespace(**{**names, "told": told}))
    first, other, one_alone = pages
    for page, word, best in ((first, "slower", "both"), (other, "slower", "both"),
                             (one_alone, "faster", "split")):
        assert f"weights split, fused: {word}, " in page.told["verdict-decisions"]
        assert f"the shortest is fused, {best}; " in page.told["verdict-gap"]
    for id in DEPENDENT:
        assert first.told[id] != other.told[id], id
    for id in ("equal", "entitled", "step-roofs", "fits", "near", "half", "vjepa2-saves"):
        assert first.told[id] == other.told[id], id
    for page in pages:
        for name, some in page.made.items():
            line = next(line for line in page.told["verdict"].splitlines()
                        if line.startswith(f"{name:15}"))
            T = sum(one.time for one in some)
            assert line.endswith(f"{page.W / T / P:.1%}  modelled")
            moved = sum(one.profile.count.hbm_bytes for one in some)
            assert f" Q {moved:,} B, as counted " in line  # the code's own
        best = min(page.times, key=page.times.get)
        assert f"the shortest is {best}; its largest row is " in page.told["verdict-gap"]
        for weights in ("both", "split"):
            a, b = (page.times[f"{form}, {weights}"] for form in ("unfused", "fused"))
            assert decided(f"fused, weights {weights}", a, b) in page.told["verdict-decisions"]
        for form in ("fused", "unfused"):
            a, b = (page.times[f"{form}, {weights}"] for weights in ("both", "split"))
            assert decided(f"weights split, {form}", a, b) in page.told["verdict-decisions"]
        assert len(page.told["verdict-decisions"].splitlines()) == 4
        hold_the_step_roofs(page.told["step-roofs"], *(int(n) for n in SMALL.split(", ")))


def test_any_cell_can_run_again():
    """With the names as the last cell left them, from the last one up; q is a question's alone."""
    names: dict[str, Any] = {}
    first = execute(names, **small())
    for cell in reversed(CODE):
        if not cell.id.endswith(("-attempt", "-worked")):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(small().get(cell.id, cell.source), cell.id, "exec"), names)
            if cell.id in ("wrong-scope", "one-core", "cores", "verdict", "fits"):
                assert out.getvalue() and first[cell.id].startswith(out.getvalue()), cell.id


def test_what_is_our_reading_says_so():
    assert "**We know of no published measurement of this MLP on a logical core.**" in \
        SOURCE["h-published-near-it"]
    assert "As we read the conditions, " in SOURCE["p-half"]
    assert not re.search(r"there is no (published|measurement)", " ".join(SOURCE.values()), re.I)


def decided(what: str, before: float, after: float) -> str:
    off = after / before - 1
    word = "no difference" if abs(off) < 0.01 else "faster" if off < 0 else "slower"
    return (f"{what}: {word}, {show(before, 's', 4)} -> {show(after, 's', 4)} ({off:+.1%}),"
            " modelled\n")


def test_a_decision_paid_by_a_hundredth_or_not():
    def took(seconds: float) -> list[SimpleNamespace]:
        return [SimpleNamespace(kind="measured", chip="trn2", time=seconds / 2)] * 2

    names: dict[str, Any] = {"device": device, "show": show}
    exec(SOURCE["read-paid"], names)
    for after, word in ((99.1e-6, "no difference"), (100.9e-6, "no difference"),
                        (98.9e-6, "faster"), (101.1e-6, "slower")):
        assert names["paid"]("x", took(100e-6), took(after)).startswith(f"x: {word}, 100 us -> ")


def test_predictions_are_held_against_what_came():
    """The reader's own, in both cells, and the derived one of the experiment."""
    names: dict[str, Any] = {}
    told = execute(names, predict='mine = Guess(T_fused="1 ms", T_unfused="375 us", row="fill")',
                   predict_split='then = Guess(Q="25,165,824 B", T="296 us", row="idle")')
    assert re.search(r"T_fused +1 ms .*\+\d", told["against"])
    assert "fill" in told["largest"] and "not filled in" not in told["largest"]
    assert re.search(r"Q +25.17 MB +25.17 MB", told["split-against"])
    assert re.search(r"^T (not )?held: it changed by ", told["split-against"], re.M)
    # W_down of one core by the figure of its 16 DMA engines, 23 GB/s each
    less = WEIGHT / (16 * 23e9)
    assert names["soon"].T == pytest.approx(names["split"].time - less)
    change = names["later"].time - names["split"].time
    off = names["split"].time - less - names["later"].time
    held = abs(off) <= max(abs(change) / 4, 0.01 * names["split"].time)
    assert ("T held: " if held else "T not held: ") in told["next-verdict"]
    assert told["next-verdict"] == STORED["next-verdict"]


# --- the commands --------------------------------------------------------------------------------


def commands() -> list[list[str]]:
    text = SOURCE["h-record-your-own"].replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("python -m roofline ")]
    return [shlex.split(line)[3:] for line in lines]


def test_a_command_for_each_launch():
    own = [kernel for some in MAPPINGS.values() for _, kernel, *_ in some]
    told = [command[1].partition(":")[2] for command in commands()]
    assert sorted(told) == sorted([*set(own), "mlp_fused_w_once"])  # the experiment, too
    assert told[-1] == "mlp_fused_w_once" and "down_last=True" in commands()[-1]


@pytest.mark.parametrize("command", commands(), ids=lambda command: " ".join(command[1:])[-40:])
def test_a_command_is_the_pages_launch(command, capsys):
    assert command[0] == "capture"
    arguments = [one for one in command[1:] if not one.startswith("--write")]
    assert main(["count", *arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    [launch] = [(folder, kernel, sizes, read, written) for some in MAPPINGS.values()
                for folder, kernel, sizes, read, written, _ in some
                if command[1].endswith(f":{kernel}")][:1]
    assert str(launch[3] + launch[4]) in json.dumps(told)
    assert main(["capture", *arguments]) == 3
