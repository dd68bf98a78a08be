"""Rows of text in aligned columns.

Question  how does a table look in a notebook that compares text?
Answer    aligned(rows): lines whose columns start, or end, one below the other
Assumes   a font of one width
Ignores   what the cells say; numbers come as text, from units
"""

from collections.abc import Container, Sequence


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
