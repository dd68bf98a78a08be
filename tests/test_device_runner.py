"""Capture: outputs held to what is wanted, commands as documented, and every way it goes wrong.

Tools here are a few lines of shell that the test writes; tests/standin is a whole instance, for
the whole path.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from roofline import neuroncore, nki
from roofline.device import chip, explorer, gate, neighbours, runner, store, worker
from roofline.device.explorer import Bench, CaptureError
from roofline.device.gate import Tolerance, WrongOutput
from roofline.device.launches import digests_of, launch
from roofline.nki.project import Source

BF16 = ml_dtypes.bfloat16
LIB = Path(nki.__file__).parents[2]
KERNELS = '''
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def product(a, b, n=1):
    """C = n A'B, in fp32."""
    A = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    B = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=A, src=a)
    nisa.dma_copy(dst=B, src=b)
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for i in range(n):
        nisa.nc_matmul(dst=total, stationary=A, moving=B, accumulate=i > 0)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    c = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.tensor_copy(dst=out, src=total)
    nisa.dma_copy(dst=c, src=out)
    return c

@nki.jit
def copy(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=y, src=t)
    return y

@nki.jit
def curve(x):
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x)
    nisa.activation(dst=t, op=nl.exp, data=t)
    nisa.dma_copy(dst=y, src=t)
    return y

@nki.jit
def nothing(x):
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=t, value=0.0)
    nisa.dma_copy(dst=y, src=t)
    return y
