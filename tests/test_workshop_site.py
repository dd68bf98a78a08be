"""The student edition as a site and on paper: every question, no answer, from disk."""

import html
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from pages import ROOT
from workshop import Stop, editions, site

from roofline import problems
from roofline.check import Choice

PAGES = editions.pages()
LEFT_OUT = {"practice", "explorer"}


def marks(page: str, name: str) -> list[str]:
    """Ids of the questions ("ask") or predictions ("guess") of a page, read from its notebook."""
    cells = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))["cells"]
    if name == "guess":
        guesses = [cell["metadata"].get("roofline", {}).get("predict") for cell in cells]
        return [guess["id"] for guess in guesses if guess]
    # A question that an earlier cell asked gives its numbers to a later one.
    return list(dict.fromkeys(
        id for cell in cells if cell["cell_type"] == "code"
        for id in re.findall(r'^\w+ = ask\("([\w.-]+)"', "".join(cell["source"]), re.M)))


def said(markup: str) -> str:
    """What markup says, spaces as one."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", markup, flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


# --- made once -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The student notebooks, their site and the handout."""
    folder = tmp_path_factory.mktemp("class")
    editions.write(folder / "student", {page: editions.stripped(editions.keyed(editions.read(
        ROOT / f"{page}.ipynb"))) for page in PAGES})
    where = ["--student", str(folder / "student"), "--to", str(folder)]
    assert site.main(where) == 0
    assert site.handout(where) == 0
    return folder


def test_every_page_is_there_but_practice_and_explorer(made):
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    names = {toc["root"]} | {chapter["file"] for part in toc["parts"]
                             for chapter in part["chapters"]}
    built = {path.relative_to(made / "site").with_suffix("").as_posix()
             for path in (made / "site").rglob("*.html") if "_static" not in path.parts}
    assert built == names - LEFT_OUT | {"index", "search"}
    assert not list((made / "site").rglob("*.tmp")) and not (made / ".site.new").exists()


def test_nothing_of_the_books_forms_answers_and_data_is_in_it(made):
    for path in (made / "site").rglob("*.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"<form class=\"rl|rl-live|rl-form|class=\"worked|Worked answer|"
                             r"rl-cells|practice\.|explorer\.html|progress\.js|run\.js|book\.html|"
                             r"-folder\.zip", text), path
        assert "application/json" not in text, path
    static = {path.relative_to(made / "site/_static").as_posix()
              for path in (made / "site/_static").rglob("*")}
    assert not {name for name in static if name.startswith(("python", "practice"))}
    assert not static & {"progress.js", "run.js", "run.worker.mjs", "paper.css"}
    assert {"vendor/mathjax/tex-mml-chtml.js", "finding.js", "theme.js"} <= static


@pytest.mark.parametrize("page", PAGES)
def test_a_page_asks_all_its_questions_and_answers_none(made, page):
    text = (made / f"site/{page}.html").read_text("utf-8")
    asked = re.findall(r'data-kind="ask" data-id="([\w.-]+)"', text)
    assert asked == marks(page, "ask")
    assert re.findall(r'data-kind="guess" data-id="([\w.-]+)"', text) == marks(page, "guess")
    # Code is the notebook's, and goes through its own tests.
    shown = said(re.sub(r"<pre>.*?</pre>", "", text, flags=re.S))
    given = " ".join(" ".join(repr(problems.ask(id)).split()) for id in asked)
    for id in asked:
        question = problems.ask(id)
        assert " ".join(question.form_data()["ask"].split()) in shown
        for part in question.parts:
            if not isinstance(part, Choice) and " " in part.answer and part.answer not in given:
                assert not re.search(rf"(?<![\d.,]){re.escape(part.answer)}(?![\w/])", shown), (
                    id, part.answer)
        for line in question._worked(page=True).splitlines()[1:]:
            line = " ".join(line.split())
            if len(line) > 40 and line not in given:
                assert line not in shown, (id, line)


def test_its_index_is_its_own(made):
    index = (made / "site/searchindex.js").read_text("utf-8")
    names = json.loads(re.search(r'"docnames": ?(\[[^\]]*\])', index)[1])
    assert "day1/roofline" in names and not LEFT_OUT & set(names)
    assert '"entries":' in (made / "site/search.html").read_text("utf-8")


def test_its_zip_is_the_site(made):
    with zipfile.ZipFile(made / "site/entitlement-to-roofline.zip") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        home = archive.read("entitlement-to-roofline/intro.html").decode()
    assert {"index.html", "day7/capstone.html", "searchindex.js"} <= names
    assert not {name for name in names if re.search(r"practice|python/|progress", name)}
    assert "student edition" in home and "MB" not in home.partition("<footer")[2]


SETTLED = "() => window.MathJax?.startup?.promise?.then(() => true) ?? true"


def test_its_zip_opens_from_disk(made, visit, tmp_path):
    with zipfile.ZipFile(made / "site/entitlement-to-roofline.zip") as archive:
        archive.extractall(tmp_path)
    top = tmp_path / "entitlement-to-roofline"
    seen = visit((top / "search.html").as_uri() + "?q=ridge")
    seen.page.wait_for_selector("#search-results li a")
    wrong = {}
    for page in ("intro", "howto", "notation", "day1/roofline", "day5/reuse", "day7/capstone"):
        seen.page.goto((top / f"{page}.html").as_uri(), wait_until="load")
        seen.page.evaluate(SETTLED)
        math = seen.page.evaluate("""() => document.querySelectorAll(
            'article .math:not(:has(mjx-container)), mjx-merror').length""")
        bad = [what for what in seen.complaints if "favicon.svg" not in what]
        if bad or math:
            wrong[page] = bad, math
    assert not wrong


