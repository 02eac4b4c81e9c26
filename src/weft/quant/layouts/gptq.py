"""GPTQ's layout, as GPTQModel and AutoGPTQ write it.

    qweight  int32 [K * bits / 32, N]: rows packed downwards, the lowest bits first
    qzeros   int32 [G, N * bits / 32]: zeros, in the format "gptq" less one, with wrap-around
    scales   [G, N]
    g_idx    int32 [K]: the group of each row; with `desc_act` groups are not neighbours

A weight is (q - zero) * scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import ArgumentError
from weft.quant.layouts.assembling import assemble
from weft.quant.layouts.groups import group_size
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.ordering import ordered
from weft.quant.layouts.source import FLOATS, Source
from weft.quant.layouts.words import WORD, signed, unpacked

BITS = (4, 8)
STORED = {"gptq": 1, "gptq_v2": 0}
"""Formats, and the number that is missing from stored zeros."""


class Gptq:
    """The layout with the facts of a quantization_config."""

    def __init__(self, facts: Mapping[str, Any], where: str) -> None:
        self.bits, self.group = facts.get("bits"), group_size(facts, where, "group_size")
        self.varies = bool(facts.get("dynamic"))
        form = facts.get("checkpoint_format") or facts.get("format") or "gptq"
        if form not in STORED:
            raise ArgumentError(
                "this format of GPTQ is not known",
                where=where, got=repr(form), allowed=", ".join(STORED),
                next="save the model with GPTQModel in the format 'gptq'",
            )  # fmt: skip
        self.missing = STORED[form]
        if self.bits not in BITS:
            raise ArgumentError(
                "GPTQ's weights of this many bits have no kernel",
                where=f"{where}: bits", got=repr(self.bits), allowed="4, 8",
            )  # fmt: skip

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""
        if not source.has("qweight"):
            return None
        n, k = source.shape
        bits, group = self._sizes(source)
        each = WORD // bits
        if k % group or k % each or n % each:
            raise source.error(
                "the groups and words of GPTQ do not divide the weight",
                f"{n} x {k}, groups of {group}, {each} numbers in a word",
                f"rows and columns that are multiples of {each}, columns also of the group",
            )
        groups = k // group
        words = source.take("qweight", ("I32",), (k // each, n))
        q = signed(unpacked(words.T, bits), bits)
        zeros = unpacked(source.take("qzeros", ("I32",), (groups, n // each)), bits)
        zeros = (zeros.int() + self.missing) & ((1 << bits) - 1)
        scale = source.take("scales", FLOATS, (groups, n))
        order = ordered(source, "g_idx", group)
        weight = assemble(
            q if order is None else q[:, order],
            scale.T,
            (zeros - (1 << (bits - 1))).T.float(),
            f"int{bits}",
            (1, group),
            source.dtype,
            source.key("qweight"),
        )
        return Imported(weight, order)

    def _sizes(self, source: Source) -> tuple[int, int]:
        """Bits and group, which a `dynamic` config may set for each layer."""
        k = source.shape[1]
        if not self.varies:
            return int(self.bits or 0), k if self.group == -1 else int(self.group)
        rows, groups = source.shape_of("qweight")[0], source.shape_of("scales")[0]
        bits = WORD * rows // k
        if bits not in BITS or not groups or k % groups:
            raise source.error(
                "GPTQ's weights of this many bits have no kernel",
                f"{bits} bits, {groups} groups of {k} columns", "4 or 8 bits",
            )  # fmt: skip
        return bits, k // groups
