"""Day 7's kernels, for the two inf2 notebooks: a 2048^3 matmul, and a SwiGLU MLP in two mappings.

Question  how close does a kernel that moves the fewest bytes come to its entitlement?
Runs on   a NeuronCore with NKI 0.6 (they fit the 192 KiB per partition of inf2 and trn1), and on
          the course's NumPy backend
Symbols   p: bytes per element. M, K, N of the matmul; B tokens, D and F widths of the MLP
Layout    operands come with the contracted dimension first, as on Day 5: a is A transposed, [K, M],
          x is transposed, [D, B]
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # partitions of SBUF; most rows and columns of a stationary tile
BANK = 512  # fp32 values a PSUM bank holds per partition; most columns of a moving tile
BANKS = 8  # PSUM banks


def tiles(what, size, tile):
    """How many tiles of `tile` make up `size`. Nothing is padded: a remainder is refused."""
    assert size % tile == 0, f"{what}: expected a multiple of {tile}, got {size}"
    return size // tile


def same(what, size, expected):
    """Refuses an input whose size does not fit the others: a wrong count would say nothing."""
    assert size == expected, f"{what}: expected {expected}, got {size}"


def fit(D, F, w_gate, w_up, w_down, block):
    """Refuses weights of a SwiGLU that are not [D, F], [D, F] and [F, D], and too wide a block."""
    same("D of w_gate, as of x", w_gate.shape[0], D)
    same("D of w_up, as of x", w_up.shape[0], D)
    same("F of w_gate, as of w_up", w_gate.shape[1], F)
    same("F of w_down, as of w_up", w_down.shape[0], F)
    same("D of w_down, as of x", w_down.shape[1], D)
    assert block <= BANK, f"block: at most {BANK} (columns of a moving tile), got {block}"


@nki.jit
def matmul(a, b, block=512, together=False):
    """C = AB with every byte crossing once: B stays, A passes in wide blocks, C leaves in rows.

    a         A transposed, [K, M]: K is a multiple of 128, M of `block`
    b         [K, N], N a multiple of 512, at most 4096: a row of C tiles takes N / 512 PSUM banks
    block     rows of A loaded at a time, a multiple of 128. A load of A has rows of p * block
              bytes, so a wide block makes long DMA transfers; Q is the same for all
    together  load the first block of A row by row with B, not after all of it: the same transfers
              in another order, and the first matmul has its two tiles sooner
    returns   C [M, N]

    r_A, r_B  1 and 1
    HBM       p (MK + KN) read, p MN written
    On chip   p KN / 128 bytes per partition for B, p K block / 128 for the block of A
    Order     k outside n: a stationary tile serves N / 512 matmuls in a row. All of B is asked for
              before any of A; with `together` the first row of C starts with the first rows of B
    """
    K, M = a.shape
    N = b.shape[1]
    assert b.shape[0] == K, f"K of b, as of a: expected {K}, got {b.shape[0]}"
    assert N <= BANKS * BANK, f"matmul: N: at most {BANKS * BANK} ({BANKS} PSUM banks), got {N}"
    c = nl.ndarray((M, N), dtype=a.dtype, buffer=nl.shared_hbm, name="c")
    b_sbuf = nl.ndarray((TILE, tiles("K", K, TILE), N), dtype=b.dtype, buffer=nl.sbuf)
    a_block = nl.ndarray((TILE, K // TILE, block), dtype=a.dtype, buffer=nl.sbuf)
    for k in range(K // TILE):
        if together:
            nisa.dma_copy(dst=a_block[:, k, :], src=a[nl.ds(k * TILE, TILE), nl.ds(0, block)])
        nisa.dma_copy(dst=b_sbuf[:, k, :], src=b[nl.ds(k * TILE, TILE), :])
    for i in range(tiles("M", M, block)):
        if i > 0:
            a_block = nl.ndarray((TILE, K // TILE, block), dtype=a.dtype, buffer=nl.sbuf)
        for k in range(K // TILE):
            if i > 0 or not together:
                nisa.dma_copy(dst=a_block[:, k, :],
                              src=a[nl.ds(k * TILE, TILE), nl.ds(i * block, block)])
        for m in range(tiles("block", block, TILE)):
            totals = []
            for _ in range(tiles("N", N, BANK)):
                totals.append(nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum))
            for k in range(K // TILE):
                for n in range(N // BANK):
                    nisa.nc_matmul(dst=totals[n], stationary=a_block[:, k, nl.ds(m * TILE, TILE)],
                                   moving=b_sbuf[:, k, nl.ds(n * BANK, BANK)], accumulate=k > 0)
            out = nl.ndarray((TILE, N), dtype=c.dtype, buffer=nl.sbuf)
            for n in range(N // BANK):
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=totals[n])
            nisa.dma_copy(dst=c[nl.ds(i * block + m * TILE, TILE), :], src=out)
    return c


@nki.jit
def swiglu(x, w_gate, w_up, w_down, block=128):
    """y = (silu(x W_gate) * (x W_up)) W_down in one kernel: nothing B x F reaches HBM.

    x         [D, B], transposed: D is a multiple of 512, B of `block`
    w_gate    [D, F], w_up [D, F], w_down [F, D]: all three stay on chip, 3 p DF / 128 bytes per
              partition. F is a multiple of 128
    block     tokens at a time, 128 to 512 in steps of 128: the columns of the moving tile of gate
              and up. Q is the same for all
    returns   y [B, D]
    W         6 BDF
    HBM       p (BD + 3 DF) read, p BD written
    On chip   p (3 DF + block (D + F)) / 128 bytes per partition, and one silu in fp32
    Engines   silu on the Scalar Engine as the gate leaves PSUM, the product on the Vector Engine
              as the up-projection leaves it
    """
    D, B = x.shape
    F = w_up.shape[1]
    fit(D, F, w_gate, w_up, w_down, block)
    y = nl.ndarray((B, D), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    gate_sbuf = nl.ndarray((TILE, tiles("D", D, TILE), F), dtype=w_gate.dtype, buffer=nl.sbuf)
    up_sbuf = nl.ndarray((TILE, D // TILE, F), dtype=w_up.dtype, buffer=nl.sbuf)
    down_sbuf = nl.ndarray((TILE, tiles("F", F, TILE), D), dtype=w_down.dtype, buffer=nl.sbuf)
    for k in range(D // TILE):
        nisa.dma_copy(dst=gate_sbuf[:, k, :], src=w_gate[nl.ds(k * TILE, TILE), :])
        nisa.dma_copy(dst=up_sbuf[:, k, :], src=w_up[nl.ds(k * TILE, TILE), :])
    for f in range(F // TILE):
        nisa.dma_copy(dst=down_sbuf[:, f, :], src=w_down[nl.ds(f * TILE, TILE), :])

    for i in range(tiles("B", B, block)):
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :],
                          src=x[nl.ds(k * TILE, TILE), nl.ds(i * block, block)])

        s_block = nl.ndarray((TILE, F // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for f in range(F // TILE):
            gate = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            up = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=gate, stationary=gate_sbuf[:, k, nl.ds(f * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            for k in range(D // TILE):
                nisa.nc_matmul(dst=up, stationary=up_sbuf[:, k, nl.ds(f * TILE, TILE)],
                               moving=x_block[:, k, :], accumulate=k > 0)
            silu = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=silu, op=nl.silu, data=gate)
            nisa.tensor_tensor(dst=s_block[:, f, :], data1=silu, data2=up, op=nl.multiply)

        for t in range(tiles("block", block, TILE)):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(tiles("D", D, BANK)):
                total = nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum)
                for f in range(F // TILE):
                    nisa.nc_matmul(dst=total, stationary=s_block[:, f, nl.ds(t * TILE, TILE)],
                                   moving=down_sbuf[:, f, nl.ds(n * BANK, BANK)],
                                   accumulate=f > 0)
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=total)
            nisa.dma_copy(dst=y[nl.ds(i * block + t * TILE, TILE), :], src=out)
    return y


@nki.jit
def swiglu_streamed(x, w_gate, w_up, w_down, block=512):
    """The same where the weights do not fit: they pass by once for every block of tokens.

    x         [D, B], transposed: D is a multiple of 512, B of `block`
    w_gate    [D, F], w_up [D, F], w_down [F, D]: nothing of them stays. F is a multiple of 512
    block     tokens that one pass of the weights serves, a multiple of 128, at most 512. Their rows
              of y gather in (block / 128) (D / 512) PSUM banks, at most 8. Where they take all 8,
              the next block's gate waits until one of them is copied out
    returns   y [B, D]
    W         6 BDF
    HBM       p (BD + (B / block) 3 DF) read, p BD written
    On chip   p (block (D + F) + 1024 D) / 128 bytes per partition, and one silu in fp32
    Engines   as in swiglu
    """
    D, B = x.shape
    F = w_up.shape[1]
    fit(D, F, w_gate, w_up, w_down, block)
    rows, wide = tiles("block", block, TILE), tiles("D", D, BANK)
    assert rows * wide <= BANKS, (
        f"swiglu_streamed: {block} tokens by D = {D} need {rows * wide} PSUM banks; limit {BANKS}. "
        "Take a smaller block")
    y = nl.ndarray((B, D), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    for i in range(tiles("B", B, block)):
        x_block = nl.ndarray((TILE, D // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // TILE):
            nisa.dma_copy(dst=x_block[:, k, :],
                          src=x[nl.ds(k * TILE, TILE), nl.ds(i * block, block)])

        s_block = nl.ndarray((TILE, F // TILE, block), dtype=x.dtype, buffer=nl.sbuf)
        for panel in range(tiles("F", F, BANK)):
            gates = nl.ndarray((TILE, D // TILE, BANK), dtype=w_gate.dtype, buffer=nl.sbuf)
            ups = nl.ndarray((TILE, D // TILE, BANK), dtype=w_up.dtype, buffer=nl.sbuf)
            for k in range(D // TILE):
                nisa.dma_copy(dst=gates[:, k, :],
                              src=w_gate[nl.ds(k * TILE, TILE), nl.ds(panel * BANK, BANK)])
                nisa.dma_copy(dst=ups[:, k, :],
                              src=w_up[nl.ds(k * TILE, TILE), nl.ds(panel * BANK, BANK)])
            for f in range(BANK // TILE):
                gate = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
                up = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.psum)
                for k in range(D // TILE):
                    nisa.nc_matmul(dst=gate, stationary=gates[:, k, nl.ds(f * TILE, TILE)],
                                   moving=x_block[:, k, :], accumulate=k > 0)
                for k in range(D // TILE):
                    nisa.nc_matmul(dst=up, stationary=ups[:, k, nl.ds(f * TILE, TILE)],
                                   moving=x_block[:, k, :], accumulate=k > 0)
                silu = nl.ndarray((TILE, block), dtype=nl.float32, buffer=nl.sbuf)
                nisa.activation(dst=silu, op=nl.silu, data=gate)
                nisa.tensor_tensor(dst=s_block[:, panel * (BANK // TILE) + f, :], data1=silu,
                                   data2=up, op=nl.multiply)

        totals = []
        for _ in range(rows * wide):
            totals.append(nl.ndarray((TILE, BANK), dtype=nl.float32, buffer=nl.psum))
        for f in range(F // TILE):
            down = nl.ndarray((TILE, D), dtype=w_down.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=down, src=w_down[nl.ds(f * TILE, TILE), :])
            for t in range(rows):
                for n in range(wide):
                    nisa.nc_matmul(dst=totals[t * wide + n],
                                   stationary=s_block[:, f, nl.ds(t * TILE, TILE)],
                                   moving=down[:, nl.ds(n * BANK, BANK)], accumulate=f > 0)
        for t in range(rows):
            out = nl.ndarray((TILE, D), dtype=y.dtype, buffer=nl.sbuf)
            for n in range(wide):
                nisa.tensor_copy(dst=out[:, nl.ds(n * BANK, BANK)], src=totals[t * wide + n])
            nisa.dma_copy(dst=y[nl.ds(i * block + t * TILE, TILE), :], src=out)
    return y
