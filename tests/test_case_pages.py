"""The pages that take one op through the course, end to end: measured, and off a device.

A page runs from top to bottom in this process, with smaller arrays, on an instance that is not
there, and records. Then each recorded profile is swapped for one of the same launch with other
times, other bytes and other engines at work, and it runs again: nothing is captured any more, and
what hangs on a measurement has to come out otherwise, in text and in drawing. And with some of its
launches recorded, the others modelled: each figure says whose it is, and unlike ones are not
compared.
"""

import ast
import contextlib
import functools
import io
import json
import math
import re
import shlex
import shutil
import symtable
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import standin
from pages import ROOT, cell_text
from standin import fake_nki, neff, reply
from standin.neuron_explorer import SESSION
from test_device_lint import plain

from roofline import device, gaps, nki, profile
from roofline.__main__ import main
from roofline.commands.answer import FINE, NO, NOWHERE
from roofline.device import runner, store
from roofline.units import show

Capture = Callable[..., store.Recording]
# Its columns a second fit fp32, too.
FIRST: Mapping[str, Any] = {"columns_per_second": 0.5e9}
OTHER: Mapping[str, Any] = {"seconds_per_byte": 9e-12, "columns_per_second": 0.4e9,
                            "min_columns": 512, "elements_per_second": 0.4e9}
MEASURES = {"measure", "sweep", "recorded", "capture"}


@dataclass(frozen=True)
class Partly:
    """Some launches of a page, recorded where the others are modelled.

    recorded   their kernels, with the parameters that are spelled out
    apart      id of a cell that compares unlike ones -> how often it says that it does not, and how
               often it compares like ones all the same; no other cell has anything to compare
    """

    recorded: tuple[str, ...]
    apart: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Page:
    """A notebook, and what this file knows of it.

    chip      the chip that it is about
    folder    where its commands are typed, within the course's
    smaller   id of a cell -> text in it -> what stands there in this test
    shell     text in a command -> what stands there in this test
    says      id of a cell -> words of it with the first profiles alone -> with the others alone
    roofline  id of the cell with the page's marks, and from its names the launches of each mark
    partly    launches to be recorded alone
    """

    path: str
    chip: str
    folder: str
    smaller: Mapping[str, Mapping[str, str]]
    shell: Mapping[str, str]
    says: Mapping[str, Mapping[str, str]]
    roofline: tuple[str, Callable[[Mapping[str, Any]], list[list[device.Measurement]]]]
    partly: tuple[Partly, ...]

    @property
    def cells(self) -> list[nbformat.NotebookNode]:
        """Its code cells, with the smaller arrays."""
        made = [cell for cell in self.stored if cell.cell_type == "code"]
        for cell in made:
            for old, new in self.smaller.get(cell.id, {}).items():
                assert old in cell.source, f"{self.path}, {cell.id}: {old} is not there any more"
                cell.source = cell.source.replace(old, new)
        assert {*self.smaller, *self.says} <= {cell.id for cell in made}
        return made

    @property
    def stored(self) -> list[nbformat.NotebookNode]:
        return nbformat.read(ROOT / self.path, 4).cells


def at_first(nbytes: int, columns: int, elements: int) -> float:
    """T of a core on the stand-in at first, s: it does one instruction after the other."""
    return (standin.DEFAULTS["fixed_s"] + nbytes * standin.DEFAULTS["seconds_per_byte"]
            + columns / FIRST["columns_per_second"]
            + elements / 128 / standin.DEFAULTS["elements_per_second"])


# Of the change on each page, so that the reader's prediction holds, and later does not:
TOGETHER = at_first(2 * 3 * 512**2, 4 * 4 * 512, 512 * 512)  # a, b, c; copies of c
WIDE = at_first(2 * (2 * 512 * 512 + 3 * 512 * 1024),  # x, y; three matrices
                (2 * 8 * 4 + 4 * 8) * 512,  # gate and up, down
                512 * (2 * 1024 + 512))  # silu, product, y
SPLIT = at_first(2 * (2 * 512 * 512 + 2 * 512 * 512),  # x, y; half of both matrices
                 4 * 8 * 4 * 128 + 4 * 8 * 512,  # up, for 128 tokens each; down
                 512 * (1024 + 512))  # gelu, y

CONSTANT = 2 * 128 * 16  # B that each core loads besides, by the other profiles


def found(name: str, nbytes: int) -> str:
    """A row beside which the reader wrote nothing."""
    return f"{name} not filled in {nbytes / 1e6:.4g} MB"


