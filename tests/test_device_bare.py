"""The library in environments that hold little: NumPy alone, and what a Neuron image has.

Each environment is new and filled from the package index; uv keeps that to seconds. The library
goes in as on an instance, `pip install --no-deps -e lib`, from a copy of the book.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

from roofline.device import chip

REQUIREMENTS = ROOT / "requirements-neuron.txt"
HEAVY = ("matplotlib", "pyarrow", "numba", "psutil", "threadpoolctl", "torch", "jax", "IPython")
OFFLINE = re.compile(r"dns error|failed to (?:fetch|lookup)|connect|unreachable|timed out", re.I)


def clean(**more: str) -> dict[str, str]:
    """This process's environment, less what points Python, pip or the course somewhere."""
    drop = ("PYTHON", "VIRTUAL_ENV", "NEURON_", "NKI_", "ROOFLINE_", "COV_", "JUPYTER")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)} | more


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=clean(**more), text=True,
                          capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode and "install" in command and "CI" not in os.environ \
            and OFFLINE.search(done.stderr):
        pytest.skip(f"the package index is out of reach: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + (done.stderr if "--dry-run" in command else "")


class Environment:
    """A new environment for this version of Python, and a copy of the book beside it."""

    def __init__(self, root: Path) -> None:
        self.root, self.python = root, root / "venv/bin/python"
        self.book = root / "book"
        run(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, root / "venv",
            cwd=root)

    def install(self, *what: str | Path) -> str:
        return run(sys.executable, "-m", "uv", "pip", "install", "--python", self.python, *what,
                   cwd=ROOT)

    def install_library(self, *pip: str | Path) -> None:
        """As the instance page says, from the book's folder; with uv unless there is a pip."""
        uv = (sys.executable, "-m", "uv", "pip", "install", "-q", "--python", self.python)
        for part in ("lib", "day4", "day1/data", "assets/recorded"):
            if (ROOT / part).exists():
                shutil.copytree(ROOT / part, self.book / part, ignore=shutil.ignore_patterns(
                    "*.egg-info", "__pycache__", ".ipynb_checkpoints"))
        run(*(pip or uv), "--no-deps", "-e", "lib", cwd=self.book)

    def __call__(self, script: str, **more: str) -> str:
        """What a script prints, run in the book's folder."""
        return run(self.python, "-c", script, cwd=self.book, **more).strip()

    def has(self) -> dict[str, str]:
        """Installed packages and their versions, names in lower case with hyphens."""
        found = json.loads(self("import importlib.metadata as m, json; print(json.dumps("
                                "{d.name: d.version for d in m.distributions()}))"))
        return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}


# --- NumPy alone -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numpy_alone(tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("numpy"))
    made.install("-q", "numpy", "ml-dtypes")
    made.install_library()
    return made


def test_numpy_alone_is_what_it_says(numpy_alone):
    assert set(numpy_alone.has()) == {"numpy", "ml-dtypes", "roofline"}
    assert numpy_alone("import importlib.util as u; print([n for n in "
                       f"{HEAVY!r} if u.find_spec(n)])") == "[]"


def test_numpy_alone_imports_and_probes(numpy_alone):
    said = numpy_alone("import sys, roofline; from roofline import device; "
                       "found = device.probe(); print(found.verdict); "
                       "print('numpy' in sys.modules, found.runs, roofline.__file__)")
    verdict, rest = said.splitlines()
    assert verdict.startswith(("replay: ", "run: "))
    assert rest.endswith(f"{numpy_alone.book}/lib/roofline/__init__.py")
    assert rest.startswith("False ")


def test_numpy_alone_counts_a_kernel_of_day_4(numpy_alone):
    """64 KiB come in and 64 KiB go out: 128 partitions x 256 elements x 2 bytes, each way."""
    said = numpy_alone(
        "from roofline import nki; kernels = nki.load('day4/kernels.py'); "
        "done = nki.run(kernels.copy, ((128, 256), 'bf16'), elements=128, data=False); "
        "print(done.count.hbm_bytes, done.count.flops)")
    assert said == f"{2 * 128 * 256 * 2} 0"


def test_numpy_alone_runs_a_kernel_on_data(numpy_alone):
    said = numpy_alone(
        "import numpy as np, ml_dtypes; from roofline import nki; "
        "kernels = nki.load('day4/kernels.py'); "
        "x = np.arange(128 * 256, dtype=np.float32).reshape(128, 256).astype(ml_dtypes.bfloat16); "
        "done = nki.run(kernels.copy, x, elements=128); print(np.array_equal(done.outputs[0], x))")
    assert said == "True"


# --- what the image has, and requirements-neuron.txt -----------------------------------------

