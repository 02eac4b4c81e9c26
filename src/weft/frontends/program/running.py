"""Builds a program and runs it in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft import progress
from weft.device.selection import Selection, select
from weft.device.sim.run import settings
from weft.errors import LaunchError
from weft.frontends.program import executable
from weft.frontends.program.build import BuiltProgram, build
from weft.frontends.program.job import ProgramJob
from weft.frontends.program.library import runtime_library
from weft.frontends.program.start import copies
from weft.source import toolkit

if TYPE_CHECKING:
    from weft.measure.profile.session import Recording

MOST_GPUS = 64
"""As many as the runtime library has room for."""
MOST_COPIES = 64
"""Processes of one program."""


def run(
    path: str,
    args: Sequence[str],
    *,
    device: str | Selection = "sim",
    sources: Sequence[str] = (),
    flags: Sequence[str] = (),
    poison: bool = False,
    gpus: int = 1,
    procs: int = 1,
    idle: int | None = None,
    stdout: int | None = None,
) -> int:
    """Build and run the program; return its exit code, 128 + n for signal n.

    path     a source, or a program of `weft nvcc`
    sources  more files of the program
    flags    for nvcc, e.g. ["-Iinclude", "-DN=4", "-std=c++20"]
    poison   fill new device memory with a pattern instead of zeros
    gpus     the number of GPUs that the program sees
    procs    the number of copies that run at the same time; RANK and WORLD_SIZE say which one it is
    idle     a GPU whose kernels return at once, to learn what depends on them
    stdout   a file descriptor for the program's output, instead of the standard output
    """
    chosen = select(device)
    if chosen.real:
        raise LaunchError(
            "a whole program runs on the simulated GPU alone",
            got=f"--device {chosen.word}",
            next=f"nvcc {path} builds it for the GPU that is there",
        )
    model = chosen.simulated
    tools = toolkit.find()
    recording = _recording(settings.current)
    traced = recording is not None and recording.timeline
    if not os.path.splitext(path)[1] and (built := executable.unwrapped(path)) is not None:
        program = BuiltProgram(
            built.code, runtime_library(tools, built.parts, traced=traced), built.sources
        )
    else:
        program = build([path, *sources], flags, model.compile_for, tools, traced=traced)
    if not 1 <= gpus <= MOST_GPUS:
        raise LaunchError(
            "this number of GPUs cannot be simulated", got=str(gpus), allowed=f"1 to {MOST_GPUS}"
        )
    if not 1 <= procs <= MOST_COPIES:
        raise LaunchError(
            "a program cannot run in this number of processes",
            got=f"--procs {procs}",
            allowed=f"1 to {MOST_COPIES}",
        )
    arguments = (os.path.splitext(path)[0], *args)
    return _run(program, model.key, arguments, poison, gpus, idle, procs, stdout)


def _run(
    program: BuiltProgram,
    gpu: str,
    arguments: tuple[str, ...],
    poison: bool,
    gpus: int,
    idle: int | None,
    procs: int,
    stdout: int | None,
) -> int:
    session = settings.current
    recording = _recording(session)
    with contextlib.ExitStack() as stack:
        code, report, *served = (
            stack.enter_context(_file(data)) for data in (program.code, b"", *program.library)
        )
        job = ProgramJob(code, tuple(served), program.files, gpu, arguments, progress.enabled)
        job = replace(job, poison=poison, gpus=gpus, idle=idle)
        if recording is not None:
            job = replace(job, record=report, wanted=recording.wanted)
        elif session is not None:
            job = replace(job, report=report)
        command = [sys.executable, "-P", "-m", "weft.frontends.program.serve", job.text()]
        status = copies.ended(command, (code, report, *served), stdout, procs)
        if recording is not None:
            recording.add_record(f"/proc/self/fd/{report}")
        elif session is not None:
            from weft.frontends.program.sanitizer.report import (
                merge_findings,  # plain runs do without its code
            )

            merge_findings(session, report)
    if status >= 0:
        return status
    name = signal.Signals(-status).name
    if name == "SIGINT":
        print("weft: interrupted", file=sys.stderr)
    hint = ": host code that touched what is not its own?" if name == "SIGSEGV" else ""
    if name not in ("SIGINT", "SIGPIPE", "SIGTERM"):
        print(f"weft: the program was ended by {name}{hint}", file=sys.stderr)
    return 128 - status


def _recording(session: settings.Session | None) -> Recording | None:
    """The session, if it is a profiler's."""
    if session is None:
        return None
    from weft.measure.profile.session import Recording  # plain runs do without its code

    return session if isinstance(session, Recording) else None


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[int]:
    """An anonymous file, freed with the last process that has it open."""
    descriptor = os.memfd_create("weft")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield descriptor
    finally:
        os.close(descriptor)
