"""The weights of a decoder as the kernel of a decoding step reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from weft.device.tensor_map_layout import MAP_BYTES
from weft.kernels.tensor_map import tensor_map
from weft.llm.decoder import Decoder
from weft.nn.layers import CLASSES

SCALED = 128
"""Weights that share a scale, if those of a row do not share one."""
PART = 64
"""Bytes of a row that a warp reads together: rows have whole ones."""
QUARTER = 4
"""Scales of a row that are copied together: 16 bytes."""
VECTOR = 16
"""Bytes: copies begin at multiples of them."""


@dataclass(frozen=True)
class Form:
    """The format that all products of a step have in common.

    name     of weft/dequantise.cuh; of weights of 16 bits it does not matter
    bits     of a weight
    grouped  SCALED weights of a row share a scale; else all of a row do
    """

    name: str
    bits: int
    grouped: bool

    @property
    def is_integer(self) -> bool:
        """True for weights that are integers: tokens become integers, too."""
        return self.bits < 16 and self.name.startswith("INT")


PLAIN = Form("INT8", 16, False)
QUANTISED = {"int4": ("INT4", 4), "int8": ("INT8", 8), "e4m3": ("E4M3", 8), "e5m2": ("E5M2", 8)}


def form_of(layer: Any, dtype: torch.dtype) -> Form | None:
    """The form of a layer's weight; None for one that the kernel does not read."""
    is_plain = type(layer) is CLASSES["Linear"]
    if is_plain:
        whole = layer.weight.dtype is dtype and layer.weight.is_contiguous()
        return PLAIN if whole and _has_parts(layer.weight) else None
    if not getattr(layer, "is_weight_only", False):
        return None
    plain = all(x is None for x in (layer.multiplier, layer.columns, layer.order, layer.zero))
    fits = plain and _is_plain(layer.scale, torch.float32)
    if not fits or not layer.weight.is_contiguous() or not _has_parts(layer.weight):
        return None
    rows, groups = layer.scale.shape
    name, bits = QUANTISED[layer.quantised.format]
    if rows != layer.out_features or rows % ROWS:
        return None
    if groups == 1:
        return Form(name, bits, False)
    fits = layer.in_features == groups * SCALED and groups % QUARTER == 0
    return Form(name, bits, True) if fits else None


def form(model: Decoder) -> Form | None:
    """The form of all layers but the head; None if the kernel does not read them, or the rest."""
    if not all(_is_plain(x, model.dtype) for x in _rest(model)):
        return None
    first = form_of(model.blocks[0].qkv, model.dtype)
    for block in model.blocks:
        rest = (block.out, block.up, block.down)
        if any(form_of(layer, model.dtype) != first for layer in (block.qkv, *rest)):
            return None
        if any(layer.bias is not None for layer in rest):
            return None
    return first


class Weights:
    """The tensors of a decoder, and the tables by which the kernel finds them.

    given  the tensors, in the order of the tables; None for those that are not there
    words  addresses: WORDS of each layer, then a row with the last norm and scales of the head
    maps   tensor maps: MAPS of each layer, then a row with those of the head
    """

    def __init__(self, model: Decoder, form: Form, keys: Any, values: Any, has_head: bool) -> None:
        self.given = _tensors(model, keys, values, has_head)
        self.words = torch.tensor(
            [0 if t is None else t.data_ptr() for row in self.given for t in row[:WORDS]]
        ).to(model.device)
        found = b"".join(_map(t, box) for row in self.given for t, box in _mapped(row, form))
        maps = torch.frombuffer(bytearray(found), dtype=torch.int64)
        self.maps = maps.clone().to(model.device)  # at an address that maps may have


def _rest(model: Decoder) -> Iterator[torch.Tensor]:
    """The tensors beside the weights of products."""
    yield from (model.embedding.weight, model.norm.weight)
    for b in model.blocks:
        given = (b.norm1.weight, b.norm2.weight, b.qkv.bias, b.q_norm, b.k_norm)
        yield from (x for x in given if x is not None)


def _is_plain(x: torch.Tensor, dtype: torch.dtype) -> bool:
    """True for neighbouring elements of a dtype that begin at a vector."""
    return bool(x.dtype is dtype and x.is_contiguous() and x.data_ptr() % VECTOR == 0)


WORDS, TILE, TILE_ROW, PIECE, ROWS = 11, 64, 128, 1024, 16
"""Constants of problem.cuh."""


def _tensors(model: Decoder, keys: Any, values: Any, has_head: bool) -> list[list[Any]]:
    """Those of each layer in the order of the words, then the weights; and those of the head."""
    rows = []
    for i, block in enumerate(model.blocks):
        layers = (block.qkv, block.out, block.up, block.down)
        norms = [block.norm1.weight, block.norm2.weight]
        rest = [block.qkv.bias, block.q_norm, block.k_norm]
        scales = [getattr(layer, "scale", None) for layer in layers]
        weights = [layer.weight for layer in layers]
        rows.append([*norms, keys[i], values[i], *rest, *scales, *weights])
    head: list[Any] = [None] * len(rows[0])
    if has_head:
        head[0] = model.norm.weight
        head[WORDS - 4], head[WORDS] = getattr(model.head, "scale", None), model.head.weight
    return [*rows, head]


def _mapped(row: list[Any], form: Form) -> list[tuple[Any, tuple[int, ...]]]:
    """The tensors of a layer's maps, of words of four bytes, and their boxes: chunks of half of the
    rows of a unit."""
    weights, scales = row[WORDS:], row[WORDS - 4 : WORDS]
    found = [(w, (ROWS // 2, PIECE // 4)) for w in weights]
    groups = PIECE * 8 // form.bits // SCALED
    given = scales if form.grouped else [None] * len(scales)
    found += [(s, (ROWS // 2, groups)) for s in given]
    cached = [None if x is None else x.flatten(0, 1) for x in row[2:4]]
    return found + [(x, (TILE, 1, TILE_ROW // 4)) for x in cached]


def _map(tensor: Any, box: tuple[int, ...]) -> bytes:
    if tensor is None:
        return bytes(MAP_BYTES)
    swizzle = TILE_ROW if box[0] == TILE else 0
    return bytes(tensor_map(tensor.detach().view(torch.int32), box, swizzle=swizzle))


def _has_parts(weight: torch.Tensor) -> bool:
    row = int(weight.shape[1]) * int(weight.element_size())
    return row % PART == 0 and int(weight.data_ptr()) % VECTOR == 0
