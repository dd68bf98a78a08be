"""The live clockwork: its script is held to the library, its controls to a reader's hands."""

import random
import re

import pytest
from figuretext import uncut
from pages import ROOT
from test_figures import READS, page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import figures, machine, units
from roofline.clockwork import LOADS, Clockwork, ClockworkError
from roofline.figures import clockworks

CHIPS = {core.key: core for core in (machine.trn1, machine.trn2, machine.trn3)}
HERE = ROOT / "lib/roofline/figures"


# --- Python side ---------------------------------------------------------------------------


def test_the_question_and_the_tables_are_the_library_s():
    text = uncut(figures.clockwork())
    assert "one core of Trainium1 does 91.75 TFLOP/s at 2.8 GHz" in text and "K = 64" in text
    # 128 x 128 x 2 x 2.8 GHz; half of the rows; 32 of 64 columns; 512 of 544 and 128 of 160
    # cycles; fp32 a quarter
    for N, interval, rate in ((512, "512", "91.75"), (512, "512", "45.88"), (32, "64", "45.88"),
                              (512, "544", "86.35"), (128, "160", "73.4"), (512, "2048", "22.94")):
        assert re.search(rf" {N} .* {interval} cycles .* {rate} TFLOP/s", text), (N, interval)
    assert "documented for NeuronCore-v2, not restated for this core" in text  # of Trn2
    assert "modelled" in text and "no guide gives latencies" in text and "<" not in text
    assert figures.clockwork()._repr_html_() == figures.clockwork()._repr_html_()


def test_a_page_that_asks_for_the_numbers_gets_no_tables():
    text = uncut(figures.clockwork(tables=False))
    assert "What does the rate do?" in text and "45.88" not in text


@pytest.mark.parametrize(("options", "says"), [
    (dict(K=1), "K: got 0"), (dict(N=1000), "N: got 1000"), (dict(load="slow"), "hidden, shown"),
    (dict(dtype="fp8"), "no dense rate"), (dict(machines=[machine.h100]), "one NeuronCore"),
    (dict(array=4), "K: got 128; expected a whole number from 1 to 4")])
def test_what_it_cannot_show_it_says(options, says):
    with pytest.raises(ClockworkError, match=says):
        figures.clockwork(**options)


@pytest.mark.parametrize(("options", "says"), [
    (dict(dtype="fp16"), "dtype: got 'fp16'; the page has bf16"),
    (dict(matmuls=65), "matmuls: got 65; the page has 1 to 64"),
    (dict(array=16), "array: got 16; the page has 0, 8, 4")])
