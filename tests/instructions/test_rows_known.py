"""Rows that emit other code when an operand is a constant or the same in all lanes.

The general code of each row is tested elsewhere, so here it is the reference: whatever shape the
operands have, the answer is the same.
"""

from __future__ import annotations

import ctypes
from typing import Literal

import llvmlite.binding as llvm
import numpy as np
import pytest

from lanewise import UINT, run
from weft.ir import BITS, Builder, IrFunction, IrModule, Val
from weft.ptx.isa import llvm_type, lookup

Shape = int | Literal["lanes", "uniform"]
LANES = 32


def emitted(opcode: str, shapes: list[Shape]) -> tuple[str, str]:
    """IR of the row with operands of these shapes, and the type of its result."""
    decoded = lookup(opcode.split("."))
    assert decoded is not None
    b = Builder(module := IrModule(), fn := IrFunction("body", [], "void", "#1"))
    args = []
    sources = [s for s in decoded.row.operands if not s.is_dest]
    for i, (spec, shape) in enumerate(zip(sources, shapes, strict=True)):
        ty = llvm_type(decoded.types[spec.name])
        address = Val(b, "ptr", 0, f"%a{i}")
        if isinstance(shape, int):
            args.append(b.integer(ty, shape))
        else:
            args.append(b.load(ty, LANES if shape == "lanes" else 0, address, 1))
    result = b.splat(decoded.row.function(b, *args, **decoded.words), LANES)
    b.store(result, Val(b, "ptr", 0, "%out"), 1)
    b.emit("ret void")
    fn.params = [Val(b, "ptr", 0, f"%a{i}") for i in range(len(args))]
    fn.params.append(Val(b, "ptr", 0, "%out"))
    module.functions["body"] = fn.text().replace("define internal", "define")
    return module.text(), result.element


def run_shaped(opcode: str, shapes: list[Shape], columns: list[np.ndarray]) -> np.ndarray:
    text, ty = emitted(opcode, shapes)
    mod = llvm.parse_assembly(text)
    mod.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    engine = llvm.create_mcjit_compiler(mod, machine)
    engine.finalize_object()
    out = np.zeros(LANES, UINT[BITS[ty]])
    pointers = [ctypes.c_void_p(c.ctypes.data) for c in (*columns, out)]
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(pointers))
    signature(engine.get_function_address("body"))(*pointers)
    return out


def cases() -> list[tuple[str, list[Shape]]]:
    found: list[tuple[str, list[Shape]]] = []
    for op in ("div", "rem"):
        for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
            constants: list[Shape] = [0, 1, 2, 3, 7, 10, -1, -3, 1000, 1 << int(t[1:]) - 1]
            found += [(f"{op}.{t}", ["lanes", c]) for c in (*constants, "uniform")]
            found += [(f"{op}.{t}", ["uniform", "uniform"]), (f"{op}.{t}", ["uniform", "lanes"])]
    tables: list[Shape] = list(range(0, 256, 3))
    found += [("lop3.b32", ["lanes", "lanes", "uniform", table]) for table in tables]
    for selector in (0x5410, 0x7632, 0x3210, 0x1032, 0x0123, 0x4440, 0xBA98, 0x8F3C):
        found += [
            ("prmt.b32", ["lanes", "lanes", selector]),
            ("prmt.b32", ["uniform", 0, selector]),
        ]
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        found += [(f"prmt.b32.{mode}", ["lanes", "lanes", k]) for k in range(4)]
    for t in ("u32", "s32", "u64", "s64"):
        for pos, length in ((0, 8), (8, 8), (31, 1), (4, 0), (16, 200), (70, 3)):
            found.append((f"bfe.{t}", ["lanes", pos, length]))
    found += [("bfi.b32", ["lanes", "lanes", 8, 8]), ("bfi.b64", ["lanes", "uniform", 60, 99])]
    for t in ("b16", "b32", "b64"):
        found += [(f"shl.{t}", ["lanes", n]) for n in (0, 1, 16, 31, 32, 64, "uniform")]
    return found


@pytest.mark.parametrize(("opcode", "shapes"), cases(), ids=lambda v: str(v).replace(" ", ""))
def test_shape_changes_nothing(opcode: str, shapes: list[Shape]) -> None:
    decoded = lookup(opcode.split("."))
    assert decoded is not None
    sources = [s for s in decoded.row.operands if not s.is_dest]
    rng = np.random.default_rng(sum(map(ord, opcode + str(shapes))))
    columns = []
    for spec, shape in zip(sources, shapes, strict=True):
        width = BITS[llvm_type(decoded.types[spec.name])]
        top = 1 << width - 1
        column = rng.integers(0, 2 * top, LANES, np.uint64) >> rng.integers(
            0, width, LANES, np.uint64
        )
        column[:8] = [0, 1, 2, 9, top - 1, top, top + 1, 2 * top - 1]
        if shape == "uniform":
            column[:] = rng.choice(column)
        elif isinstance(shape, int):
            column[:] = shape % (2 * top)
        columns.append(column.astype(UINT[width]))
    wanted = run(opcode, columns, LANES)[0]
    np.testing.assert_array_equal(run_shaped(opcode, shapes, columns), wanted)
