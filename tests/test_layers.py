"""Who may import whom: only lower layers, never sideways; the core stays plain Python."""

import ast
import subprocess
import sys

import pytest
from pages import ROOT

LIB = ROOT / "lib" / "roofline"
# Numbers as in CONTRIBUTING.md. A package counts as one module.
LAYERS = {
    "units": 0, "table": 0,
    "count": 1, "machine": 1, "check": 1, "guess": 1, "timeline": 1,
    "ops": 2, "loopnest": 2, "derate": 2, "sheet": 2, "nki": 2, "profile": 2, "gaps": 2,
    "problems": 3, "clockwork": 3, "neuroncore": 3,
    "plot": 4, "figures": 4, "device": 4,
    "commands": 5,
    "__main__": 6,
}
PLAIN = ("units", "table", "count", "machine", "ops", "loopnest", "derate", "sheet", "check",
         "guess", "problems", "clockwork")
HEAVY = ("numpy", "matplotlib", "numba", "psutil", "threadpoolctl", "pyarrow", "ml_dtypes")

FILES = sorted(p for p in LIB.rglob("*.py") if p != LIB / "__init__.py")
each_file = pytest.mark.parametrize("path", FILES,
                                    ids=lambda p: p.relative_to(LIB).as_posix())


def module(path) -> str:
    """The module, or the package, that a file belongs to."""
    return path.relative_to(LIB).parts[0].removesuffix(".py")


def imports(path) -> set[tuple[str, ...]]:
    """What a file imports, as dotted names split at the dots; relative ones made absolute.

    Names that only a type checker needs, under `if TYPE_CHECKING:`, load nothing.
    """
    here = ("roofline", *path.relative_to(LIB).with_suffix("").parts)
    found = set()
    tree = ast.parse(path.read_text())
    typing_only = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.If)
                   and ast.unparse(node.test).endswith("TYPE_CHECKING")
                   for statement in node.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # from .x import y in a package's __init__ is relative to the package itself
            base = here[:len(here) - node.level] if node.level else ()
            name = base + tuple((node.module or "").split(".") if node.module else ())
            found |= {(*name, alias.name) for alias in node.names}
    return found


def test_every_module_has_a_layer():
    assert {module(path) for path in FILES} <= set(LAYERS)


@each_file
def test_imports_come_from_lower_layers(path):
    mine = module(path)
    for name in imports(path):
        if name[0] == "roofline" and len(name) > 1 and name[1] in LAYERS and name[1] != mine:
            assert LAYERS[name[1]] < LAYERS[mine], f"{mine} imports {name[1]}"


@each_file
def test_matplotlib_is_imported_by_plot_alone(path):
    if module(path) != "plot":
        assert not [name for name in imports(path) if name[0] == "matplotlib"]


@each_file
def test_nothing_reaches_the_network_or_a_notebook(path):
    heads = {name[0] for name in imports(path)}
    if path.name == "lease.py":  # a socket of this machine, and no other
        heads -= {"socket"}
        assert "AF_UNIX" in path.read_text() and "AF_INET" not in path.read_text()
    assert not heads & {"urllib", "http", "socket", "requests", "nbformat"}


@each_file
def test_the_core_is_plain_python(path):
    if module(path) in PLAIN:
        assert not {name[0] for name in imports(path)} & set(HEAVY)


def test_importing_the_core_loads_nothing_heavy():
    """In a process of its own: what an import drags in, however it is spelled."""
    core = [name for name in PLAIN if (LIB / f"{name}.py").exists() or (LIB / name).exists()]
    script = (f"import sys; from roofline import {', '.join(core)}; "
              f"print(sorted(set(sys.modules) & set({HEAVY!r})))")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@each_file
def test_a_module_explains_itself(path):
    """The first lines say the question, the answer, what is assumed, what is left out."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert doc, f"{path.name}: no docstring"
    if path.parent == LIB:
        for word in ("Question", "Answer", "Assumes", "Ignores"):
            assert f"\n{word} " in doc, f"{path.name}: its docstring has no line {word!r}"
