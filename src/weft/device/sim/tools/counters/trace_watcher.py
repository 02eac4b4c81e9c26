"""Code that also records which lanes enter each basic block, beside the code of samples."""

from __future__ import annotations

from weft.device.sim.tools.counters.layout import LANES
from weft.device.sim.tools.counters.sample_watcher import SampleWatcher, free_record
from weft.ir import Builder, Val
from weft.ptx.cfg import BasicBlock

_P, _I32, _I64 = ("ptr", 0), ("i32", 0), ("i64", 0)


class TraceWatcher(SampleWatcher):
    """Samples accesses, and the active lanes of basic blocks."""

    def block(self, block: BasicBlock) -> None:
        super().block(block)
        code = [*block.code, *([] if block.last is None else [block.last])]
        if not code:
            return
        e, b = self.e, self.e.b
        site = self._site(min(ins.index for ins in code), LANES, 0)
        lanes = e.mask()
        with self._sampled() as records:
            keep = b.helper("keep_lanes", [_P, _I64, _I32, _I32], None, _keep)
            keep(records, b.integer("i64", site), e.warp, lanes)


def _keep(b: Builder, args: list[Val]) -> None:
    with free_record(b, *args):
        pass
