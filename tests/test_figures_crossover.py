"""The live crossover: its numbers are the library's, set through its own controls."""

import math
import random
import re

import pytest
from figuretext import uncut
from test_figures import READS, page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import figures, machine, ops, units
from roofline.figures import crossovers
from roofline.machine import Machine, Spec

CHIPS = crossovers.chips()


def layer(B, D, F, dtypes=("bf16", "bf16")):
    return ops.Linear(B, D, F, *dtypes)


# --- Python side ---------------------------------------------------------------------------


def test_the_question_and_the_tables_are_the_library_s():
    text = uncut(figures.crossover())
    # 2.4 GHz x 128 x 128 x 2 over 3 TB/s / 8; B = r D F / (D F - r (D + F)) at D = F = 4096.
    ridge = 2.4e9 * 128 * 128 * 2 / 375e9
    assert "ridge at 210 FLOP/B" in text and "half the D: 2048" in text
    exact = ridge * 4096**2 / (4096**2 - ridge * 2 * 4096)
    assert re.search(rf"NeuronCore-v3 +bf16 +375 GB/s, derived +210 FLOP/B +{exact:.2f} +"
                     rf"{math.ceil(exact)} +2048 FLOP/B", text)
    # int8 weights halve them: half the batch.
    assert re.search(rf"bf16, int8 weights +375 GB/s, derived +210 FLOP/B +{exact / 2:.2f}", text)
    assert re.search(r"^1 +33.6 MFLOP +8.19 kB +33.6 MB +8.19 kB .* memory +89.5 us$", text, re.M)
    assert re.search(rf"^{math.ceil(exact)} .* compute ", text, re.M)
    assert "<" not in text
    assert figures.crossover()._repr_html_() == figures.crossover()._repr_html_()


@pytest.mark.parametrize(("options", "says"), [
    (dict(D=2**19), "D is 524288; the figure spans 16 to 262144"),
    (dict(B=0), "B is 0; the figure spans 1 to"),
    (dict(D="4096"), "D: expected a whole number"),
    (dict(dtypes=[("bf16", "int3")]), "w_dtype: expected one of"),
    (dict(dtypes=[("fp64", "fp64")]), "trn2 has no peak for any of fp64"),
    (dict(dtypes=[("int8", "int8"), ("bf16", "bf16")]), "trn2 has no peak for the first dtype"),
    (dict(dtypes=[]), "no peak for any of"),
    (dict(D=128, F=128), "no batch of D = 128, F = 128 reaches the ridge of trn2"),
])
def test_what_it_cannot_show_it_says(options, says):
    with pytest.raises(ValueError, match=says):
        figures.crossover(**options)


# --- the page ------------------------------------------------------------------------------


def expected(here, chip, dtype, figure):
    """The read-outs of a Linear on a chip with one of its bandwidth figures."""
    link = chip.slow_link
    there = chip.using(**{link: figure - 1}) if figure else chip
    ridge, count = there.ridge(dtype), here.algorithmic
    got, cross = there.entitle(count), ops.crossover(here, "B", ridge)
    exact = here.crossover(ridge)
    assert exact == pytest.approx(cross.exact, rel=1e-6)
    # As B grows p_w D F no longer counts: 2 D F / (p_x D + p_y F), p_x = p_y here.
    limit = 2 * here.D * here.F / (ops.BYTES[dtype] * (here.D + here.F))
    assert limit == pytest.approx(cross.limit, rel=1e-6)
    x, w, y = (t.read_bytes + t.write_bytes for t in here.tensors)

    def share(part):
        return (f"{units.show(part, 'B')}, "
                f"{units.significant(100 * part / count.hbm_bytes)} %")

    return {
        "work W": units.show(count.flops, "FLOP"), "bytes Q": units.show(count.hbm_bytes, "B"),
        "of Q, x": share(x), "of Q, weights": share(w), "of Q, y": share(y),
        "I = W / Q": units.show(got.intensity, "FLOP/B"),
        "ridge P / BW": units.show(got.ridge, "FLOP/B"),
        "bound by": "compute" if got.binds == "compute" else "memory",
        "T_best": units.show(got.t_best, "s"),
        "crosses at B": "no batch reaches this ridge" if exact == math.inf else f"{exact:.2f}",
        "first whole B": "none" if cross.least == math.inf else str(cross.least),
        "I stays below": units.show(limit, "FLOP/B"),
    }


def each_figure(here, chip, dtype):
    """What the list of bandwidth figures says."""
    link = chip.bandwidths[chip.slow_link]
    for spec in (link, *link.rivals):
        ridge = chip.peak(dtype) / spec.value
        least = ops.crossover(here, "B", ridge).least
        yield (f"{spec.text}: ridge {units.significant(ridge)}, "
               + ("no batch reaches it" if least == math.inf else f"from B = {least} on"))


