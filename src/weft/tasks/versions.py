"""Runs the versions of a training step: `weft climb mnist`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.ops.core.bind import with_torch
from weft.tasks.climb import Steps
from weft.train.versions import ABOUT, NAME, TITLES
from weft.values.training import Versions

TRAINING = NAME
"""The word for these versions among the names of ladders."""


@dataclass(frozen=True)
class VersionOptions:
    """The last version, and a file that the results are appended to."""

    device: Selection
    to: int | None = None
    record: Path | None = None


def climb(options: VersionOptions, steps: Steps) -> Versions:
    """Run the versions, check each against the one before, and time its parts."""
    to = options.to
    if to is not None and to >= len(TITLES):
        raise ArgumentError(
            "there is no such version", got=f"--to {to}", allowed=f"0 to {len(TITLES) - 1}"
        )
    place = _place(options.device)
    module = with_torch("weft.train.versions.climb")
    with steps(len(TITLES) if to is None else to + 1, NAME) as notify:
        reached = module.climb(place, to, notify)
    batch, machine = module.BATCH[place.type], module.machine(place)
    result = Versions(NAME, ABOUT, batch, machine, place.type == "cpu", tuple(reached))
    if options.record is not None:
        about = {} if result.simulated else with_torch("weft.ops.sweep.gpu").about()
        with options.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**result.to_dict(), **about}) + "\n")
    return result


def _place(device: Selection) -> Any:
    torch = with_torch("torch")
    if device.number is None:
        return torch.device("cpu")
    gpu = with_torch("weft.ops.sweep.gpu")
    gpu.need("weft climb mnist --device gpu", "--device sim runs it on the simulated GPU")
    return torch.device("cuda", device.number)
