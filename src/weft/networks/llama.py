"""Llama 3 (Dubey et al., 2024): a decoder of texts with rotary positions and grouped queries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws, next_tokens


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama; `length` is the tokens of a batch, `theta` the base of rotations."""

    width: int
    depth: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int = 128256
    length: int = 2048
    theta: float = 500_000.0
    tied: bool = True


SIZES = {
    "1b": LlamaConfig(2048, 16, 32, 8, 8192),  # Llama 3.2
    "3b": LlamaConfig(3072, 28, 24, 8, 8192),  # Llama 3.2
    "8b": LlamaConfig(4096, 32, 32, 8, 14336, tied=False),
    "tiny": LlamaConfig(32, 2, 4, 2, 64, vocabulary=61, length=16),
}


def _angles(length: int, size: int, theta: float, device: torch.device) -> torch.Tensor:
    """The angle of each place and each pair of a head's elements, twice."""
    powers = torch.arange(0, size, 2, device=device, dtype=torch.float32) / size
    places = torch.arange(length, device=device, dtype=torch.float32)
    angles = torch.outer(places, theta**-powers)
    return torch.cat((angles, angles), dim=-1)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal attention in which several heads of queries share a head of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.size = config.width // config.heads
        self.q = nn.Linear(config.width, config.heads * self.size, bias=False)
        self.k = nn.Linear(config.width, config.kv_heads * self.size, bias=False)
        self.v = nn.Linear(config.width, config.kv_heads * self.size, bias=False)
        self.out = nn.Linear(config.heads * self.size, config.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class LlamaBlock(nn.Module):
    """Attention and a gated pair of layers (SwiGLU), each after a norm, beside a residual."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(config.width, eps=1e-5)
        self.attention = Attention(config)
        self.norm2 = nn.RMSNorm(config.width, eps=1e-5)
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Tokens [n, s] to logits [n, s, vocabulary]."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.depth))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                nn.init.normal_(layer.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        size = self.config.width // self.config.heads
        angles = _angles(tokens.shape[1], size, self.config.theta, tokens.device)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


MODULE = Llama


def draw(config: LlamaConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Texts of random tokens, and the tokens that follow."""
    return next_tokens(draws, config.vocabulary, (count, length or config.length))


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next tokens."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())
