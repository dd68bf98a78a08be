"""probe, sheet, capture: on a machine without a device, and on the tests' stand-in for a trn2."""

import csv
import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import leases
import ml_dtypes
import numpy as np
import pytest
import standin
from pages import ROOT
from recordings import book, record  # noqa: F401  # book is a fixture
from timelines import timeline

from roofline import device, machine, nki, profile
from roofline.__main__ import main
from roofline.commands import working
from roofline.device import chip, store
from roofline.device.plausibility import Flag

KERNELS = ROOT / "day4" / "kernels.py"
COPY = [f"{KERNELS}:copy", "x=128x1024:fp32", "elements=256"]  # 4 transfers each way
BYTES = 4 * 128 * 1024  # of x
FIXED, BYTE = 3e-6, 1e-11  # s, s/B: the stand-in's arithmetic


def same(words: str) -> str:
    """Without its line ends."""
    return " ".join(words.split())


@pytest.fixture
def off(book, capfd):  # noqa: F811
    """off(*words) -> code, stdout, stderr; no device is here."""
    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


@pytest.fixture
def on(off, tmp_path, monkeypatch):
    """The same on the stand-in; on.behave(...) changes how it behaves."""
    monkeypatch.setattr(working, "PATIENCE", 60.0)  # a busy machine adds no line
    (tmp_path / "instance").mkdir()
    env = standin.install(tmp_path / "instance", "trn2", fixed_s=FIXED, seconds_per_byte=BYTE)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    off.behave = lambda **how: standin.behave(tmp_path / "instance", **how)
    off.calls = lambda *what: standin.calls(tmp_path / "instance", *what)
    return off


def a_call(lnc: int = 1) -> device.Launch:
    return device.launch(nki.load(KERNELS).copy, ((128, 1024), "fp32"), elements=256, lnc=lnc)


def a_recording(flags=()) -> store.Recording:
    """1 us of transfers in 2 us, made; found by the call above."""
    return record(a_call(), "trn2", timeline(packets=[(0, 1000)]), read=BYTES, written=BYTES,
                  total=2000, flags=flags)


# --- probe ---------------------------------------------------------------------------------------


def test_probe_without_a_device_says_why_and_where_to_go_on(off):
    code, out, err = off("probe", "--save=p.csv")
    assert code == 3 and err == "saved p.csv\n"
    assert out.startswith("replay: no Neuron device here") and "instance.md" in out
    tried = {(row.instance, row.sdk) for row in device.tested()}
    assert all(re.search(rf"{re.escape(name)} +{re.escape(sdk)} ", out) for name, sdk in tried)
    rows = list(csv.reader(Path("p.csv").read_text().splitlines()))
    assert ["runs", "False", ""] in rows and rows[0] == ["what", "which", "told"]


def test_probe_tells_every_field_as_json(on):
    code, out, _ = on("probe", "--json")
    said, here = json.loads(out), device.probe()
    assert code == 0 and said["runs"] is True and said["synthetic"] is True
    for name in ("chip", "instance", "devices", "cores", "physical_cores", "lnc", "driver",
                 "runtime", "tools", "explorer", "nki", "neuronx_cc", "jax", "torch_neuronx", "sdk",
                 "python", "why", "verdict", "launch"):
        assert said[name] == getattr(here, name)
    assert said["told"] == here.told and len(said["tested"]) == len(device.tested())
    assert (said["tested"][0]["instance"], said["tested"][0]["on_device"]) == (
        device.tested()[0].instance, device.tested()[0].on_device)


def test_probe_on_a_device_says_what_is_there_and_who_holds_it(on):
    on.behave(busy=[3])
    code, out, _ = on("probe")
    assert code == 0 and out.startswith("run: synthetic (test stand-in), trn2")
    assert "held: process" in out and "neuron-explorer" in out and "tested: trn2" in out
    assert out.rstrip().endswith("Next: python -m roofline capture CALL")


def test_probe_shows_recordings_and_what_is_wrong_with_others(off, book):  # noqa: F811
    made = a_recording()
    (book / "work" / "recorded" / "trn2-odd").mkdir()
    _, out, _ = off("probe")
    assert f"recordings: {made.name}: synthetic" in same(out) and "left out: trn2-odd" in out


