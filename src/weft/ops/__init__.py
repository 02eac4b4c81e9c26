"""The op library for PyTorch, and `as_op`, which makes a PyTorch op from a kernel.

`weft.ops.softmax`, `weft.ops.matmul`, …: any shape, dtype and strides; `families/` defines them.
`as_op` makes an op of a kernel (`bind/`).
"""

from __future__ import annotations

import difflib
import importlib.util
from typing import TYPE_CHECKING, Any

from weft.ops.core import aliases, bind
from weft.ops.core.bind import as_op, verify

if TYPE_CHECKING:  # needs torch
    from weft.ops.core.explanation import Explanation

__all__ = ["as_op", "explain", "verify"]


def explain(op: Any, *args: Any, device: str | None = None, **options: Any) -> Explanation:
    """Return the kernel that a call of an op uses, and why, without running it.

    op        an op of `weft.ops`
    args      the arguments of the call
    device    the GPU to choose for, e.g. "sim:rtx3070"; by default the GPU that the tensors are on
    options   the options of the call

    >>> found = weft.ops.explain(weft.ops.softmax, torch.zeros(4, 1000), dim=1, device="sim:t4")
    >>> print(str(found).splitlines()[0])
    softmax on Tesla T4, simulated: rows (least modelled time)
    """
    explanation: Explanation = bind.with_torch("weft.ops.core.explanation").explain(
        op, *args, device=device, **options
    )
    return explanation


def __getattr__(name: str) -> Any:
    # `from weft.ops import source` asks here before it imports the module: ops are not needed.
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        raise AttributeError(f"weft.ops.{name} is a module that has not been imported")
    library = bind.with_torch("weft.ops.core.library")
    if name in aliases.ALIASES:
        return aliases.resolve(name, library.call)
    if name not in library.names():
        near = difflib.get_close_matches(name, library.names(), 1)
        hint = f"did you mean '{near[0]}'?" if near else "dir(weft.ops) lists the ops"
        raise AttributeError(f"weft.ops has no '{name}'; {hint}")
    op = globals()[name] = library.call(name)  # the next access does not come here
    return op


def __dir__() -> list[str]:
    library = bind.with_torch("weft.ops.core.library")
    return sorted({*__all__, *library.names()})
