"""The layouts of compressed-tensors, which llm-compressor and vLLM write.

    pack-quantized    weight_packed int32 [N, K * bits / 32]: q + 2 ** (bits - 1), lowest bits first
                      weight_shape, and weight_zero_point int32 [N * bits / 32, G], packed downwards
    int-quantized     weight int8 [N, K], weight_zero_point int8 like the scales
    float-quantized   weight float8_e4m3fn [N, K]

weight_scale is [1] for a tensor, [N, 1], [N, G], or one for each block; weight_g_idx has the group
of each column. A weight is (q - zero) * scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.quant.layouts.assembling import assemble
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.ordering import ordered
from weft.quant.layouts.source import FLOATS, Source
from weft.quant.layouts.words import WORD, signed, unpacked

FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense")
STORED = {"I8": "int8", "F8_E4M3": "e4m3"}
BITS = (4, 8)


class CompressedTensors:
    """The layouts with the facts of a quantization_config."""

    def __init__(self, facts: Mapping[str, Any], where: str) -> None:
        found = facts.get("config_groups")
        groups = [g for g in found.values() if isinstance(g, dict)] if found else []
        forms = {facts.get("format"), *(g.get("format") for g in groups)} - {None}
        if wrong := sorted(str(f) for f in forms if f not in FORMATS):
            raise ArgumentError(
                "this format of compressed-tensors is not supported",
                where=f"{where}: format", got=wrong[0], allowed=", ".join(FORMATS),
            )  # fmt: skip
        if facts.get("transform_config"):
            raise ArgumentError(
                "transforms of compressed-tensors are not supported",
                where=f"{where}: transform_config", got="rotations of weights and inputs",
            )  # fmt: skip
        sparse = (facts.get("sparsity_config") or {}).get("format", "dense")
        if sparse != "dense":
            raise ArgumentError(
                "sparse weights of compressed-tensors are not supported",
                where=f"{where}: sparsity_config", got=repr(sparse), allowed="'dense'",
            )  # fmt: skip
        self.is_dynamic = bool(groups) and all(_has_rows(g) for g in groups)
        sides = [(g.get("weights") or {}).get("block_structure") for g in groups]
        self.blocks = {tuple(s) for s in sides if isinstance(s, list) and len(s) == 2}

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""
        if source.has("weight_packed"):
            return self._packed(source)
        stored = source.dtype_of("weight")
        if stored not in STORED:
            return None
        q = source.take("weight", (stored,), source.shape)
        scale, block = self._scale(source)
        zero = None
        if source.has("weight_zero_point"):
            shapes = (tuple(scale.shape), source.shape_of("weight_scale"))
            zero = source.take("weight_zero_point", ("I8", *FLOATS), *shapes).view(scale.shape)
        return self._made(source, "weight", q, scale, zero, STORED[stored], block)

    def _packed(self, source: Source) -> Imported:
        n, k = source.shape
        width = source.shape_of("weight_packed")[-1]
        bits = next((b for b in BITS if cdiv(k * b, WORD) == width), 0)
        if not bits:
            raise source.error(
                f"'{source.key('weight_packed')}' has integers of other sizes",
                f"{width} words for {k} columns", "integers of 4 or 8 bits",
            )  # fmt: skip
        words = source.take("weight_packed", ("I32",), (n, width))
        if source.has("weight_shape"):
            said = source.take("weight_shape", ("I32", "I64"), (2,)).tolist()
            if said != [n, k]:
                raise source.error(
                    f"'{source.key('weight_shape')}' has another shape than config.json says",
                    str(said), str([n, k]),
                )  # fmt: skip
        q = signed(unpacked(words, bits)[:, :k], bits)
        scale, block = self._scale(source)
        zero = None
        if source.has("weight_zero_point"):
            high = cdiv(n * bits, WORD)
            stored = source.take("weight_zero_point", ("I32",), (high, scale.shape[1]))
            zero = signed(unpacked(stored.T, bits)[:, :n], bits).T
        return self._made(source, "weight_packed", q, scale, zero, f"int{bits}", block)

    def _made(
        self, source: Source, part: str, q: torch.Tensor, scale: torch.Tensor,
        zero: torch.Tensor | None, form: str, block: tuple[int, int],
    ) -> Imported:  # fmt: skip
        order = None
        if block[0] == 1 and source.shape[1] % block[1] == 0:
            order = ordered(source, "weight_g_idx", block[1])
        q = q if order is None else q[:, order]
        floats = None if zero is None else zero.float()
        where = source.key(part)
        weight = assemble(q, scale, floats, form, block, source.dtype, where)
        for unused in ("input_scale", "input_zero_point", "output_scale"):  # inputs keep 16 bits
            if source.has(unused):
                source.used.add(source.key(unused))
        return Imported(weight, order, is_dynamic=self.is_dynamic)

    def _scale(self, source: Source) -> tuple[torch.Tensor, tuple[int, int]]:
        """The scales as a matrix, and the rows and columns that share one."""
        (n, k), shape = source.shape, source.shape_of("weight_scale")
        blocks = [(cdiv(n, r), cdiv(k, c), r, c) for r, c in self.blocks]
        tall, wide, rows, columns = blocks[0] if len(blocks) == 1 else (1, 1, n, k)
        if not blocks and len(shape) == 2 and shape[0] == n and shape[1] and k % shape[1] == 0:
            tall, wide, rows, columns = n, shape[1], 1, k // shape[1]
        allowed: list[tuple[int, ...]] = [(tall, wide)]
        if tall == wide == 1:
            allowed += [(1,), (), (n, 1)]
        scale = source.take("weight_scale", FLOATS, *allowed)
        if math.prod(shape) == 1:
            return scale.reshape(1, 1), (n, k)
        return scale.reshape(tall, wide), (rows, columns)


def _has_rows(group: Mapping[str, Any]) -> bool:
    """True if each row of the inputs is quantised by a scale of its own, without zeros."""
    inputs = group.get("input_activations")
    return (
        isinstance(inputs, dict)
        and inputs.get("dynamic") is True
        and inputs.get("strategy") == "token"
        and inputs.get("symmetric", True) is True
        and inputs.get("num_bits", 8) == 8
    )
