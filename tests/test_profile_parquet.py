"""Parquet tables read, and profiles written in both of the profiler's formats, then read again."""

import csv
import errno
import json
import os
import random
import resource
import shutil
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timelines import profile, timeline

from roofline.profile import Profile, ProfileError, Tensor, columns, parquet, read
from roofline.profile.parquet import from_parquet
from roofline.profile.write import _operands, write
from roofline.timeline import CONTROL, DTYPES, ENGINES

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pc = pytest.importorskip("pyarrow.compute")

SHARED = Path(__file__).parents[2] / "shared/reference"
FORMATS = ("json", "parquet")

# Neuron Explorer's schema 7.4.0 (profile-schema-reference in the Neuron documentation), of the
# tables that are written: i int64, j int32, f float, s text, b boolean; * required.
WRITTEN = {
    "Instruction": "start_ts:i* end_ts:i* duration_ns:i* engine:s* pcore_idx:i opcode:s* "
                   "operands:s* id:i* pc:i* bir_id:s* raw_bir_id:i nki_source_location:s "
                   "hbm_read_bytes:i hbm_write_bytes:i tensor_instruction_type:s "
                   "tensor_elements:i raw_flops:i flops_transpose:i",
    "Flow": "in_id:i* out_id:i* in_table:s* out_table:s*",
    "ActiveTime": "start_ts:i* end_ts:i* engine:s* pcore_idx:i* duration_ns:i*",
    "DmaPacket": "start_ts:i* end_ts:i* duration_ns:i* pcore_idx:i id:i* packet_idx:j* "
                 "packet_aggregation_id:i* engine_idx:i read_bytes:i* write_bytes:i* "
                 "transfer_bytes:i* throughput:f* queue_type:s* crc:i*",
    "Throttle": "timestamp:i* duration:i* k:j* n:j* type:s* pcore_idx:i",
    "ThrottleSummary": "nc_idx:j* throttle_type:s throttle_active_time_ns:i "
                       "throttle_active_time_percent:f "
                       "max_achievable_util_with_throttling_percent:f",
    "Warning": "message:s* category:s*",
    "TensorInfo": "variable_name:s type:s shape:s size:i",
    "Summary": "total_time:f hbm_read_bytes:i hbm_write_bytes:i hardware_flops:i "
               "tensor_engine_active_time:f mfu_estimated_percent:f",
    "Metadata": "profile_schema_version:s* ntff_version:j* num_physical_cores:j* vnc_enabled:b* "
                "first_hw_timestamp:i* last_hw_timestamp:i* first_ts:s* last_ts:s* "
                "dma_ddr_bandwidth:f* num_dma_engines_per_neuroncore:j* hbm_ddr_bandwidth:f* "
                "tensor_engine_num_rows:i* tensor_engine_num_cols:i* tensor_engine_clock_freq:f* "
                "vector_engine_clock_freq:f* vector_engine_num_channels:i* "
                "scalar_engine_clock_freq:f* scalar_engine_num_channels:i* "
                "gpsimd_engine_clock_freq:f* gpsimd_engine_num_channels:i* "
                "neuroncore_clock_freq:f* ticks_per_nanosec:i* instance_type:s "
                "explorer_version:s neuroncore_idx:i is_simulation:b",
}
LETTERS = {"integer (int64)": "i", "integer (int32)": "j", "number (float)": "f", "boolean": "b"}


def small(**more) -> Profile:
    """Two cores, a matmul in two passes, a transpose, a wait, packets, throttling, warnings."""
    rows = timeline(
        cores=2, end=1300,
        weights=[(90, 120)],
        matmuls=[(100, 320, {"name": "a", "dtype": "fp32", "passes": 2, "line": "k.py:7"}),
                 (310, 530, {"dtype": "fp32", "passes": 2, "line": "k.py:7"}),
                 (530, 600, {"transpose": True, "N": 128, "K": 64}),
                 (200, 420, {"core": 1, "M": 100})],
        vector=[(700, 900, {"after": ["a"], "line": "k.py:9"})],
        issues=[(0, 50, {"read": 65536})], control=[(50, 60)],
        packets=[(60, 90, {"engine": 3}), (61, 100, {"engine": -1, "nbytes": 512}),
                 (5, 50, {"traffic": False, "core": 1}), (95, 95, {"nbytes": 4, "traffic": False})],
        throttles=[(90, 600), (600, 1000, {"k": 8}), (100, 300, {"core": 1}),
                   (150, 200, {"k": 3})])
    of = profile(rows, 1300.4, name="small")
    return replace(of, summary=dict(of.summary) | {
        "hbm_read_bytes": 65536, "hbm_write_bytes": 0,
        "hardware_flops": 2 * (2 * 128 * 128 * 512 + 64 * 128 * 128 + 128 * 100 * 512),
        "tensor_engine_active_time": 5.1e-7, "mfu_estimated_percent": 0.25,
        "throttle_active_nc4_time_ns": 964, "throttle_activity_1_active_time_nc4_percent": 0.0265,
        "throttle_avg_util_limit_nc5_percent": 1.0},
        metadata={"instance_type": "trn2.3xlarge", "explorer_version": "2.31.1",
                  "neuroncore_idx": 4, "hbm_ddr_bandwidth": 716e9, "ntff_version": 6},
        tensors=(Tensor("q", "IN", (128, 512), 131072), Tensor("<i>", "WEIGHT", (), 4)),
        warnings=("mind the gap", "<b>bold</b>"), **more)


DOUBTS = {"instructions.passes": "passes of one fp32 matmul is unknown",
          "instructions.transpose": "transposes and no work is unknown",
          "packets.traffic": "fetch instructions and are no traffic is unknown"}


def same(table, other) -> list[str]:
    """Columns in which two tables of a timeline differ; codes by what they stand for."""
    wrong = []
    for column in fields(table):
        one, two = getattr(table, column.name), getattr(other, column.name)
        if column.name in ("opcodes", "lines"):
            continue
        if column.name in ("opcode", "line"):
            one, two = (np.array(getattr(of, column.name + "s"), object)[codes]
                        for of, codes in ((table, one), (other, two)))
        if one.shape != two.shape or not (one == two).all():
            wrong.append(column.name)
    return wrong


