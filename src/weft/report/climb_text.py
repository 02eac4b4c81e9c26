"""Formats a climb as text: each rung with its idea, changed counters and times, and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from weft.report import words
from weft.report.words import WIDTH, Block, Styled, Table
from weft.values.climb import ClimbResult, LadderText, ListedLadder, RungResult, Time

BAR = 24
ABOVE = 1.02
"""Fraction of the limit above which a time is suspicious; measurements vary by one percent."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
SUMMARY: Mapping[str, str] = {
    "load sectors per request": "sectors/load",
    "store sectors per request": "sectors/store",
    "bytes read per result": "bytes/result",
    "global atomics per input": "atomics/input",
    "shared bank conflicts": "bank conflicts",
    "instructions": "instructions",
}
"""Counters in the summary table, and their short column names."""
PREDICTED = "predicted"
"""The column of modelled times."""


def ladders(listed: Sequence[ListedLadder]) -> Iterator[Block]:
    """All ladders, and what each computes."""
    rows = [(one.name, str(len(one.rungs)), one.about) for one in listed]
    yield Table(("ladder", "rungs", "what it computes"), rows, ("rungs",))
    yield "\nweft climb NAME", ""


def rungs(source: LadderText | None, result: ClimbResult) -> Iterator[Styled]:
    """The result of each rung, in order."""
    lessons = {r.title: r.lesson for r in source.rungs} if source is not None else {}
    before: RungResult | None = None
    for reached in result.rungs:
        yield "", ""
        yield f"{reached.title}  {reached.language}".rstrip(), "bold"
        yield from _wrapped(reached.idea)
        if reached.missing:
            yield _under(f"   not tried: {reached.missing}"), "yellow"
        elif not reached.right:
            yield _under(f"   ✗ {reached.error}"), "red"
        else:
            yield "   ✓ right", "green"
        for t in _shown(result, reached):
            peer = f", {t.of_peer:.2f} x the best peer" if t.of_peer else ""
            part = f", {t.of_limit:.1%} of the limit" if t.of_limit else ""
            more = "".join(f"; {note}" for note in t.notes)
            origin = "recorded, " if result.recorded else ""
            yield f"   {origin}{t.case}: {words.duration(t.seconds)}{part}{peer}{more}", ""
        for name, old, new in moved(reached.facts, before.facts if before else None):
            arrow = f"{number(old)} → " if old is not None else ""
            yield f"     {name:<38} {arrow}{number(new)}", "green"
        yield from _wrapped(lessons.get(reached.title, ""), "dim")
        # Rungs without counters, such as plain Python, are skipped in the comparison.
        before = reached if reached.facts else before


def moved(
    now: Mapping[str, float], before: Mapping[str, float] | None
) -> list[tuple[str, float | None, float]]:
    """(counter, before, now) for changes above 10 %; for the first rung all nonzero counters."""
    if before is None:
        return [(name, None, value) for name, value in now.items() if value]
    pairs = [(name, before.get(name, 0.0), value) for name, value in now.items()]
    return [
        (name, old, new)
        for name, old, new in pairs
        if abs(new - old) > 0.1 * max(abs(old), abs(new), 1e-9)
    ]


def number(value: float) -> str:
    """23,568; 1.667"""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def climb(source: LadderText | None, result: ClimbResult, *, whole: bool) -> Iterator[Block]:
    """A climb: every rung, tables and notes, and with `whole` where to read about it."""
    signature = f": {source.signature}" if source is not None else ""
    yield f"{result.ladder}{signature}, {_how(result)} {result.gpu}", "bold"
    yield from rungs(source, result)
    yield from _tables(result)
    if source is not None and source.text and whole:
        yield f"\nWhat was measured, and why: {source.read}", ""


