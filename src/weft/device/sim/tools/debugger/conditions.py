"""Conditions as code of a kernel: evaluated for all lanes of a warp, without a call of the host.

What reads memory, divides or shifts is left to the host, which `evaluate` serves.
"""

from __future__ import annotations

from weft.device.sim.analyse.form import AFFINE
from weft.device.sim.lane_sets import lane_bits, lanes_of, spread
from weft.device.sim.layout import ContextFields, SlotFields
from weft.device.sim.tools.debugger.evaluate import AXES, BUILT_IN
from weft.device.sim.tools.debugger.expressions import Binary, Member, Name, Node, Number, Unary
from weft.device.sim.tools.debugger.layout import ShadowLayout
from weft.device.sim.tools.debugger.source_map import Frame, SourceMap
from weft.device.sim.tools.debugger.watcher import Condition, DebugWatcher
from weft.ir import Builder, Val
from weft.ptx.debug_info import Kind, Type
from weft.ptx.model import Instruction

_ORDERED = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ARITHMETIC = ("+", "-", "*")
_BITS = ("&", "|", "^")


class _NotHere(Exception):
    """A part of a condition that only the host can evaluate."""


def compiled(node: Node, source: SourceMap, shadow: ShadowLayout, index: int) -> Condition | None:
    """The code of a condition before an instruction; None where the host must evaluate it."""
    translation = _Translation(source, shadow, source.code[index])
    try:
        translation.check(node)
    except _NotHere:
        return None
    return lambda watcher: translation.bits(node, watcher)


