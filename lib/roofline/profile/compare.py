"""W and Q by hand or by code against the profiler's, and where each difference comes from.

Question  why do the FLOPs and bytes of a profile differ from those of the formula or the code?
Answer    compare(count_or_run, profile) -> Comparison: a closed list of causes that sums exactly
Assumes   both are of the same kernel at the same scope
Ignores   time: bytes that cost none are here and not in the ledger (gaps)

A cause needs evidence: a counter, rows, a tensor of the list, each core's own sum. It explains no
more than what is left of the difference and never has the other sign, so causes of opposite sign
that cancel each other do not show; notes tell of evidence that found no room, and of what would
settle the rest.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .. import units
from ..count import Count, count_of
from ..table import aligned, wrapped
from . import formulas
from .columns import TINY
from .record import Profile, ProfileError

PROFILER, MODEL = "profiler", "model"  # who counted, of a measured profile and of a modelled one
COUNTS_PASSES = (2, 28)  # the last profiler known to count every pass of an fp32 matmul
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
    CONSTANTS: "weights of the compiled kernel beyond what you count, such as an identity matrix",
    SAVED: "the source loads it more than once, the compiled kernel did not",
    UNEXPLAINED: "what no cause of this list accounts for",
}


class Amounts(NamedTuple):
    """FLOPs, bytes read and bytes written at HBM; of a difference: profiler minus code."""

    flops: int = 0
    read: int = 0
    written: int = 0

    @property
    def moved(self) -> int:
        """Bytes at HBM, read and written together."""
        return self.read + self.written

    def less(self, *others: "Amounts") -> "Amounts":
        """These without those, each by itself."""
        return Amounts(*(own - sum(each) for own, *each in zip(self, *others, strict=True)))

    def within(self, room: "Amounts") -> "Amounts":
        """Of these what has the sign of the room, and no more than it."""
        return Amounts(*(min(own, max(r, 0)) if own > 0 else max(own, min(r, 0))
                         for own, r in zip(self, room, strict=True)))

    def __str__(self) -> str:
        return ", ".join(f"{x:,} {what}" for x, what in zip(
            self, ("FLOP", "B read", "B written"), strict=True) if x) or "nothing"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The code's count, the profiler's, and by cause what the profiler has more.

    code       W without transposes
    profiler   hardware_flops with all that is in it; hbm_read_bytes, hbm_write_bytes. Of a
               modelled profile they are the model's
    whose      "profiler", or "model": what the table calls it
    causes     every one of CAUSES; sums to profiler - code in each column
    intensity  the profiler's F / B, transposes left out; None where they are unknown
    notes      what is unknown, which tensors are meant, and what would settle the rest
    """

    code: Count
    profiler: Amounts
    causes: dict[str, Amounts]
    intensity: float | None = None
    notes: tuple[str, ...] = ()
    whose: str = PROFILER

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
            told = "" if ai is None else units.significant(ai, 4) if math.isfinite(ai) else "inf"
            return (name, *cells, told)

        found = [(cause, of) for cause, of in self if any(of) or cause == UNEXPLAINED]
        cells = [("", "W, FLOP", "Q read, B", "Q written, B", "I, FLOP/B"),
                 row("code", _amounts(self.code), "", self.code.intensity),
                 *(row(f"  {cause}", of, "+") for cause, of in found),
                 row(self.whose, self.profiler, "", self.intensity)]
        why = [f"{cause}: {CAUSES[cause]}" for cause, of in found if any(of)]
        return "\n".join([*aligned(cells, left=(0,)), *wrapped([*why, *self.notes])])


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
    total, f = formulas.number(profile, "hardware_flops"), formulas.flops(profile)
    whole = Amounts(int(profile.needs("hardware_flops") if f is None or total is not None else f),
                    int(profile.needs("hbm_read_bytes")), int(profile.needs("hbm_write_bytes")))
    saved, loaded = (int(formulas.number(profile, f"spill_{way}_bytes") or 0)
                     for way in ("save", "reload"))
    evident = {TRANSPOSES: Amounts(0 if f is None else whole.flops - int(f)),
               PASSES: Amounts(sum(max(row.counted - row.once, 0)
                                   for row in profile.matmul_flops.values())),
               SPILL: Amounts(0, loaded, saved), FETCH: Amounts(0, _fetched(profile, whole.read))}
    found, notes = dict.fromkeys(CAUSES, Amounts()), []

    def left() -> Amounts:
        return whole.less(_amounts(count), *found.values())

    doubled, note = _doubled(count, getattr(code, "lnc", 1), profile, whole.less(
        evident[TRANSPOSES], evident[SPILL]))
    notes += note
    if doubled:
        found[DOUBLING] = Amounts(*(n // 2 for n in whole)).within(left())
        evident = {cause: Amounts(*(n // 2 for n in of)) for cause, of in evident.items()}
    for cause, of in evident.items():
        found[cause] = of.within(left())
        if found[cause] != of:
            notes.append(f"{cause}: the profile has {of}, and what is left to explain holds "
                         f"{found[cause]} of it: the code counts it too, or has more than the "
                         "kernel did")
    if not any(evident[PASSES]):
        found[PASSES], note = _again(count, profile, left().flops)
        notes += note
    found[CONSTANTS], found[SAVED], note = _tensors(code, profile, left())
    notes += note
    found[UNEXPLAINED] = left()
    notes += _settles(code, profile, found[UNEXPLAINED])
    notes += [f"{name} is unknown: the file does not have it" for name, amount in (
        ("transpose_flops", f), *((name, formulas.number(profile, name)) for name in (
            "spill_save_bytes", "spill_reload_bytes"))) if amount is None]
    ai = None if f is None else formulas.intensity(f, whole.read + whole.written)
    return Comparison(count, whole, found, ai, tuple(notes),
                      MODEL if profile.kind == "modelled" else PROFILER)


def _amounts(count: Count) -> Amounts:
    return Amounts(count.flops, count.hbm_read_bytes, count.hbm_write_bytes)


def _doubled(count: Count, lnc: int, profile: Profile, of: Amounts) -> tuple[bool, list[str]]:
    """Whether both cores of a pair did all that the code counts once, and a note if they may have.

    of   without transposes and spill. Work and bytes written must be double to the last one, and
         bytes read at least: constants, too, are loaded twice. The rows of each core must say so
    """
    own = _amounts(count)
    rows = profile.matmul_flops.values()
    once = [sum(row.once for row in rows)] if rows else [
        of.flops, of.flops - 2 * count.work.get("fp32", 0)]
    if not (profile.cores == 2 and lnc != 2 and any(own) and 2 * own.flops in once
            and of.written == 2 * own.written and of.read >= 2 * own.read):
        return False, []
    known = profile.timeline.unknown if profile.timeline else {"instructions"}
    if known & {"instructions", "instructions.read", "instructions.written"} or (
            own.flops and not rows):
        return False, [f"{DOUBLING}: the profile has just twice what the code counts. Both cores "
                       "may have run all of it, or the code's count is that of one core's share; "
                       "a timeline (json, parquet) would show each core's own sums"]
    first, second = (_sums(profile, core) for core in (0, 1))
    booked = own.read <= first.read and own.written <= first.written
    return booked and first == second, []


def _sums(profile: Profile, core: int) -> Amounts:
    """What the rows of one core count, each matmul once."""
    of = profile.timeline
    assert of is not None
    own = of.instructions.take(of.instructions.core == core)
    alone = replace(profile, timeline=replace(of, instructions=own))
    mine = alone.within(own.start)
    return Amounts(sum(row.once for row in alone.matmul_flops.values()),
                   int(own.read[mine].sum()), int(own.written[mine].sum()))


def _again(count: Count, profile: Profile, left: int) -> tuple[Amounts, list[str]]:
    """Passes where no rows tell them: the code's fp32 work once more, if that is just what is left.

    Only of a profiler that is known to count each pass.
    """
    again = count.work.get("fp32", 0)
    if not again or left != again or profile.matmul_flops:
        return Amounts(), []
    if (wrote := formulas.version(profile)) and wrote <= COUNTS_PASSES:
        return Amounts(again), []
    return Amounts(), [f"{PASSES}: what is left is just the fp32 work once more. Profilers up to "
                       "2.28 count each of two passes; a timeline (json, parquet) would show them"]


def _fetched(profile: Profile, read: int) -> int:
    """Bytes of instruction fetch within the HBM bytes read.

    Only if the bytes that no instruction row reads are just those of the fetch packets.
    """
    of = profile.timeline
    if of is None or of.unknown & {"instructions", "instructions.read", "packets",
                                   "packets.traffic"}:
        return 0
    fetches = ~of.packets.traffic & (of.packets.nbytes > TINY)
    fetch = int(of.packets.nbytes[fetches & profile.within(of.packets.start)].sum())
    rows = of.instructions
    return fetch if read - int(rows.read[profile.within(rows.start)].sum()) == fetch else 0


def _tensors(code: Any, profile: Profile, left: Amounts) -> tuple[Amounts, Amounts, list[str]]:
    """Constants loaded, reloads saved, and a note on the tensors that may be the constants.

    Constants are WEIGHT tensors in the profile's list that a Run does not name as its own. A
    Count may include weights or not: what is left to explain is all that speaks for constants.
    """
    tensors = code.tensors if hasattr(code, "counters") else ()  # a Run's; an op's do not cross
    mine = {tensor.name for tensor in tensors}
    constants = [t for t in profile.tensors if t.role == "WEIGHT" and t.name not in mine]
    listed = Amounts(0, sum(t.nbytes for t in constants))
    loaded = listed.within(left)
    again = sum(max(t.read - t.bytes, 0) for t in tensors)
    saved = Amounts(0, -again).within(left)
    names = ", ".join(f"{t.name} {t.nbytes:,} B" for t in constants)
    notes = [f"tensors that may be constants: {names}"] * any(loaded)
    if mine and loaded != listed:
        notes.append(f"{CONSTANTS}: {names} are in the file's list, and what is left to explain "
                     f"holds {loaded} of it: a saved reload may hide them")
    return loaded, saved, notes


def _settles(code: Any, profile: Profile, left: Amounts) -> list[str]:
    """A note on what would tell more of what is left, where the file or the code lacks it."""
    more = []
    if left.flops and not profile.matmul_flops:
        more.append("rows of a timeline (json, parquet) that tell passes and transposes")
    if left.read > 0 and not profile.tensors:
        weights = int(formulas.number(profile, "weight_size_bytes") or 0)
        more.append("the list of tensors (json, parquet)" + bool(weights) * (
            f": weights are {weights:,} B, constants or what the code leaves out"))
    if left.read < 0 and not hasattr(code, "counters"):
        more.append("a Run of the code, which knows what it loads again")
    return [f"{UNEXPLAINED}: more would tell {'; '.join(more)}"] * bool(more)
