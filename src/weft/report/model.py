"""Formats the profile of a PyTorch script: a table, a trace for Perfetto and the next step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft.device.models import GpuModel
from weft.frontends.pytorch.calls import Call, Group
from weft.report import words

ROWS = 25
"""The number of rows shown, those with the largest least time."""
LAUNCH_SECONDS = 5e-6
"""What PyTorch takes to launch an operation, about."""

Styled = tuple[str, str]
"""A line and its style."""

_HEADER = ("share", "floor", "FLOPs", "bytes", "allocates", "calls", "operation", "module", "line",
           "autograd node")  # fmt: skip
_NUMBERS = 6
"""The columns that are aligned to the right."""


def view(name: str, gpu: GpuModel, groups: Sequence[Group], peak: int) -> Iterator[Styled]:
    """The table, the groups with the largest least time first, and the next step."""
    total = sum(g.seconds for g in groups)
    calls = sum(g.calls for g in groups)
    yield f"{name} on {gpu.name}: {calls} operations and kernels", "bold"
    yield (
        (
            f"floor {words.duration(total)}: each at the rate of DRAM or of its arithmetic; "
            f"peak memory {words.size(peak)}"
        ),
        "dim",
    )
    rows = [_HEADER, *(_row(g, total) for g in groups[:ROWS])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    for row in rows:
        cells = (
            cell.rjust(width) if i < _NUMBERS else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip(), "bold" if row is _HEADER else ""
    if len(groups) > ROWS:
        rest = sum(g.seconds for g in groups[ROWS:])
        yield f"{len(groups) - ROWS} more rows with {_share(rest, total)} together", "dim"
    yield f"Next step: {next_step(groups)}", "bold"


def next_step(groups: Sequence[Group]) -> str:
    """The one change that promises most."""
    total = sum(g.seconds for g in groups)
    calls = sum(g.calls for g in groups)
    if calls * LAUNCH_SECONDS > 2 * total:
        return (
            f"compile. {calls} launches take about {words.duration(calls * LAUNCH_SECONDS)}, their "
            f'work {words.duration(total)}: torch.compile(model, mode="reduce-overhead")'
        )
    top = groups[0]
    where = f"in {top.place.module}" if top.place.module else f"at {top.place.line}"
    if top.kernel:
        return (
            f"Triton. {top.name} {where} has {_share(top.seconds, total)} of the floor: "
            f"weft profile --kernel {top.name} shows its lines"
        )
    moved = [g for g in groups if not g.library and not g.kernel]
    share = sum(g.seconds for g in moved) / total
    if share >= 0.3:
        most = max(moved, key=lambda g: g.seconds)
        return (
            f"fuse. {share:.0%} of the floor are operations that only move memory, first "
            f"{most.name} at {most.place.line or most.place.module}: torch.compile or weft.fuse; "
            "weft run --show-kernels prints Inductor's kernels as a start"
        )
    return (
        f"CUDA. {top.name} {where} has {_share(top.seconds, total)} of the floor: "
        "use torch.autocast if it is float32, then write its kernel: weft climb matmul"
    )


def trace(calls: Sequence[Call]) -> dict[str, Any]:
    """Chrome's trace format, which Perfetto opens: operations back to back at their least time."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "floor on the GPU"}}
    ]
    at = 0.0
    for call in calls:
        took = call.seconds * 1e6
        place = call.place
        common = {"pid": 0, "ts": at}
        arguments = {**place._asdict(), "flops": call.flops, "bytes": call.bytes}
        events.append({**common, "ph": "X", "tid": "operations", "name": call.name, "dur": took,
                       "args": arguments})  # fmt: skip
        owner = place.module or place.line
        if owner:
            phase = "backward" if place.node else "forward"
            events.append({**common, "ph": "X", "tid": f"modules, {phase}", "name": owner,
                           "dur": took})  # fmt: skip
        memory = {"bytes": call.memory}
        events.append({**common, "ph": "C", "name": "memory of tensors", "args": memory})
        at += took
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _row(group: Group, total: float) -> tuple[str, ...]:
    return (
        _share(group.seconds, total),
        words.duration(group.seconds),
        words.amount(round(group.flops)),
        words.size(group.bytes),
        words.size(group.allocated),
        str(group.calls),
        group.name,
        *group.place,
    )


def _share(part: float, total: float) -> str:
    return f"{part / total:.1%}" if total else "0.0%"
