"""Plan the gradient of the weight: products of chunks, summed in single precision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from weft.device.tensor_map_layout import TYPES
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Request, choose
from weft.ops.core.plan import Argument, Buffer, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.linear_loss import model
from weft.ops.families.linear_loss.tensors import AddressedTensor, LossTensors
from weft.ops.families.matmul.matmul import ADDMM, MATMUL, candidates_of
from weft.ops.families.matmul.pipelined import CAPABILITY, operand_maps
from weft.ops.families.matmul.pipelined_model import BARRIERS, MOST_STAGES, PipelinedTile
from weft.ops.families.matmul.product import Product, product_of

TILES = tuple(PipelinedTile(128, width, turns=True) for width in (96, 128, 160, 192))
_NAMES = {kind.name: kind for kind in TYPES}
KINDS = {torch.float16: _NAMES["f16"], torch.bfloat16: _NAMES["bf16"]}
"""Types of tensor maps."""
SLABS = 1024
"""Bytes by which the ring of stages is aligned."""
THREADS = 256
STAGES = ("BEGIN", "GO_ON", "END")


@dataclass(frozen=True)
class WeightGradient:
    """The gradient of a weight, and its sums beside it.

    rest     what the sums have beside the 16-bit result; None: it is its own sum
    rounded  products of chunks that no kernel adds at once; None: there are none
    """

    call: LossTensors
    result: Pointer
    rest: Pointer | None
    rounded: Pointer | None

    def add(self, logits: Pointer, x: AddressedTensor, number: int) -> None:
        """Add the launches for chunk `number`, whose gradient is at `logits`."""
        made, gpu = self.call.made, self.call.request.target
        request = _request(self.call, x.layout)
        inputs = (logits, x.pointer)
        if self.rest is None and number:  # the sum so far is added as a bias
            out = Layout(x.layout.dtype, self._shape, (self.call.hidden, 1), 16)
            request = replace(request, op="addmm", inputs=(out, *request.inputs))
            chosen = choose(request, candidates_of(product_of(request, ADDMM), request)).used
            made.run(chosen.build(), (self.result, *inputs), (self.result,))
            return
        product = product_of(request, MATMUL)
        stage = STAGES[(number > 0) + (number == len(self.call.chunks) - 1)]
        if self.rest is not None and self.rounded is None:
            plan = tile_plan(product, tile_of(product, gpu), gpu, stage)
            made.run(plan, (*inputs, self.rest), (self.result,))
            return
        to = self.result if self.rounded is None else self.rounded
        chosen = choose(request, candidates_of(product, request)).used
        made.run(chosen.build(), inputs, (to,))
        if self.rounded is not None:
            made.steps.append(self._adding(stage))

    @property
    def _shape(self) -> tuple[int, int]:
        return self.call.classes, self.call.hidden

    def _adding(self, stage: str) -> Step:
        """The launch that adds a product to the sums."""
        count = self.call.classes * self.call.hidden
        name = source.template("add", source.ctype(self.call.input.layout.dtype), stage)
        kernel = source.kernel("linear_loss/accumulate.cu", name)
        blocks = max(1, min(cdiv(count, 2 * THREADS), 16 * self.call.request.target.sms))
        args = (self.rounded, self.result, self.rest, count)
        return Step(kernel, (blocks,), (THREADS,), args, early=True)


def weight_gradient(call: LossTensors, result: Pointer) -> WeightGradient:
    """The gradient at `result`, with memory for its sums."""
    dtype = call.input.layout.dtype
    if dtype is torch.float32 or len(call.chunks) == 1:
        return WeightGradient(call, result, None, None)
    count = call.classes * call.hidden
    words = count if dtype is torch.float16 else cdiv(count, 2)
    rest = call.made.buffer(Buffer((words,), torch.int32))
    product = product_of(_request(call, call.part(0, call.chunk).layout), MATMUL)
    rounded = None
    if not takes(product, call.request.target):
        rounded = call.made.buffer(Buffer((cdiv(count, 2) * 2,), dtype))
    return WeightGradient(call, result, rest, rounded)


def cost(call: LossTensors) -> float:
    """Modelled seconds of a chunk."""
    gpu = call.request.target
    request = _request(call, call.part(0, call.chunk).layout)
    product = product_of(request, MATMUL)
    if takes(product, gpu) and len(call.chunks) > 1:
        return _time(product, tile_of(product, gpu), gpu)
    return choose(request, candidates_of(product, request)).used.cost


def _request(call: LossTensors, x: Layout) -> Request:
    """The product of a chunk: its gradient, transposed, and the input."""
    given = call.logits(x.shape[0])
    left = given._replace(shape=given.shape[::-1], strides=given.strides[::-1])
    return Request("matmul", (left, x), {"precision": "fp32"}, call.request.target)


# ---- products that are added to sums -----------------------------------------------------------
def takes(p: Product, gpu: Target) -> bool:
    """True if `add_product` takes the product: Hopper, and rows of whole vectors."""
    a, b = p.sides
    return (
        gpu.capability == CAPABILITY
        and p.out.dtype.itemsize == 2
        and min(a.bytes, b.bytes) == 16
        and not (a.k_major or b.k_major)
        and p.n % 8 == 0
    )


def tile_of(p: Product, gpu: Target) -> PipelinedTile:
    """The tile of the least modelled time."""
    return min(TILES, key=lambda tile: _time(p, tile, gpu))


def _time(p: Product, tile: PipelinedTile, gpu: Target) -> float:
    """Modelled seconds: those of the product, and most of those of the sums."""
    sums = 8 * p.m * p.n / gpu.bandwidth
    return tile.time(p, gpu, tile.stage(False, False), False) + model.SUMS * sums


def tile_plan(p: Product, tile: PipelinedTile, gpu: Target, stage: str) -> Plan:
    """The plan of `add_product`: its inputs are A, B and what the sums have beside the result."""
    a, b = p.sides
    room = gpu.shared_per_block - SLABS - BARRIERS
    stages = int(min(room // tile.stage(False, False), MOST_STAGES))
    words = (source.ctype(p.out.dtype), tile.bm, tile.bn, stages, stage)
    kernel = source.kernel("linear_loss/product.cu", source.template("add_product", *words))
    kind = KINDS[p.out.dtype]
    maps = (
        *operand_maps(kind, p.a, a, p.m, p, tile.bm),
        *operand_maps(kind, p.b, b, p.n, p, tile.bn),
    )
    tiles = (cdiv(p.m, tile.bm), cdiv(p.n, tile.bn))
    problem = p.problem(1, p.k, tiles, a.pitch, b.pitch)
    args: tuple[Argument, ...] = (*maps, Pointer(3), Pointer(2), problem)
    shared = SLABS + stages * tile.stage(False, False)
    blocks = min(tiles[0] * tiles[1], gpu.sms)
    step = Step(kernel, (blocks,), (tile.threads,), args, shared, early=True)
    return Plan((step,), (p.out,))
