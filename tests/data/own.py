"""Two kernels that no page names: what a reader brings to the how-to.

Question  do the page's commands go through for a kernel they were not written for?
Runs on   a NeuronCore with NKI 0.6, and on the course's NumPy backend
Symbols   B tokens, D and N widths; C channels, T outputs of a row, k taps
"""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def rms_linear(x, w, columns=512):
    """y = rmsnorm(x) w: each token over its own root mean square, then a matmul.

    x         [B, D], tokens down: B and D are multiples of 128
    w         [D, N], all of it stays on chip; N is a multiple of `columns`
    columns   of a moving tile, at most 512
    returns   y [B, N]
    HBM       p (BD + DN) read, p BN written
    Turned    a block of x comes to lie with D down by transposes on the Tensor Engine: FLOPs that a
              profiler counts and that are no work
    """
    B, D = x.shape
    N = w.shape[1]
    y = nl.ndarray((B, N), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    weights = nl.ndarray((128, D // 128, N), dtype=w.dtype, buffer=nl.sbuf)
    for k in range(D // 128):
        nisa.dma_copy(dst=weights[:, k, :], src=w[nl.ds(k * 128, 128), :])
    for i in range(B // 128):
        tokens = nl.ndarray((128, D), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tokens, src=x[nl.ds(i * 128, 128), :])
        squares = nl.ndarray((128, D), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tokens, reduce_op=nl.add,
                               reduce_res=total)
        mean = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / D,
                           op1=nl.add, operand1=1e-6)
        inverse = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=inverse, op=nl.rsqrt, data=mean)
        scaled = nl.ndarray((128, D), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scaled, data=tokens, op0=nl.multiply, operand0=inverse)
        turned = nl.ndarray((128, D // 128, 128), dtype=x.dtype, buffer=nl.sbuf)
        for k in range(D // 128):
            flipped = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=flipped, data=scaled[:, nl.ds(k * 128, 128)],
                              engine=nisa.tensor_engine)
            nisa.tensor_copy(dst=turned[:, k, :], src=flipped)
        out = nl.ndarray((128, N), dtype=y.dtype, buffer=nl.sbuf)
        for n in range(N // columns):
            product = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
            for k in range(D // 128):
                nisa.nc_matmul(dst=product, stationary=turned[:, k, :],
                               moving=weights[:, k, nl.ds(n * columns, columns)],
                               accumulate=k > 0)
            nisa.tensor_copy(dst=out[:, nl.ds(n * columns, columns)], src=product)
        nisa.dma_copy(dst=y[nl.ds(i * 128, 128), :], src=out)
    return y


@nki.jit
def depthwise(x, w, rows=2048):
    """Each channel by its own k taps, on the Vector Engine: no matmul, so W = 0.

    x         [C, T + k - 1], C a multiple of 128
    w         [C, k], fp32
    rows      outputs of a channel at a time; T is a multiple of it
    returns   y [C, T]
    HBM       x read, with k - 1 elements of a row again for each further block; w read, y written
    """
    C, k = w.shape
    T = x.shape[1] - k + 1
    y = nl.ndarray((C, T), dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    for c in range(C // 128):
        taps = nl.ndarray((128, k), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=taps, src=w[nl.ds(c * 128, 128), :])
        for t in range(T // rows):
            part = nl.ndarray((128, rows + k - 1), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=part, src=x[nl.ds(c * 128, 128), nl.ds(t * rows, rows + k - 1)])
            total = nl.ndarray((128, rows), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=total, data=part[:, 0:rows], op0=nl.multiply,
                               operand0=taps[:, 0:1])
            for j in range(1, k):
                nisa.scalar_tensor_tensor(dst=total, data=part[:, j:j + rows], op0=nl.multiply,
                                          operand0=taps[:, j:j + 1], op1=nl.add, operand1=total)
            out = nl.ndarray((128, rows), dtype=y.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=out, src=total)
            nisa.dma_copy(dst=y[nl.ds(c * 128, 128), nl.ds(t * rows, rows)], src=out)
    return y
