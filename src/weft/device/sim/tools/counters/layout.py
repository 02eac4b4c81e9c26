"""The memory that counting code and Python share: byte offsets, in one place.

Addresses are counted as a GPU would see them: each allocation has an address of its own in a
virtual device memory, aligned as by `cudaMalloc`, and its lines are numbered from 0.
"""

from __future__ import annotations


class LaunchFields:
    """Fields shared by all workers of a launch.

    LINES  a 64-bit word for each line: sectors read before they were written (4 bits), sectors
           written (4), and the parts of the launch in which it went through L2 (56)
    SAMPLED  the table of blocks whose addresses are kept, where some are
    EVENTS   the memory of the events of one block's stages, where it has any
    """

    PLACES, PLACE_COUNT, LINES, BLOCKS, EPOCH_COUNT, SAMPLED, EVENTS = range(0, 56, 8)
    SIZE = 64


WRITTEN_AT, EPOCHS_AT, EPOCHS = 4, 8, 56
"""Bits of a line's word, and the number of parts of a launch that it distinguishes."""


class PlacedAllocation:
    """An allocation: its first byte, its size, and the distance to its virtual address."""

    LOW, NBYTES, DELTA = 0, 8, 16
    SIZE = 32


class PerWorker:
    """Counters of one host thread: a header, a row for each site, an L1.

    SETS    for each set of L1 a 32-bit word: the number of lines that have entered
    CACHED  for each line of the launch's memory a 64-bit word: see `CachedLineBits`
    """

    EPOCH, GENERATION, SETS, SET_MASK, CACHED = 0, 8, 16, 24, 32
    HEADER = 64


class CachedLineBits:
    """A line in L1: its sectors that are present (4 bits), sectors that the block has reported to
    L2 (4), the block's GENERATION (24), and its sequence number among the lines of its set (32).

    The line is present until four more lines have entered its set.
    """

    SECTORS = 15
    NOTED_AT, GENERATION_AT, STAMP_AT = 4, 8, 32
    WAYS = 4


class CounterRow:
    """The counters of one site, eight bytes each; a block of code uses the first two."""

    REQUESTS, THREADS, SECTORS, TAGS, WAVEFRONTS, IDEAL, MISSES, PARTS = range(0, 64, 8)
    OFF = THREADS
    """For a block of code: the inactive lanes, in its executions by less than 32."""
    VAIN = THREADS
    """For tests of an mbarrier: those that did not pass; the others are REQUESTS."""
    ARRIVED = MISSES
    """For a bulk copy: sectors that arrive at SMs."""
    PLACE = 64
    """For an access to global memory: the allocation of its last execution."""
    LAST = 88
    """And the virtual address of its last execution."""
    FULL = 96
    """For an access at constant distances: executions by all 32 lanes, by the first address % 4."""
    BYTES = FULL
    """For a bulk copy, whose lanes move any number of bytes: their sum."""
    SIZE = PLACES = 128
    """For neighbours in global memory: executions by the first byte's place in its line follow."""


class Repeated:
    """Record of the last execution of an access by runs of lanes, stored before its row.

    TIMES     executions, itself included, that are not in the row yet
    COUNTERS  the increments of the row's first eight counters by each of them, without misses
    KEYS      compared with the next execution's (see `runs`); -1 where runs share a line
    MASKS     sectors of each run, if they are neighbours
    """

    TIMES, COUNTERS, KEYS, MASKS = 0, 8, 72, 104
    SIZE = 128


class Last:
    """Record of the last execution of an access of any lanes.

    LANES     the active lanes; 0 if the rest is invalid
    DELTA     of the allocation that all of them were in
    COUNT     of the lines, which are numbered from 1, each with a mask of its sectors
    UNION     of these masks
    COUNTERS  the increments of the row's first eight counters, without misses
    """

    LANES, DELTA, COUNT, UNION, COUNTERS, SECTORS, LINES, MASKS = 0, 8, 16, 20, 32, 96, 352, 616
    SIZE = 768
    """`Repeated` describes the memory behind it and before the row."""


LINE, SECTOR = 7, 5
"""log2 of the bytes of a line and of a sector."""
SECTOR_BYTES, SECTORS_A_LINE = 32, 4

TAG_GROUPS = (0x6F7AB5, 0xBAD5DA)
"""A line's two parities over these bits select one of four tag lookups (measured)."""


WARPS = 4
"""The number of warps of a block that are watched."""
BLOCKS = 2
"""The number of blocks whose warps are watched."""

RECORD = 34
"""Words: lanes, where shared memory starts, 32 addresses."""


LANES = "lanes"
"""The kind of a sample that records which lanes entered a basic block; it has no addresses."""


class Samples:
    """The samples of one block: how many of its warps, how many records each; then the records.

    Each warp has, for each site, a count of executions and `DEPTH` records of the first of them.
    """

    WARPS, DEPTH, RECORDS = 0, 8, 16

    @staticmethod
    def words(depth: int) -> int:
        """Words of one warp at one site."""
        return 1 + depth * RECORD
