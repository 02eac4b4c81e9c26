"""All that is known about a wrong output, as one error."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.device.sim import elements
from weft.errors import CheckFailed
from weft.measure import causes, compare, data
from weft.measure.compare import Agreement, Difference
from weft.measure.dtypes import Array, DType
from weft.measure.stand import Stand, Subject, Writer, limit


def gather(
    stand: Stand,
    inputs: Mapping[str, Array],
    found: Difference,
    result: Array,
    other: Array,
    e: Array,
    s: Array,
    dtype: DType,
) -> causes.Facts:
    """What rules about causes may look at; the subject is run twice more."""
    subject, name = stand.subject, found.output
    unwritten = np.zeros(e.shape, bool)
    if name in stand.arrays and name not in inputs:
        runs = [stand.run(inputs, which, "")[name] for which in (0, 1)]
        empty = [data.poison(e.shape, dtype, which) for which in (0, 1)]
        unwritten = _equal_bits(runs[0], empty[0]) & _equal_bits(runs[1], empty[1])

    def coarser(low: DType) -> bool:
        wider = limit(stand, e, s, dtype, low)
        return isinstance(compare.compare(name, result, e, wider, dtype), Agreement)

    flat = int(np.ravel_multi_index(found.index, e.shape)) if e.ndim else 0
    writer = subject.writer(stand.given, name, flat) if subject.writer else Writer("", 0)
    return causes.Facts(
        found,
        dtype.decode(result),
        e,
        limit(stand, e, s, dtype),
        dtype,
        unwritten,
        ~_equal_bits(result, other),
        subject.block,
        coarser,
        subject.races(stand.given) if subject.races else "",
        writer.threads,
        writer.text,
    )


def failure(
    subject: Subject,
    trial: str,
    found: Difference,
    facts: causes.Facts,
    dtype: DType,
    *,
    rerun: bool,
) -> CheckFailed:
    """All that is known about a wrong output."""
    writer = facts.writer
    cause = causes.likely(facts)
    again = " in the second of two runs on the same inputs" if rerun else ""
    unit = f", {found.ulps:.3g} ulp" if dtype.floating else ""
    got = f"{found.got:.9g} at {elements.indexed(found.output, found.index)}{unit}"
    part = f"{found.count} of {found.wrong.size} elements"
    picture = f"\n  where:\n{_indent(found.map())}" if found.wrong.size > 1 else ""
    error = CheckFailed(
        f"{subject.name}: {part} of '{found.output}' are wrong{again}",
        where=trial,
        got=got + (f"\n  written by: {writer}" if writer else "") + picture,
        allowed=f"{found.expected:.9g} ± {found.allowed:.3g}"
        if dtype.floating
        else f"{found.expected:g}",
        next=f"{cause.name}: {cause.evidence}" if cause else "",
    )
    error.index, error.value, error.expected = found.index, found.got, found.expected
    error.ulps, error.trial, error.writer = found.ulps, trial, writer
    error.wrong_count, error.map = found.count, found.map()
    error.cause, error.evidence = (cause.name, cause.evidence) if cause else ("", "")
    return error


def _equal_bits(a: Array, b: Array) -> Array:
    if a.dtype == bool:
        return np.asarray(a == b)
    word = np.dtype(f"uint{8 * a.itemsize}")
    return np.asarray(
        np.ascontiguousarray(a).view(word).reshape(a.shape)
        == np.ascontiguousarray(b).view(word).reshape(a.shape)
    )


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
