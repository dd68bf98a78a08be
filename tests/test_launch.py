"""Launch buttons: what a page offers with a repository and without, and that it works."""

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import launch
import pytest
from pages import ROOT, notebooks
from sphinx.errors import ConfigError
from sphinx_book_theme.header_buttons.launch import add_launch_buttons
from visits import DESK

ACTIONS = {"GITHUB_REPOSITORY": "somebody/roofline", "GITHUB_SERVER_URL": "https://github.com"}


# --- the repository ------------------------------------------------------------------------


@pytest.mark.parametrize(("environ", "expected"), [
    ({}, ""), ({"ROOFLINE_REPOSITORY": ""}, ""),
    (ACTIONS, "https://github.com/somebody/roofline"),
    ({"GITHUB_REPOSITORY": "a/b"}, "https://github.com/a/b"),
    ({"ROOFLINE_REPOSITORY": "https://gitlab.com/a/b.git"}, "https://gitlab.com/a/b"),
    (ACTIONS | {"ROOFLINE_REPOSITORY": "https://github.com/me/mine/"},
     "https://github.com/me/mine"),
])
def test_the_build_knows_its_repository(environ, expected):
    assert launch.repository(environ) == expected


@pytest.mark.parametrize("url", ["github.com/a/b", "javascript:alert(1)", "https://github.com/a",
                                 'https://github.com/a/b"><script>', "https://x.org/a/b/c"])
def test_another_address_is_an_error(url):
    with pytest.raises(ConfigError, match="https://HOST/OWNER/NAME"):
        launch.repository({"ROOFLINE_REPOSITORY": url})
    with pytest.raises(ConfigError, match="ROOFLINE_JUPYTERHUB"):
        launch.options(ACTIONS | {"ROOFLINE_JUPYTERHUB": "hub"})


def test_without_one_the_theme_gets_nothing():
    assert launch.options({}) == {}


# --- the theme's buttons -------------------------------------------------------------------


def buttons(environ, page="day5/reuse"):
    """What the theme makes of the options, by its own function: text -> address."""
    options = launch.options(environ)
    url = options.get("repository_url", "https://github.com/a/b")
    host, user, repo = url.rsplit("/", 2)
    provider = options.get("repository_provider", "github")
    context = {"pagename": page, "header_buttons": [], "page_source_suffix": ".ipynb",
               "sourcename": f"{page}.ipynb", f"{provider}_url": host, f"{provider}_user": user,
               f"{provider}_repo": repo}
    env = SimpleNamespace(doc2path=lambda name: f"{name}.ipynb",
                          metadata={page: {"kernelspec": {}}})
    app = SimpleNamespace(env=env, config={"html_theme_options": options})
    add_launch_buttons(app, page, "page.html", context, None)
    return {button["text"]: button["url"] for group in context["header_buttons"]
            for button in group["buttons"]}


def test_binder_opens_the_page_itself():
    found = buttons(ACTIONS)
    assert set(found) == {"Binder"}
    url = urlsplit(found["Binder"])
    assert (url.scheme, url.netloc, url.path) == (
        "https", "mybinder.org", "/v2/gh/somebody/roofline/main")
    assert parse_qs(url.query) == {"urlpath": ["lab/tree/day5/reuse.ipynb"]}
    assert (ROOT / "day5/reuse.ipynb").is_file()


def test_binder_finds_what_it_needs():
    """repo2docker reads these two at the root; the course's library is one of the packages."""
    assert (ROOT / "requirements.txt").read_text().startswith("-e ./lib\n")
    python = re.fullmatch(r"python-3\.(\d+)\n", (ROOT / "runtime.txt").read_text())
    assert python and 11 <= int(python[1]) <= 13


def test_a_hub_only_where_one_is_named():
    found = buttons(ACTIONS | {"ROOFLINE_JUPYTERHUB": "https://hub.example.org"})
    assert set(found) == {"Binder", "JupyterHub"}
    url = urlsplit(found["JupyterHub"])
    assert url.path == "/hub/user-redirect/git-pull"
    assert parse_qs(url.query) == {"repo": ["https://github.com/somebody/roofline"],
                                   "urlpath": ["lab/tree/roofline/day5/reuse.ipynb"],
                                   "branch": ["main"]}


def test_no_button_without_a_repository_nor_on_a_host_that_binder_does_not_know():
    assert buttons({}) == {}
    assert buttons({"ROOFLINE_REPOSITORY": "https://git.example.org/a/b"}) == {}


# --- the lines on a page -------------------------------------------------------------------


def lines(url="", launches=(), needs=()):
    return launch.how("day5/reuse", lambda name, _: f"../{name}", 2.1e6, url, list(launches),
                      list(needs))


def test_a_page_says_its_command_and_what_the_notebook_needs():
    said = lines(needs=["kernels.py", "recorded/"])
    assert "<code>python3 course.py lab day5/reuse</code>" in said
    assert 'href="../_sources/day5/reuse.ipynb" download>Download this notebook</a>' in said
    assert f'href="../{launch.ZIP}" download>course folder (zip, 2.1 MB)</a>.' in said
    assert "<code>kernels.py</code>, <code>recorded/</code>" in said
    assert "https://" not in said and "inder" not in said


