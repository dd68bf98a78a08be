"""nki.isa: each function is one instruction of a NeuronCore, under its documented name.

Each checks what the documents and the hardware ask, computes in NumPy when there is data, and
records itself. What is documented and not here raises Uncounted.
"""

# ruff: noqa: F401  what is imported is what the module has

from typing import Any

from ..core import NkiInstruction, NkiValidationError
from ..memory import VirtualRegister
from ..surface import stub
from .control import (
    core_barrier,
    get_nc_sub_version,
    get_nc_version,
    register_alloc,
    register_load,
    register_move,
    register_store,
    sendrecv,
)
from .dma import dma_compute, dma_copy, dma_transpose
from .enums import (
    dge_mode,
    dma_engine,
    engine,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from .gpsimd import (
    affine_select,
    iota,
    local_gather,
    nc_n_gather,
    nonzero_with_count,
    sequence_bounds,
    tensor_partition_reduce,
)
from .running import (
    exponential,
    range_select,
    select_reduce,
    tensor_scalar_cumulative,
    tensor_scalar_reduce,
)
from .scalar import activate2, activation, activation_reduce
from .search import max8, nc_find_index8, nc_match_replace8
from .tensor import nc_matmul, nc_transpose
from .vector import (
    bn_aggr,
    bn_stats,
    memset,
    nc_stream_shuffle,
    reciprocal,
    scalar_tensor_tensor,
    tensor_copy,
    tensor_copy_predicated,
    tensor_reduce,
    tensor_scalar,
    tensor_tensor,
    tensor_tensor_scan,
)


def __getattr__(name: str) -> Any:
    return stub(__name__.partition(".")[2], name)  # raises Uncounted when it is called
