"""Vector, Scalar and GpSimd instructions: what they count as, and what they refuse."""

from types import SimpleNamespace

import numpy as np
import pytest
from isa_oracle import F32, PSUM, SBUF, draw, run, same

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki
from roofline.count import Uncounted
from roofline.nki import NkiValidationError

# --- what is counted -----------------------------------------------------------------------------

CMD = nisa.reduce_cmd


def tiles():
    """Tiles that every instruction below finds something of its kind in, by name."""
    of = {"f": nl.float32, "g": nl.float32, "h": nl.bfloat16, "i": nl.int32, "j": nl.int32,
          "u": nl.uint8, "s": nl.uint16, "n": nl.uint32}
    made = {name: nl.ndarray((32, 16), dtype=dtype, buffer=SBUF) for name, dtype in of.items()}
    for tile in made.values():
        nisa.memset(tile, 1)
    made["p"] = nl.ndarray((32, 16), dtype=nl.float32, buffer=PSUM)
    made["v"] = nl.ndarray((32, 1), dtype=nl.float32, buffer=SBUF)
    for name in "pv":
        nisa.memset(made[name], 1.0)
    return SimpleNamespace(**made)


# instruction, the call, the engines it may run on, elements it passes over (None: 32 x 16), chip
ISSUED = [
    ("memset", lambda t: nisa.memset(t.h, 0), "vector gpsimd"),
    ("memset", lambda t: nisa.memset(t.p, 0), "vector"),
    ("memset", lambda t: nisa.memset(t.f, 0, nisa.engine.gpsimd), "gpsimd"),
    ("tensor_copy", lambda t: nisa.tensor_copy(t.h, t.f), "vector scalar gpsimd"),
    ("tensor_copy", lambda t: nisa.tensor_copy(t.h, t.p), "vector scalar"),
    ("tensor_copy", lambda t: nisa.tensor_copy(t.h, t.f, nisa.engine.scalar), "scalar"),
    ("tensor_copy", lambda t: nisa.tensor_copy(t.h, t.f), "vector gpsimd", None, "trn1"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.f, t.g, t.h, nl.add), "vector gpsimd"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.f, t.p, t.h, nl.add), "vector"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.i, t.i, t.j, nl.add), "gpsimd"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.i, t.n, t.j, nl.bitwise_or), "vector"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.power), "gpsimd"),
    ("tensor_tensor", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.abs_max),
     "vector gpsimd", None, "trn3"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.subtract, t.v), "vector"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0), "vector scalar"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0), "vector", None, "trn1"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.multiply, t.v, op1=nl.add,
                                                   operand1=2.0), "vector scalar"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.subtract, 1.0),
     "vector scalar", None, "trn3"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.g, nl.rsqrt, 0.0), "vector gpsimd"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.f, t.p, nl.rsqrt, 0.0), "vector"),
    ("tensor_scalar", lambda t: nisa.tensor_scalar(t.i, t.j, nl.left_shift, 2), "vector"),
    ("scalar_tensor_tensor", lambda t: nisa.scalar_tensor_tensor(
        t.f, t.p, nl.multiply, 2.0, nl.add, t.g), "vector"),
    ("tensor_copy_predicated", lambda t: nisa.tensor_copy_predicated(t.f, t.g, t.u), "vector"),
    ("reciprocal", lambda t: nisa.reciprocal(t.f, t.p), "vector"),
    ("tensor_reduce", lambda t: nisa.tensor_reduce(t.v, nl.add, t.f, axis=1), "vector"),
    ("tensor_tensor_scan", lambda t: nisa.tensor_tensor_scan(
        t.f, t.g, t.f, t.v, nl.multiply, nl.add), "vector"),
    ("bn_stats", lambda t: nisa.bn_stats(t.f[:, 0:6], t.g), "vector"),
    ("bn_aggr", lambda t: nisa.bn_aggr(t.f[:, 0:2], t.g[:, 0:12]), "vector", 32 * 12),
    ("tensor_scalar_reduce", lambda t: nisa.tensor_scalar_reduce(
        t.f, t.g, nl.add, 1.0, nl.maximum, t.v), "vector"),
    ("tensor_scalar_cumulative", lambda t: nisa.tensor_scalar_cumulative(
        t.f, t.g, nl.add, nl.add, 0.0), "vector"),
    ("exponential", lambda t: nisa.exponential(t.f, t.g, t.v), "vector", None, "trn3"),
    ("select_reduce", lambda t: nisa.select_reduce(t.f, t.u, t.g, 0.0), "vector"),
    ("range_select", lambda t: nisa.range_select(
        t.f, t.g, nl.greater, nl.less, t.v, t.v), "vector"),
    ("max8", lambda t: nisa.max8(t.f[:, 0:8], t.g), "vector"),
    ("nc_find_index8", lambda t: nisa.nc_find_index8(t.n[:, 0:8], t.g, t.f[:, 0:8]), "vector"),
    ("nc_match_replace8", lambda t: nisa.nc_match_replace8(
        t.g, t.g, t.f[:, 0:8], 0.0, t.n[:, 0:8]), "vector"),
    ("nc_stream_shuffle", lambda t: nisa.nc_stream_shuffle(t.f, t.g, [0] * 32), "vector"),
    ("activation", lambda t: nisa.activation(t.f, nl.gelu, t.p, t.v, 0.5), "scalar"),
    ("activation_reduce", lambda t: nisa.activation_reduce(t.f, nl.exp, t.g, nl.add, t.v),
     "scalar"),
    ("activate2", lambda t: nisa.activate2(t.f, nl.exp, t.g, t.v, 0.0, nl.subtract, nl.bypass),
     "scalar", None, "trn3"),
    ("iota", lambda t: nisa.iota(t.i, [[1, 16]]), "gpsimd"),
    ("affine_select", lambda t: nisa.affine_select(t.f, [[1, 16]], -1, t.g, 0.0), "gpsimd"),
    ("nc_n_gather", lambda t: nisa.nc_n_gather(t.f, t.g, t.n), "gpsimd"),
    ("local_gather", lambda t: nisa.local_gather(t.f, t.g, t.s[:, 0:1]), "gpsimd"),
    ("tensor_partition_reduce", lambda t: nisa.tensor_partition_reduce(t.f[0:1], nl.add, t.g),
     "gpsimd"),
    ("sequence_bounds", lambda t: nisa.sequence_bounds(
        t.i[0:1, 0:8].reshape((1, 2, 4)), t.j[0:1, 0:4]), "gpsimd", 4),
    ("nonzero_with_count", lambda t: nisa.nonzero_with_count(t.i, t.f[:, 0:15]), "gpsimd",
     2 * 15),  # partitions 0 and 16
]


@pytest.mark.parametrize("case", ISSUED, ids=lambda case: case[0])
def test_what_an_instruction_is_counted_as(case):
    opcode, call, engines, elements, target = (*case, *(None, "trn2")[len(case) - 3:])
    ran = [run(lambda: call(tiles()), outs=[], target=target, data=data) for data in (True, False)]
    for trace in (ran[0].trace, ran[1].trace):
        found = [r for r in trace if r.opcode == opcode][-1]
        assert found.work.engines == tuple(engines.split())
        assert found.work.elements == (elements or 32 * 16)
        assert found.flops == found.hbm_read_bytes == found.hbm_write_bytes == 0
    assert places(ran[0].trace) == places(ran[1].trace)


