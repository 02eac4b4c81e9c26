"""Forks workers from a process that has imported weft, so that workers start fast.

It never runs user code and holds no data. The judge requests a new worker or the exit code of one.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import traceback
from typing import Any

from weft.measure.check.workers import wire
from weft.measure.check.workers.worker import serve

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def main() -> None:
    """Serve the judge until it closes the connection."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_PR_SET_DUMPABLE, 0)  # workers must not trace this process
    judge = socket.socket(fileno=int(sys.argv[1]))
    judge.set_inheritable(False)
    while (asked := wire.receive(judge, files=2)) is not None:
        message, files = asked
        wire.send(judge, _ended(message["ended"]) if "ended" in message else _new(judge, *files))


def _new(judge: socket.socket, connection: int, output: int) -> dict[str, Any]:
    """Fork a worker with its connection to the judge and its output pipe."""
    pid = os.fork()
    if pid == 0:
        judge.close()
        _work(connection, output)
    os.close(connection)
    os.close(output)
    return {"pid": pid}


def _work(connection: int, output: int) -> None:
    """Serve in the child, in a new session; never return."""
    code = 1
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Debuggers may attach to a worker: it holds nothing secret.
        _prctl(_PR_SET_DUMPABLE, 1)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        serve(socket.socket(fileno=connection))
        code = 0
    except BaseException:  # the judge sees the exit code, not the exception
        traceback.print_exc()
    finally:
        os._exit(code)


def _ended(pid: int) -> dict[str, Any]:
    """The exit code of a worker, as `subprocess` reports it; null while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return {"code": os.waitstatus_to_exitcode(status) if done else None}


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
