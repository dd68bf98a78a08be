"""The class's papers: timetable, notes, cost, catch-up, set-up check. Sums are done again here,
from the notebooks and routes.toml, without workshop/timetable.py."""

import http.server
import importlib
import json
import re
import shlex
import threading
import tomllib
import webbrowser
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from pages import ROOT, notebooks, sections
from prose import edits, is_bound, numbers, printed
from recordings import book, record  # noqa: F401
from workshop import Stop, catch_up, cost, editions, setup_check, timetable
from workshop.__main__ import PARTS

from roofline import device, machine, nki
from roofline.check import Choice, Part, Text
from roofline.problems import BANK, ask

WORKSHOP = ROOT / "workshop"
ROUTES = tomllib.loads((WORKSHOP / "routes.toml").read_text())
RULES = ROUTES.pop("rules")
NOTES = {path.stem: path.read_text() for path in sorted((WORKSHOP / "notes").glob("*.md"))}
HEADINGS = ["The point", "Common slips", "Ask the room", "Catch-up", "Without a device",
            "One shared device"]
ROW = re.compile(r"\| (\d\d):(\d\d) \| (\d+) \| ((?:\d+ to \d+)?) +\| (.+) \| (class|shown|) *\|")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def headings(page: str) -> list[tuple[str, int, int]]:
    """Title, low and high of each section, straight from the notebook."""
    cells = json.loads((ROOT / f"{page}.ipynb").read_text())["cells"]
    return [("".join(cell["source"]).split("\n")[0].lstrip("# "),
             *cell["metadata"]["roofline"]["minutes"])
            for cell in cells if "minutes" in cell["metadata"].get("roofline", {})]


MINUTES = {name_of(path): headings(name_of(path)) for path in notebooks()}


# --- timetable ------------------------------------------------------------------------------------


def test_the_timetable_is_fresh():
    assert timetable.FILE.read_text() == timetable.text(), \
        "python3 course.py workshop timetable writes it anew"


def left_out(route: dict) -> list[tuple[str, str]]:
    """(page, section) of everything that a route skips, with repeats."""
    found = []
    for entry in route["skip"]:
        assert len(entry["why"]) > 5
        for page in entry.get("pages", [entry.get("page")]):
            titles = entry.get("sections", [title for title, _, _ in MINUTES[page]])
            found += [(page, title) for title in titles]
    return found


@pytest.mark.parametrize("name", ROUTES)
def test_minutes_add_up(name):
    """Planned minutes of each day of the file: class at its high, shown at its low, own as said."""
    route, skipped = ROUTES[name], left_out(ROUTES[name])
    whole = timetable.FILE.read_text()
    begin = whole.index(f"\n## {route['title']}\n")
    end = whole.find("\n## ", begin + 1)
    part = whole[begin:end if end > 0 else None]
    days = re.findall(r"\n### (?!Not in)(.*?)\n(.*?)\nEnds at (\d\d:\d\d): (\d+) min of work, "
                      r"(\d+) min of breaks\. Until (\d\d:\d\d) that leaves (\d+) min", part, re.S)
    assert len(days) == len(route["day"])
    sums = {"planned": 0, "own": 0, "low": 0, "high": 0, "sections": 0}
    for day, (_, table, ends, worked, breaks, until, left) in zip(route["day"], days, strict=True):
        want = []
        for entry in day["part"]:
            if "own" in entry:
                want.append((entry["own"], entry["minutes"], "", ""))
                sums["own"] += entry["minutes"]
                continue
            for title, low, high in MINUTES[entry["page"]]:
                if (entry["page"], title) in skipped:
                    continue
                shown = title in entry.get("show", [])
                want.append((title, low if shown else high, f"{low} to {high}",
                             "shown" if shown else "class"))
                sums["planned"] += low if shown else high
                sums["low"], sums["high"] = sums["low"] + low, sums["high"] + high
                sums["sections"] += 1
        rows = ROW.findall(table)
        made = [(what, int(minutes), span, how) for _, _, minutes, span, what, how in rows
                if what not in ("Break", "Lunch")]
        assert made == want
        paused = [int(minutes) for _, _, minutes, _, what, _ in rows if what in ("Break", "Lunch")]
        assert int(worked) == sum(minutes for _, minutes, _, _ in want)
        assert int(breaks) == sum(paused)
        clock = [60 * int(h) + int(m) for h, m, *_ in rows]
        starts = [clock[0] + sum(int(row[2]) for row in rows[:i]) for i in range(len(rows) + 1)]
        assert clock == starts[:-1], "a slot begins where the one before it ends"
        at = [60 * int(text[:2]) + int(text[3:]) for text in (day["start"], ends, until)]
        assert (starts[0], starts[-1]) == (at[0], at[1])
        assert at[2] - at[1] == int(left) >= 0 and until == day["until"]
        stretch = 0
        for row in rows:
            stretch = 0 if row[4] in ("Break", "Lunch") else stretch + int(row[2])
            assert stretch <= RULES["longest"] + RULES["last"]
    summary = re.search(rf"`{name}` " + r"\| (\d+) \| (\d+) \| (\d+) to (\d+) \| (\d+) \| (\d+) \|",
                        whole)
    assert [int(number) for number in summary.groups()] == [
        len(route["day"]), sums["sections"], sums["low"], sums["high"], sums["planned"],
        sums["own"]]


