"""A plan as a step of a program in C++."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from weft.device import arrays, driver
from weft.device.gpu import machine, native_launch, pending
from weft.device.gpu.addressed_launch import call_of, checked
from weft.device.gpu.call import LaunchSlot
from weft.ops.core import runner
from weft.ops.core.plan import Constant, Counters, Map, Plan, Pointer, Step, Word

Row = tuple[Any, ...]
"""A step as the C++ code reads it: its kind, then its parts."""
NONE = -1
"""The number of a tensor that is left out."""
WORDS = 2
"""The words of a plan that has any: a seed and an offset."""
_COUNTERS, _WORDS = -1, -2
"""The numbers of the counters and of the first word among the tensors of a plan."""


def configure(module: Any) -> None:
    """Give the C++ code the driver's launch and torch's current stream."""
    exchange, library = (
        arrays.exchange(getattr(torch.Tensor, native_launch.EXCHANGE)),
        driver.library(),
    )
    module.configure(
        machine.address(library.cuLaunchKernelEx),
        exchange.work_stream,
        machine.address(library.cuStreamIsCapturing),
        ctypes.addressof(pending.ring),
        pending.RECORDED,
    )


class Entry(Protocol):
    """A plan, and the function that runs it."""

    @property
    def plan(self) -> Plan: ...
    @property
    def run(self) -> runner.Run: ...
    @property
    def device(self) -> torch.device: ...


def step(entry: Entry, inputs: Sequence[int], words: Sequence[int] | None = ()) -> Row | None:
    """The step that runs a plan on tensors of these numbers; None if only Python can.

    words  the ints of the call that no plan depends on; None: each call gives them
    On the simulated GPU, a step is a call of Python.
    """
    plan, device, run = entry.plan, entry.device, entry.run
    if device.type != "cuda":
        fixed = words or ()
        call = (lambda *tensors: run(*tensors, *fixed)) if fixed else run
        return "function", inputs, call, WORDS if words is None else 0
    kernels = [_kernel(s, device, words) for s in plan.steps]
    if None in kernels:
        return None
    buffers = [(b.shape, b.steps, b.dtype, b.zeroed) for b in (*plan.outputs, *plan.scratch)]
    counted = any(isinstance(a, Counters) for s in plan.steps for a in s.args)
    counters = functools.partial(runner.counters, device) if counted else None
    return "launches", inputs, buffers, len(plan.outputs), kernels, counters, device


def _kernel(step: Step, device: torch.device, words: Sequence[int] | None) -> Row | None:
    launch, packed, arguments = runner.prepare(step, device.index or 0)
    call, params, addresses = call_of(launch), bytearray(packed), []
    for argument, at in arguments:
        if isinstance(argument, Map):
            argument = argument.pointer  # a map begins with its address
        if isinstance(argument, Pointer):
            addresses.append((at, argument.number, argument.offset))
        elif isinstance(argument, Counters):
            addresses.append((at, _COUNTERS, argument.offset))
        elif isinstance(argument, Constant):
            struct.pack_into("<Q", params, at, runner.constant(argument, device).data_ptr())
        elif isinstance(argument, Word) and words is None:
            addresses.append((at, _WORDS - argument.number, 0))
        elif isinstance(argument, Word) and words is not None:
            struct.pack_into("<Q", params, at, words[argument.number] % 2**64)
    offsets = call.layout.offsets
    if len(params) > native_launch.ROOM or len(offsets) > native_launch.MANY:
        return None
    slot, block = LaunchSlot(call), bytes(params)
    slow = checked(launch, block, [at for at, *_ in addresses])
    return (bytes(slot.config), call.function, block, offsets, addresses,
            pending.number(call.name), slow, slot)  # fmt: skip
