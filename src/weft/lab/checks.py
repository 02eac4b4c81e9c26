"""Checks a job against the operation of its ladder, or against the reference of the form."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import ArgumentError
from weft.lab import formula, origins, setup
from weft.lab.bind import Bound
from weft.lab.job import Job
from weft.measure.expressions import whole
from weft.measure.op import Op
from weft.tasks import launches
from weft.values.check import CheckReport


def checked(job: Job) -> CheckReport:
    """The report of a check that passes; raises CheckFailed."""
    on, bound = origins.rung(job.origin), setup.bound(job)
    if on is not None and not job.reference:
        ladder, rung = on
        library = "torch" if job.kind == "triton" or _has_bf16(ladder.op) else ""
        return launches.check(
            ladder.op, _solution(job, bound, rung.clear), device="sim", arrays=library
        )
    if not job.reference:
        raise ArgumentError(
            "a check needs a reference",
            next="write a formula of the inputs into the field Reference, e.g. 2 * x + y",
        )
    outputs = [a.name for a in job.arrays if a.out]
    if not outputs:
        raise ArgumentError("no array of the form is marked as a result", next="tick `out`")
    arrays = setup.arrays(job)
    used = formula.names(job.reference)
    unknown = [n for n in used if n not in arrays and n not in job.sizes]
    if unknown:
        raise ArgumentError(
            f"the reference uses '{unknown[0]}', which is not in the form",
            allowed=", ".join([*arrays, *job.sizes]),
        )

    shapes = [tuple(arrays[n].shape) for n in outputs]

    def reference(**values: Any) -> Any:
        plain = {n: np.asarray(v) for n, v in values.items()}
        right = formula.evaluate(job.reference, {**job.sizes, **plain})
        # The sum of an array is a scalar; the kernel's result is an array of one element.
        lone = len(shapes) == 1 and np.size(right) == math.prod(shapes[0])
        return np.reshape(right, shapes[0]) if lone else right

    def kernel(*values: Any) -> None:
        given = dict(zip(arrays, values, strict=True))
        for name, start in _starts(job).items():
            given[name][...] = start
        bound.run({**given, **job.sizes})

    kernel.__name__ = job.launches[0].partition("<<<")[0] if job.launches else "run"
    inputs = [n for n in used if n in arrays]
    _signed(reference, inputs)
    _signed(kernel, list(arrays))
    ranges = {a.name: _range(a.fill, job) for a in job.arrays if a.dtype.integer and ".." in a.fill}
    return launches.check(kernel, *arrays.values(), out=outputs, reference=reference, ranges=ranges)


def _starts(job: Job) -> dict[str, float]:
    """Results that a kernel adds to: what they hold before each run."""
    return {
        a.name: float(a.fill == "ones") for a in job.arrays if a.out and a.fill in ("zeros", "ones")
    }


def _signed(function: Callable[..., Any], names: list[str]) -> None:
    """Give a function parameters of these names: `check` binds arrays by them."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def _range(fill: str, job: Job) -> tuple[int, int]:
    low, _, high = fill.partition("..")
    return whole(low, job.scope), whole(high, job.scope)


def _has_bf16(op: Op) -> bool:
    return any(s.dtype.name == "bf16" for s in (*op.inputs, *op.outputs))


def _solution(job: Job, bound: Bound, clear: tuple[str, ...]) -> Callable[..., None]:
    """The job as a solution of an operation: its own arrays are scratch."""

    def kernel(**values: Any) -> None:
        sizes = {n: v for n, v in values.items() if isinstance(v, int)}
        own = tuple(a for a in job.arrays if a.name not in values)
        scratch = replace(job, sizes={**job.sizes, **sizes}, arrays=own).make()
        for name in clear:
            array = {**values, **scratch}[name]
            array[...] = 0
        bound.run({**scratch, **job.sizes, **values})

    return kernel
