"""The operations of warp rows: moves, loads and stores, addresses, fences, barriers, traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from weft.device.sim.address import Stripes, Wide, space_of
from weft.device.sim.analyse.form import AFFINE, INDEXED, SPARSE, STRIPED, Form
from weft.device.sim.emit.block.barriers import BlockBarriers
from weft.device.sim.emit.wide_values import WideRules
from weft.device.sim.lane_sets import spread
from weft.device.sim.layout import ContextFields, Fault, SlotFields
from weft.device.sim.memory.plain import LoadsAndStores
from weft.device.sim.protocols import Errors, Executing, Located
from weft.errors import PtxError
from weft.ir import Val
from weft.ptx.isa import llvm_type
from weft.ptx.model import SIZES, Instruction, Mem, Operand, Reg, Sink, Vec

MAX_BARRIER, MAX_THREADS = 15, 1024
COUNT = 1 << 32
"""Marks a barrier's count in a fault's value; without it the value is a barrier's number."""
BARRIER_LIMITS = {0: "0 to 15", COUNT: "a multiple of 32 up to 1024"}


class RowWarp(Executing, Located, Errors, Protocol):
    """The emitter's interface for rows that need more than their lanes."""

    memory: LoadsAndStores
    wide: WideRules

    def read_register(self, name: str) -> Val:
        """A register's value in the type that it is kept in."""

    def write_stripes(self, name: str, value: Stripes) -> None:
        """A result of the striped form."""

    def write_wide(self, name: str, value: Wide) -> None:
        """A result of a symbolic wide form, in whatever form the register has."""

    def fit(self, v: Val, ty: str) -> Val:
        """A register's bits as the type that an instruction names."""


def memory_type(ptx_type: str) -> str:
    """The IR type in which a PTX type crosses memory."""
    return "i16" if ptx_type == "f16" else llvm_type(ptx_type)


def move(e: RowWarp, ins: Instruction, ptx_type: str) -> None:
    """`mov` in all its forms."""
    dest, source = ins.operands
    if isinstance(dest, Vec):
        _unpack(e, dest, source, ptx_type)
    elif isinstance(source, Vec):
        _pack(e, dest, source, ptx_type)
    else:
        _copy(e, ins, dest, source, ptx_type)


def _copy(e: RowWarp, ins: Instruction, dest: Operand, source: Operand, kind: str) -> None:
    form = e.program.form_of(source)
    assert isinstance(dest, Reg) and form is not None
    if e.program.forms[dest.name].const is not None:
        return
    if form.kind in (INDEXED, SPARSE):
        e.write_wide(dest.name, e.wide.build(ins, form))
        return
    if form.kind == STRIPED and isinstance(source, Reg):
        e.write_stripes(dest.name, e.read_stripes(source.name))
        return
    if isinstance(source, Reg) and form.kind != AFFINE:
        e.write(dest, e.read_register(source.name))  # keeps the type, and so late NaNs
        return
    to_affine = e.program.forms[dest.name].kind == AFFINE
    value = (e.base if to_affine else e.read)(source, kind)
    e.write(dest, value)


def _unpack(e: RowWarp, dest: Vec, source: Operand, kind: str) -> None:
    bits = 8 * SIZES[kind]
    value = e.fit(e.read(source, f"b{bits}"), f"i{bits}")
    width = bits // len(dest.items)
    for i, item in enumerate(dest.items):
        if not isinstance(item, Sink):
            part = value >> (i * width) if i else value
            e.write(item, part.trunc(f"i{width}"))


def _pack(e: RowWarp, dest: Operand, source: Vec, kind: str) -> None:
    bits = 8 * SIZES[kind]
    width = bits // len(source.items)
    whole: Val | None = None
    for i, item in enumerate(source.items):
        part = e.fit(e.read(item, f"b{width}"), f"i{width}").zext(f"i{bits}")
        part = part << (i * width) if i else part
        whole = part if whole is None else whole | part
    assert whole is not None
    e.write(dest, whole)


