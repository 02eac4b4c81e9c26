"""Structs that are declared in Python: what C sees is what Python packs."""

from __future__ import annotations

import doctest
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

import devices
import weft
from weft.kernels import structs
from weft.kernels.structs import (
    BFloat16,
    Bool,
    Byte,
    Double,
    Float,
    Half,
    Int,
    LongLong,
    Short,
    Struct,
    Unsigned,
    UnsignedByte,
    UnsignedLongLong,
    UnsignedShort,
    array,
    pointer,
)


@dataclass(frozen=True)
class Pair(Struct):
    key: Byte
    value: Double


@dataclass(frozen=True)
class Pairs(Struct):
    both: Annotated[tuple[Pair, ...], array(Pair, 2)]


@dataclass(frozen=True)
class Sized(Struct):
    size: Int
    more: Int


@dataclass(frozen=True)
class Everything(Struct):
    flag: Bool
    half: Half
    byte: UnsignedByte
    bf16: BFloat16
    word: Int
    wide: Annotated[LongLong, "in elements"]
    small: Short
    pairs: Annotated[tuple[Pair, ...], array(Pair, 2)]
    unsigned_short: UnsignedShort
    number: Float
    at: Annotated[int | None, pointer("const float")]
    table: Annotated[tuple[tuple[int, ...], ...], array(array(Short, 3), 2)]
    big: UnsignedLongLong
    last: Unsigned
    end: Byte


VALUE = Everything(
    True, 1.5, 200, 2.0, -7, -(1 << 40), -3, (Pair(-1, 0.5), Pair(2, -0.25)), 65535, 0.1, None,
    ((1, 2, 3), (4, 5, 6)), (1 << 64) - 1, 4000000000, -5,
)  # fmt: skip
SOURCE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
STRUCT_EVERYTHING
__global__ void k(const Everything p, double* y) {
    double all[] = {double(p.flag), __half2float(p.half), double(p.byte),
        __bfloat162float(p.bf16), double(p.word), double(p.wide), double(p.small), 0};
    int n = 0;
    for (double v : all) y[n++] = v;
    for (const Pair& q : p.pairs) y[n++] = q.key, y[n++] = q.value;
    y[n++] = p.unsigned_short, y[n++] = p.number, y[n++] = p.at == nullptr;
    for (auto& row : p.table)
        for (short v : row) y[n++] = v;
    y[n++] = double(p.big), y[n++] = p.last, y[n++] = p.end, y[n++] = sizeof(Everything);
}
"""


def test_a_kernel_sees_what_python_packs() -> None:
    y = np.zeros(25)
    module = devices.current.module(weft.cuda(SOURCE, defines=Everything.define()))
    module.k[1, 1](VALUE.pack(), y)
    want = [1, 1.5, 200, 2, -7, -(1 << 40), -3, 0, -1, 0.5, 2, -0.25, 65535, np.float32(0.1), 1]
    want += [1, 2, 3, 4, 5, 6, 2.0**64, 4000000000, -5, Everything.sizeof()]
    np.testing.assert_array_equal(y, want)


def test_a_struct_that_two_contain_is_declared_once() -> None:
    macros = structs.defines(Pairs, Everything)
    assert "struct Pair {" in macros["STRUCT_PAIRS"]
    assert "struct Pair {" not in macros["STRUCT_EVERYTHING"]
    assert "struct Pair {" in Everything.define()["STRUCT_EVERYTHING"]


def test_a_field_may_be_called_size() -> None:
    assert Sized(1, 2).pack() == np.array([1, 2], np.int32).tobytes()
    assert Sized.sizeof() == 8


def test_the_declaration() -> None:
    assert Pair.declaration() == "struct Pair {\n    signed char key;\n    double value;\n};"
    text = Everything.declaration()
    for line in (
        "    __half half;",
        "    long long wide;  // in elements",
        "    Pair pairs[2];",
        "    const float* at;",
        "    short table[2][3];",
    ):
        assert line in text.splitlines()
    (macro,) = Everything.define().values()
    assert macro.startswith("struct Pair { signed char key; double value; }; struct Everything {")


def test_padding_is_zero() -> None:
    assert Pair(1, 0.0).pack() == b"\1" + bytes(15)


def test_a_bfloat16_is_rounded_to_even() -> None:
    @dataclass(frozen=True)
    class One(Struct):
        x: BFloat16

    bits = {1.0: 0x3F80, 1 + 2**-8: 0x3F80, 1 + 3 * 2**-8: 0x3F82, -0.0: 0x8000}
    assert {x: int.from_bytes(One(x).pack(), "little") for x in bits} == bits
    assert int.from_bytes(One(float("nan")).pack(), "little") & 0x7FFF > 0x7F80


# a struct to pack, and what the error says
@dataclass(frozen=True)
class Sizes(Struct):
    sizes: Annotated[tuple[int, ...], array(Int, 2)]
    pair: Pair


@dataclass(frozen=True)
class Untyped(Struct):
    x: int


class Plain(Struct):
    x: Int


ERRORS = {
    "too few": (Sizes((1,), Pair(0, 0.0)), "Sizes.sizes has another number of elements"),
    "too large": (Sizes((1, 1 << 31), Pair(0, 0.0)), "a value does not fit its field of Sizes"),
    "no struct": (Sizes((1, 2), 3), "Sizes.pair is another struct"),  # type: ignore[arg-type]
    "no type of C": (Untyped(1), "Untyped.x has no type of C"),
    "no dataclass": (Plain(), "Plain is not a dataclass"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    value, text = ERRORS[name]
    with pytest.raises(weft.ArgumentError, match=text):
        value.pack()


def test_an_array_has_elements() -> None:
    with pytest.raises(weft.ArgumentError, match="an array of C has elements"):
        array(Int, 0)


@pytest.mark.sim
def test_the_example_of_the_module() -> None:
    assert doctest.testmod(structs).failed == 0
