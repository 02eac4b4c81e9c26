"""Moves the lines of a tensor job between global and shared memory, 16 bytes at a time.

A line is contiguous in global memory. In shared memory its units of 16 bytes are exchanged by the
swizzle, which is a function of the absolute shared address: bits 4 to 6 are XORed with bits 7 to 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from weft.device.sim.layout import Space
from weft.device.sim.memory.atomics import Operation
from weft.device.sim.memory.tensors.job import TensorJob, Walk
from weft.device.tensor_map_layout import TF32, TYPES
from weft.ir import Builder, Val

LONGEST = 2048
"""Bytes of the longest line: 256 elements of 8 bytes."""
UNIT, SWIZZLED_LINE = 16, 128
Line = Callable[[Val, Val, Val], None]
"""(number of the line, its address in the tensor, whether the line is inside the tensor)."""

REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f32.ftz", "tf32", "tf32.ftz", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("u32", "s32", "u64"),
    "or": ("u32", "s32", "u64"),
    "xor": ("u32", "s32", "u64"),
}
"""Types of elements that each operation takes on an H200."""


class TensorTransfer(NamedTuple):
    """A kind of entry in the list of bulk copies: a load, a store, or the name of a reduction."""

    action: str
    columns: bool

    def carry_out(self, b: Builder, entry: Val) -> None:
        """Execute an entry."""
        name = f"tensor_{self.action}_{'columns' if self.columns else 'tile'}"
        b.helper(name, [("ptr", 0)], None, lambda x, args: self._move(x, args[0]))(entry)

    def _move(self, b: Builder, job: Val) -> None:
        mover = _Mover(b, job)
        if self.action == "load":
            line: Line = mover.load
        elif self.action == "store":
            line = mover.store
        else:
            line = mover.reduction(self.action)
        each_line(b, job, line, columns=self.columns)


def each_line(b: Builder, job: Val, body: Line, *, columns: bool) -> None:
    """Call `body` for all lines of a box, in the order in which they are in shared memory."""
    (_each_pixel if columns else _each_row)(b, job, body)


def _word(b: Builder, job: Val, at: int) -> Val:
    return b.load("i32", 0, b.at(job, at), 4)


def _long(b: Builder, job: Val, at: int) -> Val:
    return b.load("i64", 0, b.at(job, at), 8)


def _each_row(b: Builder, job: Val, body: Line) -> None:
    jumps = [_long(b, job, TensorJob.JUMPS + 8 * i) for i in range(4)]
    counts, lows, highs = (
        [_word(b, job, at + 4 * i) for i in range(4)]
        for at in (TensorJob.COUNTS, TensorJob.LOWS, TensorJob.HIGHS)
    )

    def inside(i: int, index: Val) -> Val:
        return (index - lows[i]).ult(highs[i] - lows[i])

    origin = _long(b, job, TensorJob.ORIGIN)
    with b.loop(counts[3]) as i4, b.loop(counts[2]) as i3, b.loop(counts[1]) as i2:
        outer = inside(3, i4) & inside(2, i3) & inside(1, i2)
        start = origin
        for index, jump in ((i4, jumps[3]), (i3, jumps[2]), (i2, jumps[1])):
            start = start + index.zext("i64") * jump
        first = ((i4 * counts[2] + i3) * counts[1] + i2) * counts[0]
        with b.loop(counts[0]) as i1:
            body(first + i1, start + i1.zext("i64") * jumps[0], outer & inside(0, i1))


def _each_pixel(b: Builder, job: Val, body: Line) -> None:
    rows = [b.at(job, TensorJob.WALK + Walk.SIZE * i) for i in range(Walk.DIMENSIONS)]
    places = [b.alloca("i32") for _ in rows]
    for row, place in zip(rows, places, strict=True):
        b.store(_word(b, row, Walk.POSITION), place)
    origin = _long(b, job, TensorJob.ORIGIN)
    with b.loop(_word(b, job, TensorJob.LINES)) as number:
        at, ok = origin, b.integer("i1", 1)
        for row, place in zip(rows, places, strict=True):
            index = (b.load("i32", 0, place) + _word(b, row, Walk.SHIFT)).sext("i64")
            ok = ok & index.ult(_long(b, row, Walk.DIM))
            at = at + index * _long(b, row, Walk.STRIDE)
        body(number, at, ok)
        carry = b.integer("i1", 1)
        for row, place in zip(rows, places, strict=True):
            position = b.load("i32", 0, place)
            moved = position + _word(b, row, Walk.STEP)
            over = moved.sgt(_word(b, row, Walk.LAST))
            following = over.select(_word(b, row, Walk.FIRST), moved)
            b.store(carry.select(following, position), place)
            carry = carry & over


class _Mover:
    """Moves lines of one job; the words of the job are loaded once."""

    def __init__(self, b: Builder, job: Val) -> None:
        self.b = b
        self.offset, self.pitch = _word(b, job, TensorJob.OFFSET), _word(b, job, TensorJob.PITCH)
        self.line, self.mask = _word(b, job, TensorJob.LINE), _word(b, job, TensorJob.MASK)
        self.low, self.high = _word(b, job, TensorJob.LOW), _word(b, job, TensorJob.HIGH)
        self.type, self.fill = _word(b, job, TensorJob.TYPE), _long(b, job, TensorJob.FILL)
        self.window = b.load("ptr", 0, b.at(job, TensorJob.WINDOW), 8)
        self.end = _long(b, job, TensorJob.END)
        self.rounds = self.type.uge(TF32.code)
        self.whole = self.low.eq(0) & self.high.eq(self.line)
        self.partly = self.low.ult(self.high)
        self.staged = b.array("i8", LONGEST)

    def load(self, number: Val, address: Val, inside: Val) -> None:
        """A line of the tensor to shared memory; what is outside is filled."""
        b = self.b

        def filled() -> Val:
            with b.loop(self.line >> 4) as i:
                fill = b.splat(self.fill, 2)
                b.store(fill, b.at(self.staged, i.zext("i64") << 4), UNIT)
            with b.when(inside & self.partly):
                _copy(b, self._part(self.staged), self._part(_pointer(b, address)), self._width())
                with b.when(self.rounds):
                    self._round()
            return self.staged

        direct = inside & self.whole & (self.rounds ^ 1)
        source = b.either(direct, lambda: _pointer(b, address), filled, likely=True)
        self._units(number, source, to_shared=True)

    def _round(self) -> None:
        """Round the staged numbers to tf32: to nearest even, and all NaNs to one."""
        b = self.b
        with b.loop(self._width() >> 2) as i:
            place = b.at(self._part(self.staged), i.zext("i64") << 2)
            bits = b.load("i32", 0, place, 4)
            is_nan = (bits & 0x7FFFFFFF).ugt(0x7F800000)
            nearest = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
            b.store(is_nan.select(b.integer("i32", 0x7FFFE000), nearest), place, 4)

    def store(self, number: Val, address: Val, inside: Val) -> None:
        """A line of shared memory to the tensor; what is outside is dropped, in units of 16."""
        b = self.b
        with b.when(inside & self.partly):
            target = _pointer(b, address)

            def part() -> None:
                self._units(number, self.staged, to_shared=False)
                _copy(b, target, self.staged, self._stored(address))

            def whole() -> None:
                self._units(number, target, to_shared=False)

            b.either(self.whole, whole, part, likely=True)

    def _stored(self, address: Val) -> Val:
        """Bytes of a line that a store writes: whole units, up to the end of the memory."""
        units = ((self.high + 15) & ~15).zext("i64")
        return self.b.umin(units, self.end - address).trunc("i32")

    def reduction(self, op: str) -> Line:
        """A line that applies an operation to the elements of the tensor."""
        b = self.b

        def line(number: Val, address: Val, inside: Val) -> None:
            with b.when(inside & self.partly):
                self._units(number, self.staged, to_shared=False)
                arms = {
                    t.code: self._applied(op, t.name, address)
                    for t in TYPES
                    if t.name in REDUCTIONS[op]
                }
                # `plan` refuses other types.
                b.switch(self.type, arms, lambda: None)

        return line

    def _applied(self, op: str, kind: str, address: Val) -> Callable[[], None]:
        b = self.b
        bitwise = op in ("and", "or", "xor")
        ptx_type = f"b{kind[1:]}" if bitwise else "f32" if "f32" in kind else kind
        what = Operation("", op, ptx_type, Space.GENERIC)
        near = b.integer("i1", 1) if what.by_address and ptx_type == "f32" else None

        def arm() -> None:
            width = self._stored(address)
            with b.loop(b.binary("udiv", width, b.integer("i32", what.size))) as i:
                at = (i * what.size).zext("i64")
                value = b.load(what.ty, 0, b.at(self.staged, at), what.size)
                what.apply(b, b.at(_pointer(b, address), at), [value], near)

        return arm

    def _units(self, number: Val, far: Val, *, to_shared: bool) -> None:
        """All units of a line, between shared memory and `far`."""
        b = self.b
        start = self.offset + number * self.pitch

        def straight() -> None:
            near = b.at(self.window, start.zext("i64"))
            _copy(b, *((near, far) if to_shared else (far, near)), self.line)

        def swizzled() -> None:
            with b.loop(self.line >> 4) as i:
                at = start + (i << 4)
                near = b.at(self.window, (at ^ ((at >> 3) & self.mask)).zext("i64"))
                other = b.at(far, i.zext("i64") << 4)
                source, target = (other, near) if to_shared else (near, other)
                # Lines of a tensor begin at any element.
                b.store(b.load("i32", 4, source, 1), target, 1)

        def whole() -> None:
            # The lines of most tiles: 128 bytes at a multiple of 128, so one XOR is for all units.
            near, phase = b.at(self.window, start.zext("i64")), (start >> 3) & self.mask
            for i in range(0, SWIZZLED_LINE, UNIT):
                here = b.at(near, (phase ^ i).zext("i64"))
                source, target = (b.at(far, i), here) if to_shared else (here, b.at(far, i))
                b.store(b.load("i32", 4, source, 1), target, 1)

        def other() -> None:
            b.either(self.mask.eq(0), straight, swizzled)

        b.either(self.line.eq(SWIZZLED_LINE), whole, other)

    def _part(self, p: Val) -> Val:
        return self.b.at(p, self.low.zext("i64"))

    def _width(self) -> Val:
        return self.high - self.low


def _pointer(b: Builder, address: Val) -> Val:
    return b.val("ptr", 0, f"inttoptr {address.typed} to ptr")


def _copy(b: Builder, target: Val, source: Val, nbytes: Val) -> None:
    fn = "@llvm.memcpy.p0.p0.i64"
    b.module.declarations[fn] = f"declare void {fn}(ptr, ptr, i64, i1)"
    b.emit(f"call void {fn}({target.typed}, {source.typed}, {nbytes.zext('i64').typed}, i1 false)")
