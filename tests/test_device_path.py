"""The whole path on a stand-in: run, check, capture, view, record, measure, read off.

The stand-in (tests/standin) is written from the documents. What goes wrong in it has to give its
clear error, leave no process, and leave earlier recordings as they were; and a later run works.
"""

import concurrent.futures
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import leases
import numpy as np
import pytest
import standin
from jupyter_client.manager import KernelManager
from pages import ROOT
from workshop.hub import cores

from roofline import device, nki
from roofline.device import explorer, gate, neighbours, runner, store
from roofline.device.lease import take
from roofline.device.recording import RecordingError

REAL = ROOT.parent / "shared/reference/real-profiles"
KERNELS = nki.load(ROOT / "day4" / "kernels.py")
BYTES = 4 * 128 * 1024  # of x, fp32
LIMIT = 900  # s: the time a step has unless told otherwise
X = np.random.default_rng(7).standard_normal((128, 1024)).astype(np.float32)


class Lab:
    """A book of its own, on a stand-in for an instance."""

    def __init__(self, folder: Path, chip: str) -> None:
        self.chip, self.instance = chip, folder / "instance"
        self.recorded = folder / "book" / "work" / "recorded"

    def behave(self, **changes) -> None:
        standin.behave(self.instance, **changes)

    def calls(self, *what: str) -> list[dict]:
        return standin.calls(self.instance, *what)

    @property
    def captures(self) -> int:
        """Captures that the tool was asked for, neighbours left out."""
        return sum("--disable-profile" not in call["argv"]
                   for call in self.calls("neuron-explorer", "capture"))

    def files(self) -> dict[str, bytes]:
        """Every file of every recording."""
        return {path.relative_to(self.recorded).as_posix(): path.read_bytes()
                for path in sorted(self.recorded.rglob("*"))
                if path.is_file() and not path.relative_to(self.recorded).parts[0].startswith(".")}

    def copied(self, elements: int = 256, **how) -> store.Recording:
        """A capture of the copy kernel: 2 x BYTES over HBM."""
        return runner.capture_launch(device.launch(KERNELS.copy, X, elements=elements), **how)

    def fails(self, error: type[BaseException], **how) -> str:
        """What a capture says that fails; it leaves no process, and every recording as it was."""
        before = self.files()
        with pytest.raises(error) as failure:
            self.copied(elements=512, **how)
        self.clean()
        assert self.files() == before
        assert len(failure.value._render_traceback_()) == 1  # no stack for readers
        text = str(failure.value)
        assert text.startswith("copy: ")
        return text

    def clean(self) -> None:
        """Nothing of a capture is left: no process, no part of a recording."""
        end = time.monotonic() + 2
        while standin.running(self.instance) and time.monotonic() < end:
            time.sleep(0.02)
        assert standin.running(self.instance) == []
        assert not list(self.recorded.glob(".part-*"))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """lab("trn1", ...): the instance, with this behaviour."""
    def made(chip: str = "trn1", **behaviour) -> Lab:
        (tmp_path / "book" / "lib" / "roofline").mkdir(parents=True)
        (tmp_path / "instance").mkdir()
        monkeypatch.chdir(tmp_path / "book")
        monkeypatch.delenv("ROOFLINE_RECORDED", raising=False)
        for name, value in standin.install(tmp_path / "instance", chip, **behaviour).items():
            monkeypatch.setenv(name, value)
        return Lab(tmp_path, chip)

    return made


@pytest.fixture
def hung(monkeypatch):
    """hung(lab, error): a step that hangs is taken for hung as soon as it does."""
    def made(at: Lab, error: type[BaseException] = subprocess.TimeoutExpired) -> None:
        wait, told = subprocess.Popen.wait, []

        def until(self, timeout=None):
            if timeout != LIMIT:
                return wait(self, timeout)
            while True:
                try:
                    return wait(self, 0.05)
                except subprocess.TimeoutExpired:
                    if len(at.calls("child")) > len(told):  # what hangs starts a child
                        told.append(timeout)
                        raise (error(self.args, timeout) if error is subprocess.TimeoutExpired
                               else error()) from None

        monkeypatch.setattr(subprocess.Popen, "wait", until)
        monkeypatch.setattr("roofline.device.explorer.GRACE_S", 0.2)

    return made


