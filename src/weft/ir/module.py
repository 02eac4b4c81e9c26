"""The text of functions and of their module."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.value import Val

# LLVM prefers 256-bit vectors on many processors with AVX-512: ask for whole registers.
_WIDE = '"min-legal-vector-width"="512" "prefer-vector-width"="512"'


class IrFunction:
    """The text of one function under construction."""

    def __init__(self, name: str, params: Sequence[Val], ret: str, attrs: str) -> None:
        self.name, self.params, self.ret, self.attrs = name, params, ret, attrs
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.count = 0

    def text(self) -> str:
        args = ", ".join(f"{p.type} {p.ref}" for p in self.params)
        head = f"define internal {self.ret} @{self.name}({args}) {self.attrs} {{\nentry:"
        return "\n".join([head, *self.entry, *self.lines, "}"])


class IrModule:
    """All functions, declarations and constants of one compilation."""

    def __init__(self) -> None:
        self.functions: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.globals: dict[str, str] = {}
        self.extra: list[str] = []

    def text(self) -> str:
        parts = [*self.globals.values(), *self.functions.values()]
        parts += [self.declarations[k] for k in sorted(self.declarations)]
        parts += self.extra
        parts.append(f"attributes #0 = {{ nounwind noinline {_WIDE} }}")
        parts.append(f"attributes #1 = {{ nounwind alwaysinline {_WIDE} }}")
        parts.append(f"attributes #2 = {{ nounwind noinline cold {_WIDE} }}")
        parts.append(f"attributes #3 = {{ nounwind noinline strictfp {_WIDE} }}")
        parts.append("attributes #4 = { strictfp }")
        parts.append(f"attributes #5 = {{ nounwind noinline willreturn memory(none) {_WIDE} }}")
        parts.append('!0 = !{!"branch_weights", i32 1, i32 2000}')
        parts.append("!1 = !{}")
        parts.append('!2 = !{!"branch_weights", i32 2000, i32 1}')
        return "\n".join(parts)
