"""Kernel code that says `import nki`, run on this backend, with nothing left behind.

Question  which `nki` does a kernel file, or a function made with the real one, call?
Answer    load(path): the file's namespace, on ours; rebind(kernel): the same for a function
Assumes   a file's own project is what lies beside it or in its package; the rest is installed
Ignores   what the kernel does: run() counts it, lint reads its Python
"""

import ast
import builtins
import copy
import functools
import importlib
import importlib.util
import linecache
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, EnumMeta
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from ..count import Uncounted
from .core import NkiValidationError

OURS = "roofline"
# The documented namespaces, and what the first holds beside the others.
BACKEND = ("nki", "nki.isa", "nki.language", "nki.collectives", "nki.typing")
TOP = ("jit", "simulate")
# A package with more files than this is a framework and is not searched for kernels.
LARGE = 400
_IMPORTS_NKI = re.compile(rb"^[ \t]*(?:import|from)[ \t]+nki\b", re.MULTILINE)


class LoadError(ValueError):
    """A kernel file that cannot be loaded: which, where, why, and what to do."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class _Removed(NkiValidationError, ImportError):
    """An import that NKI 0.6 refuses; `except ImportError` still catches it."""


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
    place = f"{_shown(where)}{f', line {line}' if line else ''}"
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


def _shown(file: Path) -> str:
    """A path as a reader would type it."""
    try:
        return str(file.relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(file)


class Project:
    """The modules of one load: what `import` means inside them.

    roots     folders whose files are the project's
    modules   those loaded so far, by dotted name; nothing of it is in sys.modules
    files     their paths, and the lines whose ImportError the file itself catches
    loading   False once load() has returned: from then on a missing framework raises
    """

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots
        self.modules: dict[str, ModuleType] = {}
        self.files: dict[str, frozenset[int]] = {}
        self.path_before = list(sys.path)
        self.loading = True
        self.nki = Namespace("nki", self)
        self._speaks: dict[str, Path | None] = {}
        self._failed: dict[str, Exception] = {}  # packages whose __init__.py did not run
        self.builtins = {**vars(builtins), "__import__": self.import_}

    def module(self, name: str, file: Path) -> ModuleType:
        """The module `name`, executed from `file` unless it is here already."""
        parent, _, child = name.rpartition(".")
        if parent:
            self._package(parent)
        if name in self.modules:
            return self.modules[name]
        made = ModuleType(name)
        package = file.name == "__init__.py"
        made.__file__ = str(file)
        made.__package__ = name if package else parent
        made.__spec__ = ModuleSpec(name, None, origin=str(file), is_package=package)
        if package:
            made.__path__ = [str(file.parent)]
        made.__dict__["__builtins__"] = self.builtins
        self.modules[name] = made
        if parent:
            setattr(self.modules[parent], child, made)
        sys.modules.setdefault(name, made)  # dataclass looks its class's module up there
        try:
            exec(self._code(file), made.__dict__)
        except BaseException:
            self.modules.pop(name, None)
            raise
        finally:
            if sys.modules.get(name) is made:
                del sys.modules[name]
        return made

    def _code(self, file: Path) -> CodeType:
        name = str(file)
        self.files[name] = frozenset()
        linecache.checkcache(name)
        with tokenize.open(file) as source:
            text = source.read()
        try:
            tree = ast.parse(text, name)
        except ValueError as error:  # null bytes, before Python 3.12
            raise SyntaxError(str(error), (name, None, None, None)) from None
        self.files[name] = frozenset(_guarded(tree))
        return compile(tree, name, "exec", dont_inherit=True)

    def import_(self, name: str, globals: Mapping[str, Any] | None = None,
                locals: Mapping[str, Any] | None = None, fromlist: tuple[str, ...] | None = (),
                level: int = 0) -> Any:
        """`__import__` of the project's files."""
        if level:
            name = self._absolute(name, globals or {}, level)
        top = name.partition(".")[0]
        if top == "nki":
            return self._nki(name, fromlist or (), sys._getframe(1))
        if name.startswith("neuronxcc.nki") or (name == "neuronxcc" and "nki" in (fromlist or ())):
            raise _Removed(f"import neuronxcc.nki: got {name!r}; an error since Neuron SDK 2.30 "
                           f"(NKI 0.4.0). Write `import nki`, `import nki.isa as nisa` and "
                           f"`import nki.language as nl`; nisa calls take dst first")
        if self._find(name):
            if not fromlist:
                return self.modules[top]
            module = self.modules[name]
            for child in fromlist:
                if (child != "*" and not hasattr(module, child)
                        and not self._find(f"{name}.{child}") and name in self._failed):
                    raise self._failed[name]
            return module
        if top in self.modules:
            home = _home(self.modules[top])
            raise ModuleNotFoundError(f"no module {name!r} in {home}", name=name)
        try:
            found = builtins.__import__(name, globals, locals, fromlist or (), 0)
        except ImportError as error:
            caller = sys._getframe(1)
            if not self._excused(caller) or _installed(top):
                raise
            return Absent(name if fromlist else top, self, _missing(top, caller, error))
        return self._importlib() if found is importlib else found

    def import_module(self, name: str, package: str | None = None) -> Any:
        """`importlib.import_module` of the project's files."""
        if name.startswith("."):
            name = importlib.util.resolve_name(name, package)
        self.import_(name, fromlist=())
        module: Any = self.import_(name, fromlist=("__name__",))
        return module

    def _importlib(self) -> ModuleType:
        shim = ModuleType("importlib")
        shim.__dict__.update(vars(importlib), import_module=self.import_module)
        return shim

    def _absolute(self, name: str, inside: Mapping[str, Any], level: int) -> str:
        package = inside.get("__package__") or ""
        base = package.split(".")[:len(package.split(".")) - level + 1]
        if not package or not base:
            raise ImportError(f"from {'.' * level}{name}: the file is in no package that deep; "
                              f"a package's folder holds an __init__.py")
        return ".".join([*base, *([name] if name else [])])

    def _find(self, name: str) -> bool:
        """Load `name` if the project has it."""
        if name in self.modules:
            return True
        parent, _, child = name.rpartition(".")
        if parent:
            if not self._package(parent):
                return False
            folders = [Path(p) for p in getattr(self.modules[parent], "__path__", ())]
        else:
            if child in sys.stdlib_module_names or child in (OURS, "neuronxcc"):
                return False
            added = [Path(p).resolve() for p in sys.path if p not in self.path_before]
            folders = [*self.roots, *added]
        for folder in folders:
            for file in (folder / child / "__init__.py", folder / f"{child}.py"):
                if file.is_file():
                    self.module(name, file)
                    return True
        for folder in folders:  # a folder without __init__.py comes after everything else
            if any((folder / child).glob("*.py")) and (parent or not _installed(child)):
                self._plain(name, folder / child)
                return True
        elsewhere = None if parent else self._speaks_nki(child)
        if elsewhere:
            self.module(name, elsewhere)
        return bool(elsewhere)

    def _package(self, name: str) -> bool:
        """Load the package `name` for what lies in it; its own __init__.py need not succeed."""
        try:
            return self._find(name)
        except Exception as error:
            parent, _, child = name.rpartition(".")
            folders = self.modules[parent].__path__ if parent else self.roots
            inside = [Path(folder) / child for folder in folders if (Path(folder) / child).is_dir()]
            if not inside:
                raise
            self._failed[name] = error
            self._plain(name, inside[0])
            return True

    def _plain(self, name: str, folder: Path) -> None:
        made = ModuleType(name)
        made.__path__ = [str(folder)]
        made.__package__ = name
        self.modules[name] = made
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(self.modules[parent], child, made)

    def _speaks_nki(self, top: str) -> Path | None:
        """The file of an installed module or package that imports nki somewhere; else None."""
        if top not in self._speaks:
            self._speaks[top] = _speaks_nki(top)
        return self._speaks[top]

    def _nki(self, name: str, fromlist: tuple[str, ...], caller: FrameType) -> Any:
        known = name in BACKEND
        if not fromlist:  # `import nki.isa as nisa` walks the attributes of nki
            return self.nki if known else Namespace("nki", self, (name,))
        module = (self.nki if name == "nki" else backend(name) if known
                  else Namespace(name, self))
        absent = [child for child in fromlist if child != "*" and not hasattr(module, child)]
        if not absent:
            return module
        if caller.f_lineno in self.files.get(caller.f_code.co_filename, ()):
            raise ImportError(f"cannot import name {absent[0]!r} from {name!r}")
        return Namespace(name, self, tuple(f"{name}.{child}" for child in absent))

    def _excused(self, frame: FrameType) -> bool:
        """Whether an absent module may wait: a file's top level, where no `except` expects it."""
        code = frame.f_code
        return (self.loading and code.co_name == "<module>" and code.co_filename in self.files
                and frame.f_lineno not in self.files[code.co_filename])


