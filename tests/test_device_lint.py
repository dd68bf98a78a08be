"""What the device part may not do, read from its source.

No host clock is around a kernel: times come from the profiler's timeline. No legacy namespace.
Every call of NKI's names is one that NKI documents: it binds to the signature in nki/surface.toml.
"""

import ast
import inspect
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from pages import ROOT, cell_source

from roofline.nki.surface import documented

DEVICE = ROOT / "lib" / "roofline" / "device"
HOST = {"host.py", "host_kernels.py", "rounds.py"}  # the CPU's part: a host clock is its subject
KERNELS = sorted([*ROOT.glob("day*/kernels.py"), *ROOT.glob("casestudy*/kernels.py")])
MODULES = sorted(path for path in DEVICE.glob("*.py") if path.name not in HOST)
NOTEBOOKS = sorted([*ROOT.glob("day*/*.ipynb"), *ROOT.glob("casestudy*/*.ipynb")])
CLOCKS = {"time", "timeit"}  # modules
TICKS = {"perf_counter", "perf_counter_ns", "process_time", "monotonic", "monotonic_ns", "time_ns",
         "thread_time", "getrusage", "clock_gettime", "cpu_times", "Timer", "timeit"}
METHODS = {"time", "times", "timestamp"}  # loop.time(), os.times(), moment.timestamp()
GONE = {"benchmark", "baremetal", "profile", "simulate_kernel"}  # of nki: they timed, once
# torch_neuronx.trace: what use-neuron-profile.rst passes to it
TRACE = "func, example_inputs, compiler_workdir=None, compiler_args=None"


def parsed(path: Path) -> list[tuple[str, ast.Module]]:
    """(place, tree) of a module, or of each code cell of a notebook."""
    if path.suffix == ".py":
        return [(path.name, ast.parse(path.read_text()))]
    cells = json.loads(path.read_text())["cells"]
    return [(f"{path.name}, cell {i}", ast.parse(plain(cell_source(cell))))
            for i, cell in enumerate(cells) if cell["cell_type"] == "code"]


def plain(source: str) -> str:
    """A cell's Python; a line magic is a call of its name, `%%timeit` of the whole cell."""
    return "\n".join(f"magic({line!r})" if line.lstrip().startswith(("%", "!")) else line
                     for line in source.splitlines())


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, name in it or "") of every import, also by importlib and __import__."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__") and (
                node.args and isinstance(node.args[0], ast.Constant)):
            yield str(node.args[0].value), ""


def called(node: ast.Call) -> str:
    """Last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else (
        node.func.id if isinstance(node.func, ast.Name) else "")


def moment(node: ast.AST) -> bool:
    """Whether it says what time it is, or when a file was written: a date, until two meet."""
    if isinstance(node, ast.Attribute):
        return node.attr.startswith(("st_mtime", "st_ctime", "st_atime"))
    return isinstance(node, ast.Call) and (called(node) in ("now", "utcnow") or (
        called(node) == "datetime64" and "'now'" in map(ast.unparse, node.args)))


def tick(node: ast.AST) -> bool:
    """Whether it reads a clock."""
    return (isinstance(node, ast.Attribute) and node.attr in TICKS) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        and node.func.attr in METHODS)


def clocks(tree: ast.AST) -> list[str]:
    """Host clocks in a tree: imports, ticks, magics, and moments that could be subtracted."""
    found = [f"import {module}" for module, name in imported(tree)
             if module.partition(".")[0] in CLOCKS or name in TICKS]
    for node in ast.walk(tree):
        if tick(node) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
                          and any(map(moment, ast.walk(node)))):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Call) and called(node) == "magic" and "time" in ast.unparse(node):
            found.append(ast.unparse(node))
        elif isinstance(node, (ast.FunctionDef, ast.Lambda)):
            calls = [inner for inner in ast.walk(node)
                     if isinstance(inner, ast.Call) and moment(inner)]
            if len(calls) > 1:  # one is a date, two are a clock
                found.append(f"line {node.lineno}: two moments in one function")
    return found


def legacy(tree: ast.AST) -> list[str]:
    """Imports of neuronxcc, and what NKI had there and has no more."""
    found = [module for module, _ in imported(tree) if module.partition(".")[0] == "neuronxcc"]
    return found + [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)
                    and node.attr in GONE and isinstance(node.value, ast.Name)
                    and node.value.id == "nki"]


# --- names of NKI -------------------------------------------------------------------------------


def aliases(tree: ast.AST) -> dict[str, str]:
    """Name in the file -> the namespace of NKI that it is: {"nisa": "nki.isa"}."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in documented() or alias.name == "nki":
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else "nki")
        elif isinstance(node, ast.ImportFrom) and node.module in ("nki", "nki.isa"):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}"
                      for alias in node.names}
    return found


