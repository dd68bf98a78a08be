"""Day 7's SwiGLU page: hand counts are the code's, at other sizes too, and its verdicts follow.

What the page says of a profile is printed by cells. So they are executed here, with other widths
and with other profiles than those it ships with; no prose may know what they will say.
"""

import dataclasses
import functools
import re
from types import SimpleNamespace
from typing import Any

import captures
import nbformat
import pytest
from pages import ROOT, cell_text
from test_capstone import execute

from roofline import device, gaps, machine, neuroncore, nki, ops, profile
from roofline.count import Count

PAGE = ROOT / "day7" / "swiglu.ipynb"
ALL = nbformat.read(PAGE, 4).cells
CELLS = [cell for cell in ALL if cell.cell_type == "code"]
STORED = {cell.id: cell_text(cell) for cell in CELLS}
B, D, F, P, FP32 = 2048, 1024, 3072, 2, 4
MIB = 2**20


@pytest.fixture(autouse=True)
def beside_the_page(monkeypatch):
    monkeypatch.chdir(PAGE.parent)


def upto(last: str, given: dict[str, str] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """Names and texts after the cells up to `last`, with other sources for some."""
    end = next(i for i, one in enumerate(CELLS) if one.id == last)
    assert set(given or {}) <= {one.id for one in CELLS}
    return execute(CELLS[:end + 1], {}, given or {})


@functools.cache
def ended() -> tuple[dict[str, Any], dict[str, str]]:
    """The page's names at its end, and what its cells told."""
    return execute(CELLS, {}, {})


def whole() -> dict[str, Any]:
    """The page's names at its end."""
    return ended()[0]


def sized(tokens: int, width: int, inner: int) -> dict[str, str]:
    """The cell of the shapes, with others."""
    [cell] = [one.source for one in CELLS if one.id == "the-shapes"]
    assert "2048, card.D, card.F, 2" in cell
    return {"the-shapes": cell.replace("2048, card.D, card.F, 2", f"{tokens}, {width}, {inner}, 2")}


# --- hand = code ---------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [128, 256, 512])
@pytest.mark.parametrize(("tokens", "width", "inner"), [
    (B, D, F), (512, 512, 128), (1024, 512, 640), (1536, 1536, 256)])
def test_swiglu_counts_what_its_shapes_say(tokens, width, inner, block):
    file = nki.load("kernels.py")
    shapes = [((width, tokens), "bf16"), *[((width, inner), "bf16")] * 2, ((inner, width), "bf16")]
    run = nki.run(file.swiglu, *shapes, target="inf2", data=False, block=block)
    by_hand = Count({"bf16": 6 * tokens * width * inner},
                    P * (tokens * width + 3 * width * inner), P * tokens * width)
    assert run.count == by_hand == ops.SwiGLU(tokens, width, inner).algorithmic
    gate_and_up = 2 * (width // 128) * (inner // 128) * (tokens // block)
    down = (inner // 128) * (width // 512) * (tokens // 128)
    assert sum(row.instructions for row in run.matmuls) == gate_and_up + down
    assert run.sbuf_peak_bytes <= 24 * MIB and run.psum_peak_banks <= 8


@pytest.mark.parametrize(("dtype", "p"), [("fp32", FP32), ("bf16", P)])
@pytest.mark.parametrize(("tokens", "width", "inner", "block"), [
    (4096, D, F, 512), (4096, D, F, 128), (1024, 512, 512, 256), (512, 2048, 1024, 256)])
def test_streamed_counts_what_its_shapes_say(tokens, width, inner, block, dtype, p):
    file = nki.load("kernels.py")
    shapes = [((width, tokens), dtype), *[((width, inner), dtype)] * 2, ((inner, width), dtype)]
    run = nki.run(file.swiglu_streamed, *shapes, target="inf2", data=False, block=block)
    weights = tokens // block * 3 * width * inner
    assert run.count == Count({dtype: 6 * tokens * width * inner},
                              p * (tokens * width + weights), p * tokens * width)
    assert run.sbuf_peak_bytes <= 24 * MIB
    assert run.psum_peak_banks == max(block // 128 * (width // 512), 2)


@pytest.mark.parametrize("shapes", [(512, 512, 512), (1024, 512, 1536)], ids=str)
def test_the_pages_tables_are_the_codes_at_other_widths(shapes):
    names, told = upto("streamed-code", sized(*shapes))
    tokens, width, inner = shapes
    for id in ("code-count", "change-counted", "streamed-code"):
        assert told[id].startswith("hand = code: True"), id
    assert names["hand"].hbm_bytes == P * (2 * tokens * width + 3 * width * inner)
    assert names["nest"] == names["hand"] == names["op"].algorithmic
    assert names["flow_hand"].hbm_bytes == FP32 * (2 * 4096 * width + 8 * 3 * width * inner)


def test_the_stored_numbers():
    """Each from the shapes: Qwen3-0.6B's MLP, 2048 tokens in bf16, 4096 in fp32."""
    W, Q = 6 * B * D * F, P * (2 * B * D + 3 * D * F)
    assert (W, Q) == (38_654_705_664, 27_262_976)
    assert f"{Q:,} B" in STORED["hand-table"] and f"{W:,}" in STORED["four-table"]
    assert "19 MiB by hand, of 24 MiB" in STORED["hand-resident"]  # 18 MiB, and 128 (D + F) p
    rate, link = 128 * 128 * 2 * 2.8e9, 410e9
    for text in (f"{1e6 * W / rate:.0f} us", f"{1e6 * Q / link:.1f} us",
                 f"{1e6 * (W / rate + Q / link):.0f} us", f"{W / Q:.0f} FLOP/B"):
        assert text in STORED["entitled"]
    apart = P * (3 * B * D + 3 * D * F + 6 * B * F)
    assert f"{apart:,} B" in STORED["entitled-unfused"]
    # three projections, and the kernel of s, which reads a and u and writes s
    row = 6 * B * D * F / rate + P * 3 * B * F / link
    assert STORED["entitled-unfused"].rstrip().endswith(f"= {1e6 * row:.0f} us")
    assert f"scalar_element_rate  {1e6 * B * F / (128 * 1.4e9):.1f} us" in STORED[
        "entitled-engines"]
    assert f"vector_element_rate  {1e6 * 2 * B * F / (128 * 1.12e9):.1f} us" in STORED[
        "entitled-engines"]
    streamed = FP32 * (2 * 4096 * D + 8 * 3 * D * F)
    assert streamed == 335_544_320 and f"{streamed:,} B" in STORED["streamed-hand"]
    assert f"{1e3 * 6 * 4096 * D * F / (rate / 4):.2f} ms" in STORED["streamed-entitled"]
    # seven more passes of the three matrices
    assert f"{7 * 3 * FP32 * D * F:+,}" in STORED["streamed-counts"]
    assert f"s alone {1e-6 * FP32 * 4096 * F:.1f} MB" in STORED["published-bytes"]
    for id in ("code-count", "change-counted", "streamed-code"):
        assert STORED[id].startswith("hand = code: True"), id


def seconds(text: str, what: str) -> float:
    """A time in a table of an entitlement."""
    [(value, unit)] = re.findall(rf"^ *{what} +([\d.]+) (ms|us|ns)\b", text, re.M)
    return float(value) * {"ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


@pytest.mark.parametrize("shapes", [(B, D, F), (512, 512, 1536), (1024, 512, 512)], ids=str)
def test_the_other_engines_and_sbuf_follow_the_shapes(shapes):
    """One element a lane and cycle for silu, two cycles for the product; x and s of 128 tokens."""
    tokens, width, inner = shapes
    names, told = upto("entitled-engines", sized(*shapes))
    assert seconds(told["entitled-engines"], "scalar_element_rate") == pytest.approx(
        tokens * inner / (128 * 1.4e9), rel=6e-3)
    assert seconds(told["entitled-engines"], "vector_element_rate") == pytest.approx(
        2 * tokens * inner / (128 * 1.12e9), rel=6e-3)
    assert names["resident"] == P * (3 * width * inner + 128 * width + 128 * inner)


def test_what_is_in_use_fits_and_is_shown():
    silu = FP32 * 128 * 128
    resident = P * (3 * D * F + 128 * (D + F))
    wide = P * (3 * D * F + 512 * (D + F)) + FP32 * 128 * 512
    flow = FP32 * (512 * (D + F) + 1024 * D) + FP32 * 128 * 512
    for id, used in (("code-memory", resident + silu), ("change-memory", wide),
                     ("streamed-code", flow)):
        assert f"{used / MIB:.3g} MiB" in STORED[id] and used <= 24 * MIB, id
        assert "of 24 MiB" in STORED[id]
    assert "2 banks" in STORED["code-memory"] and "8 banks of 8" in STORED["streamed-code"]


# --- the order, and what prose may say -----------------------------------------------------------

ORDER = ["day7-swiglu-hand", "hand-table", "day7-swiglu-fits", "code-count", "code-memory",
         "day7-swiglu-entitled", "entitled", "day7-swiglu-engines", "predict", "measured",
         "measured-beside", "four-table", "four-held", "placed", "day7-swiglu-held",
         "ledger-verdict", "ledger", "ledger-ladder", "ledger-timeline", "day7-swiglu-change",
         "change-predict", "change-rule", "change-measured", "change-memory", "h-verdict",
         "verdict-counts", "change-verdict", "verdict-time", "p-verdict", "h-streamed",
         "day7-swiglu-streamed", "streamed-hand", "streamed-code", "streamed-entitled",
         "streamed-predict", "streamed-measured", "streamed-counts", "streamed-placed",
         "streamed-ledger", "p-streamed-verdict", "streamed-verdict", "h-published",
         "day7-swiglu-published", "published-rows", "published-bytes", "published-cores",
         "published-ours", "published-others", "h-record"]


def test_the_order_of_the_steps():
    """Hand, code, entitlement, prediction, capture, four counts, roofline, ledger, one change."""
    where = {one.id: i for i, one in enumerate(ALL)}
    assert [where[id] for id in ORDER] == sorted(where[id] for id in ORDER)


def test_the_contents_have_the_steps_and_the_verdict():
    heads = [found[1] for one in ALL if one.cell_type == "markdown"
             and (found := re.match(r"## (.*)", one.source))]
    numbered = [head[0] for head in heads if re.match(r"\d\. ", head)]
    assert numbered == list("123456789")
    assert heads[heads.index("Verdict") - 1].startswith("9. ")
    assert heads[heads.index("Verdict") + 1] == "Weights that do not fit"


def test_tokens_are_no_time():
    """`T` is a time on every page."""
    assert "T" not in whole() and whole()["tokens"] == 4096


def test_a_prediction_is_open_and_what_answers_it_is_folded():
    for id, names in (("predict", ["Q", "T", "share", "row"]),
                      ("change-predict", ["Q", "T", "row"]),
                      ("streamed-predict", ["T", "share", "row"])):
        [source] = [one.source for one in CELLS if one.id == id]
        assert re.findall(r"(\w+)=\.\.\.", source) == names
    shown = [one.id for one in CELLS if re.match(
        r"(hand|code|entitled|measured|four|placed|ledger|change|streamed|published)", one.id)
        and not {"hide-output", "read"} & set(one.metadata.get("tags", [])) and STORED[one.id]
        and "predict" not in one.id]
    assert not shown


def test_prose_holds_no_verdict():
    """Outside of what is folded as the model's: no time, no share, no row of a ledger by name."""
    prose = {one.id: re.sub(r"<details>.*?</details>", "", one.source, flags=re.S)
             for one in ALL if one.cell_type == "markdown"}
    said = {id: re.findall(r"[\d.,]+ ?(?:us|ms|ns|%)", text) for id, text in prose.items()}
    # the sample whose median the published rows correct
    assert {id: found for id, found in said.items() if found} == {"p-published-share": ["10 us"]}
    rows = {id: set(re.findall("`(.*?)`", text)) & set(gaps.CAUSES) for id, text in prose.items()}
    # the row that the rule supposes something of, and nothing says how large it is
    assert {id for id, found in rows.items() if found} <= {"p-8-each", "p-9-predict"}
    assert all(found <= {"pipeline"} for found in rows.values())


def test_the_sources_story_is_told_as_its_own():
    [text] = [one.source for one in ALL if one.id == "p-6-published"]
    assert "source of this course" in text and "no number comes with it" in text


# --- other profiles, other verdicts --------------------------------------------------------------


def predicted(launch: Any, chip: str, without: Any = ()) -> device.Measurement:
    """The model's profile, with some of its mechanisms switched off."""
    run = launch.counted(chip)
    return device.Measurement(launch, chip, neuroncore.predict(run, without=without).profile,
                              run.count)


def retold(names: dict[str, Any], id: str, **changed: Any) -> str:
    """What a cell says with other values for some names."""
    return execute([one for one in CELLS if one.id == id], {**names, **changed}, {})[1][id]


def test_the_verdict_on_time_is_the_profiles():
    names = whole()
    for launch in ("mlp", "more", "flow"):
        ideal = predicted(names[launch], names["chip"], "all")
        gap = gaps.ledger(ideal.profile, ideal.machine, names["hand"] if launch != "flow"
                          else names["flow_hand"])
        share = gap.t_best / gap.t
        word = "near" if share >= 0.9 else "under" if share >= 0.75 else "well under"
        told = retold(names, "ledger-verdict", made=ideal, gap=gap)
        assert f"{share:.0%}, {word} it" in told
        assert told != retold(names, "ledger-verdict")
    made, gap = names["made"], names["gap"]
    assert f"{gap.t_best / gap.t:.0%}" in retold(names, "ledger-verdict")
    for share, word in ((0.95, "near it"), (0.8, ": 80%, under it"), (0.5, "well under it")):
        other = SimpleNamespace(t=gap.t_best / share, t_best=gap.t_best, gap=1.0, rows=())
        assert word in retold(names, "ledger-verdict", made=made, gap=other)


@pytest.mark.parametrize(("t", "said"), [
    (95.0, "105%, faster than this roof: doubt the roof or the count"),
    (99.9, "100%, faster than this roof: doubt the roof or the count"),
    (100.0, "100%, near it"), (100.1, "100%, near it")])
def test_a_run_above_its_roof_has_no_shares_of_a_gap(t, said):
    """T_best is 100 ns. What is no gap cannot be shared out."""
    rows = (SimpleNamespace(cause="pipeline", time=3 * (t - 100)),
            SimpleNamespace(cause="fill", time=2 * (100 - t)))
    gap = SimpleNamespace(t=t, t_best=100.0, gap=t - 100.0, rows=rows)
    for id in ("ledger-verdict", "verdict-time"):
        told = retold(whole(), id, gap=gap, wider_gap=gap)
        lines = [line for line in told.splitlines() if "T_best" in line]
        assert lines and all(line.endswith(said) for line in lines)
        assert ("of the gap" in told) == (t > 100)
        assert ("near it" in told) == (t >= 100)


def test_the_verdict_on_the_change_is_the_profiles():
    """The rule holds where instructions cost as it says, and not where the time stays."""
    names = whole()
    made, wider = names["made"], names["wider"]
    saved = 1e-9 * names["each"] * (6912 - 2304)
    assert names["rule"].T == pytest.approx(made.time - saved)
    within = max(0.25 * abs(wider.time - made.time), 0.01 * made.time)
    said = "T held" if abs(names["rule"].T - wider.time) <= within else "T not held"
    assert f"the rule: {said}" in retold(names, "change-verdict")
    same = device.Measurement(names["more"], made.chip, made.profile, made.count)
    told = retold(names, "change-verdict", wider=same, wider_gap=names["gap"])
    assert "the rule: T not held" in told and told != retold(names, "change-verdict")
    changed = execute([one for one in CELLS if one.id in ("change-measured", "change-beside")],
                      {**names, "device": SimpleNamespace(
                             measure=lambda *_: same, unlike=device.unlike)}, {})[1]
    assert re.search(r"pipeline\n", changed["change-measured"]) and " 0 s  T\n" in (
        changed["change-measured"] + "\n")
    assert all(text != STORED[id] for id, text in changed.items())


def test_a_readers_prediction_is_held_against_what_came():
    names = whole()
    new = names["wider"].time
    for guess, said in ((f"{1e6 * new:.4f} us", "T held"), ("2 ms", "T not held")):
        mine = {"change-predict": f'guess = Guess(Q=..., T="{guess}", row=...)'}
        cells = [one for one in CELLS if one.id in ("change-predict", "change-verdict")]
        assert f"yours:    {said}" in execute(cells, dict(names), mine)[1]["change-verdict"]


@pytest.mark.parametrize(("more", "said"), [
    ({}, ["W held", "Q held, to the byte"]),
    ({"hbm_read_bytes": captures.READ + 4096}, ["W held", "Q not held: +4,096 B read, +0 B"]),
    ({"hbm_write_bytes": captures.WRITTEN - 512}, ["W held", "Q not held: +0 B read, -512 B"]),
    ({"hardware_flops": captures.W + 1000}, ["W not held: +1,000 FLOP", "Q held"]),
])
def test_the_verdict_on_the_counts_is_the_profiles(tmp_path, more, said):
    kept = profile.read(captures.capture(tmp_path / "p.json", summary=more))
    made = SimpleNamespace(profile=kept, kind="measured")
    run = Count({"bf16": captures.W}, captures.READ, captures.WRITTEN)
    told = retold(whole(), "four-held", run=run, made=made)
    assert all(text in told for text in said) and "modelled" not in told
    assert "modelled" in STORED["four-held"]  # which says that it had to hold


def test_passes_of_fp32_are_no_work():
    """In the model an fp32 matmul is two instructions: W once more, and W held all the same."""
    names, told = ended()
    W = 6 * 4096 * D * F
    for id in ("four-held", "verdict-counts", "streamed-counts"):
        assert told[id].splitlines()[1:3] == ["W held", "Q held, to the byte"], id
    assert f"fp32 passes: {W:,} FLOP" in told["streamed-counts"]
    for passes, more, said in ((3 * W, 0, "W held"), (0, 0, "W held"), (W, 1000, "+1,000 FLOP"),
                               (W, -8, "-8 FLOP"), (0, W, f"{W:+,} FLOP")):
        found = captured(flops=passes + more, passes=passes)
        given = {**names, "profile": SimpleNamespace(compare=lambda *_, found=found: found)}
        cells = [one for one in CELLS if one.id in ("read-counts-held", "four-held")]
        first = execute(cells, given, {})[1]["four-held"].splitlines()[1]
        assert first == said if said == "W held" else first == f"W not held: {said}"


def captured(flops: int, passes: int) -> Any:
    """Where the FLOPs of a profile are apart from the code's, so many of them fp32 passes."""
    class Found(dict):
        difference = flops, 0, 0

        def __iter__(self):
            return iter(())

    return Found({"fp32 passes": SimpleNamespace(flops=passes)})


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_the_page_follows_the_chip(chip, monkeypatch):
    monkeypatch.setattr("roofline.device.measuring.chip_here", lambda otherwise: chip)
    names, told = execute(CELLS, {}, {})
    assert names["made"].chip == names["flowed"].chip == chip
    core = machine.get(chip, "core")
    assert core.name in told["entitled"] and core.name in told["ledger"]
    assert core.name in told["published-ours"] and f"ours, {chip}" in told["published-ours"]
    beside = {"trn1": ("F01", "F02"), "trn2": ("F02", "F01")}[chip]
    for id, row in zip(("published-ours", "published-others"), beside, strict=True):
        assert set(re.findall(r"F\d+", told[id])) == {row}
    assert_cores(told["published-cores"], chip)
    if chip == "trn2":
        assert told["ledger-verdict"] != STORED["ledger-verdict"]
        assert told["change-verdict"] != STORED["change-verdict"]


def assert_cores(told: str, chip: str) -> None:
    """inf2 and trn1 have one core, trn2 another; F01 ran on trn1, F02 and F04 on trn2."""
    same = {"F01": chip != "trn2", "F02": chip == "trn2", "F04": chip == "trn2"}
    assert [line[:3] for line in told.splitlines()] == list(same)
    for line in told.splitlines():
        assert line.endswith("as ours" if same[line[:3]] else "another P in fp32 than ours"), line
        assert ("NeuronCore-v2" in line) == (line[:3] == "F01")


def test_which_core_a_published_row_ran_on_is_printed():
    """A reader may be on either core, so prose cannot say which of them is the same."""
    assert_cores(ended()[1]["published-cores"], "inf2")
    prose = {one.id: one.source for one in ALL if one.cell_type == "markdown"}
    assert not [id for id in prose if id.startswith("p-published")
                and re.search(r"the same core,|another core[ ;|]", prose[id])]


# --- one launch recorded, the others modelled -----------------------------------------------------

RUNS = {"made": "mlp", "wider": "more", "flowed": "flow"}  # a measurement's name, its launch's


def as_measured(one: device.Measurement) -> device.Measurement:
    """The same figures, told as those of a device."""
    return dataclasses.replace(one, profile=dataclasses.replace(one.profile, kind="measured"))


@functools.cache
def mixed(*recorded: str) -> dict[str, str]:
    """What the cells say where these runs are measured, the others not."""
    names = dict(whole())
    given = {id(names[RUNS[name]]): as_measured(names[name]) if name in recorded else names[name]
             for name in RUNS}
    names["device"] = SimpleNamespace(kinds=device.kinds, unlike=device.unlike,
                                      measure=lambda call, chip: given[id(call)])
    ids = ("measured", "measured-beside", "change-predict", "change-rule", "change-measured",
           "change-beside", "change-verdict", "verdict-counts", "verdict-time", "streamed-measured",
           "streamed-verdict", "placed", "streamed-placed", "ledger-each")
    filled = {"change-predict": f'guess = Guess(Q=..., T={names["wider"].time}, row="fill")'}
    return execute([one for one in CELLS if one.id in ids], names, filled)[1]


@pytest.mark.parametrize("recorded", [
    ("made",), ("wider",), ("flowed",), ("made", "wider"), ("wider", "flowed"), tuple(RUNS), ()],
    ids=" ".join)
def test_a_measured_run_is_compared_with_no_modelled_one(recorded):
    told = mixed(*recorded)
    kind = {name: "measured" if name in recorded else "modelled" for name in RUNS}
    alike = kind["made"] == kind["wider"]
    for id in ("change-measured", "change-verdict", "verdict-time"):
        assert ("not compared: " in told[id]) != alike, id
        assert alike or not re.search(r"T (not )?held|changed by|-> |both ", told[id]), id
    [lost] = [row for row in told["change-beside"].splitlines() if row.startswith("row ")]
    assert lost.rstrip().endswith("unknown") != alike
    whole_kind = set(kind.values())
    assert ("not compared: " in told["streamed-verdict"]) == (len(whole_kind) == 2)
    assert ("\nall m" in told["streamed-verdict"]) == (len(whole_kind) == 1)
    # each figure under its own kind
    assert re.search(rf"found, {kind['made']} +off$", told["measured-beside"], re.M)
    assert re.search(rf"found, {kind['wider']} +off$", told["change-beside"], re.M)
    assert re.search(rf"found, {kind['flowed']} +off$", told["streamed-measured"], re.M)
    assert f"(by the {kind['made']} run)" in told["change-rule"]
    for id, some in (("verdict-time", ("made", "wider")), ("streamed-verdict", RUNS)):
        assert re.findall(r"^(\w+): T ", told[id], re.M) == [kind[name] for name in some]
    assert told["verdict-counts"].startswith(kind["wider"])


# --- published, and the commands -----------------------------------------------------------------


def test_published_rows_are_shares_of_their_own_roofs():
    names = whole()
    W = 6 * 4096 * D * F
    times = {"F01": (4221.8e-6, 22.9376e12), "F02": (2 * 2207.9e-6 - 10e-6, 19.6608e12)}
    for id, (T, peak) in times.items():
        row = names["rows"].row(id)
        assert row.share == pytest.approx(W / T / peak) and f"{row.share:.1%}" in STORED[
            "published-rows"]
    # a third of F04's work as three bf16 products
    mix = W / (2 * W / 3 / 19.6608e12 + 3 * W / 3 / 78.6432e12)
    assert names["rows"].row("F04").share == pytest.approx(W / (2 * 2021.9e-6 - 10e-6) / mix)
    # F04's roof is none of the two: it is its mix's
    assert set(re.findall(r"F\d+", STORED["published-ours"])) == {"F01"}
    assert set(re.findall(r"F\d+", STORED["published-others"])) == {"F02"}
    # the row's conditions: 67 MB out, 84 MB back
    assert names["rest"] == 225_509_376 - 67e6 - 84e6
    assert "67 MB out, 84 MB back" in STORED["published-rows"]
    assert f"{(225_509_376 - 67e6 - 84e6) / 1e6:.1f} MB" in STORED["published-bytes"]


def test_the_commands_are_the_pages_launches():
    [text] = [one.source for one in ALL if one.id == "h-record"]
    for name, launch in (("MLP", "mlp"), ("FLOW", "flow")):
        [words] = re.findall(rf'^{name}="(.*)"$', text, re.M)
        kernel, *arrays = words.split()
        assert kernel == f"day7/kernels.py:{whole()[launch].name}"
        given = [one.partition("=")[2].partition(":") for one in arrays]
        short = {"bfloat16": "bf16", "float32": "fp32"}
        assert [(tuple(map(int, size.split("x"))), dtype) for size, _, dtype in given] == [
            (tuple(size), short[str(dtype)]) for size, dtype in whole()[launch].shapes]
    assert len(re.findall(r"^python -m roofline capture ", text, re.M)) == 3
