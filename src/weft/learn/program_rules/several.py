"""The facts that rules of programs with several GPUs are about.

    messages per GPU <= 6                 calls of ncclSend
    bytes sent per GPU <= 6 * n           by these calls
    collectives per GPU = 1               all-reduces and other operations of all ranks
    bytes allocated per GPU <= 64 * n     the most device memory at a time

The sanitizer counts them. A fact is the largest count of any GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.values.findings import DeviceWork

_FACTS: Mapping[str, Callable[[DeviceWork], int]] = {
    "messages per GPU": lambda work: work.messages,
    "bytes sent per GPU": lambda work: work.bytes_sent,
    "collectives per GPU": lambda work: work.collectives,
    "bytes allocated per GPU": lambda work: work.peak_memory,
}
NAMES = tuple(_FACTS)
"""The facts of several GPUs that a rule of a program may name."""


def facts(devices: Sequence[DeviceWork]) -> dict[str, float]:
    """The facts of the GPUs of a program."""
    return {name: float(max(map(count, devices), default=0)) for name, count in _FACTS.items()}
