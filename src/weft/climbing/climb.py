"""Climbs a ladder: compiles, checks and profiles or times every rung."""

from __future__ import annotations

import contextlib
import importlib
import queue
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.climbing import counters, timing
from weft.climbing.floors import floors
from weft.climbing.ladder import Ladder
from weft.climbing.records import Climb
from weft.climbing.rung import Rung, Runner
from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.device.sim.run.host_threads import thread_count
from weft.errors import Error, MissingDependency
from weft.installation import pip_install
from weft.measure import Profile, dtypes
from weft.measure.bench.bench import to_time
from weft.measure.check import buffers, input_data, user_file
from weft.measure.check.check import check
from weft.measure.op import Op
from weft.measure.profile.prediction.duration import duration
from weft.measure.profile.profile import profile
from weft.measure.profile.session import Recording, recording
from weft.progress import Notify
from weft.values.climb import RungResult


def climb(
    ladder: Ladder,
    *,
    device: str | Selection = "sim",
    to: int | None = None,
    progress: Notify = lambda what: None,
) -> Climb:
    """Climbs a ladder: checks and profiles rungs on the simulator, and times them on a GPU."""
    chosen = [r for r in ladder.rungs if to is None or r.number <= to]
    where = to_time(device)
    where.require(
        "time on", next="--device sim checks and counts; --from FILE shows what was timed elsewhere"
    )
    model = where.model
    if not where.real:
        results = _climb_concurrently(ladder.op, chosen, model, progress)
        return Climb(
            ladder.op.name, where.word, model.name, tuple(results), floors=floors(ladder.op, model),
            counted=repr(ladder.op.cases[0]), precision=ladder.op.inputs[0].dtype.name,
        )  # fmt: skip
    results, ready = [], []
    for rung in chosen:
        progress(rung.title)
        result, runner = _try(ladder.op, rung, "gpu", model)
        results.append(result)
        if runner is not None and result.right:
            ready.append((rung, runner))
    # Needs PyTorch and a GPU.
    timings = timing.time_rungs(ladder.op, ready, model, progress)
    timed = tuple(
        RungResult(**{**vars(r), "times": timings.rungs.get(r.number, ())}) for r in results
    )
    return Climb(
        ladder.op.name, where.word, timings.machine["gpu"], timed, timings.peers, timings.limits,
        timings.machine, precision=ladder.op.inputs[0].dtype.name,
    )  # fmt: skip


def _climb_concurrently(
    op: Op, rungs: Sequence[Rung], model: GpuModel, progress: Notify
) -> list[RungResult]:
    """Run rungs on the simulator in threads: LLVM takes most of the time and releases the GIL."""
    _parse_ahead(op, rungs, model.sms)
    alone = threading.Lock()  # Triton calls ast.parse, which is not thread-safe in Python 3.11

    def climb_rung(rung: Rung) -> RungResult:
        turn = alone if rung.path.suffix == ".py" else contextlib.nullcontext()
        with turn, drafts():  # arrays are small, so a fast compile matters more than fast code
            return _try(op, rung, "sim", model)[0]

    waiting = list(rungs)  # taken from the end: later rungs take longer
    done: queue.SimpleQueue[tuple[int, RungResult | BaseException]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            try:
                rung = waiting.pop()
            except IndexError:
                return
            try:
                done.put((rung.number, climb_rung(rung)))
            except BaseException as error:  # includes SystemExit: the main thread must learn of it
                done.put((rung.number, error))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(thread_count())]
    for thread in workers:
        thread.start()
    results: dict[int, RungResult] = {}
    titles = {rung.number: rung.title for rung in rungs}
    try:
        while len(results) < len(rungs):
            number, reached = done.get()
            if isinstance(reached, BaseException):
                raise reached
            progress(titles[number])
            results[number] = reached
    except BaseException as error:
        waiting.clear()
        if not isinstance(error, KeyboardInterrupt):  # Ctrl-C must not wait for LLVM
            for thread in workers:
                thread.join()
        raise
    return [results[rung.number] for rung in rungs]


