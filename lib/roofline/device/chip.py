"""What is here: chip, cores, driver, tools, packages; and so, whether a page measures or replays.

Question  will kernels run on a NeuronCore here, and if not, what is missing?
Answer    probe() -> Probe: a line of verdict, what was found and where, what is unknown and why
Assumes   /dev/neuron*, the driver's files in /sys, neuron-ls and wheels as Neuron documents them
Ignores   whether a run succeeds: capture finds out. Nothing of Neuron is imported, no core held
"""

import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from .. import machine
from ..table import Told, aligned, printable

CHIPS = ("trn1", "inf2", "trn2")  # the course's; each has a machine of that name
LOGICAL = ("trn2",)  # of those, the ones with logical cores (LNC 1 or 2; 2 is the default)
STAND_IN = "ROOFLINE_STAND_IN"  # a folder of the course's own tests; nothing else knows of it
BIN = "/opt/aws/neuron/bin"
REPOSITORY = "https://pip.repos.neuron.amazonaws.com"
TIMEOUT_S = 20.0  # for a tool to say its version
MOST = 2**22  # bytes of a tool's answer that are read
LNC_VARIABLES = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
# What would make a run something else than one plain run on one core, if a shell had it set.
MISLEADING = ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NEURON_RT_NUM_CORES", "NEURON_RT_INSPECT_ENABLE",
              "NEURON_RT_INSPECT_DEVICE_PROFILE", "NEURON_RT_INSPECT_OUTPUT_DIR", *LNC_VARIABLES)


class ChipError(Told, ValueError):
    """A run that this chip cannot do: what, got, limit, next step."""


# --- where things are looked for -------------------------------------------------------------


@dataclass(frozen=True)
class Installation:
    """Where devices, commands and packages are looked for, and what a child process gets.

    dev, sys, opt   folders: /dev, /sys, /opt
    path            PATH of a child, with the folder of Neuron's tools
    pythonpath      PYTHONPATH of a child; "" for none
    synthetic       the tests' stand-in: what it records is no measurement
    refused         why a stand-in that the environment names is not used
    """

    dev: Path
    sys: Path
    opt: Path
    path: str
    pythonpath: str
    synthetic: bool
    refused: str = ""

    def find(self, command: str) -> str | None:
        """The file of a command, or None; of the stand-in alone when there is one."""
        path = self.path.partition(os.pathsep)[0] if self.synthetic else self.path
        return shutil.which(command, path=path)

    @property
    def packages(self) -> list[str]:
        """Folders where wheels are looked for."""
        named = [folder for folder in self.pythonpath.split(os.pathsep) if folder]
        return named[:1] if self.synthetic else [*named, *sys.path]


def installation() -> Installation:
    """The machine's own; or the tests' stand-in, while pytest runs and the environment names it.

    pytest sets PYTEST_CURRENT_TEST, and the processes that a test starts inherit it.
    """
    named = os.environ.get(STAND_IN, "")
    path, pythonpath = os.environ.get("PATH", os.defpath), os.environ.get("PYTHONPATH", "")
    if named and "PYTEST_CURRENT_TEST" in os.environ:
        root = Path(named).absolute()
        return Installation(root / "dev", root / "sys", root / "opt", _joined(root / "bin", path),
                            _joined(root / "site", pythonpath), True)
    refused = f"{STAND_IN} is for the course's own tests; unset it" if named else ""
    folders = path.split(os.pathsep)
    return Installation(Path("/dev"), Path("/sys"), Path("/opt"),
                        path if BIN in folders else _joined(path, BIN), pythonpath, False, refused)


def _joined(*folders: object) -> str:
    return os.pathsep.join(str(folder) for folder in folders if str(folder))


# --- asking a command ------------------------------------------------------------------------


class Said(NamedTuple):
    """What a command printed, and how it failed: "" when it did not."""

    out: str
    failed: str


