"""Python that runs here and that no NKI document lets a kernel use.

Question  a simulator takes any Python; which lines of this kernel may not compile?
Answer    of(kernel, traces): lines, construct, what the documents allow, next step
Assumes   the language guide's constructs and the migration guide's restrictions, NKI 0.6
Ignores   what a run refuses itself, such as a tensor as a condition; host code around the kernels
"""

import ast
import inspect
import linecache
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .source import HERE

Function = ast.FunctionDef | ast.AsyncFunctionDef
# Ours, Python's and what is installed: no code of a kernel, unless an instruction comes from there.
_ELSEWHERE = (str(Path(HERE).parent),
              *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))

# What the language guide (get-started/nki-language-guide.rst) has no place for.
_UNLISTED: dict[type[ast.AST], str] = {
    ast.ListComp: "a list comprehension; {} lists filled by append. Write the loop",
    ast.SetComp: "a set comprehension; {} lists, tuples and dicts. Fill a list in a loop",
    ast.DictComp: "a dict comprehension; {} dicts filled by assignment. Write the loop",
    ast.GeneratorExp: "a generator; {} lists filled by append. Write the loop",
    ast.Set: "a set; {} lists, tuples and dicts. Use a tuple",
    ast.Lambda: "a lambda; {} functions as values. Give it a name with def",
    ast.Try: "try; {} no exceptions. Check with if or assert beforehand",
    ast.TryStar: "try; {} no exceptions. Check with if or assert beforehand",
    ast.Raise: "raise; {} assert. Write assert condition, message",
    ast.Yield: "yield; {} functions that return. Return a tuple or a list",
    ast.YieldFrom: "yield from; {} functions that return. Return a tuple or a list",
    ast.AsyncFunctionDef: "async def; {} plain functions. Drop async",
    ast.Global: "global; a kernel is a pure function of its arguments. Pass the value in",
    ast.Nonlocal: "nonlocal; {} values passed and returned. Pass the value in",
    ast.Delete: "del; {} none. Leave the name",
    ast.NamedExpr: "an assignment inside an expression; {} the statement. Assign on its own line",
    ast.Import: "an import inside the kernel; {} namespaces imported at the top. Move it",
    ast.ImportFrom: "an import inside the kernel; {} namespaces imported at the top. Move it",
    ast.Match: "match; {} if, elif, else. Write those",
}


def of(kernel: Callable, traces: Iterable[Any] = ()) -> list[str]:
    """What the NKI documents do not allow, one text a construct, with all its lines.

    kernel   a function or kernel; read with what it calls, and the classes named in its file
    traces   of its run: functions that issued instructions are read as well

    One reads: line 3 of k: `is`; the compiler has no identity (NKI 0.3). Write == or !=
    """
    told: dict[tuple[str, int, str], str] = {}
    for code, entry, kernels in _codes(kernel, traces):
        key = id(code), entry, kernels
        if key not in _TOLD:
            _TOLD[key] = code, _told(code, entry, kernels)
        for line, scope, text in _TOLD[key][1]:
            told.setdefault((code.co_filename, line, text), scope)
    places: dict[str, dict[str, list[int]]] = {}
    for (_, line, text), scope in sorted(told.items()):
        places.setdefault(text, {}).setdefault(scope, []).append(line)
    return [f"{'; '.join(_place(*place) for place in each.items())}: {text}"
            for text, each in places.items()]


def _place(scope: str, lines: list[int]) -> str:
    return f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))} of {scope}"


