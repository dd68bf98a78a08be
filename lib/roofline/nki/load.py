"""Kernel files, executed with `nki` meaning this backend and nothing left behind.

Question  what do the kernels of this file do, whichever `nki` is installed, or none?
Answer    load(path): the file's namespace; rebind(kernel): the same for a function
Assumes   the file's own project lies beside it or in its package
Ignores   what the kernels do: run() counts it, lint reads their Python
"""

import importlib
import os
import sys
from contextlib import suppress
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from ..count import Uncounted
from ..table import Told
from .core import NkiValidationError
from .project import Missing, Project
from .rebind import rebind as rebind


class LoadError(Told, ValueError):
    """A kernel file that cannot be loaded: which, where, why, and what to do."""


def load(path: str | Path) -> ModuleType:
    """Execute a kernel file with `nki` meaning this backend, and return its namespace.

    However the file spells its imports, and whether or not the real `nki` is installed. Files of
    the same project (beside it, in its package) load the same way, once. A framework that is not
    installed stops nothing until it is used: where no `except ImportError` of the files expects
    it, they are executed again with a stand-in. Nothing of it is in sys.modules, and sys.path,
    sys.meta_path, os.environ and builtins are as before. Which files were executed, and their
    bytes, is kept: a device launch is held to them.

    Raises LoadError for a file that is missing, is not Python or fails, with the line where there
    is one; NkiValidationError for an import of neuronxcc.nki.
    """
    file = Path(path).expanduser()
    if not file.is_file() or file.suffix != ".py":
        why = ("it is a folder" if file.is_dir() else "no such file" if not file.exists()
               else f"its name ends in {file.suffix or 'no suffix'!r}")
        raise LoadError(f"load: {path}: {why}; expected a Python file, .py. Relative paths start "
                        f"at {Path.cwd()}; a function needs no file: pass it to nki.run")
    file = file.resolve()
    names, root = [] if file.stem == "__init__" else [file.stem.replace(".", "_")], file.parent
    while (root / "__init__.py").exists() and root.name.isidentifier():
        names.insert(0, root.name)
        root = root.parent
    project = Project(root, file)
    before, finders, environ = list(sys.path), list(sys.meta_path), dict(os.environ)
    importlib.invalidate_caches()  # files may be newer than what it knows of their folders
    try:
        return _executed(project, names, file)
    except (Exception, SystemExit) as error:
        raise _told(error, project, file) from None
    finally:
        project.loading = False
        sys.path[:], sys.meta_path[:] = before, finders
        os.environ.clear()
        os.environ.update(environ)


def _executed(project: Project, names: list[str], file: Path) -> ModuleType:
    spec = spec_from_file_location(".".join(names), file)
    assert spec is not None  # it is, for a .py file
    while True:
        try:
            if names[1:]:
                project.find(".".join(names[:-1]), inside=True)
            return project.modules.get(spec.name) or project.module(spec)
        except Missing as error:  # and none of the files expects that
            project.absent.add(str(error.name))
            project.modules.clear()
            project.sources.clear()


def _told(error: BaseException, project: Project, main: Path) -> BaseException:
    """The error of a load in our form: which file, which line, what."""
    where, line, at = str(main), 0, error.__traceback__
    while at:
        if at.tb_frame.f_builtins is project.builtins:
            where, line = at.tb_frame.f_code.co_filename, at.tb_lineno
        at = at.tb_next
    said, advice = f"{type(error).__name__}: {error}", (
        'The file\'s own top level fails; correct it, or put it under `if __name__ == "__main__":`')
    if isinstance(error, SyntaxError):
        where, line = error.filename or where, error.lineno or 0
        said = f"not Python: {': '.join(filter(None, (error.msg, (error.text or '').strip())))}"
        advice = "Correct it and load the file again"
    with suppress(ValueError):  # as a reader would type it
        where = str(Path(where).relative_to(Path.cwd().resolve()))
    place = f"{where}{f', line {line}' if line else ''}"
    if isinstance(error, NkiValidationError | Uncounted):
        known = Path(where).name in str(error)  # a run inside the file has said its line
        return error if known else type(error)(f"{place}: {error}")
    return LoadError(f"load: {place}: {said}. {advice}")
