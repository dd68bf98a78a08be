"""Questions that know the wrong models too.

Question  is this answer right, and if not, which misconception does it look like?
Answer    a problem is one function of its inputs that yields its parts in order; `Question`
          checks answers, prints the worked text and gives the page's form its data
Assumes   right values and slips are computed from the same inputs; bare numbers are base units
Ignores   marks, who answered and what was answered before
"""

import math
import operator
import random
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from typing import Any

from .table import WIDTH, Told, wrapped
from .units import SCALED, UNITS, UnitError, is_bare, mebi, parse, show

KEPT = "\xa0"  # a space at which no line ends
Interval = tuple[float, float]
# A value of other parts: a number, a part's name, or (one of OPS, value, value, ...).
Follow = float | str | tuple[Any, ...]
OPS: dict[str, Callable[[Any, Any], float]] = {
    "/": operator.truediv, "*": operator.mul, "+": operator.add, "max": max}


class ProblemError(Told, ValueError):
    """A question that cannot be asked or an answer that has no place: what, got, next step."""


class WrongAnswer(Exception):
    """An attempted part is not right. `.report` has every part; readers see its lines only."""

    def __init__(self, report: "Report") -> None:
        super().__init__(repr(report))
        self.report = report

    def _render_traceback_(self) -> list[str]:
        return repr(self.report).splitlines()


def accepted(value: float) -> Interval:
    """The range of answers that count as `value`, its two ends included.

    It reaches 1 % to either side, and further where needed so that `value` written with two
    significant digits lies in it too (a tie may be rounded either way). So every answer kept
    to 2, 3, 4 or more digits is right, and so is one from inputs rounded within 1 %.

    >>> [round(end, 3) for end in accepted(11.43)], [round(end, 3) for end in accepted(0.125)]
    ([11.0, 11.544], [0.12, 0.13])
    """
    down, up = (float(f"{value * tie:.1e}") for tie in (1 - 1e-9, 1 + 1e-9))
    ends = (0.99 * value, 1.01 * value, down, up)
    slack = 2e-7 * abs(value)  # for the last bit of a binary fraction, and ends of 8 digits
    return min(ends) - slack, max(ends) + slack


def _inside(number: float, intervals: Iterable[Interval]) -> bool:
    return any(low <= number <= high for low, high in intervals)


@cache
def any_number(unit: str) -> tuple[tuple[str, tuple[float, ...], float], ...]:
    """Slips that any number may have: (what it is, factors on the value, how near it must be).

    They come last, so a slip of the problem's own that gives the same is named first.
    """
    found: list[tuple[str, tuple[float, ...], float]] = []
    if unit in ("B", "B/s"):
        factors = [1.024**power for power in (1, 2, 3, 4)]
        found.append(("decimal and binary prefixes are mixed up, such as MB and MiB",
                      (*factors, *(1 / factor for factor in factors)), 0.0055))
    if unit in SCALED or unit == "FLOP/B":
        found.append(("the prefix is one step off, such as M for G", (1e3, 1e-3), 0.0105))
    if unit == "":
        found.append(("a percentage has lost its %", (100.0,), 0.0105))
    return tuple(found)


def _value(node: Follow, known: Mapping[str, float]) -> float:
    if isinstance(node, tuple):
        return reduce(OPS[node[0]], (_value(other, known) for other in node[1:]))
    return known[node] if isinstance(node, str) else node


def _names(node: Follow) -> list[str]:
    if isinstance(node, tuple):
        return list(dict.fromkeys(name for other in node[1:] for name in _names(other)))
    return [node] if isinstance(node, str) else []


class _Shown:
    """name    what a notebook calls the part, and its formulas: `q.check(name=...)`
    label   a prompt for a page, where the name is no symbol of the field
    """

    name: str
    label: str

    @property
    def shown(self) -> str:
        """What a page calls it in a message."""
        return (self.label or self.name).rstrip("?")

    @property
    def prompt(self) -> str:
        """What stands before `wants` in a question's text."""
        return f"{self.label}{'' if self.label.endswith('?') else ':'} " if self.label else ""


COUNTED = ("", "FLOP", "B", "cycle")  # units of what is counted: whole; rates and times need not be