FIGURES = """() => [...document.querySelectorAll(".rl-figures span > b")].map((b) =>
  b.textContent + ": " + b.parentNode.querySelector(".rl-then").textContent)"""


@pytest.fixture
def open_figure(page_of):  # noqa: F811
    """The figure past its question."""
    def open_it(live=None, **options):
        page = page_of((live or figures.crossover())._repr_html_(), **options).page
        page.click("text=Skip")
        return page
    return open_it


def by_slider(page, symbol, draw):
    """A random place of a slider, by its keys; gives the size it shows."""
    slider = page.locator(f".rl-sizes input[type=range] >> nth={'BDF'.index(symbol)}")
    slider.focus()
    page.keyboard.press(draw.choice(["Home", "End"]))
    keys = ["ArrowRight", "ArrowLeft", "PageUp", "PageDown"]
    for key in draw.choices(keys, k=draw.randint(1, 9)):
        page.keyboard.press(key)
    assert slider.get_attribute("aria-valuetext") == page.input_value(
        f"input[aria-label='{symbol}, exactly']")
    return int(slider.get_attribute("aria-valuetext"))


def by_text(page, symbol, draw):
    low, high = crossovers.SIZES[symbol]
    size = round(math.exp(draw.uniform(math.log(low), math.log(high))))
    field = page.get_by_label(f"{symbol}, exactly")
    field.fill(draw.choice(["{}", "{:,}", " {} "]).format(size))
    field.press("Enter")
    return size


def test_the_page_is_the_library_on_100_settings(open_figure):
    """Chip, dtypes, figure, B, D, F and the lock, drawn from a seed, by the real controls."""
    page, draw = open_figure(), random.Random(3)
    now = {"B": 1, "D": 2048, "F": 4096}
    locked, sides = False, set()
    for _ in range(100):
        chip = draw.choice(CHIPS)
        page.get_by_label("Chip", exact=True).select_option(label=chip.name)
        dtypes = draw.choice([pair for pair in crossovers.DTYPES if pair[0] in chip.peaks])
        label = dtypes[0] if dtypes[0] == dtypes[1] else f"{dtypes[0]}, {dtypes[1]} weights"
        page.get_by_label("Dtypes", exact=True).select_option(label=label)
        figure = draw.randrange(1 + len(chip.bandwidths[chip.slow_link].rivals))
        page.locator(".rl-figures input").nth(figure).check()
        if draw.random() < 0.2:
            locked = not locked
            page.get_by_label("keep F = D").set_checked(locked)
            now["F"] = now["D"] if locked else now["F"]
        for symbol in draw.sample("BDF", draw.randint(1, 3)):
            now[symbol] = draw.choice([by_slider, by_text])(page, symbol, draw)
            if locked and symbol in "DF":
                now["D"] = now["F"] = now[symbol]
        here = layer(**now, dtypes=dtypes)
        want = expected(here, chip, dtypes[0], figure)
        assert page.evaluate(READS) == want, (here, chip.name, figure)
        assert page.evaluate(FIGURES) == list(each_figure(here, chip, dtypes[0]))
        point = page.locator(".rl-point")
        assert point.get_attribute("aria-valuetext") == (
            f"B = {here.B}, I = {want['I = W / Q']}, {want['bound by']}-bound")
        sides.add((want["bound by"], want["first whole B"] == "none"))
    assert len(sides) == 3  # compute, memory on the way, memory for ever: all were there


def test_the_first_whole_batch_is_the_one_the_library_finds(open_figure):
    """B = 240 exactly: 8 FLOP/B of 1 TFLOP/s; no rounding may move it by one."""
    toy = Machine("toy", "Toy", "device", {"bf16": Spec(8e12, "FLOP/s", "caller", "assumed")},
                  {"HBM": Spec(1e12, "B/s", "caller", "assumed")})
    # B = r D F / (D F - r (D + F)): r = 8, D = F = 32 gives 8 x 1024 / (1024 - 512) = 16.
    assert layer(1, 32, 32).crossover(8) == 16
    page = open_figure(figures.crossover([toy], D=64, F=32))
    page.get_by_label("D, exactly").fill("32")
    page.get_by_label("D, exactly").press("Enter")
    read = page.evaluate(READS)
    assert (read["crosses at B"], read["first whole B"]) == ("16.00", "16")
    for B, side in ((15, "memory"), (16, "compute")):
        page.get_by_label("B, exactly").fill(str(B))
        page.get_by_label("B, exactly").press("Enter")
        assert page.evaluate(READS)["bound by"] == side


