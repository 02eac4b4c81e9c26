"""wgmma: matrix products of a warpgroup, issued by each warp for its own 16 rows.

A product is recorded when it is issued (`Issued`) and computed when it completes: its function
reads the descriptors from the record, A and B from shared memory and the accumulators from the
frame, where their registers are at all times. In plain runs it completes at once. A schedule may
let it complete when its warp waits for its group: a kernel that forgets to wait then reads old
accumulators, or lets the product read shared memory that has been overwritten since.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from weft.device.sim.layout import Fault
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.warpgroups.agreement import GROUP, Agreement, agree
from weft.device.sim.memory.warpgroups.multiply import multiply
from weft.device.sim.memory.warpgroups.product import Issued, Product, product_of
from weft.device.sim.memory.warpgroups.tiles import CORE, INSIDE
from weft.device.sim.protocols import FrameSpace
from weft.device.sim.warpgroup_faults import (
    INCOMPLETE,
    LANES,
    OUTSIDE,
    PARTIAL,
    VALUE,
    WARPS,
    encoded,
)
from weft.errors import PtxError
from weft.ir import Builder, Val
from weft.ptx import cfg
from weft.ptx.isa import decode
from weft.ptx.isa.matrix.warpgroup import ISSUE, operand
from weft.ptx.isa.matrix.warpgroup_form import REGISTER, ROWS
from weft.ptx.model import Imm, Instruction, Operand, Reg

_P, _I1, _I32, _I64 = ("ptr", 0), ("i1", 0), ("i32", 0), ("i64", 0)


class Queue:
    """The products of a warp that are not complete: a header, and records from old to new."""

    HEAD, TAIL, GROUP = 0, 4, 8
    """Oldest and next record (they only grow), and the group that is being collected."""
    HEADER, ROOM = 64, 32
    SIZE = HEADER + ROOM * Issued.SIZE


class Registered(Protocol):
    """The registers of the warp, by name."""

    def of(self, name: str) -> Sequence[HasOffset]: ...
    def may_be_resident(self, name: str) -> bool: ...


class HasOffset(Protocol):
    """A part of a register in the frame."""

    offset: int


class Multiplying(Accessing, Protocol):
    """The emitter's interface for products: registers with an address."""

    @property
    def registers(self) -> Registered: ...

    fast_math: bool
    versions: dict[str, int]


