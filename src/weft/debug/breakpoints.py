"""Breakpoints: a line of a kernel, with a condition, a thread and a block."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.device.sim.tools.debugger.expressions import Binary, Member, Name, Node, Number, parse
from weft.device.sim.tools.debugger.source_map import SourceMap
from weft.errors import Error

Index3 = tuple[int, int, int]
_numbers = itertools.count(1)


@dataclass(eq=False)
class Breakpoint:
    """A breakpoint. `weft.breakpoint` returns one; `delete` removes it, as the end of `with` does.

    line       the line; None for the first line of the kernel
    condition  a C++ expression over variables that are visible at the line
    thread     `threadIdx` of the only thread that stops
    block      `blockIdx` of the only block that stops
    hits       how often it has stopped a launch

    >>> stop = weft.breakpoint(module.scale, line=4, thread=2, on_stop=lambda debugger: None)
    >>> module.scale[1, 32](x, 1.0, 4)
    >>> stop.delete()
    >>> print(stop.line, stop.thread, stop.hits)
    4 (2, 0, 0) 1
    """

    line: int | None = None
    condition: str = ""
    thread: Index3 | None = None
    block: Index3 | None = None
    file: str | None = None
    on_stop: Callable[[Any], Any] | None = None
    number: int = 0
    hits: int = 0
    anywhere: bool = False
    """Kernels without code at the line are none of its business."""
    locate: Callable[[SourceMap], tuple[str, int] | None] | None = None
    """Finds its file and line in the source of a kernel, where `file` is not that source."""
    on_mistake: Callable[[Error], Any] | None = None
    """Called where the condition means nothing at the line, instead of an error of the launch."""
    _remove: Callable[[Breakpoint], None] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.node = self._node()

    def delete(self) -> None:
        """Remove it; launches that follow do not stop."""
        if self._remove is not None:
            self._remove(self)

    def give_number(self) -> None:
        """Give it the next number, when it first belongs to a launch."""
        self.number = self.number or next(_numbers)

    def remove_with(self, remove: Callable[[Breakpoint], None]) -> None:
        """Set the function that `delete` calls."""
        self._remove = remove

    def __enter__(self) -> Breakpoint:
        return self

    def __exit__(self, *error: object) -> None:
        self.delete()

    def _node(self) -> Node | None:
        """The condition with the thread and the block."""
        parts: list[Node] = []
        for name, index in (("blockIdx", self.block), ("threadIdx", self.thread)):
            for axis, value in zip("xyz", index or (), strict=False):
                parts.append(Binary("==", Member(Name(name), axis), Number(value)))
        if self.condition.strip():
            parts.append(parse(self.condition))
        node = parts[0] if parts else None
        for part in parts[1:]:
            assert node is not None
            node = Binary("&&", node, part)
        return node

    def concerns(self, source: SourceMap) -> bool:
        """Return whether it may stop this kernel."""
        return not self.anywhere or self.line is None or bool(self._stops(source))

    def _stops(self, source: SourceMap) -> list[int]:
        assert self.line is not None
        if self.locate is None:
            return source.stops(self.line, self.file)
        found = self.locate(source)
        return [] if found is None else source.stops(found[1], found[0])

    def places(self, source: SourceMap) -> list[int]:
        """The instructions at which it stops; raise for a line without code."""
        if self.line is None:
            return source.starts[:1] or [0]
        found = self._stops(source)
        if found:
            return found
        raise no_code(source, self.line, self.file)

    @property
    def place(self) -> str:
        """Its line as text."""
        return f"line {self.line}" if self.line is not None else "the first line"

    def __str__(self) -> str:
        parts = [self.place]
        parts += [f"if {self.condition}"] if self.condition else []
        parts += [f"block {self.block}"] if self.block is not None else []
        parts += [f"thread {self.thread}"] if self.thread is not None else []
        return f"breakpoint {self.number}: {', '.join(parts)}"


def no_code(source: SourceMap, line: int, file: str | None = None) -> Error:
    """The error for a line at which nothing can stop; it names the next one that has code."""
    lines = source.lines(file)
    if not lines:
        known = bool(source.lines())
        return Error(
            f"no code of the kernel is in {file}"
            if known
            else "the kernel has no line information",
            got=f"line {line}",
            next=f"use the file {source.file}" if known else "compile the source with weft.cuda",
        )
    name = file or source.file
    later = [x for x in lines if x > line]
    quote = source.quote(name, later[0]).strip() if later else ""
    hint = f"the next line with code is {later[0]}: {quote}" if later else ""
    return Error(
        f"line {line} of {name} has no code of this kernel",
        got=source.quote(name, line).strip() or f"line {line}",
        allowed=f"{lines[0]} to {lines[-1]}",
        next=hint or f"the last line with code is {lines[-1]}",
    )


def index3(what: str, value: Any) -> Index3 | None:
    """A thread or a block: a number, or up to three; raise Error for anything else."""
    if value is None:
        return None
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    whole = all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in items)
    if not whole or not 1 <= len(items) <= 3:
        raise Error(
            f"{what} has one to three numbers", got=repr(value), allowed="5, (5,) or (5, 0, 0)"
        )
    x, y, z = (*items, 0, 0)[:3]
    return x, y, z
