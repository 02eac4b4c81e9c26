"""Defines the values of a profile, from the whole launch to single instructions.

    Profile
      launch, gpu          the launch and the GPU model
      instructions         each PTX instruction: executions, threads, memory accesses
      lines                the same per source line of the user, including inlined code
      arrays               bytes of each array that were accessed at least once
      totals               counters of the whole launch, by ncu's names with the prefix `sim:`
      modelled             names in `totals` that come from the cache model; others are exact
      samples              addresses that a few warps accessed
      stages               the life of one block's stages, if copies of it report to mbarriers
      sources, ptx         the user's files, and the kernel's PTX line by line
      launches             the number of launches that the counters sum
      measured             seconds on a real GPU, if the arrays were on one
      note                 then: a remark on hardware counters

An *access* sums what one instruction did in one state space; a generic load may have two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from operator import add, attrgetter
from typing import Any

from weft.values.code import SourceLine
from weft.values.deferred import DeferredFields
from weft.values.stages import BlockStages

BULK = ("bulk load", "bulk store", "bulk reduction", "multicast")
"""Kinds of accesses by the copy engine, which bypass L1."""


@dataclass(frozen=True)
class Access:
    """Memory accesses of one instruction or line.

    space             global, shared, local, or cluster: shared memory of other blocks
    kind              load, store, atomic, reduction, copy (cp.async), matrix load, matrix store
                      (ldmatrix, stmatrix), fragment load, fragment store (wmma), bulk load, bulk
                      store, bulk reduction (cp.async.bulk, TMA: what it does in this memory),
                      multicast (the same in all blocks of a mask), async store, async reduction
                      (st.async, red.async), product load (operands of wgmma)
    requests          executions by a warp with at least one participating lane
    threads           participating lanes
    bytes             requested by these lanes
    sectors           32-byte sectors looked up; `sectors_ideal` if lanes were contiguous. Of a
                      copy into shared memory: those that arrive, at all SMs
    sectors_missed    sectors that went to L2 (reads: by the model of L1)
    tags              128-byte lines looked up, in `tag_wavefronts` steps
    wavefronts        steps of shared memory; `wavefronts_ideal` without conflicts
    conflicts         bank conflicts as ncu counts them
    """

    space: str
    kind: str
    requests: int = 0
    threads: int = 0
    bytes: int = 0
    sectors: int = 0
    sectors_ideal: int = 0
    sectors_missed: int = 0
    tags: int = 0
    tag_wavefronts: int = 0
    wavefronts: int = 0
    wavefronts_ideal: int = 0
    conflicts: int = 0

    def __add__(self, other: Access) -> Access:
        """The sum of two accesses of one space and kind."""
        assert (self.space, self.kind) == (other.space, other.kind)
        return Access(self.space, self.kind, *map(add, _counters(self), _counters(other)))


_counters = attrgetter(*(f.name for f in fields(Access)[2:]))
"""The counters: all fields after the space and the kind."""


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction and its execution counts.

    guard         its predicate in PTX notation, or ""
    executions    by warps, regardless of the guard
    threads       active lanes
    threads_on    active lanes whose guard was true
    diverged      executions of a branch with divergent lanes
    waits         times that a warp has passed a barrier here: bar.sync, barrier.cluster.wait, or a
                  test of an mbarrier whose phase had ended
    polls         tests of an mbarrier before that, in vain; their number depends on the order in
                  which the simulator runs warps
    work          work per thread: a unit of `work` and operations, e.g. ("fp32", 2)
    line          the source line, with its chain of inlined calls
    """

    index: int
    guard: str
    opcode: str
    text: str
    ptx_line: int
    line: SourceLine | None
    executions: int
    threads: int
    threads_on: int
    diverged: int
    work: tuple[str, int]
    accesses: tuple[Access, ...]
    waits: int = 0
    polls: int = 0


@dataclass(frozen=True)
class Line:
    """Counters of one source line of the user, including inlined code."""

    file: str
    number: int
    quote: str
    instructions: tuple[int, ...]
    executions: int
    threads: int
    threads_on: int
    branches: int
    diverged: int
    work: Mapping[str, int]
    accesses: tuple[Access, ...]
    waits: int = 0
    polls: int = 0


def _bytes(space: str, kinds: Collection[str] | None = None) -> Callable[[Line], int]:
    return lambda line: sum(
        a.bytes for a in line.accesses if a.space == space and (kinds is None or a.kind in kinds)
    )


LINE_COUNTERS: Mapping[str, Callable[[Line], int]] = {
    "instructions": lambda line: line.executions,
    "global sectors": lambda line: sum(a.sectors for a in line.accesses if a.space == "global"),
    "shared wavefronts": lambda line: sum(a.wavefronts for a in line.accesses),
    "divergent branches": lambda line: line.diverged,
}
"""The counters of a line that are compared and that pages use as heat."""

UNIT_COUNTERS: Mapping[str, Callable[[Line], int]] = {
    "tensor operations": lambda line: sum(
        n for unit, n in line.work.items() if unit.startswith("tensor")
    ),
    "TMA bytes": _bytes("global", BULK),
    "multicast bytes": _bytes("shared", ("multicast",)),
    "cluster bytes": _bytes("cluster"),
    "barrier waits": lambda line: line.waits,
}
"""More of them, which views show only of kernels that use these units."""


def line_counters(lines: Sequence[Line]) -> Mapping[str, Callable[[Line], int]]:
    """The counters that views show of these lines."""
    used = {name: of for name, of in UNIT_COUNTERS.items() if any(of(line) for line in lines)}
    return {**LINE_COUNTERS, **used}


@dataclass(frozen=True)
class Array:
    """Bytes of an array or variable that were accessed at least once, in 32-byte sectors."""

    name: str
    nbytes: int
    read: int
    written: int
    touched: int


@dataclass(frozen=True)
class AccessSample:
    """One execution of an access by one warp.

    place       the array, "shared", or "" where no array holds all that was touched
    offsets     from the start of that place, for each of the 32 lanes; None: it took no part
    execution   its number among the `executions` of this access by this warp
    """

    instruction: int
    kind: str
    nbytes: int
    block: int
    warp: int
    place: str
    offsets: tuple[int | None, ...]
    execution: int = 0
    executions: int = 1


@dataclass(frozen=True)
class LaunchShape:
    """The launch. Registers and spills come from the assembler; None if unknown.

    local_bytes   per thread: arrays outside of registers, and spills
    spill_stores  bytes of spill stores per thread; `spill_loads` of spill loads
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared: int
    dynamic_shared: int
    registers: int | None
    local_bytes: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True)
class Profile(DeferredFields):
    """The profile of one launch; the module docstring describes the fields."""

    launch: LaunchShape
    gpu: str
    instructions: tuple[Instruction, ...]
    lines: tuple[Line, ...]
    arrays: tuple[Array, ...]
    totals: Mapping[str, float]
    modelled: frozenset[str]
    samples: tuple[AccessSample, ...] = ()
    stages: BlockStages | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    ptx: tuple[tuple[int, str], ...] = ()
    launches: int = 1
    measured: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The profile as JSON-compatible values."""
        return {**asdict(self), "modelled": sorted(self.modelled)}
