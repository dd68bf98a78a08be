"""Cells that run inside the page: which are offered, what they give, and how Python gets there."""

import doctest
import hashlib
import http.server
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from base64 import b64encode
from types import SimpleNamespace

import inpage
import pyodide_files
import pytest
import runnable
from pages import ROOT, book_pages
from test_book import AXE, settle

from roofline import loopnest, ops

DAYS = [path for path in book_pages() if path.suffix == ".ipynb"
        and runnable.PAGES.fullmatch(path.relative_to(ROOT).with_suffix("").as_posix())]


def name(path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def stored(cell: dict) -> str:
    """What a cell shows, as its notebook stores it: text, then an error's last line."""
    shown = ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            shown += "".join(output["text"])
        elif output["output_type"] == "error":
            shown += f"{output['ename']}: {output['evalue']}\n"
        else:
            shown += "".join(output["data"]["text/plain"]) + "\n"
    return shown


def wanted() -> dict[str, list[str]]:
    """The stored text of each offered cell of each page."""
    found = {}
    for path in DAYS:
        cells = json.loads(path.read_text())["cells"]
        found[name(path)] = [stored(cells[number]) for number in runnable.offered(path)[1]]
    return found


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "uses", "binds"), [
    ("x = y + 1", {"y"}, {"x"}),
    ("x = x + 1", {"x"}, {"x"}),
    ("x += 1", {"x"}, {"x"}),
    ("x: int = y", {"int", "y"}, {"x"}),
    ("(a, *b), c = d", {"d"}, {"a", "b", "c"}),
    ("for a in b:\n    c = a\nelse:\n    d = c", {"b"}, {"a", "c", "d"}),
    ("for a in a:\n    pass", {"a"}, {"a"}),
    ("with f() as g:\n    g.h", {"f"}, {"g"}),
    ("[a * b for a in c if a > d]", {"b", "c", "d"}, set()),
    ("{a: b for a in c for b in a}", {"c"}, set()),
    ("[a for a in a]", {"a"}, set()),
    ("def f(a, b=c, *d, e=g, **h):\n    i = a\n    return i + j", {"c", "g", "j"}, {"f"}),
    ("def f(n):\n    return f(n - 1)", set(), {"f"}),
    ("f = lambda a, b=c: a + d", {"c", "d"}, {"f"}),
    ("class A(B):\n    c = d\n    e = c", {"B", "d"}, {"A"}),
    ("@a\ndef f(): pass", {"a"}, {"f"}),
    ("print(a := b, a)", {"print", "b"}, {"a"}),
    ("a[i] = b", {"a", "i", "b"}, {"a"}),
    ("a.b.c = d", {"a", "d"}, {"a"}),
    ("a.append(b)", {"a", "b"}, {"a"}),
    ("a.show(b)", {"a", "b"}, set()),
    ("import a.b, c as d", set(), {"a", "d"}),
    ("from a import b as c", set(), {"c"}),
    ("f'{a:{b}} {c!r}'", {"a", "b", "c"}, set()),
])
def test_names_that_a_statement_uses_and_binds(source, uses, binds):
    reader = inpage.Reader()
    for node in inpage.ast.parse(source).body:
        reader.visit(node)
    assert (reader.uses, reader.binds) == (uses, binds)


@pytest.mark.parametrize("module", [inpage, pyodide_files], ids=lambda module: module.__name__)
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


def lines(page: inpage.Page, place: int) -> list[str]:
    return [inpage.ast.unparse(step.node) for step in page.before(place)]


def test_what_a_cell_needs_is_what_bound_its_names_last():
    page = inpage.Page(["a, b = 1, 2\nc = 5", "a = 3", "xs = [b]", "xs.append(a)", "xs", "a = 9"])
    assert lines(page, 4) == ["b = 2", "a = 3", "xs = [b]", "xs.append(a)"]
    assert page.earlier(4) == [0, 1, 2, 3]
    assert lines(page, 5) == []


def test_what_only_may_bind_leaves_the_earlier_one():
    page = inpage.Page(["a = 1", "if print():\n    a = 2", "a"])
    assert lines(page, 2) == ["a = 1", "if print():\n    a = 2"]


