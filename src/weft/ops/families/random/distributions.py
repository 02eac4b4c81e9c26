"""New tensors of random numbers: uniform, normal, bernoulli, and permutations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Argument, Buffer, Plan, Pointer, Step
from weft.ops.families.elementwise.copies import contiguous
from weft.ops.families.random import model
from weft.ops.families.random.drawn import Drawn
from weft.ops.families.random.filled import Filled, size_of
from weft.ops.families.random.start import beginning
from weft.ops.families.random.threads import BLOCK, blocks

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


# ---- plans -------------------------------------------------------------------------------------
def _candidates(build: Callable[[Request], Plan], request: Request) -> list[Candidate]:
    x, gpu = request.first, request.target
    if x.numel == 0:
        out = Buffer(x.shape, x.dtype)
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    time = model.fill_time(x, gpu)
    why = f"the numbers of {blocks(x.numel, gpu)} blocks of torch's"
    return [Candidate("one pass", time, why, functools.partial(build, request))]


def _filled(request: Request, distribution: str, numbers: Sequence[float]) -> Plan:
    x = request.first
    ctype = source.ctype(x.dtype)
    kernel = source.kernel("random/distributions.cu", f"fill<{ctype}, {distribution}<{ctype}>>")
    count = blocks(x.numel, request.target)
    passes = cdiv(x.numel, 4 * BLOCK * count)
    args: tuple[Argument, ...] = (Pointer(2), *beginning(request), x.numel, count, *numbers)
    # The last pass needs fewer blocks if it has less than one element for each thread.
    rest = x.numel - (passes - 1) * 4 * BLOCK * count
    grid = count * (passes - 1) + min(count, cdiv(rest, BLOCK))
    return Plan((Step(kernel, (grid,), (BLOCK,), args),), (Buffer(x.shape, x.dtype),))


def _uniform_plan(request: Request) -> Plan:
    low, high, dtype = request.options["low"], request.options["high"], request.first.dtype
    ends = torch.tensor([low, high], dtype=dtype)  # torch rounds them, and their difference
    return _filled(request, "Uniform", [*ends.tolist(), float(ends[1] - ends[0])])


def _normal_plan(request: Request) -> Plan:
    return _filled(request, "Normal", [request.options["mean"], request.options["std"], 0.0])


def _bernoulli_plan(request: Request) -> Plan:
    p = request.first
    out, at = Buffer(p.shape, p.dtype), Pointer(0)
    before: tuple[Step, ...] = ()
    scratch: tuple[Buffer, ...] = ()
    if not p.contiguous:
        at, scratch = Pointer(3), (Buffer(p.shape, p.dtype),)
        before = contiguous(p, Pointer(0), at, request.target).steps
    ctype = source.ctype(p.dtype)
    kernel = source.kernel("random/distributions.cu", f"bernoulli<{ctype}>")
    args = (at, Pointer(2), *beginning(request), p.numel, blocks(p.numel, request.target))
    step = Step(kernel, (cdiv(p.numel, 4 * BLOCK),), (BLOCK,), args)
    return Plan((*before, step), (out,), scratch)


def _permutation_plan(request: Request) -> Plan:
    x = request.first
    ctype, n = source.ctype(x.dtype), x.numel
    out = (Buffer(x.shape, x.dtype),)
    grid, args = (cdiv(n, BLOCK),), (Pointer(2), *beginning(request), n)
    if n <= model.RANKED:
        kernel = source.kernel("random/distributions.cu", f"ranks<{ctype}>")
        return Plan((Step(kernel, grid, (BLOCK,), args, 8 * n),), out)
    bits = (n - 1).bit_length()
    kernel = source.kernel("random/distributions.cu", f"shuffle<{ctype}>")
    halves = bits - bits // 2, bits // 2
    return Plan((Step(kernel, grid, (BLOCK,), (*args, *halves)),), out)


# ---- definitions -------------------------------------------------------------------------------
def _check_range(x: Any, low: float, high: float, *start: Any) -> None:
    check_dtype("uniform", "x", x, FLOATS)
    if not low <= high:
        raise ArgumentError(
            f"weft.ops.uniform: low must be at most high, got low={low} and high={high}"
        )


def _check_deviation(x: Any, mean: float, std: float, *start: Any) -> None:
    check_dtype("normal", "x", x, FLOATS)
    if not std >= 0.0:
        raise ArgumentError(f"weft.ops.normal: std must be at least 0, got {std}")


def _definition(
    name: str, options: str, doc: str, build: Callable[[Request], Plan], check: Callable[..., None]
) -> Definition:
    """An op that makes a tensor like its first; seed and offset follow the options."""
    return Definition(
        name=name,
        schema=f"(Tensor x, {options}int seed, int offset, Tensor? state=None) -> Tensor",
        doc=doc,
        fake=lambda x, *rest: x.new_empty(x.shape),
        candidates=functools.partial(_candidates, build),
        check=check,
        autocast=None,
        public=False,
        varying=("seed", "offset"),
    )


DEFINITIONS = (
    _definition(
        "seeded_uniform", "float low, float high, ", "Uniform numbers in [low, high).",
        _uniform_plan, _check_range,
    ),
    _definition(
        "seeded_normal", "float mean, float std, ", "Normally distributed numbers.",
        _normal_plan, _check_deviation,
    ),
    _definition(
        "seeded_bernoulli", "", "1 with the probability that x has, else 0.",
        _bernoulli_plan, lambda x, *start: check_dtype("bernoulli", "x", x, FLOATS),
    ),
    _definition(
        "seeded_permutation", "", "The numbers below the length of x, in random order.",
        _permutation_plan,
        lambda x, *start: check_dtype("randperm", "x", x, (torch.int64, torch.int32)),
    ),
)  # fmt: skip


# ---- functions ---------------------------------------------------------------------------------
def _of_size(op: str, seeded: str, doc: str) -> Callable[[], Any]:
    """Return the maker of rand or randn, which have a size and two fixed numbers."""

    def make() -> Any:
        fill = Filled(op, seeded)

        def function(
            *size: Any, generator: Any = None, dtype: Any = torch.float32, device: Any = None
        ) -> Any:
            return fill(size_of(size), (0.0, 1.0), generator, dtype, device)

        function.__name__, function.__doc__ = op, doc
        return function

    return make


def _uniform() -> Any:
    fill = Filled("uniform", "seeded_uniform")

    def uniform(
        size: Sequence[int], low: float = 0.0, high: float = 1.0, *,
        generator: Any = None, dtype: Any = torch.float32, device: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor of uniform numbers in [low, high)."""
        return fill(size, (low, high), generator, dtype, device)

    return uniform


