"""What the simulator can tell of a launch that gave a wrong element: who wrote it.

Arrays of a real GPU are copied to the host: the same launch runs there on the simulated one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.kernels import Launch
from weft.measure import buffers
from weft.measure.stand import Writer

Find = Callable[[Mapping[str, Any], str, int], Writer]


def writer(launch: Launch, names: Sequence[str], given: Mapping[str, Any]) -> Find:
    """A function (arrays, output, flat index) -> Writer that runs the launch once more."""

    def find(arrays: Mapping[str, Any], output: str, index: int) -> Writer:
        from weft.device.sim.writers import Writers

        here = {n: a if isinstance(a, np.ndarray) else buffers.bits(a) for n, a in arrays.items()}
        array = here[output]
        watched = Writers(array.ctypes.data + index * array.itemsize, array.itemsize)
        launch.observe(watched, *[here.get(n, given[n]) for n in names])
        if not watched.writes:
            return Writer("no thread", 0)
        threads = {(w.block, w.thread) for w in watched.writes}
        return Writer(str(watched.writes[-1]), len(threads))

    return find