def uneven_sums(was: Profile) -> bool:
    """Whether FLOPs or bytes of the rows are others than the summary's."""
    if was.timeline is None or "instructions" in was.timeline.unknown:
        return False
    own = was.timeline.instructions
    sums = {"hardware_flops": ("macs", 2 * own.macs[own.is_opcode("MATMUL")].sum()),
            "hbm_read_bytes": ("read", own.read.sum()),
            "hbm_write_bytes": ("written", own.written.sum())}
    return any(was.summary.get(name, value) != value for name, (column, value) in sums.items()
               if f"instructions.{column}" not in was.timeline.unknown)


def assert_same(was: Profile, now: Profile) -> None:
    """Everything but name, format, version, and what a format says of itself."""
    assert now.summary == was.summary
    own = {"profile_schema_version", "data_version", "num_physical_cores", "is_simulation",
           "vnc_enabled", "first_hw_timestamp", "last_hw_timestamp", "first_ts", "last_ts"}
    if now.format == "parquet":  # schema 7.4 has no columns for them
        own |= {"is_ext", "num_subgraphs", "total_point_count"}
    assert ({key: value for key, value in now.metadata.items() if key not in own}
            == {key: value for key, value in was.metadata.items() if key not in own})
    assert (now.cores, now.kind, now.tensors) == (was.cores, was.kind, was.tensors)
    # the reader says once of each of these that it is unknown
    doubts = () if was.timeline is None else was.timeline.unknown & {
        "instructions.passes", "instructions.transpose", "packets.traffic"}
    said = [text for text in now.warnings if "is unknown" in text and text not in was.warnings]
    assert now.warnings[:len(was.warnings)] == was.warnings
    uneven = [text for text in now.warnings if text.startswith("rows and summary do not agree in")]
    assert bool(uneven) == uneven_sums(was)
    said += [text for text in uneven if text not in was.warnings]
    assert [*now.warnings[len(was.warnings):]] == said and len(said) <= len(doubts) + len(uneven)
    assert set(doubts) == {name for name, text in DOUBTS.items()
                           if any(text in one for one in now.warnings)}
    if was.timeline is None:
        assert now.timeline is None
        return
    a, b = was.timeline, now.timeline
    assert (b.cores, b.end, b.unknown) == (a.cores, a.end, a.unknown)
    assert same(a.instructions, b.instructions) == []
    assert same(a.packets, b.packets) == []
    assert same(a.throttles, b.throttles) == []
    for engine in ENGINES:
        assert [*b.activity(engine)] == [*a.activity(engine)]


def edited(folder: Path, table: str, change, to: str | None = None) -> None:
    """Replace a table by what `change` makes of it; None: take it away."""
    path = folder / f"{table}.parquet"
    made = change(pq.read_table(path)) if change else None
    path.unlink()
    if made is not None:
        pq.write_table(made, folder / f"{to or table}.parquet")


@pytest.fixture
def tables(tmp_path):
    """The directory of small(), not marked as one of ours."""
    return write(small(), tmp_path / "small", "parquet")


# --- what is written ------------------------------------------------------------------------------


def letter(kind) -> str:
    return {pa.int64(): "i", pa.int32(): "j", pa.float64(): "f", pa.string(): "s",
            pa.bool_(): "b"}[kind]


def test_every_table_is_as_the_schema_has_it(tables):
    assert {file.stem for file in tables.iterdir()} == set(WRITTEN)
    for table, columns_ in WRITTEN.items():
        schema = pq.read_schema(tables / f"{table}.parquet")
        got = {field.name: letter(field.type) for field in schema}
        assert got == dict(column.rstrip("*").split(":") for column in columns_.split()), table


def test_the_schema_kept_here_is_the_documented_one():
    path = SHARED / "profile-schema-7.4.0.csv"
    if not path.exists():
        pytest.skip("../shared/reference is not here")
    documented: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(path.open()):
        star = "*" if row["required"] == "Yes" else ""
        documented.setdefault(row["table"], {})[row["field"]] = (
            LETTERS.get(row["type"], "s") + star)
    for table, columns_ in WRITTEN.items():
        kept = dict(column.split(":") for column in columns_.split())
        assert kept.items() <= documented[table].items(), table
        required = {name for name, kind in documented[table].items() if kind.endswith("*")}
        assert required <= set(kept), table


def test_every_column_of_summary_and_metadata_gets_its_documented_type(tmp_path):
    path = SHARED / "profile-schema-7.4.0.csv"
    if not path.exists():
        pytest.skip("../shared/reference is not here")
    some = {"f": 2, "i": 3.0, "j": 3, "s": "text", "b": True}
    rows = [row for row in csv.DictReader(path.open()) if row["table"] in ("Summary", "Metadata")]
    for table in ("Summary", "Metadata"):
        values = {row["field"]: some[LETTERS.get(row["type"], "s")] for row in rows
                  if row["table"] == table}
        of = Profile("x", "json", "", values if table == "Summary" else {},
                     values if table == "Metadata" else {})
        folder = write(of, tmp_path / table, "parquet")
        schema = pq.read_schema(folder / f"{table}.parquet")
        for row in rows:
            if row["table"] == table:
                assert letter(schema.field(row["field"]).type) == LETTERS.get(row["type"], "s"), row


def test_metadata_tells_the_span_of_the_timeline(tables):
    got = pq.read_table(tables / "Metadata.parquet").to_pylist()[0]
    assert got["first_hw_timestamp"] == 0 and got["last_hw_timestamp"] == 1300
    assert (got["first_ts"], got["last_ts"]) == (
        "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001300Z")
    assert (got["num_physical_cores"], got["vnc_enabled"]) == (2, True)


def test_instruction_fetch_is_told_from_semaphores(tables):
    # in order of start: 4096 B that are no traffic, two of traffic, 4 B
    assert pq.read_table(tables / "DmaPacket.parquet")["queue_type"].to_pylist() == [
        "instruction", "unknown", "unknown", "unknown"]
    assert pq.read_table(tables / "DmaPacket.parquet")["engine_idx"].to_pylist() == [0, 3, None, 0]


def test_flops_are_two_a_multiply_add_and_those_of_transposes_apart(tables):
    own = pq.read_table(tables / "Instruction.parquet").to_pylist()
    moves = [row for row in own if row["tensor_instruction_type"] == "TRANSPOSE"]
    assert [row["flops_transpose"] for row in moves] == [2 * 64 * 128 * 128]
    assert sum(row["flops_transpose"] for row in own) == 2 * 64 * 128 * 128


def test_the_version_is_that_of_the_format(tmp_path):
    was = replace(small(), metadata={"data_version": 7, "profile_schema_version": "7.1.0"})
    assert read(write(was, tmp_path / "p", "parquet")).version == "schema 7.4.0"
    assert read(write(was, tmp_path / "j", "json")).version == "data version 8"


