"""Turns the error fields that compiled code has written into an exception with advice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from weft.device.sim import warpgroup_faults
from weft.device.sim.analyse.prepare import prepare
from weft.device.sim.analyse.program import KernelProgram
from weft.device.sim.emit.row_operations import BARRIER_LIMITS, COUNT
from weft.device.sim.layout import (
    BUSY,
    FINISHED,
    ContextFields,
    Fault,
    FrameFields,
    Run,
    SlotFields,
    Space,
    WarpStatus,
    WorkerFields,
)
from weft.device.sim.run import clusters, elements
from weft.device.sim.run.arena import Arena
from weft.device.sim.run.awaited import Thread, awaited_value
from weft.device.sim.run.deadlock import explained, waited_for
from weft.device.sim.run.failures import mbarriers, tensors
from weft.errors import (
    Deadlock,
    DeviceError,
    Error,
    IllegalAddress,
    MisalignedAddress,
    TimeLimit,
    Trapped,
)
from weft.ptx.model import Instruction, Label

if TYPE_CHECKING:
    from weft.device.base import Allocation, LaunchConfig
    from weft.device.sim.run.module import SimModule

_SPACES = {
    Space.GLOBAL: "global", Space.SHARED: "shared", Space.LOCAL: "local",
    Space.PARAM: "parameter", Space.GENERIC: "generic", Space.CONST: "constant",
    Space.CLUSTER: "shared::cluster",
}  # fmt: skip
_OF_A_BLOCK = (Space.SHARED, Space.LOCAL, Space.PARAM, Space.CLUSTER)
"""Spaces whose addresses are in no array."""
_NULL = 4096
"""No array begins below: an address there is an index from a null pointer."""


def explain(
    module: SimModule,
    entry: str,
    config: LaunchConfig,
    arena: Arena,
    results: Sequence[int],
    memory: Sequence[Allocation],
    time_limit: float | None,
) -> Error | BaseException:
    """The exception for a launch that did not finish."""
    story = _Story(module, entry, config, arena, memory)
    failed = module.services.failed
    # A fault stops the other workers, so it is looked for before the stops.
    for i, result in enumerate(results):
        if result == Run.FAULT:
            return story.fault(i, failed)
        if result == Run.DEADLOCK:
            return story.deadlock(story.stuck_slots(i), "" if story.in_cluster else "barrier")
    if failed is not None:
        return failed
    if arena.verdict == "deadlock":
        return story.deadlock(story.busy_slots(), "")
    return TimeLimit(
        f"{story.name} ran past its time limit",
        got=f"still running after {time_limit} s",
        next="raise time_limit=, use a smaller input, or look for a loop that does not end",
    )


def line_of(ins: Instruction | None) -> str:
    """file:line of the user's, its text, the library's line in it, and the calls around it."""
    if ins is None:
        return "unknown line"
    if ins.loc is None:
        return f"PTX line {ins.ptx_line}: {ins.text}"
    line = ins.loc.own
    quoted = f"  `{line.quote}`" if line.quote else ""
    library = "" if line is ins.loc else f", in {ins.loc}"
    return f"{line}{quoted}{library}{line.calls}"


class _Story:
    """A failed launch, and the explanation of its error."""

    def __init__(
        self,
        module: SimModule,
        entry: str,
        config: LaunchConfig,
        arena: Arena,
        memory: Sequence[Allocation],
    ) -> None:
        self.module, self.entry, self.config = module, entry, config
        self.arena, self.memory = arena, memory
        names = {v: k for k, v in module.ptx.entries.items()}
        self.name = names.get(entry, entry)
        self._program: KernelProgram | None = None

    # ---- places -----------------------------------------------------------------------------
    @property
    def program(self) -> KernelProgram:
        if self._program is None:
            m = self.module
            self._program = prepare(m.module, m.function(self.entry), self.config.block)
        return self._program

    def instruction(self, site: int) -> Instruction | None:
        for ins in self.program.function.body:
            if not isinstance(ins, Label) and ins.index == site:
                return ins
        return None

    def block(self, worker: int, slot: int) -> tuple[int, int, int]:
        words = self.arena.slot(worker, slot)
        x, y, z = (
            int(words[k // 4]) for k in (SlotFields.BLOCK_X, SlotFields.BLOCK_Y, SlotFields.BLOCK_Z)
        )
        return x, y, z

    def thread(self, warp: int, lane: int) -> tuple[int, int, int]:
        n = 32 * warp + lane
        x, y, _ = self.config.block
        return n % x, n // x % y, n // (x * y)

    def _frame(self, worker: int, slot: int, warp: int) -> dict[str, int]:
        info = self.arena.info
        words = self.arena.slot(worker, slot)
        at = (SlotFields.FRAMES + warp * info.frame_bytes) // 4
        fields = {
            "state": FrameFields.STATE, "status": FrameFields.STATUS, "site": FrameFields.SITE,
            "mask": FrameFields.MASK, "live": FrameFields.LIVE,
        }  # fmt: skip
        return {k: int(words[at + v // 4]) for k, v in fields.items()}

    def busy_slots(self) -> list[tuple[int, int]]:
        return [
            (w, i)
            for w in range(len(self.arena.workers))
            for i in range(self.arena.slots)
            if self.arena.slot(w, i)[0] == BUSY
        ]

    @property
    def in_cluster(self) -> bool:
        return self.arena.info.clusters and self.blocks > 1

    @property
    def blocks(self) -> int:
        """The number of blocks of a cluster."""
        fields = (ContextFields.CLUSTER_X, ContextFields.CLUSTER_Y, ContextFields.CLUSTER_Z)
        words = self.arena.context.view("int32")
        return prod(int(words[at // 4]) for at in fields)

    def stuck_slots(self, worker: int) -> list[tuple[int, int]]:
        """The slots of the blocks that cannot run: one, or those of its cluster."""
        slot = self.arena.workers[worker][WorkerFields.ERROR_SLOT]
        if not self.arena.info.clusters:
            return [(worker, slot)]
        first = slot - slot % self.blocks
        group = [(worker, i) for i in range(first, first + self.blocks)]
        return [x for x in group if x in self.busy_slots()]

    # ---- errors -----------------------------------------------------------------------------
    def fault(self, worker: int, failed: BaseException | None) -> Error | BaseException:
        w = self.arena.workers[worker]
        code, lane, warp = (
            w[WorkerFields.ERROR],
            w[WorkerFields.ERROR_LANE],
            w[WorkerFields.ERROR_WARP],
        )
        block = self.block(worker, w[WorkerFields.ERROR_SLOT])
        thread = self.thread(warp, lane)
        ins = self.instruction(w[WorkerFields.ERROR_SITE])
        # A service has kept its own exception; the code in the worker only ended the warp.
        if failed is not None:
            error: Error | BaseException = failed
        elif code in (Fault.ILLEGAL, Fault.READ_ONLY, Fault.MISALIGNED):
            error = self._address(code, ins, w[WorkerFields.ERROR_ADDRESS], worker, block, thread)
        elif code in clusters.FAULTS:
            error = clusters.explain(self, code, line_of(ins), worker)
        elif code == Fault.TRAP:
            error = Trapped(
                f"{self.name} executed a trap",
                where=line_of(ins),
                got=f"block {block}, thread {thread}",
                next="look for __trap(), a library's failed check, or code that cannot be reached",
            )
        elif code == Fault.BARRIER:
            error = self._barrier(ins, w[WorkerFields.ERROR_ADDRESS], block, thread)
        elif code == Fault.TEXTURE:
            error = self._texture(ins, block, thread)
        elif code == Fault.MBARRIER:
            at = w[WorkerFields.ERROR_ADDRESS] - self._shared(worker, w[WorkerFields.ERROR_SLOT])
            error = mbarriers.misuse(
                self.name, line_of(ins), w[WorkerFields.ERROR_BYTES],
                w[WorkerFields.ERROR_WRITES],
                f"byte {at} of shared memory, block {block}, thread {thread}",
            )  # fmt: skip
        elif code == Fault.TENSOR:
            got, number = w[WorkerFields.ERROR_WRITES], w[WorkerFields.ERROR_BYTES]
            error = tensors.explain(
                self.name, line_of(ins), ins, number, got,
                f"tensor map at {w[WorkerFields.ERROR_ADDRESS] & 2**64 - 1:#x}, "
                f"block {block}, thread {thread}",
            )  # fmt: skip
        elif code == Fault.WARPGROUP:
            error = self._warpgroup(ins, worker, block, thread)
        else:
            error = DeviceError(f"{self.name} failed (code {code})", where=line_of(ins))
        if isinstance(error, DeviceError):
            error.kernel, error.line = self.name, line_of(ins)
            error.block, error.thread = block, thread
        return error

    def _shared(self, worker: int, slot: int) -> int:
        """The address of a block's shared memory."""
        return int(self.arena.slot(worker, slot).view("int64")[SlotFields.SHARED // 8])

    def _barrier(
        self,
        ins: Instruction | None,
        value: int,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
    ) -> DeviceError:
        counts = value & COUNT
        number = value & 0xFFFFFFFF
        return DeviceError(
            f"{self.name} uses a barrier wrongly: "
            + (f"{number} threads cannot meet" if counts else f"there is no barrier {number}"),
            where=line_of(ins),
            got=f"block {block}, thread {thread}",
            allowed=BARRIER_LIMITS[counts],
            next="check what the kernel computes for the barrier's number and its count",
        )

    def _warpgroup(
        self,
        ins: Instruction | None,
        worker: int,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
    ) -> DeviceError:
        w = self.arena.workers[worker]
        words = self.arena.slot(worker, w[WorkerFields.ERROR_SLOT]).view("int64")
        size = int(words[SlotFields.SHARED_BYTES // 8])
        wrong = warpgroup_faults.explain(w[WorkerFields.ERROR_ADDRESS], self.arena.info.warps, size)
        return DeviceError(
            f"wgmma in {self.name} {wrong.what}",
            where=line_of(ins),
            got=f"{wrong.got}, block {block}, thread {thread}",
            allowed=wrong.allowed,
            next=wrong.next,
        )

    def _texture(
        self, ins: Instruction | None, block: tuple[int, int, int], thread: tuple[int, int, int]
    ) -> DeviceError:
        unit, at = self.module.root.textures, f"block {block}, thread {thread}"
        if unit is None:
            return DeviceError(
                f"{self.name} uses a texture or surface object",
                where=line_of(ins),
                got=at,
                allowed="objects of weft.texture and weft.surface, or of a whole program",
                next="pass weft.texture(array), or run the program: weft run prog.cu",
            )
        what, _, allowed = unit.error().partition("; ")
        kind = MisalignedAddress if "misaligned" in what else IllegalAddress
        return kind(
            f"{self.name} {what}",
            where=line_of(ins),
            got=at,
            allowed=allowed,
            next="compare the coordinates with the sizes, and look at where the handle comes from",
        )

    def _address(
        self,
        code: int,
        ins: Instruction | None,
        address: int,
        worker: int,
        block: tuple[int, int, int],
        thread: tuple[int, int, int],
    ) -> IllegalAddress:
        # The fields of a worker are signed.
        address &= 2**64 - 1
        w = self.arena.workers[worker]
        writes, nbytes = bool(w[WorkerFields.ERROR_WRITES]), w[WorkerFields.ERROR_BYTES]
        space = w[WorkerFields.ERROR_SPACE]
        verb = "write" if writes else "read"
        kind = MisalignedAddress if code == Fault.MISALIGNED else IllegalAddress
        near = self._nearest(address, nbytes, writes) if space not in _OF_A_BLOCK else None
        place = self._place(space, address, nbytes, worker, writes, near)
        which = ""
        if near is not None and elements.is_near(near, address):
            which = f"{elements.element(near, address, nbytes)}, "
        what = "misaligned" if code == Fault.MISALIGNED else "out-of-bounds"
        error = kind(
            f"{what} {verb} of {nbytes} bytes in {self.name}, {_SPACES[space]} memory",
            where=line_of(ins),
            got=f"{which}address {address:#x}, block {block}, thread {thread}",
            allowed=f"a multiple of {nbytes}" if code == Fault.MISALIGNED else place,
            next=(
                "vector types need their base aligned: check the offset of the array or view"
                if code == Fault.MISALIGNED
                else self._advice(space, address)
            ),
        )
        error.address, error.space, error.access = address, _SPACES[space], verb
        return error

    def _advice(self, space: int, address: int) -> str:
        if space == Space.SHARED and self._uses_dynamic():
            return (
                f"the kernel's `extern __shared__` memory has {self.config.shared_bytes} bytes: "
                f"give it as many as it uses, {self.name}[grid, block, shared_mem]"
            )
        if space not in _OF_A_BLOCK and address < _NULL:
            return "pass an array where None was given, or set the pointer before it is used"
        return "compare the index with the array's length before the access"

    def _uses_dynamic(self) -> bool:
        """Return whether the kernel's code names an `extern __shared__` array."""
        function = self.program.function
        variables = (*self.module.module.variables.values(), *function.variables.values())
        unsized = [v.name for v in variables if v.space == "shared" and v.unsized]
        texts = [ins.text for ins in function.body if not isinstance(ins, Label)]
        words = {word for text in texts for word in re.findall(r"[\w$]+", text)}
        return any(name in words for name in unsized)

    def _nearest(self, address: int, nbytes: int, writes: bool) -> Allocation | None:
        """The array or variable that an access hits or misses by the smallest distance."""
        # A write has missed the view itself: the memory around a view is there for reads.
        given = [a for a in self.memory if not (writes and a.around)]
        memory = [*given, *self.module.owned()]
        return min(memory, key=lambda a: _distance(a, address, nbytes), default=None)

    def _place(
        self,
        space: int,
        address: int,
        nbytes: int,
        worker: int,
        writes: bool,
        near: Allocation | None,
    ) -> str:
        """The nearest allocation, and by how much it was missed."""
        if space == Space.SHARED:
            w = self.arena.workers[worker]
            words = self.arena.slot(worker, w[WorkerFields.ERROR_SLOT]).view("int64")
            off = address - int(words[SlotFields.SHARED // 8])
            size = int(words[SlotFields.SHARED_BYTES // 8])
            return (
                f"{size} bytes of shared memory; the access is at byte {off}, element "
                f"{off // nbytes} of {nbytes} bytes"
            )
        if space == Space.CLUSTER:
            return clusters.place(self, worker, address)
        if space == Space.LOCAL:
            return f"{self.arena.info.local_bytes} bytes of local memory a thread"
        if space == Space.PARAM:
            return "the kernel's own parameters"
        if address < _NULL:
            return "an address in an array: this one comes from a null pointer"
        if near is None:
            return "no array was given to this launch"
        miss = _distance(near, address, nbytes)
        if miss == 0:
            why = "is read-only" if writes and not near.writable else "may not be used so"
            return f"'{near.name}' holds this address but {why}"
        side = "before its start" if address < near.address else "past its end"
        return f"nearest is '{near.name}' ({near.nbytes} bytes): {miss} bytes {side}"

    def deadlock(self, slots: Sequence[tuple[int, int]], why: str) -> Deadlock:
        """The error that names the waiting warps, their lines, and the condition of each."""
        rows, kinds = [], {why}
        slots = sorted(slots, key=lambda s: self.block(*s)[::-1])  # whichever worker has them
        for worker, slot in slots[:4]:
            block = self.block(worker, slot)
            for warp in range(self.arena.info.warps):
                f = self._frame(worker, slot, warp)
                # 0: the warp has not run yet, and waits for nothing.
                if f["state"] in (FINISHED, 0):
                    continue
                site = self.instruction(f["site"])
                awaited = waited_for(self.program, site, f["status"] == WarpStatus.WAITING)
                lanes_apart = f["live"] & ~f["mask"] and awaited.kind == "lock"
                kinds.add("warp" if lanes_apart else awaited.kind)
                now = self._held(awaited.reads, block, warp, f["mask"] or f["live"])
                if awaited.kind == "mbarrier":
                    now = mbarriers.awaited(self.arena, worker, slot, warp, self._line)
                rows.append(f"block {block} warp {warp} {awaited.how}{now}: {line_of(site)}")
        shown = rows[:8] + ([f"… and {len(rows) - 8} more"] if len(rows) > 8 else [])
        reason, advice = explained(kinds)
        error = Deadlock(
            f"{self.name} is deadlocked: {reason}",
            where=rows[0].split(": ", 1)[1] if rows else "",
            got="\n       ".join(shown),
            next=advice,
        )
        error.kernel = self.name
        if slots:
            error.block = self.block(*slots[0])
        return error

    def _line(self, site: int) -> str:
        """The source line of an instruction, by its number."""
        ins = self.instruction(site)
        return line_of(ins).partition("  `")[0]

    def _held(
        self, reads: Sequence[Instruction], block: tuple[int, int, int], warp: int, lanes: int
    ) -> str:
        """The value of the one location that the first of these lanes waits for."""
        lane = max(0, (lanes & -lanes).bit_length() - 1)
        sides = {
            "ctaid": block,
            "tid": self.thread(warp, lane),
            "nctaid": self.config.grid,
            "ntid": self.config.block,
        }
        special = {
            f"{name}.{axis}": n
            for name, side in sides.items()
            for axis, n in zip("xyz", side, strict=True)
        }
        owned = self.module.owned()
        variables = {a.name: a.address for a in owned}
        params = int(self.arena.context[ContextFields.PARAMS // 8])
        thread = Thread(special, params, variables)
        memory = [*self.memory, *owned]
        texts = {awaited_value(self.program, ins, thread, memory) for ins in reads}
        return f" ({texts.pop()})" if len(texts) == 1 and "" not in texts else ""


def _distance(a: Allocation, address: int, nbytes: int) -> int:
    """Bytes by which an access misses an allocation; 0 where it is inside."""
    if address < a.address:
        return a.address - address
    return max(0, address + nbytes - (a.address + a.nbytes))


def width_of(ins: Instruction | None) -> int:
    """Bytes one lane accesses."""
    if ins is None:
        return 1
    from weft.ptx.isa import decode  # the instruction table: only a fault needs it

    return decode(ins).lane_bytes
