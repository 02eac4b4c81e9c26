"""Finds the likely cause of a wrong output.

A finding of the sanitizer comes first. Each rule examines the same symptoms and returns evidence
or an empty string. The first rule with evidence wins. Rules are ordered from the most to the least
specific.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.measure import dtypes
from weft.measure.check.comparison import Difference
from weft.measure.check.diagnosis import Cause
from weft.measure.dtypes import Array, DType

ORDER = Cause(
    "order of threads",
    "a plain run is right, so the result depends on the order of threads, or on when copies"
    " complete; look for a missing barrier, wait or fence",
)
"""The cause of a result that is wrong under a schedule alone, if the sanitizer finds none."""


@dataclass(frozen=True)
class Symptoms:
    """The data that rules examine.

    unwritten   flags of elements that keep their initial value in both runs
    varies      flags of elements that differ between two runs with the same inputs and outputs
    carried     flags of elements that differ only if the output held something else before
    added       whether the output is the right one plus what it held before
    block       threads per block, if known
    grid        threads of the whole grid, if known
    coarser     type -> would the output pass if sums were kept in this lower precision?
    exact       () -> is it right on inputs that no precision rounds?
    finding     the sanitizer's finding for the same inputs, if it has one
    writers     the number of threads that wrote the worst element; `writer` is the last one
    """

    difference: Difference
    got: Array
    expected: Array
    limit: Array
    dtype: DType
    unwritten: Array
    varies: Array
    carried: Array
    added: bool
    block: int | None
    grid: int | None
    coarser: Callable[[DType], bool]
    exact: Callable[[], bool]
    finding: Cause | None = None
    writers: int = 0
    writer: str = ""


def likely(facts: Symptoms) -> Cause | None:
    """The sanitizer's finding, else the cause named by the first rule with evidence."""
    if facts.finding is not None:
        return facts.finding
    for name, rule in _RULES:
        evidence = rule(facts)
        if evidence:
            return Cause(name, evidence)
    return None


def _same(f: Symptoms, change: Callable[[Array], Array]) -> Array:
    """Flags of elements that equal the changed expected values, within rounding."""
    # A wrong formula rounds differently, so the tolerance is four times the usual one.
    other, limit = change(f.expected), np.abs(change(f.limit))
    if not f.dtype.floating:
        return np.asarray(f.got == other)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(f.got - other) <= 4 * limit) | (f.got == other))


def _close(f: Symptoms, change: Callable[[Array], Array]) -> bool:
    usable = np.isfinite(f.expected) & (f.expected != 0)
    return bool(np.any(usable)) and bool(np.all(_same(f, change)))


def _tail(f: Symptoms) -> str:
    """All elements past the last whole block are wrong, and no others."""
    flat, block = f.difference.wrong.reshape(-1), f.block or 0
    n = flat.size
    if not block or n <= block or not n % block:
        return ""
    start = n - n % block
    if np.any(flat[:start]) or not np.all(flat[start:]):
        return ""
    # With enough threads, the kernel itself excludes the elements.
    reached = f.grid is not None and f.grid >= n
    if reached and n - start == 1:
        return ""  # a thread exists for the last element: a bound in the kernel is wrong
    verb = "are unwritten" if np.all(f.unwritten.reshape(-1)[start:]) else "are wrong"
    return (
        f"only elements {start} to {n - 1} {verb}: they are past the last whole block of"
        f" {block} ({n} = {n // block}·{block} + {n % block}); "
    ) + (
        f"the grid of {f.grid} threads reaches them, so a bound in the kernel leaves them out"
        if reached
        else "round the grid up with weft.cdiv and compare the index with the length"
    )


def _last_element(f: Symptoms) -> str:
    """Only the last element is unwritten, and it is not a whole block."""
    flat = f.difference.wrong.reshape(-1)
    n = flat.size
    if n < 2 or not flat[-1] or np.any(flat[:-1]) or not f.unwritten.reshape(-1)[-1]:
        return ""
    return f"only the last of {n} elements is unwritten; is the index compared with n - 1?"


def _unwritten(f: Symptoms) -> str:
    # Unwritten elements may be right by chance; only wrong ones are evidence.
    count = int(np.count_nonzero(f.unwritten & f.difference.wrong))
    if not count:
        return ""
    first = tuple(int(i) for i in np.argwhere(f.unwritten & f.difference.wrong)[0])
    return f"{count} of {f.got.size} elements still hold what was there before, first at {first}"


def _accumulates(f: Symptoms) -> str:
    if not f.added:
        return ""
    return (
        "the output is the right one plus what it held before the call; set it to zero in the"
        " kernel, or, where adding is meant, let the reference add too: give it a parameter with"
        " the name of the output"
    )


def _carries(f: Symptoms) -> str:
    """Elements that a thread writes, with a value that depends on the old one."""
    count = int(np.count_nonzero(f.carried & ~f.unwritten))
    if not count:
        return ""
    return (
        f"{count} of {f.got.size} elements depend on what the output held before the call; write"
        " each element before it is read"
    )


