"""The layout of a folder, by the quantization_config of its config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from weft.errors import ArgumentError
from weft.quant.layouts.awq import Awq
from weft.quant.layouts.compressed_tensors import CompressedTensors
from weft.quant.layouts.flattened import Flattened
from weft.quant.layouts.float8 import Float8
from weft.quant.layouts.gptq import Gptq
from weft.quant.layouts.imported import Imported
from weft.quant.layouts.source import Source
from weft.quoting import similar


class Layout(Protocol):
    """Reads the weights of linear layers."""

    def read(self, source: Source) -> Imported | None:
        """Read the weight of a layer; None for one that is not quantised."""


METHODS: dict[str, Callable[[Mapping[str, Any], str], Layout]] = {
    "awq": Awq,
    "compressed-tensors": CompressedTensors,
    "fp8": Float8,
    "gptq": Gptq,
    "torchao": Flattened,
}
"""Values of `quant_method`, and what checks the other facts."""


def layout_of(facts: object, where: str) -> Layout:
    """Choose the layout; raise for one that is not known, before a weight is read."""
    if not isinstance(facts, Mapping):
        raise ArgumentError(
            "quantization_config is no object", where=where, got=type(facts).__name__
        )
    method = str(facts.get("quant_method"))
    if method not in METHODS:
        near = similar(method, METHODS)
        raise ArgumentError(
            "weights of this method of quantisation are not supported",
            where=f"{where}: quantization_config",
            got=f"quant_method {facts.get('quant_method')!r}",
            allowed=", ".join(METHODS),
            next=(f"did you mean '{near}'? " if near else "")
            + "load the original model, and quantise it with weft.quant.convert",
        )
    try:
        return METHODS[method](facts, f"{where}: quantization_config")
    except (TypeError, AttributeError) as error:  # a list in the place of an object, …
        raise ArgumentError(
            f"the quantization_config of {method} cannot be read", where=where, got=str(error)
        ) from None
