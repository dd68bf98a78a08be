"""The built book as a reader meets it: in Chromium, with everything beyond the site blocked.

What pages load and weigh, where their links lead, and every form. How they look, and whom they
reach: test_looks.py.
"""

import gzip
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pages import ROOT, book_pages
from visits import AXE, PAGES, PHONE, forms, settle, url, violations  # noqa: F401  # others' too

from roofline import problems
from roofline.check import Choice, Part, WrongAnswer


@dataclass
class Look:
    """What a first visit shows: complaints; formulas written, drawn and failed; packed bytes by
    address.
    """

    complaints: list[str]
    math: tuple[int, int, int]
    packed: dict[str, int]


@pytest.fixture(scope="module")
def looks() -> dict[str, Look]:
    return {}


@pytest.fixture
def look(looks, address, visit) -> Callable[[str], Look]:
    """look(page): at a desktop's width and in light, once for all tests that only look."""
    def at(page: str) -> Look:
        if page not in looks:
            looks[page] = first_visit(page, address, visit)
        return looks[page]
    return at


def first_visit(page: str, address: str, visit) -> Look:
    bodies = {}
    seen = visit("about:blank")
    seen.page.on("response", lambda r: bodies.setdefault(r.url, r))
    seen.page.goto(url(address, page))
    settle(seen.page)
    complaints = seen.complaints
    written, drawn, failed = (
        seen.page.evaluate(f"() => document.querySelectorAll('{what}').length")
        for what in (".math", "mjx-container", "mjx-merror"))
    seen.page.wait_for_load_state("networkidle")
    packed = {}
    # Reading a body lets a late response come in; it counts too.
    while late := [u for u in bodies if u.startswith(address) and u not in packed]:
        for u in late:
            body = bodies[u].body()
            packed[u] = len(body if u.endswith((".woff", ".woff2", ".png"))
                            else gzip.compress(body, 6))
    return Look(complaints, (written, drawn, failed), packed)


@pytest.mark.parametrize("folder", ["assets/vendor/mathjax", "tests/vendor/axe-core",
                                    "workshop/vendor/reveal"])
def test_vendored_files_are_unchanged(folder):
    sums = [line.split() for line in (ROOT / folder / "SHA256SUMS").read_text().splitlines()]
    for digest, name in sums:
        assert hashlib.sha256((ROOT / folder / name).read_bytes()).hexdigest() == digest, name
    kept = {"LICENSE", "LICENSE-3RD-PARTY.txt", "VERSION", "SHA256SUMS"}
    here = {p.relative_to(ROOT / folder).as_posix() for p in (ROOT / folder).rglob("*")
            if p.is_file()}
    assert here - kept == {name for _, name in sums}