PAGES = {
    "matmul": Page(
        "day7/matmul.ipynb", "inf2", ".",
        {"kernels": {"n, p = 2048, 2": "n, p = 512, 2", "rows=512": "rows=256",
                     "columns=1024": "columns=512"},
         "hand-reload": {"16 * 4 * 16": "4 * 1 * 4", "16 * 4)": "4 * 1)"},
         "hand-block": {"512": "256", "1024": "512"},
         "expected": {"hypotheses(4, 16)": "hypotheses(1, 4)",
                      "hypotheses(2, 4)": "hypotheses(1, 2)"},
         "nests": {"m512 n1024": "m256 n512"},
         "published-trn2": {"(op, ": "(Matmul(2048, 2048, 2048), "},
         "change-predict": {"T=...": f"T={TOGETHER}"}},
        {"2048x2048": "512x512", "rows=512": "rows=256", "columns=1024": "columns=512"},
        {"predicted": {found("Q_reload", 2 * (1 + 4 + 1) * 512**2):
                       found("Q_reload", 2 * (1 + 1 + 1) * 512**2 + CONSTANT)},
         "fits": {"reload measured: H1, as the source": "reload measured: H2, B kept",
                  "block measured: H1, as the source": "block measured: H2, B kept"},
         "verdict": {"Q of reload, measured: H1, as the source":
                     "Q of reload, measured: H2, B kept"},
         "change-verdict": {"T held": "T not held"},
         "change-naive": {"T held": "T not held"}},
        ("roofline", lambda names: [[one] for one in names["made"].values()]),
        (Partly(("matmul",), {
            "predicted": (1, 0), "ledger-difference": (1, 0), "change-measured": (1, 0),
            "change-verdict": (1, 0), "change-naive": (1, 0), "change-arrive": (1, 0),
            "verdict": (1, 0)}),)),
    "swiglu": Page(
        "day7/swiglu.ipynb", "inf2", ".",
        {"the-shapes": {"= 2048, card.D, card.F, 2": "= 512, 512, 1024, 2"},
         "streamed-hand": {"tokens, p4 = 4096, 4": "tokens, p4 = 1024, 4"},
         "published-rows": {"(whole)": "(ops.SwiGLU(4096, 1024, 3072, dtype='fp32'))"},
         "change-predict": {"T=...": f"T={WIDE}"}},
        {"1024x2048": "512x512", "1024x3072": "512x1024", "3072x1024": "1024x512",
         "1024x4096": "512x1024"},
        {"measured-beside": {found("Q", 4 * 1024**2): found("Q", 4 * 1024**2 + CONSTANT)},
         "four-held": {"Q held, to the byte": "Q not held: +4,096 B read"},
         "change-verdict": {"yours: T held": "yours: T not held",
                            "the rule: T not held": "the rule: T held"},
         "streamed-counts": {"Q held, to the byte": "reload saved by the compiler"}},
        ("placed", lambda names: [[names["made"]]]),
        (Partly(("swiglu block=128",), {
            "change-measured": (1, 0), "change-verdict": (2, 0), "verdict-time": (1, 0),
            "streamed-verdict": (1, 0)}),)),
    "vjepa2": Page(
        "casestudy/vjepa2_mlp.ipynb", "trn2", "casestudy",
        {"sizes": {"16 // 2 * (256 // 16) ** 2, model.D, model.F, 2": "1024, 512, 1024, 2"},
         "predict-split": {"T=...": f"T={SPLIT}"}},
        {"1024x2048": "512x1024", "1024x4096": "512x1024", "4096x1024": "1024x512",
         "4096x2048": "1024x1024"},
        {"split-against": {found("Q", 4 * 1024**2): found("Q", 4 * 1024**2 + 2 * CONSTANT),
                           "T held": "T not held"},
         "next": {f"by the profile: Q {4 * 1024**2:,} B, as counted":
                  f"by the profile: Q {4 * 1024**2 + 2 * CONSTANT:,} B, +{2 * CONSTANT:,} B"},
         "next-verdict": {"down_last: no difference": "down_last: slower"},
         "verdict": {f"fused, split Q {4 * 1024**2:,} B, as counted":
                     f"fused, split Q {4 * 1024**2 + 2 * CONSTANT:,} B, +{2 * CONSTANT:,} B"},
         "verdict-decisions": {"fused, weights both: faster": "fused, weights both: slower",
                               "fused, weights split: faster": "fused, weights split: slower"},
         "verdict-gap": {"the shortest is fused, split": "the shortest is unfused, split"}},
        ("roofline", lambda names: list(names["made"].values())[:2]),
        (Partly(("mlp_fused", "mlp_up"), {
            "split-ledger": (1, 0), "split-against": (1, 0), "verdict-decisions": (3, 1),
            "verdict-gap": (1, 0)}),
         Partly(("mlp_fused", "mlp_fused_w_once"), {
             "verdict-decisions": (2, 2), "verdict-gap": (1, 0), "next": (1, 0),
             "next-verdict": (2, 0)}))),
}


