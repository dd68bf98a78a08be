"""The command line: python -m roofline COMMAND.

Question  what was asked, how is the answer shown, and how does it end?
Answer    main(argv) -> exit code; text on stdout, files by --save, errors and progress on stderr
Assumes   a terminal or a pipe; JSON with --json
Ignores   what commands do: commands/
"""

import os
import sys

if __name__ == "__main__" and sys.path[:1] in ([""], [os.getcwd()]) and not sys.flags.safe_path:
    del sys.path[0]  # where you are, which -m puts first: a kernel's file may be called copy.py

import argparse
import re
import shlex
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from .commands import COMMANDS
from .commands.answer import (
    BAD,
    CODES,
    DRAWN,
    FAULT,
    FORMS,
    NOWHERE,
    Answer,
    Nowhere,
    check,
    save,
    show,
    tell,
    to_json,
)
from .table import Told, printable, wrapped

HEAD = """\
python -m roofline: how fast may a kernel run, how fast does it, and where is the rest?

usage: python -m roofline COMMAND ... (COMMAND --help explains by example; the page howto.md takes
       a kernel through all of them, step by step)

"""
DEEP = 16  # @files within @files
LARGEST = 2**20  # bytes of one


class Usage(Told, Exception):
    """Arguments that cannot be understood."""


