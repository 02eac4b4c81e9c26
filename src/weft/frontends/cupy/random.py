"""`cupy.random`: NumPy's generators. The numbers differ from those of a GPU with the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.frontends.cupy.host_objects import HostObject, forwarded, to_device, to_host

_UNIT_INTERVAL = frozenset({"rand", "random", "random_sample", "ranf", "sample", "uniform"})
_NATIVE_DTYPE = frozenset({"randint", "integers"})
"""Methods of NumPy that make integers of a dtype themselves."""


class _Source(HostObject):
    """A source of random numbers: its methods take `dtype=` as CuPy's do."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if not callable(found) or name in _NATIVE_DTYPE:
            return found

        def draw(*args: Any, **options: Any) -> Any:
            dtype = options.pop("dtype", None)
            if args and isinstance(args[-1], type | np.dtype):
                *args, dtype = args  # type: ignore[assignment]
            drawn = found(*args, **options)
            return drawn if dtype is None else _cast(drawn._host, np.dtype(dtype), name)

        return draw


def _cast(drawn: np.ndarray[Any, Any], dtype: np.dtype[Any], name: str) -> Any:
    made = drawn.astype(dtype)
    if name in _UNIT_INTERVAL and drawn.size and dtype.kind == "f":
        # A number next to the end of the interval must not be rounded to the end.
        end = np.nextafter(dtype.type(np.ceil(drawn.max())), dtype.type(-np.inf))
        made = np.where(made > drawn, np.minimum(made, end), made)
    return to_device(made)


class RandomState(_Source, holds=np.random.RandomState):
    """A generator as NumPy's older interface has it."""

    def __init__(self, seed: Any = None, method: object = None) -> None:
        self._host = np.random.RandomState(to_host(seed))


class Generator(_Source, holds=np.random.Generator):
    """A generator over a bit generator."""

    def __init__(self, bit_generator: Any) -> None:
        self._host = np.random.Generator(bit_generator)


class XORWOW(np.random.PCG64):
    """A bit generator under CuPy's name; its algorithm is NumPy's PCG64."""


class MRG32k3a(np.random.PCG64DXSM):
    """A bit generator under CuPy's name; its algorithm is NumPy's PCG64DXSM."""


class Philox4x3210(np.random.Philox):
    """A bit generator under CuPy's name; its algorithm is NumPy's Philox."""


def default_rng(seed: Any = None) -> Generator:
    """Return a new generator; a generator as the seed is returned as it is."""
    if isinstance(seed, Generator):
        return seed
    source = seed if isinstance(seed, np.random.BitGenerator) else XORWOW(to_host(seed))
    return Generator(source)


_state = RandomState()


def get_random_state() -> RandomState:
    """Return the generator of the functions of this module."""
    return _state


def set_random_state(rs: RandomState) -> None:
    """Choose the generator of the functions of this module."""
    global _state
    if not isinstance(rs, RandomState):
        raise TypeError(f"Random state must be an instance of RandomState. Actual: {type(rs)}")
    _state = rs


def seed(seed: Any = None) -> None:
    """Start the generator of this module anew."""
    set_random_state(RandomState(seed))


def reset_seed() -> None:
    seed()


def _function(name: str) -> Any:
    def draw(*args: Any, **options: Any) -> Any:
        return getattr(_state, name)(*args, **options)

    draw.__name__ = draw.__qualname__ = name
    return draw


def random(size: Any = None, dtype: Any = float) -> Any:
    """Draw from [0, 1)."""
    return _state.random_sample(size, dtype=dtype)


ranf = sample = random


def shuffle(a: Any) -> None:
    """Shuffle an array along its first axis."""
    forwarded(_state._host.shuffle)(a)


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(np.random.RandomState, name):
        raise AttributeError(f"module 'cupy.random' has no attribute {name!r}", name=name)
    return _function(name)