# --- a run of a page -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The names after the last cell; by its id what each cell told, and its figure as HTML."""

    names: Mapping[str, Any]
    told: Mapping[str, str]
    figures: Mapping[str, str]

    def drawn(self, cell: str) -> list[str]:
        """Where its figure, SVG in HTML, has lines and marks; of a live one, what it draws."""
        return re.findall(r'\s(?:d|x|y)="[^"]*"|(?<=application/json">)[^<]*',
                          shown(self.figures.get(cell, "")))

    @functools.cached_property
    def measurements(self) -> list[device.Measurement]:
        """What the page measured, as far as its names lead there."""
        found, left = [], list(self.names.values())
        while left:
            one = left.pop()
            if isinstance(one, device.Measurement):
                found.append(one)
            elif isinstance(one, (list, tuple, device.Sweep)):
                left += list(one)
            elif isinstance(one, dict) and one is not self.names:
                left += list(one.values())
        return found


def execute(cells: list[nbformat.NotebookNode]) -> Run:
    """Run code cells in this process, one after the other; an error in one stops the test."""
    names: dict[str, Any] = {}
    told, figures = {}, {}
    for cell in cells:
        tree = ast.parse(plain(cell.source))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(tree, cell.id, "exec"), names)
            value = last and eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
        told[cell.id] = shown(out.getvalue() + ("" if value is None else repr(value)))
        picture = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        if "<svg" in picture or "rl-live" in picture:
            figures[cell.id] = picture
    return Run(names, told, figures)


def shown(text: str) -> str:
    """Without what differs from one capture to the next: progress, names of recordings, dates."""
    text = re.sub(r"^capturing .*\n?", "", text, flags=re.M)
    text = re.sub(r"(trn1|trn2|inf2)-\w+-\d{8}T\d{6}Z-[0-9a-f]{4}", "recording", text)
    return re.sub(r"\d{4}-\d\d-\d\d", "day", text)


def dependent(cells: list[nbformat.NotebookNode]) -> list[str]:
    """Ids of the cells that hang on a measurement: they take one, or use a name that does."""
    names: set[str] = set()
    found = []
    for cell in cells:
        takes = any(isinstance(node, ast.Attribute) and node.attr in MEASURES
                    and ast.unparse(node.value) == "device"
                    for node in ast.walk(ast.parse(plain(cell.source))))
        loads, stores = used(cell)
        if takes or (loads - stores) & names:
            found.append(cell.id)
            names |= stores
        else:
            names -= stores
    return found


def used(cell: nbformat.NotebookNode) -> tuple[set[str], set[str]]:
    """The page's names that a cell uses, in its functions too, and those that it binds."""
    def loads(table: symtable.SymbolTable, top: bool) -> set[str]:
        own = {one.get_name() for one in table.get_symbols()
               if one.is_referenced() and (top or one.is_global())}
        return own.union(*(loads(inner, False) for inner in table.get_children()))

    table = symtable.symtable(plain(cell.source), cell.id, "exec")
    return loads(table, True), {one.get_name() for one in table.get_symbols()
                                if one.is_assigned() or one.is_imported() or one.is_namespace()}


# --- an instance that is not there ---------------------------------------------------------------


@dataclass(frozen=True)
class Book:
    """A book beside an instance: where they are, and the launches that were captured so far."""

    folder: Path
    instance: Path
    captured: list[device.Launch]

    def captures(self) -> list[dict[str, Any]]:
        """The tool's captures that profiled."""
        return [call for call in standin.calls(self.instance, "neuron-explorer", "capture")
                if "--disable-profile" not in call["argv"]]


def kernels(folder: Path) -> None:
    """The kernels of all days, each in its place."""
    (folder / "lib" / "roofline").mkdir(parents=True)
    for source in ROOT.glob("*/kernels.py"):
        (folder / source.parent.name).mkdir()
        shutil.copy(source, folder / source.parent.name)


@contextlib.contextmanager
def book(folder: Path, page: Page, chip: str, how: Capture | None = None,
         **variables: str) -> Iterator[Book]:
    """The page's folder is the current one; the instance has this chip.

    how   in place of a capture
    """
    made = Book(folder / "book", folder / "instance", [])
    made.instance.mkdir()
    kernels(made.folder)
    capture = how or runner.capture_launch

    def captured(call: device.Launch, **told: Any) -> store.Recording:
        made.captured.append(call)
        return capture(call, **told)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir((made.folder / page.path).parent)
        patch.delenv("ROOFLINE_RECORDED")
        variables |= {"OPENBLAS_NUM_THREADS": "1"}  # arrays are small
        for name, value in (standin.install(made.instance, chip, **FIRST) | variables).items():
            patch.setenv(name, value)
        patch.setattr(runner, "capture_launch", captured)
        yield made


