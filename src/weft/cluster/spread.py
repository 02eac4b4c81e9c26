"""Give tasks to the workers of a Ray cluster, and repeat those whose worker has ended.

`run` has the contract of `processes.run`. A task whose worker ends is done by another worker. What
ends two workers is left out: a part of a task that was noted (`notes.py`), or the whole task.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.cluster.processes import GRACE, PATIENCE, TICK, Answer, Start
from weft.cluster.team import START, Hired, Team, introduced
from weft.errors import Error

DEATHS = 2
"""Workers that a task, or a part of one, may end before it is left out."""


def run(
    tasks: Sequence[Any],
    *,
    staff: Team,
    start: Start,
    kinds: Sequence[str] = (),
    limit: float = math.inf,
    patience: float = PATIENCE,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[int, Answer | None]]:
    """The number of each task with its answer, as they are finished; None for one that is left out.

    kinds  the GPU that each task is for; by default any worker takes any task
    tell   called with a sentence for each worker that ends, and for what is left out
    """
    work = _Spread(tasks, staff, start, kinds, patience, tell)
    end = time.monotonic() + limit
    staff.complete()
    for one in [w for w in staff.hired if w.call is None]:
        work.begin(one)
    try:
        while work.unfinished:
            if stop():
                end = min(end, time.monotonic())
            if time.monotonic() >= end:
                work.todo.clear()
            if time.monotonic() >= end + GRACE:
                return
            work.give()
            yield from work.given_up()
            yield from work.heard()
    finally:
        for one in [w for w in staff.hired if w.call is not None]:
            staff.dismiss(one)


class _Spread:
    """The tasks that are left, and the workers that are at some of them."""

    def __init__(
        self, tasks: Sequence[Any], staff: Team, start: Start, kinds: Sequence[str],
        patience: float, tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.tasks, self.staff, self.start = list(tasks), staff, start
        self.kinds, self.patience, self.tell = kinds, patience, tell
        self.todo = deque(range(len(tasks)))
        self.ended: Counter[str] = Counter()
        """Workers that each task, or part of one, has ended."""
        self.starting: set[Hired] = set()
        self._failed_starts = 0
        self._heard_at = time.monotonic()

    @property
    def unfinished(self) -> bool:
        """True while a task is left or under way."""
        return bool(self.todo) or any(one.number >= 0 for one in self.staff.hired)

    def begin(self, one: Hired) -> None:
        """Have a worker that has described itself prepare for tasks."""
        one.call = one.actor.begin.remote(self.start, one.key, self.staff.notes)
        self.starting.add(one)

    def give(self) -> None:
        """Give a task to each worker that has none."""
        for one in [w for w in self.staff.hired if w.call is None]:
            number = next((n for n in self.todo if self._fits(n, one)), None)
            if number is not None:
                self.todo.remove(number)
                banned = frozenset(what for what, n in self.ended.items() if n >= DEATHS)
                one.number, one.until = number, time.monotonic() + self.patience
                one.call = one.actor.do.remote(self.tasks[number], banned)

    def heard(self) -> Iterator[tuple[int, Answer | None]]:
        """The answers that have come within a TICK; replaces workers that ended."""
        calls = {one.call: one for one in self.staff.hired if one.call is not None}
        ready = self.staff.ray.wait([*calls], timeout=TICK)[0] if calls else []
        for one in [calls[call] for call in ready]:
            self._heard_at = time.monotonic()
            if one.number < 0:
                self._started(one)
            else:
                yield from self._answered(one)
        now = time.monotonic()
        for one in [w for w in self.staff.hired if now >= w.until]:
            yield from self._lost(one, f"took longer than {self.patience:.0f} s")

    def given_up(self) -> Iterator[tuple[int, Answer | None]]:
        """The tasks that no worker is left for, or that none was had for in START seconds."""
        hired = self.staff.hired
        late = time.monotonic() - self._heard_at > START
        if any(one.number >= 0 for one in hired) or (any(one.call for one in hired) and not late):
            return
        while self.todo:
            number = self.todo.popleft()
            self.tell(f"{self._title(number)}: no worker of the cluster is left for it")
            yield number, None

    def _fits(self, number: int, one: Hired) -> bool:
        return not self.kinds or self.kinds[number] == one.kind

    def _title(self, number: int) -> str:
        kind = f" on {self.kinds[number]}" if self.kinds and self.kinds[number] else ""
        return f"{self.tasks[number]}{kind}"

    def _started(self, one: Hired) -> None:
        """Take the next step of a worker that starts."""
        try:
            if one in self.starting:
                self.staff.ray.get(one.call)
                self.starting.discard(one)
                one.call, self._failed_starts = None, 0
            elif introduced(self.staff, one):
                self.begin(one)
        except (self.staff.ray.exceptions.RayError, Error) as error:
            self.starting.discard(one)
            self.staff.dismiss(one)
            self._failed_starts += 1
            if self._failed_starts >= DEATHS:
                raised = error if isinstance(error, Error) else None
                raise raised or self.staff.broken(one.facts.get("host", ""), error) from None
            self.staff.hire()

    def _answered(self, one: Hired) -> Iterator[tuple[int, Answer | None]]:
        try:
            answer: Answer = self.staff.ray.get(one.call)
        except self.staff.ray.exceptions.RayActorError:
            yield from self._lost(one, "ended")
            return
        except self.staff.ray.exceptions.RayError as error:  # the task has raised it
            yield from self._lost(one, f"failed ({str(error).strip().splitlines()[-1]})")
            return
        number, one.number, one.call, one.until = one.number, -1, None, math.inf
        if answer.again is not None:
            self.tasks[number] = answer.again
            self.todo.appendleft(number)
        if answer.broken:
            self._replace(one)
        if answer.again is None:
            yield number, answer

    def _lost(self, one: Hired, how: str) -> Iterator[tuple[int, Answer | None]]:
        """Replace a worker, and repeat its task unless that has ended two workers."""
        number, title = one.number, self._title(one.number)
        part = self.staff.ray.get(self.staff.notes.take.remote(one.key)) or title
        where = f"a worker on {one.facts.get('host', '?')}"
        self.ended[part] += 1
        again = self.ended[part] < DEATHS or part != title
        left_out = "" if self.ended[part] < DEATHS else f"; {part} has ended two and is left out"
        at = title if part == title else f"{title}, {part}"
        self.tell(f"{where} {how} at {at}{left_out}")
        if again:
            self.todo.appendleft(number)
        self._replace(one)
        if not again:
            yield number, None

    def _replace(self, one: Hired) -> None:
        """End a worker, and hire another if a task is left."""
        self.staff.dismiss(one)
        if self.todo:
            self.staff.hire()
