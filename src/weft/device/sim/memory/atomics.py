"""atom and red: lanes are served in ascending order, each with a checked address.

Other host threads may run other blocks, so the host's atomics change global and generic memory.
Shared memory belongs to one host thread and needs none. Where all lanes name one address, a
reduction without result is computed across the lanes first, and everything else is folded into a
single exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES
from weft.device.sim.lane_sets import each_lane, reduce_lanes, reduction
from weft.device.sim.layout import CLUSTER_SHIFT, Space
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.changes import ChangeRecorder
from weft.device.sim.memory.resolve import resolve
from weft.device.sim.protocols import LaneArrays
from weft.ir import Builder, Val
from weft.ptx import isa
from weft.ptx.model import SIZES, Instruction, Mem, Operand, Reg, Vec
from weft.records import dataclass

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)
REDUCES = {"add", "and", "or", "xor", "min", "max"}
_RMW = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg",
        "inc": "uinc_wrap", "dec": "udec_wrap"}  # fmt: skip
Change = Callable[[Builder, Val, list[Val]], Val]
"""(old bits, operands) -> new bits."""


def _increment(b: Builder, old: Val, x: list[Val]) -> Val:
    return old.uge(x[0]).select(b.integer(old.element, 0), old + 1)


def _decrement(b: Builder, old: Val, x: list[Val]) -> Val:
    return (old.eq(0) | old.ugt(x[0])).select(x[0], old - 1)


_CHANGES: dict[str, Change] = {
    "add": lambda b, old, x: old + x[0],
    "and": lambda b, old, x: old & x[0],
    "or": lambda b, old, x: old | x[0],
    "xor": lambda b, old, x: old ^ x[0],
    "umin": lambda b, old, x: b.umin(old, x[0]),
    "umax": lambda b, old, x: b.umax(old, x[0]),
    "smin": lambda b, old, x: b.smin(old, x[0]),
    "smax": lambda b, old, x: b.smax(old, x[0]),
    "exch": lambda b, old, x: x[0],
    "cas": lambda b, old, x: old.eq(x[0]).select(x[1], old),
    "inc": _increment,
    "dec": _decrement,
}


def _float_change(op: str, ptx_type: str, space: int) -> Change:
    """The row of the arithmetic instruction that agrees with the memory's own adder."""
    # As on an H200: an f32 atomic flushes denormals in global memory and keeps them in shared
    # memory.
    flush = ".ftz" if ptx_type == "f32" and space != Space.SHARED else ""
    opcode = f"{op}.rn{flush}.{ptx_type}" if op == "add" else f"{op}.{ptx_type}"
    row = isa.lookup(opcode.split("."))
    assert row is not None, opcode

    def change(b: Builder, old: Val, x: list[Val]) -> Val:
        ty = isa.llvm_type(ptx_type)
        operand, memory = (b.cast("bitcast", v, ty) if v.element != ty else v for v in (x[0], old))
        new = b.bits(row.row.function(b, operand, memory, **row.words))
        if ptx_type == "f64" and space != Space.SHARED:  # a NaN comes back as it was
            new = b.is_nan(memory).select(old, new)
            new = b.is_nan(operand).select(x[0], new)
        return new

    return change


@dataclass(frozen=True)
class Operation:
    """The operation on one location in memory."""

    name: str
    op: str
    ptx_type: str
    space: int

    @property
    def ty(self) -> str:
        return f"i{8 * self.size}"

    @property
    def size(self) -> int:
        return SIZES[self.ptx_type]

    @property
    def is_float(self) -> bool:
        return "f" in self.ptx_type and self.op in ("add", "min", "max")

    @property
    def by_address(self) -> bool:
        """True if a generic address decides how floats are added."""
        return self.space == Space.GENERIC and self.ptx_type in ("f32", "f64") and self.is_float

    def change(self, b: Builder, old: Val, x: list[Val], near: Val | None) -> Val:
        """The new bits; `near`: the location is in shared memory, for generic addresses."""
        if not self.is_float:
            return _CHANGES[reduction(self.op, self.ptx_type[0] == "s")](b, old, x)
        far = _float_change(self.op, self.ptx_type, self.space)(b, old, x)
        if near is None:
            return far
        return near.select(_float_change(self.op, self.ptx_type, Space.SHARED)(b, old, x), far)

    def apply(self, b: Builder, p: Val, x: list[Val], near: Val | None) -> Val:
        """Update the location; return its old value."""
        # No other host thread runs this block, so a load and a store are atomic.
        if self.space == Space.SHARED:
            old = b.load(self.ty, 0, p, self.size)
            b.store(self.change(b, old, x, near), p, self.size)
            return old
        if self.op == "cas":
            return _exchange(b, p, x[0], x[1])[0]
        if not self.is_float:
            rmw = _RMW.get(self.op) or ("" if self.ptx_type[0] == "s" else "u") + self.op
            return b.val(self.ty, 0, f"atomicrmw {rmw} {p.typed}, {x[0].typed} acq_rel")
        return self.retry(b, p, lambda old: self.change(b, old, x, near))

    def retry(self, b: Builder, p: Val, change: Callable[[Val], Val]) -> Val:
        """Retry until no other thread has changed the location in between."""
        start = b.val(self.ty, 0, f"load atomic {self.ty}, {p.typed} monotonic, align {self.size}")
        return b.until(start, lambda old: _exchange(b, p, old, change(old)))


