"""Pairs of linear layers whose inner elements are divided over ranks."""

from __future__ import annotations

from typing import Any

import torch

from weft.distributed.parallel.group import group_of
from weft.distributed.parallel.linear import ColumnParallelLinear, RowParallelLinear
from weft.ops.core import library


class ParallelMLP(torch.nn.Module):  # type: ignore[misc]
    """Two linear layers with GELU between them; each rank has some of the inner elements.

    up, down   the whole layers, equal on all ranks
    group      a process group, a device mesh of one dimension, or None: all processes
    sequence   the input is this rank's part along dimension 1
    output     of the last layer: sum, scatter or partial

    >>> mlp = weft.distributed.parallel.ParallelMLP(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
    >>> print(mlp(torch.ones(2, 4)).shape)
    torch.Size([2, 4])
    """

    def __init__(
        self, up: torch.nn.Linear, down: torch.nn.Linear, group: Any = None, *,
        sequence: bool = False, output: str = "sum",
    ) -> None:  # fmt: skip
        super().__init__()
        found = group_of(group)
        self.up = ColumnParallelLinear(up, found, sequence=sequence)
        self.down = RowParallelLinear(down, found, output=output)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result of both layers."""
        y: torch.Tensor = self.down(library.call("gelu")(self.up(x), "tanh"))
        return y


class ParallelSwiGLU(torch.nn.Module):  # type: ignore[misc]
    """silu(gate) * up, then a linear layer; each rank has some of the inner elements.

    gate, up, down   the whole layers, equal on all ranks
    group            a process group, a device mesh of one dimension, or None: all processes
    sequence         the input is this rank's part along dimension 1
    output           of the last layer: sum, scatter or partial

    >>> gate, up, down = torch.nn.Linear(4, 8), torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
    >>> print(weft.distributed.parallel.ParallelSwiGLU(gate, up, down)(torch.ones(2, 4)).shape)
    torch.Size([2, 4])
    """

    def __init__(
        self, gate: torch.nn.Linear, up: torch.nn.Linear, down: torch.nn.Linear,
        group: Any = None, *, sequence: bool = False, output: str = "sum",
    ) -> None:  # fmt: skip
        super().__init__()
        found = group_of(group)
        self.gate = ColumnParallelLinear(gate, found, sequence=sequence)
        self.up = ColumnParallelLinear(up, found, sequence=sequence)
        self.down = RowParallelLinear(down, found, output=output)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The result of the three layers."""
        x = self.gate.enter(x)  # both layers have the same input, which is exchanged once
        y = library.call("swiglu")(self.gate.columns(x), self.up.columns(x))
        found: torch.Tensor = self.down(y)
        return found
