"""A kernel's count while its settings move: counted ahead for a page, and anew by a live kernel.

Question  a tile, a block or the order of the loops changes: which way does Q go, what is refused?
Answer    recount(kernels, "K M", "K N", M=2048, ..., rows=[128, 256]) -> Recount: asks first, then
          moves among the settings counted here; in JupyterLab the kernel counts any, from the
          file as it is saved
Assumes   counts on shapes alone; what T_best says is the chip's two roofs
Ignores   the notebook's own names: a module it has loaded stays what it was
"""

import inspect
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from .. import machine, units
from ..machine import Machine
from .live import Live, stable_id

MOST = 2**20  # of a number that is typed; recount.mjs has it too
SETTINGS = 64  # counted ahead, at most: each costs the page some 300 bytes
MISSING = ("Any setting could be counted here: install anywidget into this kernel's environment, "
           "and where JupyterLab runs (pip install anywidget), then start both again.")

Setting = Mapping[str, Any]  # "kernel": its place in the list; a number, or a word, for the others


def recount(kernels: Callable | Sequence[Callable], /, *shapes: str, dtype: str = "bf16",
            target: str = "trn2", start: Setting | None = None,
            **settings: int | str | Sequence[int | str]) -> "Recount":
    """A figure that counts kernels again while their settings move.

    kernels    one, or several that take the same tensors: loop orders of one op
    shapes     of the tensors they take, in order: "K M" is K rows of M, each a setting or a number
    start      what is shown first; else the first kernel and the first of each list
    settings   sizes of the shapes and parameters of the kernels: a list is moved on the page, what
               is single stays there; with a live kernel every number may be changed

        figures.recount(kernels.matmul_c_stays, "K M", "K N", M=2048, K=2048, N=2048,
                        rows=[128, 256], columns=[512, 1024])

    Raises ValueError for settings that no kernel has, a start that is not in the lists, more than
    SETTINGS settings in all, and for a first setting that is refused: there is nothing to start at.
    """
    kernels = list(kernels) if isinstance(kernels, Sequence) else [kernels]
    made = Recount(tuple(kernels), shapes, dtype, target, settings, dict(start or {}))
    made.check()
    return made


