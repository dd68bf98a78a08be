"""The stand-in for a Neuron instance is what the documents say one is, and as strict.

Nothing here touches the product: this is what its tests are to rely on.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import standin
from pages import ROOT
from standin import device, neff, neuron_explorer, reply

from roofline import profile

REAL = ROOT.parent / "shared/reference/real-profiles"
KERNELS = ROOT / "day4" / "kernels.py"
LOAD = f"""
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location("kernels", {str(KERNELS)!r})
kernels = importlib.util.module_from_spec(spec)
spec.loader.exec_module(kernels)
draw = np.random.default_rng(0).standard_normal
"""
COPY = LOAD + """
x = draw((128, 2048)).astype("f4")
np.save("x.npy", x)
assert (kernels.copy[LNC](x, elements=512) == x).all()
"""
MATMUL = LOAD + """
import ml_dtypes
a, b = (draw(shape).astype(ml_dtypes.bfloat16) for shape in ((128, 128), (128, 48)))
np.save("a.npy", a.view(np.uint16)); np.save("b.npy", b.view(np.uint16)); np.save("raw.npy", a)
kernels.moving_sweep(a, b, n=4)
"""


class Instance:
    """One stand-in in a folder, and calls of its tools there."""

    def __init__(self, folder: Path, chip: str, lnc: int = 1) -> None:
        self.folder, self.lnc = folder, lnc
        self.env = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                    "PYTHONPATH": str(folder / "site"), "NEURON_RT_VISIBLE_CORES": "0",
                    "NEURON_PLATFORM_TARGET_OVERRIDE": chip, "NKI_ARTIFACTS_DIR": "art",
                    **standin.install(folder, chip)}
        if chip == "trn2":
            self.env |= {"NEURON_LOGICAL_NC_CONFIG": str(lnc)}

    def run(self, *words: str, **changes: str | None) -> subprocess.CompletedProcess:
        env = {**os.environ, **self.env, **changes}
        return subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=30,
                              env={name: value for name, value in env.items() if value is not None})

    def python(self, code: str, **changes: str | None) -> subprocess.CompletedProcess:
        return self.run(sys.executable, "-c", code.replace("LNC", str(self.lnc)), **changes)

    def capture(self, *words: str, **changes: str | None) -> subprocess.CompletedProcess:
        return self.run("neuron-explorer", "capture", "-n", "art/kernel.neff", "-s", "p.ntff",
                        "--num-exec=2", "--profile-nth-exec=2", *words, **changes)

    def view(self, *words: str) -> subprocess.CompletedProcess:
        return self.run("neuron-explorer", "view", "-n", "art/kernel.neff", "-s", "p_exec_2.ntff",
                        *words)

    def behave(self, **changes) -> None:
        standin.behave(self.folder, **changes)


def compiled(folder: Path, chip: str, lnc: int, code: str) -> Instance:
    instance = Instance(folder, chip, lnc)
    done = instance.python(code)
    assert done.returncode == 0, done.stderr
    return instance


@pytest.fixture(scope="module")
def copies(tmp_path_factory) -> Instance:
    return compiled(tmp_path_factory.mktemp("copies"), "trn2", 1, COPY)


@pytest.fixture
def copied(copies: Instance):
    """A copy [128, 2048] fp32 compiled for trn2, LNC 1; it behaves well again afterwards."""
    yield copies
    copies.behave(**{name: value for name, value in device.DEFAULTS.items() if name != "chip"})
    for path in copies.folder.glob("p*.ntff"):
        path.unlink()


# --- the instance -------------------------------------------------------------------------------

# neuron-ls.rst: the fields of the JSON, and "only available on trn2 instances"
FIELDS = {"neuron_device", "bdf", "cpu_affinity", "numa_node", "connected_to", "nc_count",
          "logical_neuroncore_config", "memory_size", "neuroncore_ids", "neuron_processes"}


@pytest.mark.parametrize(("chip", "instance", "cores", "missing"), [
    ("trn1", "trn1.2xlarge", 2, {"logical_neuroncore_config"}),
    ("inf2", "inf2.xlarge", 2, {"logical_neuroncore_config"}),
    ("trn2", "trn2.3xlarge", 4, set()),  # LNC 2 is the default: 8 physical cores are 4
])
def test_neuron_ls_has_the_documented_fields(tmp_path, chip, instance, cores, missing):
    here = Instance(tmp_path, chip)
    rows = json.loads(here.run("neuron-ls", "-j", NEURON_LOGICAL_NC_CONFIG=None).stdout)
    assert [set(row) for row in rows] == [FIELDS - missing]
    assert rows[0]["neuroncore_ids"] == list(range(cores)) and rows[0]["nc_count"] == cores
    head = here.run("neuron-ls", NEURON_LOGICAL_NC_CONFIG=None).stdout.splitlines()
    assert head[0] == f"instance-type: {instance}" and head[1].startswith("instance-id: i-")
    assert any("logical-neuroncore-config: 2" in line for line in head) is not bool(missing)
    here.behave(busy=[1])
    row = json.loads(here.run("neuron-ls", "--json-output").stdout)[0]["neuron_processes"][0]
    assert set(row) == {"pid", "command", "neuron_runtime_version"}
    assert here.run("neuron-ls", "--json").returncode == 1


def test_sys_and_dev_are_as_the_guide_draws_them(tmp_path):
    standin.install(tmp_path, "trn1")
    top = tmp_path / "sys/devices/virtual/neuron_device/neuron0"
    facts = {name: (top / "info/architecture" / name).read_text().strip()
             for name in ("arch_type", "device_name", "instance_type")}
    assert facts == {"arch_type": "v2", "device_name": "Trainium1", "instance_type": "Trn1"}
    assert (top / "core_count").read_text() == "2\n"
    assert (top / "neuron_core1/info/architecture/arch_type").read_text() == "NCv2\n"
    assert (top / "neuron_core1/stats/other_info/inference_count/total").read_text() == "0\n"
    assert (tmp_path / "dev/neuron0").exists()


def test_every_version_says_what_it_is(copied):
    found = [*device.VERSIONS.values(), device.EXPLORER,
             copied.run("neuron-explorer", "--version").stdout,
             copied.python("import nki; print(nki.__version__)").stdout,
             copied.python("import importlib.metadata as m; print(m.version('nki'))").stdout]
    assert all("stand-in" in text for text in found)


def test_a_behaviour_that_there_is_not_is_refused(tmp_path):
    with pytest.raises(TypeError, match="no behaviour sleepy"):
        standin.install(tmp_path, sleepy=True)


# --- nki ----------------------------------------------------------------------------------------


def test_the_neff_is_where_the_variable_said_before_the_import(tmp_path):
    """nrtpy-troubleshooting.rst: set it before importing nki, else a folder that is deleted."""
    here = compiled(tmp_path, "trn1", 1, COPY)
    assert (tmp_path / "art/kernel.neff").exists()
    late = "import os, nki\nos.environ['NKI_ARTIFACTS_DIR'] = 'late'\n" + COPY
    assert here.python(late, NKI_ARTIFACTS_DIR=None).returncode == 0
    assert list(tmp_path.rglob("*.neff")) == [tmp_path / "art/kernel.neff"]


@pytest.mark.parametrize(("chip", "changes", "says"), [
    ("trn2", {"NEURON_LOGICAL_NC_CONFIG": "2"}, "the runtime's logical NeuronCore configuration 2"),
    ("trn2", {"NEURON_LOGICAL_NC_CONFIG": None}, "configuration 2"),  # the default of trn2
    ("trn2", {"NEURON_RT_VIRTUAL_CORE_SIZE": "2"}, "expected 1 or 2, got"),
    ("trn1", {"NEURON_LOGICAL_NC_CONFIG": "1"}, "has no logical NeuronCore configuration"),
    ("trn1", {"NEURON_PLATFORM_TARGET_OVERRIDE": None}, "NEURON_PLATFORM_TARGET_OVERRIDE"),
    ("trn1", {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2"}, "the NEFF is for trn2"),
    ("trn1", {"NEURON_RT_VISIBLE_CORES": "2"}, "there are NeuronCores 0 to 1"),
])
def test_an_environment_that_does_not_fit_is_refused(tmp_path, chip, changes, says):
    done = Instance(tmp_path, chip).python(COPY, **changes)
    assert done.returncode == 1 and says in done.stderr


@pytest.mark.parametrize(("told", "says"), [
    ({"busy": [0]}, "NRT_EXEC_NC_BUSY(1005)"), ({"fail": "compile"}, "NCC_STDN001"),
    ({"fail": "run"}, "NRT_EXEC_HW_ERR_NC_UE(1202)"),
    ({"numpy": False}, "unsupported argument type numpy.ndarray"),
    ({"outputs": "zeros"}, "AssertionError"), ({"outputs": "scaled:2"}, "AssertionError"),
    ({"outputs": "one"}, "AssertionError"), ({"outputs": "nan"}, "AssertionError"),
])
def test_a_run_fails_as_told(copied, told, says):
    copied.behave(**told)
    done = copied.python(COPY, NKI_ARTIFACTS_DIR=None)
    assert done.returncode == 1 and says in done.stderr


def test_jax_arrays_leave_their_neff_in_the_working_directory(tmp_path):
    here = Instance(tmp_path, "trn1")
    standin.install(tmp_path, "trn1", frameworks=["jax"])
    code = LOAD + """
