"""Cost model of attention by warpgroups and TMA: tiles, and their modelled seconds.

The constants were fitted on an NVIDIA H200: benchmarks/records/attention_tiles.jsonl. Its rows with
"before" are from before items were handed over decoded, which saved about 0.9 us an item. Heads of
40, 64 and 80 were timed again since results are stored by TMA. Tiles that are `masked` only were
timed with heads of 64.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.target import Target
from weft.ops.families.attention import model
from weft.ops.families.attention.problem import Problem

UNIT = 64
"""Rows of a unit: the queries that a warpgroup has at a time."""
SHARED = 226 << 10
"""Bytes of shared memory that a block can have beside its barriers."""
ALIGNMENT = 1024
"""Bytes that tiles in shared memory begin at multiples of."""
MASK_STAGES = 2
"""Tiles of a mask in shared memory for each warpgroup, at most."""
FIXED = 3e-6
"""Seconds of a kernel beside its launch, its items and its memory traffic."""
UNIT_OVERHEAD = 1e-6
"""Seconds of a unit beside its products, for heads of up to UNIT_HEADS[0] elements."""
UNIT_HEADS = (64, 128)
"""Elements of a head from which on, and up to which, a unit takes longer in proportion."""
OWN_STORE = 0.3e-6
"""Seconds of a unit whose warps store its results, where TMA would store them too late."""
ITEM_OVERHEAD = 0.5e-6
"""Seconds of an item beside its units, for heads of up to ITEM_HEAD elements."""
ITEM_HEAD = 64
"""Elements of a head from which on an item takes longer in proportion: its keys are more bytes."""
SPLIT_OVERHEAD = 6e-6
"""Seconds of keys in parts beside `model.joining_time`."""


class TmaTile(NamedTuple):
    """A tile: warpgroups of 64 queries, keys of a step, stages of keys and of values.

    slots      units of queries in shared memory for each warpgroup
    reach      share of the tensor cores' rate in a full tile
    in_turns   warpgroups issue their products one after another
    registers  queries are left operands in registers
    resident   only for calls whose keys and values all fit in the stages
    masked     only for calls whose mask is copied to shared memory
    bare       not for these calls: it was not timed with a mask
    start      seconds of an item until its first keys are there, where they do not stay
    blocks     of an SM
    """

    warpgroups: int
    keys: int
    stages: int
    slots: int
    reach: float
    in_turns: bool = False
    registers: bool = False
    resident: bool = False
    masked: bool = False
    bare: bool = False
    start: float = 0.0
    blocks: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block: one more warpgroup copies."""
        return 128 * (self.warpgroups + 1)

    def shared(self, head: int, parts: int, masks: int = 0) -> int:
        """Bytes of shared memory; columns are stored in slabs of 64. `masks` is their bytes."""
        row = 128 * cdiv(head, 64)
        rows = self.warpgroups * self.slots * UNIT + 2 * self.stages * self.keys
        table = 4 * UNIT * parts * self.warpgroups if parts > 1 else 0
        return ALIGNMENT + row * rows + masks + table

    def mask_bytes(self, size: int) -> int:
        """Bytes of a mask's tiles for all warpgroups, of elements of `size` bytes."""
        return self.warpgroups * UNIT * 128 * cdiv(self.keys * size, 128)

    def masks(self, head: int, parts: int, size: int) -> int:
        """Tiles of a mask that fit in shared memory for each warpgroup, up to MASK_STAGES."""
        free = SHARED // self.blocks - self.shared(head, parts)
        return max(0, min(MASK_STAGES, free // self.mask_bytes(size)))


class WorkDivision(NamedTuple):
    """The division of a call: units of an item, heads in a unit, rows of a unit, parts of keys.

    masks  tiles of a mask in shared memory for each warpgroup; 0: there is none, or it is read from
           global memory
    """

    units: int
    pack: int
    rows: int
    parts: int
    masks: int = 0

    def items(self, p: Problem) -> int:
        """Items of a call, without parts."""
        return self.in_head(p) * (p.heads // self.pack) * p.batch

    def in_head(self, p: Problem) -> int:
        """Items of a head, or of packed heads."""
        return cdiv(p.rows * self.pack, self.rows * self.units)


def stored_soon(tile: TmaTile, work: WorkDivision, p: Problem) -> bool:
    """True if no slot of queries that waits for its results to be stored delays keys."""
    return work.units <= tile.warpgroups or p.keys <= tile.keys


def _busy_part(tile: TmaTile, work: WorkDivision, p: Problem, steps: int) -> float:
    """The part of the time of an item, on average, that it delays the next one by.

    A warpgroup without a unit in the last item of a head takes one of the next item, as far ahead
    as the ring holds keys. Where keys stay in the ring or are masked, times show no such part.
    """
    if p.share < 1 or steps <= tile.stages:
        return 1.0
    units = cdiv(p.rows * work.pack, work.rows) / (work.in_head(p) * work.units)
    return 1 - (1 - units) * tile.stages / steps


def time(tile: TmaTile, work: WorkDivision, p: Problem, gpu: Target) -> float:
    """Modelled seconds: those of the SM with the most work, at least the memory traffic."""
    rate = 2 * gpu.tf32 / gpu.sms * tile.reach
    step = 4 * UNIT * tile.warpgroups * tile.keys * p.head / rate
    step += model.mask_time(p, UNIT * tile.warpgroups * tile.keys, work.masks > 0)
    longest_row = min(p.seen_keys, p.reach + UNIT * tile.warpgroups)
    steps = cdiv(cdiv(longest_row, tile.keys), work.parts)
    # Units of an item are divided among its warpgroups, and the rest goes on with the next item.
    whole = cdiv(work.units, tile.warpgroups)
    items = work.items(p) * work.parts
    rounds = cdiv(items, gpu.sms * tile.blocks)
    step *= min(tile.blocks, cdiv(items, gpu.sms))
    # It waits if the rings do not hold the keys of two items.
    follows = rounds > 1 and (work.units <= tile.warpgroups or 2 * steps <= tile.stages)
    units = work.units / tile.warpgroups if follows else whole
    start = ITEM_OVERHEAD * max(1.0, p.head / ITEM_HEAD)
    start += tile.start if cdiv(p.keys, tile.keys) > tile.stages else 0.0
    least, most = UNIT_HEADS
    unit = UNIT_OVERHEAD * min(max(p.head, least), most) / least
    unit += 0.0 if stored_soon(tile, work, p) else OWN_STORE
    longest = start + max(1, units) * (unit + steps * step)
    part = _busy_part(tile, work, p, steps) if follows else 1.0
    busy = longest + (rounds - 1) * part * longest
    if p.share < 1:
        # The last tile of a unit is seen in part, and its first row sees less than its last one.
        seen = p.share * p.keys / tile.keys / work.parts + 0.5
        seen = min(steps, seen + work.rows / work.pack / tile.keys / 2)
        mean = start + max(1, units) * (unit + seen * step)
        busy = max(min(busy, longest), items / (gpu.sms * tile.blocks) * mean)
    split = SPLIT_OVERHEAD if work.parts > 1 else 0.0
    joining = split + model.joining_time(p, UNIT, items, work.parts)
    return gpu.launch + FIXED + max(busy, model.traffic(p, gpu)) + joining


TILES: dict[int, tuple[TmaTile, ...]] = {
    32: (
        TmaTile(warpgroups=3, keys=128, stages=2, slots=2, reach=0.22, masked=True),
        TmaTile(warpgroups=3, keys=64, stages=2, slots=2, reach=0.18, masked=True),
    ),
    48: (
        TmaTile(warpgroups=3, keys=80, stages=2, slots=2, reach=0.36, resident=True),
        TmaTile(
            warpgroups=1, keys=80, stages=1, slots=2, reach=0.5, resident=True, bare=True, blocks=3
        ),
        TmaTile(warpgroups=3, keys=128, stages=2, slots=2, reach=0.33, masked=True),
    ),
    64: (
        TmaTile(warpgroups=3, keys=128, stages=4, slots=2, reach=0.447, start=0.2e-6, bare=True),
        TmaTile(warpgroups=3, keys=128, stages=2, slots=2, reach=0.5, start=1.2e-6, masked=True),
        TmaTile(warpgroups=3, keys=112, stages=4, slots=2, reach=0.42, bare=True),
        TmaTile(warpgroups=1, keys=64, stages=3, slots=2, reach=0.372, bare=True, blocks=3),
        TmaTile(
            warpgroups=1, keys=80, stages=2, slots=2, reach=0.39, start=0.4e-6, bare=True, blocks=3
        ),
    ),
    80: (
        TmaTile(
            warpgroups=1, keys=80, stages=1, slots=2, reach=0.5, resident=True, bare=True, blocks=3
        ),
        TmaTile(warpgroups=2, keys=128, stages=2, slots=2, reach=0.41, start=0.9e-6),
    ),
    96: (
        TmaTile(warpgroups=2, keys=128, stages=2, slots=2, reach=0.51),
        TmaTile(warpgroups=2, keys=80, stages=2, slots=1, reach=0.45, masked=True),
    ),
    128: (
        TmaTile(warpgroups=2, keys=128, stages=3, slots=1, reach=0.613, registers=True, bare=True),
        TmaTile(warpgroups=2, keys=128, stages=2, slots=1, reach=0.56, registers=True, masked=True),
        TmaTile(warpgroups=3, keys=80, stages=3, slots=1, reach=0.573, start=0.6e-6),
        TmaTile(warpgroups=2, keys=80, stages=3, slots=1, reach=0.52),
        TmaTile(warpgroups=2, keys=112, stages=2, slots=2, reach=0.58, resident=True),
        TmaTile(warpgroups=1, keys=64, stages=5, slots=2, reach=0.36),
    ),
    192: (
        TmaTile(warpgroups=2, keys=96, stages=2, slots=1, reach=0.64),
        TmaTile(warpgroups=2, keys=80, stages=2, slots=1, reach=0.55),
    ),
    256: (
        TmaTile(warpgroups=2, keys=80, stages=2, slots=1, reach=0.64),
        TmaTile(warpgroups=2, keys=64, stages=2, slots=1, reach=0.61, masked=True),
    ),
}
"""Tiles by head size."""