def ask(here: Installation, *command: str, timeout_s: float | None = None) -> Said:
    """Run a command to its end, or to the limit; it and its children are gone afterwards."""
    name, limit = command[0], TIMEOUT_S if timeout_s is None else timeout_s
    file = here.find(name)
    if not file:
        return Said("", f"{name}: not found")
    try:
        process = subprocess.Popen([file, *command[1:]], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=os.environ | {"PATH": here.path}, start_new_session=True)
    except (OSError, ValueError) as error:
        return Said("", f"{name}: does not start ({getattr(error, 'strerror', None) or error})")
    said: dict[str, bytes] = {"out": b"", "err": b""}
    readers = [threading.Thread(target=_read_some, args=(stream, said, key), daemon=True)
               for key, stream in (("out", process.stdout), ("err", process.stderr))]
    for reader in readers:
        reader.start()
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end(process)
    for reader in readers:
        reader.join(1)
    out, err = (said[key].decode("utf-8", "replace") for key in ("out", "err"))
    if code is None:
        return Said(out, f"{name}: no answer within {limit:g} s")
    if code:
        words = (err.strip() or out.strip() or "no words").splitlines()[-1].strip()
        return Said(out, f"{name}: exit code {code} ({printable(words, 120)})")
    return Said(out, "")


def end(process: "subprocess.Popen[bytes]", grace_s: float = 0) -> None:
    """End a process that leads a group, and all that it started.

    grace_s   it is asked first, and has as long to let go of its cores
    """
    try:
        if grace_s and process.poll() is None:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
    finally:
        _signal(process, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(grace_s, 1))  # one that hangs in the driver cannot be ended


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, number)


def _read_some(stream: Any, said: dict[str, bytes], key: str) -> None:
    """Read to the end or to MOST bytes; the rest stays unread and the writer waits."""
    with contextlib.suppress(OSError, ValueError):
        while len(said[key]) < MOST and (part := stream.read1(MOST)):
            said[key] += part


