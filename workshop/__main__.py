"""`python -m workshop [PART ...]`: what an instructor needs, made from the course's pages.

Question  which part makes this, and where is it?
Answer    PARTS: name -> (module, function, what it does); without a name the parts of ALL run
          in order, and stop at the first that fails
Assumes   the environment of requirements.txt; it is run from the repository's root
Ignores   how a part works: its module says
"""

import importlib
import sys

from . import Stop

# Each function is main(arguments: list[str]) -> exit code; its module is loaded when it is run.
PARTS: dict[str, tuple[str, str, str]] = {
    "student": ("editions", "student", "notebooks without answers, in work/workshop/student/"),
    "key": ("editions", "key", "nbgrader's source notebooks with answers, in work/workshop/key/"),
    "slides": ("slides", "main", "each day's slides, from the built book; also with notes"),
    "site": ("site", "main", "the student notebooks as a site, in work/workshop/site/"),
    "handout": ("site", "handout", "the questions of each day, on paper"),
    "timetable": ("timetable", "main", "minutes of three routes, into workshop/timetable.md"),
    "cost": ("cost", "main", "instance-hours, cost and quota for a class"),
    "catch-up": ("catch_up", "main", "what somebody needs to start at a later day"),
    "setup": ("setup_check", "main", "a participant's computer: is all there that is needed?"),
    "hub": ("hub.deploy", "main", "the class's JupyterHub on this machine; as root"),
    "verify": ("verify", "main", "that nothing leaks, stubs attempt cleanly, the key passes"),
}
ALL = ("key", "student", "slides", "site", "handout", "verify")


def _usage() -> str:
    wide = max(map(len, PARTS))
    lines = [f"  {name:{wide}}  {does}" for name, (_, _, does) in PARTS.items()]
    made = ", ".join(name for name in ALL if name in PARTS)
    return "\n".join([f"usage: python3 course.py workshop [PART [ARGUMENT ...]]\n\nWithout PART: "
                      f"{made}, in this order.\n", *lines])


def run(name: str, arguments: list[str]) -> int:
    """Run one part; its exit code."""
    module, function, _ = PARTS[name]
    found = importlib.import_module(f"{__package__}.{module}")
    code: int = getattr(found, function)(arguments)
    return code


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0
    if arguments and arguments[0] not in PARTS:
        print(f"workshop: no part is called {arguments[0]!r}\n\n{_usage()}", file=sys.stderr)
        return 2
    try:
        if arguments:
            return run(arguments[0], arguments[1:])
        return next((code for name in ALL if name in PARTS if (code := run(name, []))), 0)
    except Stop as stop:
        print(f"workshop: {stop}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
