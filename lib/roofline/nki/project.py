"""What `import` means in a kernel file: this backend for nki, its own files, or the ordinary.

Question  which module does `import nki.isa as nisa` give, and `from .tiles import load_block`?
Answer    Project: the modules of one load, and the `__import__` that they see
Assumes   a file's project lies beside it, in its package, or where it adds to sys.path
Ignores   sys.modules: nothing loaded here stays in it
"""

import builtins
import importlib
import linecache
import sys
from collections.abc import Mapping
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, resolve_name
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, NamedTuple

from ..count import Uncounted
from .core import NkiValidationError
from .surface import stub

OURS = "roofline"
NAMESPACES = ("nki", "nki.isa", "nki.language", "nki.collectives", "nki.typing")
# What `nki` holds for a kernel file; the package of that name here holds more.
TOP = ("jit", "simulate", *(name.partition(".")[2] for name in NAMESPACES[1:]))


class Removed(NkiValidationError, ImportError):
    """An import that NKI 0.6 refuses; `except ImportError` still catches it."""


class Missing(ModuleNotFoundError):
    """An import of what is not here, for a file that expects it; `name` may be made absent."""


class Source(NamedTuple):
    """A file as it was when it was executed; `module`: its dotted name."""

    module: str
    file: Path
    text: bytes


class Project:
    """The modules of one load: what `import` means inside them. Theirs is `__project__`.

    root      folder whose files are the project's
    main      the file that load() was given
    modules   those loaded so far, by dotted name
    sources   the files that load() executed, by path; none that a function imports later
    absent    names that an Absent stands for; the others that are not here raise Missing
    loading   False once load() has returned: from then on calling an Absent raises
    """

    def __init__(self, root: Path | None = None, main: Path | None = None) -> None:
        self.root, self.main, self.path_before = root, main, list(sys.path)
        self.modules: dict[str, ModuleType] = {}
        self.sources: dict[str, Source] = {}
        self.absent: set[str] = set()
        self.loading = root is not None
        self.nki = ModuleType(f"{OURS}.nki")
        vars(self.nki).update({name: getattr(backend("nki"), name) for name in TOP},
                              __getattr__=partial(self.named, "nki", "nki"))
        self.builtins = {**vars(builtins), "__import__": self.import_}

    def import_(self, name: str, globals: Mapping[str, Any] | None = None,
                locals: Mapping[str, Any] | None = None, fromlist: tuple[str, ...] | None = (),
                level: int = 0) -> Any:
        """`__import__` of the project's files."""
        if level:
            name = resolve_name("." * level + name, (globals or {}).get("__package__") or "")
        top, children = name.partition(".")[0], fromlist or ()
        if top == "nki":
            return self._nki(name, children)
        if name.startswith("neuronxcc.nki") or (name == "neuronxcc" and "nki" in children):
            raise Removed(f"import neuronxcc.nki: got {name!r}; an error since Neuron SDK 2.30 "
                          f"(NKI 0.4.0). Write `import nki`, `import nki.isa as nisa` and "
                          f"`import nki.language as nl`; nisa calls take dst first")
        if self.find(name):
            for child in children:
                if child not in vars(self.modules[name]):
                    self.find(f"{name}.{child}")
            return self.modules[name if children else top]
        if top in self.modules:
            raise ModuleNotFoundError(f"no module {name!r} in the file's project", name=name)
        try:
            return builtins.__import__(name, globals, locals, children, 0)
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] in sys.modules:  # `import numpy.nothing`
                raise
            if top not in self.absent:
                raise Missing(str(error), name=top) from None
            why = f"{top} is not usable here: {error}. Install it, or call what needs none of it"
            return Absent(name if children else top, self, why=why)

    def find(self, name: str, inside: bool = False) -> bool:
        """Load `name` if the project has it.

        inside   for a part of the package `name`, whose own __init__.py need not succeed
        """
        if name in self.modules:
            return True
        parent, _, child = name.rpartition(".")
        if parent:
            if not self.find(parent, inside=True):
                return False
            folders = getattr(self.modules[parent], "__path__", [])
        elif self.root is None or child in (OURS, "neuronxcc", *sys.stdlib_module_names):
            return False
        else:
            folders = [str(self.root), *(p for p in sys.path if p not in self.path_before)]
        spec = PathFinder.find_spec(name, folders)
        if spec and not spec.origin and not parent:  # a folder: what is installed comes first
            spec = None if getattr(PathFinder.find_spec(name), "origin", None) else spec
        if spec:
            self.module(spec, inside)
        return spec is not None

    def module(self, spec: ModuleSpec, inside: bool = False) -> ModuleType:
        """The module of a file or folder, executed. Raises what the file raises."""
        made = self.modules[spec.name] = module_from_spec(spec)
        parent, _, child = spec.name.rpartition(".")
        if parent:
            setattr(self.modules[parent], child, made)
        if spec.origin is None:
            return made
        vars(made)["__builtins__"] = self.builtins
        sys.modules.setdefault(spec.name, made)  # dataclass looks its class's module up there
        linecache.checkcache(spec.origin)
        try:
            text = Path(spec.origin).read_bytes()
            vars(made)["__project__"] = self
            if self.loading:
                self.sources[spec.origin] = Source(spec.name, Path(spec.origin), text)
            exec(compile(text, spec.origin, "exec", dont_inherit=True), vars(made))
        except BaseException as error:
            if not (inside and isinstance(error, Exception)):
                del self.modules[spec.name]
                raise
            vars(made)["__getattr__"] = partial(_fails, error)  # what it did not come to define
        finally:
            if sys.modules.get(spec.name) is made:
                del sys.modules[spec.name]
        return made

    def _nki(self, name: str, children: tuple[str, ...]) -> Any:
        """The documented namespace, which stands for its undocumented parts as well."""
        space = name
        while space not in NAMESPACES:
            space = space.rpartition(".")[0]
        found = self.nki if space == "nki" else backend(space)
        unknown = [f"{name}.{child}" for child in children if child != "*"
                   and type(getattr(found, child, None)) in (Absent, NoneType)]
        for dotted in unknown if children or name == space else [name]:
            if dotted not in self.absent:
                raise Missing(f"{dotted} is no documented name of NKI", name=dotted)
        if children:
            return Absent(name, self, space) if unknown else found
        return self.nki  # `import nki.isa as nisa` walks its attributes

    def named(self, space: str, path: str, name: str) -> Any:
        """`name` as a documented namespace has it, or an Absent for path.name."""
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return stub("nki", name) if space == "nki" else getattr(backend(space), name)
        except AttributeError as error:
            return Absent(f"{path}.{name}", self, space, str(error))