def test_guess_first_by_keyboard_alone(page_of):  # noqa: F811
    page = page_of(figures.crossover()._repr_html_()).page
    assert page.locator(".rl-reads, .rl-sizes, .rl-rival").count() == 0
    assert not page.locator(".rl-point").is_visible()
    assert "crosses here" in page.locator(".rl-plot text").all_text_contents()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status") == "Choose one of the three, or skip the guess."
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    ridge = machine.trn2.ridge("bf16")
    whole, half = (ops.crossover(layer(1, D, 4096), "B", ridge).least for D in (4096, 2048))
    said = page.inner_text(".rl-status")
    assert said.startswith(f"At a larger batch: {half} instead of {whole}.")
    assert said.endswith("You said so.")
    assert page.evaluate("document.activeElement.classList.contains('rl-point')")
    # On along the axis with the point's own keys: 8 steps a doubling, 10 a page.
    for key in ["PageUp"] * 4:
        page.keyboard.press(key)
    here = page.get_attribute(".rl-point", "aria-valuetext")
    page.keyboard.press("End")
    assert page.get_attribute(".rl-point", "aria-valuetext").startswith("B = 65536, I = ")
    page.keyboard.press("Home")
    assert page.get_attribute(".rl-point", "aria-valuetext") == (
        "B = 1, I = 0.999 FLOP/B, memory-bound")
    assert re.fullmatch(r"B = \d\d+, I = [\d.]+ FLOP/B, memory-bound", here)


def test_a_wrong_guess_and_none(page_of):  # noqa: F811
    page = page_of(figures.crossover()._repr_html_()).page
    page.get_by_label("at the same batch").check()
    page.click("text=Check my guess")
    assert page.inner_text(".rl-status").endswith("You said at the same batch.")
    page = page_of(figures.crossover(D=500)._repr_html_()).page
    page.click("text=Skip")
    said = page.inner_text(".rl-status")  # I stays below 2 x 250 x 4096 / 2 (250 + 4096) = 236
    assert said.startswith("At a larger batch") and "You said" not in said
    page = page_of(figures.crossover(D=400)._repr_html_()).page
    page.click("text=Skip")  # below 191
    assert page.inner_text(".rl-status").startswith("At no batch at all")
    assert page.get_by_text("Zoom in").is_disabled()


def test_what_cannot_be_a_size_is_said_and_changes_nothing(open_figure):
    page = open_figure()
    before, field = page.evaluate(READS), page.get_by_label("D, exactly")
    for text in ("", "abc", "0", "1.5", "-4", "1e4", "4,09", "300000", "15"):
        field.fill(text)
        field.press("Enter")
        assert page.inner_text(".rl-status").startswith(
            "D: expected a whole number from 16 to 262144, got \"")
        assert field.get_attribute("aria-invalid") == "true"
        assert page.evaluate(READS) == before
    field.fill("2,048")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") is None and field.input_value() == "2048"


def test_a_chip_without_the_dtype_gets_its_first_one(open_figure):
    page = open_figure()
    chip, dtypes = (page.get_by_label(name, exact=True) for name in ("Chip", "Dtypes"))
    dtypes.select_option(label="fp8")
    page.locator(".rl-figures input").nth(2).check()
    chip.select_option(label=machine.tpu_v5e.name)
    assert dtypes.locator("option:checked").inner_text() == "bf16"
    assert "fp8" not in dtypes.locator("option").all_inner_texts()
    assert page.locator(".rl-figures input").first.is_checked()
    assert page.evaluate("document.activeElement === document.querySelector('select')")
    assert "crosses at B = " in page.inner_text(".rl-status")


def test_zoom_keeps_the_point_in_view(open_figure):
    page = open_figure()
    zoom = page.get_by_text("Zoom in")
    page.get_by_label("B, exactly").fill("300")
    page.get_by_label("B, exactly").press("Enter")
    page.locator(".rl-figures input").nth(1).check()
    zoom.click()
    assert zoom.get_attribute("aria-pressed") == "true"
    named = page.locator(".rl-plot text").all_text_contents()
    assert {"500 GB/s: 157", "ridge 217"} <= set(named)
    exact = layer(1, 2048, 4096).crossover(machine.trn2.using(HBM=0).ridge("bf16"))
    page.focus(".rl-point")
    for key, B in (("End", math.floor(4 * exact)), ("Home", math.ceil(exact / 4))):
        page.keyboard.press(key)
        assert page.get_attribute(".rl-point", "aria-valuetext").startswith(f"B = {B}, ")
        assert page.locator(".rl-point").is_visible()
    page.get_by_label("B, exactly").fill("1")
    page.get_by_label("B, exactly").press("Enter")
    assert not page.locator(".rl-point").is_visible()
    zoom.click()
    assert page.locator(".rl-point").is_visible()


