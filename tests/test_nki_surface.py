"""NKI's documented names: the table, the stand-ins for what has no rule, and how much is ours."""

import ast
import importlib
import inspect
import os
import textwrap
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from pages import ROOT

from roofline import nki
from roofline.count import Uncounted
from roofline.nki.surface import (
    Part,
    Surface,
    documented,
    implemented,
    stub,
    surface,
)

LIB = ROOT / "lib" / "roofline"
EMPTY = inspect.Parameter.empty
# Constructors are left out: they take a handle of the backend's own.
FUNCTIONS = [(namespace, name) for namespace, names in documented().items()
             for name in names.functions if name != "__init__"]
VALUES = [(namespace, name) for namespace, names in documented().items()
          for name in (*names.enums, *names.values, *names.classes)]
ENUMS = [(namespace, name) for namespace, names in documented().items() for name in names.enums]


def ours(namespace: str):
    """Our module or object that stands for a documented namespace."""
    *_, inside = namespace.partition("nki")
    module, *rest = inside.lstrip(".").split(".")
    found = importlib.import_module(f"roofline.nki.{module}" if module else "roofline.nki")
    for name in rest:
        found = getattr(found, name)
    return found


def is_stub(function) -> bool:
    return hasattr(function, "uncounted")


def signature(namespace: str, name: str) -> inspect.Signature:
    return inspect.signature(stub(namespace, name))


def parameters(function) -> list[tuple]:
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


# --- the table ------------------------------------------------------------------------------

@pytest.mark.parametrize(("namespace", "name", "text"), [
    ("nki", "jit", "(fn=None, **kwargs)"),
    ("nki.isa", "rand2", "(dst, min, max, name=None)"),
    ("nki.isa", "register_alloc", "(x=None)"),
    ("nki.language", "program_ndim", "()"),
    ("nki.language", "rms_norm", "(x, w, axis, n, epsilon=1e-06, dtype=None, compute_dtype=None)"),
    ("nki.language.NkiTensor", "slice", "(self, dim, start, end, step=1)"),
    ("nki.isa.NkiInstruction", "depends_on", "(self, *producers)"),
    ("nki.collectives", "collective_permute_implicit_current_processing_rank_id",
     "(iteration_id, replica_group, channel_id=0, name=None)"),
])
def test_a_signature_reads_as_documented(namespace, name, text):
    assert str(signature(namespace, name)) == text


def test_defaults_are_the_objects_they_name():
    isa, nl = nki.isa, nki.language
    by_name = signature("nki.isa", "nc_matmul").parameters
    assert by_name["perf_mode"].default is isa.matmul_perf_mode.none
    assert by_name["tile_position"].default == ()
    assert signature("nki.isa", "affine_select").parameters["cmp_op"].default is nl.equal
    assert signature("nki.language", "ndarray").parameters["buffer"].default is nl.sbuf


def test_the_table_is_the_documentation():
    """With NKI_DOCS at a checkout of aws-neuron-sdk (the folder that holds nki/api/nki)."""
    docs = os.environ.get("NKI_DOCS")
    if not docs:
        pytest.skip("NKI_DOCS names no checkout of aws-neuron-sdk")
    table = tomllib.loads((LIB / "nki" / "surface.toml").read_text())
    for module in ("nki", "isa", "language", "collectives"):
        path = Path(docs, "nki/api/nki", *([module] if module != "nki" else []), "__init__.py")
        assert table.pop(module) == read(path), path
    assert set(table) == {"version", "sdk"}


