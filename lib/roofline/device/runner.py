"""Capture a kernel on the NeuronCore: run it, check what it gave, profile the second execution.

Question  how long does this kernel take on this device, by the device's own timeline?
Answer    capture(kernel, *args) -> Profile, saved as a recording with its provenance and flags
Assumes   a NeuronCore that nobody else holds, NKI 0.6 and neuron-explorer (probe says)
Ignores   host clocks: no time is taken around a run, a timeout apart

Each step is a process of its own, since a process holds its core until it ends: the kernel's run
(worker), the capture, and each view of it (explorer). Nothing is shown or recorded before the
outputs are right (gate); a failure leaves earlier recordings as they were and its log in
work/recorded/.failed/.
"""

import contextlib
import inspect
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from .. import nki, profile
from ..count import Uncounted
from ..profile import Profile, ProfileError
from ..profile.compare import DOUBLING
from . import chip, explorer, gate, store
from .explorer import Bench, CaptureError, Shot
from .gate import Tolerance, WrongOutput
from .launches import Launch, LaunchError, launch
from .plausibility import Flag, plausible
from .recording import RecordingError

__all__ = ["CaptureError", "CaptureInterrupted", "WrongOutput", "capture", "capture_launch",
           "capture_together"]

LIB = Path(__file__).resolve().parents[2]
FRAMEWORKS = ("numpy", "jax", "torch-neuronx")
FOREVER = 10_000_000  # executions of a neighbour; it is ended long before
TRIES = 240  # half seconds until a neighbour has to have begun
LOGS = 20  # of failed captures that are kept


