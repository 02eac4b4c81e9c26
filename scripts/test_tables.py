"""The tables of docs/tests.md: what the suites take, and the slowest tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmark_records import rows_of

SLOWEST = 50
COMMANDS = {"quick": "make quick", "main": "make test", "all": "make test-all"}
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def suites(table: Table) -> str:
    """Tests, lines, CPU time and the last recorded wall time of each suite."""
    rows = rows_of("test_costs.jsonl")
    functions = [row for row in rows if "test" in row]
    runs = {row["suite"]: row for row in rows_of("test_runs.jsonl") if "suite" in row}
    whole = _sum(rows, "all", "lines")
    body = []
    for name, command in COMMANDS.items():
        run = runs.get(name)
        time = f"{run['seconds'] / 60:.1f} min ({run['what']}, {run['cpu']})" if run else "not yet"
        tests = sum(row["cases" if name == "all" else name] for row in functions)
        spent = _sum(rows, name, "cpu_seconds")
        if name == "all":
            spent = sum(row["cpu_seconds"] for row in functions)
        share = f"{_sum(rows, name, 'lines') / whole:.1%}"
        body.append((f"`{command}`", f"{tests:,}", share, f"{spent:,.0f}", time))
    header = ("command", "tests#", "lines#", "CPU seconds, measured with coverage#", "duration")
    return table(header, body)


def _sum(rows: Iterable[dict[str, Any]], suite: str, key: str) -> float:
    """The sum over all measurements of a suite: a whole one, and those added to it."""
    return sum(row[key] for row in rows if row.get("suite") == suite)


def slowest(table: Table) -> str:
    """The test functions that take most CPU time, with all their cases."""
    tests = [row for row in rows_of("test_costs.jsonl") if "test" in row]
    tests.sort(key=lambda row: -row["cpu_seconds"])
    body = []
    for row in tests[:SLOWEST]:
        file, _, name = row["test"].partition("::")
        times = f"{row['cpu_seconds']:.1f}", f"{row['slowest']:.1f}"
        body.append((f"`{name}`", f"`tests/{file}`", row["cases"], row["main"], *times))
    header = (
        "test",
        "file",
        "cases#",
        "in `make test`#",
        "CPU seconds of all cases#",
        "slowest case#",
    )
    return table(header, body)
