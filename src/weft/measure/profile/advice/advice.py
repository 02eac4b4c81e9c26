"""Applies all advice rules to a profile; small gains are left out."""

from __future__ import annotations

from dataclasses import replace

from weft.device.models import GpuModel
from weft.measure.profile.advice import compute, launch, memory
from weft.measure.profile.advice.rule import Rule, RuleContext
from weft.values.analysis import Advice
from weft.values.profile import Profile

WORTH = 1.05
"""The least gain that is reported."""


def advise(p: Profile, gpu: GpuModel) -> tuple[Advice, ...]:
    """All advice for a profile: what helps this launch before what helps a larger grid."""
    context = RuleContext(p, gpu)
    advice = [
        replace(a, filled=context.filled and name not in launch.RULES)
        for name, rule in rules().items()
        for a in rule(context)
        if a.gain >= WORTH
    ]
    return tuple(sorted(advice, key=lambda a: (a.filled, -a.gain)))


def rules() -> dict[str, Rule]:
    """All rules by name."""
    return {**memory.RULES, **launch.RULES, **compute.RULES}
