"""Which names NKI documents, and which of them this backend counts.

Question  is `nki.isa.rand2` a name of NKI, how is it called, and does it have a rule here?
Answer    documented(): names and signatures; surface(): implemented and missing, by namespace
Assumes   the documentation's own stubs of one NKI version, as `surface.toml` holds them
Ignores   what an argument may be; each instruction checks its own
"""

import importlib
import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..count import Uncounted

SUBMODULES = ("isa", "language", "collectives")
_NEXT = {
    "nki.collectives": "Bytes between ranks are no part of one core's count: count the kernel "
                       "without them",
    "nki.language.NkiTensor": "Use another view of the tensor",
}
_ELSE = "Use one that is counted: nki.surface()[{!r}].implemented"


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
    for module in ("", *SUBMODULES):
        table = _table()[module or "nki"]
        namespace = f"nki.{module}" if module else "nki"
        classes = table.get("classes", {})
        found[namespace] = Names(_texts(table), table.get("enums", {}), table.get("values", {}),
                                 tuple(classes))
        for name, members in classes.items():
            attributes = dict.fromkeys(members.get("attributes", ()), "")
            found[f"{namespace}.{name}"] = Names(_texts(members), {}, attributes)
    return found


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in table.items() if isinstance(text, str)}


def stub(namespace: str, name: str) -> Any:
    """What stands in for a documented name without a rule: its use raises Uncounted.

    A function has the documented signature and refuses when it is called, a class when it is
    built; a constant has nothing to hand out, so it refuses at once.

    Raises AttributeError where NKI documents no such name. A module asks in its hook:

        def __getattr__(name):
            return stub("nki.isa", name)
    """
    names = documented()[namespace]
    if name not in names.functions and name not in names.all:
        raise AttributeError(_unknown(namespace, name, names), name=name)
    version = _table()["version"]
    hint = _NEXT.get(namespace, _ELSE.format(namespace))

    def uncounted() -> Uncounted:
        return Uncounted(f"{namespace}.{name}: not counted: NKI {version} documents it, this "
                         f"backend has no rule for it. {hint}.")

    made = _Scope()
    if name in names.functions:  # as dataclasses do: Python binds the arguments, words TypeErrors
        lines = f"def {name}({names.functions[name]}): raise _uncounted()"
    elif name in names.classes:
        lines = f"class {name}:\n def __init__(self, *args, **kwargs): raise _uncounted()"
    else:
        raise uncounted()
    # The file's name keeps its frame among this package's, so an error names the kernel's line.
    exec(compile(lines, f"{__file__}:{name}", "exec"), {"_uncounted": uncounted}, made)
    found = made[name]
    inside = namespace.split(".")
    found.__module__ = ".".join(inside[:2])
    found.__qualname__ = ".".join([*inside[2:], name])
    found.__doc__ = f"Documented in NKI {version}; its use raises Uncounted."
    found.uncounted = True
    return found


def signature(namespace: str, name: str) -> inspect.Signature:
    """The documented signature, without annotations; a default of ... is not documented.

    >>> signature("nki.language", "softmax")
    <Signature (x, axis=-1, dtype=None)>
    """
    return inspect.signature(stub(namespace, name))


class _Scope(dict[str, Any]):
    """What a default may name, such as `engine.unknown`: names of nki.isa and nki.language."""

    def __missing__(self, name: str) -> Any:
        for namespace in ("nki.isa", "nki.language"):
            home = vars(_home(namespace))  # vars: a module's hook would ask here again
            if name in home:
                return home[name]
        raise KeyError(name)


def _unknown(namespace: str, name: str, names: Names) -> str:
    said = f"{namespace} has no attribute {name!r}"
    if name.startswith("_"):
        return said
    import difflib

    near = difflib.get_close_matches(name, names.all, n=1)
    return (f"{said}; NKI {_table()['version']} documents none. "
            + (f"Did you mean {near[0]}?" if near else "Look it up in the NKI API reference."))


def _home(namespace: str) -> Any:
    """Our module or class of that name; for tile_size, the class of the object."""
    module, _, cls = namespace.removeprefix("nki").removeprefix(".").partition(".")
    found = importlib.import_module(f"{__package__}.{module}" if module else str(__package__))
    if cls:
        found = getattr(found, cls)
        return found if isinstance(found, type) else type(found)
    return found


@dataclass(frozen=True)
class Part:
    """One namespace: the documented names that our code defines, and those it does not."""

    namespace: str
    implemented: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def documented(self) -> int:
        """How many names."""
        return len(self.implemented) + len(self.missing)

    @property
    def share(self) -> float:
        """Implemented over documented, 0 to 1."""
        return len(self.implemented) / self.documented

    @property
    def functions(self) -> "Part":
        """The same, of functions and methods alone; enums, dtypes and constants left out."""
        known = documented()[self.namespace].functions
        return Part(self.namespace, tuple(n for n in self.implemented if n in known),
                    tuple(n for n in self.missing if n in known))


@dataclass(frozen=True, repr=False)
class Surface:
    """How much of the documented NKI this backend implements, one Part a namespace."""

    parts: tuple[Part, ...]

    def __getitem__(self, namespace: str) -> Part:
        """The Part of "nki.isa", say. Raises KeyError for a namespace NKI does not have."""
        for part in self.parts:
            if part.namespace == namespace:
                return part
        raise KeyError(f"surface: got {namespace!r}; NKI documents "
                       f"{', '.join(part.namespace for part in self.parts)}")

    def __repr__(self) -> str:
        title = f"NKI {_table()['version']} (Neuron SDK {_table()['sdk']})"
        width = max(len(title), *(len(part.namespace) for part in self.parts))
        lines = [f"{title:{width}}  {'functions':>16}   {'all names':>16}"]
        for part in self.parts:
            cells = [f"{len(p.implemented):3d} of {p.documented:3d} {p.share:5.0%}"
                     if p.documented else f"{'none':>16}" for p in (part.functions, part)]
            lines.append(f"{part.namespace:{width}}  {'   '.join(cells)}".rstrip())
        return "\n".join(lines)


def surface() -> Surface:
    """What this backend implements of each documented namespace: counts, shares, the missing."""
    parts = []
    for namespace, names in documented().items():
        if names.all:
            home = _home(namespace)
            ours = tuple(name for name in names.all
                         if implemented(home, name, called=name in names.functions))
            parts.append(Part(namespace, ours, tuple(n for n in names.all if n not in ours)))
    return Surface(tuple(parts))


def implemented(home: Any, name: str, called: bool = True) -> bool:
    """Whether a module or class of ours defines `name`; a stub, or a borrowed function, is not.

    called   it is a function or method, so code of this package has to stand behind it
    """
    if isinstance(home, type):
        names = {n for cls in home.__mro__[:-1] for n in (*vars(cls), *_annotated(cls))}
        return name in names and not hasattr(getattr(home, name, None), "uncounted")
    try:
        found = getattr(home, name, None)
    except Uncounted:
        return False
    borrowed = called and not str(getattr(found, "__module__", "")).startswith(str(__package__))
    return found is not None and not borrowed and not hasattr(found, "uncounted")


def _annotated(cls: type) -> Mapping[str, Any]:
    return vars(cls).get("__annotations__", {})
