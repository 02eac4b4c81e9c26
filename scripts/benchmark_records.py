"""Rows of the records in benchmarks/records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records"


def rows_of(name: str | Path) -> list[dict[str, Any]]:
    """All rows of a file, the newest last; none if there is no such file."""
    file = RECORDS / name
    return [json.loads(x) for x in file.read_text("utf-8").splitlines()] if file.is_file() else []


def newest(name: str) -> dict[str, Any]:
    """The last row of a file."""
    return rows_of(name)[-1]
