"""Draw programs by a seed and their numbers, and run them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from weft.fuzz.execute import Finding, Pack, execute
from weft.fuzz.generate import generate

PACK, MODULE = 4, 48
"""Programs of a kernel, and of a module: enough to share what starting a compiler costs."""
SHAPES = ((32, 1), (64, 1), (16, 2), (33, 1), (8, 8), (5, 7), (96, 1), (1, 1))
_OFTEN = (5, 4, 2, 2, 1, 1, 1, 0.5)
_TOOLS, _TOOLS_OFTEN = ("", "sanitizer", "profile"), (20, 1, 1)


def pack(seed: int, number: int) -> Pack:
    """Draw programs `PACK * number` and on of a seed."""
    name = f"{seed}.{number}"
    rng = random.Random(name)
    shape = rng.choices(SHAPES, _OFTEN)[0]
    tool = rng.choices(_TOOLS, _TOOLS_OFTEN)[0]
    first = PACK * number
    programs = tuple(generate(f"{seed}:{i}", shape) for i in range(first, first + PACK))
    return Pack(name, programs, draft=rng.random() < 0.8, tool=tool)


def batch(seed: int, count: int, first: int = 0) -> list[Finding]:
    """Run `count` programs of a seed from number `first` on (both rounded to whole packs)."""
    numbers = range(first // PACK, -(-(first + count) // PACK))
    return [f for some in _chunks(numbers) for f in execute([pack(seed, i) for i in some])]


def _chunks(numbers: range) -> Sequence[range]:
    step = MODULE // PACK
    return [numbers[i : i + step] for i in range(0, len(numbers), step)]