def test_operands_are_what_the_parser_understands():
    # K 64, M 100, N 512 of bf16; the same as `(stationary [K, M]).T @ (moving [K, N])` is printed
    own = small().timeline.instructions
    told = columns.shapes(_operands(own).tolist())
    held = own.is_opcode("MATMUL")
    assert (told.rows == own.rows).all() and (told.columns == own.columns).all()
    assert (told.moving == own.moving).all() and (told.dtype == own.dtype).all()
    assert held.sum() == 4 and not told.rows[~held].any()


def test_what_is_unknown_is_null_or_left_out_and_not_0(tmp_path):
    rows = small().timeline
    rows = replace(rows, unknown=frozenset(("instructions.line", "packets.engine",
                                            "instructions.macs", "instructions.after")))
    folder = write(replace(small(), timeline=rows), tmp_path / "p", "parquet")
    assert not (folder / "Flow.parquet").exists()
    own = pq.read_schema(folder / "Instruction.parquet").names
    assert not {"nki_source_location", "raw_flops", "tensor_elements"} & set(own)
    assert "engine_idx" not in pq.read_schema(folder / "DmaPacket.parquet").names
    assert from_parquet(folder).timeline.unknown == rows.unknown
    more = pq.read_table(folder / "Metadata.parquet").to_pylist()[0]
    assert more["dma_ddr_bandwidth"] is None  # required, and not in small()
    assert "dma_ddr_bandwidth" not in from_parquet(folder).metadata


@pytest.mark.parametrize("format", FORMATS)
def test_small_comes_back(tmp_path, format):
    was = small(kind="modelled")
    now = read(write(was, tmp_path / "kept", format))
    assert_same(was, now)
    assert now.kind == "modelled" and now.metadata["is_simulation"] is True
    assert now.format == format
    again = read(write(now, tmp_path / "again", format))
    assert (again.metadata, again.summary, again.version) == (
        now.metadata, now.summary, now.version)
    assert again.timeline.active.keys() == now.timeline.active.keys()


@pytest.mark.parametrize("format", FORMATS)
def test_a_profile_without_a_timeline_stays_one(tmp_path, format):
    was = Profile("s", "summary-json", "", {"total_time": 1e-5, "hardware_flops": 7}, cores=2)
    assert_same(was, read(write(was, tmp_path / "kept", format)))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["fused-fp32-s512", "fused-bf16-s512"])
def test_a_real_profile_comes_back(tmp_path, name, format):
    path = SHARED / f"real-profiles/trn2-lnc2-attn-{name}.full.json"
    if not path.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    was = read(path)
    assert_same(was, read(write(was, tmp_path / "kept", format)))


@pytest.mark.parametrize("name", ["fused-fp32-s512", "fused-bf16-s512"])
def test_json_has_the_profilers_own_words(tmp_path, name):
    path = SHARED / f"real-profiles/trn2-lnc2-attn-{name}.full.json"
    if not path.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    real = json.loads(path.read_text())
    made = json.loads(write(read(path), tmp_path / "kept").read_text())
    assert made["summary"] == real["summary"]
    assert made["metadata"][0].items() >= real["metadata"][0].items()
    for table in ("instruction", "dma", "ham", "active_time", "neff_node", "warnings"):
        known = set().union(*real[table])
        assert known >= set().union(*made[table]) - {"id"}, table
    by_id = {row["id"]: row for row in real["instruction"]}
    for row in made["instruction"]:
        true = by_id[row["id"]]
        for key in ("timestamp", "duration", "label", "opcode", "subgraph", "elements"):
            assert row.get(key, 0) == true.get(key, 0), key
        assert [one["id"] for one in row.get("predecessors", ())] == [
            one["id"] for one in true.get("predecessors", ()) if one["id"] in by_id]
    key = ("start_ts", "end_ts", "engine", "pcore_idx")  # duration_ns is rounded by itself there
    assert sorted(tuple(row[name] for name in key) for row in made["active_time"]) == sorted(
        tuple(row[name] for name in key) for row in real["active_time"])


# --- round trips of random profiles ---------------------------------------------------------------

# A column that a file may lack -> columns of the table that have this value then.
LACKING = {
    "instructions.line": {"line": 0}, "instructions.read": {"read": 0},
    "instructions.written": {"written": 0}, "instructions.macs": {"macs": 0},
    "instructions.transpose": {"transpose": False}, "instructions.after": {},
    "instructions.operands": {"dtype": 0, "rows": 0, "columns": 0, "moving": 0, "passes": 1},
    "instructions.passes": {"passes": 1},
    "packets.engine": {"engine": -1}, "packets.id": {"id": 0}, "packets.traffic": {}}
words = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=12)