import jax.numpy as jnp
x = jnp.asarray(draw((128, 64)).astype("f4"))
y = kernels.copy(x, elements=64)
assert type(y).__module__ == "jax" and (np.asarray(y) == np.asarray(x)).all()
"""
    assert here.python(code, NEURON_FRAMEWORK_DEBUG="1").returncode == 0
    assert [path.parent for path in tmp_path.rglob("*.neff")] == [tmp_path]


# --- capture ------------------------------------------------------------------------------------


def test_the_second_execution_has_a_name_of_its_own(copied):
    assert copied.capture("x", "x.npy").returncode == 0
    assert [path.name for path in copied.folder.glob("*.ntff")] == ["p_exec_2.ntff"]
    (copied.folder / "p_exec_2.ntff").unlink()
    plain = ("neuron-explorer", "capture", "-n", "art/kernel.neff", "-s", "p.ntff")
    assert copied.run(*plain, "--num-exec=3").returncode == 0
    assert {path.name for path in copied.folder.glob("*.ntff")} == {
        "p.ntff", "p_exec_2.ntff", "p_exec_3.ntff"}
    for path in copied.folder.glob("*.ntff"):
        path.unlink()
    # --num-exec is 1 where it is not said: there is no second execution to profile
    assert copied.run(*plain, "--profile-nth-exec=2").returncode == 0
    assert copied.capture("--disable-profile").returncode == 0
    assert not list(copied.folder.glob("*.ntff"))


def test_each_execution_counts_on_its_core(copied):
    total = device.node(copied.folder) / "neuron_core3/stats/other_info/inference_count/total"
    before = int(total.read_text())
    assert copied.capture(NEURON_RT_VISIBLE_CORES="3").returncode == 0
    assert int(total.read_text()) - before == 2


@pytest.mark.parametrize(("words", "says"), [
    (("--profile",), "unknown flag `--profile'"), (("-x",), "unknown flag `-x'"),
    (("--num-exec=two",), "given twice"), (("--save-output-npy=1",), "cannot have an argument"),
    (("x",), "<NAME> <FILE_PATH> pairs"), (("y", "x.npy"), "the NEFF has ['x'], got ['y']"),
    (("x", "none.npy"), "failed to read input x"), (("x", "short.npy"), "size mismatch"),
    (("x", "turned.npy"), "Fortran order"), (("x", "x.txt"), "not a .npy file"),
    (("x", "x.npy", "x", "x.npy"), "name mismatch"),
])
def test_a_command_line_that_is_not_documented_is_refused(copied, words, says):
    x = np.load(copied.folder / "x.npy")
    np.save(copied.folder / "short.npy", x[:64])
    np.save(copied.folder / "turned.npy", np.asfortranarray(x))
    (copied.folder / "x.txt").write_text("1 2 3")
    done = copied.capture(*words)
    assert done.returncode == 1 and says in done.stderr, done.stderr
    assert not list(copied.folder.glob("p*.ntff"))


def test_outputs_are_saved_by_name_and_only_of_dtypes_that_numpy_has(tmp_path, copied):
    assert copied.capture("--save-output-npy", "x", "x.npy").returncode == 0
    x, y = (np.load(copied.folder / name) for name in ("x.npy", "output_0.npy"))
    assert (x == y).all()
    assert copied.capture("--save-output-npy").returncode == 0  # without inputs: zeros
    assert not np.load(copied.folder / "output_0.npy").any()
    here = compiled(tmp_path, "trn2", 1, COPY.replace('astype("f4")', 'astype(bf)').replace(
        'np.save("x.npy", x)', 'np.save("x.npy", x.view("u2"))').replace(
        "x = ", "from ml_dtypes import bfloat16 as bf; x = "))
    done = here.capture("--save-output-npy", "x", "x.npy")
    assert done.returncode == 1
    assert "output_0 to file: unsupported type for npy output: bfloat16" in done.stderr
    assert here.capture("--save-output", "x", "x.npy").returncode == 0
    raw = np.fromfile(tmp_path / "output_0", np.uint16)
    assert (raw == np.load(tmp_path / "x.npy").reshape(-1)).all()


def test_bfloat16_has_no_name_in_a_npy_file(tmp_path):
    here = compiled(tmp_path, "trn2", 1, MATMUL)
    assert here.capture("a", "a.npy", "b", "b.npy").returncode == 0
    done = here.capture("a", "raw.npy", "b", "b.npy")
    assert done.returncode == 1 and "unsupported type of npy input" in done.stderr


@pytest.mark.parametrize(("told", "code", "says"), [
    ({"fail": "capture"}, 1, "NRT_TIMEOUT(5)"), ({"busy": [0]}, 1, "NRT_EXEC_NC_BUSY(1005)"),
    ({"full_disk": True}, 1, "no space left on device"), ({"silent": True}, 0, ""),
    ({"empty_ntff": True}, 0, ""),
])
def test_a_capture_fails_as_told(copied, told, code, says):
    copied.behave(**told)
    done = copied.capture("x", "x.npy")
    assert done.returncode == code and says in done.stderr
    assert sum(path.stat().st_size for path in copied.folder.glob("p*.ntff")) == 0


def test_dge_notifications_may_overflow(copied):
    copied.behave(overflow=True)
    assert copied.capture().returncode == 0
    done = copied.capture("--enable-dge-notifs")
    assert done.returncode == 1 and "NRT_EXEC_SW_NQ_OVERFLOW" in done.stderr


def test_a_core_is_one_processes_at_a_time(copied):
    """The kernel's process holds it as long as it lives; the neighbour is free."""
    code = COPY + "import subprocess\n" + (
        "for core in '01':\n"
        "    env = {**os.environ, 'NEURON_RT_VISIBLE_CORES': core}\n"
        "    print(subprocess.run(['neuron-explorer', 'capture', '-n', 'art/kernel.neff', '-s',"
        " 'p.ntff'], env=env, capture_output=True).returncode)\n")
    assert copied.python("import os\n" + code).stdout.split() == ["1", "0"]


