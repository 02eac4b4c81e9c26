"""unique: the distinct elements of a tensor, with the group of each element and their counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops.core import library, source
from weft.ops.core.checks import check_dtype
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Plan, Pointer, Step
from weft.ops.families.sort import model, rows, unique_unsorted
from weft.ops.families.sort.job import Job, Rows
from weft.ops.families.sort.model import H200
from weft.ops.families.sort.rows import Tile
from weft.ops.families.sort.searchsorted import COMPARED

TILE = Tile(8, 8)
"""The elements of a block that looks back at others."""
ALONE = (Tile(32, 2), Tile(32, 16))
"""Those of a block that numbers all groups; the last one takes what `rows.BLOCKS` sort."""
KEPT = 2**20
"""Bytes of a result that may remain unused behind its elements."""


# ---- the function ------------------------------------------------------------------------------
def _unique() -> Callable[..., Any]:
    groups = library.call("unique_groups")

    def unique(
        input: torch.Tensor,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """The distinct elements of input in ascending order.

        return_inverse  also return the place of each element of input among them
        return_counts   also return how often each of them occurs

        As in PyTorch 0.0 and -0.0 are equal, and every NaN is distinct. They are in order even with
        sorted=False. dim is for tensors of one dimension: rows are not compared. The host waits for
        the number of elements.
        """
        _check(input, dim)
        flat = input.detach().reshape(-1)
        made, inverse, counts, number = groups(flat, return_inverse, return_counts)
        size = int(number)
        results = [_cut(made, size)]
        if return_inverse:
            results.append(inverse.view(input.shape))
        if return_counts:
            results.append(_cut(counts, size))
        return results[0] if len(results) == 1 else tuple(results)

    return unique


def _check(input: torch.Tensor, dim: int | None) -> None:
    if dim is not None and not (input.dim() == 1 and dim in (0, -1)):
        raise ArgumentError(
            "weft.ops.unique: distinct rows are not supported",
            got=f"dim={dim} of {input.dim()} dimensions",
            allowed="dim=None, which compares elements",
            next="call torch.unique for rows",
        )


def _cut(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """The first elements; a copy where a view would keep much more memory."""
    part = tensor[:size]
    unused = (tensor.numel() - size) * tensor.itemsize
    return part.clone() if unused > KEPT else part


# ---- the op ------------------------------------------------------------------------------------
def _outputs(n: int, dtype: torch.dtype, inverse: bool, counts: bool) -> tuple[Buffer, ...]:
    return (
        Buffer((n,), dtype),
        Buffer((n if inverse else 0,), torch.int64),
        Buffer((n if counts else 0,), torch.int64),
        Buffer((1,), torch.int64, zeroed=n == 0),
    )


def _candidates(request: Request) -> list[Candidate]:
    x, (n,) = request.first, request.first.shape
    inverse, counts = request.options["inverse"], request.options["counts"]
    outputs = _outputs(n, x.dtype, inverse, counts)
    if n == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    return [*_sorting(request, outputs), *unique_unsorted.candidates(request, outputs)]


def _sorting(request: Request, outputs: tuple[Buffer, ...]) -> list[Candidate]:
    """The candidates that sort the elements first."""
    x, (n,) = request.first, request.first.shape
    inverse, counts = request.options["inverse"], request.options["counts"]
    first = 1 + len(outputs)
    alone = n <= rows.BLOCKS[-1].size
    blocks = 1 if alone else cdiv(n, TILE.size)
    scratch = [Buffer((n,), x.dtype)]
    if inverse:
        scratch.append(Buffer((n,), torch.int64))
    order = Pointer(first + len(scratch) - 1) if inverse else None
    one = Rows(1, 1, n, 0, 0, x.strides[0], 0, 0, 1, 0, n, False)
    # Longer rows are sorted by radix passes, whose zeros have room for the words of tiles.
    made = Job(
        one, x.dtype, request.target, Pointer(0), Pointer(first), order, outputs,
        first + len(scratch), (), tuple(scratch), 0 if alone else 8 * (1 + blocks),
    )  # fmt: skip
    gpu = request.target
    moved = n * (2 * x.itemsize + (16 if inverse else 0) + (8 if counts else 0))
    time = gpu.launch + H200.latency + model.moved(gpu, moved)

    def build(candidate: Candidate) -> Plan:
        plan, ctype = candidate.build(), source.ctype(x.dtype)
        types = f"{ctype}, {COMPARED.get(x.dtype, ctype)}"
        results = (Pointer(1), Pointer(2) if inverse else None, Pointer(3) if counts else None)
        states = None if alone else Pointer(made.free)
        args = (Pointer(first), order, *results, Pointer(4), states, n)
        tile = next(t for t in ALONE if t.size >= n) if alone else TILE
        name = source.template("number_groups", types, tile.warps, tile.items, alone)
        kernel = source.kernel("sort/unique.cu", name)
        step = Step(kernel, (blocks,), (32 * tile.warps,), args)
        return replace(plan, steps=(*plan.steps, step))

    return [
        Candidate(c.name, c.cost + time, f"sort: {c.why}", functools.partial(build, c))
        for c in rows.candidates(made)
    ]


def _check_groups(input: Any, inverse: bool, counts: bool) -> None:
    check_dtype("unique", "input", input)


def _fake(input: Any, inverse: bool, counts: bool) -> Any:
    n = input.shape[0]
    sizes = (n, n if inverse else 0, n if counts else 0, 1)
    dtypes = (input.dtype, torch.int64, torch.int64, torch.int64)
    return tuple(input.new_empty((s,), dtype=d) for s, d in zip(sizes, dtypes, strict=True))


DEFINITIONS = (
    Definition(
        name="unique_groups",
        schema="(Tensor input, bool inverse, bool counts) -> (Tensor, Tensor, Tensor, Tensor)",
        doc="""The distinct elements of a row, the group of each element, their counts, and how many
there are; only so many of the first and the third result are defined.""",
        fake=_fake,
        candidates=_candidates,
        check=_check_groups,
        autocast=None,
        public=False,
    ),
)
MAKERS = {"unique": _unique}
