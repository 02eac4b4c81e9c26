"""Finds the origin of an operation of torch: module, line of the script, autograd node.

Modules report when their `forward` begins and ends, and scripts their NVTX ranges. An autograd node
has the sequence number of the forward operation that made it, so its operations belong to the same
module and line.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
import warnings
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from weft import cache
from weft.frontends import activity
from weft.values.model import BACKWARD, FORWARD, OPTIMIZER, ModuleFacts, Origin, ScriptEvent
from weft.values.time import timeline

_LIBRARIES = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    | {os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))}
)


class Attribution:
    """Follows the modules and optimizers of a script."""

    def __init__(self) -> None:
        self.events: list[ScriptEvent] = []
        self.modules: dict[str, ModuleFacts] = {}
        self._stack: list[str] = []
        self._optimizers = 0
        self._ranges: dict[int, str] = {}
        self._next_range = 0
        self._names: dict[int, str] = {}
        self._forward: dict[int, Origin] = {}
        self._lines: dict[str, str] = {}
        """Module -> line of the last operation in its forward pass."""

    def install(self) -> None:
        """Follow all modules and optimizers from now on."""
        hooks = torch.nn.modules.module
        # The wrapper of a compiled module calls the hooks below too, which is intended.
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global")
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, always_call=True)
        register_optimizer_step_pre_hook(self._step)
        register_optimizer_step_post_hook(self._stepped)
        for name, function in (
            ("range_push", self._push), ("range_pop", self._pop),
            ("range_start", self._start), ("range_end", self._end), ("mark", self._mark),
        ):  # fmt: skip
            setattr(torch.cuda.nvtx, name, function)

    @property
    def phase(self) -> str:
        """The phase of the operation that runs now."""
        if torch._C._current_autograd_node() is not None:
            return BACKWARD
        return OPTIMIZER if self._optimizers else FORWARD

    def place(self) -> Origin:
        """The origin of the operation that runs now."""
        node = torch._C._current_autograd_node()
        if node is not None and self._stack:
            # A checkpoint computes its forward pass again, on a GPU in a thread without user code.
            owner = self._owner()
            return Origin(owner, self._lines.get(owner) or _line(), f"{node.name()}, recomputed")
        if node is not None:
            forward = self._forward.get(node._sequence_nr(), Origin(line=_line()))
            return forward._replace(node=node.name())
        place = Origin(self._owner(), _line())
        self._lines[place.module] = place.line
        # The node of a forward operation is made just before the operation runs.
        self._forward.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)
        return place

    def _owner(self) -> str:
        """The NVTX ranges that are open, outermost first, and the module."""
        return " > ".join([*self._ranges.values(), *self._stack[-1:]])

    def _begin(self, message: str) -> int:
        self._next_range += 1
        self._ranges[self._next_range] = message
        return self._next_range

    def _push(self, message: str) -> int:
        activity.note(timeline.PUSH, message)
        return self._begin(message)

    def _start(self, message: str) -> int:
        number = self._begin(message)
        activity.note(timeline.START, message, number=number)
        return number

    def _end(self, number: int) -> None:
        activity.note(timeline.END, number=number)
        self._ranges.pop(number, None)

    def _pop(self) -> None:
        if self._ranges:
            activity.note(timeline.POP)
            self._ranges.popitem()

    def _mark(self, message: str) -> None:
        activity.note(timeline.MARK, message)

    def _enter(self, module: Any, _: Any) -> None:
        if id(module) not in self._names:
            root = type(module).__name__
            for name, part in module.named_modules():
                path = self._names.setdefault(id(part), f"{root}.{name}" if name else root)
                self.modules.setdefault(path, _facts(part))
        name = self._names[id(module)]
        # A checkpoint repeats forward passes inside of a backward pass.
        if not self._stack and torch._C._current_autograd_node() is None:
            has = any(True for _ in module.parameters())
            self.events.append(ScriptEvent(FORWARD, name, has))
        self._stack.append(name)

    def _leave(self, *_: Any) -> None:
        self._stack.pop()

    def _step(self, optimizer: Any, *_: Any) -> None:
        name = f"{type(optimizer).__name__}.step"
        self.events.append(ScriptEvent(OPTIMIZER, name))
        self._optimizers += 1
        self._stack.append(name)

    def _stepped(self, *_: Any) -> None:
        self._optimizers -= 1
        self._stack.pop()


def _facts(module: Any) -> ModuleFacts:
    own = module.parameters(recurse=False)
    return ModuleFacts(type(module).__name__, sum(p.numel() * p.element_size() for p in own))


def _line() -> str:
    """FILE:LINE of the innermost frame outside of libraries."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_users(frame.f_code.co_filename):
            return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@functools.cache
def _is_users(path: str) -> bool:
    """False for libraries and for the code that `torch.compile` writes into the cache."""
    real = os.path.realpath(path)
    compiled = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    folders = (str(cache.directory()), *filter(None, [compiled]))
    others = (*_LIBRARIES, *map(os.path.realpath, folders))
    # Inductor's own choice is such a folder for each user.
    generated = f"{os.sep}torchinductor_" in real
    return os.path.isfile(path) and not generated and not real.startswith(others)
