"""Write the CUDA C++ of a group without reductions.

A thread computes V neighbours at a time, U times; all loads are issued before the first result is
stored. The text has no sizes, so tensors of other shapes use the same machine code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.ops.fuse import model
from weft.ops.fuse.code import FusedOperand, Names, fetched, statements
from weft.ops.fuse.group import FusionGroup


class ElementAccess(NamedTuple):
    """The access to V neighbours of an operand.

    single  one element serves for all
    apart   element by element
    behind  elements from a multiple of the vector's size to the first one; they are a part of two
            vectors unless it is 0
    """

    single: bool = False
    apart: bool = False
    behind: int = 0


def flat(group: FusionGroup, accesses: Sequence[ElementAccess], vector: int, unrolled: int) -> str:
    """A kernel whose operands all have the order of the results, or are one element."""
    names = Names(group)
    pairs = list(zip(names.inputs, accesses, strict=True))
    single = [o for o, a in pairs if a.single]
    read = [(o, a) for o, a in pairs if not a.single]
    step, v = model.BLOCK * vector, vector
    lines = _head(names, "long long n")
    lines += fetched(single, names, "    ", [f"*{o.pointer}" for o in single])
    start = f"(blockIdx.x * {model.BLOCK * unrolled}ll + threadIdx.x)"
    lines += [f"    const long long first = {start}{f' * {v}' if v > 1 else ''};"]
    between = any(a.behind for _, a in read)  # their first and last vectors reach out of the tensor
    whole = f"first + {(unrolled - 1) * step + v * (1 + between)} <= n"
    lines += [f"    if ({f'first >= {v} && ' if between else ''}{whole}) {{"]
    lines += _whole(names, read, v, unrolled)
    lines += ["        return;", "    }"]
    end, deeper = f"first + {v}", " " * (12 if unrolled > 1 else 8)
    if unrolled > 1:
        end = f"i + {v}"
        lines.append(
            f"    for (long long i = first; i < n && i < first + {unrolled * step}; i += {step})"
        )
    begin = "i" if unrolled > 1 else "first"
    lines += [f"{deeper[4:]}for (long long j = {begin}; j < n && j < {end}; j++) {{"]
    lines += fetched([o for o, _ in read], names, deeper, [f"{o.pointer}[j]" for o, _ in read])
    lines += fetched(names.masks, names, deeper, [f"{o.pointer}.one(j)" for o in names.masks])
    lines += statements(group.nodes, names, deeper)
    lines += [f"{deeper}{o.pointer}[j] = to<{o.ctype}>({names.of[o.node]});" for o in names.outputs]
    lines.append(f"{deeper[4:]}}}")
    return "\n".join([*lines, "}", ""])


def _whole(
    names: Names, read: Sequence[tuple[FusedOperand, ElementAccess]], vector: int, unrolled: int
) -> list[str]:
    """Loads, operations and stores of a thread whose elements are all there."""
    many = unrolled > 1
    place, one = f"first + u * {model.BLOCK * vector}" if many else "first", "[u]" if many else ""
    deeper = " " * (12 if many else 8)
    operands, lines = [o for o, _ in read], []
    if many and read:
        lines += [
            f"        Vector<{o.ctype}, {vector}> in_{o.pointer}[{unrolled}];" for o in operands
        ]
        lines += _each(unrolled, "        ")
    for o, access in read:
        load = f"load_shifted<{vector}, {access.behind}>" if access.behind else f"load<{vector}>"
        left = f"in_{o.pointer}[u]" if many else f"const auto in_{o.pointer}"
        lines.append(f"{deeper}{left} = {load}({o.pointer} + {place});")
    if many and read:
        lines.append("        }")
    lines += _each(unrolled, "        ") if many else []
    whole = str(vector % 4 == 0).lower()
    for o in names.masks:
        made = f"{o.pointer}.some<{vector}, {whole}>({place})"
        lines.append(f"{deeper}const auto in_{o.pointer} = {made};")
    lines += _vector_body(names, [(o, f"in_{o.pointer}{one}[k]") for o in operands], vector, deeper)
    lines += [
        f"{deeper}store_whole({o.pointer} + {place}, out_{o.pointer});" for o in names.outputs
    ]
    return [*lines, *(["        }"] if many else [])]


def _each(unrolled: int, indent: str) -> list[str]:
    return ["#pragma unroll", f"{indent}for (int u = 0; u < {unrolled}; u++) {{"]


def strided(
    group: FusionGroup,
    accesses: Sequence[ElementAccess],
    whole: Sequence[bool],
    vector: int,
    unrolled: int,
    rank: int,
    index: str,
) -> str:
    """A kernel whose operands have any strides; the innermost rows are whole vectors.

    whole  for each mask: the elements of a vector follow each other, from a multiple of 4 on
    """
    names = Names(group)
    sizes = ", ".join(
        f"{index} size{d}, {index} magic{d}, {index} shift{d}" for d in range(1, rank)
    )
    steps = ", ".join(
        f"{index} {o.pointer}_{d}" for o in (*names.inputs, *names.masks) for d in range(rank)
    )
    lines = _head(names, ", ".join(t for t in (f"{index} n", sizes, steps) if t))
    start = f"(({index})blockIdx.x * {model.BLOCK * unrolled} + threadIdx.x)"
    lines += [f"    const {index} first = {start}{f' * {vector}' if vector > 1 else ''};"]
    for o in names.inputs:
        lines.append(f"    Vector<{o.ctype}, {vector}> in_{o.pointer}[{unrolled}];")
    for o in names.masks:
        lines.append(f"    {index} of_{o.pointer}[{unrolled}];")
    lines += _each(unrolled, "    ")
    lines += [
        f"        const {index} i = first + u * {model.BLOCK * vector};",
        "        if (i >= n) break;",
    ]
    rest = "i"
    for d in range(rank - 1, 0, -1):
        lines += [
            f"        const {index} rest{d} = quotient({rest}, magic{d}, shift{d});",
            f"        const {index} at{d} = {rest} - rest{d} * size{d};",
        ]
        rest = f"rest{d}"
    lines += [f"        const {index} at0 = {rest};"]
    for o, access in zip(names.inputs, accesses, strict=True):
        lines += _fetch(o, access, vector, rank)
    lines += [f"        of_{o.pointer}[u] = {_place(o, rank)};" for o in names.masks]
    lines += ["    }", *_each(unrolled, "    ")]
    lines += [
        f"        const {index} i = first + u * {model.BLOCK * vector};",
        "        if (i >= n) return;",
    ]
    for o, together in zip(names.masks, whole, strict=True):
        p, flag = o.pointer, str(together).lower()
        lines.append(
            f"        const auto in_{p} = {p}.some<{vector}, {flag}>(of_{p}[u], {p}_{rank - 1});"
        )
    operands = [(o, f"in_{o.pointer}[u][k]") for o in names.inputs]
    lines += _vector_body(names, operands, vector, "        ")
    lines += [f"        store_whole({o.pointer} + i, out_{o.pointer});" for o in names.outputs]
    return "\n".join([*lines, "    }", "}", ""])


def _place(operand: FusedOperand, rank: int) -> str:
    return " + ".join(f"at{d} * {operand.pointer}_{d}" for d in range(rank))


def _fetch(operand: FusedOperand, access: ElementAccess, vector: int, rank: int) -> list[str]:
    """The statements that read V neighbours of an operand with any strides."""
    p = operand.pointer
    place = f"{p} + ({_place(operand, rank)})"
    if access.single:
        return [f"        in_{p}[u] = fill<{vector}>(*({place}));"]
    if not access.apart:
        return [f"        in_{p}[u] = load<{vector}>({place});"]
    return [
        f"        const {operand.ctype}* __restrict__ from_{p} = {place};",
        "#pragma unroll",
        f"        for (int k = 0; k < {vector}; k++)",
        f"            in_{p}[u][k] = from_{p}[k * {p}_{rank - 1}];",
    ]


def _head(names: Names, parameters: str) -> list[str]:
    bounds = f"__launch_bounds__({model.BLOCK})"
    text = f"fused({names.parameters}, {parameters}) {{"
    start = [f'extern "C" __global__ void {bounds}', text, "    take_turn();"]
    return [*names.includes, "", *start, *names.made_masks()]


def _vector_body(
    names: Names, read: Sequence[tuple[FusedOperand, str]], vector: int, indent: str
) -> list[str]:
    """The operations on V elements; `read` has operands and where their element k is."""
    deeper = indent + "    "
    lines = [f"{indent}Vector<{o.ctype}, {vector}> out_{o.pointer};" for o in names.outputs]
    lines += ["#pragma unroll", f"{indent}for (int k = 0; k < {vector}; k++) {{"]
    lines += fetched([o for o, _ in read], names, deeper, [place for _, place in read])
    lines += fetched(names.masks, names, deeper, [f"in_{o.pointer}[k]" for o in names.masks])
    lines += statements(names.group.nodes, names, deeper)
    lines += [
        f"{deeper}out_{o.pointer}[k] = to<{o.ctype}>({names.of[o.node]});" for o in names.outputs
    ]
    return [*lines, f"{indent}}}"]
