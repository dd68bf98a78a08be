#!/usr/bin/env python3
"""Set up, build, read and test the course. Needs Python 3.11 to 3.13 and nothing else.

  python3 course.py serve     set up, build the book, serve it at http://127.0.0.1:8000/
  python3 course.py test      set up, run every test (arguments go to pytest: test -k units)
  python3 course.py lab       JupyterLab on copies of the notebooks in work/lab/
  python3 course.py build     the book only, into _build/html
  python3 course.py pdf       the whole book for paper (needs Chromium; --paper A4 or Letter)
  python3 course.py workshop  all that an instructor needs, in work/workshop/ (or one PART of it)
  python3 course.py refresh   run every notebook and rewrite its stored outputs
  python3 course.py fuzz      the long random tests
  python3 course.py bench     the benchmarks
  python3 course.py clean     remove the environment and everything built; keeps work/

Runs on Linux; macOS is untried. Everything lands in this folder: .venv/, _build/, work/.
"""

from __future__ import annotations  # so that an older Python gets as far as saying so

import argparse
import contextlib
import errno
import fcntl
import functools
import hashlib
import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
SITE = ROOT / "_build" / "html"
LOG = ROOT / "_build" / "log.txt"
START = time.monotonic()


class Stop(Exception):
    """What went wrong and what to do about it, for the person at the terminal."""


def say(text: str) -> None:
    print(f"[{time.monotonic() - START:5.1f} s] {text}", flush=True)


def run(*command: str | Path, show: Callable[[str], None] | None = None) -> int:
    """Run a command in the course's folder; `show` gets its lines, LOG keeps all of them."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    env |= {"VIRTUAL_ENV": str(VENV), "PYTHONUNBUFFERED": "1"}
    if show is None:
        return subprocess.run([str(c) for c in command], cwd=ROOT, env=env).returncode
    LOG.parent.mkdir(exist_ok=True)
    with open(LOG, "a", encoding="utf-8") as log, subprocess.Popen(
        [str(c) for c in command], cwd=ROOT, env=env, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:
        for line in process.stdout or ():
            line = re.sub(r"\x1b\[[\d;]*m", "", line)  # colours
            log.write(line)
            show(line.rstrip())
    return process.returncode


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One course.py at a time sets up or builds; a second one waits."""
    with open(ROOT / "course.py") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another course.py is at work here; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- environment ---------------------------------------------------------------------------


