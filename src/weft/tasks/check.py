"""Checks the solutions of a file, or runs a program under the sanitizer."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft import progress
from weft.device.selection import Selection
from weft.device.sim.tools.sanitizer.session import Report, sanitize
from weft.frontends import compute_sanitizer
from weft.frontends.files import is_script, runner
from weft.measure.check.workers import LIMIT, check_file
from weft.progress import Notify
from weft.tasks.program import Build
from weft.values.check import Outcome


@dataclass(frozen=True)
class CheckOptions:
    """A file of solutions.

    op          the file with the operations, if it is another one
    only        check only this operation or solution
    seed        repeats the run that printed it
    time_limit  CPU seconds for one call
    schedules   the number of schedules to try as well
    """

    file: Path
    op: Path | None = None
    only: str = ""
    seed: int | None = None
    device: str = "sim"
    time_limit: float = LIMIT
    schedules: int = 0


def check(options: CheckOptions, notify: Notify = lambda step: None) -> Iterator[Outcome]:
    """Check the solutions one after the other, each in its own process."""
    return check_file(
        options.file,
        trusted=options.op,
        only=options.only,
        seed=options.seed,
        device=options.device,
        limit=options.time_limit,
        schedules=options.schedules,
        progress=notify,
    )


# ---- the sanitizer -------------------------------------------------------------------------------
@dataclass(frozen=True)
class SanitizeOptions:
    """A script or a CUDA program to run under the sanitizer.

    quiet  what the program prints goes to standard error
    """

    file: Path
    args: Sequence[str]
    device: Selection
    build: Build = field(default_factory=Build)
    quiet: bool = False


@dataclass(frozen=True)
class Sanitized:
    """The findings in a program; `checked` is False if it launched nothing."""

    exit_code: int
    report: Report
    checked: bool

    @property
    def code(self) -> int:
        """1 for a finding, even if the program itself ends with 0."""
        return 1 if self.report.findings else self.exit_code

    @property
    def style(self) -> str:
        """The colour of the report."""
        return "red" if self.report.findings else "green" if self.checked else "yellow"

    def to_dict(self) -> dict[str, Any]:
        """The report as a dict, for JSON."""
        return {"exit_code": self.exit_code, **self.report.to_dict()}


def sanitized(program: SanitizeOptions, notify: Notify = lambda tool: None) -> Sanitized:
    """Run a program under the sanitizer, on a GPU under NVIDIA's compute-sanitizer."""
    front_end, args = runner(program.file), list(program.args)  # raises for other file types
    if program.device.real:

        def tool(name: str) -> None:
            notify(f"{program.file.name} under {name}")

        found = compute_sanitizer.run(str(program.file), args, tool, to_stderr=program.quiet)
        return Sanitized(*found, checked=True)
    keywords = program.build.keywords(program.file)
    # A program is a process of its own, which a redirection does not reach.
    if program.quiet and not is_script(program.file):
        keywords["stdout"] = sys.stderr.fileno()
    progress.enabled = not program.quiet
    output = contextlib.redirect_stdout(sys.stderr) if program.quiet else contextlib.nullcontext()
    # Findings are collected, so that one run reports those of all launches.
    with sanitize(raises=False) as report, output:
        code = front_end.run(str(program.file), args, device=program.device, **keywords)
    return Sanitized(code, report, checked=report.launches > 0)
