"""A guess that a page takes before it shows a result.

Question  what did the reader expect of this profile, plot or run, before it was looked at?
Answer    prediction(id, parts, text): a small form; committed or skipped, the result unfolds,
          and the guess stands beside what the result's own text says
Assumes   the question itself stands in the prose above, where JupyterLab's readers see it too
Ignores   right and wrong: a guess is compared, not judged
"""

import html
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from .. import units
from .forms import grammar
from .live import script, to_json


class PredictionError(ValueError):
    """A prediction that its page cannot show: which, what, got, next step."""


def prediction(id: str, parts: Mapping[str, Mapping[str, Any]], text: str, result: str = "", *,
               scripted: bool = True) -> str:
    """HTML of a guess at what `text` says.

    id       "day5.plain-nest": the day, and a name of its own
    parts    by name: {"label", "unit", "found"}, or {"label", "options", "found"} with options
             {what the text says: what a reader chooses}; unit is a base unit ("" for a bare
             number or %) and found a pattern whose one group is what the text says
    text     what the result shows, as text
    result   the HTML id of what is folded until the guess is committed or skipped
    scripted False leaves the script out: the page's first one serves all

    Raises PredictionError for a pattern that is not found exactly once, and for what it finds when
    that is no number in the unit or none of the options.
    """
    if not re.fullmatch(r"[a-z]\w*\.[\w.-]+", id):
        raise PredictionError(f"prediction {id!r}: expected a day and a name, such as day5.best")
    if not parts:
        raise PredictionError(f"prediction {id}: it asks for nothing. Give it a part")
    data = [_part(id, name, part, text) for name, part in parts.items()]
    own = "guess-" + re.sub(r"[^\w.-]", "-", id)
    says = "".join(f"<li>{_static(part)}</li>" for part in data)
    return (
        f'<form class="rl rl-form rl-predict-first mathjax_ignore tex2jax_ignore" id="{own}" '
        f'data-guess-id="{html.escape(id)}" data-result="{html.escape(result)}" novalidate>'
        '<p class="rl-ask" tabindex="-1">Your guess, before you look</p>'
        f'<div class="rl-fields"><ul class="rl-static">{says}</ul></div>'
        f'<script type="application/json">{to_json({"parts": data})}</script></form>\n'
        + (prediction_script() if scripted else ""))


@cache
def prediction_script() -> str:
    """The script that serves every prediction of a page; `prediction` ends with it."""
    return script("predict", "form.rl-predict-first", to_json(grammar()))


def _part(id: str, name: str, part: Mapping[str, Any], text: str) -> dict[str, Any]:
    """One part for the page."""
    where = f"prediction {id}: {name}"
    label, unit, options = part.get("label", name), part.get("unit"), part.get("options")
    if unknown := set(part) - {"label", "unit", "options", "found"}:
        raise PredictionError(f"{where}: got {', '.join(sorted(unknown))}; a part has label, "
                              "found, and a unit or options")
    if (unit is None) == (options is None):
        raise PredictionError(f"{where}: give it a unit, or options to choose from")
    found = re.findall(part["found"], text, re.MULTILINE)
    if len(found) != 1 or not isinstance(found[0], str):
        raise PredictionError(f"{where}: {part['found']!r}: expected one place with one group in "
                              f"the result, found {len(found)}. The result is:\n{text}")
    if options is not None:
        if found[0] not in options:
            raise PredictionError(f"{where}: the result says {found[0]!r}; the options are "
                                  f"{', '.join(map(repr, options))}")
        return {"name": name, "label": label, "kind": "choice", "found": found[0],
                "options": [[key, says] for key, says in options.items()]}
    try:
        value = units.parse(found[0], str(unit))
    except units.UnitError as error:
        raise PredictionError(f"{where}: the result says {found[0]!r}: {error}") from None
    return {"name": name, "label": label, "kind": "number", "unit": unit, "found": found[0],
            "value": value}


def _static(part: Mapping[str, Any]) -> str:
    """A part for readers without script, and for paper."""
    says = html.escape(part["label"])
    if part["kind"] == "choice":
        options = "".join(f"<li>{html.escape(text)}</li>" for _, text in part["options"])
        return f'{says}<ul class="rl-options">{options}</ul>'
    return says + (f" in {html.escape(part['unit'])}" if part["unit"] else "")
