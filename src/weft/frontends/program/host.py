"""Detects whether host threads could still unblock a waiting kernel."""

from __future__ import annotations

import ctypes
import os
import threading

from weft.device.sim.run.failures import deadlock_detection

_MOST_STREAMS = 4096


class Host:
    """The threads of the program; create it before `main` is called."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._before = _threads()

    def quiet(self) -> object:
        """A token of the host's state; None while other stream work or a host thread runs.

        Every kernel under way is one piece of work. A host thread that waits for work writes
        nothing until that work has ended. Two equal tokens mean that no thread has run in between.
        """
        able, waits, turns = (ctypes.c_int64() for _ in range(3))
        stream_threads, count = (ctypes.c_int64 * _MOST_STREAMS)(), ctypes.c_size_t(_MOST_STREAMS)
        self._library.weft_activity(
            *(ctypes.byref(x) for x in (able, waits, turns)), stream_threads, ctypes.byref(count)
        )
        # Threads of weft itself never write program memory; the main thread runs the program.
        python = {t.native_id for t in threading.enumerate()} - {threading.main_thread().native_id}
        others = _threads() - self._before - python - set(stream_threads[: count.value])
        if able.value != deadlock_detection.running() or waits.value < 1 + len(others):
            return None
        return turns.value, frozenset(others)


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}
