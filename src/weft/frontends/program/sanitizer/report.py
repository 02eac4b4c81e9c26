"""The sanitizer across processes: what it finds in a program is added to the report of weft's own.

The program's process appends to an open file without a name after each launch, so that a program
that ends badly has told all until then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from weft.device.sim.run.settings import Request, Session
from weft.device.sim.tools.sanitizer.findings import Finding
from weft.device.sim.tools.sanitizer.session import Report


class ForwardedReport(Report):
    """A report that is kept elsewhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._file = open(descriptor, "a", closefd=False)  # noqa: SIM115 - open until the end

    def run(self, asked: Request) -> None:
        one = Report()
        try:
            one.run(asked)
        finally:
            self._send(one)

    def note(self, findings: Sequence[Finding]) -> None:
        one = Report()
        one.note(findings)
        self._send(one)

    def _send(self, one: Report) -> None:
        print(json.dumps(one.to_dict()), file=self._file, flush=True)


def merge_findings(report: Session, descriptor: int) -> None:
    """Adds what a program's process has sent."""
    assert isinstance(report, Report), "a recording is another kind of session"
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, closefd=False) as file:
        for line in file:
            if line.endswith("\n"):  # otherwise it was ended while it wrote
                report.add(json.loads(line))
