"""Kernel files on this backend, whatever they import, and nothing left in the interpreter."""

import builtins
import inspect
import os
import sys
from textwrap import dedent

import numpy as np
import pytest

from roofline import nki
from roofline.count import Uncounted
from roofline.nki.load import LoadError, load, rebind

COPY = """
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit
    def through(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out
"""
X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def write(tmp_path):
    """Write a file under tmp_path and return its path."""
    def write(text, name="kernels.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(map(dedent, [text] if isinstance(text, str) else text)))
        return path
    return write


@pytest.fixture
def installed(write, monkeypatch):
    """A package called nki, as on a Neuron instance: its instructions only say that they ran."""
    write("""
        import functools
        class Kernel:
            def __init__(self, function): self.func = function
            def __call__(self, *args): raise RuntimeError("the device")
        def jit(fn=None, **options): return Kernel(fn)
        def traced(fn):
            @functools.wraps(fn)
            def call(*args): raise RuntimeError("the device")
            return call
    """, "site/nki/__init__.py")
    write("""
        from . import _core
        class engine(_core.Enum):
            unknown = 0
            vector = 5
        dma_copy = _core.dma_copy
        memset = _core.memset
    """, "site/nki/isa/__init__.py")
    write("""
        from enum import Enum
        def dma_copy(dst, src): raise RuntimeError("the device")
        def memset(dst, value, engine=None): raise RuntimeError("the device")
        def extra(): raise RuntimeError("the device")
    """, "site/nki/isa/_core.py")
    write("""
        class Name:
            def __init__(self, name): self.name = name
        class NKIObject: pass
        sbuf, shared_hbm, float32 = Name("sbuf"), Name("shared_hbm"), Name("float32")
        def ndarray(shape, dtype, buffer=sbuf): raise RuntimeError("the device")
    """, "site/nki/language.py")
    monkeypatch.syspath_prepend(write("", "site/empty.py").parent)
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] in ("nki", "empty", "shared")]:
        del sys.modules[name]


# --- which nki -------------------------------------------------------------------------------

@pytest.mark.parametrize(("lines", "spelled"), [
    ("import nki", "nki.isa.dma_copy"),
    ("import nki as n", "n.isa.dma_copy"),
    ("import nki.isa", "nki.isa.dma_copy"),
    ("import nki.isa as nisa", "nisa.dma_copy"),
    ("from nki import isa", "isa.dma_copy"),
    ("from nki import isa as i", "i.dma_copy"),
    ("from nki.isa import dma_copy", "dma_copy"),
    ("from nki.isa import *", "dma_copy"),
    ("import nki.language as nl, nki.isa as nisa", "nisa.dma_copy"),
    ("nisa = __import__('nki.isa').isa", "nisa.dma_copy"),
])
def test_every_spelling_means_this_backend(write, lines, spelled):
    assert load(write(f"{lines}\nfound = {spelled}")).found is nki.isa.dma_copy


def test_all_documented_namespaces(write):
    module = load(write("""
        import nki, nki.collectives as ncc, nki.language as nl, nki.typing as nt
        from nki.language import ds
    """))
    assert (module.ncc, module.nl, module.nt) == (nki.collectives, nki.language, nki.typing)
    assert module.ds is nki.language.ds
    assert (module.nki.jit, module.nki.simulate, module.nki.language) == (
        nki.jit, nki.simulate, nki.language)


def test_nki_has_its_documented_names_and_others_only_on_paper(write):
    module = load(write("""
        import nki
        def kernel(x: nki.dtype = nki.dtype.bfloat16) -> nki.tensor: nki.benchmark(x)
        def leak(): nki.load("kernels.py")
    """))
    with pytest.raises(Uncounted, match=r"nki\.benchmark: .*NKI 0\.6\.0 documents none"):
        module.kernel()
    with pytest.raises(Uncounted, match=r"nki\.load"):
        module.leak()


def test_an_import_inside_a_function_is_ours_too(write):
    module = load(write("def later():\n    import nki.isa as nisa\n    return nisa"))
    assert module.later() is nki.isa


