"""Recordings of a NeuronCore: folders of files, found again by what was run.

Question  has this call been measured on this chip, by whom, and is the recording whole?
Answer    recordings() -> every good one, newest first, and what is wrong with the others;
          find(key); part(), save() put one there, whole or not at all
Assumes   a folder belongs to its recording: nobody else writes into it
Ignores   how a capture is made (runner), whether to believe its time (plausibility)

A recording is work/recorded/<chip>-<kernel>-<UTC stamp>-<4 hex>/, which git ignores, or, one that
ships, a folder of assets/recorded/neuron/. recording.json holds the schema, the key of the call,
provenance, flags and the SHA-256 of every other file: the profiler's own as they came
(summary.json, timeline.json or parquet/, kernel.neff, *.ntff, log.txt) or our rewrite of them
(profile.json), and the source as run: kernel.py, and in sources/ what it imports of its own. A
name that starts with "." is no recording.
"""

import contextlib
import errno
import functools
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from ..profile import Profile
from ..profile import read as read_profile
from ..profile.facts import UNSURE
from ..table import aligned, printable
from . import recording
from .launches import OWN, arrays_text, digests_of, source_hash
from .plausibility import Flag, excluded
from .recording import RecordingError

SCHEMA = "roofline-device/1"
AGAIN = "Capture again; the folder was left as it is"
SHIPPED = Path("assets", "recorded", "neuron")  # from the book's folder
PROFILES = ("timeline.json", "profile.json", "parquet", "summary.json")  # the first there is read
LARGEST = 2**20  # bytes of a recording.json
FILE = re.compile(r"(?!\.)[\w@+=-][\w.@+=-]{0,120}(?:/[\w@+=-][\w.@+=-]{0,120}){0,5}", re.ASCII)


class Field(NamedTuple):
    """A field of provenance: its type, and whether every recording has it."""

    kind: type
    needed: bool
    about: str


# Versions and what else may be unknown are None then, or left out.
PROVENANCE: Mapping[str, Field] = {
    "kind": Field(str, True, '"measured"'),
    "chip": Field(str, True, '"trn1", "inf2" or "trn2"'),
    "instance": Field(str, False, "trn2.3xlarge"),
    "lnc": Field(int, True, "physical cores that ran the kernel: 1 or 2"),
    "cores": Field(list, True, "numbers of the logical cores it ran on"),
    "alongside": Field(list, False, "numbers of the cores that ran it at the same time"),
    "kernel": Field(str, True, "name of the kernel"),
    "kernel_sha256": Field(str, True, "of kernel.py, and of sources/ where there are some"),
    "shapes": Field(list, True, "shape of each array"),
    "dtypes": Field(list, True, "dtype of each array"),
    "parameters": Field(dict, True, "the kernel's other arguments by name"),
    "execution": Field(str, True, '"second of 2"'),
    "warm": Field(bool, True, "whether an execution came before it"),
    "date": Field(str, True, "UTC: 2026-08-21T12:30:00Z"),
    "python": Field(str, True, "version"),
    "nki": Field(str, False, "version"),
    "compiler": Field(str, False, "version of neuronx-cc"),
    "explorer": Field(str, False, "version of neuron-explorer"),
    "sdk": Field(str, False, "version of the Neuron SDK"),
    "driver": Field(str, False, "version"),
    "runtime": Field(str, False, "version"),
    "framework": Field(str, False, '"standalone", or name and version of the framework'),
    "schema": Field(str, False, "what the profile says of its own schema and version"),
    "dge": Field(bool, False, "whether DMA notifications were on"),
    "notes": Field(list, False, "what else to know, in words"),
    "synthetic": Field(bool, False, "made by the tests' stand-in, and by no device"),
}


