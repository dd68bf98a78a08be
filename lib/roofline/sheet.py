"""Every number of a machine on one page: value, kind, source, rivals, and which the course uses.

Question  what does this chip allow, and who says so?
Answer    sheet.of("trn2"): rows by group, ridges, conflicts; as text, as one page, as CSV
Assumes   machine's rows, and recordings handed in as Specs; the words are in sheet.toml
Ignores   what no row of machine says; which figure is right (Day 4 measures that)
"""

import csv
import html
import io
import math
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import zip_longest
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from . import units
from .machine import ALL, INSTANCES, Machine, MachineError, Spec, get

NEURON = tuple(key for key, m in ALL.items() if m.scope == "core")
RECORDED = ("measured", "published", "modelled")  # kinds of a recording
OWN = ("used", "shown")  # roles of a row's own figure; the others are "rival", "recorded"

_TEXT = tomllib.loads(files(__package__).joinpath("sheet.toml").read_text("utf-8"))
WORDS: dict[str, dict[str, str]] = _TEXT["words"]  # group -> fact -> its words
SOURCES: dict[str, str] = _TEXT["sources"]  # key -> short name
CONTEXT = "Device and instance"
_GROUP = {stem: group for group, words in WORDS.items() for stem in words}
_PLACE = {stem: at for at, stem in enumerate(_GROUP)}
NO_WORDS = "Other facts"  # where a fact stands that WORDS does not know, by its own name
_ORDER = (*WORDS, NO_WORDS)
SYMBOLS = {"peaks": "P", "bandwidths": "BW", "ridges": "I*"}
# nki.language.tile_size.<name>; where the fact itself has that name, it stands as it is.
NKI = {name: name for name in ("pmax", "gemm_stationary_fmax", "gemm_moving_fmax",
                               "psum_bank_fmax", "psum_num_banks", "bn_stats_fmax")}
NKI |= {"sbuf_bytes": "sbuf_size_bytes", "sbuf_partition_bytes": "sbuf_fmax_bytes",
        "psum_bank_partition_bytes": "psum_bank_fmax_bytes"}
# Sizes that are products of other facts, shown as such where the product agrees.
PRODUCTS = {"sbuf_bytes": ("pmax", "sbuf_partition_bytes"),
            "psum_bytes": ("pmax", "psum_num_banks", "psum_bank_partition_bytes")}
WIDTH = 96  # columns of text output
NAME = 34  # columns of it that a name may take before it wraps

# Shown, but the course computes with another figure of the same thing.
NOT_USED = ("documented_ridge", "lone_core_bandwidth",
            "figure_sbuf_bandwidth", "figure_psum_bandwidth",
            "figure_sbuf_over_hbm_bandwidth", "figure_sbuf_bytes", "figure_hbm_bytes",
            "figure_host_dram_bandwidth", "figure_host_dram_bytes", "vector_peak_flops",
            "scalar_peak_flops", "dma_engine_theoretical", "neuronlink_bandwidth")

# Facts that stand as a rival of a bandwidth, and so need no row of their own.
AS_RIVALS = {"figure_hbm_bandwidth": "HBM", "dma_profiler_bandwidth": "DMA"}

AS_OF = "21 August 2026, SDK 2.32"  # of the Neuron documentation, as sources.md has it
KEY = ("Bold: the course computes with it. Grey: shown only; rival: another source's figure of "
       "the same quantity. P: peak, FLOP/s. BW: bandwidth, B/s. Ridge: P / BW. Neuron documents of "
       f"{AS_OF}.")


class Settles(NamedTuple):
    """How Day 4 settles a conflict, and the facts that are figures of the same thing."""

    how: str
    beside: tuple[str, ...] = ()


SETTLES = {name: Settles(" ".join(row["how"].split()), tuple(row.get("beside", ())))
           for name, row in _TEXT["settles"].items()}


