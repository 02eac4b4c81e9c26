"""Kernels of everyday projects: where their sources are, and how their results are judged."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import devices
import weft
from folders import TESTS

SOURCES = TESTS / "kernels"


@cache
def load(name: str, **options: Any) -> Any:
    """The module of kernels/<name>.cu, compiled once a run, on the device of the run."""
    return devices.current.module(weft.cuda(SOURCES / f"{name}.cu", **options))


def random(*key: int) -> np.random.Generator:
    """A generator that gives every test row its own, repeatable numbers."""
    return np.random.default_rng([2024, *key])


def normal(shape: int | tuple[int, ...], *key: int) -> np.ndarray:
    """Standard normal float32 numbers."""
    return random(*key).standard_normal(shape, dtype=np.float32)


def close(got: np.ndarray, want: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Assert that the result is the float64 reference's, within the tolerance."""
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=rtol, atol=atol)


def bfloat16(x: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 of finite numbers, as uint16 bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
