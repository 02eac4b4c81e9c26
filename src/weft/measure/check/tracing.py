"""Reruns a failed launch on the simulator to find the writer of an element and the sanitizer's
finding.

Arrays on a real GPU are copied to the host first.
"""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.device import arrays as device_arrays
from weft.kernels import Configured
from weft.kernels.launch import Plain
from weft.measure.check import buffers, diagnosis
from weft.measure.check.diagnosis import Cause
from weft.measure.check.harness import Diagnose, Writer
from weft.measure.dtypes import Array

Find = Callable[[Mapping[str, Any], str, int], Writer]
_POISON = 0xA5
"""Fill value of outputs. A write of an equal value is no hazard, so outputs must differ."""


def writer(launch: Configured, positional: Sequence[str], arguments: Mapping[str, Any]) -> Find:
    """Returns (arrays, output, flat index) -> Writer, which runs the launch again.

    given  all arguments by name; those that are not positional are given by keyword
    """

    def find(arrays: Mapping[str, Any], output: str, index: int) -> Writer:
        from weft.device.sim.tools.touches import TouchRecorder

        here = {**arguments, **{n: buffers.on_host(a) for n, a in arrays.items()}}
        memory = device_arrays.view(here[output])
        watched = TouchRecorder(memory.address + index * memory.itemsize, memory.itemsize)
        plain, values = _plain(launch, positional, here)
        # Records only the writes to this element.
        plain.observe(watched, *values)
        if not watched.seen:
            return Writer("no thread", 0)
        threads = {(w.block, w.thread) for w in watched.seen}
        return Writer(str(watched.seen[-1]), len(threads))

    return find


def threads(
    launch: Configured, positional: Sequence[str], arguments: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], int | None]:
    """Returns (arrays) -> the number of threads in the grid."""

    def count(arrays: Mapping[str, Any]) -> int | None:
        here = {**arguments, **{n: buffers.on_host(a) for n, a in arrays.items()}}
        plain, _ = _plain(launch, positional, here)
        return math.prod(plain.config.grid) * math.prod(plain.config.block)

    return count


def finding(
    launch: Configured,
    positional: Sequence[str],
    arguments: Mapping[str, Any],
    fresh: Sequence[str],
) -> Diagnose:
    """Returns (arrays, inputs) -> the sanitizer's finding in the launch with these inputs.

    fresh  the arrays that the launch fills and does not read
    """

    def find(arrays: Mapping[str, Any], inputs: Mapping[str, Array]) -> Cause | None:
        # The rerun must not change the arrays that the report still reads.
        copies = {n: copy.deepcopy(buffers.on_host(a)) for n, a in arrays.items()}
        for name, made in copies.items():
            memory = device_arrays.view(made)
            if name in fresh:
                ctypes.memset(memory.address, _POISON, memory.nbytes)
            elif name in inputs:
                given = np.ascontiguousarray(inputs[name])
                ctypes.memmove(memory.address, given.ctypes.data, memory.nbytes)
        plain, values = _plain(launch, positional, {**arguments, **copies})
        return diagnosis.diagnose(lambda: plain(*values))

    return find


def _plain(launch: Configured, positional: Sequence[str], here: Mapping[str, Any]) -> Plain:
    options = {n: here[n] for n in here if n not in positional}
    return launch.plain(*[here[n] for n in positional], **options)
