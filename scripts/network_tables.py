"""Tables of `weft.fuse`, of a training step and of convolutions, from their records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).resolve().parents[1] / "benchmarks" / "records"
Table = Callable[..., str]


def _last(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RECORDS / name).read_text().splitlines()[-1])
    return record


def _machine(record: dict[str, Any]) -> str:
    return f"{record['gpu']}, driver {record['driver']}, torch {record['torch']}, {record['date']}"


def fuse(table: Table) -> str:
    """The newest run of `benchmarks/fuse.py --record`."""
    record = _last("fuse.jsonl")
    rows = record["fuse"]
    means = [
        math.exp(sum(math.log(r["us"][i] / r["us"][0]) for r in rows) / len(rows)) for i in (1, 2)
    ]
    body = [
        (r["name"], r["dtype"], f"{us[0]:.0f}", f"{us[1] / us[0]:.2f} x", f"{us[2] / us[0]:.2f} x",
         f"{r['bytes'] / us[0] / 1e6:.2f}")
        for r in rows for us in (r["us"],)
    ]  # fmt: skip
    head = ("expression", "dtype", "µs#", "of eager#", "of torch.compile#", "TB/s#")
    means_text = f"Geometric mean: {means[0]:.2f} x eager, {means[1]:.2f} x `torch.compile`."
    return f"{_machine(record)}. {means_text}\n\n{table(head, body)}"


def train(table: Table) -> str:
    """The newest run of `benchmarks/train_mnist.py --record`: steps of each batch and precision."""
    record = _last("train_mnist.jsonl")
    peers = [n for n in record["train_mnist"][0]["us"] if n != "weft"]
    body = []
    for row in record["train_mnist"]:
        us = row["us"]
        best = min(us[n] for n in peers)
        body.append(
            (row["precision"], row["batch"], row["images"], f"{us['weft']:,.0f}",
             *(f"{us[n]:,.0f}" for n in peers), f"{best / us['weft']:.2f} x")
        )  # fmt: skip
    head = (
        "precision", "batch#", "images in", "weft, µs#", *(f"{PEERS[n]}, µs#" for n in peers),
        "best of PyTorch / weft#",
    )  # fmt: skip
    return f"{_machine(record)}.\n\n{table(head, body)}"


def train_parts(table: Table) -> str:
    """The parts of these steps, for images in the GPU's memory."""
    record = _last("train_mnist.jsonl")
    body = [
        (row["precision"], row["batch"], PEERS.get(name, name),
         *(f"{parts[p]:,.0f}" if p in parts else "" for p in PARTS))
        for row in record["train_mnist"] for name, parts in row["parts"].items() if parts
    ]  # fmt: skip
    head = ("precision", "batch#", "", *(f"{p}, µs#" for p in PARTS))
    return f"{_machine(record)}.\n\n{table(head, body)}"


def train_epochs(table: Table) -> str:
    """Accuracy and time of whole epochs."""
    record = _last("train_mnist.jsonl")
    body = [
        (precision, PEERS.get(name, name), *(f"{100 * a:.2f} %" for a in run["accuracy"]),
         f"{min(run['seconds']):.2f}")
        for precision, runs in record["epochs"].items() for name, run in runs.items()
    ]  # fmt: skip
    count = max(len(run["accuracy"]) for runs in record["epochs"].values() for run in runs.values())
    head = ("precision", "", *(f"after epoch {i + 1}#" for i in range(count)), "s per epoch#")
    return f"{_machine(record)}.\n\n{table(head, body)}"


def convolution(table: Table) -> str:
    """The newest run of `benchmarks/conv_shapes.py --record`."""
    record = _last("conv_shapes.jsonl")
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in record["rows"]:
        what = "depthwise, " if row["shape"]["groups"] > 1 else ""
        what += {"input": "backward to the data", "weight": "backward to the weight"}.get(
            row["pass"], row["pass"]
        )
        ratios = (row["cudnn"] / row["weft"], row["cudnn_called"] / row["weft_called"])
        groups.setdefault((what, row["precision"]), []).append(ratios)
    body = []
    for (what, precision), ratios in groups.items():
        alone, called = zip(*ratios, strict=True)
        means = (math.exp(sum(map(math.log, r)) / len(r)) for r in (alone, called))
        alone_mean, called_mean = (f"{mean:.2f} x" for mean in means)
        below = sum(r < 0.7 for r in alone)
        body.append((what, precision, len(alone), alone_mean, f"{min(alone):.2f} x", below,
                     called_mean, f"{min(called):.2f} x"))  # fmt: skip
    head = ("pass", "precision", "shapes#", "alone, mean#", "worst#", "below 0.7#",
            "as called, mean#", "worst#")  # fmt: skip
    return f"{_machine(record)}, cuDNN {record['cudnn']}.\n\n{table(head, body)}"


PARTS = ("load", "forward", "backward", "update")
PEERS = {
    "eager": "PyTorch, eager", "compile": "torch.compile", "overhead": "reduce-overhead",
    "graph": "PyTorch, CUDA graph",
}  # fmt: skip
TABLES: dict[str, Callable[[Table], str]] = {
    "fuse": fuse, "train": train, "train_parts": train_parts, "train_epochs": train_epochs,
    "convolution": convolution,
}  # fmt: skip
