"""Give a recording to others, without what is nobody's business.

Question  what of a recording can stand in the book, and does it say nothing about its owner?
Answer    contribute(recording) -> a folder with our rewrite of the profile, provenance and source;
          accept(folder) -> what is wrong with one, [] when nothing is
Assumes   paths, addresses, ids of the cloud and names of this machine look as they usually do
Ignores   who wrote a kernel and whether it may be given away: that is its owner's to decide

    python -m roofline.device.contributing NAME

A contribution is a recording of few files: profile.json (profile.write of what the reader
understood, so columns it does not know are gone, and of the summary and metadata known names
alone), kernel.py as run, what it imports of its own in sources/, and recording.json with hashes
made anew. Texts of the profile and notes
are rewritten. The source and the call are not, since the key of the launch is made from them: one
that names a path or an address is refused, with its lines.
"""

import contextlib
import getpass
import ipaddress
import json
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..count import Count
from ..profile import Profile, ProfileError, read, write
from ..table import printable
from . import store
from .launches import OTHER, key_of
from .plausibility import Flag, plausible
from .recording import RecordingError
from .store import Recording

FILES = ("profile.json", "kernel.py", "recording.json")  # and sources/
LARGEST = 50 * 2**20  # bytes of a file in the book
NEEDED = ("instance", "nki", "compiler", "explorer")  # besides what each recording has
GONE = "(left out)"
# What provenance says in words; the rest of it is numbers, or has a form of its own.
VERSIONS = ("python", "nki", "compiler", "explorer", "sdk", "driver", "runtime", "framework",
            "schema", "execution")
VERSION = re.compile(r"[\w.+, -]{1,80}", re.ASCII)
# Keys of Summary and Metadata that are about the capture and not about its owner.
SUMMARY = re.compile(r"[a-z][a-z0-9_]{0,80}_(time|bytes|flops|count|percent|ratio|intensity|size|"
                     r"cycles|ns|bandwidth|limit)")
METADATA = re.compile(
    r"is_simulation|num_physical_cores|vnc_enabled|ntff_version|data_version|instance_type|"
    r"profile_schema_version|ticks_per_nanosec|neuroncore_idx|neuron_device_idx|"
    r"num_dma_engines_per_neuroncore|(first|last)_hw_timestamp|"
    r"(explorer|compiler|runtime|driver|collectives)_version|[a-z_]{1,40}_(clock_freq|bandwidth)|"
    r"(tensor|vector|scalar|gpsimd)_engine_num_(rows|cols|channels)")
LINE = re.compile(r"(?:.*[\\/])?([\w.-]{1,80}:\d{1,7}(?::\d{1,7})?)")  # a path, then file:line


# --- what says something about the owner ----------------------------------------------------------


class Private(NamedTuple):
    """A piece of text that is nobody's business."""

    what: str
    text: str


_HEX = "[0-9a-f]"
_PATTERNS = [(what, re.compile(pattern, re.IGNORECASE)) for what, pattern in (
    ("a path", r"file:/{1,3}[^\s\"']+"),
    ("a path", r"(?<![\w./)\]~:])~?/(?:[\w.@+ -]*[\w.@+-]/)+[\w.@+-]*"),   # /home/a/b, ~/b
    ("a path", r"(?<![\w./])~[\w.-]+/[\w./@+-]*"),                         # ~alice/b
    ("a path", r"(?<![\w])/(?:home|users|root|tmp|mnt|efs|fsx|scratch)\b[\w./@+-]*"),
    ("a path", r"\b(?:home|users)/[\w.-]+[\w./@+-]*"),
    ("a path", r"(?<!\w)[a-z]:[\\/]{1,2}[\w.@+\\/ -]+"),
    ("a path", r"\\\\\w[\w.-]*\\[\w.\\$ -]+"),
    ("a bucket", r"\bs3://[\w./-]+"),
    ("a name", r"\b[\w.+-]+@(?!0x)[\w-]+(?:\.[\w-]+)*"),  # no operand bf16@0x100
    ("a name", r"\b(?:user(?:name)?|login|logname|hostname)\b\s*[:=]\s*[\"']?[\w.@-]+"),
    ("an id", rf"\b{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}\b"),
    ("an id of the cloud", r"\b(?:i|ami|vol|eni|vpc|subnet|sg|rtb|igw|snap|acl|lt|r|eipalloc|"
                           rf"fs)-{_HEX}{{8,17}}\b"),
    ("an id of the cloud", r"\barn:aws[\w-]*:[\w:/.*-]+"),
    ("an id of the cloud", r"(?<![\w.])\d{12}(?![\w.])"),
    ("an address", r"\b(?:ip|ec2)-\d{1,3}(?:-\d{1,3}){3}[\w.-]*"),
    ("an address", r"\b[\w-]+(?:\.[\w-]+)*\.(?:internal|local|amazonaws\.com|lan|corp)\b"),
    ("an address", rf"\b{_HEX}{{2}}(?::{_HEX}{{2}}){{5}}\b"),
)]
_NUMBERS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")  # an address, or a version
_COLONS = re.compile(rf"(?<![\w:.]){_HEX}{{0,4}}(?::{_HEX}{{0,4}}){{2,7}}(?![\w:.])",
                     re.IGNORECASE)
