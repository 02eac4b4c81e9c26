"""Compiles full code in processes of its own, while launches run on drafts.

LLVM cannot be stopped, and a thread inside of it would delay the exit of the process. A process can
be ended at any time, and its memory is free afterwards. It is started for the first job and ends
when there has been none for a while. Where it cannot be started, jobs fail, and drafts go on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from weft.device import jit

if TYPE_CHECKING:
    import subprocess

Done = Callable[[bytes, float], None]
"""Called with the object file and the seconds it took; no bytes: the compilation failed."""

LINGER = 2.0
"""Seconds that a process without jobs waits for the next one."""
MOST = max(1, (os.cpu_count() or 1) // 2)
"""Processes at a time: launches want the other cores."""

_START = "from weft.device.sim.run.tiers.server import serve; serve()"
_ANSWER = struct.Struct("<Qd")
_changed = threading.Condition()
_jobs: deque[tuple[Callable[[], str], Done]] = deque()
_threads: list[threading.Thread] = []
_processes: set[subprocess.Popen[bytes]] = set()
_exiting = False
_registered = False
_loading = threading.Lock()
"""Held while a thread loads code: an exit waits, since it takes LLVM apart."""


at_exit: Callable[[Callable[[], None]], object] = atexit.register
"""Registers a function to call at the end of the process; a process that ends without Python's own
functions sets another. The last registered function is called first, so before LLVM shuts down.
"""


def submit(text: Callable[[], str], done: Done) -> None:
    """Compile the IR that `text` returns; `done` is called in another thread."""
    global _registered
    with _changed:
        if not _registered:
            at_exit(_exit)
            _registered = True
        _jobs.append((text, done))
        _threads[:] = [t for t in _threads if t.is_alive()]
        if len(_threads) < MOST:
            # A daemon: deadlock detection does not count it as a thread that may write.
            _threads.append(threading.Thread(target=_work, name="weft compiles", daemon=True))
            _threads[-1].start()
        _changed.notify()


def _work() -> None:
    """One thread and its process, until there are no more jobs."""
    process: subprocess.Popen[bytes] | None = None
    # A write to a process that was ended is an error, and must not end this process instead.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
    try:
        while True:
            with _changed:
                if not _changed.wait_for(lambda: _jobs or _exiting, LINGER) or _exiting:
                    _threads.remove(threading.current_thread())  # the next job starts another
                    return
                text, done = _jobs.popleft()
            process = process or _start()
            made = _compiled(process, text())
            with _loading:
                done(*made)
            if process is not None and process.poll() is not None:
                _end(process)
                process = None
    finally:
        _end(process)


def _start() -> subprocess.Popen[bytes] | None:
    """Start a process; None if none can be started."""
    import subprocess  # here: most kernels run for too short a time to be compiled again

    # Only these and the standard library: files beside a script must not stand for modules.
    places = [str(Path(__file__).parents[5]), jit.folder()]
    command = f"import sys; sys.path += {places!r}; {_START}"
    # Without the site's hooks it starts in half the time. What is preloaded is for the program.
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", command],
            stdin=pipe, stdout=pipe, stderr=none, env=environment,
        )  # fmt: skip
    except OSError:
        return None
    with _changed:
        _processes.add(process)
    return process


def _compiled(process: subprocess.Popen[bytes] | None, text: str) -> tuple[bytes, float]:
    if process is None:
        return b"", 0.0
    assert process.stdin is not None and process.stdout is not None
    data = text.encode()
    with contextlib.suppress(OSError):  # a process that was ended answers nothing
        process.stdin.write(len(data).to_bytes(8, "little") + data)
        process.stdin.flush()
        head = process.stdout.read(_ANSWER.size)
        if len(head) == _ANSWER.size:
            size, seconds = _ANSWER.unpack(head)
            made = process.stdout.read(size)
            if len(made) == size:
                return made, seconds
    return b"", 0.0


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    process.kill()  # it has no work, or its work is not wanted any more
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with _changed:
        _processes.discard(process)


def _exit() -> None:
    global _exiting
    with _changed:
        _exiting = True
        _jobs.clear()
        _changed.notify_all()
        left = list(_processes)
    for process in left:
        process.kill()
        process.wait()
    _loading.acquire()  # and keeps it: these threads load nothing from here on


def _forget() -> None:
    """Reset in a child of `fork`: the threads and the processes are its parent's."""
    global _changed, _loading
    _changed, _loading = threading.Condition(), threading.Lock()
    _jobs.clear()
    _threads.clear()
    for process in _processes:
        process.returncode = 0  # not to be waited for here
    _processes.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