@dataclass(frozen=True)
class Part(_Shown):
    """A number with a unit.

    name     what the reader calls it: `q.check(name=...)`
    value    the right value, in `unit` (a base unit of `units`)
    why      "formula = the numbers put in"; `worked` adds " = value". What follows the last
             " = " must be arithmetic that gives the value. Further lines are remarks.
    slips    what a wrong model gives: {what is missing or mixed up: its value}. It is read
             after "Looks like a slip: ". Slips of one value become "either one, or the other".
    rivals   what another source's figure gives: {that source: its value}
    also     further right values, e.g. from inputs rounded as a page prints them
    label    a short prompt for people: "Share of the peak, as a fraction or in %"
    extra    further slips, each left out where it could be taken for something else
    follows  this value by the reader's own other parts: ("/", "W", "Q")
    lead     lines that come before the equation in the worked answer
    exact    a count: the whole number itself is right, its neighbours are not

    Raises ProblemError for a value that is not finite, a unit that is not a base unit, and a
    count that is not whole.
    """

    name: str
    value: float
    unit: str
    why: str
    slips: Mapping[str, float] = field(default_factory=dict)
    rivals: Mapping[str, float] = field(default_factory=dict)
    also: tuple[float, ...] = ()
    label: str = ""
    extra: Mapping[str, float] = field(default_factory=dict)
    follows: Follow | None = None
    lead: str = ""
    exact: bool = False

    def __post_init__(self) -> None:
        if self.exact and any(value != int(value) for value in (self.value, *self.also)):
            raise ProblemError(f"{self.name}: got {self.value}; a count is a whole number")
        show(self.value, self.unit)  # raises for a unit that is not a base unit
        for number in (self.value, *self.also, *self.slips.values(), *self.rivals.values(),
                       *self.extra.values()):
            if not math.isfinite(number):
                raise ProblemError(f"{self.name}: expected finite values, got {number}")
        causes: dict[float, list[str]] = {}
        for label, value in self.slips.items():
            same = (other for other in causes if math.isclose(value, other, rel_tol=1e-9))
            causes.setdefault(next(same, value), []).append(label)
        object.__setattr__(self, "slips", {
            "either " * (len(labels) > 1) + ", or ".join(labels): value
            for value, labels in causes.items()})

    @cached_property  # a form has hundreds of variants, and each is judged again and again
    def right(self) -> list[Interval]:
        return [self._range(value) for value in (self.value, *self.also)]

    def _range(self, value: float) -> Interval:
        """The answers that count as `value`; of a count, a whole number is itself alone."""
        if not (self.exact and value == int(value)):
            return accepted(value)
        slack = max(0.01, 6e-8 * abs(value))  # a form keeps 8 digits of its ends
        return value - slack, value + slack

    @cached_property
    def answer(self) -> str:
        return show(self.value, self.unit)

    wants = property(lambda self: f"a number in {self.unit}" if self.unit else "a number")

    def clashes(self) -> list[str]:
        """Slips whose range meets the right one, a rival's or an earlier slip's."""
        return [label for label, _, free in self._ranges if not free]

    @cached_property
    def _ranges(self) -> list[tuple[str, Interval, bool]]:
        """Each slip's range, and whether it meets no other; extra slips only where it does not.

        Near the right value an extra slip keeps to the answers that are not rounded much.
        """
        taken = self.right + [ends for _, ends in self._rivals]

        def free(low: float, high: float) -> bool:
            return not any(low <= end and start <= high for start, end in taken)

        found = []
        for label, value in self.slips.items():
            ends = self._range(value)
            found.append((label, ends, free(*ends)))
            taken += [ends] * found[-1][2]
        for label, value in self.extra.items():
            near = (0.9945 * value, 1.0055 * value)
            for ends in (self._range(value), (min(near), max(near))):
                if free(*ends):
                    found.append((label, ends, True))
                    taken.append(ends)
                    break
        return found

    @cached_property
    def _rivals(self) -> list[tuple[str, Interval]]:
        return [(label, self._range(value)) for label, value in self.rivals.items()]

    def judge(self, answer: object) -> "Outcome":
        """Right, a rival's, a slip, off, or unreadable; never how far off."""
        try:
            number = parse(answer, self.unit)
        except UnitError as error:
            return Outcome(self.name, "unreadable", f"{str(error).rstrip('.')}.")
        if _inside(number, self.right):
            return Outcome(self.name, "right", "right.")
        for label, ends in self._rivals:
            if _inside(number, [ends]):
                return Outcome(self.name, "rival",
                               f"right for {label}, not the figure this page uses.")
        bare = self.unit in SCALED and (not isinstance(answer, str) or is_bare(answer))
        side = "too small" if number < self.value else "too large"
        hint = f" A bare number is read in {self.unit}." if bare else ""
        for label, ends, _ in self._ranges:
            if _inside(number, [ends]):
                return Outcome(self.name, "slip", f"not yet, {side}. {_slip(label)}")
        for label, factors, near in any_number(self.unit):
            if any(abs(number - factor * self.value) <= near * abs(factor * self.value)
                   for factor in factors):
                return Outcome(self.name, "slip", f"not yet, {side}. {_slip(label)}{hint}")
        return Outcome(self.name, "off", f"not yet, {side}.{hint}")

    def form(self) -> dict[str, Any]:
        return {"kind": "number", "name": self.name, "label": self.label, "unit": self.unit,
                "value": self.value, "right": [list(interval) for interval in self.right],
                "slips": {label: list(ends) for label, ends, _ in self._ranges},
                "rivals": [[label, list(ends)] for label, ends in self._rivals],
                **({"follows": _listed(self.follows)} if self.follows else {})}