_COMMON = {"root", "user", "admin", "ubuntu", "ec2-user", "localhost", "runner", "jovyan", "home",
           "nki", "neuron", "trn1", "trn2", "inf2", "kernel", "python", "work", "main", "test"}


def private(text: str, words: frozenset[str] = frozenset(), version: bool = False
            ) -> list[Private]:
    """Paths, names, addresses and ids in a text, in order.

    words     names of this machine and its user
    version   four numbers with dots are a version, unless they are an address of a private network
    """
    found = [(match.start(), Private(what, match[0])) for what, pattern in _PATTERNS
             for match in pattern.finditer(text)]
    for match in _NUMBERS.finditer(text):
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            continue
        if not version or address.is_private:
            found.append((match.start(), Private("an address", match[0])))
    for match in _COLONS.finditer(text):
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:  # a time of day, a slice
            continue
        near = address.is_private and not (address.is_loopback or address.is_unspecified)
        if near or len(re.findall(rf"{_HEX}+", match[0], re.IGNORECASE)) > 2:  # no slice 1::2
            found.append((match.start(), Private("an address", match[0])))
    for word in words:
        found += [(match.start(), Private("a name", match[0])) for match in re.finditer(
            rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE)]
    return [one for _, one in sorted(found)]


def scrubbed(text: str, words: frozenset[str] = frozenset(), version: bool = False) -> str:
    """The text with each of these replaced."""
    for _ in range(4):  # what is left of one may be another
        found = sorted({one.text for one in private(text, words, version)}, key=len, reverse=True)
        if not found:
            return text
        for one in found:
            text = text.replace(one, GONE)
    return GONE


def own_words() -> frozenset[str]:
    """Names by which this machine and its user go, but for those that everybody's go by."""
    names = {platform.node(), platform.node().partition(".")[0], Path.home().name}
    with contextlib.suppress(OSError, KeyError):  # a user without a name
        names.add(getpass.getuser())
    return frozenset(name for name in names if len(name) > 2 and name.lower() not in _COMMON)


def _of_profile(profile: Profile, words: frozenset[str] = frozenset()) -> Profile:
    """The profile with known keys alone and its texts rewritten."""
    def clean(text: str) -> str:
        return scrubbed(text, words)

    def known(values: Mapping[str, Any], names: re.Pattern[str]) -> dict[str, Any]:
        kept = {key: value.partition("%")[0] if isinstance(value, str) else value
                for key, value in values.items()
                if names.fullmatch(key) and not private(key, words)}
        return {key: scrubbed(value, words, version=True) if isinstance(value, str) else value
                for key, value in kept.items() if not isinstance(value, str) or (
                    names is METADATA and VERSION.fullmatch(value))}

    own = profile.timeline
    if own is not None:
        rows = own.instructions
        lines = tuple(clean(found[1]) if (found := LINE.fullmatch(line)) else clean(line)
                      for line in rows.lines)
        own = replace(own, instructions=replace(
            rows, lines=lines, opcodes=tuple(map(clean, rows.opcodes))))
    return replace(
        profile, timeline=own, summary=known(profile.summary, SUMMARY),
        metadata=known(profile.metadata, METADATA), warnings=tuple(map(clean, profile.warnings)),
        tensors=tuple(replace(one, name=clean(one.name), role=clean(one.role))
                      for one in profile.tensors))


