"""Kernels that call the functions of a header of weft's device library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import devices
import everyday
import weft

_sanitized: set[tuple[str, str]] = set()


def run(header: str, kernel: str, config: Sequence[int | None], *args: Any) -> None:
    """Launch a kernel of kernels/device_library/<header>.cu; results are in the arrays of `args`.

    On the simulated GPU the first instance of a kernel runs again under the sanitizer, on copies
    of what it was given, and must write the same bits.
    """
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    module = everyday.load(f"device_library/{header}")
    module.kernel(kernel)[tuple(config)](*args)
    base = header, kernel.partition("<")[0]
    if devices.current.name != "sim" or base in _sanitized:
        return
    _sanitized.add(base)
    with weft.sanitize():
        module.kernel(kernel)[tuple(config)](*given)
    for a, b in zip(args, given, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
