"""Train a small model on two processes with DistributedDataParallel: eager, and by the backend.

`python ddp.py STORE` is the second process; the first one calls `compare`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import draw
from limits import PROCESS_SECONDS
from weft.torch_backend import compile_graph, reports

STEPS = 2
BUCKET = 256
"""Bytes of gradients that are sent together: those of the last layer, then the others."""


class Net(nn.Module):  # type: ignore[misc]
    """A layer, a norm with running statistics, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)
        for i, p in enumerate(self.parameters()):
            with torch.no_grad():
                p.copy_(draw.seeded(i).normal(*p.shape) * 0.3)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.norm(self.up(x))))


def _compiled(model: Any) -> Any:
    return torch.compile(model, backend=compile_graph)


def _in_buckets(model: Any) -> Any:
    """Compiled with several buckets of gradients, between which PyTorch divides the graph."""
    return _compiled(DistributedDataParallel(model, bucket_cap_mb=BUCKET / 2**20))


WAYS: dict[str, Callable[[Any], Any]] = {
    "inside": lambda model: DistributedDataParallel(_compiled(model)),
    "outside, in buckets": _in_buckets,
}
"""The ways to make a model parallel and to compile it."""


def _trained(rank: int, way: Callable[[Any], Any]) -> list[Any]:
    """The gradients of each step, then the buffers."""
    model = Net()
    run = way(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(STEPS):
        optimiser.zero_grad()
        run(draw.seeded(10 * rank + step).normal(6, 8)).square().mean().backward()
        found += [p.grad.clone() for p in model.parameters()]
        optimiser.step()
    return [*found, *model.buffers()]


def compare(rank: int, store: str) -> dict[str, int]:
    """Compare all ways with eager PyTorch; return how many forward graphs each one has."""
    first = torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
    limit = timedelta(seconds=PROCESS_SECONDS)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=limit
    )
    graphs = {}
    try:
        expected = _trained(rank, DistributedDataParallel)
        for name, way in WAYS.items():
            torch._dynamo.reset()
            before = len(reports())
            found = _trained(rank, way)
            for ours, torchs in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-5)
            graphs[name] = sum(r.kind == "forward" for r in reports()[before:])
            # PyTorch refuses buckets that are smaller than the first one.
            torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = BUCKET
    finally:
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = first
        torch.distributed.destroy_process_group()
    return graphs


if __name__ == "__main__":
    compare(1, sys.argv[1])