def _file(path: Path) -> str:
    """The text of a small file, or "" when it is not to be read."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""


# --- what was found --------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """A process that holds cores of a device, as neuron-ls says."""

    pid: int
    command: str
    device: int

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) on device {self.device}"


@dataclass(frozen=True)
class Probe:
    """What is here. None is unknown or absent; `told`, by the table's names, says why or whence.

    chip            "trn1", "inf2", "trn2", or another that the course does not know
    devices         Neuron devices (chips) of this instance
    cores           NeuronCores of a device as the runtime counts them, at this LNC
    physical_cores  NeuronCores of a device
    lnc             physical cores to a logical one, as the runtime is set: 1 or 2
    sdk             the release that NKI's version belongs to
    frameworks      what can start a kernel besides NumPy: "jax", "torch-neuronx"
    others          processes that hold cores
    notes           what is odd
    why             why kernels do not run here; "" when they do
    """

    chip: str | None = None
    instance: str | None = None
    devices: int = 0
    cores: int | None = None
    physical_cores: int | None = None
    lnc: int | None = None
    driver: str | None = None
    runtime: str | None = None
    tools: str | None = None
    explorer: str | None = None
    nki: str | None = None
    neuronx_cc: str | None = None
    jax: str | None = None
    torch_neuronx: str | None = None
    sdk: str | None = None
    python: str = field(default_factory=platform.python_version)
    frameworks: tuple[str, ...] = ()
    others: tuple[Holder, ...] = ()
    notes: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)
    why: str = "not probed"
    here: Installation = field(default_factory=installation, repr=False)

    @property
    def runs(self) -> bool:
        """Whether everything that a run needs is here."""
        return not self.why

    @property
    def synthetic(self) -> bool:
        """Whether this is the tests' stand-in."""
        return self.here.synthetic

    @property
    def verdict(self) -> str:
        """One line: run and on what, or replay and why."""
        if self.why:
            return f"replay: {self.why}"
        plural = "s" if self.devices > 1 else ""
        parts = [self.instance or self.chip or "", f"{self.devices} device{plural}"]
        if self.cores:
            parts.append(f"{self.cores} cores each" + (f" at LNC {self.lnc}" if self.logical
                                                       else ""))
        parts += [f"NKI {self.nki}", f"neuron-explorer {self.explorer or 'of unknown version'}"]
        return f"run: {'synthetic (test stand-in), ' if self.synthetic else ''}{', '.join(parts)}"

    @property
    def logical(self) -> bool:
        """Whether this chip groups physical cores into logical ones."""
        return self.chip in LOGICAL

    @property
    def launch(self) -> str:
        """What a kernel's call has to say for the LNC that the runtime is set to."""
        if not self.logical:
            return "kernel(...): a core is a core on this chip" if self.chip else ""
        other = "kernel(...)" if self.lnc == 2 else "kernel[2](...)"
        mine = "kernel[2](...)" if self.lnc == 2 else "kernel(...)"
        return (f"{mine} runs as the runtime is set; {other} needs "
                f"{LNC_VARIABLES[0]}={3 - (self.lnc or 2)}, which capture sets for its own runs")

    def environment(self, lnc: int = 1, core: int = 0) -> dict[str, str]:
        """The variables of a run with `lnc` physical cores on the logical core `core`.

        Raises ChipError for cores that this chip has not.
        """
        chip = self.chip or "no known chip"
        if lnc not in (1, 2) or (lnc == 2 and not self.logical):
            raise ChipError(f"environment: lnc = {lnc!r}; {chip} takes "
                            f"{'1 or 2' if self.logical else '1: it has no logical cores'}")
        all_cores = self.devices * (self.physical_cores or 0) // lnc
        if core < 0 or (all_cores and core >= all_cores):
            raise ChipError(f"environment: core {core}; at LNC {lnc} there are cores 0 to "
                            f"{max(all_cores - 1, 0)} here")
        made = {"NEURON_RT_VISIBLE_CORES": str(core), "PATH": self.here.path}
        if self.chip:
            made["NEURON_PLATFORM_TARGET_OVERRIDE"] = self.chip
        if self.logical:
            made |= dict.fromkeys(LNC_VARIABLES, str(lnc))
        if self.here.pythonpath:
            made["PYTHONPATH"] = self.here.pythonpath
        return made

    def child(self, lnc: int = 1, core: int = 0) -> dict[str, str]:
        """The whole environment of a run: this process's, less what would make it another run."""
        kept = {name: value for name, value in os.environ.items() if name not in MISLEADING}
        return kept | self.environment(lnc, core)

    def table(self) -> list[str]:
        """Lines: what, which, and where from or why unknown."""
        shown = (("chip", self.chip), ("instance", self.instance), ("devices", self.devices),
                 ("physical cores", self.physical_cores), ("LNC", self.lnc),
                 ("cores", self.cores), ("driver", self.driver), ("runtime", self.runtime),
                 ("tools", self.tools), ("neuron-explorer", self.explorer), ("nki", self.nki),
                 ("neuronx-cc", self.neuronx_cc), ("jax", self.jax),
                 ("torch-neuronx", self.torch_neuronx), ("SDK", self.sdk),
                 ("Python", self.python))
        return aligned([(what, "-" if value is None else str(value), self.told.get(what, ""))
                        for what, value in shown])

    @property
    def bare(self) -> bool:
        """Whether nothing of Neuron is here, so that a table would be empty."""
        return not (self.devices or self.tools or self.explorer or self.nki or self.neuronx_cc
                    or self.torch_neuronx or self.notes)

    def __repr__(self) -> str:
        if self.bare:
            return self.verdict
        lines = [self.verdict, *self.table()]
        lines += [f"launch: {self.launch}"] if self.launch else []
        lines += [f"held: {other}" for other in self.others]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, tested().line(self)])


