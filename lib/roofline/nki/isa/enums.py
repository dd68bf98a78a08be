"""The constants of nki.isa, with their documented members and values."""

from enum import Enum
from functools import total_ordering


class engine(Enum):
    """Engines of a NeuronCore; unknown leaves the choice to the compiler."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0

    __hash__ = object.__hash__


class reduce_cmd(Enum):
    """What an instruction does to its engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


class dge_mode(Enum):
    """Who generates a DMA's descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class oob_mode(Enum):
    """What an out-of-bounds run-time index does."""

    error = 0
    skip = 1

    __hash__ = object.__hash__


class matmul_perf_mode(Enum):
    """Performance modes of nc_matmul."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


@total_ordering
class nc_version(Enum):
    """NeuronCore generations, in order: gen2 Trn1 and Inf2, gen3 Trn2, gen4 Trn3."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    __hash__ = object.__hash__

    def __lt__(self, other: "nc_version") -> bool:
        return self.value < other.value


class dma_engine(Enum):
    """Engines of nki.isa.sendrecv."""

    dma = 1
    gpsimd_dma = 2

    __hash__ = object.__hash__


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
