"""What the stand-in's tools share: the chip, how to behave, who holds which core, counters.

Python's own library alone, and little of it: each tool is a process of its own, and a test
starts many.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn


class Chip(NamedTuple):
    """One instance with one chip of a kind.

    cores     physical NeuronCores; lnc: whether they pair up into logical ones
    arch, core_arch, device, family   what sysfs says
    tensor_ghz, ghz, stack   what a profile's metadata says: clocks, B/s of one HBM stack
    """

    instance: str
    devices: int
    cores: int
    lnc: bool
    arch: str
    core_arch: str
    device: str
    family: str
    memory: int
    targets: tuple[str, ...]
    tensor_ghz: float
    ghz: float
    stack: float


# Devices, cores and memory: the SDK's pages on each chip. Clocks and the stack's bandwidth: what
# real profiles hold (trn2 716e9, 2.4 and 1.2 GHz; trn1, and it seems inf2, 410e9, 2.8 and 1.4).
CHIPS = {
    "trn1": Chip("trn1.2xlarge", 1, 2, False, "v2", "NCv2", "Trainium1", "Trn1", 34359738368,
                 ("trn1", "inf2", "gen2"), 2.8, 1.4, 410e9),
    "inf2": Chip("inf2.xlarge", 1, 2, False, "v2", "NCv2", "Inferentia2", "Inf2", 34359738368,
                 ("trn1", "inf2", "gen2"), 2.8, 1.4, 410e9),
    "trn2": Chip("trn2.3xlarge", 1, 8, True, "v3", "NCv3", "Trainium2", "Trn2", 103079215104,
                 ("trn2", "gen3"), 2.4, 1.2, 716e9),
}
VERSIONS = {"nki": "0.6.0+stand-in", "neuronx-cc": "2.27.5334.0+stand-in",
            "jax": "0.10.0+stand-in", "libneuronxla": "3.0+stand-in", "torch": "2.9.1+stand-in",
            "torch_neuronx": "2.9.0.2.15+stand-in"}
EXPLORER = "2.32.28.0%kaena-tools/2.32@stand-in"
DEFAULTS: dict[str, Any] = {
    "chip": "trn2",
    # the arithmetic of its times
    "fixed_s": 5e-6, "seconds_per_byte": 5e-12, "seconds_per_transfer": 0.0, "beside": 1.0,
    "columns_per_second": 2e9, "min_columns": 64, "elements_per_second": 1e9, "cold": 2.14,
    # what goes wrong
    "fail": "",         # "ls", "compile", "run", "capture", "view", "summary": exits with an error
    "hang": "",         # "compile", "capture", "summary", "json", "ls", "version": never ends
    "stubborn": False,  # and does not mind SIGTERM or SIGINT
    "slow_s": 0.0,      # each tool needs this long to start
    "silent": False,    # capture: exit 0, and no file
    "empty_ntff": False,  # capture: a file of 0 bytes
    "cold_name": False,   # capture: the file has the name given to -s, without _exec_2
    "full_disk": False,   # capture: no space left on device
    "busy": [],         # physical cores that another process holds
    "numpy": True,      # whether the kernel takes NumPy arrays
    "outputs": "",      # of the run: "zeros", "nan", "shape", "one" (one value off), "scaled:2"
    "saved": "",        # of the capture, the same words
    "doubling": False,  # LNC=2: every core does all of it
    "log_lines": "",    # on stdout before the summary: "text", or "json", an object a line
    "summary": "",      # "empty", "cut", "none" (no session), "two" sessions
    "json": "",         # "empty" (0 bytes), "object" ({}), "fails"
    "parquet": "",      # "fails"
    "absent": [],       # keys that the summary leaves out
    "throttle": False,  # events, and their keys
    "reply": "",        # a file of the real profiler that `view` answers with
    "overflow": False,  # --enable-dge-notifs: the status notification queue overflows
    "counters": True,   # whether /sys counts executions
    # how long things take on the host
    "exec_s": 0.0, "capture_s": 0.0,
    "frameworks": [],   # "jax", "torch"
}


FOREVER = 120  # s


def behaviour(folder: str | Path) -> dict[str, Any]:
    path = Path(folder) / "behaviour.json"
    return dict(json.loads(path.read_text()))


def record(folder: str | Path, tool: str, argv: list[str], **more: Any) -> None:
    """Note a call: one line, written at once, so that lines of two processes do not mix."""
    env = {name: value for name, value in os.environ.items()
           if name.startswith(("NEURON", "NKI", "XLA_"))}
    line = json.dumps({"tool": tool, "argv": argv, "pid": os.getpid(), "cwd": os.getcwd(),
                       "env": env, **more})
    with open(Path(folder) / "calls.jsonl", "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def stop(message: str, code: int = 1) -> NoReturn:
    """End as a tool ends: its words on stderr."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    sys.exit(code)


