"""Times a script's launches on a real GPU with events, where reading counters is not permitted.

`times` runs a script in a process of its own. A kernel of weft's is launched on copies of its
arrays when it is seen first, as `weft.profile` does; around each launch of Triton's stand two
events.
"""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.frontends import script
from weft.kernels import Launch
from weft.measure.profile import on_gpu

if TYPE_CHECKING:
    from weft.measure.bench.timing import Stream


class Times:
    """Seconds of launches, by kernel and shape; of Triton's kernels by their names alone."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self._seconds = seconds

    def of(self, kernel: str, grid: Sequence[int], block: Sequence[int]) -> float | None:
        """The median, where it was timed."""
        taken = self._seconds.get(key(kernel, grid, block)) or self._seconds.get(key(kernel))
        return statistics.median(taken) if taken else None


def key(kernel: str, grid: Sequence[int] = (), block: Sequence[int] = ()) -> str:
    """How launches are told apart."""
    return " ".join([kernel, *(str(tuple(dims)) for dims in (grid, block) if dims)])


def times(path: str, args: Sequence[str]) -> Times:
    """Runs a script; no times where it fails: its other run says why."""
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as out:
        command = [sys.executable, "-m", "weft.frontends.timed", out.name, path, *args]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return Times({} if done.returncode else json.load(out))


class Clock:
    """Takes the times of this process's launches; `found` has them."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @functools.cached_property
    def stream(self) -> Stream:
        """Made by the first launch: which library it is of is known then."""
        from weft.measure.bench.timing import Stream  # needs a driver

        return Stream()

    def time_weft(self) -> None:
        """Times kernels of weft's from now on, each with each shape once."""
        plain = Launch.__call__

        @functools.wraps(plain)
        def timed(launch: Launch, *args: Any, **settings: Any) -> None:
            name = key(launch.name, launch.config.grid, launch.config.block)
            if name not in self.seconds and on_gpu.is_there(args, {}):
                self.seconds[name] = []  # the launches on copies come by here, too
                self.seconds[name].append(on_gpu.seconds(launch, args, {}))
            plain(launch, *args, **settings)

        setattr(Launch, "__call__", timed)  # noqa: B010  mypy holds methods to be constant

    def time_triton(self) -> None:
        """Times Triton's kernels, by its own hooks."""
        from triton import knobs

        def enter(metadata: Any) -> None:
            self.stream.begin()

        def leave(metadata: Any) -> None:
            taken = self.stream.end() / 1e3
            self.seconds.setdefault(key(metadata.get()["name"]), []).append(taken)

        knobs.runtime.launch_enter_hook.add(enter)
        knobs.runtime.launch_exit_hook.add(leave)


def main(out: str, path: str, *args: str) -> int:
    """Runs the script with a clock; writes what it took."""
    clock = Clock()
    clock.time_weft()
    script.after_import({"triton": clock.time_triton})
    code = script.run(path, args, device="gpu")
    Path(out).write_text(json.dumps(clock.seconds))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
