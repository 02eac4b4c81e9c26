"""Pipeline parallelism on weft's layers: each process has some of the layers.

    torchrun --nproc-per-node 2 examples/pipeline.py     two stages
    python examples/pipeline.py                          one process, the same losses

A batch is divided into parts. A stage computes a part's forward pass, sends the result to the next
stage, and later gets its gradient back. The order is "one forward, one backward" (1F1B; Narayanan
et al., PipeDream, 2019): after a few forward passes, each is followed by the backward pass of the
oldest part. A stage therefore keeps activations of as many parts as stages follow, plus one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import torch
import torch.distributed as dist

import weft

WIDTH, CLASSES, LAYERS = 16, 4, 4
BATCH, PARTS, STEPS = 8, 4, 3


def schedule(stage: int, stages: int, parts: int) -> Iterator[tuple[str, int]]:
    """The passes of a stage in order: ("forward", part) and ("backward", part)."""
    ahead = min(stages - stage - 1, parts)
    for part in range(ahead):
        yield "forward", part
    for part in range(parts - ahead):
        yield "forward", part + ahead
        yield "backward", part
    for part in range(parts - ahead, parts):
        yield "backward", part


class Stage:
    """Some layers of a network, between the processes before and after this one.

    kept  inputs and results of parts whose backward pass is still to come
    most  the largest number of them
    """

    def __init__(self, layers: torch.nn.Module, stage: int, stages: int) -> None:
        self.layers, self.stage, self.stages = layers, stage, stages
        self.first, self.last = stage == 0, stage == stages - 1
        self.loss = weft.nn.CrossEntropyLoss()
        self.kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.most = 0
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []

    def step(self, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Both passes of all parts; the last stage returns the loss of the batch, others 0."""
        total = torch.zeros(())
        batches = list(zip(inputs.chunk(PARTS), target.chunk(PARTS), strict=True))
        for kind, part in schedule(self.stage, self.stages, PARTS):
            if kind == "forward":
                total += self.forward(part, *batches[part])
            else:
                self.backward(part)
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        return total

    def forward(self, part: int, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if not self.first:
            x = torch.empty(len(target), WIDTH)
            dist.recv(x, self.stage - 1)
            x.requires_grad_()
        y = self.layers(x)
        if self.last:
            y = self.loss(y, target) / PARTS
        else:
            self.send(y.detach(), self.stage + 1)
        self.kept[part] = x, y
        self.most = max(self.most, len(self.kept))
        return y.detach() if self.last else torch.zeros(())

    def backward(self, part: int) -> None:
        x, y = self.kept.pop(part)
        grad = None
        if not self.last:
            grad = torch.empty_like(y)
            dist.recv(grad, self.stage + 1)
        y.backward(grad)
        if not self.first:
            self.send(x.grad, self.stage - 1)

    def send(self, tensor: torch.Tensor, to: int) -> None:
        """Begin to send; the tensor is kept until it has arrived."""
        self.sending.append((dist.isend(tensor, to), tensor))


def network() -> torch.nn.Sequential:
    """The whole network; equal seeds give equal weights."""
    torch.manual_seed(0)
    inner = [m for _ in range(LAYERS - 1) for m in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())]
    return torch.nn.Sequential(*inner, torch.nn.Linear(WIDTH, CLASSES))


def train(stage: int, stages: int) -> tuple[list[float], int]:
    """Train this process's stage; return the losses and how many parts it kept at most."""
    layers = list(network())
    size = -(-len(layers) // stages)
    mine = weft.nn.convert(torch.nn.Sequential(*layers[stage * size : (stage + 1) * size]))
    runner = Stage(mine, stage, stages)
    update = weft.optim.SGD(mine.parameters(), lr=0.5)
    torch.manual_seed(1)
    inputs, target = torch.randn(BATCH, WIDTH), torch.randint(CLASSES, (BATCH,))
    losses = []
    for _ in range(STEPS):
        losses.append(float(runner.step(inputs, target)))
        update.step()
        update.zero_grad()
    return losses, runner.most


def main() -> None:
    stages = int(os.environ.get("WORLD_SIZE", "1"))
    if stages > 1:
        dist.init_process_group("gloo")
    stage = dist.get_rank() if stages > 1 else 0
    losses, most = train(stage, stages)
    if stage == stages - 1:
        print("losses", *(f"{loss:.4f}" for loss in losses))
    print(f"stage {stage}: at most {most} parts were kept")
    if stages > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
