"""The entitlement sheet: complete, sourced, its ridges redone by hand, one page when printed."""

import csv
import io
import math
import re
from html.parser import HTMLParser

import pytest
from pages import ROOT

from roofline import derate, machine, sheet, units
from roofline.machine import MachineError, Spec
from roofline.nki import language as nl

SCOPES = [(key, scope) for key in ("trn1", "inf2", "trn2", "trn3")
          for scope in ("core", "lnc2", "device") if (key, scope) in machine._MACHINES]
each_scope = pytest.mark.parametrize(("key", "scope"), SCOPES)



def named(m):
    """Every number of a machine, as a sheet names it, with what stands beside it."""
    found = {f"peaks.{dtype}": spec for dtype, spec in m.peaks.items()}
    found |= {f"bandwidths.{level}": spec for level, spec in m.bandwidths.items()}
    return found | dict(m.facts)


# --- complete ---------------------------------------------------------------------------------


@each_scope
def test_every_number_of_the_machine_stands_on_the_sheet_once(key, scope):
    page, known = sheet.of(key, scope), named(machine.get(key, scope))
    for fact, level in sheet.AS_RIVALS.items():
        if fact in known:
            assert known.pop(fact).value in [s.value for s in page[level].rivals]
    rows = [row.fact for row in page.rows if row.scope == scope
            and not row.fact.startswith(("ridges.", "ceilings."))
            and (row.kind != "assumed" or row.fact in known)]
    assert sorted(rows) == sorted(known)
    for row in page.rows:
        if row.fact in rows and row.scope == scope:
            figures = [known[row.fact], *known[row.fact].rivals]
            assert [(s.value, s.unit, s.kind, s.source) for s in (row.spec, *row.rivals)] == [
                (s.value, s.unit, s.kind, s.source) for s in figures]


@each_scope
def test_every_fact_has_words(key, scope):
    assert [row.fact for row in sheet.of(key, scope).rows if row.group == sheet.NO_WORDS] == []


def test_a_fact_without_words_is_shown_by_its_name():
    m = machine.trn2
    new = machine.Machine(m.key, m.name, m.scope, m.peaks, m.bandwidths, (), {
        **m.facts, "new_fact": Spec(3, "", "trn2-arch, nowhere", "documented")})
    row = sheet.of(new)["new_fact"]
    assert (row.group, row.quantity) == (sheet.NO_WORDS, "new_fact")
    assert "new_fact" in repr(sheet.of(new)) and "new_fact" in sheet.of(new)._repr_html_()


def test_no_words_are_left_over():
    said = {row.fact.partition(".")[0] for key, scope in SCOPES
            for row in sheet.of(key, scope).rows}
    assert {stem for words in sheet.WORDS.values() for stem in words} == said
    assert set(sheet.NOT_USED) <= said


@each_scope
def test_every_figure_has_a_kind_and_a_listed_source(key, scope):
    sources = (ROOT / "sources.md").read_text("utf-8")
    for row in sheet.of(key, scope).rows:
        for _, figure in row.figures:
            assert figure.kind in machine.KINDS
            assert f"{{#src-{figure.source.partition(',')[0]}}}" in sources, row.fact
            assert sheet.figure_of(figure)


def test_a_sheet_is_of_a_neuron_chip():
    for key in ("h100", "desktop", "opteron_x2", "trn2.48xlarge"):
        with pytest.raises(MachineError, match=f"got {key}.*trn1, inf2, trn2, trn3"):
            sheet.of(key)


def test_the_device_stands_beside_the_core():
    page = sheet.of("trn2")
    cores = page["cores"]
    assert (cores.scope, cores.spec.value, cores.group) == ("device", 8, "Device and instance")
    assert page["HBM"].scope == "core"
    devices = {row.of: row.spec.value for row in page.rows if row.scope == "instance"}
    assert devices == {"trn2.3xlarge": 1, "trn2.48xlarge": 16, "trn2-ultraserver": 64}


# --- what is used, and what is a rival ---------------------------------------------------------


