"""Write the CUDA C++ of operations: names of values, expressions, statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from weft.ops.core import source
from weft.ops.fuse import table
from weft.ops.fuse.group import FusionGroup, dtype_of, inputs_of, is_number
from weft.ops.fuse.masks import mask_of


class FusedOperand(NamedTuple):
    """A tensor that a kernel reads or writes: its value, and the name of its pointer."""

    node: Node
    pointer: str

    @property
    def ctype(self) -> str:
        return source.ctype(dtype_of(self.node))


@dataclass
class Names:
    """The C++ names of values."""

    group: FusionGroup

    def __post_init__(self) -> None:
        arguments = self.group.arguments
        self.inputs = [FusedOperand(n, f"p{i}") for i, n in enumerate(arguments)]
        self.outputs = [FusedOperand(n, f"q{i}") for i, n in enumerate(self.group.results)]
        self.of = {n: f"x{i}" for i, n in enumerate(arguments)}
        self.of |= {n: f"v{i}" for i, n in enumerate(self.group.nodes)}
        self.masks = [FusedOperand(n, f"m{i}") for i, n in enumerate(self.group.masks)]
        self.of |= {o.node: f"f{i}" for i, o in enumerate(self.masks)}
        self.quick = _quick(self.group)

    @property
    def parameters(self) -> str:
        """The first parameters of the kernel: operands, results, and what masks need."""
        reads = (f"const {o.ctype}* __restrict__ {o.pointer}" for o in self.inputs)
        writes = (f"{o.ctype}* __restrict__ {o.pointer}" for o in self.outputs)
        masks = (
            f"const long long* {m}_state, long long {m}_seed, long long {m}_offset, "
            f"int {m}_blocks, int {m}_magic, int {m}_shift, unsigned {m}_below, float {m}_scale"
            for m in (o.pointer for o in self.masks)
        )
        return ", ".join([*reads, *writes, *masks])

    @property
    def includes(self) -> list[str]:
        return [f'#include "{h}"' for h in ("fused.cuh", "mask.cuh")[: 1 + bool(self.masks)]]

    def made_masks(self) -> list[str]:
        """The statements that make the masks."""
        return [
            f"    const Mask<{mask_of(o.node).group}> {m}{{"
            f"PhiloxStart({m}_state, {m}_seed, {m}_offset), {m}_blocks, {m}_magic, {m}_shift, "
            f"{m}_below, {m}_scale}};"
            for o, m in ((o, o.pointer) for o in self.masks)
        ]


def _quick(group: FusionGroup) -> set[Node]:
    """Values that reach only results of half precision; they need no more than its digits."""
    half, inside = (torch.float16, torch.bfloat16), set(group.nodes)
    found: set[Node] = set()
    for node in reversed(group.nodes):
        users = [u for u in node.users if u in inside]
        returned = node in group.results and dtype_of(node) not in half
        if dtype_of(node) in half or (users and not returned and all(u in found for u in users)):
            found.add(node)
    return found


# ---- expressions -------------------------------------------------------------------------------
def arithmetic(node: Node) -> str:
    """The C++ type in which an operation computes."""
    if dtype_of(node) is torch.bool:  # a comparison computes in the type of its operands
        dtypes = [dtype_of(n) for n in inputs_of(node)] or [torch.bool]
        found = dtypes[0]
        for dtype in dtypes[1:]:
            found = torch.promote_types(found, dtype)
        numbers = [a for a in node.args if isinstance(a, float)]
        if numbers and not found.is_floating_point:
            found = torch.get_default_dtype()
        return table.compute_type(found)
    return table.compute_type(dtype_of(node))


def number_of(node: Node) -> Any:
    """The number that all elements of a value are."""
    name = table.name_of(node.target)
    position = table.FILLS[name]
    return node.args[position] if position is not None else int(name.startswith("ones"))


def _operand(value: Any, ctype: str, names: Names) -> str:
    if isinstance(value, Node) and is_number(value):
        value = number_of(value)
    if not isinstance(value, Node):
        return table.literal(value, ctype)
    name = names.of[value]
    return name if table.compute_type(dtype_of(value)) == ctype else f"to<{ctype}>({name})"


def expression(node: Node, names: Names) -> str:
    """C++ of the element of an operation that is not a reduction."""
    name = table.name_of(node.target)
    if name in table.CASTS:
        ctype = table.compute_type(dtype_of(node))
        text = _operand(node.args[0], ctype, names)
        rounded = source.ctype(dtype_of(node))
        return text if rounded == ctype else f"to<{ctype}>(to<{rounded}>({text}))"
    if name in table.SAME or name in table.VIEWS:
        return _operand(node.args[0], table.compute_type(dtype_of(node)), names)
    c = arithmetic(node)
    args = [a for a in node.args if not isinstance(a, list)]
    powers = table.POWERS if c in ("float", "double") else {2: table.POWERS[2]}
    if name == "pow" and not isinstance(args[1], Node) and args[1] in powers:
        operand = _closed(_operand(args[0], c, names))
        return powers[args[1]].format(operand).replace("C(", f"static_cast<{c}>(")
    quick = node in names.quick and c == "float"
    if name in table.FUNCTIONS:
        name, args = _function(node, name)
    types = ["bool", c, c] if name == "where" else [c] * len(args)
    given = [_operand(a, t, names) for a, t in zip(args, types, strict=False)]
    if name in ("add", "sub") and node.kwargs.get("alpha", 1) != 1:
        given[1] = f"{table.literal(node.kwargs['alpha'], c)} * {given[1]}"
    row = table.ELEMENTWISE[table.BITWISE.get(name, name)]
    row = table.QUICK.get(name, row) if quick else row
    text = row.format(*map(_closed, given)).replace("<O>", "<__half>" if quick else f"<{c}>")
    return text.replace("<C>", f"<{c}>").replace("C(", f"static_cast<{c}>(")


def _function(node: Node, name: str) -> tuple[str, list[Any]]:
    """The row and the arguments of a function with options; those left out have their defaults."""
    arguments = node.target._schema.arguments
    given = dict(zip((a.name for a in arguments), node.args, strict=False)) | node.kwargs
    values = [given.get(a.name, a.default_value) for a in arguments]
    words = [v for v in values if isinstance(v, str) and v != "none"]
    return "_".join([name, *words]), [v for v in values if not isinstance(v, str)]


def _closed(text: str) -> str:
    """An operand in parentheses if it is more than a name, a call or a number."""
    return text if re.fullmatch(r"[\w.]+|[\w<> ]+\([\w.]*\)", text) else f"({text})"


def statements(nodes: Sequence[Node], names: Names, indent: str) -> Iterator[str]:
    """One line for each operation."""
    for node in nodes:
        ctype = table.compute_type(dtype_of(node))
        yield f"{indent}const {ctype} {names.of[node]} = {expression(node, names)};"


def fetched(
    operands: Sequence[FusedOperand], names: Names, indent: str, places: Sequence[str]
) -> Iterator[str]:
    """One line for each operand: its element in the type of the arithmetic."""
    for operand, place in zip(operands, places, strict=True):
        ctype = table.compute_type(dtype_of(operand.node))
        yield f"{indent}const {ctype} {names.of[operand.node]} = to<{ctype}>({place});"
