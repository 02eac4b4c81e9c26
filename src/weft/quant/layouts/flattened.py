"""torchao's tensors in safetensors files: plain tensors, and JSON in the header for each of them.

A parameter `layer.weight` is stored as `layer._weight_qdata`, `layer._weight_scale`, …; the header
has its class and its other attributes under the parameter's name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.checkpoint import KNOWN, Stored
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.source import Source
from weft.quant.layouts.torchao import Packed, imported

PLAIN = "Tensor"
"""The class of parameters that are not quantised."""


class Flattened:
    """The layout; the header has all facts, so that those of a quantization_config are left."""

    def __init__(self, facts: Mapping[str, Any], where: str) -> None:
        pass

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""
        name = source.key("weight")
        entry = entry_of(source.metadata, name)
        if entry is None:
            return None
        found = packed(name, entry, source.tensors, source.used, source.dtype)
        made = imported(found)
        if made.weight.shape != source.shape:
            raise source.error(
                f"'{name}' has another shape than config.json says",
                str(list(made.weight.shape)), str(list(source.shape)),
            )  # fmt: skip
        return made


def entry_of(metadata: Mapping[str, str], name: str) -> Mapping[str, Any] | None:
    """The entry of a parameter in a header; None for one that is a plain tensor."""
    if name not in metadata:
        return None
    try:
        entry = json.loads(metadata[name])
        kind, facts = entry["_type"], entry.get("_data", {})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            "the header has an entry of torchao that cannot be read",
            where=name, got=repr(error),
        ) from None  # fmt: skip
    return None if kind == PLAIN else {"_type": kind, "_data": dict(facts)}


def packed(
    name: str, entry: Mapping[str, Any], tensors: Mapping[str, Stored], used: set[str],
    dtype: torch.dtype | None = None,
) -> Packed:  # fmt: skip
    """Read the tensors of a parameter; its own dtype is the default."""
    module, _, last = name.rpartition(".")
    start = f"{module}._{last}_" if module else f"_{last}_"
    keys = {key.removeprefix(start): key for key in tensors if key.startswith(start)}
    used.update(keys.values())
    read = {part: tensors[key].read(tuple(KNOWN)) for part, key in keys.items()}
    facts = {key: _plain(value) for key, value in entry["_data"].items()}
    own = facts.get("dtype")
    if not isinstance(own, torch.dtype):  # 4-bit tensors have that of their scales
        scale = read.get("scale", read.get("scale_and_zero"))
        own = torch.bfloat16 if scale is None else scale.dtype
    return Packed(str(entry["_type"]), read, facts, dtype or own, name)


def _plain(value: Any) -> Any:
    """A dtype of torch for its JSON."""
    if isinstance(value, Mapping) and value.get("_type") == "torch.dtype":
        found = getattr(torch, str(value.get("_data")), None)
        return found if isinstance(found, torch.dtype) else value
    return value