def _normal() -> Any:
    fill = Filled("normal", "seeded_normal")

    def normal(
        mean: float, std: float, size: Sequence[int], *,
        generator: Any = None, dtype: Any = torch.float32, device: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor of normally distributed numbers."""
        return fill(size, (mean, std), generator, dtype, device)

    return normal


def _bernoulli() -> Any:
    draw = Drawn("bernoulli", "seeded_bernoulli", 0)

    def bernoulli(x: Any, *, generator: Any = None) -> Any:
        """1 with the probability that x has at this element, else 0.

        Probabilities are not checked: 1 and more always give 1; 0, less and NaN always give 0.
        """
        return draw(x, generator=generator)

    return bernoulli


def _randperm() -> Any:
    fill = Filled("randperm", "seeded_permutation")

    def randperm(
        n: int, *, generator: Any = None, dtype: Any = torch.int64, device: Any = None
    ) -> Any:
        """The numbers from 0 to n - 1 in random order."""
        if n < 0:
            raise ArgumentError(f"weft.ops.randperm: n must be at least 0, got {n}")
        return fill((n,), (), generator, dtype, device)

    return randperm


MAKERS = {
    "rand": _of_size("rand", "seeded_uniform", "A new tensor of uniform numbers in [0, 1)."),
    "randn": _of_size("randn", "seeded_normal", "A new tensor of normal numbers."),
    "uniform": _uniform,
    "normal": _normal,
    "bernoulli": _bernoulli,
    "randperm": _randperm,
}
