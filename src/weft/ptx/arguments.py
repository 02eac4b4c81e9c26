"""The parameters of functions as registers and local memory.

A `.param` that is only ever loaded and stored as one scalar becomes a register. The others
(structures by value, parameters whose address is taken) become local variables. The parameters of a
kernel itself stay unchanged.
"""

from __future__ import annotations

from dataclasses import field, replace

from weft.ptx import cfg, isa
from weft.ptx.isa.columns import Control
from weft.ptx.model import (
    SIZES,
    CallSite,
    Instruction,
    Label,
    Mem,
    Operand,
    Param,
    PtxFunction,
    PtxVariable,
    Reg,
    Sym,
)
from weft.ptx.normalise import Body, branch_around
from weft.records import dataclass

_REGISTER_TYPES = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}
_MOVABLE = ("b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")


@dataclass(slots=True)
class Lowered:
    """A function without `.param` variables; `calls` is by instruction index, as in its source.

    locals  local variables, parameters in memory among them: name to (size, align)
    """

    function: PtxFunction
    body: Body
    calls: dict[int, CallSite]
    registers: dict[str, str]
    locals: dict[str, tuple[int, int]] = field(default_factory=dict)
    others: dict[str, PtxVariable] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)

    def live_after_calls(self) -> dict[int, list[str]]:
        """For each call, the registers that are read after it and not written by it."""
        graph = cfg.build(self.body, self.function.branch_targets, _is_call, self._defs, self._uses)
        out: dict[int, list[str]] = {}
        for block in graph.blocks:
            if not block.code or not _is_call(block.code[-1]):
                continue
            call = block.code[-1]
            after = block.successors[0]
            live = set() if after == cfg.EXIT else graph.live_in[after]
            out[call.index] = sorted(live - set(self._defs(call)))
        return out

    def _defs(self, ins: Instruction) -> list[str]:
        if _is_call(ins):
            return [x for x in self.calls[ins.index].returns if x in self.registers]
        found = isa.lookup(ins.parts)
        if not ins.operands or (found is not None and not found.row.has_dest):
            return []
        return cfg.registers(ins.operands[0])

    def _uses(self, ins: Instruction) -> list[str]:
        guard = [ins.guard] if ins.guard else []
        if _is_call(ins):
            call = self.calls[ins.index]
            given = [x for x in call.arguments if x in self.registers]
            return given + cfg.registers(call.target) + guard
        written = self._defs(ins)
        sources = ins.operands[1:] if written else ins.operands
        return [r for o in sources for r in cfg.registers(o)] + guard


def _is_call(ins: Instruction) -> bool:
    return isa.control_of(ins.parts) is Control.CALL


def _leaves(ins: Instruction) -> bool:
    return isa.control_of(ins.parts) in (Control.CALL, Control.RETURN)