class CaptureInterrupted(KeyboardInterrupt):
    """The reader stopped a capture; nothing of it is left."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def capture(kernel: Callable, /, *args: Any, lnc: int | None = None, core: int = 0,
            expect: Any = None, tolerance: float | None = None, framework: str | None = None,
            dge: bool = False, timeout_s: float = 900, **parameters: Any) -> Profile:
    """Run `kernel` on the device, check its outputs, profile it, save the recording.

    args        arrays, or (shape, dtype) of each, drawn from a fixed seed
    lnc         physical cores: 1 or 2 (trn2); follows kernel[2]
    core        logical core to run on
    expect      the outputs it has to give: an array or several, or a function of the arrays and
                parameters; the counting backend's unless given
    tolerance   relative; by the kernel's own dtypes and sums unless given
    framework   "numpy", "jax" or "torch-neuronx"; the first of them that takes it unless given
    dge         attribute transfers to tensors; many transfers may overflow the device's queue
    timeout_s   of each step
    parameters  the kernel's other arguments, by name

    Raises CaptureError, with what to do, where a step fails; WrongOutput where outputs are wrong.
    """
    call = launch(kernel, *args, lnc=lnc, **parameters)
    return capture_launch(call, core=core, expect=expect, tolerance=tolerance,
                          framework=framework, dge=dge, timeout_s=timeout_s).profile


def capture_launch(call: Launch, *, core: int = 0, expect: Any = None,
                   tolerance: float | None = None, framework: str | None = None,
                   dge: bool = False, timeout_s: float = 900) -> store.Recording:
    """The same of a launch; the recording itself."""
    here = ready(call, [core])
    want = wanted(call, here.chip or "", expect, tolerance)
    with _bench(call, here, core, timeout_s) as bench:
        ran = run(bench, call, here, framework, want)
        shot = explorer.capture(bench, ran.inputs, dge)
        return _recorded(bench, call, here, core, want, ran, shot, dge=dge)


def capture_together(call: Launch, cores: Iterable[int], *, expect: Any = None,
                     tolerance: float | None = None, framework: str | None = None,
                     dge: bool = False, timeout_s: float = 900) -> list[store.Recording]:
    """Each of these cores profiled in turn, while the others run the same kernel in a loop.

    A recording is flagged "overlap" where a neighbour is not known to have run throughout: the
    driver's count of its executions has to grow, and it has to be running still at the end.
    """
    told = list(cores)
    here = ready(call, told)
    want = wanted(call, here.chip or "", expect, tolerance)
    found = []
    for core in told:
        with _bench(call, here, core, timeout_s) as bench:
            ran = run(bench, call, here, framework, want)
            others = [one for one in told if one != core]
            with neighbours(bench, call, here, others, ran.inputs) as overlap:
                shot = explorer.capture(bench, ran.inputs, dge)
                odd = overlap()
            found.append(_recorded(bench, call, here, core, want, ran, shot, dge=dge,
                                   alongside=others, odd=odd))
    return found


# --- before anything runs ------------------------------------------------------------------------


def ready(call: Launch, cores: Sequence[int]) -> chip.Probe:
    """What is here, when this call can run on it. Raises CaptureError otherwise."""
    here = chip.probe()
    if not here.runs:
        raise CaptureError(f"{call.name}: nothing to capture on: {here.why}. device.measure() "
                           "shows the model's figure instead, labelled")
    if len(set(cores)) < max(1, len(cores)):
        raise CaptureError(f"{call.name}: cores: got {list(cores)}; expected each core once")
    try:
        for core in cores:
            here.environment(call.lnc, core)
        _ = call.file
    except (chip.ChipError, LaunchError) as error:
        raise CaptureError(f"{call.name}: {error}") from None
    return here


@dataclass(frozen=True)
class Wanted:
    """What the kernel has to give.

    outputs     arrays
    tolerance   how far a value may be off
    count       of the source on this chip, or None where it cannot be counted
    """

    outputs: tuple[np.ndarray, ...]
    tolerance: Tolerance
    counted: "nki.Run | None"


def wanted(call: Launch, on: str, expect: Any, tolerance: float | None) -> Wanted:
    """Outputs by the counting backend, or as the caller says. Raises CaptureError."""
    run, why = None, ""
    try:
        run = call.counted(on) if expect is not None else call.computed(on)
    except (nki.NkiValidationError, Uncounted) as error:
        why = str(error)
    if expect is not None:
        outputs = _arrays(expect(*call.inputs, **call.parameters) if callable(expect) else expect)
    elif run is not None:
        outputs = run.outputs
    else:
        raise CaptureError(f"{call.name}: what it has to give cannot be computed here: {why}\n"
                           "Pass expect=: an array, or a function of its arrays") from None
    if any(x.dtype.kind not in "iub" and np.isnan(x.astype(np.float32)).any() for x in outputs):
        raise CaptureError(f"{call.name}: the expected outputs hold NaN, so nothing can be checked "
                           "against them. Part of a tile is used before it is written, or expect= "
                           "has NaN")
    allowed = gate.tolerance(run, call.inputs) if tolerance is None else Tolerance(
        float(tolerance), "as told")
    return Wanted(outputs, allowed, run)


def _arrays(given: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, given if isinstance(given, (tuple, list)) else [given]))


@contextlib.contextmanager
def _bench(call: Launch, here: chip.Probe, core: int, timeout_s: float) -> Iterator[Bench]:
    """A part's folder to work in. What goes wrong in it leaves its log, and a clear error."""
    try:
        with store.part() as folder:
            (folder / "run" / "artifacts").mkdir(parents=True)
            bench = Bench(folder, _environment(folder, here, call.lnc, core), timeout_s, call.name)
            try:
                yield bench
            except BaseException as error:
                raise _told(error, bench) from None
    except RecordingError as error:
        raise CaptureError(f"{call.name}: {error}") from None


def _environment(folder: Path, here: chip.Probe, lnc: int, core: int) -> dict[str, str]:
    """Variables of every process of a capture."""
    made = here.child(lnc, core)
    made["PYTHONPATH"] = os.pathsep.join(filter(None, (made.get("PYTHONPATH"), str(LIB))))
    made["NKI_ARTIFACTS_DIR"] = str(folder / "run" / "artifacts")
    made["NKI_DEBUG_INFO"] = "True"  # source lines in the profile: environment-variables.rst
    made["NEURON_FRAMEWORK_DEBUG"] = "1"  # JAX: the NEFF into the working directory
    made["NEURON_COMPILE_CACHE_URL"] = str(folder / "run" / "cache")  # never an old NEFF
    made.pop("NEURON_CC_FLAGS", None)
    if here.logical:
        made["NEURON_CC_FLAGS"] = f"--lnc={lnc}"
    return made


def _told(error: BaseException, bench: Bench) -> BaseException:
    """The error in our form, with the place of the log."""
    kept = _keep_log(bench)
    if isinstance(error, KeyboardInterrupt):
        return CaptureInterrupted(f"{bench.kernel}: stopped by you; what it had started is ended, "
                                  "nothing was saved, earlier recordings are as they were")
    if isinstance(error, (RecordingError, ProfileError)):
        error = CaptureError(f"{bench.kernel}: {error}")
    if isinstance(error, MemoryError):
        error = CaptureError(f"{bench.kernel}: this machine's memory cannot hold the arrays. Take "
                             "smaller ones")
    if isinstance(error, OSError):
        error = CaptureError(f"{bench.kernel}: {error.strerror or error} "
                             f"({Path(str(error.filename or bench.folder)).name}). "
                             + (explorer.meaning(str(error)) or "Make the folder writable"))
    if isinstance(error, CaptureError) and kept:
        error.args = (f"{error}\n  log: {kept}",)
    return error


