"""The suites of tests: `quick`, `main` and `all`, chosen by measured cost and coverage.

`tests/suites.json` names the cases of `quick`, and those of `main` for each function that is not
whole in it. A function that it does not name is in `main`: a new test runs there until
`scripts/choose_tests.py` has measured it.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILE = TESTS / "suites.json"
RECORD = TESTS.parent / "benchmarks" / "records" / "test_costs.jsonl"
NAMES = ("quick", "main", "all")
Groups = Mapping[str, Mapping[str, Sequence[str]]]
"""The ids of cases, by file and function."""


@functools.cache
def stored() -> dict[str, Groups]:
    """The cases of `quick`, and of `main` those of functions that are not whole in it."""
    groups: dict[str, Groups] = json.loads(FILE.read_text("utf-8"))
    return groups


def parts(nodeid: str) -> tuple[str, str, str]:
    """The file, the function and the case of a test."""
    place, _, case = nodeid.partition("[")
    file, _, function = place.removeprefix("tests/").partition("::")
    return file, function, case.removesuffix("]")


def group(nodeids: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Tests by file and function."""
    found: dict[str, dict[str, list[str]]] = {}
    for nodeid in sorted(nodeids):
        file, function, case = parts(nodeid)
        found.setdefault(file, {}).setdefault(function, []).append(case)
    return found


def partly(
    main: Iterable[str], everything: Iterable[str], named: Groups
) -> dict[str, dict[str, list[str]]]:
    """The cases of `main` of each function that is not whole in it, and of those named."""
    kept = group(main)
    return {
        file: {
            f: kept.get(file, {}).get(f, [])
            for f in cases
            if kept.get(file, {}).get(f) != cases[f] or f in named.get(file, {})
        }
        for file, cases in group(everything).items()
    }


def merge(old: Groups, new: Groups, replaced: Collection[str]) -> dict[str, dict[str, list[str]]]:
    """Join two groups; of `old`, leave out functions that are replaced or no longer there."""
    found: dict[str, dict[str, list[str]]] = {}
    for file in sorted({*old, *new}):
        rows = {
            f: list(cases)
            for f, cases in old.get(file, {}).items()
            if f"{file}::{f}" not in replaced and exists(f"{file}::{f}")
        }
        rows |= {f: list(cases) for f, cases in new.get(file, {}).items()}
        found[file] = dict(sorted(rows.items()))
    return found


def store(quick: Groups, main: Groups) -> None:
    """Write the stored file; a function has one line."""
    lines = []
    for name, groups in (("quick", quick), ("main", main)):
        files = []
        for file, functions in groups.items():
            rows = [f"   {json.dumps(f)}: {json.dumps(cases)}" for f, cases in functions.items()]
            if rows:
                files.append(f"  {json.dumps(file)}: {{\n" + ",\n".join(rows) + "\n  }")
        lines.append(f" {json.dumps(name)}: {{\n" + ",\n".join(files) + "\n }")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def has(suite: str, nodeid: str) -> bool:
    """Decide whether a test belongs to a suite."""
    file, function, case = parts(nodeid)
    if suite == "all":
        return True
    named = stored()[suite].get(file, {})
    return case in named.get(function, (case,) if suite == "main" else ())


def needs_file(suite: str, path: Path) -> bool:
    """Decide whether a file of tests must be read at all."""
    known = not path.name.startswith("test_") or path.suffix != ".py"
    return suite != "quick" or known or str(path.relative_to(TESTS)) in stored()["quick"]


def name(nodeid: str) -> str:
    """The file and the function of a test, as the record names them."""
    return "::".join(parts(nodeid)[:2])


def exists(function: str) -> bool:
    """Decide whether a function of the record still stands in its file."""
    file, _, last = function.partition("::")
    path = TESTS / file
    return path.is_file() and f"def {last.split('::')[-1]}(" in _text(path)


@functools.cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def recorded() -> list[dict[str, Any]]:
    """The rows of the record of costs."""
    return [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]


def unmeasured(nodeids: Iterable[str]) -> set[str]:
    """The tests of functions that the record lacks, or that are in `main` with new cases."""
    cases = {row["test"]: row["cases"] for row in recorded() if "test" in row}
    tests = list(nodeids)
    counted = Counter(map(name, tests))
    return {
        test
        for test in tests
        if name(test) not in cases
        or (cases[name(test)] != counted[name(test)] and not _named("main", test))
    }


def _named(suite: str, nodeid: str) -> bool:
    file, function, _ = parts(nodeid)
    return function in stored()[suite].get(file, {})


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the suite of this run."""
    suite = config.getoption("--suite")
    chosen = {item.nodeid for item in items if has(suite, item.nodeid)}
    if config.getoption("--unmeasured"):
        chosen &= unmeasured(item.nodeid for item in items)
    left_out = [item for item in items if item.nodeid not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in chosen]