def test_what_the_page_has_not_is_refused(options, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        figures.clockwork(**options)


def test_half_of_k_is_one_number_for_text_table_and_page():
    """K = 6 in fp8's double row: half of it that a PE pair can hold is 2."""
    live = figures.clockwork([machine.trn2], dtype="fp8", K=6)
    assert live.data["half"] == 2 and "half as long, K = 2," in live.text
    toy = figures.clockwork(array=4, K=4, M=4, N=4, matmuls=4)
    assert "a grid of 4 × 4" in toy.text and "such an array does 89.6 GFLOP/s" in toy.text


# --- the script against the library --------------------------------------------------------


@pytest.fixture
def engine(page_of):  # noqa: F811
    """engine(run, cycles): what the page's script says of it, in one page load."""
    source = "\n".join(re.sub(r"^(import .*?;|export default .*?;|export )", "",
                              (HERE / f"{name}.mjs").read_text("utf-8"), flags=re.M | re.S)
                       for name in ("plot", "clockwork"))
    page = page_of(f"<script type=module>{source}; window.engine = engine;</script>").page
    chips = {key: clockworks.chip_data(core) for key, core in CHIPS.items()}
    page.evaluate("chips => { window.chips = chips; }", chips)

    def evaluate(asked, body):
        return page.evaluate(f"""asked => asked.map(({{ chip, setup, more }}) => {{
          const run = engine(chips[chip], setup); {body} }})""", [
            {"chip": run.core.key, "more": more, "setup": {
                **{name: getattr(run, name) for name in ("K", "M", "N", "dtype", "matmuls",
                                                         "load")}, "array": run.array or 0}}
            for run, more in asked])
    return evaluate


def drawn(draw, toy):
    core = draw.choice(list(CHIPS.values()))
    dtype = draw.choice([d for d in clockworks.DTYPES if d in core.peaks])
    array = draw.choice([4, 8]) if toy else None
    lanes = Clockwork(4, 1, 1, dtype, core).lanes
    return Clockwork(draw.randint(1, array or 128) * lanes, draw.randint(1, array or 128),
                     draw.choice([draw.randint(1, 16), draw.randint(1, 64), draw.randint(1, 512)])
                     if not toy else draw.randint(1, 16), dtype, core, draw.randint(1, 4),
                     draw.choice(list(LOADS)), array)


def test_200_random_shapes_agree_on_cycles_macs_and_active_pes(engine):
    """Active PEs of every cycle, MACs and the line read aloud at some, rates, shares, landmarks."""
    draw = random.Random(11)
    runs = [drawn(draw, toy) for toy in (False, True) for _ in range(100)]
    picked = [sorted({0, run.cycles - 1, *(draw.randrange(run.cycles) for _ in range(6))})
              for run in runs]
    got = engine(list(zip(runs, picked, strict=True)), """
      return { cycles: run.cycles, interval: run.interval, total: run.total, rate: run.rate,
        peak: run.peak, window: run.window, shares: run.shares, marks: run.marks(),
        active: Array.from({ length: run.cycles }, (_, t) => run.active(t)),
        macs: more.map(run.macs), text: more.map((t) => run.at(t).text) };""")
    for run, some, page in zip(runs, picked, got, strict=True):
        assert page["cycles"] == run.cycles and page["total"] == run.total, run
        assert page["active"] == [run.active(t) for t in range(run.cycles)], run
        assert page["macs"] == [run.macs(t) for t in some] and page["macs"][-1] == run.total, run
        assert page["text"] == [run.at(t).text for t in some]
        assert (page["interval"], page["window"]) == (run.interval, run.window)
        assert page["rate"] == pytest.approx(run.rate, rel=1e-14)
        assert page["peak"] == pytest.approx(run.peak, rel=1e-14)
        assert page["shares"] == pytest.approx(run.shares, rel=1e-14)
        assert page["marks"] == run.landmarks()
    assert {run.load for run in runs} == set(LOADS)
    assert {run.dtype for run in runs} == set(clockworks.DTYPES)


def test_the_page_multiplies_matrices(engine):
    """Every PE's weights, moving values and sum, and PSUM, at random cycles and at the end."""
    draw, asked = random.Random(12), []
    for _ in range(100):
        run = drawn(draw, toy=True)
        kept = run.load == "kept"
        deep, wide = run.K * (1 if kept else run.matmuls), run.N * (run.matmuls if kept else 1)
        a, b = ([[draw.randint(-9, 9) for _ in range(width)] for _ in range(deep)]
                for width in (run.M, wide))
        asked.append((run, {"a": a, "b": b, "at": [draw.randrange(run.cycles), run.cycles - 1]}))
    for (run, more), states in zip(asked, engine(
            asked, "return more.at.map((t) => run.state(t, more.a, more.b));"), strict=True):
        a, b = more["a"], more["b"]
        assert states[-1]["psum"] == [
            [sum(row[m] * other[n] for row, other in zip(a, b, strict=True))
             for n in range(len(b[0]))] for m in range(run.M)]
        for t, page in zip(more["at"], states, strict=True):
            want = run.state(t, a, b)
            assert page["psum"] == [list(row) for row in want.psum]
            assert page["pes"] == [[{"held": list(pe.held), "total": pe.total, "moving":
                                     None if pe.moving is None else list(pe.moving)}
                                    for pe in row] for row in want.pes]


# --- the page by its controls --------------------------------------------------------------


@pytest.fixture
def open_figure(page_of):  # noqa: F811
    """The figure past its question."""
    def open_it(live=None, **options):
        page = page_of((live or figures.clockwork())._repr_html_(), **options).page
        page.click("text=Skip")
        return page
    return open_it


def says(page) -> str:
    return page.inner_text(".rl-status")


def pick(page, name, value):
    page.get_by_label(name).select_option(value)


def test_the_rate_appears_and_what_halves_it(open_figure):
    """Full tiles; K = 64; N = 32; 2.4 GHz; loads shown; fp32: as the readouts say."""
    page = open_figure()
    page.click("button:text-is('Busiest')")
    page.keyboard.press("PageUp")

    def steady():
        return page.evaluate(READS)["back to back, steady"]

    assert page.evaluate(READS)["rate, last interval"] == "91.75 TFLOP/s, 100 % of P"
    for name, value, back, want in (
            ("K, contraction", "64", "128", "45.88 TFLOP/s, 50 % of P"),
            ("N, moving", "32", "512", "45.88 TFLOP/s, 50 % of P"),
            ("Chip", "trn2", "trn1", "78.64 TFLOP/s, 100 % of P"),
            ("Weights", "shown", "hidden", "86.35 TFLOP/s, 94.1 % of P"),
            ("Numbers", "fp32", "bf16", "22.94 TFLOP/s, 100 % of P")):
        pick(page, name, value)
        assert steady() == want, name
        if value == "32":
            read = page.evaluate(READS)
            assert read["interval of starts"] == "64 cycles, 22.9 ns"
            assert read["by moving size"] == "0.5: 32 of max(32, 64)"
        pick(page, name, back)
    assert steady() == "91.75 TFLOP/s, 100 % of P"


def test_the_controls_run_what_the_library_runs(open_figure):
    """30 settings drawn from a seed, by the real controls."""
    page, draw = open_figure(), random.Random(4)
    for _ in range(30):
        core = draw.choice(list(CHIPS.values()))
        pick(page, "Chip", core.key)
        dtype = draw.choice([d for d in clockworks.DTYPES if d in core.peaks])
        pick(page, "Numbers", dtype)
        array = draw.choice([0, 0, 4, 8])
        pick(page, "Array", str(array))
        chosen = {}
        for name, label in (("K", "K, contraction"), ("M", "M, stationary"), ("N", "N, moving"),
                            ("matmuls", "Matmuls"), ("load", "Weights")):
            options = page.get_by_label(label).locator("option").evaluate_all(
                "all => all.map((o) => o.value)")
            value = draw.choice(options)
            pick(page, label, value)
            chosen[name] = value if name == "load" else int(value)
        run = Clockwork(**chosen, dtype=dtype, core=core, array=array or None)
        page.click("button:text-is('End')")
        assert says(page) == run.at(run.cycles - 1).text
        cycle = int(page.locator("input[type=range]").evaluate(
            "(r) => { r.value = Math.round(r.max / 3); r.dispatchEvent(new Event('input')); "
            "return r.value; }"))
        assert says(page) == run.at(cycle).text
        read = page.evaluate(READS)
        assert read["back to back, steady"].startswith(units.show(run.rate, "FLOP/s", 4) + ", ")
        assert read["this whole run"].startswith(
            f"{run.cycles:,} cycles, {units.show(run.run_rate, 'FLOP/s', 4)}, ")
        assert page.url.endswith(f"@{cycle}")


def test_from_start_to_end_by_keyboard_alone(page_of):  # noqa: F811
    page = page_of(figures.clockwork()._repr_html_()).page
    assert page.locator(".rl-reads, .rl-transport button").count() == 0
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert says(page) == "Choose one of the three, or skip the guess."
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert not page.get_by_text("What does the rate do?").is_visible()  # it is answered now
    assert says(page).startswith("It falls from 91.75 TFLOP/s to 45.88 TFLOP/s.")
    assert "You said so." in says(page)
    assert page.evaluate("document.activeElement.type") == "range"  # the cycle
    run = Clockwork(128, 128, 512, matmuls=8)
    at = 0
    for key, to in (("ArrowRight", 1), ("ArrowUp", 2), ("ArrowLeft", 1), ("PageDown", 0),
                    ("PageUp", 512), ("PageUp", 1024), ("ArrowDown", 1023), ("PageDown", 511),
                    ("End", run.cycles - 1), ("ArrowRight", run.cycles - 1), ("Home", 0)):
        page.keyboard.press(key)
        at = to
        assert says(page) == run.at(at).text, key
        assert page.get_attribute("input[type=range]", "aria-valuetext") == (
            f"cycle {at} of {run.cycles - 1}")
    # Play and pause; then every control can be reached, and the run plays to its end.
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('input[type=range]').value > 20")
    assert page.get_attribute(".rl-status", "aria-live") == "off"  # no chatter while it plays
    page.keyboard.press("Space")
    stopped = page.input_value("input[type=range]")
    assert page.get_attribute(".rl-status", "aria-live") == "polite"
    assert says(page) == run.at(int(stopped)).text
    page.wait_for_timeout(100)
    assert page.input_value("input[type=range]") == stopped
    reached = []
    for _ in range(18):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id.split('-').at(-1) || "
                                     "document.activeElement.textContent"))
    assert reached[:8] == ["Back", "Play", "Step", "Start", "First sum", "Busiest", "Last column",
                           "End"]
    assert reached[8:17] == ["chip", "dtype", "array", "K", "M", "N", "matmuls", "load", "speed"]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("End")  # a select's own keys: the highest speed
    for _ in range(15):
        page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "Play"
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('input[type=range]').value == "
                           "document.querySelector('input[type=range]').max")
    assert says(page) == run.at(run.cycles - 1).text
    assert page.inner_text(".rl-main") == "Play"


