"""Several processes that train one network: `torchrun` starts them, each has a part of a batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from weft.distributed.parallel.failures import named_failures
from weft.errors import ArgumentError

BACKEND = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""PyTorch's communication backends by device type; losses and counts are on the CPU."""


@dataclass(frozen=True)
class TrainingGroup:
    """The processes of a training; one process alone is a group as well.

    rank       number of this process
    world      how many there are
    connected  False if this process computes its part as if it were all
    """

    rank: int = 0
    world: int = 1
    connected: bool = True

    @property
    def leads(self) -> bool:
        """True if this process prints and saves."""
        return self.rank == 0

    @property
    def alone(self) -> TrainingGroup:
        """This process's part of the work, without communication."""
        return replace(self, connected=False)

    @property
    def communicates(self) -> bool:
        return self.connected and self.world > 1

    def wait(self) -> None:
        """Wait until all processes have called this."""
        self.total(torch.zeros(1))

    def share(self, chosen: np.ndarray[Any, Any], batch: int) -> np.ndarray[Any, Any]:
        """The part of this process in each whole batch of all processes."""
        whole = len(chosen) // (batch * self.world)
        parts = chosen[: whole * batch * self.world].reshape(whole, self.world, batch)
        return np.ascontiguousarray(parts[:, self.rank].reshape(-1))

    def part(self, batch: int, accumulate: int = 1) -> int:
        """The share of a process in a batch of all; raise unless all parts of it are equal."""
        parts = self.world * accumulate
        if batch % parts:
            raise ArgumentError(
                "a batch is divided into equal parts",
                got=f"{batch} for {self.world} processes with {accumulate} parts each",
                allowed=f"a multiple of {parts}",
            )
        return batch // self.world

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        """The mean over all processes."""
        return self.total(values) / self.world if self.communicates else values

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.communicates:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """True if the flag is set in one of the processes."""
        return bool(self.total(torch.tensor(float(flag))) > 0) if self.communicates else flag


@contextmanager
def joined(device: torch.device) -> Iterator[TrainingGroup]:
    """The group that torchrun started; without torchrun, this process alone.

    A process that loses others raises `RankLost`, which names them.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or not dist.is_available():
        yield TrainingGroup()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(BACKEND[device.type])
    try:
        with named_failures():
            yield TrainingGroup(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
