"""Runs in a worker process: imports the user's file and answers requests of the judge.

A worker receives only the inputs of each request, never the expected results.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weft.device.selection import select
from weft.errors import Error
from weft.measure.check import limits, subjects, user_file
from weft.measure.check.runner import LocalRunner, SubjectArray
from weft.measure.check.workers import wire
from weft.measure.dtypes import Array
from weft.measure.op import Case, Op

Answer = tuple[dict[str, Any], dict[str, Array]]


class Served:
    """The operations of a file and the solution under check."""

    def __init__(self) -> None:
        self.path = Path()
        self._ops: list[Op] = []
        self._runners: list[LocalRunner] = []

    def load(self, arrays: Mapping[str, Array], path: str, trusted: str = "") -> Answer:
        """Load the solutions of `path`, for the operations of `trusted` if it is set."""
        self.path = Path(path)
        self._ops = (
            user_file.solved(Path(trusted), self.path)
            if trusted
            else user_file.operations(self.path)
        )
        return {"ops": [_described(op) for op in self._ops]}, {}

    def fill(
        self, arrays: Mapping[str, Array], op: int, sizes: Mapping[str, int], index: int, seed: int
    ) -> Answer:
        operation = self._ops[op]
        rng = np.random.default_rng(seed)
        return {}, {"data": operation.own_data(operation.inputs[index], Case.of(sizes), rng)}

    def reference(
        self, arrays: Mapping[str, Array], op: int, sizes: Mapping[str, int], sets: int
    ) -> Answer:
        """`given` has the inputs of all sets: "3/x" is input x of the fourth set."""
        operation = self._ops[op]
        many: list[dict[str, Array]] = [{} for _ in range(sets)]
        for name, array in arrays.items():
            number, _, plain = name.partition("/")
            many[int(number)][plain] = array
        with np.errstate(all="ignore"):
            answers = subjects.answering(operation, Case.of(sizes))(many)
        counts = [len(results) for results in answers]
        named = {
            f"{i}/{j}": _plain(result)
            for i, results in enumerate(answers)
            for j, result in enumerate(results)
        }
        return {"counts": counts}, named

    def prepare(
        self,
        arrays: Mapping[str, Array],
        op: int,
        sizes: Mapping[str, int],
        solution: str,
        device: str,
    ) -> Answer:
        """`given` has the guards of all arrays; `runner` numbers them in later requests."""
        operation = self._ops[op]
        at = Case.of(sizes)
        inputs, outputs = (
            [SubjectArray(s.name, s.dtype, s.shape(at)) for s in side]
            for side in (operation.inputs, operation.outputs)
        )
        call = subjects.calling(operation, operation.solutions[solution], at)
        chosen = select(device)
        library = subjects.library_for(chosen)
        limits.enforce(chosen)
        # The arrays of all cases stay: the judge compares them again at the end.
        self._runners.append(LocalRunner(call, inputs, outputs, library, arrays))
        return {"library": library.name}, {}

    def call(self, arrays: Mapping[str, Array], runner: int, schedule: str) -> Answer:
        ran = self._runners[runner].run(arrays, "", schedule)
        return {}, {
            **{f"before/{n}": bits for n, bits in ran.before.items()},
            **{f"early/{n}": stored.bits for n, stored in ran.early.items()},
            **{f"late/{n}": stored.bits for n, stored in ran.late.items()},
            **{f"input/{n}": bits for n, bits in ran.inputs.items()},
            **{f"guard/{n}": bits for n, bits in ran.guards.items()},
        }

    def diagnose(self, arrays: Mapping[str, Array], runner: int, schedule: str) -> Answer:
        cause = self._runners[runner].diagnose(arrays, schedule)
        return {"cause": [cause.name, cause.evidence] if cause else []}, {}

    def outputs(self, arrays: Mapping[str, Array], runner: int) -> Answer:
        return {}, dict(self._runners[runner].outputs())


def _described(op: Op) -> dict[str, Any]:
    return {
        "name": op.name,
        "signature": op.signature,
        "cases": [{"why": c.why, "sizes": c.sizes} for c in op.cases],
        "reduce": op.reduce,
        "accumulate": op.accumulate,
        "fill": list(op.fill),
        "vary": None if op.vary is None else {n: list(ends) for n, ends in op.vary.items()},
        "solutions": list(op.solutions),
    }


def _plain(result: Any) -> Array:
    """Convert a result of the reference to NumPy; wider floats become float64."""
    array = np.asarray(result.detach().cpu() if hasattr(result, "detach") else result)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the result has dtype {array.dtype}; allowed: float, int, bool")
    return array


def _error(path: Path, error: BaseException) -> dict[str, Any]:
    parts = {}
    if isinstance(error, Error):
        names = ("what", "where", "got", "allowed", "next")
        parts = {name: getattr(error, name) for name in names}
    text = repr(error.code) if isinstance(error, SystemExit) else str(error)
    return {
        "kind": type(error).__name__,
        "text": text[:20_000],
        "where": user_file.place(path, error),
        "parts": parts,
    }


def serve(connection: socket.socket) -> None:
    """Answers requests until the judge closes the connection."""
    served = Served()
    do: dict[str, Callable[..., Answer]] = {
        "load": served.load,
        "fill": served.fill,
        "reference": served.reference,
        "prepare": served.prepare,
        "call": served.call,
        "diagnose": served.diagnose,
        "outputs": served.outputs,
    }
    while (asked := wire.receive(connection, files=1)) is not None:
        message, (file,) = asked
        answer: dict[str, Any] = {"id": message.pop("id")}
        arrays: dict[str, Array] = {}
        try:
            arrays_in = wire.get(file, message.pop("arrays"))
            more, arrays = do[message.pop("do")](arrays_in, **message)
            answer |= more
        except BaseException as error:  # user code may raise anything
            answer["error"] = _error(served.path, error)
        answer["arrays"] = wire.put(file, arrays)
        os.close(file)
        wire.send(connection, answer)