@pytest.mark.parametrize("before", ["", "import nki, nki.isa, nki.language"])
def test_an_installed_nki_is_left_alone(write, installed, before):
    exec(before, {})
    theirs = {name: module for name, module in sys.modules.items() if name.startswith("nki")}
    kernels = load(write(COPY))
    assert kernels.nl is nki.language
    assert np.array_equal(nki.run(kernels.through, X).outputs[0], X)
    assert {n: m for n, m in sys.modules.items() if n.startswith("nki")} == theirs


def test_an_undocumented_submodule_has_its_parents_names(write):
    module = load(write("""
        from nki.isa.constants import dge_mode, oob_mode
        from nki.isa import constants as same, dma_copy
        from nki.compiler.backend import schedule
        import nki.compiler.backend as backend
    """))
    assert module.oob_mode is nki.isa.oob_mode
    assert module.same.dge_mode is module.dge_mode is nki.isa.dge_mode
    assert module.dma_copy is nki.isa.dma_copy
    with pytest.raises(Uncounted, match=r"nki\.compiler\.backend\.schedule: .*documents none"):
        module.schedule()
    with pytest.raises(Uncounted, match=r"nki\.compiler\.backend\.anything"):
        module.backend.anything(1)


def test_a_name_that_nki_has_not_got_is_told_where_it_is_used(write):
    module = load(write("""
        import nki
        from nki.isa import dma_coppy
        def kernel(x): dma_coppy(x, x)
    """))
    with pytest.raises(Uncounted, match=r"nki\.isa\.dma_coppy: .*dma_copy\?"):
        module.kernel(1)
    with pytest.raises(Uncounted, match=r"dma_copy\?\n.*line 4 of kernel"):
        nki.run(module.kernel, X)


def test_a_file_that_can_do_without_a_name_is_told_it_is_missing(write):
    module = load(write("""
        try:
            from nki.isa import new_instruction
        except ImportError:
            new_instruction = None
        try:
            from nki import benchmark
        except ImportError:
            benchmark = None
    """))
    assert (module.new_instruction, module.benchmark) == (None, None)


@pytest.mark.parametrize("line", [
    "import neuronxcc.nki as nki", "from neuronxcc import nki",
    "from neuronxcc.nki import isa", "import neuronxcc.nki.language as nl"])
def test_the_old_namespace_is_an_error(write, line):
    with pytest.raises(nki.NkiValidationError,
                       match=r"kernels\.py, line 2: import neuronxcc\.nki: got .*SDK 2\.30"):
        load(write(f"import math\n{line}"))


def test_the_old_namespace_as_a_second_choice(write):
    module = load(write("""
        try:
            from neuronxcc import nki
        except ImportError:
            import nki
    """))
    assert module.nki.isa is nki.isa


# --- nothing left behind ---------------------------------------------------------------------

def test_nothing_is_left_behind(write, monkeypatch):
    monkeypatch.setenv("KEPT", "before")
    write("import nki\nBASE = 7", "tools/beside.py")
    path = write("""
        import os, sys
        import nki.isa as nisa
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "tools"))
        import beside
        os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn1"
        os.environ["KEPT"] = "after"
        BASE = beside.BASE
    """)

    def state():
        return (dict(sys.modules), list(sys.path), list(sys.meta_path), dict(vars(builtins)),
                dict(os.environ))

    before = state()
    assert load(path).BASE == 7
    assert state() == before
    path.write_text(path.read_text() + "raise KeyError(1)")
    with pytest.raises(LoadError):
        load(path)
    assert state() == before


# --- a project of several files --------------------------------------------------------------

def test_files_beside_it_load_the_same_way_once_a_load(write):
    write("import nki.isa as nisa\nTIMES = []", "shared.py")
    write("import shared\nshared.TIMES.append('a')", "a.py")
    path = write("import a, shared\nshared.TIMES.append('main')")
    first, second = load(path), load(path)
    assert first.shared.TIMES == ["a", "main"] == second.shared.TIMES
    assert first.shared is not second.shared
    assert first.shared.nisa is nki.isa