@dataclass(frozen=True)
class Recount:
    """The kernels and their settings; `at(...)` is one setting's run, `counts` all the lists'."""

    kernels: tuple[Callable, ...]
    shapes: tuple[str, ...]
    dtype: str
    target: str
    settings: Mapping[str, Any] = field(hash=False)
    given: Setting = field(hash=False)

    # --- what there is to set ------------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        return [inspect.unwrap(kernel).__name__ for kernel in self.kernels]

    @cached_property
    def lists(self) -> dict[str, list]:
        """The settings with more than one value."""
        return {name: list(value) for name, value in self.settings.items()
                if isinstance(value, Sequence) and not isinstance(value, str)}

    @cached_property
    def dims(self) -> list[str]:
        """Settings that are sizes of the tensors."""
        words = [word for shape in self.shapes for word in shape.split()]
        return [name for name in self.settings if name in words]

    @cached_property
    def takes(self) -> list[list[str]]:
        """The settings that each kernel heeds: sizes, and parameters of its own."""
        return [[name for name in self.settings if name in self.dims
                 or name in inspect.signature(inspect.unwrap(kernel)).parameters]
                for kernel in self.kernels]

    @cached_property
    def start(self) -> dict[str, Any]:
        first = {name: self.lists.get(name, [value])[0] for name, value in self.settings.items()}
        return {"kernel": 0, **first, **self.given}

    @cached_property
    def grid(self) -> list[dict[str, Any]]:
        """Every setting of the lists; a parameter that a kernel does not have stays as at first."""
        return [{**self.start, "kernel": k, **dict(zip(moved, values, strict=True))}
                for k, taken in enumerate(self.takes)
                for moved in [[name for name in self.lists if name in taken]]
                for values in product(*(self.lists[name] for name in moved))]

    def check(self) -> None:
        """Raises ValueError for what cannot be shown."""
        known = {name for taken in self.takes for name in taken}
        for name, value in self.settings.items():
            values: list[Any] = self.lists.get(name, [value])
            if name not in known:
                raise _wrong(f"{name}: no shape and no kernel of {', '.join(self.names)} has it; "
                             f"they have {', '.join(sorted(known)) or 'none of the settings'}")
            numbers = all(type(v) is int for v in values) and min(values, default=0) > 0
            words = bool(values) and all(type(v) is str for v in values)
            if len(set(values)) < len(values) or not (numbers or words):
                raise _wrong(f"{name}: got {value!r}; expected whole numbers from 1 on, or words, "
                             "each once")
        for word in (word for shape in self.shapes for word in shape.split()):
            if word not in self.settings and not word.isdecimal():
                raise _wrong(f"shapes: got {word!r}, which is no setting. Give {word}=...")
        for name, value in self.given.items():
            if name != "kernel" and value not in self.lists.get(name, [self.settings.get(name)]):
                raise _wrong(f"start: {name} = {value!r} is none of the values of {name}")
        if self.start["kernel"] not in range(len(self.kernels)):
            raise _wrong(f"start: kernel = {self.start['kernel']!r}; expected 0 to "
                         f"{len(self.kernels) - 1}, its place in the list")
        if len(self.grid) > SETTINGS:
            raise _wrong(f"{len(self.grid)} settings; at most {SETTINGS} are counted ahead. Take "
                         "shorter lists: with a live kernel any other setting can be typed")
        if "refused" in (first := self.counted(self.start)):
            raise _wrong(f"the setting to start at is refused: {first['refused']}")

    # --- counting --------------------------------------------------------------------------------

    def at(self, **setting: Any) -> Any:
        """The run of one setting, nki.run's; what is not named is as in `start`."""
        return self.run({**self.start, **setting}, self.kernels)

    def run(self, setting: Setting, kernels: Sequence[Callable]) -> Any:
        from .. import nki

        kernel, taken = kernels[setting["kernel"]], self.takes[setting["kernel"]]
        sizes = [tuple(int(setting.get(word, word)) for word in shape.split())
                 for shape in self.shapes]
        own = {name: setting[name] for name in taken if name not in self.dims}
        return nki.run(kernel, *((size, self.dtype) for size in sizes), target=self.target,
                       data=False, **own)

    def counted(self, setting: Setting, kernels: Sequence[Callable] = ()) -> dict[str, Any]:
        """What the page shows of one setting: its numbers, or why it is refused."""
        from .. import nki
        from ..count import Uncounted

        try:
            return {"at": dict(setting), **self.record(self.run(setting, kernels or self.kernels))}
        except (nki.NkiValidationError, Uncounted, machine.MachineError) as error:
            return {"at": dict(setting), "refused": str(error)}

    def chip(self, lnc: int = 1) -> Machine:
        return machine.get(self.target).at("lnc2") if lnc == 2 else machine.get(self.target)

    def record(self, run: Any) -> dict[str, Any]:
        """A run's numbers, as JSON has them."""
        count, chip = run.count, self.chip(run.lnc)
        best = chip.entitle(count) if count.flops or count.hbm_bytes else None
        rows = [row for row in run.tensors if row.read or row.written]
        moved = [line for line in run.lines if line.read or line.written]
        capacity = run.target.sbuf_partition_bytes * run.target.pmax
        return {
            "W": count.flops, "Q": count.hbm_bytes,
            "tensors": [[row.name, row.bytes, row.read, row.written] for row in rows],
            "I": count.intensity if count.hbm_bytes else None,
            "ridge": best.ridge if best and count.flops else None,
            "best": best.t_best if best else None, "binds": best.binds if best else None,
            "transfers": sum(line.instructions for line in moved),
            "instructions": sum(map(len, run.cores)),
            "sbuf": [run.sbuf_peak_bytes, capacity],
            "banks": [run.psum_peak_banks, run.target.psum_num_banks],
            "warnings": list(run.warnings)}

    @cached_property
    def counts(self) -> list[dict[str, Any]]:
        """Every setting of the grid, counted."""
        return [self.counted(setting) for setting in self.grid]

    # --- the source as it is saved now -----------------------------------------------------------

    @cached_property
    def _held(self) -> list[tuple[tuple[Callable, ...], dict[str, bytes]]]:
        """The kernels in use, and the files they are made of: the cell's, then the newest."""
        return [(self.kernels, _texts(self.kernels))]

    def current(self) -> tuple[tuple[Callable, ...], str, str]:
        """The kernels of the files as they are saved now, where they are from, and their version.

        Raises LoadError for a file that cannot be loaded, ValueError where a kernel is gone.
        """
        from .. import nki

        for kernels, texts in self._held:
            if all(_read(file) == text for file, text in texts.items()):
                return kernels, self.source, _version(texts)
        projects = {id(project): project for kernel in self.kernels
                    if (project := _project(kernel))}
        fresh = {at: nki.load(project.main) for at, project in projects.items()}
        again = tuple(self._again(kernel, fresh) for kernel in self.kernels)
        self._held[1:] = [(again, _texts(again))]
        return again, self.source, _version(_texts(again))

    @property
    def source(self) -> str:
        """The kernels' files; those of a cell are the notebook's."""
        names = {project.main.name for kernel in self.kernels if (project := _project(kernel))}
        return ", ".join(sorted(names)) or "this notebook"

    def _again(self, kernel: Callable, fresh: Mapping[int, Any]) -> Callable:
        """The kernel of the same name in its file, loaded again."""
        function = inspect.unwrap(kernel)
        project = function.__globals__.get("__project__")
        if id(project) not in fresh:
            return kernel
        loaded = vars(fresh[id(project)])["__project__"].modules
        found = getattr(loaded.get(function.__module__), function.__name__, None)
        if not callable(found):
            raise ValueError(f"{project.main.name}: it has no {function.__name__} any more. Give "
                             "the kernel its name back, or change this cell and run it again")
        lnc = getattr(kernel, "lnc", None)
        return found[lnc] if lnc else found

    # --- the page --------------------------------------------------------------------------------

    def describe(self, setting: Setting, names: Sequence[str] = ()) -> str:
        """A setting in words: its kernel, where there are several, and what was chosen."""
        taken = self.takes[setting["kernel"]]
        chosen = [f"{name} {setting[name]}" for name in names or self.lists if name in taken]
        several = len(self.kernels) > 1
        return ", ".join([self.short[setting["kernel"]]] * several + chosen) or self.names[0]

    @cached_property
    def figure(self) -> Live:
        """The figure of a page: with it, all that was counted ahead."""
        first = self.counted(self.start)
        about = [self._about(), f"At first {self.describe(self.start)}: "
                 f"Q = {units.show(first['Q'], 'B')}."]
        ask = _question(self)
        data = {
            "says": [*about, ask.pop("ask")] if ask else about, "guess": ask,
            "kernels": self.names, "short": self.short, "takes": self.takes, "dims": self.dims,
            "settings": [{"name": name, "values": self.lists.get(name, [value]),
                          "listed": name in self.lists} for name, value in self.settings.items()],
            "start": self.start, "counts": self.counts,
            "chip": self.chip(getattr(self.kernels[0], "lnc", None) or 1).name}
        says: list[str] = data["says"]  # type: ignore[assignment]
        return Live("recount", data, "\n\n".join(says),
                    ((f"Counted from the source ({self._sizes()})", self._table()),),
                    "the same kernel with its settings to move")

    def _sizes(self) -> str:
        fixed = [f"{name} = {value}" for name, value in self.settings.items()
                 if name not in self.lists]
        return ", ".join([*fixed, self.dtype, self.target])

    def _about(self) -> str:
        others = len(self.names) - 1
        who = self.names[0] + (f" and {others} other kernels of its op" if others > 1
                               else f" and {self.names[1]}" if others else "")
        moved = ["kernel"] * (others > 0) + list(self.lists)
        what = ", ".join(moved[:-1]) + " and " * (len(moved) > 1) + "".join(moved[-1:])
        return (f"{who}, run on shapes by the counting backend: {self._sizes()}."
                + f" Move {what}: the source is counted again." * bool(moved))

    @cached_property
    def short(self) -> list[str]:
        """The kernels' names without what they have in common."""
        stems = {name.partition("_")[0] for name in self.names}
        common = f"{stems.pop()}_" if len(stems) == 1 < len(self.names) else ""
        return [name.removeprefix(common) for name in self.names]

    def _table(self) -> list[list[str]]:
        tensors = list(dict.fromkeys(row[0] for one in self.counts if "Q" in one
                                     for row in one["tensors"]))
        rows = [["setting", *tensors, "Q", "I", "T_best", "DMAs", "SBUF", "banks", "refused"]]
        for one in self.counts:
            name = self.describe(one["at"])
            if "refused" in one:
                rows.append([name, *[""] * (len(tensors) + 6), one["refused"].split("\n")[0]])
                continue
            times = {row[0]: _times(*row[1:]) for row in one["tensors"]}
            rows.append([
                name, *(times.get(tensor, "-") for tensor in tensors), units.show(one["Q"], "B"),
                "-" if one["I"] is None else units.significant(one["I"]),
                "-" if one["best"] is None else units.show(one["best"], "s"),
                f"{one['transfers']:,}", units.mebi(one["sbuf"][0]), f"{one['banks'][0]}", ""])
        if not any("refused" in one for one in self.counts):
            rows = [row[:-1] for row in rows]
        return rows

    def _repr_html_(self) -> str:
        return self.figure._repr_html_()

    def __repr__(self) -> str:
        return repr(self.figure)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": replace(
            self.figure, data={**self.figure.data, **connect(self)})._repr_html_()}


