"""ResNet (He et al., 2016) with bottlenecks, whose 3 x 3 convolutions have the strides."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws


@dataclass(frozen=True)
class ResNetConfig:
    """The sizes of a ResNet.

    depths  blocks of each stage
    width   channels of the first stage's 3 x 3 convolutions
    length  the side of an image
    """

    depths: tuple[int, ...]
    width: int = 64
    length: int = 224
    classes: int = 1000


SIZES = {
    "50": ResNetConfig((3, 4, 6, 3)),
    "101": ResNetConfig((3, 4, 23, 3)),
    "tiny": ResNetConfig((1, 1), width=8, length=16, classes=10),
}
WIDER = 4
"""Channels of a block's result over those of its 3 x 3 convolution."""


def _conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class ResNetBlock(nn.Module):
    """Three convolutions with batch norms beside a residual connection."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = WIDER * width
        self.conv1, self.norm1 = _conv(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = _conv(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            conv = _conv(inputs, outputs, 1, stride)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return self.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Images [n, 3, side, side] to logits [n, classes]."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.conv, self.norm = _conv(3, config.width, 7, 2), nn.BatchNorm2d(config.width)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks, inputs = [], config.width
        for stage, depth in enumerate(config.depths):
            width = config.width * 2**stage
            for number in range(depth):
                blocks.append(ResNetBlock(inputs, width, 2 if stage and not number else 1))
                inputs = WIDER * width
        self.blocks = nn.Sequential(*blocks)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inputs, config.classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.norm(self.conv(images))))
        return self.head(self.mean(self.blocks(x)).flatten(1))


MODULE = ResNet


def draw(config: ResNetConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Random images and their classes."""
    side = length or config.length
    return draws.normal(count, 3, side, side), draws.integers(config.classes, count)


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the classes."""
    return F.cross_entropy(logits, target)
