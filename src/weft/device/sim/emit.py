"""Code for one warp: registers, masks, blocks and branches; rows do the rest.

The lanes that run are in MASK. Lanes that wait elsewhere are noted per block in the frame
(`pending`), and a warp always goes on with its lowest pending block, so that lanes meet again as
early as the block order allows. Where no branch can split the warp, none of this is emitted.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence
from typing import Any

from weft.device.sim import helpers, host_calls, operations, strips
from weft.device.sim.access import Access
from weft.device.sim.async_ops import AsyncCopies
from weft.device.sim.atomic_ops import Atomics
from weft.device.sim.form import AFFINE, INDEXED, SPARSE, UNIFORM, VECTOR, Form
from weft.device.sim.groups import Group
from weft.device.sim.lattice import SCALAR_OPS, adds_bits
from weft.device.sim.layout import Context, Slot, Worker
from weft.device.sim.matrix_ops import Matrices
from weft.device.sim.mbarrier_ops import MemoryBarriers
from weft.device.sim.program import CARRY, Program
from weft.device.sim.quick import Predicates
from weft.device.sim.runtime import WARP_CALL
from weft.device.sim.schedule import Schedule
from weft.device.sim.special import MASKS, special_form
from weft.device.sim.storage import Part, Registers
from weft.device.sim.waits import is_warp_sync
from weft.device.sim.warp_ops import AcrossLanes
from weft.device.sim.wide import Wide, WideRules
from weft.ir import BITS, Builder, Function, IrModule, Val
from weft.ptx.cfg import Block
from weft.ptx.isa import llvm_type
from weft.ptx.model import (
    FloatImm,
    Imm,
    Instruction,
    Not,
    Operand,
    Pair,
    Reg,
    Sink,
    Special,
    Sym,
    Vec,
)

CONSTANT = ", !invariant.load !{}"
"""On a load of what does not change during a launch: no store comes in its way."""


class WarpEmitter:
    """Emits `@warp` of a program; implements the `Warp` protocol that rows see."""

    def __init__(self, program: Program, module: IrModule, *, fast_math: bool = False) -> None:
        self.program, self.module, self.fast_math = program, module, fast_math
        fn = Function("warp", [], "i32", "#0")
        self.b = b = Builder(module, fn)
        kinds = [("C", "ptr"), ("K", "ptr"), ("S", "ptr"), ("F", "ptr"), ("w", "i32")]
        fn.params = [Val(b, ty, 0, f"%{name}") for name, ty in kinds]
        self.context, self.worker, self.slot, self.frame, self.warp = fn.params
        self.registers = Registers(program, b)
        self.mask_slot = b.alloca("i32")
        self.ins = _NOTHING
        self.block = program.graph.blocks[0]
        self.predicate_taken = False
        self._mask: Val | None = None
        self._special: dict[str, Val] = {}
        self.position = 0
        self.strips: dict[int, dict[int, int]] = {}
        self.versions: dict[str, int] = {}
        self.groups: dict[tuple[str, int, int, bool], Group] = {}
        self.clock_asm = CLOCKS[platform.machine()]
        self.quick = Predicates(self)
        self.access = Access(self)
        self.wide = WideRules(self)
        self.schedule = Schedule(self)
        self.across = AcrossLanes(self)
        self.atomics = Atomics(self)
        self.copies = AsyncCopies(self)
        self.mbarriers = MemoryBarriers(self)
        self.matrices = Matrices(self)

    # ---- the function -----------------------------------------------------------------------
    def emit(self) -> None:
        """The whole warp function, into the module."""
        self.registers.settle(self.schedule.header, len(self.schedule.points))
        if self.registers.crowded:
            self.strips = strips.plan(self)
        self._prologue()
        for block in self.program.graph.blocks:
            self._emit_block(block)
        self.schedule.epilogue()
        fn = self.b.fn
        self.module.functions["warp"] = (
            fn.text()
            .replace("ptr %F", "ptr noalias %F", 1)
            .replace("define internal", f"define internal {WARP_CALL}", 1)
        )

    def _prologue(self) -> None:
        b = self.b
        self.shared = b.load("ptr", 0, b.at(self.slot, Slot.SHARED))
        self.shared_bytes = b.load("i64", 0, b.at(self.slot, Slot.SHARED_BYTES)).trunc("i32")
        local = b.load("ptr", 0, b.at(self.slot, Slot.LOCAL))
        step = 32 * self.program.local_bytes
        self.local = b.at(local, self.warp.zext("i64") * step) if step else local
        self.params = b.load("ptr", 0, b.at(self.context, Context.PARAMS))
        self.sites = b.load("ptr", 0, b.at(self.worker, Worker.SITES))
        self._thread_bases()
        self.schedule.prologue()

    def _thread_bases(self) -> None:
        x, y, z = self.program.shape
        b, linear = self.b, self.warp << 5
        zero = b.integer("i32", 0)
        bases = {"x": zero, "y": zero, "z": zero}
        if x % 32 == 0:
            rows = b.binary("udiv", linear, b.integer("i32", x))
            bases["x"] = linear - rows * x
            bases["y"] = b.binary("urem", rows, b.integer("i32", y))
            bases["z"] = b.binary("udiv", rows, b.integer("i32", y))
        elif y == z == 1:
            bases["x"] = linear
        elif 32 % x == 0:
            rows = self.warp * (32 // x)
            bases["y"] = b.binary("urem", rows, b.integer("i32", y))
            bases["z"] = b.binary("udiv", rows, b.integer("i32", y))
        self.thread_base = bases
        self.linear = linear

    def _emit_block(self, block: Block) -> None:
        self.block = block
        self._mask = None
        self._special = {}
        self.b.place(f"B{block.index}")
        self.groups.clear()
        self.quick.found.clear()
        self.versions.clear()
        if block.index in self.program.scattered and block.code and is_warp_sync(block.code[0]):
            self.ins = block.code[0]
            self.schedule.suspension.meet(block)
        self._emit_code(block)
        self.ins = block.last or _NOTHING
        self.schedule.leave(block)

    def _emit_code(self, block: Block) -> None:
        runs = self.strips.get(block.index, {})
        self.position = 0
        while self.position < len(block.code):
            count = runs.get(self.position, 0)
            if count:
                strips.emit(self, block, self.position, count)
            else:
                self.instruction(block.code[self.position])
            self.position += max(count, 1)

    def instruction(self, ins: Instruction) -> None:
        """One instruction under its guard."""
        self.ins, self.predicate_taken = ins, False
        decoded = self.program.decoded[ins.index]
        if not decoded.row.warp:
            if ins.parts[0] not in MAKES_PREDICATES or not self.quick.defer(ins):
                self._lane_row(ins)
            return
        guard = self.program.forms[ins.guard] if ins.guard else None
        if guard is None or guard.kind != UNIFORM:
            decoded.row.function(self, ins, **decoded.words)
            return
        known, special = self._mask, dict(self._special)
        with self.b.when(self.guard()):  # every lane agrees: step over the instruction
            self.predicate_taken = True
            decoded.row.function(self, ins, **decoded.words)
        self.predicate_taken = False
        self._mask, self._special = known, special  # what was computed inside ends there

    # ---- lane-wise rows ---------------------------------------------------------------------
    def _lane_row(self, ins: Instruction) -> None:
        d = self.program.decoded[ins.index]
        own = self.program.result(ins)
        own = own if own is not None else Form(UNIFORM)
        dest = ins.operands[0]
        if isinstance(dest, Reg) and self.program.forms[dest.name].const is not None:
            return  # known at compile time: readers use the constant
        if own.kind in (INDEXED, SPARSE) and isinstance(dest, Reg):
            self.write_wide(dest.name, self.wide.build(ins, own))
            return
        scalar_bases = own.kind == AFFINE or (own.kind == UNIFORM and self._keeps_bases(ins))
        args: list[Val | None] = []
        given = list(ins.operands[1:])
        for spec in d.row.operands:
            if spec.is_dest:
                continue
            if spec.name == "cc":
                args.append(self.read_register(CARRY))
            elif not given:
                args.append(None)
            else:
                read = self.base if scalar_bases else self.read
                args.append(read(given.pop(0), d.types[spec.name]))
        if own.kind == AFFINE and ins.parts[0] in ("or", "xor") and self._adds_bits(ins):
            assert args[0] is not None and args[1] is not None
            out: Any = args[0] + args[1]
        else:
            out = d.row.function(self.b, *args, **d.words)
        results = list(out) if isinstance(out, tuple) else [out]
        if own.kind == AFFINE:
            results = [self.spread(results[0], own)] if not self._dest_is(own, dest) else results
        self._store_results(d, dest, results)

    def _adds_bits(self, ins: Instruction) -> bool:
        """An `or` of two affine values that is their sum (with a constant it is done as it is)."""
        forms = [self.program.form_of(o) for o in ins.operands[1:]]
        known = [f for f in forms if f is not None]
        return all(f.const is None for f in known) and adds_bits(known)

    def _keeps_bases(self, ins: Instruction) -> bool:
        """A uniform result of affine operands (their offsets cancel)."""
        name = ".".join(ins.parts[:-1])
        return name in SCALAR_OPS and any(
            (f := self.program.form_of(o)) is not None and f.kind == AFFINE
            for o in ins.operands[1:]
        )

    def _dest_is(self, own: Form, dest: Operand) -> bool:
        return isinstance(dest, Reg) and self.program.forms[dest.name].kind == AFFINE

    def _store_results(self, d: object, dest: Operand, results: list[Val]) -> None:
        spec = self.program.decoded[self.ins.index].row.operands[0]
        kind = self.program.decoded[self.ins.index].types[spec.name]
        signed = kind.startswith("s")
        if spec.pair == "cc":
            self.write(dest, results[0], signed=signed)
            self.write_register(CARRY, results[1])
        elif isinstance(dest, Pair):
            self.write(dest.first, results[0], signed=signed)
            self.write(dest.second, results[1])
        else:
            self.write(dest, results[0], signed=signed)

    # ---- reading ----------------------------------------------------------------------------
    def read(self, operand: Operand, ptx_type: str) -> Val:
        """A source as the row wants it: scalar when uniform, else 32 lanes."""
        ty = llvm_type(ptx_type)
        match operand:
            case Reg(name):
                return self.fit(self.read_register(name), ty)
            case Imm(value):
                return self.immediate(value, ty)
            case FloatImm(bits, width):
                return self.float_immediate(bits, width, ty)
            case Special(name):
                return self.fit(self.special(name), ty)
            case Not(of):
                return self.read(of, ptx_type) ^ 1
            case Sym():
                return self.fit(self.symbol(operand), ty)
        raise AssertionError(f"cannot read {operand}")

    def base(self, operand: Operand, ptx_type: str) -> Val:
        """The scalar part of an affine source."""
        ty = llvm_type(ptx_type)
        if isinstance(operand, Reg):
            form = self.program.forms[operand.name]
            if form.const is not None:
                return self.immediate(form.const, ty)
            part = self.registers.of(operand.name)[0]
            return self.fit(self.registers.load(part), ty)
        if isinstance(operand, Special):
            form = special_form(operand.name, self.program.shape)
            if form.kind == AFFINE:
                return self.fit(self._special_base(operand.name), ty)
        return self.read(operand, ptx_type)

    def read_register(self, name: str) -> Val:
        """A register's value, lanes spread out where they differ."""
        form = self.program.forms[name]
        storage = self.registers.storage(name)
        if form.const is not None and storage not in ("float", "double"):
            return self.b.integer(storage, form.const)
        if form.const is not None:
            return self.b.reinterpret(self.b.integer(f"i{BITS[storage]}", form.const), storage)
        if form.kind in (INDEXED, SPARSE):
            return self.read_wide(name).vector()
        v = self.registers.load(self.registers.of(name)[0])
        v.raw_nan = name in self.program.raw_nan
        return self.spread(v, form)

    def spread(self, base: Val, form: Form) -> Val:
        """base + off, as lanes."""
        if form.kind != AFFINE or base.n:
            return base
        base = self.b.bits(base)  # a register that is declared as a float may hold such a number
        return base + self.b.lanes(base.ty, form.off)

    def lane_table(self, ty: str, off: tuple[int, ...]) -> Val:
        """Lane offsets in memory, for code that does not know its lanes at compile time."""
        return helpers.lane_table(self.b, ty, off)

    def read_wide(self, name: str) -> Wide:
        """A register of one of the symbolic wide forms."""
        form = self.program.forms[name]
        base, index = (self.registers.load(p) for p in self.registers.of(name))
        return Wide(base, index, form.off, form.scale, form.signed)

    def read_lanes(self, operand: Operand, ptx_type: str) -> Val:
        return self.b.splat(self.read(operand, ptx_type), 32)

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        items = operand.items if isinstance(operand, Vec) else (operand,)
        return [self.read_lanes(x, ptx_type) for x in items]

    def fit(self, v: Val, ty: str) -> Val:
        """A register's bits as the type an instruction names: cut, zero-extended, or seen anew."""
        if v.ty == ty:
            return v
        if v.bits == BITS[ty]:
            return self.b.reinterpret(v, ty)
        v = self.b.bits(v)
        if ty == "i1":
            return v.ne(0)
        return self.b.reinterpret(self.b.resize(v, f"i{BITS[ty]}"), ty)

    def immediate(self, value: int, ty: str) -> Val:
        if ty in ("float", "double", "half"):
            return self.b.float_bits(ty, value & ((1 << BITS[ty]) - 1))
        return self.b.integer(ty, value)

    def float_immediate(self, bits: int, width: int, ty: str) -> Val:
        if ty == "float" and width == 64:  # a decimal literal where f32 is wanted
            value = struct.unpack("<d", struct.pack("<Q", bits))[0]
            bits = int.from_bytes(struct.pack("<f", value), "little")
        if ty in ("float", "double"):
            return self.b.float_bits(ty, bits)
        return self.b.integer(ty, bits)

    def symbol(self, sym: Sym) -> Val:
        """The address of a variable, as an instruction of its space sees it."""
        b, (space, offset) = self.b, self.program.symbols[sym.name]
        if space in ("global", "const"):  # the offset is into the table of addresses
            table = b.load("ptr", 0, b.at(self.context, Context.SYMBOLS), flags=CONSTANT)
            return b.load("i64", 0, b.at(table, offset), flags=CONSTANT) + sym.offset
        return b.integer("i64", offset + sym.offset)

    def special(self, name: str) -> Val:
        """The value of a special register."""
        form = special_form(name, self.program.shape)
        if form.const is not None:
            return self.b.integer("i32", form.const)
        if name in MASKS:
            return self.b.lanes("i32", [MASKS[name](i) for i in range(32)])
        if form.kind == VECTOR:
            return self._thread_lanes(name[-1])
        return self.spread(self._special_base(name), form)

    def _thread_lanes(self, axis: str) -> Val:
        x, y, _ = self.program.shape
        b = self.b
        linear = self.linear + b.lanes("i32", range(32))
        if axis == "x":
            return b.binary("urem", linear, b.integer("i32", x))
        rows = b.binary("udiv", linear, b.integer("i32", x))
        return b.binary("urem" if axis == "y" else "udiv", rows, b.integer("i32", y))

    def _special_base(self, name: str) -> Val:
        if name not in self._special or name.startswith(("clock", "globaltimer")):
            self._special[name] = self._special_value(name)
        return self._special[name]

    def _special_value(self, name: str) -> Val:
        b = self.b
        kind, _, axis = name.partition(".")
        if kind == "tid":
            return self.thread_base[axis]
        if kind == "ctaid":
            at = {"x": Slot.BLOCK_X, "y": Slot.BLOCK_Y, "z": Slot.BLOCK_Z}[axis]
            return b.load("i32", 0, b.at(self.slot, at))
        if kind == "nctaid":
            at = {"x": Context.GRID_X, "y": Context.GRID_Y, "z": Context.GRID_Z}[axis]
            return b.load("i32", 0, b.at(self.context, at))
        return self.access.counters(kind)

    # ---- writing ----------------------------------------------------------------------------
    def write(self, operand: Operand, value: Val, *, signed: bool = False) -> None:
        """A destination; values narrower than the register are extended."""
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Reg), operand
        self.write_register(operand.name, value, signed=signed)

    def write_vector(self, operand: Operand, values: Sequence[Val]) -> None:
        items = operand.items if isinstance(operand, Vec) else (operand,)
        for item, value in zip(items, values, strict=True):
            self.write(item, value)

    def write_register(self, name: str, value: Val, *, signed: bool = False) -> None:
        self.versions[name] = self.versions.get(name, 0) + 1
        form = self.program.forms[name]
        if form.const is not None:
            return
        storage = self.registers.storage(name)
        value = self.to_storage(value, storage, signed, name)
        part = self.registers.of(name)[0]
        if form.kind == VECTOR:
            value = self.b.splat(value, 32)
            value = self._blend(name, value, part)
        elif self.ins.guard is not None and not self.predicate_taken:
            old = self.registers.load(part)
            value = self.b.select(self.guard(), value, old)
        self.registers.store(part, value)

    def to_storage(self, v: Val, storage: str, signed: bool, name: str) -> Val:
        if v.is_float and v.raw_nan and name not in self.program.raw_nan:
            v = self.b.canonical(v)
        if v.ty == storage:
            return v
        if v.bits == BITS[storage]:
            return self.b.reinterpret(v, storage)
        v = self.b.resize(self.b.bits(v), f"i{BITS[storage]}", signed=signed)
        return self.b.reinterpret(v, storage)

    def _blend(self, name: str, value: Val, part: Part) -> Val:
        """Lanes that do not run, or whose guard is false, keep what they had."""
        keep = None
        if name in self.program.blend[self.block.index]:
            keep = self.mask_lanes()
        if self.ins.guard is not None and not self.predicate_taken:
            g = self.guard()
            keep = g if keep is None else self.b.splat(g, 32) & keep
        if keep is None:
            return value
        return self.b.select(keep, value, self.registers.load(part))

    def write_wide(self, name: str, value: Wide) -> None:
        """A result of a symbolic wide form, in whatever form the register has."""
        self.versions[name] = self.versions.get(name, 0) + 1
        form = self.program.forms[name]
        if form.kind not in (INDEXED, SPARSE):
            self.write_register(name, value.vector())
            return
        base, index = self.registers.of(name)
        new = value.index if form.kind == INDEXED else value.lanes()
        for part, v in ((base, value.base), (index, new)):
            if self.ins.guard is not None and not self.predicate_taken:
                v = self.b.select(self.guard(), v, self.registers.load(part))
            self.registers.store(part, v)

    # ---- masks ------------------------------------------------------------------------------
    @property
    def always_full(self) -> bool:
        """All 32 lanes run in this block, whatever the launch."""
        return self.program.full_warps and not self.program.partial[self.block.index]

    def mask(self) -> Val:
        """The lanes that run this block, as bits."""
        if self.always_full:
            return self.b.integer("i32", -1)
        return self.b.load("i32", 0, self.mask_slot)

    def lanes_of(self, bits: Val) -> Val:
        """Bits as `<32 x i1>`."""
        return helpers.lanes_of(self.b, bits)

    def mask_lanes(self) -> Val:
        """The lanes that run this block, as `<32 x i1>`."""
        if self._mask is None:
            self._mask = self.lanes_of(self.mask())
        return self._mask

    def bits_of(self, lanes: Val) -> Val:
        """`<32 x i1>` as bits."""
        b = self.b
        if lanes.n == 0:
            return b.select(lanes, b.integer("i32", -1), b.integer("i32", 0))
        kinds = [("i1", 32)]
        return b.helper("mask_bits", kinds, ("i32", 0), helpers.lane_bits, attrs="#1")(lanes)

    def guard(self) -> Val:
        """The guard predicate of the instruction, negation resolved."""
        assert self.ins.guard is not None
        quick = self.quick.found.get(self.ins.guard)
        p = quick.lanes() if quick is not None else self.read_register(self.ins.guard)
        return p ^ 1 if self.ins.guard_negated else p

    def executing(self) -> Val:
        """The lanes that execute this instruction, as bits: mask and guard."""
        bits = self.mask()
        if self.ins.guard is not None and not self.predicate_taken:
            bits = bits & self.bits_of(self.guard())
        return bits

    @property
    def executes_fully(self) -> bool:
        """No lane is left out, known at compile time."""
        guarded = self.ins.guard is not None and not self.predicate_taken
        return self.always_full and not guarded

    def active(self) -> Val:
        return self.lanes_of(self.executing())

    def forget_mask(self) -> None:
        """Cached masks do not outlive a block of IR that not all paths pass."""
        self._mask = None

    # ---- what rows ask for -------------------------------------------------------------------
    def move(self, ins: Instruction, ptx_type: str) -> None:
        operations.move(self, ins, ptx_type)

    def load(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        operations.load(self, ins, space, ptx_type, order)

    def store(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        operations.store(self, ins, space, ptx_type, order)

    def convert_address(self, ins: Instruction, space: str, *, to_space: bool) -> None:
        operations.convert_address(self, ins, space, to_space)

    def test_space(self, ins: Instruction, space: str) -> None:
        operations.test_space(self, ins, space)

    def fence(self) -> None:
        operations.fence(self)

    def barrier(self, ins: Instruction, op: str) -> None:
        operations.barrier(self, ins, op)

    def trap(self, ins: Instruction) -> None:
        operations.trap(self, ins)

    def call(self, ins: Instruction) -> None:
        host_calls.call(self, ins)

    # ---- faults -----------------------------------------------------------------------------
    def fault(self, code: int, lane: Val | None = None, address: Val | None = None) -> None:
        """Notes an error and leaves the warp; what follows is unreachable."""
        b = self.b
        fields = {
            Worker.ERROR: b.integer("i64", code),
            Worker.ERROR_SITE: b.integer("i64", self.ins.index),
        }
        if lane is not None:
            fields[Worker.ERROR_LANE] = lane.zext("i64")
        if address is not None:
            fields[Worker.ERROR_ADDRESS] = address
        for at, v in fields.items():
            b.store(v, b.at(self.worker, at))
        b.jump("abort")

    def abort_unless(self, ok: Val) -> None:
        """Leaves the warp when a helper has noted an error."""
        go = self.b.label("ok")
        self.b.emit(f"br {ok.tref}, label %{go}, label %abort, !prof !2")
        self.b.place(go)


MAKES_PREDICATES = ("setp", "and", "or", "not")

CLOCKS = {
    "aarch64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "arm64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "x86_64": 'asm sideeffect "rdtsc; shlq $$32, %rdx; orq %rdx, %rax", "={rax},~{rdx}"()',
    "AMD64": 'asm sideeffect "rdtsc; shlq $$32, %rdx; orq %rdx, %rax", "={rax},~{rdx}"()',
}
"""How each host reads its counter."""

_NOTHING = Instruction("", ("",), (), None, False, 0, "", None)
