"""Day 7's page with other kernels in its one cell: it runs for any of them, and its laws hold.

The page is written for a kernel that it does not know. So its code cells are executed here with
kernels of other days, of files of their own, with a matmul and without, on one core and on two.
"""

import ast
import contextlib
import dataclasses
import functools
import io
import math
import re
import shutil
from types import SimpleNamespace
from typing import Any

import captures
import nbformat
import pytest
import standin
from pages import ROOT

from roofline import device, gaps, machine, profile
from roofline.check import Report, WrongAnswer
from roofline.count import Count

PAGE = ROOT / "day7" / "capstone.ipynb"
CELLS = [cell for cell in nbformat.read(PAGE, 4).cells if cell.cell_type == "code"]
TWO_DTYPES = '''
"""One product in bf16, one in fp32."""
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def twice(a, b, c, d):
    out = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.shared_hbm, name="out")
    for i, (left, right) in enumerate(((a, b), (c, d))):
        s = nl.ndarray(left.shape, dtype=left.dtype, buffer=nl.sbuf)
        m = nl.ndarray(right.shape, dtype=right.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=s, src=left)
        nisa.dma_copy(dst=m, src=right)
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=s, moving=m, accumulate=False)
        held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=held, src=total)
        nisa.dma_copy(dst=out[:, nl.ds(i * 512, 512)], src=held)
    return out
'''


def bf16(*shape: int) -> str:
    return f'({shape}, "bf16")'


def fp32(*shape: int) -> str:
    return f'({shape}, "fp32")'


def call(file: str, kernel: str, *arrays: str, **others: Any) -> str:
    told = ", ".join([*arrays, *(f"{name}={value!r}" for name, value in others.items())])
    return f'device.launch(nki.load("{file}").{kernel}, {told})'


def cell(mine: str, changed: str = "mine") -> str:
    """What the reader writes into the page's one cell."""
    return f"mine = {mine}\nchanged = {changed}"


MLP = ("../day5/kernels.py", "mlp_fused", bf16(512, 256), bf16(512, 512), bf16(512, 512))
DAY5 = "../day5/kernels.py"
OWN = "../tests/data/own.py"
KERNELS = {
    "fused MLP, larger blocks": cell(call(*MLP), call(*MLP, block=256)),
    "copy, no matmul": cell(call("../day4/kernels.py", "copy", bf16(128, 8192)),
                            call("../day4/kernels.py", "copy", bf16(128, 8192), elements=512)),
    "depthwise, no matmul, two dtypes": cell(call(OWN, "depthwise", bf16(128, 2051), fp32(128, 4))),
    "matmul, bound by memory": cell(
        call(DAY5, "matmul_reload", bf16(256, 256), bf16(256, 1024)),
        call(DAY5, "matmul_b_stays", bf16(256, 256), bf16(256, 1024))),
    "matmul in fp32": cell(call(DAY5, "matmul_b_stays", fp32(256, 256), fp32(256, 512))),
    "two cores": cell(call("../day6/kernels.py", "linear[2]", bf16(256, 1024), bf16(256, 512)),
                      call("../day6/kernels.py", "linear_w_once[2]", bf16(256, 1024),
                           bf16(256, 512))),
    "two cores, no matmul": cell(call(DAY5, "mlp_gelu[2]", bf16(512, 512))),
    "transposes on the Tensor Engine": cell(call(OWN, "rms_linear", bf16(256, 256),
                                                 bf16(256, 512))),
    "nothing but matmuls": cell(call("../day4/kernels.py", "resident_matmul", bf16(256, 256),
                                     bf16(256, 1024), repeat=16)),
    "two dtypes": cell(call("{folder}/twice.py", "twice", bf16(128, 128), bf16(128, 512),
                            fp32(128, 128), fp32(128, 512))),
}


STEPS = next(i for i, one in enumerate(CELLS) if one.id == "read-asked")


def execute(cells: list, names: dict[str, Any], given: dict[str, str]) -> tuple[dict, dict]:
    """The names after these cells, and what each printed and showed, by id."""
    told: dict[str, str] = {}
    for one in cells:
        tree = ast.parse(given.get(one.id, one.source))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(tree, one.id, "exec"), names)
            value = last and eval(compile(ast.Expression(last.value), one.id, "eval"), names)
        told[one.id] = out.getvalue() + ("" if value is None else repr(value))
    return names, told


