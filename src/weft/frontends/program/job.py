"""Defines the job description for the program's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProgramJob:
    """The job: file descriptors of program and runtime library, the user's files, the GPU, argv.

    progress  whether to print progress lines on a terminal
    report  a file descriptor for findings of the sanitizer; None if it is off
    poison  whether new device memory is filled with a pattern
    gpus    the number of simulated GPUs
    idle    a GPU whose kernels return at once; None for no such GPU
    record  the file descriptor for profiles; `wanted` selects them
    """

    program: int
    library: tuple[int, ...]
    files: tuple[str, ...]
    gpu: str
    arguments: tuple[str, ...]
    progress: bool = False
    report: int | None = None
    record: int | None = None
    wanted: Mapping[str, Any] = field(default_factory=dict)
    poison: bool = False
    gpus: int = 1
    idle: int | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))
