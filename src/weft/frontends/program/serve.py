"""Runs a program in this process: calls its `main` and serves its CUDA calls.

    python -m weft.frontends.program.serve JOB [ARGUMENT ...]      (a `ProgramJob` as JSON)

Arguments replace those of the job: a program that starts itself again passes them.

The program and the library are passed as anonymous open files, so that nothing can change or remove
them. Signals behave as in any C program.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import progress
from weft.device import models
from weft.device.sim.run import settings
from weft.device.sim.run.failures import deadlock_detection
from weft.device.sim.run.tiers import background
from weft.frontends import race_hint
from weft.frontends.program import loading
from weft.frontends.program.host import Host
from weft.frontends.program.interface import model_of
from weft.frontends.program.job import ProgramJob
from weft.frontends.program.output import Output
from weft.frontends.program.runtime import Runtime
from weft.frontends.program.unit import SourceFiles, TranslationUnit
from weft.source import toolkit

if TYPE_CHECKING:
    from weft.measure.profile.session import Recording

_NVTX = "NVTX_INJECTION64_PATH"
"""The variable in which NVTX looks for the library that takes its ranges."""
DEBUG = "WEFT_DEBUG"
"""The variable by which `weft debug` asks for the debugger: see `weft.debug.process`."""
_PARENT_DIED = 1  # PR_SET_PDEATHSIG
_ALLOCATIONS = 50_000
"""Objects between two runs of the garbage collector: nearly all are modules and compiled code, and
stay. The process runs no Python code of the user."""


def main(job: ProgramJob) -> None:
    """Load the program, call its main, and exit with its status."""
    gc.set_threshold(_ALLOCATIONS)
    libc = ctypes.CDLL(None)
    libc.prctl(_PARENT_DIED, signal.SIGKILL)
    background.at_exit = functools.partial(_at_exit, libc)  # the program ends by C's exit
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    progress.enabled = job.progress
    if job.report is not None:
        from weft.frontends.program.sanitizer.report import (
            ForwardedReport,  # plain runs do without its code
        )

        settings.current = ForwardedReport(job.report)
    library, *_ = loading.load(job.library)
    Output.install(library)
    files, model, tools = SourceFiles(tuple(job.files)), models.get(job.gpu), toolkit.find()
    name = os.path.basename(job.arguments[0])
    source = next((os.path.basename(f) for f in job.files if Path(f).stem == name), name)
    runtime = Runtime(
        library, lambda text: TranslationUnit(text, name, files, model, tools), source
    )
    if job.record is not None:
        recording = _record(libc, job.record, job.wanted)
        if recording.timeline:
            runtime.follow(recording)
            os.environ[_NVTX] = _open(job.library[-1])
    library.weft_begin(ctypes.byref(runtime.ops), ctypes.byref(model_of(model)))
    library.weft_gpus(job.gpus)
    library.weft_idle(-1 if job.idle is None else job.idle)
    _let_start_itself(job)
    if job.poison:
        library.weft_poison()
    if job.record is None and settings.active() is not None:
        runtime.watch(_open(job.program), files)
        _at_exit(libc, runtime.ended)  # after the program's destructors, before its exit code
    if settings.active() is not None or os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0":
        library.weft_block()  # tools need one launch at a time
    else:
        deadlock_detection.host = Host(library).quiet
    # A run with an idle GPU asks for its result alone.
    hints = settings.active() is None and job.idle is None
    if hints and (patience := race_hint.patience()):
        command = f"weft check --sanitize {source}"
        runtime.race_hint = race_hint.RaceHint(runtime.say, command, patience)
        _at_exit(libc, runtime.race_hint.report)
    if os.environ.get(DEBUG):
        from weft.debug import process  # plain runs do without its code

        signal.signal(signal.SIGINT, signal.default_int_handler)  # it stops a launch
        session = process.install_from_environment()
        _at_exit(libc, functools.partial(process.report_unreached, session))
        library.weft_block()
    program = ctypes.CDLL(_open(job.program), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    # Work that is still in flight at exit must finish before destructors run.
    libc.__cxa_atexit(ctypes.cast(library.weft_drain, ctypes.c_void_p), None, None)
    arguments = [os.fsencode(a) for a in job.arguments]
    argv = (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    status = program.main(len(arguments), argv)
    library.weft_drain()
    libc.exit(status)  # destructors of the program may call CUDA


def _let_start_itself(job: ProgramJob) -> None:
    """Give the library the command by which the program can start itself in another process."""
    if starts_by := loading.function("weft_starts_by"):
        command = [sys.executable, "-P", "-m", __spec__.name, job.text()]
        words = [os.fsencode(word) for word in (job.arguments[0], *command)]
        starts_by((ctypes.c_char_p * (len(words) + 1))(*words, None))


def _record(libc: ctypes.CDLL, descriptor: int, wanted: Mapping[str, Any]) -> Recording:
    """Profile all launches and write the profiles at exit."""
    from weft.measure.profile.session import Recording  # plain runs do without its code

    settings.current = recording = Recording(**wanted)

    def write() -> None:
        with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
            json.dump(recording.to_record(), file)

    _at_exit(libc, write)
    return recording


def _at_exit(libc: ctypes.CDLL, do: Callable[[], None]) -> None:
    """Register a function with C's atexit, which runs later registrations first."""
    _kept.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda nothing: do()))
    libc.__cxa_atexit(_kept[-1], None, None)


_kept: list[object] = []
"""Keeps ctypes callbacks alive for C."""


def _open(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


if __name__ == "__main__":
    given = ProgramJob(**json.loads(sys.argv[1]))
    main(replace(given, arguments=tuple(sys.argv[2:]) or given.arguments))