@dataclass(frozen=True, repr=False)
class Row:
    """One quantity of a machine at one scope.

    fact      its name in machine: "peaks.bf16", "bandwidths.HBM", "ridges.bf16",
              "vector_width.bf16"
    of        the dtype, level or place it holds for; "" where there is but one
    symbol    of the roofline (P, BW, I*) or NKI's name (gemm_moving_fmax); "" without one
    spec      the figure; its rivals are what other sources say
    used      whether the course computes with it
    recorded  recordings of the same quantity, where one was handed in; of a ridge, P over each
              recorded bandwidth
    """

    group: str
    quantity: str
    fact: str
    of: str
    symbol: str
    spec: Spec
    scope: str
    used: bool = True
    recorded: tuple[Spec, ...] = ()

    @property
    def text(self) -> str:
        """The value with its unit."""
        return self.spec.text

    @property
    def kind(self) -> str:
        """One of machine.KINDS."""
        return self.spec.kind

    @property
    def source(self) -> str:
        """Key in references.bib, then the place."""
        return self.spec.source

    @property
    def holds(self) -> str:
        """When it is true, or what it was computed from."""
        return self.spec.holds

    @property
    def rivals(self) -> tuple[Spec, ...]:
        """Other figures of the same quantity."""
        return self.spec.rivals

    @property
    def words(self) -> str:
        """Quantity, and what it is of."""
        return _words([self])

    @property
    def figures(self) -> tuple[tuple[str, Spec], ...]:
        """(role, figure): the row's own ("used" or "shown"), its rivals, its recordings."""
        return (("used" if self.used else "shown", self.spec),
                *(("rival", s) for s in self.rivals),
                *(("recorded", s) for s in self.recorded))

    def __repr__(self) -> str:
        cells = [(s.text, role, _key(s), f"{s.kind}: {figure_of(s)}")
                 for role, s in self.figures]
        return "\n".join([self.words, *_lines(cells)])


class Conflict(NamedTuple):
    """Figures of one quantity that disagree, the one used first, and how Day 4 settles it."""

    quantity: str
    fact: str
    figures: tuple[Spec, ...]
    settles: str


class Conflicts(tuple[Conflict, ...]):
    """The conflicts of a sheet, shown with what each figure is a figure of."""

    __slots__ = ()

    def _said(self, i: int) -> str:
        """The sentence of a conflict; once, after the last of a run that shares it."""
        last = i + 1 == len(self) or self[i + 1].settles != self[i].settles
        return self[i].settles if last else ""

    def __repr__(self) -> str:
        lines: list[str] = []
        for i, one in enumerate(self):
            lines += ["", one.quantity, *_lines([
                (s.text, _key(s), f"{s.kind}: {figure_of(s)}") for s in one.figures])]
            if settles := self._said(i):
                lines += textwrap.wrap(f"Day 4: {settles}", WIDTH, initial_indent="  ",
                                       subsequent_indent="    ")
        return "\n".join(lines[1:])

    def _repr_html_(self) -> str:
        body = "".join(
            f'<tbody><tr><th colspan="4" scope="rowgroup">{_e(one.quantity)}</th></tr>'
            + "".join(f'<tr class="{"rival" if i else "used"}">{_cells(s)}</tr>'
                      for i, s in enumerate(one.figures))
            + (f'<tr class="settles"><td colspan="4">Day 4: {_e(self._said(at))}</td></tr>'
               if self._said(at) else "") + "</tbody>"
            for at, one in enumerate(self))
        head = "".join(f'<th scope="col">{name}</th>'
                       for name in ("Figure", "Kind", "Source", "A figure of"))
        return (f'<div class="rl-conflicts" tabindex="0"><table><thead><tr>{head}</tr></thead>'
                f"{body}</table></div>")