class _Translation:
    def __init__(self, source: SourceMap, shadow: ShadowLayout, ins: Instruction) -> None:
        self.source, self.shadow = source, shadow
        self.frame: Frame = source.frame(ins)

    # ---- before code is made ----------------------------------------------------------------
    def check(self, node: Node) -> None:
        """Raise _NotHere for what has no code."""
        match node:
            case Number():
                return
            case Name(name):
                self._place(name)
            case Member(Name(name), axis) if name in BUILT_IN and axis in AXES:
                return
            case Unary(op, of) if op in ("-", "+", "!"):
                self.check(of)
            case Binary(op, left, right) if op in (*_ORDERED, *_ARITHMETIC, *_BITS, "&&", "||"):
                if op in _BITS and (self._is_float(left) or self._is_float(right)):
                    raise _NotHere
                self.check(left)
                self.check(right)
            case _:
                raise _NotHere

    def _is_float(self, node: Node) -> bool:
        match node:
            case Number(value):
                return isinstance(value, float)
            case Name(name):
                return self._place(name)[1].kind is Kind.FLOAT
            case Unary(op, of):
                return op != "!" and self._is_float(of)
            case Binary(op, left, right):
                return op in _ARITHMETIC and (self._is_float(left) or self._is_float(right))
        return False

    def _place(self, name: str) -> tuple[str, Type]:
        """The register and the type of a variable."""
        variable = self.source.variables(self.frame).get(name)
        place = None if variable is None else self.source.place(self.frame, variable)
        if variable is None or place is None or not place.register:
            raise _NotHere
        kind, full = variable.type, self.frame.prefix + place.register
        known = full in self.shadow.registers or full in self.shadow.constants
        if not known or kind.kind not in (Kind.INTEGER, Kind.BOOLEAN, Kind.FLOAT):
            raise _NotHere
        if kind.size not in ((2, 4, 8) if kind.kind is Kind.FLOAT else (1, 2, 4, 8)):
            raise _NotHere
        return full, kind

    # ---- code -------------------------------------------------------------------------------
    def bits(self, node: Node, watcher: DebugWatcher) -> Val:
        b = watcher.e.b
        return lane_bits(b, [b.splat(self._truth(self._lanes(node, watcher), b), 32)])

    def _truth(self, v: Val, b: Builder) -> Val:
        if v.element == "i1":
            return v
        return b.fcmp("une", v, b.const("double", 0.0)) if v.is_float else v.ne(0)

    def _lanes(self, node: Node, w: DebugWatcher) -> Val:
        """The value of each lane: i1, i64 or double."""
        b = w.e.b
        match node:
            case Number(value):
                if isinstance(value, float):
                    return b.splat(b.const("double", value), 32)
                return b.splat(b.integer("i64", value), 32)
            case Name(name):
                return self._variable(*self._place(name), w)
            case Member(Name(name), axis):
                return b.splat(self._built_in(name, AXES.index(axis), w), 32)
            case Unary("!", of):
                return self._truth(self._lanes(of, w), b) ^ 1
            case Unary(op, of):
                v = self._wide(self._lanes(of, w), b)
                return -v if op == "-" else v
            case Binary(op, left, right) if op in ("&&", "||"):
                x, y = (self._truth(self._lanes(n, w), b) for n in (left, right))
                return x & y if op == "&&" else x | y
            case Binary(op, left, right):
                x, y = (self._wide(self._lanes(n, w), b) for n in (left, right))
                return self._apply(op, x, y, b)
        raise AssertionError("`check` refuses it")

    def _wide(self, v: Val, b: Builder) -> Val:
        return b.cast("zext", v, "i64") if v.element == "i1" else v

    def _apply(self, op: str, x: Val, y: Val, b: Builder) -> Val:
        if x.is_float != y.is_float:
            x, y = (v if v.is_float else b.cast("sitofp", v, "double") for v in (x, y))
        if op in _ORDERED:
            word = _ORDERED[op]
            if x.is_float:
                return b.fcmp("une" if word == "ne" else f"o{word}", x, y)
            return b.icmp(word if word in ("eq", "ne") else f"s{word}", x, y)
        if op in _BITS:
            return x & y if op == "&" else x | y if op == "|" else x ^ y
        return x + y if op == "+" else x - y if op == "-" else x * y

    def _built_in(self, name: str, axis: int, w: DebugWatcher) -> Val:
        e, b = w.e, w.e.b
        x, y, _ = shape = e.program.shape
        if name == "blockDim":
            return b.integer("i64", shape[axis])
        if name in ("blockIdx", "gridDim"):
            if name == "blockIdx":
                at = (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)[axis]
                return b.load("i32", 0, b.at(e.slot, at)).zext("i64")
            at = (ContextFields.GRID_X, ContextFields.GRID_Y, ContextFields.GRID_Z)[axis]
            return b.load("i64", 0, b.at(e.context, at), 8)
        first = b.splat(e.warp.zext("i64") << 5, 32)
        number = first + b.lanes("i64", list(range(32)))
        below, size = (1, x, x * y)[axis], shape[axis]
        part = b.binary("udiv", number, b.lanes("i64", [below] * 32))
        return b.binary("urem", part, b.lanes("i64", [size] * 32))

    def _variable(self, register: str, kind: Type, w: DebugWatcher) -> Val:
        b = w.e.b
        if register in self.shadow.constants:
            width = max(8 * kind.size, 8)
            bits = b.splat(b.integer(f"i{width}", self.shadow.constants[register]), 32)
        else:
            bits = self._stored(register, w)
        if kind.kind is Kind.FLOAT:
            narrow = b.resize(bits, f"i{8 * kind.size}")
            ty = {2: "half", 4: "float", 8: "double"}[kind.size]
            return b.cast("fpext", b.reinterpret(narrow, ty), "double")
        if bits.element == "i1":
            return bits
        return b.resize(b.resize(bits, f"i{8 * kind.size}"), "i64", signed=kind.signed)

    def _stored(self, register: str, w: DebugWatcher) -> Val:
        b, stored = w.e.b, self.shadow.registers[register]
        place = b.at(w.area(), stored.offset)
        if stored.bits == 1:
            return lanes_of(b, b.load("i32", 0, place, 4))
        if not stored.scalar:
            return b.load(f"i{stored.bits}", 32, place, 64)
        base = b.load(f"i{stored.bits}", 0, place, 8)
        if stored.form.kind == AFFINE:
            return spread(base, stored.form.off)
        return b.splat(base, 32)
