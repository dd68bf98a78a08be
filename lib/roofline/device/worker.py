"""Run one kernel with the real nki, in a process of its own: it holds the core until it ends.

Question  what does the device give for this kernel and these arrays, and where is its NEFF?
Answer    python -m roofline.device.worker job.json: outputs as raw bytes, result.json, the NEFF
Assumes   NKI_ARTIFACTS_DIR is set before Python starts: nki reads it when it is imported
Ignores   whether the outputs are right (gate) and the time (explorer)

Source: jit's docstring (nki/api/nki): NumPy arrays compile and run without a framework, jax
arrays through JAX; use-neuron-profile.rst: torch_neuronx.trace and its compiler_workdir;
tutorial-debug-neff-nrtpy.rst: kernel.neff. Not documented: that NumPy arrays of ml_dtypes' types
are taken, so a refusal says `unsupported` and the next framework has its turn.
"""

import ast
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from .chip import install

OURS = Path(__file__).resolve().parents[1]
WHEELS = ("nki", "neuronx-cc", "nrtpy", "jax", "jax-neuronx", "libneuronxla", "torch",
          "torch-neuronx", "numpy", "ml_dtypes")
NOT_THEIRS = ("nki", "neuronxcc", "roofline", "__main__")  # of a kernel's files
COMPILER_FOLDER = "artifacts"  # within the working directory; NKI_ARTIFACTS_DIR is this one, too


class Refused(Exception):
    """Why this kernel is not run here: what, got, next step."""


def main(job_file: str) -> int:
    """Do the job and write result.json beside it; 0 also when the kernel failed: result says so."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    step = "load the kernel"
    result: dict[str, Any] = {}
    before = list(sys.path)
    try:
        nki = real_nki()
        kernel = load(job, nki)
        arrays = [_array(one) for one in job["inputs"]]
        step = "compile and run the kernel"
        made = RUN[job["framework"]](kernel, arrays, job["parameters"])
        _refuse_unknown(job, before)
        outputs = list(made) if isinstance(made, (tuple, list)) else [made]
        step = "save the outputs"
        result = {"outputs": [_save(i, value) for i, value in enumerate(outputs)]}
    except Refused as error:
        result = {"error": str(error), "step": step, "refused": True}
    except Exception as error:
        traceback.print_exc()
        result = {"error": f"{type(error).__name__}: {error}", "step": step,
                  "unsupported": isinstance(error, (TypeError, ImportError, NotImplementedError))}
    result["versions"] = versions()
    result["neff"] = neff()
    Path("result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


def real_nki() -> ModuleType:
    """The installed nki. Raises Refused for none, PyPI's empty one, a legacy one and our own."""
    try:
        nki = importlib.import_module("nki")
    except ImportError as error:
        raise Refused(f"nki cannot be imported ({error}). Start the notebook in Neuron's "
                      "environment; the page Instance says which") from None
    file = Path(getattr(nki, "__file__", None) or ".").resolve()
    if file.is_relative_to(OURS):
        raise Refused(f"`import nki` gives the course's backend ({file.parent}), which runs on no "
                      "device. Take that folder out of PYTHONPATH")
    if not hasattr(nki, "jit"):
        raise Refused(f"nki in {file.parent} is an empty package: PyPI's. pip uninstall -y nki; "
                      f"{install('nki')}")
    if "neuronxcc" in file.parts:
        raise Refused("nki is the legacy neuronxcc.nki; the course's kernels need NKI 0.6 (Neuron "
                      "SDK 2.32)")
    return nki


def load(job: dict[str, Any], nki: ModuleType) -> Any:
    """The kernel of the file, by its name, on as many cores as asked. Raises Refused."""
    file, name = Path(job["file"]), job["kernel"]
    _refuse_changed(job)
    _refuse_legacy(file.name, file.read_bytes())
    found = getattr(_module(file), name, None)
    if not callable(found):
        raise Refused(f"{file.name} has no kernel {name!r} at its top level. A kernel is found by "
                      "the name in its def line")
    if isinstance(found, FunctionType):
        found = nki.jit(found)
    return found[2] if job["lnc"] == 2 else found


def _module(file: Path) -> ModuleType:
    """The file executed: files beside it, or its package, can be imported by it."""
    package, root = [file.stem], file.parent
    while (root / "__init__.py").exists():
        package.insert(0, root.name)
        root = root.parent
    sys.path.insert(0, str(root))
    if package[1:]:
        importlib.import_module(".".join(package[:-1]))
    spec = importlib.util.spec_from_file_location(".".join(package), file)
    assert spec is not None and spec.loader is not None  # it is, for a .py file
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(spec.name, module)  # a file named as one of Python's own is not it
    spec.loader.exec_module(module)
    return module


def _refuse_changed(job: dict[str, Any]) -> None:
    """Each of the kernel's files has to be what the launch was made of."""
    for path, digest in job["sources"].items():
        file = Path(path)
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise Refused(f"{file.name} has changed since the launch was made. Load it again: "
                          f'nki.load("{job["main"]}")')


