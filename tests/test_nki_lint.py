"""Python that runs on a simulator and does not compile: each construct is told, once, in a line."""

from textwrap import dedent, indent

import numpy as np
import pytest

from roofline import nki
from roofline.nki import isa as nisa
from roofline.nki import language as nl
from roofline.nki import lint

HEAD = ("from __future__ import annotations\n"
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n")


@pytest.fixture
def read(tmp_path):
    """What is told of a kernel in a file of this text."""
    def read(text, name="k"):
        (tmp_path / "kernels.py").write_text(text)
        return lint.of(getattr(nki.load(tmp_path / "kernels.py"), name))
    return read


@pytest.fixture
def body(read):
    """What is told of a kernel with this body, from its line 7 on."""
    def body(text):
        inside = indent(dedent(text), "    ")
        return read(f"{HEAD}@nki.jit\ndef k(x, flag=0):\n{inside}\n")
    return body


# What the language guide's own listings use: nothing to tell.
LISTED = """
    '''A kernel.'''
    assert x.shape[0] <= nl.tile_size.pmax, f"got {x.shape}"
    print(f"adding {x.dtype}")
    tiles, sizes = [], {"a": 1}
    sizes["b"] = 2
    i: int = 0
    while i < 4:
        i += 1
        if i % 2 == 0 and not flag:
            continue
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128:(i + 1) * 128, ::2, ...])
        tiles.append(tile)
    for tile in tiles:
        if tile.shape[0] > 1 and tile.dtype != nl.float32 and tile != None and x in tiles:
            pass
        elif tile.buffer == nl.sbuf:
            break
    with nl.no_reorder():
        for k, v in enumerate((1, 2)):
            nisa.tensor_scalar(dst=tiles[k], data=tiles[k], op0=nl.add, operand0=-1.0)
    def step(j):
        nisa.dma_copy(dst=tiles[0], src=x)
    nl.fori_loop(0, 4, step)
    pair = (tiles[0], *tiles[1:])
    return pair if flag else tiles[0]
"""


def test_what_the_guide_lists_is_fine(body):
    assert body(LISTED) == []


@pytest.mark.parametrize(("text", "said"), [
    ("if flag is None:\n    pass", "`is`; the compiler has no identity"),
    ("a = flag is not True", "`is`; the compiler has no identity"),
    ("a = [i for i in range(3)]", "a list comprehension; the language guide lists lists"),
    ("a = {i for i in range(3)}", "a set comprehension"),
    ("a = {str(i): i for i in range(3)}", "a dict comprehension"),
    ("a = sum(i for i in range(3))", "a generator"),
    ("a = {1, 2}", "a set; "),
    ("f = lambda t: t", "a lambda; the language guide lists functions as values"),
    ("try:\n    pass\nexcept ValueError:\n    pass", "try; "),
    ("raise ValueError(flag)", "raise; the language guide lists assert"),
    ("yield x", "yield; "),
    ("global counter", "global; a kernel is a pure function"),
    ("del x", "del; "),
    ("if (n := 3) > 2:\n    pass", "an assignment inside an expression"),
    ("import math", "an import inside the kernel"),
    ("from math import pi", "an import inside the kernel"),
    ("match flag:\n    case 0:\n        pass", "match; "),
    ("with open('x'):\n    pass", "with open('x'); the language guide lists nl.no_reorder() alone"),
    ("with nl.tile():\n    pass", "with nl.tile(); "),
    ("a = {1: x}", "the dict key 1; keys are strings"),
    ("a = {(0, 1): x, 'b': x}", "the dict key (0, 1); keys are strings"),
    ("a = 1j", "1j; values are None, bool, int32"),
    ("a = b'ab'", "b'ab'; values are"),
    ("a = 1 << 2 | 0x1_0000_0000", "4294967296; an integer has 32 bits"),
    ("class C:\n    a = 1", "class C(); a class inherits from nl.NKIObject and no other"),
    ("def inner(a, *, b):\n    pass", "the * before b; a signature has no keyword-only part"),
])
def test_what_no_document_lists(body, text, said):
    found = body(text)
    assert len(found) == 1, found
    assert f" of k: {said}" in found[0]
    assert found[0].startswith("line ") and "\n" not in found[0]


def test_the_line_is_the_constructs_own(body):
    assert body("a = 1\nb = (2,\n     flag is None)")[0].startswith("line 9 of k: ")


@pytest.mark.parametrize(("signature", "said"), [
    ("x, *, flag=True", "line 6 of k: the * before flag"),
    ("x, stride=[1, 1]", "line 6 of k: the default [1, 1] is a list; a kernel takes tuples"),
    ("x, perm: list", "line 6 of k: perm is a list; a kernel takes tuples"),
    ("x, perm: List[int]", "line 6 of k: perm is a list; a kernel takes tuples"),
])
def test_a_kernels_signature(read, signature, said):
    found = read(f"{HEAD}@nki.jit\ndef k({signature}):\n    return x\n")
    assert len(found) == 1 and found[0].startswith(said)


FILE = HEAD + """
import numpy as np
from enum import Enum
from dataclasses import dataclass

class Mode(Enum):
    a = 1

@dataclass
class Sizes(nl.NKIObject):
    p: int = 128
    def half(self):
        return [self.p for _ in range(2)]

class Plain:
    pass

class Two(nl.NKIObject, Plain):
    pass

@nki.jit(mode="jax")
def sub(t):
    return t

def helper(t):
    return None if t is None else Mode.a

@nki.jit
def kernel(x):
    helper(x)
    Sizes(64)
    Two()
    return sub(x)

def host(a):
    with open(a) as f:
        return [line for line in f if line is not None], Plain()
"""


def test_what_a_kernel_calls_is_read_and_the_host_is_not(read):
    def at(text):
        return FILE[:FILE.index(text)].count("\n") + 1

    assert [text.partition("; ")[0] for text in read(FILE, "kernel")] == [
        f"line {at('return [self.p')} of Sizes: a list comprehension",
        f"line {at('class Two')} of Two: class Two(NKIObject, Plain)",
        f"line {at('return None if')} of helper: `is`",
        f"line {at('return sub(x)')} of kernel: sub is under nki.jit and called from a kernel",
    ]


def test_a_function_without_a_decorator_is_read_too(read):
    assert len(read(HEAD + "def k(x, out):\n    return x is out\n")) == 1


def test_annotations_and_decorators_are_not_run(body):
    assert body("a: list[int] = 1\ndef f(t: [i for i in x]) -> {1: 2}:\n    return t") == []


# --- functions -------------------------------------------------------------------------------

def out_like(x):
    return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) if x is not None else None


