"""Findings from the records of compiled code: they name lines, threads and arrays."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.device.clusters import cluster_of
from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.run import elements
from weft.device.sim.run.failures.lines import line_of, width_of
from weft.device.sim.run.heap import HeapBlock
from weft.device.sim.tools.sanitizer import bounds, texts
from weft.device.sim.tools.sanitizer.layout import Apart, FindingKind, Record
from weft.device.sim.tools.sanitizer.leaks import HEAP
from weft.device.sim.tools.sanitizer.observer import Raw, Seen
from weft.errors import Deadlock, DeviceError
from weft.ptx.isa import decode
from weft.ptx.model import Instruction, Label
from weft.values.findings import Access, Dims, Finding

if TYPE_CHECKING:
    from weft.device.base import LaunchConfig
    from weft.device.sim.analyse.program import KernelProgram
    from weft.device.sim.run.module import SimModule

_MEETINGS = (FindingKind.BARRIER_PLACES, FindingKind.BARRIER_COUNT, FindingKind.BARRIER_SHARED)
"""Findings about two known threads of one block."""
_OF_MEMORY = (FindingKind.UNINITIALISED, FindingKind.STALE)
"""Findings beside races whose address is one of memory."""
RACES = (FindingKind.READ_AFTER_WRITE, FindingKind.WRITE_AFTER_READ, FindingKind.WRITE_AFTER_WRITE)


_TRITONS_SHARED_MEMORY = "global_smem"
"""The array that holds all shared memory of a Triton kernel."""


class Decoder:
    """Findings of one launch."""

    def __init__(self, module: SimModule, entry: str, config: LaunchConfig, seen: Seen) -> None:
        self.module, self.entry, self.config, self.seen = module, entry, config, seen
        names = {v: k for k, v in module.ptx.entries.items()}
        self.name = names.get(entry, entry)

    def findings(self) -> list[Finding]:
        """All findings, equal ones merged, in the order of the source."""
        raced = {i for r in self.seen.raw if r.kind in RACES for i in (r.index, r.other_index)}
        raw = [
            r
            for r in self.seen.raw
            # A read that only came too early is a race.
            if not (r.kind == FindingKind.UNINITIALISED and r.index in raced)
        ]
        merged: dict[object, Finding] = {}
        for r in sorted(raw, key=lambda r: -r.apart):  # the widest race says what would help
            found = self._finding(r)
            if found is None:
                continue
            key = (found.kind, frozenset((a.verb, a.line) for a in found.accesses))
            old = merged.get(key)
            merged[key] = found if old is None else replace(old, times=old.times + found.times)
        # Either has ended the launch, then.
        ended = any(r.kind in (FindingKind.SPIN, FindingKind.PARITY_BLOCKS) for r in raw)
        merged |= {block.address: self._leak(block) for block in self.seen.leaks}
        if isinstance(self.seen.error, DeviceError) and not ended:
            merged["error"] = self._failure(self.seen.error)
        return sorted(merged.values(), key=lambda f: (f.accesses[0].file, f.accesses[0].number))

    # ---- places -----------------------------------------------------------------------------
    @functools.cached_property
    def program(self) -> KernelProgram:
        m = self.module
        return prepare(m.module, m.function(self.entry), self.config.block)

    @functools.cached_property
    def code(self) -> dict[int, Instruction]:
        """The instructions by their numbers."""
        return {i.index: i for i in self.program.function.body if not isinstance(i, Label)}

    def _thread(self, record: int) -> Dims:
        n = 32 * (record >> Record.WARP & 31) + (record >> Record.LANE & 31)
        x, y, _ = self.config.block
        return n % x, n // x % y, n // (x * y)

    def _block(self, number: int) -> Dims:
        x, y, _ = self.config.grid
        return number % x, number // x % y, number // (x * y)

    def _other_block(self, r: Raw, shared: bool) -> int:
        """The other block's number: records of global memory have its low bits."""
        if shared and not self._clustered:
            return r.block
        if r.kind in texts.OF_TILES or decode(self.code[r.index]).row.async_ is not None:
            return self._peer(r.block, r.other >> Record.RANK)
        low = (r.other >> Record.BLOCK) - 1 & Record.BLOCKS
        size = Record.BLOCKS + 1
        return r.block + (low - r.block + size // 2) % size - size // 2 if low != r.block else low

    def _peer(self, block: int, rank: int) -> int:
        """The number of the block of a rank, in the cluster of another block."""
        cluster = cluster_of(self.config, self.module.entry(self.entry).directives) or (1, 1, 1)
        first = [n - n % side for n, side in zip(self._block(block), cluster, strict=True)]
        own = rank % cluster[0], rank // cluster[0] % cluster[1], rank // (cluster[0] * cluster[1])
        x, y, z = (a + b for a, b in zip(first, own, strict=True))
        return (z * self.config.grid[1] + y) * self.config.grid[0] + x

    def _access(self, verb: str, index: int, block: int | None, record: int) -> Access:
        ins = self.code[index]
        own = ins.loc.own if ins.loc is not None else None
        return Access(
            verb,
            line_of(ins),
            own.file if own else self.module.ptx.origin,
            own.line if own else ins.ptx_line,
            None if block is None else self._block(block),
            None if block is None else self._thread(record),
        )

    # ---- findings ---------------------------------------------------------------------------
    def _finding(self, r: Raw) -> Finding | None:
        if r.kind == FindingKind.WRITE_AFTER_READ and decode(self.code[r.other_index]).row.is_store:
            r = replace(r, kind=FindingKind.WRITE_AFTER_WRITE)  # a plain write before an atomic one
        text = texts.TEXTS[r.kind]
        shared = self._is_shared(r)
        if self._is_tritons_own(r, shared):
            return None
        ran = None if r.kind in texts.OF_CODE else r.block
        mine = self._access(text.verbs[0], r.index, ran, r.mine)
        accesses = [mine]
        if r.other_index >= 0:
            known = r.kind in (*RACES, *_MEETINGS, *texts.OF_TILES, FindingKind.STALE)
            of_block = shared or r.kind in _MEETINGS
            block = self._other_block(r, of_block) if known else None
            other = self._access(text.verbs[1], r.other_index, block, r.other)
            if known and (other.block, other.thread) == (mine.block, mine.thread):
                other = replace(other, block=None, thread=None)  # another lane that is not known
            accesses.append(other)
        what, place = text.what, texts.place_of(r)
        if r.kind in (*RACES, *_OF_MEMORY, *texts.OF_TILES):
            place = self._place(r)
        if r.kind == FindingKind.OTHER_ARRAY:
            place = self._other_array(r, shared)
        if r.kind == FindingKind.BARRIER_PLACES and accesses[0].line == accesses[1].line:
            lines = (self.code[i].ptx_line for i in (r.index, r.other_index))
            place = "one line that is compiled twice, to PTX lines {} and {}".format(*lines)
        pending = self._pending(r, shared)
        if pending:
            what = "shared memory is used before the copy to it was waited for"
        return Finding(
            kind="missing wait" if pending else text.name,
            what=f"{text.name}: {what}" if not pending else f"missing wait: {what}",
            kernel=self.name,
            accesses=tuple(accesses),
            times=r.times,
            next=self._advice(r, pending) or text.next,
            place=place,
            address=r.address if r.kind in (*RACES, *_OF_MEMORY) else None,
        )

    def _is_tritons_own(self, r: Raw, shared: bool) -> bool:
        """Lanes of a Triton kernel that store their copies of one sum at the same place.

        Triton contracts `x * x` of each lane with its first addition, so that the last bits of the
        copies differ. The source of the kernel has no such store.
        """
        itself = r.kind == FindingKind.WRITE_AFTER_WRITE and r.index == r.other_index
        return itself and shared and r.apart == Apart.LANES and self._is_triton

    @property
    def _clustered(self) -> bool:
        return self.program.clusters

    @property
    def _is_triton(self) -> bool:
        return _TRITONS_SHARED_MEMORY in self.module.module.variables

    def _pending(self, r: Raw, shared: bool) -> bool:
        return shared and r.kind in RACES and r.other >> Record.CLOCK == Record.PENDING

    def _advice(self, r: Raw, pending: bool) -> str:
        if r.kind in texts.PARITIES:
            return texts.other_parity(r)
        if r.kind in texts.OF_TILES and r.kind != FindingKind.PROXY:
            return texts.WAITS[r.other >> Record.BYTES & 15]
        if r.kind not in RACES:
            return ""
        if pending:
            return texts.COPY
        missed = next((x for x in self.seen.raw if x.kind == FindingKind.BARRIER_SKIPPED), None)
        if r.apart == Apart.WARPS and missed is not None:
            return f"first let all warps reach the barrier at {self._line(missed.index)}"
        if r.index == r.other_index and r.apart != Apart.BLOCKS:
            return texts.ITSELF
        if r.apart == Apart.BLOCKS and self._is_shared(r):
            return texts.CLUSTER
        return texts.ORDER[r.apart]

    def _line(self, index: int) -> str:
        """File and line of an instruction."""
        access = self._access("", index, None, 0)
        return f"{access.file}:{access.number}"

    def _is_shared(self, r: Raw) -> bool:
        """Return whether the address is in none of the launch's arrays."""
        return not any(a.address <= r.address < a.address + a.nbytes for a in self.seen.memory)

    def _place(self, r: Raw) -> str:
        ins = self.code[r.index]
        size = width_of(ins)
        for a in self.seen.memory:
            if a.name == HEAP:
                continue
            if a.address <= r.address < a.address + a.nbytes:
                return f"{elements.element(a, r.address, size)} ({r.address:#x})"
        if any(a.name == HEAP and 0 <= r.address - a.address < a.nbytes for a in self.seen.memory):
            return f"the device's heap ({r.address:#x})"
        space = "local" if decode(ins).space == "local" else "shared"
        return f"{space} memory ({r.address:#x})"

    def _other_array(self, r: Raw, shared: bool) -> str:
        """The array that was meant, and the one that was accessed."""
        if not shared:
            at = r.other >> Record.LANE
            own = next((a for a in self.seen.memory if 0 <= at - a.address < a.nbytes), None)
            name = own.name if own is not None else "its own array"
            return f"{self._place(r)}, through {name}"
        variable = bounds.shared(self.program).get(r.index)
        assert variable is not None
        name = re.sub(r"^_Z.*E\d+(?=[A-Za-z_])", "", variable.name)
        return f"outside of {name} ({variable.size} bytes of shared memory)"

    def _leak(self, block: HeapBlock) -> Finding:
        access = replace(self._access("malloc", block.site, 0, 0), block=None, thread=None)
        return Finding(
            "leak", "leak: memory of the device's heap that no pointer leads to any more",
            self.name, (access,), block.times, "free it before the last pointer to it is gone",
            f"{block.nbytes} bytes at {block.address:#x}, allocated by {block.place}",
        )  # fmt: skip

    def _failure(self, error: DeviceError) -> Finding:
        where = error.line or error.where
        where = where or f"{self.module.ptx.origin}:0"
        file, _, rest = where.partition(":")
        digits = re.match(r"\d+", rest)
        number = int(digits.group()) if digits else 0
        name = _ERRORS.get(type(error).__name__, "failed launch")
        if isinstance(error, Deadlock) and error.awaited in ("barrier", "cluster"):
            name = "barrier divergence"
        access = Access(
            getattr(error, "access", "") or "at", where, file, number, error.block, error.thread
        )
        what = f"{name}: {error.what.removesuffix(f' in {self.name}')}"
        place = ", ".join(x for x in (error.got, error.allowed) if x)
        return Finding(name, what, error.kernel or self.name, (access,), 1, error.next, place)


_ERRORS = {
    "IllegalAddress": "out of bounds", "MisalignedAddress": "misaligned",
    "InvalidFree": "double free", "Deadlock": "deadlock",
    "AssertFailed": "assertion", "Trapped": "trap", "TimeLimit": "time limit",
}  # fmt: skip
