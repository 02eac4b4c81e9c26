"""Is every instruction one that can be compiled? Asked before anything else looks at a kernel.

What the instruction's row says is held against the operands as written: how many, of which kind,
registers of which width, names of which state space. After this no later stage meets an operand
that it cannot handle, however hostile the PTX.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.errors import PtxError, UnsupportedInstruction
from weft.ptx import isa
from weft.ptx.callgraph import call_graph, function_ids
from weft.ptx.model import (
    SIZES,
    FloatImm,
    Function,
    Imm,
    Instruction,
    Label,
    Mem,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vec,
)

VECTORS = frozenset(
    ("ld", "ldu", "st", "mov", "ldmatrix", "stmatrix", "wmma", "mma", "atom", "red")
)
"""Instructions that take `{a, b}`."""
WIDER = frozenset(("ld", "ldu", "st", "cvt"))
"""Instructions whose registers may be wider than their type."""
WARP_TYPES = {
    "shfl": {"d": "b32", "p": "pred", "a": "b32"},
    "vote": {"p": "pred", "a": "pred"},
    "activemask": {"d": "b32"},
    "isspacep": {"p": "pred"},
    "match": {"d": "b32", "p": "pred", "a": "type"},
    "redux": {"d": "b32", "a": "b32"},
    "mov": {"d": "type", "a": "type"},
    "ld": {"d": "type"},
    "ldu": {"d": "type"},
    "st": {"b": "type"},
    "atom": {"d": "type", "b": "type"},
    "red": {"b": "type"},
    "cvta": {"d": "size"},
}
"""The types of the operands of warp rows, by their names in the row's syntax."""
ABSENT = re.compile(r"pm\d.*|n?clusterid.*|cluster_.*|n?(tid|ctaid)")
"""Special registers that have no value here, and vectors that are read by their elements."""
MAX_LOCAL = 512 << 10
"""Bytes of local memory a thread may have on any GPU."""
MAX_PARAM = 32764
"""Bytes of a parameter on any GPU."""
_SLOT = re.compile(r"(\{,)?\s*(\[?)([\w|:*]+)")
_FLOATS = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
_COUNTS = ("v2", "v4", "v8", "x1", "x2", "x4")
_COUNTED = ("ld", "ldu", "st", "ldmatrix", "stmatrix")
_ONE_SPACE = ("global", "shared", "local", "const", "param")


@dataclass(frozen=True, slots=True)
class Slot:
    """One operand as the row's syntax has it."""

    name: str
    second: str
    memory: bool
    optional: bool

    @property
    def dest(self) -> bool:
        return self.name in ("d", "p")


@functools.cache
def slots(syntax: str) -> tuple[Slot, ...]:
    """The operands of a row."""
    out = []
    for optional, bracket, item in _SLOT.findall(syntax.partition(" ")[2]):
        first, _, second = item.partition(":")[0].partition("|")
        if "cc" not in (first, second):
            out.append(Slot(first, second, bool(bracket), bool(optional)))
        elif first != "cc":
            out.append(Slot(first, "", False, False))
    return tuple(out)


def place(ins: Instruction) -> str:
    """Where an instruction is, for a person."""
    ptx = f"PTX line {ins.ptx_line}"
    if ins.loc is None:
        return ptx
    own = ins.loc.own
    library = "" if own is ins.loc else f"in {ins.loc}, "
    return f"{own}{own.calls} ({library}{ptx})"


def unsupported(ins: Instruction) -> UnsupportedInstruction:
    """The error for an opcode without a row: says what forms there are."""
    near = isa.rows(ins.parts[0])
    return UnsupportedInstruction(
        f"{ins.opcode}: the simulated GPU does not cover this instruction",
        where=place(ins),
        got=ins.text,
        allowed="; ".join(sorted({r.syntax.split(" ")[0] for r in near}))
        or f"no form of '{ins.parts[0]}' is covered",
        next="`weft isa` lists every instruction that is covered",
    )


@contextmanager
def naming(current: Callable[[], Instruction]) -> Iterator[None]:
    """Gives errors that arise while code is emitted the instruction they arose at."""
    try:
        yield
    except PtxError as e:
        if e.where:
            raise
        ins = current()
        what, more = e.what, {"got": e.got or ins.text, "allowed": e.allowed, "next": e.next}
        raise type(e)(what, where=place(ins), **more) from None
    except (AssertionError, LookupError, TypeError, ValueError, AttributeError) as e:
        ins = current()
        if ins.parts[0] in ("mma", "wmma") and isinstance(e, ValueError):
            what = f"{ins.opcode}: an operand has not as many registers as its shape needs"
            raise PtxError(what, where=place(ins), got=ins.text) from e
        raise PtxError(
            f"{ins.opcode}: weft cannot compile this form",
            where=place(ins),
            got=ins.text,
            next=f"weft should have said why: please report it with this line ({e!r})",
        ) from e


