"""Day 6's kernels: Day 5's linear layer and MLP on an LNC=2 logical core.

Question  two physical cores run the same kernel: which bytes cross HBM twice?
Runs on   a NeuronCore with NKI 0.6, and on the course's NumPy backend; launch as kernel[2]
Symbols   p: bytes per element. B tokens, D and F widths
Layout    x, h and g are transposed, [width, B], as on Day 5
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
    """How many tiles of `tile` are one core's even share of `size`."""
    return tiles(what, size, tile * nl.num_programs())


@nki.jit
def linear(x, w, block=512):
    """y = x W, each core its half of the tokens, W loaded by each.

    x         [D, B], transposed: D is a multiple of 128, B of the number of cores times `block`
    w         [D, F], F a multiple of 512; stays on chip, p DF / 128 bytes per partition
    block     tokens loaded at a time, a multiple of 128
    returns   y [B, F]
    HBM       p (BD + cores DF) read, p BF written
    """
    D, B = x.shape
    F = w.shape[1]
    y = nl.ndarray((B, F), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    w_sbuf = nl.ndarray((TILE, tiles("D", D, TILE), F), dtype=w.dtype, buffer=nl.sbuf)
    for k in range(D // TILE):
        nisa.dma_copy(dst=w_sbuf[:, k, :], src=w[nl.ds(k * TILE, TILE), :])

    for i in range(share("B", B, block)):
        first = (nl.program_id(0) * share("B", B, block) + i) * block
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :], src=x[nl.ds(k * TILE, TILE), nl.ds(first, block)])
        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, F), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("F", F, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for k in range(D // TILE):
                    nisa.nc_matmul(dst=total, stationary=x_block[:, k, nl.ds(t * TILE, TILE)],
                                   moving=w_sbuf[:, k, nl.ds(n * BANK, BANK)], accumulate=k > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(first + t * TILE, TILE), :], src=out)
    return y


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
    D, B = x.shape
    F = w.shape[1]
    core = nl.program_id(0)
    other = 1 - core
    half = share("D", D, TILE)
    y = nl.ndarray((B, F), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    mine = nl.ndarray((TILE, half, F), dtype=w.dtype, buffer=nl.sbuf)
    theirs = nl.ndarray((TILE, half, F), dtype=w.dtype, buffer=nl.sbuf)
    for k in range(half):
        nisa.dma_copy(dst=mine[:, k, :], src=w[nl.ds((core * half + k) * TILE, TILE), :])
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=0)

    for i in range(share("B", B, block)):
        first = (core * share("B", B, block) + i) * block
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :], src=x[nl.ds(k * TILE, TILE), nl.ds(first, block)])
        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, F), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("F", F, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for k in range(half):  # the rows of W that this core loaded, then the other's
                    nisa.nc_matmul(
                        dst=total,
                        stationary=x_block[:, core * half + k, nl.ds(t * TILE, TILE)],
                        moving=mine[:, k, nl.ds(n * BANK, BANK)], accumulate=k > 0)
                for k in range(half):
                    nisa.nc_matmul(
                        dst=total,
                        stationary=x_block[:, other * half + k, nl.ds(t * TILE, TILE)],
                        moving=theirs[:, k, nl.ds(n * BANK, BANK)], accumulate=True)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(first + t * TILE, TILE), :], src=out)
    return y


# --- Day 5's MLP, y = gelu(x W_up) W_down: tokens shared out, the weights on each core -----------


