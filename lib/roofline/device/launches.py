"""One call of a kernel, written down: enough to count it, to run it and to find it again.

Question  which kernel, on which arrays, with which parameters, on how many cores?
Answer    launch(kernel, *args, lnc=..., **parameters) -> Launch: its key, its count, its inputs
Assumes   nki.load executed the kernel's file; an argument is an array or a (shape, dtype)
Ignores   where it runs, what it gave, and what else its files read: packages, data
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .. import nki
from ..count import Count
from ..nki import dtypes
from ..nki.project import Project, Source
from ..table import Told

OWN = "kernel.py"  # a recording's name of the file in which the kernel stands; of others:
OTHER = re.compile(r"sources/(?:\w{1,80}/){0,4}\w{1,80}\.py", re.ASCII)
PLAIN = (int, float, str, bool, type(None))  # what a parameter may be: JSON holds it


class LaunchError(Told, ValueError):
    """A call that cannot be written down: what, got, next step."""


def key_of(source_sha256: str, name: str, shapes: tuple[tuple[tuple[int, ...], str], ...],
           parameters: Mapping[str, Any], lnc: int, chip: str) -> str:
    """The same for the same source, shapes, parameters, cores and chip, and for no other."""
    said = repr((source_sha256, name, shapes, sorted(parameters.items()), lnc, chip))
    return hashlib.sha256(said.encode()).hexdigest()[:20]


def arrays_text(shapes: Iterable[tuple[Iterable[int], str]]) -> str:
    """"128x2048 bfloat16, ..."."""
    return ", ".join(f"{'x'.join(map(str, shape))} {dtype}" for shape, dtype in shapes)


def partition_bytes(parameters: Mapping[str, Any], dtype: str) -> int | None:
    """Bytes a partition and transfer, of a kernel that moves `elements` of them; else None."""
    elements = parameters.get("elements")
    return elements * dtypes.of(dtype).itemsize if isinstance(elements, int) else None


def source_hash(digests: Mapping[str, str]) -> str:
    """One SHA-256 of those of a kernel's files, by their names in a recording; one file's own."""
    if set(digests) == {OWN}:
        return digests[OWN]
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()


def digests_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of each."""
    return {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}