def _keep_log(bench: Bench) -> Path | None:
    """The log outside of the part's folder, which goes; None where there is none to keep."""
    with contextlib.suppress(OSError):
        folder = store.home() / ".failed"
        folder.mkdir(exist_ok=True)
        for old in sorted(folder.glob("*.txt"), key=lambda f: f.stat().st_mtime)[:-LOGS]:
            old.unlink()
        return Path(shutil.move(bench.log, folder / f"{bench.kernel}-{secrets.token_hex(2)}.txt"))
    return None


# --- the kernel's run ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """A run of the kernel whose outputs are right; its NEFF is the bench's kernel.neff.

    inputs      name of each array in the kernel, and its .npy file
    framework   which took it
    versions    of the packages that took part
    """

    inputs: tuple[tuple[str, str], ...]
    framework: str
    versions: Mapping[str, str]


def run(bench: Bench, call: Launch, here: chip.Probe, framework: str | None, want: Wanted) -> Ran:
    """Compile and run the kernel in a process of its own, and hold its outputs to `want`."""
    if framework not in (None, *FRAMEWORKS):
        raise CaptureError(f"{call.name}: framework: got {framework!r}; expected one of "
                           f"{', '.join(FRAMEWORKS)}")
    saved = _save_inputs(bench, call)
    tried = [framework] if framework else ["numpy", *here.frameworks]
    result: dict[str, Any] = {}
    for name in tried:
        result = _work(bench, call, saved, name)
        if not result.get("unsupported"):
            break
    if "error" in result:
        words = str(result["error"]).strip().splitlines() or ["no words"]
        raise bench.error(f"{result['step']} ({name})", words[0][:300].rstrip("."),
                          "Correct the kernel, or pass another framework=")
    outputs = [_output(bench, one, i, want) for i, one in enumerate(result["outputs"])]
    gate.check(call.name, outputs, want.outputs, want.tolerance)
    if not result["neff"]:
        raise bench.error("compile", "no .neff file was left",
                          "NKI_ARTIFACTS_DIR keeps it from NKI 0.6 on; see the log")
    shutil.copyfile(result["neff"], bench.folder / "kernel.neff")
    inputs = [(one["name"] if name == "numpy" else f"input{i}", f"run/{one['file']}")
              for i, one in enumerate(saved)]
    return Ran(tuple(inputs), name, result["versions"])


def _save_inputs(bench: Bench, call: Launch) -> list[dict[str, Any]]:
    """The arrays as .npy files under the names of the kernel's parameters.

    A type that NumPy cannot name (bf16, fp8) is saved as its bits, in an unsigned type: how the
    tool reads such files is not documented, and bits of the right number are what it needs. So
    its outputs are checked, too.
    """
    kernel = inspect.signature(inspect.unwrap(call.kernel))
    names = [p.name for p in kernel.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    if len(names) < len(call.inputs):
        raise CaptureError(f"{call.name}: its parameters do not name its {len(call.inputs)} "
                           "arrays, and a capture passes arrays by name. Name them in its def line")
    found = []
    for i, (name, x) in enumerate(zip(names, call.inputs, strict=False)):
        file = f"in{i}.npy"
        bits = x if x.dtype.isbuiltin == 1 else x.view(f"u{x.dtype.itemsize}")
        np.save(bench.folder / "run" / file, np.ascontiguousarray(bits))
        found.append({"name": name, "file": file, "dtype": x.dtype.name})
    return found


def _work(bench: Bench, call: Launch, inputs: list[dict[str, Any]], framework: str
          ) -> dict[str, Any]:
    """One run of the worker and what it says. Raises CaptureError where it says nothing."""
    job = {"file": str(call.file.resolve()), "sha256": call.source_sha256, "kernel": call.name,
           "lnc": call.lnc, "framework": framework, "inputs": inputs,
           "parameters": dict(call.parameters)}
    result = bench.folder / "run" / "result.json"
    result.unlink(missing_ok=True)
    (bench.folder / "run" / "job.json").write_text(json.dumps(job), encoding="utf-8")
    step = f"compile and run the kernel ({framework})"
    bench.run(step, [sys.executable, "-m", "roofline.device.worker", "job.json"], within="run")
    try:
        return dict(json.loads(result.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise bench.error(step, "it ended without a result", "") from None


def _output(bench: Bench, told: Mapping[str, Any], i: int, want: Wanted) -> np.ndarray:
    """An output of the worker; under the expected dtype where the device names none (|V2)."""
    from .worker import dtype_of
    raw = np.fromfile(bench.folder / "run" / told["file"], np.uint8)
    kind = dtype_of(told["dtype"]) if not told["dtype"].startswith("void") else None
    if i < len(want.outputs) and (kind is None or kind.itemsize == want.outputs[i].dtype.itemsize):
        kind = want.outputs[i].dtype if kind is None or kind.kind in "Vu" else kind
    return raw.view(kind or np.uint8).reshape(told["shape"])


# --- neighbours ----------------------------------------------------------------------------------


@contextlib.contextmanager
def neighbours(bench: Bench, call: Launch, here: chip.Probe, cores: Sequence[int],
               inputs: Sequence[tuple[str, str]]) -> Iterator[Callable[[], list[Flag]]]:
    """The same kernel in a loop on each of these cores; ended when the block is left.

    Yields a function: flags for the neighbours that are not known to have run all the time since.
    """
    running: dict[int, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for core in cores:
            beside = replace(bench, folder=bench.folder / "run" / f"core{core}",
                             environment={**bench.environment, **here.environment(call.lnc, core)})
            beside.folder.mkdir()
            said = stack.enter_context((beside.folder / ".said").open("wb"))
            running[core] = beside.start(_loop_command(bench, inputs), ".", said)
            stack.callback(explorer.end, running[core])
        zero = {core: executions(here, call.lnc, core) for core in cores}
        for core in cores:
            _wait_until_it_runs(bench, here, call.lnc, core, running[core], zero[core])
        start = {core: executions(here, call.lnc, core) for core in cores}

        def overlap() -> list[Flag]:
            return [Flag("overlap", f"core {core}: {why}") for core in cores if (why := _not_shown(
                running[core].poll(), start[core], executions(here, call.lnc, core)))]

        yield overlap


def _loop_command(bench: Bench, inputs: Sequence[tuple[str, str]]) -> list[str]:
    """--disable-profile: load and execute without a profile (how-to-profile-workload.rst)."""
    return [explorer.TOOL, "capture", "-n", str(bench.folder / "kernel.neff"), "-s",
            "neighbour.ntff", "--disable-profile", f"--num-exec={FOREVER}",
            *(word for name, file in inputs for word in (name, str(bench.folder / file)))]


def _wait_until_it_runs(bench: Bench, here: chip.Probe, lnc: int, core: int,
                        process: "subprocess.Popen[bytes]", before: int | None) -> None:
    """Until the driver has counted an execution on this core, or there is no way to know."""
    for _ in range(TRIES):
        now = executions(here, lnc, core)
        if process.poll() is not None:
            log = bench.folder / "run" / f"core{core}" / "log.txt"
            with bench.log.open("ab") as whole:
                whole.write(b"\n$ (core %d)\n" % core + log.read_bytes())
            raise bench.error(f"neighbour on core {core}", "it ended before the capture began", "")
        if before is None or (now or 0) > before:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)


def executions(here: chip.Probe, lnc: int, core: int) -> int | None:
    """The driver's count of executions on a logical core; None where it does not tell.

    Source: neuron-sysfs-user-guide.rst. Which of its numbers a logical core of two has is not
    documented: that of the pair's first physical core, or the one of the pair that counts.
    """
    each = here.physical_cores or 1
    device, first = divmod(core * lnc, each)
    top = here.here.sys / "devices" / "virtual" / "neuron_device" / f"neuron{device}"
    found = []
    for one in range(first, first + lnc):
        counter = top / f"neuron_core{one}" / "stats" / "other_info" / "inference_count"
        for file in (counter / "total", counter):
            with contextlib.suppress(OSError, ValueError):
                found.append(int(file.read_text()))
                break
    return max(found, default=None)


def _not_shown(ended: int | None, before: int | None, after: int | None) -> str:
    """Why it is not shown that a neighbour ran all the time; "" when it is."""
    if ended is not None:
        return "it ended before the capture did"
    if before is None or after is None:
        return "the driver does not count its executions here"
    return "" if after > before else "no execution of it was counted during the capture"


# --- what comes of it ----------------------------------------------------------------------------


def _recorded(bench: Bench, call: Launch, here: chip.Probe, core: int, want: Wanted, ran: Ran,
              shot: Shot, *, dge: bool, alongside: Sequence[int] = (), odd: Sequence[Flag] = ()
              ) -> store.Recording:
    """View the capture, look at it from all sides, save it."""
    unchecked = _check_saved(bench, call, want, shot)
    found = profile.read(explorer.summary(bench, shot.trace))
    whole, why = explorer.timeline(bench, shot.trace)
    provenance = _provenance(call, here, core, ran, shot, whole or found) | {"dge": dge} | (
        {"alongside": list(alongside)} if alongside else {})
    judged = replace(whole or found, provenance=provenance)
    flags = [*unchecked, *odd, *flags_of(judged, call, here, want, shot)]
    if whole is None:
        flags.append(Flag("no timeline", why))
    for path in (bench.folder / "run", bench.folder / ".said", *shot.outputs):
        explorer._remove(path)
    return store.save(bench.folder, key=call.key(here.chip or ""), provenance=provenance,
                      kernel=call.file.read_bytes(), flags=flags)


def _check_saved(bench: Bench, call: Launch, want: Wanted, shot: Shot) -> list[Flag]:
    """Hold the outputs of the profiled execution itself to `want`; a flag where none are found.

    They tell whether the tool took the inputs: by itself it fills in zeros.
    """
    if len(shot.outputs) != len(want.outputs):
        return [Flag("unchecked", f"{len(shot.outputs)} of {len(want.outputs)} outputs of the "
                     "profiled execution were found; those of an earlier run were right")]
    left = list(want.outputs)
    for file in shot.outputs:
        raw = np.fromfile(file, np.uint8)
        fits = [i for i, w in enumerate(left) if w.nbytes == raw.size]
        if not fits:
            return [Flag("unchecked", f"{file.name}: {raw.size:,} bytes, which no output has")]
        got = {i: raw.view(left[i].dtype).reshape(left[i].shape) for i in fits}
        right = [i for i in fits if not gate.wrong(got[i], left[i], want.tolerance)]
        if not right:
            gate.check(call.name, [got[fits[0]]], [left[fits[0]]], want.tolerance,
                       "the profiled execution")
        del left[(right or fits)[0]]
    return []


def flags_of(found: Profile, call: Launch, here: chip.Probe, want: Wanted, shot: Shot
             ) -> list[Flag]:
    """What is odd about this profile: cold, cores, doubled, and what plausibility says."""
    flags = []
    if not shot.warm:
        flags.append(Flag("cold", f"{shot.trace.name} is not known to be the second execution"))
    if found.timeline is not None and found.cores != call.lnc:
        flags.append(Flag("cores", f"the profile is of {found.cores} physical core(s), the launch "
                          f"of {call.lnc}"))
    if want.counted is None:
        return flags
    with contextlib.suppress(ProfileError):
        if any(profile.compare(want.counted, found)[DOUBLING]):
            flags.append(Flag("doubled", "every core did all of it: the profile has just twice "
                              "the source's FLOPs and bytes"))
    return [*flags, *plausible(found, want.counted, here.chip)]


def _provenance(call: Launch, here: chip.Probe, core: int, ran: Ran, shot: Shot, found: Profile
                ) -> dict[str, Any]:
    """Who ran what, where and when: store.PROVENANCE."""
    version = ran.versions.get
    framework = "standalone" if ran.framework == "numpy" else (
        f"{ran.framework} {version(ran.framework, '')}".strip())
    return {
        "kind": "measured", "chip": here.chip, "instance": here.instance, "lnc": call.lnc,
        "cores": [core], "kernel": call.name, "shapes": [list(shape) for shape, _ in call.shapes],
        "dtypes": [dtype for _, dtype in call.shapes], "parameters": dict(call.parameters),
        "execution": "second of 2" if shot.warm else "unknown", "warm": shot.warm,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "python": here.python,
        "nki": version("nki", here.nki), "compiler": version("neuronx-cc", here.neuronx_cc),
        "explorer": here.explorer, "sdk": here.sdk, "driver": here.driver,
        "runtime": here.runtime, "framework": framework, "schema": found.version,
        "synthetic": here.synthetic}
