"""weft/wgmma_k_major.cuh, against NumPy: tf32 and fp8."""

from __future__ import annotations

import numpy as np
import pytest

import everyday
from device_library import run
from everyday import random
from weft.source import compile_cuda

WIDTHS = tuple(range(8, 257, 8))
TYPES = {"Tf32": ("8", "tf32"), "E4m3": ("32", "e4m3"), "E5m2": ("32", "e5m2")}
"""K of an instruction, and its name for the type."""
PAIRS = (("Tf32", "Tf32"), ("E4m3", "E4m3"), ("E4m3", "E5m2"), ("E5m2", "E4m3"), ("E5m2", "E5m2"))


def encoded(name: str, x: np.ndarray) -> np.ndarray:
    """Integers from -2 to 2 as elements of a type."""
    if name == "Tf32":
        # The lower bits are not read.
        return (x.astype(np.float32).view(np.uint32) | 0x1FFF).view(np.float32)
    exponent, bias = (3, 7) if name == "E4m3" else (2, 15)
    magnitude = np.abs(x)
    bits = np.where(magnitude == 0, 0, (bias + (magnitude == 2)) << exponent)
    return np.asarray(bits + 128 * (x < 0), np.uint8)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_a_product(left: str, right: str) -> None:
    depth = 32 if left == "Tf32" else 128
    a, b = (random(key).integers(-2, 3, (rows, depth)) for key, rows in ((1, 64), (2, 40)))
    if left == "Tf32":  # zeros with lower bits are not 0
        a, b = np.where(a == 0, 1, a), np.where(b == 0, 1, b)
    c = np.zeros((64, 40), np.float32)
    operands = encoded(left, a), encoded(right, b)
    run("wgmma_k_major", f"product<{left}, {right}, 5>", (1, 128, 32 * 1024), *operands, c)
    np.testing.assert_array_equal(c, a @ b.T)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_every_width_is_one_instruction(left: str, right: str) -> None:
    names = [f"widths<{left}, {right}, {width // 8}>" for width in WIDTHS]
    path = everyday.SOURCES / "device_library" / "wgmma_k_major.cu"
    text = compile_cuda(path, arch="sm_90a", name_expressions=names).text
    (k, a), (_, b) = TYPES[left], TYPES[right]
    for width in WIDTHS:
        assert text.count(f"m64n{width}k{k}.f32.{a}.{b} ") == 1


def test_other_architectures_stop() -> None:
    path = everyday.SOURCES / "device_library" / "wgmma_k_major.cu"
    text = compile_cuda(path, arch="sm_80", name_expressions=["widths<E4m3, E4m3, 4>"]).text
    assert "trap" in text