# --- view ---------------------------------------------------------------------------------------


@pytest.fixture
def viewed(copied):
    assert copied.capture("--enable-dge-notifs", "x", "x.npy").returncode == 0
    return copied


def test_a_summary_goes_to_stdout_alone(viewed):
    done = viewed.view("--output-format", "summary-json")
    (session, summary), = json.loads(done.stdout).items()
    assert re.fullmatch("n_[0-9a-f]{40}", session) and summary["hbm_read_bytes"] == 4 * 128 * 2048
    refused = viewed.view("--output-format", "summary-json", "--output-file", "s.json")
    assert refused.returncode == 1 and not (viewed.folder / "s.json").exists()
    text = viewed.view("--output-format", "summary-text").stdout.splitlines()
    assert text[0] == session and f"hbm_read_bytes  {4 * 128 * 2048}" in text


@pytest.mark.parametrize(("told", "check"), [
    ({"summary": "empty"}, lambda out: out == "\n"),
    ({"summary": "cut"}, lambda out: out.startswith("{") and not out.rstrip().endswith("}")),
    ({"summary": "none"}, lambda out: json.loads(out) == {}),
    ({"summary": "two"}, lambda out: len(json.loads(out)) == 2),
    ({"log_lines": "text"}, lambda out: json.loads(out.splitlines()[-1])),
    ({"log_lines": "json"}, lambda out: len(list(map(json.loads, out.splitlines()))) == 2),
    ({"absent": ["hardware_flops"]}, lambda out: '"hardware_flops"' not in out),
    ({"throttle": True}, lambda out: "throttle_active_nc0_time_ns" in out),
])
def test_a_summary_is_odd_as_told(viewed, told, check):
    viewed.behave(**told)
    assert check(viewed.view("--output-format", "summary-json").stdout)