'''


@pytest.fixture
def kernels(tmp_path: Path) -> Any:
    file = tmp_path / "own" / "mine.py"
    file.parent.mkdir()
    file.write_text(KERNELS)
    return nki.load(file)


# --- the gate ------------------------------------------------------------------------------------

SOME = np.random.default_rng(1).standard_normal((8, 16), np.float32)
CLOSE = Tolerance(1e-3, "of the test")


@pytest.mark.parametrize(("got", "what", "says"), [
    (np.zeros_like(SOME), "zeros", "zeros alone"),
    (2 * SOME, "scale", "every value is 2 times"),
    (SOME / 16, "scale", "every value is 0.0625 times"),
    (-SOME, "scale", "every value is -1 times"),
    (np.where(np.arange(16) == 3, np.nan, SOME), "NaN", "8 of 128 values are NaN"),
    (np.where(np.arange(16) == 3, np.inf, SOME), "NaN", "8 of 128 values are inf"),
    (SOME.reshape(16, 8), "shape", "right ones: transposed or reshaped"),
    (SOME.T, "shape", "right ones: transposed or reshaped"),
    (SOME[:4], "shape", "expected [8, 16]. Check"),
    (SOME[::-1], "places", "permuted"),
    (np.where(np.arange(8)[:, None] < 6, SOME, 0), "values", "32 of them are 0: not written"),
    (SOME + np.eye(8, 16, dtype=np.float32), "values", "the first, [0, 0]"),
    (SOME.astype(np.float16), "dtype", "got float16; expected float32"),
])
def test_each_wrong_output_is_named(got: np.ndarray, what: str, says: str) -> None:
    with pytest.raises(WrongOutput) as caught:
        gate.check("mine", [got.astype(got.dtype)], [SOME], CLOSE)
    assert caught.value.what == what
    assert says in str(caught.value)
    assert "No time is shown and nothing is recorded" in str(caught.value)


def test_a_square_transpose_is_told_from_another_permutation() -> None:
    square = SOME[:, :8]
    said = gate.wrong(square.T, square, CLOSE)
    assert said and said[0] == "places" and "it is the transpose" in said[1]


def test_what_is_within_the_tolerance_passes_and_what_is_beyond_does_not() -> None:
    rms = float(np.sqrt(np.mean(SOME.astype(np.float64) ** 2)))
    assert gate.wrong(SOME * np.float32(1 + 0.9e-3), SOME, CLOSE) is None
    inside, outside = SOME.copy(), SOME.copy()
    inside[2, 3] += 0.99e-3 * (abs(SOME[2, 3]) + rms)
    outside[2, 3] += 1.01e-3 * (abs(SOME[2, 3]) + rms)
    assert gate.wrong(inside, SOME, CLOSE) is None
    assert "1 of 128" in gate.wrong(outside, SOME, CLOSE)[1]  # type: ignore[index]


def test_without_a_tolerance_one_bit_counts_and_is_no_scale() -> None:
    off = np.nextafter(SOME, np.inf)
    assert gate.wrong(SOME, SOME.copy(), Tolerance(0.0, "")) is None
    assert gate.wrong(off, SOME, Tolerance(0.0, ""))[0] == "values"  # type: ignore[index]


def test_infinities_that_are_due_are_right_and_do_not_widen_the_rest() -> None:
    due = SOME.copy()
    due[0, 0] = np.inf
    assert gate.wrong(due.copy(), due, CLOSE) is None
    worse = due.copy()
    worse[1, 1] += 1
    assert gate.wrong(worse, due, CLOSE)[0] == "values"  # type: ignore[index]


def test_whole_numbers_are_exact_unless_floats_were_rounded_to_them() -> None:
    due = np.arange(12, dtype=np.int32)
    assert gate.wrong(due + 1, due, Tolerance(0.0, "")) is not None
    assert gate.wrong(due + 1, due, Tolerance(1e-6, "")) is None
    assert gate.wrong(due + 2, due, Tolerance(1e-6, "")) is not None


def test_each_output_is_looked_at() -> None:
    gate.check("mine", [SOME, np.zeros(3)], [SOME, np.zeros(3)], CLOSE)
    with pytest.raises(WrongOutput, match="mine: output 1 of the device"):
        gate.check("mine", [SOME, np.ones(3)], [SOME, np.zeros(3)], CLOSE)
    with pytest.raises(WrongOutput, match=r"got 1 output\(s\).*expected 2"):
        gate.check("mine", [SOME], [SOME, np.zeros(3)], CLOSE)


@pytest.mark.parametrize(("name", "shapes", "parameters", "relative"), [
    # bits are copied
    ("copy", [((128, 64), "bf16")], {}, 0.0),
    # 2 eps of fp32, and 64 terms n times, each an eps of fp32 (2^-23)
    ("product", [((64, 32), "bf16"), ((64, 128), "bf16")], {}, (2 + 64) * 2.0**-23),
    ("product", [((64, 32), "bf16"), ((64, 128), "bf16")], {"n": 4}, (2 + 256) * 2.0**-23),
    # a function of the Scalar Engine: as if it were bf16 (2^-7); one term
    ("curve", [((128, 64), "fp32")], {}, 2 * 2.0**-7 + 2.0**-23),
])
def test_the_tolerance_follows_dtypes_and_sums(kernels: Any, name: str, shapes: Any,
                                               parameters: Any, relative: float) -> None:
    call = launch(getattr(kernels, name), *shapes, **parameters)
    done = call.computed("trn2")
    allowed = gate.tolerance(done, call.inputs, done.outputs)
    assert allowed.relative == pytest.approx(relative, rel=1e-12)


def test_the_tolerance_admits_another_order_of_adding_and_no_wrong_dtype() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((512, 64)).astype(BF16).astype(np.float64) for _ in range(2))
    due = (a.T @ b).astype(np.float32)
    step = np.zeros((64, 64), np.float32)
    for k in range(512):  # one row after the other, in fp32
        step += np.outer(a[k], b[k]).astype(np.float32)
    allowed = Tolerance((2 + 512) * 2.0**-23, "512 terms")
    assert gate.wrong(step, due, allowed) is None
    assert gate.wrong(step.astype(BF16).astype(np.float32), due, allowed) is not None


def test_what_is_wanted(kernels: Any) -> None:
    call = launch(kernels.product, ((64, 32), "bf16"), ((64, 128), "bf16"))
    a, b = (x.astype(np.float32) for x in call.inputs)
    own = runner.wanted(call, "trn2", None, None)
    np.testing.assert_allclose(own.outputs[0], a.T @ b, rtol=1e-4, atol=1e-4)
    told = runner.wanted(call, "trn2", lambda a, b: a.astype(np.float64).T @ b, None)
    came = (np.zeros((32, 128), np.float32),)
    assert told.outputs[0].dtype == np.float64 and told.like(came)[0].dtype == np.float32
    assert own.like(came) is own.outputs
    assert runner.wanted(call, "trn2", a.T @ b, 0.25).tolerance.relative == 0.25


def test_what_cannot_be_wanted(kernels: Any) -> None:
    x = np.full((128, 4), np.nan, np.float32)
    with pytest.raises(CaptureError, match="expected outputs hold NaN"):
        runner.wanted(launch(kernels.copy, x), "trn2", None, None)
    with pytest.raises(CaptureError, match="expected outputs are all 0"):
        runner.wanted(launch(kernels.nothing, ((128, 4), "fp32")), "trn2", None, None)
    call = launch(kernels.product, ((64, 32), "bf16"), ((32, 128), "bf16"))
    with pytest.raises(CaptureError, match=r"(?s)cannot be computed here.*expect="):
        runner.wanted(call, "trn2", None, None)


# --- commands ------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "part"
    folder.mkdir()
    (tmp_path / "bin").mkdir()
    (folder / "kernel.neff").write_text("NEFF")
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    return Bench(folder, {**os.environ, "PATH": path}, 20, "mine")


def tool(bench: Bench, script: str) -> None:
    """Let neuron-explorer be this shell script; it notes its arguments in calls.txt."""
    file = bench.folder.parent / "bin" / "neuron-explorer"
    file.write_text(f'#!/bin/sh\necho "$*" >> {shlex.quote(str(bench.folder.parent))}/calls.txt\n'
                    + script)
    file.chmod(0o755)


def calls(bench: Bench) -> list[str]:
    return (bench.folder.parent / "calls.txt").read_text().splitlines()


def test_the_command_is_the_documented_one(bench: Bench) -> None:
    tool(bench, 'echo trace > profile_exec_2.ntff; printf 1234 > y; '
                'echo \'INFO saved output "y" as "y"\'')
    shot = explorer.capture(bench, [("a", Path("run/in0.npy")), ("b", Path("run/in1.npy"))], True)
    assert calls(bench) == [
        "capture -n kernel.neff -s profile.ntff --save-output --num-exec=2 --profile-nth-exec=2 "
        "--enable-dge-notifs a run/in0.npy b run/in1.npy"]
    assert (shot.trace.name, shot.warm) == ("profile_exec_2.ntff", True)
    assert [file.read_text() for file in shot.outputs] == ["1234"]
    assert 'saved output "y"' in bench.log.read_text()


@pytest.mark.parametrize(("made", "name", "warm"), [
    (["profile_exec_2.ntff"], "profile_exec_2.ntff", True),
    (["profile.ntff"], "profile.ntff", False),
    (["profile.ntff", "profile_exec_2.ntff"], "profile_exec_2.ntff", True),
    (["profile_rank_0_exec_2.ntff"], "profile_rank_0_exec_2.ntff", True),
    (["profile_rank_1_exec_2.ntff", "profile_rank_0_exec_2.ntff", "profile_rank_0.ntff"],
     "profile_rank_0_exec_2.ntff", True),
])
def test_the_trace_is_found_under_each_of_its_names(bench: Bench, made: list[str], name: str,
                                                   warm: bool) -> None:
    tool(bench, "\n".join(f"echo trace > {file}" for file in made))
    shot = explorer.capture(bench, [], False)
    assert (shot.trace.name, shot.warm, shot.outputs) == (name, warm, ())
    assert [file.name for file in bench.folder.glob("*.ntff")] == [name]


def test_an_empty_trace_beside_a_full_one_is_not_taken(bench: Bench) -> None:
    tool(bench, ": > profile_exec_2.ntff; echo trace > profile.ntff")
    assert not explorer.capture(bench, [], False).warm


@pytest.mark.parametrize(("script", "says"), [
    ("exit 0", "no .ntff file, and exit code 0; expected profile_exec_2.ntff"),
    (": > profile_exec_2.ntff", "profile_exec_2.ntff of 0 bytes"),
    ("echo boom >&2; exit 7", "failed with exit code 7. The log has all it said.\n  | boom"),
    ("kill -9 $$", "ended by SIGKILL: the machine may have run out of memory"),
    ("echo 'NRT_EXEC_NC_BUSY(1005): locked (in use) by another model/process' >&2; exit 1",
     "Another process holds the core"),
    ("echo 'Logical Neuron Core(s) not available' >&2; exit 1", "Another process holds the core"),
    ("echo 'write: No space left on device' >&2; exit 1", "The disk is full"),
    ("echo 'NRT_RESOURCE(4)' >&2; exit 1", "Memory ran out"),
    ("echo 'status notification queue overflow' >&2; exit 1", "leave out dge=True"),
    ("echo 'NRT_EXEC_SW_NQ_OVERFLOW(1204)' >&2; exit 1", "leave out dge=True"),
    ("echo 'NRT_TIMEOUT(5)' >&2; exit 1", "NEURON_RT_EXEC_TIMEOUT"),
    ("echo 'NRT_EXEC_OOB(1006)' >&2; exit 1", "outside of its tensor"),
    ("echo 'NRT_INVALID(2)' >&2; exit 1", "names and sizes of the inputs"),
    ("echo 'NRT_EXEC_HW_ERR_NC_UE(1202)' >&2; exit 1", "The hardware reports an error"),
    ("echo \"unknown flag \\`profile-nth-exec'\" >&2; exit 1", "update aws-neuronx-tools"),
])
def test_a_failing_capture_says_what_and_what_next(bench: Bench, script: str, says: str) -> None:
    tool(bench, script)
    with pytest.raises(CaptureError) as caught:
        explorer.capture(bench, [], False)
    assert str(caught.value).startswith("mine: capture: ")
    assert says in str(caught.value)


def test_who_holds_the_core_is_named(bench: Bench) -> None:
    held = Bench(bench.folder, bench.environment, 20, "mine", "process 12 (python) on device 0")
    tool(held, "echo NRT_EXEC_NC_BUSY >&2; exit 1")
    with pytest.raises(CaptureError, match=r"Before it began: process 12 \(python\)"):
        explorer.capture(held, [], False)


def test_a_tool_that_cannot_save_outputs_captures_without(bench: Bench) -> None:
    tool(bench, """case "$*" in
                   *save-output*) echo "unknown flag \\`save-output'" >&2; exit 1;;
                   esac; echo trace > profile_exec_2.ntff""")
    assert explorer.capture(bench, [], False).outputs == ()
    assert ["--save-output" in call for call in calls(bench)] == [True, False]


def test_a_missing_tool_says_where_it_comes_from(bench: Bench) -> None:
    bare = Bench(bench.folder, {"PATH": "/nowhere"}, 20, "mine")
    with pytest.raises(CaptureError, match=r"neuron-explorer is not on PATH.*aws-neuronx-tools"):
        explorer.capture(bare, [], False)


def alive(pid: int) -> bool:
    """Whether it is there and stays there: one that was ended needs a moment to go."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        threading.Event().wait(0.02)
    return True


def pids(bench: Bench) -> list[int]:
    return [int(line) for line in (bench.folder / "pids").read_text().split()]


# It, and a child of it that minds no request, note who they are.
HANGS = """trap '' TERM INT
echo $$ >> pids; (echo $(exec sh -c 'echo $PPID') >> pids; sleep 300) &
echo said before it hung; sleep 300
"""


def test_a_timeout_leaves_no_process_and_keeps_the_words(bench: Bench,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "GRACE_S", 0.2)
    tool(bench, HANGS)
    short = Bench(bench.folder, bench.environment, 1, "mine")
    with pytest.raises(CaptureError) as caught:
        explorer.capture(short, [], False)
    assert "no end after 1 s, so it was ended. Pass a larger timeout_s=" in str(caught.value)
    assert "said before it hung" in str(caught.value)
    assert len(pids(bench)) == 2 and not any(map(alive, pids(bench)))


def test_a_killed_notebook_leaves_no_process(bench: Bench) -> None:
    """As when its kernel is restarted while a tool hangs."""
    tool(bench, "echo $$ >> pids; sleep 300")
    notebook = subprocess.Popen([sys.executable, "-c", f"""
import os
from pathlib import Path
from roofline.device import explorer
explorer.capture(explorer.Bench(Path({str(bench.folder)!r}), {{**os.environ, "PATH":
    {bench.environment["PATH"]!r}}}, 60, "mine"), [], False)"""])
    for _ in range(400):
        if (bench.folder / "pids").exists() and pids(bench):
            break
        threading.Event().wait(0.05)
    notebook.kill()
    notebook.wait()
    assert len(pids(bench)) == 1 and not any(map(alive, pids(bench)))


def test_children_of_a_tool_that_ended_are_ended_too(bench: Bench) -> None:
    tool(bench, "(sleep 300) & echo $! >> pids; echo trace > profile_exec_2.ntff")
    explorer.capture(bench, [], False)
    assert not any(map(alive, pids(bench)))


def interrupt_when(there: Path) -> threading.Thread:
    """As a reader does: a SIGINT to this process once the file is there."""
    def wait() -> None:
        for _ in range(400):
            if there.exists() and there.read_text():
                return os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_ctrl_c_leaves_no_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "GRACE_S", 0.2)
    tool(bench, HANGS)
    thread = interrupt_when(bench.folder / "pids")
    with pytest.raises(KeyboardInterrupt):
        explorer.capture(bench, [], False)
    thread.join()
    assert not any(map(alive, pids(bench)))


# --- view ----------------------------------------------------------------------------------------

SUMMARY = {"n_0": {"total_time": 2e-6, "hbm_read_bytes": 1024, "hbm_write_bytes": 1024}}


def trace(bench: Bench) -> Path:
    path = bench.folder / "profile_exec_2.ntff"
    path.write_text("trace")
    return path


def test_a_summary_is_found_behind_log_lines(bench: Bench) -> None:
    tool(bench, f"""echo 'INFO {{3 rows}} {{"a": 1}}'; echo ERRO >&2; echo '{json.dumps(SUMMARY)}'
                    echo done""")
    path = explorer.summary(bench, trace(bench))
    assert json.loads(path.read_text()) == SUMMARY
    assert calls(bench) == [
        "view -n kernel.neff -s profile_exec_2.ntff --output-format summary-json"]


@pytest.mark.parametrize(("script", "says"), [
    ("exit 0", "no whole summary on its stdout"),
    (f"echo '{json.dumps(SUMMARY)[:-9]}'", "no whole summary on its stdout"),
    ("echo '{}'", "no whole summary on its stdout"),
    (f"""echo '{json.dumps({"n_0": {**SUMMARY["n_0"], "total_time": 0}})}'""",
     "expected seconds > 0, got 0: nothing ran"),
    (f"""echo '{json.dumps({**SUMMARY, "n_1": SUMMARY["n_0"]})}'""", "n_1"),
    ("echo 'NEFF/NTFF UUID mismatch' >&2; exit 1", "| NEFF/NTFF UUID mismatch"),
])
def test_no_summary_is_an_error(bench: Bench, script: str, says: str) -> None:
    tool(bench, script)
    with pytest.raises(CaptureError) as caught:
        explorer.summary(bench, trace(bench))
    assert str(caught.value).startswith("mine: view, summary: ")
    assert says in str(caught.value)


def test_no_timeline_is_none_with_both_reasons_and_no_rubbish(bench: Bench) -> None:
    tool(bench, 'case "$*" in *json*) : > timeline.json;; *) echo no disk >&2; exit 3;; esac')
    found, why = explorer.timeline(bench, trace(bench))
    assert found is None
    assert "timeline.json: mine: view, json: it wrote nothing" in why
    assert "parquet: mine: view, parquet: it failed with exit code 3" in why
    assert sorted(file.name for file in bench.folder.iterdir()) == [
        "kernel.neff", "log.txt", "profile_exec_2.ntff"]
    assert calls(bench) == [
        "view -n kernel.neff -s profile_exec_2.ntff --output-format json "
        "--output-file timeline.json",
        "view -n kernel.neff -s profile_exec_2.ntff --ingest-only --display-name kernel "
        "--data-path ingest"]


@pytest.mark.parametrize("text", ["{}", "null", '{"summary": [', "PAR1"])
def test_a_timeline_that_cannot_be_read_is_not_kept(bench: Bench, text: str) -> None:
    tool(bench, f"""case "$*" in *json*) echo '{text}' > timeline.json;; esac""")
    found, why = explorer.timeline(bench, trace(bench))
    assert found is None and why.startswith("timeline.json: ")
    assert not (bench.folder / "timeline.json").exists()


# --- the worker ----------------------------------------------------------------------------------

FAKE_NKI = '''
import numpy as np, os, pathlib
at_import = os.environ.get("NKI_ARTIFACTS_DIR")
class Kernel:
    def __init__(self, f, lnc=1): self.f, self.lnc = f, lnc
    def __getitem__(self, lnc): return Kernel(self.f, lnc)
    def __call__(self, *a, **k):
        if os.environ.get("REFUSE") and type(a[0]) is np.ndarray: raise TypeError("no NumPy")
        name = os.environ.get("NEFF", "kernel.neff")
        if name: (pathlib.Path(at_import) / name).write_text("compiled")
        return self.f(*a, lnc=self.lnc, **k)
