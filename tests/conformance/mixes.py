"""Random programs as PTX that an assembler takes too: chains of rows, control flow, warps at work.

A program is a name, `kind seed number`; it says everything else: the code, the launch, the data.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import chains
from random_code import TABLE_WORDS, WORDS
from random_programs import Maker, Shape, setting
from weft.ptx.isa import Decoded, lookup

COUNTERS = 16
"""Words behind the table that programs of kind `warp` count in."""
WARPS: tuple[Shape, ...] = ((32, 1, 1), (64, 1, 1), (96, 1, 1), (8, 4, 1), (16, 8, 1))
SPECIAL = re.compile(r"%(?:n?tid|n?ctaid)\.[xyz]|%laneid")
KINDS = {"chain": 4400, "graph": 2400, "tree": 2000, "straight": 800, "warp": 1200}
"""Programs of each kind that are judged."""
ORDERED = ("add", "sub", "mul", "mad", "fma", "div", "min", "max")
"""Instructions of f64 that give back one of their NaNs."""
Opcodes = Mapping[str, Sequence[str]]
"""Base opcode -> full opcodes that a GPU's assembler takes."""


@dataclass(frozen=True)
class Program:
    """A kernel and its launch; both arrays are compared afterwards."""

    text: str
    grid: Shape
    block: Shape
    arguments: tuple[np.ndarray | np.unsignedinteger, ...]


def make(name: str, opcodes: Opcodes, entry: str) -> Program:
    """The program of a name; chains draw from the given opcodes."""
    kind = name.split()[0]
    if kind == "chain":
        chain = Unjudged(random.Random(name), opcodes=opcodes)
        data = chain.inputs()
        for _ in range(30):
            chain.step()
        out = np.zeros(len(chain.registers) * chains.N, np.uint64)
        text = portable(chain.text(), entry)
        return Program(text, (2, 1, 1), (32, 1, 1), (out, data))
    warp = kind == "warp"
    maker = WarpMaker(name) if warp else Maker(name)
    text = portable(getattr(maker, "tree" if warp else kind)(), entry)
    s = setting(name, *((WARPS, TABLE_WORDS + COUNTERS) if warp else ()))
    arguments = (s.out, s.table, np.uint32(s.n), np.uint64(s.wide))
    return Program(text, s.grid, s.block, arguments)


def portable(text: str, entry: str) -> str:
    """The kernel alone, under a name of its own, with what ptxas is strict about.

    Special registers stand in `mov` only, and an offset is always added.
    """
    head, brace, body = text[text.index(".visible .entry k(") :].partition("{\n")
    used = sorted(set(SPECIAL.findall(body)))
    names = {s: "%s_" + s[1:].replace(".", "_") for s in used}
    lines = [f".reg .b32 {n}; mov.u32 {n}, {s};" for s, n in names.items()]
    body = SPECIAL.sub(lambda m: names[m[0]], body)
    body = re.sub(r"(\[[^]+-]+)-", r"\1+-", body)
    declared, code = _split(body)
    return head.replace(" k(", f" {entry}(") + brace + "\n".join([*declared, *lines, *code, ""])


def _split(body: str) -> tuple[list[str], list[str]]:
    """Declarations, which must come first, and code."""
    lines = body.splitlines()
    first = next(i for i, x in enumerate(lines) if x.strip() and not x.startswith("."))
    return lines[:first], lines[first:]


@dataclass
class Unjudged(chains.Chain):
    """A chain whose values nobody knows yet: the hardware is to say."""

    opcodes: Opcodes | None = None

    def opcode(self) -> tuple[str, Decoded]:
        assert self.opcodes is not None
        while True:
            name = self.rng.choice(self.opcodes[self.rng.choice(sorted(self.opcodes))])
            decoded = lookup(name.split("."))
            assert decoded is not None, name
            if self.carry is not None or all(s.name != "cc" for s in decoded.row.operands):
                return name, decoded

    def step(self) -> None:
        """Also makes NaNs of f64 the same: the assembler may swap operands, and a NaN of two
        operands is then another one's. Forms judge which it is."""
        super().step()
        opcode, dest, *_ = re.split(r",? ", self.lines[-1])
        words = opcode.split(".")
        if words[-1] == "f64" and words[0] in ORDERED:
            self.lines.append(f"testp.notanumber.f64 %nan, {dest};")
            self.lines.append(f"selp.f64 {dest}, 0d7FF8000000000000, {dest}, %nan;")

    def text(self) -> str:
        return super().text().replace("%bit, %n;", "%bit, %n; .reg .pred %nan;")

    def evaluate(
        self, name: str, decoded: Decoded, values: list[chains.Column]
    ) -> list[chains.Column]:
        return [np.zeros(chains.N, np.uint64)] * 2


class WarpMaker(Maker):
    """Trees with barriers, shuffles, votes, and atomics whose order does not matter."""

    REDUCTIONS = (
        "add.u32", "min.u32", "max.u32", "and.b32", "or.b32", "xor.b32", "add.s32", "min.s32",
        "max.s32", "inc.u32",
    )  # fmt: skip

    def tree(self) -> str:
        self.start()
        self.barriers = True
        for _ in range(3):
            self._sequence(0, None)
            self.exchange()
        self.finish()
        return self.text()

    def store(self) -> None:
        """Also: a reduction at a counter that all uses of this operation share."""
        super().store()
        r = self.rng
        slot = r.randrange(len(self.REDUCTIONS))
        at = 4 * (TABLE_WORDS + slot)
        value = "1000" if self.REDUCTIONS[slot].startswith("inc") else self.word()
        self.emit(f"{self.guard()}red.global.{self.REDUCTIONS[slot]} [%table+{at}], {value}")

    def exchange(self) -> None:
        """Code that all threads reach: exchange through shared memory, or within the warp."""
        r = self.rng
        r.choice((super().exchange, self.shuffle, self.shuffle, self.vote, self.reduce))()

    def shuffle(self) -> None:
        r = self.rng
        mode = r.choice(("up", "down", "bfly", "idx"))
        lane = self.word() if r.random() < 0.4 else str(r.randrange(32))
        clamp = {"up": (0, 0x1000, 0x1800)}.get(mode, (31, 0x101F, 0x181F))
        self.emit(
            f"shfl.sync.{mode}.b32 %r{r.randrange(WORDS)}|{self.pred()}, "
            f"%r{r.randrange(WORDS)}, {lane}, {r.choice(clamp)}, 0xffffffff"
        )

    def vote(self) -> None:
        r, dest = self.rng, f"%r{self.rng.randrange(WORDS)}"
        source = f"%r{r.randrange(WORDS)}"
        self.emit(r.choice((
            f"vote.sync.ballot.b32 {dest}, {self.pred()}, 0xffffffff",
            f"vote.sync.{r.choice(('any', 'all', 'uni'))}.pred {self.pred()}, {self.pred()}, "
            "0xffffffff",
            f"match.any.sync.b32 {dest}, {source}, 0xffffffff",
        )))  # fmt: skip

    def reduce(self) -> None:
        r = self.rng
        op = r.choice(("add.u32", "add.s32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32"))
        source = f"%r{r.randrange(WORDS)}"
        self.emit(f"redux.sync.{op} %r{r.randrange(WORDS)}, {source}, 0xffffffff")
