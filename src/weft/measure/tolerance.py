"""How far a right answer may be from the float64 reference.

    allowed = u_out·|e| + 8·u_acc·√n·max(|e|, s) + n·t

e      the reference's value
u_out  half a unit in the last place of the output's type: the result is rounded once
u_acc  the same of the type that sums are kept in (f32; f64 for f64 outputs)
n      how many terms a result sums: how many inputs move it, unless it is said
s      how much the value moves when inputs move by a part of themselves: the size of what is
       summed, even where the sum itself cancels
t      the smallest normal number of the accumulator: kernels may flush smaller terms to zero,
       and atomic additions in global memory do

A sum of n roundings errs by about u·√n times what is summed; 8 standard deviations leave room for
the largest of a billion results and for a few rounded operations around each term. Integers and
booleans must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.measure.dtypes import Array, DType

DEVIATIONS = 8.0
PROBES = 8
STEP = 2.0**-20
"""By which part of themselves inputs are moved to learn `s`."""


def allowed(expected: Array, moved: Array, out: DType, accumulate: DType, terms: int) -> Array:
    """The largest error for each element; see the head of this file."""
    size = np.abs(np.where(np.isfinite(expected), expected, 0.0))
    sums = DEVIATIONS * accumulate.roundoff * np.sqrt(terms) * np.maximum(size, moved)
    return np.asarray(out.roundoff * size + sums + terms * accumulate.normal)


def sensitivity(
    reference: Callable[[Mapping[str, Array]], Sequence[Array]],
    inputs: Mapping[str, Array],
    expected: Sequence[Array],
    rng: np.random.Generator,
) -> list[Array]:
    """`s` of every output: the root mean square of what random small changes of inputs do."""
    sums = [np.zeros(np.shape(e)) for e in expected]
    for _ in range(PROBES):
        near = {name: _shaken(value, rng) for name, value in inputs.items()}
        with np.errstate(all="ignore"):
            for total, e, moved in zip(sums, expected, reference(near), strict=True):
                if np.issubdtype(np.asarray(e).dtype, np.floating):
                    change = (np.asarray(moved, np.float64) - e) / STEP
                    total += np.nan_to_num(change, nan=0, posinf=0, neginf=0) ** 2
    return [np.sqrt(total / PROBES) for total in sums]


def terms(
    reference: Callable[[Mapping[str, Array]], Sequence[Array]],
    inputs: Mapping[str, Array],
    expected: Sequence[Array],
    rng: np.random.Generator,
) -> int:
    """How many inputs move a result, on the average: single inputs are changed, one at a time."""
    floating = [n for n, v in inputs.items() if np.issubdtype(v.dtype, np.floating) and v.size]
    count = sum(inputs[n].size for n in floating)
    results = sum(np.size(e) for e in expected)
    if not count or not results:
        return 1
    changed = 0
    for _ in range(PROBES):
        name = rng.choice(floating, p=[inputs[n].size / count for n in floating])
        near = inputs[name].copy()
        near.reshape(-1)[rng.integers(near.size)] *= 1.125
        with np.errstate(all="ignore"):
            answers = reference({**inputs, str(name): near})
        for e, answer in zip(expected, answers, strict=True):
            changed += int(np.count_nonzero(np.asarray(answer) != e))
    return max(1, round(changed * count / (PROBES * results)))


def _shaken(value: Array, rng: np.random.Generator) -> Array:
    if not np.issubdtype(value.dtype, np.floating):
        return value
    with np.errstate(invalid="ignore"):
        return np.asarray(value * (1 + STEP * rng.choice([-1.0, 1.0], value.shape)))
