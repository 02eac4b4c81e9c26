"""Profiles a PyTorch script: its operations and kernels with their work, memory and least time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.device.models import GpuModel
from weft.frontends import launches
from weft.frontends.pytorch import costs
from weft.frontends.pytorch.attribution import Attribution
from weft.frontends.pytorch.operations import Operations
from weft.kernels import Launch
from weft.values.model import Call


@dataclass
class ModelProfile:
    """The calls of a script in order, and the peak of its memory."""

    gpu: GpuModel
    calls: list[Call] = field(default_factory=list)
    peak: Callable[[], int] = lambda: 0

    def watch(self, mode: Operations) -> Callable[..., None]:
        """Record the operations that a mode sees.

        It returns a function that records a launch by (kernel, arguments, number of the call).
        """
        places = Attribution()
        places.install()
        self.peak = lambda: mode.tracker.peak
        described = False  # the operation that runs now, by the kernels that it launches

        def operation(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
            nonlocal described
            place = places.place()  # of views too: the nodes of their gradients have operations
            if not described and costs.launches(func, out) and mode.is_there(args, out):
                flops, moved, new, seconds, library = costs.cost(self.gpu, func, args, kwargs, out)
                self.calls.append(
                    Call(costs.name(func), place, flops, moved, new, mode.tracker.now, seconds,
                         library, number=mode.number)
                )  # fmt: skip
            described = False

        def kernel(name: str, arguments: Any, number: int = 0) -> None:
            nonlocal described
            described = mode.running
            moved, now = sum(map(costs.size, costs.tensors(arguments))), mode.tracker.now
            seconds = moved / (self.gpu.memory_gb_per_s * 1e9)
            self.calls.append(
                Call(name, places.place(), 0, moved, 0, now, seconds, kernel=True, number=number)
            )

        mode.observers.append(operation)
        return kernel


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