def _parse_ahead(op: Op, rungs: Sequence[Rung], sms: int) -> None:
    """Compile all expressions before threads start; errors are reported by their rungs later."""
    for case in op.cases:
        _ = [spec.shape(case) for spec in (*op.inputs, *op.outputs)], op.terms(case)
        sizes = {**case.sizes, "sms": sms}
        for rung in rungs:
            with contextlib.suppress(Error):
                _ = list(rung.dims(sizes)), list(rung.scratch_shapes(sizes))


def _try(op: Op, rung: Rung, device: str, model: GpuModel) -> tuple[RungResult, Runner | None]:
    header: dict[str, Any] = {
        "number": rung.number,
        "name": rung.name,
        "idea": rung.idea,
        "language": rung.language,
        "precision": rung.precision,
    }
    if model.compute_capability < rung.needs:
        needs, given = ("sm_{}{}".format(*c) for c in (rung.needs, model.compute_capability))
        return RungResult(**header, missing=f"needs {needs}; {model.name} is {given}"), None
    try:
        prepare(rung, device)
        runner = Runner(rung, op, sms=model.sms, empty=zeros)
        check(op, runner, device=device, arrays=rung.arrays)
        facts: Mapping[str, float] = {}
        predicted = 0.0
        if device == "sim":
            facts, predicted = count(op, runner, model)
            counters.verify(str(rung.path.name), rung.expect, facts)
        return RungResult(**header, facts=facts, predicted=predicted), runner
    except MissingDependency as error:
        return RungResult(**header, missing=str(error)), None
    except Exception as error:  # a rung is user code: any exception is its failure
        return RungResult(**header, right=False, error=user_file.words(rung.path, error)), None


def prepare(rung: Rung, device: str) -> None:
    """Import the array library of the rung, and weft's driver for Triton or Numba."""
    wanted = rung.arrays == "torch" or (device == "gpu" and rung.arrays != "numpy")
    if wanted and "torch" not in sys.modules:
        try:
            importlib.import_module("torch")
        except ModuleNotFoundError as error:
            extra = "triton" if rung.language == "Triton" else "torch"  # which includes torch
            raise MissingDependency(
                f"{rung.title} needs PyTorch", next=pip_install(extra)
            ) from error
    if rung.language == "Triton":
        import weft.triton
    elif rung.language == "Numba":
        import weft.numba  # noqa: F401


def count(op: Op, runner: Runner, model: GpuModel) -> tuple[dict[str, float], float]:
    """The counters of a rung on the first case, and its predicted seconds.

    Both are empty if it launches no kernel.
    """
    if runner.rung.language == "Python":  # slow CPU loops without kernels
        return {}, 0.0
    profiles, results = profiled(op, runner, model)
    if not profiles:
        return {}, 0.0
    return counters.facts(profiles, results), sum(p.launches * duration(p) for p in profiles)


def profiled(op: Op, runner: Runner, model: GpuModel) -> tuple[list[Profile], int]:
    """The profiles of a rung's launches on the first case, and the number of its results."""
    case = op.cases[0]
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {s.name: op.data(s, case, rng, input_data.random) for s in op.inputs}
    arrays |= {s.name: np.zeros(s.shape(case), s.dtype.numpy) for s in op.outputs}
    # A reduction has one result: then counters are per input.
    results = max(arrays[s.name].size for s in (*op.outputs, *op.inputs[:1]))
    if runner.rung.path.suffix == ".cu":
        profiles = [
            profile(launch, *args, device=Selection(key=model.key))
            for launch, args in runner.launches({**arrays, **case.sizes})
        ]
    else:
        if runner.rung.arrays == "torch":
            arrays = {
                s.name: buffers.copied(arrays[s.name], s.dtype, buffers.torch("cpu"))
                for s in (*op.inputs, *op.outputs)
            }
        with recording(Recording(model.key), one_thread=True) as recorded:
            runner(**arrays, **case.sizes)
        profiles = recorded.profiles
    return profiles, results


def zeros(dtype: str, shape: tuple[int, ...], like: Any) -> Any:
    """A new array of zeros in the library and on the device of another array."""
    element = dtypes.find(dtype)
    if type(like).__module__.split(".")[0] == "torch":
        torch = sys.modules["torch"]
        return torch.zeros(shape, dtype=getattr(torch, element.torch), device=like.device)
    return np.zeros(shape, element.numpy)
