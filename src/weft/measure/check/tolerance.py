"""Computes how far a correct result may be from the float64 reference.

    allowed = u_out·max(|e|, m) + 8·u_acc·√n·max(|e|, s) + n·t

e      the reference's value
u_out  half a unit in the last place of the output's type: the result is rounded once
m      the smallest normal number of the output's type: below it, the spacing is constant
u_acc  the same for the type of the accumulator (f32; f64 for f64 outputs)
n      the number of terms that a result sums: declared, or the number of inputs that affect it
s      the change of the value for a relative change of the inputs: the magnitude of what is
       summed, even where the sum itself cancels
t      the smallest normal number of the accumulator; kernels may flush smaller terms to zero,
       and atomic additions in global memory do

A sum with n roundings has an error of about u·√n times its terms. 8 standard deviations allow for
the largest of a billion results and for a few rounded operations around each term. Integers and
booleans must be equal. Free integer inputs of floating results are changed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.measure.dtypes import Array, DType

DEVIATIONS = 8.0
PROBES = 8
STEP = 2.0**-20
"""Relative change of floating inputs to measure `s`."""
STEPS = {1: 2.0**-2, 2: 2.0**-6, 4: 2.0**-12, 8: 2.0**-12}
"""Relative change of integers by size in bytes; a smaller one would leave most unchanged."""

Answers = Callable[[Sequence[Mapping[str, Array]]], Sequence[Sequence[Array]]]
"""A reference: sets of inputs -> the results of each."""


def allowed(expected: Array, moved: Array, out: DType, accumulate: DType, terms: int) -> Array:
    """The tolerance of each element; the module docstring has the formula."""
    # Infinite results are compared exactly elsewhere.
    size = np.abs(np.where(np.isfinite(expected), expected, 0.0))
    sums = DEVIATIONS * accumulate.roundoff * np.sqrt(terms) * np.maximum(size, moved)
    rounded = out.roundoff * np.maximum(size, out.normal)
    return np.asarray(rounded + sums + terms * accumulate.normal)


@dataclass(frozen=True)
class Probe:
    """Inputs that were changed by the relative `step`."""

    step: float
    inputs: Mapping[str, Array]


def probes(
    inputs: Mapping[str, Array], rng: np.random.Generator, movable: Collection[str]
) -> list[Probe]:
    """Inputs to evaluate the reference on for `sensitivity`.

    movable  the inputs that may be changed; changed indices could be out of bounds
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
    """`s` of every output: the root mean square effect of small random input changes."""
    sums = [np.zeros(np.shape(e)) for e in expected]
    for probe, near in zip(probed, answers, strict=True):
        with np.errstate(all="ignore"):
            for total, e, moved in zip(sums, expected, near, strict=True):
                if e.dtype.kind == "f":
                    change = (np.asarray(moved, np.float64) - e) / probe.step
                    # Overflow of a probe carries no information about rounding.
                    total += np.nan_to_num(change, nan=0, posinf=0, neginf=0) ** 2
    return [np.sqrt(total / PROBES) for total in sums]


def _step(value: Array) -> float:
    """The relative change of an input; 0 for booleans."""
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
    """The average number of inputs that affect a result, measured by changing single inputs."""
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
            # A flipped middle bit changes any integer noticeably without leaving the type.
            near.reshape(-1)[at] ^= near.dtype.type(1 << (4 * near.dtype.itemsize))
        moved.append({**inputs, str(name): near})
    changed = 0
    for answers in reference(moved):
        for e, answer in zip(expected, answers, strict=True):
            changed += int(np.count_nonzero(np.asarray(answer) != e))
    return max(1, round(changed * count / (PROBES * results)))


def _shaken(value: Array, rng: np.random.Generator, step: float) -> Array:
    """The value with a random relative change; integers that would wrap are unchanged."""
    up = rng.choice([-1.0, 1.0], value.shape)
    if value.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.asarray(value * (1 + step * up))
    part = np.rint(value.astype(np.float64) * step * up)
    limits = np.iinfo(value.dtype)
    moved = value.astype(np.float64) + part
    safe = (moved > limits.min) & (moved < limits.max)
    return np.asarray(value + np.where(safe, part, 0).astype(np.int64).astype(value.dtype))
