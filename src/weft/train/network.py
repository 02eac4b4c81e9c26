"""The network for MNIST: two blocks with convolution and pooling, then two linear layers."""

from __future__ import annotations

from typing import Any

import torch

from weft.ops.core import library

MEAN, DEVIATION = 0.1307, 0.3081
"""The mean and the standard deviation of the pixels of MNIST's training images, from 0 to 1."""


def network(
    channels: tuple[int, int] = (32, 64), hidden: int = 128, seed: int = 0
) -> torch.nn.Sequential:
    """The network with PyTorch's layers; equal seeds give equal weights."""
    torch.manual_seed(seed)
    first, second = channels
    return torch.nn.Sequential(
        *_block(1, first), *_block(first, second), torch.nn.Flatten(),
        torch.nn.Linear(second * 7 * 7, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10),
    )  # fmt: skip


def _block(inputs: int, outputs: int) -> list[torch.nn.Module]:
    return [
        # Batch norm takes a bias away again.
        torch.nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(outputs),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
    ]


class Own(torch.nn.Module):  # type: ignore[misc]
    """The same network on weft's kernels; weights and `state_dict` are those of `layers`.

    A block of four layers is one op, and so is a linear layer with its activation.
    """

    def __init__(self, layers: torch.nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first in (0, 4):
            x = self._block(x, *self.layers[first : first + 2])
        linear = library.call("linear")
        hidden, last = self.layers[9], self.layers[11]
        x = linear(x.flatten(1), hidden.weight, hidden.bias, "relu")
        result: torch.Tensor = linear(x, last.weight, last.bias)
        return result

    def count(self, steps: int) -> None:
        """Write the number of training steps where PyTorch's layers count them."""
        for norm in (self.layers[1], self.layers[5]):
            norm.num_batches_tracked.fill_(steps)

    def _block(self, x: torch.Tensor, conv: torch.nn.Conv2d, norm: torch.nn.BatchNorm2d) -> Any:
        return library.call("conv_bn_relu_pool")(
            x, conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias,
            conv.padding, self.training, norm.momentum, norm.eps,
        )  # fmt: skip
