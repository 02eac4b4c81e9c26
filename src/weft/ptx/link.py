"""A kernel and all the functions it calls, as one body.

A call becomes control flow: the arguments are copied into the callee's registers, the number of
the return site into its return register, and its `ret` becomes a branch over its return sites. So
barriers, divergence and indirect calls need nothing else. A small function is copied to each of
its call sites; recursive ones are there once, and keep what is live across a call, and their local
variables, in frames on a stack in local memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import PtxError
from weft.ptx.arguments import Lowered, lower, taken_apart
from weft.ptx.callgraph import call_graph, function_ids, targets
from weft.ptx.instance import POINTER, RETURN, Instance, frame_of
from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.ptx.model import (
    SIZES,
    CallSite,
    Imm,
    Instruction,
    Label,
    Mem,
    Operand,
    Param,
    PtxFunction,
    PtxModule,
    PtxVariable,
    Reg,
    Sink,
    Sym,
)
from weft.ptx.services import (
    DEVICE_RUNTIME,
    NO_MEMORY,
    NOT_A_FUNCTION,
    OUTPUTS,
    SERVICES,
    STACK_BYTES,
    STACK_FULL,
)

STACK, LIMIT, TEST = "stack:", "stack:limit", "call:test"


def link(module: PtxModule, entry: PtxFunction) -> PtxFunction:
    """`entry` with everything it calls; itself when it calls nothing and takes no address."""
    ids = function_ids(module)
    if not entry.calls and not ids:
        return entry
    return _Linker(module, entry, ids).run()


class _Linker:
    def __init__(self, module: PtxModule, entry: PtxFunction, ids: dict[str, int]) -> None:
        self.module, self.entry, self.ids = module, entry, ids
        self.graph = call_graph(module, entry, ids)
        self.lowered: dict[str, Lowered] = {}
        self.shared: dict[str, Instance] = {}
        self.queue: list[Instance] = []
        self.copies = self.labels = 0
        self.out = replace(entry, registers={}, variables={}, body=[], calls={}, branch_targets={})
        self.at = Instruction("", ("",), (), None, False, 0, "", None)

    def run(self) -> PtxFunction:
        self._emit(Instance(self._lowered(self.entry.name), "", False, None, self.ids))
        while self.queue:
            self._emit(self.queue.pop(0))
        for instance in self.shared.values():
            self.out.branch_targets[f"{instance.prefix}returns"] = tuple(instance.sites)
        # Instructions of a copy still have the index of their source; in the linked body each needs
        # its own.
        for i, ins in enumerate(x for x in self.out.body if not isinstance(x, Label)):
            ins.index = i
        return self.out

    # ---- functions --------------------------------------------------------------------------
    def _lowered(self, name: str) -> Lowered:
        if name not in self.lowered:
            self.lowered[name] = lower(self.module.functions[name])
        return self.lowered[name]

    def _instance(self, name: str) -> Instance:
        code = self._lowered(name)
        if self.graph.copied(name):
            self.copies += 1
            fresh = Instance(code, f"{name}:{self.copies}:", False, None, self.ids)
            self.queue.append(fresh)
            return fresh
        if name not in self.shared:
            frame = frame_of(code) if name in self.graph.recursive else None
            self.shared[name] = Instance(code, f"{name}:", True, frame, self.ids)
            self.queue.append(self.shared[name])
        return self.shared[name]

    def _start_stack(self) -> None:
        self.out.variables[STACK] = PtxVariable(STACK, "local", "b8", 16, STACK_BYTES)
        self.out.registers.update({POINTER: "b64", LIMIT: "b64", TEST: "pred"})
        self._add("mov.u64", Reg(POINTER), Sym(STACK))

    def _emit(self, me: Instance) -> None:
        self._declare(me)
        self.at = next((x for x in me.code.body if isinstance(x, Instruction)), self.at)
        if me.prefix:
            self.out.body.append(Label(f"{me.prefix}entry"))
        if me.frame is not None:
            self._check_stack(me.prefix, me.frame.size)
        elif not me.prefix and self.graph.recursive:
            self._start_stack()
        for item in me.code.body:
            if isinstance(item, Label):
                self.out.body.append(Label(me.prefix + item.name))
                continue
            self.at = item
            if control_of(item.parts) is Control.CALL:
                self._call(me, me.code.calls[item.index])
            elif control_of(item.parts) is Control.RETURN and me.prefix:
                self._return(me)
            else:
                self.out.body.append(me.renamed(item))
        if me.prefix:
            self._return(me)
        else:
            self._add("ret")

    def _declare(self, me: Instance) -> None:
        registers = {me.prefix + n: t for n, t in me.code.registers.items()}
        self.out.registers.update(registers)
        if me.shared:
            self.out.registers[me.prefix + RETURN] = "b32"
        if me.frame is None:
            for name, (size, align) in me.code.locals.items():
                at = me.variable(name)
                self.out.variables[at] = PtxVariable(at, "local", "b8", align, size)
        for name, variable in me.code.others.items():
            at = me.variable(name)
            self.out.variables[at] = replace(variable, name=at)
        for name, labels in me.code.function.branch_targets.items():
            self.out.branch_targets[me.prefix + name] = tuple(me.prefix + x for x in labels)

    def _return(self, me: Instance) -> None:
        if me.shared:
            self._add("brx.idx", Reg(me.prefix + RETURN), Sym(f"{me.prefix}returns"))
        else:
            self._add("bra", Sym(me.sites[0]))

    # ---- instructions -----------------------------------------------------------------------
    def _add(self, opcode: str, *operands: Operand, guard: str | None = None) -> None:
        """An instruction of the linker's own, at the place of the one it stands for."""
        parts = tuple(opcode.split("."))
        at = replace(self.at, opcode=opcode, parts=parts, operands=operands)
        self.out.body.append(replace(at, guard=guard, guard_negated=False))

    # ---- calls ------------------------------------------------------------------------------
    def _call(self, me: Instance, call: CallSite) -> None:
        for x in (*call.arguments, *call.returns):
            integer = x in call.arguments and x.lstrip("-").isdecimal()
            if x not in me.code.registers and x not in me.code.locals and not integer:
                raise PtxError(
                    f"call: '{x}' cannot be passed",
                    where=f"PTX line {self.at.ptx_line}",
                    got=self.at.text,
                    allowed="a .param variable, a register or an integer",
                )
        # A direct call has one callee. An indirect one compares the pointer with the number of each
        # candidate, so that the control flow graph has an edge to every function it may reach.
        if isinstance(call.target, Sym):
            self._direct(me, call, call.target.name)
            return
        end = self._label()
        target = me.operand(call.target)
        self.out.registers[TEST] = "pred"
        for name in targets(self.module, me.code.function, call, self.ids):
            following = self._label()
            self._add("setp.ne.u64", Reg(TEST), target, Imm(self.ids[name]))
            self._add("bra", Sym(following.name), guard=TEST)
            self._direct(me, call, name)
            self._add("bra", Sym(end.name))
            self.out.body.append(following)
        # No candidate has this number: the pointer is not a function's, and the launch ends.
        self._add("call", Sink(), Sym(NOT_A_FUNCTION), target)
        self.out.body.append(end)

    def _label(self) -> Label:
        self.labels += 1
        return Label(f"link:{self.labels}")

    def _direct(self, me: Instance, call: CallSite, name: str) -> None:
        if name in SERVICES:
            self._service(me, call, name)
            return
        callee = self._instance(name)
        function, frame = callee.code.function, me.frame
        for given, wanted in ((call.arguments, function.params), (call.returns, function.returns)):
            if len(given) != len(wanted):
                raise PtxError(
                    f"a call of {name} does not fit it",
                    where=f"PTX line {self.at.ptx_line}",
                    got=f"{len(given)} values",
                    allowed=f"{len(wanted)}",
                )
        saved = self._saved(me, name)
        # Registers are saved before the stack pointer moves and restored after it has moved back:
        # their places are relative to the frame of this activation.
        self._save(saved)
        # A callee that reaches no frame cannot overwrite this one, so the pointer stays.
        shift = frame.size if frame is not None and self.graph.needs_stack(name) else 0
        if shift:
            self._add("add.s64", Reg(POINTER), Reg(POINTER), Imm(shift))
        self._pass(me, callee, call.arguments, shift)
        back = self._label()
        if callee.shared:
            self._add("mov.u32", Reg(callee.prefix + RETURN), Imm(len(callee.sites)))
        callee.sites.append(back.name)
        self._add("bra", Sym(f"{callee.prefix}entry"))
        self.out.body.append(back)
        for result, p in zip(call.returns, function.returns, strict=True):
            self._transfer(callee, p.name, 0, me, result, shift, p)
        if shift:
            self._add("add.s64", Reg(POINTER), Reg(POINTER), Imm(-shift))
        self._restore(saved)

    def _service(self, me: Instance, call: CallSite, name: str) -> None:
        if len(call.arguments) != SERVICES[name]:
            raise PtxError(
                f"{name} takes {SERVICES[name]} arguments",
                where=f"PTX line {self.at.ptx_line}",
                got=self.at.text,
            )
        takes_structures = name in DEVICE_RUNTIME
        for x in call.returns if takes_structures else (*call.arguments, *call.returns):
            if x in me.code.locals:
                raise self._not_one_value(me, name, x)
        result: Operand = Reg(me.prefix + call.returns[0]) if call.returns else Sink()
        values = [v for x in call.arguments for v in self._values(me, x)]
        if name in OUTPUTS:
            self._output(name, result, values)
        else:
            self._add("call", result, Sym(name), *values)

    def _output(self, name: str, result: Operand, values: Sequence[Operand]) -> None:
        """Store the result of a service: by an instruction, which is checked like any other."""
        size = OUTPUTS[name]
        held = f"service:{8 * size}"
        self.out.registers[held], self.out.registers[TEST] = f"b{8 * size}", "pred"
        self._add("call", Reg(held), Sym(name), *values)
        assert isinstance(values[0], Reg)
        self._add(f"st.b{8 * size}", Mem(values[0], 0), Reg(held))
        if isinstance(result, Sink):
            return
        # Only pointers and handles have 8 bytes, and none of them is null.
        missing = Imm(NO_MEMORY if size == 8 else 0)
        self._add(f"setp.eq.s{8 * size}", Reg(TEST), Reg(held), Imm(0))
        self._add("selp.b32", result, missing, Imm(0), Reg(TEST))

    def _values(self, me: Instance, name: str) -> list[Operand]:
        """An argument of a service: one value, or the words of a structure such as dim3."""
        if name not in me.code.locals:
            return [me.scalar(name)]
        out: list[Operand] = []
        for at in range(0, me.code.function.variables[name].size, 4):
            word = f"{me.prefix}{name}:word{at}"
            self.out.registers[word] = "b32"
            self._add("ld.local.b32", Reg(word), me.place(name, at))
            out.append(Reg(word))
        return out

    def _not_one_value(self, me: Instance, service: str, name: str) -> PtxError:
        """The error for an access that does not treat a service's operand as one scalar."""
        function = me.code.function
        ins = taken_apart(function, name) or self.at
        size = function.variables[name].size if name in function.variables else 8
        return PtxError(
            f"{ins.opcode}: '{name.partition('.')[0]}' of {service} is one value of {size} bytes",
            where=f"PTX line {ins.ptx_line}",
            got=ins.text,
            allowed=f"st.param.b{8 * size} [{name.partition('.')[0]}], register;",
        )

    # ---- arguments and results --------------------------------------------------------------
    def _pass(self, me: Instance, callee: Instance, given: Sequence[str], shift: int) -> None:
        """Registers of a recursive function may be both source and target: copy them first."""
        params = callee.code.function.params
        passed = list(given)
        if me is callee:
            for i, (name, p) in enumerate(zip(given, params, strict=True)):
                if p.is_register and name in me.code.registers:
                    passed[i] = f"argument:{i}"
                    me.code.registers[passed[i]] = p.type
                    self.out.registers[me.prefix + passed[i]] = p.type
                    self._move(p.type, me.prefix + passed[i], Reg(me.prefix + name))
        for name, p in zip(passed, params, strict=True):
            self._transfer(me, name, shift, callee, p.name, 0, p)

    def _transfer(
        self, source: Instance, name: str, back: int, dest: Instance, into: str, past: int, p: Param
    ) -> None:
        """Copy a value between functions; `back` and `past` are the distances of their frames."""
        kind = source.code.registers.get(name) or dest.code.registers.get(into) or "b32"
        if name not in source.code.locals and into not in dest.code.locals:
            self._move(kind, dest.prefix + into, source.scalar(name))
        elif name not in source.code.locals:
            at = dest.place(into, 0, past)
            self._add(f"st.local.b{8 * p.size}", at, source.scalar(name))
        elif into not in dest.code.locals:
            at = source.place(name, 0, back)
            self._add(f"ld.local.b{8 * p.size}", Reg(dest.prefix + into), at)
        else:
            self._move_bytes(source, name, back, dest, into, past, p)

    def _move(self, kind: str, dest: str, source: Operand) -> None:
        # `mov` has no 8-bit type: such registers are moved as 16 bits.
        plain = kind if kind == "pred" else f"b{8 * max(2, SIZES[kind])}"
        self._add(f"mov.{plain}", Reg(dest), source)

    def _move_bytes(
        self, source: Instance, name: str, back: int, dest: Instance, into: str, past: int, p: Param
    ) -> None:
        # The alignment of the parameter bounds the access: a wider one could be misaligned.
        step = min(8, p.align)
        kind = {8: "b64", 4: "b32", 2: "b16", 1: "b8"}[step]
        held = f"move:{kind}"
        self.out.registers[held] = "b16" if step == 1 else kind
        for at in range(0, p.size, step):
            self._add(f"ld.local.{kind}", Reg(held), source.place(name, at, back))
            self._add(f"st.local.{kind}", dest.place(into, at, past), Reg(held))

    # ---- the stack --------------------------------------------------------------------------
    def _check_stack(self, prefix: str, size: int) -> None:
        if size > STACK_BYTES:  # not even the first activation has room
            self._add("call", Sink(), Sym(STACK_FULL))
            return
        room = Label(f"{prefix}room")
        self._add("mov.u64", Reg(LIMIT), Sym(STACK, STACK_BYTES - size))
        self._add("setp.le.u64", Reg(TEST), Reg(POINTER), Reg(LIMIT))
        self._add("bra", Sym(room.name), guard=TEST)
        self._add("call", Sink(), Sym(STACK_FULL))
        self.out.body.append(room)

    def _saved(self, me: Instance, callee: str) -> list[tuple[str, str, Mem]]:
        """(register, type, place) that a call which may return here must preserve."""
        if me.frame is None or self.graph.component[me.name] != self.graph.component[callee]:
            return []
        kinds = me.code.registers
        return [
            (me.prefix + name, kinds.get(name, "b32"), Mem(Reg(POINTER), at))
            for name, at in me.frame.saves.get(self.at.index, ())  # none where no path leads
        ]

    def _save(self, saved: list[tuple[str, str, Mem]]) -> None:
        for name, kind, at in saved:
            # Local memory holds no predicates: one is stored as 0 or 1 in 16 bits.
            if kind == "pred":
                self.out.registers["move:b16"] = "b16"
                self._add("selp.b16", Reg("move:b16"), Imm(1), Imm(0), Reg(name))
                self._add("st.local.b16", at, Reg("move:b16"))
            else:
                self._add(f"st.local.b{8 * SIZES[kind]}", at, Reg(name))

    def _restore(self, saved: list[tuple[str, str, Mem]]) -> None:
        for name, kind, at in saved:
            if kind == "pred":
                self._add("ld.local.b16", Reg("move:b16"), at)
                self._add("setp.ne.s16", Reg(name), Reg("move:b16"), Imm(0))
            else:
                self._add(f"ld.local.b{8 * SIZES[kind]}", Reg(name), at)
