"""One ES module and its data as a piece of HTML that needs nothing else.

Question  how does a figure reach a static page, a file on disk and JupyterLab alike?
Answer    Live: markup that reads without script, data as JSON, the module inlined
Assumes   <name>.mjs here, in anywidget's shape: export default { render({ model, el }) };
          it may import from its neighbours, which are inlined before it
Ignores   kernels: `model` only gives the data out
"""

import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from ..table import WIDTH, aligned, wrapped

_HERE = resources.files(__package__)

# Renders every element of this kind once, and those that come later when the page says so.
_MOUNT = """
function mount() {{ for (const el of document.querySelectorAll({selector})) {{
  if (el.dataset.ready) continue;
  el.dataset.ready = "1";
  // The same one twice on a page: its own ids still are its own.
  for (let n = 2, id = el.id; document.querySelector(`[id="${{el.id}}"]`) !== el; n++) {{
    el.id = `${{id}}.${{n}}`;
  }}
  // A sheet stands once on a page, whoever brings it: a shared one that came again would take back
  // what a figure's own sheet says.
  for (const [key, rules] of css) {{
    if (document.querySelector(`style[data-rl="${{key}}"]`)) continue;
    const style = document.createElement("style");
    style.dataset.rl = key;
    style.textContent = rules;
    document.head.append(style);
  }}
  const own = JSON.parse(el.querySelector("script[type='application/json']").textContent);
  // Open for readers without script only.
  const tables = el.querySelector(".rl-tables");
  if (tables) tables.open = false;
  const data = {{ ...shared, ...own }}, nothing = () => {{}};
  const model = {{ get: (name) => data[name], set: nothing, on: nothing, off: nothing,
                   save_changes: nothing }};
  figure.render({{ model, el }});
}} }}
mount();
document.addEventListener("rl-mount", mount);
"""


def to_json(value: Any) -> str:
    """JSON that can stand inside a script element: no "<" can end it or open a comment.

    Raises ValueError for NaN and infinities.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def stable_id(prefix: str, *content: str) -> str:
    """An id that is the same whenever the content is: nbval compares stored outputs."""
    return f"{prefix}-{hashlib.sha1(chr(0).join(content).encode()).hexdigest()[:8]}"


_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+)\.mjs";\n', re.MULTILINE)


def _inlined(module: str) -> list[str]:
    """The modules that `module` imports, each before its importer, and itself."""
    source = (_HERE / f"{module}.mjs").read_text("utf-8")
    found = [name for other in _IMPORT.findall(source) for name in _inlined(other)]
    return [*dict.fromkeys(found), module]


@cache
def script(module: str, selector: str, shared: str = "{}") -> str:
    """The module as an inline script that renders each element matching `selector` once.

    shared   JSON of what all of them need; each element's own JSON script wins
    """
    modules = _inlined(module)
    sheets = {name: _HERE / f"{name}.css" for name in ("figures", *modules)}
    css = [(stable_id(name, rules), rules) for name, sheet in sheets.items() if sheet.is_file()
           for rules in (sheet.read_text("utf-8"),)]
    source = "\n".join(_IMPORT.sub("", (_HERE / f"{name}.mjs").read_text("utf-8"))
                       for name in modules)
    source = re.sub(r"^export (?!default)", "", source, flags=re.MULTILINE)
    body = (f"const css = {to_json(css)};\nconst shared = {shared};\n"
            + source.replace("export default", "const figure =")
            + _MOUNT.format(selector=to_json(selector)))
    # In JavaScript "<\/" is "</" wherever that can occur: in strings and templates.
    return f'<script type="module">\n{body.replace("</", "<" + chr(92) + "/")}</script>\n'


_WORDS = ' class="rl-words"'  # a cell that may wrap; numbers with their units do not


def table(rows: Sequence[Sequence[str]], caption: str) -> str:
    """An HTML table: first row the column heads, first column the row heads.

    Each cell names its column in `data-of`, for screens on which rows are stacked.
    """
    head, *body = rows
    names = [html.escape(cell) for cell in head]

    def cells(row: Sequence[str]) -> str:
        first, *rest = map(html.escape, row)
        return f'<th scope="row" data-of="{names[0]}">{first}</th>' + "".join(
            f'<td{_WORDS if len(cell) > 28 else ""} data-of="{name}">{cell}</td>'
            for name, cell in zip(names[1:], rest, strict=True))

    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = "".join(f"<tr>{cells(row)}</tr>" for row in body)
    return (f"<table><caption>{html.escape(caption)}</caption>"
            f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>")


@dataclass(frozen=True)
class Live:
    """A live figure: shown by its script, or as text and tables where there is none.

    module   name of the module in this package, e.g. "roofline"
    data     what `model.get` gives out; JSON-able, no NaN
    text     what it shows, in words: the static page without script, and `repr`
    tables   (caption, rows) each, first row the heads; folded under the figure
    what     what stands there where scripts run: "a roofline to drag"

    Raises FileNotFoundError for an unknown module, ValueError for data JSON cannot hold.
    """

    module: str
    data: Mapping[str, Any]
    text: str
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]] = field(default=())
    what: str = "a live figure"

    def _repr_html_(self) -> str:
        data = to_json(dict(self.data))
        inner = (f'<p class="rl-noscript">Where scripts run, {html.escape(self.what)} stands here; '
                 "without them, this is what it is about, and its numbers.</p>")
        inner += "".join(f'<p class="rl-text">{html.escape(p)}</p>'
                         for p in self.text.split("\n\n"))
        if self.tables:
            # Open where nothing can draw. A region that scrolls sideways must be reachable by
            # keyboard.
            inner += ('<details class="rl-tables" open><summary>Data</summary>'
                      + "".join(f'<div class="rl-scroll" role="region" tabindex="0" aria-label="'
                                f'{html.escape(caption)}">{table(rows, caption)}</div>'
                                for caption, rows in self.tables) + "</details>"
                      "<script>document.currentScript.previousElementSibling.open = false</script>")
        return (f'<div class="rl rl-live" id="{stable_id("rl-" + self.module, data)}" '
                f'data-module="{html.escape(self.module)}">{inner}'
                f'<script type="application/json">{data}</script></div>\n'
                + script(self.module, f'.rl-live[data-module="{self.module}"]'))

    def __repr__(self) -> str:
        said = ["\n".join(wrapped([words], hang=0)) for words in self.text.split("\n\n")]
        return "\n\n".join([*said, *("\n".join([caption, *_in_width(rows)])
                                     for caption, rows in self.tables)])


def _in_width(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; where it is too wide, its widest but the first follow below each row."""
    columns = list(zip(*rows, strict=True))
    below: list[int] = []

    def beside() -> list[str]:
        kept = [i for i in range(len(columns)) if i not in below]
        return aligned([[row[i] for i in kept] for row in rows])

    while len(below) + 1 < len(columns) and max(map(len, beside())) > WIDTH:
        below.append(max((i for i in range(1, len(columns)) if i not in below),
                         key=lambda i: max(map(len, columns[i]))))
    return [line for row, line in zip(rows, beside(), strict=True) for line in (
        *wrapped([line], hang=4),
        *wrapped(f"    {rows[0][i]}: {row[i]}" for i in sorted(below)
                 if row is not rows[0] and row[i]))]
