"""`weft bench ops`: times the op library on random calls, with PyTorch and torch.compile."""

from __future__ import annotations

import dataclasses
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from weft.cli import show
from weft.errors import ArgumentError
from weft.ops.core import bind

if TYPE_CHECKING:
    from weft.ops.sweep.case import Case
    from weft.ops.sweep.host import HostTime
    from weft.ops.sweep.run import Result
    from weft.ops.sweep.whole import Batch, Swept


HOST = 15.0
"""Seconds that are kept of the limit for the host's times, which are taken last."""


@dataclass(frozen=True)
class Options:
    """The options of `weft bench ops`."""

    seed: int
    count: int
    most: int
    ops: str
    compile: bool
    budget: float
    limit: float
    jobs: int
    again: Path | None
    below: float
    host: bool
    record: Path | None
    json: bool


def run(options: Options) -> None:
    """Times the ops, prints a summary and the worst calls; exits with 1 if a result was wrong."""
    gpu, host = (bind.with_torch(f"weft.ops.sweep.{name}") for name in ("gpu", "host"))
    names = _names(options.ops, host.names() if options.host else _every())
    batches = [] if options.host else _batches([_every()[name] for name in names], options)
    instead = "`weft tune OP --list` shows candidates and modelled times without a GPU"
    gpu.need("weft bench ops", instead)
    bind.with_torch("weft.ops.core.native.build").started().wait()  # once, before processes need it
    begin = time.monotonic()
    swept, ended = _swept(batches, options)
    late = ended or time.monotonic() - begin > options.limit - HOST / 2
    times: list[HostTime] = [] if late else host.times(names)
    if options.record is not None and times:
        bind.with_torch("weft.ops.sweep.whole").append(options.record, [], times)
    if options.json:
        facts = {"ops": [s.to_dict() for s in swept], "host": [t.to_dict() for t in times]}
        show.data(facts)
    elif options.host:
        host_times(times)
    else:
        summary(swept, times)
    if any(s.wrong for s in swept):
        raise typer.Exit(1)


def _every() -> dict[str, Case]:
    """The cases of the sweep by name."""
    return {case.name: case for case in bind.with_torch("weft.ops.sweep.cases").CASES}


def _names(given: str, every: Iterable[str]) -> list[str]:
    """The names that were given, in this order, or all; raises for an unknown one."""
    allowed = list(every)
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    for name in wanted:
        if name not in allowed:
            known = ", ".join(allowed)
            raise ArgumentError("`weft bench ops` has no such op", got=name, allowed=known)
    return wanted or allowed


def _batches(cases: Sequence[Case], options: Options) -> list[Batch]:
    """The calls to make: drawn ones, or the slow ones of a record."""
    whole = bind.with_torch("weft.ops.sweep.whole")
    if options.again is None:
        return [whole.drawn(case, options.seed, options.count, options.most) for case in cases]
    batches: list[Batch] = whole.slow(options.again, cases, options.below)
    if not batches:
        got = f"no call of {options.again} is slower than {options.below} x the best peer"
        raise ArgumentError("there is nothing to time again", got=got, next="--below NUMBER")
    return batches


def _swept(batches: Sequence[Batch], options: Options) -> tuple[list[Swept], bool]:
    """The results, and whether a signal ended the sweep."""
    whole, worker = (bind.with_torch(f"weft.ops.sweep.{n}") for n in ("whole", "worker"))
    swept: list[Swept] = []
    ended: list[int] = []
    # A batch system ends a job by this signal; what has been measured is still shown.
    before = signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    with (
        tempfile.TemporaryDirectory() as folder,
        show.ends_at_once(),
        show.bar(quiet=options.json) as progress,
    ):
        task = progress.add_task("", total=sum(len(batch.calls) for batch in batches))

        def tell(text: str) -> None:
            progress.update(task, advance=1, description=text)

        job = worker.SweepJob(Path(folder), until=time.time() + options.budget)
        job = job if options.compile else dataclasses.replace(job, compile=None)
        limit = max(0.0, options.limit - HOST)
        for one in whole.sweep(batches, job, options.jobs, limit, tell, lambda: bool(ended)):
            swept.append(one)
            if options.record is not None:  # now, because a later op may fail
                whole.append(options.record, [one], [])
    signal.signal(signal.SIGTERM, before)
    return swept, bool(ended)


# ---- what is printed ---------------------------------------------------------------------------
SUMMARY = ("op", "calls", "compiled", "mean", "worst", "below 0.8 x", "wrong", "memory", "host µs",
           "torch's µs")  # fmt: skip
WORST = ("ratio", "call", "kernel", "weft µs", "torch µs", "compile µs")


def summary(swept: Sequence[Swept], times: Sequence[HostTime]) -> None:
    """Prints one row per op, then the worst calls of each."""
    show.table(SUMMARY, [_row(s, times) for s in swept], right=SUMMARY[1:])
    show.line(
        "\nmean: geometric mean of the speed-up over the best peer. Calls are eager, and contenders"
        " take turns.\nmemory: the peak of all calls over PyTorch's.", "dim"
    )  # fmt: skip
    for one in swept:
        show.line(f"\n{one.op}, seed {one.batch.seed}: the worst calls", "bold")
        rows = [(f"{r.ratio:.2f} x", r.call, r.plan, *_times(r.seconds)) for r in one.worst()]
        show.table(WORST, rows, right=("ratio", *WORST[3:]))
        for result in one.results:
            for text, style in _problems(result):
                show.line(f"{text}: {result.call}", style)


HOST_TIMES = ("op", "shape", "weft µs", "torch's µs", "ratio")


def host_times(times: Sequence[HostTime]) -> None:
    """Prints the host time of each op."""
    rows = [
        (t.op, "x".join(map(str, t.shape)), f"{t.weft_us:.1f}", f"{t.torch_us:.1f}",
         f"{t.torch_us / t.weft_us:.2f} x")
        for t in times
    ]  # fmt: skip
    show.table(HOST_TIMES, rows, right=HOST_TIMES[2:])
    show.line(
        "\nThe host's time per eager call; contenders take turns. `backward` is forward plus"
        " backward, by torch.autograd.grad.", "dim"
    )  # fmt: skip


def _problems(result: Result) -> Iterator[tuple[str, str]]:
    """What went wrong in a call, with the colour to print it in."""
    if result.wrong and "weft" not in result.failed:
        yield f"WRONG by {result.error:.3g} x the allowed error", "red"
    for who, reason in result.failed.items():
        yield f"{who} failed: {reason}", "red" if who == "weft" else "yellow"


def _row(one: Swept, times: Sequence[HostTime]) -> list[str]:
    host = [t for t in times if t.op == one.op]
    low, worst = sum(r.ratio < 0.8 for r in one.results), one.worst(1)
    compiled = sum("compile" in r.seconds for r in one.results)
    return [
        one.op, str(len(one.results)), str(compiled), f"{one.mean:.2f} x",
        f"{worst[0].ratio:.2f} x" if worst else "", str(low), str(len(one.wrong)),
        one.memory_ratio(), " ".join(f"{t.weft_us:.1f}" for t in host),
        " ".join(f"{t.torch_us:.1f}" for t in host),
    ]  # fmt: skip


def _times(seconds: dict[str, Any]) -> list[str]:
    return [f"{1e6 * seconds[n]:.1f}" if n in seconds else "" for n in ("weft", "torch", "compile")]