def bench(result: ClimbResult, *, without_gpu: bool) -> Iterator[Block]:
    """A benchmark: failures, tables and notes; `without_gpu` if a GPU was looked for in vain."""
    simulated = not result.device.startswith("gpu")
    if simulated and without_gpu:
        yield "There is no GPU, so nothing was timed. Floors and simulated counters:", "yellow"
    yield f"{result.ladder}, {_how(result)} {result.gpu}", "bold"
    if simulated:
        yield from ((f"  {case}: {text}", "") for case, text in result.floors.items())
    yield from failures(result)
    yield from _tables(result)


def _how(result: ClimbResult) -> str:
    return "timed on" if result.device.startswith("gpu") else "checked and counted for"


def _tables(result: ClimbResult) -> Iterator[Block]:
    for one in summaries(result):
        yield f"\n{one.title}", "bold"
        yield from ((text, "dim") for text in one.about)
        yield Table(one.columns, one.rows, one.right)
    yield from ((text, "yellow") for text in notes(result))


def failures(result: ClimbResult) -> Iterator[Styled]:
    """One line for the whole climb, and its failures."""
    tried = [r for r in result.rungs if not r.missing]
    wrong = [r for r in tried if not r.right]
    rungs = " rungs" if any(r.number >= 0 for r in result.rungs) else ""
    count = f"{len(tried) - len(wrong)} of {len(result.rungs)}{rungs} right"
    yield f"{'✗' if wrong else '✓'} {result.ladder:<14} {count}", "red" if wrong else "green"
    for r in result.rungs:
        if r.missing or not r.right:
            line = _under(f"  {r.title}: {r.missing or r.error}")
            yield line, "yellow" if r.missing else "red"


def _under(text: str) -> str:
    """Indent the continuation lines of an error."""
    return text.replace("\n", "\n   ")


def _wrapped(text: str, style: str = "") -> Iterator[Styled]:
    for line in textwrap.wrap(text, WIDTH - 3):
        yield f"   {line}", style


