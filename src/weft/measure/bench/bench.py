"""Implements `weft.bench`. Contenders take turns; the result is the median of many samples.

    times = weft.bench({"mine": lambda: mine(x, y), "torch": lambda: torch.relu(x)}, bytes=8 * n)
    print(times)

Without a GPU nothing is timed: the result states this and gives the floor computed from work and
bytes.
"""

from __future__ import annotations

import functools
import inspect
import math
import platform
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.device.models import GpuModel
from weft.device.selection import Selection, select, selected
from weft.errors import ArgumentError, CheckFailed, expect
from weft.measure.bench.memory import peak
from weft.report.words import precise
from weft.values.timing import Timing

BUDGET_S = 1.0
"""The most seconds of sampling per contender."""
WARM_UP_S = 0.2
ENOUGH = 0.005
"""Sampling stops when the confidence interval is this fraction of the median."""
FEWEST, MOST = 10, 400
LAUNCH_US = 4.0
"""Kernels shorter than this are dominated by launch overhead; only a graph can time them."""


@dataclass(frozen=True)
class Contender:
    """A callable to time, with what `weft.bench` must know about it.

    run         called without arguments, or with the number of an input set
    precision   what it computes in, e.g. "f32", "tf32"; ratios across precisions are marked
    graph       whether its calls may be captured in a CUDA graph
    computes    False if it only moves the bytes, so that it cannot be too fast for `flops`

    >>> contender = weft.Contender(lambda: None, precision="tf32", graph=False)
    >>> print(contender.precision)
    tf32
    """

    run: Callable[..., Any]
    precision: str = ""
    graph: bool = True
    computes: bool = True


@dataclass(frozen=True)
class Bench:
    """The result of `weft.bench`. `bench["name"]` is a contender's `Timing`; `print` shows all.

    gpu            the name of the GPU
    timed          whether there are times; False on a simulated GPU
    timings        a `Timing` for each contender
    bytes, flops   as given
    floor          the least seconds that the GPU's rates allow, if bytes or flops are given
    bound          what sets the floor: "memory" or "compute"
    machine        GPU, driver and versions that were timed

    >>> result = weft.bench({"copy": lambda: None}, bytes=1e9, device="sim:h200")
    >>> print(result.timed, result.bound)
    False memory
    """

    gpu: str
    timed: bool
    timings: tuple[Timing, ...]
    bytes: float = 0
    flops: float = 0
    floor: float = 0
    bound: str = ""
    machine: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Timing:
        for timing in self.timings:
            if timing.name == name:
                return timing
        raise KeyError(f"{name}; there are {', '.join(t.name for t in self.timings) or 'none'}")

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        untimed = f"Not timed: a simulated GPU has no times. Floor on {self.gpu}:"
        lines = [] if self.timed else [untimed]
        if self.floor:
            lines.append(f"  floor {precise(self.floor)} ({self.bound})")
        best = min((t.seconds for t in self.timings), default=0.0)
        first = self.timings[0] if self.timings else None
        for t in self.timings:
            words = [f"{t.name:<24} {precise(t.seconds):>10} ± {_spread(t):.1%}"]
            if self.floor:
                words.append(f"{self.floor / t.seconds:7.1%} of the ceiling")
            words.append(f"{t.seconds / best:6.2f} x the fastest")
            if t.memory is not None:
                words.append(f"{t.memory / 2**20:8.1f} MiB at the peak")
            if first is not None and t.precision != first.precision:
                words.append(f"computes in {t.precision or '?'}, not {first.precision or '?'}")
            lines.append("  ".join([*words, *t.notes]))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The notebook's view."""
        from weft.report import cells

        if not self.timed:
            return cells.plain(str(self))
        return cells.times(self.gpu, self.timings, self.floor)


