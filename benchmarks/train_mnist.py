"""Times a training step of MNIST's network on a GPU: weft and PyTorch, from the same weights.

    python benchmarks/train_mnist.py [--batches 64,256] [--precisions fp32,tf32]
                                     [--peers graph,eager,compile,overhead] [--parts] [--kernels]
                                     [--data DIR [--seeds 5] [--epochs 5]]
                                     [--record FILE.jsonl] [--log FILE.jsonl]

A figure is the mean of 100 steps after warm-up, for images in the GPU's memory and for images in
host memory. `--parts` splits a step into load, forward, backward and update. `--kernels` lists the
kernels of an eager step of weft. `--data` also trains whole epochs. `--log` writes each row when it
is measured, `--record` all of them at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft.ops.sweep import gpu
from weft.train import contenders, data, loop
from weft.train.settings import PRECISIONS, Settings, of_torch

STEPS, WARM_UP = 100, 20
POINTS = 150
"""Means of the losses of a long training that are recorded."""
NAMES = {
    "eager": "PyTorch",
    "compile": "PyTorch, torch.compile",
    "overhead": "PyTorch, reduce-overhead",
    "graph": "PyTorch, CUDA graph",
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _training(name: str, settings: Settings, found: data.Mnist) -> loop.Training:
    make = contenders.weft_step if name == "weft" else contenders.PEERS[NAMES[name]]
    return loop.Training(make(settings, DEVICE), found, settings, DEVICE)


def _repeated(found: data.Mnist, count: int) -> data.Mnist:
    """At least so many training images."""
    times = -(-count // len(found.training))
    images = np.concatenate([found.training.images] * times)
    labels = np.concatenate([found.training.labels] * times)
    return replace(found, training=data.Digits(images, labels))


def _timed(training: loop.Training, steps: int) -> float:
    """Microseconds per step."""
    training.model.train()
    batches = training.endless()

    def some(count: int) -> None:
        for fill in itertools.islice(batches, count):
            fill(training.step.pixels, training.step.classes)
            training.step()

    some(min(WARM_UP, steps))
    loop.synchronize(DEVICE)
    begin = time.perf_counter()
    some(steps)
    loop.synchronize(DEVICE)
    return 1e6 * (time.perf_counter() - begin) / steps


def _rows(
    names: list[str], settings: Settings, found: data.Mnist, steps: int, parts: bool
) -> list[dict[str, Any]]:
    """The row for images in the GPU's memory and the one for images in host memory."""
    many = _repeated(found, 8 * settings.batch)
    rows: list[dict[str, Any]] = [
        {"batch": settings.batch, "images": where, "precision": settings.precision, "us": {},
         "parts": {}}
        for where in ("GPU", "host")
    ]  # fmt: skip
    for name in names:
        torch._dynamo.reset()  # it compiles a function a few times only, then runs it as it is
        step = _training(name, settings, many).step  # compiled or captured once for both rows
        for row in rows:
            how = replace(settings, host=row["images"] == "host")
            training = loop.Training(step, many, how, DEVICE)
            row["us"][name] = _timed(training, steps)
            if parts:
                training.time_parts()
            times = training.history.times
            row["parts"][name] = (
                {} if times is None else {k: round(1e6 * v, 2) for k, v in times.parts.items()}
            )
    return rows


def _kernels(batch: int, found: data.Mnist) -> Counter[str]:
    """The kernels of an eager step of weft, by name."""
    training = _training("weft", Settings(batch=batch, host=False, graph=False), found)
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


def _epochs(
    names: list[str], precision: str, found: data.Mnist, seeds: int, epochs: int
) -> dict[str, Any]:
    """Batches of 64 of all images: one epoch from each of some seeds, and several from one."""
    record = {}
    for name in names:
        settings = Settings(batch=64, precision=precision)
        ones = [_training(name, replace(settings, seed=s), found).run() for s in range(seeds)]
        long = _training(name, replace(settings, epochs=epochs), found).run()
        size = max(1, len(long.losses) // POINTS)
        record[name] = {
            "after_one": [h.accuracy[0] for h in ones],
            "seconds": [round(h.seconds[0], 4) for h in ones],
            "accuracy": long.accuracy,
            "losses": [
                round(sum(part) / len(part), 5)
                for i in range(0, len(long.losses), size)
                if (part := long.losses[i : i + size])
            ],
        }
        print(f"{name} {precision}: {json.dumps({**record[name], 'losses': []})}", flush=True)
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", default="64,256,1024,4096")
    parser.add_argument("--precisions", default="fp32")
    parser.add_argument("--peers", default="graph,eager")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--kernels", action="store_true")
    options = parser.parse_args()
    found = data.load(options.data)
    rows: list[dict[str, Any]] = []
    names = ["weft", *filter(None, options.peers.split(","))]
    precisions = options.precisions.split(",")
    record: dict[str, Any] = {"train_mnist": rows, "epochs": {}}
    batches = [int(batch) for batch in options.batches.split(",") if batch]
    for precision, batch in itertools.product(precisions, batches):
        settings = Settings(batch=batch, precision=precision)
        with of_torch(precision):
            found_rows = _rows(names, settings, found, options.steps, options.parts)
        for row in found_rows:
            us = row["us"]
            best = min((v for n, v in us.items() if n != "weft"), default=us["weft"])
            times = "  ".join(f"{n} {v:9.1f}" for n, v in us.items())
            where = f"{precision} batch {batch:5} {row['images']:4}"
            print(f"{where}  {times}  {best / us['weft']:.2f} x", flush=True)
            _log(options.log, row)
        rows += found_rows
    if options.kernels:
        record["kernels"] = dict(_kernels(64, found))
        for name, count in record["kernels"].items():
            print(f"  {count} x {name}")
    for precision in precisions if options.data is not None else ():
        assert precision in PRECISIONS
        with of_torch(precision):
            made = _epochs(names, precision, found, options.seeds, options.epochs)
        record["epochs"][precision] = made
        _log(options.log, {"epochs": {precision: record["epochs"][precision]}})
    if options.record is not None:
        _log(options.record, {**record, **gpu.about()})


def _log(path: Path | None, row: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
