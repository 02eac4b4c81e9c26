"""One kernel with an instruction of each row of the table that touches memory.

`k(data, which, wrong)` executes instruction number `which`, or all for -1. The address of effect
number `wrong` is out of bounds; for -1, all are inside.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from weft.ir.tensor_layout import WIDTH, fragment_layout, packed
from weft.ptx.isa import InstructionRow, rows
from weft.ptx.isa.columns import Effect, Per

REGION = 4096
"""Bytes of each effect's place in a memory: a matrix, or 32 bytes for each lane."""
REGIONS = 3
PREFERRED = (
    "b32",
    "u32",
    "f32",
    "ca",
    "row",
    "arrive",
    "expect_tx",
    "test_wait",
    "x1",
    "add",
    "and",
)
"""Words of modifiers; of others, the first in the alphabet is taken."""
SPACES = ("global", "shared", "local", "const", "param", "")
"""Spaces that a modifier may name; none is generic."""


@dataclass(frozen=True)
class Case:
    """An instruction; `spaces` are those of the row's effects, in their order."""

    row: InstructionRow
    words: dict[str, str]
    text: str
    spaces: tuple[str, ...]

    @property
    def opcode(self) -> str:
        return self.text.split()[0]


def cases() -> list[Case]:
    """Each row once, and the first row of each name in every state space."""
    out = []
    for _, group in itertools.groupby(rows(), key=lambda row: (row.base, row.parts[:2])):
        touching = [row for row in group if row.effects and not is_tensor_copy(row)]
        for i, row in enumerate(touching):
            spaces = list(_spaces(row))
            chosen = spaces if i == 0 else [spaces[i % len(spaces)]]
            out += [_case(row, space) for space in chosen]
    return out


def is_tensor_copy(row: InstructionRow) -> bool:
    """Return whether it uses or changes a tensor map; `test_tensor_copies.py` has these rows."""
    return row.base == "tensormap" or any(effect.operand == "map" for effect in row.effects)


def _spaces(row: InstructionRow) -> Iterator[str]:
    """Words for the modifier that names the space; one empty word where there is none."""
    named = row.modifiers.get("space")
    optional = dict(row.parts).get("space", True)
    if named is None:
        yield ""
        return
    ordered = ("order", False) in row.parts
    only_weak = {"local", "const", "param"} if ordered else set()
    read_only = {"const", "param"} if any(e.writes for e in row.effects) else set()
    for space in SPACES:
        if (space in named or (not space and optional)) and space not in only_weak | read_only:
            yield space


def _case(row: InstructionRow, space: str) -> Case:
    words = {name: "" for name in row.modifiers}
    parts = [row.base]
    for name, optional in row.parts:
        if name == "space":
            words[name] = space
        elif name not in row.modifiers:
            parts += [] if optional else [name]
            continue
        elif not optional:
            allowed = row.modifiers[name]
            words[name] = next((w for w in PREFERRED if w in allowed), min(allowed))
        parts += [words[name]] if words[name] else []
    spaces = tuple(e.state_space(words) for e in row.effects)
    needed = [
        spec.name
        for spec in row.written
        if not spec.optional or (spec.name == "c" and words.get("op") == "cas")
    ]
    operands = ", ".join(_operand(row, words, name) for name in needed)
    return Case(row, words, f"{'.'.join(parts)} {operands};", spaces)


def _operand(row: InstructionRow, words: dict[str, str], name: str) -> str:
    for i, effect in enumerate(row.effects):
        if effect.operand == name:
            return f"[{_address(effect, effect.state_space(words), i)}]"
    if name in ("d", "r", "b", "c"):
        count, bits = _registers(row, words)
        names = ", ".join(f"%v{bits}_{i}" for i in range(count))
        return f"{{{names}}}" if row.effects[0].per is Per.WARP else names
    return {"p": "%p0", "size": "16", "count": "1", "tx": "16", "state": "%v64_0"}[name]