@pytest.mark.parametrize(("cells", "runs"), [
    (["import numpy as np\na = 1", "a", "np.pi"], [True, True, False]),
    (["from roofline import ops, plot", "ops", "plot"], [False, True, False]),
    (["from roofline.plot import Point\np = Point\nq = 1", "p", "q"], [False, False, True]),
    (["core, chip = 1, nki.chip()", "core", "chip"], [False, True, False]),
    (["import math", "math.pi", "nobody"], [False, True, False]),
    (["def f():\n    return g()\ndef g():\n    return 1", "f()"], [True, True]),
    (["%matplotlib inline", "1"], [False, True]),
])
def test_cells_that_lack_nothing_run(cells, runs):
    page = inpage.Page(cells)
    assert [page.runs(place) for place in range(len(cells))] == runs


# --- running ---------------------------------------------------------------------------------


def ran(*cells: str) -> tuple[str, list[str]]:
    """What the last of these cells prints, and its error's lines."""
    shown: list[str] = []
    error = inpage.Page(cells).run(len(cells) - 1, shown.append)
    return "".join(shown), error


def test_a_run_shows_what_is_printed_and_the_last_value():
    assert ran("a = 2\nprint('never here')", "print(a)\na * 3") == ("2\n6\n", [])
    assert ran("print(1)\nNone") == ("1\n", [])
    assert ran("a = 1") == ("", [])


def test_a_run_leaves_nothing_behind():
    page = inpage.Page(["xs = []", "xs.append(1)\nxs"])
    for _ in range(2):
        shown: list[str] = []
        assert page.run(1, shown.append) == [] and "".join(shown) == "[1]\n"


def test_a_wrong_answer_prints_the_courses_words_alone():
    start = 'from roofline import ask\nq = ask("day1.overlap_2x")'
    shown, error = ran(start, "q.check(ratio=1.4, most=3)")
    assert shown == "" and len(error) >= 2 and not any("Traceback" in line for line in error)
    assert error[0] == "ratio: right." and error[1].startswith("most: not yet, too large.")
    assert ran(start, "q.check(ratio=1.4, most=2, where='ridge')")[1] == []


@pytest.mark.parametrize(("cells", "error"), [
    (["1 / 0"], ["ZeroDivisionError (line 1 of the cell): division by zero"]),
    (["def f():\n    return [][1]\n\nf()"],
     ["IndexError (line 2 of the cell): list index out of range"]),
    (["raise SystemExit"], ["SystemExit (line 1 of the cell)"]),
    (["a = 1\n\nb ="], ["SyntaxError (line 3 of the cell: b =): invalid syntax"]),
    (["from roofline import ops\nops.Matmul(M=0, K=1, N=1)"],
     ["ShapeError: Matmul: M: expected a whole number >= 1, got 0"]),
])
def test_an_error_is_short(cells, error):
    assert ran(*cells) == ("", error)


def test_an_error_of_an_earlier_cell_says_which():
    shown, error = ran("\nx = 1 / 0", "x")
    assert shown == "" and error == [
        "The earlier cell that begins `x = 1 / 0` stopped, and this one needs it:",
        "ZeroDivisionError (line 2 of the cell): division by zero"]
    assert ran("x = 1 / 0", "2") == ("2\n", [])
    assert ran("x = (", "2")[1][0].startswith("The earlier cell that begins `x = (` is no Python")


def test_what_is_not_in_a_page_is_named():
    _, error = ran("from roofline import nki", "k = nki.load('kernels.py')", "k.add")
    assert "rests on roofline.nki, which does not run inside a page" in error[1]
    _, error = ran("nobody")
    assert error[1] == "A name comes from this cell or from the cells above it."
    _, error = ran("def f():\n    import numpy_is_not_here\nf()")
    assert "runs in JupyterLab" in error[1]
    page = inpage.Page(["from roofline import ops, plot\nops.Add(n=2).algorithmic.flops"])
    shown: list[str] = []
    assert page.left_out(0) == ["roofline.plot"]
    assert page.run(0, shown.append) == [] and "".join(shown) == "2\n"


def test_endless_printing_is_cut():
    shown, error = ran(f"print('x' * {inpage.MOST + 5})\nprint('y')")
    assert error == []
    assert shown == "x" * inpage.MOST + "\n... cut here: a page shows 100,000 characters of a cell"


