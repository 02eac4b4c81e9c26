"""Weights of float8 with a scale for each block, as DeepSeek and Qwen publish them.

    weight            float8_e4m3fn [N, K]
    weight_scale_inv  one for each block of `weight_block_size`; without it, one for the weight

A weight is q * weight_scale_inv: the name is that of the factor before rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.quant.layouts.assembling import assemble
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.source import FLOATS, Source

STORED = "F8_E4M3"
SCALES = ("weight_scale_inv", "weight_scale")


class Float8:
    """The layout with the facts of a quantization_config."""

    def __init__(self, facts: Mapping[str, Any], where: str) -> None:
        size = facts.get("weight_block_size")
        whole = isinstance(size, list) and len(size) == 2 and all(type(s) is int for s in size)
        if size is not None and (not whole or min(size) < 1):
            raise ArgumentError(
                "the size of blocks is not two numbers",
                where=f"{where}: weight_block_size", got=repr(size), allowed="[128, 128], null",
            )  # fmt: skip
        self.block = None if size is None else (int(size[0]), int(size[1]))

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""
        if source.dtype_of("weight") != STORED:
            return None
        part = next((name for name in SCALES if source.has(name)), SCALES[0])
        (n, k), block = source.shape, self.block or source.shape
        want = (cdiv(n, block[0]), cdiv(k, block[1]))
        shapes: list[tuple[int, ...]] = [want]
        if want == (1, 1):
            shapes += [(1,), ()]
        scale = source.take(part, FLOATS, *shapes).reshape(want)
        q = source.take("weight", (STORED,), source.shape)
        if source.has("input_scale"):  # inputs keep 16 bits
            source.used.add(source.key("input_scale"))
        where = source.key("weight")
        return Imported(assemble(q, scale, None, "e4m3", block, source.dtype, where))
