"""`text(node)`: the C++ of an expression, the same for CUDA and for the host."""

from __future__ import annotations

import math

from weft.fuzz.nodes import BITS, FLOATS, Node
from weft.fuzz.operations import OPS, operation_text

_MORE_BITS = {"u64": "ull", "i64": "ll", "u32": "u"}


def text(node: Node) -> str:
    """The C++ of an expression."""
    if (node.op, node.type) in OPS:
        return operation_text(node, [text(kid) for kid in node.kids])
    kids = [text(kid) for kid in node.kids]
    if node.op == "const":
        return _constant(node.type, node.value)
    if node.op in ("var", "special"):  # a bit-field would be promoted by its width
        return f"({node.type}){node.value}" if "." in node.value else str(node.value)
    if node.op == "index":
        name, length = node.value
        return f"{name}[{kids[0]} & {length - 1}]"
    if node.op == "self":
        base, *args = kids
        return f"(depth > 0 ? {node.value}({', '.join(['depth - 1', *args])}) : {base})"
    name, kind, number = node.value  # a call
    if kind == "recursive":
        kids[0] = f"(i32)({kids[0]} & 3)"
    return f"{name}{f'<{node.type}, {number}>' if kind == 'template' else ''}({', '.join(kids)})"


def _constant(type: str, value: int | float) -> str:
    if type == "bool":
        return "true" if value else "false"
    if type not in FLOATS:
        suffix = _MORE_BITS.get(type, "")
        if value == -(1 << (BITS[type] - 1)):  # has no literal of its own
            return f"(({type})({value + 1}{suffix} - 1))"
        return f"(({type}){value}{suffix})"
    if math.isinf(value):
        return f"(({type})({'-' if value < 0 else ''}1e300 * 1e300))"
    return f"(({type}){float(value).hex()})"
