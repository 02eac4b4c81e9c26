"""Links between GPUs: presets, and figures of the user."""

from __future__ import annotations

import difflib

from weft.errors import ArgumentError
from weft.measure.parallel.quantities import RATES, TIMES, quantity
from weft.values.time.parallel import Link

PRESETS = {
    # Data sheet of the H200: 900 GB/s, which are 450 GB/s in each direction.
    "nvlink": Link("nvlink", 450e9, 2e-6),
    # 32 GT/s on 16 lanes with 128b/130b encoding.
    "pcie5": Link("pcie5", 63e9, 3e-6),
    # One adapter of 400 Gb/s for each GPU.
    "network": Link("network", 50e9, 5e-6),
}
"""Peak bandwidths of data sheets. Latencies are round figures that were not measured."""


def link(given: object, what: str) -> Link:
    """A preset by its name, a `Link`, or "450GB/s,2us"; `what` is the argument's name."""
    if isinstance(given, Link):
        return _checked(given, what)
    name = given.strip() if isinstance(given, str) else given
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    parts = name.split(",") if isinstance(name, str) else []
    if len(parts) == 2:
        rate = quantity(parts[0], RATES, f"the bandwidth of {what}")
        return Link(str(name), rate, quantity(parts[1], TIMES, f"the latency of {what}", zero=True))
    near = difflib.get_close_matches(name, PRESETS, 1) if isinstance(name, str) else []
    raise ArgumentError(
        f"{what} names no link",
        got=repr(given),
        allowed=f"{', '.join(PRESETS)}, or a bandwidth in each direction and a latency",
        next=f"did you mean '{near[0]}'?" if near else 'for example "450GB/s,2us"',
    )


def _checked(given: Link, what: str) -> Link:
    quantity(given.bandwidth, RATES, f"the bandwidth of {what}")
    quantity(given.latency, TIMES, f"the latency of {what}", zero=True)
    return given
