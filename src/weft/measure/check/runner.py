"""Calls a subject on guarded arrays and returns the contents of all arrays after the call.

A `LocalRunner` calls the subject in this process; `workers/remote.py` has a runner that calls it in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.device.sim import schedules
from weft.errors import CheckFailed
from weft.measure.check import buffers, diagnosis
from weft.measure.check.buffers import Guarded, Library
from weft.measure.check.diagnosis import Cause
from weft.measure.dtypes import Array, DType


@dataclass(frozen=True)
class SubjectArray:
    """One array argument of a subject.

    free  True if any value of its type is valid; False for an index, for example
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    free: bool = True

    @property
    def movable(self) -> bool:
        """True if its values may be changed slightly. Changed indices could be out of bounds."""
        return self.dtype.floating or self.free


class Stored(NamedTuple):
    """Results as stored bits, with their element type."""

    bits: Array
    dtype: DType


@dataclass(frozen=True)
class RunResult:
    """The state after a call.

    before  the outputs before the run wrote anything
    early   the outputs, read in stream order
    late    the outputs after all streams have finished
    inputs  the other arrays
    guards  the guards of each array
    """

    before: Mapping[str, Array]
    early: Mapping[str, Stored]
    late: Mapping[str, Stored]
    inputs: Mapping[str, Array]
    guards: Mapping[str, Array]


class Runner(Protocol):
    """Calls a subject. Its arrays keep their addresses from call to call."""

    @property
    def name(self) -> str:
        """The library of the arrays and the device: "PyTorch on cuda:0"."""

    @property
    def given(self) -> Mapping[str, Any]:
        """The arrays, if they are in this process."""

    @property
    def guards(self) -> Mapping[str, Array]:
        """The initial bytes of each array's guards."""

    def run(self, contents: Mapping[str, Array], trial: str, schedule: str = "") -> RunResult:
        """Fill the named arrays and call the subject; other arrays keep their contents.

        schedule  the schedule of its launches on the simulated GPU
        """

    def outputs(self) -> Mapping[str, Array]:
        """The current contents of the outputs."""

    def diagnose(self, contents: Mapping[str, Array], schedule: str = "") -> Cause | None:
        """The sanitizer's finding in a call with these contents."""


class LocalRunner:
    """Calls a subject in this process."""

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

    def run(self, contents: Mapping[str, Array], trial: str, schedule: str = "") -> RunResult:
        before = self.outputs()
        for name, stored in contents.items():
            self._arrays[name].write(stored)
        self._library.wait()
        # special inputs overflow on purpose
        with np.errstate(all="ignore"), schedules.named(schedule):
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

    def diagnose(self, contents: Mapping[str, Array], schedule: str = "") -> Cause | None:
        return diagnosis.diagnose(lambda: self.run(contents, "", schedule))

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
