"""The LLVM IR of a kernel for one block shape: its warp code and the loop that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.device.base import Dim3
from weft.device.sim.analyse import validate
from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import polls_global
from weft.device.sim.code_info import CodeInfo
from weft.device.sim.emit.block_loop import emit_run
from weft.device.sim.emit.warp import WarpEmitter
from weft.device.sim.layout import SlotFields
from weft.device.sim.observe import Watching
from weft.ir import IrModule
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.ptx.model import Instruction, PtxModule, Special

if TYPE_CHECKING:
    from weft.device.sim.emit.switching.launch_order import LaunchOrder


def generate(
    module: PtxModule,
    entry: str,
    shape: Dim3,
    *,
    fast: bool = False,
    observer: Watching | None = None,
    scheduled: bool = False,
    early: Callable[[str], None] | None = None,
) -> tuple[str, CodeInfo]:
    """The IR text, and the facts about the code that a launch needs.

    scheduled  code for `schedules.py`: threads also switch where they need not
    early  is given the functions that two thirds of the kernel's instructions need: they can be
           compiled while the rest is emitted
    """
    program = prepare(module, module.functions[entry], shape, scheduled=scheduled)
    ir = IrModule()
    warp = WarpEmitter(program, ir, fast_math=fast, observer=observer)
    with validate.naming(lambda: warp.ins):
        warp.emit(None if early is None else lambda: early(ir.text()))
    frame = warp.schedule.frame_bytes
    slot = SlotFields.FRAMES + program.warps * frame
    slot = -(-slot // 64) * 64
    waits = bool(warp.schedule.spin_heads or program.awaits)
    emit_run(
        ir,
        frames=warp.schedule.frames,
        threads=program.threads,
        slot_bytes=slot,
        waits=waits,
        together=warp.schedule.lockstep.used,
        late=warp.schedule.lockstep.late,
        clusters=program.clusters,
        watch=warp.watch,
        order=_launch_order(program, warp) if scheduled else None,
    )
    info = CodeInfo(
        warps=program.warps,
        threads=program.threads,
        frame_bytes=frame,
        slot_bytes=slot,
        sites=len(warp.windows.sites),
        shared_bytes=program.shared_bytes,
        local_bytes=program.local_bytes,
        loops=bool(program.graph.loops),
        waits=waits,
        calls_host=_calls_host(program),
        grid_barrier=_grid_barrier(program),
        ledger_at=warp.ledger.at if warp.ledger.used else -1,
        tested_at=warp.ledger.tested_at if warp.ledger.tests else -1,
        clusters=program.clusters,
        warpgroups=bool(program.awaits),
        awaits_host=any(polls_global(i) for block in _looping(program) for i in block.code),
        notes=warp.watch.notes(),
    )
    return ir.text(), info


def _code(program: KernelProgram) -> list[Instruction]:
    return [i for i in program.function.body if isinstance(i, Instruction)]


def _looping(program: KernelProgram) -> list[BasicBlock]:
    """The blocks that are in loops."""
    inside = set[int]().union(*program.graph.loops.values())
    return [block for block in program.graph.blocks if block.index in inside]


def _launch_order(program: KernelProgram, warp: WarpEmitter) -> LaunchOrder:
    from weft.device.sim.emit.switching.launch_order import LaunchOrder

    # A warp that waits for products of its warpgroup looks for what is no change of memory.
    parks = bool(warp.schedule.spin_heads) and not program.awaits
    return LaunchOrder(program.warps, warp.clear_shared_state, parks=parks)


def _calls_host(program: KernelProgram) -> bool:
    """Return whether the program calls the host; linking has made every other call a branch."""
    return any(control_of(i.parts) is Control.CALL for i in _code(program))


def _grid_barrier(program: KernelProgram) -> bool:
    """Return whether cooperative_groups uses a grid barrier, found through special registers."""
    return any(
        isinstance(x, Special) and x.name.startswith("envreg")
        for i in _code(program)
        for x in i.operands
    )