def rows(run: nki.Run, otherwise: bool = False) -> list[list[Any]]:
    """Of each core what the stand-in's compiler makes of a kernel.

    otherwise   what is loaded again stays on chip, a constant of 128 x 16 bf16 values is loaded
                first, and GpSimd does each engine's work once more
    """
    made: list[list[Any]] = []
    for trace in run.cores:
        own: list[Any] = [["dma", CONSTANT, 0, 128, "constant"]] * otherwise
        loaded = set()
        for record in trace:
            row = fake_nki._row(record)
            if otherwise and row[0] == "dma" and row[1]:
                [source] = record.reads
                place = source.name, source.offset, source.layout.shape
                if place in loaded:
                    continue
                loaded.add(place)
            own.append(row)
            if otherwise and row[0] == "other":
                own.append(["other", "gpsimd", *row[2:]])
        made.append(own)
    return made


def view(folder: Path, header: Mapping[str, Any], session: Mapping[str, Any],
         told: Mapping[str, Any]) -> None:
    """summary.json and timeline.json, as the tool's `view` writes them."""
    document = reply.document(header, session, {**standin.DEFAULTS, **told})
    (folder / "timeline.json").write_text(json.dumps(document))
    (folder / "summary.json").write_text(json.dumps({reply.SESSION: document["summary"][0]}))


def odd(folder: Path, call: device.Launch, chip: str) -> list[Any]:
    """The flags that a capture gives this profile."""
    job = SimpleNamespace(call=call, chip=chip, want=SimpleNamespace(counted=call.counted(chip)))
    return runner.flags_of(profile.read(folder / "timeline.json"), SimpleNamespace(
        job=job, shot=SimpleNamespace(warm=True)))


def swap(recording: store.Recording, call: device.Launch, late: int) -> None:
    """Its profile as the tool would tell another compilation; whole again, under the same name.

    late   so many us the kernel begins later, so that no two profiles change by as much
    """
    folder, chip = recording.folder, recording.chip
    header, _ = neff.read(folder / "kernel.neff")
    session = json.loads((folder / "profile_exec_2.ntff").read_bytes().removeprefix(SESSION))
    header["cores"] = rows(call.counted(chip), otherwise=True)
    view(folder, header, session, {**OTHER, "fixed_s": 1e-6 * (9 + late), "chip": chip})
    (folder / "recording.json").unlink()
    store.seal(folder, recording.key, recording.provenance, odd(folder, call, chip))


def at_once(call: device.Launch, chip: str) -> store.Recording:
    """A recording as a capture on this stand-in makes it, without its processes."""
    run, size = call.counted(chip), {"bfloat16": 2, "float32": 4}
    header = {"kernel": call.name, "target": chip, "lnc": call.lnc, "uuid": "0" * 32, "outputs": [],
              "inputs": [{"name": name, "shape": shape, "nbytes": math.prod(shape) * size[dtype]}
                         for name, (shape, dtype) in zip(call.names, call.shapes, strict=True)],
              "cores": rows(run)}
    session = {"uuid": "0" * 32, "exec": 2, "cores": list(range(call.lnc)), "beside": False,
               "dge": False, "path": "profile_exec_2.ntff"}
    said = {"kind": "measured", "chip": chip, "instance": standin.CHIPS[chip].instance,
            "lnc": call.lnc, "cores": [0], "kernel": call.name, "synthetic": True,
            "shapes": [list(shape) for shape, _ in call.shapes],
            "dtypes": [dtype for _, dtype in call.shapes], "parameters": dict(call.parameters),
            "execution": "second of 2", "warm": True, "date": "2026-08-21T12:30:00Z",
            "python": "3.12", "nki": "0.6.0"}
    with store.part() as folder:
        neff.write(folder / "kernel.neff", header, [])
        (folder / "profile_exec_2.ntff").write_bytes(SESSION + json.dumps(session).encode())
        view(folder, header, session, {**FIRST, "chip": chip})
        return store.save(folder, key=call.key(chip), provenance=said,
                          flags=odd(folder, call, chip),
                          kernel={name: one.text for name, one in call.sources.items()})


def twice(folder: Path, page: Page, chip: str, how: Capture | None = None) -> SimpleNamespace:
    """A page on a chip: as it captures, with other profiles, and where the instance is gone."""
    with book(folder, page, chip, how) as made:
        cells = page.cells
        first = execute(cells)
        captures, captured = made.captures(), list(made.captured)
        found = device.recordings()
        for late, call in enumerate(captured):
            swap(next(one for one in found if one.key == call.key(chip)), call, late)
        again = execute(cells)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("ROOFLINE_STAND_IN")
            later = execute(cells)
        assert captured == made.captured  # after the first time there is nothing to capture
        swapped = {one.key: one for one in device.recordings()}
    return SimpleNamespace(page=page, cells=cells, chip=chip, first=first, again=again, later=later,
                           captures=captures, captured=captured, found=found, swapped=swapped)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Callable[[str], SimpleNamespace]:
    """runs(name): that page on its own chip, once for all tests."""
    return functools.cache(lambda name: twice(
        tmp_path_factory.mktemp(name), PAGES[name], PAGES[name].chip))


