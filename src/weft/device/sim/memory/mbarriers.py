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
from weft.device.sim.layout import Fault, ScheduleFields, WorkerFields
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.mbarrier_ledger import BarrierLedger, note_arrived, note_expected
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.memory.timing import chance, is_certain
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Mem, Operand

WORD = 8
"""Bytes of a barrier."""
COUNT = (1 << 20) - 1
EXPECTED_AT, BYTES_AT, PAIRS_AT, PHASE_AT = 20, 40, 62, 63
BYTES_WIDTH = 21
BYTES = ((1 << BYTES_WIDTH) - 1) << BYTES_AT
BEGUN = 1 << 61
"""The bit that a phase has ended."""
LANDED = 8 * 32
"""In the operands of a step, behind those of the lanes: the barrier that the lane before tested.
Its copies have landed, so that a warp which polls searches the list once."""
Step = Callable[[Builder, Val, Val], tuple[Val, Val]]
"""(word, operand) -> (new word, the lane's result)."""


def _settle(word: Val) -> Val:
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
    return _settle(word - count), word


def _arrive_added(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    """An arrival that was added to the pending ones first: the two cancel out."""
    return word, word


def _arrive_no_complete(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return word - count, word


def _arrive_drop(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return _settle(word - count - (count << EXPECTED_AT)), word


def _arrive_drop_no_complete(b: Builder, word: Val, count: Val) -> tuple[Val, Val]:
    return word - count - (count << EXPECTED_AT), word


def _arrive_expect(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _settle(_expect(word, nbytes) - 1), word


def _expect_tx(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _expect(word, nbytes), word


def _arrive_drop_expect(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return _settle(_expect(word, nbytes) - 1 - (1 << EXPECTED_AT)), word


def completed(b: Builder, word: Val, nbytes: Val) -> Val:
    """The word after this number of bytes has arrived."""
    return _settle(_expect(word, 0 - nbytes))


def _complete_tx(b: Builder, word: Val, nbytes: Val) -> tuple[Val, Val]:
    return completed(b, word, nbytes), word


def _test(b: Builder, word: Val, state: Val) -> tuple[Val, Val]:
    """True at run time if the phase of `state` has ended."""
    return word, (word ^ state) >> PHASE_AT


def _test_parity(b: Builder, word: Val, parity: Val) -> tuple[Val, Val]:
    """True if the last phase of this parity has ended: while the current one has the other."""
    return word, (word >> PHASE_AT) ^ (parity & 1)


class Misuse:
    """Reasons to refuse a step; `run.failures.mbarriers` has the sentences."""

    COUNT, ARRIVALS, BYTES = range(1, 4)


def _bytes_of(word: Val) -> Val:
    """The bytes on their way, with their sign."""
    return (word << (64 - BYTES_AT - BYTES_WIDTH)).ashr(64 - BYTES_WIDTH)


def _misuse(b: Builder, step: str, word: Val, operand: Val) -> tuple[Val, Val]:
    """(Misuse or 0, the number that is wrong) of a step, before it is made."""
    why, got = b.integer("i64", 0), operand
    if step == "init":
        return (operand - 1).uge(COUNT).zext("i64") * Misuse.COUNT, operand
    if step in _ARRIVES:
        one = step.endswith("expect_tx")
        count = b.integer("i64", 1) if one else operand
        more = (word & COUNT).ult(count) | count.eq(0)
        # A word that is no barrier expects nothing: the sanitizer reports what is uninitialised.
        more = more & ((word >> EXPECTED_AT) & COUNT).ne(0)
        why, got = more.zext("i64") * Misuse.ARRIVALS, word & COUNT
    if step.endswith("_tx"):
        after = _bytes_of(word) + (0 - operand if step == "complete_tx" else operand)
        outside = (after + COUNT).ugt(2 * COUNT)
        got = outside.select(after, got)
        why = outside.select(b.integer("i64", Misuse.BYTES), why)
    return why, got


_ARRIVES = (
    "arrive", "arrive.noComplete", "arrive_drop", "arrive_drop.noComplete", "arrive.expect_tx",
    "arrive_drop.expect_tx",
)  # fmt: skip

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

    def __init__(self, e: Accessing, bulk: BulkArrivals, ledger: BarrierLedger) -> None:
        self.e, self.bulk, self.ledger = e, bulk, ledger

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
        b.store(b.integer("i64", 0), b.at(data, LANDED))

        tests = not access.writes
        lands, counts = self.bulk.used and tests, self.ledger.used and step.endswith("_tx")
        more = [b.integer("i64", ins.index), e.worker, self.ledger.tested() if tests else data]
        more += [self.bulk.pending()] if lands else []
        more += [self.ledger.rows()] if counts else []
        scheduled = lands and e.timing.on
        more += [e.timing.memory()] if scheduled else []

        def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            if scheduled:  # A schedule decides, and only where the test would fail.
                wanted = x.load("i64", 0, x.at(extra[0], lane.zext("i64") << 3), 8)
                over = STEPS[step](x, x.load("i64", 0, p, 8), wanted)[1]
                now = chance(x, extra[-1], ScheduleFields.AT_TEST) | is_certain(x, extra[-1])
                with x.when(over.eq(0) & now):
                    self.bulk.arrive(x, extra[4], p)
            elif lands:  # Before the word is read: a completed copy reduces the bytes it expects.
                with x.when(x.load("ptr", 0, x.at(extra[0], LANDED), 8).ne(p)):
                    x.store(p, x.at(extra[0], LANDED), 8)
                    self.bulk.arrive(x, extra[4], p)
            at = x.at(extra[0], lane.zext("i64") << 3)
            word, operand = x.load("i64", 0, p, 8), x.load("i64", 0, at, 8)
            _refuse(x, step, p, word, operand, lane, extra)
            if counts:
                _count(x, step, extra[4], p, word, operand, extra[1])
            new, result = STEPS[step](x, word, operand)
            x.store(new, p, 8)
            x.store(result, at, 8)
            if tests:
                with x.when(result.eq(0)):
                    x.store(p, extra[3], 8)

        name = f"mbarrier_{step.replace('.', '_')}_{a.space}"
        kinds = [("ptr", 0), ("i64", 0), *[("ptr", 0)] * (len(more) - 1)]
        fn = checks.checked_lanes(e, name, access, kinds, touch)
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
        e.watch.tested(ins, over)
        form = e.program.result(ins)
        if form is not None and form.is_scalar:  # one barrier, one phase: one answer
            first = b.intrinsic("cttz", [e.executing()], extra="false") & 31
            over = b.extract(over, first)
        e.write(dest, over)

    def pending_count(self, ins: Instruction) -> None:
        """The arrivals that were pending in a state."""
        dest, state = ins.operands
        self.e.write(dest, (self.e.read(state, "b64") & COUNT).trunc("i32"))


def _refuse(
    b: Builder, step: str, p: Val, word: Val, operand: Val, lane: Val, extra: list[Val]
) -> None:
    """End the launch for a step that leaves the range of a barrier's numbers."""
    why, got = _misuse(b, step, word, operand)
    if why.is_const:
        return
    with b.when(why.ne(0), rare=True):
        fields = {
            WorkerFields.ERROR: b.integer("i64", Fault.MBARRIER),
            WorkerFields.ERROR_SITE: extra[1],
            WorkerFields.ERROR_LANE: lane.zext("i64"),
            WorkerFields.ERROR_ADDRESS: b.val("i64", 0, f"ptrtoint {p.typed} to i64"),
            WorkerFields.ERROR_BYTES: why,
            WorkerFields.ERROR_WRITES: got,
        }
        for at, value in fields.items():
            b.store(value, b.at(extra[2], at))
        b.ret(b.integer("i1", 0))


def _count(b: Builder, step: str, ledger: Val, p: Val, word: Val, nbytes: Val, site: Val) -> None:
    if step == "complete_tx":
        note_arrived(b, ledger, p, word, nbytes)
    else:
        note_expected(b, ledger, p, word, nbytes, site)