@st.composite
def profiles(draw) -> Profile:
    """Any small profile that a file can hold."""
    cores = draw(st.integers(1, 2))
    matmuls = []
    for core in range(cores):
        start = 0
        for dtype in draw(st.lists(st.sampled_from(DTYPES), max_size=5)):
            size = st.integers(1, 512)
            one = {"core": core, "dtype": dtype, "K": draw(size), "M": draw(size), "N": draw(size),
                   "transpose": draw(st.booleans()), "line": draw(st.sampled_from(["", "a.py:1"])),
                   "passes": draw(st.sampled_from([1, 2, 4])) if dtype == "fp32" else 1}
            if dtype == "":
                one |= draw(st.sampled_from([{"K": 0, "M": 0, "N": 0, "macs": 0}, {}]))
            for _ in range(one["passes"]):
                start += draw(st.integers(1, 300))
                matmuls.append((start, start + draw(st.integers(0, 400)), one))

    def rows(cells, most=6):
        start = draw(st.lists(st.integers(0, 2000), max_size=most))
        return [(at, at + draw(st.integers(0, 500)),
                 {"core": draw(st.integers(0, cores - 1)), **draw(st.fixed_dictionaries(cells))})
                for at in start]

    bytes_ = st.integers(0, 2**30)
    names = draw(st.lists(words.filter(bool), min_size=1, max_size=3))
    opcodes = st.sampled_from([*sorted(CONTROL), "TENSOR_TENSOR", "DMA_DIRECT2D", *names])
    other = {"opcode": opcodes, "read": bytes_, "written": bytes_,
             "line": st.sampled_from(["", *names]), "name": st.uuids()}
    before = rows(other)
    after = rows(other | {"after": st.lists(
        st.sampled_from([row[2]["name"] for row in before]), unique=True)} if before else other)
    packets = [(a, b, more | {"traffic": more["traffic"] and more["nbytes"] > 4})
               for a, b, more in rows({"engine": st.integers(-1, 99), "nbytes": bytes_,
                                       "traffic": st.booleans()})]
    throttles = [(a, b, more | {"k": min(more["k"], more["n"])}) for a, b, more in
                 rows({"k": st.integers(0, 9), "n": st.integers(1, 9)})]
    of = timeline(matmuls=matmuls, vector=[(0, 1), *before], gpsimd=after, packets=packets,
                  throttles=throttles, cores=cores)
    of = replace(of, end=of.end + draw(st.integers(0, 20)))
    lacking = draw(st.frozensets(st.sampled_from(sorted(LACKING))))
    own, moved = of.instructions, of.packets
    if not len(moved):  # a table without rows lacks no column
        lacking = frozenset(name for name in lacking if not name.startswith("packets"))
    for name in sorted(lacking):
        table, also = (moved if name.startswith("packets") else own), LACKING[name]
        blank = {column: np.full_like(getattr(table, column), value)
                 for column, value in also.items()}
        if name.startswith("packets"):
            moved = replace(moved, **blank)
        else:
            own = replace(own, **blank)
    if "packets.traffic" in lacking:
        moved = replace(moved, traffic=moved.nbytes > 4)
    if "instructions.after" in lacking:
        own = replace(own, first=np.zeros_like(own.first), after=own.after[:0])
    unknown = {name for name in lacking if name != "instructions.operands"}
    matmuls = own.is_opcode("MATMUL")
    if not matmuls.any():  # nothing that could be a transpose
        unknown.discard("instructions.transpose")
    if not (matmuls & (own.dtype == DTYPES.index("fp32")) & ~own.transpose).any():
        unknown.discard("instructions.passes")  # nothing that takes several
    if "instructions.operands" in lacking:
        if matmuls.any():
            unknown.add("instructions.passes")
        unknown |= {f"instructions.{name}" for name in ("dtype", "rows", "columns", "moving")}
    if len(moved) and (moved.engine < 0).all():
        unknown.add("packets.engine")  # of no row is it known
    unknown = frozenset(unknown)
    total = of.end / 1e9 + draw(st.floats(0, 1e-9))
    share = st.floats(0, 1)
    summary = draw(st.fixed_dictionaries({}, optional={
        "hbm_read_bytes": bytes_, "hardware_flops": st.integers(0, 2**62),
        "mfu_estimated_percent": share, "hbm_write_bytes": bytes_, "mm_arithmetic_intensity": share,
        "throttle_active_nc0_time_ns": bytes_, "throttle_avg_util_limit_nc4_percent": share,
        "throttle_activity_0_active_time_nc4_percent": share, "of_another_version": share}))
    metadata = draw(st.fixed_dictionaries({}, optional={
        "instance_type": words.filter(bool), "tensor_engine_clock_freq": st.floats(1, 3),
        "hbm_ddr_bandwidth": st.floats(1e9, 1e12), "neuroncore_idx": st.integers(0, 7),
        "ticks_per_nanosec": st.integers(1, 9), "explorer_version": st.just("2.31.1%x")}))
    tensors = tuple(draw(st.lists(st.builds(
        Tensor, words.filter(bool), st.sampled_from(["IN", "OUT", "WEIGHT"]),
        st.lists(st.integers(0, 9999), max_size=4).map(tuple), st.integers(0, 2**40)),
        max_size=3)))
    warnings = tuple(draw(st.lists(words.filter(bool), unique=True, max_size=2)))
    return Profile("made", "json", "", {"total_time": total} | summary, metadata, cores=cores,
                   timeline=replace(of, instructions=own, packets=moved, unknown=unknown),
                   tensors=tensors, warnings=warnings,
                   kind=draw(st.sampled_from(["measured", "modelled"])))


@settings(deadline=None)
@given(profiles(), st.sampled_from(FORMATS))
def test_any_profile_comes_back(tmp_path_factory, was, format):
    folder = tmp_path_factory.mktemp("any")
    now = read(write(was, folder / "kept", format))
    assert_same(was, now)
    again = read(write(now, folder / "kept", format))
    assert_same(now, again)
    assert again.metadata == now.metadata


operand = st.from_regex(columns.OPERANDS, fullmatch=True) | st.text(max_size=40) | st.just(
    "S[5] (Tensor)>=4 src=bfloat16@0x36500[1,0,0][128,4,1] dst=0x2[1,0,0][512,1,1] 8*9 ")


@given(st.lists(st.tuples(operand, st.sampled_from(["MATMUL", "COPY", "LDWEIGHTS"])), min_size=1,
                max_size=6), st.booleans(), st.integers(1, 3))
def test_operands_are_parsed_by_distinct_text_as_row_by_row(rows, encoded, piece):
    def table(some):
        texts = pa.array([text for text, _ in some], pa.string())
        return texts.dictionary_encode() if encoded else texts

    rows = [(text, opcode) for text, opcode in rows if text.isascii()]  # the profiler's are
    opcode, got = parquet._Column(), []
    for first in range(0, len(rows), piece):
        some = rows[first:first + piece]
        opcode.add("", "opcode", "opcode", pa.array([name for _, name in some]), first)
        got.append(parquet._shapes(table(some), opcode, {"kind": "", "group": ""}))
    for i, column in enumerate(zip(*got, strict=True)):
        want = [columns.shapes([text if name == "MATMUL" else ""])[i].item() for text, name in rows]
        assert np.concatenate(column).tolist() == want


# --- where it is written --------------------------------------------------------------------------


def test_it_replaces_its_own_and_nothing_else(tmp_path):
    for format in FORMATS:
        path = write(small(kind="modelled"), tmp_path / format, format)
        write(small(), path, format)
        assert read(path).kind == "measured"
        with pytest.raises(ProfileError, match="a model takes the place of no measurement"):
            write(small(kind="modelled"), path, format)
        assert read(path).kind == "measured"
    assert sorted(os.listdir(tmp_path)) == ["json", "parquet"]
    report = tmp_path / "ntff.json"
    report.write_text('{"summary": [{"total_time": 1e-5}]}')
    with pytest.raises(ProfileError, match="no profile written by roofline"):
        write(small(), report)
    assert report.read_text() == '{"summary": [{"total_time": 1e-5}]}'
    (tmp_path / "parquet" / "notes.txt").write_text("mine")
    with pytest.raises(ProfileError, match=r"notes\.txt"):
        write(small(), tmp_path / "parquet", "parquet")
    with pytest.raises(ProfileError, match="a directory"):
        write(small(), tmp_path / "parquet", "json")
    with pytest.raises(ProfileError, match="a file"):
        write(small(), tmp_path / "json", "parquet")
    assert (tmp_path / "parquet" / "notes.txt").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert read(write(small(), tmp_path / "empty", "parquet")).timeline is not None