def jit(f): return Kernel(f)
'''


@pytest.fixture
def work(tmp_path: Path) -> Any:
    """work(source, **job): the result of the worker, run as the runner runs it."""
    site, run = tmp_path / "site", tmp_path / "run"
    for folder in (site / "nki", run / "artifacts"):
        folder.mkdir(parents=True)
    (site / "nki" / "__init__.py").write_text(FAKE_NKI)
    bench = Bench(tmp_path, {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{LIB}",
                             "NKI_ARTIFACTS_DIR": str(run / "artifacts")}, 60, "mine")

    def go(source: str, *, framework: str = "numpy", lnc: int = 1, parameters: Any = None,
           env: Any = None, nki: str | None = None, changed: bool = False,
           inputs: Any = (), helpers: Any = None) -> dict[str, Any]:
        if nki is not None:
            (site / "nki" / "__init__.py").write_text(nki)
        file = tmp_path / "mine.py"
        file.write_text(source)
        sources = {"kernel.py": Source("mine", file, file.read_bytes())} | {
            f"sources/{name}.py": Source(name, tmp_path / f"{name}.py", text.encode())
            for name, text in (helpers or {}).items()}
        call = SimpleNamespace(file=file, main=file, name="mine", lnc=lnc, inputs=inputs,
                               parameters=parameters or {}, names=("x", "y")[:len(inputs)],
                               sources=sources, digests=digests_of(
                                   {name: b"0" if changed else one.text
                                    for name, one in sources.items()}))
        here = Bench(bench.folder, {**bench.environment, **(env or {})}, 60, "mine")
        return runner._work(here, call, runner._save_inputs(here, call), framework)  # type: ignore

    return go


def test_the_worker_gives_bits_and_the_neff(work: Any, tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3).astype(BF16)
    found = work("import nki\n@nki.jit\ndef mine(x, n, lnc):\n    return x * n, x.view('V2')",
                 inputs=[x], lnc=2, parameters={"n": 2})
    assert [(one["dtype"], one["shape"]) for one in found["outputs"]] == [
        ("bfloat16", [2, 3]), ("void16", [2, 3])]
    raw = (tmp_path / "run" / found["outputs"][0]["file"]).read_bytes()
    assert raw == (2 * x).tobytes()
    assert Path(found["neff"]) == (tmp_path / "run" / "artifacts" / "kernel.neff").resolve()
    assert found["versions"]["numpy"] == np.__version__


def test_the_worker_takes_a_plain_function_and_the_newest_neff(work: Any) -> None:
    found = work("def mine(x, lnc):\n    return x", inputs=[np.ones(3, np.float32)],
                 env={"NEFF": "MODULE_7.neff"})
    assert Path(found["neff"]).name == "MODULE_7.neff"
    assert found["outputs"][0]["shape"] == [3]


def test_the_worker_finds_files_beside_the_kernel(work: Any, tmp_path: Path) -> None:
    (tmp_path / "tiles.py").write_text("TILE = 3")
    found = work("import tiles\ndef mine(x, lnc):\n    return x * tiles.TILE",
                 inputs=[np.ones(3, np.int32)], helpers={"tiles": "TILE = 3"})
    assert "outputs" in found


@pytest.mark.parametrize(("source", "helpers", "says"), [
    ("import tiles\ndef mine(x, lnc):\n    return x", {"tiles": "TILE = 4"},
     'tiles.py has changed since the launch was made. Load it again: nki.load("mine.py")'),
    ("import tiles\ndef mine(x, lnc):\n    return x", {"tiles": "TILE = 3", "gone": "G = 1"},
     "gone.py has changed since"),
    ("import tiles\ndef mine(x, lnc):\n    return x", {},
     "mine.py imports tiles.py on the device, and did not when it was loaded"),
    ("def mine(x, lnc):\n    import tiles\n    return x", {}, "mine.py imports tiles.py on the"),
    ("def mine(x, lnc):\n    import parts.one\n    return x", {}, "mine.py imports one.py on the"),
    ("def mine(x, lnc):\n    return x", {"worded": "W = 1"}, ""),
    ("import sys\nsys.path.append('{}/more')\nimport extra\ndef mine(x, lnc):\n    return x", {},
     "mine.py imports extra.py on the device"),
    ("import tiles, json\ndef mine(x, lnc):\n    tiles.__file__ = json.__file__\n    return x",
     {"tiles": "TILE = 3"}, "`import tiles` gives "),
])
def test_the_worker_runs_the_files_that_were_loaded_and_no_others(
        work: Any, tmp_path: Path, source: str, helpers: dict[str, str], says: str) -> None:
    for name in ("parts", "more"):
        (tmp_path / name).mkdir()
    (tmp_path / "tiles.py").write_text("TILE = 3")
    (tmp_path / "worded.py").write_text("W = 1")
    (tmp_path / "parts" / "one.py").write_text("")
    (tmp_path / "more" / "extra.py").write_text("")
    found = work(source.replace("{}", str(tmp_path)), helpers=helpers,
                 inputs=[np.ones(3, np.int32)])
    assert says in found.get("error", "") and bool(says) == ("error" in found)
    assert not found.get("unsupported")


@pytest.mark.parametrize(("told", "says"), [
    ({"nki": ""}, "an empty package: PyPI's. pip uninstall -y nki"),
    ({"nki": "raise ImportError('libnrt.so')"}, "nki cannot be imported (libnrt.so)"),
    ({"changed": True}, "mine.py has changed since the launch was made"),
    ({"source": "import neuronxcc.nki as nki"}, "line 1: imports neuronxcc, the legacy namespace"),
    ({"source": "from neuronxcc import nki"}, "line 1: imports neuronxcc, the legacy namespace"),
    ({"source": "other = 1"}, "has no kernel 'mine'"),
    ({"source": "1 / 0"}, "ZeroDivisionError"),
    ({"source": "def mine(lnc):\n    raise ValueError('[NCC_1] no')"}, "ValueError: [NCC_1] no"),
])
def test_the_worker_says_why_it_does_not_run(work: Any, told: Any, says: str) -> None:
    told = dict(told)
    found = work(told.pop("source", "def mine(lnc):\n    return 1"), **told)
    assert says in found["error"]
    assert not found.get("unsupported")


def test_the_course_is_not_taken_for_nki(work: Any) -> None:
    found = work("def mine(lnc):\n    return 1", env={"PYTHONPATH": os.pathsep.join(
        [str(LIB / "roofline"), str(LIB)])})
    assert "nki cannot be imported (attempted relative import" in found["error"]


def test_a_worker_that_dies_is_an_error_with_its_signal(work: Any) -> None:
    with pytest.raises(CaptureError, match=r"compile and run the kernel \(numpy\): .*SIGSEGV"):
        work("import os, signal\ndef mine(lnc):\n    os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(CaptureError, match="ended without a result"):
        work("import os\ndef mine(lnc):\n    os._exit(0)")


FRAMEWORK = '''
import sys, types
jax = types.ModuleType("jax"); jax.numpy = types.ModuleType("jax.numpy")
class Array:
    def __init__(self, x): self.x = x
    def __array__(self, *a, **k): return self.x
