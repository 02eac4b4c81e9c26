"""Times a training step of MNIST's network on a GPU: weft and PyTorch, from the same weights.

    python benchmarks/train_mnist.py [--batches 64,256] [--peers graph,eager,compile,overhead]
                                     [--data DIR] [--record FILE.jsonl] [--kernels]

A figure is the mean of 100 steps after warm-up, for images in the GPU's memory and for images in
host memory. `--kernels` lists the kernels of an eager step of weft. `--data` also trains an epoch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from weft.ops.sweep import gpu
from weft.train import contenders, data, loop

STEPS, WARM_UP = 100, 20
NAMES = {
    "eager": "PyTorch", "compile": "PyTorch, torch.compile",
    "overhead": "PyTorch, reduce-overhead", "graph": "PyTorch, CUDA graph",
}  # fmt: skip
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _make(name: str, settings: loop.Settings) -> tuple[Any, loop.Settings]:
    if name == "weft":
        return contenders.own_parts(settings, DEVICE), settings
    make, graph = contenders.PEERS[NAMES[name]]
    settings = replace(settings, graph=graph)
    return make(settings, DEVICE), settings


def _repeated(found: data.Mnist, count: int) -> data.Mnist:
    """At least so many training images."""
    import numpy as np

    times = -(-count // len(found.training))
    images = np.concatenate([found.training.images] * times)
    labels = np.concatenate([found.training.labels] * times)
    return replace(found, training=data.Digits(images, labels))


def _step(name: str, batch: int, host: bool, found: data.Mnist, steps: int) -> float:
    """Seconds per step."""
    settings = loop.Settings(batch=batch, host=host)
    parts, settings = _make(name, settings)
    training = loop.Training(parts, _repeated(found, 8 * batch), settings, DEVICE)
    chosen = loop.order(len(training.data.training), 0, 0)
    parts.model.train()

    def some(count: int) -> None:
        done = 0
        while True:
            for fill in training.source.batches(chosen, batch):
                if done == count:
                    return
                fill(training.step.pixels, training.step.classes)
                training.step()
                done += 1

    some(min(WARM_UP, steps))
    loop.synchronize(DEVICE)
    begin = time.perf_counter()
    some(steps)
    loop.synchronize(DEVICE)
    return (time.perf_counter() - begin) / steps


def _kernels(batch: int, found: data.Mnist) -> Counter[str]:
    """The kernels of an eager step of weft, by name."""
    settings = loop.Settings(batch=batch, host=False, graph=False)
    parts, _ = _make("weft", settings)
    training = loop.Training(parts, found, settings, DEVICE)
    for _ in range(3):
        training.step.eager()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        training.step.eager()
        loop.synchronize(DEVICE)
    names: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            names[f"{event.name[:90]}: {event.device_time:.1f} us"] += 1
    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", default="64,256,1024,4096")
    parser.add_argument("--peers", default="graph,eager")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = True
    found, rows = data.load(options.data), []
    for batch in map(int, options.batches.split(",")):
        for host in (False, True):
            names = ["weft", *filter(None, options.peers.split(","))]
            us = {n: 1e6 * _step(n, batch, host, found, options.steps) for n in names}
            where = "host" if host else "GPU"
            rows.append({"batch": batch, "images": where, "tf32": options.tf32, "us": us})
            best = min((v for n, v in us.items() if n != "weft"), default=us["weft"])
            times = "  ".join(f"{n} {v:9.1f}" for n, v in us.items())
            print(f"batch {batch:5} {where:4}  {times}  {best / us['weft']:.2f} x", flush=True)
    record: dict[str, Any] = {"train_mnist": rows}
    if options.kernels:
        record["kernels"] = dict(_kernels(64, found))
        for name, count in record["kernels"].items():
            print(f"  {count} x {name}")
    if options.data is not None:
        record["epoch"] = {}
        for name in ("weft", *filter(None, options.peers.split(","))):
            settings = loop.Settings(batch=64, epochs=2, host=True)
            parts, settings = _make(name, settings)
            history = loop.Training(parts, found, settings, DEVICE).run()
            record["epoch"][name] = {"accuracy": history.accuracy, "seconds": history.seconds,
                                     "losses": history.losses[::16]}  # fmt: skip
            print(f"{name}: accuracy {history.accuracy}, seconds of an epoch {history.seconds}")
    if options.record is not None:
        with options.record.open("a") as file:
            file.write(json.dumps({**record, **gpu.about()}) + "\n")


if __name__ == "__main__":
    main()
