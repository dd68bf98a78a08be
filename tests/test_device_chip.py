"""device.probe on made-up machines: folders for /dev, /sys and /opt, shell scripts for the tools.

What the scripts print is what Neuron documents: neuron-ls -j and its header in the user guide of
neuron-ls, names of files in the sysfs user guide, the words of PyPI's empty packages.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import ROOT

from roofline import device, machine
from roofline.device import chip
from roofline.device.chip import ChipError, Installation, Said

NOTHING = ("replay: no Neuron device here; figures are recorded, published or modelled, and each "
           "says which")
WRONG = ("WRONG PACKAGE. Please install the package from Neuron Repository - "
         "pip.repos.neuron.amazonaws.com")


def entry(number: int = 0, **other) -> dict:
    """A device of `neuron-ls -j`, as the user guide prints it, without its processes."""
    return {"neuron_device": number, "bdf": "cc:00.0", "cpu_affinity": "48-95,144-191",
            "numa_node": "1", "connected_to": [12, 3, 4, 1], "nc_count": 4,
            "logical_neuroncore_config": 2, "memory_size": 103079215104,
            "neuroncore_ids": [0, 1, 2, 3], "neuron_processes": []} | other


class Place:
    """A made-up machine in a folder: nothing in it at first."""

    def __init__(self, root: Path) -> None:
        self.root, self.synthetic = root, False
        for name in ("dev", "sys", "opt", "bin", "site"):
            (root / name).mkdir()

    def installation(self) -> Installation:
        return Installation(self.root / "dev", self.root / "sys", self.root / "opt",
                            str(self.root / "bin"), str(self.root / "site"), self.synthetic)

    def file(self, name: str, text: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def device(self, number: int = 0, name: str | None = "Trainium2", **files: str) -> None:
        self.file(f"dev/neuron{number}", "")
        for file, text in (files | ({"device_name": name} if name else {})).items():
            self.file(f"sys/devices/virtual/neuron_device/neuron{number}/info/architecture/{file}",
                      text + "\n")

    def board(self, text: str) -> None:
        self.file("sys/devices/virtual/dmi/id/product_name", text + "\n")

    def command(self, name: str, body: str) -> None:
        """A shell script on the made-up PATH; it calls nothing but what the shell itself knows."""
        self.file(f"bin/{name}", "#!/bin/sh\n" + body + "\n").chmod(0o755)

    def neuron_ls(self, *entries: dict, header: str = "") -> None:
        self.file("neuron-ls.json", json.dumps(entries))
        self.file("neuron-ls.txt", header)
        self.command("neuron-ls", 'f=txt; [ "$1" = -j ] && f=json\n'
                     f'/bin/cat "{self.root}/neuron-ls.$f"')

    def wheel(self, name: str, version: str, words: str = "") -> None:
        stem = name.replace("-", "_")
        self.file(f"site/{stem}-{version}.dist-info/METADATA",
                  f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n{words}\n")

    def ready(self, name: str = "Trainium2") -> None:
        """All that a run needs."""
        self.device(name=name)
        self.command("neuron-explorer", "echo 'neuron-explorer 2.32.28.0'")
        self.wheel("nki", "0.6.0")


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.setattr(chip, "installation", made.installation)
    monkeypatch.setattr(chip, "TIMEOUT_S", 0.4)
    for name in [n for n in os.environ if n.startswith(("NEURON_", "NKI_", "ROOFLINE_"))]:
        monkeypatch.delenv(name)
    return made


def told_why(found: chip.Probe) -> None:
    """Each field that is unknown says why."""
    assert not [line for line in found.table() if line.endswith(" -")]


# --- nothing, and everything ---------------------------------------------------------------


def test_a_machine_without_anything_is_one_stable_line(place):
    found = chip.probe()
    assert (found.runs, found.verdict, repr(found)) == (False, NOTHING, NOTHING)
    assert (found.chip, found.devices, found.lnc, found.nki) == (None, 0, None, None)
    told_why(found)


def test_trn2_with_all_that_a_run_needs(place):
    place.ready()
    place.neuron_ls(entry(), header="instance-type: trn2.3xlarge\ninstance-id: i-aabbccdd12345678\n"
                    "logical-neuroncore-config: 2\n+--------+\n")
    place.command("dpkg-query", "echo aws-neuronx-dkms 2.30.2.0\n"
                  "echo aws-neuronx-runtime-lib 2.34.10.0-1f\necho aws-neuronx-tools 2.32.28.0\n")
    place.wheel("neuronx-cc", "2.27.5334.0+a1")
    place.wheel("jax", "0.10.0")
    place.wheel("libneuronxla", "3.0.5356.0")
    found = chip.probe()
    assert found.verdict == ("run: trn2.3xlarge, 1 device, 4 cores each at LNC 2, NKI 0.6.0, "
                             "neuron-explorer 2.32.28.0")
    assert (found.runs, found.why, found.notes) == (True, "", ())
    assert (found.chip, found.instance, found.devices) == ("trn2", "trn2.3xlarge", 1)
    assert (found.lnc, found.cores, found.physical_cores) == (2, 4, 4 * 2)
    assert (found.driver, found.runtime, found.tools) == ("2.30.2.0", "2.34.10.0-1f", "2.32.28.0")
    assert (found.nki, found.neuronx_cc, found.sdk) == ("0.6.0", "2.27.5334.0+a1", "2.32")
    assert (found.jax, found.torch_neuronx, found.frameworks) == ("0.10.0", None, ("jax",))
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert "tested: trn2.3xlarge, SDK 2.32: off the device" in repr(found)
    assert repr(found).splitlines()[0] == found.verdict
    told_why(found)


@pytest.mark.parametrize(("name", "key", "header"), [
    ("Trainium1", "trn1", "instance-type: trn1.2xlarge"),
    ("Inferentia2", "inf2", "instance-type: inf2.xlarge"),
])
def test_chips_without_logical_cores(place, name, key, header):
    place.ready(name)
    plain = {k: v for k, v in entry(nc_count=2).items() if k != "logical_neuroncore_config"}
    place.neuron_ls(plain, header=header)
    found = chip.probe()
    assert (found.runs, found.chip) == (True, key)
    assert (found.lnc, found.cores, found.physical_cores) == (1, 2, 2)
    assert found.told["physical cores"] == "of a device: neuron-ls"
    assert "LNC" not in found.verdict and "2 cores each" in found.verdict
    assert found.launch.startswith("kernel(...)")


def test_the_loaded_driver_comes_before_the_installed_package(place):
    place.ready()
    place.file("sys/module/neuron/version", "2.29.0.0\n")
    place.command("dpkg-query", "echo aws-neuronx-dkms 2.30.2.0; exit 1")
    assert chip.probe().driver == "2.29.0.0"


def test_packages_of_amazon_linux(place):
    place.ready()
    place.command("rpm", "echo 'package aws-neuronx-dkms is not installed'\n"
                  "echo 'aws-neuronx-tools 2.32.28.0'\nexit 1")
    found = chip.probe()
    assert (found.driver, found.tools) == (None, "2.32.28.0")
    told_why(found)


# --- which chip ------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "key"), [
    ("Trainium1", "trn1"), ("Trainium", "trn1"), ("Trainium2", "trn2"), ("Trn1", "trn1"),
    ("Inferentia2", "inf2"), ("Inf2", "inf2"), ("Inferentia", "inf1"), ("Inf1", "inf1"),
    ("trn1n.32xlarge", "trn1"), ("trn2n.48xlarge", "trn2"), ("inf2.xlarge", "inf2"),
    ("trn3.48xlarge", "trn3"), ("", None), ("c7i.large", None), ("NVIDIA H100", None),
])
def test_names_of_chips(text, key):
    assert chip._chip(text) == key


@given(st.text())
def test_any_text_is_a_chip_or_none(text):
    assert chip._chip(text) is None or chip._chip(text)[:3] in ("trn", "inf")


def test_devices_on_ec2_but_no_tools_at_all(place):
    """The virtual machine's name is enough for the chip; what is missing is said with the fix."""
    place.device(name=None)
    place.board("trn1.2xlarge")
    found = chip.probe()
    assert (found.chip, found.instance, found.devices) == ("trn1", "trn1.2xlarge", 1)
    assert not found.runs
    assert found.verdict == ("replay: neuron-explorer is not on PATH, nor in /opt/aws/neuron/bin: "
                             "sudo apt install aws-neuronx-tools (dnf on Amazon Linux)")
    assert found.physical_cores == machine.get("trn1", "device").facts["cores"].value
    assert "documented" in found.told["physical cores"]
    told_why(found)


