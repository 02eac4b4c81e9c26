"""Runs a launch of a script, which a CUDA graph or a profile may record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Recorder = Callable[[str, Callable[[], Any], Any], None]

recorders: list[Recorder] = []
"""Called with (name of the kernel, launch, its arguments) before the launch runs."""


def run(name: str, launch: Callable[[], Any], arguments: Any) -> None:
    """Run a launch after the recorders have seen it."""
    for record in recorders:
        record(name, launch, arguments)
    launch()
