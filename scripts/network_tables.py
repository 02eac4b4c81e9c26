"""Tables of `weft.fuse` and of a training step, from their records."""

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
    """The newest run of `benchmarks/train_mnist.py --record`."""
    record = _last("train_mnist.jsonl")
    peers = [n for n in record["train_mnist"][0]["us"] if n != "weft"]
    body = []
    for row in record["train_mnist"]:
        us = row["us"]
        best = min(us[n] for n in peers)
        body.append(
            (row["batch"], row["images"], f"{us['weft']:,.0f}", *(f"{us[n]:,.0f}" for n in peers),
             f"{best / us['weft']:.2f} x")
        )  # fmt: skip
    head = ("batch#", "images in", "weft, µs#", *(f"PyTorch, {n}, µs#" for n in peers), "ratio#")
    epochs = "; ".join(
        f"{name}: {', '.join(f'{100 * a:.2f} %' for a in run['accuracy'])}, "
        f"{min(run['seconds']):.2f} s an epoch"
        for name, run in record["epoch"].items()
    )
    return f"{_machine(record)}.\n\n{table(head, body)}\n\nAccuracy after each epoch: {epochs}."


TABLES: dict[str, Callable[[Table], str]] = {"fuse": fuse, "train": train}
