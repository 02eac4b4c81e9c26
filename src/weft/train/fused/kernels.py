"""The kernels of a step for a network and a batch: launches, and the memory between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from weft import kernels
from weft.kernels import CudaModule, Kernel, cdiv
from weft.ops.core.target import Target

HOME = Path(__file__).with_name("cuda")
TAPS = 9
MOMENTS = TAPS * (TAPS + 1)
ROWS, SLICE, WIDTH = 64, 8, 32
"""Images of a block of the linear layers; hidden units of a block of the last layer's gradients;
inputs of the first linear layer that are a chunk or a tile."""
MOST_SPLIT = 64
"""Parts of the first linear layer's depth, which the next kernel adds up."""
NORM, SCORES = 4, 16
"""Numbers of the kernels' struct Norm, and of a row of score gradients."""


@dataclass(frozen=True)
class NetworkSizes:
    """The network: images of side x side, channels of both blocks, hidden units, classes."""

    side: int = 28
    first: int = 32
    second: int = 64
    hidden: int = 128
    classes: int = 10

    @staticmethod
    def of(layers: torch.nn.Sequential) -> NetworkSizes:
        """The sizes of the layers that `network()` makes."""
        first, second, hidden, last = (layers[i] for i in (0, 4, 9, 11))
        side = 4 * math.isqrt(hidden.in_features // second.out_channels)
        return NetworkSizes(
            side, first.out_channels, second.out_channels, hidden.out_features, last.out_features
        )

    @property
    def supported(self) -> bool:
        """True if there are kernels for the network: net.cuh and backward.cu assert the same."""
        return (
            self.side % 4 == 0 and self.side <= 32 and self.first in (16, 32)
            and self.second % 32 == 0 and self.second >= 2 * self.first
            and self.hidden % 128 == 0 and self.classes <= 16
        )  # fmt: skip

    @property
    def mid(self) -> int:
        """Pixels after the first pooling."""
        return (self.side // 2) ** 2

    @property
    def flat(self) -> int:
        """Values after the second pooling."""
        return self.second * (self.side // 4) ** 2

    @property
    def weights(self) -> int:
        """The number of weights of the second convolution."""
        return self.second * self.first * TAPS


@dataclass(frozen=True)
class Blocks:
    """The number of blocks that share the work of each kernel.

    moments           images
    features          images of the convolutions
    columns, groups   output channels and groups of warps of a block of theirs
    split, chunks     the depth of the first linear layer, forward; its chunks of a block
    parts             the images of the first linear layer, backward
    images, roles     the images of the second convolution's gradients; blocks of an image
    """

    moments: int
    features: int
    columns: int
    groups: int
    split: int
    chunks: int
    parts: int
    images: int
    roles: int


def blocks(sizes: NetworkSizes, batch: int, exact: bool, sms: int) -> Blocks:
    """The blocks of each kernel: enough for all SMs, and little to add up."""
    tiles, small = cdiv(batch, ROWS), 2 * batch <= sms
    depth = sizes.flat // WIDTH
    chunks = cdiv(depth, min(MOST_SPLIT, max(1, 2 * sms // tiles)))
    # A small batch has an SM for each half of the output channels of an image.
    columns = 32 if small or sizes.second % 64 else 64
    groups = 2 if small or exact else 1
    resident = sms * 2 // groups * columns // sizes.second
    return Blocks(
        moments=min(batch, sms),
        features=min(batch, max(1, resident)), columns=columns, groups=groups,
        split=cdiv(depth, chunks), chunks=chunks,
        parts=min(tiles, max(1, 2 * sms // depth)),
        images=min(batch, sms if exact else 2 * sms), roles=2 if small else 1,
    )  # fmt: skip


@functools.cache
def _module(file: str, sizes: NetworkSizes) -> CudaModule:
    defines = {name.upper(): str(value) for name, value in vars(sizes).items()}
    # Constants that only a template uses count as unused until it is instantiated.
    return kernels.cuda(
        HOME / f"{file}.cu", defines=defines, include=[HOME], options=["--diag-suppress=177"]
    )


def _kernel(name: str, sizes: NetworkSizes, *arguments: Any) -> Kernel:
    words = ", ".join(str(a).lower() for a in arguments)
    return _module(name, sizes).kernel(f"{name}<{words}>" if words else name)


def _number(file: str, sizes: NetworkSizes, name: str, at: int = 0) -> int:
    """A number that a source computes for its launch."""
    return int(_module(file, sizes).variable(name, np.int32)[at])


class StepMemory:
    """Tensors between the kernels, by name."""

    def __init__(
        self, s: NetworkSizes, b: Blocks, batch: int, exact: bool, device: torch.device
    ) -> None:
        def new(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.empty(shape, dtype=dtype, device=device)

        self.moments = new(b.moments, MOMENTS)
        self.totals = new(MOMENTS, dtype=torch.float64)
        pieces = 2 if exact else 1  # halves of a number
        self.forward, self.backward = (
            new(s.weights * pieces // 2, dtype=torch.uint32) for _ in range(2)
        )
        self.norms = [new(s.first, NORM), new(s.second, NORM)]
        self.maps = new(batch, s.mid, s.first * pieces, dtype=torch.uint16)
        self.places = new(batch, s.first, s.mid, dtype=torch.uint8)
        self.raw = new(batch, s.mid, s.second)
        self.statistics = new(b.features, s.second, 2)
        self.selected, self.map_gradient = new(batch, s.flat), new(batch, s.flat)
        self.partial = new(b.split, batch, s.hidden)
        self.h = new(batch, s.hidden)
        self.h_gradient = new(batch, s.hidden * pieces, dtype=torch.uint16)
        self.score_gradient, self.losses = new(batch, SCORES), new(batch)
        self.hidden_parts = new(b.parts, s.hidden, s.flat)
        self.sums_of_norm = new(b.parts, s.flat // WIDTH, _number("hidden", s, "tile_sums"))
        self.gradients = new((s.classes + 1) * s.hidden + s.classes)
        self.first_parts = new(b.images, s.first, TAPS + 1)
        self.second_parts = new(b.images, s.weights)


def _shared(s: NetworkSizes, columns: int, exact: bool) -> dict[str, int]:
    """Bytes of dynamic shared memory of each kernel that has some."""
    at = dict.fromkeys(("hidden", "hidden_backward", "backward"), int(exact))
    at["features"] = 2 * exact + columns // 64
    return {name: _number(name, s, "shared_bytes", i) for name, i in at.items()}


def fits(layers: torch.nn.Sequential, precision: str, gpu: Target) -> bool:
    """True if there are kernels for these sizes, and a GPU has the shared memory they need."""
    sizes = NetworkSizes.of(layers)
    if not sizes.supported:
        return False
    needs = max(_shared(sizes, 32, precision == "fp32").values())
    return gpu.capability >= (8, 0) and needs <= gpu.shared_per_block


Launch = Callable[[], None]


@dataclass(frozen=True)
class Network:
    """The tensors that a step reads and changes.

    parameters     ten tensors in PyTorch's order
    first, second  the batch norms
    flat           the momentum of all parameters, one behind the other; their gradients if they
                   are not applied
    rate, loss     the learning rate and the loss, one number each
    """

    parameters: list[torch.Tensor]
    first: torch.nn.BatchNorm2d
    second: torch.nn.BatchNorm2d
    flat: torch.Tensor
    rate: torch.Tensor
    loss: torch.Tensor


def _running(norm: torch.nn.BatchNorm2d) -> tuple[torch.Tensor, torch.Tensor]:
    assert norm.running_mean is not None and norm.running_var is not None
    return norm.running_mean, norm.running_var


def launches(
    s: NetworkSizes, b: Blocks, m: StepMemory, exact: bool, pixels: torch.Tensor,
    classes: torch.Tensor, network: Network, momentum: float, apply: bool,
) -> dict[str, Launch]:  # fmt: skip
    """The launches of a step, in order."""
    batch = len(classes)
    memory = _shared(s, b.columns, exact)
    # Gradients are means over the batch: a power of two makes them numbers near 1.
    scale = 64.0 * 2 ** (batch - 1).bit_length()
    w1, g1, b1, w2, g2, b2, wh, bh, wl, bl = network.parameters
    first, second = network.first, network.second
    threads, wide = 32 * (s.side // 4) * b.groups, _number("moments", s, "threads")
    small = cdiv(s.second + (s.classes + 1) * s.hidden + s.classes, 256)
    ends = s.first // 4 + s.weights // 64 + small + cdiv(s.hidden * s.flat // 4, 256)
    rows: dict[str, tuple[Kernel, Any, int, tuple[Any, ...]]] = {
        "moments": (
            _kernel("moments", s, exact), b.moments + cdiv(s.weights // 4, wide), wide,
            (pixels, w2, m.moments, m.forward, m.backward, batch, b.moments),
        ),
        "features": (
            _kernel("features", s, exact, b.columns, b.groups),
            b.features * (s.second // b.columns), threads,
            (pixels, m.moments, b.moments, w1, g1, b1, *_running(first), m.forward, g2,
             m.maps, m.places, m.raw, m.selected, m.statistics, m.totals, m.norms[0], first.eps,
             first.momentum, batch),
        ),
        "hidden": (
            _kernel("hidden", s, exact), (b.split, cdiv(batch, ROWS)), 256,
            (m.selected, m.statistics, b.features, g2, b2, *_running(second), wh, m.partial,
             m.norms[1], second.eps, second.momentum, batch, b.chunks),
        ),
        "loss": (
            _kernel("loss", s, exact), min(batch, 1024), 256,
            (m.partial, b.split, bh, wl, bl, classes, m.h, m.h_gradient,
             m.score_gradient, m.losses, batch, scale),
        ),
        "hidden_backward": (
            _kernel("hidden_backward", s, exact),
            s.flat // WIDTH * b.parts + s.hidden // SLICE, 256,
            (m.h, m.h_gradient, m.score_gradient, m.losses, wh, m.selected, m.norms[1],
             m.map_gradient, m.hidden_parts, m.sums_of_norm, m.gradients, network.loss, batch,
             b.parts, scale),
        ),
        "backward": (
            _kernel("backward", s, exact), b.images * b.roles,
            _number("backward", s, "threads", int(exact)),
            (pixels, m.raw, m.map_gradient, m.maps, m.places, m.backward, m.norms[1], g2,
             m.sums_of_norm, b.parts, m.first_parts, m.second_parts, batch, scale, b.roles),
        ),
        "update": (
            _kernel("update", s), ends, 256,
            (*network.parameters, network.flat, m.first_parts, b.images, m.totals, m.norms[0],
             m.second_parts, b.images, m.hidden_parts, b.parts, m.sums_of_norm, m.gradients,
             network.rate, momentum, int(apply)),
        ),
    }  # fmt: skip
    return {
        name: kernel.bind(grid, block, *args, shared_mem=memory.get(name, 0))
        for name, (kernel, grid, block, args) in rows.items()
    }
