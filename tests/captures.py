"""A kernel and a capture of it, both small enough to follow: what tests of the commands are given.

    write_kernel(folder)        product.py, whose counts are W, READ and WRITTEN
    capture(folder / "p.json")  a measured profile of it: eight matmuls in 5 us on one core of trn2
    here, shell                 fixtures: a folder with both; a command run in it
    told, refused = asked("gap")   of one command: its JSON, and what is said of what it cannot use
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from timelines import profile, timeline

from roofline import profile as profiles
from roofline.__main__ import main
from roofline.table import WIDTH

SOURCE = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def product(a, b, times=8):
    """c = times a' b: a [128, 128], b [128, 512], both loaded once."""
    c = nl.ndarray((128, 512), dtype=a.dtype, buffer=nl.shared_hbm, name="c")
    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for i in range(times):
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=i > 0)
    out = nl.ndarray((128, 512), dtype=c.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=total)
    nisa.dma_copy(dst=c, src=out)
    return c


@nki.jit
def twice(a, b, times=8):
    """The same, with b loaded once more."""
    again = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=again, src=b)
    return product(a, b, times)


@nki.jit
def copy(x):
    """y = x, through SBUF: no FLOPs."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    for i in range(x.shape[0] // 128):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[nl.ds(i * 128, 128), :])
        nisa.dma_copy(dst=y[nl.ds(i * 128, 128), :], src=tile)
    return y


pair = copy[2]
'''
W = 2 * 8 * 128 * 128 * 512  # FLOP: eight matmuls
READ = 2 * (128 * 128 + 128 * 512)  # B: a and b, bf16
WRITTEN = 2 * 128 * 512  # B: c
Q = READ + WRITTEN
TOTAL = 5000.4  # ns
CALL = ("product.py:product", "a=128x128:bf16", "b=128x512:bf16")
COPY = ("product.py:copy", "x=256x1024:bf16")
COPIED = 2 * 2 * 256 * 1024  # B: read and written
ROWS: Mapping[str, Any] = {
    "issues": [(400, 450, {"read": 2 * 128 * 128}), (450, 500, {"read": 2 * 128 * 512}),
               (4000, 4050, {"written": WRITTEN})],
    "packets": [*((600 + 20 * i, 758 + 20 * i, {"engine": i % 16}) for i in range(READ // 4096)),
                *((4100 + 10 * i, 4258 + 10 * i, {"engine": i % 16})
                  for i in range(WRITTEN // 4096))],
    "weights": [(1900, 1960)],
    "matmuls": [(2000 + 213 * i, 2213 + 213 * i, {"line": "product.py:18"}) for i in range(8)],
    "vector": [(3704, 4000)],
}


def write_kernel(folder: Path, name: str = "product.py") -> Path:
    path = folder / name
    path.write_text(SOURCE, encoding="utf-8")
    return path


def capture(path: Path, *, rows: Mapping[str, Any] | None = None, total: float = TOTAL,
            summary: Mapping[str, Any] | None = None, instance: str = "trn2.made",
            cores: int = 1, format: str = "json") -> Path:
    """Saves it and returns the path.

    rows      of the timeline, by timelines.timeline's names; those of ROWS otherwise
    total     total_time, ns; summary: other counters than the kernel's own
    """
    counters = {"hardware_flops": W, "transpose_flops": 0, "hbm_read_bytes": READ,
                "hbm_write_bytes": WRITTEN}
    made = profile(timeline(**{**ROWS, **(rows or {})}, cores=cores, end=5000), total,
                   name=path.name, summary={**counters, **(summary or {})},
                   metadata={"instance_type": instance, "num_physical_cores": cores})
    return profiles.write(made, path, format)


# --- commands ------------------------------------------------------------------------------------

Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's file and its capture, where the command runs."""
    monkeypatch.chdir(tmp_path)
    write_kernel(tmp_path)
    capture(tmp_path / "p.json")
    return tmp_path


@pytest.fixture
def shell(here: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """shell(*argv) -> exit code, stdout no wider than a page, stderr as one line."""
    def run(*argv: str) -> tuple[int, str, str]:
        code = main([*argv])
        out, err = capsys.readouterr()
        assert "--json" in argv or max(map(len, out.splitlines()), default=0) <= WIDTH
        assert "Traceback" not in err and "fault of the tool" not in err
        return code, out, " ".join(err.split())

    return run


def asked(command: str) -> tuple[Callable[..., Any], Callable[..., str]]:
    """told(shell, *args) -> exit code, JSON; refused(shell, *args) -> why; nothing is on stdout."""
    def told(shell: Shell, *args: str) -> tuple[int, dict[str, Any]]:
        code, out, err = shell(command, *args, "--json")
        assert out, err
        return code, json.loads(out)

    def refused(shell: Shell, *args: str) -> str:
        code, out, err = shell(command, *args)
        assert (code, out) == (2, "")
        return err

    return told, refused
