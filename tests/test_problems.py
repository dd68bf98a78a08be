"""Controls that run over every problem of every day.

For the page's own inputs and 200 seeds: untouched, right in each legal form, each slip, each
rival, each wrong choice, nonsense; and the page's form data gives the verdict `check` gives.
"""

import json
import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import cache
from importlib import import_module
from itertools import pairwise, takewhile
from pkgutil import iter_modules

import pytest

from roofline import problems
from roofline.check import (
    OPS,
    Choice,
    Part,
    ProblemError,
    Question,
    Text,
    WrongAnswer,
    accepted,
    any_number,
)
from roofline.problems import BANK, ask
from roofline.units import BASES, UNITS, parse

SEEDS = 200
NONSENSE = ["nonsense", "", "nan", "inf", "-inf", "1e999", "3 parsecs", "5 5", "1/0", "1/2/3",
            "...", "one", math.nan, math.inf, -math.inf, None, [1.0], {}, True, object(), 10**400]

every_problem = pytest.mark.parametrize("id", BANK)


@cache
def variants(id: str) -> tuple[Question, ...]:
    """The page's own question, then one for each seed if the problem draws inputs."""
    return tuple(ask(id, seed) for seed in range(SEEDS + 1 if BANK[id].draw else 1))


@cache
def forms(id: str) -> tuple[dict[str, dict], ...]:
    """For each variant, part name -> the page's data, after a trip through JSON."""
    return tuple({part["name"]: part for part in json.loads(json.dumps(q.form_data()))["parts"]}
                 for q in variants(id))


def of_kind(id: str, kind: type) -> list[tuple[Question, dict, object]]:
    return [(q, form[part.name], part) for q, form in zip(variants(id), forms(id), strict=True)
            for part in q.parts if isinstance(part, kind)]


def outcome(q: Question, name: str, answer: object) -> tuple[str, str]:
    """Kind and message of one answer, and check's own rule: it raises unless that is right."""
    try:
        report, raised = q.check(**{name: answer}), False
    except WrongAnswer as wrong:
        report, raised = wrong.report, True
    found = next(o for o in report.outcomes if o.name == name)
    assert raised == (found.kind not in ("right", "not attempted"))
    assert all(o.kind == "not attempted" for o in report.outcomes if o.name != name)
    return found.kind, found.message


def form_verdict(data: dict, answer: object) -> tuple[str, str]:
    """A second reading of form_data, as a page does it: (kind, what it says of slip or rival)."""
    if data["kind"] == "choice":
        if answer == data["right"]:
            return "right", ""
        return "slip", data["slips"][answer]
    if data["kind"] == "text":
        if any(re.search(pattern, answer, re.IGNORECASE) for pattern in data["accept"]):
            return "right", ""
        for slip in data["slips"]:
            if re.search(slip["re"], answer, re.IGNORECASE):
                return "slip", slip["say"]
        return "off", ""
    number, value = parse(answer, data["unit"]), data["value"]
    if any(low <= number <= high for low, high in data["right"]):
        return "right", ""
    for kind, group in (("rival", data["rivals"]), ("slip", data["slips"].items())):
        for say, (low, high) in group:
            if low <= number <= high:
                return kind, say
    for say, factors, near in any_number(data["unit"]):
        if any(abs(number - factor * value) <= near * abs(factor * value) for factor in factors):
            return "slip", say
    return "off", ""


def same_verdict(q: Question, form: dict, part: object, answer: object) -> tuple[str, str]:
    kind, message = outcome(q, part.name, answer)
    read, say = form_verdict(form, answer)
    assert kind == read, (q.id, q.seed, part.name, answer)
    assert say in message, (q.id, q.seed, part.name, answer)
    return kind, message


def roundings(value: float) -> list[str]:
    """`value` to 2, 3 and 4 significant digits; a tie rounded up and to even."""
    exact, found = Decimal(repr(float(value))), []
    for digits in (2, 3, 4):
        step = Decimal(1).scaleb(exact.adjusted() - digits + 1) if exact else Decimal(1)
        found += [str(exact.quantize(step, rule)) for rule in (ROUND_HALF_UP, ROUND_HALF_EVEN)]
    return list(dict.fromkeys(found))


# --- the bank -----------------------------------------------------------------------------------

def test_every_problem_of_every_module_is_in_the_bank():
    modules = [import_module(f"{problems.__name__}.{found.name}")
               for found in iter_modules(problems.__path__)]
    ids = [id for module in modules for id in module.PROBLEMS]
    assert sorted(ids) == sorted(BANK) and len(set(ids)) == len(ids)
    for module in modules:
        page = module.__name__.rpartition(".")[2].replace("_", ".")
        assert all(id.startswith(page + ".") for id in module.PROBLEMS)


