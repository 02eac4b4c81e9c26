"""A launch that is given addresses only: for callers that have checked their arrays before.

The numbers and structs of the parameter block stay; each call fills in the pointers. The current
stream is torch's, as its DLPack exchange interface reports it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.device import arrays
from weft.device.gpu import driver, machine, native, streams
from weft.device.gpu.call import Call


class Launch(NamedTuple):
    """Both take one address per pointer and launch on the current stream.

    `fast` returns 0 when it has launched; `slow` raises what is wrong. `keep` must live as long.
    """

    fast: Callable[..., int]
    slow: Callable[..., None]
    keep: object


def addressed(call: Call, params: bytes, offsets: Sequence[int], torch_tensor: Any) -> Launch:
    """The launch of `call` with the pointers at `offsets` of its parameter block left open."""
    current = streams.getter("torch")

    def slow(*addresses: int) -> None:
        block = bytearray(params)
        for offset, address in zip(offsets, addresses, strict=True):
            struct.pack_into("<Q", block, offset, address)
        call.run(bytes(block), current(call.device))

    exchange = getattr(torch_tensor, native.EXCHANGE, None)
    fits = len(params) <= native.ROOM and len(call.layout.offsets) <= native.MANY
    known = driver.count() == 1 and machine.is_known_python() and fits
    if exchange is None or not known:
        return Launch(lambda *addresses: native.REFUSED, slow, None)
    words = [native.address_word(offset) for offset in offsets]
    made = native.make(call, None, arrays.exchange(exchange), words, params)
    return Launch(made.launch, slow, made)