def test_with_a_repository_it_says_what_binder_is():
    said = lines("https://github.com/a/b", [("Binder", "https://mybinder.org/v2/gh/a/b/main")])
    assert 'href="https://github.com/a/b">its repository</a>' in said
    assert 'href="https://mybinder.org/v2/gh/a/b/main">Open this page on Binder</a>' in said
    assert "no Trainium" in said and "keeps nothing that you write" in said


@pytest.mark.parametrize("page", notebooks(), ids=lambda p: p.stem)
def test_what_lies_beside_a_notebook_is_named(page):
    named = set(launch.beside(page))
    for file in re.findall(r'"(\w+\.py|recorded|profiles?)[/"]', page.read_text()):
        if (page.parent / file).exists():
            assert named & {file, file + "/"}, file
    assert not [name for name in named if name.startswith(".") or "__pycache__" in name]


# --- the folder ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("folder")
    launch.write(ROOT, place / "a.zip")
    launch.write(ROOT, place / "b.zip")
    assert (place / "a.zip").read_bytes() == (place / "b.zip").read_bytes()
    assert not list(place.glob(".*"))
    with zipfile.ZipFile(place / "a.zip") as archive:
        archive.extractall(place)
    return place / launch.TOP


def test_the_folder_has_what_course_py_lab_needs(unpacked, tmp_path):
    spec = importlib.util.spec_from_file_location("folder_course", unpacked / "course.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    assert course.copy_pages(tmp_path / "lab") == []
    for page in notebooks():
        assert (tmp_path / "lab" / page.relative_to(ROOT)).read_bytes() == page.read_bytes()
    done = subprocess.run([sys.executable, "-c", "from roofline import machine, neuroncore; "
                           "import roofline; print(roofline.__file__)"], cwd=unpacked / "lib",
                          capture_output=True, text=True)
    assert done.stdout.strip() == str(unpacked / "lib/roofline/__init__.py"), done.stderr
    assert (unpacked / "requirements.txt").exists() and (unpacked / "LICENSE").exists()


def test_the_folder_has_nothing_of_a_machine(unpacked):
    names = {p.relative_to(unpacked).as_posix() for p in unpacked.rglob("*") if p.is_file()}
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:        # not in a copy without its history
        untracked = subprocess.run(["git", "ls-files", "--others", "--exclude-standard"],
                                   cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
        assert names <= set(done.stdout.split("\n")) | set(untracked)
        tracked = {n for n in done.stdout.split("\n") if n and (ROOT / n).exists()}
        assert {n for n in tracked - names if not n.startswith(("tests/", "."))} == set()


def test_course_py_lab_opens_one_page(unpacked, monkeypatch):
    spec = importlib.util.spec_from_file_location("folder_course", unpacked / "course.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    ran = []
    monkeypatch.setattr(course, "run", lambda *command: ran.append(command))
    for name in ("day5/reuse", "day5/reuse.ipynb"):
        course.lab(8888, name)
        assert ran[-1][-1] == unpacked / "work/lab/day5/reuse.ipynb"
    course.lab(8888)
    assert not str(ran[-1][-1]).endswith(".ipynb")
    with pytest.raises(course.Stop, match=r"no page day5/reus; .*day5/reuse"):
        course.lab(8888, "day5/reus")
    assert len(ran) == 3


# --- the built site ------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["day5/reuse", "casestudy/vjepa2_mlp"])
def test_downloads_are_there_and_named(page, address, visit):
    seen = visit(f"{address}/{page}.html", viewport=DESK)
    part = seen.page.get_by_role("complementary", name="Run this page")
    assert f"python3 course.py lab {page}" in part.inner_text()
    link = part.get_by_role("link", name="Download this notebook")
    with seen.page.expect_download() as got:
        link.click()
    assert got.value.suggested_filename == Path(page).name + ".ipynb"
    assert json.loads(Path(got.value.path()).read_text())["cells"] == json.loads(
        (ROOT / f"{page}.ipynb").read_text())["cells"]
    with seen.page.expect_download() as got:
        part.get_by_role("link", name="course folder").click()
    with zipfile.ZipFile(got.value.path()) as archive:
        assert f"{launch.TOP}/{page}.ipynb" in archive.namelist()
    seen.page.get_by_role("button", name="Download this page").click()
    menu = seen.page.locator(".dropdown-download-buttons")
    assert menu.get_by_role("link").all_inner_texts() == [
        "Notebook (.ipynb)", "Course folder (.zip)"]
    for link in menu.get_by_role("link").all():
        url = link.evaluate("(a) => a.href")
        assert seen.page.request.get(url).ok
    assert not seen.foreign and not seen.errors


def test_pages_without_a_notebook_have_no_such_lines(site):
    assert "run-this-page" not in (site / "glossary.html").read_text()
    assert "run-this-page" not in (site / "search.html").read_text()
