"""mbarrier: barriers that live in shared memory as one 64-bit word.

The word is opaque to a kernel; here it holds, from the lowest bit: arrivals still pending (20),
arrivals that each phase expects (20), bytes still on their way (21, signed), whether a phase has
ended, whether an odd number of pairs of phases has, and the parity of the current phase. A phase
ends when nothing is pending and no bytes are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES
from weft.device.sim.layout import ScheduleFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.memory.timing import chance
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Mem, Operand

WORD = 8
"""Bytes of a barrier."""
COUNT = (1 << 20) - 1
EXPECTED_AT, BYTES_AT, PAIRS_AT, PHASE_AT = 20, 40, 62, 63
BYTES = ((1 << 21) - 1) << BYTES_AT
BEGUN = 1 << 61
"""The bit that a phase has ended."""
Step = Callable[[Builder, Val, Val], tuple[Val, Val]]
"""(word, operand) -> (new word, the lane's result)."""


def _settle(b: Builder, word: Val) -> Val:
    """The next phase, if this one is complete."""
    done = (word & (BYTES | COUNT)).eq(0)
    begun = (word | BEGUN | ((word >> EXPECTED_AT) & COUNT)) ^ (1 << PHASE_AT)
    begun = begun ^ ((word >> PHASE_AT) << PAIRS_AT)  # the second phase of a pair has ended
    return done.select(begun, word)


def _expect(word: Val, nbytes: Val) -> Val:
    # Masked: the byte count is signed, and its carry must not reach the phase.
    return (word & ~BYTES) | ((word + (nbytes << BYTES_AT)) & BYTES)


def _init(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    n = count & COUNT
    return n | (n << EXPECTED_AT), word


def _inval(b: Builder, word: Val, unused: Val) -> tuple[Val, Val]:
    return b.integer("i64", 0), word


def _arrive(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return _settle(b, word - count), word


def _arrive_added(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    """An arrival that was added to the pending ones first: the two cancel out."""
    return word, word


def _arrive_no_complete(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return word - count, word


def _arrive_drop(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return _settle(b, word - count - (count << EXPECTED_AT)), word


def _arrive_drop_no_complete(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return word - count - (count << EXPECTED_AT), word


def _arrive_expect(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _settle(b, _expect(word, nbytes) - 1), word


def _expect_tx(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _expect(word, nbytes), word


def _arrive_drop_expect(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _settle(b, _expect(word, nbytes) - 1 - (1 << EXPECTED_AT)), word


def completed(b: Builder, word: Val, nbytes: Val) -> Val:
    """The word after this number of bytes has arrived."""
    return _settle(b, _expect(word, 0 - nbytes))


def _complete_tx(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return completed(b, word, nbytes), word


def _test(b: Builder, word: Val, state: Val) -> tuple[Val, Val]:
    """True at run time if the phase of `state` has ended."""
    return word, (word ^ state) >> PHASE_AT


def _test_parity(b: Builder, word: Val, parity: Val) -> tuple[Val, Val]:
    """True if the last phase of this parity has ended: while the current one has the other."""
    return word, (word >> PHASE_AT) ^ (parity & 1)


STEPS: dict[str, Step] = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive.inc": _arrive_added,
    "arrive.noComplete": _arrive_no_complete,
    "arrive_drop": _arrive_drop,
    "arrive_drop.noComplete": _arrive_drop_no_complete,
    "arrive.expect_tx": _arrive_expect,
    "arrive_drop.expect_tx": _arrive_drop_expect,
    "expect_tx": _expect_tx,
    "complete_tx": _complete_tx,
    "test_wait": _test,
    "test_wait.parity": _test_parity,
}


class BulkArrivals(Protocol):
    """Bulk copies that report to a barrier: they complete before it is tested."""

    used: bool

    def pending(self) -> Val:
        """The list of a block's copies."""

    def arrive(self, b: Builder, pending: Val, barrier: Val) -> None:
        """Complete the copies that report to this barrier."""


class MemoryBarriers:
    """Barrier objects of a warp under emission."""

    def __init__(self, e: Accessing, bulk: BulkArrivals) -> None:
        self.e, self.bulk = e, bulk

    def step(
        self, ins: Instruction, step: str, mem: Operand, source: Operand | int, space: str,
        kind: str = "u32",
    ) -> Val:  # fmt: skip
        """One step of every executing lane in turn; returns the lanes' results, 64 bits each."""
        e, b = self.e, self.e.b
        assert isinstance(mem, Mem)
        if isinstance(source, int):
            operand = b.integer("i64", source)
        else:
            operand = b.resize(e.read(source, kind), "i64")
        a = resolve(e, mem, SPACES[space])
        (effect,) = (x for x in e.program.decoded[ins.index].row.effects if x.barrier)
        access = MemoryAccess(ins, AccessUnit.MBARRIER, AccessKind.of(effect), a, WORD)
        e.watch.access(access)
        data = e.memory.buffer(1)
        b.store(b.splat(operand, 32), data, 64)

        lands = self.bulk.used and not access.writes
        more = [self.bulk.pending()] if lands else []
        if lands and e.timing.on:
            more.append(e.timing.memory())

        def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            if len(more) == 2:  # A schedule decides, and only where the test would fail.
                wanted = x.load("i64", 0, x.at(extra[0], lane.zext("i64") << 3), 8)
                over = STEPS[step](x, x.load("i64", 0, p, 8), wanted)[1]
                with x.when(over.eq(0) & chance(x, extra[2], ScheduleFields.AT_TEST)):
                    self.bulk.arrive(x, extra[1], p)
            elif lands:  # Before the word is read: a completed copy reduces the bytes it expects.
                self.bulk.arrive(x, extra[1], p)
            at = x.at(extra[0], lane.zext("i64") << 3)
            word = x.load("i64", 0, p, 8)
            new, result = STEPS[step](x, word, x.load("i64", 0, at, 8))
            x.store(new, p, 8)
            x.store(result, at, 8)

        name = f"mbarrier_{step.replace('.', '_')}_{a.space}"
        fn = checks.checked_lanes(e, name, access, [("ptr", 0)] * (1 + len(more)), touch)
        e.abort_unless(fn(e.memory.addresses(a), e.executing(), e.windows.site(), data, *more))
        e.forget_mask()
        return b.load("i64", 32, data, 64)

    def arrive(self, ins: Instruction, step: str, mem: Operand, source: Operand | int,
               space: str, dest: Operand) -> None:  # fmt: skip
        """`arrive` and its kin: the destination gets the state before it."""
        self.e.write(dest, self.step(ins, step, mem, source, space))

    def test(self, ins: Instruction, space: str, *, parity: bool) -> None:
        """`test_wait`: true if a phase has ended."""
        e, b = self.e, self.e.b
        dest, mem, state = ins.operands[:3]
        step, kind = ("test_wait.parity", "u32") if parity else ("test_wait", "u64")
        over = self.step(ins, step, mem, state, space, kind).ne(0)
        form = e.program.result(ins)
        if form is not None and form.is_scalar:  # one barrier, one phase: one answer
            first = b.intrinsic("cttz", [e.executing()], extra="false") & 31
            over = b.extract(over, first)
        e.write(dest, over)

    def pending_count(self, ins: Instruction) -> None:
        """The arrivals that were pending in a state."""
        dest, state = ins.operands
        self.e.write(dest, (self.e.read(state, "b64") & COUNT).trunc("i32"))
