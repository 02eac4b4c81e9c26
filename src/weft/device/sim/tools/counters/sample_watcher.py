"""Code that records the addresses of a few warps, beside the code that counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.device.sim.access import AccessUnit, MemoryAccess, touching
from weft.device.sim.layout import ContextFields, SlotFields, Space
from weft.device.sim.observe import Watched
from weft.device.sim.tools.counters.layout import BLOCKS, RECORD, LaunchFields, Samples
from weft.device.sim.tools.counters.rows import block_number, name_of
from weft.device.sim.tools.counters.watcher import CountWatcher
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock

_SPACES = (Space.GLOBAL, Space.GENERIC, Space.SHARED)
_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class SampleWatcher(CountWatcher):
    """Before each access is counted, warps of a chosen block leave their addresses."""

    def __init__(self, e: Watched) -> None:
        super().__init__(e)
        self._sites: list[dict[str, Any]] = []
        self._records: Val | None = None
        """The records of the block of threads, 0 for most; loaded once in a basic block."""

    def notes(self) -> Mapping[str, Any]:
        return {**super().notes(), "sites": self._sites}

    def started(self, b: Builder, context: Val, worker: Val, slot: Val) -> None:
        super().started(b, context, worker, slot)
        launch = b.load("ptr", 0, b.at(context, ContextFields.OBSERVER))
        table = b.load("ptr", 0, b.at(launch, LaunchFields.SAMPLED))
        number = block_number(b, context, slot)
        chosen = b.integer("i64", 0)
        # In a grid of one block both rows name it: the first one wins.
        for row in reversed(range(BLOCKS)):
            wanted = b.load("i64", 0, b.at(table, 16 * row))
            records = b.load("i64", 0, b.at(table, 16 * row + 8))
            chosen = b.select(number.eq(wanted), records, chosen)
        b.store(chosen, b.load("ptr", 0, b.at(slot, SlotFields.OBSERVER)), 8)

    def block(self, block: BasicBlock) -> None:
        b = self.e.b
        self._records = b.load(
            "i64", 0, b.load("ptr", 0, b.at(self.e.slot, SlotFields.OBSERVER)), 8
        )
        super().block(block)

    def access(self, access: MemoryAccess) -> None:
        if access.space in _SPACES and _has_lanes(access):
            self._sample(access)
        super().access(access)

    def _sample(self, access: MemoryAccess) -> None:
        e, b = self.e, self.e.b
        site = self._site(access.ins.index, name_of(access), access.nbytes)
        lanes = touching(e, access)
        with self._sampled() as records:
            start = b.val("i64", 0, f"ptrtoint {e.shared.typed} to i64")
            keep = b.helper("keep_sample", [_P, _I64, _I32, _I32, _I64, _P], None, _keep)
            table = e.memory.addresses(access.address)
            keep(records, b.integer("i64", site), e.warp, lanes, start, table)

    def _site(self, instruction: int, kind: str, nbytes: int) -> int:
        """Add a site and return its number."""
        self._sites.append({"access": instruction, "kind": kind, "nbytes": nbytes})
        return len(self._sites) - 1

    @contextmanager
    def _sampled(self) -> Iterator[Val]:
        """Code for warps of a sampled block only; yields the block's samples."""
        b, records = self.e.b, self._records
        assert records is not None
        with b.when(records.ne(0), rare=True):
            yield b.val("ptr", 0, f"inttoptr {records.typed} to ptr")


def _has_lanes(access: MemoryAccess) -> bool:
    """Return whether each lane has an address of its own. A copy is represented by its source."""
    if access.unit is AccessUnit.COPY:
        return not access.writes
    return access.unit in (AccessUnit.LANES, AccessUnit.MATRIX)


def _keep(b: Builder, args: list[Val]) -> None:
    records, site, warp, lanes, start, table = args
    with free_record(b, records, site, warp, lanes) as record:
        b.store(start, b.at(record, 8), 8)
        b.store(b.load("i64", 32, table, 64), b.at(record, 16), 8)


@contextmanager
def free_record(b: Builder, records: Val, site: Val, warp: Val, lanes: Val) -> Iterator[Val]:
    """Count an execution by a lane or more; yield its record while there is room."""
    warps, depth = (b.load("i64", 0, b.at(records, at)) for at in (Samples.WARPS, Samples.DEPTH))
    number = warp.zext("i64")
    with b.when(lanes.ne(0) & number.ult(warps)):
        words = (site * warps + number) * (depth * RECORD + 1)
        counter = b.at(records, words * 8 + Samples.RECORDS)
        before = b.load("i64", 0, counter, 8)
        b.store(before + 1, counter, 8)
        with b.when(before.ult(depth)):
            record = b.at(counter, before * (RECORD * 8) + 8)
            b.store(lanes.zext("i64"), record, 8)
            yield record
