"""What goes into a kernel and what comes out: arrays become tensors in HBM, tensors arrays.

Question  which tensors does the kernel see for these arguments, and which arrays did it return?
Answer    Arguments: binds a call, once for each core; results: the returned tensors
Assumes   an array belongs to the caller: the kernel gets a copy of its bytes
Ignores   everything that is no array: it goes to the kernel as it is
"""

import copy
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from . import dtypes
from .core import NkiValidationError, Target, refuse
from .memory import (
    Allocation,
    MemoryRegion,
    NKIObject,
    NkiTensor,
    Storage,
    VirtualRegister,
    checked,
    tensor,
)

# A parameter and the way to a value inside it: (0, "config"), (2, ".weights"), (0, "[0]"), each
# step with its place, as two keys of a dict may look alike.
Step = tuple[int, str]
Path = tuple[Step, ...]
FRAMEWORKS = {"torch": "detach", "jax": "__array__", "jaxlib": "__array__"}  # an array's method


class Arguments:
    """Arguments of one call as tensors in HBM, named by their parameters.

    allocations   of all arrays, in the order of the parameters
    """

    def __init__(self, kernel: str, chip: Target, data: bool) -> None:
        self.kernel, self.chip, self.data = kernel, chip, data
        self.made: dict[Path, Storage] = {}

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(storage.allocation for storage in self.made.values())

    @property
    def arrays(self) -> Iterator[np.ndarray]:
        """Their contents now, with data."""
        return (tensor(storage).array for storage in self.made.values())

    def bind(self, function: Callable, args: tuple, kwargs: dict) -> inspect.BoundArguments:
        """The call of one core: its own lists, dicts and objects, over the same tensors.

        Raises NkiValidationError for arguments that do not fit the signature, or that NKI has no
        dtype for.
        """
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise refuse(f"{self.kernel}(...)", f"arguments that do not fit ({error})",
                         _parameters(function)) from None
        given = set(bound.arguments)
        bound.apply_defaults()
        for at, (name, value) in enumerate(bound.arguments.items()):
            kind = bound.signature.parameters[name].kind
            if name not in given and _is_spec(value):
                continue  # the kernel's own, and no array
            try:
                if kind is kind.VAR_KEYWORD:
                    made: Any = {key: self._tensors(((at + i, key),), inner)
                                 for i, (key, inner) in enumerate(value.items())}
                elif kind is kind.VAR_POSITIONAL:
                    made = tuple(self._tensors(((at, name), (i, f"[{i}]")), inner)
                                 for i, inner in enumerate(value))
                else:
                    made = self._tensors(((at, name),), value)
            except NkiValidationError:
                raise
            except Exception as error:  # a list inside itself, an object that cannot be copied
                raise self._refuse(((at, name),), f"a {type(value).__name__} that cannot be "
                                   f"searched for arrays ({type(error).__name__}: {error})",
                                   "lists, dicts and objects are copied", "Pass the arrays alone"
                                   ) from None
            bound.arguments[name] = made
        return bound

    def _tensors(self, path: Path, value: Any) -> Any:
        """Arrays in `value`, however nested, as tensors; the rest as it is."""
        if isinstance(value, NkiTensor):
            raise self._refuse(path, f"{value!r} of another run", "an array",
                               "Call a kernel inside a kernel as a plain function")
        if _is_spec(value):
            if self.data:
                raise self._refuse(path, f"a shape and a dtype, {value!r}", "expected an array",
                                   "To count on shapes alone, say data=False")
            if any(n != int(n) for n in value[0]):
                raise self._refuse(path, f"shape {value[0]}", "a tuple of whole numbers >= 1")
            return self._tensor(path, value[0], value[1], None)
        head = type(value).__module__.partition(".")[0]
        if not self.data and head in FRAMEWORKS and hasattr(value, FRAMEWORKS[head]):
            return self._tensor(path, value.shape, value.dtype, None)
        array = self._numpy(path, value, head)
        if array is not None:
            return self._array(path, array)
        if _has_parts(value):
            made = copy.copy(value)
            for i, name in enumerate(_attributes(value)):
                inner = self._tensors((*path, (i, f".{name}")), getattr(value, name))
                object.__setattr__(made, name, inner)
            return made
        if isinstance(value, dict):
            made = copy.copy(value)
            for i, (key, inner) in enumerate(value.items()):
                made[key] = self._tensors((*path, (i, f"[{key!r}]")), inner)
            return made
        if isinstance(value, list) or type(value) is tuple or hasattr(value, "_make"):
            inside = [self._tensors((*path, (i, f"[{i}]")), inner) for i, inner in enumerate(value)]
            if isinstance(value, list):
                made = copy.copy(value)
                made[:] = inside
                return made
            return tuple(inside) if type(value) is tuple else type(value)._make(inside)
        return value

    def _numpy(self, path: Path, value: Any, head: str) -> np.ndarray | None:
        """A NumPy, torch or jax array as NumPy; None for anything else."""
        if isinstance(value, np.ndarray):
            if isinstance(value, np.ma.MaskedArray):
                raise self._refuse(path, "a masked array", "a tensor has no mask",
                                   "Pass x.filled(value), and the mask as an array of its own")
            return value
        try:
            if head in FRAMEWORKS and hasattr(value, FRAMEWORKS[head]):
                return _of_torch(value.detach().cpu()) if head == "torch" else np.asarray(value)
        except (TypeError, RuntimeError, ValueError) as error:
            raise self._refuse(path, f"an array of {head} without NumPy's form ({error})",
                               "contents are needed to compute", "Convert it, or say data=False"
                               ) from None
        return None

    def _array(self, path: Path, array: np.ndarray) -> NkiTensor:
        if not array.dtype.isnative:
            raise self._refuse(path, f"dtype {array.dtype.str!r}, its bytes in foreign order",
                               "tensors keep this machine's order",
                               'Convert it: x.astype(x.dtype.newbyteorder("="))')
        return self._tensor(path, array.shape, array.dtype, array)

    def _tensor(self, path: Path, shape: Any, dtype: Any, array: np.ndarray | None) -> NkiTensor:
        if path not in self.made:
            name = _spelled(path)
            own = Allocation(name, checked(f"{self.kernel}: {name}", tuple(map(int, shape)) or (1,),
                                           dtype, MemoryRegion.shared_hbm, self.chip),
                             argument=True)
            raw = None
            if self.data:
                raw = np.array(array, order="C", subok=False).reshape(-1).view(np.uint8)
            self.made[path] = Storage(own, raw)
        return tensor(self.made[path])

    def _refuse(self, path: Path, got: object, limit: str, hint: str = "") -> NkiValidationError:
        return refuse(f"{self.kernel}: {_spelled(path)}", got, limit, hint)


