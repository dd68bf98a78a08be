"""Day 4's page in device mode: every cell on the stand-in, and all of it follows the profiles.

It runs from top to bottom on an instance that is not there, with smaller arrays and shorter
sweeps, and records. Then each recorded profile is swapped for one of the same launch with other
times, and it runs again: what hangs on a measurement has to come out otherwise.
"""

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
import standin
from nbclient import NotebookClient
from pages import ROOT
from test_device_lint import plain

from roofline import device, figures
from roofline.device import store

PAGE = ROOT / "day4" / "measured_roofs.ipynb"
# Smaller and shorter, so that it takes a minute. Each has to be on the page.
SMALLER = {"((128, 196_608), ": "((128, 16_384), ", "range(7, 16)": "range(11, 15)",
           "elements=8192": "elements=4096", "repeat=12": "repeat=3",
           "[8, 16, 32, 64, 128, 256, 512]": "[32, 512]", "n=512": "n=64",
           "(8, 16, 32, 64, 128)": "(64, 128)"}
REPLAYED = ("host.latest()", "__import__('os').environ.__setitem__('ROOFLINE_RECORDED', '1') or "
            "host.latest()")  # the CPU is not what this is about, and takes its time
# Predictions of rows that the shorter sweeps have not, and of the cell that is made to replay.
ELSEWHERE = {"day4.row-sizes", "day4.eight-rows", "day4.starts", "day4.cpu-knee"}
MEASURES = {"measure", "sweep", "together", "gap", "loop", "intervals", "roofs"}
FIRST = {"seconds_per_byte": 1 / 250e9, "seconds_per_transfer": 1e-6, "fixed_s": 4e-6,
         "columns_per_second": 2.8e9, "min_columns": 64, "beside": 1.0}
OTHER = {"seconds_per_byte": 1 / 180e9, "seconds_per_transfer": 0, "fixed_s": 9e-6,
         "columns_per_second": 2e9, "min_columns": 128, "beside": 1.5}