def test_hbm_of_a_trn2_core_and_its_rivals():
    row = sheet.of("trn2")["HBM"]
    assert (row.text, row.kind, row.used) == ("375 GB/s", "derived", True)
    assert row.holds == "3 TB/s / 8; an even share"
    assert [s.value for s in row.rivals] == [2.9e12 / 8, 716e9 / 2, 500e9]
    assert row.rivals[0].holds == "2.9 TB/s / 8; an even share"
    assert "one HBM stack" in row.rivals[1].holds
    drawing = row.rivals[2]
    assert drawing.source.startswith("trn2-arch") and "memory-hierarchy" in drawing.holds


def test_a_row_shows_its_figures():
    assert repr(sheet.of("trn2")["dma_engines"]).split("\n") == [
        "DMA engines", "  16  used  dma-intro  documented: printed under Basic DMA Capabilities"]
    assert repr(sheet.of("trn2")["sbuf_bytes"]).split("\n") == [
        "SBUF",
        "  28 MiB  used   trn2-arch   documented: 128 x 224 KiB",
        "  28 MB   rival  hw-core-v3  documented: decimal unit as printed"]


def test_a_lone_trn2_core_by_published_times():
    """Bytes over 2 x p50 - 10 us; the p50 is the mean of a 10 us sample and the real one."""
    row = sheet.of("trn2")["lone_core_bandwidth"]
    adamw, silu = 5 * 10944 * 2048 * 4, 2 * 4096 * 7168 * 4  # fp32: 4 in and 1 out, 1 in and 1 out
    derived = [adamw / (2 * 547.4e-6 - 10e-6), silu / (2 * 294.0e-6 - 10e-6),
               silu / (2 * 300.9e-6 - 10e-6)]
    assert [s.value for s in (row.spec, *row.rivals)] == pytest.approx(derived, rel=2e-4)
    assert not row.used and {s.kind for s in (row.spec, *row.rivals)} == {"derived"}
    hbm = next(one for one in sheet.of("trn2").conflicts if one.quantity == "HBM bandwidth")
    assert {"413.2 GB/s", "396.9 GB/s"} <= {figure.text for figure in hbm.figures}


def test_dma_of_a_trn2_core_and_its_rivals():
    row = sheet.of("trn2")["DMA"]
    assert [s.value for s in (row.spec, *row.rivals)] == [16 * 23e9, 16 * 27.2e9, 435e9]


@each_scope
def test_one_figure_of_a_row_is_the_one_in_use(key, scope):
    page = sheet.of(key, scope)
    for row in page.rows:
        assert [role for role, _ in row.figures].count("used") == int(row.used)
    for roof in page.rows:
        if roof.scope != scope or not roof.fact.startswith(("peaks", "bandwidths")):
            continue
        own_figure = (roof.fact.partition(".")[2])
        m = page.machine
        value = m.peak(own_figure) if roof.fact.startswith("peaks") else m.bw(own_figure)
        assert roof.used and roof.spec.value == value


def test_another_figure_in_use_changes_the_ridge():
    page = sheet.of(machine.trn2.using(HBM="397 GB/s"))
    assert page["HBM"].kind == "assumed" and page["HBM"].rivals[0].text == "375 GB/s"
    ridge = page["ridges.bf16"]
    assert (ridge.spec.value, ridge.kind) == (V3 / 397e9, "assumed")
    for shown in (page._repr_html_(), page.conflicts._repr_html_()):
        assert "397 GB/s" in shown and "src-caller" not in shown


def test_matmul_issue_is_of_v2_alone():
    v2, v3 = sheet.of("trn1")["matmul_min_initiation_interval"], sheet.of("trn2")
    assert (v2.spec.value, v2.kind, v2.used) == (64, "documented", True)
    row = v3["matmul_min_initiation_interval"]
    assert (row.spec.value, row.kind, row.used) == (64, "assumed", True)
    assert row.holds.startswith("not restated for this core")


