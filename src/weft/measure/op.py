"""Declares an operation: its arrays, its reference, and the sizes that it is checked and timed on.

op = weft.Op("matmul", "A:f32[M,K] B:f32[K,N] -> C:f32[M,N]",
             reference=lambda A, B: A @ B,
             cases=[weft.Case(M=64, N=64, K=64), weft.Case(M=127, N=129, K=65, why="ragged")])
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.errors import ArgumentError, expect
from weft.measure import dtypes
from weft.measure.dtypes import Array, Bounds, DType, Filling
from weft.measure.expressions import number, whole

_ARRAY = re.compile(r"\s*(\w+)\s*:\s*(\w+)\s*\[([^\]]*)\](?:\s*in\s+([^\s,]+))?\s*,?")


class Case:
    """The sizes of one test case of an `Op`, and why they are tested.

    >>> print(weft.Case(n=1000, why="not a multiple of the block"))
    n=1000 (not a multiple of the block)
    """

    def __init__(self, *, why: str = "", **sizes: int) -> None:
        self.why, self.sizes = why, dict(sizes)

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Case:
        """A case from a table of sizes."""
        case = cls()
        case.sizes.update(sizes)
        return case

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}={n}" for name, n in self.sizes.items())
        return f"{sizes} ({self.why})" if self.why else sizes


@dataclass(frozen=True)
class ArraySpec:
    """The declaration of one array, `A:f32[M,K]`. Sizes are expressions over the names of a case.

    within  the smallest and the largest value of an input: `rows:i32[n] in 0..M-1`
    """

    name: str
    dtype: DType
    sizes: tuple[str, ...]
    within: tuple[str, str] | None = None

    def shape(self, case: Case) -> tuple[int, ...]:
        return tuple(whole(text, case.sizes) for text in self.sizes)

    def bounds(self, case: Case) -> Bounds | None:
        """The range that the signature declares for the values; None where it declares none."""
        if self.within is None:
            return None
        low, high = (number(text, case.sizes) for text in self.within)
        least, most = self.dtype.range if self.dtype.integer else (-np.inf, np.inf)
        if not (least <= low <= high <= most):
            raise ArgumentError(
                f"'{self.name}' has an invalid range",
                where=repr(case),
                got=f"{low:g}..{high:g}",
                allowed=f"from low to high, inside of {self.dtype.name}",
            )
        return low, high


@dataclass(frozen=True)
class Op:
    """An operation: its arrays, its reference, and the sizes that solutions are checked on.

    name         what it is called
    signature    inputs and outputs: "x:f32[n], w:f32[n] -> y:f32[n]"; indices get a range:
                 "rows:i32[n] in 0..M-1"
    reference    called with float64 inputs (integers stay); returns the output or a tuple
    cases        the sizes to check
    bench        the sizes to time
    flops bytes  expressions of the sizes: what a call computes and moves at least
    peers        library implementations as expressions of torch and the inputs, e.g.
                 "torch.softmax(x, -1)"; "compile: ..." uses torch.compile
    ceiling      what bounds it on a GPU: "copy", "read" (bandwidths) or "compute"
    target       what its best kernel must reach: "limit 0.97" (part of the ceiling) or "peer 1.0"
                 (times as fast as the best peer)
    reduce       the number of terms that a result sums, e.g. "K"; by default weft finds it
    accumulate   the type that sums may be rounded to; by default f32, and f64 for f64
    answer       the first output of the inputs as torch tensors in float64, to compare results at
                 full size with; by default the first peer
    fill         input -> function of (random generator, shape, sizes), for data with structure such
                 as sorted offsets
    vary         size -> (least, most): `weft check FILE` also draws sizes from these ranges; by
                 default it chooses them near those of the cases, and {} means the cases only

    >>> double = weft.Op("double", "x:f32[n] -> y:f32[n]", lambda x: 2 * x, [weft.Case(n=100)])
    >>> @double.solution
    ... def numpy(x, y):
    ...     y[...] = 2 * x
    >>> print(weft.check(double, numpy).name)
    double/numpy
    """

    name: str
    signature: str
    reference: Callable[..., Any]
    cases: Sequence[Case]
    bench: Sequence[Case] = ()
    flops: str = ""
    bytes: str = ""
    peers: Sequence[str] = ()
    ceiling: str = "copy"
    target: str = ""
    reduce: str = ""
    accumulate: str = ""
    answer: Callable[..., Any] | None = None
    fill: Mapping[str, Callable[..., Array]] = field(default_factory=dict)
    solutions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    precisions: dict[str, str] = field(default_factory=dict)
    vary: Mapping[str, tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("signature", self.signature)):
            expect(f"an operation's {what}", text, str, allowed="a string")
        expect("an operation's target", self.target, str, allowed='"limit 0.97" or "peer 1.0"')
        for what, cases in (("cases", self.cases), ("bench", self.bench)):
            expect(f"an operation's {what}", cases, list, tuple, allowed="a list of weft.Case")
            for case in cases:
                expect(f"one of an operation's {what}", case, Case, allowed="weft.Case(n=1000)")
        if not callable(self.reference):
            raise ArgumentError(
                "an operation's reference is a function of its inputs",
                got=type(self.reference).__name__,
            )
        # Parse the signature and the target now: errors then point to the definition.
        _ = self.inputs, self.outputs, self.goal
        if not self.cases:
            raise ArgumentError(
                "an operation has no case to be judged on",
                where=self.name,
                got="cases=[]",
                next="give at least one: cases=[weft.Case(n=1000)]",
            )
        for name, ends in (self.vary or {}).items():
            if name not in self.cases[0].sizes or not 0 <= ends[0] <= ends[1]:
                raise ArgumentError(
                    "an operation's vary names a size and its range",
                    where=self.name,
                    got=f"{name}: {ends}",
                    allowed=f"(least, most) of {', '.join(self.cases[0].sizes)}",
                )
        for case in (*self.cases, *self.bench):
            for spec in (*self.inputs, *self.outputs):
                spec.shape(case)
                spec.bounds(case)

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """The input arrays of the signature."""
        return array_specs(self._sides()[0], self.signature)

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        """The output arrays of the signature."""
        return array_specs(self._sides()[1], self.signature)

    @property
    def goal(self) -> tuple[str, float] | None:
        """The target as ("limit" or "peer", number); None where there is none."""
        if not self.target:
            return None
        match = re.fullmatch(r"(limit|peer) (\d+(?:\.\d+)?)", self.target)
        if match is None:
            raise ArgumentError(
                "an operation's target cannot be read",
                where=self.name,
                got=repr(self.target),
                allowed='"limit 0.97" or "peer 1.0"',
            )
        return match[1], float(match[2])

    def _sides(self) -> list[str]:
        sides = self.signature.split("->")
        if len(sides) != 2:
            raise _unreadable(self.signature, self.signature)
        return sides

    def data(
        self, spec: ArraySpec, case: Case, rng: np.random.Generator, filling: Filling
    ) -> Array:
        """The data of an input: by the operation's own `fill`, or by `filling`."""
        if spec.name in self.fill:
            return self.own_data(spec, case, rng)
        return filling(rng, spec.shape(case), spec.dtype, spec.bounds(case))

    def own_data(self, spec: ArraySpec, case: Case, rng: np.random.Generator) -> Array:
        """The data of an input by the operation's own `fill`."""
        fill = self.fill[spec.name]
        wanted = inspect.signature(fill).parameters
        more = {n: v for n, v in case.sizes.items() if n in wanted}
        return self.checked(spec, case, np.asarray(fill(rng, spec.shape(case), **more)))

    def checked(self, spec: ArraySpec, case: Case, data: Array) -> Array:
        """Return the array; raise where its type or shape is not that of the input."""
        if data.dtype != spec.dtype.numpy or data.shape != spec.shape(case):
            raise ArgumentError(
                f"the fill of '{spec.name}' of {self.name} does not fit",
                where=repr(case),
                got=f"{data.dtype} {data.shape}",
                allowed=f"{spec.dtype.numpy} {spec.shape(case)}",
            )
        return data

    def solution(self, run: Callable[..., Any] | None = None, *, precision: str = "f32") -> Any:
        """Decorator of a function that computes this operation; `weft check FILE` finds it.

        `@op.solution(precision="tf32")` states what it computes in, where that is less than f32.
        """
        if run is None:
            return functools.partial(self.solution, precision=precision)
        # Returned unchanged, so that the function can still be called directly.
        self.solutions[run.__name__] = run
        self.precisions[run.__name__] = precision
        return run

    def terms(self, case: Case) -> int | None:
        """The number of terms that a result sums, where `reduce` states it."""
        return max(1, whole(self.reduce, case.sizes)) if self.reduce else None