# --- one recording --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """One capture that was saved.

    folder      where it is
    key         of the launch: launch.key(chip)
    provenance  who ran what, where and when: see PROVENANCE
    flags       what is odd about it
    files       SHA-256 of each file, by its path in the folder
    """

    folder: Path
    key: str
    provenance: Mapping[str, Any]
    flags: tuple[Flag, ...]
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def chip(self) -> str:
        return str(self.provenance["chip"])

    @property
    def kernel(self) -> str:
        return str(self.provenance["kernel"])

    @property
    def synthetic(self) -> bool:
        """Made by the tests' stand-in: no device ran."""
        return bool(self.provenance.get("synthetic"))

    @property
    def excluded(self) -> bool:
        """Whether a flag leaves its figures out of roofs and fits."""
        return excluded(self.flags)

    @property
    def label(self) -> str:
        """Whose figures these are, short: instance, LNC, NKI, day."""
        told = self.provenance.get
        said = [str(told("instance") or self.chip), f"LNC {told('lnc')}"]
        said += [f"NKI {told('nki')}"] if told("nki") else []
        said.append(str(told("date"))[:10])
        return "synthetic (test stand-in): " * self.synthetic + ", ".join(said)

    @functools.cached_property
    def profile(self) -> Profile:
        """The profile, with this provenance and these flags.

        Raises ProfileError where the file is none, RecordingError where it is the output of a
        simulation or a file was changed since.
        """
        there = next(name for name in PROFILES if any(
            file == name or file.startswith(f"{name}/") for file in self.files))
        path = self.folder / there
        if path.is_dir():  # the explorer nests its tables
            path = min((self.folder / file).parent for file in self.files
                       if file.startswith(f"{there}/"))
        _verify(self)
        found = _parsed(path, tuple(sorted(self.files.items())))
        if found.kind != "measured":
            raise RecordingError(f"{self.name}/{there}: a recording is measured; this profile says "
                                 "that it is of a simulation. Capture on a device")
        if UNSURE in found.warnings:  # a summary alone does not tell
            found = replace(found, cores=self.provenance["lnc"], warnings=tuple(
                text for text in found.warnings if text != UNSURE))
        return replace(found, name=self.name, flags=tuple(map(str, self.flags)),
                       provenance=MappingProxyType({**self.provenance, "label": self.label}))

    def __repr__(self) -> str:
        said = self.provenance
        shapes = arrays_text(zip(said["shapes"], said["dtypes"], strict=True))
        call = " ".join([self.kernel, *(f"{k}={v}" for k, v in said["parameters"].items())])
        lines = [f"{self.name}: {self.label}", f"  {call} of {shapes}; {said['execution']}"]
        return "\n".join([*lines, *(f"  flag: {flag}" for flag in self.flags)])


@functools.lru_cache(16)
def _parsed(path: Path, files: tuple[tuple[str, str], ...]) -> Profile:
    """The profile of files with these digests: a page finds the same ones again and again."""
    return read_profile(path)


def load(folder: Path) -> Recording:
    """The recording in a folder. Raises RecordingError, and changes nothing, when it is bad."""
    found = _listed(folder)
    _verify(found)
    return found


def _listed(folder: Path) -> Recording:
    """What recording.json says; whether the files are so is for _verify."""
    name = printable(folder.name, 120)
    path = folder / "recording.json"
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            raise RecordingError(f"{name}/recording.json: expected a file of up to {LARGEST:,} "
                                 f"bytes, got a link or a larger one. {AGAIN}")
        return _recording(folder, name, recording.document(path, SCHEMA, AGAIN))
    except OSError as error:
        raise RecordingError(f"{name}: no recording.json ({error.strerror}). {AGAIN}") from None
    except RecordingError as error:
        said = str(error)
        raise RecordingError(said if said.startswith(name) else f"{name}/{said}") from None


def _recording(folder: Path, name: str, data: dict[str, Any]) -> Recording:
    """The recording of a parsed recording.json, every part of it checked."""
    _only(name, data, {"key": str, "provenance": dict, "flags": list, "files": dict})
    if not re.fullmatch(r"[0-9a-f]{8,64}", data["key"]):
        raise _wrong(f"{name}.key", "8 to 64 hex digits", data["key"])
    provenance = checked(f"{name}.provenance", data["provenance"])
    for flag in data["flags"]:
        if not isinstance(flag, str) or ": " not in flag:
            raise _wrong(f"{name}.flags", 'texts "name: what"', flag)
    files = data["files"]
    for file, digest in files.items():
        if not FILE.fullmatch(file) or not isinstance(digest, str):
            raise _wrong(f"{name}.files", "paths within the folder, each with its SHA-256", file)
    source = {file: digest for file, digest in files.items() if is_source(file)}
    if OWN not in source or source_hash(source) != provenance["kernel_sha256"]:
        raise RecordingError(f"{name}: {OWN}{', sources/' * (len(source) > 1)} is not the source "
                             f"that was run: its SHA-256 is not kernel_sha256. {AGAIN}")
    if not any(file.partition("/")[0] in PROFILES for file in files):
        raise RecordingError(f"{name}: expected a profile ({', '.join(PROFILES)}), got none. "
                             f"{AGAIN}")
    _refuse_stand_in(name, provenance)
    return Recording(folder, data["key"], MappingProxyType(provenance),
                     tuple(Flag.of(printable(flag, 1000)) for flag in data["flags"]),
                     MappingProxyType(dict(files)))