@every_problem
def test_names_and_inputs(id):
    problem, q = BANK[id], ask(id)
    names = [part.name for part in q.parts]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    for name in problem.fixed:
        assert "{" + name + "}" in problem.ask, f"the reader is not told {name}"
    assert set(problem.units) | set(problem.one_of) <= set(problem.fixed)
    assert re.search(r"\S", q.text) and "TFLOPS" not in q.text
    for part in q.parts:
        assert part.name in repr(q) and part.label in repr(q)


@every_problem
def test_a_seed_is_always_the_same_and_seeds_differ(id):
    for seed in (0, 1, 7):
        assert ask(id, seed).form_data() == ask(id, seed).form_data()
        assert repr(ask(id, seed)) == repr(ask(id, seed))
    assert ask(id).form_data() == ask(id, 0).form_data()
    if BANK[id].draw:
        assert len({repr(q.inputs) for q in variants(id)[:16]}) >= 4


# --- answers ------------------------------------------------------------------------------------

@every_problem
def test_untouched_is_not_attempted(id):
    q = ask(id)
    names = [part.name for part in q.parts]
    for report in (q.check(), q.check(**dict.fromkeys(names, ...))):
        assert repr(report) == "not attempted: " + ", ".join(names)
        assert not report.right


@every_problem
def test_right_in_every_legal_form(id):
    for q, form, part in of_kind(id, Part):
        for value in (part.value, *part.also):
            names = [name for name, (_, base) in UNITS.items() if base == part.unit]
            answers = [value, repr(float(value)), f"{value:.3e}"]
            answers += [text + end for text in roundings(value)
                        for end in ("", f" {part.unit}".rstrip())]
            answers += [f"{value / UNITS[name][0]!r} {name}" for name in names]
            for answer in dict.fromkeys(answers):
                kind = same_verdict(q, form, part, answer)[0]
                rounded = part.exact and not math.isclose(parse(answer, part.unit), value)
                assert (kind != "right") if rounded else (kind == "right"), answer
        shown = part.answer  # in the prefix a reader would choose
        assert outcome(q, part.name, shown)[0] == "right"


@every_problem
def test_slips_are_named_distinct_and_wrong(id):
    for q, form, part in of_kind(id, Part):
        causes = sum(1 + label.count(", or ") for label in part.slips)
        assert causes >= 3, (q.seed, part.name)
        slips = sorted(part._range(value) for value in part.slips.values())
        others = map(part._range, (part.value, *part.also, *part.rivals.values()))
        assert all(a[1] < b[0] for a, b in pairwise(slips)), part.name
        assert all(a[1] < b[0] or b[1] < a[0] for a in others for b in slips), part.name
        for label, value in part.slips.items():
            side = "too small" if value < part.value else "too large"
            for answer in (value, *roundings(value)):
                if part._range(value) != accepted(value) and float(answer) != value:
                    continue  # a count that is rounded is another one
                kind, message = same_verdict(q, form, part, answer)
                assert (kind, message) == ("slip",
                                           f"not yet, {side}. Looks like a slip: {label}.")
        extra = {label: value for label, value in part.extra.items()
                 if label in {label for label, _, _ in part._ranges}}
        for label, value in extra.items():
            kind, message = same_verdict(q, form, part, value)
            assert kind == "slip" and label in message, (q.seed, part.name, label)


@every_problem
def test_words_of_slips_fit_their_frame(id):
    """After "Looks like a slip: " comes what is missing or mixed up, not the right rule."""
    for q in variants(id)[:20]:
        for part in q.parts:
            for label in (*part.slips, *part.extra) if isinstance(part, Part) else ():
                assert len(label) < 200 and not label.endswith("."), label
                assert label[:1].islower() or label[1:2] in " 's_,/" or label[:2].isupper(), label
                assert not re.search(r"\b(are|is) (two|written|read)( too)?$", label), label


@every_problem
def test_an_error_carried_on_is_told_apart(id):
    """Other parts wrong, this one consistent with them: it is not called a slip of its own."""
    q, answers = ask(id), {}
    for part in q.parts:
        if not isinstance(part, Part) or not part.follows:
            continue
        names = [name for name in leaves(part.follows) if isinstance(name, str)]
        values = {one.name: one.value for one in q.parts if isinstance(one, Part)}
        assert {*names} <= values.keys() - {part.name}
        assert evaluate(part.follows, values) == pytest.approx(part.value, rel=0.011)
        wrong = {**values, **{name: 1.7 * values[name] for name in names[:1]}}
        answers = {name: wrong[name] for name in names}
        answers[part.name] = evaluate(part.follows, wrong)
        if part.judge(answers[part.name]).kind in ("right", "rival"):
            continue
        with pytest.raises(WrongAnswer) as error:
            q.check(**answers)
        found = {o.name: o for o in error.value.report.outcomes}
        assert (found[part.name].kind, found[part.name].message) == (
            "follows", f"consistent with your {names[0]}; mend that first.")
        answers[names[0]] = values[names[0]]  # now the slip is this part's own
        with pytest.raises(WrongAnswer) as error:
            q.check(**answers)
        assert next(o.kind for o in error.value.report.outcomes if o.name == part.name) in (
            "slip", "off")


