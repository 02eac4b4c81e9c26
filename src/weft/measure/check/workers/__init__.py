"""Solutions of a file, judged from another process than their own.

    judge (this process)  draws data, compares, gives the verdict; imports nothing of the user's
      ├── reference worker   imports the file, evaluates its reference and its fillings
      └── solution worker    imports the file, calls one solution; a new one for each

Both workers do the same, `worker.py`, and cannot tell which they are until they are asked. They are
forked from `forkserver.py`, so that weft is imported once. `wire.py` has the messages, `process.py`
starts a worker and waits for its answers, `watchdog.py` tells a slow worker from one that hangs,
`remote.py` has operations and solutions as the judge knows them, `file.py` judges all of a file.
"""

from weft.measure.check.workers.file import LIMIT, Outcome, check_file

__all__ = ["LIMIT", "Outcome", "check_file"]
