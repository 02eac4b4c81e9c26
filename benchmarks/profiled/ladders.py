"""The last CUDA rung of every ladder, as its header launches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from profiled.case import Case
from weft.climbing import ladder
from weft.climbing.climb import zeros
from weft.climbing.ladder import Ladder
from weft.climbing.rung import Runner
from weft.device import models
from weft.measure.check import input_data
from weft.measure.op import Case as Sizes

N = 1 << 20
SIZES: Mapping[str, Mapping[str, int]] = {
    "argmax": {"n": N},
    "histogram": {"n": N},
    "matmul": {"M": 512, "N": 512, "K": 512},
    "reduce": {"n": 4 * N},
    "reduce_max": {"n": 4 * N},
    "scan": {"n": N},
    "softmax": {"rows": 256, "n": 4096},
    "softmax_bf16": {"rows": 256, "n": 4096},
    "transpose": {"rows": 1024, "columns": 1024},
    "vecadd": {"n": N},
}
"""The arguments of each ladder; a ladder that is not here is not compared."""


def cases() -> list[Case]:
    """One case a launch."""
    return [case for name in SIZES for case in _of(ladder.find(name), Sizes.of(SIZES[name]))]


def _of(found: Ladder, sizes: Sizes) -> list[Case]:
    rung = [r for r in found.rungs if r.path.suffix == ".cu"][-1]
    title = f"{found.op.name} {rung.title}"
    return [
        Case(
            launch.kernel.name, launch.config.grid, launch.config.block,
            _taking(partial(_launches, found, sizes), i), rung.path, launch.config.shared_bytes,
            title,
        )
        for i, (launch, _) in enumerate(_launches(found, sizes))
    ]  # fmt: skip


def _launches(found: Ladder, sizes: Sizes) -> list[tuple[Any, list[Any]]]:
    """The launches with new arrays; what an earlier one would have computed is still zero."""
    op, rng = found.op, np.random.default_rng(0)
    rung = [r for r in found.rungs if r.path.suffix == ".cu"][-1]
    runner = Runner(rung, op, sms=models.get("h200").sms, empty=zeros)
    arrays: dict[str, Any] = {s.name: op.data(s, sizes, rng, input_data.random) for s in op.inputs}
    arrays |= {s.name: np.zeros(s.shape(sizes), s.dtype.numpy) for s in op.outputs}
    return list(runner.launches({**arrays, **sizes.sizes}))


def _taking(
    launches: Callable[[], list[tuple[Any, list[Any]]]], number: int
) -> Callable[[], list[Any]]:
    return lambda: launches()[number][1]
