"""A launch that is given addresses only: for callers that have checked their arrays before.

The numbers and structs of the parameter block stay; each call fills in the pointers, and 64-bit
integers that change from call to call, such as the seed of random numbers. The current
stream is torch's, as its DLPack exchange interface reports it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.device import arrays, driver
from weft.device.base import PreparedLaunch
from weft.device.gpu import machine, native_launch, streams
from weft.device.gpu.call import KernelCall
from weft.device.gpu.plan import GpuPlan


class AddressedLaunch(NamedTuple):
    """Two functions that take one address per pointer and launch on the current stream.

    `fast` returns 0 when it has launched; `slow` raises what is wrong. `keep` must live as long as
    they do.
    """

    fast: Callable[..., int]
    slow: Callable[..., None]
    keep: object


def addressed(
    launch: PreparedLaunch, params: bytes, offsets: Sequence[int], torch_tensor: Any
) -> AddressedLaunch:
    """A launch on a real GPU with the pointers at `offsets` of its parameter block left open."""
    slow, call = checked(launch, params, offsets), call_of(launch)
    exchange = getattr(torch_tensor, native_launch.EXCHANGE, None)
    fits = len(params) <= native_launch.ROOM and len(call.layout.offsets) <= native_launch.MANY
    known = driver.count() == 1 and machine.is_known_python() and fits
    if exchange is None or not known:
        return AddressedLaunch(lambda *addresses: native_launch.REFUSED, slow, None)
    words = [native_launch.address_word(offset) for offset in offsets]
    made = native_launch.make(call, None, arrays.exchange(exchange), words, params)
    return AddressedLaunch(made.launch, slow, made)


def checked(launch: PreparedLaunch, params: bytes, offsets: Sequence[int]) -> Callable[..., None]:
    """The same launch in Python: it makes the context current if necessary, and raises."""
    call, current = call_of(launch), streams.getter("torch")

    def slow(*addresses: int) -> None:
        block = bytearray(params)
        for offset, address in zip(offsets, addresses, strict=True):
            struct.pack_into("<Q", block, offset, address % 2**64)
        call.run(bytes(block), current(call.device))

    return slow


def call_of(launch: PreparedLaunch) -> KernelCall:
    """The kernel and its configuration on a real GPU."""
    assert isinstance(launch, GpuPlan)
    return launch.call
