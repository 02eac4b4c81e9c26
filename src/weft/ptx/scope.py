"""Names in nested `{ }` scopes: the meaning of a register, variable or label at its use."""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.errors import PtxError
from weft.ptx.lexer import NAME, brief
from weft.ptx.model import Operand, PtxFunction, Reg, Sym, Vec

# Limits far above what compilers write: they bound the work that hostile text can cause.
MAX_REGISTERS = 1 << 20
MAX_DEPTH = 64
COMPONENTS = {"x": "x", "y": "y", "z": "z", "w": "w", "r": "x", "g": "y", "b": "z", "a": "w"}
"""Spellings of the elements of a vector register."""

# Starting only where a word starts keeps the scan linear in the length of a name.
_BRACE_OR_LABEL = re.compile(rf"([{{}}])|(?<![\w$%:.])({NAME})\s*:(?!:)", re.A)


class Scope:
    """The names that one `{ }` declares. Inner scopes give their names the suffix `.n`.

    A dot cannot stand in an identifier of PTX, so a suffixed name never meets another one.
    `PtxFunction.registers` receives a register when it is first used, not when it is declared:
    compilers declare ranges that are far larger than what remains in use. `outside` collects,
    for the whole function, the names that no scope has: its own labels and the module's names.
    """

    def __init__(
        self, function: PtxFunction, parent: Scope | None = None, suffix: str = ""
    ) -> None:
        self.function, self.parent, self.suffix = function, parent, suffix
        self.depth: int = parent.depth + 1 if parent else 0
        self.registers: dict[str, str] = {}
        self.vectors: dict[str, tuple[str, int]] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.symbols: dict[str, str] = {}
        self.memo: dict[str, Operand] = {}
        self.outside: set[str] = parent.outside if parent else set()
        if self.depth > MAX_DEPTH:
            raise PtxError("scopes are nested too deep", allowed=f"at most {MAX_DEPTH} levels")

    def add_labels(self, names: list[str]) -> None:
        """Note the labels of this scope when it opens: they may be used before they stand."""
        self.symbols.update((name, name + self.suffix) for name in names)

    def declare(self, name: str) -> str:
        """Take `name` for a variable or a parameter; gives the name it has in the function."""
        self._claim(name)
        self.symbols[name] = name + self.suffix
        return name + self.suffix

    def declare_register(self, name: str, type: str, lanes: int, count: int | None) -> None:
        """Take `name`, or `name0 .. name(count-1)`, for registers."""
        if count is None:
            self._claim(name)
        else:
            self._claim_range(name)
        if lanes:
            self.vectors[name] = (type, lanes)
        elif count is None:
            self.registers[name] = type
        elif name[-1].isdigit():  # `%r1<4>` is %r10 to %r13: a range could not tell where it ends
            self.registers.update((f"{name}{i}", type) for i in range(count))
        else:
            self.ranges[name] = (count, type)

    def _claim(self, name: str) -> None:
        taken: tuple[Mapping[str, object], ...] = (self.registers, self.vectors, self.symbols)
        self._is_new(name, any(name in names for names in taken))

    def _claim_range(self, name: str) -> None:
        """`a<2>` is a0 and a1: a register `a` may stand beside it."""
        self._is_new(name, name in self.ranges)

    def _is_new(self, name: str, taken: bool) -> None:
        # A remembered operand may mean an outer name that this declaration hides.
        self.memo.clear()
        if taken:
            raise PtxError("declared twice in one scope", got=brief(name))

    def find(self, name: str) -> Operand | None:
        """The meaning of `name` here, searched outwards; None if nothing of the function has it."""
        prefix, number = _split_number(name)
        scope: Scope | None = self
        while scope is not None:
            if name in scope.registers:
                return scope.use(name, scope.registers[name])
            if prefix in scope.ranges:
                count, type = scope.ranges[prefix]
                if number < count:
                    return scope.use(name, type)
            if name in scope.symbols:
                return Sym(scope.symbols[name])
            if name in scope.vectors:
                type, lanes = scope.vectors[name]
                return Vec(tuple(scope.element(name, lane, type) for lane in "xyzw"[:lanes]))
            scope = scope.parent
        return None

    def find_element(self, name: str, element: str) -> Reg | None:
        """`v.x` of a vector register."""
        scope: Scope | None = self
        while scope is not None and name not in scope.vectors:
            scope = scope.parent
        if scope is None or element not in COMPONENTS:
            return None
        type, lanes = scope.vectors[name]
        lane = COMPONENTS[element]
        return scope.element(name, lane, type) if lane in "xyzw"[:lanes] else None

    def element(self, name: str, lane: str, type: str) -> Reg:
        unique = f"{name}{self.suffix}.{lane}"
        self.function.registers[unique] = type
        return Reg(unique)

    def use(self, name: str, type: str) -> Reg:
        unique = name + self.suffix
        self.function.registers[unique] = type
        return Reg(unique)


def _split_number(name: str) -> tuple[str, int]:
    """`%r12` as `%r` and 12; a number of a range is written without leading zeros."""
    prefix = name.rstrip("0123456789")
    digits = name[len(prefix) :]
    # Seven digits hold every number up to MAX_REGISTERS; longer runs are not converted.
    if not digits or len(digits) > 7 or (digits[0] == "0" and digits != "0"):
        return "", 0
    return prefix, int(digits)


def labels_within(text: str, pos: int) -> dict[int, list[str]]:
    """The labels of the scope whose `{` ends at `pos` and of all scopes in it, by that position.

    One pass for all of them: nested scopes must not be read again at each level.
    """
    found: dict[int, list[str]] = {}
    open_scopes = [pos]
    for mark in _BRACE_OR_LABEL.finditer(text, pos):
        brace, label = mark.groups()
        if label:
            found.setdefault(open_scopes[-1], []).append(label)
        elif brace == "{":
            open_scopes.append(mark.end())
        else:
            open_scopes.pop()
            if not open_scopes:
                break
    return found