@pytest.fixture(params=PAGES)
def ran(request, runs) -> SimpleNamespace:
    return runs(request.param)


# --- the pages on a device -----------------------------------------------------------------------


def measured(of: SimpleNamespace) -> None:
    """Each launch has a recording of its own, and nothing is the model's."""
    assert of.found.problems == () and len(of.found) == len(of.captured) > 0
    assert len({one.key for one in of.found}) == len(of.found)
    assert [str(flag) for one in of.found for flag in one.flags] == []
    assert {(one.kind, one.chip) for one in of.first.measurements} == {("measured", of.chip)}
    assert {one.launch.key(of.chip) for one in of.first.measurements} == {
        one.key for one in of.found}
    told = of.first.told
    assert told[of.cells[0].id].startswith("run: synthetic (test stand-in)")
    assert any("synthetic (test stand-in): " in text for text in told.values())
    assert not [cell for cell, text in told.items() if re.search("modelled: |replay: ", text)]
    assert [cell for cell in dependent(of.cells)
            if re.search(r"\bmodel(led)?\b", told[cell])] == []


def follows(of: SimpleNamespace) -> None:
    """What hangs on a measurement comes out otherwise with other profiles; all else stays."""
    page, first, again = of.page, of.first, of.again
    which = dependent(of.cells)
    telling = [cell for cell in which if first.told[cell].strip()]
    figures = [cell for cell in telling if cell in first.figures]
    assert len(telling) >= 12 and len(figures) >= 2
    assert [cell for cell in telling if first.told[cell] == again.told[cell]] == []
    assert [cell for cell in figures if first.drawn(cell) == again.drawn(cell)] == []
    still = [cell for cell in first.told if cell not in which]
    assert [cell for cell in still if first.told[cell] != again.told[cell]] == []
    assert [cell for cell in still if first.drawn(cell) != again.drawn(cell)] == []
    for cell, words in page.says.items():
        texts = [" ".join(run.told[cell].split()) for run in (first, again)]
        for before, after in words.items():
            assert before in texts[0] and before not in texts[1], (cell, *texts)
            assert after in texts[1] and after not in texts[0], (cell, *texts)


def marked(of: SimpleNamespace) -> None:
    """Marks stand at W / T; hollow ones at W over the bytes that moved, where those are others."""
    cell, launches = of.page.roofline
    for run, hollow in ((of.first, False), (of.again, True)):
        rows = [line for line in run.told[cell].splitlines() if "  measured  " in line]
        full = [line for line in rows if "at the bytes moved" not in line]
        beside = [line for line in rows if line not in full]
        marks = launches(run.names)
        assert len(full) == len(marks) and len(beside) == hollow * len(marks)
        for i, some in enumerate(marks):
            W, T = sum(one.count.flops for one in some), sum(one.time for one in some)
            moved = sum(one.profile.summary[f"hbm_{way}_bytes"] for one in some
                        for way in ("read", "write"))
            assert f" {show(W / T, 'FLOP/s')} " in full[i]
            assert not hollow or f" {show(W / moved, 'FLOP/B')} " in beside[i]


def test_every_launch_is_captured(ran):
    """The second execution, after the gate; each once."""
    measured(ran)
    assert len(ran.captures) == len(ran.found)
    for call in ran.captures:
        assert {"--num-exec=2", "--profile-nth-exec=2"} <= set(call["argv"])
    for one in ran.found:
        assert one.provenance["execution"] == "second of 2" and one.provenance["warm"]
        assert any(note.startswith("outputs right within ") for note in one.provenance["notes"])


def test_it_follows_its_profiles(ran):
    follows(ran)
    marked(ran)


def test_a_replay_is_the_same_page(ran):
    """Where the instance is gone its recordings are not: all is as it was but what tells of it."""
    differ = [cell for cell in ran.again.told if ran.again.told[cell] != ran.later.told[cell]
              or ran.again.drawn(cell) != ran.later.drawn(cell)]
    [first, *others] = [cell.id for cell in ran.cells if "here" in set.union(*used(cell))]
    assert "replay: " in ran.later.told[first] and differ == [first, *others]


@pytest.mark.parametrize(("name", "chip"), [
    (name, chip) for name in ("matmul", "swiglu") for chip in ("trn1", "trn2")])
def test_it_follows_the_chip(name, chip, tmp_path):
    """On another chip, with captures made at once: every launch, and other profiles."""
    of = twice(tmp_path, PAGES[name], chip, lambda call, **how: at_once(call, chip))
    measured(of)
    follows(of)
    marked(of)


