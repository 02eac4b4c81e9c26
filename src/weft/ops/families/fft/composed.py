"""Plans of transforms along several dimensions: one after another, in place where possible."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Pointer
from weft.ops.families.fft import model
from weft.ops.families.fft.factors import Matrix, Passes, factorings, factors
from weft.ops.families.fft.lengths import good, of_one_block
from weft.ops.families.fft.lines import TransformLine, single, walk
from weft.ops.families.fft.long import several_passes
from weft.ops.families.fft.workspace import COMPLEX, Workspace, WorkspaceTensor


@dataclass(frozen=True)
class Transform:
    """Transforms along `dims` with lengths `n`, in the order of the passes.

    shape, dtype  of the result
    half          the result, or x, is the first half of a real tensor's spectrum; x is real in
                  the first pass, or the result in the last one
    scale, weight  see Line
    """

    dims: tuple[int, ...]
    n: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    inverse: bool
    half: bool
    scale: float
    weight: float = 1.0

    def passes(self) -> list[tuple[int, int]]:
        """The dimensions to transform along, and their lengths.

        A transform of one element is the element. One pass is needed, and the one between real and
        complex numbers: the first one, or the last if the result is real.
        """
        pairs = list(zip(self.dims, self.n, strict=True))
        last = pairs[0] if self.half and self.dtype is COMPLEX else pairs[-1]
        needed = [p for p in pairs if p[1] > 1 or (self.half and p == last)]
        return needed or [last]


class Composer(Workspace):
    """Add the passes of a transform, one dimension after another."""

    def __init__(
        self, request: Request, transform: Transform, chosen: Mapping[int, Passes]
    ) -> None:
        inputs = len(request.inputs)
        super().__init__(request.target, inputs + 1, chosen)
        t = self.transform = transform
        self.result = WorkspaceTensor(
            Pointer(inputs), t.dtype, t.shape, Buffer(t.shape, t.dtype).steps
        )

    def run(self, x: WorkspaceTensor) -> None:
        """Add all passes."""
        t = self.transform
        # Elements that the lengths cut off are never read.
        for dim, n in zip(t.dims, t.n, strict=True):
            halved = t.half and t.dtype is not COMPLEX and dim == t.dims[-1]
            x = _trimmed(x, dim, n // 2 + 1 if halved else n)
        if all(n == 1 for n in t.n):
            self.converted(x, self.result)
            return
        passes = t.passes()
        for dim, n in passes:
            x = self.along(x, dim, n, last=dim == passes[-1][0])

    def along(self, x: WorkspaceTensor, dim: int, n: int, last: bool) -> WorkspaceTensor:
        """Add the transforms along one dimension and return their result."""
        t = self.transform
        dtype = t.dtype if last else COMPLEX
        shape = (*x.shape[:dim], t.shape[dim], *x.shape[dim + 1 :])
        fits = last or (shape == t.shape and t.dtype is COMPLEX)
        y = self.result if fits else self.buffer(shape)
        half = t.half and (x.dtype is COMPLEX) != (dtype is COMPLEX)
        line = TransformLine(
            x, y, dim, n, t.inverse, half, t.scale if last else 1.0, t.weight if half else 1.0
        )
        chosen, batch = of_one_block(line.length), walk(line)
        if chosen is None:
            several_passes(line, self)
            return y
        if batch is None:
            line = replace(line, x=self.copied(x))
            batch = walk(line)
            assert batch is not None
        self.steps.append(single(line, chosen, *batch).step(self.target))
        return y


def _trimmed(x: WorkspaceTensor, dim: int, most: int) -> WorkspaceTensor:
    shape = (*x.shape[:dim], min(x.shape[dim], most), *x.shape[dim + 1 :])
    return replace(x, shape=shape)


def candidates(request: Request, transform: Transform) -> Sequence[Candidate]:
    """The plan of a transform that the model takes, and those with other passes."""
    x = request.first
    out = Buffer(transform.shape, transform.dtype)
    if 0 in transform.shape:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    start = WorkspaceTensor(Pointer(0), x.dtype, x.shape, x.strides, x.aligned)

    def build(chosen: Mapping[int, Passes]) -> Plan:
        composer = Composer(request, transform, chosen)
        composer.run(start)
        return Plan(tuple(composer.steps), (out,), tuple(composer.scratch))

    gpu = request.target
    elements = math.prod(transform.shape)
    lengths = _lengths(transform)
    lines = [_described(n, max(1, elements // n)) for n in lengths]
    # A pass reads and writes about as many bytes as the first one reads and the last one writes.
    moved = start.bytes + elements * transform.dtype.itemsize
    cost = sum(passes for passes, _ in lines) * (gpu.launch + moved / gpu.bandwidth)
    why = "; ".join(text for _, text in lines)
    made = [Candidate("fourier", cost, why, functools.partial(build, {}))]
    for n in sorted({n for n in lengths if of_one_block(n) is None}):
        first, *others = factorings(n, max(1, elements // n))[: model.CANDIDATES] or [(0.0, ())]
        for other, passes in others:
            more = max(0.0, other - first[0]) * 2 * COMPLEX.itemsize / gpu.bandwidth
            name = f"fourier, {n} as {' x '.join(map(str, passes))}"
            plan = functools.partial(build, {n: passes})
            made.append(Candidate(name, cost + more, _words(n, passes), plan))
    return made


def _lengths(transform: Transform) -> list[int]:
    """The lengths of the complex transforms along each dimension."""
    lengths = [n for _, n in transform.passes()]
    real = 0 if transform.dtype is COMPLEX else len(lengths) - 1
    if transform.half and lengths[real] % 2 == 0:
        lengths[real] //= 2
    return lengths


def _described(n: int, count: int) -> tuple[int, str]:
    """(launches, the kernels in words) of `count` complex transforms."""
    one = of_one_block(n)
    if one is not None:
        words = f"radices {one}, {one.threads} threads each"
        return 1, words if one.n == n else f"{n} by Bluestein's algorithm over {one.n}: {words}"
    made = factors(n, count)
    if made:
        return 3 if isinstance(made, Matrix) else len(made), _words(n, made)
    passes, words = _described(good(2 * n - 1), count)
    return 2 * passes + 3, f"{n} by Bluestein's algorithm over {words}"


def _words(n: int, passes: Passes) -> str:
    lengths = " x ".join(map(str, passes))
    if isinstance(passes, Matrix):
        return f"{n} by Bluestein's algorithm over a matrix of {lengths}"
    return f"passes of {lengths}"
