"""The weights of a decoder as the kernel of a decoding step reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from weft.llm.decoder import Decoder
from weft.nn.layers import CLASSES
from weft.quant.layers import DynamicLinear
from weft.quant.layers import Linear as QuantisedLinear

SCALED = 128
"""Weights that share a scale, if those of a row do not share one."""
PART = 64
"""Bytes of a row that a warp reads together: rows have whole ones."""
QUARTER = 4
"""Scales of a row that are copied together: 16 bytes."""


@dataclass(frozen=True)
class Form:
    """What all products of a step have in common.

    name     of weft/dequantise.cuh; of weights of 16 bits it does not matter
    bits     of a weight
    grouped  SCALED weights of a row share a scale; else all of a row do
    """

    name: str
    bits: int
    grouped: bool


PLAIN = Form("INT8", 16, False)
QUANTISED = {"int4": ("INT4", 4), "int8": ("INT8", 8), "e4m3": ("E4M3", 8), "e5m2": ("E5M2", 8)}


def form_of(layer: Any, dtype: torch.dtype) -> Form | None:
    """The form of a layer's weight; None for one that the kernel does not read."""
    if type(layer) is CLASSES["Linear"]:
        whole = layer.weight.dtype is dtype and layer.weight.is_contiguous()
        return PLAIN if whole and _has_parts(layer.weight) else None
    if not isinstance(layer, QuantisedLinear) or isinstance(layer, DynamicLinear):
        return None
    plain = (layer.multiplier, layer.columns, layer.zero) == (None, None, None)
    fits = plain and layer.scale.dtype is torch.float32 and layer.scale.is_contiguous()
    if not fits or not layer.weight.is_contiguous() or not _has_parts(layer.weight):
        return None
    rows, groups = layer.scale.shape
    name, bits = QUANTISED[layer.quantised.format]
    if rows != layer.out_features:
        return None
    if groups == 1:
        return Form(name, bits, False)
    fits = layer.in_features == groups * SCALED and groups % QUARTER == 0
    return Form(name, bits, True) if fits else None


def form(model: Decoder) -> Form | None:
    """The form of all layers but the head; None if the kernel does not read them."""
    first = form_of(model.blocks[0].qkv, model.dtype)
    for block in model.blocks:
        rest = (block.out, block.up, block.down)
        if any(form_of(layer, model.dtype) != first for layer in (block.qkv, *rest)):
            return None
        if any(layer.bias is not None for layer in rest):
            return None
    return first


def tensors(model: Decoder, keys: Any, values: Any, has_head: bool) -> list[Any]:
    """The tensors of the table, in the order of the words of problem.cuh; None for those that are
    not there."""
    found: list[Any] = []
    for i, block in enumerate(model.blocks):
        for layer in (block.qkv, block.out, block.up, block.down):
            found += _weight(layer)
        found += [block.norm1.weight, block.norm2.weight, keys[i], values[i]]
        found += [block.qkv.bias, block.q_norm, block.k_norm]
    words = len(found) // len(model.blocks)
    last: list[Any] = [None] * words
    if has_head:
        last[:2] = _weight(model.head)
        last[NORM1] = model.norm.weight
    return found + last


NORM1 = 8
"""The number of the first norm's word: the last norm takes its place behind the layers."""


def _weight(layer: Any) -> list[Any]:
    """The weight of a layer and its scales."""
    return [layer.weight, getattr(layer, "scale", None)]


def _has_parts(weight: torch.Tensor) -> bool:
    return weight.shape[1] * weight.element_size() % PART == 0 and weight.data_ptr() % 16 == 0
