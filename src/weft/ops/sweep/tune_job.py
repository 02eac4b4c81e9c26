"""A worker that tunes: measures the candidates of the calls that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.cluster.processes import Answer
from weft.errors import Error
from weft.ops.sweep import time
from weft.ops.sweep.draw import Call
from weft.ops.sweep.tune import measured


@dataclass(frozen=True)
class TuneTask:
    """A call to tune."""

    call: Call

    def __str__(self) -> str:
        return f"{self.call.op} {self.call}"


@dataclass(frozen=True)
class TuneJob:
    """The settings of all workers; the value of an answer is a JSON value.

    {"tuned": the line of the call, "key": of the winner in the cache} or {"failure": the reason}
    """

    seed: int
    device: str = "cuda"
    clock: time.Clock = time.as_called

    def start(self) -> Callable[[TuneTask], Answer]:
        """Return the function that tunes a call in this process."""
        return self._tuned

    def _tuned(self, task: TuneTask) -> Answer:
        value: dict[str, Any]
        try:
            found, key = measured(task.call, self.device, self.clock, self.seed)
            value = {"tuned": found.to_dict(), "key": key}
        except Error as error:
            value = {"failure": " ".join(str(error).split())}
        return Answer(value)
