"""Constants of the prediction: latencies that were measured, and factors that were fitted.

Latencies are clocks of an H200: `benchmarks/records/memory_levels.jsonl`, and for L1, shared
memory and atomics the rules in docs/profile.md. Factors are fitted by `benchmarks/predict.py` to a
third of the launches in `benchmarks/records/predict.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

L1_CLOCKS, SHARED_CLOCKS, L2_CLOCKS, DRAM_CLOCKS, ATOMIC_CLOCKS = 35.0, 29.0, 287.0, 655.0, 293.0
"""Clocks from a load to the use of its result."""
UNIT_CLOCKS: Mapping[str, float] = {
    "fp16": 4.2, "fp32": 4.2, "fp64": 8.0, "special": 18.0, "integer": 4.2, "convert": 6.0,
    "move": 0.0, "sync": 23.0,
}  # fmt: skip
"""Clocks until a result can be used, by the unit of `work`; a shuffle takes as long as `sync`."""
SHARED_ATOMIC_CLOCKS = 41.0
"""Clocks of an atomic operation on shared memory."""
SPIN_CLOCKS = SHARED_CLOCKS + SHARED_ATOMIC_CLOCKS
"""Clocks of a lane that adds a float, or 64 bits, in shared memory: it loads, adds and compares."""
TENSOR_CLOCKS = 33.0
"""Clocks of an m16n8k16 product until its result can be used."""
BARRIER_CLOCKS = 30.0
"""Clocks that a warp waits at a barrier of its block, where all warps have equal work."""
OTHER_BLOCK_CLOCKS = 194.0
"""The same for shared memory of another block of the cluster (records/copy_clocks.jsonl)."""
CLUSTER_CLOCKS = 2 * OTHER_BLOCK_CLOCKS
"""Clocks at a barrier of a cluster: each block writes to the others, and they to it."""
BULK_CLOCKS, BULK_DRAM_CLOCKS = 355.0, 833.0
"""Clocks of a bulk copy from L2 and from DRAM (records/copy_clocks.jsonl)."""
MAP_CLOCKS = 500.0
"""Clocks until the copy engine has read a tensor map, which is in DRAM or L2."""
PRODUCT_RATE = 4096.0
"""Operations of a clock of an SM in products of 16-bit numbers."""


@dataclass(frozen=True)
class Factors:
    """Parts of the rates of the table that real launches reach.

    dram l2 lsu atomics   the memory system: DRAM, L2, the load/store unit, atomic operations
    copies                L2, of what the copy engine moves; above 1, because SMs share lines
    tags                  lines that L1 looks up
    issue, others         instruction slots: of arithmetic on floats and accesses, which PTX has as
                          the machine does, and of other instructions, which the assembler changes
    pipes                 arithmetic pipes
    integer               integer arithmetic; above 1, because two pipes can add
    warpgroup, mma        tensor cores: products of warpgroups, and of warps
    latency               factor of a warp's time without competition
    block                 clocks to start and end a block
    fetch                 clocks to fetch an instruction when it runs for the first time
    sharpness             exponent of the norm that joins units; infinite means the busiest decides
    hiding, meeting       exponent of the norm that joins them with latency; the same for a block
                          that meets at barriers, whose latency has the time of units
    launch, early         seconds of an empty launch in a graph, and of one that starts early
    """

    dram: float
    l2: float
    copies: float
    lsu: float
    tags: float
    atomics: float
    issue: float
    others: float
    pipes: float
    integer: float
    warpgroup: float
    mma: float
    latency: float
    block: float
    fetch: float
    sharpness: float
    hiding: float
    meeting: float
    launch: float
    early: float


FITTED = Factors(
    dram=0.9,
    l2=0.85,
    copies=2.0,
    lsu=0.9,
    tags=0.988,
    atomics=1.0,
    issue=0.776,
    others=0.618,
    pipes=0.95,
    integer=1.6,
    warpgroup=0.789,
    mma=0.618,
    latency=0.884,
    block=436.0,
    fetch=3.1,
    sharpness=4.44,
    hiding=1.67,
    meeting=2.0,
    launch=2e-06,
    early=5.5e-07,
)
"""Fitted to a third of the rungs by `benchmarks/predict.py --fit`. Set before: `dram` (a copy has
4.3 of 4.8 TB/s, `records/ladders.jsonl`), `l2` (7.0 of 8.4, `records/memory_levels.jsonl`), `lsu`,
`atomics`, `pipes`, `launch`. `copies` is fitted to a third of the calls in
`records/predict_layers.jsonl`, and ends at the 64 bytes a clock that an SM can get; `fetch` and
`early` are fitted to both thirds, and so is `meeting`."""
JUDGED = ("h200",)
"""GPUs whose predictions were compared with measured times."""
