"""Formats predicted times of several GPUs as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.report.words import Block, Table, duration
from weft.values.time.parallel import ParallelRow

COLUMNS = (
    "layout", "GPUs", "time", "compute", "communication", "overlapped", "exposed", "idle",
    "speed-up", "efficiency",
)  # fmt: skip


def cells(row: ParallelRow) -> list[str]:
    """The cells of a row, in the order of `COLUMNS`."""
    times = (row.seconds, row.compute, row.communication, row.overlapped, row.exposed, row.idle)
    rates = (f"{row.speedup:.3g} x", f"{row.efficiency:.0%}")
    return [row.layout, f"{row.gpus:,}", *(duration(t) for t in times), *rates]


def view(
    rows: Sequence[ParallelRow],
    sources: Sequence[str],
    links: Sequence[str],
    left_out: Sequence[str],
) -> Iterator[Block]:
    """The sources, the table, and the numbers of GPUs that do not fit."""
    yield (
        "Predicted times on several GPUs (modelled; docs/predict_parallel.md has the model)",
        "bold",
    )
    for line in (*(f"one GPU: {source}" for source in sources), *(f"link: {x}" for x in links)):
        yield line, "dim"
    simulated = any(row.simulated is not None for row in rows)
    columns = [*COLUMNS, *["simulated", "formula / simulated"] * simulated]
    yield Table(columns, [cells(r) + _compared(r) * simulated for r in rows], columns[1:])
    if left_out:
        yield "left out:", ""
    for line in left_out:
        yield f"  {line}", "dim"


def _compared(row: ParallelRow) -> list[str]:
    if row.simulated is None:
        return ["", ""]
    return [duration(row.simulated), f"{row.seconds / row.simulated:.3f}"]