def test_json_is_a_file_and_parquet_a_folder(viewed):
    assert viewed.view("--output-format", "json").returncode == 0
    assert (viewed.folder / "ntff.json").exists()  # the documented default
    assert viewed.view("--ingest-only", "--display-name", "X", "--data-path", "W").returncode == 0
    nested = viewed.folder / "W/profiles/global/X@latest"
    assert {"Summary.parquet", "Instruction.parquet"} <= {path.name for path in nested.iterdir()}
    assert not (nested / "Throttle.parquet").exists()  # a table without rows has no file
    viewed.behave(json="empty")
    assert viewed.view("--output-format", "json", "--output-file", "t.json").returncode == 0
    assert (viewed.folder / "t.json").read_text() == ""
    assert viewed.view("--output-format", "parquet").returncode == 1  # as a user saw it


def test_view_without_a_format_serves_a_page_and_stays(viewed):
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["neuron-explorer", "view", "-n", "art/kernel.neff", "-s", "p_exec_2.ntff"],
                       cwd=viewed.folder, env={**os.environ, **viewed.env}, timeout=0.6,
                       capture_output=True)


def test_a_session_belongs_to_its_neff(viewed, tmp_path):
    other = compiled(tmp_path, "trn2", 1, COPY.replace("512", "256"))
    done = viewed.run("neuron-explorer", "view", "-n", str(other.folder / "art/kernel.neff"), "-s",
                      "p_exec_2.ntff", "--output-format", "summary-json")
    assert done.returncode == 1 and "UUID mismatch" in done.stderr