# --- it works ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "lnc"), [("trn1", 1), ("trn2", 1), ("trn2", 2)])
def test_a_copy_is_captured_recorded_and_found_again(lab, chip, lnc):
    """4 transfers of [128, 256] fp32 each way; at LNC=2 each core has half of them."""
    at = lab(chip, fixed_s=3e-6, seconds_per_byte=1e-11)
    call = device.launch(KERNELS.copy, X, elements=256, lnc=lnc)
    one = device.measure(call, chip)
    assert (one.kind, one.flags, one.profile.cores) == ("measured", (), lnc)
    assert one.count.hbm_bytes == 2 * BYTES
    assert one.active_bandwidth == pytest.approx(lnc / 1e-11)
    assert one.time == pytest.approx(3e-6 + 2 * BYTES / lnc * 1e-11)
    assert one.bandwidth == pytest.approx(2 * BYTES / one.time)
    assert one.label.startswith("synthetic (test stand-in)")
    assert one.profile.counted().hbm_bytes == 2 * BYTES
    assert repr(device.gap(one)) and "overhead" not in repr(device.gap(one))
    at.clean()
    before, files = len(at.calls()), at.files()
    again = device.measure(call, chip)
    assert again.time == one.time and len(at.calls()) == before and at.files() == files
    [recording] = device.recordings(chip=chip, kernel="copy")
    assert store.find(call.key(chip)).name == recording.name
    said = recording.provenance
    assert (said["chip"], said["lnc"], said["cores"]) == (chip, lnc, [0])
    assert said["instance"] == standin.CHIPS[chip].instance
    assert (said["execution"], said["warm"]) == ("second of 2", True)
    assert said["synthetic"] is True and "stand-in" in said["explorer"] and said["sdk"] == "2.32"
    assert {"summary.json", "timeline.json", "kernel.neff", "kernel.py", "log.txt",
            "profile_exec_2.ntff"} <= set(recording.files)
    assert (recording.folder / "kernel.py").read_bytes() == call.file.read_bytes()


