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
booleans must be equal. Integer inputs of floating results are moved, too, where any value may be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.measure.dtypes import Array, DType

DEVIATIONS = 8.0
PROBES = 8
STEP = 2.0**-20
"""By which part of themselves inputs are moved to learn `s`."""
STEPS = {1: 2.0**-2, 2: 2.0**-6, 4: 2.0**-12, 8: 2.0**-12}
"""The same for integers, by their size in bytes: a smaller part would not move most of them."""

Answers = Callable[[Sequence[Mapping[str, Array]]], Sequence[Sequence[Array]]]
"""A reference: for each set of inputs its results."""


def allowed(expected: Array, moved: Array, out: DType, accumulate: DType, terms: int) -> Array:
    """The largest error for each element; see the head of this file."""
    size = np.abs(np.where(np.isfinite(expected), expected, 0.0))
    sums = DEVIATIONS * accumulate.roundoff * np.sqrt(terms) * np.maximum(size, moved)
    return np.asarray(out.roundoff * size + sums + terms * accumulate.normal)


@dataclass(frozen=True)
class Probe:
    """Inputs that were moved by a part of themselves, which `step` is."""

    step: float
    inputs: Mapping[str, Array]


def probes(
    inputs: Mapping[str, Array], rng: np.random.Generator, movable: Collection[str]
) -> list[Probe]:
    """Inputs to evaluate the reference on for `sensitivity`.

    movable  the inputs that may be moved: moved indices would be out of bounds
    """
    groups: dict[float, list[str]] = {}
    for name in movable:
        groups.setdefault(_step(inputs[name]), []).append(name)
    return [
        Probe(step, {**inputs, **{n: _shaken(inputs[n], rng, step) for n in names}})
        for step, names in groups.items()
        if step
        for _ in range(PROBES)
    ]


def sensitivity(
    expected: Sequence[Array], probed: Sequence[Probe], answers: Sequence[Sequence[Array]]
) -> list[Array]:
    """`s` of every output: the root mean square of what random small changes of inputs do."""
    sums = [np.zeros(np.shape(e)) for e in expected]
    for probe, near in zip(probed, answers, strict=True):
        with np.errstate(all="ignore"):
            for total, e, moved in zip(sums, expected, near, strict=True):
                if e.dtype.kind == "f":
                    change = (np.asarray(moved, np.float64) - e) / probe.step
                    total += np.nan_to_num(change, nan=0, posinf=0, neginf=0) ** 2
    return [np.sqrt(total / PROBES) for total in sums]


def _step(value: Array) -> float:
    """By which part of itself an input is moved; 0 for booleans."""
    if value.dtype.kind in "iu":
        return STEPS[value.dtype.itemsize]
    return STEP if value.dtype.kind == "f" else 0.0


def terms(
    reference: Answers,
    inputs: Mapping[str, Array],
    expected: Sequence[Array],
    rng: np.random.Generator,
    movable: Collection[str],
) -> int:
    """How many inputs move a result, on the average: single inputs are changed, one at a time."""
    if not any(e.dtype.kind == "f" for e in expected):
        return 1  # exact
    floating = [n for n in movable if inputs[n].dtype.kind in "iuf" and inputs[n].size]
    count = sum(inputs[n].size for n in floating)
    results = sum(np.size(e) for e in expected)
    if not count or not results:
        return 1
    moved = []
    for _ in range(PROBES):
        name = rng.choice(floating, p=[inputs[n].size / count for n in floating])
        near = inputs[name].copy()
        at = rng.integers(near.size)
        if near.dtype.kind == "f":
            near.reshape(-1)[at] *= 1.125
        else:
            near.reshape(-1)[at] ^= near.dtype.type(1 << (4 * near.dtype.itemsize))
        moved.append({**inputs, str(name): near})
    changed = 0
    for answers in reference(moved):
        for e, answer in zip(expected, answers, strict=True):
            changed += int(np.count_nonzero(np.asarray(answer) != e))
    return max(1, round(changed * count / (PROBES * results)))


def _shaken(value: Array, rng: np.random.Generator, step: float) -> Array:
    """Moved up or down by a part of itself; integers that would wrap stay."""
    up = rng.choice([-1.0, 1.0], value.shape)
    if value.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.asarray(value * (1 + step * up))
    part = np.rint(value.astype(np.float64) * step * up)
    limits = np.iinfo(value.dtype)
    moved = value.astype(np.float64) + part
    safe = (moved > limits.min) & (moved < limits.max)
    return np.asarray(value + np.where(safe, part, 0).astype(np.int64).astype(value.dtype))
