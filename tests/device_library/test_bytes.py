"""weft/bytes.cuh, against NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import everyday
from device_library import run
from everyday import from_bfloat16, random
from weft.source import compile_cuda

TYPES = {"E4m3": "float8_e4m3fn", "E5m2": "float8_e5m2"}


def numbers() -> np.ndarray:
    """Every half of 16 bits, each neighbour in single precision, and random numbers."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float32)  # ARM reports signalling NaNs
    near = np.concatenate([np.nextafter(halves, np.float32(s * np.inf)) for s in (-1, 1)])
    drawn = random(1).standard_normal(4096) * 2.0 ** random(2).integers(-20, 20, 4096)
    found = np.concatenate([halves, near, drawn]).astype(np.float32)
    return found[: len(found) // 4 * 4]


def by_torch(name: str, x: np.ndarray) -> np.ndarray:
    """The bits of the nearest numbers; too large ones become the largest."""
    torch: Any = pytest.importorskip("torch")
    dtype = getattr(torch, TYPES[name])
    most = torch.finfo(dtype).max
    made = torch.from_numpy(x).clamp(-most, most).to(dtype)
    return np.asarray(made.view(torch.uint8).numpy())


@pytest.mark.parametrize("name", TYPES)
def test_fp8(name: str) -> None:
    x = numbers()
    y, z = np.zeros(len(x) // 4, np.uint32), np.zeros(len(x), np.uint8)
    run("bytes", f"packed<{name}>", (-(-len(y) // 256), 256), x, y, len(y))
    run("bytes", f"by_bits<{str(name == 'E4m3').lower()}>", (-(-len(z) // 256), 256), x, z, len(z))
    want = by_torch(name, x)
    np.testing.assert_array_equal(y.view(np.uint8), want)
    np.testing.assert_array_equal(z, want)


def test_what_is_no_number() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -np.nan], np.float32)
    for name, most in (("E4m3", 0x7E), ("E5m2", 0x7B), ("signed char", 0x7F)):
        y, nan = np.zeros(1, np.uint32), 0 if name == "signed char" else 0x7F
        run("bytes", f"packed<{name}>", (1, 32), x, y, 1)
        least = 0x80 if name == "signed char" else most | 0x80
        assert y.view(np.uint8).tolist() == [nan, most, least, nan]
        if name != "signed char":
            z = np.zeros(4, np.uint8)
            run("bytes", f"by_bits<{str(name == 'E4m3').lower()}>", (1, 32), x, z, 4)
            np.testing.assert_array_equal(z, y.view(np.uint8))


def test_integers_round_to_even_and_saturate() -> None:
    x = np.array([0.5, 1.5, -2.5, 126.5, 127.6, -128.5, -129, 3e9], np.float32)
    y = np.zeros(2, np.uint32)
    run("bytes", "packed<signed char>", (1, 32), x, y, 2)
    assert y.view(np.int8).tolist() == [0, 2, -2, 126, 127, -128, -128, 127]


@pytest.mark.parametrize("ctype", ["__half", "__nv_bfloat16"])
def test_every_integer_is_exact(ctype: str) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    y = np.zeros(256, np.uint16)
    run("bytes", f"unpacked<{ctype}>", (1, 64), x.view(np.uint32), y.view(np.uint32))
    made = y.view(np.float16) if ctype == "__half" else from_bfloat16(y)
    np.testing.assert_array_equal(made.astype(np.float32), x)


def test_the_largest_numbers() -> None:
    y = np.zeros(3, np.float32)
    run("bytes", "limits", (1, 1), y)
    assert y.tolist() == [127, 448, 57344]


def test_the_instruction_is_used_where_it_is() -> None:
    path = everyday.SOURCES / "device_library" / "bytes.cu"
    for arch, used in (("sm_90", True), ("sm_80", False)):
        text = compile_cuda(path, arch=arch, name_expressions=["packed<E4m3>"]).text
        assert ("satfinite.e4m3x2" in text) is used
