"""Histograms: counts or weight sums in bins of equal width, or counts of small integers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import memory_order
from weft.ops.core.plan import COUNTERS, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import CopyPlan, contiguous
from weft.ops.families.histogram import model
from weft.ops.families.histogram.model import BLOCK, COPIES, IN_FLIGHT, RANGE_BLOCK

OUTPUT = 2
"""The index of the output among a plan's tensors, after x and the weights."""
HALF = (torch.float16, torch.bfloat16)
DTYPES = [d for d in source.CTYPES if d is not torch.bool]
WEIGHTS = [d for d in DTYPES if d.is_floating_point]


@dataclass(frozen=True)
class Types:
    """The dtypes of a call; `values` is True if an element's value is its bin."""

    x: torch.dtype
    weights: torch.dtype | None
    out: torch.dtype
    values: bool

    @property
    def range(self) -> torch.dtype:
        """The dtype of the arithmetic that finds a bin."""
        if self.values:
            return torch.int64 if self.x is torch.int64 else torch.int32
        wide = self.x is torch.float64 or not self.x.is_floating_point
        return torch.float64 if wide else torch.float32

    @property
    def totals(self) -> torch.dtype | None:
        """Counts that are floating-point numbers are converted from integers of this dtype."""
        counted = self.weights is None and self.out.is_floating_point
        return torch.int64 if counted else None

    def names(self, shared: bool) -> tuple[str, ...]:
        """The C++ types T, C, W, S, A and O of histogram.cu; `shared`: sums are counters."""
        weights = self.weights or torch.float32
        out = source.ctype(self.out)
        if self.weights is not None:
            sums = (out, out)
        elif shared:
            sums = ("int", "int")
        else:  # atomicAdd has no signed 64-bit version
            sums = ("int", "int" if self.out is torch.int32 else "unsigned long long")
        last = out if self.totals or shared else sums[1]
        return (*map(source.ctype, (self.x, self.range, weights)), *sums, last)


def _out(x: torch.dtype, weights: torch.dtype | None) -> torch.dtype:
    """The dtype of the result: that of the weights, else of x; at least 32 bits."""
    dtype = x if weights is None else weights
    if dtype in HALF:
        return torch.float32
    return dtype if dtype.is_floating_point or dtype is torch.int64 else torch.int32


