"""Derives sections, roofline, advice and differences from the counters of a profile."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weft.device import models
from weft.device.models import GpuModel
from weft.measure.profile import values

if TYPE_CHECKING:  # a process that only launches kernels imports none of these
    from weft.measure.profile.advice.rule import Advice
    from weft.measure.profile.difference import Changes
    from weft.measure.profile.roofline import Roofline
    from weft.measure.profile.sections import Section


class AnalysedProfile(values.Profile):
    """The counters of one launch, which `weft.measure.profile.values` describes, and analyses."""

    @cached_property
    def model(self) -> GpuModel:
        """The GPU model whose caches, limits and ceilings apply."""
        return models.get(self.gpu)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The metrics in sections, with ncu's names."""
        from weft.measure.profile.sections import sections

        return sections(self, self.model)

    @cached_property
    def roofline(self) -> Roofline:
        """Arithmetic intensity at each memory level, the bound and the floor."""
        from weft.measure.profile.roofline import roofline

        return roofline(self, self.model)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Suggested changes, the largest possible gain first."""
        from weft.measure.profile.advice.advice import advise

        return advise(self, self.model)

    def compare(self, other: values.Profile) -> Changes:
        """The changes from this profile to another one."""
        from weft.measure.profile.difference import diff

        return diff(self, other)