def test_a_real_directory_of_tables_is_left_as_it_is(tables):
    edited(tables, "Summary", lambda table: table.replace_schema_metadata({}))
    with pytest.raises(ProfileError, match=r"Summary\.parquet"):
        write(small(), tables, "parquet")


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_leaves_the_old_one(tmp_path, format):
    path = write(small(kind="modelled"), tmp_path / "kept", format)
    files = {file: file.read_bytes() for file in ([path] if path.is_file() else path.iterdir())}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))  # no file may grow beyond 700 bytes
    try:
        with pytest.raises(ProfileError, match=r"kept: not saved .* as it was"):
            write(small(), path, format)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file: file.read_bytes() for file in files} == files
    assert os.listdir(tmp_path) == ["kept"]


def test_an_old_directory_returns_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    path = write(small(kind="modelled"), tmp_path / "kept", "parquet")
    rename, calls = os.rename, []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(ProfileError, match="No space left"):
        write(small(), path, "parquet")
    assert read(path).kind == "modelled" and os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("format", FORMATS)
def test_numbers_may_be_numpys_and_nan_is_unknown(tmp_path, format):
    was = small()
    odd = {"hbm_read_bytes": np.int64(65536), "mfu_estimated_percent": np.float64(0.25),
           "mbu_estimated_percent": float("nan")}
    assert_same(was, read(write(replace(was, summary=dict(was.summary) | odd),
                                tmp_path / "kept", format)))


def test_a_value_that_its_column_cannot_hold_is_named(tmp_path):
    with pytest.raises(ProfileError, match=r"hbm_read_bytes: expected values of int64"):
        write(replace(small(), summary={"hbm_read_bytes": 2**64}), tmp_path / "p", "parquet")
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("mine")
    for format in FORMATS:
        with pytest.raises(ProfileError, match="kept: not saved"):
            write(small(), tmp_path / "file" / "kept", format)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_window_and_an_unknown_format_are_refused(tmp_path):
    with pytest.raises(ProfileError, match=r"window of a profile, 5 to 9 ns"):
        write(small(span=(5, 9)), tmp_path / "x")
    with pytest.raises(ProfileError, match="'json' or 'parquet', got 'csv'"):
        write(small(), tmp_path / "x", "csv")
    assert os.listdir(tmp_path) == []


# --- what else a directory may be -----------------------------------------------------------------


def test_numbered_parts_are_read_in_the_order_of_their_numbers(tmp_path, monkeypatch):
    # 12 instructions that start together: only the order of the parts tells them apart
    opcodes = [f"OP_{i}" for i in range(12)]
    rows = timeline(vector=[(0, 10, {"opcode": opcode}) for opcode in opcodes])
    folder = write(profile(rows), tmp_path / "p", "parquet")
    whole = pq.read_table(folder / "Instruction.parquet")
    (folder / "Instruction.parquet").unlink()
    for i in range(12):
        pq.write_table(whole.slice(i, 1), folder / f"Instruction_{i}.parquet")
    own = from_parquet(folder).timeline.instructions
    assert [own.opcodes[code] for code in own.opcode] == opcodes
    (folder / "Instruction_7.parquet").unlink()
    with pytest.raises(ProfileError, match=r"p: Instruction_7\.parquet is missing"):
        from_parquet(folder)


def test_parts_may_name_cores_and_groups_in_different_ways(tables):
    whole = pq.read_table(tables / "Instruction.parquet")
    (tables / "Instruction.parquet").unlink()
    cores = [f"sg{core:02d}" for core in whole["pcore_idx"].to_pylist()]
    old = whole.drop_columns(["pcore_idx", "raw_bir_id"]).append_column("subgraph", pa.array(cores))
    half = len(whole) // 2
    pq.write_table(old.slice(0, half), tables / "Instruction_0.parquet")
    pq.write_table(whole.slice(half), tables / "Instruction_1.parquet")
    own = from_parquet(tables).timeline.instructions
    assert own.core.tolist() == small().timeline.instructions.core.tolist()
    cores[half - 1] = "core"
    odd = old.set_column(old.column_names.index("subgraph"), "subgraph", pa.array(cores))
    pq.write_table(odd.slice(0, half), tables / "Instruction_0.parquet")
    with pytest.raises(ProfileError, match=rf"Instruction\[{half - 1}\]\.subgraph: expected"):
        from_parquet(tables)


def test_a_table_and_its_parts_together_are_an_error(tables):
    (tables / "DmaPacket_0.parquet").write_bytes((tables / "DmaPacket.parquet").read_bytes())
    with pytest.raises(ProfileError, match=r"DmaPacket\.parquet and DmaPacket_0\.parquet are both"):
        from_parquet(tables)


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
def test_pieces_change_nothing(tables, monkeypatch, piece):
    monkeypatch.setattr(parquet, "PIECE", piece)
    assert_same(small(), from_parquet(tables))


@pytest.mark.parametrize("table", sorted(WRITTEN))
def test_a_missing_table_leaves_the_rest(tables, table):
    edited(tables, table, None)
    was, now = small(), from_parquet(tables)
    lost = {"Summary": {key for key in was.summary if not key.startswith("throttle")},
            "ThrottleSummary": {key for key in was.summary if key.startswith("throttle")}}
    assert set(now.summary) == set(was.summary) - lost.get(table, set())
    unknown = {"Instruction": {"instructions"}, "DmaPacket": {"packets"},
               "Flow": {"instructions.after"}}.get(table, set())
    assert now.timeline.unknown == unknown
    assert len(now.timeline.packets) == (0 if table == "DmaPacket" else 4)
    assert len(now.timeline.throttles) == (0 if table == "Throttle" else 4)
    assert now.tensors == (() if table == "TensorInfo" else was.tensors)
    if table == "Summary":
        assert now.get("total_time") is None and "no Summary" in now.warnings[-1]
    if table == "Metadata":
        assert now.cores == 2  # from the rows
    if table == "Warning":
        assert now.warnings == ()