def test_a_wrong_result_stops_the_page(tmp_path):
    """The gate comes before any figure, and nothing is kept."""
    page = PAGES["swiglu"]
    with book(tmp_path, page, page.chip) as made:
        standin.behave(made.instance, outputs="one")
        with pytest.raises(runner.WrongOutput):
            execute(page.cells)
        assert len(made.captured) == 1 and made.captures() == [] and not device.recordings()


# --- pairs of cores ------------------------------------------------------------------------------


def test_a_chip_without_pairs_gets_the_model_of_trn2(tmp_path):
    """Its cores do not pair: nothing is captured, and the page says what it shows."""
    page = PAGES["vjepa2"]
    with book(tmp_path, page, "inf2") as made:
        run = execute(page.cells)
        assert made.captured == [] and not device.recordings()
    assert {(one.kind, one.chip) for one in run.measurements} == {("modelled", page.chip)}
    assert ", inf2.xlarge, " in run.told[page.cells[0].id]
    assert "trn2 at LNC=2: recorded, else modelled" in run.told["which-figures"]


def test_a_capture_pairs_the_cores_whatever_the_runtime_is_set_to(runs, tmp_path):
    """And the page says how it is set. The first launch is captured, of others it is known."""
    page = PAGES["vjepa2"]
    capture, known = runner.capture_launch, runs("vjepa2").swapped

    def first(call: device.Launch, **how: Any) -> store.Recording:
        return known[call.key(page.chip)] if made.captured[1:] else capture(call, **how)

    with book(tmp_path, page, page.chip, first, NEURON_LOGICAL_NC_CONFIG="1") as made:
        run = execute(page.cells)
        [command] = made.captures()
        assert command["env"]["NEURON_LOGICAL_NC_CONFIG"] == "2"
        [own] = device.recordings()
        assert own.provenance["lnc"] == 2 and own.flags == ()
    assert " at LNC 1, " in run.told[page.cells[0].id]
    assert {one.kind for one in run.measurements} == {"measured"}


# --- off the device ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_off_the_device_the_model_says_that_it_is_one(name, monkeypatch):
    """Wherever a figure of it is shown, here and in what is committed."""
    page = PAGES[name]
    monkeypatch.chdir((ROOT / page.path).parent)
    cells = page.cells
    run = execute(cells)
    assert run.told[cells[0].id].startswith("replay: ")
    assert {one.kind for one in run.measurements} == {"modelled"}
    which = dependent(cells)
    telling = [cell for cell in which if run.told[cell].strip()]
    stored = {cell.id: cell_text(cell) for cell in page.stored if cell.cell_type == "code"}
    for texts in (run.told, stored, {cell: run.figures.get(cell, "model") for cell in telling}):
        assert [cell for cell in telling if "model" not in texts[cell]] == []
    assert [cell for cell in which if re.search("measured on|synthetic", run.told[cell])] == []


# --- some launches recorded, others not ----------------------------------------------------------

COMPARED = re.compile(r"\bheld: it changed by |: (?:faster|slower|no difference), "
                      r"|^\S*:? ?the shortest is |^before after change cause$|^T changed by ", re.M)

# Cells with times beside each other, of which nothing more is said where they are alike:
BESIDE = {"predicted", "verdict", "verdict-time", "streamed-verdict"}


def lines(text: str) -> list[str]:
    """Of what a cell told, widths of columns apart; a sentence that declines is one line."""
    text = re.sub(r"not compared: .*?one chip", lambda found: " ".join(found[0].split()), text,
                  flags=re.S)
    return [" ".join(line.split()) for line in text.splitlines()]


def whose(text: str) -> list[tuple[str, set[str]]]:
    """Each line, and the kinds that it stands under: its own words, else the last ones above; the
    first ones of the cell where none is above."""
    last: set[str] = set()
    found = []
    for line in lines(text):
        words = re.findall(r"\b(?:model|measured|synthetic|profiler)", line)
        last = {"modelled" if word == "model" else "measured" for word in words} or last
        found.append((line, last))
    first = next((kinds for _, kinds in found if kinds), last)
    return [(line, kinds or first) for line, kinds in found]


@pytest.fixture(scope="module")
def unmixed(tmp_path_factory) -> Callable[[str], tuple[Run, Run]]:
    """unmixed(name): that page with nothing recorded, and with all of its launches."""
    def both(name: str) -> tuple[Run, Run]:
        page = PAGES[name]
        with recorded(tmp_path_factory.mktemp(name), page):
            none = execute(page.cells)
            for call in {one.launch.key(page.chip): one.launch
                         for one in none.measurements}.values():
                at_once(call, page.chip)
            return none, execute(page.cells)
    return functools.cache(both)


@contextlib.contextmanager
def recorded(folder: Path, page: Page) -> Iterator[None]:
    """A book of recordings, and no device."""
    with book(folder, page, page.chip), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROOFLINE_STAND_IN")
        yield