@pytest.mark.parametrize("key", ["trn1", "trn2", "trn3"])
def test_what_a_matmul_is_computed_with_is_in_use(key):
    page = sheet.of(key)
    one = derate.matmul(key, K=1, M=1, N=1, load="shown")
    for rule in one.rules:
        for spec in rule.spec:
            rows = [row for row in page.rows if row.scope == "core"
                    and (row.spec.value, row.spec.source) == (spec.value, spec.source)]
            assert rows and all(row.used for row in rows), rule.name


def test_an_upper_bound_is_said_beside_its_rate():
    for key, clock in (("trn2", 0.96e9), ("trn3", 1.2e9)):
        row = sheet.of(key)["vector_element_rate.fp32"]
        assert row.spec.value == 256 * clock and row.holds.endswith("an upper bound")
        assert derate.elementwise(key, dtype="fp32").rate == 128 * clock


def test_a_pair_has_two_memories_and_one_stack():
    page = sheet.of("trn2", "lnc2")
    assert page["sbuf_bytes"].holds == "2 x 28 MiB; two separate memories"
    assert page["psum_bytes"].holds == "2 x 2 MiB; two separate memories"
    (stack,) = [one for one in page.conflicts if one.fact == "hbm_bytes"]
    assert [(s.value, s.source.partition(",")[0]) for s in stack.figures] == [
        (96 / 4 * 2**30, "trn2-arch"), (24e9, "lnc")]


def test_a_throttled_peak_names_the_source_of_its_share():
    row = sheet.of("trn2", "lnc2")["ceilings.bf16"]
    assert (row.spec.value, row.holds) == (V3, "0.5 of peak")
    assert row.source == machine.trn2.facts["throttle_start"].source


def test_sizes_are_products():
    page = sheet.of("trn2")
    assert page["psum_bytes"].spec.value == 128 * 8 * 512 * 4 == 2 * 2**20
    assert page["psum_bytes"].holds == "128 x 8 x 2 KiB"
    assert page["psum_bank_partition_bytes"].holds.startswith("512 x 4")
    assert page["sbuf_bytes"].holds == "128 x 224 KiB"


def test_the_text_marks_what_is_not_used():
    text = repr(sheet.of("trn2"))
    assert re.search(r"a kernel on one core +\( \) 413.2 GB/s", text)
    assert re.search(r"HBM bandwidth +375 GB/s +trn2-arch +derived: 3 TB/s / 8", text)
    assert text.index("  HBM bandwidth") < text.index("device, HBM bandwidth")
    assert "used    209.7" in text


def test_the_key_of_a_sheet():
    bib, page = ((ROOT / name).read_text("utf-8") for name in ("references.bib", "sources.md"))
    assert "(21 August 2026: SDK 2.32" in page and "21 August 2026, SDK 2.32" in sheet.KEY
    for key in sheet.SOURCES:
        assert f"{{{key}," in bib
    for key, scope in SCOPES:
        one = sheet.of(key, scope)
        names = {s.source.partition(",")[0] for row in one.rows for _, s in row.figures}
        assert names <= set(sheet.SOURCES)
        assert all(f"<b>{name}</b>" in one._repr_html_() for name in names)


def test_symbols_are_names_of_tile_size():
    page = sheet.of("trn2")  # outside a kernel tile_size is trn2's
    for stem, symbol in sheet.NKI.items():
        assert page[stem].symbol == symbol
        assert page[stem].spec.value == getattr(nl.tile_size, symbol)


# --- ridges: arithmetic, and the figures printed in the course ---------------------------------