@pytest.mark.parametrize(("table", "names"), [
    ("Instruction", {"start_ts": "timestamp", "duration_ns": "duration", "engine": "label",
                     "tensor_instruction_type": "instruction_type",
                     "tensor_elements": "elements", "end_ts": None, "raw_flops": None}),
    ("DmaPacket", {"start_ts": "timestamp", "duration_ns": "duration", "end_ts": None,
                   "transfer_bytes": "transfer_size", "engine_idx": "dma_engine"})])
def test_the_names_of_2_28_do_as_well(tables, table, names):
    def renamed(old):
        old = old.drop_columns([name for name, new in names.items() if new is None])
        core = [f"sg{core:02d}" for core in old["pcore_idx"].to_pylist()]
        old = old.drop_columns(["pcore_idx"]).append_column("subgraph", pa.array(core))
        return old.rename_columns([names.get(name) or name for name in old.column_names])

    edited(tables, table, renamed)
    assert_same(small(), from_parquet(tables))


def test_bir_id_alone_tells_passes_too(tables):
    edited(tables, "Instruction", lambda table: table.drop_columns(["raw_bir_id"]))
    assert_same(small(), from_parquet(tables))


def of_version(folder: Path, version: str) -> None:
    def change(table):
        at = table.column_names.index("profile_schema_version")
        return table.set_column(at, "profile_schema_version", pa.array([version]))

    edited(folder, "Metadata", change)


def test_a_later_schema_is_read_with_a_warning(tables):
    of_version(tables, "9.1.0")
    edited(tables, "Instruction", lambda table: table.append_column(
        "new_in_9", pa.array([{"a": 1}] * len(table))))
    now = from_parquet(tables)
    assert_same(small(), replace(now, warnings=now.warnings[:2]))
    assert now.warnings[2].startswith("schema 9.1.0 is unknown to this reader")
    assert "9.1.0" in now.version


@pytest.mark.parametrize(("table", "column", "said"), [
    ("Instruction", "start_ts", "start_ts or timestamp"), ("Instruction", "opcode", "opcode"),
    ("Instruction", "engine", "engine or label"),
    ("DmaPacket", "transfer_bytes", "transfer_bytes or transfer_size"), ("Throttle", "k", "k"),
    ("Flow", "in_id", "in_id"), ("ActiveTime", "engine", "engine")])
def test_a_required_column_that_is_missing_is_one_clear_error(tables, table, column, said):
    of_version(tables, "9.1.0")
    edited(tables, table, lambda old: old.rename_columns(
        ["when" if name == column else name for name in old.column_names]))
    with pytest.raises(ProfileError) as error:
        from_parquet(tables)
    text = str(error.value)
    assert text.startswith(f"small: {table}: expected a column {said}, got ")
    assert "schema 9.1.0" in text and "view --output-format parquet" in text


def test_an_end_or_a_duration_is_needed(tables):
    edited(tables, "DmaPacket", lambda table: table.drop_columns(["end_ts", "duration_ns"]))
    with pytest.raises(ProfileError, match=r"DmaPacket: expected a column end_ts"):
        from_parquet(tables)


@pytest.mark.parametrize("text", ["dictionary", "large"])
def test_dictionaries_and_other_widths_are_read_alike(tables, text):
    def encoded(table):
        for i, field in enumerate(table.schema):
            column = table.column(i)
            if field.type == pa.string():
                column = (column.combine_chunks().dictionary_encode() if text == "dictionary"
                          else column.cast(pa.large_string()))
            elif field.name in ("pcore_idx", "engine_idx"):
                column = column.cast(pa.int8())
            elif field.name in ("hbm_read_bytes", "id", "in_id", "out_id"):
                column = column.cast(pa.uint64())
            elif field.name in ("start_ts", "end_ts"):
                column = column.cast(pa.timestamp("ns"))
            elif field.name == "transfer_bytes":
                column = column.cast(pa.float64())
            table = table.set_column(i, field.name, column)
        return table

    for table in ("Instruction", "Flow", "DmaPacket", "Throttle", "ActiveTime"):
        edited(tables, table, encoded)
    assert_same(small(), from_parquet(tables))


def test_ids_of_64_bits_stay_apart(tables):
    big = 2**64 - 2000  # 1000 + i are the ids of small()

    def moved(table):
        for i, field in enumerate(table.schema):
            if field.name in ("id", "in_id", "out_id"):
                ids = [big + value for value in table.column(i).to_pylist()]
                table = table.set_column(i, field.name, pa.array(ids, pa.uint64()))
        return table

    for table in ("Instruction", "Flow"):
        edited(tables, table, moved)
    own = from_parquet(tables).timeline.instructions
    assert own.after.tolist() == small().timeline.instructions.after.tolist()


def with_null(column: str, row: int):
    def change(table):
        at = table.column_names.index(column)
        values = table.column(at).to_pylist()
        values[row] = None
        return table.set_column(at, column, pa.array(values, table.schema.field(at).type))
    return change


def test_nulls_are_unknown_and_where_that_cannot_be_an_error(tables):
    edited(tables, "DmaPacket", with_null("engine_idx", 2))
    edited(tables, "Instruction", with_null("nki_source_location", 3))
    now = from_parquet(tables).timeline
    assert now.packets.engine[2] == -1
    assert now.instructions.lines[now.instructions.line[3]] == ""
    edited(tables, "DmaPacket", with_null("transfer_bytes", 1))
    with pytest.raises(ProfileError, match=r"DmaPacket\[1\]\.transfer_bytes: .*got null"):
        from_parquet(tables)


@pytest.mark.parametrize("column", ["end_ts", "duration_ns"])
def test_times_that_are_all_null_are_an_error(tables, column):
    def change(table):
        other = ({"end_ts", "duration_ns"} - {column}).pop()
        at = table.drop_columns([other]).column_names.index(column)
        return table.drop_columns([other]).set_column(at, column, pa.nulls(len(table), pa.int64()))

    edited(tables, "DmaPacket", change)
    with pytest.raises(ProfileError, match=rf"DmaPacket\[0\]\.{column}: expected a value"):
        from_parquet(tables)


def test_a_column_that_is_there_twice_is_an_error(tables):
    edited(tables, "DmaPacket", lambda table: table.append_column("start_ts", table["end_ts"]))
    with pytest.raises(ProfileError, match=r"DmaPacket: expected each column once, got start_ts 2"):
        from_parquet(tables)


