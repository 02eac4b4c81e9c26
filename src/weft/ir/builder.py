"""The builder: one method per IR instruction, splatting scalars where vectors meet them."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence

from weft.ir.flow import Flow
from weft.ir.module import IrFunction
from weft.ir.value import BITS, Operandish, Val

__all__ = ["BITS", "CONSTANT", "Builder", "Val"]

CONSTANT = ", !invariant.load !{}"
"""Metadata of a load from memory that does not change while a function runs."""

_MANGLE = {
    "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "i128": "i128",
    "half": "f16", "float": "f32", "double": "f64", "ptr": "p0",
}  # fmt: skip
# Their NaNs have the bits that the host processor writes, not those of a GPU.
_RAW = {"fadd", "fsub", "fmul", "fdiv", "frem", "fma", "sqrt"}
_NAN32 = 0x7FFFFFFF


def _integer(ty: str, value: int) -> str:
    """The IR spelling of an integer of this type: signed, or a truth value."""
    if ty == "i1":
        return "true" if value & 1 else "false"
    width = BITS[ty]
    value &= (1 << width) - 1
    return str(value - (1 << width) if value >> (width - 1) else value)


@functools.lru_cache(1024)
def _items(ty: str, values: tuple[int, ...]) -> str:
    """The elements of a constant vector; a kernel uses the same few again and again."""
    return ", ".join(f"{ty} {_integer(ty, v)}" for v in values)


class Builder(Flow):
    """Values: constants, shapes, arithmetic, bits, memory, functions, masks."""

    def val(self, ty: str, n: int, text: str) -> Val:
        # As the base has it, in one call: most instructions are written here.
        assert not self.ended, f"unreachable: {text}"
        fn = self.fn
        fn.count += 1
        ref = f"%t{fn.count}"
        fn.lines.append(f"  {ref} = {text}")
        return Val(self, ty, n, ref)

    def pure(self, ty: str, n: int, text: str) -> Val:
        """The result of an instruction that a block need not repeat: not a load or a call."""
        ref = self.known.get(text)
        if ref is None:
            assert not self.ended, f"unreachable: {text}"
            fn = self.fn
            fn.count += 1
            ref = self.known[text] = f"%t{fn.count}"
            fn.lines.append(f"  {ref} = {text}")
        return Val(self, ty, n, ref)

    def named(self, ty: str, n: int, ref: str) -> Val:
        return Val(self, ty, n, ref)

    # ---- constants --------------------------------------------------------------------------
    def integer(self, ty: str, value: int) -> Val:
        """An integer constant; any Python int, taken modulo the width."""
        return Val(self, ty, 0, _integer(ty, value))

    def const(self, ty: str, value: float) -> Val:
        """A float constant by value."""
        pack = {"half": "<e", "float": "<f", "double": "<d"}[ty]
        return self.float_bits(ty, int.from_bytes(struct.pack(pack, value), "little"))

    def float_bits(self, ty: str, bits: int) -> Val:
        """A float constant by its bit pattern (NaN payloads are kept)."""
        if ty == "double":
            return Val(self, ty, 0, f"0x{bits:016X}")
        if ty == "half":
            return Val(self, ty, 0, f"0xH{bits:04X}")
        # LLVM spells an f32 constant as the f64 of the same value. A NaN goes by its bits: widening
        # a signalling one would make it quiet.
        if (bits & 0x7FFFFFFF) > 0x7F800000:
            return Val(self, ty, 0, f"bitcast (i32 {bits - (bits >> 31 << 32)} to float)")
        wide = struct.unpack("<f", struct.pack("<I", bits))[0]
        return Val(self, ty, 0, f"0x{int.from_bytes(struct.pack('<d', wide), 'little'):016X}")

    def lanes(self, ty: str, values: Sequence[int]) -> Val:
        """An integer vector constant."""
        return Val(self, ty, len(values), f"<{_items(ty, tuple(values))}>")

    def table(self, name: str, ty: str, values: Sequence[int]) -> Val:
        """A constant array in memory; returns its pointer."""
        items = _items(ty, tuple(values))
        self.module.globals[name] = (
            f"@{name} = internal unnamed_addr constant [{len(values)} x {ty}] [{items}], align 64"
        )
        return Val(self, "ptr", 0, f"@{name}")

    def poison(self, ty: str, n: int) -> Val:
        return Val(self, ty, n, "poison")

    def zero(self, ty: str, n: int) -> Val:
        """All bits zero, of any type."""
        return Val(self, ty, n, "zeroinitializer")

    def like(self, a: Val, o: Operandish) -> Val:
        """`o` as a value of a's element type (an int becomes a constant)."""
        if isinstance(o, Val):
            return o
        return self.float_bits(a.element, o) if a.is_float else self.integer(a.element, o)

    # ---- shapes -----------------------------------------------------------------------------
    def splat(self, v: Val, n: int) -> Val:
        """`v` in every one of n lanes."""
        if v.lanes == n:
            return v
        if v.ref == "zeroinitializer" or v.ref == "poison":
            return Val(self, v.element, n, v.ref)
        if v.is_const and not v.ref.startswith("@"):
            return Val(self, v.element, n, f"splat ({v.element} {v.ref})", v.raw_nan)
        kind = f"<{n} x {v.element}>"
        one = self.pure(v.element, n, f"insertelement {kind} poison, {v.element} {v.ref}, i32 0")
        every = f"shufflevector {one.typed}, {kind} poison, <{n} x i32> zeroinitializer"
        out = self.pure(v.element, n, every)
        out.raw_nan = v.raw_nan
        return out

    def match(self, *vs: Val) -> list[Val]:
        """All values with the width of the widest."""
        n = max(v.lanes for v in vs)
        return [self.splat(v, n) for v in vs] if n else list(vs)

    def shuffle(self, a: Val, indices: Sequence[int], c: Val | None = None) -> Val:
        """Lanes picked by constant indices; -1 gives poison."""
        other = c or Val(self, a.element, a.lanes, "poison")
        picks = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in indices)
        n = len(indices)
        out = self.pure(
            a.element, n, f"shufflevector {a.typed}, {other.typed}, <{n} x i32> <{picks}>"
        )
        out.raw_nan = a.raw_nan or (c is not None and c.raw_nan)
        return out

    def concat(self, parts: Sequence[Val]) -> Val:
        """Vectors of one width joined end to end (a power of two of them)."""
        vs = list(parts)
        while len(vs) > 1:
            w = vs[0].lanes * 2
            vs = [self.shuffle(vs[i], range(w), vs[i + 1]) for i in range(0, len(vs), 2)]
        return vs[0]

    def extract(self, v: Val, lane: Val | int) -> Val:
        i = f"i32 {lane}" if isinstance(lane, int) else lane.typed
        return Val(self, v.element, 0, self.define(f"extractelement {v.typed}, {i}"), v.raw_nan)

    def insert(self, v: Val, x: Val, lane: Val | int) -> Val:
        i = f"i32 {lane}" if isinstance(lane, int) else lane.typed
        return Val(
            self, v.element, v.lanes, self.define(f"insertelement {v.typed}, {x.typed}, {i}")
        )

    # ---- arithmetic -------------------------------------------------------------------------
    def binary(self, op: str, a: Val, c: Val) -> Val:
        if a.lanes != c.lanes:
            a, c = self.match(a, c)
        out = self.pure(a.element, a.lanes, f"{op} {a.typed}, {c.ref}")
        out.raw_nan = op in _RAW
        return out

    def fneg(self, a: Val) -> Val:
        out = self.pure(a.element, a.lanes, f"fneg {a.typed}")
        out.raw_nan = a.raw_nan
        return out

    def icmp(self, pred: str, a: Val, o: Operandish) -> Val:
        c = self.like(a, o)
        if a.lanes != c.lanes:
            a, c = self.match(a, c)
        return self.pure("i1", a.lanes, f"icmp {pred} {a.typed}, {c.ref}")

    def fcmp(self, pred: str, a: Val, c: Val) -> Val:
        a, c = self.match(a, c)
        return self.pure("i1", a.lanes, f"fcmp {pred} {a.typed}, {c.ref}")

    def select(self, cond: Val, a: Val, c: Val) -> Val:
        """cond ? a : c; a scalar condition selects whole vectors."""
        if cond.lanes == 0:
            a, c = self.match(a, c)
        else:
            cond, a, c = self.match(cond, a, c)
        out = self.pure(a.element, a.lanes, f"select {cond.typed}, {a.typed}, {c.typed}")
        out.raw_nan = a.raw_nan or c.raw_nan
        return out

    def cast(self, op: str, a: Val, ty: str) -> Val:
        if a.element == ty:
            return a
        shape = f"<{a.lanes} x {ty}>" if a.lanes else ty
        out = self.pure(ty, a.lanes, f"{op} {a.typed} to {shape}")
        out.raw_nan = op in ("fpext", "fptrunc")
        return out

    def resize(self, a: Val, ty: str, *, signed: bool = False) -> Val:
        """An integer widened or cut to `ty`."""
        if a.bits == BITS[ty]:
            return a
        if a.bits > BITS[ty]:
            return self.cast("trunc", a, ty)
        return self.cast("sext" if signed else "zext", a, ty)

    def intrinsic(
        self, name: str, args: Sequence[Val], ret: str | None = None, extra: str = ""
    ) -> Val:
        """A call of `llvm.<name>` overloaded on its first argument; `extra` is a trailing i1."""
        args = self.match(*args)
        ty, n = args[0].element, args[0].lanes
        out = ret or ty
        shape = f"<{n} x {out}>" if n else out
        suffix = f"{'v' + str(n) if n else ''}{_MANGLE[ty]}"
        if ret:  # conversions are overloaded on the result first
            suffix = f"{'v' + str(n) if n else ''}{_MANGLE[ret]}.{suffix}"
        fn = f"@llvm.{name}.{suffix}"
        if fn not in self.module.declarations:
            kinds = ", ".join(a.type for a in args) + (", i1" if extra else "")
            self.module.declarations[fn] = f"declare {shape} {fn}({kinds})"
        operands = ", ".join(a.typed for a in args) + (f", i1 {extra}" if extra else "")
        v = self.val(out, n, f"call {shape} {fn}({operands})")
        v.raw_nan = name in _RAW
        return v

    def fma(self, a: Val, c: Val, d: Val) -> Val:
        return self.intrinsic("fma", [a, c, d])

    def fabs(self, a: Val) -> Val:
        v = self.intrinsic("fabs", [a])
        v.raw_nan = a.raw_nan
        return v

    def umin(self, a: Val, o: Operandish) -> Val:
        return self.intrinsic("umin", [a, self.like(a, o)])

    def umax(self, a: Val, o: Operandish) -> Val:
        return self.intrinsic("umax", [a, self.like(a, o)])

    def smin(self, a: Val, o: Operandish) -> Val:
        return self.intrinsic("smin", [a, self.like(a, o)])

    def smax(self, a: Val, o: Operandish) -> Val:
        return self.intrinsic("smax", [a, self.like(a, o)])

    # ---- bits of floats ---------------------------------------------------------------------
    def canonical(self, v: Val) -> Val:
        """A float with the NaN the hardware writes (all ones, positive), where it may differ."""
        # A NaN of f64 keeps its payload on the hardware: `rounding.nan64` looks after it.
        if not v.raw_nan or v.element not in ("float", "half"):
            return v
        nan = self.float_bits(v.element, _NAN32 if v.element == "float" else 0x7FFF)
        out = self.select(self.fcmp("uno", v, v), nan, v)
        out.raw_nan = False
        return out

    def bits(self, v: Val) -> Val:
        """The bit pattern as an integer of the same width."""
        if not v.is_float:
            return v
        return self.cast("bitcast", self.canonical(v), f"i{v.bits}")

    def reinterpret(self, v: Val, ty: str) -> Val:
        """The same bits under another element type of the same width."""
        if v.element == ty:
            return v
        return self.cast("bitcast", self.bits(v), ty)

    def view(self, v: Val, ty: str, n: int) -> Val:
        """The same bytes as n elements of `ty` (`<32 x i32>` seen as `<64 x half>`)."""
        v = self.bits(v) if v.is_float else v
        shape = f"<{n} x {ty}>" if n else ty
        return self.pure(ty, n, f"bitcast {v.typed} to {shape}")

    def is_nan(self, v: Val) -> Val:
        return self.fcmp("uno", v, v)

    # ---- memory -----------------------------------------------------------------------------
    def alloca(self, ty: str, n: int = 0, align: int = 0) -> Val:
        """A stack slot, made in the entry block."""
        ref = self.name()
        shape = f"<{n} x {ty}>" if n else ty
        # In a loop, an alloca grows the stack each time; and LLVM turns only those of the entry
        # block into registers.
        self.fn.entry.append(f"  {ref} = alloca {shape}{f', align {align}' if align else ''}")
        return Val(self, "ptr", 0, ref)

    def array(self, ty: str, count: int, align: int = 64) -> Val:
        """A stack array, made in the entry block."""
        ref = self.name()
        self.fn.entry.append(f"  {ref} = alloca [{count} x {ty}], align {align}")
        return Val(self, "ptr", 0, ref)

    def load(self, ty: str, n: int, p: Val, align: int = 0, flags: str = "") -> Val:
        shape = f"<{n} x {ty}>" if n else ty
        tail = (f", align {align}" if align else "") + flags
        return self.val(ty, n, f"load {shape}, {p.typed}{tail}")

    def store(self, v: Val, p: Val, align: int = 0) -> None:
        self.emit(f"store {v.typed}, {p.typed}" + (f", align {align}" if align else ""))

    def prefetch(self, p: Val) -> None:
        """Prefetch the bytes at p, which need not be a valid address."""
        fn = "@llvm.prefetch.p0"
        self.module.declarations[fn] = f"declare void {fn}(ptr, i32, i32, i32)"
        # Of data, for a read, to be kept in all caches.
        self.emit(f"call void {fn}({p.typed}, i32 0, i32 3, i32 1)")

    def at(self, p: Val, offset: Val | int) -> Val:
        """p + offset bytes; a vector offset gives a vector of pointers."""
        if isinstance(offset, int):
            return (
                p
                if offset == 0
                else self.pure("ptr", p.lanes, f"getelementptr i8, {p.typed}, i64 {offset}")
            )
        n = max(p.lanes, offset.lanes)
        return self.pure("ptr", n, f"getelementptr i8, {p.typed}, {offset.typed}")

    # ---- functions --------------------------------------------------------------------------
    def helper(
        self,
        name: str,
        params: Sequence[tuple[str, int]],
        ret: tuple[str, int] | None,
        body: Callable[[Builder, list[Val]], Val | None],
        *,
        attrs: str = "#0",
    ) -> Callable[..., Val]:
        """A function of the module, written once by `body`; returns a function that calls it."""
        shape = "void" if ret is None else f"<{ret[1]} x {ret[0]}>" if ret[1] else ret[0]
        if name not in self.module.functions:
            self.module.functions[name] = ""  # a recursive use finds it declared
            fn = IrFunction(name, [], shape, attrs)
            inner = Builder(self.module, fn)
            fn.params = [Val(inner, ty, n, f"%a{i}") for i, (ty, n) in enumerate(params)]
            out = body(inner, list(fn.params))
            if not inner.ended:
                inner.ret(None if out is None else inner.canonical(out))
            self.module.functions[name] = fn.text()

        def call(*args: Val) -> Val:
            full = [self.splat(a, n) if n else a for a, (_, n) in zip(args, params, strict=True)]
            operands = ", ".join(a.typed for a in full)
            if ret is None:
                self.emit(f"call void @{name}({operands})")
                return Val(self, "i1", 0, "false")
            return self.val(ret[0], ret[1], f"call {shape} @{name}({operands})")

        return call

    def lanewise(self, name: str, args: Sequence[Val], ret: str, body: Callable[..., Val]) -> Val:
        """`body(builder, *args)` as an out-of-line function for the width at hand.

        Large sequences go through here, so that each is compiled once per module. The same name
        with other argument types is another function. It has no side effects: of two calls with the
        same arguments LLVM keeps one, e.g. the reciprocal of a sum that divides all elements of a
        row.
        """
        vs = self.match(*args)
        n = vs[0].lanes
        full = f"{name}.{n}.{'.'.join(v.element for v in vs)}"
        params = [(v.element, n) for v in vs]
        return self.helper(full, params, (ret, n), lambda b, ps: body(b, *ps), attrs="#5")(*vs)

    # ---- masks ------------------------------------------------------------------------------
    def any(self, m: Val) -> Val:
        """True if any lane is true (a scalar i1 is itself)."""
        if m.lanes == 0:
            return m
        fn = f"@llvm.vector.reduce.or.v{m.lanes}i1"
        self.module.declarations[fn] = f"declare i1 {fn}(<{m.lanes} x i1>)"
        return self.val("i1", 0, f"call i1 {fn}({m.typed})")

    def same(self, a: Val, c: Val) -> Val:
        """True if two integer vectors are equal in every lane."""
        fn = f"@llvm.vector.reduce.or.v{a.lanes}{a.element}"
        self.module.declarations[fn] = f"declare {a.element} {fn}({a.type})"
        return self.val(a.element, 0, f"call {a.element} {fn}({(a ^ c).typed})").eq(0)

    def all(self, m: Val) -> Val:
        """True if all lanes are true."""
        return self.any(~m) ^ 1 if m.lanes else m
