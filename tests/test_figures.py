"""Live figures and forms: what Python puts into a page, and what Chromium makes of it."""

import json
import math
import random
import re

import pytest
from figuretext import uncut
from pages import ROOT

from roofline import figures, machine, ops, problems, units
from roofline.check import Choice, Part, WrongAnswer, _value, any_number
from roofline.count import Count
from roofline.figures import forms
from roofline.figures.live import script, to_json

AXE = (ROOT / "tests/vendor/axe-core/axe.min.js").read_text()
IDS = list(problems.BANK)


# --- pages to try them on ------------------------------------------------------------------


def write(path, body: str, dark: bool = False):
    """A page of its own, in the theme's colours."""
    ground, ink = ("#121212", "#ced6dd") if dark else ("#ffffff", "#222832")
    path.write_text(
        f'<!doctype html><html lang="en" data-theme="{"dark" if dark else "light"}"><head>'
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Test</title><style>html {{ --pst-color-text-base: {ink}; "
        f"--pst-color-background: {ground}; background: {ground}; color: {ink} }}</style>"
        f"</head><body><main><h1>Test</h1>{body}</main></body></html>", "utf-8")


@pytest.fixture
def page_of(visit, tmp_path):
    """page_of(html, dark=False, **context): open that HTML from a file, all requests blocked."""
    def open_page(body: str, *, dark: bool = False, **options):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.html"
        write(path, body, dark)
        seen = visit(path.as_uri(), **options)
        assert not seen.complaints
        return seen
    return open_page


@pytest.fixture(scope="module")
def bank(chromium, tmp_path_factory):
    """One page with the form of every problem, offline."""
    path = tmp_path_factory.mktemp("bank") / "bank.html"
    write(path, "".join(figures.form(id, scripted=id == IDS[0]) for id in IDS))
    context = chromium.new_context(offline=True)
    page = context.new_page()
    page.goto(path.as_uri())
    yield page
    context.close()


def violations(page) -> list[str]:
    page.evaluate(AXE)
    found = page.evaluate("""() => axe.run({resultTypes: ["violations"]})
        .then((result) => result.violations)""")
    return [f"{v['id']} ({v['impact']}): {v['nodes'][0]['html'][:200]}" for v in found]


def sideways(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


# --- Live ----------------------------------------------------------------------------------


def test_a_figure_is_the_same_html_every_time():
    assert figures.roofline()._repr_html_() == figures.roofline()._repr_html_()
    assert repr(figures.roofline()) == repr(figures.roofline())


def test_repr_is_text_with_the_tables():
    text = uncut(figures.roofline())
    assert "<" not in text and "object at" not in text
    assert re.search(r"matmul, 1 token +each byte once +Trainium2.* 89\.5 us", text)


def test_json_cannot_end_its_script():
    text = to_json({"x": "</script><!-- <b>"})
    assert "<" not in text and json.loads(text) == {"x": "</script><!-- <b>"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"x": math.nan})


@pytest.mark.parametrize("module", ["form", "roofline", "crossover", "nest", "clockwork"])
def test_the_inlined_script_ends_only_at_its_end(module):
    text = script(module, "x")
    assert text.count("</") == 1 and text.endswith("</script>\n") and "<!--" not in text
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert "fetch(" not in text and "import(" not in text and "innerHTML" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_data_is_text_never_markup(page_of):
    nasty = '</script><img src=x onerror="document.title=1"><b id=bad>"&amp;'
    case = figures.Case(nasty, nasty, {nasty: {"bf16": Count({"bf16": 100}, 10)}})
    live = figures.roofline([machine.trn2], [case])
    part = Part("x", 2.0, "s", why="1 + 1", slips={nasty: 5.0})
    data = {"id": nasty, "ask": nasty, "worked": nasty, "parts": [part.form()]}
    seen = page_of(live._repr_html_() + forms.markup(nasty, [data]) + figures.form_script())
    page = seen.page
    page.click("text=Skip")
    page.fill("input[name=x]", "5")
    page.press("input[name=x]", "Enter")
    assert nasty in page.inner_text("output[data-part=x]")
    assert page.inner_text(".rl-ask") == nasty
    assert page.locator("#bad, img").count() == 0 and page.title() == "Test"
    assert not seen.complaints


def test_several_figures_on_a_page_each_have_their_own_ids(page_of):
    html = figures.roofline()._repr_html_() + figures.form("day1.bound")
    page = page_of(html + html).page
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    # What they share stands once, before what is one's own: else it would take that back.
    sheets = page.evaluate("""() => [...document.querySelectorAll("style[data-rl]")].map(
        (style) => style.dataset.rl.split("-")[0])""")
    assert len(sheets) == len(set(sheets)) >= 3 and sheets[0] == "figures"
    page.locator(".rl-live").nth(1).get_by_text("Skip").click()
    assert page.locator(".rl-reads").count() == 1


def test_without_script_the_text_and_the_data_are_there(page_of):
    page = page_of(figures.roofline()._repr_html_() + figures.form("day1.bound"),
                   java_script_enabled=False).page
    question = problems.ask("day1.bound")
    assert "What limits the op" in page.inner_text(".rl-live")
    assert "89.5 us" in page.text_content(".rl-tables table >> nth=0")
    assert page.inner_text(".rl-ask") == question.text
    assert page.text_content(".worked pre") == question.form_data()["worked"]
    assert page.locator("input, button").count() == 0
    for part in question.parts:  # each with what may be chosen, and no keys
        said = page.inner_text(f".rl-static > li:has-text({(part.label or part.name)!r}) >> nth=0")
        if isinstance(part, Choice):
            assert all(text in said for text in part.options.values())
    assert "memory" not in page.inner_text(".rl-static")
    assert page.inner_text(".rl-live p >> nth=0").startswith(
        "Where scripts run, a roofline to guess at, reveal and drag stands here;")
    assert page.locator(".rl-tables table").first.is_visible()  # not folded


# --- forms: Python side --------------------------------------------------------------------


def unfold(node, n):
    """As in form.mjs."""
    if isinstance(node, list):
        return [unfold(item, n) for item in node]
    if not isinstance(node, dict):
        return node
    if "t" in node and "$" in node:
        template, *numbers = node["$"][n]
        return re.sub("\0", lambda _: numbers.pop(0), node["t"][template])
    if "$" in node:
        return node["$"][node["i"][n]] if "i" in node else node["$"][n]
    found = {key: unfold(value, n) for key, value in node.items()}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("values", [
    [1, 1, 1], [1, 2, 1], [True, 1, 1.0], ["a 1 b", "a 22 b", "c 3"], ["x", "y"],
    [[1, 2], [1, 3]], [[1], [1, 2]], [{"a": 1, "b": [0]}, {"a": 2, "b": [0]}], [{"a": 1}, {"b": 1}],
    ["1,024 and 0.5", "7 and 3e9"],
])
def test_folding_loses_nothing(values):
    folded = json.loads(json.dumps(forms.fold(values)))
    assert [unfold(folded, n) for n in range(len(values))] == values


@pytest.mark.parametrize("id", IDS)
def test_a_form_of_16_variants_is_small(id):
    html = figures.form(id, scripted=False)
    assert len(html.encode()) < 40_000
    assert "<script type=\"module\">" not in html
    assert figures.form(id) == html + figures.form_script()


def test_form_refuses_what_it_cannot_show():
    with pytest.raises(problems.ProblemError, match="no question is called"):
        figures.form("day1.bounds")
    with pytest.raises(ValueError, match="expected at least 1, got 0"):
        figures.form("day1.bound", 0)


def test_pickers_offer_units_of_their_kind():
    for base in units.BASES:
        offered = forms._picker(base)
        assert base in offered
        assert all(units.UNITS[name][1] == base for name in offered)
        assert offered == sorted(offered, key=lambda name: units.UNITS[name][0]) or base == "B"


# --- forms: the page judges as Python does -------------------------------------------------

# What people type, right or not: each must get one verdict from check.py and from the page.
NUMBERS = [
    "abc", "nan", "inf", "1e999", "-3", "0", "1,000", "1e-3", "1E3", "4 ms", "4ms", "4 MS",
    "4 Ms", "0,5", "1_000", "5 FLOP/B", "5 flop/byte", "5 FLOPs/byte", "5 bananas", "6 GB",
    "6 gb", "6GiB", "6 kb", "50 %", "50%", "2x", "2 µs", "2 μs", "2 us", "2 seconds", ".5",
    "5.", "+5", "1.2.3", "5 'quoted'", 'it\'s "5"', "5 \\ 6", "1 e3", "1e3e3", "0.5 TFLOPS",
    "5 GFLOP / s", "1/3", "1/12", "7/8 FLOP/B", "1,0/2", "4/0", "1/2/3", "1.2 Gb", "1 Gbps", "8 b",
    "3 GBps", "3 GB/sec", "5 FLOP per byte", "2 tflops", "2 TFLOPs/s", "3 gB PER s", "5600 MT/s",
    "= 5", "5 B/s", "3 GB/s", "2.4 GHz", "7 cycles", "1 TFLOP", "12 e",
]
WORDS = ["FLOP/s", "flops per second", "FLOP/B", "bytes per second", "no idea", "none", "TFLOPS",
         "the bytes", "HBM", "reuse", "4", "two"]
FILL = """([form, rounds]) => {
  const found = [];
  for (const round of JSON.parse(rounds)) {
    for (const [name, answer] of Object.entries(round)) {
      for (const input of form.querySelectorAll(`input[name="${name}"]`)) {
        if (input.type === "radio") input.checked = input.value === answer;
        else input.value = answer;
      }
    }
    // As a click: focus stays, so that the page is not laid out anew for each of many rounds.
    form.querySelector("[type=submit]").dispatchEvent(
      new MouseEvent("click", { detail: 1, bubbles: true, cancelable: true }));
    found.push(Object.fromEntries([...form.querySelectorAll("output[data-part]")].map(
      (o) => [o.dataset.part, [o.dataset.kind, o.textContent]])
      .concat([["", form.querySelector(".rl-left").textContent]])));
  }
  return JSON.stringify(found);  // as one text: ten times as fast to hand over
}"""

# Each submit moves the focus, and so lays the page out: one form of it, not all of the bank.
ALONE = """(form) => {
  for (const other of document.querySelectorAll("form.rl-form")) {
    other.style.display = other === form ? "" : "none";
  }
}"""


def probes(part) -> list[str]:
    if isinstance(part, Choice):
        return ["", *part.options]
    if not isinstance(part, Part):
        return ["", part.right, *WORDS]
    exact = [part.value, *part.also, *part.slips.values(), *part.rivals.values(),
             *part.extra.values(), *(part.value * factor for _, factors, _ in any_number(part.unit)
                                     for factor in factors)]
    near = [value * factor for value in exact for factor in
            (0.9, 0.985, 0.9901, 0.995, 1, 1.005, 1.0099, 1.015, 1.1)]
    shown = [units.show(value, part.unit, digits) for value in exact for digits in (1, 2, 3, 6)]
    return ["", *NUMBERS, *shown, *map(repr, near),
            *(f"{value!r} {part.unit}" for value in exact if part.unit)]


def verdict(question, answers) -> dict[str, list[str]]:
    """What check.py says to these answers, in the form's shape: with labels for names."""
    try:
        report = question.check(**{name: answer if answer.strip() else ...
                                   for name, answer in answers.items()})
    except WrongAnswer as wrong:
        report = wrong.report
    shown = {part.name: part.shown for part in question.parts}
    left = [shown[o.name] for o in report.outcomes if o.kind == "not attempted"]
    fixed = {part.name for part in question.parts if isinstance(part, Part)
             and part.unit not in units.SCALED}
    assert not any("bare number" in o.message for o in report.outcomes if o.name in fixed)
    said = {o.name: [o.kind, o.message and f"{shown[o.name]}: {o.message}"]
            for o in report.outcomes}
    return said | {"": "not attempted: " + "; ".join(left) if left else ""}


def carried_on(question) -> list[dict[str, str]]:
    """Rounds of answers with an early part wrong and the others right for it."""
    values = {part.name: part.value for part in question.parts if isinstance(part, Part)}
    rounds = []
    empty = dict.fromkeys((part.name for part in question.parts), "")
    for wrong in values:
        for factor in (2, 0.1, -1):
            mine = {**values, wrong: factor * values[wrong]}
            for part in question.parts:
                if isinstance(part, Part) and part.follows and part.name != wrong:
                    mine[part.name] = _value(part.follows, mine)
            rounds.append(empty | {name: repr(value) for name, value in mine.items()})
    return rounds


@pytest.mark.parametrize("id", IDS)
def test_the_page_and_python_judge_alike(id, bank):
    """Every part of every problem, in two variants; probes, right values, slips, rivals."""
    form = bank.query_selector(f'[data-form-id="{id}"]')
    bank.evaluate(ALONE, form)
    seeds, seen = [], []
    for seed in range(16):
        data = {**problems.ask(id, seed).form_data(), "seed": 0}
        if data not in seen:
            seen.append(data)
            seeds.append(seed)
        if len(seeds) == 2:
            break
    for variant in range(len(seeds)):
        if variant:
            form.query_selector("button:text-is('Another one')").click()
        question = problems.ask(id, seeds[variant])
        assert form.query_selector(".rl-ask").inner_text() == question.text
        assert form.query_selector(".worked pre").text_content() == question.form_data()["worked"]
        columns = {part.name: probes(part) for part in question.parts}
        length = max(map(len, columns.values()))
        rounds = [{name: column[i % len(column)] for name, column in columns.items()}
                  for i in range(length)] + carried_on(question)
        got = json.loads(bank.evaluate(FILL, [form, json.dumps(rounds)]))
        for answers, on_page in zip(rounds, got, strict=True):
            assert on_page == verdict(question, answers), answers


def test_the_picker_gives_the_unit_unless_one_is_typed(page_of):
    page = page_of(figures.form("day1.bound")).page
    question = problems.ask("day1.bound")  # T_best is 4 ms
    output = page.locator("output[data-part=T_best]")
    field, picker = page.locator("input[name=T_best]"), page.get_by_label("unit of T_best")
    for text, unit, same in [("9", "", "9"), ("4", "ms", "4 ms"), ("4000", "us", "4000 us"),
                             ("9", "s", "9 s"), ("4 ms", "ns", "4 ms"), ("4 GB", "ms", "4 GB"),
                             ("x", "ms", "x")]:
        field.fill(text)
        if unit:  # a unit that was picked is not said again
            picker.select_option(unit)
        page.click("text=Check")
        assert output.inner_text() == verdict(question, {"T_best": same})["T_best"][1]
    picker.select_option("s")
    field.fill("4 ms")
    field.press("Enter")
    assert picker.input_value() == "ms"  # it shows what was typed


# --- forms: hands --------------------------------------------------------------------------


def test_enter_checks_and_focus_goes_to_what_is_to_mend(page_of):
    page = page_of(figures.form("day1.bound")).page
    focused = "document.activeElement.name || document.activeElement.textContent"
    page.fill("input[name=I]", "5")
    page.fill("input[name=ridge]", "12")
    page.press("input[name=ridge]", "Enter")
    assert page.inner_text("output[data-part=I]") == "I: right."
    assert page.evaluate(focused) == "ridge"
    assert page.get_attribute("input[name=ridge]", "aria-invalid") == "true"
    described = page.get_attribute("input[name=ridge]", "aria-describedby").split()
    said = " ".join(page.text_content(f'[id="{name}"]') for name in described)
    assert said.startswith("FLOP/B ridge: not yet, too large.")
    page.keyboard.press("End")
    page.keyboard.type("0")
    assert page.text_content("output[data-part=ridge]") == ""  # no old verdict on a new answer
    page.fill("input[name=ridge]", "10")
    page.press("input[name=ridge]", "Enter")
    assert page.evaluate(focused) == "binds"  # on to the first one left
    page.click("text=Check")
    assert page.evaluate(focused) == "Check"  # a tap opens no keyboard
    assert page.inner_text(".rl-left") == (
        "not attempted: Which roof binds; T_best; T_worst; Entitled rate")


def test_another_one_brings_new_numbers_and_an_empty_form(page_of):
    page = page_of(figures.form("day1.bound")).page
    page.fill("input[name=I]", "5")
    page.check("input[value=memory]")
    page.click("text=Check")
    page.click("text=Worked answer")
    page.get_by_text("Another one").focus()
    page.keyboard.press("Enter")
    question = problems.ask("day1.bound", 1)
    assert page.inner_text(".rl-ask") == question.text
    assert page.evaluate("document.activeElement.className") == "rl-ask"
    assert page.input_value("input[name=I]") == ""
    assert page.locator("input:checked").count() == 0
    assert page.evaluate("[...document.querySelectorAll('output')].every((o) => !o.textContent)")
    assert page.evaluate("document.querySelector('.worked').open") is False
    for _ in range(15):
        page.click("button:text-is('Another one')")
    assert page.inner_text(".rl-ask") == problems.ask("day1.bound").text


def test_a_question_without_numbers_has_no_other_one(page_of):
    page = page_of(figures.form("day1.log_axes")).page
    assert page.get_by_text("Another one").count() == 0


def test_options_change_places_and_keys_stay_hidden(page_of):
    page = page_of(figures.form("day1.bytes_count")).page
    options = problems.ask("day1.bytes_count").parts[-1].options
    seen = []
    for _ in range(8):
        shown = page.locator("fieldset label").all_inner_texts()
        assert sorted(shown) == sorted(options.values())
        seen.append(tuple(shown))
        page.click("button:text-is('Another one')")
    assert seen[0] == tuple(options.values()) and len(set(seen)) >= 4
    assert len({order.index(options["reload"]) for order in seen}) >= 3


def test_on_paper_no_option_looks_chosen(page_of):
    page = page_of(figures.form("day1.bytes_count")).page
    page.emulate_media(media="print")
    assert page.evaluate("""[...document.querySelectorAll("input[type=radio]")].map(
      (e) => getComputedStyle(e).appearance + getComputedStyle(e).backgroundColor)""") == [
        "nonergba(0, 0, 0, 0)"] * 4
    assert not page.locator(".worked").is_visible() and not page.get_by_text("Check").is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.rl-part')).breakInside"
                         ) == "avoid"


def test_one_script_serves_the_forms_after_the_first(page_of):
    page = page_of(figures.form("day1.bound") + figures.form("day1.log_axes", scripted=False)).page
    page.check("[data-form-id='day1.log_axes'] input[value=span]")
    page.locator("[data-form-id='day1.log_axes']").get_by_text("Check").click()
    assert page.inner_text("[data-form-id='day1.log_axes'] output[data-part]") == (
        "What are they for: right.")


def test_keys_stay_inside(page_of):
    page = page_of(figures.roofline()._repr_html_() + figures.form("day1.bound")).page
    page.evaluate("window.keys = []; addEventListener('keydown', (e) => keys.push(e.key))")
    page.focus("input[name=I]")
    page.keyboard.type("5 dd")
    page.focus(".rl-guess")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("x")
    assert page.evaluate("keys") == []


# Each page's forms are looked at in every mode in test_looks.py; here those of all problems.
@pytest.mark.parametrize(("dark", "width"), [(False, 320), (True, 1000)])
def test_forms_are_accessible_and_narrow_enough(dark, width, page_of):
    html = "".join(figures.form(id, scripted=id == IDS[0]) for id in IDS)
    page = page_of(html, dark=dark, viewport={"width": width, "height": 700}).page
    page.evaluate("""for (const form of document.forms) {
      for (const input of form.querySelectorAll("input[type=text]")) input.value = "7 bananas";
      form.querySelector("input[type=radio]")?.click();
      form.requestSubmit();
      form.querySelector("details").open = true;
    }""")
    assert not sideways(page)
    assert violations(page) == []
    small = page.evaluate("""[...document.querySelectorAll(
      "button, select, input[type=text], fieldset label")].filter(
        (e) => e.getBoundingClientRect().height < 44).length""")
    assert small == 0


# --- the roofline: Python side -------------------------------------------------------------


def test_a_case_needs_work_and_bytes():
    with pytest.raises(ValueError, match="at least one Count, got none"):
        figures.Case("copy", "", {"once": {}})
    with pytest.raises(ValueError, match="W > 0 and Q > 0"):
        figures.Case("copy", "", {"once": {"bf16": Count({}, 8, 8)}})


def test_mappings_differ_in_their_bytes_only():
    with pytest.raises(ValueError, match="may differ in Q only; dtypes or W of a, b differ"):
        figures.Case("op", "", {"a": {"bf16": Count({"bf16": 8}, 8)},
                                "b": {"bf16": Count({"bf16": 9}, 8)}})
    with pytest.raises(ValueError, match="may differ in Q only"):
        figures.Case("op", "", {"a": {"bf16": Count({"bf16": 8}, 8)},
                                "b": {"fp32": Count({"bf16": 8}, 8)}})


def test_ask_names_a_machine_and_an_op():
    with pytest.raises(ValueError, match=r"ask: got .'trn9'"):
        figures.roofline(ask=[("trn9", "layernorm")])
    fp64 = figures.Case.of("dot", "x . y", lambda dtype: ops.Dot(8, dtype), ["fp64"])
    with pytest.raises(ValueError, match="trn2 has no peak for a dtype of 'dot'"):
        figures.roofline([machine.trn2], [fp64], ask=[("trn2", "dot")])
    with pytest.raises(ValueError, match="no machine has a peak"):
        figures.roofline([machine.trn2], [fp64])


def test_the_opening_question_has_the_numbers_of_the_library():
    # One token, 4096 x 4096 in bf16: W = 2 x 4096^2, Q = 2 (4096 + 4096^2 + 4096).
    assert 2 * 4096**2 == 33_554_432 and 2 * (4096 + 4096**2 + 4096) == 33_570_816
    assert "W = 33.6 MFLOP and moves Q = 33.6 MB" in figures.roofline().text


# --- the roofline: the page ----------------------------------------------------------------


MACHINES = (machine.trn2, machine.h100, machine.tpu_v5e, machine.desktop)
READS = """() => Object.fromEntries([...document.querySelectorAll(".rl-reads dt")].map(
  (dt) => [dt.textContent, dt.nextElementSibling.textContent]))"""


def test_the_page_agrees_with_entitle_everywhere(page_of):
    """Each op, machine, dtype, bandwidth figure and mapping, as text."""
    page = page_of(figures.roofline()._repr_html_()).page
    page.click("text=Skip")
    for case in figures.rooflines.cases():
        page.get_by_label("Op", exact=True).select_option(label=case.label)
        for here in MACHINES:
            page.get_by_label("Machine", exact=True).select_option(label=here.name)
            for dtype in figures.rooflines._dtypes(here, case):
                page.get_by_label("Numbers", exact=True).select_option(dtype)
                link = here.bandwidths[here.slow_link]
                for i in range(1 + len(link.rivals)):
                    page.get_by_label("Bandwidth figure").select_option(str(i))
                    there = here.using(**{here.slow_link: i - 1}) if i else here
                    for name, by_dtype in case.counts.items():
                        page.click(f"button:text-is('{name}')")
                        count = by_dtype[dtype]
                        got = there.entitle(count)
                        assert page.evaluate(READS) == {
                            "work W": units.show(count.flops, "FLOP"),
                            "bytes Q": units.show(count.hbm_bytes, "B"),
                            "I = W / Q": units.show(got.intensity, "FLOP/B"),
                            "ridge P / BW": units.show(got.ridge, "FLOP/B"),
                            "computing, W / P": units.show(got.times["compute"], "s"),
                            "moving, Q / BW": units.show(got.times[here.slow_link], "s"),
                            "T_best, the longer": units.show(got.t_best, "s"),
                            "T_worst, the sum": units.show(got.t_worst, "s")}
                        bound = "compute" if got.binds == "compute" else "memory"
                        assert page.get_attribute(".rl-point", "aria-valuetext") == (
                            f"I = {units.show(got.intensity, 'FLOP/B')}, {bound}-bound, "
                            f"entitled to {units.show(got.rate, 'FLOP/s')}")


def test_a_page_can_bring_its_own_machine_and_op(page_of):
    """W in two dtypes: the peak drawn is W over the sum of their times."""
    mixed = Count({"bf16": 6_000_000, "fp32": 2_000_000}, 1_000)
    both = figures.Case("mixed", "Two dtypes.", {"one": {"bf16 and fp32": mixed}})
    plain = figures.Case("plain", "fp32.", {"one": {"fp32": Count({"fp32": 8}, 8)}})
    live = figures.roofline([machine.trn2, machine.desktop], [both, plain], ask=[("trn2", "mixed")])
    page = page_of(live._repr_html_()).page
    page.click("text=Skip")
    got = machine.trn2.entitle(mixed)
    read = page.evaluate(READS)
    assert read["ridge P / BW"] == units.show(got.ridge, "FLOP/B")
    assert read["computing, W / P"] == units.show(got.times["compute"], "s")
    assert "100 % of P" in page.inner_text(".rl-status")
    assert page.get_by_text("Guess another").count() == 0  # one question only
    assert page.locator("option:disabled").all_inner_texts() == [machine.desktop.name]  # no bf16
    page.get_by_label("Op", exact=True).select_option(label="plain")
    page.get_by_label("Machine", exact=True).select_option(label=machine.desktop.name)
    page.get_by_label("Op", exact=True).select_option(label="mixed")  # back where it can run
    assert page.evaluate(READS) == read


def test_the_page_writes_numbers_as_python_does(page_of):
    source = (ROOT / "lib/roofline/figures/plot.mjs").read_text("utf-8")
    page = page_of(f"<script type=module>{source}; window.show = show;</script>").page
    draw = random.Random(7)
    values = [draw.uniform(1, 10) * 10 ** draw.randint(-9, 15) for _ in range(2000)]
    values += [112.5, 113.5, 0.125, 1.125, 2.5, 999.5, 999.4999, 1e3, 9.995, 99.95, 1e15, 2**30]
    for unit in ("FLOP", "s", "FLOP/B", "B"):
        shown = page.evaluate("([all, unit]) => all.map((v) => show(v, unit))", [values, unit])
        assert shown == [units.show(value, unit) for value in values]


def test_predict_reveal_drag_by_keyboard(page_of):
    page = page_of(figures.roofline()._repr_html_()).page
    guess, point = page.locator(".rl-guess"), page.locator(".rl-point")
    assert page.locator(".rl-roof").count() == 0 and not point.is_visible()
    page.click("text=Check my guess")
    assert "Put the mark somewhere" in page.inner_text(".rl-status")
    guess.focus()
    assert guess.get_attribute("aria-valuetext").startswith("not placed; ")
    page.keyboard.press("Home")
    assert guess.get_attribute("aria-valuetext") == "10 GFLOP/s"
    for key in ["PageUp"] * 3 + ["ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"]:
        page.keyboard.press(key)
    assert guess.get_attribute("aria-valuetext") == "316 GFLOP/s"  # 10^(10 + 3/2)
    page.check("text=moving the bytes")
    guess.focus()
    page.keyboard.press("Enter")
    said = page.inner_text(".rl-status")
    assert said.startswith("Memory-bound: entitled to 375 GFLOP/s, 0.477 % of P.")
    assert said.endswith("You said so. Your mark is within a factor of 2.")
    labels = page.locator(".rl-plot text").all_text_contents()
    assert "entitled: 375 GFLOP/s" in labels and "your guess: 316 GFLOP/s" in labels
    assert page.evaluate("document.activeElement.classList.contains('rl-point')")
    assert point.get_attribute("aria-valuetext") == (
        "I = 1 FLOP/B, memory-bound, entitled to 375 GFLOP/s")
    for _ in range(3):
        page.keyboard.press("PageUp")
    # 10^1.5 FLOP/B; x 375 GB/s
    assert point.get_attribute("aria-valuetext") == (
        "I = 31.6 FLOP/B, memory-bound, entitled to 11.9 TFLOP/s")
    assert "Q is 0.032 of the op's own bytes" in page.inner_text(".rl-status")
    page.keyboard.press("End")
    assert "compute-bound, entitled to 78.6 TFLOP/s" in point.get_attribute("aria-valuetext")
    page.keyboard.press("Home")
    assert float(point.get_attribute("aria-valuenow")) == -1  # 0.1 FLOP/B
    page.get_by_label("Machine", exact=True).select_option(label=machine.h100.name)
    assert page.locator(".rl-ghost").count() == 1  # the roof before stays as a dashed line
    assert "before: Trainium2" in page.locator(".rl-plot text").all_text_contents()
    page.get_by_label("Numbers", exact=True).select_option("fp32")
    assert "before: bf16" in page.locator(".rl-plot text").all_text_contents()
    page.click("text=Guess another")
    assert page.locator(".rl-roof").count() == 0 and guess.is_visible()
    assert "2048 tokens" in page.inner_text(".rl-question")


def test_enter_on_a_radio_checks_and_what_was_left_open_is_said(page_of):
    page = page_of(figures.roofline()._repr_html_()).page
    page.locator(".rl-predict input").first.focus()
    page.keyboard.press("Enter")
    assert "Put the mark somewhere or choose one" in page.inner_text(".rl-status")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status").endswith("You said so. The rate you left open.")
    assert "your guess" not in page.locator(".rl-plot").text_content()
    page.click("text=Guess another")
    page.focus(".rl-guess")
    page.keyboard.press("ArrowUp")
    page.click("text=Check my guess")
    assert "What takes longer you left open." in page.inner_text(".rl-status")


@pytest.mark.parametrize("guess", ["Home", "End", "ArrowUp"])
def test_each_mark_has_its_label_beside_it(guess, page_of):
    """At phone width, whatever the guess: a mark's label is nearer to it than to the other."""
    page = page_of(figures.roofline()._repr_html_(), viewport={"width": 390, "height": 700}).page
    for _ in range(4):
        page.focus(".rl-guess")
        page.keyboard.press(guess)
        page.click("text=Check my guess")
        near = page.evaluate("""() => {
          const middle = (node) => { const r = node.getBoundingClientRect();
            return (r.top + r.bottom) / 2; };
          const marks = [".rl-point .rl-mark", ".rl-was"].map((s) =>
            middle(document.querySelector(s)));
          const labels = [".rl-value", ".rl-guessed"].map((s) => middle(document.querySelector(
            ".rl-plot text" + s)));
          return labels.map((y, i) => Math.abs(y - marks[i]) < Math.abs(y - marks[1 - i])); }""")
        assert near == [True, True]
        page.click("text=Guess another")


def test_on_a_phone_the_controls_are_under_the_plot(page_of):
    page = page_of(figures.roofline()._repr_html_(), viewport={"width": 390, "height": 700}).page
    page.click("text=Skip")
    plot, last, read = (page.locator(css).bounding_box() for css in (
        ".rl-plot", ".rl-control >> nth=3", ".rl-reads"))
    assert last["y"] + last["height"] - plot["y"] < 660 and last["y"] < read["y"]


def test_dragging_by_mouse(page_of):
    page = page_of(figures.roofline()._repr_html_(), viewport={"width": 900, "height": 900}).page
    guess, point = page.locator(".rl-guess"), page.locator(".rl-point")
    frame = page.locator(".rl-plot svg").bounding_box()
    page.mouse.click(frame["x"] + 200, frame["y"] + frame["height"] / 2)  # anywhere on the plot
    before = float(guess.get_attribute("aria-valuenow"))
    drag(page, guess, 0, -60)
    assert float(guess.get_attribute("aria-valuenow")) > before + 0.5
    page.click("text=Check my guess")
    drag(page, point, 120, 0)
    assert float(point.get_attribute("aria-valuenow")) > 1
    assert page.get_attribute(".rl-status", "aria-live") == "off"  # no chatter while dragging
    page.click("button:text-is('each byte once')")
    assert point.get_attribute("aria-valuetext").startswith("I = 1 FLOP/B")
    assert page.get_attribute(".rl-status", "aria-live") == "polite"


def drag(page, handle, dx, dy):
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=5)
    page.mouse.up()


