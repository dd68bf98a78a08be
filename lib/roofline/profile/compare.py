"""W and Q by hand or by code against the profiler's, and where each difference comes from.

Question  why do the FLOPs and bytes of a profile differ from those of the formula or the code?
Answer    compare(count_or_run, profile) -> Comparison: a closed list of causes that sums exactly
Assumes   both are of the same kernel at the same scope
Ignores   time: bytes that cost none are here and not in the ledger (gaps)
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import units
from ..count import Count, count_of
from ..table import aligned
from . import formulas
from .columns import TINY
from .record import Profile, ProfileError

# Every cause, in the order in which the difference is explained.
DOUBLING = "LNC doubling"
TRANSPOSES = "transposes"
PASSES = "fp32 passes"
SPILL = "spill"
FETCH = "instruction fetch"
CONSTANTS = "constants"
SAVED = "reload saved by the compiler"
UNEXPLAINED = "unexplained"
CAUSES = {
    DOUBLING: "both cores ran all of it, so half of all that was counted comes twice",
    TRANSPOSES: "matmuls of the Tensor Engine that move data and are no work",
    PASSES: "an fp32 matmul runs as several, and each counts as a whole one",
    SPILL: "the compiler stored to HBM what did not fit on chip, and loaded it again",
    FETCH: "instructions are read through DMA, and here count as HBM bytes",
    CONSTANTS: "tensors of the compiled kernel that are none of yours, such as an identity matrix",
    SAVED: "the source loads it more than once, the compiled kernel did not",
    UNEXPLAINED: "what no cause of this list accounts for",
}


class Amounts(NamedTuple):
    """FLOPs, bytes read and bytes written at HBM; of a difference: profiler minus code."""

    flops: int = 0
    read: int = 0
    written: int = 0

    def less(self, *others: "Amounts") -> "Amounts":
        """These without those, each by itself."""
        return Amounts(*(own - sum(each) for own, *each in zip(self, *others, strict=True)))


@dataclass(frozen=True, repr=False)
class Comparison:
    """The code's count, the profiler's, and by cause what the profiler has more.

    code       W without transposes
    profiler   hardware_flops with all that is in it; hbm_read_bytes, hbm_write_bytes
    causes     every one of CAUSES; sums to profiler - code in each column
    notes      what is unknown, and which tensors are meant
    """

    code: Count
    profiler: Amounts
    causes: dict[str, Amounts]
    notes: tuple[str, ...] = ()

    def __getitem__(self, cause: str) -> Amounts:
        return self.causes[cause]

    def __iter__(self) -> Iterator[tuple[str, Amounts]]:
        return iter(self.causes.items())

    @property
    def difference(self) -> Amounts:
        """Profiler minus code."""
        return self.profiler.less(_amounts(self.code))

    @property
    def explained(self) -> bool:
        """Whether nothing is left unexplained."""
        return not any(self.causes[UNEXPLAINED])

    def __repr__(self) -> str:
        def row(name: str, of: Amounts, sign: str, ai: float | None = None) -> tuple[str, ...]:
            shown = not sign or name.strip() == UNEXPLAINED
            cells = [f"{x:{sign if x else ''},}" if x or shown else "" for x in of]
            return (name, *cells, "" if ai is None else units.significant(ai, 4))

        found = [(cause, of) for cause, of in self if any(of) or cause == UNEXPLAINED]
        own = Amounts(self.profiler.flops - self.causes[TRANSPOSES].flops * (
            2 if any(self.causes[DOUBLING]) else 1), *self.profiler[1:])
        cells = [("", "W, FLOP", "Q read, B", "Q written, B", "I, FLOP/B"),
                 row("code", _amounts(self.code), "", self.code.intensity),
                 *(row(f"  {cause}", of, "+") for cause, of in found),
                 row("profiler", self.profiler, "",
                     formulas.intensity(own.flops, own.read + own.written))]
        why = [f"{cause}: {CAUSES[cause]}" for cause, of in found if any(of)]
        return "\n".join([*aligned(cells, left=(0,)), *(
            line for text in (*why, *self.notes)
            for line in textwrap.wrap(text, 98, subsequent_indent="  "))])


def compare(code: Any, profile: Profile) -> Comparison:
    """W, Q and I of a Count, an op, a nest or an NKI Run against the profiler's.

    The differences go to the causes of CAUSES in that order; what is left is unexplained, exactly.
    A Run tells more than a Count: which tensors are its own and which it loads several times.
    I is F / B on the profiler's side: transposes are left out of it, as the profiler does.

    Raises ProfileError for anything else, or where the profile lacks FLOPs or HBM bytes.
    """
    count = count_of(code)
    if count is None or not isinstance(profile, Profile):
        got = type(profile if count else code).__name__
        raise ProfileError(f"compare: got {got}; expected a Count, or an op, nest or Run that has "
                           "one, and then a Profile")
    if (f := formulas.flops(profile)) is None:
        profile.needs("hardware_flops")
    whole = Amounts(int(formulas.number(profile, "hardware_flops") or f or 0),
                    int(profile.needs("hbm_read_bytes")), int(profile.needs("hbm_write_bytes")))
    transposes, saved, loaded = (int(formulas.number(profile, name) or 0) for name in (
        "transpose_flops", "spill_save_bytes", "spill_reload_bytes"))
    found = dict.fromkeys(CAUSES, Amounts())
    own, twice = _amounts(count), 1
    if _doubled(count, getattr(code, "lnc", 1), profile, whole.less(
            Amounts(transposes, loaded, saved))):
        found[DOUBLING], twice = Amounts(*(amount // 2 for amount in whole)), 2
    found[TRANSPOSES] = Amounts(transposes // twice)
    found[SPILL] = Amounts(0, loaded // twice, saved // twice)
    found[FETCH] = Amounts(0, _fetched(profile, whole) // twice)

    def left() -> Amounts:
        return whole.less(own, *found.values())

    found[PASSES] = Amounts(_passes(count, profile, left().flops) // (
        twice if profile.matmul_flops else 1))
    found[CONSTANTS], found[SAVED], named = _tensors(code, profile, left().read)
    found[UNEXPLAINED] = left()
    notes = [f"{name} is unknown: the file does not have it" for name in (
        "transpose_flops", "spill_save_bytes", "spill_reload_bytes")
        if formulas.number(profile, name) is None]
    return Comparison(count, whole, found, (*named, *notes))


def _amounts(count: Count) -> Amounts:
    return Amounts(count.flops, count.hbm_read_bytes, count.hbm_write_bytes)


def _doubled(count: Count, lnc: int, profile: Profile, of: Amounts) -> bool:
    """Whether both cores of a pair did all that the code counts once.

    of   without transposes and spill. Work and bytes written must be double to the last one, and
         bytes read at least: constants, too, are loaded twice. A timeline has to show both at work
    """
    of_one = profile.timeline is not None and len(profile.timeline.working) != 2
    if profile.cores != 2 or lnc == 2 or of_one:
        return False
    rows = profile.matmul_flops
    once = [sum(row.once for row in rows.values())] if rows else [
        of.flops, of.flops - 2 * count.work.get("fp32", 0)]
    return (any(_amounts(count)) and 2 * count.flops in once
            and of.written == 2 * count.hbm_write_bytes and of.read >= 2 * count.hbm_read_bytes)


def _passes(count: Count, profile: Profile, left: int) -> int:
    """FLOPs that rows of one matmul count more than once.

    Without a timeline: those of the code's fp32 work once more, if that is just what is left.
    """
    rows = profile.matmul_flops
    if rows:
        return sum(row.counted - row.once for row in rows.values())
    again = count.work.get("fp32", 0)
    return again if left == again else 0


def _fetched(profile: Profile, whole: Amounts) -> int:
    """Bytes of instruction fetch within the HBM bytes: only if the traffic leaves room for them."""
    if profile.timeline is None:
        return 0
    packets = profile.timeline.packets
    fetch = int(packets.nbytes[~packets.traffic & (packets.nbytes > TINY)].sum())
    traffic = int(packets.nbytes[packets.traffic].sum())
    return fetch if len(packets) and whole.read + whole.written - traffic >= fetch else 0


def _tensors(code: Any, profile: Profile, left: int) -> tuple[Amounts, Amounts, list[str]]:
    """Constants loaded, reloads saved, and the constants' names; left: bytes read to explain.

    A Run names its tensors, so a WEIGHT that is not among them is a constant, whatever is left.
    A Count may include the weights, and a summary names none: constants are then no more than
    what is left.
    """
    tensors = code.tensors if hasattr(code, "counters") else ()  # a Run's; an op's do not cross
    mine = {tensor.name for tensor in tensors}
    constants = [t for t in profile.tensors if t.role == "WEIGHT" and t.name not in mine]
    loaded = sum(t.nbytes for t in constants) if profile.tensors else (
        int(formulas.number(profile, "weight_size_bytes") or 0))
    loaded = loaded if mine and profile.tensors else min(loaded, max(left, 0))
    again = sum(max(t.read - t.bytes, 0) for t in tensors)
    saved = min(max(loaded - left, 0), again)
    names = ", ".join(f"{t.name} {t.nbytes:,} B" for t in constants)
    return (Amounts(0, loaded), Amounts(0, -saved),
            [f"tensors that may be constants: {names}"] * bool(names and loaded))
