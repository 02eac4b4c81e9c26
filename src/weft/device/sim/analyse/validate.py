"""Checks that every instruction can be compiled, before any other stage looks at a kernel.

The operands are compared with the instruction's row: how many, of which kind, registers of which
width, names of which state space. After this no later stage meets an operand that it cannot handle,
however hostile the PTX.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from weft.errors import PtxError, UnsupportedInstruction
from weft.ptx import isa
from weft.ptx.callgraph import call_graph, function_ids
from weft.ptx.isa.columns import GENERIC, Accepts, Control
from weft.ptx.model import (
    SIZES,
    FloatImm,
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

ABSENT = re.compile(r"pm\d.*|n?(tid|ctaid|clusterid)|cluster_n?ctaid")
"""Special registers that have no value here, and vectors that are read by their elements."""
PREDICATES = ("is_explicit_cluster",)
"""Special registers that hold a predicate."""
MAX_LOCAL = 512 << 10
"""Bytes of local memory a thread may have on any GPU."""
MAX_PARAM = 32764
"""Bytes of a parameter on any GPU."""
_FLOATS = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")
_VECTORS = Accepts.PACK | Accepts.COUNTED | Accepts.FRAGMENT


def place(ins: Instruction) -> str:
    """The position of an instruction, for messages."""
    ptx = f"PTX line {ins.ptx_line}"
    if ins.loc is None:
        return ptx
    line = ins.loc.own
    library = "" if line is ins.loc else f"in {ins.loc}, "
    return f"{line}{line.calls} ({library}{ptx})"


def unsupported(ins: Instruction) -> UnsupportedInstruction:
    """The error for an opcode without a row: lists the supported forms."""
    near = isa.rows(ins.parts[0])
    words = {x for row in near if (x := _fitting(row, ins.parts))}
    forms = words or {r.syntax.split(" ")[0] for r in near}
    return UnsupportedInstruction(
        f"{ins.opcode}: the simulated GPU does not cover this instruction",
        where=place(ins),
        got=ins.text,
        allowed="; ".join(sorted(forms)) or f"no form of '{ins.parts[0]}' is covered",
        next="`weft isa` lists every instruction that is covered",
    )


def _fitting(row: isa.InstructionRow, parts: Sequence[str]) -> str:
    """The words that a row takes in place of the only one that does not fit; "" for other rows."""
    free, wrong = list(row.parts), []
    for word in parts[1:]:
        at = next((i for i, (n, _) in enumerate(free) if word in row.modifiers.get(n, {n})), None)
        if at is None:
            wrong.append(word)
        else:
            del free[at]
    missing = [name for name, optional in free if not optional]
    if len(wrong) != 1 or len(missing) != 1 or missing[0] not in row.modifiers:
        return ""
    opcode = row.syntax.split(" ")[0]
    return f"{opcode} with .{missing[0]} {_listed(row.modifiers[missing[0]])}"


def _listed(words: Iterable[str]) -> str:
    """All words, in the order of their numbers; of many, the first and the last."""
    numbers = {w: [int(x) for x in re.findall(r"\d+", w)] for w in words}
    ordered = sorted(numbers, key=lambda w: (numbers[w], w))
    return " ".join(ordered if len(ordered) <= 8 else [*ordered[:4], "…", *ordered[-2:]])


@contextmanager
def naming(current: Callable[[], Instruction]) -> Iterator[None]:
    """Add the current instruction to errors that are raised during code generation."""
    try:
        yield
    except PtxError as e:
        if e.where:
            raise
        ins = current()
        what, more = e.what, {"got": e.got or ins.text, "allowed": e.allowed, "next": e.next}
        raise type(e)(what, where=place(ins), **more) from None
    # A defect of the code generator must still name the instruction that it happened at.
    except (AssertionError, LookupError, TypeError, ValueError, AttributeError) as e:
        ins = current()
        decoded = isa.lookup(ins.parts)
        fragment = decoded is not None and Accepts.FRAGMENT in decoded.row.accepts
        if fragment and isinstance(e, ValueError):
            what = f"{ins.opcode}: an operand has not as many registers as its shape needs"
            raise PtxError(what, where=place(ins), got=ins.text) from e
        raise PtxError(
            f"{ins.opcode}: weft cannot compile this form",
            where=place(ins),
            got=ins.text,
            next=f"weft should have said why: please report it with this line ({e!r})",
        ) from e


def check(module: PtxModule, entry: PtxFunction) -> None:
    """Raise PtxError for the first instruction of `entry`, or of what it calls, that is wrong."""
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


def _check_parameters(function: PtxFunction) -> None:
    """Check a function's parameters: each call copies them element by element."""
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
    def __init__(self, module: PtxModule, function: PtxFunction) -> None:
        self.module, self.function = module, function
        self.labels = {x.name for x in function.body if isinstance(x, Label)}
        self.spaces = {v.name: v.space for v in module.variables.values()}
        self.spaces.update((v.name, v.space) for v in function.variables.values())
        self.spaces.update((p.name, "param") for p in (*function.params, *function.returns))
        self.ins = Instruction("", ("",), (), None, False, 0, "", None)

    def run(self) -> None:
        for ins in self.function.body:
            if isinstance(ins, Label):
                continue
            self.ins = ins
            decoded = isa.lookup(ins.parts)
            if decoded is None:
                raise unsupported(ins)
            self._instruction(ins, decoded)

    def fail(self, what: str, allowed: str = "") -> PtxError:
        ins = self.ins
        return PtxError(f"{ins.opcode}: {what}", where=place(ins), got=ins.text, allowed=allowed)

    def _instruction(self, ins: Instruction, d: isa.Decoded) -> None:
        control = d.row.control
        if control is Control.CALL:
            return  # its arguments are compared with the function when they are linked
        if control in (Control.BRANCH, Control.TABLE):
            self._branch(ins, control)
            return
        wanted = self._wanted(ins, d)
        # A cache hint is an operand more than the row has.
        for operand, spec in zip(ins.operands, wanted, strict=False):
            self._operand(operand, spec, d)
        if Accepts.PACK in d.row.accepts:
            self._pack(ins)
        for effect in d.row.effects:
            space = effect.state_space(d.words)
            if effect.writes and space in ("const", "param"):
                self._writable(ins.operands[d.row.position(effect.operand)], space)

    def _wanted(self, ins: Instruction, d: isa.Decoded) -> list[isa.OperandSpec]:
        """The operands of the row that the instruction has."""
        count, wanted = len(ins.operands), list(d.row.written)
        needed = [spec for spec in wanted if not spec.optional]
        most = len(wanted) + d.has_cache_hint
        if not len(needed) <= count <= most:
            counts = str(len(needed)) if len(needed) == most else f"{len(needed)} to {most}"
            raise self.fail(f"takes {counts} operands, {count} are given", d.row.syntax)
        return needed if count == len(needed) else wanted

    def _branch(self, ins: Instruction, control: Control) -> None:
        count = 1 if control is Control.BRANCH else 2
        target = ins.operands[-1] if len(ins.operands) == count else None
        if not isinstance(target, Sym):
            raise self.fail("needs a label", "bra label; or brx.idx index, targets;")
        if count == 1:
            labels: tuple[str, ...] = (target.name,)
        else:
            labels = self.function.branch_targets.get(target.name, ())
            self._source(ins.operands[0], "u32", isa.decode(ins).row)
        missing = [x for x in labels if x not in self.labels]
        if missing or not labels:
            raise self.fail(f"'{(missing or [target.name])[0]}' is not a label of this function")

    # ---- one operand ------------------------------------------------------------------------
    def _operand(self, operand: Operand, spec: isa.OperandSpec, d: isa.Decoded) -> None:
        kind = d.types[spec.name]
        if spec.name in d.row.literals:
            self._literal(operand, d.row.literals[spec.name])
        elif spec.memory:
            self._memory(operand, spec, d)
        elif spec.is_dest:
            self._dest(operand, spec, d)
        elif isinstance(operand, Vec):
            self._vector(operand, kind, d.row)
        else:
            self._source(operand, kind, d.row)

    def _literal(self, operand: Operand, numbers: Sequence[int]) -> None:
        if not isinstance(operand, Imm) or operand.value not in numbers:
            several = isinstance(numbers, range)
            listed = "0 or more" if several else ", ".join(str(n) for n in numbers)
            raise self.fail("an operand is not a literal of those it takes", listed)

    def _dest(self, operand: Operand, spec: isa.OperandSpec, d: isa.Decoded) -> None:
        kind = d.types[spec.name]
        if isinstance(operand, Pair) and spec.pair:
            if isinstance(operand.first, Vec):
                self._vector(operand.first, kind, d.row, written=True)
            else:
                self._target(operand.first, kind, d.row)
            self._target(operand.second, "pred", d.row)
        elif isinstance(operand, Vec):
            self._vector(operand, kind, d.row, written=True)
        else:
            self._target(operand, kind, d.row)

    def _target(self, operand: Operand, kind: str, row: isa.InstructionRow) -> None:
        if isinstance(operand, Reg):
            self._width(operand, kind, row)
        elif not isinstance(operand, Sink):
            raise self.fail("its destination is not a register")

    def _vector(
        self, operand: Vec, kind: str, row: isa.InstructionRow, *, written: bool = False
    ) -> None:
        size = len(operand.items)
        if not row.accepts & _VECTORS or (
            Accepts.COUNTED in row.accepts and size != isa.decode(self.ins).vector_length
        ):
            raise self.fail(f"does not take a vector of {size}")
        if Accepts.PACK in row.accepts:
            kind = f"b{8 * SIZES[kind] // size}" if size else ""
        for item in operand.items:
            if written:
                self._target(item, kind, row)
            else:
                self._source(item, kind, row)

    def _source(self, operand: Operand, kind: str, row: isa.InstructionRow) -> None:
        match operand:
            case Reg():
                self._width(operand, kind, row)
            case Imm(value):
                truth = kind == "pred" and Accepts.TRUTH in row.accepts and value in (0, 1, -1)
                if kind in ("pred", *_FLOATS) and Accepts.BITS not in row.accepts and not truth:
                    raise self.fail(f"an integer stands where .{kind} is wanted")
            case FloatImm(_, width):
                exact = SIZES.get(kind, 8) * 8
                if kind in ("f16", "bf16", "pred") or kind[:1] in ("u", "s") or exact < 32:
                    raise self.fail(f"a float literal stands where .{kind} is wanted")
                # A decimal literal has 64 bits and is rounded where f32 is wanted.
                if width != exact and kind not in ("f32", ""):
                    raise self.fail(f"a literal of {width} bits stands where .{kind} is wanted")
            case Special(name):
                if ABSENT.fullmatch(name) or (kind == "pred") != (name in PREDICATES):
                    raise self.fail(f"%{name} cannot be read here")
            case Not(of=Reg() as register) if kind in ("pred", ""):
                self._width(register, "pred", row)
            case Sym(name):
                function = Accepts.FUNCTION in row.accepts and name in self.module.functions
                if name not in self.spaces and not function:
                    raise self.fail(f"'{name}' is not a variable")
            case _:
                raise self.fail("an operand is not of the kind it takes")

    def _memory(self, operand: Operand, spec: isa.OperandSpec, d: isa.Decoded) -> None:
        if not isinstance(operand, Mem) or not isinstance(operand.base, Reg | Sym | Imm):
            raise self.fail(
                "needs an address in brackets", "[register+offset] or [variable+offset]"
            )
        base = operand.base
        if isinstance(base, Reg):
            if SIZES[self.function.registers[base.name]] < 4:
                raise self.fail("an address has 32 or 64 bits")
        elif isinstance(base, Sym):
            self._space(base.name, self._spaces(spec, d))

    def _spaces(self, spec: isa.OperandSpec, d: isa.Decoded) -> list[str]:
        """The state space that the instruction names for an address; none where it is generic."""
        for effect in d.row.effects:
            if effect.operand == spec.name:
                space = effect.state_space(d.words)
                return [] if space == GENERIC else [space]
        return [] if d.space == GENERIC else [d.space]  # a hint, which accesses nothing

    def _space(self, name: str, named: list[str]) -> None:
        """A variable by name must be in the state space that the instruction accesses."""
        if name not in self.spaces:
            raise self.fail(f"'{name}' is not a variable")
        allowed = named or ["global", "const"]
        if self.spaces[name] not in allowed:
            raise self.fail(
                f"'{name}' is in .{self.spaces[name]} memory",
                " ".join(f".{s}" for s in named) or "a generic address: convert it by cvta",
            )

    def _writable(self, operand: Operand, space: str) -> None:
        """Constants and an entry's own parameters are read only."""
        base = operand.base if isinstance(operand, Mem) else operand
        # `st.param` writes the arguments of calls and a function's own results.
        names = {*self.function.variables, *(p.name for p in self.function.returns)}
        if space == "const" or not isinstance(base, Sym) or base.name not in names:
            raise self.fail("cannot be written")

    def _width(self, register: Reg, kind: str, row: isa.InstructionRow) -> None:
        declared = self.function.registers.get(register.name)
        if declared is None:
            raise self.fail(f"register {register.name} is not declared")
        if declared == kind or kind not in SIZES:
            return
        if "pred" in (declared, kind):
            fits = declared == kind
        elif Accepts.WIDER in row.accepts:
            fits = SIZES[declared] >= SIZES[kind]
        else:
            fits = SIZES[declared] == SIZES[kind]
        if not fits:
            raise self.fail(
                f"{register.name} is declared .{declared}, which does not fit .{kind}",
                f"a register of {8 * SIZES[kind]} bits" if kind != "pred" else "a predicate",
            )

    def _pack(self, ins: Instruction) -> None:
        """Between a vector and one register of all its bits, or between two registers."""
        dest, source = ins.operands
        vectors = [x for x in (dest, source) if isinstance(x, Vec)]
        kind = isa.decode(ins).type
        bits = 8 * SIZES[kind]
        if len(vectors) == 2 or (vectors and kind == "pred"):
            raise self.fail("moves between a vector and one register")
        if any(len(v.items) not in (2, 4) or bits // len(v.items) < 8 for v in vectors):
            raise self.fail("takes vectors of 2 or 4")
