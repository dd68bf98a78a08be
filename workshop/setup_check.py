"""A participant's computer before class: is everything there, and if not, what to do.

Question  can this computer run the notebooks, and, where that is promised, reach the hub or a chip?
Answer    lines(...) -> Line, one a check: fine, a note, or what to do; main(arguments) prints them
Assumes   it runs in the course's environment, in the course's folder
Ignores   speed; the network, unless --hub names an address
"""

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from . import ROOT

PYTHONS = ((3, 11), (3, 13))
FREE = 2e9  # bytes: what course.py asks for
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "firefox", "microsoft-edge", "open")
TRIAL = "from roofline import machine; print(machine.trn2.ridge('bf16'))"
SECONDS = 60  # for a kernel to start and to answer


@dataclass(frozen=True)
class Line:
    """fine   True: there; None: to be known, and no obstacle; False: `todo` says what to do"""

    name: str
    fine: bool | None
    found: str
    todo: str = ""

    def __str__(self) -> str:
        mark = {True: "ok", None: "--", False: "!!"}[self.fine]
        return f"{mark}  {self.name:8}  {self.found}" + (f"\n              {self.todo}"
                                                       if self.todo else "")


# --- the checks -----------------------------------------------------------------------------------


def python(version: Sequence[int] = sys.version_info[:3]) -> Line:
    said = ".".join(map(str, version))
    if PYTHONS[0] <= tuple(version[:2]) <= PYTHONS[1]:
        return Line("Python", True, said)
    return Line("Python", False, f"{said}; the course needs 3.11, 3.12 or 3.13",
                "install one of these, then: python3.12 course.py workshop setup")


