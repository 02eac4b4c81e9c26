"""Formats the explanation of a mistake."""

from __future__ import annotations

from collections.abc import Iterator

from weft.report.words import Styled
from weft.values.learn.mistake import Mistake


def mistake(found: Mistake) -> Iterator[Styled]:
    """The observation, its place, the likely cause and a question; or that the answer passes."""
    if not found.name:
        yield f"✓ {found.exercise}: {found.happened}", "green"
        return
    yield f"✗ {found.exercise}: {found.name}", "red"
    yield f"\nWhat happened  {found.happened}", ""
    for e in found.elements:
        yield f"               {e.element} is {e.got:g}, expected {e.expected:g}", ""
    for number, line in enumerate(found.where):
        yield f"{'               ' if number else 'Where          '}{line}", ""
    yield f"Likely cause   {found.cause}", ""
    yield f"Ask yourself   {found.question}", "bold"
