"""figures.recount: counts as arithmetic from the kernels' loops, the page against the library, and
the line to a live kernel with its failures."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
from pages import ROOT
from test_figures import READS, page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import figures, machine, nki, units
from roofline.figures import recount_channel
from roofline.figures.live import script

KERNELS = nki.load(ROOT / "day5/kernels.py")
FOUR = [KERNELS.matmul_c_stays, KERNELS.matmul_a_stays, KERNELS.matmul_b_stays,
        KERNELS.matmul_reload]
M = K = N = 2048
ROWS, COLUMNS = (128, 256, 512, 1024), (512, 1024, 2048)


def four(kernels=FOUR, **more):
    return figures.recount(kernels, "K M", "K N", **{
        "M": M, "K": K, "N": N, "rows": list(ROWS), "columns": list(COLUMNS),
        "start": {"rows": 256, "columns": 1024}, **more})


@pytest.fixture(scope="module")
def made():
    return four()


@pytest.fixture
def folder(tmp_path):
    """A copy of the kernels that a test may edit."""
    shutil.copy(ROOT / "day5/kernels.py", tmp_path)
    return tmp_path


# --- counts by hand ------------------------------------------------------------------------
#
# Tiles: 128 rows of A, 512 columns of B, 128 of K. bf16: 2 bytes. A tile's bytes on chip are those
# of its 128 partitions.


def by_hand(kernel, rows, columns, M=M, K=K, N=N):
    """r_A, r_B, transfers, instructions, SBUF bytes, PSUM banks, from the loops of the source."""
    m, n, k = M // 128, N // 512, K // 128
    a, b, out = 2 * 128 * 128, 2 * 128 * 512, 2 * 128 * 512
    products, evictions = m * n * k, m * n
    if kernel == "matmul_reload":
        loads, sbuf, banks, r_A, r_B = 2 * products, a + b, 1, n, m
    elif kernel == "matmul_a_stays":
        loads, sbuf, banks, r_A, r_B = m * k + products, k * a + b, 1, 1, m
    elif kernel == "matmul_b_stays":
        loads, sbuf, banks, r_A, r_B = k + m * k, k * n * b + k * a + out, 1, 1, 1
    else:
        blocks = (M // rows) * (N // columns)
        # A block's rows leave one stripe of 128 at a time, all its columns in one store.
        stores = blocks * rows // 128
        sbuf, banks = 2 * 128 * (rows + columns), rows // 128 * columns // 512
        return (N // columns, M // rows, 2 * blocks * k + stores,
                2 * blocks * k + products + evictions + stores, sbuf, banks)
    return r_A, r_B, loads + evictions, loads + products + 2 * evictions, sbuf, banks


def test_every_setting_is_the_arithmetic_of_the_loops(made):
    seen = 0
    for one in made.counts:
        at = one["at"]
        name, rows, columns = made.names[at["kernel"]], at["rows"], at["columns"]
        if name == "matmul_c_stays" and rows // 128 * columns // 512 > 8:
            assert f"needs {rows // 128 * columns // 512} PSUM banks; limit 8" in one["refused"]
            continue
        r_A, r_B, transfers, instructions, sbuf, banks = by_hand(name, rows, columns)
        Q = 2 * (r_A * M * K + r_B * K * N + M * N)
        assert one["tensors"] == [["a", 2 * M * K, 2 * r_A * M * K, 0],
                                  ["b", 2 * K * N, 2 * r_B * K * N, 0],
                                  ["c", 2 * M * N, 0, 2 * M * N]], at
        assert (one["W"], one["Q"]) == (2 * M * K * N, Q)
        assert (one["transfers"], one["instructions"]) == (transfers, instructions), at
        assert one["sbuf"] == [sbuf, 128 * 224 * 1024], at  # 224 KiB a partition
        assert one["banks"] == [banks, 8]
        assert one["I"] == one["W"] / Q
        assert one["best"] == pytest.approx(max(one["W"] / 78.6432e12, Q / 375e9))
        assert one["binds"] == ("compute" if one["W"] / 78.6432e12 > Q / 375e9 else "HBM")
        seen += 1
    assert (seen, len(made.counts)) == (4 * 3 - 3 + 3, 4 * 3 + 3)


def test_counts_are_those_of_nki_run(made):
    for one in made.counts:
        if "Q" in one:
            assert made.at(**one["at"]).count.hbm_bytes == one["Q"]


def test_a_tile_over_the_limit_keeps_the_error_s_own_words():
    @nki.jit
    def wide(x, w, columns):
        total = nki.language.ndarray((128, columns), dtype="float32", buffer=nki.language.psum)
        tiles = [nki.language.ndarray((128, n), dtype=x.dtype, buffer=nki.language.sbuf)
                 for n in (128, columns)]
        nki.isa.dma_copy(dst=tiles[0], src=x)
        nki.isa.dma_copy(dst=tiles[1], src=w[:, nki.language.ds(0, columns)])
        nki.isa.nc_matmul(dst=total, stationary=tiles[0], moving=tiles[1])
        y = nki.language.ndarray((128, columns), dtype=x.dtype, buffer=nki.language.shared_hbm)
        out = nki.language.ndarray((128, columns), dtype=x.dtype, buffer=nki.language.sbuf)
        nki.isa.tensor_copy(dst=out, src=total)
        nki.isa.dma_copy(dst=y, src=out)
        return y

    live = figures.recount(wide, "128 128", "128 1024", columns=[256, 512, 1024])
    fine, full, over = live.counts
    assert [fine["Q"], full["Q"]] == [2 * 128 * (128 + 2 * n) for n in (256, 512)]
    assert over["refused"].startswith("nc_matmul: moving: got [128, 1024]; its free dim may be at "
                                      "most 512 (gemm_moving_fmax). Split N into 2 tiles\n")
    assert "line" in over["refused"] and "wide: nki.isa.nc_matmul" in over["refused"]


# --- what it asks --------------------------------------------------------------------------


def question(live):
    data = live.figure.data
    return data["says"][-1], [data["guess"]["answers"][i] for i in data["guess"]["right"]]


def test_it_asks_which_move_saves_most(made):
    # Q / 2 n^2 = n / columns + n / rows + 1: 11 at first; 7 with twice the rows, 10 the columns
    assert question(made) == ("Which of these moves lowers Q most?", ["rows from 256 to 512"])
    assert made.figure.data["guess"]["told"] == (
        f"rows 512: Q = {units.show(7 * 2 * M * M, 'B')}; "
        f"columns 2048: Q = {units.show(10 * 2 * M * M, 'B')}.")


@pytest.mark.parametrize(("kernels", "more", "asks", "right"), [
    (FOUR[:1], {"columns": 1024, "start": {"rows": 256}}, "Now rows from 256 to 512.", "down"),
    (FOUR[:1], {"columns": 1024, "start": {"rows": 512}}, "Now rows from 512 to 1024.",
     "nowhere: the kernel is refused"),
    (FOUR[:1], {"rows": 512, "columns": [2048, 1024], "M": 1024, "K": [512, 1024], "N": 2048,
                "start": {"columns": 1024}}, "Now K from 512 to 1024.", "up"),
    (FOUR[:2], {"rows": 128, "columns": 2048, "start": {}}, "Now matmul_a_stays in its place.",
     "it stays"),                       # both: A once, B M / 128 times
    (FOUR[:1], {"rows": [512, 1024], "columns": [1024, 2048], "start": {}},
     "Which of these moves lowers Q most?", "none of them lowers it"),  # both are refused
])
def test_other_questions(kernels, more, asks, right):
    asked, answers = question(four(kernels, **more))
    assert asked.startswith(asks) and answers == [right]


def test_with_nothing_to_move_it_asks_nothing(page_of):  # noqa: F811
    live = figures.recount(FOUR[3], "K M", "K N", M=256, K=128, N=512)
    assert live.figure.data["guess"] == {}
    page = page_of(live._repr_html_()).page
    Q = 2 * (256 * 128 + 2 * 128 * 512 + 256 * 512)
    assert page.evaluate(READS)["bytes Q"] == units.show(Q, "B")


@pytest.mark.parametrize(("more", "says"), [
    ({"depth": [1, 2]}, "depth: no shape and no kernel of matmul_c_stays, .* has it; they have K"),
    ({"rows": []}, r"rows: got \[\]; expected whole numbers from 1 on, or words, each once"),
    ({"rows": [128, 128]}, "rows: got .128, 128.; expected whole"),
    ({"rows": [0, 128]}, "rows: got .0, 128."), ({"rows": [128, "256"]}, "rows: got .128, '256'."),
    ({"rows": 1.5}, "rows: got 1.5"), ({"M": True}, "M: got True"),
    ({"start": {"rows": 129}}, "start: rows = 129 is none of the values of rows"),
    ({"start": {"size": 1}}, "start: size = 1 is none of the values"),
    ({"start": {"kernel": 4}}, "start: kernel = 4; expected 0 to 3, its place in the list"),
    ({"M": [128 * i for i in range(1, 5)]}, "60 settings"),
    ({"start": {"rows": 1024, "columns": 2048}}, "the setting to start at is refused: .*32 PSUM"),
])
def test_what_it_cannot_show_it_says(more, says):
    if "60" in says:  # as many as the most, and then too many
        assert len(four(**more, start={"rows": 128}).grid) == 60
        more, says = {"M": [128 * i for i in range(1, 6)]}, "75 settings; at most 64 are counted"
    with pytest.raises(ValueError, match=f"^figures.recount: {says}"):
        four(**more)


def test_a_shape_s_word_has_to_be_a_setting():
    with pytest.raises(ValueError, match=r"shapes: got 'L', which is no setting\. Give L="):
        figures.recount(FOUR[3], "K M", "K L", K=128, M=128)


# --- how it is shown -----------------------------------------------------------------------


def test_a_figure_stays_small(made):
    assert len(json.dumps(made.figure.data)) < 8_000
    assert len(made._repr_html_()) < 65_000


def test_the_script_is_inlined_whole():
    text = script("recount", "x")
    assert text.count("</") == 1 and "<!--" not in text and "innerHTML" not in text
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert "fetch(" not in text and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_without_a_front_end_the_bundle_is_the_page_s(made, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert made._repr_mimebundle_() == {"text/plain": repr(made), "text/html": made._repr_html_()}
    assert made._repr_html_() == four()._repr_html_()  # same id, same data: nbval compares


def test_in_jupyterlab_the_same_text_and_a_line_to_the_kernel(made, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "page.ipynb")
    opened = []
    monkeypatch.setattr(recount_channel, "open_channel",
                        lambda token, of: opened.append((token, of)) or True)
    bundle = made._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and bundle["text/plain"] == repr(made)
    [(token, of)] = opened
    assert of is made and f'"token":"{token}"' in bundle["text/html"]
    assert token not in made._repr_mimebundle_()["text/html"]  # each output has a line of its own


def test_anywidget_opens_the_line(made):
    from ipywidgets import Widget

    opened = []
    Widget.on_widget_constructed(opened.append)
    try:
        assert recount_channel.open_channel("some-token", made)
    finally:
        Widget.on_widget_constructed(None)
    [channel] = [widget for widget in opened if hasattr(widget, "token")]
    assert channel.token == "some-token" and "initialize" in channel._esm
    assert not re.search(r"https?:", channel._esm)
    channel.close()


def test_without_anywidget_it_is_the_page_s_figure_and_says_what_to_install(
        made, monkeypatch, page_of):  # noqa: F811
    monkeypatch.setenv("JPY_SESSION_NAME", "page.ipynb")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    page = page_of(made._repr_mimebundle_()["text/html"]).page
    page.click("text=Skip")
    assert "install anywidget into this kernel's environment" in page.inner_text(".rl-controls")
    page.get_by_label("rows", exact=True).press("ArrowRight")
    assert page.evaluate(READS)["bytes Q"] == units.show(7 * 2 * M * M, "B")


def test_importing_and_counting_needs_no_widgets():
    code = ("import sys; from roofline import figures, nki; k = nki.load('day5/kernels.py'); "
            "figures.recount(k.matmul_reload, 'K M', 'K N', M=128, K=128, N=512)"
            "._repr_mimebundle_(); "
            "print(sorted({'anywidget', 'ipywidgets', 'traitlets'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          env={k: v for k, v in os.environ.items() if k != "JPY_SESSION_NAME"})
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


# --- the page ------------------------------------------------------------------------------


def shown(one):
    """What the page has to show of a setting."""
    times = lambda n: "once" if n == 1 else f"{units.significant(n)} times"  # noqa: E731
    reads = {"bytes Q": units.show(one["Q"], "B"), "work W": units.show(one["W"], "FLOP"),
             "I = W / Q": units.show(one["I"], "FLOP/B"),
             "ridge P / BW": units.show(machine.trn2.ridge("bf16"), "FLOP/B"),
             "T_best": f"{units.show(one['best'], 's')}, "
                       f"{'compute' if one['binds'] == 'compute' else 'memory'}-bound",
             "DMAs with HBM": f"{one['transfers']:,}", "instructions": f"{one['instructions']:,}",
             "SBUF, at most": f"{units.mebi(one['sbuf'][0])} of {units.mebi(one['sbuf'][1])}",
             "PSUM, at most": f"{one['banks'][0]} of 8 banks"}
    for name, size, read, written in one["tensors"]:
        reads[f"of Q, {name}"] = f"{units.show(read + written, 'B')}, " + ", ".join(
            [times(read / size)] * bool(read)
            + [f"written {times(written / size)}"] * bool(written))
    return reads


def go(page, made, at):
    page.get_by_label("Kernel", exact=True).select_option(str(at["kernel"]))
    for name, values in made.lists.items():
        if name in made.takes[at["kernel"]]:
            page.get_by_label(name, exact=True).fill(str(values.index(at[name])))


def test_the_page_agrees_with_the_library_on_every_setting_and_100_moves(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_()).page
    page.click("text=Skip")
    draw = random.Random(10)
    for one in [*made.counts, *(draw.choice(made.counts) for _ in range(100))]:
        go(page, made, one["at"])
        if "refused" in one:
            assert page.evaluate(READS) == {}
            assert page.text_content(".rl-status") == (
                f"Refused: {made.describe(one['at'])}. {one['refused']}")
        else:
            assert page.evaluate(READS) == shown(one)


BARS = """() => [...document.querySelectorAll(".rl-plot .rl-piece")].map(
  (r) => [Number(r.getAttribute("width")), r.classList.contains("rl-fill-compute")])"""


def test_bars_are_as_long_as_their_bytes_and_the_ridge_stands_between(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_()).page
    page.click("text=Skip")
    wide = page.evaluate("document.querySelector('.rl-plot svg').viewBox.baseVal.width")
    most = max(one["Q"] for one in made.counts if "Q" in one)
    want = [(row[2] + row[3], one["binds"] == "compute") for one in made.counts if "Q" in one
            for row in one["tensors"]]
    got = page.evaluate(BARS)
    assert [kind for _, kind in got] == [kind for _, kind in want]
    assert [length for length, _ in got] == pytest.approx([n / most * wide for n, _ in want])
    ridge = float(page.get_attribute(".rl-hint", "d")[1:].split(" ")[0])
    assert ridge == pytest.approx(2 * M * K * N / machine.trn2.ridge("bf16") / most * wide)


def test_what_a_move_did_is_said(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_()).page
    page.get_by_label("columns from 1024 to 2048").check()
    page.click("text=Check my guess")
    Q = lambda n: units.show(n * 2 * M * M, "B")  # noqa: E731
    assert page.inner_text(".rl-status") == (
        f"rows from 256 to 512. rows 512: Q = {Q(7)}; columns 2048: Q = {Q(10)}. "
        "You said: columns from 1024 to 2048.")
    page.get_by_label("rows", exact=True).press("ArrowRight")
    assert page.inner_text(".rl-status") == (
        f"Q falls from {Q(11)} to {Q(7)}. b crosses 4 times, before 8 times. "
        "Now it is compute-bound.")
    page.get_by_label("Kernel", exact=True).select_option(label="matmul_a_stays")
    assert page.inner_text(".rl-status") == (
        f"Q rises from {Q(7)} to {Q(18)}. a crosses once, before 2 times; "
        "b crosses 16 times, before 4 times. Now it is memory-bound.")
    assert page.get_by_label("rows", exact=True).is_disabled()  # it has none


def test_by_keyboard_alone(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_()).page
    assert page.locator(".rl-reads, input[type=range]").count() == 0  # the guess comes first
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status") == "Choose one of them, or skip the guess."
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status").endswith("You said so.")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.inner_text(".rl-status").startswith("Refused: c_stays, rows 1024, columns 1024. ")
    page.keyboard.press("Tab")
    for typed, says in (("384", 'rows: got "384"; expected one of 128, 256, 512, 1024, which were '
                         "counted ahead. rows stays 1024."), ("x", 'rows: got "x"; expected one')):
        page.keyboard.press("Control+A")
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        assert page.inner_text(".rl-status").startswith(says)
        assert page.get_by_label("rows, exactly").get_attribute("aria-invalid") == "true"
    page.keyboard.press("Control+A")
    page.keyboard.type("1,024")
    page.keyboard.press("Enter")
    assert page.get_by_label("rows, exactly").get_attribute("aria-invalid") == "false"
    page.keyboard.press("Control+A")
    page.keyboard.type("512")
    page.keyboard.press("Tab")
    assert page.evaluate(READS)["bytes Q"] == units.show(7 * 2 * M * M, "B")


def test_without_script_the_text_and_every_setting_are_there(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_(), java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith("Where scripts run, the same kernel ")
    assert "Which of these moves lowers Q most?" in page.inner_text(".rl-live")
    rows = page.locator(".rl-tables tbody tr").all_inner_texts()
    assert len(rows) == len(made.counts)
    for text, one in zip(rows, made.counts, strict=True):
        assert made.describe(one["at"]) in text
        assert (one["refused"].split("\n")[0] if "refused" in one else units.show(one["Q"], "B")) \
            in text
    assert page.locator("input, button, select").count() == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(made, dark, width, page_of):  # noqa: F811
    page = page_of(made._repr_html_(), dark=dark, viewport={"width": width, "height": 700}).page
    assert violations(page) == []
    page.click("text=Skip")
    page.get_by_label("rows", exact=True).press("End")  # refused
    page.evaluate("document.querySelectorAll('.rl-tables').forEach((t) => { t.open = true; })")
    assert violations(page) == [] and not sideways(page)
    page.get_by_label("rows", exact=True).press("Home")
    assert violations(page) == [] and not sideways(page)
    assert page.evaluate("""[...document.querySelectorAll("button, select, fieldset label, "
      + "input[type=range]")].every((e) => e.getBoundingClientRect().height >= 44)""")
    boxes = page.evaluate("""[...document.querySelectorAll(".rl-plot svg text")].map((t) => {
      const r = t.getBoundingClientRect(), s = t.closest("svg").getBoundingClientRect();
      return [t.textContent, r.left, r.top + 3, r.right, r.bottom - 3, s.left, s.right]; })""")
    for i, (one, l, t, r, b, left, right) in enumerate(boxes):
        assert l >= left - 1 and r <= right + 1, one
        for other, L, T, R, B in (box[:5] for box in boxes[i + 1:]):
            assert not (l < R and r > L and t < B and b > T), (one, other)


def test_in_jupyterlab_s_dark_theme(made, page_of):  # noqa: F811
    """JupyterLab's attribute and colours, without the book's."""
    page = page_of(
        '<style>html, main { --pst-color-text-base: initial; --pst-color-background: initial; '
        'background: #111; color: #fff; --jp-content-font-color1: #fff; --jp-layout-color0: #111 }'
        f'</style><div data-jp-theme-light="false">{made._repr_html_()}</div>', dark=False).page
    page.evaluate("delete document.documentElement.dataset.theme")
    page.click("text=Skip")
    assert violations(page) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.rl-piece')).fill") == (
        "rgb(116, 180, 255)")  # the dark theme's blue


def test_text_of_a_kernel_is_never_markup(folder, page_of):  # noqa: F811
    nasty = "</script><img src=x onerror='document.title=1'><b id=bad>&amp;"
    kernels = folder / "kernels.py"
    kernels.write_text(kernels.read_text().replace("Take fewer rows or columns", nasty))
    kernel = nki.load(kernels).matmul_c_stays
    live = figures.recount(kernel, "K M", "K N", M=M, K=K, N=N, rows=[512, 1024], columns=1024)
    seen = page_of(live._repr_html_())
    seen.page.click("text=Skip")
    seen.page.get_by_label("rows", exact=True).press("End")
    assert nasty in seen.page.inner_text(".rl-status")
    assert seen.page.locator("#bad, img").count() == 0 and seen.page.title() == "Test"
    assert not seen.complaints


def test_two_figures_on_a_page_keep_apart(made, page_of):  # noqa: F811
    page = page_of(made._repr_html_() * 2).page
    for skip in page.get_by_text("Skip").all()[::-1]:
        skip.click()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    page.get_by_label("rows", exact=True).nth(1).press("ArrowRight")
    reads = page.locator(".rl-reads dd").filter(has_text=re.compile("MB$"))
    assert reads.all_text_contents() == [units.show(n * 2 * M * M, "B") for n in (11, 7)]


# --- the source as it is saved -------------------------------------------------------------


def editable(folder, **more):
    return four([nki.load(folder / "kernels.py").matmul_c_stays], **more)


def test_an_edited_file_is_counted_as_it_is_now(folder):
    live, file = editable(folder), folder / "kernels.py"
    source = file.read_text()
    load = next(line for line in source.splitlines() if "dst=a_row" in line)
    before = live.current()
    assert before[0] is live.kernels and before[1] == "kernels.py"
    file.write_text(source.replace(load, f"{load}\n{load}"))
    kernels, name, version = live.current()
    assert name == "kernels.py" and version != before[2]
    # a comes twice as often: 2 more crossings of 2 M K bytes
    assert live.counted(live.start, kernels)["Q"] == (11 + 2) * 2 * M * M
    assert live.current()[0] is kernels  # and is not loaded again
    file.write_text(source)
    assert live.current() == before
    assert live.counted(live.start)["Q"] == 11 * 2 * M * M  # the cell's own stays what it was


def test_a_file_that_the_kernel_imports_counts_too(folder):
    (folder / "sizes.py").write_text("ROWS = 256\n")
    (folder / "mine.py").write_text(
        "import kernels\nimport sizes\n\ndef mine(a, b):\n"
        "    return kernels.matmul_c_stays(a, b, rows=sizes.ROWS)\n")
    live = figures.recount(nki.load(folder / "mine.py").mine, "K M", "K N", M=M, K=K, N=N)
    (folder / "sizes.py").write_text("ROWS = 512\n")
    kernels, name, _ = live.current()
    assert name == "mine.py" and live.counted(live.start, kernels)["Q"] == 7 * 2 * M * M


@pytest.mark.parametrize(("edit", "says"), [
    (lambda s: s + "\n)", r"load: .*kernels.py, line \d+: not Python: unmatched '\)'"),
    (lambda s: s.replace("def matmul_c_stays", "def other"),
     "kernels.py: it has no matmul_c_stays any more. Give the kernel its name back"),
    (lambda s: "1 / 0\n" + s, "load: .*kernels.py, line 1: ZeroDivisionError: "),
    (None, "load: .*no such file"),
])
def test_a_file_that_cannot_be_loaded_says_why(folder, edit, says):
    live, file = editable(folder), folder / "kernels.py"
    file.write_text(edit(file.read_text())) if edit else file.unlink()
    with pytest.raises(ValueError, match=says):
        live.current()


def test_a_pair_of_cores_stays_a_pair(folder):
    live = figures.recount(nki.load(folder / "kernels.py").mlp_up[2], "D B", "D F", B=1024, D=128,
                           F=[128, 256])
    # the weights come into both cores
    assert live.counts[0]["Q"] == 2 * (1024 * 128 + 2 * 128 * 128 + 1024 * 128)
    assert live.figure.data["chip"] == machine.trn2.at("lnc2").name
    file = folder / "kernels.py"
    file.write_text(file.read_text() + "\n")
    kernels, *_ = live.current()
    assert kernels[0] is not live.kernels[0]
    assert live.counted(live.start, kernels)["Q"] == live.counts[0]["Q"]


# --- the line to a kernel ------------------------------------------------------------------


class Line(list):
    """A Counter, and its answers in order."""

    def __init__(self, live, limit=20.0):
        super().__init__()
        self.counter = recount_channel.Counter(live, self.append, limit)

    def __call__(self, **content):
        self.counter.take(content)

    def ends(self, seconds=15.0):
        """The last answer, once nothing is at work."""
        deadline = time.monotonic() + seconds
        while self.counter.worker and self.counter.worker.is_alive():
            assert time.monotonic() < deadline, "it is still counting"
            time.sleep(0.01)
        return self[-1]


FOREVER = ("    m_tiles = tiles(", "    while True: pass\n    m_tiles = tiles(")


def test_a_setting_is_counted_on_request(made):
    line = Line(made)
    at = {**made.start, "rows": 384, "M": 1536}
    line(id=7, count=at)
    answer = line.ends()
    assert line[0] == {"id": 7, "taken": True} and answer["id"] == 7
    # N / 1024 and 1536 / 384
    assert answer["count"]["Q"] == 2 * (2 * 1536 * K + 4 * K * N + 1536 * N)
    assert json.loads(json.dumps(answer)) == answer


@pytest.mark.parametrize(("change", "says"), [
    ({"rows": 0}, "rows: got 0; expected a whole number from 1 to 1,048,576"),
    ({"rows": 2**21}, "rows: got 2097152; expected"),
    ({"rows": "128"}, "rows: got '128'; expected"), ({"rows": True}, "rows: got True"),
    ({"kernel": 9}, "kernel: got 9; expected 0 to 3"),
    ({"kernel": None}, "kernel: got None"), ({"more": 1}, r"got \{.*; expected a kernel and M, K")])
def test_what_is_no_setting_is_said(made, change, says):
    line = Line(made)
    line(id=1, count={**made.start, **change})
    assert re.match(says, line.ends()["error"])


def test_other_messages_are_passed_over(made):
    line = Line(made)
    for nothing in (None, 5, [], {}, {"stop": True}, {"id": 1}):
        line.counter.take(nothing)
    assert list(line) == []


def test_a_count_is_stopped_on_request_and_by_the_next(folder):
    live, file = editable(folder), folder / "kernels.py"
    source, line = file.read_text(), Line(live)
    file.write_text(source.replace(*FOREVER))
    line(id=1, count=live.start)
    time.sleep(0.3)
    line(stop=True)
    assert line.ends() == {"id": 1, "error": "it was stopped"}
    line(id=2, count=live.start)
    time.sleep(0.3)
    file.write_text(source)
    line(id=3, count=live.start)
    assert line.ends()["count"]["Q"] == 11 * 2 * M * M
    assert {"id": 2, "error": "another setting was asked for"} in line


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_count_without_end_is_ended(folder, lnc):
    file = folder / "kernels.py"
    kernel = nki.load(file).mlp_up
    live = figures.recount(kernel[2] if lnc == 2 else kernel, "D B", "D F", B=1024, D=128, F=128)
    file.write_text(file.read_text().replace("    F = w_up", "    while True: pass\n    F = w_up"))
    line = Line(live, limit=0.5)
    threads = threading.active_count()
    line(id=1, count=live.start)
    assert line.ends()["error"].startswith("it took over 0.5 s and was stopped. Take smaller sizes")
    time.sleep(0.2)
    assert threading.active_count() <= threads


def test_an_error_of_any_kind_is_told(folder, monkeypatch):
    live = editable(folder)
    monkeypatch.setattr(type(live), "record", lambda self, run: 1 / 0)
    line = Line(live)
    line(id=1, count=live.start)
    assert line.ends()["error"] == "ZeroDivisionError: division by zero"


# --- the page with a line ------------------------------------------------------------------

# A stand-in for anywidget's model: what it is sent goes to Python, in this page.
MODEL = """(mode) => {
  const heard = [];
  const model = { on: (name, f) => heard.push(f), async send(content) {
    if (window.gone) throw new Error("gone");
    if (window.mute) return;
    for (const message of await window.kernel(JSON.stringify(content))) {
      for (const f of heard) f(message);
    }
  } };
  const hand = () => document.dispatchEvent(new CustomEvent("rl-kernel",
    { detail: { token: "t", model: { on: model.on, send(content) {
      if (window.gone) throw new Error("gone");
      model.send(content);
    } } } }));
  window.hand = hand;
  hand();
}"""


@pytest.fixture
def connected(page_of, monkeypatch):  # noqa: F811
    """connected(live): its page, with Python behind it."""
    def connect(live):
        monkeypatch.setenv("JPY_SESSION_NAME", "page.ipynb")
        monkeypatch.setattr(recount_channel, "open_channel", lambda token, of: True)
        monkeypatch.setattr(figures.recounts.uuid, "uuid4", lambda: type("", (), {"hex": "t"}))
        page = page_of(live._repr_mimebundle_()["text/html"]).page

        def kernel(text):
            answers = []
            counter, content = recount_channel.Counter(live, answers.append), json.loads(text)
            if "count" in content:
                answers.append({"id": content["id"], "taken": True})
                counter._count(content)
            return answers

        page.expose_function("kernel", kernel)
        return page
    return connect


def says(page, text):
    page.wait_for_function(
        "(text) => document.querySelector('.rl-status').textContent.startsWith(text)", arg=text)


def rests(page):
    """Nothing is asked any more: the list is filled."""
    page.wait_for_function("document.querySelector('.rl-buttons button:last-child').disabled")


def test_a_live_kernel_counts_any_number_and_fills_the_list(made, connected):
    page = connected(made)
    page.click("text=Skip")
    assert "The notebook's kernel does not answer" in page.inner_text(".rl-controls")
    page.evaluate(MODEL, "")
    assert page.inner_text(".rl-controls .rl-source") == (
        "Live: this notebook's kernel counts each setting, from kernels.py as it is saved.")
    page.get_by_label("rows, exactly").fill("384")
    page.get_by_label("rows, exactly").press("Enter")
    says(page, "Refused: c_stays, rows 384, columns 1024. matmul_c_stays: its own assert failed: "
               "M: expected a multiple of 384, got 2048")
    page.get_by_label("M", exact=True).fill("1536")
    page.get_by_label("M", exact=True).press("Enter")
    Q = 2 * (2 * 1536 * K + 4 * K * N + 1536 * N)
    says(page, f"Q falls from {units.show(11 * 2 * M * M, 'B')} to {units.show(Q, 'B')}.")
    assert page.evaluate(READS) == shown(made.counted({**made.start, "rows": 384, "M": 1536}))
    # All of the list at this M, and the one that was typed; those refused have no bar.
    rests(page)
    assert "…" not in page.inner_text(".rl-plot")
    counts = [made.counted({**at, "M": 1536}) for at in made.grid]
    fine = sum("Q" in one for one in counts) + 1
    assert page.locator(".rl-piece").count() == 3 * fine
    refused = page.locator(".rl-plot").get_by_text("refused", exact=True)
    assert refused.count() == len(counts) + 1 - fine


def test_an_edit_is_noticed_and_its_refusal_told(folder, connected):
    live, file = editable(folder), folder / "kernels.py"
    source, page = file.read_text(), connected(live)
    page.click("text=Skip")
    page.evaluate(MODEL, "")
    again = page.get_by_text("Count again")
    rests(page)
    load = next(line for line in source.splitlines() if "dst=a_row" in line)
    file.write_text(source.replace(load, f"{load}\n{load}"))
    again.click()
    says(page, "kernels.py was edited, and is counted as it is now. "
               f"Q is {units.show(13 * 2 * M * M, 'B')}.")
    assert page.locator(".rl-tables").count() == 0  # those were of the source before
    rests(page)
    file.write_text(source.replace("BANK = 512", "BANK = 1024"))
    again.click()
    says(page, "kernels.py was edited, and is counted as it is now. "
         "Refused: rows 256, columns 1024. nc_matmul: moving: got [128, 1024]; its free dim may be "
         "at most 512 (gemm_moving_fmax). Split N into 2 tiles")
    rests(page)
    file.write_text(source + "\n)")
    again.click()
    says(page, "Not counted: load: ")
    assert "not Python: unmatched ')'" in page.inner_text(".rl-status")
    file.write_text(source)
    again.click()
    says(page, "kernels.py was edited, and is counted as it is now. Q is 92.3 MB.")


def test_a_silent_kernel_and_a_lost_one_are_told(made, connected):
    page = connected(made)
    page.evaluate(MODEL, "")
    page.click("text=Skip")
    rests(page)
    page.evaluate("window.mute = true")
    page.get_by_label("columns", exact=True).press("ArrowRight")
    says(page, "Counting c_stays, rows 256, columns 2048 …")
    says(page, "The kernel has not answered yet: it is busy with a cell, or was started anew. ")
    assert page.evaluate(READS)["bytes Q"] == units.show(10 * 2 * M * M, "B")  # as counted ahead
    page.evaluate("window.mute = false")
    page.get_by_label("rows", exact=True).press("ArrowRight")
    says(page, "Refused: c_stays, rows 512, columns 2048. ")
    page.evaluate("window.gone = true")
    page.get_by_label("columns", exact=True).press("ArrowLeft")
    before, after = (units.show(n * 2 * M * M, "B") for n in (11, 7))
    says(page, f"Q falls from {before} to {after}")
    assert "does not answer: run this cell again" in page.inner_text(".rl-controls")
    assert page.get_by_label("M", exact=True).count() == 0
