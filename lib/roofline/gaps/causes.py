"""The causes a ledger knows: what each one is, and what to try first."""

from types import MappingProxyType
from typing import NamedTuple


class Cause(NamedTuple):
    """What it is; what to try."""

    what: str
    try_: str


CAUSES = MappingProxyType({
    "start": Cause(
        "Before the first DMA transfer is issued: the runtime starts the kernel and brings the "
        "engines together.",
        "It is paid once a launch: fuse kernels or give one launch more work, and compare small "
        "kernels by a clock that leaves it out."),
    "fill": Cause(
        "From the first DMA issue to the first event of the roof: the first tiles are on their "
        "way and there is nothing to work on.",
        "Load the two tiles that the first nc_matmul needs before anything else, and spread the "
        "first loads over several DMA queues."),
    "transposes": Cause(
        "Matmuls against an identity matrix that only turn a tile: the Tensor Engine moves data "
        "instead of multiplying.",
        "Load with dma_transpose, store the operand in HBM the way it is needed, or swap "
        "stationary and moving so that nothing has to be turned."),
    "throttle": Cause(
        "The Tensor Engine was allowed only k of n cycles, as it is when work begins and after "
        "it has idled.",
        "Warm up during the fill with matmuls on a tile of zeros, and leave no pauses of some "
        "microseconds between matmuls."),
    "dtype": Cause(
        "Matmuls in a dtype that runs slower than the one the work is counted in; negative where "
        "theirs is the faster one.",
        "Cast the operands to bf16 before nc_matmul; PSUM accumulates in fp32 all the same."),
    "small tiles": Cause(
        "Stationary tiles that fill only a part of the array: fewer rows (K; for fp8 Trainium2's "
        "is 256 deep) or columns (M) than it has.",
        "Tile K and M to 128 for nc_matmul, or place several small products side by side in one "
        "stationary tile."),
    "short moving": Cause(
        "Moving tiles shorter than the least interval between two matmuls, so the array waits "
        "for the next instruction.",
        "Make N 512: swap stationary and moving, or join several moving tiles into one."),
    "pipeline": Cause(
        "Matmuls follow each other more slowly than their columns need: fixed cycles of each "
        "instruction, waits for PSUM; negative where they ran faster than the roof's rate.",
        "Use moving tiles of N = 512 and double-buffer PSUM: accumulate into one bank while "
        "another is copied out."),
    "weight load": Cause(
        "A stationary tile is loaded (LDWEIGHTS) while no matmul runs that could hide it.",
        "Use a loaded stationary tile for more moving tiles, and order the loop so that the next "
        "one loads during a matmul."),
    "wait for vector": Cause(
        "The engine of the roof waits for results of the Vector Engine.",
        "Overlap it with two or more buffers, work on bf16 in SBUF, fuse steps into one "
        "instruction, or give a part to the Scalar Engine."),
    "wait for scalar": Cause(
        "The engine of the roof waits for results of the Scalar Engine.",
        "Overlap it with two or more buffers, fuse scale, bias and function into one activation, "
        "or give copies to the Vector Engine."),
    "wait for gpsimd": Cause(
        "The engine of the roof waits for results of GpSimd, the slowest of the engines.",
        "Move its element-wise work to the Vector or Scalar Engine, or compute its masks and "
        "indices once before the loop."),
    "wait for tensor": Cause(
        "No packet is under way while the Tensor Engine computes.",
        "Double-buffer the tiles: issue the next load before the matmuls of this one, and store "
        "the last result during them."),
    "wait for DMA": Cause(
        "The Tensor Engine waits for a tile that is still on its way.",
        "Prefetch into a second SBUF buffer, make each DMA transfer larger (2 KiB and more a "
        "partition), and load no tile twice."),
    "DMA issue": Cause(
        "No packet is under way while an engine spends its time issuing a transfer.",
        "Issue fewer and larger DMA transfers, and spread them over the queues of several "
        "engines."),
    "DMA latency": Cause(
        "No packet is under way: a transfer was issued and its packets are still to come, or the "
        "next one is issued only after its receipt.",
        "Keep several transfers in flight: give each its own buffer, so that none waits for the "
        "one before, and make them larger."),
    "instruction fetch": Cause(
        "The queues carry only packets that are no traffic of the kernel: instructions and "
        "semaphores.",
        "Make the program shorter: a loop in place of unrolled tiles, larger tiles."),
    "few engines": Cause(
        "Packets are under way on only some of the DMA engines.",
        "Let a transfer span all 128 partitions (8 an engine), or keep several transfers in "
        "flight."),
    "packet cost": Cause(
        "A busy DMA engine moves less than its rate: each packet costs a fixed time besides its "
        "bytes.",
        "Make packets 4 KiB: contiguous rows of 2 KiB and more a partition, no strided or "
        "element-wise access."),
    "packets": Cause(
        "Packets take longer than their bytes at the roof; the profile does not say on which "
        "engines.",
        "Use larger contiguous transfers over all 128 partitions, and capture again with DMA "
        "engines recorded to tell the causes apart."),
    "engines against the roof": Cause(
        "What all DMA engines carry together differs from the bandwidth of the roof; negative "
        "where they carry more.",
        "Nothing in the kernel: compare with a roof measured by a copy kernel."),
    "extra bytes": Cause(
        "More bytes crossed HBM than were counted: tiles loaded again, constants, spills.",
        "Keep the tile that is loaded again in SBUF, or change the loop order; compare the "
        "counts to see which tensor it is."),
    "uncounted work": Cause(
        "The matmuls that ran do more (or, negative, less) work than was counted.",
        "Look for products computed twice, padding, or work missing from the count."),
    "idle": Cause(
        "No engine worked and nothing was under way: a wait for a semaphore, or instructions "
        "that were not there yet.",
        "Look at the instruction after the stretch and what it waits for; fewer and larger "
        "instructions synchronize less."),
    "wait for the other core": Cause(
        "This core has done its work and the other one of the pair has not.",
        "Give both cores the same work: split the larger dimension evenly, in tiles that take as "
        "long."),
    "tail": Cause(
        "After the last event of the roof: the last results are copied out of PSUM and stored.",
        "Store each tile as soon as it is done, so that only the last is left; end with a small "
        "one."),
    "end": Cause(
        "After the last work, also beyond the last timestamp: the runtime waits for all engines "
        "and tells the host.",
        "It is paid once a launch: fuse kernels or give one launch more work."),
    "rounding": Cause(
        "The total time is up to 2 ns longer than the last timestamp, or shorter: clocks differ.",
        "Nothing to do."),
})
