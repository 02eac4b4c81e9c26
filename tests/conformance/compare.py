"""Results of two devices side by side: how many differ, by how much, and the first of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def digest(arrays: Sequence[np.ndarray]) -> str:
    """64 bits that stand for all results."""
    h = hashlib.blake2b(digest_size=8)
    for x in arrays:
        h.update(np.ascontiguousarray(x).tobytes())
    return h.hexdigest()


def compare(
    sources: Sequence[np.ndarray],
    real: Sequence[np.ndarray],
    simulated: Sequence[np.ndarray],
    kind: str = "",
) -> dict[str, Any]:
    """`differing` operands, and where there are some: `ulp` for floats, and `example`."""
    wrong = np.zeros(len(real[0]), bool)
    for a, b in zip(real, simulated, strict=True):
        wrong |= a != b
    out: dict[str, Any] = {"differing": int(wrong.sum())}
    if out["differing"]:
        at = int(np.flatnonzero(wrong)[0])
        out["ulp"] = _ulp(real[0][wrong], simulated[0][wrong], kind)
        out["example"] = {
            "operands": [hex(int(x[at])) for x in sources],
            "gpu": [hex(int(x[at])) for x in real],
            "simulator": [hex(int(x[at])) for x in simulated],
        }
    return out


def _ulp(a: np.ndarray, b: np.ndarray, kind: str) -> int | None:
    """The largest distance in units of the last place; None where it means nothing."""
    if FLOAT_BITS.get(kind) != 8 * a.itemsize:
        return None
    distance = [abs(_line(x, a.itemsize) - _line(y, a.itemsize)) for x, y in zip(a, b, strict=True)]
    return max(distance)


def _line(bits: np.unsignedinteger[Any], size: int) -> int:
    """Floats in their order as integers."""
    sign = 1 << 8 * size - 1
    value = int(bits)
    return sign - value if value & sign else value