@dataclass(frozen=True, eq=False)
class Launch:
    """One call of one kernel.

    kernel      as nki.load gave it
    shapes      (shape, dtype) of each array, in the order of the call
    parameters  its other arguments by name, the kernel's defaults among them
    lnc         physical cores: 1 or 2
    given       the names of the parameters that the call spelled out
    arrays      the arrays themselves, or None: then `inputs` draws them
    """

    kernel: Callable
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    parameters: Mapping[str, Any]
    lnc: int
    given: tuple[str, ...] = ()
    arrays: tuple[np.ndarray, ...] | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.kernel, "__name__", "kernel"))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kernel's names of its arrays; fewer where its def line does not name them all."""
        given = inspect.signature(inspect.unwrap(self.kernel)).parameters.values()
        named = [p.name for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return tuple(named[:len(self.shapes)])

    @property
    def title(self) -> str:
        """The name with the parameters that were spelled out: "copy elements=2048"."""
        return " ".join([self.name, *(f"{k}={self.parameters[k]}" for k in self.given)])

    @cached_property
    def file(self) -> Path:
        """Where the kernel's source stands. Raises LaunchError for one typed into a cell."""
        function = inspect.unwrap(self.kernel)
        found = Path(function.__code__.co_filename)
        if not found.is_file():
            raise LaunchError(f"{self.name}: its source is not in a file, and a device run starts "
                              "from one. Write the cell to a file (%%writefile mine.py) and load "
                              'it: nki.load("mine.py")')
        return found

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Every file that nki.load executed for the kernel, as it was then; its own first.

        By its name in a recording: kernel.py, and sources/helper.py of what it imports.
        Raises LaunchError for a kernel that nki.load did not give.
        """
        function = inspect.unwrap(self.kernel)
        project, path = function.__globals__.get("__project__"), Path(function.__code__.co_filename)
        loaded = list(project.sources.values()) if isinstance(project, Project) else []
        own = [one for one in loaded if one.file == path][:1]
        if not own:
            raise LaunchError(f"{self.name}: {self.file.name} was not loaded by nki.load, and only "
                              "that keeps which files a kernel is made of. Load it: kernels = "
                              f'nki.load("{self.file.name}"), then pass kernels.{self.name}')
        found = {OWN: own[0]}
        for one in loaded:
            name = f"sources/{one.module.replace('.', '/')}"
            name += "/__init__.py" if one.file.name == "__init__.py" else ".py"
            if one.file == path:
                continue
            if not OTHER.fullmatch(name):
                raise LaunchError(f"{self.name}: {one.file}: a recording cannot hold it under this "
                                  "name. Rename it: letters of ASCII, digits and _, within at "
                                  "most 4 packages")
            found[name] = one
        return found

    def check(self, when: str = "since it was loaded") -> None:
        """Hold the files to what was loaded: a device would run the files, the count is of that.

        when   when they can have been changed, in words
        Raises LaunchError that names the first one that is another now, or gone.
        """
        for one in self.sources.values():
            try:
                what = "" if one.file.read_bytes() == one.text else "was changed"
            except OSError:
                what = "cannot be read, and was changed"
            if what:
                raise LaunchError(f"{self.name}: {one.file.name} {what} {when}. Load "
                                  f'it again: kernels = nki.load("{self.main.name}"), and make '
                                  "the launch of its kernel")

    @property
    def main(self) -> Path:
        """The file that nki.load was given."""
        project = inspect.unwrap(self.kernel).__globals__.get("__project__")
        return getattr(project, "main", None) or self.file

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """SHA-256 of each of `sources`. Raises LaunchError as `sources` and `check` do."""
        self.check()
        return digests_of({name: one.text for name, one in self.sources.items()})

    @property
    def source_sha256(self) -> str:
        """Of all of them, as they were loaded: a kernel is its file and those that it imports.

        Its file alone is that file's SHA-256. Packages of sys.path are not in it: a recording has
        the versions of those that matter.
        """
        return source_hash(self.digests)

    def key(self, chip: str) -> str:
        """What a recording of it on this chip is found by."""
        return key_of(self.source_sha256, self.name, self.shapes, self.parameters, self.lnc, chip)

    @cached_property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arrays, or standard normal ones of a fixed seed in their dtype: never zeros."""
        if self.arrays is not None:
            return self.arrays
        draw = np.random.default_rng(0)
        return tuple(dtypes.cast(draw.standard_normal(shape, np.float32), dtypes.of(dtype))
                     for shape, dtype in self.shapes)

    def counted(self, chip: str) -> "nki.Run":
        """The kernel run on shapes alone: its trace and count."""
        return nki.run(self.kernel, *self.shapes, target=chip, lnc=self.lnc, data=False,
                       **self.parameters)

    def computed(self, chip: str) -> "nki.Run":
        """The kernel run on its inputs, on NumPy: what the device has to give."""
        return nki.run(self.kernel, *self.inputs, target=chip, lnc=self.lnc, **self.parameters)

    def count(self, chip: str) -> Count:
        return self.counted(chip).count


def launch(kernel: Callable, /, *args: Any, lnc: int | None = None, **parameters: Any) -> Launch:
    """A call of `kernel`, not run yet.

    args        arrays, or (shape, dtype) of each: drawn from a fixed seed when it runs
    lnc         physical cores; follows kernel[2]
    parameters  the kernel's other arguments, by name: numbers, texts, True or False

    Raises LaunchError for a positional argument that is neither, a parameter that JSON cannot hold,
    arguments that the kernel does not take, and an lnc that contradicts kernel[n].
    """
    shapes, arrays = [], []
    for i, arg in enumerate(args):
        is_array = isinstance(arg, np.ndarray)
        if is_array or (isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[0], tuple)):
            shape, dtype = (arg.shape, arg.dtype) if is_array else arg
            try:
                shapes.append((tuple(map(int, shape)), str(dtypes.of(dtype))))
            except (TypeError, ValueError) as error:
                raise LaunchError(f"launch: argument {i}: {error}") from None
            arrays += [arg] * is_array
        else:
            raise LaunchError(f"launch: argument {i}: got {arg!r:.60}; expected an array or a "
                              "(shape, dtype). Pass other arguments by name")
    if arrays and len(arrays) != len(shapes):
        raise LaunchError("launch: some arguments are arrays and some are shapes; give arrays for "
                          "all, or shapes for all")
    for name, value in parameters.items():
        if not isinstance(value, PLAIN):
            raise LaunchError(f"launch: {name}: got {type(value).__name__}; a parameter is a "
                              "number, a text, True, False or None")
    asked = getattr(kernel, "lnc", None)
    if lnc not in (None, 1, 2) or (lnc and asked not in (None, lnc)):
        raise LaunchError(f"launch: lnc={lnc!r} of {kernel!r}; expected 1 or 2 physical cores, and "
                          "no other number than in kernel[n]")
    try:
        bound = inspect.signature(inspect.unwrap(kernel)).bind(*args, **parameters)
    except TypeError as error:
        raise LaunchError(f"launch: {getattr(kernel, '__name__', kernel)}: {error}. Call it as its "
                          "def line says: arrays first, other arguments by name") from None
    bound.apply_defaults()  # a call that spells out a default is the same call
    rest = {name: value for name, value in list(bound.arguments.items())[len(args):]
            if isinstance(value, PLAIN)}
    return Launch(kernel, tuple(shapes), {**rest, **parameters}, int(lnc or asked or 1),
                  tuple(parameters), tuple(arrays) if arrays else None)
