"""Solutions of a file, judged from another process than their own.

    judge (this process)  draws data, compares, gives the verdict; imports nothing of the user's
      ├── reference worker   imports the file, evaluates its reference and its fillings
      └── solution worker    imports the file, calls one solution; a new one for each

Both workers run the same program, `worker.py`. `wire.py` has the messages, `process.py` starts a
worker and waits for its answers, `health.py` tells a slow worker from one that hangs, `file.py`
judges all solutions of a file.
"""

from weft.measure.workers.file import LIMIT, Outcome, check_file

__all__ = ["LIMIT", "Outcome", "check_file"]
