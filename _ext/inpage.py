"""Cells of a page that run by themselves, each with what it needs of the cells before it.

Question  what does this cell need, can it run without NumPy, and what does it show?
Answer    Page(sources): whether a cell runs(place), what of earlier cells it needs, run(place)
Assumes   a cell is run in a fresh namespace, after the statements before it whose names it uses;
          so no order of clicks and no edit undone leaves anything behind
Ignores   how a page shows it; statements that change a value by a call other than CHANGES

The book's build asks it which cells to offer; inside a page, where nothing but the standard
library and the library's plain-Python part is, it runs them.
"""

import ast
import builtins
import io
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field

# The library's part that needs no NumPy, which a page has.
CORE = ("units", "table", "count", "machine", "check", "guess", "ops", "loopnest", "derate",
        "sheet", "problems", "clockwork")
NAMES = ("Count", "Guess", "Transfers", "ask")  # what roofline itself hands on from CORE
STANDARD = ("collections", "dataclasses", "fractions", "functools", "itertools", "json", "math",
            "operator", "random", "re", "statistics", "textwrap")
CHANGES = ("append", "extend", "insert", "add", "update", "setdefault", "pop", "remove", "clear",
           "sort", "reverse")
MOST = 100_000  # characters that a cell may print


# --- names -----------------------------------------------------------------------------------


def here(module: str, name: str = "") -> bool:
    """Whether a page can import `module`, or `name` from it."""
    first, *rest = module.split(".")
    if first != "roofline":
        return first in STANDARD
    return rest[0] in CORE if rest else not name or name in CORE + NAMES


