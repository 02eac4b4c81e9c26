"""Runs of lane-wise instructions as a loop over strips of a few lanes.

Where a kernel keeps more vectors than the host has registers, whole warps of values go through
memory at every instruction. A strip takes eight lanes through the whole run instead: what one
instruction computes the next finds in a register, and the code is a quarter as long.

In a loop that computes with 64-bit vectors, of which a few fill all registers, strips follow one
another without a loop, and what they have in common stays in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Protocol

from weft.device.sim.analyse.form import AFFINE, UNIFORM, VECTOR
from weft.device.sim.emit.registers import Registers
from weft.device.sim.lane_sets import lane_table
from weft.device.sim.observe import Watcher
from weft.device.sim.protocols import Executing
from weft.ir import BITS, Val
from weft.ptx.cfg import EXIT, BasicBlock
from weft.ptx.isa import decode, llvm_type
from weft.ptx.isa.columns import Ordering
from weft.ptx.model import FloatImm, Imm, Instruction, Operand, Reg

WIDTH = 8
"""Lanes of a strip: two host vectors of 128 bits, one of 256."""
SHORTEST = 6
"""Instructions of the shortest run: a shorter one does not pay for the loop."""
MANY_WIDE = 3
"""64-bit results of a run that fill the registers of a host."""
MOST_LEAVING = 0.75
"""The largest part of a run's results that may be stored to memory at its end."""


class Stripped(Executing, Protocol):
    """The emitter's interface for lane-wise instructions, and their observer."""

    registers: Registers
    watch: Watcher
    versions: dict[str, int]

    def fit(self, v: Val, ty: str) -> Val:
        """A register's bits as the type that an instruction names."""

    def to_storage(self, v: Val, storage: str, signed: bool, name: str) -> Val:
        """A result as the register `name` keeps it."""


def reorder(e: Stripped, block: BasicBlock, taken: Collection[int]) -> None:
    """Move loads and scalar work first, as far as their operands allow, so that runs get longer.

    taken  instructions that can be part of a strip, by their index
    """
    out: list[Instruction] = []
    early: list[Instruction] = []
    late: list[Instruction] = []
    written: set[str] = set()
    read: set[str] = set()

    def flush() -> None:
        out.extend(early)
        out.extend(late)
        for x in (early, late):
            x.clear()
        written.clear()
        read.clear()

    for ins in block.code:
        defs, uses = e.program.defs(ins), e.program.uses(ins)
        movable = _is_plain_load(ins) or (_is_lane_row(e, ins) and ins.index not in taken)
        # Stores, barriers and ordered loads keep their place, and nothing passes them.
        if not movable and not _is_lane_row(e, ins):
            flush()
            out.append(ins)
            continue
        # To move ahead of the late ones, it must read nothing that they write, and write nothing
        # that they read or write.
        free = not (written & set(uses)) and not ((written | read) & set(defs))
        if movable and free:
            early.append(ins)
        else:
            late.append(ins)
            written.update(defs)
            read.update(uses)
    flush()
    block.code = out


def _is_plain_load(ins: Instruction) -> bool:
    row = decode(ins).row
    return row.is_load and row.ordering is Ordering.WEAK and ins.guard is None


def _is_lane_row(e: Stripped, ins: Instruction) -> bool:
    return not e.program.decoded[ins.index].row.warp


def takes(e: Stripped, block: BasicBlock, ins: Instruction, *, predicates: bool = False) -> bool:
    """Return whether the instruction can be part of a strip."""
    d = e.program.decoded[ins.index]
    dest = None if d.row.warp else ins.operands[0]
    if ins.guard is not None or not isinstance(dest, Reg):
        return False
    name = dest.name
    # A strip writes all its lanes, so no lane may have to keep its old value.
    if not _is_kept(e, name, predicates) or name in e.program.blend[block.index]:
        return False
    # The second result of a comparison is not written.
    if any(s.name == "cc" or s.pair == "cc" or (s.pair and not predicates) for s in d.row.operands):
        return False
    form = e.program.result(ins)
    fits = all(_fits(e, o, predicates) for o in ins.operands[1:])
    return form is not None and form.kind == VECTOR and fits


