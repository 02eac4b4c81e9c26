"""Reads of a register that still holds a special register: they read the special register itself.

Compilers start a loop over elements with `mov.u32 %r1, %tid.x` and count in the same register. One
register has one form, so that everything computed from threadIdx.x would be a vector.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from weft.device.sim.analyse.form import AFFINE, UNIFORM
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.special import STEADY, special_form
from weft.ptx import cfg
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.isa.columns import ResultForm
from weft.ptx.model import Instruction, Label, Reg, Special

State = dict[str, Special | None]
"""Register -> the special register that it holds; None where that is not known."""


def replace_reads(program: KernelProgram) -> None:
    """Replace operands of the function, instruction by instruction."""
    names = _candidates(program)
    if not names:
        return
    function = program.function
    graph = cfg.build(
        function.body, function.branch_targets, lambda ins: False, program.defs, program.uses
    )
    known = _at_starts(program, graph, names)
    new: dict[int, Instruction] = {}
    for block in graph.blocks:
        state = dict(known[block.index])
        for ins in block.code:
            changed = _read(program, ins, state)
            if changed is not ins:
                new[ins.index] = changed
            _write(program, ins, state)
    body = [x if isinstance(x, Label) else new.get(x.index, x) for x in function.body]
    program.function = replace(function, body=body)
    program.forget_operands()


def _candidates(program: KernelProgram) -> set[str]:
    """Registers that are written more than once, and once with a special register."""
    writes: Counter[str] = Counter()
    copies: set[str] = set()
    for ins in program.function.body:
        if not isinstance(ins, Label):
            writes.update(program.defs(ins))
            if _copied(program, ins) is not None:
                copies.update(program.defs(ins))
    return {x for x in copies if writes[x] > 1}


def _copied(program: KernelProgram, ins: Instruction) -> Special | None:
    """The special register that an instruction copies to a register of 32 bits."""
    d = program.decoded[ins.index]
    if d.row.form is not ResultForm.COPY or ins.guard is not None:
        return None
    dest, *sources = ins.operands
    if len(sources) != 1 or not isinstance(sources[0], Special) or not isinstance(dest, Reg):
        return None
    special = sources[0]
    whole = d.type in ("u32", "s32", "b32")
    steady = special.name.partition(".")[0] in STEADY
    scalar = special_form(special.name, program.shape).kind in (UNIFORM, AFFINE)
    return special if whole and steady and scalar else None


def _write(program: KernelProgram, ins: Instruction, state: State) -> None:
    for name in program.defs(ins):
        if name in state:
            state[name] = _copied(program, ins)


def _read(program: KernelProgram, ins: Instruction, state: State) -> Instruction:
    """The instruction with the special registers that its operands hold."""
    row = program.decoded[ins.index].row
    if row.warp or not row.has_dest:
        return ins
    dest, *sources = ins.operands
    found = [(isinstance(x, Reg) and state.get(x.name)) or x for x in sources]
    return replace(ins, operands=(dest, *found)) if found != sources else ins


def _at_starts(program: KernelProgram, graph: Graph, names: set[str]) -> list[State]:
    """The contents of the registers at the start of each block, for all of its predecessors."""
    known: list[State | None] = [None] * len(graph.blocks)
    known[0] = dict.fromkeys(names)
    work = [0]
    while work:
        index = work.pop()
        block = graph.blocks[index]
        state = dict(known[index] or {})
        for ins in block.code:
            _write(program, ins, state)
        for x in block.successors:
            if x == EXIT:
                continue
            old = known[x]
            joined = (
                state if old is None else {r: v if v == old[r] else None for r, v in state.items()}
            )
            if joined != old:
                known[x] = dict(joined)
                work.append(x)
    return [state or {} for state in known]
