"""Predictions: what Python finds in a result's text, and what a page makes of a guess."""

import json

import pytest
from test_figures import sideways, violations, write

from roofline import figures
from roofline.figures.predictions import PredictionError

TEXT = """compute, bf16     derived               78.6 TFLOP/s
plain nest        derived  93.1 FLOP/B  34.9 TFLOP/s               HBM
T 1.5 ms, 25 % of P
"""
PARTS = {
    "I": {"label": "I of the plain nest", "unit": "FLOP/B",
          "found": r"^plain nest +derived +(\S+ FLOP/B)"},
    "T": {"label": "T", "unit": "s", "found": r"^T (\S+ \S+),"},
    "share": {"label": "share of P", "unit": "", "found": r"(\S+ %) of P"},
    "binds": {"label": "What binds?", "options": {"HBM": "moving bytes", "compute": "computing"},
              "found": r"^plain nest.* (\w+)$"},
}


def page_with(visit, tmp_path, parts=PARTS, **context):
    """The guess, then what it hides, as the built page has them."""
    path = tmp_path / "page.html"
    write(path, '<script>window.told = []; document.addEventListener("rl", (e) => '
          'told.push(e.detail));</script>'
          + figures.prediction("day5.plain", parts, TEXT, "result-plain")
          + '<div id="result-plain"><details class="hide"><summary>Show</summary>'
          f'<pre style="white-space: pre-wrap">{TEXT}</pre></details></div>')
    seen = visit(path.as_uri(), **context)
    assert not seen.complaints
    return seen.page


def rows(page) -> list[list[str]]:
    return [row.split("\t") for row in
            page.locator(".rl-beside tbody").inner_text().split("\n")]


@pytest.fixture
def page(visit, tmp_path):
    return page_with(visit, tmp_path)


@pytest.mark.parametrize(("parts", "says"), [
    ({"I": {"unit": "FLOP/B", "found": r"(\S+ FLOP/B)$"}}, "found 0"),
    ({"T": {"unit": "FLOP/s", "found": r"(\S+ TFLOP/s)"}}, "found 2"),
    ({"T": {"unit": "s", "found": r"\S+ ms"}}, None),
    ({"T": {"unit": "s", "found": r"T (\S+) (\S+),"}}, "one group"),
    ({"T": {"unit": "B", "found": r"^T (\S+ \S+),"}}, "the result says '1.5 ms': "),
    ({"b": {"options": {"DMA": "x"}, "found": r"(HBM)$"}}, "the result says 'HBM'; the options"),
    ({"T": {"found": r"^T (\S+ \S+),"}}, "give it a unit, or options"),
    ({"T": {"unit": "s", "right": 1, "found": "x"}}, "got right"),
    ({}, "asks for nothing"),
])
def test_a_prediction_that_its_page_cannot_show_is_refused(parts, says):
    if says is None:  # a pattern without a group gives all of it
        assert '"found":"1.5 ms"' in figures.prediction("day5.x", parts, TEXT)
        return
    with pytest.raises(PredictionError, match=says):
        figures.prediction("day5.x", parts, TEXT)
    with pytest.raises(PredictionError, match="expected a day and a name"):
        figures.prediction("x", PARTS, TEXT)


def test_a_guess_stands_beside_what_was_found(page):
    folded = page.locator("#result-plain details")
    assert folded.get_attribute("open") is None
    page.fill("input[name=I]", "186.2")
    page.fill("input[name=T]", "1500")
    page.select_option("select[aria-label='unit of T']", "us")
    page.check("input[value=compute]")
    page.press("input[name=I]", "Enter")
    assert folded.get_attribute("open") == ""
    assert rows(page) == [
        ["I of the plain nest", "186.2 FLOP/B", "93.1 FLOP/B", "2 times too high"],
        ["T", "1500 us", "1.5 ms", "the same"],
        ["share of P", "no guess", "25 %", ""],
        ["What binds", "computing", "moving bytes", "another"]]
    said = page.evaluate("told.at(-1)")
    assert said == {"what": "said", "kind": "guess", "id": "day5.plain", "data": {
        "skipped": False, "answers": {"I": "186.2", "T": "1500 us", "binds": "compute"}}}
    assert page.evaluate("document.activeElement.className") == "rl-ask"


@pytest.mark.parametrize(("mine", "said"), [
    ("93.1", "the same"),
    ("93.2", "within 0.5 %"),          # 93.2 / 93.1 = 1.001
    ("100", "7.4 % too high"),         # 6.9 / 93.1
    ("80", "14 % too low"),            # 13.1 / 93.1
    ("139", "49 % too high"),          # 45.9 / 93.1
    ("1", "93 times too low"), ("9310", "100 times too high"), ("12,000", "129 times too high"),
    ("93.1e9", "over 1000 times too high: check its unit"),
])
def test_how_far_off(page, mine, said):
    page.fill("input[name=I]", mine)
    page.click("text=Commit")
    assert rows(page)[0][3] == said