jax.numpy.asarray = Array
sys.modules.update({"jax": jax, "jax.numpy": jax.numpy})
'''


def test_where_numpy_is_not_taken_the_next_framework_has_its_turn(work: Any) -> None:
    source = FRAMEWORK + "def mine(x, lnc):\n    return Array(x.x + 1)"
    x = np.ones(3, np.float32)
    refused = work(source, inputs=[x], env={"REFUSE": "1"})
    assert refused["unsupported"] and "TypeError: no NumPy" in refused["error"]
    assert work(source, inputs=[x], env={"REFUSE": "1"}, framework="jax")["outputs"][0][
        "shape"] == [3]


def test_arrays_need_names(work: Any) -> None:
    with pytest.raises(CaptureError, match="do not name its 3 arrays"):
        work("def mine(*x):\n    return 1", inputs=[np.ones(1)] * 3)


# --- the runner ----------------------------------------------------------------------------------


def test_without_a_device_it_says_why_and_what_instead(kernels: Any) -> None:
    with pytest.raises(CaptureError, match=r"nothing to capture on: .*device\.measure\(\)"):
        runner.capture(kernels.copy, ((128, 4), "fp32"))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> chip.Probe:
    """A trn2 by hand: what probe() says, and a place for recordings."""
    found = chip.Probe(chip="trn2", instance="trn2.3xlarge", devices=1, physical_cores=8, cores=4,
                       lnc=2, nki="0.6.0", why="", here=chip.Installation(
                           tmp_path / "dev", tmp_path / "sys", tmp_path / "opt",
                           f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}",
                           str(tmp_path / "site"), True))
    monkeypatch.setattr(chip, "probe", lambda: found)
    monkeypatch.setattr(store, "home", lambda: tmp_path / "recorded")
    (tmp_path / "bin").mkdir()
    (tmp_path / "site" / "nki").mkdir(parents=True)
    return found


@pytest.mark.parametrize(("lnc", "core", "says"), [
    (1, 8, "core 8; at LNC 1 there are cores 0 to 7"),
    (2, 4, "core 4; at LNC 2 there are cores 0 to 3"),
    (2, -1, "core -1"),
])
def test_cores_that_are_not_there(here: chip.Probe, kernels: Any, lnc: int, core: int,
                                  says: str) -> None:
    with pytest.raises(CaptureError, match=says):
        runner.ready(launch(kernels.copy, ((128, 4), "fp32"), lnc=lnc), [core])


@pytest.mark.parametrize("cores", [[], [0, 0]])
def test_several_cores_are_each_named_once(here: chip.Probe, kernels: Any, cores: list[int]
                                           ) -> None:
    with pytest.raises(CaptureError, match="expected each core once"):
        runner.capture_together(launch(kernels.copy, ((128, 4), "fp32")), cores)


def test_a_run_is_one_plain_run(here: chip.Probe, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NKI_SIMULATOR", "NEURON_RT_INSPECT_ENABLE", "NEURON_RT_ENABLE_DGE_NOTIFICATIONS",
                 "NEURON_RT_NUM_CORES", "NEURON_CC_FLAGS"):
        monkeypatch.setenv(name, "1")
    made = runner._environment(tmp_path, here, 1, 3)
    assert {name: value for name, value in made.items()
            if name.startswith(("NEURON", "NKI"))} == {
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", "NEURON_RT_VISIBLE_CORES": "3",
        "NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VIRTUAL_CORE_SIZE": "1",
        "NKI_ARTIFACTS_DIR": str(tmp_path / "run" / "artifacts"), "NKI_DEBUG_INFO": "True",
        "NEURON_FRAMEWORK_DEBUG": "1", "NEURON_CC_FLAGS": "--lnc=1",
        "NEURON_COMPILE_CACHE_URL": str(tmp_path / "run" / "cache")}


# A device that gives out what the kernel is due, times SCALE.
DEVICE = '''
import os, pathlib
import numpy as np
import roofline.nki as ours, sys
for name in ("isa", "language"): sys.modules["nki." + name] = getattr(ours, name)
from roofline.nki import isa, language
class Kernel:
    def __init__(self, f): self.f, self.__name__, self.__wrapped__ = f, f.__name__, f
    def __call__(self, *a, **k):
        out = ours.run(self.f, *a, target="trn2", **k).output
        (pathlib.Path(os.environ["NKI_ARTIFACTS_DIR"]) / "kernel.neff").write_text("compiled")
        return (out * out.dtype.type(float(os.environ.get("SCALE", 1)))).astype(out.dtype)
