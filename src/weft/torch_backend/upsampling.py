"""Nearest-neighbour upsampling by whole factors: a copy whose gradient is a sum.

PyTorch's own formula gathers pixels by their indices, so that its gradient adds them one by one.
"""

from __future__ import annotations

from typing import Any

MODES = ("nearest", "nearest-exact")
FACTORS = (1, 2, 4, 8, 16)
"""Powers of two: the product of a pixel's place and 1 / factor is exact."""


def interpolate(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False,
) -> Any:  # fmt: skip
    """Repeat the pixels of images, as torch.nn.functional.interpolate; their order stays."""
    down, across = _factors(input, size, scale_factor)
    n, c, h, w = input.shape
    last = input.permute(0, 2, 3, 1)
    if last.is_contiguous() and not input.is_contiguous():
        each = last[:, :, None, :, None].expand(n, h, down, w, across, c)
        return each.reshape(n, h * down, w * across, c).permute(0, 3, 1, 2)
    each = input[:, :, :, None, :, None].expand(n, c, h, down, w, across)
    return each.reshape(n, c, h * down, w * across)


def lacks(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False,
) -> str:  # fmt: skip
    """The reason to leave a call to PyTorch; "" if there is none."""
    if mode not in MODES or antialias or align_corners is not None:
        return f"mode={mode!r}"
    if input.dim() != 4:
        return f"{input.dim()} dimensions"
    if recompute_scale_factor or any(f not in FACTORS for f in _factors(input, size, scale_factor)):
        return "sizes that are no power of two times as large"
    return ""


def _factors(input: Any, size: Any, scale_factor: Any) -> tuple[int, int]:
    """The copies of each row and of each column; 0 if that is no whole number."""
    given = scale_factor if size is None else size
    both = list(given) if isinstance(given, list | tuple) else [given, given]
    if size is not None:
        both = [_quotient(a, b) for a, b in zip(both, input.shape[2:], strict=True)]
    down, across = (int(f) if isinstance(f, int | float) and int(f) == f else 0 for f in both)
    return down, across


def _quotient(size: Any, before: Any) -> int:
    whole = isinstance(size, int) and isinstance(before, int)
    return size // before if whole and size % before == 0 else 0
