"""weft/sparse.cuh, against NumPy: products with two of four elements along K kept."""

from __future__ import annotations

import numpy as np
import pytest

import everyday
from device_library import run
from everyday import random
from weft.source import compile_cuda

WIDTHS = tuple(range(8, 257, 8))
PLACES = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])


def as_type(ctype: str, x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16) if ctype == "__half" else everyday.bfloat16(x)


def sparse(rows: int, key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A matrix with 64 columns, its kept elements, and its metadata as the header says.

    Elements are small integers, of which every product and sum is exact.
    """
    drawn = random(key)
    places = PLACES[drawn.integers(0, len(PLACES), (rows, 16))]
    kept = drawn.integers(-2, 3, (rows, 16, 2)).astype(np.float32)
    dense = np.zeros((rows, 16, 4), np.float32)
    np.put_along_axis(dense, places, kept, 2)
    nibbles = places[..., 0] | places[..., 1] << 2
    halves = (nibbles.reshape(rows, 4, 4) << np.arange(0, 16, 4)).sum(2)
    words = [
        [halves[w + i // 4, i % 4] | halves[w + i // 4 + 8, i % 4] << 16 for i in range(32)]
        for w in range(0, rows, 16)
    ]
    return dense.reshape(rows, 64), kept.reshape(rows, 32), np.array(words, np.uint32).ravel()


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_a_product_by_a_warp(ctype: str) -> None:
    dense, kept, metadata = sparse(16, 1)
    b = random(2).integers(-2, 3, (8, 64)).astype(np.float32)
    c = np.zeros((16, 8), np.float32)
    run("sparse", f"by_a_warp<{ctype}>", (1, 32), as_type(ctype, kept), metadata,
        as_type(ctype, b), c)  # fmt: skip
    np.testing.assert_array_equal(c, dense @ b.T)


@pytest.mark.parametrize(("ctype", "width"), [("__half", 40), ("__nv_bfloat16", 64)])
def test_a_product_by_a_warpgroup(ctype: str, width: int) -> None:
    dense, kept, metadata = sparse(64, 3)
    b = random(4).integers(-2, 3, (width, 64)).astype(np.float32)
    c = np.zeros((64, width), np.float32)
    run("sparse", f"by_a_warpgroup<{ctype}, {width // 8}>", (1, 128, 16 * 1024),
        as_type(ctype, kept), metadata, as_type(ctype, b), c)  # fmt: skip
    np.testing.assert_array_equal(c, dense @ b.T)


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_every_width_is_one_instruction(ctype: str) -> None:
    names = [f"widths<{ctype}, {width // 8}>" for width in WIDTHS]
    path = everyday.SOURCES / "device_library" / "sparse.cu"
    text = compile_cuda(path, arch="sm_90a", name_expressions=names).text
    name = "f16" if ctype == "__half" else "bf16"
    for width in WIDTHS:
        assert text.count(f".sp.sync.aligned.m64n{width}k32.f32.{name}.{name} ") == 1


@pytest.mark.parametrize(
    ("arch", "kernel"), [("sm_75", "by_a_warp<__half>"), ("sm_80", "widths<__half, 4>")]
)
def test_other_architectures_stop(arch: str, kernel: str) -> None:
    path = everyday.SOURCES / "device_library" / "sparse.cu"
    assert "trap" in compile_cuda(path, arch=arch, name_expressions=[kernel]).text