def test_command_lines_and_environment_are_those_of_the_documents(lab, monkeypatch):
    """A shell that is set for something else does not leak into a run of LNC 1 on core 3."""
    at = lab("trn2")
    for name, value in {"NEURON_LOGICAL_NC_CONFIG": "2", "NEURON_RT_VIRTUAL_CORE_SIZE": "2",
                        "NEURON_RT_NUM_CORES": "4", "NEURON_RT_VISIBLE_CORES": "0-1",
                        "NEURON_RT_INSPECT_ENABLE": "1", "NKI_ARTIFACTS_DIR": "/nowhere",
                        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn3"}.items():
        monkeypatch.setenv(name, value)
    assert at.copied(core=3, dge=True).provenance["cores"] == [3]
    [capture] = at.calls("neuron-explorer", "capture")
    words = capture["argv"]
    assert {"--num-exec=2", "--profile-nth-exec=2", "--enable-dge-notifs"} <= set(words)
    assert words[words.index("-n") + 1] == "kernel.neff" and words[-2] == "x"
    for call in [capture, *at.calls("nki", "call")]:
        assert call["env"] | {
            "NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_VIRTUAL_CORE_SIZE": "1",
            "NEURON_RT_VISIBLE_CORES": "3", "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
        } == call["env"]
        assert not {"NEURON_RT_NUM_CORES", "NEURON_RT_INSPECT_ENABLE"} & set(call["env"])
    [imported] = at.calls("nki", "import")
    assert Path(imported["artifacts"]).is_relative_to(at.recorded)
    forms = [call["argv"][call["argv"].index("--output-format") + 1]
             for call in at.calls("neuron-explorer", "view")]
    assert forms == ["summary-json", "json"]


def test_bf16_has_its_bits_taken_and_its_outputs_checked(lab):
    at = lab("trn2", fixed_s=2e-6, columns_per_second=2e9)
    a, b = ((128, 128), "bf16"), ((128, 512), "bf16")
    one = device.measure(device.launch(KERNELS.resident_matmul, a, b, repeat=40), "trn2")
    assert one.flags == () and one.profile.counted().flops == 40 * 2 * 128 * 128 * 512
    [capture] = at.calls("neuron-explorer", "capture")
    assert capture["argv"][-4::2] == ["a", "b"]
    loop = device.loop(one).whole
    assert loop.seconds == pytest.approx(40 * 512 / 2e9, rel=1e-3)  # a matmul after the other
    assert loop.rate == pytest.approx(2 * 128 * 128 * 2e9, rel=1e-3)


def test_a_sweep_of_moving_columns_shows_the_intervals(lab):
    """A matmul of the stand-in takes its columns, at least 64, at 1.4 a ns: half of Trn1's."""
    lab("trn1", columns_per_second=1.4e9, min_columns=64)
    calls = [device.launch(KERNELS.moving_sweep, ((128, 128), "bf16"), ((128, n), "bf16"), n=8)
             for n in (32, 512)]
    rows = list(device.intervals(device.sweep(calls, "trn1")))
    assert [row.cycles for row in rows] == pytest.approx([2 * 64, 2 * 512], rel=0.02)
    assert not any(row.follows for row in rows)


def test_an_odd_but_documented_environment_takes_the_framework_that_is_there(lab):
    """NumPy arrays refused: jax has its turn, and its NEFF lies in the working directory."""
    at = lab("trn1", numpy=False, frameworks=["jax"])
    found = at.copied()
    assert found.provenance["framework"].startswith("jax 0.10.0")
    assert found.flags == ()


# --- what goes wrong -----------------------------------------------------------------------------

WRONG = {  # stage -> behaviour, what the error has to say
    "run": [
        ({"fail": "compile"}, ["NCC_STDN001", "correct the kernel"]),
        ({"fail": "run"}, ["compile and run the kernel", "NRT_EXEC_HW_ERR_NC_UE"]),
        ({"busy": [0]}, ["another process holds the core", "neuron-ls", "core=",
                         "process 113985 (neuron-bench"]),
    ],
    "capture": [
        ({"fail": "capture"}, ["capture: it failed with exit code 1", "NRT_TIMEOUT(5)",
                               "NEURON_RT_EXEC_TIMEOUT"]),
        ({"silent": True}, ["no .ntff file, and exit code 0", "expected profile_exec_2.ntff",
                            "run it again"]),
        ({"empty_ntff": True}, ["profile_exec_2.ntff of 0 bytes", "no execution was profiled"]),
        ({"full_disk": True}, ["the disk is full", "free some space"]),
    ],
    "view": [
        ({"fail": "view"}, ["view, summary: it failed with exit code 1", "invalid NTFF"]),
        ({"summary": "empty"}, ["view, summary", "on its stdout", "by hand"]),
        ({"summary": "cut"}, ["view, summary", "on its stdout", "by hand"]),
        ({"summary": "none"}, ["view, summary", "on its stdout", "by hand"]),
        ({"absent": ["total_time"]}, ["view, summary", "by hand"]),
    ],
}


@pytest.mark.parametrize("stage", WRONG)
def test_a_failure_says_what_and_keeps_the_rest(lab, stage):
    at = lab("trn1")
    at.copied()
    before = at.files()
    for told, words in WRONG[stage]:
        at.behave(**told)
        text = at.fails(device.CaptureError)
        assert [word for word in words if word.lower() not in text.lower()] == [], text
        log = Path(text.rpartition("log: ")[2])
        assert "roofline.device.worker job.json" in log.read_text()
        at.behave(**{name: standin.DEFAULTS[name] for name in told})
    assert at.copied(elements=512).flags == ()
    assert len(device.recordings()) == 2 and before.items() <= at.files().items()


@pytest.mark.parametrize(("outputs", "what", "words"), [
    ("zeros", "zeros", "got zeros alone"),
    ("scaled:2", "scale", "every value is 2 times the expected one"),
    ("nan", "NaN", "1 of 131,072 values are NaN"),
    ("shape", "shape", "expected [128, 1024]"),
    ("one", "values", "1 of 131,072 values are off"),
])
def test_wrong_outputs_stop_before_a_time_is_shown(lab, capfd, outputs, what, words):
    at = lab("trn1", outputs=outputs)
    with pytest.raises(gate.WrongOutput) as failure:
        at.copied()
    text = str(failure.value)
    assert failure.value.what == what and words in text, text
    assert "nothing is recorded" in text and not re.search(r"\d [mun]?s\b|total_time", text)
    assert not at.calls("neuron-explorer", "capture") and at.files() == {}
    at.clean()
    assert not re.search(r"\d [mun]s\b", capfd.readouterr().out)


def test_outputs_of_the_profiled_execution_are_checked_too(lab):
    """A capture that takes no inputs fills in zeros, and would be another run."""
    at = lab("trn1", saved="zeros")
    assert "the profiled execution: got zeros alone" in at.fails(gate.WrongOutput)
    at.behave(saved="")
    assert at.copied().flags == ()


@pytest.mark.parametrize(("where", "step"), [("compile", "compile and run the kernel"),
                                             ("capture", "capture"), ("summary", "view, summary")])
def test_what_never_ends_is_ended_with_its_children(lab, hung, where, step):
    """It minds neither SIGTERM nor SIGINT, and has a child."""
    at, begun = lab("trn1", hang=where, stubborn=True), time.monotonic()
    hung(at)
    text = at.fails(device.CaptureError)
    assert time.monotonic() - begun < standin.FOREVER / 2  # it did not end by itself
    assert step in text and f"no end after {LIMIT} s" in text and "timeout_s=" in text


def test_a_json_that_never_ends_leaves_the_tables(lab, hung):
    at = lab("trn1", hang="json")
    hung(at)
    assert "parquet/Summary.parquet" in at.copied().files
    at.clean()


def test_the_limit_is_a_time(lab):
    at = lab("trn1")
    assert "no end after 0.05 s" in at.fails(device.CaptureError, timeout_s=0.05)


def test_stopped_by_the_reader(lab, hung):
    """Ctrl-C while the tool captures."""
    at = lab("trn1", hang="capture")
    hung(at, KeyboardInterrupt)
    assert "stopped by you" in at.fails(KeyboardInterrupt)


def test_a_tool_that_does_not_say_its_version_stops_nothing(lab, monkeypatch):
    monkeypatch.setattr("roofline.device.chip.TIMEOUT_S", 0.5)
    at = lab("trn1", hang="version")
    here = device.probe()
    assert "no answer within 0.5 s" in repr(here)
    at.clean()


def test_too_many_transfers_for_notifications(lab):
    at = lab("trn1", overflow=True)
    text = at.fails(device.CaptureError, dge=True)
    assert "dge=True" in text and "NRT_EXEC_SW_NQ_OVERFLOW" in text
    assert at.copied(dge=False).provenance["dge"] is False


def test_a_full_disk_loses_nothing(lab, monkeypatch):
    """Where the inputs are written, the recording is, and where it is moved to its name."""
    at = lab("trn1")
    at.copied()
    for owner, name in ((np, "save"), (os, "fsync"), (os, "rename")):
        def full(*_args, **_kwargs):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            text = at.fails(device.CaptureError)
        assert "No space left on device" in text and "ree some space" in text


def test_what_the_launch_itself_cannot_do(lab):
    at = lab("trn1")
    for how, words in (({"core": 2}, "core 2"), ({"framework": "tf"}, "got 'tf'")):
        with pytest.raises(device.CaptureError, match=words):
            at.copied(**how)
    with pytest.raises(device.CaptureError, match="no logical cores"):
        runner.capture_launch(device.launch(KERNELS.copy, X, elements=256, lnc=2))
    with pytest.raises(device.CaptureError, match="exists from NeuronCore-v3 on") as failure:
        runner.capture_launch(device.launch(KERNELS.copy, X, elements=256, queues=1))
    assert "Correct the kernel" in str(failure.value)
    at.clean()
    assert at.captures == 0


# --- what is odd and still a recording -----------------------------------------------------------


@pytest.mark.parametrize(("told", "flags", "files"), [
    ({"json": "empty"}, (), {"parquet/Summary.parquet"}),
    ({"json": "object", "log_lines": "json"}, (), {"parquet/Summary.parquet"}),
    ({"json": "empty", "parquet": "fails"}, ("no timeline",), {"summary.json"}),
    ({"cold_name": True}, ("cold",), {"profile.ntff"}),
    ({"log_lines": "text", "slow_s": 0.1, "summary": "two"}, (), {"timeline.json"}),
    ({"absent": ["hardware_flops", "transpose_flops", "dma_transfer_average_bytes"]}, (),
     {"timeline.json"}),
])
def test_an_odd_answer_gives_a_recording_that_says_so(lab, told, flags, files):
    at = lab("trn1", fixed_s=3e-6, seconds_per_byte=1e-11, cold=2.0, **told)
    call = device.launch(KERNELS.copy, X, elements=256)
    one = device.measure(call, "trn1")
    [recording] = device.recordings()
    assert tuple(flag.name for flag in recording.flags) == flags
    assert files <= set(recording.files)
    slow = 2.0 if "cold" in flags else 1.0
    assert one.time == pytest.approx(slow * (3e-6 + 2 * BYTES * 1e-11))
    assert one.excluded is ("cold" in flags)
    assert one.active_bandwidth == pytest.approx(1e11 / slow)
    assert (one.profile.timeline is None) is ("no timeline" in flags)
    at.clean()


def test_throttling_and_warnings_are_kept(lab):
    at = lab("trn2", throttle=True)
    found = at.copied().profile
    assert any("--enable-dge-notifs" in text for text in found.warnings)
    assert found.summary["throttle_active_nc0_time_ns"] > 0
    assert len(found.timeline.throttles) == 1


def test_lnc_2_that_doubles_everything_is_flagged(lab):
    lab("trn2", doubling=True)
    call = device.launch(KERNELS.copy, X, elements=256, lnc=2)
    one = device.measure(call, "trn2")
    assert [flag.partition(":")[0] for flag in one.flags] == ["doubled"] and one.excluded
    assert one.profile.summary["hbm_read_bytes"] == 2 * BYTES  # of which the source has half


@pytest.mark.parametrize(("chip", "rate", "flag", "excluded"), [
    # 16 engines x 27.2 GB/s = 435.2 GB/s is the most that any source gives; at 0.8 x T_best the
    # rate is 544 GB/s. Trn1's sheet says 272 (16 x 17 B/ns), Trn2's 358 (2.87 TB/s / 8).
    ("trn1", 435.2e9 / 0.8, "implausible", True), ("trn2", 435.2e9 / 0.8, "implausible", True),
    ("trn1", 300e9, "above spec", False), ("trn2", 400e9, "above spec", False),
])
def test_a_time_that_cannot_be_is_flagged_with_its_suspects(lab, chip, rate, flag, excluded):
    at = lab(chip, fixed_s=0, seconds_per_byte=1 / rate)
    fast, slow = (device.launch(KERNELS.copy, X, elements=n) for n in (256, 512))
    one = device.measure(fast, chip)
    assert [text.partition(":")[0] for text in one.flags] == [flag]
    assert one.excluded is excluded
    if flag == "implausible":
        assert "0.8 of the least time" in one.flags[0]
        assert all(word in one.flags[0] for word in ("Suspects", "clock", "scope", "execution"))
    else:
        assert "Check the input: usually the clock or the scope" in one.flags[0]
    if (chip, excluded) != ("trn1", True):
        return
    at.behave(seconds_per_byte=1 / 200e9)
    swept = device.sweep([fast, slow], chip)
    assert swept.curves("elements", y="active_bandwidth")["measured"].x == (512,)
    assert swept.flagged("elements")["measured"].x == (256,)
    assert all(spec.value <= 200e9 for spec in device.roofs(chip).values())


# --- a real answer -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["full.json", "summary-json.json"])
def test_a_real_answer_of_the_profiler_is_read_as_it_is(lab, name):
    """Figures of profiles.md section 5, trn2 fused-fp32-s512: F, B, T, AI and mbu."""
    path = REAL / f"trn2-lnc2-attn-fused-fp32-s512.{name}"
    if not path.exists():
        pytest.skip(f"../shared/reference/real-profiles/{path.name} is not here")
    lab("trn2", reply=str(path))
    call = device.launch(KERNELS.copy, X, elements=256, lnc=2)
    found = runner.capture_launch(call)
    assert ("no timeline" in {flag.name for flag in found.flags}) is (name != "full.json")
    of = found.profile
    assert of.summary["hardware_flops"] - of.summary["transpose_flops"] == 268435456
    assert of.cores == 2 and of.counted("fp32").hbm_bytes == 1114112
    assert of.summary["total_time"] == pytest.approx(38.091607e-6)
    assert of.summary["mm_arithmetic_intensity"] == pytest.approx(240.941, abs=5e-4)
    assert of.summary["mbu_estimated_percent"] == pytest.approx(0.040849, abs=5e-7)
    assert of.summary["hfu_estimated_percent"] < 1  # a fraction
    assert of.summary["throttle_active_nc0_time_ns"] == 614
    assert of.provenance["synthetic"] is True  # the kernel that ran is not that of the file


# --- several at once -----------------------------------------------------------------------------


def test_two_captures_at_once_on_two_cores(lab):
    at = lab("trn1", capture_s=0.3)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda core: at.copied(core=core), (0, 1)))
    assert [one.provenance["cores"] for one in done] == [[0], [1]]
    assert {one.name for one in device.recordings()} == {one.name for one in done}
    assert device.recordings().problems == () and len(done[0].files) == len(done[1].files)
    at.clean()


