"""Formats the times of the op library, and of candidates for its calls, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.report.words import Block, Cell, Table, precise
from weft.values.sweep import CandidateTime, HostTime, Swept, SweptCall, Tuned

SUMMARY = (
    "op", "calls", "compiled", "mean", "worst", "below 0.8 x", "wrong", "memory", "host µs",
    "torch's µs",
)  # fmt: skip
WORST = ("ratio", "call", "kernel", "weft µs", "torch µs", "compile µs")
HOST = ("op", "shape", "weft µs", "torch's µs", "ratio")


def summary(swept: Sequence[Swept], times: Sequence[HostTime]) -> Iterator[Block]:
    """One row per op, then the worst calls of each."""
    yield Table(SUMMARY, [_row(s, times) for s in swept], SUMMARY[1:])
    yield (
        "\nmean: geometric mean of the speed-up over the best peer. Calls are eager, and contenders"
        " take turns.\nmemory: the peak of all calls over PyTorch's.",
        "dim",
    )
    for one in swept:
        on = f" on {one.gpu}" if one.gpu else ""
        yield f"\n{one.op}, seed {one.seed}{on}: the worst calls", "bold"
        rows = [(f"{r.ratio:.2f} x", r.call, r.plan, *_times(r.seconds)) for r in one.worst()]
        yield Table(WORST, rows, ("ratio", *WORST[3:]))
        for result in one.results:
            yield from ((f"{text}: {result.call}", style) for text, style in _problems(result))


def host_times(times: Sequence[HostTime]) -> Iterator[Block]:
    """The host's time of each op."""
    rows = [
        (
            t.op,
            "x".join(map(str, t.shape)),
            f"{t.weft_us:.1f}",
            f"{t.torch_us:.1f}",
            f"{t.torch_us / t.weft_us:.2f} x",
        )
        for t in times
    ]
    yield Table(HOST, rows, HOST[2:])
    yield (
        "\nThe host's time per eager call; contenders take turns. `backward` is forward plus"
        " backward, by torch.autograd.grad.",
        "dim",
    )


def _problems(result: SweptCall) -> Iterator[tuple[str, str]]:
    """Errors of a call, with the colour to print them in."""
    if result.wrong and "weft" not in result.failed:
        yield f"WRONG by {result.error:.3g} x the allowed error", "red"
    for who, reason in result.failed.items():
        yield f"{who} failed: {reason}", "red" if who == "weft" else "yellow"


def _row(one: Swept, times: Sequence[HostTime]) -> list[str]:
    host = [t for t in times if t.op == one.op]
    results, worst = one.results, one.worst(1)
    return [
        f"{one.op} on {one.gpu}" if one.gpu else one.op,
        str(len(results)),
        str(sum("compile" in r.seconds for r in results)),
        f"{one.mean:.2f} x",
        f"{worst[0].ratio:.2f} x" if worst else "",
        str(sum(r.ratio < 0.8 for r in results)),
        str(len(one.wrong)),
        one.memory_ratio(),
        " ".join(f"{t.weft_us:.1f}" for t in host),
        " ".join(f"{t.torch_us:.1f}" for t in host),
    ]


def _times(seconds: Mapping[str, float]) -> list[str]:
    return [f"{1e6 * seconds[n]:.1f}" if n in seconds else "" for n in ("weft", "torch", "compile")]


# ---- candidates ----------------------------------------------------------------------------------
def tuned(results: Sequence[Tuned], *, measured: bool) -> Iterator[Block]:
    """The candidates of each call, and with `measured` which calls use another kernel now."""
    for one in results:
        yield f"\n{one.op} {one.call} on {one.gpu}", "bold"
        columns = ("candidate", "modelled", *(["measured"] if measured else []), "", "why")
        rows = [_candidate(one, row, measured) for row in one.rows]
        yield Table(columns, rows, ("modelled", "measured"))
    if not measured:
        return
    changed = [one for one in results if one.chosen != one.before]
    yield f"\n{len(changed)} of {len(results)} calls now use another kernel", "bold"
    for one in changed:
        yield f"  {one.call}: {one.before} → {one.chosen}, {one.gain:.2f} x as fast", ""
    if not all(one.stored for one in results):
        yield "The cache cannot be used, so nothing is stored. `weft cache` shows why.", "yellow"


def _candidate(one: Tuned, row: CandidateTime, measured: bool) -> tuple[Cell, ...]:
    time = precise(row.measured) if row.measured is not None else row.failure
    mark: Cell = ("chosen", "green") if row.name == one.chosen else ""
    return (row.name, precise(row.modelled), *([time] if measured else []), mark, row.why)
