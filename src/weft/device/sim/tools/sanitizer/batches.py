"""Batches: accesses to shared memory of one basic block that are checked together.

Code often reads shared memory many times in a row: the inner loop of a tiled product, the rows of a
fragment. A tree of sums reads twice and writes. Such a *batch* has any number of reads, then at
most one write. All of its lanes are at constant distances. `shared_log` has the code for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.device.sim.analyse.form import AFFINE, ZERO
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.tools.sanitizer.bounds import SharedVariable
from weft.device.sim.tools.sanitizer.layout import BlockState
from weft.device.sim.tools.sanitizer.shadow.fast import pattern_of
from weft.ir import Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Ordering
from weft.ptx.model import SIZES, Instruction, Mem, Operand, Reg, Sym

_QUIET = ("global", "param", "const")
"""Spaces whose plain accesses may come between the accesses of a batch."""
_A_WORD_EACH = tuple(range(0, 128, 4))


@dataclass(frozen=True)
class BatchAccess:
    """One access of all lanes: `offset` from the lowest of its base, and `off` from lane to lane.

    words  the words that it touches, as bits from the lowest byte of its base on
    """

    ins: Instruction
    base: int
    offset: int
    off: tuple[int, ...]
    nbytes: int
    writes: bool

    @property
    def words(self) -> int:
        bits = 0
        for x in self.off:
            first, end = (self.offset + x) // 4, -(-(self.offset + x + self.nbytes) // 4)
            bits |= (1 << end) - (1 << first)
        return bits

    def same_place(self, other: BatchAccess) -> bool:
        """Return whether each lane touches the same bytes as in the other."""
        mine, theirs = ((t.base, t.offset, t.off, t.nbytes) for t in (self, other))
        return mine == theirs


@dataclass
class Base:
    """A register that accesses are relative to; the variable that it points into, if known."""

    operand: Operand
    variable: SharedVariable | None
    lowest: int
    nbytes: int = 0


@dataclass
class AccessBatch:
    """Accesses that follow one another; the first one checks all."""

    number: int
    marks: bool
    """True if a write follows that tests whether words have been read."""
    touches: list[BatchAccess] = field(default_factory=list)
    bases: list[Base] = field(default_factory=list)
    ok: Val | None = None

    @property
    def write(self) -> BatchAccess | None:
        """Its only write."""
        return self.touches[-1] if self.touches[-1].writes else None

    @property
    def reads(self) -> list[BatchAccess]:
        return self.touches[:-1] if self.write is not None else self.touches

    @property
    def others(self) -> list[BatchAccess]:
        """The reads that may be of other threads' words, as far as the write is concerned."""
        return [t for t in self.reads if self.write is None or not t.same_place(self.write)]

    @property
    def in_rows(self) -> bool:
        """True if each lane has a word in each access, in a row: some lanes are a batch, too."""
        return all(t.off == _A_WORD_EACH and t.nbytes == 4 for t in self.touches)

    def words(self, touches: Sequence[BatchAccess]) -> list[tuple[int, int]]:
        """(base, words that these accesses touch, as bits) for each base."""
        out = [0] * len(self.bases)
        for t in touches:
            out[t.base] |= t.words
        return [(i, bits) for i, bits in enumerate(out) if bits]


_Plain = tuple[Instruction, Mem, int, bool]
"""An access with its address, bytes a lane, and whether it writes."""


def plan(program: KernelProgram, variables: Mapping[int, SharedVariable]) -> list[AccessBatch]:
    """The batches of a kernel."""
    out: list[AccessBatch] = []
    for block in program.graph.blocks:
        run: list[_Plain] = []
        changed: set[str] = set()
        for ins in [*block.code, None]:
            access = _plain_access(program, ins) if ins is not None else None
            stays = access is not None and not (
                isinstance(access[1].base, Reg) and access[1].base.name in changed
            )
            ends = ins is None or not (stays if access is not None else _may_come_between(ins))
            if run and (ends or run[-1][3]):
                _add(program, variables, block, out, run)
                run, changed = [], set()
            if access is not None:
                run.append(access)
            if run and ins is not None:
                changed |= set(program.defs(ins))
    return out


def _plain_access(program: KernelProgram, ins: Instruction) -> _Plain | None:
    """A plain access whose lanes are at constant distances."""
    d = decode(ins)
    row = d.row
    plain = (row.is_load or row.is_store) and row.ordering is Ordering.WEAK and ins.guard is None
    if not plain or d.space != "shared" or d.type not in SIZES:
        return None
    mem = ins.operands[row.position(row.effects[0].operand)]
    if not isinstance(mem, Mem) or not isinstance(mem.base, Reg | Sym):
        return None
    form = program.form_of(mem.base) if isinstance(mem.base, Reg) else None
    if isinstance(mem.base, Reg) and (form is None or form.kind > AFFINE):
        return None
    # Two lanes that write one word may race with each other.
    if row.is_store and pattern_of(_distances(program, mem), d.lane_bytes, writes=True) is None:
        return None
    return ins, mem, d.lane_bytes, row.is_store


def _distances(program: KernelProgram, mem: Mem) -> tuple[int, ...]:
    """The distances of the lanes from the lowest one."""
    form = program.form_of(mem.base) if isinstance(mem.base, Reg) else None
    off = form.off if form is not None else ZERO
    return tuple(x - min(off) for x in off)


def _may_come_between(ins: Instruction) -> bool:
    """Return whether it affects neither shared memory nor the order of accesses."""
    d = decode(ins)
    if not d.row.warp:
        return True
    plain = (d.row.is_load or d.row.is_store) and d.row.ordering is Ordering.WEAK
    return plain and d.space in _QUIET


def _writes_after(block: BasicBlock, last: Instruction) -> list[Instruction]:
    """The writes of the block to shared memory after an instruction."""
    after = block.code[block.code.index(last) + 1 :]
    return [i for i in after if (d := decode(i)).row.writes and d.space not in _QUIET]


def _add(
    program: KernelProgram,
    variables: Mapping[int, SharedVariable],
    block: BasicBlock,
    out: list[AccessBatch],
    run: Sequence[_Plain],
) -> None:
    writes = _writes_after(block, run[-1][0])
    # A write that is in no batch needs the records at once.
    if any(_plain_access(program, i) is None for i in writes) or len(out) == BlockState.BATCHES:
        return
    batch, keys = AccessBatch(len(out) + 1, bool(writes) or run[-1][3]), list[tuple[str, str]]()
    for ins, mem, nbytes, is_store in run:
        off = _distances(program, mem)
        if any(x % min(nbytes, 4) for x in off):
            return
        variable = variables.get(ins.index)
        key = (str(mem.base), "" if variable is None else variable.name)
        if key not in keys:
            keys.append(key)
            batch.bases.append(Base(mem.base, variable, mem.offset))
        base = keys.index(key)
        batch.bases[base].lowest = min(batch.bases[base].lowest, mem.offset)
        batch.touches.append(BatchAccess(ins, base, mem.offset, off, nbytes, is_store))
    for i, t in enumerate(batch.touches):
        b = batch.bases[t.base]
        at = t.offset - b.lowest
        batch.touches[i] = BatchAccess(t.ins, t.base, at, t.off, t.nbytes, t.writes)
        b.nbytes = max(b.nbytes, at + max(t.off) + t.nbytes)
        if t.writes and at % 4:  # beside reads of bytes
            return
    few = len(batch.bases) <= BlockState.BASES
    if few and all(b.nbytes <= BlockState.REACH for b in batch.bases):
        out.append(batch)