@pytest.mark.parametrize("name", PAGES)
def test_with_nothing_or_all_recorded_it_compares(name, unmixed):
    page = PAGES[name]
    for run, kind in zip(unmixed(name), ("modelled", "measured"), strict=True):
        assert {one.kind for one in run.measurements} == {kind}
        assert [cell for cell, text in run.told.items() if "not compared" in text] == []
        for one in page.partly:
            for cell, counts in one.apart.items():
                if cell not in BESIDE:
                    found = COMPARED.findall("\n".join(lines(run.told[cell])))
                    assert len(found) == sum(counts), (cell, kind)
    none, every = unmixed(name)
    which = dependent(page.cells)
    assert [cell for cell in which if re.search(r"\bmodel", every.told[cell])] == []
    assert [cell for cell in which if re.search(r"measured on|synthetic", none.told[cell])] == []


@pytest.mark.parametrize(("name", "some"), [
    pytest.param(name, some, id=f"{name}, {' and '.join(some.recorded)}")
    for name, page in PAGES.items() for some in page.partly])
def test_a_partly_recorded_page_says_whose_each_figure_is(name, some, unmixed, tmp_path):
    """A line that is another with all of them recorded has a modelled figure in it, and says so or
    stands under a line that does. One that is the same, and another with none, is measured, and
    stands under that word where it does on the page with all of them."""
    page, (none, every) = PAGES[name], unmixed(name)
    with recorded(tmp_path, page):
        for call in {one.launch.title: one.launch for one in none.measurements}.values():
            if call.title in some.recorded:
                at_once(call, page.chip)
        mixed = execute(page.cells)
    assert {one.launch.title for one in mixed.measurements
            if one.kind == "measured"} == {*some.recorded}
    told = {cell: mixed.told[cell] for cell in dependent(page.cells)}
    for cell, text in told.items():
        there, no = dict(whose(every.told[cell])), lines(none.told[cell])
        wrong = [line for line, kinds in whose(text) if line and "not compared" not in line and (
                 "modelled" not in kinds if line not in there
                 else line not in no and not there[line] <= kinds)]
        assert wrong == [], cell
    apart = {cell: (text.count("not compared"), len(COMPARED.findall("\n".join(lines(text)))))
             for cell, text in told.items() if "not compared" in text}
    assert apart == some.apart
    cell, marks = page.roofline
    rows = [line for line in lines(mixed.told[cell])
            if " derived " not in line and re.search(r" (measured|modelled) ", line)
            and "at the bytes moved" not in line]
    assert [re.search(r" (measured|modelled) ", line)[1] for line in rows] == [
        "modelled" if "modelled" in {one.kind for one in launches} else "measured"
        for launches in marks(mixed.names)]


# --- prose ---------------------------------------------------------------------------------------

ROW = f"`(?:{'|'.join(gaps.CAUSES)})`"
MOST = "shortest|fastest|slowest|longest|largest|quickest|biggest"
VERDICTS = [re.compile(pattern, re.I) for pattern in (
    # a row of a ledger, and what became of it
    ROW + r"(?: row)?,?(?: \w+){0,2} (?:is|was|has|took|takes|went|goes|grew|grows|shrank|shrinks"
          r"|fell|falls|rose|rises|lost|loses|dominates|explains|comes|disappears)\b",
    rf"\b(?:{MOST})\b[^.?!]*{ROW}|\b(?:most|half|much) of (?:it|the gap|T)\b[^.?!]*{ROW}",
    # what a run came out as
    rf"(?<!that )\b(?:is|was|comes out|came out|turns out) (?:the |by far the )?(?:{MOST})\b",
    rf"\b(?:{MOST})(?: \w+){{0,3}} (?:is|was|are|were)\b",
    r"\b(?:faster|slower|quicker)\b", r"(?<!that )\bmade no difference\b",
    # what became of a prediction or a decision
    r"\b(?:did not |does not |has not |have |has )?(?:paid|pays?)(?: off)?(?=[.,;]|$)",
    r"\b(?:prediction|guess|rule|idea|hypothesis|H1|H2|\$?[TQWI]\$?)"
    r" (?:has |have )?(?:not )?held\b",
    r"\b(?:H1|H2|the (?:\w+ )?hypothesis) (?:holds|fails|is (?:right|wrong|true|false))\b",
)]
# Before the words they leave it open, or tell whose run it was:
OPEN = re.compile(r"\b(?:if|whether|which|what|where|suppose|would|could|may|source|published)\b",
                  re.I)


def verdicts(markdown: str) -> list[str]:
    """Sentences outside <details> that say what a profile said of this page's runs."""
    text = re.sub(r"<details>.*?</details>|^```.*?^```", "", markdown, flags=re.M | re.S)
    text = re.sub(r"^#.*|^ *[-*] |^\|", "\n\n", text, flags=re.M)
    sentences = [" ".join(one.split()) for one in re.split(r"(?<=[.?!])[*)]*\s+|\n\s*\n", text)]
    return [one for one in sentences if not one.endswith("?") and any(
        not OPEN.search(one[:found.start()]) for pattern in VERDICTS
        for found in pattern.finditer(one))]


