"""The long random tests, a lane of its own: `python3 course.py fuzz`."""

import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_book import FORMS, drive, judged, settle, url

from roofline import problems, units
from roofline.check import Choice, Report, WrongAnswer

pytestmark = pytest.mark.fuzz

long = settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
bases = st.sampled_from(units.BASES)
# Mostly what a person may type; sometimes anything.
typed = st.text(max_size=20) | st.builds(
    "{}{}{}".format,
    st.floats() | st.integers() | st.text("0123456789.,_+-e ", max_size=9),
    st.sampled_from(["", " ", "  ", "\t"]),
    st.sampled_from(sorted(units.UNITS)) | st.text(max_size=6))


@long
@given(typed, bases)
def test_any_text_is_a_finite_number_or_a_unit_error(text, base):
    try:
        assert math.isfinite(units.parse(text, base))
    except units.UnitError as error:
        assert str(error)


@long
@given(st.floats(1e-12, 1e18), bases)
def test_what_show_writes_parse_reads(value, base):
    assert units.parse(units.show(value, base), base) == pytest.approx(value, rel=5.1e-3)


@long
@given(st.sampled_from(sorted(problems.BANK)), st.integers(0, 10_000), st.data())
def test_any_answer_is_judged(name, seed, data):
    question = problems.ask(name, seed)
    answers = {part.name: data.draw(typed | st.floats() | st.none() | st.just(...))
               for part in question.parts}
    try:
        assert isinstance(question.check(**answers), Report)
    except WrongAnswer as wrong:
        assert len(wrong.report.outcomes) == len(question.parts)


@long
@given(st.sampled_from(sorted(problems.BANK)), st.integers(0, 100_000))
def test_the_right_answer_is_right_for_every_seed(name, seed):
    question = problems.ask(name, seed)
    assert question.check(**{part.name: part.answer for part in question.parts}).right
    assert repr(question.worked())


def scribble(draw: random.Random, part) -> str:
    """Something near an answer, near a unit, or neither."""
    if isinstance(part, Choice):
        return draw.choice(list(part.options))
    number = draw.choice([f"{draw.uniform(-2, 12):.3g}", f"{10 ** draw.uniform(-12, 15):.4g}",
                          f"{draw.randrange(10**9):,}", ".5", "5.", "1e3", "1_000", "+7", "", "٣"])
    unit = draw.choice([*units.UNITS, "", "gb/s", "Gb", "µs", "μs", "florin", "b", "%%", "FLOPS/s"])
    words = [part.answer, part.answer.upper(), part.answer[:3], "a memory roof", "nan", "∞", "ſ"]
    return draw.choice([number + draw.choice(["", " ", "\u00a0"]) + unit, *draw.sample(words, 2)])


@pytest.mark.parametrize(("page", "ids"), FORMS, ids=lambda v: v if isinstance(v, str) else "")
def test_the_page_judges_any_text_as_the_library_does(page, ids, address, visit):
    opened = visit(url(address, page)).page
    settle(opened)
    draw = random.Random(page)
    for form in ids:
        question = problems.ask(form)
        rounds = [{part.name: scribble(draw, part) for part in question.parts} for _ in range(300)]
        for answers, said in zip(rounds, drive(opened, form, rounds), strict=True):
            for part, outcome in judged(question, answers):
                assert said["parts"][part.name] == [
                    outcome.kind, f"{part.shown}: {outcome.message}"], f"{form}: {answers}"
