"""The book on paper: every page once, every answer in the appendix, nothing cut off, its PDF."""

import json
import re
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import paper
import pdf
import pytest
from pages import ROOT, book_pages

from roofline import problems

PAGES = [page.relative_to(ROOT).with_suffix("").as_posix() for page in book_pages()]
PAGES = [page for page in PAGES if page not in paper.SCREEN]
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
BLOCKS = {"h1", "h2", "h3", "h4", "p", "pre"}


class Text(HTMLParser):
    """The headings, paragraphs and code of a page, in order, and every id and link.

    unread   what is passed over with all it holds: (tag, class), one of them "" for any
    """

    def __init__(self, text: str, unread: set[tuple[str, str]] = frozenset()) -> None:
        super().__init__()
        self.unread, self.stack, self.blocks = unread, [], []
        self.ids, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        skip = bool(self.stack and self.stack[-1][1]) or bool(
            self.unread & {(tag, ""), *((t, c) for t in (tag, "") for c in classes)})
        if tag not in VOID:
            self.stack.append((tag, skip))
        if not skip:
            if given.get("id"):
                self.ids.append(given["id"])
            if given.get("href"):
                self.links.append(given["href"])
            if tag in BLOCKS:
                self.blocks.append([tag, ""])

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self.stack]
        if self.stack and not self.stack[-1][1] and BLOCKS & set(tags) and self.blocks:
            self.blocks[-1][1] += data

    def said(self) -> Counter:
        return Counter((tag, " ".join(text.split())) for tag, text in self.blocks if text.strip())


ON_SCREEN = {("script", ""), ("style", ""), ("button", ""), ("summary", ""), ("svg", ""),
             ("a", "headerlink"), ("details", "worked"), ("", "d-print-none"),
             ("", "rl-noscript"), ("", "toctree-wrapper")}
ON_PAPER = {("script", ""), ("style", ""), ("svg", ""), ("", "to-answer"), ("", "opened-as"),
            ("", "rl-noscript"), ("p", "asked")}


@pytest.fixture(scope="module")
def text(site) -> str:
    return (site / paper.NAME).read_text()


@pytest.fixture(scope="module")
def chapters(text) -> dict[str, str]:
    """Each chapter's HTML by its page, the answers as "answers"."""
    starts = {page: text.index(f'<article class="chapter" id="{page.replace("/", "-")}">')
              for page in PAGES}
    starts["answers"] = text.index('<section class="chapter answers" id="answers">')
    ordered = [*sorted(starts.values()), text.index("</body>")]
    return {name: text[at:ordered[ordered.index(at) + 1]] for name, at in starts.items()}


def article(site: Path, page: str) -> str:
    html = (site / f"{page}.html").read_text()
    return re.sub(r"(<script\b[^>]*>).*?</script>", r"\1</script>",
                  re.search(r"<article\b.*</article>", html, re.S)[0], flags=re.S)


@pytest.mark.parametrize("page", PAGES)
def test_every_heading_paragraph_and_line_of_code_is_there_once(page, site, chapters):
    theirs = Text(article(site, page), ON_SCREEN).said()
    mine = Text(chapters[page], ON_PAPER).said()
    guess = ("p", "Your guess, before you look")       # on paper it heads its box
    del theirs[guess]
    assert theirs and mine == theirs


def test_pages_stand_in_reading_order_and_the_answers_before_what_is_looked_up(chapters, text):
    order = sorted(chapters, key=lambda name: text.index(chapters[name]))
    back = [page for page in PAGES if page in ("glossary", "sources")]
    assert order == [*(p for p in PAGES if p not in back), "answers", *back]


# --- questions and answers ---------------------------------------------------------------------


def forms() -> list[str]:
    """The problems that the pages ask, in reading order."""
    return [form for page in book_pages() if page.suffix == ".ipynb"
            for cell in json.loads(page.read_text())["cells"]
            if (form := cell["metadata"].get("roofline", {}).get("form"))]


def test_every_question_has_its_answer_in_the_appendix_and_nowhere_else(chapters, text):
    answers = re.findall(r'<div class="answer[^>]*id="A(\d+)">.*?href="#Q(\d+)".*?<pre[^>]*>(.*?)'
                         r"</pre>", chapters["answers"], re.S)
    body = "".join(html for name, html in chapters.items() if name != "answers")
    asked = re.findall(r'<div class="question([^>]*)id="Q(\d+)">.*?href="#A(\d+)"', text, re.S)
    numbers = [str(n) for n in range(1, len(answers) + 1)]
    assert [a for a, _, _ in answers] == [q for _, q, _ in answers] == numbers
    assert [q for _, q, _ in asked] == [a for _, _, a in asked] == numbers
    given = [Text(f"<pre>{worked}</pre>").blocks[0][1].strip() for _, _, worked in answers]
    wanted = [problems.ask(form).form_data()["worked"].strip() for form in forms()]
    own = [one for one, (kind, _, _) in zip(given, asked, strict=True) if " only" not in kind]
    assert own == wanted
    plain = Text(body).said()
    for one in given:
        assert ("pre", " ".join(one.split())) not in plain
    assert "Worked answer" not in text and "<details" not in text and "<form" not in text


