"""Text as a notebook shows it: aligned columns, lines of its width, words of a file.

Question  how does a table look in a notebook that compares text?
Answer    aligned(rows): lines whose columns start, or end, one below the other; wrapped(lines);
          printable(text) of somebody else's file or tool; Told: an error in its own words
Assumes   a font of one width
Ignores   what the cells say; numbers come as text, from units
"""

import textwrap
from collections.abc import Container, Iterable, Sequence

WIDTH = 98  # columns of a page


def aligned(rows: Sequence[Sequence[str]], left: Container[int] | None = None,
            indent: str = "") -> list[str]:
    """Lines of a table: the columns numbered in `left` start flush left, the others end right.

    left     None: all of them start flush left
    indent   what each line begins with

    >>> aligned([("a", "1"), ("bc", "10")], left=(0,))
    ['a    1', 'bc  10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [(indent + "  ".join(
        cell.ljust(width) if left is None or place in left else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)))).rstrip()
        for row in rows]


def wrapped(lines: Iterable[str], hang: int = 2, whole: bool = False) -> list[str]:
    """Lines of WIDTH columns at most; what follows on is indented by `hang` more than its line.

    whole   words are never broken: paths and options stay fit to be copied, a long one sticks out
    """
    return [row for line in lines for row in textwrap.wrap(
        line, WIDTH, break_on_hyphens=not whole, break_long_words=not whole,
        subsequent_indent=" " * (len(line) - len(line.lstrip()) + hang))]


def printable(text: object, limit: int = 500) -> str:
    """Text of a file as one line without control characters, cut: data, fit to be shown.

    Markup is left as it is: who writes HTML escapes it.

    >>> printable("two\\nlines", 6)
    'two l…'
    """
    text = str(text)[:limit + 1]
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= limit else text[:limit - 1] + "…"


class Told:
    """With an exception: a notebook shows its words and no stack. `class X(Told, ValueError)`."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]