def test_every_page_is_built(site):
    assert all((site / f"{page}.html").exists() for page in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_page_loads_whole_and_from_the_site_alone(page, look):
    seen = look(page)
    assert not seen.complaints
    written, drawn, failed = seen.math
    assert drawn >= written
    assert failed == 0


def test_every_icon_is_drawn(address, visit):
    opened = visit(url(address, PAGES[0])).page
    opened.wait_for_selector("svg.svg-inline--fa", state="attached")
    assert opened.evaluate("() => document.querySelectorAll('i[class*=fa-]').length") == 0
    paths = opened.evaluate("""() => [...document.querySelectorAll('svg.svg-inline--fa path')]
        .map((path) => path.getAttribute('d'))""")
    assert len(paths) >= 8 and all(len(path) > 20 for path in paths)


@pytest.mark.parametrize("side", ["primary", "secondary"])
def test_both_menus_open_on_a_phone(side, address, visit):
    """Site navigation and page contents: the theme hides both on a phone behind a button."""
    opened = visit(url(address, PAGES[1]), viewport=PHONE, has_touch=True, is_mobile=True).page
    settle(opened)
    opened.locator(f".{side}-toggle:visible").first.tap()
    opened.wait_for_selector(f"#pst-{side}-sidebar-modal[open] a:visible")
    opened.keyboard.press("Escape")
    opened.wait_for_selector(f"#pst-{side}-sidebar-modal:not([open])", state="attached")


def test_pages_open_from_disk(site, visit):
    """A downloaded copy: no server, so no request may need one."""
    seen = visit((site / f"{PAGES[1]}.html").as_uri())
    settle(seen.page)
    assert not seen.complaints
    assert seen.page.evaluate("() => document.querySelectorAll('mjx-container').length") > 5


def test_first_uses_link_to_the_glossary(address, visit):
    """Each term of a page's prose links once, to an entry that is there; headings stay plain."""
    opened = visit(url(address, "day1/roofline")).page
    links = opened.evaluate("() => [...document.querySelectorAll('a.first-use')]"
                            ".map((a) => [a.textContent, a.getAttribute('href')])")
    targets = [href for _, href in links]
    assert len(targets) > 20 and len(set(targets)) == len(targets)
    assert {"ridge point", "arithmetic intensity", "SBUF"} <= {text for text, _ in links}
    assert not opened.locator(":is(h1, h2, h3, code, pre, .rl-form) a.first-use").count()
    entries = visit(url(address, "glossary")).page
    for href in targets:
        assert href.startswith("../glossary.html#term-")
        assert entries.locator(f"[id='{href.partition('#')[2]}']").count() == 1, href


@pytest.mark.parametrize("page", PAGES)
def test_page_weight(page, look):
    """First load, compressed, at most 1.2 MB (design, section 9)."""
    packed = look(page).packed
    total = sum(packed.values())
    heaviest = sorted(packed.items(), key=lambda item: -item[1])[:5]
    print(f"{page}: {total / 1e6:.2f} MB")
    assert total <= 1.2e6, heaviest


def worked_cells(path: Path) -> list[str]:
    """Stored texts of a notebook's worked answers."""
    cells = json.loads(path.read_text())["cells"] if path.suffix == ".ipynb" else []
    return ["".join(output.get("data", {}).get("text/plain", output.get("text", "")))
            for cell in cells if "worked" in cell["metadata"].get("tags", [])
            for output in cell["outputs"]]


@pytest.mark.parametrize("page", [p for p in book_pages() if p.suffix == ".ipynb"],
                         ids=lambda p: p.stem)
def test_worked_answers_are_folded_and_readable_without_script(page, site, address, visit):
    name = page.relative_to(ROOT).with_suffix("").as_posix()
    opened = visit(url(address, name), java_script_enabled=False).page
    html = (site / f"{name}.html").read_text()
    folded = opened.locator("details:has(> summary:text('Worked answer'))")
    texts = [" ".join(t.split()) for t in folded.all_text_contents()]
    # A form's answer says options in words; the notebook's also names the keys to type.
    forms = [cell["metadata"]["roofline"]["form"] for cell in json.loads(page.read_text())["cells"]
             if "form" in cell["metadata"].get("roofline", {})]
    answers = {problems.ask(form).form_data()["worked"] for form in forms}
    own = set(worked_cells(page)) - {str(problems.ask(form).worked()) for form in forms}
    assert answers
    for text in answers | own:
        assert any(" ".join(text.split()) in t for t in texts), text
    assert "<details open" not in html


def test_worked_answers_are_not_in_the_search_index(site):
    index = (site / "searchindex.js").read_text().lower()
    assert "rooflin" in index  # the index is there, and stems words
    pages = " ".join(_prose(page) for page in book_pages()).lower()
    for page in book_pages():
        for text in worked_cells(page):
            only = {w for w in re.findall(r"[a-z]{6,}", text.lower()) if w not in pages}
            assert not [w for w in only if f'"{w}"' in index or f",{w}:" in index], page


def _prose(path: Path) -> str:
    """What a page says outside its worked answers."""
    if path.suffix != ".ipynb":
        return path.read_text()
    return " ".join("".join(c["source"]) + json.dumps(c.get("outputs", ""))
                    for c in json.loads(path.read_text())["cells"]
                    if "worked" not in c["metadata"].get("tags", []))


# --- forms ---------------------------------------------------------------------------------

# Fill one form with each of `rounds` ({part: text}), submit, and read what it says.
DRIVE = """([id, text]) => {
    const rounds = JSON.parse(text);  // as one text, there and back: ten times as fast
    const form = document.querySelector(`form.rl-form[data-form-id="${id}"]`);
    return JSON.stringify(rounds.map((answers) => {
        for (const input of form.querySelectorAll('input')) {
            const text = answers[input.name] ?? '';
            if (input.type === 'radio') input.checked = input.value === text;
            else input.value = text;
            input.dispatchEvent(new Event('input', {bubbles: true}));
        }
        form.requestSubmit();
        const says = [...form.querySelectorAll('output[data-part]')].map((o) =>
            [o.dataset.part, [o.dataset.kind, o.textContent]]);
        return {parts: Object.fromEntries(says), left: form.querySelector('.rl-left').textContent};
    }));
}"""


def drive(page, form: str, rounds: list[dict[str, str]]) -> list[dict]:
    return json.loads(page.evaluate(DRIVE, [form, json.dumps(rounds)]))


def attempts(part) -> list[str]:
    """What a reader may type for one part, a case of each kind; all of them: test_figures.py."""
    if isinstance(part, Choice):
        return list(part.options)
    if not isinstance(part, Part):
        return [part.answer, "banana", "  "]
    wrong = [repr(value) for value in (*part.slips.values(), *part.rivals.values())]
    other = "5 GB" if part.unit == "s" else "5 s"
    return [part.answer, f"{part.value:.2g}", *wrong[:3], "banana", other]


FORMS = [(page.relative_to(ROOT).with_suffix("").as_posix(), forms(page))
         for page in book_pages() if forms(page)]


@pytest.mark.parametrize(("page", "ids"), FORMS, ids=lambda v: v if isinstance(v, str) else "")
def test_every_form_answers_as_the_library_does(page, ids, address, visit):
    seen = visit(url(address, page))
    settle(seen.page)
    there = seen.page.evaluate(
        "() => [...document.querySelectorAll('form[data-form-id]')].map((f) => f.dataset.formId)")
    assert there == ids
    for form in ids:
        question = problems.ask(form)
        check_form(seen.page, form, question)
        (untouched,) = drive(seen.page, form, [{}])
        names = "; ".join(part.shown for part in question.parts)
        assert untouched["left"] == f"not attempted: {names}"
        other = next((q for q in (problems.ask(form, seed) for seed in range(1, 16))
                      if q.form_data()["parts"] != question.form_data()["parts"]), None)
        button = seen.page.locator(f"form[data-form-id='{form}'] button:text('Another one')")
        assert (button.count() > 0) == (other is not None), form
        if other:
            button.click()
            check_form(seen.page, form, other)
    assert not seen.complaints


def judged(question, answers: dict[str, str]):
    """Each part that was attempted, and what `check` says to it among all these answers."""
    tried = {name: text.strip() for name, text in answers.items() if text.strip()}
    try:
        report = question.check(**tried)
    except WrongAnswer as wrong:
        report = wrong.report
    return [(part, outcome) for part, outcome in zip(question.parts, report.outcomes, strict=True)
            if part.name in tried]


def check_form(page, form: str, question) -> None:
    """Every attempt gets the kind and the words that `check` gives in a notebook."""
    shown = page.locator(f"form[data-form-id='{form}'] .rl-ask").text_content()
    assert " ".join(shown.split()) == " ".join(question.text.split())
    tries = {part.name: attempts(part) for part in question.parts}
    rounds = [{name: texts[k % len(texts)] for name, texts in tries.items()}
              for k in range(max(map(len, tries.values())))]
    for answers, said in zip(rounds, drive(page, form, rounds), strict=True):
        for part, outcome in judged(question, answers):
            assert said["parts"][part.name] == [outcome.kind, f"{part.shown}: {outcome.message}"], \
                f"{form}: {part.name} = {answers[part.name]!r}"
    right = {part.name: part.answer for part in question.parts}
    (said,) = drive(page, form, [right])
    assert {kind for kind, _ in said["parts"].values()} == {"right"}, form
