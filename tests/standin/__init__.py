"""A Neuron instance that is not there: `nki`, `neuron-explorer`, `neuron-ls`, /dev and /sys.

For this course's tests alone. Written from the documents (the Neuron SDK's pages on capture,
neuron-ls and sysfs, and what files of the real profiler hold), not from the code it tests: it
rejects what they do not document, so that a command line of the product's is held to them.

    env = install(tmp_path, chip="trn2")            # what to put into os.environ
    behave(tmp_path, fail="capture")                # from now on
    calls(tmp_path, "neuron-explorer", "capture")   # what was called, and how
    running(tmp_path)                               # processes of it that are alive: none

A kernel runs on the course's own backend, and its times are arithmetic that a test can redo: an
instruction after the other, on each core,

    fixed_s + seconds_per_transfer + seconds_per_byte * (HBM bytes read + written)
                                                           for each transfer
            + max(N, min_columns) / columns_per_second     for each matmul of N columns
            + elements / 128 / elements_per_second         for each instruction of another engine

`cold` times as much in the first execution; `beside` times as much for bytes while another core
works. They are no model of a NeuronCore.
"""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from .device import CHIPS, DEFAULTS, FOREVER, VERSIONS, Chip, behaviour, write_sysfs

HERE = Path(__file__).parent
SCRIPT = """#!{python} -IS
import sys
sys.path[:0] = [{here!r}]
sys.path += [{site!r}]
from standin.{module} import main
main({folder!r})
"""


def install(folder: Path, chip: str = "trn2", **changes: Any) -> dict[str, str]:
    """Put an instance into this folder; what its behaviour is to be is in device.DEFAULTS.

    Returns the environment that the product honours in tests.
    """
    folder = Path(folder).resolve()
    of = CHIPS[chip]
    for name in ("bin", "dev", "locks", "site"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _save(folder, {**DEFAULTS, "chip": chip})
    behave(folder, **changes)
    for number in range(of.devices):
        (folder / "dev" / f"neuron{number}").touch()
    write_sysfs(folder, of)
    for tool in ("neuron-explorer", "neuron-ls"):
        path = folder / "bin" / tool
        path.write_text(SCRIPT.format(
            python=sys.executable, here=str(HERE.parent), site=sysconfig.get_path("purelib"),
            module=tool.replace("-", "_"), folder=str(folder)))
        path.chmod(0o755)
    _packages(folder / "site", behaviour(folder)["frameworks"])
    return {"ROOFLINE_STAND_IN": str(folder)}


def behave(folder: Path, **changes: Any) -> None:
    """Change how it behaves from now on. Raises for a name that is not in DEFAULTS."""
    if unknown := set(changes) - set(DEFAULTS):
        raise TypeError(f"the stand-in has no behaviour {', '.join(sorted(unknown))}; it has "
                        f"{', '.join(sorted(DEFAULTS))}")
    _save(Path(folder), behaviour(folder) | changes)


def calls(folder: Path, tool: str = "", verb: str = "") -> list[dict[str, Any]]:
    """What was called so far: tool, argv, pid, cwd, env (of Neuron), in order.

    tool   "neuron-explorer", "neuron-ls" or "nki"; verb: the first argument, e.g. "capture"
    """
    path = Path(folder) / "calls.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [call for call in found
            if tool in ("", call["tool"]) and (not verb or call["argv"][:1] == [verb])]


def running(folder: Path) -> list[int]:
    """Processes of the stand-in that are still there, and those that they started."""
    return [pid for pid in {call["pid"] for call in calls(folder)}
            if pid != os.getpid() and _alive(pid)]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _save(folder: Path, told: dict[str, Any]) -> None:
    part = folder / "behaviour.part"
    part.write_text(json.dumps(told))
    part.replace(folder / "behaviour.json")


def _packages(site: Path, frameworks: list[str]) -> None:
    """`nki`, and the frameworks asked for, as pip would have put them there."""
    for name in ("nki", *frameworks):
        target = site / name
        target.mkdir(exist_ok=True)
        shutil.copy(HERE / f"fake_{name}.py", target / "__init__.py")
    for own in ("device", "neff"):
        shutil.copy(HERE / f"{own}.py", site / "nki")
    for name in ("nki", "neuronx-cc", *frameworks, *["libneuronxla"] * ("jax" in frameworks)):
        known = site / f"{name.replace('-', '_')}-{VERSIONS[name]}.dist-info"
        known.mkdir(exist_ok=True)
        (known / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSIONS[name]}\n"
            "Summary: a stand-in of this course's tests\n")


__all__ = ["CHIPS", "DEFAULTS", "FOREVER", "Chip", "behave", "behaviour", "calls", "install",
           "running"]
