"""Climbs ladders, or reads the records of earlier climbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from weft.climbing import ladder, records
from weft.climbing.entry import climb
from weft.climbing.records import Climb
from weft.device.selection import Selection
from weft.errors import ArgumentError, Error
from weft.progress import Notify
from weft.train import versions
from weft.values.climb import LadderText, ListedLadder

Steps = Callable[[int, str], AbstractContextManager[Notify]]
"""Entered with the number of steps and a title; gives what is called before each step."""


@dataclass(frozen=True)
class ClimbOptions:
    """A ladder to climb.

    name      of weft's ladder, or the path of a folder
    to        the last rung
    every     climb all ladders of weft
    record    append the results to this file
    recorded  read the newest result from this file instead
    """

    name: str
    device: Selection
    to: int | None = None
    every: bool = False
    record: Path | None = None
    recorded: Path | None = None


def ladders() -> list[ListedLadder]:
    """The ladders that come with weft, and the versions of a training step."""
    found = [ladder.find(name) for name in ladder.names()]
    kernels = (ListedLadder(x.path.name, tuple(r.title for r in x.rungs), x.about) for x in found)
    return [*kernels, ListedLadder(versions.NAME, versions.TITLES, versions.ABOUT)]


def climbs(
    options: ClimbOptions, steps: Steps = lambda total, name: nullcontext(lambda what: None)
) -> Iterator[Climb]:
    """Climb the ladders, one after the other."""
    if options.recorded is not None:
        yield records.climb(options.recorded, options.name)
        return
    for name in ladder.names() if options.every else [options.name]:
        source, to = ladder.find(name), options.to
        if options.every and to is not None:
            # Ladders have different lengths: one `to` must not fail for the short ones.
            to = min(to, source.rungs[-1].number)
        total = sum(to is None or rung.number <= to for rung in source.rungs)
        with steps(total, source.op.name) as notify:
            result = climb(
                source, device=options.device, to=to, record=options.record, progress=notify
            )
        yield result


def texts(name: str) -> LadderText | None:
    """The texts of a ladder; None for a record whose folder is not on this machine."""
    try:
        return ladder.find(name).texts
    except Error:
        return None


def no_name() -> ArgumentError:
    """The error for options that need the name of a ladder."""
    return ArgumentError(
        "the name of a ladder is missing",
        allowed=", ".join(ladder.names()),
        next="weft climb NAME ..., or --all",
    )