def _listed(node: Any) -> Any:
    return [_listed(other) for other in node] if isinstance(node, tuple) else node


def _slip(label: str) -> str:
    return f"Looks like a slip: {label.rstrip('.')}."


@dataclass(frozen=True)
class Choice(_Shown):
    """One of several statements.

    right     key of the right option       options   {key: what the option says}
    why       why it is right               slips     {every other key: why it is not}
    label     a short question for people: "Which roof binds?"
    """

    name: str
    right: str
    options: Mapping[str, str]
    why: str
    slips: Mapping[str, str]
    label: str = ""

    def __post_init__(self) -> None:
        if {self.right, *self.slips} != set(self.options) or self.right in self.slips:
            raise ProblemError(f"{self.name}: each option but {self.right!r} needs one reason; "
                               f"options {sorted(self.options)}, reasons {sorted(self.slips)}")

    answer = property(lambda self: self.right)

    @property
    def wants(self) -> str:
        wide = max(map(len, self.options))
        lines = [f"      {key:{wide}}  {text}" for key, text in self.options.items()]
        return "\n".join(["one of", *lines])

    def judge(self, answer: object) -> "Outcome":
        key = " ".join(answer.split()).lower() if isinstance(answer, str) else None
        found = next((option for option in self.options if option.lower() == key), None)
        if found == self.right:
            return Outcome(self.name, "right", "right.")
        if found is not None:
            return Outcome(self.name, "slip", f"not yet. {self.slips[found]}")
        got = repr(answer) if isinstance(answer, str) else type(answer).__name__
        known = ", ".join(repr(option) for option in self.options)
        return Outcome(self.name, "unreadable", f"expected one of {known}; got {got}.")

    def form(self) -> dict[str, Any]:
        return {"kind": "choice", "name": self.name, "label": self.label, "right": self.right,
                "options": [list(option) for option in self.options.items()],
                "slips": dict(self.slips)}


