"""Memory of the sanitizer beside a launch: records, clocks, findings; byte offsets.

A *record* describes the last access to four bytes: 64 bits, from the lowest

    site   14  the instruction, its top bit set when it is atomic, volatile or ordered
    lane    5
    many    1  more than one lane of the warp
    warp    5
    bytes   4  which of the four bytes
    clock  18  of that warp in a block's life (global memory), or 35 of a slot's (shared memory)
    block  17  (global memory only)

Zero is no access. Records compare as numbers: within a block, a smaller one is earlier.
"""

from __future__ import annotations


class Record:
    """The first bits of the fields of a record, and their masks."""

    LANE, MANY, WARP, BYTES, CLOCK, BLOCK = 14, 19, 20, 25, 29, 47
    SITES = (1 << 13) - 1
    STRONG = 1 << 13
    SITE = (1 << 14) - 1
    ALL_BYTES = 15 << BYTES
    LANES = (1 << WARP) - (1 << LANE)
    WARPS = 31 << WARP
    CLOCKS = (1 << BLOCK - CLOCK) - 1
    BLOCKS = (1 << 64 - BLOCK) - 1
    RANK, NUMBERS = 60, (1 << 31) - 1
    """Tiles of a cluster: the first bit of the rank, above a clock or number of fewer bits."""
    PENDING = (1 << 34) - 1
    """The clock of a copy to shared memory that was not waited for."""


class LaunchState:
    """Fields shared by all workers of a launch."""

    REGIONS, COUNT, TIME, PUBLISHED, OWN = 0, 8, 16, 24, 32
    """OWN: for each site an address in the only array that it may touch, or 0."""
    SIZE = 64
    ROW = 64
    LOW, BYTES, WRITERS, READERS, FILLED, READ = 0, 8, 16, 24, 32, 40
    """A region of global memory, and its records; FILLED: a byte for every four; READ: 1 from the
    first record of a reader on.
    """
    PUBLICATION = 16
    """For each block and warp: the clock up to which its writes are published, and since when."""


class WorkerState:
    """Counters and findings of one host thread."""

    ACCESSES, BARRIERS, SYNCS, ATOMICS, LOST = 0, 8, 16, 24, 32
    FINDINGS = 64
    ENTRIES, ENTRY = 256, 64
    KEY, TIMES, ADDRESS, MINE, OTHER, BLOCK = 0, 8, 16, 24, 32, 40
    CACHE = FINDINGS + ENTRIES * ENTRY
    """Behind the findings, for each site: its last region, and, if reads there need no check, its
    start and its bytes; and the last position of a row of lanes.
    """
    QUIET, LAST, SITE = 8, 24, 32


class Ring:
    """A stream of a warp: the number of its last operation, its groups so far, and entries."""

    LAST, GROUPS = 0, 8
    HEADER, ROOM, ENTRY = 16, 64, 32
    NUMBER, KEY, ISSUED, DONE = 0, 8, 16, 24
    SIZE = HEADER + ROOM * ENTRY


class Lock:
    """An mbarrier: its address, the tag of its phase, for each rank the warps with copies that
    report to it (bits), and four vectors (`order.mbarriers`).
    """

    KEY, TAG, ISSUERS = 0, 8, 16
    HEADER = 80
    PENDING, COMPLETE, PROXY_PENDING, PROXY_COMPLETE = range(4)
    VECTORS = 4


