"""The same layers with few channels and short texts: calls that the simulated GPU makes quickly."""

from __future__ import annotations

from dataclasses import replace

from weft.ops.models.config import Block, Conv, Model, Pool
from weft.ops.models.draw import Drawn
from weft.ops.models.layers import COLOURS, every

BATCH, TOKENS, KEYS, VOCAB, CLASSES = 2, 19, 45, 301, 30
"""The most of each; odd numbers, because lengths of texts are."""
SIDES = {1: 61, 2: 9}
"""The longest signal and the largest side of an image."""
HEADS = 4
"""Heads of queries for one head of keys at the most; heads keep their size."""
CHANNELS, WIDTHS = 32, 32
"""Divisors of the channels of convolutions, and of the widths of transformers."""


def smaller(one: Drawn) -> Drawn:
    """The call of the same layer in a small version of its model."""
    place = [layer.name for layer in every(one.model)].index(one.layer.name)
    model = _model(one.model)
    layer, s = every(model)[place], one.setting
    tokens = layer.tokens[0] if layer.tokens else min(s.tokens, TOKENS)
    keys = layer.keys[0] if layer.keys else min(s.keys, KEYS)
    setting = replace(s, batch=min(s.batch, BATCH), tokens=tokens, keys=keys)
    return Drawn(model, layer, setting, layer.make(setting))


def _model(m: Model) -> Model:
    return replace(
        m,
        blocks=tuple(map(_block, m.blocks)),
        convs=tuple(_conv(c, SIDES[m.dims]) for c in m.convs),
        pools=tuple(map(_pool, m.pools)),
        vocab=min(m.vocab, VOCAB),
        classes=min(m.classes, CLASSES),
    )


def _block(b: Block) -> Block:
    kv = min(b.kv, 2)
    heads = kv * min(HEADS, b.heads // b.kv) if b.heads else 0
    window = min(b.window, TOKENS)
    return replace(
        b,
        width=_width(b.width),
        ffn=_width(b.ffn),
        heads=heads,
        kv_heads=kv,
        head=b.head_size if b.heads else 0,
        window=window,
        tokens=tuple(2 * window or min(n, TOKENS) for n in b.tokens),
        context_width=_width(b.context_width),
        context_tokens=tuple(min(n, KEYS) for n in b.context_tokens),
    )


def _width(n: int) -> int:
    return max(8, n // WIDTHS) if n else 0


def _channels(n: int) -> int:
    return n if n <= COLOURS else max(COLOURS + 1, n // CHANNELS)


def _conv(c: Conv, side: int) -> Conv:
    groups = _channels(c.groups) if c.groups == c.inputs else min(c.groups, 2)
    inputs, filters = (-(-_channels(n) // groups) * groups for n in (c.inputs, c.filters))
    # A patch must fit, and images of other sizes stay of other sizes.
    least = c.kernel * (2 if c.kernel == c.stride else 1)
    return replace(
        c, inputs=inputs, filters=filters, groups=groups, side=max(least, min(c.side, side))
    )


def _pool(p: Pool) -> Pool:
    return replace(p, channels=_channels(p.channels), side=min(p.side, SIDES[2]))
