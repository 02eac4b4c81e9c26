"""A decoder of tokens: Llama, Mistral, Qwen 2, Qwen 3 and GPT-2, on weft's ops.

A layer is nine launches: two norms that also add the residual, one product for queries, keys and
values, one launch that turns them and stores keys and values, attention, the output, one product
for gate and up, their activation, and the last product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from weft.llm.config import DecoderConfig
from weft.llm.invariance import in_chunks, op
from weft.nn.layers import CLASSES
from weft.ops.core import library

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""(layer, queries, keys, values) -> the result [tokens, heads, size]."""


@dataclass(frozen=True)
class Pass:
    """Everything about a pass over tokens but the tokens.

    positions, slots  [tokens], int32: the place in a text, and the row in the cache
    keys, values      the cache of each layer, [pages, keys of a page, heads, size]
    cos, sin          of rotary positions, [positions, size / 2]; None: learned positions
    attend            the attention of new tokens
    batch_invariant   no other token of the pass changes the bits of one
    """

    positions: torch.Tensor
    slots: torch.Tensor
    keys: list[torch.Tensor]
    values: list[torch.Tensor]
    cos: torch.Tensor | None
    sin: torch.Tensor | None
    attend: Attend
    batch_invariant: bool = False


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward layer, each after a norm that also adds the residual."""

    def __init__(self, config: DecoderConfig, number: int, **where: Any) -> None:
        super().__init__()
        c, linear = config, CLASSES["Linear"]
        self.config, self.number = c, number
        inner = c.heads * c.head_size
        self.norm1, self.norm2 = (_norm(c, **where) for _ in range(2))
        packed = inner + 2 * c.kv_heads * c.head_size
        self.qkv = linear(c.width, packed, bias=c.qkv_bias, **where)
        self.q_norm = self.k_norm = None
        if c.head_norm:
            self.q_norm = nn.Parameter(torch.ones(c.head_size, **where))
            self.k_norm = nn.Parameter(torch.ones(c.head_size, **where))
        self.out = linear(inner, c.width, bias=c.is_gpt2, **where)
        self.up = linear(c.width, c.hidden * (1 if c.is_gpt2 else 2), bias=c.is_gpt2, **where)
        self.down = linear(c.hidden, c.width, bias=c.is_gpt2, **where)

    def forward(
        self, x: torch.Tensor, added: torch.Tensor | None, now: Pass
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(the sum so far, what the next norm adds to it)."""
        c, i = self.config, self.number
        y, x = _normed(self.norm1, c, x, added, now)
        y = product(self.qkv, y, now.batch_invariant)
        heads = library.call("rotary_cached")(
            y, now.positions, now.slots, now.keys[i], now.values[i],
            now.cos, now.sin, self.q_norm, self.k_norm, c.heads, c.eps,
        )  # fmt: skip
        y = product(self.out, now.attend(i, *heads).flatten(1), now.batch_invariant)
        y, x = _normed(self.norm2, c, x, y, now)
        y = product(self.up, y, now.batch_invariant)
        y = library.call("gelu")(y, approximate="tanh") if c.is_gpt2 else library.call("swiglu")(y)
        return x, product(self.down, y, now.batch_invariant)


class Decoder(nn.Module):  # type: ignore[misc]
    """Tokens to logits; every product is a `weft.nn.Linear`, which may be replaced."""

    def __init__(
        self,
        config: DecoderConfig,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        c = self.config = config
        self.embedding = nn.Embedding(c.vocabulary, c.width, **where)
        self.places = nn.Embedding(c.context, c.width, **where) if c.is_gpt2 else None
        self.blocks = nn.ModuleList(Block(c, i, **where) for i in range(c.depth))
        self.norm = _norm(c, **where)
        self.head = CLASSES["Linear"](c.width, c.vocabulary, bias=False, **where)
        if c.tied:
            self.head.weight = self.embedding.weight
        self.requires_grad_(False)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights and of the cache."""
        return self.embedding.weight.dtype

    @property
    def device(self) -> torch.device:
        """The device of weights; the CPU stands for the simulated GPU."""
        return self.embedding.weight.device

    def memory(self) -> list[Any]:
        """The addresses and layouts of all tensors, which a graph of a pass has."""
        tensors = (*self.parameters(), *self.buffers())
        return [(x.data_ptr(), x.dtype, x.shape, x.stride()) for x in tensors]

    def forward(self, tokens: torch.Tensor, now: Pass) -> torch.Tensor:
        """The last hidden state of tokens [tokens], as [tokens, width]."""
        look = library.call("embedding")
        x, added = look(tokens, self.embedding.weight), None
        if self.places is not None:
            added = look(now.positions, self.places.weight)
        for block in self.blocks:
            x, added = block(x, added, now)
        return _normed(self.norm, self.config, x, added, now)[0]


def product(layer: Any, x: torch.Tensor, batch_invariant: bool = False) -> torch.Tensor:
    """The result of a layer. Weights do not change between tokens: kernels may read them early."""
    made: torch.Tensor
    is_plain = type(layer) is CLASSES["Linear"]
    if is_plain:
        made = op("linear_constant", batch_invariant)(x, layer.weight, layer.bias)
        return made
    options = {"constant": True} if hasattr(layer, "quantised") else {}
    made = in_chunks(layer, x, **options) if batch_invariant else layer(x, **options)
    return made


def angles(
    config: DecoderConfig, length: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """The cosines and sines of rotary positions, [length, size / 2]."""
    powers = torch.arange(0, config.head_size, 2, dtype=torch.float64) / config.head_size
    frequencies = config.theta**-powers
    if (s := config.scaling) is not None:
        turns = s.original * frequencies / (2 * math.pi)
        kept = ((turns - s.low) / (s.high - s.low)).clamp(0.0, 1.0)
        frequencies = frequencies * (kept + (1.0 - kept) / s.factor)
    found = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    return found.cos().float().to(device), found.sin().float().to(device)


def _norm(c: DecoderConfig, **where: Any) -> Any:
    kind = nn.LayerNorm if c.is_gpt2 else nn.RMSNorm
    return kind(c.width, eps=c.eps, **where)


def _normed(
    norm: Any, c: DecoderConfig, x: torch.Tensor, added: torch.Tensor | None, now: Pass
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the norm of the sum, the sum), in one launch."""
    name = "layer_norm" if c.is_gpt2 else "rms_norm"
    rest = [(c.width,), norm.weight, *([norm.bias] if c.is_gpt2 else []), c.eps]
    if added is None:
        return op(name, now.batch_invariant)(x, *rest), x
    y, total = op(f"add_{name}", now.batch_invariant)(added, x, *rest)
    return y, total
