"""The dispatch mode that sees every operation of torch in a script.

It computes some of them as a GPU does (wide.py) and counts their memory (memory.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weft.frontends.pytorch import memory, streams, wide

after: dict[Any, Callable[[], None]] = {}
"""Operation -> a function that is called after it."""

Observer = Callable[[Any, Sequence[Any], Mapping[str, Any], Any], None]
"""Called with (operation, arguments, keyword arguments, result)."""


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """Runs operations and adds their results to a tracker."""

    supports_higher_order_operators = True
    """Also see operators whose arguments are functions, e.g. flex_attention."""

    def __init__(self, tracker: memory.Tracker) -> None:
        super().__init__()
        self.tracker = tracker
        self.observers: list[Observer] = []
        self.number = 0
        """The number of the operation that ran last; only a mode that times operations counts."""
        self.running = False
        self._by_the_script = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: else torch imports TorchDynamo, which takes seconds, at the first operation.

        `skip_dynamo` does the same once a script has imported it.
        """
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: torch.compile ignores the mode."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if any(_has_parts(kind) for kind in types):
            return NotImplemented  # the operations on the parts come here
        before, self.running, self._by_the_script = self.running, True, False
        try:
            out = self.run(func, args, kwargs or {})
        finally:
            self.running = before
        # Higher-order operators have no schema.
        observed = isinstance(func, torch._ops.OpOverload) and not self._by_the_script
        self._by_the_script = False
        # Subclasses, such as those of a trace, have no memory of their own.
        if type(out) is torch.Tensor:
            self.tracker.add(out)
        elif isinstance(out, (tuple, list)):
            for value in out:
                if type(value) is torch.Tensor:
                    self.tracker.add(value)
        for observe in self.observers if observed else ():
            observe(func, args, kwargs or {}, out)
        return out

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one operation."""
        if "device" in kwargs:  # torch left the mode that redirects: in a script's own `backward`
            kwargs = {**kwargs, "device": streams.on_cpu(kwargs["device"])}
        out = wide.run(func, args, kwargs)
        if func in after:
            after[func]()
        return out

    @contextmanager
    def by_the_script(self) -> Iterator[None]:
        """Run a script's own implementation of an operation: its inner operations are observed."""
        before, self.running = self.running, False
        try:
            yield
        finally:
            self.running, self._by_the_script = before, True

    def is_there(self, args: Sequence[Any], out: Any) -> bool:
        """True if an operation runs on the GPU: on a simulated GPU, all do."""
        return True


def _has_parts(kind: type) -> bool:
    """True for tensors of `torch.distributed` that consist of others, e.g. DTensor."""
    return kind.__module__.startswith("torch.distributed.")


def skip_dynamo() -> None:
    """Keep TorchDynamo, which is being imported, from tracing into the mode."""
    mode: Any = Operations
    plain = mode.__torch_dispatch__

    def dispatch(self: Operations, *args: Any, **options: Any) -> Any:
        dynamo: Any = sys.modules["torch._dynamo"]
        if not hasattr(dynamo, "disable"):  # an operation of the import itself
            return plain(self, *args, **options)
        mode.__torch_dispatch__ = dynamo.disable(plain, wrapping=False)
        return mode.__torch_dispatch__(self, *args, **options)

    mode.__torch_dispatch__ = dispatch
