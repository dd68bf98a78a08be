"""Recordings from timelines a reader can follow, in a book of their own: tests make theirs here.

    def test_x(book):  # the fixture below: work/recorded of an empty folder, no device
        record(call, "trn2", timeline(packets=[(0, 1000)]), written=...)
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from timelines import profile

from roofline import profile as profiles
from roofline.device import chip, store
from roofline.device.launches import Launch
from roofline.device.plausibility import Flag
from roofline.timeline import Timeline


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that counts as the book's, and recordings of one's own are read from it."""
    (tmp_path / "lib" / "roofline").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for name in ("ROOFLINE_RECORDED", "ROOFLINE_STAND_IN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def on_trn2(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has a trn2, as far as measuring is told."""
    from roofline.device import measuring
    here = replace(chip.probe(), chip="trn2", why="")
    monkeypatch.setattr(measuring, "probe", lambda: here)


def record(call: Launch, on: str, of: Timeline, *, read: int = 0, written: int = 0,
           active: int | None = None, total: float | None = None, flags: Iterable[Flag] = (),
           **more: Any) -> store.Recording:
    """A recording of this call with this timeline; more: provenance.

    read, written, active   what its summary says of HBM, in bytes, and of the DMA, in ns
    """
    summary = {"hbm_read_bytes": read, "hbm_write_bytes": written}
    if active is not None:
        summary["dma_active_time"] = active / 1e9
    made = profile(of, total, name=call.name, summary=summary,
                   metadata={"instance_type": f"{on}.made"})
    said = {"kind": "measured", "chip": on, "instance": f"{on}.made", "lnc": call.lnc, "cores": [0],
            "kernel": call.name, "shapes": [list(shape) for shape, _ in call.shapes],
            "dtypes": [dtype for _, dtype in call.shapes], "parameters": dict(call.parameters),
            "execution": "second of 2", "warm": True, "date": "2026-08-21T12:30:00Z",
            "python": "3.12", "nki": "0.6.0", "synthetic": True} | more
    with store.part() as folder:
        profiles.write(made, folder / "profile.json")
        return store.save(folder, key=call.key(on), provenance=said, flags=flags,
                          kernel=call.file.read_bytes())
