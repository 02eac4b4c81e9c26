"""Checks of arguments that ops of several families share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.ops.core.source import CTYPES


def check_dtype(
    op: str, name: str, tensor: Any, allowed: Iterable[torch.dtype] = CTYPES, next: str = ""
) -> None:
    """Raise unless a tensor, the argument `name` of an op, has one of these dtypes."""
    if tensor.dtype not in allowed:
        raise ArgumentError(
            f"weft.ops.{op}: '{name}' has a dtype that no kernel takes",
            got=str(tensor.dtype),
            allowed=", ".join(str(d).removeprefix("torch.") for d in allowed),
            next=next,
        )


def check_dim(op: str, rank: int, dim: int) -> None:
    """Raise unless a tensor of this rank has the dimension."""
    if not -rank <= dim < rank:
        raise ArgumentError(
            f"weft.ops.{op}: there is no such dimension",
            got=f"dim {dim} of {rank} dimensions",
            allowed=f"{-rank} to {rank - 1}" if rank else "none: a number has no dimensions",
        )


def common_device(op: str, tensors: Mapping[str, Any]) -> torch.device:
    """The common device of all tensors; raises if there is none."""
    there = {n: t.device for n, t in tensors.items() if t is not None}
    first = next(iter(there.values()))
    for name, tensor in tensors.items():
        if tensor is not None and tensor.layout is not torch.strided:
            raise ArgumentError(
                f"weft.ops.{op}: {name} is not a dense tensor",
                got=str(tensor.layout),
                allowed="torch.strided",
                next="x.to_dense()",
            )
    if len(set(there.values())) > 1 or first.type not in ("cpu", "cuda"):
        raise ArgumentError(
            f"weft.ops.{op}: the tensors must be on one device",
            got=", ".join(f"{n} on {d}" for n, d in there.items()),
            allowed="all on the CPU (simulated GPU), or all on one CUDA device",
            next="move them: x.to(y.device)",
        )
    return first


_WRONG_TYPE = re.compile(r"Expected a value of type '.+?' for argument '(\w+)'")
"""The words of torch's dispatcher for an argument that does not fit an op's schema."""
_PLAIN_TYPES = {
    "Tensor": "a tensor",
    "List[Tensor]": "a list of tensors",
    "List[int]": "a list of integers",
    "List[bool]": "a list of booleans",
    "int": "an integer",
    "float": "a number",
    "bool": "True or False",
    "str": "a string",
}


def wrong_type(
    op: str, arguments: Sequence[tuple[Any, Any]], error: Exception
) -> ArgumentError | None:
    """The error for an argument of a wrong type, if one made a call fail with `error`.

    arguments  each argument of the schema with its value
    """
    refused = _WRONG_TYPE.search(str(error))
    for argument, value in arguments:
        wanted = str(argument.type)
        is_wrong = refused is not None and refused[1] == argument.name
        if wanted == "Tensor" or (wanted == "Optional[Tensor]" and value is not None):
            is_wrong = not isinstance(value, torch.Tensor)
        if is_wrong:
            return _wrong(op, argument.name, wanted, value)
    return None


def _wrong(op: str, name: str, wanted: str, value: Any) -> ArgumentError:
    optional = wanted.startswith("Optional[")
    wanted = wanted.removeprefix("Optional[").removesuffix("]") if optional else wanted
    text = repr(value)
    return ArgumentError(
        f"weft.ops.{op}: '{name}' has a wrong type",
        got=f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})",
        allowed=_PLAIN_TYPES.get(wanted, wanted) + (" or None" if optional else ""),
    )