def array_specs(text: str, whole: str = "") -> tuple[ArraySpec, ...]:
    """The arrays of one side of a signature: `A:f32[M,K] B:f32[K,N]`."""
    at, out = 0, []
    while at < len(text.rstrip()):
        match = _ARRAY.match(text, at)
        if match is None:
            raise _unreadable(whole or text, text[at:].strip())
        sizes = tuple(part.strip() for part in split(match[3]) if part.strip())
        out.append(
            ArraySpec(match[1], dtypes.find(match[2]), sizes, _within(match[4], whole or text))
        )
        at = match.end()
    return tuple(out)


def _within(text: str | None, whole: str) -> tuple[str, str] | None:
    """The bounds of a range `0..M-1`, both included."""
    if text is None:
        return None
    low, dots, high = text.partition("..")
    if not (low and dots and high):
        raise _unreadable(whole, f"in {text}")
    return low, high


def split(text: str) -> list[str]:
    """Split at commas outside of parentheses."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def _unreadable(signature: str, part: str) -> ArgumentError:
    return ArgumentError(
        "an operation's signature cannot be read",
        where=repr(signature),
        got=repr(part),
        allowed="inputs -> outputs, each name:type[sizes]: A:f32[M,K] B:f32[K,N] -> C:f32[M,N]",
    )


def call(function: Callable[..., Any], arguments: Mapping[str, Any], order: Sequence[str]) -> Any:
    """Call a function with arguments by parameter name if all names match, else by position."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built in: no signature
        return function(*(arguments[name] for name in order))
    # `**kwargs` takes everything by name.
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function(**arguments)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function(*(arguments[name] for name in order))
    wanted = [p for p in parameters if p.default is p.empty or p.name in arguments]
    # Names match: the order of parameters is free.
    if all(p.name in arguments for p in wanted):
        return function(**{p.name: arguments[p.name] for p in wanted})
    return function(*(arguments[name] for name in order[: len(wanted)]))
