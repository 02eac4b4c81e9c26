"""Lists of tensors as a table in the device's memory: one launch works on all of them.

Sizes are written once. Addresses are written again when they change, e.g. those of new gradients:
they come with a launch, so that nothing waits and a CUDA graph can record it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from weft.errors import ArgumentError
from weft.frontends import launches
from weft.frontends.addresses import extent
from weft.kernels import Kernel, cdiv
from weft.ops.core import source
from weft.ops.core.native.loaded import capturing
from weft.optim.scalars import one, zero

WRITTEN = 448
"""Addresses that come with one launch; its arguments are limited to 4 KiB."""


class Table:
    """Lists of equal length; the n-th tensors of all lists have the same size.

    chunks   the blocks of a launch; each works on at most `elements` elements of one tensor
    counter  a zero by which the blocks of a launch find out which of them is the last
    """

    def __init__(self, sizes: Sequence[int], lists: int, elements: int, device: torch.device):
        if capturing():
            raise ArgumentError(
                "an optimiser cannot take new parameters while a CUDA graph is captured",
                next="call step() once before the capture, as for torch's optimisers",
            )
        self.tensors, self.lists, self.device = len(sizes), lists, device
        one(device), zero(device)  # memory that is made in a capture belongs to its graph
        counts = np.array([cdiv(n, elements) for n in sizes], np.int64)
        numbers = np.repeat(np.arange(self.tensors), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        chunks = numbers << 32 | (np.arange(len(numbers)) - first)
        self.chunks = len(chunks)
        addresses = np.zeros(lists * self.tensors, np.int64)
        words = np.concatenate([addresses, np.array(sizes, np.int64), chunks])
        self.words = torch.from_numpy(words).to(device)
        self.counter = torch.zeros(1, dtype=torch.int32, device=device)
        self._addresses: list[list[int]] = [[] for _ in range(lists)]
        self._captured = False

    def point(self, number: int, addresses: list[int]) -> None:
        """Set the addresses of a list."""
        # A replayed graph writes its own addresses, which this object does not see.
        self._captured = self._captured or capturing()
        if addresses == self._addresses[number] and not self._captured:
            return
        self._addresses[number] = addresses
        for first in range(0, self.tensors, WRITTEN):
            part = addresses[first : first + WRITTEN]
            room = np.zeros(WRITTEN, np.int64)
            room[: len(part)] = part
            at = self.words[number * self.tensors + first :]
            write = source.kernel("../../optim/write.cu", "write")[1, WRITTEN]
            self._run(functools.partial(write, at, room.tobytes(), len(part)), at)

    def launch(
        self, kernel: Kernel, threads: int, args: Sequence[Any], lists: Sequence[Sequence[Any]]
    ) -> None:
        """Launch a kernel on all chunks; its first arguments are the table's.

        lists  the tensors themselves, which the simulated GPU must know
        """
        if not self.chunks:
            return
        launch = kernel[self.chunks, threads]
        if self.device.type == "cuda":
            launch(self.words, self.tensors, self.lists, *args)
            return
        memory = [extent(t, "a tensor of a table") for each in lists for t in each if t.numel()]
        given = (memory, self.words, self.tensors, self.lists, *args)
        self._run(functools.partial(launch.reaching, *given), (args, lists))

    def _run(self, launch: Callable[[], Any], memory: Any) -> None:
        """Launch; a simulated graph records it, with the memory that it may write."""
        if self.device.type == "cuda":
            launch()
        else:
            launches.run("weft.optim", launch, memory)