# --- sheet ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "chip_", "scope"), [
    ([], "trn2", "core"),
    (["trn1"], "trn1", "core"),
    (["--scope=lnc2", "trn2"], "trn2", "lnc2"),
    (["inf2", "--scope", "device"], "inf2", "device"),
])
def test_a_sheet_holds_the_machines_roofs(off, words, chip_, scope):
    code, out, _ = off("sheet", *words, "--json")
    said = json.loads(out)
    assert code == 0 and (said["chip"], said["scope"]) == (chip_, scope)
    of = machine.get(chip_, scope)
    used = {row["fact"]: row for row in said["figures"]
            if row["role"] == "used" and row["scope"] == scope}
    assert used["bandwidths.HBM"]["value"] == of.bandwidths["HBM"].value
    assert used["peaks.bf16"]["value"] == of.peaks["bf16"].value
    assert used["peaks.bf16"]["unit"] == "FLOP/s" and used["peaks.bf16"]["source"]
    rivals = [row["value"] for row in said["figures"] if row["role"] == "rival"
              and row["fact"] == "bandwidths.HBM" and row["scope"] == scope]
    assert rivals == [one.value for one in of.bandwidths["HBM"].rivals]


def test_a_sheet_as_text_csv_and_page(off):
    code, out, _ = off("sheet", "trn2", "--save=s.csv", "--save=s.html", "--save=s.txt")
    assert code == 0 and out.startswith("Trainium2, one NeuronCore-v3 (trn2, core)")
    assert "no measured roof of trn2" in out and Path("s.txt").read_text() == out
    rows = list(csv.DictReader(Path("s.csv").read_text().splitlines()))
    assert {row["fact"] for row in rows} >= {"bandwidths.HBM", "peaks.bf16", "ridges.bf16"}
    page = Path("s.html").read_text()
    assert "rl-sheet" in page and "sources.html" not in page and "no measured roof" in page


def test_a_sheet_as_a_page_prints_on_one(off, visit, tmp_path):
    off("sheet", "trn2", "--save=s.html")
    seen = visit((tmp_path / "s.html").as_uri(), color_scheme="dark")
    assert seen.complaints == [] and seen.page.locator(".rl-sheet table").count() > 3
    pages = seen.page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pages)) == 1


def test_a_sheet_takes_recordings_up(off, book, monkeypatch):  # noqa: F811
    """100,000 transfers at once would be needed for a plateau; here what `roofs` gives is taken."""
    rate = 123e9
    made = device.readings.Roofs("trn2", {"HBM": replace(
        machine.get("trn2").bandwidths["HBM"], value=rate, kind="measured", source="made, today",
        rivals=())}, ["odd: flagged"])
    monkeypatch.setattr("roofline.device.readings.roofs", lambda chip, scope: made)
    code, out, _ = off("sheet", "trn2")
    assert code == 0 and "recorded" in out and "123 GB/s" in out and "left out: odd" in out
    said = json.loads(off("sheet", "trn2", "--json")[1])
    assert [row["value"] for row in said["figures"] if row["role"] == "recorded"
            and row["fact"] == "bandwidths.HBM"] == [rate]


@pytest.mark.parametrize(("words", "said"), [
    (["trn9"], "no such machine: got 'trn9'"),
    (["trn1", "--scope=lnc2"], "no such scope"),
    (["desktop"], "trn1, inf2, trn2"),
    (["trn1", "trn2"], "unrecognized arguments: trn2"),
])
def test_a_sheet_that_is_not_there(off, words, said):
    code, out, err = off("sheet", *words)
    assert (code, out) == (2, "") and said in same(err)


# --- capture, off a device -----------------------------------------------------------------------


def test_off_a_device_a_capture_ends_with_3_and_says_what_to_do(off):
    code, out, err = off("capture", *COPY, "--write=a.json", "--save=b.txt")
    assert (code, out) == (3, "") and not Path("a.json").exists() and not Path("b.txt").exists()
    for words in ("no Neuron device here", "no recording of this call on trn2", "--or-model",
                  "instance.md"):
        assert words in same(err)


