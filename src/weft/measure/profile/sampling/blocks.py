"""Profiles some blocks of launches whose grids are too large to simulate.

The launch keeps its grid and its arguments, and the simulator runs blocks at a few places of the
grid. Counters of the whole grid are then those of a block, times the number of blocks. Blocks that
wait for others get stuck; of such grids the first blocks run. Blocks that draw their work from a
counter do all of it, however few run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from weft.device.models import GpuModel
from weft.device.sim.run import settings
from weft.device.sim.run.settings import LaunchRequest
from weft.errors import DeviceError
from weft.measure.profile.prediction.demand import SampledLaunch
from weft.measure.profile.profile import profile_launch
from weft.measure.profile.result import Profile

BUDGET = 1_000_000
"""Warp instructions to simulate of one launch: some hundredths of a second."""
MOST_BLOCKS = 32
PLACES = (0.618, 0.236, 0.854, 0.472)
"""Parts of the grid at which blocks run: multiples of the golden ratio, which no size of a grid
divides."""

SHARED = 1.5
"""Two and more places that execute less than so many times the instructions of one share work."""


class SampledLaunches:
    """A session that runs some blocks of each launch; results of kernels are incomplete."""

    def __init__(self, model: GpuModel, budget: int = BUDGET) -> None:
        self._model, self._budget = model, budget
        self.launches: list[SampledLaunch] = []

    def run(self, request: LaunchRequest) -> None:
        """Run some blocks of one launch."""
        try:
            self._run(request, PLACES)
        except DeviceError:  # a deadlock: blocks wait for earlier ones
            self._run(request, (0.0,))

    def _run(self, request: LaunchRequest, places: Sequence[float]) -> None:
        plan = request.plan
        total = math.prod(plan.config.grid)
        cluster = math.prod(plan.cluster or (1,))

        def counted(blocks: Sequence[range]) -> Profile:
            return profile_launch(
                plan.sim, plan.entry, plan.config, self._model, request.run, blocks=blocks
            )

        one = spread(total, cluster, cluster, places[:1])
        first = counted(one)
        each = max(1, _executed(first))
        wanted = max(1, min(MOST_BLOCKS // cluster, self._budget // each)) * cluster
        if _draws(first):
            wanted = max(wanted, 2 * cluster)
        chosen = spread(total, cluster, wanted, places)
        more = first if chosen == one else counted(chosen)
        if _draws(first) and chosen != one and _executed(more) < SHARED * each:
            # The counter is where the first block has left it: others have nothing but what is
            # theirs without it.
            blocks = sum(map(len, chosen))
            self.launches.append(SampledLaunch(more, blocks, more, blocks, drawn=first))
        else:
            self.launches.append(SampledLaunch(more, sum(map(len, chosen)), first, len(one[0])))


def _executed(p: Profile) -> int:
    return sum(i.executions for i in p.instructions)


def _draws(p: Profile) -> bool:
    """True if blocks may draw their work: atomic operations on global memory have a result."""
    return any(
        a.kind == "atomic" and a.space == "global" for i in p.instructions for a in i.accesses
    )


def spread(total: int, cluster: int, wanted: int, places: Sequence[float]) -> tuple[range, ...]:
    """Ranges of about so many blocks at these parts of a grid, in whole clusters; none twice."""
    if wanted >= total:
        return (range(total),)
    used = places[: max(1, wanted // cluster)]
    each = max(1, wanted // cluster // len(used)) * cluster
    out: list[range] = []
    for place in sorted(used):
        start = int(place * total) // cluster * cluster
        start = max(start, out[-1].stop if out else 0)
        if start < total:
            out.append(range(start, min(total, start + each)))
    return tuple(out)


@contextmanager
def sampling(model: GpuModel, budget: int = BUDGET) -> Iterator[SampledLaunches]:
    """Run only some blocks of each launch of this thread."""
    session = SampledLaunches(model, budget)
    with settings.in_this_thread(session):
        yield session
