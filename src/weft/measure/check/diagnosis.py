"""Runs a failed call again under the sanitizer and names its most telling finding as the cause."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest

if TYPE_CHECKING:
    from weft.device.sim.tools.sanitizer.session import Report
    from weft.values.findings import Finding

_UNORDERED = ("data race", "missing wait")
_FIRST = ("barrier divergence", "barrier misuse", "missing lanes", *_UNORDERED)
"""Kinds in the order of cause and effect: a barrier that threads miss also makes races."""
_HARMLESS = ("leak",)
"""Kinds that do not explain a wrong result."""


@dataclass(frozen=True)
class Cause:
    """A named likely cause."""

    name: str
    evidence: str


class _Sanitized:
    """A session that gives launches to the sanitizer, which is imported at the first one."""

    def __init__(self) -> None:
        self._report: Report | None = None

    def run(self, asked: LaunchRequest) -> None:
        from weft.device.sim.tools.sanitizer.session import Report

        self._report = self._report or Report()
        self._report.run(asked)

    def findings(self) -> list[Finding]:
        return self._report.findings if self._report is not None else []


def diagnose(call: Callable[[], object]) -> Cause | None:
    """Run a call; return the cause that the sanitizer finds in its launches on simulated GPUs."""
    session = _Sanitized()
    # Other threads may check other kernels: `weft climb` does. User code may raise anything; the
    # check reports the failure that came first.
    with settings.in_this_thread(session), contextlib.suppress(Exception, SystemExit):
        call()
    telling = [f for f in session.findings() if f.kind not in _HARMLESS and not _overlaps(f)]
    if not telling:
        return None
    first = min(telling, key=_rank)
    rest = f" (and {len(telling) - 1} more)" if len(telling) > 1 else ""
    evidence = f"{' and '.join(map(str, first.accesses))}{rest}; {first.next}"
    # Races have a name of their own among the causes, which says what is missing.
    if first.kind in _UNORDERED:
        return Cause("missing synchronisation", evidence)
    return Cause(first.kind, f"{first.what.removeprefix(f'{first.kind}: ')}: {evidence}")


def _rank(finding: Finding) -> int:
    return _FIRST.index(finding.kind) if finding.kind in _FIRST else len(_FIRST)


def _overlaps(finding: Finding) -> bool:
    """True for two writes to one global element: `overlapping writes` reports these."""
    shared = finding.place.startswith("shared")
    race = finding.kind in _UNORDERED
    return race and not shared and all(access.verb == "write" for access in finding.accesses)
