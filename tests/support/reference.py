"""A slow, simple PTX interpreter: one thread after the other, in Python's integers.

It reads the same `PtxModule` as the simulated device and shares nothing else with it. It covers
what the fuzzers generate: integer arithmetic, comparisons, moves, branches, memory, block barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from weft.ptx.model import (
    SIZES,
    Imm,
    Instruction,
    Label,
    Mem,
    Not,
    Operand,
    Pair,
    PtxFunction,
    PtxModule,
    Reg,
    Sink,
    Special,
    Sym,
    Vec,
)

Shape = tuple[int, int, int]
MAX_STEPS = 200_000


class Stuck(Exception):
    """A thread ran past the step limit: the program under test is at fault."""


def bits_of(kind: str) -> int:
    return 1 if kind == "pred" else 8 * SIZES[kind]


def mask(kind: str) -> int:
    return (1 << bits_of(kind)) - 1


def number(raw: int, kind: str) -> int:
    """Bits as the number a type says they are."""
    raw &= mask(kind)
    return raw - (1 << bits_of(kind)) if kind[0] == "s" and raw >> bits_of(kind) - 1 else raw


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ALU: Mapping[str, Callable[..., int]] = {
    "add": lambda n, a, b: a + b,
    "sub": lambda n, a, b: a - b,
    "mul.lo": lambda n, a, b: a * b,
    "mul.hi": lambda n, a, b: a * b >> n,
    "mul.wide": lambda n, a, b: a * b,
    "mad.lo": lambda n, a, b, c: a * b + c,
    "mad.hi": lambda n, a, b, c: (a * b >> n) + c,
    "mad.wide": lambda n, a, b, c: a * b + c,
    "div": lambda n, a, b: _quotient(a, b),
    "rem": lambda n, a, b: a - b * _quotient(a, b),
    "min": lambda n, a, b: min(a, b),
    "max": lambda n, a, b: max(a, b),
    "abs": lambda n, a: abs(a),
    "neg": lambda n, a: -a,
    "and": lambda n, a, b: a & b,
    "or": lambda n, a, b: a | b,
    "xor": lambda n, a, b: a ^ b,
    "not": lambda n, a: ~a,
    "shl": lambda n, a, b: a << b if b < n else 0,
    "shr": lambda n, a, b: a >> min(b, n),
    "popc": lambda n, a: a.bit_count(),
    "clz": lambda n, a: n - a.bit_length(),
    "selp": lambda n, a, b, p: a if p else b,
}
"""Opcode (with its mode) -> the result, from the width and the operands as numbers."""

COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b, "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}  # fmt: skip
COMBINE: Mapping[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


@dataclass
class Memory:
    """Global memory: named buffers at addresses."""

    buffers: list[tuple[int, bytearray]] = field(default_factory=list)

    def find(self, address: int, size: int) -> tuple[bytearray, int]:
        for start, data in self.buffers:
            if start <= address and address + size <= start + len(data):
                return data, address - start
        raise IndexError(f"{size} bytes at {address:#x}")


@dataclass
class Thread:
    """One thread's state."""

    special: Mapping[str, int]
    spaces: Mapping[str, bytearray]
    memory: Memory
    registers: dict[str, int] = field(default_factory=dict)

    def place(self, space: str, address: int, size: int) -> tuple[bytearray, int]:
        if space == "global":
            return self.memory.find(address, size)
        data = self.spaces[space]
        if not 0 <= address <= len(data) - size:
            raise IndexError(f"{space} {address}")
        return data, address


Step = Callable[[Thread], None]
Read = Callable[[Thread], int]