@dataclass(frozen=True, repr=False)
class Sheet:
    """What is known of one machine at one scope; sheet.of makes it.

    rows   every roof and fact of the scope once, its ridges, throttled peaks where no row says
           by what share, then what the device and its instances add
    """

    machine: Machine
    rows: tuple[Row, ...]

    def __getitem__(self, fact: str) -> Row:
        """The row of a fact: "HBM", "bf16" (its peak), "ridges.fp32", "pmax", "cores".

        Raises MachineError for a name that is not there.
        """
        return self.rows[_find(self.machine, self.rows, fact)]

    @property
    def conflicts(self) -> Conflicts:
        """Where figures of one quantity disagree, with what each is a figure of."""
        found: dict[object, tuple[list[Row], Conflict]] = {}
        for row in self.rows:
            settles = settled(row, self.machine)
            beside = self._beside(settles.beside if settles else ())
            if settles is None or not (row.rivals or beside) or (
                    _stem(row.fact) == "ridges" and row.of != next(iter(self.machine.peaks))):
                continue
            said = {s.text for s in (row.spec, *row.rivals)}
            figures = (replace(row.spec, rivals=()), *row.rivals,
                       *(s for s in beside if s.text not in said))
            figures += row.recorded
            key = (row.quantity, row.scope, tuple(s.text for s in figures))
            rows = [*(found[key][0] if key in found else ()), row]
            found[key] = rows, Conflict(_words(rows), rows[0].fact, figures, settles.how)
        return Conflicts(conflict for _, conflict in found.values())

    def _beside(self, facts: Iterable[str]) -> list[Spec]:
        """Figures of those facts and of their rivals; "a+b" is a sum of facts."""
        known = {row.fact: row.spec if row.spec.unit else replace(
                     row.spec, holds=f"{row.words}: {row.holds}") for row in reversed(self.rows)}
        found = []
        for name in facts:
            terms = [known[term] for term in name.split("+") if term in known]
            if len(terms) > 1:
                found.append(Spec(sum(t.value for t in terms), terms[0].unit, terms[0].source,
                                  "derived", " + ".join(t.text for t in terms)))
            elif terms:
                found += [replace(terms[0], rivals=()), *terms[0].rivals]
        return found

    def csv(self, path: str | PathLike[str] | None = None) -> str:
        """CSV text, one line a figure, `value` in the base unit `unit`; also to a file.

        Raises OSError where the file cannot be written.
        """
        out = io.StringIO()
        write = csv.writer(out, lineterminator="\n")
        write.writerow(COLUMNS)
        for row in self.rows:
            for role, s in row.figures:
                key, _, place = s.source.partition(", ")
                write.writerow((self.machine.key, row.scope, row.group, row.quantity, row.of,
                                row.symbol, row.fact, role, s.text, _number(s.value), s.unit,
                                s.kind, key, place, s.holds))
        if path is not None:
            Path(path).write_text(out.getvalue(), "utf-8", newline="")
        return out.getvalue()

    def _groups(self) -> dict[str, list[list[Row]]]:
        """Group by group; rows that differ in their dtype alone are one."""
        groups: dict[str, dict[object, list[Row]]] = {}
        for row in self.rows:
            same = groups.setdefault(row.group, {})
            if _stem(row.fact) != "ridges":
                alike = (row.quantity, row.scope, tuple(
                    (role, s.text, s.kind, figure_of(s)) for role, s in row.figures))
                same.setdefault(alike, []).append(row)
        return {group: list(same.values()) for group, same in groups.items()}

    def _ridges(self) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
        """A column for each set of dtypes of one peak, a line for each bandwidth figure.

        A line is its role, the bandwidth, and the ridges.
        """
        columns: dict[tuple[float, ...], list[Row]] = {}
        for row in self.rows:
            if _stem(row.fact) == "ridges":
                columns.setdefault(tuple(s.value for _, s in row.figures), []).append(row)
        heads = [" ".join(row.of for row in same) for same in columns.values()]
        figures = zip(*(same[0].figures for same in columns.values()), strict=True)
        return heads, [
            (line[0][0], _short(line[0][1]), [units.significant(s.value, 4) for _, s in line])
            for line in figures]

    def __repr__(self) -> str:
        lines = [f"{self.machine.name} ({self.machine.key}, {self.machine.scope})"]
        for group, merged in self._groups().items():
            lines += ["", group]
            if group == "Ridge":
                heads, ridges = self._ridges()
                lines += _lines([("FLOP/B", *heads, "of the bandwidth")] + [
                    (role, *values, level) for role, level, values in ridges])
            lines += _lines([
                (_words(same, symbol=True) if role in OWN else f"  {role}",
                 "( ) " * (role == "shown") + s.text, _key(s), f"{s.kind}: {figure_of(s)}")
                for same in merged for role, s in same[0].figures])
        return "\n".join([*lines, "", "( ) shown; the course computes with another figure"])

    def _repr_html_(self) -> str:
        blocks = []
        for group, merged in self._groups().items():
            tables = [_ridge_table(*self._ridges())] if group == "Ridge" else []
            body = "".join(
                f'<tr class="{role}"><th scope="row">'
                f"{_title(same) if role in OWN else role}</th>"
                f"{_cells(s)}</tr>" for same in merged for role, s in same[0].figures)
            tables += [f"<table><tbody>{body}</tbody></table>"] * bool(body)
            blocks.append(f'<section><p class="rl-sheet-group">{_e(group)}</p>'
                          f"{''.join(tables)}</section>")
        return (f'<div class="rl-sheet" tabindex="0"><p class="rl-sheet-title">'
                f'{_e(self.machine.name)}</p><div class="rl-sheet-groups">{"".join(blocks)}'
                f'<p class="rl-sheet-key">{_e(KEY)} {self._sources()}</p></div></div>')

    def _sources(self) -> str:
        """Key of each source on the sheet, and its short name."""
        keys = {_key(s): None for row in self.rows for _, s in row.figures}
        return " ".join(f"<b>{_e(key)}</b> {_e(SOURCES[key])}." for key in keys if key in SOURCES)


