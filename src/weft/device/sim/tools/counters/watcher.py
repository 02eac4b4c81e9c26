"""The counting observer's code in one kernel: which counter each event moves.

A block of code counts its executions, so its instructions need no counters of their own; only
guards do. An access to shared memory by all lanes at constant distances
costs what `rules` says, so that no code is needed for it either. Other accesses call a helper.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from typing import Any

from weft.device.sim.address import Address
from weft.device.sim.layout import Context, Slot, Space, Worker
from weft.device.sim.observe import BulkCopy, Touch, Watched, Watcher
from weft.device.sim.tools.counters import bulk, fragments, rules, shared
from weft.device.sim.tools.counters.atomics import count_at_one_place, count_atomic
from weft.device.sim.tools.counters.hits import Beside
from weft.device.sim.tools.counters.joined import Joined
from weft.device.sim.tools.counters.lanes import count_lanes
from weft.device.sim.tools.counters.layout import (
    EPOCHS_AT,
    SECTOR_BYTES,
    Last,
    Launch,
    PerWorker,
    Row,
)
from weft.device.sim.tools.counters.lines import (
    LOCAL,
    bump,
    count_one,
    count_place,
    count_range,
    count_request,
    way_of,
)
from weft.device.sim.tools.counters.text import Listing
from weft.ir import Builder, Val
from weft.ptx.cfg import Block
from weft.ptx.model import Instruction

NATIVE_ATOMICS = ("add", "inc", "dec", "min", "max", "exch", "and", "or", "xor")


class CountWatcher(Watcher):
    """Counts into rows of the worker's memory; `notes` says what each row is."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self.rows: list[dict[str, Any]] = []
        self.nbytes = PerWorker.HEADER
        self._joined, self._widths = Joined(e.program), dict[int, int]()

    # ---- rows -------------------------------------------------------------------------------
    def _row(self, places: int = 0, *, any_lanes: bool = False, **what: Any) -> Val:
        """A new row of counters, with some for places in a line behind it; the notes have it."""
        at = self.nbytes + Last.SIZE * any_lanes
        self.nbytes = at + Row.SIZE + 8 * places
        self.rows.append({"at": at, "places": places, **what})
        return self.e.b.at(self.counters(), at)

    def counters(self) -> Val:
        """The worker's own memory."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.worker, Worker.OBSERVER))

    def launch(self) -> Val:
        """The memory that all workers share."""
        return self.e.b.load("ptr", 0, self.e.b.at(self.e.context, Context.OBSERVER))

    def notes(self) -> Mapping[str, Any]:
        program = self.e.program
        listing = Listing()
        for block in program.graph.blocks:
            for ins in [*block.code, *([block.last] if block.last else [])]:
                listing.add(ins, block.index)
        return {"rows": self.rows, "nbytes": self.nbytes, **listing.notes()}

    # ---- executions -------------------------------------------------------------------------
    def block(self, block: Block) -> None:
        b, e = self.e.b, self.e
        self._widths = self._joined.widths(block)
        row = self._row(block=block.index, full=e.always_full)
        bump(b, row, Row.REQUESTS, b.integer("i64", 1))
        if not e.always_full:
            bump(b, row, Row.THREADS, b.intrinsic("ctpop", [e.mask()]))

    def instruction(self, ins: Instruction) -> None:
        b, e = self.e.b, self.e
        if ins.guard is None or ins is e.block.last:  # all lanes that run execute the branch
            return
        row = self._row(guard=ins.index)
        bump(b, row, Row.THREADS, b.intrinsic("ctpop", [e.executing()]))

    def diverge(self, block: Block) -> None:
        assert block.last is not None
        row = self._row(diverged=block.last.index)
        bump(self.e.b, row, Row.REQUESTS, self.e.b.integer("i64", 1))

    # ---- blocks of threads ------------------------------------------------------------------
    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        """A new generation of L1 tags, and the part of the launch in which the block runs."""
        mine = b.load("ptr", 0, b.at(worker, Worker.OBSERVER))
        launch = b.load("ptr", 0, b.at(context, Context.OBSERVER))
        place = b.at(mine, PerWorker.GENERATION)
        b.store((b.load("i64", 0, place) + 16) & 0xFFFFFF0, place)
        x, y, z = (
            b.load("i32", 0, b.at(slot, at)).zext("i64")
            for at in (Slot.BLOCK_X, Slot.BLOCK_Y, Slot.BLOCK_Z)
        )
        wide, high = (
            b.load("i64", 0, b.at(context, at)) for at in (Context.GRID_X, Context.GRID_Y)
        )
        number = (z * high + y) * wide + x
        blocks = b.load("i64", 0, b.at(launch, Launch.BLOCKS))
        epochs = b.load("i64", 0, b.at(launch, Launch.EPOCH_COUNT))
        epoch = b.binary("udiv", number * epochs, blocks)
        b.store(b.integer("i64", 1 << EPOCHS_AT) << epoch, b.at(mine, PerWorker.EPOCH))

    # ---- memory -----------------------------------------------------------------------------
    def access(self, touch: Touch) -> None:
        space = touch.address.space
        if touch.kind == "fragment":
            fragments.count(self, touch)
        elif touch.kind == "matrix":
            self._matrix(touch)
        elif space == Space.SHARED and touch.kind != "mbarrier":
            width = self._widths.get(self.e.ins.index, touch.nbytes)
            if width:
                self._shared(replace(touch, nbytes=width))
        elif space in (Space.GLOBAL, Space.GENERIC):
            self._far(touch)
        elif space == Space.LOCAL:
            self._local(touch)

    def bulk(self, copy: BulkCopy) -> None:
        bulk.count(self, copy)

    def row_of(self, **what: Any) -> Val:
        """A row for what the present instruction does in one memory."""
        return self._row(access=self.e.ins.index, **what)

    def describe(self, touch: Touch, **more: Any) -> Val:
        """A row for an access; one that calls `count_lanes` is for any lanes."""
        two_ways = touch.kind in ("matrix", "fragment")
        way = f" {'store' if touch.writes else 'load'}" if two_ways else ""
        return self.row_of(
            kind=touch.kind + way, space=touch.address.space, width=touch.nbytes, **more
        )

    def _some(self, lanes: Val, then: Callable[[], None]) -> None:
        """`then`, unless no lane runs."""
        if self.e.executes_fully:
            then()
            return
        with self.e.b.when(lanes.ne(0)):
            then()

    # ---- shared memory ----------------------------------------------------------------------
    def _shared(self, touch: Touch) -> None:
        e, a = self.e, touch.address
        lanes = e.executing()
        if touch.kind not in ("load", "store"):
            row = self.describe(touch)
            fn = shared.count_shared_atomic(e.b, touch.nbytes, self._atomic_kind(touch))
            self._some(lanes, lambda: _drop(fn(row, self._offsets(a), lanes)))
            return
        general = shared.count_shared(e.b, touch.nbytes, reads=touch.kind == "load")
        if a.off is None:
            row = self.describe(touch)
            self._some(lanes, lambda: _drop(general(row, self._offsets(a), lanes)))
            return
        off, width, reads = a.off, touch.nbytes, touch.kind == "load"
        places = range(0, 4, width) if width < 4 else (0,)
        costs = [rules.shared_cost([x + p for x in off], width, reads=reads) for p in places]
        step = 4 // len(costs)
        self._constant(touch, [costs[i // step] for i in range(4)], general, lanes)

    def _constant(
        self,
        touch: Touch,
        costs: list[rules.SharedCost],
        general: Callable[..., Val],
        lanes: Val,
        rows: Val | None = None,
    ) -> None:
        """Distances that are known: only how often, and how many lanes, is left to be seen."""
        e, b, a = self.e, self.e.b, touch.address
        same = len(set(costs)) == 1
        always = same and e.executes_fully and e.ins.guard is None
        many = 32 if rows is None else (int(rows.ref) & 0xFFFFFFFF).bit_count()
        known = [astuple(c) for c in costs]
        row = self.describe(touch, costs=known, always=always, lanes=many)
        if always:
            return
        assert a.inside is not None
        at = b.integer("i64", 0) if same else a.inside[0] & 3

        def full() -> None:
            bump(b, b.at(row, at << 3), Row.FULL, b.integer("i64", 1))

        if e.executes_fully:
            full()
            return
        whole, some, end = b.label("whole"), b.label("part"), b.label("counted")
        b.branch(lanes.eq(-1), whole, some)
        b.place(whole)
        full()
        b.jump(end)
        b.place(some)
        with b.when(lanes.ne(0)):
            general(row, self._offsets(a), lanes if rows is None else lanes & rows)
        b.jump(end)
        b.place(end)

    def _matrix(self, touch: Touch) -> None:
        e, a = self.e, touch.address
        assert touch.lanes is not None
        lanes, row_lanes = e.executing(), touch.lanes
        general = shared.count_matrix(e.b)
        if a.space == Space.SHARED and a.off is not None:
            count = (int(row_lanes.ref) & 0xFFFFFFFF).bit_count() // 8
            cost = rules.matrix_cost(a.off, count)
            self._constant(touch, [cost] * 4, general, lanes, row_lanes)
            return
        row = self.describe(touch)
        self._some(lanes, lambda: _drop(general(row, self._offsets(a), lanes & row_lanes)))

    def _offsets(self, a: Address) -> Val:
        """A stack array of the lanes' places in shared memory."""
        e, b = self.e, self.e.b
        out = e.access.offsets()
        if a.inside is not None and a.off is not None:
            b.store(b.splat(a.inside[0].trunc("i32"), 32) + b.lanes("i32", a.off), out, 64)
        elif a.space == Space.SHARED and a.wide is not None:
            b.store(a.wide.lanes(), out, 64)
        else:
            start = b.val("i64", 0, f"ptrtoint {e.shared.tref} to i64")
            b.store((b.load("i64", 32, e.access.addresses(a), 64) - start).trunc("i32"), out, 64)
        return out

    def _atomic_kind(self, touch: Touch) -> str:
        parts = self.e.ins.parts
        if "cas" in parts:
            return shared.CAS
        plain = touch.nbytes == 4 and parts[-1] in ("u32", "s32", "b32")
        if not plain or not any(p in NATIVE_ATOMICS for p in parts):
            return shared.SPIN
        one = self.e.program.form_of(self.e.ins.operands[-1])
        tally = touch.kind == "reduction" and "add" in parts and one is not None and one.const == 1
        return shared.TALLY if tally else shared.NATIVE

    # ---- global memory ----------------------------------------------------------------------
    def _far(self, touch: Touch) -> None:
        """Global memory, or what a generic address turns out to name."""
        e, b = self.e, self.e.b
        lanes = e.executing()
        if touch.target is not None:
            self._copied(touch, touch.target, lanes)
        if touch.wanted is not None:
            lanes = lanes & e.bits_of(touch.wanted.ne(0))
        if touch.address.space == Space.GLOBAL:
            row = self._global_row(touch)
            self._some_of(lanes, touch, lambda: self._global(touch, row, lanes))
            return
        row, near = self._global_row(touch), self.near_row(touch)
        with b.when(lanes.ne(0)):
            table = e.access.addresses(touch.address)
            first = b.intrinsic("cttz", [lanes], extra="false").zext("i64")
            at = b.load("i64", 0, b.at(table, first << 3), 8)
            start = b.val("i64", 0, f"ptrtoint {e.shared.tref} to i64")
            inside = (at - start).ult(e.shared_bytes.zext("i64"))
            yes, no, end = b.label("near"), b.label("far"), b.label("counted")
            b.branch(inside, yes, no)
            b.place(yes)
            self._near(touch)(near, self._offsets(touch.address), lanes)
            b.jump(end)
            b.place(no)
            self._global(touch, row, lanes)
            b.jump(end)
            b.place(end)

    def _copied(self, touch: Touch, target: Address, lanes: Val) -> None:
        """The shared side of a copy."""
        row, fn = self.near_row(touch), shared.count_copy(self.e.b, touch.nbytes)
        self._some(lanes, lambda: _drop(fn(row, self._offsets(target), lanes)))

    def _some_of(self, lanes: Val, touch: Touch, then: Callable[[], None]) -> None:
        if touch.wanted is None:
            self._some(lanes, then)
            return
        with self.e.b.when(lanes.ne(0)):
            then()

    def _global_row(self, touch: Touch) -> Val:
        a, width = touch.address, touch.nbytes
        span, way = _span(a, width), way_of(self.e.ins.parts, writes=touch.writes)
        if span is None or touch.kind in ("atomic", "reduction"):
            return self.describe(touch, way=way, any_lanes=True)
        if a.uniform:
            return self.describe(touch, way=way, one=True)
        places = 128 // min(width, SECTOR_BYTES)
        return self.describe(touch, way=way, span=span, places=places, any_lanes=True)

    def near_row(self, touch: Touch, **more: Any) -> Val:
        """A row for what an access does in shared memory."""
        row = self.describe(touch, **more)
        self.rows[-1]["space"] = Space.SHARED
        return row

    def _near(self, touch: Touch) -> Callable[..., Val]:
        b = self.e.b
        if touch.kind in ("load", "store"):
            return shared.count_shared(b, touch.nbytes, reads=touch.kind == "load")
        return shared.count_shared_atomic(b, touch.nbytes, self._atomic_kind(touch))

    def _global(self, touch: Touch, row: Val, lanes: Val) -> None:
        e, b, a = self.e, self.e.b, touch.address
        launch, mine, way = (
            self.launch(),
            self.counters(),
            way_of(self.e.ins.parts, writes=touch.writes),
        )
        if touch.kind in ("atomic", "reduction"):
            if a.uniform:
                count_at_one_place(b)(launch, mine, row, a.first, lanes)
                return
            fn = count_atomic(b, touch.nbytes, cas="cas" in e.ins.parts)
            fn(launch, mine, row, e.access.addresses(a), lanes)
            return
        width, span = touch.nbytes, _span(a, touch.nbytes)
        if span is None:
            count_lanes(b, way, width)(launch, mine, row, e.access.addresses(a), lanes)
        elif a.uniform:
            assert a.first is not None
            beside = Beside(b, launch, mine, row, a.first, 1, b.integer("i1", 1))
            call = count_one(b, way)
            beside.count(
                way,
                lambda _: count_request(b, row, lanes),
                lambda: _drop(call(launch, mine, row, a.first, lanes)),
            )
        else:
            self._range(touch, row, lanes, span)

    def _range(self, touch: Touch, row: Val, lanes: Val, span: int) -> None:
        """Neighbours in global memory."""
        e, b, a, width = self.e, self.e.b, touch.address, touch.nbytes
        launch, mine, way = self.launch(), self.counters(), way_of(e.ins.parts, writes=touch.writes)
        assert a.first is not None and a.last is not None
        near = b.integer("i1", 1)
        if not e.executes_fully or touch.wanted is not None or a.wide is not None:
            near = (a.last - a.first).eq(span - width) & lanes.eq(-1)  # an index may have wrapped

        def otherwise() -> None:
            of_range, general = count_range(b, way, span, width), count_lanes(b, way, width)
            yes, no, end = b.label("range"), b.label("lanes"), b.label("counted")
            b.branch(near, yes, no)
            b.place(yes)
            of_range(launch, mine, row, a.first)
            b.jump(end)
            b.place(no)
            general(launch, mine, row, e.access.addresses(a), lanes)
            b.jump(end)
            b.place(end)

        beside = Beside(b, launch, mine, row, a.first, span, near)
        beside.count(way, lambda inside: count_place(b, row, inside, width), otherwise)

    # ---- local memory -----------------------------------------------------------------------
    def _local(self, touch: Touch) -> None:
        """Word w of lane l is at byte (w * 32 + l) * 4 of the warp's block."""
        e, b = self.e, self.e.b
        row, lanes = self.describe(touch, any_lanes=True), e.executing()

        def count() -> None:
            table, step = e.access.addresses(touch.address), e.program.local_bytes
            start = b.val("i64", 0, f"ptrtoint {e.local.tref} to i64")
            lane = b.lanes("i64", list(range(32)))
            inside = b.load("i64", 32, table, 64) - start - lane * step
            b.store((((inside >> 2) << 5) + lane) << 2, table, 64)
            fn = count_lanes(b, LOCAL, touch.nbytes)
            fn(self.launch(), self.counters(), row, table, lanes)

        self._some(lanes, count)


def _span(a: Address, width: int) -> int | None:
    """Bytes that all lanes touch together, where they leave no gaps."""
    if a.off is None:
        return None
    places = sorted(set(a.off))
    dense = all(y - x <= width for x, y in itertools.pairwise(places))
    return places[-1] + width if dense else None


def _drop(result: Val) -> None:
    """The result of a call that has none."""
