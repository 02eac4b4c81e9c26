"""The memory that Python and the compiled code share: byte offsets, in one place.

context  one per launch            worker  one per thread of the host
slot     one per resident block    frame   one per warp, inside its slot
"""

from __future__ import annotations


class ContextFields:
    """Fields shared by all workers of a launch."""

    # `arena._CONTEXT` packs these in the order of their offsets.
    NEXT, TOTAL, GRID_X, GRID_Y, GRID_Z, STOP = 0, 8, 16, 24, 32, 40
    TABLE, TABLE_COUNT, PARAMS, SYMBOLS, CONSTS = 48, 56, 64, 72, 80
    DYNAMIC_SHARED, HOST, GRID_WORKSPACE, GRID_ID = 88, 96, 104, 112
    PARAM_BYTES, CONST_BYTES, OBSERVER, EPOCH, TEXTURES = 120, 128, 136, 144, 152
    CLUSTER_X, CLUSTER_Y, CLUSTER_Z, CLUSTER_EXPLICIT = 160, 164, 168, 172
    """Words of 32 bits: blocks of a cluster, and 1 if the launch or the kernel gives them."""
    SCHEDULE = 184
    """The address of `ScheduleFields`, in code that is compiled for schedules."""
    SIZE = 192


class ScheduleFields:
    """The schedule of a launch: 64-bit words that `schedules.py` sets. Chances are in units of
    2^-32."""

    STATE = 0
    """The state of the random numbers."""
    AT_ISSUE, AT_COMMIT, AT_TEST = 8, 16, 24
    """Chances that an asynchronous operation completes when it is issued, when its group is
    committed, and when a test of its mbarrier would fail."""
    READ_LATE = 32
    """The chance that `cp.async` reads its source when it lands."""
    DELAY, HOLD = 40, 48
    """Chances that a store of `analyse.delays` is delayed, and that its warp is suspended before it
    lands."""
    BLOCK_BASE, BLOCK_STEP, BLOCK_FIRST = 56, 64, 72
    """Block BASE + i of the launch is block BASE + (FIRST + i * STEP) modulo their number."""
    RANKS, REORDER = 80, 88
    """The order of a block's warps: a value of `WarpOrder`. The chance that a turn is given out of
    this order."""
    TURNS, SPAN = 96, 104
    """A block gets so many turns of its warps, and a number below SPAN more, before another block
    is tried."""
    SUSPEND, LATE = 112, 120
    """Chances that a warp is suspended before an instruction of `analyse.switches`, and that some
    warps are where a block starts or leaves a barrier."""
    DEEP, WAKE, RENEW, SALT = 128, 136, 144, 152
    """Chances that a warp which is suspended wakes last, that a block wakes one although others
    could run, and that all warps get new priorities when one wakes; the number from which their
    priorities follow."""
    PART, SWAP, AHEAD = 160, 168, 176
    """Chances that some lanes of a warp go on alone, that the side of a branch that comes later in
    the code runs first, and that lanes that have the turn go on as far as they can."""
    CREDIT, PARTINGS = 184, 192
    """Suspensions and partings that are left: see `switching.allowance`."""
    BUSY, QUIET = 200, 208
    """Blocks that run; rounds of blocks since a warp last got on."""
    BEST, WAKES = 216, 224
    """The highest priority of the warps that sleep, as far as blocks have told; the warps that wake
    next, whatever their priorities, where many blocks run."""
    STILL, STILL_AT, CERTAIN = 232, 240, 248
    """Rounds of blocks since memory last changed, `WorkerFields.CHANGES` then, and 1 while nothing
    is left to chance: see `switching.certainty`."""
    SIZE = 256


class WarpOrder:
    """Orders of a block's warps: the number of the first one, and whether they run in reverse."""

    FORWARD, BACKWARD = 0, 1 << 16
    DRAWN = -1
    """A new order for each block."""


class WorkerFields:
    """Fields of one host thread; the error fields are read when `run` returns `FAULT`."""

    SITES, SLOTS, SLOT_COUNT, ID = 0, 8, 16, 24
    ERROR, ERROR_SITE, ERROR_LANE, ERROR_ADDRESS, ERROR_SLOT, ERROR_WARP = 32, 40, 48, 56, 64, 72
    PROGRESS, CHANGES, BATCH_NEXT, BATCH_END, OBSERVER, CHANGED = 80, 88, 96, 104, 112, 120
    ERROR_SPACE, ERROR_BYTES, ERROR_WRITES, REPLACE = 128, 136, 144, 152
    CURRENT, IDLE, LAPS = 160, 168, 176
    """The current slot; the number of consecutive slots that had nothing to run; the rounds that
    the current group of a cluster has had. Code that takes over goes on with them, so that the
    order of blocks does not depend on the moment."""
    SIZE = 192


