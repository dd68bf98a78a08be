"""Day 4's kernels: three move bytes and compute nothing, two compute and move next to nothing.

Question  which bandwidth and which compute rate does a simple, well-written kernel reach?
Runs on   a NeuronCore with NKI 0.6, and on the course's NumPy backend
Symbols   p: bytes per element; A is stationary [K, M], B is moving [K, N]
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # partitions of SBUF; most rows and columns of a stationary tile
BANK = 512  # fp32 values a PSUM bank holds per partition; most columns of a moving tile
BANKS = 8  # PSUM banks


# --- bandwidth: equal transfers, there and back or one way ---------------------------------------


def transfers(x, elements, partitions):
    """x as [transfers, partitions, elements]; this core's are those from `first` up to an end."""
    cores = nl.num_programs()
    each = x.size // (elements * partitions * cores)
    assert each * elements * partitions * cores == x.size, (
        f"x: expected whole transfers of {elements * partitions} elements on {cores} core(s), "
        f"got {x.size} elements. Change elements or partitions")
    first = nl.program_id(0) * each
    return x.reshape((cores * each, partitions, elements)), first, first + each


def starters(queues):
    """How descriptors are made, and the two engines that start transfers by turns."""
    if queues == 0:
        return nisa.dge_mode.unknown, (nisa.engine.unknown, nisa.engine.unknown)
    if queues == 1:
        return nisa.dge_mode.hwdge, (nisa.engine.sync, nisa.engine.sync)
    return nisa.dge_mode.hwdge, (nisa.engine.sync, nisa.engine.scalar)


@nki.jit
def copy(x, elements=2048, partitions=128, queues=0):
    """y = x, HBM -> SBUF -> HBM, in equal transfers. The total is the size of x.

    x            any shape; a whole number of transfers for each core
    elements     per partition and transfer: p * elements bytes. NKI has no element size to ask
                 for, so a sweep over bytes passes bytes / p
    partitions   rows of SBUF a transfer fills, at most 128. A DMA engine serves 8 partitions, so
                 this also sets how many of the 16 engines a transfer can use: partitions / 8
    queues       who starts the transfers. 0: the compiler chooses, on any chip. 1: the Sync Engine
                 starts loads and stores. 2: the Sync Engine starts the loads, the Scalar Engine
                 the stores, so a load need not wait behind the store before it. 1 and 2 ask for
                 hardware descriptors: Trn2 and later
    returns      y, in the shape of x

    That is all source can say about queues: which engine starts a transfer, and the queue follows
    from it. A queue's number, the DMA engines behind it, packets and their order are decided by
    compiler and hardware; read them in the profile.

    HBM          p size(x) read, p size(x) written, however it is cut
    On chip      one transfer is live at a time: p * elements bytes per partition. Every transfer
                 has its own tile, so loads may run ahead as far as SBUF lets them
    LNC=2        copy[2] gives each core half of the transfers; so do read and write
    """
    source, first, end = transfers(x, elements, partitions)
    mode, engines = starters(queues)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    target = y.reshape(source.shape)
    for i in range(first, end):
        tile = nl.ndarray((partitions, elements), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[i], dge_mode=mode, engine=engines[0])
        nisa.dma_copy(dst=target[i], src=tile, dge_mode=mode, engine=engines[1])
    return y


