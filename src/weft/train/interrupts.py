"""Ctrl-C during a training: the step that runs is finished, so that weights and counts agree."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SAME = 1.0
"""Seconds within which a repeated signal counts as the same one."""


class Interrupts:
    """Inside of its `with` block the first Ctrl-C is noted in `asked`; a later one raises.

    `torchrun` passes Ctrl-C on to processes that the terminal has told already, so signals right
    after the first one are the same Ctrl-C. Threads other than the main one cannot handle signals;
    there it notes nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._when = 0.0
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.asked:
            self.asked, self._when = True, time.monotonic()
        elif time.monotonic() - self._when > SAME:
            raise KeyboardInterrupt