def _races(f: Symptoms) -> str:
    count = int(np.count_nonzero(f.varies & f.difference.wrong))
    if not count:
        return ""
    return f"{count} elements differ between two runs on the same inputs"


def _overlap(f: Symptoms) -> str:
    if f.writers < 2:
        return ""
    return f"{f.writers} threads wrote element {f.difference.index}"


def _transposed(f: Symptoms) -> str:
    if f.expected.ndim < 2:
        return ""
    rows, columns = f.expected.shape[-2:]
    if not _close(f, lambda v: np.swapaxes(v, -1, -2).reshape(v.shape)):
        return ""
    if rows == columns:
        return "the output is the transpose of the right one"
    return f"rows and columns are exchanged: it is laid out as {columns} x {rows}"


def _scaled(f: Symptoms) -> str:
    usable = np.isfinite(f.got) & np.isfinite(f.expected) & (f.expected != 0)
    if not f.dtype.floating or len(np.unique(f.expected[usable])) < 2:
        return ""  # with a single value any wrong answer is a multiple
    # The median ignores single outliers.
    factor = float(np.median(f.got[usable] / f.expected[usable]))
    if factor in (0.0, 1.0) or not _close(f, lambda v: v * factor):
        return ""
    return f"every element is {factor:.6g} times the right one"


def _shifted(f: Symptoms) -> str:
    for step in (1, -1):
        same = _same(f, functools.partial(_rolled, step))
        # The element that wrapped around at the end may hold anything.
        inner = same.reshape(-1)[1:] if step == 1 else same.reshape(-1)[:-1]
        if f.got.size > 2 and bool(np.all(inner)):
            return f"element i holds what belongs to element i {'-' if step == 1 else '+'} 1"
    return ""


def _rolled(step: int, values: Array) -> Array:
    return np.roll(values.reshape(-1), step).reshape(values.shape)


def _constant(f: Symptoms) -> str:
    if f.got.size < 2 or not np.all(f.got == f.got.reshape(-1)[0]):
        return ""
    if np.all(f.expected == f.expected.reshape(-1)[0]):
        return ""
    return f"every element is {f.got.reshape(-1)[0]:g}"


def _coarse(f: Symptoms) -> str:
    """Names low precision only with direct evidence: small errors have many causes."""
    if not f.dtype.floating:
        return ""
    low = next((words for name, words in _LOW if f.coarser(_TYPES[name])), "")
    if not low:
        return ""
    for name, words in _LOW[:0:-1]:  # coarsest first; without TF32, which NumPy lacks
        usable = f.got[np.isfinite(f.got) & (f.got != 0)]
        kept = _TYPES[name].decode(_TYPES[name].encode(usable))
        if _TYPES[name].roundoff > f.dtype.roundoff and usable.size > 8 and np.all(kept == usable):
            return f"every result is a number of {words}"
    if f.exact():
        return (
            f"the errors are those of sums or factors rounded to {low}:"
            " on inputs of 1 and -1, which lose nothing, it is right"
        )
    return ""


def _one_block(f: Symptoms) -> str:
    block = f.block or 0
    flat = np.flatnonzero(f.difference.wrong.reshape(-1))
    # A single block proves nothing if there is only one.
    if block and f.got.size > block and flat[0] // block == flat[-1] // block:
        number = int(flat[0]) // block
        return f"all wrong elements belong to block {number}: {flat[0]} to {flat[-1]}"
    return ""


def _not_a_number(f: Symptoms) -> str:
    bad = ~np.isfinite(f.got) & np.isfinite(f.expected) & ~f.unwritten
    if not np.any(bad):
        return ""
    return (
        f"{int(np.count_nonzero(bad))} elements are inf or nan where the reference is finite:"
        " an intermediate result overflows, or 0/0 or inf - inf is computed"
    )


_LOW = (("tf32", "TF32"), ("f16", "half"), ("bf16", "bfloat16"))
_TYPES = {
    "tf32": DType("tf32", "float32", "float32", 2.0**-11, 3.4e38, 2.0**-126),
    "f16": dtypes.find("f16"),
    "bf16": dtypes.find("bf16"),
}

_RULES: tuple[tuple[str, Callable[[Symptoms], str]], ...] = (
    ("tail block", _tail),
    ("bound off by one", _last_element),
    ("adds to its output", _accumulates),
    ("unwritten elements", _unwritten),
    ("constant output", _constant),
    ("transposed index", _transposed),
    ("missing synchronisation", _races),
    ("reads its output", _carries),
    ("overlapping writes", _overlap),
    ("overflow on the way", _not_a_number),
    ("missing factor", _scaled),
    ("index off by one", _shifted),
    ("one block", _one_block),
    ("accumulation in low precision", _coarse),
)