def set_up() -> None:
    """Make .venv hold what requirements.txt says, for this Python, in this folder."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise Stop(f"the course needs Python 3.11, 3.12 or 3.13; this is {sys.version.split()[0]}."
                   "\nTry: python3.12 course.py ...")
    requirements = (ROOT / "requirements.txt").read_text()
    key = hashlib.sha256("\n".join(
        [requirements, (ROOT / "lib/pyproject.toml").read_text(), sys.version, str(ROOT)]
    ).encode()).hexdigest()
    stamp = VENV / "course-stamp"
    if stamp.exists() and stamp.read_text() == key:
        return
    LOG.unlink(missing_ok=True)
    if not _same_python():
        say("making a private environment in .venv")
        if not importlib.util.find_spec("ensurepip"):
            raise Stop("this Python cannot make environments. On Debian or Ubuntu:\n"
                       "  apt install python3-venv")
        if run(sys.executable, "-m", "venv", "--clear", VENV, show=lambda line: None):
            raise Stop(f"python -m venv failed. On Debian or Ubuntu: apt install python3-venv."
                       f"\nThe log is in {LOG}")
    stamp.unlink(missing_ok=True)
    uv = re.findall(r"^uv==\S+", requirements, re.M)
    say("installing the packages of requirements.txt (about 1 GB of disk)")
    pip = (PYTHON, "-m", "pip", "install", "--disable-pip-version-check")
    quiet: Callable[[str], None] = lambda line: None  # noqa: E731
    if run(*pip, "-q", *uv, show=quiet) or \
            run(PYTHON, "-m", "uv", "pip", "install", "-r", "requirements.txt", show=quiet):
        say("uv did not work here; installing with pip, which takes a minute longer")
        if run(*pip, "-r", "requirements.txt", show=quiet):
            raise Stop(_why_install_failed())
    stamp.write_text(key)
    say("environment ready")


def _same_python() -> bool:
    """Whether .venv runs, and runs this version of Python."""
    ask = "import sys; print(sys.version, sys.prefix, sep='|')"
    with contextlib.suppress(OSError):
        done = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True)
        return done.stdout.strip() == f"{sys.version}|{VENV}"
    return False


def _why_install_failed() -> str:
    tail = LOG.read_text(encoding="utf-8", errors="replace")[-8000:]
    if "No space left" in tail or shutil.disk_usage(ROOT).free < 1e9:
        return f"the disk is full: free about 2 GB at {ROOT}, then run this again"
    if re.search(r"resolution|Connection|connect|Network|timed out|dns", tail):
        return f"the packages could not be fetched: check the network or HTTPS_PROXY. Log: {LOG}"
    return f"the packages did not install. The log is in {LOG}; its last lines:\n" \
        + "\n".join(tail.splitlines()[-5:])


# --- commands ------------------------------------------------------------------------------


def build() -> None:
    """The book in _build/html; a second build does what changed."""
    say("building the book")
    LOG.unlink(missing_ok=True)
    problems: list[str] = []

    def show(line: str) -> None:
        if re.search(r"(WARNING|ERROR|CRITICAL):|^\w+(\.\w+)*(Error|Exception):", line):
            problems.append(line.replace(f"{ROOT}/", ""))
        elif page := re.search(r"(reading sources|writing output)\S* \[ *(\d+)%\] (\S+)", line):
            say(f"  {page[1].split()[0]} {page[3]} ({page[2]} %)")
        elif page := re.search(r"(\S+): Executing notebook", line):
            say(f"  running the cells of {Path(page[1]).relative_to(ROOT)}")

    if run(PYTHON, VENV / "bin" / "jupyter-book", "build", ".", "-W", "--keep-going", "-n",
           show=show) or not (SITE / "index.html").exists():
        shutil.rmtree(SITE.parent / ".doctrees", ignore_errors=True)  # so the next build repeats it
        full = "the disk is full: free about 2 GB, then run this again\n" \
            if shutil.disk_usage(ROOT).free < 2e8 else ""
        raise Stop("the book did not build.\n" + full
                   + (_failed_cells() or "\n".join(problems[:10])) + f"\nThe log is in {LOG}")
    say(f"the book is in {SITE.relative_to(ROOT)}")


def _failed_cells() -> str:
    """Which cell of which notebook failed, from the reports of the execution."""
    found = []
    for report in sorted((SITE / "reports").rglob("*.err.log")):
        if report.stat().st_mtime > time.time() - (time.monotonic() - START):
            text = re.sub(r"\x1b\[[\d;]*m", "", report.read_text(errors="replace"))
            cell = re.search(r"-{10,}\n(.*?)\n-{10,}", text, re.S)
            first = cell[1].strip().splitlines()[0] if cell else "?"
            name = report.relative_to(SITE / "reports").as_posix().removesuffix(".err.log")
            found.append(f"{name}.ipynb: the cell that begins `{first}` failed:\n"
                         f"  {text.strip().splitlines()[-1]}\n  all of it: {report}")
    return "\n".join(found)


class Pages(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript", ".wasm": "application/wasm"}

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(port: int) -> None:
    """The built book on loopback, at `port` or the next free one."""
    for candidate in range(port, port + 50):
        try:
            server = http.server.ThreadingHTTPServer(
                ("127.0.0.1", candidate), functools.partial(Pages, directory=str(SITE)))
            break
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    else:
        raise Stop(f"ports {port} to {port + 49} are all taken; name another: serve --port 9000")
    say(f"the book: http://127.0.0.1:{server.server_port}/   (Ctrl-C stops it)")
    server.serve_forever()


def lab(port: int, *pages: str) -> None:
    """JupyterLab on copies, so that reading never changes the course's own files."""
    folder = ROOT / "work" / "lab"
    say(f"copying the notebooks to {folder.relative_to(ROOT)}")
    for kept in copy_pages(folder):
        say(f"  kept your {kept}; the course's own has changed since (delete yours to get it)")
    opened = [folder / f"{page.removesuffix('.ipynb')}.ipynb" for page in pages]
    if not all(path.is_file() for path in opened):
        raise Stop(f"no page {pages[0]}; a page is named as in the book's addresses: day5/reuse")
    run("env", f"JUPYTER_CONFIG_PATH={ROOT / '_jupyter'}",  # loopback; nothing asks the network
        PYTHON, "-m", "jupyterlab", f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}",
        *(["--allow-root"] if os.geteuid() == 0 else []), *opened)