@pytest.mark.parametrize("words", [("--output-format", "xml"), ("--neff", "a"), ("extra",),
                                   ("--output", "x"), ("-d", "."), ("--json",)])
def test_view_refuses_what_is_not_documented(viewed, words):
    assert viewed.view(*words).returncode == 1


# --- what a reply says --------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "lnc"), [("trn1", 1), ("inf2", 1), ("trn2", 1), ("trn2", 2)])
def test_times_are_the_arithmetic_that_is_promised(tmp_path, chip, lnc):
    """4 transfers of [128, 512] fp32 each way, shared by the cores of an LNC=2 pair."""
    here = compiled(tmp_path, chip, lnc, COPY)
    here.behave(fixed_s=2e-6, seconds_per_byte=1e-11, seconds_per_transfer=3e-7, beside=9)
    assert here.capture("x", "x.npy").returncode == 0
    here.view("--output-format", "json", "--output-file", "t.json")
    found = profile.read(tmp_path / "t.json")
    moved = 2 * 4 * 128 * 2048
    busy = (moved * 1e-11 + 2 * 4 * 3e-7) / lnc
    assert found.cores == lnc and found.summary["hbm_write_bytes"] == moved / 2
    assert found.summary["dma_active_time"] == pytest.approx(busy)
    assert found.summary["total_time"] == pytest.approx(2e-6 + busy)
    assert found.check().agree, found.check()
    assert {int(core) for core in found.timeline.working} == set(range(lnc))
    here.view("--ingest-only", "--display-name", "X", "--data-path", "W")
    tables = profile.read(tmp_path / "W")
    assert tables.check().agree and tables.cores == lnc
    assert tables.summary["total_time"] == found.summary["total_time"]
    assert list(tables.timeline.instructions.start) == list(found.timeline.instructions.start)


def test_both_cores_doing_everything_double_the_counts_and_not_the_time(tmp_path):
    here = compiled(tmp_path, "trn2", 2, COPY)
    here.capture("x", "x.npy")
    once, twice = (read(here, doubling=on) for on in (False, True))
    assert twice["hbm_read_bytes"] == 2 * once["hbm_read_bytes"]
    assert twice["dma_active_time"] == pytest.approx(2 * once["dma_active_time"])


def read(here: Instance, **told) -> dict:
    here.behave(**told)
    return next(iter(json.loads(here.view("--output-format", "summary-json").stdout).values()))


def test_a_matmul_takes_its_columns_and_at_least_64(tmp_path):
    here = compiled(tmp_path, "trn2", 1, MATMUL)  # 4 matmuls of 48 columns, K = M = 128
    assert here.capture("a", "a.npy", "b", "b.npy").returncode == 0
    here.behave(columns_per_second=1e9, min_columns=64)
    here.view("--output-format", "json", "--output-file", "t.json")
    found = profile.read(tmp_path / "t.json")
    assert found.summary["hardware_flops"] == 4 * 2 * 128 * 128 * 48
    assert found.counted().flops == 4 * 2 * 128 * 128 * 48
    own = found.timeline.instructions
    starts = own.start[own.is_opcode("MATMUL")]
    assert np.diff(starts).tolist() == [64] * 3  # ns, at 1e9 columns a second
    assert found.check().agree, found.check()


