"""The Gloo backend of a process group, which moves what the ranks send each other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

_LET_GO = 5.0
"""Seconds in which a thread of Gloo gets to let go of tensors."""


def transport(group: Any) -> Any:
    """The Gloo backend of a group."""
    return group._get_backend(torch.device("cpu"))


def transfer(begin: Callable[..., Any], *arguments: Any) -> None:
    """Run a collective of Gloo, with tensors that only it and this function hold.

    A thread of Gloo lets go of them after it has said that it is done, and takes Python's lock for
    that. If the process exits at that moment, it aborts; so this function waits.
    """
    held: list[Any] = []

    def alias(value: Any) -> Any:
        if isinstance(value, list):
            return [alias(element) for element in value]
        if isinstance(value, torch.Tensor) and not value.is_sparse:  # Gloo replaces sparse values
            held.append(value.detach())
            return held[-1]
        return value

    taken = [alias(value) for value in arguments]
    references = [sys.getrefcount(tensor) for tensor in held]
    try:
        c10d.Work.wait(begin(*taken))  # torch's own wait, which raises no other's failure
    finally:
        deadline = time.monotonic() + _LET_GO
        while (
            any(tensor._use_count() > 1 for tensor in held)
            or [sys.getrefcount(tensor) for tensor in held] != references
        ) and time.monotonic() < deadline:
            time.sleep(0)