def lower(function: PtxFunction) -> Lowered:
    """The function with its parameters, and those of the calls it makes, lowered."""
    own: list[Param | PtxVariable] = [v for v in function.variables.values() if v.space == "param"]
    # The parameters of a kernel stay in the parameter block that the launch fills.
    if not function.is_entry:
        own += [p for p in (*function.params, *function.returns) if not p.is_register]
    wanted = {p.name: p for p in own}
    memory = _in_memory(function, wanted)
    registers = dict(function.registers)
    registers.update((n, _REGISTER_TYPES[p.size]) for n, p in wanted.items() if n not in memory)
    registers.update(
        (p.name, p.type) for p in (*function.params, *function.returns) if p.is_register
    )
    # A call and a return become several instructions, which one guard cannot cover.
    body = branch_around(function.body, _leaves, "skip:")
    calls: dict[int, CallSite] = {}
    out: Body = []
    for i, item in enumerate(body):
        if isinstance(item, Label):
            out.append(item)
            continue
        if _is_call(item):
            # Branches around guarded calls have shifted the positions.
            calls[i] = function.calls[item.index]
        placed = _placed(item, wanted, memory, registers, function.is_entry)
        out.append(replace(placed, index=i))
    variables = function.variables.values()
    sizes = {v.name: (v.size, v.align) for v in variables if v.space == "local"}
    # padded, so that they can be copied by words
    sizes.update((n, (-(-wanted[n].size // 8) * 8, max(wanted[n].align, 8))) for n in memory)
    others = {v.name: v for v in variables if v.space not in ("local", "param")}
    labels = {x.name for x in out if isinstance(x, Label)} | set(function.branch_targets)
    return Lowered(function, out, calls, registers, sizes, others, labels)


def _param_access(ins: Instruction) -> tuple[str, int] | None:
    """(parameter, byte offset) of `ld.param` and `st.param` by name."""
    decoded = isa.lookup(ins.parts)
    effects = decoded.row.effects if decoded is not None else ()
    if decoded is None or not effects or effects[0].state_space(decoded.words) != "param":
        return None
    mem = ins.operands[decoded.row.position(effects[0].operand)]
    if isinstance(mem, Mem) and isinstance(mem.base, Sym):
        return mem.base.name, mem.base.offset + mem.offset
    return None


def _in_memory(function: PtxFunction, wanted: dict[str, Param | PtxVariable]) -> set[str]:
    """The parameters that cannot be registers."""
    memory = {
        name
        for name, p in wanted.items()
        if p.size != SIZES.get(p.type) or p.size not in _REGISTER_TYPES
    }
    for item in function.body:
        if isinstance(item, Label) or _is_call(item):
            continue
        access = _param_access(item)
        if access is None or not _scalar(item, access[1], wanted.get(access[0])):
            memory.update(name for o in item.operands for name in symbols(o) if name in wanted)
    return memory


def _scalar(ins: Instruction, offset: int, p: Param | PtxVariable | None) -> bool:
    if p is None or offset or isa.decode(ins).elements > 1:
        return False
    size = SIZES[ins.parts[-1]]
    # A narrower load reads the low bytes of the register. A narrower store would have to keep the
    # others, so it makes the parameter a variable in memory.
    return size == p.size or (isa.decode(ins).row.is_load and size < p.size)


def taken_apart(function: PtxFunction, name: str) -> Instruction | None:
    """The first access to a variable of a call that is not to all of it as one scalar."""
    p = function.variables.get(name)
    for item in function.body:
        if isinstance(item, Label) or _is_call(item):
            continue
        if any(name in symbols(o) for o in item.operands):
            access = _param_access(item)
            if access is None or not _scalar(item, access[1], p):
                return item
    return None


def symbols(operand: Operand) -> list[str]:
    """All names of variables, labels and functions inside an operand."""
    if isinstance(operand, Sym):
        return [operand.name]
    if isinstance(operand, Mem):
        return symbols(operand.base)
    return [name for x in getattr(operand, "items", ()) for name in symbols(x)]


def _placed(
    ins: Instruction,
    wanted: dict[str, Param | PtxVariable],
    memory: set[str],
    registers: dict[str, str],
    is_entry: bool,
) -> Instruction:
    access = _param_access(ins)
    if access is not None and access[0] in wanted and access[0] not in memory:
        place = Reg(access[0])
        if isa.decode(ins).row.is_load:
            return _move(ins, ins.operands[0], place, registers)
        return _move(ins, place, ins.operands[1], registers)
    named = any(name in memory for o in ins.operands for name in symbols(o))
    if named or not is_entry:  # only a kernel has parameters that are not in local memory
        parts = tuple("local" if p.startswith("param") else p for p in ins.parts)
        return _with_parts(ins, parts) if parts != ins.parts else ins
    return ins


def _with_parts(ins: Instruction, parts: tuple[str, ...]) -> Instruction:
    return replace(ins, opcode=".".join(parts), parts=parts)


def _move(
    ins: Instruction, dest: Operand, source: Operand, registers: dict[str, str]
) -> Instruction:
    """A copy as the type of the access says: plain where all widths agree, else a conversion."""
    kind = ins.parts[-1]
    sizes = {SIZES[registers[o.name]] for o in (dest, source) if isinstance(o, Reg)}
    if sizes == {SIZES[kind]} or not isinstance(source, Reg):
        # `mov` has neither 8-bit nor half-precision types.
        plain = kind if kind in _MOVABLE else f"b{8 * max(2, SIZES[kind])}"
        return replace(_with_parts(ins, ("mov", plain)), operands=(dest, source))
    assert isinstance(dest, Reg)
    sign = "s" if kind[0] == "s" else "u"
    width = 8 * SIZES[registers[dest.name]]
    parts = ("cvt", f"{sign}{width}", f"{sign}{8 * SIZES[kind]}")
    return replace(_with_parts(ins, parts), operands=(dest, source))