class BlockState:
    """The state of a resident block."""

    START, LATEST, BLOCK, BASE, READERS, LAUNCH, WORKER, FILLED = 0, 8, 16, 24, 32, 40, 48, 56
    """Clock at its start, latest clock, its number, its bits in a record, the readers' records of
    shared memory, the state of the launch and of the worker, and the written bytes of shared
    memory.
    """
    ARRIVED, FIRST = 64, 128
    """For each barrier: warps that wait there, and the low bits of the first arrival's record."""
    ARRIVAL = 1 << 30
    """Beside the bits of FIRST: a warp has arrived that does not wait."""
    NEWEST_READ = 192
    """The newest record of a reader of shared memory."""
    NEWEST, LOGGED, UNMARKED, ANY_MARKED = 200, 208, 216, 224
    WRITTEN, FRESH, READ = 232, 240, 248
    """Summaries of shared memory. NEWEST: the newest record of a write; LOGGED: entries in the log
    of batches; UNMARKED: nonzero if the log has reads without bits. WRITTEN, FRESH and READ point
    to a bit for every word: it is written; it is written, or read, since the last barrier of all
    warps; ANY_MARKED: nonzero if any word is marked since then.
    """
    SHARED, NBYTES = 256, 264
    """The address and the size of the block's shared memory."""
    CLUSTER, FIRST_ACTOR, ACTORS, PEERS = 272, 280, 288, 320
    """In a cluster: the state of its first block, the index of the own first warp in vectors, their
    length, and, in the first block, the states of all.
    """
    MAX_RANKS = 16
    WARPS = PEERS + 8 * MAX_RANKS
    WARP = 64
    SHARED_LIMIT, SHARED_TAG, LIMIT, TAG, ACQUIRED, APART, SKIPPED = 0, 8, 16, 24, 32, 40, 48
    """For each warp: records before the limit are ordered before it; the bits of its own record
    (its clock above them); whether its lanes are less ordered than its clock says; and the barriers
    that it skips (`skipped.py`).
    """
    GROUP, MEMBERS, MET = 16, 0, 8
    """For each barrier: the warps that met there last, with the low bits of the first one's record
    above them, and their clock since then; for barriers with a number of threads.
    """
    MBARRIERS = 16
    WAIT, ARRIVALS, PASSES = 0, 8, 8 + 8 * MBARRIERS
    WAITS = PASSES + 8 * MBARRIERS
    """For each warp that waits for mbarriers: the wait that has not passed (`parities.py`), and for
    some mbarriers the phase of its last arrival, and of its last wait that passed.
    """
    LANES = 8 * 32 * 32
    """For each warp, lane and other lane: the clock up to which the other's are ordered."""

    ENTRIES, BASES, REACH, BATCHES = 64, 4, 1 << 14, (1 << 16) - 1
    PLACES, ENTRY = 16, 16 + 8 * BASES
    """The log: lanes of a warp and a batch, the warp's records then, and the positions of its
    bases, each with less than REACH bytes.
    """

    LOCKS = 64
    """Entries of the table of mbarriers; a power of two."""
    STREAMS = 4
    RINGS = STREAMS * Ring.SIZE
    """Streams of asynchronous operations, and the bytes of their rings for each warp."""

    def __init__(
        self, warps: int, local_bytes: int, masks: bool, undefined: int, tiles: bool = False,
        *, locks: bool = False, ranks: int = 1,
    ) -> None:  # fmt: skip
        """Vectors with a clock for each warp, in a cluster of `ranks` blocks for each of theirs;
        tables have one such vector for each warp.

        clocks     of each warp about each
        fences     the same at its last fence, and `far` at its last fence beyond the block
        shared     one vector: the clocks released inside the block by atomics and mbarriers
        early      a vector for each barrier: the clocks of warps that arrived and did not wait
        groups     the last group of each barrier
        waits      the mbarriers of each warp
        lanes      for each warp the order of its lanes, where member masks may be partial
        undefined  the undefined values of each warp, in `undefined` bytes
        proxy      of each warp about each: the clock up to which the asynchronous proxy sees its
                   writes; then vectors as `shared` and `early`
        rings      asynchronous operations; these two only with `tiles`
        locks      mbarriers, only with `locks`
        log        batches of accesses to shared memory whose records are not made yet
        """
        self.ranks, self.vector = ranks, 8 * warps * ranks
        table = self.vector * warps
        self.clocks = self.WARPS + warps * self.WARP
        self.fences, self.far = self.clocks + table, self.clocks + 2 * table
        self.shared = self.clocks + 3 * table
        self.early = self.shared + self.vector
        self.groups = self.early + 16 * self.vector
        self.waits = self.groups + 16 * self.GROUP
        self.lanes = -(-(self.waits + warps * self.WAITS) // 64) * 64
        self.undefined = self.lanes + (warps * self.LANES if masks else 0)
        self.local = self.undefined + warps * undefined
        self.proxy = self.local + 4 * 32 * warps * (local_bytes // 4)
        self.proxy_shared = self.proxy + table
        self.proxy_early = self.proxy_shared + self.vector
        self.rings = self.proxy_early + 16 * self.vector
        self.tiles, self.has_locks = tiles, locks
        self.locks = self.rings + warps * self.RINGS if tiles else self.proxy
        self.lock = Lock.HEADER + Lock.VECTORS * self.vector
        end = self.locks + self.LOCKS * self.lock if locks else self.locks
        self.log = -(-end // 64) * 64
        self.writers = self.log + self.ENTRIES * self.ENTRY

    def size(self, shared_bytes: int) -> int:
        """The size of the rest: two records, a byte and three bits for each word of memory."""
        words = shared_bytes // 4 + 1
        # With tiles, three words for each 16 bytes follow: `TileRecords` computes where.
        more = 2 * words + 24 * (shared_bytes // 16 + 2) + 128 if self.tiles else 0
        return self.writers + 17 * words + 3 * (words // 8) + 128 + more


class TileShape:
    """The layout of 16 bytes that a tensor copy has written: a word, from the lowest bit

        site      14  the instruction
        unit       7  of the line
        line      14  of the box
        swizzle    2  of the map, by its number
        width      7  units of a line, less 1
        copy      20  rank, warp and number of the copy

    A finding has, above an offset in shared memory, the swizzle and the width of the copy at LAID,
    that of the reader at MODE, and whether nothing has written there.
    """

    UNIT, LINE, SWIZZLE, WIDTH, COPY = 14, 21, 35, 37, 44
    UNITS = 127 << UNIT
    LAID, MODE, UNWRITTEN = 32, 48, 60
    BY_HAND = 7
    """The mode of a reader that computes addresses itself."""


class Apart:
    """The distance of two threads: in one warp, in two warps of a block, in two blocks."""

    LANES, WARPS, BLOCKS = 0, 1, 2


class FindingKind:
    """The kinds of findings."""

    READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE, UNINITIALISED = 1, 2, 3, 4
    BARRIER_SPLIT, BARRIER_COUNT, BARRIER_PLACES = 5, 6, 7
    MISSING_LANES, NOT_IN_MASK, OVERFLOW, SPIN, UNDEFINED_LANE = 8, 9, 10, 11, 12
    OTHER_ARRAY, BARRIER_SKIPPED, BARRIER_SHARED, STALE = 13, 14, 15, 16
    PARITY_PASSES, PARITY_BLOCKS = 17, 18
    PROXY, TILE_OVERWRITTEN, TILE_READ_EARLY, TILE_WRITTEN_TWICE = 22, 23, 24, 25
    TILE_SWIZZLED, TILE_LEFT = 26, 27
    SUM_USED, LEFT_CHANGED, UNFENCED_REGISTER = 19, 20, 21
    """Found in the code, not in a run: see `asynchronous.registers`."""
