"""Values that a step reads besides its arguments, whose changes a replay would not see."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from weft.errors import CaptureError
from weft.ops.graph.inputs import FIXED
from weft.ops.graph.watch import Watch

_TRAINING = operator.attrgetter("training")
_POINTER = torch.Tensor.data_ptr
_WANTED = operator.attrgetter("requires_grad")


class Surroundings:
    """The modules, optimisers, parameters and Python numbers of a step."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self._free = dict(_free(step))
        self.modules: list[torch.nn.Module] = []
        self.optimisers: list[torch.optim.Optimizer] = []
        self.params: list[Any] = []
        self._memory: list[Any] = []

    def add(self, watch: Watch) -> bool:
        """Add what a watched call has used; True if it is new, so that keys have more parts."""
        known = {id(m) for m in (*self.modules, *self.optimisers)}
        self.modules += [m for m in watch.modules.values() if id(m) not in known]
        self.optimisers += [o for o in watch.optimisers.values() if id(o) not in known]
        groups = [group for o in self.optimisers for group in o.param_groups]
        values = [read() for read in self._free.values()]
        params = [
            *(p for m in self.modules for p in m.parameters()),
            *(p for group in groups for p in group["params"]),
            *(v for v in values if isinstance(v, torch.Tensor) and v.is_leaf),
        ]
        buffers = [b for m in self.modules for b in m.buffers()]
        self.params = list({id(p): p for p in params}.values())
        memory, before = [*self.params, *{id(b): b for b in buffers}.values()], self._memory
        self._memory = memory
        found = {id(m) for m in (*self.modules, *self.optimisers)}
        return found != known or [*map(id, memory)] != [*map(id, before)]

    def key(self) -> tuple[Any, ...]:
        """Equal for calls that one graph can serve, as far as surroundings decide it."""
        return (
            torch.is_grad_enabled(),
            _autocast(),
            self.numbers(),
            tuple(map(_TRAINING, self.modules)),
            tuple(map(_POINTER, self._memory)),
            tuple(map(_WANTED, self.params)),
            *map(_options, self.optimisers),
        )

    def labels(self) -> list[str]:
        """The name of each part of the key, for messages."""
        names = ", ".join(sorted(self._free)) or "none"
        return [
            "whether gradients are recorded",
            "autocast",
            f"a Python value that the step reads ({names})",
            "the mode of a module: train() or eval()",
            "the memory of a parameter or buffer",
            "whether a parameter requires a gradient",
            *(
                f"an option of {type(o).__name__}, such as a learning rate that is a number: make "
                "it a tensor, lr=torch.tensor(1e-3, device='cuda')"
                for o in self.optimisers
            ),
        ]

    def numbers(self) -> tuple[Any, ...]:
        """The Python numbers that the step reads by name."""
        return tuple(v for v in (read() for read in self._free.values()) if isinstance(v, FIXED))

    def check_numbers(self, before: tuple[Any, ...]) -> None:
        """Raise if a call has changed a Python number, which a replay does not."""
        if self.numbers() != before:
            raise CaptureError(
                "weft.graph: the step changes a Python value, which a replay does not",
                got=f"one of {', '.join(sorted(self._free))}",
                next="count in the loop that calls the step, or in a tensor",
            )


def _autocast() -> tuple[Any, ...]:
    return tuple(
        (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
    )


def _options(optimiser: torch.optim.Optimizer) -> tuple[Any, ...]:
    return tuple(
        value.data_ptr() if isinstance(value, torch.Tensor) else value
        for group in optimiser.param_groups
        for name, value in group.items()
        if name != "params" and isinstance(value, (*FIXED, tuple, torch.Tensor))
    )


# ---- the values that a function reads by name --------------------------------------------------
def _free(step: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, the function that reads the value now) of closures, globals and attributes."""
    if isinstance(step, functools.partial):
        yield from _free(step.func)
        return
    owner = getattr(step, "__self__", None)
    function = getattr(step, "__func__", step)
    if not inspect.isfunction(function):
        method = vars(type(step)).get("__call__")  # an object with this method
        if not inspect.isfunction(method):
            return
        owner, function = step, method
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name, functools.partial(_contents, cell)
    for name in code.co_names:
        if name in function.__globals__:
            yield name, functools.partial(function.__globals__.get, name)
        if owner is not None and name in getattr(owner, "__dict__", {}):
            yield f"self.{name}", functools.partial(owner.__dict__.get, name)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