def test_tools_but_no_devices(place):
    place.command("neuron-explorer", "echo neuron-explorer 2.32.28.0")
    place.command("neuron-ls", "echo no devices >&2; exit 1")
    place.wheel("nki", "0.6.0")
    found = chip.probe()
    assert (found.verdict, found.runs) == (NOTHING, False)
    assert (found.explorer, found.nki) == ("2.32.28.0", "0.6.0")
    assert "neuron-explorer" in repr(found)  # worth a table


def test_a_container_without_the_device_is_told_what_to_pass(place):
    place.device()
    (place.root / "dev/neuron0").unlink()
    assert "--device=/dev/neuron0" in chip.probe().verdict


def test_an_instance_without_the_driver_is_told_so(place):
    place.board("inf2.xlarge")
    verdict = chip.probe().verdict
    assert "this is a inf2.xlarge" in verdict and "aws-neuronx-dkms" in verdict
    assert verdict.startswith("replay: no Neuron device here (")


def test_a_device_of_unknown_type(place):
    place.ready("Grayskull")
    found = chip.probe()
    assert found.chip is None and not found.runs
    assert found.verdict == ("replay: a Neuron device of unknown kind (the driver's device_name "
                             "says 'Grayskull'); the course knows trn1, inf2, trn2")


def test_a_device_that_says_nothing(place):
    place.ready()
    for path in (place.root / "sys").rglob("device_name"):
        path.unlink()
    found = chip.probe()
    assert "unknown kind (neither the driver nor neuron-ls says)" in found.verdict


