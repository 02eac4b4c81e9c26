"""The public names of weights, and the parameters of a Decoder that they become."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from weft.errors import ArgumentError
from weft.llm.config import DecoderConfig
from weft.quant.checkpoint import Checkpoint, Stored

GPT2_PREFIX = "transformer."
"""Before the keys of some checkpoints of GPT-2."""
LEFT = re.compile(r"(.*\.)?attn\.(masked_)?bias|.*\.rotary_emb\.inv_freq|.*attn\.[kv]_scale")
"""Keys of masks and frequencies, which are computed, and of caches in 8 bits."""
HEAD = "lm_head.weight"
EMBEDDINGS = ("model.embed_tokens.weight", "wte.weight")


@dataclass(frozen=True)
class Parameter:
    """A parameter and the tensors that are its rows, one after another.

    turned  they are stored as [columns, rows]
    """

    name: str
    keys: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    turned: bool = False


def parameters(c: DecoderConfig) -> Iterator[Parameter]:
    """The parameters of a decoder."""
    if c.is_gpt2:
        yield from _gpt2(c)
    else:
        yield from _rotary(c)


def _rotary(c: DecoderConfig) -> Iterator[Parameter]:
    def one(name: str, key: str, *shape: int) -> Parameter:
        return Parameter(name, (key,), (shape,))

    yield one("embedding.weight", EMBEDDINGS[0], c.vocabulary, c.width)
    q, kv = c.heads * c.head_size, c.kv_heads * c.head_size
    for i in range(c.depth):
        to, key = f"blocks.{i}.", f"model.layers.{i}."
        projections = tuple(f"{key}self_attn.{n}_proj" for n in "qkv")
        weights = tuple(f"{n}.weight" for n in projections)
        yield one(f"{to}norm1.weight", f"{key}input_layernorm.weight", c.width)
        yield Parameter(f"{to}qkv.weight", weights, tuple((n, c.width) for n in (q, kv, kv)))
        if c.qkv_bias:
            biases = tuple(f"{n}.bias" for n in projections)
            yield Parameter(f"{to}qkv.bias", biases, ((q,), (kv,), (kv,)))
        if c.head_norm:
            for n in "qk":
                yield one(f"{to}{n}_norm", f"{key}self_attn.{n}_norm.weight", c.head_size)
        yield one(f"{to}out.weight", f"{key}self_attn.o_proj.weight", c.width, q)
        yield one(f"{to}norm2.weight", f"{key}post_attention_layernorm.weight", c.width)
        gated = tuple(f"{key}mlp.{n}_proj.weight" for n in ("gate", "up"))
        yield Parameter(f"{to}up.weight", gated, ((c.hidden, c.width),) * 2)
        yield one(f"{to}down.weight", f"{key}mlp.down_proj.weight", c.width, c.hidden)
    yield one("norm.weight", "model.norm.weight", c.width)
    if not c.tied:
        yield one("head.weight", HEAD, c.vocabulary, c.width)


def _gpt2(c: DecoderConfig) -> Iterator[Parameter]:
    yield Parameter("embedding.weight", EMBEDDINGS[1:], ((c.vocabulary, c.width),))
    yield Parameter("places.weight", ("wpe.weight",), ((c.context, c.width),))
    layers = {
        "qkv": ("attn.c_attn", 3 * c.width, c.width),
        "out": ("attn.c_proj", c.width, c.width),
        "up": ("mlp.c_fc", c.hidden, c.width),
        "down": ("mlp.c_proj", c.width, c.hidden),
    }
    for i in range(c.depth):
        for name, (key, rows, columns) in layers.items():
            to, source = f"blocks.{i}.{name}", f"h.{i}.{key}"
            yield Parameter(f"{to}.weight", (f"{source}.weight",), ((columns, rows),), True)
            yield Parameter(f"{to}.bias", (f"{source}.bias",), ((rows,),))
        for name, key in (("norm1", "ln_1"), ("norm2", "ln_2")):
            for part in ("weight", "bias"):
                to, source = f"blocks.{i}.{name}.{part}", f"h.{i}.{key}.{part}"
                yield Parameter(to, (source,), ((c.width,),))
    for part in ("weight", "bias"):
        yield Parameter(f"norm.{part}", (f"ln_f.{part}",), ((c.width,),))


def named(config: DecoderConfig, stored: Checkpoint) -> Checkpoint:
    """The tensors without the prefix that some checkpoints have."""
    if not config.is_gpt2:
        return stored
    return Checkpoint(
        {key.removeprefix(GPT2_PREFIX): value for key, value in stored.tensors.items()},
        {key.removeprefix(GPT2_PREFIX): text for key, text in stored.metadata.items()},
    )


def fill(
    model: torch.nn.Module, config: DecoderConfig, stored: Mapping[str, Stored], used: set[str]
) -> None:
    """Copy the tensors of a checkpoint into a model; raise for missing, extra and wrong ones.

    used  the keys of layers that have their weights already
    """
    found = dict(model.named_parameters())
    wanted = [p for p in parameters(config) if p.name in found or not used]
    keys = {key for p in wanted for key in p.keys}
    where = str(next(iter(stored.values())).file.parent) if stored else ""
    if missing := sorted(keys - stored.keys()):
        near = missing[0].removesuffix("weight")
        instead = sorted(key for key in stored.keys() - used if key.startswith(near))
        raise ArgumentError(
            f"weft.llm: the checkpoint lacks '{missing[0]}'",
            where=where,
            got=f"{len(missing)} of {len(keys)} keys are missing",
            next=f"it has '{instead[0]}': quantised weights need the quantization_config in"
            " config.json that they were written with"
            if instead and near != missing[0]
            else "",
        )
    known = keys | used | ({HEAD} if config.tied else set())
    extra = sorted(key for key in stored.keys() - known if not LEFT.fullmatch(key))
    if extra:
        raise ArgumentError(
            f"weft.llm: the checkpoint has '{extra[0]}', which a {config.family} model lacks",
            where=str(stored[extra[0]].file),
            got=f"{len(extra)} such keys",
        )
    with torch.no_grad():
        for p in wanted:
            _copy(found[p.name], p, stored)


def _copy(target: torch.Tensor, p: Parameter, stored: Mapping[str, Stored]) -> None:
    row = 0
    for key, shape in zip(p.keys, p.shapes, strict=True):
        source = stored[key]
        if source.shape != shape:
            raise ArgumentError(
                f"weft.llm: '{key}' has another shape than config.json says",
                where=str(source.file),
                got=str(list(source.shape)),
                allowed=str(list(shape)),
            )
        value = source.read()
        value = value.T if p.turned else value
        target[row : row + value.shape[0]].copy_(value)
        row += value.shape[0]
