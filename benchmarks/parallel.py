"""Times steps of networks over several GPUs: plain PyTorch on each, and divided by weft.

    python benchmarks/parallel.py [--network llama] [--size 1b] [--batch 1] [--length 2048]
    torchrun --nproc-per-node 8 benchmarks/parallel.py --record

A step is the loss and all gradients, in bfloat16. `PyTorch` is the whole network on one GPU, where
it fits; the others are `weft.distributed.parallel.parallelise` over all processes. With one process
they show the cost of the divided form. A figure is the median of the steps, by CUDA events.
`--device cpu` runs the script on the simulated GPU, to test it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.distributed as dist
import typer

from weft.distributed import parallel
from weft.networks.network import network

RECORDS = Path(__file__).with_name("records") / "parallel.jsonl"


def main(
    name: Annotated[str, typer.Option("--network", help="llama or gpt2.")] = "llama",
    size: Annotated[str, typer.Option(help="A size of the network.")] = "1b",
    batch: Annotated[int, typer.Option(help="Sequences of a step.")] = 1,
    length: Annotated[int, typer.Option(help="Tokens of a sequence.")] = 2048,
    steps: Annotated[int, typer.Option(help="Steps that are timed.", min=1)] = 20,
    device: Annotated[str, typer.Option(help="cuda, or cpu to test the script.")] = "cuda",
    plain: Annotated[bool, typer.Option(help="Time PyTorch on one GPU, too.")] = True,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time a step in each form; the first process prints."""
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    place = torch.device(device, int(os.environ.get("LOCAL_RANK", "0")) if device == "cuda" else 0)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if world > 1:
        dist.init_process_group("cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo")
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    seconds: dict[str, float] = {}
    for form in ("PyTorch", "divided", "divided by sequence"):
        if form == "PyTorch" and not plain:
            continue
        seconds[form] = _median(
            _step(form, name, size, (batch, length), place, dtype), steps, place
        )
    done: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "network": name, "size": size, "batch": batch, "length": length, "world": world,
        "seconds": seconds,
    }  # fmt: skip
    if rank == 0:
        print(json.dumps(done, indent=2))
        if record:
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done) + "\n")
    if world > 1:
        dist.destroy_process_group()


def _step(
    form: str, name: str, size: str, shape: tuple[int, int], place: torch.device, dtype: torch.dtype
) -> Callable[[], None]:
    """The loss and all gradients of a network in one form."""
    net = network(name, size, device=place)
    data = net.batch(*shape, device=place)
    model: Any = net.module.to(dtype)
    if form == "PyTorch":
        loss = lambda: net.loss(model(*data.inputs), data.target)  # noqa: E731
    else:
        model = parallel.parallelise(model, sequence="sequence" in form, check=False)
        loss = lambda: model.loss(data.inputs[0], data.target)  # noqa: E731

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss().backward()

    return step


def _median(step: Callable[[], None], steps: int, place: torch.device) -> float:
    """The seconds of a step, after three to warm up on a GPU and one on the simulated one."""
    found = []
    for _ in range(steps + (3 if place.type == "cuda" else 1)):
        if place.type == "cpu":
            begin = time.perf_counter()
            step()
            found.append(time.perf_counter() - begin)
            continue
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record()
        step()
        events[1].record()
        torch.cuda.synchronize(place)
        found.append(events[0].elapsed_time(events[1]) / 1e3)
    return statistics.median(found[-steps:])


if __name__ == "__main__":
    typer.run(main)