def _project(kernel: Callable) -> Any:
    """What nki.load made the kernel's module part of; None for one typed into a cell."""
    project = inspect.unwrap(kernel).__globals__.get("__project__")
    return project if getattr(project, "main", None) else None


def _texts(kernels: Sequence[Callable]) -> dict[str, bytes]:
    return {path: source.text for kernel in kernels if (project := _project(kernel))
            for path, source in project.sources.items()}


def _version(texts: Mapping[str, bytes]) -> str:
    return stable_id("v", *(f"{file} {text!r}" for file, text in sorted(texts.items())))


def _read(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


def _times(size: int, read: int, written: int) -> str:
    """How often a tensor crosses: read, written, or both."""
    both = " read, ", " written"
    found = [f"{amount / size:g}x" for amount in (read, written) if amount]
    return found[0] if len(found) == 1 else "".join(map("".join, zip(found, both, strict=True)))


def _wrong(what: str) -> ValueError:
    return ValueError(f"figures.recount: {what}")


def _question(of: Recount) -> dict[str, Any]:
    """Which of the moves of one step lowers Q most? With one move: which way does Q go?"""
    taken, first, moves = of.takes[of.start["kernel"]], of.counted(of.start), []
    for name, values in of.lists.items():
        at = values.index(of.start[name])
        if name in taken and at + 1 < len(values):
            to = {**of.start, name: values[at + 1]}
            moves.append((f"{name} from {values[at]} to {values[at + 1]}", of.counted(to),
                          f"{name} {values[at + 1]}"))
    if len(of.kernels) > 1 and not moves:
        to = {**of.start, "kernel": (of.start["kernel"] + 1) % len(of.kernels)}
        name = of.names[to["kernel"]]
        moves.append((f"{name} in its place", of.counted(to), name))
    if not moves:
        return {}
    Q = [one.get("Q") for _, one, _ in moves]
    told = "; ".join(f"{there}: refused" if q is None else
                     f"{there}: Q = {units.show(q, 'B')}"
                     for q, (_, _, there) in zip(Q, moves, strict=True)) + "."
    if len(moves) == 1:
        way = 3 if Q[0] is None else 0 if Q[0] < first["Q"] else 1 if Q[0] > first["Q"] else 2
        return {"ask": f"Now {moves[0][0]}. Which way does Q go?",
                "answers": ["down", "up", "it stays", "nowhere: the kernel is refused"],
                "right": [way], "told": told}
    least = min((q for q in Q if q is not None), default=first["Q"])
    right = [i for i, q in enumerate(Q) if q == least < first["Q"]] or [len(moves)]
    return {"ask": "Which of these moves lowers Q most?",
            "answers": [*(words for words, *_ in moves), "none of them lowers it"],
            "right": right, "told": told}


# --- a live kernel -----------------------------------------------------------------------------


def connect(of: Recount) -> dict[str, Any]:
    """What the figure needs to reach this kernel: {} where no front end can ask it.

    JupyterLab names the notebook in a kernel's environment; whoever only runs notebooks does not.
    """
    if "JPY_SESSION_NAME" not in os.environ:
        return {}
    from .recount_channel import open_channel

    token = uuid.uuid4().hex
    if not open_channel(token, of):
        return {"live": {"missing": MISSING}}
    return {"live": {"token": token, "version": _version(_texts(of.kernels)), "source": of.source}}


def plain(setting: Any, of: Recount) -> dict[str, Any]:
    """A setting as the page sent it, checked. Raises ValueError that says what is wrong."""
    if not isinstance(setting, dict) or set(setting) != {"kernel", *of.settings}:
        raise ValueError(f"got {json.dumps(setting)[:80]}; expected a kernel and "
                         f"{', '.join(of.settings)}")
    if setting["kernel"] not in range(len(of.kernels)):
        raise ValueError(f"kernel: got {setting['kernel']!r}; expected 0 to {len(of.kernels) - 1}")
    for name, value in setting.items():
        if name == "kernel":
            continue
        if isinstance(of.start[name], str):
            if not isinstance(value, str):
                raise ValueError(f"{name}: got {value!r}; expected a word")
        elif type(value) is not int or not 1 <= value <= MOST:
            raise ValueError(f"{name}: got {value!r}; expected a whole number from 1 to {MOST:,}")
    return setting