@nki.jit
def read(x, elements=2048, partitions=128, queues=0):
    """x one way, HBM -> SBUF. Something of every transfer is kept, so none can be dropped.

    x, elements, partitions   as in copy
    queues       1: the Sync Engine starts the loads; 2: it and the Scalar Engine, by turns
    returns      y [partitions, transfers]: the first element of each row of each transfer
    HBM          p size(x) read, p size(x) / elements written, at the end
    """
    source, first, end = transfers(x, elements, partitions)
    mode, engines = starters(queues)
    y = nl.ndarray((partitions, source.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    kept = nl.ndarray((partitions, end - first), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(first, end):
        tile = nl.ndarray((partitions, elements), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=source[i], dge_mode=mode, engine=engines[i % 2])
        nisa.tensor_copy(dst=kept[:, nl.ds(i - first, 1)], src=tile[:, nl.ds(0, 1)])
    nisa.dma_copy(dst=y[:, nl.ds(first, end - first)], src=kept)
    return y


@nki.jit
def write(x, elements=2048, partitions=128, queues=0):
    """One way, SBUF -> HBM: each core loads its first transfer of x and stores it in every place.

    x, elements, partitions   as in copy
    queues       1: the Sync Engine starts the stores; 2: it and the Scalar Engine, by turns
    returns      y, in the shape of x
    HBM          p cores partitions elements read, p size(x) written
    """
    source, first, end = transfers(x, elements, partitions)
    mode, engines = starters(queues)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    target = y.reshape(source.shape)
    tile = nl.ndarray((partitions, elements), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source[first])
    for i in range(first, end):
        nisa.dma_copy(dst=target[i], src=tile, dge_mode=mode, engine=engines[i % 2])
    return y


# --- compute ------------------------------------------------------------------------------------


@nki.jit
def moving_sweep(a, b, n=64):
    """C = n * A'B: one stationary tile, n matmul instructions with a moving tile of N columns.

    a         stationary [K, M], K and M at most 128
    b         moving [K, N], N at most 512; sweep it: below 64 columns an instruction of the
              NeuronCore-v2 takes as long as one of 64
    n         instructions, all into one PSUM bank, so each of them counts towards the result and
              none can be dropped
    returns   C [M, N] in fp32

    HBM       p (KM + KN) read, 4 MN written
    W         2 MNK * n. A matmul instruction is two on the timeline, loading the stationary tile
              and multiplying; the load runs behind the multiply before it
    """
    K, M = a.shape
    N = b.shape[1]
    a_tile = nl.ndarray((K, M), dtype=a.dtype, buffer=nl.sbuf)
    b_tile = nl.ndarray((K, N), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=a_tile, src=a)
    nisa.dma_copy(dst=b_tile, src=b)

    total = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.psum)
    for i in range(n):
        nisa.nc_matmul(dst=total, stationary=a_tile, moving=b_tile, accumulate=i > 0)

    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.sbuf)
    c = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm, name="c")
    nisa.tensor_copy(dst=out, src=total)
    nisa.dma_copy(dst=c, src=out)
    return c


@nki.jit
def resident_matmul(a, b, repeat=16):
    """C = repeat * A'B with A, B and C on chip throughout: nothing but matmuls in the loop.

    a         stationary [K, M], K and M multiples of 128
    b         moving [K, N], N a multiple of 512
    repeat    times the whole product is computed. Every pass adds to C in PSUM, so no pass can be
              dropped and nothing is evicted between them
    returns   C [M, N] in fp32

    Limits    C has to stay in PSUM: (M / 128) (N / 512) <= 8 banks. A and B take
              p K (M + N) / 128 bytes per partition of SBUF
    HBM       p (KM + KN) read, 4 MN written, all of it outside the loop
    W         2 MNK * repeat. Time the loop on its own window: first matmul to last
    """
    K, M = a.shape
    N = b.shape[1]
    assert K % TILE == 0 and M % TILE == 0 and N % BANK == 0, (
        f"resident_matmul: expected K, M in steps of {TILE} and N of {BANK}, got {(K, M, N)}")
    assert (M // TILE) * (N // BANK) <= BANKS, (
        f"resident_matmul: C [{M}, {N}] needs {(M // TILE) * (N // BANK)} PSUM banks; limit "
        f"{BANKS}. Take a smaller M or N")
    a_sbuf = nl.ndarray((TILE, K // TILE, M), dtype=a.dtype, buffer=nl.sbuf)
    b_sbuf = nl.ndarray((TILE, K // TILE, N), dtype=b.dtype, buffer=nl.sbuf)
    for k in range(K // TILE):
        nisa.dma_copy(dst=a_sbuf[:, k, :], src=a[nl.ds(k * TILE, TILE), :])
        nisa.dma_copy(dst=b_sbuf[:, k, :], src=b[nl.ds(k * TILE, TILE), :])

    banks = []
    for _ in range((M // TILE) * (N // BANK)):
        banks.append(nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum))
    for i in range(repeat):
        for m in range(M // TILE):
            for n in range(N // BANK):
                for k in range(K // TILE):
                    nisa.nc_matmul(dst=banks[m * (N // BANK) + n],
                                   stationary=a_sbuf[:, k, nl.ds(m * TILE, TILE)],
                                   moving=b_sbuf[:, k, nl.ds(n * BANK, BANK)],
                                   accumulate=i + k > 0)

    c = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm, name="c")
    for m in range(M // TILE):
        for n in range(N // BANK):
            out = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=banks[m * (N // BANK) + n])
            nisa.dma_copy(dst=c[nl.ds(m * TILE, TILE), nl.ds(n * BANK, BANK)], src=out)
    return c
