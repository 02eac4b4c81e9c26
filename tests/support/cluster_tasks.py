"""For the workers of a test cluster: GPUs that are names only, and jobs with a deadly candidate.

Workers get this module by value, because it is not installed on their node.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from weft.cluster import notes
from weft.cluster.processes import Answer
from weft.ops.core import choose, library
from weft.ops.core.choose import Candidate
from weft.ops.sweep.tune_job import TuneJob


def about() -> dict[str, str]:
    """Ray gives each worker one GPU; its number stands for its name."""
    return {"gpu": f"Fake {os.environ['CUDA_VISIBLE_DEVICES']}"}


def same() -> dict[str, str]:
    return {"gpu": "Fake"}


def start() -> Callable[[str], Answer]:
    return _do


def _do(task: str) -> Answer:
    if task == "die":
        os._exit(1)
    if task == "part":
        if "the part" in notes.banned:
            return Answer("did the rest")
        notes.note("the part")
        os._exit(1)
    if task == "break":
        return Answer(f"broke {os.getpid()}", broken=True)
    if task == "raise":
        raise ValueError("no such task")
    if task == "again":
        return Answer(again="it again", broken=True)
    return Answer(f"did {task}")


def fail() -> Callable[[str], Answer]:
    raise ValueError("no such library")


def clock(contenders: Sequence[Any]) -> list[float]:
    for contender in contenders:
        contender()
    return [3e-6, 2e-6, 1e-6][-len(contenders) :]


@dataclasses.dataclass(frozen=True)
class DeadlyJob(TuneJob):
    """Tunes on the simulated GPU; the first candidate ends its process."""

    def start(self) -> Callable[[Any], Answer]:
        function = library.function("softmax")
        offered = function.definition.candidates
        deadly = Candidate("deadly", 0.0, "", lambda: os._exit(3))
        function.definition = dataclasses.replace(
            function.definition, candidates=lambda r: [deadly, *offered(r)]
        )
        choose.remember = lambda key, name: True  # the user's cache stays as it is
        return super().start()
