"""Literals and constant expressions of PTX, folded to one immediate operand."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable

from weft.errors import PtxError
from weft.ptx.lexer import brief
from weft.ptx.model import FloatImm, Imm

# Digits are counted: int() of an unbounded run of digits is slow, then refused by Python.
_INTEGER = r"(?:0[xX][0-9a-fA-F]{1,32}|0[bB][01]{1,128}|0[0-7]{0,43}|[1-9][0-9]{0,39})U?(?![\w.])"
_SIGNED = re.compile(rf"(-?)({_INTEGER})", re.A)
_BITS = re.compile(r"(-?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))", re.A)
_DECIMAL = re.compile(
    r"-?[0-9]{1,400}(?:\.[0-9]{0,400}(?:[eE][-+]?[0-9]{1,5})?|[eE][-+]?[0-9]{1,5})", re.A
)
_TOKEN = re.compile(
    rf"\s*(?:({_INTEGER})|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|^~!()]|WARP_SZ))", re.A
)
_MAX_TOKENS = 128  # nesting stays far from Python's own recursion limit
_LIMIT = 1 << 64
_ALLOWED = "integers (10, 0x1F, 017, 0b11, 7U), floats (0f3F800000, 0d..., 1.5), (1 << 4)"


def _truncating_divide(a: int, b: int) -> int:
    if b == 0:
        raise PtxError("a constant expression divides by zero")
    # Python rounds a quotient down; PTX, as C, rounds it toward zero.
    return -(-a // b) if (a < 0) != (b < 0) else a // b


_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    # Python refuses a negative amount, and a large one would make a huge integer.
    "<<": (8, lambda a, b: a << b if 0 <= b < 64 else 0),
    ">>": (8, lambda a, b: a >> b if 0 <= b < 64 else 0),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, _truncating_divide),
    "%": (10, lambda a, b: a - b * _truncating_divide(a, b)),
}
"""Operator -> precedence and meaning, on 64-bit integers."""

_UNARY: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": lambda a: int(not a),
}


def literal(text: str) -> Imm | FloatImm:
    """The immediate that `text` spells; raises PtxError (without a place) when it spells none."""
    found = _SIGNED.fullmatch(text)
    if found:
        value = _integer(found.group(2))
        return Imm(_in_range(-value if found.group(1) else value, text))
    return _float(text) or Imm(_in_range(_Expression(text).value(), text))


def _integer(text: str) -> int:
    text = text.rstrip("U")
    # Base 0 of `int` refuses the octal spelling of C, 017.
    if len(text) > 1 and text[0] == "0" and text[1].isdigit():
        return int(text, 8)
    return int(text, 0)


def _in_range(value: int, text: str) -> int:
    # Integer constants of PTX are .s64 or .u64: the range is the union of both.
    if not -(_LIMIT >> 1) <= value < _LIMIT:
        raise PtxError("an integer does not fit in 64 bits", got=brief(text), allowed=_ALLOWED)
    return value


def _float(text: str) -> FloatImm | None:
    found = _BITS.fullmatch(text)
    if found:
        sign, single, double = found.groups()
        width = 32 if single else 64
        # The minus flips the sign bit, so that -0f00000000 is the negative zero and a NaN stays
        # one.
        flip = 1 << (width - 1) if sign else 0
        return FloatImm(int(single or double, 16) ^ flip, width)
    if _DECIMAL.fullmatch(text):
        return FloatImm(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    return None


class _Expression:
    """Precedence climbing over the tokens of a constant integer expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        pos, end = 0, len(text.rstrip())
        while pos < end:
            found = _TOKEN.match(text, pos)
            if found is None or len(self.tokens) >= _MAX_TOKENS:
                raise self._refused()
            self.tokens.append(found.group(1) or found.group(2))
            pos = found.end()
        self.next = 0

    def value(self) -> int:
        result = self._binary(0)
        if self.next != len(self.tokens):
            raise self._refused()
        return result

    def _refused(self) -> PtxError:
        return PtxError("not a number", got=brief(self.text) or "nothing", allowed=_ALLOWED)

    def _take(self) -> str:
        if self.next >= len(self.tokens):
            raise self._refused()
        self.next += 1
        return self.tokens[self.next - 1]

    def _binary(self, floor: int) -> int:
        left = self._unary()
        while self.next < len(self.tokens):
            precedence, apply = _BINARY.get(self.tokens[self.next], (0, operator.add))
            if precedence <= floor:
                break
            self.next += 1
            left = _wrapped(apply(left, self._binary(precedence)))
        return left

    def _unary(self) -> int:
        token = self._take()
        if token in _UNARY:
            return _wrapped(_UNARY[token](self._unary()))
        if token == "(":
            inner = self._binary(0)
            if self._take() != ")":
                raise self._refused()
            return inner
        if token == "WARP_SZ":
            return 32
        if not token[0].isdigit():
            raise self._refused()
        return _in_range(_integer(token), token)


def _wrapped(value: int) -> int:
    """Results keep 64 bits: as signed, unless only the unsigned reading holds the value."""
    if -(_LIMIT >> 1) <= value < _LIMIT:
        return value
    value %= _LIMIT
    return value - _LIMIT if value >= _LIMIT >> 1 else value
