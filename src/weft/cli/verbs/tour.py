"""`weft tour`: kernels run and verified on the simulated GPU, and bugs being caught."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from weft import tour
from weft.cli import show
from weft.device import models
from weft.device.sim.run import host
from weft.tour import Visit

_LEGEND = """\
CPU time   how long the simulation takes on this CPU; it is not the time of a GPU
max error  against NumPy in float64, as a part of the largest answer
"""
_NEXT = """\
What next
  weft.cuda("FILE.cu").kernel[grid, block](*arrays)    your own kernel, from Python
  weft check --sanitize FILE      races and other bugs of a script or program
  weft ptx FILE.cu       the PTX of a kernel
  weft devices           the GPUs that can be simulated
  weft isa               which PTX instructions are covered
  weft doctor            what is installed, what is missing"""


def run(json: show.Json = False) -> None:
    """Compile, launch and verify kernels on the simulated GPU; then catch two bugs."""
    start = time.perf_counter()
    found = _facts() if json else _show()
    seconds = time.perf_counter() - start
    error = tour.caught()
    racing, clean = tour.raced()
    bugs = error is not None and bool(racing.findings) and not clean.findings
    ok = all(visit.ok for visit in found) and bugs
    if json:
        examples = [{**asdict(visit), "ok": visit.ok} for visit in found]
        caught = None if error is None else str(error)
        races = [report.to_dict() for report in (racing, clean)]
        show.data(
            {"ok": ok, "seconds": seconds, "examples": examples, "caught": caught, "races": races}
        )
    else:
        _verdict(found, seconds)
        show.line("\nNow a kernel with a bug: it reads x[i + 1], one too far.", "bold")
        show.line(str(error) if error is not None else "It went unnoticed.", "red")
        show.line(
            "\nAnd one that forgets a barrier: right on most days, so ask the sanitizer.", "bold"
        )
        show.line(str(racing), "red")
        show.line("\nThe same with __syncthreads() between the two lines:", "bold")
        show.line(str(clean), "red" if clean.findings else "green")
        show.line(f"\nThe kernels are in {tour.EXAMPLES}")
        show.line(_NEXT)
    if not ok:
        raise typer.Exit(1)


def _facts() -> list[Visit]:
    return list(tour.visits())


def _show() -> list[Visit]:
    machine = host.describe()
    model = models.get(models.DEFAULT)
    show.line(f"Simulating {model.name} on {machine.threads} threads of {machine.cpu}", "bold")
    show.line(_LEGEND)
    show.line(_columns("kernel", "what it shows", "grid x block", "CPU time", "max error"), "dim")
    out, found = show.console(), []
    with _progress(out) as progress:
        task = progress.add_task("compiling and running", total=len(tour.STOPS))
        for visit in tour.visits():
            found.append(visit)
            progress.console.print(_line(visit), soft_wrap=True)
            progress.advance(task)
    return found


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


def _verdict(found: list[Visit], seconds: float) -> None:
    right = sum(visit.ok for visit in found)
    compiling = sum(visit.compile_seconds for visit in found)
    show.line(
        f"\n{right} of {len(found)} agree with NumPy in float64. {seconds:.1f} s in all, "
        f"{compiling:.1f} s of it to compile (kept in the cache for the next time)."
    )
