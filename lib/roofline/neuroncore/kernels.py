"""Kernels that stand for published ones: NKI 0.6, written from what their authors said of them.

Question  which instructions, in which order, did the kernel behind a published time run?
Answer    one kernel a pattern; sizes, blocks and variants are its arguments (rows.csv has them)
Assumes   what a docstring says under "assumed", and rows.csv for one row
Ignores   results: they are right on NumPy (tests), but are here to be counted, on shapes alone

Layout    a stands for A transposed, [K, M], the stationary operand; b for B, [K, N], the moving
          one; a kernel that takes A by rows, [M, K], transposes it on the Tensor Engine
PSUM      one bank an accumulator; how many are in flight is the row's `buffers`, psum=...
Engines   where none is named, those that the model takes: Vector for elements, Tensor to transpose
"""

from typing import Any

from .. import nki
from ..nki import isa as nisa
from ..nki import language as nl

P = 128  # partitions; most rows and columns of a stationary tile
F32 = nl.float32
BANK = 512  # fp32 values of a PSUM bank; most columns of a moving tile


# --- transfers -----------------------------------------------------------------------------------


@nki.jit
def read(x):
    """HBM -> SBUF: x [transfers, partitions, elements]. Bytes a partition are what is swept.

    From pantheonneuron's notes: 128 partitions, one transfer after the other. Assumed: one element
    of each transfer is kept, so that none can be dropped.
    """
    transfers, rows, columns = x.shape
    y = nl.ndarray((rows, transfers), x.dtype, nl.shared_hbm)
    kept = nl.ndarray((rows, transfers), x.dtype)
    for i in range(transfers):
        tile = nl.ndarray((rows, columns), x.dtype)
        nisa.dma_copy(dst=tile, src=x[i])
        nisa.tensor_copy(dst=kept[:, nl.ds(i, 1)], src=tile[:, nl.ds(0, 1)])
    nisa.dma_copy(dst=y, src=kept)
    return y


@nki.jit
def write(x):
    """SBUF -> HBM: the first transfer of x [transfers, partitions, elements], stored in each place.

    From pantheonneuron's notes: 128 partitions, one store after the other. Assumed: one source.
    """
    transfers, rows, columns = x.shape
    y, tile = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray((rows, columns), x.dtype)
    nisa.dma_copy(dst=tile, src=x[0])
    for i in range(transfers):
        nisa.dma_copy(dst=y[i], src=tile)
    return y


@nki.jit
def hbm_copy(x):
    """HBM -> HBM, without SBUF: x [transfers, rows, elements]. From pantheonneuron's notes."""
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=y[i], src=x[i])
    return y


@nki.jit
def vector_add(x, y):
    """x + y, [tiles, partitions, elements]: two loads, an add and a store for each tile.

    From the two CS149 write-ups, which say tile shape and number.
    """
    tiles, rows, columns = x.shape
    z = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for i in range(tiles):
        x_tile, y_tile = nl.ndarray((rows, columns), x.dtype), nl.ndarray((rows, columns), x.dtype)
        z_tile = nl.ndarray((rows, columns), x.dtype)
        nisa.dma_copy(dst=x_tile, src=x[i])
        nisa.dma_copy(dst=y_tile, src=y[i])
        nisa.tensor_tensor(dst=z_tile, data1=x_tile, data2=y_tile, op=nl.add)
        nisa.dma_copy(dst=z[i], src=z_tile)
    return z


@nki.jit
def transpose(x):
    """x [R, C] -> [C, R]: load 128 x 128, Tensor Engine, PSUM, SBUF, store. As the write-up."""
    R, C = x.shape
    y = nl.ndarray((C, R), x.dtype, nl.shared_hbm)
    for r in range(0, R, P):
        for c in range(0, C, P):
            tile, flipped = nl.ndarray((P, P), x.dtype), nl.ndarray((P, P), x.dtype, nl.psum)
            out = nl.ndarray((P, P), x.dtype)
            nisa.dma_copy(dst=tile, src=x[r:r + P, c:c + P])
            nisa.nc_transpose(dst=flipped, data=tile)
            nisa.tensor_copy(dst=out, src=flipped)
            nisa.dma_copy(dst=y[c:c + P, r:r + P], src=out)
    return y


# --- elementwise chains --------------------------------------------------------------------------


@nki.jit
def silu(x, fused=2):
    """x * sigmoid(x), a tile of 128 rows of x [R, C] at a time; C is what a transfer carries.

    fused   0: exp on Scalar; add 1, reciprocal and product on Vector (AccelOpt's seed: "exp, add,
            divide as separate passes"; so a division is written). 1: sigmoid on Scalar, product
            on Vector (its best: both busy). 2: one activation (kda-for-trainium: DMA and Scalar)
    """
    R, C = x.shape
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for r in range(0, R, P):
        tile, out = nl.ndarray((P, C), x.dtype), nl.ndarray((P, C), x.dtype)
        nisa.dma_copy(dst=tile, src=x[r:r + P, :])
        if fused == 2:
            nisa.activation(dst=out, op=nl.silu, data=tile)
        elif fused == 1:
            nisa.activation(dst=out, op=nl.sigmoid, data=tile)
            nisa.tensor_tensor(dst=out, data1=out, data2=tile, op=nl.multiply)
        else:
            nisa.activation(dst=out, op=nl.exp, data=tile, scale=-1.0)
            nisa.tensor_scalar(dst=out, data=out, op0=nl.add, operand0=1.0)
            nisa.reciprocal(dst=out, data=out)
            nisa.tensor_tensor(dst=out, data1=tile, data2=out, op=nl.multiply)
        nisa.dma_copy(dst=y[r:r + P, :], src=out)
    return y


