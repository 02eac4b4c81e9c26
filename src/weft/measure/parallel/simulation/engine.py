"""Runs a graph of tasks on resources by a heap of events."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

Resource = tuple[str, int]
"""A kind and the number of a GPU: ("computes", 3), ("sends", 3), ("receives", 3)."""


@dataclass(frozen=True)
class Task:
    """Work that holds its resources for some seconds, after other tasks."""

    seconds: float
    uses: tuple[Resource, ...]
    after: tuple[int, ...]


@dataclass
class Graph:
    """Tasks in the order in which a program issues them. A task is known by its number."""

    tasks: list[Task] = field(default_factory=list)

    def add(self, seconds: float, uses: Iterable[Resource], after: Iterable[int]) -> int:
        """Add a task; the tasks `after` which it runs are there already."""
        self.tasks.append(Task(seconds, tuple(uses), tuple(after)))
        return len(self.tasks) - 1


@dataclass(frozen=True)
class Run:
    """The end of the last task, and the seconds in which each resource was held."""

    seconds: float
    held: dict[Resource, float]


def run(graph: Graph) -> Run:
    """Start each task when those before it have ended and its resources are free.

    Tasks that wait for a resource get it in the order in which they became ready.
    """
    waits = [len(set(task.after)) for task in graph.tasks]
    followers: dict[int, list[int]] = defaultdict(list)
    for number, task in enumerate(graph.tasks):
        for before in set(task.after):
            followers[before].append(number)
    taken: set[Resource] = set()
    queues: dict[Resource, deque[int]] = defaultdict(deque)
    held: dict[Resource, float] = defaultdict(float)
    events: list[tuple[float, int]] = []  # (end of a task, its number)
    now = 0.0

    def begin(number: int) -> None:
        task = graph.tasks[number]
        busy = next((r for r in task.uses if r in taken), None)
        if busy is not None:
            queues[busy].append(number)
            return
        taken.update(task.uses)
        for resource in task.uses:
            held[resource] += task.seconds
        heapq.heappush(events, (now + task.seconds, number))

    for number, count in enumerate(waits):
        if count == 0:
            begin(number)
    while events:
        now, number = heapq.heappop(events)
        task = graph.tasks[number]
        taken.difference_update(task.uses)
        ready: list[int] = []
        for resource in task.uses:
            ready += queues.pop(resource, ())
        for follower in followers[number]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
        for each in ready:
            begin(each)
    assert not any(waits), "a task waits for one that never ends"
    return Run(now, dict(held))