@functools.cache
def above() -> dict[str, Any]:
    """The names above the steps: nothing there but its own cell knows of the reader's kernel."""
    return execute(CELLS[:STEPS], {}, {})[0]


def run(first: str, **filled: str) -> SimpleNamespace:
    """The page's names, and what its cells told by id, with `first` as the reader's cell.

    filled   id of a cell -> what the reader writes there; - is written _
    """
    given = {"your-kernel": first, **{name.replace("_", "-"): text
                                      for name, text in filled.items()}}
    assert set(given) <= {one.id for one in CELLS}
    own = [one for one in CELLS[:STEPS] if one.id == "your-kernel"]
    names, told = execute([*own, *CELLS[STEPS:]], dict(above()), given)
    return SimpleNamespace(told=told, **names)


@pytest.fixture(autouse=True)
def beside_the_page(monkeypatch):
    monkeypatch.chdir(PAGE.parent)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "twice.py").write_text(TWO_DTYPES)
    return folder


def roofline_rows(page: SimpleNamespace) -> tuple[list, list]:
    """Entitled and reached rows of step 7's picture: (I as text, rate as text)."""
    rows = [(row[0], row[2], row[3]) for row in page.picture.rows
            if row[0].startswith(page.mine.title)]
    entitled = [row[1:] for row in rows if ", entitled" in row[0]]
    return entitled, [row[1:] for row in rows if ", entitled" not in row[0]]


def row_of(told: str, name: str) -> list[str]:
    """The other cells of the last row of that name in a printed table: two spaces part them."""
    *_, line = [line for line in told.splitlines() if line.startswith(f"{name} ")]
    return re.split(r"  +", line)[1:]


def lawful(page: SimpleNamespace) -> None:
    """What has to hold for any kernel."""
    made, before, hand = page.made, page.before, page.hand
    assert made.launch is page.mine
    assert made.machine.scope == page.scope.scope == ("core" if page.mine.lnc == 1 else "lnc2")
    # T_best = max(W / P, Q / BW), once more by hand, for each part of W its own P
    best = max(sum(w / made.machine.peak(d) for d, w in hand.work.items()),
               hand.hbm_bytes / made.machine.bw())
    assert before.t_best == pytest.approx(1e9 * best)
    assert before.t == pytest.approx(1e9 * made.time)
    # the parts are all of it, and each has a place
    assert math.fsum(row.time for row in before.rows) == pytest.approx(
        1e9 * (made.time - best), abs=1e-3)
    assert {row.cause for row in before.rows if not row.stretches} <= {"rounding", "end"}
    lines = page.told["day7-8-where"].splitlines()
    assert len(lines) == len(before.rows) + 1
    for row, line in zip(before.rows, lines, strict=False):
        placed = re.search(r"; core (\d+), ([\d,]+) to ([\d,]+)$", line)
        assert bool(placed) == bool(row.stretches), line
        if placed:
            assert tuple(int(n.replace(",", "")) for n in placed.groups()) in row.stretches
    assert page.told["day7-8-ladder"] and page.told["day7-8-timeline"]
    # step 7: straight below, and hollow if and only if other bytes moved than Q
    seen = page.compared.profiler
    if not hand.flops:
        assert page.picture.rows[-1][2] == page.picture.rows[-2][2]  # the same bytes
        assert "a kernel without matmuls" in " ".join(page.told["day7-4-check"].split())
        assert "ridge" not in page.told["day7-4-limit"]
    else:
        entitled, reached = roofline_rows(page)
        assert [at for at, _ in entitled] == [at for at, _ in reached]
        other = hand.hbm_bytes != seen.read + seen.written
        assert len(entitled) == (2 if other else 1)
        assert ("at the bytes moved" in str(page.picture)) == other
    page.picture._repr_html_()
    assert {row[0] for row in page.moved_to.rows} >= {"before", "after"}
    # step 9: the difference of the two ledgers, by their own sums
    change = page.after - before
    assert math.fsum(change[cause] for cause in change.causes) == pytest.approx(
        page.after.gap - before.gap, abs=1e-3)


