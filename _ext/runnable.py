"""Cells that run inside the page, where the reader asks for it.

Question  which cells can a reader edit and run in the built page, and with what?
Answer    those of PAGES that need only the library's plain-Python part; the page gets its cells
          as data and assets/run.js, the site a folder _static/python/: Pyodide and course.zip
Assumes   pyodide_files.py has fetched Pyodide; where it could not, pages are as they were
Ignores   how a cell is run: assets/run.js, assets/run.worker.mjs and, in Python, inpage.py

None of the folder's 7 MB is loaded before a reader's click.
"""

import gzip
import hashlib
import importlib.metadata
import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import IPython.lib.pretty
import pyodide_files
from docutils import nodes
from inpage import CORE, Page
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parent.parent
LIB = ROOT / "lib" / "roofline"
PAGES = re.compile(r"day[1235]/\w+")
FOLDER = "_static/python"
NOTICE = f"""\
pyodide.mjs, pyodide.asm.mjs, pyodide.asm.wasm.gz, python_stdlib.zip, pyodide-lock.json:
Pyodide {pyodide_files.VERSION}, as in the npm package `pyodide`, under the Mozilla Public License
2.0; its source is at https://github.com/pyodide/pyodide. The .wasm file is packed, and the lock
file lists no packages. They hold CPython and its standard library, under the PSF licence.

course.zip: the course's own library, under Apache-2.0, and IPython's lib/pretty.py, under the
BSD licence in the zip.
"""


# --- which cells -----------------------------------------------------------------------------


def shown(cell: dict[str, Any]) -> bool:
    """Whether the page shows this code cell's code: no form, no folded answer, not removed."""
    tags = {"remove-cell", "remove-input", "worked"} & set(cell["metadata"].get("tags", []))
    return not tags and not cell["metadata"].get("roofline", {}).get("form")


def code_cells(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """A notebook's code cells, each with its number among all cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(number, {**cell, "source": "".join(cell["source"])})
            for number, cell in enumerate(cells) if cell["cell_type"] == "code"]


def offered(path: Path) -> tuple[list[str], dict[int, int]]:
    """The sources that a page needs to run its cells, and {number of an offered cell: its place
    among the sources}. Cells whose output is not compared are not offered.
    """
    cells = [(number, cell) for number, cell in code_cells(path)]
    whole = Page([cell["source"] for _, cell in cells])
    runs = [place for place, (_, cell) in enumerate(cells)
            if shown(cell) and not cell["metadata"].get("roofline", {}).get("exempt")
            and whole.runs(place)]
    if not runs:
        return [], {}
    needed = {step.cell for place in runs for step in whole.before(place)}
    kept = [place for place, (_, cell) in enumerate(cells[:runs[-1] + 1])
            if shown(cell) or place in needed]
    return ([cells[place][1]["source"] for place in kept],
            {cells[place][0]: kept.index(place) for place in runs})


def _mark(app: Sphinx, doctree: nodes.document) -> None:
    """Give the containers of offered cells the class by which the script finds them."""
    path = _notebook(app, app.env.docname)
    if not path:
        return
    places = offered(path)[1]
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and cell.get("cell_index") in places:
            cell["classes"].append("rl-runs")


def _notebook(app: Sphinx, docname: str) -> Path | None:
    path = Path(app.env.doc2path(docname))
    return path if PAGES.fullmatch(docname) and path.suffix == ".ipynb" else None


def _page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    """The page's cells as data in its head, and the script that reads them."""
    path = _notebook(app, pagename) if doctree and app.config.course_runs else None
    sources, places = offered(path) if path else ([], {})
    if not places:
        return
    data = {"cells": sources, "places": list(places.values()),
            "bytes": size(), "megabytes": round(size() / 1e6),
            "library": f"course.zip?v={version()}"}
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    context["metatags"] = (f"{context.get('metatags', '')}\n"
                           f'<script type="application/json" id="rl-cells">{text}</script>')
    app.add_js_file("run.js", loading_method="defer")


# --- with what -------------------------------------------------------------------------------


def _plain() -> Iterator[tuple[str, bytes]]:
    """The library's plain-Python part, the runner, and how a notebook lays out a value."""
    found = [LIB / "__init__.py", *LIB.glob("*.toml")]
    for name in CORE:
        found += LIB.glob(f"{name}.py")
        found += (LIB / name).rglob("*.py")
    for path in found:
        yield path.relative_to(LIB.parent).as_posix(), path.read_bytes()
    yield "inpage.py", Path(__file__).with_name("inpage.py").read_bytes()
    yield "IPython/__init__.py", b""
    yield "IPython/lib/__init__.py", b""
    yield "IPython/lib/pretty.py", Path(IPython.lib.pretty.__file__).read_bytes()
    licence = importlib.metadata.distribution("ipython").read_text("licenses/LICENSE")
    yield "IPython/LICENSE", (licence or "").encode()


@cache
def library() -> bytes:
    """course.zip, the same bytes from the same files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, body in sorted(_plain()):
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body,
                         zipfile.ZIP_DEFLATED)
    return packed.getvalue()


@cache
def version() -> str:
    return hashlib.sha256(library()).hexdigest()[:8]


@cache
def _python() -> dict[str, bytes]:
    """Pyodide's files as the site has them: those that are not yet packed, packed."""
    source = pyodide_files.folder()
    files = {name: (source / name).read_bytes() for name in pyodide_files.FILES}
    files["pyodide.asm.wasm.gz"] = gzip.compress(files.pop("pyodide.asm.wasm"), 9, mtime=0)
    lock = json.loads(files["pyodide-lock.json"])
    # Packages would come from elsewhere; without the list none is asked for.
    files["pyodide-lock.json"] = json.dumps(lock | {"packages": {}}).encode()
    return files


@cache
def size() -> int:
    """Bytes that a first click loads."""
    return sum(map(len, _python().values())) + len(library())


def _config(app: Sphinx, config: Any) -> None:
    config.course_runs = pyodide_files.VERSION if pyodide_files.folder().is_dir() else ""
    if not config.course_runs:
        logging.getLogger(__name__).info(
            "no cell runs inside a page: Pyodide is not here (python _ext/pyodide_files.py)")


def _files(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    shutil.rmtree(folder, ignore_errors=True)
    if app.config.course_runs:
        folder.mkdir(parents=True)
        for name, body in (_python() | {"course.zip": library(),
                                        "NOTICE.txt": NOTICE.encode()}).items():
            (folder / name).write_bytes(body)


def setup(app: Sphinx) -> dict[str, Any]:
    # Pages are written again when Pyodide comes or goes.
    app.add_config_value("course_runs", "", "html")
    app.connect("config-inited", _config)
    app.connect("doctree-read", _mark)
    app.connect("html-page-context", _page)
    app.connect("build-finished", _files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
