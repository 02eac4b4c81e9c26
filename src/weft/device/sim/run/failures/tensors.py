"""The errors of tensor copies that the simulated GPU refuses (`memory.tensors.job.Refusal`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from weft.device.sim.memory.tensors.job import Refusal
from weft.device.sim.memory.tensors.lines import REDUCTIONS
from weft.device.tensor_map_layout import TYPES
from weft.errors import DeviceError
from weft.ptx.isa import decode
from weft.ptx.model import Instruction

_MODES = {0: "tiled", 1: "im2col"}


class _Sentence(NamedTuple):
    """Sentences about the number that was found: the mistake, the allowed values, the next step."""

    what: Callable[[int], str]
    allowed: str
    next: str


_SENTENCES: Mapping[int, _Sentence] = {
    Refusal.NOT_A_MAP: _Sentence(
        lambda n: "is given memory that is no tensor map",
        "128 bytes that weft.tensor_map or cuTensorMapEncode* made",
        "pass the map as `const __grid_constant__ CUtensorMap`, and its address to the copy",
    ),
    Refusal.RANK: _Sentence(
        lambda n: f"is given the map of a tensor with {n} dimensions",
        "a map of as many dimensions as the instruction has coordinates",
        "compare the box of the map with `.1d` to `.5d` of the instruction",
    ),
    Refusal.MODE: _Sentence(
        lambda n: f"is given a {_MODES[n]} map",
        "a tiled map for `.tile`, an im2col map for `.im2col`",
        "make the map with weft.tensor_map, or with weft.im2col_map",
    ),
    Refusal.BASE: _Sentence(
        lambda n: f"is given a tensor at address {n:#x}",
        "an address that is a multiple of 16",
        "look at what tensormap.replace wrote to the map",
    ),
    Refusal.INNER: _Sentence(
        lambda n: f"is given a box whose innermost dimension has {n} bytes",
        "a multiple of 16 bytes",
        "look at what tensormap.replace wrote to the map",
    ),
    Refusal.SWIZZLED: _Sentence(
        lambda n: f"is given a box of {n} bytes in the innermost dimension, wider than its swizzle",
        "at most the 32, 64 or 128 bytes of the swizzle",
        "take a smaller box, or a wider swizzle",
    ),
    Refusal.SHARED: _Sentence(
        lambda n: f"is given byte {n} of shared memory",
        "a multiple of 128; 256, 512 or 1024 where a swizzle of 32, 64 or 128 bytes begins",
        "declare the array `__shared__ alignas(1024)`, and keep the sizes of stages multiples",
    ),
    Refusal.COORDINATE: _Sentence(
        lambda n: f"begins {n} bytes into the innermost dimension",
        "an innermost coordinate of a multiple of 16 bytes",
        "copy from the multiple of 16 bytes before it, with a wider box",
    ),
    Refusal.INTERLEAVE: _Sentence(
        lambda n: f"is given the map of an interleaved tensor with {n} dimensions",
        "3 to 5 dimensions with interleave",
        "look at what tensormap.replace wrote to the map",
    ),
    Refusal.NEGATIVE: _Sentence(
        lambda n: f"stores at coordinate {n}",
        "coordinates from 0 on; a load takes negative ones, too",
        "begin the box inside the tensor",
    ),
    Refusal.TYPE: _Sentence(
        lambda n: f"cannot reduce elements of {TYPES[n].name}",
        "",
        "make the map with another dtype, or reduce in registers",
    ),
}


def explain(
    kernel: str, line: str, ins: Instruction | None, why: int, number: int, got: str
) -> DeviceError:
    """The error for a copy; `number` is what was found wrong."""
    sentence = _SENTENCES[why]
    allowed = sentence.allowed
    if why == Refusal.TYPE and ins is not None:
        allowed = "elements of " + ", ".join(REDUCTIONS[decode(ins).operation])
    what = f"a tensor copy of {kernel} {sentence.what(number)}"
    return DeviceError(what, where=line, got=got, allowed=allowed, next=sentence.next)
