"""Code that counts bulk copies: a range of bytes for each lane, moved past L1.

The copy engine reads and writes L2 in sectors and shared memory in whole wavefronts of 128 bytes.
It cuts a copy where a line of 128 bytes of shared memory ends: a sector on both sides of a cut
moves twice. It looks up no tags of L1 and has no bank conflicts. Each of the two memories has a row
of its own, whose kind is the effect there: the source is read, the target is written or reduced. A
multicast reads its source once and writes it in each block of its mask. A copy from shared memory
to that of another block has its target in distributed shared memory, in sectors.

A tensor copy shows each line of its box as an access of its own (`lines`). Its requests are those
of its side in shared memory, which is shown once. What a load fills because it is outside of the
tensor arrives from L2 as well, in sectors of its own (`filled`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.device.sim.access import AccessKind, MemoryAccess
from weft.device.sim.lane_sets import each_lane
from weft.device.sim.layout import Space
from weft.device.sim.memory.tensors.job import TensorJob
from weft.device.sim.memory.tensors.lines import UNIT, each_line
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.layout import LINE, SECTOR, SECTORS_A_LINE, CounterRow
from weft.device.sim.tools.counters.lines import (
    BYPASS,
    CHANGE,
    I32,
    NOWHERE,
    STORE,
    P,
    bump,
    count_request,
    look_up,
    pretended,
)
from weft.device.sim.tools.counters.rows import CounterRows
from weft.ir import Builder, Val
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Does

WAYS = {AccessKind.READ: BYPASS, AccessKind.WRITE: STORE, AccessKind.REDUCTION: CHANGE}


def count(e: Watched, rows: CounterRows, access: MemoryAccess) -> None:
    """Count one side of a copy, unless no lane runs."""
    b, lanes, route = e.b, access.lanes, WAYS[access.kind]
    assert lanes is not None and access.sizes is not None
    near = access.space in (Space.SHARED, Space.CLUSTER)
    # A copy between shared memories goes through the network, also one to the own block.
    across = near and access.writes and _sends(access)
    space = Space.CLUSTER if across else Space.SHARED if near else None
    row = rows.of(
        access, space=space, route=route, bulk=True, lines=decode(access.ins).is_tensor and not near
    )
    with b.when(lanes.ne(0)):
        addresses = e.memory.addresses(access.address)  # uses the array of sizes
        sizes = e.memory.offsets()  # an array of 32 words, whatever they are
        b.store(access.sizes, sizes, 64)
        blocks = []
        if access.masks is not None:
            blocks.append(b.array("i32", 32))
            b.store(b.intrinsic("ctpop", [access.masks]), blocks[0], 64)
        if across:
            _across(b)(row, sizes, addresses, lanes)
        elif near:
            _near(b, *blocks)(row, sizes, lanes, *blocks)
            if access.jobs is not None and access.writes:
                columns = decode(access.ins).by_columns
                _filled(b, *blocks, columns=columns)(row, access.jobs, lanes, *blocks)
        else:
            assert access.beside is not None
            beside = b.array("i64", 32)
            b.store(access.beside, beside, 64)
            fn = _far(b, route, *blocks)
            fn(rows.launch(), rows.counters(), row, sizes, addresses, beside, lanes, *blocks)


def own_lanes(e: Watched, addresses: Val) -> Val:
    """The lanes, as bits, whose addresses are in the block's own shared memory."""
    b = e.b
    start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
    inside = (b.load("i64", 32, addresses, 64) - start).ult(e.shared_bytes.zext("i64"))
    return e.bits_of(inside)


def _sends(access: MemoryAccess) -> bool:
    """Return whether the source of a copy is shared memory, too."""
    d = decode(access.ins)
    sources = [x for x in d.row.effects if x.does is Does.READ and not x.barrier]
    return any(x.state_space(d.words) == "shared" for x in sources)


def _near(b: Builder, *blocks: Val) -> Callable[..., Val]:
    """(row, sizes, lanes): the side in shared memory; `blocks` that a multicast writes to."""

    def body(x: Builder, args: list[Val]) -> None:
        row, sizes, lanes, *counts = args
        count_request(x, row, lanes)

        def one(lane: Val) -> None:
            nbytes, *times = (
                x.load("i32", 0, x.at(table, lane.zext("i64") << 2)).zext("i64")
                for table in (sizes, *counts)
            )
            waves = (nbytes + 127) >> LINE
            for n in times:
                nbytes, waves = nbytes * n, waves * n
            bump(x, row, CounterRow.BYTES, nbytes)
            for at in (CounterRow.WAVEFRONTS, CounterRow.PARTS, CounterRow.IDEAL):
                bump(x, row, at, waves)

        each_lane(x, lanes, one)

    name = f"count_bulk_shared{'_multicast' if blocks else ''}"
    return b.helper(name, [P, P, I32, *(P for _ in blocks)], None, body)


def _across(b: Builder) -> Callable[..., Val]:
    """(row, sizes, addresses, lanes): the side in the shared memory of another block."""

    def body(x: Builder, args: list[Val]) -> None:
        row, sizes, addresses, lanes = args
        count_request(x, row, lanes)

        def one(lane: Val) -> None:
            nbytes = x.load("i32", 0, x.at(sizes, lane.zext("i64") << 2)).zext("i64")
            address = x.load("i64", 0, x.at(addresses, lane.zext("i64") << 3), 8)
            _sectors(x, row, address, nbytes, x.integer("i64", 0))

        each_lane(x, lanes, one)

    return b.helper("count_bulk_across", [P, P, P, I32], None, body)


