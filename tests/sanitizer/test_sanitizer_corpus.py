"""Planted bugs: every one is found, with its kind and its line; no clean twin raises an alarm."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

import planted
from planted import Case

CASES = list(planted.cases())
SAMPLED = 5
"""One in so many is tried by default, which one does not depend on the others; all of them with
`-m slow`."""
ALWAYS = {"tiles-leading_offset_into_nothing"}
"""Bugs that were missed once."""


def rows(every: list[Case]) -> list[object]:
    """Each case with its bug and without; most are slow, so that the default run is short."""
    return [
        pytest.param(case, bug, id=f"{case.id}-{'bug' if bug else 'twin'}",
                     marks=[] if case.id in ALWAYS or crc32(case.id.encode()) % SAMPLED == 0
                     else pytest.mark.slow)
        for case in every for bug in (True, False)
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::weft.CompileWarning")  # of a variable that one of the two uses
@pytest.mark.parametrize(("case", "bug"), rows(CASES))
def test_bug_is_found_and_its_twin_is_clean(case: Case, bug: bool, tmp_path: Path) -> None:
    if case.language in ("Triton", "Numba"):
        pytest.importorskip(case.language.lower())
    report = planted.sanitized(case, bug, tmp_path)
    if bug:
        assert planted.named(case, report.findings), str(report)
    else:
        assert not report.findings, str(report)
    assert report.counts.accesses > 0


def test_there_are_enough() -> None:
    assert len(CASES) >= 80
    assert len({c.id for c in CASES}) == len(CASES)
    assert {c.language for c in CASES} == {"CUDA C++", "Triton", "Numba"}
    assert all(c.lines() for c in CASES)