@nki.jit
def adamw(p, g, m, v, folded=0):
    """One AdamW step of the parameters p, [R, C], a tile of 128 rows at a time: 4 in, 1 out.

    folded  1: constants are folded, so that Vector passes four times and Scalar twice, which is
            what kda-for-trainium's busy shares come to. 0: each term on its own, seven passes of
            Vector (AccelOpt's seed: Vector 90 % busy)
    """
    R, C = p.shape
    new = nl.ndarray(p.shape, p.dtype, nl.shared_hbm)
    for r in range(0, R, P):
        rows = min(P, R - r)
        p_tile, g_tile = nl.ndarray((rows, C), p.dtype), nl.ndarray((rows, C), p.dtype)
        m_tile, v_tile = nl.ndarray((rows, C), p.dtype), nl.ndarray((rows, C), p.dtype)
        square = nl.ndarray((rows, C), p.dtype)
        for tile, source in ((p_tile, p), (g_tile, g), (m_tile, m), (v_tile, v)):
            nisa.dma_copy(dst=tile, src=source[r:r + rows, :])
        nisa.activation(dst=square, op=nl.square, data=g_tile)
        if not folded:
            nisa.tensor_scalar(dst=g_tile, data=g_tile, op0=nl.multiply, operand0=0.1)
        nisa.scalar_tensor_tensor(dst=m_tile, data=m_tile, op0=nl.multiply, operand0=0.9,
                                  op1=nl.add, operand1=g_tile)
        nisa.scalar_tensor_tensor(dst=v_tile, data=v_tile, op0=nl.multiply, operand0=0.999,
                                  op1=nl.add, operand1=square)
        if folded:
            nisa.activation(dst=v_tile, op=nl.rsqrt, data=v_tile, scale=100.0)
        else:
            nisa.activation(dst=v_tile, op=nl.sqrt, data=v_tile)
            nisa.tensor_scalar(dst=v_tile, data=v_tile, op0=nl.add, operand0=1e-8)
            nisa.reciprocal(dst=v_tile, data=v_tile)
        nisa.tensor_tensor(dst=m_tile, data1=m_tile, data2=v_tile, op=nl.multiply)
        nisa.scalar_tensor_tensor(dst=p_tile, data=p_tile, op0=nl.multiply, operand0=0.99,
                                  op1=nl.subtract, operand1=m_tile)
        nisa.dma_copy(dst=new[r:r + rows, :], src=p_tile)
    return new


@nki.jit
def rope(x, cosine, sine):
    """Rotary embedding: x [heads, 2, 64, N], its two halves on 64 partitions, six Vector passes.

    cosine, sine   [heads, 64, N]: they come with each head, so that the bytes are the profile's
    From the notes: 64-partition layout, six Vector passes.
    """
    heads, _, rows, N = x.shape
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for h in range(heads):
        x0, x1 = nl.ndarray((rows, N), x.dtype), nl.ndarray((rows, N), x.dtype)
        c, s = nl.ndarray((rows, N), x.dtype), nl.ndarray((rows, N), x.dtype)
        for tile, source in ((x0, x[h, 0]), (x1, x[h, 1]), (c, cosine[h]), (s, sine[h])):
            nisa.dma_copy(dst=tile, src=source)
        for half, (first, second, op) in enumerate(((x0, x1, nl.subtract), (x1, x0, nl.add))):
            along, across = nl.ndarray((rows, N), x.dtype), nl.ndarray((rows, N), x.dtype)
            nisa.tensor_tensor(dst=along, data1=first, data2=c, op=nl.multiply)
            nisa.tensor_tensor(dst=across, data1=second, data2=s, op=nl.multiply)
            nisa.tensor_tensor(dst=along, data1=along, data2=across, op=op)
            nisa.dma_copy(dst=y[h, half], src=along)
    return y


@nki.jit
def conv1d(x, w):
    """Depthwise convolution of 3 taps: x [N, C, W], w [C, 3]; one output position at a time.

    From autocomp's notes: 131072 small Vector instructions: for each position of each of N (C /
    128) tiles, a product of 3 values and their sum. Assumed: the last two positions copy x.
    """
    N, C, W = x.shape
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    for c in range(0, C, P):
        taps = nl.ndarray((P, 3), w.dtype)
        nisa.dma_copy(dst=taps, src=w[c:c + P, :])
        for n in range(N):
            tile, out = nl.ndarray((P, W), x.dtype), nl.ndarray((P, W), x.dtype)
            product = nl.ndarray((P, 3), x.dtype)
            nisa.dma_copy(dst=tile, src=x[n, c:c + P, :])
            for i in range(W - 2):
                nisa.tensor_tensor(dst=product, data1=tile[:, i:i + 3], data2=taps, op=nl.multiply)
                nisa.tensor_reduce(dst=out[:, i:i + 1], op=nl.add, data=product, axis=1)
            nisa.tensor_copy(dst=out[:, W - 2:W], src=tile[:, W - 2:W])
            nisa.dma_copy(dst=y[n, c:c + P, :], src=out)
    return y