@nki.jit
def mlp_up(x, w_up, block=512):
    """h = x W_up, the first of three kernels.

    x         [D, B], transposed; w_up [D, F], on each core
    block     tokens at a time, at most 512
    returns   h [F, B], transposed
    HBM       p (BD + cores DF) read, p BF written
    """
    D, B = x.shape
    F = w_up.shape[1]
    h = nl.ndarray((F, B), dtype=x.dtype, buffer=nl.shared_hbm, name="h")
    w_sbuf = nl.ndarray((TILE, tiles("D", D, TILE), F), dtype=w_up.dtype, buffer=nl.sbuf)
    for k in range(D // TILE):
        nisa.dma_copy(dst=w_sbuf[:, k, :], src=w_up[nl.ds(k * TILE, TILE), :])
    for i in range(share("B", B, block)):
        first = (nl.program_id(0) * share("B", B, block) + i) * block
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :], src=x[nl.ds(k * TILE, TILE), nl.ds(first, block)])
        for f in range(tiles("F", F, TILE)):
            total = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=total, stationary=w_sbuf[:, k, nl.ds(f * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            out = nl.ndarray((TILE, block), dtype=h.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=total)
            nisa.dma_copy(dst=h[nl.ds(f * TILE, TILE), nl.ds(first, block)], src=out)
    return h


@nki.jit
def mlp_gelu(h):
    """g = gelu(h), the second of three; elementwise, so each core takes half of the rows of F.

    h         [F, B], F a multiple of 128 times the number of cores
    returns   g [F, B]
    HBM       p BF read, p BF written
    """
    F, B = h.shape
    g = nl.ndarray((F, B), dtype=h.dtype, buffer=nl.shared_hbm, name="g")
    for i in range(share("F", F, TILE)):
        first = (nl.program_id(0) * share("F", F, TILE) + i) * TILE
        tile = nl.ndarray((TILE, B), dtype=h.dtype, buffer=nl.sbuf)
        out = nl.ndarray((TILE, B), dtype=g.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=h[nl.ds(first, TILE), :])
        nisa.activation(dst=out, op=nl.gelu, data=tile)
        nisa.dma_copy(dst=g[nl.ds(first, TILE), :], src=out)
    return g


@nki.jit
def mlp_down(g, w_down, block=512):
    """y = g W_down, the third of three kernels.

    g         [F, B], transposed; w_down [F, D], on each core; D is a multiple of 512
    block     tokens loaded at a time, a multiple of 128
    returns   y [B, D]
    HBM       p (BF + cores FD) read, p BD written
    """
    F, B = g.shape
    D = w_down.shape[1]
    y = nl.ndarray((B, D), dtype=g.dtype, buffer=nl.shared_hbm, name="y")
    w_sbuf = nl.ndarray((TILE, tiles("F", F, TILE), D), dtype=w_down.dtype, buffer=nl.sbuf)
    for f in range(F // TILE):
        nisa.dma_copy(dst=w_sbuf[:, f, :], src=w_down[nl.ds(f * TILE, TILE), :])
    for i in range(share("B", B, block)):
        first = (nl.program_id(0) * share("B", B, block) + i) * block
        g_block = nl.ndarray((TILE, F // TILE, block), dtype=g.dtype, buffer=nl.sbuf)
        for f in range(F // TILE):
            nisa.dma_copy(dst=g_block[:, f, :], src=g[nl.ds(f * TILE, TILE), nl.ds(first, block)])
        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("D", D, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for f in range(F // TILE):
                    nisa.nc_matmul(dst=total, stationary=g_block[:, f, nl.ds(t * TILE, TILE)],
                                   moving=w_sbuf[:, f, nl.ds(n * BANK, BANK)], accumulate=f > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(first + t * TILE, TILE), :], src=out)
    return y


@nki.jit
def mlp_fused(x, w_up, w_down, block=128):
    """y = gelu(x W_up) W_down in one kernel, the case study's: h and g never reach HBM.

    x         [D, B], transposed: D is a multiple of 512, B of the number of cores times `block`
    w_up      [D, F], w_down [F, D]: both on each core, 2 p DF / 128 bytes per partition
    block     tokens at a time, 128 to 512 in steps of 128
    returns   y [B, D]
    HBM       p (BD + 2 cores DF) read, p BD written
    """
    D, B = x.shape
    F = w_up.shape[1]
    y = nl.ndarray((B, D), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    up_sbuf = nl.ndarray((TILE, tiles("D", D, TILE), F), dtype=w_up.dtype, buffer=nl.sbuf)
    down_sbuf = nl.ndarray((TILE, tiles("F", F, TILE), D), dtype=w_down.dtype, buffer=nl.sbuf)
    for k in range(D // TILE):
        nisa.dma_copy(dst=up_sbuf[:, k, :], src=w_up[nl.ds(k * TILE, TILE), :])
    for f in range(F // TILE):
        nisa.dma_copy(dst=down_sbuf[:, f, :], src=w_down[nl.ds(f * TILE, TILE), :])

    for i in range(share("B", B, block)):
        first = (nl.program_id(0) * share("B", B, block) + i) * block
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :], src=x[nl.ds(k * TILE, TILE), nl.ds(first, block)])

        g_block = nl.ndarray((TILE, F // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for f in range(F // TILE):
            h = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=h, stationary=up_sbuf[:, k, nl.ds(f * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            nisa.activation(dst=g_block[:, f, :], op=nl.gelu, data=h)

        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("D", D, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for f in range(F // TILE):
                    nisa.nc_matmul(dst=total, stationary=g_block[:, f, nl.ds(t * TILE, TILE)],
                                   moving=down_sbuf[:, f, nl.ds(n * BANK, BANK)],
                                   accumulate=f > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(first + t * TILE, TILE), :], src=out)
    return y
