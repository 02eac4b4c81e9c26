"""Texts of the kinds of findings: the error, the threads, the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.device.sim.tools.sanitizer.asynchronous.operations import Stream
from weft.device.sim.tools.sanitizer.layout import Apart, FindingKind, Record, TileShape
from weft.device.sim.tools.sanitizer.observer import Raw

_OF_LANES = (
    FindingKind.MISSING_LANES,
    FindingKind.NOT_IN_MASK,
    FindingKind.BARRIER_SPLIT,
    FindingKind.UNDEFINED_LANE,
)
"""Findings whose address is a set of lanes."""
PARITIES = {
    FindingKind.PARITY_PASSES: "waits for parity {}; the warp has arrived in the current phase, "
    "of parity {}, which is not complete",
    FindingKind.PARITY_BLOCKS: "waits for parity {}: the current phase, in which nothing has "
    "arrived; the last one that is complete has parity {}",
}
"""The place of a finding, by the parity of a wait and another one."""


@dataclass(frozen=True, slots=True)
class FindingText:
    """The text of a kind of finding: its name, the error, the two verbs, and the remedy."""

    name: str
    what: str
    verbs: tuple[str, str]
    next: str


_RACE = "data race"
TEXTS: Mapping[int, FindingText] = {
    FindingKind.READ_AFTER_WRITE: FindingText(
        _RACE, "a thread reads what another writes, in no order", ("read", "write"), ""
    ),
    FindingKind.WRITE_AFTER_READ: FindingText(
        _RACE, "a thread writes what another reads, in no order", ("write", "read"), ""
    ),
    FindingKind.WRITE_AFTER_WRITE: FindingText(
        _RACE, "two threads write the same place, in no order", ("write", "write"), ""
    ),
    FindingKind.UNINITIALISED: FindingText(
        "uninitialised",
        "a read of memory that was never written",
        ("read", "used"),
        "write it first, or check which threads do",
    ),
    FindingKind.STALE: FindingText(
        "stale read",
        "a read through the read-only cache of what the same kernel has written",
        ("read", "write"),
        "read it without __ldg, or take const or __restrict__ from the pointer",
    ),
    FindingKind.PARITY_PASSES: FindingText(
        "wrong parity",
        "a wait for an mbarrier passes at once: it is for the wrong phase",
        ("wait", ""),
        "",
    ),
    FindingKind.PARITY_BLOCKS: FindingText(
        "wrong parity",
        "a wait for an mbarrier never ends: it is for the wrong phase",
        ("wait", ""),
        "",
    ),
    FindingKind.BARRIER_SPLIT: FindingText(
        "barrier divergence",
        "a barrier that only some threads of a warp reach",
        ("barrier", ""),
        "move the barrier out of the branch, so that all threads reach it",
    ),
    FindingKind.BARRIER_COUNT: FindingText(
        "barrier misuse",
        "threads meet at one barrier but expect different numbers of threads",
        ("barrier", "barrier"),
        "give every bar.sync of a barrier the same count",
    ),
    FindingKind.BARRIER_PLACES: FindingText(
        "barrier divergence",
        "threads of a block wait at different barriers in the code",
        ("barrier", "barrier"),
        "let all threads of the block pass the same __syncthreads()",
    ),
    FindingKind.BARRIER_SHARED: FindingText(
        "barrier misuse",
        "two groups of warps use one named barrier at the same time",
        ("barrier", "barrier"),
        "give each group a barrier of its own: another number",
    ),
    FindingKind.BARRIER_SKIPPED: FindingText(
        "barrier divergence",
        "a barrier that some warps of the block branch around",
        ("barrier", ""),
        "move the barrier out of the branch, so that all threads reach it",
    ),
    FindingKind.MISSING_LANES: FindingText(
        "missing lanes",
        "lanes are named that do not take part",
        ("call", ""),
        "compute the mask before the branch, or move the call to where all its lanes are",
    ),
    FindingKind.NOT_IN_MASK: FindingText(
        "missing lanes",
        "a lane calls with a mask that leaves it out",
        ("call", ""),
        "the mask must have the bit of every lane that calls",
    ),
    FindingKind.UNDEFINED_LANE: FindingText(
        "missing lanes",
        "a shuffle from a lane that does not take part",
        ("call", "used"),
        "name the source lane in the mask and let it take part, or do not use the value",
    ),
    FindingKind.OTHER_ARRAY: FindingText(
        "out of bounds",
        "an access leaves its own array for another one",
        ("access", ""),
        "compare the index with the array's length",
    ),
    FindingKind.OVERFLOW: FindingText(
        "index overflow",
        "an index does not fit 32 bits and wraps",
        ("computed", ""),
        "compute it in 64 bits: make one factor a size_t",
    ),
    FindingKind.PROXY: FindingText(
        "missing fence",
        "an asynchronous operation reads what a thread wrote, without a fence of the proxy",
        ("read", "write"),
        "fence.proxy.async by the writing threads, before the barrier",
    ),
    FindingKind.TILE_OVERWRITTEN: FindingText(
        "missing wait",
        "shared memory is overwritten while it may still be read",
        ("write", "read"),
        "",
    ),
    FindingKind.TILE_READ_EARLY: FindingText(
        "missing wait",
        "shared memory is used before the copy to it was waited for",
        ("read", "copy"),
        "",
    ),
    FindingKind.TILE_WRITTEN_TWICE: FindingText(
        "missing wait",
        "shared memory is written before the copy to it was waited for",
        ("write", "copy"),
        "",
    ),
    FindingKind.TILE_SWIZZLED: FindingText(
        "wrong tile",
        "a tile is read in another layout than a tensor copy wrote it",
        ("read", "copy"),
        "give the tensor map and the reader the same swizzle, and lines of the same width; the "
        "tile begins at a multiple of 1024 bytes",
    ),
    FindingKind.TILE_LEFT: FindingText(
        "wrong tile",
        "a descriptor leads out of the tile that a tensor copy wrote",
        ("read", "copy"),
        "compare the start, the leading and the stride offset with the layout of the tile: with a "
        "swizzle of 128 bytes, groups of 8 rows are 1024 bytes apart",
    ),
    FindingKind.SUM_USED: FindingText(
        "missing wait",
        "an accumulator is used before the wgmma that computes it was waited for",
        ("use", "wgmma"),
        "wgmma.commit_group and wgmma.wait_group before the use",
    ),
    FindingKind.LEFT_CHANGED: FindingText(
        "missing wait",
        "a register of A changes before the wgmma that reads it was waited for",
        ("write", "wgmma"),
        "wgmma.commit_group and wgmma.wait_group before the write, or another register",
    ),
    FindingKind.UNFENCED_REGISTER: FindingText(
        "missing fence",
        "a wgmma without wgmma.fence after the last write to its registers",
        ("wgmma", "write"),
        "wgmma.fence before the first wgmma and after each write to its registers; "
        'asm volatile("" : "+f"(c)) before the fence keeps a compiler from moving the write',
    ),
    FindingKind.SPIN: FindingText(
        "spin",
        "a loop waits for a value that it never reads again",
        ("loop", ""),
        "make the flag volatile, or read it by an atomic",
    ),
}
COPY = "cp.async.wait_group (and __syncthreads() for other threads) before it is used"
_MODES = {0: "no swizzle", 1: "swizzle 128", 2: "swizzle 64", 3: "swizzle 32"}
"""Swizzles by the number in a descriptor."""
OF_SHAPES = (FindingKind.TILE_SWIZZLED, FindingKind.TILE_LEFT)
"""Findings about the layout of a tile."""
OF_TILES = (
    FindingKind.PROXY,
    FindingKind.TILE_OVERWRITTEN,
    FindingKind.TILE_READ_EARLY,
    FindingKind.TILE_WRITTEN_TWICE,
)
"""Findings about an asynchronous operation and another access."""
WAITS = {
    Stream.PRODUCTS: "wgmma.wait_group for its group, then a barrier or an arrival, before the "
    "write",
    Stream.STORES: "cp.async.bulk.wait_group.read by the thread that issued it, then a barrier, "
    "before the write",
    Stream.LOADS: "a wait for the copy's mbarrier in between",
    Stream.COPIES: COPY,
    0: "a barrier, or an mbarrier at which all readers arrive, between the read and the write",
}
"""Advice by the stream of the other access; 0 for one of a thread."""
OF_CODE = (FindingKind.SUM_USED, FindingKind.LEFT_CHANGED, FindingKind.UNFENCED_REGISTER)
"""Findings about instructions, whichever thread executes them."""
ORDER = {
    Apart.LANES: "__syncwarp() between the two",
    Apart.WARPS: "__syncthreads() between the two",
    Apart.BLOCKS: "__syncthreads() does not order blocks: use atomics, two launches, or a grid-wide"
    " sync (cooperative launch)",
}
ITSELF = "threads execute this line at the same time: use an atomic, or one place for each thread"


CLUSTER = "a barrier of the cluster between the two: cluster.sync(), or mbarriers"
"""Advice for blocks of one cluster that race in shared memory."""


def place_of(r: Raw) -> str:
    """The lanes, warps or phases of a finding about synchronisation; "" for any other."""
    low, high = r.address & 0xFFFFFFFF, r.address >> 32
    if r.kind in _OF_LANES:
        return f"lanes {_numbers(r.address)}"
    if r.kind == FindingKind.BARRIER_SKIPPED:
        return f"reached by {_warps(low)}; not by {_warps(high)}, which went on and exited"
    if r.kind == FindingKind.BARRIER_SHARED:
        warp = r.mine >> Record.WARP & 31
        return f"barrier {high}: warp {warp} arrives, in no order with {_warps(low)}"
    if r.kind in OF_SHAPES:
        return _layouts(r)
    if r.kind in PARITIES:
        return PARITIES[r.kind].format(r.address & 1, r.address >> 1)
    return ""


def _layouts(r: Raw) -> str:
    """The layouts in which a tile was written and is read (`TileShape`)."""
    laid, mode = r.address >> TileShape.LAID, r.address >> TileShape.MODE & 7
    swizzle, width = laid & 3, ((laid >> TileShape.WIDTH - TileShape.SWIZZLE) & 127) + 1
    lines = f"lines of {16 * width} bytes"
    wrote = f"{lines}, swizzle {16 << swizzle}" if swizzle else f"{lines}, no swizzle"
    reads = f"the descriptor has {_MODES[mode]}" if mode in _MODES else "ldmatrix reads other units"
    at = f"byte {r.address & 0xFFFFFFFF} of shared memory"
    if r.kind == FindingKind.TILE_SWIZZLED:
        return f"{at}: the copy wrote {wrote}; {reads}"
    where = "nothing has written" if r.address >> TileShape.UNWRITTEN & 1 else "is another copy's"
    at = f"{at}, which {where}" if "nothing" in where else f"memory that {where}"
    return f"{at}; the copy wrote {wrote}; {reads}"


def other_parity(r: Raw) -> str:
    """Advice for a wait with the wrong parity."""
    return f"wait for parity {1 - (r.address & 1)}; change the parity after each wait"


def _numbers(bits: int) -> str:
    """The set bits in the usual notation: 0-3, 16."""
    runs: list[list[int]] = []
    for i in (i for i in range(32) if bits >> i & 1):
        if runs and i == runs[-1][1] + 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _warps(bits: int) -> str:
    """Warps in the usual notation."""
    return f"warp{'s' if bits & (bits - 1) else ''} {_numbers(bits)}"
