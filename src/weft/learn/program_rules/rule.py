"""The rules of whole programs: a fact, a comparison, and a limit that may name the arguments.

launches = 1                       counters of a profile of all launches: `facts.py`
overlapped copies >= 3             the modelled timeline: `overlap.py`
bytes sent per GPU <= 24 * part    counts of the sanitizer: `several.py`
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.climbing import counters
from weft.learn import facts
from weft.learn.program_rules import overlap, several
from weft.measure.expressions import number

NAMES = (*facts.PROGRAM, *overlap.NAMES, *several.NAMES)
"""Every fact that a rule of a program may name."""
_RULE = re.compile(r"(.+?)\s*(<=|>=|<|>|=)\s*(.+)$")


def fact_of(rule: str) -> str:
    """The name of the fact in a rule."""
    match = _RULE.match(rule)
    return match[1] if match else rule


def broken(rule: str, known: Mapping[str, float], arguments: Mapping[str, int]) -> str:
    """The measured fact in words if a run breaks a rule; else ""."""
    match = _RULE.match(rule)
    assert match is not None, "the rule was read with the exercise"
    name, comparison, limit = match.groups()
    stated = f"{name} {comparison} {number(limit, arguments):f}"
    return "" if counters.holds(rule, stated, known) else f"{name} is {facts.shown(known[name])}"