def test_a_question_has_its_parts_to_fill_in(chapters):
    """Each part has a blank or boxes: as many as the library's problem has."""
    asked = re.findall(r'<div class="question[^"]*mathjax_ignore[^"]*"[^>]*id="Q\d+">(.*?)</div>',
                       "".join(chapters[page] for page in PAGES), re.S)
    wanted = [problems.ask(form).form_data() for form in forms()]
    assert len(asked) == len(wanted)
    for html, data in zip(asked, wanted, strict=True):
        choices = [part for part in data["parts"] if part["kind"] == "choice"]
        assert html.count('class="blank"') == len(data["parts"]) - len(choices)
        assert html.count('class="options"') == len(choices)


# --- ids and links -----------------------------------------------------------------------------


def test_ids_are_unique_and_links_lead_somewhere(site, text):
    found = Text(text, {("script", "")})
    assert [name for name, times in Counter(found.ids).items() if times > 1] == []
    inside = {link[1:] for link in found.links if link.startswith("#")}
    assert len(inside) > 900 and inside <= set(found.ids)
    outside = {link for link in found.links if not re.match(r"#|https?:|mailto:", link)}
    assert all((site / link.partition("#")[0]).is_file() for link in outside)
    pages = {f"{page}.html" for page in PAGES}
    assert not {link.partition("#")[0] for link in outside} & pages


SMALL = {"intro": '<article><section id="a"><h1>One</h1><p id="p">See <a href="day1/x.html#a">x</a>'
                  '<a href="#p">here</a> <a href="day1/x.html">all</a> <a href="_static/k.py">k'
                  "</a></p></section></article>",
         "day1/x": '<article><section id="a"><h1>Two</h1><svg><path id="a"></path><use href="#a">'
                   '</use><rect fill="url(#a)"></rect></svg><svg><path id="a"></path></svg>'
                   '<input id="i"><label for="i">L</label><a href="../intro.html#p">back</a>'
                   '<details class="worked"><summary>Worked answer</summary><pre>W = 2</pre>'
                   "</details></section></article>"}


def test_ids_of_pages_and_drawings_that_collide_are_kept_apart():
    text = paper.book(SMALL, paper.About("T", "a", "1", "we", ("X",)))
    found = Text(text)
    assert [name for name, times in Counter(found.ids).items() if times > 1] == []
    for link in ("#day1-x-a", "#intro-p", "#day1-x", "_static/k.py"):
        assert f'href="{link}"' in text
    assert 'for="day1-x-i"' in text
    (own,) = re.findall(r'<use href="#(.*?)">', text)
    assert own in found.ids and f"url(#{own})" in text and own != "day1-x-a"
    assert text.count("W = 2") == 1 and text.index("W = 2") > text.index('id="answers"')
    assert text == paper.book(SMALL, paper.About("T", "a", "1", "we", ("X",)))


def test_contents_name_every_section_and_set_its_formulas():
    page = r"""<article><section id="s"><h1>One</h1><section id="q"><h2>Two <span class="math">\(Q\)
        </span><a class="headerlink">#</a></h2></section></section></article>"""
    text = paper.book({"x": page}, paper.About("T", "a", "1", "we", ("X",)))
    contents = text[text.index("<nav"):text.index("</nav>")]
    assert r'<a href="#x-q"><span>Two <span class="math">\(Q\)</span></span>' in contents


# --- in Chromium -------------------------------------------------------------------------------

# A4 without the margins of paper.css, in CSS pixels; Letter has more.
COLUMN = int((210 - 20 - 18) / 25.4 * 96)


@pytest.fixture(scope="module")
def opened(site, chromium):
    """book.html from disk, as wide as the paper's column, and what went wrong."""
    context = chromium.new_context(viewport={"width": COLUMN, "height": 900}, offline=True,
                                   color_scheme="dark")
    page, wrong = context.new_page(), []
    page.on("requestfailed", lambda r: wrong.append(r.url))
    page.on("console", lambda m: m.type == "error" and wrong.append(m.text))
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.emulate_media(media="print", color_scheme="dark")
    page.goto((site / paper.NAME).as_uri(), timeout=120_000)
    page.evaluate("() => window.MathJax.startup.promise.then(() => true)")
    yield page, wrong
    context.close()


