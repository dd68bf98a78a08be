"""Kernel files, executed with `nki` meaning this backend and nothing left behind.

Question  what do the kernels of this file do, whichever `nki` is installed, or none?
Answer    load(path): the file's namespace; rebind(kernel): the same for a function
Assumes   the file's own project lies beside it or in its package
Ignores   what the kernels do: run() counts it, lint reads their Python
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ..count import Uncounted
from .core import NkiValidationError
from .project import Project, shown
from .rebind import rebind as rebind


class LoadError(ValueError):
    """A kernel file that cannot be loaded: which, where, why, and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def load(path: str | Path) -> ModuleType:
    """Execute a kernel file with `nki` meaning this backend, and return its namespace.

    However the file spells its imports, and whether or not the real `nki` is installed. Files of
    the same project (beside it, in its package, or another package that imports nki) load the
    same way, once for this call. A framework that is not installed stops nothing until it is
    used. Nothing of it is in sys.modules, and sys.path, sys.meta_path, os.environ and builtins
    are as before.

    Raises LoadError for a file that is missing or is not Python, with the line where there is
    one; NkiValidationError for an import of neuronxcc.nki.
    """
    file = Path(path).expanduser()
    if file.is_dir() or not file.exists():
        raise LoadError(f"load: {path}: {'it is a folder' if file.is_dir() else 'no such file'}; "
                        f"expected a Python file with kernels. Check the path: relative ones "
                        f"start at {Path.cwd()}")
    if file.suffix != ".py":
        raise LoadError(f"load: {path}: its name ends in {file.suffix or 'no suffix'!r}; kernels "
                        f"live in a .py file. Put them in one, or pass the function to nki.run")
    file = file.resolve()
    root, name = _package(file)
    project = Project([root])
    with _kept() as before:
        project.path_before = before
        try:
            module = project.module(name, file)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _told(error, project, file) from None
        finally:
            project.loading = False
    return module


def _package(file: Path) -> tuple[Path, str]:
    """The folder that imports start from, and the file's dotted name under it."""
    parts = [] if file.stem == "__init__" else [file.stem.replace(".", "_")]
    root = file.parent
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


@contextmanager
def _kept() -> Iterator[list[str]]:
    """Put sys.path, sys.meta_path and os.environ back; yields the sys.path there was."""
    path, finders, environ = list(sys.path), list(sys.meta_path), dict(os.environ)
    try:
        yield path
    finally:
        sys.path[:], sys.meta_path[:] = path, finders
        for key in os.environ.keys() - environ.keys():
            del os.environ[key]
        os.environ.update(environ)


def _told(error: BaseException, project: "Project", main: Path) -> BaseException:
    """The error of a load in our form: which file, which line, what."""
    where, line = main, 0
    at = error.__traceback__
    while at:
        if at.tb_frame.f_code.co_filename in project.files:
            where, line = Path(at.tb_frame.f_code.co_filename), at.tb_lineno
        at = at.tb_next
    if isinstance(error, SyntaxError) and error.filename in project.files:
        where, line = Path(error.filename), error.lineno or 0
    place = f"{shown(where)}{f', line {line}' if line else ''}"
    if isinstance(error, NkiValidationError | Uncounted):
        said = str(error)
        return error if where.name in said else type(error)(f"{place}: {said}")
    if isinstance(error, LoadError):
        return error
    if isinstance(error, SyntaxError):
        text = (error.text or "").strip()
        return LoadError(f"load: {place}: not Python: {error.msg}{f': {text}' if text else ''}. "
                         f"Correct the line and load the file again")
    if isinstance(error, UnicodeError):
        return LoadError(f"load: {place}: not Python: its bytes are no text ({error}). "
                         f"Save it as UTF-8")
    if isinstance(error, SystemExit):
        return LoadError(f"load: {place}: the file ends the program (exit {error.code!r}) as it "
                         f'loads. Put that part under `if __name__ == "__main__":`')
    return LoadError(f"load: {place}: {type(error).__name__}: {error}. The file's own top level "
                     f"fails; correct it and load the file again")
