"""Hammocks: branches whose two paths rejoin before anything else happens: `if` and `if else`.

The lanes that do not take a path need not be recorded anywhere. The code of the branch saves the
lanes that reached it, runs the paths one after the other, and continues with all of them at the
join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from weft.device.sim.analyse.waits import is_arrival, is_block_barrier, is_warp_sync, spin_heads
from weft.ptx.cfg import EXIT, Graph
from weft.ptx.isa import control_of
from weft.ptx.isa.columns import Control
from weft.records import dataclass

LARGEST, DEEPEST = 64, 8
"""Limits: blocks of a path, and nesting of hammocks. Each level adds code where its paths end, so
that the time for a thousand early returns would grow quadratically.
"""


@dataclass(frozen=True, slots=True)
class HammockPath:
    """The blocks of one side of a branch; it is entered at the first of them alone."""

    entry: int
    members: frozenset[int]


@dataclass(frozen=True, slots=True)
class Hammock:
    """A branch in block `source`, its paths in the order in which they run, and their join."""

    source: int
    join: int
    paths: tuple[HammockPath, ...]
    """One for an `if`, two for an `if else`."""

    @property
    def members(self) -> frozenset[int]:
        return frozenset[int]().union(*(path.members for path in self.paths))


@dataclass(frozen=True, slots=True)
class Hammocks:
    """The hammocks of a kernel by source, and the innermost one around each block of a path."""

    by_source: Mapping[int, Hammock] = field(default_factory=dict)
    around: Mapping[int, Hammock] = field(default_factory=dict)


def find(graph: Graph, divergent: Collection[int], switches: Collection[int] = ()) -> Hammocks:
    """The hammocks among the divergent branches, including those inside a path.

    switches  instructions before which a warp may be suspended: none is in a hammock
    """
    sources: list[set[int]] = [set() for _ in graph.blocks]
    for block in graph.blocks:
        for x in block.successors:
            if x != EXIT:
                sources[x].add(block.index)
    waiting = spin_heads(graph)
    found: dict[int, Hammock] = {}
    depths: dict[int, int] = {}
    # Blocks are in the order of execution: a branch inside a path comes after the outer one.
    for source in sorted(divergent, reverse=True):
        hammock = _shape(graph, source)
        if (
            hammock is not None
            and waiting.isdisjoint(hammock.members)
            and _is_closed(hammock, sources, len(graph.blocks))
            and _meets(graph, hammock, divergent, found)
            and not any(i.index in switches for x in hammock.members for i in graph.blocks[x].code)
        ):
            depth = 1 + max((depths.get(x, 0) for x in hammock.members), default=0)
            if depth <= DEEPEST:
                found[source], depths[source] = hammock, depth
    around = {x: h for _, h in sorted(found.items()) for x in h.members}
    return Hammocks(found, around)


def _shape(graph: Graph, source: int) -> Hammock | None:
    last = graph.blocks[source].last
    successors = graph.blocks[source].successors
    if last is None or control_of(last.parts) is Control.TABLE or len(set(successors)) != 2:
        return None
    join = graph.post_dominator[source]
    paths = [
        HammockPath(x, _reach(graph, x, join)) for x in sorted(successors) if x not in (join, EXIT)
    ]
    small = all(len(path.members) <= LARGEST for path in paths)
    return Hammock(source, join, tuple(paths)) if paths and small else None


def _reach(graph: Graph, start: int, stop: int) -> frozenset[int]:
    """Blocks on the paths from `start` to `stop`, or more than `LARGEST` of them."""
    seen: set[int] = set()
    work = [start]
    while work and len(seen) <= LARGEST:
        x = work.pop()
        if x not in seen and x not in (stop, EXIT):
            seen.add(x)
            work.extend(graph.blocks[x].successors)
    return frozenset(seen)


def _is_closed(h: Hammock, sources: list[set[int]], count: int) -> bool:
    """Return whether each path lies between the branch and the join, with no other entry."""
    end = count if h.join == EXIT else h.join
    for path in h.paths:
        for x in path.members:
            outside = sources[x] - path.members
            if not h.source < x < end or outside != ({h.source} if x == path.entry else set()):
                return False
    return True


def _meets(
    graph: Graph, h: Hammock, divergent: Collection[int], inner: Mapping[int, Hammock]
) -> bool:
    """Return whether all lanes of a path reach the join together, without waiting for others."""
    members = h.members
    for x in members:
        if x in divergent and (x not in inner or inner[x].join not in (*members, h.join)):
            return False
        code = graph.blocks[x].code
        if any(is_warp_sync(i) or is_block_barrier(i) or is_arrival(i) for i in code):
            return False
    return True