def test_the_model_is_taken_when_asked_for_and_is_labelled_everywhere(off):
    code, out, err = off("capture", *COPY, "--or-model", "--write=a.json", "--save=b.csv",
                         "--save=b.html")
    assert code == 0 and "model: no Neuron device here" in err
    assert out.startswith("modelled: the course's cost model of trn2, not a measurement")
    assert "profile: a.json, modelled" in out and f"{2 * BYTES / 1e6:.3f} MB" in out
    kept = profile.read("a.json")
    assert kept.kind == "modelled"
    made = device.modelled(a_call(), "trn2")
    assert kept.needs("total_time") == pytest.approx(made.time)
    rows = {row["quantity"]: row for row in csv.DictReader(Path("b.csv").read_text().splitlines())}
    assert float(rows["total time"]["value"]) == pytest.approx(made.time)
    assert rows["total time"]["kind"] == "modelled" and rows["execution time"]["value"] == ""
    assert (rows["Q"]["value"], rows["Q"]["kind"]) == (str(2 * BYTES), "derived")
    assert "not a measurement" in Path("b.html").read_text()


def test_a_model_takes_the_place_of_no_measurement(off, monkeypatch):
    """Nor before the work; a measured profile takes a modelled one's, and its own kind's."""
    assert off("capture", *COPY, "--or-model", "--write=a.json")[0] == 0
    made = a_recording()
    for _ in range(2):
        assert off("capture", *COPY, "--write=a.json")[0] == 0
        assert profile.read("a.json").kind == "measured"
    shutil.rmtree(made.folder)
    before = Path("a.json").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("roofline.device.modelled", None)
        code, out, err = off("capture", *COPY, "--or-model", "--write=a.json")
    assert (code, out, Path("a.json").read_bytes()) == (2, "", before)
    assert ("a.json: a measured profile is there, and this one is modelled" in same(err)
            and "Save under another name" in same(err))
    model = device.modelled(a_call(), "trn2").profile
    with pytest.raises(profile.ProfileError, match="a measured profile is there"):
        profile.write(model, "a.json")
    assert Path("a.json").read_bytes() == before
    measured = profile.read("a.json")
    for format, path in (("json", "b.json"), ("parquet", "b")):
        for kept in (model, model, measured):
            profile.write(kept, path, format)
        with pytest.raises(profile.ProfileError, match="a measured profile is there"):
            profile.write(model, path, format)
        assert profile.read(path).kind == "measured"


def test_measured_is_said_with_whose_it_is_or_that_nobody_says():
    bare = profile.Profile("p", "json", "", {})
    assert bare.origin == "measured (no provenance: whose, where and when is not in the file)"
    assert replace(bare, provenance={"label": "ours"}).origin == "measured"
    assert replace(bare, kind="modelled").origin == "modelled"


def test_a_recording_of_the_call_stands_in_and_is_dated(off):
    made = a_recording()
    code, out, err = off("capture", *COPY, "--write=a.json")
    assert code == 0 and "replay: no Neuron device here" in err
    assert "trn2.made" in err and "2026-08-21" in same(err)
    assert re.search(r"^  time +2 us ", out, re.M)
    assert f"recording: work/recorded/{made.name}" in out
    assert profile.read("a.json").needs("total_time") == 2e-6
    for words in ([*COPY[:2], "elements=512"], [*COPY, "--lnc=2"], [*COPY, "--core=1"],
                  [*COPY, "--chip=trn1"]):  # another call, core or chip is not that one
        assert off("capture", *words)[0] == 3


@pytest.mark.parametrize("name", ["implausible", "unchecked"])
def test_a_flag_ends_with_1_and_is_told(off, name):
    a_recording([Flag(name, "as made")])
    code, out, _ = off("capture", *COPY)
    assert code == 1 and f"flag: {name}: as made" in out
    assert ("in no roof or fit" in out) is (name == "implausible")
    said = json.loads(off("capture", *COPY, "--json")[1])
    assert said["flags"] == [f"{name}: as made"] and said["excluded"] is (name == "implausible")