@nki.jit
def scan(delta, u, a, b, c, spread="dma"):
    """Selective scan: delta, u [channels, T]; a [channels, states]; b, c [states, T].

    spread  how a state's row of b and c reaches all partitions. dma: by a broadcasting load for
            each (autocomp's tutorial kernel). matmul: a product with ones into PSUM, shared by
            the channel tiles (kda-for-trainium: "state outer, shared broadcasts", Tensor busy)
    Assumed: the steps of the public tutorial; sequences over 2048 in steps of 1024, the last
    state carried over.
    """
    channels, T = delta.shape
    states = a.shape[1]
    step = 1024 if spread == "matmul" else T
    y = nl.ndarray(delta.shape, delta.dtype, nl.shared_hbm)
    held = []
    for i in range(0, channels, P):
        d_tile, du = nl.ndarray((P, T), delta.dtype), nl.ndarray((P, T), delta.dtype)
        a_tile, total = nl.ndarray((P, states), F32), nl.ndarray((P, T), F32)
        for tile, source in ((d_tile, delta), (du, u), (a_tile, a)):
            nisa.dma_copy(dst=tile, src=source[i:i + P, :])
        nisa.tensor_tensor(dst=du, data1=d_tile, data2=du, op=nl.multiply)
        nisa.memset(dst=total, value=0.0)
        held.append((d_tile, du, a_tile, total))
    for s in range(states):
        before: list[Any] = [0.0] * len(held)
        for t in range(0, T, step):
            b_all = spread_rows(b[s:s + 1, t:t + step], spread)
            c_all = spread_rows(c[s:s + 1, t:t + step], spread)
            for i, (d_tile, du, a_tile, total) in enumerate(held):
                decay, inflow = nl.ndarray((P, step), F32), nl.ndarray((P, step), F32)
                state = nl.ndarray((P, step), F32)
                nisa.activation(dst=decay, op=nl.exp, data=d_tile[:, t:t + step],
                                scale=a_tile[:, s:s + 1])
                nisa.tensor_tensor(dst=inflow, data1=du[:, t:t + step], data2=b_all, op=nl.multiply)
                nisa.tensor_tensor_scan(dst=state, data0=decay, data1=inflow, initial=before[i],
                                        op0=nl.multiply, op1=nl.add)
                nisa.tensor_tensor(dst=inflow, data1=state, data2=c_all, op=nl.multiply)
                nisa.tensor_tensor(dst=total[:, t:t + step], data1=total[:, t:t + step],
                                   data2=inflow, op=nl.add)
                before[i] = state[:, step - 1:step]
    for i, (_, _, _, total) in enumerate(held):
        nisa.dma_copy(dst=y[i * P:i * P + P, :], src=total)
    return y


def spread_rows(row, spread):
    """A row of HBM, [1, n], in all 128 partitions."""
    n = row.shape[1]
    if spread == "dma":
        everywhere = nl.ndarray((P, n), row.dtype)
        nisa.dma_copy(dst=everywhere, src=row.broadcast(0, P))
        return everywhere
    one, ones = nl.ndarray((1, n), row.dtype), nl.ndarray((1, P), row.dtype)
    product = nl.ndarray((P, n), F32, nl.psum)
    nisa.dma_copy(dst=one, src=row)
    nisa.memset(dst=ones, value=1.0)
    for j in range(0, n, BANK):
        nisa.nc_matmul(dst=product[:, j:j + BANK], stationary=ones, moving=one[:, j:j + BANK])
    return product


# --- GEMM: C = AB, fp32 in PSUM, stored in a's dtype ---------------------------------------------


