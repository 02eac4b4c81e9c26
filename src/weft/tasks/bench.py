"""Times the solutions of a file, or the rungs of a ladder, together with their peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.climbing import benchmark, ladder, records
from weft.climbing.records import Climb
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.measure.bench.bench import to_time
from weft.measure.check import user_file
from weft.measure.op import Op
from weft.progress import Notify

RECORDS = ".jsonl"


@dataclass(frozen=True)
class BenchOptions:
    """Contenders to time.

    path    a file with solutions, a ladder, or a file of records, which is only read
    only    bench only this operation, solution or rung
    peers   more peers, as expressions of torch
    record  append the results to this file
    """

    path: str
    device: Selection
    only: str = ""
    peers: Sequence[str] = ()
    record: Path | None = None


def place() -> Selection:
    """The device to time on where the user names none: the first GPU, else the simulated one."""
    return to_time(None)


def bench(options: BenchOptions, notify: Notify = lambda what: None) -> list[Climb]:
    """Check and time the contenders of each operation; without a GPU, count what they do."""
    path, only = options.path, options.only
    if path.endswith(RECORDS):
        newest = records.newest(Path(path))
        results = [result for name, result in newest.items() if only in ("", name)]
        if not results:
            got, known = only or "an empty file", ", ".join(newest)
            raise ArgumentError("no such record", where=path, got=got, allowed=known)
        return results
    results = list(_file(options, notify) if path.endswith(".py") else _ladder(options, notify))
    if options.record is not None:
        for result in results:
            records.append(options.record, result)
    return results


def one(results: Sequence[Climb]) -> Climb:
    """The result that a page shows."""
    if len(results) > 1:
        names = ", ".join(r.ladder for r in results)
        raise ArgumentError("a page shows one operation", got=names, next="--only NAME")
    return results[0]


def _ladder(options: BenchOptions, notify: Notify) -> Iterator[Climb]:
    path, only = options.path, options.only
    if Path(path).is_file():
        raise ArgumentError(
            "weft bench times an operation with its solutions; this file has none",
            got=path,
            allowed="a Python file with a weft.Op and @op.solution, the name or folder of a "
            "ladder, a .jsonl file of records, or `ops`",
            next="describe the operation in a Python file: docs/bench.md; "
            f"`weft profile {path}` counts what a program does",
        )
    whole = ladder.find(path)
    if only:
        titles = ", ".join(r.name for r in whole.rungs)
        rungs = tuple(r for r in whole.rungs if only in (r.name, r.title))
        if not rungs:
            raise ArgumentError("no such rung", where=path, got=only, allowed=titles)
        whole = replace(whole, rungs=rungs)
    chosen = replace(whole, op=_with(whole.op, options.peers))
    yield benchmark.bench_ladder(chosen, device=options.device, progress=notify)


def _file(options: BenchOptions, notify: Notify) -> Iterator[Climb]:
    # By identity: an Op has lists in it and cannot be a key.
    by_op: dict[int, tuple[Op, dict[str, benchmark.Solution]]] = {}
    for op, name, solution in user_file.solutions(Path(options.path), options.only):
        by_op.setdefault(id(op), (op, {}))[1][name] = solution
    for op, solutions in by_op.values():
        chosen = _with(op, options.peers)
        yield benchmark.bench_file(chosen, solutions, device=options.device, progress=notify)


def _with(op: Op, peers: Sequence[str]) -> Op:
    return replace(op, peers=[*op.peers, *peers])