def load(e: RowWarp, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
    """`ld`: checked, then into one register or several."""
    dest, mem = ins.operands[0], ins.operands[1]
    if not isinstance(mem, Mem):
        raise PtxError("ld needs an address in brackets", got=ins.text)
    items = dest.items if isinstance(dest, Vec) else (dest,)
    where = space_of(space.removesuffix("::entry").removesuffix("::func"), e.program.clusters)
    ordered = order not in ("", "weak")
    values = e.memory.load(mem, where, memory_type(ptx_type), len(items), ordered=ordered)
    e.forget_mask()
    for item, v in zip(items, values, strict=True):
        e.write(item, v, signed=ptx_type[0] == "s")
    # The access itself has no memory order in LLVM: a fence gives it one.
    if order == "acquire":
        fence(e)


def store(e: RowWarp, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
    """`st`: checked, from one register or several."""
    mem, source = ins.operands[0], ins.operands[1]
    if not isinstance(mem, Mem):
        raise PtxError("st needs an address in brackets", got=ins.text)
    if order == "release":
        fence(e)
    items = source.items if isinstance(source, Vec) else (source,)
    ty = memory_type(ptx_type)
    values = [_stored(e, item, ptx_type, ty) for item in items]
    e.memory.store(mem, space_of(space, e.program.clusters), values)
    e.forget_mask()


def _stored(e: RowWarp, item: Operand, ptx_type: str, ty: str) -> Val:
    # Other threads see the bits, so a deferred NaN becomes canonical here.
    v = e.read(item, ptx_type)
    return e.b.canonical(v) if v.is_float and v.element == ty else e.b.reinterpret(v, ty)


def convert_address(e: RowWarp, ins: Instruction, space: str, to_space: bool) -> None:
    """Emit cvta: global and const addresses are generic; windows are shifted by their start."""
    dest, source = ins.operands
    form = e.program.form_of(source)
    assert isinstance(dest, Reg) and form is not None
    name = "shared" if space.startswith("shared::") else space
    starts = {"shared": e.shared, "local": e.local, "param": e.params}
    if name not in starts:
        _copy(e, ins, dest, source, "b64")
        return
    result = e.program.result(ins)
    assert result is not None
    if name == "shared" and e.program.clusters:
        from weft.device.sim.emit.clusters.operations import cluster_start

        start = cluster_start(e)
    else:
        start = e.b.val("i64", 0, f"ptrtoint {starts[name].typed} to i64")
    start = e.b.integer("i64", 0) - start if to_space else start
    if form.kind in (INDEXED, SPARSE) and space != "local":
        w = e.wide.build(ins, form)
        w.base = w.base + start
        e.write_wide(dest.name, w)
        return
    if result.is_scalar:
        base = e.base(source, "b64") + start
        dest_form = e.program.forms[dest.name]
        e.write(dest, base if dest_form.is_scalar else _lanes(base, result))
        return
    v = e.read(source, "b64") + start
    # Each lane's window is its own copy, behind those of the lanes before.
    if space == "local":
        step = e.program.local_bytes * (-1 if to_space else 1)
        v = v + e.b.lanes("i64", [i * step for i in range(32)])
    e.write(dest, v)


def _lanes(base: Val, form: Form) -> Val:
    """An affine value as lanes; a uniform one stays a scalar."""
    return spread(base, form.off) if form.kind == AFFINE else base


def test_space(e: RowWarp, ins: Instruction, space: str) -> None:
    """Emit isspacep: inside the window, or inside none of them for global memory."""
    b = e.b
    dest, source = ins.operands
    v = e.read(source, "b64")

    def within(p: Val, size: Val) -> Val:
        return (v - b.val("i64", 0, f"ptrtoint {p.typed} to i64")).ult(size)

    const = b.load("ptr", 0, b.at(e.context, ContextFields.CONSTS))
    tests: dict[str, Callable[[], Val]] = {
        "shared": lambda: within(e.shared, b.load("i64", 0, b.at(e.slot, SlotFields.SHARED_BYTES))),
        "local": lambda: within(e.local, b.integer("i64", 32 * e.program.local_bytes)),
        "param": lambda: within(
            e.params, b.load("i64", 0, b.at(e.context, ContextFields.PARAM_BYTES))
        ),
        "const": lambda: within(
            const, b.load("i64", 0, b.at(e.context, ContextFields.CONST_BYTES))
        ),
    }
    if e.program.clusters:
        from weft.device.sim.emit.clusters.operations import cluster_bytes, cluster_start

        tests["shared::cluster"] = lambda: (v - cluster_start(e)).ult(cluster_bytes(e))
    name = space if space in tests else space.split("::")[0]
    if name in tests:
        e.write(dest, tests[name]())
        return
    near = tests["shared::cluster" if e.program.clusters else "shared"]()
    inside = near | tests["local"]() | tests["const"]()
    e.write(dest, inside ^ 1)


def fence(e: RowWarp) -> None:
    e.b.emit("fence seq_cst")


def barrier(e: RowWarp, barriers: BlockBarriers, ins: Instruction, op: str) -> None:
    """Emit the arrival; the wait itself ends the block of code (see `block_barriers`)."""
    operands = list(ins.operands)
    value = None
    if op == "red":
        p = e.read(operands.pop(), "pred")
        value = e.bits_of(p)
        operands.pop(0)
    number = _scalar(e, operands[0]) if operands else e.b.integer("i32", 0)
    count = _scalar(e, operands[1]) if len(operands) > 1 else None
    _require(e, number, 0, number.ugt(MAX_BARRIER), f"there is no barrier {number.ref}")
    if count is not None:
        odd = (count & 31).ne(0) | (count - 1).uge(MAX_THREADS)
        _require(e, count, COUNT, odd, f"{count.ref} threads cannot meet")
    barriers.arrive(ins, number, count, value)


def _require(e: RowWarp, value: Val, mark: int, wrong: Val, what: str) -> None:
    """Check a barrier's number or count: at compile time if it is constant, else at run time."""
    b = e.b
    if value.is_const:
        number = int(value.ref) & 0xFFFFFFFF
        if number > MAX_BARRIER if mark == 0 else (number % 32 or not 0 < number <= MAX_THREADS):
            raise PtxError(f"{e.ins.opcode}: {what}", allowed=BARRIER_LIMITS[mark])
        return
    lanes = e.executing()
    with b.when(lanes.ne(0) & wrong, rare=True):
        lane = b.intrinsic("cttz", [lanes], extra="false")
        e.fault(Fault.BARRIER, lane, value.zext("i64") | mark)
    e.forget_mask()


def _scalar(e: RowWarp, operand: Operand) -> Val:
    """A barrier's number or count: one value for the warp."""
    v = e.read(operand, "b32")
    if v.lanes == 0:
        return v
    first = e.b.intrinsic("cttz", [e.executing()], extra="false") & 31
    return e.b.extract(v, first)


def trap(e: RowWarp, ins: Instruction) -> None:
    """Emit `trap`: any lane that reaches it ends the launch."""
    lanes = e.executing()
    with e.b.when(lanes.ne(0), rare=True):
        e.fault(Fault.TRAP, e.b.intrinsic("cttz", [lanes], extra="false"))
    e.forget_mask()
