"""The facts that rules of programs with several GPUs are about.

    messages per GPU <= 6                 calls of ncclSend
    bytes sent per GPU <= 6 * n           by these calls; a limit may name arguments of the program
    collectives per GPU = 1               all-reduces and other operations of all ranks
    bytes allocated per GPU <= 64 * n     the most device memory at a time

The sanitizer counts them. A fact is the largest count of any GPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from weft.climbing import counters
from weft.measure.expressions import number
from weft.values.findings import DeviceWork

_FACTS: Mapping[str, Callable[[DeviceWork], int]] = {
    "messages per GPU": lambda work: work.messages,
    "bytes sent per GPU": lambda work: work.bytes_sent,
    "collectives per GPU": lambda work: work.collectives,
    "bytes allocated per GPU": lambda work: work.peak_memory,
}
NAMES = tuple(_FACTS)
"""Every fact that a rule of a program may name."""
_RULE = re.compile(r"(.+?)\s*(<=|>=|<|>|=)\s*(.+)$")


def fact_of(rule: str) -> str:
    """The name of the fact in a rule."""
    match = _RULE.match(rule)
    return match[1] if match else rule


def broken(rule: str, devices: Sequence[DeviceWork], arguments: Mapping[str, int]) -> str:
    """The measured fact in words if a run breaks a rule; else ""."""
    match = _RULE.match(rule)
    assert match is not None, "the rule was read with the exercise"
    name, comparison, limit = match.groups()
    most = float(max((_FACTS[name](work) for work in devices), default=0))
    stated = f"{name} {comparison} {number(limit, arguments):f}"
    return "" if counters.holds(rule, stated, {name: most}) else f"{name} is {most:,.0f}"
