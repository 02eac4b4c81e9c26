"""The layers of a model, derived from its sizes by rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from weft.ops.models import calls
from weft.ops.models.calls import Work
from weft.ops.models.config import Block, Conv, Model, Pool

KINDS = (
    "products", "attention", "conv", "norm", "activation", "residual", "softmax", "embedding",
    "loss", "pool",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """The circumstances of a call.

    tokens    of each element of the batch
    keys      that are attended to, where they are not the tokens themselves
    backward  True: forward and backward
    last      True: images have their channels last in memory
    """

    batch: int = 1
    tokens: int = 1
    keys: int = 0
    dtype: str = "bfloat16"
    backward: bool = False
    last: bool = False

    @property
    def rows(self) -> int:
        return self.batch * self.tokens


@dataclass(frozen=True)
class Layer:
    """A layer of a model.

    name     unique in its model
    make     the call in some circumstances
    sizes    what of the circumstances it depends on: "tokens", "keys", "last"
    tokens   the possible numbers of tokens; empty: any, as of text
    keys     the possible numbers of keys; empty: any
    trained  False if it only runs forward
    """

    kind: str
    name: str
    make: Callable[[Setting], Work]
    sizes: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()
    keys: tuple[int, ...] = ()
    trained: bool = True


COLOURS = 4
"""Channels of an image at the most, which no norm follows."""


def layers(model: Model) -> list[Layer]:
    """Every distinct layer of a model; names are unique."""
    return list({layer.name: layer for layer in every(model)}.values())


def every(model: Model) -> list[Layer]:
    """The layers of a model in the order of its table, some of them alike."""
    found = [layer for i in range(len(model.blocks)) for layer in _of_block(model, i)]
    found += [*_of_vocabulary(model), *_of_classes(model), *_of_convs(model), *_of_pools(model)]
    return found


# ---- blocks of transformers --------------------------------------------------------------------
def _of_block(model: Model, number: int) -> Iterator[Layer]:
    """The layers of a block; names end in its number where there are several."""
    block = model.blocks[number]
    end = f".{number + 1}" if len(model.blocks) > 1 else ""
    b = block

    def layer(kind: str, name: str, make: Callable[[Setting], Work]) -> Layer:
        return Layer(kind, name + end, make, ("tokens",), b.tokens)

    def linear(name: str, inner: int, outer: int, bias: bool, act: str = "") -> Layer:
        return layer(
            "products",
            name,
            lambda s: calls.linear((s.batch, s.tokens), inner, outer, s.dtype, bias, act),
        )

    yield from _projections(block, linear)
    yield from _feed_forward(block, linear, layer)
    yield from _attentions(model, block, end)
    width, norm = b.width, b.norm
    yield layer(
        "norm",
        f"{norm}_norm",
        lambda s: calls.rows_norm((s.batch, s.tokens, width), s.dtype, norm, False),
    )
    yield layer(
        "norm",
        f"add_{norm}_norm",
        lambda s: calls.rows_norm((s.batch, s.tokens, width), s.dtype, norm, True),
    )
    yield layer(
        "residual", "add", lambda s: calls.add(calls.plain((s.batch, s.tokens, width), s.dtype))
    )
    if b.modulation:
        yield Layer(
            "products",
            f"modulation{end}",
            lambda s: calls.linear((s.batch,), width, b.modulation * width, s.dtype, True),
        )


Linear = Callable[..., Layer]


def _projections(b: Block, linear: Linear) -> Iterator[Layer]:
    """Projections of attention: queries, keys and values in one or apart, and the result's."""
    if not b.heads:
        return
    queries, keys, bias = b.heads * b.head_size, b.kv * b.head_size, b.bias_of_qkv
    if b.fused:
        yield linear("qkv", b.width, queries + 2 * keys, bias)
    else:
        yield linear("q", b.width, queries, bias)
        yield linear("kv", b.width, keys, bias)
    yield linear("out", queries, b.width, b.bias)
    if b.context_width:
        yield linear("cross_q", b.width, queries, bias)


def _feed_forward(
    b: Block, linear: Linear, layer: Callable[[str, str, Callable[[Setting], Work]], Layer]
) -> Iterator[Layer]:
    """The two or three products of a feed-forward network, and its activation."""
    width, ffn, act = b.width, b.ffn, b.act
    if b.experts:
        yield from _experts(b, layer)
        return
    if b.gated:
        yield linear("gate_up", width, 2 * ffn, b.bias)
        if not b.fused:
            yield linear("up", width, ffn, b.bias)
        yield layer("activation", "gate_act", lambda s: calls.gate(s.rows, ffn, s.dtype, act))
    else:
        yield linear("up", width, ffn, b.bias)
        yield linear("up_act", width, ffn, b.bias, act)
        yield layer(
            "activation",
            "act",
            lambda s: calls.activation(calls.plain((s.batch, s.tokens, ffn), s.dtype), act),
        )
    yield linear("down", ffn, width, b.bias)


