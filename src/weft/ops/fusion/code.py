"""Writes the CUDA C++ of a group: one kernel that computes all its operations.

The text has no sizes, so tensors of other shapes use the same machine code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from weft.ops import source
from weft.ops.fusion import table
from weft.ops.fusion.groups import Group, dtype_of, inputs_of, is_number

BLOCK = 256
WHOLE, REPEATED, EACH = "whole", "repeated", "each"
"""How V neighbours of an operand are read: by one load, as one element, element by element."""


class Operand(NamedTuple):
    """A tensor that a kernel reads or writes: its value, and the name of its pointer."""

    node: Node
    pointer: str

    @property
    def ctype(self) -> str:
        return source.ctype(dtype_of(self.node))


@dataclass
class Names:
    """The C++ names of values."""

    group: Group

    def __post_init__(self) -> None:
        arguments = self.group.arguments
        self.inputs = [Operand(n, f"p{i}") for i, n in enumerate(arguments)]
        self.outputs = [Operand(n, f"q{i}") for i, n in enumerate(self.group.results)]
        self.of = {n: f"x{i}" for i, n in enumerate(arguments)}
        self.of |= {n: f"v{i}" for i, n in enumerate(self.group.nodes)}

    @property
    def pointers(self) -> str:
        reads = (f"const {o.ctype}* __restrict__ {o.pointer}" for o in self.inputs)
        writes = (f"{o.ctype}* __restrict__ {o.pointer}" for o in self.outputs)
        return ", ".join([*reads, *writes])


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
        kept = table.compute_type(dtype_of(node))
        text = _operand(node.args[0], kept, names)
        rounded = source.ctype(dtype_of(node))
        return text if rounded == kept else f"to<{kept}>(to<{rounded}>({text}))"
    if name in table.SAME or name in table.VIEWS:
        return _operand(node.args[0], table.compute_type(dtype_of(node)), names)
    c = arithmetic(node)
    args = [a for a in node.args if not isinstance(a, list)]
    if name == "pow" and args[1] == 2:
        name, args = "square", args[:1]
    types = ["bool", c, c] if name == "where" else [c] * len(args)
    given = [_operand(a, t, names) for a, t in zip(args, types, strict=False)]
    if name in ("add", "sub") and node.kwargs.get("alpha", 1) != 1:
        given[1] = f"{table.literal(node.kwargs['alpha'], c)} * {given[1]}"
    text = table.ELEMENTWISE[table.BITWISE.get(name, name)].format(*map(_closed, given))
    return text.replace("<C>", f"<{c}>").replace("C(", f"static_cast<{c}>(")


def _closed(text: str) -> str:
    """An operand in parentheses if it is more than a name, a call or a number."""
    return text if re.fullmatch(r"[\w.]+|[\w<> ]+\([\w.]*\)", text) else f"({text})"


def statements(nodes: Sequence[Node], names: Names, indent: str) -> Iterator[str]:
    """One line for each operation."""
    for node in nodes:
        kept = table.compute_type(dtype_of(node))
        yield f"{indent}const {kept} {names.of[node]} = {expression(node, names)};"


def fetched(
    operands: Sequence[Operand], names: Names, indent: str, places: Sequence[str]
) -> Iterator[str]:
    """One line for each operand: its element in the type of the arithmetic."""
    for operand, place in zip(operands, places, strict=True):
        kept = table.compute_type(dtype_of(operand.node))
        yield f"{indent}const {kept} {names.of[operand.node]} = to<{kept}>({place});"


# ---- elementwise kernels -----------------------------------------------------------------------
def flat(group: Group, modes: Sequence[str], vector: int) -> str:
    """A kernel whose operands all have the order of the results, or are one element."""
    names = Names(group)
    single = [m == REPEATED for m in modes]
    lines = [*_head(f"{names.pointers}, long long n")]
    lines += [f"    const long long i = (blockIdx.x * {BLOCK}ll + threadIdx.x) * {vector};"]
    if vector > 1:
        lines += [f"    if (i + {vector} <= n) {{"]
        for operand, one in zip(names.inputs, single, strict=True):
            read = (
                f"broadcast<{vector}>({operand.pointer})"
                if one
                else f"load<{vector}>({operand.pointer} + i)"
            )
            lines.append(f"        const auto in_{operand.pointer} = {read};")
        lines += _vector_body(names, vector, "        ")
        lines += [f"        store({o.pointer} + i, out_{o.pointer});" for o in names.outputs]
        lines += ["        return;", "    }"]
    lines += [f"    for (long long j = i; j < n && j < i + {vector}; j++) {{"]
    places = [
        f"{o.pointer}[{0 if one else 'j'}]" for o, one in zip(names.inputs, single, strict=True)
    ]
    lines += fetched(names.inputs, names, "        ", places)
    lines += statements(group.nodes, names, "        ")
    lines += [f"        {o.pointer}[j] = to<{o.ctype}>({names.of[o.node]});" for o in names.outputs]
    return "\n".join([*lines, "    }", "}", ""])


def strided(group: Group, modes: Sequence[str], vector: int, rank: int, index: str) -> str:
    """A kernel whose operands have any strides; the innermost rows are whole vectors."""
    names = Names(group)
    sizes = ", ".join(
        f"{index} size{d}, {index} magic{d}, {index} shift{d}" for d in range(1, rank)
    )
    steps = ", ".join(f"{index} {o.pointer}_{d}" for o in names.inputs for d in range(rank))
    lines = _head(", ".join(t for t in (names.pointers, f"{index} n", sizes, steps) if t))
    lines += [f"    const {index} i = ({index}(blockIdx.x) * {BLOCK} + threadIdx.x) * {vector};",
              "    if (i >= n) return;"]  # fmt: skip
    rest = "i"
    for d in range(rank - 1, 0, -1):
        lines += [f"    const {index} rest{d} = quotient({rest}, magic{d}, shift{d});",
                  f"    const {index} at{d} = {rest} - rest{d} * size{d};"]  # fmt: skip
        rest = f"rest{d}"
    lines += [f"    const {index} at0 = {rest};"]
    for operand, mode in zip(names.inputs, modes, strict=True):
        p = operand.pointer
        place = " + ".join(f"at{d} * {p}_{d}" for d in range(rank))
        lines.append(f"    const {operand.ctype}* __restrict__ from_{p} = {p} + ({place});")
        if mode == WHOLE:
            lines.append(f"    const auto in_{p} = load<{vector}>(from_{p});")
        elif mode == REPEATED:
            lines.append(f"    const auto in_{p} = broadcast<{vector}>(from_{p});")
        else:
            lines += [
                f"    Vector<{operand.ctype}, {vector}> in_{p};", "#pragma unroll",
                f"    for (int k = 0; k < {vector}; k++)",
                f"        in_{p}[k] = from_{p}[k * {p}_{rank - 1}];",
            ]  # fmt: skip
    lines += _vector_body(names, vector, "    ")
    lines += [f"    store({o.pointer} + i, out_{o.pointer});" for o in names.outputs]
    return "\n".join([*lines, "}", ""])


def _head(parameters: str) -> list[str]:
    bounds = f"__launch_bounds__({BLOCK})"
    return ['#include "fused.cuh"', "", f'extern "C" __global__ void {bounds}',
            f"fused({parameters}) {{"]  # fmt: skip


def _vector_body(names: Names, vector: int, indent: str) -> list[str]:
    lines = [f"{indent}Vector<{o.ctype}, {vector}> out_{o.pointer};" for o in names.outputs]
    lines += ["#pragma unroll", f"{indent}for (int k = 0; k < {vector}; k++) {{"]
    places = [f"in_{o.pointer}[k]" for o in names.inputs]
    lines += fetched(names.inputs, names, indent + "    ", places)
    lines += statements(names.group.nodes, names, indent + "    ")
    lines += [
        f"{indent}    out_{o.pointer}[k] = to<{o.ctype}>({names.of[o.node]});"
        for o in names.outputs
    ]
    return [*lines, f"{indent}}}"]
