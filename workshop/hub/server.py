"""A participant's server: their own copy of the pages, then JupyterLab. Runs as the participant.

Question  how does everybody get the pages, and newer ones, without losing a line of their own?
Answer    course.copy_pages, run with the participant's own rights into ~/course; a page they
          edited stays, and kept.txt names it when the class's own has changed
Assumes   the class folder's student/ (first argument) has course.py and its _toc.yml
Ignores   what else is in the home
"""

import importlib.util
import os
import sys
from pathlib import Path


def _copy(student: Path, mine: Path) -> None:
    spec = importlib.util.spec_from_file_location("course", student / "course.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{student}/course.py")
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    kept = course.copy_pages(mine)
    note = mine / "kept.txt"
    if kept:
        note.write_text("You edited these pages, so they stay as they are; the class's own have "
                        "changed since. To get one, rename yours and start your server again.\n\n"
                        + "\n".join(kept) + "\n")
    else:
        note.unlink(missing_ok=True)


def main(arguments: list[str]) -> None:
    student, *command = arguments
    os.umask(0o077)  # what is made from here on is for its owner alone
    mine = Path.home() / "course"
    mine.mkdir(exist_ok=True)
    os.environ["ROOFLINE_COURSE"] = str(mine)  # where recordings of this participant's go
    log = os.open(Path.home() / ".server.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)  # not into the hub's log, which is the instructor's
    os.dup2(log, 2)
    try:
        _copy(Path(student), mine)
        if not (mine / "assets").exists():  # recordings that the instructor shares
            (mine / "assets").symlink_to(Path(student, "assets"))
    except OSError as error:  # a full disk: what is there can still be read
        print(f"the pages were not all copied: {error}", file=sys.stderr)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
