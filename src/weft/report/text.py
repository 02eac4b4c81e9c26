"""Formats profiles and their differences as lines of text with terminal styles."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from weft.report import facts, stages, words
from weft.report.words import WIDTH, Styled
from weft.values.analysis import (
    AnalysedProfile,
    Change,
    Differences,
    KernelCounters,
    Launched,
    Metric,
    simulated_counterpart,
)
from weft.values.profile import UNIT_COUNTERS

HOT = 12
"""The number of source lines shown, those with the most instructions."""


def text(p: AnalysedProfile) -> str:
    """The full report without styles."""
    return "\n".join(line for line, _ in view(p))


def view(p: AnalysedProfile) -> Iterator[Styled]:
    """The report: header, sections, hot lines, advice."""
    s, roof = p.launch, p.roofline
    yield f"{s.kernel}  grid {words.dims(s.grid)}, block {words.dims(s.block)}", "bold"
    # Counters are sums over merged launches.
    many = f"{p.launches} launches together, " if p.launches > 1 else ""
    yield f"{many}simulated {p.model.name}; ~ is modelled, all else is exact", "dim"
    if p.measured is not None:
        yield f"measured on the GPU: {words.duration(p.measured)} by events", ""
    if p.note:
        yield p.note, "dim"
    yield "", ""
    for section in p.sections:
        yield section.name, "bold"
        for metric in section.metrics:
            yield _metric(metric), ""
        for part in textwrap.wrap(section.says, WIDTH - 2):
            yield f"  {part}", "dim"
        yield "", ""
    yield from _roofline(p)
    yield from _lines(p)
    yield from stages.view(p)
    yield from _advice(p)
    yield (
        f"Bound by {roof.bound}: at least {words.duration(roof.bound_seconds)} (modelled).",
        "bold",
    )
    yield predicted(p), "bold"


def predicted(p: AnalysedProfile) -> str:
    """The line with the predicted time of one launch."""
    one = p.predicted
    each = " a launch" if p.launches > 1 else ""
    return f"Predicted: {words.duration(one.seconds)}{each} on {p.model.name}, by {one.bound}."


def launched(launches: Sequence[Launched], note: str = "") -> Iterator[Styled]:
    """Simulated kernels in full; kernels of libraries as a summary beside them."""
    whole = all(one.sim is None for one in launches)
    if note:
        yield note, "yellow"
    for one in launches:
        if one.ncu is not None and (one.sim is not None or whole):
            yield from of_ncu(one.ncu, one.sim)
        elif one.ncu is None and one.sim is not None:
            yield from view(one.sim)
    rest = [one.ncu for one in launches if one.sim is None and one.ncu is not None]
    if rest and not whole:
        yield from others(rest)


def of_ncu(c: KernelCounters, p: AnalysedProfile | None) -> Iterator[Styled]:
    """ncu's counters in the same sections, next to the simulator's values if there are any."""
    yield f"{c.kernel}  grid {words.dims(c.grid)}, block {words.dims(c.block)}", "bold"
    many = f"{c.launches} launches together, " if c.launches > 1 else ""
    if p is None:
        yield f"{many}counted on the GPU by ncu", "dim"
    else:
        yield f"{many}counted on the GPU by ncu; sim: on the {p.model.name} simulated", "dim"
        yield "~ is modelled; PTX: instructions as the compiler wrote them, ncu counts SASS", "dim"
    simulated = {m.id: m for s in p.sections for m in s.metrics} if p else {}
    for section in c.sections:
        yield "", ""
        title = f"{section.name:<43}{'ncu':>16}{'sim:':>17}" if simulated else section.name
        yield title, "bold"
        for metric in section.metrics:
            yield _metric(metric) + _beside(simulated_counterpart(metric, simulated)), ""
    yield "", ""


def others(kernels: Sequence[KernelCounters]) -> Iterator[Styled]:
    """One line for each kernel that a script's libraries launched."""
    yield "Others, which the simulator did not run: --kernel NAME shows all of one", "bold"
    yield f"  {'launches':>8} {'of':>10}  kernel", "dim"
    for c in kernels:
        taken = {m.id: words.value(m) for s in c.sections for m in s.metrics}
        row = f"  {c.launches:>8} {taken.get('gpu__time_duration.sum', ''):>10}  {c.kernel}"
        yield row[:WIDTH], ""
    yield "", ""