@pytest.mark.parametrize("name", ["Trainium3", "Inferentia"])
def test_a_chip_that_the_course_does_not_run_on(place, name):
    place.ready(name)
    found = chip.probe()
    assert found.chip == {"Trainium3": "trn3", "Inferentia": "inf1"}[name]
    assert f"not on {found.chip}" in found.why and found.lnc is None


def test_both_spellings_of_the_sysfs_guide(place):
    """Its tree has device_name, its text device_type; cores of version 3 are Trainium2's."""
    place.device(name=None, device_type="Inferentia2")
    assert chip.probe().chip == "inf2"
    place.device(name=None, device_type="", arch_type="NCv3")
    assert chip.probe().chip == "trn2"


def test_sources_that_disagree_are_noted(place):
    place.ready("Trainium1")
    place.neuron_ls(entry(), header="instance-type: trn2.3xlarge")
    found = chip.probe()
    assert found.chip == "trn1"
    assert "the driver's device_name says trn1, another source says trn2" in found.notes


def test_several_devices(place):
    for number in (0, 1, 2, 10):
        place.device(number)
    place.neuron_ls(*(entry(n) for n in (0, 1, 2)))
    found = chip.probe()
    assert found.devices == 4
    assert [node.name for node in chip._numbered(place.root / "dev")] == [
        "neuron0", "neuron1", "neuron2", "neuron10"]
    assert any("neuron-ls lists 3 device(s)" in note for note in found.notes)


def test_no_permission_names_the_group(place, monkeypatch):
    place.ready()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **how: Path(path).parent.name != "dev"
                        and allowed(path, mode, **how))
    assert "no permission for" in chip.probe().why and "group" in chip.probe().why