def test_two_captures_at_once_on_one_core(lab):
    """Whoever comes second is told who holds it; the other is whole."""
    at = lab("trn1", exec_s=0.5)

    def run(_):
        try:
            return at.copied()
        except device.CaptureError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(run, (0, 1)))
    told = [one for one in done if isinstance(one, str)]
    assert len(told) < 2 and all("nother process holds the core" in text for text in told)
    assert len(device.recordings()) == 2 - len(told) and device.recordings().problems == ()
    at.clean()


@pytest.mark.parametrize(("chip", "lnc", "cores"), [("trn1", 1, (0, 1)), ("trn2", 2, (0, 1))])
def test_all_cores_at_once(lab, chip, lnc, cores):
    """While one is profiled the other runs the same in a loop, and its counter shows it."""
    at = lab(chip, exec_s=0.0005, capture_s=0.1)
    call = device.launch(KERNELS.copy, X, elements=256, lnc=lnc)
    found = device.together(call, chip, cores)
    assert set(found.each) == set(cores) and found.why == ""
    assert all(one.flags == () for one in found.each.values()), found
    loops = [call for call in at.calls("neuron-explorer", "capture")
             if "--disable-profile" in call["argv"]]
    assert [loop["env"]["NEURON_RT_VISIBLE_CORES"] for loop in loops] == ["1", "0"]
    at.clean()
    before = len(at.calls())
    again = device.together(call, chip, cores)
    assert len(at.calls()) == before and again.rates == found.rates
    alone = {tuple(one.provenance.get("alongside", ())) for one in device.recordings()}
    assert alone == {(), (0,), (1,)}


