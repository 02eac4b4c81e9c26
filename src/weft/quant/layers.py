"""Linear layers with quantised weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant import products
from weft.quant.quantised import Quantised

KEPT = (torch.float16, torch.bfloat16)
"""Dtypes of columns that are not quantised."""


@dataclass(frozen=True)
class Outliers:
    """Columns of a weight that stay in 16 bits: the idea of LLM.int8() (Dettmers et al., 2022).

    columns  their indices [C]
    weight   [N, C]
    """

    columns: torch.Tensor
    weight: torch.Tensor


@dataclass(frozen=True)
class Original:
    """The layer before its conversion, and the parameters of a norm that was changed with it."""

    layer: torch.nn.Module
    norm: torch.nn.Module | None = None
    parameters: tuple[torch.Tensor, ...] = ()


class Linear(torch.nn.Module):  # type: ignore[misc]
    """A linear layer with a quantised weight: y = x @ weight.T + bias in the dtype of x.

    quantised    the weight
    bias         [N], or None
    multiplier   [K]: x is multiplied by it first, or None
    outliers     columns in 16 bits, or None
    order        [K]: column k of the weight is for element order[k] of x, or None

    >>> layer = weft.quant.Linear(weft.quant.quantise(torch.eye(32), "int8"))
    >>> print(layer)
    Linear(in_features=32, out_features=32, bias=False, int8, group=channel)
    """

    is_weight_only = True
    """Only the weight has few bits; the layer computes in the dtype of its input."""

    def __init__(
        self,
        quantised: Quantised,
        bias: torch.nn.Parameter | None = None,
        *,
        multiplier: torch.Tensor | None = None,
        outliers: Outliers | None = None,
        order: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = quantised.shape
        self._facts = {name: getattr(quantised, name) for name in ("format", "group", "dtype")}
        self.register_parameter("bias", bias)
        self.register_buffer("weight", quantised.weight)
        self.register_buffer("scale", quantised.scale)
        self.register_buffer("zero", quantised.zero)
        self.register_buffer("multiplier", multiplier)
        self.register_buffer("order", order)
        self.register_buffer("columns", outliers.columns if outliers else None)
        self.register_buffer("kept", outliers.weight if outliers else None)
        self.original: Original | None = None

    @property
    def quantised(self) -> Quantised:
        """The weight as a value."""
        shape = (self.out_features, self.in_features)
        return Quantised(self.weight, self.scale, self.zero, shape=shape, **self._facts)

    def forward(self, x: torch.Tensor, constant: bool = False) -> torch.Tensor:
        """Compute the layer for x [..., K].

        constant  the weight has not changed shortly before, and no gradient is wanted: kernels may
                  read it before those that write x have ended
        """
        if self.multiplier is not None:
            x = x * self.multiplier.to(x.dtype)
        if self.order is not None:
            x = x.index_select(-1, self.order)
        if self.columns is None:
            return self._product(x, constant)
        y = self._product(x.index_fill(-1, self.columns, 0), constant)
        return y + products.plain(x.index_select(-1, self.columns), self.kept.to(x.dtype))

    def _product(self, x: torch.Tensor, constant: bool) -> torch.Tensor:
        return products.weight_only(x, self.quantised, self.bias, constant)

    def dequantised(self) -> torch.nn.Linear:
        """Make a linear layer of PyTorch that computes the same."""
        weight = self.quantised.dequantise(torch.float32)
        if self.columns is not None:
            weight[:, self.columns] = self.kept.float()
        if self.order is not None:
            weight = weight[:, self.order.argsort()]
        if self.multiplier is not None:
            weight = weight * self.multiplier.float()
        made = torch.nn.Linear(1, 1, bias=False, device=weight.device)
        made.in_features, made.out_features = self.in_features, self.out_features
        made.weight = torch.nn.Parameter(weight.to(self._facts["dtype"]))
        made.bias = self.bias
        return made.train(self.training)

    def extra_repr(self) -> str:
        """The sizes, the format and the granularity."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        facts = f"{self._facts['format']}, group={self._facts['group']}"
        return f"{sizes}, bias={self.bias is not None}, {facts}"

    # ---- state ---------------------------------------------------------------------------------
    def get_extra_state(self) -> dict[str, Any]:
        """The facts of the weight that its tensors do not hold."""
        return {**self._facts, "symmetric": self.zero is None}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take the dtype of the original weight; the other facts are equal."""
        self._facts["dtype"] = state["dtype"]

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Load the tensors; raise first for a weight in another format, which torch would cast."""
        given, own = state.get(f"{prefix}_extra_state"), self.get_extra_state()
        names = ("format", "group", "symmetric")
        if given is None and f"{prefix}weight" in state:
            raise ArgumentError(
                "the checkpoint has a weight that is not quantised",
                where=f"{prefix}weight",
                got=str(state[f"{prefix}weight"].dtype),
                allowed=_words(own, names),
                next="load it before weft.quant.convert",
            )
        if given is not None and any(given[name] != own[name] for name in names):
            raise ArgumentError(
                "the checkpoint has another format than the layer",
                where=f"{prefix}weight",
                got=_words(given, names),
                allowed=_words(own, names),
                next="convert the model with the options of the checkpoint",
            )
        super()._load_from_state_dict(state, prefix, *rest)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Linear:
        """Move the layer; `model.half()` must cast neither the weight nor its scales."""
        before = {name: b for name, b in self._buffers.items() if b is not None}
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            if self._buffers[name].dtype != buffer.dtype:
                self._buffers[name] = buffer.to(self._buffers[name].device)
        return self


class DynamicLinear(Linear):
    """A linear layer in 8 bits: each row of its input is quantised too, by a scale of its own.

    quantised    the weight: int8, e4m3 or e5m2
    bias         [N], or None
    multiplier   [K]: x is multiplied by it first, or None
    outliers     columns in 16 bits, or None; their inputs stay in 16 bits, too
    order        [K]: column k of the weight is for element order[k] of x, or None

    >>> layer = weft.quant.DynamicLinear(weft.quant.quantise(torch.eye(32), "int8"))
    >>> print(layer(torch.ones(1, 32)).sum().item())
    32.0
    """

    is_weight_only = False

    def _product(self, x: torch.Tensor, constant: bool) -> torch.Tensor:
        return products.dynamic(x, self.quantised, self.bias)


def _words(facts: dict[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={facts[name]}" for name in names)