# --- LNC -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("environment", "listed", "header", "file", "lnc", "source"), [
    ({"NEURON_LOGICAL_NC_CONFIG": "1"}, 2, "2", "", 1, "NEURON_LOGICAL_NC_CONFIG in the env"),
    ({"NEURON_RT_VIRTUAL_CORE_SIZE": "1"}, 2, "2", "", 1, "NEURON_RT_VIRTUAL_CORE_SIZE in the"),
    ({}, 1, "", "", 1, "neuron-ls"),
    ({}, None, "1", "", 1, "neuron-ls"),
    ({}, None, "", "NEURON_LOGICAL_NC_CONFIG=1", 1, "aws/neuron/logical_nc_config"),
    ({}, None, "", "", 2, "the documented default of trn2"),
    ({"NEURON_LOGICAL_NC_CONFIG": "4"}, None, "", "", 2, "the documented default of trn2"),
])
def test_who_says_the_lnc(place, monkeypatch, environment, listed, header, file, lnc, source):
    place.ready()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    place.neuron_ls(entry(logical_neuroncore_config=listed, nc_count=8 // (listed or 2)),
                    header=f"logical-neuroncore-config: {header}\n" if header else "")
    if file:
        place.file("opt/aws/neuron/logical_nc_config", file + "\n")
    found = chip.probe()
    assert found.lnc == lnc and source in found.told["LNC"]
    assert (found.physical_cores, found.cores) == (8, 8 // lnc)
    assert f"{8 // lnc} cores each at LNC {lnc}" in found.verdict


def test_an_lnc_that_is_none_and_one_that_disagrees_are_noted(place, monkeypatch):
    place.ready()
    place.neuron_ls(entry())
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "3")
    monkeypatch.setenv("NEURON_RT_VIRTUAL_CORE_SIZE", "1")
    notes = " | ".join(chip.probe().notes)
    assert "NEURON_LOGICAL_NC_CONFIG in the environment is '3'; LNC is 1 or 2" in notes
    assert "NEURON_RT_VIRTUAL_CORE_SIZE in the environment says 1, neuron-ls says 2" in notes


def test_the_launch_matches_the_lnc(place, monkeypatch):
    place.ready()
    place.neuron_ls(entry())
    assert chip.probe().launch == (
        "kernel[2](...) runs as the runtime is set; kernel(...) needs NEURON_LOGICAL_NC_CONFIG=1, "
        "which capture sets for its own runs")
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert chip.probe().launch.startswith("kernel(...) runs as the runtime is set; kernel[2](...)")


def test_cores_that_are_not_the_documented_ones_are_noted(place):
    place.ready()
    place.neuron_ls(entry(nc_count=2))
    found = chip.probe()
    assert found.physical_cores == 2 * 2
    assert "neuron-ls counts 2 x 2 cores on a device; 8 are documented" in found.notes


# --- the environment of a run ----------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2])
def test_the_environment_on_trn2(place, lnc):
    place.ready()
    place.neuron_ls(entry())
    assert chip.probe().environment(lnc, 3) == {
        "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", "NEURON_LOGICAL_NC_CONFIG": str(lnc),
        "NEURON_RT_VIRTUAL_CORE_SIZE": str(lnc), "NEURON_RT_VISIBLE_CORES": "3",
        "PATH": str(place.root / "bin"), "PYTHONPATH": str(place.root / "site")}


def test_the_environment_without_logical_cores(place):
    place.ready("Trainium1")
    made = chip.probe().environment()
    assert made["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn1"
    assert not set(made) & {"NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"}


@pytest.mark.parametrize(("name", "lnc", "core", "words"), [
    ("Trainium1", 2, 0, "trn1 takes 1: it has no logical cores"),
    ("Trainium2", 3, 0, "trn2 takes 1 or 2"),
    ("Trainium2", 2, 4, "at LNC 2 there are cores 0 to 3 here"),
    ("Trainium2", 1, 8, "at LNC 1 there are cores 0 to 7 here"),
    ("Inferentia2", 1, 2, "there are cores 0 to 1 here"),
    ("Inferentia2", 1, -1, "there are cores 0 to 1 here"),
])
def test_cores_that_are_not_there_are_refused(place, name, lnc, core, words):
    place.ready(name)
    with pytest.raises(ChipError, match=words) as refused:
        chip.probe().environment(lnc, core)
    assert refused.value._render_traceback_() == [f"ChipError: {refused.value}"]


def test_a_child_gets_nothing_that_would_make_it_another_run(place, monkeypatch):
    place.ready("Trainium1")
    for name in ("NKI_SIMULATOR", "NEURON_RT_NUM_CORES", "NEURON_RT_INSPECT_ENABLE",
                 "NEURON_LOGICAL_NC_CONFIG"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MY_OWN", "kept")
    child = chip.probe().child()
    assert child["MY_OWN"] == "kept" and child["NEURON_RT_VISIBLE_CORES"] == "0"
    assert not {name for name in child if name.startswith(("NKI_", "NEURON_RT_I", "NEURON_LOG"))}
    assert "NEURON_RT_NUM_CORES" not in child


# --- processes that hold cores ---------------------------------------------------------------


def test_processes_that_hold_cores_are_named(place):
    place.ready()
    place.neuron_ls(entry(neuron_processes=[
        {"pid": 113985, "command": "neuron-bench exec --...", "neuron_runtime_version": "2.0.0"},
        {"pid": "x"}, "nonsense"]))
    found = chip.probe()
    assert [(h.pid, h.device) for h in found.others] == [(113985, 0)]
    assert "held: process 113985 (neuron-bench exec --...) on device 0" in repr(found)


# --- tools that misbehave --------------------------------------------------------------------


@pytest.mark.parametrize(("body", "note"), [
    ("exec /bin/sleep 60", "neuron-ls: no answer within 0.4 s"),
    ("echo segmentation fault >&2; exit 139", "neuron-ls: exit code 139 (segmentation fault)"),
    ("echo '+-----+'; echo '| NEURON |'", "expected a list in JSON, got '+-----+ | NEURON |'"),
    (r"printf '\377\376\000[\377'", "expected a list in JSON"),
    ("""echo '[{"neuron_device": 0, "nc_count": 4,'""", "expected a list in JSON"),
    ("""echo '{"neuron_device": 0}'""", "expected a list in JSON"),
    ("""echo '[{"nc_count": 4}, 7, {"neuron_device": true}]'""", "3 of 3 rows name no device"),
    ("i=0; while [ $i -lt 3000 ]; do printf '['; i=$((i+1)); done", "expected a list in JSON"),
    ("", "expected a list in JSON, got ''"),
    ("while :; do echo '[[[['; done", "neuron-ls: no answer within 0.4 s"),
])
def test_neuron_ls_that_misbehaves_is_noted_and_stops_nothing(place, body, note):
    place.ready()
    place.command("neuron-ls", body)
    found = chip.probe()
    assert any(note in line for line in found.notes), found.notes
    assert found.runs and (found.chip, found.lnc, found.physical_cores) == ("trn2", 2, 8)
    assert found.told["LNC"].startswith("the documented default")


def test_json_of_neuron_ls_after_lines_of_a_log(place):
    place.ready()
    place.command("neuron-ls", f"echo '[warn] 12:00 slow bus'; echo '{json.dumps([entry()])}'")
    assert chip.probe().told["physical cores"].startswith("of a device: neuron-ls")


@pytest.mark.parametrize("wrong", ["nc_count", "logical_neuroncore_config", "memory_size",
                                   "neuron_processes"])
@pytest.mark.parametrize("value", [None, "four", -1, 4.5, True, [], {}])
def test_values_of_another_type_are_unknown_not_fatal(place, wrong, value):
    place.ready()
    place.neuron_ls(entry(**{wrong: value}))
    found = chip.probe()
    assert found.runs and found.physical_cores == 8 and found.lnc == 2


@given(st.text() | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(json.dumps))
def test_any_answer_of_neuron_ls_is_read_or_named_odd(text):
    entries, odd = chip._entries(Said(text, ""))
    assert odd or all(isinstance(e["neuron_device"], int) for e in entries)


@pytest.mark.parametrize(("body", "why"), [
    ("exec /bin/sleep 60", "neuron-explorer: no answer within 0.4 s"),
    ("echo 'libnrt.so.1: cannot open' >&2; exit 127", "exit code 127 (libnrt.so.1: cannot open)"),
    (r"printf '\033[31mred\n\tline two' >&2; exit 1", "exit code 1 (line two)"),
    ("exit 3", "exit code 3 (no words)"),
])
def test_an_explorer_that_fails_is_a_replay_and_says_its_words(place, body, why):
    place.ready()
    place.command("neuron-explorer", body)
    found = chip.probe()
    assert why in found.verdict and not found.runs and found.explorer is None
    assert "\n" not in found.verdict and found.verdict.isprintable()


@pytest.mark.parametrize("body", ["echo Neuron Explorer", r"printf '\377\376'", ":"])
def test_an_explorer_that_names_no_version_still_runs(place, body):
    place.ready()
    place.command("neuron-explorer", body)
    found = chip.probe()
    assert found.runs and found.explorer is None
    assert "neuron-explorer of unknown version" in found.verdict
    assert "names none" in found.told["neuron-explorer"]


def test_an_explorer_that_cannot_start(place):
    place.ready()
    place.file("bin/neuron-explorer", "#!/no/such/shell\n").chmod(0o755)
    assert "neuron-explorer: does not start" in chip.probe().why
    (place.root / "bin/neuron-explorer").chmod(0o644)
    assert "neuron-explorer is not on PATH" in chip.probe().why


def test_a_command_that_hangs_leaves_no_child(place):
    """A child of the tool holds its output open: it is ended as well, and nothing waits for it."""
    place.ready()
    pid = place.root / "pid"
    place.command("neuron-explorer", f"/bin/sleep 60 & echo $! > {pid}; wait")
    assert "no answer" in chip.probe().why
    state = Path(f"/proc/{pid.read_text().strip()}/stat")

    def ended() -> bool:
        with suppress(OSError):
            return state.read_text().rpartition(")")[2].split()[0] == "Z"
        return True

    for _ in range(100):  # it has its signal, and on a busy machine its turn is still to come
        if not ended():
            time.sleep(0.1)
    assert ended()


def test_a_neuron_ls_that_hangs_is_asked_once(place):
    place.ready()
    place.command("neuron-ls", f"echo asked >> {place.root}/asked; exec /bin/sleep 60")
    chip.probe()
    assert (place.root / "asked").read_text() == "asked\n"


def test_endless_output_is_not_kept(place, monkeypatch):
    monkeypatch.setattr(chip, "MOST", 1000)
    place.command("neuron-ls", "while :; do echo 0123456789; done")
    said = chip.ask(place.installation(), "neuron-ls")
    assert "no answer" in said.failed and 1000 <= len(said.out) < 2 * 1000


def test_a_command_stuck_in_the_driver_is_given_up(place, monkeypatch):
    """Nothing ends a process that waits for a wedged device; the probe goes on without it."""
    place.ready()
    place.command("neuron-explorer", "exec /bin/sleep 60")
    end, left = os.killpg, []
    monkeypatch.setattr(os, "killpg", lambda group, number: left.append((group, number)))
    try:
        assert "no answer within 0.4 s" in chip.probe().why
    finally:
        monkeypatch.undo()
        for group, number in left:
            end(group, number)


def test_a_tool_that_leaves_a_child_behind_does_not_hold_up_the_answer(place):
    place.ready()
    place.command("neuron-explorer", "/bin/sleep 60 & echo neuron-explorer 2.32.1")
    assert chip.probe().explorer == "2.32.1"


# --- packages --------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "words"), [("0.0.1", WRONG), ("0.0.1", ""), ("7.0", WRONG)])
def test_the_empty_nki_of_pypi_is_named_with_the_fix(place, version, words):
    place.ready()
    place.wheel("nki", version, words)
    (place.root / "site/nki-0.6.0.dist-info/METADATA").unlink()
    (place.root / "site/nki-0.6.0.dist-info").rmdir()
    found = chip.probe()
    assert found.nki is None and not found.runs
    assert f"nki {version} is the empty package that PyPI keeps under this name" in found.verdict
    assert ('pip install "nki>0.0.1" --extra-index-url=https://pip.repos.neuron.amazonaws.com'
            in found.why)


@pytest.mark.parametrize(("name", "version"), [
    ("neuronx-cc", "1.0.post1"), ("torch-neuronx", "1.0"), ("libneuronxla", "1.0")])
def test_other_empty_packages_are_noted_and_count_for_nothing(place, name, version):
    place.ready()
    place.wheel("jax", "0.10.0")
    place.wheel(name, version, WRONG)
    found = chip.probe()
    assert found.runs and found.frameworks == ()
    assert (found.neuronx_cc, found.torch_neuronx) == (None, None)
    assert any(f"{name} {version} is the empty package" in note for note in found.notes)


def test_frameworks_that_can_start_a_kernel(place):
    place.ready()
    for name, version in (("jax", "0.9.0"), ("libneuronxla", "3.0.3854.0"),
                          ("torch-neuronx", "2.9.0.2.15.32035")):
        place.wheel(name, version)
    assert chip.probe().frameworks == ("jax", "torch-neuronx")


def test_no_nki_names_the_environment_of_the_image(place):
    place.ready()
    (place.root / "site/nki-0.6.0.dist-info").rename(place.root / "gone")
    assert 'pip install "nki>0.0.1" --extra-index-url=' in chip.probe().why
    for name in ("aws_neuronx_venv_jax_0_10", "aws_neuronx_venv_pytorch_inference_vllm_0_24"):
        (place.root / "opt" / name).mkdir()
    why = chip.probe().why
    assert f"source {place.root}/opt/aws_neuronx_venv_jax_0_10/bin/activate" in why
    place.wheel("neuronx-cc", "2.21.1")
    assert "neuronxcc.nki no longer compiles" in chip.probe().why


@pytest.mark.parametrize("metadata", [b"", b"\xff\xfe", b"Name: nki\n", b"Version:\n"])
def test_metadata_that_cannot_be_read_is_no_package(place, metadata):
    place.ready()
    place.file("site/nki-0.6.0.dist-info/METADATA", metadata)
    found = chip.probe()
    assert found.nki is None and "no nki in this environment" in found.why


def test_a_package_without_metadata_is_read_not_imported(place):
    place.device()
    place.command("neuron-explorer", "echo 2.32.28.0")
    place.file("site/nki/__init__.py", '__version__ = "0.6.1"\nraise SystemExit("imported")\n')
    assert chip.probe().nki == "0.6.1"


def test_nrtpy_beside_nki_is_noted(place):
    place.ready()
    place.wheel("nrtpy", "2.34.10")
    assert any(note.startswith("nrtpy is in this environment") for note in chip.probe().notes)


@pytest.mark.parametrize(("nki", "sdk"), [("0.6.0", "2.32"), ("0.5.0", "2.31"), ("0.3.1", "2.29"),
                                          ("0.60.0", None), ("9.0", None)])
def test_the_release_of_an_nki(place, nki, sdk):
    place.device()
    place.wheel("nki", nki)
    assert chip.probe().sdk == sdk


# --- the stand-in and ROOFLINE_RECORDED ------------------------------------------------------


def test_a_stand_in_on_the_ordinary_path_is_refused(place):
    place.ready()
    place.command("neuron-explorer", "echo neuron-explorer 2.32.28 stand-in")
    assert "neuron-explorer on PATH is a test stand-in" in chip.probe().verdict
    place.command("neuron-explorer", "echo neuron-explorer 2.32.28")
    assert chip.probe().runs
    (place.root / "site/nki-0.6.0.dist-info").rename(place.root / "gone")
    place.wheel("nki", "0.6.0+stand-in")
    found = chip.probe()
    assert "nki on this Python's path is a test stand-in" in found.verdict and not found.runs


@pytest.fixture
def stand_in(place, monkeypatch):
    """The made-up machine, named by the environment instead."""
    monkeypatch.undo()
    place.ready()
    place.command("neuron-explorer", "echo neuron-explorer 2.32.28 stand-in")
    monkeypatch.setenv("ROOFLINE_STAND_IN", str(place.root))
    monkeypatch.delenv("ROOFLINE_RECORDED", raising=False)
    return place


def test_the_stand_in_is_honoured_while_pytest_runs_and_says_what_it_is(stand_in):
    found = device.probe()
    assert found.runs and found.synthetic
    assert found.verdict.startswith("run: synthetic (test stand-in), trn2, 1 device")
    assert found.explorer == "2.32.28+stand-in"
    assert found.environment()["PATH"].startswith(f"{stand_in.root}/bin{os.pathsep}")
    assert found.environment()["PYTHONPATH"].startswith(f"{stand_in.root}/site")


def test_the_stand_in_borrows_nothing_from_the_machine(stand_in, monkeypatch):
    """A tool or a package that it leaves out is missing, whatever this machine has."""
    real = stand_in.root / "real"
    real.mkdir()
    (stand_in.root / "bin/neuron-explorer").rename(real / "neuron-explorer")
    monkeypatch.setenv("PATH", f"{real}{os.pathsep}{os.environ['PATH']}")
    assert "neuron-explorer is not on PATH" in device.probe().why
    assert chip.installation().packages == [str(stand_in.root / "site")]


ASK = "from roofline import device; found = device.probe(); print(found.verdict, found.synthetic)"


def outside(**environment: str) -> subprocess.CompletedProcess:
    """A fresh Python that pytest did not start, as far as its environment says."""
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} | environment
    return subprocess.run([sys.executable, "-c", ASK], env=env, capture_output=True, text=True)


def test_outside_pytest_the_stand_in_is_refused(stand_in):
    done = outside()
    assert done.stdout.strip() == ("replay: ROOFLINE_STAND_IN is for the course's own tests; "
                                   "unset it False")
    assert done.returncode == 0 and not done.stderr


def test_a_process_that_a_test_starts_is_inside(stand_in):
    done = outside(PYTEST_CURRENT_TEST="yes")
    assert done.stdout.startswith("run: synthetic (test stand-in)")


def test_roofline_recorded_replays_on_a_chip_and_changes_nothing_elsewhere(place, monkeypatch):
    monkeypatch.setenv("ROOFLINE_RECORDED", "1")
    assert chip.probe().verdict == NOTHING
    place.ready()
    found = chip.probe()
    assert found.verdict == ("replay: ROOFLINE_RECORDED=1 asks for what ships; unset it to "
                             "measure here") and not found.runs


def test_the_machine_s_own_installation(monkeypatch):
    monkeypatch.delenv("ROOFLINE_STAND_IN", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin")
    here = chip.installation()
    assert (here.dev, here.sys, here.opt) == (Path("/dev"), Path("/sys"), Path("/opt"))
    assert here.path == f"/usr/bin{os.pathsep}/opt/aws/neuron/bin"
    assert (here.synthetic, here.refused) == (False, "")


def test_a_probe_imports_nothing_of_neuron_and_no_numpy(tmp_path):
    """Importing nki would decide which nki the notebook has; NumPy need not be there at all."""
    for name in ("nki", "jax", "torch_neuronx", "libneuronxla", "neuronxcc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"print('imported {name}')\n")
    script = ASK + "; import sys; print(sorted({'nki', 'jax', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.stderr == "" and "imported" not in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


# --- the tested matrix -----------------------------------------------------------------------


def test_the_matrix_names_instances_of_the_machine_table_and_tests_that_exist():
    matrix = chip.tested()
    assert {row.instance for row in matrix} == {"inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge"}
    for row in matrix:
        assert row.chip in chip.CHIPS and row.instance in machine.INSTANCES
        assert row.off_device and set(row.off_device) <= set(matrix.checks)
        assert matrix.releases[row.nki.rpartition(".")[0]] == row.sdk
    for file in matrix.checks.values():
        assert (ROOT / file).is_file(), file


def test_no_row_claims_a_device_without_a_recording_that_ships():
    shipped = ROOT / "assets/recorded/neuron"
    for row in chip.tested():
        assert row.on_device == "none yet" or (shipped / row.on_device).is_dir()


def test_the_matrix_prints_a_column_for_the_device():
    head, *rows = repr(chip.tested()).splitlines()
    place = head.index("on a device")
    assert len(rows) == len(chip.tested())
    assert {row[place:] for row in rows} == {row.on_device for row in chip.tested()}


def test_a_probe_shows_its_row_or_that_there_is_none(place):
    place.ready()
    place.board("trn2.3xlarge")
    assert chip.tested().row(chip.probe()).framework == "JAX 0.10"
    assert repr(chip.probe()).endswith("on a device: none yet")
    place.board("trn2.48xlarge")
    assert repr(chip.probe()).endswith("tested: trn2.48xlarge, SDK 2.32: not in the matrix")


def test_the_environment_decides_between_rows_of_one_release(place, monkeypatch):
    place.ready()
    place.board("trn1.2xlarge")
    (place.root / "site/nki-0.6.0.dist-info").rename(place.root / "gone")
    place.wheel("nki", "0.5.0")
    monkeypatch.setattr(sys, "prefix", "/opt/aws_neuronx_venv_pytorch_2_9")
    assert chip.tested().row(chip.probe()).framework == "torch-neuronx 2.9"