def test_a_finger_drags_the_handles_and_scrolls_elsewhere(page_of):
    html = "<p>text</p>" * 10 + figures.roofline()._repr_html_() + "<p>text</p>" * 40
    page = page_of(html, viewport={"width": 390, "height": 700}, has_touch=True,
                   is_mobile=True).page
    fingers = page.context.new_cdp_session(page)

    def swipe(x, y, dx, dy):
        at = page.evaluate("scrollY")
        for step in range(9):
            fingers.send("Input.dispatchTouchEvent", {
                "type": "touchMove" if step else "touchStart",
                "touchPoints": [{"x": x + dx * step / 8, "y": y + dy * step / 8}]})
            page.wait_for_timeout(16)
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(200)
        return page.evaluate("scrollY") - at

    guess = page.locator(".rl-guess")
    guess.scroll_into_view_if_needed()
    box = guess.bounding_box()
    assert box["width"] >= 44 and box["height"] >= 44
    before = float(guess.get_attribute("aria-valuenow"))
    assert swipe(box["x"] + 24, box["y"] + 24, 0, -60) == 0
    placed = float(guess.get_attribute("aria-valuenow"))
    assert placed > before + 1
    frame = page.locator(".rl-plot svg").bounding_box()
    assert swipe(frame["x"] + 300, frame["y"] + 200, 0, -100) > 50
    assert float(guess.get_attribute("aria-valuenow")) == placed