def test_an_overlap_that_is_not_shown_is_flagged(lab, monkeypatch):
    monkeypatch.setattr(neighbours, "TRIES", 1)
    at = lab("trn1", counters=False, exec_s=0.0005)
    found = runner.capture_together(device.launch(KERNELS.copy, X, elements=256), [0, 1])
    assert [[flag.name for flag in one.flags] for one in found] == [["overlap"]] * 2
    assert "core 1" in found[0].flags[0].said and "core 0" in found[1].flags[0].said
    at.clean()


def test_a_neighbour_that_cannot_run_is_an_error(lab):
    at = lab("trn1", busy=[1])
    with pytest.raises(device.CaptureError, match="neighbour on core 1") as failure:
        runner.capture_together(device.launch(KERNELS.copy, X, elements=256), [0, 1])
    assert "nother process holds the core" in str(failure.value)
    at.clean()
    assert at.files() == {}


# --- an instance that a class shares -------------------------------------------------------------


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """queue("0-3", sharing): gives out these cores from now on."""
    made = []

    def go(cores: str, sharing: int = 1) -> leases.Server:
        made.append(leases.Server(tmp_path / "cores", cores, sharing))
        made[-1].start()
        monkeypatch.setenv("ROOFLINE_CORES", str(tmp_path / "cores"))
        return made[-1]

    yield go
    for one in made:
        one.stop(signal.SIGKILL)


def used(at: Lab) -> set[str]:
    """NEURON_RT_VISIBLE_CORES of all that ran on a core."""
    return {call["env"]["NEURON_RT_VISIBLE_CORES"] for call in [
        *at.calls("nki", "call"), *at.calls("neuron-explorer", "capture")]}