def _is_kept(e: Stripped, name: str, predicates: bool) -> bool:
    """Return whether the register is a vector; with `predicates`, a vector of predicates counts."""
    return e.registers.is_vector(name) or (predicates and e.program.forms[name].kind == VECTOR)


def _fits(e: Stripped, operand: Operand, predicates: bool) -> bool:
    if isinstance(operand, Imm | FloatImm):
        return True
    if not isinstance(operand, Reg):
        return False
    kind = e.program.forms[operand.name].kind
    return kind in (UNIFORM, AFFINE) or _is_kept(e, operand.name, predicates)


def plan(e: Stripped) -> dict[int, dict[int, int]]:
    """The strips that pay off: block -> start -> length. Their registers move to the frame."""
    out: dict[int, dict[int, int]] = {}
    for block in e.program.graph.blocks:
        taken = {ins.index for ins in block.code if takes(e, block, ins)}
        reorder(e, block, taken)
        for start, count in _runs(e, block, taken):
            if _pays(e, block, start, count):
                out.setdefault(block.index, {})[start] = count
    return out


def plan_in_registers(e: Stripped) -> dict[int, dict[int, int]]:
    """Runs of 64-bit vectors in loops: block -> start -> length."""
    out: dict[int, dict[int, int]] = {}
    for block in e.program.graph.blocks:
        if not block.loops:
            continue
        taken = {ins.index for ins in block.code if takes(e, block, ins, predicates=True)}
        for start, count in _runs(e, block, taken):
            written = [r for i in block.code[start : start + count] for r in e.program.defs(i)]
            vectors = [r for r in written if e.registers.is_vector(r)]
            wide = [r for r in vectors if BITS[e.registers.storage(r)] == 64]
            # Predicates would have to be put together again.
            leaving = _live_after(e, block, start + count).intersection(written)
            if len(wide) >= MANY_WIDE and leaving <= set(vectors):
                out.setdefault(block.index, {})[start] = count
    return out


def _runs(e: Stripped, block: BasicBlock, taken: set[int]) -> Iterator[tuple[int, int]]:
    """Start and length of runs that are long enough."""
    # Not where a watcher reads registers before an instruction.
    taken = taken - e.watch.reads(block).keys()
    start = 0
    while start < len(block.code):
        count = 0
        while start + count < len(block.code) and block.code[start + count].index in taken:
            count += 1
        if count >= SHORTEST:
            yield start, count
        start += max(count, 1)


def _pays(e: Stripped, block: BasicBlock, start: int, count: int) -> bool:
    """Return whether fewer results leave a strip than it computes."""
    run = block.code[start : start + count]
    needed = _live_after(e, block, start + count)
    written = {r for ins in run for r in e.program.defs(ins)}
    if len(written & needed) > MOST_LEAVING * count:
        return False
    vectors = {r for ins in run for r in e.program.uses(ins) if e.registers.is_vector(r)}
    e.registers.resident |= written | vectors
    return True