def test_keys_step_from_any_button_and_leave_selects_alone(open_figure):
    page = open_figure()
    page.click("button:text-is('Step')")
    page.keyboard.press("ArrowRight")
    assert says(page).startswith("Cycle 2 of ")
    page.keyboard.press("Space")  # the button's own
    assert says(page).startswith("Cycle 3 of ")
    page.get_by_label("Matmuls").focus()
    page.keyboard.press("ArrowUp")
    assert page.input_value("[id$=matmuls]") == "4" and says(page).startswith("Cycle 3 of ")
    assert page.evaluate("document.activeElement.id.endsWith('matmuls')")


def test_values_pe_by_pe(open_figure):
    page = open_figure()
    pick(page, "Array", "4")
    run = Clockwork(4, 4, 8, matmuls=2, array=4)
    a = [[1 + (r + 2 * m) % 3 for m in range(4)] for r in range(8)]
    b = [[1 + (2 * r + n) % 3 for n in range(8)] for r in range(8)]
    for _ in range(run.cycles + 2):
        cycle = int(page.input_value("input[type=range]"))
        state = run.state(cycle, a, b)
        assert page.locator(".rl-psum td").all_inner_texts() == [
            "·" if value is None else str(value) for row in state.psum for value in row]
        assert page.locator(".rl-array svg .rl-value").all_text_contents() == [
            f"sum {pe.total}" for row in state.pes for pe in row if pe.total is not None]
        assert page.locator(".rl-pe-busy, .rl-pe-busy-odd").and_(
            page.locator("rect")).count() == run.active(cycle)
        page.click("button:text-is('Step')")
    assert page.locator(".rl-psum td").first.inner_text() == str(
        sum(a[r][0] * b[r][0] for r in range(8)))


