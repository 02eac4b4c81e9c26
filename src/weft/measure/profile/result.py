"""The result of `weft.profile`: counters with their analyses and views."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from weft.device import models
from weft.device.models import GpuModel
from weft.errors import Error
from weft.report.files import write
from weft.values.analysis import AnalysedProfile

if TYPE_CHECKING:  # a process that only launches kernels imports none of these
    from weft.measure.profile.difference import Changes
    from weft.values.analysis import Advice, Curve, Roofline, Section
    from weft.values.time.prediction import Prediction


class Profile(AnalysedProfile):
    """The result of `weft.profile`. `print` shows it; `save` writes a page or a record.

    launch         kernel, grid, block, shared memory and registers
    gpu            the model whose caches, limits and rates apply
    instructions   each PTX instruction and how often it ran
    lines          the same by source line
    arrays         the bytes of each array that were read and written
    totals         counters of the whole launch, with ncu's names after "sim:"
    modelled       the names in `totals` that are estimates; all others are exact
    samples        the addresses that some warps accessed
    measured       seconds on a real GPU, where the arrays are on one
    predicted      the modelled time of one launch, and what bounds it

    >>> p = weft.profile(module.scale[1, 32], x, 1.0, 4)
    >>> print(p.roofline.bound)
    latency
    """

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

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """Occupancy against registers, shared memory and block size."""
        from weft.measure.profile.cliffs import curves

        return curves(self.launch, self.model)

    @cached_property
    def predicted(self) -> Prediction:
        """The predicted time of one launch on this GPU: seconds, bound, stalls by line."""
        return self.predict()

    def predict(self, gpu: str | None = None) -> Prediction:
        """The predicted time of one launch on a GPU by name, e.g. "a100"."""
        from weft.measure.profile.prediction.duration import predict

        return predict(self, gpu)

    def compare(self, other: Profile) -> Changes:
        """The changes from this profile to another one."""
        from weft.measure.profile.difference import diff

        return diff(self, other)

    def __str__(self) -> str:
        from weft.report.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from weft.report.page import fragment

        return fragment(self)

    def save(self, path: str | Path) -> None:
        """Write a page (.html) or a record (.json)."""
        ending = Path(path).suffix
        if ending == ".json":
            from weft.measure.profile import record

            write(path, json.dumps(record.dump([self])))
            return
        if ending not in (".html", ".htm"):
            raise Error(
                "a profile is saved as a page or as a record",
                got=f"{str(path)!r}",
                allowed=".html (a page), .json (a record)",
                next=f'p.save("{Path(path).stem or "p"}.html"); a browser can print it',
            )
        from weft.report.page import page

        write(path, page([self]))

    @classmethod
    def load(cls, path: str | Path) -> list[Profile]:
        """Read the profiles of a record written by `save` or `weft profile --json`."""
        from weft.measure.profile import record

        return record.load(path, cls)