def loaded(source):
    """Rows of HBM, [n 128, columns], on chip as [128, n, columns], in one transfer."""
    rows, columns = source.shape
    held = nl.ndarray((P, rows // P, columns), source.dtype)
    nisa.dma_copy(dst=held, src=source.reshape_dim(0, (rows // P, P)).permute((1, 0, 2)))
    return held


def slices(source):
    """The same in one transfer each 128 rows, so that the first is there early."""
    rows, columns = source.shape
    held = nl.ndarray((P, rows // P, columns), source.dtype)
    for k in range(rows // P):
        nisa.dma_copy(dst=held[:, k, :], src=source[k * P:k * P + P, :])
    return held


def transpose_into(turned, tile):
    """turned [128, n, 128] = tile [128, n 128], each 128 x 128 turned; four of them leave PSUM
    together.
    """
    for k in range(0, turned.shape[1], 4):
        some = min(4, turned.shape[1] - k)
        flipped = nl.ndarray((P, some, P), tile.dtype, nl.psum)
        for i in range(some):
            nisa.nc_transpose(dst=flipped[:, i, :], data=tile[:, (k + i) * P:(k + i) * P + P])
        nisa.tensor_copy(dst=turned[:, k:k + some, :], src=flipped)


def transposed(tile):
    """[128, K] on chip -> [128, K / 128, 128]."""
    turned = nl.ndarray((P, tile.shape[1] // P, P), tile.dtype)
    transpose_into(turned, tile)
    return turned


def halves(tile, split):
    """The tile alone; split: its two bf16 parts, high and low, which together are nearly fp32."""
    if not split:
        return [tile]
    high, low = nl.ndarray(tile.shape, nl.bfloat16), nl.ndarray(tile.shape, nl.bfloat16)
    nisa.tensor_copy(dst=high, src=tile)
    nisa.tensor_tensor(dst=low, data1=tile, data2=high, op=nl.subtract)
    return [high, low]


def pairs(left, right):
    """Which parts to multiply: all but low x low."""
    return [(x, y) for i, x in enumerate(left) for j, y in enumerate(right) if i + j < 2]


@nki.jit
def gemm_panels(a, b, bias=None):
    """128 x 128 x 512 tiles, the K loop innermost: all of K of both operands is loaded before it.

    bias   [1, N]: then gelu(AB + bias) on the way out of PSUM
    trainium-kernel-fusion. Assumed: a panel of A for each row of tiles, one of B for each tile.
    """
    M, N = a.shape[1], b.shape[1]
    biases = None if bias is None else spread_rows(bias, "dma")
    c = nl.ndarray((M, N), a.dtype, nl.shared_hbm)
    for m in range(0, M, P):
        a_panel = loaded(a[:, m:m + P])
        for n in range(0, N, BANK):
            total = accumulators(1, 1, BANK)
            multiply(total, a_panel, loaded(b[:, n:n + BANK]), True)
            if biases is None:
                store(c, m, n, total)
            else:
                store_gelu(c[m:m + P, n:n + BANK], total[0][0], biases[:, n:n + BANK])
    return c


@nki.jit
def gelu(x, bias):
    """gelu(x + bias), x [R, C], bias [1, C]: the second kernel of an unfused pair."""
    R, C = x.shape
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    added = spread_rows(bias, "dma")
    for r in range(0, R, P):
        tile = nl.ndarray((P, C), x.dtype)
        nisa.dma_copy(dst=tile, src=x[r:r + P, :])
        store_gelu(y[r:r + P, :], tile, added)
    return y


def store_gelu(dst, tile, bias):
    """gelu(tile + bias), stored."""
    out = nl.ndarray(tile.shape, dst.dtype)
    nisa.tensor_tensor(dst=out, data1=tile, data2=bias, op=nl.add)
    nisa.activation(dst=out, op=nl.gelu, data=out)
    nisa.dma_copy(dst=dst, src=out)


@nki.jit
def gemm_blocks(a, b, rows=512, columns=512, depth=1):
    """A block of C in PSUM; A and B pass through SBUF, `depth` slices of 128 of K at a time.

    nki-autotune's block kernels (4 x 1 x 8: rows 512, columns 512, depth 8), autocomp's block, and
    the public tutorial's tiles (128, 512, 1: no operand stays).
    """
    K, M = a.shape
    N = b.shape[1]
    c = nl.ndarray((M, N), a.dtype, nl.shared_hbm)
    for m in range(0, M, rows):
        for n in range(0, N, columns):
            totals = accumulators(rows // P, columns // BANK, BANK)
            for k in range(0, K, depth * P):
                a_block = loaded(a[k:k + depth * P, m:m + rows])
                b_block = loaded(b[k:k + depth * P, n:n + columns])
                multiply(totals, a_block, b_block, k == 0)
            store(c, m, n, totals)
    return c


def accumulators(down, across, width):
    """PSUM for a block of C: [row tiles][column tiles], a bank each."""
    return [[nl.ndarray((P, width), F32, nl.psum) for _ in range(across)] for _ in range(down)]


def multiply(totals, a_block, b_block, first, k0=0):
    """totals += a_block' b_block, slice by slice of K: [128, slices, rows], [128, slices, N].

    k0   the slice of a_block that goes with the first of b_block
    """
    for k in range(b_block.shape[1]):
        for m, line in enumerate(totals):
            for n, total in enumerate(line):
                width = total.shape[1]
                nisa.nc_matmul(dst=total, stationary=a_block[:, k0 + k, m * P:m * P + P],
                               moving=b_block[:, k, n * width:n * width + width],
                               accumulate=not first or k > 0)


def store(c, m, n, totals):
    """A block of C leaves PSUM, and SBUF a row tile at a time."""
    for i, line in enumerate(totals):
        width = line[0].shape[1]
        out = nl.ndarray((P, len(line) * width), c.dtype)
        for j, total in enumerate(line):
            nisa.tensor_copy(dst=out[:, j * width:j * width + width], src=total)
        nisa.dma_copy(dst=c[m + i * P:m + i * P + P, n:n + len(line) * width], src=out)


@nki.jit
def gemm_rows(a, b, rows=512, columns=512):
    """`rows` rows of A stay, as `rows` / 128 accumulators; B streams past in tiles of `columns`.

    pantheonneuron's row accumulators, AccelOpt's and kda-for-trainium's transposed-lhs GEMM.
    """
    M, N = a.shape[1], b.shape[1]
    c = nl.ndarray((M, N), a.dtype, nl.shared_hbm)
    for m in range(0, M, rows):
        a_block = slices(a[:, m:m + rows])
        for n in range(0, N, columns):
            pass_b(c, a_block, b, m, n, rows, columns)
    return c


def pass_b(c, a_block, b, m, n, rows, columns):
    """A block of C from rows of A that are on chip; B comes a slice of K at a time."""
    width = min(columns, BANK)
    totals = accumulators(rows // P, columns // width, width)
    for k in range(0, b.shape[0], P):
        multiply(totals, a_block, loaded(b[k:k + P, n:n + columns]), k == 0, k // P)
    store(c, m, n, totals)


@nki.jit
def gemm_from_rows(a, b, rows=128, columns=512, keep=1):
    """A comes by rows, [M, K], and is transposed on the Tensor Engine; B streams past.

    keep    1: once, and it stays for all of N (kda-for-trainium). 0: again for each block of
            columns (AccelOpt's library-style seed)
    """
    M, N = a.shape[0], b.shape[1]
    c = nl.ndarray((M, N), a.dtype, nl.shared_hbm)
    for m in range(0, M, rows):
        for n in range(0, N, columns):
            if n == 0 or not keep:
                a_block = turned_rows(a, m, rows)
            pass_b(c, a_block, b, m, n, rows, columns)
    return c


def turned_rows(a, m, rows):
    """`rows` rows of A, by rows in HBM, on chip as [128, K / 128, rows]."""
    K = a.shape[1]
    block = nl.ndarray((P, K // P, rows), a.dtype)
    for r in range(0, rows, P):
        tile = nl.ndarray((P, K), a.dtype)
        nisa.dma_copy(dst=tile, src=a[m + r:m + r + P, :])
        transpose_into(block[:, :, r:r + P], tile)
    return block


@nki.jit
def gemm_resident(a, b, banks=4):
    """A and B on chip before the first matmul; `banks` row tiles of C share a pass.

    nki-autotune's design note: operands resident, one PSUM bank group or two.
    """
    M, N = a.shape[1], b.shape[1]
    c = nl.ndarray((M, N), a.dtype, nl.shared_hbm)
    a_all, b_all = slices(a), slices(b)
    for m in range(0, M, banks * P):
        for n in range(0, N, BANK):
            totals = accumulators(banks, 1, BANK)
            multiply(totals, a_all[:, :, m:m + banks * P], b_all[:, :, n:n + BANK], True)
            store(c, m, n, totals)
    return c


@nki.jit
def gemm_batched(a, b):
    """C = AB for each of a batch: a [batch, M, K] by rows, b [batch, K, N], K = 64.

    kda-for-trainium: "transpose interleaved with matmul per row tile". 64 of 128 rows work.
    """
    batch, M, K = a.shape
    N = b.shape[2]
    c = nl.ndarray((batch, M, N), a.dtype, nl.shared_hbm)
    for i in range(batch):
        b_tile = nl.ndarray((K, N), b.dtype)
        nisa.dma_copy(dst=b_tile, src=b[i])
        for m in range(0, M, P):
            rows, flipped = nl.ndarray((P, K), a.dtype), nl.ndarray((K, P), a.dtype, nl.psum)
            a_tile, out = nl.ndarray((K, P), a.dtype), nl.ndarray((P, N), a.dtype)
            nisa.dma_copy(dst=rows, src=a[i, m:m + P, :])
            nisa.nc_transpose(dst=flipped, data=rows)
            nisa.tensor_copy(dst=a_tile, src=flipped)
            for n in range(0, N, BANK):
                total = nl.ndarray((P, BANK), F32, nl.psum)
                nisa.nc_matmul(dst=total, stationary=a_tile, moving=b_tile[:, n:n + BANK])
                nisa.tensor_copy(dst=out[:, n:n + BANK], src=total)
            nisa.dma_copy(dst=c[i, m:m + P, :], src=out)
    return c


# --- GEMMs with something around them ------------------------------------------------------------


@nki.jit
def swiglu(x, w_gate, w_up, w_down, rows=256):
    """(silu(x W_gate) * (x W_up)) W_down for `rows` tokens at a time; weights come again for each.

    x [D, B] transposed, weights [D, F], [D, F], [F, D]. kda-for-trainium: "intermediate kept in
    SBUF, weights re-streamed per row tile".
    """
    D, B = x.shape
    F = w_up.shape[1]
    y = nl.ndarray((B, D), x.dtype, nl.shared_hbm)
    for t in range(0, B, rows):
        x_block = slices(x[:, t:t + rows])
        h = nl.ndarray((P, F // P, rows), x.dtype)
        for f in range(0, F, P):
            gated(h[:, f // P, :], x_block, loaded(w_gate[:, f:f + P]), loaded(w_up[:, f:f + P]))
        for n in range(0, D, BANK):
            pass_b(y, h, w_down, t, n, rows, BANK)
    return y


def gated(h, x_block, gate_tile, up_tile):
    """h = silu(W_gate' x) * (W_up' x) for 128 of F: [128, tokens]."""
    tokens = x_block.shape[2]
    gate, up = nl.ndarray((P, tokens), F32, nl.psum), nl.ndarray((P, tokens), F32, nl.psum)
    for total, weight in ((gate, gate_tile), (up, up_tile)):
        multiply([[total]], weight, x_block, True)
    activated = nl.ndarray((P, tokens), F32)
    nisa.activation(dst=activated, op=nl.silu, data=gate)
    nisa.tensor_tensor(dst=h, data1=activated, data2=up, op=nl.multiply)


@nki.jit
def swiglu_spilled(x, w_gate, w_up, w_down):
    """The same where the product of gate and up goes to HBM and back (AccelOpt's seed spills it).

    x stays for the first half, W_down for the second, so each weight comes once.
    """
    D, B = x.shape
    F = w_up.shape[1]
    h, y = nl.ndarray((F, B), x.dtype, nl.hbm), nl.ndarray((B, D), x.dtype, nl.shared_hbm)
    x_all = slices(x)
    for f in range(0, F, P):
        gate_tile, up_tile = loaded(w_gate[:, f:f + P]), loaded(w_up[:, f:f + P])
        for t in range(0, B, BANK):
            out = nl.ndarray((P, BANK), x.dtype)
            gated(out, x_all[:, :, t:t + BANK], gate_tile, up_tile)
            nisa.dma_copy(dst=h[f:f + P, t:t + BANK], src=out)
    down = slices(w_down)
    for t in range(0, B, P):
        totals = accumulators(1, D // BANK, BANK)
        multiply(totals, loaded(h[:, t:t + P]), down, True)
        store(y, t, 0, totals)
    return y


def scaled_by_rms(tile, out):
    """out = tile / sqrt(mean(tile^2)) along each row: two passes of Scalar, one of Vector."""
    columns = tile.shape[1]
    square, mean = nl.ndarray((P, columns), F32), nl.ndarray((P, 1), F32)
    nisa.activation(dst=square, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=mean,
                    reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.activation(dst=mean, op=nl.rsqrt, data=mean, scale=1.0 / columns)
    nisa.tensor_scalar(dst=out, data=tile, op0=nl.multiply, operand0=mean)


def weights(w, split):
    """W [K, N] on chip for all rows: itself, or its bf16 parts."""
    if not split:
        return [slices(w)]
    high = nl.ndarray((P, w.shape[0] // P, w.shape[1]), nl.bfloat16)
    low = nl.ndarray((P, w.shape[0] // P, w.shape[1]), nl.bfloat16)
    for k in range(0, w.shape[0], P):
        tile = nl.ndarray((P, w.shape[1]), w.dtype)
        nisa.dma_copy(dst=tile, src=w[k:k + P, :])
        nisa.tensor_copy(dst=high[:, k // P, :], src=tile)
        nisa.tensor_tensor(dst=low[:, k // P, :], data1=tile, data2=high[:, k // P, :],
                           op=nl.subtract)
    return [high, low]


def product_of_row(x_parts, w_parts, n):
    """One row tile of x, transposed, times 512 columns of W: an accumulator."""
    total = nl.ndarray((P, BANK), F32, nl.psum)
    for i, (x_t, w_all) in enumerate(pairs(x_parts, w_parts)):
        for k in range(x_t.shape[1]):
            nisa.nc_matmul(dst=total, stationary=x_t[:, k, :], moving=w_all[:, k, n:n + BANK],
                           accumulate=i + k > 0)
    return total


@nki.jit
def rms_gemm(x, w, added=None, split=0):
    """rms_norm(x) W or rms_norm(x + added) W: x, added [B, K] by rows, W [K, N] resident.

    AccelOpt, nki-autotune. split: kda-for-trainium's "three bf16 products". The next row tile is
    made ready before this one is multiplied.
    """
    B, N = x.shape[0], w.shape[1]
    y = nl.ndarray((B, N), x.dtype, nl.shared_hbm)
    w_parts = weights(w, split)
    coming = normed_row(x, added, 0, split)
    for t in range(0, B, P):
        x_parts = coming
        if t + P < B:
            coming = normed_row(x, added, t + P, split)
        out = nl.ndarray((P, N), x.dtype)
        for n in range(0, N, BANK):
            nisa.tensor_copy(dst=out[:, n:n + BANK], src=product_of_row(x_parts, w_parts, n))
        nisa.dma_copy(dst=y[t:t + P, :], src=out)
    return y


def normed_row(x, added, t, split):
    """128 rows from t of rms_norm(x + added), transposed: their parts."""
    tile, scaled = nl.ndarray((P, x.shape[1]), x.dtype), nl.ndarray((P, x.shape[1]), x.dtype)
    nisa.dma_copy(dst=tile, src=x[t:t + P, :])
    if added is not None:
        other = nl.ndarray((P, x.shape[1]), x.dtype)
        nisa.dma_copy(dst=other, src=added[t:t + P, :])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)
    scaled_by_rms(tile, scaled)
    return halves(transposed(scaled), split)


@nki.jit
def gemm_add_rms(x, w, added, split=0):
    """rms_norm(x W + added): x [B, K] by rows, W [K, N] resident, added [B, N]."""
    B, N = x.shape[0], w.shape[1]
    y = nl.ndarray((B, N), x.dtype, nl.shared_hbm)
    w_parts = weights(w, split)
    coming = turned_row(x, 0, split)
    for t in range(0, B, P):
        x_parts = coming
        if t + P < B:
            coming = turned_row(x, t + P, split)
        other, out = nl.ndarray((P, N), x.dtype), nl.ndarray((P, N), x.dtype)
        nisa.dma_copy(dst=other, src=added[t:t + P, :])
        for n in range(0, N, BANK):
            nisa.tensor_tensor(dst=other[:, n:n + BANK], data1=product_of_row(x_parts, w_parts, n),
                               data2=other[:, n:n + BANK], op=nl.add)
        scaled_by_rms(other, out)
        nisa.dma_copy(dst=y[t:t + P, :], src=out)
    return y


def turned_row(x, t, split):
    """128 rows of x from t, transposed: their parts."""
    tile = nl.ndarray((P, x.shape[1]), x.dtype)
    nisa.dma_copy(dst=tile, src=x[t:t + P, :])
    return halves(transposed(tile), split)


# --- attention: q, k [heads, d, L] transposed, v [heads, L, d] ------------------------------------


@nki.jit
def attention(q, k, v, compute="", softmax="max", scores=""):
    """O = softmax(Q K') V, 128 queries at a time: scores and softmax stay on chip.

    compute   bf16: operands are rounded on arrival (the public SD kernel: fp32 in and out)
    softmax   max: the row's maximum is subtracted. exp: exponentials straight from PSUM
    scores    split: Q K' as three bf16 products
    The softmax is transposed 128 x 128 on the Tensor Engine; the next queries' is under way before
    this one meets V. Several query heads share a key head.
    """
    heads, d, L = q.shape
    dtype = nl.bfloat16 if compute == "bf16" else v.dtype
    o = nl.ndarray((heads, L, d), v.dtype, nl.shared_hbm)
    for head in range(heads):
        shared = head * k.shape[0] // heads
        if shared * heads == head * k.shape[0]:  # the first that uses this key head
            k_parts = halves(columns_of(k[shared], dtype), scores)
            v_all = rounded(slices(v[shared]), dtype)
        q_parts = halves(columns_of(q[head], dtype), scores)
        coming = softmax_of(q_parts, k_parts, 0, dtype, softmax)
        for t in range(0, L, P):
            a, inverse = coming
            if t + P < L:
                coming = softmax_of(q_parts, k_parts, t + P, dtype, softmax)
            out = nl.ndarray((P, d), v.dtype)
            nisa.tensor_scalar(dst=out, data=values_of(a, v_all), op0=nl.multiply, operand0=inverse)
            nisa.dma_copy(dst=o[head, t:t + P, :], src=out)
    return o


def softmax_of(q_parts, k_parts, t, dtype, softmax):
    """exp of the scores of 128 queries, and one over their sums."""
    if softmax == "exp":
        return exponentials_of_scores(q_parts, k_parts, t, dtype)
    return exponentials(scores_of(q_parts, k_parts, t), dtype)


def columns_of(x, dtype):
    """[d, L] on chip, rounded to dtype."""
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    return rounded(tile, dtype)


def rounded(tile, dtype):
    """The tile, or a copy in dtype."""
    if tile.dtype == dtype:
        return tile
    other = nl.ndarray(tile.shape, dtype)
    nisa.tensor_copy(dst=other, src=tile)
    return other


def score_tile(q_parts, k_parts, t, j):
    """128 queries from t times 512 keys from j, in PSUM."""
    total = nl.ndarray((P, BANK), F32, nl.psum)
    for i, (q_t, k_t) in enumerate(pairs(q_parts, k_parts)):
        nisa.nc_matmul(dst=total, stationary=q_t[:, t:t + P], moving=k_t[:, j:j + BANK],
                       accumulate=i > 0)
    return total


def scores_of(q_parts, k_parts, t, dtype=F32):
    """[128, L]: the scores of 128 queries, out of PSUM."""
    row = nl.ndarray((P, k_parts[0].shape[1]), dtype)
    for j in range(0, row.shape[1], BANK):
        nisa.tensor_copy(dst=row[:, j:j + BANK], src=score_tile(q_parts, k_parts, t, j))
    return row


def exponentials(row, dtype):
    """exp(row - its maximum) and one over its sum."""
    a, minus_max = nl.ndarray(row.shape, dtype), nl.ndarray((P, 1), F32)
    total = nl.ndarray((P, 1), F32)
    nisa.tensor_reduce(dst=minus_max, op=nl.maximum, data=row, axis=1, negate=True)
    nisa.activation(dst=a, op=nl.exp, data=row, bias=minus_max, reduce_op=nl.add,
                    reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    return a, over(total)


def exponentials_of_scores(q_parts, k_parts, t, dtype):
    """exp of the scores as they leave PSUM, and one over their sum; no maximum."""
    L = k_parts[0].shape[1]
    a, sums = nl.ndarray((P, L), dtype), nl.ndarray((P, L // BANK), F32)
    total = nl.ndarray((P, 1), F32)
    for j in range(0, L, BANK):
        nisa.activation(dst=a[:, j:j + BANK], op=nl.exp, data=score_tile(q_parts, k_parts, t, j),
                        reduce_op=nl.add, reduce_res=sums[:, j // BANK:j // BANK + 1],
                        reduce_cmd=nisa.reduce_cmd.reset_reduce)
    nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
    return a, over(total)


def over(total):
    inverse = nl.ndarray((P, 1), F32)
    nisa.reciprocal(dst=inverse, data=total)
    return inverse


def values_of(a, v_all):
    """a [128, L] times V: each 128 x 128 of a transposed first; [128, d] in PSUM."""
    turned = transposed(a)
    values = nl.ndarray((P, v_all.shape[2]), F32, nl.psum)
    for j in range(v_all.shape[1]):
        nisa.nc_matmul(dst=values, stationary=turned[:, j, :], moving=v_all[:, j, :],
                       accumulate=j > 0)
    return values


@nki.jit
def attention_softmax(q, k):
    """softmax(Q K') to HBM, [L, L]: the first of two kernels. q, k [d, L]."""
    L = q.shape[1]
    a_out = nl.ndarray((L, L), q.dtype, nl.shared_hbm)
    q_all, k_all = columns_of(q, q.dtype), columns_of(k, k.dtype)
    for t in range(0, L, P):
        a, inverse = exponentials(scores_of([q_all], [k_all], t), F32)
        out = nl.ndarray((P, L), q.dtype)
        nisa.tensor_scalar(dst=out, data=a, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=a_out[t:t + P, :], src=out)
    return a_out


@nki.jit
def attention_values(a, v):
    """A V, the second of two kernels: A [L, L] comes by rows and is transposed on chip."""
    o = nl.ndarray(v.shape, v.dtype, nl.shared_hbm)
    multiply_values(o, a, v)
    return o


def multiply_values(o, a, v):
    """o = A V, 128 rows at a time."""
    v_all = slices(v)
    for t in range(0, a.shape[0], P):
        row, out = nl.ndarray((P, a.shape[1]), a.dtype), nl.ndarray((P, v.shape[1]), v.dtype)
        nisa.dma_copy(dst=row, src=a[t:t + P, :])
        nisa.tensor_copy(dst=out, src=values_of(row, v_all))
        nisa.dma_copy(dst=o[t:t + P, :], src=out)


@nki.jit
def attention_through_hbm(q, k, v):
    """Scores, exponentials and softmax each to HBM and back: autocomp's first kernel.

    q, k [1, d, L], v [1, L, d].
    """
    _, d, L = q.shape
    s, e = nl.ndarray((L, L), q.dtype, nl.hbm), nl.ndarray((L, L), q.dtype, nl.hbm)
    a_all, o = nl.ndarray((L, L), q.dtype, nl.hbm), nl.ndarray((1, L, d), v.dtype, nl.shared_hbm)
    inverses = nl.ndarray((P, L // P), F32)
    q_all, k_all = columns_of(q[0], q.dtype), columns_of(k[0], k.dtype)
    for t in range(0, L, P):
        nisa.dma_copy(dst=s[t:t + P, :], src=scores_of([q_all], [k_all], t, q.dtype))
    for t in range(0, L, P):
        row = nl.ndarray((P, L), q.dtype)
        nisa.dma_copy(dst=row, src=s[t:t + P, :])
        powers, inverse = exponentials(row, q.dtype)
        nisa.tensor_copy(dst=inverses[:, t // P:t // P + 1], src=inverse)
        nisa.dma_copy(dst=e[t:t + P, :], src=powers)
    for t in range(0, L, P):
        row, out = nl.ndarray((P, L), q.dtype), nl.ndarray((P, L), q.dtype)
        nisa.dma_copy(dst=row, src=e[t:t + P, :])
        nisa.tensor_scalar(dst=out, data=row, op0=nl.multiply,
                           operand0=inverses[:, t // P:t // P + 1])
        nisa.dma_copy(dst=a_all[t:t + P, :], src=out)
    multiply_values(o[0], a_all, v[0])
    return o


# --- convolution ---------------------------------------------------------------------------------


@nki.jit
def conv2d(x, w, pool=0, block=6):
    """3 x 3 convolution without padding: x [C, H, W], w [9, C, F]; pool: then 2 x 2 maxima.

    From the CS149 write-ups: weights resident, two output tiles share one input tile. Assumed: an
    output row a matmul, 9 (C / 128) of them an accumulator; `block` output rows an input block.
    """
    C, H, W = x.shape
    F = w.shape[2]
    rows, columns = H - 2, W - 2
    size = (rows // 2, columns // 2) if pool else (rows, columns)
    y, taps = nl.ndarray((F, *size), x.dtype, nl.shared_hbm), nl.ndarray((P, C // P, 9, F), w.dtype)
    for i in range(C // P):
        for tap in range(9):
            nisa.dma_copy(dst=taps[:, i, tap, :], src=w[tap, i * P:i * P + P, :])
    for r in range(0, rows, block):
        x_block = nl.ndarray((P, C // P, block + 2, W), x.dtype)
        for i in range(C // P):
            nisa.dma_copy(dst=x_block[:, i, :, :], src=x[i * P:i * P + P, r:r + block + 2, :])
        for f in range(0, F, P):
            out = nl.ndarray((P, block, columns), x.dtype)
            for row in range(block):
                total = nl.ndarray((P, columns), F32, nl.psum)
                for i in range(C // P):
                    for tap in range(9):
                        down, right = tap // 3, tap % 3
                        nisa.nc_matmul(dst=total, stationary=taps[:, i, tap, f:f + P],
                                       moving=x_block[:, i, row + down, right:right + columns],
                                       accumulate=i + tap > 0)
                nisa.tensor_copy(dst=out[:, row, :], src=total)
            if not pool:
                nisa.dma_copy(dst=y[f:f + P, r:r + block, :], src=out)
                continue
            taller = nl.ndarray((P, block // 2, columns), x.dtype)
            wider = nl.ndarray((P, block // 2, columns // 2), x.dtype)
            nisa.tensor_tensor(dst=taller, data1=out[:, 0:block:2, :], data2=out[:, 1:block:2, :],
                               op=nl.maximum)
            nisa.tensor_tensor(dst=wider, data1=taller[:, :, 0:columns:2],
                               data2=taller[:, :, 1:columns:2], op=nl.maximum)
            nisa.dma_copy(dst=y[f:f + P, r // 2:r // 2 + block // 2, :], src=wider)
    return y