@pytest.mark.parametrize("name", ROUTES)
def test_nothing_is_left_out_without_a_reason(name):
    """Each section of the book is taken once or skipped once."""
    skipped = left_out(ROUTES[name])
    taken = [(part["page"], title) for day in ROUTES[name]["day"] for part in day["part"]
             if "page" in part for title, _, _ in MINUTES[part["page"]]
             if (part["page"], title) not in skipped]
    assert sorted(taken + skipped) == sorted(
        (page, title) for page, found in MINUTES.items() for title, _, _ in found)
    assert [(s.page, s.title) for s, _ in timetable.route(name).skipped] == [
        (page, title) for page, found in MINUTES.items() for title, _, _ in found
        if (page, title) in skipped]


def test_the_two_days_are_the_days_that_were_asked_for():
    pages = [[part["page"].split("/")[0] for part in day["part"] if "page" in part]
             for day in ROUTES["two-days"]["day"]]
    assert pages == [["day1", "day2", "day5"], ["day3", "day6", "day4", "day7"]]
    (demo,) = (part for part in ROUTES["two-days"]["day"][1]["part"]
               if part.get("page") == "day4/measured_roofs")
    skipped = left_out(ROUTES["two-days"])
    assert all(title in demo["show"] for title, _, _ in MINUTES["day4/measured_roofs"]
               if ("day4/measured_roofs", title) not in skipped), "Day 4 is shown throughout"


def two_days() -> dict:
    return tomllib.loads((WORKSHOP / "routes.toml").read_text())["two-days"]


def without(page: str, table: dict) -> dict:
    for day in table["day"]:
        day["part"] = [part for part in day["part"] if part.get("page") != page]
    return table


def longer(table: dict) -> dict:
    table["day"][0]["until"] = "16:00"
    return table


def skip_also(table: dict, page: str, title: str) -> dict:
    table["skip"].append({"page": page, "sections": [title], "why": "a test"})
    return table


def twice(table: dict) -> dict:
    table["day"][1]["part"].append({"page": "day1/roofline"})
    return table


def unnamed(table: dict) -> dict:
    table["day"][1]["part"][1]["show"].append("What the Tensor Engine is")
    return table


@pytest.mark.parametrize(("change", "says"), [
    (lambda t: without("day5/reuse", t), "day5/reuse is on no day"),
    (longer, r"ends at 17:\d\d, \d+ min after its hours"),
    (lambda t: skip_also(t, "day1/roofline", "Lower ceiling"), "no section 'Lower ceiling'; near"),
    (lambda t: skip_also(t, "day1/roofline", "Read"), "left out twice"),
    (lambda t: skip_also(t, "day7/capstone", "How it works"), "shown and left out"),
    (twice, "day1/roofline is on two days"),
    (unnamed, "near it: What the Tensor Engine is made of"),
])
def test_a_route_that_does_not_add_up_says_so(change, says):
    with pytest.raises(Stop, match=says):
        timetable.plan("two-days", change(two_days()), RULES)


