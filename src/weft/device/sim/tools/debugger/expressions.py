"""Parses C++ expressions of a debugger: names, numbers, operators, members, elements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from weft.errors import Error

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fFuUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    r"|(?P<op>->|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>()\[\].=]))"
)
_REGISTER = re.compile(r"\s*([%$][A-Za-z_]\w*)")
_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_PREFIX = ("-", "+", "!", "~", "*", "&")
_MOST_DEEP = 64


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: int | float


@dataclass(frozen=True)
class Name:
    """A variable, or a register of PTX if it begins with %."""

    name: str


@dataclass(frozen=True)
class Unary:
    """A prefix operator."""

    op: str
    of: Node


@dataclass(frozen=True)
class Binary:
    """An operator between two operands."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Index:
    """`of[index]`."""

    of: Node
    index: Node


@dataclass(frozen=True)
class Member:
    """`of.name`; `of->name` has a dereference inside."""

    of: Node
    name: str


Node: TypeAlias = Number | Name | Unary | Binary | Index | Member


def parse(text: str) -> Node:
    """Parse an expression; raise Error at the place of a mistake."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.start, self.kind, self.token = 0, "", ""
        self._advance(operand=True)

    def run(self) -> Node:
        node = self._level(0)
        if self.kind:
            hint = "compare with ==" if self.token == "=" else ""
            raise self._wrong(f"'{self.token}' is not expected", hint)
        return node

    def _wrong(self, what: str, hint: str = "") -> Error:
        mark = " " * self.start + "^"
        return Error(
            f"the expression cannot be read: {what}",
            got=f"{self.text}\n     {mark}",
            next=hint or "write it in C++: i == 37 && acc > 1.5f, p->x, tile[3][k]",
        )

    def _advance(self, *, operand: bool = False) -> None:
        """Read the next token; where an operand is due, % begins a register."""
        rest = self.text[self.at :]
        self.start = self.at + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self.kind = self.token = ""
            return
        register = _REGISTER.match(self.text, self.at) if operand else None
        if register is not None:
            self.kind, self.token, self.at = "name", register.group(1), register.end()
            return
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise self._wrong(f"'{self.text[self.start]}' is no part of an expression")
        self.kind, self.token = found.lastgroup or "", found.group(found.lastgroup or 0)
        self.at = found.end()

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        node = self._level(level + 1)
        while self.kind == "op" and self.token in _LEVELS[level]:
            op = self.token
            self._advance(operand=True)
            node = Binary(op, node, self._level(level + 1))
        return node

    def _unary(self) -> Node:
        self.depth += 1
        if self.depth > _MOST_DEEP:
            raise self._wrong("it is nested too deep")
        if self.kind == "op" and self.token in _PREFIX:
            op = self.token
            self._advance(operand=True)
            node: Node = Unary(op, self._unary())
        else:
            node = self._postfix()
        self.depth -= 1
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        while self.kind == "op" and self.token in ("[", ".", "->"):
            op = self.token
            self._advance(operand=op == "[")
            if op == "[":
                index = self._level(0)
                self._expect("]")
                node = Index(node, index)
                continue
            if self.kind != "name":
                raise self._wrong(f"a name of a member is missing after '{op}'")
            node = Member(Unary("*", node) if op == "->" else node, self.token)
            self._advance()
        return node

    def _primary(self) -> Node:
        kind, token = self.kind, self.token
        if kind == "number":
            node: Node = Number(_number(token))
        elif kind == "name":
            words = {"true": 1, "false": 0, "nullptr": 0}
            node = Number(words[token]) if token in words else Name(token.replace("$", "%"))
        elif token == "(":
            self._advance(operand=True)
            node = self._level(0)
            self._expect(")")
            return node
        else:
            raise self._wrong(f"'{token}' is not expected" if token else "it ends too early")
        self._advance()
        return node

    def _expect(self, token: str) -> None:
        if self.token != token:
            raise self._wrong(f"'{token}' is missing")
        self._advance()


def _number(text: str) -> int | float:
    if text[:2] in ("0x", "0X"):
        return int(text.rstrip("uUlL"), 16)
    digits = text.rstrip("fFuUlL")
    if any(c in digits for c in ".eE") or text[-1] in "fF":
        return float(digits)
    octal = len(digits) > 1 and digits[0] == "0" and not set(digits) & set("89")
    return int(digits, 8) if octal else int(digits)
