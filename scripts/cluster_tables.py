"""The table of docs/cluster.md, from what benchmarks/cluster.py records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Table = Callable[..., str]
RECORD = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "cluster.jsonl"


def fuzz(table: Table) -> str:
    """The newest run of each kind of pool."""
    rows = map(json.loads, RECORD.read_text("utf-8").splitlines())
    newest: dict[str, dict[str, Any]] = {row["pool"]: row for row in rows}
    body = [
        (
            r["pool"],
            r["workers"],
            r["programs"],
            r["seconds_one"],
            r["seconds_all"],
            f"{r['ratio']} x",
        )
        for r in newest.values()
    ]
    header = ("pool", "workers#", "programs#", "seconds of one worker#", "of all#", "ratio#")
    return table(header, body)


TABLES = {"cluster_fuzz": fuzz}