# ---- candidates --------------------------------------------------------------------------------
def _candidates(request: Request) -> list[Candidate]:
    x, weights = request.first, request.inputs[1]
    bins = request.options["bins"]
    dtype = None if weights is None else weights.dtype
    values = request.options["min"] is None and not x.dtype.is_floating_point
    types = Types(x.dtype, dtype, _out(x.dtype, dtype), values)
    if x.numel == 0:
        out = Buffer((bins,), types.out, zeroed=True)
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    gpu, candidates = request.target, []
    cost = _cost_before(request, types) + (0 if _in_counters(request, types) else model.CLEAR_TIME)
    why = f"{bins} bins, {x.numel} elements"
    for copies in COPIES:
        size = bins * copies * (8 if types.out is torch.float64 and dtype else 4)
        if size > gpu.shared_per_block or (copies > 1 and size > gpu.shared_per_sm // 2):
            continue
        blocks = _blocks(x, gpu, size)
        build = functools.partial(_plan, request, types, copies, blocks, size)
        time = cost + model.shared_time(gpu, x, bins, copies, blocks)
        candidates.append(Candidate(f"shared memory, {copies} copies", time, why, build))
    time = cost + model.global_time(gpu, x.numel)
    build = functools.partial(_plan, request, types, 0, _blocks(x, gpu, 0), 0)
    return [*candidates, Candidate("global memory", time, why, build)]


def _blocks(x: Layout, gpu: Target, shared: int) -> int:
    """Blocks that fill the GPU, unless x has fewer vectors."""
    # CUDA reserves 1 KiB of shared memory per block.
    resident = min(model.BLOCKS_PER_SM, gpu.shared_per_sm // (shared + 1024))
    return min(gpu.sms * max(1, resident), cdiv(x.numel * x.itemsize, 16 * BLOCK * IN_FLIGHT))


def _in_counters(request: Request, types: Types) -> bool:
    """True if counts fit the zeros that launches share: they need no buffer to clear."""
    fits = request.options["bins"] < COUNTERS and request.first.numel < 2**31
    return fits and types.weights is None


def _finds_range(request: Request, types: Types) -> bool:
    return not types.values and bool(request.options["min"] == request.options["max"])


def _cost_before(request: Request, types: Types) -> float:
    """Seconds of the launches that copy and that find the range."""
    x, gpu = request.first, request.target
    time: float = sum(copy.cost for copy in _flat(request)[1])
    if _finds_range(request, types):
        time += gpu.launch + x.numel * x.itemsize / gpu.bandwidth
    return time


# ---- plans -------------------------------------------------------------------------------------
def _flat(request: Request) -> tuple[list[Pointer], list[CopyPlan], list[Buffer]]:
    """x and weights as flat arrays in the same order; copied if their layouts differ."""
    tensors = [t for t in request.inputs if t is not None]
    same = len({(t.shape, t.strides) for t in tensors}) == 1
    if same and memory_order(tensors[0]) is not None:
        return [Pointer(i) for i in range(len(tensors))], [], []
    pointers: list[Pointer] = []
    copies: list[CopyPlan] = []
    scratch: list[Buffer] = []
    for i, t in enumerate(tensors):
        if t.contiguous:
            pointers.append(Pointer(i))
            continue
        pointers.append(Pointer(OUTPUT + 1 + len(scratch)))
        copies.append(contiguous(t, Pointer(i), pointers[-1], request.target))
        scratch.append(Buffer(t.shape, t.dtype))
    return pointers, copies, scratch


def _plan(request: Request, types: Types, copies: int, blocks: int, shared: int) -> Plan:
    x, options = request.first, request.options
    (first, *rest), moved, scratch = _flat(request)
    steps = [step for copy in moved for step in copy.steps]
    totals, span = Pointer(OUTPUT), None
    vector = 16 // x.itemsize
    shared_sums = _in_counters(request, types)
    converted = shared_sums or types.totals is not None
    if types.totals is not None and not shared_sums:
        totals = Pointer(OUTPUT + 1 + len(scratch))
        scratch.append(Buffer((options["bins"],), types.totals, zeroed=True))
    if _finds_range(request, types):
        span = Pointer(OUTPUT + 1 + len(scratch))
        many = min(4 * request.target.sms, cdiv(x.numel, RANGE_BLOCK * vector * IN_FLIGHT))
        scratch.append(Buffer((2 + 2 * many,), types.range))
        steps.append(_range(types, vector, first, span, many, x.numel))
    number = int if types.values else float
    low, high = (number(options[name] or 0) for name in ("min", "max"))
    flags = (vector, copies, types.values, types.weights is not None, shared_sums)
    words = ", ".join((*types.names(shared_sums), *(str(f).lower() for f in flags)))
    kernel = source.kernel("histogram/histogram.cu", f"count<{words}>", IN_FLIGHT=str(IN_FLIGHT))
    y, counter = (Pointer(OUTPUT), Counters()) if converted else (None, None)
    args = (first, rest[0] if rest else None, None if shared_sums else totals, y, span, counter,
            x.numel, low, high, options["bins"])  # fmt: skip
    steps.append(Step(kernel, (blocks,), (BLOCK,), args, shared))
    out = Buffer((options["bins"],), types.out, zeroed=not converted)
    return Plan(tuple(steps), (out,), tuple(scratch))


def _range(types: Types, vector: int, x: Pointer, span: Pointer, blocks: int, n: int) -> Step:
    """Compute the range of x: two numbers at `span`, then two per block."""
    names = f"{source.ctype(types.x)}, {source.ctype(types.range)}, {vector}"
    kernel = source.kernel("histogram/histogram.cu", f"extent<{names}>", IN_FLIGHT=str(IN_FLIGHT))
    parts = span._replace(offset=2 * types.range.itemsize)
    return Step(kernel, (blocks,), (RANGE_BLOCK,), (x, parts, span, Counters(), n))


# ---- definitions -------------------------------------------------------------------------------
def _check(x: Any, bins: int, min: float | None, max: float | None, weights: Any) -> None:
    check_dtype("histogram", "x", x, DTYPES)
    if not 0 < bins < 2**31:
        raise ArgumentError(
            f"weft.ops.histogram: bins must be at least 1, got {bins}"
            if bins < 1
            else f"weft.ops.histogram: bins must be below 2**31, got {bins}"
        )
    if (min is None) != (max is None):
        raise ArgumentError(
            f"weft.ops.histogram: min is {min} and max is {max}",
            allowed="both, or neither: then the range is that of the elements",
        )
    if min is not None and max is not None and not -math.inf < min <= max < math.inf:
        raise ArgumentError(
            f"weft.ops.histogram: min is {min} and max is {max}",
            allowed="finite numbers, min at most max",
        )
    if weights is None:
        return
    check_dtype("histogram", "weights", weights, WEIGHTS)
    if weights.shape != x.shape:
        raise ArgumentError(
            f"weft.ops.histogram: weights has shape {list(weights.shape)},"
            f" expected {list(x.shape)}",
            next="expand the weights: weights.expand_as(x)",
        )


def _fake(
    x: Any, bins: int = 256, min: Any = None, max: Any = None, weights: Any = None
) -> torch.Tensor:
    dtype = None if weights is None else weights.dtype
    made: torch.Tensor = x.new_empty((bins,), dtype=_out(x.dtype, dtype))
    return made


GROUP = "reductions"
DEFINITIONS = (
    Definition(
        name="histogram",
        schema="(Tensor x, int bins=256, float? min=None, float? max=None, Tensor? weights=None)"
        " -> Tensor",
        doc="""The number of elements of x in each of `bins` bins of equal width from min to max.

Floating-point numbers are counted as torch.histc does. Without a range, or with min equal to max,
it is the range of the finite elements. Elements outside the range, infinities and NaN are left out.
Integers without a range are their own bins: the result counts the values 0 to bins - 1.

The result has the dtype of x, but at least 32 bits; narrower integers give int32. With weights it
has the dtype of the weights, and each bin is the sum of the weights of its elements. Counts are
deterministic. Sums of weights are not: they are added in an order that depends on timing, so that
their last bits may differ from call to call.""",
        fake=_fake,
        candidates=_candidates,
        check=_check,
        autocast=None,
    ),
)
