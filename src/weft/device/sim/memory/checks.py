"""Out-of-line checks of addresses: inside an allocation or a window of the space, and aligned.

A check that fails records the error, the lane, the address and the access in the worker and returns
false; the caller leaves the warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.device.sim.access import MemoryAccess
from weft.device.sim.analyse.form import SPAN
from weft.device.sim.lane_sets import each_lane, lane_table
from weft.device.sim.layout import (
    CLUSTER_SHIFT,
    ContextFields,
    Fault,
    Site,
    SlotFields,
    Space,
    WorkerFields,
)
from weft.device.sim.protocols import Located
from weft.ir import Builder, Val

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


def _search(b: Builder, args: list[Val]) -> Val:
    """(context, worker, site window, address, bytes, flags) -> true if inside an allocation.

    A hit becomes the site's cached window, cut to 2 GiB around the address so that two ends
    inside it cannot be a wrapped 32-bit index apart (see `form.SPAN`).
    """
    context, _, site, address, nbytes, writes = args
    table = b.load("ptr", 0, b.at(context, ContextFields.TABLE))
    count = b.load("i64", 0, b.at(context, ContextFields.TABLE_COUNT)).trunc("i32")
    with b.loop(count) as i:
        row = b.at(table, i.zext("i64") * 32)
        low = b.load("i64", 0, row, 8)
        size = b.load("i64", 0, b.at(row, 8), 8)
        flags = b.load("i64", 0, b.at(row, 16), 8)
        # The number of places at which an access of this size may start. It saturates to 0 where
        # the allocation is smaller than the access, so that no address passes.
        starts = b.intrinsic("usub.sat", [size, nbytes - 1])
        # Bit 0 of the flags says that the allocation is writable; a read asks for no bit.
        hit = (address - low).ult(starts) & (flags | ~writes).eq(-1)
        with b.when(hit):
            window = b.integer("i64", SPAN)
            below = b.umin(address - low, window)
            above = b.umin(starts - (address - low), window)
            b.store(address - below, site, 8)
            b.store(below + above, b.at(site, 8), 8)
            b.ret(b.integer("i1", 1))
    return b.integer("i1", 0)


def address_check(
    outer: Builder, space: int, local_bytes: int, unit: int = 0, *, clusters: bool = False
) -> Callable[..., Val]:
    """check(context, worker, slot, local, site, address, bytes, flags, lane) for a space.

    An address is a multiple of the size of the access, or both of `unit` where that is given. With
    `clusters`, a generic address may be in the shared memory of another block.
    """

    def body(b: Builder, args: list[Val]) -> Val:
        context, worker, slot, local, site, address, nbytes, writes, lane = args

        def within(start: Val, size: Val) -> Val:
            starts = b.intrinsic("usub.sat", [size, nbytes - 1])
            return (address - start).ult(starts)

        def in_window() -> Val:
            low, starts = b.load("i64", 0, site, 8), b.load("i64", 0, b.at(site, 8), 8)
            return (address - low).ult(starts)

        def in_allocation() -> Val:
            kinds = [_P, _P, _P, _I64, _I64, _I64]
            find = b.helper("search", kinds, ("i1", 0), _search, attrs="#2")
            return find(context, worker, site, address, nbytes, writes)

        def in_shared() -> Val:
            start = b.load("i64", 0, b.at(slot, SlotFields.SHARED))
            return within(start, b.load("i64", 0, b.at(slot, SlotFields.SHARED_BYTES)))

        def in_local() -> Val:
            start = b.val("i64", 0, f"ptrtoint {local.typed} to i64")
            start = start + lane.zext("i64") * local_bytes
            return within(start, b.integer("i64", local_bytes))

        def in_params() -> Val:
            start = b.load("i64", 0, b.at(context, ContextFields.PARAMS))
            return within(start, b.load("i64", 0, b.at(context, ContextFields.PARAM_BYTES)))

        # A generic address may be in any of the windows, so each of them is tried in turn.
        tests: list[Callable[[], Val]] = []
        if space in (Space.GLOBAL, Space.GENERIC, Space.CONST):
            tests += [in_window, in_allocation]
        if space in (Space.SHARED, Space.GENERIC):
            tests.append(in_shared)
        if space == Space.CLUSTER or (space == Space.GENERIC and clusters):
            tests.append(lambda: in_cluster(b, args, space))
        if space in (Space.LOCAL, Space.GENERIC) and local_bytes:
            tests.append(in_local)
        if space in (Space.PARAM, Space.GENERIC):
            tests.append(in_params)
        with b.when(_some(b, tests) ^ 1):
            note(b, worker, Fault.ILLEGAL, lane, address, space, nbytes, writes)
            b.ret(b.integer("i1", 0))
        # One test for both: a bit below the unit is set if either of the two is not a multiple.
        rest = (address | nbytes) & (unit - 1) if unit else address & (nbytes - 1)
        with b.when(rest.ne(0)):
            step = b.integer("i64", unit) if unit else nbytes
            note(b, worker, Fault.MISALIGNED, lane, address, space, step, writes)
            b.ret(b.integer("i1", 0))
        return b.integer("i1", 1)

    name = f"check_{space}" + (f"_by_{unit}" if unit else "") + ("_cluster" if clusters else "")
    return outer.helper(name, [_P, _P, _P, _P, _P, _I64, _I64, _I64, _I32], ("i1", 0), body)


def in_cluster(b: Builder, args: list[Val], space: int) -> Val:
    """True for an access in the shared memory of a block of the cluster that has not exited.

    Takes the arguments of `check`. For one that has exited it records the error, and returns.
    """
    context, worker, slot, _, _, address, nbytes, writes, lane = args
    rank = b.load("i32", 0, b.at(slot, SlotFields.RANK)).zext("i64")
    start = b.load("i64", 0, b.at(slot, SlotFields.SHARED)) - (rank << CLUSTER_SHIFT)
    peer = (address - start) >> CLUSTER_SHIFT
    size = b.load("i64", 0, b.at(slot, SlotFields.SHARED_BYTES))
    starts = b.intrinsic("usub.sat", [size, nbytes - 1])
    offset = (address - start) & ((1 << CLUSTER_SHIFT) - 1)
    inside = peer.ult(cluster_size(b, context).zext("i64")) & offset.ult(starts)
    with b.when(inside):
        group = b.load("ptr", 0, b.at(slot, SlotFields.GROUP))
        exited = b.load("i32", 0, b.at(group, SlotFields.EXITED)) >> peer.trunc("i32")
        with b.when((exited & 1).ne(0), rare=True):
            note(b, worker, Fault.EXITED, lane, address, space, nbytes, writes)
            b.ret(b.integer("i1", 0))
    return inside


def cluster_size(b: Builder, context: Val) -> Val:
    """The number of blocks of a cluster, 32 bits."""
    fields = (ContextFields.CLUSTER_X, ContextFields.CLUSTER_Y, ContextFields.CLUSTER_Z)
    x, y, z = (b.load("i32", 0, b.at(context, at)) for at in fields)
    return x * y * z


def _some(b: Builder, tests: Sequence[Callable[[], Val]]) -> Val:
    """True if one of the tests holds. They are made in order, up to the first that does."""
    if not tests:
        return b.integer("i1", 0)
    return b.either(tests[0](), lambda: b.integer("i1", 1), lambda: _some(b, tests[1:]))


def note(
    b: Builder, worker: Val, code: int, lane: Val, address: Val, space: int, nbytes: Val,
    writes: Val,
) -> None:  # fmt: skip
    """Record an access that is wrong."""
    fields = {
        WorkerFields.ERROR: b.integer("i64", code),
        WorkerFields.ERROR_LANE: lane.zext("i64"),
        WorkerFields.ERROR_ADDRESS: address,
        WorkerFields.ERROR_SPACE: b.integer("i64", space),
        WorkerFields.ERROR_BYTES: nbytes,
        WorkerFields.ERROR_WRITES: writes,
    }
    for at, value in fields.items():
        b.store(value, b.at(worker, at))


def quick_check(
    b: Builder, space: int, local_bytes: int, nbytes: int, args: list[Val]
) -> Callable[[Val, Val], Val]:
    """A test of one address that needs no call: (address, lane) -> i1."""
    _, _, slot, local, site = args[:5]

    def window(start: Val, size: Val) -> tuple[Val, Val]:
        return start, b.intrinsic("usub.sat", [size, b.integer("i64", nbytes - 1)])

    if space == Space.SHARED:
        low, starts = window(
            b.load("i64", 0, b.at(slot, SlotFields.SHARED)),
            b.load("i64", 0, b.at(slot, SlotFields.SHARED_BYTES)),
        )
        return lambda address, lane: (address - low).ult(starts)
    if space == Space.LOCAL:
        base, starts = window(
            b.val("i64", 0, f"ptrtoint {local.typed} to i64"), b.integer("i64", local_bytes)
        )
        return lambda address, lane: (address - (base + lane.zext("i64") * local_bytes)).ult(starts)
    return lambda address, lane: (address - b.load("i64", 0, site, 8)).ult(
        b.load("i64", 0, b.at(site, 8), 8)
    )


def lane_helper(
    outer: Builder,
    name: str,
    space: int,
    local_bytes: int,
    nbytes: int,
    writes: bool,
    extra: list[tuple[str, int]],
    touch: Callable[[Builder, Val, Val, list[Val]], None],
    *,
    clusters: bool = False,
) -> Callable[..., Val]:
    """A function that checks each lane's address, then calls `touch(b, lane, pointer, extra)`.

    Its arguments: context, worker, slot, local, window, addresses, lanes, instruction, *extra. It
    returns false when an address was wrong; the worker then holds the error.
    """

    def body(b: Builder, args: list[Val]) -> Val:
        context, worker, slot, local, site, table, lanes, number = args[:8]
        flags = b.integer("i64", 1 if writes else 0)
        check = address_check(b, space, local_bytes, clusters=clusters)
        quick = quick_check(b, space, local_bytes, nbytes, args)

        # Two checks: the quick one is inlined and almost always passes. The other is called only
        # for what it refuses, searches all allocations and notes the error.
        def lane_body(lane: Val) -> None:
            address = b.load("i64", 0, b.at(table, lane.zext("i64") << 3), 8)
            hit = quick(address, lane)
            if nbytes > 1:
                hit = hit & (address & (nbytes - 1)).eq(0)
            with b.when(hit ^ 1, rare=True):
                size = b.integer("i64", nbytes)
                ok = check(context, worker, slot, local, site, address, size, flags, lane)
                with b.when(ok ^ 1):
                    b.store(number, b.at(worker, WorkerFields.ERROR_SITE))
                    b.ret(b.integer("i1", 0))
            pointer = b.val("ptr", 0, f"inttoptr {address.typed} to ptr")
            touch(b, lane, pointer, args[8:])

        each_lane(b, lanes, lane_body)
        return b.integer("i1", 1)

    return outer.helper(name, [_P, _P, _P, _P, _P, _P, _I32, _I64, *extra], ("i1", 0), body)


def checked_lanes(
    e: Located,
    name: str,
    access: MemoryAccess,
    extra: list[tuple[str, int]],
    touch: Callable[[Builder, Val, Val, list[Val]], None],
) -> Callable[..., Val]:
    """`lane_helper` for an access of the warp: called with (addresses, lanes, site, *extra)."""
    local_bytes = e.program.local_bytes
    fn = lane_helper(
        e.b, name, access.space, local_bytes, access.nbytes, access.writes, extra, touch,
        clusters=e.program.clusters,
    )  # fmt: skip

    def call(addresses: Val, lanes: Val, site: int, *more: Val) -> Val:
        window = e.b.at(e.sites, Site.SIZE * site)
        number = e.b.integer("i64", e.ins.index)
        return fn(e.context, e.worker, e.slot, e.local, window, addresses, lanes, number, *more)

    return call


def check_ranges(e: Located, access: MemoryAccess, table: Val, sizes: Val, lanes: Val) -> Val:
    """Ranges of sizes[lane] bytes at table[lane], each inside one allocation or window.

    Sizes are arbitrary, so the range is looked up as a whole: its ends may be in different
    allocations.
    """
    space, writes = access.space, int(access.writes)
    assert access.align is not None, "a range has no size of its own to be aligned to"
    unit = access.align

    def body(b: Builder, args: list[Val]) -> Val:
        context, worker, slot, local, starts, counts, bits, number = args
        check = address_check(b, space, e.program.local_bytes, unit, clusters=e.program.clusters)
        window = b.array("i64", 2)  # of this range alone: one kept for others has another size

        def one(lane: Val) -> None:
            b.store(b.zero("i64", 2), window, 8)
            address = b.load("i64", 0, b.at(starts, lane.zext("i64") << 3), 8)
            size = b.load("i32", 0, b.at(counts, lane.zext("i64") << 2), 4).zext("i64")
            flags = b.integer("i64", writes)
            ok = check(context, worker, slot, local, window, address, size, flags, lane)
            with b.when(ok ^ 1, rare=True):
                b.store(number, b.at(worker, WorkerFields.ERROR_SITE))
                b.ret(b.integer("i1", 0))

        each_lane(b, bits, one)
        return b.integer("i1", 1)

    kinds = [_P, _P, _P, _P, _P, _P, _I32, _I64]
    fn = e.b.helper(f"check_ranges_{space}_{unit}_{writes}", kinds, ("i1", 0), body)
    number = e.b.integer("i64", e.ins.index)
    return fn(e.context, e.worker, e.slot, e.local, table, sizes, lanes, number)


def check_one(e: Located, access: MemoryAccess, lanes: Val, site: int) -> Val:
    """Check the one address of a uniform access; an error names the first lane that runs."""
    b, a = e.b, access.address
    assert a.first is not None
    b.store(b.integer("i64", e.ins.index), b.at(e.worker, WorkerFields.ERROR_SITE))
    lane = b.intrinsic("cttz", [lanes], extra="false") & 31
    window = b.at(e.sites, Site.SIZE * site)
    size, flags = b.integer("i64", access.nbytes), b.integer("i64", int(access.writes))
    check = address_check(b, a.space, e.program.local_bytes, clusters=e.program.clusters)
    return check(e.context, e.worker, e.slot, e.local, window, a.first, size, flags, lane)


def check_members(
    e: Located, space: int, first: Val, lanes: Val, rows: list[tuple[int, int, int, int]]
) -> Val:
    """Uniform accesses first + offset, each by itself: rows of (offset, bytes, site, index)."""
    b = e.b
    local_bytes = e.program.local_bytes

    def body(x: Builder, args: list[Val]) -> Val:
        context, worker, slot, local, sites, base, bits, table, count = args
        check = address_check(x, space, local_bytes, clusters=e.program.clusters)
        lane = x.intrinsic("cttz", [bits], extra="false") & 31
        with x.loop(count) as i:
            row = x.at(table, i.zext("i64") * 32)
            offset, nbytes, site, index = (x.load("i64", 0, x.at(row, 8 * k), 8) for k in range(4))
            window = x.at(sites, site * Site.SIZE)
            zero = x.integer("i64", 0)
            ok = check(context, worker, slot, local, window, base + offset, nbytes, zero, lane)
            with x.when(ok ^ 1, rare=True):
                x.store(index, x.at(worker, WorkerFields.ERROR_SITE))
                x.ret(x.integer("i1", 0))
        return x.integer("i1", 1)

    # As a table, so that one function serves all groups of a space.
    table = lane_table(b, "i64", tuple(v for row in rows for v in row))
    kinds = [_P, _P, _P, _P, _P, _I64, _I32, _P, _I32]
    fn = b.helper(f"check_members_{space}", kinds, ("i1", 0), body)
    count = b.integer("i32", len(rows))
    return fn(e.context, e.worker, e.slot, e.local, e.sites, first, lanes, table, count)
