"""Practice: which questions come when, that their forms judge as the library does, and whole
rounds as a reader plays them, by keyboard, on a phone, from disk, with no store."""

import gzip
import json
import random
import re
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from types import SimpleNamespace

import practice
import pytest
from pages import ROOT
from test_book import PHONE, check_form, settle, violations

from roofline import problems
from roofline.check import Choice, Text

ASKED = practice.asked(ROOT)
FORMS = [one for one in ASKED if one.kind == "form"]
TODAY = "2026-03-10"
fresh = cache(practice.fresh)
WAITS = [0, 1, 2, 4, 8, 16]
ROUND = {"choice": "due", "seed": 7, "at": 0, "over": False}


def reload(page) -> None:
    """Load again what is there in full: a request cut short would count as failed."""
    page.wait_for_load_state("networkidle")
    page.reload()


def later(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


# --- what there is to practise -------------------------------------------------------------


@pytest.fixture(scope="module")
def written():
    """Each day's script as text, and how many variants each problem has in it."""
    days = {day: [one.id for one in those if not practice.bound(one.id)]
            for day, those in practice.by_day(FORMS).items()}
    texts, counts = {}, {}
    for day, text, n in practice.scripts(days):
        texts[day], counts[day] = text, n
    return SimpleNamespace(texts=texts, counts=counts)


@pytest.fixture(scope="module")
def catalog(written):
    return practice.catalog(ASKED, {day: {"stamp": "0", "counts": counts}
                                    for day, counts in written.counts.items()})


def test_every_problem_has_a_title_and_its_place_on_a_page():
    assert set(practice.titles()) == set(problems.BANK)
    assert {one.id for one in FORMS} == set(problems.BANK)
    assert all(re.search(r"\w{2}", title) and len(title) < 50 for title in
               practice.titles().values())
    days = practice.by_day(FORMS)
    for day, those in days.items():
        named = [practice.titles()[one.id] for one in those]
        assert len(set(named)) == len(named), day
    assert list(days) == [f"day{n}" for n in range(1, 8)] + ["vjepa2"]


def test_every_problem_is_practised_or_stays_on_its_page_for_a_reason(catalog):
    practised = {one["id"] for day in catalog["days"] for one in day["problems"]}
    stays = {id: why for id in problems.BANK if (why := practice.bound(id))}
    assert practised | set(stays) == set(problems.BANK) and not practised & set(stays)
    # These speak of what is not in the question: the reader's own readings, a page, the
    # question before.
    assert {"day4.do.copy", "day3.ridge_of_whom", "day2.do.when_link_binds"} <= set(stays)
    assert len(stays) < len(problems.BANK) / 10
    for id in practised:
        for question in fresh(id)[:1]:
            text = practice.plain(question.text)
            assert not re.search(r"this page|your own|JupyterLab|ask\(", text), id


@pytest.mark.parametrize(("ask", "text"), [
    ("What is I? (In JupyterLab, give your own: ask(\"a.b\", W=...).)", "What is I?"),
    ("Find Q. (In JupyterLab, ask(\"a.b\", x=...). More rows: join (some).)", "Find Q."),
    ("Find P (in bf16).", "Find P (in bf16)."),
])
def test_a_remark_on_jupyterlab_is_left_out(ask, text):
    assert practice.plain(ask) == text


def test_variants_have_numbers_that_their_page_does_not_show(catalog):
    few = 0
    for day in catalog["days"]:
        for one in day["problems"]:
            id, texts = one["id"], [question.text for question in fresh(one["id"])]
            assert len(texts) == one["count"] <= practice.MOST
            if problems.BANK[id].draw is None:
                assert len(texts) == 1
                continue
            assert len(set(texts)) == len(texts) >= 2, id
            page = [problems.ask(id, seed).text for seed in range(16)]
            shown = [text for text in texts if text in page]
            # Only where a problem has few numbers do those behind "Another one" fill up.
            assert not shown or len(texts) == practice.LEAST or len(set(page)) < 6, id
            assert problems.BANK[id].ask.format(**problems.ask(id).given) not in texts, id
            few += bool(shown)
    assert few < 30


def test_a_day_s_script_is_light(written):
    packed = {day: len(gzip.compress(text.encode(), 6)) for day, text in written.texts.items()}
    print(packed)
    # A round needs its day's script and at most two of days before.
    assert max(packed.values()) < 150_000
    assert sum(sorted(packed.values())[-3:]) < 350_000


def test_scripts_are_written_once(tmp_path, monkeypatch):
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=str(tmp_path / "html"),
                          srcdir=str(ROOT))
    made = []

    def scripts(days):
        made.append(len(days))
        for day, ids in days.items():
            yield day, f"// {day}", dict.fromkeys(ids, 1)

    monkeypatch.setattr(practice, "scripts", scripts)
    practice._write(app)
    practice._write(app)
    assert made == [8]
    (tmp_path / "html/_static/practice/day3.js").unlink()
    practice._write(app)
    monkeypatch.setattr(practice, "fingerprint", lambda: "another bank")
    practice._write(app)
    assert made == [8, 8, 8]
    app.builder.format = "latex"
    monkeypatch.setattr(practice, "fingerprint", lambda: "a third")
    practice._write(app)
    assert made == [8, 8, 8]


