"""Random PTX instructions that stay inside their memory and do not race, for random programs."""

from __future__ import annotations

import random

WORDS, LONGS, PREDS, UNIFORM = 8, 5, 4, 3
STORED = WORDS + 2 * LONGS + UNIFORM
"""32-bit words a thread leaves in the output."""
SCRATCH = 5
TABLE_WORDS = 64

EDGES = (
    0, 1, 2, 3, 4, 8, 15, 16, 31, 32, 33, 255, 256, 65535, 65536, 0x7FFFFFFF, -1, -2, -4, -32,
    -0x80000000, 0x40000000, 0xFFFF0000,
)  # fmt: skip
HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_out, .param .u64 p_table, .param .u32 p_n, .param .u64 p_wide)
{
.shared .align 16 .b8 sh[8192];
.local .align 16 .b8 lo[32];
"""


class Code:
    """Draws instructions from a seed."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.labels = 0
        self.counters = 0
        self.tables: list[str] = []
        self.guards = self.rng.random() < 0.7
        self.floor = self.rng.choice((0, 0, 1))  # 1: no per-thread values among the sources

    # ---- text -------------------------------------------------------------------------------
    def emit(self, line: str) -> None:
        self.lines.append(f"  {line};")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}_{self.labels}"

    def text(self) -> str:
        registers = [
            f".reg .b32 %r<{WORDS}>;", f".reg .b64 %d<{LONGS}>;", f".reg .pred %p<{PREDS}>;",
            f".reg .b32 %u<{UNIFORM}>;", ".reg .b32 %t<8>;", ".reg .b64 %a<8>;",
            ".reg .pred %q<4>;", ".reg .pred %fuel_left;", ".reg .b32 %fuel, %self;",
            ".reg .b16 %h<4>;", f".reg .b32 %c<{max(1, self.counters)}>;",
            ".reg .b64 %out, %table, %mine;",
        ]  # fmt: skip
        zero = [f"  mov.u32 %c{i}, 0;" for i in range(self.counters)]
        return "\n".join([HEAD, *registers, *self.tables, *zero, *self.lines, "}", ""])

    # ---- operands ---------------------------------------------------------------------------
    def imm(self) -> str:
        r = self.rng
        if r.random() < 0.6:
            return str(r.choice(EDGES))
        return str(r.choice((1, -1)) * (1 << r.randrange(31)) + r.randrange(-2, 3))

    def word(self, uniform: bool = False) -> str:
        r = self.rng
        choices = [f"%u{r.randrange(UNIFORM)}", self.imm(), "%ctaid.x", "%ntid.x", "%nctaid.y"]
        if self.counters:
            choices.append(f"%c{r.randrange(self.counters)}")
        if not uniform:
            choices += [f"%r{r.randrange(WORDS)}"] * 6
            choices += ["%tid.x", "%tid.y", "%laneid", "%tid.z"][: r.randrange(5)]
        return r.choice(choices)

    def long(self) -> str:
        r = self.rng
        return f"%d{r.randrange(LONGS)}" if r.random() < 0.8 else self.imm()

    def pred(self) -> str:
        return f"%p{self.rng.randrange(PREDS)}"

    def guard(self, chance: float = 0.25) -> str:
        if not self.guards or self.rng.random() > chance:
            return ""
        return self.rng.choice(("@", "@!")) + self.pred() + " "

    # ---- straight code ----------------------------------------------------------------------
    def code(self, count: int) -> None:
        kinds = (
            (self.alu32, 8), (self.alu64, 4), (self.wide, 4), (self.shift, 4), (self.compare, 4),
            (self.choose, 2), (self.convert, 3), (self.uniform, 2), (self.load, 2), (self.store, 1),
            (self.local, 1), (self.predicates, 1), (self.narrow, 1), (self.divide, 1),
            (self.pack, 1), (self.own_shared, 1),
        )  # fmt: skip
        makers, weights = zip(*kinds, strict=True)
        for make in self.rng.choices(makers, weights, k=count):
            make()

    def alu32(self) -> None:
        r = self.rng
        op = r.choice(("add", "sub", "mul.lo", "mad.lo", "and", "or", "xor", "min", "max", "not"))
        kind = "b32" if op in ("and", "or", "xor", "not") else r.choice(("u32", "s32"))
        count = {"mad.lo": 3, "not": 1}.get(op, 2)
        sources = ", ".join(self.word() for _ in range(count))
        self.emit(f"{self.guard()}{op}.{kind} %r{r.randrange(WORDS)}, {sources}")

    def alu64(self) -> None:
        r = self.rng
        op = r.choice(("add", "add", "sub", "mul.lo", "mad.lo", "and", "or", "xor", "min", "max"))
        kind = "b64" if op in ("and", "or", "xor") else r.choice(("u64", "s64"))
        sources = ", ".join(self.long() for _ in range(3 if op == "mad.lo" else 2))
        self.emit(f"{self.guard(0.15)}{op}.{kind} %d{r.randrange(LONGS)}, {sources}")

    def wide(self) -> None:
        r = self.rng
        kind, dest = r.choice(("u32", "s32")), f"%d{r.randrange(LONGS)}"
        a, b = self.word(), self.word()
        if r.random() < 0.5:
            b = str(r.choice((1, 2, 4, 8, 12, 3, -4, 0x7FFFFFFF)))
        if r.random() < 0.5:
            self.emit(f"{self.guard(0.1)}mul.wide.{kind} {dest}, {a}, {b}")
        else:
            self.emit(f"{self.guard(0.1)}mad.wide.{kind} {dest}, {a}, {b}, {self.long()}")

    def shift(self) -> None:
        r = self.rng
        bits, stem, count = r.choice(((32, "r", WORDS), (64, "d", LONGS)))
        op, kind = r.choice((("shl", "b"), ("shl", "b"), ("shr", "u"), ("shr", "s"), ("shr", "b")))
        amount = str(r.choice((0, 1, 2, 3, 4, 5, 16, 31, 32, 63, 64, 77)))
        if r.random() < 0.2:
            amount = f"%r{r.randrange(WORDS)}"
        source = self.word() if bits == 32 else self.long()
        dest = f"%{stem}{r.randrange(count)}"
        self.emit(f"{self.guard(0.15)}{op}.{kind}{bits} {dest}, {source}, {amount}")

    def compare(self) -> None:
        r = self.rng
        test = r.choice(("eq", "ne", "lt", "le", "gt", "ge"))
        kind, source = r.choice((("u32", self.word), ("s32", self.word), ("s64", self.long)))
        if r.random() < 0.3:
            a = f"%u{r.randrange(UNIFORM)}"
            self.emit(f"setp.{test}.u32 {self.pred()}, {a}, {self.imm()}")
        elif r.random() < 0.25:
            p, q = r.sample(range(PREDS), 2)
            op = r.choice(("and", "or", "xor"))
            third = r.choice(("", "!")) + self.pred()
            self.emit(f"setp.{test}.{op}.{kind} %p{p}|%p{q}, {source()}, {source()}, {third}")
        else:
            self.emit(f"{self.guard(0.1)}setp.{test}.{kind} {self.pred()}, {source()}, {source()}")

    def choose(self) -> None:
        r = self.rng
        if r.random() < 0.7:
            dest, a, b, kind = f"%r{r.randrange(WORDS)}", self.word(), self.word(), "b32"
        else:
            dest, a, b, kind = f"%d{r.randrange(LONGS)}", self.long(), self.long(), "u64"
        self.emit(f"{self.guard(0.1)}selp.{kind} {dest}, {a}, {b}, {self.pred()}")

    def convert(self) -> None:
        r = self.rng
        to, source = r.choice("us"), r.choice("us")
        word, long = f"%r{r.randrange(WORDS)}", f"%d{r.randrange(LONGS)}"
        forms = (
            f"cvt.{to}64.{source}32 {long}, {word}",
            f"cvt.{to}64.{source}32 {long}, {word}",
            f"cvt.{to}32.{source}64 {word}, {long}",
            f"cvt.{to}32.{source}16 {word}, {word}",
            f"cvt.{to}32.{source}8 {word}, %r{r.randrange(WORDS)}",
            f"cvt.{to}64.{source}16 {long}, %r{r.randrange(WORDS)}",
            f"mov.b64 {long}, %d{r.randrange(LONGS)}",
            f"mov.b32 {word}, {self.word()}",
        )
        self.emit(self.guard(0.15) + r.choice(forms))

    def narrow(self) -> None:
        """Through 16-bit registers and back."""
        r = self.rng
        self.emit(f"cvt.u16.u32 %h0, %r{r.randrange(WORDS)}")
        self.emit(
            f"{r.choice(('add', 'sub', 'mul.lo'))}.{r.choice('us')}16 %h1, %h0, {r.randrange(99)}"
        )
        self.emit(f"mul.wide.{r.choice('us')}16 %r{r.randrange(WORDS)}, %h1, %h0")

    def divide(self) -> None:
        r = self.rng
        divisor = r.choice((1, 2, 3, 7, 10, 32, 64, 1000))
        kind = r.choice(("u32", "s32"))
        self.emit(
            f"{r.choice(('div', 'rem'))}.{kind} %r{r.randrange(WORDS)}, {self.word()}, {divisor}"
        )

    def pack(self) -> None:
        r = self.rng
        long = f"%d{r.randrange(LONGS)}"
        a, b = (f"%r{i}" for i in r.sample(range(WORDS), 2))
        self.emit(r.choice((f"mov.b64 {long}, {{{a}, {b}}}", f"mov.b64 {{{a}, {b}}}, {long}")))

    def predicates(self) -> None:
        r = self.rng
        if r.random() < 0.5:
            self.emit(
                f"{r.choice(('and', 'or', 'xor'))}.pred {self.pred()}, {self.pred()}, {self.pred()}"
            )
        else:
            self.emit(f"not.pred {self.pred()}, {self.pred()}")

    def uniform(self) -> None:
        r = self.rng
        op = r.choice(("add.u32", "sub.u32", "mul.lo.u32", "xor.b32", "and.b32"))
        self.emit(f"{op} %u{r.randrange(UNIFORM)}, {self.word(True)}, {self.word(True)}")

    # ---- memory -----------------------------------------------------------------------------
    def load(self, dest: int | None = None) -> None:
        """From the table, at an index that is cut to its size."""
        r = self.rng
        to = r.randrange(WORDS) if dest is None else dest
        kind, size = r.choice((("u32", 4), ("u32", 4), ("s16", 2), ("u8", 1), ("s8", 1), ("v2", 8)))
        self.emit(f"and.b32 %t0, {self.word()}, {TABLE_WORDS * 4 // size - 1}")
        offset = r.choice((0, 0, 1, -1))
        if offset == 1:
            self.emit(f"min.u32 %t0, %t0, {TABLE_WORDS * 4 // size - 2}")
        elif offset == -1:
            self.emit("max.u32 %t0, %t0, 1")
        self.emit(f"mul.wide.{r.choice('us')}32 %a0, %t0, {size}")
        self.emit("add.s64 %a1, %table, %a0")
        at = f"[%a1{offset * size:+d}]" if offset else "[%a1]"
        if kind == "v2":
            other = r.randrange(WORDS)
            if other != to:
                self.emit(f"{self.guard()}ld.global.v2.u32 {{%r{to}, %r{other}}}, {at}")
        else:
            self.emit(f"{self.guard()}ld.global.{kind} %r{to}, {at}")

    def store(self) -> None:
        slot = 4 * (STORED + self.rng.randrange(SCRATCH))
        source = f"%r{self.rng.randrange(WORDS)}"
        self.emit(f"{self.guard(0.5)}st.global.u32 [%mine+{slot}], {source}")
        if self.rng.random() < 0.4:
            self.emit(f"{self.guard()}ld.global.s32 %r{self.rng.randrange(WORDS)}, [%mine+{slot}]")

    def local(self) -> None:
        r = self.rng
        self.emit(f"and.b32 %t0, {self.word()}, 28")
        self.emit("mov.u32 %t1, lo")
        self.emit("add.u32 %t1, %t1, %t0")
        self.emit(f"{self.guard()}st.local.u32 [%t1], {self.word()}")
        self.emit(
            f"{self.guard()}ld.local.u32 %r{r.randrange(WORDS)}, [{r.choice(('%t1', 'lo+4'))}]"
        )

    def _own_slot(self) -> None:
        self.emit("mad.lo.u32 %t0, %tid.z, %ntid.y, %tid.y")
        self.emit("mad.lo.u32 %t0, %t0, %ntid.x, %tid.x")
        self.emit("shl.b32 %t1, %t0, 2")
        self.emit("mov.u32 %t2, sh")
        self.emit("add.u32 %t1, %t1, %t2")

    def own_shared(self) -> None:
        """The upper half of shared memory is each thread's own."""
        self._own_slot()
        self.emit(f"st.shared.u32 [%t1+4096], {self.word()}")
        self.emit(f"{self.guard()}ld.shared.u32 %r{self.rng.randrange(WORDS)}, [%t1+4096]")

    def exchange(self) -> None:
        """Write, wait, read a neighbour's, wait: only where all threads of the block come."""
        r = self.rng
        self._own_slot()
        self.emit(f"st.shared.u32 [%t1], %r{r.randrange(WORDS)}")
        self.emit("bar.sync 0")
        self.emit("mul.lo.u32 %t3, %ntid.x, %ntid.y")
        self.emit("mul.lo.u32 %t3, %t3, %ntid.z")
        self.emit(f"add.u32 %t0, %t0, {r.randrange(1, 70)}")
        self.emit("rem.u32 %t0, %t0, %t3")
        self.emit("shl.b32 %t0, %t0, 2")
        self.emit("add.u32 %t0, %t0, %t2")
        self.emit(f"ld.shared.u32 %r{r.randrange(WORDS)}, [%t0]")
        self.emit("bar.sync 0")
