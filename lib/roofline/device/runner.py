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
import json
import math
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from .. import nki, profile, units
from ..count import Uncounted
from ..nki import dtypes
from ..profile import Profile, ProfileError
from ..profile.compare import DOUBLING
from ..table import Told, printable
from . import chip, explorer, gate, store
from .explorer import Bench, CaptureError, Shot
from .gate import Tolerance, WrongOutput
from .launches import Launch, LaunchError, launch
from .lease import Lease, LeaseError, take
from .neighbours import neighbours
from .plausibility import SAME_BYTES, Flag, plausible
from .recording import RecordingError
from .worker import RUN as FRAMEWORKS
from .worker import bits, dtype_of

__all__ = ["CaptureError", "CaptureInterrupted", "WrongOutput", "capture", "capture_launch",
           "capture_together"]

LIB = Path(__file__).resolve().parents[2]
LOGS = 20  # of failed captures that are kept


class CaptureInterrupted(Told, KeyboardInterrupt):
    """The reader stopped a capture; nothing of it is left."""


def capture(kernel: Callable, /, *args: Any, lnc: int | None = None, core: int | None = None,
            expect: Any = None, tolerance: float | None = None, framework: str | None = None,
            dge: bool = False, timeout_s: float = 900, **parameters: Any) -> Profile:
    """Run `kernel` on the device, check its outputs, profile it, save the recording.

    args        arrays, or (shape, dtype) of each, drawn from a fixed seed
    lnc         physical cores: 1 or 2 (trn2); follows kernel[2]
    core        logical core to run on: 0 unless given. Where a class shares the instance
                (ROOFLINE_CORES) any free one, and a named one is waited for
    expect      the outputs it has to give: an array or several, or a function of the arrays and
                the parameters of this call; the counting backend's unless given
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


def capture_launch(call: Launch, *, core: int | None = None, **how: Any) -> store.Recording:
    """The same of a launch; the recording itself.

    how   expect, tolerance, framework, dge, timeout_s: as `capture` has them; tell: a function
          that is told each step as it begins, and the place in the queue of a shared instance
    """
    job = _job(call, [core or 0], **how)
    with _leased(job, None if core is None else [core]) as lease:
        [core] = lease.cores
        with _bench(job, core, lease) as bench:
            ran = run(bench, job)
            shot = explorer.capture(bench, ran.inputs, job.dge)
            lease.close()  # the views need no core
            return _recorded(bench, Made(job, core, ran, shot))


def capture_together(call: Launch, cores: Iterable[int], **how: Any) -> list[store.Recording]:
    """Each of these cores profiled in turn, while the others run the same kernel in a loop.

    A recording is flagged "overlap" where a neighbour is not known to have run throughout: the
    driver's count of its executions has to grow, and it has to be running still at the end.
    """
    told = list(cores)
    job = _job(call, told, **how)
    with _leased(job, told) as lease, _bench(job, told[0], lease) as first:
        ran = run(first, job)
        return [_amid(first, job, ran, core, tuple(k for k in told if k != core)) for core in told]


def _amid(first: Bench, job: "Job", ran: "Ran", core: int, others: tuple[int, ...]
          ) -> store.Recording:
    """One core profiled among its neighbours, with the NEFF and the inputs of the first bench."""
    with _bench(job, core, first.lease) as bench:
        shutil.copyfile(first.log, bench.log)
        shutil.copyfile(first.folder / "kernel.neff", bench.folder / "kernel.neff")
        inputs = [(name, first.folder / file) for name, file in ran.inputs]
        with neighbours(bench, job.here, job.call.lnc, others, inputs) as overlap:
            shot = explorer.capture(bench, inputs, job.dge)
            odd = overlap()
        return _recorded(bench, Made(job, core, ran, shot, others), odd)


def _leased(job: "Job", cores: Sequence[int] | None) -> Lease:
    """The cores to run on; where others share the instance, once it is our turn."""
    call = job.call
    try:
        lease = take(call.title, call.lnc, cores, job.tell)
    except LeaseError as error:
        raise CaptureError(f"{call.name}: {error}") from None
    except KeyboardInterrupt:
        raise CaptureInterrupted(f"{call.name}: stopped by you while it waited for a core; its "
                                 "place is given up, and nothing has run") from None
    try:
        for core in lease.cores:
            job.here.environment(call.lnc, core)
    except chip.ChipError as error:
        lease.close()
        raise CaptureError(f"{call.name}: the queue gives out a core that is not here: {error}. "
                           "Tell the instructor") from None
    return lease


# --- before anything runs ------------------------------------------------------------------------


def ready(call: Launch, cores: Sequence[int]) -> chip.Probe:
    """What is here, when this call can run on it. Raises CaptureError otherwise."""
    here = chip.probe()
    if not here.runs:
        raise CaptureError(f"{call.name}: nothing to capture on: {here.why}. device.measure() "
                           "shows the model's figure instead, labelled")
    if not 0 < len(cores) == len(set(cores)):
        raise CaptureError(f"{call.name}: cores: got {list(cores)}; expected each core once")
    try:
        for core in cores:
            here.environment(call.lnc, core)
        call.check()
    except chip.ChipError as error:
        raise CaptureError(f"{call.name}: {error}") from None
    except LaunchError as error:
        raise CaptureError(str(error)) from None
    return here


@dataclass(frozen=True)
class Wanted:
    """What the kernel has to give.

    outputs     arrays
    tolerance   how far a value may be off
    counted     the source on this chip, or None where it cannot be counted
    told        whether the caller said what: then it takes on the dtypes that come
    """

    outputs: tuple[np.ndarray, ...]
    tolerance: Tolerance
    counted: "nki.Run | None"
    told: bool

    def like(self, got: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The outputs, under the dtypes of those that came where the caller named others."""
        if not self.told or len(got) != len(self.outputs):
            return self.outputs
        return tuple(w if w.dtype == g.dtype else dtypes.cast(
            w if w.dtype.kind in "iu" else w.astype(np.float32), dtypes.of(g.dtype))
            for g, w in zip(got, self.outputs, strict=True))