def check(module: Module, entry: Function) -> None:
    """Raises PtxError for the first instruction of `entry`, or of what it calls, that is wrong."""
    names = [entry.name]
    if entry.calls:
        names = list(call_graph(module, entry, function_ids(module)).callees)
    for name in names:
        function = module.functions[name]
        size = sum(v.size for v in function.variables.values() if v.space == "local")
        if size > MAX_LOCAL:
            raise PtxError(
                f"{name} needs too much local memory",
                got=f"{size} bytes a thread",
                allowed=f"up to {MAX_LOCAL}",
            )
        _check_parameters(function)
        _Checker(module, function).run()


def _check_parameters(function: Function) -> None:
    """Those of a function are copied at each call, element by element."""
    sizes = [(p.name, p.size) for p in (*function.params, *function.returns)]
    sizes += [(v.name, v.size) for v in function.variables.values() if v.space == "param"]
    for name, size in sizes:
        if size > MAX_PARAM:
            raise PtxError(
                f"{function.name}: parameter '{name.partition('.')[0]}' is too large",
                got=f"{size} bytes",
                allowed=f"up to {MAX_PARAM}",
            )


class _Checker:
    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.labels = {x.name for x in function.body if isinstance(x, Label)}
        self.spaces = {v.name: v.space for v in module.variables.values()}
        self.spaces.update((v.name, v.space) for v in function.variables.values())
        self.spaces.update((p.name, "param") for p in (*function.params, *function.returns))
        self.found: dict[str, isa.Decoded | None] = {}
        self.ins = Instruction("", ("",), (), None, False, 0, "", None)

    def run(self) -> None:
        for ins in self.function.body:
            if isinstance(ins, Label):
                continue
            self.ins = ins
            if ins.opcode not in self.found:
                self.found[ins.opcode] = isa.lookup(ins.parts)
            decoded = self.found[ins.opcode]
            if decoded is None:
                raise unsupported(ins)
            self._instruction(ins, decoded)

    def fail(self, what: str, allowed: str = "") -> PtxError:
        ins = self.ins
        return PtxError(f"{ins.opcode}: {what}", where=place(ins), got=ins.text, allowed=allowed)

    def _instruction(self, ins: Instruction, d: isa.Decoded) -> None:
        base = ins.parts[0]
        if base == "call":
            return  # its arguments are held against the function when they are linked
        if base in ("bra", "brx"):
            self._branch(ins)
            return
        given, wanted = list(ins.operands), list(slots(d.row.syntax))
        self._count(given, wanted, d)
        if base == "bar" and "red" in ins.parts and len(given) == 3:
            wanted = [s for s in wanted if not s.optional]
        for operand, slot in zip(given, wanted, strict=False):
            self._operand(operand, slot, d)
        if base == "mov":
            self._mov(ins)
        by_lanes = base == "cp" and ins.parts[2] in ("ca", "cg")
        if by_lanes and given[2] not in (Imm(4), Imm(8), Imm(16)):
            raise self.fail("copies 4, 8 or 16 bytes")
        if "wait_group" in ins.parts and not (isinstance(given[0], Imm) and given[0].value >= 0):
            raise self.fail("waits until so many groups are left: a number")
        if base == "st" and any(x.startswith(("const", "param")) for x in ins.parts):
            self._written(given[0])

    def _count(self, given: list[Operand], wanted: list[Slot], d: isa.Decoded) -> None:
        least = sum(not s.optional for s in wanted)
        most = len(wanted) + ("L2::cache_hint" in self.ins.parts)
        if self.ins.parts[0] == "createpolicy":
            most = 5
        if not least <= len(given) <= most:
            counts = str(least) if least == most else f"{least} to {most}"
            raise self.fail(f"takes {counts} operands, {len(given)} are given", d.row.syntax)

    def _branch(self, ins: Instruction) -> None:
        count = 1 if ins.parts[0] == "bra" else 2
        target = ins.operands[-1] if len(ins.operands) == count else None
        if not isinstance(target, Sym):
            raise self.fail("needs a label", "bra label; or brx.idx index, targets;")
        if count == 1:
            labels: tuple[str, ...] = (target.name,)
        else:
            labels = self.function.branch_targets.get(target.name, ())
            self._source(ins.operands[0], "u32")
        missing = [x for x in labels if x not in self.labels]
        if missing or not labels:
            raise self.fail(f"'{(missing or [target.name])[0]}' is not a label of this function")

    # ---- one operand ------------------------------------------------------------------------
    def _operand(self, operand: Operand, slot: Slot, d: isa.Decoded) -> None:
        if slot.memory:
            self._memory(operand)
        elif slot.dest:
            self._dest(operand, slot, d)
        elif isinstance(operand, Vec):
            self._vector(operand, self._type(slot.name, d))
        else:
            self._source(operand, self._type(slot.name, d))

    def _type(self, name: str, d: isa.Decoded) -> str:
        """The PTX type an operand has; "" where the row itself sees to it."""
        if not d.row.warp:
            return d.types.get(name, "")
        kind = WARP_TYPES.get(self.ins.parts[0], {}).get(name, "")
        return d.words.get(kind, kind)

    def _dest(self, operand: Operand, slot: Slot, d: isa.Decoded) -> None:
        kind = self._type(slot.name, d)
        if isinstance(operand, Pair) and slot.second:
            second = self._type(slot.second, d) or "pred"
            for part, ty in ((operand.first, kind), (operand.second, second)):
                self._target(part, ty)
        elif isinstance(operand, Vec):
            self._vector(operand, kind, written=True)
        else:
            self._target(operand, kind)

    def _target(self, operand: Operand, kind: str) -> None:
        if isinstance(operand, Reg):
            self._width(operand, kind)
        elif not isinstance(operand, Sink):
            raise self.fail("its destination is not a register")

    def _vector(self, operand: Vec, kind: str, *, written: bool = False) -> None:
        base, parts = self.ins.parts[0], self.ins.parts
        count = next((int(p[1:]) for p in parts if p in _COUNTS), 0)
        if base not in VECTORS or (base in _COUNTED and len(operand.items) != count):
            raise self.fail(f"does not take a vector of {len(operand.items)}")
        if base == "mov":
            kind = f"b{8 * SIZES[kind] // len(operand.items)}" if len(operand.items) else ""
        for item in operand.items:
            if written:
                self._target(item, kind)
            else:
                self._source(item, kind)

    def _source(self, operand: Operand, kind: str) -> None:
        match operand:
            case Reg():
                self._width(operand, kind)
            case Imm():
                if kind in ("pred", *_FLOATS) and self.ins.parts[0] not in ("mov", "st"):
                    raise self.fail(f"an integer stands where .{kind} is wanted")
            case FloatImm(_, width):
                exact = SIZES.get(kind, 8) * 8
                if kind in ("f16", "bf16", "pred") or kind[:1] in ("u", "s") or exact < 32:
                    raise self.fail(f"a float literal stands where .{kind} is wanted")
                if width != exact and kind not in ("f32", ""):
                    raise self.fail(f"a literal of {width} bits stands where .{kind} is wanted")
            case Special(name):
                if ABSENT.fullmatch(name) or kind == "pred":
                    raise self.fail(f"%{name} cannot be read here")
            case Not(of=Reg() as register) if kind in ("pred", ""):
                self._width(register, "pred")
            case Sym(name):
                if name not in self.spaces and not (
                    self.ins.parts[0] == "mov" and name in self.module.functions
                ):
                    raise self.fail(f"'{name}' is not a variable")
            case _:
                raise self.fail("an operand is not of the kind it takes")

    def _memory(self, operand: Operand) -> None:
        if not isinstance(operand, Mem) or not isinstance(operand.base, Reg | Sym | Imm):
            raise self.fail(
                "needs an address in brackets", "[register+offset] or [variable+offset]"
            )
        base = operand.base
        if isinstance(base, Reg):
            if SIZES[self.function.registers[base.name]] < 4:
                raise self.fail("an address has 32 or 64 bits")
        elif isinstance(base, Sym):
            self._space(base.name)

    def _space(self, name: str) -> None:
        """A variable by name must be in the state space that the instruction accesses."""
        if name not in self.spaces:
            raise self.fail(f"'{name}' is not a variable")
        if self.ins.parts[0] == "cp":
            return
        words = {p.split("::")[0] for p in self.ins.parts[1:]}
        named = [s for s in _ONE_SPACE if s in words]
        allowed = named or ["global", "const"]
        if self.spaces[name] not in allowed:
            raise self.fail(
                f"'{name}' is in .{self.spaces[name]} memory",
                " ".join(f".{s}" for s in named) or "a generic address: convert it by cvta",
            )

    def _written(self, operand: Operand) -> None:
        """Constants and an entry's own parameters are read only."""
        base = operand.base if isinstance(operand, Mem) else operand
        own = {*self.function.variables, *(p.name for p in self.function.returns)}
        if "const" in self.ins.parts or not isinstance(base, Sym) or base.name not in own:
            raise self.fail("cannot be written")

    def _width(self, register: Reg, kind: str) -> None:
        declared = self.function.registers.get(register.name)
        if declared is None:
            raise self.fail(f"register {register.name} is not declared")
        if not kind or kind not in SIZES:
            return
        if "pred" in (declared, kind):
            fits = declared == kind
        elif self.ins.parts[0] in WIDER:
            fits = SIZES[declared] >= SIZES[kind]
        else:
            fits = SIZES[declared] == SIZES[kind]
        if not fits:
            raise self.fail(
                f"{register.name} is declared .{declared}, which does not fit .{kind}",
                f"a register of {8 * SIZES[kind]} bits" if kind != "pred" else "a predicate",
            )

    def _mov(self, ins: Instruction) -> None:
        dest, source = ins.operands
        vectors = [x for x in (dest, source) if isinstance(x, Vec)]
        kind = ins.parts[-1]
        bits = 8 * SIZES[kind]
        if len(vectors) == 2 or (vectors and kind == "pred"):
            raise self.fail("moves between a vector and one register")
        if any(len(v.items) not in (2, 4) or bits // len(v.items) < 8 for v in vectors):
            raise self.fail("takes vectors of 2 or 4")
