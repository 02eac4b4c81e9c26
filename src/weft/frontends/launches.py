"""Launches of a script, which a CUDA graph or a profile may record."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.kernels import Launch

Recorder = Callable[[str, Callable[[], Any], Any], None]

recorders: list[Recorder] = []
"""Called with (name of the kernel, launch, its arguments) before the launch runs."""


def run(name: str, launch: Callable[[], Any], arguments: Any) -> None:
    """Run a launch after the recorders have seen it."""
    for record in recorders:
        record(name, launch, arguments)
    launch()


def replace_weft(run: Callable[[Launch, tuple[Any, ...], Callable[[], None]], None]) -> None:
    """Let `run` make the launches of weft kernels: (launch, arguments, the plain launch).

    The method of the class is replaced, because the launch itself has no list of hooks: on a GPU
    it takes less than a microsecond, and a profile of a script is the only use of one.
    """
    plain = Launch.__call__

    @functools.wraps(plain)
    def call(launch: Launch, *args: Any, **settings: Any) -> None:
        run(launch, args, lambda: plain(launch, *args, **settings))

    setattr(Launch, "__call__", call)  # noqa: B010  mypy holds methods to be constant
