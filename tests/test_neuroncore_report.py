"""The rows a cost model is held against, the kernels that stand for them, the error report."""

import csv

import pytest
from pages import ROOT
from roofline.neuroncore.rows import RowError, rows, usable

PUBLISHED = ROOT.parent / "shared/reference/measurements.csv"


@pytest.fixture(scope="module")
def published():
    if not PUBLISHED.exists():
        pytest.skip(f"../{PUBLISHED.relative_to(ROOT.parent)} is not here")
    with PUBLISHED.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


# --- rows.csv ------------------------------------------------------------------------------------


def test_every_published_row_is_there_with_its_figures(published):
    assert list(rows()) == list(published)
    for row in rows().values():
        theirs = published[row.id]
        assert (row.source, row.chip, row.op, row.shape, row.dtype, row.grade) == tuple(
            theirs[name] for name in ("source", "chip", "op", "shape", "dtype", "grade"))
        assert row.time_us == float(theirs["time_us_used"])
        assert row.hbm_bytes == (int(theirs["hbm_bytes_measured"])
                                 if theirs["hbm_bytes_measured"] else None)


def test_a_row_is_usable_or_says_why_not():
    for row in rows().values():
        assert row.usable != bool(row.reason), row.id
        assert row.usable == bool(row.kernel) == bool(row.arguments) == bool(row.clock), row.id
        if row.usable:
            assert row.clock in ("profile", "benchmark", "derived", "wall"), row.id
            assert row.chip in ("trn1", "inf2", "trn2"), row.id
            assert row.grade in ("A", "B", "C"), row.id
        else:
            with pytest.raises(RowError, match=f"{row.id}: no kernel"):
                row.launches
    assert len(usable()) >= 80
