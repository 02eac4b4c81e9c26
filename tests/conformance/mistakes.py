"""Programs for which ptxas deviates from the PTX: its deviations, rewritten as PTX.

A program that is so rewritten leaves on the simulated GPU what the program itself left on the real
one, bit by bit: that shows a cause to be the cause. `cause` names it, `rewritten` does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance import flows

Finding = Mapping[str, Any]
LANES = 64
"""Threads of a chain; each register is stored by all of them, one register after the other."""


@dataclass(frozen=True)
class Instruction:
    """One line of a chain, in which every register is written once."""

    text: str
    line: str

    @property
    def opcode(self) -> str:
        return self.line.partition(" ")[0]

    @property
    def operands(self) -> list[str]:
        return [x.strip() for x in self.line.partition(" ")[2].rstrip(";").split(",")]

    @property
    def sources(self) -> list[Instruction]:
        """The instructions that wrote its source registers."""
        names = re.findall(r"%\w+", self.line.partition(",")[2])
        return [Instruction(self.text, defined(self.text, name)) for name in names]

    @property
    def constant(self) -> bool:
        """Return whether it depends on constants alone."""
        loads = self.line.startswith("ld") or not self.line
        return not loads and all(x.constant for x in self.sources)

    @property
    def shared(self) -> bool:
        """Return whether all threads load its inputs from one place."""
        if self.line.startswith("ld"):
            return "[%in" in self.line
        return bool(self.line) and all(x.shared for x in self.sources)

    def reads(self, pattern: str, first: int = 0) -> bool:
        """Return whether one of its sources, after the first ones, was written by such an
        instruction.
        """
        return any(re.match(pattern, x.line) for x in self.sources[first:])

    def like(self, pattern: str) -> bool:
        return re.match(pattern, self.line) is not None

    def move(self, value: str) -> str:
        """A move of some value to where this instruction writes."""
        dest = self.operands[0]
        kind = re.search(rf"\.reg \.(b\d+) {dest};", self.text)
        return f"mov.{kind[1]} {dest}, {value};" if kind else self.line


def defined(text: str, register: str) -> str:
    """The instruction that writes a register, which only one does."""
    pattern = re.compile(rf"^[a-z]\S* (?:%v\d+\|)?{register}[,|].*$", re.MULTILINE)
    found = pattern.search(text)
    return found[0] if found else ""


@dataclass(frozen=True)
class Mistake:
    """A cause: which instructions it befalls, and what they become; the GPU's value may help."""

    why: str
    befalls: Callable[[Instruction], bool]
    becomes: Callable[[Instruction, str], str]


def _shift_by_float(x: Instruction, gpu: str) -> str:
    """`F2I.U64.TRUNC`, and of its result the low word."""
    d, a, amount = x.operands
    return (
        f".reg .b64 %wide; .reg .b32 %low; cvt.rzi.u64.f32 %wide, {amount}; "
        f"cvt.u32.u64 %low, %wide; {x.opcode} {d}, {a}, %low;"
    )


def _field_of_first(x: Instruction, gpu: str) -> str:
    """The shifted value goes through `R2UR`: every thread gets that of the warp's first."""
    d, a, position, length = x.operands
    return (
        f".reg .b32 %first; shfl.sync.idx.b32 %first, {position}, 0, 31, 0xffffffff; "
        f"{x.opcode} {d}, {a}, %first, {length};"
    )


def _both_halves(x: Instruction, gpu: str) -> str:
    """`HSET2` writes both halves of a register, and a 32-bit shift moves the upper one in."""
    d, a, amount = x.operands
    return (
        f".reg .b32 %both; mov.b32 %both, {{{a}, {a}}}; shr.b32 %both, %both, {amount}; "
        f"cvt.u16.u32 {d}, %both;"
    )


def _without_sign(x: Instruction, gpu: str) -> str:
    """The same, its first source without a sign."""
    d, a, b, *c = x.operands
    return {
        "shr.s16": lambda: f"shr.u16 {d}, {a}, {b};",
        "rem.s32": lambda: f".reg .b32 %size; abs.s32 %size, {b}; rem.u32 {d}, {a}, %size;",
        "mad.hi.s16": lambda: (
            f".reg .b32 %x, %y; .reg .b16 %h; cvt.u32.u16 %x, {a}; cvt.s32.s16 %y, {b}; "
            f"mul.lo.s32 %x, %x, %y; shr.u32 %x, %x, 16; cvt.u16.u32 %h, %x; "
            f"add.u16 {d}, %h, {c[0]};"
        ),
    }[x.opcode]()


def _sign(x: Instruction, gpu: str) -> str:
    """`LOP3.LUT d, x, 0x80000000, RZ, 0x48`, which is right with x for RZ."""
    d, a, _ = x.operands
    return f"and.b{x.opcode[-2:]} {d}, {a}, {1 << int(x.opcode[-2:]) - 1};"


def _keep_sign(x: Instruction, gpu: str) -> str:
    d, a = x.operands
    if ".ftz" in x.opcode:
        return f".reg .b32 %zero; mov.b32 %zero, 0; sub.ftz.f16x2 {d}, {a}, %zero;"
    return x.move(a)