def test_an_afternoon_has_a_break_and_no_lunch():
    table = tomllib.loads((WORKSHOP / "routes.toml").read_text())["half-day"]
    table["day"][0] |= {"start": "13:00", "until": "17:00"}
    (day,) = timetable.plan("half-day", table, RULES).days
    assert [slot.what for slot in day.slots if slot.how in ("break", "lunch")] == ["Break"]
    assert timetable.clock(day.ends) == "16:40"  # as in the morning, four hours later


def test_a_new_section_is_taken_in_or_stops_the_route(monkeypatch):
    real = timetable.sections
    new = timetable.Section("day1/roofline", "Something new", 5, 7)
    monkeypatch.setattr(timetable, "sections", lambda page: (
        *real(page), *([new] if page == "day1/roofline" else [])))
    assert new in [slot.section for slot in timetable.route("two-days").taken]
    assert timetable.FILE.read_text() != timetable.text()
    long = timetable.Section("day1/roofline", "Something long", 5, 300)
    monkeypatch.setattr(timetable, "sections", lambda page: (
        *real(page), *([long] if page == "day1/roofline" else [])))
    with pytest.raises(Stop, match="after its hours"):
        timetable.route("two-days")


def test_the_command_checks_and_writes(tmp_path, monkeypatch, capsys):
    assert timetable.main(["--check"]) == 0
    stale = ROOT / "work" / "timetable-of-a-test.md"
    stale.parent.mkdir(exist_ok=True)
    monkeypatch.setattr(timetable, "FILE", stale)
    try:
        stale.write_text("old")
        with pytest.raises(Stop, match="is not what"):
            timetable.main(["--check"])
        assert stale.read_text() == "old"
        assert timetable.main([]) == 0 and stale.read_text() == timetable.text()
    finally:
        stale.unlink()
    assert "Half a day: " in capsys.readouterr().out


# --- notes ----------------------------------------------------------------------------------------


ITALIC = re.compile(r"(?<![*\w])\*([^*\n]+)\*(?![*\w])")  # in the notes: a section's name


def parts_of(day: str) -> dict[str, str]:
    return dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", NOTES[day], re.S | re.M))


def of_day(day: str) -> list[Path]:
    return [path for path in notebooks() if path.parent.name == day]


def slips(day: str) -> list[tuple[str, str, str, str]]:
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \| (.+?) \| (.+?) \|$", NOTES[day], re.M)
    assert len(rows) == len(re.findall(r"^\| `", NOTES[day], re.M)), "a row has four columns"
    return rows


def test_every_day_has_notes():
    assert sorted(NOTES) == sorted(catch_up.days())


@pytest.mark.parametrize("day", NOTES)
def test_notes_have_every_heading(day):
    assert re.findall(r"^## (.*)$", NOTES[day], re.M) == HEADINGS
    assert all(len(text.split()) > 20 for text in parts_of(day).values())
    assert 2 <= parts_of(day)["The point"].count(".") <= 6
    assert "contain answers" in " ".join(NOTES[day].split("## ")[0].split())
    assert len(slips(day)) >= 12
    assert len(re.findall(r"^- ", parts_of(day)["Ask the room"], re.M)) >= 4


@pytest.mark.parametrize("day", NOTES)
def test_every_slip_exists(day):
    asked = {question.id for path in of_day(day)
             for question in editions.questions(editions.read(path))}
    for id, name, slip, say in slips(day):
        assert id in BANK and id in asked, f"{day}: {id} is no question of these pages"
        found = [part for part in ask(id).parts if part.name == name]
        assert found, f"{id} has no part {name}"
        (part,) = found
        if isinstance(part, Part):
            known = [*part.slips, *part.extra, *part.rivals]
        else:
            assert isinstance(part, Choice | Text)
            known = list(part.slips)
        assert slip in known, f"{id}, {name}: no slip {slip!r}; it has {known}"
        assert len(say) > 15 and say.rstrip('"').endswith((".", "?", "it."))
    assert len(set(slips(day))) == len(slips(day))


@pytest.mark.parametrize("day", NOTES)
def test_predictions_for_the_board_exist(day):
    known = {cell["metadata"]["roofline"]["predict"]["id"] for path in of_day(day)
             for cell in json.loads(path.read_text())["cells"]
             if "predict" in cell["metadata"].get("roofline", {})}
    named = re.search(r"board of guesses: (.*?)\.\n\n", NOTES[day], re.S)
    ids = re.findall(r"`([^`]+)`", named[1])
    assert len(ids) >= 2 and set(ids) <= known


