"""The columns of a row that describe an instruction's effects besides its result.

Analyses, checks, counters and the sanitizer read these values, so that they know an instruction
by its row and never by its name. The defaults fit an instruction that computes its result from
its operands, each lane for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum, Flag, auto

from weft.ptx.model import SIZES
from weft.records import dataclass

Words = Mapping[str, str]
"""The words that the modifiers of a row have in one opcode; "" for one that is left out."""


class Does(Enum):
    """The effect of an access on memory."""

    READ = auto()
    WRITE = auto()
    UPDATE = auto()
    """Reads, changes and writes as one step."""


class Per(Enum):
    """The maker of an access: each lane, at an address of its own, or the warp as a whole."""

    LANE = auto()
    WARP = auto()


GENERIC = "generic"
"""The state space of an address that does not say its own."""

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
    barrier   the access is to an mbarrier object, not to data
    """

    does: Does
    operand: str
    space: str
    size: Size
    per: Per = Per.LANE
    barrier: bool = False

    @property
    def reads(self) -> bool:
        return self.does is not Does.WRITE

    @property
    def writes(self) -> bool:
        return self.does is not Does.READ

    def state_space(self, words: Words) -> str:
        """The state space under these words: `global`, `shared`, ... or `generic`."""
        return self.window(words).partition("::")[0]

    def window(self, words: Words) -> str:
        """The state space with its sub-qualifier: `shared::cluster`."""
        return words.get(self.space, self.space) or GENERIC

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


def mbarrier(does: Does, operand: str, space: str) -> Effect:
    """An access to an mbarrier object."""
    return Effect(does, operand, space, 8, barrier=True)


class Control(Enum):
    """The place where execution continues after an instruction."""

    NEXT = auto()
    """The instruction that follows."""
    BRANCH = auto()
    """A label."""
    TABLE = auto()
    """One of the labels of a table."""
    CALL = auto()
    """A function. After linking only functions that the host serves are left."""
    RETURN = auto()
    """After the call, or none in a kernel."""
    EXIT = auto()
    """None: the thread ends."""
    TRAP = auto()
    """None: the launch ends with an error."""


class Participants(Enum):
    """The threads that take part in one execution of an instruction."""

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
    """The condition that an instruction, or a loop around it, may wait for."""

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
        """True if a loop around the instruction may be waiting for another thread."""
        return self in (Waits.VALUE, Waits.LOCK, Waits.MBARRIER, Waits.TIME)


class Completion(Enum):
    """The event that completes an asynchronous operation."""

    GROUP = auto()
    """A group of cp.async copies of the thread."""
    BULK_GROUP = auto()
    """A group of bulk copies of the thread."""
    MBARRIER = auto()
    """An mbarrier that the instruction names."""
    PRODUCTS = auto()
    """A group of matrix products of the warp."""


class AsyncStep(Enum):
    """The part of an instruction in an asynchronous operation."""

    ISSUE = auto()
    COMMIT = auto()
    WAIT = auto()
    ARRIVE = auto()
    """Lets an mbarrier complete the copies that the thread has issued so far."""


@dataclass(frozen=True, slots=True)
class Async:
    """The part of an instruction in an asynchronous operation, and the event that completes it."""

    step: AsyncStep
    by: Completion


class ResultForm(Enum):
    """The relation of a result to the operands.

    Analyses choose their transfer functions by it: for compile-time knowledge of a result, for the
    array of an address, for the overflow of an index.
    """

    OTHER = auto()
    """Lane by lane, with no structure that an analysis could use."""
    COPY = auto()
    """`a`, bit for bit; a vector is packed or taken apart."""
    CONVERSION = auto()
    """`a` as another type."""
    ADDRESS = auto()
    """`a` as an address of another state space."""
    SUM = auto()
    DIFFERENCE = auto()
    NEGATION = auto()
    PRODUCT = auto()
    """The low half where a product is twice as wide as its factors."""
    WIDE_PRODUCT = auto()
    PRODUCT_SUM = auto()
    """`a * b + c`, of the low half."""
    WIDE_PRODUCT_SUM = auto()
    QUOTIENT = auto()
    REMAINDER = auto()
    ROOT = auto()
    RECIPROCAL = auto()
    LEFT_SHIFT = auto()
    RIGHT_SHIFT = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    NOT = auto()
    MINIMUM = auto()
    MAXIMUM = auto()
    SELECTION = auto()
    """`a` or `b`, whichever a third operand says."""
    COMPARISON = auto()
    LOADED = auto()
    """The contents of memory: equal in lanes that read the same address."""
    SHUFFLED = auto()
    """`a` of another lane."""
    OF_GROUP = auto()
    """One value for all lanes that take part."""
    OF_OPERANDS = auto()
    """The same in lanes whose operands are the same."""
    UNIFORM = auto()
    """One value for the warp."""


class Nan(Enum):
    """The possible NaNs of an f32 result."""

    CANONICAL = auto()
    """The one NaN that the hardware makes, or no f32 at all."""
    RAW = auto()
    """A NaN of the host's arithmetic, which must be made canonical before its bits are seen."""
    COPIED = auto()
    """The bits of the sources that have the type of the result."""


class Ordering(Enum):
    """The order of accesses to memory relative to those of other threads."""

    WEAK = auto()
    STRONG = auto()
    """A strong access: other threads may synchronise with it."""
    FENCE = auto()
    """Orders the accesses before it and after it."""
    PROXY_FENCE = auto()
    """Orders accesses of one thread through different proxies."""


class WorkUnit(Enum):
    """The class of an instruction in profiles."""

    ARITHMETIC = "arithmetic"
    """Floating-point or integer operations, by the instruction's type."""
    SPECIAL = "special"
    """Approximate functions."""
    TENSOR = "tensor"
    """Tensor-core operations, by shape and the type of the inputs."""
    CONVERT = "convert"
    MOVE = "move"
    MEMORY = "memory"
    SYNC = "sync"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class InstructionWork:
    """The work of an instruction for a profile, for each lane.

    operations   a multiply-add is two
    expands      machine instructions that the assembler makes of it, about, by type
    """

    unit: WorkUnit = WorkUnit.ARITHMETIC
    operations: int = 1
    expands: Mapping[str, int] = field(default_factory=dict)


ANY_COUNT = range(1 << 31)
"""The values of a literal that is a count."""


class Accepts(Flag):
    """Operands that an instruction takes beside registers and literals of its type."""

    NOTHING = 0
    PACK = auto()
    """A vector of 2 or 4 elements that together have the type's width."""
    COUNTED = auto()
    """A vector of as many elements as a modifier (`.v2`, `.x4`) says."""
    FRAGMENT = auto()
    """A vector of registers, whose number the row's function checks."""
    WIDER = auto()
    """Registers that are wider than the type."""
    BITS = auto()
    """An integer literal where the type is floating: its bits are moved."""
    FUNCTION = auto()
    """The name of a function, for its address."""
    TRUTH = auto()
    """An integer literal where the type is a predicate: 0, or 1 and -1 for true."""
