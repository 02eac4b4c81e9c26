"""Tasks for the processes of the sweep, each of which ends in its own way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from weft.ops.sweep.pool import Answer


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
