"""The formats of quantised weights, and the granularities of their scales."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from weft.errors import ArgumentError
from weft.quoting import quoted, similar

CHANNEL, TENSOR, BLOCK = "channel", "tensor", "block"
GROUPS = (32, 64, 128)
"""Neighbouring elements of a row that may share a scale."""
SIDE = 128
"""Rows and columns of a block."""
Group = int | str
"""Elements of a row that share a scale, or the word for a channel, a tensor, a block."""


@dataclass(frozen=True)
class Format:
    """A format of quantised weights.

    dtype   of the tensor that stores it
    bits    of one weight
    low     the least number, also of stored integers
    high    the largest number
    """

    name: str
    dtype: torch.dtype
    bits: int
    low: float
    high: float

    @property
    def integer(self) -> bool:
        return not self.dtype.is_floating_point


FORMATS = {
    f.name: f
    for f in (
        Format("int8", torch.int8, 8, -128, 127),
        Format("int4", torch.uint8, 4, -8, 7),
        Format("e4m3", torch.float8_e4m3fn, 8, -448, 448),
        Format("e5m2", torch.float8_e5m2, 8, -57344, 57344),
    )
}


def format_of(name: object) -> Format:
    """Look up a format by its name; raise for an unknown one."""
    if isinstance(name, str) and name in FORMATS:
        return FORMATS[name]
    near = similar(str(name), FORMATS)
    raise ArgumentError(
        "there is no such format of weights",
        got=quoted(name),
        allowed=", ".join(FORMATS),
        next=f"did you mean '{near}'?" if near else "",
    )


def check_group(form: Format, group: object) -> Group:
    """Return the granularity with None as "channel"; raise for one that the format lacks."""
    words = (CHANNEL, TENSOR) if form.integer else (CHANNEL, TENSOR, BLOCK)
    if group is None:
        return CHANNEL
    if isinstance(group, str) and group in words:
        return group
    if isinstance(group, int) and not isinstance(group, bool) and group in GROUPS:
        return group
    raise ArgumentError(
        f"{form.name} weights have no such groups",
        got=f"group={quoted(group)}",
        allowed=", ".join([*map(str, GROUPS), *map(repr, words)]),
        next="blocks are for e4m3 and e5m2" if group == BLOCK else "",
    )
