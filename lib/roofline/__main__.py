"""The command line: python -m roofline COMMAND.

Question  what was asked, how is the answer shown, and how does it end?
Answer    main(argv) -> exit code; text on stdout, files by --save, errors and progress on stderr
Assumes   a terminal or a pipe; JSON with --json
Ignores   what commands do: commands/
"""

import argparse
import os
import shlex
import sys
from importlib import import_module
from typing import NoReturn

from . import machine, units
from .commands import COMMANDS
from .commands.answer import BAD, CODES, FAULT, NOWHERE, Answer, Nowhere, save, to_json
from .table import Told, printable, wrapped

HEAD = """\
python -m roofline: how fast may a kernel run, how fast does it, and where is the rest?

usage: python -m roofline COMMAND ... (COMMAND --help explains by example)

"""


class Usage(Exception):
    """Arguments that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """Arguments of one command; @file is read as a shell would, # starts a comment."""

    def __init__(self, name: str, about: str, examples: str) -> None:
        super().__init__(
            prog=f"python -m roofline {name}", description=about, epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@",
            allow_abbrev=False)
        self.add_argument("--save", action="append", default=[], metavar="FILE",
                          help="also into a file: .txt .json .csv .svg .png .html, as far as the "
                               "answer has such a form; may come again")
        self.add_argument("--json", action="store_true", help="JSON on stdout in place of text")

    def convert_arg_line_to_args(self, line: str) -> list[str]:
        try:
            return shlex.split(line, comments=True)
        except ValueError as error:
            raise Usage(f"@file: {printable(line, 80)!r}: {error}") from None

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message}\n  {self.prog} --help shows examples")


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code, one of CODES. Never a traceback of what a reader can mend."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(HEAD + "\n".join(f"  {name:<8} {about}" for name, about in COMMANDS.items())
              + "\n\nexit codes\n" + "\n".join(f"  {code:<8} {what}"
                                               for code, what in CODES.items()))
        return 0
    name, *rest = argv
    try:
        if name not in COMMANDS:
            raise Usage(f"no command {printable(name, 40)!r}; one of {', '.join(COMMANDS)}")
        return _run(name, rest)
    except KeyboardInterrupt:
        print("stopped; what was saved before is as it was", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as `| head` ends it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # until Python ends
        return 0
    except Usage as error:
        return _ends(str(error), BAD)
    except Exception as error:
        if os.environ.get("ROOFLINE_TRACEBACK"):
            raise
        if isinstance(error, Nowhere):
            return _ends(str(error), NOWHERE)
        if isinstance(error, Told | machine.MachineError | units.UnitError):
            return _ends(str(error), BAD)
        return _ends(f"{type(error).__name__}: {printable(error)}\n  This is a fault of the tool. "
                     "ROOFLINE_TRACEBACK=1 shows where; please report it", FAULT)


def _run(name: str, rest: list[str]) -> int:
    module = import_module(f".commands.{name}", __package__)
    parser = Parser(name, COMMANDS[name], module.EXAMPLES)
    module.add(parser)
    args = parser.parse_intermixed_args(rest)
    answer: Answer = module.answer(args)
    title = f"roofline {name}"
    for path in args.save:
        print(f"saved {save(answer, path, title)}", file=sys.stderr)
    sys.stdout.write(to_json(answer.data) if args.json else answer.text + "\n")
    sys.stdout.flush()
    return answer.code


def _ends(text: str, code: int) -> int:
    print("\n".join(wrapped(f"error: {text}".splitlines())), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
