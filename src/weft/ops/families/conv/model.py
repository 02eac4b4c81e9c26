"""Cost model of convolutions: the tiles that kernels come in, and constants of each kind of kernel.

Every constant was fitted on an NVIDIA H200: tensor cores and results of few channels to
benchmarks/records/conv_tuning.jsonl, float32 to conv_shapes.jsonl, others by hand unless a comment
names a record. `reach` is always a share of a peak rate: of FP32 units, of tensor cores (tf32 for
float32, twice that for 16 bits), or of the memory's bandwidth.
"""

from __future__ import annotations

from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.core.model import BLOCK_RESERVED
from weft.ops.core.target import Target
from weft.ops.families.conv.job import ConvJob
from weft.ops.families.matmul.half_model import WARPGROUP_TILES
from weft.ops.families.matmul.model import TileShape

# ---- split depth -------------------------------------------------------------------------------
SERIAL_SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Numbers of parts of a depth that the last block of a tile adds."""
PARALLEL_SPLITS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 16, 20, 22, 24, 32, 44, 48, 64, 66, 96, 128, 132, 192, 256),
)
"""Numbers of parts of the depth of a gradient of weights, each in memory of its own."""
JOIN_OVERHEAD = 2e-6
"""Seconds by which parts make the last block of a tile wait, beside their bytes."""
JOIN = 2e-11
"""Seconds per byte of a part of a tile that the last block adds."""


# ---- float32, implicit matrix product ----------------------------------------------------------
class ImplicitTile(NamedTuple):
    """A tile of the product, and its time.

    reach         share of the FP32 peak in the loop over the depth
    weight_reach  the same in the gradient of weights
    over          seconds before and after the loop
    """

    shape: TileShape
    reach: float
    weight_reach: float
    over: float

    def shared(self, pad_n: int) -> int:
        """Bytes of dynamic shared memory: rows of weights are padded, those of windows by pad_n."""
        t = self.shape
        return 4 * t.stages * t.bk * (t.bm + 4 + t.bn + pad_n)

    def time(self, job: ConvJob, blocks: int, depth: int, moved: int, reach: float) -> float:
        """Modelled seconds: those of the SM with the most blocks, at least the memory traffic."""
        gpu, t = job.gpu, self.shape
        most = cdiv(blocks, gpu.sms)
        # With less than two warps for each of its four schedulers, an SM waits.
        busy = min(1.0, min(most, t.resident) * t.threads / 256)
        rate = gpu.fp32 / gpu.sms * reach * busy
        work = most * 2 * t.bm * t.bn * depth / rate + cdiv(most, t.resident) * self.over
        return gpu.launch + max(work, moved / gpu.bandwidth) + job.cost


def _implicit(
    bm: int, bn: int, bk: int, wm: int, wn: int, tm: int, tn: int, stages: int, resident: int,
    reach: float, weight_reach: float, over: float,
) -> ImplicitTile:  # fmt: skip
    shape = TileShape(bm, bn, bk, wm, wn, tm, tn, stages, resident)
    return ImplicitTile(shape, reach, weight_reach, over)


IMPLICIT_TILES = (
    _implicit(bm=128, bn=256, bk=8, wm=64, wn=64, tm=8, tn=16, stages=2, resident=1,
              reach=0.55, weight_reach=0.56, over=4e-6),
    _implicit(bm=128, bn=128, bk=16, wm=64, wn=32, tm=8, tn=8, stages=2, resident=2,
              reach=0.57, weight_reach=0.46, over=4e-6),
    _implicit(bm=128, bn=64, bk=8, wm=64, wn=32, tm=8, tn=8, stages=4, resident=4,
              reach=0.48, weight_reach=0.40, over=4e-6),
    _implicit(bm=64, bn=256, bk=8, wm=32, wn=64, tm=8, tn=8, stages=3, resident=2,
              reach=0.48, weight_reach=0.45, over=4e-6),
    _implicit(bm=64, bn=128, bk=8, wm=32, wn=64, tm=8, tn=8, stages=4, resident=4,
              reach=0.49, weight_reach=0.38, over=4e-6),
    _implicit(bm=64, bn=64, bk=16, wm=32, wn=32, tm=8, tn=4, stages=3, resident=5,
              reach=0.48, weight_reach=0.45, over=2e-6),
    _implicit(bm=32, bn=128, bk=8, wm=32, wn=32, tm=8, tn=4, stages=3, resident=5,
              reach=0.38, weight_reach=0.30, over=2e-6),
    _implicit(bm=32, bn=64, bk=16, wm=16, wn=32, tm=4, tn=4, stages=4, resident=8,
              reach=0.37, weight_reach=0.25, over=1e-6),
    _implicit(bm=32, bn=32, bk=16, wm=16, wn=32, tm=4, tn=4, stages=4, resident=16,
              reach=0.33, weight_reach=0.16, over=2e-6),
)  # fmt: skip


# ---- tensor cores ------------------------------------------------------------------------------
class TensorTile(NamedTuple):
    """A tile of the product: the parts computed by a block and a warp.

    stage         bytes along the depth for a stage (windows), or pixels (gradients of weights)
    resident      blocks that an SM holds
    reach         share of the tensor cores' rate in the loop over the depth
    stream_reach  the same with stream-K; 0 if there is no such candidate
    """

    bm: int
    bn: int
    stage: int
    wm: int
    wn: int
    stages: int
    resident: int
    reach: float = 0.0
    stream_reach: float = 0.0

    def rated(self, reach: float, stream_reach: float = 0.0) -> TensorTile:
        """The tile with the rates of a kind of kernel."""
        return self._replace(reach=reach, stream_reach=stream_reach)

    @property
    def threads(self) -> int:
        return self.bm // self.wm * (self.bn // self.wn) * 32

    @property
    def words(self) -> tuple[int, ...]:
        """Template arguments of its kernels."""
        return self.bm, self.bn, self.stage, self.wm, self.wn, self.stages, self.resident

    def streamed(self, stream_k: bool) -> TensorTile:
        """The tile with the rate that it has in a launch."""
        return self._replace(reach=self.stream_reach) if stream_k else self

    def stream_blocks(self, gpu: Target, shared: int) -> int:
        """Blocks of stream-K that an SM holds, with so many bytes of shared memory each."""
        room = gpu.shared_per_sm // (shared + BLOCK_RESERVED)
        return min(self.resident, room) if self.stream_reach else 0

    def time(self, job: ConvJob, blocks: int, depth: int, full: int = 256) -> float:
        """Seconds of the SM with the most blocks.

        depth  in elements
        full   threads that keep an SM busy
        """
        gpu = job.gpu
        most = cdiv(blocks, gpu.sms)
        busy = min(1.0, min(most, self.resident) * self.threads / full)
        rate = gpu.tf32 * (2 if job.out.dtype.itemsize == 2 else 1) / gpu.sms * self.reach * busy
        over = cdiv(most, self.resident) * TENSOR_OVERHEAD
        return most * 2 * self.bm * self.bn * depth / rate + over


TENSOR_OVERHEAD = 4e-6
"""Seconds before and after the loop over the depth, once for the blocks that an SM holds."""
_128X256 = TensorTile(bm=128, bn=256, stage=128, wm=64, wn=64, stages=3, resident=1)
_128X128 = TensorTile(bm=128, bn=128, stage=64, wm=64, wn=64, stages=3, resident=2)
_128X64 = TensorTile(bm=128, bn=64, stage=128, wm=64, wn=32, stages=3, resident=3)
_64X128 = TensorTile(bm=64, bn=128, stage=128, wm=32, wn=64, stages=3, resident=3)
_64X64 = TensorTile(bm=64, bn=64, stage=128, wm=32, wn=32, stages=3, resident=4)
_32X32 = TensorTile(bm=32, bn=32, stage=64, wm=16, wn=16, stages=4, resident=8)
TENSOR_TILES = (
    _128X256.rated(0.46, stream_reach=0.41),
    TensorTile(
        bm=256, bn=128, stage=128, wm=64, wn=64, stages=3, resident=1, reach=0.44, stream_reach=0.36
    ),
    _128X128._replace(stage=128).rated(0.36),
    _128X64.rated(0.38, stream_reach=0.31),
    _64X128.rated(0.39, stream_reach=0.34),
    _64X64.rated(0.30, stream_reach=0.28),
    TensorTile(
        bm=128, bn=32, stage=64, wm=32, wn=32, stages=4, resident=4, reach=0.30, stream_reach=0.22
    ),
    _32X32.rated(0.08, stream_reach=0.07),
)
"""Pixels and channels of the forward pass and of the backward pass to the data."""
TENSOR_WEIGHT_TILES = (
    _128X256._replace(stage=64).rated(0.28, stream_reach=0.28),
    _128X128.rated(0.29, stream_reach=0.28),
    _64X128._replace(stage=64).rated(0.21),
    _64X64._replace(stage=64).rated(0.15),
    TensorTile(
        bm=32, bn=64, stage=32, wm=16, wn=32, stages=3, resident=6, reach=0.08, stream_reach=0.07
    ),
)
"""Filters, and taps and channels, of the backward pass to the weight."""
TAPS_TILES = (
    TensorTile(bm=256, bn=128, stage=64, wm=64, wn=64, stages=4, resident=1, reach=0.37),
    _128X128.rated(0.36),
    TensorTile(bm=256, bn=64, stage=64, wm=64, wn=32, stages=4, resident=1, reach=0.40),
    _64X64._replace(stage=64, stages=4, resident=3).rated(0.29),
    _32X32._replace(resident=6).rated(0.08),
)
"""Pixels and channels, of the forward pass and of the backward pass to the data."""
TAPS_WEIGHT_TILES = (
    TensorTile(bm=128, bn=64, stage=64, wm=64, wn=48, stages=4, resident=1, reach=0.33,
               stream_reach=0.41),
    TensorTile(bm=64, bn=64, stage=64, wm=64, wn=48, stages=4, resident=2, reach=0.31,
               stream_reach=0.28),
    TensorTile(bm=64, bn=32, stage=64, wm=32, wn=48, stages=4, resident=2, reach=0.23),
    TensorTile(bm=32, bn=32, stage=64, wm=16, wn=48, stages=4, resident=3, reach=0.16,
               stream_reach=0.14),
)  # fmt: skip
"""Filters and channels of the backward pass to the weight; a warp has `wn` taps and channels."""
POINTWISE_TILES = (
    _128X256.rated(0.38, stream_reach=0.37),
    _128X128._replace(stages=4).rated(0.38, stream_reach=0.33),
    _64X128.rated(0.21, stream_reach=0.23),
    _64X64.rated(0.22, stream_reach=0.22),
)
"""Channels and pixels of the forward pass and of the backward pass to the data."""
POINTWISE_WEIGHT_TILES = (_128X64.rated(0.36), _64X128.rated(0.35), _64X64.rated(0.32))
"""Filters and channels of the backward pass to the weight."""


class Pointwise(NamedTuple):
    """Constants of filters of one tap.

    transposed_rate  relative rate of smaller tiles whose weights are transposed as they are loaded
    l2_rate          rate at which the SMs read and write the L2, relative to the memory's
    store            seconds in which a block of stream-K stores a tile, while it copies the next
    """

    transposed_rate: float
    l2_rate: float
    store: float


POINTWISE = Pointwise(transposed_rate=0.65, l2_rate=0.93, store=1e-6)
WARPGROUP_WEIGHT_TILES = (
    WARPGROUP_TILES[0]._replace(reach=0.42),
    WARPGROUP_TILES[1]._replace(reach=0.52),
)
"""Channels of dy, and taps and channels of x. One warpgroup that finds the places of all taps is
slower than its products."""


# ---- other kernels -----------------------------------------------------------------------------
class Direct(NamedTuple):
    """One thread per result.

    reach  share of the FP32 peak: every product loads both factors
    term   seconds for each product of a thread, which waits for its loads
    """

    reach: float
    term: float


DIRECT = Direct(reach=0.015, term=1.2e-7)


class Depthwise(NamedTuple):
    """Filters of one channel.

    memory_reach  share of the memory's rate
    reach         share of the FP32 peak: products beside loads and address computations
    """

    memory_reach: float
    reach: float


DEPTHWISE = Depthwise(memory_reach=0.6, reach=0.25)


class DepthwiseLast(NamedTuple):
    """Filters of one channel, of images whose channels are innermost.

    Fitted to benchmarks/records/conv_candidates.jsonl, as those of tiles are.

    reach          share of the memory's rate
    read           cycles of a vector that a thread reads, beside its products
    wait           threads of an SM for each of its lanes that keep these busy
    resident       threads that an SM holds
    clock          cycles a second
    start          seconds before the first and after the last product
    weight_blocks  blocks of an SM in the backward pass to the weight
    """

    reach: float
    read: float
    wait: float
    resident: int
    clock: float
    start: float
    weight_blocks: int


DEPTHWISE_LAST = DepthwiseLast(
    reach=0.5, read=14.0, wait=10.0, resident=512, clock=1.7e9, start=2e-6, weight_blocks=4
)


class DepthwiseTiles(NamedTuple):
    """The same by tiles that tensor maps describe.

    reach          share of the memory's rate
    l2             bytes a second that arrive from the L2 cache
    busy           share of the cycles in which an SM starts an instruction
    clock          cycles a second
    wait           seconds from the start of a block until its tile is there
    start          seconds before the first and after the last block
    fewer          relative time of a backward pass to the weight with fewer channels in a tile
    weight_blocks  blocks of an SM in that pass
    """

    reach: float
    l2: float
    busy: float
    clock: float
    wait: float
    start: float
    fewer: float
    weight_blocks: int


DEPTHWISE_TILES = DepthwiseTiles(
    reach=0.85, l2=5e12, busy=0.7, clock=1.7e9, wait=0.5e-6, start=1.5e-6, fewer=1.07,
    weight_blocks=2,
)  # fmt: skip
SKINNY_REACH = {1: 0.08, 2: 0.13, 4: 0.18}
"""Share of the FP32 peak of results of few channels, by their number."""
SKINNY_PHASES = 0.4
"""Factor on that share for the phases of a strided pass, whose pixels are apart (the layer of 3
channels of "tails" in benchmarks/records/conv_candidates.jsonl)."""
STRIPS_REACH = 0.4
"""Share of the FP32 peak of strips of results of few channels."""
SKINNY_OVERHEAD = 2e-6
"""Seconds of kernels for few channels beside their launch and their work."""


class Gathered(NamedTuple):
    """Small tensors, in seconds.

    wait   in which the loads of a step arrive if an SM has few warps
    start  before and after the loop
    """

    wait: float
    start: float


GATHERED = Gathered(wait=0.45e-6, start=0.3e-6)
WINOGRAD_REACH = 0.8
"""Share of the memory's rate that transforms reach: their lanes read and write tiles."""


class Fourier(NamedTuple):
    """Fourier transforms.

    reach    share of the FP32 peak in the products of spectra
    l2_rate  rate of spectra that fit in the L2, relative to the memory's
    launches of a convolution
    """

    reach: float
    l2_rate: float
    launches: int


FOURIER = Fourier(reach=0.3, l2_rate=1.3, launches=6)
