"""Counts what runs at the same time in the modelled timeline of a program.

overlapped copies >= 3   copies, to the device or back, that run while a kernel runs
"""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.measure.profile.session import Recording
from weft.measure.timeline.timeline import modelled
from weft.values.time.timeline import COPY, KERNEL, ON_DEVICE

COPIES = "overlapped copies"
NAMES = (COPIES,)
"""The facts of a timeline that a rule of a program may name."""


def facts(file: str, gpu: GpuModel, recorded: Recording) -> dict[str, float]:
    """Count in the recording of a program with its timeline."""
    events = modelled(file, gpu, recorded.activities, recorded.profiles).events
    kernels = [e for e in events if e.kind == KERNEL]
    copies = [e for e in events if e.kind == COPY and e.name != ON_DEVICE]
    beside = [c for c in copies if any(c.start < k.end and k.start < c.end for k in kernels)]
    return {COPIES: float(len(beside))}