def test_the_roof_draws_itself_unless_motion_is_unwanted(page_of):
    moving = {}
    for motion in ("reduce", "no-preference"):
        page = page_of(figures.roofline()._repr_html_(), reduced_motion=motion).page
        page.evaluate("[...document.querySelectorAll('button')].at(-1).click()")
        moving[motion] = page.evaluate("document.getAnimations().length")
    assert moving["reduce"] == 0 and moving["no-preference"] >= 2


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_the_roofline_is_accessible_and_legible(dark, width, page_of):
    page = page_of(figures.roofline()._repr_html_(), dark=dark, reduced_motion="reduce",
                   viewport={"width": width, "height": 700}).page
    assert violations(page) == []
    page.click("text=Skip")
    page.evaluate("document.querySelector('.rl-tables').open = true")
    assert violations(page) == []
    assert not sideways(page)
    # The drawing is laid out anew for the width, not shrunk: its text keeps its size.
    assert page.evaluate("""Math.min(...[...document.querySelectorAll(".rl-plot text")].map(
      (t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a
             / Math.cos(Math.atan2(t.getScreenCTM().b, t.getScreenCTM().a))))""") >= 11.9
    assert page.evaluate("""[...document.querySelectorAll("button, select")].every(
      (e) => e.getBoundingClientRect().height >= 44)""")


