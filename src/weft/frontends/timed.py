"""Times a script's launches on a real GPU with events, where reading counters is not permitted.

`times` runs a script in a separate process. The first launch of each weft kernel is timed on copies
of its arrays, as in `weft.profile`; each Triton launch is enclosed by two events.
"""

from __future__ import annotations

import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.frontends import launches, script
from weft.kernels import Launch
from weft.measure.profile import on_gpu

if TYPE_CHECKING:
    from weft.measure.bench.timing import TimingStream


class LaunchTimes:
    """Seconds of launches by kernel and shape; Triton kernels by name only."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self._seconds = seconds

    def of(self, kernel: str, grid: Sequence[int], block: Sequence[int]) -> float | None:
        """The median time, or None."""
        taken = self._seconds.get(key(kernel, grid, block)) or self._seconds.get(key(kernel))
        return statistics.median(taken) if taken else None


def key(kernel: str, grid: Sequence[int] = (), block: Sequence[int] = ()) -> str:
    """The key of a launch."""
    return " ".join([kernel, *(str(tuple(dims)) for dims in (grid, block) if dims)])


def times(path: str, args: Sequence[str]) -> LaunchTimes:
    """Run a script; return no times if it fails, since its main run reports the error."""
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8", suffix=".json") as out:
        command = [sys.executable, "-m", "weft.frontends.timed", out.name, path, *args]
        # The output was already shown by the main run.
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return LaunchTimes({} if done.returncode else json.load(out))


class Clock:
    """Times the launches of this process, in `seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @functools.cached_property
    def stream(self) -> TimingStream:
        """Created by the first launch, when the array library is known."""
        from weft.measure.bench.timing import TimingStream  # needs a driver

        return TimingStream()

    def time_weft(self) -> None:
        """Time weft kernels from now on, once per kernel and shape."""

        def timed(launch: Launch, args: tuple[Any, ...], plain: Callable[[], None]) -> None:
            name = key(launch.name, launch.config.grid, launch.config.block)
            if name not in self.seconds and on_gpu.is_there(args, {}):
                self.seconds[name] = []  # set first: the launches on copies also pass through here
                self.seconds[name].append(on_gpu.seconds(launch, args, {}))
            plain()

        launches.replace_weft(timed)

    def time_triton(self) -> None:
        """Time Triton kernels through Triton's launch hooks."""
        from triton import knobs

        def enter(metadata: Any) -> None:
            self.stream.begin()

        def leave(metadata: Any) -> None:
            taken = self.stream.end() / 1e3
            self.seconds.setdefault(key(metadata.get()["name"]), []).append(taken)

        knobs.runtime.launch_enter_hook.add(enter)
        knobs.runtime.launch_exit_hook.add(leave)


def main(out: str, path: str, *args: str) -> int:
    """Run the script with a clock and write the times."""
    clock = Clock()
    clock.time_weft()
    script.after_import({"triton": clock.time_triton})
    code = script.run(path, args, device="gpu")
    Path(out).write_text(json.dumps(clock.seconds), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