def _refuse_unknown(job: dict[str, Any], before: list[str]) -> None:
    """What was imported from the kernel's folders has to be among its files, and be those.

    before   sys.path without those folders
    """
    for name, path in job["modules"].items():
        taken = getattr(sys.modules.get(name), "__file__", None)
        if taken and Path(taken).resolve() != Path(path):
            raise Refused(f"`import {name}` gives {taken} on the device, and {Path(path).name} "
                          "beside the kernel when it was loaded. Rename yours, and load the "
                          f'kernel again: nki.load("{job["main"]}")')
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    roots = {Path(path).resolve() for path in sys.path if path not in before} - installed
    for name, module in list(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        top = name.partition(".")[0]
        if not isinstance(origin, str) or top in NOT_THEIRS or origin in job["sources"]:
            continue
        file = Path(origin).resolve()
        if str(file) not in job["sources"] and any(
                file.is_relative_to(root)
                and file.relative_to(root).parts[0].partition(".")[0] == top for root in roots):
            raise Refused(f"{Path(job['file']).name} imports {file.name} on the device, and did "
                          "not when it was loaded, so no recording could tell whether that file "
                          "was changed. Import it at the top of the file, under no condition, "
                          f'and load it again: nki.load("{job["main"]}")')


def _refuse_legacy(name: str, source: bytes) -> None:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        names = ([node.module or ""] if isinstance(node, ast.ImportFrom) else
                 [alias.name for alias in node.names])
        if any(one.partition(".")[0] == "neuronxcc" for one in names):
            raise Refused(f"{name}, line {node.lineno}: imports neuronxcc, the legacy namespace: "
                          "an error since NKI 0.4. Import nki, nki.isa and nki.language")


# --- the frameworks ------------------------------------------------------------------------------


def _numpy(kernel: Any, arrays: list[np.ndarray], parameters: dict[str, Any]) -> Any:
    return kernel(*arrays, **parameters)


def _jax(kernel: Any, arrays: list[np.ndarray], parameters: dict[str, Any]) -> Any:
    jnp = importlib.import_module("jax.numpy")
    return kernel(*(jnp.asarray(x) for x in arrays), **parameters)


def _torch(kernel: Any, arrays: list[np.ndarray], parameters: dict[str, Any]) -> Any:
    neuronx = importlib.import_module("torch_neuronx")
    given = tuple(map(_tensor, arrays))

    def call(*tensors: Any) -> Any:
        return kernel(*tensors, **parameters)

    lnc = os.environ.get("NEURON_LOGICAL_NC_CONFIG")
    flags = {"compiler_args": f"--lnc={lnc}"} if lnc else {}
    traced = neuronx.trace(call if parameters else kernel, given,
                           compiler_workdir=COMPILER_FOLDER, **flags)
    return traced(*given)


RUN: dict[str, Callable[..., Any]] = {"numpy": _numpy, "jax": _jax, "torch-neuronx": _torch}


def _tensor(x: np.ndarray) -> Any:
    """A torch tensor of the same bits: torch reads NumPy's own types alone."""
    torch = importlib.import_module("torch")
    kind = getattr(torch, x.dtype.name, None)
    if kind is None:
        raise TypeError(f"torch has no dtype {x.dtype.name}")
    return torch.from_numpy(bits(x)).view(kind)


def bits(x: np.ndarray) -> np.ndarray:
    """The same memory under a type that NumPy itself has: unsigned for bf16, fp8."""
    return x if x.dtype.isbuiltin == 1 else x.view(f"u{x.dtype.itemsize}")


# --- files ---------------------------------------------------------------------------------------


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's type of this name, or ml_dtypes' one."""
    try:
        return np.dtype(name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes, name))


def _array(told: dict[str, Any]) -> np.ndarray:
    return np.load(told["file"]).view(dtype_of(told["dtype"]))


def _save(i: int, value: Any) -> dict[str, Any]:
    """An output as raw bytes; a dtype such as |V2 (nrtpy-troubleshooting.rst) keeps its bits."""
    name = f"out{i}.bin"
    if hasattr(value, "detach"):  # torch
        torch = importlib.import_module("torch")
        value = value.detach().cpu().contiguous()
        kind = str(value.dtype).rpartition(".")[2]
        if kind not in np.sctypeDict:
            value = value.view({1: torch.uint8, 2: torch.int16}[value.element_size()])
        array = value.numpy()
    else:
        array = np.asarray(value)
        kind = array.dtype.name
    array.tofile(name)
    return {"file": name, "dtype": kind, "shape": list(array.shape)}


def neff() -> str | None:
    """The compiled kernel: kernel.neff where NKI keeps it, else the newest one here or below."""
    folder = Path(os.environ.get("NKI_ARTIFACTS_DIR") or COMPILER_FOLDER)
    best = folder / "kernel.neff"
    found = [best] if best.is_file() else sorted(
        {*Path().rglob("*.neff"), *folder.rglob("*.neff")}, key=lambda file: file.stat().st_mtime)
    return str(found[-1].resolve()) if found else None


def versions() -> dict[str, str]:
    """Versions of what took part, as pip knows them."""
    found = {}
    for name in WHEELS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
