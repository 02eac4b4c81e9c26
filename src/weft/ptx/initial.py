"""Initialisers of variables: `= {1, {2, 3}, 0f3F800000, generic(x)+8, 0xFF(f)}` as bytes."""

from __future__ import annotations

import re
import struct
from itertools import repeat

from weft.errors import PtxError
from weft.ptx.lexer import NAME, brief
from weft.ptx.literals import literal
from weft.ptx.model import SIZES, FloatImm, Imm

Relocation = tuple[int, str, int, bool]
"""Byte offset, symbol, addend, whether the generic address is meant."""

MAX_BYTES = 1 << 26
_FORMATS = {"f32": "<f", "f64": "<d"}
_PLAIN_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]{0,19})", re.A)
_PLAIN = re.compile(r"\{[-0-9,\s]*\}", re.A)
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
_INTEGERS = frozenset(name for name, size in SIZES.items() if name[0] in "bus" and size in _CODES)
_PIECE = re.compile(r"[{},]|[^{},]+")
_OFFSET = r"(?:([-+])\s*([0-9]\w{0,20}))?"
_SYMBOL = re.compile(rf"(generic\s*\(\s*)?({NAME})\s*{_OFFSET}\s*(?(1)\))\s*{_OFFSET}", re.A)
_MASKED = re.compile(r"(0[xX][0-9a-fA-F]{2,16})\s*\(([^()]*(?:\([^()]*\)[^()]*)?)\)", re.A)
_ALLOWED = "literals, symbol+8, generic(symbol), 0xFF(symbol) and nested { }"


def initial(
    text: str, type: str, shape: tuple[int | None, ...]
) -> tuple[bytes, tuple[Relocation, ...]]:
    """The initial bytes (up to the last one that is given) and the addresses among them.

    `shape` is the extents of the array, the outermost None where the initialiser decides it.
    """
    text = text.strip()
    # Scalars and flat tables of integers skip the general reader, which takes one value at a time.
    if not shape and type in _INTEGERS and _PLAIN_SCALAR.fullmatch(text):
        return _little_endian(int(text), SIZES[type]), ()
    if len(shape) == 1 and type in _INTEGERS and _PLAIN.fullmatch(text):
        plain = _plain(text, SIZES[type], shape[0])
        if plain is not None:
            return plain, ()
    filler = _Filler(type, shape)
    filler.fill(text)
    return bytes(filler.data), tuple(filler.relocations)


def _plain(text: str, size: int, extent: int | None) -> bytes | None:
    """A flat list of decimal integers at the speed of the built-ins; None where it is not one.

    Tables of random number generators have 100,000 values. Base 0 refuses octal `010`.
    """
    code = _CODES[size].lower() if "-" in text else _CODES[size]
    try:
        values = list(map(int, text[1:-1].split(","), repeat(0)))
        if extent is None or len(values) <= extent:
            return struct.pack(f"<{len(values)}{code}", *values)
    except (ValueError, struct.error):
        return None
    return None


def _little_endian(value: int, size: int) -> bytes:
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _too_many(extent: object) -> PtxError:
    return PtxError("an initialiser has too many values", allowed=f"at most {extent}")