def test_labels_keep_apart(page_of):
    """Every op on every machine, at phone width: no two labels of the plot overlap."""
    page = page_of(figures.roofline()._repr_html_(), viewport={"width": 390, "height": 700}).page
    page.click("text=Skip")
    for case in figures.rooflines.cases():
        page.get_by_label("Op", exact=True).select_option(label=case.label)
        for here in MACHINES:
            page.get_by_label("Machine", exact=True).select_option(label=here.name)
            boxes = page.evaluate("""[...document.querySelectorAll(
              ".rl-plot text:not(.rl-memory)")].map((t) => {
                const r = t.getBoundingClientRect();
                return [t.textContent, r.left, r.top + 3, r.right, r.bottom - 3]; })""")
            for i, (one, l, t, r, b) in enumerate(boxes):
                for other, L, T, R, B in boxes[i + 1:]:
                    assert not (l < R and r > L and t < B and b > T), (case.label, one, other)


# --- text of a live figure ------------------------------------------------------------------------


def test_the_text_of_a_figure_keeps_to_its_width():
    """Paragraphs wrap; of a table that is too wide the widest columns follow below each row."""
    words = "so " * 60 + "it ends."
    rows = [("cause", "what", "time", "try"), ("a", "w" * 60, "1 ns", "t " * 50 + "end"),
            ("b", "", "20 ns", "x")]
    live = figures.Live("roofline", {}, f"{words}\n\nshort", [("wide", rows), ("slim", [("k",),
                                                                                      ("v",)])])
    lines = repr(live).splitlines()
    assert max(map(len, lines)) <= 98
    assert " ".join(repr(live).split()).startswith(f"{words} short wide ")
    at = lines.index("wide")
    assert lines[at + 1:at + 4] == [
        f"cause  {'what':60}  time", f"a      {'w' * 60}  1 ns", f"    try: {('t ' * 45).strip()}"]
    assert lines[at + 5] == f"b      {'':60}  20 ns" and lines[at + 6] == "    try: x"
    assert lines[-3:] == ["slim", "k", "v"]