def _far(b: Builder, route: str, *blocks: Val) -> Callable[..., Val]:
    """(launch, worker, row, sizes, addresses, beside, lanes): the side in global memory; `blocks`
    likewise.

    ARRIVED counts the sectors that go to shared memory: those of a multicast for each block.
    """

    def body(x: Builder, args: list[Val]) -> None:
        launch, worker, row, sizes, addresses, besides, lanes, *counts = args
        count_request(x, row, lanes)

        def one(lane: Val) -> None:
            nbytes = x.load("i32", 0, x.at(sizes, lane.zext("i64") << 2)).zext("i64")
            address, beside = (
                x.load("i64", 0, x.at(table, lane.zext("i64") << 3), 8)
                for table in (addresses, besides)
            )
            first = pretended(x, launch, row, address)
            with x.when(first.ne(NOWHERE)):
                touched = _sectors(x, row, first, nbytes, beside)
                bump(x, row, CounterRow.ARRIVED, _each_block(x, touched, lane, counts))
                _lines(x, route, launch, worker, first, first + (nbytes - 1))

        each_lane(x, lanes, one)

    name = f"count_bulk_{route}{'_multicast' if blocks else ''}"
    return b.helper(name, [P, P, P, P, P, P, I32, *(P for _ in blocks)], None, body)


def _filled(b: Builder, *blocks: Val, columns: bool) -> Callable[..., Val]:
    """(row, jobs, lanes): what a load fills outside of the tensor; `blocks` likewise."""

    def body(x: Builder, args: list[Val]) -> None:
        row, jobs, lanes, *counts = args

        def one(lane: Val) -> None:
            job = x.at(jobs, lane.zext("i64") * TensorJob.SIZE)
            fields = (TensorJob.LINE, TensorJob.PITCH, TensorJob.LOW, TensorJob.HIGH)
            nbytes, pitch, low, high = (x.load("i32", 0, x.at(job, at), 4) for at in fields)
            offset = x.load("i32", 0, x.at(job, TensorJob.OFFSET), 4)
            whole = low.eq(0) & high.eq(nbytes)
            until = (high + (UNIT - 1)) & -UNIT

            def line(number: Val, address: Val, inside: Val) -> None:
                with x.when((inside & whole) ^ 1):
                    start = offset + number * pitch
                    some = inside & low.ult(high)
                    left = some.select(low, nbytes)
                    right = some.select(until, nbytes)
                    sectors = _pieces(x, start, left) + _pieces(x, start + right, nbytes - right)
                    sectors = _each_block(x, sectors.zext("i64"), lane, counts)
                    bump(x, row, CounterRow.ARRIVED, sectors)

            each_line(x, job, line, columns=columns)

        each_lane(x, lanes, one)

    name = f"count_filled{'_multicast' if blocks else ''}{'_columns' if columns else ''}"
    return b.helper(name, [P, P, I32, *(P for _ in blocks)], None, body)


def _pieces(b: Builder, start: Val, nbytes: Val) -> Val:
    """Sectors of a range of shared memory that is filled: each line has sectors of its own."""
    touched = ((start + nbytes - 1) >> SECTOR) - (start >> SECTOR) + 1
    return nbytes.eq(0).select(b.integer("i32", 0), touched)


def _each_block(b: Builder, sectors: Val, lane: Val, counts: Sequence[Val]) -> Val:
    """Sectors in all blocks of a multicast."""
    for table in counts:
        sectors = sectors * b.load("i32", 0, b.at(table, lane.zext("i64") << 2)).zext("i64")
    return sectors


def _sectors(b: Builder, row: Val, first: Val, nbytes: Val, beside: Val) -> Val:
    """Count the bytes of a range and the sectors that it takes, which are returned.

    The engine cuts it where a line of shared memory ends (`beside`).
    """
    touched = ((first + (nbytes - 1)) >> SECTOR) - (first >> SECTOR) + 1
    cuts = ((beside & 127) + (nbytes - 1)) >> LINE
    touched = touched + ((first - beside) & 31).ne(0).select(cuts, b.integer("i64", 0))
    for at, v in (
        (CounterRow.BYTES, nbytes),
        (CounterRow.SECTORS, touched),
        (CounterRow.IDEAL, (nbytes + 31) >> SECTOR),
    ):
        bump(b, row, at, v)
    return touched


def _lines(b: Builder, route: str, launch: Val, worker: Val, first: Val, last: Val) -> None:
    """Record in L2 each line from that of the first byte to that of the last."""
    line = first >> LINE
    low = ((first >> SECTOR) & (SECTORS_A_LINE - 1)).trunc("i32")
    until = ((last >> SECTOR) - (line << (LINE - SECTOR)) + 1).trunc("i32")
    with b.loop((until + (SECTORS_A_LINE - 1)) >> 2) as i:
        end = b.smin(until - (i << 2), b.integer("i32", SECTORS_A_LINE))
        start = b.select(i.eq(0), low, b.integer("i32", 0))
        mask = ((b.integer("i32", 1) << end) - 1) & (b.integer("i32", -1) << start)
        look_up(b, route, launch, worker, line + i.zext("i64"), mask)
