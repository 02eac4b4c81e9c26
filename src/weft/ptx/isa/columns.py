"""The columns of a row that say what an instruction does beside computing its result.

Analyses, checks, counters and the sanitizer read these values, so that they know an instruction
by its row and never by its name. The defaults fit an instruction that computes its result from
its operands, each lane for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from weft.ptx.model import SIZES

Words = Mapping[str, str]
"""The words that the modifiers of a row have in one opcode; "" for one that is left out."""


class Does(Enum):
    """What an access does with memory."""

    READ = auto()
    WRITE = auto()
    UPDATE = auto()
    """Reads, changes and writes as one step."""


class Per(Enum):
    """Who makes an access: each lane, at an address of its own, or the warp as a whole."""

    LANE = auto()
    WARP = auto()


Size = str | int | Callable[[Words], int]
"""Bytes of an access: a number, a function of the modifiers' words, or a product such as
`type*vec` of numbers, modifiers and at most one operand that holds the number of bytes."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One access to memory that an instruction makes.

    operand   the name of the address in the row's syntax (`a` for `[a]`)
    space     a state space, or the modifier that names it; generic where that is left out
    size      bytes of one access; see `Size`
    per       who makes an access of that size
    """

    does: Does
    operand: str
    space: str
    size: Size
    per: Per = Per.LANE

    @property
    def reads(self) -> bool:
        return self.does is not Does.WRITE

    @property
    def writes(self) -> bool:
        return self.does is not Does.READ

    def state_space(self, words: Words) -> str:
        """The state space under these words: `global`, `shared`, ... or `generic`."""
        word = words.get(self.space, self.space)
        return word.partition("::")[0] or "generic"

    def nbytes(self, words: Words) -> int | None:
        """Bytes of one access under these words; None where an operand holds the number."""
        if callable(self.size):
            return self.size(words)
        total = 1
        for factor in str(self.size).split("*"):
            count = _count(words.get(factor, factor))
            if count is None:
                return None
            total *= count
        return total


def _count(word: str) -> int | None:
    """The number that a word stands for: of bytes (`u32`) or of elements (`v4`, `x2`, none)."""
    if word in SIZES:
        return SIZES[word]
    digits = word.lstrip("vx")
    return int(digits) if digits.isdigit() else None if word else 1


def reads(operand: str, space: str, size: Size, per: Per = Per.LANE) -> Effect:
    """An access that reads."""
    return Effect(Does.READ, operand, space, size, per)


def writes(operand: str, space: str, size: Size, per: Per = Per.LANE) -> Effect:
    """An access that writes."""
    return Effect(Does.WRITE, operand, space, size, per)


def updates(operand: str, space: str, size: Size, per: Per = Per.LANE) -> Effect:
    """An access that reads, changes and writes as one step."""
    return Effect(Does.UPDATE, operand, space, size, per)


class Control(Enum):
    """Where execution goes on after an instruction."""

    NEXT = auto()
    """At the instruction that follows."""
    BRANCH = auto()
    """At a label."""
    TABLE = auto()
    """At one of the labels of a table."""
    CALL = auto()
    """In a function. After linking only functions that the host serves are left."""
    RETURN = auto()
    """After the call, or nowhere in a kernel."""
    EXIT = auto()
    """Nowhere: the thread ends."""
    TRAP = auto()
    """Nowhere: the launch ends with an error."""


class Participants(Enum):
    """Which threads take part in one execution of an instruction."""

    LANE = auto()
    """Each active lane for itself, or the lanes that are active at the moment."""
    MASK = auto()
    """The lanes of the warp that the operand `membermask` names."""
    WARP = auto()
    """All lanes of the warp (`.sync.aligned`)."""
    WARPGROUP = auto()
    """All lanes of four consecutive warps."""
    BLOCK = auto()
    """Threads of the block; an operand may say how many."""
    CLUSTER = auto()
    """All threads of the cluster."""


class Waits(Enum):
    """What an instruction, or a loop around it, may wait for."""

    NOTHING = auto()
    PARTICIPANTS = auto()
    """It completes when all participants have arrived."""
    COPIES = auto()
    """It completes when asynchronous copies of the same thread have landed."""
    VALUE = auto()
    """A loop around it may wait until another thread stores a value."""
    LOCK = auto()
    """A loop around it may wait until another thread releases a lock."""
    MBARRIER = auto()
    """A loop around it may wait until a phase of an mbarrier completes."""
    TIME = auto()
    """It lets time pass, as loops do that wait for something else."""

    @property
    def polls(self) -> bool:
        """A loop around the instruction may be waiting for another thread."""
        return self in (Waits.VALUE, Waits.LOCK, Waits.MBARRIER, Waits.TIME)


class Completion(Enum):
    """What completes an asynchronous operation."""

    GROUP = auto()
    """A group of cp.async copies of the thread."""
    BULK_GROUP = auto()
    """A group of bulk copies of the thread."""
    MBARRIER = auto()
    """An mbarrier that the instruction names."""


class Step(Enum):
    """The part of an instruction in an asynchronous operation."""

    ISSUE = auto()
    COMMIT = auto()
    WAIT = auto()
    ARRIVE = auto()
    """Lets an mbarrier complete the copies that the thread has issued so far."""


@dataclass(frozen=True, slots=True)
class Async:
    """The part that an instruction plays in an asynchronous operation, and what completes it."""

    step: Step
    by: Completion
