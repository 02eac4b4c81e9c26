"""Options that `weft bench ops` and `weft bench models` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option(help="Seed of the calls.")]
Compile = Annotated[bool, typer.Option(help="Also time torch.compile.")]
Budget = Annotated[
    float, typer.Option(help="Seconds after which torch.compile is not timed.", min=0)
]
Limit = Annotated[
    float, typer.Option("--limit", "--seconds", help="Seconds after which the sweep ends.", min=0)
]
Jobs = Annotated[
    int, typer.Option(help="Processes that compile; one at a time uses the GPU.", min=1)
]
Again = Annotated[Path | None, typer.Option(help="Time the slow calls of this record again.")]
Below = Annotated[
    float, typer.Option(help="With --again: calls slower than this ratio to the best peer.")
]
Record = Annotated[
    Path | None, typer.Option("--record", "--out", help="Append the result to this file.")
]
