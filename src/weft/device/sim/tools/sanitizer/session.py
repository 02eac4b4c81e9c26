"""Launches under the sanitizer: one by one, or all launches of a part of a program.

Every launch on a simulated GPU runs under the session in `settings.current`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest
from weft.device.sim.tools.sanitizer.findings import Decoder
from weft.device.sim.tools.sanitizer.observer import CheckCounts, Sanitizer
from weft.errors import DeviceError, SanitizerError
from weft.values.findings import Access, DeviceWork, Finding, summary

SHOWN = 5
"""The number of findings in an error's text; all are in `findings`."""


class Report:
    """The sanitizer's findings, and the amount of its checks. `weft.sanitize` returns it.

    findings   every finding
    launches   how many launches were checked
    counts     how many accesses, barriers and arrays were checked
    devices    what each GPU of a whole program sent and allocated

    >>> with weft.sanitize(raises=False) as clean:
    ...     module.scale[1, 32](x, 1.0, 4)
    >>> print(clean.findings, clean.launches)
    [] 1
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.launches = 0
        self.counts = CheckCounts()
        self.devices: list[DeviceWork] = []
        self._failed: DeviceError | None = None
        self._lock = threading.Lock()
        self._sanitizer = Sanitizer()

    @property
    def summary(self) -> str:
        """The amount of checks, in words."""
        c = self.counts
        return summary(self.launches, c.accesses, c.barriers, c.syncs, c.arrays)

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict, for JSON."""
        return {
            "launches": self.launches,
            "counts": asdict(self.counts),
            "findings": [f.to_dict() for f in self.findings],
            "devices": [asdict(d) for d in self.devices],
        }

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add the findings of another process, given by its `to_dict`."""
        self.launches += facts["launches"]
        self._count(facts["counts"])
        self.count_devices([DeviceWork(**row) for row in facts["devices"]])
        for found in facts["findings"]:
            accesses = tuple(Access.from_dict(a) for a in found["accesses"])
            self.findings.append(Finding(**{**found, "accesses": accesses}))

    def __str__(self) -> str:
        found = f"{len(self.findings)} found" if self.findings else "nothing found"
        return "\n".join([*map(str, self.findings), f"sanitizer: {found} in {self.summary}"])

    def _repr_html_(self) -> str:
        """The HTML for notebooks."""
        from weft.report import cells

        return cells.sanitized(self.findings, self.summary)

    def raise_findings(self) -> None:
        """Raise SanitizerError if there are findings."""
        if not self.findings:
            return
        rest = len(self.findings) - SHOWN
        more = [f"… and {rest} more, in `findings`"] if rest > 0 else []
        shown = [str(f) for f in self.findings[:SHOWN]]
        checked = [f"checked: {self.summary}"] if self.launches else []  # else it was the host
        error = SanitizerError("\n".join([*shown, *more, *checked]))
        error.findings, error.summary = tuple(self.findings), self.summary
        raise error from self._failed

    def note(self, findings: Sequence[Finding]) -> None:
        """Add findings from outside launches."""
        with self._lock:
            self.findings += findings

    def count_devices(self, work: Sequence[DeviceWork]) -> None:
        """Add the counts of a program's GPUs."""
        with self._lock:
            self.devices += work

    def fail(self, error: DeviceError) -> None:
        """Note the error that ended a launch: it is among the findings, and becomes their cause."""
        self._failed = error

    def run(self, asked: LaunchRequest) -> None:
        """Run one launch under the sanitizer and add its findings."""
        error: DeviceError | None = None
        try:
            asked.run(self._sanitizer)
        except DeviceError as failed:
            error = failed
        seen = self._sanitizer.take()
        if seen is None:
            assert error is not None
            raise error
        seen.error = error
        plan = asked.plan
        findings = Decoder(plan.sim, plan.entry, plan.config, seen).findings()
        with self._lock:
            self.launches += 1
            self._count(asdict(seen.counts))
            self.findings += findings
        if error is not None:
            raise error

    def _count(self, counts: Mapping[str, int]) -> None:
        """Add the counts; launches share their arrays, so the maximum of one launch counts."""
        for name, n in counts.items():
            before = getattr(self.counts, name)
            setattr(self.counts, name, max(before, n) if name == "arrays" else before + n)


class Strict(Report):
    """A session in which every launch raises its findings at once."""

    def run(self, asked: LaunchRequest) -> None:
        one = Report()
        try:
            one.run(asked)
        except DeviceError as error:
            if not one.launches:  # it never began
                raise
            one.fail(error)
        one.raise_findings()

    def note(self, findings: Sequence[Finding]) -> None:
        one = Report()
        one.note(findings)
        one.raise_findings()


@contextmanager
def sanitize(*, raises: bool = True) -> Iterator[Report]:
    """Run all launches on simulated GPUs in this process under the sanitizer, until the end.

    raises  whether the end raises SanitizerError when there are findings; the report has them too
    """
    report = Report()
    try:
        with settings.in_this_process(report):
            yield report
    except DeviceError as error:
        if not raises:
            raise
        report.fail(error)
    if raises:
        report.raise_findings()