class WarpgroupProducts:
    """Products of warpgroups of a warp under emission.

    now  emits a decision for each product that is issued: true if it completes at once, else it
         completes when it is waited for; None: all complete at once
    """

    def __init__(
        self, e: Multiplying, frame: FrameSpace, now: Callable[[], Val] | None = None
    ) -> None:
        self.e, self._now = e, now
        code = [ins for block in e.program.graph.blocks for ins in block.code]
        issued = [ins for ins in code if decode(ins).row.async_ == ISSUE]
        self.used = bool(issued)
        self.registers = {r for ins in issued for r in e.program.defs(ins)}
        """Registers with an address at all times: accumulators, and what late products read."""
        if now is not None:
            self.registers |= {r for ins in issued for r in cfg.registers(ins.operands[1])}
        self._issued = issued
        self._groups = -(-e.program.warps // GROUP) if self.used else 0
        self._agreements = frame.reserve(self._groups * Agreement.SIZE, self._start)
        late = self.used and now is not None
        self._queue = frame.reserve(Queue.SIZE if late else 0, self._start_queue, self._finish)
        self._record: Val | None = None

    def _start(self) -> None:
        """A fresh block has issued nothing; the first warp's frame has the entries of all."""
        if self._now is None:
            self.clear(self.e.b, self.e.frame)

    def clear(self, b: Builder, frames: Val) -> None:
        """Empty the entries of a block."""
        if self.used:
            with b.loop(self._groups * Agreement.SIZE // 64) as i:
                at = b.at(b.at(frames, self._agreements), (i << 6).zext("i64"))
                b.store(b.zero("i64", 8), at, 64)

    # ---- issue ------------------------------------------------------------------------------
    def issue(self, ins: Instruction) -> None:
        """Check the operands, record the product, and compute it."""
        e, b = self.e, self.e.b
        product = product_of(ins)
        if e.executes_fully:
            self._issue(product)
            return
        lanes = e.executing()
        with b.when(lanes.ne(0)):
            with b.when(lanes.ne(-1), rare=True):
                self._fault(PARTIAL, 0, lanes.zext("i64"))
            self._issue(product)
        e.forget_mask()

    def _issue(self, product: Product) -> None:
        e, b, ins = self.e, self.e.b, product.ins
        warp, rest = e.warp, e.program.warps % GROUP
        if rest:
            with b.when(warp.uge(e.program.warps - rest), rare=True):
                self._fault(INCOMPLETE, 0, warp.zext("i64"))
        left = b.integer("i64", 0)
        if product.form.left:
            left = self._descriptor(ins.operands[1], 0)
        right = self._descriptor(ins.operands[2], 1)
        self._agree(ins, warp, left, right)
        e.watch.product(ins, left, right)
        record = self._new_record()
        fields = {
            Issued.NUMBER: b.integer("i32", ins.index),
            Issued.OF_GROUP: self._field(Queue.GROUP),
            Issued.ADDS: self._flag(operand(ins, "s")),
            Issued.FIRST: (warp & (GROUP - 1)) * (ROWS // CORE),
            Issued.LEFT: left,
            Issued.RIGHT: right,
        }
        for at, v in fields.items():
            b.store(v, b.at(record, at))
        metadata = operand(ins, "e")
        if metadata is not None:
            b.store(e.read_lanes(metadata, "b32"), b.at(record, Issued.METADATA), 64)
        if self._now is None:
            self._store_left(product, record)
            self._complete(product, record)
            return
        if not self._is_late(product):
            self._store_left(product, record)
        b.store(self._field(Queue.TAIL) + 1, self._at(Queue.TAIL))
        with b.when(self._now()):
            self._land(None)

    def _descriptor(self, given: Operand, which: int) -> Val:
        """A descriptor: one value for the warp."""
        e, b = self.e, self.e.b
        kinds = e.program.function.registers
        if not isinstance(given, Reg) or kinds[given.name][1:] != "64":
            raise PtxError(
                f"{e.ins.opcode}: an operand is no descriptor", allowed="a 64-bit register"
            )
        v = e.read(given, "b64")
        if v.lanes:
            lanes, v = v, b.extract(v, 0)
            with b.when(b.same(lanes, b.splat(v, 32)) ^ 1, rare=True):
                self._fault(LANES, which)
        return v

    def _flag(self, given: Operand | None) -> Val:
        """`scale-d`: one truth value for the warp."""
        e, b = self.e, self.e.b
        assert given is not None, "every product has it"
        v = e.read(given, "pred")
        if v.lanes:
            bits = e.bits_of(v)
            with b.when(bits.ne(0) & bits.ne(-1), rare=True):
                self._fault(LANES, 2)
            v = bits.ne(0)
        return v.zext("i32")

    def _agree(self, ins: Instruction, warp: Val, left: Val, right: Val) -> None:
        """Compare the product with that of the warps that have issued it before."""
        e, b = self.e, self.e.b
        fn = b.helper("wgmma.agree", [_P, _I32, _I32, _I64, _I64], _I1, agree)
        at = b.at(e.frames, self._agreements)
        same = fn(at, warp, b.integer("i32", ins.index), left, right)
        with b.when(same ^ 1, rare=True):
            self._fault(WARPS, 0, warp.zext("i64"))

    def _fault(self, kind: int, which: int = 0, value: Val | None = None) -> None:
        b = self.e.b
        bits = b.integer("i64", encoded(kind, which))
        address = bits if value is None else (value << VALUE) | bits
        self.e.fault(Fault.WARPGROUP, b.integer("i32", 0), address)

    # ---- completion -------------------------------------------------------------------------
    def commit(self) -> None:
        """Close the group that is being collected."""
        if not self.used:
            return
        e, b = self.e, self.e.b
        executed = e.executing().ne(0)
        with b.when(executed):
            count, groups = (self._of_warp(x) for x in (Agreement.COUNTS, Agreement.GROUPS))
            number = b.load("i32", 0, groups)
            b.store(b.load("i32", 0, count), self._committed(number))
            b.store(number + 1, groups)
        if self._now is not None:
            b.store(self._field(Queue.GROUP) + executed.zext("i32"), self._at(Queue.GROUP))
        e.forget_mask()

    def is_ahead(self, ins: Instruction) -> Val:
        """True at run time if a warp waits for a product that another one has not issued yet.

        The four warps of a warpgroup make a product together: it ends for all of them at once. If
        products complete where they are waited for, all four warps come there first.
        """
        b, pending = self.e.b, ins.operands[0]
        assert isinstance(pending, Imm), "the row takes nothing else"
        if not self.used or pending.value >= Agreement.KEPT:
            return b.integer("i1", 0)
        self.wait(pending.value)
        groups = b.load("i32", 0, self._of_warp(Agreement.GROUPS))
        last = b.load("i32", 0, self._committed(groups - 1 - pending.value))
        needed = groups.sgt(pending.value).select(last, b.integer("i32", 0))
        field = Agreement.COUNTS if self._now is None else Agreement.LANDED
        counts = b.load("i32", GROUP, self._of_group(field), 4)
        return b.any((counts - b.splat(needed, GROUP)).slt(0))

    def _of_group(self, field: int) -> Val:
        e, b = self.e, self.e.b
        group = (e.warp >> 2).zext("i64") * Agreement.SIZE
        return b.at(b.at(e.frames, self._agreements + field), group)

    def _of_warp(self, field: int) -> Val:
        return self.e.b.at(self._of_group(field), ((self.e.warp & (GROUP - 1)) << 2).zext("i64"))

    def _committed(self, number: Val) -> Val:
        """The place of this warp's count at the end of a group."""
        place = (self.e.warp & (GROUP - 1)) * Agreement.KEPT + (number & (Agreement.KEPT - 1))
        return self.e.b.at(self._of_group(Agreement.COMMITTED), (place << 2).zext("i64"))

    def wait(self, pending: int) -> None:
        """Complete all but the last `pending` groups."""
        if self.used and self._now is not None:
            self._land(self._field(Queue.GROUP) - pending)
            self.e.forget_mask()

    def _start_queue(self) -> None:
        """A fresh warp has nothing pending."""
        if self.used and self._now is not None:
            self.e.b.store(self.e.b.zero("i32", 4), self._at(0), 16)

    def _finish(self) -> None:
        """Complete all products when the warp ends, for the others of the warpgroup."""
        if self.used and self._now is not None:
            self._land(None)

    def _at(self, field: int) -> Val:
        return self.e.b.at(self.e.frame, self._queue + field)

    def _field(self, field: int) -> Val:
        b = self.e.b
        return b.integer("i32", 0) if self._now is None else b.load("i32", 0, self._at(field))

    def _new_record(self) -> Val:
        """Room for a record: of its own until it completes, or the same for all."""
        b = self.e.b
        if self._now is not None:
            tail = self._field(Queue.TAIL)
            with b.when((tail - self._field(Queue.HEAD)).eq(Queue.ROOM), rare=True):
                self._land(None)
            return self._entry(tail)
        if self._record is None:
            self._record = b.array("i8", Issued.SIZE)
        return self._record

    def _entry(self, number: Val) -> Val:
        place = (number & (Queue.ROOM - 1)).zext("i64") * Issued.SIZE
        return self.e.b.at(self._at(Queue.HEADER), place)

    def _land(self, limit: Val | None) -> None:
        """Complete products in their order, all of them or those of groups before `limit`."""
        e, b = self.e, self.e.b
        tail, products = self._field(Queue.TAIL), {i.index: product_of(i) for i in self._issued}

        def goes_on(head: Val) -> Val:
            more = head.ne(tail)
            if limit is None:
                return more
            group = b.load("i32", 0, b.at(self._entry(head), Issued.OF_GROUP))
            return more & (group - limit).slt(0)

        def body(head: Val) -> Val:
            record = self._entry(head)

            def one(product: Product) -> None:
                if self._is_late(product):
                    self._store_left(product, record)
                self._complete(product, record)

            arms = {index: partial(one, product) for index, product in products.items()}
            number = b.load("i32", 0, b.at(record, Issued.NUMBER))
            b.switch(number, arms, lambda: None)
            return head + 1

        ins = e.ins
        head = b.while_(self._field(Queue.HEAD), goes_on, body)
        e.ins = ins
        b.store(head, self._at(Queue.HEAD))
        b.store(head, self._of_warp(Agreement.LANDED))

    def _is_late(self, product: Product) -> bool:
        """Return whether A's registers can be read when the product completes."""
        return all(self.e.registers.may_be_resident(name) for name in product.left)

    def _store_left(self, product: Product, record: Val) -> None:
        """Store A's registers in the record."""
        e, b = self.e, self.e.b
        if product.a is not None:
            for i, v in enumerate(e.read_vector(product.a, "b32")):
                b.store(v, b.at(record, Issued.REGISTERS + REGISTER * i), 64)

    def _complete(self, product: Product, record: Val) -> None:
        """Compute a product; its accumulators change. A fault is one of its own instruction."""
        e, b, form = self.e, self.e.b, product.form
        e.ins = product.ins
        fast = e.fast_math and not form.exact
        fn = b.helper(
            form.name + (".fast" if fast else ""),
            [_P, _P, _P, _P, _I32],
            _I64,
            lambda x, ps: multiply(x, form, fast, *ps),
        )
        offsets = [e.registers.of(name)[0].offset for name in product.d]
        table = b.table(f"wgmma_registers_{product.ins.index}", "i32", offsets)
        status = fn(record, e.frame, table, e.shared, e.shared_bytes)
        with b.when(status.ne(INSIDE), rare=True):
            # The operand is above the offset: see `multiply`.
            bits = (status >> 32 << 8) | ((status & 0xFFFFFFFF) << VALUE)
            e.fault(Fault.WARPGROUP, b.integer("i32", 0), bits | encoded(OUTSIDE))
        for name in product.d:
            e.versions[name] = e.versions.get(name, 0) + 1
