"""Loops that cannot end: they wait for a value that they never read again."""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.layout import Fault
from weft.device.sim.tools.sanitizer.checking import Checking
from weft.device.sim.tools.sanitizer.layout import FindingKind
from weft.device.sim.tools.sanitizer.report import report
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Control, Participants, Waits
from weft.ptx.model import Instruction


def _acts(ins: Instruction) -> bool:
    """Return whether it may change the condition of a loop, or end the loop."""
    row = decode(ins).row
    meets = row.waits is Waits.PARTICIPANTS and not row.has_dest
    barrier = meets or row.participants is Participants.BLOCK
    leaves = row.control is not Control.NEXT
    return bool(row.effects) or row.async_ is not None or barrier or leaves


def check(s: Checking) -> None:
    """Report a loop that nothing can end at the branch that closes it, and end the loop."""
    e, b = s.e, s.e.b
    if not _cannot_end(e.program, e.block):
        return
    lanes = e.executing()
    with b.when(lanes.ne(0), rare=True):
        zero = b.integer("i64", 0)
        report(b, s.p, FindingKind.SPIN, s.me(lanes), zero, zero)
        e.fault(Fault.TRAP, b.intrinsic("cttz", [lanes], extra="false"))
    e.forget_mask()


def _cannot_end(program: KernelProgram, block: BasicBlock) -> bool:
    """Return whether the block goes back to a loop whose exits depend on nothing in the loop."""
    for head, members in program.graph.loops.items():
        if block.index in members and head in block.successors and head <= block.index:
            return _stuck(program, set(members))
    return False


def _stuck(program: KernelProgram, members: set[int]) -> bool:
    blocks = [program.graph.blocks[m] for m in members]
    written: set[str] = set()
    for block in blocks:
        for ins in block.code:
            if _acts(ins):
                return False
            written.update(program.defs(ins))
    exits = [b for b in blocks if any(s not in members for s in b.successors)]
    guards = {b.last.guard for b in exits if b.last is not None and b.last.guard}
    # A guard that the loop does not write stays as it is, so no exit is taken later.
    return not guards & written
