"""For the processes of the sweep: a clock, and tasks that each end in their own way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from weft.cluster.processes import Answer


def clock(contenders: Sequence[Any]) -> list[float]:
    """Calls each once; weft takes 2 µs, the others 3 and 1."""
    for contender in contenders:
        contender()
    return [2e-6, 3e-6, 1e-6][: len(contenders)]


def start() -> Callable[[str], Answer]:
    return _do


def fail() -> Callable[[str], Answer]:
    os._exit(3)


def _do(task: str) -> Answer:
    if task == "die":
        os._exit(1)
    if task == "hang":
        time.sleep(600)
    if task == "break":
        return Answer("broke", broken=True)
    if task == "again":
        return Answer(again="it again", broken=True)
    return Answer(f"did {task}")