@pytest.mark.parametrize("name", KERNELS)
def test_any_kernel_goes_through(name, twice):
    page = run(KERNELS[name].format(folder=twice) if "{folder}" in KERNELS[name]
               else KERNELS[name])
    lawful(page)
    assert ("not filled in" in page.told["day7-2-check"]) and page.hand == page.run.count


# ...: FLOPs of the profile that are more than those of the hand count, and why
def test_passes_of_fp32_move_no_mark():
    """The model counts both passes of an fp32 matmul: a printed I of 2 I over the same bytes."""
    page = run(KERNELS["matmul in fp32"])
    entitled, _ = roofline_rows(page)
    assert len(entitled) == 1
    assert page.compared["fp32 passes"].flops == page.hand.flops == 2 * 256 * 256 * 512
    assert page.compared.intensity == 2 * page.hand.intensity


def test_the_hollow_mark_stands_at_W_over_the_bytes_that_moved(tmp_path):
    """A capture with a constant more, and with each FLOP counted twice: not at its printed I."""
    page, more = above() | {}, 4 * 128 * 128  # an identity matrix in fp32
    execute([one for one in CELLS if one.id in ("read-by-bytes", "read-placed")], page, {})
    kept = captures.capture(tmp_path / "p.json", summary={
        "hardware_flops": 2 * captures.W, "hbm_read_bytes": captures.READ + more})
    made = SimpleNamespace(profile=profile.read(kept), time=5e-6, kind="measured",
                           machine=machine.get("trn2", "core"))
    hand = Count({"bf16": captures.W}, captures.READ, captures.WRITTEN)
    rows = {row[0]: row[2] for row in page["placed"]({"p": (hand, made)}).rows}
    I, there = (captures.W / (captures.Q + extra) for extra in (0, more))
    assert (rows["p"], rows["p, at the bytes moved"]) == (f"{I:.3g} FLOP/B", f"{there:.3g} FLOP/B")
    assert rows["p, entitled"] == rows["p"] and I > there
    assert profile.compare(hand, made.profile).intensity == 2 * there  # what the profiler prints
    less = Count({"bf16": captures.W}, captures.READ + more, captures.WRITTEN)
    assert "at the bytes moved" not in str(page["placed"]({"p": (less, made)}))


