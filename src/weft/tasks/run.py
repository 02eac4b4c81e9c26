"""Runs a script or a CUDA program with its kernels on a device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft import progress
from weft.device.selection import Selection
from weft.device.sim import printing_threads, schedules
from weft.device.sim.run import printf, settings
from weft.errors import Error
from weft.frontends.files import is_script, runner, script_runner
from weft.tasks.program import Build


@dataclass(frozen=True)
class RunOptions:
    """A program to run.

    module        `file` is the name of a Python module
    sanitize      stop at the first data race or memory error
    schedule      the schedule of all launches: first, last or random:SEED
    autotune      scripts: autotuners time all configurations
    show_kernels  scripts: print the kernels that torch.compile writes
    race_hint     look for data races in the background
    printf_from   show printf of these threads alone, each line with its block and thread
    """

    file: Path
    args: Sequence[str]
    device: Selection
    build: Build = field(default_factory=Build)
    module: bool = False
    sanitize: bool = False
    schedule: str = ""
    autotune: bool = False
    show_kernels: bool = False
    race_hint: bool = True
    printf_from: str = ""


def run(options: RunOptions) -> int:
    """Run the program and return its exit code."""
    front_end = script_runner() if options.module else runner(options.file)
    progress.enabled = True
    if options.sanitize:
        _sanitize(options.device)
    if options.schedule:
        _schedule(options.schedule, options.device)
    if options.printf_from:
        _print_from(options.printf_from, options.device)
    if not options.race_hint:
        os.environ["WEFT_RACE_HINT"] = "0"  # for the process of the program
    specific = options.build.keywords(options.file, module=options.module)
    if options.module or is_script(options.file):
        for_scripts = ("autotune", "show_kernels", "module")
        specific |= {name: getattr(options, name) for name in for_scripts}
    elif options.autotune or options.show_kernels:
        raise Error(
            "--autotune and --show-kernels are for scripts",
            got=str(options.file),
            next="leave them out",
        )
    code: int = front_end.run(
        str(options.file), list(options.args), device=options.device, **specific
    )
    return code


def _schedule(name: str, device: Selection) -> None:
    """Do what WEFT_SCHEDULE does, for this process and its children."""
    schedule = schedules.parse(name, "--schedule")
    if device.real:
        raise Error(
            "only the simulated GPU has schedules",
            got=f"--schedule {name} --device {device.word}",
            next="leave one of them out",
        )
    os.environ[schedules.VARIABLE] = str(schedule)


def _print_from(threads: str, device: Selection) -> None:
    """Do what WEFT_PRINTF_FROM does, for this process and its children."""
    printing_threads.parse(threads, "--printf-from")
    if device.real:
        raise Error(
            "only the simulated GPU selects the threads that print",
            got=f"--printf-from --device {device.word}",
            next="leave one of them out",
        )
    os.environ[printf.VARIABLE] = threads


def _sanitize(device: Selection) -> None:
    """Do what WEFT_SANITIZE=1 does, for this process and its children."""
    if device.real:
        raise Error(
            "`weft run --sanitize` checks launches on the simulated GPU only",
            got=f"--device {device.word}",
            next="weft check --device gpu --sanitize FILE",
        )
    # Children read the variable when they start; this process has done so already.
    os.environ[settings.VARIABLE] = "1"
    settings.turn_on()