def packages(requirements: Path,
             version_of: Callable[[str], str] = importlib.metadata.version) -> Line:
    """Every package of the file, in a version that it allows."""
    wrong, right = [], 0
    for line in requirements.read_text("utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if not line or line.startswith("-"):
            continue
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate():
            continue
        try:
            version = version_of(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{wanted.name} is missing")
            continue
        if wanted.specifier.contains(version, prereleases=True):
            right += 1
        else:
            wrong.append(f"{wanted.name} is {version}, not {wanted.specifier}")
    if not wrong:
        return Line("packages", True, f"{right} of {requirements.name}")
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    todo = ("pip install -r requirements-neuron.txt" if "neuron" in requirements.name else
            "python3 course.py clean, then python3 course.py workshop setup (it installs them)")
    return Line("packages", False, "; ".join(wrong[:3]) + more, todo)


def library(file: str | None = None) -> Line:
    """That `import roofline` finds the library of this folder."""
    if file is None:
        try:
            import roofline
            file = str(roofline.__file__)
        except ImportError as error:
            return Line("library", False, f"import roofline: {error}",
                        "pip install --no-deps -e lib, in the course's folder")
    if Path(file).resolve().is_relative_to((ROOT / "lib").resolve()):
        return Line("library", True, "roofline of this folder")
    return Line("library", False, f"import roofline finds {file}",
                "run this in the course's folder, in its own environment: python3 course.py "
                "workshop setup")


def disk(free: float | None = None) -> Line:
    free = shutil.disk_usage(ROOT).free if free is None else free
    if free >= FREE:
        return Line("disk", True, f"{free / 1e9:.1f} GB free")
    return Line("disk", False, f"{free / 1e9:.1f} GB free; recordings, builds and compilers need "
                f"{FREE / 1e9:g} GB", f"free some at {ROOT}")


def kernel(start: Callable[[], str] | None = None) -> Line:
    """That a notebook's kernel starts, finds the library and answers."""
    try:
        said = (start or _answer)().strip()
    except Exception as error:  # whatever a kernel's way of failing is, it is this line
        return Line("kernel", False, f"a notebook's kernel did not answer: "
                    f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                    "a firewall that stops 127.0.0.1, or another Python's kernel named python3: "
                    f"{Path(sys.executable).name} -m ipykernel install --sys-prefix")
    from roofline import machine
    wanted = str(machine.trn2.ridge("bf16"))
    if said == wanted:
        return Line("kernel", True, "starts, and computes a ridge")
    return Line("kernel", False, f"it answered {said[:60]!r}, expected {wanted!r}",
                "another Python's kernel is named python3: "
                f"{Path(sys.executable).name} -m ipykernel install --sys-prefix")


def _answer() -> str:
    from jupyter_client.manager import run_kernel
    said: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["header"]["msg_type"] == "stream":
            said.append(content["text"])
        elif message["header"]["msg_type"] == "error":
            said.append(f"{content['ename']}: {content['evalue']}")

    client: Any  # a blocking client; the manager's types name only the asynchronous one
    with run_kernel(kernel_name="python3", startup_timeout=SECONDS, cwd=str(ROOT),
                    stderr=subprocess.DEVNULL) as client:
        client.execute_interactive(TRIAL, timeout=SECONDS, output_hook=hook, allow_stdin=False)
    return "".join(said)


def browser(which: Callable[[str], str | None] = shutil.which, away: bool | None = None) -> Line:
    """A browser here; on a machine reached by ssh it is at home."""
    try:
        found = webbrowser.get().__class__.__name__
    except webbrowser.Error:
        found = ""
    found = next((name for name in BROWSERS if which(name)), found)
    if found:
        return Line("browser", True, found)
    if away if away is not None else bool(os.environ.get("SSH_CONNECTION")):
        return Line("browser", None, "none on this machine, which you reach by ssh: use the one at "
                    "home, with ssh -L as in instance.md, step 5")
    return Line("browser", False, "none found", "install Chromium or Firefox, or open the address "
                "that JupyterLab prints in a browser that can reach this machine")


def hub(url: str, timeout: float = 10) -> Line:
    """That a JupyterHub answers at `url`."""
    address = url.rstrip("/").removesuffix("/hub") + "/hub/api"
    again = "ask the instructor for the address, with its https:// and port, and try again"
    try:
        with urllib.request.urlopen(address, timeout=timeout) as answer:
            version = json.loads(answer.read(10_000))["version"]
    except urllib.error.HTTPError as error:
        return Line("hub", False, f"{address}: HTTP {error.code}; no JupyterHub there", again)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return Line("hub", False, f"{address}: {reason}", "are you in the right network or VPN? "
                    "Then " + again)
    except (KeyError, TypeError):
        return Line("hub", False, f"{address}: answers, and is no JupyterHub", again)
    return Line("hub", True, f"JupyterHub {version} at {url}")


def device(probe: Any = None) -> Line:
    """The chip, where there is one."""
    if probe is None:
        from roofline import device as devices
        probe = devices.probe()
    if probe.runs:
        return Line("device", True, probe.verdict)
    if not probe.devices:
        return Line("device", None, "none here: pages that measure show recorded, published or "
                    "modelled figures, and say which")
    return Line("device", False, probe.verdict,
                "what goes wrong on an instance: instance.md, steps 6 and 7")


def lines(address: str | None = None) -> Iterator[Line]:
    """All checks, each as soon as it is made."""
    yield python()
    yield library()
    from roofline import device as devices
    probe = devices.probe()
    yield packages(ROOT / ("requirements-neuron.txt" if probe.devices else "requirements.txt"))
    yield disk()
    yield kernel()
    yield browser(away=True if probe.devices else None)
    yield device(probe)
    if address:
        yield hub(address)


# --- the command ----------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 course.py workshop setup",
        description="Is everything there for the class? One line a check; needs no network.")
    made.add_argument("--hub", metavar="URL", help="also: does the class's hub answer there?")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    wrong = 0
    for line in lines(options.hub):
        print(line, flush=True)
        wrong += line.fine is False
        if line.name == "library" and wrong:
            break  # nothing else can be said without it
    print("\nready for the class" if not wrong else
          f"\n{wrong} thing{'s' if wrong > 1 else ''} to do; then run this again")
    return 1 if wrong else 0