def _beside(m: Metric | None) -> str:
    if m is None:
        return ""
    of_ptx = "  PTX" if m.id.startswith("sim:ptx") else ""
    return f"{'~' if m.modelled else ' '}{words.value(m):>16}{of_ptx}"


def _metric(m: Metric) -> str:
    return f"  {m.label:<42}{'~' if m.modelled else ' '}{words.value(m):>16}"


def _roofline(p: AnalysedProfile) -> Iterator[Styled]:
    roof = p.roofline
    yield "Roofline", "bold"
    for level in roof.levels:
        yield (
            (
                f"  {level.name:<8}{'~' if level.modelled else ' '}"
                f"{level.intensity:>9.3g} operations a byte, allows"
                f" {words.amount(level.allows)} a second of {words.amount(roof.peak)}"
            ),
            "",
        )
    kind = f"{words.amount(roof.operations)} {roof.kind} operations"
    moved = words.size(roof.compulsory)
    yield f"  floor {words.duration(roof.floor)}: {kind}, {moved} that must be moved", "dim"
    yield "", ""


def _lines(p: AnalysedProfile) -> Iterator[Styled]:
    total = sum(line.executions for line in p.lines) or 1
    more = facts.columns(p)
    # The line with the most of each unit's work may be one that few threads execute.
    most = [max(p.lines, key=UNIT_COUNTERS[c.counter]) for c in more]
    by_weight = [*most, *sorted(p.lines, key=lambda line: -line.executions)]
    hot = {(line.file, line.number): line for line in by_weight}
    # Chosen by weight, shown in source order.
    shown = [hot[place] for place in sorted([*hot][:HOT])]
    if not shown:
        return
    yield "Source lines", "bold"
    heads = "".join(f" {c.head:>9}" for c in more)
    yield (
        f"  {'line':>5} {'instr':>6} {'sect/req':>9} {'wave/req':>9} {'lanes':>6}{heads}  source",
        "dim",
    )
    for line in shown:
        part = f"{100 * line.executions / total:.0f} %"
        row = (
            f"  {line.number:>5} {part:>6} {words.sectors(line):>9} {words.wavefronts(line):>9}"
            f" {words.lanes(line):>6}{''.join(f' {c.text(line):>9}' for c in more)}"
            f"  {line.quote.strip()}"
        )
        yield row[:WIDTH], ""
    yield "", ""


def _advice(p: AnalysedProfile) -> Iterator[Styled]:
    if not p.advice:
        return
    yield "Advice", "bold"
    for a in p.advice:
        where = f"  line {a.line}" if a.line else ""
        yield f"  {a.rule}{where}  ({a.limit})", "yellow"
        for part in (a.evidence, f"→ {a.change}"):
            for row in textwrap.wrap(part, WIDTH - 4):
                yield f"    {row}", ""
    yield "", ""


# ---- two profiles --------------------------------------------------------------------------------
def differences(c: Differences) -> Iterator[Styled]:
    """The changes between two profiles."""
    yield f"before: {c.names[0]}", "bold"
    yield f"after:  {c.names[1]}", "bold"
    yield "", ""
    if not c.sections and not c.lines:
        yield "Nothing changed.", ""
    for name, rows in c.sections:
        yield name, "bold"
        for row in rows:
            yield f"  {row.what:<42}{_change(row)}", ""
        yield "", ""
    if c.lines:
        yield "Source lines", "bold"
    for line in c.lines:
        mark = {(True, False): "-", (False, True): "+"}.get(
            (line.before is not None, line.after is not None), " "
        )
        number = line.after if line.after is not None else line.before
        yield f"{mark} {number:>5}  {line.quote}"[:WIDTH], {"-": "red", "+": "green"}.get(mark, "")
        for row in line.counters:
            yield f"           {row.what:<33}{_change(row)}", "dim"


def _change(c: Change) -> str:
    before, after, ratio = words.change(c)
    return f"{before:>14} → {after:>14}  {ratio}".rstrip()
