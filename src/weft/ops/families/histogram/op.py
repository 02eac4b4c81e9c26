"""Histograms: counts or weight sums in bins of equal width, or counts of small integers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.layouts import memory_order
from weft.ops.core.plan import COUNTERS, Buffer, Counters, Layout, Plan, Pointer, Step
from weft.ops.core.target import Target
from weft.ops.families.elementwise.copies import Copy, contiguous

BLOCK = 512
AHEAD = 4
"""Vectors that a thread loads before counting, to keep loads in flight."""
RESIDENT = 4
"""The most blocks per SM."""
RANGE_BLOCK = 256
COPIES = (32, 16, 8, 4, 2, 1)
"""Copies of the bins in shared memory; with 32, lanes of a warp never conflict."""
SHARED_ADDS = 0.8e9
"""Warp-wide shared-memory atomics per second and SM, without conflicts."""
GLOBAL_ADDS = 5e10
"""Global-memory atomics per second."""
LATENCY = 1e-6
"""Seconds that a load takes when memory is busy."""
ZEROED = 5e-6
"""Seconds to fill a small buffer with zeros before a launch."""

OUTPUT = 2
"""The index of the output among a plan's tensors, after x and the weights."""
NARROW = (torch.float16, torch.bfloat16)
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
    if dtype in NARROW:
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
    cost = _cost_before(request, types) + (0 if _in_counters(request, types) else ZEROED)
    why = f"{bins} bins, {x.numel} elements"
    for copies in COPIES:
        size = bins * copies * (8 if types.out is torch.float64 and dtype else 4)
        if size > gpu.shared_per_block or (copies > 1 and size > gpu.shared_per_sm // 2):
            continue
        blocks = _blocks(x, gpu, size)
        build = functools.partial(_plan, request, types, copies, blocks, size)
        time = cost + _time(x, gpu, bins, copies, blocks)
        candidates.append(Candidate(f"shared memory, {copies} copies", time, why, build))
    time = cost + gpu.launch + x.numel / GLOBAL_ADDS
    build = functools.partial(_plan, request, types, 0, _blocks(x, gpu, 0), 0)
    return [*candidates, Candidate("global memory", time, why, build)]


def _blocks(x: Layout, gpu: Target, shared: int) -> int:
    """Blocks that fill the GPU, unless x has fewer vectors."""
    # CUDA reserves 1 KiB of shared memory per block.
    resident = min(RESIDENT, gpu.shared_per_sm // (shared + 1024))
    return min(gpu.sms * max(1, resident), cdiv(x.numel * x.itemsize, 16 * BLOCK * AHEAD))


def _time(x: Layout, gpu: Target, bins: int, copies: int, blocks: int) -> float:
    """Modelled seconds of a launch that counts in shared memory."""
    busy = min(blocks, gpu.sms)
    under_way = blocks * BLOCK * AHEAD * 16 / LATENCY  # bytes per second
    conflicts = 32 / copies  # worst case: all lanes of a warp hit one bin
    adds = x.numel / 32 * conflicts / (busy * SHARED_ADDS)
    cleared = blocks / busy * bins * copies / 16 / SHARED_ADDS  # zeroed and read once
    added = bins * blocks / GLOBAL_ADDS
    moved = x.numel * x.itemsize / min(gpu.bandwidth, under_way)
    return gpu.launch + max(moved, adds) + cleared + added


def _in_counters(request: Request, types: Types) -> bool:
    """True if counts fit the zeros that launches share: they need no buffer to clear."""
    few = request.options["bins"] < COUNTERS and request.first.numel < 2**31
    return few and types.weights is None


def _range_is_sought(request: Request, types: Types) -> bool:
    return not types.values and bool(request.options["min"] == request.options["max"])


def _cost_before(request: Request, types: Types) -> float:
    """Seconds of the launches that copy and that find the range."""
    x, gpu = request.first, request.target
    time: float = sum(copy.cost for copy in _flat(request)[1])
    if _range_is_sought(request, types):
        time += gpu.launch + x.numel * x.itemsize / gpu.bandwidth
    return time


# ---- plans -------------------------------------------------------------------------------------
def _flat(request: Request) -> tuple[list[Pointer], list[Copy], list[Buffer]]:
    """x and weights as flat arrays in the same order; copied if their layouts differ."""
    tensors = [t for t in request.inputs if t is not None]
    same = len({(t.shape, t.strides) for t in tensors}) == 1
    if same and memory_order(tensors[0]) is not None:
        return [Pointer(i) for i in range(len(tensors))], [], []
    pointers: list[Pointer] = []
    copies: list[Copy] = []
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
    if _range_is_sought(request, types):
        span = Pointer(OUTPUT + 1 + len(scratch))
        many = min(4 * request.target.sms, cdiv(x.numel, RANGE_BLOCK * vector * AHEAD))
        scratch.append(Buffer((2 + 2 * many,), types.range))
        steps.append(_range(types, vector, first, span, many, x.numel))
    number = int if types.values else float
    low, high = (number(options[name] or 0) for name in ("min", "max"))
    flags = (vector, copies, types.values, types.weights is not None, shared_sums)
    words = ", ".join((*types.names(shared_sums), *(str(f).lower() for f in flags)))
    kernel = source.kernel("histogram/histogram.cu", f"count<{words}>", AHEAD=str(AHEAD))
    y, counter = (Pointer(OUTPUT), Counters()) if converted else (None, None)
    args = (first, rest[0] if rest else None, None if shared_sums else totals, y, span, counter,
            x.numel, low, high, options["bins"])  # fmt: skip
    steps.append(Step(kernel, (blocks,), (BLOCK,), args, shared))
    out = Buffer((options["bins"],), types.out, zeroed=not converted)
    return Plan(tuple(steps), (out,), tuple(scratch))


def _range(types: Types, vector: int, x: Pointer, span: Pointer, blocks: int, n: int) -> Step:
    """Computes the range of x: two numbers at `span`, then two per block."""
    names = f"{source.ctype(types.x)}, {source.ctype(types.range)}, {vector}"
    kernel = source.kernel("histogram/histogram.cu", f"extent<{names}>", AHEAD=str(AHEAD))
    parts = span._replace(offset=2 * types.range.itemsize)
    return Step(kernel, (blocks,), (RANGE_BLOCK,), (x, parts, span, Counters(), n))


# ---- definitions -------------------------------------------------------------------------------
def _check(x: Any, bins: int, min: float | None, max: float | None, weights: Any) -> None:
    _check_dtype("x", x, DTYPES)
    if not 0 < bins < 2**31:
        raise ArgumentError(
            "weft.ops.histogram: there must be bins", got=f"bins={bins}", allowed="1 to 2**31 - 1"
        )
    if (min is None) != (max is None):
        raise ArgumentError(
            "weft.ops.histogram: a range has two ends",
            got=f"min={min}, max={max}",
            allowed="both, or neither: then the range is that of the elements",
        )
    if min is not None and max is not None and not -math.inf < min <= max < math.inf:
        raise ArgumentError(
            "weft.ops.histogram: this is not a range",
            got=f"min={min}, max={max}",
            allowed="finite numbers, min not above max",
        )
    if weights is None:
        return
    _check_dtype("weights", weights, WEIGHTS)
    if weights.shape != x.shape:
        raise ArgumentError(
            "weft.ops.histogram: each element needs a weight",
            got=f"weights {list(weights.shape)}, x {list(x.shape)}",
            allowed="equal shapes",
            next="expand the weights: weights.expand_as(x)",
        )


def _check_dtype(name: str, tensor: Any, allowed: Sequence[torch.dtype]) -> None:
    if tensor.dtype not in allowed:
        raise ArgumentError(
            f"weft.ops.histogram: '{name}' has a dtype that no kernel takes",
            got=str(tensor.dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in allowed),
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
        doc="""How many elements of x fall into each of `bins` bins of equal width from min to max.

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