class Interpreter:
    """One kernel of a module."""

    def __init__(self, module: PtxModule, entry: str) -> None:
        self.function: PtxFunction = module.functions[entry]
        self.offsets: dict[str, int] = {p.name: p.offset for p in self.function.params}
        self.sizes = {"shared": 0, "local": 0}
        for v in [*module.variables.values(), *self.function.variables.values()]:
            start = -(-self.sizes[v.space] // v.align) * v.align
            self.offsets[v.name], self.sizes[v.space] = start, start + v.size
        self.code = [x for x in self.function.body if isinstance(x, Instruction)]
        self.labels: dict[str, int] = {}
        at = 0
        for item in self.function.body:
            if isinstance(item, Label):
                self.labels[item.name] = at
            else:
                at += 1
        self.steps: list[Step | None] = [
            None if ins.parts[0] in ("bra", "brx", "ret", "exit", "bar") else self._step(ins)
            for ins in self.code
        ]

    # ---- running ----------------------------------------------------------------------------
    def run(self, grid: Shape, block: Shape, params: bytes, memory: Memory) -> None:
        """Every block in turn; the threads of one take turns at its barriers."""
        for z, y, x in product(*(range(n) for n in reversed(grid))):
            self._block((x, y, z), grid, block, params, memory)

    def _block(self, at: Shape, grid: Shape, block: Shape, params: bytes, memory: Memory) -> None:
        shared = bytearray(self.sizes["shared"])
        threads = []
        for n, (z, y, x) in enumerate(product(*(range(k) for k in reversed(block)))):
            special = {"laneid": n % 32}
            for name, triple in (
                ("tid", (x, y, z)), ("ntid", block), ("ctaid", at), ("nctaid", grid),
            ):  # fmt: skip
                special |= {f"{name}.{axis}": v for axis, v in zip("xyz", triple, strict=True)}
            spaces = {
                "shared": shared,
                "param": bytearray(params),
                "local": bytearray(self.sizes["local"]),
            }
            threads.append(self._thread(Thread(special, spaces, memory)))
        while threads:
            threads = [t for t in threads if next(t, "done") is None]

    def _thread(self, t: Thread) -> Iterator[None]:
        """Runs to the end; yields where it waits at a barrier."""
        pc = 0
        for _ in range(MAX_STEPS):
            if pc >= len(self.code):
                return
            ins, step = self.code[pc], self.steps[pc]
            pc += 1
            if ins.guard is not None and t.registers.get(ins.guard, 0) == ins.guard_negated:
                continue
            if step is not None:
                step(t)
                continue
            kind = ins.parts[0]
            if kind in ("ret", "exit"):
                return
            if kind == "bar":
                yield None
            else:
                pc = self._target(t, ins)
        raise Stuck(self.function.name)

    def _target(self, t: Thread, ins: Instruction) -> int:
        last = ins.operands[-1]
        assert isinstance(last, Sym)
        if ins.parts[0] == "bra":
            return self.labels[last.name]
        table = self.function.branch_targets[last.name]
        return self.labels[table[self._read(ins.operands[0], "u32")(t)]]

    # ---- operands ---------------------------------------------------------------------------
    def _read(self, operand: Operand, kind: str) -> Read:
        """A source as the number its type says."""
        match operand:
            case Reg(name):
                return lambda t: number(t.registers.get(name, 0), kind)
            case Imm(value):
                fixed = number(value, kind)
                return lambda t: fixed
            case Special(name):
                return lambda t: number(t.special[name], kind)
            case Sym(name, offset):
                return lambda t, v=self.offsets[name] + offset: v  # type: ignore[misc]
            case Not(of):
                inner = self._read(of, kind)
                return lambda t: inner(t) ^ 1
        raise NotImplementedError(operand)

    def _write(self, operand: Operand, kind: str) -> Callable[[Thread, int], None]:
        """A destination: narrow results are extended as their type says."""
        if isinstance(operand, Sink):
            return lambda t, v: None
        assert isinstance(operand, Reg)
        name, whole = operand.name, mask(self.function.registers[operand.name])

        def write(t: Thread, v: int) -> None:
            t.registers[name] = number(v, kind) & whole

        return write

    # ---- instructions -----------------------------------------------------------------------
    def _step(self, ins: Instruction) -> Step:
        special = {
            "mov": self._mov, "setp": self._setp, "cvt": self._cvt, "cvta": self._cvt,
            "ld": self._ld, "st": self._st,
        }.get(ins.parts[0])  # fmt: skip
        return special(ins) if special else self._alu(ins)

    def _alu(self, ins: Instruction) -> Step:
        kind = ins.parts[-1]
        f, n = ALU[".".join(ins.parts[:-1])], bits_of(kind)
        wide = f"{kind[0]}{2 * n}" if "wide" in ins.parts else kind
        result = "u32" if ins.parts[0] in ("popc", "clz") else wide
        kinds = [kind, kind, wide]
        if ins.parts[0] in ("shl", "shr"):
            kinds[1] = "u32"
        if ins.parts[0] == "selp":
            kinds[2] = "pred"
        reads = [self._read(o, k) for o, k in zip(ins.operands[1:], kinds, strict=False)]
        write = self._write(ins.operands[0], result)
        return lambda t: write(t, f(n, *[r(t) for r in reads]))

    def _setp(self, ins: Instruction) -> Step:
        dest, kind = ins.operands[0], ins.parts[-1]
        test = COMPARE[ins.parts[1]]
        a, b = (self._read(o, kind) for o in ins.operands[1:3])
        extra = [self._read(o, "pred") for o in ins.operands[3:]]
        combine = COMBINE[ins.parts[2]] if extra else None
        pair = (dest.first, dest.second) if isinstance(dest, Pair) else (dest,)
        writes = [self._write(o, "pred") for o in pair]

        def step(t: Thread) -> None:
            yes = int(test(a(t), b(t)))
            both = [yes, yes ^ 1]
            if combine is not None:
                c = extra[0](t)
                both = [combine(v, c) for v in both]
            for write, v in zip(writes, both, strict=False):
                write(t, v)

        return step

    def _cvt(self, ins: Instruction) -> Step:
        to, source = (ins.parts[-2], ins.parts[-1]) if ins.parts[0] == "cvt" else ("u64", "u64")
        read, write = self._read(ins.operands[1], source), self._write(ins.operands[0], to)
        return lambda t: write(t, read(t))

    def _mov(self, ins: Instruction) -> Step:
        dest, source, kind = *ins.operands, ins.parts[-1]
        if isinstance(dest, Vec):
            part = f"b{bits_of(kind) // len(dest.items)}"
            whole = self._read(source, kind)
            writes = [self._write(x, part) for x in dest.items]

            def unpack(t: Thread) -> None:
                v = whole(t)
                for i, write in enumerate(writes):
                    write(t, v >> i * bits_of(part))

            return unpack
        write = self._write(dest, kind)
        if isinstance(source, Vec):
            size = bits_of(kind) // len(source.items)
            reads = [self._read(x, f"b{size}") for x in source.items]
            return lambda t: write(t, sum(r(t) << i * size for i, r in enumerate(reads)))
        read = self._read(source, kind)
        return lambda t: write(t, read(t))

    def _address(self, operand: Operand, space: str) -> Read:
        assert isinstance(operand, Mem)
        kind = "u64" if space == "global" else "u32"
        base, offset = self._read(operand.base, kind), operand.offset
        return lambda t: base(t) + offset & mask(kind)

    def _access(
        self, ins: Instruction, mem: Operand, data: Operand
    ) -> tuple[str, Read, int, list[Operand]]:
        space = next(p for p in ins.parts if p in ("global", "shared", "local", "param"))
        items = list(data.items) if isinstance(data, Vec) else [data]
        return space, self._address(mem, space), SIZES[ins.parts[-1]], items

    def _ld(self, ins: Instruction) -> Step:
        kind = ins.parts[-1]
        space, address, size, items = self._access(ins, ins.operands[1], ins.operands[0])
        writes = [self._write(x, kind) for x in items]

        def step(t: Thread) -> None:
            data, at = t.place(space, address(t), size * len(writes))
            for i, write in enumerate(writes):
                write(t, int.from_bytes(data[at + i * size : at + (i + 1) * size], "little"))

        return step

    def _st(self, ins: Instruction) -> Step:
        kind = ins.parts[-1]
        space, address, size, items = self._access(ins, ins.operands[0], ins.operands[1])
        reads = [self._read(x, kind) for x in items]

        def step(t: Thread) -> None:
            data, at = t.place(space, address(t), size * len(reads))
            for i, read in enumerate(reads):
                raw = read(t) & mask(kind)
                data[at + i * size : at + (i + 1) * size] = raw.to_bytes(size, "little")

        return step


def run(
    module: PtxModule, entry: str, grid: Shape, block: Shape, params: bytes,
    buffers: Sequence[tuple[int, bytearray]],
) -> None:  # fmt: skip
    """Runs a grid; the buffers are changed in place."""
    Interpreter(module, entry).run(grid, block, params, Memory(list(buffers)))