class Site:
    """A memory instruction: the window of its last allocation, and the address of its last load."""

    LOW, STARTS, LAST = 0, 8, 16
    SIZE = 32


class SlotFields:
    """A resident block."""

    STATE, BLOCK_X, BLOCK_Y, BLOCK_Z = 0, 4, 8, 12
    SHARED, SHARED_BYTES, LOCAL = 16, 24, 32
    LIVE_THREADS, LIVE_WARPS, RELEASES, ARRIVED_IDS, OBSERVER = 40, 44, 48, 52, 56
    RANK, GROUP, HELD = 108, 240, 120
    """A block of a cluster: its rank, the slot of rank 0, 1 if nothing in it can run."""
    MISSING, LIVE, EXITED, PHASE = 176, 180, 184, 188
    """In the slot of rank 0, at the unused end of a barrier's row, as GROUP: threads that have not
    arrived at the barrier of the cluster, threads of the cluster that live, the ranks that have
    exited as bits, and the phases of the barrier that have completed."""
    TOGETHER = 104
    """1 until the warps of a new block have run: see `emit/lockstep.py`."""
    READY, WAITING, SPUN, ASLEEP, DEEP_ASLEEP = 304, 308, 312, 316, 376
    """Under a schedule, at the unused ends of barriers' rows: warps as bits. Those that can run,
    wait at a barrier, have found nothing new in a loop that waits, have been suspended, and of
    these the ones that wake last."""
    RANKS, RELEASED, SPUN_AT = 112, 116, 368
    """Under a schedule: the order of the warps, RELEASES when warps were last made ready, and the
    changes of the launch when they spun last."""
    UNSEEN = 380
    """Under a schedule: warps that had found nothing new when the block's state was last compared,
    and have not looked again since."""
    EPOCH, STATE_HASH, AGE, LIMIT, REPEATED = 64, 72, 80, 88, 96
    """Fields of `emit/stall.py`, which compares the block's states."""
    BARRIERS = 128
    """16 barriers of BARRIER_BYTES: threads arrived, weight arrived, expected, generation,
    reduction in progress (count, and, or), then the results of the last two generations."""
    BARRIER_BYTES = 64
    ARRIVED, WEIGHT, EXPECTED, GENERATION, POPC, RESULT = 0, 4, 8, 12, 16, 32
    FRAMES = BARRIERS + 16 * BARRIER_BYTES


class FrameFields:
    """A warp; pending masks and saved registers follow the header."""

    # `emit/stall.py` hashes what is before SEEN and from ROTATE on as it is: SEEN only counts up.
    STATE, STATUS, MASK, LIVE, SEEN, SITE, ROTATE, LOWEST = 0, 4, 8, 12, 16, 20, 24, 28
    HEADER = 32


class WarpStatus:
    """Results of a warp's code; `SEPARATED` if it has run several warps of a block, `ASLEEP` if a
    schedule has suspended it, `DEEP_ASLEEP` if all others that sleep shall wake before it."""

    DONE, WAITING, YIELDED, FAULT, SEPARATED, ASLEEP, DEEP_ASLEEP = range(7)


class Run:
    """Results of `run`."""

    FINISHED, FAULT, STOPPED, DEADLOCK, REPLACED = 0, 1, 2, 3, 4
    """REPLACED: `WorkerFields.REPLACE` requested that other code of the same IR continue."""


class Fault:
    """Values of Worker.ERROR."""

    NONE, ILLEGAL, MISALIGNED, READ_ONLY, TRAP, ASSERT, BARRIER, HOST, TEXTURE, TENSOR, MBARRIER = (
        range(11)
    )
    WARPGROUP = 11
    """A wrong use of `wgmma`: see `warpgroup_faults`."""
    EXITED, ARRIVES, WAITS, RANKS = range(12, 16)
    """In a cluster: memory of a block that has exited, `barrier.cluster.arrive` twice, a wait
    without it, a mask that names blocks beyond the cluster."""


class Space:
    """State spaces: the windows that an access may touch."""

    GLOBAL, SHARED, LOCAL, PARAM, GENERIC, CONST, CLUSTER = range(7)
    """CLUSTER: shared memory of any block of the cluster."""


FREE, BUSY, EXITED = 0, 1, 2
"""Values of SlotFields.STATE; EXITED: other blocks of the cluster still run."""
CLUSTER_SHIFT = 24
"""Shared memory of the blocks of a cluster lies 1 << CLUSTER_SHIFT bytes apart."""
TILE_SHIFT = 18
"""Shared memory of a block that multiplies tiles begins at a multiple of 1 << TILE_SHIFT. The start
in a descriptor has so many bits, and programs take them from a generic address, whose low 24 bits
are those of the shared address on hardware."""
FRESH, FINISHED = 0, -1
NOTHING_PENDING = 0x7FFFFFFF