COLUMNS = ("machine", "scope", "group", "quantity", "of", "symbol", "fact", "role", "text",
           "value", "unit", "kind", "source", "place", "holds")


def of(machine: str | Machine, scope: str | None = None,
       measured: Mapping[str, Spec] | None = None) -> Sheet:
    """The entitlement sheet of a machine.

    machine    its key ("trn2"), or a Machine, such as one that uses another figure
    scope      "core", "lnc2" or "device"; the smallest unless named
    measured   recordings by fact ("HBM", "bf16", "vector_element_rate.bf16"); each joins its
               row, and that of a bandwidth gives one more ridge, over the recorded peak where
               there is one; where they say of which chip and scope they are, as those of
               device.roofs do, it is the sheet's

    >>> of("trn2")["ridges.bf16"].text
    '209.7 FLOP/B'

    Raises MachineError for an unknown machine, scope or fact, a machine that is no Neuron chip,
    recordings of another chip or scope, and one that is no Spec, has another unit or a kind that
    is no recording.
    """
    m = get(machine, scope) if isinstance(machine, str) else machine.at(scope or machine.scope)
    if m.key not in NEURON:
        raise MachineError(f"sheet.of: got {m.key} ({m.name}); a sheet has words for "
                           f"{', '.join(NEURON)}. Show the machine itself: machine.get({m.key!r})")
    _same_scope(m, measured)
    rows = [*_roofs(m), *_facts(m)]
    if "throttle_start" not in m.facts:
        rows += _throttled(m)
    if m.scope == "core":
        rows += _not_restated(m, {row.fact for row in rows})
    if m.scope in ("core", "lnc2"):
        whole = get(m.key, "device")
        rows += [replace(row, group=CONTEXT) for row in [*_roofs(whole), *_facts(whole)]
                 if row.rivals or row.group == CONTEXT or _stem(row.fact) in (
                     "hbm_bytes", "bandwidths", "link_intra_server", "link_inter_server",
                     "link_inter_rack")]
    rows += [_row("devices", name, s.facts["devices"], "instance")
             for name, s in INSTANCES.items() if name.startswith(m.key) and name != m.key]
    for fact, spec in (measured or {}).items():
        at = _find(m, rows, fact)
        rows[at] = _recorded(m, rows[at], spec)
    rows += _ridges(m, rows)
    rows.sort(key=lambda row: (_ORDER.index(row.group), row.scope != m.scope,
                               _PLACE.get(_stem(row.fact), len(_PLACE))))
    return Sheet(m, tuple(rows))


