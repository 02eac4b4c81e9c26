"""Watch a step while it runs without a graph, and refuse what no graph can repeat."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from weft.errors import CaptureError

_HOMES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[2]), "<")
"""Paths of files whose lines are not the user's begin with these."""
_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
_COPIES = ("aten::_to_copy", "aten::copy_")


class Watch(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation of a step, the modules that it calls and the optimisers that step.

    settled  False in a first call, which may copy from the host what is made once, such as tables
             of an optimiser
    grads    the gradients that parameters have before the step
    touched  whether the step has read or written one of them
    """

    def __init__(self, settled: bool, grads: Sequence[Any] = ()) -> None:
        super().__init__()
        self._settled = settled
        self._grads = [g for g in grads if g is not None]  # alive: their addresses stay theirs
        self._storages = {g.untyped_storage().data_ptr() for g in self._grads}
        self.touched = False
        self.modules: dict[int, torch.nn.Module] = {}
        self.optimisers: dict[int, torch.optim.Optimizer] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Watch:
        # torch.nn has this hook for all modules, and torch.optim that for all optimisers.
        on_forward = torch.nn.modules.module.register_module_forward_pre_hook
        self._handles = [
            on_forward(lambda module, args: self.modules.update({id(module): module})),
            register_optimizer_step_pre_hook(
                lambda optimiser, args, options: self._step(optimiser)
            ),
        ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()

    def _step(self, optimiser: torch.optim.Optimizer) -> None:
        self.optimisers[id(optimiser)] = optimiser
        self._notice(p.grad for group in optimiser.param_groups for p in group["params"])

    def _notice(self, tensors: Iterable[Any]) -> None:
        if self._storages and not self.touched:
            self.touched = any(
                t is not None and t.untyped_storage().data_ptr() in self._storages for t in tensors
            )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if any(tag in func.tags for tag in _READS):
            raise CaptureError(
                "weft.graph: the step reads a value of a tensor, which a replay computes later",
                where=_line(),
                got=func._schema.name,
                next="keep numbers in tensors: no .item(), no if on a tensor, no boolean mask as "
                "index; optimisers of weft.optim, or of torch.optim with capturable=True",
            )
        self._see(func, args, kwargs)
        if func._schema.is_mutable and any(map(_is_schedule, _frames())):
            raise CaptureError(
                "weft.graph: a scheduler sets the learning rate, and counts steps that a replay "
                "does not see",
                where=_line(),
                next="call scheduler.step() after the step, with a learning rate that is a tensor",
            )
        return func(*args, **kwargs)

    def _see(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        tensors = [t for t in _pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        self._notice(tensors)
        kinds = {t.device.type for t in tensors}
        to = kwargs.get("device")
        copies = func._schema.name in _COPIES
        if copies and to is not None:
            kinds.add(torch.device(to).type)
        if "cuda" in kinds and "cpu" in kinds and (self._settled or not copies):
            raise CaptureError(
                "weft.graph: a tensor on the CPU takes part, whose value a graph would not see",
                where=_line(),
                got=func._schema.name,
                next="pass it as an argument that is on the GPU, or make it there",
            )


def _line() -> str:
    """The innermost line of the user's code; in a backward pass there is none."""
    for frame in _frames():
        if not _file(frame).startswith(_HOMES):
            return f"{_file(frame)}:{frame.f_lineno}"
    return "the backward pass"


def _frames() -> Iterator[FrameType]:
    """The frames of this thread, from the innermost one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_schedule(frame: FrameType) -> bool:
    """True in the `step` of a scheduler; it also wraps that of its optimiser."""
    return _file(frame) == lr_scheduler.__file__ and frame.f_code.co_name == "step"


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename
