"""neuron-explorer on the command line: capture one execution of a NEFF, and write it out.

Question  what did the profiler see while the device ran this compiled kernel?
Answer    capture() -> the trace of the second execution; summary(), timeline(): files to read
Assumes   the documented flags: how-to-profile-workload.rst, use-neuron-profile.rst, get-started.rst
Ignores   what the files say (profile) and whether the outputs are right (gate)

Not documented, and so looked for in more than one way: the name of the trace (`_exec_2` and
`_rank_0` are), the folder and the names of saved outputs, log lines before a summary.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ..profile import Profile, ProfileError, read
from ..table import Told, printable
from .chip import end
from .lease import Lease

TOOL = "neuron-explorer"
GRACE_S = 5  # from the request to end until the end without asking
TAIL = 8  # lines of a tool's own words in an error
LEASH = Path(__file__).with_name("leash.py")


class CaptureError(Told, RuntimeError):
    """A run or a capture that gave nothing to trust: what, got, limit, next step."""


BUSY = ("Another process holds the core, or the runtime pairs cores otherwise. `neuron-ls` names "
        "it: end it (a notebook's kernel holds cores until it is shut down), or pass another core=")
# What the tools' words mean. NRT_*: nrt_status.rst; 5 GB, the overflow: troubleshooting.rst,
# use-neuron-profile.rst; "not available" and "busy": not documented, users of 2.31 and 2.32 report.
MEANINGS = tuple((re.compile(pattern, re.IGNORECASE), said) for pattern, said in (
    (r"NRT_EXEC_NC_BUSY|NRT_LOAD_NOT_ENOUGH_NC|locked \(in use\)|cores? busy"
     r"|cores?(\(s\))? not available|device or resource busy", BUSY),
    (r"no space left on device",
     "The disk is full: free some space; a capture needs several times the size of its trace"),
    (r"NRT_EXEC_SW_NQ_OVERFLOW|notification queue",
     "With DGE notifications a kernel of many transfers overflows the device's queue: leave out "
     "dge=True, or take fewer transfers"),
    (r"failed to allocate|NRT_RESOURCE|NRT_FAIL_HOST_MEM_ALLOC|out of memory"
     r"|cannot allocate memory",
     "Memory ran out: profiling takes some 5 GB of HBM on Trn2. End other processes on the device, "
     "or take smaller arrays"),
    (r"NRT_UNSUPPORTED_NEFF_VERSION",
     "The runtime does not know this kind of NEFF: nki, runtime and tools have to be of one SDK "
     "(the probe lists them)"),
    (r"NRT_EXEC_OOB",
     "An indirect transfer reads or writes outside of its tensor: check the indices"),
    (r"NRT_EXEC_HW_ERR|NRT_HW_ERROR|NRT_EXEC_UNIT_UNRECOVERABLE",
     "The hardware reports an error: run it again, and if it stays, stop and start the instance"),
    (r"NRT_INVALID\b|NRT_EXEC_BAD_INPUT",
     "The runtime refuses an input or the NEFF: names and sizes of the inputs, the logical cores "
     "(lnc=) and the chip have to be those it was compiled for"),
    (r"unknown (flag|option)",
     "This version of the tool is another than the documents describe: update aws-neuronx-tools"),
    (r"NRT_TIMEOUT|execution timeout|timed out",
     "The device did not finish in the runtime's time (NEURON_RT_EXEC_TIMEOUT, s): a shorter "
     "kernel, or without dge=True"),
))


def meaning(text: str) -> str:
    """The next step that a tool's words call for, as a sentence without its stop, or ""."""
    return next((said for pattern, said in MEANINGS if pattern.search(text)), "")


