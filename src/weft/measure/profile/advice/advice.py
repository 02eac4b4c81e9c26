"""Advice: the checklist of performance as rules over counters. Small gains are left out."""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.measure.profile.advice import compute, launch, memory
from weft.measure.profile.advice.rule import Advice, Rule, RuleContext
from weft.measure.profile.values import Profile

WORTH = 1.05
"""The least gain that is worth naming."""


def advise(p: Profile, gpu: GpuModel) -> tuple[Advice, ...]:
    """What to change, the largest gain first; nothing where there is nothing to say."""
    context = RuleContext(p, gpu)
    advice = [a for rule in rules().values() for a in rule(context) if a.gain >= WORTH]
    return tuple(sorted(advice, key=lambda a: -a.gain))


def rules() -> dict[str, Rule]:
    """All rules by name."""
    return {**memory.RULES, **launch.RULES, **compute.RULES}