def settled(row: Row, machine: Machine) -> Settles | None:
    """How Day 4 settles what is in conflict about a row; None where nothing is."""
    names = [f"{before}{name}" for name in (row.fact, _stem(row.fact)) for before in (
        f"{machine.key} {row.scope} ", f"{machine.key} ", f"{row.scope} ", "")]
    return next((SETTLES[name] for name in names if name in SETTLES), None)


def figure_of(spec: Spec) -> str:
    """What a figure is a figure of: what it says itself, or the place it is from."""
    key, _, place = spec.source.partition(", ")
    under = "printed under " if spec.kind == "documented" and place else ""
    printed = spec.holds or under + (place or key)
    if spec.unit == "B/s" and spec.kind == "documented" and spec.value % 2**30 == 0:
        gib = spec.value / units.UNITS["GiB/s"][0]
        return f"{units.significant(gib)} GiB/s; {printed}"  # base units hide what was printed
    return printed


# --- rows ------------------------------------------------------------------------------------


def _stem(fact: str) -> str:
    return fact.partition(".")[0]


def _row(stem: str, of: str, spec: Spec, scope: str) -> Row:
    group = _GROUP.get(stem, NO_WORDS)
    symbol = SYMBOLS.get(stem, NKI.get(stem, "") if scope == "core" else "")
    return Row(group, WORDS.get(group, {}).get(stem, stem), f"{stem}.{of}" if of else stem, of,
               symbol, spec, scope, stem not in NOT_USED)


def _roofs(m: Machine) -> list[Row]:
    return [_row(stem, of, _explained(m, stem, of, spec), m.scope) for stem in (
        "peaks", "bandwidths") for of, spec in getattr(m, stem).items()]


def _facts(m: Machine) -> list[Row]:
    return [_row(*name.partition(".")[::2], _multiplied(m, name, _explained(
        m, "facts", name, spec)), m.scope) for name, spec in m.facts.items()
        if name not in AS_RIVALS]


def _explained(m: Machine, what: str, name: str, spec: Spec) -> Spec:
    """"8 cores" and "an even share of 8 cores" say of which figure: that of the other scope."""
    other = get(m.key, "device" if m.scope == "core" else "core")
    stack = get(m.key, "device").facts.get("hbm_stack_bandwidth")
    base = getattr(other, what).get(name)
    bases = (base, *base.rivals) if base else ()

    def explained(s: Spec) -> Spec:
        if m.scope == "lnc2" and what == "bandwidths" and stack and s.value == stack.value:
            return replace(s, holds=stack.holds.replace("one HBM stack", "the stack itself"))
        cores = re.search(r"([0-9]+) cores$", s.holds)
        n = int(cores[1]) if cores else 0
        for b in bases if n else ():
            if m.scope == "core" and math.isclose(s.value * n, b.value):
                share = s.holds.removesuffix(f" of {n} cores")
                return replace(s, holds=f"{b.text} / {n}; {share}")
            if m.scope != "core" and math.isclose(b.value * n, s.value):
                about = b.holds if m.scope == "lnc2" or what == "facts" else ""
                apart = "two separate memories" * (m.scope == "lnc2" and name in PRODUCTS)
                return replace(s, holds="; ".join(filter(None, (f"{n} x {b.text}", about, apart))))
        return s

    return replace(explained(spec), rivals=tuple(explained(rival) for rival in spec.rivals))


def _multiplied(m: Machine, name: str, spec: Spec) -> Spec:
    width = m.facts.get(name.replace("_element_rate", "_width"))
    if width and name.partition(".")[0].endswith("_element_rate"):
        said = (f"the width is derived: {width.holds}" if width.kind == "derived" else
                "an upper bound" * width.holds.endswith("an upper bound"))
        return replace(spec, holds="; ".join(filter(None, (spec.holds, said))))
    factors = [m.facts[factor] for factor in PRODUCTS.get(name, ()) if factor in m.facts]
    if not factors or math.prod(f.value for f in factors) != spec.value or spec.holds:
        return spec
    return replace(spec, holds=" x ".join(f.text for f in factors))


