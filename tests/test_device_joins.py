"""Recordings on other pages: Day 5's four-way table and Day 6's sheet, by the pages' cells."""

import contextlib
import io

import nbformat
import pytest
from pages import ROOT
from recordings import book, record  # noqa: F401
from timelines import timeline

from roofline import device, loopnest, machine, nki, ops, sheet, units

pytestmark = pytest.mark.usefixtures("book")
M, K, N = 1280, 512, 2048  # of Day 5's matmul
READ, WRITTEN = 2 * (4 * M * K + 10 * K * N), 2 * M * N  # bf16; A comes 4 times, B 10 times


def cell(page: str, having: str) -> str:
    """The source of the one code cell that has this text."""
    found = [c.source for c in nbformat.read(ROOT / page, 4).cells
             if c.cell_type == "code" and having in c.source]
    assert len(found) == 1, f"{page}: {len(found)} cells with {having!r}"
    return str(found[0])


def shown(source: str, **names: object) -> str:
    """What a cell prints, and the text of its last line."""
    *lines, last = source.splitlines()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec("\n".join(lines), names)
        print(repr(eval(last, names)))
    return said.getvalue()


def day5() -> str:
    kernels = nki.load(ROOT / "day5" / "kernels.py")
    a, b = ((K, M), "bf16"), ((K, N), "bf16")
    run = nki.run(kernels.matmul_reload, a, b, target="trn2", data=False)
    return shown(cell("day5/count_from_code.ipynb", "matmul_reload, a, b)\nchip"), device=device,
                 kernels=kernels, loopnest=loopnest, nki=nki, ops=ops, a=a, b=b, run=run)


def test_day_5_shows_the_profilers_count_once_there_is_one():
    assert "none yet" in day5()
    call = device.launch(nki.load(ROOT / "day5" / "kernels.py").matmul_reload,
                         ((K, M), "bf16"), ((K, N), "bf16"))
    packets = [(1000 * i, 1000 * i + 900) for i in range(9)]
    record(call, "trn2", timeline(matmuls=[(1000, 9000)], packets=packets),
           read=READ - 4096, written=WRITTEN)
    table = day5()
    assert "none yet" not in table
    rows: dict[str, list[str]] = {}  # counts, and below them the differences
    for line in table.splitlines():
        rows.setdefault(line.split("  ")[0], []).extend(line.split())
    assert f"{READ - 4096:,}" in rows["Q read, B"] and "-4,096" in rows["Q read, B"]
    assert f"{WRITTEN:,}" in rows["Q written, B"]


def day6() -> str:
    return shown(cell("day6/trn2_sheet.ipynb", 'roofs("trn2")'), roofs=device.roofs, sheet=sheet,
                 machine=machine)


def test_day_6_takes_the_measured_roof_once_there_is_one():
    assert "no measured roof of trn2" in day6() and "recorded" not in day6()
    copy = nki.load(ROOT / "day4" / "kernels.py").copy
    moved = 2 * 128 * 4096 * 2  # bf16, in and out
    for elements, ns in ((1024, 6100), (2048, 6000), (4096, 6050)):  # a plateau
        call = device.launch(copy, ((128, 4096), "bf16"), elements=elements)
        packets = [(100, ns - 100, {"engine": e, "nbytes": moved // 16}) for e in range(16)]
        record(call, "trn2", timeline(issues=[(0, 10)], packets=packets, end=ns),
               read=moved // 2, written=moved // 2, active=ns - 200)
    best = moved / 6000e-9  # 349.5 GB/s
    ridge = 2 * 128 * 128 * 2.4e9 / best
    said = day6()
    assert f"{best / 1e9:.1f} GB/s" in said
    recorded = next(line for line in said.splitlines() if " recorded " in line)
    assert recorded.split()[0] == units.significant(ridge, 4)
