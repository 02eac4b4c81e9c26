"""Formats trainings, and the versions of a training step, as text and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.report.words import Block, Table, precise
from weft.values.training import History, PartTimes, Versions


def versions(result: Versions) -> Iterator[Block]:
    """The versions, whether each is right, and the times of their parts."""
    yield f"{result.ladder}: {result.about}; batch {result.batch}, on {result.on}", "bold"
    for number, one in enumerate(result.reached):
        yield f"\n{number:02} {one.title}", "bold"
        yield f"   {one.idea}", ""
        losses = ", ".join(f"{loss:.4f}" for loss in one.losses)
        yield f"   losses of {len(one.losses)} steps: {losses}", ""
        if number:
            mark, style = ("✓ those", "green") if one.right else ("✗ not those", "red")
            losses_apart, weights_apart = one.apart
            yield (
                (
                    f"   {mark} of {number - 1:02}: losses within {losses_apart:.0e},"
                    f" weights {weights_apart:.0e}"
                ),
                style,
            )
    named = [(f"{number:02} {one.title}", one.times) for number, one in enumerate(result.reached)]
    yield f"\ntime per step: {result.reached[-1].times.how}", "bold"
    if result.simulated:
        yield "a simulation takes far longer than a GPU: compare no version with another by it", ""
    yield _times(named)


def trainings(histories: Sequence[History], checkpoint: str) -> Iterator[Block]:
    """A training, and the same one by PyTorch; `checkpoint` is the file that it was saved to."""
    columns = ("", "steps", "first loss", "last loss", "accuracy", "first step", "later steps")
    yield Table(columns, [_row(h) for h in histories], columns[1:])
    yield from differences(histories, checkpoint)
    yield from parts(histories)


def parts(histories: Sequence[History]) -> Iterator[Block]:
    """The times of the parts of a step, if they were measured."""
    timed = [(h.name, h.times) for h in histories if h.times is not None]
    if timed:
        yield f"\ntime per step: {timed[0][1].how}", "bold"
        yield _times(timed)


def differences(histories: Sequence[History], checkpoint: str) -> Iterator[Block]:
    """The end of a training that the user stopped, and how far losses of others are from it."""
    first = histories[0]
    if first.stopped:
        where = f"; {checkpoint} goes on with --resume" if checkpoint else ""
        yield f"stopped after {len(first.losses)} steps{where}", "yellow"
    for other in histories[1:]:
        pairs = list(zip(first.losses, other.losses, strict=False))[:5]
        apart = max((abs(a - b) for a, b in pairs), default=0.0)
        name = f"{other.name}: losses of the first {len(pairs)} steps"
        yield f"{name} differ by {apart:.1e} at most", ""


def _times(named: Sequence[tuple[str, PartTimes]]) -> Table:
    """The parts of a step by name; a part that one of them lacks is empty."""
    parts = list(dict.fromkeys(part for _, times in named for part in times.parts))
    rows = [
        [
            name,
            *(precise(times.parts[p]) if p in times.parts else "" for p in parts),
            precise(times.total),
        ]
        for name, times in named
    ]
    return Table(("", *parts, "sum"), rows, (*parts, "sum"))


def _row(history: History) -> list[str]:
    losses = history.losses
    return [
        history.name,
        str(len(losses)),
        f"{losses[0]:.4f}" if losses else "",
        f"{losses[-1]:.4f}" if losses else "",
        f"{100 * history.accuracy[-1]:.2f} %" if history.accuracy else "",
        precise(history.first) if history.first else "",
        precise(history.per_step) if history.per_step else "",
    ]
