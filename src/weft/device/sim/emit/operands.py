"""Operands of a warp's instruction: reading, writing, and the lanes that they apply to."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Hashable, Sequence

from weft.device.sim.address import Stripes, Wide
from weft.device.sim.analyse.form import AFFINE, INDEXED, SPARSE, STRIPED, VECTOR, Form
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.analyse.special import special_form
from weft.device.sim.emit.branch_predicates import Predicates
from weft.device.sim.emit.frame import WarpPlace
from weft.device.sim.emit.registers import RegisterPart, Registers
from weft.device.sim.emit.special_values import Specials
from weft.device.sim.lane_sets import lane_bits, lanes_of, spread
from weft.device.sim.layout import ContextFields
from weft.ir import BITS, CONSTANT, Builder, IrFunction, IrModule, Val
from weft.ptx.isa import llvm_type
from weft.ptx.model import FloatImm, Imm, Instruction, Not, Operand, Reg, Sink, Special, Sym, Vec

PARAMETERS = [
    ("C", "ptr"), ("K", "ptr"), ("S", "ptr"), ("F", "ptr"), ("w", "i32"), ("state", "i32"),
    ("together", "i32"),
]  # fmt: skip
"""The parameters of a warp's code: context, worker, slot, the block's frames, the number of the
warp, its starting place, and whether the code continues with the following warps.
"""

NOTHING = Instruction("", ("",), (), None, False, 0, "", None)
"""The instruction while there is none."""


class WarpOperands:
    """Registers, constants, symbols and masks of the instruction at hand: the emitter's base."""

    specials: Specials
    predicates: Predicates
    rank_base: Val
    """In a cluster, the block's rank, above the offset of a shared address."""

    def __init__(self, program: KernelProgram, module: IrModule) -> None:
        self.program = program
        fn = IrFunction("warp", [], "i32", "#0")
        self.b = b = Builder(module, fn)
        fn.params = [Val(b, ty, 0, f"%{name}") for name, ty in PARAMETERS]
        self.context, self.worker, self.slot, self.frames, warp = fn.params[:5]
        self.place = WarpPlace(warp, self.frames, self.slot)
        self.registers = Registers(program, b, lambda: self.frame)
        self.mask_slot = b.alloca("i32")
        self.ins = NOTHING
        self.block = program.graph.blocks[0]
        self.predicate_taken = False
        self.versions: dict[str, int] = {}
        self._mask: Val | None = None

    # ---- the warp that runs ------------------------------------------------------------------
    @property
    def warp(self) -> Val:
        """The number of the warp in its block."""
        return self.b.load("i32", 0, self.place.warp) if self.place.varies else self.place.warp

    @property
    def frame(self) -> Val:
        """Its frame."""
        return self._constant(self.place.frame)

    @property
    def local(self) -> Val:
        """Local memory of its lane 0; the other lanes follow."""
        return self._constant(self.place.local)

    def _constant(self, place: Val) -> Val:
        """Read a variable that is set where a warp starts, and not after a block has read it."""
        return self.b.pure("ptr", 0, f"load ptr, {place.typed}") if self.place.varies else place

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
                return self.fit(self.specials.read(name), ty)
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
                return self.fit(self.specials.base(operand.name), ty)
        return self.read(operand, ptx_type)

    def read_register(self, name: str) -> Val:
        """A register's value, lanes spread out where they differ."""
        if name in self.predicates.deferred:
            return self.predicates.deferred[name].lanes()
        form = self.program.forms[name]
        storage = self.registers.storage(name)
        if form.const is not None and storage not in ("float", "double"):
            return self.b.integer(storage, form.const)
        if form.const is not None:
            return self.b.reinterpret(self.b.integer(f"i{BITS[storage]}", form.const), storage)
        if form.kind in (INDEXED, SPARSE):
            return self.read_wide(name).vector()
        if form.kind == STRIPED:
            return self.read_stripes(name).vector()
        v = self.registers.load(self.registers.of(name)[0])
        v.raw_nan = name in self.program.raw_nan
        return self.spread(v, form)

    def spread(self, base: Val, form: Form) -> Val:
        """base + off, as lanes."""
        if form.kind != AFFINE or base.lanes:
            return base
        return spread(base, form.off)

    def read_wide(self, name: str) -> Wide:
        """A register of one of the symbolic wide forms."""
        form = self.program.forms[name]
        base, index, *step = (self.registers.load(p) for p in self.registers.of(name))
        wide = Wide(base, index, form.off, form.scale, form.signed)
        if step:
            wide.step, wide.rows = step[0], form.rows
        return wide

    def read_stripes(self, name: str) -> Stripes:
        """A register of the striped form."""
        form = self.program.forms[name]
        base, step = (self.registers.load(p) for p in self.registers.of(name))
        return Stripes(base, step, form.off, form.rows)

    def read_lanes(self, operand: Operand, ptx_type: str) -> Val:
        return self.b.splat(self.read(operand, ptx_type), 32)

    def read_vector(self, operand: Operand, ptx_type: str) -> list[Val]:
        items = operand.items if isinstance(operand, Vec) else (operand,)
        return [self.read_lanes(x, ptx_type) for x in items]

    def contents(self, operand: Operand) -> Hashable:
        """Block, registers, and how often each has been written in the block."""
        # Code under a guard may not have run when the rest of the block does.
        if self.ins.guard is not None or not isinstance(operand, Vec):
            return None
        names = [x.name for x in operand.items if isinstance(x, Reg)]
        if len(names) < len(operand.items):
            return None
        return self.block.index, tuple((name, self.versions.get(name, 0)) for name in names)

    def contents_written(self, operand: Operand) -> Hashable:
        """As `contents`, for a destination that all lanes have written."""
        items, blends = getattr(operand, "items", ()), self.program.blend[self.block.index]
        kept = any(isinstance(x, Reg) and x.name in blends for x in items)
        return None if kept else self.contents(operand)

    def fit(self, v: Val, ty: str) -> Val:
        """A register's bits as another type: truncated, zero-extended, or reinterpreted."""
        if v.element == ty:
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
            # C's conversion: a value beyond the largest float is an infinity, not an error
            bits = int.from_bytes(bytes(ctypes.c_float(value)), "little")
        if ty in ("float", "double"):
            return self.b.float_bits(ty, bits)
        return self.b.integer(ty, bits)

    def symbol(self, sym: Sym) -> Val:
        """The address of a variable, as an instruction of its space sees it."""
        b, (space, offset) = self.b, self.program.symbols[sym.name]
        if space in ("global", "const"):  # the offset is into the table of addresses
            table = b.load("ptr", 0, b.at(self.context, ContextFields.SYMBOLS), flags=CONSTANT)
            return b.load("i64", 0, b.at(table, offset), flags=CONSTANT) + sym.offset
        if space == "shared" and self.program.clusters:
            return self.rank_base.zext("i64") + (offset + sym.offset)
        return b.integer("i64", offset + sym.offset)

    # ---- writing ----------------------------------------------------------------------------
    def write(self, operand: Operand, value: Val, *, signed: bool = False) -> None:
        """Write a destination; values narrower than the register are extended."""
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
        if form.is_scalar and value.lanes:  # computed by lanes, known to be base + off
            value = self.b.extract(value, 0)
            value = value - form.off[0] if form.off[0] else value
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
        if v.element == storage:
            return v
        if v.bits == BITS[storage]:
            return self.b.reinterpret(v, storage)
        v = self.b.resize(self.b.bits(v), f"i{BITS[storage]}", signed=signed)
        return self.b.reinterpret(v, storage)

    def _blend(self, name: str, value: Val, part: RegisterPart) -> Val:
        """Combine with the old value: lanes that do not run, or whose guard is false, keep it."""
        b, blends = self.b, name in self.program.blend[self.block.index]
        if self.ins.guard is not None and not self.predicate_taken:
            return self._guarded(value, self.registers.load(part), blends)
        if not blends:
            return value
        old = self.registers.load(part)
        if self.block.index not in self.program.hammocks.around:
            return b.select(self.mask_lanes(), value, old)
        # All lanes of a warp take most `if`s (`if (i < n)`), or none does.
        return b.either(
            self.mask().eq(-1),
            lambda: value,
            lambda: b.select(self.lanes_of(self.mask()), value, old),
        )

    def _guarded(self, value: Val, old: Val, blends: bool) -> Val:
        """`value` in the lanes whose guard holds, and which run where registers are blended."""
        b, holds = self.b, self._guard_holds()
        if holds is not None and not blends:
            # Most warps are inside of the bound of `if (i < n)` with all their lanes.
            return b.either(holds, lambda: value, lambda: b.select(self.guard(), value, old))
        g = self.guard()
        return b.select(b.splat(g, 32) & self.mask_lanes() if blends else g, value, old)

    def write_wide(self, name: str, value: Wide) -> None:
        """Write a result of a symbolic wide form, converted to the register's form."""
        self.versions[name] = self.versions.get(name, 0) + 1
        form = self.program.forms[name]
        if form.kind not in (INDEXED, SPARSE):
            self.write_register(name, value.vector())
            return
        new = [value.base, value.index if form.kind == INDEXED else value.lanes()]
        if form.kind == INDEXED and value.step is not None:
            new.append(value.step)
        self._write_parts(name, new)

    def write_stripes(self, name: str, value: Stripes) -> None:
        """Write a result of the striped form, converted to the register's form."""
        self.versions[name] = self.versions.get(name, 0) + 1
        if self.program.forms[name].kind == STRIPED:
            self._write_parts(name, [value.base, value.step])
        else:
            self.write_register(name, value.vector())

    def _write_parts(self, name: str, values: Sequence[Val]) -> None:
        for part, v in zip(self.registers.of(name), values, strict=True):
            if self.ins.guard is not None and not self.predicate_taken:
                v = self.b.select(self.guard(), v, self.registers.load(part))
            self.registers.store(part, v)

    # ---- masks ------------------------------------------------------------------------------
    @property
    def always_full(self) -> bool:
        """True if all 32 lanes run this block in any launch."""
        return self.program.full_warps and not self.program.partial[self.block.index]

    def mask(self) -> Val:
        """The lanes that run this block, as bits."""
        if self.always_full:
            return self.b.integer("i32", -1)
        return self.b.load("i32", 0, self.mask_slot)

    def lanes_of(self, bits: Val) -> Val:
        """Bits as `<32 x i1>`."""
        return lanes_of(self.b, bits)

    def mask_lanes(self) -> Val:
        """The lanes that run this block, as `<32 x i1>`."""
        if self._mask is None:
            self._mask = self.lanes_of(self.mask())
        return self._mask

    def bits_of(self, lanes: Val) -> Val:
        """`<32 x i1>` as bits."""
        b = self.b
        if lanes.lanes == 0:
            return b.select(lanes, b.integer("i32", -1), b.integer("i32", 0))
        kinds = [("i1", 32)]
        return b.helper("mask_bits", kinds, ("i32", 0), lane_bits, attrs="#1")(lanes)

    def guard(self) -> Val:
        """The guard predicate of the instruction, negation resolved."""
        assert self.ins.guard is not None
        p = self.read_register(self.ins.guard)
        return p ^ 1 if self.ins.guard_negated else p

    def guard_bits(self) -> Val:
        """The lanes whose guard holds, as bits."""
        assert self.ins.guard is not None
        deferred = self.predicates.deferred.get(self.ins.guard)
        if deferred is None:
            return self.bits_of(self.guard())
        return ~deferred.bits() if self.ins.guard_negated else deferred.bits()

    def _guard_holds(self) -> Val | None:
        """True if the guard holds in all lanes; None if only the lanes can decide.

        A sum that wraps gives false although the guard may hold.
        """
        guard = self.ins.guard if not self.predicate_taken else None
        p = self.predicates.deferred.get(guard) if guard is not None else None
        if p is None:
            return None
        return p.agreed & (p.value ^ 1 if self.ins.guard_negated else p.value)

    def executes_in_all(self) -> Val:
        """True if all 32 lanes execute this instruction; it may be false although they do."""
        holds = self._guard_holds()
        if holds is None:
            return self.executing().eq(-1)
        return holds if self.always_full else holds & self.mask().eq(-1)

    def executing(self) -> Val:
        """The lanes that execute this instruction, as bits: mask and guard."""
        bits = self.mask()
        if self.ins.guard is not None and not self.predicate_taken:
            bits = bits & self.guard_bits()
        return bits

    @property
    def executes_fully(self) -> bool:
        """True if no lane is excluded, known at compile time."""
        guarded = self.ins.guard is not None and not self.predicate_taken
        return self.always_full and not guarded

    def active(self) -> Val:
        return self.lanes_of(self.executing())

    def forget_mask(self) -> None:
        """Discard cached masks, which do not outlive a block of IR that not all paths pass."""
        self._mask = None
