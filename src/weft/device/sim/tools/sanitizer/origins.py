"""Where addresses come from: through which parameters may a kernel write?"""

from __future__ import annotations

from weft.device.sim.analyse.program import Program
from weft.ptx.model import Instruction, Mem, Reg, Sym


def written(program: Program) -> list[int] | None:
    """Offsets of the parameters that a store or an atomic may go through; None: any memory."""
    sources = _sources(program)
    found: set[int] = set()
    for block in program.graph.blocks:
        for ins in block.code:
            if ins.parts[0] not in ("st", "atom", "red", "wmma", "stmatrix", "cp"):
                if ins.parts[0] in ("call", "brx"):
                    return None
                continue
            if ins.parts[0] == "wmma" and "store" not in ins.parts:
                continue
            mem = next((o for o in ins.operands if isinstance(o, Mem)), None)
            if mem is None or any(s in ins.parts for s in ("shared", "local")):
                continue
            base = mem.base
            origin = sources.get(base.name) if isinstance(base, Reg) else None
            if ins.parts[0] == "cp":
                continue
            if isinstance(base, Sym) or origin is None:
                return None
            found |= origin
    return sorted(found)


def _sources(program: Program) -> dict[str, set[int] | None]:
    """For each register the parameters that its value may have come from; None: unknown."""
    out: dict[str, set[int] | None] = {}
    code = [i for block in program.graph.blocks for i in block.code]
    changed = True
    while changed:
        changed = False
        for ins in code:
            new = _origin(program, ins, out)
            for name in program.defs(ins):
                old = out.get(name, set())
                joined = None if old is None or new is None else old | new
                if name not in out or joined != old:
                    out[name] = joined
                    changed = True
    return out


def _origin(
    program: Program, ins: Instruction, known: dict[str, set[int] | None]
) -> set[int] | None:
    if ins.parts[0] == "ld":
        mem = ins.operands[1]
        if "param" in ins.parts and isinstance(mem, Mem) and isinstance(mem.base, Sym):
            return {program.symbols[mem.base.name][1] + mem.base.offset + mem.offset}
        wide = ins.parts[-1] in ("b64", "u64", "s64")
        return None if wide else set()
    if ins.parts[0] in ("mov", "cvta") and any(isinstance(o, Sym) for o in ins.operands):
        return None
    found: set[int] = set()
    for name in program.uses(ins):
        origin = known.get(name, set())
        if origin is None:
            return None
        found |= origin
    return found
