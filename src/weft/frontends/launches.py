"""Runs a launch of a script, and lets a CUDA graph that captures launches record it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Recorder = Callable[[Callable[[], Any], Any], None]

recorders: list[Recorder] = []
"""Called with (launch, its arguments) before the launch runs."""


def run(launch: Callable[[], Any], arguments: Any) -> None:
    """Runs a launch after the recorders have seen it."""
    for record in recorders:
        record(launch, arguments)
    launch()
