"""Times products of bf16 matrices on the simulated GPU by `wgmma`, against the same by `mma.sync`.

    python benchmarks/warpgroup_products.py [--size N] [--json] [--record]

The kernels are those of `weft.ops.matmul`: the best one of each kind on an H200. They take turns on
one core; a figure is the least processor time of the rounds. Code is compiled beforehand.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

os.environ.update(WEFT_THREADS="1", WEFT_DRAFTS="0")

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table
from simspeed.machine import describe

from weft.ops.core import library
from weft.ops.core.runner import runner

RECORDS = Path(__file__).with_name("records") / "warpgroup_products.jsonl"
ROUNDS = 3
MOST = 1.5
"""The most that a product by `wgmma` may take of the time of one by `mma.sync`."""


def main(
    size: Annotated[int, typer.Option(help="Rows, columns and depth.")] = 1024,
    as_json: Annotated[bool, typer.Option("--json", help="The record, not a table.")] = False,
    record: Annotated[bool, typer.Option("--record", help=f"Append to {RECORDS.name}.")] = False,
) -> None:
    """Time both products and compare their results."""
    rng = np.random.default_rng(0)
    a, b = (torch.from_numpy(rng.normal(size=(size, size))).to(torch.bfloat16) for _ in range(2))
    function = library.function("matmul")
    request = function.request(a, b, "fp32")
    made = sorted(function.definition.candidates(request), key=lambda c: c.cost)
    kinds = {
        "wgmma": next(c for c in made if "warpgroups" in c.name),
        "mma.sync": next(c for c in made if "warpgroups" not in c.name),
    }
    runs = {name: runner(c.build(), 2, a.device) for name, c in kinds.items()}
    exact, seconds = a.double() @ b.double(), dict.fromkeys(kinds, float("inf"))
    for turn in range(ROUNDS + 1):
        for name, run in runs.items():
            start = time.process_time()
            result = run(a, b)
            if turn:  # the first launch compiles
                seconds[name] = min(seconds[name], time.process_time() - start)
            error = (result.double() - exact).abs().max() / exact.abs().max()
            assert error < 2**-7, f"{name}: {error}"
    done: dict[str, Any] = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "size": size,
        "kernels": {name: c.name for name, c in kinds.items()},
        "seconds": seconds,
        "times": seconds["wgmma"] / seconds["mma.sync"],
        "most": MOST,
    }
    if record:
        with RECORDS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done) + "\n")
    if as_json:
        print(json.dumps(done, indent=2))
        return
    table = Table("product", "kernel", "seconds", title=f"{size} cubed, bf16")
    for name, c in kinds.items():
        table.add_row(name, c.name, f"{seconds[name]:.3f}")
    Console().print(table, f"{done['times']:.2f} times (at most {MOST})")


if __name__ == "__main__":
    typer.run(main)