def test_the_whole_book_opens_from_disk_with_its_math(opened):
    page, wrong = opened
    assert not wrong
    written, drawn, bad = (page.evaluate(f"() => document.querySelectorAll('{what}').length")
                           for what in (".math", ".math mjx-container", "mjx-merror"))
    assert drawn >= written > 900 and bad == 0


def test_nothing_is_wider_than_the_paper(opened):
    page, _ = opened
    wide = page.evaluate("""(column) => [...document.querySelectorAll(
        'pre, table, td, th, figure, svg, img, mjx-container, p, li, h1, h2, h3, .question')]
        .filter((e) => e.getBoundingClientRect().right > column + 1 || (e.clientWidth
            && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible'))
        .slice(0, 8).map((e) => [e.closest('.chapter')?.id, e.outerHTML.slice(0, 120)])""", COLUMN)
    assert wide == []


DARK = """(where) => {
  const dark = (color) => {
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number);
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255 * a + (1 - a);
  };
  const texts = document.createTreeWalker(document.querySelector(where), NodeFilter.SHOW_TEXT);
  const pale = new Map();
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !node.checkVisibility()) continue;
    if (node.closest('svg, script, style')) continue;
    const is = dark(getComputedStyle(node).color);
    if (is > 0.45) pale.set(node.className || node.tagName, is);
  }
  return [...pale];
}"""


def test_the_book_is_dark_on_light_whatever_the_reader_likes(opened):
    page, _ = opened
    assert page.evaluate(DARK, "body") == []
    assert page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor") \
        == "rgb(255, 255, 255)"


@pytest.mark.parametrize("name", ["day1/roofline", "day6/trn2_sheet"])
def test_a_page_in_dark_colours_prints_in_full_ink(name, address, visit):
    seen = visit(f"{address}/{name}.html", color_scheme="dark")
    theme = "() => document.documentElement.dataset.theme"
    assert seen.page.evaluate(theme) == "dark"
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.page.wait_for_function(f"({theme})() === 'light'")
    assert seen.page.evaluate(DARK, "article") == []
    seen.page.emulate_media(media="screen", color_scheme="dark")
    seen.page.wait_for_function(f"({theme})() === 'dark'")


def test_a_printed_page_shows_results_and_only_answers_that_were_open(address, visit):
    page = visit(f"{address}/day1/roofline.html").page
    page.evaluate("() => document.querySelectorAll('details.worked')[1].open = true")
    page.emulate_media(media="print")
    hidden = """(what) => [...document.querySelectorAll(what)].filter((e) =>
        !e.checkVisibility({contentVisibilityAuto: true}) || !e.getBoundingClientRect().height)
        .length"""
    # What is opened for paper is laid out with the next frame.
    page.wait_for_function(f"what => ({hidden})(what) === 0", arg="details.hide .cell_output")
    total = page.locator("details.worked").count()
    assert page.evaluate(hidden, "details.worked pre") == total - 1
    assert page.locator("text=All of them are at the end of the whole book").is_visible()


@pytest.mark.parametrize("name", ["explorer", "day5/count_from_code"])
def test_a_printed_page_is_not_cut_off(name, address, visit):
    """A4 less 10 mm on each side is 718 px; lines of code and output are 7.5 pt, 10 px, high."""
    page = visit(f"{address}/{name}.html", viewport={"width": 718, "height": 900}).page
    page.emulate_media(media="print")
    page.wait_for_function("() => [...document.querySelectorAll('.rl-tables td')].length > 20"
                           " && document.querySelector('.rl-tables').clientHeight > 200")
    assert page.evaluate("""() => [...document.querySelectorAll('article :is(table, pre)')]
        .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > 718)
        .map((e) => e.outerHTML.slice(0, 120))""") == []
    sizes = page.evaluate("""() => [...document.querySelectorAll('article .cell pre')]
        .filter((e) => !e.closest('.rl-form')).map((e) => getComputedStyle(e).fontSize)""")
    assert set(sizes) <= {"10px"}


# --- the PDF -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short(site, chromium, tmp_path_factory) -> bytes:
    """The PDF of a book of three pages: printing all of them takes half a minute."""
    place = tmp_path_factory.mktemp("paper")
    (place / "_static").symlink_to(site / "_static")
    few = {page: (site / f"{page}.html").read_text()
           for page in ("intro", "day1/paper2009", "notation")}
    (place / paper.NAME).write_text(paper.book(few, paper.about()))
    printed, count = pdf.printed(place / paper.NAME, chromium, "A4")
    assert count > 8
    return printed


