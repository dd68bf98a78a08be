"""Where a linear layer stops being memory-bound: the numbers behind the live crossover.

Question  from which batch on does y = xW reach the ridge, and which figure moves that batch?
Answer    crossover(machines) -> Live: the page asks first, then lets the reader drag B, D and F
          and change chip, dtypes and bandwidth figure
Assumes   ops.Linear: x, the weights and y cross the slow link once; no scales
Ignores   further roofs (DMA, links), lower ceilings, tile shapes
"""

import math
from collections.abc import Sequence
from typing import Any

from .. import machine as machine_module
from .. import ops, units
from ..machine import Machine
from .live import Live
from .rooflines import machine_data, machine_rows

# What the sliders span, and what may be typed; 2BDF stays exact in a double.
SIZES = {"B": (1, 2**16), "D": (16, 2**18), "F": (16, 2**18)}

# (dtype of x, y and the arithmetic; dtype of the weights)
DTYPES = (("bf16", "bf16"), ("bf16", "int8"), ("bf16", "fp8"), ("fp8", "fp8"), ("int8", "int8"),
          ("fp32", "fp32"))


def chips() -> tuple[Machine, ...]:
    """The chips to choose from, where nobody says which."""
    # Not LNC=2: what both of its cores load crosses twice, which one Linear does not count.
    return tuple(map(machine_module.get, ("trn2", "trn1", "trn3", "h100", "tpu_v5e")))


def crossover(machines: Sequence[Machine] = (), *, B: int = 1, D: int = 4096, F: int = 4096,
              dtypes: Sequence[tuple[str, str]] = DTYPES) -> Live:
    """The batch at which a linear layer y = xW reaches the ridge, to guess at and to drag.

    machines   what to choose from, the first shown first; without any: a Trn2 core, two as an
               LNC=2 core, a core of Trn1 and of Trn3, an H100, a TPU v5e
    B, D, F    the layer shown first: B rows of D numbers through weights [D, F]
    dtypes     pairs: of x, y and the arithmetic; of the weights. The first is shown first

    Raises ShapeError for sizes or dtypes no layer can have, ValueError for a size out of SIZES, a
    machine without a peak for any dtype, a first machine without one for the first, and for a
    layer that no batch brings to the first machine's ridge: there would be nothing to ask.
    """
    machines = machines or chips()
    for symbol, size in (("B", B), ("D", D), ("F", F)):
        low, high = SIZES[symbol]
        if isinstance(size, int) and not low <= size <= high:
            raise ValueError(f"crossover: {symbol} is {size}; the figure spans {low} to {high}")
    layers = [ops.Linear(B, D, F, dtype, weights) for dtype, weights in dtypes]
    for machine in machines:
        if not any(layer.dtype in machine.peaks for layer in layers):
            raise ValueError(f"crossover: {machine.key} has no peak for any of "
                             f"{', '.join(layer.dtype for layer in layers)}")
    first = machines[0]
    if not layers or layers[0].dtype not in first.peaks:
        raise ValueError(f"crossover: {first.key} has no peak for the first dtype; it has "
                         f"{', '.join(first.peaks)}")
    if layers[0].crossover(first.ridge(layers[0].dtype)) == math.inf:
        raise ValueError(f"crossover: no batch of D = {D}, F = {F} reaches the ridge of "
                         f"{first.key}; take larger ones")
    used = {layer.dtype for layer in layers}
    says = _question(first, layers[0])
    data = {"machines": [machine_data(m, used) for m in machines], "says": says,
            "layers": [_layer(layer) for layer in layers],
            "sizes": SIZES, "start": {"B": B, "D": D, "F": F}}
    return Live("crossover", data, "\n\n".join(says), (
        ("Where the layer crosses (derived)", _crossings(machines, layers)),
        ("One step of it on the first chip (derived)", _steps(first, layers[0])),
        ("The machines' numbers", machine_rows(machines, used))),
        "a chart of a linear layer's intensity against its batch, to guess at and drag,")


def _layer(layer: ops.Linear) -> dict[str, Any]:
    """What the page needs of it beside B, D and F: P's dtype and the bytes of an element."""
    x, weights, y = (ops.BYTES[crossing.dtype] for crossing in layer.tensors)
    return {"label": _label(layer), "dtype": layer.dtype, "bytes": {"x": x, "w": weights, "y": y}}


def _label(layer: ops.Linear) -> str:
    return layer.dtype + ("" if layer.w_dtype in (None, layer.dtype)
                          else f", {layer.w_dtype} weights")


def _question(machine: Machine, layer: ops.Linear) -> list[str]:
    link = machine.bandwidths[machine.slow_link]
    return [
        "A linear layer y = xW takes B rows of D numbers through weights [D, F] and gives B rows "
        "of F. All rows share one reading of the weights, so I = W / Q grows with the batch B; "
        "where I reaches the ridge, the layer stops being memory-bound.",
        f"Take D = {layer.D} and F = {layer.F} in {_label(layer)} on {machine.name}: P = "
        f"{machine.peaks[layer.dtype].text} over BW = {link.text} puts the ridge at "
        f"{units.show(machine.ridge(layer.dtype), 'FLOP/B')}. Now a layer with half the D: "
        f"{layer.D // 2}. Does it reach the ridge at a smaller batch, a larger one or the same?"]


def _crossings(machines: Sequence[Machine], layers: Sequence[ops.Linear]) -> list[list[str]]:
    """Each chip at its first dtypes with every bandwidth figure; the first at the others too."""
    rows = [["chip", "dtypes", "BW", "ridge", "crosses at B", "first whole B", "I at most"]]
    for machine in machines:
        link = machine.bandwidths[machine.slow_link]
        first, *others = [layer for layer in layers if layer.dtype in machine.peaks]
        cases = [(first, spec) for spec in (link, *link.rivals)]
        cases += [(layer, link) for layer in others] if machine is machines[0] else []
        for layer, spec in cases:
            ridge = machine.peak(layer.dtype) / spec.value
            got = ops.crossover(layer, "B", ridge)
            rows.append([machine.name, _label(layer), f"{spec.text}, {spec.kind}",
                         units.show(ridge, "FLOP/B"),
                         *(("no batch", "none") if got.least == math.inf
                           else (f"{layer.crossover(ridge):.2f}", str(got.least))),
                         units.show(got.limit, "FLOP/B")])
    return rows


def _steps(machine: Machine, layer: ops.Linear) -> list[list[str]]:
    """The layer at its own B and at the whole batches around the crossover."""
    first = int(ops.crossover(layer, "B", machine.ridge(layer.dtype)).least)
    rows = [["B", "work W", "x", "weights", "y", "bytes Q", "I", "bound", "T_best"]]
    for B in sorted({layer.B, max(first - 1, 1), first}):
        here = ops.Linear(B, layer.D, layer.F, layer.dtype, layer.w_dtype)
        got = machine.entitle(here.algorithmic)
        rows.append([str(B), units.show(here.flops, "FLOP"),
                     *(units.show(t.read_bytes + t.write_bytes, "B") for t in here.tensors),
                     units.show(here.algorithmic.hbm_bytes, "B"),
                     units.show(got.intensity, "FLOP/B"),
                     "compute" if got.binds == "compute" else "memory",
                     units.show(got.t_best, "s")])
    return rows
