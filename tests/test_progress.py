"""What a reader answers stays on the reader's device: the store, its failures, files of it.

Most tests open small pages from disk, with stand-ins that send the events of a form or a
prediction; the last ones use the built book.
"""

import html
import json
import random
import re
import tempfile
from pathlib import Path

import pytest
from pages import ROOT, book_pages

from roofline import figures, problems

AXE = (ROOT / "tests/vendor/axe-core/axe.min.js").read_text()
SCRIPT = ROOT / "assets/progress.js"
HERE = "rooflinecourse/1/"
DAY5 = f"{HERE}day5"
LIMIT_MB = 10  # of an imported file

# Stand-ins for forms and predictions: they remember what they were given, and send what a test
# says.
STANDINS = """
globalThis.mount = (el) => {
  const {kind, id} = el.dataset;
  el.given = [];
  const send = (detail) => el.dispatchEvent(
    new CustomEvent("rl", {bubbles: true, detail: {kind, id, ...detail}}));
  el.say = (data) => send({what: "said", data});
  el.open = (variant) => send({what: "worked", data: {variant}});
  send({what: "ready", restore: (data) => { el.given.push(data); }});
};
globalThis.at = (kind, id) => document.querySelector(`[data-kind="${kind}"][data-id="${id}"]`);
for (const el of document.querySelectorAll(".rl")) mount(el);
"""


def said(right: bool = True, text: str = "46.1 MB", variant: int = 0) -> dict:
    """What a form tells: one part, Q."""
    return {"variant": variant, "answers": {"Q": text}, "kinds": {"Q": "right" if right else "off"},
            "right": right}


def guessed(text: str = "200", skipped: bool = False) -> dict:
    return {"answers": {"I": text}, "skipped": skipped}


def entry(data, at: str = "2026-01-02T03:04:05.678Z") -> dict:
    return {"at": at, "data": data}


def day_text(day: str = "day5", **sections) -> str:
    """A day as the script writes it, to the character."""
    return json.dumps({"version": 1, "day": day, "entries": sections}, separators=(",", ":"))


def file_text(texts=(), **days) -> str:
    return json.dumps({"course": "rooflinecourse", "version": 1, "at": "2026-01-02T03:04:05.678Z",
                       "days": days, "texts": list(texts)})


class Course:
    """A page of the course with stand-ins on it, as a reader has it open."""

    def __init__(self, page):
        self.page = page

    def say(self, id: str, data: dict) -> None:
        kind = "guess" if "skipped" in data else "form"
        self.page.evaluate("([kind, id, data]) => at(kind, id).say(data)", [kind, id, data])

    def given(self, id: str, kind: str = "form") -> list:
        """What `restore` was called with."""
        return self.page.evaluate("([kind, id]) => at(kind, id).given", [kind, id])

    def get(self, day: str = "day5") -> dict:
        return self.page.evaluate("(day) => courseProgress.get(day)", day)

    def line(self) -> str:
        return self.page.inner_text(".rl-progress-line > p")

    def notices(self) -> str:
        self.page.evaluate("() => new Promise((done) => setTimeout(done))")
        return "\n".join(self.page.locator(".rl-progress-line [role=status]").all_inner_texts())

    def stored(self) -> dict[str, str]:
        return self.page.evaluate("""() => Object.fromEntries(
            Object.keys(localStorage).sort().map((key) => [key, localStorage.getItem(key)]))""")

    def day(self, day: str = "day5") -> dict:
        """What the device holds for a day, read without the script under test."""
        doc = json.loads(self.stored()[HERE + day])
        assert (doc["version"], doc["day"]) == (1, day)
        return doc["entries"]

    def data(self, section: str, id: str) -> object:
        return self.day(id.split(".")[0])[section][id]["data"]

    # The page of practice and progress

    def says(self) -> str:
        return self.page.inner_text(".rl-progress-says")

    def table(self) -> dict[str, list[str]]:
        return {cells[0]: cells[1:] for cells in self.page.evaluate(
            "() => [...document.querySelectorAll('.rl-progress tbody tr')]"
            ".map((tr) => [...tr.cells].map((cell) => cell.textContent))")}

    def export(self, where: str = ".rl-progress-tools") -> str:
        with self.page.expect_download() as download:
            self.page.click(f"{where} button:text-is('Export')")
        assert re.fullmatch(r"roofline-progress-\d{4}-\d\d-\d\d\.json",
                            download.value.suggested_filename)
        return Path(download.value.path()).read_text("utf-8")

    def import_(self, text: str, name: str = "progress.json") -> str:
        self.page.evaluate("document.querySelector('.rl-progress-says').textContent = ''")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(text, "utf-8")
            self.page.set_input_files(".rl-progress input[type=file]", path)
            return self.imported()

    def imported(self) -> str:
        self.page.wait_for_function(
            "() => document.querySelector('.rl-progress-says').textContent !== ''")
        return self.says()

    def erase(self, what: str = "all days") -> None:
        self.page.select_option("#rl-progress-which", label=what)
        self.page.click(".rl-progress-tools button:text-is('Erase')")
        self.page.click(f".rl-progress-confirm button:text-is('Erase {what}')")