def _of_provenance(said: Mapping[str, Any], words: frozenset[str]) -> dict[str, Any]:
    """Provenance with its texts rewritten; those that make the key are left as they are."""
    found = dict(said)
    for name in VERSIONS:
        if name in found:
            found[name] = scrubbed(found[name], words, version=True)
    if "notes" in found:
        found["notes"] = [scrubbed(note, words) for note in found["notes"]]
    return found


# --- giving --------------------------------------------------------------------------------------


def contribute(of: Recording | str, folder: Path | str | None = None) -> Path:
    """Write a recording for others: a new folder of its name in `folder`, which is returned.

    of      one of recordings(), or its name
    folder  work/contributions of the book unless given

    Raises RecordingError for a recording that is synthetic, is left out of roofs and fits, does
    not know its instance or versions, or whose source or call says something about its owner; and
    where the folder is there already or cannot be written.
    """
    of = _named(of) if isinstance(of, str) else of
    words = own_words()
    if wrong := [*_unfit(of), *_in_call(of, words)]:
        raise RecordingError(f"{of.name}: not for others: {'; '.join(wrong)}")
    base = Path(folder) if folder is not None else store.home().parent / "contributions"
    place = base / of.name
    if place.exists():
        raise RecordingError(f"{place}: is there already; it was left as it is. Delete it, or pass "
                             "another folder")
    part = base / f".{of.name}-{secrets.token_hex(4)}.part" / of.name
    try:
        part.mkdir(parents=True)
        _written(of.profile, part / "profile.json", words)
        for file in filter(store.is_source, of.files):
            (part / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(of.folder / file, part / file)
        store.seal(part, of.key, _of_provenance(of.provenance, words),
                   [Flag.of(scrubbed(str(flag), words)) for flag in of.flags])
        if wrong := accept(part):
            raise RecordingError(f"{of.name}: not for others: {'; '.join(wrong)}")
        os.rename(part, place)
    except OSError as error:
        raise RecordingError(f"{place}: not written ({error.strerror or error}). Free some space "
                             "or pass another folder") from None
    finally:
        shutil.rmtree(part.parent, ignore_errors=True)
    return place


def _written(profile: Profile, path: Path, words: frozenset[str] = frozenset()) -> Path:
    """The profile as a contribution has it: what is written of what was read of the first try.

    Other formats have what json has not; read back, it is gone.
    """
    write(_of_profile(profile, words), path)
    return write(_of_profile(read(path), words), path)


def _named(name: str) -> Recording:
    there = store.recordings()
    for one in there:
        if one.name == name:
            return one
    why = next((problem.why for problem in there.problems if problem.name == name), "")
    raise RecordingError(why or f"{printable(name, 120)}: no recording of this name; there are: "
                                f"{', '.join(one.name for one in there) or 'none'}")


def _unfit(of: Recording) -> list[str]:
    """Why it is not for others, whatever its texts say."""
    said = of.provenance
    wrong = ["it is synthetic, and no device ran"] * of.synthetic
    wrong += [f"it is flagged: {flag}" for flag in of.flags if flag.excluded]
    wrong += [f"provenance lacks {name}" for name in NEEDED if not said.get(name)]
    instance = str(said.get("instance") or "")
    if instance and not re.fullmatch(r"[a-z]{3}\d[a-z]{0,2}\.\d{0,3}x?large", instance):
        wrong.append(f"instance: expected one like trn2.3xlarge, got {printable(instance, 40)}")
    elif instance and not instance.startswith(of.chip):
        wrong.append(f"a {instance} has no {of.chip}")
    shapes = tuple((tuple(shape), dtype) for shape, dtype in zip(
        said["shapes"], said["dtypes"], strict=True))
    if of.key != key_of(said["kernel_sha256"], of.kernel, shapes, said["parameters"], said["lnc"],
                        of.chip):
        wrong.append("its key is not that of its source, shapes, parameters, LNC and chip")
    return wrong


def _in_call(of: Recording, words: frozenset[str] = frozenset()) -> list[str]:
    """What the source, the names of its files and the call say about their owner."""
    said, wrong = of.provenance, []
    for file in filter(store.is_source, of.files):
        lines = (of.folder / file).read_text("utf-8", "replace").splitlines()
        wrong += [f"{file}, line {at}: {one.what}, {printable(one.text, 60)}"
                  for at, line in enumerate(lines, start=1) for one in private(line, words)]
        wrong += [f"{file}: {one.what}, {printable(one.text, 60)}"
                  for part in file.split("/") for one in private(part, words)]
    texts = [*said["parameters"], *said["dtypes"], said["kernel"],
             *(value for value in said["parameters"].values() if isinstance(value, str))]
    return wrong + [f"the call: {one.what}, {printable(one.text, 60)}"
                    for text in texts for one in private(text, words)]


# --- taking --------------------------------------------------------------------------------------


def accept(path: Path | str) -> list[str]:
    """What is wrong with a contribution, in words; [] when it can stand in the book.

    The files named above and no others, as contribute() writes them, unchanged; a recording that
    may be given; no path, name, address or id in any text; no time faster than its own W and Q
    allow.
    """
    path = Path(path)
    if path.is_symlink() or not path.is_dir():
        return [f"{path.name}: expected a folder, as contribute() writes it"]
    there = {file.relative_to(path).as_posix(): file for file in path.rglob("*")
             if file.is_symlink() or not file.is_dir()}
    sources = {name for name in there if OTHER.fullmatch(name)}
    wrong = [f"{printable(name, 80)}: {what}" for what, names in (
        ("not a file of a contribution", there.keys() - {*FILES} - sources),
        ("missing, or a link", {name for name in (*FILES, *sources) if name not in there
                                or there[name].is_symlink() or not there[name].is_file()}))
             for name in sorted(names)]
    wrong += [f"{name}: more than {LARGEST:,} bytes" for name, file in there.items()
              if file.is_file() and file.stat().st_size > LARGEST]
    if wrong:
        return wrong
    wrong = [f"{name}: {one.what}, {printable(one.text, 60)}" for name in FILES
             if name.endswith(".json") for one in _in_file(path / name)]
    try:
        of = store.load(path)
        return [*wrong, *_unfit(of), *_in_call(of), *_changed(of)]
    except (RecordingError, ProfileError) as error:
        return [*wrong, str(error)]


def _in_file(file: Path) -> list[Private]:
    """What the texts of a JSON file say about its owner, keys and values alike, each once."""
    try:
        document = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return []  # who reads it says so
    return list(dict.fromkeys(one for text, version in dict.fromkeys(_texts(document))
                              for one in private(text, version=version)))


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, bool]]:
    """Every text in a document, and whether its key says that it is a version."""
    if isinstance(value, str):
        yield value, key in VERSIONS or key.endswith("_version")
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name, False
            yield from _texts(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, key)


