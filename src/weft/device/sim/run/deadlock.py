"""The condition that a deadlocked warp waits for, and its description in the error."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_cluster_barrier, is_warp_sync, may_wait
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Waits
from weft.ptx.model import Instruction, Mem, Operand, Reg, Sym

_HOST = "what the host writes must be there before it waits for the kernel"
_KINDS: dict[str, tuple[str, str]] = {
    "barrier": (
        "some threads of the block never reach the barrier that others wait at",
        "let all threads of a block reach the same barriers",
    ),
    "warp": (
        "lanes wait for a lock while other lanes of their warp wait for them",
        "release the lock in the branch that takes it: a lane that holds it must not wait for its "
        "warp",
    ),
    "lock": (
        "threads wait for a lock that no running thread will release",
        f"release the lock on every path, before returns and barriers; {_HOST}",
    ),
    "mbarrier": (
        "threads wait for an mbarrier whose arrivals or bytes never come",
        "compare its count with the threads that arrive, and expect_tx with the bytes copied",
    ),
    "flag": (
        "threads wait for a value that no running thread will write",
        f"let a thread of a running kernel write it; {_HOST}",
    ),
    "cluster": (
        "some threads of the cluster never reach the barrier that others wait at",
        "let all threads of all blocks of a cluster arrive at barrier.cluster as often",
    ),
}
"""Kind -> (what is wrong, what to do), the most informative first."""


class Awaited(NamedTuple):
    """The condition that a warp waits for; `reads` are the instructions that test it."""

    kind: str
    how: str
    reads: tuple[Instruction, ...] = ()


def waited_for(program: KernelProgram, site: Instruction | None, at_barrier: bool) -> Awaited:
    """The condition that a warp stopped at this instruction waits for."""
    if site is not None and is_warp_sync(site):
        return Awaited("warp", "waits for other lanes of its warp")
    if site is not None and at_barrier and is_cluster_barrier(site):
        return Awaited("cluster", "waits at the barrier of its cluster")
    waits = [ins for ins in _loop(program, site) if _waits(ins)]
    if not waits:
        return Awaited("barrier", "waits at a barrier") if at_barrier else Awaited("flag", "spins")
    awaited = _kind(waits[0], _place(program, waits[0]))
    where = "at a barrier of a loop that " if at_barrier else ""
    return Awaited(
        awaited.kind, f"waits {where}{awaited.how}" if where else awaited.how, tuple(waits)
    )


def _waits(ins: Instruction) -> bool:
    """Return whether it tests a condition; waiting for time to pass is none."""
    return may_wait(ins) and decode(ins).row.waits is not Waits.TIME


def _kind(ins: Instruction, place: str) -> Awaited:
    awaited = decode(ins).row.waits
    if awaited is Waits.MBARRIER:
        return Awaited("mbarrier", f"waits for an mbarrier{place}")
    if awaited is Waits.LOCK:
        return Awaited("lock", f"spins on a lock{place}")
    return Awaited("flag", f"spins on a value{place}")


def explained(kinds: Set[str]) -> tuple[str, str, str]:
    """(kind, what is wrong, what to do) where warps wait for things of these kinds."""
    kind = next((kind for kind in _KINDS if kind in kinds), "flag")
    return kind, *_KINDS[kind]


def _loop(program: KernelProgram, site: Instruction | None) -> list[Instruction]:
    """The shortest waiting loop around an instruction."""
    graph = program.graph
    inside = {
        b.index for b in graph.blocks if site is not None and (b.last is site or site in b.code)
    }
    around = [members for members in graph.loops.values() if inside & members]
    loops = [[ins for x in sorted(m) for ins in graph.blocks[x].code] for m in around]
    # The innermost: an outer loop may wait for something else.
    return min((code for code in loops if any(map(may_wait, code))), key=len, default=[])


def _place(program: KernelProgram, ins: Instruction) -> str:
    """The memory's owner: a variable, or the parameter that points to it."""
    mem = next((x for x in ins.operands if isinstance(x, Mem)), None)
    name = "" if mem is None else _origin(program, mem.base, 0)
    shared = decode(ins).space == "shared"
    return (f" in {name}" if name else "") + (" in shared memory" if shared else "")


def _origin(program: KernelProgram, operand: Operand, depth: int) -> str:
    """The one variable or parameter from which an address is computed, where there is only one."""
    if isinstance(operand, Sym):
        params = [p.name for p in program.function.params]
        if operand.name in params:
            return f"argument {params.index(operand.name)}"
        return f"'{operand.name}'"
    if isinstance(operand, Mem):
        return _origin(program, operand.base, depth)
    # Definitions in a loop refer to each other, so the search needs an end.
    if not isinstance(operand, Reg) or depth > 8:
        return ""
    made = [
        ins for b in program.graph.blocks for ins in b.code if operand.name in program.defs(ins)
    ]
    names = {n for ins in made for x in ins.operands[1:] if (n := _origin(program, x, depth + 1))}
    return names.pop() if len(made) == 1 and len(names) == 1 else ""