def _spelled(path: Path) -> str:
    return "".join(text for _, text in path)


def _has_parts(value: Any) -> bool:
    """Whether it is an object that may hold arrays: one of the kernel's own classes."""
    if isinstance(value, (type, Enum, VirtualRegister)):
        return False
    return isinstance(value, NKIObject) or dataclasses.is_dataclass(value)


def _attributes(value: Any) -> list[str]:
    held = list(getattr(value, "__dict__", ()))
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    return held + [f.name for f in fields if f.name not in held and hasattr(value, f.name)]


def _parameters(function: Callable) -> str:
    try:
        return f"it takes {', '.join(inspect.signature(function).parameters) or 'none'}"
    except (TypeError, ValueError):
        return "a kernel is a Python function"


def _is_spec(value: Any) -> bool:
    """(shape, dtype), the stand-in for an array when only shapes count."""
    if not (type(value) is tuple and len(value) == 2 and type(value[0]) in (tuple, list)
            and all(isinstance(n, (int, float, np.number)) for n in value[0])):
        return False
    kind = value[1]
    if isinstance(kind, np.dtype) or (isinstance(kind, type) and issubclass(kind, np.generic)):
        return True
    if isinstance(kind, (int, float, list, tuple, dict)) or kind is None:
        return False
    try:
        return bool(dtypes.of(kind))
    except (ValueError, TypeError):  # "fp8" means a dtype, too, and is refused; "relu" does not
        return isinstance(kind, str) and any(map(str.isdigit, kind))


def _of_torch(plain: Any) -> np.ndarray:
    """A torch tensor on the host as NumPy, which has torch's bf16 and fp8 from ml_dtypes only."""
    name = str(plain.dtype).rpartition(".")[2]
    if name == "bfloat16":
        return plain.float().numpy().astype(dtypes.bfloat16.numpy)
    if name.startswith("float8") and name in dtypes.ALL:
        torch = sys.modules["torch"]
        return plain.view(torch.uint8).numpy().view(dtypes.of(name).numpy)
    return plain.numpy()


# --- results ---------------------------------------------------------------------------------


def results(kernel: str, returned: Sequence[Any]) -> list[NkiTensor]:
    """The tensors that each core's call returned, which must be the same ones.

    Raises NkiValidationError for anything but tensors in shared HBM.
    """
    try:
        each = [_flat(kernel, value) for value in returned]
    except RecursionError:
        raise refuse(f"{kernel}: result", "a list inside itself",
                     "a kernel returns a tensor or a tuple of tensors") from None
    for result in each[0]:
        if result.buffer is not MemoryRegion.shared_hbm:
            raise refuse(f"{kernel}: result {result.name}", f"a tensor in {result.buffer.value}",
                         "a result lies in shared_hbm",
                         "Allocate it with buffer=nl.shared_hbm and dma_copy into it")
        if result.indirection is not None:
            raise refuse(f"{kernel}: result {result.name}", "a view chosen at run time",
                         "a result is a tensor, or a fixed part of one",
                         "Copy the chosen part into a tensor of its own")
    if any([t.place for t in other] != [t.place for t in each[0]] for other in each[1:]):
        raise refuse(f"{kernel}: results", "different ones on the two cores",
                     "both instances of an LNC=2 kernel return the same tensors")
    return each[0]


def _flat(kernel: str, value: Any) -> list[NkiTensor]:
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, (tuple, list)) and value:
        return [t for v in value for t in _flat(kernel, v)]
    got = "None" if value is None else f"an empty {type(value).__name__}" if isinstance(
        value, (tuple, list)) else type(value).__name__
    raise refuse(f"{kernel}: result", got, "a kernel returns a tensor or a tuple of tensors",
                 "Return the nl.ndarray in shared_hbm that it wrote")


def array_of(result: NkiTensor) -> np.ndarray:
    """A result's elements as an array of the caller's."""
    made = np.array(result.array)
    return made.astype(bool) if result.dtype is dtypes.bool_ else made