def read(path: Path) -> dict:
    """A stub file of the documentation as the tables of surface.toml."""
    found: dict = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = spelled(node)
        elif isinstance(node, ast.AnnAssign) and node.target.id != "tile_size":
            found.setdefault("values", {})[node.target.id] = ast.unparse(node.annotation)
        elif isinstance(node, ast.Assign) and ast.unparse(node.value) == "...":
            found.setdefault("values", {})[node.targets[0].id] = ""
        elif isinstance(node, ast.ClassDef) and [ast.unparse(b) for b in node.bases] == ["Enum"]:
            found.setdefault("enums", {})[node.name] = {
                each.targets[0].id: each.value.value for each in node.body
                if isinstance(each, ast.Assign)}
        elif isinstance(node, ast.ClassDef):
            # the pages call the class of tile_size by its object's name
            name = {"_TileSize": "tile_size"}.get(node.name, node.name)
            found.setdefault("classes", {})[name] = members(node)
    return found


def members(node: ast.ClassDef) -> dict:
    attributes, methods = [], {}
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            attributes.append(each.target.id)
        elif isinstance(each, ast.Assign):
            attributes.append(each.targets[0].id)
        elif isinstance(each, ast.FunctionDef) and each.decorator_list:
            attributes.append(each.name)
        elif isinstance(each, ast.FunctionDef):
            methods[each.name] = spelled(each)
    return methods | ({"attributes": attributes} if attributes else {})


