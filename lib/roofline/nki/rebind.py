"""Functions that were made with an installed nki, meant for this backend.

Question  a notebook's kernel calls the real `nki`; what would the same kernel do here?
Answer    rebind(kernel): a copy whose names, closures and sub-kernels mean this backend
Assumes   a public name of nki, nki.isa or nki.language leads to each of its objects
Ignores   code that speaks of no installed nki: it comes back itself
"""

import copy
import functools
import sys
import sysconfig
from collections.abc import Callable, Iterator
from enum import Enum, EnumMeta
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .core import NkiValidationError
from .project import BACKEND, OURS, Namespace, Project, backend


def rebind(kernel: Any) -> Any:
    """`kernel`, meaning this backend wherever it meant an installed `nki`.

    kernel   a function, an object of the real nki.jit, or an argument of a call (a dtype, an
             enum member, a class of constants)

    The functions it calls, their closures, defaults and globals follow; originals stay as they
    are. What refers to no installed nki comes back itself.
    """
    return _Rebinding().value(kernel) if "nki" in sys.modules else kernel


# Where libraries are installed; code elsewhere is the reader's.
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
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
        self.named: dict[int, bool] = {}  # id of a library module's names -> is nki among them
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
        """Whether code of that module may speak of nki: in a library, its module must name it."""
        module = thing.__name__ if isinstance(thing, ModuleType) else getattr(
            thing, "__module__", None)
        head = str(module).partition(".")[0]
        if head == "__main__" or head in (OURS, *sys.stdlib_module_names):
            return head == "__main__"
        if isinstance(thing, FunctionType):
            file, inside = thing.__code__.co_filename, thing.__globals__
        else:
            home = thing if isinstance(thing, ModuleType) else sys.modules.get(str(module))
            file, inside = str(getattr(home, "__file__", None) or ""), vars(home) if home else {}
        if not file.startswith(_LIBRARIES):
            return True
        if id(inside) not in self.named:
            self.named[id(inside)] = any(id(value) in self.real for value in inside.values())
        return self.named[id(inside)]

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