PE = 128 * 128 * 2
V2, V3 = PE * 2.8e9, PE * 2.4e9
RIDGES = [  # machine, scope, dtype, P, BW, as printed
    ("trn1", "core", "bf16", V2, 820e9 / 2, "223.8"),
    ("trn1", "core", "bf16", V2, 16 * 17e9, "337.3"),
    ("trn1", "core", "fp32", V2 / 4, 820e9 / 2, "55.9"),
    ("trn1", "core", "fp32", V2 / 4, 16 * 17e9, "84.3"),
    ("inf2", "core", "bf16", V2, 820e9 / 2, "223.8"),
    ("trn2", "core", "bf16", V3, 3e12 / 8, "209.7"),
    ("trn2", "core", "bf16", V3, 2.9e12 / 8, "216.9"),
    ("trn2", "core", "bf16", V3, 716e9 / 2, "219.7"),
    ("trn2", "core", "bf16", V3, 16 * 23e9, "213.7"),
    ("trn2", "core", "bf16", V3, 500e9, "157.3"),
    ("trn2", "core", "bf16", V3, 413.2e9, "190.3"),
    ("trn2", "core", "bf16", V3, 406.4e9, "193.5"),
    ("trn2", "core", "bf16", V3, 396.9e9, "198.1"),
    ("trn2", "core", "fp32", V3 / 4, 3e12 / 8, "52.4"),
    ("trn2", "core", "fp32", V3 / 4, 500e9, "39.3"),
    ("trn2", "core", "fp8", 2 * V3, 3e12 / 8, "419.4"),
    ("trn2", "core", "fp8", 2 * V3, 716e9 / 2, "439.3"),
    ("trn2", "core", "sparse_bf16", 4 * V3, 3e12 / 8, "838.9"),
    ("trn2", "core", "sparse_bf16", 4 * V3, 16 * 23e9, "854.8"),
    ("trn2", "lnc2", "bf16", 2 * V3, 3e12 / 4, "209.7"),
    ("trn2", "lnc2", "fp8", 4 * V3, 3e12 / 4, "419.4"),
    ("trn3", "core", "bf16", V3, 4.9e12 / 8, "128.4"),
    ("trn3", "core", "bf16", V3, 4.7e12 / 8, "133.9"),
    ("trn3", "core", "bf16", V3, 16 * 33e9, "148.9"),
    ("trn3", "core", "mxfp8", 4 * V3, 4.9e12 / 8, "513.6"),
    ("trn3", "core", "mxfp8", 4 * V3, 16 * 33e9, "595.8"),
]


@pytest.mark.parametrize(("key", "scope", "dtype", "P", "BW", "printed"), RIDGES)
def test_ridge(key, scope, dtype, P, BW, printed):
    assert f"{P / BW:.1f}" == printed
    page = sheet.of(key, scope)
    row = page[f"ridges.{dtype}"]
    found = [s for _, s in row.figures if math.isclose(s.value, P / BW, rel_tol=1e-12)]
    assert len(found) == 1
    assert units.show(BW, "B/s", 4) in found[0].holds  # which figure it used
    assert f"{P / BW:.4g}" in repr(page)


@each_scope
def test_there_is_a_ridge_for_each_dtype_and_bandwidth_figure(key, scope):
    page = sheet.of(key, scope)
    figures = [s for level in ("HBM", "DMA") for _, s in page[level].figures]
    if (key, scope) == ("trn2", "core"):
        figures += [s for _, s in page["lone_core_bandwidth"].figures]
    for dtype in page.machine.peaks:
        row = page[f"ridges.{dtype}"]
        assert row.spec.value == page.machine.ridge(dtype)
        assert [s.value for _, s in row.figures] == [
            page.machine.peak(dtype) / s.value for s in figures]
        assert {s.kind for _, s in row.figures} == {"derived"}


# --- conflicts ---------------------------------------------------------------------------------


@each_scope
def test_every_conflict_is_settled_in_words(key, scope):
    page = sheet.of(key, scope)
    shown = {figure.text for one in page.conflicts for figure in one.figures}
    for row in page.rows:
        if row.rivals and not row.fact.startswith("ridges."):
            assert {s.text for s in (row.spec, *row.rivals)} <= shown, row.fact
    for one in page.conflicts:
        assert len(one.figures) > 1 and one.settles.endswith(".")


def test_no_settling_sentence_is_left_over():
    used = set()
    for key, scope in SCOPES:
        page = sheet.of(key, scope)
        facts = {one.fact for one in page.conflicts}
        for row in page.rows:
            if row.fact in facts:
                used |= {id(sheet.settled(row, page.machine))}
    assert {id(settles) for settles in sheet.SETTLES.values()} == used


