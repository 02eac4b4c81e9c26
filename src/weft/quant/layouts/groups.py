"""The size of groups in a quantization_config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import ArgumentError


def group_size(facts: Mapping[str, Any], where: str, *names: str) -> int:
    """Return the columns that share a scale, -1 for all; raise for what is no number of columns.

    names  the keys that may have it, the first one first; without them it is 128
    """
    found = next((facts[name] for name in names if name in facts), 128)
    if type(found) is not int or (found < 1 and found != -1):
        raise ArgumentError(
            "the size of a group is not a number of columns",
            where=f"{where}: {names[0]}", got=repr(found), allowed="-1, 32, 64, 128, …",
        )  # fmt: skip
    return found
