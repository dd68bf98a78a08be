"""A class of its own on this machine, for tests and benchmarks: it begins and ends with them."""

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from workshop.hub import accounts, load

ROOT = Path(__file__).resolve().parent.parent
PARTICIPANTS = 20


@dataclass
class Class:
    """A class folder, the checkout it comes from, its accounts' prefix and first port."""

    checkout: Path
    at: Path
    prefix: str
    port: int

    def command(self, *more: str, **environ: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "workshop", "hub", "--at", str(self.at), "--prefix",
             self.prefix, "--port", str(self.port), *more],
            cwd=self.checkout, capture_output=True, text=True, timeout=600,
            env={**os.environ, **environ})

    def start(self, *more: str) -> str:
        done = self.command("--class", str(PARTICIPANTS), "--cores", "0", *more)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def key(self) -> Any:
        """Day 1's page with answers. Both editions are made, as `course.py workshop` does."""
        done = subprocess.run([sys.executable, "-c", "from workshop import editions\n"
                               "editions.key([])\neditions.student([])"],
                              cwd=self.checkout, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads((self.checkout / "work/workshop/key" / load.PAGE).read_text())

    def name(self, number: int) -> str:
        return f"{self.prefix}-{number:02d}"

    def person(self, name: str) -> load.Participant:
        words = dict(accounts.passwords(self.at / "private/passwords.csv"))
        return load.Participant(f"http://127.0.0.1:{self.port}", name, words[name])

    def people(self) -> list[load.Participant]:
        return [self.person(self.name(n)) for n in range(1, PARTICIPANTS + 1)]

    def processes(self, name: str, of: str = "") -> list[psutil.Process]:
        """An account's processes, with `of` in their command."""
        return [one for one in psutil.process_iter(["username", "cmdline"])
                if one.info["username"] == name and of in " ".join(one.info["cmdline"] or ())]


def four_ports() -> int:
    """The first of four ports in a row that nobody has."""
    for first in range(21000 + 4 * (os.getpid() % 500), 32000, 4):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + 4):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no four free ports")


@contextlib.contextmanager
def a_class() -> Iterator[Class]:
    """A class that is not started, with a checkout that no other account can read."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="class-"))
    folder.chmod(0o755)
    checkout = folder / "checkout"
    checkout.mkdir(mode=0o700)
    for name in ("lib/roofline", "workshop", "_jupyter", "casestudy",
                 *(day.name for day in ROOT.glob("day?"))):
        shutil.copytree(ROOT / name, checkout / name,
                        ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    for name in ("course.py", "requirements.txt", "_toc.yml"):
        shutil.copyfile(ROOT / name, checkout / name)
    one = Class(checkout, folder / "class", f"t{uuid.uuid4().hex[:5]}", four_ports())
    try:
        yield one
    finally:
        one.command("--remove", "--yes")
        left = [a.pw_name for a in pwd.getpwall() if a.pw_name.startswith(f"{one.prefix}-")]
        shutil.rmtree(folder)
        assert left == []