# The oldest NumPy that jax 0.10 takes (its wheel: numpy>=2.0), or that this Python has.
OLD = "2.0.2" if sys.version_info < (3, 13) else "2.1.0"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    made = Environment(tmp_path_factory.mktemp("image"))
    made.install("-q", "pip", f"numpy=={OLD}")
    made.install("-q", "-r", REQUIREMENTS)
    made.install_library(made.python, "-m", "pip", "install", "-q")
    return made


def test_the_image_keeps_its_numpy_and_gets_no_framework(image):
    has = image.has()
    assert has["numpy"] == OLD
    assert not {"torch", "jax", "jaxlib", "numba", "nki", "neuronx-cc"} & set(has)


def test_every_module_imports_on_the_image(image):
    said = image(
        "import importlib, pkgutil, roofline; names = [m.name for m in pkgutil.walk_packages("
        "roofline.__path__, 'roofline.')]; [importlib.import_module(n) for n in names if "
        "not n.endswith('__main__')]; print(len(names))")
    assert int(said) >= len(list((ROOT / "lib/roofline").rglob("*.py"))) - 1


def test_every_public_name_of_device_is_there_on_the_image(image):
    assert image("from roofline import device; [getattr(device, n) for n in device.__all__]; "
                 "print('all')") == "all"


EXECUTE = """
import nbclient, nbformat, sys
notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={
    "metadata": {"path": "day4"}}).execute()
print(sum(bool(cell.get("execution_count")) for cell in notebook.cells))
"""


@pytest.mark.skipif(not (ROOT / "day4/measured_roofs.ipynb").exists(), reason="no Day 4 page here")
def test_a_folder_named_roofline_does_not_hide_the_library(image, tmp_path):
    """As after `git clone ... roofline`, run from the folder above."""
    (tmp_path / "roofline").mkdir()
    said = run(image.python, "-c", "import roofline; from roofline import machine; "
               "print(roofline.__file__, machine.trn1.name)", cwd=tmp_path)
    assert f"{image.book}/lib/roofline/__init__.py Trainium1" in said


def test_day_4_runs_on_the_image(image):
    """Every cell, in the image's Python; a cell that raises unmarked fails the run."""
    page = image.book / "day4/measured_roofs.ipynb"
    cells = json.loads(page.read_text())["cells"]
    said = run(image.python, "-c", EXECUTE, page, cwd=image.book, ROOFLINE_RECORDED="1",
               PATH=f"{image.python.parent}{os.pathsep}{os.environ['PATH']}").split()
    assert int(said[-1]) == sum(cell["cell_type"] == "code" and bool("".join(cell["source"]))
                                for cell in cells)


@pytest.mark.parametrize("there", [
    (f"numpy=={OLD}", "ml-dtypes==0.5.1"),  # as old as jax 0.10 takes them
    ("numpy<2.3", "ml-dtypes==0.5.1", "scipy"),
    ("numpy", "ml-dtypes"),
], ids=", ".join)
def test_the_requirements_move_nothing_of_the_image(tmp_path, there):
    made = Environment(tmp_path)
    made.install("-q", *there)
    said = made.install("--dry-run", "-r", REQUIREMENTS)
    plan = set(re.findall(r"^ [+-] ([\w.-]+)==", said, re.M))
    assert "matplotlib" in plan  # the plan was read
    assert not plan & {"numpy", "ml-dtypes", "scipy", "jax", "jaxlib", "torch", "numba"}


# --- the file itself -------------------------------------------------------------------------


def requirements() -> dict[str, str]:
    """Each package of requirements-neuron.txt and its range."""
    lines = [line.partition("#")[0].strip() for line in REQUIREMENTS.read_text().splitlines()]
    return {re.match(r"[\w-]+", line)[0]: line for line in lines if line}


def test_ranges_are_loose_and_name_nothing_of_the_image():
    listed = requirements()
    assert all(re.fullmatch(r"[\w-]+>=\d+(\.\d+)?", line) for line in listed.values())
    assert not {"numpy", "jax", "jaxlib", "torch", "numba", "roofline", *chip.EMPTY} & set(listed)


def test_they_cover_what_the_library_asks_for():
    """Its own requirements and the reader of Parquet, but NumPy, with the same floors."""
    metadata = importlib.metadata.requires("roofline")
    wanted = {re.match(r"[\w-]+", line)[0]: line.partition(";")[0].strip() for line in metadata
              if "extra" not in line or "parquet" in line}
    assert wanted.keys() - {"numpy"} <= requirements().keys()
    assert all(requirements()[name] == line for name, line in wanted.items() if name != "numpy")


def test_the_header_has_the_three_commands():
    said = REQUIREMENTS.read_text()
    commands = re.findall(r"^#   (\S.*)$", said, re.M)
    assert commands[:3] == [f"source {chip.tested()[0].venv}/bin/activate",
                            "pip install -r requirements-neuron.txt",
                            "pip install --no-deps -e lib"]
