"""The work of ranks in the tests of `weft train gpt`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from weft.distributed.parallel.buckets import GradientBuckets
from weft.distributed.parallel.failures import named_failures
from weft.distributed.parallel.lost import RankLost
from weft.train.gpt import checkpoint, contenders, loop, text, tokens
from weft.train.gpt.settings import TextSettings
from weft.train.gpt.step import TextStep
from weft.train.parallel import TrainingGroup
from weft.train.step import Parts

CPU = torch.device("cpu")
PROSE = text.Text(b"A warp has 32 lanes. A block has warps; a grid has blocks. " * 9, "a text")
SETTINGS = TextSettings(
    size="1x16", length=8, batch=12, steps=4, warm_up=1, rate=1e-2, clip=0.5, precision="fp32"
)
"""The norm of the gradients is above the limit, so that all steps are limited."""


def training(settings: TextSettings, group: TrainingGroup) -> loop.TextTraining:
    """A training with PyTorch's kernels: the processes are tested here, not the kernels."""
    model = contenders.network(settings, 256, CPU)
    update = torch.optim.AdamW(model.parameters(), settings.rate, contenders.BETAS)
    parts = Parts("PyTorch", model, contenders.gpt2.loss, update)
    step = TextStep(parts, settings, CPU, graph=False, clips=True, group=group)
    windows = text.Windows(PROSE, tokens.Tokens(), settings.length, CPU)
    return loop.TextTraining(step, windows, settings, CPU, group)


def trained(rank: int, world: int, folder: str) -> dict[str, Any]:
    """Losses with several sizes of buckets and parts, and of one that goes on from a checkpoint."""
    group, found = TrainingGroup(rank, world), {}
    for name, change in {
        "one bucket": {},
        "small buckets": {"bucket": 1e-3},
        "accumulated": {"accumulate": 2},
    }.items():
        found[name] = training(replace(SETTINGS, **change), group).run()
    again = training(SETTINGS, group)
    checkpoint.load(again, PROSE, tokens.Tokens(), Path(folder) / "half.pt")
    found["restarted"] = again.run()
    if rank == 0:
        checkpoint.save(again, PROSE, tokens.Tokens(), Path(folder) / f"whole{world}.pt")
    return {name: (history.losses, history.validation) for name, history in found.items()}


def sums(rank: int, world: int) -> dict[str, Any]:
    """Gradients of buckets, those sent before the backward pass had ended, errors."""
    first, second, unused = (torch.nn.Parameter(torch.full((n,), rank + 1.0)) for n in (3, 2, 4))
    buckets = GradientBuckets([first, second, unused], megabytes=12 / 2**20)
    with buckets.reducing():
        ((first * 2).sum() * second.sum() * (rank + 1)).backward()
    found: dict[str, Any] = {
        "grads": [p.grad.tolist() for p in (first, second, unused)],
        "sent": _sent_before_the_end(),
        "count": len(buckets.buckets),
    }
    buckets.broadcast()
    found["broadcast"] = [p.tolist() for p in (first, second, unused)]
    try:
        GradientBuckets([torch.nn.Parameter(torch.zeros(2 + rank % 2))])
    except Exception as error:
        found["error"] = str(error)
    return found


def _sent_before_the_end() -> list[int]:
    """Buckets that are sent when the gradient of the first parameter is computed, the last one."""
    first, second = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    buckets = GradientBuckets([first, second], megabytes=16 / 2**20)
    sent: list[int] = []
    first.register_hook(lambda grad: sent.append(buckets._sent))
    with buckets.reducing():
        ((first * 2) * second).sum().backward()
    return sent


def dies(rank: int, world: int) -> str:
    """The error of the ranks that are left after the last one has ended in its second step."""

    def progress(number: int, loss: float) -> None:
        if rank == world - 1 and number == 2:
            os._exit(9)

    try:
        with named_failures():
            training(SETTINGS, TrainingGroup(rank, world)).run(progress)
    except RankLost as error:
        print(f"said: {error.what}", flush=True)
        os._exit(3)
    return "no error"