@pytest.mark.parametrize(("mine", "row"), [
    ("50", ["50 %", "2 times too high"]), ("0.5", ["0.5", "2 times too high"]),
    ("25 %", ["25 %", "the same"]), ("1", ["1", "4 times too high"]),
])
def test_a_share_in_percent_or_as_a_fraction(page, mine, row):
    page.fill("input[name=share]", mine)
    page.click("text=Commit")
    said = rows(page)[2]
    assert [said[1], said[3]] == row


def test_a_fold_inside_the_result_stays_as_it_is(visit, tmp_path):
    path = tmp_path / "page.html"
    write(path, figures.prediction("day5.plain", PARTS, TEXT, "r")
          + '<div id="r"><details class="hide"><summary>Show</summary><details id="data">'
          "<summary>Data</summary>x</details></details></div>")
    page = visit(path.as_uri()).page
    page.click("text=Skip")
    assert page.locator("#r > details").get_attribute("open") == ""
    assert page.locator("#data").get_attribute("open") is None


def test_what_is_no_number_is_said_and_nothing_unfolds(page):
    page.fill("input[name=T]", "soon")
    page.click("text=Commit")
    assert "no number in 'soon'" in page.inner_text("output[data-part=T]")
    page.fill("input[name=T]", "")
    page.click("text=Commit")
    assert page.inner_text(".rl-left") == "Guess at least one of them, or skip."
    assert page.locator("#result-plain details").get_attribute("open") is None
    assert [t["what"] for t in page.evaluate("told")] == ["ready"]


def test_skipping_unfolds_too(page):
    page.focus("text=Skip")
    page.keyboard.press("Enter")
    assert page.locator("#result-plain details").get_attribute("open") == ""
    assert page.locator(".rl-beside").count() == 0
    assert page.evaluate("told.at(-1).data") == {"answers": {}, "skipped": True}


@pytest.mark.parametrize(("kept", "open_"), [
    ({"answers": {"T": "2 ms"}, "skipped": False}, True),
    ({"answers": {}, "skipped": True}, True),
    # What another edition or another hand wrote: the guess is asked again.
    ({"answers": {"binds": "DMA", "T": "soon", "x": "1"}, "skipped": False}, False),
    (None, False), ({"answers": None}, False), ({"answers": {"T": 5}}, False),
])
def test_a_guess_of_an_earlier_visit(visit, tmp_path, kept, open_):
    path = tmp_path / "page.html"
    write(path, "<script>document.addEventListener('rl', (e) => e.detail.what === 'ready' && "
          f"e.detail.restore({json.dumps(kept)}));</script>"
          + figures.prediction("day5.plain", PARTS, TEXT, "r")
          + '<div id="r"><details class="hide"><summary>Show</summary>x</details></div>')
    seen = visit(path.as_uri())
    assert not seen.complaints
    assert (seen.page.locator("#r details").get_attribute("open") == "") == open_
    assert seen.page.locator("text=Commit").count() == (not open_)
    if kept and kept.get("answers") == {"T": "2 ms"}:
        assert rows(seen.page)[1] == ["T", "2 ms", "1.5 ms", "33 % too high"]  # 2 / 1.5


def test_without_script_it_says_what_to_guess(visit, tmp_path):
    page = page_with(visit, tmp_path, java_script_enabled=False)
    assert page.locator("input, button").count() == 0
    assert page.inner_text(".rl-static").splitlines() == [
        "I of the plain nest in FLOP/B", "T in s", "share of P", "What binds?", "moving bytes",
        "computing"]
    page.click("summary")
    assert page.locator("#result-plain pre").is_visible()


@pytest.mark.parametrize("context", [{}, {"color_scheme": "dark"},
                                     {"viewport": {"width": 320, "height": 640}}])
def test_it_is_accessible_before_and_after(visit, tmp_path, context):
    page = page_with(visit, tmp_path, **context)
    assert not violations(page) and not sideways(page)
    page.fill("input[name=T]", "2")
    page.click("text=Commit")
    assert not violations(page) and not sideways(page)


def test_text_of_a_result_is_never_markup(visit, tmp_path):
    nasty = "</script><b id=bad>"
    path = tmp_path / "page.html"
    write(path, figures.prediction("day5.x", {
        "a": {"label": nasty, "options": {nasty: nasty, "y": "y"}, "found": f"({nasty})"}}, nasty))
    seen = visit(path.as_uri())
    seen.page.check("input >> nth=1")
    seen.page.click("text=Commit")
    assert rows(seen.page) == [[nasty, "y", nasty, "another"]]
    assert seen.page.locator("#bad").count() == 0 and not seen.complaints

