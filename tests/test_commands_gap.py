"""roofline gap: rows that sum to T - T_best, where each lies, by line, by window, by change."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
import re
from pathlib import Path

import pytest
from captures import (
    CALL,
    COPY,
    READ,
    ROWS,
    TOTAL,
    WRITTEN,
    Q,
    W,
    asked,
    capture,
    here,
    shell,
)

from roofline import gaps

P, BW, NS = 2 * 128 * 128 * 2.4e9, 375e9, 1e-9  # FLOP/s and B/s of one core of trn2
REAL = Path(__file__).parents[2] / "shared" / "reference" / "real-profiles"

told, refused = asked("gap")


def text(shell, *args):
    code, out, err = shell("gap", *args)
    assert code == 0, err
    return out


def rows(data):
    return {row["cause"]: row for row in data["rows"]}


# --- the rows -------------------------------------------------------------------------------------


def test_rows_and_t_best_are_t(shell):
    """Eight matmuls of 213 ns from 2,000 ns; the first DMA at 400, the last packet to 4,568."""
    code, data = told(shell, "p.json", *CALL)
    assert code == 0 and data["roof"] == "compute" and data["count_by"].endswith("the source")
    assert data["subject"].startswith("product (a 128x128 bf16")
    assert data["t"] == pytest.approx(TOTAL * NS) and data["t_best"] == pytest.approx(W / P)
    assert sum(row["time"] for row in data["rows"]) == pytest.approx(TOTAL * NS - W / P)
    found = rows(data)
    for cause, start, end in (("start", 0, 400), ("fill", 400, 1900)):
        assert found[cause]["time"] == pytest.approx((end - start) * NS)
        assert found[cause]["stretches_ns"] == [[0, start, end]]
    assert found["tail"]["stretches_ns"] == [[0, 2000 + 8 * 213, 4100 + 10 * 31 + 158]]
    assert found["pipeline"]["time"] == pytest.approx(8 * 213 * NS - W / P)  # signed
    assert found["rounding"]["time"] == pytest.approx((TOTAL - 5000) * NS)
    assert found["fill"]["share"] == pytest.approx(1500 * NS / (TOTAL * NS - W / P))
    assert all(row["what"] and row["try"] for row in data["rows"])


def test_text_shows_the_sum_and_the_places(shell):
    out = text(shell, "p.json", *CALL)
    assert "400-1,900" in out and "fill" in out and "try" in out
    assert re.search(r"3\.294 us +gap, the sum of the rows\n +1\.707 us +T_best\n +5 us +T =", out)


def test_t_best_is_of_the_hand_the_call_or_the_profile(shell):
    own, call, mine = (told(shell, "p.json", *more)[1] for more in (
        (), CALL, (f"--flops={W // 2}", f"--bytes={Q}")))
    assert own["count_by"] == "the profile" and own["t_best"] == pytest.approx(W / P)
    assert call["t_best"] == own["t_best"]
    assert mine["t_best"] == pytest.approx(max(W / 2 / P, Q / BW))
    assert rows(mine)["uncounted work" if mine["roof"] == "compute" else "extra bytes"]


def test_the_roof_can_be_named(shell):
    _, data = told(shell, "p.json", *CALL, "--roof=memory")
    assert data["roof"] == "memory" and data["t_best"] == pytest.approx(Q / BW)
    assert sum(row["time"] for row in data["rows"]) == pytest.approx(TOTAL * NS - Q / BW)


def test_another_kernel_is_noticed(shell):
    code, data = told(shell, "p.json", *CALL, "times=2")
    assert code == 1 and any(f"+{W * 3 // 4:,} FLOP" in note for note in data["notes"])
    code, data = told(shell, "p.json", f"--flops={8 * W}", f"--bytes={Q}")  # 13.7 us in 5
    assert code == 1 and any("T_best is above T" in note for note in data["notes"])


def test_a_window_has_its_own_t_best(shell):
    """2,000 to 2,852 ns: four matmuls in 852 ns."""
    _, data = told(shell, "p.json", *CALL, "--window=2000:2852")
    assert data["window_ns"] == [2000, 2852] and data["t"] == pytest.approx(852 * NS)
    assert data["t_best"] == pytest.approx(W / 2 / P) and data["count_by"] == "the profile"
    assert any("whole run" in note for note in data["notes"])
    _, data = told(shell, "p.json", "--window=2,000:2,852", f"--flops={W // 4}", "--bytes=0")
    assert data["t_best"] == pytest.approx(W / 4 / P) and data["count_by"].endswith("your hand")
    parts = [told(shell, "p.json", f"--window={a}:{b}")[1] for a, b in
             ((0, 2852), (2852, 5000))]
    whole = told(shell, "p.json")[1]
    assert sum(part["gap"] for part in parts) == pytest.approx(whole["gap"] - 0.4 * NS)


def test_a_count_of_the_whole_run_is_no_count_of_a_window(shell):
    """In call.txt the hand count is the whole run's; of a window only another one can be."""
    whole = (*CALL, f"--flops={W}", f"--bytes={Q}")
    code, data = told(shell, "p.json", *whole, "--window=1900:2852")
    assert (code, data["count_by"]) == (0, "the profile")
    assert data["t_best"] == pytest.approx(W / 2 / P)
    assert any("call's count is of the whole run" in note for note in data["notes"])
    part = (*CALL, f"--flops={W // 2}", "--bytes=0")  # it differs from the source's, as it must
    code, data = told(shell, "p.json", *part, "--window=1900:2852")
    assert (code, data["count_by"]) == (0, "W and Q by your hand") and not data["notes"]
    assert data["t_best"] == pytest.approx(W / 2 / P)
    part = "--window=1900:2852"
    out = " ".join(text(shell, "p.json", *CALL, part).split())
    assert "binds the whole run, compute" in out and "--roof=memory takes the other" in out
    assert "binds the whole run" not in text(shell, "p.json", part, "--roof=memory")
    assert "cut at the same ns, 1,900 to 2,852" in " ".join(
        text(shell, "p.json", part, "--against=p.json").split())
    out = text(shell, "p.json", "--window=1900:2852")
    assert "W of its matmuls, Q of all its DMA packets" in " ".join(out.split())