# ---- the summary -----------------------------------------------------------------------------
class Summary(NamedTuple):
    """A table of all rungs; `about` describes it, `right` lists right-aligned columns."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    about: tuple[str, ...] = ()
    right: tuple[str, ...] = ("time",)


_TIMED = ["", "time", "of the limit", "", "over the last", "of the best peer"]
_MEMORY = "peak memory"
"""A column where memory was measured: what a call allocates, with its outputs."""


def summaries(result: ClimbResult) -> Iterator[Summary]:
    """Tables of times, measured or recorded, then of counters, which are not a ranking."""
    if result.recorded:
        yield _recorded(result, _main_case(result))
    else:
        for case in dict.fromkeys(t.case for r in result.rungs for t in r.times):
            yield _timed(result, case)
    counted = _counted(result)
    if counted is not None:
        yield counted


def _main_case(result: ClimbResult) -> str:
    """The size on which most rungs were timed; the largest one of several."""
    cases = [t.case for r in result.rungs for t in r.times]
    # max returns the first of equals: reversed, that is the last and largest size.
    return max(reversed(list(result.limits)), key=cases.count, default="")


def _shown(result: ClimbResult, reached: RungResult) -> Sequence[Time]:
    """The times to show for a rung: all new ones, or the recorded one of the main size."""
    if not result.recorded:
        return reached.times
    here = _of(reached.times, _main_case(result))
    return [here] if here is not None else reached.times[-1:]


def _recorded(result: ClimbResult, case: str) -> Summary:
    """The table of recorded times of one size; rungs timed on another size are marked."""
    table = _timed(result, case)
    rows = {row[0]: row for row in table.rows}
    for r in result.rungs:
        if result.named(r) not in rows:
            alone = [f"{words.duration(t.seconds)} at {t.case}" for t in r.times[-1:]]
            rows[result.named(r)] = [
                result.named(r),
                alone[0] if alone else "not recorded",
                *[""] * (len(table.columns) - 2),
            ]
    order = [result.named(r) for r in result.rungs]
    limit = result.limits.get(case, "not known")
    floor = result.floors.get(case)
    return Summary(
        f"recorded: {result.recorded}",
        table.columns,
        [rows[name] for name in (*order, *(n for n in rows if n not in order))],
        (
            f"{case}; nothing was timed here. Bars are parts of the limit that was measured then, "
            f"{limit}.",
            *([f"modelled: {floor} on {result.gpu}, whatever the kernel"] if floor else []),
        ),
        table.right,
    )


def _timed(result: ClimbResult, case: str) -> Summary:
    """The table of times of one case. Bars are fractions of the limit.

    Without a known limit they are fractions of the fastest time.
    """
    fastest = result.fastest(case)
    rows, before = [], None
    for reached in result.rungs:
        now = _of(reached.times, case)
        if now is None:
            continue
        gain = f"{before.seconds / now.seconds:.2f} x" if before is not None else ""
        rows.append(_line(result.named(reached), now, fastest, gain if reached.number >= 0 else ""))
        before = now
    for name, times in result.peers.items():
        now = _of(times, case)
        if now is not None:
            rows.append(_line(name, now, fastest))
    limit = result.limits.get(case, "")
    title = f"{case}: limit {limit}" if limit else case
    if not any(row[-1] for row in rows):
        return Summary(title, _TIMED, [row[:-1] for row in rows])
    return Summary(title, [*_TIMED, _MEMORY], rows, right=("time", _MEMORY))


def _of(times: Sequence[Time], case: str) -> Time | None:
    return next((t for t in times if t.case == case), None)


def _line(name: str, t: Time, fastest: float, gain: str = "") -> list[str]:
    peer = f"{t.of_peer:.2f} x" if t.of_peer else ""
    part = f"{t.of_limit:.1%}" if t.of_limit else ""
    return [
        name,
        words.duration(t.seconds),
        bar(t.of_limit or fastest / t.seconds),
        part,
        gain,
        peer,
        "" if t.memory is None else words.size(t.memory),
    ]


def notes(result: ClimbResult) -> Iterator[str]:
    """Remarks on single times: too short, throttled, above the limit."""
    named = [(result.named(r), t) for r in result.rungs for t in _shown(result, r)]
    if not result.recorded:
        named += [(name, t) for name, times in result.peers.items() for t in times]
    for name, t in named:
        above = [f"{t.of_limit:.0%} of the limit that was measured"] if t.of_limit > ABOVE else []
        for note in (*t.notes, *above):
            yield f"{name}, {t.case}: {note}"


def _counted(result: ClimbResult) -> Summary | None:
    """The table of counters. It has no bars: fewer instructions are not always faster."""
    counted = [r for r in result.rungs if r.facts]
    if not counted or (len(counted) < 2 and counted[0].number >= 0):
        return None
    shown = [name for name in SUMMARY if any(r.facts.get(name) for r in counted)]
    timed = any(r.predicted for r in counted)
    rows = [
        [
            f"{_mark(r)} {r.title}",
            *(number(r.facts[n]) if n in r.facts else "" for n in shown),
            *([f"~{words.duration(r.predicted)}" if r.predicted else ""] if timed else []),
        ]
        for r in result.rungs
    ]
    columns = [*(SUMMARY[name] for name in shown), *([PREDICTED] if timed else [])]
    on = f" on {result.counted}" if result.counted else ""
    return Summary(
        f"counted: by the simulated GPU{on}, exact{'; ~ is modelled' if timed else ''}",
        ["", *columns],
        rows,
        ("counters of a small size say why a rung is faster, not by how much",),
        tuple(columns),
    )


def _mark(r: RungResult) -> str:
    return "·" if r.missing else "✓" if r.right else "✗"


def bar(part: float, width: int = BAR) -> str:
    """A bar drawn with eighth-block characters."""
    eighths = round(max(0.0, min(1.0, part)) * width * 8)
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
