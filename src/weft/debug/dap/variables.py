"""Variables of a stopped launch for an editor: scopes, and values that unfold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.debug.dap.messages import Message
from weft.debug.debugger import Debugger
from weft.device.base import Dim3
from weft.device.sim.tools.debugger.evaluate import BUILT_IN
from weft.device.sim.tools.debugger.values import Value
from weft.errors import Error
from weft.ptx.debug_info import Kind

SCOPES = ("Locals", "Registers", "Shared memory", "Launch")
PAGE = 100
"""Elements of an array that are sent, unless the editor asks for a range."""


@dataclass(frozen=True)
class FrameRef:
    """A frame of a thread of the stopped block."""

    thread: Dim3
    number: int


@dataclass(frozen=True)
class _Scope:
    frame: FrameRef
    name: str


@dataclass(frozen=True)
class _Parts:
    """A value that unfolds, and the expression that stands for it."""

    frame: FrameRef
    value: Value
    expression: str


class Variables:
    """Numbers that an editor uses for frames, scopes and values until the launch goes on."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self._block = debugger.block
        self._frames: list[FrameRef] = []
        self._holders: list[_Scope | _Parts] = []

    # ---- numbers ----------------------------------------------------------------------------
    def frame_id(self, frame: FrameRef) -> int:
        """The number of a frame."""
        if frame not in self._frames:
            self._frames.append(frame)
        return self._frames.index(frame) + 1

    def look_at(self, number: int) -> FrameRef:
        """Direct the focus of the debugger to a frame by its number."""
        if not 1 <= number <= len(self._frames):
            raise Error("no such frame: the launch has gone on", got=str(number))
        return self._select(self._frames[number - 1])

    def _select(self, frame: FrameRef) -> FrameRef:
        self.debugger.select(frame.thread, self._block)
        self.debugger.select_frame(frame.number)
        return frame

    def _holder(self, reference: int) -> _Scope | _Parts:
        if not 1 <= reference <= len(self._holders):
            raise Error("no such variables: the launch has gone on", got=str(reference))
        holder = self._holders[reference - 1]
        self._select(holder.frame)
        return holder

    def _reference(self, holder: _Scope | _Parts) -> int:
        self._holders.append(holder)
        return len(self._holders)

    # ---- answers ----------------------------------------------------------------------------
    def scopes(self, frame_id: int) -> list[Message]:
        """The scopes of a frame."""
        frame = self.look_at(frame_id)
        return [
            {
                "name": name,
                "variablesReference": self._reference(_Scope(frame, name)),
                "expensive": name == "Registers",
                **({"presentationHint": name.lower()} if name in SCOPES[:2] else {}),
            }
            for name in SCOPES
        ]

    def children(self, reference: int, start: int = 0, count: int = 0) -> list[Message]:
        """The variables of a scope, or the parts of a value."""
        holder = self._holder(reference)
        if isinstance(holder, _Scope):
            return list(self._in_scope(holder))
        return [
            self.shown(holder.frame, name, value, expression)
            for name, value, expression in self._parts(holder, start, count or PAGE)
        ]

    def shown(
        self, frame: FrameRef, name: str, value: Value | Error, expression: str = ""
    ) -> Message:
        """A variable of the protocol."""
        if isinstance(value, Error):
            return {"name": name, "value": value.what, "variablesReference": 0}
        held = self._length(value) or bool(value.type.fields)
        parts: Message = {"variablesReference": 0}
        if held:
            parts["variablesReference"] = self._reference(_Parts(frame, value, expression))
        if length := self._length(value):
            parts["indexedVariables"] = length
        evaluate = {"evaluateName": expression} if expression else {}
        return {"name": name, "value": str(value), "type": value.type.name, **parts, **evaluate}

    def expression(self, reference: int, name: str) -> str:
        """The expression of a variable, by the holder that it was listed in."""
        holder = self._holder(reference)
        if isinstance(holder, _Scope):
            return name
        return f"{holder.expression}{name if name.startswith('[') else '.' + name}"

    # ---- scopes -----------------------------------------------------------------------------
    def _in_scope(self, scope: _Scope) -> Iterator[Message]:
        d = self.debugger
        if scope.name == "Launch":
            for name, text in self._launch():
                yield {"name": name, "value": text, "variablesReference": 0}
            return
        if scope.name == "Registers":
            for name, value in d.registers().items():
                yield self.shown(scope.frame, name, value, name)
            return
        shared = scope.name == "Shared memory"
        for name, found in d.variables().items():
            if (name in d.source.shared) == shared:
                yield self.shown(scope.frame, name, found, name)

    def _launch(self) -> Iterator[tuple[str, str]]:
        d = self.debugger
        yield "kernel", d.kernel
        for name in BUILT_IN:
            yield name, "(" + ", ".join(str(d.value(f"{name}.{axis}")) for axis in "xyz") + ")"
        yield "warp, lane", f"{d.focus.warp}, {d.focus.lane}"
        for view in d.warps():
            if view.block == self._block:
                yield f"warp {view.warp}", f"{view.state}, active lanes {view.active:08x}"

    # ---- parts ------------------------------------------------------------------------------
    def _length(self, value: Value) -> int:
        """The elements of an array, or those from a pointer to the end of its allocation."""
        inner = value.type.of
        if inner is None or not inner.size:
            return 0
        if value.type.kind is Kind.ARRAY:
            return value.type.count
        at = int(value.number or 0)
        return self.debugger.state.room(self.debugger.focus, at) // inner.size

    def _parts(self, of: _Parts, start: int, count: int) -> Iterator[tuple[str, Value, str]]:
        d, value, inner = self.debugger, of.value, of.value.type.of
        for field in value.type.fields:
            expression = f"{of.expression}.{field.name}"
            yield field.name, d.value(expression), expression
        if inner is None:
            return
        first = value.number if value.type.kind is Kind.POINTER else value.address
        for i in range(start, min(start + count, self._length(value))):
            expression = f"{of.expression}[{i}]"
            if first is None:
                yield f"[{i}]", d.value(expression), expression
            else:
                address = int(first) + i * inner.size
                yield f"[{i}]", d.names.load(inner, address, d.focus), expression
