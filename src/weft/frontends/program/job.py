"""What the program's process is told."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Job:
    """What to run: file descriptors of program and library, the user's files, the GPU, argv.

    report  a file descriptor for what the sanitizer finds; None: it is off
    """

    program: int
    library: int
    files: tuple[str, ...]
    gpu: str
    arguments: tuple[str, ...]
    report: int | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))
