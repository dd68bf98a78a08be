"""Day 6's kernels: a linear layer on an LNC=2 logical core, its weights loaded by both or once.

Question  two physical cores run the same kernel: which bytes cross HBM twice?
Runs on   a NeuronCore with NKI 0.6, and on the course's NumPy backend; launch as kernel[2].
          Day 5's MLP (mlp_up, mlp_gelu, mlp_down, mlp_fused) is launched the same way
Symbols   p: bytes per element. B tokens, D and F widths
Layout    x is transposed, [D, B], as on Day 5
Split     tokens: core 0 takes the first half of B, core 1 the second. SBUF and PSUM are each core's
          own, so a load that does not depend on the core happens once per core. On one core
          (kernel[1], or no brackets) it takes all tokens, and everything is loaded once
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # partitions of SBUF; most rows and columns of a stationary tile
BANK = 512  # fp32 values a PSUM bank holds per partition; most columns of a moving tile


def tiles(what, size, tile):
    """How many tiles of `tile` make up `size`. Nothing is padded: a remainder is refused."""
    assert size % tile == 0, f"{what}: expected a multiple of {tile}, got {size}"
    return size // tile


def share(what, size, tile):
    """Which tiles of `tile` in `size` are this core's: all of them on one core, half on two."""
    each = tiles(what, size, tile * nl.num_programs())
    mine = []
    for i in range(each):
        mine.append(nl.program_id(0) * each + i)
    return mine


def multiply(x, w_sbuf, block, first=0):
    """y = x W with W on chip: this core's blocks of tokens.

    w_sbuf    [128, D / 128, F]: the tiles of W's rows from `first` on, then those before it. x is
              loaded in the same order; a sum over D may run in any
    """
    D, B = x.shape
    F = w_sbuf.shape[2]
    y = nl.ndarray((B, F), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    for i in share("B", B, block):
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            row = (first + k) % (D // TILE) * TILE
            nisa.dma_copy(dst=x_block[:, k, :], src=x[nl.ds(row, TILE), nl.ds(i * block, block)])
        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, F), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("F", F, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for k in range(D // TILE):
                    nisa.nc_matmul(dst=total, stationary=x_block[:, k, nl.ds(t * TILE, TILE)],
                                   moving=w_sbuf[:, k, nl.ds(n * BANK, BANK)], accumulate=k > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(i * block + t * TILE, TILE), :], src=out)
    return y


@nki.jit
def linear(x, w, block=512):
    """y = x W, each core its half of the tokens, W loaded by each.

    x         [D, B], transposed: D is a multiple of 128, B of `block` on each core
    w         [D, F], F a multiple of 512; stays on chip, p DF / 128 bytes per partition
    block     tokens loaded at a time, a multiple of 128
    returns   y [B, F]
    HBM       p (BD + cores DF) read, p BF written
    """
    D, F = w.shape
    w_sbuf = nl.ndarray((TILE, tiles("D", D, TILE), F), dtype=w.dtype, buffer=nl.sbuf)
    for k in range(D // TILE):
        nisa.dma_copy(dst=w_sbuf[:, k, :], src=w[nl.ds(k * TILE, TILE), :])
    return multiply(x, w_sbuf, block)


@nki.jit
def linear_w_once(x, w, block=512):
    """y = x W on two cores, W crossing HBM once: each core loads half of it and sends it over.

    x         [D, B], transposed: D is a multiple of 256, B of 2 * `block`
    w         [D, F], F a multiple of 512; all of it ends up on both cores
    block     tokens loaded at a time, a multiple of 128
    returns   y [B, F]
    HBM       p (BD + DF) read, p BF written. The halves of W cross from SBUF to SBUF: p DF bytes
              in all, none of them over HBM
    """
    cores = nl.num_programs()
    assert cores == 2, f"linear_w_once: expected 2 cores, got {cores}. Launch it as kernel[2]"
    D, F = w.shape
    half = tiles("D", D, 2 * TILE)
    first = nl.program_id(0) * half
    other = 1 - nl.program_id(0)
    w_sbuf = nl.ndarray((TILE, 2 * half, F), dtype=w.dtype, buffer=nl.sbuf)
    for k in range(half):
        nisa.dma_copy(dst=w_sbuf[:, k, :], src=w[nl.ds((first + k) * TILE, TILE), :])
    # own half first, then the other's: the same places on both cores
    nisa.sendrecv(src=w_sbuf[:, nl.ds(0, half), :], dst=w_sbuf[:, nl.ds(half, half), :],
                  send_to_rank=other, recv_from_rank=other, pipe_id=0)
    return multiply(x, w_sbuf, block, first)
