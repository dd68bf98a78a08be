"""roofline profile: clocks, counters, every printed figure again, and the count against them."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
import re
from pathlib import Path

import pytest
from captures import CALL, READ, ROWS, TOTAL, WRITTEN, Q, W, asked, capture, here, shell

from roofline import machine

P = 2 * 128 * 128 * 2.4e9  # FLOP/s of one core of trn2
STACK = machine.get("trn2", "device").facts["hbm_stack_bandwidth"].value
REAL = Path(__file__).parents[2] / "shared" / "reference" / "real-profiles"
# What Neuron Profile prints of this capture, by its own formulas.
PRINTED = {"mm_arithmetic_intensity": W / Q, "peak_flops_bandwidth_ratio": P / STACK,
           "mfu_inst_estimated_percent": W / P / (TOTAL * 1e-9),
           "mbu_estimated_percent": Q / (TOTAL * 1e-9) / STACK}

told, refused = asked("profile")


@pytest.fixture(autouse=True)
def printed(here):
    capture(here / "p.json", summary=PRINTED)


def figures(data):
    return {row["name"]: row for row in data["figures"]}


# --- what the file says ---------------------------------------------------------------------------


def test_clocks_and_counters(shell):
    code, data = told(shell, "p.json")
    assert code == 0 and data["kind"] == "measured" and data["chip"] == "trn2"
    assert data["clocks"]["total"]["s"] == pytest.approx(TOTAL * 1e-9)
    assert data["clocks"]["execution"]["s"] is None and data["clocks"]["execution"]["includes"]
    assert (data["flops"], data["hbm_bytes"]) == (W, Q) and data["intensity"] == W / Q
    assert data["ridge_bf16"] == pytest.approx(P / 375e9)


def test_text_explains_the_ratio_and_each_clock(shell):
    code, out, _ = shell("profile", "p.json")
    assert code == 0
    for words in ("5 us", "from the start notice to the stop notice", "unknown",
                  "one core's peak over a whole HBM stack, which 2 cores share",
                  "ridge of Trainium2, one NeuronCore-v3 is 209.7 FLOP/B", "to all digits"):
        assert words in out


def test_figures_are_computed_again(shell):
    _, data = told(shell, "p.json")
    assert data["agree"]
    for name, printed in PRINTED.items():
        assert figures(data)[name]["agrees"], name
        assert figures(data)[name]["recomputed"] == pytest.approx(printed)


def test_a_figure_that_does_not_follow_is_no(tmp_path, shell):
    capture(tmp_path / "odd.json", summary={**PRINTED, "mbu_estimated_percent": 0.5})
    code, data = told(shell, "odd.json")
    assert code == 1 and figures(data)["mbu_estimated_percent"]["agrees"] is False
    assert any("not had again: mbu_estimated_percent" in note for note in data["notes"])


def test_a_percentage_of_a_hundred_has_its_reason(tmp_path, shell):
    mbu = PRINTED["mbu_estimated_percent"]
    capture(tmp_path / "ui.json", summary={**PRINTED, "mbu_estimated_percent": 100 * mbu})
    code, data = told(shell, "ui.json")
    assert code == 0 and "0..100" in figures(data)["mbu_estimated_percent"]["reasons"][0]


def test_rows_that_are_not_those_of_the_summary_are_no(tmp_path, shell):
    capture(tmp_path / "less.json", rows={"matmuls": ROWS["matmuls"][:-1]}, summary=PRINTED)
    code, data = told(shell, "less.json")
    assert code == 1 and figures(data)["hardware_flops"]["recomputed"] == W * 7 // 8


def test_a_summary_alone(tmp_path, shell):
    (tmp_path / "s.json").write_text(json.dumps({"n_" + "0" * 40: {
        "total_time": TOTAL * 1e-9, "hardware_flops": W, "transpose_flops": 0,
        "hbm_read_bytes": READ, "hbm_write_bytes": WRITTEN, "instance_type": "trn2.made"}}))
    code, out, _ = shell("profile", "s.json", "--save=s.html")
    assert code == 0
    assert "no timeline: the summary alone" in out and "file has none" in out


def test_one_of_several_sessions(tmp_path, shell):
    one, other = ({"total_time": t, "instance_type": "trn2.made"} for t in (1e-6, 2e-6))
    keys = "n_" + "0" * 40, "n_" + "1" * 40
    (tmp_path / "s.json").write_text(json.dumps(dict(zip(keys, (one, other), strict=True))))
    assert keys[1] in refused(shell, "s.json")
    _, data = told(shell, "s.json", f"--session={keys[1]}")
    assert data["clocks"]["total"]["s"] == 2e-6
    assert "expected a session" in refused(shell, "s.json", "--session=n_9")


def test_an_unknown_chip_is_said(tmp_path, shell):
    (tmp_path / "s.json").write_text(json.dumps({"n_" + "0" * 40: {"total_time": 1e-6}}))
    _, data = told(shell, "s.json", "--chip=trn1")
    assert data["chip"] is None and data["machine"].startswith("Trainium1")
    assert any("not in the file" in note for note in data["notes"])


# --- against a count ------------------------------------------------------------------------------


def test_the_kernels_own_count(shell):
    code, data = told(shell, "p.json", *CALL)
    found = data["comparison"]
    assert data["subject"].startswith("product (a 128x128 bf16")
    assert code == 0 and found["explained"] and found["by"] == "W and Q by the source"
    assert found["code"] == {"flops": W, "read": READ, "written": WRITTEN}
    assert found["profiler"] == found["code"]
    assert all(not any(of.values()) for of in found["causes"].values())


def test_transposes_are_a_cause(tmp_path, shell):
    """Two more matmuls, 128 columns each, that only turn a tile."""
    turned = 2 * 2 * 128 * 128 * 128
    more = [(3704 + 60 * i, 3764 + 60 * i, {"N": 128, "transpose": True}) for i in range(2)]
    capture(tmp_path / "t.json", rows={"matmuls": [*ROWS["matmuls"], *more]},
            summary={"hardware_flops": W + turned, "transpose_flops": turned})
    code, data = told(shell, "t.json", *CALL)
    assert code == 0 and data["flops"] == W
    assert data["comparison"]["causes"]["transposes"] == {
        "flops": turned, "read": 0, "written": 0}


def test_a_hand_count_says_no_way(shell):
    """Its bytes are compared as a whole: as many are taken as written as the profiler has."""
    code, data = told(shell, "p.json", f"--flops={W}", f"--bytes={Q}")
    assert code == 0 and data["comparison"]["explained"]
    code, data = told(shell, "p.json", f"--flops={W}", f"--bytes={READ}")  # c forgotten
    assert code == 1 and data["comparison"]["causes"]["unexplained"] == {
        "flops": 0, "read": WRITTEN, "written": 0}
    assert any("no cause here" in note for note in data["notes"])


def test_a_pair_that_did_all_of_it_twice(tmp_path, shell):
    """Each core has all of the rows: the hand counts them once, with the call or without."""
    both = {kind: [*some, *((a, b, {**(more[0] if more else {}), "core": 1})
                            for a, b, *more in some)] for kind, some in ROWS.items()}
    capture(tmp_path / "dbl.json", rows=both, cores=2, summary={
        "hardware_flops": 2 * W, "hbm_read_bytes": 2 * READ, "hbm_write_bytes": 2 * WRITTEN})
    mine = (f"--flops={W}", f"--bytes={Q}", "--lnc=2")
    for call, ends in (((), 0), ((*CALL, "times=16"), 1)):  # there hand and source differ
        code, data = told(shell, "dbl.json", *call, *mine)
        causes = data["comparison"]["causes"]
        assert code == ends and data["comparison"]["explained"]
        assert causes["LNC doubling"] == {"flops": W, "read": READ, "written": WRITTEN}
    assert not any("no cause here" in note for note in data["notes"])


def test_a_hand_count_that_agrees_knows_the_tensors(shell):
    """A compiled kernel that loads b once, where the source says twice: only a Run can tell."""
    call = ("product.py:twice", *CALL[1:])
    for more in ((), (f"--flops={W}", f"--bytes={Q + 2 * 128 * 512}")):
        code, data = told(shell, "p.json", *call, *more)
        causes = data["comparison"]["causes"]
        assert code == 0 and causes["reload saved by the compiler"]["read"] == -2 * 128 * 512


def test_another_call_is_no(shell):
    code, data = told(shell, "p.json", *CALL, "times=4")
    assert code == 1 and data["comparison"]["causes"]["unexplained"]["flops"] == W // 2


def test_what_a_summary_lacks_is_not_compared(tmp_path, shell):
    """The profiler of 2025 leaves out FLOPs that are 0; absent is unknown."""
    (tmp_path / "s.json").write_text(json.dumps({"n_" + "0" * 40: {
        "total_time": 1e-6, "hbm_read_bytes": 1, "hbm_write_bytes": 1}}))
    code, data = told(shell, "s.json", "--flops=0", "--bytes=2")
    assert code == 1 and "comparison" not in data and data["clocks"]["total"]["s"] == 1e-6
    assert any(note.startswith("not compared") for note in data["notes"])


def test_a_count_without_bytes_has_no_finite_intensity(shell):
    code, out, _ = shell("profile", "p.json", f"--flops={W}", "--bytes=0")
    assert code == 1 and " inf\n" in out


def test_a_hand_count_is_whole(shell):
    assert "--bytes without --flops" in refused(shell, "p.json", f"--bytes={Q}")
    assert "--flops without --bytes" in refused(shell, "p.json", f"--flops={W}")


@pytest.mark.skipif(not REAL.is_dir(), reason="no real profile here")
def test_a_real_capture(shell):
    """Attention, S = 512, d = 128: q, k, v, o in bf16; the second product runs in fp32."""
    S, d = 512, 128
    code, data = told(shell, str(REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"),
                      f"--flops={2 * S * S * d}", f"--flops=fp32:{2 * S * S * d}",
                      f"--bytes={4 * S * d * 2}")
    assert code == 0 and data["agree"] and data["cores"] == 2 and data["scope"] == "core"
    causes = data["comparison"]["causes"]
    assert causes["fp32 passes"]["flops"] == 2 * S * S * d  # each of two passes counts
    assert causes["constants"]["read"] == 128 * 128 * (2 + 4)  # an identity of each dtype
    assert figures(data)["peak_flops_bandwidth_ratio"]["printed"] == pytest.approx(P / STACK)


@pytest.mark.skipif(not REAL.is_dir(), reason="no real profile here")
def test_every_real_file_is_read(shell):
    for path in sorted(REAL.glob("*.json")):
        code, out, err = shell("profile", str(path))
        if path.name == "trn1-nkibench-summary-fields.json":  # a list of several, in a frame
            assert code == 2 and "list of 7 records" in err
        else:
            assert code == 0 and "includes" in out


def test_the_call_may_come_first(shell):
    (_, one), (_, two) = (told(shell, *args) for args in (("p.json", *CALL), (*CALL, "p.json")))
    assert one == two


# --- files ----------------------------------------------------------------------------------------


def test_files(shell):
    _, data = told(shell, "p.json", "--save=f.csv", "--save=f.json", "--save=f.txt",
                   "--save=f.html")
    with open("f.csv", newline="") as file:
        table = {row["figure"]: row for row in csv.DictReader(file)}
    assert float(table["mm_arithmetic_intensity"]["printed"]) == W / Q
    assert table["mm_arithmetic_intensity"]["agrees"] == "yes"
    assert json.loads(Path("f.json").read_text()) == data
    page = Path("f.html").read_text()
    assert "rl-timeline" in page and "to all digits" in page + Path("f.txt").read_text()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\((?!#|["'`]?#)""", page)