@dataclass(frozen=True)
class Bench:
    """A folder in which commands run one after the other, and their log.

    folder       fresh; log.txt in it holds each command and all it said
    environment  of the commands; its PATH finds them
    timeout_s    of each command
    kernel       what errors start with
    others       processes that held cores before it began, in words
    tell         is told each step as it begins
    lease        of cores: as long as a command runs, they are not given to anybody else
    """

    folder: Path
    environment: Mapping[str, str]
    timeout_s: float
    kernel: str
    others: str = ""
    tell: Callable[[str], None] = lambda step: None
    lease: Lease = field(default_factory=lambda: Lease(()))

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def run(self, step: str, command: Sequence[str], within: str = ".") -> str:
        """Run one command to its end and return what it said; nothing of it is left running.

        Raises CaptureError when it cannot start, does not end in time, or fails.
        """
        self.tell(step)
        with self.log.open("ab") as log:
            self._ended(step, self.start(command, within, log))
        return "\n".join(self.words())

    def stdout(self, step: str, command: Sequence[str]) -> str:
        """The same, and its stdout alone: a summary is not to be mixed with what stderr says."""
        self.tell(step)
        with (self.folder / ".stdout").open("w+b") as file:
            try:
                self._ended(step, self.start(command, ".", file))
            finally:
                file.seek(0)
                text = file.read()
                with self.log.open("ab") as log:
                    log.write(text)
        return text.decode(errors="replace")

    def start(self, command: Sequence[str], within: str, stdout: IO[bytes]
              ) -> subprocess.Popen[bytes]:
        """Start a command as a group of its own, which `end` ends with all its children.

        Should this process be killed, all of it ends (leash): nothing holds a core unseen.
        """
        found = shutil.which(command[0], path=self.environment.get("PATH"))
        if not found:
            raise CaptureError(f"{self.kernel}: {command[0]} is not on PATH. Install "
                               "aws-neuronx-tools; its tools are in /opt/aws/neuron/bin")
        with self.log.open("ab") as log:
            log.write(f"\n$ {shlex.join(command)}\n".encode())
            log.flush()
            return subprocess.Popen(
                [sys.executable, "-IS", str(LEASH), str(os.getpid()), found, *command],
                cwd=self.folder / within, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=log, start_new_session=True, pass_fds=self.lease.files)

    def _ended(self, step: str, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end. Raises CaptureError for a late one or a failure."""
        try:
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            raise self.error(step, f"no end after {self.timeout_s:g} s, so it was ended",
                             "Pass a larger timeout_s=, or find in the log what it waited for"
                             ) from None
        finally:
            end(process, GRACE_S)
        if code:
            raise self.error(step, _how(code))

    def error(self, step: str, got: str, advice: str = "The log has all it said") -> CaptureError:
        """The error of a step: what, got, next step, and the last words of the tool."""
        lines = self.words()
        known = meaning("\n".join(lines))
        held = f" Before it began: {self.others}." * (known == BUSY and bool(self.others))
        tail = "".join(f"\n  | {printable(line, 160)}" for line in lines[-TAIL:])
        return CaptureError(f"{self.kernel}: {step}: {got}. {known or advice}.{held}{tail}")

    def words(self) -> list[str]:
        """What the last command said, without empty lines."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 200_000))
            text = log.read().decode(errors="replace")
        return [line for line in text.rpartition("\n$ ")[2].splitlines()[1:] if line.strip()]


def _how(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = ": the machine may have run out of memory" * (name == "SIGKILL")
        return f"it was ended by {name}{memory}"
    return f"it failed with exit code {code}"


# --- capture -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shot:
    """What a capture left.

    trace    the .ntff of the profiled execution, in the bench's folder
    warm     whether its name says that it is the second execution
    outputs  files with the bytes of the profiled execution's results, where they were found
    """

    trace: Path
    warm: bool
    outputs: tuple[Path, ...]


def capture(bench: Bench, inputs: Sequence[tuple[str, Path]], dge: bool) -> Shot:
    """Run kernel.neff twice on the device and profile the second execution, with these inputs.

    inputs   name of the compiled kernel's input, and its .npy file within the folder. Without
             them the tool fills in zeros
    dge      attribute transfers to tensors; many transfers may overflow the device's queue
    """
    before = set(bench.folder.iterdir())
    try:
        said = bench.run("capture", capture_command(inputs, dge))
    except CaptureError:
        if not any(re.search("save.output", line) for line in bench.words()):
            raise
        said = bench.run("capture", capture_command(inputs, dge, outputs=False))
    trace = _trace(bench)
    return Shot(trace, "_exec_2" in trace.name, _outputs(bench.folder, said, {*before, bench.log}))


def capture_command(inputs: Sequence[tuple[str, Path]], dge: bool, outputs: bool = True
                    ) -> list[str]:
    """As how-to-profile-workload.rst has it. --num-exec is 1 there, --profile-nth-exec=2 needs 2.

    >>> " ".join(capture_command([("x", Path("run/in0.npy"))], dge=False, outputs=False))
    'neuron-explorer capture -n kernel.neff -s profile.ntff --num-exec=2 --profile-nth-exec=2 x run/in0.npy'
    """  # noqa: E501
    return [TOOL, "capture", "-n", "kernel.neff", "-s", "profile.ntff",
            *["--save-output"] * outputs, "--num-exec=2", "--profile-nth-exec=2",
            *["--enable-dge-notifs"] * dge, *(str(word) for pair in inputs for word in pair)]


def _trace(bench: Bench) -> Path:
    """The trace, whichever of its names it has: `_exec_2` before others, `_rank_0` before 1."""
    found = sorted(bench.folder.glob("*.ntff"))
    full = [file for file in found if file.stat().st_size]
    if not full:
        got = (f"{', '.join(file.name for file in found)} of 0 bytes" if found
               else "no .ntff file, and exit code 0")
        raise bench.error("capture", f"{got}; expected profile_exec_2.ntff",
                          "No execution was profiled: run it again, and see the log")
    best = min(full, key=lambda file: ("_exec_2" not in file.name, file.name))
    for other in found:
        if other != best:
            other.unlink()
    return best


def _outputs(folder: Path, said: str, before: set[Path]) -> tuple[Path, ...]:
    """Files of saved outputs: those the tool names, else whatever is new beside its trace.

    --save-output writes their bytes, whatever the dtype; .npy files know NumPy's dtypes alone.
    """
    named = [folder / name for name in re.findall(r'saved output "[^"]*" as "([^"]+)"', said)]
    if named and all(file.is_file() for file in named):
        return tuple(named)
    return tuple(sorted(file for file in set(folder.iterdir()) - before
                        if file.is_file() and file.suffix != ".ntff" and file.name[0] != "."))


# --- view ----------------------------------------------------------------------------------------


def summary(bench: Bench, trace: Path) -> Path:
    """summary.json: the profiler's counters. Raises CaptureError where there is none."""
    said = bench.stdout("view, summary", view_command(trace, "--output-format", "summary-json"))
    found = json_text(said)
    if not found:
        raise bench.error("view, summary", "no whole summary on its stdout",
                          "Without one there is no time: run the command of the log by hand")
    path = bench.folder / "summary.json"
    path.write_text(found, encoding="utf-8")
    try:
        read(path).needs("total_time")
    except ProfileError as error:
        raise bench.error("view, summary", str(error).removesuffix("."),
                          "Run the command of the log by hand") from None
    return path


def view_command(trace: Path, *how: str) -> list[str]:
    return [TOOL, "view", "-n", "kernel.neff", "-s", trace.name, *how]


def json_text(said: str) -> str:
    """The first JSON object in a tool's stdout that is a summary, or ""; log lines may precede it.

    >>> json_text('INFO {3 rows} read\\n{"n_0": {"total_time": 1e-6}}\\n')
    '{"n_0": {"total_time": 1e-6}}'
    """
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", said):
        with contextlib.suppress(ValueError, RecursionError):
            found, stop = decoder.raw_decode(said, match.start())
            inner = found.values() if isinstance(found, dict) else ()
            if any(isinstance(one, dict) and "total_time" in one for one in (found, *inner)):
                return said[match.start():stop]
    return ""


def timeline(bench: Bench, trace: Path) -> tuple[Profile | None, str]:
    """The profile with its timeline, from timeline.json or parquet/; else None, and why.

    2.32 has been seen to write an empty json, so parquet comes second. What cannot be read is
    not kept.
    """
    why = []
    for name, write in (("timeline.json", _json), ("parquet", _parquet)):
        try:
            path = write(bench, trace)
            found = read(path)
            found.needs("total_time")
            if found.timeline is not None and len(found.timeline.instructions):
                return found, ""
            why.append(f"{name}: no instruction in it")
        except (CaptureError, ProfileError) as error:
            why.append(f"{name}: {str(error).splitlines()[0]}")
        remove(bench.folder / name)
    return None, "; ".join(why)


def _json(bench: Bench, trace: Path) -> Path:
    path = bench.folder / "timeline.json"
    bench.run("view, json", view_command(
        trace, "--output-format", "json", "--output-file", path.name))
    if not path.is_file() or not path.stat().st_size:
        raise bench.error("view, json", "it wrote nothing")
    return path


def _parquet(bench: Bench, trace: Path) -> Path:
    """Tables in parquet/, from where the tool keeps them: how-to-analyze-profile-output.rst."""
    bench.run("view, parquet", view_command(
        trace, "--ingest-only", "--display-name", "kernel", "--data-path", "ingest"))
    try:
        tables = sorted(bench.folder.glob("ingest/profiles/global/kernel*/**/*.parquet"))
        if not tables:
            raise bench.error("view, parquet", "no table in ingest/profiles/global/")
        path = bench.folder / "parquet"
        shutil.copytree(tables[0].parent, path)
    finally:
        remove(bench.folder / "ingest")
    return path


def remove(path: Path) -> None:
    """A file or folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
