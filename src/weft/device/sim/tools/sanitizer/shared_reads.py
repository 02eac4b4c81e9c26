"""Reads of shared memory that are checked together, and recorded only when that matters.

Code often reads shared memory many times in a row: the inner loop of a tiled product, the rows of a
fragment. Such a *sequence* is checked by one call. It is sound if all that it reads was written
before the last synchronisation, which follows from the latest write of the block and from one bit
for every word. The records of its readers matter only to a write before the next barrier. So the
sequence is noted in a log. The log is dropped at a barrier of all warps; before anything else that
depends on the records, `apply` makes the records of all that it names, in the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weft.device.sim.access import Access
from weft.device.sim.address import space_of
from weft.device.sim.analyse.form import AFFINE, ZERO
from weft.device.sim.analyse.program import Program
from weft.device.sim.layout import Slot, Space
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.tools.sanitizer.bounds import Variable
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.clocks import put, word
from weft.device.sim.tools.sanitizer.layout import BlockState, WorkerState
from weft.device.sim.tools.sanitizer.shadow.fast import FastShadow, pattern_of
from weft.device.sim.tools.sanitizer.shadow.records import Way, words_written
from weft.ir import Builder, Val
from weft.ptx.cfg import Block
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Ordering
from weft.ptx.model import SIZES, Instruction, Mem, Operand, Reg, Sym

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
_QUIET = (Space.GLOBAL, Space.PARAM, Space.CONST)
"""Spaces whose plain accesses may come between reads of shared memory."""


@dataclass(frozen=True)
class Read:
    """One read of all lanes: `offset` from the lowest of its base, and `off` from lane to lane."""

    ins: Instruction
    base: int
    offset: int
    off: tuple[int, ...]
    nbytes: int


@dataclass
class Base:
    """A register that reads are relative to; the variable that it points into, if that is known."""

    operand: Operand
    variable: Variable | None
    lowest: int
    nbytes: int = 0
    words: int = 0
    """Bits of the words that are read, from the lowest byte on."""


@dataclass
class Reads:
    """Reads that follow one another; the first one checks all."""

    number: int
    reads: list[Read] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    ok: Val | None = None


class Recording(Checking, Protocol):
    """A watcher with both kinds of shadow records."""

    fast: FastShadow
    variables: dict[int, Variable]

    def way_of(self, ins: Instruction, nbytes: int) -> Way:
        """How a plain read touches memory."""


def plan(program: Program, variables: Mapping[int, Variable]) -> list[Reads]:
    """The sequences of a kernel; not those that the same basic block follows up with a write."""
    out: list[Reads] = []
    for block in program.graph.blocks:
        run: list[tuple[Instruction, Mem, int]] = []
        changed: set[str] = set()
        for ins in [*block.code, None]:
            read = _shared_read(program, ins) if ins is not None else None
            stays = read is not None and not (
                isinstance(read[0].base, Reg) and read[0].base.name in changed
            )
            if run and (ins is None or not (stays if read is not None else _may_come_between(ins))):
                if not _writes_after(block, run[-1][0]):
                    _add(program, variables, out, run)
                run, changed = [], set()
            if read is not None and ins is not None:
                run.append((ins, *read))
            if run and ins is not None:
                changed |= set(program.defs(ins))
    return out


def _shared_read(program: Program, ins: Instruction) -> tuple[Mem, int] | None:
    """(address, bytes a lane) of a plain read whose lanes are at constant distances."""
    row = decode(ins).row
    plain = row.is_load and row.ordering is Ordering.WEAK and ins.guard is None
    if not plain or space_of(ins.parts) != Space.SHARED or ins.parts[-1] not in SIZES:
        return None
    mem = ins.operands[row.position(row.effects[0].operand)]
    if not isinstance(mem, Mem) or not isinstance(mem.base, Reg | Sym):
        return None
    form = program.form_of(mem.base) if isinstance(mem.base, Reg) else None
    if isinstance(mem.base, Reg) and (form is None or form.kind > AFFINE):
        return None
    count = next((int(p[1:]) for p in ins.parts if p in ("v2", "v4", "v8")), 1)
    return mem, count * SIZES[ins.parts[-1]]


def _may_come_between(ins: Instruction) -> bool:
    """Does it leave shared memory and the order of accesses alone?"""
    row = decode(ins).row
    if not row.warp:
        return True
    plain = (row.is_load or row.is_store) and row.ordering is Ordering.WEAK
    return plain and space_of(ins.parts) in _QUIET


def _writes_after(block: Block, last: Instruction) -> bool:
    """Does the block write shared memory after an instruction? It needs the records at once."""
    after = block.code[block.code.index(last) + 1 :]
    return any(decode(i).row.writes and space_of(i.parts) not in _QUIET for i in after)


def _add(
    program: Program,
    variables: Mapping[int, Variable],
    out: list[Reads],
    run: Sequence[tuple[Instruction, Mem, int]],
) -> None:
    sequence, keys = Reads(len(out) + 1), list[tuple[str, str]]()
    for ins, mem, nbytes in run:
        form = program.form_of(mem.base) if isinstance(mem.base, Reg) else None
        off = form.off if form is not None else ZERO
        off = tuple(x - min(off) for x in off)
        if any(x % min(nbytes, 4) for x in off):
            return
        variable = variables.get(ins.index)
        key = (str(mem.base), "" if variable is None else variable.name)
        if key not in keys:
            keys.append(key)
            sequence.bases.append(Base(mem.base, variable, mem.offset))
        base = keys.index(key)
        sequence.bases[base].lowest = min(sequence.bases[base].lowest, mem.offset)
        sequence.reads.append(Read(ins, base, mem.offset, off, nbytes))
    for i, r in enumerate(sequence.reads):
        b = sequence.bases[r.base]
        at = r.offset - b.lowest
        sequence.reads[i] = Read(r.ins, r.base, at, r.off, r.nbytes)
        b.nbytes = max(b.nbytes, at + max(r.off) + r.nbytes)
        for x in r.off:
            for k in range((at + x) // 4, -(-(at + x + r.nbytes) // 4)):
                b.words |= 1 << k
    few = len(sequence.bases) <= BlockState.BASES
    if few and all(b.nbytes <= BlockState.REACH for b in sequence.bases):
        out.append(sequence)


class SharedReads:
    """The code for the sequences of one kernel."""

    def __init__(self, w: Recording, sequences: Sequence[Reads]) -> None:
        self.w, self.sequences = w, sequences
        self._of = {r.ins.index: s for s in sequences for r in s.reads}

    def checked(self, access: Access) -> Val | None:
        """Is this access checked, with others? None where it is not in a sequence."""
        s = self._of.get(access.ins.index)
        if s is None:
            return None
        if access.ins is s.reads[0].ins:
            s.ok = self._check(s)
        return s.ok

    def _check(self, s: Reads) -> Val:
        e, b = self.w.e, self.w.e.b
        places = []
        for base in s.bases:
            at = resolve(e, Mem(base.operand, base.lowest), Space.SHARED).inside
            assert at is not None
            places.append(at[0])
        kinds = [_P, _I32, *[_I64] * len(places)]
        name = f"sanitizer_sequence_{s.number}"
        fn = b.helper(name, kinds, ("i1", 0), lambda x, args: self._sequence(x, args, s))
        no = b.integer("i1", 0)
        if e.executes_fully:
            return fn(e.slot, e.warp, *places)
        full = e.executing().eq(-1)
        return b.either(full, lambda: fn(e.slot, e.warp, *places), lambda: no, likely=True)

    def _sequence(self, x: Builder, args: list[Val], s: Reads) -> Val:
        """(slot, warp, place of each base in shared memory ...) -> sound, and noted?"""
        slot, warp, *places = args
        p = x.load("ptr", 0, x.at(slot, Slot.OBSERVER))
        size = word(x, slot, Slot.SHARED_BYTES)
        row = self.w.clocks.row(x, p, warp)
        ok = word(x, p, BlockState.NEWEST).ult(word(x, row, BlockState.SHARED_LIMIT))
        for base, at in zip(s.bases, places, strict=True):
            ok = ok & at.ult(size) & (at + base.nbytes).ule(size) & (at & 3).eq(0)
            if base.variable is not None:
                start, end = base.variable.start, base.variable.start + base.variable.size
                ok = ok & at.uge(start) & (at + base.nbytes).ule(end)
        with x.when(ok ^ 1, rare=True):
            x.ret(x.integer("i1", 0))
        for base, at in zip(s.bases, places, strict=True):
            with x.when(words_written(x, p, at >> 2, base.words) ^ 1, rare=True):
                x.ret(x.integer("i1", 0))
        with x.when(word(x, p, BlockState.LOGGED).eq(BlockState.ENTRIES), rare=True):
            self.apply(x, slot)
        count = word(x, p, BlockState.LOGGED)
        entry = x.at(p, count * BlockState.ENTRY + self.w.layout.log)
        put(x, count + 1, p, BlockState.LOGGED)
        put(x, (warp.zext("i64") << 32) | s.number, entry)
        put(x, word(x, row, BlockState.SHARED_TAG), entry, 8)
        for i, at in enumerate(places):
            put(x, at, entry, BlockState.PLACES + 8 * i)
        worker = x.load("ptr", 0, x.at(p, BlockState.WORKER))
        accesses = word(x, worker, WorkerState.ACCESSES) + 32 * len(s.reads)
        put(x, accesses, worker, WorkerState.ACCESSES)
        return x.integer("i1", 1)

    # ---- the log ----------------------------------------------------------------------------
    def flush(self, b: Builder, slot: Val) -> None:
        """The records are needed: those of the log are made."""
        if not self.sequences:
            return
        p = b.load("ptr", 0, b.at(slot, Slot.OBSERVER))
        with b.when(word(b, p, BlockState.LOGGED).ne(0), rare=True):
            self.apply(b, slot)

    def met(self, b: Builder, slot: Val, number: Val) -> None:
        """A barrier opens: if all warps have arrived, no later write depends on earlier reads."""
        if not self.sequences:
            return
        everyone = (1 << self.w.clocks.warps) - 1

        def body(x: Builder, args: list[Val]) -> None:
            slot, number = args
            p = x.load("ptr", 0, x.at(slot, Slot.OBSERVER))
            arrived = x.load("i32", 0, x.at(p, (number.zext("i64") << 2) + BlockState.ARRIVED))
            with x.when(arrived.eq(everyone)):
                put(x, x.integer("i64", 0), p, BlockState.LOGGED)
            self.flush(x, slot)

        b.helper("sanitizer_reads_met", [_P, _I32], None, body)(slot, number)

    def apply(self, b: Builder, slot: Val) -> None:
        """Makes the records of all reads in the log, which is empty then."""
        b.emit(f"call void @sanitizer_apply({slot.typed})")

    def started(self, b: Builder) -> None:
        """A block starts. All code of the kernel has been made."""
        if self.sequences:
            # Only now: it names instructions, which have numbers in the order of the code.
            b.helper("sanitizer_apply", [_P], None, self._apply, attrs="#2")

    def _apply(self, x: Builder, args: list[Val]) -> None:
        (slot,) = args
        p = x.load("ptr", 0, x.at(slot, Slot.OBSERVER))
        count = word(x, p, BlockState.LOGGED).trunc("i32")
        with x.loop(count) as i:
            entry = x.at(p, i.zext("i64") * BlockState.ENTRY + self.w.layout.log)
            head = word(x, entry)
            warp = (head >> 32).trunc("i32")
            # The warp's lanes may have met since: its records are those of the time of the reads.
            row = self.w.clocks.row(x, p, warp)
            now = word(x, row, BlockState.SHARED_TAG)
            put(x, word(x, entry, 8), row, BlockState.SHARED_TAG)
            for s in self.sequences:
                with x.when(head.trunc("i32").eq(s.number)):
                    fn = x.helper(
                        f"sanitizer_replay_{s.number}",
                        [_P, _I32, _P],
                        None,
                        functools.partial(self._replay, s=s),
                    )
                    fn(slot, warp, x.at(entry, BlockState.PLACES))
            put(x, now, row, BlockState.SHARED_TAG)
        put(x, x.integer("i64", 0), p, BlockState.LOGGED)

    def _replay(self, x: Builder, args: list[Val], s: Reads) -> None:
        """(slot, warp, places of the bases): the records of each read, in order."""
        slot, warp, places = args
        start = word(x, slot, Slot.SHARED)
        table = x.array("i64", 32)
        for r in s.reads:
            w, way = self.w, self.w.way_of(r.ins, r.nbytes)
            first = start + word(x, places, 8 * r.base) + r.offset
            site, null = x.integer("i64", w.number(r.ins)), x.val("ptr", 0, "inttoptr i64 0 to ptr")
            lanes = x.integer("i32", -1)
            pattern = pattern_of(r.off, r.nbytes, writes=False)
            if r.off == ZERO:
                done = w.fast.one(x, "shared", way)(slot, warp, site, first, lanes)
                lanes = x.integer("i32", 1)
            elif pattern is not None:
                done = w.fast.row(x, "shared", False, pattern)(slot, warp, site, first)
            else:
                done = x.integer("i1", 0)
            with x.when(done ^ 1):
                x.store(x.splat(first, 32) + x.lanes("i64", r.off), table, 64)
                fn = w.exact.lanes(x, "shared", way, r.nbytes)
                fn(slot, warp, site, table, lanes, null)