def leaves(node):
    return [leaf for one in node[1:] for leaf in leaves(one)] if isinstance(node, tuple) else [node]


def evaluate(node, values):
    if not isinstance(node, tuple):
        return values[node] if isinstance(node, str) else node
    first, *rest = (evaluate(one, values) for one in node[1:])
    for one in rest:
        first = OPS[node[0]](first, one)
    return first


@every_problem
def test_rivals_are_named_as_such(id):
    for q, form, part in of_kind(id, Part):
        for value in part.rivals.values():
            kind, message = same_verdict(q, form, part, value)
            if any(low <= value <= high for low, high in part.right):
                assert kind == "right"
            else:
                assert kind == "rival" and "not the figure this page uses" in message


@every_problem
def test_nonsense_is_one_clear_line(id):
    q = ask(id)
    for part in q.parts:
        bad = NONSENSE if isinstance(part, Part) else [
            3, *(answer for answer in NONSENSE if not isinstance(answer, str))]
        if isinstance(part, Choice):
            bad = [*bad, "no such option"]
        if isinstance(part, Part):
            bad = bad + [f"1 {unit}" for unit in BASES if unit and unit != part.unit]
        for answer in bad:
            kind, message = outcome(q, part.name, answer)
            assert kind == "unreadable", (part.name, answer)
            assert "\n" not in message and message.endswith(".")
    with pytest.raises(ProblemError, match="no answer is called 'no_such_answer'"):
        q.check(no_such_answer=1)


@every_problem
def test_off_answers_agree_with_the_form_and_give_nothing_away(id):
    for q, form, part in of_kind(id, Part):
        numeral = part.answer.split()[0]
        for factor in (-1, 0, 0.3, 0.77, 0.985, 0.9899, 1.0101, 1.07, 1.6, 5, 1e6):
            kind, message = same_verdict(q, form, part, part.value * factor)
            if kind != "right" and len(numeral.strip("0.")) > 2:
                assert numeral not in message, (q.seed, part.name)


@every_problem
def test_each_choice_gives_its_reason(id):
    for q, form, part in of_kind(id, Choice):
        assert len(part.options) >= 2 and part.why
        for key in part.options:
            kind, message = same_verdict(q, form, part, key)
            if key == part.right:
                assert (kind, message) == ("right", "right.")
            else:
                assert (kind, message) == ("slip", f"not yet. {part.slips[key]}")
                assert len(part.slips[key]) > 15 and part.slips[key].endswith(".")
        assert outcome(q, part.name, f"  {part.right.upper()} ")[0] == "right"


@every_problem
def test_texts(id):
    for q, form, part in of_kind(id, Text):
        assert same_verdict(q, form, part, part.right) == ("right", "right.")
        assert same_verdict(q, form, part, "zzz") == ("off", "not yet.")
        for pattern, reason in part.slips.items():
            assert same_verdict(q, form, part, example(pattern)) == ("slip", f"not yet. {reason}")
        for pattern in (*part.accept, *part.slips):  # the page runs them as JavaScript
            assert not re.search(r"\(\?[^:]|\\[AZ]|\(\?P", pattern)


def example(pattern: str) -> str:
    """A short text that `pattern` matches: first branch, fewest repeats."""
    from re import _parser  # type: ignore[attr-defined]

    def walk(nodes):
        for op, value in nodes:
            match str(op):
                case "LITERAL":
                    yield chr(value)
                case "IN":
                    kind, first = value[0]
                    yield chr(first if str(kind) == "LITERAL" else first[0]) \
                        if str(kind) != "CATEGORY" else " "
                case "BRANCH":
                    yield from walk(value[1][0])
                case "SUBPATTERN":
                    yield from walk(value[3])
                case "MAX_REPEAT" | "MIN_REPEAT":
                    for _ in range(value[0]):
                        yield from walk(value[2])
                case "ANY":
                    yield "."
                case "AT":
                    pass
                case _:
                    raise AssertionError(f"{op} in {pattern!r}: teach `example` this")

    found = "".join(walk(_parser.parse(pattern)))
    assert re.search(pattern, found, re.IGNORECASE)
    return found


# --- worked answers -----------------------------------------------------------------------------

_UNIT = "|".join(re.escape(name) for name in sorted(UNITS, key=len, reverse=True)
                 if name not in ("", "x", "%"))
