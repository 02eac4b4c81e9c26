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

    in_features   a multiple of 16
    out_features  features of the result
    options       those of torch.nn.Linear: bias, device, dtype

    `weft.sparse.convert` makes such layers of others. The places that are kept are fixed: the
    buffer `metadata` has them, and `state_dict` contains it. float16 and bfloat16, also by
    torch.autocast, are computed by weft.ops.sparse_linear, other dtypes by weft.ops.linear with
    the kept elements. In evaluation these are taken from the weight once, until it changes.

    >>> layer = weft.sparse.Linear(32, 8, dtype=torch.float16)
    >>> print(list(layer(torch.ones(2, 32, dtype=torch.float16)).shape))
    [2, 8]
    """

    metadata: torch.Tensor
    _taken: tuple[tuple[Any, ...], torch.Tensor] | None

    def __init__(self, in_features: int, out_features: int, **options: Any) -> None:
        if in_features % SIXTEEN:
            raise ArgumentError(
                "weft.sparse.Linear: in_features cannot be 2:4 sparse",
                got=str(in_features),
                allowed=f"a multiple of {SIXTEEN}",
            )
        super().__init__(in_features, out_features, **options)
        self._fix_places()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return input weightᵀ + bias."""
        values, device = self._values(), input.device.type
        lowered = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in HALF
        made: torch.Tensor
        if lowered or self.weight.dtype in HALF:
            made = _SPARSE_LINEAR(input, values, self.metadata, self.bias)
        else:
            whole = _EXPAND(values, self.metadata)
            made = _LINEAR(input, whole, self.bias)
        return made

    def train(self, mode: bool = True) -> Linear:
        """Switch between training and evaluation, as torch.nn.Module.train."""
        self._taken = None  # an optimiser may write to the data of a parameter, unseen
        super().train(mode)
        return self

    def _fix_places(self) -> None:
        """Prune the weight; the places that it keeps are those of the layer from now on."""
        with torch.no_grad():
            self.weight.copy_(prune(self.weight))
        # Places, not elements, are compressed: an element that is kept may be 0.
        places = kept_places(self.weight).float()
        self.register_buffer("metadata", compress(places).metadata)
        self._taken = None

    def _values(self) -> torch.Tensor:
        """The kept elements of the weight."""
        weight, metadata = self.weight, self.metadata
        recorded = torch.is_grad_enabled() and weight.requires_grad
        if self.training or recorded or torch.compiler.is_compiling() or weight.is_inference():
            made: torch.Tensor = _SELECT(weight, metadata)
            return made
        state = weight.dtype, *((x.data_ptr(), x._version) for x in (weight, metadata))
        if self._taken is None or self._taken[0] != state:
            self._taken = state, _SELECT(weight, metadata)
        return self._taken[1]


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
            layer.__class__ = Linear
            layer._fix_places()
    return model
