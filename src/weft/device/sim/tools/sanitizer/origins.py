"""Origins of addresses: the parameters through which a kernel may write."""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Control, ResultForm
from weft.ptx.model import Instruction, Mem, Reg, Sym


def written(program: KernelProgram) -> list[int] | None:
    """Offsets of the parameters that a store or an atomic may go through; None: any memory."""
    sources = _sources(program)
    parameters: set[int] = set()
    for block in program.graph.blocks:
        for ins in block.code:
            d = decode(ins)
            row = d.row
            if row.control in (Control.CALL, Control.TABLE):
                return None
            stores = any(x.writes and not x.barrier for x in row.effects)
            if not stores or row.async_ is not None:  # copies are marked when they are issued
                continue
            mem = next((o for o in ins.operands if isinstance(o, Mem)), None)
            if mem is None or d.space in ("shared", "local"):
                continue
            origin = sources.get(mem.base.name) if isinstance(mem.base, Reg) else None
            if isinstance(mem.base, Sym) or origin is None:
                return None
            parameters |= origin
    return sorted(parameters)


def _sources(program: KernelProgram) -> dict[str, set[int] | None]:
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
    program: KernelProgram, ins: Instruction, origins: dict[str, set[int] | None]
) -> set[int] | None:
    d = decode(ins)
    form = d.row.form
    if form is ResultForm.LOADED:
        mem = ins.operands[1]
        if d.space == "param" and isinstance(mem, Mem) and isinstance(mem.base, Sym):
            return {program.symbols[mem.base.name][1] + mem.base.offset + mem.offset}
        # A pointer has 64 bits, so a narrower value is no address.
        wide = d.type in ("b64", "u64", "s64")
        return None if wide else set()
    if form in (ResultForm.COPY, ResultForm.ADDRESS) and any(
        isinstance(o, Sym) for o in ins.operands
    ):
        return None
    offsets: set[int] = set()
    for name in program.uses(ins):
        origin = origins.get(name, set())
        if origin is None:
            return None
        offsets |= origin
    return offsets
