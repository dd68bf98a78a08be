"""The site as one zip: what is in it, that it is the same each time, that it opens from disk."""

import errno
import os
import re
import shutil
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import offline
import pytest
from sphinx.errors import ExtensionError

LEFT_OUT = {".buildinfo", ".nojekyll"}


# --- the file ----------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path) -> Path:
    """A site of four files, two of which stay at home."""
    place = tmp_path / "html"
    link = ('<p><a class="offline-zip" href="x.zip" download>The site (zip, '
            '<span class="offline-size"></span>)</a></p>')
    for name, text in {"index.html": "<a href='day1/a.html'>1</a>", "day1/a.html": link,
                       "_static/a.js": "1;" * 999, "_static/a.js.map": "{}",
                       ".buildinfo": "config: 1"}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def test_the_same_site_gives_the_same_bytes(small, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(small, other)
    for age, path in enumerate(sorted(other.rglob("*"), reverse=True)):
        os.utime(path, (age * 10**8, age * 10**8))
        path.chmod(0o777)
    first, second = offline.write(small), offline.write(other)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert names == sorted(names)
    assert names == [f"{offline.TOP}/{name}"
                     for name in ("_static/a.js", "day1/a.html", "index.html")]


def test_it_is_written_when_something_changed_and_only_then(small):
    path = offline.write(small)
    before = path.stat()
    assert offline.write(small).stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    (small / "index.html").write_text("<a href='day1/a.html'>2</a>")
    with zipfile.ZipFile(offline.write(small)) as archive:
        assert b">2<" in archive.read(f"{offline.TOP}/index.html")
    path.write_bytes(path.read_bytes()[:100])      # half a zip is none
    with zipfile.ZipFile(offline.write(small)) as archive:
        assert archive.testzip() is None


class Builder:
    name = "html"


class App:
    def __init__(self, outdir):
        self.outdir, self.builder = outdir, Builder()


def test_a_full_disk_is_one_clear_error_and_keeps_what_was_there(small, monkeypatch):
    good = offline.write(small).read_bytes()
    (small / "index.html").write_text("changed")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(ExtensionError, match="disk is full: free about 100 MB"):
        offline._offline(App(small), None)
    assert (small / offline.NAME).read_bytes() == good
    assert not list(small.glob(".*.tmp"))


def test_pages_say_its_size(small):
    offline._offline(App(small), None)
    size = (small / offline.NAME).stat().st_size / 1e6
    assert f">{size:.1f} MB</span>" in (small / "day1/a.html").read_text()
    before = (small / "day1/a.html").stat().st_mtime_ns, (small / offline.NAME).read_bytes()
    offline._offline(App(small), None)
    assert before == ((small / "day1/a.html").stat().st_mtime_ns,
                      (small / offline.NAME).read_bytes())


def test_a_failed_build_writes_none(small):
    offline._offline(App(small), RuntimeError("a page failed"))
    assert not (small / offline.NAME).exists()


# --- the book's own ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copy(site, tmp_path_factory) -> Path:
    """The zip as a reader has it: unpacked, away from the site."""
    place = tmp_path_factory.mktemp("copy")
    with zipfile.ZipFile(site / offline.NAME) as archive:
        archive.extractall(place)
    (top,) = place.iterdir()
    return top


def names(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_it_holds_the_site(site, copy):
    """Everything but itself, Sphinx's notes, source maps and what no page from disk can run."""
    left = names(site) - names(copy)
    assert names(copy) <= names(site)
    assert {n for n in left if not n.endswith(".map") and not n.startswith(("_static/python/",
            "reports/"))} <= {offline.NAME, *LEFT_OUT}
    assert {"index.html", "book.html", "search.html", "searchindex.js"} <= names(copy)
    link = re.compile(rb'<a class="offline-zip".*?</a>|<span>This is a copy to read offline.'
                      rb"</span>", re.S)
    for name in names(copy):
        mine, theirs = (copy / name).read_bytes(), (site / name).read_bytes()
        assert mine == theirs or link.sub(b"", mine) == link.sub(b"", theirs), name


def test_pages_link_to_it_and_its_own_do_not(site, copy):
    megabytes = (site / offline.NAME).stat().st_size / 1e6
    for page in (site / "intro.html", site / "day1/roofline.html"):
        (href, says) = re.search(r'class="offline-zip" href="([^"]+)".*?(?:>)([\d.]+ MB)<',
                                 page.read_text(), re.S).groups()
        assert (page.parent / href).resolve() == (site / offline.NAME).resolve()
        assert says == f"{megabytes:.1f} MB"
        assert offline.NAME not in (copy / page.relative_to(site)).read_text()


class Names(HTMLParser):
    """What a page links to, and the names that links may have in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(re.sub(r"(<script\b[^>]*>).*?</script>", r"\1</script>", text, flags=re.S))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[k] for k in ("id", "name") if given.get(k)}
        self.links |= {given[k] for k in ("href", "src") if given.get(k)}


def test_every_link_leads_to_a_file_that_is_there(copy):
    pages = {p: Names(p.read_text()) for p in copy.rglob("*.html")
             if p.relative_to(copy).parts[0] != "_static"}
    assert len(pages) > 22
    lost = set()
    for page, found in pages.items():
        for link in found.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            where = pages.get(target)
            # "#clockwork=..." is a figure's setting, which its script reads.
            name = unquote(url.fragment) if "=" not in url.fragment else ""
            if not target.is_file() or (where and name and name not in where.ids):
                lost.add((page.relative_to(copy).as_posix(), link))
    assert not lost


SETTLED = """() => window.MathJax?.startup?.promise?.then(() => true) ?? true"""


def test_every_page_opens_from_disk(copy, visit):
    """By double click: no error, no request that fails or leaves, all math set, figures live.

    test_paper opens book.html, which has none of the site's scripts, from disk.
    """
    pages = sorted(p for p in copy.rglob("*.html")
                   if p.relative_to(copy).parts[0] not in ("_static", "index.html", "book.html"))
    seen = visit((copy / "index.html").as_uri())
    seen.page.wait_for_url("**/intro.html")     # where it leads at once
    wrong = {}
    for path in pages:
        seen.page.goto(path.as_uri(), wait_until="load")
        seen.page.evaluate(SETTLED)
        dead = seen.page.evaluate("""() => [
            document.querySelectorAll('article .math:not(:has(mjx-container))').length,
            document.querySelectorAll('mjx-merror').length,
            document.querySelectorAll('form.rl-form:not(:has(button)), .rl-live:not([data-ready])')
                .length]""")
        seen.page.evaluate("() => document.fonts.ready.then(() => true)")
        # The icon is still on its way when the next page opens; that it is there is tested above.
        bad = [what for what in seen.complaints if "favicon.svg" not in what]
        if bad or any(dead):
            wrong[path.name] = [*bad, dead]
        for kept in (seen.foreign, seen.failed, seen.errors):
            kept.clear()
    assert not wrong


def test_a_form_answers_and_a_live_figure_reveals_from_disk(copy, visit):
    seen = visit((copy / "day1/roofline.html").as_uri())
    form = seen.page.locator("form[data-form-id='day1.cpu.spec']")
    form.locator("input[name=ridge]").fill("11.4 FLOP/B")
    form.get_by_role("button", name="Check").click()
    assert form.locator("output[data-part=ridge]").get_attribute("data-kind") == "right"
    seen.page.goto((copy / "intro.html").as_uri())
    figure = seen.page.locator(".rl-live").first
    before = figure.inner_text()
    figure.get_by_text("Skip").click()
    assert figure.inner_text() != before
    assert not seen.complaints


def test_what_is_answered_stays_on_pages_from_disk(copy, visit):
    seen = visit((copy / "day1/roofline.html").as_uri())
    form = seen.page.locator("form[data-form-id='day1.cpu.spec']")
    form.locator("input[name=ridge]").fill("11.4 FLOP/B")
    form.get_by_role("button", name="Check").click()
    seen.page.goto((copy / "intro.html").as_uri())
    seen.page.goto((copy / "day1/roofline.html").as_uri())
    kept = seen.page.locator("form[data-form-id='day1.cpu.spec'] input[name=ridge]")
    assert kept.input_value() == "11.4 FLOP/B"
    assert not seen.complaints


def test_a_round_of_practice_begins_from_disk(copy, visit):
    seen = visit((copy / "practice.html").as_uri())
    seen.page.locator(".rl-choices button").first.click()
    seen.page.wait_for_selector("#practice-form .rl-part")
    assert not seen.complaints


def test_search_finds_from_disk(copy, visit):
    """A script from disk may read no other page, so results come without summaries of pages."""
    seen = visit((copy / "search.html").as_uri() + "?q=ridge")
    seen.page.wait_for_selector("#search-results li a")
    links = seen.page.evaluate("""() => [...document.querySelectorAll('#search-results li a')]
        .map((a) => a.href)""")
    assert any("day1/roofline.html" in link for link in links)
    seen.page.wait_for_timeout(300)     # a summary that is fetched would fail by now
    assert not seen.complaints
