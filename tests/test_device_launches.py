"""A launch written down: the same call has one key, another call another one."""

import hashlib
import importlib
import shutil
from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16
from pages import ROOT

from roofline import device, nki
from roofline.device.launches import LaunchError, launch

KERNELS = nki.load(ROOT / "day4" / "kernels.py")
X = ((256, 2048), "bf16")


def test_a_default_spelled_out_is_the_same_call():
    short, full = launch(KERNELS.copy, X), launch(KERNELS.copy, X, elements=2048, partitions=128)
    assert short.key("trn2") == full.key("trn2")
    assert (short.title, full.title) == ("copy", "copy elements=2048 partitions=128")
    assert short.parameters == {"elements": 2048, "partitions": 128, "queues": 0}


def test_every_other_call_has_another_key(tmp_path):
    one = launch(KERNELS.copy, X)
    edited = tmp_path / "kernels.py"
    edited.write_text((ROOT / "day4" / "kernels.py").read_text() + "\n# edited\n")
    others = [launch(KERNELS.read, X), launch(KERNELS.copy, X, elements=1024),
              launch(KERNELS.copy, ((256, 2048), "fp32")),
              launch(KERNELS.copy, ((512, 2048), "bf16")), launch(KERNELS.copy[2], X),
              launch(nki.load(edited).copy, X)]
    assert len({one.key("trn2"), one.key("trn1"), *(o.key("trn2") for o in others)}) == 8


def test_arrays_are_the_same_call_as_their_shapes():
    x = np.ones((256, 2048), bfloat16)
    assert launch(KERNELS.copy, x).key("trn2") == launch(KERNELS.copy, X).key("trn2")
    assert launch(KERNELS.copy, x).inputs[0] is x


def test_inputs_are_drawn_once_and_never_zero():
    a, b = (launch(KERNELS.copy, X).inputs[0] for _ in range(2))
    assert a.dtype == bfloat16 and a.shape == (256, 2048) and np.array_equal(a, b)
    assert np.count_nonzero(a) > 0.99 * a.size


def test_its_count_is_arithmetic():
    assert launch(KERNELS.copy, X).count("trn2").hbm_bytes == 2 * 256 * 2048 * 2  # in and out


@pytest.mark.parametrize(("call", "said"), [
    (lambda: launch(KERNELS.copy, 5), "expected an array or a (shape, dtype)"),
    (lambda: launch(KERNELS.copy, X, elements=[1]), "a parameter is a number, a text"),
    (lambda: launch(KERNELS.copy, X, element=4), "unexpected keyword argument 'element'"),
    (lambda: launch(KERNELS.copy), "missing a required argument: 'x'"),
    (lambda: launch(KERNELS.copy[2], X, lnc=1), "no other number than in kernel[n]"),
    (lambda: launch(KERNELS.copy, X, lnc=3), "expected 1 or 2 physical cores"),
    (lambda: launch(KERNELS.moving_sweep, np.ones((128, 128), np.float32), X), "arrays for all"),
    (lambda: launch(KERNELS.copy, np.ones((128, 128))), "dtype: got 'float64'"),
])
def test_what_cannot_be_written_down_is_refused(call, said):
    with pytest.raises(LaunchError) as refused:
        call()
    assert said in str(refused.value)


def test_a_kernel_without_a_file_is_told_to_get_one():
    scope: dict = {}
    exec("def typed(x):\n    return x", scope)
    with pytest.raises(LaunchError, match=r"not in a file.*%%writefile"):
        _ = launch(scope["typed"], X).file


EDITS = [  # of the kernel, of what it calls, of a constant; a line before it; no Python at all
    ("x + x", "x + x + x"), ("return of", "return of.T"), ("N = 2", "N = 4"), ("", "\n\n"),
    ("def ", "def def "),
]
SOURCE = "N = 2\n\n\ndef mine(x, n=N):\n    return part(x + x)\n\n\ndef part(of):\n    return of\n"


