"""Dropout inside fused functions.

While a function is traced, `dropout` becomes a product with a mask: an operation without operands,
whose elements are 0 or 1 / (1 - p). A kernel computes them where it needs them, so they are never
in memory, and the backward pass computes them again. The random numbers are those of
`weft.ops.dropout`: a mask has the number of its call in the function, by which forward and
backward pass agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.fx import Node
from torch.overrides import TorchFunctionMode

from weft.ops.core import source
from weft.ops.core.layouts import divisor
from weft.ops.core.target import target
from weft.ops.families.random.dropout import check_probability, scale_of, threshold
from weft.ops.families.random.start import Start, start
from weft.ops.families.random.threads import blocks

Starts = Mapping[int, Start]
"""The offset of each mask's random numbers, by its number."""

_LIBRARY = torch.library.Library("weft", "FRAGMENT")
_LIBRARY.define(
    "fused_mask(int[] size, float p, int number, ScalarType dtype, Device device) -> Tensor"
)


_LIBRARY.define(
    "recorded_mask(Tensor state, int[] size, float p, ScalarType dtype, Device device) -> Tensor"
)


@torch.library.register_fake("weft::recorded_mask", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _fake_recorded(state: Any, size: Any, p: float, dtype: Any, device: Any) -> Any:
    return torch.empty(size, dtype=dtype, device=device)


@torch.library.register_fake("weft::fused_mask", lib=_LIBRARY)  # type: ignore[untyped-decorator]
def _fake(size: Any, p: float, number: int, dtype: Any, device: Any) -> Any:
    return torch.empty(size, dtype=dtype, device=device)


class Dropouts(TorchFunctionMode):  # type: ignore[misc]
    """Replace the calls of dropout by products with masks; `count` has their number."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.nn.functional.dropout:
            return self._functional(func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _functional(
        self, func: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        check_probability("weft.fuse: dropout", p)
        if not training or p == 0 or not input.numel() or input.dtype not in source.CTYPES:
            return func(input, p, training, inplace)
        number = self.count
        self.count += 1
        mask = torch.ops.weft.fused_mask(input.shape, p, number, input.dtype, input.device)
        return input.mul_(mask) if inplace else input * mask


class Mask(NamedTuple):
    """A mask of a graph.

    group  elements that share a subsequence of random numbers; see cuda/mask.cuh
    """

    number: int
    n: int
    p: float
    group: int
    device: torch.device

    @property
    def numbers(self) -> tuple[int, int, int, int, float]:
        """The last arguments: blocks and how to divide by them, the threshold and the scale."""
        count = blocks(self.n, target(self.device))
        magic, shift = divisor(count, 32)
        signed = magic - (1 << 32) if magic >> 31 else magic
        return count, signed, shift, min(threshold(self.p), 2**32 - 1), scale_of(self.p)


def is_mask(node: Node) -> bool:
    return node.target is torch.ops.weft.fused_mask.default or is_recorded(node)


def is_recorded(node: Node) -> bool:
    """True for a mask whose random numbers start where a tensor of the graph says."""
    return node.target is torch.ops.weft.recorded_mask.default


def states_of(masks: Iterable[Node]) -> list[Node]:
    """The tensors with the starts of recorded masks."""
    return [m.all_input_nodes[0] for m in masks if is_recorded(m)]


def mask_of(node: Node) -> Mask:
    """The mask that a node of a graph computes."""
    if is_recorded(node):
        _, _, p, dtype, device = node.args
        number: Any = -1  # no start of a call
    else:
        _, p, number, dtype, device = node.args
    n = int(node.meta["val"].numel())
    return Mask(int(number), n, float(p), max(4, 16 // dtype.itemsize), torch.device(device))


def drawn(masks: list[Mask]) -> Starts:
    """New starts for masks, in the order of their calls; moves torch's generator."""
    ordered = sorted(set(masks), key=lambda m: m.number)
    return {m.number: start("dropout", m.n, m.device) for m in ordered}