def spelled(node: ast.FunctionDef) -> str:
    """The parameters without annotations."""
    for each in ast.walk(node.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return ast.unparse(node.args)


def test_the_table_is_packaged():
    settings = tomllib.loads((ROOT / "lib" / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["roofline"]
    packaged = {path for pattern in patterns for path in LIB.glob(pattern)}
    assert set(LIB.rglob("*.toml")) <= packaged


# --- our names against the table ------------------------------------------------------------

@pytest.mark.parametrize(("namespace", "name"), FUNCTIONS)
def test_a_function_is_called_as_documented(namespace, name):
    """Names, order, kinds, defaults; any default will do where theirs is not documented."""
    mine = parameters(getattr(ours(namespace), name))
    theirs = parameters(stub(namespace, name))
    assert [p[:2] for p in mine] == [p[:2] for p in theirs]
    for (parameter, _, got), (_, _, documented_default) in zip(mine, theirs, strict=True):
        if documented_default is ...:
            assert got is not EMPTY
        else:
            assert got == documented_default, parameter


@pytest.mark.parametrize(("namespace", "name"), VALUES)
def test_a_value_is_there_or_says_that_it_is_not(namespace, name):
    if name in surface()[namespace].missing:
        with pytest.raises(Uncounted, match=name):
            getattr(ours(namespace), name)()  # a class is there, and refuses to be built
    elif namespace != "nki.language.NkiTensor":  # an attribute of tensors, not of their class
        assert hasattr(ours(namespace), name)


@pytest.mark.parametrize(("namespace", "name"), ENUMS)
def test_an_enum_has_the_documented_members(namespace, name):
    found = {member.name: member.value for member in getattr(ours(namespace), name)}
    assert found == documented()[namespace].enums[name]


def test_no_rule_of_ours_only_refuses():
    """A function whose whole body raises would count as implemented; a stub says it better."""
    hollow = set()
    for namespace, name in FUNCTIONS:
        function = getattr(ours(namespace), name)
        if inspect.isfunction(function) and not is_stub(function):
            node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
            first = node.body[1 if ast.get_docstring(node) is not None else 0]
            if isinstance(first, ast.Raise):
                hollow.add(name)
    assert not hollow


# --- names without a rule -------------------------------------------------------------------

@pytest.mark.parametrize(("namespace", "name"), FUNCTIONS)
def test_a_stub_takes_the_documented_call_and_refuses_it(namespace, name):
    standin = stub(namespace, name)
    needed = [p.name for p in inspect.signature(standin).parameters.values()
              if p.default is EMPTY and p.kind is p.POSITIONAL_OR_KEYWORD]
    with pytest.raises(Uncounted, match=rf"^{namespace}\.{name}: not counted: .*\. .*\.$"):
        standin(*needed)
    with pytest.raises(Uncounted):
        standin(**dict.fromkeys(needed))
    if needed:
        with pytest.raises(TypeError, match=needed[-1]):
            standin(*needed[:-1])
    if "kwargs" not in inspect.signature(standin).parameters:
        with pytest.raises(TypeError, match="mask"):
            standin(*needed, mask=None)


def test_a_stub_says_what_it_is():
    standin = stub("nki.language.NkiTensor", "indirect")
    assert (standin.__module__, standin.__qualname__) == ("nki.language", "NkiTensor.indirect")
    assert standin.__name__ == "indirect"


def test_a_refused_call_names_its_line_of_the_kernel():
    rng = stub("nki.isa", "rng")

    def kernel(x):
        rng(x)  # this line
        return x

    with pytest.raises(Uncounted, match=r"^nki\.isa\.rng: not counted(.|\n)*: rng\(x\)  # this"):
        nki.run(kernel, ((128, 1), "float32"), target="trn2", data=False)


def test_a_class_is_refused_when_built_and_a_constant_when_asked_for():
    group = stub("nki.collectives", "ReplicaGroup")
    with pytest.raises(Uncounted, match=r"^nki\.collectives\.ReplicaGroup: not counted"):
        group([[0, 1]])
    with pytest.raises(Uncounted, match=r"^nki\.language\.tile_size\.sbuf_min_align: not counted"):
        stub("nki.language.tile_size", "sbuf_min_align")
    with pytest.raises(Uncounted):
        stub("nki.isa", "dge_mode")


@pytest.mark.parametrize("namespace", ["nki", "nki.isa", "nki.language", "nki.collectives"])
def test_an_unknown_name_is_no_attribute(namespace):
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ours(namespace).no_such_name
    with pytest.raises(AttributeError, match="no_such_name"):
        stub(namespace, "no_such_name")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(AttributeError, match="Did you mean nc_matmul"):
        stub("nki.isa", "nc_matmull")


# --- how much is ours -----------------------------------------------------------------------

def test_every_documented_name_is_ours_or_missing():
    for namespace, part in surface().items():
        assert part.namespace == namespace
        assert sorted((*part.implemented, *part.missing)) == sorted(documented()[namespace].all)


def test_missing_means_that_a_call_is_refused():
    refused = {(namespace, name) for namespace, name in FUNCTIONS
               if is_stub(getattr(ours(namespace), name))}
    assert refused == {(namespace, name) for namespace, part in surface().items()
                       for name in part.functions.missing}


def test_a_stub_or_a_borrowed_function_is_not_ours():
    def rule():
        """Stands for a function of this package."""

    rule.__module__ = "roofline.nki.isa"
    module = SimpleNamespace(rule=rule, copy=importlib, sin=print, rand=stub("nki.isa", "rand2"),
                             average=None, prelu="prelu")
    assert [name for name in vars(module) if implemented(module, name)] == ["rule"]
    assert implemented(module, "prelu", called=False)
    assert not implemented(module, "bypass", called=False)
    assert not implemented(importlib.import_module("roofline.nki.collectives"), "ReplicaGroup")


def test_a_class_counts_its_slots_properties_and_annotations():
    class Tensor:
        __slots__ = ("shape",)
        dtype: str
        indirect = stub("nki.language.NkiTensor", "indirect")

        @property
        def size(self):
            return 1

    names = ("shape", "dtype", "size", "indirect", "strides", "__init__")
    assert [name for name in names if implemented(Tensor, name)] == ["shape", "dtype", "size"]


def test_a_surface_prints_counts_and_shares():
    half = Surface({"nki.isa": Part("nki.isa", ("nc_matmul", "engine"), ("rand2", "topk"))})
    row = repr(half).splitlines()[1].split()
    # one of three functions; with the enum, two of four names
    assert row == ["nki.isa", "1", "of", "3", "33%", "2", "of", "4", "50%"]
    assert half["nki.isa"].functions.missing == ("rand2", "topk")
    with pytest.raises(KeyError, match=r"nki\.nl.*nki\.isa"):
        half["nki.nl"]
