"""Instructions that exchange values between lanes: shuffles, votes, matches and reductions.

Only lanes that execute an instruction count, whatever its membermask names. A membermask may
differ from lane to lane (several groups of lanes at one instruction); then every lane gets the
answer of its own group.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.lane_sets import each_lane, lane_bits, lanes_of, reduce_lanes, reduction
from weft.device.sim.protocols import Executing
from weft.ir import Builder, Val
from weft.ptx.model import Instruction, Operand, Pair, Sink

LANES = range(32)
WHOLE_WARP = 0x1F
"""A shuffle's `c` operand: no segments, and no lane is out of range."""


def shuffle_source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane from which `lane` reads, and whether it was in range."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    high = (lane & segment) | (clamp & ~segment)
    j, inside = {
        "up": (lane - b, lane - b >= high),
        "down": (lane + b, lane + b <= high),
        "bfly": (lane ^ b, lane ^ b <= high),
        "idx": (lane & segment | b & ~segment, (lane & segment | b & ~segment) <= high),
    }[mode]
    return (j, True) if inside else (lane, False)


def _source_lanes(mode: str) -> Callable[[Builder, list[Val]], Val]:
    """The same for 32 lanes at run time: 32 is added to a lane that is out of range."""

    def body(x: Builder, args: list[Val]) -> Val:
        lane = x.lanes("i32", LANES)
        b, clamp, segment = args[0] & 31, args[1] & 31, (args[1] >> 8) & 31
        high = (lane & segment) | (clamp & ~segment)
        j = {
            "up": lambda: lane - b,
            "down": lambda: lane + b,
            "bfly": lambda: lane ^ b,
            "idx": lambda: (lane & segment) | (b & ~segment),
        }[mode]()
        inside = j.sge(high) if mode == "up" else j.sle(high)
        return inside.select(j, lane + 32)

    return body


def source_lanes(b: Builder, mode: str, index: Val, clamp: Val) -> Val:
    """For each lane the lane that it reads; 32 or more where that is out of range."""
    return _source_lanes(mode)(b, [index, clamp])


def _pick(x: Builder, args: list[Val]) -> Val:
    """Lanes of the first argument, by the low five bits of the second."""
    values, sources = args
    table, index, out = x.array("float", 32), x.array("i32", 32), x.array("float", 32)
    x.store(values, table, 64)
    x.store(sources & 31, index, 64)
    with x.loop(32) as i:
        at = i.zext("i64") << 2
        source = x.load("i32", 0, x.at(index, at), 4).zext("i64")
        x.store(x.load("float", 0, x.at(table, source << 2), 4), x.at(out, at), 4)
    return x.load("float", 32, out, 64)


def _match(ty: str) -> Callable[[Builder, list[Val]], Val]:
    """(values, members, lanes) -> for each lane, the members that hold the same value."""

    def body(x: Builder, args: list[Val]) -> Val:
        values, members, lanes = args
        table, groups, out = x.array(ty, 32), x.array("i32", 32), x.array("i32", 32)
        x.store(values, table, 64)
        x.store(members, groups, 64)
        x.store(x.zero("i32", 32), out, 64)

        def one(lane: Val) -> None:
            at = lane.zext("i64")
            value = x.load(ty, 0, x.at(table, at << (3 if ty == "i64" else 2)))
            same = lane_bits(x, [values.eq(value)]) & x.load("i32", 0, x.at(groups, at << 2))
            x.store(same, x.at(out, at << 2))

        each_lane(x, lanes, one)
        return x.load("i32", 32, out, 64)

    return body


IDENTITY = {
    "add": 0, "or": 0, "xor": 0, "and": -1,
    "umin": -1, "umax": 0, "smin": 0x7FFFFFFF, "smax": -0x80000000,
}  # fmt: skip
"""The neutral element of each 32-bit reduction, used for lanes that do not take part."""


def _reduce_groups(op: str) -> Callable[[Builder, list[Val]], Val]:
    """(values, members, lanes) -> each lane's reduction over its own members."""

    def body(x: Builder, args: list[Val]) -> Val:
        values, members, lanes = args
        groups, out = x.array("i32", 32), x.array("i32", 32)
        x.store(members, groups, 64)
        x.store(x.zero("i32", 32), out, 64)

        def one(lane: Val) -> None:
            at = lane.zext("i64") << 2
            group = lanes_of(x, x.load("i32", 0, x.at(groups, at)))
            x.store(reduce_lanes(x, op, group.select(values, IDENTITY[op])), x.at(out, at))

        each_lane(x, lanes, one)
        return x.load("i32", 32, out, 64)

    return body


_GROUPED = [("i32", 32), ("i32", 32), ("i32", 0)]


