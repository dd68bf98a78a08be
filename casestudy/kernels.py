"""The case study's kernels: the MLP of Day 5 on an LNC=2 logical core, each weight loaded once.

Question  what is left of Q, and of T, when no weight crosses HBM twice?
Runs on   a NeuronCore with NKI 0.6, and on the course's NumPy backend; launch as kernel[2].
          Day 5's mlp_up, mlp_gelu, mlp_down and mlp_fused, launched the same way, load them twice
Symbols   p: bytes per element. B tokens, D and F widths
Layout    as on Day 5: x comes transposed, [D, B]; h and g are kept so, [F, B]; y is [B, D]
Split     tokens: each core takes half of them, as on Day 5. Weights: core 0 loads the first half of
          F, core 1 the second, and each sends its half to the other's SBUF. A core walks over F
          from its own half on, whose tiles of h need nothing of the other. No use is made of that
          yet: the kernels ask for their first tokens after the exchange
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


def same(what, size, expected):
    """Refuses an input whose size does not fit the others: a wrong count would say nothing."""
    assert size == expected, f"{what}: expected {expected}, got {size}"


def share(what, size, tile):
    """Which tiles of `tile` in `size` are this core's: the first half of them, or the second."""
    cores = nl.num_programs()
    assert cores == 2, f"{what}: expected 2 cores to share it, got {cores}. Launch it as kernel[2]"
    each = tiles(what, size, tile * cores)
    mine = []
    for i in range(each):
        mine.append(nl.program_id(0) * each + i)
    return mine


def in_halves(size, columns, dtype):
    """Places in SBUF for the two halves of a weight matrix: the core's own, the other core's."""
    halves = []
    for _ in range(2):
        halves.append(nl.ndarray((TILE, size, columns), dtype=dtype, buffer=nl.sbuf))
    return halves


def exchange(halves):
    """Sends the core's own half to the other core, and takes the other's: no byte over HBM."""
    other = 1 - nl.program_id(0)
    nisa.sendrecv(src=halves[0], dst=halves[1], send_to_rank=other, recv_from_rank=other,
                  pipe_id=0)


