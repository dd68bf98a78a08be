"""What the class is asked to guess, and how its guesses lie.

Question  what did the room expect here, in one look from its back row?
Answer    read(folder): the predictions of the student notebooks in reading order; Prediction.take
          reads one participant's guesses, Prediction.bars counts those of all
Assumes   cells with metadata roofline.predict {id, parts: {name: {label, unit or options}}}
Ignores   names, and which guess was right
"""

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from roofline import units
from roofline.problems import BANK

MOST = 12  # bars between the two open ends
FAR = 1000.0  # a guess that is this many times the middle one, or one over it, gets no bar
LONGEST = 100  # characters of a guess: reading takes their cube, and the service waits for it
SMALLEST, LARGEST = 1e-24, 1e36  # base units; beyond them a guess is a slip of the keyboard
Guessed = float | str  # a number in base units, or an option's key
Bar = tuple[str, int]


@dataclass(frozen=True)
class Part:
    """One thing to guess: a number in `unit`, or one of `options` {key: what it says}."""

    name: str
    label: str
    unit: str | None
    options: Mapping[str, str]

    def take(self, guess: object) -> Guessed | None:
        """A guess as it is kept; None where it is open or cannot be read."""
        if isinstance(guess, str) and len(guess) > LONGEST:
            return None
        if self.unit is None:
            said = " ".join(guess.split()).casefold() if isinstance(guess, str) else None
            return next((key for key in self.options if key.casefold() == said), None)
        try:
            number = units.parse(guess, self.unit)
        except units.UnitError:
            return None
        return number if number == 0 or SMALLEST <= abs(number) <= LARGEST else None

    def bars(self, guesses: Iterable[Guessed]) -> list[Bar]:
        """What each bar stands for, and how many guesses it holds."""
        if self.unit is None:
            counted = list(guesses)
            return [(says, counted.count(key)) for key, says in self.options.items()]
        numbers = [float(guess) for guess in guesses]
        if "%" in self.label:
            edges = [tenth / 10 for tenth in range(11)]
            return _counted(numbers, edges, [f"{10 * tenth} %" for tenth in range(11)])
        edges = _edges(sorted(numbers))
        return _counted(numbers, edges, [units.show(edge, self.unit) for edge in edges])


@dataclass(frozen=True)
class Prediction:
    id: str
    page: str  # its title
    section: str
    parts: tuple[Part, ...]

    def take(self, guesses: Mapping[str, object]) -> dict[str, Guessed]:
        """Those guesses that can be read, by part."""
        found = {part.name: part.take(guesses.get(part.name)) for part in self.parts}
        return {name: guess for name, guess in found.items() if guess is not None}


# --- bars of numbers ------------------------------------------------------------------------


def _edges(numbers: Sequence[float]) -> list[float]:
    """Where bars begin and the last one ends, for sorted numbers: steps that grow with the numbers
    (1, 2, 5, 10 ...) when the largest is over ten times the smallest, else equal ones.
    """
    middle = statistics.median_low(numbers)
    near = [number for number in numbers if abs(number) <= FAR * abs(middle)
            and (middle <= 0 or number >= middle / FAR)]
    low, high = near[0], near[-1]
    if 0 < 10 * low < high:
        return _growing(low, high)
    apart = high - low > 0.05 * abs(high)  # else they would differ in no digit of a label
    step = _nice((high - low if apart else abs(high) or 1.0) / 8)
    first = math.floor(low / step * (1 + 1e-9))
    count = math.floor(high / step * (1 + 1e-9)) - first + 1
    return [float(f"{(first + place) * step:.12g}") for place in range(count + 1)]


def _growing(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    for digits in ("125", "1"):
        edges = sorted({float(f"{digit}e{power}") for power in exponents for digit in digits})
        below = max(place for place, edge in enumerate(edges) if _reaches(low, edge))
        above = min(place for place, edge in enumerate(edges) if not _reaches(high, edge))
        if above - below <= MOST:
            break
    return edges[below:above + 1]


def _nice(least: float) -> float:
    """The first of 1, 2, 5, 10 ... that is no less."""
    power = math.floor(math.log10(least))
    return next(step for step in (float(f"{digit}e{power}") for digit in (1, 2, 5, 10))
                if step >= least * (1 - 1e-9))


def _reaches(number: float, edge: float) -> bool:
    """Whether a number is at an edge or above it; the last bits of a float do not decide."""
    return number >= edge - 1e-9 * abs(edge)


def _counted(numbers: Sequence[float], edges: Sequence[float], names: Sequence[str]) -> list[Bar]:
    """A bar from each edge to the next; open ones at both ends where something lies there."""
    places = [sum(_reaches(number, edge) for edge in edges) for number in numbers]
    middle = [(_between(low, high), places.count(place))
              for place, (low, high) in enumerate(pairwise(names), start=1)]
    ends = [(f"below {names[0]}", places.count(0)),
            (f"{names[-1]} or more", places.count(len(edges)))]
    return [end for end in ends[:1] if end[1]] + middle + [end for end in ends[1:] if end[1]]


def _between(low: str, high: str) -> str:
    """Both, with the unit once where it is the same: "10 – 20 us"."""
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low} – {high}"


# --- from notebooks ---------------------------------------------------------------------------


def read(folder: Path) -> dict[str, Prediction]:
    """The predictions of all notebooks under a folder, by id, in the course's order.

    A page stands where the first of its questions stands in the bank. What is no notebook, and
    hidden folders such as .ipynb_checkpoints, are passed over.
    """
    places = {id: place for place, id in enumerate(BANK)}
    pages: list[tuple[int, list[Prediction]]] = []
    for path in sorted(folder.rglob("*.ipynb")):
        if any(name.startswith(".") for name in path.relative_to(folder).parts):
            continue
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        asked = re.findall(r'\bask\("([\w.-]+)"', "\n".join("".join(c["source"]) for c in cells))
        place = min((places[id] for id in asked if id in places), default=len(places))
        pages.append((place, list(_page(path.stem, cells))))
    return {one.id: one for _, page in sorted(pages, key=lambda page: page[0]) for one in page}


def _page(page: str, cells: Iterable[Any]) -> Iterator[Prediction]:
    section = ""
    for cell in cells:
        if cell.get("cell_type") == "markdown":
            for level, text in re.findall(r"^(#{1,6}) +(.+?)\s*$", "".join(cell["source"]), re.M):
                if level == "#":
                    page, section = text, ""
                else:
                    section = text
        asked: Mapping[str, Any] = cell.get("metadata", {}).get("roofline", {}).get("predict", {})
        if asked:
            yield Prediction(asked["id"], page, section, tuple(
                Part(name, part.get("label", name), part.get("unit"), part.get("options", {}))
                for name, part in asked["parts"].items()))