def backend(name: str) -> ModuleType:
    """Our module of a documented namespace: "nki", "nki.isa", ..."""
    return importlib.import_module(f"{OURS}.{name}")


def _fails(error: Exception, name: str) -> None:
    raise AttributeError(name) if name.startswith("__") else error


class Absent:
    """Stands for an absent module or name, and for all its names; using it raises.

    While the file loads it may also be subscripted, called and inherited from, so that
    annotations, decorators and classes the kernels never touch stop nothing.

    space   a documented namespace that knows some of the names
    """

    def __init__(self, path: str, project: Project, space: str = "", why: str = "") -> None:
        vars(self).update(_path=path, _project=project, _space=space, _why=why)

    def __repr__(self) -> str:
        return f"<{self._path}, which is absent>"

    def __getattr__(self, name: str) -> Any:
        if self._space:
            return self._project.named(self._space, self._path, name)
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._path}.{name}", self._project, why=self._why)

    def _later(self, *args: object, **kwargs: object) -> "Absent":
        return self if self._project.loading else self._never()

    def _never(self, *args: object, **kwargs: object) -> Any:
        kind = Uncounted if self._space else ModuleNotFoundError
        raise kind(f"{self._path}: {self._why}")

    def __mro_entries__(self, bases: tuple) -> tuple[type]:
        return (type(self._path.rpartition(".")[2], (), {"__init__": self._never}),)

    def __instancecheck__(self, instance: object) -> bool:
        return False

    __call__ = __getitem__ = __or__ = __ror__ = _later
    __bool__ = __iter__ = __len__ = __enter__ = __contains__ = __setattr__ = __setitem__ = _never
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _never
    __rtruediv__ = __neg__ = __lt__ = __gt__ = __int__ = __float__ = __index__ = _never
