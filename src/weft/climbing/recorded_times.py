"""Reads and writes recorded times of a ladder: `recorded.json` in its folder.

`scripts/tables.py` makes these files from `benchmarks/records/ladders.jsonl`, so that a climb
without a GPU can show measured times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.climbing.ladder import Ladder
from weft.climbing.records import Climb
from weft.values.climb import Time

NAME = "recorded.json"
_DIGITS = 4
"""Significant digits of a time; a median is accurate to about three."""
_FIELDS = ("seconds", "low", "high", "of_limit", "of_peer")
_HOW = "recorded, not timed here"

Row = Mapping[str, Sequence[float]]
"""Case -> the values of `_FIELDS`, and the peak memory if it was measured."""


def compact(result: Climb) -> str:
    """The text of `recorded.json` for a timed climb: one line per rung."""
    machine = result.machine
    versions = [f"{name} {machine[name]}" for name in ("torch", "triton") if name in machine]
    head = {
        "gpu": result.gpu,
        "when": result.when[:10],
        "versions": ", ".join(versions),
        "limits": dict(result.limits),
    }
    # Keyed by title: renumbered or renamed rungs lose their old times.
    rungs = {r.title: _row(r.times) for r in result.rungs if r.times}
    peers = {name: _row(times) for name, times in result.peers.items()}
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    parts += [f'"{name}": {_lines(rows)}' for name, rows in (("rungs", rungs), ("peers", peers))]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: Mapping[str, Row]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in rows.items()) + "}"


def _row(times: Sequence[Time]) -> dict[str, list[float]]:
    return {
        t.case: [float(f"{getattr(t, f):.{_DIGITS}g}") for f in _FIELDS]
        + ([] if t.memory is None else [t.memory])
        for t in times
    }


def with_recorded(ladder: Ladder, result: Climb) -> Climb:
    """Adds recorded times of rungs and peers to a climb without times."""
    path = ladder.path / NAME
    if not path.is_file():
        return result
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    rungs = tuple(replace(r, times=_times(record["rungs"].get(r.title, {}))) for r in result.rungs)
    return replace(
        result,
        rungs=rungs,
        peers={name: _times(row) for name, row in record["peers"].items()},
        limits=record["limits"],
        recorded=f"{record['gpu']}, {record['versions']}, {record['when']}",
    )


def _times(row: Row) -> tuple[Time, ...]:
    return tuple(
        Time(
            case, seconds, low, high, _HOW, of_limit, of_peer, memory=int(rest[0]) if rest else None
        )
        for case, (seconds, low, high, of_limit, of_peer, *rest) in row.items()
    )
