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
    """Refuse a call."""
    return NotImplemented


class Calls:
    """The plans of an op; `is_tensor` says which arguments are tensors.

    policy  how autocast converts them; see `bind/autocast.py`
    call    makes a call, or returns NotImplemented; it takes all arguments by position
    """

    def __init__(self, is_tensor: Sequence[bool], policy: str = "kept") -> None:
        self._is_tensor, self._policy = list(is_tensor), policy
        self._table: Any = None
        self._module: Any = None
        self.call: Callable[..., Any] = unknown

    def learn(
        self, entry: Any, args: Sequence[Any], inputs: Sequence[int], source: Source | None = None
    ) -> None:
        """Keep a plan, an entry of `function.py`, for calls with arguments like these.

        inputs  the tensor of the call that each tensor of the plan is, or `launches.NONE`
        source  what the two words of the plan come from, if it has any
        """
        record, module = entry.record, self.opened(entry)
        if module is None:
            return
        step = launches.step(entry, inputs, () if source is None else None)
        if step is None or not entry.plan.outputs:
            record.open = 0
            return
        count = sum(self._is_tensor)
        recorder = record.capsule(module, 0, count, 0 if source is None else launches.WORDS)
        program = module.program([step], [count + i for i in range(len(entry.plan.outputs))])
        module.enter(self._table, tuple(args), program, recorder, source)

    def borrow(self, entry: Any, results: int, args: Sequence[Any]) -> None:
        """Record calls with arguments like these by the recipes of another op's plan.

        entry    its plan; it takes the same tensors
        results  how many of its results are returned, the first ones
        """
        module = self.opened(entry)
        if module is not None:
            recorder = entry.record.capsule(module, results, sum(self._is_tensor), 0)
            module.enter(self._table, tuple(args), None, recorder, None)

    def enter(self, args: Sequence[Any], program: Any, recorder: Any) -> None:
        """Keep a program and recipes, as the C++ code has them, for calls like this one."""
        self._module.enter(self._table, tuple(args), program, recorder, None)

    def opened(self, entry: Any) -> Any:
        """The C++ code, with a table that has room; None where it cannot learn the plan."""
        module, record = loaded.module(entry.device), entry.record
        if module is None:
            record.open = 0 if loaded.never(entry.device) else record.open
            return None
        record.open -= 1
        if self._table is None:
            self._module, self._table = module, module.calls(self._is_tensor, self._policy)
            self.call = module.calling(self._table)
        if module.count(self._table) >= REMEMBERED:
            self.forget()
        return module

    def forget(self) -> None:
        """Drop all plans."""
        if self._table is not None:
            self._module.forget(self._table)
