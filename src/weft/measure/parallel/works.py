"""Times of one GPU: recorded ones, or those of the user, with their source."""

from __future__ import annotations

import difflib
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import ArgumentError
from weft.measure.parallel.quantities import TIMES, quantity
from weft.report.words import precise
from weft.values.time.parallel import Attention, Step

FORWARD = 1 / 3
"""The part of a training step that is the forward pass: backward computes twice as much."""
GRADIENT = {"bf16": 2, "autocast": 4}
"""dtype of a training step -> bytes of a parameter and of its gradient."""
ACTIVATION = 2
_FILE = Path(__file__).with_name("recorded.json")


@dataclass(frozen=True)
class Model:
    """The sizes of a network of equal layers; `length` is the tokens of a text."""

    name: str
    layers: int
    parameters: int
    width: int
    heads: int
    key_heads: int
    length: int
    causal: bool


@functools.cache
def _recorded() -> dict[str, list[dict[str, Any]]]:
    """The records that come with weft; scripts/parallel_tables.py writes them."""
    found: dict[str, list[dict[str, Any]]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


def model(name: object) -> Model:
    """A network by its name, such as "gpt2-124m"; "gpt2" is the smallest one."""
    every = {row["name"]: Model(**row) for row in _recorded()["networks"]}
    if isinstance(name, str):
        for known, found in every.items():
            if name in (known, known.partition("-")[0]):
                return found
    near = difflib.get_close_matches(name, every, 1) if isinstance(name, str) else []
    raise ArgumentError(
        "no such model",
        got=repr(name),
        allowed=", ".join(every),
        next=f"did you mean '{near[0]}'?" if near else "",
    )


def step(of: Model, dtype: str, batch: int, length: int, time: object) -> Step:
    """The training step of a model: as recorded, or with the user's time."""
    rows = (r for r in _recorded()["steps"] if (r["name"], r["dtype"]) == (of.name, dtype))
    row = next(rows, None)
    if time is not None:
        seconds, source = _given(time, "time")
        sizes = (
            batch or (row["batch"] if row else 1),
            length or (row or {}).get("length", of.length),
        )
    else:
        row = _fitting(of, dtype, row, batch, length)
        seconds, sizes = row["seconds"], (row["batch"], row["length"])
        source = f"measured: {precise(seconds)} by {row['by']} on {row['gpu']}, {row['date']}"
    words = f"{of.name} train {dtype} batch={sizes[0]} length={sizes[1]}"
    return Step(
        seconds, FORWARD * seconds, of.layers, of.parameters, of.width, of.heads,
        sizes[0] * sizes[1], ACTIVATION, GRADIENT[dtype], f"{words}, {source}",
    )  # fmt: skip


def _fitting(
    of: Model, dtype: str, row: dict[str, Any] | None, batch: int, length: int
) -> dict[str, Any]:
    """The record of a step, if it has the sizes that are asked for."""
    if row is None:
        raise ArgumentError(
            f"{of.name} has no recorded training step in {dtype}",
            allowed=", ".join(f"{r['name']} {r['dtype']}" for r in _recorded()["steps"]),
            next="give the time of a step on one GPU: --time 120ms",
        )
    if (batch or row["batch"], length or row["length"]) != (row["batch"], row["length"]):
        raise ArgumentError(
            f"the training step of {of.name} was recorded with other sizes",
            got=f"batch={batch or row['batch']} length={length or row['length']}",
            allowed=f"batch={row['batch']} length={row['length']}",
            next="give the time of a step on one GPU: --time 120ms",
        )
    return row


def attention(of: Model, causal: bool | None, batch: int, length: int, time: object) -> Attention:
    """The forward call of a layer's attention: scaled from a record, or with the user's time."""
    causal = of.causal if causal is None else causal
    batch, length = batch or 1, length or of.length
    head = of.width // of.heads
    words = f"attention {batch}x{of.heads}x{length}x{head}{' causal' * causal}, forward"
    if time is not None:
        seconds, source = _given(time, "attention_time")
    else:
        rows = _recorded()["attention"]
        row = next(r for r in rows if (r["head"], r["causal"]) == (head, causal))
        call = f"{row['batch']}x{row['heads']}x{row['rows']}x{head}"
        scale = batch * of.heads * length**2 / (row["batch"] * row["heads"] * row["rows"] ** 2)
        seconds = row["seconds"] * scale
        source = (
            f"{precise(seconds)}: {scale:.3g} x the operations of {call}, measured:"
            f" {precise(row['seconds'])} by {row['by']} on {row['gpu']}, {row['date']}"
        )
    sizes = (batch, of.heads, of.key_heads, head, length, causal)
    return Attention(seconds, *sizes, ACTIVATION, f"{words}, {source}")


def _given(time: object, what: str) -> tuple[float, str]:
    """The user's time and its source: a quantity, or a file of `weft predict --json`."""
    if isinstance(time, Path) or (isinstance(time, str) and time.endswith(".json")):
        seconds, gpu = _predicted(Path(time))
        return seconds, f"{precise(seconds)}: predicted for {gpu} by weft predict, {time}"
    seconds = quantity(time, TIMES, what)
    return seconds, f"{precise(seconds)} as given"


def _predicted(path: Path) -> tuple[float, str]:
    """The time of all launches on the first GPU of a file of `weft predict --json`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        launches = [row[0] for row in found["launches"]]
        seconds = sum(one["seconds"] * one["launches"] for one in launches)
        return quantity(seconds, TIMES, str(path)), str(launches[0]["gpu"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ArgumentError(
            "the file holds no prediction",
            where=str(path),
            got=f"{type(error).__name__}: {error}",
            next="weft predict FILE --json > predicted.json writes one",
        ) from None