def _changed(of: Recording) -> list[str]:
    """Whether it is what contribute() would write, and whether its time can be."""
    profile = of.profile
    wrong = []
    ran, instance = str(profile.get("instance_type") or ""), of.provenance.get("instance", "")
    if ran != (instance if "." in ran else instance[:len(ran)]):  # "trn2", or the whole name
        wrong.append(f"profile.json: it ran on {printable(ran, 40)}, and provenance says "
                     f"{instance}")
    if _of_provenance(of.provenance, frozenset()) != dict(of.provenance):
        wrong.append("recording.json: its texts are not as contribute() writes them")
    with tempfile.TemporaryDirectory() as scratch:
        again = write(_of_profile(profile), Path(scratch) / "profile.json").read_bytes()
    if again != (of.folder / "profile.json").read_bytes():
        wrong.append("profile.json: not as contribute() writes it: it has keys, columns or texts "
                     "that a contribution has not")
    return wrong + [f"profile.json: {flag}" for flag in plausible(profile, _own_count(profile))
                    if flag.excluded]


def _own_count(profile: Profile) -> Count:
    """What the profile itself counted; its bytes where it does not tell the dtypes of its work."""
    with contextlib.suppress(ProfileError):
        return profile.count
    return Count({}, int(profile.needs("hbm_read_bytes")), int(profile.needs("hbm_write_bytes")))


def main(names: list[str]) -> int:
    """Contribute the recordings of these names."""
    if not names:
        print(f"{store.recordings()!r}\npython -m roofline.device.contributing NAME")
        return 1
    for name in names:
        try:
            print(f"{contribute(name)}: read it, then add it to {store.SHIPPED} and open a pull "
                  "request")
        except (RecordingError, ProfileError) as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
