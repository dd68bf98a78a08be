"""Slides: the book's figures and words, questions before what answers them, from disk by keys."""

import html
import re
import tomllib
from pathlib import Path

import pytest
from visits import violations
from workshop import Stop, pages, slides

from roofline import plot, problems
from roofline.check import Choice

BARE = re.compile(r"<(script|style|aside)\b.*?</\1>", re.S)
PLAN = tomllib.loads(slides.NAMES.read_text("utf-8"))


def said(markup: str) -> str:
    """What markup says, on one line."""
    text = re.sub(r"<[^>]+>", " ", BARE.sub(" ", markup))
    return re.sub(r"\s+", " ", html.unescape(text))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.fixture(scope="module")
def made(site, tmp_path_factory) -> Path:
    """Both kinds of slides, cut from the built book."""
    target = tmp_path_factory.mktemp("made")
    assert slides.main(["--book", str(site), "--to", str(target)]) == 0
    return target


def sections(deck: Path) -> list[str]:
    """A deck's slides, as HTML."""
    body = deck.read_text("utf-8").partition('<div class="slides">')[2]
    return re.split(r"^(?=<section )", body, flags=re.M)[1:]


# --- what stands on them -------------------------------------------------------------------


@pytest.mark.parametrize("day", slides.DAYS)
def test_a_day_has_eight_to_fifteen_slides_from_its_goal_on(made, day):
    shown = sections(made / "slides" / f"{day}.html")
    assert 8 <= len(shown) <= 15
    assert "Goal." in shown[0] and "Time." in shown[0]
    kinds = [re.match(r'<section class="(\w+)"', one)[1] for one in shown]
    assert kinds.count("figure") >= 2
    assert {"ask", "guess"} & set(kinds)


@pytest.mark.parametrize("day", slides.DAYS)
def test_figures_are_the_books_byte_for_byte(made, site, day):
    """Cut here by other means than there: between the marks with which figures begin and end."""
    book = [(site / f"{page}.html").read_text("utf-8") for page in PLAN[day]["pages"]]
    deck = (made / "slides" / f"{day}.html").read_text("utf-8")
    drawn = [part.split("</figure>")[0] for part in deck.split('<figure class="rl-figure">')[1:]]
    live = [part.split("\n</script>")[0] for part in deck.split('<div class="rl rl-live"')[1:]]
    assert len(drawn) + len(live) == sum("figure" in one for one in PLAN[day]["slides"])
    for figure in drawn:
        assert figure.count("<svg") >= 1
        assert any(f'<figure class="rl-figure">{figure}</figure>' in page for page in book)
    for figure in live:
        assert "figure.render({ model, el });" in figure or "mount();" in figure
        assert any(f'<div class="rl rl-live"{figure}' in page for page in book)
    assert plot.CSS in deck and all(plot.CSS in page for page in book)


@pytest.mark.parametrize("day", slides.DAYS)
def test_every_sentence_is_the_pages(made, site, day):
    book = squeezed("".join(said((site / f"{page}.html").read_text("utf-8"))
                            for page in PLAN[day]["pages"]))
    for one in sections(made / "slides" / f"{day}.html"):
        body = re.sub(r'<p class="(?:tag|id)">.*?</p>|<p>In your notebook:</p>', "", one)
        for paragraph in re.findall(r"<(?:p|h1|h2)\b[^>]*>(.*?)</(?:p|h1|h2)>", body, re.S):
            assert squeezed(said(paragraph)) in book, said(paragraph)


def right(id: str) -> list[str]:
    """A question's right numbers, but for those it gives itself."""
    question = problems.ask(id)
    return [part.answer for part in question.parts if not isinstance(part, Choice)
            and " " in part.answer and part.answer not in repr(question)]


@pytest.mark.parametrize("day", slides.DAYS)
def test_no_answer_stands_before_its_question(made, day):
    before, asked = "", set()
    for one in sections(made / "slides" / f"{day}.html"):
        for id in re.findall(r"<code>(?:ask\(&quot;)?(day\d\.[\w.-]+)", one):
            if id in problems.BANK:
                told = [text for text in right(id) if text not in asked
                        and re.search(rf"(?<![\d.,]){re.escape(text)}(?![\w/])", before)]
                assert not told, id
                asked |= set(right(id))
        # A live figure asks by itself; a figure's data are folded, in the book too.
        before += said(re.sub(r'<div class="shown live">.*|<details>.*?</details>', "", one,
                              flags=re.S))
    assert len(asked) >= 8