def test_the_sentences_hold_no_number_of_their_own():
    for settles in sheet.SETTLES.values():
        assert not re.search(r"\d", re.sub(r"Day 4|fp8|bf16", "", settles.how)), settles.how
    for words in sheet.WORDS.values():
        assert not re.search(r"\d", " ".join(words.values()))


def figures(key, scope, quantity):
    found = [one for one in sheet.of(key, scope).conflicts if one.quantity.startswith(quantity)]
    return [figure.value for one in found for figure in one.figures]


CONFLICTS = [  # reference: what the documents disagree on
    ("trn2", "device", "Tensor Engine peak, bf16", [8 * V3, 667e12]),
    ("trn2", "device", "Tensor Engine peak, fp8", [16 * V3, 1299e12]),
    ("trn2", "device", "Tensor Engine peak, sparse", [32 * V3, 2563e12]),
    ("trn2", "device", "Tensor Engine peak, fp32", [2 * V3, 181e12]),
    ("trn2", "device", "HBM bandwidth", [3e12, 2.9e12, 4 * 716e9]),
    ("trn3", "device", "HBM bandwidth", [4.9e12, 4.7e12]),
    ("trn1", "device", "HBM bandwidth", [820e9, 820 * 2**30, 800e9]),
    ("trn1", "core", "one DMA engine", [17e9, 27.2e9, 27 * 2**30]),
    ("trn2", "core", "one DMA engine", [23e9, 27.2e9]),
    ("trn3", "core", "Tensor Engine peak, fp8", [2 * V3, 2 * 128, 8 * 128]),
    ("trn3", "device", "Tensor Engine peak, fp8", [16 * V3, 2517e12]),
    ("trn3", "core", "free size, moving", [512, 8 * 512]),
    ("trn3", "core", "device, Tensor Engine peak, fp8", [16 * V3, 2517e12]),
    ("trn3", "core", "NeuronLink", [2.56e12, 2048 * 2**30, 256e9 + 320e9 + 128e9]),
    ("trn3", "device", "NeuronLink", [2.56e12, 2048 * 2**30, 256e9 + 320e9 + 128e9]),
    ("trn2", "device", "CC-cores", [20, 16]),
    ("trn3", "device", "CC-cores", [20, 16]),
    ("trn2", "core", "SBUF", [28 * 2**20, 28e6, 25e6]),
    ("trn2", "device", "HBM, one stack", [96 / 4 * 2**30, 24e9]),
    ("trn1", "core", "ridge, bf16", [V2 / 410e9, V2 / (410 * 2**30), V2 / 400e9, V2 / 272e9,
                                     V2 / (16 * 27.2e9), 222]),
]


@pytest.mark.parametrize(("key", "scope", "quantity", "values"), CONFLICTS)
def test_conflict(key, scope, quantity, values):
    assert figures(key, scope, quantity) == pytest.approx(values, rel=1e-9)


def test_the_profilers_ratio_is_one_core_over_a_whole_stack():
    *_, last = next(one for one in sheet.of("trn2").conflicts if one.fact == "ridges.bf16").figures
    assert last.value == pytest.approx(V3 / 716e9, rel=1e-5)
    assert last.holds.startswith("mixed scope: one core's peak over one whole stack")
    assert not [row for row in sheet.of("trn2", "device").rows if "documented" in row.fact]


def test_a_stack_is_what_the_profile_says():
    assert sheet.of("trn2", "lnc2")["HBM"].rivals[1].holds.startswith("the stack itself")
    of_device = sheet.of("trn2", "device")["HBM"].rivals[1]
    assert (of_device.source.partition(",")[0], of_device.value) == ("trn2-profile", 4 * 716e9)


def test_a_figure_of_another_kind_says_what_it_is():
    fp8 = next(one for one in sheet.of("trn3").conflicts if one.fact == "peaks.fp8")
    assert fp8.figures[1].holds == "Tensor Engine input, bf16: elements a cycle"