def is_source(file: str) -> bool:
    """Whether a recording's file of this name is of the kernel's source."""
    return file == OWN or file.startswith("sources/")


def _only(where: str, data: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Exactly these keys, each of its type."""
    if odd := sorted(set(kinds) ^ set(data)):
        state = "missing" if odd[0] in kinds else "unknown"
        raise RecordingError(f"{where}.{printable(odd[0], 60)}: field {state}. {AGAIN}")
    for key, kind in kinds.items():
        if not isinstance(data[key], kind):
            raise _wrong(f"{where}.{key}", _NAMES[kind], data[key])


_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "a list",
          dict: "an object"}


def _wrong(where: str, expected: str, got: object) -> RecordingError:
    return RecordingError(f"{where}: expected {expected}, got {printable(repr(got), 60)}. {AGAIN}")


def checked(where: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Provenance with every needed field and no unknown one; unknown values are left out.

    Raises RecordingError for a field that is missing, unknown or of another type, and for a number
    that is no finite one of 63 bits.
    """
    found = {}
    for name, value in data.items():
        field = PROVENANCE.get(name)
        if field is None:
            raise RecordingError(f"{where}.{printable(name, 60)}: field unknown. {AGAIN}")
        if value is None and not field.needed:
            continue
        if not isinstance(value, field.kind) or (isinstance(value, bool) and
                                                 field.kind is not bool):
            raise _wrong(f"{where}.{name}", f"{_NAMES[field.kind]}: {field.about}", value)
        found[name] = _plain(f"{where}.{name}", value)
        if name == "parameters" and found[name] != value:  # the key is made from them
            raise _wrong(f"{where}.{name}", "texts of up to 200 printable characters", value)
    for name, field in PROVENANCE.items():
        if field.needed and name not in found:
            raise RecordingError(f"{where}.{name}: field missing: {field.about}. {AGAIN}")
    for name, fits, expected in _rules(found):
        if not fits:
            raise _wrong(f"{where}.{name}", expected, found[name])
    return found


def _rules(said: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
    """(field, whether it is as it has to be, what was expected)."""
    def whole(value: Any, least: int) -> bool:
        return isinstance(value, list) and all(
            type(one) is int and one >= least for one in value)

    def texts(value: Any) -> bool:
        return all(isinstance(one, str) for one in value)

    return [
        ("kind", said["kind"] == "measured", "'measured'"),
        ("chip", bool(re.fullmatch(r"[a-z]{3}\d", said["chip"])), PROVENANCE["chip"].about),
        ("lnc", said["lnc"] in (1, 2), "1 or 2"),
        ("cores", whole(said["cores"], 0) and len(said["cores"]) > 0, PROVENANCE["cores"].about),
        ("alongside", whole(said.get("alongside", []), 0), PROVENANCE["alongside"].about),
        ("kernel_sha256", bool(re.fullmatch(r"[0-9a-f]{64}", said["kernel_sha256"])),
         "64 hex digits"),
        ("shapes", all(whole(shape, 1) for shape in said["shapes"]), "lists of sizes >= 1"),
        ("dtypes", texts(said["dtypes"]) and len(said["dtypes"]) == len(said["shapes"]),
         "one name for each shape"),
        ("parameters", not any(isinstance(value, (list, dict))
                               for value in said["parameters"].values()),
         "numbers, short texts, true, false or null by name"),
        ("date", bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z", said["date"])),
         PROVENANCE["date"].about),
        ("notes", texts(said.get("notes", [])), "a list of texts"),
    ]


def _plain(where: str, value: Any, depth: int = 0) -> Any:
    """The value with its texts fit to be shown and its numbers finite and of 63 bits at most."""
    if isinstance(value, str):
        return printable(value, 200)
    if (isinstance(value, float) and not math.isfinite(value)) or (
            isinstance(value, int) and abs(value) >= 2**63) or depth > 3:
        raise _wrong(where, "a finite number of at most 63 bits", value)
    if isinstance(value, (list, tuple)):
        return [_plain(where, one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {printable(key, 80): _plain(where, one, depth + 1) for key, one in value.items()}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise _wrong(where, "numbers, texts, true, false or null", value)


def _refuse_stand_in(name: str, provenance: Mapping[str, Any]) -> None:
    """What the tests' stand-in recorded is for tests, and has to say so."""
    told = bool(provenance.get("synthetic"))
    named = any("stand-in" in str(value).lower() for value in provenance.values())
    if named and not told:
        raise RecordingError(f"{name}: it comes from the tests' stand-in and does not say that it "
                             "is synthetic; no device ran. Delete the folder")
    if told and "PYTEST_CURRENT_TEST" not in os.environ:
        raise RecordingError(f"{name}: synthetic, made by the tests' stand-in: no device ran. It "
                             "is read by the course's own tests alone; delete the folder")


def _verify(of: Recording) -> None:
    """Its files are there, in the folder, unchanged; none lies unlisted in parquet/, sources/."""
    base, name = of.folder.resolve(), printable(of.name, 120)
    try:
        for file, digest in of.files.items():
            path = base.joinpath(*file.split("/"))
            if path.resolve() != path:
                raise RecordingError(f"{name}/{file}: a link, which may lead out of the folder; a "
                                     f"recording holds the files themselves. {AGAIN}")
            if not path.is_file():
                raise RecordingError(f"{name}/{file}: missing. {AGAIN}")
            if _digest(path) != digest:
                raise RecordingError(f"{name}/{file}: changed since it was saved (SHA-256). "
                                     f"{AGAIN}")
        for inner in ("parquet", "sources"):
            for path in (base / inner).rglob("*"):
                if not path.is_dir() and path.relative_to(base).as_posix() not in of.files:
                    raise RecordingError(f"{name}/{inner}: {printable(path.name, 80)} is not one "
                                         f"of its files. {AGAIN}")
    except OSError as error:
        raise RecordingError(f"{name}: cannot be read ({error.strerror}). {AGAIN}") from None


def _digest(path: Path) -> str:
    """SHA-256 of a file, which may be larger than memory."""
    state = path.stat()
    return _hashed(path, state.st_size, state.st_mtime_ns, state.st_ino)


@functools.lru_cache(4096)
def _hashed(path: Path, *state: int) -> str:
    """Of a file in this state: a page asks for the same ones again and again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- all of them ----------------------------------------------------------------------------------


class NoRecording(RecordingError, LookupError):
    """There is no such recording."""


class Problem(NamedTuple):
    """A folder that holds no good recording, and why."""

    name: str
    why: str


class Recordings(Sequence[Recording]):
    """Recordings, one's own first, the newest first; `problems`: folders that were left out.

    Raises NoRecording for a place beyond them.
    """

    def __init__(self, found: Iterable[Recording], problems: Iterable[Problem]) -> None:
        self._found, self.problems = tuple(found), tuple(problems)

    @overload
    def __getitem__(self, i: int) -> Recording: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Recording]: ...
    def __getitem__(self, i: int | slice) -> Recording | Sequence[Recording]:
        try:
            return self._found[i]
        except IndexError:
            bad = f", and {len(self.problems)} left out: see .problems" * bool(self.problems)
            raise NoRecording(f"recordings: got [{i}] of {len(self)}{bad}. Run Day 4 on an "
                              "instance with a NeuronCore to make some") from None

    def __iter__(self) -> Iterator[Recording]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        rows = [("recording", "of", "flags")]
        rows += [(one.name, one.label, ", ".join(flag.name for flag in one.flags) or "-")
                 for one in self._found]
        of = Counter(one.chip for one in self._found)
        lines = [", ".join(f"{n} of {chip}" for chip, n in of.items()) or "no recordings"]
        lines += aligned(rows) if self._found else []
        return "\n".join([*lines, *(f"left out: {one.why}" for one in self.problems)])


def home() -> Path:
    """Where one's own recordings go: work/recorded of the book, else of this folder."""
    return (recording.root() or Path.cwd()) / "work" / "recorded"


def folders(unread: list[Problem] | None = None) -> list[Path]:
    """Every folder that may be a recording, one's own first, the newest first.

    ROOFLINE_RECORDED=1 in the environment leaves out one's own.
    unread   gets what is there and cannot be listed
    """
    own = [] if os.environ.get("ROOFLINE_RECORDED") == "1" else [home()]
    shipped = [(recording.root() or Path.cwd()) / SHIPPED]
    found = []
    for base in (*own, *shipped):
        try:
            some = [path for path in base.iterdir()
                    if not path.name.startswith(".") and path.is_dir()]
            found += sorted(some, key=_stamp, reverse=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            if unread is not None:
                unread.append(Problem(base.name, f"{base}: cannot be read ({error.strerror}). "
                                                 "Make the folder readable"))
    return found


def _stamp(folder: Path) -> tuple[str, int]:
    """The UTC stamp in a folder's name, "" where it has none; within its second, the last write."""
    found = re.search(r"\d{8}T\d{6}Z", folder.name)
    try:
        written = folder.stat().st_mtime_ns
    except OSError:  # gone meanwhile
        written = 0
    return found[0] if found else "", written


def recordings(chip: str | None = None, kernel: str | None = None) -> Recordings:
    """Every good recording, of this chip and kernel where one is named; the newest first.

    Bad folders stop nothing: `.problems` says what is wrong with each.
    """
    found: list[Recording] = []
    problems: list[Problem] = []
    for folder in folders(problems):
        try:
            one = _listed(folder)
            if chip in (None, one.chip) and kernel in (None, one.kernel):
                _verify(one)
                found.append(one)
        except RecordingError as error:
            problems.append(Problem(printable(folder.name, 120), printable(error)))
    return Recordings(found, problems)


def find(key: str, *, core: int | None = None, alongside: Iterable[int] = ()) -> Recording | None:
    """The newest good recording of this call; one without an excluding flag if there is one.

    key        launch.key(chip)
    core       the logical core it ran on; any unless given
    alongside  the other cores that ran it at the same time: none for a core alone
    """
    others, best = set(alongside), None
    for folder in folders():
        with contextlib.suppress(RecordingError):
            one = _listed(folder)
            if one.key == key and set(one.provenance.get("alongside", ())) == others and (
                    core is None or one.provenance["cores"] == [core]):
                _verify(one)
                if not one.excluded:
                    return one
                best = best or one
    return best


# --- a new one ------------------------------------------------------------------------------------


@contextlib.contextmanager
def part() -> Iterator[Path]:
    """A fresh hidden folder beside the recordings, for a capture's files; gone when it is left.

    Raises RecordingError where it cannot be made.
    """
    folder = home() / f".part-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        for old in home().glob(".part-*-*"):
            if not _runs(old.name.split("-")[1]):
                shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(folder.parent, error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _runs(pid: str) -> bool:
    """Whether a process still runs, or may run; a killed notebook leaves its part, up to GB."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OverflowError, OSError):  # no number; somebody else's
        pass
    return True


def _unwritable(folder: Path, error: OSError) -> RecordingError:
    return RecordingError(f"{folder}: not saved ({error.strerror or error}); earlier recordings "
                          "are as they were. Free some space or make the folder writable")


def save(folder: Path, *, key: str, provenance: Mapping[str, Any],
         kernel: bytes | Mapping[str, bytes], flags: Iterable[Flag] = (),
         now: datetime | None = None) -> Recording:
    """Make a recording of the files in a part's folder: whole or not at all, under a new name.

    key         launch.key(chip)
    provenance  see PROVENANCE; kernel_sha256 is taken from `kernel`
    kernel      the source that was run, as bytes: it becomes kernel.py; of several files by name
                (launches.Launch.sources)

    Raises RecordingError where provenance is not complete, a file is a link, no profile is there,
    or the disk does not take it. Earlier recordings stay as they are.
    """
    try:
        files = {OWN: kernel} if isinstance(kernel, bytes) else kernel
        for file, text in files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(text)
        made = seal(folder, key, {**provenance,
                                  "kernel_sha256": source_hash(digests_of(files))}, flags)
        name = re.sub(r"[^A-Za-z0-9_]+", "_", made.kernel)[:40] or "kernel"
        place = _place(folder, f"{made.chip}-{name}-{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    except OSError as error:
        raise _unwritable(home(), error) from None
    return replace(made, folder=place)


def seal(folder: Path, key: str, provenance: Mapping[str, Any], flags: Iterable[Flag]) -> Recording:
    """Write recording.json, with the SHA-256 of every file that is in the folder.

    Raises RecordingError as `save` does, OSError where it cannot be written.
    """
    files = {path.relative_to(folder).as_posix(): _digest(path)
             for path in sorted(folder.rglob("*")) if not path.is_dir()}
    files.pop("recording.json", None)
    data = {"key": key, "provenance": checked("provenance", provenance),
            "flags": [str(flag) for flag in flags], "files": files}
    made = _recording(folder, "capture", data)
    _verify(made)
    _write(folder / "recording.json", {"schema": SCHEMA, **data})
    return made


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(data, indent=1, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _place(folder: Path, stem: str) -> Path:
    """Move a finished folder to a new name: who comes second to a name picks another."""
    for _ in range(16):
        place = home() / f"{stem}-{secrets.token_hex(2)}"
        if place.exists():
            continue
        try:
            os.rename(folder, place)  # never onto a recording: a folder with files is not replaced
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                continue
            raise
        return place
    raise OSError(f"no free name {stem}-...")
