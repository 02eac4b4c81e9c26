"""tensormap.replace and tensormap.cp_fenceproxy: a kernel changes a tensor map in memory."""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import SPACES
from weft.device.sim.memory import checks
from weft.device.sim.memory.accessing import Accessing
from weft.device.sim.memory.resolve import resolve
from weft.device.tensor_map_layout import F32, MAP_BYTES, TF32, ControlBits, MapFields
from weft.ir import Builder, Val
from weft.ptx.model import Imm, Instruction, Mem

Change = Callable[[Builder, Val, Val], None]
"""(pointer to the map, value): writes a field."""
_WIDTHS = {"rank": 3, "interleave_layout": 2, "fill_mode": 1}
_AT = {
    "rank": ControlBits.RANK,
    "interleave_layout": ControlBits.INTERLEAVE,
    "fill_mode": ControlBits.FILL,
}


def replace(e: Accessing, ins: Instruction, field: str, space: str, ptx_type: str) -> None:
    """Write one field of the map of each lane."""
    b = e.b
    mem, *number, value = ins.operands
    assert isinstance(mem, Mem)
    index = number[0].value if number and isinstance(number[0], Imm) else 0
    a = resolve(e, mem, SPACES[space])
    access = MemoryAccess(ins, AccessUnit.LANES, AccessKind.ATOMIC, a, MAP_BYTES)
    e.watch.access(access)
    data = e.memory.buffer(1)
    b.store(b.splat(b.resize(e.read(value, ptx_type), "i64"), 32), data, 64)
    change = _change(field, index)

    def touch(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        change(x, p, x.load("i64", 0, x.at(extra[0], lane.zext("i64") << 3), 8))

    name = f"tensormap_{field}_{index}_{a.space}"
    fn = checks.checked_lanes(e, name, access, [("ptr", 0)], touch)
    e.abort_unless(fn(e.memory.addresses(a), e.executing(), e.windows.site(), data))
    e.forget_mask()


def _change(field: str, index: int) -> Change:
    if field == "elemtype":
        return _write_type
    if field == "swizzle_mode":
        return _write_swizzle
    if field in _AT:
        return lambda b, p, v: _write_bits(
            b, p, v, "i32", MapFields.CONTROL, _AT[field], _WIDTHS[field]
        )
    return {
        "global_address": lambda b, p, v: b.store(v, b.at(p, MapFields.ADDRESS), 8),
        "global_dim": lambda b, p, v: b.store(
            v.trunc("i32") - 1, b.at(p, MapFields.DIMS + 4 * index), 4
        ),
        "box_dim": lambda b, p, v: b.store(v.trunc("i8") - 1, b.at(p, MapFields.BOX + index), 1),
        "element_stride": lambda b, p, v: _write_bits(
            b, p, v - 1, "i16", MapFields.STEPS, 3 * index, 3
        ),
        "global_stride": lambda b, p, v: _write_stride(b, p, v, index),
    }[field]


def _write_bits(b: Builder, p: Val, v: Val, ty: str, at: int, first: int, width: int) -> None:
    place, mask = b.at(p, at), ((1 << width) - 1) << first
    old = b.load(ty, 0, place, 2)
    b.store((old & ~mask) | ((b.resize(v, ty) << first) & mask), place, 2)


def _write_type(b: Builder, p: Val, v: Val) -> None:
    """As an H200 writes it: tf32 sets a bit that no other type clears."""
    tf32 = v.uge(TF32.code)
    bits = tf32.select(v - (TF32.code - F32.code), v)
    _write_bits(b, p, bits, "i32", MapFields.CONTROL, ControlBits.TYPE, 4)
    place = b.at(p, MapFields.CONTROL)
    old = b.load("i32", 0, place, 4)
    b.store(old | (tf32.zext("i32") << ControlBits.TF32), place, 4)


def _write_swizzle(b: Builder, p: Val, v: Val) -> None:
    """The two bits of sm_90; a third one, of later swizzles, is cleared."""
    _write_bits(b, p, v, "i32", MapFields.CONTROL, ControlBits.SWIZZLE, 2)
    _write_bits(b, p, v >> 2, "i32", MapFields.CONTROL, ControlBits.HIGH_SWIZZLE, 1)


def _write_stride(b: Builder, p: Val, v: Val, index: int) -> None:
    units = v >> 4
    b.store(units.trunc("i32"), b.at(p, MapFields.STRIDES + 4 * index), 4)
    _write_bits(b, p, units >> 32, "i16", MapFields.HIGH_STRIDES, 4 * index, 4)


def copy(e: Accessing, ins: Instruction) -> None:
    """Copy a map from shared to global memory, once for the warp."""
    target, source, _ = ins.operands
    assert isinstance(target, Mem) and isinstance(source, Mem)
    lanes = e.executing()
    first = lanes & (0 - lanes)
    data = e.memory.buffer(1)
    near = resolve(e, source, SPACES["shared"])
    read = MemoryAccess(ins, AccessUnit.LANES, AccessKind.READ, near, MAP_BYTES, lanes=first)
    e.watch.access(read)

    def note(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        x.store(p, x.at(extra[0], lane.zext("i64") << 3), 8)

    fn = checks.checked_lanes(e, "tensormap_source", read, [("ptr", 0)], note)
    e.abort_unless(fn(e.memory.addresses(near), first, e.windows.site(), data))
    far = resolve(e, target, SPACES["global"])
    write = MemoryAccess(ins, AccessUnit.LANES, AccessKind.WRITE, far, MAP_BYTES, lanes=first)
    e.watch.access(write)

    def move(x: Builder, lane: Val, p: Val, extra: list[Val]) -> None:
        origin = x.load("ptr", 0, x.at(extra[0], lane.zext("i64") << 3), 8)
        for at in range(0, MAP_BYTES, 16):
            x.store(x.load("i32", 4, x.at(origin, at), 16), x.at(p, at), 16)

    fn = checks.checked_lanes(e, "tensormap_copy", write, [("ptr", 0)], move)
    e.abort_unless(fn(e.memory.addresses(far), first, e.windows.second_site(), data))
    e.forget_mask()
