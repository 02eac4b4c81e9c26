"""Implements `weft bench`: compares solutions with peers; timed on a GPU, else profiled.

The result is a `Climb` whose contenders have negative numbers instead of rung numbers, so records,
tables and pages serve both commands.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.climbing import counters
from weft.climbing.climb import climb
from weft.climbing.floors import floors
from weft.climbing.ladder import Ladder
from weft.climbing.recorded_times import with_recorded
from weft.climbing.records import Climb
from weft.climbing.rung import Rung
from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.errors import ArgumentError, Error
from weft.measure.check import input_data, user_file
from weft.measure.check.check import check
from weft.measure.op import Op, call
from weft.measure.profile.session import Recording, recording
from weft.progress import Notify
from weft.values.climb import RungResult

Solution = Callable[..., Any]


def bench_ladder(ladder: Ladder, *, device: Selection, progress: Notify) -> Climb:
    """Benchmark the rungs of a ladder."""
    peers(ladder.op)
    result = climb(ladder, device=device, progress=progress)
    return result if device.real else with_recorded(ladder, result)


def bench_file(
    op: Op, solutions: Mapping[str, Solution], *, device: Selection, progress: Notify
) -> Climb:
    """Benchmark the solutions of an operation in a file."""
    model, timed = device.model, device.real
    peers(op)
    if timed and not op.bench:
        raise ArgumentError(
            f"{op.name} has no sizes to time on",
            next=f"weft.Op('{op.name}', ..., bench=[weft.Case(...)])",
        )
    reached, ready = [], []
    for number, (name, solution) in enumerate(solutions.items()):
        progress(name)
        entry = _contender(-1 - number, name, op.precisions.get(name, "f32"))
        judged = _judged(op, entry, solution, model, timed)
        reached.append(judged)
        if judged.right:
            ready.append((entry, _by_name(op, solution)))
    precision = op.inputs[0].dtype.name
    if not timed:
        return Climb(
            op.name, device.word, model.name, tuple(reached), precision=precision,
            floors=floors(op, model), counted=repr(op.cases[0]),
        )  # fmt: skip
    from weft.climbing import timing

    result = timing.time_rungs(op, ready, model, progress)
    rungs = tuple(replace(r, times=result.rungs.get(r.number, ())) for r in reached)
    more = (result.peers, result.limits, result.machine)
    return Climb(op.name, device.word, result.machine["gpu"], rungs, *more, precision=precision)


def peers(op: Op) -> None:
    """Validate peer expressions early: they run on a GPU only, after minutes of other work."""
    names = [s.name for s in op.inputs]
    for text in op.peers:
        try:
            tree = ast.parse(text.removeprefix("compile: ").strip(), mode="eval")
        except SyntaxError as error:
            wrong = f"{text} ({error.msg})"
        else:
            names_allowed = {"torch", *names, *dir(builtins)}
            # Parameters of a lambda are defined by the expression itself.
            names_allowed |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
            used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            if used <= names_allowed:
                continue
            wrong = f"{text} (what is {', '.join(sorted(used - names_allowed))}?)"
        raise ArgumentError(
            "a peer is an expression of torch and the inputs",
            where=op.name,
            got=wrong,
            allowed=f"torch, {', '.join(names)}; 'compile: ...' for torch.compile",
        )


# ---- one contender ---------------------------------------------------------------------------
def _contender(number: int, name: str, precision: str) -> Rung:
    # A contender is a rung without launches: only its number, name and precision are used.
    return Rung(number, name, Path(name), "", (), (), (), (), "", precision, "", {})


def _by_name(op: Op, solution: Solution) -> Solution:
    order = [s.name for s in (*op.inputs, *op.outputs)]

    def run(**arguments: Any) -> Any:
        return call(solution, arguments, [*order, *(n for n in arguments if n not in order)])

    return run


def _judged(op: Op, entry: Rung, solution: Solution, model: GpuModel, timed: bool) -> RungResult:
    """Check a solution, and profile it on the simulator if nothing is timed."""
    idea = (solution.__doc__ or "").strip().partition("\n")[0]
    header = (entry.number, entry.name, idea, "", entry.precision)
    try:
        with drafts():
            check(op, solution, device="gpu" if timed else "sim")
            return RungResult(*header, facts={} if timed else _counted(op, solution, model))
    except Exception as error:  # a solution is user code: any exception is its failure
        return RungResult(*header, right=False, error=_words(solution, error))


def _words(solution: Solution, error: Exception) -> str:
    code = getattr(solution, "__code__", None)  # only functions have a file
    if isinstance(error, Error) or code is None:
        return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    path = Path(code.co_filename)
    short = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return user_file.words(short, error)


def _counted(op: Op, solution: Solution, model: GpuModel) -> dict[str, float]:
    """The counters on the first case; empty if it launches no kernel."""
    case, rng = op.cases[0], np.random.default_rng(0)
    arrays = {s.name: op.data(s, case, rng, input_data.random) for s in op.inputs}
    arrays |= {s.name: np.zeros(s.shape(case), s.dtype.numpy) for s in op.outputs}
    with recording(Recording(model.key)) as recorded:
        _by_name(op, solution)(**arrays, **case.sizes)
    results = max(a.size for a in _results(op, arrays))
    return counters.facts(recorded.profiles, results) if recorded.profiles else {}


def _results(op: Op, arrays: Mapping[str, Any]) -> Sequence[Any]:
    return [arrays[s.name] for s in (*op.outputs, *op.inputs[:1])]
