"""`weft check FILE`: are the kernels of a file right? `--sanitize`: does a program race?"""

from __future__ import annotations

import contextlib
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

import weft
import weft.progress
from weft.cli import show
from weft.cli.verbs.run import runner
from weft.device.sim.tools.sanitizer.session import Report
from weft.errors import CheckFailed, Error
from weft.frontends import compute_sanitizer
from weft.measure.check.workers import LIMIT, Outcome, check_file


def run(
    file: Annotated[Path, typer.Argument(help="A Python file with weft.Op and @op.solution.")],
    args: Annotated[
        list[str] | None, typer.Argument(help="With --sanitize: the program's, after `--`.")
    ] = None,
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Run a script or program under the sanitizer instead."),
    ] = False,
    op: Annotated[
        Path | None, typer.Option(help="Take operations from this file; FILE has solutions only.")
    ] = None,
    only: Annotated[str, typer.Option(help="One operation or one solution.")] = "",
    seed: Annotated[int | None, typer.Option(help="Repeat an earlier run.")] = None,
    device: Annotated[str, typer.Option(help="sim, or gpu.")] = "sim",
    time_limit: Annotated[
        float, typer.Option(help="Seconds of processor time for one call.")
    ] = LIMIT,
    json: show.Json = False,
) -> None:
    """Judge every solution in a file against its operation's float64 reference.

    Each solution runs in a process of its own. The exit code is 0 when all are right, 1 when one
    is wrong, 2 when one could not be judged. With --sanitize any Python script or CUDA program is
    run as `weft run` does, and every memory access of its kernels is checked; on a GPU by
    NVIDIA's compute-sanitizer.
    """
    if sanitize:
        sanitized = _on_gpu if device == "gpu" else _sanitized
        raise typer.Exit(sanitized(file, args or [], json))
    with _progress(quiet=json) as progress:
        task = progress.add_task("", total=None)
        outcomes = check_file(
            file, trusted=op, only=only, seed=seed, device=device, limit=time_limit,
            progress=lambda words: progress.update(task, description=words),
        )  # fmt: skip
        try:
            codes, facts = [], []
            for outcome in outcomes:
                codes.append(_code(outcome))
                facts.append(_facts(outcome))
                _print(outcome, json)
        except Error as error:  # of the file itself
            show.failure(error)
            raise typer.Exit(2) from None
    if json:
        show.data(facts)
    raise typer.Exit(max(codes))


def _code(outcome: Outcome) -> int:
    """0: right, 1: wrong, 2: it could not be judged."""
    return 0 if outcome.error is None else 1 if isinstance(outcome.error, CheckFailed) else 2


def _print(outcome: Outcome, json: bool) -> None:
    for line in outcome.said:  # not on standard output: only verdicts are there
        print(f"{outcome.name} prints| {line}", file=sys.stderr)
    if json:
        return
    if outcome.error is None:
        show.line(f"✓ {outcome.report}; {outcome.seconds:.1f} s", "green")
        return
    notes = [*getattr(outcome.error, "__notes__", ()), f"after {outcome.seconds:.1f} s"]
    mark = "✗" if isinstance(outcome.error, CheckFailed) else f"✗ {outcome.name} is not judged:"
    show.line("\n  ".join([f"{mark} {outcome.error}", *notes]), "red")


def _facts(outcome: Outcome) -> dict[str, Any]:
    """One row of `--json`; numbers that JSON does not have are strings: "nan", "inf"."""
    error = outcome.error
    row: dict[str, Any] = {"ok": error is None, "name": outcome.name}
    if outcome.report is not None:
        row |= outcome.report.to_dict()
    elif error is not None:
        row["judged"] = isinstance(error, CheckFailed)
        row |= {n: getattr(error, n, None) for n in _FIELDS}
    row["seconds"] = round(outcome.seconds, 3)
    return {
        n: str(v) if isinstance(v, float) and not math.isfinite(v) else v for n, v in row.items()
    }


_FIELDS = (
    "what", "where", "got", "allowed", "next", "trial", "seed", "index", "value", "expected",
    "ulps", "wrong_count", "map", "writer", "cause", "evidence",
)  # fmt: skip


def _sanitized(file: Path, args: list[str], json: bool) -> int:
    """Runs a program under the sanitizer and says what was found; the exit code."""
    said = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
    weft.progress.enabled = not json
    with weft.sanitize(raises=False) as report, said:
        code = runner(file).run(str(file), args)
    return _reported(code, report, json, looked=report.launches > 0)


def _on_gpu(file: Path, args: list[str], json: bool) -> int:
    """Runs a program under the tools of compute-sanitizer, as `_sanitized` does under weft's."""
    runner(file)  # refuses other files
    with _progress(quiet=json) as progress:
        task = progress.add_task("", total=None)

        def tell(tool: str) -> None:
            progress.update(task, description=f"{file.name} under {tool}")

        code, report = compute_sanitizer.run(str(file), args, tell, to_stderr=json)
    return _reported(code, report, json, looked=True)


def _reported(code: int, report: Report, json: bool, *, looked: bool) -> int:
    if json:
        show.data({"exit_code": code, **report.to_dict()})
    else:
        show.line(str(report), "red" if report.findings else "green" if looked else "yellow")
    return 1 if report.findings else code


def _progress(*, quiet: bool) -> Progress:
    hidden = quiet or not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=show.console(), transient=True, disable=hidden)