@dataclass(frozen=True)
class Text(_Shown):
    """A few words. Patterns are found anywhere in the answer, whatever its case; they run in
    a page's script as well, so they keep to what Python and JavaScript share.

    right     an answer that is accepted        accept   patterns of right answers
    why       why it is right                   slips    {pattern: why it is not}
    label     a short prompt for people
    """

    name: str
    right: str
    accept: tuple[str, ...]
    why: str
    slips: Mapping[str, str] = field(default_factory=dict)
    label: str = ""

    answer = property(lambda self: self.right)
    wants = property(lambda self: "a few words")

    def judge(self, answer: object) -> "Outcome":
        if not isinstance(answer, str):
            return Outcome(self.name, "unreadable",
                           f"expected text in quotes, got {type(answer).__name__}.")
        words = " ".join(answer.split())
        if any(re.search(pattern, words, re.IGNORECASE | re.ASCII) for pattern in self.accept):
            return Outcome(self.name, "right", "right.")
        for pattern, reason in self.slips.items():
            if re.search(pattern, words, re.IGNORECASE | re.ASCII):
                return Outcome(self.name, "slip", f"not yet. {reason}")
        return Outcome(self.name, "off", "not yet.")

    def form(self) -> dict[str, Any]:
        return {"kind": "text", "name": self.name, "label": self.label, "accept": list(self.accept),
                "slips": [{"re": pattern, "say": say} for pattern, say in self.slips.items()]}


AnyPart = Part | Choice | Text


@dataclass(frozen=True)
class Outcome:
    """What became of one part: right, rival, slip, follows, off, unreadable, not attempted."""

    name: str
    kind: str
    message: str


@cache
def _left(name: str) -> Outcome:
    return Outcome(name, "not attempted", "")


@dataclass(frozen=True, repr=False)
class Report:
    """One outcome a part, in the question's order. Its repr is what the reader sees."""

    outcomes: tuple[Outcome, ...]

    @property
    def right(self) -> bool:
        """Every part attempted and right."""
        return all(outcome.kind == "right" for outcome in self.outcomes)

    def __repr__(self) -> str:
        tried = [o for o in self.outcomes if o.kind != "not attempted"]
        left = [o.name for o in self.outcomes if o.kind == "not attempted"]
        lines = [f"{o.name}: {o.message}" for o in tried]
        return "\n".join(lines + (["not attempted: " + ", ".join(left)] if left else []))


def _in_width(line: str) -> str:
    """A line of a worked answer as lines of a page's width, each below the other."""
    hang = 4 if line.startswith("Given: ") else 0
    return "\n".join(wrapped([line], hang, whole=True)) if len(line) > WIDTH else line


class Worked(str):
    """The worked answer: text that shows itself as it is."""

    __repr__ = str.__str__