def dotted(node: ast.AST, known: dict[str, str]) -> str:
    """The whole name of an attribute chain from an alias on: "nki.isa.engine.sync"; else ""."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return ".".join([known[node.id], *names]) if isinstance(node, ast.Name) and (
        node.id in known) else ""


@cache
def signature(parameters: str) -> inspect.Signature:
    """Of documented text; a default is a text that nobody reads."""
    tree = ast.parse(f"def f({parameters}): pass")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.args.defaults = [ast.Constant(ast.unparse(d)) for d in function.args.defaults]
    made: dict = {}
    exec(compile(ast.fix_missing_locations(tree), "documented", "exec"), made)
    return inspect.signature(made["f"])


def binds(call: ast.Call, parameters: str, method: bool = False) -> str:
    """Why a call does not bind to these parameters; "" when it does."""
    starred = any(isinstance(arg, ast.Starred) for arg in call.args) or any(
        word.arg is None for word in call.keywords)
    given = [None] * method + [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    words = {word.arg: None for word in call.keywords if word.arg}
    how = signature(parameters)
    try:
        (how.bind_partial if starred else how.bind)(*given, **words)
    except TypeError as error:
        return f"line {call.lineno}: {ast.unparse(call.func)}({parameters}): {error}"
    return ""


def unbound(tree: ast.AST, known: dict[str, str] | None = None, tensors: bool = True) -> list[str]:
    """Names and calls of NKI in a tree that the documents do not have.

    known     aliases; those of the file's imports unless given
    tensors   whether a call of a method that a tensor has is one of a tensor's
    """
    known = aliases(tree) if known is None else known
    methods = documented()["nki.language.NkiTensor"].functions
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and (
                name := dotted(node, known)) and not exists(name):
            found.append(f"line {node.lineno}: {name}")
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Attribute, ast.Name)):
            continue
        space, _, last = dotted(node.func, known).rpartition(".")
        if space in documented() and last in documented()[space].functions:
            found.append(binds(node, documented()[space].functions[last]))
        elif tensors and not space and isinstance(node.func, ast.Attribute) and (
                node.func.attr in methods):
            found.append(binds(node, methods[node.func.attr], method=True))
    return [text for text in found if text]


def exists(name: str) -> bool:
    """Whether NKI documents this name: a namespace, a name in one, or a member of an enum."""
    if name in (*documented(), "nki.typing"):
        return True
    space, _, last = name.rpartition(".")
    if space == "nki.typing":
        return last == "tensor"
    if space in documented() and last in documented()[space].all:
        return True
    above, _, enum = space.rpartition(".")
    return above in documented() and last in documented()[above].enums.get(enum, {})


# --- the source ---------------------------------------------------------------------------------


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*KERNELS, *MODULES, *NOTEBOOKS], ids=named)
def test_no_host_clock_is_around_a_kernel(path):
    found = [f"{place}: {what}" for place, tree in parsed(path) for what in clocks(tree)]
    assert found == []


@pytest.mark.parametrize("path", [*KERNELS, *MODULES, *NOTEBOOKS], ids=named)
def test_no_legacy_namespace(path):
    found = [f"{place}: {what}" for place, tree in parsed(path) for what in legacy(tree)]
    assert found == []


@pytest.mark.parametrize("path", KERNELS, ids=named)
def test_calls_of_kernels_bind_to_documented_signatures(path):
    [(_, tree)] = parsed(path)
    assert {"nki", "nki.isa", "nki.language"} <= set(aliases(tree).values())
    assert unbound(tree) == []


def test_calls_of_the_worker_bind_to_documented_signatures():
    """It holds nki in a variable: it is imported where it is needed, and not before."""
    [(_, tree)] = parsed(DEVICE / "worker.py")
    assert unbound(tree, {"nki": "nki"}, tensors=False) == []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    jit = [node for node in calls if dotted(node.func, {"nki": "nki"}) == "nki.jit"]
    traces = [node for node in calls if called(node) == "trace"]
    assert jit and traces and [text for node in traces if (text := binds(node, TRACE))] == []
    modules = {name for name, _ in imported(tree)}
    assert {name for name in modules if name.partition(".")[0] in ("nki", "jax", "torch")} <= {
        "nki", "jax.numpy", "torch"}


def test_nothing_but_the_worker_imports_the_real_nki_or_a_framework():
    """A notebook's process never holds a core."""
    heads = {path.name: {name.partition(".")[0] for _, tree in parsed(path)
                         for name, _ in imported(tree)} for path in MODULES}
    own = {"nki", "jax", "torch", "torch_neuronx", "torch_xla", "neuronxcc", "nrtpy",
           "libneuronxla"}
    assert {name for name, found in heads.items() if found & own} == {"worker.py"}


