"""The statements of a program as lines of C++: of one thread, of a device, of a whole block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.fuzz.collectives import COLLECTIVES
from weft.fuzz.expressions import text
from weft.fuzz.nodes import Node

_TOGETHER = ("collective", "uniform_for", "block")
"""Statements that the host does not run thread by thread, or that may have such inside."""


class Statements:
    """The statements of one thread."""

    def __init__(self) -> None:
        self.loops = 0

    def lines(self, node: Node, depth: int) -> Iterator[str]:
        yield from getattr(self, f"_{node.op}")(node, depth)

    def _block(self, node: Node, depth: int) -> Iterator[str]:
        for kid in node.kids:
            yield from self.lines(kid, depth)

    def _assign(self, node: Node, depth: int) -> Iterator[str]:
        yield f"{'    ' * depth}{node.value} = {text(node.kids[0])};"

    def _store(self, node: Node, depth: int) -> Iterator[str]:
        name, length = node.value
        yield f"{'    ' * depth}{name}[{text(node.kids[0])} & {length - 1}] = {text(node.kids[1])};"

    def _call_by_reference(self, node: Node, depth: int) -> Iterator[str]:
        name, target, result = node.value
        args = ", ".join([target, *(text(kid) for kid in node.kids)])
        yield f"{'    ' * depth}{f'{result} = ' if result else ''}{name}({args});"

    def _if(self, node: Node, depth: int) -> Iterator[str]:
        yield f"{'    ' * depth}if ({text(node.kids[0])}) {{"
        yield from self.lines(node.kids[1], depth + 1)
        if node.kids[2].kids:
            yield f"{'    ' * depth}}} else {{"
            yield from self.lines(node.kids[2], depth + 1)
        yield f"{'    ' * depth}}}"

    def _for(self, node: Node, depth: int) -> Iterator[str]:
        """A counted loop; its bound is evaluated before every step but stays below `most`."""
        counter, most = node.value
        bound = f"{counter} < (i32)({text(node.kids[0])} & {most})"
        yield f"{'    ' * depth}for ({counter} = 0; {bound}; {counter}++) {{"
        yield from self._inside(node.kids[1], depth)

    def _repeat(self, node: Node, depth: int) -> Iterator[str]:
        """do … while: `counter` counts the steps, so that it ends."""
        counter, most = node.value
        yield f"{'    ' * depth}{counter} = 0;"
        yield f"{'    ' * depth}do {{"
        *inner, _ = self._inside(node.kids[1], depth)
        yield from inner
        yield f"{'    ' * depth}}} while (++{counter} < {most} && {text(node.kids[0])});"

    def _inside(self, body: Node, depth: int) -> Iterator[str]:
        self.loops += 1
        yield from self.lines(body, depth + 1)
        self.loops -= 1
        yield f"{'    ' * depth}}}"

    def _leave(self, node: Node, depth: int) -> Iterator[str]:
        """`break` or `continue`; nothing where a smaller program has no loop around it any more."""
        if self.loops:
            yield f"{'    ' * depth}if ({text(node.kids[0])}) {node.value};"

    def _switch(self, node: Node, depth: int) -> Iterator[str]:
        """Cases 0, 1, …, the last is the default; `value` says which of them fall through."""
        cases, outer = node.kids[1:], self.loops
        yield f"{'    ' * depth}switch ({text(node.kids[0])} & 7) {{"
        self.loops = 0  # a `break` would leave the switch, not the loop
        for i, case in enumerate(cases):
            label = "default" if i == len(cases) - 1 else f"case {i}"
            yield f"{'    ' * depth}{label}: {{"
            yield from self.lines(case, depth + 1)
            yield f"{'    ' * depth}}}{'' if node.value[i] else ' break;'}"
        self.loops = outer
        yield f"{'    ' * depth}}}"


class DeviceBody(Statements):
    """With the operations of the warp and block as CUDA has them."""

    def _uniform_for(self, node: Node, depth: int) -> Iterator[str]:
        counter, count = node.value
        yield f"{'    ' * depth}for ({counter} = 0; {counter} < {count}; {counter}++) {{"
        yield from self.lines(node.kids[0], depth + 1)
        yield f"{'    ' * depth}}}"

    def _collective(self, node: Node, depth: int) -> Iterator[str]:
        name, kind, target, width = node.value
        row, (cond, x, k) = COLLECTIVES[name], (text(kid) for kid in node.kids)
        call = row.device.format(T=kind, x=x, k=k, d=target, width=width)
        if row.masked:
            yield (
                f"{'    ' * depth}{{ const bool in = {cond}; "
                f"const u32 mask = __ballot_sync(full, in); if (in) {{ {call} }} }}"
            )
        else:
            yield f"{'    ' * depth}{{ const u32 mask = full; (void)mask; {call} }}"


class HostBody(Statements):
    """With all threads of the block in turn between two operations of the warp or block."""

    def __init__(self, each: str) -> None:
        super().__init__()
        self.each = each

    def _block(self, node: Node, depth: int) -> Iterator[str]:
        if depth:  # inside a segment
            yield from super()._block(node, depth)
            return
        pending: list[Node] = []
        for kid in node.kids:
            if kid.op in _TOGETHER:
                yield from self._segment(pending)
                pending = []
                yield from self.lines(kid, 0)
            else:
                pending.append(kid)
        yield from self._segment(pending)

    def _segment(self, statements: Sequence[Node]) -> Iterator[str]:
        if statements:
            yield self.each
            for statement in statements:
                yield from self.lines(statement, 1)
            yield "}"

    def _uniform_for(self, node: Node, depth: int) -> Iterator[str]:
        counter, count = node.value
        yield f"for (i32 step = 0; step <= {count}; step++) {{ {self.each} {counter} = step; }}"
        yield f"if (step == {count}) break;"
        yield from self.lines(node.kids[0], 0)
        yield "}"

    def _collective(self, node: Node, depth: int) -> Iterator[str]:
        name, kind, target, width = node.value
        row, (cond, x, k) = COLLECTIVES[name], (text(kid) for kid in node.kids)
        yield f"{{ static {kind} X[threads]; static u32 K[threads], IN[threads];"
        taking = cond if row.masked else "1"
        yield f"{self.each} IN[t] = {taking}; X[t] = {x}; K[t] = {k}; }}"
        call = row.host.format(T=kind, width=width)
        yield f"{self.each} if (IN[t]) {target} = {call}; }} }}"
