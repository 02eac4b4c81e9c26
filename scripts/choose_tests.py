"""Chooses the suites of tests from a measured run, and records what each test costs and covers.

    pytest -n 2 --record-costs FOLDER
    python scripts/choose_tests.py FOLDER --cpu "NAME, CORES"
    pytest -n 2 --record-costs FOLDER --unmeasured
    python scripts/choose_tests.py FOLDER --cpu "NAME, CORES" --add
    pytest -n 2 --record-costs FOLDER --unmeasured --suite main
    pytest -n 2 --record-costs OTHER --suite main
    python scripts/choose_tests.py FOLDER --cpu "NAME, CORES" --main --kept OTHER

`main` takes tests by the lines of weft that they add per second, until it has nearly all lines that
any test runs; then one case of every test function, the cheapest first. `quick` does the same
within a smaller time. Only lines inside functions count: an import runs the others. `--add` keeps
what was chosen before, and chooses among the tests of the run alone, by the same rule: they get
that part of the time which they have of the CPU time of all tests. `--main` does the same after a
run of `main` alone, which measures no other cases: they stay out of it. `--kept` names another
measurement, of tests that were chosen before: lines that they run need no added test.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import heapq
import json
import re
import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import suites

PHASE = re.compile(r" \((setup|call|teardown)\)$")


@dataclass(frozen=True)
class Limits:
    """The lines that a suite must have, as a share of all, and the CPU time that it may take."""

    share: float
    seconds: float


SUITES = {"main": Limits(0.98, 450), "quick": Limits(0.9, 40)}


@dataclass(frozen=True)
class Measured:
    """seconds: of CPU time, by test; lines: a bit set by test."""

    seconds: Mapping[str, float]
    lines: Mapping[str, int]

    @property
    def everything(self) -> int:
        return union(self.lines.values())


def union(sets: Iterable[int]) -> int:
    total = 0
    for bits in sets:
        total |= bits
    return total


def inside_functions(path: Path) -> int:
    """Lines of a module that only a call executes, as a bit set."""
    found = 0
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0].lineno, node.body[-1].end_lineno or 0
            found |= (1 << last + 1) - (1 << first)
    return found


def read(*folders: Path) -> Measured:
    """Join what the processes of runs have written."""
    seconds: dict[str, float] = {}
    for file in _files("seconds.*", folders):
        for row in file.read_text("utf-8").splitlines():
            nodeid, spent = json.loads(row)
            seconds[nodeid] = seconds.get(nodeid, 0) + spent
    sources: dict[str, tuple[int, int]] = {}  # lines that count, and the place of the first
    lines = dict.fromkeys(seconds, 0)
    end = 0
    found = (row for file in _files("lines.*", folders) for row in _rows(file))
    for path, context, numbits in found:
        nodeid = PHASE.sub("", context)
        if nodeid not in lines or not path.endswith(".py"):  # coverage sees Jinja's templates, too
            continue
        if path not in sources:
            sources[path] = inside_functions(Path(path)), end
            end += sources[path][0].bit_length()
        counted, place = sources[path]
        lines[nodeid] |= (int.from_bytes(numbits, "little") & counted) << place
    return Measured(seconds, lines)


def _files(pattern: str, folders: Iterable[Path]) -> Iterable[Path]:
    return (file for folder in folders for file in folder.glob(pattern))


def _rows(file: Path) -> list[tuple[str, str, bytes]]:
    """Read (path, context, lines as bits) from a file of coverage."""
    query = "select path, context, numbits from line_bits join file on file.id = file_id "
    query += "join context on context.id = context_id"
    with sqlite3.connect(file) as data:
        try:
            return data.execute(query).fetchall()
        except sqlite3.DatabaseError as error:  # tests kill processes, or fill their disk
            print(f"{file.name} is left out: {error}")
            return []


def choose(measured: Measured, limits: Limits, have: int = 0) -> set[str]:
    """Take tests by lines per second, then one case of each function, within the limits.

    have  the lines of tests that were chosen before
    """
    cost = {test: max(spent, 0.001) for test, spent in measured.seconds.items()}
    goal = limits.share * (measured.everything | have).bit_count()
    chosen: set[str] = set()
    spent = 0.0
    heap = [(-measured.lines[t].bit_count() / cost[t], t) for t in cost]
    heapq.heapify(heap)
    while heap and have.bit_count() < goal:
        _, test = heapq.heappop(heap)
        worth = (measured.lines[test] & ~have).bit_count() / cost[test]
        if worth == 0 or spent + cost[test] > limits.seconds:
            continue
        if heap and worth < -heap[0][0]:  # others have covered some of it since it was ranked
            heapq.heappush(heap, (-worth, test))
            continue
        chosen.add(test)
        have |= measured.lines[test]
        spent += cost[test]
    functions = {suites.parts(test)[:2] for test in chosen}
    for test in sorted(cost, key=lambda t: (cost[t], t)):
        function = suites.parts(test)[:2]
        if function not in functions and spent + cost[test] <= limits.seconds:
            chosen.add(test)
            functions.add(function)
            spent += cost[test]
    return chosen


def part(limits: Limits, measured: Measured, kept: float) -> Limits:
    """Limits of added tests, where tests of `kept` CPU seconds were chosen before."""
    added = sum(measured.seconds.values())
    return Limits(limits.share, limits.seconds * added / (added + kept))


def rows(
    measured: Measured, chosen: Mapping[str, set[str]], had: Mapping[str, int], cpu: str
) -> list[dict[str, object]]:
    """The record: one row for each suite, with the lines it had, then one for each function."""
    when = datetime.date.today().isoformat()
    found: list[dict[str, object]] = [
        {
            "suite": name, "when": when, "cpu": cpu, "tests": len(tests),
            "cpu_seconds": round(sum(measured.seconds[t] for t in tests), 1),
            "lines": union([had[name], *(measured.lines[t] for t in tests)]).bit_count(),
        }
        for name, tests in chosen.items()
    ]  # fmt: skip
    functions: dict[str, list[str]] = {}
    for test in measured.seconds:
        functions.setdefault(suites.name(test), []).append(test)
    for name, tests in sorted(functions.items()):
        spent = sorted((measured.seconds[t] for t in tests), reverse=True)
        found.append({
            "test": name, "cases": len(tests), "cpu_seconds": round(sum(spent), 2),
            "slowest": round(spent[0], 2),
            "lines": union(measured.lines[t] for t in tests).bit_count(),
            **{suite: sum(t in chosen[suite] for t in tests) for suite in SUITES},
        })  # fmt: skip
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cpu", required=True, help="its name and number of cores, for the record")
    parser.add_argument("--add", action="store_true", help="keep the choice of other tests")
    parser.add_argument("--main", action="store_true", help="--add, of a run of `main` alone")
    parser.add_argument("--kept", type=Path, help="a measurement of tests chosen before")
    options = parser.parse_args(arguments)
    add = options.add or options.main
    measured, had = _measured(options.folder, options.kept)
    if not measured.seconds:
        sys.exit(f"no file seconds.* in {options.folder}: run pytest with --record-costs first")
    replaced = set(map(suites.name, measured.seconds))
    before = [row for row in suites.recorded() if add and _stays(row, replaced)]
    kept = sum(row["cpu_seconds"] for row in before if "test" in row)
    chosen = {
        name: choose(measured, part(SUITES[name], measured, kept), had[name]) for name in SUITES
    }
    quick = suites.group(chosen["quick"])
    named = suites.stored()["main"] if options.main else {}
    partly = suites.partly(chosen["main"], measured.seconds, named)
    if add:
        quick = suites.merge(suites.stored()["quick"], quick, replaced)
        partly = suites.merge(suites.stored()["main"], partly, replaced)
    suites.store(quick, partly)
    added = rows(measured, {**chosen, "all": set(measured.seconds)}, had, options.cpu)
    table = sorted([*before, *added], key=lambda row: str(row.get("test", "")))
    suites.RECORD.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    for row in added[: len(SUITES) + 1]:
        print(row)


def _measured(folder: Path, kept: Path | None) -> tuple[Measured, dict[str, int]]:
    """The measured tests, and the lines that other chosen tests have, by suite."""
    new = read(folder).seconds
    both = read(folder, kept) if kept else read(folder)
    others = both.seconds.keys() - new.keys()
    had = {
        name: union(both.lines[test] for test in others if suites.has(name, test))
        for name in suites.NAMES
    }
    return Measured(new, {test: both.lines[test] for test in new}), had


def _stays(row: Mapping[str, Any], replaced: set[str]) -> bool:
    """Decide whether a row of the record outlives this measurement."""
    return "suite" in row or (row["test"] not in replaced and suites.exists(row["test"]))


if __name__ == "__main__":
    main()