def probe() -> Probe:
    """What is here. It asks tools for their versions, each with a time limit; nothing raises."""
    here = installation()
    finding = _Finding(here)
    finding.devices()
    finding.chip()
    finding.cores()
    finding.versions()
    finding.wheels()
    return Probe(**finding.fields, others=tuple(finding.others),
                 notes=tuple(dict.fromkeys(finding.notes)), told=finding.told, here=here,
                 why=_why(finding))


class _Finding:
    """A probe in the making: fields, where each comes from, what is odd."""

    def __init__(self, here: Installation) -> None:
        self.here = here
        self.fields: dict[str, Any] = {}
        self.told: dict[str, str] = {}
        self.notes: list[str] = []
        self.others: list[Holder] = []
        self.missing: dict[str, str] = {}  # what a run lacks -> what to do
        self.entries: list[dict[str, Any]] = []  # of neuron-ls -j
        self.header: dict[str, str] = {}  # of neuron-ls
        self.kinds: list[Path] = []  # .../info/architecture of each device

    def set(self, name: str, value: Any, source: str, shown: str = "") -> None:
        self.fields[name] = value
        self.told[shown or name] = source

    # devices, the chip and its cores

    def devices(self) -> None:
        here = self.here
        nodes = _numbered(here.dev)
        folders = _numbered(here.sys / "devices/virtual/neuron_device")
        self.kinds = [folder / "info/architecture" for folder in folders]
        self.set("devices", len(nodes), f"{here.dev}/neuron*" if nodes else f"none in {here.dev}")
        locked = [node.name for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
        if locked:
            self.missing["access"] = (f"no permission for {here.dev}/{locked[0]}; join the group "
                                      "that owns it (often `neuron`) and log in again")
        if not nodes:
            return
        listed = ask(here, "neuron-ls", "-j")
        self.entries, odd = _entries(listed)
        if not listed.failed or "exit code" in listed.failed:  # else it would hang once more
            self.header = dict(re.findall(r"^\s*([a-z][a-z-]+):\s*(\S+)\s*$",
                                          ask(here, "neuron-ls").out, re.M))
        if odd:
            self.notes.append(odd)
        elif len(self.entries) != len(nodes):
            self.notes.append(f"neuron-ls lists {len(self.entries)} device(s), {here.dev} has "
                              f"{len(nodes)}")
        for entry in self.entries:
            self.others += _holders(entry)

    def chip(self) -> None:
        """The chip and the instance: the driver, then neuron-ls, then the virtual machine."""
        board = _file(self.here.sys / "devices/virtual/dmi/id/product_name")
        said = [(_file(kind / name), f"the driver's {name}") for kind in self.kinds
                for name in ("device_name", "device_type", "instance_type")]
        said += [(self.header.get("instance-type", ""), "neuron-ls"),
                 (board, "the virtual machine's product_name")]
        named = [(chip, source) for text, source in said if (chip := _chip(text))]
        cores = [_file(kind / "arch_type").lower() for kind in self.kinds]
        if not named and any(arch.endswith("v3") for arch in cores):
            named = [("trn2", "the driver's arch_type v3")]
        if not self.fields["devices"]:
            self.missing["driver"] = _no_driver(board, self.here)
            named = []
        self.set("chip", *(named[0] if named else (None, self._no_chip(said))))
        if differ := sorted({chip for chip, _ in named[1:]} - {named[0][0]} if named else set()):
            self.notes.append(f"{named[0][1]} says {named[0][0]}, another source says "
                              f"{', '.join(differ)}")
        types = [(text, source) for text, source in said
                 if re.fullmatch(r"[a-z0-9-]+\.[a-z0-9]+", text.lower()) and _chip(text)]
        self.set("instance", types[0][0].lower() if types else None,
                 types[0][1] if types else "no source names it")

    def _no_chip(self, said: Iterable[tuple[str, str]]) -> str:
        if not self.fields["devices"]:
            return "no device"
        texts = [f"{source} says {printable(text, 40)!r}" for text, source in said if text]
        return "; ".join(texts[:2]) or "neither the driver nor neuron-ls says"

    def cores(self) -> None:
        chip = self.fields["chip"]
        lnc, source = self._lnc(chip)
        self.set("lnc", lnc, source, "LNC")
        physical, whence = self._physical(chip)
        self.set("physical_cores", physical, whence, "physical cores")
        cores = physical // lnc if physical and lnc else None
        self.set("cores", cores, "of a device: physical cores / LNC" if cores else whence)

    def _lnc(self, chip: str | None) -> tuple[int | None, str]:
        """LNC and who says so; a variable of this process comes before what neuron-ls reports."""
        if chip not in LOGICAL:
            return (1, "no logical cores on this chip") if chip in CHIPS else (None, "chip unknown")
        listed = [_whole(entry.get("logical_neuroncore_config")) for entry in self.entries]
        file = self.here.opt / "aws/neuron/logical_nc_config"
        kept = re.findall(rf"^{LNC_VARIABLES[0]}=(\S+)$", _file(file), re.M)
        said: list[tuple[object, str]] = [(os.environ.get(name), f"{name} in the environment")
                                          for name in LNC_VARIABLES]
        said += [(listed[0] if listed else None, "neuron-ls"),
                 (self.header.get("logical-neuroncore-config"), "neuron-ls"),
                 (kept[-1] if kept else None, str(file))]
        known = [(int(str(value)), source) for value, source in said if str(value) in ("1", "2")]
        odd = [f"{source} is {printable(value, 20)!r}; LNC is 1 or 2" for value, source in said
               if value not in (None, "") and str(value) not in ("1", "2")]
        self.notes += odd
        for value, source in known[1:]:
            if value != known[0][0]:
                self.notes.append(f"LNC: {known[0][1]} says {known[0][0]}, {source} says {value}")
        return known[0] if known else (2, f"the documented default of {chip}; nothing here says")

    def _physical(self, chip: str | None) -> tuple[int | None, str]:
        documented = _documented_cores(chip)
        for entry in self.entries:
            count, each = (_whole(entry.get(name)) for name in
                           ("nc_count", "logical_neuroncore_config"))
            each = 1 if chip in CHIPS and chip not in LOGICAL else each
            if count and each:
                if documented and count * each != documented:
                    self.notes.append(f"neuron-ls counts {count} x {each} cores on a device; "
                                      f"{documented} are documented")
                return count * each, "of a device: neuron-ls" + (f", {count} x LNC {each}"
                                                                 if each > 1 else "")
        return documented, "of a device: documented" if documented else "chip unknown"

    # versions

    def versions(self) -> None:
        here, found = self.here, self.fields["devices"]
        explorer = here.find("neuron-explorer")
        names = ("aws-neuronx-dkms", "aws-neuronx-runtime-lib", "aws-neuronx-tools")
        installed, why = (_installed(here, names) if found or explorer
                          else ({}, "no device and no tools"))
        loaded = _file(here.sys / "module/neuron/version")
        if loaded:
            self.set("driver", printable(loaded, 40), "loaded: /sys/module/neuron/version")
        for name, package in (("driver", names[0]), ("runtime", names[1]), ("tools", names[2])):
            if name not in self.fields:
                version = installed.get(package)
                self.set(name, version, f"package {package}" if version else why)
        if not explorer:
            self.set("explorer", None, f"not on PATH, nor in {BIN}", "neuron-explorer")
            self.missing["explorer"] = (f"neuron-explorer is not on PATH, nor in {BIN}: "
                                        "sudo apt install aws-neuronx-tools (dnf on Amazon Linux)")
            return
        said = ask(here, "neuron-explorer", "--version")
        number = re.search(r"\d+(?:\.\d+)+[\w.+-]*", said.out)
        version = number[0] if number and not said.failed else None
        if version and "stand-in" in said.out and "stand-in" not in version:
            version += "+stand-in"
        unclear = f"its answer names none: {printable(said.out.strip(), 60)!r}"
        self.set("explorer", version, said.failed or (explorer if number else unclear),
                 "neuron-explorer")
        if said.failed:
            self.missing["explorer"] = f"{said.failed}. Try `neuron-explorer --version` in a shell"
        elif "stand-in" in said.out and not here.synthetic:
            self.missing["explorer"] = ("neuron-explorer on PATH is a test stand-in; take its "
                                        "folder off PATH")

    def wheels(self) -> None:
        for name, dist in (("nki", "nki"), ("neuronx_cc", "neuronx-cc"), ("jax", "jax"),
                           ("torch_neuronx", "torch-neuronx")):
            wheel = _wheel(dist, self.here.packages)
            self.set(name, wheel.version, wheel.told, dist)
            if wheel.empty:
                self.notes.append(wheel.told)
            if name == "nki":
                self._judge_nki(wheel)
        plugin = _wheel("libneuronxla", self.here.packages)
        if plugin.empty:
            self.notes.append(plugin.told)
        self.fields["frameworks"] = tuple(
            name for name, there in (("jax", self.fields["jax"] and plugin.version),
                                     ("torch-neuronx", self.fields["torch_neuronx"])) if there)
        if self.fields["nki"] and _wheel("nrtpy", self.here.packages).version:
            self.notes.append("nrtpy is in this environment; it cannot share one with nki "
                              "(a name is in both): give it an environment of its own")
        releases = tested().releases
        number = ".".join((self.fields["nki"] or "").split(".")[:2])
        self.set("sdk", releases.get(number), f"the release of NKI {number}" if number in releases
                 else "NKI's version is of no release that the course knows" if number
                 else "no nki", "SDK")

    def _judge_nki(self, wheel: "_Wheel") -> None:
        if wheel.empty:
            self.missing["nki"] = wheel.told
        elif "stand-in" in (wheel.version or "") and not self.here.synthetic:
            self.missing["nki"] = "nki on this Python's path is a test stand-in; remove it"
        elif not wheel.version:
            legacy = _wheel("neuronx-cc", self.here.packages).version
            self.missing["nki"] = (
                f"no nki in this environment ({sys.prefix})"
                + (", and neuronx-cc's own neuronxcc.nki no longer compiles" if legacy else "")
                + f". {_environments(self.here)}")


def _why(finding: _Finding) -> str:
    """The first thing that a run lacks, with what to do; "" when it lacks nothing."""
    found, chip = finding.fields, finding.fields["chip"]
    if finding.here.refused:
        return finding.here.refused
    if not found["devices"]:
        return (f"no Neuron device here{finding.missing['driver']}; figures are recorded, "
                "published or modelled, and each says which")
    if os.environ.get("ROOFLINE_RECORDED") == "1":
        return "ROOFLINE_RECORDED=1 asks for what ships; unset it to measure here"
    if chip is None:
        return (f"a Neuron device of unknown kind ({finding.told['chip']}); the course knows "
                f"{', '.join(CHIPS)}")
    if chip not in CHIPS:
        return (f"{found['instance'] or chip}: kernels of the course run on {', '.join(CHIPS)}, "
                f"not on {chip}")
    return next((finding.missing[what] for what in ("access", "explorer", "nki")
                 if what in finding.missing), "")


def _numbered(folder: Path) -> list[Path]:
    """neuron0, neuron1, ... in a folder, by number; none when it is not to be read."""
    try:
        found = [path for path in folder.iterdir() if re.fullmatch(r"neuron\d+", path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: int(path.name[6:]))


def _chip(text: str) -> str | None:
    """"Trainium2", "Inf2", "trn1n.32xlarge" -> trn2, inf2, trn1."""
    found = re.match(r"(?:aws\s+)?(trainium|inferentia|trn|inf)\s*(\d*)", text.lower())
    if not found:
        return None
    return ("trn" if found[1].startswith("tr") else "inf") + (found[2] or "1")


def _no_driver(board: str, here: Installation) -> str:
    """What to do where there should be a device: " (...)", or "" on any other machine."""
    if _numbered(here.sys / "devices/virtual/neuron_device"):
        return f" (the driver has some, {here.dev} none: a container needs --device=/dev/neuron0)"
    if _chip(board):
        return (f" (this is a {printable(board, 40)} without {here.dev}/neuron0: install or load "
                "the driver, aws-neuronx-dkms)")
    return ""


def _documented_cores(chip: str | None) -> int | None:
    if chip not in CHIPS:
        return None
    return int(machine.get(chip, "device").facts["cores"].value)


def _whole(value: object) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if good else None  # type: ignore[return-value]


def _entries(said: Said) -> tuple[list[dict[str, Any]], str]:
    """The devices of `neuron-ls -j`, and what is odd about the answer."""
    if said.failed:
        return [], said.failed
    for start in [0, *(match.start() for match in re.finditer(r"^\s*\[", said.out, re.M))][:50]:
        try:
            data, _ = json.JSONDecoder().raw_decode(said.out[start:].lstrip())
        except (ValueError, RecursionError):
            continue
        if isinstance(data, list):
            good = [entry for entry in data if isinstance(entry, dict)
                    and _whole(entry.get("neuron_device")) is not None]
            odd = f"neuron-ls -j: {len(data) - len(good)} of {len(data)} rows name no device"
            return good, odd if len(good) < len(data) else ""
    return [], f"neuron-ls -j: expected a list in JSON, got {printable(said.out.strip(), 60)!r}"


def _holders(entry: Mapping[str, Any]) -> Iterator[Holder]:
    processes = entry.get("neuron_processes")
    for process in processes if isinstance(processes, list) else []:
        if isinstance(process, dict) and (pid := _whole(process.get("pid"))) is not None:
            command = printable(str(process.get("command", "")).strip(), 60)
            yield Holder(pid, command or "no command", entry["neuron_device"])


def _installed(here: Installation, names: Sequence[str]) -> tuple[dict[str, str], str]:
    """Versions of OS packages, and why there are none. Missing ones make these tools exit 1."""
    asked = (("dpkg-query", "-W", "-f", r"${Package} ${Version}\n"),
             ("rpm", "-q", "--qf", r"%{NAME} %{VERSION}\n"))
    for command in asked:
        if here.find(command[0]):
            rows = re.findall(r"^(aws-neuronx-[\w-]+) (\d\S*)$", ask(here, *command, *names).out,
                              re.M)
            if rows:
                return dict(rows), "package not installed"
    return {}, "no package of that name is installed"


class _Wheel(NamedTuple):
    """Version of an installed distribution, where it is or why it is not, PyPI's empty one."""

    version: str | None
    told: str
    empty: bool = False


# PyPI holds names of Neuron's packages with nothing inside but "WRONG PACKAGE".
EMPTY = {"nki": "0.0.1", "neuronx-cc": "1.0.post1", "torch-neuronx": "1.0", "libneuronxla": "1.0",
         "jax-neuronx": "0.0.0", "nrtpy": "0.0.1"}


def install(name: str) -> str:
    """The command for a package of Neuron's; with its bound pip never takes PyPI's empty one.

    >>> install("nki")
    'pip install "nki>0.0.1" --extra-index-url=https://pip.repos.neuron.amazonaws.com'
    """
    return f'pip install "{name}>{EMPTY[name]}" --extra-index-url={REPOSITORY}'


def _wheel(name: str, folders: list[str]) -> _Wheel:
    """Read from its metadata: importing nki here would change which nki the notebook has."""
    for found in importlib.metadata.distributions(name=name, path=folders):
        version, said = _metadata(found)
        if version == EMPTY.get(name, "none") or "WRONG PACKAGE" in said:
            return _Wheel(None, f"{name} {version} is the empty package that PyPI keeps under this "
                          f"name: pip uninstall -y {name}; {install(name)}", True)
        if version:
            return _Wheel(version, f"in {_place(found)}")
    for folder in folders:
        source = _file(Path(folder or ".") / name.replace("-", "_") / "__init__.py")
        if version_said := re.search(r"^__version__\s*=\s*[\"']([^\"']+)", source, re.M):
            return _Wheel(version_said[1], f"in {folder or '.'}, without metadata")
    return _Wheel(None, "not in this environment")


def _metadata(found: importlib.metadata.Distribution) -> tuple[str, str]:
    """Version and description; both "" when the metadata cannot be read."""
    try:
        text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    except (OSError, ValueError):
        return "", ""
    version = re.search(r"^Version:\s*(\S+)\s*$", text, re.M)
    return version[1] if version else "", text


def _place(found: importlib.metadata.Distribution) -> str:
    try:
        return str(Path(str(found.locate_file(""))).resolve())
    except (OSError, ValueError, NotImplementedError):
        return "this environment"


def _environments(here: Installation) -> str:
    """How to come to an environment that has nki: the image's own, by name, when they are there."""
    try:
        found = sorted(str(path) for path in here.opt.glob("aws_neuronx_venv_*") if path.is_dir())
    except OSError:
        found = []
    best = next((path for path in found if "_jax_" in path), found[0] if found else "")
    if best:
        return f"This image has one: source {best}/bin/activate"
    return install("nki")


# --- the tested matrix -----------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One combination of instance and image, and what of the course was run for it.

    python, framework   of the image's environment, `venv`
    off_device          what was checked without the chip
    on_device           the recording made on it; "none yet" until there is one
    """

    instance: str
    chip: str
    image: str
    sdk: str
    nki: str
    python: str
    venv: str
    framework: str
    off_device: tuple[str, ...]
    on_device: str


@dataclass(frozen=True)
class Tested(Sequence[Row]):
    """The rows of tested.toml.

    checks     what `off_device` names -> the file of tests
    releases   NKI's version -> the SDK it came with, e.g. "0.6" -> "2.32"
    """

    rows: tuple[Row, ...]
    checks: Mapping[str, str]
    releases: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def row(self, found: Probe) -> Row | None:
        """The row of this instance, release and, where it is the image's own, environment."""
        same = [row for row in self.rows
                if (row.instance, row.sdk) == (found.instance, found.sdk)]
        return next((row for row in same if row.venv == sys.prefix), same[0] if same else None)

    def line(self, found: Probe) -> str:
        """What was tested of the combination that a probe found, in one line."""
        what = f"{found.instance or found.chip or 'this machine'}, " + (
            f"SDK {found.sdk}" if found.sdk else "SDK unknown")
        row = self.row(found)
        if row is None:
            return f"tested: {what}: not in the matrix"
        return (f"tested: {what}: off the device {', '.join(row.off_device)}; "
                f"on a device: {row.on_device}")

    def __repr__(self) -> str:
        head = ("instance", "SDK", "NKI", "environment of the image", "Python", "framework",
                "off the device", "on a device")
        return "\n".join(aligned([head, *(
            (row.instance, row.sdk, row.nki, row.venv, row.python, row.framework,
             ", ".join(row.off_device), row.on_device) for row in self.rows)]))


def tested() -> Tested:
    """Which instances and images the course's device part was tried on, and how far."""
    data = tomllib.loads(resources.files(__package__).joinpath("tested.toml")
                         .read_text(encoding="utf-8"))
    releases = {nki: sdk for sdk, nki in data["nki_of_sdk"].items()}
    rows = (Row(**row | {"off_device": tuple(row["off_device"])}) for row in data["row"])
    return Tested(tuple(rows), data["checks"], releases)