def test_a_derived_width_is_said_beside_its_rate():
    assert "the width is derived: 8 x 16" in sheet.of("trn2")["gpsimd_element_rate"].holds
    assert "derived" not in sheet.of("trn3")["gpsimd_element_rate"].holds


def test_binary_units_show_as_they_were_printed():
    rival = sheet.of("trn1", "device")["HBM"].rivals[0]
    assert rival.text == "880.5 GB/s" and sheet.figure_of(rival).startswith("820 GiB/s; ")
    assert "27 GiB/s; binary unit" in sheet.of("trn1").conflicts._repr_html_()
    assert "2048 GiB/s; unresolved" in repr(sheet.of("trn3").conflicts)


# --- recordings ---------------------------------------------------------------------------------

COPY = Spec(402e9, "B/s", "day4, copy of 64 MiB", "measured", "trn2.3xlarge, one core alone")


def test_a_recording_joins_its_row_and_gives_a_ridge():
    page = sheet.of("trn2", measured={"HBM": COPY})
    assert page["HBM"].recorded == (COPY,) and page["HBM"].text == "375 GB/s"
    (ridge,) = page["ridges.bf16"].recorded
    assert (ridge.value, ridge.kind, ridge.source) == (V3 / 402e9, "derived", COPY.source)
    assert [role for role, s in page["ridges.bf16"].figures if s is ridge] == ["recorded"]
    for shown in (repr(page), page._repr_html_(), page.csv()):
        assert "402 GB/s" in shown and "recorded" in shown
    assert re.search(r"recorded  195.6 .* 402 GB/s \(HBM, measured\)", repr(page))
    hbm = next(one for one in page.conflicts if one.fact == "bandwidths.HBM")
    assert hbm.figures[-1] == COPY and hbm.figures[0].text == "375 GB/s"
    assert "src-day4" not in page._repr_html_() + page.conflicts._repr_html_()
    assert sheet.of("trn2")["HBM"].recorded == ()


def test_each_recorded_bandwidth_gives_a_ridge():
    sweep = Spec(350e9, "B/s", "day4, sweep", "measured")
    row = sheet.of("trn2", measured={"DMA": sweep, "HBM": COPY})["ridges.bf16"]
    assert [s.value for s in row.recorded] == [V3 / 402e9, V3 / 350e9]
    assert len(row.rivals) == len(sheet.of("trn2")["ridges.bf16"].rivals)


def test_a_recorded_peak_is_over_the_recorded_bandwidth():
    loop = Spec(71e12, "FLOP/s", "day4, resident matmul loop", "measured")
    page = sheet.of("trn2", measured={"HBM": COPY, "bf16": loop})
    assert page["bf16"].recorded == (loop,)
    for dtype, ridge, sources in (("bf16", 71e12 / 402e9, [COPY.source, loop.source]),
                                  ("fp16", V3 / 402e9, [COPY.source])):
        (found,) = page[f"ridges.{dtype}"].recorded
        assert (found.value, found.source.split("; ")) == (ridge, sources)
    assert re.search(r"bf16 {2,}fp16 tf32 {2,}fp8", repr(page))  # columns of their own
    assert page["bf16"].spec.value == V3 and page["ridges.bf16"].spec.value == V3 / 375e9


@pytest.mark.parametrize(("fact", "spec", "words"), [
    ("hbm", COPY, "no such row: got 'hbm'"),
    ("bf16", COPY, "unit 'B/s'; expected 'FLOP/s'"),
    ("HBM", Spec(1e9, "B/s", "x", "documented"), "kind 'documented'"),
    ("HBM", 350e9, "got 350000000000.0; expected a Spec"),
])
def test_what_is_no_recording_is_refused(fact, spec, words):
    with pytest.raises(MachineError, match=re.escape(words)):
        sheet.of("trn2", measured={fact: spec})


class Whose(dict):
    """Recordings that say of which chip and scope they are."""

    def __init__(self, found, chip, scope):
        super().__init__(found)
        self.chip, self.scope = chip, scope