@dataclass(frozen=True)
class Job:
    """What is asked of a capture: `capture` says how it is meant.

    want   what the kernel has to give
    tell   is told each step as it begins; None: nobody asks
    """

    call: Launch
    here: chip.Probe
    want: Wanted
    framework: str | None
    dge: bool
    timeout_s: float
    tell: Callable[[str], None] | None

    @property
    def chip(self) -> str:
        return self.here.chip or ""


def _job(call: Launch, cores: Sequence[int], *, expect: Any = None,
         tolerance: float | None = None, framework: str | None = None, dge: bool = False,
         timeout_s: float = 900, tell: Callable[[str], None] | None = None) -> Job:
    """The job, when it can be done here. Raises CaptureError otherwise."""
    if framework not in (None, *FRAMEWORKS):
        raise CaptureError(f"{call.name}: framework: got {framework!r}; expected one of "
                           f"{', '.join(FRAMEWORKS)}")
    here = ready(call, cores)
    if tell:
        tell("compute what it has to give, on NumPy" if expect is None else "count its source")
    want = wanted(call, here.chip or "", expect, tolerance)
    return Job(call, here, want, framework, dge, timeout_s, tell)


def wanted(call: Launch, on: str, expect: Any, tolerance: float | None) -> Wanted:
    """Outputs by the counting backend, or as the caller says. Raises CaptureError."""
    run, why = None, ""
    try:
        run = call.counted(on) if expect is not None else call.computed(on)
    except nki.NkiValidationError as error:
        why = f"{error}\nCorrect the kernel; or, where the device takes it all the same, pass"
    except Uncounted as error:
        why = f"{error}\nPass"
    if expect is not None:
        outputs = _arrays(expect(*call.inputs, **{n: call.parameters[n] for n in call.given})
                          if callable(expect) else expect)
    elif run is not None:
        outputs = run.outputs
    else:
        raise CaptureError(f"{call.name}: what it has to give cannot be computed here: {why} "
                           "expect=: an array, or a function of its arrays") from None
    if any(map(dtypes.holds_nan, outputs)):
        raise CaptureError(f"{call.name}: the expected outputs hold NaN, so nothing can be checked "
                           "against them. Part of a tile is used before it is written, or expect= "
                           "has NaN")
    if not any(x.any() for x in outputs):
        raise CaptureError(f"{call.name}: the expected outputs are all 0, and so are those of a "
                           "kernel that writes nothing. Pass inputs that give something else")
    allowed = gate.tolerance(run, call.inputs, outputs) if tolerance is None else Tolerance(
        float(tolerance), "as told")
    return Wanted(outputs, allowed, run, expect is not None)


