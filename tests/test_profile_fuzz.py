"""Mutated profile files, at random: `python3 course.py fuzz`; two seconds of them in every run.

Whatever stands in a file, reading ends with a Profile or a ProfileError, soon, in bounded memory,
and text of the file reaches neither a terminal as control characters nor a page as markup.
"""

import copy
import json
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from test_profile_json import DEVICE, FLAT, FULL, OTHER, REAL, SMALL, SYSTEM, later, small

from roofline import Count, figures, gaps, machine, profile
from roofline.gaps import GapError
from roofline.machine import MachineError
from roofline.profile import ProfileError

LONGEST = 10      # s for one file of at most 1 MB; a thousandth of that is usual
MEMORY = 400e6    # B that all of a run may add to what it began with
MARKUP = '<script>alert(1)</script>'
VALUES = [None, True, False, -1, 0, 1, 1.5, -0.0, 1e300, 1e-300, float("nan"), float("inf"), 2**31,
          2**53, 2**62, 2**63, 2**64, 10**25, "", "x", "7", "-7", "sg00", "sg01", "sg99", "yes",
          MARKUP, "\x1b[31m\x07\r\n\u202e", "\ud800", "x" * 3000, "src=" * 500,
          "src=fp32@0x0[1,0,0][999999999,999999999,999999999] 999999*999999 ",
          "src=fp32@0x0[1,0,0][,,] 0*0", "1*1 " * 500 + "x", [], {}, [[]], [{}], {"id": 1},
          [{"id": 2**70}], ["n_0"], {"total_time": 1}]
TOKENS = [b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"[", b"{", b"]", b"}", b'"', b",", b":",
          b"\0", b"\xff", b"\\u0000", b"\\ud800", b"9" * 40, b"9" * 5000, b"[" * 2000, b"{}", b" ",
          b'"total_time":5,', b'"summary":[],', b"\xef\xbb\xbf", MARKUP.encode()]


def documents() -> list:
    """What mutations start from: every kind of JSON, and shortened real files where they are."""
    found = [small(), later(), {DEVICE: FLAT}, FLAT,
             {SYSTEM: {"events": {"a": [1]}}, DEVICE: FLAT, OTHER: FLAT}]
    for name in (*FULL, SMALL[0]):
        if (REAL / name).exists():
            document = json.loads((REAL / name).read_text())
            found.append({key: value[:40] if isinstance(value, list) else value
                          for key, value in document.items()})
    return found


def places(value, depth=0):
    """Every container in a document."""
    yield value
    if depth < 6:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                yield from places(inner, depth + 1)