def copy_pages(folder: Path) -> list[str]:
    """Copy notebooks and their data to `folder`; what a reader edited there stays as it is.

    Returns the edited files of which the course now has a newer version.
    """
    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    record = folder / ".copied.json"
    copied: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
    kept = []
    for page in re.findall(r"(?:file|root): *(\S+)", (ROOT / "_toc.yml").read_text()):
        source = next(p for p in (ROOT / f"{page}.ipynb", ROOT / f"{page}.md") if p.exists())
        for path in source.parent.rglob("*") if source.parent != ROOT else [source]:
            name = path.relative_to(ROOT).as_posix()
            if not path.is_file() or re.search(r"/\.|__pycache__|^\.", name):
                continue
            mine, theirs = folder / name, digest(path)
            if not mine.exists() or digest(mine) in (copied.get(name), theirs):
                mine.parent.mkdir(parents=True, exist_ok=True)
                os.replace(shutil.copyfile(path, mine.with_name(f".{mine.name}.part")), mine)
                copied[name] = theirs
            elif theirs != copied.get(name) and name not in kept:
                kept.append(name)
    record.write_text(json.dumps(copied, indent=1, sort_keys=True))
    return kept


def clean() -> None:
    for name in (".venv", "_build", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    say("removed the environment and everything built; work/ is as it was")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(usage="python3 course.py COMMAND", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=re.findall(r"py (\w+)", str(__doc__)), metavar="COMMAND")
    parser.add_argument("--port", type=int, help="where serve (8000) and lab (8888) listen")
    parser.add_argument("--paper", choices=["A4", "Letter"], default="A4", help="of the PDF")
    cut = 1 if arguments[:1] == ["workshop"] else len(arguments)  # its parts read their own options
    options, rest = parser.parse_known_args(arguments[:cut])
    command, rest = options.command, rest + arguments[cut:]
    if rest and command not in ("test", "fuzz", "bench", "refresh", "lab", "workshop"):
        parser.error(f"{command} takes no further arguments, got {' '.join(rest)}")
    if command == "clean":
        clean()
        return 0
    with alone():
        set_up()
        if command == "pdf" and run(PYTHON, "_ext/pdf.py", "--probe"):
            return 1  # it has said why, before minutes of building
        if command in ("serve", "build", "test", "pdf"):
            run(PYTHON, "_ext/pyodide_files.py", show=say)  # for cells that run inside a page
        if " ".join([command, *rest]) in ("serve", "build", "pdf", "workshop", "workshop slides"):
            build()
    if command == "serve":
        serve(options.port or 8000)
    elif command == "lab":
        lab(options.port or 8888, *rest)
    elif command != "build":
        what = {"workshop": ("-m", "workshop"),
                "test": ("-m", "pytest"), "fuzz": ("-m", "pytest", "-m", "fuzz"),
                "bench": ("-m", "pytest", "-m", "bench", "-n", "0", "-s", "tests/bench"),
                "refresh": ("_ext/refresh.py",), "pdf": ("_ext/pdf.py", "--paper", options.paper)}
        return run(PYTHON, *what[command], *rest)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stop as stop:
        sys.exit(f"course.py: {stop}")
    except KeyboardInterrupt:
        sys.exit("\nstopped")
    except OSError as error:
        hint = {errno.ENOSPC: "the disk is full: free about 2 GB, then run this again",
                errno.EACCES: "check who owns this folder"}.get(error.errno or 0, "")
        sys.exit(f"course.py: {error}\n{hint}".rstrip())
