"""Runs in the worker process: receives jobs, executes actions, answers.

`process.py` starts it in a folder of its own. Its output goes into a file there, which each answer
carries: `printf` of kernels, `print` of Python sources, and what is left of a crash.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import socket
import sys
import threading
import time
from typing import Any

from weft.lab import marks
from weft.measure.check.workers import wire

OUTPUT = "output.txt"
DEBUG = "debug"
"""The action whose jobs are commands of the debugger."""
EXPORT = "export"
"""The action that makes a page."""
_MODULES = {"": "actions", DEBUG: "debugger.commands", EXPORT: "exporting.exported"}
"""Action -> the module that performs it; "" for all others."""
MOST_OUTPUT = 64 << 10
"""The most bytes of output that an answer carries."""
_FILES = 256 << 20
"""The largest file that a worker may write."""


def main() -> None:
    """Serve until the server closes the connection."""
    number, memory = int(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_watch_parent, args=[os.getppid()], daemon=True).start()
    connection = socket.socket(fileno=number)
    connection.set_inheritable(False)
    _redirect()
    modules = {name: importlib.import_module(f"weft.lab.{name}") for name in _MODULES.values()}
    # Set after the imports: libraries reserve address space that they never use.
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILES, _FILES))
    wire.send(connection, {"ready": True})
    while (asked := wire.receive(connection, files=0)) is not None:
        wire.send(connection, _answer(modules, asked[0]))


def _answer(modules: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    debugs = asked["do"] == DEBUG
    if not debugs or asked["job"].get("command") == "start":  # else, what was printed since then
        _clear()
    try:
        perform = modules[_MODULES.get(asked["do"], _MODULES[""])].perform
        answer = {"ok": True, **perform(**asked)}
    except MemoryError:
        answer = {"ok": False, "error": {"kind": "MemoryError", "text": _NO_MEMORY, "marks": []}}
    except BaseException as error:  # the user's source may raise anything
        answer = {"ok": False, "error": marks.of_error(error)}
    return {**answer, "said": said()}


_NO_MEMORY = (
    "the worker has no memory left\n  next: choose smaller sizes, or start the lab with --memory"
)


def _watch_parent(parent: int) -> None:
    """Ends the worker when the server is gone, even in the middle of a job.

    PR_SET_PDEATHSIG would not do: it acts when the thread ends that has started the process.
    """
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _redirect() -> None:
    output = os.open(OUTPUT, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)


def _clear() -> None:
    _flush()
    os.ftruncate(1, 0)


def said() -> str:
    """The text that was printed since `_clear`."""
    _flush()
    size = os.fstat(1).st_size
    text = os.pread(1, MOST_OUTPUT, 0).decode("utf-8", "replace")
    return text + (f"\n… {size - MOST_OUTPUT:,} bytes more" if size > MOST_OUTPUT else "")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # too long, or closed by the source
            stream.flush()
    ctypes.CDLL(None).fflush(None)


if __name__ == "__main__":
    main()
