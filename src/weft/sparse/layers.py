"""Linear layers with 2:4 sparse weights that can be trained."""

from __future__ import annotations

from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core import library
from weft.sparse.pruning import kept_places, prune
from weft.sparse.semi_structured import SIXTEEN, compress

HALF = (torch.float16, torch.bfloat16)
# Before torch.compile traces `forward`: it traces a call of an op, but not how the op is made.
_SELECT, _EXPAND, _SPARSE_LINEAR, _LINEAR = map(
    library.call, ("sparse_select", "sparse_expand", "sparse_linear", "linear")
)


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """`torch.nn.Linear` whose weight keeps two of each four elements of a row.

    `weft.sparse.convert` makes them. Which elements are kept is fixed: the buffer `metadata` has
    their places, and `state_dict` contains it. float16 and bfloat16, also by torch.autocast, are
    computed by weft.ops.sparse_linear, other dtypes by weft.ops.linear with the kept elements.
    """

    metadata: torch.Tensor

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        values = _SELECT(self.weight, self.metadata)
        device = input.device.type
        lowered = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in HALF
        made: torch.Tensor
        if lowered or self.weight.dtype in HALF:
            made = _SPARSE_LINEAR(input, values, self.metadata, self.bias)
        else:
            whole = _EXPAND(values, self.metadata)
            made = _LINEAR(input, whole, self.bias)
        return made


def convert(model: Any) -> Any:
    """Make the linear layers of a model sparse; see `weft.sparse.convert`."""
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(
            "weft.sparse.convert: model is not a module of PyTorch",
            got=f"{model!r:.60} ({type(model).__name__})",
            allowed="a torch.nn.Module",
        )
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.in_features % SIXTEEN == 0:
            _convert(layer)
    return model


def _convert(layer: torch.nn.Linear) -> None:
    with torch.no_grad():
        layer.weight.copy_(prune(layer.weight))
    places = kept_places(layer.weight)
    # Places, not elements, are compressed: an element that is kept may be 0.
    metadata = compress(places.float()).metadata
    layer.__class__ = Linear
    layer.register_buffer("metadata", metadata)
