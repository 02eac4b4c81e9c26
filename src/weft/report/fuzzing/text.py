"""Formats the result of `weft fuzz`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.report.words import Block
from weft.values.fuzz import Fuzzed


def summary(fuzzed: Fuzzed, text: Callable[[dict[str, Any]], str]) -> Iterator[Block]:
    """The findings by `text`, then one line that counts programs."""
    for found, folder in zip(fuzzed.findings, fuzzed.folders, strict=True):
        yield text(found), "red"
        yield f"written to {folder}\n", "bold"
    done = f"{fuzzed.programs} of {fuzzed.wanted} programs"
    if fuzzed.interrupted:
        yield f"interrupted after {done}", "yellow"
    what = f"{len(fuzzed.findings)} findings" if fuzzed.findings else "no difference"
    yield (
        f"{done} of seed {fuzzed.seed}: {what}, {fuzzed.seconds:.0f} s,"
        f" {fuzzed.workers} worker{'s' if fuzzed.workers != 1 else ''}",
        "red" if fuzzed.findings else "green",
    )