_QUANTITY = re.compile(rf"(\d{{1,3}}(?:,\d{{3}})+|\d+)(\.\d+)?(e[+-]?\d+)?(?: ({_UNIT})(?![\w/]))?")


def arithmetic(text: str) -> float:
    """The value of '2 GFLOP / 400 MB': each quantity in its base unit, then Python's rules."""
    def number(match: re.Match) -> str:
        unit = match[4] or ""
        digits = match[1].replace(",", "") + (match[2] or "") + (match[3] or "")
        return repr(float(digits) * UNITS[unit][0])

    code = _QUANTITY.sub(number, text).replace("×", "*").replace("²", "**2").replace("³", "**3")
    code = code.replace("^", "**")
    assert re.fullmatch(r"[-+*/(). ,\de]|(?:[-+*/(). ,\de]|max|min|sqrt)+", code), (text, code)
    return eval(code, {"__builtins__": {}}, {"max": max, "min": min, "sqrt": math.sqrt})


@every_problem
def test_worked_answers_hold(id):
    for q in variants(id):
        text, page = repr(q.worked()), q.form_data()["worked"]
        assert text == repr(q.worked())
        joined = text.replace("\n    = ", " = ").splitlines()
        answers = {}
        for part in q.parts:
            line = next(line for line in joined if re.match(rf"{part.name}( = |: )", line))
            assert page.count(part.shown) >= 1
            if isinstance(part, Choice):  # a page never says a key
                assert f"{part.shown}: {part.options[part.right]}" in page
                assert part.options[part.right] in " ".join(text.split())  # it may be wrapped
            if isinstance(part, Part):
                *_, put_in, shown = line.split(" = ")
                answers[part.name] = shown
                low, high = accepted(part.value)
                assert low <= arithmetic(put_in) <= high, (q.seed, line)
            else:
                answers[part.name] = line.partition(": ")[2]
        assert q.check(**answers).right


@every_problem
def test_given_names_every_input(id):
    q = ask(id)
    lines = repr(q.worked()).splitlines()
    given = [*lines[:1], *takewhile(lambda line: line.startswith("    "), lines[1:])]
    for name, text in q.given.items():
        assert any(f"{name} = {text}" in line for line in given)
    assert max(map(len, lines)) <= 98  # a page's width


# --- the reader's own inputs --------------------------------------------------------------------

@every_problem
def test_own_inputs(id):
    problem, q = BANK[id], ask(id)
    for name, value in problem.fixed.items():
        own = ask(id, **{name: value})
        assert own.parts == q.parts and own.inputs == q.inputs
        if name in problem.one_of:
            assert ask(id, **{name: problem.one_of[name][0]}).parts
            bad = ["nonsense", 1, None, [1]]
        else:
            unit = problem.units.get(name, "")
            assert ask(id, **{name: f"{value!r} {unit}"}).parts == q.parts
            bad = [0, -1, "-3", math.nan, math.inf, "nonsense", "", None, [1], 10**400,
                   "1 GB" if unit != "B" else "1 s"]
            counted = isinstance(value, int) and unit in ("", "FLOP", "B", "cycle")
            bad += [1.5] if counted else []
            low = {0} if problem.none.get(name) == "" else set()  # 0 is a figure like another
            low |= {0, -1, "-3"} if name in problem.signed else set()
            assert all(ask(id, **{name: value}).parts for value in low)
            bad = [wrong for wrong in bad if not isinstance(wrong, int | str) or wrong not in low]
        for wrong in bad:
            with pytest.raises(ProblemError) as error:
                ask(id, **{name: wrong})
            assert name in str(error.value) and "\n" not in str(error.value)
            assert id in str(error.value)
    with pytest.raises(ProblemError, match="no input is called 'no_such_input'"):
        ask(id, no_such_input=1)


@every_problem
def test_any_own_input_is_asked_or_refused_in_one_line(id):
    problem = BANK[id]
    for name in set(problem.fixed) - set(problem.one_of):
        for value in (1, 2, 3, 1000, 10**6, 10**9, 10**12, 10**30, 1e-9, 0.3):
            try:
                q = ask(id, **{name: value})
            except ProblemError as error:
                assert "\n" not in str(error) and id in str(error)
                continue
            q.worked()
            for part in q.parts:
                if isinstance(part, Part):
                    assert not part.clashes()
                    assert outcome(q, part.name, part.value)[0] == "right"


@pytest.mark.parametrize("id", [id for id, problem in BANK.items() if problem.units.get(
    "BW") == "B/s"])
def test_a_measured_bandwidth_need_not_be_whole(id):
    assert ask(id, BW=33554432 / 89e-6).inputs["BW"] == 33554432 / 89e-6
