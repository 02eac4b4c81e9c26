"""Kernels of `weft.ops` give the same bits under schedules as in plain runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import weft  # noqa: E402
from weft import ops  # noqa: E402
from weft.device.sim import schedules  # noqa: E402

pytestmark = pytest.mark.sim


def random(*shape: int) -> torch.Tensor:
    numbers = np.random.default_rng(shape).standard_normal(shape)
    return torch.from_numpy(numbers.astype(np.float32))


CALLS: dict[str, Callable[[], torch.Tensor]] = {
    "softmax": lambda: ops.softmax(random(9, 300), -1),
    "layer_norm": lambda: ops.layer_norm(random(9, 300), (300,)),
    "sum": lambda: ops.sum(random(9, 300)),
    "cumsum": lambda: ops.cumsum(random(9, 300), -1),
    "sort": lambda: ops.sort(random(9, 300), -1)[0],
    "cross_entropy": lambda: ops.cross_entropy(random(9, 300), torch.arange(9)),
    "conv2d": lambda: ops.conv2d(random(1, 4, 9, 9), random(8, 4, 3, 3)),
    "matmul": lambda: ops.matmul(random(96, 64).half(), random(64, 96).half()),
    "attention": lambda: ops.scaled_dot_product_attention(
        *(random(1, 2, 65, 64).half() for _ in range(3))
    ),
    "sample": lambda: ops.sample(
        random(3, 300),
        torch.tensor([0.8]),
        torch.tensor([40], dtype=torch.int32),
        torch.tensor([0.9]),
        torch.tensor([1]),
        torch.arange(3, dtype=torch.int32),
    ),
}


QUICK = ("softmax", "sort", "matmul", "attention")
"""The rows of the default set: a row per warp, shared memory, copies, and warpgroups."""


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CALLS]
)
def test_same_bits_under_schedules(name: str) -> None:
    call = CALLS[name]
    want = call()
    for schedule in schedules.several(5):
        with weft.schedule(str(schedule)):
            assert torch.equal(call(), want), schedule