@pytest.mark.parametrize("day", NOTES)
def test_sections_and_pages_named_exist(day):
    titles = {title for path in of_day(day) for title, _, _ in MINUTES[name_of(path)]}
    named = [found for line in lines_of(NOTES[day]) for found in ITALIC.findall(line)]
    assert named and not [one for one in named if one not in titles], day
    linked = re.findall(r"\]\(([^)#]+)\)", NOTES[day])
    assert all((WORKSHOP / "notes" / link).resolve().is_file() for link in linked), linked
    own = {f"../../{name_of(path)}.ipynb" for path in of_day(day)}
    assert own <= set(linked), "the notes name every page of the day"


def computed_for(day: str, line: str) -> list:
    """What a number in this line may be: of its question, of its sections, else of its pages."""
    row = re.match(r"\| `(\S+)` \|", line)
    if row:
        question = ask(row[1])
        values = [value for part in question.parts if isinstance(part, Part)
                  for value in (part.answer, *(f"{v} {part.unit}" for v in part.slips.values()))]
        return numbers("\n".join([question.text, *question.given.values(), *values,
                                  str(question.worked())]))
    named = set(ITALIC.findall(line))
    found = [section for path in of_day(day) for section in sections(path)
             if not named or section.title in named]
    return [number for section in found
            for number in (*printed(section), *numbers(section.prose))]


def lines_of(text: str) -> list[str]:
    """Rows, bullets and paragraphs, each on one line."""
    return re.sub(r"\n(?![\n|-]|\d\.|#)\s*", " ", text).splitlines()


@pytest.mark.parametrize("day", NOTES)
def test_numbers_are_the_pages_own(day):
    """Each number with a unit is one of its question or section; few others would pass for it."""
    for line in lines_of(NOTES[day]):
        said = line.split(" | ")[-1] if line.startswith("| `") else line  # the slip is the bank's
        for number in numbers(said):
            known = computed_for(day, line)
            assert is_bound(number, known), f"{day}: {number.text} {number.unit} in: {line[:90]}"
            tried = list(edits(number))
            free = [edit for edit in tried if is_bound(edit, known)]
            assert len(free) < len(tried) / 4, f"{number.text} {number.unit}: {free}"


FENCED = re.compile(r"`((?:sudo )?python3? [^`\n]+)`|^>? {4,}((?:sudo )?python3? .+)$", re.M)


def papers() -> dict[str, str]:
    return NOTES | {"README": (WORKSHOP / "README.md").read_text()}


def test_the_readme_names_every_part_and_no_missing_file():
    text = papers()["README"]
    assert {name for name in PARTS if f"course.py workshop {name}" in text} == set(PARTS)
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (WORKSHOP / link).exists(), link
    assert f"about {setup_check.FREE / 1e9:g} GB of disk" in text
    titles = {"#" + route["title"].lower().replace(" ", "-") for route in ROUTES.values()}
    assert set(re.findall(r"timetable\.md(#[\w-]+)", text)) == titles


@pytest.mark.parametrize("name", [*NOTES, "README"])
def test_commands_parse(name, capsys):
    """Every command that is named has its part, and the part takes these arguments."""
    found = [a or b for a, b in FENCED.findall(papers()[name])]
    if name != "day1":
        assert any("workshop" in command for command in found)
    for command in found:
        words = shlex.split(command.removeprefix("sudo "))
        if words[1:3] == ["course.py", "workshop"] or words[1:3] == ["-m", "workshop"]:
            if len(words) > 3:
                assert words[3] in PARTS, command
                module = importlib.import_module(f"workshop.{PARTS[words[3]][0]}")
                if hasattr(module, "parser"):
                    module.parser().parse_args(words[4:])
                elif words[4:]:
                    module._arguments(words[4:])
        elif words[1] == "course.py":
            assert f"course.py {words[2]} " in (ROOT / "course.py").read_text(), command
        elif words[1:3] == ["-m", "roofline"]:
            assert (ROOT / "lib/roofline/commands" / f"{words[3]}.py").is_file(), command
        else:
            assert words[1] == "-m", command


