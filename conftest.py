"""The test lanes: notebooks against their stored text, the built site, Chromium.

Everything here runs on what ships: host measurements replay their recording, so outputs are
the same on every machine.
"""

import functools
import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from filelock import FileLock
from nbval.plugin import IPyNbFile, nocolors

os.environ["ROOFLINE_RECORDED"] = "1"

ROOT = Path(__file__).parent
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, (
    "chromium", "chromium-browser", "google-chrome"))), None)
NO_CHROMIUM = "no Chromium; on Debian: apt install chromium, or name one in $CHROMIUM"
NO_PYODIDE = "no Pyodide; python _ext/pyodide_files.py fetches it from npm"


# --- examples in docstrings ------------------------------------------------------------------

# Kernel files import nki, which only nki.load provides.
collect_ignore_glob = ["day*/kernels.py", "casestudy*/kernels.py"]


# --- notebooks -----------------------------------------------------------------------------


class _AllBut(tuple):
    """nbval's list of what it does not compare, turned round: only what we store is compared."""

    def __contains__(self, key: object) -> bool:
        return key not in self[:]

    def __bool__(self) -> bool:
        return True


COMPARED = _AllBut(("data", "text/plain", "stdout", "stderr", "ename", "evalue"))


class Notebook(IPyNbFile):
    """A notebook as nbval runs it: every cell, in order, against its stored text."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.skip_compare = COMPARED

    def collect(self) -> Iterator[pytest.Item]:
        for item in super().collect():
            # Notebooks are stored without counts; without one nbval would compare nothing.
            item.cell.execution_count = 1
            item.colors = nocolors
            if item.cell.metadata.get("roofline", {}).get("exempt"):
                item.options["check"] = False
            yield item


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".ipynb" and not parent.config.option.nbval:
        return Notebook.from_parent(parent, path=file_path)
    return None


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts us in its background has Ctrl-C ignored, and what tests start inherits it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.option.nbval_current_env = True  # never a kernel that somebody installed elsewhere


# --- the site ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The built book, once for all workers, with warnings as errors; not the reader's _build."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared if worker_id == "master" else shared.parent
    result, output = shared / "site.txt", ROOT / "work" / "site"
    with FileLock(shared / "site.lock"):
        if not result.exists():
            # Warnings come only from pages that are read, so read them all; outputs of
            # cells may stay, coursebook.py drops them when the library changes.
            for part in ("html", ".doctrees"):
                shutil.rmtree(output / "_build" / part, ignore_errors=True)
            done = subprocess.run(
                [sys.executable, str(Path(sys.executable).parent / "jupyter-book"), "build", ".",
                 "--path-output", str(output), "-W", "--keep-going", "-n"],
                cwd=ROOT, capture_output=True, text=True)
            result.write_text("" if done.returncode == 0 else done.stdout + done.stderr)
    if log := result.read_text():
        pytest.fail(f"the book did not build:\n{log[-6000:]}", pytrace=False)
    return output / "_build" / "html"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript"}

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the built site is served, on loopback."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


# --- Chromium ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright. Skips without one; in CI that is a failure."""
    if not CHROMIUM:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[
            "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pyodide() -> None:
    """Pyodide's files are in the environment. Skips without them; in CI that is a failure."""
    import pyodide_files

    if not pyodide_files.folder().is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_PYODIDE)


@dataclass
class Visit:
    """A page that is open, and what went wrong while it was."""

    page: Any
    foreign: list[str] = field(default_factory=list)  # requests that would leave the site
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        return [*(f"leaves the site: {url}" for url in self.foreign),
                *(f"failed: {what}" for what in self.failed),
                *(f"console: {text}" for text in self.errors)]


@pytest.fixture
def visit(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """visit(url, **context): open a page with every request that is not local blocked."""
    contexts = []

    def open_page(url: str, **options: Any) -> Visit:
        context = chromium.new_context(**options)
        contexts.append(context)
        seen = Visit(context.new_page())

        def gate(route: Any) -> None:
            host = urlsplit(route.request.url).hostname
            if route.request.url.startswith(("data:", "blob:", "file:")) or host == "127.0.0.1":
                route.continue_()
            else:
                seen.foreign.append(route.request.url)
                route.abort()

        context.route("**/*", gate)
        # What the browser gives up because the page was left is no failure of the page.
        seen.page.on("requestfailed", lambda r: r.failure == "net::ERR_ABORTED" or
                     seen.failed.append(f"{r.failure} {r.url}"))
        seen.page.on("response", lambda r: r.status >= 400 and
                     seen.failed.append(f"{r.status} {r.url}"))
        seen.page.on("console", lambda m: m.type == "error" and seen.errors.append(m.text))
        seen.page.on("pageerror", lambda e: seen.errors.append(str(e)))
        seen.page.goto(url, wait_until="load")
        return seen

    yield open_page
    for context in contexts:
        context.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", ())
               if NO_CHROMIUM in str(report.longrepr)]
    if skipped:
        terminalreporter.section("THE BROWSER LANE WAS SKIPPED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(skipped)} tests of the pages did not run: {NO_CHROMIUM}")
    without = [report for report in terminalreporter.stats.get("skipped", ())
               if NO_PYODIDE in str(report.longrepr)]
    if without:
        terminalreporter.section("NO CELL RAN INSIDE A PAGE", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(without)} tests of them did not run: {NO_PYODIDE}")
