"""Formats trainings on texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.report.training import differences, parts
from weft.report.words import Block, Table, precise
from weft.values.training import History

COLUMNS = ("", "steps", "first loss", "last loss", "loss on kept text", "first step",
           "later steps", "tokens/s")  # fmt: skip


def trained(
    histories: Sequence[History], checkpoint: str, tokens: int, sample: str
) -> Iterator[Block]:
    """A training and the same one by PyTorch; `tokens` are those of a step."""
    yield Table(COLUMNS, [_row(h, tokens) for h in histories], COLUMNS[1:])
    yield from differences(histories, checkpoint)
    yield from parts(histories)
    if sample:
        yield "\nsample", "bold"
        yield sample, ""


def _row(history: History, tokens: int) -> list[str]:
    losses, step = history.losses, history.per_step
    return [
        history.name,
        str(len(losses)),
        f"{losses[0]:.4f}" if losses else "",
        f"{losses[-1]:.4f}" if losses else "",
        f"{history.validation[-1]:.4f}" if history.validation else "",
        precise(history.first) if history.first else "",
        precise(step) if step else "",
        f"{tokens / step:,.0f}" if step else "",
    ]
