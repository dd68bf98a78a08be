"""roofline sheet: every roof of a chip, with its source and those that disagree.

Question  what does this chip allow, who says so, and what did recordings reach here?
Answer    answer(args) -> Answer: the entitlement sheet of Day 6, at one scope
Assumes   machine's rows; recordings of the same chip and scope join their rows
Ignores   any kernel: roof
"""

import argparse
import csv
import html
import io
import re

from .. import sheet as sheets
from ..table import wrapped
from .answer import Answer, cited
from .working import working

EXAMPLES = """\
examples
  python -m roofline sheet trn2
      P, BW, ridges and limits of one core; rivals stand below what they disagree with
  python -m roofline sheet trn2 --scope=lnc2 --save=sheet.html
      of the pair of LNC=2, as a page that prints on one side of A4
  python -m roofline sheet trn1 --save=trn1.csv
      one line a figure, in base units, with source, place and condition"""
# As on the course's own page: what is used in full ink, rivals indented and paler.
CSS = """\
.rl-sheet { font-size: 0.8rem; line-height: 1.35; overflow-x: auto; }
.rl-sheet-title, .rl-sheet-group { font-weight: 600; margin: 0.9rem 0 0.2rem; }
.rl-sheet table { border-collapse: collapse; min-width: 41rem; table-layout: fixed; width: 100%; }
.rl-sheet table:not(.ridges) th { width: 24%; }
.rl-sheet table.ridges th:first-child { width: 40%; }
.rl-sheet td:nth-of-type(1) { width: 20%; }
.rl-sheet td:nth-of-type(2) { width: 13%; }
.rl-sheet td:nth-of-type(3) { width: 19%; }
.rl-sheet :is(td, th) { border-bottom: 1px solid var(--pst-color-border); font-weight: 400;
  overflow-wrap: anywhere; padding: 0.1rem 0.5rem 0.1rem 0; text-align: left; vertical-align: top; }
.rl-sheet td:not(:last-child) { white-space: nowrap; }
.rl-sheet .used td:first-of-type { font-weight: 600; }
.rl-sheet :is(.rival, .shown) { color: var(--pst-color-text-muted, #59616b); }
.rl-sheet :is(.rival, .recorded) th { padding-left: 1rem; }
.rl-sheet .recorded { color: var(--pst-color-success, #207020); }
@page { margin: 8mm; size: A4; }
@media print {
  body { margin: 0; max-width: none; padding: 0; }
  h1, .rl-told { display: none; }
  .rl-sheet { font-family: "Arial Narrow", "Liberation Sans Narrow", Arial, "Liberation Sans",
    sans-serif; font-size: min(1.04vw, 2.02mm); line-height: 1.05; overflow: visible;
    width: min(100vw, 194mm); }
  .rl-sheet-title { font-size: 1.3em; margin: 0 0 0.2em; }
  .rl-sheet-groups { column-gap: 2em; columns: 2; }
  .rl-sheet table { min-width: 0; }
  .rl-sheet table:not(.ridges) th { width: 22%; }
  .rl-sheet table:not(.ridges) td:nth-of-type(1) { width: 15.8%; }
  .rl-sheet table:not(.ridges) td:nth-of-type(2) { width: 10.5%; }
  .rl-sheet table:not(.ridges) td:nth-of-type(3) { white-space: normal; width: 12.5%; }
  .rl-sheet code { font-size: 0.8em; }
  .rl-sheet-group { break-after: avoid; font-size: 1.1em; margin: 0.3em 0 0.05em; }
  .rl-sheet section:first-child .rl-sheet-group { margin-top: 0; }
  .rl-sheet tr { break-inside: avoid; }
  .rl-sheet :is(td, th) { padding: 0 0.5em 0 0; }
  .rl-sheet .place { display: none; }
  .rl-sheet-key { font-size: 0.95em; margin: 0.5em 0 0; }
}
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chip", nargs="?", metavar="CHIP",
                        help=f"{', '.join(sheets.NEURON)}; otherwise the one here, or trn2")
    parser.add_argument("--scope", choices=("core", "lnc2", "device"),
                        help="one core (the default), the pair of LNC=2, or the whole device")


def answer(args: argparse.Namespace) -> Answer:
    from ..device import chip_here, roofs
    chip = args.chip or chip_here("trn2")
    sheet = sheets.of(chip, args.scope)  # before recordings are read: it names what it knows
    told = ""
    scope = sheet.machine.scope
    if scope != "device":
        with working(f"reading the recordings of {chip}"):
            measured = roofs(chip, scope)
        told, sheet = repr(measured), sheets.of(chip, scope, measured)
    text = [repr(sheet), *["", "Recordings", *wrapped(
        (f"  {line}" for line in told.splitlines()), whole=True)] * bool(told)]
    table = list(csv.reader(io.StringIO(sheet.csv())))
    heads = table[0]
    data = {"chip": chip, "scope": scope, "name": sheet.machine.name,
            "figures": [_numbered(dict(zip(heads, row, strict=True))) for row in table[1:]],
            "conflicts": [{"quantity": one.quantity, "fact": one.fact,
                           "figures": [cited(spec) for spec in one.figures],
                           "settled_by": one.settles} for one in sheet.conflicts],
            "recordings": told}
    return Answer("\n".join(text), data, table, body=_page(sheet, told))


def _numbered(row: dict[str, str]) -> dict[str, str | float]:
    return {**row, "value": float(row["value"])}


def _page(sheet: sheets.Sheet, told: str) -> str:
    """The sheet as Day 6 prints it; its links to the book's page of sources become words."""
    shown = re.sub(r'<a href="\.\./sources\.html#[^"]*">(.*?)</a>', r"\1", sheet._repr_html_())
    return (f"<style>{CSS}</style>\n{shown}\n"
            + f'<pre class="rl-told" tabindex="0">{html.escape(told)}</pre>' * bool(told))
