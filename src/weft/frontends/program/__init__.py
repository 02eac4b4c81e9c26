"""Whole CUDA programs: compiled by nvcc, run in a process of their own on the simulated GPU.

    build.py     sources to a shared object with `main`, and the library that serves it, cached
    shim/        the library: CUDA's runtime API, cuBLAS and cuRAND, in C++
    serve.py     the program's process
    runtime.py   what the library asks of the simulator

`run` is the verb.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FrameType

from weft import progress
from weft.device import models
from weft.device.sim import switch
from weft.errors import LaunchError
from weft.frontends.program import toolkit
from weft.frontends.program.build import Program, build
from weft.frontends.program.job import Job
from weft.measure.session import Recording

_FORWARDED = (signal.SIGTERM, signal.SIGHUP)


def run(
    path: str,
    args: Sequence[str],
    *,
    device: str = "sim",
    gpu: str = models.DEFAULT,
    sources: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> int:
    """Builds the program, runs it with these arguments; its exit code, 128 + n for signal n.

    sources  more files of the program
    flags    for nvcc, e.g. ["-Iinclude", "-DN=4", "-std=c++20"]
    """
    if device != "sim":
        raise LaunchError(
            "a whole program runs on the simulated GPU alone",
            got=f"--device {device}",
            next=f"nvcc {path} builds it for the GPU that is there",
        )
    model = models.get(gpu)
    program = build([path, *sources], flags, model.compile_for, toolkit.find())
    return _run(program, model.key, (os.path.splitext(path)[0], *args))


def _run(program: Program, gpu: str, arguments: tuple[str, ...]) -> int:
    session = switch.current
    recording = session if isinstance(session, Recording) else None
    with (
        _file("program", program.code) as code,
        _file("library", program.library) as library,
        _file("report", b"") as report,
    ):
        job = Job(code, library, program.files, gpu, arguments, progress.enabled)
        if recording is not None:
            job = replace(job, record=report, wanted=recording.wanted)
        elif session is not None:
            job = replace(job, report=report)
        command = [sys.executable, "-P", "-m", "weft.frontends.program.serve", job.text()]
        status = _wait(subprocess.Popen(command, pass_fds=(code, library, report)))
        if recording is not None:
            recording.take(f"/proc/self/fd/{report}")
        elif session is not None:
            from weft.frontends.program.sanitized import collect  # plain runs do without its code

            collect(session, report)
    if status >= 0:
        return status
    name = signal.Signals(-status).name
    hint = ": host code that touched what is not its own?" if name == "SIGSEGV" else ""
    if name not in ("SIGINT", "SIGPIPE", "SIGTERM"):
        print(f"weft: the program was ended by {name}{hint}", file=sys.stderr)
    return 128 - status


def _wait(process: subprocess.Popen[bytes]) -> int:
    """The program's end; Ctrl-C reaches it from the terminal, other signals are passed on."""

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    try:
        before = {number: signal.signal(number, forward) for number in _FORWARDED}
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread: signals are not this one's business
        return process.wait()
    try:
        return process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _file(name: str, data: bytes) -> Iterator[int]:
    """An open file without a name, which is gone with the last process that has it."""
    descriptor = os.memfd_create(f"weft-{name}")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield descriptor
    finally:
        os.close(descriptor)
