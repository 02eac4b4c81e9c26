"""The calls of one op by the C++ code, which finds the plan of a call without Python.

The C++ code learns a plan from a call that Python has found it for. It refuses every call that it
has no plan for, and every call that something of torch has to see: Python makes those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ops.core.native import launches, loaded

REMEMBERED = 8192
"""The most plans of an op; when exceeded, all are dropped."""
Source = tuple[Any, int]
"""A generator of random numbers, and how far a call moves its offset."""


def unknown(*args: Any) -> Any:
    """Refuses a call."""
    return NotImplemented


class Calls:
    """The plans of an op; `is_tensor` says which arguments are tensors.

    call  makes a call, or returns NotImplemented; it takes all arguments by position
    """

    def __init__(self, is_tensor: Sequence[bool]) -> None:
        self._is_tensor = list(is_tensor)
        self._table: Any = None
        self._module: Any = None
        self.call: Callable[..., Any] = unknown

    def learn(
        self,
        entry: Any,
        args: Sequence[Any],
        inputs: Sequence[int],
        source: Source | None = None,
    ) -> None:
        """Keep a plan, an entry of `function.py`, for calls with arguments like these.

        inputs  the tensor of the call that each tensor of the plan is, or `launches.NONE`
        source  what the two words of the plan come from, if it has any
        """
        module, record = loaded.module(entry.device), entry.record
        if module is None:
            record.open = 0 if loaded.never(entry.device) else record.open
            return
        record.open -= 1
        step = launches.step(entry, inputs, () if source is None else None)
        if step is None or not entry.plan.outputs:
            record.open = 0
            return
        if self._table is None:
            self._module, self._table = module, module.calls(self._is_tensor)
            self.call = module.calling(self._table)
        if module.count(self._table) >= REMEMBERED:
            self.forget()
        count = sum(self._is_tensor)
        recorder = record.capsule(module, 0, count, 0 if source is None else launches.WORDS)
        program = module.program([step], [count + i for i in range(len(entry.plan.outputs))])
        module.enter(self._table, tuple(args), program, recorder, source)

    def forget(self) -> None:
        """Drop all plans."""
        if self._table is not None:
            self._module.forget(self._table)
