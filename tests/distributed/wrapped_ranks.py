"""What the ranks of the tests of DDP and FSDP do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import draw
import weft

STEPS, ROWS = 3, 4


def model() -> torch.nn.Sequential:
    """Layers that `weft.nn` has, with weights that are the same on every CPU."""
    made = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4)
    )
    for i, p in enumerate(made.parameters()):
        with torch.no_grad():
            p.copy_(draw.seeded(i).normal(*p.shape) * 0.3)
    return made


def compiled(made: Any) -> Any:
    return torch.compile(made, backend="weft")


def sharded(made: Any) -> Any:
    """FSDP2: each layer with weights for itself, then the model."""
    for layer in made:
        if list(layer.parameters()):
            fully_shard(layer)
    return fully_shard(made)


def sharded_then_compiled(made: Any) -> Any:
    return compiled(sharded(made))


WAYS: dict[str, Callable[[Any], Any]] = {
    "weft.nn, DDP": lambda made: DistributedDataParallel(weft.nn.convert(made)),
    "weft.nn, FSDP": lambda made: sharded(weft.nn.convert(made)),
    "compiled, DDP": lambda made: compiled(DistributedDataParallel(made)),
    "compiled, FSDP": sharded_then_compiled,
}
"""How a model is converted and divided."""
OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "torch": lambda parameters: torch.optim.AdamW(parameters, lr=0.05),
    "weft": lambda parameters: weft.optim.AdamW(parameters, lr=0.05, max_grad_norm=0.5),
}


def trained(run: Any, made: Any, optimiser: Any, rows: slice) -> list[Any]:
    """Losses of steps on some rows of each batch, then the whole parameters."""
    losses = []
    for step in range(STEPS):
        x = draw.seeded(10 + step).normal(ROWS, 8).to(next(made.parameters()).dtype)[rows]
        loss = run(x).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    return losses + [getattr(p, "full_tensor", lambda p=p: p)() for p in made.parameters()]


def expected(limited: bool) -> list[Any]:
    """The same by one process with the whole batch, in float64."""
    made = model().double()
    optimiser = torch.optim.AdamW(made.parameters(), lr=0.05)
    if limited:
        step = optimiser.step

        def limit_and_step() -> None:
            torch.nn.utils.clip_grad_norm_(made.parameters(), 0.5)
            step()

        optimiser.step = limit_and_step
    return trained(made, made, optimiser, slice(None))


def compare(rank: int, world: int, way: str, optimiser: str) -> None:
    """Train in one way; losses are the mean over ranks."""
    torch._dynamo.reset()
    made = model()
    run = WAYS[way](made)
    part = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
    found = trained(run, made, OPTIMISERS[optimiser](made.parameters()), part)
    losses = torch.tensor(found[:STEPS])
    torch.distributed.all_reduce(losses)
    exact = expected(limited=optimiser == "weft")
    torch.testing.assert_close(losses.double() / world, torch.tensor(exact[:STEPS]).double(),
                               rtol=1e-4, atol=1e-5)  # fmt: skip
    for ours, theirs in zip(found[STEPS:], exact[STEPS:], strict=True):
        torch.testing.assert_close(ours.detach().double(), theirs.detach(), rtol=1e-3, atol=1e-4)


def every_way(rank: int, world: int, ways: list[str]) -> dict[str, str]:
    """Errors by way and optimiser; empty texts where there are none."""
    found = {}
    for way in ways:
        for optimiser in OPTIMISERS:
            compare(rank, world, way, optimiser)
            found[f"{way}, {optimiser}"] = "equal"
    return found
