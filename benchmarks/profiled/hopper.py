"""Launches of `hopper.cu`: what Hopper does with units of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from profiled.case import HERE, Boxes, Case, f32, zeros

BLOCKS, THREADS = 8, 128
U32 = np.uint32


def _case(
    kernel: str,
    what: str,
    make: Callable[[], list[Any]],
    *,
    cluster: int | None = None,
    block: int = THREADS,
    grid: int = BLOCKS,
    shared: int = 0,
) -> Case:
    name = f"{kernel} {what}".rstrip()
    return Case(kernel, (grid,), (block,), make, HERE / "hopper.cu", shared, name, cluster)


def _halves(*shape: int) -> Any:
    return f32(*shape).astype(np.float16)


def _peers(kernel: str, what: str, *numbers: int, cluster: int = 2) -> Case:
    out = BLOCKS * THREADS
    return _case(kernel, what, lambda: [zeros(out, dtype=U32), *numbers], cluster=cluster)


OUT = BLOCKS * THREADS
SENT = (4 + 16 + 4) * THREADS
"""Bytes that `peer_sends` sends to a block."""

CASES = [
    _case("tile_loads", "of whole boxes",
          lambda: [Boxes(_halves(BLOCKS * 4 * 64, 256), (64, 64), 128), zeros(OUT), 4, 64, 8192]),
    _case("tile_loads", "that begin inside of a sector",
          lambda: [Boxes(_halves(BLOCKS * 4 * 64, 256), (64, 64), 128), zeros(OUT), 4, 8, 8192]),
    _case("tile_loads", "across an edge",
          lambda: [Boxes(_halves(BLOCKS * 64 - 16, 104), (64, 64)), zeros(OUT), 1, 64, 8192]),
    _case("tile_stores", "",
          lambda: [Boxes(zeros(BLOCKS * 64, 64), (64, 32)), Boxes(zeros(BLOCKS * 64, 64), (64, 32)),
                   32]),
    _case("tile_stores", "across an edge",
          lambda: [Boxes(zeros(BLOCKS * 64 - 8, 52), (64, 32)),
                   Boxes(zeros(BLOCKS * 64 - 8, 52), (64, 32)), 32]),
    _case("ranges", "of whole lines",
          lambda: [zeros(65536, dtype=np.uint8), zeros(65536, dtype=np.uint8),
                   zeros(16384, dtype=U32), 8192, 8192]),
    _case("ranges", "that begin inside of a sector",
          lambda: [zeros(65536, dtype=np.uint8), zeros(65536, dtype=np.uint8),
                   zeros(16384, dtype=U32), 1200, 1232]),
    *(
        _case("spread", f"to {count} of {size}",
              lambda mask=mask: [Boxes(f32(BLOCKS * 32, 32), (32, 32)), zeros(OUT), 32, mask, 4096],
              cluster=size)
        for size, mask, count in ((2, 3, 2), (4, 15, 4), (4, 5, 2), (8, 255, 8), (4, 1, 1))
    ),
    *(
        _peers(kernel, f"{what}, step {step}", far, step)
        for kernel in ("peer_loads", "peer_stores", "peer_pointers")
        for far, what in ((1, "of a peer"), (0, "of itself"))
        for step in ((1, 2, 7) if far else (1,))
    ),
    _peers("peer_sends", "to a peer", 1, SENT),
    _peers("peer_sends", "to itself", 0, SENT),
    _peers("peer_copies", "to a peer", 1, 4096),
    _peers("peer_copies", "to itself", 0, 4096),
    _peers("peer_copies", "of a part", 1, 1072, cluster=4),
    _case("products", "",
          lambda: [Boxes(_halves(128, 64 * 12), (128, 64), 128), Boxes(_halves(16, 64 * 12),
                   (16, 64), 128), zeros(128, 16), 12], grid=1, block=384, shared=4 * 144 * 128),
    _case("barriers", "", lambda: [zeros(OUT, dtype=U32), 5]),
]  # fmt: skip