@nki.jit
def through(x):
    out = out_like(x)
    tiles = [nl.load(part) for part in (x,)]
    nisa.dma_copy(out, tiles[0])
    return out


THROUGH = [f"line {out_like.__code__.co_firstlineno + 1} of out_like: `is`",
           f"line {through.function.__code__.co_firstlineno + 3} of through: a list comprehension"]


def test_a_kernel_object_and_what_it_calls():
    for kernel in (through, through.function, through[2]):
        assert [text.partition("; ")[0] for text in lint.of(kernel)] == THROUGH


def test_a_run_warns():
    run = nki.run(through, np.ones((4, 3), np.float32))
    assert [w for w in run.warnings if w in lint.of(through)] == lint.of(through)


@nki.jit
def twice(x):
    flag = x is None
    if x is flag or x is not None:
        return out_like(x)


def _move(dst, src):
    if src is not dst:
        nisa.dma_copy(dst, src)


MOVES = {"in": _move}


def moved(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    MOVES["in"](out, x)
    return out


def test_what_a_run_went_through_is_read():
    assert lint.of(moved) == []
    warned = nki.run(moved, np.ones((4, 3), np.float32)).warnings
    assert any(w.startswith(f"line {_move.__code__.co_firstlineno + 1} of _move: `is`")
               for w in warned)


def test_a_run_warns_once_a_construct():
    line, helper = (f.__code__.co_firstlineno for f in (twice.function, out_like))
    assert lint.of(twice) == [
        f"line {helper + 1} of out_like; lines {line + 2}, {line + 3} of twice: `is`; the compiler "
        f"has no identity (NKI 0.3). Write == or !="]


def test_an_installed_library_is_no_kernel():
    def kernel(x):
        return np.broadcast_shapes(x.shape, (1, 1))  # NumPy's own code has a comprehension

    assert isinstance(np.broadcast_shapes, type(kernel))
    assert lint.of(kernel) == []


def test_a_function_without_source_has_nothing_to_tell():
    namespace = {}
    exec("def k(x):\n    return x is None", namespace)
    assert lint.of(namespace["k"]) == lint.of(print) == []
