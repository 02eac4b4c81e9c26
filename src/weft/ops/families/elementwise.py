"""Expressions of up to three operands, for each element, with broadcasting and type promotion."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weft.errors import ArgumentError
from weft.kernels import cdiv
from weft.ops import source
from weft.ops.choose import Candidate, Request
from weft.ops.function import Definition
from weft.ops.layouts import Walk, broadcast, dense_strides, memory_order, merged
from weft.ops.plan import Argument, Buffer, Layout, Plan, Pointer, Step

THREADS = 256
OPERANDS = 3
"""Operands that the kernels take; fewer are passed again."""
RANK = 6
"""Dimensions that the strided kernel can walk."""


@dataclass(frozen=True)
class Row:
    """One op.

    expression  C++ over a, b and c in the type of the arithmetic
    gradients   torch expressions for each operand: (grad, *operands) -> gradients
    integers    may the operands be integers or booleans?
    boolean     is the result a boolean?
    """

    name: str
    operands: str
    expression: str
    doc: str
    gradients: Callable[..., Sequence[Any]] | None = None
    integers: bool = True
    boolean: bool = False


ROWS = (
    Row("add", "ab", "a + b", "a + b", lambda g, a, b: (g, g)),
    Row("sub", "ab", "a - b", "a - b", lambda g, a, b: (g, -g)),
    Row("mul", "ab", "a * b", "a * b", lambda g, a, b: (g * b, g * a)),
    Row("div", "ab", "a / b", "a / b", lambda g, a, b: (g / b, -g * a / (b * b)), integers=False),
    Row("fma", "abc", "a * b + c", "a * b + c", lambda g, a, b, c: (g * b, g * a, g)),
    Row("exp", "a", "exp(a)", "e to the power of a", lambda g, a: (g * a.exp(),), integers=False),
    Row("sqrt", "a", "sqrt(a)", "square root", lambda g, a: (g / (2 * a.sqrt()),), integers=False),
    Row("neg", "a", "-a", "-a", lambda g, a: (-g,)),
    Row("less", "ab", "a < b", "a < b", boolean=True),
)
"""Every named op of the family."""


# ---- dtypes and shapes -------------------------------------------------------------------------
def _result(row: Row, tensors: Sequence[Any]) -> tuple[torch.dtype, torch.dtype]:
    """The dtypes of the arithmetic and of the result, as torch promotes the operands."""
    dtype = tensors[0].dtype
    for other in tensors[1:]:
        dtype = torch.promote_types(dtype, other.dtype)
    if not row.integers and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    return dtype, torch.bool if row.boolean else dtype


def _arithmetic(dtype: torch.dtype) -> str:
    """The C++ type to compute in: half precision is rounded once, at the end."""
    if dtype in (torch.float16, torch.bfloat16):
        return "float"
    return "int" if dtype is torch.bool else source.ctype(dtype)


def _output(row: Row, operands: Sequence[Any]) -> Buffer:
    """The result: dense, in the memory order that all full operands share, else row-major."""
    shape = tuple(torch.broadcast_shapes(*(o.shape for o in operands)))
    orders = {memory_order(_layout(o)) for o in operands if tuple(o.shape) == shape}
    order = orders.pop() if len(orders) == 1 else None
    dtype = _result(row, operands)[1]
    return Buffer(shape, dtype, strides=dense_strides(shape, order) if order else None)


def _layout(operand: Any) -> Layout:
    if isinstance(operand, Layout):
        return operand
    return Layout(operand.dtype, tuple(operand.shape), tuple(operand.stride()), 16)


def _fake(row: Row, *tensors: Any) -> Any:
    out = _output(row, tensors)
    return tensors[0].new_empty(out.shape, dtype=out.dtype).as_strided(out.shape, out.steps)


def _check(row: Row, *tensors: Any) -> None:
    for name, tensor in zip(row.operands, tensors, strict=True):
        if tensor.dtype not in source.CTYPES:
            raise ArgumentError(
                f"weft.ops.{row.name}: '{name}' has a dtype that no kernel takes",
                got=str(tensor.dtype),
                allowed=", ".join(str(d).removeprefix("torch.") for d in source.CTYPES),
            )
    try:
        torch.broadcast_shapes(*(t.shape for t in tensors))
    except RuntimeError:
        raise ArgumentError(
            f"weft.ops.{row.name}: the shapes cannot be broadcast together",
            got=", ".join(str(list(t.shape)) for t in tensors),
            allowed="sizes that are equal or 1, counted from the last dimension",
        ) from None


# ---- kernels -----------------------------------------------------------------------------------
def _candidates(row: Row, request: Request) -> list[Candidate]:
    operands = [t for t in request.inputs if t is not None]
    out = _output(row, operands)
    n = Layout(out.dtype, out.shape, out.steps, 16).numel
    if n == 0:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), (out,)))]
    by_memory = sorted(range(len(out.shape)), key=lambda d: -out.steps[d])
    strides = [out.steps, *(broadcast(o, out.shape) for o in operands)]
    walk = merged([out.shape[d] for d in by_memory], [[s[d] for d in by_memory] for s in strides])
    moved = n * out.dtype.itemsize + sum(
        (n if any(s) else 1) * o.itemsize for o, s in zip(operands, walk.strides[1:], strict=True)
    )
    time = request.target.launch + moved / request.target.bandwidth
    if len(walk.sizes) == 1 and all(s[0] in (0, 1) for s in walk.strides):
        vector = _vector(operands, walk, out)
        why = f"all operands have one order; {vector} elements per load, {moved:,} bytes"
        return [Candidate("flat", time, why, lambda: _flat(row, operands, out, walk, vector))]
    why = f"operands are walked along {len(walk.sizes)} dimensions, {moved:,} bytes"
    return [Candidate("strided", time, why, lambda: _strided(row, operands, out, walk))]


def _vector(operands: Sequence[Layout], walk: Walk, out: Buffer) -> int:
    """Elements per load: 16 bytes of the widest type, less where an address is not aligned."""
    full = [o for o, s in zip(operands, walk.strides[1:], strict=True) if s[0]]
    widest = max(out.dtype.itemsize, *(o.itemsize for o in full), 1)
    vector: int = 16 // int(widest)
    while vector > 1 and any(o.aligned % (vector * o.itemsize) for o in full):
        vector //= 2
    return vector


def _name(row: Row, operands: Sequence[Layout], out: Buffer, kernel: str, *more: Any) -> Any:
    three = [*operands, *[operands[0]] * (OPERANDS - len(operands))]
    dtype = _result(row, operands)[0]
    types = [source.ctype(out.dtype), _arithmetic(dtype), *(source.ctype(o.dtype) for o in three)]
    arguments = ", ".join([*types, *map(str, more)])
    return source.kernel("elementwise.cu", f"{kernel}<{arguments}>", EXPRESSION=row.expression)


def _pointers(count: int) -> list[Argument]:
    """The operands, the first one again for those that there are not, and the output."""
    return [*(Pointer(i if i < count else 0) for i in range(OPERANDS)), Pointer(count)]


def _flat(row: Row, operands: Sequence[Layout], out: Buffer, walk: Walk, vector: int) -> Plan:
    n = walk.sizes[0]
    steps = [s[0] for s in walk.strides[1:]]
    steps += [0] * (OPERANDS - len(steps))
    kernel = _name(row, operands, out, "flat", vector)
    grid = (cdiv(n, THREADS * vector),)
    args = (*_pointers(len(operands)), n, *steps)
    return Plan((Step(kernel, grid, (THREADS,), args),), (out,))


def _strided(row: Row, operands: Sequence[Layout], out: Buffer, walk: Walk) -> Plan:
    if len(walk.sizes) > RANK:
        raise ArgumentError(
            f"weft.ops.{row.name}: the operands have too many dimensions of different order",
            got=f"{len(walk.sizes)} dimensions that cannot be merged", allowed=f"up to {RANK}",
            next="call x.contiguous() on one of them",
        )  # fmt: skip
    missing = RANK - len(walk.sizes)
    sizes = (1,) * missing + walk.sizes
    rows = [(0,) * missing + s for s in walk.strides]
    rows += [(0,) * RANK] * (OPERANDS + 1 - len(rows))
    shape = struct.pack(f"<{RANK}q{(OPERANDS + 1) * RANK}q", *sizes, *(s for r in rows for s in r))
    n = functools.reduce(int.__mul__, walk.sizes, 1)
    kernel = _name(row, operands, out, "strided")
    args = (*_pointers(len(operands)), n, shape)
    return Plan((Step(kernel, (cdiv(n, THREADS),), (THREADS,), args),), (out,))


# ---- definitions -------------------------------------------------------------------------------
def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def _backward(row: Row, ctx: Any, grad: Any) -> Any:
    assert row.gradients is not None
    operands = ctx.saved_tensors
    found = row.gradients(grad, *operands)
    return tuple(_summed(g, o) for g, o in zip(found, operands, strict=True))


def _summed(grad: Any, operand: Any) -> Any:
    """The gradient of an operand that was broadcast: summed over what repeated."""
    return grad.sum_to_size(operand.shape).to(operand.dtype)


def _definition(row: Row) -> Definition:
    return Definition(
        name=row.name,
        schema=f"({', '.join(f'Tensor {n}' for n in row.operands)}) -> Tensor",
        doc=f"{row.doc}, for each element; operands are broadcast and promoted as in torch.",
        fake=functools.partial(_fake, row),
        candidates=functools.partial(_candidates, row),
        check=functools.partial(_check, row),
        setup=_setup if row.gradients else None,
        backward=functools.partial(_backward, row) if row.gradients else None,
        autocast=None,
    )


DEFINITIONS = tuple(map(_definition, ROWS))
