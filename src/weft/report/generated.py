"""Formats the end of a generated text."""

from __future__ import annotations

from collections.abc import Iterator

from weft.report.words import Block
from weft.values.generated import Generated


def generated(value: Generated) -> Iterator[Block]:
    """The number of tokens, and how fast they came on a GPU."""
    count = f"{len(value.tokens)} tokens"
    if value.stopped:
        yield f"stopped after {count}", "yellow"
    elif value.rate is None:
        yield f"{count} on the simulated GPU", "bold"
    else:
        yield f"{count}, {value.rate:.1f} tokens/s", "bold"