class Reader(ast.NodeVisitor):
    """The names that one statement uses of what came before it, and those that it binds."""

    def __init__(self) -> None:
        self.uses: set[str] = set()
        self.binds: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            if node.id not in self.binds:
                self.uses.add(node.id)
        else:
            self.binds.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._each(node.value, *node.targets)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._each(node.annotation, *filter(None, [node.value]), node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._changed(node.target)
        self._each(node.value, node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._each(node.value, node.target)

    def visit_For(self, node: ast.For) -> None:
        self._each(node.iter, node.target, *node.body, *node.orelse)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._stored(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._stored(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            self._changed(node.func.value)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.binds |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.binds |= {alias.asname or alias.name for alias in node.names}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._each(*node.decorator_list, *node.args.defaults,
                   *filter(None, node.args.kw_defaults))
        self.binds.add(node.name)  # before the body, which may call it
        self._inside(node.args, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._each(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._inside(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._each(*node.decorator_list, *node.bases, *(word.value for word in node.keywords))
        self.binds.add(node.name)
        self._inside(None, node.body)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
                       ) -> None:
        inner = Reader()
        for part in node.generators:
            inner._each(part.iter, part.target, *part.ifs)
        inner._each(*((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)))
        self.uses |= inner.uses - self.binds

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def _each(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)

    def _inside(self, args: ast.arguments | None, body: Sequence[ast.AST]) -> None:
        """What a function's or a class's body uses of the names outside it."""
        inner = Reader()
        if args:
            every = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
            inner.binds = {arg.arg for arg in every if arg}
        inner._each(*body)
        self.uses |= inner.uses - self.binds

    def _stored(self, node: ast.Subscript | ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._changed(node)
        self.generic_visit(node)

    def _changed(self, node: ast.AST) -> None:
        """x of x.a[i].b: its value is changed, so it is used and, for what follows, bound."""
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            if node.id not in self.binds:
                self.uses.add(node.id)
            self.binds.add(node.id)


@dataclass
class Step:
    """A statement of a cell; of an import or of `a, b = 1, 2` a part that stands by itself.

    lacks   the first name it uses that this page cannot have; "" if it can run
    needs   the steps before it whose names it uses
    """

    cell: int
    node: ast.stmt
    uses: set[str]
    binds: set[str]
    lacks: str = ""
    needs: list["Step"] = field(default_factory=list)


def pieces(node: ast.stmt) -> Iterator[ast.stmt]:
    """`from x import a, b` as two imports, `a, b = 1, 2` as two assignments.

    >>> [ast.unparse(piece) for piece in pieces(ast.parse("a, b = f(x), 2").body[0])]
    ['a = f(x)', 'b = 2']
    >>> len(list(pieces(ast.parse("a, b = b, a").body[0])))
    1
    """
    match node:
        case ast.Import():
            yield from (ast.copy_location(ast.Import([alias]), node) for alias in node.names)
        case ast.ImportFrom():
            yield from (ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node)
                        for alias in node.names)
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if (
                len(targets) == len(values)
                and all(isinstance(target, ast.Name) for target in targets)
                and not {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
                & {target.id for target in targets if isinstance(target, ast.Name)}):
            for target, value in zip(targets, values, strict=True):
                yield ast.copy_location(ast.Assign([target], value), node)
        case _:
            yield node


# --- a page ----------------------------------------------------------------------------------


class Unreadable(Exception):
    """A cell before this one is no Python: (place, the SyntaxError)."""


class Page:
    """The code cells of a page, in order, each as its text is now."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.sources = list(sources)
        self.unread: dict[int, SyntaxError] = {}
        self.steps: list[list[Step]] = []
        known: dict[str, list[Step]] = {}  # a name: what bound it last, and what changed it since
        for cell, source in enumerate(self.sources):
            try:
                body = ast.parse(source, f"<cell {cell}>").body
            except SyntaxError as error:
                self.unread[cell], body = error, []
            steps = [self._step(cell, piece) for node in body for piece in pieces(node)]
            later = {name: step for step in reversed(steps) for name in step.binds}
            for step in steps:
                self._tie(step, known, later)
                for name in step.binds:
                    # What may be skipped, or only changes a value, leaves the earlier one there.
                    kept = known.get(name, []) if (
                        name in step.uses or isinstance(step.node, ast.If | ast.Try)) else []
                    known[name] = [*kept, step]
            self.steps.append(steps)

    @staticmethod
    def _step(cell: int, node: ast.stmt) -> Step:
        reader = Reader()
        reader.visit(node)
        return Step(cell, node, reader.uses, reader.binds)

    @staticmethod
    def _tie(step: Step, known: dict[str, list[Step]], later: dict[str, Step]) -> None:
        """Find what a step needs, and what it lacks."""
        match step.node:
            case ast.Import([alias]) if not here(alias.name):
                step.lacks = alias.name
            case ast.ImportFrom(module, [alias]) if not here(module or "", alias.name):
                step.lacks = f"{module}.{alias.name}"
        for name in sorted(step.uses):
            found = known.get(name, [])
            if not found and isinstance(step.node, ast.FunctionDef) and name in later:
                continue  # a function may use what its cell binds after it
            if not found and not hasattr(builtins, name):
                step.lacks = step.lacks or name
            step.needs += found
            step.lacks = step.lacks or next((need.lacks for need in found if need.lacks), "")

    def runs(self, place: int) -> bool:
        """Whether this cell can run inside a page: it does more than import, and lacks nothing.

        What it imports and a page cannot have may be left out where the cell does not use it.
        """
        work = [step for step in self.steps[place] if not _imports(step)]
        return bool(work) and not any(step.lacks for step in work)

    def before(self, place: int) -> list[Step]:
        """What has to run before this cell, in the page's order: steps of earlier cells."""
        found: dict[int, Step] = {}
        waiting = [step for step in self.steps[place] if not step.lacks]
        while waiting:
            for need in waiting.pop().needs:
                if id(need) not in found:
                    found[id(need)] = need
                    waiting.append(need)
        return [step for steps in self.steps[:place] for step in steps
                if id(step) in found and not step.lacks]

    def run(self, place: int, show: Callable[[str], None]) -> list[str]:
        """Run a cell after what it needs; `show` gets what it prints. Lines of an error, or []."""
        for cell, error in self.unread.items():
            if cell < place:
                return [f"{self._named(cell)} is no Python: {_syntax(error)}",
                        "Mend it, or reset it, then run this one again."]
        scope: dict[str, object] = {"__name__": "__main__"}
        for step in self.before(place):
            try:
                with redirect_stdout(io.StringIO()):
                    exec(_compiled([step.node], step.cell), scope)
            except BaseException as error:
                return [f"{self._named(step.cell)} stopped, and this one needs it:",
                        *self._told(error, step.cell)]
        out = _Screen(show)
        try:
            if place in self.unread:
                raise self.unread[place]
            with redirect_stdout(out):
                self._cell(place, scope)
        except BaseException as error:  # SystemExit too: it ends the cell, not the page
            return self._told(error, place)
        finally:
            out.flush()
        return []

    def earlier(self, place: int) -> list[int]:
        """The cells of which something runs before this one."""
        return sorted({step.cell for step in self.before(place)})

    def left_out(self, place: int) -> list[str]:
        """What the cell imports and a page does not have."""
        return [step.lacks for step in self.steps[place] if _imports(step) and step.lacks]

    def _cell(self, place: int, scope: dict[str, object]) -> None:
        """As a notebook runs a cell: all of it, and the value of a last expression shown."""
        body = [step.node for step in self.steps[place]
                if not (_imports(step) and step.lacks)]
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        exec(_compiled(body, place), scope)
        if isinstance(last, ast.Expr):
            from IPython.lib.pretty import pretty  # how a notebook lays out a value

            tree = ast.Expression(last.value)
            value = eval(compile(tree, f"<cell {place}>", "eval"), scope)
            if value is not None:
                print(pretty(value))

    def _named(self, cell: int) -> str:
        line = next((line for line in self.sources[cell].splitlines() if line.strip()), "")
        return f"The earlier cell that begins `{line.strip()[:60]}`"

    def _told(self, error: BaseException, place: int) -> list[str]:
        """An error as a reader sees it: the course's own words, or what and in which line."""
        if isinstance(error, SyntaxError):
            return [_syntax(error)]
        if words := getattr(error, "_render_traceback_", None):
            return list(words())
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                 if frame.filename == f"<cell {place}>"]
        where = f" (line {lines[-1]} of the cell)" if lines else ""
        said = [f"{type(error).__name__}{where}: {error}".rstrip(": ")]
        if isinstance(error, NameError) and error.name:
            lacks = next((step.lacks for steps in reversed(self.steps[:place + 1])
                          for step in steps if error.name in step.binds and step.lacks), "")
            said.append(f"It rests on {lacks}, which does not run inside a page. In JupyterLab it "
                        "does: python3 course.py lab" if lacks else
                        "A name comes from this cell or from the cells above it.")
        elif isinstance(error, ImportError):
            said.append("Inside a page there are Python's standard library and, of roofline, "
                        f"{', '.join(CORE)}. All else runs in JupyterLab: python3 course.py lab")
        return said


def _imports(step: Step) -> bool:
    return isinstance(step.node, ast.Import | ast.ImportFrom)


def _compiled(body: Sequence[ast.stmt], cell: int):
    return compile(ast.Module(list(body), []), f"<cell {cell}>", "exec")


def _syntax(error: SyntaxError) -> str:
    text = f": {error.text.strip()}" if error.text else ""
    return f"{type(error).__name__} (line {error.lineno} of the cell{text}): {error.msg}"


class _Screen(io.TextIOBase):
    """What a cell prints, handed on in pieces: a page that is busy shows it all the same."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._waiting, self._left = show, "", MOST
        self._next = 0.0

    def write(self, text: str) -> int:
        if self._left > 0:
            self._waiting += text[:self._left]
            self._left -= len(text)
            if self._left <= 0:
                self._waiting += f"\n... cut here: a page shows {MOST:,} characters of a cell"
            if len(self._waiting) > 8000 or time.monotonic() > self._next:
                self.flush()
        return len(text)

    def flush(self) -> None:
        if self._waiting:
            self._show(self._waiting)
        self._waiting, self._next = "", time.monotonic() + 0.1
