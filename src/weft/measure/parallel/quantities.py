"""Reads quantities with units: times, bandwidths and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from weft.errors import ArgumentError

TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
RATES = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "Tb/s": 1e12 / 8, "Gb/s": 1e9 / 8, "Mb/s": 1e6 / 8}
_QUANTITY = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)")


def quantity(text: object, units: Mapping[str, float], what: str, *, zero: bool = False) -> float:
    """A text such as "12.3ms", in the base unit of `units`; a number is in that unit already.

    what   the name of the argument, for the message
    zero   0 is allowed
    """
    found = _read(text, units)
    if found is None or not math.isfinite(found) or found < 0 or (found == 0 and not zero):
        raise ArgumentError(
            f"{what} is no {'quantity' if zero else 'positive quantity'}",
            got=repr(text),
            allowed=f"a number with one of the units {', '.join(units)}",
            next=f'for example "2{next(iter(units))}"',
        )
    return found


def _read(text: object, units: Mapping[str, float]) -> float | None:
    """The quantity; None for a text that is none."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        try:
            return float(text)
        except OverflowError:
            return None
    match = _QUANTITY.fullmatch(text.strip()) if isinstance(text, str) else None
    scale = units.get(match[2]) if match else None
    return float(match[1]) * scale if match and scale is not None else None
