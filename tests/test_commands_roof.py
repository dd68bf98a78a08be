"""roofline roof: count, entitlement, picture; with a profile the point, MFU and the ledger."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
import re
from pathlib import Path

import pytest
from captures import (
    CALL,
    COPIED,
    COPY,
    READ,
    TOTAL,
    WRITTEN,
    Q,
    W,
    asked,
    capture,
    here,
    shell,
    write_kernel,
)
from recordings import book, record
from timelines import timeline

from roofline import machine, nki
from roofline.device import launch, store
from roofline.device.plausibility import Flag

P, BW = 2 * 128 * 128 * 2.4e9, 3e12 / 8  # one core of trn2: bf16, and its share of 3 TB/s

told, refused = asked("roof")


# --- count and entitlement ------------------------------------------------------------------------


def test_a_kernel_is_counted_and_entitled(shell):
    code, data = told(shell, *CALL, "--chip=trn2")
    assert (code, data["flops"], data["hbm_bytes"]) == (0, W, Q)
    assert (data["work_by"], data["bytes_by"]) == ("the source", "the source")
    assert data["intensity"] == W / Q and data["ridge"] == pytest.approx(P / BW)
    assert data["times"] == {"compute": pytest.approx(W / P), "HBM": pytest.approx(Q / BW)}
    assert data["t_best"] == pytest.approx(W / P) and data["binds"] == "compute"
    assert data["t_worst"] == pytest.approx(W / P + Q / BW)
    assert data["rate"] == pytest.approx(P)
    roofs = data["roofs"]
    assert roofs["P bf16"]["value"] == P and roofs["BW HBM"]["value"] == BW
    assert all(roof["kind"] in machine.KINDS and roof["source"] for roof in roofs.values())


def test_hand_counts_need_no_call(shell):
    """The fused MLP of Day 5: B = 2048, D = 1024, F = 4096, bf16."""
    W_, Q_ = 4 * 2048 * 1024 * 4096, 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
    code, data = told(shell, "--flops=4*2048*1024*4096",
                      "--bytes=2*(2*2048*1024 + 2*1024*4096)", "--chip=trn2")
    assert code == 0 and data["work_by"] == "your hand"
    assert (data["flops"], data["hbm_bytes"]) == (W_, Q_)
    assert data["t_best"] == pytest.approx(W_ / P)
    assert data["t_worst"] == pytest.approx(W_ / P + Q_ / BW)


def test_another_chip_has_other_roofs(shell):
    _, data = told(shell, "Matmul", "M=256", "K=256", "N=256", "dtype=bf16", "--chip=trn1")
    Q_ = 2 * 3 * 256 * 256
    assert data["t_best"] == pytest.approx(Q_ / (820e9 / 2))  # 820 GB/s of two cores: memory
    assert data["ridge"] == pytest.approx(2 * 128 * 128 * 2.8e9 / 410e9)
    code, text, _ = shell("roof", "Matmul", "M=256", "K=256", "N=256", "dtype=bf16", "--chip=trn1")
    assert code == 0  # its DMA engines carry less than its HBM share
    assert "T DMA" in text and "272 GB/s" in text and "by the formula" in text


def test_a_pair_has_both_roofs_twice(shell):
    alone, pair = (told(shell, f"--flops={W}", f"--bytes={Q}", "--chip=trn2", *more)[1]
                   for more in ((), ("--lnc=2",)))
    assert pair["scope"] == "lnc2" and pair["ridge"] == pytest.approx(alone["ridge"])
    assert pair["t_best"] == pytest.approx(alone["t_best"] / 2)


def test_dtypes_each_take_their_own_time(shell):
    code, data = told(shell, "--flops=2**30", "--flops=fp32:2**30", "--bytes=2**20",
                      "--chip=trn2", "--save=mix.svg")
    compute = 2**30 / P + 2**30 / (P / 4)
    assert code == 0 and data["times"]["compute"] == pytest.approx(compute)
    assert data["ridge"] == pytest.approx(2 * 2**30 / compute / BW)
    assert any("the mix" in note for note in data["notes"])
    assert "bf16+fp32 peak" in Path("mix.svg").read_text()


def test_the_hand_goes_before_the_source_each_by_itself(shell):
    code, data = told(shell, *CALL, f"--bytes=a:{2 * 128 * 128}", f"--bytes=b:{2 * 128 * 512}")
    assert (data["flops"], data["work_by"]) == (W, "the source")
    assert (data["hbm_bytes"], data["bytes_by"]) == (READ, "your hand")  # c forgotten
    assert code == 1 and f"the source has {Q:,} B" in " ".join(data["notes"])
    code, data = told(shell, *CALL, f"--flops={W}", f"--bytes={Q}")
    assert code == 0 and data["intensity"] == W / Q
    code, data = told(shell, *CALL, f"--flops={W // 2}")
    assert code == 1 and data["flops"] == W // 2


def test_bandwidth_of_ones_own(shell):
    _, data = told(shell, f"--flops={W}", f"--bytes={Q}", "--chip=trn2", "--bw=397 GB/s")
    roof = data["roofs"]["BW HBM"]
    assert roof["value"] == 397e9 and roof["kind"] == "assumed"
    assert data["times"]["HBM"] == pytest.approx(Q / 397e9)
    assert BW in [one["value"] for one in data["others"] if one["roof"] == "BW HBM"]


@pytest.mark.parametrize(("I", "says"), [
    (180, "not so with BW HBM 500 GB/s"),     # ridge 157 there, 210 at 375 GB/s
    (20, "left of the ridge: memory binds; so it is with the other figures too"),
    (900, "right of the ridge: compute binds; so it is with the other figures too"),
    (215, "right of the ridge: compute binds; not so with BW HBM 362.5 GB/s"),  # ridge 217
])
def test_rivals_are_named_where_they_turn_the_verdict(I, says, shell):
    code, text, _ = shell("roof", f"--flops={I * 10**6}", "--bytes=10**6", "--chip=trn2")
    assert code == 0 and says in " ".join(text.split())


# --- the picture ----------------------------------------------------------------------------------

_LINE = re.compile(r'<path d="M ([\d.]+) ([\d.]+) L ([\d.]+) ([\d.]+) " style="([^"]*)"')


def drops(svg):
    """(x, from, to, dashed) of each vertical line in the colour of what ran."""
    colour = re.search(r"stroke: (#\w+); stroke-width: 1.3", svg)[1]
    return [(float(x), float(y), float(y2), "dasharray" in style)
            for x, y, x2, y2, style in _LINE.findall(svg)
            if x == x2 and f"stroke: {colour}" in style and y != y2]


def test_the_point_lies_right_below_its_entitlement(shell):
    assert shell("roof", *CALL, "--profile=p.json", "--save=r.svg", "--save=r.png")[0] == 0
    svg = Path("r.svg").read_text()
    [(x, top, bottom, dashed)] = drops(svg)
    assert top < bottom and not dashed  # one line, from the roof down
    assert "product, 34 %" in svg and "measured" in svg  # 1706.7 of 5000.4 ns
    assert Path("r.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    # Marks are closed paths: the entitled dot and the measured diamond are centred on x.
    marks = [[float(n) for n in re.findall(r"[\d.]+", path)[::2]] for path in
             re.findall(r'<path d="([^"]*z )"', svg)]
    assert sum(abs((min(xs) + max(xs)) / 2 - x) < 0.11 for xs in marks) >= 2


def test_other_bytes_of_the_profiler_are_a_hollow_mark(shell):
    _, data = told(shell, f"--flops={W}", f"--bytes={READ}", "--profile=p.json", "--save=r.svg")
    ran = data["ran"]
    assert data["intensity"] == W / READ and ran["hbm_bytes"] == Q
    assert ran["at_its_bytes"]["intensity"] == W / Q
    assert ran["at_its_bytes"]["t_best"] == pytest.approx(max(W / P, Q / BW))
    svg = Path("r.svg").read_text()
    (right, *_, solid), (left, *_, hollow) = sorted(drops(svg), reverse=True)
    assert left < right and (solid, hollow) == (False, True)  # more bytes, less intensity
    assert "hollow: I by the profile" in svg
    assert any(f"+{WRITTEN:,} B against Q by your hand" in note for note in data["notes"])


def test_a_kernel_without_flops_has_times_only(shell):
    code, data = told(shell, *COPY, "--chip=trn2")
    assert (code, data["flops"], data["hbm_bytes"]) == (0, 0, COPIED)
    assert data["t_best"] == data["t_worst"] == pytest.approx(COPIED / BW)
    assert data["ridge"] is None and "no place on a roofline" in " ".join(data["notes"])
    says = refused(shell, *COPY, "--save=c.svg")
    assert "without FLOPs has no intensity" in says and not Path("c.svg").exists()
    assert shell("roof", *COPY, "--save=c.html", "--save=c.csv")[0] == 0


def test_without_flops_a_profile_gives_a_ladder_in_time(tmp_path, shell):
    capture(tmp_path / "c.json", rows={"matmuls": (), "weights": ()},
            summary={"hardware_flops": 0})
    code, data = told(shell, f"--bytes={Q}", "--profile=c.json", "--save=c.svg")
    assert code == 0 and data["ledger"]["roof"] == "memory" and data["ran"]["mfu"] is None
    assert "Time after each cause" in Path("c.svg").read_text()
    assert sum(row["ns"] for row in data["ledger"]["rows"]) == pytest.approx(
        TOTAL - 1e9 * Q / BW)


def test_no_bytes_no_place(shell):
    assert "moves no byte over HBM" in refused(shell, "--flops=8", "--bytes=0", "--save=x.png")
    assert "nothing to time" in refused(shell, "--bytes=0")


# --- a profile ------------------------------------------------------------------------------------


def test_time_rate_and_mfu_are_of_the_profile(shell):
    code, data = told(shell, *CALL, "--profile=p.json")
    ran, t = data["ran"], TOTAL / 1e9
    assert code == 0 and ran["kind"] == "measured" and ran["t"] == pytest.approx(t)
    assert ran["rate"] == pytest.approx(W / t) and ran["mfu"] == pytest.approx(W / t / P)
    assert ran["of_entitled"] == pytest.approx(W / P / t) and ran["at_its_bytes"] is None
    ledger = data["ledger"]
    assert ledger["gap"] == pytest.approx(TOTAL - 1e9 * W / P)
    assert sum(row["ns"] for row in ledger["rows"]) == pytest.approx(ledger["gap"])
    starts = {row["cause"]: row["stretches"] for row in ledger["rows"]}
    assert starts["start"] == [[0, 0, 400]] and starts["fill"] == [[0, 400, 1900]]
    code, text, _ = shell("roof", *CALL, "--profile=p.json")
    assert code == 0
    assert "MFU" in text and "0-400" in text and "T = gap + T_best" in text


def test_memory_bound_has_no_mfu(shell):
    _, data = told(shell, f"--flops={W}", f"--bytes={3 * Q}", "--profile=p.json")
    assert data["binds"] == "HBM" and data["ran"]["mfu"] is None


def test_modelled_says_so(shell):
    assert shell("predict", *CALL, "--write=m.json")[0] == 0
    code, data = told(shell, *CALL, "--profile=m.json", "--save=m.svg")
    assert code == 0 and data["ran"]["kind"] == "modelled"
    assert "modelled" in Path("m.svg").read_text()
    assert "measured" not in Path("m.svg").read_text()


def test_a_summary_gives_a_point_and_says_why_no_ledger(tmp_path, shell):
    (tmp_path / "s.json").write_text(json.dumps({"n_" + "0" * 40: {
        "total_time": TOTAL / 1e9, "hardware_flops": W, "transpose_flops": 0,
        "hbm_read_bytes": READ, "hbm_write_bytes": WRITTEN, "instance_type": "trn2.made"}}))
    code, data = told(shell, *CALL, "--profile=s.json", "--save=s.svg", "--save=s.html")
    assert code == 0 and data["ledger"] is None
    assert data["ran"]["mfu"] == pytest.approx(W / (TOTAL / 1e9) / P)
    notes = " ".join(data["notes"])
    assert "summary alone" in notes and "--output-format json or parquet" in notes
    assert len(drops(Path("s.svg").read_text())) == 1


def test_a_core_of_a_pair_that_worked_alone_is_a_core(tmp_path, shell):
    """A capture of LNC=2 lists two cores, and nothing ran on the other."""
    capture(tmp_path / "p2.json", cores=2)
    code, data = told(shell, *CALL, "--profile=p2.json")
    assert code == 0 and data["scope"] == "core"
    assert data["t_best"] * 1e9 == pytest.approx(data["ledger"]["t_best"]) == pytest.approx(
        1e9 * W / P)
    assert any("one of them worked" in note for note in data["notes"])
    code, data = told(shell, *CALL, "--profile=p2.json", "--lnc=2")
    assert code == 1 and any("different scopes" in note for note in data["notes"])


def test_too_fast_is_flagged(tmp_path, shell):
    code, data = told(shell, f"--flops={4 * W}", f"--bytes={Q}", "--profile=p.json")
    assert code == 1 and data["ran"]["flags"][0].startswith("implausible")  # 6.8 us in 5
    code, text, _ = shell("roof", f"--flops={4 * W}", f"--bytes={Q}", "--profile=p.json")
    assert code == 1 and "flag: implausible" in text


def test_another_kernel_is_noticed(shell):
    code, data = told(shell, *CALL, "times=4", "--profile=p.json")
    assert code == 1 and data["flops"] == W // 2
    assert any(f"+{W // 2:,} FLOP" in note for note in data["notes"])
    code, data = told(shell, f"--flops=fp32:{W}", f"--bytes={Q}", "--profile=p.json")
    assert code == 1 and any("multiplies in bf16" in note for note in data["notes"])


def test_a_recording_is_a_profile_with_flags(book, shell):
    kernel = nki.load(write_kernel(book)).copy
    call = launch(kernel, ((256, 1024), "bf16"))
    made = record(call, "trn2", timeline(packets=[(1000, 4000, {"nbytes": COPIED})]),
                  read=COPIED // 2, written=COPIED // 2, total=5000,
                  flags=[Flag("cold", "the first execution")])
    folder = str(store.home() / made.name)
    code, data = told(shell, *COPY, f"--profile={folder}")
    assert code == 1 and data["ran"]["flags"] == ["cold: the first execution"]
    assert data["ran"]["recorded"].startswith("synthetic")
    assert "recording of copy" in refused(shell, *CALL, f"--profile={folder}")
    other = (COPY[0], "x=512x1024:bf16")
    assert "256x1024" in refused(shell, *other, f"--profile={folder}")
    write_kernel(book).write_text(write_kernel(book).read_text() + "\n# edited\n")
    _, data = told(shell, *COPY, f"--profile={folder}/recording.json")
    assert any("source is another" in note for note in data["notes"])


# --- files ----------------------------------------------------------------------------------------


def test_files_hold_the_same(shell):
    _, data = told(shell, *CALL, "--profile=p.json", "--save=r.json", "--save=r.csv",
                   "--save=r.txt", "--save=r.html")
    assert json.loads(Path("r.json").read_text()) == data
    with open("r.csv", newline="") as file:
        rows = {row["what"]: row for row in csv.DictReader(file)}
    assert float(rows["W bf16"]["value"]) == W and float(rows["Q"]["value"]) == Q
    assert float(rows["T"]["value"]) == data["ran"]["t"] and rows["T"]["kind"] == "measured"
    gap = sum(float(row["value"]) for what, row in rows.items() if what.startswith("gap: "))
    assert gap + data["t_best"] == pytest.approx(TOTAL / 1e9)
    assert "T_best" in Path("r.txt").read_text()
    page = Path("r.html").read_text()
    assert "<svg" in page and "rl-timeline" in page and "T = gap + T_best" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//|@import|url\((?!#|["'`]?#)""", page)


