"""Defines advice rules: their input and their result.

Each rule examines the same profile and yields advice or nothing. The gain comes from the model in
`floor` for this change alone: an upper bound, not a prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from weft.device.models import GpuModel
from weft.measure.profile import floor
from weft.measure.profile.cliffs import fit
from weft.values.analysis import Advice
from weft.values.profile import Access, Line, Profile


@dataclass(frozen=True)
class RuleContext:
    """The profile that a rule examines, and values derived from it."""

    p: Profile
    gpu: GpuModel

    @cached_property
    def of_launch(self) -> tuple[floor.GpuUnit, ...]:
        """The units of this launch, with its latency."""
        return floor.units(self.p, self.gpu)

    @cached_property
    def filled(self) -> bool:
        """True if gains are computed for a grid that fills the GPU.

        A launch that is bound by latency gains nothing by less work for idle units. It may be a
        test of a kernel that is meant for large grids.
        """
        return floor.bound(self.of_launch).name == floor.LATENCY

    @cached_property
    def units(self) -> tuple[floor.GpuUnit, ...]:
        """The units that gains are computed for."""
        if not self.filled:
            return self.of_launch
        return floor.of_whole_gpu(floor.throughput(self.of_launch))

    @property
    def clocks(self) -> float:
        """Clocks a second of all SMs that `units` counts on."""
        sms = self.gpu.sms if self.filled else floor.busy_sms(self.p, self.gpu)
        return sms * self.gpu.boost_mhz * 1e6

    @cached_property
    def fits(self) -> int:
        """Resident blocks per SM."""
        return fit(self.p.launch, self.gpu).blocks

    @property
    def bound(self) -> str:
        return floor.bound(self.units).name

    def unit(self, name: str) -> floor.GpuUnit:
        nothing = floor.GpuUnit(name, 0.0, 0.0, 1.0, "")
        return next((u for u in self.units if u.name == name), nothing)

    def gain(self, **removed: float) -> float:
        """The speed-up if this work were removed: l1 steps, l2 or dram bytes, instructions, ..."""
        names = {"l1": "L1 and shared memory", "l2": "L2", "dram": "DRAM"}
        less = {}
        for key, work in removed.items():
            unit = self.unit(names.get(key, key))
            less[unit.name] = max(0.0, 1 - work / unit.work) if unit.work else 1.0
        return floor.gain(self.units, less)

    def accesses(self, space: str, *kinds: str) -> Iterator[tuple[Line, Access]]:
        """(line, access) pairs of one space and some kinds."""
        for line in self.p.lines:
            for a in line.accesses:
                if a.space == space and (not kinds or a.kind in kinds):
                    yield line, a


Rule = Callable[[RuleContext], Iterator[Advice]]


def at(line: Line | None) -> tuple[str, int]:
    """The file and line of advice: its last two fields."""
    return (line.file, line.number) if line else ("", 0)
