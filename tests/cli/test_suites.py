"""The choice of suites: which tests are measured, and what is kept of an older choice."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import suites
from folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import choose_tests

KNOWN = "tests/cli/test_suites.py::test_old"
"""A function that the record of these tests has, in a file of theirs."""
SOURCE = "def first():\n    return 1\n\n\ndef second():\n    return 2\n"
CHOSEN = {
    "quick": {"cli/test_suites.py": {"test_old": ["b"], "test_gone": [""]}},
    "main": {"cli/test_suites.py": {"test_old": ["b"], "test_gone": [""]}},
}
ROWS = [
    *({"suite": s, "tests": 1, "cpu_seconds": 1.0, "lines": 9} for s in ("main", "quick", "all")),
    *(
        {"test": f"cli/test_suites.py::{name}", "cases": cases, "cpu_seconds": 2.0, "slowest": 1.0,
         "lines": 9, "main": 1, "quick": 1}
        for name, cases in (("test_old", 2), ("test_gone", 1), ("test_whole", 1))
    ),
]  # fmt: skip


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A choice and a record of a few functions, in files of this test; the folder of them."""
    (tmp_path / "cli").mkdir()
    names = ("test_old", "test_whole", "test_new", "test_dear")
    text = "".join(f"def {name}(): ...\n" for name in names)
    (tmp_path / "cli" / "test_suites.py").write_text(text, "utf-8")
    monkeypatch.setattr(suites, "TESTS", tmp_path)
    monkeypatch.setattr(suites, "FILE", tmp_path / "suites.json")
    monkeypatch.setattr(suites, "RECORD", tmp_path / "costs.jsonl")
    suites.FILE.write_text(json.dumps(CHOSEN), "utf-8")
    suites.RECORD.write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    suites.stored.cache_clear()
    yield tmp_path
    suites.stored.cache_clear()


def measured(folder: Path, tests: dict[str, tuple[float, list[int]]], name: str = "costs") -> Path:
    """Write what `--record-costs` writes: CPU seconds, and lines of SOURCE, of each test."""
    coverage = pytest.importorskip("coverage")
    costs = folder / name
    costs.mkdir()
    source = folder / "source.py"
    source.write_text(SOURCE, "utf-8")
    data = coverage.CoverageData(str(costs / "lines.1"))
    rows = []
    for name, (seconds, lines) in tests.items():
        nodeid = f"tests/cli/test_suites.py::{name}"
        rows.append(json.dumps([nodeid, seconds]) + "\n")
        data.set_context(nodeid)
        data.add_lines({str(source): lines})
    data.write()
    (costs / "seconds.1").write_text("".join(rows), "utf-8")
    return costs


def record() -> dict[str, Any]:
    """The rows of functions, by name."""
    return {r["test"].partition("::")[2]: r for r in suites.recorded() if "test" in r}


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("tests", "found"),
    [
        (["test_new[a]", "test_old[a]", "test_old[b]"], {"test_new[a]"}),
        (["test_old[a]", "test_old[b]", "test_old[c]"], set()),
        (["test_whole", "test_whole[a]"], {"test_whole", "test_whole[a]"}),
    ],
    ids=["new function", "new case of a function in part", "new case of a whole function"],
)
def test_which_are_unmeasured(tests: list[str], found: set[str]) -> None:
    """New cases count where `make test` would run them all."""
    file = "tests/cli/test_suites.py::"
    assert suites.unmeasured(file + test for test in tests) == {file + test for test in found}


def test_the_file_names_tests_that_exist() -> None:
    """A name that is left of a renamed test chooses nothing, and the test is chosen anew."""
    gone = [
        f"{file}::{function}"
        for groups in suites.stored().values()
        for file, functions in groups.items()
        for function in functions
        if f"def {function.rpartition('::')[2]}(" not in _text(file)
    ]
    assert not gone


def _text(file: str) -> str:
    path = suites.TESTS / file
    return path.read_text("utf-8") if path.is_file() else ""


def test_added_tests_keep_the_choice_of_others(stored: Path) -> None:
    """One case of the new functions is chosen, the cheapest; what is gone is dropped."""
    costs = measured(stored, {"test_new[a]": (0.5, [2]), "test_new[b]": (0.1, [2])})
    choose_tests.main([str(costs), "--cpu", "some", "--add"])
    suites.stored.cache_clear()
    kept = {"test_new": ["b"], "test_old": ["b"]}
    assert suites.stored() == {name: {"cli/test_suites.py": kept} for name in ("quick", "main")}
    rows = record()
    assert rows.keys() == {"test_old", "test_whole", "test_new"}
    assert rows["test_new"]["cases"] == 2 and rows["test_new"]["main"] == 1
    assert suites.has("main", KNOWN + "[b]") and not suites.has("main", KNOWN + "[a]")
    assert sum("suite" in row for row in suites.recorded()) == 6  # of two measurements


def test_added_tests_have_their_part_of_the_time(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 of 8 CPU seconds are new: half of the limit is theirs, and the dear test is too long."""
    monkeypatch.setitem(choose_tests.SUITES, "main", choose_tests.Limits(1.0, 2.0))
    costs = measured(stored, {"test_new": (0.9, [2]), "test_dear": (3.1, [6])})
    choose_tests.main([str(costs), "--cpu", "some", "--add"])
    assert record()["test_new"]["main"] == 1 and record()["test_dear"]["main"] == 0


def test_measured_again(stored: Path) -> None:
    """A function of a new measurement has the new rows alone."""
    costs = measured(stored, {"test_old[a]": (0.1, [2]), "test_old[b]": (0.5, [2])})
    choose_tests.main([str(costs), "--cpu", "some", "--add"])
    suites.stored.cache_clear()
    assert suites.stored()["main"]["cli/test_suites.py"] == {"test_old": ["a"]}
    assert record()["test_old"]["cpu_seconds"] == 0.6


def test_of_a_run_of_main_other_cases_stay_out(stored: Path) -> None:
    """The measured case is the only one, and not the whole function."""
    costs = measured(stored, {"test_old[b]": (0.1, [2])})
    choose_tests.main([str(costs), "--cpu", "some", "--main"])
    suites.stored.cache_clear()
    assert suites.stored()["main"]["cli/test_suites.py"] == {"test_old": ["b"]}
    assert record().keys() == {"test_old", "test_whole"}


@pytest.mark.parametrize("kept", [True, False])
def test_lines_that_chosen_tests_have(stored: Path, kept: bool) -> None:
    """They need no added test, and count as lines of the suite."""
    costs = measured(stored, {"test_new[a]": (0.1, [2]), "test_new[b]": (0.5, [6])})
    other = measured(stored, {"test_old[b]": (0.1, [6])}, "other")
    choose_tests.main([str(costs), "--cpu", "some", "--add", *["--kept", str(other)] * kept])
    assert record()["test_new"]["main"] == (1 if kept else 2)
    rows = [row for row in suites.recorded() if row.get("suite") == "main"]
    assert rows[-1]["lines"] == 2


def test_a_whole_measurement_keeps_nothing(stored: Path) -> None:
    costs = measured(stored, {"test_new": (0.5, [2])})
    choose_tests.main([str(costs), "--cpu", "some"])
    suites.stored.cache_clear()
    assert suites.stored() == {"quick": {"cli/test_suites.py": {"test_new": [""]}}, "main": {}}
    assert record().keys() == {"test_new"}


def test_a_folder_without_costs(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no file seconds.* run pytest with --record-costs first"):
        choose_tests.main([str(tmp_path), "--cpu", "some"])
