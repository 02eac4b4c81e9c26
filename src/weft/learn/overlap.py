"""Counts what runs at the same time in the modelled timeline of a program.

overlapped copies >= 3   copies, to the device or back, that run while a kernel runs
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from weft.device.models import GpuModel
from weft.frontends import program
from weft.measure.profile.session import Recording, recording
from weft.measure.timeline.timeline import modelled
from weft.values.time.timeline import COPY, KERNEL, ON_DEVICE

COPIES = "overlapped copies"
NAMES = (COPIES,)
"""Every fact of a program that a rule may name."""


def facts(path: Path, arguments: Sequence[str], gpu: GpuModel) -> dict[str, float]:
    """Run the program and count."""
    with recording(Recording(gpu.key, timeline=True)) as recorded, open(os.devnull, "wb") as none:
        program.run(str(path), arguments, stdout=none.fileno())
    events = modelled(path.name, gpu, recorded.activities, recorded.profiles).events
    kernels = [e for e in events if e.kind == KERNEL]
    copies = [e for e in events if e.kind == COPY and e.name != ON_DEVICE]
    beside = [c for c in copies if any(c.start < k.end and k.start < c.end for k in kernels)]
    return {COPIES: float(len(beside))}
