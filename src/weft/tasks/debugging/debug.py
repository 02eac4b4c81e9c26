"""Runs a script or a CUDA program with its launches under the debugger."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.debug import process
from weft.debug.commands import parse_breakpoint
from weft.device.selection import Selection
from weft.errors import Error
from weft.frontends.files import is_script, runner
from weft.tasks.program import Build

TRITON_NAMES = "LLVM_EXTRACT_DI_LOCAL_VARIABLES"
"""The variable of the environment by which Triton describes the variables of its kernels."""


@dataclass(frozen=True)
class DebugOptions:
    """A program to debug, and where its launches stop."""

    file: Path
    args: Sequence[str]
    device: Selection
    request: process.DebugRequest
    build: Build = field(default_factory=Build)


def debug(options: DebugOptions) -> int:
    """Run the program under the debugger and return its exit code."""
    if options.device.real:
        raise Error(
            "the debugger stops launches on the simulated GPU only",
            got=f"--device {options.device.word}",
            next="leave --device out, or name a model: --device sim:h200",
        )
    for text in options.request.breakpoints:  # a mistake is reported before the program starts
        parse_breakpoint(text)
    front_end, build = runner(options.file), options.build
    script = is_script(options.file)
    if not script:  # kernels of programs are compiled before they run
        build = replace(build, nvcc=[*(build.nvcc or ()), "-G"])
    keywords = build.keywords(options.file)
    before = os.environ.get(TRITON_NAMES)
    os.environ.setdefault(TRITON_NAMES, "1")
    session = process.install(options.request) if script else None
    if session is None:  # the process of the program installs it
        os.environ[process.VARIABLE] = options.request.text()
    try:
        code: int = front_end.run(
            str(options.file), list(options.args), device=options.device, **keywords
        )
    finally:
        os.environ.pop(process.VARIABLE, None)
        if before is None:
            os.environ.pop(TRITON_NAMES, None)
        if session is not None:
            session.close()
    if session is not None:
        process.report_unreached(session)
    return code
