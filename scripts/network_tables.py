"""Tables of `weft.fuse`, of a training step and of convolutions, from their records."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from benchmark_records import newest, rows_of

Table = Callable[..., str]


def _machine(record: dict[str, Any]) -> str:
    return f"{record['gpu']}, driver {record['driver']}, torch {record['torch']}, {record['date']}"


def fuse(table: Table) -> str:
    """The newest run of `benchmarks/fuse.py --record`."""
    record = newest("fuse.jsonl")
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


def training() -> dict[str, Any]:
    """The newest whole run of `benchmarks/train_mnist.py --record`, one with epochs; later runs of
    some steps replace what they have timed."""
    records = rows_of("train_mnist.jsonl")
    whole = max(i for i, r in enumerate(records) if "epochs" in r)
    found: dict[str, Any] = records[whole] | {"date": records[-1]["date"]}
    for row in (row for r in records[whole + 1 :] for row in r["train_mnist"]):
        where = [row[key] for key in ("precision", "batch", "images")]
        (old,) = (
            r for r in found["train_mnist"] if where == [r["precision"], r["batch"], r["images"]]
        )
        old["us"] |= row["us"]
    return found


def train(table: Table) -> str:
    """Steps of each batch and precision."""
    record = training()
    peers = [n for n in PEERS if any(n in row["us"] for row in record["train_mnist"])]
    body = []
    for row in record["train_mnist"]:
        us = row["us"]
        best = min(us[n] for n in peers if n in us)
        body.append(
            (row["precision"], f"{row['batch']:,}", row["images"], f"{us['weft']:,.0f}",
             *(f"{us[n]:,.0f}" if n in us else "" for n in peers), f"{best / us['weft']:.2f} x")
        )  # fmt: skip
    head = (
        "precision", "batch#", "images in", "weft, µs#", *(f"{PEERS[n]}, µs#" for n in peers),
        "best of PyTorch / weft#",
    )  # fmt: skip
    return f"{_machine(record)}.\n\n{table(head, body)}"


def train_line(table: Table) -> str:
    """One sentence about the steps with images on the GPU, for README."""
    record = training()
    rows = [row for row in record["train_mnist"] if row["images"] == "GPU"]
    ratios = [min(v for n, v in r["us"].items() if n != "weft") / r["us"]["weft"] for r in rows]
    batches = sorted({row["batch"] for row in rows})
    return (
        f"A training step of MNIST's network, batches of {batches[0]} to {batches[-1]:,}: "
        f"{min(ratios):.1f} x to {max(ratios):.1f} x as fast as PyTorch's best of eager calls, "
        f"torch.compile and a CUDA graph ({record['gpu']})."
    )


def train_parts(table: Table) -> str:
    """The parts of these steps, for images in the GPU's memory."""
    record = training()
    body = [
        (row["precision"], f"{row['batch']:,}", PEERS.get(name, name),
         *(f"{parts[p]:,.0f}" if p in parts else "" for p in PARTS))
        for row in record["train_mnist"] if row["images"] == "GPU"
        for name, parts in row["parts"].items() if parts
    ]  # fmt: skip
    head = ("precision", "batch#", "", *(f"{p}, µs#" for p in PARTS))
    return f"{_machine(record)}.\n\n{table(head, body)}"


def train_epochs(table: Table) -> str:
    """Mean accuracy of trainings of one epoch; that after each epoch of a longer one; the time of
    the fastest."""
    record = training()
    body = [
        (precision, PEERS.get(name, name),
         f"{100 * sum(run['after_one']) / len(run['after_one']):.2f} %",
         *(f"{100 * a:.2f} %" for a in run["accuracy"]),
         f"{min(run['seconds']):.2f}")
        for precision, runs in record["epochs"].items() for name, run in runs.items()
    ]  # fmt: skip
    count = max(len(run["accuracy"]) for runs in record["epochs"].values() for run in runs.values())
    head = (
        "precision",
        "",
        "one epoch#",
        *(f"after epoch {i + 1}#" for i in range(count)),
        "s per epoch#",
    )
    return f"{_machine(record)}.\n\n{table(head, body)}"


def train_climb(table: Table) -> str:
    """The newest run of `weft climb mnist --device gpu --record`."""
    record = newest("climb_mnist.jsonl")
    body = []
    for one in record["versions"]:
        us = {part: 1e6 * seconds for part, seconds in one["times"]["parts"].items()}
        step = [us[part] for part in PARTS[1:]]
        body.append((one["title"], *(f"{t:,.0f}" for t in step), f"{sum(step):,.0f}"))
    head = ("version", *(f"{part}, µs#" for part in PARTS[1:]), "sum#")
    return f"{_machine(record)}, batch {record['batch']}.\n\n{table(head, body)}"


def convolution(table: Table) -> str:
    """The newest run of each pass and precision in the records of `benchmarks/conv_shapes.py`."""
    latest: dict[tuple[str, str], list[dict[str, Any]]] = {}
    records = rows_of("conv_shapes.jsonl")
    for record in records:
        latest |= _passes(record)
    kinds = ("depthwise", "channels_last")
    order = sorted(latest, key=lambda key: ([kind in key[0] for kind in kinds], key[1], key[0]))
    body = [_ratios(*key, latest[key]) for key in order]
    head = ("pass", "precision", "shapes#", "candidate", "alone, mean#", "worst#", "below 0.7#",
            "as called, mean#", "worst#")  # fmt: skip
    return f"{_machine(records[-1])}, cuDNN {records[-1]['cudnn']}.\n\n{table(head, body)}"


def _passes(record: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of a record by pass and precision."""
    names = {"input": "backward to the data", "weight": "backward to the weight"}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        what = "depthwise, " if row["shape"].get("groups", 1) > 1 else ""
        what += names.get(row["pass"], row["pass"]) + (", channels_last" if row["last"] else "")
        groups.setdefault((what, row["precision"]), []).append(row)
    return groups


def _ratios(what: str, precision: str, rows: list[dict[str, Any]]) -> tuple[object, ...]:
    """A line of the table. A run that timed several candidates has no times as called."""
    alone = [r["cudnn"] / r["weft"] for r in rows]
    called = [r["cudnn_called"] / r["weft_called"] for r in rows if "weft_called" in r]
    below = sum(r < 0.7 for r in alone)
    candidate = "chosen" if called else "fastest"
    return (what, precision, len(rows), candidate, *_mean_and_worst(alone), below,
            *_mean_and_worst(called))  # fmt: skip


def _mean_and_worst(ratios: list[float]) -> tuple[str, str]:
    if not ratios:
        return "", ""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{mean:.2f} x", f"{min(ratios):.2f} x"


PARTS = ("load", "forward", "backward", "update")
PEERS = {
    "eager": "PyTorch, eager",
    "compile": "torch.compile",
    "overhead": "reduce-overhead",
    "graph": "PyTorch, CUDA graph",
}
TABLES: dict[str, Callable[[Table], str]] = {
    "fuse": fuse, "train": train, "train_parts": train_parts, "train_epochs": train_epochs,
    "train_line": train_line, "train_climb": train_climb,
    "convolution": convolution,
}  # fmt: skip
