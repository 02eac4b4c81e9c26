"""`weft tour`: run and verify example kernels, and show how weft reports two bugs."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from weft.cli import show
from weft.tasks import tour
from weft.tasks.tour import Visit

_LEGEND = """\
CPU time   duration of the simulation on this CPU, not the time on a GPU
max error  difference from NumPy in float64, relative to the largest result
"""
_NEXT = """\
Next steps
  weft.cuda("FILE.cu").kernel[grid, block](*arrays)    run your own kernel from Python
  weft check --sanitize FILE      find data races and memory errors
  weft ptx FILE.cu       show the PTX of a kernel
  weft devices           list the GPUs that can be simulated
  weft isa               list the PTX instructions that are covered
  weft doctor            check the installation
  weft learn             learn to write kernels: chapters, exercises, puzzles
  weft lab               edit, run, check and profile kernels in the browser"""


def run(json: show.Json = False) -> None:
    """Compile, run and verify example kernels on the simulated GPU, then show two bugs."""
    start = time.perf_counter()
    visits = _facts() if json else _show()
    seconds = time.perf_counter() - start
    error = tour.caught()
    racing, clean = tour.raced()
    bugs = error is not None and bool(racing.findings) and not clean.findings
    ok = all(visit.ok for visit in visits) and bugs
    if json:
        examples = [{**asdict(visit), "ok": visit.ok} for visit in visits]
        caught = None if error is None else str(error)
        races = [report.to_dict() for report in (racing, clean)]
        show.data(
            {"ok": ok, "seconds": seconds, "examples": examples, "caught": caught, "races": races}
        )
    else:
        _verdict(visits, seconds)
        show.line("\nA kernel that reads x[i + 1]: the last thread is out-of-bounds.", "bold")
        show.line(str(error) if error is not None else "The bug was not reported.", "red")
        show.line("\nA kernel without a necessary barrier, under the sanitizer:", "bold")
        show.line(str(racing), "red")
        show.line("\nThe same kernel with __syncthreads():", "bold")
        show.line(str(clean), "red" if clean.findings else "green")
        show.line(f"\nThe kernels are in {tour.EXAMPLES}")
        show.line(_NEXT)
    if not ok:
        raise typer.Exit(1)


def _facts() -> list[Visit]:
    return list(tour.visits())


def _show() -> list[Visit]:
    show.line(f"Simulating {tour.simulation()}", "bold")
    show.line(_LEGEND)
    show.line(_columns("kernel", "what it shows", "grid x block", "CPU time", "max error"), "dim")
    out, visits = show.console(), []
    with _progress(out) as progress:
        task = progress.add_task("compiling and running", total=len(tour.STOPS))
        for visit in tour.visits():
            visits.append(visit)
            # Through the console of the bar, which redraws itself below the line.
            progress.console.print(_line(visit), soft_wrap=True)
            progress.advance(task)
    return visits


def _progress(out: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=out, transient=True, disable=not sys.stdout.isatty())


def _line(visit: Visit) -> Text:
    shape = f"{_shape(visit.grid)} x {_shape(visit.block)}"
    error = f"{visit.max_error:.1e}" if visit.max_error else "0"
    text = _columns(visit.name, visit.shows, shape, f"{visit.run_seconds * 1e3:.1f} ms", error)
    mark = (" ✓", "bold green") if visit.ok else (f" ✗ more than {visit.tolerance:.1e}", "bold red")
    return Text.assemble(text, mark)


def _columns(kernel: str, shows: str, shape: str, seconds: str, error: str) -> str:
    return f"{kernel:<12} {shows:<33} {shape:<13} {seconds:>8} {error:>9}"


def _shape(dims: object) -> str:
    return ",".join(map(str, dims)) if isinstance(dims, tuple) else str(dims)


def _verdict(visits: list[Visit], seconds: float) -> None:
    right = sum(visit.ok for visit in visits)
    compiling = sum(visit.compile_seconds for visit in visits)
    show.line(
        f"\n{right} of {len(visits)} agree with NumPy in float64. {seconds:.1f} s in total, "
        f"{compiling:.1f} s of it to compile. The compiled code is in the cache now."
    )
