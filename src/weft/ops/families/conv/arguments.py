"""Arguments of convolutions: checks, words for padding as numbers; fake results for tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.families.conv.geometry import dense_strides, extents, spread
from weft.quoting import quoted

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PRECISIONS = ("fp32", "tf32")
WORDS = ("valid", "same")


def numbers(
    name: str, padding: Any, taps: Sequence[int], stride: Any, dilation: Any
) -> int | Sequence[int]:
    """Padding as numbers. "same" pads more after than before where the total is odd, as torch."""
    if not isinstance(padding, str):
        return padding  # type: ignore[no-any-return]
    if padding not in WORDS:
        raise ArgumentError(
            f"weft.ops.{name}: unknown padding {padding!r}", allowed='numbers, "valid", "same"'
        )
    if padding == "valid":
        return 0
    if any(step != 1 for step in spread(stride, len(taps))):
        raise ArgumentError(
            f'weft.ops.{name}: padding="same" needs stride 1',
            got=f"stride {stride}",
            next="give padding as numbers",
        )
    both: list[int] = []
    for tap, d in zip(taps, spread(dilation, len(taps)), strict=True):
        total = d * (tap - 1)
        both += [total // 2, total - total // 2]
    return both


def check(
    name: str, dims: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int, precision: str,
) -> None:  # fmt: skip
    """Raise ArgumentError for invalid tensors and options."""
    _check_tensors(name, dims, x, weight, bias)
    check_options(name, dims, stride, padding, dilation, groups, precision)
    channels = x.shape[-dims - 1]
    if channels != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ArgumentError(
            f"weft.ops.{name}: input and weight have incompatible channels",
            got=f"input {list(x.shape)}, weight {list(weight.shape)}, groups {groups}",
            allowed="input with groups * weight.shape[1] channels, "
            "weight.shape[0] a multiple of groups",
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ArgumentError(
            f"weft.ops.{name}: bias has shape {tuple(bias.shape)}, expected {(weight.shape[0],)}",
            allowed="one number for each filter",
        )
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    out = extents(x.shape[-dims:], weight.shape[2:], options)
    if any(size < 1 for size in out) or 0 in tuple(weight.shape[1:]) or 0 in tuple(x.shape[-dims:]):
        raise ArgumentError(
            f"weft.ops.{name}: the filter is larger than the padded input, or empty",
            got=f"input {list(x.shape)}, weight {list(weight.shape)}, padding {padding}, "
            f"dilation {dilation}",
            allowed="dilation * (taps - 1) + 1 <= input + padding, in each dimension",
        )


def _check_tensors(name: str, dims: int, x: Any, weight: Any, bias: Any) -> None:
    shape = "N, C, L" if dims == 1 else "N, C, H, W"
    if x.dim() not in (dims + 1, dims + 2) or weight.dim() != dims + 2:
        raise ArgumentError(
            f"weft.ops.{name}: input or weight has a wrong number of dimensions",
            got=f"input {list(x.shape)}, weight {list(weight.shape)}",
            allowed=f"input [{shape}] or without N, weight [K, C / groups, taps]",
        )
    for which, tensor in (("input", x), ("weight", weight), ("bias", bias)):
        if tensor is not None and (tensor.dtype not in DTYPES or tensor.dtype is not x.dtype):
            raise ArgumentError(
                f"weft.ops.{name}: {which} has an unsupported dtype",
                got=f"{tensor.dtype}, with input {x.dtype}",
                allowed="float32, float16 or bfloat16, the same for all",
                next=f"convert it: {which}.to(input.dtype)",
            )


def check_options(
    name: str, dims: int, stride: Any, padding: Any, dilation: Any, groups: int, precision: str
) -> None:
    """Raise ArgumentError for invalid options."""
    rows = (
        ("stride", stride, 1, (1, dims)),
        ("dilation", dilation, 1, (1, dims)),
        ("padding", padding, 0, (1, dims, 2 * dims)),
    )
    for option, value, least, lengths in rows:
        values = (value,) if isinstance(value, int) else tuple(value)
        if len(values) not in lengths or any(v < least for v in values):
            raise ArgumentError(
                f"weft.ops.{name}: {option} is invalid",
                got=quoted(value),
                allowed=f"{' or '.join(map(str, sorted(set(lengths))))} numbers, at least {least}",
            )
    if groups < 1:
        raise ArgumentError(f"weft.ops.{name}: groups must be at least 1, got {groups}")
    if precision not in PRECISIONS:
        raise ArgumentError(
            f"weft.ops.{name}: unknown precision {precision!r}",
            allowed=", ".join(map(repr, PRECISIONS)),
        )


# ---- results without values, for tracing --------------------------------------------------------
def has_last(x: Any) -> bool:
    """True if a tensor has the channels last, as job.py decides it from its layout."""
    if x.dim() != 4 or x.is_contiguous():
        return False
    return bool(x.is_contiguous(memory_format=torch.channels_last))


def empty(like: Any, size: tuple[Any, ...], last: bool) -> Any:
    """An empty tensor of this size; `last`: its channels are innermost."""
    return (
        like.new_empty_strided(size, dense_strides(size, last=last))
        if last
        else like.new_empty(size)
    )


def fake(
    name: str, dims: int, x: Any, weight: Any, bias: Any = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1, precision: str = "fp32",
) -> Any:  # fmt: skip
    """The result of a forward pass; raise ArgumentError for invalid arguments."""
    check(name, dims, x, weight, bias, stride, padding, dilation, groups, precision)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    out = extents(x.shape[-dims:], weight.shape[2:], options)
    batched = x.dim() == dims + 2
    last = batched and (has_last(x) or has_last(weight))
    return empty(x, (*(x.shape[:1] if batched else ()), weight.shape[0], *out), last)
