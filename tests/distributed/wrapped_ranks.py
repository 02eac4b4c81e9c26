"""The work of ranks in the tests of DDP and FSDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.tensor
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import draw
import weft
from weft.torch_backend import reports

STEPS, ROWS = 3, 4


class Net(torch.nn.Module):  # type: ignore[misc]
    """Layers that `weft.nn` has; torch.compile compiles a class of the user's, not torch.nn's."""

    def __init__(self) -> None:
        super().__init__()
        self.block: Any = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU()
        )
        self.head: Any = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(self.block(x))


def model() -> Net:
    """The network with weights that are the same on every CPU."""
    made = Net()
    for i, p in enumerate(made.parameters()):
        with torch.no_grad():
            p.copy_(draw.seeded(i).normal(*p.shape) * 0.3)
    return made


def compiled(made: Any) -> Any:
    return torch.compile(made, backend="weft")


def sharded(made: Any) -> Any:
    """FSDP2: each block for itself, then the model."""
    for block in (made.block, made.head):
        fully_shard(block)
    return fully_shard(made)


def blocks_compiled(made: Any) -> Any:
    """Compile each block: FSDP's hooks, which run between blocks, end a graph."""
    made.block, made.head = compiled(made.block), compiled(made.head)
    return made


WAYS: dict[str, Callable[[Any], Any]] = {
    "weft.nn, DDP": lambda made: DistributedDataParallel(weft.nn.convert(made)),
    "weft.nn, FSDP": lambda made: sharded(weft.nn.convert(made)),
    "compiled, DDP": lambda made: compiled(DistributedDataParallel(made)),
    "compiled, FSDP": lambda made: sharded(blocks_compiled(made)),
}
"""The conversion and the division of a model."""
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
    before = len(reports())
    made = model()
    run = WAYS[way](made)
    part = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
    found = trained(run, made, OPTIMISERS[optimiser](made.parameters()), part)
    graphs = len(reports()) - before
    assert (graphs > 0) == way.startswith("compiled"), f"{way}: {graphs} graphs by weft"
    losses = torch.tensor(found[:STEPS])
    torch.distributed.all_reduce(losses)
    exact = expected(limited=optimiser == "weft")
    torch.testing.assert_close(
        losses.double() / world, torch.tensor(exact[:STEPS]).double(), rtol=1e-4, atol=1e-5
    )
    for ours, theirs in zip(found[STEPS:], exact[STEPS:], strict=True):
        torch.testing.assert_close(ours.detach().double(), theirs.detach(), rtol=1e-3, atol=1e-4)


def every_way(rank: int, world: int) -> list[str]:
    """Compare all ways with both optimisers; return those that were compared."""
    done = []
    for way in WAYS:
        for optimiser in OPTIMISERS:
            compare(rank, world, way, optimiser)
            done.append(f"{way}, {optimiser}")
    return done


def norms(rank: int, world: int) -> dict[str, Any]:
    """Norms of gradients that are divided over ranks, scaled ones, states, and refusals."""
    made = sharded(model())
    made(draw.seeded(10).normal(ROWS, 8)).square().mean().backward()
    whole = [p.grad.full_tensor().double() for p in made.parameters()]
    found: dict[str, Any] = {}
    for order in (2.0, 1.0, float("inf")):
        exact = torch.linalg.vector_norm(torch.cat([g.flatten() for g in whole]), order)
        ours = weft.optim.clip_grad_norm_(made.parameters(), 1e9, order)
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=1e-6)
    weft.optim.clip_grad_norm_(made.parameters(), 0.25)
    scaled = torch.cat([p.grad.full_tensor().double().flatten() for p in made.parameters()])
    found["norm"] = float(scaled.norm())
    optimiser = weft.optim.AdamW(made.parameters())
    optimiser.step()
    found["states"] = {type(s["exp_avg"]).__name__ for s in optimiser.state.values()}
    try:
        weft.optim.AdamW(made.parameters(), state_bits=8).step()
    except weft.ArgumentError as error:
        found["8 bits"] = str(error)
    first = next(made.parameters())
    partial = [torch.distributed.tensor.Partial()]
    first.grad = torch.distributed.tensor.DTensor.from_local(
        first.grad.full_tensor(), first.device_mesh, partial
    )
    try:
        weft.optim.clip_grad_norm_([first], 1.0)
    except weft.ArgumentError as error:
        found["partial"] = str(error)
    return found
