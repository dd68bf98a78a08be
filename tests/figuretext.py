"""A figure's words and tables as one text, a row a line: what `repr` says, before it is wrapped."""

from roofline.figures import Live
from roofline.table import aligned


def uncut(live: Live) -> str:
    return "\n\n".join([live.text, *("\n".join([caption, *aligned(rows)])
                                     for caption, rows in live.tables)])