def _throttled(m: Machine) -> list[Row]:
    start = get(m.key).facts.get("throttle_start")
    return [replace(_row("ceilings", c.roof, replace(
                c.spec, source=start.source if start else c.spec.source, rivals=(),
                holds=c.spec.holds.partition("; ")[0]), m.scope), quantity=f"peak, {c.name}")
            for c in m.ceilings]


def _not_restated(m: Machine, known: set[str]) -> list[Row]:
    """What the guide of NeuronCore-v2 says of a matmul's issue, where this core's does not.

    The course computes with it, as an assumption (derate).
    """
    v2 = get("trn1")
    return [replace(row, spec=replace(
                row.spec, kind="assumed", holds="not restated for this core; " + row.holds))
            for row in _facts(v2) if row.group == "Matmul issue" and row.fact not in known
            and "pmax" in known]


def _ridges(m: Machine, rows: Iterable[Row]) -> list[Row]:
    """A ridge for each dtype: over the slow link as used, then over each other figure of it.

    A recorded bandwidth is below the recorded peak where there is one, and both are its sources.

    What crosses HBM crosses the DMA engines too; what crosses a link are other bytes.
    """
    rows = [row for row in rows if row.scope == m.scope]
    figures = [(row.of or m.slow_link, role, s) for row in rows
               if row.fact in (f"bandwidths.{m.slow_link}", "bandwidths.DMA",
                               "lone_core_bandwidth")
               for role, s in row.figures]

    def ridge(peak: Row, level: str, role: str, bw: Spec) -> Spec:
        own = peak.recorded if role == "recorded" else ()
        p = own[0] if own else peak.spec
        said = ", ".join([level] + [bw.kind] * (role == "recorded"))
        return Spec(p.value / bw.value, "FLOP/B", "; ".join(s.source for s in (bw, *own)),
                    "assumed" if "assumed" in (p.kind, bw.kind) else "derived",
                    f"{p.text} / {bw.text} ({said}); {figure_of(bw)}")

    found = []
    for peak in rows:
        if _stem(peak.fact) == "peaks":
            first, *rivals = (ridge(peak, *one) for one in figures if one[1] != "recorded")
            recorded = tuple(ridge(peak, *one) for one in figures if one[1] == "recorded")
            found.append(replace(_row("ridges", peak.of, replace(first, rivals=tuple(rivals)),
                                      m.scope), recorded=recorded))
    return found


def _short(ridge: Spec) -> str:
    """The bandwidth of a ridge, and the first words on it; its own row says the rest."""
    bw, *words = (part for part in ridge.holds.partition(" / ")[2].split("; ") if part != "about")
    return "; ".join([bw, *words[:1]])


def _find(m: Machine, rows: Sequence[Row], fact: str) -> int:
    """Where the row of a fact stands; that of the sheet's own scope before the device's."""
    names = (fact, f"bandwidths.{fact}", f"peaks.{fact}")
    found = [at for at, row in enumerate(rows) if row.fact in names]
    if found:
        return min(found, key=lambda at: rows[at].scope != m.scope)
    known = ", ".join(row.fact for row in rows if row.scope == m.scope)
    raise MachineError(f"{m.key}, {m.scope}: no such row: got {fact!r}; known: {known}")


def _same_scope(m: Machine, measured: Mapping[str, Spec] | None) -> None:
    """A pair's bandwidth is no core's. Recordings that do not say whose they are pass."""
    chip, scope = getattr(measured, "chip", m.key), getattr(measured, "scope", m.scope)
    if (chip, scope) != (m.key, m.scope):
        raise MachineError(f"{m.key}, {m.scope}: recordings: got those of {chip}, {scope}; "
                           "expected the sheet's own chip and scope. Show them on "
                           f"sheet.of({chip!r}, {scope!r}, measured=...)")