def places(trace):
    """Of each instruction: what it is, and the views it reads and writes."""
    return [(r.work, [(o.name, o.layout, o.offset) for o in r.reads],
             [(o.name, o.layout, o.offset) for o in r.writes]) for r in trace]


def test_a_kernel_of_all_of_them_counts_the_same_on_shapes_alone():
    def kernel():
        out = nl.ndarray((32, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        held = tiles()
        for case in ISSUED:
            if case[-1] not in ("trn1", "trn3"):
                case[1](held)
        nisa.dma_copy(out, held.f)
        return out
    ran, shapes = nki.run(kernel), nki.run(kernel, data=False)
    assert places(ran.trace) == places(shapes.trace)
    assert ran.count == shapes.count and ran.counters == shapes.counters
    assert ran.count.hbm_bytes == 4 * 32 * 16 and ran.count.flops == 0


def test_reads_and_writes_are_the_tiles_among_the_operands():
    def body(x, v, out):
        nisa.tensor_scalar(out, x, nl.add, v, op1=nl.multiply, operand1=2.0)
        nisa.tensor_scalar_reduce(out, x, nl.add, 1.0, nl.add, v)
    first, second = run(body, draw((4, 3)), draw((4, 1)), outs=[(4, 3)]).trace
    assert [o.layout.shape for o in first.reads] == [(4, 3), (4, 1)]
    assert [o.layout.shape for o in second.writes] == [(4, 3), (4, 1)]


def test_a_shuffle_that_leaves_partitions_alone_depends_on_them():
    for mask, reads in (([0] * 32, 1), ([0] * 31 + [255], 2)):
        ran = run(lambda x, o, mask=mask: nisa.nc_stream_shuffle(o, x, mask), draw((32, 2)),
                  outs=[(32, 2)])
        assert len(ran.trace[0].reads) == reads


def test_what_changes_with_the_chip_or_goes_unused():
    def v3(x, b, o):
        nisa.activation(o, nl.reciprocal, x, b)
        nisa.activation(o, nl.reciprocal, x, 1.0)
    run(v3, draw((4, 2)), draw((4, 1)), outs=[(4, 2)], target="trn2")
    run(lambda x, o: nisa.activate2(o, nl.exp, x, None, None, nl.bypass, nl.bypass), draw((4, 2)),
        outs=[(4, 2)], target="trn3")
    for pair in ((None, 1.0), (1.0, None)):
        with pytest.raises(NkiValidationError, match=r"activate2: imm[01]: got None; a number"):
            run(lambda x, o, pair=pair: nisa.activate2(o, nl.exp, x, *pair, nl.multiply, nl.add),
                draw((4, 2)), outs=[(4, 2)], target="trn3")


def test_a_run_time_index_is_read_too():
    def body(x, at, out):
        nisa.tensor_copy(out, x.select(1, at))
    ran = run(body, draw((2, 3, 4)), np.array([[2]], np.int32), outs=[(2, 4)])
    same(ran.outputs[0], draw((2, 3, 4))[:, 2])
    assert [o.layout.shape for o in ran.trace[0].reads] == [(2, 4), (1, 1)]


# --- PSUM after another engine has been there ----------------------------------------------------


def warned(body, target="trn2"):
    """The warnings of matmuls that `body(accumulator, a, b, spare)` issues."""
    a = np.ones((32, 32), F32)
    ran = run(lambda acc, x, y, spare: body(acc, x, y, spare), (0 * a, PSUM), a, a,
              outs=[(32, 32)], target=target)
    return [w for w in ran.warnings if w.startswith("nc_matmul")]


def test_a_fresh_tile_and_explicit_flags_warn_of_nothing():
    def body(acc, a, b, spare):
        for k in range(2):
            nisa.nc_matmul(acc, a, b, accumulate=(k > 0))
        nisa.tensor_copy(spare, acc)
        for k in range(2):  # the same tile again, overwritten first
            nisa.nc_matmul(acc, a, b, accumulate=(k > 0))
        nisa.tensor_copy(spare, acc)
    assert warned(body) == []


def test_each_part_of_a_psum_tile_is_judged_alone():
    def body(acc, a, b, spare):
        for n in range(2):
            part = acc[:, 16 * n:16 * n + 16]
            for _ in range(2):
                nisa.nc_matmul(part, a, b[:, 0:16])
            nisa.tensor_copy(spare[:, 0:16], part)
    assert warned(body) == []


def test_a_tile_written_again_after_it_was_read():
    def body(acc, a, b, spare):
        nisa.nc_matmul(acc, a, b)
        nisa.activation(spare, nl.copy, acc)
        nisa.nc_matmul(acc, a, b)
    told, = warned(body)
    assert "written again after it was read" in told and "accumulate=(k > 0)" in told


@pytest.mark.parametrize(("accumulate", "text"), [
    (None, "whether accumulate=None overwrites it is not documented"),
    (True, "undefined on the device"), (False, "")])
def test_accumulating_onto_a_memset(accumulate, text):
    def body(acc, a, b, spare):
        nisa.memset(acc, 0.0)
        nisa.nc_matmul(acc, a, b, accumulate=accumulate)
    told = warned(body)
    assert (text in told[0]) if text else not told


def test_accumulating_after_the_vector_engine_wrote_the_sum():
    def body(acc, a, b, spare):
        nisa.nc_matmul(acc, a, b, accumulate=False)
        nisa.tensor_tensor(acc, acc, a, nl.add)
        nisa.nc_matmul(acc, a, b, accumulate=True)
    told, = warned(body)
    assert "that tensor_tensor has written" in told and "undefined on NeuronCore-v2 and v3" in told

    def overwritten(acc, a, b, spare):
        nisa.memset(acc, 0.0)
        for k in range(3):
            nisa.nc_matmul(acc, a, b, accumulate=(k > 0))
    assert warned(overwritten) == []


# --- refusals ------------------------------------------------------------------------------------

E = nisa.engine


def new(shape, dtype, buffer=SBUF):
    """A tile that holds nothing yet."""
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def of(tile, dtype):
    """A tile as another one, of a type of its own."""
    return new(tile.shape, dtype, tile.buffer)


# what is wrong, the call, what the message says, chip
REFUSED = [
    # where operands lie and how large they are
    ("HBM operand", lambda t: nisa.tensor_copy(t.f, new((32, 16), nl.float32, nl.shared_hbm)),
     "tensor_copy: src: got [32, 16] float32 in shared_hbm; it must be in sbuf or psum. "
     "Bring it there with nisa.dma_copy"),
    ("HBM result", lambda t: nisa.tensor_copy(new((32, 16), nl.float32, nl.shared_hbm), t.f),
     "tensor_copy: dst: got [32, 16] float32 in shared_hbm; it must be in sbuf or psum. Allocate "
     "it with buffer=nl.sbuf"),
    ("not a tile", lambda t: nisa.tensor_copy(t.f, 3.0),
     "tensor_copy: src: got float; an NkiTensor"),
    ("sizes", lambda t: nisa.tensor_copy(t.f, t.g[:, 0:8]),
     "tensor_copy: src: got [32, 8]; dst is [32, 16]: as many partitions and as many elements in "
     "each"),
    ("sizes", lambda t: nisa.tensor_tensor(t.f, t.g, t.v, nl.add),
     "tensor_tensor: data2: got [32, 1]; dst is [32, 16]"),
    ("partitions", lambda t: nisa.activation(t.f, nl.exp, t.g[0:16].reshape((16, 16))),
     "activation: data: got [16, 16]; dst is [32, 16]"),
    ("start partition", lambda t: nisa.tensor_copy(t.f[8:24], t.g[0:16]),
     "tensor_copy: dst: got 16 partitions from partition 8; a tile of 16 partitions starts at a "
     "multiple of 32"),
    ("4K elements in PSUM", lambda t: nisa.memset(new((1, 8192), nl.bfloat16, PSUM), 0.0),
     "memset: dst: got 8192 elements a partition; an engine passes over at most 4,096 in psum"),
    ("64K elements in SBUF", lambda t: nisa.memset(new((1, 65537), nl.uint8), 0),
     "memset: dst: got 65537 elements a partition; an engine passes over at most 65,536 in sbuf"),
    ("both in PSUM", lambda t: nisa.tensor_tensor(t.f, t.p, t.p, nl.add),
     "tensor_tensor: got data1 and data2 both in psum; at most one input may be there. Copy one to "
     "SBUF with nisa.tensor_copy"),
    ("both in PSUM", lambda t: nisa.scalar_tensor_tensor(t.f, t.p, nl.add, 1.0, nl.add, t.p),
     "scalar_tensor_tensor: got data and operand1 both in psum"),
    ("both in PSUM", lambda t: nisa.tensor_copy_predicated(t.f, t.p, of(t.p, nl.uint32)),
     "tensor_copy_predicated: got src and predicate both in psum"),
    ("both in PSUM", lambda t: nisa.select_reduce(t.f, of(t.p, nl.uint16), t.p, 0.0),
     "select_reduce: got on_true and predicate both in psum"),
    ("both in PSUM", lambda t: nisa.tensor_tensor_scan(t.f, t.p, t.p, 0.0, nl.add, nl.add),
     "tensor_tensor_scan: got data0 and data1 both in psum"),
    # engines
    ("GpSimd and PSUM", lambda t: nisa.tensor_copy(t.f, t.p, E.gpsimd),
     "tensor_copy: engine: got gpsimd with a tile in psum; GpSimd cannot access PSUM"),
    ("GpSimd and PSUM", lambda t: nisa.memset(t.p, 0.0, E.gpsimd), "GpSimd cannot access PSUM"),
    ("power in PSUM", lambda t: nisa.tensor_tensor(t.p, t.f, t.g, nl.power),
     "tensor_tensor: got a tile in psum; it runs on GpSimd, which cannot access PSUM"),
    ("power on Vector", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.power, E.vector),
     "tensor_tensor: engine: got vector; here it runs on gpsimd"),
    ("copy on Scalar, v2", lambda t: nisa.tensor_copy(t.f, t.g, E.scalar),
     "tensor_copy: engine: got scalar on NeuronCore-v2 (trn1); from NeuronCore-v3 on. Use "
     "nisa.activation with op=nl.copy", "trn1"),
    ("memset on Scalar", lambda t: nisa.memset(t.f, 0.0, E.scalar),
     "memset: engine: got scalar; here it runs on vector or gpsimd"),
    ("tensor_tensor on Scalar", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.add, E.scalar),
     "tensor_tensor: engine: got scalar; here it runs on vector or gpsimd"),
    ("Scalar on v3", lambda t: nisa.tensor_scalar(t.f, t.g, nl.subtract, 1.0, engine=E.scalar),
     "tensor_scalar: engine: got scalar on NeuronCore-v3 (trn2); there it runs only multiply, add, "
     "and multiply then add"),
    ("Scalar on v2", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0, engine=E.scalar),
     "got scalar on NeuronCore-v2 (trn1)", "trn1"),
    ("GpSimd", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0, engine=E.gpsimd),
     "tensor_scalar: engine: got gpsimd; here it runs on vector or scalar"),
    ("bits on Scalar", lambda t: nisa.tensor_scalar(t.i, t.j, nl.bitwise_or, 1, engine=E.scalar),
     "tensor_scalar: engine: got scalar; here it runs on vector"),
    ("iota in PSUM", lambda t: nisa.iota(t.p, [[1, 16]]),
     "iota: dst: got [32, 16] float32 in psum; it must be in sbuf. Allocate it with "
     "buffer=nl.sbuf"),
    ("gather in PSUM", lambda t: nisa.nc_n_gather(t.f, t.p, t.n), "nc_n_gather: data: got"),
    # operators
    ("unknown operator", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, np.add),
     "tensor_tensor: op: got add; operators here: nl.abs_max, nl.abs_min, nl.add,"),
    ("unary operator", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.relu),
     "tensor_tensor: op: got nl.relu; operators here"),
    ("not on the engine", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.divide),
     "tensor_tensor: op: got nl.divide"),
    ("not a function", lambda t: nisa.activation(t.f, nl.add, t.g),
     "activation: op: got nl.add; operators here: nl.abs, nl.arctan, nl.copy"),
    ("no activation", lambda t: nisa.activation(t.f, nl.cos, t.g), "activation: op: got nl.cos"),
    ("no reduction", lambda t: nisa.tensor_reduce(t.v, nl.power, t.f, 1),
     "tensor_reduce: op: got nl.power; operators here: nl.add, nl.bitwise_and"),
    ("v4 operator", lambda t: nisa.tensor_tensor(t.f, t.f, t.g, nl.abs_max),
     "tensor_tensor: nl.abs_max: got NeuronCore-v3 (trn2); it exists from NeuronCore-v4 on"),
    ("mixed families", lambda t: nisa.tensor_scalar(t.i, t.j, nl.bitwise_or, 1, op1=nl.add,
                                                    operand1=1.0),
     "tensor_scalar: got nl.bitwise_or, nl.add; bitvec and arithmetic operators cannot be mixed"),
    ("bits of floats", lambda t: nisa.tensor_tensor(t.f, t.i, t.j, nl.bitwise_or),
     "tensor_tensor: got nl.float32; a bitvec operator takes integer types. View the tile as one: "
     "t.view(nl.uint32)"),
    ("bits of floats", lambda t: nisa.tensor_reduce(t.v, nl.bitwise_or, t.i, 1),
     "tensor_reduce: got nl.float32"),
    ("bits", lambda t: nisa.scalar_tensor_tensor(t.i, t.j, nl.bitwise_or, 1, nl.bitwise_or, t.i),
     "scalar_tensor_tensor: got nl.bitwise_or; arithmetic operators only"),
    ("bits", lambda t: nisa.tensor_tensor_scan(t.f, t.f, t.g, 0.0, nl.add, nl.bitwise_or),
     "tensor_tensor_scan: got nl.bitwise_or; arithmetic operators only"),
    # scalar and vector operands
    ("no operand", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, None),
     "tensor_scalar: operand0: got None; nl.add takes a number or a tile of shape (32, 1)"),
    ("operand of a unary one", lambda t: nisa.tensor_scalar(t.f, t.g, nl.abs, 2.0),
     "tensor_scalar: operand0: got an operand; None or 0: nl.abs takes data alone"),
    ("operand of nothing", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0, operand1=2.0),
     "tensor_scalar: operand1: got an operand without an operator"),
    ("bf16 operand", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, t.h[:, 0:1]),
     "tensor_scalar: operand0: got nl.bfloat16; a float32 tile. Copy it into a float32 tile with "
     "nisa.tensor_copy"),
    ("wide operand", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, t.g),
     "tensor_scalar: operand0: got [32, 16]; a number, or a tile of shape (32, 1)"),
    ("text", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, "1"),
     "tensor_scalar: operand0: got str; a number. A run-time value goes in as a tile of shape "
     "(P, 1)"),
    ("register", lambda t: nisa.tensor_scalar(t.f, t.g, nl.add, nisa.register_alloc(1)),
     "tensor_scalar: operand0: got VirtualRegister; a number"),
    ("float for bits", lambda t: nisa.tensor_scalar(t.i, t.j, nl.left_shift, 1.0),
     "tensor_scalar: operand0: got float; a whole number"),
    ("float tile for bits", lambda t: nisa.tensor_scalar(t.i, t.j, nl.left_shift, t.v),
     "tensor_scalar: operand0: got nl.float32; a bitvec operator takes integer types"),
    ("bf16 scale", lambda t: nisa.activation(t.f, nl.exp, t.g, scale=t.h[:, 0:1]),
     "activation: scale: got nl.bfloat16; a float32 tile"),
    ("scalar bias, v2", lambda t: nisa.activation(t.f, nl.exp, t.g, bias=0.5),
     "activation: bias: got a number on NeuronCore-v2 (trn1); there it is a tile of shape (32, 1); "
     "a number from v3 on. Fill a tile with nisa.memset", "trn1"),
    ("tf32 bias", lambda t: nisa.activation(t.f, nl.exp, t.g, new((32, 1), nl.tfloat32)),
     "activation: bias: got nl.tfloat32; any type but tfloat32"),
    ("bias of reciprocal, v2", lambda t: nisa.activation(t.f, nl.reciprocal, t.g, t.v),
     "activation: bias: got a bias with nl.reciprocal on NeuronCore-v2", "trn1"),
    ("long bias", lambda t: nisa.activation(t.f, nl.exp, t.g, t.g),
     "activation: bias: got [32, 16]; a number, or a tile of shape (32, 1)"),
    ("float result of bits", lambda t: nisa.tensor_scalar(t.f, t.i, nl.left_shift, 1),
     "tensor_scalar: got nl.float32; a bitvec operator takes integer types"),
    ("whole result", lambda t: nisa.exponential(t.f, t.g, reduce_res=t.i[:, 0:1]),
     "exponential: reduce_res: got nl.int32; a float type", "trn3"),
    ("whole result", lambda t: nisa.select_reduce(t.f, t.u, t.g, 0.0, t.i[:, 0:1]),
     "select_reduce: reduce_res: got nl.int32; a float type"),
    ("float into an integer", lambda t: nisa.tensor_copy_predicated(t.i, 1.5, t.u),
     "tensor_copy_predicated: src: got float; a whole number"),
    # values
    ("float into int", lambda t: nisa.memset(t.i, 2.0),
     "memset: value: got 2.0; a number that matches nl.int32. Write an integer literal"),
    ("too large", lambda t: nisa.memset(t.u, 256), "memset: value: got 256; 0 to 255 of nl.uint8"),
    ("packed", lambda t: nisa.memset(new((4, 4), nl.float8_e4m3fn_x4), 1),
     "memset: value: got 1; a packed type, nl.float8_e4m3fn_x4, can only be zeroed"),
    ("packed", lambda t: nisa.tensor_copy(new((32, 16), nl.float8_e5m2_x4), t.f),
     "packed types are for nc_matmul_mx alone"),
    # axes
    ("partition axis", lambda t: nisa.tensor_reduce(t.v, nl.add, t.f, axis=0),
     "tensor_reduce: axis: got 0; the last free dimensions of [32, 16], up to 1; the partition "
     "dimension, 0, cannot be reduced. Sum over partitions with nisa.nc_matmul and a tile of ones"),
    ("inner axis", lambda t: nisa.tensor_reduce(t.f[:, 0:4], nl.add, t.g.reshape((32, 4, 4)), 1),
     "tensor_reduce: axis: got 1; the last free dimensions of [32, 4, 4], up to 2"),
    ("result", lambda t: nisa.tensor_reduce(t.f, nl.add, t.g, axis=1),
     "tensor_reduce: dst: got [32, 16]; reducing [32, 16] over (1,) leaves [32, 1]"),
    ("result", lambda t: nisa.tensor_reduce(t.f, nl.add, t.g.reshape((32, 2, 8)), axis=2),
     "tensor_reduce: dst: got [32, 16]; reducing [32, 2, 8] over (2,) leaves [32, 2]"),
    ("kept", lambda t: nisa.tensor_reduce(t.f, nl.add, t.g.reshape((32, 2, 8)), 2, keepdims=True),
     "tensor_reduce: dst: got [32, 16]; reducing [32, 2, 8] over (2,) leaves [32, 2, 1]"),
    ("negated bits", lambda t: nisa.tensor_reduce(t.i[:, 0:1], nl.bitwise_or, t.j, 1, negate=True),
     "tensor_reduce: negate: got True; it goes with arithmetic operators"),
    # registers
    ("reduce_op", lambda t: nisa.activation_reduce(t.f, nl.exp, t.g, nl.maximum, t.v),
     "activation_reduce: reduce_op: got nl.maximum; one of nl.add"),
    ("no reduce_op", lambda t: nisa.activation(t.f, nl.exp, t.g, reduce_cmd=CMD.reduce),
     "activation: reduce_op: got None; reduce_cmd.reduce needs an operator. Say reduce_op=nl.add"),
    ("load", lambda t: nisa.activation(t.f, nl.exp, t.g, reduce_cmd=CMD.load_reduce),
     "activation: reduce_cmd: got reduce_cmd.load_reduce; one of reduce_cmd.idle, "),
    ("wide result", lambda t: nisa.activation(t.f, nl.exp, t.g, reduce_res=t.g),
     "activation: reduce_res: got [32, 16]"),
    ("init without load", lambda t: nisa.tensor_scalar_reduce(
        t.f, t.g, nl.add, 1.0, nl.add, reduce_init=1.0),
     "tensor_scalar_reduce: reduce_init: got a value with reduce_cmd.reset_reduce; it goes with "
     "reduce_cmd.load_reduce, and only with it"),
    ("load without init", lambda t: nisa.tensor_scalar_cumulative(
        t.f, t.g, nl.add, nl.add, 1.0, reduce_cmd=CMD.load_reduce),
     "tensor_scalar_cumulative: imm1: got None; it goes with reduce_cmd.load_reduce"),
    ("reverse0", lambda t: nisa.tensor_scalar_reduce(t.f, t.g, nl.add, 1.0, nl.add, reverse0=True),
     "tensor_scalar_reduce: reverse0: got True; it is not supported yet"),
    ("whole 32-bit", lambda t: nisa.tensor_scalar_cumulative(t.i, t.j, nl.add, nl.add, 1.0),
     "tensor_scalar_cumulative: dst: got nl.int32; one of nl.float8_e4m3"),
    ("two types", lambda t: nisa.activate2(t.f, nl.exp, t.g, t.v, t.h[:, 0:1], nl.multiply, nl.add),
     "activate2: got imm0 nl.float32, imm1 nl.bfloat16; two tiles of one dtype", "trn3"),
    ("reduce_op", lambda t: nisa.activate2(t.f, nl.exp, t.g, 1.0, 0.0, nl.multiply, nl.add,
                                           reduce_op=nl.multiply),
     "activate2: reduce_op: got nl.multiply; one of nl.add, nl.maximum, nl.minimum", "trn3"),
    ("reduce_cmd", lambda t: nisa.activate2(t.f, nl.exp, t.g, 1.0, 0.0, nl.multiply, nl.add,
                                            reduce_cmd=CMD.load_reduce),
     "activate2: reduce_cmd: got reduce_cmd.load_reduce", "trn3"),
    ("bits", lambda t: nisa.tensor_scalar_reduce(t.i, t.j, nl.bitwise_or, 1, nl.add),
     "tensor_scalar_reduce: got nl.bitwise_or; arithmetic operators only"),
    ("reduce_op", lambda t: nisa.tensor_scalar_reduce(t.f, t.g, nl.add, 1.0, nl.subtract),
     "tensor_scalar_reduce: reduce_op: got nl.subtract; one of nl.add, nl.multiply, nl.maximum"),
    ("reduce_cmd", lambda t: nisa.tensor_scalar_reduce(t.f, t.g, nl.add, 1.0, nl.add,
                                                       reduce_cmd=CMD.idle),
     "tensor_scalar_reduce: reduce_cmd: got reduce_cmd.idle; one of reduce_cmd.reset_reduce"),
    ("bits", lambda t: nisa.tensor_scalar_cumulative(t.u, t.u, nl.bitwise_or, nl.add, 1),
     "tensor_scalar_cumulative: got nl.bitwise_or; arithmetic operators only"),
    ("op1", lambda t: nisa.tensor_scalar_cumulative(t.f, t.g, nl.add, nl.less, 1.0),
     "tensor_scalar_cumulative: op1: got nl.less; one of nl.add, nl.subtract, nl.multiply"),
    ("reduce_cmd", lambda t: nisa.tensor_scalar_cumulative(t.f, t.g, nl.add, nl.add, 1.0,
                                                           reduce_cmd=CMD.idle),
     "tensor_scalar_cumulative: reduce_cmd: got reduce_cmd.idle"),
    ("type", lambda t: nisa.exponential(t.n, t.g),
     "exponential: dst: got nl.uint32; one of nl.float8_e4m3", "trn3"),
    ("type", lambda t: nisa.exponential(t.f, new((32, 16), nl.tfloat32)),
     "exponential: src: got nl.tfloat32; one of nl.float8_e4m3", "trn3"),
    ("reduce_cmd", lambda t: nisa.exponential(t.f, t.g, reduce_cmd=CMD.reset),
     "exponential: reduce_cmd: got reduce_cmd.reset; one of reduce_cmd.idle", "trn3"),
    ("init", lambda t: nisa.exponential(t.f, t.g, reduce_init=1.0),
     "exponential: reduce_init: got a value with reduce_cmd.idle", "trn3"),
    ("reduce_op", lambda t: nisa.select_reduce(t.f, t.u, t.g, 0.0, reduce_op=nl.add),
     "select_reduce: reduce_op: got nl.add; one of nl.maximum"),
    ("reduce_cmd", lambda t: nisa.select_reduce(t.f, t.u, t.g, 0.0, reduce_cmd=CMD.reset),
     "select_reduce: reduce_cmd: got reduce_cmd.reset; one of reduce_cmd.idle"),
    ("reduce_op", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v,
                                              reduce_op=nl.add),
     "range_select: reduce_op: got nl.add; one of nl.maximum"),
    ("reduce_cmd", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v,
                                               CMD.load_reduce),
     "range_select: reduce_cmd: got reduce_cmd.load_reduce"),
    ("whole numbers", lambda t: nisa.range_select(t.i, t.j, nl.less, nl.less, t.v, t.v),
     "range_select: on_true_tile: got nl.int32; a float type"),
    ("bounds", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.h[:, 0:1]),
     "range_select: bound1: got nl.bfloat16; a float32 tile"),
    ("v4", lambda t: nisa.exponential(t.f, t.g),
     "exponential: got NeuronCore-v3 (trn2); it exists from NeuronCore-v4 on"),
    ("v4", lambda t: nisa.activate2(t.f, nl.exp, t.g, 1.0, 0.0, nl.multiply, nl.add),
     "activate2: got NeuronCore-v3 (trn2); it exists from NeuronCore-v4 on"),
    ("pair", lambda t: nisa.activate2(t.f, nl.exp, t.g, 1.0, 0.0, nl.add, nl.add),
     "activate2: op0, op1: got nl.add, nl.add; one of nl.multiply, nl.add; ", "trn3"),
    ("v3", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v),
     "range_select: got NeuronCore-v2 (trn1); it exists from NeuronCore-v3 on", "trn1"),
    # selections
    ("predicate", lambda t: nisa.tensor_copy_predicated(t.f, t.g, t.i),
     "tensor_copy_predicated: predicate: got nl.int32; one of nl.uint8, nl.uint16, nl.uint32"),
    ("two types", lambda t: nisa.tensor_copy_predicated(t.f, t.h, t.u),
     "tensor_copy_predicated: src: got nl.bfloat16; the dtype of dst, nl.float32"),
    ("predicate", lambda t: nisa.select_reduce(t.f, t.n, t.g, 0.0),
     "select_reduce: predicate: got nl.uint32; one of nl.int8, nl.uint8, nl.int16, nl.uint16"),
    ("32-bit", lambda t: nisa.select_reduce(t.i, t.u, t.j, 0.0),
     "select_reduce: on_true: got nl.int32; any type but tfloat32, int32, uint32"),
    ("on_false_value", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v,
                                                   on_false_value=0.0),
     "range_select: on_false_value: got 0.0; -3.4028234663852886e+38 (FP32_MIN) alone"),
    ("far range", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v,
                                              range_start=2**24),
     "range_select: range_start: got 16777216; indices up to 2^24"),
    ("comparison", lambda t: nisa.range_select(t.f, t.g, nl.add, nl.less, t.v, t.v),
     "range_select: comp_op0: got nl.add; one of nl.equal"),
    # eight, shuffles, statistics
    ("few elements", lambda t: nisa.max8(t.f[:, 0:8], t.g[:, 0:7]),
     "max8: src: got [32, 7]; 8 to 16,384 elements a partition"),
    ("range_start", lambda t: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v,
                                                range_start=0.5),
     "range_select: range_start: got float; a whole number"),
    ("dst of 3 dimensions", lambda t: nisa.max8(t.f[:, 0:8].reshape((32, 2, 4)), t.g),
     "max8: dst: got [32, 2, 4]; [32, 8]"),
    ("dimensions", lambda t: nisa.nc_match_replace8(
        t.f, t.g.reshape((32, 2, 2, 4)), t.f[:, 0:8], 0.0),
     "nc_match_replace8: data: got [32, 2, 2, 4]; at most 3 dimensions"),
    ("dimensions", lambda t: nisa.max8(t.f[:, 0:8], t.g.reshape((32, 2, 2, 4))),
     "max8: src: got [32, 2, 2, 4]; at most 3 dimensions. Merge free dimensions with flatten_dims"),
    ("dimensions", lambda t: nisa.nc_find_index8(
        t.n[:, 0:8], t.g, t.f[:, 0:8].reshape((32, 2, 2, 2))),
     "nc_find_index8: vals: got [32, 2, 2, 2]; at most 3 dimensions"),
    ("dimensions", lambda t: nisa.exponential(t.f.reshape((32, 2, 2, 2, 2)), t.g),
     "exponential: dst: got [32, 2, 2, 2, 2]; at most 4 dimensions", "trn3"),
    ("index type", lambda t: nisa.nc_find_index8(t.f[:, 0:8], t.g, t.f[:, 0:8]),
     "nc_find_index8: dst: got nl.float32; one of nl.uint16, nl.uint32"),
    ("mask", lambda t: nisa.nc_stream_shuffle(t.f, t.g, [0] * 31),
     "nc_stream_shuffle: shuffle_mask: got"),
    ("start", lambda t: nisa.nc_stream_shuffle(new((64, 4), nl.float32),
                                               new((64, 4), nl.float32)[32:64], [0] * 32),
     "nc_stream_shuffle: src: got partition 32; 64 active partitions start at a multiple of 64"),
    ("outside src", lambda t: nisa.nc_stream_shuffle(t.f, t.g[0:1], [1] * 32),
     "nc_stream_shuffle: shuffle_mask[0]: got 1; partition 0 would copy from 1, and src has 1"),
    ("too many", lambda t: nisa.bn_stats(t.f[:, 0:6], new((32, 513), nl.float32)),
     "bn_stats: data: got [32, 513]; at most 512 elements a partition "
     "(nl.tile_size.bn_stats_fmax). Split it into 2 tiles and aggregate with nisa.bn_aggr"),
    ("no triples", lambda t: nisa.bn_aggr(t.f[:, 0:2], t.g), "bn_aggr: data: got [32, 16]; count"),
    # patterns and gathers
    ("pattern", lambda t: nisa.iota(t.i, [[1, 8]]),
     "iota: pattern: got [[1, 8]]; numbers whose product is the 16 elements a partition of dst"),
    ("five", lambda t: nisa.iota(t.i, [[1, 2]] * 5), "iota: pattern: got"),
    ("float offset", lambda t: nisa.iota(t.i, [[1, 16]], 0.5),
     "iota: offset: got float; a whole number"),
    ("no pairs", lambda t: nisa.iota(t.i, [16]),
     "iota: pattern: got [16]; a list of [step, number] pairs of whole numbers"),
    ("no whole pairs", lambda t: nisa.iota(t.i, [[1.0, 16]]), "iota: pattern: got [[1.0, 16]]"),
    ("no elements", lambda t: nisa.iota(t.i, [[1, 0]]),
     "iota: pattern: got [[1, 0]]; one to four [step, number] pairs, each number at least 1"),
    ("33 bits", lambda t: nisa.iota(t.i, [[1, 16]], 2**31),
     "iota: offset: got 2147483648; a 32-bit integer"),
    ("pattern", lambda t: nisa.affine_select(t.f, [[1, 8]], 1, t.g, 0.0),
     "affine_select: pattern: got [[1, 8]]"),
    ("many indices", lambda t: nisa.local_gather(t.f, t.g, t.s[:, 0:1], 1, 17),
     "local_gather: num_valid_indices: got 17; 1 to 16 indices for each 16 partitions"),
    ("two types", lambda t: nisa.local_gather(t.h, t.g, t.s[:, 0:1]),
     "local_gather: dst: got nl.bfloat16; the dtype of src_buffer, nl.float32"),
    ("operator", lambda t: nisa.tensor_partition_reduce(t.f[0:1], nl.multiply, t.g),
     "tensor_partition_reduce: op: got nl.multiply; one of nl.add, nl.average, nl.maximum"),
    ("bits of floats", lambda t: nisa.tensor_partition_reduce(t.f[0:1], nl.bitwise_or, t.i),
     "tensor_partition_reduce: got nl.float32; a bitvec operator takes integer types"),
    ("type", lambda t: nisa.sequence_bounds(t.i[0:1, 0:8].reshape((1, 2, 4)), t.u[0:1, 0:4]),
     "sequence_bounds: segment_ids: got nl.uint8; one of nl.float32, nl.int32"),
    ("cmp_op", lambda t: nisa.affine_select(t.f, [[1, 16]], 1, t.g, 0.0, nl.add),
     "affine_select: cmp_op: got nl.add; one of nl.equal"),
    ("index type", lambda t: nisa.nc_n_gather(t.f, t.g, t.i),
     "nc_n_gather: indices: got nl.int32; one of nl.uint32"),
    ("index type", lambda t: nisa.local_gather(t.f, t.g, t.n[:, 0:1]),
     "local_gather: index: got nl.uint32; one of nl.uint16"),
    ("width", lambda t: nisa.local_gather(t.f, t.g, t.s[:, 0:1], 3),
     "local_gather: num_elem_per_idx: got 3; one of 1, 2, 4, 8, 16, 32"),
    ("several rows", lambda t: nisa.tensor_partition_reduce(t.f, nl.add, t.g),
     "tensor_partition_reduce: dst: got [32, 16]; [1, 16]"),
    ("shape", lambda t: nisa.sequence_bounds(t.i[0:1], t.j[0:1]),
     "sequence_bounds: dst: got [1, 16]; [1, 2, 16]"),
    ("type", lambda t: nisa.nonzero_with_count(t.n, t.f[:, 0:15]),
     "nonzero_with_count: dst: got nl.uint32; one of nl.int32"),
    ("type", lambda t: nisa.nonzero_with_count(t.i, t.h[:, 0:15]),
     "nonzero_with_count: src: got nl.bfloat16; one of nl.float32, nl.int32"),
    ("offset", lambda t: nisa.nonzero_with_count(t.i, t.f[:, 0:15], 0.5),
     "nonzero_with_count: index_offset: got float; a whole number"),
    ("padding", lambda t: nisa.nonzero_with_count(t.i, t.f[:, 0:15], 0, -1.0),
     "nonzero_with_count: padding_val: got float; a whole number"),
    ("v3", lambda t: nisa.nonzero_with_count(t.i, t.f[:, 0:15]),
     "nonzero_with_count: got NeuronCore-v2 (trn1)", "trn1"),
    ("one more", lambda t: nisa.nonzero_with_count(t.i, t.f),
     "nonzero_with_count: dst: got [32, 16]; [32, 17]"),
]


