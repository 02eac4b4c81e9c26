"""`weft check FILE`: are the kernels of a file right? `--sanitize`: does a program race?"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn

import weft
from weft.cli import show
from weft.cli.verbs.run import runner
from weft.device.sim.sanitizer.session import Report
from weft.errors import CheckFailed
from weft.frontends import compute_sanitizer
from weft.measure import check, found


def run(
    file: Annotated[Path, typer.Argument(help="A Python file with weft.Op and @op.solution.")],
    args: Annotated[
        list[str] | None, typer.Argument(help="With --sanitize: the program's, after `--`.")
    ] = None,
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Run a script or program under the sanitizer instead."),
    ] = False,
    only: Annotated[str, typer.Option(help="One operation or one solution.")] = "",
    seed: Annotated[int | None, typer.Option(help="Repeat an earlier run.")] = None,
    device: Annotated[str, typer.Option(help="sim, or gpu.")] = "sim",
    json: show.Json = False,
) -> None:
    """Judge every solution in a file against its operation's float64 reference.

    Exit code 1 when one is wrong. With --sanitize any Python script or CUDA program is run as
    `weft run` does, and every memory access of its kernels is checked; on a GPU by NVIDIA's
    compute-sanitizer.
    """
    if sanitize:
        sanitized = _on_gpu if device == "gpu" else _sanitized
        raise typer.Exit(sanitized(file, args or [], json))
    facts: list[dict[str, Any]] = []
    for op, name, solution in found.solutions(file, only):
        with _progress(quiet=json) as progress:
            task = progress.add_task("", total=None)

            def trial(label: str, task: Any = task, name: str = name) -> None:
                progress.update(task, description=f"{name}: {label}")

            try:
                report = check(op, solution, seed=seed, device=device, progress=trial)
                facts.append({"ok": True, **report.to_dict()})
                words, style = f"✓ {report}", "green"
            except CheckFailed as error:
                facts.append({"ok": False, "name": f"{op.name}/{name}", **_fields(error)})
                notes = "\n  ".join(getattr(error, "__notes__", ()))
                words, style = f"✗ {error}\n  {notes}", "red"
        if not json:
            show.line(words, style)
    if json:
        show.data(facts)
    if not all(fact["ok"] for fact in facts):
        raise typer.Exit(1)


def _sanitized(file: Path, args: list[str], json: bool) -> int:
    """Runs a program under the sanitizer and says what was found; the exit code."""
    said = contextlib.redirect_stdout(sys.stderr) if json else contextlib.nullcontext()
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


def _fields(error: CheckFailed) -> dict[str, Any]:
    names = "what where got allowed next trial seed index value expected ulps wrong_count map"
    return {n: getattr(error, n) for n in f"{names} writer cause evidence".split()}
