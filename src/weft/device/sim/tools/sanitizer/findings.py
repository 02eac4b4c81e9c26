"""Turns what compiled code noted into findings that name lines, threads and arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.run import elements
from weft.device.sim.run.faults import line_of, width_of
from weft.device.sim.run.heap import Block
from weft.device.sim.tools.sanitizer import bounds
from weft.device.sim.tools.sanitizer.layout import Apart, Kind, Record
from weft.device.sim.tools.sanitizer.leaks import HEAP
from weft.device.sim.tools.sanitizer.observer import Raw, Seen
from weft.errors import DeviceError
from weft.ptx.isa import decode
from weft.ptx.model import Instruction, Label

if TYPE_CHECKING:
    from weft.device.base import LaunchConfig
    from weft.device.sim.analyse.program import Program
    from weft.device.sim.run.module import SimModule

Dims = tuple[int, int, int]
_OF_LANES = (Kind.MISSING_LANES, Kind.NOT_IN_MASK, Kind.BARRIER_SPLIT, Kind.UNDEFINED_LANE)
"""Findings whose address is a set of lanes."""
_MEETINGS = (Kind.BARRIER_PLACES, Kind.BARRIER_COUNT, Kind.BARRIER_SHARED)
"""Findings of which both threads are known, and in one block."""
_PARITIES = {
    Kind.PARITY_PASSES: "waits for parity {}; the warp has arrived in the current phase, of parity"
                        " {}, which is not complete",
    Kind.PARITY_BLOCKS: "waits for parity {}: the current phase, in which nothing has arrived; the"
                        " last one that is complete has parity {}",
}  # fmt: skip
"""The place of a finding, by the parity of a wait and another one."""
_OF_MEMORY = (Kind.UNINITIALISED, Kind.STALE)
"""Findings beside races whose address is one of memory."""
RACES = (Kind.READ_AFTER_WRITE, Kind.WRITE_AFTER_READ, Kind.WRITE_AFTER_WRITE)


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a finding.

    verb            what it did, e.g. "write"
    line            file and line, with the source text and the calls inlined around it
    file, number    the file and the number of the line
    block, thread   who did it; None where it was the host

    >>> racing = weft.cuda("__global__ void racing(int* x) { x[0] = threadIdx.x; }").racing
    >>> with weft.sanitize(raises=False) as found:
    ...     racing[1, 64](np.zeros(1, np.int32))
    >>> print(found.findings[0].accesses[0].number)
    1
    """

    verb: str
    line: str
    file: str
    number: int
    block: Dims | None
    thread: Dims | None

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Access:
        """The access of a dict that `Finding.to_dict` gave."""
        places = {name: tuple(facts[name]) if facts[name] else None for name in ("block", "thread")}
        return cls(**{**facts, **places})

    def __str__(self) -> str:
        who = "" if self.block is None else f"  (block {self.block}, thread {self.thread})"
        return f"{self.verb}: {self.line}{who}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error that the sanitizer found between one pair of source lines.

    kind       the kind of error, e.g. "race"
    what       the error in words
    kernel     the kernel; empty where the host is at fault
    accesses   the accesses that are involved, each an `Access`
    times      how often it was seen
    next       what to do about it
    place      the array and the element
    address    the address

    >>> print(found.findings[0].kernel)
    racing
    """

    kind: str
    what: str
    kernel: str
    accesses: tuple[Access, ...]
    times: int
    next: str
    place: str = ""
    address: int | None = None

    def __str__(self) -> str:
        first = self.accesses[0]
        where = f"{first.file}:{first.number}" if first.number else first.file
        lines = [f"{where}: {self.what}" + (f" in {self.kernel}" if self.kernel else "")]
        lines += [str(a) for a in self.accesses]
        if self.place:
            lines.append(f"at: {self.place}")
        lines.append(f"seen: {self.times:,} x")
        lines.append(f"next: {self.next}")
        return "\n  ".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The finding as a dict, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Text:
    """How a kind of finding is told: its name, what it is, the two verbs, and what would help."""

    name: str
    what: str
    verbs: tuple[str, str]
    next: str


_RACE = "data race"
TEXTS: Mapping[int, Text] = {
    Kind.READ_AFTER_WRITE: Text(_RACE, "a thread reads what another writes, in no order",
                                ("read", "write"), ""),
    Kind.WRITE_AFTER_READ: Text(_RACE, "a thread writes what another reads, in no order",
                                ("write", "read"), ""),
    Kind.WRITE_AFTER_WRITE: Text(_RACE, "two threads write the same place, in no order",
                                 ("write", "write"), ""),
    Kind.UNINITIALISED: Text("uninitialised", "a read of memory that was never written",
                             ("read", "used"), "write it first, or check which threads do"),
    Kind.STALE: Text("stale read", "a read through the read-only cache of what the same kernel has"
                     " written", ("read", "write"), "read it without __ldg, or take const or"
                     " __restrict__ from the pointer"),
    Kind.PARITY_PASSES: Text("wrong parity", "a wait for an mbarrier passes at once, by the wrong"
                             " phase", ("wait", ""), ""),
    Kind.PARITY_BLOCKS: Text("wrong parity", "a wait for an mbarrier never ends, by the wrong"
                             " phase", ("wait", ""), ""),
    Kind.BARRIER_SPLIT: Text("barrier divergence", "a barrier that only some threads of a warp"
                             " reach", ("barrier", ""),
                             "move the barrier out of the branch, so that all threads reach it"),
    Kind.BARRIER_COUNT: Text("barrier misuse", "threads meet at one barrier but expect different"
                             " numbers of threads", ("barrier", "barrier"),
                             "give every bar.sync of a barrier the same count"),
    Kind.BARRIER_PLACES: Text("barrier divergence", "threads of a block wait at different"
                              " barriers in the code", ("barrier", "barrier"),
                              "let all threads of the block pass the same __syncthreads()"),
    Kind.BARRIER_SHARED: Text("barrier misuse", "two groups of warps use one named barrier at the"
                              " same time", ("barrier", "barrier"),
                              "give each group a barrier of its own: another number"),
    Kind.BARRIER_SKIPPED: Text("barrier divergence", "a barrier that some warps of the block branch"
                               " around", ("barrier", ""),
                               "move the barrier out of the branch, so that all threads reach it"),
    Kind.MISSING_LANES: Text("missing lanes", "lanes are named that do not take part",
                             ("call", ""), "compute the mask before the branch, or move the call"
                             " to where all its lanes are"),
    Kind.NOT_IN_MASK: Text("missing lanes", "a lane calls with a mask that leaves it out",
                           ("call", ""), "the mask must have the bit of every lane that calls"),
    Kind.UNDEFINED_LANE: Text("missing lanes", "a shuffle from a lane that does not take part",
                              ("call", "used"), "name the source lane in the mask and let it take"
                              " part, or do not use the value"),
    Kind.OTHER_ARRAY: Text("out of bounds", "an access leaves its own array for another one",
                           ("access", ""), "compare the index with the array's length"),
    Kind.OVERFLOW: Text("index overflow", "an index does not fit 32 bits and wraps",
                        ("computed", ""), "compute it in 64 bits: make one factor a size_t"),
    Kind.SPIN: Text("spin", "a loop waits for a value that it never reads again",
                    ("loop", ""), "make the flag volatile, or read it by an atomic"),
}  # fmt: skip
_ORDER = {
    Apart.LANES: "__syncwarp() between the two",
    Apart.WARPS: "__syncthreads() between the two",
    Apart.BLOCKS: "__syncthreads() does not order blocks: use atomics, two launches, or a grid-wide"
    " sync (cooperative launch)",
}
_ITSELF = "threads execute this line at the same time: use an atomic, or one place for each thread"
_COPY = "cp.async.wait_group (and __syncthreads() for other threads) before it is used"


_TRITONS_SHARED_MEMORY = "global_smem"
"""The array that holds all shared memory of a Triton kernel."""


class Decoder:
    """Findings of one launch."""

    def __init__(self, module: SimModule, entry: str, config: LaunchConfig, seen: Seen) -> None:
        self.module, self.entry, self.config, self.seen = module, entry, config, seen
        names = {v: k for k, v in module.ptx.entries.items()}
        self.name = names.get(entry, entry)
        self._code: dict[int, Instruction] | None = None
        self._program: Program | None = None

    def findings(self) -> list[Finding]:
        """All of them, alike ones together, in the order of the source."""
        raced = {i for r in self.seen.raw if r.kind in RACES for i in (r.index, r.other_index)}
        raw = [
            r for r in self.seen.raw
            if not (r.kind == Kind.UNINITIALISED and r.index in raced)  # it came too early, only
        ]  # fmt: skip
        merged: dict[object, Finding] = {}
        for r in sorted(raw, key=lambda r: -r.apart):  # the widest race says what would help
            found = self._finding(r)
            if found is None:
                continue
            key = (found.kind, frozenset((a.verb, a.line) for a in found.accesses))
            old = merged.get(key)
            merged[key] = found if old is None else replace(old, times=old.times + found.times)
        # Either has ended the launch, then.
        ended = any(r.kind in (Kind.SPIN, Kind.PARITY_BLOCKS) for r in raw)
        merged |= {block.address: self._leak(block) for block in self.seen.leaks}
        if isinstance(self.seen.error, DeviceError) and not ended:
            merged["error"] = self._failure(self.seen.error)
        return sorted(merged.values(), key=lambda f: (f.accesses[0].file, f.accesses[0].number))

    # ---- places -----------------------------------------------------------------------------
    @property
    def program(self) -> Program:
        if self._program is None:
            m = self.module
            self._program = prepare(m.module, m.function(self.entry), self.config.block)
        return self._program

    def instruction(self, index: int) -> Instruction:
        if self._code is None:
            body = self.program.function.body
            self._code = {i.index: i for i in body if not isinstance(i, Label)}
        return self._code[index]

    def _thread(self, record: int) -> Dims:
        n = 32 * (record >> Record.WARP & 31) + (record >> Record.LANE & 31)
        x, y, _ = self.config.block
        return n % x, n // x % y, n // (x * y)

    def _block(self, number: int) -> Dims:
        x, y, _ = self.config.grid
        return number % x, number // x % y, number // (x * y)

    def _other_block(self, r: Raw, shared: bool) -> int:
        """Records of global memory keep the low bits of a block's number."""
        if shared:
            return r.block
        low = (r.other >> Record.BLOCK) - 1 & Record.BLOCKS
        size = Record.BLOCKS + 1
        return r.block + (low - r.block + size // 2) % size - size // 2 if low != r.block else low

    def _access(self, verb: str, index: int, block: int | None, record: int) -> Access:
        ins = self.instruction(index)
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
        if r.kind == Kind.WRITE_AFTER_READ and decode(self.instruction(r.other_index)).row.is_store:
            r = replace(r, kind=Kind.WRITE_AFTER_WRITE)  # a plain write before an atomic one
        text = TEXTS[r.kind]
        shared = self._is_shared(r)
        if self._is_tritons_own(r, shared):
            return None
        mine = self._access(text.verbs[0], r.index, r.block, r.mine)
        accesses = [mine]
        if r.other_index >= 0:
            known = r.kind in (*RACES, *_MEETINGS, Kind.STALE)
            of_block = shared or r.kind in _MEETINGS
            block = self._other_block(r, of_block) if known else None
            other = self._access(text.verbs[1], r.other_index, block, r.other)
            if known and (other.block, other.thread) == (mine.block, mine.thread):
                other = replace(other, block=None, thread=None)  # another lane that is not known
            accesses.append(other)
        what, place = text.what, ""
        if r.kind in (*RACES, *_OF_MEMORY):
            place = self._place(r, shared)
        if r.kind == Kind.OTHER_ARRAY:
            place = self._other_array(r, shared)
        if r.kind in _OF_LANES:
            place = f"lanes {_lanes(r.address)}"
        if r.kind == Kind.BARRIER_PLACES and accesses[0].line == accesses[1].line:
            lines = (self.instruction(i).ptx_line for i in (r.index, r.other_index))
            place = "one line that is compiled twice, to PTX lines {} and {}".format(*lines)
        if r.kind == Kind.BARRIER_SKIPPED:
            reach, skip = _warps(r.address & 0xFFFFFFFF), _warps(r.address >> 32)
            place = f"reached by {reach}; not by {skip}, which went on and exited"
        if r.kind == Kind.BARRIER_SHARED:
            mine, others = r.mine >> Record.WARP & 31, _warps(r.address & 0xFFFFFFFF)
            place = f"barrier {r.address >> 32}: warp {mine} arrives, in no order with {others}"
        if r.kind in _PARITIES:
            place = _PARITIES[r.kind].format(r.address & 1, r.address >> 1)
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
        itself = r.kind == Kind.WRITE_AFTER_WRITE and r.index == r.other_index
        return itself and shared and r.apart == Apart.LANES and self._is_triton

    @property
    def _is_triton(self) -> bool:
        return _TRITONS_SHARED_MEMORY in self.module.module.variables

    def _pending(self, r: Raw, shared: bool) -> bool:
        return shared and r.kind in RACES and r.other >> Record.CLOCK == Record.PENDING

    def _advice(self, r: Raw, pending: bool) -> str:
        if r.kind in _PARITIES:
            return f"wait for parity {1 - (r.address & 1)}; change the parity after each wait"
        if r.kind not in RACES:
            return ""
        if pending:
            return _COPY
        missed = next((x for x in self.seen.raw if x.kind == Kind.BARRIER_SKIPPED), None)
        if r.apart == Apart.WARPS and missed is not None:
            return f"first let all warps reach the barrier at {self._line(missed.index)}"
        if r.index == r.other_index and r.apart != Apart.BLOCKS:
            return _ITSELF
        return _ORDER[r.apart]

    def _line(self, index: int) -> str:
        """File and line of an instruction."""
        access = self._access("", index, None, 0)
        return f"{access.file}:{access.number}"

    def _is_shared(self, r: Raw) -> bool:
        """Is the address in none of the launch's arrays?"""
        return not any(a.address <= r.address < a.address + a.nbytes for a in self.seen.memory)

    def _place(self, r: Raw, shared: bool) -> str:
        ins = self.instruction(r.index)
        size = width_of(ins)
        for a in self.seen.memory:
            if a.name == HEAP:
                continue
            if a.address <= r.address < a.address + a.nbytes:
                return f"{elements.element(a, r.address, size)} ({r.address:#x})"
        if any(a.name == HEAP and 0 <= r.address - a.address < a.nbytes for a in self.seen.memory):
            return f"the device's heap ({r.address:#x})"
        space = "local" if "local" in ins.parts else "shared"
        return f"{space} memory ({r.address:#x})"

    def _other_array(self, r: Raw, shared: bool) -> str:
        """Which array it should have been, and which it was."""
        if not shared:
            at = r.other >> Record.LANE
            own = next((a for a in self.seen.memory if 0 <= at - a.address < a.nbytes), None)
            name = own.name if own is not None else "its own array"
            return f"{self._place(r, shared)}, through {name}"
        variable = bounds.shared(self.program).get(r.index)
        assert variable is not None
        name = re.sub(r"^_Z.*E\d+(?=[A-Za-z_])", "", variable.name)
        return f"outside of {name} ({variable.size} bytes of shared memory)"

    def _leak(self, block: Block) -> Finding:
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
        access = Access(getattr(error, "access", "") or "at", where, file, number,
                        error.block, error.thread)  # fmt: skip
        what = f"{name}: {error.what.removesuffix(f' in {self.name}')}"
        place = ", ".join(x for x in (error.got, error.allowed) if x)
        return Finding(name, what, error.kernel or self.name, (access,), 1, error.next, place)


_ERRORS = {
    "IllegalAddress": "out of bounds", "MisalignedAddress": "misaligned",
    "InvalidFree": "double free", "Deadlock": "barrier divergence",
    "AssertFailed": "assertion", "Trapped": "trap", "TimeLimit": "time limit",
}  # fmt: skip


def _lanes(bits: int) -> str:
    """Lanes as people write them: 0-3, 16."""
    lanes = [i for i in range(32) if bits >> i & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _warps(bits: int) -> str:
    """Warps as people write them."""
    return f"warp{'s' if bits & (bits - 1) else ''} {_lanes(bits)}"


def summary(launches: int, accesses: int, barriers: int, syncs: int, arrays: int) -> str:
    """What was checked."""
    counts: Sequence[tuple[int, str]] = (
        (launches, "launches"), (accesses, "accesses"), (barriers, "barriers"),
        (syncs, "warp synchronisations"), (arrays, "arrays"),
    )  # fmt: skip
    return ", ".join(f"{n:,} {what}" for n, what in counts)