def _exchange(b: Builder, p: Val, old: Val, new: Val) -> tuple[Val, Val]:
    both = b.define(f"cmpxchg {p.typed}, {old.typed}, {new.typed} acq_rel acquire")
    kind = f"{{ {old.element}, i1 }} {both}"
    return b.val(old.element, 0, f"extractvalue {kind}, 0"), b.val(
        "i1", 0, f"extractvalue {kind}, 1"
    )


class AtomicPlaces(LaneArrays, Protocol):
    """Stack arrays, and the single location of a uniform access."""

    def place(self, access: MemoryAccess, lanes: Val) -> Val:
        """The checked location; some lane must run."""


class Placing(Accessing, Protocol):
    """The emitter's interface for atomics."""

    @property
    def memory(self) -> AtomicPlaces: ...


class Atomics:
    """Atomic instructions of a warp under emission."""

    def __init__(self, e: Placing, changes: ChangeRecorder) -> None:
        self.e, self.changes = e, changes

    @cached_property
    def _read(self) -> set[str]:
        """Registers that some instruction reads: an unread result is not computed."""
        program = self.e.program
        return {r for b in program.graph.blocks for i in b.code for r in program.uses(i)}

    def run(
        self, ins: Instruction, dest: Operand | None, mem: Operand, sources: tuple[Operand, ...],
        *, op: str, space: str, ptx_type: str,
    ) -> None:  # fmt: skip
        """`[mem] = op([mem], sources)` for each lane; `dest` receives the old value."""
        e, b = self.e, self.e.b
        assert isinstance(mem, Mem)
        a = resolve(e, mem, SPACES[space])
        # One host thread runs all blocks of a cluster.
        near = Space.SHARED if a.space == Space.CLUSTER else a.space
        what = Operation(f"{op}_{ptx_type}_{a.space}", op, ptx_type, near)
        wanted = [x for x in _items(dest) if isinstance(x, Reg) and x.name in self._read]
        operands = [[self._bits(x, ptx_type) for x in _items(o)] for o in sources]
        count = len(operands[0])
        # the assembler makes a reduction of an atomic with an unread result, unless it acquires
        d = isa.decode(ins)
        answers = op in ("exch", "cas") or d.order in ("acquire", "acq_rel")
        kind = AccessKind.ATOMIC if wanted or answers else AccessKind.REDUCTION
        waits = d.row.completes_by
        access = MemoryAccess(ins, AccessUnit.LANES, kind, a, what.size * count, waits=waits)
        e.watch.access(access)
        if e.delays is not None:
            e.delays.meet(access)
        lanes = e.executing()
        if a.uniform and count == 1:
            self._at_one_place(access, what, [x[0] for x in operands], lanes, bool(wanted))
        else:
            self._lane_by_lane(access, what, operands, lanes)
        e.forget_mask()
        data, step = e.memory.buffer(8), 32 * what.size
        if self.changes.looks_at_atomic(ins):
            kept = count == 1 and (bool(wanted) or op in ("exch", "cas") or not a.uniform)
            old = b.load(what.ty, 32, data, 16) if kept else None
            self._note_changes(what, old, [x[0] for x in operands], lanes)
        if wanted:
            for i, item in enumerate(_items(dest)):
                e.write(item, b.load(what.ty, 32, b.at(data, step * i), 16))

    def _note_changes(self, what: Operation, old: Val | None, x: list[Val], lanes: Val) -> None:
        """Record the lanes that have changed memory; without `old` values, all of them."""
        e, b = self.e, self.e.b
        # A float counts as a change without a comparison: at worst a deadlock goes unreported.
        if old is None or what.is_float:
            self.changes.note(lanes)
            return
        new = b.splat(what.change(b, old, [b.splat(v, 32) for v in x], None), 32)
        self.changes.note(lanes & e.bits_of(new.ne(old)))

    def _bits(self, operand: Operand, ptx_type: str) -> Val:
        return self.e.b.bits(self.e.read(operand, ptx_type))

    def _near(self, what: Operation) -> list[Val]:
        """The window of shared memory, if the operation depends on it."""
        if not what.by_address:
            return []
        e, b = self.e, self.e.b
        start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
        if not e.program.clusters:
            return [start, e.shared_bytes.zext("i64")]
        size = checks.cluster_size(b, e.context).zext("i64") << CLUSTER_SHIFT
        return [start - e.rank_base.zext("i64"), size]

    def _fill(self, operands: list[list[Val]], size: int) -> Val:
        """The operands in the scratch array: [operand][element][lane]."""
        b, data = self.e.b, self.e.memory.buffer(8)
        for i, v in enumerate(v for elements in operands for v in elements):
            b.store(b.splat(v, 32), b.at(data, 32 * size * i), 16)
        return data

    def _lane_by_lane(
        self, access: MemoryAccess, what: Operation, operands: list[list[Val]], lanes: Val
    ) -> None:
        e, size, count = self.e, what.size, len(operands[0])

        def touch(b: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
            at = b.at(extra[0], lane.zext("i64") * size)
            near = _is_near(b, p, extra[1:])
            for i in range(count):
                x = [
                    b.load(what.ty, 0, b.at(at, 32 * size * (k * count + i)), size)
                    for k in range(len(operands))
                ]
                old = what.apply(b, b.at(p, i * size), x, near)
                b.store(old, b.at(at, 32 * size * i), size)

        data = self._fill(operands, size)
        kinds = [_P, _I64, _I64] if what.by_address else [_P]
        name = f"atom_{what.name}_x{count}"
        fn = checks.checked_lanes(e, name, access, kinds, touch)
        site, table = e.windows.site(), e.memory.addresses(access.address)
        e.abort_unless(fn(table, lanes, site, data, *self._near(what)))

    def _at_one_place(
        self, access: MemoryAccess, what: Operation, x: list[Val], lanes: Val, wanted: bool
    ) -> None:
        if self.e.executes_fully:
            self._together(access, what, x, lanes, wanted)
            return
        with self.e.b.when(lanes.ne(0)):
            self._together(access, what, x, lanes, wanted)

    def _together(
        self, access: MemoryAccess, what: Operation, x: list[Val], lanes: Val, wanted: bool
    ) -> None:
        e, b = self.e, self.e.b
        p = e.memory.place(access, lanes)
        # The order decides the bits of a float sum, so floats are folded lane by lane.
        if what.op in REDUCES and not what.is_float and not wanted:
            what.apply(b, p, [self._across(what, x[0], lanes)], None)
            return
        fn = b.helper(
            f"fold_{what.name}",
            [_P, _I32, _P, *([_I64, _I64] if what.by_address else [])],
            None,
            lambda inner, args: _fold(inner, args, what, len(x)),
        )
        fn(p, lanes, self._fill([[v] for v in x], what.size), *self._near(what))

    def _across(self, what: Operation, x: Val, lanes: Val) -> Val:
        """One operand that combines all lanes' operands."""
        e, b = self.e, self.e.b
        name = reduction(what.op, what.ptx_type[0] == "s")
        idle = _IDENTITY[name](8 * what.size)
        if x.lanes == 0 and what.op == "add":
            return x * b.resize(b.intrinsic("ctpop", [lanes]), x.element)
        # `and`, `or`, `min` and `max` of equal operands are the operand; `xor` depends on their
        # number.
        if x.lanes == 0 and what.op != "xor":
            return x
        x = b.splat(x, 32)
        return reduce_lanes(b, name, x if e.executes_fully else e.lanes_of(lanes).select(x, idle))


_IDENTITY: dict[str, Callable[[int], int]] = {
    "add": lambda bits: 0,
    "or": lambda bits: 0,
    "xor": lambda bits: 0,
    "and": lambda bits: -1,
    "umin": lambda bits: -1,
    "umax": lambda bits: 0,
    "smin": lambda bits: (1 << bits - 1) - 1,
    "smax": lambda bits: 1 << bits - 1,
}
"""The neutral element of each reduction, used for lanes that do not run."""


def _items(operand: Operand | None) -> tuple[Operand, ...]:
    if operand is None:
        return ()
    return operand.items if isinstance(operand, Vec) else (operand,)


def _is_near(b: Builder, p: Val, window: list[Val]) -> Val | None:
    if not window:
        return None
    return (b.val("i64", 0, f"ptrtoint {p.typed} to i64") - window[0]).ult(window[1])


def _fold(b: Builder, args: list[Val], what: Operation, operands: int) -> None:
    """(place, lanes, data, shared window): every lane in turn on one value, stored once."""
    p, lanes, data = args[:3]
    near = _is_near(b, p, args[3:])
    value = b.alloca(what.ty)
    kept = b.array(what.ty, 32 * operands)  # `data` becomes the results; a retry reads these
    step = 32 * what.size
    for k in range(operands):
        b.store(b.load(what.ty, 32, b.at(data, step * k), 16), b.at(kept, step * k), 16)

    def all_lanes(start: Val) -> Val:
        b.store(start, value)

        def one(lane: Val) -> None:
            at = lane.zext("i64") * what.size
            old = b.load(what.ty, 0, value)
            x = [
                b.load(what.ty, 0, b.at(b.at(kept, step * k), at), what.size)
                for k in range(operands)
            ]
            b.store(old, b.at(data, at), what.size)
            b.store(what.change(b, old, x, near), value)

        each_lane(b, lanes, one)
        return b.load(what.ty, 0, value)

    # Shared memory belongs to one host thread, so a plain load and store are atomic there.
    if what.space == Space.SHARED:
        b.store(all_lanes(b.load(what.ty, 0, p, what.size)), p, what.size)
    else:
        what.retry(b, p, all_lanes)