def test_the_script_makes_no_markup_and_fetches_nothing():
    source = (ROOT / "assets/practice.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "fetch(",
                 "XMLHttpRequest", "eval(", "import("):
        assert word not in source, word


# --- the schedule against a model ----------------------------------------------------------

def test_the_page_says_the_schedule_of_the_script():
    source, says = (ROOT / "assets/practice.js").read_text(), (ROOT / "practice.md").read_text()
    says = " ".join(says.split())
    assert "const SIZE = 6, BACK = 2, WAITS = [0, 1, 2, 4, 8, 16];" in source
    *days, last = [str(wait) for wait in WAITS if wait]
    assert WAITS[0] == 0 and f"the same day, then after {', '.join(days)} and {last} days." in says
    assert len(WAITS) == 6 and "moves up one of six boxes" in says
    assert "about six questions" in says and "about a third come back from earlier days" in says


def number(text: str) -> int:
    """FNV-1a of the text, then mixed; 32 bits."""
    h = 2166136261
    for byte in text.encode("ascii"):
        h = (h ^ byte) * 16777619 % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ h >> shift) * factor % 2**32
    return h


class Leitner:
    """What a round should be, one rule at a time."""

    def __init__(self, days):
        self.days, self.records = days, {}

    def round(self, choice, today, seed, lately):
        def by(what):
            return lambda one: number(f"{seed}/{what}/{one['id']}")

        def due_first(some):
            return sorted(sorted(some, key=by("due")),
                          key=lambda one: self.records[one["id"]]["due"])

        everything = [one for day in self.days for one in day["problems"]]
        known = [one for one in everything if one["id"] in self.records]
        due = [one for one in known if self.records[one["id"]]["due"] <= today]
        picked, models = [], set()

        def pick(queue, limit, back):
            for one in queue:
                model = one.get("like", one["id"])
                if limit and model not in models:
                    models.add(model)
                    picked.append((one, back))
                    limit -= 1
            return limit

        if choice == "due":
            pick(due_first(due), 6, False)
        else:
            names = [day["id"] for day in self.days]
            before = [one for day in self.days[:names.index(choice)] for one in day["problems"]]
            mine = self.days[names.index(choice)]["problems"]
            openers = [one for one in mine if one.get("opens")]
            rest = [one for one in mine if not one.get("opens")]
            new = [one for one in before if one not in known]
            pick([*due_first(one for one in due if one in before + openers),
                  *(one for one in openers if one not in known), *sorted(new, key=by("new"))],
                 2, True)
            again = due_first(one for one in due if one in rest)
            pick(again, (6 - len(picked)) // 2, False)
            pick([*(one for one in rest if one not in known), *again,
                  *due_first(one for one in known if one in rest and one not in due)],
                 6 - len(picked), False)
        found = []
        for one, back in sorted(picked, key=lambda pair: by("order")(pair[0])):
            last = lately.get(one["id"], self.records.get(one["id"], {}).get("seen"))
            draw, n = by("variant")(one), one["count"]
            variant = draw % n if last is None else (last + 1 + draw % max(1, n - 1)) % n
            found.append({"id": one["id"], "variant": variant, "back": back})
        return found

    def answer(self, id, right, seen, today):
        box = self.records.get(id, {"box": 0})["box"]
        box = (1, 2, 3, 4, 5, 5)[box] if right else 0
        self.records[id] = {"box": box, "due": later(today, WAITS[box]), "seen": seen}
        return self.records[id]


PLAN = """(rounds) => rounds.map(({ records, lately, ...rest }) => courseRounds.plan({ ...rest,
    days: JSON.parse(document.getElementById("rl-practice-data").textContent).days,
    records: new Map(Object.entries(records)), lately: new Map(Object.entries(lately)) }))"""
SETTLE = "(all) => all.map((args) => courseRounds.settle(...args))"


@pytest.fixture
def opened(address, visit):
    """opened(**context): the practice page, on a fixed day."""
    def at(where: str = f"{address}/practice.html", **options):
        seen = visit("about:blank", **options)
        seen.page.clock.set_fixed_time(f"{TODAY}T09:00:00")
        seen.page.goto(where)
        settle(seen.page)
        return seen
    return at


def test_rounds_are_the_model_s_on_random_histories(opened):
    page = opened().page
    days = page.evaluate("() => JSON.parse(document.getElementById('rl-practice-data')"
                         ".textContent).days")
    asked, expected, answered, records = [], [], [], []
    for history in range(120):
        r = random.Random(history)
        model, today, lately = Leitner(days), TODAY, {}
        skill = r.choice((0.2, 0.6, 0.95))
        for _ in range(r.randint(2, 9)):
            today = later(today, r.choice((0, 0, 1, 1, 3, 9)))
            choice = r.choice(["due", *(day["id"] for day in days)])
            seed = r.randrange(2**32)
            asked.append({"records": json.loads(json.dumps(model.records)), "choice": choice,
                          "lately": dict(lately), "today": today, "seed": seed})
            made = model.round(choice, today, seed, lately)
            expected.append(made)
            lately = {one["id"]: one["variant"] for one in made}
            for one in made[:r.choice((6, 6, 3))]:
                right = r.random() < skill
                answered.append([model.records.get(one["id"]), right, one["variant"], today])
                records.append(dict(model.answer(one["id"], right, one["variant"], today)))
    assert page.evaluate(PLAN, asked) == expected
    assert page.evaluate(SETTLE, answered) == records
    like = {one["id"]: one for day in days for one in day["problems"]}
    order = [day["id"] for day in days]
    full = 0
    for call, made in zip(asked, expected, strict=True):
        ids = [one["id"] for one in made]
        models = {like[id].get("like", id) for id in ids}
        assert len(models) == len(ids) <= 6
        full += len(ids) == 6
        for one in made:
            last = call["lately"].get(one["id"], call["records"].get(one["id"], {}).get("seen"))
            assert one["variant"] != last or like[one["id"]]["count"] == 1
            day, known = one["id"].partition(".")[0], call["records"].get(one["id"])
            if call["choice"] == "due":
                assert known["due"] <= call["today"]
            elif one["back"]:
                assert order.index(day) < order.index(call["choice"]) or like[one["id"]]["opens"]
                assert known is None or known["due"] <= call["today"]
            else:
                assert day == call["choice"]
        if call["choice"] not in ("due", "day1"):
            assert sum(one["back"] for one in made) == 2
    assert full > 300


def test_every_question_of_a_day_comes_up(opened):
    """Right each time, on one day: no question is passed over for ever."""
    page = opened().page
    missing = page.evaluate("""() => {
        const { days } = JSON.parse(document.getElementById("rl-practice-data").textContent);
        const left = [];
        for (const [at, day] of days.entries()) {
          const records = new Map(), until = new Set(day.problems.map(({ id }) => id));
          for (let seed = 0; seed < 40 && until.size; seed++) {
            const today = `2026-03-${10 + Math.floor(seed / 2)}`;
            const made = courseRounds.plan({ days, records, choice: day.id, today, seed });
            for (const { id, variant } of made) {
              records.set(id, courseRounds.settle(records.get(id), true, variant, today));
              until.delete(id);
            }
          }
          left.push(...until);
        }
        return left;
    }""")
    assert not missing


# --- the forms -----------------------------------------------------------------------------

KEEP = """([list, at]) => {
    const { days } = JSON.parse(document.getElementById("rl-practice-data").textContent);
    const stamps = Object.fromEntries(days.map((day) => [day.id, day.stamp]));
    courseProgress.put("rounds", "round", "now",
      { choice: "due", seed: 7, at, over: false, stamps, list });
}"""


def test_forms_judge_as_the_library_does(opened):
    seen = opened()
    r = random.Random(10)
    ids = [one.id for one in FORMS if not practice.bound(one.id)]
    chosen = [(id, r.randrange(len(fresh(id)))) for id in r.sample(ids, 60)]
    seen.page.evaluate(KEEP, [[{"id": id, "variant": n, "back": False} for id, n in chosen], 0])
    reload(seen.page)
    for k, (id, n) in enumerate(chosen):
        seen.page.wait_for_selector(f"form[data-form-id='{id}'] .rl-part")
        assert seen.page.text_content(".rl-practice-where").startswith(f"{k + 1} of {len(chosen)}")
        question = fresh(id)[n]
        check_form(seen.page, id, replace(question, text=practice.plain(question.text)))
        # The same options, whatever their order.
        for part in question.parts:
            if isinstance(part, Choice):
                there = seen.page.locator(f"#practice-form input[name='{part.name}']")
                assert sorted(one.get_attribute("value") for one in there.all()) \
                    == sorted(part.options)
        worked = seen.page.text_content("#practice-form .worked pre")
        assert worked == question.form_data()["worked"]
        assert seen.page.locator("#practice-form button:text('Another one')").count() == 0
        seen.page.locator(".rl-onward button").first.click()
    assert not seen.complaints


def test_options_do_not_keep_their_places(opened):
    """The right one of a question without numbers stands in more than one place."""
    page = opened().page
    places = set()
    for seed in range(5):
        page.evaluate(KEEP, [[{"id": "day1.log_axes", "variant": 0, "back": False}], 0])
        page.evaluate(f"""() => {{ const now = courseProgress.get("rounds").round.now.data;
            courseProgress.put("rounds", "round", "now", {{ ...now, seed: {seed} }}); }}""")
        reload(page)
        page.wait_for_selector("#practice-form input")
        keys = [one.get_attribute("value") for one in
                page.locator("#practice-form input").all()]
        (part,) = problems.ask("day1.log_axes").parts
        places.add(keys.index(part.right))
    assert len(places) > 1


# --- whole rounds --------------------------------------------------------------------------


def question_on(page):
    """The question on view, as the library has it."""
    page.wait_for_selector("#practice-form .rl-part")
    now = page.evaluate("() => document.getElementById('practice-form').dataset.formId")
    shown = page.text_content("#practice-form .rl-ask")
    return next(q for q in fresh(now) if practice.plain(q.text) == shown)


def focused(page) -> str:
    return page.evaluate("""() => { const e = document.activeElement;
        return e.className || e.textContent || e.tagName; }""")


def tab_to(page, what: str) -> None:
    """Tab until the element that matches has focus."""
    for _ in range(80):
        if page.evaluate("(what) => document.activeElement.matches(what)", what):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab reaches {what}")


def type_answers(page, question, wrong: bool = False, only: int | None = None) -> None:
    """Type what is right, or wrong, with keys alone."""
    for part in question.parts[:only]:
        if isinstance(part, Choice):
            tab_to(page, f"#practice-form input[name='{part.name}']")
            keys = [one.get_attribute("value") for one in
                    page.locator(f"#practice-form input[name='{part.name}']").all()]
            aim = next(key for key in keys if key != part.right) if wrong else part.right
            page.keyboard.press("Space")
            for _ in range((keys.index(aim) - keys.index(page.evaluate(
                    "() => document.activeElement.value"))) % len(keys)):
                page.keyboard.press("ArrowDown")
        else:
            tab_to(page, f"#practice-form input[name='{part.name}']")
            page.keyboard.press("Control+A")
            page.keyboard.type("banana" if wrong and isinstance(part, Text) else
                               "1.7e-30" if wrong else part.answer)
    tab_to(page, "#practice-form button.rl-main")
    page.keyboard.press("Enter")


def kept(page, section: str = "practice") -> dict:
    return page.evaluate("""(section) => Object.assign({}, ...courseProgress.days().map((day) =>
        Object.fromEntries(Object.entries(courseProgress.get(day)[section] ?? {})
          .map(([id, { data }]) => [id, data]))))""", section)


def test_a_whole_round_by_keyboard(opened):
    seen = opened()
    page = seen.page
    assert "Nothing is due yet" in page.text_content("#rl-practice")
    tab_to(page, ".rl-choices li:nth-child(3) button")
    page.keyboard.press("Enter")
    results, ids = {}, []

    def onward(name: str) -> None:
        tab_to(page, ".rl-onward button:first-child")
        assert focused(page) in (name, "rl-main")
        assert page.text_content(".rl-onward button:first-child") == name
        page.keyboard.press("Enter")

    for k, how in enumerate(("right", "mended", "worked", "skipped", "partly", "right")):
        question = question_on(page)
        ids.append(question.id)
        assert focused(page) == "rl-ask"
        assert page.text_content(".rl-practice-where").startswith(f"{k + 1} of 6")
        says = page.locator(".rl-practice-says")
        assert says.text_content() == ""
        name = "Finish" if k == 5 else "Next"
        if how == "right":
            type_answers(page, question)
            assert says.text_content().startswith("Right at once. It comes back tomorrow.")
        elif how == "mended":
            type_answers(page, question, wrong=True)
            assert says.text_content().startswith("Not yet. It comes back today.")
            type_answers(page, question)
            assert says.text_content().startswith("Right, after some help.")
        elif how == "worked":
            tab_to(page, "#practice-form summary")
            page.keyboard.press("Enter")
            assert page.locator("#practice-form details[open]").count() == 1
            assert says.text_content().startswith("Not yet.")
        elif how == "partly":
            type_answers(page, question, only=len(question.parts) - 1)
            if len(question.parts) > 1:
                assert says.text_content() == ""
            name = "Skip"
        else:
            name = "Skip"
        onward(name)
        results[question.id] = "right" if how == "right" else "other"
    assert len(set(ids)) == 6
    assert page.evaluate("() => document.activeElement.tagName") == "H3"
    assert page.text_content("#rl-practice h3") == "Round over: 2 of 6 right at once"
    rows = page.locator(".rl-results li")
    said = [rows.nth(k).locator("span").last.text_content() for k in range(6)]
    assert said == ["right at once; back tomorrow", "right, after some help; back today",
                    "not yet; back today", "skipped; back today", "skipped; back today",
                    "right at once; back tomorrow"]
    hrefs = [rows.nth(k).locator("a").get_attribute("href") for k in range(6)]
    assert hrefs == [next(one.href for one in FORMS if one.id == id) for id in ids]
    assert {id: record["box"] for id, record in kept(page).items()} \
        == {id: int(how == "right") for id, how in results.items()}
    assert {record["due"] for record in kept(page).values()} == {TODAY, later(TODAY, 1)}
    # The forms of a round are not the answers of their pages.
    assert not kept(page, "form") and not kept(page, "solved") and not kept(page, "worked")
    page.keyboard.press("Tab")
    tab_to(page, ".rl-buttons button:last-child")
    page.keyboard.press("Enter")
    assert page.text_content(".rl-practice-says") == "4 questions are due today."
    assert page.evaluate("() => document.activeElement.className") == "rl-practice-says"
    assert not seen.complaints


def start(page, nth: int = 0) -> None:
    page.locator(".rl-choices button").nth(nth).click()
    page.wait_for_selector("#practice-form .rl-part")


def test_what_is_due_is_asked_again_with_other_numbers(opened):
    page = opened().page
    page.evaluate("""() => { for (const [id, seen] of [["day1.dot", 3], ["day2.flops", 5]]) {
        const record = { box: 1, due: "2026-03-09", seen };
        courseProgress.put(id.split(".")[0], "practice", id, record); } }""")
    reload(page)
    assert page.text_content(".rl-practice-says") == "2 questions are due today."
    assert "1 practised, 1 due" in page.text_content(".rl-choices li:nth-child(2)")
    start(page)
    for k in range(2):
        question = question_on(page)
        assert question not in fresh(question.id)[[3, 5][question.id == "day2.flops"]:][:1]
        assert page.text_content(".rl-practice-where").startswith(f"{k + 1} of 2")
        type_answers(page, question)
        page.locator(".rl-onward button").first.click()
    assert {record["box"] for record in kept(page).values()} == {2}
    assert {record["due"] for record in kept(page).values()} == {later(TODAY, 2)}
    assert "back on 12 March" in page.text_content(".rl-results")
    page.locator("text=What else is due").click()
    assert page.text_content(".rl-practice-says") \
        == "Nothing is due today. The next question is due on 12 March."


@pytest.mark.parametrize("where", ["served", "from disk"])
def test_a_reload_in_the_middle_loses_no_answer(where, opened, site):
    seen = opened(**({"where": (site / "practice.html").as_uri()} if where == "from disk" else {}))
    page = seen.page
    start(page)
    first = question_on(page)
    type_answers(page, first)
    page.locator(".rl-onward button").first.click()
    second = question_on(page)
    type_answers(page, second, wrong=True)
    before = page.evaluate("() => [...document.querySelectorAll('#practice-form output')]"
                           ".map((o) => o.textContent)")
    reload(page)
    assert question_on(page) == second
    assert page.text_content(".rl-practice-where").startswith("2 of 6")
    assert page.text_content(".rl-practice-says").startswith("Not yet.")
    assert page.evaluate("() => [...document.querySelectorAll('#practice-form output')]"
                         ".map((o) => o.textContent)") == before
    assert {id: r["box"] for id, r in kept(page).items()} == {first.id: 1, second.id: 0}
    # Right now, after the reload, is still not right at once.
    type_answers(page, second)
    assert page.text_content(".rl-practice-says").startswith("Right, after some help.")
    for _ in range(5):
        page.locator(".rl-onward button").first.click()
    assert page.text_content("#rl-practice h3") == "Round over: 1 of 6 right at once"
    reload(page)
    page.wait_for_selector(".rl-choices")
    assert not seen.complaints


def test_a_round_may_be_stopped(opened):
    page = opened().page
    start(page)
    page.locator("text=Stop here").click()
    assert page.locator(".rl-choices").count() == 1 and not kept(page)
    start(page)
    type_answers(page, question_on(page))
    page.locator("text=Stop here").click()
    assert page.text_content("#rl-practice h3") == "Round stopped: 1 of 1 right at once"
    assert page.locator(".rl-results li").count() == 1 and len(kept(page)) == 1


NO_STORE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("denied", "SecurityError"); } });"""


@pytest.mark.parametrize("broken", ["storage", "progress.js"])
def test_a_round_without_a_store(broken, address, visit):
    seen, complaints = visit("about:blank"), []
    if broken == "storage":
        # The theme keeps its colours there, and complains on every page.
        seen.page.add_init_script(NO_STORE)
        seen.page.goto(f"{address}/notation.html")
        complaints = seen.complaints
        seen.errors.clear()
    else:
        seen.page.route("**/progress.js*", lambda route: route.fulfill(
            body="", content_type="text/javascript"))
    seen.page.goto(f"{address}/practice.html")
    start(seen.page)
    for k in range(6):
        if k < 2:
            type_answers(seen.page, question_on(seen.page))
        seen.page.locator(".rl-onward button").first.click()
    assert seen.page.text_content("#rl-practice h3") == "Round over: 2 of 6 right at once"
    seen.page.locator("text=Choose another round").click()
    assert seen.page.text_content(".rl-practice-says") == "4 questions are due today."
    assert set(seen.complaints) <= set(complaints)


def test_a_day_that_does_not_load_is_said_and_tried_again(opened):
    seen = opened()
    page = seen.page
    page.route("**/practice/day1.js*", lambda route: route.abort())
    page.locator(".rl-choices button").first.click()
    page.wait_for_selector("#rl-practice [role=alert]")
    assert "“Day 1: The roofline model” did not load" in page.text_content("#rl-practice")
    page.unroute("**/practice/day1.js*")
    page.keyboard.press("Enter")  # focus is on "Try again"
    question_on(page)


def test_text_of_the_bank_is_text(address, visit, site):
    """Whatever stands in a question, an option or a worked answer: never markup."""
    seen = visit("about:blank")
    evil = "<img src=x onerror=alert(1)><b>bold</b></script>"
    part = {"kind": "choice", "name": "a", "label": evil, "right": "k", "options": [["k", evil],
            ["l", evil]], "slips": {"l": evil}, "order": [0, 1]}
    one = {"count": 1, "folded": {"id": "x", "ask": evil, "worked": [evil], "parts": [part]}}
    script = (site / "_static/practice/day1.js").read_text()
    ids = re.findall(r'"(day1\.[\w.]+)":\{"count"', script)
    assert len(ids) > 30
    body = f"globalThis.coursePractice = {{day1: {json.dumps(dict.fromkeys(ids, one))}}};"
    seen.page.route("**/practice/day1.js*", lambda route: route.fulfill(
        body=body, content_type="text/javascript"))
    seen.page.goto(f"{address}/practice.html")
    start(seen.page)
    seen.page.locator("#practice-form input[value=l]").check()
    seen.page.locator("#practice-form button.rl-main").click()
    assert seen.page.text_content("#practice-form .rl-ask") == evil
    assert evil in seen.page.text_content("#practice-form output")
    assert seen.page.locator("#rl-practice :is(img, b)").count() == 0
    assert not seen.complaints


@pytest.mark.parametrize("record", [
    {"box": 6, "due": TODAY, "seen": 0}, {"box": 1, "due": "soon", "seen": 0}, [], None, "x",
    {"due": TODAY}, {"box": 1, "due": TODAY, "seen": -4},
])
def test_a_record_that_is_not_one_does_no_harm(record, opened):
    seen = opened()
    page = seen.page
    page.evaluate("""(record) => { courseProgress.put("day1", "practice", "day1.dot", record);
        courseProgress.put("day1", "practice", "day1.gone", { box: 2, due: "2026-01-01", seen: 0 });
        courseProgress.put("rounds", "round", "now", record); }""", record)
    reload(page)
    page.wait_for_selector(".rl-choices")
    start(page, nth=page.locator(".rl-choices li").count() - 8)
    question_on(page)
    assert kept(page)["day1.gone"]["box"] == 2  # what this edition does not know is left alone
    assert not seen.complaints


def test_a_kept_round_of_another_edition_goes_on_with_what_is_still_there(opened):
    page = opened().page
    answers = {"variant": 0, "answers": {"W": "1"}, "kinds": {"W": "off"}, "right": False}
    page.evaluate("""(answers) => courseProgress.put("rounds", "round", "now", {
        choice: "day1", seed: 3, at: 1, over: false, stamps: { day1: "before" }, list: [
          { id: "day1.gone", variant: 0, back: false, result: "right" },
          { id: "day1.lost", variant: 0, back: false },
          { id: "day1.dot", variant: 500, back: false, data: answers },
          { id: "day1.add", variant: 1, back: false }] })""", answers)
    reload(page)
    assert question_on(page).id == "day1.dot"
    assert page.text_content(".rl-practice-where").startswith("1 of 2")
    assert page.locator("#practice-form input").first.input_value() == ""  # other numbers now


# --- the page ------------------------------------------------------------------------------


def test_the_list_leads_to_every_question(site, address, visit):
    """Without scripts: every problem, at its place; those that stay there say why."""
    page = visit(f"{address}/practice.html", java_script_enabled=False).page
    links = page.locator(".rl-every a")
    hrefs = [links.nth(k).get_attribute("href") for k in range(links.count())]
    assert sorted(hrefs) == sorted(one.href for one in FORMS)
    for href in hrefs:
        file, _, anchor = href.partition("#")
        assert f'id="{anchor}"' in (site / file).read_text(), href
    assert links.first.is_visible() and links.last.is_visible()
    assert page.locator(".rl-bound").count() == sum(bool(practice.bound(id))
                                                     for id in problems.BANK)
    assert "the list of every question below" in page.text_content("#rl-practice")


def test_the_list_is_printed(opened):
    page = opened().page
    last = page.locator(".rl-every a").last
    assert not last.is_visible()
    page.locator(".rl-every summary").first.click()
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert last.is_visible() and not page.locator("#rl-practice").is_visible()
    page.emulate_media(media="screen")
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert not last.is_visible() and page.locator(".rl-every a").first.is_visible()


def test_variants_come_only_when_a_round_needs_them(opened):
    page = opened().page
    wanted = []
    page.on("request", lambda request: wanted.append(request.url))
    reload(page)
    page.wait_for_selector(".rl-choices")
    assert not [url for url in wanted if "/practice/" in url]
    start(page)
    (script,) = [url for url in wanted if "/practice/" in url]
    assert re.search(r"/_static/practice/day1\.js\?\w{8}$", script)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_view_is_accessible(mode, opened):
    page = opened(color_scheme=mode).page
    found = violations(page)
    start(page, nth=4)
    type_answers(page, question_on(page), wrong=True)
    found += violations(page)
    type_answers(page, question_on(page))
    found += violations(page)
    for _ in range(6):
        page.locator(".rl-onward button").first.click()
    found += violations(page)
    assert page.locator("#rl-practice h3").count() == 1
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", [320, PHONE["width"]])
def test_a_round_fits_a_phone(width, opened):
    page = opened(viewport={"width": width, "height": 640}).page

    def wide() -> int:
        return page.evaluate("""() => Math.max(...[...document.querySelectorAll(
            "#rl-practice, #rl-practice *")].map((e) => e.getBoundingClientRect().right))""")

    assert wide() <= width
    start(page, nth=4)
    for k in range(6):
        page.evaluate("for (const d of document.querySelectorAll('#practice-form details')) "
                      "d.open = true")
        assert wide() <= width
        if k == 0:
            type_answers(page, question_on(page), wrong=True)
        page.locator(".rl-onward button").first.click()
        if k < 5:  # the number of the question is in view, and so is where it begins
            top = page.evaluate("() => document.querySelector('.rl-practice-where')"
                                ".getBoundingClientRect().top")
            assert 0 <= top <= 320, top
    assert page.locator(".rl-results").count() == 1 and wide() <= width
