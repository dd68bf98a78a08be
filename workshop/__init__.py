"""The course as a class: editions, slides, timetable, hub. `python -m workshop` names the parts.

These are scripts beside the library, run from the repository's root; what they make lands in
work/workshop/.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "work" / "workshop"


class Stop(Exception):
    """What went wrong, what it was and what to do, for the person at the terminal."""
