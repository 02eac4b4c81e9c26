"""Reruns a failed launch on the simulator to find the writer of an element and data races.

Arrays on a real GPU are copied to the host first.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.device import arrays as device_arrays
from weft.errors import DeviceError
from weft.kernels import Configured
from weft.kernels.launch import Plain
from weft.measure.check import buffers
from weft.measure.check.harness import Writer

if TYPE_CHECKING:
    from weft.device.sim.tools.sanitizer.findings import Finding

Find = Callable[[Mapping[str, Any], str, int], Writer]
Races = Callable[[Mapping[str, Any]], str]
_POISON = 0xA5
"""Fill value of outputs. A write of an equal value is no hazard, so outputs must differ."""


def writer(launch: Configured, positional: Sequence[str], arguments: Mapping[str, Any]) -> Find:
    """Returns (arrays, output, flat index) -> Writer, which runs the launch again.

    given  all arguments by name; those that are not positional are given by keyword
    """

    def find(arrays: Mapping[str, Any], output: str, index: int) -> Writer:
        from weft.device.sim.tools.touches import Touches

        here = {**arguments, **{n: buffers.on_host(a) for n, a in arrays.items()}}
        memory = device_arrays.view(here[output])
        watched = Touches(memory.address + index * memory.itemsize, memory.itemsize)
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


def races(
    launch: Configured,
    positional: Sequence[str],
    arguments: Mapping[str, Any],
    fresh: Sequence[str],
) -> Races:
    """Returns (arrays) -> the first data race that the sanitizer finds, with both lines.

    fresh  the arrays that the launch fills and does not read
    """

    def find(arrays: Mapping[str, Any]) -> str:
        from weft.device.sim.tools.sanitizer.session import (
            sanitize,
        )  # imported only after a failure

        # The rerun must not change the arrays that the report still reads.
        copies = {n: copy.deepcopy(buffers.on_host(a)) for n, a in arrays.items()}
        for name in fresh:
            memory = device_arrays.view(copies[name])
            ctypes.memset(memory.address, _POISON, memory.nbytes)
        plain, values = _plain(launch, positional, {**arguments, **copies})
        with sanitize(raises=False) as report, contextlib.suppress(DeviceError):
            plain(*values)
        unordered = [f for f in report.findings if f.kind in _UNORDERED and not _overlaps(f)]
        if not unordered:
            return ""
        rest = f" (and {len(unordered) - 1} more)" if len(unordered) > 1 else ""
        return f"{' and '.join(map(str, unordered[0].accesses))}{rest}; {unordered[0].next}"

    return find


_UNORDERED = ("data race", "missing wait")


def _overlaps(finding: Finding) -> bool:
    """True for two writes to one global element: `overlapping writes` reports these."""
    shared = finding.place.startswith("shared")
    return not shared and all(access.verb == "write" for access in finding.accesses)


def _plain(launch: Configured, positional: Sequence[str], here: Mapping[str, Any]) -> Plain:
    options = {n: here[n] for n in here if n not in positional}
    return launch.plain(*[here[n] for n in positional], **options)