def test_what_day_7_tells_the_room_to_run_runs(capsys):
    from roofline.__main__ import main
    (command,) = (line.strip() for line in NOTES["day7"].splitlines()
                  if line.startswith("    python -m roofline"))
    assert main(shlex.split(command)[3:]) == 0
    assert "83,886,080" in capsys.readouterr().out


# --- cost -----------------------------------------------------------------------------------------


def hours(route: str) -> list[float]:
    def minutes(text: str) -> int:
        return 60 * int(text[:2]) + int(text[3:])
    return [(minutes(day["until"]) - minutes(day["start"])) / 60 for day in ROUTES[route]["day"]]


MEASURING = {"day4/measured_roofs", "day7/capstone", "day7/matmul", "day7/swiglu",
             "casestudy/vjepa2_mlp"}


def test_the_pages_that_measure():
    assert {page for page in MINUTES if cost.measuring(page)} == MEASURING


def test_shared_instance_runs_every_class_day():
    made = cost.estimate("two-days", 20, "trn1.2xlarge")
    assert made.instance_hours == sum(hours("two-days")) == 17
    assert made.dollars == pytest.approx(17 * 1.34375)
    assert "8 vCPUs, 1 x 8" in repr(made) and "L-2C3B7624" in repr(made)
    assert "17.00 h x $1.34375 = $22.84" in repr(made) and "1.6 GiB for each" in repr(made)


def test_one_each_runs_on_the_days_that_measure():
    made = cost.estimate("week", 20, "inf2.xlarge", each=True, extra=0.5)
    days = [h for h, day in zip(hours("week"), ROUTES["week"]["day"], strict=True)
            if {part.get("page") for part in day["part"]} & MEASURING]
    assert len(days) == 2
    assert made.instance_hours == 20 * (sum(days) + 0.5 * 2)
    assert made.dollars == pytest.approx(20 * (sum(days) + 1) * 0.7582)
    assert "80 vCPUs, 20 x 4" in repr(made) and "L-1945791B" in repr(made)


def test_turns_are_captures_over_cores():
    made = cost.estimate("week", 20, "trn2.3xlarge", captures=30, seconds=12)
    assert made.cores == 4  # eight physical ones, two to a logical one
    assert made.turns == 20 * 30 / 4
    assert "0.5 h at 12 s each" in repr(made)  # 150 x 12 s
    assert "nobody has" in repr(cost.estimate("week", 20, "trn2.3xlarge"))


def test_an_unknown_price_is_asked_for_and_none_is_made_up():
    made = cost.estimate("week", 3, "trn2.3xlarge")
    assert made.dollars is None and "$" not in repr(made) and "--price" in repr(made)
    assert "--vcpus" in repr(made)
    given = cost.estimate("week", 3, "trn2.3xlarge", price=2, vcpus=12)
    assert given.dollars == 2 * sum(hours("week")) and "as given" in repr(given)
    assert "12 vCPUs, 1 x 12" in repr(given)


def test_half_a_day_needs_no_instance():
    assert cost.estimate("half-day", 9, "trn1.2xlarge").instance_hours == 0
    assert "Instance-hours: 0" in repr(cost.estimate("half-day", 9, "trn1.2xlarge", each=True))


def test_figures_of_the_cost_have_their_source():
    """Prices, quota codes and the number of captures are those of the course's own pages."""
    page = (ROOT / "instance.md").read_text()
    block = re.search(r"dollars_per_hour = \{(.*?)\}", page)
    stated = {name: float(price) for name, price in re.findall(r'"(\S+)": ([\d.]+)', block[1])}
    assert stated.items() <= cost.PRICES.items()
    (commit,) = re.findall(r"tree/(\w{40})/data", cost.PRICED)
    assert commit in page and all(code in page for _, code in cost.QUOTAS.values())
    assert set(cost.PRICES) <= set(machine.INSTANCES)
    day4 = " ".join(section.prose for section in sections(ROOT / "day4/measured_roofs.ipynb"))
    assert cost.CAPTURES == 40 and "some forty captures" in " ".join(day4.split())


