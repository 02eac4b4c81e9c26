"""Numbers of GPUs: "2..1024" is the powers of two, "4,6" these alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.errors import ArgumentError

MOST = 1024


class Worlds(NamedTuple):
    """Numbers of GPUs; of a range, those that a layout cannot use are left out."""

    sizes: tuple[int, ...]
    ranged: bool


def worlds(given: object) -> Worlds:
    """Read a number, several of them, or a range."""
    if isinstance(given, int) and not isinstance(given, bool):
        return _checked([given], given, False)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return _checked(list(given), given, False)
    text = given if isinstance(given, str) else ""
    first, dots, last = text.partition("..")
    parts = (first, last) if dots else tuple(text.split(","))
    if not all(part.strip().isdecimal() for part in parts):
        raise _refused(given)
    numbers = [int(part) for part in parts]
    if not dots:
        return _checked(numbers, given, False)
    _checked(numbers, given, True)
    powers = [1 << k for k in range(1, MOST.bit_length()) if numbers[0] <= 1 << k <= numbers[1]]
    return _checked(powers, given, True)


def _checked(numbers: list[int], given: object, ranged: bool) -> Worlds:
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if not numbers or not whole or not all(2 <= n <= MOST for n in numbers):
        raise _refused(given)
    return Worlds(tuple(dict.fromkeys(numbers)), ranged)


def _refused(given: object) -> ArgumentError:
    return ArgumentError(
        "gpus is no number of GPUs",
        got=repr(given),
        allowed=f"2 to {MOST:,}: a number, several with commas, or a range of powers of two",
        next='for example "8", "2,4,6" or "2..1024"',
    )