# --- on paper --------------------------------------------------------------------------------


def test_the_handout_has_every_prompt_with_room_and_no_answer(made):
    days: dict[str, list[str]] = {}
    for page in PAGES:
        days.setdefault(page.partition("/")[0], []).extend(
            [*marks(page, "ask"), *marks(page, "guess")])
    files = {path.stem: path.read_text("utf-8") for path in (made / "handout").glob("*.html")}
    assert set(files) == {*days, "index"}
    for day, ids in days.items():
        text = files[day]
        assert sorted(re.findall(r'<p class="number">\w+ \d+ <code>(.*?)</code>', text)) == \
            sorted(ids)
        assert re.findall(r'<p class="number">\w+ (\d+) ', text) == \
            [str(n) for n in range(1, len(ids) + 1)]
        assert text.count('<div class="room ') == len(ids)
        assert f'href="{day}.html"' in files["index"]
        shown, given = said(text), " ".join(
            " ".join(repr(problems.ask(id)).split()) for id in ids if id in problems.BANK)
        for id in set(ids) & set(problems.BANK):
            for part in problems.ask(id).parts:
                if not isinstance(part, Choice) and " " in part.answer and \
                        part.answer not in given:
                    assert not re.search(rf"(?<![\d.,]){re.escape(part.answer)}(?![\w/])", shown), (
                        id, part.answer)


def test_the_handout_prints_from_disk(made, visit):
    seen = visit((made / "handout/day1.html").as_uri())
    seen.page.evaluate(SETTLED)
    seen.page.emulate_media(media="print")
    seen.page.set_viewport_size({"width": 673, "height": 1000})     # 178 mm
    state = seen.page.evaluate("""() => ({
        math: document.querySelectorAll('.math:not(:has(mjx-container)), mjx-merror').length,
        wide: document.documentElement.scrollWidth - innerWidth,
        // A prompt fits a page: it is not broken in two. A4 less margins is 263 mm.
        tall: [...document.querySelectorAll('.prompt')].filter((p) => p.offsetHeight > 994).length,
        prompts: document.querySelectorAll('.prompt').length})""")
    assert state == {"math": 0, "wide": 0, "tall": 0,
                     "prompts": sum(len(marks(page, name)) for page in PAGES
                                    if page.startswith("day1/") for name in ("ask", "guess"))}
    assert not seen.complaints


# --- Markdown pages --------------------------------------------------------------------------


def test_folded_answers_live_figures_and_links_to_pages_left_out_are_gone():
    text = ("A\n\n````{worked}\n```{computed}\n1\n```\n````\n\nB [Practice](practice.md) and "
            "[the *explorer*](../explorer.md#x) and [it](howto.md)\n\n"
            "```{live} figures.x()\n```\n\n```{computed}\n2\n```\nC\n")
    assert site.without_answers(text, []) == (
        "A\n\n\nB Practice and the *explorer* and [it](howto.md)\n\n\n```{computed}\n2\n```\nC\n")


def test_numbers_that_are_asked_are_blanks():
    dot = problems.ask("day1.dot")      # W = 2 n = 200 MFLOP, Q = 8 n = 800 MB; n is given
    assert site.without_answers("It moves 800 MB at 89.6 GB/s.\n", [dot]) == \
        "It moves ____ MB at 89.6 GB/s.\n"


def test_whole_numbers_without_a_unit_are_blanks_too(monkeypatch):
    monkeypatch.setattr(site, "_questions", lambda: [problems.ask("day1.dot")])
    assert site._uncounted("n 100,000,000 W 200,000,000 Q 800,000,000 x 1,200,000,000") == \
        "n 100,000,000 W ____ Q ____ x 1,200,000,000"


def test_the_first_page_says_what_this_edition_is():
    text = site.front((ROOT / "intro.md").read_text("utf-8"))
    assert text.startswith("# From hardware entitlement to roofline\n")
    assert "edition of a class" in text and "## The model in brief" in text
    assert "| [1](day1/roofline.ipynb) |" in text
    assert not re.search(r"practice|explorer|\{live\}|Run here|course\.py", text)


def test_a_question_that_has_markup_in_it_is_text():
    made = site.asked("day1.x", "ask", "Is a < b & c?", [
        {"label": "P", "unit": "FLOP/s"}, {"label": "Side", "options": ["<left>", "right"]}])
    assert "<p class=\"ask\">Is a &lt; b &amp; c?</p>" in made
    assert "<li>P in FLOP/s</li><li>Side<ul><li>&lt;left&gt;</li><li>right</li></ul></li>" in made


# --- what goes wrong -------------------------------------------------------------------------


def test_without_student_notebooks_or_a_site_it_says_what_to_make_first(tmp_path):
    with pytest.raises(Stop, match=r"day1/roofline.ipynb[^\n]*\n.*workshop student"):
        site.main(["--student", str(tmp_path), "--to", str(tmp_path)])
    with pytest.raises(Stop, match=r"day1/roofline.html[^\n]*\n.*workshop site"):
        site.handout(["--to", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_a_build_that_fails_names_the_page_and_keeps_the_old_site(monkeypatch, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/index.html").write_text("old")
    monkeypatch.setattr(site, "source", lambda student, target: target.mkdir(parents=True))
    monkeypatch.setattr(site.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(
        a, 1, "reading\n", "day1/roofline.ipynb:3: WARNING: no target\nfine\n"))
    with pytest.raises(Stop, match=r"did not build\.\nday1/roofline.ipynb:3: WARNING: no target\n"):
        site.build(tmp_path / "student", tmp_path / "site")
    assert (tmp_path / "site/index.html").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"site", "site.log"}
