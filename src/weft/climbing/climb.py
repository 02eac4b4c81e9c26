"""Climbs a ladder: compiles, checks and profiles or times every rung."""

from __future__ import annotations

import contextlib
import importlib
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.climbing import counters, timing
from weft.climbing.floors import floors
from weft.climbing.ladder import Ladder
from weft.climbing.rung import Rung, Runner
from weft.climbing.times import Progress, Time
from weft.device.models import GpuModel
from weft.device.selection import Selection
from weft.device.sim.run.draft import drafts
from weft.device.sim.run.launch import thread_count
from weft.errors import Error, MissingDependency, pip_install
from weft.measure import Profile, dtypes
from weft.measure.bench.bench import to_time
from weft.measure.check import buffers, input_data, user_file
from weft.measure.check.check import check
from weft.measure.op import Op
from weft.measure.profile.profile import profile
from weft.measure.profile.session import Recording, recording
from weft.report.profile import write


@dataclass(frozen=True)
class RungResult:
    """The result of one rung, or of a contender of `weft bench`, whose number is negative.

    number, name  its place on the ladder and what it is called
    idea          what it does differently from the rung before
    language      "CUDA C++", "Triton", "Numba" or "Python"
    precision     what it computes in, e.g. "f32"
    right         whether its results are correct and its counters are as its header states
    error         why it is wrong
    missing       why it could not be run, e.g. a package that is not installed
    facts         counters of the simulator, on the first case
    times         its times; on the simulated GPU the recorded ones

    >>> rung = weft.climb("vecadd", to=0).rungs[0]
    >>> print(rung.title, rung.language, rung.right)
    00 one thread CUDA C++ True
    """

    number: int
    name: str
    idea: str
    language: str
    precision: str
    right: bool = True
    error: str = ""
    missing: str = ""
    facts: Mapping[str, float] = field(default_factory=dict)
    times: tuple[Time, ...] = ()

    @property
    def title(self) -> str:
        """Its number and name: "00 naive"."""
        return f"{self.number:02} {self.name}" if self.number >= 0 else self.name


@dataclass(frozen=True)
class Climb:
    """The result of `weft.climb`. `print` shows every rung; `save` writes a page or a record.

    ladder     the ladder's name
    device     where it ran: "sim:h200", "gpu:0"
    gpu        the name of the GPU
    rungs      a `RungResult` for each rung
    peers      library implementations and their times, where it was timed
    limits     what bounds the time on each size, where it was timed
    floors     the modelled least time on each size
    counted    the size that the rungs' counters belong to
    recorded   where and when the times were measured, if not by this climb

    >>> result = weft.climb("vecadd", to=0)
    >>> print(result.ladder, result.device, result.right)
    vecadd sim:h200 True
    """

    ladder: str
    device: str
    gpu: str
    rungs: tuple[RungResult, ...]
    peers: Mapping[str, tuple[Time, ...]] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    when: str = ""
    precision: str = ""
    floors: Mapping[str, str] = field(default_factory=dict)
    counted: str = ""
    recorded: str = ""

    def fastest(self, case: str) -> float:
        """The least time of all rungs and peers on a case, in seconds."""
        every = [r.times for r in self.rungs] + list(self.peers.values())
        return min((t.seconds for times in every for t in times if t.case == case), default=0.0)

    def named(self, rung: RungResult) -> str:
        """The title of a rung, with its precision where it is below f32."""
        full = rung.precision in ("", "f32", "f64", self.precision)
        return rung.title if full else f"{rung.title} (in {rung.precision})"

    @property
    def right(self) -> bool:
        """Whether every rung is right."""
        return all(r.right for r in self.rungs)

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict, for JSON."""
        when = self.when or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {**asdict(self), "when": when}

    def __str__(self) -> str:
        """Each rung with its idea, its counters and its times."""
        summary = importlib.import_module("weft.climbing.summary")  # it imports this module
        return "\n".join(line for line, style in summary.rungs(None, self)).strip("\n")

    def save(self, path: str | Path) -> None:
        """Writes a page (.html), or appends a record that `load` reads (.jsonl)."""
        if Path(path).suffix == ".html":
            page = importlib.import_module("weft.climbing.page")  # it imports this module
            write(path, page.page(page.source(self), self))
            return
        importlib.import_module("weft.climbing.records").append(Path(path), self)

    @classmethod
    def load(cls, path: str | Path, name: str = "") -> Climb:
        """The newest record of a ladder in a file; without a name, the newest of all."""
        records = importlib.import_module("weft.climbing.records")  # it imports this module
        climb: Climb = records.climb(Path(path), name)
        return climb

    def _repr_html_(self) -> str:
        """The notebook's view: the page of the climb, with sources if they are available."""
        page = importlib.import_module("weft.climbing.page")  # page.py imports this module
        return str(page.framed(self))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Climb:
        """The result of a dict that `to_dict` gave."""

        def times(many: Sequence[Mapping[str, Any]]) -> tuple[Time, ...]:
            return tuple(Time(**{**t, "notes": tuple(t.get("notes", ()))}) for t in many)

        rungs = tuple(RungResult(**{**r, "times": times(r["times"])}) for r in record["rungs"])
        peers = {name: times(many) for name, many in record["peers"].items()}
        return cls(**{**record, "rungs": rungs, "peers": peers})


def climb(
    ladder: Ladder,
    *,
    device: str | Selection = "sim",
    to: int | None = None,
    progress: Progress = lambda what: None,
) -> Climb:
    """Climbs a ladder: checks and profiles rungs on the simulator, and times them on a GPU."""
    chosen = [r for r in ladder.rungs if to is None or r.number <= to]
    where = to_time(device)
    where.require(
        "time on",
        next="--device sim checks and counts; --from FILE shows what was timed elsewhere",
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
    op: Op, rungs: Sequence[Rung], model: GpuModel, progress: Progress
) -> list[RungResult]:
    """Runs rungs on the simulator in threads: LLVM takes most of the time and releases the GIL."""
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
    """Compiles all expressions before threads start; errors are reported by their rungs later."""
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
    try:
        prepare(rung, device)
        runner = Runner(rung, op, sms=model.sms, empty=zeros)
        check(op, runner, device=device, arrays=rung.arrays)
        facts: Mapping[str, float] = {}
        if device == "sim":
            facts = count(op, runner, model)
            counters.verify(str(rung.path.name), rung.expect, facts)
        return RungResult(**header, facts=facts), runner
    except MissingDependency as error:
        return RungResult(**header, missing=str(error)), None
    except Exception as error:  # a rung is user code: any exception is its failure
        return RungResult(**header, right=False, error=user_file.words(rung.path, error)), None


def prepare(rung: Rung, device: str) -> None:
    """Imports the array library of the rung, and weft's driver for Triton or Numba."""
    wanted = rung.arrays == "torch" or (device == "gpu" and rung.arrays != "numpy")
    if wanted and "torch" not in sys.modules:
        try:
            importlib.import_module("torch")
        except ModuleNotFoundError as error:
            extra = "triton" if rung.language == "Triton" else "torch"  # which includes torch
            raise MissingDependency(
                f"{rung.title} needs PyTorch", next=pip_install(extra)
            ) from error
    if rung.language in ("Triton", "Numba"):
        importlib.import_module(f"weft.{rung.language.lower()}")


def count(op: Op, runner: Runner, model: GpuModel) -> dict[str, float]:
    """The counters of a rung on the first case; empty if it launches no kernel."""
    if runner.rung.language == "Python":  # slow CPU loops without kernels
        return {}
    profiles, results = profiled(op, runner, model)
    return counters.facts(profiles, results) if profiles else {}


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
