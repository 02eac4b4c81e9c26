"""Ring attention: keys and values travel around a ring of GPUs, each of which keeps its queries.

Credits: ring attention by Liu, Zaharia and Abbeel (2023), the striped layout by Brandon et al.
(2023), the zigzag layout by Zhu's implementation (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from weft.measure.parallel.layouts.layout import Divided, Layout
from weft.values.time.parallel import Attention, Fabric, Schedule, Timed

Shares = Sequence[tuple[int, float]]
"""(a number of GPUs, the pairs of a query and a key that each of them computes in a step)"""


def _whole(gpus: int, rows: float, step: int) -> Shares:
    return [(gpus, rows * rows)]


def _contiguous(gpus: int, rows: float, step: int) -> Shares:
    """GPU r has keys of GPU r - step; those of later positions are skipped."""
    if step == 0:
        return [(gpus, rows * (rows + 1) / 2)]
    return [(gpus - step, rows * rows), (step, 0.0)]


def _striped(gpus: int, rows: float, step: int) -> Shares:
    """Every block is a triangle, with its diagonal where the keys come from an earlier GPU."""
    return [(gpus - step, rows * (rows + 1) / 2), (step, rows * (rows - 1) / 2)]


def _zigzag(gpus: int, rows: float, step: int) -> Shares:
    """A GPU has an early chunk and its mirror image: half of every block is computed."""
    return [(gpus, rows * (rows + 1) / 2 if step == 0 else rows * rows / 2)]


def _timed(
    shares: Callable[[int, float, int], Shares], work: Attention, fabric: Fabric, _: Schedule
) -> Timed:
    """Add up the steps: each takes as long as its computation or its transfer, the last one as
    long as its computation."""
    gpus = fabric.gpus
    rows = work.length / gpus
    pairs = work.length * ((work.length + 1) / 2 if work.causal else work.length)
    pair = work.seconds / pairs
    size = 2 * work.batch * work.key_heads * rows * work.head * work.element
    hops = [fabric.link(r, (r + 1) % gpus).seconds(size) for r in range(gpus)]
    split = shares if work.causal else _whole
    longest = [pair * max(n for _, n in split(gpus, rows, k)) for k in range(gpus)]
    seconds = sum(max(each, *hops) for each in longest[:-1]) + longest[-1]
    return Timed(seconds, work.seconds / gpus, (gpus - 1) * sum(hops) / gpus)


def _layout(shares: Callable[[int, float, int], Shares], parts: int = 1) -> Layout[Attention]:
    return Layout(
        Attention, partial(_timed, shares), lambda work: (Divided(work.length, "tokens", parts),)
    )


LAYOUTS = {
    "ring": _layout(_contiguous),
    "striped": _layout(_striped),
    "zigzag": _layout(_zigzag, 2),
}
