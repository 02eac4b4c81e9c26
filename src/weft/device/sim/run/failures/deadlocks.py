"""Explains a deadlock: the warps that wait, their lines, and the condition of each."""

from __future__ import annotations

from collections.abc import Sequence

from weft.device.sim.layout import FINISHED, ContextFields, WarpStatus
from weft.device.sim.run.awaited import Thread, awaited_value
from weft.device.sim.run.deadlock import explained, waited_for
from weft.device.sim.run.failures import mbarriers
from weft.device.sim.run.failures.failed_launch import FailedLaunch, Index
from weft.device.sim.run.failures.lines import line_of
from weft.errors import Deadlock
from weft.ptx.model import Instruction


def explain(launch: FailedLaunch, slots: Sequence[tuple[int, int]], why: str) -> Deadlock:
    """The error that names the waiting warps, their lines, and the condition of each."""
    rows, lines, kinds = [], [], {why}
    slots = sorted(slots, key=lambda s: launch.block(*s)[::-1])  # whichever worker has them
    for worker, slot in slots[:4]:
        block = launch.block(worker, slot)
        for warp in range(launch.arena.info.warps):
            f = launch.frame(worker, slot, warp)
            # 0: the warp has not run yet, and waits for nothing.
            if f["state"] in (FINISHED, 0):
                continue
            site = launch.instruction(f["site"])
            awaited = waited_for(launch.program, site, f["status"] == WarpStatus.WAITING)
            lanes_apart = f["live"] & ~f["mask"] and awaited.kind == "lock"
            kinds.add("warp" if lanes_apart else awaited.kind)
            now = _held(launch, awaited.reads, block, warp, f["mask"] or f["live"])
            if awaited.kind == "mbarrier":
                now = mbarriers.awaited(
                    launch.arena, worker, slot, warp, lambda n: _line(launch, n)
                )
            lines.append(line_of(site))
            rows.append(f"block {block} warp {warp} {awaited.how}{now}: {lines[-1]}")
    shown = rows[:8] + ([f"… and {len(rows) - 8} more"] if len(rows) > 8 else [])
    kind, reason, advice = explained(kinds)
    error = Deadlock(
        f"{launch.name} is deadlocked: {reason}",
        where=lines[0] if lines else "",
        got="\n       ".join(shown),
        next=advice,
    )
    error.kernel, error.awaited = launch.name, kind
    if slots:
        error.block = launch.block(*slots[0])
    return error


def _line(launch: FailedLaunch, site: int) -> str:
    """The source line of an instruction, by its number."""
    ins = launch.instruction(site)
    return line_of(ins).partition("  `")[0]


def _held(
    launch: FailedLaunch, reads: Sequence[Instruction], block: Index, warp: int, lanes: int
) -> str:
    """The value of the one location that the first of these lanes waits for."""
    lane = max(0, (lanes & -lanes).bit_length() - 1)
    sides = {
        "ctaid": block,
        "tid": launch.thread(warp, lane),
        "nctaid": launch.config.grid,
        "ntid": launch.config.block,
    }
    special = {
        f"{name}.{axis}": n
        for name, side in sides.items()
        for axis, n in zip("xyz", side, strict=True)
    }
    owned = launch.module.owned()
    variables = {a.name: a.address for a in owned}
    params = int(launch.arena.context[ContextFields.PARAMS // 8])
    thread = Thread(special, params, variables)
    memory = [*launch.memory, *owned]
    texts = {awaited_value(launch.program, ins, thread, memory) for ins in reads}
    return f" ({texts.pop()})" if len(texts) == 1 and "" not in texts else ""