class _Filler:
    """Writes the values of one initialiser, brace by brace, at their offsets."""

    def __init__(self, type: str, shape: tuple[int | None, ...]) -> None:
        self.type, self.size = type, SIZES[type]
        self.spans = _spans(shape or (1,), self.size)
        self.data = bytearray()
        self.relocations: list[Relocation] = []
        self.masked_bytes = 0  # of the address that 0xFF(f), 0xFF00(f), ... is spelling

    def fill(self, text: str) -> None:
        offset, starts, ready, ended = 0, list[int](), True, False
        for found in _PIECE.finditer(text):
            piece = found.group().strip()
            if not piece:
                continue
            if ended or ((piece == ",") == ready and piece != "}"):
                raise self._refused(piece)
            if piece == "{":
                if len(starts) == len(self.spans):
                    raise PtxError(
                        "an initialiser is nested too deep",
                        got=brief(text),
                        allowed=f"{len(self.spans)} levels",
                    )
                starts.append(offset)
            elif piece == "}":
                if not starts:
                    raise self._refused(piece)
                offset = max(offset, min(starts.pop() + self.spans[len(starts)], MAX_BYTES))
            elif piece != ",":
                end = starts[-1] + self.spans[len(starts) - 1] if starts else self.spans[0]
                if offset + self.size > end:
                    raise _too_many((end - (starts[-1] if starts else 0)) // self.size)
                self._put(piece, offset)
                offset += self.size
            ready = piece in "{,"
            ended = not ready and not starts
        if starts or not ended:
            raise self._refused("end of the initialiser")
        self._end_of_address()

    def _refused(self, piece: str) -> PtxError:
        return PtxError("an initialiser is not well formed", got=brief(piece), allowed=_ALLOWED)

    def _put(self, piece: str, offset: int) -> None:
        if offset + self.size > MAX_BYTES:
            raise PtxError("an initialiser is too large", allowed=f"at most {MAX_BYTES} bytes")
        # Elements that inner braces leave out are zero.
        self.data.extend(bytes(offset - len(self.data)))
        piece = " ".join(piece.split())  # the patterns below are slow on long runs of blanks
        masked = _MASKED.fullmatch(piece)
        symbol = _SYMBOL.fullmatch(masked.group(2).strip() if masked else piece)
        if symbol is None:
            self._end_of_address()
            self.data += self._value(piece)
        else:
            self._put_symbol(symbol, int(masked.group(1), 16) if masked else None, piece, offset)

    def _put_symbol(self, symbol: re.Match[str], mask: int | None, piece: str, offset: int) -> None:
        generic, name, sign, amount, sign2, amount2 = symbol.groups()
        addend = _signed(sign, amount) + _signed(sign2, amount2)
        relocation = (offset - self.masked_bytes, name, addend, bool(generic))
        if mask is None:
            self._end_of_address()
            if self.size not in (4, 8):
                raise PtxError(
                    "an address needs 4 or 8 bytes",
                    got=brief(piece),
                    allowed=f"0xFF({name}), 0xFF00({name}), ... byte by byte",
                )
            relocation = (offset, name, addend, bool(generic))
        elif (
            # The eight bytes of an address must follow each other, the lowest first.
            mask != 0xFF << (8 * self.masked_bytes)
            or self.size != 1
            or (self.masked_bytes and self.relocations[-1] != relocation)
        ):
            raise self._refused(piece)
        if mask is None or self.masked_bytes == 0:
            self.relocations.append(relocation)
        if mask is not None:
            self.masked_bytes = (self.masked_bytes + 1) % 8
        self.data += bytes(self.size)

    def _end_of_address(self) -> None:
        if self.masked_bytes:
            raise PtxError(
                "an address is given in part",
                got=f"{self.masked_bytes} bytes of it",
                allowed="all eight bytes, 0xFF(f) to 0xFF00000000000000(f)",
            )

    def _value(self, piece: str) -> bytes:
        value = literal(piece)
        if isinstance(value, Imm) and self.type not in _FORMATS:
            return _little_endian(value.value, self.size)
        if isinstance(value, FloatImm) and value.width == 8 * self.size:
            if self.type[0] in "fb":
                return value.bits.to_bytes(self.size, "little")
        elif self.type in _FORMATS:
            return _packed(_as_float(value), _FORMATS[self.type])
        raise PtxError(f"a value does not fit a variable of type .{self.type}", got=brief(piece))


def _signed(sign: str | None, amount: str | None) -> int:
    if amount is None:
        return 0
    value = literal(amount)
    if not isinstance(value, Imm):
        raise PtxError("an offset is not an integer", got=brief(amount), allowed="symbol+8")
    return -value.value if sign == "-" else value.value


def _spans(shape: tuple[int | None, ...], size: int) -> list[int]:
    """Bytes of what each level of braces holds, the outermost first."""
    spans = [size]
    for extent in reversed(shape):
        spans.append(spans[-1] * extent if extent is not None else MAX_BYTES)
    return spans[:0:-1]


def _as_float(value: Imm | FloatImm) -> float:
    if isinstance(value, Imm):
        return float(value.value)
    size, layout = value.width // 8, _FORMATS[f"f{value.width}"]
    number: float = struct.unpack(layout, value.bits.to_bytes(size, "little"))[0]
    return number


def _packed(value: float, layout: str) -> bytes:
    try:
        return struct.pack(layout, value)
    except OverflowError:  # what lies outside f32 becomes infinite, as rounding to nearest does
        return struct.pack(layout, float("inf") if value > 0 else float("-inf"))
