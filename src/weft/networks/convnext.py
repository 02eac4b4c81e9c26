"""ConvNeXt (Liu et al., 2022): large depthwise convolutions and layer norms, without attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws


@dataclass(frozen=True)
class ConvNeXtConfig:
    """The sizes of a ConvNeXt: blocks and channels of each stage; `length` is an image's side."""

    depths: tuple[int, ...]
    widths: tuple[int, ...]
    length: int = 224
    classes: int = 1000
    scale: float = 1e-6


SIZES = {
    "t": ConvNeXtConfig((3, 3, 9, 3), (96, 192, 384, 768)),
    "b": ConvNeXtConfig((3, 3, 27, 3), (128, 256, 512, 1024)),
    "tiny": ConvNeXtConfig((1, 1), (8, 16), length=16, classes=10, scale=0.1),
}


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of images [n, c, h, w]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last = x.permute(0, 2, 3, 1)
        y = F.layer_norm(last, self.normalized_shape, self.weight, self.bias, self.eps)
        return y.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution and two linear layers over channels, beside a residual connection."""

    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), scale))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(self.act(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """Images [n, 3, side, side] to logits [n, classes]."""

    def __init__(self, config: ConvNeXtConfig) -> None:
        super().__init__()
        self.config = config
        first = config.widths[0]
        layers: list[nn.Module] = [nn.Conv2d(3, first, 4, stride=4), ChannelNorm(first, eps=1e-6)]
        before = first
        for depth, width in zip(config.depths, config.widths, strict=True):
            if width != before:
                layers += [ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, 2, stride=2)]
            layers += [ConvNeXtBlock(width, config.scale) for _ in range(depth)]
            before = width
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(before, eps=1e-6)
        self.head = nn.Linear(before, config.classes)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(layer.weight, std=0.02)
                nn.init.zeros_(layer.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.layers(images).mean((-2, -1))))


MODULE = ConvNeXt


def draw(config: ConvNeXtConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Random images and their classes."""
    side = length or config.length
    return draws.normal(count, 3, side, side), draws.integers(config.classes, count)


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the classes."""
    return F.cross_entropy(logits, target)
