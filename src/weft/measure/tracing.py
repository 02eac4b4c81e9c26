"""What the simulator can tell of a launch that gave a wrong element: who wrote it.

Arrays of a real GPU are copied to the host: the same launch runs there on the simulated one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.device import arrays as device_arrays
from weft.kernels import Configured
from weft.measure import buffers
from weft.measure.stand import Writer

Find = Callable[[Mapping[str, Any], str, int], Writer]


def writer(launch: Configured, positional: Sequence[str], given: Mapping[str, Any]) -> Find:
    """A function (arrays, output, flat index) -> Writer that runs the launch once more.

    given  all arguments by name; those that are not positional are given by keyword
    """

    def find(arrays: Mapping[str, Any], output: str, index: int) -> Writer:
        from weft.device.sim.writers import Writers

        here = {**given, **{n: buffers.on_host(a) for n, a in arrays.items()}}
        memory = device_arrays.view(here[output])
        watched = Writers(memory.address + index * memory.itemsize, memory.itemsize)
        options = {n: here[n] for n in here if n not in positional}
        plain, values = launch.plain(*[here[n] for n in positional], **options)
        plain.observe(watched, *values)
        if not watched.writes:
            return Writer("no thread", 0)
        threads = {(w.block, w.thread) for w in watched.writes}
        return Writer(str(watched.writes[-1]), len(threads))

    return find