def test_the_heat_map_is_drawn_pe_by_pe(open_figure):
    """Counted in the picture: pixels of the colour for multiplying are the active PEs' share."""
    page = open_figure(device_scale_factor=2)
    pick(page, "Matmuls", "1")
    for cycle in (0, 100, 200, 286, 700):
        page.locator("input[type=range]").evaluate(
            "(r, t) => { r.value = t; r.dispatchEvent(new Event('input')); }", cycle)
        share = page.evaluate("""() => {
          const c = document.querySelector("canvas"), pen = c.getContext("2d");
          const side = c.width / (128 + 14), high = Math.round(side * 128);
          const left = Math.round(side * 14);
          const { data } = pen.getImageData(left, 0, c.width - left, high);
          let busy = 0;
          for (let i = 0; i < data.length; i += 4) {
            busy += data[i] === 0xa8 && data[i + 1] === 0x43 && data[i + 2] === 0;
          }
          return [busy / (data.length / 4), c.width / c.clientWidth]; }""")
        run = Clockwork(128, 128, 512)
        assert share == pytest.approx([run.active(cycle) / 128**2, 2], abs=0.01)


# --- the address ---------------------------------------------------------------------------


def test_the_address_holds_the_moment(open_figure, visit):
    page = open_figure()
    assert "#" not in page.url
    pick(page, "Chip", "trn2")
    pick(page, "Numbers", "fp8")
    pick(page, "K, contraction", "256")
    pick(page, "N, moving", "64")
    pick(page, "Weights", "shown")
    page.click("button:text-is('First sum')")
    run = Clockwork(256, 128, 64, "fp8", machine.trn2, 8, "shown")
    cycle = run.landmarks()["first sum"]
    assert page.url.endswith(f"#clockwork=trn2.fp8.K256.M128.N64.x8.shown@{cycle}")
    other = visit(page.url).page
    assert says(other) == run.at(cycle).text  # no question first: the moment itself
    other.keyboard.press("Tab")
    assert other.locator(".rl-predict").count() == 0
    # Another link on the same page, and an odd size that no list has.
    other.evaluate("location.hash = 'clockwork=trn1.bf16.K5.M4.N7.x3.kept.A8@9'")
    other.wait_for_function("document.querySelector('[id$=array]').value === '8'")
    assert says(other) == Clockwork(5, 4, 7, matmuls=3, load="kept", array=8).at(9).text
    assert other.input_value("[id$=-K]") == "5"


