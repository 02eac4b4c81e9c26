"""Phases: the code that a warp runs from one barrier of the block to the next.

A phase starts at place 0, where a warp starts, or at place i + 1, after barrier i. It ends at the
places after the barriers that its code may reach first, or with the warp (`ENDED`).
"""

from __future__ import annotations

from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.waits import is_block_barrier
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.model import Instruction
from weft.records import dataclass

START, ENDED = 0, 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of a kernel by the place where they start."""

    sites: list[tuple[int, Instruction]]
    """Block and instruction of each barrier."""
    ends: list[frozenset[int]]
    """The places where each phase may end. A barrier for part of a warp delimits no phase."""

    def before(self, end: int) -> list[int]:
        """The phases that may end at this place."""
        return [p for p, ends in enumerate(self.ends) if end in ends]

    def outcome(self, phase: int) -> int | None:
        """The place where a phase ends; None if there are several."""
        return next(iter(self.ends[phase])) if len(self.ends[phase]) == 1 else None

    def is_certain(self, end: int) -> bool:
        """Return whether each phase that may end here ends nowhere else."""
        return all(len(self.ends[p]) == 1 for p in self.before(end))


def find(program: KernelProgram) -> Phases:
    """The phases of a program."""
    graph = program.graph
    sites = [(b.index, b.code[-1]) for b in graph.blocks if b.code and is_block_barrier(b.code[-1])]
    places = {block: i + 1 for i, (block, _) in enumerate(sites)}
    starts = [0, *(graph.blocks[block].successors[0] for block, _ in sites)]
    ends = [_ends(graph, start, places, program.partial) for start in starts]
    for block, place in places.items():
        if program.partial[block]:
            ends[place] = frozenset()
    return Phases(sites, ends)


def _ends(graph: Graph, start: int, places: dict[int, int], partial: list[bool]) -> frozenset[int]:
    ends: set[int] = set()
    seen: set[int] = set()
    work = [start]
    while work:
        x = work.pop()
        if x == EXIT:
            ends.add(ENDED)
        elif x not in seen:
            seen.add(x)
            if x not in places:
                work.extend(graph.blocks[x].successors)
            elif not partial[x]:
                ends.add(places[x])
    return frozenset(ends)