def test_names_stay_text(tmp_path, shell):
    capture(tmp_path / "<img src=x onerror=alert(1)>.json")
    args = [*CALL, "--profile=<img src=x onerror=alert(1)>.json", "--save=r.html", "--save=r.svg"]
    assert shell("roof", *args)[0] == 0
    assert "<img" not in Path("r.html").read_text() + Path("r.svg").read_text()


# --- bad and missing ------------------------------------------------------------------------------


@pytest.mark.parametrize(("args", "says"), [
    ((), "Give a kernel's call, an op, or --flops and --bytes"),
    (("--flops=8",), "--flops without --bytes"),
    (("--flops=8", "--bytes=x:fish"), "--bytes x:fish"),
    (("--flops=8", "--bytes=4", "--bw=397"), "in which unit"),
    (("--flops=8", "--bytes=4", "--bw=397 TFLOPS"), "expected a bandwidth"),
    (("--flops=8", "--bytes=4", "--bw=0 GB/s"), "above 0"),
    (("--flops=8", "--bytes=4", "--bw=fish"), "no number"),
    ((*CALL, "--profile=nowhere.json"), "nowhere.json: no such file"),
    ((*CALL, "--profile=product.py"), "expected JSON"),
    ((*CALL, "--profile=p.json", "--session=n_1"), "no sessions"),
    ((*CALL, "--profile=p.json", "--chip=trn1"), "--chip=trn1 is another chip"),
    (("gone.py:product",), "gone.py"),
    (("product.py:gone", "a=128x128:bf16"), "gone"),
    (("--flops=fp32:8", "--bytes=4", "--profile=p.json", "--lnc=3"), "invalid choice"),
])
def test_what_cannot_be_used_is_said(args, says, shell):
    assert says in refused(shell, *args)


def test_an_earlier_file_outlives_an_error(tmp_path, shell):
    (tmp_path / "r.svg").write_text("mine")
    refused(shell, *CALL, "--profile=nowhere.json", "--save=r.svg")
    assert (tmp_path / "r.svg").read_text() == "mine"