def names(code: CodeType) -> set[str]:
    """Every global and attribute a function's code names, its inner functions' too."""
    return set(code.co_names).union(*(
        names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _codes(kernel: Any, traces: Iterable[Any]) -> Iterator[tuple[CodeType, bool, frozenset[str]]]:
    """What to read: code, whether it is the kernel's own, names in it that nki.jit made."""
    issued = {id(site.code): site.code for trace in traces for _, site in trace.totals}
    first = inspect.unwrap(kernel)
    front, met = [first], set()
    while front:
        function = front.pop()
        code = getattr(function, "__code__", None)
        if code is None or id(code) in met or code.co_filename.startswith(_ELSEWHERE):
            continue
        met.add(id(code))
        used = names(code)
        held = {name: function.__globals__[name] for name in used & function.__globals__.keys()}
        yield code, function is first, frozenset(
            name for name, value in held.items() if hasattr(type(value), "with_schedule"))
        for value in held.values():
            inside = map(vars(value).get, used) if isinstance(value, ModuleType) else [value]
            front += [v for v in inside if isinstance(v, FunctionType)]
    for key in issued.keys() - met:
        yield issued[key], False, frozenset()


@dataclass(frozen=True, eq=False)
class _File:
    """The functions of one file, by name and first line as code has them, and its classes."""

    functions: dict[tuple[str, int], Function]
    classes: dict[str, ast.ClassDef]


# By the code's id, as its own hash reads all of it; kept with it, so no id comes twice.
_TOLD: dict[tuple[int, bool, frozenset[str]], tuple[CodeType, list[tuple[int, str, str]]]] = {}


@lru_cache(maxsize=64)
def _file(text: str) -> _File:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = ast.Module([], [])
    return _File({(f.name, min([f.lineno, *(d.lineno for d in f.decorator_list)])): f
                  for f in ast.walk(tree) if isinstance(f, Function)},
                 {c.name: c for c in tree.body if isinstance(c, ast.ClassDef)})


def _told(code: CodeType, entry: bool, kernels: frozenset[str]) -> list[tuple[int, str, str]]:
    """Line, scope and text of each finding in a function and in the classes that it names."""
    file = _file("".join(linecache.getlines(code.co_filename)))
    name, first = code.co_name, code.co_firstlineno
    if (name, first) not in file.functions:
        return []
    node = file.functions[name, first]
    named = {inner.id for inner in _runs(node) if isinstance(inner, ast.Name)}
    held = {name: node, **{n: file.classes[n] for n in named & file.classes.keys()}}
    found = [(getattr(inner, "lineno", first), scope, text) for scope in held
             for inner in _runs(held[scope]) for text in _construct(inner, kernels)]
    return found + [(line, name, text) for line, text in _lists(node.args) if entry]


def _runs(node: ast.AST) -> Iterator[ast.AST]:
    """What the compiler sees: no annotations, no decorators."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _runs(child)


def _construct(node: ast.AST, kernels: frozenset[str]) -> Iterator[str]:
    if type(node) in _UNLISTED:
        yield _UNLISTED[type(node)].format("the language guide lists")
    elif isinstance(node, ast.Compare):
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            yield "`is`; the compiler has no identity (NKI 0.3). Write == or !="
    elif isinstance(node, ast.With):
        for called in (ast.unparse(item.context_expr) for item in node.items):
            if not called.partition("(")[0].endswith("no_reorder"):
                yield (f"with {called}; the language guide lists nl.no_reorder() alone. Write the "
                       f"block without it")
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if (isinstance(key, ast.Constant) and not isinstance(key.value, str)) or isinstance(
                    key, ast.Tuple):
                yield f"the dict key {ast.unparse(key)}; keys are strings. Use a list instead"
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bytes | complex):
            yield f"{value!r}; values are None, bool, int32, fp32, str, tensors. Use one of those"
        elif isinstance(value, int) and not -2**31 <= value < 2**32:
            yield f"{value}; an integer has 32 bits. Use a smaller one or a float"
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and (name := node.func.id) in kernels:
            yield (f"{name} is under nki.jit and called from a kernel; sub-kernels are plain "
                   f"functions. Drop its decorator and launch it with nki.jit({name})")
    elif isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        if bases not in (["NKIObject"], ["Enum"]):
            yield (f"class {node.name}({', '.join(bases)}); a class inherits from nl.NKIObject and "
                   f"no other, or is an Enum. Make it one of those")
    elif isinstance(node, ast.FunctionDef) and node.args.kwonlyargs:
        yield (f"the * before {node.args.kwonlyargs[0].arg}; a signature has no keyword-only part "
               f"(NKI 0.3). Drop the * and keep the defaults last")


def _lists(args: ast.arguments) -> Iterator[tuple[int, str]]:
    """What of a kernel's parameters is meant for a list."""
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        if arg.annotation and re.match(r"(typing\.)?[Ll]ist\b", ast.unparse(arg.annotation)):
            yield arg.lineno, (f"{arg.arg} is a list; a kernel takes tuples (NKI 0.3). Annotate "
                               f"and pass a tuple")
    for default in (*args.defaults, *args.kw_defaults):
        if isinstance(default, ast.List):
            yield default.lineno, (f"the default {ast.unparse(default)} is a list; a kernel takes "
                                   f"tuples (NKI 0.3). Write a tuple")
