"""Formats the outcomes of checks as lines of text."""

from __future__ import annotations

from weft.report.words import Styled
from weft.values.check import Outcome


def outcome(one: Outcome) -> Styled:
    """The line of a solution that is right; for another one its error and notes."""
    if one.error is None:
        return f"✓ {one.report}; {one.seconds:.1f} s", "green"
    notes = [*getattr(one.error, "__notes__", ()), f"after {one.seconds:.1f} s"]
    mark = "✗" if one.code == 1 else f"✗ {one.name} is not judged:"
    return "\n  ".join([f"{mark} {one.error}", *notes]), "red"