def test_a_comparison_as_table_sums(shell):
    assert shell("profile", "p.json", f"--flops={W}", f"--bytes={READ}", "--save=c.csv")[0] == 1
    with open("c.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["what"] == "code" and rows[-1]["what"] == "profiler"
    for column in ("flops", "hbm_read_bytes", "hbm_write_bytes"):
        assert sum(int(row[column]) for row in rows[:-1]) == int(rows[-1][column])


def test_there_is_no_picture(shell):
    assert "this answer is saved as" in refused(shell, "p.json", "--save=p.svg")


def test_warnings_stay_text(tmp_path, shell):
    text = (tmp_path / "p.json").read_text()
    document = json.loads(text)
    document["warnings"] = [{"message": "<img src=x onerror=alert(1)>\x1b[31m", "category": "X"}]
    (tmp_path / "w.json").write_text(json.dumps(document))
    code, out, _ = shell("profile", "w.json", "--save=w.html")
    assert code == 0
    assert "<img src=x" in out and "\x1b" not in out
    assert "<img" not in Path("w.html").read_text()


# --- bad and missing ------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "says"), [
    ((), "required: PROFILE python -m"),
    (("nowhere.json",), "nowhere.json: no such file"),
    (("notes.txt",), "expected JSON"),
    (CALL, "needs a profile, and product.py:product is a call"),
    (("Matmul", "M=8", "K=8", "N=8"), "needs a profile"),
    (("tables",), "tables"),
    (("foreign.json",), "expected a profile"),
    (("cut.json",), "cut.json"),
    (("p.json", "--session=n_1"), "no sessions"),
    (("p.json", "--chip=inf2"), "--chip=inf2 is another chip"),
    (("p.json", "Matmul", "M=0"), "M"),
    (("p.json", "other.py:product"), "other.py"),
])
def test_what_cannot_be_used_is_said(args, says, tmp_path, shell):
    (tmp_path / "tables").mkdir()
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "foreign.json").write_text('{"rows": []}')
    text = (tmp_path / "p.json").read_text()
    (tmp_path / "cut.json").write_text(text[:len(text) // 2])
    assert says in refused(shell, *args)


def test_a_damaged_recording_is_said(tmp_path, shell):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "recording.json").write_text("{}")
    for name in ("kept", "kept/recording.json"):
        assert "kept/recording.json" in refused(shell, name)
