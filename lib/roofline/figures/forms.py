"""A question of the bank as a form a page can check without a kernel.

Question  how does a static page tell a reader that an answer is right, or which slip it is?
Answer    form(id): question and worked answer as text, and a form whose script compares what
          is typed with ranges Python computed, in the words of `check`
Assumes   Question.form_data, and the number grammar and names of `units`
Ignores   marks; hiding (the data holds the ranges: a courtesy, not a lock)
"""

import html
import random
import re
from functools import cache
from typing import Any

from .. import check, problems, units
from .live import script, to_json

# Numbers inside a text: what differs between two variants of it.
_NUMERAL = re.compile(r"\d[\d.,]*\d|\d")

# Prefixes a unit picker offers, small to large.
_PICK = {"s": ("n", "u", "m", "")}
_LARGE = ("", "k", "M", "G", "T")
_BINARY = ("Ki", "Mi", "Gi")


def form(id: str, variants: int = 16, *, scripted: bool = True) -> str:
    """HTML of the question called `id`: text, form, folded worked answer.

    variants   how many sets of numbers it carries; the first is the page's own
    scripted   False leaves the script out: for the second and later form of a page, which
               the first one's script serves too

    Raises ProblemError for an unknown id, ValueError for variants < 1.
    """
    if variants < 1:
        raise ValueError(f"form: variants: expected at least 1, got {variants}")
    drawn: list[dict[str, Any]] = []
    for seed in range(variants):
        data = problems.ask(id, seed).form_data()
        data.pop("seed")
        if data not in drawn:  # a problem without numbers has one variant
            drawn.append(data)
    for seed, data in enumerate(drawn):
        for part in data["parts"]:
            if part["kind"] == "choice":  # a right answer is not learnt by where it stands
                part["order"] = list(range(len(part["options"])))
                if seed:
                    random.Random(f"{id}/{part['name']}/{seed}").shuffle(part["order"])
    return markup(id, drawn) + (form_script() if scripted else "")


def markup(id: str, variants: list[dict[str, Any]]) -> str:
    """The form's HTML for given `Question.form_data()` dicts, without the script."""
    first = variants[0]
    name = "form-" + re.sub(r"[^\w.-]", "-", id)
    lined = [_short({**v, "worked": v["worked"].split("\n")}) for v in variants]
    data = to_json({"count": len(variants), "folded": fold(lined)})
    return (
        f'<form class="rl rl-form mathjax_ignore tex2jax_ignore" data-form-id="{html.escape(id)}"'
        f' id="{name}" novalidate>'
        f'<p class="rl-ask" id="{name}-ask" tabindex="-1">{html.escape(first["ask"])}</p>'
        f'<div class="rl-fields"><ul class="rl-static">{"".join(map(_static, first["parts"]))}</ul>'
        '<p class="rl-noscript">This page checks answers once its script runs; the worked answer '
        "is below.</p></div>"
        '<details class="worked"><summary>Worked answer</summary>'
        f'<pre>{html.escape(first["worked"])}</pre></details>'
        f'<script type="application/json" class="rl-form-data">{data}</script></form>\n')


def _static(part: dict[str, Any]) -> str:
    """A part for readers without script, and for paper."""
    says = html.escape(part["label"] or part["name"])
    if part["kind"] == "choice":
        options = "".join(f"<li>{html.escape(text)}</li>" for _, text in part["options"])
        return f'<li>{says}<ul class="rl-options">{options}</ul></li>'
    unit = f" in {html.escape(part['unit'])}" if part.get("unit") else ""
    return f"<li>{says}{unit}</li>"


@cache
def form_script() -> str:
    """The script that serves every form of a page; `form` ends with it."""
    any_number = {base: check.any_number(base) for base in units.BASES}
    return script("form", "form.rl-form[data-form-id]", to_json(grammar() | {"any": any_number}))


def grammar() -> dict[str, Any]:
    """What a page needs to read numbers as `units.parse` does: see answers.mjs."""
    return {
        "number": units._NUMBER.pattern.replace("(?P<", "(?<"),
        "thousands": "^" + units._THOUSANDS.pattern,
        "spellings": units._SPELLINGS,
        "bits": units._BITS,
        "units": [[name, factor, base] for name, (factor, base) in units.UNITS.items()],
        "meaning": units._MEANING,
        "write": {base: units._form(base) for base in units.BASES},
        "picker": {base: _picker(base) for base in units.BASES},
        "scaled": units.SCALED,
    }


def _picker(base: str) -> list[str]:
    """Units to choose from for a base unit, small to large; one when there is no choice."""
    prefixes = _PICK.get(base, _LARGE)
    names = [prefix + base for prefix in prefixes + (_BINARY if base == "B" else ())]
    return [name for name in names if base and units.UNITS.get(name, (0, ""))[1] == base] or [base]


def _short(value: Any) -> Any:
    """Range ends to 8 digits: closer than the slack `check.accepted` adds to them."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def fold(values: list[Any]) -> Any:
    """Variants of one JSON value as one value that says what they share only once.

    Equal variants are the value itself; lists of one length and dicts fold by item, with null
    for an item that a variant's dict does not have. Otherwise {"$": [...], "i": [...]}:
    different values, and which one each variant has; texts become a template with its
    numbers: {"t": [...], "$": [[template, numbers...]]}. A page takes variant n out again
    (`unfold` in form.mjs).
    """
    first = values[0]
    if all(value == first and type(value) is type(first) for value in values):
        return first
    if all(isinstance(value, dict) for value in values):
        keys = dict.fromkeys(key for value in values for key in value)
        return {key: fold([value.get(key) for value in values]) for key in keys}
    if all(isinstance(value, list) and len(value) == len(first) for value in values):
        return [fold([value[i] for value in values]) for i in range(len(first))]
    if all(isinstance(value, str) for value in values):
        templates = list(dict.fromkeys(_NUMERAL.sub("\0", value) for value in values))
        if len(templates) < len(values):
            return {"t": templates,
                    "$": [[templates.index(_NUMERAL.sub("\0", value)), *_NUMERAL.findall(value)]
                          for value in values]}
    different: list[Any] = []
    for value in values:
        if value not in different:
            different.append(value)
    if len(different) == len(values):
        return {"$": values}
    return {"$": different, "i": [different.index(value) for value in values]}