def emit(e: Stripped, block: BasicBlock, start: int, count: int) -> None:
    """The loop over strips for `count` instructions."""
    b = e.b
    run = block.code[start : start + count]
    needed = _live_after(e, block, start + count)
    # Outside of the loop: a warp executes each instruction once, not once a strip.
    for ins in run:
        e.ins = ins
        e.watch.instruction(ins)
    with b.loop(32 // WIDTH) as strip:
        first = strip.zext("i64") * WIDTH
        values = _compute(e, run, partial(_read, e, first))
        for name, value in values.items():
            if name in needed:
                part = e.registers.of(name)[0]
                b.store(value, e.registers.place(part, first), 16)
    for name in values:
        e.versions[name] = e.versions.get(name, 0) + 1
    e.forget_mask()


def emit_in_registers(e: Stripped, block: BasicBlock, start: int, count: int) -> None:
    """One strip after the other for `count` instructions."""
    run = block.code[start : start + count]
    needed = _live_after(e, block, start + count)
    for ins in run:
        e.ins = ins
        e.watch.instruction(ins)
    wholes: dict[tuple[str, str], Val] = {}
    strips = [_compute(e, run, partial(_piece, e, i, wholes)) for i in range(0, 32, WIDTH)]
    for name in strips[0]:
        if name in needed:
            e.write(Reg(name), e.b.concat([values[name] for values in strips]))


def _compute(
    e: Stripped, run: list[Instruction], read: Callable[[dict[str, Val], Operand, str], Val]
) -> dict[str, Val]:
    """The results of a run in one strip; `read` gives the operands that it has not written."""
    values: dict[str, Val] = {}
    for ins in run:
        e.ins = ins
        d = e.program.decoded[ins.index]
        sources = list(ins.operands[1:])
        args: list[Val | None] = []
        for spec in d.row.operands:
            if not spec.is_dest:
                source = sources.pop(0) if sources else None
                kind = d.types[spec.name]
                args.append(read(values, source, kind) if source is not None else None)
        out = d.row.function(e.b, *args, **d.words)
        dest = ins.operands[0]
        assert isinstance(dest, Reg)
        signed = d.types[d.row.operands[0].name].startswith("s")
        storage = e.registers.storage(dest.name)
        first = out[0] if isinstance(out, tuple) else out
        value = e.to_storage(first, storage, signed, dest.name)
        values[dest.name] = e.b.splat(value, WIDTH)
    return values


def _live_after(e: Stripped, block: BasicBlock, position: int) -> set[str]:
    live: set[str] = set()
    for s in block.successors:
        if s != EXIT:
            live |= e.program.graph.live_in[s]
    # Lanes that wait elsewhere still need theirs.
    for x in e.program.waiting[block.index]:
        live |= e.program.graph.live_in[x]
    tail = [*block.code[position:], *([block.last] if block.last else [])]
    watched = e.watch.reads(block)
    for ins in tail:
        live.update(e.program.uses(ins), watched.get(ins.index, ()))
    return live


def _piece(
    e: Stripped,
    first: int,
    wholes: dict[tuple[str, str], Val],
    values: dict[str, Val],
    operand: Operand,
    kind: str,
) -> Val:
    """An operand for the lanes from `first` on; `wholes` has those of all lanes."""
    if not isinstance(operand, Reg) or e.program.forms[operand.name].kind == UNIFORM:
        return e.read(operand, kind)
    if operand.name in values:
        return e.fit(values[operand.name], llvm_type(kind))
    key = operand.name, kind
    if key not in wholes:
        wholes[key] = e.read_lanes(operand, kind)
    return e.b.shuffle(wholes[key], range(first, first + WIDTH))


def _read(e: Stripped, first: Val, values: dict[str, Val], operand: Operand, kind: str) -> Val:
    """An operand for the lanes of one strip."""
    b = e.b
    if not isinstance(operand, Reg):
        return e.read(operand, kind)
    name = operand.name
    ty = llvm_type(kind)
    if name in values:
        return e.fit(values[name], ty)
    form = e.program.forms[name]
    if form.kind == UNIFORM:
        return e.read(operand, kind)
    if form.kind == AFFINE:
        base = b.bits(e.base(operand, kind))  # a float that holds the bits of an index, say
        table = lane_table(b, base.element, form.off)
        lanes = base + b.load(base.element, WIDTH, b.at(table, first * (base.bits // 8)), 4)
        return e.fit(lanes, ty)
    part = e.registers.of(name)[0]
    v = b.load(part.ty, WIDTH, e.registers.place(part, first), 16)
    v.raw_nan = name in e.program.raw_nan
    return e.fit(v, ty)
