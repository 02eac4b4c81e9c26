"""Plans distinct elements without a sort: of few elements, and of many that have few values."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from weft.kernels import cdiv
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.sort import model
from weft.ops.families.sort.model import H200

FEW = 256
"""The most elements whose pairs one block compares."""
WORDS = 2**16 // 32
"""Words of a bit for each value of 16 bits; as in presence.cu."""
MARKING, TALLYING, LISTING = 512, 1024, 1024
"""Threads of a block, as in presence.cu."""
PART = 2**15
"""The most keys that a block of `tally` counts in shared memory."""
AHEAD = 8
"""Elements that a thread of `mark` reads at once, as there."""


def candidates(request: Request, outputs: tuple[Buffer, ...]) -> Iterator[Candidate]:
    """The candidates for the results of `unique_groups`: values, inverse, counts and total."""
    x, (n,) = request.first, request.first.shape
    inverse, counts = request.options["inverse"], request.options["counts"]
    if n <= FEW:
        instructions = 2 * n * 8.0
        time = model.busy(request.target, 1, FEW // 32, 1, instructions)
        cost = request.target.launch + H200.latency + time
        yield Candidate("pairs", cost, f"{n} elements", lambda: _pairs(request, outputs))
    if x.itemsize <= 2 and not inverse and n < 2**31:
        cost = 2 * request.target.launch + H200.clear + 2 * H200.latency
        cost += model.moved(request.target, n * x.itemsize)
        if counts:
            rate = H200.tallied if _copies(x) == 1 else H200.tallied_by_lanes
            cost += _parts(x) * n / (rate * request.target.sms)
        name = "tally" if counts else "presence"
        yield Candidate(name, cost, f"{n} elements", lambda: _presence(request, outputs))


def _pairs(request: Request, results: tuple[Buffer, ...]) -> Plan:
    x, (n,) = request.first, request.first.shape
    threads = 32
    while threads < n:
        threads *= 2
    name = f"unique_pairs<{source.ctype(x.dtype)}, {threads}>"
    kernel = source.kernel("sort/unique_pairs.cu", name)
    inverse = Pointer(2) if request.options["inverse"] else None
    counts = Pointer(3) if request.options["counts"] else None
    args = (Pointer(0), x.strides[0], Pointer(1), inverse, counts, Pointer(4), n)
    return Plan((Step(kernel, (1,), (threads,), args),), results)


def _parts(x: Layout) -> int:
    """Parts of the keys that blocks of `tally` count."""
    return int(cdiv(2 ** (8 * x.itemsize), PART))


def _copies(x: Layout) -> int:
    """Copies of the counts of `tally`: one for each lane where there is room."""
    return 32 if x.itemsize == 1 else 1


def _presence(request: Request, results: tuple[Buffer, ...]) -> Plan:
    x, (n,) = request.first, request.first.shape
    kind, sms = source.ctype(x.dtype), request.target.sms
    first, counted = 1 + len(results), request.options["counts"]
    values = 2 ** (8 * x.itemsize)
    # One buffer of zeros: each would take a launch.
    nans, present = Pointer(first), Pointer(first, 4)
    tallies = Pointer(first, 4 + 4 * WORDS) if counted else None
    zeros = Buffer((1 + WORDS + (values if counted else 0),), torch.int32, zeroed=True)
    if counted:
        keys, copies = min(PART, values), _copies(x)
        mark = Step(
            source.kernel("sort/presence.cu", f"tally<{kind}, {keys}, {copies}>"),
            (min(cdiv(n, TALLYING * AHEAD), sms), _parts(x)),
            (TALLYING,),
            (Pointer(0), x.strides[0], tallies, present, nans, n),
            4 * keys * copies,
        )
    else:
        mark = Step(
            source.kernel("sort/presence.cu", f"mark<{kind}>"),
            (min(cdiv(n, MARKING * AHEAD), 4 * sms),),
            (MARKING,),
            (Pointer(0), x.strides[0], present, nans, n),
        )
    listing = Step(
        source.kernel("sort/presence.cu", f"list<{kind}>"),
        (cdiv(values, LISTING),),
        (LISTING,),
        (present, tallies, nans, Pointer(1), Pointer(3) if counted else None, Pointer(4)),
    )
    return Plan((mark, listing), results, (zeros,))
