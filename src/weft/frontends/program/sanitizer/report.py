"""Transfers findings from the program's process to weft's report.

The program's process appends to an anonymous file after each launch, so that findings survive a
crash of the program.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from weft.device.sim.run.settings import LaunchRequest, Session
from weft.device.sim.tools.sanitizer.session import Report
from weft.values.findings import DeviceWork, Finding


class ForwardedReport(Report):
    """A report that is written to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._file = open(descriptor, "a", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the end

    def run(self, asked: LaunchRequest) -> None:
        one = Report()
        try:
            one.run(asked)
        finally:
            self._send(one)

    def note(self, findings: Sequence[Finding]) -> None:
        one = Report()
        one.note(findings)
        self._send(one)

    def count_devices(self, work: Sequence[DeviceWork]) -> None:
        one = Report()
        one.count_devices(work)
        self._send(one)

    def _send(self, one: Report) -> None:
        print(json.dumps(one.to_dict()), file=self._file, flush=True)


def merge_findings(report: Session, descriptor: int) -> None:
    """Add the findings that a program's process has written."""
    assert isinstance(report, Report), "a recording is another kind of session"
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, encoding="utf-8", closefd=False) as file:
        for line in file:
            if line.endswith("\n"):  # an incomplete line: the process was killed while writing
                report.add(json.loads(line))
