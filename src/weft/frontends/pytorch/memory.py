"""Counts the bytes of tensors: `torch.cuda.memory_allocated` and its like.

A weak reference to the storage of a tensor sees its end. Memory of torch's own temporaries inside
of one operation is not counted.
"""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from weft.frontends import addresses

BLOCK = 512
"""CUDA's caching allocator rounds sizes up to this number of bytes."""


_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors with memory of their own."""


class Tracker:
    """Adds up the storages of tensors until they are freed."""

    def __init__(self) -> None:
        self.now = self.peak = self.count = self.total = 0
        self.order: list[int] | None = None
        """Numbers of allocations as they begin, negative as they end, where a profile wants them"""
        self.sizes: dict[int, int] = {}
        self._live: dict[int, tuple[Any, int]] = {}

    def add(self, tensor: torch.Tensor) -> None:
        """Count the storage of a tensor once, until it is freed."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self.count += 1
        number = self.count

        def freed(_: object) -> None:
            del self._live[key]
            self.now -= size
            if self.order is not None:
                self.order.append(-number)

        self._live[key] = weakref.ref(storage, freed), number
        self.now += size
        self.total += size
        self.peak = max(self.peak, self.now)
        if self.order is not None:
            self.order.append(number)
            self.sizes[number] = size

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's allocation; 0 for memory that is not counted."""
        if tensor.layout is not torch.strided or type(tensor) not in _PLAIN:
            return 0
        return self._live.get(tensor.untyped_storage()._cdata, (None, 0))[1]

    def reset_peak(self) -> None:
        self.peak = self.now


def functions(tracker: Tracker, total: int) -> dict[str, Callable[..., Any]]:
    """The functions of `torch.cuda` about memory; `total` is the size of the GPU's memory."""

    def stats(device: object = None) -> OrderedDict[str, int]:
        bytes_of = {"current": tracker.now, "peak": tracker.peak, "allocated": tracker.total,
                    "freed": tracker.total - tracker.now}  # fmt: skip
        kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        found = {
            f"{kind}.{pool}.{name}": value
            for kind in kinds
            for pool in ("all", "large_pool", "small_pool")
            for name, value in bytes_of.items()
        }
        found |= {"num_alloc_retries": 0, "num_ooms": 0, "allocation.all.allocated": tracker.count}
        return OrderedDict(sorted(found.items()))

    def summary(device: object = None, abbreviated: bool = False) -> str:
        rows = (("allocated", tracker.now), ("peak", tracker.peak), ("in total", tracker.total))
        lines = [f"| {name:<10} | {value / 2**20:>12.2f} MiB |" for name, value in rows]
        return "\n".join(["| tensors on the simulated GPU   |", *lines])

    held: dict[int, torch.Tensor] = {}

    def allocate(size: int, device: object = None, stream: object = None) -> int:
        memory = torch.empty(size, dtype=torch.uint8)
        addresses.allow(memory)
        address = int(memory.data_ptr())
        held[address] = memory
        return address

    def free(address: int) -> None:
        del held[address]

    return {
        "caching_allocator_alloc": allocate,
        "caching_allocator_delete": free,
        "memory_allocated": lambda device=None: tracker.now,
        "max_memory_allocated": lambda device=None: tracker.peak,
        "memory_reserved": lambda device=None: tracker.now,
        "max_memory_reserved": lambda device=None: tracker.peak,
        "memory_cached": lambda device=None: tracker.now,
        "max_memory_cached": lambda device=None: tracker.peak,
        "reset_peak_memory_stats": lambda device=None: tracker.reset_peak(),
        "reset_max_memory_allocated": lambda device=None: tracker.reset_peak(),
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_stats": stats,
        "memory_stats_as_nested_dict": lambda device=None: dict(stats()),
        "memory_summary": summary,
        "memory_snapshot": lambda mempool_id=None: [],
        "mem_get_info": lambda device=None: (max(total - tracker.now, 0), total),
        "empty_cache": lambda: gc.collect() and None,
        "set_per_process_memory_fraction": lambda fraction, device=None: None,
    }