def fetch_up(w_up, halves):
    """Columns of W_up: the core's own half of F from HBM, the rest from the other core."""
    D, F = w_up.shape
    for k in range(tiles("D", D, TILE)):
        nisa.dma_copy(dst=halves[0][:, k, :],
                      src=w_up[nl.ds(k * TILE, TILE), nl.ds(nl.program_id(0) * (F // 2), F // 2)])
    exchange(halves)


def fetch_down(w_down, halves):
    """Rows of W_down: the core's own half of F from HBM, the rest from the other core."""
    F = w_down.shape[0]
    mine = share("F", F, TILE)
    for j in range(len(mine)):
        nisa.dma_copy(dst=halves[0][:, j, :], src=w_down[nl.ds(mine[j] * TILE, TILE), :])
    exchange(halves)


@nki.jit
def mlp_up_w_once(x, w_up, block=512):
    """h = x W_up, the first of three kernels.

    x         [D, B], transposed: D is a multiple of 128, B of 2 * `block`
    w_up      [D, F], F a multiple of 256; all of it ends up on both cores
    block     tokens at a time, at most 512: the columns of a moving tile
    returns   h [F, B], transposed
    HBM       p (BD + DF) read, p BF written; p DF bytes go from SBUF to SBUF
    """
    D, B = x.shape
    F = w_up.shape[1]
    same("D of w_up, as of x", w_up.shape[0], D)
    h = nl.ndarray((F, B), dtype=x.dtype, buffer=nl.shared_hbm, name="h")
    mine = share("F", F, TILE)
    first, half = mine[0], len(mine)
    up = in_halves(tiles("D", D, TILE), F // 2, w_up.dtype)
    fetch_up(w_up, up)
    for i in share("B", B, block):
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :],
                          src=x[nl.ds(k * TILE, TILE), nl.ds(i * block, block)])
        for j in range(2 * half):
            total = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=total,
                               stationary=up[j // half][:, k, nl.ds(j % half * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            out = nl.ndarray((TILE, block), dtype=h.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=total)
            row = (first + j) % (2 * half) * TILE
            nisa.dma_copy(dst=h[nl.ds(row, TILE), nl.ds(i * block, block)], src=out)
    return h


@nki.jit
def mlp_down_w_once(g, w_down, block=512):
    """y = g W_down, the third of three kernels; the second, mlp_gelu, has no weights.

    g         [F, B], transposed: F is a multiple of 256, B of 2 * `block`
    w_down    [F, D], D a multiple of 512; all of it ends up on both cores
    block     tokens loaded at a time, a multiple of 128
    returns   y [B, D]
    HBM       p (BF + FD) read, p BD written; p FD bytes go from SBUF to SBUF
    """
    F, B = g.shape
    D = w_down.shape[1]
    same("F of w_down, as of g", w_down.shape[0], F)
    y = nl.ndarray((B, D), dtype=g.dtype, buffer=nl.shared_hbm, name="y")
    mine = share("F", F, TILE)
    first, half = mine[0], len(mine)
    down = in_halves(half, D, w_down.dtype)
    fetch_down(w_down, down)
    for i in share("B", B, block):
        g_block = nl.ndarray((TILE, 2 * half, block), dtype=g.dtype, buffer=nl.sbuf)
        for j in range(2 * half):
            row = (first + j) % (2 * half) * TILE
            nisa.dma_copy(dst=g_block[:, j, :], src=g[nl.ds(row, TILE), nl.ds(i * block, block)])
        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("D", D, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for j in range(2 * half):
                    nisa.nc_matmul(dst=total, stationary=g_block[:, j, nl.ds(t * TILE, TILE)],
                                   moving=down[j // half][:, j % half, nl.ds(n * BANK, BANK)],
                                   accumulate=j > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(i * block + t * TILE, TILE), :], src=out)
    return y


@nki.jit
def mlp_fused_w_once(x, w_up, w_down, block=128, down_last=False):
    """y = gelu(x W_up) W_down in one kernel.

    x           [D, B], transposed: D is a multiple of 512, B of 2 * `block`
    w_up        [D, F], F a multiple of 256; w_down [F, D]. Both end up on both cores
    block       tokens at a time, a multiple of 128 and at most 512
    down_last   W_down is asked for after the first block of x, not before it: no matmul needs it
                until the first block has been through GELU
    returns     y [B, D]
    HBM         p (BD + 2 DF) read, p BD written; 2 p DF bytes go from SBUF to SBUF
    """
    D, B = x.shape
    F = w_up.shape[1]
    same("D of w_up, as of x", w_up.shape[0], D)
    same("F of w_down, as of w_up", w_down.shape[0], F)
    same("D of w_down, as of x", w_down.shape[1], D)
    y = nl.ndarray((B, D), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    half = len(share("F", F, TILE))
    up = in_halves(tiles("D", D, TILE), F // 2, w_up.dtype)
    down = in_halves(half, D, w_down.dtype)
    fetch_up(w_up, up)
    if not down_last:
        fetch_down(w_down, down)

    blocks = share("B", B, block)
    for n_block in range(len(blocks)):
        i = blocks[n_block]
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :],
                          src=x[nl.ds(k * TILE, TILE), nl.ds(i * block, block)])
        if down_last and n_block == 0:
            fetch_down(w_down, down)

        g_block = nl.ndarray((TILE, 2 * half, block), dtype=x.dtype, buffer=nl.sbuf)
        for j in range(2 * half):
            h = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=h, stationary=up[j // half][:, k, nl.ds(j % half * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            nisa.activation(dst=g_block[:, j, :], op=nl.gelu, data=h)

        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("D", D, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for j in range(2 * half):
                    nisa.nc_matmul(dst=total, stationary=g_block[:, j, nl.ds(t * TILE, TILE)],
                                   moving=down[j // half][:, j % half, nl.ds(n * BANK, BANK)],
                                   accumulate=j > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(i * block + t * TILE, TILE), :], src=out)
    return y