@dataclass(frozen=True, repr=False)
class Question:
    """A problem with its inputs put in. Seed 0 has the page's own inputs."""

    id: str
    seed: int
    inputs: Mapping[str, Any]
    given: Mapping[str, str]  # the inputs as text
    text: str
    parts: tuple[AnyPart, ...]

    def __repr__(self) -> str:
        wide = max(len(part.name) for part in self.parts)
        return "\n".join([textwrap.fill(self.text, 92), "", *(
            f"  {part.name:{wide}}  {part.prompt}{part.wants}" for part in self.parts)])

    def check(self, /, **answers: object) -> Report:
        """Judge each answer; `...` and a part left out are not attempted.

        Raises WrongAnswer when an attempted part is not right, ProblemError for an answer
        name the question does not have.
        """
        names = [part.name for part in self.parts]
        for name in answers:
            if name not in names:
                raise ProblemError(f"{self.id}: no answer is called {name!r}; "
                                   f"the answers are {', '.join(names)}")
        found = {name: _left(name) for name in names}
        found |= {part.name: part.judge(answers[part.name]) for part in self.parts
                  if answers.get(part.name, ...) is not ...}
        report = Report(tuple(self._follow(found, answers)))
        if any(found[name].kind not in ("right", "not attempted") for name in answers):
            raise WrongAnswer(report)
        return report

    def _follow(self, found: Mapping[str, Outcome], answers: Mapping[str, object],
                ) -> Iterator[Outcome]:
        """The outcomes; a part that fits the reader's own wrong other parts is told so."""
        if not any(isinstance(part, Part) and part.follows for part in self.parts):
            yield from found.values()
            return
        known = {part.name: parse(answers[part.name], part.unit) for part in self.parts
                 if isinstance(part, Part)
                 and found[part.name].kind not in ("not attempted", "unreadable")}
        for part in self.parts:
            mine = found[part.name]
            if isinstance(part, Part) and part.follows and mine.kind in ("slip", "off"):
                names = _names(part.follows)
                wrong = [name for name in names if found[name].kind in ("rival", "slip", "off")]
                if wrong and known.keys() >= {*names}:
                    try:
                        value = _value(part.follows, known)
                    except ZeroDivisionError:
                        value = math.inf
                    # As far as rounding to two digits may take either of them.
                    if abs(known[part.name] - value) <= 0.051 * abs(value) < math.inf:
                        mine = Outcome(part.name, "follows", "consistent with your "
                                       f"{' and '.join(wrong)}; mend "
                                       f"{'those' if len(wrong) > 1 else 'that'} first.")
            yield mine

    def worked(self) -> Worked:
        """The worked answer: what is given, each step, each value as it would be answered.

        Raises ProblemError when a printed value would not pass `check`.
        """
        try:
            self.check(**{part.name: part.answer for part in self.parts})
        except WrongAnswer as wrong:
            raise ProblemError(f"{self.id}: the worked answer fails its own check: {wrong}"
                               ) from None
        return self._worked(page=False)

    def _worked(self, page: bool) -> Worked:
        """A page says what options say; a notebook's reader has to type their keys."""
        given = ", ".join(f"{name} = {text}".replace(" ", KEPT)
                          for name, text in self.given.items())
        lines = [f"Given: {given}"] if given else []
        for part in self.parts:
            name = part.shown if page else part.name
            if isinstance(part, Choice):
                says = part.options[part.right]
                lines += [f"{name}: {says}"] if page else [f"{name}: {part.right}", f"    {says}"]
            elif isinstance(part, Text):
                lines.append(f"{name}: {part.answer}")
            if not isinstance(part, Part):
                lines.append(f"    {part.why}")
                continue
            equation, *remarks = part.why.split("\n")
            steps = [name, *equation.split(" = "), part.answer]
            joint = " = " if len(" = ".join(steps)) <= 76 else "\n    = "
            lines += [*part.lead.splitlines(), joint.join(steps),
                      *(f"    {remark}" for remark in remarks)]
        text = "\n".join(lines)
        if not page:
            text = "\n".join(map(_in_width, text.split("\n")))
        return Worked(text.replace(KEPT, " "))

    def form_data(self) -> dict[str, Any]:
        """One variant for the page's form, ready for JSON; numbers in base units."""
        self.worked()  # checks itself
        return {"id": self.id, "seed": self.seed, "ask": self.text,
                "worked": str(self._worked(page=True)),
                "parts": [part.form() for part in self.parts]}


