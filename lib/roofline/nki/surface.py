"""Which names NKI documents, and which of them this backend counts.

Question  is `nki.isa.rand2` a name of NKI, how is it called, and does it have a rule here?
Answer    documented(): names and signatures; surface(): implemented and missing, by namespace
Assumes   the documentation's own stubs of one NKI version, as `surface.toml` holds them
Ignores   what an argument may be; each instruction checks its own
"""

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from ..count import Uncounted


@dataclass(frozen=True)
class Names:
    """What one namespace, module or class, documents.

    functions   name -> parameters, as text: "dst, min, max, name=None"; a class's methods
    enums       name -> its members and their values
    values      name -> type ("" where none is documented); a class's attributes
    classes     names of its classes; each is a namespace of its own
    """

    functions: Mapping[str, str]
    enums: Mapping[str, Mapping[str, int | str]]
    values: Mapping[str, str]
    classes: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every name but the constructor's: it takes a handle of the backend's own."""
        return tuple(name for name in (*self.functions, *self.enums, *self.values, *self.classes)
                     if name != "__init__")


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("surface.toml").read_text())


@cache
def documented() -> Mapping[str, Names]:
    """Every documented namespace: "nki", "nki.isa", "nki.language.NkiTensor" and the others.

    >>> documented()["nki.isa"].functions["reciprocal"]
    'dst, data, name=None'
    """
    found: dict[str, Names] = {}
    for module in ("nki", "isa", "language", "collectives"):
        table = _table()[module]
        space, classes = "nki" if module == "nki" else f"nki.{module}", table.get("classes", {})
        found[space] = Names(_texts(table), table.get("enums", {}), table.get("values", {}),
                             tuple(classes))
        for name, held in classes.items():
            found[f"{space}.{name}"] = Names(
                _texts(held), {}, dict.fromkeys(held.get("attributes", ()), ""))
    return found


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in table.items() if isinstance(text, str)}


def stub(namespace: str, name: str) -> Any:
    """What stands in for a documented name without a rule: its use raises Uncounted.

    A function has the documented signature (a default of ... is not documented) and refuses when
    it is called, a class when it is built; a constant has nothing to hand out, so it refuses at
    once. Raises AttributeError where NKI documents no such name. A module asks in its hook:

        def __getattr__(name):
            return stub("nki.isa", name)
    """
    names, version = documented()[namespace], _table()["version"]
    if name not in names.functions and name not in names.all:
        near = [] if name.startswith("_") else get_close_matches(name, names.all, n=1)
        raise AttributeError(
            f"{namespace} has no attribute {name!r}; NKI {version} documents none. "
            + (f"Did you mean {near[0]}?" if near else "See the NKI API reference."), name=name)

    def uncounted() -> Uncounted:
        return Uncounted(f"{namespace}.{name}: not counted: NKI {version} documents it, this "
                         f"backend has no rule for it. nki.surface()[{namespace!r}] tells which "
                         f"have one.")

    if name in names.functions:  # as dataclasses do: Python binds the arguments, words TypeErrors
        lines = f"def {name}({names.functions[name]}): raise _uncounted()"
    elif name in names.classes:
        lines = f"class {name}:\n def __init__(self, *args, **kwargs): raise _uncounted()"
    else:
        raise uncounted()
    made = _Scope()
    # The file's name keeps its frame among this package's, so an error names the kernel's line.
    exec(compile(lines, f"{__file__}:{name}", "exec"), {"_uncounted": uncounted}, made)
    found, inside = made[name], namespace.split(".")
    found.__module__, found.__qualname__ = ".".join(inside[:2]), ".".join([*inside[2:], name])
    found.__doc__ = f"Documented in NKI {version}; its use raises Uncounted."
    found.uncounted = True
    return found


class _Scope(dict[str, Any]):
    """What a default may name, such as `engine.unknown`: names of nki.isa and nki.language."""

    def __missing__(self, name: str) -> Any:
        # vars: a module's hook would ask here again
        return (vars(_home("nki.language")) | vars(_home("nki.isa")))[name]


def _home(namespace: str) -> Any:
    """Our module or class of that name; for tile_size, the class of the object."""
    *_, inside = namespace.partition("nki")
    module, _, cls = inside.removeprefix(".").partition(".")
    found = importlib.import_module(f"{__package__}.{module}".rstrip("."))
    held = getattr(found, cls) if cls else found
    return type(held) if cls and not isinstance(held, type) else held


@dataclass(frozen=True)
class Part:
    """One namespace: the documented names that our code defines, and those it does not."""

    namespace: str
    implemented: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def functions(self) -> "Part":
        """The same, of functions and methods alone; enums, dtypes and constants left out."""
        known = documented()[self.namespace].functions
        return Part(self.namespace, *(tuple(n for n in names if n in known)
                                      for names in (self.implemented, self.missing)))

    @property
    def _cell(self) -> str:
        ours, names = len(self.implemented), len(self.implemented) + len(self.missing)
        return f"{ours:3d} of {names:3d} {ours / names:5.0%}" if names else f"{'none':>16}"


class Surface(dict[str, Part]):
    """How much of the documented NKI this backend implements: surface()["nki.isa"].missing."""

    def __missing__(self, namespace: str) -> Part:
        raise KeyError(f"surface: got {namespace!r}; NKI documents {', '.join(self)}")

    def __repr__(self) -> str:
        title = f"NKI {_table()['version']} (Neuron SDK {_table()['sdk']})"
        width = max(map(len, (title, *self)))
        rows = [f"{name:{width}}  {part.functions._cell}   {part._cell}"
                for name, part in self.items()]
        return "\n".join([f"{title:{width}}  {'functions':>16}   {'all names':>16}", *rows])


def surface() -> Surface:
    """What this backend implements of each documented namespace: counts, shares, the missing."""
    found = Surface()
    for space, names in documented().items():
        ours = {name for name in names.all
                if implemented(_home(space), name, called=name in names.functions)}
        if names.all:
            found[space] = Part(space, tuple(n for n in names.all if n in ours),
                                tuple(n for n in names.all if n not in ours))
    return found


def implemented(home: Any, name: str, called: bool = True) -> bool:
    """Whether a module or class of ours defines `name`; a stub, or a borrowed function, is not.

    called   it is a function or method, so code of this package has to stand behind it
    """
    try:
        found = getattr(home, name, None)
    except Uncounted:
        return False
    if isinstance(home, type):  # without what every object has
        return not hasattr(found, "uncounted") and any(
            name in (*vars(cls), *vars(cls).get("__annotations__", ()))
            for cls in home.__mro__[:-1])
    ours = not called or str(getattr(found, "__module__", "")).startswith(str(__package__))
    return found is not None and ours and not hasattr(found, "uncounted")
