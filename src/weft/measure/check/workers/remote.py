"""Accesses operations and solutions in workers; every answer is validated before use.

If the reference does not answer, the operation cannot be checked (ArgumentError). If a solution
does not answer, it is wrong (CheckFailed).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from weft.errors import ArgumentError, CheckFailed
from weft.measure.check import buffers
from weft.measure.check.diagnosis import Cause
from weft.measure.check.harness import Reference
from weft.measure.check.runner import RunResult, Stored, SubjectArray
from weft.measure.check.workers.process import CheckWorker, NoAnswer, Raised, plain
from weft.measure.dtypes import Array, Filling
from weft.measure.op import ArraySpec, Case, Op

_EVIDENCE = 2000
"""The most characters of a finding: it quotes two source lines."""


class RemoteFile:
    """A file's operations as its reference worker describes them.

    trusted  the file that defines the operations, if it is another one: the reference
             worker imports nothing else
    """

    def __init__(self, path: Path, worker: CheckWorker, trusted: Path | None = None) -> None:
        self.path, self._worker, self._trusted = trusted or path, worker, trusted
        self.asked: dict[str, Any] = {"path": str(path.absolute())}
        if trusted is not None:
            self.asked["trusted"] = str(trusted.absolute())
        answer, _ = self.request("load", path=str(self.path.absolute()))
        with self._readable():
            self.ops = [_operation(row) for row in answer["ops"]]

    def names(self, worker: CheckWorker) -> list[tuple[str, Sequence[str]]]:
        """(operation, its solutions); with a trusted file, `worker` imports the solutions' file."""
        declared: list[tuple[str, Sequence[str]]] = [
            (op.name, solutions) for op, solutions in self.ops
        ]
        if self._trusted is None:
            return declared
        try:
            answer, _ = worker.request("load", **self.asked)
        except NoAnswer as error:
            where = str(self.asked["path"])
            raise ArgumentError("the file gives no answer", where=where, got=str(error)) from None
        except Raised as error:
            raise ArgumentError(**(error.parts or {"what": error.text})) from None
        with self._readable():
            rows = {str(row["name"]): tuple(map(plain, row["solutions"])) for row in answer["ops"]}
        return [(name, rows.get(name, ())) for name, _ in declared]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (KeyError, TypeError, AttributeError) as error:
            raise self._useless(NoAnswer(f"its operations cannot be read: {error!r}")) from None

    def reference(self, number: int, case: Case) -> Reference:
        def answers(many: Sequence[Mapping[str, Array]]) -> Sequence[Sequence[Array]]:
            where = f"{self.ops[number][0].name}, {case}"
            inputs = {f"{i}/{n}": a for i, one in enumerate(many) for n, a in one.items()}
            answer, arrays = self.request(
                "reference", inputs, where, op=number, sizes=case.sizes, sets=len(many)
            )
            try:
                counts = answer["counts"]
                results = [[arrays[f"{i}/{j}"] for j in range(counts[i])] for i in range(len(many))]
            except (KeyError, IndexError, TypeError) as error:
                raise self._useless(NoAnswer(f"its answer cannot be read: {error!r}")) from None
            return results

        return answers

    def fill(self, number: int, case: Case, index: int, seed: int) -> Array:
        op = self.ops[number][0]
        where = f"{op.name}, fill of '{op.inputs[index].name}'"
        _, arrays = self.request(
            "fill", {}, where, op=number, sizes=case.sizes, index=index, seed=seed
        )
        return op.checked(op.inputs[index], case, arrays["data"])

    def request(
        self, do: str, arrays: Mapping[str, Array] | None = None, what: str = "", **more: Any
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        try:
            return self._worker.request(do, arrays, **more)
        except NoAnswer as error:
            raise self._useless(error, what) from None
        except Raised as error:
            if error.parts is not None:
                raise ArgumentError(**error.parts) from None
            raise ArgumentError(
                f"the reference raises {error.kind}: {what}",
                where=error.where,
                got=error.text,
                next="the reference gets float64 arrays, and integers as they are",
            ) from None

    def _useless(self, error: NoAnswer, what: str = "") -> ArgumentError:
        return ArgumentError(
            f"the reference gives no answer{f': {what}' if what else ''}",
            where=str(self.path),
            got=str(error),
        )


def _operation(row: Any) -> tuple[Op, tuple[str, ...]]:
    """The operation described by a worker; its functions stay in the worker."""
    cases = []
    for case in row["cases"]:
        cases.append(Case.of({str(n): int(size) for n, size in case["sizes"].items()}))
        cases[-1].why = plain(str(case["why"]))
    op = Op(
        plain(str(row["name"])),
        str(row["signature"]),
        _elsewhere,
        cases,
        reduce=str(row["reduce"]),
        accumulate=str(row["accumulate"]),
        fill=dict.fromkeys(map(str, row["fill"]), _elsewhere),
        vary=None
        if row["vary"] is None
        else {str(n): (int(ends[0]), int(ends[1])) for n, ends in row["vary"].items()},
    )
    return op, tuple(map(plain, row["solutions"]))


def _elsewhere(*args: Any) -> NoReturn:
    raise AssertionError("the user's functions are called in a worker")


class RemoteSolution:
    """One solution in its own worker: a `Provider` for `subjects.op_trials`."""

    def __init__(
        self,
        file: RemoteFile,
        worker: CheckWorker,
        number: int,
        solution: str,
        name: str,
        device: str,
        rng: np.random.Generator,
    ) -> None:
        self.file, self.worker, self.number, self.solution = file, worker, number, solution
        self.title, self.device, self.rng = name, device, rng
        self.prepared = 0

    def load(self) -> None:
        self.request("load", "import", **self.file.asked)

    def request(
        self, do: str, trial: str, arrays: Mapping[str, Array] | None = None, **more: Any
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        try:
            return self.worker.request(do, arrays, **more)
        except NoAnswer as error:
            raise CheckFailed(
                f"{self.title} gives no answer", where=trial, got=str(error)
            ) from None
        except Raised as error:
            if do == "prepare" and error.parts is not None:  # the solution has not run yet
                raise ArgumentError(**error.parts) from None
            if error.kind == "SystemExit":
                what, got = f"{self.title} ends the program", f"SystemExit({error.text})"
            else:
                what, got = f"{self.title} raises {error.kind}", error.text
            raise CheckFailed(what, where=trial, got=got, next=f"see {error.where}") from None

    def rest(self) -> None:
        """Wait until no thread of the solution sleeps that may wake up after the check."""
        if not self.worker.rest():
            raise CheckFailed(
                f"{self.title} leaves a thread behind that sleeps",
                where="at the end",
                got="it would wake up after the check and can change results then",
                next="end all threads before the call returns, or let them wait without a time",
            )

    def data(self, spec: ArraySpec, case: Case, filling: Filling) -> Array:
        op = self.file.ops[self.number][0]
        if spec.name not in op.fill:
            return op.data(spec, case, self.rng, filling)
        seed = int(self.rng.integers(2**62))
        return self.file.fill(self.number, case, op.inputs.index(spec), seed)

    def reference(self, case: Case) -> Reference:
        return self.file.reference(self.number, case)

    def runner(
        self, case: Case, inputs: Sequence[SubjectArray], outputs: Sequence[SubjectArray]
    ) -> RemoteArrays:
        return RemoteArrays(self, case, inputs, outputs)


class RemoteArrays:
    """A `Runner` whose arrays are in the solution's process."""

    def __init__(
        self,
        solution: RemoteSolution,
        case: Case,
        inputs: Sequence[SubjectArray],
        outputs: Sequence[SubjectArray],
    ) -> None:
        self._solution, self._outputs = solution, {p.name: p for p in outputs}
        self._inputs = {p.name: p for p in inputs if p.name not in self._outputs}
        # The judge draws the guards and compares them itself: the worker's answer is not trusted.
        self.guards = {n: buffers.new_guards() for n in (*self._inputs, *self._outputs)}
        self.given: Mapping[str, Any] = {}
        answer, _ = solution.request(
            "prepare", repr(case), self.guards,
            op=solution.number, sizes=case.sizes, solution=solution.solution,
            device=solution.device,
        )  # fmt: skip
        self._number = solution.prepared
        solution.prepared += 1
        self.name = plain(str(answer.get("library")))

    def run(self, contents: Mapping[str, Array], trial: str, schedule: str = "") -> RunResult:
        _, arrays = self._solution.request(
            "call", trial, contents, runner=self._number, schedule=schedule
        )
        guards = {f"guard/{n}": (g.dtype, g.shape) for n, g in self.guards.items()}
        wanted = {
            **{
                f"{when}/{n}": (p.dtype.numpy, p.shape)
                for when in ("before", "early", "late")
                for n, p in self._outputs.items()
            },
            **{f"input/{n}": (p.dtype.numpy, p.shape) for n, p in self._inputs.items()},
            **guards,
        }
        self._whole(arrays, wanted, trial)
        early, late = (
            {n: Stored(arrays[f"{when}/{n}"], p.dtype) for n, p in self._outputs.items()}
            for when in ("early", "late")
        )
        return RunResult(
            {n: arrays[f"before/{n}"] for n in self._outputs},
            early,
            late,
            {n: arrays[f"input/{n}"] for n in self._inputs},
            {n: arrays[f"guard/{n}"] for n in self.guards},
        )

    def diagnose(self, contents: Mapping[str, Array], schedule: str = "") -> Cause | None:
        try:
            answer, _ = self._solution.request(
                "diagnose", "", contents, runner=self._number, schedule=schedule
            )
        except CheckFailed:  # the solution is wrong already; that failure is the one to report
            return None
        match answer.get("cause"):
            case [str(name), str(evidence)]:
                return Cause(plain(name), plain(evidence, _EVIDENCE))
        return None

    def outputs(self) -> Mapping[str, Array]:
        _, arrays = self._solution.request("outputs", "", runner=self._number)
        self._whole(arrays, {n: (p.dtype.numpy, p.shape) for n, p in self._outputs.items()}, "")
        return arrays

    def _whole(self, arrays: Mapping[str, Array], wanted: Mapping[str, Any], trial: str) -> None:
        """Raise unless an answer has exactly the expected arrays."""
        if {n: (a.dtype, a.shape) for n, a in arrays.items()} != dict(wanted):
            raise CheckFailed(
                f"{self._solution.title} gives no answer",
                where=trial,
                got="its answer cannot be read: other arrays than were asked for",
            )
