"""Generators of random numbers for CUDA: the CPU's, with the state of a GPU's.

The state of a GPU's generator is a seed and an offset, which libraries of kernels read and set. The
CPU's has 5056 bytes, so that those of the last states are kept here: a state that is set again
repeats its numbers. An unknown state starts from its seed and its offset.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any

import torch

from weft.frontends.pytorch import devices

_own: Any = torch.Generator

_STEP = 4
"""Offsets are multiples of it, as on a GPU."""
_MOST_STATES = 1024
"""States whose bits are kept, 5 MB."""
_ODD = 0x9E3779B97F4A7C15
"""Spreads offsets over the seeds of the CPU's generator."""
_WORD = 1 << 64


class _Kind(type(_own)):  # type: ignore[misc]
    """`isinstance(torch.default_generator, torch.Generator)` holds as it does without weft."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            isinstance(instance, _own)
            if cls is Generator
            else type.__instancecheck__(cls, instance)
        )


class Generator(_own, metaclass=_Kind):  # type: ignore[misc]
    """`torch.Generator`: that of the CPU, or one for CUDA."""

    def __new__(cls, device: Any = "cpu") -> Any:
        cuda = isinstance(device, int) or torch.device(device).type == "cuda"
        return super().__new__(CudaGenerator if cuda else cls)


class CudaGenerator(Generator):
    """A generator whose state is a seed and an offset."""

    @property
    def device(self) -> torch.device:
        return devices.current()

    def __init__(self, device: Any = "cuda", draws: Any = None) -> None:
        """`draws` is the generator that draws the numbers, by default this one."""
        self._draws = self if draws is None else draws
        self._bits: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._begin(_own.initial_seed(self._draws), 0)

    def _begin(self, seed: int, offset: int) -> None:
        self._seed, self._offset = seed % _WORD, offset
        self._keep(self._now())

    def _now(self) -> bytes:
        data: bytes = _own.get_state(self._draws).numpy().tobytes()
        return data

    def _keep(self, bits: bytes) -> None:
        """Keep the bits of the present state."""
        self._bits[self._seed, self._offset] = bits
        self._bits.move_to_end((self._seed, self._offset))
        while len(self._bits) > _MOST_STATES:
            self._bits.popitem(last=False)

    def _count(self) -> None:
        """Advance the offset if numbers were drawn since the state was last read or set."""
        now, before = self._now(), self._offset
        # Another state of this seed may have the next offset: other numbers were drawn then.
        while self._bits.get((self._seed, self._offset), now) != now:
            self._offset += _STEP
        if self._offset != before:
            self._keep(now)

    def _move(self, seed: int, offset: int) -> None:
        """Continue at a seed and an offset."""
        self._count()
        self._seed, self._offset = seed % _WORD, offset
        bits = self._bits.get((self._seed, offset))
        if bits is None:
            _own.manual_seed(self._draws, (self._seed + offset * _ODD) % _WORD)
        else:
            _own.set_state(self._draws, _tensor(bits))
        self._keep(bits or self._now())

    def manual_seed(self, seed: int) -> CudaGenerator:
        _own.manual_seed(self._draws, seed)
        self._begin(seed, 0)
        return self

    def seed(self) -> int:
        self._begin(_own.seed(self._draws), 0)
        return self._seed

    def initial_seed(self) -> int:
        return self._seed

    def get_offset(self) -> int:
        self._count()
        return self._offset

    def set_offset(self, offset: int) -> CudaGenerator:
        if offset % _STEP:
            raise RuntimeError(f"offset must be a multiple of {_STEP}, got {offset}")
        self._move(self._seed, offset)
        return self

    def get_state(self) -> torch.Tensor:
        self._count()
        return _tensor(struct.pack("<Qq", self._seed, self._offset))

    def set_state(self, state: torch.Tensor) -> CudaGenerator:
        if state.dtype is not torch.uint8 or state.numel() != 16:
            raise RuntimeError(
                f"RNG state is wrong size: a CUDA generator has 16 bytes, got {state.numel()} "
                f"elements of {state.dtype}"
            )
        self._move(*struct.unpack("<Qq", state.numpy().tobytes()))
        return self

    def clone_state(self) -> Any:
        other = Generator("cuda")
        _own.set_state(other, _own.get_state(self._draws))
        other._begin(self._seed, self.get_offset())
        return other

    def graphsafe_get_state(self) -> Any:
        return self.clone_state()

    def graphsafe_set_state(self, other: Any) -> CudaGenerator:
        return self.set_state(other.get_state())


def _tensor(data: bytes) -> torch.Tensor:
    """A tensor of bytes, made without an operation, which a script might implement itself."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def functions(gpus: int) -> dict[str, Any]:
    """The functions of `torch.cuda` about random numbers.

    One generator serves all GPUs, and the CPU: it draws for all tensors.
    """
    one = _own.__new__(CudaGenerator)
    one.__init__(draws=torch.default_generator)
    return {
        "default_generators": (one,) * gpus,
        "get_rng_state": lambda device="cuda": one.get_state(),
        "get_rng_state_all": lambda: [one.get_state() for _ in range(gpus)],
        "set_rng_state": lambda state, device="cuda": one.set_state(state) and None,
        "set_rng_state_all": lambda states: [one.set_state(state) for state in states] and None,
        "manual_seed": lambda seed: one.manual_seed(int(seed)) and None,
        "manual_seed_all": lambda seed: one.manual_seed(int(seed)) and None,
        "seed": lambda: one.seed() and None,
        "seed_all": lambda: one.seed() and None,
        "initial_seed": one.initial_seed,
    }
