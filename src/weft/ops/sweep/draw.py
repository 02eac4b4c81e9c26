"""Draw calls of `weft.ops` at random: sizes, dtypes and strides that no kernel was tuned for.

A call is data: which op, which options, and for each tensor its dtype, its shape and how it is cut
from memory. The same call can be made for any device and by any contender.
"""

from __future__ import annotations

import math
import random
from dataclasses import asdict, dataclass
from typing import Any

import torch

PRIMES = (2, 3, 5, 7, 11, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521)


@dataclass(frozen=True)
class Between:
    """Contents from `low` up to, not including, `high`: integers, or floating-point numbers.

    mixed  a value that one of eight elements has instead, such as an index to ignore
    """

    low: float
    high: float
    mixed: float | None = None

    def __str__(self) -> str:
        shown = f"{self.low}..{self.high}"
        return shown if self.mixed is None else f"{shown} or {self.mixed}"

    def __call__(
        self, size: int, dtype: torch.dtype, device: str, generator: torch.Generator
    ) -> torch.Tensor:
        part = torch.rand(size, device=device, generator=generator, dtype=torch.float64)
        values = self.low + part * (self.high - self.low)
        values = (values if dtype.is_floating_point else values.floor()).to(dtype)
        if self.mixed is None:
            return values
        other = torch.rand(size, device=device, generator=generator) < 1 / 8
        return values.masked_fill_(other, self.mixed)


@dataclass(frozen=True)
class Tensor:
    """One argument.

    order     the dimensions in the order of memory, outermost first
    offset    elements before the first one in its storage: an odd number misaligns it
    gap       elements between two rows of the last dimension in memory
    contents  a name in CONTENTS, or a range
    grad      False for a tensor that has no gradient in a backward pass
    """

    shape: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]
    offset: int = 0
    gap: int = 0
    contents: str | Between = "plain"
    grad: bool = True

    def make(self, device: str, generator: torch.Generator) -> torch.Tensor:
        """The tensor, with random contents, which are drawn where the generator is."""
        contents = self.contents
        fill = contents if isinstance(contents, Between) else CONTENTS[contents]
        drawn = fill(self.elements, self._dtype, str(generator.device), generator)
        return self._cut(drawn.to(device))

    def empty(self, device: str) -> torch.Tensor:
        """The tensor, with no contents: enough to choose a kernel, and cheap at any size."""
        if isinstance(self.contents, Between):  # numbers outside of the range may be refused
            low = self.contents.low
            return self._cut(torch.full((self.elements,), low, dtype=self._dtype, device=device))
        return self._cut(torch.empty(self.elements, dtype=self._dtype, device=device))

    @property
    def _dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def _in_memory(self) -> list[int]:
        sizes = [self.shape[d] for d in self.order]
        return [*sizes[:-1], sizes[-1] + self.gap] if sizes else []

    @property
    def elements(self) -> int:
        """The elements in memory."""
        return math.prod(self._in_memory) + self.offset

    def _cut(self, flat: torch.Tensor) -> torch.Tensor:
        view = flat[self.offset :].view(self._in_memory)
        if self.gap:
            view = view[..., : view.shape[-1] - self.gap]
        back = [self.order.index(d) for d in range(len(self.shape))]
        return view.permute(back) if back else view