def test_the_page_s_links_show_their_moments(page_of):  # noqa: F811
    """Each link of day3/clockwork, clicked one after the other above the figure."""
    text = (ROOT / "day3/clockwork.ipynb").read_text()
    links = re.findall(r"#clockwork=[\w.@]+", text)
    assert len(links) >= 6
    html = "".join(f"<a href='{link}'>{link}</a><br>" for link in links)
    page = page_of("<p style='height: 900px'></p>" + html + "<p style='height: 900px'></p>"
                   + figures.clockwork(tables=False)._repr_html_()
                   + "<p style='height: 900px'></p>").page
    for link in links:
        page.click(f"a:text-is('{link}')")
        page.wait_for_function("document.querySelector('.rl-reads')")
        page.wait_for_function("text => document.querySelector('.rl-status').textContent"
                               ".startsWith(text)", arg=f"Cycle {link.partition('@')[2]} of ")
        assert page.url.endswith(link)
        # The array itself comes into view, below the page's bar.
        page.wait_for_function("(({ top }) => top >= 0 && top < 120)(document"
                               ".querySelector('.rl-array').getBoundingClientRect())")
    page.evaluate("scrollTo(0, 0)")  # the same link once more: the address does not change
    page.click(f"a:text-is('{links[-1]}')")
    page.wait_for_function("document.querySelector('.rl-array').getBoundingClientRect().top < 120")


@pytest.mark.parametrize("hash_", ["#clockwork=", "#clockwork=trn1.bf16.K500.M128.N512.x8.hidden@0",
                                   "#clockwork=trn1.fp8.K64.M128.N512.x8.hidden@0", "#clockworks",
                                   "#clockwork=trn9.bf16.K64.M128.N512.x8.hidden@0",
                                   "#clockwork=trn1.bf16.K64.M128.N512.x8.toString@0",
                                   "#clockwork=trn1.toString.K64.M128.N512.x8.hidden", "#%"])
def test_a_link_that_is_none_asks_the_question(hash_, page_of, visit):  # noqa: F811
    url = page_of(figures.clockwork()._repr_html_()).page.url
    seen = visit(url + hash_)
    assert seen.page.locator(".rl-predict").count() == 1 and not seen.complaints
    assert seen.page.url.endswith(hash_)


def test_other_anchors_work(page_of, visit):  # noqa: F811
    html = ("<a href='#below'>go</a>" + figures.clockwork()._repr_html_()
            + "<p style='height: 2000px'></p><h2 id=below>Below</h2>")
    page = page_of(html).page
    page.click("text=go")
    assert page.url.endswith("#below") and page.evaluate("scrollY") > 500
    page.click("text=Skip")
    assert page.url.endswith("#below")  # until something is chosen
    page.click("button:text-is('Step')")
    assert page.url.endswith("#clockwork=trn1.bf16.K128.M128.N512.x8.hidden@1")
    page.click("text=go")
    assert page.url.endswith("#below") and says(page).startswith("Cycle 1 of")


