"""Divergence: computes forms and divergent branches to their common fixed point.

A branch on a value that differs between lanes splits the warp. While one side runs, the lanes of
the other side wait. Registers that the waiting lanes still need are blended: a write changes the
active lanes only. A blended register is no longer uniform, which may make further branches
divergent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from weft.device.sim.analyse.form import SOME_UNIFORM, UNIFORM, Form, meet, vector
from weft.device.sim.analyse.program import CARRY, KernelProgram
from weft.device.sim.analyse.waits import is_block_barrier, is_warp_sync, spin_heads
from weft.ptx import cfg
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Control
from weft.ptx.model import Instruction


def analyse(program: KernelProgram, starts: Callable[[Instruction], bool]) -> None:
    """The graph, forms, splits, and blends; blocks also begin where `starts` says."""
    function = program.function
    program.graph = graph = cfg.build(
        function.body, function.branch_targets, is_block_barrier, program.defs, program.uses, starts
    )
    program.forms.clear()
    program.divergent.clear()
    program.scattered.clear()
    program.regions.clear()
    n = len(graph.blocks)
    program.partial = [False] * n
    program.waiting = [set() for _ in range(n)]
    program.blend = [set() for _ in range(n)]
    # read before anything is written to them: the same in all lanes, so that what follows is known
    program.forms |= dict.fromkeys(graph.live_in[0], SOME_UNIFORM)
    users = _users(program)
    parts = [b.index for b in graph.blocks if b.code and b.code[0].index in program.parts]
    overtaken = _overtaken(graph).union(parts)
    # A stack: reversed, so that the first visits are in program order.
    work = [(b.index, ins) for b in graph.blocks for ins in b.code][::-1]
    queued = {ins.index for _, ins in work}
    _note_apart(program, parts)
    # Splits and blends are only added and forms only go down the lattice, so this ends.
    while True:
        _propagate(program, work, queued, users)
        again = _diverge(program, overtaken)
        if not again:
            break
        work = again
        queued = {ins.index for _, ins in work}
    for name in program.function.registers:
        program.forms.setdefault(name, SOME_UNIFORM)
    program.forms.setdefault(CARRY, SOME_UNIFORM)


def _users(program: KernelProgram) -> dict[str, list[tuple[int, Instruction]]]:
    out: dict[str, list[tuple[int, Instruction]]] = {}
    for b in program.graph.blocks:
        for ins in b.code:
            for r in program.uses(ins):
                out.setdefault(r, []).append((b.index, ins))
    return out


def _propagate(
    program: KernelProgram,
    work: list[tuple[int, Instruction]],
    queued: set[int],
    users: Mapping[str, list[tuple[int, Instruction]]],
) -> None:
    forms = program.forms
    while work:
        block, ins = work.pop()
        queued.discard(ins.index)
        written = program.defs(ins)
        if not written:
            continue
        form = program.result(ins)
        if form is None:
            continue
        if ins.guard is not None:
            guard = forms.get(ins.guard)
            # Lanes whose guard is false keep their old value.
            if guard is not None and guard.kind != UNIFORM:
                form = vector(form.top)
        for r in written:
            new = vector(form.top) if r in program.blend[block] else form
            old = forms.get(r)
            joined = meet(old, new)
            if old is not None and joined != old and old.top is not None and joined.top != old.top:
                joined = _without_top(joined)  # a growing bound would never end
            if joined != old:
                forms[r] = joined
                for user in users.get(r, ()):
                    if user[1].index not in queued:
                        queued.add(user[1].index)
                        work.append(user)


def _without_top(form: Form) -> Form:
    return replace(form, top=None)


def _diverge(program: KernelProgram, overtaken: set[int]) -> list[tuple[int, Instruction]]:
    """Find branches that split a warp; return what must be analysed again."""
    graph = program.graph
    split = False
    for b in graph.blocks:
        if b.index in program.divergent or b.last is None:
            continue
        forms = [program.forms.get(b.last.guard)] if b.last.guard else []
        if decode(b.last).row.control is Control.TABLE:
            forms.append(program.form_of(b.last.operands[0]))
        if any(f is not None and f.kind != UNIFORM for f in forms) and len(b.successors) > 1:
            program.divergent.add(b.index)
            split = True
            _note_split(program, b.index, overtaken)
    return _blend(program) if split else []


def _blend(program: KernelProgram) -> list[tuple[int, Instruction]]:
    """Find the registers that lanes need which wait; return the instructions that write them."""
    graph = program.graph
    again = []
    for b in graph.blocks:
        if not program.partial[b.index]:
            continue
        live: set[str] = set()
        for x in program.waiting[b.index]:
            live |= graph.live_in[x]
        for ins in b.code:
            hit = [r for r in program.defs(ins) if r in live]
            if hit:
                program.blend[b.index].update(hit)
                again.append((b.index, ins))
    return again


def _note_apart(program: KernelProgram, starts: Iterable[int]) -> None:
    """Mark what runs with part of the warp where lanes may part at the start of these blocks."""
    if not (region := _reach(program.graph, starts, EXIT)):
        return
    program.regions[EXIT] = region  # no branch has this number
    program.apart = region
    program.scattered |= region
    for x in region:
        program.partial[x] = True
        program.waiting[x] |= region
    _blend(program)


def _note_split(program: KernelProgram, source: int, overtaken: set[int]) -> None:
    """Mark the blocks that run with part of the warp, and where the other lanes wait meanwhile."""
    graph = program.graph
    stop = graph.post_dominator[source]
    starts = graph.blocks[source].successors
    sides = [_reach(graph, [s], stop) for s in starts]
    while stop != EXIT and any(x > stop for side in sides for x in side):
        # the lowest block runs first: lanes at `stop` do not wait for lanes in later blocks
        stop = graph.post_dominator[stop]
        sides = [_reach(graph, [s], stop) for s in starts]
    end = {stop} if stop != EXIT else set()
    if any(side & overtaken for side in sides) or _may_leave_behind(graph, sides, stop):
        # lanes that wait at the end may have to run first: the lanes need not meet again
        end, sides = set(), [_reach(graph, [s], EXIT) for s in starts]
        program.scattered.update(*sides)
    program.regions[source] = end.union(*sides)
    for i, side in enumerate(sides):
        others = end.union(*(x for j, x in enumerate(sides) if j != i))
        for x in side:
            program.partial[x] = True
            program.waiting[x] |= others


def _overtaken(graph: Graph) -> set[int]:
    """Blocks that wait for other lanes: with a block barrier, or heads of a loop that may spin."""
    barriers = {b.index for b in graph.blocks if any(is_block_barrier(i) for i in b.code)}
    return barriers | spin_heads(graph)


def _may_leave_behind(graph: Graph, sides: list[set[int]], stop: int) -> bool:
    """Return whether lanes may be at a `.sync` instruction while later blocks still lead to it.

    The lowest block runs first. A loop with two ways back has blocks after the instruction that
    lead to it again: of its body, or of a recursive function, whose calls and returns are a loop.
    """
    for i, side in enumerate(sides):
        others = set[int]().union(*(x for j, x in enumerate(sides) if j != i))
        for x in side & others:  # elsewhere the others never come here
            block = graph.blocks[x]
            meets = block.loops and any(is_warp_sync(ins) for ins in block.code)
            if meets and x in _reach(graph, [y for y in others if y > x], stop):
                return True
    return False


def _reach(graph: Graph, starts: Iterable[int], stop: int) -> set[int]:
    """Blocks reachable from `starts` without passing `stop`."""
    seen: set[int] = set()
    work = [*starts]
    while work:
        x = work.pop()
        if x not in seen and x not in (stop, EXIT):
            seen.add(x)
            work.extend(graph.blocks[x].successors)
    return seen