# --- the pages' cells without NumPy ----------------------------------------------------------


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A folder with what a page has: course.zip, unpacked."""
    folder = tmp_path_factory.mktemp("course")
    zipfile.ZipFile(io.BytesIO(runnable.library())).extractall(folder)
    return folder


def bare(course, script: str, data: object) -> object:
    """What `script` prints as JSON, in a Python that has the standard library and course.zip."""
    start = f"import sys, json; sys.path.insert(0, {str(course)!r}); data = json.load(sys.stdin)\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", start + script], text=True,
                          input=json.dumps(data), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_zip_has_no_numpy_and_needs_none(course):
    script = """
import importlib, inpage
for name in inpage.CORE: importlib.import_module("roofline." + name)
try:
    import numpy
except ModuleNotFoundError:
    print(json.dumps(sorted(sys.modules)))
"""
    assert set(bare(course, script, 0)) >= {f"roofline.{part}" for part in inpage.CORE}


def test_each_offered_cell_gives_its_stored_text(course):
    """As a page runs it: alone, after what it needs."""
    pages = {name(path): (runnable.offered(path)[0], list(runnable.offered(path)[1].values()))
             for path in DAYS}
    script = """
import inpage
found = {}
for name, (cells, places) in data.items():
    found[name] = []
    for place in places:
        shown = []
        error = inpage.Page(cells).run(place, shown.append)
        found[name].append("".join(shown) + "".join(line + "\\n" for line in error))
print(json.dumps(found))
"""
    assert bare(course, script, pages) == wanted()


# An oracle that reads no names: all cells in order, in one namespace. What cannot be imported is
# bound to an object that notes when it is touched, and gives itself for whatever is asked of it.
IN_ORDER = r"""
import ast, contextlib, io
from IPython.lib.pretty import pretty
touched = False
class Absent:
    def note(self, *args, **kwargs):
        global touched
        touched = True
        return self
    __getattr__ = __getitem__ = __call__ = __enter__ = note
    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = note
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = note
    def __setitem__(self, *pair): self.note()
    def __exit__(self, *error): self.note()
    def __iter__(self): return iter([self.note()])
    def __bool__(self): return bool(self.note() and 0)
    def __repr__(self): return self.note() and "" or ""
    __str__ = __repr__
    def __format__(self, spec): return repr(self)
    __hash__ = object.__hash__

found = {}
for name, cells in data.items():
    scope, found[name] = {}, []
    for cell in cells:
        touched, out, last = False, io.StringIO(), None
        body = ast.parse(cell).body
        if body and isinstance(body[-1], ast.Expr):
            last = body.pop()
        try:
            with contextlib.redirect_stdout(out):
                for node in body:
                    if isinstance(node, ast.Import | ast.ImportFrom):
                        for alias in node.names:
                            one = (ast.ImportFrom(node.module, [alias], node.level)
                                   if isinstance(node, ast.ImportFrom) else ast.Import([alias]))
                            try:
                                exec(ast.unparse(one), scope)
                            except ImportError:
                                scope[alias.asname or alias.name] = Absent()
                    else:
                        exec(ast.unparse(node), scope)
                if last:
                    value = eval(ast.unparse(last), scope)
                    if value is not None:
                        print(pretty(value))
        except Exception as error:
            lines = getattr(error, "_render_traceback_", None)
            out.write("\n".join(lines() if lines else [repr(error)]) + "\n")
        found[name].append([touched, out.getvalue()])
print(json.dumps(found))
"""


def test_the_offered_cells_are_those_that_run_in_order_without_numpy(course):
    cells = {name(path): [cell for _, cell in runnable.code_cells(path)] for path in DAYS}
    got = bare(course, IN_ORDER,
               {page: [cell["source"] for cell in page_cells]
                for page, page_cells in cells.items()})
    for path in DAYS:
        page = name(path)
        expected = [cell["id"] for cell, (touched, text) in zip(cells[page], got[page], strict=True)
                    if not touched and text == stored(cell) and runnable.shown(cell)
                    and any(not line.startswith(("import ", "from ", " ", "#"))
                            for line in cell["source"].splitlines() if line)]
        places = runnable.offered(path)[1]
        assert [cell["id"] for number, cell in runnable.code_cells(path)
                if number in places] == expected, page


def test_the_days_have_cells_that_run():
    assert {name(path).split("/")[0] for path in DAYS if runnable.offered(path)[1]} == {
        "day1", "day2", "day3", "day5"}
    assert sum(len(runnable.offered(path)[1]) for path in DAYS) > 100


# --- npm's package ---------------------------------------------------------------------------


def package(names=pyodide_files.FILES) -> bytes:
    """A package with these files, and one that nobody asked for outside its folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file in (*(f"package/{name}" for name in names), "../escaped"):
            info = tarfile.TarInfo(file)
            info.size = len(file)
            tar.addfile(info, io.BytesIO(file.encode()))
    return packed.getvalue()


