"""device.store and device.contributing: what is kept, found again, refused, and given to others.

Profiles here are built by the tests, and so are the figures of "captures" in them: they stand for
files, not for measurements, and lie in folders of the tests' own.
"""

import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import timelines
from pages import ROOT

from roofline import gaps, neuroncore, nki, profile
from roofline.device import contributing, launch, store
from roofline.device.launches import digests_of, key_of, source_hash
from roofline.device.plausibility import Flag
from roofline.device.recording import RecordingError
from roofline.profile.facts import UNSURE

KERNEL = b"def copy(x):\n    return x\n"
SAID = {
    "kind": "measured", "chip": "trn2", "instance": "trn2.3xlarge", "lnc": 1, "cores": [0],
    "kernel": "copy", "shapes": [[128, 2048]], "dtypes": ["bf16"], "parameters": {"elements": 64},
    "execution": "second of 2", "warm": True, "date": "2026-08-21T12:30:00Z", "python": "3.12.3",
    "nki": "0.6.0", "compiler": "2.27.1.0", "explorer": "2.31.24.0"}


def key_for(said=SAID, kernel=KERNEL):
    """The key of the launch that provenance tells of."""
    shapes = tuple((tuple(shape), dtype) for shape, dtype in zip(
        said["shapes"], said["dtypes"], strict=True))
    return key_of(hashlib.sha256(kernel).hexdigest(), said["kernel"], shapes, said["parameters"],
                  said["lnc"], said["chip"])


KEY = key_for()
Q = 2 * 128 * 2048 * 2  # bytes of the copy, in and out


@pytest.fixture(autouse=True)
def book(tmp_path, monkeypatch):
    """A book of the test's own: its work/recorded is empty, and it ships nothing."""
    (tmp_path / "lib" / "roofline").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOFLINE_RECORDED", raising=False)
    return tmp_path


