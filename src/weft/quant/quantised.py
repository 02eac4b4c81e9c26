"""A weight in 8 or 4 bits, with its scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.quant.formats import Format, Group, format_of
from weft.quant.granularity import join, split, spread
from weft.quant.packing import unpack


@dataclass(frozen=True, eq=False)
class Quantised:
    """A weight [N, K] in 8 or 4 bits; `==` compares all of its state.

    weight   int8 or float8 [N, K]; int4 in uint8 [N, K // 2]: q + 8, the low four bits are even k
    scale    float32 [N, G] for G groups of a row, [1, 1] for a tensor, or one for each block
    zero     None (symmetric), or like scale: a value is (q - zero) * scale
    format   int8, int4, e4m3 or e5m2
    group    elements of a row that share a scale, or "channel", "tensor", "block"
    shape    of the weight: (N, K)
    dtype    of the weight that was quantised

    >>> q = weft.quant.quantise(torch.tensor([[1.0, -7.0], [0.0, 0.0]]), "int4")
    >>> print(q.weight.tolist(), q.scale.tolist(), q.nbytes)
    [[25], [136]] [[1.0], [1.0]] 10
    """

    weight: torch.Tensor
    scale: torch.Tensor
    zero: torch.Tensor | None
    format: str
    group: Group
    shape: tuple[int, int]
    dtype: torch.dtype

    @property
    def form(self) -> Format:
        """The row of the format."""
        return format_of(self.format)

    @property
    def nbytes(self) -> int:
        """Bytes of the weight, the scales and the zeros."""
        tensors = (self.weight, self.scale, self.zero)
        return sum(t.numel() * t.element_size() for t in tensors if t is not None)

    @property
    def bits(self) -> float:
        """Bits of one weight, with its share of scales and zeros."""
        return 8 * self.nbytes / (self.shape[0] * self.shape[1])

    def integers(self) -> torch.Tensor:
        """The stored numbers q [N, K]: signed integers, or float8."""
        return unpack(self.weight) if self.format == "int4" else self.weight

    def dequantise(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Compute (q - zero) * scale in float32, and round to `dtype`, by default the weight's."""
        groups = split(self.integers().float(), self.group)
        if self.zero is not None:
            groups = groups - spread(self.zero).float()
        return join(groups * spread(self.scale).float(), self.shape).to(dtype or self.dtype)

    def state_dict(self) -> dict[str, Any]:
        """All fields by name, for `torch.save`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Quantised:
        """Undo `state_dict`; raise for a state of something else."""
        names = [f.name for f in fields(cls)]
        if not isinstance(state, Mapping) or sorted(state) != sorted(names):
            raise ArgumentError(
                "this is not the state of a quantised weight",
                got=", ".join(map(str, state)) if isinstance(state, Mapping) else repr(state),
                allowed=", ".join(names),
            )
        return cls(**state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantised):
            return NotImplemented
        mine, theirs = self.state_dict(), other.state_dict()
        return all(_same(mine[name], theirs[name]) for name in mine)


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a is b if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor) else a == b
    alike = a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
    return alike and bool(torch.equal(_bits(a), _bits(b)))


def _bits(x: torch.Tensor) -> torch.Tensor:
    """The bytes: torch compares no float8."""
    return x.contiguous().view(torch.uint8)