@pytest.mark.parametrize(("arguments", "says"), [
    (("week", 0, "trn1.2xlarge"), "at least 1, got 0"),
    (("week", 1, "p5.48xlarge"), "no instance is called 'p5.48xlarge'; known: trn1.2xlarge"),
    (("month", 1, "trn1.2xlarge"), "no route is called 'month'; routes: half-day, two-days, week"),
])
def test_cost_refuses(arguments, says):
    with pytest.raises(Stop, match=says):
        cost.estimate(*arguments)
    with pytest.raises(Stop, match="--price: expected a number from 0 up, got -1"):
        cost.estimate("week", 1, "trn1.2xlarge", price=-1)


def test_the_cost_command_prints(capsys):
    assert cost.main(["--class", "20", "--route", "two-days"]) == 0
    assert "Lead time: AWS's pages name no time" in capsys.readouterr().out


# --- catch-up -------------------------------------------------------------------------------------


def test_what_pages_read_of_earlier_days():
    """NEEDS names the pages that look at recordings of a CPU or a chip, and no others."""
    found = set()
    for path in notebooks():
        code = "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]
                         if cell["cell_type"] == "code")
        if re.search(r"device\.probe\(|\brecorded\(|\broofs\(\"|\bhost\.(run|latest)\(", code):
            found.add(name_of(path))
    assert found == set(catch_up.NEEDS)


@pytest.mark.parametrize(("day", "last"), [("day1", 0), ("day2", 3), ("casestudy", 14)])
def test_earlier_pages(day, last):
    assert catch_up.before(day) == list(MINUTES)[:last]


def test_answered_pages_pass_their_own_checks(tmp_path):
    assert list(catch_up.put(catch_up.before("day2"), tmp_path)) == []
    made = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")
                  if path.is_file())
    assert made == ["day1/data/host_run.json", "day1/paper2009.ipynb", "day1/roofline.ipynb",
                    "day1/your_cpu.ipynb"]
    judged = 0
    for path in tmp_path.rglob("*.ipynb"):
        page = editions.read(path)
        assert "SOLUTION" not in path.read_text() and "nbgrader" not in path.read_text()
        question = None
        for cell in page.cells:
            if found := editions.asks(cell):
                question = found.question
            elif cell.source.startswith("answers = dict("):
                scope: dict = {"q": question}
                exec(cell.source, scope)
                assert question.check(**scope["answers"]).right, question.id
                judged += 1
    assert judged == sum(len(editions.questions(editions.read(path))) for path in of_day("day1"))


def test_what_a_reader_wrote_stays(tmp_path):
    list(catch_up.put(["day1/paper2009"], tmp_path))
    mine = tmp_path / "day1/paper2009.ipynb"
    mine.write_text("mine")
    assert list(catch_up.put(["day1/paper2009"], tmp_path)) == [str(mine)]
    assert mine.read_text() == "mine"


def test_recordings_are_merged(book, tmp_path):  # noqa: F811
    from timelines import timeline
    kernels = nki.load(ROOT / "day4/kernels.py")
    call = device.launch(kernels.copy, ((128, 2048), "bf16"))
    one = record(call, "trn2", timeline(packets=[(0, 1000)]), read=1000, written=1000)
    damaged = record(call, "trn2", timeline(packets=[(0, 2000)]), read=1000, written=1000)
    (damaged.folder / "profile.json").write_text("{}")
    into = tmp_path / "into"
    into.mkdir()
    copied, problems = catch_up.copy_recordings(one.folder.parent, into)
    assert copied == 1 and len(problems) == 1 and damaged.name in problems[0]
    assert [path.name for path in into.iterdir()] == [one.name]
    assert catch_up.copy_recordings(one.folder.parent, into)[0] == 0, "they are there already"
    with pytest.raises(Stop, match="no folder"):
        catch_up.copy_recordings(tmp_path / "nowhere", into)


def test_the_catch_up_command(tmp_path, capsys):
    assert catch_up.main(["day1", "--to", str(tmp_path / "x")]) == 0
    assert not (tmp_path / "x").exists() and "Nothing comes before" in capsys.readouterr().out
    for day in catch_up.days()[1:]:
        assert "eeded" in catch_up.told(day) and "course.py" not in catch_up.told(day)
        assert f"\n    python3 course.py workshop catch-up {day}" in NOTES[day]


