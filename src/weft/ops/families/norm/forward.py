"""Plans norms of rows: layer norm, RMS norm and group norm, forward."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from weft.kernels import cdiv
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Plan, Step
from weft.ops.families.norm.rows import BLOCK, Job, Way, group, parts_of

HELD = 8
"""The most 16-byte vectors that a thread keeps in registers."""
KEPT = 128
"""The most bytes of each weight that a thread keeps in registers."""
WORDS = 48
"""Registers of a row of any length, and of its weights, above which a thread has too few."""
SPILLED = {512: 5.0, 128: 3.0, 0: 1.0}
"""The time of rows that have too few registers, for so many threads of a row at least.

It was measured for elements of two bytes.
"""
SM_BANDWIDTH = 50e9
"""Bytes that one SM reads and writes per second when others do little."""
WIDE = 8
"""Bytes of a vector below which an SM moves fewer."""


@dataclass(frozen=True)
class Kind:
    """A norm of rows.

    centred  the mean is subtracted, and there is a bias
    added    the rows are a sum of two tensors, which is returned as well
    """

    name: str
    centred: bool
    added: bool

    @property
    def tensors(self) -> int:
        """The tensors of rows that come in."""
        return 1 + self.added


def candidates(kind: Kind, saved: bool, made: Job) -> list[Candidate]:
    """The candidates for a job; `saved`: the last outputs are the statistics."""
    gpu, size = made.request.target, made.dtype.itemsize
    elements = made.count * made.n
    moved = (1 + kind.tensors + kind.added) * elements * size
    found = []
    threads, held, shared = group(made.chunks, HELD)
    if _memory(made, threads, shared) <= _room(made):
        busy = moved / made.count / SM_BANDWIDTH
        busy *= cdiv(made.count, gpu.sms * max(1, 1024 // threads))
        busy *= max(1.0, WIDE / (made.vector * size))
        way = _way(kind, made, threads, held, shared)
        time = gpu.launch + max(_spilled(made, way) * moved / gpu.bandwidth, busy)
        why = f"{threads} threads per row, {held} vectors of {made.vector} in registers each"
        build = functools.partial(rows, kind, saved, made, way)
        found.append(Candidate("rows", made.cost + time, why, build))
    parts = parts_of(made)
    again = elements * size * (0.2 if moved < gpu.l2 else 1)
    time = made.cost + 2 * gpu.launch + (moved + again) / gpu.bandwidth
    why = f"{parts} blocks per row, two passes"
    build = functools.partial(long_rows, kind, saved, made, parts)
    return [*found, Candidate("long rows", time, why, build)]


def _memory(made: Job, threads: int, shared: int) -> int:
    """Bytes of shared memory for so many vectors of each thread."""
    return shared * threads * made.vector * int(made.dtype.itemsize)


def _room(made: Job) -> int:
    return made.request.target.shared_per_block - 1024


def _way(kind: Kind, made: Job, threads: int, held: int, shared: int) -> Way:
    """The way that was measured to be the fastest for so many vectors of a row."""
    if made.ragged or kind.added or made.inner:
        # Weights that no vector holds are read one by one: once per block instead of once per row.
        kept = held * made.vector * made.weight.itemsize
        keep = made.ragged and not made.inner and not shared and kept <= KEPT
        return Way(threads, held, shared, max(1, 1024 // max(threads, 128)) if keep else 0)
    if threads == 1024:  # one block has an SM, so its next row must be on its way
        moved = 4 if _memory(made, threads, shared + 4) <= _room(made) else 0
        return Way(threads, held - moved, shared + moved, 1, ahead=True)
    if threads == 512 and held == 8 and not shared and not kind.centred:
        return Way(threads, 4, 4)  # copies to shared memory need no registers
    return Way(threads, held, shared)


def _spilled(made: Job, way: Way) -> float:
    """How much longer rows take whose threads have too few registers: 1.0 for most."""
    # Vectors that may reach out of a row take more instructions, and more registers.
    size = made.dtype.itemsize + (2 * made.weight.itemsize if way.resident else 0)
    words = way.held * made.vector * size // 4
    spilled = words > WORDS or way.shared > 0
    if not made.ragged or made.inner or made.dtype.itemsize > 2 or not spilled:
        return 1.0
    return next(factor for least, factor in SPILLED.items() if way.threads >= least)


def addresses(kind: Kind, saved: bool, made: Job) -> tuple[Any, ...]:
    """The arguments: x, what is added, w, b, y, the sum, mean and rstd."""
    weights = made.inputs[kind.tensors :]
    at = kind.tensors
    return (
        made.inputs[0],
        made.inputs[1] if kind.added else None,
        weights[0],
        weights[1] if kind.centred else None,
        made.output(0),
        made.output(1) if kind.added else None,
        made.output(at) if saved and kind.centred else None,
        made.output(at + kind.centred) if saved else None,
    )


def rows(kind: Kind, saved: bool, made: Job, way: Way) -> Plan:
    """One launch: rows stay on chip."""
    threads, held, shared, resident, ahead = way
    kernel = made.kernel(
        "rows.cu", "rows", threads, held, shared, kind.centred, kind.added,
        resident > 0 and not ahead, made.inner > 0, ahead,
    )  # fmt: skip
    memory = _memory(made, threads, shared)
    rest = (made.count, made.n, made.stride, epsilon(made.request), made.inner, made.groups)
    args = (*addresses(kind, saved, made), *rest)
    return made.plan(Step(kernel, (way.grid(made),), (way.block,), args, memory))


def long_rows(kind: Kind, saved: bool, made: Job, parts: int) -> Plan:
    """Two launches, with several blocks for a row."""
    each = cdiv(made.chunks, parts)
    x, added, w, b, y, total, mean, rstd = addresses(kind, saved, made)
    found = made.extra(0)
    one = made.kernel("rows.cu", "parts_of_rows", kind.centred, kind.added, weights=False)
    two = made.kernel("rows.cu", "finish_rows", kind.centred, made.inner > 0)
    summed, stride = (total, made.n) if kind.added else (x, made.stride)
    eps, grid = epsilon(made.request), (made.count * parts,)
    steps = (
        Step(one, grid, (BLOCK,), (x, added, total, found, made.n, made.stride, parts, each)),
        Step(
            two, grid, (BLOCK,),
            (summed, w, b, y, mean, rstd, found, made.n, stride, eps, parts, each,
             made.inner, made.groups),
        ),
    )  # fmt: skip
    return made.plan(*steps, scratch=(Buffer((made.count * parts, 3), torch.float32),))


def epsilon(request: Request) -> float:
    """The option eps; by default that of float, in which all is computed."""
    eps = request.options["eps"]
    return torch.finfo(torch.float32).eps if eps is None else float(eps)
