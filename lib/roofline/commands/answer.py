"""What a command answers, on a terminal and in files.

Question  how does one answer become text, JSON, CSV, a picture and a page?
Answer    Answer(text, data, table, figure, code); save(answer, path) by the path's suffix
Assumes   a figure is a Picture of `plot` or a Live of `figures`; text is printable already
Ignores   what was asked

A file appears whole or not at all: it is written beside its place and then moved there.
"""

import csv
import html
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..table import Told, printable

if TYPE_CHECKING:
    from ..figures.live import Live
    from ..plot import Picture

FINE, NO, BAD, NOWHERE, FAULT = 0, 1, 2, 3, 70  # exit codes
CODES = {
    FINE: "done, and nothing disagrees",
    NO: "done, and the answer is no: counts differ, a figure is flagged",
    BAD: "the input cannot be used; nothing was written",
    NOWHERE: "there is nothing to run it on here",
    130: "stopped with Ctrl-C",
    FAULT: "a fault of the tool; please report it",
}
Cell = str | int | float | None


class SaveError(Told, ValueError):
    """An answer that cannot be written where or as it should be."""


class Nowhere(Told, Exception):
    """There is nothing here that it could run on; ends with NOWHERE."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    text    for a terminal, no line longer than a page where that can be helped
    data    the same as JSON: base units, names of the fields; no NaN
    table   header, then rows, base units: CSV
    figure  a Picture (svg, png, html), a Live (html), or None
    code    how the command ends: one of CODES
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    table: Sequence[Sequence[Cell]] = ()
    figure: "Picture | Live | None" = None
    code: int = FINE

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What it can be saved as."""
        drawn = () if self.figure is None else (
            (".svg", ".png") if hasattr(self.figure, "save") else ())
        return (".txt", ".json", *[".csv"] * bool(self.table), *drawn, ".html")


def to_json(data: Mapping[str, Any]) -> str:
    """Raises ValueError for what JSON cannot hold."""
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_csv(table: Sequence[Sequence[Cell]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(table)
    return out.getvalue()


def to_html(answer: Answer, title: str) -> str:
    """One page that needs nothing else: the figure, then the text."""
    from ..plot import CSS
    shown = "" if answer.figure is None else answer.figure._repr_html_()
    name = html.escape(title)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<style>{CSS}\nbody {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; "
            "margin: 2rem auto; padding: 0 1rem; color: #1f2328; background: #fff; }\n"
            "pre { overflow-x: auto; line-height: 1.4; }</style></head>\n"
            f"<body><main><h1>{name}</h1>\n{shown}\n"
            f'<pre tabindex="0">{html.escape(answer.text)}</pre></main></body></html>\n')


def save(answer: Answer, path: str, title: str) -> Path:
    """Write it as the suffix says; an existing file is replaced.

    Raises SaveError for a suffix it has no form for, a folder that is not there, a full disk.
    """
    place = Path(path).expanduser()
    suffix = place.suffix.lower()
    shown = printable(path, 200)
    if suffix not in answer.suffixes:
        raise SaveError(f"--save {shown}: this answer is saved as {', '.join(answer.suffixes)}; "
                        f"got {suffix or 'no suffix'!r}. Change the end of the name")
    try:
        handle, name = tempfile.mkstemp(prefix=".roofline-", suffix=suffix, dir=place.parent)
    except OSError as error:
        raise SaveError(f"--save {shown}: {error.strerror or error}. Expected a folder that is "
                        "there and can be written to") from None
    part = Path(name)
    try:
        os.close(handle)
        if suffix in (".svg", ".png"):
            answer.figure.save(part)  # type: ignore[union-attr]  # a Picture: see suffixes
        else:
            part.write_text({".txt": lambda: answer.text + "\n", ".csv": lambda: to_csv(
                answer.table), ".json": lambda: to_json(answer.data),
                ".html": lambda: to_html(answer, title)}[suffix](), encoding="utf-8")
        part.chmod(0o666 & ~_umask())
        part.replace(place)
    except OSError as error:
        raise SaveError(f"--save {shown}: {error.strerror or error}; what was there is as it "
                        "was") from None
    finally:
        part.unlink(missing_ok=True)
    return place


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
