"""Checks for a named model: `weft.check(..., device="sim:t4")` enforces its limits.

A kernel is compiled for one model and is simulated as such. Grid, block and shared memory of its
launches must also fit the model that the check names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest, Session
from weft.kernels.limits import check


@dataclass(frozen=True)
class _LimitedLaunches:
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


def enforce(device: Selection) -> None:
    """Enforce the limits of the model that a device word names on launches of this process."""
    if (session := _session(device)) is not None:
        settings.current = session


@contextlib.contextmanager
def enforced(device: Selection) -> Iterator[None]:
    """Apply `enforce` inside of a `with` block."""
    session = _session(device)
    with contextlib.nullcontext() if session is None else settings.in_this_process(session):
        yield


def _session(device: Selection) -> Session | None:
    if device.real or device.key is None:
        return None
    return _LimitedLaunches(device.model, settings.active())