def _address(effect: Effect, space: str, number: int) -> str:
    """Lanes are 32 bytes apart where each has a place of its own."""
    lanes = "" if effect.per is Per.WARP and not str(effect.size).startswith("128") else "_lane"
    return f"%{space}{lanes}{number}"


def _registers(row: InstructionRow, words: dict[str, str]) -> tuple[int, int]:
    """The number and the width of the registers that a value takes."""
    if "matrix" in words or "layout" in words:
        shape, kind, layout = words["shape"], words["type"], words["layout"]
        slots = fragment_layout(words.get("matrix", "d"), shape, kind, layout)
        return len(slots) // packed(kind), 64 if WIDTH[kind] == 64 else 32
    if "num" in words:
        return int(words["num"][1:]), 32
    wide = words.get("type", "b64").endswith("64")
    return 1, 64 if wide else 32


FAR = {"global": 1 << 44, "generic": 1 << 44, "const": 1 << 44}
"""The invalid addresses; offsets in a window have 32 bits."""


def module(chosen: list[Case]) -> str:
    """The PTX."""
    head = [
        ".version 8.6",
        ".target sm_90",
        ".address_size 64",
        f".const .align 128 .b8 constants[{REGION}];",
        f".visible .entry k(.param .u64 data, .param .u32 which, .param .u32 wrong, "
        f".param .align 16 .b8 more[{REGION // 4}]) {{",
        f".shared .align 128 .b8 pool[{REGIONS * REGION}]; .local .align 128 .b8 own[64];",
        ".reg .pred %p<4>; .reg .b32 %which, %wrong, %lane, %t<4>; .reg .b64 %u<4>;",
        ".reg .b32 %v32_<32>; .reg .b64 %v64_<32>;",
        "ld.param.u32 %which, [which]; ld.param.u32 %wrong, [wrong]; mov.u32 %lane, %laneid;",
        "shl.b32 %lane, %lane, 5; cvt.u64.u32 %u3, %lane;",
    ]
    body = [line for i, case in enumerate(chosen) for line in _guarded(i, case)]
    return "\n".join([*head, *_addresses(), *body, "ret; }", ""])


def _guarded(number: int, case: Case) -> list[str]:
    return [
        f"setp.eq.s32 %p1, %which, -1; setp.eq.or.u32 %p1, %which, {number}, %p1;",
        f"@!%p1 bra NEXT{number};",
        case.text,
        f"NEXT{number}:",
    ]


def _addresses() -> Iterator[str]:
    """Registers %SPACE0 .. and, with the lane's distance added, %SPACE_lane0 .."""
    starts = {
        "global": "ld.param.u64 %u0, [data];",
        "generic": "ld.param.u64 %u0, [data];",
        "const": "mov.u64 %u0, constants;",
        "shared": "mov.u32 %t0, pool;",
        "local": "mov.u32 %t0, own;",
        "param": "mov.u32 %t0, more;",
    }
    for (space, start), i in itertools.product(starts.items(), range(REGIONS)):
        wide, far = space in FAR, FAR.get(space, 1 << 27)
        bits, base = (64, "%u0") if wide else (32, "%t0")
        apart = (space in ("local", "const", "param") and "0") or ("%u3" if wide else "%lane")
        place = 0 if space in ("local", "const", "param") else i * REGION
        flag = "cvt.u64.u32 %u1, %t1;" if wide else ""
        yield f".reg .b{bits} %{space}{i}, %{space}_lane{i};"
        yield f"{start} setp.eq.s32 %p2, %wrong, {i}; selp.u32 %t1, 1, 0, %p2; {flag}"
        yield f"mad.lo.u{bits} %{space}{i}, {'%u1' if wide else '%t1'}, {far}, {base};"
        yield f"add.u{bits} %{space}{i}, %{space}{i}, {place};"
        yield f"add.u{bits} %{space}_lane{i}, %{space}{i}, {apart};"