def test_your_count_stands_beside_and_the_call_is_repeated(off):
    Path("call.txt").write_text("\n".join([*COPY, "--flops=0", f"--bytes=x:{BYTES}"]))
    code, out, _ = off("capture", "@call.txt", "--or-model", "--write", "my a.json")
    assert "Next: python -m roofline profile 'my a.json' @call.txt, then gap" in same(out)
    assert code == 0 and f"your Q is {BYTES:,} B, and the source has {2 * BYTES:,} B" in same(out)
    assert "your W" not in out  # 0, as the source's
    assert "your count plays no part here, nor in how this ends" in out
    assert "as the source's" in off("capture", "@call.txt", f"--bytes=y:{BYTES}", "--or-model")[1]


@pytest.mark.parametrize(("words", "said"), [
    (["Matmul", "M=1", "K=1", "N=1"], "a formula has no code to run"),
    (["none.py:copy"], "no such file"),
    ([*COPY[:1]], "x is missing"),
    ([*COPY, "--core=one"], "--core"),
    ([*COPY, "--tolerance=0"], "expected a number above 0"),
    ([*COPY, "--write=none/a.json"], "no folder"),
    ([*COPY, "--write=a.csv"], "a profile is written as .json; got '.csv'"),
    ([*COPY, "--flops=many"], "--flops many"),
    ([*COPY, "--inputs=none.npz"], "No such file"),
    ([*COPY[:2], "elements=300"], "whole transfers"),
])
def test_a_capture_that_cannot_be(off, words, said):
    code, out, err = off("capture", *words)
    assert (code, out) == (2, "") and said in same(err)


# --- capture, on the stand-in --------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_capture_on_trn2(on, lnc):
    """4 transfers of [128, 256] fp32 each way; at LNC 2 each core has half of them."""
    code, out, err = on("capture", *COPY, f"--lnc={lnc}", "--core=1", "--write=a.json")
    assert code == 0 and out.startswith("synthetic (test stand-in): ")
    time = FIXED + 2 * BYTES / lnc * BYTE
    assert profile.read("a.json").needs("total_time") == pytest.approx(time)
    steps = [line for line in err.splitlines() if line.startswith((
        "compute", "compile", "capture", "view"))]
    assert [step.split()[0] for step in steps] == [
        "capture", "compute", "compile", "capture", "view,", "view,"]
    assert "run: synthetic" in err and "core 1" in err
    [made] = device.recordings()
    assert f"recording: work/recorded/{made.name}" in out and made.provenance["cores"] == [1]
    assert made.provenance["lnc"] == lnc

    code, again, _ = on("capture", *COPY, f"--lnc={lnc}", "--core=1", "--json")
    said = json.loads(again)
    assert code == 0 and len(device.recordings()) == 2  # it captures again, and keeps both
    assert (said["kind"], said["lnc"], said["hbm_bytes"]) == ("measured", lnc, 2 * BYTES)
    assert said["time"] == said["clocks"]["total"]["seconds"] == pytest.approx(time)
    assert said["provenance"]["synthetic"] is True and said["flags"] == []


def test_a_capture_that_fails_loses_nothing(on):
    assert on("capture", *COPY)[0] == 0
    [made] = device.recordings()
    for how, said in (({"fail": "capture"}, "log: "), ({"outputs": "zeros"}, "zeros"),
                      ({"saved": "nan"}, "profiled execution")):
        on.behave(**{"fail": "", "outputs": "", "saved": "", **how})
        code, out, err = on("capture", *COPY, "--or-model", "--write=a.json", "--save=a.txt")
        assert (code, out) == (2, "") and "error: copy: " in err and said in same(err), how
        assert not Path("a.json").exists() and not Path("a.txt").exists()
    assert [one.name for one in device.recordings()] == [made.name]


def test_a_capture_too_fast_to_be_true_is_kept_and_ends_with_1(on):
    on.behave(fixed_s=0.0, seconds_per_byte=1e-13)  # 10 TB/s
    code, out, _ = on("capture", *COPY)
    assert code == 1 and "flag: implausible" in out and "in no roof or fit" in out
    assert len(device.recordings()) == 1


def test_a_profile_that_cannot_be_written_leaves_the_answer_and_the_recording(on, monkeypatch):
    def full(*args):
        raise profile.ProfileError("a.json: not saved (No space left on device)")
    monkeypatch.setattr(profile, "write", full)
    code, out, _ = on("capture", *COPY, "--write=a.json")
    assert code == 2 and "not written: a.json" in out and "recording: " in out
    assert len(device.recordings()) == 1


