"""Adds up the gradients of all processes while the backward pass still runs.

Parameters are in buckets, the last ones first, since their gradients are ready first (Li et al.,
PyTorch Distributed, 2020). A bucket with all its gradients is sent as one tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

from weft.distributed.parallel.group import described, group_of
from weft.errors import ArgumentError

MEGABYTES = 25.0
"""The default size of a bucket: large enough for the full bandwidth, small enough to overlap."""


class GradientBuckets:
    """The gradients of a model, which `reducing` adds up over all processes.

    parameters  those of the model, in the order of their use
    group       a process group, a device mesh, or None: all processes
    megabytes   the size of a bucket; a larger parameter has a bucket of its own

    A gradient that a rank lacks counts as zeros. The sum is no mean: scale the loss by 1 / world.

    >>> layer = torch.nn.Linear(3, 1)
    >>> buckets = weft.distributed.parallel.GradientBuckets(layer.parameters())
    >>> with buckets.reducing():
    ...     layer(torch.ones(1, 3)).sum().backward()
    >>> print(layer.bias.grad)
    tensor([1.])
    """

    def __init__(
        self, parameters: Iterable[torch.Tensor], group: Any = None, megabytes: float = MEGABYTES
    ) -> None:
        if not 0 < megabytes < float("inf"):
            raise ArgumentError(
                "a bucket of gradients has a positive size",
                got=f"{megabytes} MB",
                allowed="a positive number",
            )
        self.group = group_of(group)
        trained = [p for p in parameters if p.requires_grad]
        self.group.agree("parameters", described(trained))
        self.buckets = [_Bucket(some) for some in _divided(trained[::-1], megabytes * 2**20)]
        self._active, self._sent = False, 0
        self._handles: list[Any] = []
        for bucket in self.buckets:
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(self._noted(bucket))

    def broadcast(self) -> None:
        """Give all ranks the parameters of the first one."""
        if self.group.world == 1:
            return
        source = dist.get_global_rank(self.group.process, 0) if self.group.process else 0
        with torch.no_grad():
            for bucket in self.buckets:
                torch._foreach_copy_(bucket.views, bucket.parameters)
                dist.broadcast(bucket.flat, source, group=self.group.process)
                torch._foreach_copy_(bucket.parameters, bucket.views)

    @contextmanager
    def reducing(self) -> Iterator[None]:
        """Add up gradients during the backward pass inside of the block; then they are complete.

        Backward passes outside of it accumulate gradients of this process alone.
        """
        if self.group.world == 1:
            yield
            return
        self._active, self._sent = True, 0
        for bucket in self.buckets:
            bucket.missing = len(bucket.parameters)
        try:
            yield
        finally:
            self._active = False
        self._send(everything=True)
        for handle in self._handles:
            handle.wait()
        self._handles.clear()

    def _noted(self, bucket: _Bucket) -> Any:
        """The hook of a parameter, called when its gradient is complete."""

        def hook(p: torch.Tensor) -> None:
            if self._active:
                bucket.missing -= 1
                self._send()

        return hook

    def _send(self, everything: bool = False) -> None:
        """Begin to add up buckets that are complete, on all ranks in the same order."""
        for bucket in self.buckets[self._sent :]:
            if bucket.missing > 0 and not everything:
                return
            bucket.fill()
            self._handles.append(
                dist.all_reduce(bucket.flat, group=self.group.process, async_op=True)
            )
            self._sent += 1


class _Bucket:
    """Parameters of one dtype and device, and one tensor for all their gradients.

    missing  parameters whose gradient is not ready in this backward pass
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = list(parameters)
        self.missing = 0
        first = parameters[0]
        sizes = [p.numel() for p in parameters]
        self.flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        self.views = [
            part.view(p.shape) for part, p in zip(self.flat.split(sizes), parameters, strict=True)
        ]

    def fill(self) -> None:
        """Copy the gradients into the tensor; from now on they are parts of it."""
        for p, view in zip(self.parameters, self.views, strict=True):
            if p.grad is None:
                view.zero_()
        present = [
            (v, p) for v, p in zip(self.views, self.parameters, strict=True) if p.grad is not None
        ]
        if present:
            torch._foreach_copy_([v for v, _ in present], [p.grad for _, p in present])
        for p, view in zip(self.parameters, self.views, strict=True):
            p.grad = view


def _divided(parameters: Sequence[torch.Tensor], most: float) -> Iterator[list[torch.Tensor]]:
    """Parameters in order, in parts of one dtype and device and of `most` bytes."""
    part: list[torch.Tensor] = []
    size = 0
    for p in parameters:
        bytes_ = p.numel() * p.element_size()
        kind = p.dtype, p.device
        if part and (size + bytes_ > most or kind != (part[0].dtype, part[0].device)):
            yield part
            part, size = [], 0
        part.append(p)
        size += bytes_
    if part:
        yield part
