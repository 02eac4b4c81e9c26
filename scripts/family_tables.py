"""The table of public models that the backend "weft" was compared on, from its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmark_records import rows_of

Table = Callable[[Sequence[str], Iterable[Sequence[object]]], str]
MODES = {
    "train": "training, float32",
    "autocast": "training, autocast to bfloat16",
    "bfloat16": "training, weights of bfloat16",
    "channels_last": "training, channels last",
    "checkpoint": "training, activation checkpointing",
    "dynamic": "training, `dynamic=True`",
    "no_grad": "`torch.no_grad`",
    "inference": "`torch.inference_mode`",
    "convert": "training, `weft.nn.convert`",
}


def families(table: Table) -> str:
    """The families of each mode, and the largest differences of losses and gradients."""
    newest = {(r["mode"], r["family"]): r for r in rows_of("transformers_models.jsonl")}
    rows = [
        (label, *_summary([r for (name, _), r in newest.items() if name == mode]))
        for mode, label in MODES.items()
        if any(name == mode for name, _ in newest)
    ]
    versions = max((r["date"], r["transformers"], r["torch"]) for r in newest.values())
    date, transformers, torch = versions
    header = ("mode", "families#", "largest difference of a loss#", "of a gradient#")
    names = ", ".join(sorted({name for _, name in newest}))
    return f"transformers {transformers}, torch {torch}, {date}: {names}.\n\n{table(header, rows)}"


def _summary(rows: Sequence[dict[str, Any]]) -> tuple[str, str, str]:
    right = sum(r["right"] for r in rows)
    count = str(right) if right == len(rows) else f"{right} of {len(rows)}"
    return count, *(f"{max(r[name] for r in rows):.1e}" for name in ("loss", "gradient"))


TABLES = {"model_families": families}
