"""Every lane-wise row of the instruction table against its own vectors, scalar and 32 lanes wide.

A vector reads `mad.lo.s32  2 3 4 -> 10`: sources, then results. Literals are integers (`0x` for
bit patterns), and for float types also numbers, `inf` and `nan`.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from lanewise import run
from weft.ptx.isa import InstructionRow, lookup, rows
from weft.ptx.model import SIZES

PACK = {"f16": "<e", "f32": "<f", "f64": "<d"}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}

LANEWISE = [row for row in rows() if not row.warp]
VECTORS = [pytest.param(row, vector, id=vector) for row in LANEWISE for vector in row.vectors]


def bits(literal: str, ptx_type: str) -> int:
    """A literal as the bit pattern of its type."""
    if ptx_type in NAN and not literal.startswith("0x"):
        if literal == "nan":
            return NAN[ptx_type]
        if ptx_type == "bf16":
            return bits(literal, "f32") >> 16
        packed = struct.pack(PACK[ptx_type], float(literal))
        return int.from_bytes(packed, "little")
    return int(literal, 0) & (1 << 8 * SIZES[ptx_type]) - 1


@pytest.mark.parametrize("lanes", [0, 32], ids=["scalar", "warp"])
@pytest.mark.parametrize(("row", "vector"), VECTORS)
def test_vector(row: InstructionRow, vector: str, lanes: int) -> None:
    left, _, right = vector.partition("->")
    opcode, *literals = left.split()
    decoded = lookup(opcode.split("."))
    assert decoded is not None and decoded.row is row, f"{opcode} does not select its own row"
    sources = [s for s in row.operands if not s.is_dest]
    inputs = [
        np.full(32, bits(text, decoded.types[s.name]), np.uint64)
        for text, s in zip(literals, sources, strict=True)
    ]
    types = [t for s in row.operands if s.is_dest for t in _results(decoded.types[s.name], s.pair)]
    expected = [bits(text, t) for text, t in zip(right.split(), types, strict=True)]
    got = run(opcode, inputs, lanes)
    assert [hex(int(x)) for r in got for x in np.unique(r)] == [hex(x) for x in expected]


def _results(ptx_type: str, pair: str) -> list[str]:
    """The types of a destination; the second of a pair is a predicate or the carry flag."""
    return [ptx_type, "pred"] if pair else [ptx_type]


def test_every_row_has_vectors() -> None:
    assert [row.syntax for row in LANEWISE if not row.vectors] == []
