"""Renders the report of a bug as Markdown, and lists what was collected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from weft.report.words import Block
from weft.values.support.bug_report import Argument, BugReport, Failure

_HEAD = """\
# Bug report

What I did, what I expected, and what happened instead:

(write here)
"""


def markdown(report: BugReport) -> str:
    """The report as a Markdown file, with a place for the user's words."""
    parts = [_HEAD, *_failure(report)]
    sections = {"Versions": report.versions, "Machine": report.machine, "Settings": report.settings}
    parts += [f"## {title}\n\n{_table(facts)}\n" for title, facts in sections.items()]
    return "\n".join(parts)


def collected(report: BugReport) -> Iterator[Block]:
    """The parts that the file holds, and those that are left out."""
    yield f"versions of Python, weft and {len(report.versions) - 2} packages", ""
    yield f"operating system, CPU, GPU and driver: {len(report.machine)} facts", ""
    names = ", ".join(report.settings) or "none is set"
    yield f"settings of weft: {names}", ""
    if report.failure is not None:
        yield f"the failure of {report.file}: {_summary(report.failure)}", ""
    elif report.file:
        yield f"{report.file} ended without an error: no launch is in the report", "yellow"
    else:
        yield "no failing launch: `weft bug-report FILE` runs a file and adds it", ""
    yield "left out: values of arrays, other environment variables, the home folder", ""


def _summary(failure: Failure) -> str:
    source = f"source of {', '.join(failure.sources)}" if failure.sources else "no source"
    return f"{failure.kind}, {len(failure.arguments)} arguments, {source}"


def _failure(report: BugReport) -> Iterator[str]:
    failure = report.failure
    if failure is None:
        return
    yield f"## Failure of `{report.file}`\n"
    facts = {
        "error": f"{failure.kind}: {failure.what}" if failure.what else failure.kind,
        "where": failure.where,
        "called from": ", ".join(failure.frames),
        "kernel": failure.kernel,
    }
    yield _table({k: v for k, v in facts.items() if v}) + "\n"
    if failure.arguments:
        yield _table({a.name: _type(a) for a in failure.arguments}, "argument", "type") + "\n"
    for name, text in failure.sources.items():
        longest = max(map(len, re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{name}:\n\n{fence}cuda\n{text.strip()}\n{fence}\n"


def _type(argument: Argument) -> str:
    if argument.shape is None:
        return argument.type
    return f"{argument.type}[{', '.join(map(str, argument.shape))}]"


def _table(facts: Mapping[str, str], left: str = "", right: str = "") -> str:
    if not facts:
        return "none"
    rows = [f"| {name} | {_cell(text)} |" for name, text in facts.items()]
    return "\n".join([f"| {left} | {right} |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