def page() -> nbformat.NotebookNode:
    notebook = nbformat.read(PAGE, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for old in SMALLER:
        assert any(old in cell.source for cell in code), f"{old} is not on the page any more"
    for cell in code:
        for old, new in SMALLER.items():
            cell.source = cell.source.replace(old, new)
        if REPLAYED[0] in cell.source:
            cell.source = cell.source.replace(*REPLAYED) + (
                "\n_ = __import__('os').environ.pop('ROOFLINE_RECORDED')")
    return notebook


def run(folder: Path) -> list[nbformat.NotebookNode]:
    """The page's code cells, executed; an error in one stops the test."""
    notebook = page()
    NotebookClient(notebook, timeout=300, kernel_name="python3",
                   resources={"metadata": {"path": str(folder / "day4")}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def dependent(cells: list[nbformat.NotebookNode]) -> list[int]:
    """Cells that hang on a measurement: they take one, or use a name that does."""
    names: set[str] = set()
    found = []
    for i, cell in enumerate(cells):
        tree = ast.parse(plain(cell.source))
        takes = any(isinstance(node, ast.Attribute) and node.attr in MEASURES
                    and ast.unparse(node.value) == "device" for node in ast.walk(tree))
        loads, stores = ({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
                          and isinstance(node.ctx, how)} for how in (ast.Load, ast.Store))
        if takes or (loads - stores) & names:
            found.append(i)
            names |= stores
        else:
            names -= stores
    return found


def shown(cell: nbformat.NotebookNode) -> str:
    """Its text, without what differs from day to day: progress, names of recordings, dates.

    What it prints is put together again: a kernel under load cuts it anywhere.
    """
    text = "".join(output.get("text") or output.get("data", {}).get("text/plain", "") + "\n"
                   for output in cell.outputs)
    text = re.sub(r"^capturing .*\n?", "", text, flags=re.M)
    text = re.sub(r"trn1-\w+-\d{8}T\d{6}Z-[0-9a-f]{4}", "recording", text)
    return re.sub(r"\d{4}-\d\d-\d\d", "day", text)


def drawn(cell: nbformat.NotebookNode) -> list[str]:
    """Where its figures, SVG in HTML, have lines and marks."""
    pages = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
    return [place for html in pages if "<svg" in html
            for place in re.findall(r'\s(?:d|x|y)="[^"]*"', html)]


def swap(instance: Path, folder: Path) -> None:
    """Each recording's profile as the tool tells it now; whole again, under the same name."""
    one = store.load(folder)
    header = json.loads((folder / "recording.json").read_text())
    for words in (["--output-format", "summary-json"],
                  ["--output-format", "json", "--output-file", "timeline.json"]):
        done = subprocess.run(
            [str(instance / "bin" / "neuron-explorer"), "view", "-n", "kernel.neff", "-s",
             "profile_exec_2.ntff", *words], cwd=folder, check=True, capture_output=True, text=True)
        if done.stdout.startswith("{"):
            (folder / "summary.json").write_text(done.stdout)
    (folder / "recording.json").unlink()
    store.seal(folder, header["key"], header["provenance"], one.flags)


@pytest.fixture
def book(tmp_path) -> Path:
    """A book of one page, beside the instance."""
    folder = tmp_path / "book"
    for part in ("lib/roofline", "day4", "day1/data"):
        (folder / part).mkdir(parents=True)
    shutil.copy(ROOT / "day4/kernels.py", folder / "day4")
    shutil.copy(ROOT / device.host.RECORDED, folder / device.host.RECORDED)
    return folder


def test_the_page_runs_on_a_device_and_follows_its_profiles(book, monkeypatch):
    instance = book.parent / "instance"
    instance.mkdir()
    monkeypatch.chdir(book)
    monkeypatch.delenv("ROOFLINE_RECORDED")
    for name, value in standin.install(instance, "trn1", exec_s=0.0005, **FIRST).items():
        monkeypatch.setenv(name, value)
    first = run(book)
    assert shown(first[0]).startswith("run: synthetic (test stand-in), trn1.2xlarge")
    found = device.recordings()
    assert found.problems == () and {one.kernel for one in found} == {
        "copy", "read", "write", "resident_matmul", "moving_sweep"}
    captures = sum("--disable-profile" not in call["argv"]
                   for call in standin.calls(instance, "neuron-explorer", "capture"))
    assert len(found) == captures  # each capture is a recording, and no launch had two
    assert len({(one.key, *one.provenance["cores"], *one.provenance.get("alongside", ()))
                for one in found}) == len(found)

    which = dependent(first)
    words = "\n".join(shown(first[i]) for i in which)
    assert words.count("synthetic (test stand-in)") >= 10
    assert "modelled" not in words and "replay" not in words

    standin.behave(instance, **OTHER)
    for one in found:
        swap(instance, one.folder)
    calls = len(standin.calls(instance, "neuron-explorer", "capture"))
    again = run(book)
    assert len(standin.calls(instance, "neuron-explorer", "capture")) == calls
    telling = [i for i in which if shown(first[i]).strip()]
    assert len(telling) >= 15
    same = [first[i].source for i in telling if shown(first[i]) == shown(again[i])]
    assert same == []
    for cell in (*first, *again):  # guesses find what they are about in anybody's profile
        guess = cell.metadata.get("roofline", {}).get("predict")
        if guess and guess["id"] not in ELSEWHERE:
            assert figures.prediction(guess["id"], guess["parts"], shown(cell))
    drawings = [i for i in which if drawn(first[i])]
    assert len(drawings) >= 3
    assert [first[i].source for i in drawings if drawn(first[i]) == drawn(again[i])] == []
    for before, after in (("It does not flatten", "Flat from the smallest size on"),
                          ("2 of 2 intervals are max(N, 64)", "0 of 2 intervals are max(N, 64)"),
                          ("the others take nothing of it", "the others take something of it")):
        verdicts = [" ".join("\n".join(shown(run[i]) for i in which).split())
                    for run in (first, again)]
        assert before in verdicts[0] and before not in verdicts[1]
        assert after in verdicts[1] and after not in verdicts[0]
    # and what hangs on none stays as it is
    still = [i for i in range(len(first)) if i not in which]
    assert [first[i].source for i in still if shown(first[i]) != shown(again[i])] == []
    assert [first[i].source for i in still if drawn(first[i]) != drawn(again[i])] == []
