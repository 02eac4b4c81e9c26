"""The expressions of a call, as kernels take them: macros, and the tensors that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from weft.kernels.structs import LongLong, Struct, array
from weft.ops.core import source
from weft.ops.core.choose import Request
from weft.ops.core.plan import Layout, Pointer
from weft.ops.families.attention.flex import text
from weft.ops.families.attention.problem import Expression

MOST = 4
"""Tensors that expressions may name, and dimensions of each."""


@dataclass(frozen=True)
class ExpressionStrides(Struct):
    """Strides of the tensors of expressions, as expression.cuh takes them."""

    of: Annotated[tuple[int, ...], array(LongLong, MOST * MOST), "in elements, MOST of each"]


def expression_of(request: Request, first: int) -> Expression:
    """The expressions of a request, whose tensors are the inputs from number `first` on."""
    names = [n for n in request.options["names"].split(",") if n]
    given = request.inputs[first : first + MOST]
    declared, strides = {}, []
    for number, layout in enumerate(given):
        own: Sequence[int] = ()
        if layout is not None and number < len(names):
            declared[names[number]] = _declaration(names[number], number, layout)
            own = layout.strides
        strides += [*own, *(0,) * (MOST - len(own))]
    macros = text.defines(request.options["score"], request.options["mask"], declared)
    pointers = (None if x is None else Pointer(first + n) for n, x in enumerate(given))
    packed = ExpressionStrides(tuple(strides)).pack()
    macros |= ExpressionStrides.define()
    return Expression(tuple(sorted(macros.items())), (*pointers, packed))


def _declaration(name: str, number: int, x: Layout) -> str:
    """A variable of C++ that is indexed as the tensor, or is its one number."""
    kind, place = source.ctype(x.dtype), f"static_cast<const {source.ctype(x.dtype)}*>(x[{number}])"
    if not x.shape:
        return f"[[maybe_unused]] const auto {name} = as_number(*{place});"
    made = f"Indexed<{kind}, {len(x.shape)}>{{{place}, strides.of + {MOST * number}}}"
    return f"[[maybe_unused]] const auto {name} = {made};"
