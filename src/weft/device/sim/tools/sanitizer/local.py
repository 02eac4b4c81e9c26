"""Local memory: the words that a thread of this block has written."""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import SlotFields
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import BlockState, FindingKind, Record
from weft.device.sim.tools.sanitizer.order.words import put, word
from weft.device.sim.tools.sanitizer.report import report
from weft.device.sim.tools.sanitizer.shadow.records import AccessPattern, bytes_of, is_missing
from weft.device.sim.tools.sanitizer.undefined import Undefined
from weft.ir import Builder, Val
from weft.ptx.cfg import registers
from weft.ptx.isa import decode
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import FloatImm, Imm, Instruction

_C_FILES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".inl")
_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class Tracking(Checking, Protocol):
    """A watcher that tracks undefined values."""

    undefined: Undefined


class Local:
    """Stamps of local memory: the block that wrote each word last, and the bytes that it wrote.

    A stamp is the block's starting clock, above four bits for the bytes. Where local addresses are
    made generic (`escapes`), generic accesses may be to local memory.
    """

    def __init__(self, w: Tracking) -> None:
        self.w, self.layout = w, w.layout
        body = [i for block in w.e.program.graph.blocks for i in block.code]
        self.escapes = any(_makes_generic(i) for i in body)
        self.zeros = _zeros(w.e.program, body)
        self.head = next((i.loc.own for i in body if i.loc is not None), None)

    def access(self, access: MemoryAccess, way: AccessPattern, lanes: Val) -> None:
        """Record a write, or check that the bytes of a read were written."""
        e, b, size = self.w.e, self.w.e.b, self.w.e.program.local_bytes
        if not size or (way.writes and self._is_fill(e.ins)):
            return

        def body(x: Builder, args: list[Val]) -> Val:
            slot, warp, site, table, lanes, start, origin = args
            bad = x.alloca("i32")
            x.store(x.integer("i32", 0), bad)
            p = x.load("ptr", 0, x.at(slot, SlotFields.OBSERVER))
            # Every block of a slot starts at a later clock, so older stamps do not count and need
            # not be cleared.
            stamp = (word(x, p, BlockState.START) << 4).trunc("i32")

            def one(lane: Val) -> None:
                thread = warp.zext("i64") * 32 + lane.zext("i64")
                address = word(x, x.at(table, lane.zext("i64") << 3))
                rel = address - start - lane.zext("i64") * size
                # A generic address may be elsewhere.
                with x.when(rel.ule(size - way.nbytes)):
                    at = (thread * (size // 4) + (rel >> 2)) << 2
                    place = x.at(p, at + self.layout.local)
                    current = _record(site, warp, lane) | bytes_of(x, rel, way.nbytes)
                    missing = self._words(x, place, stamp, way, current)
                    with x.when(missing, rare=True):
                        put(x, current, origin)
                        put(x, address, origin, 8)
                        bits = x.load("i32", 0, bad) | (x.integer("i32", 1) << lane)
                        x.store(bits, bad)

            each_lane(x, lanes, one)
            return x.load("i32", 0, bad)

        kinds = [_P, _I32, _I64, _P, _I32, _I64, _P]
        fn = b.helper(f"sanitizer_local_{way.name}", kinds, _I32, body)
        start = b.val("i64", 0, f"ptrtoint {e.local.typed} to i64")
        if way.writes:
            # A word that gets an undefined value still counts as not written.
            lanes = lanes & ~self.w.undefined.stored(e.ins)
        origin, table = b.array("i64", 2), e.memory.addresses(access.address)
        bad = fn(e.slot, e.warp, self.w.site(), table, lanes, start, origin)
        if e.ins.index in self.w.undefined.plan.sources:
            self.w.undefined.made(bad, lanes, word(b, origin), word(b, origin, 8))
        elif way.reads:
            with b.when(bad.ne(0), rare=True):
                none = b.integer("i64", 0)
                report(
                    b,
                    self.w.p,
                    FindingKind.UNINITIALISED,
                    word(b, origin),
                    none,
                    word(b, origin, 8),
                )

    def _is_fill(self, ins: Instruction) -> bool:
        """Return whether Numba zeroes `cuda.local.array` here, on the line of the `def`.

        Its documentation promises no contents, so the array still counts as not written.
        """
        own, head = ins.loc.own if ins.loc is not None else None, self.head
        if own is None or head is None or own.file.endswith(_C_FILES):
            return False
        names = set(registers(ins.operands[-1]))
        return names <= self.zeros and (own.file, own.line) == (head.file, head.line)

    def _words(self, x: Builder, place: Val, stamp: Val, way: AccessPattern, current: Val) -> Val:
        """True at run time if bytes of a read are missing. Else marks the written bytes."""
        places = [x.at(place, 4 * i) for i in range(max(1, way.nbytes // 4))]
        stamps = [x.load("i32", 0, at, 4) for at in places]
        written = [(s & -16).eq(stamp).select(s & 15, 0) for s in stamps]
        missing = is_missing(x, way, written, current) if way.reads else x.integer("i1", 0)
        if way.writes:
            bits = ((current >> Record.BYTES) & 15).trunc("i32")
            for at, old in zip(places, written, strict=True):
                x.store(stamp | old | bits, at, 4)
        return missing


def _makes_generic(ins: Instruction) -> bool:
    """Return whether it converts a local address to a generic one."""
    d = decode(ins)
    return d.row.form is ResultForm.ADDRESS and d.space == "local"


def _zeros(program: KernelProgram, body: list[Instruction]) -> set[str]:
    """Registers that hold nothing but zero."""
    zero: dict[str, bool] = {}
    for ins in body:
        value = ins.operands[-1] if decode(ins).row.form is ResultForm.COPY else None
        is_zero = value in (Imm(0), FloatImm(0, 32), FloatImm(0, 64))
        for name in program.defs(ins):
            zero[name] = is_zero and zero.get(name, True)
    return {name for name, is_zero in zero.items() if is_zero}


def _record(site: Val, warp: Val, lane: Val) -> Val:
    return site | (lane.zext("i64") << Record.LANE) | (warp.zext("i64") << Record.WARP)
