"""Operands of instructions: registers, literals, addresses, vectors, pairs."""

from __future__ import annotations

import re

from weft.errors import PtxError
from weft.ptx.lexer import NAME, brief
from weft.ptx.literals import literal
from weft.ptx.model import Imm, Mem, Not, Operand, Pair, Reg, Sink, Special, Sym, Vec
from weft.ptx.scope import Scope

SPECIALS = frozenset(
    [f"{v}{e}" for v in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid",
                         "cluster_ctaid", "cluster_nctaid") for e in ("", ".x", ".y", ".z")]
    + [f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")]
    + [f"envreg{i}" for i in range(32)]
    + [f"pm{i}" for i in range(8)] + [f"pm{i}_64" for i in range(8)]
    + ["laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "is_explicit_cluster",
       "cluster_ctarank", "cluster_nctarank", "clock", "clock_hi", "clock64", "globaltimer",
       "globaltimer_lo", "globaltimer_hi", "dynamic_smem_size", "total_smem_size",
       "aggr_smem_size", "reserved_smem_offset_begin", "reserved_smem_offset_end",
       "reserved_smem_offset_cap", "reserved_smem_offset_0", "reserved_smem_offset_1",
       "current_graph_exec"]
)  # fmt: skip
"""Special registers, by the manual, without their '%'."""

_MAX_NESTING = 4  # `[map, {x, y}]` is the deepest that PTX has
_SINK = Sink()
_NAMED = re.compile(rf"({NAME})(?:\.(\w+))?(?:\s*([-+]\s*\S.*))?", re.A | re.S)
_PAIR = re.compile(rf"(\{{[^{{}}]*\}}|{NAME}(?:\.\w+)?)\s*\|\s*({NAME})", re.A)
_LITERAL_STARTS = frozenset("0123456789-+~(")
_BRACKET = re.compile(r"[,{}\[\]()]")
_COMMA_INSIDE = re.compile(r"\[[^\[\],]*,")
_ALLOWED = "a register, a literal, a name, [address], {a, b}, d|p, !p or _"


def operands(text: str, scope: Scope) -> tuple[Operand, ...]:
    """The operands that stand in `text`, separated by commas."""
    memo, found = scope.memo, []
    for piece in split(text):
        # The same few operands are repeated all over a body: each spelling is read once a scope.
        operand = memo.get(piece)
        if operand is None:
            spelled = piece.strip()
            operand = memo.get(spelled) or _operand(spelled, scope, 0)
            memo[piece] = memo[spelled] = operand
        # `[texture, {x, y}]` is an address and its coordinates.
        if isinstance(operand, Mem) and isinstance(operand.base, Vec):
            found += [Mem(operand.base.items[0]), *operand.base.items[1:]]
        else:
            found.append(operand)
    return tuple(found)


def split(text: str) -> list[str]:
    """`text` cut at the commas that stand outside every bracket."""
    # Few instructions have a comma inside brackets; for the others `str.split` is enough.
    if not ("{" in text or "(" in text or ("[" in text and _COMMA_INSIDE.search(text))):
        return text.split(",")
    pieces, start, open_brackets = [], 0, 0
    for found in _BRACKET.finditer(text):
        mark = found.group()
        if mark == ",":
            if open_brackets == 0:
                pieces.append(text[start : found.start()])
                start = found.end()
        else:
            open_brackets += 1 if mark in "{[(" else -1
    pieces.append(text[start:])
    return pieces


def _operand(text: str, scope: Scope, depth: int) -> Operand:
    if depth > _MAX_NESTING:
        raise PtxError("an operand is nested too deep", got=brief(text), allowed=_ALLOWED)
    first = text[:1]
    if first == "%" and text[1:].isalnum() and (plain := scope.find(text)):
        return plain  # a register, as most operands are
    if first == "[" and text[-1] == "]":
        return _address(text[1:-1], scope, depth)
    if "|" in text and (pair := _PAIR.fullmatch(text)):
        one, two = (_operand(side, scope, depth + 1) for side in pair.groups())
        return Pair(one, two)
    if first == "{" and text[-1] == "}":
        return Vec(tuple(_operand(item.strip(), scope, depth + 1) for item in split(text[1:-1])))
    if first == "!":
        return Not(_operand(text[1:].lstrip(), scope, depth + 1))
    named = _NAMED.fullmatch(text)
    if named is None:
        if first in _LITERAL_STARTS:
            return literal(text)
        raise PtxError("not an operand", got=brief(text) or "nothing", allowed=_ALLOWED)
    name, element, offset = named.groups()
    return _SINK if text == "_" else _named(name, element, offset, text, scope)


def _named(name: str, element: str | None, offset: str | None, text: str, scope: Scope) -> Operand:
    meaning = scope.find_element(name, element) if element else scope.find(name)
    if meaning is None:
        meaning = _undeclared(name, element, text, scope)
    if offset is None:
        return meaning
    if isinstance(meaning, Imm):
        return literal(text)  # `WARP_SZ - 1`
    if not isinstance(meaning, Sym):
        raise PtxError("only a variable takes an offset here", got=brief(text), allowed=_ALLOWED)
    return Sym(meaning.name, _offset(offset))


def _undeclared(name: str, element: str | None, text: str, scope: Scope) -> Operand:
    """A name that no scope declares: the machine's own, or one of the module, checked later."""
    whole = f"{name}.{element}" if element else name
    if whole[0] == "%" and whole[1:] in SPECIALS:
        return Special(whole[1:])
    if whole == "WARP_SZ":
        return Imm(32)
    if element and isinstance(scope.find(name), Reg):
        return Sym(whole)  # `%r1.h0`, a part of a register: only video instructions have it
    if element or name[0] == "%":
        raise PtxError("a register is not declared", got=brief(text), allowed=_declared(scope))
    scope.outside.add(name)
    return Sym(name)


def _address(text: str, scope: Scope, depth: int) -> Operand:
    """`[base+offset]`; texture and tensor addresses `[map, {x, y}]` have a Vec as base."""
    pieces = split(text)
    if len(pieces) > 1:
        return Mem(Vec(tuple(_operand(p.strip(), scope, depth + 1) for p in pieces)))
    text = text.strip()
    named = _NAMED.fullmatch(text)
    if named is None or named.group(3) is None:
        base, offset = _operand(text, scope, depth + 1), 0
    else:
        base = _operand(text[: named.start(3)].rstrip(), scope, depth + 1)
        offset = _offset(named.group(3))
    if not isinstance(base, Reg | Sym | Imm):
        raise PtxError(
            "not an address", got=brief(f"[{text}]"), allowed="[register+4], [variable+4] or [0x10]"
        )
    return Mem(base, offset)


def _offset(text: str) -> int:
    """The value of `+4`, `+-4` or `- 4`."""
    amount = literal(text[1:].strip())
    if not isinstance(amount, Imm):
        raise PtxError("an offset is not an integer", got=brief(text), allowed="[a+4], [a+-4]")
    return amount.value if text[0] == "+" else -amount.value


def _declared(scope: Scope) -> str:
    """The registers in scope, shortened: candidates for a misspelt name."""
    known: list[str] = []
    reach: Scope | None = scope
    while reach is not None:
        known += [f"{name}<{count}>" for name, (count, _) in reach.ranges.items()]
        known += [*reach.registers, *reach.vectors]
        reach = reach.parent
    return brief(", ".join(known)) or "registers declared with .reg, and special registers"
