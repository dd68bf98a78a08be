"""Python that runs here and that no NKI document lets a kernel use.

Question  a simulator takes any Python; which lines of this kernel may not compile?
Answer    findings(source or kernel): line, construct, what the documents allow, next step
Assumes   the language guide's constructs and the migration guide's restrictions, NKI 0.6
Ignores   what nisa and nl check themselves; host code around the kernels
"""

import ast
import inspect
import linecache
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .source import HERE

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = Function | ast.ClassDef

GUIDE = "the language guide lists"
# Statements and expressions of the language guide (get-started/nki-language-guide.rst).
_LISTED = (
    ast.FunctionDef, ast.ClassDef, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For,
    ast.While, ast.If, ast.With, ast.Assert, ast.Expr, ast.Pass, ast.Break, ast.Continue,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Dict, ast.Compare, ast.Call, ast.JoinedStr,
    ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name,
    ast.List, ast.Tuple, ast.Slice)
_UNLISTED = {
    ast.ListComp: "a list comprehension; {} lists filled by append. Write the loop",
    ast.SetComp: "a set comprehension; {} lists, tuples and dicts. Fill a list in a loop",
    ast.DictComp: "a dict comprehension; {} dicts filled by assignment. Write the loop",
    ast.GeneratorExp: "a generator; {} lists filled by append. Write the loop",
    ast.Set: "a set; {} lists, tuples and dicts. Use a tuple",
    ast.Lambda: "a lambda; {} functions as values. Give it a name with def",
    ast.Try: "try; {} no exceptions. Check with if or assert beforehand",
    ast.Raise: "raise; {} assert. Write assert condition, message",
    ast.Yield: "yield; {} functions that return. Return a tuple or a list",
    ast.YieldFrom: "yield from; {} functions that return. Return a tuple or a list",
    ast.Global: "global; a kernel is a pure function of its arguments. Pass the value in",
    ast.Nonlocal: "nonlocal; {} values passed and returned. Pass the value in",
    ast.Delete: "del; {} none. Leave the name",
    ast.NamedExpr: "an assignment inside an expression; {} the statement. Assign on its own line",
    ast.Import: "an import inside the kernel; {} namespaces imported at the top. Move it",
    ast.ImportFrom: "an import inside the kernel; {} namespaces imported at the top. Move it",
    ast.Match: "match; {} if, elif, else. Write those",
}
_ANY = "{}; {} for, while, if, with nl.no_reorder(), assert and functions. Use one of those"
# nl functions that hand out a tensor: reading its elements is no compile-time expression.
_TENSORS = {"ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "load"}
_LOOPS = {"fori_loop", "while_loop", "dynamic_range"}


def findings(code: str | Callable) -> list[str]:
    """Lines of `code` that the NKI documents do not allow, in order, one text each.

    code   a file's text, whose kernels are the functions under nki.jit and those that call nisa;
           or a function or kernel, with the functions it calls

    >>> findings("import nki\\n@nki.jit\\ndef k(x, flag):\\n    if flag is None:\\n        pass\\n")
    ['line 4 of k: `is`; the compiler has no identity (NKI 0.3). Write == or !=']
    """
    if isinstance(code, str):
        try:
            source = _Source(code)
        except SyntaxError as error:
            return [f"line {error.lineno}: not Python: {error.msg}. Correct it first"]
        return [told.said for told in source.found(source.kernels())]
    return [told.said for told in _of_functions([code])]


def of(kernel: Callable, traces: Iterable[Any]) -> list[str]:
    """The same for a kernel that ran: its functions are those that issued instructions.

    One text for each construct, with all its lines.
    """
    codes = {site.code for trace in traces for _, site in trace.totals}
    places: dict[str, dict[str, list[int]]] = {}
    for told in _of_functions([kernel], codes):
        places.setdefault(told.text, {}).setdefault(told.scope, []).append(told.line)
    return [f"{'; '.join(_place(*place) for place in each.items())}: {text}"
            for text, each in places.items()]


@dataclass(frozen=True, order=True)
class _Told:
    """One finding: a construct on a line of a function or class, "" for the file."""

    line: int
    scope: str
    text: str

    @property
    def said(self) -> str:
        return f"{_place(self.scope, [self.line])}: {self.text}"


def _place(scope: str, lines: list[int]) -> str:
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return f"{where}{f' of {scope}' if scope else ''}"


def _of_functions(kernels: list[Any], codes: Iterable[CodeType] = ()) -> list[_Told]:
    """Findings of functions and of everything they call, across files."""
    front = [f for f in map(_function, kernels) if f]
    met = {id(f.__code__) for f in front}
    wanted: dict[str, set[tuple[str, int]]] = {}
    first = {f.__code__ for f in front}
    for code in codes:
        wanted.setdefault(code.co_filename, set()).add((code.co_name, code.co_firstlineno))
    while front:
        function = front.pop()
        code = function.__code__
        wanted.setdefault(code.co_filename, set()).add((code.co_name, code.co_firstlineno))
        for called in _called(function):
            if id(called.__code__) not in met:
                met.add(id(called.__code__))
                front.append(called)
    told = []
    for name, starts in wanted.items():
        source = _source(name, "".join(linecache.getlines(name)))
        if source:
            nodes = [source.at[start] for start in starts if start in source.at]
            heads = [source.at.get((c.co_name, c.co_firstlineno)) for c in first
                     if c.co_filename == name]
            told += source.found(nodes, [node for node in heads if node])
    return list(dict.fromkeys(told))


def _function(kernel: Any) -> FunctionType | None:
    """The Python function in a kernel."""
    kernel = inspect.unwrap(kernel) if callable(kernel) else kernel
    return kernel if isinstance(kernel, FunctionType) else None


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """Functions that `function` names and that speak of nki themselves."""
    names = set(function.__code__.co_names)
    for held in [function.__globals__.get(name) for name in names]:
        inside = [vars(held).get(n) for n in names] if isinstance(held, ModuleType) else [held]
        for value in inside:
            found = _function(value) if isinstance(value, FunctionType) else None
            if (found and not found.__code__.co_filename.startswith(HERE)
                    and any(isinstance(v, ModuleType) and _is_nki(v.__name__)
                            for v in found.__globals__.values())):
                yield found


def _is_nki(name: str) -> bool:
    return re.match(r"(roofline\.)?nki(\.|$)", name) is not None


def _start(node: Scope) -> int:
    """The first line of a definition, its decorators included, as co_firstlineno has it."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


@lru_cache(maxsize=64)
def _source(name: str, text: str) -> "_Source | None":
    if not text or Path(name).is_relative_to(HERE):
        return None
    try:
        return _Source(text)
    except SyntaxError:
        return None


@dataclass
class _Source:
    """One file: its definitions, and what its names mean.

    meaning   name -> dotted NKI name: {"nl": "nki.language", "ds": "nki.language.ds"}
    at        (name, first line) -> a function, as a code object tells them

    What is said of a definition is kept: each run of a kernel asks again.
    """

    text: str
    functions: list[Function] = field(default_factory=list)
    top: dict[str, Scope] = field(default_factory=dict)
    meaning: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tree = ast.parse(textwrap.dedent(self.text))
        nodes = list(ast.walk(self.tree))
        self.functions = [n for n in nodes if isinstance(n, Function)]
        self.at = {(n.name, _start(n)): n for n in self.functions}
        self.kept: dict[tuple[Scope, bool], tuple[list[_Told], list[str]]] = {}
        self.top = {n.name: n for n in self.tree.body if isinstance(n, Scope)}
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if _is_nki(alias.name):
                        whole = alias.name if alias.asname else alias.name.partition(".")[0]
                        self.meaning[alias.asname or whole] = _plain(whole)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    dotted = f"{node.module}.{alias.name}"
                    if _is_nki(dotted):
                        self.meaning[alias.asname or alias.name] = _plain(dotted)
        for node in self.tree.body:  # nl = nki.language, as notebooks do
            if (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
                    and (dotted := self.dotted(node.value))):
                self.meaning[node.targets[0].id] = dotted
        self.imports = [_Told(*told) for told in _old_imports(nodes)]
        self.lists = list(_list_calls(nodes))

    def dotted(self, node: ast.AST) -> str:
        """The NKI name an expression spells, "" for anything else."""
        if isinstance(node, ast.Name):
            return self.meaning.get(node.id, "")
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value)
            return f"{base}.{node.attr}" if base else ""
        return ""

    def decorated(self, node: ast.AST) -> bool:
        """Whether nki.jit stands over a function."""
        return isinstance(node, Function) and any(
            self.dotted(d.func if isinstance(d, ast.Call) else d) == "nki.jit"
            for d in node.decorator_list)

    def kernels(self) -> list[Function]:
        """Functions that can only be device code: under nki.jit, or calling nisa themselves."""
        return [f for f in self.functions if self.decorated(f) or any(
            isinstance(n, ast.Call) and self.dotted(n.func).startswith("nki.isa.")
            for statement in f.body for n in _own(statement))]

    def found(self, start: list[Function], kernels: Iterable[Scope] = ()) -> list[_Told]:
        """Findings in `start` and in what it names in this file.

        kernels   those that take a caller's arguments, beside the ones under nki.jit
        """
        entry = {*kernels, *(f for f in start if self.decorated(f))}
        names = {node.name for node in entry}
        told = [*self.imports, *(_Told(line, "", _LIST_CALL.format(name))
                                 for line, name in self.lists if name in names)]
        front: list[Scope] = list(start)
        met = set(front)
        while front:
            node = front.pop()
            said, named = self._said(node, node in entry)
            told += said
            for name in named:
                held = self.top.get(name)
                if held and held not in met and not self.decorated(held):
                    met.add(held)
                    front.append(held)
        return sorted(set(told))

    def _said(self, node: Scope, entry: bool) -> tuple[list[_Told], list[str]]:
        """What is told of one definition, and the names that it uses."""
        if (node, entry) not in self.kept:
            said = self._class(node) if isinstance(node, ast.ClassDef) else self._function(
                node, entry)
            named = [inner.id for inner in _runs_all(node.body) if isinstance(inner, ast.Name)
                     and isinstance(inner.ctx, ast.Load)]
            self.kept[node, entry] = ([_Told(line, node.name, text) for line, text in said],
                                      list(dict.fromkeys(named)))
        return self.kept[node, entry]

    # --- what is refused -------------------------------------------------------------------

    def _class(self, node: ast.ClassDef) -> Iterator[tuple[int, str]]:
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if bases not in (["NKIObject"], ["Enum"]):
            yield node.lineno, (f"class {node.name}({', '.join(bases)}); a class inherits from "
                                f"nl.NKIObject and no other, or is an Enum. Make it one of those")
        for statement in node.body:
            if isinstance(statement, Function):
                yield from self._function(statement, False)

    def _function(self, node: Function, entry: bool) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.AsyncFunctionDef):
            yield node.lineno, f"async def; {GUIDE} plain functions. Drop async"
        if entry:
            yield from self._lists(node)
        tensors = self._tensors(node)
        dicts = {t.id for n in _runs_all(node.body) if isinstance(n, ast.Assign)
                 and (isinstance(n.value, ast.Dict) or (isinstance(n.value, ast.Call)
                      and ast.unparse(n.value.func) == "dict"))
                 for t in n.targets if isinstance(t, ast.Name)}
        for inner in (node, *_runs_all(node.body)):
            if isinstance(inner, Function) and inner.args.kwonlyargs:
                yield inner.lineno, (
                    f"the * before {inner.args.kwonlyargs[0].arg}; a signature has no keyword-only "
                    f"part (NKI 0.3). Drop the * and keep the defaults last")
            if isinstance(inner, ast.ClassDef):
                yield from self._class(inner)
        for inner in _runs_all(node.body):
            for text in self._construct(inner, tensors, dicts):
                yield getattr(inner, "lineno", node.lineno), text
        yield from self._loops(node)

    def _lists(self, node: Function) -> Iterator[tuple[int, str]]:
        args = node.args
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            if arg.annotation and re.match(r"(typing\.)?[Ll]ist\b", ast.unparse(arg.annotation)):
                yield arg.lineno, (f"{arg.arg} is a list; a kernel takes tuples (NKI 0.3). "
                                   f"Annotate and pass a tuple")
        for default in (*args.defaults, *(d for d in args.kw_defaults if d)):
            if isinstance(default, ast.List):
                yield default.lineno, (f"the default {ast.unparse(default)} is a list; a kernel "
                                       f"takes tuples (NKI 0.3). Write a tuple")

    def _construct(self, node: ast.AST, tensors: set[str], dicts: set[str]) -> Iterator[str]:
        if isinstance(node, ast.Compare):
            if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
                yield "`is`; the compiler has no identity (NKI 0.3). Write == or !="
        elif isinstance(node, ast.With):
            for item in node.items:
                called = item.context_expr
                name = self.dotted(called.func) if isinstance(called, ast.Call) else ""
                if not name.endswith(".no_reorder"):
                    yield (f"with {ast.unparse(called)}; {GUIDE} nl.no_reorder() alone. "
                           f"Write the block without it")
        elif isinstance(node, ast.Dict):
            yield from (_key(key) for key in node.keys if _no_string(key))
        elif isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, bytes | complex):
                yield (f"{value!r}; values are None, bool, int32, fp32, str and tensors. "
                       f"Use one of those")
            elif isinstance(value, int) and not -2**31 <= value < 2**32:
                yield f"{value}; an integer has 32 bits. Use a smaller one or a float"
        elif isinstance(node, ast.Call):
            yield from self._call(node, tensors)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if node.value.id in dicts and _no_string(node.slice):
                yield _key(node.slice)
        elif isinstance(node, ast.stmt | ast.expr) and not isinstance(node, _LISTED):
            said = _UNLISTED.get(type(node))
            yield said.format(GUIDE) if said else _ANY.format(type(node).__name__.lower(), GUIDE)
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            read = next((n for n in _truths(node.test) if _reads(n, tensors)), None)
            if read is not None:
                yield _value(ast.unparse(read))

    def _call(self, node: ast.Call, tensors: set[str]) -> Iterator[str]:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        held = self.top.get(name)
        if held and self.decorated(held):
            yield (f"{name} is under nki.jit and called from a kernel; sub-kernels are plain "
                   f"functions. Drop its decorator and launch it with nki.jit({name})")
        elif name == "breakpoint":
            yield "breakpoint; it stops a simulator, not a device. Remove it"
        read = (node.args[0] if name in ("int", "float", "bool") and node.args else
                node.func.value if isinstance(node.func, ast.Attribute)
                and node.func.attr in ("item", "tolist", "numpy") else None)
        if read and _reads(read, tensors):
            yield _value(ast.unparse(node))

    def _tensors(self, node: Function) -> set[str]:
        """Names that only ever hold a tensor which nl made."""
        kinds: dict[str, set[bool]] = {}
        for inner in _runs_all(node.body):
            if isinstance(inner, ast.Assign):
                made = isinstance(inner.value, ast.Call) and self.dotted(inner.value.func)
                is_tensor = bool(made) and str(made).removeprefix("nki.language.") in _TENSORS
                for target in inner.targets:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                            kinds.setdefault(name.id, set()).add(
                                is_tensor and isinstance(target, ast.Name))
            elif isinstance(inner, ast.AugAssign | ast.AnnAssign | ast.For):
                for name in ast.walk(inner.target):
                    if isinstance(name, ast.Name):
                        kinds.setdefault(name.id, set()).add(False)
        return {name for name, kind in kinds.items() if kind == {True}}

    def _loops(self, node: Function) -> Iterator[tuple[int, str]]:
        """Loops on the device: where they may stand, what their bodies return."""
        bodies = {n.name: n for n in ast.walk(node) if isinstance(n, Function)}
        for inner in _runs_all(node.body):
            if isinstance(inner, ast.With) and "no_reorder" in ast.unparse(inner.items[0]):
                for call in _runs_all(inner.body):
                    if isinstance(call, ast.Call) and self._loop(call) in _LOOPS:
                        yield call.lineno, (
                            f"{self._loop(call)} under nl.no_reorder(); a loop on the device "
                            f"cannot stand there. Put no_reorder inside its body")
            elif isinstance(inner, ast.Call) and self._loop(inner) == "fori_loop":
                given = [*inner.args[2:3], *(k.value for k in inner.keywords
                                             if k.arg == "body_fun")]
                held = next((bodies.get(n.id) for n in given if isinstance(n, ast.Name)), None)
                for last in _runs_all(held.body) if held else ():
                    if isinstance(last, ast.Return) and last.value:
                        yield last.lineno, (f"{ast.unparse(last)} in a fori_loop body; a body "
                                            f"returns nothing. Keep the value in SBUF or HBM")

    def _loop(self, call: ast.Call) -> str:
        name = self.dotted(call.func)
        return name.removeprefix("nki.language.") if name.startswith("nki.language.") else ""


_LIST_CALL = "{} is called with a list; kernels take tuples (NKI 0.3). Write ( ) for [ ]"


def _old_imports(nodes: list[ast.AST]) -> Iterator[tuple[int, str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            if any(f"{inside}{alias.name}".startswith("neuronxcc.nki") for alias in node.names):
                yield node.lineno, "", ("neuronxcc.nki; an error since Neuron SDK 2.30. "
                                        "Import nki, nki.isa and nki.language")


def _list_calls(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Calls of a name with a list among the arguments: line and name."""
    for node in nodes:
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            given = [*node.args, *(k.value for k in node.keywords)]
            if isinstance(called, ast.Name) and any(
                    isinstance(a, ast.List | ast.ListComp) for a in given):
                yield node.lineno, called.id


def _plain(dotted: str) -> str:
    return dotted.removeprefix("roofline.")


def _key(key: ast.AST | None) -> str:
    return f"the dict key {ast.unparse(key) if key else ''}; keys are strings. Use a list instead"


def _value(what: str) -> str:
    return (f"{what} reads a tensor's elements; they are not known when the kernel is compiled. "
            f"Compute on the device, or pass the value as an argument")


def _no_string(key: ast.AST | None) -> bool:
    """Whether a dict key is written down and is no string."""
    return (isinstance(key, ast.Constant) and not isinstance(key.value, str)) or isinstance(
        key, ast.Tuple)


def _truths(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition that must be known."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _truths(value)
    elif isinstance(test, ast.UnaryOp):
        yield from _truths(test.operand)
    elif isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        if not any(isinstance(s, ast.Constant) and s.value is None for s in sides):
            yield from sides
    else:
        yield test


def _reads(node: ast.AST, tensors: set[str]) -> bool:
    """Whether an expression is elements of a tensor: the tensor itself, or a part of it."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id in tensors


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """What the compiler sees of a statement: no annotations, no decorators."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _runs(child)


def _runs_all(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for statement in body:
        yield from _runs(statement)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """A statement's nodes, without those of functions inside it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Scope):
            yield from _own(child)
