"""Linear layers whose outputs or inputs are divided over ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.distributed.parallel.collectives import (
    copied,
    divided,
    gathered,
    gathered_sequence,
    scattered_sum,
    summed,
)
from weft.distributed.parallel.group import group_of
from weft.distributed.parallel.shards import Shard, Sharded
from weft.errors import ArgumentError
from weft.ops.core import library

OUTPUTS = ("sum", "scatter", "partial")


class ColumnParallelLinear(Sharded):
    """A linear layer of which each rank computes some of the outputs.

    layer     the whole layer, equal on all ranks
    group     a process group, a device mesh of one dimension, or None: all processes
    sections  sizes of outputs that are divided each for itself; one section by default
    gather    return all outputs, not this rank's alone
    sequence  the input is this rank's part along dimension 1

    >>> up = weft.distributed.parallel.ColumnParallelLinear(torch.nn.Linear(4, 8))
    >>> print(up(torch.ones(2, 4)).shape)
    torch.Size([2, 8])
    """

    def __init__(
        self, layer: torch.nn.Linear, group: Any = None, *,
        sections: Sequence[int] = (), gather: bool = False, sequence: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(group_of(group))
        shard = Shard(0, tuple(sections) or (layer.out_features,))
        for size in shard.sections:
            self.group.share(size, "outputs")
        self.gather, self.sequence = gather, sequence
        self._divide("weight", layer.weight, shard)
        self._divide("bias", layer.bias, shard)

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        """The input as `columns` takes it; layers with the same input share it."""
        return (gathered_sequence if self.sequence else copied)(self.group, x)

    def columns(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's outputs of an input from `enter`."""
        found: torch.Tensor = library.call("linear")(x, self.weight, self.bias)
        return found

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's outputs, or all with `gather`."""
        y = self.columns(self.enter(x))
        return gathered(self.group, y) if self.gather else y


class RowParallelLinear(Sharded):
    """A linear layer of which each rank has some of the inputs.

    layer   the whole layer, equal on all ranks
    group   a process group, a device mesh of one dimension, or None: all processes
    output  sum: the result on all ranks; scatter: this rank's part along dimension 1;
            partial: what is still to be added up, for `all_reduce_add_rms_norm`

    >>> down = weft.distributed.parallel.RowParallelLinear(torch.nn.Linear(8, 4))
    >>> print(down(up(torch.ones(2, 4))).shape)
    torch.Size([2, 4])
    """

    def __init__(self, layer: torch.nn.Linear, group: Any = None, *, output: str = "sum") -> None:
        super().__init__(group_of(group))
        if output not in OUTPUTS:
            allowed = ", ".join(OUTPUTS)
            raise ArgumentError(
                "a row-parallel layer has no such output", got=output, allowed=allowed
            )
        self.group.share(layer.in_features, "inputs")
        self.output = output
        self._divide("weight", layer.weight, Shard(1, (layer.in_features,)))
        bias = None if layer.bias is None else torch.nn.Parameter(layer.bias.detach().clone())
        self.register_parameter("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result of this rank's part of the inputs, as `output` says."""
        # Each rank adds a share of the bias, so that it is part of the product's kernel.
        bias = None if self.bias is None else divided(self.group, self.bias)
        y: torch.Tensor = library.call("linear")(x, self.weight, bias)
        if self.output == "partial":
            return y
        return (summed if self.output == "sum" else scattered_sum)(self.group, y)