def test_a_package_with_relative_imports(write):
    write("TOP = 1", "src/lib/__init__.py")
    write("from .sizes import P, twice\nimport nki", "src/lib/tools/__init__.py")
    write("from ..kernels import one\nP = 128\ndef twice(n): return 2 * n",
          "src/lib/tools/sizes.py")
    write("def one(): return 1", "src/lib/kernels/__init__.py")
    write("raise AssertionError('the standard library was meant')", "src/lib/kernels/logging.py")
    path = write("""
        import logging
        import lib.tools.sizes as sizes
        from lib import TOP
        from . import other
        from .other import THREE as three
        from .. import tools
        from ..tools import P, sizes as same
        two = tools.twice(1)
    """, "src/lib/kernels/mine.py")
    write("from . import mine\nTHREE = 3", "src/lib/kernels/other.py")
    module = load(path)
    assert (module.TOP, module.two, module.three, module.P) == (1, 2, 3, 128)
    assert module.sizes is module.same
    assert module.other.mine is module
    assert module.__name__ == "lib.kernels.mine"
    assert hasattr(module.logging, "getLogger")


def test_a_folder_without_an_init_is_a_package_unless_one_is_installed(write):
    write("from . import more\nP = 128", "parts/sizes.py")
    write("import nki.isa as nisa", "parts/more.py")
    write("raise AssertionError('NumPy was meant')", "numpy/linalg.py")
    module = load(write("import numpy.linalg\nfrom parts.sizes import P, more\nimport parts"))
    assert (module.P, module.more.nisa, module.numpy) == (128, nki.isa, np)
    assert module.parts.more is module.more


def test_the_packages_own_init_can_be_loaded(write):
    write("P = 128", "lib/sizes.py")
    assert load(write("from .sizes import P", "lib/__init__.py")).P == 128


def test_a_package_whose_own_init_fails_still_holds_its_kernels(write):
    """The file is what was asked for; what it does take from the package must be there."""
    write("import neuronxcc.nki as nki\nTOP = 1", "lib/__init__.py")
    write("P = 128", "lib/sizes.py")
    assert load(write("from .sizes import P", "lib/kernels.py")).P == 128
    with pytest.raises(nki.NkiValidationError, match=r"lib/__init__\.py, line 1: import neuronxcc"):
        load(write("from . import TOP", "lib/kernels.py"))
    with pytest.raises(nki.NkiValidationError, match=r"lib/__init__\.py, line 1: import neuronxcc"):
        load(write("import lib", "lib/../beside.py"))


def test_an_installed_package_that_needs_nki_is_left_to_the_ordinary_import(write, monkeypatch):
    """As torch_neuronx is; without the real nki it is absent."""
    write("from .kernels import SIZE", "site/bridgekit/__init__.py")
    write("import nki.language as nl\nSIZE = 128", "site/bridgekit/kernels.py")
    monkeypatch.syspath_prepend(write("", "site/none.py").parent)
    kernels = load(write(["import bridgekit", COPY], "mine/kernels.py"))
    assert np.array_equal(nki.run(kernels.through, X).outputs[0], X)
    with pytest.raises(ModuleNotFoundError, match=r"bridgekit.SIZE.*No module named 'nki'"):
        kernels.bridgekit.SIZE()
    assert "bridgekit" not in sys.modules


def test_an_ordinary_module_is_imported_the_ordinary_way(write):
    module = load(write("import numpy as np\nimport numpy.linalg\nfrom math import pi"))
    assert (module.np, module.pi) == (np, np.pi)


@pytest.mark.parametrize(("line", "said"), [
    ("from . import x", "no package specified"),
    ("from .... import x", "no package specified"),
    ("import shared.parts", "no module 'shared.parts'"),
    ("from shared import nothing", "cannot import name 'nothing'"),
])
def test_an_import_that_leads_nowhere(write, line, said):
    write("", "shared.py")
    with pytest.raises(LoadError, match=rf"kernels\.py, line 1: .*{said}"):
        load(write(line))