@pytest.mark.parametrize(("call", "text", "target"), [
    pytest.param(*case[1:3], case[3] if len(case) > 3 else "trn2",
                 id=f"{case[2].split(':')[0]}: {case[0]}") for case in REFUSED])
@pytest.mark.parametrize("data", [True, False])
def test_refusals(call, text, target, data):
    with pytest.raises(NkiValidationError) as refused:
        run(lambda: call(tiles()), outs=[], target=target, data=data)
    assert text in str(refused.value)


# --- every tile of every instruction -------------------------------------------------------------

TILE, COLUMN, EIGHT = ((32, 16), nl.float32), ((32, 1), nl.float32), ((32, 8), nl.float32)
MASK, INDEX = ((32, 16), nl.uint16), ((32, 8), nl.uint32)

# instruction: a call that takes its tiles by role, and what each is; * marks a role whose number of
# free elements is the caller's choice
CALLS = {
    "memset": (lambda dst: nisa.memset(dst, 1.0), {"dst*": TILE}),
    "tensor_copy": (lambda dst, src: nisa.tensor_copy(dst, src), {"dst": TILE, "src": TILE}),
    "tensor_tensor": (lambda dst, data1, data2: nisa.tensor_tensor(dst, data1, data2, nl.add),
                      {"dst": TILE, "data1": TILE, "data2": TILE}),
    "tensor_scalar": (lambda dst, data, operand0, operand1: nisa.tensor_scalar(
        dst, data, nl.add, operand0, op1=nl.add, operand1=operand1),
        {"dst": TILE, "data": TILE, "operand0": COLUMN, "operand1": COLUMN}),
    "scalar_tensor_tensor": (lambda dst, data, operand0, operand1: nisa.scalar_tensor_tensor(
        dst, data, nl.add, operand0, nl.add, operand1),
        {"dst": TILE, "data": TILE, "operand0": COLUMN, "operand1": TILE}),
    "tensor_copy_predicated": (lambda dst, src, predicate: nisa.tensor_copy_predicated(
        dst, src, predicate), {"dst": TILE, "src": TILE, "predicate": MASK}),
    "reciprocal": (lambda dst, data: nisa.reciprocal(dst, data), {"dst": TILE, "data": TILE}),
    "tensor_reduce": (lambda dst, data: nisa.tensor_reduce(dst, nl.add, data, axis=1),
                      {"dst": COLUMN, "data*": TILE}),
    "tensor_tensor_scan": (lambda dst, data0, data1, initial: nisa.tensor_tensor_scan(
        dst, data0, data1, initial, nl.add, nl.add),
        {"dst": TILE, "data0": TILE, "data1": TILE, "initial": COLUMN}),
    "bn_stats": (lambda dst, data: nisa.bn_stats(dst, data),
                 {"dst": ((32, 6), nl.float32), "data*": TILE}),
    "bn_aggr": (lambda dst, data: nisa.bn_aggr(dst, data),
                {"dst": ((32, 2), nl.float32), "data": ((32, 12), nl.float32)}),
    "tensor_scalar_reduce": (
        lambda dst, data, operand0, reduce_init, reduce_res: nisa.tensor_scalar_reduce(
            dst, data, nl.add, operand0, nl.add, reduce_res, reduce_cmd=CMD.load_reduce,
            reduce_init=reduce_init),
        {"dst": TILE, "data": TILE, "operand0": COLUMN,
         "reduce_init": COLUMN, "reduce_res": COLUMN}),
    "tensor_scalar_cumulative": (
        lambda dst, src, imm0, imm1: nisa.tensor_scalar_cumulative(
            dst, src, nl.add, nl.add, imm0, imm1, CMD.load_reduce),
        {"dst": TILE, "src": TILE, "imm0": COLUMN, "imm1": COLUMN}),
    "exponential": (
        lambda dst, src, max_value, reduce_res, reduce_init: nisa.exponential(
            dst, src, max_value, reduce_res, CMD.load_reduce, reduce_init),
        {"dst": TILE, "src": TILE, "max_value": COLUMN,
         "reduce_res": COLUMN, "reduce_init": COLUMN}),
    "select_reduce": (
        lambda dst, predicate, on_true, on_false, reduce_res: nisa.select_reduce(
            dst, predicate, on_true, on_false, reduce_res, CMD.reset_reduce),
        {"dst": TILE, "predicate": MASK, "on_true": TILE, "on_false": COLUMN,
         "reduce_res": COLUMN}),
    "range_select": (
        lambda dst, on_true_tile, bound0, bound1, reduce_res: nisa.range_select(
            dst, on_true_tile, nl.less, nl.less, bound0, bound1, reduce_res=reduce_res),
        {"dst": TILE, "on_true_tile": TILE, "bound0": COLUMN, "bound1": COLUMN,
         "reduce_res": COLUMN}),
    "activation": (
        lambda dst, data, bias, scale, reduce_res: nisa.activation(
            dst, nl.exp, data, bias, scale, nl.add, reduce_res, CMD.reset_reduce),
        {"dst": TILE, "data": TILE, "bias": COLUMN, "scale": COLUMN, "reduce_res": COLUMN}),
    "activate2": (
        lambda dst, data, imm0, imm1, relu_param, reduce_res: nisa.activate2(
            dst, nl.prelu, data, imm0, imm1, nl.multiply, nl.add, relu_param, reduce_op=nl.add,
            reduce_res=reduce_res),
        {"dst": TILE, "data": TILE, "imm0": COLUMN, "imm1": COLUMN, "relu_param": COLUMN,
         "reduce_res": COLUMN}),
    "max8": (lambda dst, src: nisa.max8(dst, src), {"dst": EIGHT, "src*": TILE}),
    "nc_find_index8": (lambda dst, data, vals: nisa.nc_find_index8(dst, data, vals),
                       {"dst": INDEX, "data*": TILE, "vals": EIGHT}),
    "nc_match_replace8": (
        lambda dst, data, vals, dst_idx: nisa.nc_match_replace8(dst, data, vals, 0.0, dst_idx),
        {"dst": TILE, "data": TILE, "vals": EIGHT, "dst_idx": INDEX}),
    "nc_stream_shuffle": (lambda dst, src: nisa.nc_stream_shuffle(dst, src, list(range(32))),
                          {"dst": TILE, "src": TILE}),
    "iota": (lambda dst: nisa.iota(dst, [[1, 16]]), {"dst": TILE}),
    "affine_select": (lambda dst, on_true_tile: nisa.affine_select(
        dst, [[1, 16]], 1, on_true_tile, 0.0), {"dst": TILE, "on_true_tile": TILE}),
    "nc_n_gather": (lambda dst, data, indices: nisa.nc_n_gather(dst, data, indices),
                    {"dst": TILE, "data*": TILE, "indices": ((32, 16), nl.uint32)}),
    "local_gather": (lambda dst, src_buffer, index: nisa.local_gather(dst, src_buffer, index),
                     {"dst": TILE, "src_buffer*": TILE, "index": ((32, 1), nl.uint16)}),
    "tensor_partition_reduce": (lambda dst, data: nisa.tensor_partition_reduce(dst, nl.add, data),
                                {"dst": ((1, 16), nl.float32), "data": TILE}),
    "sequence_bounds": (lambda dst, segment_ids: nisa.sequence_bounds(dst, segment_ids),
                        {"dst": ((1, 2, 16), nl.float32), "segment_ids": ((1, 16), nl.float32)}),
    "nonzero_with_count": (lambda dst, src: nisa.nonzero_with_count(dst, src),
                           {"dst": ((32, 17), nl.int32), "src": TILE}),
}
OPERANDS = [(opcode, role) for opcode, (_, roles) in CALLS.items() for role in roles]
ANY_P = {("tensor_partition_reduce", "data"), ("memset", "dst*"), ("iota", "dst"),
         ("nc_stream_shuffle", "dst")}  # as many partitions as the caller likes, up to 32 here