@pytest.mark.parametrize("day", slides.DAYS)
def test_answers_are_in_the_instructors_notes_alone(made, day):
    room = (made / "slides" / f"{day}.html").read_text("utf-8")
    mine = (made / "instructor/slides" / f"{day}.html").read_text("utf-8")
    assert "<aside" not in room and "notes.js" not in room
    assert not (made / "slides/reveal/notes.js").exists()
    notes = html.unescape("".join(re.findall(r'<aside class="notes">(.*?)</aside>', mine, re.S)))
    ids = set(re.findall(r"<code>(?:ask\(&quot;)?(day\d\.[\w.-]+)", room)) & set(problems.BANK)
    for id in ids:
        question = problems.ask(id)
        assert question._worked(page=True).strip() in notes, id
        for line in question._worked(page=True).splitlines()[1:]:
            if len(line) > 40 and line.strip() not in repr(question):
                assert html.escape(line.strip()) not in room, (id, line)
    assert re.sub(r'\n<aside.*?</aside>|<script src="reveal/notes.js"></script>\n', "", mine,
                  flags=re.S) == room


# --- what is refused -------------------------------------------------------------------------

FORM = ('<form class="rl rl-form" data-form-id="day1.x"><p class="rl-ask">What is P?</p>'
        '<ul class="rl-static"><li>P in FLOP/s</li></ul>'
        '<details class="worked"><pre>P = 7 FLOP/s</pre></details></form>')
PAGE = f"""<article><section id="top"><h1>Day<a class="headerlink" href="#top">#</a></h1>
<p><strong>Goal.</strong> See it. All of it.</p><section id="one"><h2>One</h2>
<p>A roof is <a href="x.html">flat</a>. It is <span class="math">\\(P\\)</span>, so:</p>
<div class="math">\\[P = 2\\]</div>{FORM}<p>It was seven.</p>
<figure class="rl-figure"><svg><text>7</text></svg></figure></section>
<section id="two"><h2>Two</h2><table><tr><td>a</td></tr></table></section></section></article>"""
ASK, AT = {"ask": "day1.x"}, {"at": "p#one"}


def cut(*entries: dict) -> list[slides.Slide]:
    return slides.slides(slides.Day("day1", {"p": pages.things(PAGE)}), entries, {"day1.x": "P"})


def test_a_slide_is_cut_from_its_page():
    made = cut(AT | {"says": ["A roof", "It is"]}, ASK, AT | {"says": ["It was"], "figure": 1},
               {"at": "p#two", "table": 1})
    assert [slide.where for slide in made] == ["", "One", "One", "One", "Two"]
    assert made[0].body == "<h1>Day</h1><p><strong>Goal.</strong> See it. All of it.</p>"
    assert made[1].body == ('<p>A roof is flat.</p><p>It is <span class="math">\\(P\\)</span>, so:'
                            '</p><div class="math">\\[P = 2\\]</div>')
    assert "What is P?" in made[2].body and "7" not in made[2].body
    assert "P = 7 FLOP/s" in made[2].note
    assert '<figure class="rl-figure"><svg><text>7</text></svg></figure>' in made[3].body
    assert "<table><tr><td>a</td></tr></table>" in made[4].body


@pytest.mark.parametrize(("entries", "why"), [
    ([AT | {"figure": 1}], "slide 2 shows what p has behind day1.x"),
    ([AT | {"says": ["It was"]}, ASK], "slide 2 shows what p has behind day1.x: 'It was seven.'"),
    ([{"at": "p#two", "table": 1}, ASK], r"slide 3 .* goes back to an earlier section"),
    ([AT | {"says": ["A wall"]}], "0 sentences begin with 'A wall'"),
    ([AT | {"says": ["It"]}], "2 sentences begin with 'It'"),
    ([ASK, AT | {"figure": 2}], "figure 2; the section has 1"),
    ([AT | {"says": []}], "name sentences"),
    ([{"at": "p#three", "says": ["It"]}], r"no section 'p#three'.*: top, one, two"),
    ([{"ask": "day1.y"}], "question 'day1.y': found 0"),
    ([{"result": "day1.x"}], "result of 'day1.x': found 0"),
    ([{"show": 1}], "got show; a slide has"),
])
def test_what_a_page_does_not_have_or_answers_too_early_is_refused(entries, why):
    with pytest.raises(Stop, match=why):
        cut(*entries)


def test_work_in_the_notebook_is_as_good_as_a_question():
    made = cut({"work": ["day1.x"]}, AT | {"figure": 1})
    assert "P <code>day1.x</code>" in made[1].body and "7 FLOP/s" in made[1].note


def test_without_the_book_it_says_how_to_build_it(tmp_path):
    with pytest.raises(Stop, match=r"course\.py build"):
        slides.main(["--book", str(tmp_path), "--to", str(tmp_path)])


# --- on the projector ------------------------------------------------------------------------

