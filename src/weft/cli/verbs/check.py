"""`weft check FILE`: test the solutions of a file, or run a program under the sanitizer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options, program_options, show
from weft.errors import Error
from weft.report import checks
from weft.tasks import check
from weft.tasks.program import Build, words


@program_options.with_build("poison")
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
        bool, typer.Option("--sanitize", help="Run a script or a CUDA program under the sanitizer.")
    ] = False,
    op: Annotated[
        Path | None, typer.Option(help="Take the operations from this file, solutions from FILE.")
    ] = None,
    only: Annotated[str, typer.Option(help="Check only this operation or solution.")] = "",
    seed: Annotated[int | None, typer.Option(help="Repeat the run that printed this seed.")] = None,
    device: Annotated[
        str, typer.Option(help="sim, sim:MODEL (launches must fit its limits), gpu or gpu:N.")
    ] = "sim",
    time_limit: Annotated[
        float, typer.Option(help="Limit of CPU seconds for one call.")
    ] = check.CheckOptions.time_limit,
    schedules: Annotated[
        int,
        typer.Option(help="Also run each case under this number of schedules: orders of threads."),
    ] = 0,
    *,
    build: Build,
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
        program = check.SanitizeOptions(file, words(args, program_args), chosen, build, quiet=json)
        # On the simulated GPU the program has the terminal for itself.
        with show.spinner(quiet=json or not chosen.real) as notify:
            found = check.sanitized(program, notify)
        show.result(json, found.to_dict, [(str(found.report), found.style)])
        raise typer.Exit(found.code)
    outcomes = []
    with show.spinner(quiet=json) as notify:
        try:
            asked = check.CheckOptions(file, op, only, seed, device, time_limit, schedules)
            for outcome in check.check(asked, notify):
                outcomes.append(outcome)
                for line in outcome.said:  # standard output has the results only
                    print(f"{outcome.name} prints| {line}", file=sys.stderr)
                if not json:
                    show.line(*checks.outcome(outcome))
        except Error as error:  # of the file itself
            show.failure(error, as_json=json)
            raise typer.Exit(2) from None
    if json:
        show.data([outcome.to_dict() for outcome in outcomes])
    # The gravest outcome decides: not checked (2) is above wrong (1).
    raise typer.Exit(max(outcome.code for outcome in outcomes))
