"""`weft climb mnist`: the versions of a training step, printed as a ladder is."""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import show
from weft.device.selection import Selection
from weft.errors import ArgumentError
from weft.ops.core import bind
from weft.train.versions import ABOUT, NAME, TITLES

if TYPE_CHECKING:
    from weft.train.versions.climb import Reached


def climb(device: Selection, to: int | None, record: Path | None, json: bool) -> bool:
    """Runs the versions and prints them; whether all are right."""
    if to is not None and to >= len(TITLES):
        raise ArgumentError(
            "there is no such version", got=f"--to {to}", allowed=f"0 to {len(TITLES) - 1}"
        )
    place = _place(device)
    module = bind.with_torch("weft.train.versions.climb")
    with show.ends_at_once(), show.bar(quiet=json) as progress:
        task = progress.add_task(f"{NAME}: compiling", total=len(TITLES) if to is None else to + 1)

        def tell(title: str) -> None:
            progress.update(task, advance=1, description=f"{NAME}: {title}")

        reached = module.climb(place, to, tell)
    head = {"ladder": NAME, "batch": module.BATCH[place.type], "on": module.machine(place)}
    result = {**head, "versions": [one.to_dict() for one in reached]}
    if record is not None:
        if place.type == "cuda":
            result |= bind.with_torch("weft.ops.sweep.gpu").about()
        with record.open("a", encoding="utf-8") as file:
            file.write(text.dumps(result) + "\n")
    if json:
        show.data(result)
    else:
        _print(head, reached, place.type == "cpu")
    return all(one.right for one in reached)


def _place(device: Selection) -> Any:
    torch = bind.with_torch("torch")
    if device.number is None:
        return torch.device("cpu")
    gpu = bind.with_torch("weft.ops.sweep.gpu")
    gpu.need("weft climb mnist --device gpu", "--device sim runs it on the simulated GPU")
    return torch.device("cuda", device.number)


def _print(head: dict[str, Any], reached: list[Reached], simulated: bool) -> None:
    show.line(f"{NAME}: {ABOUT}; batch {head['batch']}, on {head['on']}", "bold")
    for number, one in enumerate(reached):
        show.line(f"\n{number:02} {one.title}", "bold")
        show.line(f"   {one.idea}")
        losses = ", ".join(f"{loss:.4f}" for loss in one.losses)
        show.line(f"   losses of {len(one.losses)} steps: {losses}")
        if number:
            words = (
                f"of {number - 1:02}: losses within {one.apart[0]:.0e}, weights {one.apart[1]:.0e}"
            )
            show.line(f"   {'✓ those' if one.right else '✗ not those'} {words}",
                      "green" if one.right else "red")  # fmt: skip
    parts = [*reached[0].times.parts]
    show.line(f"\ntime per step: {reached[-1].times.how}", "bold")
    if simulated:
        show.line("a simulation takes far longer than a GPU: compare no version with another by it")
    rows = [
        [f"{number:02} {one.title}", *(show.duration(one.times.parts[p]) for p in parts),
         show.duration(one.times.total)]
        for number, one in enumerate(reached)
    ]  # fmt: skip
    show.table(("", *parts, "sum"), rows, right=(*parts, "sum"))