@pytest.mark.parametrize(("sharing", "lnc", "taken", "core", "free"), [
    (1, 1, [0], 1, []), (2, 1, [0], 2, []), (2, 2, [0], 1, []), (2, 2, [3], 0, []),
    (1, 2, [1], 1, [0]),  # the pair of 2 and 3
])
def test_a_capture_runs_on_the_core_that_it_is_given(lab, queue, capsys, sharing, lnc, taken, core,
                                                     free):
    """Cores 0 to 3 are the class's. All steps on a core are on that one; then it is free again."""
    at, running = lab("trn2"), queue("0-3", sharing)
    call = device.launch(KERNELS.copy, X, elements=256, lnc=lnc)
    with leases.Asker(running.path, {"cores": taken}) as other:
        other.core()
        assert runner.capture_launch(call).provenance["cores"] == [core]
        assert used(at) == {str(core)}
        word = "logical " * (lnc == 2)
        assert capsys.readouterr().out == f"\r{f'{word}core {core} is yours':<60}\n"
        left = running.status
        assert len(left["leases"]) == 1 and set(free) <= set(left["free"])
    at.clean()


def test_what_runs_on_a_core_holds_its_lease_and_nothing_else_does(lab, queue, monkeypatch):
    """Of each process: what it was passed, and the cores that were leased when it was started."""
    at, running, seen = lab("trn1"), queue("0-1"), []
    start = explorer.Bench.start

    def noted(bench, command, within, stdout):
        seen.append((command[1], len(bench.lease.files), running.status["free"],
                     [os.get_inheritable(file) for file in bench.lease.files]))
        process = start(bench, command, within, stdout)
        held = {os.readlink(file) for file in Path(f"/proc/{process.pid}/fd").iterdir()}
        assert sum("/cores.d/core" in name for name in held) == len(bench.lease.files)
        return process

    monkeypatch.setattr(explorer.Bench, "start", noted)
    at.copied()
    assert seen == [("-m", 1, [1], [False]), ("capture", 1, [1], [False]),
                    ("view", 0, [0, 1], []), ("view", 0, [0, 1], [])]
    monkeypatch.delenv("ROOFLINE_CORES")
    at.copied(elements=512)
    assert seen[4:6] == [("-m", 0, [0, 1], []), ("capture", 0, [0, 1], [])]


def test_a_core_that_is_named_is_waited_for_and_its_place_is_told(lab, queue):
    at, running, told = lab("trn1"), queue("0-1"), []
    other = leases.Asker(running.path, {"cores": [1]})
    other.core()
    second = leases.Asker(running.path, {"cores": [1]})

    def tell(step: str) -> None:
        told.append(step)
        if step.endswith("1 ahead of you"):
            assert at.calls("nki") == [] and running.status["free"] == [0]
            second.close()
        elif step.endswith("you are next"):
            [waits] = running.status["queue"]
            assert waits["what"] == "copy elements=256"
            other.close()

    assert at.copied(core=1, tell=tell).provenance["cores"] == [1]
    assert [step for step in told if "you" in step] == [
        "waiting for a core: 1 ahead of you", "waiting for a core: you are next", "core 1 is yours"]
    assert used(at) == {"1"}


def test_logical_cores_are_leased_as_the_pairs_they_are(queue):
    running, told = queue("0-7"), []
    with take("together", 2, [3, 0], told.append) as mine:
        assert mine.cores == (3, 0) and told == ["logical cores 3, 0 are yours"]
        assert [one["cores"] for one in running.status["leases"]] == [[0, 1, 6, 7]]
    assert running.status["free"] == list(range(8))


def test_cores_at_once_wait_for_all_of_them_and_lock_nobody_out(lab, queue):
    """Two captures of both cores and two of one, all at once: each has its turn."""
    at, running = lab("trn1", exec_s=0.0005), queue("0-1")
    call = device.launch(KERNELS.copy, X, elements=256)

    def run(n: int) -> list[list[int]]:
        made = runner.capture_together(call, [n, 1 - n]) if n < 2 else [at.copied()]
        return [one.provenance["cores"] for one in made]

    with concurrent.futures.ThreadPoolExecutor() as pool:
        done = list(pool.map(run, range(4)))
    assert done[:2] == [[[0], [1]], [[1], [0]]] and {tuple(one[0]) for one in done[2:]} <= {
        (0,), (1,)}
    assert running.status["free"] == [0, 1]
    at.clean()


# A notebook's kernel, as far as a capture goes.
CAPTURES = f"""
from roofline import device, nki
from roofline.device import runner
kernels = nki.load({str(ROOT / "day4" / "kernels.py")!r})
try:
    made = runner.capture_launch(
        device.launch(kernels.copy, ((128, 1024), "fp32"), elements=256))
    print("recorded", *made.provenance["cores"], flush=True)
except BaseException as error:
    print(error, flush=True)
input()
"""


@pytest.fixture
def notebook():
    """notebook(): a kernel that captures, then waits for a word."""
    made = []

    def go() -> subprocess.Popen:
        made.append(subprocess.Popen([sys.executable, "-c", CAPTURES], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True))
        return made[-1]

    yield go
    for one in made:
        one.kill()
        one.communicate()