def _arrays(given: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, given if isinstance(given, (tuple, list)) else [given]))


@contextlib.contextmanager
def _bench(job: Job, core: int, lease: Lease) -> Iterator[Bench]:
    """A part's folder to work in. What goes wrong in it leaves its log, and a clear error."""
    call, here = job.call, job.here
    try:
        with store.part() as folder:
            bench = Bench(folder, _environment(folder, here, call.lnc, core), job.timeout_s,
                          call.name, ", ".join(map(str, here.others)),
                          job.tell or (lambda step: None), lease)
            try:
                (folder / "run" / "artifacts").mkdir(parents=True)
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
    for name in ("NEURON_CC_FLAGS", "NEURON_RT_ENABLE_DGE_NOTIFICATIONS"):  # a capture says its own
        made.pop(name, None)
    if here.logical:
        made["NEURON_CC_FLAGS"] = f"--lnc={lnc}"  # of JAX: logical-neuroncore-config.rst
    return made


def _told(error: BaseException, bench: Bench) -> BaseException:
    """The error in our form, with the place of the log."""
    if isinstance(error, CaptureInterrupted) or "\n  log: " in str(error):
        return error  # told already, by the bench of one core among several
    kept = _keep_log(bench)
    if isinstance(error, KeyboardInterrupt):
        others = ", or by the instructor" * bool(bench.lease.files)
        return CaptureInterrupted(f"{bench.kernel}: stopped by you{others}; what it had started is "
                                  "ended, what was not finished is not saved, recordings are as "
                                  "they were")
    if isinstance(error, LaunchError):  # a file was changed meanwhile
        error = CaptureError(str(error))
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

    inputs      name of each array in the compiled kernel, and its .npy file
    outputs     as they came
    framework   which took it
    versions    of the packages that took part
    """

    inputs: tuple[tuple[str, Path], ...]
    outputs: tuple[np.ndarray, ...]
    framework: str
    versions: Mapping[str, str]


def run(bench: Bench, job: Job) -> Ran:
    """Compile and run the kernel in a process of its own, and hold its outputs to job.want."""
    call, want = job.call, job.want
    saved = _save_inputs(bench, call)
    result, name = _first(bench, call, saved, [job.framework] if job.framework else [
        "numpy", *job.here.frameworks])
    due = [*(x.dtype for x in want.outputs), *(x.dtype for x in call.inputs)]
    outputs = tuple(_output(bench, one, due[i:]) for i, one in enumerate(result["outputs"]))
    gate.check(call.name, outputs, want.like(outputs), want.tolerance)
    if not result["neff"]:
        raise bench.error("compile", "no .neff file was left",
                          "NKI_ARTIFACTS_DIR keeps it from NKI 0.6 on; see the log")
    shutil.copyfile(result["neff"], bench.folder / "kernel.neff")
    inputs = [(one["name"] if name == "numpy" else f"input{i}",  # of frameworks: users' reports
               Path("run", one["file"])) for i, one in enumerate(saved)]
    return Ran(tuple(inputs), outputs, name, result["versions"])


def _first(bench: Bench, call: Launch, saved: list[dict[str, Any]], frameworks: Sequence[str]
           ) -> tuple[dict[str, Any], str]:
    """The result of the first framework that takes the kernel. Raises CaptureError for none."""
    said = []
    for name in frameworks:
        result = _work(bench, call, saved, name)
        if "error" not in result:
            return result, name
        words = str(result["error"]).strip().splitlines() or ["no words"]
        said.append(f"{result['step']} ({name}): {printable(words[0], 300).rstrip('.')}")
        if result.get("refused"):  # which says what to do
            what, _, advice = printable(str(result["error"]), 600).rpartition(". ")
            raise bench.error("run", f"{result['step']} ({name}): {what or advice}",
                              advice if what else "Correct the kernel")
        if not result.get("unsupported"):
            break
    raise bench.error("run", "; ".join(said), "Correct the kernel, or pass another framework=")


def _save_inputs(bench: Bench, call: Launch) -> list[dict[str, Any]]:
    """The arrays as .npy files under the names of the kernel's parameters.

    A type that NumPy cannot name (bf16, fp8) is saved as its bits, in an unsigned type: how the
    tool reads such files is not documented, and bits of the right number are what it needs. So
    its outputs are checked, too.
    """
    if len(call.names) < len(call.inputs):
        raise CaptureError(f"{call.name}: its parameters do not name its {len(call.inputs)} "
                           "arrays, and a capture passes arrays by name. Name them in its def line")
    found = []
    for i, (name, x) in enumerate(zip(call.names, call.inputs, strict=True)):
        file = f"in{i}.npy"
        np.save(bench.folder / "run" / file, np.ascontiguousarray(bits(x)))
        found.append({"name": name, "file": file, "dtype": x.dtype.name})
    return found


def _work(bench: Bench, call: Launch, inputs: list[dict[str, Any]], framework: str
          ) -> dict[str, Any]:
    """One run of the worker and what it says. Raises CaptureError where it says nothing."""
    job = {"file": str(call.file.resolve()), "main": call.main.name, "kernel": call.name,
           "sources": {str(one.file.resolve()): call.digests[name]
                       for name, one in call.sources.items()},
           "modules": {one.module: str(one.file.resolve())
                       for one in call.sources.values() if one.file != call.file},
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
        raise bench.error(step, "it ended without a result") from None


def _output(bench: Bench, told: Mapping[str, Any], due: Sequence[np.dtype[Any]]) -> np.ndarray:
    """An output of the worker.

    due   where the device gives bytes without a dtype (|V2: nrtpy-troubleshooting.rst) it is the
          first of these of its size
    """
    raw = np.fromfile(bench.folder / "run" / told["file"], np.uint8)
    kind = dtype_of(told["dtype"])
    if told["dtype"].startswith("void"):
        kind = next((one for one in due if one.itemsize == kind.itemsize), kind)
    return raw.view(kind).reshape(told["shape"])


# --- what comes of it ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """One capture.

    alongside  cores that ran the same kernel meanwhile
    """

    job: Job
    core: int
    ran: Ran
    shot: Shot
    alongside: tuple[int, ...] = ()


def _recorded(bench: Bench, made: Made, odd: Sequence[Flag] = ()) -> store.Recording:
    """View the capture, look at it from all sides, save it."""
    call, shot = made.job.call, made.shot
    unchecked = _check_saved(made)
    summary = profile.read(explorer.summary(bench, shot.trace))
    whole, why = explorer.timeline(bench, shot.trace)
    found = whole or summary
    provenance = _provenance(made, found)
    flags = [*unchecked, *odd, *flags_of(replace(found, provenance=provenance), made),
             *[Flag("no timeline", why)] * (whole is None)]
    call.check("during the capture")  # before it, the worker did
    for path in (bench.folder / "run", bench.folder / ".stdout", *shot.outputs):
        explorer.remove(path)
    return store.save(bench.folder, key=call.key(made.job.chip), provenance=provenance,
                      kernel={name: one.text for name, one in call.sources.items()}, flags=flags)


def _check_saved(made: Made) -> list[Flag]:
    """Hold the outputs of the profiled execution itself to job.want; a flag where none are found.

    They tell whether the tool took the inputs: by itself it fills in zeros. Which file is which
    output is not documented, so each has to be right as one of those of its size.
    """
    want, outputs, files = made.job.want, made.ran.outputs, made.shot.outputs
    if len(files) != len(outputs):
        return [Flag("unchecked", f"{len(files)} of {len(outputs)} outputs of the profiled "
                     "execution were found; those of the run before it were right")]
    left = list(zip(outputs, want.like(outputs), strict=True))
    for file in files:
        raw = np.fromfile(file, np.uint8)
        fits = [(raw.view(came.dtype).reshape(came.shape), due, i)
                for i, (came, due) in enumerate(left) if came.nbytes == raw.size]
        if not fits:
            return [Flag("unchecked", f"an output of {raw.size:,} bytes, and no such one is due")]
        right = [one for one in fits if not gate.wrong(*one[:2], want.tolerance)]
        if not right:
            gate.check(made.job.call.name, fits[0][:1], fits[0][1:2], want.tolerance,
                       "the profiled execution")
        del left[right[0][2]]
    return []


def flags_of(found: Profile, made: Made) -> list[Flag]:
    """What is odd about this profile: cold, cores, bytes, and what plausibility says."""
    call, counted, flags = made.job.call, made.job.want.counted, []
    if not made.shot.warm:
        flags.append(Flag("cold", f"{made.shot.trace.name} is not known to be the second "
                          "execution"))
    if found.timeline is not None and found.cores != call.lnc:
        flags.append(Flag("cores", f"the profile is of {found.cores} physical core(s), the launch "
                          f"of {call.lnc}"))
    if counted is None:
        return [*flags, Flag("unchecked", "the source cannot be counted, so nothing tells whether "
                             "its time is possible")]
    moved = profile.formulas.hbm_bytes(found)
    if _doubled(found, call, made.job.chip):
        flags.append(Flag("doubled", "every core did all of it: the profile has just twice the "
                          "FLOPs and bytes of one core's run"))
    elif moved is not None and not math.isclose(moved, counted.count.hbm_bytes,
                                                rel_tol=SAME_BYTES):
        flags.append(Flag("bytes", f"the profiler counted {units.show(moved, 'B', 4)} at HBM, the "
                          f"source {units.show(counted.count.hbm_bytes, 'B', 4)}; rates are the "
                          "source's bytes over the time. profile.compare tells causes"))
    return [*flags, *plausible(found, counted, made.job.chip)]


def _doubled(found: Profile, call: Launch, on: str) -> bool:
    """Whether two cores did what one would do alone, each; at LNC 2 they should share it."""
    alone = replace(call, kernel=getattr(call.kernel, "function", call.kernel), lnc=1)
    with contextlib.suppress(ProfileError, nki.NkiValidationError, Uncounted):  # cannot be told
        return any(profile.compare(alone.counted(on), found)[DOUBLING])
    return False


def _provenance(made: Made, found: Profile) -> dict[str, Any]:
    """Who ran what, where and when: store.PROVENANCE."""
    job, ran, warm = made.job, made.ran, made.shot.warm
    call, here = job.call, job.here
    version = ran.versions.get
    return {
        "kind": "measured", "chip": here.chip, "instance": here.instance, "lnc": call.lnc,
        "cores": [made.core], "kernel": call.name,
        "shapes": [list(shape) for shape, _ in call.shapes],
        "dtypes": [dtype for _, dtype in call.shapes], "parameters": dict(call.parameters),
        "execution": "second of 2" if warm else "unknown", "warm": warm,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "python": here.python,
        "nki": version("nki", here.nki), "compiler": version("neuronx-cc", here.neuronx_cc),
        "explorer": here.explorer, "sdk": here.sdk, "driver": here.driver,
        "runtime": here.runtime, "schema": found.version, "dge": job.dge,
        "framework": "standalone" if ran.framework == "numpy" else (
            f"{ran.framework} {version(ran.framework, '')}".strip()),
        "synthetic": here.synthetic, "alongside": list(made.alongside) or None,
        "notes": [f"outputs right within {job.want.tolerance}"]}