def backend(name: str) -> ModuleType:
    """Our module of a documented namespace: "nki", "nki.isa", ..."""
    return importlib.import_module(f"{OURS}.{name}")


class Namespace(ModuleType):
    """`nki` as a kernel file sees it, or a part of it that no document names.

    nki holds what is documented. An undocumented part, as `nki.isa.constants`, has its parent's
    names. Any other name may be written down, in an annotation say; using it raises Uncounted.
    """

    def __init__(self, name: str, project: Project, asked: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self._project, self._asked = project, asked

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        dotted = f"{self.__name__}.{name}"
        if any(f"{asked}.".startswith(f"{dotted}.") for asked in self._asked):
            return Namespace(dotted, self._project, self._asked)
        if dotted in BACKEND:
            return backend(dotted)
        known = self._known
        if known != "nki" or name in TOP:
            try:
                return getattr(backend(known), name)
            except AttributeError:
                pass
        return Absent(dotted, self._project, self._uncounted)

    def __call__(self, *args: object, **kwargs: object) -> None:
        raise self._uncounted(self.__name__)

    @property
    def _known(self) -> str:
        known = self.__name__
        while known not in BACKEND:
            known = known.rpartition(".")[0]
        return known

    def _uncounted(self, used: str) -> Exception:
        try:
            getattr(backend(self._known), used.rpartition(".")[2])
        except AttributeError as error:
            if self._known != "nki":
                return Uncounted(f"{used}: {error}")
        return Uncounted(f"{used}: no documented name of NKI 0.6, and none this backend counts. "
                         f"Use nki.jit, nki.isa and nki.language")


def _guarded(tree: ast.Module) -> Iterator[int]:
    """Lines of the imports that stand under `try` or `suppress` for an ImportError."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            caught = " ".join(ast.unparse(handler.type) if handler.type else "Exception"
                              for handler in node.handlers)
        elif isinstance(node, ast.With):
            caught = " ".join(ast.unparse(item) for item in node.items
                              if "suppress" in ast.unparse(item))
        else:
            continue
        if re.search(r"ImportError|ModuleNotFoundError|Exception\b", caught):
            for statement in node.body:
                for inner in ast.walk(statement):
                    if isinstance(inner, ast.Import | ast.ImportFrom):
                        yield from range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)


def _spec(top: str) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(top)
    except (ImportError, ValueError):
        return None


def _installed(top: str) -> bool:
    """Whether the ordinary import would find a module or a regular package of that name."""
    spec = _spec(top)
    return top in sys.builtin_module_names or (spec is not None and spec.origin is not None)


def _speaks_nki(top: str) -> Path | None:
    spec = _spec(top)
    if (spec is None or not spec.origin or not spec.origin.endswith(".py")
            or top in sys.stdlib_module_names or top == OURS):
        return None
    origin = Path(spec.origin)
    whole = bool(spec.submodule_search_locations)
    return origin if _searched(origin, whole, origin.stat().st_mtime_ns) else None


@functools.lru_cache
def _searched(origin: Path, whole: bool, changed: int) -> bool:
    """Whether a module, or any file of a package that is no framework, imports nki."""
    files = [] if whole else [origin]
    for folder, _, names in os.walk(origin.parent) if whole else ():
        files += [Path(folder, name) for name in names if name.endswith(".py")]
        if len(files) > LARGE:
            return False
    return any(_IMPORTS_NKI.search(file.read_bytes()) for file in files)


def _home(module: ModuleType) -> str:
    return _shown(Path(next(iter(getattr(module, "__path__", ())), module.__file__ or "")))


def _missing(top: str, caller: FrameType, error: ImportError) -> Callable[[str], Exception]:
    where = f"{_shown(Path(caller.f_code.co_filename))}, line {caller.f_lineno}"
    return lambda used: ModuleNotFoundError(
        f"{used}: {top} is not usable here ({error}; {where} imports it). Install it, or call "
        f"a kernel that does not need it", name=top)


class Absent:
    """Stands where an absent module was imported, and for all its names.

    While the file loads it may be named, subscripted, called and inherited from, so that
    annotations, decorators and classes the kernels never touch stop nothing. Any other use, and
    any use later, raises.
    """

    _path: str
    _project: Project
    _error: Callable[[str], Exception]

    def __init__(self, path: str, project: Project, error: Callable[[str], Exception]) -> None:
        self.__dict__.update(_path=path, _project=project, _error=error)

    def __repr__(self) -> str:
        return f"<{self._path}, which is absent>"

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._path}.{name}", self._project, self._error)

    def _later(self, *args: object, **kwargs: object) -> "Absent":
        if not self._project.loading:
            raise self._error(self._path)
        return self

    def _never(self, *args: object, **kwargs: object) -> Any:
        raise self._error(self._path)

    def __mro_entries__(self, bases: tuple) -> tuple[type]:
        return (type(self._path.rpartition(".")[2], (), {"__init__": self._never}),)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    __call__ = __getitem__ = __or__ = __ror__ = _later
    __bool__ = __iter__ = __len__ = __enter__ = __contains__ = __setattr__ = __setitem__ = _never
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _never
    __rtruediv__ = __neg__ = __lt__ = __gt__ = __int__ = __float__ = __index__ = _never


def rebind(kernel: Any) -> Any:
    """`kernel`, meaning this backend wherever it meant an installed `nki`.

    kernel   a function, an object of the real nki.jit, or an argument of a call (a dtype, an
             enum member, a class of constants)

    The functions it calls, their closures, defaults and globals follow; originals stay as they
    are. What refers to no installed nki comes back itself.
    """
    return _Rebinding().value(kernel) if "nki" in sys.modules else kernel


# Where a jit object may keep the function it was made from.
_INNER = ("__wrapped__", "func", "fn", "_func", "_fn", "function", "kernel", "f")


def _inner(made: object) -> FunctionType | None:
    """The function inside a decorated object."""
    if isinstance(made, FunctionType | ModuleType | type):
        return None
    held = getattr(made, "__dict__", {})
    for value in (*(held.get(name, getattr(made, name, None)) for name in _INNER),
                  *held.values()):
        if isinstance(value, FunctionType):
            return value
    return None


def _head(value: object) -> str:
    """The top-level package that a value, or its type, was defined in."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0]


class _Rebinding:
    """One call of rebind: what was found, what was made.

    real     id of each object of the installed nki -> its dotted name
    edges    id of each thing reached -> ids of what it refers to
    """

    def __init__(self) -> None:
        self.project = Project([])
        self.project.loading = False
        self.real: dict[int, str] = {}
        self.reached: dict[int, Any] = {}
        self.edges: dict[int, set[int]] = {}
        self.touched: set[int] = set()
        self.made: dict[int, Any] = {}
        self.todo: list[Callable[[], None]] = []
        names = [n for n in sys.modules if n == "nki" or n.startswith("nki.")]
        for name in sorted(names, key=lambda n: (n not in BACKEND, n)):
            module = sys.modules[name]
            self.real[id(module)] = name
            for key, held in list(vars(module).items()):
                if _head(held) == "nki" and not isinstance(held, ModuleType):
                    self.real.setdefault(id(held), f"{name}.{key}")

    def value(self, root: Any) -> Any:
        self._reach(root)
        meant = {i for i, thing in self.reached.items() if self._is_real(thing)}
        into: dict[int, set[int]] = {}
        for parent, children in self.edges.items():
            for child in children:
                into.setdefault(child, set()).add(parent)
        front = list(meant)
        while front:
            new = into.get(front.pop(), set()) - meant
            meant |= new
            front += new
        self.touched = meant
        copied = self._copy(root)
        while self.todo:
            self.todo.pop()()
        return copied

    def _is_real(self, thing: Any) -> bool:
        return id(thing) in self.real or type(thing).__module__.partition(".")[0] == "nki"

    # What refers to what.

    def _reach(self, root: Any) -> None:
        front = [root]
        while front:
            thing = front.pop()
            if id(thing) in self.reached:
                continue
            self.reached[id(thing)] = thing
            children = list(self._children(thing))
            self.edges.setdefault(id(thing), set()).update(map(id, children))
            front += children

    def _children(self, thing: Any) -> Iterator[Any]:
        if isinstance(thing, FunctionType):
            if not self._ours(thing):
                return
            names = _names(thing.__code__)
            for name in names & thing.__globals__.keys():
                held = thing.__globals__[name]
                yield held
                if isinstance(held, ModuleType) and not self._is_real(held) and self._ours(held):
                    inside = [vars(held)[n] for n in names & vars(held).keys()]
                    self.edges.setdefault(id(held), set()).update(map(id, inside))
                    yield from inside
            for cell in thing.__closure__ or ():
                yield from _content(cell)
            yield from thing.__defaults__ or ()
            yield from (thing.__kwdefaults__ or {}).values()
        elif self._is_real(thing):
            yield from [inner] if (inner := _inner(thing)) else []
        elif isinstance(thing, type):
            if self._ours(thing):
                yield from thing.__bases__
                yield from vars(thing).values()
        elif isinstance(thing, staticmethod | classmethod):
            yield thing.__func__
        elif isinstance(thing, property):
            yield from (thing.fget, thing.fset, thing.fdel)
        elif isinstance(thing, MethodType):
            yield from (thing.__func__, thing.__self__)
        elif isinstance(thing, functools.partial):
            yield from (thing.func, *thing.args, *thing.keywords.values())
        elif type(thing) is dict:
            yield from thing.values()
        elif type(thing) in (list, tuple):
            yield from thing
        elif not isinstance(thing, ModuleType):
            inner = _inner(thing) if callable(thing) else None
            yield from [inner] if inner else []
            if self._ours(type(thing)) and hasattr(thing, "__dict__"):
                yield from (type(thing), *vars(thing).values())

    def _ours(self, thing: Any) -> bool:
        """Whether code of that module may speak of nki: not a framework's, not the library's."""
        head = (thing.__name__ if isinstance(thing, ModuleType)
                else getattr(thing, "__module__", None) or "").partition(".")[0]
        if head == "__main__":
            return True
        return head not in (OURS, *sys.stdlib_module_names) and (not _installed(head)
                                 or self.project._speaks_nki(head) is not None)

    # The copies.

    def _copy(self, thing: Any) -> Any:
        if id(thing) not in self.touched:
            return thing
        if id(thing) not in self.made:
            self.made[id(thing)] = self._new(thing)
        return self.made[id(thing)]

    def _new(self, thing: Any) -> Any:
        if id(thing) in self.real and not _inner(thing):
            return self._named(self.real[id(thing)])
        if isinstance(thing, Enum) and id(type(thing)) in self.real:
            return getattr(self._named(self.real[id(type(thing))]), thing.name)
        if isinstance(thing, FunctionType):
            return self._function(thing)
        if isinstance(thing, type):
            return thing if isinstance(thing, EnumMeta) else self._class(thing)
        if isinstance(thing, ModuleType):
            return self._module(thing)
        if isinstance(thing, staticmethod | classmethod):
            return type(thing)(self._copy(thing.__func__))
        if isinstance(thing, property):
            get, put, drop = map(self._copy, (thing.fget, thing.fset, thing.fdel))
            return property(get, put, drop, thing.__doc__)
        if isinstance(thing, MethodType):
            return MethodType(self._copy(thing.__func__), self._copy(thing.__self__))
        if isinstance(thing, functools.partial):
            return functools.partial(
                self._copy(thing.func), *map(self._copy, thing.args),
                **{key: self._copy(value) for key, value in thing.keywords.items()})
        if type(thing) in (dict, list, tuple):
            return self._container(thing)
        inner = _inner(thing)
        if inner and (self._is_real(thing) or _head(type(thing)) == OURS):
            return backend("nki").jit(self._copy(inner))
        if inner and type(thing).__module__ == "functools":  # lru_cache
            return self._copy(inner)
        if self._is_real(thing):
            raise NkiValidationError(
                f"rebind: got {thing!r} of the installed nki; no public name of nki, nki.isa or "
                f"nki.language leads to it. Refer to it by a documented name")
        return self._instance(thing)

    def _named(self, dotted: str) -> Any:
        if dotted == "nki":
            return self.project.nki
        if dotted in BACKEND:
            return backend(dotted)
        module, _, name = dotted.rpartition(".")
        return getattr(Namespace(module, self.project), name)

    def _globals(self, old: dict[str, Any]) -> dict[str, Any]:
        if id(old) not in self.made:
            self.made[id(old)] = {**old, "__builtins__": self.project.builtins}
            self.reached[id(old)] = old  # keeps the id taken
        return self.made[id(old)]

    def _function(self, old: FunctionType) -> FunctionType:
        inside = self._globals(old.__globals__)
        cells = tuple(map(self._cell, old.__closure__ or ()))
        new = FunctionType(old.__code__, inside, old.__name__, None, cells)
        new.__dict__.update(old.__dict__)
        new.__doc__, new.__qualname__, new.__module__ = (
            old.__doc__, old.__qualname__, old.__module__)
        new.__annotations__ = dict(old.__annotations__)

        def fill() -> None:
            for name in _names(old.__code__) & old.__globals__.keys():
                inside[name] = self._copy(old.__globals__[name])
            if old.__defaults__:
                new.__defaults__ = tuple(map(self._copy, old.__defaults__))
            if old.__kwdefaults__:
                new.__kwdefaults__ = {key: self._copy(value)
                                      for key, value in old.__kwdefaults__.items()}

        self.todo.append(fill)
        return new

    def _cell(self, old: CellType) -> CellType:
        if id(old) not in self.made:
            new = self.made[id(old)] = CellType()
            self.reached[id(old)] = old

            def fill() -> None:
                for content in _content(old):
                    new.cell_contents = self._copy(content)

            self.todo.append(fill)
        return self.made[id(old)]

    def _class(self, old: type) -> type:
        held = {key: value for key, value in vars(old).items()
                if key not in ("__dict__", "__weakref__")}
        bases = tuple(map(self._copy, old.__bases__))
        kind = type(old) if _head(type(old)) != "nki" else type(bases[0])
        new = kind(old.__name__, bases, held)

        def fill() -> None:
            for key, value in held.items():
                if id(value) in self.touched:
                    setattr(new, key, self._copy(value))

        self.todo.append(fill)
        return new

    def _module(self, old: ModuleType) -> ModuleType:
        new = ModuleType(old.__name__)
        new.__dict__.update(vars(old))

        def fill() -> None:
            for key, value in vars(old).items():
                if id(value) in self.touched:
                    setattr(new, key, self._copy(value))

        self.todo.append(fill)
        return new

    def _container(self, old: Any) -> Any:
        if isinstance(old, tuple):
            return tuple(map(self._copy, old))
        new: Any = type(old)()
        self.made[id(old)] = new
        if isinstance(old, dict):
            new.update((key, self._copy(value)) for key, value in old.items())
        else:
            new.extend(map(self._copy, old))
        return new

    def _instance(self, old: Any) -> Any:
        new = copy.copy(old)
        kind = self._copy(type(old))
        if kind is not type(old):
            object.__setattr__(new, "__class__", kind)

        def fill() -> None:
            for key, value in vars(old).items():
                if id(value) in self.touched:
                    object.__setattr__(new, key, self._copy(value))

        self.todo.append(fill)
        return new


def _names(code: CodeType) -> set[str]:
    """Every global and attribute a function's code names, its inner functions' too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _content(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not assigned yet
        return []
