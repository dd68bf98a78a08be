"""roofline roof: count, entitlement, picture; with a profile the point, MFU and the ledger."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
import math
import re
from pathlib import Path

import pytest
from captures import (
    CALL,
    COPIED,
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
    write_kernel,
)
from recordings import book, record
from timelines import timeline

from roofline import machine, nki, units
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


# --- work of other engines ------------------------------------------------------------------------

R, D_ = 512, 1024
NO_MATMUL = {  # call -> elements of its largest tensor, Q, FLOPs of its formula
    ("Softmax", f"rows={R}", f"D={D_}"): (R * D_, 4 * 2 * R * D_, 5 * R * D_),
    ("Softmax", f"rows={R}", f"D={D_}", "dtype=bf16"): (R * D_, 2 * 2 * R * D_, 5 * R * D_),
    ("RMSNorm", f"rows={R}", f"D={D_}"): (R * D_, 4 * (2 * R * D_ + D_), 4 * R * D_),
    ("LayerNorm", f"rows={R}", f"D={D_}"): (R * D_, 4 * (2 * R * D_ + 2 * D_), 7 * R * D_),
    ("Add", f"n={R}"): (R, 4 * 3 * R, R),
    ("Dot", f"n={R}"): (R, 4 * 2 * R, 2 * R),
    ("SpMV", f"rows={R}", f"nonzeros={4 * R}"): (4 * R, 4 * (8 * R + R + 1 + 2 * R), 8 * R),
}
VECTOR = {"dtype=bf16": 512 * 0.96e9, "": 256 * 0.96e9}  # elements a second, one core of trn2
SCALAR = 128 * 1.2e9


@pytest.mark.parametrize("call", NO_MATMUL, ids=" ".join)
def test_an_op_without_matmuls_has_no_compute_roof(call, shell):
    """The fourth common mistake: the Tensor Engine's P is no roof of a Vector Engine's work."""
    elements, traffic, formula = NO_MATMUL[call]
    code, data = told(shell, *call, "--chip=trn2")
    assert (code, data["flops"], data["work"]) == (0, 0, {})
    assert sum(data["other_work"].values()) == formula and data["hbm_bytes"] == traffic
    assert data["times"]["compute"] == 0 and [*data["roofs"]] == ["BW HBM"]
    assert data["t_best"] == data["t_worst"] == pytest.approx(traffic / BW)
    vector, scalar = data["engines"]
    assert vector["value"] == pytest.approx(VECTOR["dtype=bf16" if "dtype=bf16" in call else ""])
    assert scalar["value"] == pytest.approx(SCALAR)
    for engine in (vector, scalar):
        assert engine["elements"] == elements
        assert engine["pass"] == pytest.approx(elements / engine["value"])
    code, text, _ = shell("roof", *call, "--chip=trn2")
    flat = " ".join(text.split())
    assert code == 0 and "no compute roof" in flat and "TFLOP/s" not in flat
    assert "T compute" not in flat and "ridge" not in flat and "at least; not in T_best" in flat
    most = units.significant(traffic / BW / vector["pass"], 3)
    assert f"no more than {most} passes on the Vector Engine" in flat


def test_every_op_is_on_one_side():
    """A new op without matmuls has to be told apart from the others."""
    from roofline import ops
    from roofline.commands import calls, matched
    known = {name for name in ops.__all__ if calls._is_op(getattr(ops, name))}
    matmuls = {"Matmul", "Linear", "MLP", "SwiGLU", "Attention", "DecodeAttention",
               "LatentDecodeAttention", "MoE"}
    assert known == matmuls | {kind.__name__ for kind in matched._NO_MATMUL}


def test_a_hand_count_of_it_agrees_with_either(shell):
    call = ("Softmax", f"rows={R}", f"D={D_}", "--chip=trn2")
    for flops in (0, 5 * R * D_):
        code, data = told(shell, *call, f"--flops={flops}")
        assert (code, data["flops"]) == (0, 0)
    code, data = told(shell, *call, "--flops=7")
    assert (code, data["flops"]) == (1, 0) and any("your W is 7" in one for one in data["notes"])


def test_activations_beside_matmuls_are_no_work_of_the_tensor_engine(shell):
    sizes = ("MLP", "B=256", "D=512", "F=1024")
    _, plain = told(shell, *sizes)
    code, data = told(shell, *sizes, "activation_flops=9")
    assert (code, data["work"]) == (0, {"bf16": 4 * 256 * 512 * 1024})
    assert data["other_work"] == {"bf16": 9 * 256 * 1024}
    assert data["t_best"] == plain["t_best"] and not plain["other_work"]


def test_a_kernel_without_matmuls_names_the_other_engines(shell):
    code, text, _ = shell("roof", *COPY, "--chip=trn2")
    flat = " ".join(text.split())
    assert code == 0 and "another engine may be the roof" in flat
    assert "Vector Engine 491.5 Gelement/s" in flat and "Scalar Engine 153.6 Gelement/s" in flat
    assert "elements of a pass, times the passes, over the rate" in flat


def test_a_collective_has_the_link_for_a_roof(shell):
    """All-reduce between two chips: each sends 2 (c - 1) / c of n, reads n and writes n, bf16."""
    n, link = 10**6, 1280e9
    code, data = told(shell, "AllReduce", f"n={n}", "--chip=trn2")
    assert (code, data["scope"], data["binds"]) == (0, "device", "link")
    assert data["times"]["link"] == data["t_best"] == pytest.approx(2 * n / link)
    assert data["times"]["HBM"] == pytest.approx(4 * n / 3e12) and data["times"]["compute"] == 0
    assert data["roofs"]["BW link"]["value"] == link and data["link_bytes"] == 2 * n
    text = " ".join(shell("roof", "AllReduce", f"n={n}", "--chip=trn2")[1].split())
    assert "the link to other chips binds" in text and "all 4 links together" in text
    _, data = told(shell, "AllGather", f"n={n}", "--chip=trn1")  # p n / 2 sent, 384 GB/s
    assert data["times"]["link"] == pytest.approx(n / 384e9) and data["binds"] == "HBM"


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
    assert data["dma"] == pytest.approx(Q_ / 272e9) and data["dma"] > data["t_best"]


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
    assert "hollow: at the bytes moved" in svg
    assert any(f"+{WRITTEN:,} B against Q by your hand" in note for note in data["notes"])


def test_no_bytes_moved_are_no_mark_and_not_as_counted(tmp_path, shell):
    capture(tmp_path / "n.json", summary={"hbm_read_bytes": 0, "hbm_write_bytes": 0})
    own = (f"--flops={W}", f"--bytes={Q}", "--profile=n.json")
    assert told(shell, *own)[1]["ran"]["at_its_bytes"] is None
    out = shell("roof", *own)[1]
    assert "by the profiler; so it has no mark" in out and "as counted" not in out
    assert "by the profiler; as counted" in shell("roof", *own[:2], "--profile=p.json")[1]


def test_passes_of_fp32_are_no_hollow_mark(tmp_path, shell):
    """The profiler prints twice the intensity, since each pass counts; the same bytes moved."""
    rows = [(*row[:2], {"dtype": "fp32", "passes": 2}) for row in ROWS["matmuls"]]
    capture(tmp_path / "f.json", rows={"matmuls": rows})
    own = (f"--flops=fp32:{W // 2}", f"--bytes={Q}", "--profile=f.json")
    code, data = told(shell, *own, "--save=r.svg")
    assert code == 0 and data["ran"]["at_its_bytes"] is None
    svg = Path("r.svg").read_text()
    assert len(drops(svg)) == 1 and "hollow" not in svg
    [note] = [note for note in data["notes"] if "the profiler prints an intensity" in note]
    for I in (W / Q, W / 2 / Q):
        assert units.show(I, "FLOP/B", 4) in note
    assert f"{W // 2:,} of its are further passes of fp32 matmuls" in note
    _, out, _ = shell("profile", "f.json", *own[:2])
    assert "the profiler prints an intensity" in out
    _, data = told(shell, f"--flops=fp32:{W // 2}", f"--bytes={READ}", "--profile=f.json")
    assert data["ran"]["at_its_bytes"]["intensity"] == W / 2 / Q  # hand W, bytes moved


def test_a_kernel_without_flops_has_times_only(shell):
    code, data = told(shell, *COPY, "--chip=trn2")
    assert (code, data["flops"], data["hbm_bytes"]) == (0, 0, COPIED)
    assert data["t_best"] == data["t_worst"] == pytest.approx(COPIED / BW)
    assert data["ridge"] is None and "no place on a roofline" in " ".join(data["notes"])
    says = refused(shell, *COPY, "--save=c.svg")
    assert "without FLOPs has no intensity" in says and not Path("c.svg").exists()
    assert ".html" in says
    assert shell("roof", *COPY, "--save=c.html", "--save=c.csv")[0] == 0


def test_without_flops_a_profile_gives_a_ladder_in_time(tmp_path, shell):
    capture(tmp_path / "c.json", rows={"matmuls": (), "weights": ()},
            summary={"hardware_flops": 0})
    code, data = told(shell, f"--bytes={Q}", "--profile=c.json", "--save=c.svg")
    assert code == 0 and data["ledger"]["roof"] == "memory" and data["ran"]["mfu"] is None
    assert "Time after each cause" in Path("c.svg").read_text()
    assert sum(row["time"] for row in data["ledger"]["rows"]) == pytest.approx(
        TOTAL / 1e9 - Q / BW)


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
    assert ledger["gap"] == pytest.approx(TOTAL / 1e9 - W / P)
    assert sum(row["time"] for row in ledger["rows"]) == pytest.approx(ledger["gap"])
    starts = {row["cause"]: row["stretches_ns"] for row in ledger["rows"]}
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
    code, data = told(shell, f"--flops={W}", f"--bytes={math.ceil(1.1 * BW * data['ran']['t'])}",
                      "--profile=m.json")  # faster than HBM, as 16 x 27.2 GB/s may be
    own = f"--bw='{16 * 27.2:.1f} GB/s' is the model's own roof"
    assert any(own in note for note in data["notes"])
    assert not any("clock" in note for note in data["notes"])
    assert "measured" not in Path("m.svg").read_text()
    _, text, _ = shell("roof", *CALL, "--profile=m.json")
    assert "modelled, total time of the profile" in text and "measured" not in text
    _, text, _ = shell("roof", *CALL, "--profile=p.json")
    assert "measured, total time of the profile" in text and "modelled" not in text


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
    assert data["t_best"] == pytest.approx(data["ledger"]["t_best"]) == pytest.approx(W / P)
    assert any("one of them worked" in note for note in data["notes"])
    code, data = told(shell, *CALL, "--profile=p2.json", "--lnc=2")
    assert code == 1 and any("different scopes" in note for note in data["notes"])
    own = (f"--flops={W}", f"--bytes={Q}", "--profile=p2.json")  # of which nothing else differs
    assert told(shell, *own)[0] == 0
    code, data = told(shell, *own, "--lnc=2")
    assert code == 1 and any("different scopes" in note for note in data["notes"])
    assert not any("the call is for" in note for note in data["notes"])


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
    [kept] = [name for name in store.PROFILES if (store.home() / made.name / name).exists()]
    assert told(shell, *COPY, f"--profile={folder}/{kept}")[1]["ran"] == data["ran"]
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
    (("AllReduce", "n=1024", "--profile=p.json"), "a collective is of whole chips, and a profile"),
    (("AllReduce", "n=1024", "--lnc=2"), "a collective is of whole chips, and --lnc"),
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
