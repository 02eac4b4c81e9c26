"""Computes the work of one PTX instruction per thread: (unit, operations).

A fused multiply-add is two operations, a packed instruction as many as it has halves, and a
tensor-core instruction its share of what the warp or the warpgroup does. Units:

    fp16 fp32 fp64    floating-point arithmetic, by type (bf16 counts as fp16)
    special           approximate functions: ex2, lg2, sin, rcp, ...
    integer           integer and bit arithmetic, comparisons of integers
    tensor.TYPE       tensor-core products, by the type of their inputs
    convert move memory sync control    everything else: one operation an instruction
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from weft.ptx import isa
from weft.ptx.isa.columns import (
    AsyncStep,
    Completion,
    Control,
    Participants,
    ResultForm,
    Waits,
    WorkUnit,
)
from weft.ptx.isa.control import control
from weft.ptx.isa.memory import textures
from weft.ptx.model import SIZES

_FLOATS = {
    "f16": ("fp16", 1), "bf16": ("fp16", 1), "f16x2": ("fp16", 2), "bf16x2": ("fp16", 2),
    "f32": ("fp32", 1), "f32x2": ("fp32", 2), "f64": ("fp64", 1),
}  # fmt: skip
_INPUTS = re.compile("f16|f32|bf16|tf32|f64|e4m3|e5m2|s8|u8|s4|u4|b1|s32")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def work(parts: Sequence[str]) -> tuple[str, int]:
    """The work of an opcode, which is split at its dots."""
    of_row = _row(parts).work
    if of_row.unit is WorkUnit.TENSOR:
        return _tensor(parts, of_row.operations)
    if of_row.unit is not WorkUnit.ARITHMETIC:
        return of_row.unit.value, of_row.operations
    kind = next((p for p in reversed(parts) if p in _FLOATS), None)
    if kind is None or parts[-1] == "pred":
        return "integer", of_row.operations
    unit, halves = _FLOATS[kind]
    return unit, halves * of_row.operations


def operations(opcode: str) -> int:
    """Operations of one element: 2 for a multiply-add."""
    return _row(opcode.split(".")).work.operations


def expands(opcode: str) -> int:
    """Machine instructions that the assembler makes of one of PTX, about."""
    parts = opcode.split(".")
    counts = _row(parts).work.expands
    return next((counts[p] for p in parts if p in counts), 1)


def result(opcode: str) -> ResultForm:
    """The work of an instruction of this kind."""
    return _row(opcode.split(".")).form


def is_multiply_add(opcode: str) -> bool:
    """A multiply-add of floating-point numbers."""
    parts = opcode.split(".")
    return result(opcode) is ResultForm.PRODUCT_SUM and work(parts)[0].startswith("fp")


_REMOVED = (
    ResultForm.COPY,
    ResultForm.ADDRESS,
    ResultForm.NEGATION,
    ResultForm.NOT,
    ResultForm.CONVERSION,
)


@functools.cache
def is_removed(opcode: str) -> bool:
    """An instruction that the assembler makes an operand of others: a move, a sign, a widening."""
    return result(opcode) in _REMOVED


_BY_CALLS = (ResultForm.QUOTIENT, ResultForm.RECIPROCAL, ResultForm.ROOT)
_EXACT = 6
"""Machine instructions of the shortest of these that is exact; others are approximations."""


@functools.cache
def has_slow_path(opcode: str) -> bool:
    """A division or root of floats that is exact, or a division of 64 bits.

    It is a special function and steps after it, or a call for operands that these cannot take.
    Nothing is moved past the branch between both.
    """
    _, kind = operation(opcode)
    wide = SIZES.get(kind) == 8 or kind in _FLOATS
    return wide and result(opcode) in _BY_CALLS and expands(opcode) >= _EXACT


def joins_block(opcode: str) -> bool:
    """An instruction in which the threads of a block take part: a barrier."""
    return _row(opcode.split(".")).participants is Participants.BLOCK


@functools.cache
def is_warpgroup_product(opcode: str) -> bool:
    """A matrix product of a warpgroup."""
    row = _row(opcode.split("."))
    return row.work.unit is WorkUnit.TENSOR and row.participants is Participants.WARPGROUP


@functools.cache
def is_sparse(opcode: str) -> bool:
    """A matrix product whose left operand is sparse: it has metadata."""
    return any(operand.name == "e" for operand in _row(opcode.split(".")).written)


@functools.cache
def waits_at_barrier(opcode: str) -> bool:
    """An instruction at which warps wait: a barrier of the block or the cluster, an mbarrier."""
    row = _row(opcode.split("."))
    if row.waits is Waits.MBARRIER:
        return True
    of_blocks = row.participants in (Participants.BLOCK, Participants.CLUSTER)
    return row.waits is Waits.PARTICIPANTS and of_blocks


@functools.cache
def copy_step(opcode: str) -> AsyncStep | None:
    """The step of asynchronous copies by groups that an instruction does; None if it does none."""
    part = _row(opcode.split(".")).async_
    return part.step if part is not None and part.by is Completion.GROUP else None


@functools.cache
def product_step(opcode: str) -> AsyncStep | None:
    """The step of products of a warpgroup by groups that an instruction does: close one, wait."""
    part = _row(opcode.split(".")).async_
    return part.step if part is not None and part.by is Completion.PRODUCTS else None


@functools.cache
def joins_cluster(opcode: str) -> bool:
    """An instruction in which the threads of a cluster take part: its barrier."""
    return _row(opcode.split(".")).participants is Participants.CLUSTER


def reads_parameter(opcode: str) -> bool:
    """A load of a kernel parameter."""
    return _reads(opcode, "param")


def reads_constant(opcode: str) -> bool:
    """A load from constant memory."""
    return _reads(opcode, "const")


@functools.cache
def _reads(opcode: str, space: str) -> bool:
    decoded = isa.lookup(opcode.split("."))
    assert decoded is not None, f"{opcode} was executed"
    return any(x.reads and x.state_space(decoded.words) == space for x in decoded.row.effects)


@functools.cache
def operation(opcode: str) -> tuple[str, str]:
    """The operation of an atomic access, "" for others, and the type."""
    decoded = isa.lookup(opcode.split("."))
    assert decoded is not None, f"{opcode} was executed"
    return decoded.operation, decoded.type


@functools.cache
def is_atomic(opcode: str) -> bool:
    """An access that reads, changes and writes as one step."""
    return _row(opcode.split(".")).is_atomic


@functools.cache
def meets_next_launch(opcode: str) -> bool:
    """An instruction for launches that start before the one before them has ended."""
    return _row(opcode.split(".")).function is control.griddepcontrol


@functools.cache
def is_tensor_copy(opcode: str) -> bool:
    """A bulk copy of a box that a tensor map describes."""
    return any(operand.name == "map" for operand in _row(opcode.split(".")).written)


@functools.cache
def fetches_texture(opcode: str) -> bool:
    """A fetch of a texture."""
    return _row(opcode.split(".")).function.__module__ == textures.__name__


@functools.cache
def branches(opcode: str) -> bool:
    """True if execution may go on elsewhere than at the next instruction."""
    return isa.control_of(opcode.split(".")) is not Control.NEXT


def _row(parts: Sequence[str]) -> isa.InstructionRow:
    decoded = isa.lookup(parts)
    if decoded is None:
        raise LookupError(f"no row for {'.'.join(parts)}")
    return decoded.row


def _tensor(parts: Sequence[str], each: int) -> tuple[str, int]:
    """The work of a matrix product: m n k multiply-adds of the warp, or of the warpgroup."""
    shape = next(matched for p in parts if (matched := _SHAPE.fullmatch(p)))
    m, n, k = map(int, shape.groups())
    types = [p for p in parts if _INPUTS.fullmatch(p)]
    kind = types[1] if len(types) > 2 else "f16"  # d, a, b, c; wmma leaves the f16 of a, b out
    threads = 128 if _row(parts).participants is Participants.WARPGROUP else 32
    return f"tensor.{kind}", each * m * n * k // threads
