"""What a command answers, on a terminal and in files.

Question  how does one answer become text, JSON, CSV, a picture and a page, and lose nothing?
Answer    Answer(text, data, table, figure, ...); show(text) on stdout; save(answer, path) by the
          path's suffix; check(outputs, inputs) before the work that they are for
Assumes   a figure is a Picture of `plot` or a Live of `figures`; text is printable already
Ignores   what was asked

A file appears whole or not at all: it is written beside its place and then moved there.
"""

import csv
import html
import io
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..table import Told, printable

if TYPE_CHECKING:
    from ..figures.live import Live
    from ..machine import Spec
    from ..plot import Picture

FINE, NO, BAD, NOWHERE, FAULT = 0, 1, 2, 3, 70  # exit codes
CODES = {
    FINE: "done, and nothing disagrees",
    NO: "done, and the answer is no: counts differ, a figure is flagged",
    BAD: "the input or an output cannot be used; what was saved before is as it was",
    NOWHERE: "there is nothing to run it on here",
    130: "stopped with Ctrl-C",
    FAULT: "a fault of the tool; please report it",
}
DRAWN = (".svg", ".png")  # forms of a command that DRAWS
FORMS = (".txt", ".json", ".csv", *DRAWN, ".html")
Cell = str | int | float | None
_PROFILED = ("summary", "Summary", "profile_info", "instruction", "Instruction", "total_time")


class SaveError(Told, ValueError):
    """An answer that cannot be written where or as it should be."""


class Nowhere(Told, Exception):
    """There is nothing here that it could run on; ends with NOWHERE."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    text    for a terminal, no line longer than a page where that can be helped
    data    the same as JSON: base units, names of the fields; NaN and infinities become null
    table   header, then rows, base units: CSV; NaN and infinities become empty
    figure  a Picture (svg, png, html), a Live (html), or None
    page    what else the page shows after the figure: anything with _repr_html_, such as a Live
    body    HTML that stands in the page in place of all that
    code    how the command ends: one of CODES
    """

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    table: Sequence[Sequence[Cell]] = ()
    figure: "Picture | Live | None" = None
    code: int = FINE
    page: Sequence[Any] = ()
    body: str = ""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """What it can be saved as."""
        drawn = DRAWN if hasattr(self.figure, "save") else ()
        return (".txt", ".json", *[".csv"] * bool(self.table), *drawn, ".html")


# --- forms ---------------------------------------------------------------------------------------


def cited(spec: "Spec") -> dict[str, Any]:
    """A machine's figure as data: with whose it is and when it holds."""
    return {"value": spec.value, "unit": spec.unit, "kind": spec.kind, "source": spec.source,
            "holds": spec.holds}