CHIP = [(1000 + i, 2000 + i, {"nbytes": 65536}) for i in range(64)]  # SBUF to SBUF, 4 MiB


def test_without_a_call_Q_is_what_crossed_HBM(tmp_path, shell):
    """Packets on chip are DMA traffic and no Q: 4 MiB of them would take 11.2 us at HBM's rate."""
    capture(tmp_path / "chip.json", rows={"packets": [*ROWS["packets"], *CHIP]})
    _, data = told(shell, "chip.json")
    assert (data["hbm_bytes"], data["work"]) == (Q, {"bf16": W})
    assert (data["roof"], data["t_best"]) == ("compute", pytest.approx(W / P))
    assert data["t_best"] == pytest.approx(told(shell, "chip.json", *CALL)[1]["t_best"])
    out = text(shell, "chip.json")
    assert "W and Q by the profiler's counters" in " ".join(out.split())
    _, data = told(shell, "p.json", "--against=chip.json")
    assert data["against"]["hbm_bytes"] == Q and data["against"]["t_best"] == pytest.approx(W / P)
    _, data = told(shell, "chip.json", "--window=500:4990")  # the run's roof is the window's
    assert data["roof"] == "compute"


def test_an_fp32_matmul_counts_once_without_a_call(tmp_path, shell):
    """The profiler counts both passes of it; W has it once, at the rate of fp32: P / 4."""
    rows = [(*row[:2], {"dtype": "fp32", "passes": 2}) for row in ROWS["matmuls"]]
    capture(tmp_path / "f.json", rows={"matmuls": rows})
    _, data = told(shell, "f.json")
    assert data["work"] == {"fp32": W // 2} and data["t_best"] == pytest.approx(W / 2 / (P / 4))


def test_where_counters_are_missing_the_rows_count(tmp_path, shell):
    kept = json.loads((tmp_path / "p.json").read_text())
    [summary] = kept["summary"]
    del summary["hbm_read_bytes"]
    (tmp_path / "less.json").write_text(json.dumps(kept))
    _, data = told(shell, "less.json")
    assert data["hbm_bytes"] == Q and data["t_best"] == pytest.approx(W / P)
    assert any("from SBUF to SBUF too" in note for note in data["notes"])


def test_flops_without_instructions_are_refused(tmp_path, shell):
    """roof refuses it, too: nothing tells what the Tensor Engine did."""
    capture(tmp_path / "bare.json", rows={kind: () for kind in ROWS if kind != "packets"})
    assert f"its summary has {W:,} FLOP and the file no instructions" in refused(shell, "bare.json")
    code, data = told(shell, "bare.json", f"--flops={W}", f"--bytes={Q}", "--roof=memory")
    assert code == 0 and data["t_best"] == pytest.approx(Q / BW)


def test_another_number_of_cores_is_no(tmp_path, shell):
    """All counts agree, and one core of the capture's two worked: only the scope is wrong."""
    capture(tmp_path / "p2.json", cores=2)
    own = (f"--flops={W}", f"--bytes={Q}")
    assert told(shell, "p2.json", *own)[0] == 0
    code, data = told(shell, "p2.json", *own, "--lnc=2")
    assert code == 1 and any("different scopes" in note for note in data["notes"])
    assert any(note.startswith("--lnc=2 asks for 2 physical") for note in data["notes"])


@pytest.mark.parametrize(("first", "other", "advice"), [
    ("p.json", "m.json", "Capture the old code, or hold a prediction of the new one against it"),
    ("m.json", "p.json", "Predict the old code with --write")])
def test_kinds_that_differ_are_said_with_what_helps(first, other, advice, shell):
    assert shell("predict", *CALL, "--write=m.json")[0] == 0
    code, data = told(shell, first, f"--against={other}", "--save=d.csv")
    assert code == 0
    [note] = [note for note in data["notes"] if "the model's error" in note]
    assert f"{advice} to see the change alone" in note
    with open("d.csv", newline="") as file:
        [kinds] = {(row["before_kind"], row["after_kind"]) for row in csv.DictReader(file)}
    assert kinds == (data["against"]["kind"], data["kind"])


def test_by_source_line(shell):
    out = text(shell, "p.json", *CALL, "--lines")
    assert "product.py:18" in out and "(no line)" in out and "gap, the sum of the lines" in out
    _, data = told(shell, "p.json", *CALL, "--lines", "--save=l.csv")
    total = sum(s for causes in data["lines"].values() for s in causes.values())
    assert total == pytest.approx(TOTAL * NS - W / P)
    with open("l.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert sum(float(row["time_s"]) for row in table) == pytest.approx(TOTAL * NS - W / P)


def test_without_lines_it_says_so(tmp_path, shell):
    capture(tmp_path / "n.json", rows={"matmuls": [row[:2] for row in ROWS["matmuls"]]})
    _, data = told(shell, "n.json", "--lines")
    assert any("names no source lines" in note for note in data["notes"])


def test_against_an_earlier_profile(tmp_path, shell):
    """The same, 1,000 ns later from the first DMA on: start takes 1,000 ns more, all else stays."""
    late = {kind: [(a + 1000, b + 1000, *more) for a, b, *more in some]
            for kind, some in ROWS.items()}
    capture(tmp_path / "late.json", rows={**late, "control": [(5999, 6000)]}, total=TOTAL + 1000)
    code, data = told(shell, "p.json", *CALL, "--against=late.json", "--save=d.csv")
    assert code == 0 and data["t"] - data["against"]["t"] == pytest.approx(-1e-6)
    assert data["change"]["start"] == pytest.approx(-1e-6)
    assert data["t_best"] == data["against"]["t_best"]
    with open("d.csv", newline="") as file:
        table = {row["cause"]: row for row in csv.DictReader(file)}
    assert float(table["start"]["before_s"]) == pytest.approx(1400 * NS)
    assert float(table["start"]["after_s"]) == pytest.approx(400 * NS)
    assert sum(float(row["change_s"]) for row in table.values()) == pytest.approx(-1e-6)
    out = text(shell, "p.json", *CALL, "--against=late.json")
    assert "late.json -> p.json" in out and "-1 us  start" in out
    assert "+0 s" not in out and re.search(r" 0 s  T_best", out)


def test_a_kernel_without_flops(tmp_path, shell):
    capture(tmp_path / "c.json", rows={"matmuls": (), "weights": ()},
            summary={"hardware_flops": 0})
    code, data = told(shell, "c.json", "--flops=0", f"--bytes={Q}", "--save=c.svg")
    assert (code, data["roof"], data["work"]) == (0, "memory", {})
    assert data["t_best"] == pytest.approx(Q / BW) and Path("c.svg").stat().st_size
    for more in ((), ("--flops=0", f"--bytes={Q}"), ("--window=400:4000",)):
        says = refused(shell, "c.json", *more, "--roof=compute")
        assert "no compute roof: the Tensor Engine has no work. Leave --roof out" in says
    assert "takes the other" not in text(shell, "c.json", "--window=400:4000")


def test_a_pair_is_the_mean_of_its_cores(tmp_path, shell):
    both = {kind: [*some, *((a, b, {**(more[0] if more else {}), "core": 1})
                            for a, b, *more in some)] for kind, some in ROWS.items()}
    capture(tmp_path / "p2.json", rows=both, cores=2, summary={
        "hardware_flops": 2 * W, "hbm_read_bytes": 2 * READ, "hbm_write_bytes": 2 * WRITTEN})
    code, data = told(shell, "p2.json")
    assert (code, data["working"], data["scope"]) == (0, [0, 1], "lnc2")
    assert data["t_best"] == pytest.approx(W / P)  # twice the work on twice the peak
    out = text(shell, "p2.json")
    assert "mean of cores 0 and 1" in out and "0: 0-400, 1: 0-400" in out


def test_the_call_may_come_first(shell):
    (_, one), (_, two) = (told(shell, *args) for args in (("p.json", *CALL), (*CALL, "p.json")))
    assert one == two


# --- files ----------------------------------------------------------------------------------------


def test_csv_sums_to_the_gap_and_has_each_stretch(shell):
    _, data = told(shell, "p.json", *CALL, "--save=g.csv", "--save=g.json", "--save=g.txt")
    with open("g.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == [
        "cause", "kind", "time_s", "share", "core", "start_ns", "end_ns"]
    assert {row["kind"] for row in table} == {"measured"}
    causes = [row for row in table if row["time_s"]]
    assert sum(float(row["time_s"]) for row in causes) == pytest.approx(data["gap"])
    assert sum(float(row["share"]) for row in causes) == pytest.approx(1)
    places = [[row["cause"], *map(int, (row["core"], row["start_ns"], row["end_ns"]))]
              for row in table if not row["time_s"]]
    assert places == [[row["cause"], *one] for row in data["rows"] for one in row["stretches_ns"]]
    assert json.loads(Path("g.json").read_text()) == data
    assert "T = gap + T_best" in Path("g.txt").read_text()


def test_picture_and_page(shell):
    assert shell("gap", "p.json", *CALL, "--save=g.svg", "--save=g.png", "--save=g.html")[0] == 0
    assert "fill 1.5 us" in Path("g.svg").read_text()
    assert Path("g.png").read_bytes()[:4] == b"\x89PNG"
    page = Path("g.html").read_text()
    assert "rl-timeline" in page and "the sum of the rows" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\((?!#|["'`]?#)""", page)


def test_names_and_lines_stay_text(tmp_path, shell):
    evil = "<script>alert(1)<script>"
    capture(tmp_path / f"{evil}.json", rows={"matmuls": [
        (*row[:2], {"line": f"{evil}:1"}) for row in ROWS["matmuls"]]})
    assert shell("gap", f"{evil}.json", "--lines", "--save=g.html")[0] == 0
    assert "<script>alert" not in Path("g.html").read_text()
    assert "&lt;script&gt;alert" in Path("g.html").read_text()


# --- bad and missing ------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "says"), [
    ((), "required: PROFILE python -m"),
    (("nowhere.json",), "nowhere.json: no such file"),
    (("notes.txt",), "expected JSON"),
    (CALL, "needs a profile, and product.py:product is a call"),
    (("Matmul", "M=8", "K=8", "N=8"), "needs a profile"),
    (("tables",), "tables"),
    (("p.json", "--window=5"), "expected T0:T1"),
    (("p.json", "--window=a:b"), "expected T0:T1"),
    (("p.json", "--window=0.5:1e3"), "expected T0:T1"),
    (("p.json", "--window=30:20"), "Give the earlier moment first"),
    (("p.json", "--window=0:5003"), "end of the timeline"),
    (("p.json", "--window=" + "9" * 30 + ":" + "9" * 31), "expected T0:T1"),
    (("p.json", "--roof=cache"), "invalid choice"),
    (("p.json", "--lines", "--against=p.json"), "not allowed with"),
    (("p.json", "--against=nowhere.json"), "nowhere.json: no such file"),
    (("p.json", "--against=notes.txt"), "a profile such as before.json that `capture --write`"),
    (("p.json", "--against=notes.txt"), "place of its own, as @notes.txt"),
    (("p.json", "--chip=trn1"), "--chip=trn1 is another chip"),
    (("p.json", "--flops=8"), "--flops without --bytes"),
    (("p.json", "product.py:product"), "missing"),
    (("p.json", "product.py:product", "a=128x128:bf16", "b=256x512:bf16"), ""),
])
def test_what_cannot_be_used_is_said(args, says, tmp_path, shell):
    (tmp_path / "tables").mkdir()
    (tmp_path / "notes.txt").write_text("none")
    assert says in refused(shell, *args)


def test_a_summary_has_no_gap(tmp_path, shell):
    (tmp_path / "s.json").write_text(json.dumps({
        "n_" + "0" * 40: {"total_time": 5e-6, "instance_type": "trn2.made"}}))
    assert "a summary has no timeline" in refused(shell, "s.json")


def test_damaged_files(tmp_path, shell):
    data = (tmp_path / "p.json").read_text()
    (tmp_path / "cut.json").write_text(data[:len(data) // 2])
    assert "cut.json" in refused(shell, "cut.json")
    capture(tmp_path / "idle.json", rows={kind: () for kind in ROWS})
    assert "no core did any work" in refused(shell, "idle.json")
    capture(tmp_path / "gpu.json", instance="xyz9.large")
    assert "xyz9" in refused(shell, "gpu.json")


def test_parquet_says_the_same(tmp_path, shell):
    pytest.importorskip("pyarrow")
    capture(tmp_path / "p.parquet", format="parquet")
    (_, one), (_, two) = (told(shell, name, *CALL) for name in ("p.json", "p.parquet"))
    assert one["rows"] == two["rows"] and two["format"] == "parquet"


@pytest.mark.skipif(not REAL.is_dir(), reason="no real profile here")
def test_a_real_capture(shell):
    """A published capture of attention in bf16, S = 512, d = 128; its second product is fp32."""
    S, d, p1 = 512, 128, P
    code, data = told(shell, str(REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"),
                      f"--flops={2 * S * S * d}", f"--flops=fp32:{2 * S * S * d}",
                      f"--bytes={4 * S * d * 2}")
    assert code == 0 and data["scope"] == "core" and data["kind"] == "measured"
    assert data["t_best"] == pytest.approx(2 * S * S * d / p1 * (1 + 4))
    assert sum(row["time"] for row in data["rows"]) + data["t_best"] == pytest.approx(36.351609e-6)
    found = rows(data)
    assert found["start"]["stretches_ns"] == [[0, 0, 13704]]
    assert found["transposes"]["stretches_ns"] == [[0, 17234, 17819], [0, 22573, 26042]]
    assert set(found) <= set(gaps.CAUSES)


def test_a_copy_of_ones_own(shell):
    """Modelled: the memory roof, and rows that sum; its kind is said."""
    assert shell("predict", *COPY, "--write=c.json")[0] == 0
    code, data = told(shell, "c.json", *COPY)
    assert (code, data["kind"], data["roof"]) == (0, "modelled", "memory")
    for more in ((), ("--lines",)):
        assert shell("gap", "c.json", *more, "--save=c.csv")[0] == 0
        with open("c.csv", newline="") as file:
            assert {row["kind"] for row in csv.DictReader(file)} == {"modelled"}
    assert shell("gap", "c.json", *COPY, "--save=c.svg")[0] == 0  # the longest name of a cause
    assert "engines against the roof" in rows(data)
    assert "engines against the roof</" in Path("c.svg").read_text()
    assert sum(row["time"] for row in data["rows"]) == pytest.approx(data["t"] - data["t_best"])
