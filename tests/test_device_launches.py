"""A launch written down: the same call has one key, another call another one."""

import importlib
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


def test_a_kernel_that_was_imported_is_held_to_its_file_too(tmp_path, monkeypatch):
    file = tmp_path / "imported_kernels.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("imported_kernels").mine
    assert launch(kernel, X).key("trn2") == launch(nki.load(file).mine, X).key("trn2")
    file.write_text(SOURCE.replace("x + x", "x + x + x"))
    with pytest.raises(LaunchError, match="was changed since it was loaded"):
        launch(kernel, X).key("trn2")


def test_arrays_have_the_names_of_the_def_line(tmp_path):
    assert launch(KERNELS.moving_sweep, X, X).names == ("a", "b")
    assert launch(KERNELS.copy[2], X).names == ("x",)
    assert launch(lambda *every: None, X, X).names == ()


def test_public_names_load():
    assert all(hasattr(device, name) for name in device.__all__)


def test_a_launch_on_two_cores_counts_both():
    pair = replace(launch(KERNELS.copy, X), lnc=2)
    assert pair.count("trn2").hbm_bytes == 2 * 256 * 2048 * 2  # shared out, not done twice