@dataclass(frozen=True)
class Call:
    """A call of an op; None stands for an optional tensor that is missing."""

    op: str
    tensors: tuple[Tensor | None, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        options = "".join(f" {k}={v}" for k, v in self.options.items())
        return f"{', '.join(map(_shown, self.tensors))}{options}"

    @property
    def elements(self) -> int:
        """The elements of all tensors, with those that they leave out."""
        return sum(t.elements for t in self.tensors if t is not None)

    def shape(self, number: int = 0) -> tuple[int, ...]:
        """The shape of a tensor that is there."""
        tensor = self.tensors[number]
        assert tensor is not None
        return tensor.shape

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _shown(t: Tensor | None) -> str:
    if t is None:
        return "none"
    return (
        f"{t.dtype} {'x'.join(map(str, t.shape)) or 'number'}"
        + ("" if list(t.order) == sorted(t.order) else f" order {''.join(map(str, t.order))}")
        + (f" +{t.offset}" if t.offset else "")
        + (f" gap {t.gap}" if t.gap else "")
        + (f" {t.contents}" if t.contents != "plain" else "")
    )


def _plain(size: int, dtype: torch.dtype, device: str, generator: torch.Generator) -> Any:
    if dtype.is_complex:
        return torch.randn(size, device=device, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(size, device=device, generator=generator, dtype=torch.float32).to(dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, (size,), device=device, generator=generator).bool()
    low, high = (0, 255) if dtype is torch.uint8 else (-1000, 1000)
    return torch.randint(low, high, (size,), device=device, generator=generator, dtype=dtype)


def _near_one(size: int, dtype: torch.dtype, device: str, generator: torch.Generator) -> Any:
    """Numbers whose products neither overflow nor vanish soon; of integers, odd ones."""
    if not dtype.is_floating_point:
        return 2 * _plain(size, dtype, device, generator) + 1
    noise = torch.randn(size, device=device, generator=generator, dtype=torch.float32)
    return (1 + noise / 128).to(dtype)


def _bytes(size: int, dtype: torch.dtype, device: str, generator: torch.Generator) -> Any:
    """Integers from 0 to 255, all as frequent."""
    return torch.randint(0, 256, (size,), device=device, generator=generator).to(dtype)


def _skewed(size: int, dtype: torch.dtype, device: str, generator: torch.Generator) -> Any:
    """Integers from 0 to 255, of which half are 0."""
    part = torch.rand(size, device=device, generator=generator) ** 8
    return (part * 256).floor().to(dtype)


CONTENTS = {"plain": _plain, "near one": _near_one, "bytes": _bytes, "skewed": _skewed}


def size(rng: random.Random, most: int) -> int:
    """One size up to a limit: log-uniform, a prime, a power of two or its neighbour."""
    chance = rng.random()
    if chance < 0.55:
        return max(1, round(math.exp(rng.uniform(0, math.log(most)))))
    if chance < 0.75:
        return int(rng.choice([p for p in PRIMES if p <= most] or [1]))
    power = int(2 ** rng.randint(0, max(0, int(math.log2(most)))))
    return max(1, min(most, power + rng.choice((-1, 0, 0, 1))))


def shape(rng: random.Random, ranks: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Sizes whose product is at most `most`, tall, wide, tiny and huge alike."""
    # Log-uniform sizes alone would be mostly tiny.
    least = 1 if rng.random() < 0.35 else math.sqrt(most)
    total = max(1, round(math.exp(rng.uniform(math.log(least), math.log(most)))))
    sizes: list[int] = []
    for _ in range(rng.choice(ranks)):
        one = size(rng, max(1, total))
        sizes.append(one)
        total = max(1, total // one)
    rng.shuffle(sizes)
    return tuple(sizes)


def tensor(rng: random.Random, shape: tuple[int, ...], dtype: str, plain: float = 0.6) -> Tensor:
    """A tensor of a shape: contiguous, or transposed, misaligned or with gaps."""
    order = tuple(range(len(shape)))
    chance = rng.random()
    if chance < plain or not shape:
        return Tensor(shape, dtype, order)
    if chance < plain + (1 - plain) * 0.5 and len(shape) > 1:
        mixed = list(order)
        rng.shuffle(mixed)
        return Tensor(shape, dtype, tuple(mixed))
    if chance < plain + (1 - plain) * 0.75:
        return Tensor(shape, dtype, order, offset=rng.choice((1, 2, 3, 5, 8)))
    return Tensor(shape, dtype, order, gap=rng.choice((1, 3, 8, 32)))


def integers(
    shape: tuple[int, ...], low: int, high: int, dtype: str = "int64", mixed: int | None = None
) -> Tensor:
    """A contiguous tensor of labels or indices; see Between."""
    return Tensor(shape, dtype, tuple(range(len(shape))), contents=Between(low, high, mixed))
