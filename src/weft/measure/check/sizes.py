"""Draws sizes beside those of an operation's cases, so that no solution is right for these only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from weft.errors import ArgumentError
from weft.measure.expressions import expression
from weft.measure.op import Case, Op

T = TypeVar("T")

DRAWN = 2
"""Sets of sizes that are drawn for an operation."""
_MOST_LISTED = 1000
WHY = "drawn beside the cases"


def beside(op: Op, rng: np.random.Generator) -> list[Case]:
    """Up to `DRAWN` new cases; none where the sizes of the operation cannot be varied."""
    ranges = {name: _choices(op, name) for name in _varied(op)}
    inside = {n: new for n, (new, _) in ranges.items() if len(new)}
    larger = {n: new for n, (_, new) in ranges.items() if len(new)}
    out: list[Case] = []
    for _ in range(DRAWN):
        sizes = dict(op.cases[int(rng.integers(len(op.cases)))].sizes)
        if inside:
            sizes |= {n: _one(new, rng) for n, new in inside.items() if n in sizes}
        elif larger:  # one size only: the work grows with the product of all
            name = _one(sorted(larger), rng)
            sizes[name] = _one(larger[name], rng)
        case = Case.of(sizes)
        case.why = WHY
        if all(case.sizes != other.sizes for other in (*op.cases, *out)) and _fits(op, case):
            out.append(case)
    return out


def _varied(op: Op) -> list[str]:
    """The sizes that `vary` names, or all that shapes of arrays are made of."""
    if op.vary is not None:
        return list(op.vary)
    texts = [text for spec in (*op.inputs, *op.outputs) for text in spec.sizes]
    used = {name for text in texts for name in expression(text).names}
    return [name for name in op.cases[0].sizes if name in used]


def _choices(op: Op, name: str) -> tuple[Sequence[int], Sequence[int]]:
    """New values of a size: those between the cases, and larger ones.

    Kernels may need multiples of a tile or of a vector. The step is therefore the largest power of
    two that divides the size in all cases.
    """
    if op.vary is not None:
        least, most = op.vary[name]
        return range(least, most + 1), ()
    given = {case.sizes[name] for case in op.cases if case.sizes.get(name, 0) > 0}
    if not given:
        return (), ()
    step, most = math.gcd(*given, 1 << 62), max(given)
    low = step * (min(given) // 2 // step + 1)
    inside: Sequence[int] = range(low, most + 1, step)
    # In a long range a size of a case is rarely drawn; `beside` leaves such a draw out.
    if len(inside) <= _MOST_LISTED:
        inside = [n for n in inside if n not in given]
    return inside, range(most + step, 2 * most + 1, step)


def _one(choices: Sequence[T], rng: np.random.Generator) -> T:
    return choices[int(rng.integers(len(choices)))]


def _fits(op: Op, case: Case) -> bool:
    """True if all arrays have a shape and a range of values for these sizes."""
    try:
        for spec in (*op.inputs, *op.outputs):
            spec.shape(case)
            spec.bounds(case)
    except ArgumentError:
        return False
    return True
