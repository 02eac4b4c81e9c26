"""Code for one warp: its function, blocks and instructions; rows do the rest.

The lanes that run are in MASK. Lanes that wait elsewhere are recorded per block in the frame
(`pending`), and a warp always goes on with its lowest pending block, so that lanes meet again as
early as the block order allows. Where no branch can split the warp, none of this is emitted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.device.sim.analyse.form import AFFINE, INDEXED, SPARSE, STRIPED, UNIFORM, Form
from weft.device.sim.analyse.lattice import KEEPS_OFFSETS, adds_bits
from weft.device.sim.analyse.program import CARRY, KernelProgram
from weft.device.sim.analyse.waits import is_warp_sync
from weft.device.sim.emit import row_operations, strips
from weft.device.sim.emit.block.round import WARP_CALL
from weft.device.sim.emit.branch_predicates import Predicates
from weft.device.sim.emit.operands import NOTHING, WarpOperands
from weft.device.sim.emit.schedule import WarpSchedule
from weft.device.sim.emit.special_values import Specials
from weft.device.sim.emit.warp_ops import AcrossLanes
from weft.device.sim.emit.wide_values import StripedRules, WideRules
from weft.device.sim.layout import CLUSTER_SHIFT, ContextFields, SlotFields, WorkerFields
from weft.device.sim.memory.accessing import Delays
from weft.device.sim.memory.atomics import Atomics
from weft.device.sim.memory.bulk_copies import BulkCopies
from weft.device.sim.memory.changes import ChangeRecorder
from weft.device.sim.memory.copies.async_copies import AsyncCopies
from weft.device.sim.memory.groups import AccessGroup
from weft.device.sim.memory.matrix_fragments import Matrices
from weft.device.sim.memory.mbarrier_ledger import BarrierLedger
from weft.device.sim.memory.mbarriers import MemoryBarriers
from weft.device.sim.memory.plain import LoadsAndStores
from weft.device.sim.memory.textures import Textures
from weft.device.sim.memory.timing import Timing
from weft.device.sim.memory.windows import SiteWindows
from weft.device.sim.observe import Watcher, Watching
from weft.ir import Builder, IrModule, Val
from weft.ir.tensor_prepare import Fragments
from weft.ptx.cfg import BasicBlock
from weft.ptx.isa import decode
from weft.ptx.isa.columns import Completion, ResultForm
from weft.ptx.model import Instruction, Operand, Pair, Reg

if TYPE_CHECKING:
    from weft.device.sim.emit.clusters.operations import ClusterOperations
    from weft.device.sim.memory.tensors.copies import TensorCopies
    from weft.device.sim.memory.warpgroups.products import WarpgroupProducts


class WarpEmitter(WarpOperands):
    """Emits `@warp` of a program; implements the `Warp` protocol that rows see."""

    def __init__(
        self,
        program: KernelProgram,
        module: IrModule,
        *,
        fast_math: bool = False,
        observer: Watching | None = None,
    ) -> None:
        super().__init__(program, module)
        self.timing = Timing(self)
        self.module, self.fast_math = module, fast_math
        self.observed = observer is not None
        self.position = 0
        self._early: Callable[[], None] | None = None
        self._before_early = 0
        self.strips: dict[int, dict[int, int]] = {}
        self.groups: dict[tuple[str, int, int, bool], AccessGroup] = {}
        self.specials = Specials(self)
        self.predicates = Predicates(self)
        self.windows = SiteWindows(self)
        self.wide = WideRules(self)
        self.striped = StripedRules(self)
        self.schedule = WarpSchedule(self)
        if self.schedule.lockstep.used:
            self.windows.reserve_lasts(self.schedule)
        self.changes = ChangeRecorder(self, self.schedule.spin_heads)
        self.memory = LoadsAndStores(self, self.changes)
        self.across = AcrossLanes(self)
        self.atomics = Atomics(self, self.changes)
        self.copies = AsyncCopies(self, self.schedule)
        self.ledger = BarrierLedger(self, self.schedule)
        self.bulk = BulkCopies(self, self.schedule, self.ledger)
        self.mbarriers = MemoryBarriers(self, self.bulk, self.ledger)
        self.delays = self._delayed_stores()
        self._prepare_rare_parts()
        self.matrices = Matrices(self)
        self.textures = Textures(self)
        self.fragments = Fragments()
        self.watch = observer.watcher(self) if observer is not None else Watcher(self)

    # ---- parts that few kernels need, with modules of their own -----------------------------
    def _prepare_rare_parts(self) -> None:
        """Make the parts that reserve bytes of the frame, where the kernel needs them."""
        code = [ins for block in self.program.graph.blocks for ins in block.code]
        if self.program.clusters:
            self.cluster  # noqa: B018
        self._multiplies = any(decode(i).row.completes_by is Completion.PRODUCTS for i in code)
        if self._multiplies:
            self.warpgroups  # noqa: B018

    def _delayed_stores(self) -> Delays | None:
        if not self.program.delayed or self.observed:
            return None
        from weft.device.sim.memory.delayed_stores import DelayedStores

        delays = DelayedStores(self, self.schedule, self.schedule.preemption.leave)
        self.schedule.suspension.before_yield = delays.land
        return delays

    @functools.cached_property
    def cluster(self) -> ClusterOperations:
        from weft.device.sim.emit.clusters.operations import ClusterOperations

        return ClusterOperations(self, self.schedule)

    @functools.cached_property
    def tensors(self) -> TensorCopies:
        from weft.device.sim.memory.tensors.copies import TensorCopies

        return TensorCopies(self, self.bulk)

    @functools.cached_property
    def warpgroups(self) -> WarpgroupProducts:
        from weft.device.sim.memory.warpgroups.products import WarpgroupProducts

        now = self.timing.decide if self.timing.on else None
        return WarpgroupProducts(self, self.schedule, now)

    # ---- the function -----------------------------------------------------------------------
    def emit(self, early: Callable[[], None] | None = None) -> None:
        """The whole warp function; `early` is called at two thirds of it."""
        # The header is complete only now: the parts above have reserved their bytes of the frame.
        self.registers.settle(
            self.schedule.header,
            self.schedule.points,
            self.schedule.block_barriers.survivors(),
            self.warpgroups.registers if self._multiplies else set(),
        )
        # A strip takes a few lanes through several instructions, so there is no point at which an
        # observer could see the operands of one of them.
        if not self.watch.one_by_one:
            plan = strips.plan if self.registers.crowded else strips.plan_in_registers
            self.strips = plan(self)
        self._prologue()
        blocks = self.program.graph.blocks
        self._early = early
        self._before_early = sum(len(block.code) for block in blocks) * 2 // 3
        for block in blocks:
            self._emit_block(block)
        self.schedule.epilogue()
        fn = self.b.fn
        self.module.functions["warp"] = (
            # No access of the kernel reaches the frame: with `noalias`, LLVM need not reload its
            # words after a store.
            fn.text()
            .replace("ptr %F", "ptr noalias %F", 1)
            .replace("define internal", f"define internal {WARP_CALL}", 1)
        )

    def _prologue(self) -> None:
        b = self.b
        self.shared = b.load("ptr", 0, b.at(self.slot, SlotFields.SHARED))
        self.shared_bytes = b.load("i64", 0, b.at(self.slot, SlotFields.SHARED_BYTES)).trunc("i32")
        if self.program.clusters:
            rank = b.load("i32", 0, b.at(self.slot, SlotFields.RANK))
            self.rank_base = rank << CLUSTER_SHIFT
        local = b.load("ptr", 0, b.at(self.slot, SlotFields.LOCAL))
        self.params = b.load("ptr", 0, b.at(self.context, ContextFields.PARAMS))
        self.sites = b.load("ptr", 0, b.at(self.worker, WorkerFields.SITES))
        self.schedule.lockstep.enter(local)
        self.schedule.prologue()

    def _emit_block(self, block: BasicBlock) -> None:
        self.block = block
        # What another block has computed need not dominate this one.
        self._mask = None
        self.specials.values = {}
        self.b.place(f"B{block.index}")
        self.groups.clear()
        self.predicates.deferred.clear()
        self.versions.clear()
        self.schedule.suspension.recomputed.begin(block)
        self.schedule.preemption.enter(block)
        if block.code and block.code[0].index in self.program.awaits:
            self._await_warpgroup(block)
        if block.index in self.program.scattered and block.code and is_warp_sync(block.code[0]):
            self.ins = block.code[0]
            self.schedule.suspension.meet(block)
        self.watch.block(block)  # after the wait, which may enter the block again
        self._emit_code(block)
        self.ins = block.last or NOTHING
        if block.last is not None:
            self.watch.instruction(block.last)
        self.schedule.leave(block)

    def clear_shared_state(self, b: Builder, frames: Val) -> None:
        """Empty what the first warp of a block keeps for all, where another may start first."""
        self.ledger.clear(b, frames)
        self.bulk.clear(b, frames)
        if self._multiplies:
            self.warpgroups.clear(b, frames)

    def _await_warpgroup(self, block: BasicBlock) -> None:
        """Let others run until all warps of the warpgroup have issued what this one waits for."""
        self.ins = block.code[0]
        with self.b.when(self.warpgroups.is_ahead(self.ins)):
            self.schedule.suspension.let_others_run(block, block.index, rotates=False)

    def _emit_code(self, block: BasicBlock) -> None:
        runs = self.strips.get(block.index, {})
        self.position = 0
        while self.position < len(block.code):
            count = runs.get(self.position, 0)
            if count:
                emit = strips.emit if self.registers.crowded else strips.emit_in_registers
                emit(self, block, self.position, count)
            else:
                self.instruction(block.code[self.position])
                self.watch.executed(block.code[self.position])
            self.position += max(count, 1)
            self._before_early -= max(count, 1)
            if self._before_early <= 0 and self._early is not None:
                self._early()
                self._early = None

    def instruction(self, ins: Instruction) -> None:
        """Emit one instruction under its guard."""
        self.ins, self.predicate_taken = ins, False
        self.watch.instruction(ins)
        if self.delays is not None:
            self.delays.before(ins)
        decoded = self.program.decoded[ins.index]
        if not decoded.row.warp:
            self.changes.instruction(ins)
            if not self.predicates.defer(ins):
                self._lane_row(ins)
            return
        guard = self.program.forms[ins.guard] if ins.guard else None
        if guard is None or guard.kind != UNIFORM:
            self.changes.instruction(ins)
            decoded.row.function(self, ins, **decoded.words)
            return
        mask, values = self._mask, dict(self.specials.values)
        with self.b.when(self.guard()):  # every lane agrees: step over the instruction
            self.predicate_taken = True
            self.changes.instruction(ins)
            decoded.row.function(self, ins, **decoded.words)
        self.predicate_taken = False
        self._mask, self.specials.values = mask, values  # what was computed inside ends there

    def evaluate(self, ins: Instruction) -> None:
        """Emit an instruction again: without its guard, and not for an observer."""
        watch, self.watch = self.watch, Watcher(self)
        self.ins, self.predicate_taken = ins, False
        decoded = self.program.decoded[ins.index]
        if decoded.row.warp:
            decoded.row.function(self, ins, **decoded.words)
        else:
            self._lane_row(ins)
        self.watch = watch

    # ---- lane-wise rows ---------------------------------------------------------------------
    def _lane_row(self, ins: Instruction) -> None:
        d = self.program.decoded[ins.index]
        result = self.program.result(ins)
        result = result if result is not None else Form(UNIFORM)
        dest = ins.operands[0]
        if isinstance(dest, Reg) and self.program.forms[dest.name].const is not None:
            return  # known at compile time: readers use the constant
        if result.kind in (INDEXED, SPARSE) and isinstance(dest, Reg):
            self.write_wide(dest.name, self.wide.build(ins, result))
            return
        if result.kind == STRIPED and isinstance(dest, Reg):
            self.write_stripes(dest.name, self.striped.build(ins, result))
            return
        scalar_bases = result.is_scalar and self._keeps_bases(ins, result)
        args: list[Val | None] = []
        sources = list(ins.operands[1:])
        for spec in d.row.operands:
            if spec.is_dest:
                continue
            if spec.name == "cc":
                args.append(self.read_register(CARRY))
            elif not sources:
                args.append(None)
            else:
                read = self.base if scalar_bases else self.read
                args.append(read(sources.pop(0), d.types[spec.name]))
        sums = result.kind == AFFINE and d.row.form in (ResultForm.OR, ResultForm.XOR)
        if sums and self._adds_bits(ins):
            assert args[0] is not None and args[1] is not None
            out: Any = args[0] + args[1]
        else:
            out = d.row.function(self.b, *args, **d.words)
        results = list(out) if isinstance(out, tuple) else [out]
        if result.kind == AFFINE:
            results = [self.spread(results[0], result)] if not self._is_affine(dest) else results
        self._store_results(dest, results)

    def _adds_bits(self, ins: Instruction) -> bool:
        """Return whether it is an `or` of two affine values that equals their sum."""
        forms = [self.program.form_of(o) for o in ins.operands[1:]]
        sources = [f for f in forms if f is not None]
        return all(f.const is None for f in sources) and adds_bits(sources)

    def _keeps_bases(self, ins: Instruction, result: Form) -> bool:
        """Return whether the row can be applied to the scalar parts of its sources.

        The result is affine, or uniform because the sources' lane offsets cancel.
        """
        forms = [self.program.form_of(o) for o in ins.operands[1:]]
        if not all(f is not None and f.is_scalar for f in forms):
            return False  # lanes that are known to be 0 have no scalar part
        moving = any(f is not None and f.kind == AFFINE for f in forms)
        return result.kind == AFFINE or (moving and decode(ins).row.form in KEEPS_OFFSETS)

    def _is_affine(self, dest: Operand) -> bool:
        return isinstance(dest, Reg) and self.program.forms[dest.name].kind == AFFINE

    def _store_results(self, dest: Operand, results: list[Val]) -> None:
        spec = self.program.decoded[self.ins.index].row.operands[0]
        kind = self.program.decoded[self.ins.index].types[spec.name]
        signed = kind.startswith("s")
        if spec.pair == "cc":
            self.write(dest, results[0], signed=signed)
            self.write_register(CARRY, results[1])
        elif isinstance(dest, Pair):
            self.write(dest.first, results[0], signed=signed)
            self.write(dest.second, results[1])
        else:
            self.write(dest, results[0], signed=signed)

    @property
    def active_lanes(self) -> int:
        """No lane from this number on runs this block."""
        return self.schedule.active_lanes.get(self.block.index, 32)

    # ---- what rows ask for -------------------------------------------------------------------
    def move(self, ins: Instruction, ptx_type: str) -> None:
        row_operations.move(self, ins, ptx_type)

    def load(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        row_operations.load(self, ins, space, ptx_type, order)

    def store(self, ins: Instruction, space: str, ptx_type: str, order: str) -> None:
        row_operations.store(self, ins, space, ptx_type, order)

    def convert_address(self, ins: Instruction, space: str, *, to_space: bool) -> None:
        row_operations.convert_address(self, ins, space, to_space)

    def test_space(self, ins: Instruction, space: str) -> None:
        row_operations.test_space(self, ins, space)

    def fence(self) -> None:
        row_operations.fence(self)

    def barrier(self, ins: Instruction, op: str) -> None:
        row_operations.barrier(self, self.schedule.block_barriers, ins, op)

    def trap(self, ins: Instruction) -> None:
        row_operations.trap(self, ins)

    def call(self, ins: Instruction) -> None:
        from weft.device.sim.emit import host_calls  # few kernels call the host

        host_calls.call(self, ins)

    # ---- faults -----------------------------------------------------------------------------
    def fault(self, code: int, lane: Val | None = None, address: Val | None = None) -> None:
        """Record an error and leave the warp; the following code is unreachable."""
        b = self.b
        fields = {
            WorkerFields.ERROR: b.integer("i64", code),
            WorkerFields.ERROR_SITE: b.integer("i64", self.ins.index),
        }
        if lane is not None:
            fields[WorkerFields.ERROR_LANE] = lane.zext("i64")
        if address is not None:
            fields[WorkerFields.ERROR_ADDRESS] = address
        for at, v in fields.items():
            b.store(v, b.at(self.worker, at))
        b.jump("abort")

    def abort_unless(self, ok: Val) -> None:
        """Leave the warp when a helper has recorded an error."""
        self.b.jump_unless(ok, "abort")