def issued(opcode, role="", **changed):
    """Issue one instruction on trn3, with one of its tiles made by changed(shape, dtype)."""
    call, roles = CALLS[opcode]
    make = {name.strip("*"): new(*spec) for name, spec in roles.items()}
    if role:
        make[role.strip("*")] = changed["tile"](*roles[role])
    call(**make)


def refused(opcode, role, tile):
    """The refusal of an instruction whose operand `role` is tile(shape, dtype)."""
    with pytest.raises(NkiValidationError) as told:
        run(lambda: issued(opcode, role, tile=tile), outs=[], target="trn3", data=False)
    return str(told.value)


@pytest.mark.parametrize("opcode", CALLS)
def test_the_calls_below_are_legal_as_they_stand(opcode):
    run(lambda: issued(opcode), outs=[], target="trn3", data=False)


@pytest.mark.parametrize(("opcode", "role"), OPERANDS)
def test_each_tile_is_on_chip(opcode, role):
    told = refused(opcode, role, lambda shape, dtype: new(shape, dtype, nl.shared_hbm))
    assert told.startswith(f"{opcode}: {role.strip('*')}: got ") and "in shared_hbm" in told


@pytest.mark.parametrize(("opcode", "role"), OPERANDS)
def test_each_tile_starts_where_engines_reach(opcode, role):
    def shifted(shape, dtype):
        return new((64, *shape[1:]), dtype)[16:16 + shape[0]]
    told = refused(opcode, role, shifted)
    assert told.startswith(f"{opcode}: {role.strip('*')}: got ") and "partition 16" in told


