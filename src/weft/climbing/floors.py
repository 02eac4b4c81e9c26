"""Computes the least time of an operation from the ceilings of a GPU model."""

from __future__ import annotations

from weft.device.models import GpuModel
from weft.measure import expressions
from weft.measure.bench.bench import ceiling
from weft.measure.op import Op
from weft.report.words import duration


def floors(op: Op, model: GpuModel) -> dict[str, str]:
    """Case -> its least time, e.g. `at least 28 µs (memory)`."""
    out = {}
    for case in op.bench:
        moved, work = (expressions.number(text or "0", case.sizes) for text in (op.bytes, op.flops))
        seconds, bound = ceiling(model, moved, work, op.inputs[0].dtype.name)
        if seconds:
            out[repr(case)] = f"at least {duration(seconds)} ({bound})"
    return out