def integrity(body: bytes) -> str:
    return "sha512-" + b64encode(hashlib.sha512(body).digest()).decode()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """registry.answer(body, status): npm's registry on loopback; registry.asked: the paths."""
    said = SimpleNamespace(body=b"", status=200, length=None, asked=[])

    class Registry(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            said.asked.append(self.path)
            self.send_response(said.status)
            self.send_header("Content-Length", str(said.length or len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    for variable in [each for each in os.environ if each.lower() == "npm_config_registry"]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(pyodide_files, "folder", lambda: tmp_path / "share/pyodide/1")
    yield said
    server.shutdown()
    server.server_close()


def kept(tmp_path) -> list[str]:
    return sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")
                  if path.is_file())


def test_the_package_is_fetched_once_and_only_what_is_needed_of_it(registry, tmp_path):
    registry.body = package()
    for _ in range(2):
        pyodide_files.fetch(integrity(registry.body))
    assert registry.asked == [f"/pyodide/-/pyodide-{pyodide_files.VERSION}.tgz"]
    assert kept(tmp_path) == sorted(f"share/pyodide/1/{file}" for file in pyodide_files.FILES)
    for file in pyodide_files.FILES:
        assert (pyodide_files.folder() / file).read_text() == f"package/{file}"


@pytest.mark.parametrize(("change", "why"), [
    (lambda r: setattr(r, "body", package(pyodide_files.FILES[::-1])), "expected the package"),
    (lambda r: setattr(r, "body", r.body[:-20]), "expected the package"),
    (lambda r: (setattr(r, "length", len(r.body)), setattr(r, "body", r.body[:-20])),
     "expected the package"),
    (lambda r: setattr(r, "body", b""), "expected the package"),
    (lambda r: setattr(r, "status", 404), "answered 404"),
    (lambda r: setattr(r, "body", bytes(pyodide_files.MOST + 1)), "got more"),
], ids=["another package", "cut off", "connection lost", "empty", "not there", "far too large"])
def test_what_is_not_the_package_is_refused_and_nothing_is_kept(registry, tmp_path, change, why):
    registry.body = package()
    right = integrity(registry.body)
    change(registry)
    with pytest.raises(pyodide_files.NotFetched, match=why):
        pyodide_files.fetch(right)
    assert kept(tmp_path) == []


def test_a_package_without_a_needed_file_is_refused(registry, tmp_path):
    registry.body = package(pyodide_files.FILES[1:])
    with pytest.raises(pyodide_files.NotFetched, match=r"has no pyodide\.mjs"):
        pyodide_files.fetch(integrity(registry.body))
    assert kept(tmp_path) == []


def test_without_the_registry_one_line_says_what_that_means(registry, monkeypatch, capsys):
    with socket.socket() as taken:  # bound and not listening: nobody else answers there
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{taken.getsockname()[1]}")
        assert pyodide_files.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1 and "no cell runs inside a page" in said[0] \
        and "cannot be reached" in said[0]


# --- the build -------------------------------------------------------------------------------


def page_of(folder, monkeypatch) -> tuple[str, list[str]]:
    """What the extension adds to a page's head, with Pyodide's files at `folder`."""
    monkeypatch.setattr(pyodide_files, "folder", lambda: folder)
    config, scripts, context = SimpleNamespace(), [], {}
    path = next(path for path in DAYS if path.stem == "reuse")
    app = SimpleNamespace(config=config, env=SimpleNamespace(doc2path=lambda _: str(path)),
                          add_js_file=lambda file, **_: scripts.append(file))
    runnable._config(app, config)
    runnable._page(app, name(path), "", context, object())
    return context.get("metatags", ""), scripts


def test_without_pyodide_a_page_is_as_it_was(tmp_path, monkeypatch):
    assert page_of(tmp_path / "none", monkeypatch) == ("", [])


def test_no_code_of_a_cell_becomes_markup(tmp_path, monkeypatch):
    monkeypatch.setattr(runnable, "offered", lambda path: (["a = '</script><b>'"], {3: 0}))
    monkeypatch.setattr(runnable, "size", lambda: 1)
    head, scripts = page_of(tmp_path, monkeypatch)
    assert head.count("<") == 2 and scripts == ["run.js"]
    data = json.loads(head.partition(">")[2].rpartition("<")[0])
    assert data["cells"] == ["a = '</script><b>'"] and data["places"] == [0]


def test_a_built_page_marks_the_cells_it_offers(pyodide, site):
    for path in DAYS:
        text = (site / f"{name(path)}.html").read_text()
        data = re.search(r'<script type="application/json" id="rl-cells">(.*?)</script>', text)
        places = json.loads(data[1])["places"] if data else []
        assert len(re.findall(r'class="[^"]*\brl-runs\b', text)) == len(places), path
        assert len(places) == len(runnable.offered(path)[1]), path


# --- in Chromium -----------------------------------------------------------------------------


RUN_ALL = """async ({script, library, pages}) => {
  const worker = new Worker(script, {type: "module"});
  const found = {};
  let text = "", done;
  worker.onerror = (event) => done({failed: event.message});
  worker.onmessage = ({data}) => {
    if (data.what === "text") text += data.text;
    if (data.what === "done") done(text + data.error.map((line) => line + "\\n").join(""));
    if (data.what === "failed") done({failed: data.why});
  };
  worker.postMessage({library, bytes: 1});
  for (const [name, [cells, places]] of Object.entries(pages)) {
    found[name] = [];
    for (const place of places) {
      text = "";
      const ended = new Promise((resolve) => { done = resolve; });
      worker.postMessage({cells, place});
      found[name].push(await ended);
    }
  }
  worker.terminate();
  return found;
}"""


def test_each_offered_cell_gives_its_stored_text_in_the_browser(pyodide, address, visit):
    """In the browser's own Python: another version of it, on another machine."""
    seen = visit(f"{address}/day5/reuse.html")
    pages = {name(path): (runnable.offered(path)[0], list(runnable.offered(path)[1].values()))
             for path in DAYS}
    found = seen.page.evaluate(RUN_ALL, {
        "script": f"{address}/_static/run.worker.mjs", "pages": pages,
        "library": f"course.zip?v={runnable.version()}"})
    assert found == wanted()
    assert not seen.complaints


class Cell:
    """A cell of the page as a reader handles it."""

    def __init__(self, page, number: int) -> None:
        self.page, self.box = page, page.locator(".rl-runs").nth(number)
        self.status = self.box.locator(".rl-run-status")
        self.code = self.box.locator("textarea")

    def button(self, text: str):
        return self.box.locator(".rl-run button", has_text=text)

    def ended(self) -> str:
        self.page.wait_for_function(
            "(e) => /^(Ran|It stopped)/.test(e.textContent)",
            arg=self.status.element_handle(), timeout=120_000)
        return self.status.inner_text()

    @property
    def shown(self) -> str:
        return "\n".join(self.box.locator(".rl-run-out pre").all_inner_texts()).rstrip("\n")


def test_a_reader_runs_edits_and_stops_cells(pyodide, address, visit):
    seen = visit("about:blank")
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    seen.page.goto(f"{address}/day5/reuse.html")
    page = seen.page
    settle(page)
    page.wait_for_load_state("networkidle")
    assert page.locator(".rl-run").count() == page.locator(".rl-runs").count() > 30
    assert page.locator(".rl-run-code").count() == 0
    assert not [url for url in asked if "/python/" in url or "worker" in url]

    # The first click starts Python, runs the cell, and opens its code.
    nest = Cell(page, 0)
    assert nest.button("Run here").get_attribute("aria-label").startswith("Run here: matmul")
    nest.button("Run here").focus()
    page.keyboard.press("Enter")
    assert nest.ended().endswith("what it needs of 1 earlier cell ran first.")
    matmul = ops.Matmul(M=1280, K=1024, N=1536)
    assert nest.shown == repr(loopnest.Nest(matmul, "m128 n512 C k128 A B"))
    assert [url for url in asked if url.endswith("pyodide.mjs")]

    # Its code is edited; Tab and Escape leave it, Ctrl and Enter run it.
    nest.code.fill(nest.code.input_value().replace("M=1280", "M=2560"))
    nest.code.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    nest.code.focus()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Run"
    nest.code.focus()
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.rl-run-out')?.innerText.includes('2560')")
    nest.ended()
    larger = loopnest.Nest(ops.Matmul(M=2560, K=1024, N=1536), "m128 n512 C k128 A B")
    assert nest.shown == repr(larger)

    # A later cell takes the edited one.
    count = Cell(page, 1)
    count.button("Run here").click()
    assert count.ended().endswith("earlier cells ran first, 1 of them as you edited it.")
    assert count.shown.splitlines()[-1] == repr(larger.achieved)

    # Errors are short: the course's own, Python's, an unknown tensor, a question.
    for code, error in [
        ('loopnest.Nest(matmul, "m128 q7")', "NestError: "),
        ("matmul.nothing", "AttributeError (line 1 of the cell): "),
        ("def f():\n    return f()\nf()", "RecursionError (line 2 of the cell): "),
        ('ask("day1.overlap_2x").check(ratio=1.4, most=3)', "ratio: right.\nmost: not yet"),
    ]:
        count.code.fill(code)
        count.button("Run").click()
        assert count.ended().startswith("It stopped")
        assert count.shown.startswith(error) and len(count.shown.splitlines()) <= 4, count.shown
    count.code.fill('ask("day1.overlap_2x").check(ratio=1.4, most=2, where="ridge")')
    count.button("Run").click()
    page.wait_for_function("(e) => e.textContent.startsWith('Ran')",
                           arg=count.status.element_handle())

    # A loop without end is stopped; what is lost is said, the code stays, the next run works.
    count.code.fill("print('so far')\nwhile True:\n    pass")
    count.button("Run").click()
    count.button("Stop").wait_for()
    count.box.locator(".rl-run-out pre", has_text="so far").wait_for()
    assert nest.button("Run").get_attribute("aria-disabled") == "true"
    count.button("Stop").focus()
    page.keyboard.press("Enter")
    assert "is lost, and Python with it; your code stays" in count.status.inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Run"
    count.code.fill("6 * 7")
    count.button("Run").click()
    assert count.ended().startswith("Ran") and count.shown == "42"

    # Open cells are accessible, fit a phone, and are not printed: the page's own code is.
    page.evaluate(AXE)
    for theme in ("dark", "light"):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        bad = page.evaluate("() => axe.run('.rl-run-open').then((r) => r.violations)")
        assert [v["id"] for v in bad if v["impact"] in ("serious", "critical")] == [], bad
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.emulate_media(media="print")
    own = count.box.locator(".highlight pre").first
    assert own.is_visible() and not count.code.is_visible()
    assert not page.locator(".rl-run:visible, .rl-run-out:visible, .rl-run-hint:visible").count()
    page.emulate_media(media="screen")

    # Reset gives the page's own cell back.
    nest.button("Reset").click()
    assert nest.code.count() == 0 and nest.shown == ""
    assert nest.box.locator(".highlight pre").first.is_visible()
    assert not seen.complaints


def test_without_its_files_a_click_says_so_and_the_page_goes_on(pyodide, address, visit):
    seen = visit("about:blank")
    seen.page.route("**/_static/python/*", lambda route: route.fulfill(status=404))
    seen.page.goto(f"{address}/day5/reuse.html")
    cell = Cell(seen.page, 0)
    for text in ("Run here", "Run"):
        cell.button(text).click()
        cell.status.filter(has_text="could not be loaded from this site").wait_for()
    assert cell.button("Run").get_attribute("aria-disabled") is None
    assert seen.failed and all("/_static/python/" in what for what in seen.failed)


def test_from_disk_a_word_says_where_cells_run(pyodide, site, visit):
    page = visit((site / "day5/reuse.html").as_uri()).page
    assert page.locator(".rl-run").count() == 0
    assert page.locator(".rl-run-note").all_inner_texts() == [
        "Cells of this page can be edited and run where the site is served "
        "(python3 course.py serve), and in JupyterLab (python3 course.py lab)."]


def test_without_script_nothing_is_shown(pyodide, address, visit):
    page = visit(f"{address}/day5/reuse.html", java_script_enabled=False).page
    assert page.locator(".rl-runs").count() > 30
    assert page.locator(".rl-run, .rl-run-note").count() == 0
