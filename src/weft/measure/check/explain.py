"""All that is known about a wrong output, as one error."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.device.sim.run import elements
from weft.errors import CheckFailed
from weft.measure.check import causes, compare, input_data, reference
from weft.measure.check.compare import Agreement, Difference
from weft.measure.check.guarded import Stand, Subject, Writer, limit
from weft.measure.check.runner import Stored
from weft.measure.dtypes import Array, DType


def gather(
    stand: Stand,
    inputs: Mapping[str, Array],
    found: Difference,
    result: Stored,
    other: Stored,
    e: Array,
    s: Array,
    rng: np.random.Generator,
) -> causes.Facts:
    """What rules about causes may look at; the subject is run twice more, or three times."""
    subject, name = stand.subject, found.output
    given, dtype = stand.runner.given, stand.type_of(name, result)
    unwritten = np.zeros(e.shape, bool)
    if subject.outputs and name not in inputs:
        pairs = [(start, stand.run(inputs, start, "")) for start in stand.starts(inputs, rng)]
        kept = [_equal_bits(start[name], run[name].bits) for start, run in pairs]
        unwritten = kept[0] & kept[1]

    def coarser(low: DType) -> bool:
        wider = limit(stand, e, s, dtype, low)
        return isinstance(compare.compare(name, result, e, wider, dtype), Agreement)

    flat = int(np.ravel_multi_index(found.index, e.shape)) if e.ndim else 0
    writer = subject.writer(given, name, flat) if subject.writer else Writer("", 0)
    return causes.Facts(
        found,
        result.dtype.decode(result.bits),
        e,
        limit(stand, e, s, dtype),
        dtype,
        unwritten,
        ~_equal_bits(result.bits, other.bits),
        subject.block,
        subject.grid(given) if subject.grid else None,
        coarser,
        lambda: _right_on_signs(stand, inputs, name, rng),
        subject.races(given) if subject.races else "",
        writer.threads,
        writer.text,
    )


def _right_on_signs(
    stand: Stand, inputs: Mapping[str, Array], name: str, rng: np.random.Generator
) -> bool:
    """Is it right where every floating input is 1 or -1? Those lose nothing in any precision."""
    places = [p for p in stand.subject.inputs if p.dtype.floating and p.free]
    signs = {p.name: input_data.signs(rng, p.shape, p.dtype) for p in places}
    plain = {**inputs, **signs}
    result = stand.run(plain, stand.starts(plain, rng)[1], "")
    numbers = {p.name: p.dtype.decode(plain[p.name]) for p in stand.subject.inputs}
    expected, moved = reference.right(stand, numbers, rng, "")
    at = list(result).index(name)
    dtype = stand.type_of(name, result[name])
    most = limit(stand, expected[at], moved[at], dtype)
    found = compare.compare(name, result[name], expected[at], most, dtype)
    return isinstance(found, Agreement) and not found.blind


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
    got = f"{_number(found.got)} at {elements.indexed(found.output, found.index)}{unit}"
    part = f"{found.count} of {found.wrong.size} elements"
    picture = f"\n  where:\n{_indent(found.map())}" if found.wrong.size > 1 else ""
    error = CheckFailed(
        f"{subject.name}: {part} of '{found.output}' are wrong{again}",
        where=trial,
        got=got + (f"\n  written by: {writer}" if writer else "") + picture,
        allowed=_number(found.expected) + (f" ± {found.allowed:.3g}" if dtype.floating else ""),
        next=f"{cause.name}: {cause.evidence}" if cause else "",
    )
    error.index, error.value, error.expected = found.index, found.got, found.expected
    error.ulps, error.trial, error.writer = found.ulps, trial, writer
    error.wrong_count, error.map = found.count, found.map()
    error.cause, error.evidence = (cause.name, cause.evidence) if cause else ("", "")
    return error


def _number(value: float | int) -> str:
    """Integers with all their digits."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


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