def spoken(data: bytes) -> str:
    """The text of a PDF of Chromium's: its glyphs by each font's own map."""
    objects = {int(m[1]): m[2] for m in re.finditer(rb"(?s)\n(\d+) 0 obj\n(.*?)\nendobj", data)}

    def stream(body: bytes) -> bytes:
        found = re.search(rb"(?s)stream\r?\n(.*)\r?\nendstream", body)
        raw = found[1] if found else b""
        return zlib.decompress(raw) if b"/FlateDecode" in body else raw

    maps = {}
    for number, body in objects.items():
        if unicode := re.search(rb"/ToUnicode (\d+) 0 R", body):
            table, source = {}, stream(objects[int(unicode[1])])
            for chars in re.findall(rb"(?s)beginbfchar(.*?)endbfchar", source):
                for code, text in re.findall(rb"<(\w+)> <(\w+)>", chars):
                    table[int(code, 16)] = bytes.fromhex(text.decode()).decode("utf-16-be")
            for ranges in re.findall(rb"(?s)beginbfrange(.*?)endbfrange", source):
                for low, high, text in re.findall(rb"<(\w+)> <(\w+)> <(\w+)>", ranges):
                    for k in range(int(high, 16) - int(low, 16) + 1):
                        table[int(low, 16) + k] = chr(int(text, 16) + k)
            maps[number] = table
    fonts = {name.decode(): maps[int(number)] for name, number in
             re.findall(rb"/(F\d+) (\d+) 0 R", data) if int(number) in maps}
    said = []
    for body in objects.values():
        source = stream(body) if b"stream" in body[:400] else b""
        if b" Tf" not in source:
            continue
        font: dict[int, str] = {}
        for name, codes in re.findall(rb"/(F\d+) [\d.]+ Tf|<(\w+)>", source):
            if name:
                font = fonts.get(name.decode(), {})
            else:
                said += [font.get(int(codes[k:k + 4], 16), "") for k in range(0, len(codes), 4)]
        said.append("\n")
    return "".join(said)


def test_the_pdf_says_what_the_chapters_and_the_answers_say(short):
    """Chromium writes no spaces where a line is placed word by word; so none are compared."""
    said = re.sub(r"\s", "", spoken(short))
    for words in ("From hardware entitlement to roofline", "Version 0.1.0", "What it assumes",
                  "The 2009 paper in its own numbers", "Notation", "Answers"):
        assert re.sub(r"\s", "", words) in said, words
    for form in forms():
        if form.startswith("day1.paper"):
            worked = problems.ask(form).form_data()["worked"].splitlines()[1]
            assert re.sub(r"\s", "", worked)[:40] in said, worked


def test_the_pdf_has_bookmarks_tags_and_places_in_order(short):
    assert re.search(rb"/MarkInfo\s*<<[^>]*/Marked true", short) and b"/StructTreeRoot" in short
    titles = re.findall(rb"/Title \((.*?)\)", short)
    assert {b"Contents", b"Notation", b"Answers"} <= set(titles)
    at = pdf.pages_of(short)
    order = [at[name] for name in ("intro", "day1-paper2009", "notation", "answers")]
    assert order == sorted(set(order)) and order[0] > 2     # behind title and contents
    assert at["Q1"] < at["answers"] <= at["A1"]


def test_the_pdf_links_to_no_machine(short):
    targets = re.findall(rb"/URI \((.*?)\)", short)
    assert targets and all(url.startswith((b"https://", b"http://")) for url in targets)
    assert not [url for url in targets if b"127.0.0.1" in url or b"localhost" in url]


def test_without_chromium_the_pdf_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    assert pdf.main(["--probe"]) == 1
    says = capsys.readouterr().err
    assert "no-such-browser" in says and "apt install chromium" in says and "Traceback" not in says


def test_without_a_site_the_pdf_says_how_to_build_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CHROMIUM", "true")
    monkeypatch.setattr(pdf, "ROOT", tmp_path)
    monkeypatch.setattr(pdf, "BOOK", tmp_path / "_build/html/book.html")
    assert pdf.main([]) == 1
    assert "_build/html/book.html is not there: python3 course.py build" in capsys.readouterr().err


def test_a_pdf_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "book.pdf"
    pdf.save(b"one", path)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pdf.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        pdf.save(b"two", path)
    assert path.read_bytes() == b"one" and [p.name for p in tmp_path.iterdir()] == ["book.pdf"]
