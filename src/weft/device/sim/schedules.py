"""Schedules: the order in which threads run, and the moments at which asynchronous copies complete.

    first      each copy completes when it is issued; blocks, warps and lanes run in order
    last       each copy completes when a thread waits for it; blocks and warps run in reverse
               order, and lanes that a branch has split meet again only where they must
    random:N   everything is drawn from the number N

Every schedule is one that a GPU is allowed to choose, so that a right kernel gives the same results
under each of them. A launch under a schedule runs on one thread of the host and does the same every
time. `WEFT_SCHEDULE` gives a schedule to all launches of a process, `schedule()` to those inside of
a `with` block.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from weft.device.sim.layout import ScheduleFields, WarpOrder
from weft.errors import Error
from weft.quoting import quoted
from weft.records import dataclass

VARIABLE = "WEFT_SCHEDULE"
MOST_SEEDS = 1 << 32
RESIDENT = 4
"""The largest number of blocks that run at the same time, of a kernel whose blocks do not wait."""
MANY_WARPS = 4096
"""Grids of more warps run under a schedule in part: an eighth of them, and not less than this."""
LARGE = 1 << 31
"""Grids from this size on run their blocks in order: products of two numbers must fit 63 bits."""
MANY_TURNS = 4096
"""Turns of the warps of a block before another block is tried, where the order does not matter."""
_ALWAYS = 1 << 32
_START = {ScheduleFields.SPAN: 1, ScheduleFields.CREDIT: 4096, ScheduleFields.PARTINGS: 8192}
"""Fields that all schedules start with; the last two pay for their cost (`switching.allowance`)."""
_wanted: ContextVar[Schedule | None] = ContextVar("weft_schedule", default=None)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule by its name; `seed` for a random one."""

    kind: str
    seed: int = 0

    def __str__(self) -> str:
        return f"random:{self.seed}" if self.kind == "random" else self.kind

    def fields(self, blocks: range) -> dict[int, int]:
        """The fields of `ScheduleFields` for a launch of these blocks."""
        total = len(blocks)
        if self.kind == "random":
            return _drawn(random.Random(self.seed), blocks)
        last = self.kind == "last"
        backward = total - 1 if last and total < LARGE else None
        return _START | {
            ScheduleFields.STATE: 1,
            ScheduleFields.AT_ISSUE: 0 if last else _ALWAYS,
            # Every fourth test of a pending barrier finds it complete: a thread has to test again.
            ScheduleFields.AT_TEST: _ALWAYS // 4 if last else _ALWAYS,
            ScheduleFields.READ_LATE: _ALWAYS * last,
            ScheduleFields.DELAY: _ALWAYS * last,
            ScheduleFields.HOLD: _ALWAYS * last,
            ScheduleFields.RANKS: WarpOrder.BACKWARD if last else WarpOrder.FORWARD,
            ScheduleFields.TURNS: MANY_TURNS,
            ScheduleFields.BLOCK_BASE: blocks.start,
            ScheduleFields.BLOCK_STEP: 1 if backward is None else max(1, backward),
            ScheduleFields.BLOCK_FIRST: backward or 0,
            ScheduleFields.SWAP: _ALWAYS * last,
            ScheduleFields.AHEAD: _ALWAYS * last,
        }

    def stretch(self, total: int, warps: int) -> range:
        """The blocks of a grid that run under the schedule, of `warps` warps each."""
        count = max(MANY_WARPS // warps, total // 8)
        if count >= total:
            return range(total)
        first = {"first": 0, "last": total - count}.get(self.kind)
        if first is None:
            numbers = random.Random(self.seed ^ 2 * LARGE)
            first = numbers.choice((0, total - count, numbers.randrange(total - count)))
        return range(first, first + count)

    @property
    def others_first(self) -> bool:
        """True if blocks that do not run under the schedule run before the others."""
        return self.kind == "random" and self.seed % 2 == 0

    def resident(self, total: int) -> int:
        """Blocks that run at the same time, of a kernel whose blocks do not wait."""
        most = random.Random(self.seed ^ LARGE).choice((2, 3, RESIDENT))
        return min(total, most) if self.kind == "random" else 1


def _drawn(numbers: random.Random, blocks: range) -> dict[int, int]:
    """A random schedule: each seed has its own chances, so that seeds differ much."""

    def pick(*parts: float) -> int:
        return int(numbers.choice(parts) * _ALWAYS)

    fields = _START | {
        ScheduleFields.STATE: numbers.getrandbits(63),
        ScheduleFields.AT_ISSUE: pick(0, 0.25, 0.75),
        ScheduleFields.AT_COMMIT: pick(0, 0.25, 0.75),
        ScheduleFields.AT_TEST: pick(0.125, 0.5, 1),
        ScheduleFields.READ_LATE: pick(0.5, 1),
        ScheduleFields.DELAY: pick(0.5, 0.9),
        ScheduleFields.HOLD: pick(0.5, 0.9),
        ScheduleFields.RANKS: WarpOrder.DRAWN,
        ScheduleFields.REORDER: pick(1 / 64, 0.125, 0.5),
        ScheduleFields.SUSPEND: pick(0.25, 0.5, 0.9, 0.9),
        ScheduleFields.SALT: numbers.getrandbits(63),
        ScheduleFields.TURNS: 1,
        ScheduleFields.SPAN: numbers.choice((16, 256, MANY_TURNS)),
        ScheduleFields.LATE: pick(0.5, 0.75, 1),
        ScheduleFields.WAKE: pick(*[1 / 256] * 5, 0.25),
        ScheduleFields.DEEP: pick(0, 0.5),
        ScheduleFields.RENEW: pick(1 / 64, 1 / 64, 1 / 4),
        ScheduleFields.PART: pick(0.125, 0.5, 0.75),
        ScheduleFields.SWAP: pick(0.25, 0.5, 0.75),
        ScheduleFields.AHEAD: pick(0.25, 0.5, 0.75),
        ScheduleFields.BLOCK_BASE: blocks.start,
        ScheduleFields.BLOCK_STEP: 1,
    }
    total = len(blocks)
    if total >= LARGE:
        return fields
    step = numbers.randrange(total) + 1
    while math.gcd(step, total) != 1:  # else some blocks would be started twice
        step += 1
    order = {ScheduleFields.BLOCK_STEP: step, ScheduleFields.BLOCK_FIRST: numbers.randrange(total)}
    return fields | order


def parse(text: str, where: str = "the schedule") -> Schedule:
    """The schedule that a text names."""
    kind, colon, seed = text.partition(":") if isinstance(text, str) else ("", "", "")
    if kind in ("first", "last") and not colon:
        return Schedule(kind)
    if kind == "random" and seed.isascii() and seed.isdigit() and int(seed) < MOST_SEEDS:
        return Schedule(kind, int(seed))
    raise Error(
        f"{where} has no meaning",
        got=quoted(text),
        allowed=f"first, last or random:N, with a number N from 0 to {MOST_SEEDS - 1}",
        next="random:1 is one of many; the same number gives the same run",
    )


def several(count: int) -> list[Schedule]:
    """The first `count` schedules to try: first, last, random:1, random:2, ..."""
    if count < 1:
        raise Error("there is nothing to run", got=f"schedules={count}", allowed="at least 1")
    return [Schedule("first"), Schedule("last"), *(Schedule("random", i) for i in range(1, count))][
        :count
    ]


def active() -> Schedule | None:
    """The schedule of this thread's launches; None: plain code."""
    wanted = _wanted.get()
    if wanted is None and (text := os.environ.get(VARIABLE)):
        return parse(text, VARIABLE)
    return wanted


def named(name: str) -> AbstractContextManager[None]:
    """`schedule(name)`, or nothing for an empty name."""
    return schedule(name) if name else nullcontext()


@contextmanager
def schedule(name: str | Schedule | None) -> Iterator[None]:
    """Run the launches inside under a schedule, on the simulated GPU.

    name  `first`, `last` or `random:N`; None restores what `WEFT_SCHEDULE` says

    >>> x = np.ones(4, np.float32)
    >>> with weft.schedule("random:7"):
    ...     module.scale[1, 32](x, 2.0, 4)
    >>> print(x)
    [2. 2. 2. 2.]
    """
    if name is not None and not isinstance(name, Schedule):
        name = parse(name)
    token = _wanted.set(name)
    try:
        yield
    finally:
        _wanted.reset(token)
