"""Loads and stores of a warp: checked, then by the widest instruction the lanes allow.

Fast path: all lanes run, the first and the last address lie inside one allocation (the site's own
cached window) and are aligned; then lanes are loaded as vectors where they are consecutive.
Everything else goes lane by lane through a helper that checks each address and records the first
that is wrong. Both paths touch memory only after the check.
"""

from __future__ import annotations

from typing import Protocol

from weft.device.sim.access import AccessKind, AccessUnit, MemoryAccess
from weft.device.sim.address import Address
from weft.device.sim.analyse.form import ZERO
from weft.device.sim.layout import ScheduleFields, Space
from weft.device.sim.memory import checks, groups, lane_loops, prefetch, sparse, striped
from weft.device.sim.memory.accessing import Accessing, Delays
from weft.device.sim.memory.changes import ChangeRecorder
from weft.device.sim.memory.groups import AccessGroup
from weft.device.sim.memory.lane_moves import LaneMoves
from weft.device.sim.memory.resolve import resolve
from weft.ir import BITS, Val
from weft.ptx.isa import decode
from weft.ptx.model import Mem

SCRATCH = 8192
"""Bytes that a warp's lanes may span and still be copied aside for one vector load."""


class Grouped(Accessing, groups.Grouping, Protocol):
    """The emitter's interface for loads and stores."""

    observed: bool


