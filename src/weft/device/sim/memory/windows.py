"""Fast checks of addresses: against the window of a site, or against the block's own memory.

Each memory instruction (a site) remembers the allocation of its last access. `checks` searches for
another one when an address lies outside of it.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.device.sim.address import Address
from weft.device.sim.layout import Site, Space
from weft.device.sim.protocols import FrameSpace, Located
from weft.ir import Val
from weft.ptx.isa import decode
from weft.ptx.model import Mem

MANY_LOADS = 64
"""Loads that have a place in the frame of each warp."""


class SiteWindows:
    """The windows of a warp under emission."""

    def __init__(self, e: Located) -> None:
        self.e = e
        self.sites: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        self._own: int | None = None

    def site(self) -> int:
        """The number of this instruction among those that have a cached window."""
        return self.site_of(self.e.ins.index)

    def site_of(self, index: int) -> int:
        """The number of the window of instruction `index`."""
        return self.sites.setdefault(index, len(self.sites))

    def reserve_lasts(self, frame: FrameSpace) -> None:
        """Reserve room for the addresses of loads outside loops in the frame of the warp.

        The next such load is the same warp's in the next block, and there is time until then.
        """
        blocks = self.e.program.graph.blocks
        code = [i for x in blocks if not x.loops for i in x.code]
        decoded = [(i.index, decode(i)) for i in code]
        loads = [index for index, d in decoded if d.row.is_load and d.space == "global"]
        if loads and len(loads) <= MANY_LOADS:
            self._lasts = {index: 8 * k for k, index in enumerate(loads)}
            self._own = frame.reserve(8 * len(loads), lambda: None)

    def last(self) -> Val:
        """The location of the address of this load's previous execution."""
        e, b = self.e, self.e.b
        if self._own is not None and e.ins.index in self._lasts:
            return b.at(e.frame, self._own + self._lasts[e.ins.index])
        return b.at(e.sites, Site.SIZE * self.site() + Site.LAST)

    def second_site(self) -> int:
        """Another window for an instruction that checks accesses of two sizes."""
        # Instructions are numbered from 0, so negative numbers are free.
        return self.site_of(-1 - self.e.ins.index)

    def always_inside(self, a: Address, nbytes: int) -> bool:
        """Return whether the address is constant and inside a window: no run-time check."""
        if a.inside is None or not a.uniform or not a.inside[0].is_const:
            return False
        program = self.e.program
        sizes = {
            Space.PARAM: program.function.param_bytes,
            Space.SHARED: program.shared_bytes,
            Space.LOCAL: program.local_bytes,
        }
        at = int(a.inside[0].ref)
        # Dynamic shared memory is not in these sizes: how much there is differs by launch.
        return at % nbytes == 0 and at + nbytes <= sizes[a.space]

    def bounded(self, mem: Mem, space: int, nbytes: int) -> bool:
        """Return whether the bound of the index keeps all lanes inside static shared memory."""
        program = self.e.program
        form = program.form_of(mem.base)
        # Lanes beyond the block's last thread are not bounded.
        if space != Space.SHARED or not program.full_warps or form is None or not form.is_scalar:
            return False
        if form.top is None or mem.offset < 0 or mem.offset % nbytes:
            return False
        aligned = (1 << form.align) % nbytes == 0 and not any(x % nbytes for x in form.off)
        return aligned and form.top + mem.offset + nbytes <= program.shared_bytes

    def both_inside(self, a: Address, first: Val, last: Val, nbytes: int) -> Val:
        """True if accesses of `nbytes` from `first` to `last` are in shared memory or the
        window.
        """
        e, b = self.e, self.e.b
        if a.space == Space.SHARED:
            low = b.pure("i64", 0, f"ptrtoint {e.shared.typed} to i64")
            size = [e.shared_bytes.zext("i64"), b.integer("i64", nbytes - 1)]
            starts = b.intrinsic("usub.sat", size)
        else:
            site = b.at(e.sites, Site.SIZE * self.site())
            low, starts = b.load("i64", 0, site, 8), b.load("i64", 0, b.at(site, 8), 8)
        return (first - low).ult(starts) & (last - low).ult(starts)

    def inside(self, a: Address, nbytes: int) -> Val:
        """True at run time if both ends are inside the window, and aligned."""
        e, b = self.e, self.e.b
        assert a.first is not None and a.last is not None and a.off is not None
        if any(x % nbytes for x in a.off):  # some lane is misaligned, whatever the base is
            return b.integer("i1", 0)
        if a.inside is not None:
            ok = self._in_own_memory(a, nbytes)
        else:
            site = b.at(e.sites, Site.SIZE * self.site())
            low = b.load("i64", 0, site, 8)
            starts = b.load("i64", 0, b.at(site, 8), 8)
            # One unsigned comparison tests both bounds: an address below the window wraps.
            ok = (a.first - low).ult(starts)
            if a.last is not a.first:
                ok = ok & (a.last - low).ult(starts)
        return ok & (a.first & (nbytes - 1)).eq(0) if nbytes > 1 else ok

    def _in_own_memory(self, a: Address, nbytes: int) -> Val:
        e, b = self.e, self.e.b
        assert a.inside is not None
        sizes: dict[int, Callable[[], Val]] = {
            Space.SHARED: lambda: e.shared_bytes.zext("i64"),
            Space.LOCAL: lambda: b.integer("i64", e.program.local_bytes),
            Space.PARAM: lambda: b.integer("i64", max(1, e.program.function.param_bytes)),
        }
        size = sizes[a.space]()
        starts = b.intrinsic("usub.sat", [size, b.integer("i64", nbytes - 1)])
        low, high = a.inside
        ok = low.ult(starts)
        return ok & high.ult(starts) if high is not low else ok
