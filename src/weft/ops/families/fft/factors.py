"""Passes of transforms that do not fit into a block.

A transform is a pass for each of two or three factors of its length. A factor may have a large
prime: Bluestein's algorithm then computes it within a block. A length without such factors, such as
a large prime, is a convolution with a chirp, in three passes over a matrix: see long.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from weft.ops.families.fft import lengths, model
from weft.ops.families.fft.lengths import good, instructions, of_one_block, smooth, split, stages


class Matrix(NamedTuple):
    """A convolution of rows x columns elements: columns, rows and columns are transformed."""

    rows: int
    columns: int

    @property
    def elements(self) -> int:
        return self.rows * self.columns


Passes = tuple[int, ...] | Matrix
"""The lengths of passes, or the matrix of a convolution."""


def factorings(n: int, count: int) -> list[tuple[float, Passes]]:
    """Passes that compute `count` transforms, with their costs, best first."""
    matrix = None if smooth(n) else convolution(n, count)
    made: list[tuple[float, Passes]] = [(_cost(f, n, count), f) for f in _factorings(n)]
    if matrix is not None:
        made.append((_convolution_cost(matrix, n, count), matrix))
    # Without large primes all passes move the same bytes: the most balanced ones come first.
    return made if smooth(n) else sorted(made, key=lambda found: found[0])


def factors(n: int, count: int) -> Passes | None:
    """The passes of `count` transforms; None if none compute them."""
    if smooth(n):
        return split(n) or None
    made = factorings(n, count)
    return made[0][1] if made else None


def _factorings(n: int) -> list[tuple[int, ...]]:
    """The most balanced pairs of factors, or triples, that blocks can transform."""
    divisors = [d for d in lengths.divisors(n) if 1 < d <= model.PASS_ELEMENTS]
    pairs = ((a, n // a) for a in divisors)
    triples = ((a, b, n // (a * b)) for a in divisors for b in divisors if n % (a * b) == 0)
    return _balanced(pairs) or _balanced(triples)


def _balanced(products: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    made: list[tuple[int, ...]] = []
    for product in sorted((p for p in products if min(p) > 1), key=lambda p: (max(p), p)):
        if len(made) == model.FACTORINGS or max(product) > model.PASS_ELEMENTS:
            break
        if all(map(_fits, product)):
            made.append(product)
    return made


def _fits(length: int) -> bool:
    """True if a block can transform several columns of a length."""
    chosen = of_one_block(length)
    return chosen is not None and chosen.n <= model.PASS_ELEMENTS


def convolution(n: int, count: int) -> Matrix | None:
    """The matrix in which a convolution computes transforms of n elements; None: too large."""
    made = list(_matrices(n))
    return min(made, key=lambda m: (_convolution_cost(m, n, count), m), default=None)


def _matrices(n: int) -> Iterator[Matrix]:
    length = 2 * n - 1
    for _ in range(model.FACTORINGS):
        length = good(length)
        fitting = [
            Matrix(a, length // a)
            for a in lengths.divisors(length)
            if a <= model.PASS_ELEMENTS and length // a <= model.BLOCK_ELEMENTS
        ]
        # Columns are read by sectors and rows whole: about as many of both.
        yield from sorted(fitting, key=lambda m: (max(m), m))[:2]
        length += 1


# ---- costs, in elements that are read and written ----------------------------------------------
def _cost(passes: tuple[int, ...], n: int, count: int) -> float:
    return model.pass_cost([_instructions(length) for length in passes], count * n)


def _instructions(length: int) -> float:
    """Instructions of a pass for each element."""
    chosen = of_one_block(length)
    assert chosen is not None
    if chosen.n == length:
        return instructions(chosen)
    return chosen.n / length * 2 * instructions(chosen)


def _convolution_cost(matrix: Matrix, n: int, count: int) -> float:
    down, along = (instructions(stages(length)[0]) for length in matrix)
    return model.convolution_cost(n, matrix.elements, count, down, along)