def bench(
    contenders: Mapping[str, Contender | Callable[..., Any]],
    *,
    bytes: float = 0,
    flops: float = 0,
    sets: int = 1,
    check: Callable[[str], None] | None = None,
    device: str | Selection | None = None,
    precision: str = "f32",
    budget: float = BUDGET_S,
    progress: Callable[[str], None] = lambda what: None,
    gpu: str | None = None,
) -> Bench:
    """Time callables on a GPU, in turns, and compare them with the least time possible.

    contenders    name -> callable, or a `Contender`
    bytes, flops  the least that one call must move and compute; they give the floor
    sets          how many input sets contenders rotate through, so that none stays in the L2
    check         called with a contender's name before it is timed and after
    device        "gpu" times; "sim:h200" only gives the floor on that model. By default it times
                  where there is a GPU.
    precision     whose ceiling applies: "f32", "f64", "tf32", "f16", "bf16"
    budget        seconds for each contender
    progress      called with what is being done
    gpu           deprecated: use `device`

    >>> result = weft.bench({"copy": lambda: None}, bytes=4.8e9, device="sim:h200")
    >>> print(result)
    Not timed: a simulated GPU has no times. Floor on H200 SXM 141 GB:
      floor 1 ms (memory)
    """
    expect("contenders", contenders, Mapping, allowed='{"name": callable, ...}')
    if not contenders:
        raise ArgumentError("nothing to time", allowed='{"name": callable, ...}')
    by_name = {n: c if isinstance(c, Contender) else Contender(c) for n, c in contenders.items()}
    chosen = selected(to_time(device), gpu, name="gpu=")
    chosen.require("time on", next='device="sim:h200" gives the floor on a model')
    model = chosen.model
    floor, bound = ceiling(model, bytes, flops, precision)
    if not chosen.real:
        return Bench(model.name, False, (), bytes, flops, floor, bound)
    from weft.measure.bench.clocks import ClockMonitor

    with ClockMonitor() as monitor:
        runs = _sampled(by_name, sets, check, budget, progress, monitor)
    timings = tuple(_timing(n, by_name[n], r) for n, r in runs.items())
    for timing in timings:  # tensor cores have other ceilings
        work = flops if by_name[timing.name].computes else 0
        _alarm(timing, *ceiling(model, bytes, work, timing.precision or precision), model)
    machine = {**_machine(), **monitor.to_dict()}
    return Bench(model.name, True, timings, bytes, flops, floor, bound, machine)


def to_time(device: str | Selection | None) -> Selection:
    """The device to time on: the named one, else the first GPU, else the simulated one.

    Timing is on the first GPU only: streams, clocks and ceilings are those of one GPU.
    """
    from weft.device import driver

    if device is None:
        return select("gpu" if driver.count() else "sim")
    chosen = select(device)
    chosen.first("times are taken on the first GPU")
    return chosen


def tflops(model: GpuModel, precision: str) -> float:
    """The most 10^12 operations a second on numbers of a type."""
    rates = {"f32": model.fp32_tflops, "f64": model.fp64_tflops, **model.tensor}
    return rates.get(precision, model.fp32_tflops)


def ceiling(model: GpuModel, bytes: float, flops: float, precision: str) -> tuple[float, str]:
    """(least seconds for the work, the limiting resource)."""
    moving = bytes / (model.memory_gb_per_s * 1e9)
    computing = flops / (tflops(model, precision) * 1e12)
    return max(moving, computing), "" if not bytes + flops else (
        "memory" if moving >= computing else "compute"
    )


# ---- sampling --------------------------------------------------------------------------------
@dataclass
class _Run:
    """A contender's samples, in seconds a call."""

    how: str
    calls: int
    memory: int | None
    seconds: list[float] = field(default_factory=list)
    dropped: int = 0
    spent: float = 0.0

    def done(self, budget: float) -> bool:
        # Very slow contenders may end with fewer samples.
        if len(self.seconds) < FEWEST and self.spent < 4 * budget:
            return False
        if len(self.seconds) >= MOST or self.spent >= budget:
            return True
        low, middle, high = interval(self.seconds)
        return (high - low) / middle < ENOUGH


