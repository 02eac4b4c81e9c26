"""A finding as data, and its text with the command that repeats it."""

from __future__ import annotations

from typing import Any

from weft.fuzz.execute import Finding, module_text

Record = dict[str, Any]
"""A finding as JSON: strings and numbers."""


def record(finding: Finding, smallest: Finding) -> Record:
    """A finding and the smallest program that was found for it."""
    seed, number = finding.program.name.split(":")
    alone = smallest.pack.alone(smallest.program)
    return {
        "seed": int(seed),
        "program": int(number),
        "kind": finding.kind,
        "shape": list(smallest.program.shape),
        "tool": alone.tool,
        "draft": alone.draft,
        "found": finding.text,
        "smallest": smallest.text,
        "size": [finding.program.size, smallest.program.size],
        "source": module_text([alone]),
        "host": module_text([alone], host=True),
    }


def crash(seed: int, first: int, count: int) -> Record:
    """The record of programs among which one ended its process, or took too long."""
    text = f"the process ended, or took too long, at one of programs {first} to {first + count - 1}"
    return {"seed": seed, "program": first, "kind": "crash", "smallest": text, "count": count}


def command(found: Record) -> str:
    """The command that runs the program of a finding again."""
    programs = found.get("count", 1)
    return f"weft fuzz --seed {found['seed']} --first {found['program']} --programs {programs}"


def text(found: Record) -> str:
    """Format a finding for a terminal."""
    again = command(found)
    head = f"seed {found['seed']}, program {found['program']}: {found['kind']}\n{found['smallest']}"
    if "source" not in found:
        return f"{head}\nagain: {again}\n"
    x, y = found["shape"]
    how = f"block {x} x {y}{', draft' if found['draft'] else ''}"
    tool = f", under the {found['tool']}" if found["tool"] else ""
    before, after = found["size"]
    cut = f"cut from {before} nodes to {after}"
    return f"{head}\n{how}{tool}; {cut}; again: {again}\n{found['source']}"
