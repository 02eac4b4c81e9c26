"""`weft check FILE`: test the solutions of a file, or run a program under the sanitizer."""

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
from weft.cli import options, program_options, show
from weft.device.selection import Selection
from weft.device.sim.tools.sanitizer.session import Report
from weft.errors import CheckFailed, Error
from weft.frontends import compute_sanitizer
from weft.frontends.files import is_script, runner
from weft.measure.check.workers import LIMIT, Outcome, check_file


def run(
    file: Annotated[
        Path, typer.Argument(help="A Python file with a weft.Op and its @op.solution.")
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(help="With --sanitize: arguments of the program, after `--`."),
    ] = None,
    program_args: program_options.Args = "",
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Run a script or a CUDA program under the sanitizer."),
    ] = False,
    op: Annotated[
        Path | None, typer.Option(help="Take the operations from this file, solutions from FILE.")
    ] = None,
    only: Annotated[str, typer.Option(help="Check only this operation or solution.")] = "",
    seed: Annotated[int | None, typer.Option(help="Repeat the run that printed this seed.")] = None,
    device: Annotated[
        str,
        typer.Option(help="sim, sim:MODEL (launches must fit its limits), gpu or gpu:N."),
    ] = "sim",
    time_limit: Annotated[float, typer.Option(help="Limit of CPU seconds for one call.")] = LIMIT,
    sources: program_options.Sources = None,
    include: program_options.Include = None,
    define: program_options.Define = None,
    std: program_options.Std = None,
    optimize: program_options.Optimize = None,
    library: program_options.Library = None,
    folder: program_options.Folder = None,
    nvcc: program_options.Nvcc = None,
    cuda: program_options.Cuda = None,
    gpus: program_options.Gpus = 1,
    json: show.Json = False,
) -> None:
    """Check every solution in a file against its operation's float64 reference.

    Each solution runs in its own process. The exit code is 0 if all solutions are correct, 1 if
    one is wrong, and 2 if one could not be checked.

    With --sanitize, weft runs a Python script or a CUDA program and checks every memory access of
    its kernels. With --device gpu, NVIDIA's compute-sanitizer does this.
    """
    chosen = options.device(device)
    if sanitize:
        words = program_options.words(args, program_args)
        build = program_options.Build(
            sources, include, define, std, optimize, library, folder, nvcc, gpus=gpus, cuda=cuda
        )
        code = (
            _on_gpu(file, words, json)
            if chosen.real
            else _sanitized(file, words, build, chosen, json)
        )
        raise typer.Exit(code)
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
    # The gravest outcome decides: not checked (2) is above wrong (1).
    raise typer.Exit(max(codes))


def _code(outcome: Outcome) -> int:
    """0: correct, 1: wrong, 2: could not be checked."""
    return 0 if outcome.error is None else 1 if isinstance(outcome.error, CheckFailed) else 2


def _print(outcome: Outcome, json: bool) -> None:
    for line in outcome.said:  # standard output has the results only
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
    """One row of `--json`. Numbers that JSON lacks are strings: "nan", "inf"."""
    error = outcome.error
    row: dict[str, Any] = {"ok": error is None, "name": outcome.name}
    if outcome.report is not None:
        row |= outcome.report.to_dict()
    elif error is not None:
        # Other errors mean that the solution could not be checked, not that it is wrong.
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


def _sanitized(
    file: Path, args: list[str], build: program_options.Build, device: Selection, json: bool
) -> int:
    """Runs a program under the sanitizer and prints the findings; returns the exit code."""
    output = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
    keywords = build.keywords(file)
    # A program is a process of its own, which a redirection does not reach.
    if json and not is_script(file):
        keywords["stdout"] = sys.stderr.fileno()
    weft.progress.enabled = not json
    # Findings are collected, so that one run reports those of all launches.
    with weft.sanitize(raises=False) as report, output:
        code = runner(file).run(str(file), args, device=device, **keywords)
    return _reported(code, report, json, looked=report.launches > 0)


def _on_gpu(file: Path, args: list[str], json: bool) -> int:
    """Runs a program under the tools of compute-sanitizer; returns the exit code."""
    runner(file)  # raises for other file types
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
    # A finding fails the check even if the program itself ends with 0.
    return 1 if report.findings else code


def _progress(*, quiet: bool) -> Progress:
    hidden = quiet or not sys.stdout.isatty()
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=show.console(), transient=True, disable=hidden)
