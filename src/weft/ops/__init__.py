"""Operations: ladders of kernels that compute them, and kernels as ops of PyTorch.

`weft.ops.softmax`, `weft.ops.matmul`, …: each ladder as an op of PyTorch, made when it is asked
for (`offered.py`).
"""

from typing import Any

from weft.climbing import ladder
from weft.ops import bind
from weft.ops.bind import as_op, verify

__all__ = ["as_op", "verify"]


def __getattr__(name: str) -> Any:
    if name not in ladder.names():
        raise AttributeError(f"weft.ops has no '{name}'; ladders are {', '.join(ladder.names())}")
    return bind.offered(name)


def __dir__() -> list[str]:
    return sorted((*__all__, *ladder.names()))
