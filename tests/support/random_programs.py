"""Random PTX programs that end, stay inside their memory and do not race.

`graph` draws an arbitrary control-flow graph (irreducible ones too), `tree` nested loops and
branches as a compiler makes them, `straight` one long block of address-like arithmetic. All end by
storing every register, so that nothing computed goes unseen.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from random_code import LONGS, PREDS, SCRATCH, STORED, TABLE_WORDS, UNIFORM, WORDS, Code

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (32, 1, 1), (1, 1, 1), (64, 1, 1), (33, 1, 1), (31, 1, 1), (7, 1, 1), (70, 1, 1), (8, 4, 1),
    (8, 8, 1), (16, 3, 1), (5, 7, 1), (3, 3, 3), (4, 2, 8), (1, 40, 1), (2, 1, 17), (96, 1, 1),
    (32, 2, 1), (12, 6, 1),
)  # fmt: skip
GRIDS: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1))


@dataclass(frozen=True)
class Setting:
    """The arguments of a program's launch."""

    grid: Shape
    block: Shape
    out: np.ndarray
    table: np.ndarray
    n: int
    wide: int


def setting(
    name: str, shapes: tuple[Shape, ...] = SHAPES, table_words: int = TABLE_WORDS
) -> Setting:
    """The launch that a program's name stands for."""
    rng = random.Random(name)
    block, grid = rng.choice(shapes), rng.choice(GRIDS)
    threads = int(np.prod(block)) * int(np.prod(grid))
    table = np.array(
        [rng.randrange(1 << 32) >> rng.randrange(32) for _ in range(table_words)], "u4"
    )
    out = np.full(threads * (STORED + SCRATCH), 0xA5A5A5A5, "u4")
    edges = (0, 1, 5, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0)
    n, wide = rng.choice(edges), rng.choice((0, 1 << 31, (1 << 32) - 4, 1 << 63, 12345678901))
    return Setting(grid, block, out, table, n, wide)


