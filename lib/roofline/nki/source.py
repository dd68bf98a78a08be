"""Lines of a kernel's source: where an instruction was issued, and what a tile was called there."""

import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from types import CodeType


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


_LINES: dict[tuple[CodeType, int], Line] = {}


def line_of(code: CodeType, position: int) -> Line:
    """The source line of one instruction of Python's bytecode (frame.f_code, frame.f_lasti)."""
    found = _LINES.get((code, position))
    if found is None:
        number = next((line for start, end, line in code.co_lines()
                       if start <= position < end and line), code.co_firstlineno)
        found = _LINES[code, position] = Line(code.co_filename, number, code.co_name)
    return found
