"""Tables of the ladders, from the newest timed climb of each in their file of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from weft.climbing import ladder, recorded_times, records
from weft.climbing.records import Climb
from weft.report.words import duration
from weft.values.climb import Time

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records" / "ladders.jsonl"
MISSING = "Not measured yet: `weft climb --all --device gpu --record {file}` does it."
Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]


def timed() -> dict[str, Climb]:
    """The newest climb of each ladder that was timed, in the order of `weft climb`."""
    if not RECORDS.is_file():
        return {}
    found = {c.ladder: c for c in records.climbs(RECORDS) if c.device.startswith("gpu")}
    return {name: found[name] for name in ladder.names() if name in found}


def best_table(table: Table) -> str:
    """The best rung of each ladder and size, against limit, peer and target."""
    rows = [row for climb in timed().values() for row in _best(climb)]
    if not rows:
        return MISSING.format(file=_shown())
    header = ("ladder", "size", "best rung", "time#", "of the limit#", "of the best peer#",
              "best peer", "target", "")  # fmt: skip
    return f"{_machine()}\n\n{table(header, rows)}"


def rungs_table(table: Table) -> str:
    """Every rung and peer of every ladder."""
    parts = [_whole(climb, table) for climb in timed().values()]
    return "\n\n".join([_machine(), *parts]) if parts else MISSING.format(file=_shown())


def files() -> dict[Path, str]:
    """The recorded times that come with weft: a file in the folder of each ladder."""
    return {
        ladder.HOME / name / recorded_times.NAME: recorded_times.compact(c)
        for name, c in timed().items()
    }


def _shown() -> str:
    return str(RECORDS.relative_to(RECORDS.parents[2]))


def _machine() -> str:
    """The GPU, the versions and the days of the records; ladders may be from several days."""
    climbs = list(timed().values())
    days = sorted({c.when[:10] for c in climbs})
    gpus = ", ".join(sorted({c.gpu for c in climbs}))
    known = climbs[-1].machine
    versions = ", ".join(f"{n} {known[n]}" for n in ("torch", "triton") if n in known)
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"{gpus}, {versions}, {when}; medians of interleaved samples; inputs rotate through copies "
        "that exceed the L2."
    )


# ---- the best of each ------------------------------------------------------------------------
def _best(climb: Climb) -> Iterable[list[str]]:
    for case in climb.limits:
        rungs = [(r, t) for r in climb.rungs for t in r.times if t.case == case]
        peers = [(n, t) for n, times in climb.peers.items() for t in times if t.case == case]
        if not rungs:
            continue
        rung, t = min(rungs, key=lambda pair: pair[1].seconds)
        peer = min(peers, key=lambda pair: pair[1].seconds)[0] if peers else ""
        yield [
            climb.ladder, _size(case), climb.named(rung), duration(t.seconds), f"{t.of_limit:.1%}",
            f"{t.of_peer:.2f} x" if peer else "", f"`{peer}`" if peer else "", *_target(climb, t),
        ]  # fmt: skip


def _target(climb: Climb, t: Time) -> list[str]:
    target = ladder.find(climb.ladder).op.goal
    if target is None:
        return ["", ""]
    of, least = target
    got = t.of_limit if of == "limit" else t.of_peer
    said = f"{least:.0%} of the limit" if of == "limit" else f"{least:.2f} x the peer"
    return [said, "reached" if got >= least else "**not reached**"]


def _size(case: str) -> str:
    return case.partition(" (")[0].replace("|", "\\|")


# ---- every rung ------------------------------------------------------------------------------
def _whole(climb: Climb, table: Table) -> str:
    cases = list(climb.limits)
    other = any(t.case not in cases for r in climb.rungs for t in r.times)
    header = ["rung", *(f"{_size(case)}#" for case in cases), *(["on another size#"] * other)]
    rows = [[climb.named(r), *_cells(r.times, cases, other)] for r in climb.rungs]
    rows += [[f"`{name}`", *_cells(times, cases, other)] for name, times in climb.peers.items()]
    limits = "; ".join(f"{_size(case)}: {text}" for case, text in climb.limits.items())
    text = (
        ""
        if not ladder.find(climb.ladder).text
        else f" [Why](../src/weft/ladders/{climb.ladder}/ladder.md)."
    )
    about = f"{ladder.find(climb.ladder).about} Limits: {limits}.{text}"
    return f"### {climb.ladder}\n\n{about}\n\n{table(header, rows)}"


def _cells(times: Sequence[Time], cases: Sequence[str], other: bool) -> list[str]:
    by_case = {t.case: t for t in times}
    own = [f"{_cell(t)}, {_size(t.case)}" for t in times if t.case not in cases]
    return [*(_cell(by_case.get(case)) for case in cases), *([" ".join(own)] * other)]


def _cell(t: Time | None) -> str:
    return f"{duration(t.seconds)}, {t.of_limit:.1%}" if t is not None else ""
