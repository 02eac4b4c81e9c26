"""The seeds of randomised tests: one that is known to pass, and a fresh one for a few cases.

A default run must not depend on luck, and fresh cases find bugs. So a test's cases draw from
`KNOWN`; where they differ in nothing but what they draw (`@pytest.mark.draws`), one in `EVERY`
draws from a seed that is new in every run, and its failure is a finding to file, not a failed run.
Where a failure is wanted it is one: with WEFT_SEED set (all cases have this seed, or a new one with
WEFT_SEED=fresh), and in the slow set (fresh).
"""

from __future__ import annotations

import os
import secrets
from collections import Counter
from dataclasses import dataclass

import pytest

KNOWN = "20261115"
EVERY = 4
_SHARED = "WEFT_TEST_SEEDS"
"""The variable with the seeds of the first process of a run, for the workers of xdist."""


@dataclass(frozen=True)
class Seeds:
    """known: of most cases; fresh: of the others; strict: a failure of those is a failure."""

    known: str
    fresh: str
    strict: bool

    def __str__(self) -> str:
        return f"WEFT_SEED={self.known}, fresh cases with WEFT_SEED={self.fresh}"


def settle() -> Seeds:
    """The seeds of this run; WEFT_SEED is then set for everything else that reads it."""
    if _SHARED not in os.environ:
        fresh = str(secrets.randbelow(2**31))
        told = os.environ.get("WEFT_SEED")
        told = fresh if told == "fresh" else told
        os.environ[_SHARED] = f"{told or KNOWN} {told or fresh} {int(told is not None)}"
    known, fresh, strict = os.environ[_SHARED].split()
    os.environ["WEFT_SEED"] = known
    return Seeds(known, fresh, strict == "1")


def hand_out(items: list[pytest.Item], seeds: Seeds) -> None:
    """Gives each case that asks for a seed its own: see the head of this file."""
    drawing = [i for i in items if "seed" in getattr(i, "fixturenames", ())]
    alike = Counter(_test(i) for i in drawing if i.get_closest_marker("draws") and not _slow(i))
    seen: Counter[str] = Counter()
    for item in drawing:
        test, slow = _test(item), _slow(item)
        seen[test] += not slow
        fresh = slow or (test in alike and seen[test] % min(EVERY, alike[test]) == 0)
        item.stash[SEED] = seeds.fresh if fresh else seeds.known
        item.stash[LENIENT] = fresh and not slow and not seeds.strict


def _test(item: pytest.Item) -> str:
    """The test that a case is of."""
    return item.nodeid.partition("[")[0]


def _slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


SEED = pytest.StashKey[str]()
LENIENT = pytest.StashKey[bool]()


def excuse(item: pytest.Item, report: pytest.TestReport) -> None:
    """Turns the failure of a fresh case into a finding, which the end of the run names."""
    if not report.failed or not item.stash.get(LENIENT, False):
        return
    report.user_properties.append(("finding", f"WEFT_SEED={item.stash[SEED]} {item.nodeid}"))
    report.outcome = "skipped"
    report.wasxfail = "a fresh random case failed"  # type: ignore[attr-defined]


def summary(reporter: pytest.TerminalReporter) -> None:
    """Names the findings: what they are, how to repeat them, where to file them."""
    reports = reporter.stats.get("xfailed", [])
    found = [(r, text) for r in reports for key, text in r.user_properties if key == "finding"]
    if not found:
        return
    reporter.section("findings of fresh random cases", yellow=True)
    reporter.line(
        f"{len(found)} new random cases failed. The installation is fine: every case with the "
        "known seed is judged as usual. These are bugs nobody has seen yet."
    )
    for report, text in found:
        seed, _, node = text.partition(" ")
        reporter.line("")
        reporter.line(f"repeat: {seed} python -m pytest '{node}'")
        reporter.line(report.longreprtext.strip()[-2000:])
    reporter.line("")
    reporter.line("Please file an issue of weft with the text above.")
