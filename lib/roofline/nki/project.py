"""What `import` means in a kernel file: this backend for nki, its own files, or the ordinary.

Question  which module does `import nki.isa as nisa` give, and `from .tiles import load_block`?
Answer    Project: the modules of one load, and the `__import__` that they see
Assumes   an installed package that imports nki and no framework holds kernels
Ignores   sys.modules: nothing loaded here is in it
"""

import ast
import builtins
import functools
import importlib
import importlib.util
import linecache
import os
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from ..count import Uncounted
from .core import NkiValidationError

OURS = "roofline"
# The documented namespaces, and what the first holds beside the others.
BACKEND = ("nki", "nki.isa", "nki.language", "nki.collectives", "nki.typing")
TOP = ("jit", "simulate")
# A package with more files than this is not searched for kernels.
LARGE = 400
FRAMEWORKS = ("torch", "torch_xla", "jax")
_IMPORTS_NKI = re.compile(rb"^[ \t]*(?:import|from)[ \t]+nki\b", re.MULTILINE)


class _Removed(NkiValidationError, ImportError):
    """An import that NKI 0.6 refuses; `except ImportError` still catches it."""


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
        self._installed: dict[str, Path] = {}  # kernel packages installed elsewhere
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
        if top not in self.modules and (elsewhere := _kernel_package(name, fromlist or ())):
            self._installed[top] = elsewhere
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
            own = str(error.name).partition(".")[0] == top  # not something that it needs
            if not self._excused(caller) or (own and _installed(top)):
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
        if not parent and child in self._installed:
            self.module(name, self._installed[child])
            return True
        return False

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

    def _nki(self, name: str, fromlist: tuple[str, ...], caller: FrameType) -> Any:
        known = name in BACKEND
        if not fromlist:  # `import nki.isa as nisa` walks the attributes of nki
            return self.nki if known else Namespace("nki", self, (name,))
        module = (self.nki if name == "nki" else backend(name) if known
                  else Namespace(name, self))
        absent = [child for child in fromlist if child != "*"
                  and type(getattr(module, child, None)) in (Absent, type(None))]
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


def _kernel_package(name: str, fromlist: tuple[str, ...]) -> Path | None:
    """The file of an installed package whose part `name` holds kernels; else None.

    Kernels import nki, there or in what they import of the same package. A package that needs a
    framework for it (torch_neuronx, say) is one of the framework's and stays as it is.
    """
    top, *parts = name.split(".")
    if top in sys.stdlib_module_names or top == OURS:
        return None
    spec = _spec(top)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    origin = Path(spec.origin)
    whole = bool(spec.submodule_search_locations)
    if not _searched(origin, whole, origin.stat().st_mtime_ns):
        return None
    dotted = [".".join([top, *parts[:i]]) for i in range(len(parts) + 1)]
    front = [*dotted, *(f"{name}.{child}" for child in fromlist)] if whole else [top]
    met, speaks = set(front), False
    while front:
        file = _module_file(origin, front.pop())
        for imported in _imports(file, origin) if file else ():
            head = imported.partition(".")[0]
            if head in FRAMEWORKS:
                return None
            speaks |= head == "nki"
            if head == top and imported not in met:
                met.add(imported)
                front.append(imported)
    return origin if speaks else None


def _module_file(origin: Path, name: str) -> Path | None:
    """The file of module `name` of the package, or module, at `origin`."""
    parts = name.split(".")[1:]
    if origin.name != "__init__.py":
        return None if parts else origin
    at = origin.parent.joinpath(*parts)
    files = (at / "__init__.py", at.with_name(f"{at.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _imports(file: Path, origin: Path) -> Iterator[str]:
    """What a file of the package imports as it loads, as dotted names."""
    try:
        front: list[ast.AST] = [ast.parse(file.read_bytes())]
    except (SyntaxError, ValueError):
        return
    top = origin.parent.name if origin.name == "__init__.py" else origin.stem
    here = [top, *file.relative_to(origin.parent).with_suffix("").parts][:-1]
    while front:
        node = front.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[:len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            front += ast.iter_child_nodes(node)


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
    return shown(Path(next(iter(getattr(module, "__path__", ())), module.__file__ or "")))


def _missing(top: str, caller: FrameType, error: ImportError) -> Callable[[str], Exception]:
    where = f"{shown(Path(caller.f_code.co_filename))}, line {caller.f_lineno}"
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


def shown(file: Path) -> str:
    """A path as a reader would type it."""
    try:
        return str(file.relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(file)
