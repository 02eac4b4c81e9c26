"""The U-Net of Stable Diffusion 1.5 (Rombach et al., 2022): noise in latent images, by a text."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws


@dataclass(frozen=True)
class UNetConfig:
    """The sizes of a U-Net.

    width     channels of the first level; each of `levels` multiplies them
    attended  the levels with attention, from the first on
    depth     residual blocks of a level on the way down; there is one more on the way up
    length    the side of a latent image
    words     tokens of a text, each a vector of `context` elements
    """

    width: int
    levels: tuple[int, ...]
    attended: int
    depth: int = 2
    heads: int = 8
    channels: int = 4
    length: int = 64
    words: int = 77
    context: int = 768
    groups: int = 32


SIZES = {
    "sd15": UNetConfig(320, (1, 2, 4, 4), 3),
    "small": UNetConfig(192, (1, 2, 4), 2, length=32),
    "tiny": UNetConfig(8, (1, 2), 1, depth=1, heads=2, length=8, words=5, context=12, groups=4),
}


def _times(steps: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of the steps of diffusion [n, width]."""
    half = width // 2
    powers = torch.arange(half, device=steps.device, dtype=torch.float32) / half
    angles = steps.float()[:, None] * torch.exp(-math.log(10_000.0) * powers)
    return torch.cat((angles.cos(), angles.sin()), dim=-1)


class Residual(nn.Module):
    """Two convolutions after group norms, with the step of diffusion added between them."""

    def __init__(self, inputs: int, outputs: int, config: UNetConfig) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(config.groups, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(4 * config.width, outputs)
        self.norm2 = nn.GroupNorm(config.groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    """Attention of a level's pixels to themselves or to the words of a text."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(context, width, bias=False)
        self.v = nn.Linear(context, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.q(x), self.k(context), self.v(context))
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Pixels attend to each other and to the text; then a pair of layers gated by GELU."""

    def __init__(self, width: int, config: UNetConfig) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(config.groups, width, eps=1e-6)
        self.enter = nn.Conv2d(width, width, 1)
        self.norm1 = nn.LayerNorm(width)
        self.own = Attention(width, width, config.heads)
        self.norm2 = nn.LayerNorm(width)
        self.text = Attention(width, config.context, config.heads)
        self.norm3 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 8 * width)
        self.down = nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norm1(y)
        y = y + self.own(z, z)
        y = y + self.text(self.norm2(y), context)
        value, gate = self.up(self.norm3(y)).chunk(2, dim=-1)
        y = y + self.down(value * F.gelu(gate))
        return x + self.leave(y.transpose(1, 2).reshape(x.shape))


class Stage(nn.Module):
    """A residual block, and attention where the level has it."""

    def __init__(self, inputs: int, outputs: int, attends: bool, config: UNetConfig) -> None:
        super().__init__()
        self.residual = Residual(inputs, outputs, config)
        self.attention = Transformer(outputs, config) if attends else None

    def forward(self, x: torch.Tensor, time: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        x = self.residual(x, time)
        return x if self.attention is None else self.attention(x, context)


class Upsample(nn.Module):
    """Twice the side, and a convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class UNet(nn.Module):
    """Latent images [n, c, h, w], steps [n] and texts [n, words, context] to the noise."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        self.time1 = nn.Linear(config.width, 4 * config.width)
        self.time2 = nn.Linear(4 * config.width, 4 * config.width)
        self.enter = nn.Conv2d(config.channels, config.width, 3, padding=1)
        widths = [config.width * level for level in config.levels]
        kept, inputs = [config.width], config.width
        self.down = nn.ModuleList()
        for level, width in enumerate(widths):
            for _ in range(config.depth):
                self.down.append(Stage(inputs, width, level < config.attended, config))
                kept.append(width)
                inputs = width
            if level < len(widths) - 1:
                self.down.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                kept.append(width)
        self.middle = nn.ModuleList(
            (Stage(inputs, inputs, True, config), Stage(inputs, inputs, False, config))
        )
        self.up = nn.ModuleList()
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(config.depth + 1):
                stage = Stage(inputs + kept.pop(), width, level < config.attended, config)
                self.up.append(stage)
                inputs = width
            if level:
                self.up.append(Upsample(width))
        self.norm = nn.GroupNorm(config.groups, inputs)
        self.leave = nn.Conv2d(inputs, config.channels, 3, padding=1)

    def forward(
        self, images: torch.Tensor, steps: torch.Tensor, context: torch.Tensor
    ) -> torch.Tensor:
        time = _times(steps, self.config.width).to(images.dtype)
        time = self.time2(F.silu(self.time1(time)))
        x = self.enter(images)
        kept = [x]
        for layer in self.down:
            x = layer(x, time, context) if isinstance(layer, Stage) else layer(x)
            kept.append(x)
        for stage in self.middle:
            x = stage(x, time, context)
        for layer in self.up:
            if isinstance(layer, Stage):
                x = layer(torch.cat((x, kept.pop()), dim=1), time, context)
            else:
                x = layer(x)
        return self.leave(F.silu(self.norm(x)))


MODULE = UNet


def draw(config: UNetConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Latent images, steps of diffusion and texts, and the noise to find."""
    shape = count, config.channels, length or config.length, length or config.length
    steps = draws.integers(1000, count)
    text = draws.normal(count, config.words, config.context)
    return draws.normal(*shape), steps, text, draws.normal(*shape)


def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean square error of the noise."""
    return F.mse_loss(output, target)