def hang(folder: str | Path, told: Mapping[str, Any]) -> NoReturn:
    """Not end for a test's lifetime, and let a child of its own do the same."""
    if told["stubborn"]:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", str(FOREVER)])
    with open(Path(folder) / "calls.jsonl", "ab", buffering=0) as file:
        file.write((json.dumps({"tool": "child", "argv": [], "pid": child.pid, "cwd": "",
                                "env": {}}) + "\n").encode())
    time.sleep(FOREVER)
    sys.exit(1)


def begin(folder: str | Path, tool: str, argv: list[str]) -> dict[str, Any]:
    """What every tool does first. Returns how it is to behave."""
    record(folder, tool, argv)
    told = behaviour(folder)
    time.sleep(told["slow_s"])
    return told


# --- cores ---------------------------------------------------------------------------------------


class NrtError(Exception):
    """A status of the Neuron Runtime: name(number), and words."""


def configured(chip: Chip, env: Mapping[str, str]) -> int:
    """Physical cores of a logical one, as the environment says; trn2 without a word: 2.

    Source: logical-neuroncore-config.rst; environment-variables.rst.
    """
    said = {name: env[name] for name in ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
            if name in env}
    if not chip.lnc:
        if said:
            raise NrtError(f"NRT_INVALID(2): {', '.join(said)}: {chip.device} has no logical "
                                "NeuronCore configuration")
        return 1
    values = set(said.values())
    if len(values) > 1 or not values <= {"1", "2"}:
        raise NrtError("NRT_INVALID(2): logical NeuronCore configuration: expected 1 or 2, "
                            f"got {said}")
    return int(values.pop()) if values else 2


def visible(chip: Chip, env: Mapping[str, str]) -> list[int]:
    """Physical cores this process takes: those of NEURON_RT_VISIBLE_CORES, else all.

    Source: configuration-guide.rst: an index, or an inclusive range; they count logical cores.
    """
    lnc = configured(chip, env)
    logical = chip.devices * chip.cores // lnc
    said = env.get("NEURON_RT_VISIBLE_CORES", f"0-{logical - 1}")
    first, _, last = said.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        raise NrtError("NRT_INVALID(2): NEURON_RT_VISIBLE_CORES: expected an index or a range "
                            f"such as 0-3, got {said!r}")
    low, high = int(first), int(last or first)
    if not low <= high < logical:
        raise NrtError(f"NRT_INVALID(2): NEURON_RT_VISIBLE_CORES={said}: there are NeuronCores "
                            f"0 to {logical - 1}")
    return list(range(low * lnc, (high + 1) * lnc))


def take(folder: str | Path, told: Mapping[str, Any], env: Mapping[str, str]) -> list[Any]:
    """Hold this process's cores until it ends; the open files are the hold.

    Raises NrtError when another process has one.
    """
    chip, held = CHIPS[told["chip"]], []
    for core in visible(chip, env):
        file = open(Path(folder) / "locks" / f"core{core}", "a+")  # noqa: SIM115
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = core not in told["busy"]
        except BlockingIOError:
            free = False
        if not free:
            raise NrtError(f"NRT_EXEC_NC_BUSY(1005): nd0 nc{core}: Neuron core is locked (in "
                                "use) by another model/process")
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        held.append(file)
    return held


def holders(folder: str | Path) -> dict[int, int]:
    """Physical core -> pid of who holds it, of the stand-in's own processes.

    Who took a core wrote its pid and holds it to its end; asking takes no lock.
    """
    found = {}
    for path in (Path(folder) / "locks").glob("core*"):
        said = path.read_text()
        if said.isdigit() and Path(f"/proc/{said}").exists():
            found[int(path.name.removeprefix("core"))] = int(said)
    return found


# --- /sys ----------------------------------------------------------------------------------------


def node(folder: str | Path, number: int = 0) -> Path:
    """The device's folder. Source: neuron-sysfs-user-guide.rst."""
    return Path(folder) / "sys" / "devices" / "virtual" / "neuron_device" / f"neuron{number}"


def write_sysfs(folder: Path, chip: Chip) -> None:
    for number in range(chip.devices):
        top = node(folder, number)
        facts = {"core_count": chip.cores, "connected_devices": "",
                 "info/architecture/arch_type": chip.arch,
                 "info/architecture/device_name": chip.device,
                 "info/architecture/instance_type": chip.family}
        for core in range(chip.cores):
            own = f"neuron_core{core}"
            facts[f"{own}/info/architecture/arch_type"] = chip.core_arch
            for count in ("inference_count", "model_load_count"):
                for kind in ("total", "present"):
                    facts[f"{own}/stats/other_info/{count}/{kind}"] = 0
        for name, value in facts.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")


def counted(folder: str | Path, told: Mapping[str, Any], core: int, times: int) -> None:
    """Add executions to a physical core's counters."""
    if not told["counters"]:
        return
    chip = CHIPS[told["chip"]]
    number, index = divmod(core, chip.cores)
    counter = node(folder, number) / f"neuron_core{index}" / "stats/other_info/inference_count"
    for kind in ("total", "present"):
        path = counter / kind
        before = int(path.read_text()) if kind == "total" else 0
        part = path.with_name(f".{kind}")
        part.write_text(f"{before + times}\n")
        part.replace(path)  # a reader sees the old number or the new one
