"""The steps of attention on a ring of ranks: work, idle time and bytes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RingStep:
    """The work of one rank in one step.

    source  the rank whose keys are multiplied
    rows    queries: the first row of the shard and their number; keys likewise
    causal  True if only the triangle up to the diagonal is computed
    scores  of one head; 0: the rank is idle
    sent    bytes of keys and values that the rank sends on meanwhile
    cells   the scores on the grid of the picture: the query, the first key, and their number
    """

    rank: int
    source: int
    queries: tuple[int, int]
    keys: tuple[int, int]
    causal: bool
    scores: int
    sent: int
    cells: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class RingSchedule:
    """All steps of a ring, each with one entry for every rank.

    length  tokens of the whole sequence
    steps   the forward pass; a step lasts as long as its longest rank
    grid    queries, and keys, along a side of the picture
    """

    layout: str
    world: int
    causal: bool
    length: int
    steps: tuple[tuple[RingStep, ...], ...]
    grid: int

    @property
    def work(self) -> tuple[int, ...]:
        """Scores of each rank."""
        return tuple(sum(step[rank].scores for step in self.steps) for rank in range(self.world))

    @property
    def longest(self) -> tuple[int, ...]:
        """Scores of the busiest rank in each step."""
        return tuple(max(one.scores for one in step) for step in self.steps)

    @property
    def idle(self) -> float:
        """The share of all ranks' time in which they wait for the busiest one."""
        return 1 - sum(self.work) / (self.world * sum(self.longest))

    @property
    def sent(self) -> int:
        """Bytes that all ranks send."""
        return sum(one.sent for step in self.steps for one in step)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {**asdict(self), "work": self.work, "idle": self.idle, "sent": self.sent}
