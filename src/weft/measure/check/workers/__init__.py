"""Checks the solutions of a file in separate processes.

    judge (this process)  draws data, compares, gives the verdict; never imports the user's code
      ├── reference worker   imports the file, evaluates its reference and its fillings
      └── solution worker    imports the file, calls one solution; a new one for each

Both kinds of worker run `worker.py` and learn their role only from the requests. `forkserver.py`
forks them, so that weft is imported once. `wire.py` defines the messages, `process.py` starts a
worker and waits for its answers, `watchdog.py` detects a worker that hangs, `remote.py`
is the judge's view of operations and solutions, and `file.py` checks all solutions of a file.
"""

from weft.measure.check.workers.file import LIMIT, check_file

__all__ = ["LIMIT", "check_file"]
