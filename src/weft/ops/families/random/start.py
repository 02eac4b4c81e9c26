"""The seed and the offset of a call, from torch's generator of the device.

A CUDA generator has a seed and an offset; a call takes both and moves the offset, as torch's own
random functions do. A CPU generator has no offset: both are drawn from it.

Where Python runs once for many executions (torch.compile, a CUDA graph, vmap), both are drawn by
a torch op into a tensor, and kernels read them from there.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from weft.errors import ArgumentError
from weft.ops.core.choose import Request
from weft.ops.core.plan import Argument, Pointer, Word
from weft.ops.core.target import target
from weft.ops.families.random.threads import advance

_LOCK = threading.Lock()
"""Reading an offset and moving it must be one operation."""

_OWN: dict[torch.device, Any] = {}
"""The default generators of GPUs that have been used."""

# Bound once, as in eager.py.
_compiling = torch.compiler.is_compiling
_capturing = torch.cuda.is_current_stream_capturing
_interpreter: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack


class Start(NamedTuple):
    """Seed and offset of a call's numbers; `state`, a tensor of both, replaces them unless None."""

    seed: int
    offset: int
    state: Any


def start(
    op: str, n: int, device: torch.device, generator: Any = None, calls: int | None = None
) -> Start:
    """The start of a call for n elements; moves the generator, or by `calls` of Philox."""
    # The common case first: a short call would else spend most of its time here.
    own = _OWN.get(device) if generator is None and not _compiling() else None
    if own is not None and not (_interpreter() or _dispatch_modes() or _capturing()):
        return Start(*taken(own, moved_by(n, device) if calls is None else 4 * calls), None)
    if generator is not None and generator.device.type != device.type:
        raise ArgumentError(
            f"weft.ops.{op}: the generator must be on the device of the tensor",
            got=f"a generator on {generator.device}, a tensor on {device}",
            next=f"torch.Generator({device.type!r})",
        )
    if _recorded(device):
        return Start(0, 0, _drawn(device, generator))
    if device.type != "cuda":
        seed, offset = _drawn(device, generator).tolist()
        return Start(seed, offset, None)
    chosen = generator if generator is not None else source(device)
    if generator is None and device.index is not None:
        _OWN[device] = chosen
    moved = moved_by(n, device) if calls is None else 4 * calls
    return Start(*taken(chosen, moved), None)


def source(device: torch.device) -> Any:
    """torch's default generator of a GPU."""
    number = torch.cuda.current_device() if device.index is None else device.index
    return torch.cuda.default_generators[number]


@functools.lru_cache(8192)
def moved_by(n: int, device: torch.device) -> int:
    """The distance by which a call for n elements moves the generator of a GPU."""
    return advance(n, target(device))


def taken(generator: Any, moved: int) -> tuple[int, int]:
    """The seed and the offset of a CUDA generator, whose offset is moved."""
    with _LOCK:
        seed, offset = generator.initial_seed(), generator.get_offset()
        generator.set_offset(offset + moved)
    return seed - 2**64 if seed >= 2**63 else seed, offset


def beginning(request: Request) -> tuple[Argument, ...]:
    """The kernel's arguments for the start of its numbers: the tensor of both, seed, offset.

    The tensor is the second one of the op; seed and offset are its `varying` arguments.
    """
    return None if request.inputs[1] is None else Pointer(1), Word(0), Word(1)


def _drawn(device: torch.device, generator: Any) -> torch.Tensor:
    limits = -(2**63), 2**63 - 1
    return torch.randint(*limits, (2,), dtype=torch.int64, device=device, generator=generator)


def _recorded(device: torch.device) -> bool:
    """True if this call of Python may stand for other executions than the present one."""
    return (
        _compiling()
        or _interpreter() is not None
        or _dispatch_modes() > 0
        or (device.type == "cuda" and _capturing())
    )
