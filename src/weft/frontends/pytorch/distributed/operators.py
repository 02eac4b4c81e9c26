"""Registers the collectives as torch's operators.

PyTorch's Python and C++ code, DDP and functional collectives included, calls the operators
`c10d::*`. Their implementations for the CPU are replaced.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from weft.frontends.pytorch import operations
from weft.frontends.pytorch.distributed import communicator
from weft.frontends.pytorch.distributed.collectives import COLLECTIVES
from weft.frontends.pytorch.distributed.communicator import Call, Communicator
from weft.frontends.pytorch.distributed.reductions import Reduction
from weft.frontends.pytorch.distributed.transport import transport

_open: dict[str, Communicator] = {}
"""Name of a group -> its communicator."""

_libraries: list[Any] = []
"""The registrations, which end with their object."""


def install() -> None:
    """Register the collectives for CPU tensors, once."""
    if _libraries:
        return
    library = torch.library.Library("c10d", "IMPL")
    _libraries.append(library)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for name, function in COLLECTIVES.items():
            if not hasattr(torch.ops.c10d, name):
                continue
            implementation = _kernel(getattr(torch.ops.c10d, name).default, function)
            library.impl(name, implementation, "CPU")
            if name == "allreduce_":
                library.impl(name, implementation, "SparseCPU")
    # C++ code waits for functional collectives.
    operations.after[torch.ops._c10d_functional.wait_tensor.default] = communicator.raise_failure


def close(group: Any = None) -> None:
    """Forget a group that the script destroys; None means all."""
    for name in list(_open) if group is None else [group.group_name]:
        if name in _open:
            _open.pop(name).close()


def _of(group: Any) -> Communicator:
    """The communicator of a group; a group that came after a destroyed one has its own."""
    known = _open.get(group.group_name)
    if known is None or known.gloo is not transport(group):
        known = _open[group.group_name] = Communicator(group)
    return known


def _kernel(operator: Any, function: Callable[..., tuple[Call, Callable[[], None]]]) -> Any:
    """An implementation of an operator: arguments by name, and the results of its schema."""
    names = [argument.name for argument in operator._schema.arguments]
    returns = [str(value.type) for value in operator._schema.returns]

    def called(*args: Any, **options: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **options}
        group = _of(c10d.ProcessGroup.unbox(given.pop("process_group")))
        asynchronous = given.pop("async_op", True)
        if "reduce_op" in given:
            given["reduce_op"] = Reduction(given["reduce_op"].op(), group.nccl)
        call, body = function(group, **given)
        work = group.run(call, body, _tensors(args[0]), asynchronous and bool(returns))
        if not returns:
            return None
        return work.boxed() if len(returns) == 1 else (args[0], work.boxed())

    return called


def _tensors(value: Any) -> list[Any]:
    """A tensor, or those of nested lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)]
