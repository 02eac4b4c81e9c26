"""The library that users of PyTorch call, and kernels of one's own as ops of PyTorch.

`weft.ops.softmax`, `weft.ops.matmul`, …: any shape, dtype and strides; `families/` defines them.
`as_op` makes an op of a kernel (`bind/`).
"""

from typing import Any

from weft.ops import aliases, bind
from weft.ops.bind import as_op, verify

__all__ = ["as_op", "explain", "verify"]


def explain(op: Any, *args: Any, **options: Any) -> Any:
    """Which kernel a call would use and why: `explain(weft.ops.softmax, x)`; print the result."""
    return bind.with_torch("weft.ops.explanation").explain(op, *args, **options)


def __getattr__(name: str) -> Any:
    library = bind.with_torch("weft.ops.library")
    if name in aliases.ALIASES:
        return aliases.resolve(name, library.call)
    if name not in library.names():
        raise AttributeError(f"weft.ops has no '{name}'; there are {', '.join(__dir__())}")
    op = globals()[name] = library.call(name)  # the next access does not come here
    return op


def __dir__() -> list[str]:
    library = bind.with_torch("weft.ops.library")
    return sorted({*__all__, *library.names()})