class LoadsAndStores:
    """`ld` and `st` of a warp under emission."""

    def __init__(self, e: Grouped, changes: ChangeRecorder) -> None:
        self.e, self.changes = e, changes
        self._arrays: dict[str, Val] = {}
        self.moves = LaneMoves(e, self)

    # ---- public -----------------------------------------------------------------------------
    def load(
        self, mem: Mem, space: int, ty: str, count: int, *, ordered: bool = False
    ) -> list[Val]:
        """`count` elements of `ty` per lane; scalars when the address is uniform."""
        nbytes = BITS[ty] // 8 * count
        bounded = self.e.windows.bounded(mem, space, nbytes)
        a, group = self._address(mem, space, nbytes, whole=bounded)
        access = MemoryAccess(self.e.ins, AccessUnit.LANES, AccessKind.READ, a, nbytes)
        self.e.watch.access(access)
        if self.e.delays is not None:
            self.e.delays.meet(access)
        # Loads of named parameters and of static shared variables take this path.
        if bounded or self.e.windows.always_inside(a, nbytes):
            return self.moves.load(a, ty, count, ordered)
        if not a.scalar:
            return self._load_rows(access, ty, count)
        ok, near, group = self._checked(mem, access, group)
        if a.uniform:
            lanes = self.e.executing()
            return self._load_uniform(access, group, ok, near, ty, count, lanes, ordered)
        assert a.off is not None and near.first is not None
        if a.space == Space.GLOBAL:
            prefetch.ahead(self.e.b, self.e.windows.last, [near.first], max(a.off) + nbytes)
        if max(a.off) + nbytes <= SCRATCH:
            near = self._or_scratch(ok, near, access)
            return self.moves.load(near, ty, count, ordered)
        return self.e.b.either(
            ok,
            lambda: self.moves.load(near, ty, count, ordered),
            lambda: self._load_slow(access, ty, count),
            likely=True,
        )

    def _address(
        self, mem: Mem, space: int, nbytes: int, *, whole: bool
    ) -> tuple[Address, AccessGroup | None]:
        """The address of an access, and the checked group that it belongs to.

        The ends of the address are omitted if they have been checked, unless it must be `whole`.
        """
        if whole:
            return resolve(self.e, mem, space), None
        group = groups.find(self.e, mem, space, nbytes, checked=True)
        if self.e.observed:
            return resolve(self.e, mem, space), group
        if group is not None and group.settled:
            return Address(space, ZERO), group  # uniform, and the group has the place
        return resolve(self.e, mem, space, ends=group is None), group

    def _load_rows(self, access: MemoryAccess, ty: str, count: int) -> list[Val]:
        """Load lanes of which it is only known that they are rows of a block."""
        runs = striped.find(self.e, access) if count == 1 else None
        if runs is None:
            return self._load_slow(access, ty, count)
        return self.e.b.either(
            runs.ok,
            lambda: [striped.load(self.e, access, runs, ty)],
            lambda: self._load_slow(access, ty, count),
            likely=True,
        )

    def _store_rows(self, access: MemoryAccess, values: list[Val]) -> None:
        """As `_load_rows`."""
        runs = striped.find(self.e, access) if len(values) == 1 else None
        if runs is None:
            self._store_slow(access, values)
            return
        ok = runs.ok if self.e.executes_fully else runs.ok & self.e.executes_in_all()
        self.e.b.either(
            ok,
            lambda: striped.store(self.e, runs, values[0]),
            lambda: self._store_slow(access, values),
            likely=True,
        )

    def _or_scratch(self, ok: Val, near: Address, access: MemoryAccess) -> Address:
        """The address itself, or a scratch copy of the bytes that the running lanes may read there.

        One vector load then serves both cases, and no vectors are joined.
        """
        e, b, a = self.e, self.e.b, access.address
        assert near.first is not None
        scratch = self._array("scratch", "i64", SCRATCH // 8)
        direct = near.first

        def copied() -> Val:
            site, lanes = e.windows.site(), e.executing()
            done = lane_loops.copy_lanes(e, access, self.addresses(a), lanes, scratch, site)
            e.abort_unless(done)
            return b.pure("i64", 0, f"ptrtoint {scratch.typed} to i64")

        first = b.either(ok, lambda: direct, copied, likely=True)
        return Address(a.space, a.off, first, first)

    def _checked(
        self, mem: Mem, access: MemoryAccess, group: AccessGroup | None
    ) -> tuple[Val, Address, AccessGroup | None]:
        """(whether to take the fast path, the address for it, the group of the access).

        It is checked once per base in a block; `group` is one that has been checked.
        """
        a, nbytes, writes = access.address, access.nbytes, access.writes
        group = group or groups.find(self.e, mem, a.space, nbytes)
        if group is None:
            return self._fast(a, nbytes, writes), a, None
        # The first member checks for all: they are in one basic block, so they all run or none
        # does.
        if group.ok is None:
            both = groups.ends(self.e, mem, a.space, group, nbytes)
            group.ok, group.first = self._fast(both, nbytes, writes), both.first
        assert group.first is not None
        first = group.first + (mem.offset - group.low) if mem.offset != group.low else group.first
        return group.ok, Address(a.space, a.off, first, first), group

    def _load_uniform(
        self,
        access: MemoryAccess,
        group: AccessGroup | None,
        ok: Val,
        near: Address,
        ty: str,
        count: int,
        lanes: Val,
        ordered: bool,
    ) -> list[Val]:
        """One address for all: checked once, and not touched when no lane runs."""
        e, b = self.e, self.e.b
        # Without a guard some lane runs, since no block is entered with an empty mask.
        guarded = e.ins.guard is not None and not e.predicate_taken

        def check() -> None:
            # An earlier member of the group has checked this one too, or the warp has left.
            if group is not None and group.settled:
                return
            with b.when(ok ^ 1, rare=True):
                if group is None:
                    e.abort_unless(checks.check_one(e, access, lanes, e.windows.site()))
                else:
                    self._check_members(group, lanes)
            if group is not None:
                group.settled = True

        def load() -> list[Val]:
            check()
            return self.moves.load(near, ty, count, ordered)

        if not guarded:
            return load()
        return b.either(lanes.ne(0), load, lambda: [b.zero(ty, 0)] * count)

    def _check_members(self, group: AccessGroup, lanes: Val) -> None:
        """Check every access of a uniform group by itself: all of them are about to run."""
        e = self.e
        assert group.first is not None
        sites = [e.windows.site_of(i) for i in group.indices]
        rows = list(zip(group.offsets, group.sizes, sites, group.indices, strict=True))
        first = group.first - group.low if group.low else group.first
        e.abort_unless(checks.check_members(e, group.space, first, lanes, rows))

    def store(self, mem: Mem, space: int, values: list[Val]) -> None:
        """One value list per lane."""
        e, b = self.e, self.e.b
        ty, count = values[0].element, len(values)
        nbytes = BITS[ty] // 8 * count
        looked_at = self.changes.looks_at(e.ins)
        bounded = e.windows.bounded(mem, space, nbytes)
        delayed = e.ins.index in e.program.delayed
        a, group = self._address(mem, space, nbytes, whole=looked_at or bounded or delayed)
        access = MemoryAccess(
            e.ins, AccessUnit.LANES, AccessKind.WRITE, a, nbytes, values=tuple(values),
            waits=decode(e.ins).row.completes_by,
        )  # fmt: skip
        e.watch.access(access)
        if looked_at:  # a waiting loop may store what is there already
            self.changes.store(access, e.executing())
            return
        if e.delays is not None:
            e.delays.meet(access)
            if delayed:
                self._delay(e.delays, access, values)
                return
        values = [v if a.uniform else b.splat(v, 32) for v in values]
        # Lanes that may write the same place must be stored in lane order: the last one wins.
        if not a.scalar:
            self._store_rows(access, values)
            return
        if not self.moves.can_store(a, ty, count):
            self._store_slow(access, values)
            return
        stored = self.moves.stored_lanes(a, values)
        if stored < 32:
            # What no lane stores need not be computed: LLVM leaves it out.
            values = [b.shuffle(v, [*range(stored), *[-1] * (32 - stored)]) for v in values]
        if bounded and not a.uniform:
            self.moves.store(a, values)
            return
        fast, near, _ = self._checked(mem, access, group)
        b.either(
            fast,
            lambda: self.moves.store(near, values),
            lambda: self._store_slow(access, values),
            likely=True,
        )

    def _delay(self, delays: Delays, access: MemoryAccess, values: list[Val]) -> None:
        """Delay a store, if its schedule does."""
        self.e.b.either(
            self.e.timing.chance(ScheduleFields.DELAY),
            lambda: delays.store(access, values),
            lambda: self._store_slow(access, values),
        )
        self.e.forget_mask()

    def place(self, access: MemoryAccess, lanes: Val) -> Val:
        """The one place of a uniform access, checked; some lane must run."""
        e, b, a = self.e, self.e.b, access.address
        if not e.windows.always_inside(a, access.nbytes):
            with b.when(e.windows.inside(a, access.nbytes) ^ 1, rare=True):
                e.abort_unless(checks.check_one(e, access, lanes, e.windows.site()))
        return self.moves.pointer(a)

    # ---- fast path -----------------------------------------------------------------------------
    def _fast(self, a: Address, nbytes: int, writes: bool) -> Val:
        """True at run time if all lanes may be accessed at once.

        Inactive lanes may be read and, in the block's own memory, written back. For a uniform
        address one lane is enough.
        """
        ok = self.e.windows.inside(a, nbytes)
        if self.e.executes_fully or (not a.uniform and (not writes or a.space == Space.SHARED)):
            return ok
        return (self.e.executing().ne(0) if a.uniform else self.e.executes_in_all()) & ok

    # ---- slow paths -------------------------------------------------------------------------
    def addresses(self, a: Address) -> Val:
        """A stack array of the 32 host addresses."""
        b = self.e.b
        out = self.table()
        if a.off is not None:
            lane_loops.spread(self.e, a, out)
        elif a.wide is not None:
            w = a.wide
            index = self.offsets()
            b.store(w.lanes(), index, 64)
            lane_loops.spread_index(self.e, w, index, out)
        else:
            assert a.exact is not None
            b.store(b.splat(a.exact, 32), out, 64)
        return out

    def offsets(self) -> Val:
        """A stack array of 32 offsets inside a window."""
        return self._array("index", "i32", 32)

    def table(self) -> Val:
        """The stack array that `addresses` fills."""
        return self._array("addresses", "i64", 32)

    def buffer(self, count: int) -> Val:
        """A stack array for the elements of a lane-by-lane access (16 bytes each at most)."""
        assert count <= 8
        return self._array("data", "i64", 8 * 32)

    def _array(self, name: str, ty: str, count: int) -> Val:
        """One stack array per purpose, shared by all accesses of the warp."""
        if name not in self._arrays:
            self._arrays[name] = self.e.b.array(ty, count)
        return self._arrays[name]

    def _load_slow(self, access: MemoryAccess, ty: str, count: int) -> list[Val]:
        e, b, a = self.e, self.e.b, access.address
        data, size, lanes = self.buffer(count), BITS[ty] // 8, e.executing()
        if count == 1 and not a.scalar:
            return [sparse.load(e, access, ty, lanes, e.windows.site())]
        ok = lane_loops.load_lanes(
            e, access, self.addresses(a), lanes, size, count, data, e.windows.site()
        )
        e.abort_unless(ok)
        return [b.load(ty, 32, b.at(data, 32 * size * i), 8) for i in range(count)]

    def _store_slow(self, access: MemoryAccess, values: list[Val]) -> None:
        e, b, a = self.e, self.e.b, access.address
        size, lanes = values[0].bits // 8, e.executing()
        if len(values) == 1 and not a.scalar:
            sparse.store(e, access, b.splat(values[0], 32), lanes, e.windows.site())
            return
        data = self.buffer(len(values))
        for i, v in enumerate(values):
            b.store(b.splat(v, 32), b.at(data, 32 * size * i), 8)
        ok = lane_loops.store_lanes(
            e, access, self.addresses(a), lanes, size, len(values), data, e.windows.site()
        )
        e.abort_unless(ok)