@dataclass(frozen=True, repr=False)
class Problem:
    """A question for any inputs: made by `problem`, asked with `question`."""

    id: str
    ask: str
    fixed: Mapping[str, Any]
    units: Mapping[str, str]
    one_of: Mapping[str, tuple[str, ...]]
    draw: Callable[[random.Random], Mapping[str, Any]] | None
    body: Callable[..., Iterable[AnyPart]]
    none: Mapping[str, str] = field(default_factory=dict)
    signed: frozenset[str] = frozenset()
    shown: str = ""

    def __repr__(self) -> str:
        return f"problem {self.id}"

    def question(self, seed: int | None = None, /, **own: object) -> Question:
        """The question for a seed (None or 0: the page's own inputs) or for own inputs.

        A drawn variant in which two models give the same answer is drawn again; for own
        inputs the slip that cannot be told apart is left out. Raises ProblemError for
        an input that is unknown, not positive, not finite or in a wrong unit.
        """
        if isinstance(seed, bool) or not isinstance(seed, int | None):
            raise ProblemError(f"{self.id}: seed: expected a whole number, got {seed!r}")
        mine = {name: self._input(name, value) for name, value in own.items()}
        for attempt in range(100 if seed and self.draw else 1):
            inputs = {**self.fixed, **mine}
            if seed and self.draw:
                drawn = self.draw(random.Random(f"{self.id}/{seed}/{attempt}"))
                inputs = {**self.fixed, **drawn, **mine}
            parts = self._parts(inputs, bool(mine))
            clashes = [f"{part.name}: {label}" for part in parts if isinstance(part, Part)
                       for label in part.clashes()]
            if not clashes:
                given = {name: _text(value, self.units.get(name)) for name, value in inputs.items()}
                ask = self.ask if seed or mine else self.shown or self.ask
                return Question(self.id, seed or 0, inputs, given, ask.format(**given), parts)
        raise ProblemError(f"{self.id}: slips that cannot be told apart: {clashes}")

    def _parts(self, inputs: Mapping[str, Any], own: bool) -> tuple[AnyPart, ...]:
        try:
            parts = tuple(self.body(**inputs))
        except (ValueError, ArithmeticError) as error:
            if own:
                raise ProblemError(f"{self.id}: these inputs do not fit: {error}; "
                                   f"{self._known()}") from error
            raise
        if not own:
            return parts
        return tuple(replace(part, slips={label: value for label, value in part.slips.items()
                                          if label not in part.clashes()})
                     if isinstance(part, Part) else part for part in parts)

    def _input(self, name: str, value: object) -> Any:
        if name not in self.fixed:
            raise ProblemError(f"{self.id}: no input is called {name!r}; {self._known()}")
        if name in self.one_of:
            if value in self.one_of[name]:
                return value
            raise ProblemError(f"{self.id}: {name}: expected one of "
                               f"{', '.join(self.one_of[name])}; got {value!r}")
        try:
            number = parse(value, self.units.get(name, ""))
        except UnitError as error:
            raise ProblemError(f"{self.id}: {name}: {error}; {self._known()}") from None
        whole = isinstance(self.fixed[name], int) and self.units.get(name, "") in COUNTED
        told = self.none.get(name, self._known()) if number == 0 else self._known()
        low = name in self.signed or (number == 0 and not told)
        if (number <= 0 and not low) or (whole and number != int(number)):
            kind = "a whole number above 0" if whole else "a number above 0"
            raise ProblemError(f"{self.id}: {name}: expected {kind}, got {value!r}; {told}")
        return int(number) if whole else number

    def _known(self) -> str:
        if not self.fixed:
            return "it has no inputs"
        return "the inputs are " + ", ".join(
            f"{name} ({self.units[name]})" if self.units.get(name) else name
            for name in self.fixed)


def _text(value: object, unit: str | None) -> str:
    """An input as text; a capacity in the prefix, MB or MiB, that says it shorter."""
    if not isinstance(value, int | float):
        return str(value)
    if unit is None and isinstance(value, int):
        return f"{value:,}"
    decimal = show(value, unit or "", digits=6)
    return min(decimal, mebi(value, digits=6), key=len) if unit == "B" else decimal


def problem(id: str, *, ask: str, fixed: Mapping[str, Any] | None = None,
            units: Mapping[str, str] | None = None,
            one_of: Mapping[str, tuple[str, ...]] | None = None,
            draw: Callable[[random.Random], Mapping[str, Any]] | None = None,
            none: Mapping[str, str] | None = None, signed: Iterable[str] = (), shown: str = "",
            ) -> Callable[[Callable[..., Iterator[AnyPart]]], Problem]:
    """Make a Problem of a function that yields its parts.

    ask      the question; {X} stands for input X with its unit
    fixed    the page's own inputs: {name: value in its base unit}
    units    {name: base unit} of the inputs that have one
    one_of   {name: values} of the inputs that are words
    draw     random.Random -> fresh inputs (those left out stay as in `fixed`)
    none     {name: what to do instead} of the inputs that may be typed as 0; "": 0 is a figure
             like another
    signed   inputs that may be 0 or below it
    shown    the question with the page's own inputs, where the page's figures have them to read
    """
    for name, unit in (units or {}).items():
        if UNITS.get(unit, (0, ""))[0] != 1.0:
            raise ProblemError(f"{id}: {name}: {unit!r} is not a base unit")
    return lambda body: Problem(id, ask, fixed or {}, units or {}, one_of or {}, draw, body,
                                none or {}, frozenset(signed), shown)


def collect(namespace: Mapping[str, object]) -> dict[str, Problem]:
    """The problems of a module, by id: `PROBLEMS = collect(globals())`.

    Raises ProblemError when two have the same id.
    """
    found: dict[str, Problem] = {}
    for value in list(namespace.values()):
        if isinstance(value, Problem):
            if value.id in found:
                raise ProblemError(f"two problems are called {value.id}")
            found[value.id] = value
    return found