def write(path: Path, ids, *, edition=None, practice=False, head="", body="", dark=False,
          off=()) -> Path:
    def elements(ids) -> str:
        return "".join(f'<div class="rl" data-kind="{"guess" if "open" in id else "form"}" '
                       f'data-id="{id}"><input aria-label="{id}"></div>' for id in ids)

    ground, ink = ("#121212", "#ced6dd") if dark else ("#ffffff", "#222832")
    muted, danger = ("#a8b0ba", "#ff8f86") if dark else ("#59616b", "#b02a37")
    data = json.dumps(edition or {}).replace("<", "\\u003c")
    path.write_text(
        f'<!doctype html><html lang="en" data-theme="{"dark" if dark else "light"}"><head>'
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Test</title><style>html {{ --pst-color-text-base: {ink}; "
        f"--pst-color-text-muted: {muted}; --pst-color-danger: {danger}; "
        f"--pst-color-background: {ground}; background: {ground}; color: {ink} }}"
        f"a {{ color: inherit }}</style>{head}"
        f'<link rel="stylesheet" href="{(ROOT / "_static/course.css").as_uri()}">'
        f'<script defer src="{SCRIPT.as_uri()}"></script></head><body><main><h1>Test</h1>'
        f"<p>Before.</p>{elements(ids)}{body}"
        f'<div data-rl-progress="off">{elements(off)}</div>'
        + ('<div id="rl-progress"><p>Where scripts run, a table stands here.</p></div>'
           if practice else "")
        + f'<script type="application/json" id="rl-edition">{data}</script></main>'
        f'<script type="module">{STANDINS}</script></body></html>', "utf-8")
    return path


IDS = ("day5.traffic", "day5.tiles", "day5.open-roof")
EDITION = {"days": {"day4": {"title": "Day 4", "form": ["day4.knee"], "guess": []},
                    "day5": {"title": "Day 5", "form": ["day5.traffic", "day5.tiles"],
                             "guess": ["day5.open-roof"]}}}


@pytest.fixture
def course(visit, tmp_path):
    """course(ids, stored={key: text}, init=script, **write): a page; beside another one's tab."""
    def open_page(ids=IDS, *, beside: Course | None = None, stored=None, init="", options=None,
                  **how) -> Course:
        path = write(tmp_path / f"{len(list(tmp_path.iterdir()))}.html", ids, **how)
        if beside:
            page = beside.page.context.new_page()
        else:
            seen = visit("about:blank", **(options or {}))
            page = seen.page
            errors.append(seen)
            if stored:
                blank = tmp_path / "blank.html"
                blank.write_text("<title>Blank</title>")
                page.goto(blank.as_uri())
                page.evaluate("(all) => Object.entries(all).forEach((one) => "
                              "localStorage.setItem(...one))", stored)
        if init:
            page.add_init_script(init)
        page.goto(path.as_uri())
        return Course(page)

    errors: list = []
    yield open_page
    for seen in errors:
        assert not seen.complaints


def practice(course, **how) -> Course:
    return course((), practice=True, edition=EDITION, **how)


# --- answers stay ---------------------------------------------------------------------------


def test_a_first_visit_writes_nothing(course):
    page = course()
    assert page.stored() == {}
    assert page.line() == ("Kept on this device: 0 of 2 questions right, 0 of 1 prediction made. "
                           "Practice and progress")
    assert page.notices() == "" and page.given("day5.traffic") == []


def test_an_answer_is_there_after_a_reload(course):
    page = course()
    page.say("day5.traffic", said(variant=3))
    page.say("day5.tiles", said(False, "5 GB"))
    page.say("day5.open-roof", guessed("93"))
    page.page.reload()
    assert page.given("day5.traffic") == [said(variant=3)]
    assert page.given("day5.tiles") == [said(False, "5 GB")]
    assert page.given("day5.open-roof", "guess") == [guessed("93")]
    assert page.line().startswith(
        "Kept on this device: 1 of 2 questions right, 1 of 1 prediction made.")


def test_the_store_is_versioned_json_with_times_in_utc(course):
    page = course()
    page.page.evaluate("Date.now = () => Date.UTC(2026, 10, 30, 15, 57, 38, 123)")
    page.say("day5.traffic", said(variant=3))
    time = "2026-11-30T15:57:38.123Z"
    assert json.loads(page.stored()[DAY5]) == {"version": 1, "day": "day5", "entries": {
        "form": {"day5.traffic": entry(said(variant=3), time)},
        "solved": {"day5.traffic": entry({"variant": 3}, time)}}}
    assert list(page.stored()) == [DAY5]
    assert page.page.context.cookies() == []


def test_the_last_answer_stands_and_what_was_right_once_stays_right(course):
    page = course()
    page.say("day5.traffic", said())
    page.say("day5.traffic", said(False, "7 GB", variant=1))
    page.page.reload()
    assert page.given("day5.traffic") == [said(False, "7 GB", variant=1)]
    assert "1 of 2 questions right" in page.line()
    assert page.get()["solved"]["day5.traffic"]["data"] == {"variant": 0}


def test_check_without_an_answer_replaces_none(course):
    page = course()
    page.say("day5.traffic", said())
    before = page.stored()
    page.say("day5.traffic", {"variant": 0, "answers": {"Q": ""}, "kinds": {"Q": "not attempted"},
                              "right": False})
    assert page.stored() == before


def test_a_skipped_prediction_comes_back_and_is_not_counted_as_made(course):
    page = course()
    page.say("day5.open-roof", guessed("", skipped=True))
    page.page.reload()
    assert page.given("day5.open-roof", "guess") == [guessed("", skipped=True)]
    assert "0 of 1 prediction made" in page.line()


def test_an_opened_worked_answer_is_noted_and_restores_nothing(course):
    page = course()
    page.page.evaluate("at('form', 'day5.tiles').open(2)")
    page.page.reload()
    assert page.get()["worked"]["day5.tiles"]["data"] == {"variant": 2}
    assert page.given("day5.tiles") == [] and "0 of 2 questions right" in page.line()


def test_each_day_has_its_own_key(course):
    page = course(("day5.traffic", "vjepa2.open-roof"))
    page.say("day5.traffic", said())
    page.say("vjepa2.open-roof", guessed())
    assert list(page.stored()) == [DAY5, f"{HERE}vjepa2"]


def test_rounds_of_practice_are_left_alone(course):
    page = course(("day5.tiles",), off=("day5.traffic",),
                  stored={DAY5: day_text(form={"day5.traffic": entry(said())})})
    assert page.given("day5.traffic") == []
    before = page.stored()
    page.say("day5.traffic", said(False))
    assert page.stored() == before and "of 1 question right" in page.line()


def test_two_of_one_question_on_a_page_are_counted_once_and_agree(course):
    page = course(("day5.traffic", "day5.traffic"))
    page.say("day5.traffic", said())
    assert "1 of 1 question right" in page.line()
    assert page.page.evaluate("() => [...document.querySelectorAll('.rl')].map((el) => el.given)") \
        == [[], [said()]]


def test_an_element_that_cannot_show_its_answer_says_so_and_the_others_go_on(course):
    stored = {DAY5: day_text(form={id: entry(said()) for id in IDS[:2]})}
    page = course(stored=stored, head="""<script>addEventListener("rl", (event) => {
        if (event.detail.id === "day5.traffic" && event.detail.what === "ready")
          event.detail.restore = () => { throw new Error("no such part"); };
      }, true);</script>""")
    assert page.given("day5.tiles") == [said()]
    assert "1 answer kept on this device could not be shown here" in page.notices()
    assert page.stored() == stored


def test_a_clock_that_was_ahead_does_not_freeze_an_answer(course):
    ahead = "2199-01-01T00:00:00.000Z"
    page = course(stored={DAY5: day_text(form={"day5.traffic": entry(said(False), ahead)})})
    page.say("day5.traffic", said())
    assert page.day()["form"]["day5.traffic"] == entry(said(), "2199-01-01T00:00:00.001Z")


# --- two tabs -------------------------------------------------------------------------------


def test_two_tabs_do_not_overwrite_each_other(course):
    one = course()
    two = course(beside=one)
    one.say("day5.traffic", said())
    two.say("day5.tiles", said(False))
    one.say("day5.open-roof", guessed())
    assert set(one.day()["form"]) == {"day5.traffic", "day5.tiles"}
    assert set(one.day()["guess"]) == {"day5.open-roof"}


def wait_line(page: Course, text: str) -> None:
    page.page.wait_for_function(
        "(text) => document.querySelector('.rl-progress-line > p').textContent.includes(text)",
        arg=text, timeout=5000)


def test_an_open_tab_shows_what_another_one_answers(course):
    one = course()
    two = course(beside=one)
    one.say("day5.traffic", said())
    wait_line(two, "1 of 2 questions right")
    assert two.given("day5.traffic") == [said()]
    assert one.given("day5.traffic") == []  # its own answer is not given back to it


def test_another_tab_does_not_disturb_what_is_being_typed(course):
    one = course()
    two = course(beside=one)
    two.page.fill("[aria-label='day5.traffic']", "46")
    two.page.click("h1")
    one.say("day5.traffic", said())
    wait_line(two, "1 of 2 questions right")
    assert two.given("day5.traffic") == []


def test_what_a_tab_wrote_over_unseen_goes_in_again(course):
    """Browsers tell other processes of a write only later: a tab may write from an old copy."""
    one = course()
    one.say("day5.traffic", said())
    two = course((), beside=one)  # stands for a tab that never saw that answer
    late = day_text(form={"day5.tiles": entry(said(False))})
    two.page.evaluate("([key, text]) => localStorage.setItem(key, text)", [DAY5, late])
    one.page.wait_for_function("(key) => localStorage.getItem(key).includes('day5.traffic')",
                               arg=DAY5)
    assert set(one.day()["form"]) == {"day5.traffic", "day5.tiles"}


def test_answers_of_the_same_moment_are_all_kept(course):
    """Two tabs, each in a process of its own, write without pause; what one wrote over the other
    is made good.
    """
    ids = [[f"day5.{tab}{n}" for n in range(25)] for tab in "ab"]
    one = course(ids[0])
    two = course(ids[1], beside=one)
    for page, own in zip((one, two), ids, strict=True):
        page.page.evaluate("""([ids, data]) => { ids.forEach((id, n) =>
            setTimeout(() => at("form", id).say(data), 3 * n)); }""", [own, said(False)])
    for page in (one, two):
        page.page.wait_for_function("""([key, n]) => Object.keys(JSON.parse(
            localStorage.getItem(key) ?? '{"entries": {"form": {}}}').entries.form).length === n""",
                                    arg=[DAY5, 50], timeout=10_000)
    one.page.wait_for_timeout(300)
    assert set(one.day()["form"]) == set(two.day()["form"]) == {*ids[0], *ids[1]}


def test_what_another_tab_erased_stays_erased(course):
    one = course()
    one.say("day5.traffic", said())
    two = practice(course, beside=one)
    two.erase("Day 5")
    wait_line(one, "0 of 2 questions right")
    one.say("day5.tiles", said(False))
    assert set(one.day()["form"]) == {"day5.tiles"} and "solved" not in one.day()


# --- writes that fail -----------------------------------------------------------------------

FULL = "this browser's storage for the site is full"
STAYS = "Your answers stay on this page until you leave it; Export saves them in a file."
QUOTA = """
  const set = Storage.prototype.setItem;
  Storage.prototype.setItem = function (key, text) {
    if (globalThis.broken && key.startsWith("rooflinecourse/")) {
      throw new DOMException("no room", "QuotaExceededError");
    }
    set.call(this, key, text);
  };
"""
FORGETS = QUOTA.replace('throw new DOMException("no room", "QuotaExceededError")', "return")
GARBLES = QUOTA.replace('throw new DOMException("no room", "QuotaExceededError")',
                        "return set.call(this, key, text.slice(0, 20))")


@pytest.mark.parametrize(("init", "reason"), [
    (QUOTA, FULL),
    (FORGETS, "what was written to this browser's storage did not read back the same"),
    (GARBLES, "what was written to this browser's storage did not read back the same"),
], ids=["quota", "forgets", "garbles"])
def test_a_write_that_fails_is_told_and_made_good(course, init, reason):
    page = course(init=init)
    page.say("day5.tiles", said(False))
    page.page.evaluate("globalThis.broken = true")
    page.say("day5.traffic", said())
    assert page.notices() == f"Not kept: {reason}. {STAYS}"
    assert page.line().startswith("On this page: 1 of 2 questions right")
    assert page.get()["form"]["day5.traffic"]["data"] == said()  # in memory
    exported = json.loads(page.export(".rl-progress-line"))
    assert exported["days"]["day5"]["form"]["day5.traffic"]["data"] == said()
    page.page.evaluate("globalThis.broken = false")
    page.say("day5.open-roof", guessed())  # the next answer takes the others with it
    if init == GARBLES:  # it left half a text, which is set aside like any other
        assert "Not kept" not in page.notices() and len(aside(page)) == 1
    else:
        assert page.notices() == "Kept: all answers of this page are on this device now."
    assert page.line().startswith("Kept on this device: 1 of 2 questions right, 1 of 1 prediction")
    assert not page.page.is_visible(".rl-progress-line button")
    page.page.reload()
    assert page.given("day5.traffic") == [said()]
    assert page.given("day5.tiles") == [said(False)]
    assert page.given("day5.open-roof", "guess") == [guessed()]
    assert page.notices() == ""


def test_an_answer_too_large_to_keep_is_told(course):
    page = course()
    page.say("day5.traffic", said(text="4" * 100_000))
    assert page.notices().startswith(
        "Not kept: form: day5.traffic: expected at most 100000 characters, got 100")
    assert page.stored() == {}
    page.say("day5.traffic", said())
    assert page.notices() == "" and page.data("form", "day5.traffic") == said()


def test_a_write_that_came_out_wrong_once_leaves_what_was_there(course):
    once = GARBLES.replace("return set", "globalThis.broken = false; return set")
    page = course(init=once)
    page.say("day5.tiles", said(False))
    before = page.stored()
    page.page.evaluate("globalThis.broken = true")
    page.say("day5.traffic", said())
    assert "did not read back the same" in page.notices() and page.stored() == before


def test_try_again_is_a_button_too(course):
    page = course(init=QUOTA)
    page.page.evaluate("globalThis.broken = true")
    page.say("day5.traffic", said())
    page.page.click("text=Try again")
    assert FULL in page.notices() and page.stored() == {}
    page.page.evaluate("globalThis.broken = false")
    page.page.click("text=Try again")
    assert FULL not in page.notices()
    assert page.data("form", "day5.traffic") == said()


def test_a_storage_that_is_really_full(course):
    page = course()
    page.say("day5.tiles", said(False))
    page.page.evaluate("""() => {
      let text = "x".repeat(1 << 22);
      for (let n = 0; text.length >= 1;) {
        try { localStorage.setItem(`filler${n}`, text); n += 1; }
        catch { text = text.slice(0, text.length >> 1); }
      }
    }""")
    page.say("day5.traffic", said(text="4" * 500))
    assert f"Not kept: {FULL}." in page.notices()
    assert set(page.day()["form"]) == {"day5.tiles"}  # what was there is whole
    page.page.evaluate("() => Object.keys(localStorage).filter((key) => key.startsWith('filler'))"
                       ".forEach((key) => localStorage.removeItem(key))")
    page.say("day5.open-roof", guessed())
    assert FULL not in page.notices()
    assert set(page.day()["form"]) == {"day5.tiles", "day5.traffic"}


BLOCKED = """Object.defineProperty(globalThis, "localStorage", {get() {
  if (globalThis.allowed) return sessionStorage;
  throw new DOMException("denied", "SecurityError");
}});"""


def test_storage_that_may_not_be_touched(course):
    page = course(init=BLOCKED)
    why = "Not kept: this browser does not let the page use its storage (SecurityError)."
    assert page.notices() == f"{why} {STAYS}"
    page.say("day5.traffic", said())
    assert "On this page: 1 of 2 questions right" in page.line()
    assert json.loads(page.export(".rl-progress-line"))["days"]["day5"]["solved"]
    page.page.evaluate("globalThis.allowed = true")
    page.say("day5.tiles", said(False))
    assert "Kept on this device" in page.line()
    assert page.page.evaluate("(key) => Object.keys(JSON.parse(sessionStorage.getItem(key))"
                              ".entries.form)", DAY5) == ["day5.traffic", "day5.tiles"]


def test_a_page_without_an_origin_has_no_storage_and_works(visit, tmp_path):
    """A real refusal: a frame whose sandbox gives it no origin."""
    inner = write(tmp_path / "inner.html", IDS).read_text()
    inner = inner.replace(f'<script defer src="{SCRIPT.as_uri()}"></script>',
                          f"<script type=module>{SCRIPT.read_text()}</script>")
    outer = tmp_path / "outer.html"
    outer.write_text('<title>T</title><iframe sandbox="allow-scripts" '
                     f'srcdoc="{html.escape(inner)}"></iframe>')
    seen = visit(outer.as_uri())
    frame = seen.page.frames[1]
    frame.wait_for_selector(".rl-progress-trouble")
    assert "(SecurityError)" in frame.inner_text(".rl-progress-line [role=status]")
    frame.evaluate("(data) => at('form', 'day5.traffic').say(data)", said())
    assert "1 of 2 questions right" in frame.inner_text(".rl-progress-line > p")


@pytest.mark.parametrize("value", ["null", "undefined",
                                   "{getItem: () => null, setItem() {}, removeItem() {}}"])
def test_a_browser_without_storage(course, value):
    page = course(init=f'Object.defineProperty(globalThis, "localStorage", {{value: {value}}})')
    assert "Not kept: this browser gives the page no storage." in page.notices()
    page.say("day5.traffic", said())
    assert "1 of 2 questions right" in page.line()


# --- what cannot be read --------------------------------------------------------------------

SOUND = {"form": {"day5.tiles": entry(said(False, "5 GB"))}}
CORRUPT = {
    "not JSON": '{"version":1,"day":"day5","entries":{"form":{"day5.tr',
    "empty": "",
    "a list": "[]",
    "null": "null",
    "a number": "7",
    "NaN": '{"version":1,"day":"day5","entries":{"form":{"day5.tiles":{"at":NaN,"data":1}}}}',
    "no version": json.dumps({"day": "day5", "entries": SOUND}),
    "version as text": json.dumps({"version": "1", "day": "day5", "entries": SOUND}),
    "version 0": json.dumps({"version": 0, "day": "day5", "entries": SOUND}),
    "version 1.5": json.dumps({"version": 1.5, "day": "day5", "entries": SOUND}),
    "version 1e999": '{"version":1e999,"day":"day5","entries":{}}',
    "entries a list": json.dumps({"version": 1, "day": "day5", "entries": []}),
    "no entries": json.dumps({"version": 1, "day": "day5"}),
    "huge": "x" * 300_000,
    "nested too deep": ('{"version":1,"day":"day5","entries":' + '{"a":' * 50_000 + "1"
                        + "}" * 50_001),
}
PARTLY = {
    "a section is text": day_text(**SOUND, guess="none"),
    "a section is null": day_text(**SOUND, guess=None),
    "an entry is a number": day_text(form={**SOUND["form"], "day5.traffic": 7}),
    "an entry is null": day_text(form={**SOUND["form"], "day5.traffic": None}),
    "time is a number": day_text(form={**SOUND["form"], "day5.traffic": entry(said(), 5)}),
    "time is no time": day_text(form={**SOUND["form"], "day5.traffic": entry(said(), "yesterday")}),
    "time without zone": day_text(form={**SOUND["form"],
                                        "day5.traffic": entry(said(), "2026-01-02T03:04:05.678")}),
    "the end of time": day_text(form={**SOUND["form"],
                                      "day5.traffic": entry(said(), "9999-12-31T23:59:59.999Z")}),
    "no such month": day_text(form={**SOUND["form"],
                                    "day5.traffic": entry(said(), "2026-13-02T03:04:05.678Z")}),
    "no data": day_text(form={**SOUND["form"], "day5.traffic": {"at": entry(1)["at"]}}),
    "answers are a list": day_text(form={**SOUND["form"], "day5.traffic": entry(
        {**said(), "answers": ["46.1 MB"]})}),
    "an answer is a number": day_text(form={**SOUND["form"], "day5.traffic": entry(
        {**said(), "answers": {"Q": 46.1}})}),
    "right is 1": day_text(form={**SOUND["form"], "day5.traffic": entry({**said(), "right": 1})}),
    "variant is -1": day_text(form={**SOUND["form"], "day5.traffic": entry(said(variant=-1))}),
    "a prediction is text": day_text(**SOUND, guess={"day5.open-roof": entry("200")}),
    "of another day": day_text(form={**SOUND["form"], "day4.knee": entry(said())}),
    "id is __proto__": day_text(form={**SOUND["form"], "__proto__": entry(said())}),
    "an entry too large": day_text(form={**SOUND["form"], "day5.traffic": entry(
        said(text="9" * 100_000))}),
    "an entry nested too deep": day_text(**SOUND)[:-2] + ',"practice":{"day5.tiles":{"at":"'
        + entry(1)["at"] + '","data":' + "[" * 200_000 + "]" * 200_000 + "}}}}",
    "says another day": json.dumps({"version": 1, "day": "day4", "entries": SOUND}),
    "more than we know": json.dumps({"version": 1, "day": "day5", "entries": SOUND, "more": 1}),
}


def aside(page: Course) -> dict[str, str]:
    return {key: text for key, text in page.stored().items() if key.startswith(f"{HERE}kept/")}


@pytest.mark.parametrize("text", CORRUPT.values(), ids=CORRUPT)
def test_what_cannot_be_read_is_set_aside_before_anything_is_written(course, text):
    page = course(stored={DAY5: text})
    ((key, kept),) = aside(page).items()
    assert kept == text
    assert re.fullmatch(rf"{HERE}kept/day5/\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", key)
    assert "What this browser held for Day 5 could not be read whole" in page.notices()
    assert "0 entries of it could be used" in page.notices()
    page.say("day5.traffic", said())
    page.page.reload()
    assert page.given("day5.traffic") == [said()]
    assert aside(page) == {key: text} and page.notices() == ""


@pytest.mark.parametrize("text", PARTLY.values(), ids=PARTLY)
def test_what_is_sound_in_it_goes_on_and_the_rest_is_set_aside(course, text):
    page = course(stored={DAY5: text})
    assert list(aside(page).values()) == [text]
    assert page.given("day5.tiles") == [said(False, "5 GB")]
    assert page.given("day5.traffic") == [] and page.given("day5.open-roof", "guess") == []
    assert page.day() == SOUND
    assert "1 entry of it could be used" in page.notices()
    assert page.page.evaluate("({}).at === undefined && ({}).form === undefined")


@pytest.mark.parametrize("init", [QUOTA, FORGETS, GARBLES], ids=["quota", "forgets", "garbles"])
def test_what_can_be_neither_read_nor_set_aside_stays_untouched(course, init):
    text = PARTLY["an entry is a number"]
    page = course(stored={DAY5: text}, init=f"globalThis.broken = true; {init}")
    assert page.stored()[DAY5] == text
    page.say("day5.traffic", said())
    assert page.stored()[DAY5] == text
    assert "Not kept: what this browser holds for Day 5 cannot be read" in page.notices()
    assert "it is left as it is" in page.notices() and STAYS in page.notices()
    assert page.given("day5.tiles") == [said(False, "5 GB")]  # what can be read is shown
    assert "1 of 2 questions right" in page.line()
    exported = json.loads(page.export(".rl-progress-line"))
    assert {"key": DAY5, "text": text} in exported["texts"]
    page.page.evaluate("globalThis.broken = false")
    page.say("day5.open-roof", guessed())
    assert text in aside(page).values()
    assert set(page.day()["form"]) == {"day5.tiles", "day5.traffic"}
    assert "Not kept" not in page.notices()


def test_the_same_text_is_set_aside_once(course):
    kept = f"{HERE}kept/day5/2026-01-02T03:04:05.678Z"
    page = course(stored={DAY5: "[]", kept: "[]"})
    assert aside(page) == {kept: "[]"} and DAY5 not in page.stored()


def test_a_newer_edition_s_day_is_read_only(course):
    text = json.dumps({"version": 2, "day": "day5", "answers": {"day5.traffic": "46 MB"}})
    page = course(stored={DAY5: text})
    newer = ("Not kept: what this browser holds for Day 5 is of a newer edition (version 2, this "
             "page reads 1) and is left as it is.")
    assert page.notices() == f"{newer} {STAYS}"
    page.say("day5.traffic", said())
    assert page.stored() == {DAY5: text}
    assert page.notices() == f"{newer} {STAYS}" and "1 of 2 questions right" in page.line()
    exported = json.loads(page.export(".rl-progress-line"))
    assert exported["texts"] == [{"key": DAY5, "text": text}]
    assert exported["days"]["day5"]["form"]["day5.traffic"]["data"] == said()


# --- ids of other editions --------------------------------------------------------------------


def test_answers_under_an_older_name_move_on(course):
    renamed = {"day5.bytes": "day5.volume", "day5.volume": "day5.traffic", "day4.old": "day5.tiles",
               "day5.open": "day5.open-roof"}
    stored = {DAY5: day_text(form={"day5.bytes": entry(said())}, solved={"day5.bytes": entry({})},
                             guess={"day5.open": entry(guessed())}),
              f"{HERE}day4": day_text("day4", form={"day4.old": entry(said(False)),
                                                    "day4.knee": entry(said())})}
    page = course(stored=stored, edition={"renamed": renamed})
    assert page.given("day5.traffic") == [said()] and page.given("day5.tiles") == [said(False)]
    assert page.given("day5.open-roof", "guess") == [guessed()]
    assert "1 of 2 questions right" in page.line()
    assert set(page.day()["form"]) == {"day5.traffic", "day5.tiles"}
    assert set(page.day("day4")["form"]) == {"day4.knee"}


def test_the_newer_of_two_names_wins(course):
    old, new = "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z"
    for first, second in ((old, new), (new, old)):
        page = course(edition={"renamed": {"day5.bytes": "day5.traffic"}},
                      stored={DAY5: day_text(form={
                          "day5.bytes": entry(said(text=first), first),
                          "day5.traffic": entry(said(text=second), second)})})
        assert page.given("day5.traffic") == [said(text=new)]
        assert set(page.day()["form"]) == {"day5.traffic"}


def test_a_circle_of_names_ends(course):
    page = course(edition={"renamed": {"day5.traffic": "day5.tiles", "day5.tiles": "day5.traffic"}},
                  stored={DAY5: day_text(form={"day5.traffic": entry(said())})})
    assert len(page.day()["form"]) == 1


def test_a_move_that_cannot_be_written_loses_nothing(course):
    stored = {f"{HERE}day4": day_text("day4", form={"day4.old": entry(said())})}
    page = course(stored=stored, edition={"renamed": {"day4.old": "day5.traffic"}},
                  init=f"globalThis.broken = true; {QUOTA}")
    assert page.given("day5.traffic") == [said()] and FULL in page.notices()
    assert page.stored() == stored


def test_what_cannot_be_read_whole_goes_aside_before_answers_move_out_of_it(course):
    text = day_text("day4", form={"day4.old": entry(said()), "day4.knee": 7})
    page = course(stored={f"{HERE}day4": text}, edition={"renamed": {"day4.old": "day5.traffic"}})
    assert page.given("day5.traffic") == [said()]
    assert list(aside(page).values()) == [text]
    assert f"{HERE}day4" not in page.stored() and set(page.day()["form"]) == {"day5.traffic"}


def test_and_stays_untouched_where_it_cannot_go_aside(course):
    text = day_text("day4", form={"day4.old": entry(said()), "day4.knee": 7})
    only = QUOTA.replace('key.startsWith("rooflinecourse/")', 'key.includes("/kept/")')
    page = course(stored={f"{HERE}day4": text}, init=f"globalThis.broken = true; {only}",
                  edition={"renamed": {"day4.old": "day5.traffic"}})
    assert page.stored() == {f"{HERE}day4": text}
    assert "holds for Day 4 cannot be read" in page.notices()


def test_a_newer_edition_s_day_is_not_moved_from(course):
    stored = {f"{HERE}day4": json.dumps({"version": 2, "day": "day4", "entries": {
        "form": {"day4.old": entry(said())}}})}
    page = course(stored=stored, edition={"renamed": {"day4.old": "day5.traffic"}})
    assert page.given("day5.traffic") == [] and page.stored() == stored


def test_answers_of_questions_that_are_gone_stay_and_are_told(course):
    gone = {"day5.gone": entry(said()), "day5.tiles": entry(said())}
    stored = {DAY5: day_text(form=gone, guess={"day5.open-gone": entry(guessed())}),
              f"{HERE}day9": day_text("day9", form={"day9.x": entry(said())})}
    page = practice(course, stored=stored)
    assert "3 answers belong to questions this edition does not have; they are kept." \
        in page.page.inner_text(".rl-progress")
    assert page.table()["Day 5"][:3] == ["0 of 2", "1", "0 of 1"]
    exported = json.loads(page.export())["days"]
    assert exported["day5"]["form"] == gone and "day9.x" in exported["day9"]["form"]
    beside = course(beside=page)
    beside.say("day5.traffic", said())
    assert set(beside.day()["form"]) == {"day5.gone", "day5.tiles", "day5.traffic"}


def test_the_course_s_own_renames_lead_to_problems_that_exist():
    table = re.search(r"const RENAMED = (\{.*?\});", SCRIPT.read_text(), re.DOTALL)[1]
    renamed = json.loads(table)
    assert not set(renamed) & set(problems.BANK)
    assert all(new in problems.BANK or new in renamed for new in renamed.values())


# --- for other scripts ----------------------------------------------------------------------


def test_other_scripts_can_keep_and_follow(course):
    page = course()
    page.page.evaluate("() => { globalThis.heard = []; "
                       "globalThis.end = courseProgress.subscribe((day) => heard.push(day)); }")
    put = "([...one]) => courseProgress.put(...one)"
    record = {"box": 2, "due": "2026-12-01", "seen": 4}
    assert page.page.evaluate(put, ["day5", "practice", "day5.traffic", record]) == {
        "kept": True, "why": ""}
    assert page.page.evaluate(put, ["rounds", "round", "now", [1, None, "x"]])["kept"]
    assert page.data("practice", "day5.traffic") == record
    assert page.day("rounds")["round"]["now"]["data"] == [1, None, "x"]
    page.say("day5.tiles", said())
    assert page.page.evaluate("heard") == ["day5", "rounds", "day5"]
    page.page.evaluate("() => { end(); }")
    page.say("day5.tiles", said(False))
    assert len(page.page.evaluate("heard")) == 3
    assert page.page.evaluate("courseProgress.days()") == ["day5", "rounds"]
    assert set(page.get("day1")) == {"form", "solved", "worked", "guess", "practice"}


def test_what_get_gives_is_a_copy(course):
    page = course()
    page.say("day5.tiles", said())
    page.page.evaluate("courseProgress.get('day5').form['day5.tiles'].data.answers.Q = 'mine'")
    assert page.get()["form"]["day5.tiles"]["data"] == said()


def test_put_says_when_it_is_not_kept(course):
    page = course(init=f"globalThis.broken = true; {QUOTA}")
    put = "() => courseProgress.put('day5', 'practice', 'day5.traffic', 1)"
    assert page.page.evaluate(put) == {"kept": False, "why": FULL}
    assert page.get()["practice"]["day5.traffic"]["data"] == 1
    assert f"Not kept: {FULL}." in page.notices()


def test_names_that_objects_have_by_themselves_are_names_like_others(course):
    page = course()
    put = "(word) => courseProgress.put(word, word, 'toString', [word]).kept"
    for word in ("constructor", "prototype"):
        assert page.page.evaluate(put, word)
        page.page.reload()
        assert page.get(word)[word]["toString"]["data"] == [word]
        assert page.day(word)[word]["toString"]["data"] == [word]
    assert page.page.evaluate("typeof Object.toString === 'function' && !('toString' in "
                              "Object.create(null)) && ({}).at === undefined")


@pytest.mark.parametrize("call", [
    "'Day5', 'practice', 'day5.x', 1", "'__proto__', 'practice', 'x', 1",
    "'day5', '__proto__', 'x', 1", "'day5', 'practice', '__proto__', 1",
    "'day5', 'practice', 'day4.x', 1", "'day5', 'form', 'day5.x', {right: true}",
    "'day5', 'practice', 'day5.x', undefined", "'day5', 'practice', 'day5.x', 'x'.repeat(100001)",
])
def test_put_refuses_what_could_not_be_read_back(course, call):
    page = course()
    assert page.page.evaluate(f"""() => {{
        try {{ courseProgress.put({call}); }} catch (error) {{ return error.name; }}
    }}""") == "TypeError"
    assert page.stored() == {}


# --- the page of practice and progress ------------------------------------------------------

FULL_WEEK = {
    DAY5: day_text(form={"day5.traffic": entry(said(), "2026-03-01T10:00:00.000Z"),
                         "day5.tiles": entry(said(False), "2026-03-02T10:00:00.000Z")},
                   solved={"day5.traffic": entry({"variant": 0}, "2026-03-01T10:00:00.000Z")},
                   guess={"day5.open-roof": entry(guessed(), "2026-03-01T09:00:00.000Z")},
                   practice={"day5.traffic": entry({"box": 1}, "2026-03-03T10:00:00.000Z")}),
    f"{HERE}day4": day_text("day4", form={"day4.knee": entry(said())}),
    f"{HERE}rounds": day_text("rounds", round={"now": entry([1])}),
    f"{HERE}kept/day5/2026-02-01T00:00:00.000Z": "[broken",
    f"{HERE}day6": json.dumps({"version": 2, "day": "day6"}),
}


def test_a_table_of_the_days(course):
    page = practice(course, stored=FULL_WEEK)
    assert page.table() == {"Day 4": ["0 of 1", "1", "0 of 0", "0", "2026-01-02"],
                            "Day 5": ["1 of 2", "2", "1 of 1", "1", "2026-03-03"]}
    text = page.page.inner_text(".rl-progress")
    assert "1 text that could not be read is set aside" in text and "Where scripts run" not in text
    other = course(beside=page)
    other.say("day5.tiles", said())
    page.page.wait_for_function("() => document.querySelector('.rl-progress tbody')"
                                ".textContent.includes('2 of 2')")


def test_nothing_kept_yet(course):
    page = practice(course)
    assert "Nothing is kept on this device yet." in page.page.inner_text(".rl-progress")
    assert page.stored() == {} and page.page.locator(".rl-progress-line").count() == 0
    assert json.loads(page.export())["days"] == {}


def test_without_script_the_page_says_what_stands_there(course, visit, tmp_path):
    path = write(tmp_path / "plain.html", IDS, practice=True)
    page = visit(path.as_uri(), java_script_enabled=False).page
    assert "Where scripts run" in page.inner_text("#rl-progress")
    assert page.locator(".rl-progress-line, button").count() == 0
    assert page.inner_text("main").startswith("Test\n\nBefore.")


def test_export_erase_import_gives_the_same(course):
    page = practice(course, stored=FULL_WEEK)
    file = page.export()
    doc = json.loads(file)
    assert (doc["course"], doc["version"]) == ("rooflinecourse", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ", doc["at"])
    page.erase()
    assert page.stored() == {} and page.says() == "Erased: all days."
    assert page.table()["Day 5"] == ["0 of 2", "0", "0 of 1", "0", ""]
    assert page.import_(file) == (
        "Imported progress.json. Entries: 7 added, 0 newer than here and taken, 0 older than here "
        "and left, 0 the same; texts set aside before: 2.")
    after = page.stored()
    assert after == FULL_WEEK
    assert page.import_(file).endswith("0 older than here and left, 7 the same.")
    assert page.stored() == after


def test_an_import_takes_what_is_newer_and_leaves_what_is_older(course):
    page = practice(course, stored={DAY5: day_text(form={
        "day5.traffic": entry(said(text="here"), "2026-01-02T00:00:00.000Z"),
        "day5.tiles": entry(said(text="here"), "2026-01-02T00:00:00.000Z")})})
    assert page.import_(file_text(day5={"form": {
        "day5.traffic": entry(said(text="file"), "2026-01-01T23:59:59.999Z"),
        "day5.tiles": entry(said(text="file"), "2026-01-02T00:00:00.001Z"),
        "day5.gone": entry(said())}})) == (
        "Imported progress.json. Entries: 1 added, 1 newer than here and taken, 1 older than here "
        "and left, 0 the same.")
    texts = {id: one["data"]["answers"]["Q"] for id, one in page.day()["form"].items()}
    assert texts == {"day5.traffic": "here", "day5.tiles": "file", "day5.gone": "46.1 MB"}


def test_an_import_of_another_day_adds_it(course):
    page = practice(course, stored={DAY5: FULL_WEEK[DAY5]})
    page.import_(file_text(day3={"form": {"day3.vector": entry(said())}}))
    assert page.stored()[DAY5] == FULL_WEEK[DAY5]
    assert set(page.day("day3")["form"]) == {"day3.vector"}
    assert page.table()["Day 3"][0] == "0"


def test_an_import_moves_older_names_on(course):
    page = course((), practice=True, edition={**EDITION, "renamed": {"day4.old": "day5.tiles"}})
    page.import_(file_text(day4={"form": {"day4.old": entry(said())}}))
    assert set(page.stored()) == {DAY5} and set(page.day()["form"]) == {"day5.tiles"}


WHOLE = file_text(day5={"form": {"day5.traffic": entry(said())}})
BAD_FILES = {
    "garbage": ("\x00\xff banana", "expected JSON, got something else or only the beginning of it"),
    "empty": ("", "expected JSON"),
    "truncated": (WHOLE[:-20], "expected JSON"),
    "a list": ("[]", 'course: expected "rooflinecourse", got a list'),
    "null": ("null", 'course: expected "rooflinecourse", got null'),
    "another program's": ('{"cells": []}', 'course: expected "rooflinecourse", got nothing'),
    "newer": (WHOLE.replace('"version": 1', '"version": 2'),
              "version: expected 1, got 2, of a newer"),
    "version as text": (WHOLE.replace('"version": 1', '"version": "1"'),
                        'version: expected 1, got "1"'),
    "days a list": (WHOLE.replace('"days": {', '"days": [], "x": {'),
                    "days: expected an object, got a list"),
    "a day's own text": (day_text(**SOUND), 'course: expected "rooflinecourse", got nothing'),
    "a second day is bad": (file_text(day4={"form": {"day4.knee": entry(said())}}, day5=7),
                            "day5: entries: expected an object, got 7"),
    "an entry is bad": (file_text(day5={"form": {"day5.traffic": entry(said(), "now")}}),
                        'day5: form: "day5.traffic": at: expected a time such as'),
    "answers under another day": (file_text(day4={"form": {"day5.traffic": entry(said())}}),
                                  'day4: form: "day5.traffic": expected an id of day4'),
    "an id __proto__": (file_text(day5={"form": {"__proto__": entry(said())}}), '"__proto__"'),
    "a section __proto__": (file_text(day5={"__proto__": {"x": entry(1)}}), '"__proto__"'),
    "a day __proto__": (file_text(**{"__proto__": {"form": {}}}), '"__proto__"'),
    "texts missing": (json.dumps({k: v for k, v in json.loads(WHOLE).items() if k != "texts"}),
                      "texts: expected a list, got nothing"),
    "a text for another site's key": (file_text([{"key": "theme", "text": "x"}]),
                                      "texts: expected a key of this course"),
    "a text that is none": (file_text([{"key": DAY5, "text": 5}]), "texts: expected a key"),
}


@pytest.mark.parametrize(("text", "why"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_refused_and_changes_nothing(course, text, why):
    page = practice(course, stored=FULL_WEEK)
    report = page.import_(text, "notes.json")
    assert report.startswith(f"Not imported: notes.json: {why}" if "__proto__" not in why
                           else "Not imported: notes.json: ") and why in report
    assert report.endswith("Nothing here has changed; choose a file that Export saved.")
    assert page.stored() == FULL_WEEK
    assert page.page.evaluate("({}).at === undefined && ({}).form === undefined")


def test_a_file_larger_than_the_limit_is_refused(course):
    page = practice(course)
    big = WHOLE + " " * (LIMIT_MB * 1_000_000)
    assert "expected at most 10 MB, got 10.0 MB" in page.import_(big)
    assert page.stored() == {}


def test_an_import_that_does_not_fit_changes_nothing(course):
    page = practice(course, stored=FULL_WEEK)
    days = {f"day{n}": {"practice": {f"day{n}.p{k}": entry("x" * 99_000) for k in range(18)}}
            for n in range(1, 5)}
    assert len(file_text(**days)) < LIMIT_MB * 1e6
    report = page.import_(file_text(**days))
    assert report.startswith(f"Not imported: progress.json: {FULL}. Nothing here has changed")
    assert page.stored() == FULL_WEEK


def test_an_import_into_a_newer_edition_s_day_is_refused(course):
    page = practice(course, stored=FULL_WEEK)
    report = page.import_(file_text(day4={"form": {"day4.new": entry(said())}},
                                  day6={"form": {"day6.x": entry(said())}}))
    assert "Day 6 is of a newer edition" in report
    assert page.stored() == FULL_WEEK


def test_texts_of_a_file_are_never_markup(course):
    nasty = "</script><img src=x onerror=document.title=1><b id=bad>"
    page = practice(course)
    page.import_(file_text([{"key": f"{HERE}{nasty}", "text": nasty}], day5={
        "form": {"day5.traffic": entry(said(text=nasty))},
        "practice": {"day5.traffic": entry(nasty)}}), f"{nasty}.json".replace("/", ""))
    page.import_(json.dumps({"course": nasty}))
    assert nasty in page.says()
    assert page.page.locator("#bad, img").count() == 0 and page.page.title() == "Test"
    beside = course(beside=page)
    assert beside.given("day5.traffic") == [said(text=nasty)]
    assert beside.page.locator("#bad, img").count() == 0


def test_data_with_proto_inside_is_harmless(course):
    page = practice(course)
    text = file_text(day5={"form": {"day5.traffic": entry(said())},
                           "practice": {"day5.traffic": entry({"__proto__": {"bad": 1}})}})
    page.import_(text)
    beside = course(beside=page)
    assert beside.given("day5.traffic") == [said()]
    assert beside.page.evaluate("({}).bad === undefined")
    assert '"__proto__":{"bad":1}' in page.stored()[DAY5]  # data like any other, and not lost


def test_erasing_a_day_asks_first_and_can_be_undone(course):
    page = practice(course, stored=FULL_WEEK)
    page.page.select_option("#rl-progress-which", label="Day 5")
    page.page.click(".rl-progress-tools button:text-is('Erase')")
    asked = page.page.inner_text(".rl-progress-confirm")
    assert "Erase Day 5 from this device? What is kept of 3 questions goes" in asked
    page.page.click("text=Keep it")
    assert page.stored() == FULL_WEEK and not page.page.is_visible(".rl-progress-confirm")
    page.erase("Day 5")
    assert set(page.stored()) == {key for key in FULL_WEEK if "day5" not in key}
    page.erase("Day 4")
    page.page.click("text=Undo: erase Day 4")
    page.page.click("text=Undo: erase Day 5")
    assert page.stored() == FULL_WEEK and page.says() == "Back again: Day 5."
    assert not page.page.is_visible("button:has-text('Undo')")


def test_an_undo_joins_what_was_answered_meanwhile(course):
    page = practice(course, stored=FULL_WEEK)
    page.erase("Day 5")
    other = course(beside=page)
    other.say("day5.tiles", said(text="meanwhile"))
    wait_until = "() => document.querySelector('.rl-progress tbody').textContent.includes('1 of 2')"
    page.page.wait_for_function(wait_until)
    other.page.close()  # it would put its answer in again
    page.page.click("text=Undo: erase Day 5")
    kept = page.day()
    assert kept["form"]["day5.tiles"]["data"]["answers"]["Q"] == "meanwhile"
    assert "day5.traffic" in kept["form"] and "day5.open-roof" in kept["guess"]


def test_an_undo_that_fails_can_be_tried_again(course):
    page = practice(course, stored=FULL_WEEK, init=QUOTA)
    page.erase()
    page.page.evaluate("globalThis.broken = true")
    page.page.click("button:has-text('Undo')")
    assert FULL in page.says() and page.stored() == {}
    page.page.evaluate("globalThis.broken = false")
    page.page.click("button:has-text('Undo')")
    assert page.stored() == FULL_WEEK


def test_a_day_that_was_stuck_begins_anew_after_erasing(course):
    text = CORRUPT["not JSON"]
    page = practice(course, stored={DAY5: text}, init=f"globalThis.broken = true; {QUOTA}")
    assert "cannot be read" in page.notices() and page.stored() == {DAY5: text}
    page.erase("Day 5")
    assert page.stored() == {} and page.notices() == ""
    other = course(beside=page)
    other.say("day5.traffic", said())
    assert other.data("form", "day5.traffic") == said()


@pytest.mark.parametrize("init", [BLOCKED, QUOTA], ids=["blocked", "quota"])
def test_the_page_says_when_nothing_can_be_kept(course, init):
    page = practice(course, init=f"globalThis.broken = true; {init}")
    report = page.import_(WHOLE)
    assert report.startswith("Not imported: progress.json: this browser")
    assert page.import_("banana").startswith("Not imported")
    if init == BLOCKED:
        assert "(SecurityError)" in page.notices()
        page.erase()
        assert "(SecurityError)" in page.says()


# --- any order of events ----------------------------------------------------------------------


def newest(*versions: dict) -> dict:
    """Entries by (section, id): (time, data); the later of two stands."""
    found: dict = {}
    for version in versions:
        for key, one in version.items():
            if key not in found or one[0] > found[key][0]:
                found[key] = one
    return found


class Model:
    """The store in plain words: what the device holds, and what waits in each tab."""

    def __init__(self, tabs: int):
        self.stored: dict = {}
        self.waiting: list[dict] = [{} for _ in range(tabs)]
        self.broken = [False] * tabs
        self.erased: list[dict] = []

    def seen(self, tab: int) -> dict:
        return newest(self.stored, self.waiting[tab])

    def add(self, tab: int, time: int, entries: dict) -> None:
        for key, data in entries.items():
            if key[0] != "solved" or key not in self.seen(tab):
                self.waiting[tab][key] = (time, data)
        if not self.broken[tab]:
            self.stored, self.waiting[tab] = self.seen(tab), {}

    def erase(self, day: str) -> None:
        gone = {key: one for key, one in self.stored.items()
                if day in ("", key[1].partition(".")[0])}
        self.erased.append(gone)
        self.stored = {key: one for key, one in self.stored.items() if key not in gone}


def flat(days: dict) -> dict:
    return {(section, id): one["data"] for entries in days.values()
            for section, of in entries.items() for id, one in of.items()}


def plain(entries: dict) -> dict:
    return {key: data for key, (_, data) in entries.items()}


WEEK = ("day4.knee", "day5.traffic", "day5.tiles", "day4.open", "day5.open-roof")


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_events_leaves_what_the_model_has(course, seed):
    """Answers in two tabs, some with a storage that fails, between reloads, exports, imports,
    erasing and undoing.
    """
    rng, start = random.Random(seed), 1_800_000_000_000
    clock = f"Date.now = () => globalThis.clock ?? {start};"
    first = course(WEEK, init=clock + QUOTA)
    tabs = [first, course(WEEK, beside=first, init=clock + QUOTA)]
    desk = practice(course, beside=first, init=clock)
    model, files = Model(len(tabs)), []

    def check() -> None:
        for page in (*tabs, desk):
            for _ in range(100):  # browsers tell other tabs of a write a little later
                held = {key.removeprefix(HERE): json.loads(text)["entries"]
                        for key, text in page.stored().items()}
                if flat(held) == plain(model.stored):
                    break
                page.page.wait_for_timeout(20)
            assert flat(held) == plain(model.stored)
        for n, page in enumerate(tabs):
            assert flat({day: page.get(day) for day in ("day4", "day5")}) == plain(model.seen(n))
            right = sum(key[0] == "solved" for key in model.seen(n))
            made = sum(key[0] == "guess" and not data["skipped"]
                       for key, (_, data) in model.seen(n).items())
            where = "On this page" if model.waiting[n] else "Kept on this device"
            wait_line(page, f"{where}: {right} of 3 questions right, {made} of 2 predictions made.")

    done = []
    for step in range(1, 46):
        time, tab = start + 1000 * step, rng.randrange(len(tabs))
        page, id = tabs[tab], rng.choice(WEEK)
        what = rng.choices(["say", "put", "reload", "break", "mend", "export", "import", "erase",
                            "undo"], [12, 2, 2, 2, 2, 2, 2, 1, 1])[0]
        done.append((what, tab, id))
        page.page.evaluate("(time) => { globalThis.clock = time; }", time)
        if what == "say" and "open" in id:
            data = guessed(str(step), skipped=rng.random() < 0.3)
            model.add(tab, time, {("guess", id): data})
            page.say(id, data)
        elif what == "say":
            data = said(rng.random() < 0.5, str(step), variant=rng.randrange(16))
            solved = {("solved", id): {"variant": data["variant"]}} if data["right"] else {}
            model.add(tab, time, {("form", id): data, **solved})
            page.say(id, data)
        elif what == "put":
            model.add(tab, time, {("practice", id): {"box": step}})
            kept = page.page.evaluate("([id, box]) => courseProgress.put(id.split('.')[0], "
                                      "'practice', id, {box}).kept", [id, step])
            assert kept != model.broken[tab]
        elif what == "reload":
            model.waiting[tab], model.broken[tab] = {}, False
            page.page.reload()
            for one in WEEK:
                kind = "guess" if "open" in one else "form"
                there = model.stored.get((kind, one))
                assert page.given(one, kind) == ([there[1]] if there else []), done
        elif what in ("break", "mend"):
            model.broken[tab] = what == "break"
            page.page.evaluate("(is) => { globalThis.broken = is; }", what == "break")
        elif what == "export":
            files.append((desk.export(), dict(model.stored)))
        elif what == "import" and files:
            text, held = rng.choice(files)
            model.stored = newest(model.stored, held)
            assert desk.import_(text).startswith("Imported")
        elif what == "erase":
            day = rng.choice(["", "day4", "day5"])
            model.erase(day)
            desk.erase(f"Day {day[-1]}" if day else "all days")
        elif what == "undo" and model.erased:
            model.stored = newest(model.stored, model.erased.pop())
            desk.page.click("button:has-text('Undo')")
        try:
            check()
        except Exception as error:
            raise AssertionError(f"seed {seed}, after {done}") from error


# --- for everyone ---------------------------------------------------------------------------

STATES = {"kept": ("", {}), "trouble": (f"globalThis.broken = true; {QUOTA}", {}),
          "aside": ("", {DAY5: PARTLY["an entry is a number"]})}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("state", STATES)
def test_accessible(course, state, dark):
    init, stored = STATES[state]
    page = course((*IDS, "day5.last"), stored=stored, init=init, dark=dark, practice=True,
                  edition=EDITION)
    page.say("day5.traffic", said())
    page.page.click(".rl-progress-tools button:text-is('Erase')")
    page.page.evaluate(AXE)
    found = page.page.evaluate("() => axe.run({preload: false}).then((found) => found.violations)")
    assert not [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found]
    assert (page.page.locator(".rl-progress-trouble").count() == 1) == (state == "trouble")


@pytest.mark.parametrize("width", [320, 1200])
@pytest.mark.parametrize("state", STATES)
def test_no_sideways_scroll(course, state, width):
    init, stored = STATES[state]
    page = course(stored=stored, init=init, practice=True, edition=EDITION,
                  options={"viewport": {"width": width, "height": 640}})
    page.say("day5.traffic", said())
    page.page.click(".rl-progress-tools button:text-is('Erase')")
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_line_is_one_line_and_trouble_stays_in_view(course):
    page = course((*IDS, *(f"day5.q{n}" for n in range(60))), init=QUOTA)
    height = page.page.locator(".rl-progress-line").bounding_box()["height"]
    assert height < 30
    page.page.evaluate("globalThis.broken = true")
    page.page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.say("day5.traffic", said())
    page.notices()
    notice = page.page.locator(".rl-progress-line [role=status]")
    assert 0 <= notice.bounding_box()["y"] < 100
    page.page.click("text=Leave this at the top")
    assert notice.bounding_box()["y"] < 0 and FULL in page.notices()


def test_not_in_print(course):
    page = course(practice=True, edition=EDITION, stored=FULL_WEEK)
    page.page.emulate_media(media="print")
    assert not page.page.is_visible(".rl-progress-line")
    assert page.page.locator(".rl-progress :is(button, select, input):visible").count() == 0
    assert page.page.is_visible(".rl-progress table")


def test_with_the_keyboard_alone(course):
    page = practice(course, stored=FULL_WEEK)
    press, chosen = page.page.keyboard.press, []
    # It takes a moment until the browser hands choosers over, so long before one opens.
    page.page.on("filechooser", lambda chooser: chosen.append(chooser))

    def to(text: str) -> None:
        for _ in range(20):
            if text in page.page.evaluate(
                    "() => { const {id, textContent} = document.activeElement; "
                    "return document.activeElement === document.body ? [] : [id, textContent]; }"):
                return
            press("Tab")
        raise AssertionError(f"no way to {text}")

    with page.page.expect_download() as download:
        to("Export")
        press("Enter")
    file = Path(download.value.path())
    to("rl-progress-file")
    press("Enter")
    for _ in range(100):
        if chosen:
            break
        page.page.wait_for_timeout(50)
    chosen[0].set_files(file)
    page.page.wait_for_function("() => document.querySelector('.rl-progress-says').textContent"
                                ".startsWith('Imported')")
    to("rl-progress-which")
    page.page.keyboard.type("Day 5")
    press("Tab")
    press("Enter")
    assert page.page.evaluate("document.activeElement.textContent") == "Keep it"
    press("Escape")
    assert page.page.evaluate("document.activeElement.textContent") == "Erase"
    assert page.stored() == FULL_WEEK
    press("Enter")
    press("Shift+Tab")
    assert page.page.evaluate("document.activeElement.textContent") == "Erase Day 5"
    press("Enter")
    assert DAY5 not in page.stored()
    assert page.page.evaluate("document.activeElement.textContent") == "Undo: erase Day 5"
    press("Enter")
    assert page.stored() == FULL_WEEK
    assert page.page.evaluate("document.activeElement.textContent") == "Erase"


def test_the_script_asks_nobody_and_writes_no_markup():
    text = SCRIPT.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|fetch\(|XMLHttp|import\(|cookie|"
                         r"\b(alert|confirm|prompt)\(|https?:", text)


# --- with the course's own forms and pages --------------------------------------------------


def fill(page, form: str, answers: dict[str, str]) -> None:
    for name, answer in answers.items():
        field = f"form[data-form-id='{form}'] input[name='{name}']"
        if page.locator(field).first.get_attribute("type") == "radio":
            page.check(f"{field}[value='{answer}']")
        else:
            page.fill(field, answer)
    page.click(f"form[data-form-id='{form}'] button:text-is('Check')")


def verdicts(page, form: str) -> list[tuple[str, str]]:
    outputs = page.locator(f"form[data-form-id='{form}'] output[data-part]").all()
    return [(one.get_attribute("data-kind"), one.text_content()) for one in outputs]


def right(form: str, seed: int = 0) -> dict[str, str]:
    return {part.name: part.answer for part in problems.ask(form, seed).parts}


@pytest.mark.parametrize("form", [
    next(id for id in problems.BANK if len(problems.ask(id).parts) > 2 and any(
        getattr(part, "options", None) for part in problems.ask(id).parts)), "day5.traffic"])
def test_a_form_comes_back_with_what_was_said_to_it(course, form):
    """Variant, answers and verdicts, as they were."""
    page = course((), body=figures.form(form))
    page.page.click("button:text-is('Another one')")
    fill(page.page, form, right(form, 1))
    there = verdicts(page.page, form)
    assert {kind for kind, _ in there} == {"right"}
    question = page.page.inner_text(".rl-ask")
    page.page.reload()
    assert verdicts(page.page, form) == there and page.page.inner_text(".rl-ask") == question
    assert page.line().startswith("Kept on this device: 1 of 1 question right.")
    fill(page.page, form, dict.fromkeys(right(form), "banana") if form == "day5.traffic" else {})
    assert page.line().startswith("Kept on this device: 1 of 1 question right.")


def test_an_opened_worked_answer_of_a_form_is_noted(course):
    page = course((), body=figures.form("day5.traffic"))
    page.page.click("text=Worked answer")
    page.page.click("text=Worked answer")
    assert page.data("worked", "day5.traffic") == {"variant": 0}
    assert "form" not in page.day()


def test_a_prediction_comes_back_with_its_reveal(course):
    parts = {"I": {"label": "intensity", "unit": "", "found": r"I = (\d+)"}}
    body = (figures.prediction("day5.open-roof", parts, "I = 512", "result")
            + '<div id="result"><details class="hide"><summary>Result</summary>I = 512</details>'
            "</div>")
    page = course((), body=body)
    page.page.fill(".rl-predict-first input", "200")
    page.page.click("text=Commit")
    shown = page.page.inner_text(".rl-predict-first")
    assert "512" in shown and "200" in shown
    page.page.reload()
    assert page.page.inner_text(".rl-predict-first") == shown
    assert page.page.locator("#result details").evaluate("(details) => details.open")
    assert page.line().startswith("Kept on this device: 1 of 1 prediction made.")


def test_answers_of_another_edition_do_not_break_a_form(course):
    """A variant, a part and a choice that this edition does not have."""
    odd = {"variant": 4711, "answers": {"gone": "5 s", "Q": "<b>"}, "kinds": {"gone": "right"},
           "right": True}
    page = course((), body=figures.form("day5.traffic"),
                  stored={DAY5: day_text(form={"day5.traffic": entry(odd)})})
    assert page.notices() == "" and page.data("form", "day5.traffic") == odd
    fill(page.page, "day5.traffic",
         right("day5.traffic", int(page.page.get_attribute("form", "data-variant"))))
    assert {kind for kind, _ in verdicts(page.page, "day5.traffic")} == {"right"}


def asked(path: Path) -> tuple[list[str], list[str]]:
    """Ids of the forms and of the predictions of a page."""
    cells = json.loads(path.read_text())["cells"] if path.suffix == ".ipynb" else []
    marks = [cell["metadata"].get("roofline", {}) for cell in cells]
    return ([mark["form"] for mark in marks if "form" in mark],
            [mark["predict"]["id"] for mark in marks if "predict" in mark])


@pytest.mark.parametrize("path", book_pages(), ids=lambda path: path.stem)
def test_every_page_keeps_progress_before_its_forms_run(path, site):
    text = (site / path.relative_to(ROOT).with_suffix(".html")).read_text()
    head, body = text.split("</head>")
    assert re.search(r'<script defer="defer" src="[^"]*_static/progress\.js', head)
    assert 'type="module"' not in head and "rl-progress-line" not in body


@pytest.mark.parametrize("served", [True, False], ids=["served", "from disk"])
def test_a_page_of_the_book_keeps_what_is_answered(served, site, address, visit):
    path = ROOT / "day5/reuse.ipynb"
    ids, guesses = asked(path)
    url = f"{address}/day5/reuse.html" if served else (site / "day5/reuse.html").as_uri()
    seen = visit(url)
    page = Course(seen.page)
    total = f"of {len(set(ids))} questions right"
    if guesses:
        total += f", 0 of {len(guesses)} prediction{'s' * (len(guesses) > 1)} made"
    assert page.line() == f"Kept on this device: 0 {total}. Practice and progress"
    fill(seen.page, ids[0], right(ids[0]))
    fill(seen.page, ids[1], {name: text for name, text in right(ids[1]).items()})
    first = verdicts(seen.page, ids[0])
    seen.page.reload()
    assert verdicts(seen.page, ids[0]) == first
    assert page.line() == f"Kept on this device: 2 {total}. Practice and progress"
    assert set(page.day()["solved"]) == {ids[0], ids[1]}
    assert not seen.complaints


def test_the_line_leads_to_the_page_of_practice_and_progress(site, address, visit):
    seen = visit(f"{address}/day5/reuse.html")
    first = asked(ROOT / "day5/reuse.ipynb")[0][0]
    fill(seen.page, first, right(first))
    seen.page.click(".rl-progress-line a")
    seen.page.wait_for_selector(".rl-progress table")
    page = Course(seen.page)
    totals = {}
    for path in book_pages():
        for kind, ids in zip(("form", "guess"), asked(path), strict=True):
            for id in ids:
                totals.setdefault(id.split(".")[0], {"form": set(), "guess": set()})[kind].add(id)
    rows = page.table()
    names = {**{f"day{n}": f"Day {n}" for n in range(1, 8)}, "vjepa2": list(rows)[-1]}
    assert list(rows) == list(names.values())
    for day, name in names.items():
        right_, tried, made, practised, _ = rows[name]
        assert (right_, tried, practised) == (
            f"{day == 'day5':d} of {len(totals[day]['form'])}", f"{day == 'day5':d}", "0")
        assert made == f"0 of {len(totals[day]['guess'])}"
    file = page.export()
    page.erase()
    assert page.table()["Day 5"][1] == "0"
    page.import_(file)
    seen.page.go_back()
    seen.page.wait_for_selector(".rl-progress-line")
    wait_line(page, "1 of")
    assert {kind for kind, _ in verdicts(seen.page, first)} == {"right"}
    assert not seen.complaints


def test_pages_without_questions_have_no_line(site, address, visit):
    assert visit(f"{address}/glossary.html").page.locator(".rl-progress-line").count() == 0