class Parser(argparse.ArgumentParser):
    """Arguments of one command; what they cannot be is a Usage."""

    def __init__(self, name: str, about: str, examples: str, forms: Iterable[str]) -> None:
        super().__init__(
            prog=f"python -m roofline {name}", description=about, epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
        self.add_argument("--save", action="append", default=[], metavar="FILE",
                          help=f"also into a file: {' '.join(forms)}, as far as the answer has "
                               "such a form; may come again")
        self.add_argument("--json", action="store_true", help="JSON on stdout in place of text")

    @property
    def options(self) -> Iterable[str]:
        """As they are typed, "--save"."""
        return self._option_string_actions

    def error(self, message: str) -> NoReturn:
        raise Usage(f"{printable(message)}\n  {self.prog} --help shows examples")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code, one of CODES. Never a traceback of what a reader can mend."""
    try:
        return _main(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as end:  # of --help
        return int(end.code or 0)
    except BaseException as error:
        return _ended(error)


def _main(argv: list[str]) -> int:
    name, *rest = argv or ["--help"]
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        show(HEAD + "\n".join(f"  {name:<8} {about}" for name, about in COMMANDS.items())
             + "\n\nexit codes\n" + "\n".join(f"  {code:<8} {what}"
                                              for code, what in CODES.items()) + "\n")
        return 0
    if name == "--version":
        from importlib import metadata
        try:
            version = metadata.version("roofline")
        except metadata.PackageNotFoundError:
            version = "of no version: on the path, not installed"
        show(f"roofline {version}\n")
        return 0
    if name not in COMMANDS:
        import difflib
        near = [one for one in COMMANDS if one.startswith(name)] or difflib.get_close_matches(
            name, COMMANDS, 1, 0.5)
        raise Usage(f"no command {printable(name, 40)!r}; " + (
            f"did you mean {near[0]}? It is" if near else
            "the command comes first, its call and options after it:")
            + f" one of {', '.join(COMMANDS)}")
    return _run(name, rest)


def _parser(name: str) -> tuple[Any, list[str], Parser]:
    """A command's module, the forms of its answer, and what reads its arguments."""
    module = import_module(f".commands.{name}", __package__)
    draws = getattr(module, "DRAWS", False)
    forms = [form for form in FORMS if draws or form not in DRAWN]
    parser = Parser(name, COMMANDS[name], module.EXAMPLES, forms)
    module.add(parser)
    return module, forms, parser


def _run(name: str, rest: list[str]) -> int:
    module, forms, parser = _parser(name)
    if {"-h", "--help"} & {*rest}:
        show(parser.format_help())
        return 0
    read: list[str] = []
    words = [*expanded(rest, read)]
    _known(name, parser, words)
    args = parser.parse_intermixed_args(words)
    for option, value in vars(args).items():
        if value == "" or (isinstance(value, list) and "" in value):
            raise Usage(f"{option}: got an empty text; expected a value. Give it one, or leave it "
                        "out: a variable of the shell may be unset")
    outputs = [("--save", str(path)) for path in args.save]
    if write := getattr(args, "write", None):
        outputs.append(("--write", str(write)))
    check(outputs, [*read, *_named(args)], forms)
    args.given = rest  # as typed, for a command that says how to go on
    with silent():
        answer: Answer = module.answer(args)
    code = answer.code
    about = [printable(answer.data[key], 200) for key in ("subject", "profile", "name", "file")
             if isinstance(answer.data.get(key), str)]
    for path in args.save:  # one that fails takes nothing from the others, nor from the terminal
        try:
            save(answer, path, f"roofline {name}" + f": {', '.join(about)}" * bool(about))
            tell(f"saved {printable(path, 200)}")
        except Exception as error:
            code = max(code, _ended(error))
    show(to_json(answer.data) if args.json else answer.text + "\n")
    return code


def _known(name: str, parser: Parser, words: Iterable[str]) -> None:
    """Hold each word that begins with -- to the command's options: argparse takes one with a blank
    in it for a part of the call. Raises Usage.
    """
    from .commands.calls import near
    for word in takewhile(lambda word: word != "--", words):
        option = re.split(r"[=\s]", word, maxsplit=1)[0]
        known = option in parser.options
        if not word.startswith("--") or (known and word[len(option):][:1] in ("", "=")):
            continue
        if known:
            raise Usage(f"{printable(word, 80)!r} is one word. Write {option}=VALUE, in quotes "
                        f"where a blank is in it: {option}='...'")
        others = [one for one in COMMANDS if option in _parser(one)[2].options]
        raise Usage(f"no option {printable(option, 60)} of {name}"
                    + (f"; it is one of {' and '.join(others)}" if others else
                       near(option, parser.options)) + f". {parser.prog} --help lists them")


@contextmanager
def silent() -> Iterator[None]:
    """While somebody's code may run: stdout goes to stderr, so that it holds the answer alone.

    Also what goes past sys.stdout: by os.system, or by a library in C.
    """
    kept = None
    with ExitStack() as at_end, redirect_stdout(sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            sys.__stdout__.flush()  # type: ignore[union-attr]  # None: closed, and 1 is no ours
            other = 2
            if sys.__stderr__ is None:
                other = os.open(os.devnull, os.O_WRONLY)
                at_end.callback(os.close, other)
            kept = os.dup(1)
            os.dup2(other, 1)
        try:
            yield
        finally:
            if kept is not None:
                with suppress(OSError, ValueError):
                    sys.__stdout__.flush()  # type: ignore[union-attr]
                os.dup2(kept, 1)
                os.close(kept)


def expanded(words: Iterable[str], read: list[str], within: tuple[str, ...] = ()
             ) -> Iterator[str]:
    """Arguments with each @file replaced by what it holds, read as a shell would; # is a comment.

    read   gets the files
    Raises Usage for one that cannot be read, or is no text.
    """
    for word in words:
        if not word.startswith("@") or word == "@":
            yield word
            continue
        file, shown = os.path.expanduser(word[1:]), printable(word, 200)
        real = os.path.realpath(file)
        if real in within:
            raise Usage(f"{shown}: it includes itself. Take that line out")
        if len(within) == DEEP:
            raise Usage(f"{shown}: more than {DEEP} @files within each other")
        try:
            with open(file, "rb") as opened:
                text = opened.read(LARGEST + 1).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            if isinstance(error, UnicodeDecodeError):
                raise Usage(f"{shown}: it is no text in UTF-8") from None
            raise Usage(f"{shown}: {getattr(error, 'strerror', None) or error}; expected a "
                        f"file of arguments. Paths start at {Path.cwd()}") from None
        if len(text) > LARGEST:
            raise Usage(f"{shown}: more than {LARGEST:,} bytes: no file of arguments")
        read.append(file)
        for at, line in enumerate(text.splitlines(), 1):
            try:
                found = shlex.split(line, comments=True)
            except ValueError as error:
                raise Usage(f"{shown}, line {at}: {error}: {printable(line, 60)!r}. Close the "
                            "quote, or put the word into quotes of the other kind") from None
            yield from expanded(found, read, (*within, real))


def _named(args: argparse.Namespace) -> Iterator[str]:
    """Files among the arguments: what a command may read."""
    for name, value in vars(args).items():
        for text in value if isinstance(value, list) else [value]:
            if name not in ("save", "write") and isinstance(text, str) and "\0" not in text:
                head, py, _ = text.partition(".py")
                for one in map(os.path.expanduser, (text, head + py)):
                    if (name in ("profile", "against") or not os.path.isdir(one)
                            or (name == "call" and text != value[0])):
                        yield one  # a folder of tables; one of a chip's or an op's name is none


# --- how it ends ---------------------------------------------------------------------------------


def _ended(error: BaseException) -> int:
    """Say what happened; the exit code."""
    if isinstance(error, KeyboardInterrupt):
        tell(str(error) or "stopped; what was saved before is as it was")
        return 130
    if os.environ.get("ROOFLINE_TRACEBACK"):
        tell("".join(traceback.format_exception(error)))
    text, code = _words(error)
    tell("\n".join(wrapped(f"error: {text}".splitlines(), whole=True)))
    return code


def _words(error: BaseException) -> tuple[str, int]:
    """What is said of an error, and its code."""
    if isinstance(error, Nowhere):
        return str(error), NOWHERE
    if _ours(error):
        return str(error), BAD
    if isinstance(error, MemoryError):
        return "this machine's memory cannot hold it. Take smaller arrays, or a part", BAD
    if isinstance(error, OSError):
        name = f"{printable(error.filename, 200)}: " if error.filename else ""
        return f"{name}{error.strerror or printable(error)}", BAD
    return (f"{type(error).__name__}: {printable(error)}\n  This is a fault of the tool. "
            "ROOFLINE_TRACEBACK=1 shows where; please report it"), FAULT


def _ours(error: BaseException) -> bool:
    """Whether the library says in its own words what is wrong: its classes, and those of figures.

    So an error of an input need not be wrapped by a command.
    """
    if isinstance(error, Told) or type(error).__module__.startswith("roofline."):
        return True
    last = [*traceback.walk_tb(error.__traceback__)][-1:]
    return type(error) is ValueError and any(
        frame.f_globals.get("__name__", "").startswith("roofline.figures.") for frame, _ in last)


if __name__ == "__main__":
    sys.exit(main())
