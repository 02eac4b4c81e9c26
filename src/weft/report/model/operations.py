"""Formats the operations of a PyTorch script: a table and the next step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.report import words
from weft.report.words import Styled
from weft.values.model import Group, ModelProfile, grouped

ROWS = 25
"""The number of rows shown, those with the most time."""
LAUNCH_SECONDS = 5e-6
"""Seconds that PyTorch takes to launch an operation, about."""

_HEADER = ("share", "time", "floor", "FLOPs", "bytes", "allocates", "calls", "operation", "module",
           "line", "autograd node")  # fmt: skip
_TIME = 1
"""The column that only a real GPU has."""
_NUMBERS = 7
"""The columns that are aligned to the right."""


def view(model: ModelProfile) -> Iterator[Styled]:
    """The table, the groups with the most time first, and the next step."""
    groups = grouped(model.calls)
    yield f"{model.script} on {model.gpu}: {len(model.calls)} operations and kernels", "bold"
    yield _summary(groups, model.peak, model.tuning), "dim"
    total = sum(g.time for g in groups)
    rows = [_HEADER, *(_row(g, total) for g in groups[:ROWS])]
    if all(g.measured is None for g in groups):
        rows = [(*row[:_TIME], *row[_TIME + 1 :]) for row in rows]
    numbers = _NUMBERS - len(_HEADER) + len(rows[0])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = (
            cell.rjust(width) if i < numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip(), "" if number else "bold"
    if len(groups) > ROWS:
        rest = sum(g.time for g in groups[ROWS:])
        yield f"{len(groups) - ROWS} more rows with {_share(rest, total)} together", "dim"
    yield f"Next step: {next_step(groups)}", "bold"


def data(model: ModelProfile) -> dict[str, Any]:
    """The same table as JSON."""
    rows = grouped(model.calls)
    found = [{**vars(row), "place": row.place._asdict()} for row in rows]
    return {"peak": model.peak, "next": next_step(rows), "rows": found}


def _summary(groups: Sequence[Group], peak: int, tuning: float) -> str:
    floor = words.duration(sum(g.seconds for g in groups))
    parts = [f"floor {floor}: each at the rate of DRAM or of its arithmetic"]
    if any(g.measured is not None for g in groups):
        parts = [
            f"{words.duration(sum(g.time for g in groups))} of kernels by CUPTI, floor {floor}"
        ]
    if tuning:
        parts.append(f"{words.duration(tuning)} of autotuning not included")
    return "; ".join([*parts, f"peak memory {words.size(peak)}"])


def next_step(groups: Sequence[Group]) -> str:
    """The one change that promises most. Copies from and to the host are left out."""
    groups = [g for g in groups if not g.transfer] or groups
    total = sum(g.time for g in groups)
    calls = sum(g.calls for g in groups)
    if calls * LAUNCH_SECONDS > 2 * total:
        return (
            f"compile. {calls} launches take about {words.duration(calls * LAUNCH_SECONDS)}, their "
            f'work {words.duration(total)}: torch.compile(model, mode="reduce-overhead")'
        )
    top = groups[0]
    where = f"in {top.place.module}" if top.place.module else f"at {top.place.line or 'no line'}"
    share = f"{_share(top.time, total)} of the {'floor' if top.measured is None else 'time'}"
    if top.kernel:
        return (
            f"Triton. {words.kernel(top.name)} {where} has {share}: weft profile --kernel "
            f"{words.kernel(top.name)} shows its lines"
        )
    moved = [g for g in groups if not g.library and not g.kernel]
    part = sum(g.time for g in moved) / total
    if part >= 0.3:
        most = max(moved, key=lambda g: g.time)
        return (
            f"fuse. {part:.0%} of the {'floor' if top.measured is None else 'time'} are operations "
            f"that only move memory, first {most.name} at {most.place.line or most.place.module}: "
            "torch.compile or weft.fuse; "
            "weft run --show-kernels prints Inductor's kernels as a start"
        )
    return (
        f"CUDA. {top.name} {where} has {share}{_of_peak(top)}: "
        "use torch.autocast if it is float32, then write its kernel: weft climb matmul"
    )


def _of_peak(group: Group) -> str:
    """The least time as a part of the measured time."""
    return f" at {group.seconds / group.measured:.0%} of its peak rate" if group.measured else ""


def _row(group: Group, total: float) -> tuple[str, ...]:
    return (
        _share(group.time, total),
        "" if group.measured is None else words.duration(group.measured),
        words.duration(group.seconds),
        words.amount(round(group.flops)),
        words.size(group.bytes),
        words.size(group.allocated),
        str(group.calls),
        words.kernel(group.name),
        *group.place,
    )


def _share(part: float, total: float) -> str:
    return f"{part / total:.1%}" if total else "0.0%"