def test_two_on_a_page_keep_apart_and_leave_the_address(page_of, visit):  # noqa: F811
    html = figures.clockwork()._repr_html_()
    seen = page_of(html + figures.roofline()._repr_html_() + html
                   + figures.clockwork(array=4, K=4, M=4, N=4)._repr_html_())
    page = seen.page
    for skip in page.get_by_text("Skip").all()[::-1]:
        skip.click()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    all_ = page.locator(".rl-live[data-module=clockwork]")
    all_.nth(1).locator("button:text-is('End')").click()
    all_.nth(2).get_by_label("N, moving").select_option("2")
    assert [all_.nth(i).locator("input[type=range]").input_value() for i in range(3)] == [
        "0", str(Clockwork(128, 128, 512, matmuls=8).cycles - 1), "0"]
    assert all_.nth(0).get_by_label("N, moving").input_value() == "512"
    assert "#" not in page.url
    again = visit(page.url + "#clockwork=trn1.bf16.K64.M128.N512.x8.hidden@5").page
    assert again.locator(".rl-predict").count() == 4


def test_in_jupyterlab_the_address_is_its_own(page_of):  # noqa: F811
    page = page_of("<div class=jp-Notebook><div class=jp-OutputArea>"
                   + figures.clockwork()._repr_html_() + "</div></div>").page
    page.click("text=Skip")
    page.click("button:text-is('Step')")
    assert says(page).startswith("Cycle 1 of") and "#" not in page.url


# --- readers -------------------------------------------------------------------------------


def test_reduced_motion_steps_from_stage_to_stage(open_figure):
    page = open_figure(reduced_motion="reduce")
    marks = Clockwork(128, 128, 512, matmuls=8).landmarks()
    assert page.inner_text(".rl-main") == "Next stage"
    page.locator("input[type=range]").focus()
    for cycle in sorted(set(marks.values()))[1:]:
        page.keyboard.press("Space")
        assert page.input_value("input[type=range]") == str(cycle)
        assert page.get_attribute(".rl-status", "aria-live") == "polite"
    page.wait_for_timeout(150)
    assert page.input_value("input[type=range]") == str(marks["end"])
    assert page.evaluate("document.getAnimations().length") == 0


def test_without_script_it_says_what_would_be_there(page_of):  # noqa: F811
    page = page_of(figures.clockwork()._repr_html_(), java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith("Where scripts run, a Tensor Engine")
    assert page.locator(".rl-tables table").count() == 3
    assert page.locator(".rl-tables table").last.is_visible()
    assert page.locator("input, button, select, canvas").count() == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(dark, width, page_of):  # noqa: F811
    page = page_of(figures.clockwork()._repr_html_(), dark=dark, reduced_motion="reduce",
                   viewport={"width": width, "height": 700}).page
    assert violations(page) == [] and not sideways(page)
    page.click("text=Skip")
    page.click("button:text-is('Busiest')")
    page.evaluate("document.querySelector('.rl-tables').open = true")
    for chip, dtype, array in (("trn1", "bf16", "0"), ("trn2", "fp8", "8"), ("trn1", "bf16", "4")):
        pick(page, "Chip", chip)
        pick(page, "Numbers", dtype)
        pick(page, "Array", array)
        page.click("button:text-is('Busiest')")
        assert violations(page) == []
        assert not sideways(page)
        assert page.evaluate("""[...document.querySelectorAll(
          "button, select, input[type=range], .rl-check")].every(
            (e) => e.getBoundingClientRect().height >= 44)""")
    # Text keeps its size, and what a PE shows stays inside of it.
    for array in ("8", "4"):
        pick(page, "Array", array)
        page.click("button:text-is('End')")
        page.click("button:text-is('Busiest')")
        small, out = page.evaluate("""() => {
          const svg = document.querySelector(".rl-array svg");
          const texts = [...svg.querySelectorAll("text")];
          const size = Math.min(...texts.map((t) => parseFloat(getComputedStyle(t).fontSize)
            * t.getScreenCTM().a));
          const boxes = [...svg.querySelectorAll("rect")].map((r) => r.getBoundingClientRect());
          const side = boxes[0].width;
          return [size, texts.filter((t) => !t.classList.contains("rl-memory")
            && t.getBoundingClientRect().width > side + 1).length]; }""")
        assert small >= 11.9 and out == 0
