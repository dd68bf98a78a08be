"""The stand-in's NEFF: what was compiled, as one line of JSON, and what it gives, as raw bytes.

    kernel, target, lnc, uuid
    inputs    name, shape, dtype, nbytes, sha256: of the arrays it was compiled with
    outputs   name, shape, dtype, nbytes: its results for these inputs, in order, behind the line
    cores     for each physical core its instructions in program order:
              ["dma", read, written, partitions, line]    HBM bytes
              ["matmul", K, M, N, dtype, transpose, line]
              ["other", engine, opcode, elements, line]

A name of an input is that of the kernel's parameter, an output without a name is output_0, as in
the SDK's tutorial for nrtpy.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

MAGIC = b"NEFF of a test stand-in\n"


def write(path: str | Path, header: dict[str, Any], outputs: list[bytes]) -> None:
    line = json.dumps(header).encode()
    Path(path).write_bytes(MAGIC + line + b"\n" + b"".join(outputs))


def read(path: str | Path) -> tuple[dict[str, Any], list[bytes]]:
    """Header and outputs. Raises ValueError for another file."""
    data = Path(path).read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{path}: not a NEFF")
    line, _, raw = data[len(MAGIC):].partition(b"\n")
    header, outputs = json.loads(line), []
    for tensor in header["outputs"]:
        outputs.append(raw[:tensor["nbytes"]])
        raw = raw[tensor["nbytes"]:]
    return header, outputs


def npy(path: str | Path) -> tuple[tuple[int, ...], str, bytes]:
    """Shape, dtype and raw bytes of a .npy file. Raises ValueError.

    Of formats 1 to 3; dtypes that the format has a name for ("<f4", "|u1"), C order.
    """
    data = Path(path).read_bytes()
    if data[:6] != b"\x93NUMPY" or data[6:7] not in (b"\1", b"\2", b"\3"):
        raise ValueError(f"{path}: not a .npy file")
    wide = 2 if data[6] == 1 else 4
    start = 8 + wide
    size = int.from_bytes(data[8:start], "little")
    told: dict[str, Any] = eval(data[start:start + size].decode("latin1"), {"__builtins__": {}})
    descr = told["descr"]
    if not isinstance(descr, str) or descr[0] not in "<|" or descr[1] not in "fiub":
        raise ValueError(f"{path}: unsupported type of npy input: {descr!r}")
    if told["fortran_order"]:
        raise ValueError(f"{path}: Fortran order is not supported")
    raw, elements = data[start + size:], 1
    for length in told["shape"]:
        elements *= length
    if len(raw) != elements * int(descr[2:]):
        raise ValueError(f"{path}: cut: {len(raw)} bytes for {elements} elements of {descr}")
    return tuple(told["shape"]), descr, raw


def to_npy(tensor: dict[str, Any], raw: bytes) -> bytes:
    """A .npy file of this output. Raises ValueError for a dtype that NumPy cannot name.

    In the documented words (neuron-profile-user-guide.rst, troubleshooting).
    """
    names = {"float32": "<f4", "float16": "<f2", "int32": "<i4", "uint32": "<u4", "int16": "<i2",
             "uint16": "<u2", "int8": "|i1", "uint8": "|u1", "bool": "|b1"}
    if tensor["dtype"] not in names:
        raise ValueError(f"failed to save output {tensor['name']} to file: unsupported type for "
                         f"npy output: {tensor['dtype']}")
    shape = tuple(tensor["shape"])
    head = repr({"descr": names[tensor["dtype"]], "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + raw


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
