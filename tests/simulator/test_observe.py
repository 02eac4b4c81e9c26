"""Observers: every event is seen once, with its lanes; plain code is as if there were none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import weft
from weft.device.sim.access import MemoryAccess, touching
from weft.device.sim.emit.generate import generate
from weft.device.sim.emit.warp import WarpEmitter
from weft.device.sim.lane_sets import lane_bits
from weft.device.sim.layout import SlotFields, WorkerFields
from weft.device.sim.observe import Watcher
from weft.device.sim.run.observation import HUGE_PAGE, LINE, Observation, zeroed
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock
from weft.ptx.model import Instruction
from weft.ptx.parse import parse


class Tally(Watcher):
    """Counts (event, detail) and the lanes of each, in two 64-bit numbers."""

    def __init__(self, e: WarpEmitter) -> None:
        super().__init__(e)
        self.names: list[str] = []

    def _add(self, b: Builder, worker: Val, name: str, lanes: Val | None) -> None:
        if name not in self.names:
            self.names.append(name)
        row = b.at(
            b.load("ptr", 0, b.at(worker, WorkerFields.OBSERVER)), 16 * self.names.index(name)
        )
        b.store(b.load("i64", 0, row) + 1, row)
        if lanes is not None:
            at = b.at(row, 8)
            count = b.intrinsic("ctpop", [lanes]).zext("i64")
            b.store(b.load("i64", 0, at) + count, at)

    def _note(self, name: str, lanes: Val | None) -> None:
        self._add(self.e.b, self.e.worker, name, lanes)

    def block(self, block: BasicBlock) -> None:
        self._note("block", self.e.mask())

    def instruction(self, ins: Instruction) -> None:
        self._note(ins.parts[0], self.e.executing())

    def access(self, access: MemoryAccess) -> None:
        lanes = touching(self.e, access)
        if access.sizes is not None:
            lanes = lanes & lane_bits(self.e.b, [access.sizes.ne(0)])
        way = access.kind.name.lower()
        self._note(f"{access.unit.name.lower()} {way} {access.space} {access.nbytes}", lanes)

    def barrier(self, number: Val, count: Val | None, lanes: Val) -> None:
        self._note("barrier", lanes)

    def diverge(self, block: BasicBlock) -> None:
        self._note("diverge", None)

    def leave(self, lanes: Val | None) -> None:
        self._note("leave", lanes)

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        self._add(b, worker, "started", b.load("i32", 0, b.at(slot, SlotFields.BLOCK_X)))

    def finished(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        self._add(b, worker, "finished", None)

    def notes(self) -> Mapping[str, Any]:
        return {"names": self.names}


class Tallies:
    """Sums what all workers have counted."""

    key = "test tally"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lanes: Counter[str] = Counter()
        self.error: BaseException | None = None

    def watcher(self, e: WarpEmitter) -> Watcher:
        return Tally(e)

    def begin(self, observation: Observation) -> None:
        self._memory = observation.for_workers(16 * 100)

    def end(self, observation: Observation) -> None:
        self.error = observation.error
        for memory in self._memory:
            rows = memory.view(np.int64).reshape(-1, 2).tolist()
            for name, (count, lanes) in zip(observation.notes["names"], rows, strict=False):
                self.counts[name] += count
                self.lanes[name] += lanes


SOURCE = r"""
__global__ void k(const float* x, float* y, int* hits, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) {
        y[i] = s[63 - threadIdx.x];
        if (i % 2) atomicAdd(hits, 1);
    }
}
"""


def _seen(n: int) -> Tallies:
    tallies = Tallies()
    x, y, hits = np.ones(256, np.float32), np.zeros(256, np.float32), np.zeros(1, np.int32)
    weft.cuda(SOURCE).k[4, 64].observe(tallies, x, y, hits, n)
    assert hits[0] == n // 2
    return tallies


def test_every_access_is_seen_with_its_lanes() -> None:
    t = _seen(200)
    assert t.lanes["lanes read 0 4"] == 200, "guarded or branched over, only 200 lanes read x"
    assert t.counts["lanes write 1 4"] == 8 and t.lanes["lanes write 1 4"] == 256
    assert t.lanes["lanes write 0 4"] == 200
    assert t.lanes["lanes read 1 4"] == 200
    assert t.lanes["lanes reduction 0 4"] + t.lanes["lanes atomic 0 4"] == 100


def test_barriers_exits_and_blocks_are_seen() -> None:
    t = _seen(200)
    assert (t.counts["barrier"], t.lanes["barrier"]) == (8, 256)
    assert t.lanes["leave"] == 256
    assert (t.counts["started"], t.counts["finished"]) == (4, 4)


def test_a_split_branch_is_seen() -> None:
    t = Tallies()
    k = weft.cuda(
        "__global__ void k(int* x, int n) { if (threadIdx.x < n) { x[threadIdx.x] = 1; "
        "__syncwarp(); } else { atomicAdd(x, 2); } }"
    ).k
    k[3, 64].observe(t, np.zeros(64, np.int32), 40)
    assert t.counts["diverge"] == 3, "the second warp of each block, and not the first"


def test_code_from_the_cache_keeps_its_notes() -> None:
    first, second = _seen(100), _seen(100)
    assert first.counts == second.counts and first.lanes == second.lanes


def test_a_fault_reaches_the_observer_and_the_caller() -> None:
    t = Tallies()
    k = weft.cuda("__global__ void k(int* x) { x[threadIdx.x * 1000] = 1; }").k
    with pytest.raises(weft.IllegalAddress) as caught:
        k[1, 32].observe(t, np.zeros(32, np.int32))
    assert t.error is caught.value
    assert t.counts["lanes write 0 4"] == 1, "seen before it was made"


def test_no_observer_adds_nothing() -> None:
    module = parse(weft.cuda(SOURCE).ptx.text)
    plain, _ = generate(module, module.entries[0], (64, 1, 1))
    module = parse(weft.cuda(SOURCE).ptx.text)
    idle, facts = generate(module, module.entries[0], (64, 1, 1), observer=_Idle())
    assert plain == idle and not facts.notes


class _Idle(Tallies):
    def watcher(self, e: WarpEmitter) -> Watcher:
        return Watcher(e)


@pytest.mark.parametrize("nbytes", [1, 129, HUGE_PAGE - 1, HUGE_PAGE, 2 * HUGE_PAGE + 8])
def test_memory_of_observers_is_zeroed_and_has_lines_of_its_own(nbytes: int) -> None:
    first, second = zeroed(nbytes), zeroed(nbytes)
    for memory in (first, second):
        assert memory.nbytes == nbytes and memory.ctypes.data % LINE == 0
        assert not memory.any()
        memory[:] = 1
    assert abs(first.ctypes.data - second.ctypes.data) >= nbytes
    assert first.all() and second.all()


def test_memory_of_observers_does_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("mmap.MADV_HUGEPAGE", raising=False)
    memory = zeroed(HUGE_PAGE + 8)
    assert memory.nbytes == HUGE_PAGE + 8 and not memory.any()