def test_a_core_or_chip_that_is_not_here(on):
    code, _, err = on("capture", *COPY, "--core=99")
    assert code == 2 and "core 99" in same(err)
    code, _, err = on("capture", *COPY, "--chip=trn1")
    assert code == 3 and "this is a trn2, and the call asks for trn1" in same(err)
    assert on.calls("neuron-explorer", "capture") == []


def test_ctrl_c_ends_the_capture_alone(on, monkeypatch):
    def stop(*args, **how):
        raise KeyboardInterrupt
    monkeypatch.setattr("roofline.device.explorer.capture", stop)
    code, out, err = on("capture", *COPY)
    assert (code, out) == (130, "") and "stopped by you" in err and not device.recordings()


# --- arrays of one's own -------------------------------------------------------------------------


def test_the_arrays_of_a_file_are_run(on, monkeypatch):
    from roofline.device import runner
    x = np.arange(128 * 1024, dtype=np.float64).reshape(128, 1024)
    np.savez("x.npz", x=x)
    taken = []
    found = runner.capture_launch
    monkeypatch.setattr(runner, "capture_launch",
                        lambda call, **how: taken.append(call) or found(call, **how))
    assert on("capture", *COPY, "--inputs=x.npz")[0] == 0
    assert (taken[0].inputs[0] == x).all() and taken[0].inputs[0].dtype == np.float32
    assert taken[0].key("trn2") == a_call().key("trn2")  # of the call, not of its values


def test_bf16_comes_as_its_bits_or_as_another_float(off):
    from roofline.commands.capture import with_inputs
    call = device.launch(nki.load(KERNELS).copy, ((128, 4), "bf16"), elements=4)
    values = np.linspace(-3, 3, 512, dtype=np.float32).reshape(128, 4).astype(ml_dtypes.bfloat16)
    for x in (values, values.view("V2"), values.astype(np.float32)):
        np.savez("x.npz", x=x)
        assert (with_inputs(call, "x.npz").inputs[0] == values).all()


@pytest.mark.parametrize(("arrays", "said"), [
    ({}, "no 'x' in it"),
    ({"x": np.zeros((128, 512), np.float32)}, "x is [128, 512]; the call says [128, 1024]"),
    ({"x": np.zeros((128, 1024), np.int32)}, "x is int32; the call says float32"),
    ({"x": np.zeros((128, 1024), np.float32), "y": np.zeros(1)}, "it has 'y'"),
    ({"x": np.array([{}])}, "of numbers"),
    (np.zeros(3), "one array without a name"),
    (b"PK\x03\x04 and no more", "numpy.savez"),
    (b"", "numpy.savez"),
])
def test_a_file_of_other_arrays(off, arrays, said):
    if isinstance(arrays, dict):
        np.savez("x.npz", **arrays)
    elif isinstance(arrays, bytes):
        Path("x.npz").write_bytes(arrays)
    else:
        np.save("x.npy", arrays)
        Path("x.npy").rename("x.npz")
    code, out, err = off("capture", *COPY, "--or-model", "--inputs=x.npz")
    assert (code, out) == (2, "") and said in same(err), html.escape(err)


def test_recordings_of_the_stand_in_are_for_tests_alone(off, monkeypatch):
    """Nobody else takes one for a measurement."""
    a_recording()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert off("capture", *COPY)[0] == 3
    assert chip.probe().why


def test_a_capture_on_a_shared_instance_says_its_turn(on, tmp_path, monkeypatch):
    queue = leases.Server(tmp_path / "cores", "0-7", 2)
    queue.start()
    monkeypatch.setenv("ROOFLINE_CORES", str(queue.path))
    try:
        with leases.Asker(queue.path, {"cores": [0]}) as other:
            other.core()
            code, _, err = on("capture", *COPY)
    finally:
        queue.stop()
    assert code == 0 and "elements=256 on a core, in turn: run, check" in " ".join(err.split())
    assert "core 2 is yours" in err
    [made] = device.recordings()
    assert made.provenance["cores"] == [2]
