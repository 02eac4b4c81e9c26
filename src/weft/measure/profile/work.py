"""Computes the work of one PTX instruction per thread: (unit, operations).

A fused multiply-add is two operations, a packed instruction as many as it has halves, and a
tensor-core instruction a 32nd of what the warp does. Units:

    fp16 fp32 fp64    floating-point arithmetic, by type (bf16 counts as fp16)
    special           approximate functions: ex2, lg2, sin, rcp, ...
    integer           integer and bit arithmetic, comparisons of integers
    tensor.TYPE       tensor-core products, by the type of their inputs
    convert move memory sync control    everything else: one operation an instruction
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FLOATS = {
    "f16": ("fp16", 1), "bf16": ("fp16", 1), "f16x2": ("fp16", 2), "bf16x2": ("fp16", 2),
    "f32": ("fp32", 1), "f32x2": ("fp32", 2), "f64": ("fp64", 1),
}  # fmt: skip
_SPECIAL = {"ex2", "lg2", "sin", "cos", "tanh", "rcp", "rsqrt", "sqrt"}
_FUSED = {"fma", "mad"}
_GROUPS = {
    "move": ("mov", "cvta", "selp", "slct", "prmt", "shfl", "movmatrix", "isspacep"),
    "convert": ("cvt",),
    "memory": ("ld", "st", "ldu", "atom", "red", "ldmatrix", "stmatrix", "prefetch", "prefetchu"),
    "sync": ("bar", "barrier", "membar", "fence", "mbarrier", "vote", "match", "redux", "elect"),
    "control": ("bra", "brx", "ret", "exit", "call", "trap", "brkpt", "nanosleep", "pmevent"),
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names}
_INPUTS = re.compile("f16|f32|bf16|tf32|f64|e4m3|e5m2|s8|u8|s4|u4|b1|s32")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def work(parts: Sequence[str]) -> tuple[str, int]:
    """Of an opcode, given as its dotted pieces."""
    name = parts[0]
    if name in ("mma", "wmma"):
        return _tensor(parts)
    if name in _GROUP_OF:
        return _GROUP_OF[name], 1
    if name == "cp":
        return ("memory" if "ca" in parts or "cg" in parts else "sync"), 1
    kind = next((p for p in reversed(parts) if p in _FLOATS), None)
    if kind is None or parts[-1] == "pred":
        return "integer", 2 if name in _FUSED else 1
    unit, halves = _FLOATS[kind]
    if name in _SPECIAL and "approx" in parts:
        return "special", 1
    return unit, halves * (2 if name in _FUSED else 1)


def _tensor(parts: Sequence[str]) -> tuple[str, int]:
    """`wmma.load` and `.store` are memory; a product is 2 m n k operations of the warp."""
    if "load" in parts or "store" in parts:
        return "memory", 1
    shape = next(match for p in parts if (match := _SHAPE.fullmatch(p)))
    m, n, k = map(int, shape.groups())
    types = [p for p in parts if _INPUTS.fullmatch(p)]
    kind = types[1] if len(types) == 4 else "f16"  # d, a, b, c; wmma leaves the f16 of a, b out
    return f"tensor.{kind}", 2 * m * n * k // 32