class AcrossLanes:
    """Instructions of a warp under emission that move values between its lanes."""

    def __init__(self, e: Executing) -> None:
        self.e = e

    def shuffle(self, ins: Instruction, mode: str) -> None:
        """`shfl`: one vector shuffle when the lanes are known, else a gather."""
        e, b = self.e, self.e.b
        d, p = _pair(ins.operands[0])
        # As f32, since that keeps a NaN that is not canonical yet; the bits move as they are.
        value = e.read(ins.operands[1], "f32")
        lane, clamp = (e.read(o, "u32") for o in ins.operands[2:4])
        if mode == "idx" and lane.lanes == 0 and _known(clamp) == WHOLE_WARP:
            fixed = _known(lane)
            index = lane & 31 if fixed is None else fixed & 31
            picked = b.extract(value, index) if value.lanes else value
            in_range = b.integer("i1", 1)
        elif (by := _known(lane)) is not None and (limit := _known(clamp)) is not None:
            sources = [shuffle_source(mode, i, by, limit) for i in LANES]
            picked = b.shuffle(value, [j for j, _ in sources]) if value.lanes else value
            in_range = b.lanes("i1", [inside for _, inside in sources])
        else:
            find = b.helper(
                f"shfl_{mode}", [("i32", 32), ("i32", 32)], ("i32", 32), _source_lanes(mode)
            )
            source = find(lane, clamp)
            pick = b.helper("shfl_pick", [("float", 32), ("i32", 32)], ("float", 32), _pick)
            # The mark of deferred NaNs does not pass through a function.
            picked = pick(b.canonical(value), source) if value.lanes else value
            in_range = source.ult(32)
        e.write(d, picked)
        e.write(p, in_range)

    def vote(self, ins: Instruction, op: str) -> None:
        """`vote`: the members for which the predicate holds."""
        e = self.e
        members = self._members(ins.operands[2] if len(ins.operands) > 2 else None)
        yes = e.bits_of(e.read(ins.operands[1], "pred"))
        for_, against = yes & members, ~yes & members
        results: dict[str, Callable[[], Val]] = {
            "ballot": lambda: for_,
            "all": lambda: against.eq(0),
            "any": lambda: for_.ne(0),
            "uni": lambda: against.eq(0) | for_.eq(0),
        }
        e.write(ins.operands[0], results[op]())

    def active_mask(self, ins: Instruction) -> None:
        self.e.write(ins.operands[0], self.e.executing())

    def match(self, ins: Instruction, op: str, ptx_type: str) -> None:
        """`match`: the members that hold the same value; `all`: none unless all of them do."""
        e, b = self.e, self.e.b
        d, p = _pair(ins.operands[0])
        members = self._members(ins.operands[2])
        values = e.read_lanes(ins.operands[1], ptx_type)
        kinds = [(values.element, 32), ("i32", 32), ("i32", 0)]
        fn = b.helper(f"match_{values.element}", kinds, ("i32", 32), _match(values.element))
        same = fn(values, members, e.executing())
        if op == "all":
            agree = same.eq(members)
            e.write(p, agree)
            same = agree.select(b.splat(members, 32), 0)
        e.write(d, same)

    def reduce(self, ins: Instruction, op: str, *, signed: bool) -> None:
        """`redux`: one integer from the members' values."""
        e, b = self.e, self.e.b
        name = reduction(op, signed)
        members = self._members(ins.operands[2])
        values = e.read_lanes(ins.operands[1], "u32")
        if members.lanes:
            fn = b.helper(f"redux_{name}", _GROUPED, ("i32", 32), _reduce_groups(name))
            e.write(ins.operands[0], fn(values, members, e.executing()))
            return
        if _known(members) != -1:
            values = e.lanes_of(members).select(values, IDENTITY[name])
        e.write(ins.operands[0], reduce_lanes(b, name, values))

    def elect(self, ins: Instruction) -> None:
        """`elect`: the lowest member leads."""
        e, b = self.e, self.e.b
        d, p = _pair(ins.operands[0])
        leader = b.intrinsic("cttz", [self._members(ins.operands[1])], extra="false")
        e.write(d, leader)
        e.write(p, b.lanes("i32", LANES).eq(leader))

    def _members(self, mask: Operand | None) -> Val:
        """The lanes that count, as bits: one value for the warp, or one per lane."""
        lanes = self.e.executing()
        if mask is None:
            return lanes
        named = self.e.read(mask, "b32")
        if _known(named) == -1:
            return lanes
        return named if _known(lanes) == -1 else lanes & named


def _pair(dest: Operand) -> tuple[Operand, Operand]:
    return (dest.first, dest.second) if isinstance(dest, Pair) else (dest, Sink())


def _known(v: Val) -> int | None:
    """A scalar's value where it is a constant of the code."""
    return int(v.ref) if v.lanes == 0 and v.is_const else None
