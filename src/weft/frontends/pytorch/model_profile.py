"""Profiles a PyTorch script: its operations and kernels with their work, memory and least time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from weft.device.models import GpuModel
from weft.frontends import activity, launches
from weft.frontends.pytorch import costs, transfers
from weft.frontends.pytorch.attribution import Attribution
from weft.frontends.pytorch.holders import Holders
from weft.frontends.pytorch.operations import Operations
from weft.kernels import Launch
from weft.values.model import Call, MemoryLog, ModuleFacts, ScriptEvent, TensorType


@dataclass
class ModelProfile:
    """The calls of a script in order, its modules, and its memory."""

    gpu: GpuModel
    calls: list[Call] = field(default_factory=list)
    peak: Callable[[], int] = lambda: 0
    memory: Callable[[], MemoryLog] = MemoryLog
    events: list[ScriptEvent] = field(default_factory=list)
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)

    def watch(self, mode: Operations) -> Callable[..., None]:
        """Record the operations that a mode sees.

        It returns a function that records a launch by (kernel, arguments, number of the call).
        """
        places, holders = Attribution(), Holders(mode.tracker)
        places.install()
        holders.install()
        self.peak, self.memory = lambda: mode.tracker.peak, holders.log
        self.events, self.modules = places.events, places.modules
        launched: list[int] = []  # kernels of the operation that runs now, which describe it

        def operation(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
            # Of views too: the nodes of their gradients have operations.
            place, phase = places.place(), places.phase
            holders.place(place, phase)
            if not costs.launches(func, out) or not mode.is_there(args, out):
                launched.clear()
                return
            values = costs.named(func, args, kwargs)
            written = numbers([costs.written(func, values), out])
            facts: dict[str, Any] = {"reads": numbers((args, kwargs)), "writes": written,
                                     "operands": operands(values)}  # fmt: skip
            flops, moved, new, seconds, library, limit = costs.cost(
                self.gpu, func, args, kwargs, out
            )
            if launched:
                facts |= {"operation": costs.name(func), "library": library}
                for index in launched:
                    self.calls[index] = replace(self.calls[index], **facts)
                launched.clear()
                return
            self.calls.append(
                Call(costs.name(func), place, flops, moved, new, mode.tracker.now, seconds,
                     library, number=mode.number, phase=phase, moment=len(places.events),
                     limit=limit, **facts)
            )  # fmt: skip
            transfers.operation(self.calls[-1].name, len(self.calls), (args, kwargs, out))

        def kernel(name: str, arguments: Any, number: int = 0) -> None:
            if mode.running:
                launched.append(len(self.calls))
            moved, now = sum(map(costs.size, costs.tensors(arguments))), mode.tracker.now
            seconds = moved / (self.gpu.memory_gb_per_s * 1e9)
            self.calls.append(
                Call(name, places.place(), 0, moved, 0, now, seconds, kernel=True, number=number,
                     phase=places.phase, moment=len(places.events))
            )  # fmt: skip

        def numbers(values: Any) -> tuple[int, ...]:
            found = map(mode.tracker.number, costs.tensors(values))
            return tuple(n for n in dict.fromkeys(found) if n)

        mode.observers.append(operation)
        if activity.current is not None:
            transfers.install()
        return kernel


def operands(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, tensors by their type and shape."""
    plain = (bool, int, float, str, list, tuple, type(None))
    return {
        name: _type(value) if isinstance(value, torch.Tensor) else value
        for name, value in values.items()
        if isinstance(value, torch.Tensor) or (isinstance(value, plain) and not _has_tensor(value))
    }


def _type(tensor: torch.Tensor) -> TensorType:
    return TensorType(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def _has_tensor(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value)


def follow_weft(mode: Operations, run: Callable[[str, Any, Callable[[], None]], Any]) -> None:
    """Let `run` make the launches of weft kernels by (kernel, arguments, launch).

    Kernels inside of an operation, such as one of `weft.ops`, belong to the operation.
    """

    def call(launch: Launch, args: tuple[Any, ...], plain: Callable[[], None]) -> None:
        if mode.running:
            plain()
        else:
            run(launch.name, args, plain)

    launches.replace_weft(call)