def jit(f): return Kernel(f)
'''
VIEW = f"""case "$1 $*" in
 capture*) echo trace > profile_exec_2.ntff; cp {{saved}} y; echo 'saved output "y" as "y"';;
 *summary-json*) echo '{json.dumps(SUMMARY)}';;
 *) exit 3;;
esac
"""


@pytest.fixture
def instance(here: chip.Probe, tmp_path: Path) -> Any:
    """instance(saved): nki and neuron-explorer; the capture's output is that file, or empty."""
    (tmp_path / "site" / "nki" / "__init__.py").write_text(DEVICE)

    def go(saved: Path | None = None, script: str = VIEW) -> None:
        file = tmp_path / "bin" / "neuron-explorer"
        file.write_text("#!/bin/sh\n" + script.replace("{saved}", str(saved or "/dev/null")))
        file.chmod(0o755)

    return go


def recorded(tmp_path: Path) -> list[str]:
    """Names in the folder of recordings, those of logs and parts too."""
    return sorted(file.name for file in (tmp_path / "recorded").iterdir())


def test_a_capture_is_recorded_with_what_is_odd_about_it(kernels: Any, instance: Any,
                                                         tmp_path: Path) -> None:
    call = launch(kernels.product, ((64, 32), "bf16"), ((64, 128), "bf16"), n=2)
    call.computed("trn2").output.tofile(tmp_path / "due.bin")
    instance(tmp_path / "due.bin")
    made = runner.capture_launch(call, core=5)
    assert made.key == call.key("trn2") and made.synthetic
    told = made.provenance
    assert (told["cores"], told["lnc"], told["warm"], told["execution"], told["framework"],
            told["parameters"], told["dtypes"]) == (
        [5], 1, True, "second of 2", "standalone", {"n": 2}, ["bfloat16", "bfloat16"])
    # 2 us: below every roof. Of bytes the tool's summary has other ones than the source
    assert [flag.name for flag in made.flags] == ["bytes", "no timeline"]
    assert "the profiler counted 2.048 kB at HBM, the source " in made.flags[0].said
    assert not made.excluded
    assert sorted(made.files) == ["kernel.neff", "kernel.py", "log.txt", "profile_exec_2.ntff",
                                  "summary.json"]
    assert (made.folder / "kernel.py").read_text() == KERNELS
    assert recorded(tmp_path) == [made.name]


def test_what_cannot_be_counted_is_told(kernels: Any, instance: Any, tmp_path: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """With expect= a kernel is captured that the counting backend does not know."""
    call = launch(kernels.copy, ((128, 4), "bf16"))

    def unknown(*_: Any) -> None:
        raise nki.NkiValidationError("mine: an instruction it does not know")

    monkeypatch.setattr(type(call), "counted", unknown)
    call.inputs[0].tofile(tmp_path / "due.bin")
    instance(tmp_path / "due.bin")
    made = runner.capture_launch(call, expect=lambda x: x.astype(np.float64))
    assert [flag.said[:30] for flag in made.flags if flag.name == "unchecked"] == [
        "the source cannot be counted, "]


def test_lnc_2_that_does_not_share_the_work_is_told(kernels: Any, here: chip.Probe) -> None:
    """product: each core multiplies, loads and stores all of it; Day 4's copy shares its bytes."""
    shares = nki.load(Path(__file__).parents[1] / "day4" / "kernels.py").copy
    each = launch(kernels.product, ((64, 32), "bf16"), ((64, 128), "bf16"), lnc=2)
    for call, due in ((each, True),
                      (launch(shares, ((128, 4096), "bf16"), elements=2048, lnc=2), False)):
        profile = neuroncore.predict(call.counted("trn2"), buffers=None).profile
        assert profile.cores == 2
        assert runner._doubled(profile, call, "trn2") is due


def test_outputs_of_the_capture_that_are_not_found_are_told(kernels: Any, instance: Any) -> None:
    instance(script=VIEW.replace("cp {saved} y;", "").replace('saved output "y" as "y"', ""))
    made = runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))
    assert [flag.name for flag in made.flags] == ["unchecked", "no timeline"]


@pytest.mark.parametrize(("saved", "says"), [
    (bytes(128 * 4 * 2), "output of the profiled execution: got zeros alone"),
    (np.full(512, 2, BF16).tobytes(), "output of the profiled execution"),
])
def test_a_capture_without_its_inputs_is_stopped(kernels: Any, instance: Any, tmp_path: Path,
                                                 saved: bytes, says: str) -> None:
    (tmp_path / "saved.bin").write_bytes(saved)
    instance(tmp_path / "saved.bin")
    with pytest.raises(WrongOutput, match=says):
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))
    assert recorded(tmp_path) == [".failed"]


def test_wrong_outputs_stop_before_the_profiler_and_leave_a_log(
        kernels: Any, instance: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE", "0.5")
    instance(script=f"touch {tmp_path}/called")
    with pytest.raises(WrongOutput, match=r"(?s)every value is 0\.5 times.*log: (.*)") as caught:
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))
    log = Path(str(caught.value).rpartition("log: ")[2])
    assert "roofline.device.worker job.json" in log.read_text()
    assert not (tmp_path / "called").exists()
    assert recorded(tmp_path) == [".failed"]
    assert caught.value._render_traceback_() == [f"WrongOutput: {caught.value}"]


def test_a_failure_leaves_earlier_recordings_as_they_were(kernels: Any, instance: Any,
                                                          tmp_path: Path) -> None:
    instance(script=VIEW.replace("cp {saved} y;", ""))
    call = launch(kernels.copy, ((128, 4), "bf16"))
    made = runner.capture_launch(call)
    before = {file: file.read_bytes() for file in made.folder.iterdir()}
    instance(script="echo boom >&2; exit 4")
    for _ in range(3):
        with pytest.raises(CaptureError, match="exit code 4"):
            runner.capture_launch(call)
    assert {file: file.read_bytes() for file in made.folder.iterdir()} == before
    assert recorded(tmp_path) == [".failed", made.name]


def test_ctrl_c_is_told_and_nothing_stays(kernels: Any, instance: Any, tmp_path: Path) -> None:
    instance(script=f"echo $$ > {tmp_path}/pids; sleep 300")
    thread = interrupt_when(tmp_path / "pids")
    with pytest.raises(runner.CaptureInterrupted, match="stopped by you; what it had started is"):
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))
    thread.join()
    assert not alive(int((tmp_path / "pids").read_text()))
    assert recorded(tmp_path) == [".failed"]
    assert not issubclass(runner.CaptureInterrupted, CaptureError)


def test_a_folder_that_takes_nothing_is_told(kernels: Any, here: chip.Probe, tmp_path: Path
                                             ) -> None:
    (tmp_path / "recorded").write_text("a file where the folder would be")
    with pytest.raises(CaptureError, match=r"copy: .*not saved"):
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))


def test_a_full_disk_is_told(kernels: Any, instance: Any, tmp_path: Path,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "in0.npy")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(CaptureError, match=r"No space left on device \(in0.npy\)\. The disk"):
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")))


def test_a_kernel_edited_meanwhile_is_not_recorded(kernels: Any, instance: Any, tmp_path: Path
                                                   ) -> None:
    call = launch(kernels.copy, ((128, 4), "bf16"))
    instance(script=f"echo '# more' >> {call.file}\n" + VIEW.replace("cp {saved} y;", ""))
    with pytest.raises(CaptureError, match="was changed during the capture"):
        runner.capture_launch(call)


@pytest.fixture
def split(kernels: Any, tmp_path: Path) -> Path:
    """The kernels in two files; the main one is returned, helper.py lies beside it."""
    folder = tmp_path / "split"
    folder.mkdir()
    (folder / "helper.py").write_text(
        "import nki.isa as nisa\n\n\ndef move(dst, src):\n    nisa.dma_copy(dst=dst, src=src)\n")
    (folder / "mine.py").write_text(
        "import nki\nimport nki.language as nl\nfrom helper import move\n\n\n@nki.jit\n"
        "def copy(x):\n"
        "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)\n"
        "    move(t, x)\n    move(y, t)\n    return y\n")
    return folder / "mine.py"


def test_a_recording_holds_every_file_of_the_kernel(split: Path, instance: Any, tmp_path: Path
                                                    ) -> None:
    instance(script=VIEW.replace("cp {saved} y;", "").replace('saved output "y" as "y"', ""))
    call = launch(nki.load(split).copy, ((128, 4), "bf16"))
    made = runner.capture_launch(call)
    assert (made.folder / "kernel.py").read_bytes() == split.read_bytes()
    assert (made.folder / "sources" / "helper.py").read_bytes() == (
        split.parent / "helper.py").read_bytes()
    assert {"kernel.py", "sources/helper.py"} < set(made.files)
    assert made.provenance["kernel_sha256"] == call.source_sha256
    assert store.load(made.folder).key == call.key("trn2")


@pytest.mark.parametrize("name", ["mine.py", "helper.py"])
def test_a_launch_that_was_keyed_before_an_edit_is_told_to_load_again(
        split: Path, instance: Any, tmp_path: Path, name: str) -> None:
    instance(script=f"touch {tmp_path}/called")
    call = launch(nki.load(split).copy, ((128, 4), "bf16"))
    call.key("trn2")
    with (split.parent / name).open("a") as file:
        file.write("# more\n")
    with pytest.raises(CaptureError, match=rf"copy: {name} was changed since it was loaded\. Load "
                                           r'it again: .*nki\.load\("mine\.py"\)') as caught:
        runner.capture_launch(call)
    assert "Correct the kernel" not in str(caught.value) and not (tmp_path / "called").exists()


def test_a_helper_edited_before_the_worker_starts_is_refused_by_it(
        split: Path, instance: Any, tmp_path: Path) -> None:
    instance(script=f"touch {tmp_path}/called")
    call = launch(nki.load(split).copy, ((128, 4), "bf16"))
    call.key("trn2")

    def edited(x: np.ndarray) -> np.ndarray:  # after the first check, before the run
        (split.parent / "helper.py").write_text("# other\n")
        return x

    with pytest.raises(CaptureError, match=r"helper\.py has changed since the launch was made\. "
                                           r'Load it again: nki\.load\("mine\.py"\)\.') as caught:
        runner.capture_launch(call, expect=edited)
    assert "Correct the kernel" not in str(caught.value) and not (tmp_path / "called").exists()


def test_a_helper_edited_meanwhile_is_not_recorded(split: Path, instance: Any, tmp_path: Path
                                                   ) -> None:
    call = launch(nki.load(split).copy, ((128, 4), "bf16"))
    instance(script=f"echo '# more' >> {split.parent}/helper.py\n"
                    + VIEW.replace("cp {saved} y;", ""))
    with pytest.raises(CaptureError, match=r"helper\.py was changed during the capture\. Load it"):
        runner.capture_launch(call)
    assert recorded(tmp_path) == [".failed"]


def test_a_kernel_that_imports_while_it_runs_is_refused(split: Path, instance: Any, tmp_path: Path
                                                        ) -> None:
    instance(script=f"touch {tmp_path}/called")
    split.write_text(split.read_text().replace("from helper import move\n", "").replace(
        "    move(t, x)", "    from helper import move\n    move(t, x)"))
    with pytest.raises(CaptureError, match=r"mine\.py imports helper\.py on the device, and did "
                                           r'not when it was loaded.*Import it at the top'):
        runner.capture_launch(launch(nki.load(split).copy, ((128, 4), "bf16")))
    assert not (tmp_path / "called").exists()


def test_an_unknown_framework_is_refused(kernels: Any, instance: Any) -> None:
    with pytest.raises(CaptureError, match="framework: got 'tf'; expected one of numpy, jax"):
        runner.capture_launch(launch(kernels.copy, ((128, 4), "bf16")), framework="tf")


# --- neighbours ----------------------------------------------------------------------------------


def count(here: chip.Probe, core: int, value: int, plain: bool = False) -> None:
    counter = here.here.sys / "devices/virtual/neuron_device/neuron0" / (
        f"neuron_core{core}/stats/other_info/inference_count")
    file = counter if plain else counter / "total"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


@pytest.mark.parametrize("plain", [False, True])
def test_executions_are_the_drivers_count(here: chip.Probe, plain: bool) -> None:
    assert neighbours.executions(here, 1, 6) is None
    count(here, 6, 41, plain)
    assert neighbours.executions(here, 1, 6) == 41
    assert neighbours.executions(here, 2, 3) == 41  # cores 6 and 7 are logical core 3


@pytest.mark.parametrize(("ended", "before", "after", "why"), [
    (None, 3, 9, ""), (None, 3, 3, "no execution of it was counted during the capture"),
    (0, 3, 9, "it ended before the capture did"), (None, None, None, "does not count"),
])
def test_overlap_needs_evidence(ended: Any, before: Any, after: Any, why: str) -> None:
    said = neighbours._not_shown(ended, before, after)
    assert (why in said) if why else said == ""


LOOP = """case "$*" in
 *disable-profile*) echo $$ >> {pids}; f={counter}; i=0
   while :; do i=$((i + 1)); echo $i > $f.new; mv $f.new $f; sleep 0.02; done;;
esac
sleep 0.3
"""


def test_neighbours_run_meanwhile_and_are_gone_afterwards(kernels: Any, instance: Any,
                                                          here: chip.Probe, tmp_path: Path) -> None:
    count(here, 1, 0)
    counter = here.here.sys / ("devices/virtual/neuron_device/neuron0/neuron_core1/stats/"
                               "other_info/inference_count/total")
    view = VIEW.replace("cp {saved} y;", "")
    instance(script=LOOP.format(pids=tmp_path / "pids", counter=counter) + view)
    call = launch(kernels.copy, ((128, 4), "bf16"))
    one, other = runner.capture_together(call, [0, 1])
    assert (one.provenance["cores"], one.provenance["alongside"]) == ([0], [1])
    assert (other.provenance["cores"], other.provenance["alongside"]) == ([1], [0])
    assert "overlap" not in [flag.name for flag in one.flags]
    # core 0 has no counter here, so that it worked meanwhile is not shown
    assert [flag.said for flag in other.flags if flag.name == "overlap"] == [
        "core 0: the driver does not count its executions here"]
    started = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(started) == 2 and not any(map(alive, started))
    assert (one.folder / "kernel.neff").read_bytes() == (other.folder / "kernel.neff").read_bytes()


def test_a_neighbour_that_fails_ends_the_capture(kernels: Any, instance: Any, tmp_path: Path
                                                 ) -> None:
    instance(script='case "$*" in *disable-profile*) echo NRT_EXEC_NC_BUSY >&2; exit 1;; esac\n'
             + "sleep 1\n" + VIEW)
    count_file = tmp_path / "sys/devices/virtual/neuron_device/neuron0/neuron_core1"
    (count_file / "stats/other_info/inference_count").mkdir(parents=True)
    (count_file / "stats/other_info/inference_count/total").write_text("5")
    with pytest.raises(CaptureError, match=r"neighbour on core 1: it ended before.*Another"
                       ) as caught:
        runner.capture_together(launch(kernels.copy, ((128, 4), "bf16")), [0, 1])
    assert str(caught.value).count("log: ") == 1


def test_no_clock_of_the_host_is_read() -> None:
    for module in (runner, explorer, worker, gate, neighbours):
        text = Path(str(module.__file__)).read_text()
        assert "import time" not in text and "perf_counter" not in text