def test_of_two_cores_no_core_is_not_core_0(tables):
    edited(tables, "Instruction", with_null("pcore_idx", 1))
    with pytest.raises(ProfileError, match=r"Instruction\[1\]\.pcore_idx: .*two"):
        from_parquet(tables)


def test_of_one_core_no_core_is_needed(tmp_path):
    was = profile(timeline(matmuls=[(0, 213)], packets=[(0, 9)], throttles=[(0, 9)]))
    folder = write(was, tmp_path / "p", "parquet")
    assert pq.read_table(folder / "Metadata.parquet")["vnc_enabled"].to_pylist() == [False]
    for table in ("Instruction", "DmaPacket", "Throttle", "ActiveTime"):
        edited(folder, table, lambda old: old.drop_columns(["pcore_idx"]))
    assert_same(was, from_parquet(folder))


def test_the_compilers_source_line_stands_in_where_the_kernels_is_null(tables):
    def both(table):
        return with_null("nki_source_location", 3)(table).append_column(
            "bir_debug_info_source_location", pa.array(["k.py:7"] * len(table)))

    edited(tables, "Instruction", both)
    own = from_parquet(tables).timeline.instructions
    assert own.lines[own.line[3]] == "k.py:7"
    assert len(set(own.lines)) == len(own.lines)


def test_fp32_passes_record_half_the_flops_each(tables):
    # schema 7.4, raw_flops: "each FP32_LO_HI matmul records half the logical FLOPs"
    def halved(table):
        at = table.column_names.index("raw_flops")
        text = table["operands"].to_pylist()
        flops = [value // 2 if "fp32" in operands else value
                 for value, operands in zip(table.column(at).to_pylist(), text, strict=True)]
        return table.set_column(at, "raw_flops", pa.array(flops))

    edited(tables, "Instruction", halved)
    total = small().summary["hardware_flops"] - 2 * 128 * 128 * 512  # as the rows' own sum
    edited(tables, "Summary", lambda table: table.set_column(
        table.column_names.index("hardware_flops"), "hardware_flops", pa.array([total])))
    now = from_parquet(tables)
    own = now.timeline.instructions
    assert own.macs[own.passes == 2].tolist() == [128 * 128 * 512 // 2] * 2
    assert own.moving[own.passes == 2].tolist() == [512] * 2
    assert now.warnings == small().warnings


def test_edges_to_other_tables_are_no_predecessors(tables):
    edited(tables, "Flow", lambda table: pa.concat_tables([table, pa.table({
        "in_id": [1000, 77], "out_id": [1001, 1002], "in_table": ["instruction", "instruction"],
        "out_table": ["dma_block", "instruction"]})]))
    own = from_parquet(tables).timeline.instructions
    assert own.after.tolist() == small().timeline.instructions.after.tolist()


def test_duplicate_packets_are_dropped_and_counted(tables):
    edited(tables, "DmaPacket", lambda table: table.append_column(
        "duplicate", pa.array(["no", "yes", "no", "no"])))
    now = from_parquet(tables)
    assert len(now.timeline.packets) == 3
    assert any("duplicate DMA packets are left out: 1 of 4" in text for text in now.warnings)


def test_a_packet_that_is_listed_twice_counts_once(tables):
    # rows 1 and 3 again; row 3 at another time is another packet, whatever its id
    def doubled(table):
        other = table.slice(3, 1)
        for name in ("start_ts", "end_ts"):
            other = other.set_column(other.column_names.index(name), name, pa.array([200]))
        longer = table.slice(1, 1)
        longer = longer.set_column(longer.column_names.index("end_ts"), "end_ts", pa.array([99]))
        nameless = with_null("id", 0)(table.slice(2, 1))
        return pa.concat_tables([table, table.slice(1, 1), other, table.slice(3, 1), longer,
                                 nameless, nameless])

    edited(tables, "DmaPacket", doubled)
    now = from_parquet(tables)
    assert now.timeline.packets.start.tolist() == [5, 60, 60, 61, 61, 61, 95, 200]
    assert any("duplicate DMA packets are left out: 2 of 10" in text for text in now.warnings)


def test_an_instruction_that_is_listed_twice_counts_once(tables):
    edited(tables, "Instruction", lambda table: pa.concat_tables([table, table.slice(1, 3)]))
    now = from_parquet(tables)
    size = len(small().timeline.instructions)
    assert not same(now.timeline.instructions, small().timeline.instructions)
    assert now.warnings[2:] == (f"duplicate instructions are left out: 3 of {size + 3}",)


def test_a_last_part_that_is_missing_shows(tables):
    whole = pq.read_table(tables / "Instruction.parquet")
    (tables / "Instruction.parquet").unlink()
    for part, (first, rows) in enumerate([(0, 2), (2, 3)]):  # of the part behind them no trace
        pq.write_table(whole.slice(first, rows), tables / f"Instruction_{part}.parquet")
    warnings = from_parquet(tables).warnings
    assert sum("rows and summary do not agree in hardware_flops" in one for one in warnings) == 1


def test_raw_bir_id_of_0_in_all_rows_leaves_the_passes_to_bir_id(tables):
    def blank(table):
        at = table.column_names.index("raw_bir_id")
        return table.set_column(at, "raw_bir_id", pa.array([0] * len(table)))

    edited(tables, "Instruction", blank)
    now = from_parquet(tables)
    assert not same(now.timeline.instructions, small().timeline.instructions)
    assert now.timeline.instructions.passes.max() == 2 and now.warnings == small().warnings


def test_metadata_has_the_columns_of_the_schema_and_no_others(tmp_path):
    odd = {"is_ext": False, "num_subgraphs": 2, "total_point_count": 2170, "profile_name": "p"}
    was = small()
    was = replace(was, metadata=was.metadata | odd)
    path = write(was, tmp_path / "kept", "parquet")
    names = pq.read_schema(path / "Metadata.parquet").names
    assert not set(names) & {"is_ext", "num_subgraphs", "total_point_count"}
    assert {"profile_name", "instance_type", "is_simulation"} <= set(names)
    assert read(write(was, tmp_path / "kept.json")).metadata["num_subgraphs"] == 2


def test_packets_without_an_id_are_all_kept(tables):
    def without(table):
        for name in ("id", "packet_aggregation_id"):
            table = table.set_column(table.column_names.index(name), name,
                                     pa.nulls(len(table), pa.int64()))
        return pa.concat_tables([table, table])

    edited(tables, "DmaPacket", without)
    now = from_parquet(tables).timeline
    assert len(now.packets) == 8 and "packets.id" in now.unknown


def test_errors_of_the_profiler_are_warnings(tables):
    pq.write_table(pa.table({"description": ["a notification was lost"], "timestamp": [5]}),
                   tables / "Error.parquet")
    assert "error of the profiler: a notification was lost" in from_parquet(tables).warnings


def test_it_finds_the_tables_below(tmp_path):
    inner = tmp_path / "data/profiles/global/mine@latest"
    write(small(), inner, "parquet")
    now = from_parquet(tmp_path / "data")
    assert_same(small(), now)
    assert now.name == "mine@latest"
    with pytest.raises(ProfileError, match="Pass the directory that holds Summary"):
        read(inner / "Summary.parquet")
    write(small(kind="modelled"), inner / "another", "parquet")
    assert from_parquet(inner).kind == "measured"  # the one asked for, whatever is below
    shutil.rmtree(inner / "another")
    write(small(), tmp_path / "data/profiles/global/other@latest", "parquet")
    with pytest.raises(ProfileError, match="2 profiles in it: read one of profiles/global/mine@l"):
        from_parquet(tmp_path / "data")
    (tmp_path / "none").mkdir()
    with pytest.raises(ProfileError, match="none: no Summary, Instruction or DmaPacket table"):
        from_parquet(tmp_path / "none")
    with pytest.raises(ProfileError, match="there is no such directory"):
        from_parquet(tmp_path / "nowhere")


def test_without_pyarrow_it_says_what_to_install(tables, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProfileError, match="pip install pyarrow"):
        from_parquet(tables)
    with pytest.raises(ProfileError, match="pip install pyarrow"):
        write(small(), tmp_path / "p", "parquet")
    assert_same(small(), read(write(small(), tmp_path / "j", "json")))  # JSON needs none


@pytest.mark.parametrize("table", ["Instruction", "Summary", "Metadata", "Flow", "Warning"])
@pytest.mark.parametrize("cut", [0, 3, 12, 200, -1])
def test_a_cut_file_is_one_clear_error(tables, table, cut):
    path = tables / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ProfileError, match=rf"small: {table}\.parquet: expected a Parquet file"):
        from_parquet(tables)


