"""AWQ's layout for products, "gemm", as AutoAWQ writes it.

    qweight  int32 [K, N / 8]: eight neighbours of a row in a word
    qzeros   int32 [G, N / 8], packed alike
    scales   [G, N]

The four bits at 4 * i of a word hold the column ORDER[i]. A weight is (q - zero) * scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.layouts.assembling import assemble
from weft.quant.layouts.groups import group_size
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.source import FLOATS, Source
from weft.quant.layouts.words import signed, unpacked

BITS, EACH = 4, 8
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""The column in each place of a word, from the lowest bits."""
PLACES = tuple(ORDER.index(column) for column in range(EACH))


class Awq:
    """The layout with the facts of a quantization_config."""

    def __init__(self, facts: Mapping[str, Any], where: str) -> None:
        self.group = group_size(facts, where, "group_size", "q_group_size")
        version = facts.get("version") or facts.get("format") or "gemm"
        needed = (
            ("bits", facts.get("bits", facts.get("w_bit", BITS)), BITS),
            ("version", str(version).lower(), "gemm"),
            ("zero_point", facts.get("zero_point", True), True),
        )
        for name, value, allowed in needed:
            if value != allowed:
                raise ArgumentError(
                    f"AWQ with this '{name}' is not supported",
                    where=f"{where}: {name}",
                    got=repr(value),
                    allowed=repr(allowed),
                    next="quantise the model with AutoAWQ and its defaults",
                )

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""
        if not source.has("qweight"):
            return None
        n, k = source.shape
        group = k if self.group == -1 else self.group
        if k % group or n % EACH:
            raise source.error(
                "the groups and words of AWQ do not divide the weight",
                f"{n} x {k}, groups of {group}, {EACH} numbers in a word",
                f"rows that are a multiple of {EACH}, columns of the group",
            )
        q = signed(_columns(source.take("qweight", ("I32",), (k, n // EACH))), BITS)
        zeros = signed(_columns(source.take("qzeros", ("I32",), (k // group, n // EACH))), BITS)
        scale = source.take("scales", FLOATS, (k // group, n))
        where = source.key("qweight")
        return Imported(
            assemble(q.T, scale.T, zeros.T.float(), "int4", (1, group), source.dtype, where)
        )


def _columns(words: torch.Tensor) -> torch.Tensor:
    """Unpack rows, and put columns into their order."""
    found = unpacked(words, BITS)
    return found.unflatten(-1, (-1, EACH))[..., PLACES].flatten(-2)