# --- set-up check ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "fine"), [
    ((3, 10, 9), False), ((3, 11, 0), True), ((3, 13, 2), True), ((3, 14, 0), False)])
def test_python(version, fine):
    assert setup_check.python(version).fine is fine


def test_packages(tmp_path):
    file = tmp_path / "requirements.txt"
    file.write_text("# a comment\n-e ./lib\nalpha==1.2\nbeta>=3  # why\n"
                    "gamma==9 ; python_version < '3'\n")
    have = {"alpha": "1.2", "beta": "3.1"}

    def version_of(name):
        import importlib.metadata
        if name not in have:
            raise importlib.metadata.PackageNotFoundError(name)
        return have[name]

    assert setup_check.packages(file, version_of).found == "2 of requirements.txt"
    have["alpha"] = "1.3"
    del have["beta"]
    line = setup_check.packages(file, version_of)
    assert line.fine is False and line.found == "alpha is 1.3, not ==1.2; beta is missing"
    assert "course.py workshop setup" in line.todo


def test_library(tmp_path):
    assert setup_check.library().fine
    line = setup_check.library(str(tmp_path / "roofline/__init__.py"))
    assert line.fine is False and str(tmp_path) in line.found


def test_disk():
    assert setup_check.disk(2e9).fine and setup_check.disk(2e9 - 1).fine is False


def test_browser(monkeypatch):
    assert setup_check.browser(lambda name: "/bin/x" if name == "firefox" else None).fine

    def none():
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", none)
    assert setup_check.browser(lambda name: None, away=False).fine is False
    assert setup_check.browser(lambda name: None, away=True).fine is None


def test_a_kernel_starts_and_answers():
    assert str(setup_check.kernel()) == "ok  kernel    starts, and computes a ridge"


def test_a_kernel_that_does_not():
    def dies():
        raise RuntimeError("Kernel died before replying")

    dead = setup_check.kernel(dies)
    assert dead.fine is False and "Kernel died before replying" in dead.found
    other = setup_check.kernel(lambda: "ModuleNotFoundError: No module named 'roofline'")
    assert other.fine is False and "ipykernel install" in other.todo


@pytest.mark.parametrize(("runs", "devices", "fine"), [
    (True, 1, True), (False, 0, None), (False, 1, False)])
def test_device(runs, devices, fine):
    line = setup_check.device(SimpleNamespace(runs=runs, devices=devices,
                                              verdict="replay: no nki in this environment"))
    assert line.fine is fine and (fine is not False or "no nki" in line.found)


@contextmanager
def server(body: bytes, code: int = 200):
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(code if self.path == "/hub/api" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{one.server_port}"
        finally:
            one.shutdown()
            thread.join()


@pytest.mark.parametrize(("body", "code", "fine", "says"), [
    (b'{"version": "6.1.1"}', 200, True, "JupyterHub 6.1.1"),
    (b'{"version": "6.1.1"}', 503, False, "HTTP 503"),
    (b"<html>", 200, False, "Expecting value"),
    (b"[1]", 200, False, "is no JupyterHub"),
])
def test_hub(body, code, fine, says):
    with server(body, code) as url:
        line = setup_check.hub(url + "/")
    assert line.fine is fine and says in line.found
    refused = setup_check.hub(url)  # nobody listens there any more
    assert refused.fine is False and "refused" in refused.found and "VPN" in refused.todo


def test_the_set_up_command(monkeypatch, capsys):
    good = [setup_check.Line("Python", True, "3.12"), setup_check.Line("device", None, "none")]
    monkeypatch.setattr(setup_check, "lines", lambda address: iter(good))
    assert setup_check.main([]) == 0 and "ready for the class" in capsys.readouterr().out
    good.append(setup_check.Line("disk", False, "1 GB", "free some"))
    assert setup_check.main([]) == 1
    said = capsys.readouterr().out
    assert "1 thing to do" in said and "!!  disk      1 GB\n              free some" in said


def test_without_the_library_nothing_else_is_asked(monkeypatch, capsys):
    gone = setup_check.Line("library", False, "import roofline: no module", "install it")
    monkeypatch.setattr(setup_check, "library", lambda: gone)
    assert setup_check.main([]) == 1
    assert "packages" not in capsys.readouterr().out
