"""Functions that were made with an installed nki, meant for this backend.

Question  a notebook's kernel calls the real `nki`; what would the same kernel do here?
Answer    rebind(kernel): a copy whose names, closures and sub-kernels mean this backend
Assumes   a public name of nki, nki.isa or nki.language leads to each of its objects
Ignores   classes and their instances: load() the file that has some
"""

import sys
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from types import CellType, FunctionType, ModuleType
from typing import Any

from .lint import names
from .project import NAMESPACES, Absent, Project, backend
from .run import Kernel


def rebind(value: Any) -> Any:
    """`value`, meaning this backend wherever it meant an installed `nki`.

    value   a function, an object of the real nki.jit, an argument of a call (a dtype, an enum
            member), or a tuple, list or dict of them

    The functions it calls, their closures, defaults and globals follow; originals stay as they
    are. What refers to no installed nki comes back itself.
    """
    return _Rebinding().value(value) if "nki" in sys.modules else value


def _is_nki(thing: Any) -> bool:
    """Whether the real nki defines it, or what it is an instance of."""
    home = (thing.__name__ if isinstance(thing, ModuleType)
            else thing.__globals__.get("__name__") if isinstance(thing, FunctionType)
            else getattr(thing, "__module__", None) or type(thing).__module__)
    return str(home).partition(".")[0] == "nki"


@lru_cache(maxsize=1)
def _public(*installed: ModuleType) -> dict[int, tuple[str, str]]:
    """id of each object that has a public name -> its namespace and that name."""
    return {id(held): (module.__name__, name) for module in reversed(installed)
            for name, held in vars(module).items() if _is_nki(held)}


class _Rebinding:
    """One call of rebind; `made` has what each thing became, `speaks` which modules name nki."""

    def __init__(self) -> None:
        self.public = _public(*(sys.modules[name] for name in NAMESPACES if name in sys.modules))
        self.project, self.made, self.speaks = Project(), dict[int, Any](), dict[int, bool]()

    def value(self, old: Any) -> Any:
        if id(old) not in self.made:
            self.made[id(old)] = old  # for what holds itself
            self.made[id(old)] = self.new(old)
        return self.made[id(old)]

    def new(self, old: Any) -> Any:
        if type(old) in (tuple, list, dict):
            values = list(old.values() if isinstance(old, dict) else old)
            new = list(map(self.value, values))
            if all(a is b for a, b in zip(values, new, strict=True)):
                return old
            return dict(zip(old, new, strict=True)) if isinstance(old, dict) else type(old)(new)
        if isinstance(old, ModuleType) and (_is_nki(old) or self.names_nki(vars(old))):
            if old.__name__ in NAMESPACES:
                return self.project.nki if old.__name__ == "nki" else backend(old.__name__)
            module = ModuleType(old.__name__)  # one with helpers: each when it is asked for
            vars(module)["__getattr__"] = lambda name: self.value(getattr(old, name))
            return module
        if isinstance(old, Kernel):
            new = self.value(old.function)
            return old if new is old.function else Kernel(new, old.lnc)
        if id(old) in self.public:
            space, name = self.public[id(old)]
            return self.project.named(space, space, name)
        if isinstance(old, Enum) and id(type(old)) in self.public:
            return getattr(self.value(type(old)), old.name)
        if _is_nki(old):
            for held in () if isinstance(old, type) else getattr(old, "__dict__", {}).values():
                if isinstance(held, FunctionType):  # what jit was put on
                    return Kernel(self.value(held))
            path = f"{old.__module__}.{getattr(old, '__name__', type(old).__name__)}"
            return Absent(path, self.project, "nki", "no public name of nki leads to it")
        if isinstance(old, FunctionType) and self.names_nki(old.__globals__):
            return self.function(old)
        return old

    def names_nki(self, names: dict[str, Any]) -> bool:
        """Whether a module has an object of the real nki's among its names."""
        if id(names) not in self.speaks:
            self.speaks[id(names)] = any(map(_is_nki, list(names.values())))
        return self.speaks[id(names)]

    def function(self, old: FunctionType) -> FunctionType:
        inside = old.__globals__ | {"__builtins__": self.project.builtins}
        cells = tuple(CellType() for _ in old.__closure__ or ())
        new = self.made[id(old)] = FunctionType(old.__code__, inside, old.__name__, None, cells)
        vars(new).update(vars(old))
        new.__defaults__ = self.value(old.__defaults__)
        new.__kwdefaults__ = self.value(old.__kwdefaults__)
        for name in names(old.__code__) & old.__globals__.keys() - {"__builtins__"}:
            inside[name] = self.value(inside[name])
        for cell, was in zip(cells, old.__closure__ or (), strict=True):
            with suppress(ValueError):  # not assigned yet
                cell.cell_contents = self.value(was.cell_contents)
        return new