@pytest.mark.parametrize(("before", "after"), EDITS)
def test_a_file_edited_after_it_was_loaded_has_to_be_loaded_again(tmp_path, before, after):
    file = tmp_path / "mine.py"
    file.write_text(SOURCE)
    kernel = nki.load(file).mine
    old, early = launch(kernel, X), launch(kernel, X)
    key = early.key("trn2")
    file.write_text(SOURCE.replace(before, after, 1))
    with pytest.raises(LaunchError, match=r'mine\.py was changed since it was loaded\. Load it'):
        old.key("trn2")
    assert early.key("trn2") == key  # of what it was; the worker holds the file to it
    if after != "def def ":
        assert launch(nki.load(file).mine, X).key("trn2") != key
    file.write_text(SOURCE)
    assert launch(kernel, X).key("trn2") == key


def test_a_kernel_that_was_imported_is_told_to_be_loaded(tmp_path, monkeypatch):
    """Nothing keeps what an import executed: the files may be others since, unseen."""
    file = tmp_path / "imported_kernels.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    call = launch(importlib.import_module("imported_kernels").mine, X)
    with pytest.raises(LaunchError, match=r'was not loaded by nki\.load.*nki\.load\("imported_'
                                          r'kernels\.py"\), then pass kernels\.mine'):
        call.key("trn2")


# --- a kernel of several files --------------------------------------------------------------------

MAIN = {  # the ways to import; what is imported lies in HELPERS
    "import helper": "helper.part", "from helper import part": "part",
    "import parts.helper as h": "h.part", "from parts.helper import part": "part",
    "from parts import helper": "helper.part",
    "try:\n    from helper import part\nexcept ImportError:\n    part = None": "part",
    "import sys\nsys.path.append('{}')\nfrom aside import part": "part",
}
HELPERS = ("helper.py", "parts/helper.py", "elsewhere/aside.py")
HELPER = "import deeper\n\ndef part(of):\n    return deeper.N * of\n"