def restructured(rng: random.Random, document) -> bytes:
    """The document with a few values, keys or rows replaced, dropped, repeated, renamed."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 4)):
        # First which table, so that rows do not crowd out everything else.
        inner = [value for value in document.values() if isinstance(value, (dict, list))] \
            if isinstance(document, dict) else []
        within = rng.choice([document, *inner]) if inner else document
        place = rng.choice([*places(within)][:2000])
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            continue
        key = rng.choice(keys)
        match rng.randrange(7):
            case 0 | 1:
                place[key] = rng.choice(VALUES)
            case 2:
                del place[key]
            case 3:  # another value of the same container, in its place
                place[key] = copy.deepcopy(place[rng.choice(keys)])
            case 4 if isinstance(place, dict):
                place[rng.choice([*keys, MARKUP, "start_ts", "end_ts", "timestamp", "summary"])] \
                    = place.pop(key)
            case 5 if isinstance(place, list):
                place.extend(copy.deepcopy(place[:3]))
            case _ if isinstance(place[key], (int, float)):
                place[key] *= rng.choice([-1, 1e-9, 0.5, 2, 1000, 1e9])
    try:
        return json.dumps(document).encode()
    except ValueError:  # a container put into itself
        return b"{}"


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with a few of them cut, repeated, flipped, or tokens put between."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice([1, 2, 9, 80, 900]))
        match rng.randrange(5):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:at] + data[at:to] * 2 + data[to:]
            case 2:
                data = data[:at] + bytes(b ^ (1 << rng.randrange(8)) for b in data[at:at + 1]) \
                    + data[at + 1:]
            case 3:
                data = data[:at] + rng.choice(TOKENS) + data[at:]
            case 4 if rng.random() < 0.3:
                data = data[:at]
    return data


def calm(text: str) -> bool:
    """Nothing in it that a terminal obeys."""
    return text.replace("\n", "").isprintable()


WORK = Count({"bf16": 10**9, "fp32": 10**8}, 10**6, 10**6)
COPY = Count({}, 10**9, 10**9)


def explained(own: profile.Profile, count: Count | None) -> gaps.Ledger:
    """Its ledger, which adds up whatever the rows are, with lines and a fix."""
    found = gaps.ledger(own, machine.trn2, count)
    total = sum(row.time for row in found.rows)
    assert total == pytest.approx(found.gap, rel=1e-9, abs=1e-3), (total, found.gap)
    assert all(calm(text) for text in (repr(found.lines()), repr(found.fix("start", "idle"))))
    return found


def drawn(own: profile.Profile) -> str:
    """The page of the live timeline with the causes of its gap; "" where there is none."""
    try:
        return figures.timeline(own, gaps.ledger(own, machine.trn2))._repr_html_()
    except (GapError, MachineError):
        return ""


def look(own: profile.Profile) -> None:
    """Show it in every way; what a view cannot tell it says in an error of ours."""
    for view in (lambda: own, own.clocks, own.check, lambda: own.window(0, 1000),
                 lambda: profile.compare(WORK, own), lambda: explained(own, None),
                 lambda: explained(own, WORK), lambda: explained(own, COPY)):
        try:
            shown = view()
        except (ProfileError, GapError, MachineError) as error:
            assert calm(str(error)), str(error)
            continue
        assert calm(repr(shown)), repr(shown)
        as_page = getattr(shown, "_repr_html_", lambda: "")
        assert "<script" not in (as_page() or "")
    assert MARKUP not in drawn(own)
    texts = [own.name, own.version, *own.warnings, *map(str, own.summary.values()), *own.summary,
             *own.metadata, *map(str, own.metadata.values()),
             *(part for tensor in own.tensors for part in (tensor.name, tensor.role))]
    if own.timeline is not None:
        rows = own.timeline.instructions
        texts += [*rows.opcodes, *rows.lines]
        for table in (rows, own.timeline.packets, own.timeline.throttles):
            assert (table.start >= 0).all() and (table.end >= table.start).all()
            assert own.timeline.end >= table.end.max(initial=0)
            assert np.isin(table.core, np.arange(own.cores)).all()
        assert np.isin(rows.after, np.arange(len(rows))).all()
        assert len(rows.first) == len(rows) + 1 and rows.first[-1] == rows.after.size
        assert np.isin(rows.passes, (1, 2, 4)).all()
    assert all(calm(text) and "\n" not in text and len(text) <= 500 for text in texts)


def late(*_):
    raise AssertionError(f"reading took longer than {LONGEST} s")


def fuzz(path: Path, seconds: float, seed: int) -> dict[str, int]:
    """Read mutated files for so long; how many were good and how many refused."""
    sources = documents()
    rng = random.Random(seed)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    came = {"read": 0, "refused": 0}
    old = signal.signal(signal.SIGALRM, late)
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            data = restructured(rng, rng.choice(sources))
            if rng.random() < 0.4:
                data = damaged(rng, data)
            path.write_bytes(data)
            signal.alarm(LONGEST)
            try:
                look(profile.read(path))
                came["read"] += 1
            except ProfileError as error:
                text = str(error)
                assert text.startswith(path.name) and calm(text) and len(text) < 1200, text
                came["refused"] += 1
            except BaseException:
                print(f"the file that failed: {path}")
                raise
            signal.alarm(0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < MEMORY
    return came


def test_mutated_files_for_two_seconds(tmp_path):
    came = fuzz(tmp_path / "ntff.json", 2, seed=6)
    assert came["read"] and came["refused"]


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(3))
def test_mutated_files(tmp_path, seed):
    came = fuzz(tmp_path / "ntff.json", 50, seed=1000 + seed)
    assert came["read"] > 100 and came["refused"] > 100


@pytest.mark.parametrize("size", [20_000])
def test_hostile_operands_take_no_time(size):
    """Texts on which a careless pattern backtracks for minutes."""
    for text in ("src=" * size, "src=a@0[1][1] " + "1*1 " * size + "x",
                 "src=a@0[1][1]" + " " * size + "x", "src=a@0[1][" + "1," * size,
                 "src=" + "a" * size, "1*" * size, "src=a@0 " * size):
        document = small()
        document["instruction"][0]["operands"] = text
        begin = time.process_time()
        profile.from_json("trace.json", document)
        assert time.process_time() - begin < 2


def test_markup_in_names_is_text_in_every_view():
    document = small()
    document["warnings"][0]["message"] = MARKUP
    document["neff_node"][1]["variable_name"] = MARKUP
    document["summary"][0][MARKUP] = MARKUP
    for row in document["instruction"]:
        row |= {"opcode": MARKUP, "nki_source_location": MARKUP + "\x1b[2J"}
    look(profile.from_json(MARKUP + "\x1b[2J.json", document))
