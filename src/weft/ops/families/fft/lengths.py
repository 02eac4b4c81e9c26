"""Factorings of lengths into the stages of one block, by a model of their instructions.

A stage of radix R transforms R elements in the registers of one thread. Stages exchange their
elements through shared memory, so a few large radices are better than many small ones, until a
thread has too many registers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.kernels import cdiv
from weft.ops.families.fft import model

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)


class Stages(NamedTuple):
    """A transform of n elements by `threads` threads; the product of the radices is n."""

    n: int
    threads: int
    radices: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The most elements that a thread has in registers."""
        return max(cdiv(self.n // r, self.threads) * r for r in self.radices)

    def reversed(self) -> Stages:
        """The same stages in the opposite order."""
        return self._replace(radices=self.radices[::-1])

    def __str__(self) -> str:
        return "x".join(map(str, self.radices))


def smooth(n: int) -> bool:
    """True if a length has only prime factors that are radices."""
    for p in PRIMES:
        while n % p == 0:
            n //= p
    return n == 1


def good(least: int) -> int:
    """The shortest length from `least` on whose prime factors are 2, 3, 5 and 7."""
    best = 1
    while best < least:
        best *= 2
    for a in _powers(3, best):
        for b in _powers(5, best // a):
            for c in _powers(7, best // (a * b)):
                n = a * b * c
                while n < least:
                    n *= 2
                best = min(best, n)
    return best


def of_one_block(n: int) -> Stages | None:
    """The stages with which one block computes a transform; None if it is too long."""
    if smooth(n):
        return stages(n)[0] if n <= model.BLOCK_ELEMENTS else None
    return bluestein(n)


@functools.cache
def bluestein(n: int) -> Stages | None:
    """Stages of the transforms that compute one of n elements by convolution; None: too long."""
    lengths: list[Stages] = []
    length = 2 * n - 1
    while len(lengths) < 8 and (length := good(length)) <= model.BLOCK_ELEMENTS:
        lengths.append(stages(length)[0])
        length += 1
    return min(lengths, key=lambda s: s.n * instructions(s), default=None)


def split(n: int) -> tuple[int, ...]:
    """Two lengths, or three, whose product is n, for passes that keep accesses coalesced."""
    pairs = [(a, n // a) for a in divisors(n) if max(a, n // a) <= model.PASS_ELEMENTS]
    if pairs:
        return min(pairs, key=lambda p: (max(p), p))
    triples = [
        (a, b, n // (a * b))
        for a in divisors(n)
        for b in divisors(n // a)
        if max(a, b, n // (a * b)) <= model.PASS_ELEMENTS
    ]
    return min(triples, key=lambda t: (max(t), t), default=())


def divisors(n: int) -> list[int]:
    """The divisors of n in rising order."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*low, *(n // d for d in low)})


@functools.cache
def convenient(least: int) -> int:
    """A length from `least` on, as fast as possible."""
    lengths, length = [], least
    for _ in range(8):
        length = good(length)
        lengths.append(length)
        length += 1
    fitting = [n for n in lengths if n <= model.BLOCK_ELEMENTS]
    if not fitting:
        return lengths[0]
    # Elements cost instructions and, whatever their length, memory accesses.
    return min(fitting, key=lambda n: n * (40 + instructions(stages(n)[0])))


def _powers(p: int, most: int) -> Iterator[int]:
    n = 1
    while n <= most:
        yield n
        n *= p


@functools.cache
def stages(n: int) -> tuple[Stages, ...]:
    """Stages for a smooth length up to model.BLOCK_ELEMENTS, best first."""
    if n == 1:
        return (Stages(1, 1, (1,)),)
    longer, shorter = (
        _factored(n, model.LARGEST_RADIX),
        _factored(n, model.LONG_RADIX) if n > model.LONG_TRANSFORM else [],
    )
    # A stage less is worth more than its instructions: its threads wait at barriers. Of those with
    # larger radices, equal ones were faster on an H200 than the instructions alone say.
    if shorter and len(shorter[0]) < min(map(len, longer)):
        made = [s for s in _threaded(n, shorter) if s.elements <= max(s.radices)]
        if made:  # else it would take more threads than a block has
            return tuple(sorted(made, key=lambda s: (instructions(s) * sum(s.radices), s)))
    made = _threaded(n, longer)
    fitting = [s for s in made if s.elements <= model.THREAD_ELEMENTS] or made
    return tuple(sorted(fitting, key=lambda s: (instructions(s), s)))


def _threaded(n: int, products: Sequence[tuple[int, ...]]) -> list[Stages]:
    """Stages with these radices and different numbers of threads."""
    made = {
        Stages(n, threads, radices)
        for radices in products
        for r in set(radices)
        for parts in (1, 2, 3, 4)
        if (threads := cdiv(n // r, parts)) <= model.BLOCK_THREADS
    }
    return list(made)


def _factored(n: int, largest: int) -> list[tuple[int, ...]]:
    """Products of radices that do not decrease: those with the fewest factors.

    Of small radices also those with one more.
    """
    found = list(_products(n, largest))
    fewest = min(map(len, found)) + (largest == model.LARGEST_RADIX)
    return [f for f in found if len(f) <= fewest]


def _products(n: int, largest: int, most: int = model.LONG_RADIX) -> Iterator[tuple[int, ...]]:
    if n == 1:
        yield ()
    for r in range(min(most, n), 1, -1):
        if n % r == 0 and (r <= largest or r in PRIMES):
            for rest in _products(n // r, largest, r):
                yield (*rest, r)


def instructions(s: Stages) -> float:
    """Modelled instructions of a block for each element."""
    threads = cdiv(s.threads, 32) * 32 if s.threads >= 32 else s.threads
    total = 0.0
    for i, r in enumerate(s.radices):
        butterfly: float = _butterfly(r)
        if i:
            butterfly += model.ROOT_INSTRUCTIONS * (r - 1)
            butterfly += model.EXCHANGE_INSTRUCTIONS * r + model.STAGE_INSTRUCTIONS
        total += threads * cdiv(s.n // r, s.threads) * butterfly
    # More registers mean fewer resident threads, which hide less latency. Few threads access
    # less than 64 bytes of a transform at once.
    small = model.SMALL_GROUP_FACTOR if s.threads < 8 and s.n > 32 else 1.0
    spilled = model.REGISTER_PENALTY * max(0, s.elements - model.FREE_REGISTER_ELEMENTS)
    idle = model.IDLE_PENALTY if s.elements < 8 else 0
    return total / s.n * (1 + spilled) * small + idle


@functools.cache
def _butterfly(r: int) -> int:
    """Instructions of a transform in registers."""
    if r in (1, 2, 4):
        return {1: 0, 2: 4, 4: 16}[r]
    a = 4 if r % 4 == 0 else next(p for p in PRIMES if r % p == 0)
    if a == r:
        half = (r - 1) // 2
        return 4 * half * half + 10 * half
    b = r // a
    return b * _butterfly(a) + a * _butterfly(b) + 4 * (a - 1) * (b - 1)
