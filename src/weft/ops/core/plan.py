"""Define plans: the launches and buffers shared by calls with equal layouts and device.

A plan lists the kernels to launch in order and the tensors to allocate. Tensors are numbered:
the inputs in the order of the op's arguments, then the outputs, then the scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from weft.device.tensor_map_encoding import MapRequest
from weft.kernels import Kernel


class Buffer(NamedTuple):
    """A tensor that a call allocates; contiguous unless `strides` are given.

    Its contents are undefined unless `zeroed`.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    zeroed: bool = False
    strides: tuple[int, ...] | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        """Its strides in elements."""
        if self.strides is not None:
            return self.strides
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.append(step)
            step *= max(size, 1)
        return tuple(reversed(strides))


class Pointer(NamedTuple):
    """A kernel argument: the address of a tensor by its number, plus `offset` bytes."""

    number: int
    offset: int = 0


class Counters(NamedTuple):
    """A kernel argument: the address of `COUNTERS` 32-bit zeros, plus `offset` bytes.

    Launches of one stream share them, so a kernel must reset them to zero. `PARTIALS` bytes follow,
    whose contents are undefined at the start of a kernel: see `partials`.
    """

    offset: int = 0


class Word(NamedTuple):
    """A kernel argument: a 64-bit integer of the call, by its number among `Definition.varying`."""

    number: int


class Constant(NamedTuple):
    """A kernel argument: the address of a tensor that all calls read, such as a table.

    name  identifies its contents
    make  returns them; it is called once for each device
    """

    name: str
    make: Callable[[], torch.Tensor]


class Map(NamedTuple):
    """A kernel argument: the tensor map of a tensor; `request` leaves its address open."""

    pointer: Pointer
    request: MapRequest


COUNTERS = 1024
PARTIALS = 32 * 1024
Argument = Pointer | Counters | Constant | Word | Map | int | float | bytes | None
"""None is a null pointer, bytes are a struct."""
Dim = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One launch. Numbers and structs are fixed; addresses are set in each call.

    cluster  the blocks of a cluster; None: none
    early    the kernel calls wait_for_kernels() of weft/early_launch.cuh before it uses global
             memory, so its blocks may start before the kernel before it has ended
    """

    kernel: Kernel
    grid: Dim
    block: Dim
    args: tuple[Argument, ...]
    shared: int = 0
    cluster: Dim | None = None
    early: bool = False


@dataclass(frozen=True)
class Plan:
    """The launches and buffers of a call.

    outputs  the returned tensors: one, or a tuple of several
    """

    steps: tuple[Step, ...]
    outputs: tuple[Buffer, ...]
    scratch: tuple[Buffer, ...] = ()


class Layout(NamedTuple):
    """The properties of a tensor that a plan depends on. Strides are in elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: int

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def contiguous(self) -> bool:
        """True for row-major order without gaps."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


def layout(tensor: torch.Tensor) -> Layout:
    """The layout of a tensor; `aligned` is the alignment of its address, at most 16 bytes."""
    # Vector loads use at most 16 bytes.
    address = tensor.data_ptr() % 16
    aligned = address & -address if address else 16
    return Layout(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), aligned)


def partials(size: int) -> Counters | None:
    """Memory for so many bytes that the kernels of a call share; None if there is too little.

    It costs the call no allocation, but a call has it only once.
    """
    return Counters(4 * COUNTERS) if size <= PARTIALS else None


def result(values: list[Any]) -> Any:
    """The return value for these outputs."""
    return values[0] if len(values) == 1 else tuple(values)
