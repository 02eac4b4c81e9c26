"""Runs one lane-wise row on arrays, without a kernel around it: the quick way to try a row."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from weft.ir import BITS, Builder, IrFunction, IrModule, Val
from weft.ptx.isa import llvm_type, lookup

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

UINT = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def build(opcode: str, lanes: int) -> tuple[str, list[str], list[str]]:
    """IR of `run(count, in0.., out0..)` over the row, with its source and result types."""
    decoded = lookup(opcode.split("."))
    assert decoded is not None, f"no row for {opcode}"
    row = decoded.row
    sources = [s for s in row.operands if not s.is_dest]
    types_in = [llvm_type(decoded.types[s.name]) for s in sources]
    module = IrModule()
    fn = IrFunction("body", [], "void", "#1")
    b = Builder(module, fn)
    args = []
    for i, ty in enumerate(types_in):
        p = Val(b, "ptr", 0, f"%a{i}")
        if ty == "i1":
            v = b.load("i8", lanes, p, 1).ne(0)
        else:
            v = b.reinterpret(b.load(f"i{BITS[ty]}", lanes, p, 1), ty)
        args.append(v)
    result = row.function(b, *args, **decoded.words)
    outs = list(result) if isinstance(result, tuple) else [result]
    types_out = []
    for j, v in enumerate(outs):
        v = b.splat(b.bits(v), lanes) if lanes else b.bits(v)
        v = v.zext("i8") if v.element == "i1" else v
        types_out.append(v.element)
        b.store(v, Val(b, "ptr", 0, f"%o{j}"), 1)
    b.emit("ret void")
    fn.params = [Val(b, "ptr", 0, f"%a{i}") for i in range(len(args))]
    fn.params += [Val(b, "ptr", 0, f"%o{j}") for j in range(len(outs))]
    module.functions["body"] = fn.text().replace("define internal", "define")
    return module.text(), types_in, types_out


def compile_ir(text: str, name: str, count: int) -> tuple[Any, object]:
    """The machine code of one function of pointers, and what must stay alive with it."""
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
        codemodel="jitdefault",
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)
    return signature(engine.get_function_address(name)), (engine, machine)


@lru_cache(maxsize=512)  # tests of one opcode are near each other; all take over a gigabyte
def _compiled(opcode: str, lanes: int) -> tuple[tuple[Any, object], list[str], list[str]]:
    text, ins, outs = build(opcode, lanes)
    return compile_ir(text, "body", len(ins) + len(outs)), ins, outs


def run(opcode: str, inputs: Sequence[np.ndarray], lanes: int = 32) -> list[np.ndarray]:
    """Bit patterns in (unsigned arrays of the operands' width), bit patterns out."""
    (fn, _), ins, outs = _compiled(opcode, lanes)
    n = len(inputs[0])
    step = max(lanes, 1)
    total = -(-n // step) * step
    bufs = []
    for x, ty in zip(inputs, ins, strict=True):
        dt = UINT[max(8, BITS[ty])]
        a = np.zeros(total, dt)
        a[:n] = np.asarray(x).astype(np.uint64).astype(dt)
        bufs.append(a)
    res = [np.zeros(total, UINT[max(8, BITS[ty])]) for ty in outs]
    addresses = [(a.ctypes.data, a.itemsize) for a in (*bufs, *res)]
    for i in range(0, total, step):
        fn(*[start + i * size for start, size in addresses])
    return [r[:n] for r in res]


def check(opcode: str, inputs: list[np.ndarray], want: np.ndarray, lanes: int = 32) -> None:
    """Holds the results of an opcode to these bits."""
    (got,) = run(opcode, inputs, lanes)
    bad = np.flatnonzero(got != want)
    assert bad.size == 0, (
        f"{opcode}: {bad.size} of {want.size} differ, first "
        + f"{[hex(int(x[bad[0]])) for x in inputs]} -> {int(got[bad[0]]):#x}, "
        + f"not {int(want[bad[0]]):#x}"
    )