def _sampled(
    contenders: Mapping[str, Contender],
    sets: int,
    check: Callable[[str], None] | None,
    budget: float,
    progress: Callable[[str], None],
    monitor: Any,
) -> dict[str, _Run]:
    from weft.measure.bench import timing

    stream = timing.TimingStream()
    ready, runs = {}, {}
    for name, contender in contenders.items():
        progress(f"preparing {name}")
        if check is not None:
            check(name)
        call = _with_number(contender.run)
        ready[name] = timing.prepare(stream, call, sets, graph=contender.graph)
        memory = peak(functools.partial(call, 0))
        runs[name] = _Run(ready[name].how, ready[name].calls, memory)
        # Clocks ramp up under load; the first launches also compile and load code.
        until = time.monotonic() + WARM_UP_S
        while time.monotonic() < until:
            stream.milliseconds(ready[name].go)
    progress("timing")
    # Interleave contenders, so that a change of the clock affects all of them alike.
    while waiting := [n for n in runs if not runs[n].done(budget)]:
        for name in waiting:
            start = time.monotonic()
            ms = stream.milliseconds(ready[name].go)
            end = time.monotonic()
            run = runs[name]
            run.spent += end - start
            if monitor.slowed(start, end):
                run.dropped += 1
            else:
                run.seconds.append(ms / 1e3 / run.calls)
    # A kernel that broke its output during the timing must not get a time.
    for name in contenders:
        if check is not None:
            check(name)
    return runs


def _with_number(run: Callable[..., Any]) -> Callable[[int], Any]:
    try:
        takes = bool(inspect.signature(run).parameters)
    except (TypeError, ValueError):
        takes = False
    return run if takes else lambda i: run()


def interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """(low, median, high): order statistics that enclose the true median with 95 %."""
    ordered = sorted(samples)
    n = len(ordered)
    # The median's rank is binomial, with a deviation of sqrt(n)/2: 1.96 of them are 95 %.
    half = 0.98 * math.sqrt(n)
    low, high = int(max(0, n / 2 - half)), int(min(n - 1, n / 2 + half))
    middle = ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2
    return ordered[low], middle, ordered[high]


def _timing(name: str, contender: Contender, run: _Run) -> Timing:
    if not run.seconds:
        raise CheckFailed(
            f"{name}: the GPU was throttled during every sample",
            got=f"{run.dropped} samples dropped",
            next="let it cool down, then time again; `nvidia-smi -q -d PERFORMANCE` says why",
        )
    low, middle, high = interval(run.seconds)
    notes = []
    if middle * 1e6 < LAUNCH_US:
        notes.append("shorter than its launch")
    if run.dropped:
        notes.append(f"{run.dropped} throttled samples dropped")
    details = (len(run.seconds), run.dropped, run.how, contender.precision, tuple(notes))
    return Timing(name, middle, low, high, *details, run.memory)


def _alarm(timing: Timing, floor: float, bound: str, model: GpuModel) -> None:
    # Even the slow end of the interval beats the hardware limit: the measurement is wrong.
    if floor and timing.high < floor:
        raise CheckFailed(
            f"{timing.name} is faster than the hardware can be",
            got=f"{precise(timing.seconds)}, {floor / timing.seconds:.0%} of {model.name}'s {bound}"
            " ceiling",
            next="is all work done, do inputs stay in the L2 (sets=), are bytes and flops right?",
        )


def _machine() -> dict[str, Any]:
    from weft.device import driver
    from weft.device.gpu import facts
    from weft.measure.bench.clocks import driver_version

    device = facts.facts(0)
    # Only packages in use: importing others here would take seconds.
    loaded = [name for name in ("weft", "torch", "triton") if name in sys.modules]
    versions: dict[str, Any] = {name: sys.modules[name].__version__ for name in loaded}
    return {
        "gpu": device.name,
        "driver": driver_version(),
        "driver_cuda": driver.version(),
        "sms": device.sms,
        "python": platform.python_version(),
        "host": f"{platform.system()} {platform.machine()}",
        # Records are published: folders of the user are left out.
        "command": shlex.join(Path(word).name if "/" in word else word for word in sys.argv),
        **versions,
    }


def _spread(t: Timing) -> float:
    return (t.high - t.low) / 2 / t.seconds