@pytest.mark.parametrize(("chip", "scope", "at"), [
    ("trn2", "lnc2", ("trn2",)), ("trn2", "core", ("trn2", "lnc2")),
    ("trn2", "core", ("trn2", "device")), ("trn1", "core", ("trn2",)),
    ("inf2", "core", ("trn1",))])
@pytest.mark.parametrize("found", [{"HBM": COPY}, {}])
def test_recordings_of_another_chip_or_scope_are_refused(chip, scope, at, found):
    with pytest.raises(MachineError) as error:
        sheet.of(*at, measured=Whose(found, chip, scope))
    assert f"got those of {chip}, {scope}; expected the sheet's own" in str(error.value)
    assert f"sheet.of('{chip}', '{scope}', measured=...)" in str(error.value)
    page = sheet.of(chip, scope, measured=Whose(found, chip, scope))
    assert page["HBM"].recorded == tuple(found.values())


def test_unknown_machines_and_scopes():
    with pytest.raises(MachineError, match="no such machine"):
        sheet.of("trn9")
    with pytest.raises(MachineError, match="no such scope"):
        sheet.of("trn1", "lnc2")


# --- CSV ------------------------------------------------------------------------------------------


@each_scope
def test_csv_gives_every_figure_back(key, scope, tmp_path):
    page, path = sheet.of(key, scope), tmp_path / "sheet.csv"
    text = page.csv(path)
    assert path.read_bytes().decode() == text
    lines = list(csv.DictReader(io.StringIO(text)))
    figures = [(row, role, s) for row in page.rows for role, s in row.figures]
    assert len(lines) == len(figures)
    for line, (row, role, s) in zip(lines, figures, strict=True):
        assert (line["fact"], line["role"], line["scope"]) == (row.fact, role, row.scope)
        assert float(line["value"]) == pytest.approx(s.value, rel=1e-11)
        assert units.parse(line["text"], line["unit"]) == pytest.approx(s.value, rel=5e-4)
        assert len(line["value"].partition(".")[2]) <= 12  # no 0.30000000000000004
        assert f"{line['source']}, {line['place']}".rstrip(", ") == s.source
        assert line["kind"] == s.kind and line["holds"] == s.holds


# --- HTML, and the printed page ----------------------------------------------------------------


class Seen(HTMLParser):
    """Tags and links of a piece of HTML; complains when a tag is left open."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        self.links += [value for name, value in attrs if name == "href"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@each_scope
def test_html_is_whole_and_links_the_page_of_sources(key, scope):
    sources = (ROOT / "sources.md").read_text("utf-8")
    page = sheet.of(key, scope)
    for text in (page._repr_html_(), page.conflicts._repr_html_()):
        links = Seen(text).links
        assert links and all(link.startswith("../sources.html#src-") for link in links)
        assert all(f"{{#{link.partition('#')[2]}}}" in sources for link in links)


def test_html_escapes_what_it_is_given():
    nasty = "<script>alert(1)</script> & \"quoted\""
    page = sheet.of("trn2", measured={"HBM": Spec(1e9, "B/s", nasty, "measured", nasty)})
    for text in (page._repr_html_(), page.conflicts._repr_html_()):
        assert "script" not in Seen(text).tags
        assert "<script" not in text
    assert "&lt;script&gt;" in page._repr_html_()


@each_scope
def test_the_sheet_prints_on_one_page(key, scope, chromium):
    css = (ROOT / "_static" / "course.css").read_text("utf-8")
    page = chromium.new_page()
    page.set_content(f'<!doctype html><meta charset="utf-8"><style>{css}</style>'
                     f'<body><div class="bd-article">{sheet.of(key, scope)._repr_html_()}</div>')
    pdf = page.pdf(prefer_css_page_size=True)
    page.close()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 1
    width, height = map(float, re.search(
        rb"/MediaBox\s*\[\s*0\s+0\s+([\d.]+)\s+([\d.]+)", pdf).groups())
    assert (width, height) == pytest.approx((210 / 25.4 * 72, 297 / 25.4 * 72), abs=1)  # A4