@pytest.fixture
def several(tmp_path):
    """several(line): mine.py, which imports by this line; the helpers import deeper.py."""
    def write(line):
        for name in (*HELPERS, "parts/__init__.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(HELPER if name in HELPERS else "")
        (tmp_path / "deeper.py").write_text("N = 2\n")
        file = tmp_path / "mine.py"
        file.write_text(f"{line.replace('{}', str(tmp_path / 'elsewhere'))}\n\n\n"
                        f"def mine(x):\n    return {MAIN[line]}(x)\n")
        return file
    return write


def files_of(call):
    return {name: one.file for name, one in call.sources.items()}


@pytest.mark.parametrize("line", MAIN)
def test_every_file_of_a_kernel_is_in_its_key_and_held_to_what_was_loaded(several, line):
    file = several(line)
    kernel = nki.load(file).mine
    call, keyed = launch(kernel, X), launch(kernel, X)
    key = keyed.key("trn2")
    files = files_of(call)
    assert files["kernel.py"] == file and len(files) == (4 if "parts" in line else 3)
    for name, path in files.items():
        assert call.sources[name].text == path.read_bytes()
        was = path.read_bytes()
        path.write_bytes(was + b"# edited\n")
        fresh = launch(kernel, X)
        with pytest.raises(LaunchError, match=rf"{path.name} was changed since it was loaded\. "
                                              r'Load it again: kernels = nki\.load\("mine\.py"\)'):
            fresh.key("trn2")
        with pytest.raises(LaunchError, match=rf"{path.name} was changed since"):
            keyed.check()
        assert keyed.key("trn2") == key  # of what it was
        assert launch(nki.load(file).mine, X).key("trn2") != key
        path.unlink()
        with pytest.raises(LaunchError, match=rf"{path.name} cannot be read, and was changed"):
            launch(kernel, X).key("trn2")
        path.write_bytes(was)
        assert launch(kernel, X).key("trn2") == launch(nki.load(file).mine, X).key("trn2") == key


def test_a_file_that_the_kernel_does_not_import_is_not_in_its_key(several):
    file = several("import helper")
    key = launch(nki.load(file).mine, X).key("trn2")
    (file.parent / "parts" / "helper.py").write_text("other")
    assert launch(nki.load(file).mine, X).key("trn2") == key


def test_the_same_files_in_another_folder_are_the_same_kernel(several, tmp_path):
    file = several("from parts.helper import part")
    key = launch(nki.load(file).mine, X).key("trn2")
    there = tmp_path / "copy"
    shutil.copytree(tmp_path, there, ignore=shutil.ignore_patterns("copy"))
    assert launch(nki.load(there / "mine.py").mine, X).key("trn2") == key


def test_texts_moved_between_files_make_another_kernel(tmp_path):
    """The hash is of each file under its name, not of all of them in a row."""
    keys = set()
    for a, b in (("A = 1\n", "B = 2\n"), ("B = 2\n", "A = 1\n"), ("A = 1\nB = 2\n", "")):
        (tmp_path / "a.py").write_text(a)
        (tmp_path / "b.py").write_text(b)
        (tmp_path / "mine.py").write_text("import a, b\ndef mine(x):\n    return x\n")
        keys.add(launch(nki.load(tmp_path / "mine.py").mine, X).key("trn2"))
    assert len(keys) == 3


def test_a_kernel_of_one_file_has_the_hash_of_its_file():
    whole = (ROOT / "day4" / "kernels.py").read_bytes()
    assert launch(KERNELS.copy, X).source_sha256 == hashlib.sha256(whole).hexdigest()


def test_a_kernel_that_comes_from_another_file_has_both(tmp_path):
    """mine.py only passes it on: the file to load again is mine.py all the same."""
    (tmp_path / "helper.py").write_text(SOURCE)
    file = tmp_path / "mine.py"
    file.write_text("from helper import mine\n")
    call = launch(nki.load(file).mine, X)
    assert files_of(call) == {"kernel.py": tmp_path / "helper.py", "sources/mine.py": file}
    (tmp_path / "helper.py").write_text("")
    with pytest.raises(LaunchError, match=r'helper\.py was changed.*nki\.load\("mine\.py"\)'):
        call.key("trn2")


def test_a_file_that_was_imported_while_counting_changes_no_key(tmp_path):
    """It is not among those that were loaded, and the worker refuses to run it."""
    (tmp_path / "late.py").write_text("N = 2\n")
    file = tmp_path / "mine.py"
    file.write_text("def mine(x):\n    import late\n    return late.N\n")
    kernel = nki.load(file).mine
    key = launch(kernel, X).key("trn2")
    assert kernel(None) == 2 and launch(kernel, X).key("trn2") == key
    assert files_of(launch(kernel, X)) == {"kernel.py": file}


def test_a_name_that_no_recording_can_hold_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "hälper.py").write_text("N = 2\n")
    file = tmp_path / "mine.py"
    file.write_text("import hälper\ndef mine(x):\n    return x\n")
    with pytest.raises(LaunchError, match=r"hälper\.py: a recording cannot hold it.*Rename it"):
        launch(nki.load(file).mine, X).key("trn2")


def test_arrays_have_the_names_of_the_def_line(tmp_path):
    assert launch(KERNELS.moving_sweep, X, X).names == ("a", "b")
    assert launch(KERNELS.copy[2], X).names == ("x",)
    assert launch(lambda *every: None, X, X).names == ()


def test_public_names_load():
    assert all(hasattr(device, name) for name in device.__all__)


def test_a_launch_on_two_cores_counts_both():
    pair = replace(launch(KERNELS.copy, X), lnc=2)
    assert pair.count("trn2").hbm_bytes == 2 * 256 * 2048 * 2  # shared out, not done twice
