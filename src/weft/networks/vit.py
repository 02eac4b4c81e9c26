"""ViT (Dosovitskiy et al., 2021): a transformer that classifies images by their patches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws


@dataclass(frozen=True)
class ViTConfig:
    """The sizes of a ViT; `length` is the side of an image, `patch` that of a patch."""

    width: int
    depth: int
    heads: int
    patch: int = 16
    length: int = 224
    classes: int = 1000


SIZES = {
    "b16": ViTConfig(768, 12, 12),
    "l16": ViTConfig(1024, 24, 16),
    "tiny": ViTConfig(32, 2, 2, patch=4, length=16, classes=10),
}


class ViTBlock(nn.Module):
    """Attention and two linear layers, each after a norm and beside a residual connection."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width, eps=1e-6)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=1e-6)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(self.act(self.up(self.norm2(x))))


class ViT(nn.Module):
    """Images [n, 3, side, side] to logits [n, classes]."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        width, patch = config.width, config.patch
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        places = (config.length // patch) ** 2 + 1
        self.positions = nn.Parameter(torch.empty(1, places, width).normal_(std=0.02))
        self.blocks = nn.ModuleList(ViTBlock(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, config.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


MODULE = ViT


def draw(config: ViTConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Random images of the network's own side, and their classes."""
    side = config.length
    return draws.normal(count, 3, side, side), draws.integers(config.classes, count)


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the classes."""
    return F.cross_entropy(logits, target)
