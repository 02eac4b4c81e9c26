"""BERT (Devlin et al., 2019): an encoder of texts that predicts masked words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from weft.networks.draws import Draws

LEFT_OUT = -100
"""The target of tokens that are not masked, which the loss ignores."""
MASKED = 0.15


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT; `length` is the most tokens of a text."""

    width: int
    depth: int
    heads: int
    vocabulary: int = 30522
    length: int = 512
    segments: int = 2


SIZES = {
    "base": BertConfig(768, 12, 12),
    "large": BertConfig(1024, 24, 16),
    "tiny": BertConfig(32, 2, 2, vocabulary=61, length=16),
}


class BertBlock(nn.Module):
    """Attention and two linear layers; a norm follows each residual connection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.q, self.k, self.v, self.out = (nn.Linear(config.width, config.width) for _ in range(4))
        self.norm1 = nn.LayerNorm(config.width, eps=1e-12)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width, eps=1e-12)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(y.transpose(1, 2).flatten(2)))
        return self.norm2(x + self.down(self.act(self.up(x))))


class Bert(nn.Module):
    """Tokens and segments [n, s] to logits [n, s, vocabulary].

    `present` [n, s] is False where a text is padded.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.tokens = nn.Embedding(config.vocabulary, width)
        self.positions = nn.Embedding(config.length, width)
        self.segments = nn.Embedding(config.segments, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList(BertBlock(config) for _ in range(config.depth))
        self.transform = nn.Linear(width, width)
        self.act = nn.GELU()
        self.transform_norm = nn.LayerNorm(width, eps=1e-12)
        self.head = nn.Linear(width, config.vocabulary)
        self.head.weight = self.tokens.weight
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                nn.init.normal_(layer.weight, std=0.02)
            if isinstance(layer, nn.Linear):
                nn.init.zeros_(layer.bias)

    def forward(
        self, tokens: torch.Tensor, segments: torch.Tensor, present: torch.Tensor | None = None
    ) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places) + self.segments(segments)
        x = self.norm(x)
        mask = None if present is None else present[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.transform_norm(self.act(self.transform(x))))


MODULE = Bert


def draw(config: BertConfig, draws: Draws, count: int, length: int) -> tuple[torch.Tensor, ...]:
    """Texts of random tokens without padding, and the words behind the masked ones."""
    shape = count, length or config.length
    tokens = draws.integers(config.vocabulary, *shape)
    segments = draws.integers(config.segments, *shape)
    target = torch.where(draws.chosen(MASKED, *shape), tokens, LEFT_OUT)
    return tokens, segments, target


def loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the masked words."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=LEFT_OUT)