def test_transposes_are_no_work_and_move_no_mark():
    page = run(KERNELS["transposes on the Tensor Engine"])
    W = 2 * 256 * 256 * 512
    turns = (256 // 128) * (256 // 128) * 2 * 128**3  # each tile against an identity
    assert page.hand.work == {"bf16": W} and f"{W:,}" in page.told["day7-2-check"]
    sizes = [line.split() for line in page.told["day7-2-check"].splitlines()
             if line.startswith("bf16")]
    assert sum(int(size[-1].replace(",", "")) for size in sizes) == W  # and no transpose among them
    assert page.compared["transposes"].flops == turns == page.compared.profiler.flops - W
    assert len(roofline_rows(page)[0]) == 1
    assert page.told["day7-6-check"].startswith("not attempted: useful")  # with these numbers


def test_two_dtypes_have_a_peak_of_their_mix(twice):
    page = run(KERNELS["two dtypes"].format(folder=twice))
    each = 2 * 128 * 128 * 512
    peaks = machine.trn2.peak("bf16"), machine.trn2.peak("fp32")
    assert page.hand.work == {"bf16": each, "fp32": each}
    assert page.own_P == pytest.approx(2 * each / sum(each / peak for peak in peaks))
    assert any(row[0] == "compute, bf16+fp32" for row in page.picture.rows)


# --- filled in -----------------------------------------------------------------------------------

# matmul_reload of [256, 256] x [256, 1024] in bf16: 2 x 2 x 2 products of tiles of A and B
A, B, C = (2 * 2 * 2, 2 * 128 * 128), (2 * 2 * 2, 2 * 128 * 512), (2 * 2, 2 * 128 * 512)
RIGHT = dict(
    day7_2_work='my_W = {"bf16": 2 * 256 * 256 * 1024}',
    day7_3_traffic=(f'my_table = Transfers({{"a": ({A[1]}, {A[0]}), "b": ({B[1]}, {B[0]})}},\n'
                    f'                     {{"c": ({C[1]}, {C[0]})}})\nmy_resident = "320 KiB"'))


def test_a_right_count_is_the_codes():
    page = run(KERNELS["matmul, bound by memory"], **RIGHT)
    lawful(page)
    assert page.hand == page.run.count
    assert "stands in" not in page.told["day7-4-entitlement"]
    W = 2 * 256 * 256 * 1024
    assert row_of(page.told["day7-2-check"], "W") == [f"{W / 1e6:.1f} MFLOP"] * 2 + ["+0.0 %"]
    assert row_of(page.told["day7-3-check"], "Q")[:2] == ["1.835 MB", "1.835 MB"]
    assert row_of(page.told["day7-3-check"], "SBUF")[0] == "320 KiB"
    assert "1,835,008 B" in page.told["day7-3-check"]
    assert page.hand.hbm_bytes == sum(n * size for n, size in (A, B, C)) == 1_835_008


def test_a_wrong_count_shows():
    """Tensor sizes for bytes moved, the first common mistake: another I, and a hollow mark."""
    sizes = ('my_table = Transfers({"a": (2 * 256 * 256, 1), "b": (2 * 256 * 1024, 1)},\n'
             '                     {"c": (2 * 256 * 1024, 1)})\nmy_resident = ...')
    page = run(KERNELS["matmul, bound by memory"], **{**RIGHT, "day7_3_traffic": sizes})
    lawful(page)
    moved, once = 1_835_008, 2 * (256 * 256 + 2 * 256 * 1024)
    assert page.hand.hbm_bytes == once and page.compared.difference.read == moved - once
    W = 2 * 256 * 256 * 1024
    assert [at for at, _ in roofline_rows(page)[0]] == [f"{W / once:.3g} FLOP/B",
                                                        f"{W / moved:.3g} FLOP/B"]
    assert "extra bytes" in page.told["day7-8-where"]
    assert row_of(page.told["day7-3-check"], "Q")[2] == f"{100 * (once / moved - 1):+.1f} %"


def test_work_where_there_is_none_shows():
    """A reader counts W for a copy: the bytes are the same, so no mark; step 6 says so."""
    page = run(KERNELS["copy, no matmul"], day7_2_work='my_W = {"bf16": 1000}')
    assert page.compared.difference.flops == -1000 and len(roofline_rows(page)[0]) == 1
    assert "no matmul instructions" in page.told["day7-2-check"]
    assert row_of(page.told["day7-2-check"], "W") == ["1 kFLOP", "0 FLOP", "another"]


def test_a_kernel_without_matmuls_is_counted_by_hand():
    """128 x 8192 in bf16, in and out; W is {}, and a point by I has no place."""
    one = 2 * 128 * 8192
    page = run(KERNELS["copy, no matmul"], day7_2_work="my_W = {}", day7_3_traffic=(
        f'my_table = Transfers({{"src": ({one}, 1)}}, {{"dst": ({one}, 1)}})\nmy_resident = ...'),
        day7_9_change='my_change = Guess(Q="2 MB", T="20 us")')
    lawful(page)
    assert page.hand == Count({}, one, one) and page.compared.explained
    assert row_of(page.told["day7-2-check"], "W") == ["0 FLOP", "0 FLOP", "the same"]
    assert row_of(page.told["day7-3-check"], "Q")[2] == "+0.0 %"


def test_a_predicted_point_stands_beside_the_two():
    """W / Q and W / T of the reader's own two numbers, assumed."""
    told = dict(day7_9_change='my_change = Guess(Q="2 MB", T="20 us")')
    page = run(KERNELS["matmul, bound by memory"], **told)
    W = 2 * 256 * 256 * 1024
    [row] = [row for row in page.moved_to.rows if row[0] == "predicted"]
    assert row[1:4] == ("assumed", f"{W / 2e6:.3g} FLOP/B", f"{W / 20e-6 / 1e12:.3g} TFLOP/s")
    assert not [row for row in run(KERNELS["copy, no matmul"], **told).moved_to.rows
                if row[0] == "predicted"]  # bytes a second have their place by Q alone


def test_predictions_are_held_against_what_came():
    open_ = run(KERNELS["fused MLP, larger blocks"])
    old, new = open_.made.time, open_.again.time
    assert "no prediction" in open_.told["day7-9-measure"]
    assert row_of(open_.told["day7-9-measure"], "Q")[0] == "not filled in"
    Q = 2 * (2 * 512 * 256 + 2 * 512 * 512)  # x, y, and both weights: each byte once
    for T, said in ((new, "T held"), (new + 0.3 * abs(new - old) + 0.02 * old, "T not held"),
                    (f"{1e6 * new:.6f} us", "T held")):
        page = run(KERNELS["fused MLP, larger blocks"],
                   day7_5_predict=f'my_guess = Guess(T={2 * old}, row="start")',
                   day7_9_change=f"my_change = Guess(Q={2 * Q}, T={T!r})")
        assert f"\n{said}: " in page.told["day7-9-measure"]
        assert row_of(page.told["day7-9-measure"], "Q")[2] == "+100.0 %"
    assert row_of(page.told["day7-5-profile"], "T")[2] == "+100.0 %"
    same = "the same" if page.before.rows[0].cause == "start" else "another"
    assert row_of(page.told["day7-8-largest"], "row") == ["start", page.before.rows[0].cause, same]


def test_a_steps_question_takes_the_readers_numbers():
    """The check of step 4 with a reader's kernel, answers worked out here."""
    page = run(KERNELS["matmul, bound by memory"], **RIGHT)
    W, Q, P, BW = 2 * 256 * 256 * 1024, 1_835_008, machine.trn2.peak("bf16"), machine.trn2.bw()
    step = page.asked("day7.own_entitlement", W=W, Q=Q, P=P, BW=BW)
    right = dict(I=W / Q, ridge=P / BW, side="memory", rate=W / Q * BW, T_best=Q / BW,
                 T_worst=W / P + Q / BW)
    assert isinstance(step.check(**right), Report) and step.check(**right).right
    with pytest.raises(WrongAnswer):
        step.check(I=Q / W)


def test_nothing_above_the_steps_knows_the_kernel():
    """So `above` may run once for all."""
    mine = {"mine", "changed", "shapes"}
    for one in CELLS[:STEPS]:
        names = {node.id for node in ast.walk(ast.parse(one.source)) if isinstance(node, ast.Name)}
        assert one.id == "your-kernel" or not names & mine, one.id


# --- the page itself -----------------------------------------------------------------------------


def test_only_one_cell_names_the_kernel():
    """No step after it repeats a number of the MLP: shapes, W, Q, blocks."""
    end = next(i for i, one in enumerate(CELLS) if one.id == "day7-mistake-sizes")
    steps = [one for one in CELLS[STEPS:end] if not one.id.endswith(("-attempt", "-worked"))]
    assert len(steps) > 30
    for one in steps:
        numbers = {node.value for node in ast.walk(ast.parse(one.source))
                   if isinstance(node, ast.Constant) and isinstance(node.value, (int, float))}
        assert all(abs(n) < 10 for n in numbers), one.id
        assert "mlp" not in one.source and "course." not in one.source, one.id


def test_each_step_has_a_task_a_cell_and_its_end():
    """A heading do-N-word, a cell dayN... of that name to fill in or to run, a check, its end."""
    cells = nbformat.read(PAGE, 4).cells
    starts = [i for i, one in enumerate(cells) if one.id.startswith("do-")]
    ends = [*starts[1:], next(i for i, one in enumerate(cells) if one.id == "h-common-mistakes")]
    assert len(starts) == 9
    for n, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        step = cells[start:end]
        assert step[0].source.startswith(f"### Step {n}. ") and step[0].id.startswith(f"do-{n}-")
        assert step[0].id.replace("do-", "day7-") in {one.id for one in step}
        assert any(one.id.startswith(f"day7-{n}-") and "own.check(" in one.source for one in step)
        assert step[-1].id == f"done-{n}" and step[-1].source.startswith("*Done when* ")


def test_the_worked_change_is_predicted_before_it_is_shown():
    """Q, I, T and a row to fill in; what came of them is hidden, and so is why."""
    cells = nbformat.read(PAGE, 4).cells
    where = {one.id: i for i, one in enumerate(cells)}
    order = ["p-worked-9", "worked-predict", "worked-changed", "worked-verdict", "worked-row"]
    assert [where[id] for id in order] == sorted(where[id] for id in order)
    assert re.findall(r"(\w+)=\.\.\.", cells[where["worked-predict"]].source) == [
        "Q", "I", "T", "row"]
    for id in order[2:]:
        assert "hide-output" in cells[where[id]].metadata["tags"], id
    open_prose = [re.sub(r"<details>.*?</details>", "", one.source, flags=re.S) for one in
                  cells[where["p-worked-9"]:where["h-the-same-in-three-kernels"]]]
    assert not [text for text in open_prose if "pipeline" in text]


def test_the_worked_changes_verdict_is_of_its_own_numbers():
    """Each byte crosses once, before and after: Q and I stay."""
    Q = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
    given = {"worked-predict": f'wide_guess = Guess(Q="{Q} B", I={4 * 2048 * 1024 * 4096 / Q},\n'
                               '                   T="1 ms", row="idle")'}
    cells = [one for one in CELLS if one.id.startswith(("worked-verdict", "worked-row",
                                                        "worked-predict"))]
    _, told = execute(cells, dict(above()), given)
    assert [row_of(told["worked-verdict"], name)[2] for name in "QI"] == ["+0.0 %"] * 2
    assert "\nT not held: " in told["worked-verdict"]
    assert row_of(told["worked-verdict"], "row") == ["idle", "pipeline", "another"]
    # up: 128 columns at a time before, 512 now; down is as it was: (B, D, F) / (128, 128, 512)
    each, times = 2 * 128 * 128 * 512, 2 * 2048 * 1024 * 4096 * 2 // (2 * 128 * 128 * 512)
    assert row_of(told["worked-row"], "bf16")[-3:] == [f"{times:,}", f"{each:,}",
                                                       f"{times * each:,}"]


def as_measured(one: device.Measurement) -> device.Measurement:
    """The same figures, told as those of a device."""
    return dataclasses.replace(one, profile=dataclasses.replace(one.profile, kind="measured"))


def some_measured(names: dict[str, Any], *recorded: str) -> SimpleNamespace:
    """A `device` that has the model's figures, of these kernels told as a device's.

    recorded   a kernel's title
    """
    def measure(call: device.Launch, chip: str) -> device.Measurement:
        made = next((one for one in known if one.launch is call), None) or device.modelled(
            call, chip)
        return as_measured(made) if call.title in recorded else made

    known = [names["fused_made"], names["wide"], *names["apart"]]
    return SimpleNamespace(kinds=device.kinds, unlike=device.unlike, launch=device.launch,
                           measure=measure)


WORKED = ("worked-measured", "worked-placed", "worked-predict", "worked-ledger", "worked-changed",
          "worked-verdict", "worked-row", "unfused-measured", "same-plot", "same-mfu")


@pytest.mark.parametrize("recorded", [
    (), ("mlp_fused",), ("mlp_fused block=512",), ("mlp_up",), ("mlp_gelu",), ("mlp_down",),
    ("mlp_up", "mlp_gelu"), ("mlp_up", "mlp_gelu", "mlp_down"),
    ("mlp_fused", "mlp_up", "mlp_gelu", "mlp_down"), ("mlp_fused", "mlp_fused block=512"),
], ids=" ".join)
def test_what_is_measured_and_what_is_modelled_are_not_compared(recorded):
    names = dict(above())
    names["device"] = some_measured(names, *recorded)
    _, told = execute([one for one in CELLS if one.id in WORKED], names, {
        "worked-predict": f'wide_guess = Guess(Q=..., I=..., T={names["wide"].time}, row="fill")'})

    def kind(*titles: str) -> str:
        return "measured" if set(titles) <= set(recorded) else "modelled"

    alike = kind("mlp_fused") == kind("mlp_fused block=512")
    for id in ("worked-changed", "worked-verdict", "worked-row"):
        assert ("not compared: " in told[id]) != alike, id
        assert alike or not re.search(r"T (not )?held|changed by|-> |of the gap", told[id]), id
    assert (row_of(told["worked-verdict"], "row")[1] == "unknown") != alike
    assert re.search(rf"found, {kind('mlp_fused block=512')} +off$", told["worked-verdict"], re.M)
    # the sum of three is a device's only if all are
    three = ("mlp_up", "mlp_gelu", "mlp_down")
    for one in three:
        assert re.search(rf"^{one} .* us, {kind(one)}$", told["unfused-measured"], re.M)
    assert re.search(rf"^together .* us, {kind(*three)}; in one kernel .* us, "
                     rf"{kind('mlp_fused')}$", told["unfused-measured"], re.M)
    all_alike = len({kind(one) for one in (*three, "mlp_fused")}) == 1
    for id in ("unfused-measured", "same-plot"):
        assert ("not compared: " in told[id]) != all_alike, id
    assert re.search(rf"^unfused  +{kind(*three)} ", told["same-plot"], re.M)
    assert re.search(rf"^fused  +{kind('mlp_fused')} ", told["same-plot"], re.M)
    assert told["same-mfu"].startswith(kind("mlp_fused"))


@pytest.mark.parametrize("recorded", ["before", "after", "both", "none"])
def test_the_readers_change_is_judged_within_one_kind(recorded):
    page = run(KERNELS["fused MLP, larger blocks"])
    told = {"before": page.made.launch.title, "after": page.again.launch.title}
    some = {"both": told.values(), "none": ()}.get(recorded, [told.get(recorded)])
    names = {**vars(page), "device": some_measured(vars(page), *some)}
    ids = ("day7-5-profile", "day7-8-gap", "day7-9-change", "day7-9-measure", "day7-9-ledger",
           "day7-9-plot")
    _, said = execute([one for one in CELLS if one.id in ids], names, {
        "day7-9-change": f"my_change = Guess(Q=..., T={page.again.time})"})
    kinds = ["measured" if one in (recorded, recorded.replace("both", one)) else "modelled"
             for one in ("before", "after")]
    for id in ("day7-9-measure", "day7-9-ledger"):
        assert ("not compared: " in said[id]) == (kinds[0] != kinds[1]), id
    assert ("T held" in said["day7-9-measure"]) == (" -> " in said["day7-9-ledger"]) == (
        kinds[0] == kinds[1])
    assert re.search(rf"found, {kinds[1]} +off$", said["day7-9-measure"], re.M)
    for name, kind in zip(("before", "after"), kinds, strict=True):
        assert re.search(rf"^{name}  +{kind} ", said["day7-9-plot"], re.M)


def test_a_count_by_numpy_is_a_count():
    """np.prod gives NumPy's integer."""
    page = run(KERNELS["matmul, bound by memory"], day7_2_work=(
        'import numpy as np\nmy_W = {"bf16": 2 * np.prod([256, 256, 1024])}'))
    assert row_of(page.told["day7-2-check"], "W")[2] == "+0.0 %"
    assert page.hand.flops == 2 * 256 * 256 * 1024 and page.hand == page.run.count


def causes_table() -> list[list[str]]:
    [table] = [c["source"] for c in nbformat.read(PAGE, 4).cells if c["id"] == "h-causes-of-a-gap"]
    return [[cell.strip() for cell in line.split("|")[1:-1]]
            for line in table.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize(("cause", "names"), [
    ("The engine that binds is idle", {"idle", "weight load", "DMA issue", "DMA latency",
                                       "instruction fetch", "wait for the other core"}),
    ("No overlap", {"wait for DMA", "wait for tensor"}),
    ("Extra bytes", {"extra bytes"}),
    ("A slower engine", {"wait for vector", "wait for scalar", "wait for gpsimd"}),
    ("Fixed cost", {"start", "fill", "tail", "end", "rounding"}),
])
def test_a_name_of_the_ledger_stands_in_its_own_row(cause, names):
    """By what each is, and on the next page too: before the first event, after the last."""
    [row] = [row for row in causes_table() if row[0] == cause]
    assert set(re.findall("`(.*?)`", row[2])) == names
    [other] = [c.source for c in nbformat.read(PAGE.with_name("stranger.ipynb"), 4).cells
               if c.id == "p-all-six"]
    theirs = [set(re.findall("`(.*?)`", line.split("|")[3])) for line in other.splitlines()
              if line.startswith("| ")][1:]
    [here] = [i for i, row in enumerate(causes_table()) if row[0] == cause]
    assert theirs[here] <= names and theirs[here]


def test_sizes_beside_bytes_moved():
    """The first mistake's picture: A, 1024 x 2048, three times, B, 2048 x 1536, eight times."""
    A, B, C = 2 * 1024 * 2048, 2 * 2048 * 1536, 2 * 1024 * 1536
    W = 2 * 1024 * 2048 * 1536
    cells = [one for one in CELLS if one.id in ("day7-mistake-sizes", "mistake-sizes")]
    told = execute(cells, dict(above()), {})[1]["mistake-sizes"]
    assert re.search(rf"sizes, entitled +derived +{W / (A + B + C):.3g} FLOP/B", told)
    assert re.search(rf"bytes moved, entitled +derived +{W / (3 * A + 8 * B + C):.3g} FLOP/B", told)


def test_each_name_of_the_ledger_has_one_row_of_the_table():
    rows = [row[2] for row in causes_table()]
    assert len(rows) == 6
    assert sorted(re.findall("`(.*?)`", " ".join(rows))) == sorted(gaps.CAUSES)


def test_the_worked_numbers_are_the_mlps():
    """Day 5's MLP: B = 2048, D = 1024, F = 4096, bf16; P = 78.6 TFLOP/s, BW = 375 GB/s."""
    stored = {one.id: "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "")
                              for o in one.outputs) for one in CELLS}
    W = 4 * 2048 * 1024 * 4096
    fused = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
    unfused = fused + 4 * 2 * 2048 * 4096
    assert f"{W:,}" in stored["unfused-count"] and f"{unfused:,}" in stored["unfused-count"]
    for name, Q, rate in (("fused", fused, 58), ("unfused", unfused, 211)):
        flop, byte = round(1e6 * W / 78.6e12, 1), round(1e6 * Q / 375e9, 1)
        line = f"{name:8} T_best {flop} us, T_worst {flop} us + {byte} us = {flop + byte:.1f} us"
        assert line in stored["same-roof"] and flop == 437.1
        needed = float(re.search(rf"{name} .*needs ([\d.]+) GB/s", stored["same-needed"])[1])
        assert round(needed) == rate == round(78.6e12 / (W / Q) / 1e9)
    assert "504.2 us" in stored["same-roof"] and "683.2 us" in stored["same-roof"]


# --- on other chips ------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["trn1", "inf2"])
def test_the_page_follows_the_chip(chip, monkeypatch):
    """The worked numbers stay Trainium2's; what is measured or modelled is the chip's."""
    monkeypatch.setattr("roofline.device.measuring.chip_here", lambda otherwise: chip)
    names, told = execute(CELLS, {}, {"your-kernel": KERNELS["matmul in fp32"]})
    page = SimpleNamespace(told=told, **names)
    lawful(page)
    assert page.made.chip == chip and chip in told["day7-5-profile"]
    assert "437.1 us" in told["same-roof"]


def test_on_a_device_it_captures(tmp_path, monkeypatch):
    """On an instance that is not there (standin), with small arrays: recordings, no model."""
    book, instance = tmp_path / "book", tmp_path / "instance"
    for part in ("lib/roofline", "day5", "day7"):
        (book / part).mkdir(parents=True)
    shutil.copy(ROOT / "day5/kernels.py", book / "day5")
    instance.mkdir()
    monkeypatch.chdir(book / "day7")
    monkeypatch.delenv("ROOFLINE_RECORDED")
    for name, value in standin.install(instance, "trn2").items():
        monkeypatch.setenv(name, value)
    [sizes] = [one.source for one in CELLS if one.id == "fused-launch"]
    own = call(DAY5, "mlp_fused", bf16(512, 512), bf16(512, 512), bf16(512, 512))
    small = {"your-kernel": cell(own, own[:-1] + ", block=512)"),
             "fused-launch": sizes.replace("2048, 1024, 4096", "512, 512, 512"),
             "unfused-launches": "three, runs = [fused], [fused_run]\nunfused = fused_run.count"}
    names, told = execute(CELLS, {}, small)
    page = SimpleNamespace(told=told, **names)
    lawful(page)
    assert page.made.kind == page.again.kind == page.fused_made.kind == "measured"
    assert "measured on" not in told["day7-5-profile"] and "synthetic (" in told["day7-5-profile"]
    assert not [name for name, text in told.items() if "modelled: " in text]
    calls = standin.calls(instance, "neuron-explorer", "capture")
    assert len(device.recordings()) == 2  # fused, and in wider blocks: mine are the same launches
    assert all("--profile-nth-exec=2" in call["argv"] for call in calls
               if "--disable-profile" not in call["argv"])