def test_a_timeout_is_the_only_time_the_device_part_knows():
    """Every wait for a process has a limit, or comes after its end."""
    for path in MODULES:
        [(_, tree)] = parsed(path)
        runs = [node for node in ast.walk(tree) if isinstance(node, ast.Call)
                and called(node) in ("run", "check_output", "check_call", "communicate")
                and ast.unparse(node.func).startswith(("subprocess.", "process."))]
        assert all(any(word.arg == "timeout" for word in node.keywords) for node in runs), path.name


def test_the_table_is_of_the_version_that_kernels_are_for():
    table = tomllib.loads((ROOT / "lib/roofline/nki/surface.toml").read_text())
    assert table["version"] == "0.6.0" and table["sdk"] == "2.32.0"
    docs = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in KERNELS}
    assert all("NKI 0.6" in doc for doc in docs.values() if "Runs on" in doc)


# --- the lint finds what it is for --------------------------------------------------------------


@pytest.mark.parametrize("source", [
    "import time\nstart = time.perf_counter()", "from time import perf_counter as tick\ntick()",
    "import timeit", "from timeit import default_timer", "__import__('time').time()",
    "import importlib\nclock = importlib.import_module('time')",
    "import resource\nresource.getrusage(0)", "import psutil\npsutil.cpu_times()",
    "def f(k, x):\n    a = datetime.now()\n    k(x)\n    return datetime.now() - a",
    "start = datetime.datetime.now().timestamp()", "os.times().elapsed", "loop.time()",
    "os.stat(b).st_mtime_ns - os.stat(a).st_mtime_ns", "np.datetime64('now') - start",
    "def f(k, x):\n    a = datetime.now()\n    k(x)\n    b = datetime.now(UTC)\n    return b, a",
    plain("%timeit kernel(x)"), plain("%%time\nkernel(x)"), plain("  %time kernel(x)"),
])
def test_a_clock_is_found(source):
    assert clocks(ast.parse(source))


@pytest.mark.parametrize("source", [
    "entitled.times", "np.datetime64('2026-08-21')", "same = (path.stat().st_mtime_ns, 3)",
    "stamp = f'{datetime.now(UTC):%Y}'", "process.wait(timeout=3)", "profile.total_time",
    plain("%matplotlib inline"), "from datetime import UTC, datetime",
])
def test_what_is_no_clock_is_let_be(source):
    assert not clocks(ast.parse(source))


@pytest.mark.parametrize("source", [
    "import neuronxcc.nki as nki", "from neuronxcc import nki",
    "from neuronxcc.nki import language",
    "import importlib\nimportlib.import_module('neuronxcc.nki')", "import nki\nnki.benchmark(k)",
    "import nki\n@nki.baremetal\ndef k(x): pass",
])
def test_a_legacy_name_is_found(source):
    assert legacy(ast.parse(source))


HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"


@pytest.mark.parametrize("line", [
    "nisa.dma_copy(src=x)", "nisa.dma_copy(y, x, mask=m)", "nl.ndarray((1, 2))",
    "nl.arange(3)", "nisa.engine.turbo", "nisa.dge_mode.fast", "nl.float64", "nki.jit(f, 3)",
    "nisa.tensor_copy(y, x, nisa.engine.act)", "x.reshape()", "x.ap([[1, 2]], steps=3)",
    "nl.load(x, mask=m)", "nisa.nc_matmul(c, a)", "nl.tile_size.pmin", "nki.language.par_dim(3)",
])
def test_an_undocumented_call_is_found(line):
    assert unbound(ast.parse(HEAD + line))


@pytest.mark.parametrize("line", [
    "nisa.dma_copy(dst=y, src=x, engine=nisa.engine.sync)", "nl.tile_size.pmax", "nl.bfloat16",
    "nl.ndarray((1, 2), dtype=nl.float32, buffer=nl.psum)", "x.reshape((3, 4))", "banks.append(3)",
    "nki.jit(f)", "nisa.nc_matmul(dst=c, stationary=a, moving=b, accumulate=k > 0)",
    "nl.ds(*pair)", "nisa.dma_copy(**words)",
])
def test_a_documented_call_is_let_be(line):
    assert unbound(ast.parse(HEAD + line)) == []
