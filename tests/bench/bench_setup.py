"""Seconds from a fresh clone to a built book and to green tests, cold and warm.

Cold: no environment, package caches off, nothing built. Warm: the same command once more.
Run   pytest -m bench tests/bench/bench_setup.py -s    or    python tests/bench/bench_setup.py
Targets (design): clean machine to built book 3 min, whole test command 12 min.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = getattr(sys, "_base_executable", sys.executable)  # not the one of an environment


def seconds(clone: Path, command: str, *, caches: bool) -> tuple[float, str]:
    """Time of `course.py command` in the clone, and its last line."""
    off = {} if caches else {"UV_NO_CACHE": "1", "PIP_NO_CACHE_DIR": "1"}
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "ROOFLINE_RECORDED")}
    start = time.perf_counter()
    done = subprocess.run([PYTHON, "course.py", command], cwd=clone, env=env | off, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    return time.perf_counter() - start, f"{'ok' if done.returncode == 0 else 'FAILED'}  {last}"


def report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "course"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for what, command, caches in (("build, cold", "build", False),
                                      ("build, warm", "build", True),
                                      ("test, set up already", "test", True),
                                      ("test, again", "test", True)):
            took, last = seconds(clone, command, caches=caches)
            print(f"{what:22} {took:6.1f} s  {last}", flush=True)


@pytest.mark.bench
def test_bench_setup() -> None:
    report()


if __name__ == "__main__":
    report()