READY = "() => globalThis.Reveal?.isReady() && MathJax.startup.promise.then(() => true)"
# Of the slide that is shown: is something cut off, how small is it drawn, what is not ready.
STATE = """() => {
  const slide = Reveal.getCurrentSlide(), body = slide.querySelector(".body");
  const live = body.querySelector(".shown.live");
  return {
    fitted: slide.dataset.fitted === "1",
    cut: live ? 0 : body.scrollHeight - body.clientHeight,
    wide: body.scrollWidth - body.clientWidth,
    zoom: Number(body.style.zoom || 1) * Number(live?.style.zoom || 1),
    dead: slide.querySelectorAll(".rl-live:not([data-ready])").length,
    empty: [...slide.querySelectorAll(".shown")].filter((s) => s.offsetHeight < 250).length,
    math: slide.querySelectorAll(".math:not(:has(mjx-container)), mjx-merror").length,
    ground: getComputedStyle(document.body).backgroundColor, ink: getComputedStyle(body).color,
  };
}"""


def opened(visit, deck: Path, **options):
    seen = visit(deck.as_uri(), **({"viewport": {"width": 1280, "height": 720}} | options))
    seen.page.wait_for_function(READY)
    return seen


@pytest.mark.parametrize("day", slides.DAYS)
def test_a_day_is_shown_from_disk_by_keys_alone(made, visit, day):
    theme = "dark" if int(day[-1]) % 2 else "light"
    seen = opened(visit, made / "slides" / f"{day}.html", color_scheme=theme)
    count = seen.page.evaluate("Reveal.getTotalSlides()")
    assert count == len(sections(made / "slides" / f"{day}.html"))
    wrong = {}
    for number in range(1, count + 1):
        seen.page.wait_for_function("() => Reveal.getCurrentSlide().dataset.fitted === 'done'")
        state = seen.page.evaluate(STATE)
        if state["cut"] > 1 or state["wide"] > 1 or state["zoom"] < 0.6 or \
                state["dead"] + state["math"] + state["empty"]:
            wrong[number] = state
        assert (state["ground"] == "rgb(16, 20, 24)") == (theme == "dark"), state
        assert seen.page.evaluate("Reveal.getIndices().h") == number - 1
        seen.page.keyboard.press("ArrowRight" if number % 2 else "PageDown")
    assert not wrong
    seen.page.keyboard.press("Home")
    assert seen.page.evaluate("Reveal.getIndices().h") == 0
    assert not seen.complaints


def numbered(made: Path, day: str, what: str) -> int:
    return next(n for n, one in enumerate(sections(made / "slides" / f"{day}.html")) if what in one)


def test_a_live_figure_is_dragged_on_a_scaled_slide_and_keeps_its_keys(made, visit):
    number = numbered(made, "day1", 'class="shown live"')
    seen = opened(visit, made / "slides/day1.html", viewport={"width": 1700, "height": 956})
    page = seen.page
    page.evaluate(f"Reveal.slide({number})")
    page.wait_for_function("() => Reveal.getCurrentSlide().dataset.fitted === 'done'")
    mark = page.locator(".present .rl-guess .rl-mark")
    start = mark.bounding_box()
    x, y = start["x"] + start["width"] / 2, start["y"] + start["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60, steps=4)
    page.mouse.up()
    moved = mark.bounding_box()
    assert abs(moved["y"] + moved["height"] / 2 - (y - 60)) < 4     # it is where the pointer is
    page.keyboard.press("ArrowUp")      # the figure's key, not the slides'
    assert page.evaluate("Reveal.getIndices().h") == number
    assert mark.bounding_box()["y"] < moved["y"]
    page.keyboard.press("Escape")       # the keys go back to the slides
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number + 1
    page.keyboard.press("ArrowLeft")
    page.locator(".present").get_by_role("button", name="Skip").click()
    assert "Skip" not in page.locator(".present .rl-live").inner_text()
    assert not seen.complaints


def test_light_and_dark_by_a_key_and_both_readable(made, visit):
    number = numbered(made, "day2", 'class="shown drawn"')
    seen = opened(visit, made / "slides/day2.html", color_scheme="light")
    for theme in ("light", "dark"):
        assert seen.page.evaluate("document.documentElement.dataset.theme") == theme
        for slide in (number, number - 1):
            seen.page.evaluate(f"Reveal.slide({slide})")
            assert not violations(seen.page, ".present")
        seen.page.keyboard.press("d")


def test_the_instructor_has_a_window_with_the_answers(made, visit):
    number = numbered(made, "day1", "day1.cpu.spec")
    seen = opened(visit, made / "instructor/slides/day1.html")
    seen.page.evaluate(f"Reveal.slide({number})")
    with seen.page.context.expect_page() as popup:
        seen.page.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    notes.filter(has_text="1.02 TFLOP/s").wait_for(timeout=10_000)
    assert not seen.complaints


def test_the_list_of_days_leads_to_each(made, visit):
    seen = visit((made / "slides/index.html").as_uri())
    links = seen.page.evaluate("[...document.querySelectorAll('main a')].map((a) => a.href)")
    assert links == [(made / f"slides/{day}.html").as_uri() for day in slides.DAYS]
    assert not seen.complaints
    assert not violations(seen.page)
