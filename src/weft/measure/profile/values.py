"""What a profile holds: frozen values, from whole launch to single instruction.

    Profile
      launch, gpu          what was profiled, and for which GPU model
      instructions         each PTX instruction: executions, threads, memory accesses
      lines                the same by the user's source lines, through inlining
      arrays               bytes of each array that were touched at least once
      totals               counters of the whole launch, by ncu's names with `sim:` before them
      modelled             the names in `totals` that a model of the caches gives; others are exact
      samples              the addresses that a few warps touched
      sources, ptx         the user's files, and the kernel's PTX line by line
      launches             how many launches the counters are the sum of
      measured             seconds that a real GPU took, where the arrays were on one
      note                 what there is to say of hardware counters then

An *access* is what one instruction did in one memory: a generic load may have two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from weft.device.sim.tools.counters.sampling import Sample
from weft.values import SourceLine

BULK = ("bulk load", "bulk store", "bulk reduction")
"""Kinds of accesses by the copy engine, which no lane makes and which pass L1 by."""


@dataclass(frozen=True)
class Access:
    """Memory accesses of one instruction or line.

    space             global, shared or local
    kind              load, store, atomic, reduction, copy (cp.async), matrix load, matrix store
                      (ldmatrix, stmatrix), fragment load, fragment store (wmma), bulk load, bulk
                      store, bulk reduction (cp.async.bulk: what it does in this memory)
    requests          executions by a warp of which at least one lane took part
    threads           lanes that took part
    bytes             that these asked for
    sectors           32-byte sectors looked up; `sectors_ideal` if the lanes had been neighbours
    sectors_missed    those that went on to L2 (reads: by the model of L1)
    tags              128-byte lines looked up, in `tag_wavefronts` steps
    wavefronts        steps of shared memory; `wavefronts_ideal` without conflicts
    conflicts         what ncu calls bank conflicts
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
        """Both together; of one space and kind."""
        assert (self.space, self.kind) == (other.space, other.kind)
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if f.name not in ("space", "kind")
        }
        return Access(self.space, self.kind, **sums)


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction, as it was executed.

    guard         its predicate as PTX writes it, or nothing
    executions    by a warp, whatever its guard said
    threads       lanes that were active
    threads_on    of these, those whose guard held
    diverged      executions of a branch that sent lanes more than one way
    work          what a thread does: a unit of `work` and operations, e.g. ("fp32", 2)
    line          the source line, with the calls that were inlined around it
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


@dataclass(frozen=True)
class Line:
    """One line that the user wrote, with all that was inlined into it."""

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


@dataclass(frozen=True)
class Array:
    """Bytes of an array (or variable) that were touched at least once, in sectors of 32 bytes."""

    name: str
    nbytes: int
    read: int
    written: int
    touched: int


@dataclass(frozen=True)
class LaunchShape:
    """What was launched; registers and spills as the assembler reports them, None where it cannot.

    local_bytes   of each thread: arrays that registers cannot hold, and what was spilled
    spill_stores  bytes that the code of a thread spills, `spill_loads` those it fetches back
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
        """Of a block."""
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True)
class Profile:
    """One launch, counted; the head of this file says what is what."""

    launch: LaunchShape
    gpu: str
    instructions: tuple[Instruction, ...]
    lines: tuple[Line, ...]
    arrays: tuple[Array, ...]
    totals: Mapping[str, float]
    modelled: frozenset[str]
    samples: tuple[Sample, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    ptx: tuple[tuple[int, str], ...] = ()
    launches: int = 1
    measured: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {**asdict(self), "modelled": sorted(self.modelled)}
