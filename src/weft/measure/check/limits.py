"""Checks for a named model: `weft.check(..., device="sim:t4")` holds every launch to its limits.

A kernel is compiled for one model and is simulated as such. Grid, block and shared memory of its
launches must also fit the model that the check names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest, Session
from weft.kernels.limits import check


@dataclass(frozen=True)
class _Held:
    """Runs launches that fit the model; `inner` is the session that was active before."""

    model: GpuModel
    inner: Session | None

    def run(self, asked: LaunchRequest) -> None:
        plan = asked.plan
        summary = plan.sim.kernels.get(plan.entry)
        name = summary.name if summary else plan.entry
        check(name, plan.sim.entry(plan.entry), plan.config, self.model, None)
        if self.inner is None:
            asked.run()
        else:
            self.inner.run(asked)


def hold(device: Selection) -> None:
    """Holds the launches of this process to the limits of the model that a device word names."""
    if not device.real and device.key is not None:
        settings.current = _Held(device.model, settings.active())


@contextmanager
def held(device: Selection) -> Iterator[None]:
    """Applies `hold` inside of a `with` block."""
    before = settings.current
    hold(device)
    try:
        yield
    finally:
        settings.current = before