def copied(seconds=5e-6, **more):
    """A profile of a copy: two transfers, one instruction each."""
    ns = round(seconds * 1e9)
    rows = timelines.timeline(
        issues=[(0, 100, {"read": Q // 2, "line": "/home/alice/kernels.py:12"}),
                (100, 200, {"written": Q // 2})],
        packets=[(200, ns // 2, {"nbytes": Q // 2}), (ns // 2, ns, {"nbytes": Q // 2})])
    return timelines.profile(rows, **{"summary": {
        "hbm_read_bytes": Q // 2, "hbm_write_bytes": Q // 2, "hardware_flops": 0,
        "transpose_flops": 0}, **more})


def keep(of=None, *, flags=(), when=None, kernel=KERNEL, **said):
    """Save a profile as a capture would."""
    key = key_for({**SAID, **said}, kernel)
    with store.part() as folder:
        profile.write(of or copied(), folder / "timeline.json")
        (folder / "log.txt").write_text("it ran\n")
        return store.save(folder, key=key, provenance={**SAID, **said}, kernel=kernel,
                          flags=flags, now=when)


def names(found):
    return [one.name for one in found]


def problem():
    """What is wrong with the one folder that is left out."""
    there = store.recordings()
    (one,) = there.problems
    return one.why


def edit(folder, **changes):
    """Change recording.json by hand; None takes a field out."""
    data = json.loads((folder / "recording.json").read_text())
    data.update(changes)
    (folder / "recording.json").write_text(json.dumps(
        {key: value for key, value in data.items() if value is not None}))


def edit_provenance(folder, **changes):
    said = json.loads((folder / "recording.json").read_text())["provenance"]
    said.update(changes)
    edit(folder, provenance={key: value for key, value in said.items() if value is not ...})


# --- saved and found again ------------------------------------------------------------------------


def test_what_is_saved_is_found_again(book):
    saved = keep(when=datetime(2026, 8, 21, 12, 30, tzinfo=UTC))
    assert saved.folder.parent == book / "work" / "recorded"
    assert saved.name.startswith("trn2-copy-20260821T123000Z-")
    (found,) = store.recordings()
    assert found.folder == saved.folder and found.key == KEY and found.flags == ()
    assert dict(found.provenance) == {**SAID, "kernel_sha256": hashlib.sha256(KERNEL).hexdigest()}
    assert (found.folder / "kernel.py").read_bytes() == KERNEL
    assert set(found.files) == {"timeline.json", "kernel.py", "log.txt"}
    assert found.label == "trn2.3xlarge, LNC 1, NKI 0.6.0, 2026-08-21"
    assert os.listdir(book / "work" / "recorded") == [found.name]  # the part is gone


def test_its_profile_bears_provenance_and_flags():
    flag = Flag("above spec", "134.2 MB in 300 us")
    got = keep(flags=[flag]).profile
    assert got.needs("total_time") == pytest.approx(5e-6)
    assert got.provenance["instance"] == "trn2.3xlarge" and got.flags == (str(flag),)
    assert "recorded on trn2.3xlarge, LNC 1, NKI 0.6.0, 2026-08-21" in repr(got)
    assert "flag: above spec: 134.2 MB in 300 us" in repr(got)
    assert got.window(0, 1000).provenance["chip"] == "trn2"


def test_a_summary_alone_has_the_cores_of_its_launch():
    with store.part() as folder:
        (folder / "summary.json").write_text(json.dumps({"n_1": {"total_time": 5e-6}}))
        assert UNSURE in profile.read(folder / "summary.json").warnings
        saved = store.save(folder, key=KEY, provenance={**SAID, "lnc": 2}, kernel=KERNEL)
    assert saved.profile.cores == 2 and UNSURE not in saved.profile.warnings


def test_a_timeline_is_read_before_a_summary(book):
    with store.part() as folder:
        (folder / "summary.json").write_text(json.dumps({"n_1": {"total_time": 5e-6}}))
        profile.write(copied(), folder / "timeline.json")
        assert store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL).profile.timeline


@pytest.mark.parametrize("nested", ["parquet", "parquet/profiles/global/copy@latest"])
def test_tables_are_read_where_the_explorer_nests_them(nested):
    with store.part() as folder:
        (folder / nested).parent.mkdir(parents=True, exist_ok=True)
        profile.write(copied(), folder / nested, "parquet")
        saved = store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL)
    assert saved.profile.format == "parquet"
    assert saved.profile.needs("hbm_read_bytes") == Q // 2
    (saved.folder / nested / "Warning.parquet").write_bytes(b"PAR1")
    assert "Warning.parquet is not one of its files" in problem()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_recordings_of_one_second_the_last_written_is_the_newest(order):
    when = datetime(2026, 8, 21, tzinfo=UTC)
    made = [keep(when=when) for _ in order]
    for one, at in zip(made, order, strict=True):
        os.utime(one.folder, ns=(0, 10**18 + at))
    wanted = [made[order.index(at)].name for at in (2, 1, 0)]
    assert names(store.recordings()) == wanted and store.find(KEY).name == wanted[0]
    later = keep(when=when + timedelta(seconds=1))
    os.utime(later.folder, ns=(0, 0))  # the stamp comes first: files may be copied
    assert store.find(KEY).name == later.name


@pytest.fixture
def reads(monkeypatch):
    """Paths of the profiles that are parsed, in order."""
    found = []
    monkeypatch.setattr(store, "read_profile", lambda path: (
        found.append(path), profile.read(path))[1])
    return found


def test_a_profile_that_is_found_again_is_parsed_once(reads):
    saved = keep()
    for _ in range(3):
        assert store.find(KEY).profile.needs("total_time") == pytest.approx(5e-6)
        (one,) = store.recordings()
        assert one.profile.timeline is saved.profile.timeline
    assert reads == [saved.folder / "timeline.json"]
    other = keep(copied(7e-6))  # another folder is another profile
    assert other.profile.needs("total_time") == pytest.approx(7e-6)
    assert len(reads) == 2


def test_flags_and_provenance_are_the_recordings_own_though_its_profile_is_known(reads):
    saved = keep()
    assert saved.profile.flags == ()
    edit(saved.folder, flags=["overlap: core 1"])
    edit_provenance(saved.folder, instance="trn2.48xlarge")
    again = store.find(KEY).profile
    assert again.flags == ("overlap: core 1",)
    assert again.provenance["instance"] == "trn2.48xlarge" and len(reads) == 1


def test_a_changed_profile_is_refused_or_read_again_and_never_taken_for_the_old_one(reads):
    saved = keep()
    path = saved.folder / "timeline.json"
    was = path.read_bytes()
    profile.write(copied(9e-6), path)
    with pytest.raises(RecordingError, match=r"timeline\.json: changed since it was saved"):
        _ = saved.profile  # before it was read
    assert reads == [] and store.find(KEY) is None
    path.write_bytes(was)
    assert store.find(KEY).profile.needs("total_time") == pytest.approx(5e-6)
    late = store.find(KEY)
    profile.write(copied(9e-6), path)
    with pytest.raises(RecordingError, match="changed since"):
        _ = late.profile  # though those digests were read
    edit(saved.folder, files={**saved.files,
                              path.name: hashlib.sha256(path.read_bytes()).hexdigest()})
    assert store.find(KEY).profile.needs("total_time") == pytest.approx(9e-6)
    assert reads == [path, path]


def test_few_profiles_are_kept():
    assert store._parsed.cache_parameters()["maxsize"] == 16


def test_what_says_it_is_of_a_simulation_is_no_measurement():
    saved = keep(replace(copied(), kind="modelled"))
    with pytest.raises(RecordingError, match="says that it is of a simulation"):
        _ = saved.profile


def test_recordings_come_newest_first_and_by_chip_and_kernel():
    day = datetime(2026, 8, 21, tzinfo=UTC)
    for i, (chip, kernel) in enumerate([("trn1", "copy"), ("trn2", "copy"), ("trn2", "read")]):
        _keep_as(chip, kernel, day + timedelta(days=i))
    assert [(one.chip, one.kernel) for one in store.recordings()] == [
        ("trn2", "read"), ("trn2", "copy"), ("trn1", "copy")]
    assert [one.kernel for one in store.recordings("trn2")] == ["read", "copy"]
    assert [one.chip for one in store.recordings(kernel="copy")] == ["trn2", "trn1"]
    assert names(store.recordings("trn2", "copy")) == names(store.recordings())[1:2]
    assert len(store.recordings("inf2")) == 0


def _keep_as(chip, kernel, when):
    with store.part() as folder:
        profile.write(copied(), folder / "timeline.json")
        said = {**SAID, "chip": chip, "kernel": kernel, "instance": None}
        return store.save(folder, key=KEY, provenance=said, kernel=KERNEL, now=when)


def test_a_name_is_safe_whatever_the_kernel_is_called(book):
    saved = _keep_as("trn2", "../../etc/<b>" + "x" * 100, datetime(2026, 8, 21, tzinfo=UTC))
    assert saved.folder.parent == book / "work" / "recorded"
    assert len(saved.name) < 80 and set(saved.name) <= set(
        "abcdefghijklmnopqrstuvwxyzTZ0123456789_-")


def test_find_wants_the_very_call():
    saved = keep()
    assert store.find(KEY).folder == saved.folder
    assert store.find(KEY[:-1] + "0") is None


def test_find_takes_the_newest_and_one_without_excluding_flags_first():
    day = datetime(2026, 8, 21, tzinfo=UTC)
    bad = Flag("implausible", "too fast")
    only = keep(when=day, flags=[bad])
    assert store.find(KEY).folder == only.folder  # flagged, and the only one
    good = keep(when=day + timedelta(days=1), flags=[Flag("above spec", "by a little")])
    keep(when=day + timedelta(days=2), flags=[bad])
    assert store.find(KEY).folder == good.folder
    newest = keep(when=day + timedelta(days=3))
    assert store.find(KEY).folder == newest.folder


def test_a_core_alone_is_not_one_among_others():
    alone = keep(cores=[1])
    beside = keep(cores=[1], alongside=[0])
    other = keep(cores=[0], alongside=[1])
    assert store.find(KEY).folder == alone.folder
    assert store.find(KEY, core=1).folder == alone.folder
    assert store.find(KEY, core=0) is None
    assert store.find(KEY, core=1, alongside=[0]).folder == beside.folder
    assert store.find(KEY, core=0, alongside=[1]).folder == other.folder
    assert store.find(KEY, alongside=[2]) is None


def test_what_ships_comes_after_ones_own_and_alone_in_replay(book, monkeypatch):
    ships = keep(when=datetime(2026, 8, 30, tzinfo=UTC))
    (book / "assets" / "recorded").mkdir(parents=True)
    (book / "work" / "recorded").rename(book / "assets" / "recorded" / "neuron")
    own = keep(when=datetime(2026, 8, 1, tzinfo=UTC))
    assert names(store.recordings()) == [own.name, ships.name]
    assert store.find(KEY).name == own.name
    monkeypatch.setenv("ROOFLINE_RECORDED", "1")
    assert names(store.recordings()) == [ships.name]
    assert store.find(KEY).name == ships.name


def test_no_folder_is_no_recording():
    there = store.recordings()
    assert len(there) == 0 and there.problems == () and store.find(KEY) is None
    assert repr(there) == "no recordings"


def test_a_folder_that_cannot_be_listed_is_said(book):
    (book / "work").mkdir()
    (book / "work/recorded").write_text("a file in its place\n")
    (one,) = store.recordings().problems
    assert one.why.endswith("work/recorded: cannot be read (Not a directory). Make the folder "
                            "readable")
    assert store.find(KEY) is None


def test_files_and_hidden_folders_beside_them_are_nothing(book):
    saved = keep()
    (book / "work/recorded/host-20260821.json").write_text("{}")
    (book / "work/recorded/.failed").mkdir()
    (book / "work/recorded/.part-1-abc").mkdir()
    there = store.recordings()
    assert names(there) == [saved.name] and there.problems == ()


def test_they_show_as_a_table_with_what_was_left_out():
    good, bad = keep(flags=[Flag("above spec", "by a little")]), keep()
    (bad.folder / "kernel.py").unlink()
    lines = repr(store.recordings()).splitlines()
    assert lines.pop(0) == "1 of trn2"
    assert lines[0].split() == ["recording", "of", "flags"]
    assert lines[1].split("  ")[0] == good.name and lines[1].endswith("above spec")
    assert lines[2] == f"left out: {bad.name}/kernel.py: missing. {store.AGAIN}"
    assert repr(good).splitlines()[1:] == [
        "  copy elements=64 of 128x2048 bf16; second of 2", "  flag: above spec: by a little"]


# --- bad folders ----------------------------------------------------------------------------------


def test_a_bad_folder_stops_no_other():
    good = keep()
    for damage in (lambda f: (f / "recording.json").unlink(),
                   lambda f: (f / "recording.json").write_text("{"),
                   lambda f: (f / "timeline.json").unlink(),
                   lambda f: shutil.rmtree(f) or f.mkdir()):
        damage(keep().folder)
    there = store.recordings()
    assert names(there) == [good.name] and len(there.problems) == 4
    assert store.find(KEY).folder == good.folder


@pytest.mark.parametrize("cut", [0, 1, 10, 200, -2])
def test_a_cut_file_is_left_out_and_left_alone(cut):
    folder = keep().folder
    path = folder / "recording.json"
    path.write_bytes(path.read_bytes()[:cut])
    before = path.read_bytes()
    assert "expected JSON, got a broken or cut file" in problem()
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["[]", "7", '"text"', "null", '{"schema": "roofline-device/2"}',
                                  '{"schema": "roofline-host/1"}', "{}", '{"schema": ["x"]}'])
def test_another_schema_is_left_out(text):
    folder = keep().folder
    (folder / "recording.json").write_text(text)
    assert "schema: expected 'roofline-device/1'" in problem()


def test_json_nested_without_end_is_left_out():
    folder = keep().folder
    (folder / "recording.json").write_text("[" * 200_000)
    assert "expected JSON" in problem()


def test_a_recording_json_as_large_as_a_profile_is_not_read():
    folder = keep().folder
    (folder / "recording.json").write_text(" " * (store.LARGEST + 1))
    assert "expected a file of up to 1,048,576 bytes" in problem()


@pytest.mark.parametrize("file", ["timeline.json", "kernel.py", "log.txt"])
def test_a_changed_file_is_left_out(file):
    saved = keep()
    assert len(store.recordings()) == 1
    path = saved.folder / file
    path.write_bytes(path.read_bytes().replace(b"1", b"2") + b" ")
    assert f"{saved.name}/{file}: changed since it was saved (SHA-256)" in problem()
    assert store.find(KEY) is None


def test_a_change_of_one_byte_shows_even_where_size_and_time_stay():
    """The digest is kept for a state of a file; another file in its place has another."""
    saved = keep()
    assert len(store.recordings()) == 1
    path = saved.folder / "log.txt"
    state = path.stat()
    other = saved.folder / "other"
    other.write_text("it RAN\n")
    os.utime(other, ns=(state.st_atime_ns, state.st_mtime_ns))
    other.replace(path)
    assert "log.txt: changed" in problem()


@pytest.mark.parametrize("field", ["key", "provenance", "flags", "files"])
def test_a_missing_or_foreign_field_is_left_out(field):
    folder = keep().folder
    edit(folder, **{field: None})
    assert f".{field}: field missing" in problem()
    edit(folder, **{field: 7})
    assert f".{field}: expected" in problem()


def test_an_unknown_field_is_left_out():
    folder = keep().folder
    edit(folder, more=1)
    assert ".more: field unknown" in problem()
    shutil.rmtree(folder)
    edit_provenance(keep().folder, home="/home/alice")
    assert "provenance.home: field unknown" in problem()


@pytest.mark.parametrize("field", [name for name, of in store.PROVENANCE.items() if of.needed])
def test_every_needed_field_of_provenance_is_needed(field):
    folder = keep().folder
    edit_provenance(folder, **{field: ...})
    assert f"provenance.{field}: field missing" in problem()
    edit_provenance(folder, **{field: None})
    assert f"provenance.{field}: expected" in problem()


def test_what_may_be_unknown_may_be_absent_or_null():
    optional = [name for name, of in store.PROVENANCE.items() if not of.needed]
    saved = keep(**dict.fromkeys(optional))
    assert not set(optional) & set(saved.provenance)
    assert saved.label == "trn2, LNC 1, 2026-08-21"
    assert store.recordings().problems == ()


@pytest.mark.parametrize(("field", "wrong"), [
    ("kind", "modelled"), ("kind", "published"), ("chip", "TRN2"), ("chip", "../x"), ("lnc", 3),
    ("lnc", 1.0), ("lnc", True), ("cores", []), ("cores", [-1]), ("cores", ["0"]), ("cores", 0),
    ("alongside", [1.5]), ("shapes", [[0]]), ("shapes", [128]), ("shapes", "128"),
    ("dtypes", ["bf16", "bf16"]), ("dtypes", [16]), ("parameters", {"n": [1]}),
    ("parameters", {"n": {"m": 1}}), ("parameters", {"n": 10**30}), ("parameters", []),
    ("parameters", {"n": "\x1b[31m"}), ("parameters", {"n": "x" * 1000}),
    ("warm", "yes"), ("warm", 1), ("date", "yesterday"), ("date", "2026-08-21"), ("date", 0),
    ("kernel_sha256", "x" * 64), ("kernel", None), ("notes", "text"), ("notes", [1]),
    ("synthetic", 1), ("nki", 0.6)])
def test_provenance_of_another_form_is_left_out(field, wrong):
    folder = keep().folder
    edit_provenance(folder, **{field: wrong})
    why = problem()
    assert f"provenance.{field}: expected" in why and "\x1b" not in why and len(why) < 600


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", str(2**63),
                                    "9" * 5000])
def test_numbers_that_are_none_are_left_out(number):
    folder = keep().folder
    path = folder / "recording.json"
    path.write_text(path.read_text().replace('"elements": 64', f'"elements": {number}'))
    assert "finite number of at most 63 bits" in problem() or "expected JSON" in problem()


@pytest.mark.parametrize("path", ["../kernel.py", "/etc/hostname", "a/../../b", "a//b", ".hidden",
                                  "a/.b", "", "a\\b", "C:/x", "x\n", "x" * 300, "a/b/c/d/e/f/g/h"])
def test_paths_that_could_lead_out_are_left_out(path):
    saved = keep()
    edit(saved.folder, files={**saved.files, path: "0" * 64})
    assert "paths within the folder" in problem()


@pytest.mark.parametrize("digest", [None, 7, ["x"], "0"])
def test_a_file_without_its_hash_is_left_out(digest):
    saved = keep()
    edit(saved.folder, files={**saved.files, "log.txt": digest})
    why = problem()
    assert "each with its SHA-256" in why or "changed since it was saved" in why


def test_a_link_out_of_the_folder_is_left_out(book):
    saved = keep()
    outside = book / "outside.txt"
    shutil.copy(saved.folder / "log.txt", outside)
    (saved.folder / "log.txt").unlink()
    (saved.folder / "log.txt").symlink_to(outside)  # the same bytes, and the same hash
    assert f"{saved.name}/log.txt: a link" in problem()


def test_a_linked_folder_of_tables_is_left_out(book):
    with store.part() as folder:
        profile.write(copied(), folder / "parquet", "parquet")
        saved = store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL)
    (saved.folder / "parquet").rename(book / "elsewhere")
    (saved.folder / "parquet").symlink_to(book / "elsewhere")
    assert "a link, which may lead out" in problem()


def test_a_linked_recording_json_is_left_out(book):
    saved = keep()
    (saved.folder / "recording.json").rename(book / "elsewhere.json")
    (saved.folder / "recording.json").symlink_to(book / "elsewhere.json")
    assert "got a link or a larger one" in problem()


def test_a_folder_in_place_of_a_file_is_left_out():
    saved = keep()
    (saved.folder / "log.txt").unlink()
    (saved.folder / "log.txt").mkdir()
    assert "log.txt: missing" in problem()


def test_another_source_than_was_run_is_left_out():
    saved = keep()
    (saved.folder / "kernel.py").write_bytes(b"other\n")
    edit(saved.folder, files={**saved.files, "kernel.py": hashlib.sha256(b"other\n").hexdigest()})
    assert "kernel.py is not the source that was run" in problem()


def test_a_recording_without_a_profile_is_left_out():
    saved = keep()
    edit(saved.folder, files={name: digest for name, digest in saved.files.items()
                              if name != "timeline.json"})
    assert "expected a profile (timeline.json" in problem()


@pytest.mark.parametrize("wrong", ["above spec", 7, None])
def test_a_flag_without_a_name_is_left_out(wrong):
    edit(keep().folder, flags=[wrong])
    assert '.flags: expected texts "name: what"' in problem()


def test_text_of_a_file_is_data():
    """Control characters are gone, markup stays what it is, length has an end."""
    folder = keep().folder
    nasty = "\x1b[2J<script>alert(1)</script>\n\u202e" + "x" * 10_000
    edit_provenance(folder, instance=nasty, notes=[nasty])
    edit(folder, flags=[f"above spec: {nasty}"])
    (one,) = store.recordings()
    for shown in (repr(one), one.label, repr(store.recordings()), repr(one.profile)):
        assert not {c for c in shown if not c.isprintable() and c != "\n"}
        assert len(shown) < 5000
    assert "<script>" in one.label and not hasattr(one, "_repr_html_")


def test_the_name_of_a_folder_is_data(book):
    (book / "work/recorded").mkdir(parents=True)
    (book / "work/recorded" / ("trn2-\x1b[31m\n<b>" + "x" * 150)).mkdir()
    (one,) = store.recordings().problems
    assert all(c.isprintable() for c in one.name + one.why)


def test_a_recording_that_is_not_there_is_one_clear_error(book):
    with pytest.raises(RecordingError, match=r"got \[0\] of 0\. Run Day 4 on an instance"):
        store.recordings()[0]
    keep()
    (book / "work/recorded" / "trn2-cut").mkdir()
    found = store.recordings()
    assert [found[0], found[-1]] == [*found] * 2 == [*found[:5]] * 2
    with pytest.raises(LookupError, match=r"got \[1\] of 1, and 1 left out: see \.problems\. "):
        found[1]


# --- saving ---------------------------------------------------------------------------------------


def test_a_part_is_gone_whatever_happens(book):
    with pytest.raises(ZeroDivisionError), store.part() as folder:
        (folder / "deep" / "er").mkdir(parents=True)
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), store.part():
        raise KeyboardInterrupt
    assert os.listdir(book / "work/recorded") == []


def test_the_parts_of_processes_that_are_gone_go(book):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = [f".part-{os.getpid()}-0a", ".part-1-0b", ".part-x-0c", ".part-99999999999999-0d"]
    for name in (*kept, f".part-{gone.pid}-0e"):
        (book / "work/recorded" / name / "run").mkdir(parents=True)
    with store.part() as folder:
        assert sorted(os.listdir(folder.parent)) == sorted([*kept, folder.name])


def test_a_file_is_hashed_in_pieces_and_once_a_state(book, monkeypatch):
    """A trace may be larger than memory; save() looks at each file twice."""
    hashed = []
    monkeypatch.setattr(Path, "read_bytes", None)
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, kind: (
        hashed.append(Path(file.name).name), digest(file, kind))[1])
    made = keep()
    assert sorted(hashed) == sorted(made.files)
    assert made.files["kernel.py"] == hashlib.sha256(KERNEL).hexdigest()