def test_the_first_execution_is_cold(copied):
    copied.behave(cold_name=True)
    assert copied.capture("x", "x.npy").returncode == 0
    assert [path.name for path in copied.folder.glob("*.ntff")] == ["p.ntff"]
    (copied.folder / "p.ntff").rename(copied.folder / "p_exec_2.ntff")
    first = read(copied)["total_time"]
    copied.behave(cold_name=False)
    copied.capture("x", "x.npy")
    assert first == pytest.approx(device.DEFAULTS["cold"] * read(copied)["total_time"])


def test_names_are_those_of_a_real_file():
    """Every name in a reply is one of a real profile of 2.28, or listed here with its source."""
    path = REAL / "trn2-lnc2-attn-fused-fp32-s512.full.json"
    if not path.exists():
        pytest.skip(f"../shared/reference/real-profiles/{path.name} is not here")
    real = json.loads(path.read_text())
    header = {"kernel": "k", "lnc": 2, "inputs": [], "outputs": [
        {"name": "output_0", "shape": [1], "nbytes": 4}], "cores": [[
            ["dma", 4096, 0, 128, "k.py:1"], ["matmul", 128, 128, 512, "bf16", False, "k.py:2"],
            ["other", "vector", "tensor_copy", 65536, "k.py:3"]]] * 2}
    session = {"exec": 2, "cores": [4, 5], "beside": False, "dge": True, "path": "p.ntff"}
    made = reply.document(header, session, device.DEFAULTS | {"throttle": True})
    newer = {"summary": {  # moved in with explorer, and present only with DGE notifications
        "adjusted_hardware_flops", "adjusted_transpose_flops", "total_exec_time",
        "dma_transfer_total_bytes", "dma_transfer_count"},
        "instruction": {"nki_source_location"}}
    for table, rows in made.items():
        known = {key for row in real[table] for key in row} | newer.get(table, set())
        known |= {key.replace("_nc0", nc) for key in known for nc in ("_nc4", "_nc5")}
        assert {key for row in rows for key in row} <= known, table


def test_flags_are_those_of_the_documentation():
    """With NKI_DOCS at a checkout of aws-neuron-sdk."""
    docs = os.environ.get("NKI_DOCS")
    if not docs:
        pytest.skip("NKI_DOCS names no checkout of aws-neuron-sdk")
    page = Path(docs, "tools/neuron-explorer/how-to-profile-workload.rst").read_text()
    part = page[page.index("neuron-explorer capture [parameters]"):
                page.index("CLI profiling with neuron-explorer inspect")]
    flags = set(re.findall(r"\* - ``(?:-\w, )?--([a-z-]+)``", part))
    assert {flag for flag in flags if "systrace" not in flag} == set(neuron_explorer.CAPTURE)
    short = dict(re.findall(r"\* - ``-(\w), --([a-z-]+)``", part))
    assert short == neuron_explorer.SHORT["capture"]
    guide = Path(docs, "archive/profiler/neuron-profile-user-guide.rst").read_text()
    told = guide[guide.index(".. rubric:: neuron-profile view"):]
    names = set(re.findall(r"^``(?:-\w, )?--([a-z-]+)``", told, re.M))
    gone = {"db-endpoint", "db-org", "db-bucket", "terminology"}  # InfluxDB; a help text
    assert names - gone <= set(neuron_explorer.VIEW)


# --- the file formats of its own ----------------------------------------------------------------


def test_a_npy_file_is_numpys(tmp_path):
    tensor = {"name": "y", "shape": [3, 5], "dtype": "float32"}
    array = np.arange(15, dtype="f4").reshape(3, 5)
    (tmp_path / "y.npy").write_bytes(neff.to_npy(tensor, array.tobytes()))
    assert (np.load(tmp_path / "y.npy") == array).all()
    np.save(tmp_path / "z.npy", array)
    assert neff.npy(tmp_path / "z.npy") == ((3, 5), "<f4", array.tobytes())


def test_no_process_of_it_is_left(copied):
    copied.behave(hang="capture", stubborn=True)
    process = subprocess.Popen(["neuron-explorer", "capture", "-n", "art/kernel.neff"],
                               cwd=copied.folder, env={**os.environ, **copied.env},
                               start_new_session=True)
    alive(copied, 2)  # it and its child
    process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)  # it minds no SIGTERM
    os.killpg(process.pid, 9)
    process.wait()
    alive(copied, 0)


def alive(here: Instance, count: int) -> None:
    """Wait until so many of its processes are there."""
    end = time.monotonic() + 20
    while len(standin.running(here.folder)) != count and time.monotonic() < end:
        time.sleep(0.02)
    assert len(standin.running(here.folder)) == count
