"""Builds the CheckFailed error for a wrong output: gathers symptoms, names the likely cause."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.device import arrays as device_arrays
from weft.device.sim.run import elements
from weft.errors import CheckFailed
from weft.measure.check import buffers, causes, comparison, input_data, reference
from weft.measure.check.comparison import Agreement, Difference
from weft.measure.check.diagnosis import Cause
from weft.measure.check.harness import Harness, Subject, Writer, limit
from weft.measure.check.runner import Stored
from weft.measure.dtypes import Array, DType


def gather(
    harness: Harness,
    inputs: Mapping[str, Array],
    difference: Difference,
    result: Stored,
    e: Array,
    s: Array,
    rng: np.random.Generator,
) -> causes.Symptoms:
    """Gather the symptoms of a failure. This runs the subject a few more times."""
    subject, name = harness.subject, difference.output
    arrays, dtype = harness.runner.given, harness.type_of(name, result)
    starts = harness.starts(inputs, rng)
    # The third run begins as the first one: what differs then depends on neither array.
    first, second, third = (
        harness.run(inputs, start, "")[name].bits for start in (*starts, starts[0])
    )
    varies = ~_equal_bits(first, third)
    unwritten = carried = np.zeros(e.shape, bool)
    added = False
    if name in starts[0]:
        # Two different initial contents tell unwritten elements from correct constants.
        unwritten = _equal_bits(starts[0][name], first) & _equal_bits(starts[1][name], second)
        carried = ~_equal_bits(first, second) & ~varies
        added = bool(np.any(carried)) and _is_added(harness, starts[1][name], second, e, s, dtype)

    def coarser(low: DType) -> bool:
        wider = limit(harness, e, s, dtype, low)
        return isinstance(comparison.compare(name, result, e, wider, dtype), Agreement)

    flat = int(np.ravel_multi_index(difference.index, e.shape)) if e.ndim else 0
    writer = subject.writer(arrays, name, flat) if subject.writer else Writer("", 0)
    return causes.Symptoms(
        difference,
        result.dtype.decode(result.bits),
        e,
        limit(harness, e, s, dtype),
        dtype,
        unwritten,
        varies,
        carried,
        added,
        subject.block,
        subject.grid(arrays) if subject.grid else None,
        coarser,
        lambda: _right_on_signs(harness, inputs, name, rng),
        subject.diagnose(arrays, inputs)
        if subject.diagnose
        else harness.runner.diagnose({**starts[1], **inputs}),
        writer.threads,
        writer.text,
    )


def _is_added(
    harness: Harness, start: Array, bits: Array, e: Array, s: Array, dtype: DType
) -> bool:
    """True if an output is what it held before plus the expected result."""
    if dtype.integer:
        return bool(np.all(bits - start == e.astype(dtype.numpy)))  # integers wrap
    if not dtype.floating:
        return False
    before, after = dtype.decode(start), dtype.decode(bits)
    # Every addition rounds to the type of the output, in proportion to the larger sum.
    rounding = 8 * dtype.roundoff * np.sqrt(harness.terms or 1) * (np.abs(before) + np.abs(e))
    with np.errstate(all="ignore"):
        error = np.abs(after - before - e)
    return bool(np.all(error <= limit(harness, e, s, dtype) + rounding))


def _right_on_signs(
    harness: Harness, inputs: Mapping[str, Array], name: str, rng: np.random.Generator
) -> bool:
    """True if the subject is right on inputs of 1 and -1, which every precision holds exactly."""
    places = [p for p in harness.subject.inputs if p.dtype.floating and p.free]
    signs = {p.name: input_data.signs(rng, p.shape, p.dtype) for p in places}
    plain = {**inputs, **signs}
    result = harness.run(plain, harness.starts(plain, rng)[1], "")
    numbers = {p.name: p.dtype.decode(plain[p.name]) for p in harness.subject.inputs}
    expected, moved = reference.right(harness, numbers, rng, "")
    at = list(result).index(name)
    dtype = harness.type_of(name, result[name])
    most = limit(harness, expected[at], moved[at], dtype)
    outcome = comparison.compare(name, result[name], expected[at], most, dtype)
    return isinstance(outcome, Agreement) and not outcome.blind


def failure(
    subject: Subject,
    trial: str,
    difference: Difference,
    symptoms: causes.Symptoms,
    dtype: DType,
    *,
    rerun: bool,
) -> CheckFailed:
    """The error with all details of a wrong output."""
    again = " in the second of two runs on the same inputs" if rerun else ""
    cause = causes.likely(symptoms)
    return wrong(subject, trial, difference, cause, dtype, again, symptoms.writer)


def make_repeatable(
    error: CheckFailed,
    harness: Harness,
    inputs: Mapping[str, Array],
    difference: Difference,
    rng: np.random.Generator,
) -> None:
    """Let the failed call be repeated for the debugger: its arrays are in this process's memory."""
    array = harness.runner.given.get(difference.output)
    if array is None or buffers.on_host(array) is not array:
        return
    memory, shape = device_arrays.view(array), difference.wrong.shape
    flat = int(np.ravel_multi_index(difference.index, shape)) if shape else 0
    start, _ = harness.starts(inputs, rng)
    error.repeat = lambda: harness.run(inputs, start, "")
    error.element = elements.indexed(difference.output, difference.index)
    error.place = memory.address + flat * memory.itemsize, memory.itemsize


def wrong(
    subject: Subject,
    trial: str,
    difference: Difference,
    cause: Cause | None,
    dtype: DType,
    run: str,
    writer: str = "",
) -> CheckFailed:
    """The error for a wrong output; `run` names the run where it is not the first."""
    unit = f", {difference.ulps:.3g} ulp" if dtype.floating else ""
    element = elements.indexed(difference.output, difference.index)
    got = f"{_number(difference.got)} at {element}{unit}"
    part = f"{difference.count} of {difference.wrong.size} elements"
    picture = f"\n  where:\n{_indent(difference.map())}" if difference.wrong.size > 1 else ""
    error = CheckFailed(
        f"{subject.name}: {part} of '{difference.output}' are wrong{run}",
        where=trial,
        got=got + (f"\n  written by: {writer}" if writer else "") + picture,
        allowed=_number(difference.expected)
        + (f" ± {difference.allowed:.3g}" if dtype.floating else ""),
        next=f"{cause.name}: {cause.evidence}" if cause else "",
    )
    error.index, error.value, error.expected = difference.index, difference.got, difference.expected
    error.ulps, error.trial, error.writer = difference.ulps, trial, writer
    error.wrong_count, error.map = difference.count, difference.map()
    error.cause, error.evidence = (cause.name, cause.evidence) if cause else ("", "")
    return error


def _number(value: float | int) -> str:
    """Format integers with all digits."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _equal_bits(a: Array, b: Array) -> Array:
    if a.dtype == bool:
        return np.asarray(a == b)
    # Compare bit patterns: NaN differs from itself, and 0.0 equals -0.0.
    word = np.dtype(f"uint{8 * a.itemsize}")
    return np.asarray(
        np.ascontiguousarray(a).view(word).reshape(a.shape)
        == np.ascontiguousarray(b).view(word).reshape(a.shape)
    )


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())
