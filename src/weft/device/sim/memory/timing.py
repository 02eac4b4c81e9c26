"""The moments that a schedule chooses at run time, in code that is compiled for schedules.

One such code serves every schedule of a kernel: `schedules.py` writes the chances and the state
of the random numbers before a launch, and the code draws from them. Plain code has none of this.
"""

from __future__ import annotations

from weft.device.sim.layout import ContextFields, ScheduleFields, SlotFields
from weft.device.sim.protocols import Located
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
# Knuth's multiplier: the high half of the state is a random number.
_FACTOR, _STEP = 6364136223846793005, 1442695040888963407


class Timing:
    """The schedule of a warp under emission; `on` in code that is compiled for schedules."""

    def __init__(self, e: Located) -> None:
        self.e, self.on = e, e.program.scheduled

    def at_issue(self) -> Val | None:
        """True at run time if an asynchronous operation completes when it is issued.

        None in plain code. Where it is false, the operation completes when a thread waits for it.
        """
        return self.chance(ScheduleFields.AT_ISSUE) if self.on else None

    def decide(self) -> Val:
        """True at run time if an operation completes when it is issued, in scheduled code."""
        now = self.at_issue()
        assert now is not None, "the code is compiled for schedules"
        return now

    def chance(self, field: int) -> Val:
        """True at run time with the chance in a field of the schedule."""
        return chance(self.e.b, self.memory(), field)

    def memory(self) -> Val:
        """The memory of the schedule, for code that draws from it."""
        return schedule(self.e.b, self.e.context)


def schedule(b: Builder, context: Val) -> Val:
    """The memory of the launch's schedule: `ScheduleFields`."""
    return b.load("ptr", 0, b.at(context, ContextFields.SCHEDULE))


def draw(b: Builder, at: Val) -> Val:
    """A random number of 32 bits; `at` is the memory of the schedule."""

    def body(x: Builder, args: list[Val]) -> Val:
        state = x.at(args[0], ScheduleFields.STATE)
        following = x.load("i64", 0, state) * _FACTOR + _STEP
        x.store(following, state)
        return (following >> 32).trunc("i32")

    return b.helper("schedule_draw", [_P], _I32, body)(at)


def chance(b: Builder, at: Val, field: int) -> Val:
    """True at run time with a chance of `field` / 2^32."""

    def body(x: Builder, args: list[Val]) -> Val:
        return draw(x, args[0]).zext("i64").ult(args[1])

    wanted = b.load("i64", 0, b.at(at, field))
    return b.helper("schedule_chance", [_P, _I64], ("i1", 0), body)(at, wanted)


def is_certain(b: Builder, at: Val) -> Val:
    """True at run time while nothing is left to chance: see `switching.certainty`."""
    return b.load("i64", 0, b.at(at, ScheduleFields.CERTAIN)).ne(0)


def priority(b: Builder, at: Val, slot: Val, warp: Val) -> Val:
    """The priority of a warp in a launch: a number of 32 bits, always the same."""
    mixed = b.load("i64", 0, b.at(at, ScheduleFields.SALT)) + warp.zext("i64")
    for field in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z):
        mixed = (mixed ^ (mixed >> 31)) * _FACTOR + b.load("i32", 0, b.at(slot, field)).zext("i64")
    return ((mixed ^ (mixed >> 31)) * _FACTOR) >> 32