class Maker(Code):
    """Draws one program from a seed."""

    # ---- beginning and end ------------------------------------------------------------------
    def start(self) -> None:
        """Thread numbers, and something in every register."""
        r = self.rng
        for name, param in (("%out", "p_out"), ("%table", "p_table"), ("%d0", "p_wide")):
            self.emit(f"ld.param.u64 {name}, [{param}]")
        self.emit("mad.lo.u32 %t0, %tid.z, %ntid.y, %tid.y")
        self.emit("mad.lo.u32 %t0, %t0, %ntid.x, %tid.x")
        self.emit("mul.lo.u32 %t1, %ntid.x, %ntid.y")
        self.emit("mul.lo.u32 %t1, %t1, %ntid.z")
        self.emit("mad.lo.u32 %t2, %ctaid.y, %nctaid.x, %ctaid.x")
        self.emit("mad.lo.u32 %self, %t2, %t1, %t0")
        self.emit(f"mul.wide.u32 %mine, %self, {4 * (STORED + SCRATCH)}")
        self.emit("add.u64 %mine, %mine, %out")
        self.emit("ld.param.u32 %u0, [p_n]")
        self.emit("mov.u32 %u1, %ctaid.x")
        self.emit(f"mov.u32 %u2, {self.imm()}")
        sources = ["%self", "%tid.x", "%u0", "%laneid", "%ctaid.x", self.imm(), "%tid.y"]
        for i in range(WORDS):
            source = r.choice(sources if not self.floor or i == 0 else sources[2:3] + sources[4:6])
            self.emit(f"mov.u32 %r{i}, {source}")
        for i in range(1, LONGS):
            self.emit(f"cvt.{r.choice('us')}64.{r.choice('us')}32 %d{i}, %r{r.randrange(WORDS)}")
        for i in range(PREDS):
            self.emit(f"setp.{r.choice(('lt', 'ne'))}.u32 %p{i}, %r{r.randrange(WORDS)}, {i}")
        if r.random() < 0.5:
            self.emit(f"and.b32 %t0, {r.choice(('%self', '%u1'))}, 7")
            self.emit(f"add.u32 %fuel, %t0, {r.randrange(1, 6)}")
        else:
            self.emit(f"mov.u32 %fuel, {r.randrange(2, 14)}")
        for at in (0, 16):
            self.emit(f"st.local.v4.u32 [lo+{at}], {{%u0, %r0, %r1, %r2}}")
        for i in range(r.randrange(1, 4)):
            self.load(i)

    def finish(self) -> None:
        """Every register into the thread's own row of the output."""
        at = 0
        for stem, count, kind in (("r", WORDS, "u32"), ("d", LONGS, "u64"), ("u", UNIFORM, "u32")):
            for i in range(count):
                self.emit(f"st.global.{kind} [%mine+{at}], %{stem}{i}")
                at += 4 if kind == "u32" else 8
        self.emit("ret")

    # ---- control flow -----------------------------------------------------------------------
    def straight(self) -> str:
        self.start()
        self.code(self.rng.randrange(15, 70))
        self.finish()
        return self.text()

    def graph(self) -> str:
        r = self.rng
        self.start()
        count = r.randrange(2, 13)
        back = r.choice((0.1, 0.3, 0.5))
        for i in range(count):
            self.label(f"B{i}")
            self.code(r.randrange(0, 6))
            self._leave(i, count, back)
        self.label(f"B{count}")
        self.finish()
        return self.text()

    def _leave(self, i: int, count: int, back: float) -> None:
        """The end of block i: any edges; going back costs fuel, and without fuel it goes on."""
        r = self.rng
        kind = r.choices(
            ("next", "jump", "one", "two", "table", "leave", "end"), (3, 2, 6, 4, 2, 1, 0.2)
        )[0]
        if kind == "next":
            return
        if kind in ("leave", "end"):
            self.emit(f"{self.guard(1.0) if kind == 'leave' else ''}{r.choice(('ret', 'exit'))}")
            return
        wanted = {"jump": 1, "one": 1, "two": 2}.get(kind, r.choice((1, 2, 4, 8)))
        targets = [
            r.randrange(i + 1) if r.random() < back else r.randrange(i + 1, count + 1)
            for _ in range(wanted)
        ]
        if min(targets) <= i:
            self.emit("sub.s32 %fuel, %fuel, 1")
            self.emit("setp.gt.s32 %fuel_left, %fuel, 0")
            self.emit(f"@!%fuel_left bra B{r.randrange(i + 1, count + 1)}")
        guard = r.choice(("@", "@!")) + self.pred() + " "
        if kind == "table":
            name = f"T{i}"
            self.tables.append(f"{name}: .branchtargets {', '.join(f'B{t}' for t in targets)};")
            self.emit(f"and.b32 %t0, {self.word(r.random() < 0.3)}, {wanted - 1}")
            self.emit(f"{r.choice(('', '', guard))}brx.idx %t0, {name}")
            return
        self.emit(f"{'' if kind == 'jump' else guard}bra B{targets[0]}")
        if kind == "two":
            self.emit(f"bra B{targets[1]}")

    def tree(self) -> str:
        self.start()
        self.barriers = self.rng.random() < 0.5
        for _ in range(2):
            self._sequence(0, None)
        self.finish()
        return self.text()

    def _sequence(self, depth: int, loop: tuple[str, str] | None) -> None:
        r = self.rng
        for _ in range(r.randrange(1, 4 - depth)):
            self.code(r.randrange(0, 4))
            roll = r.random()
            if roll < 0.35 and depth < 2:
                self._branch(depth, loop)
            elif roll < 0.65 and depth < 2:
                self._loop(depth)
            elif roll < 0.75 and loop:
                self.emit(f"{self.guard(1.0) or '@%p0 '}bra {r.choice(loop)}")
            elif roll < 0.80 and not self.barriers:
                self.emit(f"@{self.pred()} {r.choice(('ret', 'exit'))}")
            elif roll > 0.85 and depth == 0 and self.barriers:
                self.exchange()

    def _branch(self, depth: int, loop: tuple[str, str] | None) -> None:
        otherwise, end = self.fresh("ELSE"), self.fresh("END")
        self.compare()
        self.emit(f"@{self.rng.choice(('', '!'))}{self.pred()} bra {otherwise}")
        self._sequence(depth + 1, loop)
        if self.rng.random() < 0.5:
            self.emit(f"bra {end}")
            self.label(otherwise)
            self._sequence(depth + 1, loop)
            self.label(end)
        else:
            self.label(otherwise)

    def _loop(self, depth: int) -> None:
        """A counted loop; its length is known, uniform, or each thread's own."""
        r = self.rng
        counter, again, step, end = self.counters, *(self.fresh(x) for x in ("L", "STEP", "END"))
        self.counters += 1
        most = (7, 3)[depth]
        bound = r.choice((str(r.randrange(most + 1)), f"%u{r.randrange(UNIFORM)}", "%tid.x", "%r0"))
        self.emit(f"and.b32 %t0, {bound}, {most}")
        self.emit(f"mov.u32 %c{counter}, %t0")
        self.label(again)
        self.emit(f"setp.eq.s32 %q{depth}, %c{counter}, 0")
        self.emit(f"@%q{depth} bra {end}")
        self._sequence(depth + 1, (step, end))
        self.label(step)
        self.emit(f"sub.s32 %c{counter}, %c{counter}, 1")
        self.emit(f"bra {again}")
        self.label(end)
