"""Traces: many executions of every access, by all warps of one block, and which lanes were active.

A sample shows one execution of an access. A trace steps through a loop, and shows the active lanes
of code that touches no memory. Its size is bounded: with more accesses and warps it keeps fewer
executions of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.device.sim.observe import Watched, Watcher
from weft.device.sim.run.observation import Observation
from weft.device.sim.tools.counters.sampling import Sampling

RECORDS = 24_000
"""The most records of a trace; each has 34 words."""


@dataclass
class Tracing(Sampling):
    """Counts one launch and traces a block: up to `depth` executions of each access and warp."""

    key: str = "count 3, traced"

    def watcher(self, e: Watched) -> Watcher:
        # Imported here: to compile, not to run.
        from weft.device.sim.tools.counters.stages.sampled import TraceStages
        from weft.device.sim.tools.counters.stages.watcher import has_stages
        from weft.device.sim.tools.counters.trace_watcher import TraceWatcher

        return TraceStages(e) if has_stages(e) else TraceWatcher(e)

    def begin(self, observation: Observation) -> None:
        # Launches of one program differ in size: the last block stands for those beyond it.
        self.block = min(self.block or 0, math.prod(observation.config.grid) - 1)
        super().begin(observation)

    def _room(self, observation: Observation, sites: int) -> tuple[int, int]:
        warps = -(-math.prod(observation.config.block) // 32)
        return warps, max(1, min(self.depth, RECORDS // max(1, sites * warps)))
