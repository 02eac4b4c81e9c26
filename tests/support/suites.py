"""The suites of tests: `quick`, `main` and `all`, chosen by measured cost and coverage.

`tests/suites.json` names the cases of `quick`, and those of `main` for each function that is not
whole in it. A function that it does not name is in `main`: a new test runs there until
`scripts/choose_tests.py` has measured it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
FILE = TESTS / "suites.json"
NAMES = ("quick", "main", "all")
Groups = Mapping[str, Mapping[str, Sequence[str]]]
"""The ids of cases, by file and function."""


@functools.cache
def _stored() -> dict[str, Groups]:
    stored: dict[str, Groups] = json.loads(FILE.read_text("utf-8"))
    return stored


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


def store(quick: Iterable[str], main: Iterable[str], everything: Iterable[str]) -> None:
    """Write the stored file; a function has one line."""
    whole, kept = group(everything), group(main)
    partly = {
        file: {
            f: kept.get(file, {}).get(f, []) for f in cases if kept.get(file, {}).get(f) != cases[f]
        }
        for file, cases in whole.items()
    }
    lines = []
    for name, groups in (("quick", group(quick)), ("main", partly)):
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
    named = _stored()[suite].get(file, {})
    return case in named.get(function, (case,) if suite == "main" else ())


def needs_file(suite: str, path: Path) -> bool:
    """Decide whether a file of tests must be read at all."""
    known = not path.name.startswith("test_") or path.suffix != ".py"
    return suite != "quick" or known or str(path.relative_to(TESTS)) in _stored()["quick"]


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the suite of this run."""
    suite = config.getoption("--suite")
    left_out = [item for item in items if not has(suite, item.nodeid)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if has(suite, item.nodeid)]
