"""weft/wgmma_int8.cuh, against NumPy: exact sums of integers."""

from __future__ import annotations

import numpy as np
import pytest

import everyday
from device_library import run
from everyday import random
from weft.source import compile_cuda

WIDTHS = (8, 24, *range(16, 257, 16))
SOURCE = everyday.SOURCES / "device_library" / "wgmma_int8.cu"


@pytest.mark.parametrize("groups", [3, 6])
def test_a_product(groups: int) -> None:
    """Every value of 8 bits, and sums that float16 could not hold."""
    columns = 8 * groups
    a, b = (random(k).integers(-128, 128, (rows, 128)) for k, rows in ((1, 64), (2, columns)))
    a[0], b[0] = -128, -128
    c = np.zeros((64, columns), np.int32)
    operands = a.astype(np.int8), b.astype(np.int8)
    run("wgmma_int8", f"product<{groups}>", (1, 128, 32 * 1024), *operands, c)
    np.testing.assert_array_equal(c, a @ b.T)


def test_every_width_is_one_instruction() -> None:
    names = [f"widths<{width // 8}>" for width in WIDTHS]
    text = compile_cuda(SOURCE, arch="sm_90a", name_expressions=names).text
    for width in WIDTHS:
        assert text.count(f"m64n{width}k32.s32.s8.s8 ") == 1


def test_floats_and_integers_in_one_source() -> None:
    """The macros of one header leave those of the others as they were, in any order."""
    for order in (("int8", "k_major"), ("k_major", "int8")):
        text = "".join(f"#include <weft/wgmma_{name}.cuh>\n" for name in order)
        text += "__global__ void k(float* c, int* d) {\n"
        text += "    float x[2][4] = {};\n    int y[2][4] = {};\n"
        text += "    weft::wgmma_k_major<weft::E4m3, weft::E4m3>(x, 0, 0, true);\n"
        text += "    weft::wgmma_int8(y, 0, 0, true);\n    *c = x[1][3], *d = y[1][3];\n}\n"
        made = compile_cuda(text, arch="sm_90a").text
        assert made.count("m64n16k32.f32.e4m3.e4m3 ") == 1
        assert made.count("m64n16k32.s32.s8.s8 ") == 1


def test_other_architectures_stop() -> None:
    text = compile_cuda(SOURCE, arch="sm_80", name_expressions=["widths<4>"]).text
    assert "trap" in text