def test_dragging_by_mouse(open_figure):
    page = open_figure(viewport={"width": 900, "height": 900})
    point, plot = page.locator(".rl-point"), page.locator(".rl-plot svg").bounding_box()
    page.mouse.click(plot["x"] + 300, plot["y"] + 100)
    B = int(page.input_value("input[aria-label='B, exactly']"))
    assert B > 30
    box = point.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80, y, steps=4)
    page.mouse.up()
    assert int(page.input_value("input[aria-label='B, exactly']")) > 3 * B
    assert page.get_attribute(".rl-status", "aria-live") == "off"  # no chatter while dragging


def test_without_script_it_says_what_would_be_there(page_of):  # noqa: F811
    page = page_of(figures.crossover()._repr_html_(), java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith("Where scripts run, a chart of ")
    assert "Does it reach the ridge" in page.inner_text(".rl-live")
    assert page.locator(".rl-tables table").count() == 3
    assert page.locator(".rl-tables table").last.is_visible()
    assert page.locator("input, button, select").count() == 0


def test_several_figures_on_a_page(page_of):  # noqa: F811
    html = figures.crossover()._repr_html_()
    page = page_of(html + figures.roofline()._repr_html_() + html).page
    for skip in page.get_by_text("Skip").all()[::-1]:
        skip.click()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    second = page.locator(".rl-live").nth(2)
    second.get_by_label("B, exactly").fill("99")
    second.get_by_label("B, exactly").press("Enter")
    assert [page.locator(".rl-live").nth(i).get_by_label("B, exactly").input_value()
            for i in (0, 2)] == ["1", "99"]


def test_data_is_text_never_markup(page_of):  # noqa: F811
    nasty = '</script><img src=x onerror="document.title=1"><b id=bad>"&amp;'
    toy = Machine(nasty, nasty, "device", {"bf16": Spec(8e12, "FLOP/s", nasty, "assumed", nasty)},
                  {nasty: Spec(1e11, "B/s", nasty, "assumed", nasty)})
    seen = page_of(figures.crossover([toy, machine.trn2])._repr_html_())
    page = seen.page
    page.click("text=Skip")
    page.get_by_label("D, exactly").fill(nasty)
    page.get_by_label("D, exactly").press("Enter")
    assert nasty in page.inner_text(".rl-question") and nasty in page.inner_text(".rl-figures")
    assert page.locator("#bad, img").count() == 0 and page.title() == "Test"
    assert not seen.complaints


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(dark, width, page_of):  # noqa: F811
    page = page_of(figures.crossover()._repr_html_(), dark=dark, reduced_motion="reduce",
                   viewport={"width": width, "height": 700}).page
    assert violations(page) == []
    page.click("text=Skip")
    page.get_by_text("Zoom in").click()
    page.get_by_label("D, exactly").fill("no size")
    page.get_by_label("D, exactly").press("Enter")
    page.evaluate("document.querySelector('.rl-tables').open = true")
    assert violations(page) == []
    assert not sideways(page)
    assert page.evaluate("""[...document.querySelectorAll(
      "button, select, .rl-sizes input, fieldset label, .rl-check")].every(
        (e) => e.getBoundingClientRect().height >= 44)""")
    assert page.evaluate("""Math.min(...[...document.querySelectorAll(".rl-plot text")].map(
      (t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))""") >= 11.9


@pytest.mark.parametrize("width", [320, 390, 900])
def test_labels_keep_apart(width, open_figure):
    """No two labels of the plot overlap or leave it, wherever the controls stand."""
    page = open_figure(viewport={"width": width, "height": 700})
    for chip in ("trn2", "h100", "tpu_v5e"):
        page.get_by_label("Chip", exact=True).select_option(label=machine.get(chip).name)
        for zoomed in (False, True):
            for B, D, F in ((1, 2048, 4096), (64, 4096, 4096), (300, 8192, 1024),
                            (65536, 16384, 53248), (2, 64, 64), (65536, 262144, 262144)):
                for symbol, size in zip("BDF", (B, D, F), strict=True):
                    page.get_by_label(f"{symbol}, exactly").fill(str(size))
                    page.get_by_label(f"{symbol}, exactly").press("Enter")
                zoom = page.get_by_text("Zoom in")
                pressed = zoom.get_attribute("aria-pressed") == "true"
                if zoom.is_enabled() and pressed != zoomed:
                    zoom.click()
                boxes = page.evaluate("""[...document.querySelectorAll(".rl-plot text")].map(
                  (t) => { const r = t.getBoundingClientRect();
                    return [t.textContent, r.left, r.top + 3, r.right, r.bottom - 3]; })""")
                for i, (one, l, t, r, b) in enumerate(boxes):
                    assert l >= 0 and r <= width, (chip, B, D, F, zoomed, one)
                    for other, L, T, R, B_ in boxes[i + 1:]:
                        assert not (l < R and r > L and t < B_ and b > T), (
                            chip, B, D, F, zoomed, one, other)
