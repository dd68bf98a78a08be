"""The stand-in's `nki`: kernels run on the course's backend and leave a NEFF.

Copied to site/nki/__init__.py. What it holds callers to (nki/api/nki/__init__.py; nrtpy pages):
NKI_ARTIFACTS_DIR is read when it is imported; the LNC of a launch is that of the runtime; the
target fits the chip; a core that another process holds cannot be used.
"""

import atexit
import hashlib
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import device, neff

__version__ = device.VERSIONS["nki"]
_FOLDER = os.environ.get("ROOFLINE_STAND_IN", "")
_ARTIFACTS = os.environ.get("NKI_ARTIFACTS_DIR", "")  # now, and not later
_HELD: list[Any] = []

if __name__ == "nki":  # installed, and not read by a test
    import roofline.nki as _backend
    from roofline.nki.core import _CURRENT as _RUNNING

    for _name in ("isa", "language", "collectives", "typing"):
        sys.modules[f"nki.{_name}"] = getattr(_backend, _name)
        globals()[_name] = getattr(_backend, _name)
    device.record(_FOLDER, "nki", ["import"], artifacts=_ARTIFACTS)


class CompilationError(Exception):
    """The compiler refuses."""


class Kernel:
    """What nki.jit returns; kernel[2] is for the two cores of an LNC=2 pair."""

    def __init__(self, function: Callable, lnc: int = 1) -> None:
        self.function, self.lnc = function, lnc
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __getitem__(self, lnc: int) -> "Kernel":
        if lnc not in (1, 2) or isinstance(lnc, bool):
            raise ValueError(f"{self.__name__}[{lnc!r}]: expected 1 or 2")
        return Kernel(self.function, lnc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _RUNNING.get() is not None:
            return self.function(*args, **kwargs)  # a kernel that a kernel calls
        return _launch(self, args, kwargs)


def jit(fn: Callable | None = None, **kwargs: Any) -> Any:
    if "platform_target" in kwargs:
        raise ValueError("nki.jit: platform_target is not supported; use "
                         "NEURON_PLATFORM_TARGET_OVERRIDE")
    return jit if fn is None else Kernel(fn)


def simulate(kernel: Callable) -> Callable:
    raise NotImplementedError("the stand-in simulates nothing")


def _launch(kernel: Kernel, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Compile, leave the NEFF, run: in this order, so that a failed run leaves its NEFF."""
    import numpy as np
    told = device.behaviour(_FOLDER)
    chip = device.CHIPS[told["chip"]]
    kinds = {_framework(value) for value in (*args, *kwargs.values())} - {""}
    if len(kinds) != 1:
        raise TypeError(f"{kernel.__name__}: expected arrays of one framework, got "
                        f"{sorted(kinds) or 'none'}")
    framework = kinds.pop()
    if framework == "numpy" and not told["numpy"]:
        raise TypeError(f"{kernel.__name__}: unsupported argument type numpy.ndarray")
    device.record(_FOLDER, "nki", ["call", kernel.__name__, framework], lnc=kernel.lnc)
    if told["hang"] == "compile":
        device.hang(_FOLDER, told)
    target = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
    if target not in ("trn1", "inf2", "gen2", "trn2", "gen3", "trn3", "gen4"):
        raise CompilationError("cannot tell the platform target: set "
                               f"NEURON_PLATFORM_TARGET_OVERRIDE (got {target!r})")
    if told["fail"] == "compile":
        raise CompilationError("[NCC_STDN001] the stand-in was told to fail")
    plain = [_plain(value) for value in args], {n: _plain(v) for n, v in kwargs.items()}
    for value in (*plain[0], *plain[1].values()):
        if isinstance(value, np.ndarray) and value.dtype in (np.float64, np.int64):
            raise CompilationError(f"{kernel.__name__}: {value.dtype} is not supported")
    name = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}.get(target, target)
    done = _backend.run(kernel.function, *plain[0], target=name, lnc=kernel.lnc, **plain[1])
    outputs = [_changed(np.ascontiguousarray(out), told["outputs"]) for out in done.outputs]
    saved = [_changed(np.ascontiguousarray(out), told["saved"]) for out in done.outputs]
    _compiled(kernel, plain, target, done, saved, framework)
    # --- from here on the device ---
    lnc = device.configured(chip, os.environ)
    if lnc != kernel.lnc:
        raise device.NrtError(f"NRT_FAILURE(1): {kernel.__name__}[{kernel.lnc}]: the kernel's LNC "
                              f"is {kernel.lnc}, the runtime's logical NeuronCore configuration "
                              f"{lnc}")
    if target not in chip.targets:
        raise device.NrtError(f"NRT_FAILURE(1): the NEFF is for {target}, this is a {chip.device}")
    if not _HELD:
        _HELD.extend(device.take(_FOLDER, told, os.environ))
    if told["fail"] == "run":
        raise device.NrtError("NRT_EXEC_HW_ERR_NC_UE(1202): the stand-in was told to fail")
    for core in device.visible(chip, os.environ)[:lnc]:
        device.counted(_FOLDER, told, core, 1)
    found = [_back(out, framework) for out in outputs]
    return found[0] if len(found) == 1 else tuple(found)


def _framework(value: Any) -> str:
    head = type(value).__module__.partition(".")[0]
    return head if head in ("numpy", "jax", "torch") and hasattr(value, "shape") else ""


def _plain(value: Any) -> Any:
    return value if _framework(value) in ("", "numpy") else value._array


def _back(array: Any, framework: str) -> Any:
    return array if framework == "numpy" else sys.modules[framework]._of(array)


def _changed(array: Any, how: str) -> Any:
    """A result as a device that is wrong would give it."""
    import numpy as np
    if how == "zeros":
        return np.zeros_like(array)
    if how == "shape":
        return array.reshape(-1)
    array = array.copy()
    if how == "nan":
        array.reshape(-1)[array.size // 2] = float("nan")
    elif how == "one":
        array.reshape(-1)[array.size // 3] = 1000
    elif how.startswith("scaled:"):
        array = (array.astype(np.float32) * float(how.partition(":")[2])).astype(array.dtype)
    return array


def _compiled(kernel: Kernel, plain: Any, target: str, done: Any, outputs: list[Any],
              framework: str) -> None:
    """The NEFF, where the documents say it goes: else into a folder that is deleted."""
    import inspect

    import numpy as np
    bound = inspect.signature(kernel.function).bind(*plain[0], **plain[1])
    inputs = [(name, np.ascontiguousarray(value)) for name, value in bound.arguments.items()
              if isinstance(value, np.ndarray)]
    if framework != "numpy":  # the graph's inputs; their names are not documented
        inputs = [(f"input{i}", value) for i, (_, value) in enumerate(inputs)]
    header = {
        "kernel": kernel.__name__, "target": target, "lnc": kernel.lnc,
        "inputs": [_tensor(name, array) | {"sha256": neff.digest(array.tobytes())}
                   for name, array in inputs],
        "outputs": [_tensor(f"output_{i}", array) for i, array in enumerate(outputs)],
        "cores": [[_row(record) for record in trace] for trace in done.cores],
    }
    header["uuid"] = hashlib.sha256(repr(header).encode()).hexdigest()[:32]
    for path in _neffs(framework, header["uuid"]):
        path.parent.mkdir(parents=True, exist_ok=True)
        neff.write(path, header, [array.tobytes() for array in outputs])


def _neffs(framework: str, uuid: str) -> list[Path]:
    """kernel.neff in NKI_ARTIFACTS_DIR; of JAX, with NEURON_FRAMEWORK_DEBUG=1, one in the cwd."""
    found = []
    if framework == "jax" and os.environ.get("NEURON_FRAMEWORK_DEBUG") == "1":
        found.append(Path(f"MODULE_{uuid}.neff").absolute())
    elif framework == "torch":
        found.append(Path(sys.modules["torch_neuronx"]._workdir) / "graph.neff")
    elif framework == "numpy" and _ARTIFACTS:
        found.append(Path(_ARTIFACTS) / "kernel.neff")
    if not found:
        gone = Path(tempfile.mkdtemp())
        atexit.register(shutil.rmtree, gone, True)
        found.append(gone / "kernel.neff")
    return found


def _tensor(name: str, array: Any) -> dict[str, Any]:
    return {"name": name, "shape": list(array.shape), "dtype": str(array.dtype),
            "nbytes": array.nbytes}


def _row(record: Any) -> list[Any]:
    line = f"{record.line.file}:{record.line.number}"
    if "dma" in record.opcode or record.engine == "dma":
        sizes = [operand.layout.shape[0] for operand in (*record.writes, *record.reads)
                 if operand.layout.hbm_bytes == 0]
        return ["dma", record.hbm_read_bytes, record.hbm_write_bytes, (sizes or [128])[0], line]
    if record.flops:
        K, *free = record.reads[0].layout.shape
        M = math.prod(free)
        N = record.flops // (2 * K * M)
        return ["matmul", K, M, N, record.work.dtype, record.work.transpose, line]
    return ["other", record.work.engines[0], record.opcode, record.work.elements, line]
