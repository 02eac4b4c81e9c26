"""The predicted times of a profile's launches for the page: a table of GPUs, and stalls by line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.lab.job import own
from weft.measure.profile import schema
from weft.measure.profile.result import Profile
from weft.report.prediction import text
from weft.report.words import Block
from weft.tasks.prediction import predict
from weft.values.time.prediction import LineStalls, Prediction


def predicted(records: Sequence[Mapping[str, Any]], on: str) -> dict[str, Any]:
    """The times of the launches on GPUs, e.g. "h200,a100", as `weft predict` shows them."""
    profiles = [schema.value(Profile, one, "profile") for one in records]
    found = predict.of_profiles(profiles, predict.gpus(on))
    return {
        "blocks": [block(b) for b in text.times(found.counted, found.names, found.launches)],
        "launches": [[_prediction(one) for one in row] for row in found.launches],
    }


def block(one: Block) -> dict[str, Any]:
    """A part of a report for the page: a line with its style, or a table."""
    if len(one) == 2:
        return {"text": one[0], "style": one[1]}
    rows = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in one.rows]
    return {"columns": list(one.columns), "rows": rows, "right": list(one.right)}


def of_line(one: Prediction) -> dict[int, str]:
    """Source line -> its part of the warps' time, and the reason that has most of it."""
    lines = (line for line in one.stalls if own(line.file))
    return {line.number: f"{line.share:.0%} {next(iter(line.reasons), '')}" for line in lines}


def _prediction(one: Prediction) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "gpu": one.gpu,
        "seconds": one.seconds,
        "bound": one.bound,
        "stalls": [_stalls(line) for line in one.stalls[: text.LINES]],
    }


def _stalls(line: LineStalls) -> dict[str, Any]:
    return {
        "line": line.number if own(line.file) else 0,
        "share": f"{line.share:.0%}",
        "part": line.share,
        "reasons": text.reasons(line),
        "quote": line.quote.strip(),
    }
