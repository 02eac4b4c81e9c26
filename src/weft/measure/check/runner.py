"""Calls a subject on guarded arrays and returns the contents of all arrays after the call.

A `LocalRunner` calls the subject in this process; `workers/remote.py` has a runner that calls it in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.errors import CheckFailed
from weft.measure.check import buffers
from weft.measure.check.buffers import Guarded, Library
from weft.measure.dtypes import Array, DType


@dataclass(frozen=True)
class SubjectArray:
    """An array of a subject.

    free  any value of its type may be put in: an index, say, may not
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    free: bool = True

    @property
    def movable(self) -> bool:
        """May its values be moved a little? Moved indices would be out of bounds."""
        return self.dtype.floating or self.free


class Stored(NamedTuple):
    """Results as bits, with the type that they have in their own library."""

    bits: Array
    dtype: DType


@dataclass(frozen=True)
class RunResult:
    """What a call left.

    before  what the outputs held when it was asked for, before anything was put in
    early   the outputs, read in the order of the current stream
    late    the same, when everything is done on all streams
    inputs  what is in the other arrays
    guards  what is around each array
    """

    before: Mapping[str, Array]
    early: Mapping[str, Stored]
    late: Mapping[str, Stored]
    inputs: Mapping[str, Array]
    guards: Mapping[str, Array]


class Runner(Protocol):
    """Holds the arrays of a subject; they stay where they are from call to call."""

    @property
    def name(self) -> str:
        """The library of the arrays and the device: "PyTorch on cuda"."""

    @property
    def given(self) -> Mapping[str, Any]:
        """The arrays themselves, where they are in this process."""

    @property
    def guards(self) -> Mapping[str, Array]:
        """What was put around each array."""

    def run(self, contents: Mapping[str, Array], trial: str) -> RunResult:
        """Fills arrays, calls the subject; arrays that are not named are left as they are."""

    def outputs(self) -> Mapping[str, Array]:
        """What the outputs hold now."""


class LocalRunner:
    """A subject that is called in this process."""

    def __init__(
        self,
        call: Callable[[Mapping[str, Any]], Any],
        inputs: Sequence[SubjectArray],
        outputs: Sequence[SubjectArray],
        library: Library,
        guards: Mapping[str, Array] | None = None,
    ) -> None:
        places = {p.name: p for p in (*inputs, *outputs)}
        self.name, self._call, self._library = library.name, call, library
        self._filled = [p.name for p in outputs]
        self.guards = guards or {n: buffers.new_guards() for n in places}
        self._arrays = {
            n: Guarded(library, p.dtype, p.shape, self.guards[n]) for n, p in places.items()
        }
        self.given = {name: g.array for name, g in self._arrays.items()}

    def run(self, contents: Mapping[str, Array], trial: str) -> RunResult:
        before = self.outputs()
        for name, stored in contents.items():
            self._arrays[name].write(stored)
        self._library.wait()
        with np.errstate(all="ignore"):  # special values are meant to overflow
            returned = self._call(self.given)
        early = self._results(returned)
        self._library.wait()
        return RunResult(
            before,
            early,
            self._results(returned),
            {n: a.read() for n, a in self._arrays.items() if n not in self._filled},
            {n: a.guards() for n, a in self._arrays.items()},
        )

    def outputs(self) -> Mapping[str, Array]:
        return {name: self._arrays[name].read() for name in self._filled}

    def _results(self, returned: Any) -> dict[str, Stored]:
        if self._filled:
            return {n: Stored(self._arrays[n].read(), self._arrays[n].dtype) for n in self._filled}
        if returned is None:
            raise CheckFailed(
                "the callable returned nothing, and no output is named",
                next=f"say which argument is the output: out={list(self._arrays)[-1]}"
                if self._arrays
                else "return the result, or fill an array that is named by out=",
            )
        items = returned if isinstance(returned, tuple | list) else (returned,)
        names = ("result", *(f"result {i}" for i in range(1, len(items))))
        return {
            n: Stored(buffers.bits(item), buffers.dtype_of(item))
            for n, item in zip(names, items, strict=True)
        }
