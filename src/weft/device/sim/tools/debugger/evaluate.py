"""Evaluates C++ expressions for one thread of a stopped launch."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Mapping

from weft.device.base import Dim3
from weft.device.sim.tools.debugger.expressions import (
    Binary,
    Index,
    Member,
    Name,
    Node,
    Number,
    Unary,
)
from weft.device.sim.tools.debugger.source_map import Frame, SourceMap
from weft.device.sim.tools.debugger.state import LaunchState, Thread
from weft.device.sim.tools.debugger.values import Value, decode, is_scalar
from weft.errors import Error
from weft.ptx.debug_info import Kind, Location, Type, Variable
from weft.ptx.debug_info.types import BASIC, DOUBLE, INT, LONG, UNKNOWN, pointer_to
from weft.ptx.model import SIZES

BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
AXES = "xyz"
_PLAIN: Mapping[str, Callable[..., int | float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WHOLE: Mapping[str, Callable[[int, int], int]] = {
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, "%": lambda a, b: a - b * _quotient(a, b),
}  # fmt: skip


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class Evaluator:
    """Expressions in a frame of a thread; integers do not overflow."""

    def __init__(
        self,
        state: LaunchState,
        source: SourceMap,
        globals_: Mapping[str, int],
        grid: Dim3,
        *,
        has_names: bool,
    ) -> None:
        self.state, self.source, self.globals = state, source, globals_
        self.grid, self.has_names = grid, has_names

    def value(self, node: Node, thread: Thread, frame: Frame) -> Value:
        """Evaluate an expression; raise Error where it has no value."""
        match node:
            case Number(number):
                return Value(INT if isinstance(number, int) else DOUBLE, number)
            case Name(name):
                return self._name(name, thread, frame)
            case Member(Name(name), axis) if name in BUILT_IN:
                return Value(BASIC["unsigned"], self._built_in(name, axis, thread))
            case Member(of, name):
                return self._member(self.value(of, thread, frame), name)
            case Index(of, index):
                start = self.value(of, thread, frame)
                return self._element(start, self._whole(index, thread, frame), thread)
            case Unary(op, of):
                return self._unary(op, of, thread, frame)
            case Binary(op, left, right):
                return self._binary(op, left, right, thread, frame)

    def is_true(self, node: Node, thread: Thread, frame: Frame) -> bool:
        """Return whether a condition holds."""
        return bool(self._number(self.value(node, thread, frame)))

    # ---- names ------------------------------------------------------------------------------
    def _built_in(self, name: str, axis: str, thread: Thread) -> int:
        if axis not in AXES:
            raise Error(f"{name} has no member {axis}", allowed="x, y and z")
        index = {
            "threadIdx": self.state.thread_index(thread),
            "blockIdx": self.state.block_of(thread.slot),
            "blockDim": self.state.program.shape,
            "gridDim": self.grid,
        }[name]
        return index[AXES.index(axis)]

    def _name(self, name: str, thread: Thread, frame: Frame) -> Value:
        if name.startswith("%"):
            return self._register(name, thread, frame)
        if name == "warpSize":
            return Value(INT, 32)
        variable = self.source.variables(frame).get(name)
        if variable is not None:
            return self._variable(variable, thread, frame)
        if name in self.source.shared:
            symbol, kind = self.source.shared[name]
            address = self.state.symbol(thread, symbol)
            assert address is not None
            return self.load(kind, address, thread)
        raise self.unknown(name, frame)

    def unknown(self, name: str, frame: Frame) -> Error:
        """The error for a name that means nothing here."""
        known = [*self.source.variables(frame), *self.source.shared, *BUILT_IN, "warpSize"]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else ""
        if not self.has_names:
            hint = "the code has no debug information: registers have names, e.g. %r1"
        return Error(
            f"no variable {name} is visible here",
            where=str(frame.line or f"PTX line {frame.ins.ptx_line}"),
            got=name,
            allowed=", ".join(known),
            next=hint,
        )

    def _register(self, name: str, thread: Thread, frame: Frame) -> Value:
        full = frame.prefix + name
        bits = self.state.register(thread, full)
        kind = self.state.program.function.registers.get(full)
        if bits is None or kind is None:
            raise Error(
                f"the code writes no register {name}",
                allowed=f"registers of {frame.function}, which `registers` lists",
            )
        type = _of_register(kind)
        data = bits.to_bytes(16, "little")
        return Value(type, decode(type, data), register=full)

    def _variable(self, variable: Variable, thread: Thread, frame: Frame) -> Value:
        if variable.constant is not None:
            return Value(variable.type, variable.constant)
        place = self.source.place(frame, variable)
        if place is None:
            raise _without_place(variable, frame)
        if place.symbol:
            return self._in_memory(variable, place, thread, frame)
        full = frame.prefix + place.register
        bits = self.state.register(thread, full)
        if bits is None:
            raise _without_place(variable, frame)
        data, type = bits.to_bytes(16, "little"), variable.type
        if type.reference and type.of is not None:
            return self.load(type.of, int(decode(type, data)), thread)
        if not is_scalar(type):
            return Value(type, data=data[: type.size], register=full)
        return Value(type, decode(type, data), register=full)

    def _in_memory(
        self, variable: Variable, place: Location, thread: Thread, frame: Frame
    ) -> Value:
        names = (frame.prefix + place.symbol, place.symbol)
        found = (self.state.symbol(thread, n) for n in names)
        address = next((x for x in found if x is not None), self.globals.get(place.symbol))
        if address is None:
            raise _without_place(variable, frame)
        return self.load(variable.type, address + place.offset, thread)

    # ---- memory -----------------------------------------------------------------------------
    def load(self, type: Type, address: int, thread: Thread) -> Value:
        """The value of a type at an address."""
        data = self.state.read(thread, address, max(1, type.size))
        if is_scalar(type):
            return Value(type, decode(type, data), address=address)
        return Value(type, data=data, address=address)

    def _member(self, of: Value, name: str) -> Value:
        field = of.type.field(name)
        if field is None:
            names = ", ".join(f.name for f in of.type.fields)
            raise Error(
                f"{of.type.name} has no member {name}",
                allowed=names or "a structure has members, this is none",
            )
        data = of.data[field.offset :][: field.type.size]
        address = None if of.address is None else of.address + field.offset
        number = decode(field.type, data) if is_scalar(field.type) else None
        return Value(field.type, number, b"" if number is not None else data, address)

    def _element(self, of: Value, index: int, thread: Thread) -> Value:
        inner = of.type.of
        if inner is None or of.type.kind not in (Kind.ARRAY, Kind.POINTER):
            raise Error(f"a {of.type.name} has no elements", allowed="an array or a pointer")
        if of.type.kind is Kind.POINTER:
            return self.load(inner, int(of.number or 0) + index * inner.size, thread)
        if of.type.count and not 0 <= index < of.type.count:
            raise Error(
                f"{of.type.name} has no element {index}", allowed=f"0 to {of.type.count - 1}"
            )
        if of.address is not None:
            return self.load(inner, of.address + index * inner.size, thread)
        data = of.data[index * inner.size :][: inner.size]
        return Value(inner, decode(inner, data)) if is_scalar(inner) else Value(inner, data=data)

    # ---- operators --------------------------------------------------------------------------
    def _number(self, value: Value) -> int | float:
        if value.number is None:
            raise Error(f"a {value.type.name} is no number", next="name a member or an element")
        return value.number

    def _whole(self, node: Node, thread: Thread, frame: Frame) -> int:
        number = self._number(self.value(node, thread, frame))
        if not isinstance(number, int):
            raise Error("an index is a whole number", got=str(number))
        return number

    def _unary(self, op: str, of: Node, thread: Thread, frame: Frame) -> Value:
        value = self.value(of, thread, frame)
        if op == "*":
            return self._element(value, 0, thread)
        if op == "&":
            if value.address is None:
                raise Error("it is in a register, which has no address")
            return Value(pointer_to(value.type), value.address)
        number = self._number(value)
        if op == "!":
            return Value(INT, int(not number))
        if op == "~":
            return Value(LONG, ~int(number))
        return Value(value.type, -number if op == "-" else number)

    def _binary(self, op: str, left: Node, right: Node, thread: Thread, frame: Frame) -> Value:
        if op in ("&&", "||"):
            first = self.is_true(left, thread, frame)
            if first == (op == "||"):
                return Value(INT, int(first))
            return Value(INT, int(self.is_true(right, thread, frame)))
        a, b = (self.value(x, thread, frame) for x in (left, right))
        if op in ("+", "-") and a.type.kind is Kind.POINTER and b.type.kind is Kind.INTEGER:
            step = (a.type.of or UNKNOWN).size * int(b.number or 0)
            return Value(a.type, int(a.number or 0) + (step if op == "+" else -step))
        x, y = self._number(a), self._number(b)
        if op == "/" and y != 0:
            both = isinstance(x, int) and isinstance(y, int)
            return Value(LONG, _quotient(int(x), int(y))) if both else Value(DOUBLE, x / y)
        if op in ("/", "%") and y == 0:
            raise Error("a division by zero", got=f"{x} {op} {y}")
        if op in _WHOLE:
            if not (isinstance(x, int) and isinstance(y, int)) or (op in ("<<", ">>") and y < 0):
                raise Error(f"{op} takes whole numbers", got=f"{x} {op} {y}")
            return Value(LONG, _WHOLE[op](x, min(y, 64) if op in ("<<", ">>") else y))
        result = _PLAIN[op](x, y)
        if op in ("+", "-", "*"):
            return Value(LONG if isinstance(result, int) else DOUBLE, result)
        return Value(INT, int(result))


def _of_register(kind: str) -> Type:
    """The type by which a register of PTX is shown."""
    if kind == "pred":
        return BASIC["bool"]
    if kind in ("f16", "f32", "f64"):
        return {"f16": BASIC["half"], "f32": BASIC["float"], "f64": DOUBLE}[kind]
    return Type(Kind.INTEGER, kind, SIZES[kind], signed=kind[0] in "sb")


def _without_place(variable: Variable, frame: Frame) -> Error:
    where = str(frame.line or f"PTX line {frame.ins.ptx_line}")
    if variable.locations:
        return Error(
            f"{variable.name} has no value here: it is not assigned yet, or not needed any more",
            where=where,
            next="stop at a line that reads it",
        )
    return Error(
        f"{variable.name} has been optimised away",
        where=where,
        next=f"declare it volatile, which keeps it: volatile {variable.type.name} {variable.name}",
    )
