"""The sizes of public models, read from models.toml: one table per model.

A model is blocks of a transformer, convolutions, or both. The key `like` of a table names a model
whose other keys it shares.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("models.toml")
GROUPS = ("text", "vision", "diffusion", "speech")


@dataclass(frozen=True)
class Block:
    """A block of a transformer; without heads, of a network that mixes by convolutions.

    kv_heads        heads of keys and values; 0: as many as queries have
    head            elements of a head; 0: width / heads
    act             "gelu", "gelu_tanh", "silu" or "relu"
    gated           True: the activation of one projection times another projection
    norm            "layer" or "rms"
    qkv_bias        as `bias`, where queries, keys and values differ from the other layers
    fused           True: queries, keys and values are one projection
    tokens          the lengths of its input; empty: any length of text
    window          tokens that attend to each other; 0: all of them
    scores          "bias": a bias is added to the scores; "softmax": scores are computed apart
    context_width   the width of other tokens that are attended to, with their numbers in
    context_tokens
    experts         the number of experts, of which `active` compute a token
    modulation      scales and shifts of a block that are computed from a condition
    """

    width: int
    ffn: int
    heads: int = 0
    kv_heads: int = 0
    head: int = 0
    act: str = "gelu"
    gated: bool = False
    norm: str = "layer"
    bias: bool = True
    qkv_bias: bool | None = None
    fused: bool = False
    causal: bool = False
    tokens: tuple[int, ...] = ()
    window: int = 0
    scores: str = ""
    context_width: int = 0
    context_tokens: tuple[int, ...] = ()
    experts: int = 0
    active: int = 0
    modulation: int = 0

    @property
    def head_size(self) -> int:
        return self.head or self.width // max(1, self.heads)

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def bias_of_qkv(self) -> bool:
        return self.bias if self.qkv_bias is None else self.qkv_bias


@dataclass(frozen=True)
class Conv:
    """A convolution of square images, or of signals.

    pad  None: none for patches, else as much as keeps the size at stride 1
    """

    inputs: int
    filters: int
    side: int
    kernel: int
    stride: int = 1
    groups: int = 1
    pad: int | None = None

    @property
    def padding(self) -> int:
        if self.pad is not None:
            return self.pad
        return 0 if self.kernel == self.stride else self.kernel // 2

    @property
    def out(self) -> int:
        return (self.side + 2 * self.padding - self.kernel) // self.stride + 1


@dataclass(frozen=True)
class Pool:
    """A maximum over windows of images; without a kernel, the mean of whole images."""

    channels: int
    side: int
    kernel: int = 0
    stride: int = 1


@dataclass(frozen=True)
class Model:
    """A public model.

    source     the paper or model card that states the sizes
    vocab      tokens of its vocabulary, 0 without one
    classes    of its classifier, 0 without one
    context    the longest text
    decodes    True if it generates text token by token
    dims       of its convolutions: 2 for images, 1 for signals
    conv_norm  the norm after a convolution: "batch", "group" or none
    conv_act   the activation after that
    """

    name: str
    group: str
    source: str
    blocks: tuple[Block, ...] = ()
    convs: tuple[Conv, ...] = ()
    pools: tuple[Pool, ...] = ()
    vocab: int = 0
    classes: int = 0
    context: int = 0
    decodes: bool = True
    dims: int = 2
    conv_norm: str = ""
    conv_act: str = ""


@functools.cache
def models() -> dict[str, Model]:
    """Every model by its name, in the order of the file."""
    tables = tomllib.loads(FILE.read_text("utf-8"))
    return {name: _model(name, tables) for name in tables}


def _model(name: str, tables: dict[str, dict[str, Any]]) -> Model:
    table = dict(tables[name])
    if like := table.pop("like", ""):
        table = tables[like] | table
    blocks = tuple(Block(**{k: _frozen(v) for k, v in b.items()}) for b in table.pop("blocks", ()))
    convs = tuple(Conv(*row) for row in table.pop("convs", ()))
    pools = tuple(Pool(*row) for row in table.pop("pools", ()))
    return Model(name, blocks=blocks, convs=convs, pools=pools, **table)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