MISTAKES = (
    Mistake(
        "ptxas computes what depends on constants alone, approximate functions more precisely than "
        "the GPU, and NaNs with other bits",
        lambda x: x.constant,
        lambda x, gpu: x.move(gpu),
    ),
    Mistake(
        "ptxas computes the reciprocal of a constant divisor, more precisely than the GPU",
        lambda x: x.like(r"div\.(full|approx).*, 0f\w+;"),
        lambda x, gpu: x.line,
    ),
    Mistake(
        "ptxas takes a bit field of a value that all threads share to be shared too, wherever each "
        "thread wants it from: a bug of ptxas",
        lambda x: x.like("bfe") and x.sources[0].shared and not x.sources[1].shared,
        _field_of_first,
    ),
    Mistake(
        "ptxas converts a shift amount that an f32 instruction computed to an integer first: a bug "
        "of ptxas",
        lambda x: x.like(r"sh[lr]\.\w64") and x.reads(r"\S+\.f32[. ]", 1),
        _shift_by_float,
    ),
    Mistake(
        "ptxas keeps only the low eight bits of a constant amount of a 16-bit shift",
        lambda x: x.like(r"sh[lr]\.\w16 .*, \d{3,};"),
        lambda x, gpu: x.line.replace(x.operands[2], str(int(x.operands[2]) & 0xFF)),
    ),
    Mistake(
        "ptxas shifts a 16-bit result of `set` that the GPU wrote to both halves of a register: a "
        "bug of ptxas",
        lambda x: x.like(r"shr\.[bu]16") and x.sources[0].like(r"set\..*f16 "),
        _both_halves,
    ),
    Mistake(
        "ptxas drops `min(x, x)` and `max(x, x)`, which make a NaN canonical",
        lambda x: x.like(r"(min|max)\S* \S+, (\S+), \2;"),
        lambda x, gpu: x.move(x.operands[1]),
    ),
    Mistake(
        "ptxas takes `abs` for positive, which it is not for the least integer",
        lambda x: x.like(r"shr\.s16|rem\.s32|mad\.hi\.s16") and x.reads(r"abs\.s"),
        _without_sign,
    ),
    Mistake(
        "ptxas takes a saturated f32 for positive, also where its bits are read as two halves: a "
        "bug of ptxas",
        lambda x: x.like("abs") and x.reads(r"\S+\.sat\.f32"),
        _keep_sign,
    ),
    Mistake(
        "ptxas drops a double `neg`, which makes a NaN quiet",
        lambda x: x.like("neg") and x.reads("neg"),
        lambda x, gpu: x.move(x.sources[0].operands[1]),
    ),
    Mistake(
        "ptxas merges `xor` into a `copysign` of two equal sources and loses one of them: a bug of "
        "ptxas",
        lambda x: x.like("xor") and x.reads(r"copysign\S+ \S+, (\S+), \1;"),
        _sign,
    ),
    Mistake(
        "ptxas takes a constant of 2³¹ or more for positive where `slct` reads it as s32: a bug of "
        "ptxas",
        lambda x: x.like(r"slct\.\w+\.s32 .*, \d{10};") and int(x.operands[3]) >= 1 << 31,
        lambda x, gpu: x.move(x.operands[1]),
    ),
    Mistake(
        "ptxas takes the predicate of `lop3.and` to say that its result is not zero, and a "
        "division by that result for one by zero: a bug of ptxas",
        lambda x: x.like(r"(div|rem)\.[us]") and x.sources[-1].like(r"lop3\.and"),
        lambda x, gpu: (
            f"{x.line} @!{x.sources[-1].operands[0].partition('|')[2]} "
            f"not.b32 {x.operands[0]}, {x.operands[2]};"
        ),
    ),
)
"""The first that befalls an instruction is its cause."""


def first(text: str, line: str) -> Mistake | None:
    """The change of an instruction of a chain."""
    x = Instruction(text, line)
    return next((m for m in MISTAKES if m.befalls(x)), None)


def cause(finding: Finding) -> str | None:
    """The cause of a program's difference, by the first register that differs; None if unknown."""
    if finding["name"] in flows.FLOWS:
        return flows.FLOWS[finding["name"]].why
    if not finding["name"].startswith("chain") or not finding["example"]["places"]:
        return None
    text, place = finding["text"], finding["example"]["places"][0]
    found = first(text, defined(text, f"%v{place // LANES}"))
    return found.why if found else None


def rewritten(finding: Finding) -> str:
    """The program as ptxas understood it."""
    text: str = finding["text"]
    if flow := flows.FLOWS.get(finding["name"]):
        assert text.count(flow.line) == 1, flow.line
        return text.replace(flow.line, flow.becomes)
    known = dict[str, str]()  # register -> what the GPU left in it
    for place, gpu in zip(finding["example"]["places"], finding["example"]["gpu"], strict=True):
        known.setdefault(f"%v{place // LANES}", gpu)
    out = text
    for register, gpu in known.items():
        line = defined(text, register)
        if line and (found := first(text, line)):
            out = out.replace(line + "\n", found.becomes(Instruction(text, line), gpu) + "\n")
    return out
