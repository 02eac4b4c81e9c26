"""What the program's process is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Job:
    """What to run: file descriptors of program and library, the user's files, the GPU, argv.

    progress  whether to say on a terminal what takes long
    report  a file descriptor for what the sanitizer finds; None: it is off
    record  the file descriptor that profiles are written to, and `wanted` which ones
    """

    program: int
    library: int
    files: tuple[str, ...]
    gpu: str
    arguments: tuple[str, ...]
    progress: bool = False
    report: int | None = None
    record: int | None = None
    wanted: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        return json.dumps(asdict(self))