def test_errors_of_tables_are_said_once_by_read(tables):
    edited(tables, "Instruction", lambda old: old.drop_columns(["opcode"]))
    with pytest.raises(ProfileError) as error:
        read(tables)
    assert str(error.value).startswith("small: Instruction: expected a column "
                                       "opcode, got rows with start_ts, ")
    assert str(error.value).endswith("view --output-format parquet")
    assert str(error.value).count("small") == 1


@pytest.mark.parametrize(("error", "said"), [
    (PermissionError(errno.EACCES, "Permission denied"),
     r"small: .*\.parquet: cannot be read: Permission denied$"),
    (MemoryError(), "small: does not fit into memory"),
    (pa.ArrowMemoryError("malloc of size 7 failed"), "small: does not fit into memory")])
def test_a_file_that_may_not_be_read_or_is_too_large_is_not_called_damaged(
        tables, monkeypatch, error, said):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(pq, "ParquetFile", fails)
    with pytest.raises(ProfileError, match=said):
        read(tables)


def test_a_warning_without_text_is_none(tables):
    edited(tables, "Warning", with_null("message", 0))
    assert from_parquet(tables).warnings == ("<b>bold</b>",)


def damage(folder: Path, rng: random.Random, seconds: float, times: int) -> int:
    """Read it with one file cut or changed, again and again: how often, at most `times`."""
    whole = {file: file.read_bytes() for file in sorted(folder.iterdir())}
    end = time.monotonic() + seconds
    for done in range(times):
        if time.monotonic() > end:
            return done
        path = rng.choice(list(whole))
        data = bytearray(whole[path])
        if rng.random() < 0.2:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.choice([1, 1, 2, 5, 30])):
            if data:  # the last bytes are the file's own description of itself
                data[rng.randrange(rng.choice([0, max(0, len(data) - 2500)]), len(data))] = (
                    rng.randrange(256))
        path.write_bytes(data)
        try:
            from_parquet(folder)
        except ProfileError as error:
            assert len(str(error)) < 1000
        path.write_bytes(whole[path])
    return times


def test_damage_is_never_more_than_our_error(tables):
    assert damage(tables, random.Random(6), seconds=60, times=150) > 20


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3))
def test_fuzz_damaged_tables(tables, seed):
    assert damage(tables, random.Random(100 + seed), seconds=40, times=10**6) > 200


def test_columns_that_are_not_needed_are_not_read(tables):
    edited(tables, "Instruction", lambda table: table.append_column(
        "hlo_name", pa.array([f"dot.{i}" * 20 for i in range(len(table))])))
    path = tables / "Instruction.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    chunk = next(group.column(i) for i in range(group.num_columns)
                 if group.column(i).path_in_schema == "hlo_name")
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[begin:begin + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(data)
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
    assert_same(small(), from_parquet(tables))


@pytest.mark.parametrize(("table", "column", "value", "said"), [
    ("Instruction", "start_ts", -4, r"Instruction\[\d\]\.start_ts: expected ns"),
    ("DmaPacket", "transfer_bytes", -1, r"DmaPacket\[0\]\.transfer_bytes: expected bytes"),
    ("Throttle", "n", 0, r"Throttle\[0\]\.n: expected a whole number of cycles"),
    ("Instruction", "end_ts", 10**17, r"Instruction\[0\]\.end_ts: expected ns")])
def test_values_that_cannot_be_are_named(tables, table, column, value, said):
    def change(old):
        at = old.column_names.index(column)
        values = [value, *old.column(at).to_pylist()[1:]]
        return old.set_column(at, column, pa.array(values, old.schema.field(at).type))

    edited(tables, table, change)
    with pytest.raises(ProfileError, match=said):
        from_parquet(tables)


def test_text_where_numbers_are_expected_is_named(tables):
    edited(tables, "DmaPacket", lambda table: table.set_column(
        table.column_names.index("start_ts"), "start_ts", pa.array(["now"] * len(table))))
    with pytest.raises(ProfileError, match=r"DmaPacket\.start_ts: expected whole numbers, got "):
        from_parquet(tables)


def test_two_summaries_are_an_error(tables):
    edited(tables, "Summary", lambda table: pa.concat_tables([table, table]))
    with pytest.raises(ProfileError, match="Summary: expected 1 row, got 2"):
        from_parquet(tables)