# --- frameworks that are not there -----------------------------------------------------------

def test_a_missing_framework_stops_nothing_until_it_is_used(write):
    kernels = load(write(["""
        import absentframework
        import absentframework.nn.functional as F
        from absentframework import nn
        from absentframework.jit import compile as compiled
    """, COPY, """
        DEFAULT = absentframework.float32

        class Layer(nn.Module):
            pass

        @absentframework.no_grad()
        @compiled
        def reference(x: "absentframework.Tensor | None", y: absentframework.Tensor | None = None,
                      z: list[nn.Module] = ()) -> absentframework.Tensor:
            return F.relu(x)

        def host(x):
            return absentframework.nn.relu(x)

        def kind(x):
            return isinstance(x, (absentframework.Tensor, int))
    """]))
    assert np.array_equal(nki.run(kernels.through, X).outputs[0], X)
    for use in (kernels.reference, kernels.host, kernels.Layer):
        with pytest.raises(ModuleNotFoundError, match="absentframework is not usable here"):
            use(1)
    said = r"absentframework\.nn\.relu: .*No module named 'absentframework'\. Install it, or call"
    with pytest.raises(ModuleNotFoundError, match=said):
        kernels.host(1)
    assert [kernels.kind(v) for v in (1, "a")] == [True, False]


@pytest.mark.parametrize("line", ["if absentframework.cuda: pass", "list(absentframework)",
                                  "n = 1 + absentframework.one", "absentframework.x = 1"])
def test_a_missing_framework_that_decides_something_stops_the_load(write, line):
    with pytest.raises(LoadError, match=r"line 2: ModuleNotFoundError: absentframework"):
        load(write(f"import absentframework\n{line}"))


@pytest.mark.parametrize("guard", ["except ImportError:", "except ModuleNotFoundError as e:",
                                   "except (ImportError, OSError):", "except Exception:",
                                   "except:"])
def test_a_file_that_expects_it_to_be_missing_is_told_so(write, guard):
    module = load(write(f"try:\n    import absentframework\n    from absentframework import x\n"
                        f"{guard}\n    absentframework = None\n"))
    assert module.absentframework is None


def test_a_missing_module_inside_a_function_is_missing(write):
    with pytest.raises(ModuleNotFoundError, match="No module named 'absentframework'"):
        load(write("def host():\n    import absentframework")).host()


# --- files that cannot be loaded -------------------------------------------------------------

@pytest.mark.parametrize(("name", "content", "said"), [
    ("kernels.py", b"import nki\ndef k(:\n", r"kernels\.py, line 2: not Python: .*def k\(:"),
    ("kernels.py", b"x = 1\n  y = 2\n", r"kernels\.py, line 2: not Python: unexpected indent"),
    ("kernels.py", b"x = '\xff\xfe'\n", r"kernels\.py.*: not Python"),
    ("kernels.py", b"x = 1\0\n", r"kernels\.py.*: not Python"),
    ("kernels.py", b"import sys\nsys.exit(2)\n", r"line 2: SystemExit: 2.*__main__"),
    ("kernels.py", b"x = 1\ny = x / 0\n", r"kernels\.py, line 2: ZeroDivisionError: division"),
    ("kernels.ipynb", b"{}", r"kernels\.ipynb: its name ends in '\.ipynb'"),
    ("kernels", b"", r"its name ends in 'no suffix'"),
])
def test_a_bad_file_is_one_clear_error(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LoadError, match=said) as caught:
        load(path)
    assert caught.value.__suppress_context__ or not caught.value.__context__
    assert caught.value._render_traceback_() == [f"LoadError: {caught.value}"]


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(LoadError, match=r"none\.py: no such file; expected a Python file"):
        load(tmp_path / "none.py")
    with pytest.raises(LoadError, match="it is a folder"):
        load(str(tmp_path))