def _recorded(m: Machine, row: Row, spec: Spec) -> Row:
    if not isinstance(spec, Spec):
        raise MachineError(f"{m.key}, {m.scope}: recording of {row.fact}: got {spec!r}; expected a "
                           "Spec: value, unit, source and kind, such as measured")
    if spec.unit != row.spec.unit:
        raise MachineError(f"{m.key}, {m.scope}: recording of {row.fact}: unit {spec.unit!r}; "
                           f"expected {row.spec.unit!r}")
    if spec.kind not in RECORDED:
        raise MachineError(f"{m.key}, {m.scope}: recording of {row.fact}: kind {spec.kind!r}; "
                           f"expected one of {', '.join(RECORDED)}. What a document says is a "
                           "rival: put it into machine.toml")
    return replace(row, recorded=(spec,))


# --- text and HTML ----------------------------------------------------------------------------


def _words(same: Sequence[Row], symbol: bool = False) -> str:
    """The quantity of rows that differ in what they are of alone."""
    row, of = same[0], " ".join(one.of for one in same)
    device = row.scope == "device" and row.group == CONTEXT and "device" not in row.quantity
    parts = (f"{of} {row.quantity}", "") if row.symbol == "BW" else (row.quantity, of)
    return ", ".join(filter(None, ("device" * device, *parts, row.symbol if symbol and
                                   _stem(row.fact) in NKI else "")))


def _title(same: Sequence[Row]) -> str:
    symbol = same[0].symbol
    return _e(_words(same)) + (f" <code>{_e(symbol)}</code>" if symbol else "")


def _number(value: float) -> str:
    """As many digits as a float holds without noise; whole numbers in full."""
    return str(int(value)) if value == int(value) else f"{value:.12g}"


def _lines(cells: Sequence[tuple[str, ...]]) -> list[str]:
    """Aligned columns; the first and the last one, which are words, wrap."""
    if not cells:
        return []
    widths = [min(max(map(len, column)), NAME) for column in zip(*cells, strict=True)]
    widths[-1] = max(WIDTH - sum(widths[:-1]) - 2 * len(widths), 24)
    found = []
    for row in cells:
        wrapped = [textwrap.wrap(cell, width, break_long_words=False, subsequent_indent="  ")
                   if at == 0 else textwrap.wrap(cell, width, break_long_words=False)
                   for at, (cell, width) in enumerate(zip(row, widths, strict=True))]
        found += ["".join(f"  {cell:{width}}" for cell, width in zip(line, widths, strict=True))
                  .rstrip() for line in zip_longest(*wrapped, fillvalue="")]
    return found


def _e(text: str) -> str:
    return html.escape(text)


def _key(spec: Spec) -> str:
    return spec.source.partition(",")[0]


# The sources of machine.toml, which are what the page of sources lists.
_LISTED = {_key(s) for m in (*ALL.values(), *(get(key, "device") for key in ALL),
                             *INSTANCES.values())
           for specs in (m.peaks, m.bandwidths, m.facts) for spec in specs.values()
           for s in (spec, *spec.rivals)}


def _cells(spec: Spec) -> str:
    source = key = _e(_key(spec))
    if _key(spec) in _LISTED:
        source = f'<a href="../sources.html#src-{key}">{key}</a>'
    return (f"<td>{_e(spec.text)}</td><td>{_e(spec.kind)}</td><td>{source}</td>"
            + (f"<td>{_e(figure_of(spec))}</td>" if spec.holds else
               f'<td><span class="place">{_e(figure_of(spec))}</span></td>'))


def _ridge_table(heads: list[str], ridges: list[tuple[str, str, list[str]]]) -> str:
    body = "".join(
        f'<tr class="{role}"><th scope="row">{_e(level)}</th>'
        + "".join(f"<td>{_e(value)}</td>" for value in values) + "</tr>"
        for role, level, values in ridges)
    head = "".join(f'<th scope="col">{_e(head)}</th>' for head in heads)
    return ('<table class="ridges"><thead><tr><th scope="col">P / BW in FLOP/B, BW</th>'
            f"{head}</tr></thead><tbody>{body}</tbody></table>")
