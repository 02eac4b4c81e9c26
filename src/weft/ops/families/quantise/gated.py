"""swiglu_quantise: silu(gate) * up in 8 bits, with a scale for each row or group."""

from __future__ import annotations

import functools
import math
from typing import Any

from weft.errors import ArgumentError
from weft.ops.core import source
from weft.ops.core.choose import Candidate, Request
from weft.ops.core.composition import Composition
from weft.ops.core.function import Definition
from weft.ops.core.plan import Buffer, Layout, Plan, Pointer, Step
from weft.ops.families.quantise import arguments, model, plans
from weft.ops.families.quantise.structs import Segments
from weft.ops.families.swiglu import plans as swiglu

NAME = "swiglu_quantise"
GATE, UP, Q, SCALE = range(4)
"""Numbers of the tensors."""


def _product(gate: Layout, packed: bool) -> Layout:
    """The layout of silu(gate) * up in memory of its own."""
    buffer = Buffer((*gate.shape[:-1], swiglu.width(gate, packed)), gate.dtype)
    return Layout(gate.dtype, buffer.shape, buffer.steps, 16)


def candidates(request: Request) -> list[Candidate]:
    """In one launch if a segment fits into registers, and by both ops."""
    gate, up = request.inputs
    assert gate is not None
    product = _product(gate, up is None)
    dtype, group = request.options["dtype"], request.options["group"]
    outputs = plans.outputs_of(product.shape, dtype, group)
    if not product.numel:
        return [Candidate("empty", 0.0, "no elements", lambda: Plan((), outputs))]
    given = {"dtype": dtype, "group": group}
    parts = (
        swiglu.candidates(False, Request("swiglu", request.inputs, {}, request.target)),
        plans.candidates(Request("quantise", (product,), given, request.target)),
    )
    first, second = (min(found, key=lambda c: c.cost) for found in parts)
    build = functools.partial(_two_ops, product, outputs, first, second)
    why = f"{first.name}; {second.name}"
    return [*_fused(request, outputs), Candidate("two ops", first.cost + second.cost, why, build)]


def _two_ops(
    product: Layout, outputs: tuple[Buffer, ...], first: Candidate, second: Candidate
) -> Plan:
    made = Composition(2, outputs)
    between = made.buffer(Buffer(product.shape, product.dtype))
    made.run(first.build(), [Pointer(GATE), Pointer(UP)], [between])
    made.run(second.build(), [between], [made.output(0), made.output(1)])
    return made.plan()


def _fused(request: Request, outputs: tuple[Buffer, ...]) -> list[Candidate]:
    gate, up = request.inputs
    assert gate is not None
    n, size = outputs[0].shape[-1], gate.itemsize
    pitches = [plans.pitch_of(gate), plans.pitch_of(gate if up is None else up)]
    if pitches[0] is None or pitches[1] is None:
        return []
    group = request.options["group"] or n
    rows = math.prod(gate.shape[:-1])
    aligned = (gate.aligned // size, n if up is None else up.aligned // size)
    vector = plans.vector_of(size, group, *aligned, *(pitches if rows > 1 else ()))
    lanes = model.lanes_of(group // vector)
    if lanes is None:
        return []
    second = Pointer(GATE, n * size) if up is None else Pointer(UP)
    segments = Segments(rows * (n // group), pitches[0], group, n // group, 1)
    types = source.ctype(gate.dtype), plans.TYPES[outputs[0].dtype]

    def build() -> Plan:
        name = source.template("resident_gated", *types, vector, *lanes)
        kernel = source.kernel(plans.FILE, name, **Segments.define())
        blocks, threads = plans.blocks_of(segments.count, lanes[0])
        pointers = Pointer(GATE), second, Pointer(Q), Pointer(SCALE)
        args = (*pointers, segments.pack(), pitches[1])
        return Plan((Step(kernel, (blocks,), (threads,), args, early=True),), outputs)

    blocks, _ = plans.blocks_of(segments.count, lanes[0])
    time = model.moving_time(request.target, rows * n * (2 * size + 1), blocks)
    why = f"{segments.count} segments of {group}, {lanes[0]} threads each"
    return [Candidate("resident", time, why, build)]


def _width(gate: Any, up: Any) -> int:
    """Elements of a row of the product."""
    n: int = gate.shape[-1] // (2 if up is None else 1) if gate.dim() else 0
    return n


def _check(gate: Any, up: Any, dtype: Any, group: int | None) -> None:
    if up is not None and (up.shape != gate.shape or up.dtype is not gate.dtype):
        raise ArgumentError(
            f"weft.ops.{NAME}: gate and up must have one shape and dtype",
            got=f"gate {list(gate.shape)} {gate.dtype}, up {list(up.shape)} {up.dtype}",
        )
    if up is None and (not gate.dim() or gate.shape[-1] % 2):
        raise ArgumentError(
            f"weft.ops.{NAME}: without 'up', the last dimension of gate must be even",
            got=f"shape {list(gate.shape)}",
            allowed="[…, 2 n]: n numbers of the gate, then n numbers that it multiplies",
        )
    arguments.check(NAME, "gate", gate, _width(gate, up), dtype, group)


def _fake(gate: Any, up: Any, dtype: Any, group: int | None = None) -> tuple[Any, Any]:
    return arguments.fake(gate, _width(gate, up), dtype, group)


DEFINITIONS = (
    Definition(
        name=NAME,
        schema="(Tensor gate, Tensor? up, ScalarType dtype, int? group=None) -> (Tensor, Tensor)",
        doc="""quantise(swiglu(gate, up), dtype, group) in one launch, with the same bits.

        Without `up`, gate has shape […, 2 n], as for swiglu. dtype and group are those of quantise.
        There is no gradient.
        """,
        fake=_fake,
        candidates=candidates,
        check=_check,
        autocast=None,
    ),
)