def to_json(data: Mapping[str, Any]) -> str:
    """JSON in ASCII, so that it passes through any terminal and pipe."""
    return json.dumps(_plain(data), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """What JSON can hold: NumPy's numbers and arrays as Python's, what is not finite as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, Iterable) else str(value)


def to_csv(table: Sequence[Sequence[Cell]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(map(_plain, table))
    return out.getvalue()


# What figures take their colours from; without script the page is light.
_CSS = """\
:root { --pst-color-text-base: #1f2328; --pst-color-background: #fff;
  --pst-color-border: #8886; color-scheme: light; }
html[data-theme="dark"] { --pst-color-text-base: #e6edf3; --pst-color-background: #121212;
  --pst-color-text-muted: #a8b0ba; --pst-color-success: #69cf8b; color-scheme: dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--pst-color-text-base); background: var(--pst-color-background); }
h1 { font-size: 1.5rem; }
pre { overflow-x: auto; line-height: 1.4; }
"""
_THEME = """\
const dark = matchMedia("screen and (prefers-color-scheme: dark)"); // on paper it is light
const follow = () => { document.documentElement.dataset.theme = dark.matches ? "dark" : "light"; };
follow();
dark.addEventListener("change", follow);
"""


def to_html(answer: Answer, title: str) -> str:
    """One page that needs nothing else: figures, then the text. It follows the system's dark."""
    from ..plot import CSS
    drawn = [one._repr_html_() for one in (answer.figure, *answer.page) if one is not None]
    body = answer.body or (
        "\n".join(drawn) + '\n<pre tabindex="0" role="region" aria-label="as text">'
        + html.escape(fit(answer.text)) + "</pre>")
    name = html.escape(title)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<link rel="icon" href="data:,">\n'  # or a browser asks a server for one
            f"<script>{_THEME}</script>\n<style>{CSS}\n{_CSS}</style></head>\n"
            f"<body><main><h1>{name}</h1>\n{body}\n</main></body></html>\n")


# --- on the terminal -----------------------------------------------------------------------------


def fit(text: str) -> str:
    """Without control characters but the line's end: text of files and tools, fit to be shown."""
    return "\n".join(line if line.isprintable() else printable(line, len(line))
                     for line in text.split("\n"))


def show(text: str) -> None:
    """On stdout as it is here: closed, or of few characters (others become escapes).

    Raises SaveError where it does not take all of it; a reader that has gone, as `| head` does, is
    none.
    """
    out, text = sys.stdout, fit(text)
    if out is None:  # closed by who started this
        return
    try:
        try:
            out.write(text)
        except UnicodeEncodeError:
            out.write(text.encode(out.encoding, "backslashreplace").decode(out.encoding))
        out.flush()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # Python would try it again at its end
        if not isinstance(error, BrokenPipeError):
            raise SaveError(f"stdout: {error.strerror or error}. Free some space, or use --save"
                            ) from None


def tell(text: str) -> None:
    """On stderr, where that is still there."""
    try:
        if sys.stderr is not None:
            print(fit(text), file=sys.stderr, flush=True)
    except (OSError, ValueError):  # who reads it has gone; it is no answer
        pass


# --- into files ----------------------------------------------------------------------------------


def check(outputs: Iterable[tuple[str, str]], inputs: Iterable[str], forms: Iterable[str]
          ) -> None:
    """Hold outputs to what can be written, before the work.

    outputs   (option, path): of --save the suffix is one of `forms`, of --write it is .json
    inputs    files that are read, and so not written

    Raises SaveError for the first that cannot be: its suffix, its folder, what is there.
    """
    forms, read, taken = tuple(forms), [*inputs], dict[Path, str]()
    for option, path in outputs:
        what = f"{option} {printable(path, 200)}"
        place = _place(path, what)
        suffix = place.suffix.lower()
        if option == "--save" and suffix not in forms:
            raise SaveError(f"{what}: this answer is saved as {', '.join(forms)}; got "
                            f"{suffix or 'no suffix'!r}. Change the end of the name")
        if option == "--write" and suffix != ".json":
            raise SaveError(f"{what}: a profile is written as .json; got {suffix or 'no suffix'!r}"
                            ". Change the end of the name")
        if place in taken:
            raise SaveError(f"{what}: {taken[place]} writes there, too. Give it another name")
        taken[place] = option
        for one in read:
            if os.path.realpath(one) == str(place) or (
                    place.exists() and os.path.exists(one) and os.path.samefile(one, place)):
                raise SaveError(f"{what}: it is an input of this command, and would be lost. Give "
                                "it another name")
            if os.path.isdir(one) and place.is_relative_to(os.path.realpath(one)):
                raise SaveError(f"{what}: it is in {printable(one, 80)}, an input of this command. "
                                "Save elsewhere")
        if option == "--write" and place.exists():
            from ..profile.write import refuse_others
            refuse_others(place, "json")
        if option == "--save" and suffix == ".json" and place.exists() and _profiled(place):
            raise SaveError(f"{what}: a profile is there, and an answer takes the place of none; "
                            "it was left as it is. Save under another name, such as "
                            f"{printable(place.stem, 60)}-answer.json")
        if (place.parent / "recording.json").exists():
            raise SaveError(f"{what}: that folder is a recording, held to its files as they are. "
                            "Save elsewhere")


def _profiled(place: Path) -> bool:
    """Whether that file holds a profile, measured or modelled: by its keys, none of an answer's."""
    try:
        found = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and any(
        key in _PROFILED or (key.startswith("n_") and isinstance(value, dict))
        for key, value in found.items())


def _place(path: str, what: str) -> Path:
    """Where a path leads, links followed. Raises SaveError where no file can be written there."""
    try:
        place = Path(os.path.realpath(os.path.expanduser(path)))
        there = place.parent.is_dir()
        odd = place.exists() and not place.is_file()
    except (OSError, ValueError) as error:  # a name that is too long, or has a 0 in it
        raise SaveError(f"{what}: {getattr(error, 'strerror', None) or error}. Change the name"
                        ) from None
    if odd:
        raise SaveError(f"{what}: there is a {'folder' if place.is_dir() else 'device'}; expected "
                        "a file or nothing. Change the name")
    if not there:
        raise SaveError(f"{what}: no folder {printable(place.parent, 200)}. Make it, or change the "
                        "name")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise SaveError(f"{what}: the folder cannot be written to. Save elsewhere")
    if place.exists() and not os.access(place, os.W_OK):
        raise SaveError(f"{what}: the file there is read-only. Change the name")
    return place


def save(answer: Answer, path: str, title: str) -> Path:
    """Write it as the suffix says; an existing file is replaced, and keeps its permissions.

    Raises SaveError for a suffix it has no form for, a folder that is not there, a full disk.
    """
    what = f"--save {printable(path, 200)}"
    place = _place(path, what)
    suffix = place.suffix.lower()
    check([("--save", path)], [], answer.suffixes)
    part = None
    try:
        handle, name = tempfile.mkstemp(prefix=".roofline-", suffix=suffix, dir=place.parent)
        part = Path(name)
        os.close(handle)
        if suffix in DRAWN:
            answer.figure.save(part)  # type: ignore[union-attr]  # a Picture: see suffixes
        else:
            text = {".txt": lambda: fit(answer.text) + "\n", ".csv": lambda: to_csv(answer.table),
                    ".json": lambda: to_json(answer.data),
                    ".html": lambda: to_html(answer, title)}[suffix]()
            part.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        part.chmod(place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask())
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        raise SaveError(f"{what}: {error.strerror or error}; what was there is as it was. Free "
                        "some space, or save elsewhere") from None
    finally:
        if part:
            part.unlink(missing_ok=True)
    return place


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