def until(done, what: str) -> None:
    end = time.monotonic() + leases.LIMIT_S
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def said(kernel: subprocess.Popen, word: str) -> str:
    """The next line of a kernel that has this word in it."""
    while line := kernel.stdout.readline():
        if word in line:
            return line.strip()
    raise AssertionError(f"it ended and did not say {word!r}")


def test_a_killed_kernel_frees_its_core_when_nothing_of_it_is_left(lab, queue, notebook):
    """The compiler and its child mind no request; nobody has the core before they are gone."""
    at, running = lab("trn1", hang="compile", stubborn=True), queue("0")
    kernel = notebook()
    until(lambda: at.calls("child"), "the compiler does not hang")
    with leases.Asker(running.path, {"width": 1}) as next_one:
        assert next_one.hear() == {"ahead": 0}
        assert len(standin.running(at.instance)) >= 2
        kernel.kill()
        assert next_one.core() == [0]
        assert standin.running(at.instance) == []
    at.behave(hang="")
    assert at.copied().provenance["cores"] == [0]


def test_in_jupyter_a_cell_waits_for_its_turn_and_a_killed_kernel_frees_the_core(lab, queue):
    at, running = lab("trn1", hang="capture", stubborn=True), queue("0")
    other = leases.Asker(running.path, {"width": 1})
    other.core()
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(leases.LIMIT_S)
        client.execute(CAPTURES.replace("input()", ""))
        shown = ""
        while "is yours" not in shown:
            message = client.get_iopub_msg(leases.LIMIT_S)
            if message["msg_type"] == "stream":
                shown += message["content"]["text"]
                if "you are next" in shown:
                    other.close()
        assert [line.strip() for line in shown.split("\r")] == [
            "", "waiting for a core: you are next", "core 0 is yours"]
        until(lambda: at.calls("child"), "the tool does not hang")
        with leases.Asker(running.path, {"width": 1}) as next_one:
            assert next_one.hear() == {"ahead": 0}
            assert running.status["leases"][0]["pid"] == manager.provisioner.pid
            os.kill(manager.provisioner.pid, signal.SIGKILL)
            assert next_one.core() == [0]
            assert standin.running(at.instance) == []
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def test_a_core_is_free_again_before_the_profile_is_read(lab, queue, notebook):
    at, running = lab("trn1", hang="summary"), queue("0")
    notebook()
    until(lambda: at.calls("child"), "the view does not hang")
    assert running.status["free"] == [0]


def test_an_interrupt_gives_the_place_up(lab, queue, notebook):
    at, running = lab("trn1"), queue("0")
    with leases.Asker(running.path, {"width": 1}) as other:
        other.core()
        kernel = notebook()
        until(lambda: running.status["queue"], "it does not wait")
        kernel.send_signal(signal.SIGINT)
        assert "stopped by you while it waited" in said(kernel, "stopped")
        assert running.status["queue"] == [] and at.calls("nki") == []
        assert kernel.poll() is None


def test_the_instructor_ends_a_capture_and_the_kernel_goes_on(lab, queue, notebook):
    at, running = lab("trn1", hang="capture"), queue("0")
    kernel = notebook()
    until(lambda: at.calls("child"), "the tool does not hang")
    assert "SIGINT" in cores.end(running.path, 0)
    assert "stopped by you, or by the instructor; what it had" in said(kernel, "stopped")
    assert running.status["free"] == [0] and kernel.poll() is None
    at.clean()


def test_a_queue_that_is_restarted_under_a_capture_leaves_it_its_core(lab, queue, notebook):
    at, running = lab("trn1", capture_s=2), queue("0")
    kernel = notebook()
    until(lambda: at.calls("neuron-explorer", "capture"), "nothing is captured")
    running.stop(signal.SIGKILL)
    running.start()
    [lease] = running.status["leases"]
    assert (lease["pid"], lease["what"]) == (kernel.pid, "copy elements=256")
    assert said(kernel, "recorded") == "recorded 0"
    assert running.status["free"] == [0]


def test_a_queue_that_is_not_there_or_ends_says_so_once(lab, queue, notebook, monkeypatch):
    at, running = lab("trn1"), queue("0")
    with leases.Asker(running.path, {"width": 1}) as other:
        other.core()
        kernel = notebook()
        until(lambda: running.status["queue"], "it does not wait")
        running.stop(signal.SIGKILL)
        text = said(kernel, "lost")
        assert text.startswith("copy: no turn on a core: the queue at ") and "(it ended)" in text
        assert "Run this again" in text and kernel.poll() is None
    text = at.fails(device.CaptureError)
    assert "ask the instructor to start it" in text and "Connection refused" in text
    monkeypatch.setenv("ROOFLINE_CORES", "/nowhere/cores")
    assert "No such file" in at.fails(device.CaptureError)
    assert at.calls("nki") == []


def test_a_core_that_the_instance_has_not_is_refused(lab, queue):
    at, running = lab("trn1"), queue("5")
    assert "a core that is not here" in at.fails(device.CaptureError)
    assert running.status["free"] == [5] and at.calls("nki") == []
    assert "a request for cores that the class has not" in at.fails(device.CaptureError, core=0)


