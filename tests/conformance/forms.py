"""Full opcodes of lane-wise rows, and a kernel for each: load operands, execute, store."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.operands import draw, width
from weft.ptx.isa import Decoded, InstructionRow, lookup, rows

LUTS = (0x00, 0x01, 0x1B, 0x3C, 0x69, 0x80, 0x96, 0xAC, 0xCA, 0xD8, 0xE8, 0xFE)
"""Truth tables that lop3 is tried with: it takes them as a constant."""
CONSTANTS = ", ".join(str(int(x) & 0xFFFFFFFF) for x in draw(1, 64))
HEAD = f""".version {{version}}
.target {{target}}
.address_size 64
.const .align 32 .b32 constants[64] = {{{{{CONSTANTS}}}}};
"""
"""The top of a module; memory forms read its constants."""


@dataclass(frozen=True)
class Form:
    """One full opcode; `sources` and `results` are the PTX types that its kernel loads, stores."""

    opcode: str
    row: InstructionRow
    sources: tuple[str, ...]
    results: tuple[int, ...]
    code: tuple[str, ...]
    note: str = ""

    @property
    def name(self) -> str:
        """The opcode, and what else tells this form from others of it."""
        return f"{self.opcode} ({self.note})" if self.note else self.opcode

    def kernel(self, name: str) -> str:
        """PTX of `name(in..., out...)`: one thread an operand tuple."""
        params = ", ".join(
            f".param .u64 p{i}" for i in range(len(self.sources) + len(self.results))
        )
        lines = [f".visible .entry {name}({params}) {{", *DECLARED]
        for i, kind in enumerate(self.sources):
            lines += _load(i, kind)
        lines += [f".reg .b{bits} %d{j};" for j, bits in enumerate(self.results)]
        lines += self.code
        for j, bits in enumerate(self.results):
            lines += place(len(self.sources) + j, bits // 8)
            lines.append(f"st.global.b{bits} [%at], %d{j};")
        return "\n".join([*lines, "ret; }", ""])


DECLARED = (
    ".reg .b32 %i, %w, %block; .reg .b64 %at;",
    "mov.u32 %i, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %w, %ntid.x;",
    "mad.lo.u32 %i, %block, %w, %i;",
)


def place(param: int, size: int) -> list[str]:
    """%at becomes the address of this thread's element of an array."""
    return [f"ld.param.u64 %at, [p{param}];", f"mad.wide.u32 %at, %i, {size}, %at;"]


def _load(i: int, kind: str) -> list[str]:
    bits = width(kind)
    if bits == 1:
        return [f".reg .pred %a{i};", *place(i, 4), "ld.global.b32 %w, [%at];",
                f"setp.ne.u32 %a{i}, %w, 0;"]  # fmt: skip
    return [f".reg .b{bits} %a{i};", *place(i, bits // 8), f"ld.global.b{bits} %a{i}, [%at];"]


def spell(row: InstructionRow) -> Iterator[str]:
    """Every full opcode of a row."""
    choices = []
    for name, optional in row.parts:
        words = sorted(row.modifiers.get(name, {name}))
        choices.append(["", *words] if optional else words)
    for words in itertools.product(*choices):
        yield ".".join([row.base, *filter(None, words)])


def lanewise() -> Iterator[Form]:
    """A form for every full opcode of every row that works lane by lane."""
    for row in rows():
        if not row.warp:
            for opcode in spell(row):
                decoded = lookup(opcode.split("."))
                if decoded is not None and decoded.row is row:
                    yield form(opcode, decoded)


def form(opcode: str, decoded: Decoded) -> Form:
    """The kernel of a lane-wise opcode."""
    specs = [s for s in decoded.row.operands if not s.is_dest]
    kinds = [decoded.types[s.name] for s in specs]
    texts, before, sources = [], [], []
    for spec, kind in zip(specs, kinds, strict=True):
        if spec.name == "table":
            texts.append("{table}")
            continue
        i = len(sources)
        sources.append(kind)
        if spec.name == "cc":  # a sum that carries out, or a difference that borrows
            before = [f"selp.u32 %w, 1, 0, %a{i};", SET_FLAG[_subtracts(opcode)]]
        else:
            texts.append(f"%a{i}")
    luts = LUTS if any(s.name == "table" for s in specs) else (0,)
    results: list[int] = []
    code: list[str] = []
    for lut in luts:
        sets = [t.format(table=lut) for t in texts]
        code += [*before, *_execute(opcode, decoded, sets, results)]
    return Form(opcode, decoded.row, tuple(sources), tuple(results), tuple(code))


SET_FLAG = {False: "add.cc.u32 %w, %w, 0xffffffff;", True: "sub.cc.u32 %w, 0, %w;"}


def _subtracts(opcode: str) -> bool:
    """The manual says what carries mean after sums, and borrows after differences; no mixture."""
    return opcode.startswith("sub")


def _execute(opcode: str, decoded: Decoded, texts: list[str], results: list[int]) -> list[str]:
    """The instruction and what makes its results storable; `results` grows by their widths."""
    dest = decoded.row.operands[0]
    names, after, declare = list[str](), list[str](), list[str]()
    single = opcode.startswith("setp") and decoded.words["type"] in ("f16", "bf16")
    alone = single or not dest.pair  # setp of one half has no second predicate
    for name in (dest.name,) if alone else (dest.name, dest.pair):
        j = len(results)
        kind = decoded.types.get(name, "pred")
        if name == "cc":
            after.append(f"{'subc' if _subtracts(opcode) else 'addc'}.u32 %d{j}, 0, 0;")
            results.append(32)
        elif kind == "pred" or name in ("p", "q"):
            declare.append(f".reg .pred %p{j};")
            after.append(f"selp.u32 %d{j}, 1, 0, %p{j};")
            names.append(f"%p{j}")
            results.append(32)
        else:
            names.append(f"%d{j}")
            results.append(width(kind))
    return [*declare, f"{opcode} {', '.join(['|'.join(names), *texts])};", *after]


GROUP = 8
"""Forms in one kernel, at most: they share their operands, which saves most of the compilation."""


def grouped(forms: Sequence[Form]) -> Iterator[Sequence[Form]]:
    """Lane-wise forms of the same operands side by side; others stay alone."""
    by_sources: dict[object, list[Form]] = {}
    for f in forms:
        key = f.name if f.row.warp or len(f.results) > 2 else f.sources
        by_sources.setdefault(key, []).append(f)
    for found in by_sources.values():
        for i in range(0, len(found), GROUP):
            yield found[i : i + GROUP]


def together(forms: Sequence[Form]) -> Form:
    """One kernel of several forms: each has its results and predicates after those before it."""
    first, code, results = forms[0], list[str](), list[int]()
    for f in forms:
        shift = len(results)
        code += [_renumbered(line, shift) for line in f.code] if shift else f.code
        results += f.results
    return Form(first.opcode, first.row, first.sources, tuple(results), tuple(code))


def _renumbered(line: str, shift: int) -> str:
    return re.sub(r"%([dp])(\d+)\b", lambda m: f"%{m[1]}{int(m[2]) + shift}", line)