@pytest.mark.parametrize("lacks", ["chip", "date", "warm"])
def test_without_provenance_nothing_is_saved(book, lacks):
    said = {name: value for name, value in SAID.items() if name != lacks}
    with pytest.raises(RecordingError, match=f"{lacks}: field missing"), store.part() as folder:
        profile.write(copied(), folder / "timeline.json")
        store.save(folder, key=KEY, provenance=said, kernel=KERNEL)
    assert os.listdir(book / "work/recorded") == []


def test_without_a_profile_nothing_is_saved(book):
    with pytest.raises(RecordingError, match="expected a profile"), store.part() as folder:
        (folder / "log.txt").write_text("nothing came\n")
        store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL)
    assert os.listdir(book / "work/recorded") == []


def test_a_link_is_not_saved(book):
    with pytest.raises(RecordingError, match="a link"), store.part() as folder:
        profile.write(copied(), folder / "timeline.json")
        (folder / "kernel.neff").symlink_to("/etc/hostname")
        store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL)
    assert os.listdir(book / "work/recorded") == []


@pytest.mark.parametrize("fails", ["_write", "_place"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_full_disk_leaves_earlier_recordings_alone(book, monkeypatch, fails, error):
    before = keep()
    files = {path: path.read_bytes() for path in before.folder.iterdir()}

    def full(*args):
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(store, fails, full)
        with pytest.raises(RecordingError, match=rf"not saved \({os.strerror(error)}\); earlier "
                           "recordings are as they were. Free some space"):
            keep()
    assert os.listdir(book / "work/recorded") == [before.name]
    assert {path: path.read_bytes() for path in before.folder.iterdir()} == files
    assert len(store.recordings()) == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of folders are POSIX's")
def test_a_folder_that_cannot_be_written_is_one_clear_error(book, monkeypatch):
    saved = keep()
    base = book / "work/recorded"
    base.chmod(0o500)
    try:
        if os.access(base, os.W_OK):  # root may write anywhere
            def refuse(*args, **how):
                raise PermissionError(errno.EACCES, "Permission denied")
            monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(RecordingError, match=r"not saved \(Permission denied\)"):
            keep()
        assert names(store.recordings()) == [saved.name]
    finally:
        base.chmod(0o700)


def test_of_two_that_pick_one_name_the_second_picks_another(monkeypatch):
    picked = itertools.cycle(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(store.secrets, "token_hex",
                        lambda n: next(picked) if n == 2 else os.urandom(n).hex())
    when = datetime(2026, 8, 21, tzinfo=UTC)
    first, second = keep(when=when), keep(when=when)
    assert first.name.endswith("-aaaa") and second.name.endswith("-bbbb")
    assert len(store.recordings()) == 2


def test_a_name_taken_at_the_last_moment_is_not_overwritten(monkeypatch):
    """The name is free when looked at, and taken when renamed to."""
    first = keep()
    monkeypatch.setattr(store.Path, "exists", lambda self: False)
    picked = itertools.chain([first.name[-4:]], itertools.repeat("ffff"))
    monkeypatch.setattr(store.secrets, "token_hex",
                        lambda n: next(picked) if n == 2 else os.urandom(n).hex())
    stamp = datetime.strptime(first.name.split("-")[2], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    second = keep(when=stamp)
    assert second.name != first.name
    monkeypatch.undo()
    assert store.load(first.folder).key == KEY


def _save_many(book, count):
    os.chdir(book)
    os.environ["PYTEST_CURRENT_TEST"] = "child"
    for _ in range(count):
        keep(when=datetime(2026, 8, 21, tzinfo=UTC))


def test_two_writers_at_once_lose_nothing(book):
    start = multiprocessing.get_context("fork")
    writers = [start.Process(target=_save_many, args=(book, 12)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = 0
    while any(writer.is_alive() for writer in writers):  # and a reader sees whole ones alone
        there = store.recordings()
        assert there.problems == () and len(there) >= seen
        seen = len(there)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(store.recordings()) == 24
    assert not [name for name in os.listdir(book / "work/recorded") if name.startswith(".")]


# --- the tests' stand-in --------------------------------------------------------------------------


def test_synthetic_recordings_say_so_in_tests():
    one = keep(synthetic=True, nki="0.6.0+stand-in")
    assert one.synthetic and store.find(KEY).synthetic
    assert one.label.startswith("synthetic (test stand-in): trn2.3xlarge")
    assert one.profile.provenance["label"].startswith("synthetic")


def test_synthetic_recordings_are_refused_outside_of_tests(book):
    keep(synthetic=True, nki="0.6.0+stand-in")
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    script = ("from roofline.device import store; there = store.recordings(); "
              f"print(len(there), store.find({KEY!r}), there.problems[0].why)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=env | {"PYTHONPATH": str(ROOT / "lib")}, cwd=book)
    assert done.stdout.startswith("0 None ") and done.stderr == ""
    assert "synthetic, made by the tests' stand-in: no device ran" in done.stdout


@pytest.mark.parametrize("said", [{"nki": "0.6.0+stand-in"}, {"explorer": "2.31 Stand-In"},
                                  {"notes": ["by a stand-in"]}])
def test_a_stand_in_that_does_not_say_so_is_refused_everywhere(said):
    with pytest.raises(RecordingError, match="does not say that it is synthetic"):
        keep(**said)


# --- contributions --------------------------------------------------------------------------------

PRIVATE = {
    "a path": ["/home/alice/work/kernel.py", "/opt/course/x/y", "~/secret/notes.txt", "~bob/x",
               "/Users/Alice Smith/x", "C:\\Users\\Alice\\x", "\\\\server\\share\\x",
               "file:///srv/data/x", "/tmp/x", "home/alice/x", "/efs/team/x"],
    "a bucket": ["s3://acme-traces/run-7/x"],
    "a name": ["alice@host17", "alice.smith@example.org", "user=alice", "username: alice",
               "hostname: build-7"],
    "an id of the cloud": ["i-0123456789abcdef0", "vol-0a1b2c3d4e5f60718", "ami-0abcdef1234567890",
                           "subnet-0bb1c79de3EXAMPLE"[:15] + "79de3000", "eni-1a2b3c4d",
                           "arn:aws:iam::123456789012:role/alice", "123456789012"],
    "an address": ["10.0.3.17", "203.0.113.9", "192.168.1.1", "ip-10-0-3-17",
                   "ec2-203-0-113-9.compute-1.amazonaws.com", "ip-10-0-3-17.us-east-1.internal",
                   "build.corp", "fe80::1ff:fe23:4567:890a", "2001:db8::8a2e:370:7334",
                   "0a:1b:2c:3d:4e:5f"],
    "an id": ["123e4567-e89b-12d3-a456-426614174000"]}
PLANTED = [(what, text) for what, texts in PRIVATE.items() for text in texts]


@pytest.mark.parametrize(("what", "text"), PLANTED)
@pytest.mark.parametrize("around", ["{}", "warning: see {}, then stop", "({})", "'{}'", "at={}"])
def test_each_of_these_is_found_and_scrubbed(what, text, around):
    said = around.format(text)
    assert what in {one.what for one in contributing.private(said)}
    clean = contributing.scrubbed(said)
    assert contributing.private(clean) == []
    for piece in ("alice", "10.0.3.17", "0123456789abcdef0", "acme", "370:7334", "123456789012"):
        assert piece not in clean.lower()


@pytest.mark.parametrize("text", [
    "x / y / z", "W/P and Q/BW", "(M/TILE)/(N/TILE)", "a//b", "GB/s/core", "12:30:45", "x[::2]",
    "x[1::2]", "x[1024::2]", "x[2048:4096:2]", "read and/or write/both", "https://a.example/b/c",
    "src=bfloat16@0x37600[1,0,0][512,1,1] dst=0x2000000 128*128", "134,217,728 B", "134217728",
    "2026-08-21T12:30:00Z", "nki 0.6.0", "kernels.py:70", "DMA_DIRECT2D", "n_" + "0" * 40,
    "rows and summary do not agree in hbm_read_bytes", "NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1"])
def test_ordinary_text_is_left_alone(text):
    assert contributing.private(text) == []


@pytest.mark.parametrize("file", sorted(
    [*ROOT.glob("day*/kernels.py"), *ROOT.glob("casestudy/*.py")]), ids=lambda p: p.parent.name)
def test_the_courses_own_kernels_may_be_given(file):
    assert [one for line in file.read_text().splitlines()
            for one in contributing.private(line)] == []


def test_versions_are_no_addresses_unless_they_are_private_ones():
    assert contributing.private("2.31.24.0", version=True) == []
    assert contributing.private("2.31.24.0-0b044f4ce", version=True) == []
    assert contributing.private("2.31.24.0") != []
    assert contributing.private("10.0.3.17", version=True) != []


def test_names_of_this_machine_are_scrubbed(monkeypatch):
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: "zaphod")
    monkeypatch.setattr(contributing.platform, "node", lambda: "heartofgold.example")
    monkeypatch.setenv("HOME", "/nowhere/trillian")
    assert {"zaphod", "heartofgold", "trillian"} <= contributing.own_words()
    clean = contributing.scrubbed("Zaphod on heartofgold, not zaphodless",
                                  contributing.own_words())
    assert clean == "(left out) on (left out), not zaphodless"


def test_names_that_everybody_has_are_no_secret(monkeypatch):
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: "ubuntu")
    monkeypatch.setattr(contributing.platform, "node", lambda: "localhost")
    monkeypatch.setenv("HOME", "/root")
    assert contributing.own_words() == frozenset()


def secret(**more):
    """A profile with something private in every text that a profile has."""
    of = copied()
    rows = of.timeline.instructions
    many = "; ".join(text for _, text in PLANTED)
    lines = tuple("/home/alice/kernels.py:12" if line else "" for line in rows.lines)
    return replace(
        of, timeline=replace(of.timeline, instructions=replace(rows, lines=lines)),
        summary={**of.summary, "neff_path": "/home/alice/k.neff", "alice_home_dir": 7,
                 "note": many},
        metadata={"instance_type": "trn2.3xlarge", "explorer_version":
                  "2.31.24.0%kaena-tools/2.31@f1c114a", "hostname": "ip-10-0-3-17",
                  "s3_bucket_path": "s3://acme/x", "num_physical_cores": 1,
                  "tensor_engine_clock_freq": 2.4, "account": "123456789012"},
        tensors=(profile.Tensor("x_of_alice@host17", "IN", (128, 2048), Q // 2),),
        warnings=(many, "Missing HLO stats"), **more)


def given_texts(folder):
    return "\n".join(path.read_text() for path in sorted(folder.iterdir()))


def test_a_contribution_says_nothing_about_its_owner(book):
    of = keep(secret(), notes=["captured by alice@host17 in /home/alice"],
              runtime="2.31.24.0 on 10.0.3.17")
    place = contributing.contribute(of)
    assert place == book / "work" / "contributions" / of.name
    assert sorted(os.listdir(place)) == ["kernel.py", "profile.json", "recording.json"]
    text = given_texts(place)
    for _, planted in PLANTED:
        assert planted not in text
    for piece in ("alice", "acme", "kaena", "neff_path", "account", "bucket"):
        assert piece not in text.lower()
    assert "kernels.py:12" in text and "Missing HLO stats" in text
    assert contributing.accept(place) == []
    assert os.listdir(place.parent) == [of.name]  # no part is left


def test_hashes_are_of_the_new_files(book):
    of = keep(secret())
    back = store.load(contributing.contribute(of))
    for file, digest in back.files.items():
        assert hashlib.sha256((back.folder / file).read_bytes()).hexdigest() == digest
    assert set(back.files) == {"profile.json", "kernel.py"} and back.key == of.key


def modelled(name, chip, lnc, **how):
    """A launch of a day 4 kernel with a whole timeline: the model's, as if a profiler's."""
    kernels = nki.load(ROOT / "day4" / "kernels.py")
    shapes = {"copy": [((128, 2**13), "bf16")],
              "resident_matmul": [((256, 256), "bf16"), ((256, 1024), "bf16")]}[name]
    call = launch(getattr(kernels, name), *shapes, lnc=lnc, **how)
    run = call.counted(chip)
    of = neuroncore.predict(run, buffers=None).profile
    return call, run, replace(of, kind="measured")


@pytest.mark.parametrize(("name", "chip", "lnc", "how"), [
    ("copy", "trn1", 1, {"elements": 1024}), ("copy", "trn2", 2, {"elements": 1024}),
    ("resident_matmul", "trn2", 1, {"repeat": 2})])
def test_read_back_a_contribution_is_the_same_measurement(name, chip, lnc, how):
    call, run, of = modelled(name, chip, lnc, **how)
    instance = {"trn1": "trn1.2xlarge", "trn2": "trn2.3xlarge"}[chip]
    with store.part() as folder:
        profile.write(of, folder / "timeline.json")
        kept = store.save(folder, key=call.key(chip), kernel=call.file.read_bytes(), provenance={
            **SAID, "chip": chip, "instance": instance, "lnc": lnc, "kernel": call.name,
            "shapes": [list(shape) for shape, _ in call.shapes],
            "dtypes": [dtype for _, dtype in call.shapes], "parameters": dict(call.parameters)})
    back = store.load(contributing.contribute(kept)).profile
    was = kept.profile
    assert back.needs("total_time") == was.needs("total_time")
    for way in ("read", "write"):
        assert back.needs(f"hbm_{way}_bytes") == was.needs(f"hbm_{way}_bytes") == getattr(
            run.count, f"hbm_{way}_bytes")
    on = gaps.ledger(was, _machine(chip, lnc)), gaps.ledger(back, _machine(chip, lnc))
    assert [(row.cause, row.time) for row in on[0].rows] == [
        (row.cause, row.time) for row in on[1].rows] and on[0].rows
    assert on[0].t == on[1].t and on[0].t_best == on[1].t_best


def _machine(chip, lnc):
    from roofline import machine
    return machine.get(chip, "core" if lnc == 1 else "lnc2")


@pytest.mark.parametrize("file", ["trn2-lnc2-attn-fused-bf16-s512.full.json",
                                  "trn2-lnc2-attn-fused-fp32-s512.full.json"])
def test_a_real_capture_comes_through_and_its_paths_do_not(file):
    path = ROOT.parent / "shared/reference/real-profiles" / file
    if not path.exists():
        pytest.skip(f"../shared/reference/real-profiles/{file} is not here")
    with store.part() as folder:
        shutil.copy(path, folder / "timeline.json")
        said = {**SAID, "lnc": 2}
        kept = store.save(folder, key=key_for(said), kernel=KERNEL, provenance=said)
    place = contributing.contribute(kept)
    assert contributing.accept(place) == []
    was, back = kept.profile, store.load(place).profile
    assert was.count == back.count and was.needs("total_time") == back.needs("total_time")
    on = [gaps.ledger(of, _machine("trn2", 2)) for of in (was, back)]
    assert [(row.cause, row.time) for row in on[0].rows] == [
        (row.cause, row.time) for row in on[1].rows] and on[0].rows


def test_parquet_becomes_the_same_json(book):
    with store.part() as folder:
        profile.write(secret(), folder / "parquet", "parquet")
        kept = store.save(folder, key=KEY, provenance=SAID, kernel=KERNEL)
    place = contributing.contribute(kept)
    assert contributing.accept(place) == []
    assert store.load(place).profile.needs("hbm_read_bytes") == Q // 2


@pytest.mark.parametrize(("said", "why"), [
    ({"synthetic": True, "nki": "0.6.0+stand-in"}, "it is synthetic, and no device ran"),
    ({"instance": None}, "provenance lacks instance"),
    ({"instance": "my laptop"}, "expected one like trn2.3xlarge"),
    ({"instance": "trn1.2xlarge"}, "a trn1.2xlarge has no trn2"),
    ({"nki": None}, "provenance lacks nki"), ({"explorer": None}, "provenance lacks explorer"),
    ({"compiler": None}, "provenance lacks compiler"),
    ({"flags": [Flag("implausible", "too fast")]}, "it is flagged: implausible: too fast"),
    ({"flags": [Flag("cold", "first")]}, "it is flagged: cold: first"),
    ({"kernel": b"# /home/alice/x\ndef copy(x): ...\n"},
     "kernel.py, line 1: a path, /home/alice/x"),
    ({"parameters": {"tag": "alice@host17"}}, "the call: a name, alice@host17")])
def test_what_is_not_for_others(book, said, why):
    of = keep(**said)
    with pytest.raises(RecordingError, match="not for others") as error:
        contributing.contribute(of)
    assert why in str(error.value)
    assert not (book / "work/contributions").exists()
    assert len(store.recordings()) == 1  # one's own stays


def test_a_figure_above_spec_may_be_given():
    of = keep(flags=[Flag("above spec", "by a little")])
    assert store.load(contributing.contribute(of)).flags == of.flags


def test_it_is_never_written_over(book):
    of = keep()
    place = contributing.contribute(of, book / "mine")
    before = given_texts(place)
    with pytest.raises(RecordingError, match="is there already; it was left as it is"):
        contributing.contribute(of, book / "mine")
    assert given_texts(place) == before


def test_a_full_disk_leaves_no_half_contribution(book, monkeypatch):
    of = keep()

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(contributing.store, "seal", full)
    with pytest.raises(RecordingError, match=r"not written \(No space left on device\)"):
        contributing.contribute(of)
    assert os.listdir(book / "work/contributions") == []


def test_by_name_and_from_the_command_line(book, capsys):
    of = keep()
    assert contributing.main([]) == 1 and of.name in capsys.readouterr().out
    assert contributing.main([of.name]) == 0
    assert str(book / "work/contributions" / of.name) in capsys.readouterr().out
    assert contributing.main([of.name]) == 1 and "is there already" in capsys.readouterr().out
    assert contributing.main(["trn2-none"]) == 1
    assert f"no recording of this name; there are: {of.name}" in capsys.readouterr().out
    (of.folder / "log.txt").unlink()
    assert contributing.main([of.name]) == 1 and "log.txt: missing" in capsys.readouterr().out


def test_the_module_runs(book):
    of = keep()
    env = os.environ | {"PYTHONPATH": str(ROOT / "lib")}
    done = subprocess.run([sys.executable, "-m", "roofline.device.contributing", of.name],
                          capture_output=True, text=True, env=env, cwd=book)
    assert (done.returncode, done.stderr) == (0, "")
    assert contributing.accept(book / "work/contributions" / of.name) == []


# --- what comes in --------------------------------------------------------------------------------


def reseal(folder):
    """Make the hashes anew, as whoever changed a file could."""
    data = json.loads((folder / "recording.json").read_text())
    edit(folder, files={file: hashlib.sha256((folder / file).read_bytes()).hexdigest()
                        for file in data["files"]})


def change_profile(folder, change):
    """Change profile.json by hand, hashes and all; one table stays a line."""
    head, *rest = (folder / "profile.json").read_text().splitlines()
    document = json.loads("\n".join([head, *rest]))
    change(document)
    info = document.pop("profile_info")
    (folder / "profile.json").write_text(f'{{"profile_info": {json.dumps(info)},\n' + ",\n".join(
        f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in document.items()) + "}\n")
    reseal(folder)


@pytest.mark.parametrize("where", ["warnings", "summary", "metadata", "opcode", "line", "key"])
def test_what_is_planted_in_a_profile_is_found(where):
    place = contributing.contribute(keep(secret()))
    whole = (place / "profile.json").read_bytes()
    for _, text in PLANTED:
        planted = f"see {text}"
        (place / "profile.json").write_bytes(whole)
        change_profile(place, {
            "warnings": lambda d, t=planted: d["warnings"][0].update(message=t),
            "summary": lambda d, t=planted: d["summary"][0].update(note=t),
            "metadata": lambda d, t=planted: d["metadata"][0].update(neff=t),
            "opcode": lambda d, t=planted: d["instruction"][0].update(opcode=t),
            "line": lambda d, t=planted: d["instruction"][0].update(nki_source_location=t),
            "key": lambda d, t=planted: d["dma"][0].update({t: 1})}[where])
        said = [f"profile.json: {one.what}, {one.text}" for one in contributing.private(planted)]
        assert said and set(said) <= set(contributing.accept(place)), text


def test_what_is_planted_in_notes_the_call_or_the_source_is_found():
    place = contributing.contribute(keep())
    for _, text in PLANTED:
        edit_provenance(place, notes=[f"seen on {text}"])
        assert [one for one in contributing.accept(place) if one.startswith("recording.json: ")]
        edit_provenance(place, notes=..., parameters={"tag": text})
        assert [one for one in contributing.accept(place) if one.startswith("the call: ")]
        source = KERNEL + f"# {text}\n".encode()
        (place / "kernel.py").write_bytes(source)
        edit_provenance(place, parameters=SAID["parameters"],
                        kernel_sha256=hashlib.sha256(source).hexdigest())
        reseal(place)
        assert [one for one in contributing.accept(place) if one.startswith("kernel.py, line 3: ")]


@pytest.mark.parametrize("field", ["nki", "runtime", "framework", "execution", "schema", "python"])
def test_what_is_planted_in_a_version_is_found(field):
    place = contributing.contribute(keep())
    for text in ("/home/alice/x", "alice@host17", "10.0.3.17", "i-0123456789abcdef0"):
        edit_provenance(place, **{field: f"2.31 {text}"})
        assert [one for one in contributing.accept(place) if one.startswith("recording.json: ")]


@pytest.mark.parametrize("change", [
    lambda d: d["summary"][0].update(alices_column=7),
    lambda d: d["metadata"][0].update(serial=7),
    lambda d: d["instruction"][0].update(layer="a layer"),
    lambda d: d.update(model_info=[{"x": 1}]),
    lambda d: d["profile_info"][0].update(more=1)])
def test_unknown_columns_are_not_taken(change):
    place = contributing.contribute(keep(secret()))
    change_profile(place, change)
    assert any("profile.json: not as contribute() writes it" in one
               for one in contributing.accept(place))


def test_files_that_do_not_belong_are_not_taken(book):
    place = contributing.contribute(keep())
    (place / "kernel.neff").write_bytes(b"x")
    assert contributing.accept(place) == ["kernel.neff: not a file of a contribution"]
    (place / "kernel.neff").unlink()
    (place / ".notes").write_text("x")
    assert contributing.accept(place) == [".notes: not a file of a contribution"]
    (place / ".notes").unlink()
    (place / "kernel.py").rename(book / "elsewhere.py")
    assert contributing.accept(place) == ["kernel.py: missing, or a link"]
    (place / "kernel.py").symlink_to(book / "elsewhere.py")
    assert contributing.accept(place) == ["kernel.py: missing, or a link"]


# --- a kernel of several files --------------------------------------------------------------------

SEVERAL = {"kernel.py": b"from helper import copy\n", "sources/helper.py": KERNEL,
           "sources/parts/__init__.py": b""}


def keep_several(files=SEVERAL):
    """A recording of a kernel of these files, saved as a capture would."""
    said, whole = SAID, source_hash(digests_of(files))
    key = key_of(whole, said["kernel"], (((128, 2048), "bf16"),), said["parameters"], said["lnc"],
                 said["chip"])
    with store.part() as folder:
        profile.write(copied(), folder / "timeline.json")
        return store.save(folder, key=key, provenance=said, kernel=files)


def test_every_file_of_the_kernel_is_kept_and_given(book):
    of = keep_several()
    back = store.find(of.key)
    assert back.name == of.name
    place = contributing.contribute(back)
    for folder in (of.folder, place):
        assert {name: (folder / name).read_bytes() for name in SEVERAL} == SEVERAL
    assert contributing.accept(place) == []
    assert store.load(place).key == of.key
    assert {file for file in store.load(place).files if store.is_source(file)} == {*SEVERAL}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_file_of_the_kernel_that_is_another_is_no_recording(name):
    of = keep_several()
    (of.folder / name).write_bytes(b"other = 1\n")
    assert f"{name}: changed since it was saved" in problem()
    edit(of.folder, files={**of.files, name: hashlib.sha256(b"other = 1\n").hexdigest()})
    assert "is not the source that was run" in problem()


@pytest.mark.parametrize("name", ["kernel.py", "sources/helper.py"])
def test_a_file_of_the_kernel_that_is_left_out_is_no_recording(name):
    of = keep_several()
    (of.folder / name).unlink()
    assert f"{name}: missing" in problem()
    edit(of.folder, files={file: sha for file, sha in of.files.items() if file != name})
    assert "is not the source that was run" in problem()
    if name == "kernel.py":  # nor with a hash of what is left
        edit_provenance(of.folder, kernel_sha256=source_hash(
            {file: sha for file, sha in of.files.items() if file.startswith("sources/")}))
        assert "is not the source that was run" in problem()


def test_a_file_of_the_kernel_that_is_not_listed_is_no_recording():
    of = keep_several()
    (of.folder / "sources" / "more.py").write_text("x = 1\n")
    assert "sources: more.py is not one of its files" in problem()


def test_what_is_planted_in_a_helper_is_found_by_giver_and_receiver():
    for _, text in PLANTED:
        source = {**SEVERAL, "sources/helper.py": KERNEL + f"# {text}\n".encode()}
        with pytest.raises(RecordingError, match=r"sources/helper\.py, line 3: "):
            contributing.contribute(keep_several(source))
    place = contributing.contribute(keep_several())
    for _, text in PLANTED:
        (place / "sources" / "helper.py").write_bytes(KERNEL + f"# {text}\n".encode())
        reseal(place)
        digests = {name: hashlib.sha256((place / name).read_bytes()).hexdigest()
                   for name in SEVERAL}
        edit_provenance(place, kernel_sha256=source_hash(digests))
        assert [one for one in contributing.accept(place)
                if one.startswith("sources/helper.py, line 3: ")]


def test_a_name_in_the_name_of_a_helper_is_not_given(monkeypatch):
    monkeypatch.setattr(contributing.getpass, "getuser", lambda: "zaphod")
    with pytest.raises(RecordingError, match=r"sources/zaphod\.py: a name, zaphod"):
        contributing.contribute(keep_several({**SEVERAL, "sources/zaphod.py": b""}))


def test_helpers_that_do_not_belong_are_not_taken(book):
    place = contributing.contribute(keep_several())
    for name in ("sources/x.neff", "sources/.x.py", "sources/a b.py", "other/x.py"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("x")
        assert contributing.accept(place) == [f"{name}: not a file of a contribution"]
        (place / name).unlink()
    (place / "sources" / "more.py").write_text("x = 1\n")
    assert "sources: more.py is not one of its files" in contributing.accept(place)[0]
    (place / "sources" / "more.py").unlink()
    (place / "sources" / "helper.py").rename(book / "elsewhere.py")
    assert "sources/helper.py: missing" in contributing.accept(place)[0]
    (place / "sources" / "helper.py").symlink_to(book / "elsewhere.py")
    assert contributing.accept(place) == ["sources/helper.py: missing, or a link"]


def test_what_is_no_folder_is_not_taken(book):
    (book / "file").write_text("x")
    for path in (book / "file", book / "nowhere"):
        assert contributing.accept(path) == [
            f"{path.name}: expected a folder, as contribute() writes it"]
    (book / "link").symlink_to(contributing.contribute(keep()))
    assert "expected a folder" in contributing.accept(book / "link")[0]


def test_a_changed_or_cut_contribution_is_not_taken():
    place = contributing.contribute(keep())
    whole = (place / "profile.json").read_bytes()
    (place / "profile.json").write_bytes(whole[:-20])
    assert "changed since it was saved" in contributing.accept(place)[0]
    reseal(place)
    assert "expected JSON" in contributing.accept(place)[0]
    (place / "profile.json").write_bytes(whole)
    (place / "recording.json").write_text("{")
    assert "expected JSON" in contributing.accept(place)[0]


def test_a_synthetic_or_flagged_one_is_not_taken():
    place = contributing.contribute(keep())
    edit_provenance(place, synthetic=True)
    assert contributing.accept(place) == ["it is synthetic, and no device ran"]
    edit_provenance(place, synthetic=...)
    edit(place, flags=["implausible: too fast"])
    assert contributing.accept(place) == ["it is flagged: implausible: too fast"]


def test_the_receiver_checks_the_time_itself():
    """1,048,576 B at 435.2 GB/s take 2.409 us: the profile says 1 us, and no flag."""
    place = contributing.contribute(keep(copied(5e-6)))
    assert contributing.accept(place) == []
    fast = store.load(keep(copied(1e-6)).folder)
    with pytest.raises(RecordingError, match=r"profile\.json: implausible: 1 us is 0\.415 of"):
        contributing.contribute(fast)
    assert round(1e-6 / (Q / (16 * 27.2e9)), 3) == 0.415


def test_bytes_are_checked_where_the_work_is_unknown():
    fast = copied(1e-6, summary={"hbm_read_bytes": Q // 2, "hbm_write_bytes": Q // 2,
                                 "hardware_flops": 10**6, "transpose_flops": 0})
    with pytest.raises(profile.ProfileError, match="a dtype that the file does not tell"):
        fast.counted()
    with pytest.raises(RecordingError, match="implausible: 1 us"):
        contributing.contribute(keep(fast))


@pytest.mark.parametrize("other", [{"parameters": {"elements": 128}}, {"shapes": [[128, 4096]]},
                                   {"dtypes": ["fp32"]}, {"kernel": "read"}, {"lnc": 2}])
def test_another_call_than_the_keys_is_not_taken(other):
    place = contributing.contribute(keep())
    edit_provenance(place, **other)
    assert contributing.accept(place) == [
        "its key is not that of its source, shapes, parameters, LNC and chip"]


def test_a_profile_of_another_instance_is_not_taken():
    with pytest.raises(RecordingError, match=r"it ran on trn2.48xlarge, and provenance says "
                                             r"trn2.3xlarge"):
        contributing.contribute(keep(copied(metadata={"instance_type": "trn2.48xlarge"})))


# --- what the book ships --------------------------------------------------------------------------

SHIPPED = sorted(path for path in (ROOT / store.SHIPPED).glob("*") if path.is_dir())


def test_what_the_book_ships_is_acceptable():
    assert {path.name: contributing.accept(path) for path in SHIPPED} == {
        path.name: [] for path in SHIPPED}
