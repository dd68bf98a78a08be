"""Lines of a kernel's source: where an instruction was issued, and what a tile was called there."""

import linecache
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType

HERE = str(Path(__file__).parent)


@dataclass(frozen=True)
class Line:
    """A place in a kernel's source."""

    file: str
    number: int
    function: str

    @property
    def text(self) -> str:
        """The source of the line, "" when it cannot be found."""
        return linecache.getline(self.file, self.number).strip()

    @property
    def assigned(self) -> str:
        """The name that the line assigns to, "" when it assigns to none."""
        found = re.match(r"(\w+)\s*=(?!=)", self.text)
        return found[1] if found else ""

    @property
    def described(self) -> str:
        """As an error ends with it; a notebook's cell is no file and has no name of use."""
        file = Path(self.file)
        where = f"{file.name}, " if file.is_file() else ""
        return f"{where}line {self.number} of {self.function}: {self.text}".rstrip(": ")

    def __str__(self) -> str:
        return f"{self.function}:{self.number}"


class Site:
    """One call in Python's bytecode, in one object however often it is reached."""

    def __init__(self, code: CodeType, position: int) -> None:
        self.code, self.position = code, position

    @cached_property
    def line(self) -> Line:
        """Its source line."""
        number = next((line for start, end, line in self.code.co_lines()
                       if start <= self.position < end and line), self.code.co_firstlineno)
        return Line(self.code.co_filename, number, self.code.co_name)


# By the code's id, as its own hash reads all of it; a Site keeps its code, so no id comes twice.
SITES: dict[tuple[int, int], Site] = {}


def site_of(frame: FrameType) -> Site:
    """Where the innermost caller outside this package stands."""
    while frame.f_code.co_filename.startswith(HERE):
        assert frame.f_back is not None
        frame = frame.f_back
    key = id(frame.f_code), frame.f_lasti
    if key not in SITES:
        SITES[key] = Site(frame.f_code, frame.f_lasti)
    return SITES[key]