def _experts(
    b: Block, layer: Callable[[str, str, Callable[[Setting], Work]], Layer]
) -> Iterator[Layer]:
    """One expert with its share of the tokens, and the choice of experts."""

    def share(s: Setting) -> int:
        return max(1, s.rows * b.active // b.experts)

    yield layer(
        "products",
        "expert_up",
        lambda s: calls.linear((share(s),), b.width, b.ffn, s.dtype, b.bias),
    )
    yield layer(
        "products",
        "expert_down",
        lambda s: calls.linear((share(s),), b.ffn, b.width, s.dtype, b.bias),
    )
    yield layer("activation", "expert_act", lambda s: calls.gate(share(s), b.ffn, s.dtype, b.act))
    yield layer(
        "products",
        "router",
        lambda s: calls.linear((s.batch, s.tokens), b.width, b.experts, s.dtype, False),
    )
    yield layer("softmax", "routes", lambda s: calls.softmax((s.rows, b.experts), s.dtype))


def _attentions(model: Model, b: Block, end: str) -> Iterator[Layer]:
    """Attention to the tokens themselves, to a cache of keys, and to a context."""
    if not b.heads:
        return
    heads, kv, head = b.heads, b.kv, b.head_size

    def whole(s: Setting) -> Work:
        rows = b.window or s.tokens
        return calls.attention(
            max(1, s.rows // rows), heads, kv, rows, rows, head, s.dtype,
            causal=b.causal, bias=b.scores == "bias",
        )  # fmt: skip

    if b.scores == "softmax":
        yield Layer(
            "softmax",
            f"scores{end}",
            lambda s: calls.softmax((s.batch, heads, s.tokens, s.tokens), s.dtype),
            ("tokens",),
            b.tokens,
        )
    else:
        yield Layer("attention", f"self{end}", whole, ("tokens",), b.tokens)
    if b.causal and not b.tokens and model.decodes:
        yield Layer(
            "attention",
            f"decode{end}",
            lambda s: calls.attention(s.batch, heads, kv, 1, s.keys, head, s.dtype),
            ("keys",),
            trained=False,
        )
    if b.context_width:
        yield Layer(
            "attention", f"cross{end}",
            lambda s: calls.attention(s.batch, heads, kv, s.tokens, s.keys, head, s.dtype),
            ("tokens", "keys"), b.tokens, b.context_tokens,
        )  # fmt: skip
        yield Layer(
            "products",
            f"cross_kv{end}",
            lambda s: calls.linear(
                (s.batch, s.keys), b.context_width, kv * head, s.dtype, b.bias_of_qkv
            ),
            ("keys",),
            keys=b.context_tokens,
        )


def _of_vocabulary(model: Model) -> Iterator[Layer]:
    """The table of embeddings, the projection to logits, their softmax and their loss."""
    if not model.vocab:
        return
    block, vocab = model.blocks[-1], model.vocab
    width, tokens = block.width, block.tokens
    about = (("tokens",), tokens)
    yield Layer(
        "embedding",
        "embedding",
        lambda s: calls.embedding((s.batch, s.tokens), vocab, width, s.dtype),
        *about,
    )
    yield Layer(
        "products",
        "lm_head",
        lambda s: calls.linear((s.batch, s.tokens), width, vocab, s.dtype, False),
        *about,
    )
    yield Layer("loss", "loss", lambda s: calls.cross_entropy(s.rows, vocab, s.dtype), *about)
    yield Layer(
        "softmax", "sampling", lambda s: calls.softmax((s.batch, vocab), s.dtype), trained=False
    )


def _of_classes(model: Model) -> Iterator[Layer]:
    if not model.classes:
        return
    width = model.blocks[-1].width if model.blocks else model.convs[-1].filters
    classes = model.classes
    yield Layer(
        "products", "classifier", lambda s: calls.linear((s.batch,), width, classes, s.dtype, True)
    )
    yield Layer("loss", "loss", lambda s: calls.cross_entropy(s.batch, classes, s.dtype))


# ---- convolutions ------------------------------------------------------------------------------
def _of_convs(model: Model) -> Iterator[Layer]:
    for conv in model.convs:
        yield Layer("conv", _name(conv), _convolution(model, conv), ("last",) * (model.dims == 2))
        yield from _after(model, conv.filters, conv.out)


def _name(c: Conv) -> str:
    """conv 64-128@56k3s2: channels, filters, side, kernel, stride, groups if there are several."""
    groups = f"g{c.groups}" if c.groups > 1 else ""
    return f"conv{c.inputs}-{c.filters}@{c.side}k{c.kernel}s{c.stride}{groups}"


def _convolution(model: Model, c: Conv) -> Callable[[Setting], Work]:
    return lambda s: calls.convolution(
        s.batch, c.inputs, c.filters, c.side, c.out, s.dtype,
        dims=model.dims, kernel=c.kernel, stride=c.stride, padding=c.padding, groups=c.groups,
        bias=model.conv_norm != "batch", channels_last=s.last,
    )  # fmt: skip


def _after(model: Model, channels: int, side: int) -> Iterator[Layer]:
    """The norm, the activation and the residual connection after a convolution."""
    kind, act = model.conv_norm, model.conv_act
    sizes = ("last",) * (model.dims == 2)
    shape = (channels, *(side,) * model.dims)
    if kind and channels > COLOURS:
        yield Layer(
            "norm",
            f"{kind}_norm{channels}@{side}",
            lambda s: calls.images_norm((s.batch, *shape), s.dtype, kind, s.last),
            sizes,
        )
    if act:
        yield Layer(
            "activation",
            f"{act}{channels}@{side}",
            lambda s: calls.activation(calls.images((s.batch, *shape), s.dtype, s.last), act),
            sizes,
        )
        yield Layer(
            "residual",
            f"add{channels}@{side}",
            lambda s: calls.add(calls.images((s.batch, *shape), s.dtype, s.last)),
            sizes,
        )


def _of_pools(model: Model) -> Iterator[Layer]:
    for pool in model.pools:
        name = "max_pool" if pool.kernel else "mean_pool"
        yield Layer("pool", f"{name}{pool.channels}@{pool.side}", _pooled(pool), ("last",))


def _pooled(p: Pool) -> Callable[[Setting], Work]:
    shape = (p.channels, p.side, p.side)
    if not p.kernel:
        return lambda s: calls.mean_pool((s.batch, *shape), s.dtype, s.last)
    return lambda s: calls.max_pool((s.batch, *shape), s.dtype, p.kernel, p.stride, s.last)
