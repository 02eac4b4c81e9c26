"""weft/wgmma.cuh, against NumPy: by wgmma, and by mma.sync for other GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import everyday
from device_library import run
from everyday import random
from weft.source import compile_cuda

WIDTHS = (32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 208, 256)


def integers(shape: tuple[int, int], *key: int) -> np.ndarray:
    """Small integers, of which every product and sum is exact."""
    return random(*key).integers(-2, 3, shape).astype(np.float32)


def as_type(ctype: str, x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16) if ctype == "__half" else everyday.bfloat16(x)


@pytest.mark.parametrize(
    ("ctype", "width", "a_columns", "b_columns"),
    [
        ("__half", 64, False, False),
        ("__nv_bfloat16", 96, False, False),
        ("__half", 128, True, True),
        ("__nv_bfloat16", 64, False, True),
    ],
)
def test_a_product(ctype: str, width: int, a_columns: bool, b_columns: bool) -> None:
    a, b = integers((64, 64), 1), integers((64, width), 2)
    c = np.zeros((64, width), np.float32)
    words = f"{ctype}, {width // 8}, {str(a_columns).lower()}, {str(b_columns).lower()}"
    left, right = a.T if a_columns else a, b if b_columns else b.T
    operands = (as_type(ctype, np.ascontiguousarray(x)) for x in (left, right))
    run("wgmma", f"product<{words}>", (1, 128, 32 * 1024), *operands, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_the_left_operand_in_registers(ctype: str) -> None:
    a, b = integers((64, 16), 3), integers((16, 64), 4)
    c = np.zeros((64, 64), np.float32)
    operands = (as_type(ctype, x) for x in (a, b))
    run("wgmma", f"from_registers<{ctype}>", (1, 256, 4 * 1024), *operands, c)
    np.testing.assert_array_equal(c, a @ b)


def test_every_width_is_one_instruction_on_hopper() -> None:
    """Two types, and the left operand in shared memory or in registers."""
    names = [f"widths<{t}, {w // 8}>" for t in ("__half", "__nv_bfloat16") for w in WIDTHS]
    path = everyday.SOURCES / "device_library" / "wgmma.cu"
    text = compile_cuda(path, arch="sm_90a", name_expressions=names).text
    for width in WIDTHS:
        for ctype in ("f16", "bf16"):
            assert text.count(f"m64n{width}k16.f32.{ctype}.{ctype} ") == 2
    assert "setmaxnreg" not in text  # in the other kernels, which are templates
