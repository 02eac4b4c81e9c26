"""The head of a learner's file: how its kernels are launched, and the rules that are checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from weft.climbing.rung import step
from weft.device.selection import select
from weft.measure.expressions import wholes
from weft.measure.op import Case


def lines(path: Path, launch: Sequence[str], case: Case | None, rules: Sequence[str]) -> list[str]:
    """The launches with grid and block, and the rules, both for the first case.

    For n = 4096:
      launch  square<<<cdiv(n, 128), 128>>>: a grid of 32 blocks with 128 threads each
      rule    writing threads >= 4096
    """
    if case is None:
        return ["Rules:", *(f"  {rule}" for rule in rules)]
    sizes = ", ".join(f"{name} = {size}" for name, size in case.sizes.items())
    return [
        f"For {sizes}:",
        *(f"  launch  {_launch(path, text, case)}" for text in launch),
        *(f"  rule    {rule}" for rule in rules),
    ]


def _launch(path: Path, text: str, case: Case) -> str:
    one, sizes = step(path, text), {**case.sizes, "sms": select("sim").model.sms}
    grid, block = wholes(one.grid, sizes), wholes(one.block, sizes)
    each = " each" * (math.prod(grid) != 1)
    shape = f"a grid of {_many(grid, 'block')} with {_many(block, 'thread')}{each}"
    # Python writes its launches in another notation, which the file shows.
    return shape if path.suffix == ".py" else f"{text}: {shape}"


def _many(size: Sequence[int], what: str) -> str:
    return f"{' x '.join(map(str, size))} {what}{'s' * (math.prod(size) != 1)}"


def stated(file: str, text: str, head: Sequence[str]) -> str:
    """A source with these lines below its first comment or docstring."""
    if file.endswith(".py"):
        end = text.index('"""', 3) + 3
        return "\n".join([text[:end] + "\n", *_commented("#", head)]) + text[end:]
    written = text.splitlines(keepends=True)
    first = next(i for i, line in enumerate(written) if not line.startswith("//"))
    comment = ["//", *_commented("//", head)] if first else [*_commented("//", head), ""]
    return "".join([*written[:first], *(f"{line}\n" for line in comment), *written[first:]])


def _commented(mark: str, head: Sequence[str]) -> Iterator[str]:
    return (f"{mark} {line}" for line in head)