# --- a sweep -------------------------------------------------------------------------------------

SWEEP = f"""
import sys
import numpy as np
from roofline import device, nki
kernels = nki.load({str(ROOT / "day4" / "kernels.py")!r})
calls = [device.launch(kernels.copy, ((128, 1024), "fp32"), elements=n) for n in (256, 512)]
swept = device.sweep(calls, "trn1")
print(len(swept), len(swept.failures), len(swept.left), flush=True)
"""


def test_a_sweep_that_is_stopped_goes_on_where_it_was(lab):
    """Ctrl-C to the whole group, as a terminal sends it, once the first point is recorded."""
    at = lab("trn1", capture_s=0.3)
    process = subprocess.Popen([sys.executable, "-c", SWEEP], stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    end = time.monotonic() + 30
    while at.captures < 2 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert said.splitlines()[-1].split() == ["1", "0", "1"]
    at.clean()
    before, captures = at.files(), at.captures
    assert captures == 2 and len(device.recordings()) == 1
    calls = [device.launch(KERNELS.copy, ((128, 1024), "fp32"), elements=n)
             for n in (256, 512)]
    swept = device.sweep(calls, "trn1")
    assert (len(swept), swept.failures, swept.left) == (2, (), ())
    assert at.captures == captures + 1 and before.items() <= at.files().items()
    assert {one.kind for one in swept} == {"measured"}


def test_a_point_that_fails_leaves_the_others(lab):
    at = lab("trn1", busy=[1])
    calls = [device.launch(KERNELS.copy, X, elements=256, lnc=2),  # no LNC on this chip
             device.launch(KERNELS.copy, X, elements=256)]
    swept = device.sweep(calls, "trn1")
    assert [one.launch for one in swept] == [calls[1]]
    [(failed, why)] = swept.failures
    assert failed is calls[0] and "LNC" in why.upper()
    assert "failed" in repr(swept)
    at.clean()


# --- outside of tests ----------------------------------------------------------------------------

PROBE = """
from roofline import device, nki
import numpy as np
here = device.probe()
print(here.verdict)
print(len(device.recordings()), *(one.why for one in device.recordings().problems))
try:
    device.capture(nki.load(KERNEL).copy, np.ones((128, 64), "f4"), elements=64)
except device.CaptureError as error:
    print(error)
""".replace("KERNEL", repr(str(ROOT / "day4" / "kernels.py")))


def outside(**changes: str) -> list[str]:
    """The lines of PROBE in a process that no test is around."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    done = subprocess.run([sys.executable, "-c", PROBE], env=env | changes, text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_outside_of_tests_the_stand_in_is_refused(lab):
    at = lab("trn1")
    at.copied()
    calls = len(at.calls())
    verdict, found, error, *_ = outside()
    assert verdict.startswith("replay: ROOFLINE_STAND_IN is for the course's own tests; unset it")
    assert found.startswith("0 ") and "synthetic" in found and "no device ran" in found
    assert "nothing to capture on" in error and "ROOFLINE_STAND_IN" in error
    assert len(at.calls()) == calls


def test_on_an_ordinary_path_it_is_refused_too(lab):
    at = lab("trn1")
    verdict, found, error, *_ = outside(
        ROOFLINE_STAND_IN="", PATH=f"{at.instance / 'bin'}{os.pathsep}{os.environ['PATH']}",
        PYTHONPATH=str(at.instance / "site"))
    assert verdict.startswith("replay: ") and found == "0"
    assert "nothing to capture on" in error
    assert not at.calls("neuron-explorer", "capture") and not at.calls("nki")


def test_its_tools_and_packages_are_refused_by_what_they_say(lab, monkeypatch):
    """On a machine with a device, too: the versions say "stand-in"."""
    from roofline.device import chip
    at = lab("trn1")
    monkeypatch.delenv("ROOFLINE_STAND_IN")
    monkeypatch.setenv("PATH", f"{at.instance / 'bin'}{os.pathsep}{os.environ['PATH']}")
    plain = chip.installation()
    real = {"dev": at.instance / "dev", "sys": at.instance / "sys"}
    for more in ({}, {"pythonpath": str(at.instance / "site")}):
        here = chip.Installation(**{**vars(plain), **real, **more})
        monkeypatch.setattr(chip, "installation", lambda here=here: here)
        assert not chip.probe().runs and "stand-in" in chip.probe().why
    with pytest.raises(device.CaptureError, match="stand-in"):
        at.copied()
    assert not at.calls("neuron-explorer", "capture")


def test_what_it_recorded_is_marked_and_no_contribution(lab):
    found = lab("trn1").copied()
    assert found.provenance["synthetic"] is True and found.label.startswith("synthetic")
    assert found.profile.provenance["label"] == found.label
    said = json.loads((found.folder / "recording.json").read_text())
    assert said["provenance"]["synthetic"] is True
    with pytest.raises(RecordingError, match="synthetic"):
        device.contribute(found)
