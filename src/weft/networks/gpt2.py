"""GPT-2 (Radford et al., 2019): a decoder of texts with learned positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws, next_tokens


@dataclass(frozen=True)
class Gpt2Config:
    """The sizes of a GPT-2; `length` is the most tokens of a text."""

    width: int
    depth: int
    heads: int
    vocabulary: int = 50257
    length: int = 1024
    dropout: float = 0.0


SIZES = {
    "124m": Gpt2Config(768, 12, 12),
    "350m": Gpt2Config(1024, 24, 16),
    "774m": Gpt2Config(1280, 36, 20),
    "tiny": Gpt2Config(32, 2, 2, vocabulary=61, length=16),
}


class Attention(nn.Module):
    """Causal attention with one projection for queries, keys and values."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count, length, width = x.shape
        q, k, v = (
            part.view(count, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(count, length, width))


class Gpt2Block(nn.Module):
    """Attention and two linear layers, each after a norm and beside a residual connection."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.act = nn.GELU(approximate="tanh")
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(self.act(self.up(self.norm2(x)))))


class Gpt2(nn.Module):
    """Tokens [n, s] to logits [n, s, vocabulary]; the last layer has the embedding's weights."""

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList(Gpt2Block(config) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(_initialise)
        for block in self.blocks:
            # Residual connections add up 2 x depth results: their variance stays that of one.
            for layer in (block.attention.out, block.down):
                nn.init.normal_(layer.weight, std=0.02 / (2 * config.depth) ** 0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _initialise(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Embedding):
        nn.init.normal_(layer.weight, std=0.02)
    if isinstance(layer, nn.Linear) and layer.bias is not None:
        nn.init.zeros_(layer.bias)


MODULE = Gpt2


def draw(config: Gpt2Config, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Texts of random tokens, and the tokens that follow."""
    return next_tokens(draws, config.vocabulary, (count, length or config.length))


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the next tokens."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())