@pytest.mark.parametrize("name", PAGES)
def test_markdown_leaves_the_verdict_to_the_profile(name):
    """It is the same for all readers, and a chip of theirs may say otherwise."""
    found = {cell.id: verdicts(cell.source) for cell in PAGES[name].stored
             if cell.cell_type == "markdown"}
    assert {id: some for id, some in found.items() if some} == {}


def test_a_verdict_in_prose_is_seen():
    for planted in ("The largest row is `fill`.", "Splitting the weights has not paid.",
                    "As you see, `wait for DMA` has grown.", "The fused kernel is the fastest.",
                    "Of the four the shortest is fused.", "So the block is faster than the reload.",
                    "The prediction held.", "H1 holds, as the source has it.",
                    "Most of it is `pipeline`, as before."):
        assert verdicts(f"Look at it. {planted} Then go on.") == [planted]
        assert verdicts(f"<details>\n{planted}\n</details>") == []
    for fair in ("Is the block faster than the reload?", "If the rule held, go on.",
                 "Compare `fill` with `wait for DMA`.", "Which row is the largest?",
                 "Say which prediction held.", "The source says that its prediction held.",
                 "It is paid for in SBUF.", "Each saves its share of the `pipeline` row.",
                 "A decision that made no difference was about something that did not bind."):
        assert verdicts(fair) == []


# --- commands ------------------------------------------------------------------------------------


def commands(page: Page) -> list[list[str]]:
    """The page's shell lines, each as the words after `python -m roofline`."""
    text = "\n".join(cell.source for cell in page.stored if cell.cell_type == "markdown")
    found, given = [], {}
    for fence in re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S):
        for line in fence.replace("\\\n", " ").splitlines():
            if told := re.fullmatch(r'(\w+)="(.*)"', line):
                given[told[1]] = told[2]
            elif line.strip():
                words = shlex.split(re.sub(r"\$(\w+)", lambda name: given[name[1]], line))
                assert words[:3] == ["python", "-m", "roofline"], line
                found.append(words[3:])
    return found


def smaller(page: Page, words: list[str]) -> list[str]:
    """With the sizes of this test."""
    for old, new in page.shell.items():
        words = [re.sub(rf"(?<!\d){old}(?!\d)", f"\0{new}", word) if "\0" not in word else word
                 for word in words]
    return [word.replace("\0", "") for word in words]


def ended(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it says, in one line."""
    with contextlib.redirect_stdout(io.StringIO()) as out, \
            contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(words)
    return code, " ".join((out.getvalue() + errors.getvalue()).split())


@pytest.mark.parametrize("name", PAGES)
def test_its_commands_say_what_they_need(name, tmp_path, monkeypatch):
    """Off a device: the source of each call counts, and capture ends with 3 and says why."""
    page, lines = PAGES[name], commands(PAGES[name])
    kernels(tmp_path)
    monkeypatch.chdir(tmp_path / page.folder)
    before = sorted(tmp_path.rglob("*"))
    assert sum(words[0] == "capture" for words in lines) >= 2
    assert {words[0] for words in lines} <= {"capture", "count", "predict", "roof", "gap"}
    for words in lines:
        if words[0] == "capture":
            code, said = ended(words)
            assert code == NOWHERE and "nothing to capture on: no Neuron device here" in said
            assert "--or-model" in said and "instance.md" in said
            words = ["count", *(word for word in words[1:] if not word.startswith("--write="))]
        if words[0] != "gap":  # which is of captures
            code, said = ended(words)
            assert code == FINE, (words, said)
    assert sorted(tmp_path.rglob("*")) == before


def test_its_commands_record_what_it_measures(ran, tmp_path):
    """On the instance: the very launches of the page, the first one captured, others known."""
    page, lines = ran.page, commands(ran.page)
    capture = runner.capture_launch
    assert [old for old in page.shell if not any(old in word for words in lines
                                                 for word in words)] == []

    def first(call: device.Launch, **how: Any) -> store.Recording:
        key = call.key(page.chip)
        return ran.swapped[key] if made.captured[1:] else capture(call, **how)

    with book(tmp_path, page, page.chip, first) as made:
        with contextlib.chdir(made.folder / page.folder):
            for words in lines:
                code, said = ended(smaller(page, words))
                assert code in (FINE, NO), (words, said)
                assert words[0] != "capture" or "synthetic (test stand-in): " in said
        assert len(made.captures()) == len(device.recordings()) == 1
        assert sorted(call.key(page.chip) for call in made.captured) == sorted(ran.swapped)