def test_the_file_at_fault_is_named(write):
    write("x = 1\nx = = 2", "beside.py")
    path = write("import math\nimport beside")
    with pytest.raises(LoadError, match=r"beside\.py, line 2: not Python"):
        load(path)
    write("x = 1\n\n1 / 0", "beside.py")
    with pytest.raises(LoadError, match=r"beside\.py, line 3: ZeroDivisionError"):
        load(path)


def test_a_name_with_dots(write):
    assert load(write(COPY, "kernel_90.92mfu.py")).__name__ == "kernel_90_92mfu"


def test_a_path_as_a_reader_types_it(write, monkeypatch, tmp_path):
    write(COPY, "day5/kernels.py")
    monkeypatch.chdir(tmp_path)
    assert load("day5/kernels.py").through.__name__ == "through"
    write("1 / 0", "day5/kernels.py")
    with pytest.raises(LoadError, match=r"^load: day5/kernels\.py, line 1: "):
        load("day5/kernels.py")


# --- what is loaded --------------------------------------------------------------------------

def test_the_source_and_its_lines_are_at_hand(write):
    path = write(COPY)
    kernels = load(path)
    source = inspect.getsource(kernels.through)
    assert "nisa.dma_copy(tile, x)" in source
    run = nki.run(kernels.through, X)
    first = next(iter(run.trace))
    assert (first.line.file, path.read_text().splitlines()[first.line.number - 1].strip()) == (
        str(path), "nisa.dma_copy(tile, x)")
    path.write_text("# a line more\n" + path.read_text().replace("tile, x", "tile, src=x"))
    assert "nisa.dma_copy(tile, src=x)" in inspect.getsource(load(path).through)


def test_dataclasses_and_enums_of_a_kernel_file(write):
    module = load(write("""
        from __future__ import annotations
        from dataclasses import dataclass, field
        from enum import Enum
        import nki.language as nl
        class Mode(Enum):
            a = 1
        @dataclass
        class Sizes(nl.NKIObject):
            p: int = 128
            mode: Mode = Mode.a
            parts: tuple[int, ...] = field(default_factory=tuple)
    """))
    assert (module.Sizes(64).p, module.Sizes().mode) == (64, module.Mode.a)


def test_a_file_that_runs_its_kernel_as_it_loads(write):
    module = load(write([COPY, """
        import numpy as np
        result = nki.simulate(through)(np.ones((2, 2), np.float32))
        if __name__ == "__main__":
            raise AssertionError("it is not the main program")
    """]))
    assert np.array_equal(module.result, np.ones((2, 2)))


def test_a_refusal_while_it_loads_names_the_line(write):
    path = write([COPY, """
        import numpy as np
        nki.simulate(through)(np.ones((256, 2), np.float32))
    """])
    with pytest.raises(nki.NkiValidationError, match="256") as caught:
        load(path)
    assert "line 9 of through" in str(caught.value)


# --- functions made with an installed nki ----------------------------------------------------

CELL = """
    import nki
    import nki.isa as nisa
    import nki.language as nl
    from nki.language import NKIObject, ndarray

    MOVES = {"in": nisa.dma_copy}
    ENGINE = nisa.engine.vector

    def make(buffer):
        def out_like(x):
            return ndarray(x.shape, dtype=x.dtype, buffer=buffer)
        return out_like

    out_like = make(nl.shared_hbm)

    def name():
        return nl.__name__

    def move(dst, src, copy=nisa.dma_copy):
        copy(dst, src)

    @nki.jit
    def sub(dst, src):
        move(dst, src)

    def plain(x):
        out = out_like(x)
        tile = ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(tile, value=0.0, engine=ENGINE)
        MOVES["in"](tile, x)
        move(out, tile)
        return out

    kernel = nki.jit(plain)
    wrapped = nki.traced(plain)

    @nki.jit
    def outer(x):
        out = out_like(x)
        tile = ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        sub(tile, x)
        sub(out, tile)
        return out
"""


@pytest.fixture
def cell(installed):
    """What a notebook cell defines where the real nki is installed."""
    namespace = {"__name__": "__main__"}
    exec(dedent(CELL), namespace)
    return namespace