@pytest.mark.parametrize(("opcode", "role"), OPERANDS)
def test_each_tile_has_its_partitions(opcode, role):
    def halved(shape, dtype):
        return new((max(shape[0] // 2, 1) if shape[0] > 1 else 2, *shape[1:]), dtype)
    if (opcode, role) in ANY_P:
        run(lambda: issued(opcode, role, tile=halved), outs=[], target="trn3", data=False)
    else:
        assert refused(opcode, role, halved).startswith(f"{opcode}: ")


@pytest.mark.parametrize(("opcode", "role"), OPERANDS)
def test_each_tile_has_its_free_elements(opcode, role):
    def longer(shape, dtype):
        return new((*shape[:-1], shape[-1] + 1), dtype)
    if role.endswith("*"):
        run(lambda: issued(opcode, role, tile=longer), outs=[], target="trn3", data=False)
    else:
        assert refused(opcode, role, longer).startswith(f"{opcode}: ")


@pytest.mark.parametrize(("opcode", "role"), OPERANDS)
def test_packed_types_are_for_the_tensor_engine(opcode, role):
    told = refused(opcode, role, lambda shape, dtype: new(shape, nl.float8_e4m3fn_x4))
    assert told.startswith(opcode)


@pytest.mark.parametrize("op", [nl.abs_max, nl.abs_min], ids=str)
@pytest.mark.parametrize("call", [
    lambda t, op: nisa.tensor_tensor(t.f, t.f, t.g, op),
    lambda t, op: nisa.tensor_scalar(t.f, t.g, nl.add, 1.0, op1=op, operand1=1.0),
    lambda t, op: nisa.scalar_tensor_tensor(t.f, t.g, op, 1.0, nl.add, t.g),
    lambda t, op: nisa.tensor_tensor_scan(t.f, t.f, t.g, 0.0, op, nl.add),
    lambda t, op: nisa.tensor_scalar_reduce(t.f, t.g, op, 1.0, nl.add),
    lambda t, op: nisa.tensor_scalar_cumulative(t.f, t.g, op, nl.add, 1.0)])
def test_operators_of_v4_are_refused_before(call, op):
    for target in ("trn1", "trn2"):
        with pytest.raises(NkiValidationError, match=f"nl.{op.name}: got NeuronCore"):
            run(lambda: call(tiles(), op), outs=[], target=target, data=False)
    run(lambda: call(tiles(), op), outs=[], target="trn3", data=False)


@pytest.mark.parametrize("call", [
    lambda t, x: nisa.scalar_tensor_tensor(t.f, t.g, nl.add, x, nl.add, t.g),
    lambda t, x: nisa.tensor_tensor_scan(t.f, t.f, t.g, x, nl.add, nl.add),
    lambda t, x: nisa.tensor_scalar_reduce(t.f, t.g, nl.add, x, nl.add),
    lambda t, x: nisa.tensor_scalar_cumulative(t.f, t.g, nl.add, nl.add, x),
    lambda t, x: nisa.tensor_copy_predicated(t.f, x, t.u),
    lambda t, x: nisa.select_reduce(t.f, t.u, t.g, x),
    lambda t, x: nisa.nc_match_replace8(t.f, t.f, t.g[:, 0:8], x),
    lambda t, x: nisa.activation(t.f, nl.exp, t.g, x),
    lambda t, x: nisa.activation(t.f, nl.exp, t.g, scale=x),
    lambda t, x: nisa.affine_select(t.f, [[1, 16]], 1, t.g, x),
    lambda t, x: nisa.exponential(t.f, t.g, x),
    lambda t, x: nisa.activate2(t.f, nl.exp, t.g, x, 0.0, nl.add, nl.bypass),
    lambda t, x: nisa.memset(t.f, x)])
def test_a_number_is_a_number(call):
    run(lambda: call(tiles(), 1.5), outs=[], target="trn3", data=False)
    for wrong in ("1", True, [1.0]):
        with pytest.raises((NkiValidationError, TypeError)):
            run(lambda wrong=wrong: call(tiles(), wrong), outs=[], target="trn3", data=False)


@pytest.mark.parametrize(("call", "legal", "other"), [
    (lambda t, n: nisa.iota(t.i, [[1, 16]], n), 1, 1.0),
    (lambda t, n: nisa.iota(t.i, [[n, 16]]), 1, 1.0),
    (lambda t, n: nisa.affine_select(t.f, [[1, 16]], n, t.g, 0.0), 1, True),
    (lambda t, n: nisa.local_gather(t.f, t.g, t.s[:, 0:1], n), 1, True),
    (lambda t, n: nisa.nonzero_with_count(t.i, t.f[:, 0:15], n), 1, 1.0),
    (lambda t, n: nisa.range_select(t.f, t.g, nl.less, nl.less, t.v, t.v, range_start=n), 1, 1.0),
    (lambda t, n: nisa.tensor_reduce(t.v, nl.add, t.f, n), 1, 1.0),
    (lambda t, n: nisa.nc_stream_shuffle(t.f, t.g, [n] * 32), 1, 1.0),
    (lambda t, n: nisa.memset(t.i, n), 1, 1.0)])
def test_a_whole_number_is_told_from_its_equals(call, legal, other):
    """Also after the legal call, whose verdict is remembered: 1 == 1.0 == True."""
    run(lambda: call(tiles(), legal), outs=[])
    with pytest.raises((NkiValidationError, TypeError)):
        run(lambda: call(tiles(), other), outs=[])


def test_an_index_past_the_end_is_refused():
    def body(x, at, out):
        nisa.nc_n_gather(out, x, at)
    for last in (4, 9):
        with pytest.raises(NkiValidationError, match=f"index: got {last}; a partition has 4 el"):
            run(body, draw((1, 4)), np.array([[0, last]], np.uint32), outs=[(1, 2)])
    run(body, draw((1, 4)), np.array([[0, 3]], np.uint32), outs=[(1, 2)])


def test_limits_are_inside():
    """The largest and smallest that the documents allow."""
    def body(eight, most, longest, stats):
        nisa.max8(eight, eight)
        nisa.max8(eight, most)
        nisa.iota(eight, [[0, 8]], -2**31, 0)
        nisa.iota(eight, [[0, 8]], 2**31 - 1, 0)
        nisa.bn_stats(stats, most[:, 0:512])
        nisa.memset(longest, 0)
        nisa.memset(new((1, 4096), nl.bfloat16, PSUM), 0.0)
        nisa.memset(new((1, 1), nl.int8), -128)
        nisa.memset(new((1, 1), nl.int8), 127)
    run(body, outs=[(1, 8), (1, 16384), ((1, 65536), nl.uint8), (1, 6)])
    for role, call in (("src", lambda x: nisa.max8(x, new((1, 16385), nl.float32))),
                       ("offset", lambda x: nisa.iota(x, [[0, 8]], -2**31 - 1))):
        with pytest.raises(NkiValidationError, match=role):
            run(call, outs=[(1, 8)])


def test_what_the_documents_leave_open_raises_uncounted():
    with pytest.raises(Uncounted, match=r"nl\.prelu: its slope"):
        run(lambda x, o: nisa.activation(o, nl.prelu, x), draw((2, 2)), outs=[(2, 2)])
    stubs = {"rng": 1, "dropout": 3, "rand2": 3, "set_rng_seed": 1, "topk": 4, "quantize_mx": 3}
    for name, arguments in stubs.items():
        with pytest.raises(Uncounted, match=name):
            getattr(nisa, name)(*[None] * arguments)