@pytest.mark.parametrize("name", ["plain", "kernel", "wrapped", "outer"])
def test_a_kernel_of_the_installed_nki_runs_here(cell, name):
    before = dict(cell)
    run = nki.run(rebind(cell[name]), X)
    assert np.array_equal(run.outputs[0], X)
    # 12 fp32 elements once each way
    assert (run.count.hbm_read_bytes, run.count.hbm_write_bytes) == (4 * 12, 4 * 12)
    assert cell == before
    assert cell["nl"].__name__ == "nki.language"
    with pytest.raises(RuntimeError, match="the device"):
        cell["plain"](X)


def test_run_rebinds_by_itself(cell):
    assert np.array_equal(nki.run(cell["kernel"], X).outputs[0], X)


def test_values_follow(cell):
    assert rebind(cell["nl"].float32) is nki.language.float32
    assert rebind(cell["ENGINE"]) is nki.isa.engine.vector
    assert rebind(cell["nisa"].engine) is nki.isa.engine
    assert rebind(cell["MOVES"]) == {"in": nki.isa.dma_copy}
    assert rebind(cell["name"])() == "roofline.nki.language"
    assert rebind(cell["NKIObject"]) is nki.language.NKIObject


def test_what_speaks_of_no_installed_nki_comes_back_itself(cell, write):
    kernels = load(write(COPY))

    def nothing(x):
        return np.sum(x)

    for thing in (kernels.through, nothing, 3, "a", X, None, print, np.sum):
        assert rebind(thing) is thing


def test_helpers_in_a_module_follow(installed, write, monkeypatch):
    """`import shared` in a notebook: the module was imported with the real nki."""
    write("""
        import nki.isa as nisa
        import nki.language as nl
        def move(dst, src): nisa.dma_copy(dst, src)
        def out(x): return nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    """, "work/shared.py")
    monkeypatch.syspath_prepend(write("", "work/none.py").parent)
    namespace = {"__name__": "__main__"}
    exec(dedent("""
        import shared
        import nki.language as nl
        def kernel(x):
            out, tile = shared.out(x), nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            shared.move(tile, x)
            shared.move(out, tile)
            return out
    """), namespace)
    theirs = namespace["shared"].nisa
    assert np.array_equal(nki.run(rebind(namespace["kernel"]), X).outputs[0], X)
    assert namespace["shared"].nisa is theirs is sys.modules["nki.isa"]


def test_a_private_name_of_the_installed_nki_is_uncounted(installed):
    namespace = {"__name__": "__main__"}
    exec("from nki.isa._core import extra\ndef kernel(x):\n    extra()\n", namespace)
    with pytest.raises(Uncounted, match=r"nki\.isa\._core\.extra"):
        rebind(namespace["kernel"])(X)


def test_imports_inside_a_rebound_function_are_ours(installed):
    namespace = {"__name__": "__main__"}
    exec("import nki\ndef kernel():\n    import nki.isa as nisa\n    return nki, nisa", namespace)
    top, isa = rebind(namespace["kernel"])()
    assert top.isa is isa is nki.isa


# --- which files ---------------------------------------------------------------------------------

def test_the_files_that_were_executed_are_kept_with_their_bytes(write):
    """Each with the text it had then, once; not what a function imports later."""
    helper = write("import pack.deep\nN = 1\n", "helper.py")
    deep, init = write("D = 1\n", "pack/deep.py"), write("", "pack/__init__.py")
    write("L = 1\n", "late.py"), write("U = 1\n", "unused.py")
    main = write("""
        import not_installed_anywhere, helper
        def kernel(x):
            import late
            return late.L
    """)
    texts = {str(file): file.read_bytes() for file in (main, helper, init, deep)}
    module = load(main)
    helper.write_text("N = 2\n")
    assert module.kernel(None) == 1
    project = vars(module)["__project__"]
    assert vars(module.helper)["__project__"] is project and project.main == main
    assert {file: one.text for file, one in project.sources.items()} == texts
    assert {one.module for one in project.sources.values()} == {
        "kernels", "helper", "pack", "pack.deep"}
